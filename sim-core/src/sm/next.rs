//! When a split can issue its next instruction.

use sim_memory::vocabulary::{Cycle, LaneMask};

use super::drains::drains;
use crate::block::Block;
use crate::code::{Code, DecodedOp, Drain};
use crate::scoreboard::Readiness;
use crate::warp::Warp;

/// When a split's next instruction can issue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// At this cycle, units permitting.
    At(Cycle),
    /// At this cycle, when its line of code is there.
    Fetch(Cycle),
    /// Once memory releases a register.
    Memory,
    /// Once accesses are performed.
    Drain,
}

impl Next {
    /// The same for an operation whose line of code is there at `at`.
    #[inline]
    pub(super) fn fetched(self, at: Cycle) -> Self {
        match self {
            Self::At(ready) if at > ready => Self::Fetch(at),
            next => next,
        }
    }
}

/// When `decoded` can issue for `mask`, not before `earliest` [sched-canBeScheduled].
#[inline(always)]
pub(super) fn next_issue(
    warp: &Warp,
    blocks: &[Option<Block>],
    code: &Code,
    decoded: &DecodedOp,
    mask: LaneMask,
    mut earliest: Cycle,
) -> Next {
    if !matches!(decoded.drain, Drain::None) {
        match awaited(warp, blocks, code, decoded, mask, earliest) {
            Next::At(at) => earliest = at,
            waits => return waits,
        }
    }
    match warp.board.readiness(decoded.slots(), mask, earliest) {
        Readiness::Memory => Next::Memory,
        Readiness::At(at) => Next::At(at),
    }
}

/// What an operation waits for besides its own slots.
#[inline(never)]
fn awaited(
    warp: &Warp,
    blocks: &[Option<Block>],
    code: &Code,
    decoded: &DecodedOp,
    mask: LaneMask,
    earliest: Cycle,
) -> Next {
    match decoded.drain {
        Drain::Fragments => match warp.board.readiness(code.more_slots(decoded), mask, earliest) {
            Readiness::Memory => Next::Memory,
            Readiness::At(at) => Next::At(at),
        },
        drain if drains(warp, blocks, drain, mask) => Next::Drain,
        _ => Next::At(earliest),
    }
}
