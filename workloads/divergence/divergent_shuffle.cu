#include "../common/prelude.cuh"
// Shuffles on both sides of a branch, each among the lanes of its side.
#define STEP(x, c) asm volatile("mad.lo.u32 %0, %0, 1664525, %1;" : "+r"(x) : "n"(c))
__device__ inline u32 shuffle(u32 x, u32 from, u32 members) { u32 r; asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, %3;" : "=r"(r) : "r"(x), "r"(from), "r"(members)); return r; }
KERNEL divergent_shuffle(u32 *out) {
  u32 t = BX * BDX + TX, lane = TX & 31;
  u32 x = t * 2654435761u + 12345u;
  if (lane & 1) {
    STEP(x, 1);
    x += shuffle(x, lane ^ 2, 0xaaaaaaaau);
    STEP(x, 2);
  } else {
    STEP(x, 3);
    STEP(x, 4);
    x ^= shuffle(x, (lane + 4) & 31, 0x55555555u);
  }
  x += shuffle(x, 31 - lane, 0xffffffffu);
  out[t] = x;
}
