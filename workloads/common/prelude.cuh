// What kernels need, for clang without CUDA's headers and for NVRTC alike.
#pragma once
#ifdef __clang__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __noinline__ __attribute__((noinline))
#define TX ((int)__nvvm_read_ptx_sreg_tid_x())
#define TY ((int)__nvvm_read_ptx_sreg_tid_y())
#define BX ((int)__nvvm_read_ptx_sreg_ctaid_x())
#define BY ((int)__nvvm_read_ptx_sreg_ctaid_y())
#define BDX ((int)__nvvm_read_ptx_sreg_ntid_x())
#define GDX ((int)__nvvm_read_ptx_sreg_nctaid_x())
#define SYNC() __nvvm_bar_sync(0)
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define FMAD(a, b, c) __builtin_fma(a, b, c)
#else
#define TX ((int)threadIdx.x)
#define TY ((int)threadIdx.y)
#define BX ((int)blockIdx.x)
#define BY ((int)blockIdx.y)
#define BDX ((int)blockDim.x)
#define GDX ((int)gridDim.x)
#define SYNC() __syncthreads()
#define FMA(a, b, c) __fmaf_rn(a, b, c)
#define FMAD(a, b, c) __fma_rn(a, b, c)
#endif
typedef unsigned int u32;
typedef unsigned long long u64;
#define KERNEL extern "C" __global__ void
// Multiplication and addition that no compiler fuses.
__device__ inline float mul(float a, float b) { float r; asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ inline float add(float a, float b) { float r; asm("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ inline float ex2(float a) { float r; asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ inline float lg2(float a) { float r; asm("lg2.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ inline float root(float a) { float r; asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ inline float quotient(float a, float b) { float r; asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ inline u32 atomic_add(u32 *p, u32 v) { u32 r; asm volatile("atom.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(v) : "memory"); return r; }
// The address in shared memory of what a generic pointer leads to.
__device__ inline u32 shared_address(const void *p) {
  u32 r;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(r) : "l"(p));
  return r;
}
