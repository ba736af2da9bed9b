#include "../common/tensor.cuh"
// A product of matrices of numbers of 8 bits (E4M3) with sums in single precision: A by rows, B by columns, so that both
// are read along k. Three stages of cp.async, 128 bytes of k each. On sm_90a one wgmma multiplies tiles of 64 where they
// lie; before, ldmatrix takes them to registers and each warp multiplies a quarter with mma.sync.

typedef unsigned char fp8_bits;

extern "C" __global__ void to_fp8(const float *from, unsigned short *to, int pairs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs)
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(to[i]) : "f"(from[2 * i + 1]), "f"(from[2 * i]));
}

const int STAGES = 3, TILE = 64, DEPTH = 128, TILE_BYTES = TILE * DEPTH, STAGE = 2 * TILE_BYTES;

// The swizzle of 128 bytes: pieces of 16 are exchanged in each eight rows.
__device__ unsigned place(int row, int piece)
{
    return row * DEPTH + (piece ^ row % 8) * 16;
}

// Begins the copies of a step; where there is none, an empty group keeps the count.
__device__ void fetch(unsigned base, const fp8_bits *a, const fp8_bits *b, int step, int n)
{
    if (step < n / DEPTH) {
        unsigned stage = base + step % STAGES * STAGE;
        for (int i = threadIdx.x; i < TILE * 8; i += 128) {
            unsigned to = stage + place(i / 8, i % 8);
            copy(to, &a[(blockIdx.y * TILE + i / 8) * n + step * DEPTH + i % 8 * 16]);
            copy(to + TILE_BYTES, &b[(blockIdx.x * TILE + i / 8) * n + step * DEPTH + i % 8 * 16]);
        }
    }
    commit();
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define D8(i)                                                                                                        \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),      \
        "+f"(d[i + 7])

// Eight rows of 128 bytes, then the next ones; swizzle of 128 bytes.
__device__ unsigned long long describe(unsigned at)
{
    return at >> 4 | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

__device__ void multiply_fp8(float *d, unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
                 "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "
                 "%31}, %32, %33, 1, 1, 1;"
                 : D8(0), D8(8), D8(16), D8(24) : "l"(a), "l"(b));
}

__device__ void multiply_stage(float *d, unsigned stage)
{
    // What was copied is read past the threads' own way to memory.
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int part = 0; part < DEPTH / 32; part++)
        multiply_fp8(d, describe(stage + part * 32), describe(stage + TILE_BYTES + part * 32));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ void store(float *c, int n, const float *d)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int j = 0; j < TILE / 8; j++) {
        float *to = &c[(16 * warp + lane / 4) * n + 8 * j + lane % 4 * 2];
        *(float2 *)to = make_float2(d[4 * j], d[4 * j + 1]);
        *(float2 *)(to + 8 * n) = make_float2(d[4 * j + 2], d[4 * j + 3]);
    }
}
#else
__device__ void multiply_fp8(float *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void multiply_stage(float *d, unsigned stage)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads();
#pragma unroll
    for (int part = 0; part < DEPTH / 32; part++) {
        unsigned x[2][4], y[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            load(x[i], stage + place(warp / 2 * 32 + 16 * i + lane % 16, 2 * part + lane / 16));
            load(y[i], stage + TILE_BYTES
                           + place(warp % 2 * 32 + 16 * i + lane / 16 * 8 + lane % 8, 2 * part + lane / 8 % 2));
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                multiply_fp8(d + 16 * i + 4 * j, x[i], &y[j / 2][j % 2 * 2]);
    }
}

__device__ void store(float *c, int n, const float *d)
{
    store_tile(c, n, (const float(*)[4][4])d);
}
#endif

extern "C" __global__ void fp8gemm(const fp8_bits *a, const fp8_bits *b, float *c, int n)
{
    extern __shared__ __align__(1024) unsigned char room[];
    unsigned base = shared_base(room);
    float d[32] = {};
    for (int step = 0; step < STAGES - 1; step++)
        fetch(base, a, b, step, n);
    for (int step = 0; step < n / DEPTH; step++) {
        wait<STAGES - 2>();
        multiply_stage(d, base + step % STAGES * STAGE);
        // The stage that is written next was multiplied in the step before, by all.
        __syncthreads();
        fetch(base, a, b, step + STAGES - 1, n);
    }
    wait<0>();
    store(&c[blockIdx.y * TILE * n + blockIdx.x * TILE], n, d);
}
