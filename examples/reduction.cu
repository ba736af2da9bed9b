// A sum over a grid by cooperative groups: tiles of a warp, a block, then the whole grid at once.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

__global__ void sum(const int *values, int n, int *partial, int *result) {
    __shared__ int of_tiles[32];
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    int own = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.num_threads())
        own += values[i];
    own = cg::reduce(tile, own, cg::plus<int>());
    if (tile.thread_rank() == 0)
        of_tiles[tile.meta_group_rank()] = own;
    block.sync();
    if (tile.meta_group_rank() == 0) {
        own = tile.thread_rank() < tile.meta_group_size() ? of_tiles[tile.thread_rank()] : 0;
        for (int offset = 16; offset > 0; offset /= 2)
            own += tile.shfl_down(own, offset);
        if (tile.thread_rank() == 0)
            partial[blockIdx.x] = own;
    }
    grid.sync();
    if (grid.thread_rank() == 0) {
        int all = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            all += partial[i];
        *result = all;
    }
}

int main() {
    const int n = 20000, threads = 128;
    int blocks = 0, multiprocessors = 0;
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum, threads, 0);
    const int most = blocks * multiprocessors;
    std::vector<int> values(n);
    int expected = 0;
    for (int i = 0; i < n; i++)
        expected += values[i] = i % 97;
    int *in, *partial, *out, result = 0;
    cudaMallocAsync(&in, n * sizeof(int), 0);
    cudaMallocAsync(&partial, most * sizeof(int), 0);
    cudaMallocAsync(&out, sizeof(int), 0);
    cudaMemcpy(in, values.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    void *arguments[] = {&in, (void *)&n, &partial, &out};
    cudaError_t ran = cudaLaunchCooperativeKernel(sum, dim3(16), dim3(threads), arguments, 0, 0);
    cudaMemcpy(&result, out, sizeof(int), cudaMemcpyDeviceToHost);
    cudaError_t refused = cudaLaunchCooperativeKernel(sum, dim3(most + 1), dim3(threads), arguments, 0, 0);
    cudaMemPool_t pool;
    unsigned long long used = 0;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used);
    cudaFreeAsync(in, 0);
    bool right = ran == cudaSuccess && result == expected && refused == cudaErrorCooperativeLaunchTooLarge;
    right = right && used == (n + most + 1) * sizeof(int);
    std::printf("%s: the sum is %d, then %s\n", right ? "PASS" : "FAIL", result, cudaGetErrorName(refused));
    return right ? 0 : 1;
}
