//! The paths of a warp: where each is, who it waits for, and which may issue. Moves threads and loses
//! none of them.

use std::sync::Arc;

use sim_frontend::program::{NO_PC, Pc};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use super::Lanes;
use super::plan::Plan;
pub use super::returns::Group;
use super::returns::Returns;

/// Paths a warp can have: one a lane.
pub const PATHS: usize = WARP_LANES;

/// No reconvergence entry.
pub const NONE: usize = usize::MAX;

/// Threads of one warp that run together.
#[derive(Clone, Copy, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Path {
    /// Their next instruction.
    pub pc: Pc,
    /// Call depth of the threads.
    pub depth: u32,
    /// The threads, as a mask of lanes; empty where the slot holds no path.
    pub mask: LaneMask,
    /// They wait at a barrier or collective.
    pub parked: bool,
    /// The policy lets the scheduler issue them.
    pub enabled: bool,
    /// The address before which the policy wants to be asked again.
    pub stop: Pc,
    /// Where they wait for others: index into [`Paths::entries`], or [`NONE`].
    pub entry: usize,
    /// The branch at which they wait for the other warps of their block, or [`NO_PC`].
    pub held: Pc,
    /// When the path was made or last had its turn; greater is later.
    pub turn: u64,
}

impl Path {
    /// True if both wait for the same others.
    pub fn is_sibling(&self, other: &Self) -> bool {
        self.entry == other.entry && self.depth == other.depth
    }
}

/// A point where paths wait for each other.
#[derive(Clone, Copy, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Entry {
    /// Address of the reconvergence point.
    pub join: Pc,
    /// Call depth of the reconvergence point.
    pub depth: u32,
    /// Threads that still have to arrive.
    pub pending: LaneMask,
    /// Threads that wait there.
    pub arrived: LaneMask,
    /// The entry they belong to once they have met.
    pub parent: usize,
    /// The entry is free and may be reused.
    pub closed: bool,
    /// Only one path of it at a time may issue.
    pub serial: bool,
    /// Issues of the warp since a thread arrived.
    pub waited: u32,
}

/// The paths of one warp.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Paths {
    /// By slot, as far as slots have been used: most warps have one path, and chips have thousands of
    /// warps.
    pub slots: Vec<Path>,
    /// Slots that hold a path, one bit each: a warp of few paths touches few of its slots.
    occupied: u32,
    /// Points where paths meet.
    pub entries: Vec<Entry>,
    /// Slot of the block in its SM.
    pub block: usize,
    /// Slots of the paths that the last control instruction made or moved.
    pub moved: u32,
    /// What is known of the program.
    #[borsh(serialize_with = "crate::state::write_plan", deserialize_with = "crate::state::read_plan")]
    pub plan: Arc<Plan>,
    /// The size that has been charged for.
    pub(super) charged: u32,
    /// Where the path that runs began to since the policy was last asked.
    pub began: Pc,
    pub(super) returns: Returns,
    pub(super) turns: u64,
}

impl Paths {
    /// Slots that hold a path, one bit each.
    #[inline]
    pub fn occupied(&self) -> u32 {
        self.occupied
    }

    /// The path at `slot` has the threads of `mask` from now on; without any there is no such path.
    #[inline]
    pub fn set_mask(&mut self, slot: usize, mask: LaneMask) {
        self.slots[slot].mask = mask;
        self.occupied = self.occupied & !(1 << slot) | u32::from(mask != 0) << slot;
    }

    /// The bits of [`occupied`](Self::occupied) are those of the masks: whoever changes a mask does so
    /// by [`set_mask`](Self::set_mask).
    pub fn agrees(&self) -> bool {
        let holds = |slot: usize| self.slots.get(slot).is_some_and(|path| path.mask != 0);
        (0..PATHS).all(|slot| holds(slot) == (self.occupied >> slot & 1 == 1))
    }

    /// A slot without a path, if there is one.
    pub fn free_slot(&self) -> Option<usize> {
        let free = !self.occupied;
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    /// Slots that hold a path.
    pub fn used(&self) -> impl Iterator<Item = usize> + use<> {
        Lanes(self.occupied()).map(|slot| slot as usize)
    }

    /// Slots that hold a path which does not wait at a barrier or collective.
    pub fn running(&self) -> impl Iterator<Item = usize> + use<> {
        let parked = Lanes(self.occupied).filter(|slot| self.slots[*slot as usize].parked);
        let parked = parked.fold(0, |bits, slot| bits | 1u32 << slot);
        Lanes(self.occupied & !parked).map(|slot| slot as usize)
    }

    /// A number greater than any before.
    pub fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    /// Makes a path; there is room, since each has a lane of its own.
    pub fn place(&mut self, group: Group, entry: usize) -> usize {
        let slot = self.free_slot().unwrap_or(0);
        self.put(slot, group, entry);
        slot
    }

    fn put(&mut self, slot: usize, Group { pc, depth, mask }: Group, entry: usize) {
        let turn = self.next_turn();
        let path =
            Path { pc, depth, mask, parked: false, enabled: false, stop: NO_PC, entry, held: NO_PC, turn };
        self.set(slot, path);
        self.moved |= 1 << slot;
    }

    /// `path` is at `slot`, whatever was there.
    pub fn set(&mut self, slot: usize, path: Path) {
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, Path::default());
        }
        self.slots[slot] = path;
        self.set_mask(slot, path.mask);
    }

    /// `groups` take the place of the path at `slot`, without waiting for each other.
    pub fn scatter(&mut self, slot: usize, groups: &[Group], entry: usize) {
        self.set_mask(slot, 0);
        for (i, &group) in groups.iter().enumerate() {
            if i == 0 { self.put(slot, group, entry) } else { _ = self.place(group, entry) }
        }
    }

    /// `groups` take the place of the path at `slot` and meet at `join`, if there is such a point
    /// and they do not already wait for others there.
    pub fn diverge(&mut self, slot: usize, groups: &[Group], join: Option<Pc>, serial: bool) -> usize {
        let Path { depth, mask, entry, .. } = self.slots[slot];
        let entry = match join {
            Some(join) if !self.meets_at(entry, join, depth) => self.open(join, depth, mask, entry, serial),
            _ => entry,
        };
        self.scatter(slot, groups, entry);
        entry
    }

    fn meets_at(&self, entry: usize, join: Pc, depth: u32) -> bool {
        self.entries.get(entry).is_some_and(|e| e.join == join && e.depth == depth)
    }

    /// A point where `mask` will meet.
    pub fn open(&mut self, join: Pc, depth: u32, mask: LaneMask, parent: usize, serial: bool) -> usize {
        let entry =
            Entry { join, depth, pending: mask, arrived: 0, parent, closed: false, serial, waited: 0 };
        match self.entries.iter().position(|entry| entry.closed) {
            Some(free) => {
                self.entries[free] = entry;
                free
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        }
    }

    /// Paths that have come to where they meet others wait there; those that are complete go on.
    pub fn meet(&mut self) {
        loop {
            let mut changed = false;
            for slot in self.running() {
                let Path { pc, depth, mask, entry, .. } = self.slots[slot];
                let Some(at) = self.entries.get_mut(entry) else { continue };
                if depth < at.depth {
                    // They left the function by another way than through the join.
                    at.pending &= !mask;
                    self.slots[slot].entry = at.parent;
                    changed = true;
                } else if pc == at.join && depth == at.depth {
                    at.pending &= !mask;
                    at.arrived |= mask;
                    at.waited = 0;
                    self.set_mask(slot, 0);
                    changed = true;
                }
            }
            for entry in 0..self.entries.len() {
                if !self.entries[entry].closed && self.entries[entry].pending == 0 {
                    self.release(entry);
                    self.entries[entry].closed = true;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Threads wait at a join.
    pub fn anyone_arrived(&self) -> bool {
        self.entries.iter().any(|entry| !entry.closed && entry.arrived != 0)
    }

    /// Threads wait at a join, and each path they could meet there waits at a barrier or collective.
    pub fn is_blocked(&self) -> bool {
        self.anyone_arrived() && self.running().next().is_none()
    }

    /// How many join points enclose `entry`, itself among them.
    pub fn height(&self, mut entry: usize) -> usize {
        let mut height = 0;
        while let Some(found) = self.entries.get(entry) {
            height += 1;
            entry = found.parent;
        }
        height
    }

    /// The threads that wait at the innermost join go on.
    pub fn give_way(&mut self) {
        let waited_at = |entry: &usize| !self.entries[*entry].closed && self.entries[*entry].arrived != 0;
        let joins = (0..self.entries.len()).filter(waited_at);
        if let Some(entry) = joins.max_by_key(|&entry| (self.height(entry), std::cmp::Reverse(entry))) {
            self.release(entry);
        }
    }

    /// The threads that wait at `entry` go on; those still on their way meet later.
    pub fn release(&mut self, entry: usize) {
        let Entry { join, depth, arrived, parent, .. } = self.entries[entry];
        self.entries[entry].arrived = 0;
        self.entries[entry].waited = 0;
        if arrived != 0 {
            self.place(Group { pc: join, depth, mask: arrived }, parent);
        }
    }

    /// Joins paths that run and agree by `same`; the lower slot stays.
    pub fn merge(&mut self, same: impl Fn(&Path, &Path) -> bool) {
        for slot in self.running() {
            for other in self.running().filter(|&other| other > slot) {
                let (a, b) = (self.slots[slot], self.slots[other]);
                if a.mask != 0 && b.mask != 0 && a.pc == b.pc && same(&a, &b) {
                    self.set_mask(slot, a.mask | b.mask);
                    self.slots[slot].turn = a.turn.min(b.turn);
                    self.set_mask(other, 0);
                }
            }
        }
    }

    /// Lets exactly the paths of `chosen` issue.
    pub fn enable_only(&mut self, mut chosen: impl FnMut(usize, &Path) -> bool) {
        for slot in self.used() {
            let path = &mut self.slots[slot];
            path.enabled = !path.parked && chosen(slot, path);
        }
    }

    /// The address above `path`'s at which another path that runs stands, or where its own entry
    /// meets: the policy must be asked there.
    pub fn next_meeting(&self, slot: usize, same: impl Fn(&Path, &Path) -> bool) -> Pc {
        let path = &self.slots[slot];
        let join = self.entries.get(path.entry).filter(|e| e.depth == path.depth).map(|e| e.join);
        self.running()
            .filter(|&other| other != slot)
            .filter(|&other| same(path, &self.slots[other]))
            .map(|other| self.slots[other].pc)
            .chain(join)
            .filter(|&pc| pc > path.pc)
            .min()
            .unwrap_or(NO_PC)
    }

    /// Paths and entries in use: what the policy's table holds.
    pub fn size(&self) -> u32 {
        (self.occupied.count_ones() as usize + self.entries.iter().filter(|entry| !entry.closed).count())
            as u32
    }

    /// `lanes` have exited: no path waits for them.
    pub(super) fn end(&mut self, lanes: LaneMask) {
        for entry in &mut self.entries {
            entry.pending &= !lanes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(pc: Pc, depth: u32, mask: LaneMask) -> Group {
        Group { pc, depth, mask }
    }

    /// A recursive call comes to the address of the join of its caller: only threads at the call depth
    /// of the join meet there, deeper ones go on.
    #[test]
    fn paths_meet_at_the_call_depth_of_the_join() {
        let mut paths = Paths::default();
        let entry = paths.open(20, 1, 0b11, NONE, false);
        let caller = paths.place(group(20, 1, 0b01), entry);
        let callee = paths.place(group(20, 2, 0b10), entry);
        paths.meet();
        assert_eq!(paths.slots[caller].mask, 0, "it waits at the join");
        assert_eq!((paths.slots[callee].mask, paths.slots[callee].depth), (0b10, 2));
        assert_eq!((paths.entries[entry].pending, paths.entries[entry].arrived), (0b10, 0b01));
        // The callee returns and arrives: both go on together.
        paths.slots[callee].depth = 1;
        paths.meet();
        let left: Vec<(Pc, u32, LaneMask)> = paths
            .used()
            .map(|slot| &paths.slots[slot])
            .map(|path| (path.pc, path.depth, path.mask))
            .collect();
        assert_eq!(left, [(20, 1, 0b11)]);
        assert!(paths.agrees() && paths.entries[entry].closed);
    }

    /// The turn of merged paths is the earlier one, so that the threads that have waited longer do not
    /// wait again.
    #[test]
    fn merged_paths_keep_the_earlier_turn() {
        for (first, second) in [(3, 9), (9, 3)] {
            let mut paths = Paths::default();
            let low = paths.place(group(8, 0, 0b01), NONE);
            let high = paths.place(group(8, 0, 0b10), NONE);
            (paths.slots[low].turn, paths.slots[high].turn) = (first, second);
            paths.merge(Path::is_sibling);
            assert_eq!((paths.slots[low].mask, paths.slots[low].turn), (0b11, 3));
            assert_eq!(paths.slots[high].mask, 0);
        }
    }
}
