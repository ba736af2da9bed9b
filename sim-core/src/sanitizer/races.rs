//! Races: two accesses of different threads to one byte, one of them a store, which causality order does not order
//! and which are not both strong with scopes that include each other's thread (PTX ISA "Data races", MM §3.3)
//! [san-races].
//!
//! Each line of memory has the accesses that a later one may race with, with the bytes of each that no later access
//! stands for: byte for byte, but one entry for all the bytes of a warp's access.

use sim_memory::access::AccessKind;
use sim_memory::line::ByteMask;
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use super::shadow::{Shadow, words, writes, zeros};
use crate::memory_model::lines::{Transfer, is_of_one_block};
use crate::memory_model::threads::inclusive;
use crate::reconvergence::Lanes;

#[cfg(test)]
mod literal;

/// Lines of memory whose accesses are known at most.
const MOST_LINES: usize = 1 << 18;

/// Accesses of two lanes that race.
#[derive(Clone, Copy, Debug)]
pub struct Race<'a> {
    /// The earlier access.
    pub old: &'a Transfer,
    /// Its lane.
    pub old_lane: usize,
    /// The lane of the later one.
    pub lane: usize,
    /// The first byte of the line that both touch.
    pub byte: usize,
    /// Pairs of lanes of the two accesses that race.
    pub count: u64,
}

/// The pairs of lanes that race: the first one with its byte, and how many there are.
type Pairs = Option<(usize, usize, usize, u64)>;

fn add(found: &mut Pairs, a: usize, b: usize, both: ByteMask) {
    match found {
        Some(found) => found.3 += 1,
        None => *found = Some((a, b, both.trailing_zeros() as usize, 1)),
    }
}

fn same_warp(a: &Transfer, b: &Transfer) -> bool {
    let (a, b) = (a.warp.thread(0), b.warp.thread(0));
    a == b
}

/// True if all pairs of their lanes are morally strong: accesses of one size are aligned, and overlap completely.
fn strong_pair(a: &Transfer, b: &Transfer) -> bool {
    a.strong()
        && b.strong()
        && a.size == b.size
        && inclusive((a.scope, a.warp.in_cluster(0)), (b.scope, b.warp.in_cluster(0)))
}

/// Lanes whose positions in the line are the same in both, or that of one lane.
fn same_places(a: &[u8; WARP_LANES], b: &[u8; WARP_LANES]) -> LaneMask {
    let (a, b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let eight = |i: usize| zeros(u64::from_le_bytes(a[i]) ^ u64::from_le_bytes(b[i]));
    (0..WARP_LANES / 8).fold(0, |same, i| same | (eight(i) as LaneMask) << (8 * i))
}

/// Grids with their streams, in the order of their launch.
#[derive(Clone, Debug, Default)]
pub struct Launches(Vec<(u32, u32)>);

impl Launches {
    /// These grids, each with its stream.
    pub fn new(grids: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self(grids.into_iter().collect())
    }

    fn stream(&self, grid: u32) -> Option<u32> {
        let found = self.0.binary_search_by_key(&grid, |launch| launch.0).ok()?;
        Some(self.0[found].1)
    }

    /// True if one grid comes to its end before the other begins.
    fn ordered(&self, a: u32, b: u32) -> bool {
        self.stream(a) == self.stream(b)
    }

    fn one_stream(&self) -> bool {
        self.0.iter().all(|launch| launch.1 == self.0[0].1)
    }
}

/// The accesses that are not known to precede all that follow.
#[derive(Debug)]
pub struct Races {
    /// Threads of a warp run in lockstep: its instructions are ordered.
    pub lockstep: bool,
    launches: Launches,
    one_stream: bool,
    shadow: Shadow,
    /// Lines whose accesses are known at most.
    most_lines: usize,
    /// Accesses that were forgotten.
    pub forgotten: u64,
}

impl Races {
    /// No accesses yet, in a run of these grids.
    pub fn new(lockstep: bool, launches: Launches) -> Self {
        let one_stream = launches.one_stream();
        let (shadow, most_lines) = (Shadow::default(), MOST_LINES);
        Self { lockstep, launches, one_stream, shadow, most_lines, forgotten: 0 }
    }

    /// True if one look shows that all lanes of `old` precede all of `new` that touch the same bytes.
    fn precedes_all(&self, old: &Transfer, new: &Transfer) -> bool {
        if old.grid != new.grid {
            return self.launches.ordered(old.grid, new.grid);
        }
        let point = old.warp.point(0);
        if new.warp.knows_block(point.thread.block, point.phase) {
            return true;
        }
        same_warp(old, new)
            && ((self.lockstep && old.number != new.number)
                || (old.lanes == new.lanes
                    && old.size == new.size
                    && old.offsets == new.offsets
                    && old.exclusive))
    }

    /// True if a lane's access precedes that of a lane of a later one.
    fn precedes(&self, old: &Transfer, lane: usize, new: &Transfer, new_lane: usize) -> bool {
        let (a, b) = (old.warp.point(lane), new.warp.thread(new_lane));
        a.thread == b
            || (self.lockstep && same_warp(old, new) && old.number != new.number)
            || new.warp.knows(new_lane, a)
    }

    /// The pairs of lanes that race.
    fn conflict(&self, old: &Transfer, new: &Transfer, overlap: ByteMask) -> Pairs {
        let across = old.grid != new.grid;
        if across && self.launches.ordered(old.grid, new.grid) {
            return None;
        }
        let mut left = new.lanes;
        if old.size == new.size && old.exclusive && same_warp(old, new) {
            // Accesses of one size overlap completely: what a thread accessed alone, it shares with nobody.
            left &= !(old.lanes & same_places(&old.offsets, &new.offsets));
        }
        let mut found = None;
        if left == 0 || (!across && new.warp.knows_all_of(&old.warp)) {
            return found;
        }
        for a in Lanes(old.lanes) {
            let a = a as usize;
            if old.mask_of(a) & overlap == 0 {
                continue;
            }
            let aligned = old.size == new.size && matches!(old.size, 1 | 2 | 4 | 8 | 16);
            let near = match aligned && !left.is_power_of_two() {
                true => left & same_places(&[old.offsets[a]; WARP_LANES], &new.offsets),
                false => left,
            };
            for b in Lanes(near) {
                let b = b as usize;
                let both = old.mask_of(a) & new.mask_of(b) & overlap;
                if both == 0 {
                    continue;
                }
                // Morally strong accesses overlap completely.
                let whole = old.size == new.size && old.offsets[a] == new.offsets[b];
                let strong = old.strong()
                    && new.strong()
                    && whole
                    && inclusive((old.scope, old.warp.in_cluster(a)), (new.scope, new.warp.in_cluster(b)));
                if !strong && (across || !self.precedes(old, a, new, b)) {
                    add(&mut found, a, b, both);
                }
            }
        }
        found
    }

    /// Lanes of one store that write the same byte.
    fn own_conflict(new: &Transfer) -> Pairs {
        let mut found = None;
        for a in Lanes(new.lanes) {
            for b in Lanes(new.lanes & !((2u32 << a).wrapping_sub(1))) {
                let (a, b) = (a as usize, b as usize);
                let both = new.mask_of(a) & new.mask_of(b);
                if both != 0 && new.warp.thread(a) != new.warp.thread(b) {
                    add(&mut found, a, b, both);
                }
            }
        }
        found
    }

    /// A warp accesses a line; tells the races.
    pub fn access(&mut self, new: &Transfer, mut tell: impl FnMut(Race<'_>)) {
        if !new.exclusive
            && matches!(new.kind, AccessKind::Store)
            && !new.strong()
            && let Some((old_lane, lane, byte, count)) = Self::own_conflict(new)
        {
            tell(Race { old: new, old_lane, lane, byte, count });
        }
        if self.shadow.used() >= self.most_lines && !self.shadow.has(new.line) {
            self.make_room(new);
        }
        let line = self.shadow.line(new.line);
        if self.shadow.at(line).is_over(new) {
            self.shadow.clear(line);
        }
        let words = words(new.bytes);
        let mut active = self.shadow.at(line).active(new, words, self.one_stream);
        let mut gone = 0;
        while active != 0 {
            let at = active.trailing_zeros() as usize;
            active &= active - 1;
            let entry = self.shadow.entry(line, at);
            let overlap = entry.bytes & new.bytes;
            if overlap != 0
                && self.stands_for(&entry.transfer, new, overlap, &mut tell)
                && self.shadow.replace(line, at, overlap)
            {
                gone |= 1 << at;
            }
        }
        if gone != 0 {
            self.shadow.remove(line, gone);
        }
        if self.shadow.at(line).is_full() && self.shadow.at(line).may_be_over(new) {
            self.drop_ordered(line, new);
        }
        if self.shadow.at(line).is_full() {
            self.shadow.remove(line, 1);
            self.forgotten += 1;
        }
        self.shadow.push(line, new, words);
    }

    /// Tells whether two accesses that overlap race. True if the later one stands for the earlier one from now on:
    /// what races with that races with it.
    fn stands_for(
        &self,
        old: &Transfer,
        new: &Transfer,
        overlap: ByteMask,
        tell: &mut impl FnMut(Race<'_>),
    ) -> bool {
        let mut ordered = self.precedes_all(old, new);
        if !writes(old) && !writes(new) {
            ordered |= same_warp(old, new)
                && old.lanes & !new.lanes == 0
                && old.size == new.size
                && old.offsets == new.offsets;
            return ordered && (!new.strong() || old.strong());
        }
        if !ordered && !strong_pair(old, new) {
            match self.conflict(old, new, overlap) {
                Some((old_lane, lane, byte, count)) => {
                    tell(Race { old, old_lane, lane, byte, count });
                    ordered = true;
                }
                None => ordered = !old.strong() || !new.strong(),
            }
        }
        ordered && writes(new) && (!new.strong() || (old.strong() && old.scope >= new.scope))
    }

    /// Drops the accesses that precede all that can still follow: those of earlier launches of the only stream, and in
    /// shared memory those before the last barrier of the whole block.
    fn drop_ordered(&mut self, line: u32, new: &Transfer) {
        let now = new.warp.point(0);
        let (mut gone, mut oldest) = (0, u32::MAX);
        for at in 0..self.shadow.at(line).places().len() {
            let old = &self.shadow.entry(line, at).transfer;
            let then = old.warp.point(0);
            let launched = self.one_stream && old.grid < new.grid;
            let met = is_of_one_block(new.line)
                && then.thread.block == now.thread.block
                && then.phase < now.phase
                && now.phase != u32::MAX;
            if launched || met {
                gone |= 1 << at;
            } else {
                oldest = oldest.min(then.phase);
            }
        }
        self.shadow.begins(line, oldest);
        if gone != 0 {
            self.shadow.remove(line, gone);
        }
    }

    /// Forgets lines where there are too many: first those that later launches of the only stream follow anyway.
    fn make_room(&mut self, new: &Transfer) {
        let (one_stream, newest) = (self.one_stream, new.grid);
        self.shadow
            .retain(|entries| entries.iter().any(|entry| !one_stream || entry.transfer.grid == newest));
        if self.shadow.used() >= self.most_lines {
            let mut forgotten = 0;
            self.shadow.retain(|entries| {
                forgotten += entries.len() as u64;
                false
            });
            self.forgotten += forgotten;
        }
    }

    /// A block has ended: its shared memory is no more.
    pub fn end_block(&mut self, block: u32) {
        self.shadow.end_block(block);
    }
}
