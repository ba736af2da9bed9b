// A product of matrices in half precision with sums in single precision: cp.async brings tiles of 64 by 32 and 32 by
// 64 halves to shared memory, four stages deep, ldmatrix takes them to registers and mma.sync multiplies them. Pieces
// of 16 bytes are exchanged within rows, so that no banks conflict.

typedef unsigned short half_bits;

extern "C" __global__ void to_half(const float *from, half_bits *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[i]) : "f"(from[i]));
}

const int STAGES = 4, DEPTH = 32, A_BYTES = 64 * DEPTH * 2, STAGE_BYTES = 2 * A_BYTES;

__device__ void copy(unsigned to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
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

// Byte of a piece of 16 bytes in a row of A (four pieces) or B (eight).
__device__ unsigned place_a(int row, int piece)
{
    return row * 64 + (piece ^ row / 2 % 4) * 16;
}

__device__ unsigned place_b(int row, int piece)
{
    return A_BYTES + row * 128 + (piece ^ row % 8) * 16;
}

// Begins the copies of a step; where there is none, an empty group keeps the count.
__device__ void fetch(unsigned base, const half_bits *a, const half_bits *b, int step, int n)
{
    if (step < n / DEPTH) {
        unsigned stage = base + step % STAGES * STAGE_BYTES;
        for (int i = threadIdx.x; i < 256; i += 128) {
            copy(stage + place_a(i / 4, i % 4), &a[(blockIdx.y * 64 + i / 4) * n + step * DEPTH + i % 4 * 8]);
            copy(stage + place_b(i / 8, i % 8), &b[(step * DEPTH + i / 8) * n + blockIdx.x * 64 + i % 8 * 8]);
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void hgemm_mma(const half_bits *a, const half_bits *b, float *c, int n)
{
    __shared__ __align__(128) unsigned char room[STAGES * STAGE_BYTES];
    unsigned base = (unsigned)__cvta_generic_to_shared(room);
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int row = blockIdx.y * 64, column = blockIdx.x * 64;
    int own_row = warp / 2 * 32, own_column = warp % 2 * 32;
    int steps = n / DEPTH;
    float sums[2][4][4] = {};
    for (int step = 0; step < STAGES - 1; step++)
        fetch(base, a, b, step, n);
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();
        fetch(base, a, b, step + STAGES - 1, n);
        unsigned stage = base + step % STAGES * STAGE_BYTES;
#pragma unroll
        for (int part = 0; part < 2; part++) {
            unsigned of_a[2][4], of_b[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                load(of_a[i], stage + place_a(own_row + 16 * i + lane % 16, 2 * part + lane / 16));
                load_transposed(of_b[i], stage + place_b(16 * part + lane % 16, own_column / 8 + 2 * i + lane / 16));
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    multiply(sums[i][j], of_a[i], &of_b[j / 2][j % 2 * 2]);
        }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float *to = &c[(row + own_row + 16 * i + lane / 4) * n + column + own_column + 8 * j + lane % 4 * 2];
            *(float2 *)to = make_float2(sums[i][j][0], sums[i][j][1]);
            *(float2 *)(to + 8 * n) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
}
