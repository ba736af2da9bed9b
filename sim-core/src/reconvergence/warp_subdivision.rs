//! Dynamic warp subdivision (Meng, Tarjan, Skadron 2010): a warp divides into splits that issue
//! by themselves, at branches whose paths meet soon and where some threads of a load have their
//! data before others; splits join again at post-dominators and wherever their addresses meet.

use sim_frontend::program::Pc;
use sim_memory::vocabulary::LaneMask;

use super::Cost;
use super::multi_path::spill;
use super::parameters::{Value, parameters};
use super::paths::{Group, Path, Paths};
use super::rules::{Event, Rules};

/// Whether a warp divides at a load whose data has arrived for only some of its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLoads {
    /// Warps do not divide at loads.
    Never,
    /// Only where the SM has nothing else to issue.
    Lazy,
    /// Warps divide at every such load.
    Always,
}

impl AtLoads {
    const ALL: [Self; 3] = [Self::Never, Self::Lazy, Self::Always];
}

impl Value for AtLoads {
    const WORDS: &'static [&'static str] = &["never", "lazy", "always"];

    fn of(number: u32) -> Self {
        Self::ALL[number as usize]
    }

    fn number(self) -> u32 {
        self as u32
    }
}

parameters! {
    /// Parameters of `warp_subdivision`.
    pub struct Parameters {
        splits: u32 = 8, 1..=32, "maximum number of splits per warp";
        branch_distance: u32 = 50, 0..=1_000_000,
            "maximum number of instructions between a branch and its post-dominator for the branch to be subdivided";
        memory: AtLoads = 1, 0..=2,
            "subdivide at loads: never; lazy: only when the SM has nothing else to issue; always";
    }
}

/// Splits of a warp issue by themselves.
#[derive(Debug)]
pub struct WarpSubdivision {
    parameters: Parameters,
}

impl WarpSubdivision {
    /// The policy of one SM.
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters }
    }
}

impl Rules for WarpSubdivision {
    fn diverged(&mut self, paths: &mut Paths, slot: usize, pc: Pc, groups: &[Group], join: Option<Pc>) {
        // A long way to the join would keep threads apart that could run together.
        let near = join.is_some_and(|join| join.abs_diff(pc) <= self.parameters.branch_distance);
        let room = paths.used().count() + groups.len() - 1 <= self.parameters.splits as usize;
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
        self.parameters.memory != AtLoads::Never
    }

    fn memory(&mut self, paths: &mut Paths, slot: usize, done: LaneMask, idle: bool) -> bool {
        let wanted = match self.parameters.memory {
            AtLoads::Never => false,
            AtLoads::Lazy => idle,
            AtLoads::Always => true,
        };
        if !wanted || paths.used().count() >= self.parameters.splits as usize {
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
        spill(before, entries, self.parameters.splits * 2, 0)
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
