// Launches of one kernel, and one of another shape.
#include <cstdio>

__global__ void add(int *x) { atomicAdd(&x[blockIdx.x], threadIdx.x); }

int main() {
    int *x, sum = 0, out[40];
    cudaMalloc(&x, sizeof out);
    cudaMemset(x, 0, sizeof out);
    for (int i = 0; i < 40; i++) {
        add<<<32, 64>>>(x);
        cudaDeviceSynchronize();
    }
    add<<<40, 64>>>(x);
    cudaMemcpy(out, x, sizeof out, cudaMemcpyDeviceToHost);
    for (int value : out) sum += value;
    printf("%s: %d\n", cudaGetErrorName(cudaGetLastError()), sum);
    return sum != 2016 * (40 * 32 + 40);
}
