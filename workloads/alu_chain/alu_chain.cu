#include "../common/prelude.cuh"
#include "../common/clock.cuh"
// Chains of one operation, each waiting for the last one's result: after 16 to begin with, the
// times of 16 more and of 48 more differ by that of 32 results. One kernel an operation.
#define FOUR(op) op op op op
#define SIXTEEN(op) FOUR(op) FOUR(op) FOUR(op) FOUR(op)
#define CHAIN(name, type, text, kind)                                                              \
  KERNEL chain_##name(u64 *cycles, double *results, int number, double start, double operand) {    \
    type x = (type)start, y = (type)operand;                                                       \
    SIXTEEN(asm volatile(text : "+" kind(x) : kind(y) : "memory");)                                \
    u64 first = cycles_now();                                                                      \
    SIXTEEN(asm volatile(text : "+" kind(x) : kind(y) : "memory");)                                \
    u64 second = cycles_now();                                                                     \
    SIXTEEN(asm volatile(text : "+" kind(x) : kind(y) : "memory");)                                \
    SIXTEEN(asm volatile(text : "+" kind(x) : kind(y) : "memory");)                                \
    SIXTEEN(asm volatile(text : "+" kind(x) : kind(y) : "memory");)                                \
    u64 third = cycles_now();                                                                      \
    if (TX == 0) cycles[number] = (third - second) - (second - first);                             \
    results[32 * number + TX] = (double)x;                                                         \
  }
CHAIN(add_s32, int, "add.s32 %0, %0, %1;", "r")
CHAIN(min_s32, int, "min.s32 %0, %0, %1;", "r")
CHAIN(mul_lo_s32, int, "mul.lo.s32 %0, %0, %1;", "r")
CHAIN(mul_hi_s32, int, "mul.hi.s32 %0, %0, %1;", "r")
CHAIN(and_b32, int, "and.b32 %0, %0, %1;", "r")
CHAIN(xor_b32, int, "xor.b32 %0, %0, %1;", "r")
CHAIN(shl_b32, int, "shl.b32 %0, %0, %1;", "r")
CHAIN(mad_lo_s32, int, "mad.lo.s32 %0, %0, %1, %1;", "r")
CHAIN(popc_b32, int, "popc.b32 %0, %0;", "r")
CHAIN(clz_b32, int, "clz.b32 %0, %0;", "r")
CHAIN(brev_b32, int, "brev.b32 %0, %0;", "r")
CHAIN(add_f32, float, "add.f32 %0, %0, %1;", "f")
CHAIN(mul_f32, float, "mul.f32 %0, %0, %1;", "f")
CHAIN(fma_rn_f32, float, "fma.rn.f32 %0, %0, %1, %1;", "f")
CHAIN(sqrt_approx_f32, float, "sqrt.approx.f32 %0, %0;", "f")
CHAIN(rsqrt_approx_f32, float, "rsqrt.approx.f32 %0, %0;", "f")
CHAIN(rcp_approx_f32, float, "rcp.approx.f32 %0, %0;", "f")
CHAIN(sin_approx_f32, float, "sin.approx.f32 %0, %0;", "f")
CHAIN(add_f64, double, "add.f64 %0, %0, %1;", "d")
CHAIN(mul_f64, double, "mul.f64 %0, %0, %1;", "d")
CHAIN(fma_rn_f64, double, "fma.rn.f64 %0, %0, %1, %1;", "d")
