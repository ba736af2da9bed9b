#include "../common/prelude.cuh"
KERNEL saxpy(float alpha, const float *x, float *y, int n) {
  for (int i = BX * BDX + TX; i < n; i += 16 * BDX) y[i] = FMA(alpha, x[i], y[i]);
}
KERNEL daxpy(double alpha, const double *x, double *y, int n) {
  for (int i = BX * BDX + TX; i < n; i += 16 * BDX) y[i] = FMAD(alpha, x[i], y[i]);
}
