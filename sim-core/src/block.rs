//! A thread block (CS §5.5): its barriers, its shared memory, its warps.

use sim_memory::shared::SharedMemory;

use crate::barrier::BarrierEnv;
use crate::cluster_barrier::ClusterBarrier;
use crate::writes::Writes;

/// One block slot of an SM.
#[derive(Debug)]
pub struct Block {
    /// Index in the grid, linear (x fastest).
    pub number: u64,
    /// Block index.
    pub index: [u32; 3],
    /// Index of its kernel in the SM's table.
    pub kernel: usize,
    /// Named barriers.
    pub barriers: BarrierEnv,
    /// The barrier of its cluster.
    pub cluster: ClusterBarrier,
    /// Its writes under way.
    pub writes: Writes,
    /// Shared memory.
    pub shared: SharedMemory,
    /// Warp slots, in order of warps.
    pub warps: Vec<usize>,
    /// Threads that have not ended.
    pub live_threads: u32,
    /// Warps with threads that have not ended.
    pub live_warps: u32,
    /// Warps whose threads have ended and whose accesses are performed.
    pub finished_warps: u32,
}

impl Block {
    /// The count of a barrier that names none: all live threads, or all live warps' threads
    /// where whole warps arrive (CS §5.5.2 exec).
    pub fn barrier_default(&self, whole_warps: Option<u32>) -> u32 {
        whole_warps.map_or(self.live_threads, |warp_size| self.live_warps * warp_size)
    }
}
