//! Policies without a stack: of all the paths of a warp the one lowest in some order runs, and
//! paths that stand at one address are one. They differ in the order.

use std::cmp::Reverse;

use sim_frontend::program::{NO_PC, Pc};

use super::paths::{Group, NONE, Path, Paths};
use super::rules::{Event, Rules};

/// The order in which paths are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The least address, whatever call it is in (Collange 2011).
    Pc,
    /// The deepest call first, then the least address.
    SpPc,
    /// The deepest call first, then the block with the highest static priority; asked again at
    /// each block (thread frontiers, Diamos et al. 2011, with a sorted list of paths).
    Frontier,
}

/// The lowest path in an order runs.
#[derive(Debug)]
pub struct LowestFirst(pub Order);

impl LowestFirst {
    fn key(&self, paths: &Paths, path: &Path) -> (Reverse<u32>, u32, Pc) {
        match self.0 {
            Order::Pc => (Reverse(0), 0, path.pc),
            Order::SpPc => (Reverse(path.depth), 0, path.pc),
            Order::Frontier => (Reverse(path.depth), paths.plan.priority(path.pc), path.pc),
        }
    }
}

impl Rules for LowestFirst {
    fn diverged(&mut self, paths: &mut Paths, slot: usize, _pc: Pc, groups: &[Group], _join: Option<Pc>) {
        paths.scatter(slot, groups, NONE);
    }

    fn settle(&mut self, paths: &mut Paths, _event: Event, _slot: usize) {
        let order = self.0;
        let same = |a: &Path, b: &Path| order == Order::Pc || a.depth == b.depth;
        paths.merge(same);
        let first = paths.running().min_by_key(|&slot| self.key(paths, &paths.slots[slot]));
        paths.enable_only(|slot, _| Some(slot) == first);
        let Some(first) = first else { return };
        let alone = paths.used().count() == 1;
        paths.slots[first].stop = match order {
            _ if alone => NO_PC,
            Order::Frontier => {
                paths.plan.block_end(paths.slots[first].pc).min(paths.next_meeting(first, same))
            }
            _ => paths.next_meeting(first, same),
        };
    }
}
