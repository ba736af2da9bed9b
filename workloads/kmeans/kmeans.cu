#include "../common/prelude.cuh"
// Points to the nearest of eight centres, which lie in constant-like shared memory; sums and counts
// by shared, then global atomics.
KERNEL kmeans(const float *x, const float *y, const float *cx, const float *cy, int *nearest, int *count, int *sum_x, int *sum_y, int n) {
  __shared__ float px[8], py[8];
  __shared__ int counts[8], sums_x[8], sums_y[8];
  if (TX < 8) {
    px[TX] = cx[TX];
    py[TX] = cy[TX];
    counts[TX] = 0;
    sums_x[TX] = 0;
    sums_y[TX] = 0;
  }
  SYNC();
  int i = BX * BDX + TX;
  if (i < n) {
    int best = 0;
    float least = 1e30f;
    for (int k = 0; k < 8; k++) {
      float dx = x[i] - px[k], dy = y[i] - py[k];
      float d = add(mul(dx, dx), mul(dy, dy));
      if (d < least) {
        least = d;
        best = k;
      }
    }
    nearest[i] = best;
    atomic_add((u32 *)&counts[best], 1);
    atomic_add((u32 *)&sums_x[best], (u32)(int)(x[i] * 1024));
    atomic_add((u32 *)&sums_y[best], (u32)(int)(y[i] * 1024));
  }
  SYNC();
  if (TX < 8) {
    atomic_add((u32 *)&count[TX], counts[TX]);
    atomic_add((u32 *)&sum_x[TX], sums_x[TX]);
    atomic_add((u32 *)&sum_y[TX], sums_y[TX]);
  }
}
