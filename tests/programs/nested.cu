// A kernel that launches another one, beside one that does not. Compiled with -rdc=true.
#include <cstdio>

__global__ void child(int *at) { at[threadIdx.x] = threadIdx.x; }

__global__ void parent(int *at) { child<<<1, 32>>>(at); }

int main() {
    int *device, last = 0;
    cudaMalloc(&device, 32 * sizeof(int));
    child<<<1, 32>>>(device);
    cudaMemcpy(&last, device + 31, sizeof last, cudaMemcpyDeviceToHost);
    printf("child: %s, %d\n", cudaGetErrorName(cudaGetLastError()), last);
    parent<<<1, 1>>>(device);
    printf("parent: %s\n", cudaGetErrorName(cudaGetLastError()));
    return 0;
}
