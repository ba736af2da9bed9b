#pragma once
#include "../common/tensor.cuh"
// Attention without the matrix of scores: a block holds 64 queries of a head, goes over the keys and values a tile at a
// time, and keeps for each query the greatest score, the sum of exponentials and the weighted sum of values so far
// (Dao, FlashAttention-2, arXiv 2307.08691, algorithm 1). cp.async brings the tiles in two stages, ldmatrix takes them
// to registers, mma.sync multiplies halves with sums in single precision. Scores never leave the registers: the layout
// of a product's result is that of the next product's left operand.

const int QUERIES = 64, TILE_BYTES = 8192;

__device__ unsigned two_halves(float low, float high)
{
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

__device__ float power_of_two(float x)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

__device__ float logarithm(float x)
{
    float r;
    asm("lg2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// Of a row of DEPTH halves the byte of a piece of 16; pieces are exchanged so that eight rows touch all banks.
template <int DEPTH> __device__ unsigned place(int row, int piece)
{
    return row * (2 * DEPTH) + (piece ^ row % 8) * 16;
}

template <int DEPTH> __device__ void fetch(unsigned to, const half_bits *from, int rows)
{
    for (int i = threadIdx.x; i < rows * (DEPTH / 8); i += 128) {
        int row = i / (DEPTH / 8), piece = i % (DEPTH / 8);
        copy(to + place<DEPTH>(row, piece), &from[row * DEPTH + piece * 8]);
    }
}

template <int DEPTH, bool CAUSAL>
__device__ void attend(unsigned base, const half_bits *q, const half_bits *k, const half_bits *v, half_bits *o,
                       float *lse, int length)
{
    const int KEYS = TILE_BYTES / (2 * DEPTH), STEPS = DEPTH / 16;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Where rows have unequal work, the longest begin.
    int first = (CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * QUERIES;
    long long head = (long long)blockIdx.y * length * DEPTH;
    q += head, k += head, v += head, o += head, lse += blockIdx.y * length;
    unsigned tiles = base + QUERIES * DEPTH * 2;
    int count = (CAUSAL ? first + QUERIES : length) / KEYS;

    fetch<DEPTH>(base, q + first * DEPTH, QUERIES);
    fetch<DEPTH>(tiles, k, KEYS);
    fetch<DEPTH>(tiles + TILE_BYTES, v, KEYS);
    commit();
    unsigned queries[STEPS][4];
    float sums[DEPTH / 8][4] = {}, greatest[2] = {-1e30f, -1e30f}, total[2] = {};
    // Scores are divided by the root of the depth; powers of two are what the hardware has.
    const float scale = DEPTH == 64 ? 0.125f : 0.0883883476f, factor = scale * 1.44269504f;
    for (int tile = 0; tile < count; tile++) {
        if (tile + 1 < count) {
            unsigned next = tiles + (tile + 1) % 2 * 2 * TILE_BYTES;
            fetch<DEPTH>(next, k + (tile + 1) * KEYS * DEPTH, KEYS);
            fetch<DEPTH>(next + TILE_BYTES, v + (tile + 1) * KEYS * DEPTH, KEYS);
        }
        commit();
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        if (tile == 0) {
#pragma unroll
            for (int s = 0; s < STEPS; s++)
                load(queries[s], base + place<DEPTH>(16 * warp + lane % 16, 2 * s + lane / 16));
        }
        unsigned keys = tiles + tile % 2 * 2 * TILE_BYTES, values = keys + TILE_BYTES;
        float scores[KEYS / 8][4] = {};
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                unsigned b[4];
                load(b, keys + place<DEPTH>(16 * n + lane / 16 * 8 + lane % 8, 2 * s + lane / 8 % 2));
                multiply(scores[2 * n], queries[s], b);
                multiply(scores[2 * n + 1], queries[s], b + 2);
            }
        // Only tiles that reach past the first query have keys that come after a query.
        if (CAUSAL && (tile + 1) * KEYS > first + 16 * warp) {
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int key = tile * KEYS + 8 * n + lane % 4 * 2 + i % 2;
                    int query = first + 16 * warp + lane / 4 + i / 2 * 8;
                    scores[n][i] = key > query ? -1e30f : scores[n][i];
                }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float most = greatest[half];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
                most = fmaxf(most, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
            // Four neighbours have a row.
            most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
            most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
            float shrink = power_of_two((greatest[half] - most) * factor), offset = -most * factor;
            greatest[half] = most;
            total[half] *= shrink;
#pragma unroll
            for (int n = 0; n < DEPTH / 8; n++) {
                sums[n][2 * half] *= shrink;
                sums[n][2 * half + 1] *= shrink;
            }
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    scores[n][i] = power_of_two(__fmaf_rn(scores[n][i], factor, offset));
                    total[half] += scores[n][i];
                }
        }
#pragma unroll
        for (int s = 0; s < KEYS / 16; s++) {
            const float *low = scores[2 * s], *high = scores[2 * s + 1];
            unsigned a[4] = {two_halves(low[0], low[1]), two_halves(low[2], low[3]), two_halves(high[0], high[1]),
                             two_halves(high[2], high[3])};
#pragma unroll
            for (int n = 0; n < DEPTH / 16; n++) {
                unsigned b[4];
                load_transposed(b, values + place<DEPTH>(16 * s + lane % 16, 2 * n + lane / 16));
                multiply(sums[2 * n], a, b);
                multiply(sums[2 * n + 1], a, b + 2);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float all = total[half];
        all += __shfl_xor_sync(0xffffffff, all, 1);
        all += __shfl_xor_sync(0xffffffff, all, 2);
        int row = first + 16 * warp + lane / 4 + 8 * half;
        float part = 1.0f / all;
#pragma unroll
        for (int n = 0; n < DEPTH / 8; n++)
            *(unsigned *)&o[row * DEPTH + 8 * n + lane % 4 * 2] =
                two_halves(sums[n][2 * half] * part, sums[n][2 * half + 1] * part);
        if (lane % 4 == 0)
            lse[row] = __fmaf_rn(logarithm(all), 0.69314718f, greatest[half] * scale);
    }
}

// Queries, keys and values by head, position and depth, which is 64 or 128; of each query the logarithm of its sum of
// exponentials too, which the way back needs. A query sees the keys up to its own position, or all.
#define ATTENTION(NAME, DEPTH)                                                                                       \
    extern "C" __global__ void NAME(const half_bits *q, const half_bits *k, const half_bits *v, half_bits *o,        \
                                    float *lse, int length, int causal)                                              \
    {                                                                                                                \
        __shared__ __align__(128) unsigned char room[QUERIES * DEPTH * 2 + 4 * TILE_BYTES];                          \
        unsigned base = shared_base(room);                                                    \
        if (causal)                                                                                                  \
            attend<DEPTH, true>(base, q, k, v, o, lse, length);                                                      \
        else                                                                                                         \
            attend<DEPTH, false>(base, q, k, v, o, lse, length);                                                     \
    }
