//! Multi-path execution (ElTantawy et al. 2014): a table of splits and a table of reconvergence
//! points instead of a stack, so that all paths of a warp may issue, each waiting at its own
//! immediate post-dominator; paths that happen to meet before run on as one (opportunistic early
//! reconvergence).

use sim_frontend::program::Pc;

use super::Cost;
use super::parameters::parameters;
use super::paths::{Group, Path, Paths};
use super::rules::{Event, Rules};

/// Bytes of one entry in spill memory: masks, addresses, parent (assumed).
pub const ENTRY_BYTES: u32 = 16;

parameters! {
    /// Parameters of `multi_path`.
    pub struct Parameters {
        paths: u32 = 32, 1..=32, "maximum number of paths of a warp that can issue concurrently";
        early: bool = 1, 0..=1, "1: merge paths that reach the same PC before their reconvergence point; 0: do not";
        entries: u32 = 64, 1..=4096, "entries of both tables held on chip; further ones are spilled";
        spill_cycles: u32 = 0, 0..=10_000, "core cycles to move one entry to or from spill memory";
    }
}

/// The policy `multi_path`: every path of a warp may issue.
#[derive(Debug)]
pub struct MultiPath {
    parameters: Parameters,
}

impl MultiPath {
    /// The policy of one SM.
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters }
    }
}

/// Entries of a table of `room` that go to or from spill memory as it changes its size.
pub fn spill(before: u32, entries: u32, room: u32, cycles: u32) -> Cost {
    let moved = entries.max(room).abs_diff(before.max(room));
    Cost { cycles: moved * cycles, spilled_bytes: moved * ENTRY_BYTES, entries }
}

impl Rules for MultiPath {
    fn diverged(&mut self, paths: &mut Paths, slot: usize, _pc: Pc, groups: &[Group], join: Option<Pc>) {
        paths.diverge(slot, groups, join, false);
    }

    fn joins_calls(&self) -> bool {
        true
    }

    fn settle(&mut self, paths: &mut Paths, _event: Event, _slot: usize) {
        paths.meet();
        if self.parameters.early {
            paths.merge(Path::is_sibling);
        }
        // The oldest first, so that none is left behind.
        let mut oldest: Vec<(u64, usize)> =
            paths.running().map(|slot| (paths.slots[slot].turn, slot)).collect();
        oldest.sort_unstable();
        oldest.truncate(self.parameters.paths as usize);
        paths.enable_only(|slot, _| oldest.iter().any(|&(_, chosen)| chosen == slot));
        for (_, slot) in oldest {
            let early = self.parameters.early;
            paths.slots[slot].stop = paths.next_meeting(slot, |a, b| early && a.is_sibling(b));
        }
    }

    fn cost(&self, before: u32, entries: u32) -> Cost {
        spill(before, entries, self.parameters.entries, self.parameters.spill_cycles)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::table::Table;
    use super::super::table_policies::TablePolicy;
    use super::super::{LaneTargets, Reconvergence, Targets};
    use super::*;

    #[test]
    fn only_what_the_table_grows_by_is_spilled() {
        let parameters = Parameters { entries: 2, spill_cycles: 3, ..Parameters::default() };
        let mut table = Table::with(TablePolicy::MultiPath(parameters).rules(), 1);
        let mut touched = Vec::new();
        table.admit(0, 0, 0b1111, &Arc::default(), &mut touched);
        let mut to = [0; 32];
        to[..4].copy_from_slice(&[10, 20, 30, 40]);
        let targets = LaneTargets { lanes: 0b1111, targets: Targets::PerLane(&to), call: false };
        let cost = table.branched(0, &targets, &mut touched).expect("no rule against it");
        assert_eq!((cost.entries, cost.cycles, cost.spilled_bytes), (4, 6, 32), "two of four go");
        let stopped = table.arrived(0, &mut touched);
        assert_eq!(
            (stopped.entries, stopped.cycles, stopped.spilled_bytes),
            (4, 0, 0),
            "they are out already"
        );
    }
}
