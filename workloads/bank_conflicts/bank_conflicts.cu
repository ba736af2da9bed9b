#include "../common/prelude.cuh"
#include "../common/clock.cuh"
__device__ inline u32 shared_address(const void *at) {
  u32 r;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(r) : "l"(at));
  return r;
}
__device__ inline u32 follow(u32 at) {
  u32 next;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(next) : "r"(at) : "memory");
  return next;
}
// A warp follows addresses through shared memory; its lanes start `ways` words apart, so that as
// many of them meet in a bank.
KERNEL bank_conflicts(u64 *cycles, u32 *last, int ways, int steps) {
  static __shared__ u32 room[1024];
  u32 base = shared_address(room);
  for (int i = TX; i < 1024; i += 32) room[i] = base + 4 * ((i + 32 * ways) & 1023);
  SYNC();
  u32 at = base + 4 * (TX * ways & 1023);
  u64 start = cycles_now();
#pragma unroll 1
  for (int i = 0; i < steps; i += 8) {
    at = follow(follow(follow(follow(follow(follow(follow(follow(at))))))));
  }
  u64 end = cycles_now();
  if (TX == 0) cycles[0] = end - start;
  last[TX] = (at - base) / 4;
}
