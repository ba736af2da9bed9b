#include "../common/prelude.cuh"
extern __shared__ int temp[];
KERNEL scan(const int *in, int *out) {
  int n = BDX, base = BX * n, t = TX, from = 0;
  temp[t] = in[base + t];
  SYNC();
  for (int d = 1; d < n; d *= 2) {
    int to = n - from;
    temp[to + t] = temp[from + t] + (t >= d ? temp[from + t - d] : 0);
    from = to;
    SYNC();
  }
  out[base + t] = temp[from + t];
}
