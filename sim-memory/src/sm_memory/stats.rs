//! What the SM's side counts.

use crate::cache::CacheStats;
use crate::coalescing::{LineAccess, round_to_sectors};
use crate::occupancy::QueueStats;

/// What accesses asked for, where it is counted by the instruction that made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Asked {
    /// Warp accesses to global and local memory, hints not counted.
    pub accesses: u64,
    /// Lines they were split into.
    pub transactions: u64,
    /// Bytes asked for by lanes, each byte of a line once.
    pub bytes_useful: u64,
    /// Bytes of the sectors or segments that these lie in.
    pub bytes_sectors: u64,
}

impl Asked {
    /// Adds what others asked for.
    pub fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.transactions += other.transactions;
        self.bytes_useful += other.bytes_useful;
        self.bytes_sectors += other.bytes_sectors;
    }

    /// Adds an access that became these transactions, whose bytes move by sectors of this size.
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

/// Counters of one SM's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SmMemoryStats {
    /// Warp accesses to global and local memory.
    pub accesses: u64,
    /// Lines they were split into.
    pub transactions: u64,
    /// Of the accesses, those to local memory.
    pub local_accesses: u64,
    /// Of the lines, those of local memory.
    pub local_transactions: u64,
    /// Bytes asked for by lanes, each byte of a line once.
    pub bytes_useful: u64,
    /// Bytes sent to and received from partitions, headers not counted.
    pub bytes_moved: u64,
    /// L1.
    pub l1: CacheStats,
    /// Transactions that went to a partition.
    pub requests: u64,
    /// Accesses that found the load-store unit without MSHRs or tokens.
    pub blocked: u64,
    /// Lines that wait in the load-store unit.
    pub load_store: QueueStats,
    /// MSHRs in use.
    pub mshrs: QueueStats,
    /// Store tokens in use.
    pub tokens: QueueStats,
}
