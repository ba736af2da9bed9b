//! Which lines of global memory functional launches access.

use std::collections::{BTreeSet, VecDeque};

use sim_memory::line::line_of;

/// The lines of global memory that functional launches accessed, in the order of their last accesses as far as a cache
/// could hold them. Accesses that L1 would serve count too.
#[derive(Clone, Debug)]
pub struct Touched {
    lines: Vec<u64>,
    /// Lines that L2 holds.
    capacity: usize,
    /// Where the lines of the last launches begin, the oldest first.
    starts: VecDeque<usize>,
    /// Launches that count.
    most: usize,
}

/// Times the capacity of L2 after which repeated lines are dropped.
const SLACK: usize = 8;

impl Touched {
    /// None yet, of the last `launches` launches, for an L2 of `capacity` lines.
    pub(crate) fn new(capacity: usize, launches: usize) -> Self {
        Self { lines: Vec::new(), capacity, starts: VecDeque::from([0]), most: launches }
    }

    /// An access to a byte.
    #[inline]
    pub(crate) fn access(&mut self, address: u64) {
        let line = line_of(address);
        if self.lines.last() != Some(&line) {
            self.lines.push(line);
            if self.lines.len() >= self.capacity * SLACK {
                self.shorten();
            }
        }
    }

    /// Keeps the last access to each of the lines that were accessed last.
    #[cold]
    fn shorten(&mut self) {
        let mut seen = BTreeSet::new();
        let (mut kept, mut starts) = (Vec::new(), VecDeque::new());
        let mut ends = self.starts.iter().rev().peekable();
        for (i, &line) in self.lines.iter().enumerate().rev() {
            while ends.next_if(|start| **start > i).is_some() {
                starts.push_front(kept.len());
            }
            if seen.len() < self.capacity && seen.insert(line) {
                kept.push(line);
            }
        }
        ends.for_each(|_| starts.push_front(kept.len()));
        kept.reverse();
        self.starts = starts.into_iter().map(|behind| kept.len() - behind).collect();
        self.lines = kept;
    }

    /// A launch is over, and the next one begins.
    pub(crate) fn launch_ends(&mut self) {
        self.starts.push_back(self.lines.len());
        while self.starts.len() > self.most + 1 {
            self.starts.pop_front();
        }
    }

    /// It as numbers: where the lines of launches begin, and the lines.
    pub(crate) fn parts(&self) -> (Vec<u64>, Vec<u64>) {
        let mut short = self.clone();
        short.shorten();
        (short.starts.iter().map(|start| *start as u64).collect(), short.lines)
    }

    /// What [`parts`](Self::parts) gave, again.
    pub(crate) fn of_parts(capacity: usize, most: usize, starts: &[u64], lines: Vec<u64>) -> Self {
        Self { lines, capacity, starts: starts.iter().map(|start| *start as usize).collect(), most }
    }

    /// Launches that have ended, as far as they count.
    pub(crate) fn launches(&self) -> usize {
        self.starts.len() - 1
    }

    /// The lines of the last launches, each once, in the order of last accesses.
    pub(crate) fn last(&self) -> Vec<u64> {
        let mut seen = BTreeSet::new();
        let lines = &self.lines[self.starts.front().copied().unwrap_or(0)..];
        let mut last: Vec<u64> =
            lines.iter().rev().copied().filter(|line| seen.insert(*line)).take(self.capacity).collect();
        last.reverse();
        last
    }
}

/// Functional launches that warm L2.
#[derive(Debug)]
pub struct Warming {
    /// How many of the last launches before a timed one count.
    pub launches: usize,
    /// Of each run since the last timed one: how many copies from the host came before, and what it touched. Runs
    /// of fewer launches than count follow each other.
    pub runs: VecDeque<(usize, Touched)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_accesses_of_the_last_launches_are_kept() {
        let mut touched = Touched::new(3, 2);
        for launch in [&[1u64, 2, 3][..], &[4, 1, 4], &[2, 2, 5]] {
            launch.iter().for_each(|line| touched.access(line * 128 + 7));
            touched.launch_ends();
        }
        assert_eq!(touched.last(), [4 * 128, 2 * 128, 5 * 128]);
        let (starts, lines) = touched.parts();
        let again = Touched::of_parts(3, 2, &starts, lines);
        assert_eq!((again.last(), again.launches()), (touched.last(), touched.launches()));
        // However many accesses there were.
        let mut touched = Touched::new(3, 1);
        (0..1000u64).for_each(|i| touched.access(i % 7 * 128));
        touched.launch_ends();
        assert!(touched.lines.len() < 3 * SLACK);
        assert_eq!(touched.last(), [997 % 7 * 128, 998 % 7 * 128, 999 % 7 * 128]);
        touched.launch_ends();
        assert_eq!(touched.last(), [] as [u64; 0]);
    }
}
