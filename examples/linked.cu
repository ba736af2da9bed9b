// One of two translation units, compiled with -rdc=true and linked: it uses what linked_other.cu defines.
#include <cstdio>

extern __device__ int table[4];
extern __device__ int twice(int x);
__device__ int own = 5;
static __constant__ int step = 10;

// Both units have a function of this name, each its own.
static __device__ __noinline__ int part(int x) { return x + step; }

__global__ void here(int *out) { out[threadIdx.x] = twice(table[threadIdx.x]) + part(own); }

void there(int *out);

int main() {
    int *out, first[4], second[4];
    cudaMalloc(&out, sizeof first);
    here<<<1, 4>>>(out);
    cudaMemcpy(first, out, sizeof first, cudaMemcpyDeviceToHost);
    there(out);
    cudaError_t error = cudaMemcpy(second, out, sizeof second, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < 4; i++)
        wrong += (first[i] != 2 * (i + 1) + 15) + (second[i] != 1000 * (i + 1) + 5);
    bool right = error == cudaSuccess && wrong == 0;
    std::printf("%s: %d are wrong\n", right ? "PASS" : "FAIL", wrong);
    return right ? 0 : 1;
}
