#include "../common/prelude.cuh"
#include "../common/clock.cuh"
// Straight code of so many 32-bit multiply-adds in four chains, run several times: the time of the last pass of block 0.
#define FOUR(op) op op op op
#define SIXTEEN(op) FOUR(op) FOUR(op) FOUR(op) FOUR(op)
#define CHAINS                                                                                                       \
  asm volatile("fma.rn.f32 %0,%0,%4,%4;fma.rn.f32 %1,%1,%4,%4;fma.rn.f32 %2,%2,%4,%4;fma.rn.f32 %3,%3,%4,%4;"          \
               : "+f"(a), "+f"(b), "+f"(c), "+f"(d) : "f"(y) : "memory");
#define CODE(name, text)                                                                                             \
  KERNEL name(u64 *cycles, float *out, u32 which, u32 passes, float y) {                                             \
    float a = 1, b = 2, c = 3, d = 4;                                                                                \
    u64 begin = 0, end = 0;                                                                                          \
    _Pragma("unroll 1") for (u32 pass = 0; pass < passes; pass++) {                                                  \
      begin = cycles_now();                                                                                          \
      text                                                                                                           \
      end = cycles_now();                                                                                            \
    }                                                                                                                \
    if (TX == 0 && BX == 0) cycles[which] = end - begin;                                                             \
    out[which * 32 + TX % 32] = a + b + c + d;                                                                       \
  }
CODE(code_1024, SIXTEEN(SIXTEEN(CHAINS)))
CODE(code_4096, FOUR(SIXTEEN(SIXTEEN(CHAINS))))
