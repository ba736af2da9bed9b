#include "../common/prelude.cuh"
// Every thread loads eight times 8 bytes, `rounds` times: from shared memory (mode 0), through L1 (1) or from L2 (2). Each
// block of 512 threads has 32 KiB, a part of the n words of `a`.
#define EACH(X) X(0) X(4096) X(8192) X(12288) X(16384) X(20480) X(24576) X(28672)
#define LOAD(how, at, offset) \
  asm volatile("ld." how ".v2.u32 {%0, %1}, [%2+" #offset "];" : "=r"(x), "=r"(y) : "l"(at)); \
  sum += x + y;
#define SHARED(offset) LOAD("shared", place, offset)
#define NEAR(offset) LOAD("global.ca", at, offset)
#define FAR(offset) LOAD("global.cg", at, offset)
KERNEL load_rates(const u32 *a, u32 *sums, int n, int mode, int rounds) {
  __shared__ u64 words[4096];
  const u64 *at = (const u64 *)(a + (BX * 8192 & (n - 1))) + TX;
  u32 sum = 0, x, y;
  if (mode == 0) {
#pragma unroll
    for (int i = 0; i < 8; i++) words[TX + 512 * i] = at[512 * i];
    SYNC();
    u64 place;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(place) : "l"((u64)(words + TX)));
#pragma unroll 1
    for (int i = 0; i < rounds; i++) { EACH(SHARED) }
  } else if (mode == 1) {
#pragma unroll 1
    for (int i = 0; i < rounds; i++) { EACH(NEAR) }
  } else {
#pragma unroll 1
    for (int i = 0; i < rounds; i++) { EACH(FAR) }
  }
  sums[BX * BDX + TX] = sum;
}
