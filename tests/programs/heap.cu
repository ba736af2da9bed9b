// Limits of the device: threads allocate more than the heap has at first, in one kernel, and free it in another; lines
// find no room in a small buffer.
#include <cstdio>
#include <cuda_runtime.h>

__device__ int *pieces[40];

__global__ void take() {
  int *piece = (int *)malloc(1000000);
  pieces[threadIdx.x] = piece;
  if (!piece) return;
  piece[0] = threadIdx.x;
  piece[249999] = 2 * threadIdx.x;
}

__global__ void give(int *sums) {
  int *piece = pieces[threadIdx.x];
  if (!piece) return;
  sums[threadIdx.x] = piece[0] + piece[249999];
  free(piece);
}

__global__ void speak() { printf("%d\n", threadIdx.x); }

static void limit(const char *what, cudaLimit limit, size_t bytes) {
  size_t now = 0;
  cudaError_t error = cudaDeviceSetLimit(limit, bytes);
  cudaDeviceGetLimit(&now, limit);
  printf("%s: %s, %zu\n", what, cudaGetErrorName(error), now);
}

int main() {
  int *sums, host[40] = {}, count = 0, wrong = 0;
  cudaMalloc(&sums, sizeof host);
  cudaMemset(sums, 0, sizeof host);
  limit("heap", cudaLimitMallocHeapSize, 32 << 20);
  limit("more than there is", cudaLimitMallocHeapSize, size_t(1) << 50);
  limit("buffer", cudaLimitPrintfFifoSize, 24 * 8);
  for (int i = 0; i < 2; i++) {
    take<<<1, 40>>>();
    give<<<1, 40>>>(sums);
  }
  cudaError_t error = cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 40; i++) {
    count += host[i] != 0;
    wrong += host[i] != 0 && host[i] != 3 * i;
  }
  printf("%d pieces, %d wrong: %s\n", count, wrong, cudaGetErrorName(error));
  limit("in use", cudaLimitMallocHeapSize, 64 << 20);
  speak<<<1, 32>>>();
  cudaDeviceSynchronize();
  return 0;
}
