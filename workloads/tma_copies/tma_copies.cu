#include "../common/prelude.cuh"
#include "../common/clock.cuh"
// Latency and rate of copies of bytes and of boxes of a tensor from L2 to shared memory. The tensor has rows of 128 bytes;
// the first word of a row is the number of the next one of a ring.
struct __align__(64) tensor_map {
  u64 words[16];
};

#define ROW 128
// Bytes of a copy of the rates: as many rows.
#define TILE (128 * ROW)

__device__ inline void expect(u32 object, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" :: "r"(object), "r"(bytes) : "memory");
}
__device__ inline void wait(u32 object, u32 parity) {
  asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}"
               :: "r"(object), "r"(parity) : "memory");
}
__device__ inline void initialize(u32 object) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.proxy.async;" :: "r"(object) : "memory");
}
__device__ inline void copy(u32 to, const u32 *room, u32 row, u32 bytes, u32 object) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(room + (u64)row * (ROW / 4)), "r"(bytes), "r"(object) : "memory");
}
__device__ inline void copy(u32 to, const tensor_map *map, u32 row, u32, u32 object) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(to), "l"(map), "r"(0), "r"(row), "r"(object) : "memory");
}

KERNEL ring(u32 *room, u32 n, u32 factor, u32 offset) {
  u32 i = BX * BDX + TX;
  if (i < n) room[i * (ROW / 4)] = (i * factor + offset) % n;
}

// Walks the ring by copies of 16 bytes, each after the one before has arrived.
template <typename From> __device__ inline void chase(From from, u64 *cycles, u64 *last, int warm, int steps) {
  static __shared__ __align__(128) u32 room[32];
  static __shared__ u64 object;
  u32 to = shared_address(room), counter = shared_address(&object), row = 0, parity = 0;
  u64 start = 0;
  initialize(counter);
#pragma unroll 1
  for (int i = 0; i < warm + steps; i++) {
    if (i == warm) start = cycles_now();
    expect(counter, 16);
    copy(to, from, row, 16, counter);
    wait(counter, parity);
    parity ^= 1;
    row = *(volatile u32 *)room;
  }
  *cycles = cycles_now() - start;
  *last = (u64)row * ROW;
}
KERNEL bulk_chase(u32 *room, u64 *cycles, u64 *last, int warm, int steps) {
  chase((const u32 *)room, cycles, last, warm, steps);
}
KERNEL tensor_chase(const __grid_constant__ tensor_map map, u64 *cycles, u64 *last, int warm, int steps) {
  chase(&map, cycles + 1, last + 1, warm, steps);
}
// The map is in global memory.
KERNEL tensor_chase_far(const tensor_map *map, u64 *cycles, u64 *last, int warm, int steps) {
  chase(map, cycles + 2, last + 2, warm, steps);
}

// Copies of tiles, one while the other is awaited. A thread of each block makes its own.
template <typename From> __device__ inline void rate(From from, u64 *cycles, u32 tiles, int rounds) {
  static __shared__ __align__(128) unsigned char room[2 * TILE];
  static __shared__ u64 objects[2];
  u32 to = shared_address(room), counter = shared_address(objects);
  initialize(counter);
  initialize(counter + 8);
  u64 start = cycles_now();
#pragma unroll 1
  for (int i = 0; i < rounds + 2; i++) {
    u32 stage = i & 1;
    if (i >= 2) wait(counter + 8 * stage, (i >> 1) + 1 & 1);
    if (i < rounds) {
      expect(counter + 8 * stage, TILE);
      copy(to + stage * TILE, from, (BX + i) % tiles * (TILE / ROW), TILE, counter + 8 * stage);
    }
  }
  if (BX == 0) *cycles = cycles_now() - start;
}
KERNEL bulk_rate(u32 *room, u64 *cycles, u32 n, int rounds) {
  rate((const u32 *)room, cycles + 3, n / (TILE / ROW), rounds);
}
KERNEL tensor_rate(const __grid_constant__ tensor_map map, u64 *cycles, u32 n, int rounds) {
  rate(&map, cycles + 4, n / (TILE / ROW), rounds);
}
