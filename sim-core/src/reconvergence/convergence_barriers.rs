//! Independent thread scheduling with convergence barriers (Diamos et al., US patent application
//! 2016/0019066; the BSSY and BSYNC of Volta and later): a branch that divides threads enters them
//! into a barrier at its immediate post-dominator. One split of a warp issues at a time; others
//! get their turn at back edges, when it waits, and when it ends.

use std::num::NonZeroU32;

use sim_frontend::program::Pc;

use super::Cost;
use super::multi_path::spill;
use super::parameters::parameters;
use super::paths::{Group, Paths};
use super::rules::{Event, Rules};

parameters! {
    /// Parameters of `convergence_barriers`.
    pub struct Parameters {
        yield_after: Option<NonZeroU32> = 1024, 0..=1_000_000_000,
            "number of issues of the warp without an arrival after which waiting threads leave a barrier; never: they do not";
        registers: u32 = 16, 1..=4096, "barriers and paths of a warp held on chip; further ones are spilled";
        spill_cycles: u32 = 0, 0..=10_000, "core cycles to move one entry to or from spill memory";
    }
}

/// Convergence barriers.
#[derive(Debug)]
pub struct ConvergenceBarriers {
    parameters: Parameters,
}

impl ConvergenceBarriers {
    /// The policy of one SM.
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters }
    }

    /// Threads that have waited too long for others go on without them.
    fn yields(&self, paths: &mut Paths) {
        for entry in 0..paths.entries.len() {
            let found = paths.entries[entry];
            if !found.closed
                && found.arrived != 0
                && self.parameters.yield_after.is_some_and(|most| found.waited >= most.get())
            {
                paths.release(entry);
            }
        }
    }
}

impl Rules for ConvergenceBarriers {
    fn waits_for_threads_only(&self) -> bool {
        self.parameters.yield_after.is_none()
    }

    fn diverged(&mut self, paths: &mut Paths, slot: usize, _pc: Pc, groups: &[Group], join: Option<Pc>) {
        let turn = paths.slots[slot].turn;
        paths.diverge(slot, groups, join, false);
        // The path of the lowest lane goes on in this turn.
        paths.slots[slot].turn = turn;
    }

    fn settle(&mut self, paths: &mut Paths, event: Event, slot: usize) {
        let path = paths.slots[slot];
        // How far the path that ran has come since the last time; others may be what this is about.
        let upto = match event {
            Event::Branched(from) | Event::Controlled(from) => from + 1,
            Event::Stopped | Event::Parked => path.pc,
            Event::Admitted | Event::Resumed | Event::Blocked | Event::Memory => {
                let mut used = paths.used().map(|slot| &paths.slots[slot]);
                used.find(|path| path.enabled).map_or(0, |path| path.pc)
            }
        };
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
        spill(before, entries, self.parameters.registers, self.parameters.spill_cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconvergence::paths::NONE;

    /// Threads 0 and 1 wait at 20 for thread 2, which spins from 10 to 14; thread 3 is at a barrier.
    fn spinning(yield_after: u32) -> (ConvergenceBarriers, Paths, usize) {
        let yield_after = NonZeroU32::new(yield_after);
        let mut rules = ConvergenceBarriers::new(Parameters { yield_after, ..Parameters::default() });
        let mut paths = Paths::default();
        let entry = paths.open(20, 0, 0b0111, NONE, false);
        paths.entries[entry].pending = 0b0100;
        paths.entries[entry].arrived = 0b0011;
        let parked = paths.place(Group { pc: 900, depth: 0, mask: 0b1000 }, NONE);
        paths.slots[parked].parked = true;
        let spins = paths.place(Group { pc: 10, depth: 0, mask: 0b0100 }, entry);
        rules.settle(&mut paths, Event::Admitted, spins);
        paths.entries[entry].waited = 0;
        (rules, paths, spins)
    }

    #[test]
    fn threads_leave_a_barrier_after_so_many_issues_of_others() {
        for (yield_after, rounds) in [(12, Some(3)), (5, Some(1)), (0, None)] {
            let (mut rules, mut paths, spins) = spinning(yield_after);
            let left = (1..50).find(|_| {
                // Five instructions, the last of which branches back.
                paths.slots[spins].pc = 10;
                rules.settle(&mut paths, Event::Branched(14), spins);
                paths.entries[0].arrived == 0
            });
            assert_eq!(left, rounds, "yield_after {yield_after}");
        }
    }

    #[test]
    fn threads_leave_every_barrier_at_which_they_have_waited_too_long() {
        let yield_after = NonZeroU32::new(8);
        let rules = ConvergenceBarriers::new(Parameters { yield_after, ..Parameters::default() });
        let mut paths = Paths::default();
        for (lane, waited) in [(0, 8), (1, 7), (2, 9), (3, 100)] {
            let entry = paths.open(20 + lane, 0, 1 << lane, NONE, false);
            paths.entries[entry].pending = 0x10;
            paths.entries[entry].arrived = 1 << lane;
            paths.entries[entry].waited = waited;
        }
        rules.yields(&mut paths);
        let wait: u32 = paths.entries.iter().fold(0, |all, entry| all | entry.arrived);
        let go_on: u32 = paths.used().fold(0, |all, slot| all | paths.slots[slot].mask);
        assert_eq!((wait, go_on), (0b0010, 0b1101));
    }

    #[test]
    fn who_comes_back_from_a_block_barrier_has_issued_nothing() {
        let (mut rules, mut paths, spins) = spinning(12);
        let parked = paths.used().find(|&slot| paths.slots[slot].parked).expect("thread 3");
        paths.slots[spins].pc = 13;
        paths.slots[parked].parked = false;
        rules.settle(&mut paths, Event::Resumed, parked);
        assert_eq!(paths.entries[0].waited, 3, "three issues of the path that ran, none of the one at 900");
    }

    /// A branch takes no turn from the path that divides: its first part goes on, though another path
    /// waits for its turn.
    #[test]
    fn the_first_part_of_a_path_that_divides_goes_on_in_its_turn() {
        let mut rules = ConvergenceBarriers::new(Parameters { yield_after: None, ..Parameters::default() });
        let mut paths = Paths::default();
        let runs = paths.place(Group { pc: 10, depth: 0, mask: 0b0011 }, NONE);
        let waits = paths.place(Group { pc: 50, depth: 0, mask: 0b1100 }, NONE);
        let groups = [(11, 0b0001), (15, 0b0010)].map(|(pc, mask)| Group { pc, depth: 0, mask });
        rules.diverged(&mut paths, runs, 10, &groups, Some(20));
        rules.settle(&mut paths, Event::Branched(10), runs);
        let enabled: Vec<u32> = paths
            .used()
            .filter(|&slot| paths.slots[slot].enabled)
            .map(|slot| paths.slots[slot].mask)
            .collect();
        assert_eq!(enabled, [0b0001]);
        // Its turn ends at a back edge: the path that has waited longest is next.
        paths.slots[runs].pc = 9;
        rules.settle(&mut paths, Event::Branched(12), runs);
        assert!(paths.slots[waits].enabled && !paths.slots[runs].enabled);
    }
}
