//! Warps that a barrier has released go on side by side, as those of hardware do: where a program races, the order of turns
//! decides what it computes.

use sim_frontend::program::{OpClass, Pc};
use sim_memory::vocabulary::StateSpace;

use super::Functional;
use crate::execute::{Resident, Step};
use crate::reconvergence::{Reconvergence, SplitId};

/// Whether others have released a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Released {
    /// They have not.
    Not,
    /// They have, and it has not accessed memory since.
    Now,
    /// It has, and has left so many turns to others since.
    Before(u8),
}

/// Turns that a split leaves to those that a barrier released with it. One that spins has whole turns from then on, in
/// which it is found out.
const LEFT_TO_OTHERS: u8 = 64;

impl<P: Reconvergence> Functional<P> {
    /// The split, which others have released, leaves the rest of its turn to them. A program may lack a barrier behind its reads
    /// of shared memory; on hardware no warp is back from global memory before the others have come as far. So a turn ends with
    /// the first access to shared or global memory, and with each access to global memory behind it.
    #[inline(never)]
    pub(super) fn keeps_step(&mut self, split: SplitId, w: usize, pc: Pc) -> bool {
        let released = &mut self.released[split as usize];
        // What is recorded is the order that verification begins with.
        if self.watch.is_some() || self.record.is_some() {
            *released = Released::Not;
            return false;
        }
        let accesses = |resident: &Resident<P>| {
            let op = &resident.kernels[resident.warps[w].kernel].code.program.ops[pc as usize];
            let space = op.extra.access().map(|facts| facts.space);
            matches!(op.class, OpClass::Load | OpClass::Store | OpClass::Atomic)
                && matches!(space, Some(StateSpace::Shared | StateSpace::Generic | StateSpace::Global))
        };
        *released = match (*released, self.resident.outcome) {
            (Released::Now, Step::Access | Step::DoneAfter { .. }) if accesses(&self.resident) => {
                Released::Before(1)
            }
            (Released::Before(LEFT_TO_OTHERS), _) => Released::Not,
            (Released::Before(turns), Step::Access) => Released::Before(turns + 1),
            _ => return false,
        };
        *released != Released::Not
    }

    /// No other has released the splits of a block that begins.
    pub(super) fn not_released(&mut self, slot: usize) {
        let Some(block) = &self.resident.blocks[slot] else { return };
        for w in block.warps.clone() {
            for split in self.resident.splits_of(w) {
                self.released[split as usize] = Released::Not;
            }
        }
    }
}
