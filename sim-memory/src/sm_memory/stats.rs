//! Counters of the SM's memory side.

use crate::cache::CacheStats;
use crate::coalescing::{LineAccess, round_to_sectors};
use crate::occupancy::QueueStats;
use crate::tlb::TlbStats;

/// What accesses requested, for counting by the instruction that made them.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
pub struct Asked {
    /// Warp accesses to global and local memory, hints not counted.
    pub accesses: u64,
    /// Lines they were split into.
    pub transactions: u64,
    /// Bytes requested by lanes; each byte of a line counts once.
    pub bytes_useful: u64,
    /// Bytes of the sectors or segments that contain the requested bytes.
    pub bytes_sectors: u64,
}

impl Asked {
    /// Adds other counters.
    pub fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.transactions += other.transactions;
        self.bytes_useful += other.bytes_useful;
        self.bytes_sectors += other.bytes_sectors;
    }

    /// Adds an access that was split into these transactions, whose bytes move in sectors of this size.
    #[cold]
    pub(super) fn count(&mut self, parts: &[LineAccess], sector: u32) {
        self.accesses += 1;
        for part in parts {
            let moved = if part.segment != 0 { part.segment } else { round_to_sectors(part.bytes, sector) };
            self.transactions += 1;
            self.bytes_useful += u64::from(part.bytes.count_ones());
            self.bytes_sectors += u64::from(moved.count_ones());
        }
    }
}

/// Access, traffic and occupancy counters of one SM's memory side.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
pub struct SmMemoryStats {
    /// Warp accesses to global and local memory.
    pub accesses: u64,
    /// Lines they were split into.
    pub transactions: u64,
    /// Accesses to local memory; included in `accesses`.
    pub local_accesses: u64,
    /// Lines of local memory; included in `transactions`.
    pub local_transactions: u64,
    /// Bytes requested by lanes; each byte of a line counts once.
    pub bytes_useful: u64,
    /// Bytes sent to and received from partitions, without message headers.
    pub bytes_moved: u64,
    /// Counters of the L1 cache.
    pub l1: CacheStats,
    /// Transactions that went to a partition.
    pub requests: u64,
    /// Accesses that stalled the load-store unit because no MSHR or store token was free.
    pub blocked: u64,
    /// Occupancy of the load-store unit's queue, in lines.
    pub load_store: QueueStats,
    /// Occupancy of the MSHRs of L1.
    pub mshrs: QueueStats,
    /// Occupancy of the store tokens.
    pub tokens: QueueStats,
    /// Counters of the TLBs.
    pub tlb: TlbStats,
}
