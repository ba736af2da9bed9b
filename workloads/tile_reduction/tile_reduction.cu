#include "../common/prelude.cuh"
// Groups as cooperative groups have them: tiles of a block by shuffles, the threads that run
// together in a branch, and the grid by one counter.
struct Tile {
  int size, rank;
  __device__ Tile(int size) : size(size), rank(TX & (size - 1)) {}
  __device__ u32 mask() const {
    u32 all = size == 32 ? 0xffffffffu : (1u << size) - 1;
    return all << (TX & 31 & ~(size - 1));
  }
  __device__ u32 sum(u32 v) const {
    for (int d = size / 2; d > 0; d /= 2) v += __shfl_xor_sync(mask(), v, d);
    return v;
  }
};
struct Coalesced {
  u32 mask;
  int size, rank;
  __device__ Coalesced() : mask(__activemask()) {
    u32 below;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    size = __popc(mask);
    rank = __popc(mask & below);
  }
  __device__ u32 broadcast(u32 v) const { return __shfl_sync(mask, v, __ffs((int)mask) - 1); }
};
// Sums of tiles of eight, the even numbers packed (in any order), the sum of all by the last block.
KERNEL tile_reduction(const u32 *in, u32 *tiles, u32 *even, u32 *count, u32 *partial, u32 *total) {
  __shared__ u32 warps[8];
  __shared__ int last;
  int i = BX * BDX + TX;
  u32 v = in[i];
  Tile eight(8), warp(32);
  u32 sum = eight.sum(v);
  if (eight.rank == 0) tiles[i / 8] = sum;
  if (v % 2 == 0) {
    Coalesced group;
    u32 at = 0;
    if (group.rank == 0) at = atomic_add(count, group.size);
    at = group.broadcast(at) + group.rank;
    even[at] = v;
  }
  __syncwarp();
  sum = warp.sum(v);
  if (warp.rank == 0) warps[TX / 32] = sum;
  SYNC();
  if (TX == 0) {
    u32 block = 0;
    for (int w = 0; w < BDX / 32; w++) block += warps[w];
    partial[BX] = block;
    __threadfence();
    last = atomic_add(total + 1, 1) == GDX - 1;
  }
  SYNC();
  if (last && TX < 32) {
    __threadfence();
    u32 all = 0;
    for (int b = TX; b < GDX; b += 32) all += ((volatile u32 *)partial)[b];
    all = warp.sum(all);
    if (TX == 0) *total = all;
  }
}
