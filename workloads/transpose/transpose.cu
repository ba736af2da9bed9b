#include "../common/prelude.cuh"
KERNEL transpose_naive(const float *in, float *out, int n) {
  int x = BX * 16 + TX, y = BY * 16 + TY;
  out[x * n + y] = in[y * n + x];
}
KERNEL transpose_tiled(const float *in, float *out, int n) {
  static __shared__ float tile[16][32];
  tile[TY][TX] = in[(BY * 16 + TY) * n + BX * 16 + TX];
  SYNC();
  out[(BX * 16 + TY) * n + BY * 16 + TX] = tile[TX][TY];
}
KERNEL transpose_padded(const float *in, float *out, int n) {
  static __shared__ float tile[16][33];
  tile[TY][TX] = in[(BY * 16 + TY) * n + BX * 16 + TX];
  SYNC();
  out[(BX * 16 + TY) * n + BY * 16 + TX] = tile[TX][TY];
}
