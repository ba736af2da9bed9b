#include "../common/prelude.cuh"
// Each thread computes four rows of a 32 x 8 tile.
KERNEL sgemm_tiled(const float *a, const float *b, float *c, int n) {
  static __shared__ float sa[32][33], sb[32][33];
  int tx = TX, ty = TY, row = BY * 32 + ty, col = BX * 32 + tx;
  float acc[4] = {0, 0, 0, 0};
  for (int t = 0; t < n; t += 32) {
    for (int r = 0; r < 4; r++) {
      sa[ty + 8 * r][tx] = a[(row + 8 * r) * n + t + tx];
      sb[ty + 8 * r][tx] = b[(t + ty + 8 * r) * n + col];
    }
    SYNC();
    for (int k = 0; k < 32; k++)
      for (int r = 0; r < 4; r++) acc[r] = FMA(sa[ty + 8 * r][k], sb[k][tx], acc[r]);
    SYNC();
  }
  for (int r = 0; r < 4; r++) c[(row + 8 * r) * n + col] = acc[r];
}
