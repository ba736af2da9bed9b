//! Vector clocks: the events that precede a point of a thread in causality order.
//!
//! A clock has an entry for each thread whose events it knows, and one for each block all of whose threads met at a
//! barrier; threads and blocks that it does not name have no event before it. Old entries of a clock that grows too
//! large are dropped: the check then knows less of the order, and finds less.

use std::sync::Arc;

/// Entries of a clock at most.
const MOST: usize = 2048;

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

/// A vector clock, ordered by key: the block and, within it, 0 for the block itself, then its threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(Arc<Vec<(u64, u32)>>);

impl Clock {
    fn get(&self, key: u64) -> Option<u32> {
        self.0.binary_search_by_key(&key, |entry| entry.0).ok().map(|i| self.0[i].1)
    }

    /// True if `point` is before this clock.
    pub fn knows(&self, point: Point) -> bool {
        if self.0.is_empty() {
            return false;
        }
        self.get(u64::from(point.thread.block) << 16).is_some_and(|phase| phase > point.phase)
            || self.get(point.thread.key()).is_some_and(|epoch| epoch >= point.epoch)
    }

    /// True if all threads of a block are known up to this phase.
    pub fn knows_phase(&self, block: u32, phase: u32) -> bool {
        self.get(u64::from(block) << 16).is_some_and(|known| known > phase)
    }

    /// True if one look shows that both are the same.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.is_empty() && other.0.is_empty())
    }

    /// Adds what a thread has done up to a release.
    pub fn add(&mut self, point: Point) {
        if !self.knows(point) {
            self.set(point.thread.key(), point.epoch);
        }
    }

    /// All threads of a block have met for the `phase`-th time; what was known of each of them follows.
    pub fn meet(&mut self, block: u32, phase: u32) {
        let of_threads = |key: u64| key >> 16 == u64::from(block) && key & 0xffff != 0;
        if self.0.iter().any(|entry| of_threads(entry.0)) {
            Arc::make_mut(&mut self.0).retain(|entry| !of_threads(entry.0));
        }
        self.set(u64::from(block) << 16, phase);
    }

    fn set(&mut self, key: u64, value: u32) {
        let entries = Arc::make_mut(&mut self.0);
        match entries.binary_search_by_key(&key, |entry| entry.0) {
            Ok(i) => entries[i].1 = entries[i].1.max(value),
            Err(i) => entries.insert(i, (key, value)),
        }
        trim(entries);
    }

    /// Adds all that another clock knows.
    pub fn join(&mut self, other: &Self) {
        if other.0.is_empty() || Arc::ptr_eq(&self.0, &other.0) {
            return;
        }
        if self.0.is_empty() {
            self.0 = Arc::clone(&other.0);
            return;
        }
        if other.0.iter().all(|(key, value)| self.get(*key).is_some_and(|own| own >= *value)) {
            return;
        }
        let (a, b) = (&*self.0, &*other.0);
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
        self.0 = Arc::new(out);
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
        assert_eq!(clock.0.len(), 1);
        assert!(clock.knows(point(7, 900, 5, 0)));
        assert!(!clock.knows(point(7, 0, 0, 1)));
    }

    #[test]
    fn the_oldest_blocks_are_forgotten() {
        let mut clock = Clock::default();
        for block in 0..MOST as u32 + 10 {
            clock.add(point(block, 0, 0, 0));
        }
        assert_eq!(clock.0.len(), MOST);
        assert!(!clock.knows(point(9, 0, 0, 0)) && clock.knows(point(10, 0, 0, 0)));
    }
}
