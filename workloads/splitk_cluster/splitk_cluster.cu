#include "../common/prelude.cuh"
#include "../common/cluster.cuh"
#include "../common/tensor.cuh"
// A product of matrices of halves that is small and deep: the blocks of a cluster share the depth of one tile of 64 by 64
// among them, each leaves its sums in its shared memory, and then each adds up some rows of all of them, the block of
// rank 0 first.

const int DEPTH = 32, A_BYTES = 64 * DEPTH * 2, STAGES = 3, STAGE = 2 * A_BYTES, PITCH = 68;

__device__ unsigned place_a(int row, int piece)
{
    return row * 64 + (piece ^ row / 2 % 4) * 16;
}

__device__ unsigned place_b(int row, int piece)
{
    return A_BYTES + row * 128 + (piece ^ row % 8) * 16;
}

// Begins the copies of a step; where there is none, an empty group keeps the count.
__device__ void fetch(unsigned base, const half_bits *a, const half_bits *b, int step, int steps, int n, int depth)
{
    if (step < steps) {
        unsigned stage = base + step % STAGES * STAGE;
        int k = (blockIdx.z * steps + step) * DEPTH;
        for (int i = threadIdx.x; i < 256; i += 128) {
            copy(stage + place_a(i / 4, i % 4), &a[(blockIdx.y * 64 + i / 4) * depth + k + i % 4 * 8]);
            copy(stage + place_b(i / 8, i % 8), &b[(k + i / 8) * n + blockIdx.x * 64 + i % 8 * 8]);
        }
    }
    commit();
}

extern "C" __global__ void splitk_cluster(const half_bits *a, const half_bits *b, float *c, int n, int depth)
{
    __shared__ __align__(128) unsigned char room[STAGES * STAGE];
    unsigned base = shared_base(room), blocks = cluster_blocks(), rank = cluster_rank();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, steps = depth / (int)blocks / DEPTH;
    float sums[2][4][4] = {};
    for (int step = 0; step < STAGES - 1; step++)
        fetch(base, a, b, step, steps, n, depth);
    for (int step = 0; step < steps; step++) {
        wait<STAGES - 2>();
        __syncthreads();
        fetch(base, a, b, step + STAGES - 1, steps, n, depth);
        unsigned stage = base + step % STAGES * STAGE;
#pragma unroll
        for (int part = 0; part < 2; part++) {
            unsigned x[2][4], y[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                load(x[i], stage + place_a(warp / 2 * 32 + 16 * i + lane % 16, 2 * part + lane / 16));
                load_transposed(y[i], stage + place_b(16 * part + lane % 16, warp % 2 * 4 + 2 * i + lane / 16));
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    multiply(sums[i][j], x[i], &y[j / 2][j % 2 * 2]);
        }
    }
    wait<0>();
    // The sums lie where the stages were.
    __syncthreads();
    store_tile((float *)room, PITCH, sums);
    cluster_sync();
    int rows = 64 / blocks;
    for (int i = threadIdx.x; i < rows * 64; i += 128) {
        int row = rank * rows + i / 64;
        unsigned at = base + (row * PITCH + i % 64) * 4;
        float sum = 0;
        for (unsigned other = 0; other < blocks; other++)
            sum += __uint_as_float(cluster_load(of_rank(at, other)));
        c[(blockIdx.y * 64 + row) * n + blockIdx.x * 64 + i % 64] = sum;
    }
    // None leaves while others read what it has.
    cluster_sync();
}
