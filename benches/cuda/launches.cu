// What do launches cost through CUDA's runtime? `launches empty N`: N launches of a kernel that does nothing, each waited
// for; `launches busy N`: a program that copies, launches N kernels with work, records events and copies back. Prints the
// seconds of the host between the first call and the last, without what happens once (the device, the module).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t status = (call);                                                    \
        if (status != cudaSuccess) {                                                    \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));             \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

__global__ void empty(const float *) {}

__global__ void busy(float *at, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = at[i];
    for (int round = 0; round < rounds; round++) x = x * 0.5f + 1.0f;
    at[i] = x;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    const bool works = !strcmp(arguments[1], "busy");
    const int launches = atoi(arguments[2]), blocks = 136, threads = 256, n = blocks * threads;
    std::vector<float> host(n, 4.0f);
    float *device;
    cudaEvent_t start, end;
    CHECK(cudaMalloc(&device, n * sizeof(float)));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    empty<<<1, 64>>>(device);
    CHECK(cudaDeviceSynchronize());

    auto before = std::chrono::steady_clock::now();
    if (works) {
        CHECK(cudaMemcpy(device, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaEventRecord(start));
        for (int i = 0; i < launches; i++) busy<<<blocks, threads>>>(device, 100);
        CHECK(cudaEventRecord(end));
        CHECK(cudaMemcpy(host.data(), device, n * sizeof(float), cudaMemcpyDeviceToHost));
    } else {
        for (int i = 0; i < launches; i++) {
            empty<<<1, 64>>>(device);
            CHECK(cudaDeviceSynchronize());
        }
    }
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - before;
    if (works && host[n - 1] != 2.0f) return 3;
    printf("seconds %.9f\n", seconds.count());
    return 0;
}
