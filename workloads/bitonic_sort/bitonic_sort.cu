#include "../common/prelude.cuh"
KERNEL bitonic_sort(u32 *data) {
  static __shared__ u32 s[256];
  int t = TX;
  s[t] = data[BX * 256 + t];
  SYNC();
  for (int k = 2; k <= 256; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      int other = t ^ j;
      if (other > t) {
        u32 a = s[t], b = s[other];
        if ((a > b) == ((t & k) == 0)) {
          s[t] = b;
          s[other] = a;
        }
      }
      SYNC();
    }
  data[BX * 256 + t] = s[t];
}
