#include "../common/prelude.cuh"
KERNEL vectoradd(const u64 *a, const u64 *b, u64 *c, int n) {
  int i = BX * BDX + TX;
  if (i < n) c[i] = a[i] + b[i] * 0x123456789abcdefull;
}
