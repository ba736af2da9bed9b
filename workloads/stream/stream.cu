#include "../common/prelude.cuh"
struct __attribute__((aligned(16))) four { float x, y, z, w; };
// Mode 0 reads a and keeps what it sums, 1 writes c, 2 copies a to c; n groups of four floats.
KERNEL stream(const four *a, four *c, float *sums, int n, int mode) {
  int i = BX * BDX + TX, threads = (int)GDX * BDX;
  if (mode == 0) {
    float sum = 0;
#pragma unroll 4
    for (int k = i; k < n; k += threads) {
      four v = a[k];
      sum = add(sum, add(add(v.x, v.y), add(v.z, v.w)));
    }
    sums[i] = sum;
  } else if (mode == 1) {
    for (int k = i; k < n; k += threads) {
      four v = {1, 2, 3, 4};
      c[k] = v;
    }
  } else {
#pragma unroll 4
    for (int k = i; k < n; k += threads) c[k] = a[k];
  }
}
