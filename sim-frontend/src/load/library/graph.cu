// The condition of a node of a graph. Its handle is the address of a word of global memory, which the host reads when
// the kernels before the node have ended.
#define __device__ __attribute__((device))
typedef unsigned int u32;
typedef unsigned long long u64;
typedef __SIZE_TYPE__ word;
extern "C" __device__ void cudaGraphSetConditional(u64 handle, u32 value) {
  *(volatile __attribute__((address_space(1))) u32 *)(word)handle = value;
}
