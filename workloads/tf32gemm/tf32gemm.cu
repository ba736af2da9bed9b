#include "../common/tensor.cuh"
// A product of matrices in single precision on tensor cores, which take the ten upper bits of fractions: C = A * B by
// rows. Three stages of cp.async; A comes to registers by ldmatrix, as pairs of 16 bits, B element by element from rows
// that are 72 elements apart, so that no banks conflict. Operands are rounded to nearest; mma alone would truncate them.

const int STAGES = 3, DEPTH = 16, A_BYTES = 64 * DEPTH * 4, B_PITCH = 72, STAGE = A_BYTES + DEPTH * B_PITCH * 4;

__device__ void multiply_tf32(float *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ unsigned rounded(float x)
{
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

__device__ unsigned place(int row, int piece)
{
    return row * 64 + (piece ^ row / 2 % 4) * 16;
}

// Begins the copies of a step; where there is none, an empty group keeps the count.
__device__ void fetch(unsigned base, const float *a, const float *b, int step, int n)
{
    if (step < n / DEPTH) {
        unsigned stage = base + step % STAGES * STAGE;
        for (int i = threadIdx.x; i < 256; i += 128) {
            copy(stage + place(i / 4, i % 4), &a[(blockIdx.y * 64 + i / 4) * n + step * DEPTH + i % 4 * 4]);
            copy(stage + A_BYTES + (i / 16 * B_PITCH + i % 16 * 4) * 4,
                 &b[(step * DEPTH + i / 16) * n + blockIdx.x * 64 + i % 16 * 4]);
        }
    }
    commit();
}

extern "C" __global__ void tf32gemm(const float *a, const float *b, float *c, int n)
{
    __shared__ __align__(128) unsigned char room[STAGES * STAGE];
    unsigned base = shared_base(room);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sums[2][4][4] = {};
    for (int step = 0; step < STAGES - 1; step++)
        fetch(base, a, b, step, n);
    for (int step = 0; step < n / DEPTH; step++) {
        wait<STAGES - 2>();
        __syncthreads();
        fetch(base, a, b, step + STAGES - 1, n);
        unsigned at = step % STAGES * STAGE;
        const float *of_b = (const float *)(room + at + A_BYTES) + warp % 2 * 32 + lane / 4;
#pragma unroll
        for (int part = 0; part < DEPTH / 8; part++) {
            unsigned x[2][4], y[4][2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                load(x[i], base + at + place(warp / 2 * 32 + 16 * i + lane % 16, 2 * part + lane / 16));
#pragma unroll
                for (int k = 0; k < 4; k++)
                    x[i][k] = rounded(__uint_as_float(x[i][k]));
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int k = 0; k < 2; k++)
                    y[j][k] = rounded(of_b[(8 * part + 4 * k + lane % 4) * B_PITCH + 8 * j]);
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    multiply_tf32(sums[i][j], x[i], y[j]);
        }
    }
    wait<0>();
    store_tile(&c[blockIdx.y * 64 * n + blockIdx.x * 64], n, sums);
}
