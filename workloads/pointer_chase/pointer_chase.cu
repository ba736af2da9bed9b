#include "../common/prelude.cuh"
#include "../common/clock.cuh"
// Each load gives the address of the next: what a step takes is the latency of a load.
__device__ inline u64 follow(u64 at) {
  u64 next;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(next) : "l"(at) : "memory");
  return next;
}
// A ring of n addresses, stride bytes apart: the one after i is i * factor + offset, which is one
// ring where factor is 1, or n a power of two, factor - 1 a multiple of four and offset odd.
KERNEL ring(u64 *room, u32 n, u32 stride, u32 factor, u32 offset) {
  u32 i = BX * BDX + TX;
  if (i >= n) return;
  room[(u64)i * stride / 8] = (u64)room + (u64)((i * factor + offset) % n) * stride;
}
// Walks it warm steps, then steps steps (both multiples of 8) and takes their time.
KERNEL chase(u64 *room, u64 *cycles, u64 *last, int warm, int steps) {
  u64 at = (u64)room;
#pragma unroll 1
  for (int i = 0; i < warm; i += 8) {
    at = follow(follow(follow(follow(follow(follow(follow(follow(at))))))));
  }
  u64 start = cycles_now();
#pragma unroll 1
  for (int i = 0; i < steps; i += 8) {
    at = follow(follow(follow(follow(follow(follow(follow(follow(at))))))));
  }
  u64 end = cycles_now();
  cycles[0] = end - start;
  last[0] = at - (u64)room;
}
