//! The barrier of a cluster (PTX ISA "barrier.cluster"): each block counts its own threads, and tells the others when they
//! have all arrived or ended.

use crate::reconvergence::SplitId;

/// The bit of [`Resident::waits`](crate::execute::Resident::waits) for the cluster barrier, above the bits of
/// the named barriers.
pub const CLUSTER: u32 = 16;

/// State of the cluster barrier in one block.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct ClusterBarrier {
    /// Number of live threads that have arrived in this phase.
    pub(crate) arrived: u32,
    /// The parity of the current phase.
    pub(crate) odd: bool,
    /// Splits that wait for the end of the phase.
    pub(crate) waiting: Vec<SplitId>,
    /// The other blocks of the cluster, where there are any.
    pub(crate) peers: Option<Box<Peers>>,
}

/// What a block knows of its cluster, by bits of ranks.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Peers {
    /// Rank of the block itself.
    pub(crate) rank: u32,
    /// All blocks.
    pub(crate) all: u32,
    /// The grid.
    pub(crate) grid_id: u32,
    /// Number in the grid and SM of each rank.
    pub(crate) blocks: Vec<(u64, u32)>,
    /// Blocks all of whose live threads have arrived in the even and in the odd phase: a block may be one phase ahead.
    pub(crate) arrived: [u32; 2],
    /// Blocks all of whose threads have ended: they count as arrived in every phase.
    pub(crate) gone: u32,
}

impl ClusterBarrier {
    /// A block arrived in a phase, or ended.
    pub(crate) fn hear(&mut self, rank: u32, odd: Option<bool>) {
        let Some(peers) = &mut self.peers else { return };
        match odd {
            Some(odd) => peers.arrived[usize::from(odd)] |= 1 << rank,
            None => peers.gone |= 1 << rank,
        }
    }

    /// All blocks have arrived in this phase, as far as this one knows: it is over.
    pub(crate) fn is_complete(&self) -> bool {
        self.peers.as_ref().is_none_or(|peers| {
            let here = peers.arrived[usize::from(self.odd)];
            // Its own threads have arrived, none of them by ending.
            here >> peers.rank & 1 == 1 && (here | peers.gone) & peers.all == peers.all
        })
    }

    /// The next phase begins; who waited.
    pub(crate) fn next_phase(&mut self) -> Vec<SplitId> {
        if let Some(peers) = &mut self.peers {
            peers.arrived[usize::from(self.odd)] = 0;
        }
        self.arrived = 0;
        self.odd = !self.odd;
        std::mem::take(&mut self.waiting)
    }
}
