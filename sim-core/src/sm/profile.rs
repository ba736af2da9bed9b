//! What each operation of a program did, counted where it is asked for: issues, lanes, and how long its
//! warps had issued nothing before it.

use std::sync::Arc;

use sim_memory::sm_memory::Asked;
use sim_memory::vocabulary::Cycle;

use super::states::STATES;
use crate::code::Code;
use crate::reconvergence::SplitId;

/// Reasons for which a warp waits: the states of its splits.
pub const REASONS: usize = STATES.len();

/// The order in which the states of a warp's splits give its reason: what comes first could issue soonest.
/// It is that of the stall reasons of a scheduler.
const ORDER: [usize; REASONS] = [1, 2, 8, 3, 4, 6, 5, 7, 0];

/// Counts of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    /// Issues of the operation by a split.
    pub issues: u64,
    /// Lanes of these whose guard was true.
    pub executing: u64,
    /// Lanes of these that were active.
    pub active: u64,
    /// Core cycles for which the warp had issued nothing before these.
    pub waited: u64,
    /// Those cycles by reason, in the order of [`STATES`].
    pub reasons: [u64; REASONS],
    /// What its accesses to global and local memory asked for.
    pub asked: Asked,
    /// Cycles beyond the first of its accesses to shared and constant memory.
    pub conflict_cycles: u64,
}

impl OpCounts {
    /// Adds the counts of another SM.
    pub fn add(&mut self, other: &Self) {
        self.issues += other.issues;
        self.executing += other.executing;
        self.active += other.active;
        self.waited += other.waited;
        self.reasons.iter_mut().zip(other.reasons).for_each(|(sum, own)| *sum += own);
        self.asked.add(&other.asked);
        self.conflict_cycles += other.conflict_cycles;
    }
}

/// Counts by program and address.
pub type Programs = Vec<(Arc<Code>, Vec<OpCounts>)>;

/// Adds what the operations of a program did.
pub fn merge(programs: &mut Programs, code: &Arc<Code>, counts: &[OpCounts]) {
    let at = place(programs, code);
    programs[at].1.iter_mut().zip(counts).for_each(|(sum, own)| sum.add(own));
}

fn place(programs: &mut Programs, code: &Arc<Code>) -> usize {
    // A run has few programs.
    let known = programs.iter().position(|(own, _)| Arc::ptr_eq(own, code));
    known.unwrap_or_else(|| {
        programs.push((Arc::clone(code), vec![OpCounts::default(); code.ops.len()]));
        programs.len() - 1
    })
}

/// What a warp waits for since its last issue.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    /// Cycles before this one are counted.
    since: Cycle,
    /// Its splits by state.
    splits: [u8; REASONS],
    /// Cycles by reason.
    reasons: [u64; REASONS],
}

impl Wait {
    /// Counts the cycles up to `now`; the states of the splits have not changed meanwhile.
    fn count_until(&mut self, now: Cycle) {
        if now > self.since {
            let reason = ORDER.into_iter().find(|state| self.splits[*state] > 0).unwrap_or(0);
            self.reasons[reason] += now - self.since;
            self.since = now;
        }
    }
}

/// The counts of one SM.
#[derive(Debug)]
pub struct Profile {
    /// Programs in the order of their first issue.
    pub programs: Programs,
    splits_per_warp: u32,
    waits: Vec<Wait>,
    /// State of each split, by split.
    states: Vec<u8>,
}

impl Profile {
    /// An empty one of an SM whose warps have so many splits.
    pub fn new(splits_per_warp: u32) -> Self {
        Self { programs: Programs::new(), splits_per_warp, waits: Vec::new(), states: Vec::new() }
    }

    /// A warp begins at `now`.
    pub fn begin(&mut self, warp: usize, now: Cycle) {
        let wait = self.wait(warp);
        wait.since = now;
        wait.reasons = [0; REASONS];
    }

    fn wait(&mut self, warp: usize) -> &mut Wait {
        if warp >= self.waits.len() {
            self.waits.resize(warp + 1, Wait::default());
        }
        &mut self.waits[warp]
    }

    /// A split goes over to a state at `now`.
    pub fn state(&mut self, split: SplitId, state: u8, now: Cycle) {
        let at = split as usize;
        if at >= self.states.len() {
            self.states.resize(at + 1, 0);
        }
        let old = std::mem::replace(&mut self.states[at], state);
        let wait = self.wait((split / self.splits_per_warp) as usize);
        wait.count_until(now);
        if old != 0 {
            wait.splits[usize::from(old)] -= 1;
        }
        if state != 0 {
            wait.splits[usize::from(state)] += 1;
        }
    }

    /// A warp issues the operation at `pc` by so many executing and active lanes.
    pub fn count(&mut self, code: &Arc<Code>, pc: u32, warp: usize, lanes: [u32; 2], now: Cycle) {
        let wait = self.wait(warp);
        wait.count_until(now);
        let reasons = std::mem::take(&mut wait.reasons);
        wait.since = now + 1;
        let at = place(&mut self.programs, code);
        if let Some(counts) = self.programs[at].1.get_mut(pc as usize) {
            counts.add(&OpCounts {
                issues: 1,
                executing: u64::from(lanes[0]),
                active: u64::from(lanes[1]),
                waited: reasons.iter().sum(),
                reasons,
                ..OpCounts::default()
            });
        }
    }

    /// What the accesses of the operation at `pc` asked for, and the cycles they took beyond the first.
    pub fn accessed(&mut self, code: &Arc<Code>, pc: u32, asked: Asked, conflict_cycles: u64) {
        let at = place(&mut self.programs, code);
        if let Some(counts) = self.programs[at].1.get_mut(pc as usize) {
            counts.add(&OpCounts { asked, conflict_cycles, ..OpCounts::default() });
        }
    }
}
