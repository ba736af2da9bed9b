#include "../common/prelude.cuh"
// Warps of producers fill a ring of stages, warps of consumers empty it; for each stage one mbarrier
// object says that it is full, one that it is empty. Bytes come by asynchronous copies that arrive
// at the object themselves.
#define STAGES 3
#define ITEMS 256
__device__ inline void init(u64 *object, u32 count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(object)), "r"(count) : "memory");
}
__device__ inline void arrive(u64 *object) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(object)) : "memory");
}
__device__ inline void wait(u64 *object, u32 parity) {
  u32 done;
  do {
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(object)), "r"(parity) : "memory");
#else
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(object)), "r"(parity) : "memory");
#endif
  } while (!done);
}
KERNEL mbarrier_pipeline(const u32 *in, u32 *out, int rounds) {
  __shared__ __attribute__((aligned(16))) u32 ring[STAGES][ITEMS];
  __shared__ u64 full[STAGES], empty[STAGES];
  if (TX == 0) {
    for (int s = 0; s < STAGES; s++) {
      init(&full[s], 64);
      init(&empty[s], 64);
    }
  }
  SYNC();
  const u32 *own = in + BX * rounds * ITEMS;
  if (TX < 64) {
    for (int r = 0; r < rounds; r++) {
      int s = r % STAGES;
      // The phase before the first one counts as complete.
      wait(&empty[s], (r / STAGES + 1) & 1);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared_address(&ring[s][TX * 4])),
                   "l"(own + r * ITEMS + TX * 4) : "memory");
      asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full[s])) : "memory");
    }
  } else {
    int t = TX - 64;
    u32 sum = 0;
    for (int r = 0; r < rounds; r++) {
      int s = r % STAGES;
      wait(&full[s], r / STAGES & 1);
      // Each thread reads what four others copied.
      for (int i = 0; i < ITEMS; i += 64) sum = sum * 31 + ring[s][i + t];
      arrive(&empty[s]);
    }
    out[BX * 64 + t] = sum;
  }
}
