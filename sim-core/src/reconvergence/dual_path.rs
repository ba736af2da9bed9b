//! Dual-path execution (Rhu and Erez 2013): a stack whose top holds two paths, both of which may
//! issue; they meet at the immediate post-dominator as under the stack.

use sim_frontend::program::Pc;

use super::Cost;
use super::multi_path::spill;
use super::parameters::parameters;
use super::paths::{Group, Paths};
use super::rules::{Event, Rules};

parameters! {
    /// Parameters of `dual_path`.
    pub struct Parameters {
        depth: u32 = 32, 1..=4096, "entries a warp holds on chip before the oldest are spilled";
        spill_cycles: u32 = 0, 0..=10_000, "core cycles to move one entry to or from spill memory";
    }
}

/// The two paths of the stack's top interleave.
#[derive(Debug)]
pub struct DualPath {
    parameters: Parameters,
}

impl DualPath {
    /// The policy of one SM.
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters }
    }
}

impl Rules for DualPath {
    fn diverged(&mut self, paths: &mut Paths, slot: usize, _pc: Pc, groups: &[Group], join: Option<Pc>) {
        paths.diverge(slot, groups, join, false);
    }

    fn joins_calls(&self) -> bool {
        true
    }

    fn settle(&mut self, paths: &mut Paths, _event: Event, _slot: usize) {
        paths.meet();
        // The top of the stack is the innermost join with a path that can go on; where a branch
        // had more than two targets, two of them go first.
        let mut order: Vec<_> = paths
            .running()
            .map(|slot| {
                (std::cmp::Reverse(paths.height(paths.slots[slot].entry)), paths.slots[slot].entry, slot)
            })
            .collect();
        order.sort_unstable();
        let top = order.first().map(|&(height, entry, _)| (height, entry));
        order.retain(|&(height, entry, _)| Some((height, entry)) == top);
        order.truncate(2);
        paths.enable_only(|slot, _| order.iter().any(|&(.., chosen)| chosen == slot));
        for (.., slot) in order {
            paths.slots[slot].stop = paths.next_meeting(slot, |_, _| false);
        }
    }

    fn cost(&self, before: u32, entries: u32) -> Cost {
        spill(before, entries, self.parameters.depth, self.parameters.spill_cycles)
    }
}
