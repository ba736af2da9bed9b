#include "../common/prelude.cuh"
// Solutions below a partial placement, by recursion.
__noinline__ __device__ int place(int n, int row, u32 columns, u32 left, u32 right) {
  if (row == n) return 1;
  int count = 0;
  for (u32 free = ~(columns | left | right) & ((1u << n) - 1); free; free &= free - 1) {
    u32 bit = free & (0 - free);
    count += place(n, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1);
  }
  return count;
}
KERNEL nqueens(int *out, int n) {
  int t = BX * BDX + TX;
  if (t >= n * n) return;
  // The first two rows, kept in an array that is indexed by the row.
  int column[2];
  column[0] = t / n;
  column[1] = t % n;
  u32 columns = 0, left = 0, right = 0;
  int good = 1;
  for (int row = 0; row < 2; row++) {
    u32 bit = 1u << column[row];
    if ((columns | left | right) & bit) good = 0;
    columns |= bit;
    left = (left | bit) << 1;
    right = (right | bit) >> 1;
  }
  out[t] = good ? place(n, 2, columns, left, right) : 0;
}
