#include "../common/prelude.cuh"
KERNEL reduction(const u32 *in, u32 *sum, int n) {
  static __shared__ u32 s[256];
  u32 v = 0;
  for (int i = BX * 256 + TX; i < n; i += 256 * 15) v += in[i];
  s[TX] = v;
  SYNC();
  for (int k = 128; k > 0; k /= 2) {
    if (TX < k) s[TX] += s[TX + k];
    SYNC();
  }
  if (TX == 0) {
    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(sum), "r"(s[0]) : "memory");
    asm volatile("membar.gl;" ::: "memory");
  }
}
