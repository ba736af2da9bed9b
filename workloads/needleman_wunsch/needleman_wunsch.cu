#include "../common/prelude.cuh"
// One block aligns a pair of sequences of 64, diagonal by diagonal.
KERNEL needleman_wunsch(const unsigned char *a, const unsigned char *b, int *score, int gap) {
  static __shared__ int m[65][66];
  int t = TX;
  const unsigned char *pa = a + BX * 64, *pb = b + BX * 64;
  m[0][t + 1] = -gap * (t + 1);
  m[t + 1][0] = -gap * (t + 1);
  if (t == 0) m[0][0] = 0;
  SYNC();
  for (int d = 0; d < 127; d++) {
    int i = t, j = d - t;
    if (j >= 0 && j < 64) {
      int hit = m[i][j] + (pa[i] == pb[j] ? 3 : -1);
      int up = m[i][j + 1] - gap, left = m[i + 1][j] - gap;
      int best = hit > up ? hit : up;
      m[i + 1][j + 1] = best > left ? best : left;
    }
    SYNC();
  }
  if (t == 0) score[BX] = m[64][64];
}
