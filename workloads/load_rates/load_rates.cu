#include "../common/prelude.cuh"
// Every thread loads eight times, `rounds` times: 8 bytes from shared memory (mode 0), through L1 (1) or from L2 (2), or 4 bytes
// from shared memory (3) or through L1 (4). Each block of 512 threads has 32 KiB, a part of the n words of `a`.
#define PAIRS(X) X(0) X(4096) X(8192) X(12288) X(16384) X(20480) X(24576) X(28672)
#define WORDS(X) X(0) X(2048) X(4096) X(6144) X(8192) X(10240) X(12288) X(14336)
#define LOAD_PAIR(how, at, offset) \
  asm volatile("ld." how ".v2.u32 {%0, %1}, [%2+" #offset "];" : "=r"(x), "=r"(y) : "l"(at)); \
  sum += x + y;
#define LOAD_WORD(how, at, offset) \
  asm volatile("ld." how ".u32 %0, [%1+" #offset "];" : "=r"(x) : "l"(at)); \
  sum += x;
#define SHARED_PAIR(offset) LOAD_PAIR("shared", place, offset)
#define NEAR_PAIR(offset) LOAD_PAIR("global.ca", at, offset)
#define FAR_PAIR(offset) LOAD_PAIR("global.cg", at, offset)
#define SHARED_WORD(offset) LOAD_WORD("shared", place, offset)
#define NEAR_WORD(offset) LOAD_WORD("global.ca", at, offset)
#define ROUNDS(EACH, X) \
  _Pragma("unroll 1") for (int i = 0; i < rounds; i++) { EACH(X) }
KERNEL load_rates(const u32 *a, u32 *sums, int n, int mode, int rounds) {
  __shared__ u64 words[4096];
  int shift = mode < 3 ? 3 : 2;
  u64 at = (u64)(a + (BX * 8192 & (n - 1))), place;
  u32 sum = 0, x, y;
  if (mode % 3 == 0) {
#pragma unroll
    for (int i = 0; i < 8; i++) words[TX + 512 * i] = ((const u64 *)at)[TX + 512 * i];
    SYNC();
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(place) : "l"((u64)words));
    place += (u64)TX << shift;
    if (mode == 0) {
      ROUNDS(PAIRS, SHARED_PAIR)
    } else {
      ROUNDS(WORDS, SHARED_WORD)
    }
  } else {
    at += (u64)TX << shift;
    if (mode == 1) {
      ROUNDS(PAIRS, NEAR_PAIR)
    } else if (mode == 2) {
      ROUNDS(PAIRS, FAR_PAIR)
    } else {
      ROUNDS(WORDS, NEAR_WORD)
    }
  }
  sums[BX * BDX + TX] = sum;
}
