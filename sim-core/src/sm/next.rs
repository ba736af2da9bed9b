//! When a split can issue its next instruction.

use sim_frontend::program::Pc;
use sim_memory::vocabulary::{Cycle, LaneMask};

use super::drains::drains;
use super::fetch::Fetch;
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

impl From<Readiness> for Next {
    #[inline(always)]
    fn from(readiness: Readiness) -> Self {
        match readiness {
            Readiness::Memory => Self::Memory,
            Readiness::At(at) => Self::At(at),
        }
    }
}

impl Next {
    /// The same, not before the line of code of the operation `to` is there, to which a split comes behind `from`, or from elsewhere.
    #[inline(always)]
    pub(super) fn fetched(
        self,
        fetch: &mut Option<Box<Fetch>>,
        code: &Code,
        from: Option<(Pc, &DecodedOp)>,
        to: (Pc, &DecodedOp),
        now: Cycle,
    ) -> Self {
        if from.is_some_and(|(_, from)| from.line == to.1.line) {
            return self;
        }
        let Some(fetch) = fetch else { return self };
        let there = fetch.come_to(code, from.map(|(pc, _)| pc), to.0, now);
        match self {
            Self::At(ready) if there > ready => Self::Fetch(there),
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
    decoded.readiness(&warp.board, mask, earliest).into()
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
        Drain::Fragments => warp.board.readiness(code.more_slots(decoded), mask, earliest).into(),
        drain if drains(warp, blocks, drain, mask) => Next::Drain,
        _ => Next::At(earliest),
    }
}
