//! The `.sync` collectives of one home warp meet in one table, keyed by instruction and mask: a
//! thread waits until every thread of the mask that has not ended arrives, then one issue
//! computes for all.

use sim_frontend::program::Pc;
use sim_memory::vocabulary::LaneMask;

use crate::reconvergence::SplitId;

/// Lanes that have arrived at a `.sync` collective.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// Home warp.
    pub warp: usize,
    /// The instruction.
    pub pc: Pc,
    /// The mask it names.
    pub mask: LaneMask,
    /// Lanes that arrived.
    pub arrived: LaneMask,
    /// The splits they wait in.
    pub splits: Vec<SplitId>,
}
