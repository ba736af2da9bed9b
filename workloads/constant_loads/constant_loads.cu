#include "../common/prelude.cuh"
#include "../common/clock.cuh"
__constant__ u32 table[16384];
// A warp loads from so many addresses in constant memory, words apart: 64 dependent loads after four. The words are zero.
KERNEL constant_loads(u64 *cycles, u32 *results, u32 addresses, u32 words) {
  u32 at = (u32)TX % addresses * words;
#pragma unroll
  for (int i = 0; i < 4; i++) at = table[8192 + at] + at;
  u64 begin = cycles_now();
#pragma unroll
  for (int i = 0; i < 64; i++) at = table[8192 + at] + at;
  u64 end = cycles_now();
  if (TX == 0) cycles[0] = end - begin;
  results[TX] = at;
}
