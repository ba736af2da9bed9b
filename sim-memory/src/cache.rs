//! The functions on cache lines of CS §4.2.2, for L1 and for an L2 slice. One line has 128
//! bytes with masks of valid, dirty and filling bytes; what the thesis calls a cache line is a
//! sector of it.

mod lru;

use crate::divide::Divisor;
use crate::line::{ByteMask, LINE_BYTES, LineData, bits_at};
use crate::spec::{CacheSpec, IndexFunction};
use lru::LruOrder;

/// A tag no line has.
const UNUSED: u64 = u64::MAX;

/// State of one line besides its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    tag: u64,
    valid: ByteMask,
    dirty: ByteMask,
    filling: ByteMask,
    pins: u32,
    first: bool,
    /// Flushed while it was pinned: it counts as not cached, and goes when it is unpinned.
    flushed: bool,
}

/// `init` of CS §4.2.1.
const INIT: Line =
    Line { tag: UNUSED, valid: 0, dirty: 0, filling: 0, pins: 0, first: false, flushed: false };

impl Line {
    /// `canEvict`: a dirty line is never evictable, nor is a pinned one [cache-canEvict]
    /// [cache-unused] [cache-allUsed].
    fn can_evict(&self) -> bool {
        self.pins == 0 && self.dirty == 0
    }
}

/// Ways compared at once.
const CHUNK: usize = 16;

/// What the search compares first: a line's number, folded.
fn short(line: u64) -> u32 {
    ((line >> 7) ^ (line >> 39)) as u32
}

/// What an operation on a cache came to: done, retry later, or `⊥`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Done,
    /// Not now.
    Defer,
    /// Never: the operation does not fit the state.
    Stuck,
}

/// Counters of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CacheStats {
    /// Loads and atomics that found their bytes valid.
    pub hits: u64,
    /// Those that fetched them.
    pub misses: u64,
    /// Those that waited for bytes on their way or for an earlier access to the line.
    pub merges: u64,
    /// Of the hits, misses and merges, those of local memory.
    pub local_hits: u64,
    /// Of the misses, those of local memory.
    pub local_misses: u64,
    /// Of the merges, those of local memory.
    pub local_merges: u64,
    /// Reservations that found no way; at L2 also requests that found no MSHR.
    pub reservation_fails: u64,
    /// Lines that lost their place to others.
    pub evictions: u64,
    /// Dirty lines written back.
    pub write_backs: u64,
}

impl CacheStats {
    /// A load or atomic looked for its bytes.
    #[inline]
    pub fn looked_up(&mut self, hit: bool, local: bool) {
        self.hits += u64::from(hit);
        self.misses += u64::from(!hit);
        self.local_hits += u64::from(hit && local);
        self.local_misses += u64::from(!hit && local);
    }

    /// A load waits for an earlier access to its line.
    #[inline]
    pub fn merged(&mut self, local: bool) {
        self.merges += 1;
        self.local_merges += u64::from(local);
    }

    /// Adds another cache's.
    pub fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.merges += other.merges;
        self.local_hits += other.local_hits;
        self.local_misses += other.local_misses;
        self.local_merges += other.local_merges;
        self.reservation_fails += other.reservation_fails;
        self.evictions += other.evictions;
        self.write_backs += other.write_backs;
    }
}

/// A set-associative cache with LRU replacement behind `eligible` and `canEvict`.
#[derive(Clone, Debug)]
pub struct Cache {
    /// Of each way, for the search: its tag, shortened.
    tags: Vec<u32>,
    lines: Vec<Line>,
    data: Vec<LineData>,
    /// Unused ways come before used ones.
    order: LruOrder,
    /// By set: lines of class `first`.
    firsts: Vec<u32>,
    ways: usize,
    sets: u64,
    index: IndexFunction,
    by_sets: Divisor,
    /// Bits of a folded part of a line's number.
    fold: u32,
    /// Counters of the cache.
    pub stats: CacheStats,
    /// Writes of operations that changed a byte, or may have.
    changes: u64,
}

impl Cache {
    /// An empty cache; one of no bytes has no lines.
    pub fn new(spec: &CacheSpec) -> Self {
        if spec.size_bytes == 0 {
            return Self::hollow();
        }
        let count = (spec.size_bytes / LINE_BYTES) as usize;
        Self {
            tags: vec![short(UNUSED); count],
            order: LruOrder::new(count / (spec.ways as usize).max(1), (spec.ways as usize).max(1)),
            firsts: vec![0; spec.sets().max(1) as usize],
            lines: vec![INIT; count],
            data: vec![[0; LINE_BYTES as usize]; count],
            ways: spec.ways as usize,
            sets: u64::from(spec.sets().max(1)),
            index: spec.index,
            by_sets: Divisor::new(u64::from(spec.sets().max(1))),
            fold: spec.sets().max(1).next_power_of_two().trailing_zeros(),
            stats: CacheStats::default(),
            changes: 0,
        }
    }

    /// A cache of no lines, that stands in for one taken away.
    pub fn hollow() -> Self {
        Self {
            tags: Vec::new(),
            order: LruOrder::new(0, 1),
            firsts: Vec::new(),
            lines: Vec::new(),
            data: Vec::new(),
            ways: 0,
            sets: 1,
            index: IndexFunction::Linear,
            by_sets: Divisor::new(1),
            fold: 0,
            stats: CacheStats::default(),
            changes: 0,
        }
    }

    /// `eligible`: the set an address maps to. `number` is the line's number in this cache's
    /// share of memory [cache-eligible].
    pub fn set_of(&self, number: u64) -> u64 {
        match self.index {
            IndexFunction::Linear => self.by_sets.divide(number).1,
            IndexFunction::Xor => {
                let (mut folded, mut rest) = (0, number);
                while rest != 0 && self.fold != 0 {
                    folded ^= rest & ((1 << self.fold) - 1);
                    rest >>= self.fold;
                }
                if folded < self.sets { folded } else { self.by_sets.divide(folded).1 }
            }
        }
    }

    #[inline]
    fn find(&self, set: u64, line: u64) -> Option<usize> {
        let first = set as usize * self.ways;
        let wanted = short(line);
        let (chunks, rest) = self.tags[first..first + self.ways].as_chunks::<CHUNK>();
        let at = |i: usize| (self.lines[i].tag == line).then_some(i);
        for (k, chunk) in chunks.iter().enumerate() {
            // All of a chunk without branches: the host compares several at once.
            if chunk.iter().fold(false, |any, tag| any | (*tag == wanted)) {
                let base = first + k * CHUNK;
                let mut equal = chunk.iter().enumerate().filter(|(_, tag)| **tag == wanted);
                if let Some(i) = equal.find_map(|(i, _)| at(base + i)) {
                    return Some(i);
                }
            }
        }
        let base = first + chunks.len() * CHUNK;
        rest.iter().enumerate().filter(|(_, tag)| **tag == wanted).find_map(|(i, _)| at(base + i))
    }

    /// `isCached`: every byte asked for is valid or on its way [cache-isCached].
    #[inline]
    pub fn is_cached(&self, set: u64, line: u64, mask: ByteMask) -> bool {
        self.find(set, line).is_some_and(|i| {
            let line = &self.lines[i];
            !line.flushed && mask & !(line.valid | line.filling) == 0
        })
    }

    /// The way a reservation takes: an unused one, else the least recently used evictable one,
    /// those of class `first` before others.
    fn victim(&self, set: u64) -> Option<usize> {
        let mut evictable = self
            .order
            .ways(set as usize)
            .filter(|&i| self.lines[i].tag == UNUSED || self.lines[i].can_evict());
        let least = evictable.next()?;
        if self.firsts[set as usize] == 0 || self.lines[least].tag == UNUSED {
            return Some(least);
        }
        std::iter::once(least).chain(evictable).find(|&i| self.lines[i].first).or(Some(least))
    }

    /// Way `i` is given to `line`; what it held is forgotten: the environment evicts when it needs
    /// the place [mem-evictL1] [mem-evictL2].
    fn take(&mut self, set: u64, i: usize, line: u64) {
        let old = std::mem::replace(&mut self.lines[i], Line { tag: line, ..INIT });
        self.stats.evictions += u64::from(old.tag != UNUSED);
        self.firsts[set as usize] -= u32::from(old.first);
        self.tags[i] = short(line);
    }

    /// Way `i` is unused.
    fn drop_line(&mut self, set: u64, i: usize) {
        let old = std::mem::replace(&mut self.lines[i], INIT);
        self.firsts[set as usize] -= u32::from(old.first);
        self.tags[i] = short(UNUSED);
        self.order.freed(set as usize, i);
    }

    /// `reserve`: takes a way for the line, pins it for the operation and marks the missing
    /// bytes as on their way. Defers where no way is free [cache-reserve] [cache-pin].
    pub fn reserve(&mut self, set: u64, line: u64, mask: ByteMask, pinned: &mut bool) -> Outcome {
        let i = match self.find(set, line) {
            Some(i) if mask & !(self.lines[i].valid | self.lines[i].filling) == 0 => {
                return Outcome::Stuck;
            }
            Some(i) => i,
            None => {
                let Some(i) = self.victim(set) else {
                    self.stats.reservation_fails += 1;
                    return Outcome::Defer;
                };
                self.take(set, i, line);
                i
            }
        };
        let state = &mut self.lines[i];
        state.filling |= mask & !state.valid;
        state.pins += u32::from(!*pinned);
        *pinned = true;
        self.order.used(set as usize, i);
        Outcome::Done
    }

    /// `read`: the bytes of `mask` into `data`, and unpins; pins and defers where some are still
    /// on their way [cache-read] [cache-unpin].
    pub fn read(
        &mut self,
        set: u64,
        line: u64,
        mask: ByteMask,
        data: &mut LineData,
        pinned: &mut bool,
    ) -> Outcome {
        let Some(i) = self.find(set, line) else { return Outcome::Stuck };
        if mask & !(self.lines[i].valid | self.lines[i].filling) != 0 {
            return Outcome::Stuck;
        }
        let state = &mut self.lines[i];
        if mask & !state.valid != 0 {
            state.pins += u32::from(!*pinned);
            *pinned = true;
            return Outcome::Defer;
        }
        state.pins -= u32::from(*pinned);
        *pinned = false;
        copy(data, &self.data[i], mask);
        if state.flushed && state.can_evict() {
            self.drop_line(set, i);
        } else {
            self.order.used(set as usize, i);
        }
        Outcome::Done
    }

    /// `write`: the bytes of `mask`, dirty unless they are what stands there already and was
    /// clean [cache-writeEq]; reserves where the line is absent [cache-write].
    pub fn write(&mut self, set: u64, line: u64, mask: ByteMask, data: &LineData) -> Outcome {
        let i = match self.find(set, line) {
            Some(i) => i,
            None => {
                let Some(i) = self.victim(set) else {
                    self.stats.reservation_fails += 1;
                    return Outcome::Defer;
                };
                self.take(set, i, line);
                i
            }
        };
        let old = &self.data[i];
        let equal = self.lines[i].valid & mask == mask && same(old, data, mask);
        if !equal {
            self.changes += 1;
            copy(&mut self.data[i], data, mask);
            self.lines[i].valid |= mask;
            self.lines[i].dirty |= mask;
        }
        self.order.used(set as usize, i);
        Outcome::Done
    }

    /// `writeThroughL1`: writes where the line is present; it stays clean.
    pub fn write_through(&mut self, set: u64, line: u64, mask: ByteMask, data: &LineData) {
        if let Some(i) = self.find(set, line) {
            copy(&mut self.data[i], data, mask);
            self.lines[i].valid |= mask;
        }
    }

    /// `update`: the bytes a miss fetched, where nothing was written meanwhile [cache-update].
    pub fn update(&mut self, set: u64, line: u64, mask: ByteMask, data: &LineData) -> Outcome {
        let Some(i) = self.find(set, line) else { return Outcome::Stuck };
        let state = &mut self.lines[i];
        let fresh = mask & !state.valid;
        copy(&mut self.data[i], data, fresh);
        state.valid |= fresh;
        state.filling &= !mask;
        Outcome::Done
    }

    /// `evict`: drops the line where it is clean and not pinned, else defers [cache-evict].
    pub fn evict(&mut self, set: u64, line: u64) -> Outcome {
        match self.find(set, line) {
            None => Outcome::Done,
            Some(i) if self.lines[i].dirty == 0 && self.lines[i].pins == 0 => {
                self.drop_line(set, i);
                Outcome::Done
            }
            Some(_) => Outcome::Defer,
        }
    }

    /// `discard`: drops the line, dirty or not, where it is not pinned [cache-discard]. Where
    /// other bytes than those of `mask` are dirty, they stay: a line here holds what the thesis
    /// keeps in several.
    pub fn discard(&mut self, set: u64, line: u64, mask: ByteMask) -> Outcome {
        match self.find(set, line) {
            None => Outcome::Done,
            Some(i) if self.lines[i].pins == 0 => {
                if self.lines[i].dirty & !mask == 0 {
                    self.drop_line(set, i);
                } else {
                    self.lines[i].valid &= !mask;
                    self.lines[i].dirty &= !mask;
                }
                Outcome::Done
            }
            Some(_) => Outcome::Defer,
        }
    }

    /// `classify`: the line's eviction class [cache-classify].
    pub fn classify(&mut self, set: u64, line: u64, first: bool) {
        if let Some(i) = self.find(set, line) {
            let old = std::mem::replace(&mut self.lines[i].first, first);
            let count = &mut self.firsts[set as usize];
            *count = *count + u32::from(first) - u32::from(old);
        }
    }

    /// The least recently used dirty, unpinned line of a set, copied and marked clean
    /// [mem-wbL1] [mem-wbL2].
    pub fn write_back_one(&mut self, set: u64) -> Option<(u64, ByteMask, LineData)> {
        let lines = &self.lines;
        let i = self.order.ways(set as usize).find(|&i| lines[i].dirty != 0 && lines[i].pins == 0)?;
        let state = &mut self.lines[i];
        let dirty = std::mem::take(&mut state.dirty);
        let tag = state.tag;
        self.stats.write_backs += 1;
        Some((tag, dirty, self.data[i]))
    }

    /// Drops every clean line `keep` does not keep. Pinned ones count as not cached from now on,
    /// and go when they are unpinned [mem-flush].
    pub fn flush(&mut self, keep: impl Fn(u64) -> bool) {
        for i in 0..self.lines.len() {
            let line = &mut self.lines[i];
            if line.tag == UNUSED || keep(line.tag) || line.dirty != 0 {
                continue;
            }
            if line.pins == 0 {
                self.drop_line((i / self.ways) as u64, i);
            } else {
                line.flushed = true;
            }
        }
    }

    /// Writes that changed a byte, or may have, so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// True if a line `which` names is dirty.
    pub fn any_dirty(&self, which: impl Fn(u64) -> bool) -> bool {
        self.lines.iter().any(|line| line.tag != UNUSED && line.dirty != 0 && which(line.tag))
    }

    /// Gives every dirty line to `sink` and marks it clean.
    pub fn clean_all(&mut self, mut sink: impl FnMut(u64, ByteMask, &LineData)) {
        for i in 0..self.lines.len() {
            let line = &mut self.lines[i];
            if line.tag != UNUSED && line.dirty != 0 {
                sink(line.tag, line.dirty, &self.data[i]);
                line.dirty = 0;
            }
        }
    }

    /// A line the host copied to the device passes through: it is here, clean. Only between runs,
    /// when nothing is pinned or dirty.
    pub fn fill(&mut self, set: u64, line: u64, data: &LineData) {
        let i = match self.find(set, line) {
            Some(i) => i,
            None => {
                let Some(i) = self.victim(set) else { return };
                self.take(set, i, line);
                i
            }
        };
        self.data[i] = *data;
        self.lines[i].valid = ByteMask::MAX;
        self.order.used(set as usize, i);
    }

    /// Forgets a line that the host wrote past it. Only between runs.
    pub fn forget(&mut self, set: u64, line: u64) {
        if let Some(i) = self.find(set, line) {
            self.drop_line(set, i);
        }
    }

    /// What must hold of the lines at any time, and of one at rest, when no operation is under way.
    ///
    /// # Errors
    /// The first line it does not hold of, in words.
    pub fn check_idle(&self) -> Result<(), String> {
        for (i, line) in self.lines.iter().enumerate().filter(|(_, line)| line.tag != UNUSED) {
            let set = (i / self.ways) as u64;
            let wrong = |why: &str| Err(format!("line {:#x} {why}", line.tag));
            if self.find(set, line.tag) != Some(i) {
                return wrong("is not the one that a lookup of its address finds");
            }
            if line.dirty & !line.valid != 0 {
                return wrong("has dirty bytes that are not valid");
            }
            if line.filling & !line.valid != 0 {
                return wrong("waits for bytes that no request fetches");
            }
            if line.pins != 0 || line.flushed {
                return wrong("is pinned by no operation");
            }
        }
        let firsts = self.lines.iter().filter(|line| line.first).count();
        if firsts != self.firsts.iter().sum::<u32>() as usize {
            return Err(format!("{firsts} lines are of class first, others were counted"));
        }
        Ok(())
    }

    /// Lines pinned by some operation.
    pub fn pinned(&self) -> usize {
        self.lines.iter().filter(|line| line.pins != 0).count()
    }
}

#[inline]
fn copy(to: &mut LineData, from: &LineData, mask: ByteMask) {
    if mask == ByteMask::MAX {
        *to = *from;
        return;
    }
    let (to, _) = to.as_chunks_mut();
    let (from, _) = from.as_chunks();
    for (i, (to, from)) in to.iter_mut().zip(from).enumerate() {
        let bits = bits_at(mask, i);
        *to = (u64::from_le_bytes(*to) & !bits | u64::from_le_bytes(*from) & bits).to_le_bytes();
    }
}

fn same(a: &LineData, b: &LineData, mask: ByteMask) -> bool {
    if mask == ByteMask::MAX {
        return a == b;
    }
    let ((a, _), (b, _)) = (a.as_chunks(), b.as_chunks());
    a.iter().zip(b).enumerate().all(|(i, (a, b))| {
        let bits = bits_at(mask, i);
        (u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b)) & bits == 0
    })
}

#[cfg(test)]
mod tests;
