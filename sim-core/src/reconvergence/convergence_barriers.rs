//! Independent thread scheduling with convergence barriers (Diamos et al., US patent application
//! 2016/0019066; the BSSY and BSYNC of Volta and later): a branch that divides threads enters them
//! into a barrier at its immediate post-dominator. One split of a warp issues at a time; others
//! get their turn at back edges, when it waits, and when it ends.

use sim_frontend::program::Pc;

use super::Cost;
use super::multi_path::spill;
use super::registry::PolicyChoice;
use super::table::{Event, Group, Paths, Rules};

/// Convergence barriers.
#[derive(Debug)]
pub struct ConvergenceBarriers {
    /// Issues without an arrival after which waiting threads leave; 0: never.
    yield_after: u32,
    registers: u32,
    spill_cycles: u32,
}

impl ConvergenceBarriers {
    /// With the parameters of `choice`.
    pub fn new(choice: &PolicyChoice) -> Self {
        Self {
            yield_after: choice.get("yield_after"),
            registers: choice.get("registers"),
            spill_cycles: choice.get("spill_cycles"),
        }
    }

    /// Threads that have waited too long for others go on without them.
    fn yields(&self, paths: &mut Paths) {
        for entry in 0..paths.entries.len() {
            let found = paths.entries[entry];
            if !found.closed
                && found.arrived != 0
                && self.yield_after != 0
                && found.waited >= self.yield_after
            {
                paths.release(entry);
            }
        }
    }
}

impl Rules for ConvergenceBarriers {
    fn diverged(&mut self, paths: &mut Paths, slot: usize, _pc: Pc, groups: &[Group], join: Option<Pc>) {
        let turn = paths.slots[slot].turn;
        paths.diverge(slot, groups, join, false);
        // The path of the lowest lane goes on in this turn.
        paths.slots[slot].turn = turn;
    }

    fn settle(&mut self, paths: &mut Paths, event: Event, slot: usize) {
        let path = paths.slots[slot];
        let upto =
            if let Event::Branched(from) | Event::Controlled(from) = event { from + 1 } else { path.pc };
        let issues = upto.saturating_sub(paths.began);
        for entry in paths.entries.iter_mut().filter(|e| !e.closed && e.arrived != 0) {
            entry.waited = entry.waited.saturating_add(issues);
        }
        // A back edge gives the others their turn.
        if let Event::Branched(from) = event
            && path.mask != 0
            && path.pc <= from
        {
            paths.slots[slot].turn = paths.next_turn();
        }
        paths.meet();
        self.yields(paths);
        let first = paths.running().min_by_key(|&slot| paths.slots[slot].turn);
        paths.enable_only(|slot, _| Some(slot) == first);
        if let Some(first) = first {
            paths.slots[first].stop = paths.next_meeting(first, |_, _| false);
            paths.began = paths.slots[first].pc;
        }
    }

    fn cost(&self, before: u32, entries: u32) -> Cost {
        spill(before, entries, self.registers, self.spill_cycles)
    }
}
