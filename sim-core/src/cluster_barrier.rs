//! The barrier of a cluster (PTX ISA "barrier.cluster"). In this model a cluster is a single block.

use crate::reconvergence::SplitId;

/// The bit of [`Resident::waits`](crate::execute::Resident::waits) for the cluster barrier, above the bits of
/// the named barriers.
pub const CLUSTER: u32 = 16;

/// State of the cluster barrier of one block.
#[derive(Clone, Debug, Default)]
pub struct ClusterBarrier {
    /// Number of live threads that have arrived in this phase.
    pub(crate) arrived: u32,
    /// The parity of the current phase.
    pub(crate) odd: bool,
    /// Splits that wait for the end of the phase.
    pub(crate) waiting: Vec<SplitId>,
}
