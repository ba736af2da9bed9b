// Clusters of blocks in PTX, as CUDA's cooperative groups emit it.
#pragma once
__device__ inline u32 cluster_rank() { u32 r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ inline u32 cluster_blocks() { u32 r; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(r)); return r; }
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// The address of the same place in the shared memory of the block of a rank.
__device__ inline u32 of_rank(u32 at, u32 rank) {
  u32 r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(at), "r"(rank));
  return r;
}
__device__ inline void cluster_add(u32 at, u32 value) {
  asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" :: "r"(at), "r"(value) : "memory");
}
__device__ inline u32 cluster_load(u32 at) {
  u32 r;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(r) : "r"(at) : "memory");
  return r;
}
