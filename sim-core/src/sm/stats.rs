//! What an SM counts.

use sim_memory::vocabulary::Cycle;

use crate::copy_counts::{RemoteReport, TmaReport};
use crate::counts::KernelCounts;

/// Why a scheduler issued nothing in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stall {
    /// No block is resident.
    Idle,
    /// Splits are ready, but the unit they need is busy.
    Unit,
    /// Every split waits at least for a result of fixed latency.
    Dependency,
    /// Every split waits at least for memory to release a register.
    Memory,
    /// Every split waits at least for its accesses to be performed before a barrier or membar.
    Drain,
    /// Every split waits at a barrier.
    Barrier,
    /// Every split waits for other threads of its warp at a collective.
    Collective,
    /// Every split sleeps (`nanosleep`).
    Sleep,
    /// Every split waits at least for its line of code.
    Fetch,
    /// The warps have ended; their last accesses are on the way.
    Finishing,
}

/// The reasons, in the order of [`Stall`], as the report names them.
pub const STALLS: [&str; 10] = [
    "idle",
    "unit_busy",
    "dependency",
    "memory",
    "drain",
    "barrier",
    "collective",
    "sleep",
    "fetch",
    "finishing",
];

/// What one SM counts while it runs.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct SmStats {
    /// Cycles × schedulers with an issue.
    pub issued: u64,
    /// Of these, with two instructions of one warp.
    pub paired: u64,
    /// Cycles × schedulers without one, by reason.
    pub stalls: [u64; STALLS.len()],
    /// By grid id.
    pub kernels: Vec<KernelCounts>,
    /// Accesses to global and local memory.
    pub accesses: u64,
    /// Sum of their latencies from issue to performed, in core cycles.
    pub access_latency: u64,
    /// Accesses to shared and constant memory, parameters among it.
    pub shared_accesses: u64,
    /// Extra cycles for bank conflicts, and for lanes of atomics that wait for one another.
    pub bank_conflict_cycles: u64,
    /// These by the turns they took, from one.
    pub turns: Vec<u64>,
    /// Spilled bytes of the policy's stack or table.
    pub spilled_bytes: u64,
    /// Most entries of the policy's stack or table for one warp.
    pub most_entries: u32,
    /// Blocks that have completed.
    pub blocks: u64,
    /// Cycle of the last block's end.
    pub last_block_end: Cycle,
    /// Resident warps summed over core cycles.
    pub warp_cycles: u64,
    /// Core cycles with a resident warp.
    pub active_cycles: u64,
    /// The unit that makes bulk copies, but for its active cycles.
    pub tma: TmaReport,
    /// Shared memory of other blocks.
    pub remote: RemoteReport,
}

impl SmStats {
    /// An access to shared or constant memory took this many turns, so many cycles more than its first one, and its lanes waited for
    /// one another at banks that atomics lock.
    #[inline(always)]
    pub fn on_chip(&mut self, turns: u32, more: u32, waited: u32) {
        let further = turns.saturating_sub(1);
        self.shared_accesses += 1;
        self.bank_conflict_cycles += u64::from(more) + u64::from(waited);
        if further as usize >= self.turns.len() {
            self.turns.resize(further as usize + 1, 0);
        }
        self.turns[further as usize] += 1;
    }
}
