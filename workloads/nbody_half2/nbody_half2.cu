#include "../common/prelude.cuh"
// Two bodies a thread, as halves of one register; forces fall off with 2^-r2.
__device__ inline u32 sub2(u32 a, u32 b) { u32 r; asm("sub.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
__device__ inline u32 mul2(u32 a, u32 b) { u32 r; asm("mul.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
__device__ inline u32 fma2(u32 a, u32 b, u32 c) { u32 r; asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
__device__ inline u32 neg2(u32 a) { u32 r; asm("neg.f16x2 %0, %1;" : "=r"(r) : "r"(a)); return r; }
__device__ inline u32 ex22(u32 a) { u32 r; asm("ex2.approx.f16x2 %0, %1;" : "=r"(r) : "r"(a)); return r; }
__device__ inline u32 half_of(float a) { u32 r; asm("{.reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b32 %0, {h, h};}" : "=r"(r) : "f"(a)); return r; }
__device__ inline u32 pack(float low, float high) {
  u32 r;
  asm("{.reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h};}" : "=r"(r) : "f"(low), "f"(high));
  return r;
}
KERNEL nbody_half2(const float *x, const float *y, const float *mass, u32 *fx, u32 *fy, int n) {
  int i = BX * BDX + TX;
  u32 px = pack(x[2 * i], x[2 * i + 1]), py = pack(y[2 * i], y[2 * i + 1]);
  u32 sx = 0, sy = 0;
  for (int j = 0; j < n; j++) {
    u32 dx = sub2(half_of(x[j]), px), dy = sub2(half_of(y[j]), py);
    u32 w = mul2(half_of(mass[j]), ex22(neg2(fma2(dx, dx, mul2(dy, dy)))));
    sx = fma2(dx, w, sx);
    sy = fma2(dy, w, sy);
  }
  fx[i] = sx;
  fy[i] = sy;
}
