//! Races: two accesses of different threads to one byte, one of them a store, which causality order does not order
//! and which are not both strong with scopes that include each other's thread (PTX ISA "Data races", MM §3.3)
//! [san-races].
//!
//! Each line of memory has the accesses that a later one may race with, with the bytes of each that no later access
//! stands for: byte for byte, but one entry for all the bytes of a warp's access.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use sim_memory::access::AccessKind;
use sim_memory::line::ByteMask;

use super::findings::{Findings, Kind};
use crate::grid::Kernel;
use crate::memory_model::lines::{SHARED, Transfer};
use crate::memory_model::threads::inclusive;
use crate::reconvergence::Lanes;

/// Accesses of a line that are known at most.
const MOST_ENTRIES: usize = 48;
/// Lines of memory whose accesses are known at most.
const MOST_LINES: usize = 1 << 18;

/// A multiplicative hash: keys are addresses of lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, key: u64) {
        let product = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 29;
    }
}

/// An access that later ones may race with.
#[derive(Clone, Debug)]
struct Entry {
    transfer: Arc<Transfer>,
    bytes: ByteMask,
}

/// The accesses that are not known to precede all that follow.
#[derive(Debug)]
pub struct Races {
    /// Threads of a warp run in lockstep: its instructions are ordered.
    pub lockstep: bool,
    lines: HashMap<u64, Vec<Entry>, BuildHasherDefault<LineHasher>>,
    /// Accesses that were forgotten.
    pub forgotten: u64,
}

fn writes(transfer: &Transfer) -> bool {
    transfer.kind != AccessKind::Load
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
        && inclusive((a.scope, a.warp.thread(0)), (b.scope, b.warp.thread(0)))
}

/// The stream of a grid; kernels are in the order of their launch.
fn stream(kernels: &[Arc<Kernel>], grid: u32) -> Option<u32> {
    let found = kernels.binary_search_by_key(&grid, |kernel| kernel.grid_id).ok()?;
    Some(kernels[found].stream)
}

impl Races {
    /// No accesses yet.
    pub fn new(lockstep: bool) -> Self {
        Self { lockstep, lines: HashMap::default(), forgotten: 0 }
    }

    /// True if one look shows that all lanes of `old` precede all of `new` that touch the same bytes.
    fn precedes_all(&self, old: &Transfer, new: &Transfer, kernels: &[Arc<Kernel>]) -> bool {
        if old.grid != new.grid {
            return stream(kernels, old.grid) == stream(kernels, new.grid);
        }
        if new.warp.knows_block(old.warp.point(0)) {
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
            || new.warp.clock(new_lane).knows(a)
    }

    /// The pairs of lanes that race: the first one, and how many.
    fn conflict(
        &self,
        old: &Transfer,
        new: &Transfer,
        overlap: ByteMask,
        kernels: &[Arc<Kernel>],
    ) -> Option<(usize, usize, usize, u64)> {
        let across = old.grid != new.grid;
        if across && stream(kernels, old.grid) == stream(kernels, new.grid) {
            return None;
        }
        let mut found: Option<(usize, usize, usize, u64)> = None;
        for a in Lanes(old.lanes) {
            let a = a as usize;
            if old.mask_of(a) & overlap == 0 {
                continue;
            }
            for b in Lanes(new.lanes) {
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
                    && inclusive((old.scope, old.warp.thread(a)), (new.scope, new.warp.thread(b)));
                if strong || (!across && self.precedes(old, a, new, b)) {
                    continue;
                }
                match &mut found {
                    Some(found) => found.3 += 1,
                    None => found = Some((a, b, both.trailing_zeros() as usize, 1)),
                }
            }
        }
        found
    }

    /// Lanes of one store that write the same byte.
    fn own_conflict(&self, new: &Transfer) -> Option<(usize, usize, usize, u64)> {
        let mut found: Option<(usize, usize, usize, u64)> = None;
        for a in Lanes(new.lanes) {
            for b in Lanes(new.lanes & !((2u32 << a).wrapping_sub(1))) {
                let (a, b) = (a as usize, b as usize);
                let both = new.mask_of(a) & new.mask_of(b);
                if both != 0 && new.warp.thread(a) != new.warp.thread(b) {
                    match &mut found {
                        Some(found) => found.3 += 1,
                        None => found = Some((a, b, both.trailing_zeros() as usize, 1)),
                    }
                }
            }
        }
        found
    }

    /// A warp accesses a line.
    pub fn access(&mut self, new: &Arc<Transfer>, kernels: &[Arc<Kernel>], findings: &mut Findings) {
        if new.kind == AccessKind::Store
            && !new.strong()
            && !new.exclusive
            && let Some((a, b, byte, count)) = self.own_conflict(new)
        {
            let sides = vec![(Arc::clone(new), a), (Arc::clone(new), b)];
            findings.add(Kind::Race, sides, Some(new.address(byte)), count, kernels);
        }
        self.make_room(new, kernels);
        let mut entries = std::mem::take(self.lines.entry(new.line).or_default());
        entries.retain_mut(|entry| {
            let overlap = entry.bytes & new.bytes;
            if overlap == 0 {
                return true;
            }
            let old = &entry.transfer;
            let mut ordered = self.precedes_all(old, new, kernels);
            if !writes(old) && !writes(new) {
                // All that races with the older load races with this one.
                ordered |= same_warp(old, new)
                    && old.lanes & !new.lanes == 0
                    && old.size == new.size
                    && old.offsets == new.offsets;
                if ordered && (!new.strong() || old.strong()) {
                    entry.bytes &= !overlap;
                }
                return entry.bytes != 0;
            }
            if !ordered && !strong_pair(old, new) {
                match self.conflict(old, new, overlap, kernels) {
                    Some((a, b, byte, count)) => {
                        let sides = vec![(Arc::clone(old), a), (Arc::clone(new), b)];
                        findings.add(Kind::Race, sides, Some(new.address(byte)), count, kernels);
                        ordered = true;
                    }
                    None => ordered = !old.strong() || !new.strong(),
                }
            }
            if ordered && writes(new) && (!new.strong() || (old.strong() && old.scope >= new.scope)) {
                entry.bytes &= !overlap;
            }
            entry.bytes != 0
        });
        if entries.len() >= MOST_ENTRIES {
            self.drop_ordered(&mut entries, new, kernels);
        }
        if entries.len() >= MOST_ENTRIES {
            entries.remove(0);
            self.forgotten += 1;
        }
        entries.push(Entry { transfer: Arc::clone(new), bytes: new.bytes });
        self.lines.insert(new.line, entries);
    }

    /// Drops the accesses that precede all that can still follow: those of earlier launches of the only stream, and in
    /// shared memory those before the last barrier of the whole block.
    fn drop_ordered(&self, entries: &mut Vec<Entry>, new: &Transfer, kernels: &[Arc<Kernel>]) {
        let one_stream = kernels.iter().all(|kernel| kernel.stream == kernels[0].stream);
        let now = new.warp.point(0);
        entries.retain(|entry| {
            let then = entry.transfer.warp.point(0);
            let launched = one_stream && entry.transfer.grid < new.grid;
            let met = new.line & SHARED != 0
                && then.thread.block == now.thread.block
                && then.phase < now.phase
                && now.phase != u32::MAX;
            !launched && !met
        });
    }

    /// Forgets lines where there are too many: first those that later launches of the only stream follow anyway.
    fn make_room(&mut self, new: &Transfer, kernels: &[Arc<Kernel>]) {
        if self.lines.len() < MOST_LINES || self.lines.contains_key(&new.line) {
            return;
        }
        let one_stream = kernels.iter().all(|kernel| kernel.stream == kernels[0].stream);
        let newest = new.grid;
        let mut forgotten = 0;
        let later = |entry: &Entry| !one_stream || entry.transfer.grid == newest;
        self.lines.retain(|_, entries| entries.iter().any(later));
        if self.lines.len() >= MOST_LINES {
            self.lines.retain(|_, entries| {
                forgotten += entries.len() as u64;
                false
            });
        }
        self.forgotten += forgotten;
    }

    /// A block has ended: its shared memory is no more.
    pub fn end_block(&mut self, block: u32, bytes: u32) {
        for line in (0..bytes).step_by(128) {
            self.lines.remove(&(SHARED | u64::from(block) << 24 | u64::from(line)));
        }
    }
}
