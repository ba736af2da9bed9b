//! What is counted of bulk copies and of packets between blocks.

use serde::Serialize;

/// The units that make bulk copies and copies of tensors, all SMs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
pub struct TmaReport {
    /// Copies that threads asked for.
    pub copies: u64,
    /// Bytes read from global memory for shared memory, once whichever blocks get them.
    pub loaded_bytes: u64,
    /// Bytes written to global memory, or reduced there.
    pub stored_bytes: u64,
    /// Bytes from shared memory of one block to that of another.
    pub between_bytes: u64,
    /// Cycles in which a unit was at work: an access takes as long as its bytes do, or waits for the queue of accesses.
    pub busy_cycles: u64,
    /// Cycles with a resident warp, of the SMs whose unit had a copy.
    pub active_cycles: u64,
}

/// Shared memory of other blocks of a cluster, all SMs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
pub struct RemoteReport {
    /// Accesses of warps, by the blocks they go to.
    pub accesses: u64,
    /// Packets between SMs, with answers, arrivals at barriers and the pieces of copies among them.
    pub packets: u64,
}
