#include "../common/prelude.cuh"
// One level: every vertex of the frontier gives its neighbours the next level.
KERNEL bfs(const int *rows, const int *edges, int *level, int *changed, int now, int n) {
  int v = BX * BDX + TX, found = 0;
  if (v < n && level[v] == now)
    for (int e = rows[v]; e < rows[v + 1]; e++) {
      int to = edges[e];
      if (level[to] < 0) {
        level[to] = now + 1;
        found = 1;
      }
    }
  int any;
  asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.or.pred q, 0, p; selp.s32 %0, 1, 0, q; }" : "=r"(any) : "r"(found) : "memory");
  if (any && TX == 0) *changed = 1;
}
