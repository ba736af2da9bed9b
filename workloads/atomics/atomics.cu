#include "../common/prelude.cuh"
// Every thread adds one to a counter, rounds times; counters threads take turns at are spread
// words apart, of which there are `slots`.
KERNEL atomics(u32 *counters, int slots, int spread, int rounds) {
  u32 *mine = counters + (u64)((BX * BDX + TX) % slots) * spread;
#pragma unroll 1
  for (int i = 0; i < rounds; i++) asm volatile("red.global.add.u32 [%0], 1;" ::"l"(mine) : "memory");
}
