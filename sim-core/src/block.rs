//! A resident thread block (CS §5.5): its barriers, shared memory and warps.

use sim_memory::shared::SharedMemory;

use crate::barrier::BarrierEnv;
use crate::cluster_barrier::ClusterBarrier;
use crate::products::GroupReads;
use crate::register_pool::RegisterPool;
use crate::writes::Writes;

/// A block that occupies a block slot of an SM.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Block {
    /// Linear index in the grid, x fastest.
    pub number: u64,
    /// Index in the grid (`%ctaid`).
    pub index: [u32; 3],
    /// Index of its kernel in the SM's kernel table.
    pub kernel: usize,
    /// The named barriers of the block.
    pub barriers: BarrierEnv,
    /// The barrier of the block's cluster.
    pub cluster: ClusterBarrier,
    /// The block's writes in flight.
    pub writes: Writes,
    /// Registers that its warps have given back, once one has.
    pub registers: Option<Box<RegisterPool>>,
    /// Reads of shared memory for products, by warpgroup, once there has been one.
    pub product_reads: Vec<GroupReads>,
    /// The shared memory of the block.
    pub shared: SharedMemory,
    /// Warp slots of its warps, in warp order.
    pub warps: Vec<usize>,
    /// Number of threads that have not exited.
    pub live_threads: u32,
    /// Number of warps with threads that have not exited.
    pub live_warps: u32,
    /// Number of warps whose threads have exited and whose accesses are performed.
    pub finished_warps: u32,
}

impl Block {
    /// The expected count of a barrier without a stated one: the number of live threads, or the threads of
    /// all live warps if whole warps arrive (CS §5.5.2 exec).
    pub fn barrier_default(&self, whole_warps: Option<u32>) -> u32 {
        whole_warps.map_or(self.live_threads, |warp_size| self.live_warps * warp_size)
    }
}
