#include "../common/prelude.cuh"
// Sums and votes of a warp by its collectives; needs compute capability 3.0 or later.
KERNEL warp_sum(const int *in, int *sums, u32 *odd, int n) {
  int i = BX * BDX + TX, v = i < n ? in[i] : 0;
  u32 ballot = __ballot_sync(0xffffffff, v & 1);
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
  if (i % 32 == 0 && i < n) {
    sums[i / 32] = v;
    odd[i / 32] = ballot;
  }
}
