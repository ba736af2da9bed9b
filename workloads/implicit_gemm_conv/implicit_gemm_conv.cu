#include "../common/tensor.cuh"
// A convolution of images as a product of matrices that never lies in memory: a row of the left matrix is what the filter
// sees for one pixel of the result, a column of the right one a filter. Images lie by rows of pixels of channels, filters
// likewise. A step has 32 channels of one place of the filter; cp.async fetches them for 64 pixels and fills with zeros
// what is past the edge of the image or the last pixel.

const int STAGES = 3, CHANNELS = 32, TILE_BYTES = 64 * CHANNELS * 2, STAGE = 2 * TILE_BYTES;

struct Sizes {
    int batch, height, width, channels, filters, size, stride, pad, out_height, out_width;
};

__device__ unsigned place(int row, int piece)
{
    return row * 64 + (piece ^ row / 2 % 4) * 16;
}

// What a thread fetches: in each step a piece of two pixels and of two filters.
struct Source {
    const half_bits *image[2], *filter[2];
    int top[2], left[2];
};

// Begins the copies of a step; where there is none, an empty group keeps the count.
__device__ void fetch(unsigned base, const Source &from, const Sizes &s, int step, int steps)
{
    if (step < steps) {
        int blocks = s.channels / CHANNELS, channel = step % blocks * CHANNELS, at = step / blocks;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int y = from.top[i] + at / s.size, x = from.left[i] + at % s.size;
            bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
            unsigned to = base + step % STAGES * STAGE + place(threadIdx.x / 4 + 32 * i, threadIdx.x % 4);
            // Where nothing is read, the address is one that could be.
            int element = inside ? (y * s.width + x) * s.channels + channel : 0;
            copy_or_zero(to, from.image[i] + element, inside ? 16 : 0);
            copy(to + TILE_BYTES, from.filter[i] + step * CHANNELS);
        }
    }
    commit();
}

extern "C" __global__ void implicit_gemm_conv(const half_bits *image, const half_bits *filter, float *out, Sizes s)
{
    __shared__ __align__(128) unsigned char room[STAGES * STAGE];
    unsigned base = shared_base(room);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int pixels = s.batch * s.out_height * s.out_width, depth = s.size * s.size * s.channels;
    int steps = depth / CHANNELS;
    Source from;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = threadIdx.x / 4 + 32 * i, pixel = blockIdx.x * 64 + row, piece = threadIdx.x % 4;
        int x = pixel % s.out_width, y = pixel / s.out_width % s.out_height, z = pixel / s.out_width / s.out_height;
        // Past the last pixel every row is past the edge.
        from.top[i] = pixel < pixels ? y * s.stride - s.pad : s.height;
        from.left[i] = x * s.stride - s.pad;
        from.image[i] = &image[(pixel < pixels ? z : 0) * s.height * s.width * s.channels + piece * 8];
        from.filter[i] = &filter[(blockIdx.y * 64 + row) * depth + piece * 8];
    }
    float sums[2][4][4] = {};
    for (int step = 0; step < STAGES - 1; step++)
        fetch(base, from, s, step, steps);
    for (int step = 0; step < steps; step++) {
        wait<STAGES - 2>();
        __syncthreads();
        fetch(base, from, s, step + STAGES - 1, steps);
        unsigned stage = base + step % STAGES * STAGE;
#pragma unroll
        for (int part = 0; part < 2; part++) {
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
                    multiply(sums[i][j], x[i], &y[j / 2][j % 2 * 2]);
        }
    }
    wait<0>();
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int pixel = blockIdx.x * 64 + warp / 2 * 32 + 16 * i + lane / 4 + 8 * half;
            if (pixel < pixels)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    *(float2 *)&out[(long long)pixel * s.filters + blockIdx.y * 64 + warp % 2 * 32 + 8 * j
                                    + lane % 4 * 2] = make_float2(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
        }
}
