//! Where splits are: ready, waiting for results, memory, barriers or others.

/// Where a split is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
#[repr(u8)]
pub(super) enum Status {
    Absent,
    Ready,
    Dependency,
    Memory,
    Drain,
    Barrier,
    Collective,
    Sleep,
    Fetch,
}

/// The names of what a split may be doing, in the order of `Status`.
pub const STATES: [&str; 9] =
    ["absent", "ready", "dependency", "memory", "drain", "barrier", "collective", "sleep", "fetch"];

pub(super) const STATUSES: usize = STATES.len();
