//! Vector clocks: the events that precede a point of a thread in causality order.
//!
//! A clock has an entry for each thread whose events it knows, or one for all threads of a warp that it knows up to the
//! same release, and one for each block all of whose threads met at a barrier; threads and blocks that it does not name
//! have no event before it. Old entries of a clock that grows too large are dropped: the check then knows less of the
//! order, and finds less.

use std::sync::Arc;

use sim_memory::vocabulary::WARP_LANES;

/// Entries of a clock at most.
const MOST: usize = 2048;
/// Set in the keys of warps.
const WARP: u64 = 1 << 15;

/// A thread of the run: the number of its block, counted from 0 in order of their start, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread {
    /// Number of the block.
    pub block: u32,
    /// Index in the block.
    pub index: u32,
}

impl Thread {
    fn key(self) -> u64 {
        u64::from(self.block) << 16 | u64::from(self.index + 1)
    }

    /// The key of its warp.
    fn warp_key(self) -> u64 {
        u64::from(self.block) << 16 | WARP | u64::from(self.index / WARP_LANES as u32)
    }
}

/// A point of a thread: how often the thread has released before it, and how often its block has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The thread.
    pub thread: Thread,
    /// Its releases so far.
    pub epoch: u32,
    /// Barriers of the whole block so far.
    pub phase: u32,
}

/// A vector clock, ordered by key: the block and, within it, 0 for the block itself, then its threads, then its warps.
/// An empty one takes no room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(Option<Arc<Vec<(u64, u32)>>>);

/// The blocks whose meetings a clock knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// None.
    Nobody,
    /// Of one block, that many; it knows nothing of other blocks.
    Block(u32, u32),
    /// Some: look into it.
    Several,
}

impl Clock {
    fn entries(&self) -> &[(u64, u32)] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    fn entries_mut(&mut self) -> &mut Vec<(u64, u32)> {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    fn get(&self, key: u64) -> Option<u32> {
        let entries = self.entries();
        entries.binary_search_by_key(&key, |entry| entry.0).ok().map(|i| entries[i].1)
    }

    /// The blocks whose meetings it knows, in short.
    pub fn met(&self) -> Met {
        match self.entries() {
            [] => Met::Nobody,
            [(key, phase)] if key & 0xffff == 0 => Met::Block((key >> 16) as u32, *phase),
            _ => Met::Several,
        }
    }

    /// True if `point` is before this clock.
    pub fn knows(&self, point: Point) -> bool {
        if self.0.is_none() {
            return false;
        }
        self.get(u64::from(point.thread.block) << 16).is_some_and(|phase| phase > point.phase)
            || self.get(point.thread.key()).is_some_and(|epoch| epoch >= point.epoch)
            || self.get(point.thread.warp_key()).is_some_and(|epoch| epoch >= point.epoch)
    }

    /// True if all threads of a block are known up to this phase.
    pub fn knows_phase(&self, block: u32, phase: u32) -> bool {
        self.get(u64::from(block) << 16).is_some_and(|known| known > phase)
    }

    /// True if one look shows that both are the same.
    pub fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    /// Adds what a thread has done up to a release.
    pub fn add(&mut self, point: Point) {
        if !self.knows(point) {
            self.set(point.thread.key(), point.epoch);
        }
    }

    /// Adds what threads of a warp have done up to a release of each, in the order of the threads. They are all its
    /// threads if the warp is `whole`.
    pub fn add_warp(&mut self, points: &[Point], whole: bool) {
        let Some(first) = points.first() else { return };
        if whole && points.iter().all(|point| point.epoch == first.epoch) {
            if points.iter().any(|point| !self.knows(*point)) {
                self.set(first.thread.warp_key(), first.epoch);
            }
            return;
        }
        let new = points.iter().filter(|point| !self.knows(**point));
        let entries: Vec<_> = new.map(|point| (point.thread.key(), point.epoch)).collect();
        self.join(&Self((!entries.is_empty()).then(|| Arc::new(entries))));
    }

    /// All threads of a block have met for the `phase`-th time; what was known of each of them follows.
    pub fn meet(&mut self, block: u32, phase: u32) {
        let of_threads = |key: u64| key >> 16 == u64::from(block) && key & 0xffff != 0;
        if self.entries().iter().any(|entry| of_threads(entry.0)) {
            self.entries_mut().retain(|entry| !of_threads(entry.0));
        }
        self.set(u64::from(block) << 16, phase);
    }

    fn set(&mut self, key: u64, value: u32) {
        let entries = self.entries_mut();
        match entries.binary_search_by_key(&key, |entry| entry.0) {
            Ok(i) => entries[i].1 = entries[i].1.max(value),
            Err(i) => entries.insert(i, (key, value)),
        }
        trim(entries);
    }

    /// True if it knows all that another clock knows.
    pub fn covers(&self, other: &Self) -> bool {
        if self.is(other) {
            return true;
        }
        let (own, other) = (self.entries(), other.entries());
        if other.len() > own.len() {
            return false;
        }
        if other.len() * 8 < own.len() {
            return other.iter().all(|(key, value)| self.get(*key).is_some_and(|known| known >= *value));
        }
        let mut rest = own.iter();
        other.iter().all(|(key, value)| {
            rest.find(|entry| entry.0 >= *key).is_some_and(|(own, known)| own == key && known >= value)
        })
    }

    /// Adds all that another clock knows.
    pub fn join(&mut self, other: &Self) {
        if other.0.is_none() || self.is(other) {
            return;
        }
        if !self.covers(other) {
            self.join_more(other);
        }
    }

    /// Adds what another clock knows, which is more.
    pub fn join_more(&mut self, other: &Self) {
        if other.covers(self) {
            self.0.clone_from(&other.0);
            return;
        }
        let (a, b) = (self.entries(), other.entries());
        let mut out = Vec::with_capacity(a.len() + b.len());
        let (mut i, mut j) = (0, 0);
        while i < a.len() || j < b.len() {
            match (a.get(i), b.get(j)) {
                (Some(x), Some(y)) if x.0 == y.0 => {
                    out.push((x.0, x.1.max(y.1)));
                    (i, j) = (i + 1, j + 1);
                }
                (Some(x), Some(y)) if x.0 < y.0 => {
                    out.push(*x);
                    i += 1;
                }
                (_, Some(y)) => {
                    out.push(*y);
                    j += 1;
                }
                (Some(x), None) => {
                    out.push(*x);
                    i += 1;
                }
                (None, None) => {}
            }
        }
        trim(&mut out);
        self.0 = Some(Arc::new(out));
    }
}

/// Drops the entries of the oldest blocks.
fn trim(entries: &mut Vec<(u64, u32)>) {
    if entries.len() > MOST {
        let over = entries.len() - MOST;
        entries.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(block: u32, index: u32, epoch: u32, phase: u32) -> Point {
        Point { thread: Thread { block, index }, epoch, phase }
    }

    #[test]
    fn a_clock_knows_what_was_released_to_it() {
        let mut clock = Clock::default();
        assert!(!clock.knows(point(0, 0, 0, 0)));
        clock.add(point(0, 3, 1, 0));
        assert!(clock.knows(point(0, 3, 1, 0)) && clock.knows(point(0, 3, 0, 0)));
        assert!(!clock.knows(point(0, 3, 2, 0)) && !clock.knows(point(0, 2, 0, 0)));
        let mut other = Clock::default();
        other.add(point(1, 0, 4, 0));
        other.join(&clock);
        assert!(other.knows(point(0, 3, 1, 0)) && other.knows(point(1, 0, 4, 0)));
        assert!(!clock.knows(point(1, 0, 0, 0)));
    }

    #[test]
    fn a_block_that_met_is_one_entry() {
        let mut clock = Clock::default();
        for index in 0..4 {
            clock.add(point(7, index, 0, 0));
        }
        clock.meet(7, 1);
        assert_eq!(clock.entries().len(), 1);
        assert!(clock.knows(point(7, 900, 5, 0)));
        assert!(!clock.knows(point(7, 0, 0, 1)));
    }

    #[test]
    fn what_it_knows_of_meetings_is_said_in_short() {
        let mut clock = Clock::default();
        assert_eq!(clock.met(), Met::Nobody);
        clock.meet(7, 2);
        assert_eq!(clock.met(), Met::Block(7, 2));
        assert!(clock.knows_phase(7, 1) && !clock.knows_phase(7, 2) && !clock.knows_phase(6, 0));
        clock.add_warp(&[point(7, 1, 4, 2), point(7, 3, 0, 2)], false);
        assert_eq!(clock.met(), Met::Several);
        assert!(clock.knows(point(7, 1, 4, 2)) && !clock.knows(point(7, 3, 1, 2)));
        let mut thread = Clock::default();
        thread.add(point(7, 1, 4, 0));
        assert_eq!(thread.met(), Met::Several);
        assert!(clock.covers(&thread) && !thread.covers(&clock));
    }

    #[test]
    fn a_warp_that_released_together_is_one_entry() {
        let points: Vec<Point> = (32..64).map(|index| point(3, index, 5, 0)).collect();
        let mut clock = Clock::default();
        clock.add_warp(&points, true);
        assert_eq!(clock.entries().len(), 1);
        assert!(points.iter().all(|point| clock.knows(*point)));
        assert!(!clock.knows(point(3, 32, 6, 0)) && !clock.knows(point(3, 31, 0, 0)));
        // Not all of its threads, or not the same release.
        for (points, whole) in
            [(points.clone(), false), ([&points[1..], &[point(3, 70, 6, 0)]].concat(), true)]
        {
            let mut clock = Clock::default();
            clock.add_warp(&points, whole);
            assert_eq!(clock.entries().len(), 32);
            assert!(points.iter().all(|point| clock.knows(*point)) && !clock.knows(point(3, 80, 0, 0)));
        }
        clock.meet(3, 1);
        assert_eq!(clock.met(), Met::Block(3, 1));
    }

    #[test]
    fn the_oldest_blocks_are_forgotten() {
        let mut clock = Clock::default();
        for block in 0..MOST as u32 + 10 {
            clock.add(point(block, 0, 0, 0));
        }
        assert_eq!(clock.entries().len(), MOST);
        assert!(!clock.knows(point(9, 0, 0, 0)) && clock.knows(point(10, 0, 0, 0)));
    }
}
