//! Which lines of global memory functional launches access.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use sim_memory::line::{ByteMask, LINE_BYTES, line_of, offset_in_line};

/// The lines of global memory that functional launches accessed, in the order of their last accesses as far as a cache
/// could hold them. Accesses that L1 would serve count too.
#[derive(Clone, Debug)]
pub struct Touched {
    /// Addresses of lines, with the 32-byte sectors of each that were written in the lowest bits.
    lines: Vec<u64>,
    /// Lines that L2 holds.
    capacity: usize,
    /// Where the lines of the last launches begin, the oldest first.
    starts: VecDeque<usize>,
    /// Launches that count.
    most: usize,
}

/// Bits of the sectors of a line.
const SECTORS: u64 = 0xf;

/// Times the capacity of L2 after which repeated lines are dropped.
const SLACK: usize = 8;

impl Touched {
    /// None yet, of the last `launches` launches, for an L2 of `capacity` lines.
    pub(crate) fn new(capacity: usize, launches: usize) -> Self {
        Self { lines: Vec::new(), capacity, starts: VecDeque::from([0]), most: launches }
    }

    /// An access at an address, which writes so many bytes from there on; 0 of a load.
    #[inline]
    pub(crate) fn access(&mut self, address: u64, written: u32) {
        let line = line_of(address);
        let sectors = if written == 0 { 0 } else { sectors(address, written) };
        match self.lines.last_mut() {
            Some(last) if *last & !SECTORS == line => *last |= sectors,
            _ => {
                self.lines.push(line | sectors);
                if self.lines.len() >= self.capacity * SLACK {
                    self.shorten();
                }
            }
        }
    }

    /// Keeps the last access to each of the lines that were accessed last.
    #[cold]
    fn shorten(&mut self) {
        let mut seen = FxHashMap::default();
        let (mut kept, mut starts) = (Vec::new(), VecDeque::new());
        let mut ends = self.starts.iter().rev().peekable();
        for (i, &line) in self.lines.iter().enumerate().rev() {
            while ends.next_if(|start| **start > i).is_some() {
                starts.push_front(kept.len());
            }
            match seen.get(&(line & !SECTORS)) {
                // What was written before that many other lines was written back since.
                Some(at) if seen.len() < self.capacity => kept[*at] |= line & SECTORS,
                None if seen.len() < self.capacity => {
                    seen.insert(line & !SECTORS, kept.len());
                    kept.push(line);
                }
                _ => {}
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

    /// Blocks that access as many lines as the cache holds, twice over, if they access as many as so many blocks have so far.
    pub(crate) fn blocks_that_fill(&self, blocks: u64) -> u64 {
        let mut short = self.clone();
        short.shorten();
        let lines = short.lines.len() as u64;
        (2 * self.capacity as u64 * blocks).div_ceil(lines.max(1))
    }

    /// It as numbers: where the lines of launches begin, and the lines.
    pub(crate) fn parts(&self) -> (Vec<u64>, Vec<u64>) {
        let mut short = self.clone();
        short.shorten();
        let lines = short.lines.iter().map(|line| line & !SECTORS).collect();
        (short.starts.iter().map(|start| *start as u64).collect(), lines)
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
        self.last_written().into_iter().map(|(line, _)| line).collect()
    }

    /// The same, with the bytes of each that were written, as whole sectors.
    pub(crate) fn last_written(&self) -> Vec<(u64, ByteMask)> {
        let mut last = Self {
            lines: self.lines[self.starts.front().copied().unwrap_or(0)..].to_vec(),
            starts: VecDeque::new(),
            ..*self
        };
        last.shorten();
        let bytes = |sectors: u64| -> ByteMask {
            (0..4).filter(|i| sectors >> i & 1 != 0).map(|i| (ByteMask::from(u32::MAX)) << (32 * i)).sum()
        };
        last.lines.iter().map(|line| (line & !SECTORS, bytes(line & SECTORS))).collect()
    }
}

/// The sectors of a line in which so many bytes from an address on are, as far as they are in one line.
fn sectors(address: u64, bytes: u32) -> u64 {
    let first = offset_in_line(address);
    let last = (first + bytes as usize).min(LINE_BYTES as usize) - 1;
    (2 << (last / 32)) - (1 << (first / 32))
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
            launch.iter().for_each(|line| touched.access(line * 128 + 7, 0));
            touched.launch_ends();
        }
        assert_eq!(touched.last(), [4 * 128, 2 * 128, 5 * 128]);
        let (starts, lines) = touched.parts();
        let again = Touched::of_parts(3, 2, &starts, lines);
        assert_eq!((again.last(), again.launches()), (touched.last(), touched.launches()));
        // However many accesses there were.
        let mut touched = Touched::new(3, 1);
        (0..1000u64).for_each(|i| touched.access(i % 7 * 128, 0));
        touched.launch_ends();
        assert!(touched.lines.len() < 3 * SLACK);
        assert_eq!(touched.last(), [997 % 7 * 128, 998 % 7 * 128, 999 % 7 * 128]);
        touched.launch_ends();
        assert_eq!(touched.last(), [] as [u64; 0]);
    }

    #[test]
    fn blocks_that_fill_a_cache_are_told_by_the_lines_of_the_first_ones() {
        let mut touched = Touched::new(100, 1);
        assert_eq!(touched.blocks_that_fill(3), 600, "no line: as if it were one");
        // 10 lines of 5 blocks.
        (0..1000).for_each(|i| touched.access(i % 10 * 128, 0));
        assert_eq!(touched.blocks_that_fill(5), 100);
        // More than it holds.
        (0..1000).for_each(|i| touched.access(i * 128, 0));
        assert_eq!(touched.blocks_that_fill(5), 10);
    }

    #[test]
    fn what_was_written_before_a_whole_cache_of_other_lines_is_clean() {
        let mut touched = Touched::new(4, 1);
        for other in [2, 4] {
            // Written, then read again behind so many other lines.
            touched.access(0, 128);
            (1..=other).for_each(|line| touched.access(line * 128, 0));
            touched.access(0, 0);
            let written = touched.last_written().last().map(|(line, written)| (*line, *written != 0));
            assert_eq!(written, Some((0, other == 2)));
            (5..20).for_each(|line| touched.access(line * 128, 0));
        }
    }

    #[test]
    fn sectors_that_were_written_are_kept() {
        for more in [0, 1000] {
            let mut touched = Touched::new(4, 1);
            // From 30 to 33 and from 100 to the end of the line; the line is read last.
            [(128 + 30, 4), (128 + 100, 100), (256, 0), (384 + 64, 1), (128 + 64, 0)]
                .iter()
                .for_each(|&(address, written)| touched.access(address, written));
            (0..more).for_each(|i| touched.access(256 + i % 2 * 128, 0));
            let [none, three] = [0, 0xffff_ffff_u128 << 64];
            let one = u128::from(u64::MAX) | 0xffff_ffff << 96;
            let expected = if more == 0 {
                [(256, none), (384, three), (128, one)]
            } else {
                [(128, one), (256, none), (384, three)]
            };
            assert_eq!(touched.last_written(), expected);
            assert_eq!(touched.parts().1, touched.last());
        }
    }
}
