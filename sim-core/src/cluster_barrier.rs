//! The barrier of a cluster (PTX ISA "barrier.cluster"); a cluster is one block here.

use crate::reconvergence::SplitId;

/// The bit of [`Resident::waits`](crate::execute::Resident::waits) of a split at the barrier of its cluster, above those of the
/// named barriers.
pub const CLUSTER: u32 = 16;

/// The barrier of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterBarrier {
    /// Threads that have arrived in this phase and live.
    pub(crate) arrived: u32,
    /// The parity of the phase.
    pub(crate) odd: bool,
    /// Splits that wait for its end.
    pub(crate) waiting: Vec<SplitId>,
}
