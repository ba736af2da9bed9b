#include "../common/prelude.cuh"
// Pipelines through mbarrier objects and asynchronous copies, and for each of them some that are wrong on purpose. All
// but the last two give each of 64 threads the sum of its words of `rounds` tiles, in turned order.
__device__ inline void init(u64 *object, u32 count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(object)), "r"(count) : "memory");
}
__device__ inline void inval(u64 *object) {
  asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(object)) : "memory");
}
__device__ inline u64 arrive(u64 *object) {
  u64 state;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(object)) : "memory");
  return state;
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
__device__ inline void wait_for(u64 *object, u64 state) {
  u32 done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(object)), "l"(state) : "memory");
  } while (!done);
}
__device__ inline void copy4(int *to, const int *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ inline void copies_arrive(u64 *object) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(object)) : "memory");
}
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#define WARP_SYNC(mask) asm volatile("bar.warp.sync %0;" ::"r"(mask) : "memory")
enum { STAGES = 3 };

// Objects of a ring of stages: one says that a stage is full, one that it is empty.
#define RING(FILLS, EMPTIES)                              \
  __shared__ int buffer[STAGES][64];                      \
  __shared__ u64 full[STAGES], empty[STAGES];             \
  int base = BX * rounds, sum = 0;                        \
  if (TX == 0) {                                          \
    for (int s = 0; s < STAGES; s++) {                    \
      init(&full[s], FILLS);                              \
      init(&empty[s], EMPTIES);                           \
    }                                                     \
  }
// Warp 2 fills the stages; the phase before the first one of `empty` counts as complete.
#define PRODUCE(WAIT, PUT, ARRIVE)                        \
  if (TX >= 64) {                                         \
    for (int r = 0; r < rounds; r++) {                    \
      int s = r % STAGES;                                 \
      WAIT;                                               \
      PUT;                                                \
      ARRIVE;                                             \
    }                                                     \
    return;                                               \
  }
#define CONSUME(PARITY)                                   \
  for (int r = 0; r < rounds; r++) {                      \
    int s = r % STAGES;                                   \
    wait(&full[s], PARITY);                               \
    sum += buffer[s][63 - TX];                            \
    arrive(&empty[s]);                                    \
  }                                                       \
  out[BX * 64 + TX] = sum;
#define PUT_WORDS                                             \
  buffer[s][TX - 64] = in[(base + r) * 64 + TX - 64];         \
  buffer[s][TX - 32] = in[(base + r) * 64 + TX - 32]
#define COPY_WORDS                                                \
  copy4(&buffer[s][TX - 64], in + (base + r) * 64 + TX - 64);     \
  copy4(&buffer[s][TX - 32], in + (base + r) * 64 + TX - 32)
#define EMPTY wait(&empty[s], (r / STAGES + 1) & 1)

KERNEL phase_ring(const int *in, int *out, int rounds) {
  RING(32, 64)
  SYNC();
  PRODUCE(EMPTY, PUT_WORDS, arrive(&full[s]))
  CONSUME(r / STAGES & 1)
}

// The parity of the phase before.
KERNEL phase_ring_parity(const int *in, int *out, int rounds) {
  RING(32, 64)
  SYNC();
  PRODUCE(EMPTY, PUT_WORDS, arrive(&full[s]))
  CONSUME((r / STAGES + 1) & 1)
}

// Nobody waits for empty stages: phases run ahead of those that wait for them.
KERNEL phase_ring_ahead(const int *in, int *out, int rounds) {
  RING(32, 64)
  SYNC();
  PRODUCE(, PUT_WORDS, arrive(&full[s]))
  CONSUME(r / STAGES & 1)
}

// One arrival too few.
KERNEL phase_ring_few(const int *in, int *out, int rounds) {
  RING(33, 64)
  SYNC();
  PRODUCE(EMPTY, PUT_WORDS, arrive(&full[s]))
  CONSUME(r / STAGES & 1)
}

// One arrival too many.
KERNEL phase_ring_many(const int *in, int *out, int rounds) {
  RING(31, 64)
  SYNC();
  PRODUCE(EMPTY, PUT_WORDS, arrive(&full[s]))
  CONSUME(r / STAGES & 1)
}

// Nothing keeps the others from objects that are not initialized.
KERNEL phase_ring_at_once(const int *in, int *out, int rounds) {
  RING(32, 64)
  PRODUCE(EMPTY, PUT_WORDS, arrive(&full[s]))
  CONSUME(r / STAGES & 1)
}

// One object for each round anew; the threads meet before it is invalidated.
#define ANEW(MEET)                                  \
  __shared__ int buffer[2][64];                     \
  __shared__ u64 object;                            \
  int sum = 0;                                      \
  for (int r = 0; r < rounds; r++) {                \
    if (TX == 0) init(&object, 64);                 \
    SYNC();                                         \
    buffer[r % 2][TX] = in[(BX * rounds + r) * 64 + TX]; \
    arrive(&object);                                \
    wait(&object, 0);                               \
    sum += buffer[r % 2][63 - TX];                  \
    MEET;                                           \
    if (TX == 0) inval(&object);                    \
  }                                                 \
  out[BX * 64 + TX] = sum;

KERNEL phase_anew(const int *in, int *out, int rounds) { ANEW(SYNC()) }
KERNEL phase_anew_in_use(const int *in, int *out, int rounds) { ANEW() }

// All threads arrive and wait for the phase that they arrived in.
KERNEL phase_state(const int *in, int *out, int rounds) {
  __shared__ int buffer[2][64];
  __shared__ u64 object;
  int sum = 0;
  if (TX == 0) init(&object, 64);
  SYNC();
  for (int r = 0; r < rounds; r++) {
    buffer[r % 2][TX] = in[(BX * rounds + r) * 64 + TX];
    u64 state = arrive(&object);
    wait_for(&object, state);
    sum += buffer[r % 2][63 - TX];
  }
  out[BX * 64 + TX] = sum;
}

// They wait for the phase before.
KERNEL phase_state_stale(const int *in, int *out, int rounds) {
  __shared__ int buffer[2][64];
  __shared__ u64 object;
  int sum = 0;
  if (TX == 0) init(&object, 64);
  SYNC();
  u64 state = arrive(&object);
  wait_for(&object, state);
  for (int r = 0; r < rounds; r++) {
    buffer[r % 2][TX] = in[(BX * rounds + r) * 64 + TX];
    u64 next = arrive(&object);
    wait_for(&object, state);
    state = next;
    sum += buffer[r % 2][63 - TX];
  }
  out[BX * 64 + TX] = sum;
}

// The next tile is copied while this one is read.
#define DOUBLE(COMMITS, NEWEST, MEET)                                              \
  __shared__ int buffer[2][64];                                                    \
  const int *own = in + BX * rounds * 64 + TX;                                     \
  int sum = 0;                                                                     \
  copy4(&buffer[0][TX], own);                                                      \
  COMMITS;                                                                         \
  for (int r = 0; r < rounds; r++) {                                               \
    if (r + 1 < rounds) copy4(&buffer[(r + 1) % 2][TX], own + (r + 1) * 64);       \
    COMMITS;                                                                       \
    WAIT_GROUP(NEWEST);                                                            \
    SYNC();                                                                        \
    sum += buffer[r % 2][63 - TX];                                                 \
    MEET;                                                                          \
  }                                                                                \
  out[BX * 64 + TX] = sum;

KERNEL copy_double(const int *in, int *out, int rounds) { DOUBLE(COMMIT(), 1, SYNC()) }
// The group that is read may be in flight.
KERNEL copy_double_group(const int *in, int *out, int rounds) { DOUBLE(COMMIT(), 2, SYNC()) }
// No copy is of a group.
KERNEL copy_double_uncommitted(const int *in, int *out, int rounds) { DOUBLE(, 0, SYNC()) }
// A buffer is copied to while others read it.
KERNEL copy_double_reused(const int *in, int *out, int rounds) { DOUBLE(COMMIT(), 1, ) }

// Copies arrive by themselves.
KERNEL copy_ring(const int *in, int *out, int rounds) {
  RING(32, 64)
  SYNC();
  PRODUCE(EMPTY, COPY_WORDS, copies_arrive(&full[s]))
  CONSUME(r / STAGES & 1)
}

// The thread arrives and does not wait for its copies.
KERNEL copy_ring_plain(const int *in, int *out, int rounds) {
  RING(32, 64)
  SYNC();
  PRODUCE(EMPTY, COPY_WORDS, arrive(&full[s]))
  CONSUME(r / STAGES & 1)
}

#if __CUDA_ARCH__ >= 900
__device__ inline void arrive_expecting(u64 *object, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(object)), "r"(bytes) : "memory");
}
__device__ inline void bulk(int *to, const int *from, u64 *object) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)), "l"(from), "r"(256), "r"(shared_address(object)) : "memory");
}
__device__ inline void wait_here(u64 *object, u32 parity) {
  asm volatile("{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@p bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(
                   shared_address(object)), "r"(parity) : "memory");
}
// A thread lets tiles be copied as a whole.
#define BULK(BYTES, WAIT)                                         \
  __shared__ __attribute__((aligned(16))) int buffer[STAGES][64]; \
  __shared__ u64 full[STAGES], empty[STAGES];                     \
  int base = BX * rounds, sum = 0;                                \
  if (TX == 0) {                                                  \
    for (int s = 0; s < STAGES; s++) {                            \
      init(&full[s], 1);                                          \
      init(&empty[s], 64);                                        \
    }                                                             \
  }                                                               \
  SYNC();                                                         \
  if (TX >= 64) {                                                 \
    for (int r = 0; r < rounds && TX == 64; r++) {                \
      int s = r % STAGES;                                         \
      WAIT;                                                       \
      arrive_expecting(&full[s], BYTES);                          \
      bulk(buffer[s], in + (base + r) * 64, &full[s]);            \
    }                                                             \
    return;                                                       \
  }                                                               \
  CONSUME(r / STAGES & 1)

KERNEL bulk_ring(const int *in, int *out, int rounds) { BULK(256, wait_here(&empty[s], (r / STAGES + 1) & 1)) }
// More bytes are expected than come.
KERNEL bulk_ring_bytes(const int *in, int *out, int rounds) {
  BULK(512, wait_here(&empty[s], (r / STAGES + 1) & 1))
}
// A stage is copied to while it is read, or copied to.
KERNEL bulk_ring_ahead(const int *in, int *out, int rounds) { BULK(256, ) }
// Bytes are expected behind the arrival, which may complete the phase without them.
KERNEL bulk_ring_late(const int *in, int *out, int rounds) {
  __shared__ __attribute__((aligned(16))) int buffer[64];
  __shared__ u64 object;
  if (TX == 0) init(&object, 1);
  SYNC();
  if (TX == 0) {
    arrive(&object);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 256;" ::"r"(shared_address(&object)) : "memory");
    bulk(buffer, in + BX * rounds * 64, &object);
  }
  wait(&object, 0);
  out[BX * 64 + TX] = buffer[63 - TX];
}

// All threads of a cluster of one block meet, and do something else in between.
KERNEL cluster_split(const int *in, int *out, int rounds) {
  __shared__ int buffer[2][64];
  int sum = 0;
  for (int r = 0; r < rounds; r++) {
    buffer[r % 2][TX] = in[(BX * rounds + r) * 64 + TX];
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    asm volatile("barrier.cluster.wait;" ::: "memory");
    sum += buffer[r % 2][63 - TX];
  }
  out[BX * 64 + TX] = sum;
}
// What others have written is read before the wait.
KERNEL cluster_split_early(const int *in, int *out, int rounds) {
  __shared__ int buffer[2][64];
  int sum = 0;
  for (int r = 0; r < rounds; r++) {
    buffer[r % 2][TX] = in[(BX * rounds + r) * 64 + TX];
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    sum += buffer[r % 2][63 - TX];
    asm volatile("barrier.cluster.wait;" ::: "memory");
  }
  out[BX * 64 + TX] = sum;
}
#endif

// Sums of warps: halves of a warp by themselves first, then both.
#define HALVES(LAST)                                                   \
  static __shared__ int values[128];                                   \
  u32 half = TX & 16 ? 0xffff0000u : 0xffffu;                          \
  values[TX] = in[BX * 128 + TX];                                      \
  WARP_SYNC(half);                                                     \
  for (int d = 8; d > 0; d /= 2) {                                     \
    int other = values[TX ^ d];                                        \
    WARP_SYNC(half);                                                   \
    values[TX] = values[TX] + other;                                   \
    WARP_SYNC(half);                                                   \
  }                                                                    \
  WARP_SYNC(LAST);                                                     \
  if (TX % 32 == 0) out[BX * 4 + TX / 32] = values[TX] + values[TX ^ 16];

KERNEL warp_halves(const int *in, int *out) { HALVES(0xffffffffu) }
KERNEL warp_halves_apart(const int *in, int *out) { HALVES(half) }
