#include "../common/prelude.cuh"
// One step of the LU decomposition without pivoting a launch: column k is divided, the rest updated.
KERNEL lud_column(float *a, int n, int k) {
  int i = k + 1 + BX * BDX + TX;
  if (i < n) a[i * n + k] = quotient(a[i * n + k], a[k * n + k]);
}
KERNEL lud_update(float *a, int n, int k) {
  int i = k + 1 + BY * 16 + TY, j = k + 1 + BX * 16 + TX;
  if (i < n && j < n) a[i * n + j] = FMA(-a[i * n + k], a[k * n + j], a[i * n + j]);
}
