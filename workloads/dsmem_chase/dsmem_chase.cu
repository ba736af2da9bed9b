#include "../common/prelude.cuh"
#include "../common/clock.cuh"
#include "../common/cluster.cuh"
// A ring of n words in the shared memory of the last block of a cluster, walked by a thread of the first: what a step
// takes is the latency of a load from there. n is at most 256.
KERNEL dsmem_chase(u64 *cycles, u64 *last, u32 n, u32 stride, u32 factor, u32 offset, int warm, int steps) {
  static __shared__ u32 ring[4096];
  u32 far = of_rank(shared_address(ring), cluster_blocks() - 1);
  for (u32 i = TX; i < n; i += BDX) ring[i * stride / 4] = far + (i * factor + offset) % n * stride;
  cluster_sync();
  if (cluster_rank() == 0 && TX == 0) {
    u32 at = far;
#pragma unroll 1
    for (int i = 0; i < warm; i += 8) {
      for (int k = 0; k < 8; k++) at = cluster_load(at);
    }
    u64 start = cycles_now();
#pragma unroll 1
    for (int i = 0; i < steps; i += 8) {
      at = cluster_load(cluster_load(cluster_load(cluster_load(cluster_load(cluster_load(cluster_load(cluster_load(at))))))));
    }
    u64 end = cycles_now();
    cycles[0] = end - start;
    last[0] = at - far;
  }
  cluster_sync();
}
