// A product of matrices in half precision with sums in single precision by warpgroups: cp.async brings tiles of 64 by 64
// halves to shared memory, three stages deep, and wgmma multiplies them where they lie. Rows have 128 bytes, whose
// pieces of 16 bytes are exchanged as descriptors of that swizzle say: rows of A go along K, those of B along N.

typedef unsigned short half_bits;

extern "C" __global__ void to_half(const float *from, half_bits *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[i]) : "f"(from[i]));
}

const int STAGES = 3, TILE = 64, TILE_BYTES = TILE * TILE * 2, STAGE_BYTES = 2 * TILE_BYTES;

__device__ void copy(unsigned to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}

// Eight rows of 128 bytes, then the next ones; swizzle of 128 bytes.
__device__ unsigned long long describe(unsigned at)
{
    return at >> 4 | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

// Begins the copies of a step; where there is none, an empty group keeps the count.
__device__ void fetch(unsigned base, const half_bits *a, const half_bits *b, int step, int n)
{
    if (step < n / TILE) {
        unsigned stage = base + step % STAGES * STAGE_BYTES;
        for (int i = threadIdx.x; i < TILE * 8; i += 128) {
            int row = i / 8, piece = i % 8;
            unsigned place = row * 128 + (piece ^ row % 8) * 16;
            copy(stage + place, &a[(blockIdx.y * TILE + row) * n + step * TILE + piece * 8]);
            copy(stage + TILE_BYTES + place, &b[(step * TILE + row) * n + blockIdx.x * TILE + piece * 8]);
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

#define D8(i)                                                                                                        \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),      \
        "+f"(d[i + 7])

__device__ void multiply(float *d, unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, 1, 1, 1, 0, 1;"
                 : D8(0), D8(8), D8(16), D8(24) : "l"(a), "l"(b));
}

extern "C" __global__ void hgemm_wgmma(const half_bits *a, const half_bits *b, float *c, int n)
{
    extern __shared__ __align__(1024) unsigned char room[];
    unsigned base = (unsigned)__cvta_generic_to_shared(room);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int steps = n / TILE;
    float d[32] = {};
    for (int step = 0; step < STAGES - 1; step++)
        fetch(base, a, b, step, n);
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        // What was copied is read past the threads' own way to memory.
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        unsigned stage = base + step % STAGES * STAGE_BYTES;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int part = 0; part < TILE / 16; part++)
            multiply(d, describe(stage + part * 32), describe(stage + TILE_BYTES + part * 16 * 128));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        // The stage that is written next was multiplied in the step before.
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
        fetch(base, a, b, step + STAGES - 1, n);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    int row = blockIdx.y * TILE + 16 * warp + lane / 4, column = blockIdx.x * TILE + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < TILE / 8; j++) {
        float *to = &c[row * n + column + 8 * j];
        *(float2 *)to = make_float2(d[4 * j], d[4 * j + 1]);
        *(float2 *)(to + 8 * n) = make_float2(d[4 * j + 2], d[4 * j + 3]);
    }
}
