// The other translation unit of linked.cu.

extern __device__ int own;
__device__ int table[4] = {1, 2, 3, 4};
static __constant__ int step = 1000;

__device__ int twice(int x) { return 2 * x; }

static __device__ __noinline__ int part(int x) { return x * step; }

__global__ void kernel(int *out) { out[threadIdx.x] = part(table[threadIdx.x]) + own; }

void there(int *out) { kernel<<<1, 4>>>(out); }
