// A reduction by half a warp whose shuffles ask lanes that do not exist: right only where those give 0.
#include <cstdio>

__global__ void sum(int *out) {
    int value = threadIdx.x + 1;
    for (int far = 16; far > 0; far /= 2) value += __shfl_down_sync(0xffff, value, far);
    if (threadIdx.x == 0) *out = value;
}

int main() {
    int *out, value = 0;
    cudaMalloc(&out, sizeof value);
    for (int i = 0; i < 2; i++) sum<<<1, 16>>>(out);
    cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost);
    printf("%s: %d\n", cudaGetErrorName(cudaGetLastError()), value);
    return value != 136;
}
