//! The `.sync` collectives of one home warp meet in one table: a thread waits until every thread of
//! the mask that has not ended arrives, then one issue computes for all. Up to compute capability
//! 6.x they meet at one instruction; from 7.0 on threads meet wherever they execute the same
//! instruction with the same qualifiers and mask (PTX ISA "bar.warp.sync", "shfl.sync").

use sim_frontend::program::{Op, Pc};
use sim_memory::vocabulary::LaneMask;

use crate::reconvergence::SplitId;

/// Lanes that have arrived at a `.sync` collective.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Meeting {
    /// Home warp of the lanes.
    pub warp: usize,
    /// The mask it names.
    pub mask: LaneMask,
    /// Lanes that arrived.
    pub arrived: LaneMask,
    /// The same by the instruction they execute; never empty.
    pub parts: Vec<(Pc, LaneMask)>,
    /// The splits they wait in.
    pub splits: Vec<SplitId>,
}

impl Meeting {
    /// `lanes` of a split arrive at `pc`.
    pub fn arrive(&mut self, split: SplitId, pc: Pc, lanes: LaneMask) {
        self.arrived |= lanes;
        self.splits.push(split);
        match self.parts.iter_mut().find(|(at, _)| *at == pc) {
            Some((_, part)) => *part |= lanes,
            None => self.parts.push((pc, lanes)),
        }
    }

    /// True if threads that execute the instruction at `pc` meet here.
    pub fn is_for(&self, ops: &[Op], pc: Pc, apart: bool) -> bool {
        self.parts.iter().all(|&(at, _)| {
            let (own, other) = (&ops[at as usize], &ops[pc as usize]);
            at == pc || apart && own.class == other.class && own.extra == other.extra
        })
    }
}
