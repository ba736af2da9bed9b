// Two launches with a race: a word of shared memory that all threads read is written again without a barrier between.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void racy(int *out) {
    __shared__ int word;
    if (threadIdx.x == 0)
        word = 1;
    __syncthreads();
    out[threadIdx.x] = word;
    if (threadIdx.x == 0)
        word = 2;
}

int main(int count, char **) {
    int *out, sum = 0, values[64];
    cudaMalloc(&out, sizeof values);
    for (int i = 0; i < 2; i++)
        racy<<<1, 64>>>(out);
    cudaMemcpy(values, out, sizeof values, cudaMemcpyDeviceToHost);
    for (int value : values)
        sum += value;
    std::printf("%d\n", sum);
    return count > 1 ? 7 : 0;
}
