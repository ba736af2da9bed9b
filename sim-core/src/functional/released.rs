//! Warps that a barrier has released go on side by side, as those of hardware do: where a program races, the order of turns
//! decides what it computes.

use sim_frontend::program::{Op, OpClass};
use sim_memory::vocabulary::StateSpace;

use crate::execute::Step;

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

impl Released {
    /// Whether [`leaves`](Self::leaves) is to be asked: once an access has been made, only others to global memory end a turn.
    #[inline(always)]
    pub(super) fn may_leave(self, outcome: Step) -> bool {
        match self {
            Released::Not => false,
            Released::Now => true,
            Released::Before(_) => outcome == Step::Access,
        }
    }

    /// Whether the split, which others have released, leaves the rest of its turn to them behind `op`. A program may lack a
    /// barrier behind its reads of shared memory; on hardware no warp is back from global memory before the others have come as
    /// far. So a turn ends with the first access to shared or global memory, and with each access to global memory behind it.
    pub(super) fn leaves(&mut self, op: &Op, outcome: Step) -> bool {
        *self = match (*self, outcome) {
            (Released::Now, Step::Access | Step::DoneAfter { .. }) if accesses(op) => Released::Before(1),
            (Released::Before(LEFT_TO_OTHERS), _) => Released::Not,
            (Released::Before(turns), Step::Access) => Released::Before(turns + 1),
            _ => return false,
        };
        *self != Released::Not
    }
}

/// Whether an operation accesses memory that warps of a block share.
fn accesses(op: &Op) -> bool {
    let space = op.extra.access().map(|facts| facts.space);
    matches!(op.class, OpClass::Load | OpClass::Store | OpClass::Atomic)
        && matches!(space, Some(StateSpace::Shared | StateSpace::Generic | StateSpace::Global))
}
