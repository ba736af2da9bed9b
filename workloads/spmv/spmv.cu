#include "../common/prelude.cuh"
KERNEL spmv(const int *rows, const int *columns, const int *values, const int *x, int *y, int n) {
  int row = BX * BDX + TX;
  if (row >= n) return;
  int sum = 0;
  for (int e = rows[row]; e < rows[row + 1]; e++) sum += values[e] * x[columns[e]];
  y[row] = sum;
}
