extern "C" __global__ void fmaloop(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = a[i], y = b[i], p = x, q = y, r = x + y, s = x - y;
#pragma unroll 8
  for (int k = 0; k < n; k++) {
    p = __fmaf_rn(p, x, y);
    q = __fmaf_rn(q, y, x);
    r = __fmaf_rn(r, x, x);
    s = __fmaf_rn(s, y, y);
  }
  c[i] = p + q + r + s;
}
