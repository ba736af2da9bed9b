#include "../common/prelude.cuh"
KERNEL histogram(const unsigned char *in, u32 *bins, int n) {
  static __shared__ u32 local[64];
  if (TX < 64) local[TX] = 0;
  SYNC();
  for (int i = BX * BDX + TX; i < n; i += BDX * 30) atomic_add(&local[in[i] >> 2], 1);
  SYNC();
  if (TX < 64) atomic_add(&bins[TX], local[TX]);
}
