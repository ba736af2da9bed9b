#include "../common/prelude.cuh"
// Each thread merges two sorted runs of `width` elements; one launch a doubling.
KERNEL merge(const int *from, int *to, int width, int n) {
  int first = (BX * BDX + TX) * 2 * width;
  if (first >= n) return;
  int a = first, b = first + width, middle = b, end = b + width;
  for (int k = first; k < end; k++) {
    if (a < middle && (b >= end || from[a] <= from[b])) to[k] = from[a++];
    else to[k] = from[b++];
  }
}
