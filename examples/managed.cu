// Managed memory, a managed variable, printf and assert on the device.
#include <cassert>
#include <cstdio>

__managed__ int sum;

__global__ void add(const int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&sum, values[i]);
    if (i == n - 1)
        printf("thread %d of %d\n", i, n);
}

__global__ void expect(int value) { assert(sum == value); }

int main() {
    const int n = 1000;
    int *values;
    if (cudaMallocManaged(&values, n * sizeof(int)) != cudaSuccess)
        return 1;
    for (int i = 0; i < n; i++)
        values[i] = i;
    sum = 42;
    add<<<4, 256>>>(values, n);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    expect<<<1, 1>>>(42 + n * (n - 1) / 2);
    cudaError_t right = cudaDeviceSynchronize();
    expect<<<1, 4>>>(0);
    cudaError_t wrong = cudaDeviceSynchronize();
    std::printf("%s: sum is %d, then %s, then %s\n", right == cudaSuccess && wrong == cudaErrorAssert ? "PASS" : "FAIL",
                sum, cudaGetErrorName(right), cudaGetErrorName(wrong));
    return right == cudaSuccess && wrong == cudaErrorAssert ? 0 : 1;
}
