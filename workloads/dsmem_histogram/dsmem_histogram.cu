#include "../common/prelude.cuh"
#include "../common/cluster.cuh"
// The bins are dealt out to the blocks of a cluster: each block counts what it reads in the shared memory of the block
// that has the bin.
KERNEL dsmem_histogram(const unsigned char *in, u32 *bins, int n) {
  static __shared__ u32 own[64];
  u32 blocks = cluster_blocks(), rank = cluster_rank(), each = 64 / blocks, first = shared_address(own);
  if (TX < 64) own[TX] = 0;
  cluster_sync();
  for (int i = BX * BDX + TX; i < n; i += BDX * GDX) {
    u32 bin = in[i] >> 2;
    cluster_add(of_rank(first + 4 * (bin % each), bin / each), 1);
  }
  cluster_sync();
  if (TX < each) atomic_add(&bins[rank * each + TX], own[TX]);
}
