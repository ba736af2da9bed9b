#include "../common/tensor.cuh"
// A product of matrices in half precision of which the left one keeps two of every four neighbours in a row. `compress`
// keeps the two greatest and says where they were, in the words that the lanes of mma.sp read: a word of lane L has the
// rows L / 4 (its low half) and L / 4 + 8 (its high half) of 16, columns 16 * (L % 4) on of 64, two bits an element. Lanes
// of even and odd pairs serve one product of depth 32 each, which its selector chooses.

extern "C" __global__ void compress(const float *a, half_bits *kept, unsigned short *places, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * n / 16)
        return;
    int row = i / (n / 16), part = i % (n / 16);
    unsigned bits = 0;
    for (int group = 0; group < 4; group++) {
        const float *four = &a[row * n + 16 * part + 4 * group];
        int first = 0;
        for (int k = 1; k < 4; k++)
            first = fabsf(four[k]) > fabsf(four[first]) ? k : first;
        int second = first == 0;
        for (int k = second + 1; k < 4; k++)
            second = k != first && fabsf(four[k]) > fabsf(four[second]) ? k : second;
        int low = min(first, second), high = max(first, second);
        half_bits *to = &kept[row * (n / 2) + 8 * part + 2 * group];
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[0]) : "f"(four[low]));
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[1]) : "f"(four[high]));
        bits |= (low | high << 2) << 4 * group;
    }
    int word = (row / 16 * (n / 64) + part / 4) * 32 + row % 8 * 4 + part % 4;
    places[2 * word + row / 8 % 2] = bits;
}

extern "C" __global__ void to_half(const float *from, half_bits *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[i]) : "f"(from[i]));
}

// From 9.0 on, places in rising order are a promise of the instruction's name.
#if __CUDA_ARCH__ >= 900
#define SPARSE "mma.sp::ordered_metadata"
#else
#define SPARSE "mma.sp"
#endif

template <int PAIR> __device__ void multiply_sparse(float *d, const unsigned *a, const unsigned *b, unsigned places)
{
    asm volatile(SPARSE ".sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(places),
                   "n"(PAIR));
}

// A step has 64 elements of depth, of which A keeps 32.
const int STAGES = 3, DEPTH = 64, A_BYTES = 64 * DEPTH, STAGE = A_BYTES + DEPTH * 64 * 2;

__device__ unsigned place_a(int row, int piece)
{
    return row * 64 + (piece ^ row / 2 % 4) * 16;
}

__device__ unsigned place_b(int row, int piece)
{
    return A_BYTES + row * 128 + (piece ^ row % 8) * 16;
}

// Begins the copies of a step; where there is none, an empty group keeps the count.
__device__ void fetch(unsigned base, const half_bits *kept, const half_bits *b, int step, int n)
{
    if (step < n / DEPTH) {
        unsigned stage = base + step % STAGES * STAGE;
        for (int i = threadIdx.x; i < 256; i += 128)
            copy(stage + place_a(i / 4, i % 4),
                 &kept[(blockIdx.y * 64 + i / 4) * (n / 2) + step * (DEPTH / 2) + i % 4 * 8]);
        for (int i = threadIdx.x; i < 512; i += 128)
            copy(stage + place_b(i / 8, i % 8), &b[(step * DEPTH + i / 8) * n + blockIdx.x * 64 + i % 8 * 8]);
    }
    commit();
}

template <int PAIR>
__device__ void multiply_half(float sums[2][4][4], unsigned stage, const unsigned *places)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned x[2][4], y[4];
#pragma unroll
    for (int i = 0; i < 2; i++)
        load(x[i], stage + place_a(warp / 2 * 32 + 16 * i + lane % 16, 2 * PAIR + lane / 16));
#pragma unroll
    for (int j = 0; j < 4; j++) {
        load_transposed(y, stage + place_b(32 * PAIR + lane, warp % 2 * 4 + j));
#pragma unroll
        for (int i = 0; i < 2; i++)
            multiply_sparse<PAIR>(sums[i][j], x[i], y, places[i]);
    }
}

extern "C" __global__ void sparse_gemm(const half_bits *kept, const unsigned *places, const half_bits *b, float *c,
                                       int n)
{
    __shared__ __align__(128) unsigned char room[STAGES * STAGE];
    unsigned base = shared_base(room);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, steps = n / DEPTH;
    const unsigned *own = &places[(blockIdx.y * 4 + warp / 2 * 2) * steps * 32 + lane];
    float sums[2][4][4] = {};
    for (int step = 0; step < STAGES - 1; step++)
        fetch(base, kept, b, step, n);
    for (int step = 0; step < steps; step++) {
        unsigned words[2] = {own[step * 32], own[(steps + step) * 32]};
        wait<STAGES - 2>();
        __syncthreads();
        fetch(base, kept, b, step + STAGES - 1, n);
        unsigned stage = base + step % STAGES * STAGE;
        multiply_half<0>(sums, stage, words);
        multiply_half<1>(sums, stage, words);
    }
    wait<0>();
    store_tile(&c[blockIdx.y * 64 * n + blockIdx.x * 64], n, sums);
}
