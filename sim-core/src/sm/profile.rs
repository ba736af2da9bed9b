//! What each operation of a program did, counted where it is asked for: issues, lanes, and how long its
//! warps had issued nothing before it.

use std::sync::Arc;

use sim_memory::vocabulary::Cycle;

use crate::grid::Code;

/// Counts of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    /// Issues.
    pub issues: u64,
    /// Lanes of these whose guard was true.
    pub executing: u64,
    /// Lanes of these that were active.
    pub active: u64,
    /// Core cycles for which the warp had issued nothing before these.
    pub waited: u64,
}

impl OpCounts {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.issues += other.issues;
        self.executing += other.executing;
        self.active += other.active;
        self.waited += other.waited;
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

/// The counts of one SM.
#[derive(Debug, Default)]
pub struct Profile {
    /// Programs in the order of their first issue.
    pub programs: Programs,
    /// By warp: the cycle after its last issue.
    since: Vec<Cycle>,
}

impl Profile {
    /// A warp begins at `now`.
    pub fn begin(&mut self, warp: usize, now: Cycle) {
        if warp >= self.since.len() {
            self.since.resize(warp + 1, now);
        }
        self.since[warp] = now;
    }

    /// A warp issues the operation at `pc` by so many executing and active lanes.
    pub fn count(&mut self, code: &Arc<Code>, pc: u32, warp: usize, lanes: [u32; 2], now: Cycle) {
        let at = place(&mut self.programs, code);
        let waited = self.since.get(warp).map_or(0, |since| now.saturating_sub(*since));
        if let Some(counts) = self.programs[at].1.get_mut(pc as usize) {
            counts.issues += 1;
            counts.executing += u64::from(lanes[0]);
            counts.active += u64::from(lanes[1]);
            counts.waited += waited;
        }
        self.begin(warp, now + 1);
    }
}
