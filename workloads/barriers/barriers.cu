#include "../common/prelude.cuh"
// Kernels whose warps have different roles and meet at named barriers, and for each of them one that is wrong on purpose.
#define SYNC_AT(id, count) asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory")
#define ARRIVE_AT(id, count) asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory")
enum { FULL = 1, EMPTY = 8 };

// Warps 0 and 1 compute; warp 2 transfers tiles of 64 integers for them into N buffers.
#define TRANSFER(N, SLOT)                                     \
  for (int r = 0; r < rounds; r++) {                          \
    if (r >= (N)) SYNC_AT(EMPTY + r % (N), 96);               \
    buffer[SLOT][TX - 64] = in[(base + r) * 64 + TX - 64];    \
    buffer[SLOT][TX - 32] = in[(base + r) * 64 + TX - 32];    \
    ARRIVE_AT(FULL + r % (N), 96);                            \
  }

KERNEL dma_double(const int *in, int *out, int rounds) {
  static __shared__ int buffer[2][64];
  int base = BX * rounds, sum = 0;
  if (TX >= 64) {
    TRANSFER(2, r % 2)
    return;
  }
  for (int r = 0; r < rounds; r++) {
    SYNC_AT(FULL + r % 2, 96);
    sum += buffer[r % 2][63 - TX];
    if (r + 2 < rounds) ARRIVE_AT(EMPTY + r % 2, 96);
  }
  out[BX * 64 + TX] = sum;
}

// Gives the buffer away before it reads it.
KERNEL dma_double_early(const int *in, int *out, int rounds) {
  static __shared__ int buffer[2][64];
  int base = BX * rounds, sum = 0;
  if (TX >= 64) {
    TRANSFER(2, r % 2)
    return;
  }
  for (int r = 0; r < rounds; r++) {
    SYNC_AT(FULL + r % 2, 96);
    if (r + 2 < rounds) ARRIVE_AT(EMPTY + r % 2, 96);
    sum += buffer[r % 2][63 - TX];
  }
  out[BX * 64 + TX] = sum;
}

KERNEL dma_triple(const int *in, int *out, int rounds) {
  static __shared__ int buffer[3][64];
  int base = BX * rounds, sum = 0;
  if (TX >= 64) {
    TRANSFER(3, r % 3)
    return;
  }
  for (int r = 0; r < rounds; r++) {
    SYNC_AT(FULL + r % 3, 96);
    sum += buffer[r % 3][63 - TX];
    if (r + 3 < rounds) ARRIVE_AT(EMPTY + r % 3, 96);
  }
  out[BX * 64 + TX] = sum;
}

// Three stages of barriers over two buffers: each is used again one stage early.
KERNEL dma_triple_early(const int *in, int *out, int rounds) {
  static __shared__ int buffer[2][64];
  int base = BX * rounds, sum = 0;
  if (TX >= 64) {
    TRANSFER(3, r % 2)
    return;
  }
  for (int r = 0; r < rounds; r++) {
    SYNC_AT(FULL + r % 3, 96);
    sum += buffer[r % 2][63 - TX];
    if (r + 3 < rounds) ARRIVE_AT(EMPTY + r % 3, 96);
  }
  out[BX * 64 + TX] = sum;
}

KERNEL dma_ring(const int *in, int *out, int rounds, int buffers) {
  static __shared__ int buffer[7][64];
  int base = BX * rounds, sum = 0;
  if (TX >= 64) {
    TRANSFER(buffers, r % buffers)
    return;
  }
  for (int r = 0; r < rounds; r++) {
    SYNC_AT(FULL + r % buffers, 96);
    sum += buffer[r % buffers][63 - TX];
    if (r + buffers < rounds) ARRIVE_AT(EMPTY + r % buffers, 96);
  }
  out[BX * 64 + TX] = sum;
}

// The last arrival is missing.
KERNEL dma_ring_missing(const int *in, int *out, int rounds, int buffers) {
  static __shared__ int buffer[7][64];
  int base = BX * rounds, sum = 0;
  if (TX >= 64) {
    TRANSFER(buffers, r % buffers)
    return;
  }
  for (int r = 0; r < rounds; r++) {
    SYNC_AT(FULL + r % buffers, 96);
    sum += buffer[r % buffers][63 - TX];
    if (r + buffers + 1 < rounds) ARRIVE_AT(EMPTY + r % buffers, 96);
  }
  out[BX * 64 + TX] = sum;
}

// What the warps of the chain do, each something else.
__device__ inline u32 stage(int role, u32 v) {
  switch (role) {
    case 1: return v * 3;
    case 2: return v + 7;
    case 3: return v ^ 0x55;
    case 4: return v - 11;
    case 5: return v << 1;
    case 6: return v | 1;
    default: return ~v;
  }
}

// Eight warps: the first loads, the next six compute, the last stores; each hands its value on through link W of barrier W.
#define CHAIN(SEND, RECEIVE, COUNT)                                                 \
  static __shared__ u32 link[8][32];                                                \
  int warp = TX / 32, lane = TX % 32;                                               \
  for (int r = 0; r < rounds; r++) {                                                \
    u32 v = 0;                                                                      \
    if (warp == 0) v = in[(BX * rounds + r) * 32 + lane];                           \
    if (warp > 0) {                                                                 \
      SYNC_AT(RECEIVE, 64);                                                         \
      v = stage(warp, link[warp][31 - lane]);                                       \
    }                                                                               \
    if (warp < 7) {                                                                 \
      link[warp + 1][lane] = v;                                                     \
      ARRIVE_AT(SEND, COUNT);                                                       \
    } else {                                                                        \
      out[(BX * rounds + r) * 32 + lane] = v;                                       \
    }                                                                               \
    SYNC();                                                                         \
  }

KERNEL chain(const u32 *in, u32 *out, int rounds) { CHAIN(warp + 1, warp, 64) }

// Warps 3 and 4 have each other's barriers to send at.
KERNEL chain_swapped(const u32 *in, u32 *out, int rounds) {
  CHAIN(warp == 3 ? 5 : warp == 4 ? 4 : warp + 1, warp, 64)
}

// Warp 5 counts a warp too many.
KERNEL chain_count(const u32 *in, u32 *out, int rounds) { CHAIN(warp + 1, warp, warp == 5 ? 96 : 64) }

// Figure 2 of the paper: A and B on warp 0, C and F and I on warp 1, D and E on warp 2, G and H on warp 3. Barrier 2 is used
// twice, and the ways from D to I and to H by barriers 1 and 3 keep its uses apart.
KERNEL dataflow(const int *in, int *out) {
  static __shared__ int a[32], b[32], e1[32], e3[32], h[32];
  int warp = TX / 32, lane = TX % 32, v = in[BX * 32 + lane];
  switch (warp) {
    case 0:
      b[lane] = v + 1;
      ARRIVE_AT(0, 64);
      a[lane] = v * 2;
      ARRIVE_AT(2, 64);
      break;
    case 1:
      SYNC_AT(0, 64);
      v = b[31 - lane];
      SYNC_AT(1, 64);
      v += e1[31 - lane];
      SYNC_AT(2, 64);
      out[BX * 32 + lane] = v + h[31 - lane];
      break;
    case 2:
      SYNC_AT(2, 64);
      v = a[31 - lane];
      e1[lane] = v * 5;
      ARRIVE_AT(1, 64);
      e3[lane] = v - 9;
      ARRIVE_AT(3, 64);
      break;
    default:
      SYNC_AT(3, 64);
      h[lane] = e3[31 - lane] * 7;
      ARRIVE_AT(2, 64);
  }
}

// Warp 3 does not wait for warp 2: its arrival may go to the first use of barrier 2.
KERNEL dataflow_unsafe(const int *in, int *out) {
  static __shared__ int a[32], b[32], e1[32], h[32];
  int warp = TX / 32, lane = TX % 32, v = in[BX * 32 + lane];
  switch (warp) {
    case 0:
      b[lane] = v + 1;
      ARRIVE_AT(0, 64);
      a[lane] = v * 2;
      ARRIVE_AT(2, 64);
      break;
    case 1:
      SYNC_AT(0, 64);
      v = b[31 - lane];
      SYNC_AT(1, 64);
      v += e1[31 - lane];
      SYNC_AT(2, 64);
      out[BX * 32 + lane] = v + h[31 - lane];
      break;
    case 2:
      SYNC_AT(2, 64);
      v = a[31 - lane];
      e1[lane] = v * 5;
      ARRIVE_AT(1, 64);
      break;
    default:
      h[lane] = v * 7;
      ARRIVE_AT(2, 64);
  }
}

// Four warps pass a token round: barrier 1 + W says that warp W has it.
#define RING(FIRST)                                               \
  static __shared__ int token[32];                                \
  int warp = TX / 32, lane = TX % 32;                             \
  for (int r = 0; r < rounds; r++) {                              \
    if (FIRST) SYNC_AT(1 + warp, 64);                             \
    int v = r + warp == 0 ? in[BX * 32 + lane] : token[31 - lane]; \
    __syncwarp_();                                                \
    token[lane] = v * 3 + warp;                                   \
    if (r + 1 < rounds || warp < 3) ARRIVE_AT(1 + (warp + 1) % 4, 64); \
  }                                                               \
  if (warp == 3) out[BX * 32 + lane] = token[lane];
#define __syncwarp_() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")

KERNEL ring(const int *in, int *out, int rounds) { RING(r + warp > 0) }

// Warp 0 waits for the token in the first round too: nobody begins.
KERNEL ring_order(const int *in, int *out, int rounds) { RING(true) }

// Two warps exchange their values.
KERNEL exchange(const int *in, int *out) {
  static __shared__ int box[2][32];
  int warp = TX / 32, lane = TX % 32;
  box[warp][lane] = in[BX * 64 + TX];
  ARRIVE_AT(1 + warp, 64);
  SYNC_AT(2 - warp, 64);
  out[BX * 64 + TX] = box[1 - warp][31 - lane];
}

// Each waits before it arrives (listing 1 of the paper).
KERNEL exchange_order(const int *in, int *out) {
  static __shared__ int box[2][32];
  int warp = TX / 32, lane = TX % 32;
  box[warp][lane] = in[BX * 64 + TX];
  SYNC_AT(2 - warp, 64);
  ARRIVE_AT(1 + warp, 64);
  out[BX * 64 + TX] = box[1 - warp][31 - lane];
}

// The sum of each warp's values in shared memory.
KERNEL warp_synchronized(const int *in, int *out) {
  static __shared__ volatile int values[128];
  values[TX] = in[BX * 128 + TX];
  __syncwarp_();
  for (int d = 16; d > 0; d /= 2) {
    int other = values[TX ^ d];
    __syncwarp_();
    values[TX] = values[TX] + other;
    __syncwarp_();
  }
  if (TX % 32 == 0) out[BX * 4 + TX / 32] = values[TX];
}

// The same for warps that run in lockstep, as they did before compute capability 7.0.
KERNEL warp_synchronous(const int *in, int *out) {
  static __shared__ volatile int values[128];
  values[TX] = in[BX * 128 + TX];
  for (int d = 16; d > 0; d /= 2) {
    int other = values[TX ^ d];
    values[TX] = values[TX] + other;
  }
  if (TX % 32 == 0) out[BX * 4 + TX / 32] = values[TX];
}
