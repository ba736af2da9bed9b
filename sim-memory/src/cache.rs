//! The operations on cache lines of CS §4.2.2, for L1 and for an L2 slice. A line has 128 bytes, with byte
//! masks for valid, dirty and filling; what the thesis calls a cache line is one sector of it.

mod checks;
mod contents;
mod lru;
mod saved;
mod stats;

use crate::divide::Divisor;
use crate::line::{ByteMask, LINE_BYTES, LineData, bits_at};
use crate::observation::{self, LineStores, NO_STORES};
use crate::spec::{CacheSpec, IndexFunction};
use lru::LruOrder;
pub use stats::CacheStats;

/// The tag of an unused way; no line has it.
const UNUSED: u64 = u64::MAX;

/// When a line is replaced, beside the order of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum Class {
    /// In the order of use.
    #[default]
    Normal,
    /// Before others.
    First,
    /// After others.
    Last,
}

/// State of one line, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Line {
    tag: u64,
    valid: ByteMask,
    dirty: ByteMask,
    filling: ByteMask,
    pins: u32,
    class: Class,
    /// Flushed while pinned: the line counts as not cached, and is dropped when it is unpinned.
    flushed: bool,
}

/// The initial line state, `init` of CS §4.2.1.
const INIT: Line =
    Line { tag: UNUSED, valid: 0, dirty: 0, filling: 0, pins: 0, class: Class::Normal, flushed: false };

impl Line {
    /// `canEvict`: a line that is dirty or pinned cannot be evicted [cache-canEvict] [cache-unused]
    /// [cache-allUsed].
    fn can_evict(&self) -> bool {
        self.pins == 0 && self.dirty == 0
    }

    /// Every byte of `mask` is valid or being fetched.
    #[inline(always)]
    fn holds(&self, mask: ByteMask) -> bool {
        !self.flushed && mask & !(self.valid | self.filling) == 0
    }
}

/// Number of ways whose tags are compared at once.
const CHUNK: usize = 8;

/// Which of these tags are the wanted one, bit by bit.
#[inline(always)]
fn alike(tags: &[u32; CHUNK], wanted: u32) -> u32 {
    tags.iter().enumerate().fold(0, |all, (i, tag)| all | u32::from(*tag == wanted) << i)
}

/// A 32-bit tag folded from the line's address, compared before the full tag.
fn short(line: u64) -> u32 {
    ((line >> 7) ^ (line >> 39)) as u32
}

/// The outcome of a cache operation: done, retry later, or `⊥`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation was performed.
    Done,
    /// The operation must be retried later.
    Defer,
    /// `⊥`: the state of the line does not allow the operation.
    Stuck,
}

/// A clean line of a cache between runs; its bytes are those of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedLine {
    /// Its address.
    pub line: u64,
    /// The bytes that are there.
    pub valid: ByteMask,
    /// Its eviction class.
    pub class: Class,
}

/// A set-associative cache with LRU replacement among the ways that `eligible` and `canEvict` allow.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The shortened tag of each way, for the lookup.
    tags: Vec<u32>,
    lines: Vec<Line>,
    data: Vec<LineData>,
    /// LRU order of each set; unused ways come before used ones.
    order: LruOrder,
    /// For each set: the number of its lines of another eviction class than `normal`.
    classed: Vec<u32>,
    /// A bit for each set that may have dirty lines.
    dirty_sets: Vec<u64>,
    /// For each set: the number of its dirty lines.
    dirty_lines: Vec<u32>,
    /// For each set: the number of its lines that cannot be evicted.
    held: Vec<u32>,
    /// How many lines of a set may be dirty.
    most_dirty: u32,
    /// A store of the bytes that are there already leaves a line clean.
    equal_clean: bool,
    /// `writeAllocateL1` takes a line where there is none.
    write_allocate: bool,
    ways: usize,
    sets: u64,
    index: IndexFunction,
    by_sets: Divisor,
    /// Number of bits of each part into which a line number is folded for the set index.
    fold: u32,
    /// Hit, miss and replacement counters.
    pub stats: CacheStats,
    /// Number of writes that changed a byte, or may have.
    changes: u64,
    /// While memory is observed, for each way the stores of its bytes; `None` where no store wrote any.
    stores: Vec<Option<Box<LineStores>>>,
}

impl Cache {
    /// An empty cache. With a size of 0 bytes it has no lines.
    pub fn new(spec: &CacheSpec) -> Self {
        let mut cache = Self::hollow();
        cache.reset(spec);
        cache
    }

    /// Makes it what [`new`](Self::new) makes, in the memory it has. Bytes that are not valid may differ: nobody
    /// reads them.
    pub fn reset(&mut self, spec: &CacheSpec) {
        if spec.size_bytes == 0 {
            *self = Self::hollow();
            return;
        }
        let count = (spec.size_bytes / LINE_BYTES) as usize;
        let number = spec.sets().max(1);
        let Self { tags, lines, data, order, classed, dirty_sets, dirty_lines, held, ways, sets, .. } = self;
        tags.clear();
        tags.resize(count, short(UNUSED));
        lines.clear();
        lines.resize(count, INIT);
        if data.is_empty() {
            // The host makes zeroed pages when they are first used.
            *data = vec![[0; LINE_BYTES as usize]; count];
        } else {
            data.resize(count, [0; LINE_BYTES as usize]);
        }
        order.reset(count / (spec.ways as usize).max(1), (spec.ways as usize).max(1));
        classed.clear();
        classed.resize(number as usize, 0);
        dirty_sets.clear();
        dirty_sets.resize(number.div_ceil(64) as usize, 0);
        dirty_lines.clear();
        dirty_lines.resize(number as usize, 0);
        held.clear();
        held.resize(number as usize, 0);
        (*ways, *sets) = (spec.ways as usize, u64::from(number));
        let Self { index, by_sets, fold, stats, changes, stores, most_dirty, equal_clean, .. } = self;
        self.write_allocate = spec.write_allocate;
        *most_dirty = spec.dirty_ways.unwrap_or(u32::MAX);
        *equal_clean = spec.equal_stores_stay_clean;
        (*index, *by_sets) = (spec.index, Divisor::new(u64::from(number)));
        *fold = number.next_power_of_two().trailing_zeros();
        (*stats, *changes) = (CacheStats::default(), 0);
        stores.clear();
    }

    /// A cache without lines: a placeholder after the real one was taken out.
    pub fn hollow() -> Self {
        Self {
            tags: Vec::new(),
            order: LruOrder::new(0, 1),
            classed: Vec::new(),
            dirty_sets: Vec::new(),
            dirty_lines: Vec::new(),
            held: Vec::new(),
            most_dirty: 0,
            equal_clean: true,
            write_allocate: false,
            lines: Vec::new(),
            data: Vec::new(),
            ways: 0,
            sets: 1,
            index: IndexFunction::Linear,
            by_sets: Divisor::new(1),
            fold: 0,
            stats: CacheStats::default(),
            changes: 0,
            stores: Vec::new(),
        }
    }

    /// `eligible`: the set an address maps to. `number` is the line's number within the part of memory that
    /// this cache serves [cache-eligible].
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

    /// The way of a line. That of the line used last in its set is asked for most.
    #[inline]
    fn find(&self, set: u64, line: u64) -> Option<usize> {
        let last = self.order.last(set as usize)?;
        match self.lines.get(last) {
            Some(here) if here.tag == line => Some(last),
            _ => self.find_among_all(set, line),
        }
    }

    #[inline(never)]
    fn find_among_all(&self, set: u64, line: u64) -> Option<usize> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the host has just been asked for the feature.
            #[allow(unsafe_code, reason = "eight tags are compared at once")]
            return unsafe { self.find_avx2(set, line) };
        }
        self.find_by(set, line, alike)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn find_avx2(&self, set: u64, line: u64) -> Option<usize> {
        use std::arch::x86_64::*;
        self.find_by(set, line, |tags, wanted| {
            // SAFETY: as many tags are read as the array has; they need no alignment.
            #[allow(unsafe_code, reason = "vectors have no safe loads")]
            let tags = unsafe { _mm256_loadu_si256(tags.as_ptr().cast()) };
            let alike = _mm256_cmpeq_epi32(tags, _mm256_set1_epi32(wanted.cast_signed()));
            _mm256_movemask_ps(_mm256_castsi256_ps(alike)).cast_unsigned()
        })
    }

    /// The way of a line, where `alike` gives the tags of a chunk that are the wanted one, bit by bit.
    #[inline(always)]
    fn find_by(&self, set: u64, line: u64, alike: impl Fn(&[u32; CHUNK], u32) -> u32) -> Option<usize> {
        let (mut base, wanted) = (set as usize * self.ways, short(line));
        let (chunks, rest) = self.tags[base..base + self.ways].as_chunks::<CHUNK>();
        let at = |i: usize| self.lines.get(i).is_some_and(|here| here.tag == line).then_some(i);
        for chunk in chunks {
            let mut alike = alike(chunk, wanted);
            while alike != 0 {
                if let Some(i) = at(base + alike.trailing_zeros() as usize) {
                    return Some(i);
                }
                alike &= alike - 1;
            }
            base += CHUNK;
        }
        (base..).zip(rest).filter(|(_, tag)| **tag == wanted).find_map(|(i, _)| at(i))
    }

    /// `isCached`: every byte of `mask` is valid or being fetched [cache-isCached].
    #[inline]
    pub fn is_cached(&self, set: u64, line: u64, mask: ByteMask) -> bool {
        self.find(set, line).is_some_and(|i| self.lines[i].holds(mask))
    }

    /// The first of the masks of which [`is_cached`](Self::is_cached) holds.
    #[inline]
    pub fn held_of(&self, set: u64, line: u64, masks: [ByteMask; 2]) -> Option<ByteMask> {
        let line = &self.lines[self.find(set, line)?];
        masks.into_iter().find(|mask| line.holds(*mask))
    }

    /// The way that a reservation replaces: an unused one, else the least recently used evictable one; lines
    /// of class `first` are replaced before others.
    fn victim(&self, set: u64) -> Option<usize> {
        // Where loads are scattered, many ask again each cycle for a way of a set that has none.
        if self.held.get(set as usize).is_none_or(|held| *held as usize == self.ways) {
            return None;
        }
        let mut evictable = self
            .order
            .ways(set as usize)
            .filter(|&i| self.lines[i].tag == UNUSED || self.lines[i].can_evict());
        let least = evictable.next()?;
        if self.classed[set as usize] == 0 || self.lines[least].tag == UNUSED {
            return Some(least);
        }
        self.classed_victim(std::iter::once(least).chain(evictable)).or(Some(least))
    }

    /// Of the ways that can be evicted, in the order of use: lines of class `first` go before others, those of class
    /// `last` after them.
    #[cold]
    fn classed_victim(&self, evictable: impl Iterator<Item = usize>) -> Option<usize> {
        let mut normal = None;
        for i in evictable {
            match self.lines[i].class {
                Class::First => return Some(i),
                Class::Normal => normal = normal.or(Some(i)),
                Class::Last => {}
            }
        }
        normal
    }

    /// Assigns way `i` to `line` and drops its previous line. The environment's eviction rule is applied only
    /// when a way is needed [mem-evictL1] [mem-evictL2].
    fn take(&mut self, set: u64, i: usize, line: u64) {
        let old = std::mem::replace(&mut self.lines[i], Line { tag: line, ..INIT });
        self.stats.evictions += u64::from(old.tag != UNUSED);
        self.classed[set as usize] -= u32::from(old.class != Class::Normal);
        self.tags[i] = short(line);
    }

    /// A way that can be evicted, assigned to `line`.
    fn taken(&mut self, set: u64, line: u64) -> Option<usize> {
        let i = self.victim(set)?;
        self.take(set, i, line);
        Some(i)
    }

    /// Marks way `i` as unused.
    fn drop_line(&mut self, set: u64, i: usize) {
        let old = std::mem::replace(&mut self.lines[i], INIT);
        self.dirty_lines[set as usize] -= u32::from(old.dirty != 0);
        self.held[set as usize] -= u32::from(!old.can_evict());
        self.classed[set as usize] -= u32::from(old.class != Class::Normal);
        self.tags[i] = short(UNUSED);
        self.order.freed(set as usize, i);
    }

    /// `reserve`: allocates a way for the line, pins it for the operation and marks the missing bytes as
    /// filling. Defers if no way can be evicted [cache-reserve] [cache-pin].
    pub fn reserve(&mut self, set: u64, line: u64, mask: ByteMask, pinned: &mut bool) -> Outcome {
        let i = match self.find(set, line) {
            Some(i) if mask & !(self.lines[i].valid | self.lines[i].filling) == 0 => {
                return Outcome::Stuck;
            }
            Some(i) => i,
            None => {
                let Some(i) = self.taken(set, line) else {
                    self.stats.reservation_fails += 1;
                    return Outcome::Defer;
                };
                i
            }
        };
        let state = &mut self.lines[i];
        state.filling |= mask & !state.valid;
        self.held[set as usize] += u32::from(state.can_evict() && !*pinned);
        state.pins += u32::from(!*pinned);
        *pinned = true;
        self.order.used(set as usize, i);
        Outcome::Done
    }

    /// `read`: copies the bytes of `mask` into `data` and unpins the line. If some of them are still filling,
    /// pins the line and defers [cache-read] [cache-unpin].
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
            self.held[set as usize] += u32::from(state.can_evict() && !*pinned);
            state.pins += u32::from(!*pinned);
            *pinned = true;
            return Outcome::Defer;
        }
        state.pins -= u32::from(*pinned);
        self.held[set as usize] -= u32::from(state.can_evict() && *pinned);
        *pinned = false;
        copy(data, &self.data[i], mask);
        if state.flushed && state.can_evict() {
            self.drop_line(set, i);
        } else {
            self.order.used(set as usize, i);
        }
        Outcome::Done
    }

    /// `write`: writes the bytes of `mask` and marks them dirty, except where the same clean bytes are
    /// already there [cache-writeEq], if the cache is to keep that rule. Reserves the line if it is absent
    /// [cache-write]. Defers where a dirty line must be written back first: no way can be evicted, or too many are dirty.
    pub fn write(&mut self, set: u64, line: u64, mask: ByteMask, data: &LineData) -> Outcome {
        let found = self.find(set, line);
        let equal =
            found.is_some_and(|i| self.lines[i].valid & mask == mask && same(&self.data[i], data, mask));
        let dirties = mask != 0 && !(equal && self.equal_clean);
        let becomes_dirty = dirties && found.is_none_or(|i| self.lines[i].dirty == 0);
        if becomes_dirty
            && self.dirty_lines[set as usize] >= self.most_dirty
            && self.oldest_dirty(set).is_some()
        {
            return Outcome::Defer;
        }
        let i = match found {
            Some(i) => i,
            None => {
                let Some(i) = self.taken(set, line) else {
                    self.stats.reservation_fails += 1;
                    return Outcome::Defer;
                };
                i
            }
        };
        self.changes += u64::from(!equal);
        if dirties {
            self.dirty_sets[set as usize / 64] |= 1 << (set % 64);
            self.dirty_lines[set as usize] += u32::from(becomes_dirty);
            copy(&mut self.data[i], data, mask);
            let state = &mut self.lines[i];
            self.held[set as usize] += u32::from(state.can_evict());
            state.valid |= mask;
            state.dirty |= mask;
        }
        self.order.used(set as usize, i);
        Outcome::Done
    }

    /// `writeThroughL1`: writes the bytes if the line is present; they stay clean.
    pub fn write_through(&mut self, set: u64, line: u64, mask: ByteMask, data: &LineData) {
        if let Some(i) = self.find(set, line) {
            self.write_clean(i, mask, data);
        }
    }

    /// `writeAllocateL1`: `writeThroughL1`, but that the line is taken first where it is absent and a way can be evicted. In
    /// a cache whose stores take no lines it is `writeThroughL1`.
    pub fn write_allocate(&mut self, set: u64, line: u64, mask: ByteMask, data: &LineData) {
        if !self.write_allocate {
            return self.write_through(set, line, mask, data);
        }
        if let Some(i) = self.find(set, line).or_else(|| self.taken(set, line)) {
            self.write_clean(i, mask, data);
            self.order.used(set as usize, i);
        }
    }

    /// Writes bytes of way `i` that go to the next cache too.
    fn write_clean(&mut self, i: usize, mask: ByteMask, data: &LineData) {
        copy(&mut self.data[i], data, mask);
        self.lines[i].valid |= mask;
    }

    /// `update`: fills in the fetched bytes, except those written in the meantime [cache-update].
    pub fn update(&mut self, set: u64, line: u64, mask: ByteMask, data: &LineData) -> Outcome {
        let Some(i) = self.find(set, line) else { return Outcome::Stuck };
        let state = &mut self.lines[i];
        let fresh = missing(state, mask);
        copy(&mut self.data[i], data, fresh);
        state.valid |= fresh;
        state.filling &= !mask;
        Outcome::Done
    }

    /// True if the line is there and counts as not cached, because it was flushed while it was pinned.
    pub fn is_flushed(&self, set: u64, line: u64) -> bool {
        self.find(set, line).is_some_and(|i| self.lines[i].flushed)
    }

    /// `evict`: drops the line if it is clean and not pinned, else defers [cache-evict].
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

    /// `discard`: drops the line, dirty or not, unless it is pinned [cache-discard]. Dirty bytes outside
    /// `mask` are kept, because a line here holds what the thesis keeps in several lines.
    pub fn discard(&mut self, set: u64, line: u64, mask: ByteMask) -> Outcome {
        match self.find(set, line) {
            None => Outcome::Done,
            Some(i) if self.lines[i].pins == 0 => {
                if self.lines[i].dirty & !mask == 0 {
                    self.drop_line(set, i);
                } else {
                    // Bytes outside of the mask stay dirty.
                    self.lines[i].valid &= !mask;
                    // Some are left: it is dirty still.
                    self.lines[i].dirty &= !mask;
                }
                Outcome::Done
            }
            Some(_) => Outcome::Defer,
        }
    }

    /// `classify`: sets the line's eviction class [cache-classify].
    pub fn classify(&mut self, set: u64, line: u64, class: Class) {
        if let Some(i) = self.find(set, line) {
            self.set_class(set, i, class);
        }
    }

    fn set_class(&mut self, set: u64, i: usize, class: Class) {
        let old = std::mem::replace(&mut self.lines[i].class, class);
        let count = &mut self.classed[set as usize];
        *count = *count + u32::from(class != Class::Normal) - u32::from(old != Class::Normal);
    }

    /// Sets the line's eviction class where at most `most` lines of a set are of class `last`: the least recently
    /// used one gives its place up.
    #[cold]
    pub fn keep(&mut self, set: u64, line: u64, class: Class, most: u32) {
        let Some(i) = self.find(set, line) else { return };
        if class == Class::Last && self.lines[i].class != Class::Last {
            let kept = |&i: &usize| self.lines[i].class == Class::Last;
            let (count, oldest) = {
                let mut kept = self.order.ways(set as usize).filter(kept);
                let oldest = kept.next();
                (oldest.map_or(0, |_| 1 + kept.count() as u32), oldest)
            };
            match oldest {
                _ if most == 0 => return self.set_class(set, i, Class::Normal),
                Some(oldest) if count >= most => self.set_class(set, oldest, Class::Normal),
                _ => {}
            }
        }
        self.set_class(set, i, class);
    }

    /// The least recently used line of a set that is dirty and not pinned.
    fn oldest_dirty(&self, set: u64) -> Option<usize> {
        if self.dirty_lines.get(set as usize).is_none_or(|dirty| *dirty == 0) {
            return None;
        }
        let lines = &self.lines;
        self.order.ways(set as usize).find(|&i| lines[i].dirty != 0 && lines[i].pins == 0)
    }

    /// Copies the least recently used line of a set that is dirty and not pinned, and marks it clean
    /// [mem-wbL1] [mem-wbL2].
    pub fn write_back_one(&mut self, set: u64) -> Option<(u64, ByteMask, LineData)> {
        let (i, dirty) = self.clean_oldest(set)?;
        self.stats.write_backs += 1;
        Some((self.lines[i].tag, dirty, self.data[i]))
    }

    /// Marks the least recently used line of a set that is dirty and not pinned as clean. Gives its way, and the bytes that
    /// were dirty.
    fn clean_oldest(&mut self, set: u64) -> Option<(usize, ByteMask)> {
        let i = self.oldest_dirty(set)?;
        self.dirty_lines[set as usize] -= 1;
        self.held[set as usize] -= 1;
        Some((i, std::mem::take(&mut self.lines[i].dirty)))
    }

    /// Drops every clean line for which `keep` is false. A pinned one counts as not cached from then on, and
    /// is dropped when it is unpinned [mem-flush].
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

    /// Begins or ends the observation of the stores of its bytes; no byte has one then.
    pub fn observe(&mut self, on: bool) {
        self.stores.clear();
        if on {
            self.stores.resize(self.lines.len(), None);
        }
    }

    /// The stores of a line's bytes; `None` if the line is absent or not observed.
    pub fn stores_of(&self, set: u64, line: u64) -> Option<&LineStores> {
        let known = self.find(set, line).and_then(|i| self.stores.get(i))?;
        Some(known.as_deref().unwrap_or(&NO_STORES))
    }

    /// Notes the stores of the bytes of `mask` of an observed line that is present.
    pub fn note_stores(&mut self, set: u64, line: u64, mask: ByteMask, stores: &LineStores) {
        if let Some(i) = self.find(set, line)
            && let Some(known) = self.stores.get_mut(i)
            && (known.is_some() || *stores != NO_STORES)
        {
            observation::copy(known.get_or_insert_with(|| Box::new(NO_STORES)), stores, mask);
        }
    }

    /// The dirty bytes of a line.
    pub fn dirty(&self, set: u64, line: u64) -> ByteMask {
        self.find(set, line).map_or(0, |i| self.lines[i].dirty)
    }

    /// The bytes of `mask` that the line lacks.
    pub fn missing(&self, set: u64, line: u64, mask: ByteMask) -> ByteMask {
        self.find(set, line).map_or(mask, |i| missing(&self.lines[i], mask))
    }

    /// The bytes of `mask` that the line neither has nor waits for.
    pub fn lacks(&self, set: u64, line: u64, mask: ByteMask) -> ByteMask {
        self.find(set, line).map_or(mask, |i| missing(&self.lines[i], mask) & !self.lines[i].filling)
    }

    /// Number of writes so far that changed a byte, or may have.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// True if a line selected by `which` is dirty.
    pub fn any_dirty(&self, which: impl Fn(u64) -> bool) -> bool {
        self.lines.iter().any(|line| line.tag != UNUSED && line.dirty != 0 && which(line.tag))
    }

    /// Passes every dirty line to `sink` and marks it clean.
    pub fn clean_all(&mut self, mut sink: impl FnMut(u64, ByteMask, &LineData)) {
        for (word, bits) in self.dirty_sets.iter_mut().enumerate() {
            let mut bits = std::mem::take(bits);
            while bits != 0 {
                let set = word * 64 + bits.trailing_zeros() as usize;
                let first = set * self.ways;
                bits &= bits - 1;
                self.dirty_lines[set] = 0;
                for i in first..first + self.ways {
                    let line = &mut self.lines[i];
                    if line.tag != UNUSED && line.dirty != 0 {
                        sink(line.tag, line.dirty, &self.data[i]);
                        line.dirty = 0;
                        self.held[set] -= u32::from(line.can_evict());
                    }
                }
            }
        }
    }

    /// Number of lines pinned by operations in flight.
    pub fn pinned(&self) -> usize {
        self.lines.iter().filter(|line| line.pins != 0).count()
    }
}

/// The bytes of `mask` that a line lacks: those that a fill brings.
#[inline]
fn missing(line: &Line, mask: ByteMask) -> ByteMask {
    mask & !line.valid
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
