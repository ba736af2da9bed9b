// Clusters of blocks, by `__cluster_dims__` and by an attribute of the launch: blocks read each other's shared memory.
// nvcc -gencode arch=compute_90,code=compute_90 -o clusters examples/clusters.cu
// warpsim cuda --chip h100 -- ./clusters

#include <cooperative_groups.h>

#include <cstdio>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t status = (call);                                                                                   \
        if (status != cudaSuccess) {                                                                                   \
            std::printf("FAIL: %s: %s\n", #call, cudaGetErrorString(status));                                          \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

constexpr int THREADS = 64;

// Each block gives the values of its own threads to the block behind it in the cluster.
__device__ void rotate(const int *in, int *out, int *sizes) {
    namespace cg = cooperative_groups;
    __shared__ int values[THREADS];
    cg::cluster_group cluster = cg::this_cluster();
    int i = blockIdx.x * THREADS + threadIdx.x;
    values[threadIdx.x] = in[i];
    cluster.sync();
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    out[i] = cluster.map_shared_rank(values, next)[threadIdx.x];
    if (threadIdx.x == 0)
        sizes[blockIdx.x] = cluster.num_blocks();
    // No block ends before all have read its memory.
    cluster.sync();
}

__global__ void __cluster_dims__(4, 1, 1) fixed(const int *in, int *out, int *sizes) { rotate(in, out, sizes); }

__global__ void chosen(const int *in, int *out, int *sizes) { rotate(in, out, sizes); }

int main() {
    constexpr int blocks = 32, count = blocks * THREADS;
    std::vector<int> host(count), result(count), told(blocks);
    for (int i = 0; i < count; i++)
        host[i] = 3 * i;
    int *in, *out, *sizes;
    CHECK(cudaMalloc(&in, count * sizeof(int)));
    CHECK(cudaMalloc(&out, count * sizeof(int)));
    CHECK(cudaMalloc(&sizes, blocks * sizeof(int)));
    CHECK(cudaMemcpy(in, host.data(), count * sizeof(int), cudaMemcpyHostToDevice));

    auto is_right = [&](int size) {
        cudaMemcpy(result.data(), out, count * sizeof(int), cudaMemcpyDeviceToHost);
        cudaMemcpy(told.data(), sizes, blocks * sizeof(int), cudaMemcpyDeviceToHost);
        cudaMemset(out, 0, count * sizeof(int));
        for (int i = 0; i < count; i++) {
            int block = i / THREADS, first = block / size * size, next = first + (block - first + 1) % size;
            if (result[i] != host[next * THREADS + i % THREADS] || told[block] != size)
                return false;
        }
        return true;
    };

    fixed<<<blocks, THREADS>>>(in, out, sizes);
    CHECK(cudaGetLastError());
    bool right = is_right(4);

    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = THREADS;
    config.attrs = &attribute;
    config.numAttrs = 1;
    auto launch = [&](auto kernel, unsigned size) {
        attribute.val.clusterDim.x = size;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        cudaError_t status = cudaLaunchKernelEx(&config, kernel, (const int *)in, out, sizes);
        cudaGetLastError();
        return status;
    };
    for (unsigned size : {1, 2, 8}) {
        CHECK(launch(chosen, size));
        right = right && is_right(size);
    }

    // A size that does not divide the grid, one that only some chips have, one that is not the kernel's own.
    int refused = (launch(chosen, 3) == cudaErrorInvalidClusterSize) + (launch(chosen, 16) == cudaErrorInvalidClusterSize) +
                  (launch(fixed, 2) == cudaErrorInvalidClusterSize);
    CHECK(launch(fixed, 4));
    right = right && is_right(4);
    int portable, largest, active;
    CHECK(cudaOccupancyMaxPotentialClusterSize(&portable, chosen, &config));
    CHECK(cudaFuncSetAttribute(chosen, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    CHECK(cudaOccupancyMaxPotentialClusterSize(&largest, chosen, &config));
    CHECK(launch(chosen, 16));
    right = right && is_right(16);
    CHECK(cudaOccupancyMaxActiveClusters(&active, chosen, &config));

    std::printf("%s: %d refused, clusters of %d or %d blocks, %d clusters of 16 at a time\n", right ? "PASS" : "FAIL",
                refused, portable, largest, active);
    return right ? 0 : 1;
}
