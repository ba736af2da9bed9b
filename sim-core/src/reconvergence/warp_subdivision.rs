//! Dynamic warp subdivision (Meng, Tarjan, Skadron 2010): a warp divides into splits that issue
//! by themselves, at branches whose paths meet soon and where some threads of a load have their
//! data before others; splits join again at post-dominators and wherever their addresses meet.

use sim_frontend::program::Pc;
use sim_memory::vocabulary::LaneMask;

use super::Cost;
use super::multi_path::spill;
use super::paths::{Group, Path, Paths};
use super::registry::PolicyChoice;
use super::table::{Event, Rules};

/// Splits of a warp issue by themselves.
#[derive(Debug)]
pub struct WarpSubdivision {
    splits: usize,
    branch_distance: u32,
    memory: u32,
    table: u32,
}

impl WarpSubdivision {
    /// With the parameters of `choice`.
    pub fn new(choice: &PolicyChoice) -> Self {
        Self {
            splits: choice.get("splits") as usize,
            branch_distance: choice.get("branch_distance"),
            memory: choice.get("memory"),
            table: choice.get("splits") * 2,
        }
    }
}

impl Rules for WarpSubdivision {
    fn diverged(&mut self, paths: &mut Paths, slot: usize, pc: Pc, groups: &[Group], join: Option<Pc>) {
        // A long way to the join would keep threads apart that could run together.
        let near = join.is_some_and(|join| join.abs_diff(pc) <= self.branch_distance);
        let room = paths.used().count() + groups.len() - 1 <= self.splits;
        paths.diverge(slot, groups, join, !(near && room));
    }

    fn joins_calls(&self) -> bool {
        true
    }

    fn settle(&mut self, paths: &mut Paths, _event: Event, _slot: usize) {
        paths.meet();
        paths.merge(Path::is_sibling);
        // Of a join that was not subdivided one path at a time runs: the one begun last.
        let chosen = paths.running().fold(0u32, |bits, slot| bits | u32::from(has_turn(paths, slot)) << slot);
        paths.enable_only(|slot, _| chosen >> slot & 1 == 1);
        for slot in paths.running() {
            paths.slots[slot].stop = paths.next_meeting(slot, Path::is_sibling);
        }
    }

    fn divides_at_memory(&self) -> bool {
        self.memory != 0
    }

    fn memory(&mut self, paths: &mut Paths, slot: usize, done: LaneMask, idle: bool) -> bool {
        let wanted = match self.memory {
            0 => false,
            // Lazy: only where the SM has nothing else to issue.
            1 => idle,
            _ => true,
        };
        if !wanted || paths.used().count() >= self.splits {
            return false;
        }
        // The two halves meet at the next branch (BranchLimited reconvergence).
        let Path { pc, depth, mask, entry, .. } = paths.slots[slot];
        let end = paths.plan.block_end(pc).saturating_sub(1);
        if end <= pc {
            return false;
        }
        let groups = [Group { pc, depth, mask: mask & !done }, Group { pc, depth, mask: done }];
        let entry = match paths.entries.get(entry) {
            Some(found) if found.join == end && found.depth == depth => entry,
            _ => paths.open(end, depth, mask, entry, false),
        };
        paths.scatter(slot, &groups, entry);
        true
    }

    fn cost(&self, before: u32, entries: u32) -> Cost {
        spill(before, entries, self.table, 0)
    }
}

/// True if the path at `slot` runs: at each join around it that was not subdivided, it belongs to
/// the part begun last.
fn has_turn(paths: &Paths, slot: usize) -> bool {
    let mut entry = paths.slots[slot].entry;
    while let Some(found) = paths.entries.get(entry) {
        if found.serial {
            let last = paths
                .running()
                .filter(|&other| part(paths, other, entry).is_some())
                .max_by_key(|&other| paths.slots[other].turn);
            if last.and_then(|last| part(paths, last, entry)) != part(paths, slot, entry) {
                return false;
            }
        }
        entry = found.parent;
    }
    true
}

/// The part of `outer` that the path at `slot` belongs to: itself, or the join just within.
fn part(paths: &Paths, slot: usize, outer: usize) -> Option<usize> {
    let mut inner = usize::MAX - slot;
    let mut entry = paths.slots[slot].entry;
    while let Some(found) = paths.entries.get(entry) {
        if entry == outer {
            return Some(inner);
        }
        (inner, entry) = (entry, found.parent);
    }
    None
}
