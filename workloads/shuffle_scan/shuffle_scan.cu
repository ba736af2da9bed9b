#include "../common/prelude.cuh"
// Inclusive prefix sums of each block's numbers by shuffles, warp by warp, and the sums of blocks.
KERNEL shuffle_scan(const int *in, int *out, int *sums) {
  __shared__ int warps[32];
  int lane = TX & 31, warp = TX >> 5, i = BX * BDX + TX;
  int v = in[i];
  for (int d = 1; d < 32; d *= 2) {
    int left = __shfl_up_sync(0xffffffff, v, d);
    if (lane >= d) v += left;
  }
  if (lane == 31) warps[warp] = v;
  SYNC();
  if (warp == 0) {
    // Lanes beyond the warps of the block take no part.
    int count = BDX >> 5;
    u32 mask = __ballot_sync(0xffffffff, lane < count);
    if (lane < count) {
      int total = warps[lane];
      for (int d = 1; d < count; d *= 2) {
        int left = __shfl_up_sync(mask, total, d);
        if (lane >= d) total += left;
      }
      warps[lane] = total;
    }
  }
  SYNC();
  if (warp > 0) v += warps[warp - 1];
  out[i] = v;
  if (TX == BDX - 1) sums[BX] = v;
}
// Adds what the blocks before sum up to.
KERNEL shuffle_scan_add(int *out, const int *sums) {
  int before = 0;
  for (int b = TX & 31; b < BX; b += 32) before += sums[b];
  for (int d = 16; d > 0; d /= 2) before += __shfl_xor_sync(0xffffffff, before, d);
  out[BX * BDX + TX] += before;
}
