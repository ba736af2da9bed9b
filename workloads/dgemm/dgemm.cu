#include "../common/prelude.cuh"
// c = a b in double precision, tiles of 8 by 8 in shared memory.
KERNEL dgemm(const double *a, const double *b, double *c, int n) {
  __shared__ double s[8][8], t[8][9];
  int row = BY * 8 + TY, column = BX * 8 + TX;
  double sum = 0;
  for (int k = 0; k < n; k += 8) {
    s[TY][TX] = a[row * n + k + TX];
    t[TY][TX] = b[(k + TY) * n + column];
    SYNC();
    for (int m = 0; m < 8; m++) sum = FMAD(s[TY][m], t[m][TX], sum);
    SYNC();
  }
  c[row * n + column] = sum;
}
