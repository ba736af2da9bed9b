// What kernels for tensor cores of compute capability 8.0 and later are made of.
#pragma once

typedef unsigned short half_bits;

// The address in shared memory of what a generic pointer leads to.
__device__ unsigned shared_base(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void copy(unsigned to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}

// Copies the first `bytes` of 16; the others become zero.
__device__ void copy_or_zero(unsigned to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
}

__device__ void load(unsigned *f, unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) : "r"(from) : "memory");
}

__device__ void load_transposed(unsigned *f, unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) : "r"(from) : "memory");
}

__device__ void multiply(float *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int GROUPS> __device__ void wait()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(GROUPS) : "memory");
}

// What a warp of a block of 64 by 64 has of it: two rows of fragments by four columns, 32 by 32 elements.
__device__ void store_tile(float *c, int pitch, const float sums[2][4][4])
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float *to = &c[(warp / 2 * 32 + 16 * i + lane / 4) * pitch + warp % 2 * 32 + 8 * j + lane % 4 * 2];
            *(float2 *)to = make_float2(sums[i][j][0], sums[i][j][1]);
            *(float2 *)(to + 8 * pitch) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
}
