// A five-point stencil on two streams with events: run it by
//   nvcc -cudart shared -gencode arch=compute_75,code=compute_75 -o stencil examples/stencil.cu
//   warpsim cuda -- ./stencil
#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                                                                  \
    do {                                                                                             \
        cudaError_t status = (call);                                                                 \
        if (status != cudaSuccess) {                                                                 \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status));              \
            return 1;                                                                                \
        }                                                                                            \
    } while (0)

__constant__ float weight;

__global__ void stencil(const float *in, float *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1)
        return;
    const float *at = in + y * width + x;
    out[y * width + x] = weight * (at[-1] + at[1] + at[-width] + at[width] - 4.0f * at[0]) + at[0];
}

int main() {
    const int width = 128, height = 64, steps = 4;
    const size_t bytes = width * height * sizeof(float);
    std::vector<float> host(width * height), expected(width * height);
    for (int i = 0; i < width * height; i++)
        host[i] = expected[i] = float(i * 37 % 101) / 101.0f;
    const float own = 0.2f;
    CHECK(cudaMemcpyToSymbol(weight, &own, sizeof own));
    float *device[2][2];
    cudaStream_t streams[2];
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int s = 0; s < 2; s++) {
        CHECK(cudaStreamCreate(&streams[s]));
        for (int b = 0; b < 2; b++) {
            CHECK(cudaMalloc(&device[s][b], bytes));
            CHECK(cudaMemcpyAsync(device[s][b], host.data(), bytes, cudaMemcpyHostToDevice, streams[s]));
        }
    }
    dim3 block(32, 8), grid(width / block.x, height / block.y);
    CHECK(cudaEventRecord(begin));
    for (int step = 0; step < steps; step++)
        for (int s = 0; s < 2; s++)
            stencil<<<grid, block, 0, streams[s]>>>(device[s][step % 2], device[s][1 - step % 2], width, height);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    for (int step = 0; step < steps; step++) {
        std::vector<float> before = expected;
        for (int y = 1; y < height - 1; y++)
            for (int x = 1; x < width - 1; x++) {
                const float *at = &before[y * width + x];
                expected[y * width + x] = own * (at[-1] + at[1] + at[-width] + at[width] - 4.0f * at[0]) + at[0];
            }
    }
    for (int s = 0; s < 2; s++) {
        CHECK(cudaMemcpy(host.data(), device[s][steps % 2], bytes, cudaMemcpyDeviceToHost));
        for (int i = 0; i < width * height; i++)
            if (std::fabs(host[i] - expected[i]) > 1e-5f) {
                std::printf("FAIL: stream %d, cell %d: %g, expected %g\n", s, i, host[i], expected[i]);
                return 1;
            }
    }
    std::printf("PASS: time is simulated: %s\n", milliseconds > 0 ? "yes" : "no");
    return 0;
}
