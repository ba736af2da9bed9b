//! What the threads of blocks do at barriers and in shared memory, told step by step while a functional run executes them.
//!
//! Addresses in shared memory are those in the block's own. In clusters of several blocks, that of the block of each rank
//! begins at `rank << CLUSTER_SHIFT`.

use std::sync::Arc;

use sim_frontend::form::{BarrierKind, MbarrierOptions, MbarrierStep};
use sim_memory::vocabulary::{LaneMask, Semantics, WARP_LANES};

use crate::grid::Kernel;

/// Who is told.
#[derive(Clone)]
pub struct Record(pub Arc<dyn Fn(Recorded<'_>) + Send + Sync>);

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Record")
    }
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// An atomic read-modify-write.
    Atomic,
}

/// What a strong operation orders beside itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// It tells its thread what it reads.
    pub reads: bool,
    /// It certainly writes.
    pub writes: bool,
    /// What its thread does later comes after it.
    pub acquires: bool,
    /// What its thread did earlier comes before it.
    pub releases: bool,
}

impl Orders {
    /// Those of an operation with these semantics.
    pub fn of(semantics: Semantics) -> Self {
        use Semantics as S;
        Self {
            acquires: matches!(semantics, S::Acquire | S::AcqRel | S::Sc),
            releases: matches!(semantics, S::Release | S::AcqRel | S::Sc),
            ..Self::default()
        }
    }
}

/// What groups are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// `cp.async`.
    Copies,
    /// Bulk copies from shared memory.
    Stores,
    /// `wgmma.mma_async`.
    Products,
}

/// Lanes of a warp that are about to execute an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// Slot of the warp, of its block until that has ended.
    pub warp: u32,
    /// Address of the instruction.
    pub pc: u32,
    /// The lanes.
    pub lanes: LaneMask,
}

/// A thing that happens. Steps come before they are executed, in the order in which they are.
#[derive(Debug)]
pub enum Recorded<'r> {
    /// A block begins in these slots of warps, with their threads.
    Block {
        /// Its kernel.
        kernel: &'r Arc<Kernel>,
        /// Its number in the grid.
        number: u64,
        /// Slots of its warps, in order, with the lanes that have threads.
        warps: &'r [(u32, LaneMask)],
    },
    /// An access to shared memory.
    Access {
        /// By whom.
        who: Who,
        /// Of which kind.
        kind: AccessKind,
        /// Of atomic operations: what they order.
        orders: Orders,
        /// Bytes of each lane.
        bytes: u32,
        /// Address of each lane in shared memory.
        addresses: &'r [u64; WARP_LANES],
    },
    /// A fence.
    Fence {
        /// By whom.
        who: Who,
        /// What it orders.
        orders: Orders,
    },
    /// An arrival at a named barrier of the block.
    Barrier {
        /// By whom.
        who: Who,
        /// Whether they wait.
        kind: BarrierKind,
        /// The barrier.
        index: u32,
        /// The thread count, if it is written.
        count: Option<u32>,
    },
    /// Lanes wait for the others of a mask.
    Meet {
        /// Who.
        who: Who,
        /// The mask.
        mask: LaneMask,
        /// `bar.warp.sync`, which orders accesses to memory.
        orders_memory: bool,
    },
    /// An operation on mbarrier objects.
    Object {
        /// By whom.
        who: Who,
        /// What it does.
        step: MbarrierStep,
        /// Its options.
        options: MbarrierOptions,
        /// It orders no accesses to memory.
        relaxed: bool,
        /// Address of each lane's object in shared memory.
        addresses: &'r [u64; WARP_LANES],
        /// The operand of each lane; of waits the parity, 0 or 1, of the phase that is waited for.
        operands: &'r [u64; WARP_LANES],
        /// Of waits: lanes whose phase is complete.
        passes: LaneMask,
    },
    /// `cp.async`: bytes of shared memory are written later; or a bulk copy or a product of matrices that reads them.
    Copy {
        /// By whom.
        who: Who,
        /// What groups it.
        groups: Groups,
        /// Another part of the same follows.
        more: bool,
        /// Bytes of each lane.
        bytes: u32,
        /// Address of each lane in shared memory.
        addresses: &'r [u64; WARP_LANES],
    },
    /// `cp.async.commit_group` and its like.
    Commit {
        /// By whom.
        who: Who,
        /// Of which groups.
        groups: Groups,
    },
    /// `cp.async.wait_group` and its like, `cp.async.wait_all`.
    Await {
        /// By whom.
        who: Who,
        /// Of which groups.
        groups: Groups,
        /// The number of newest groups that may be under way; `None`: no copy may be.
        newest: Option<u8>,
    },
    /// `cp.async.mbarrier.arrive`: arrivals when the thread's copies have arrived.
    CopiesArrive {
        /// By whom.
        who: Who,
        /// `.noinc`.
        no_inc: bool,
        /// Address of each lane's object in shared memory.
        addresses: &'r [u64; WARP_LANES],
    },
    /// `cp.async.bulk` to shared memory, counted by mbarrier objects.
    Bulk {
        /// By whom.
        who: Who,
        /// Bytes of each lane.
        bytes: &'r [u32; WARP_LANES],
        /// Address of each lane in shared memory.
        addresses: &'r [u64; WARP_LANES],
        /// Address of each lane's object in shared memory.
        objects: &'r [u64; WARP_LANES],
    },
    /// A warp has issued its part of `wgmma.mma_async`.
    Product {
        /// By whom.
        who: Who,
    },
    /// `barrier.cluster`.
    Cluster {
        /// By whom.
        who: Who,
        /// `.wait`.
        wait: bool,
        /// It orders no accesses to memory.
        relaxed: bool,
    },
    /// Something else that synchronizes threads of a block or accesses its shared memory.
    Other {
        /// Who.
        who: Who,
        /// What, in words.
        what: &'static str,
    },
    /// The block with this warp has ended.
    Ended {
        /// Slot of its first warp.
        warp: u32,
    },
}
