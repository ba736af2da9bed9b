//! Reconvergence is a policy: it decides which threads execute which instruction together.
//!
//! The schedulable unit is a *split*: a pc and a lane mask of one home warp. A policy owns the
//! splits of its SM and is told what happens to them; the SM schedules those that can run. A
//! warp has [`Reconvergence::SPLITS`] split ids, consecutive from
//! `warp * SPLITS`; a split whose mask is empty does not exist.

pub mod convergence_barriers;
pub mod crs_stack;
pub mod dual_path;
pub mod dynamic_warp_formation;
pub mod lowest_first;
pub mod mimd;
pub mod multi_path;
pub mod parameters;
pub mod paths;
pub mod pdom_stack;
pub mod plan;
pub mod registry;
pub mod returns;
pub mod rules;
pub mod table;
pub mod table_policies;
pub mod thread_block_compaction;
pub mod warp_subdivision;

use std::sync::Arc;

use borsh::{BorshDeserialize, BorshSerialize};
use sim_frontend::program::{ControlFlow, Pc};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use crate::error::Violation;
use crate::registers::first_lane;
use plan::Plan;

/// A split of one SM.
pub type SplitId = u32;

/// Where the lanes of a control-flow instruction want to go.
#[derive(Clone, Copy, Debug)]
pub enum Targets<'a> {
    /// All to the same address.
    One(Pc),
    /// Each lane to its own.
    PerLane(&'a [Pc; WARP_LANES]),
}

impl Targets<'_> {
    /// The address `lane` goes to.
    pub fn of(&self, lane: u32) -> Pc {
        match self {
            Self::One(pc) => *pc,
            Self::PerLane(pcs) => pcs[lane as usize & (WARP_LANES - 1)],
        }
    }

    /// The address all of `lanes` share, if they do.
    pub fn uniform(&self, lanes: LaneMask) -> Option<Pc> {
        match self {
            Self::One(pc) => Some(*pc),
            Self::PerLane(pcs) => {
                let first = pcs[first_lane(lanes)];
                Lanes(lanes).all(|lane| pcs[lane as usize] == first).then_some(first)
            }
        }
    }
}

/// A branch or call as the lanes of a split execute it.
#[derive(Clone, Copy, Debug)]
pub struct LaneTargets<'a> {
    /// The lanes whose guard is true.
    pub lanes: LaneMask,
    /// Targets of these lanes.
    pub targets: Targets<'a>,
    /// The instruction is a call.
    pub call: bool,
}

/// The instructions of transformation 6 (CS §5.1.3 step 6); only `crs_stack` meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injected {
    /// Push a sync token that resumes at the address.
    Ssy(Pc),
    /// Push a break token that resumes at the address.
    PreBreak(Pc),
    /// Push a call token that resumes at the address.
    PreReturn(Pc),
    /// Pop a token.
    Sync,
    /// The lanes leave the loop.
    Break,
}

/// What a decision of the policy costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Cost {
    /// Cycles of the core clock before the split can issue again.
    pub cycles: u32,
    /// Bytes moved to or from spill memory.
    pub spilled_bytes: u32,
    /// Entries the policy's table or stack holds now for this warp.
    pub entries: u32,
}

impl Cost {
    /// Two decisions of one step.
    pub fn add(&mut self, other: Self) {
        self.cycles += other.cycles;
        self.spilled_bytes += other.spilled_bytes;
        self.entries = self.entries.max(other.entries);
    }
}

/// How a test breaks a policy.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// The split loses its lowest lane.
    DropLane,
    /// The token, stack entry or join point at the top is gone.
    Pop,
    /// The address of the token, stack entry or join point at the top is another.
    MoveTop,
}

/// What every issue reads of a split: where it is, where its policy has a say next, its lanes.
#[derive(Clone, Copy, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Issuing {
    pc: Pc,
    stop: Pc,
    mask: LaneMask,
}

/// Threads a policy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Program counter at which they continue.
    pub pc: Pc,
    /// The threads, as a mask of lanes.
    pub mask: LaneMask,
    /// They are in no split that can be scheduled.
    pub waits: bool,
}

/// A program address of ready splits of an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyAddress {
    /// The kernel, by its place in the SM's table.
    pub kernel: usize,
    /// Program address.
    pub pc: Pc,
    /// Number of threads at this address.
    pub threads: u32,
    /// When the first of their splits came there; lower is earlier.
    pub since: u64,
    /// Branches whose paths have not met at the address, by the program's text.
    pub nesting: u32,
}

/// The places of an SM for warps.
#[derive(Clone, Copy, Debug)]
pub struct WarpSlots {
    /// Number of warp slots of the SM.
    pub count: usize,
    /// The lanes that a warp of the chip has.
    pub lanes: LaneMask,
}

/// Decides which threads execute which instruction together.
pub trait Reconvergence: BorshSerialize + BorshDeserialize + Send + Sized + 'static {
    /// Which control flow its programs have.
    const FLOW: ControlFlow;
    /// A split always holds all live threads of its warp that are at its pc *by construction of
    /// one split per warp*: barriers then count whole warps (CS §5.5.1), and the collectives
    /// without `.sync` see the warp's active threads.
    const WHOLE_WARP: bool;

    /// Split ids each warp has; a power of two.
    const SPLITS: usize;

    /// Splits of several warps may issue as one formed warp.
    const FORMS_WARPS: bool = false;

    /// What can be chosen of it.
    type Parameters: Clone + 'static;

    /// A policy for the warps of an SM.
    fn new(parameters: &Self::Parameters, slots: WarpSlots) -> Self;

    /// It is for `warps` warps from now on, no fewer than before.
    fn grow(&mut self, warps: usize);

    /// Which of a warp's split ids hold threads, one bit each from its first.
    #[inline]
    fn in_use(&self, _warp: usize) -> u32 {
        u32::MAX >> (32 - Self::SPLITS.min(32))
    }

    /// A warp of the block in slot `block` becomes resident with `lanes` at the entry of `plan`'s
    /// program; `touched` receives its splits.
    fn admit(
        &mut self,
        warp: usize,
        block: usize,
        lanes: LaneMask,
        plan: &Arc<Plan>,
        touched: &mut Vec<SplitId>,
    );

    /// Where the state of a split lies, to ask the host for it ahead of its use.
    fn lies_at(&self, _split: SplitId) -> *const u8 {
        std::ptr::null()
    }

    /// The split's program address.
    fn pc(&self, split: SplitId) -> Pc;

    /// The split's lanes; empty if the split does not exist.
    fn mask(&self, split: SplitId) -> LaneMask;

    /// The split executed an instruction that is not control flow. True if it comes to an address
    /// where the policy wants to be asked: [`arrived`](Self::arrived) follows.
    fn advance(&mut self, split: SplitId) -> bool;

    /// The address at which [`advance`](Self::advance) says so; [`NO_PC`](sim_frontend::program::NO_PC) if there is none.
    fn stop(&self, split: SplitId) -> Pc;

    /// The split executed so many instructions that are not control flow, none of which came to [`stop`](Self::stop).
    fn advance_by(&mut self, split: SplitId, count: Pc);

    /// The split is where [`advance`](Self::advance) said so.
    fn arrived(&mut self, _split: SplitId, _touched: &mut Vec<SplitId>) -> Cost {
        Cost::default()
    }

    /// The split executed a barrier or collective and waits there.
    fn parked(&mut self, split: SplitId, _touched: &mut Vec<SplitId>) {
        self.advance(split);
    }

    /// A step is over. Where each path of the split's warp waits at a barrier or collective, or for
    /// other paths at a join, those at the innermost join go on without the others: what these wait
    /// for may be up to them. True if some did; whoever changed is pushed to `touched`.
    fn give_way(&mut self, _split: SplitId, _touched: &mut Vec<SplitId>) -> bool {
        false
    }

    /// What the split waited for has happened.
    fn resumed(&mut self, _split: SplitId, _touched: &mut Vec<SplitId>) {}

    /// True if splits of several warps that stand at one address issue together, their lanes
    /// permitting: as one formed warp whose lane `i` is lane `i` of whichever home warp gave it.
    fn forms_warps(&self) -> bool {
        false
    }

    /// Of the places ready splits stand at, the one that issues, with the threads that wait there.
    fn prefers(&mut self, _places: &[ReadyAddress]) -> Option<usize> {
        None
    }

    /// True if a step of one warp can regroup threads of other warps of its block.
    fn spans_blocks(&self) -> bool {
        false
    }

    /// When the split was created; lower is earlier.
    fn since(&self, _split: SplitId) -> u64 {
        0
    }

    /// True if two ready splits at one address may issue as one formed warp.
    fn joins(&self, _leader: SplitId, _follower: SplitId) -> bool {
        true
    }

    /// Takes `lanes` of a split into one of their own, without asking who else may run.
    fn carve(&mut self, _split: SplitId, _lanes: LaneMask) -> Option<SplitId> {
        None
    }

    /// True if the policy divides splits where some lanes have their data and others wait.
    fn divides_at_memory(&self) -> bool {
        false
    }

    /// The lanes `done` of a split have the data its next instruction needs, the others wait;
    /// `idle`: nothing else of the SM can issue. The cost if the split was divided.
    fn memory(
        &mut self,
        _split: SplitId,
        _done: LaneMask,
        _idle: bool,
        _touched: &mut Vec<SplitId>,
    ) -> Option<Cost> {
        None
    }

    /// All threads of the split go from a direct branch to `target`. False, and nothing has changed, where the policy has
    /// more to do than to go there, or may have: [`branched`](Self::branched) does it then.
    #[inline]
    fn jumped(&mut self, _split: SplitId, _target: Pc) -> bool {
        false
    }

    /// The split executed a branch or call; lanes whose guard is false fall through. Other
    /// splits that changed are pushed to `touched`; the split itself always counts as changed.
    ///
    /// # Errors
    /// `⊥` where the policy's rules have no transition.
    fn branched(
        &mut self,
        split: SplitId,
        to: &LaneTargets<'_>,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation>;

    /// `lanes` of the split return from a function; the others fall through.
    ///
    /// # Errors
    /// `⊥` where the policy's rules have no transition.
    fn returned(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation>;

    /// `lanes` of the split have ended; the others fall through.
    ///
    /// # Errors
    /// `⊥` where the policy's rules have no transition.
    fn exited(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation>;

    /// The split met an instruction of transformation 6; `lanes` are those whose guard is true.
    ///
    /// # Errors
    /// `⊥` where the policy's rules have no transition: policies with untransformed control flow
    /// have none at all.
    fn injected(
        &mut self,
        _split: SplitId,
        lanes: LaneMask,
        instruction: Injected,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        Err(Violation::new("safe-split", lanes, format!("{instruction:?} in an untransformed program")))
    }

    /// Every thread of the warp that the policy holds, each once: in splits, and waiting for
    /// others.
    fn threads(&self, warp: usize, visit: &mut dyn FnMut(Holding));

    /// Of [`threads`](Self::threads), all of them and those that are there twice.
    fn held(&self, warp: usize) -> (LaneMask, LaneMask) {
        let (mut held, mut twice) = (0, 0);
        self.threads(warp, &mut |holding| {
            twice |= held & holding.mask;
            held |= holding.mask;
        });
        (held, twice)
    }

    /// What must hold of the policy's own state between steps.
    ///
    /// # Errors
    /// The invariant that does not, with its id.
    fn invariants(&self, _warp: usize) -> Result<(), Violation> {
        Ok(())
    }

    /// Breaks the policy's own state, to show that this is found: false where there is nothing of
    /// the kind to break.
    #[cfg(test)]
    fn corrupt(&mut self, split: SplitId, how: Corruption) -> bool;

    /// True if a thread of the warp that waits goes on only where other threads arrive or end; false
    /// if also after some time.
    fn waits_for_threads_only(&self, _warp: usize) -> bool {
        true
    }

    /// The token stack, where the policy is one, for the literal reference.
    #[cfg(test)]
    fn exec_state(&self, _warp: usize) -> Option<&crs_stack::ExecState> {
        None
    }

    /// The state in words, for messages.
    fn describe(&self, warp: usize) -> String;
}

/// Iterates over the set lanes of a mask, ascending.
#[derive(Clone, Copy, Debug)]
pub struct Lanes(pub LaneMask);

impl Iterator for Lanes {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(lane)
    }
}
