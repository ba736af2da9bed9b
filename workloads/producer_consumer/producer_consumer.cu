#include "../common/prelude.cuh"
// Warp 0 produces, warp 1 consumes, through two buffers with a full and an empty barrier each.
#define SYNC_AT(id) asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory")
#define ARRIVE_AT(id) asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory")
KERNEL producer_consumer(const int *in, int *out, int rounds) {
  static __shared__ int buffer[2][32];
  int lane = TX % 32, base = BX * rounds * 32;
  if (TX < 32) {
    for (int r = 0; r < rounds; r++) {
      if (r >= 2) SYNC_AT(3 + r % 2);
      buffer[r % 2][lane] = in[base + r * 32 + lane] * 3;
      ARRIVE_AT(1 + r % 2);
    }
  } else {
    int sum = 0;
    for (int r = 0; r < rounds; r++) {
      SYNC_AT(1 + r % 2);
      sum += buffer[r % 2][31 - lane];
      out[base + r * 32 + lane] = sum;
      if (r + 2 < rounds) ARRIVE_AT(3 + r % 2);
    }
  }
}
