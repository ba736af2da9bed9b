#include "../common/prelude.cuh"
// Products of a matrix and a vector: rows come to shared memory by asynchronous copies, three stages
// ahead of what is computed.
#define STAGES 4
#define WIDTH 64
__device__ inline void copy16(void *to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
// Bytes beyond `valid` are zeros.
__device__ inline void copy4(void *to, const void *from, u32 valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid) : "memory");
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
KERNEL copy_pipeline(const int *matrix, const int *vector, int *out, int columns) {
  __shared__ __attribute__((aligned(16))) int tile[STAGES][32][WIDTH];
  __shared__ int part[STAGES][WIDTH];
  int first = BX * 32, tiles = (columns + WIDTH - 1) / WIDTH, sum = 0;
  // The matrix has rows of whole tiles; the vector ends where its columns end.
  int pitch = tiles * WIDTH;
  for (int t = 0; t < tiles + STAGES - 1; t++) {
    if (t < tiles) {
      int stage = t % STAGES;
      for (int i = TX; i < 32 * WIDTH / 4; i += BDX) {
        int row = i / (WIDTH / 4), column = i % (WIDTH / 4) * 4;
        copy16(&tile[stage][row][column], matrix + (first + row) * pitch + t * WIDTH + column);
      }
      for (int i = TX; i < WIDTH; i += BDX) {
        int column = t * WIDTH + i;
        copy4(&part[stage][i], vector + (column < columns ? column : 0), column < columns ? 4 : 0);
      }
    }
    commit();
    if (t >= STAGES - 1) {
      asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
      SYNC();
      int stage = (t - (STAGES - 1)) % STAGES;
      // Four threads a row.
      for (int c = TX % 4; c < WIDTH; c += 4) sum += tile[stage][TX / 4][c] * part[stage][c];
      SYNC();
    }
  }
  sum += __shfl_xor_sync(0xffffffff, sum, 1);
  sum += __shfl_xor_sync(0xffffffff, sum, 2);
  if (TX % 4 == 0) out[first + TX / 4] = sum;
}
