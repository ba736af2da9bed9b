//! What a run leaves behind, so that it can be put back where the same launches are not run again. Beside memory that is
//! what the next run depends on: L2, the host's copies since the last timed run, and what warms L2.

use std::hash::{DefaultHasher, Hasher};

use sim_memory::cache::{Cache, CachedLine};
use sim_memory::line::LINE_BYTES;
use sim_memory::vocabulary::Cycle;

use super::Context;
use crate::touched::Touched;

/// What a functional run has accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warmed {
    /// Copies from the host before it.
    pub copies: u64,
    /// Where the lines of its launches begin.
    pub starts: Vec<u64>,
    /// The lines.
    pub lines: Vec<u64>,
}

/// What runs have left beside memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Copies from the host since the last timed run, address and bytes; without the first ones, where so many are known.
    pub copies: Vec<(u64, u64)>,
    /// L2's lines, where it has slices.
    pub l2: Option<Vec<CachedLine>>,
    /// What warms L2.
    pub warm: Vec<Warmed>,
}

impl Context {
    /// From now on what the host writes is followed.
    pub fn follow_writes(&mut self) {
        self.inputs = Some(DefaultHasher::new());
    }

    /// The digest of what the host has written since it was last taken, addresses and bytes.
    pub fn take_inputs(&mut self) -> u64 {
        self.inputs.as_mut().map_or(0, |inputs| std::mem::take(inputs).finish())
    }

    /// How many copies from the host the next run knows of.
    pub fn copied(&self) -> usize {
        self.copies.len()
    }

    /// Addresses of the pages of memory that were written, ascending.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        self.memory.pages()
    }

    /// What the runs so far have left, of the copies those behind `known`.
    pub fn left(&self, known: usize) -> Left {
        let warmed = |(copies, touched): &(usize, Touched)| {
            let (starts, lines) = touched.parts();
            Warmed { copies: *copies as u64, starts, lines }
        };
        Left {
            copies: self.copies.get(known..).unwrap_or_default().to_vec(),
            l2: (!self.slices.is_empty()).then(|| self.slices.iter().flat_map(Cache::lines).collect()),
            warm: self.warming.iter().flat_map(|warming| &warming.runs).map(warmed).collect(),
        }
    }

    /// Puts bytes into memory as a run leaves them.
    pub fn put(&mut self, address: u64, bytes: &[u8]) {
        self.memory.write(address, bytes);
    }

    /// The queued grids have run: memory is what they left by [`put`](Self::put), and this is the rest. The first `known`
    /// copies stay; core cycles and warp instructions count for limits.
    pub fn replay(&mut self, left: Left, known: usize, cycles: Cycle, instructions: u64) {
        self.queue.clear();
        self.kernels.clear();
        self.aborts.clear();
        self.next_grid = 0;
        self.assertions.clear();
        self.copies.truncate(known);
        let copies = std::mem::take(&mut self.copies);
        match &left.l2 {
            Some(lines) => self.set_l2(lines),
            None => self.slices.clear(),
        }
        self.copies = copies;
        self.copies.extend(left.copies);
        if let Some(warming) = &mut self.warming {
            let capacity = ((self.chip.limits.level2_cache_size / u64::from(LINE_BYTES)) as usize).max(1);
            let run = |warmed: Warmed| {
                let touched = Touched::of_parts(capacity, warming.launches, &warmed.starts, warmed.lines);
                (warmed.copies as usize, touched)
            };
            warming.runs = left.warm.into_iter().map(run).collect();
        }
        self.taken.0 += cycles;
        self.taken.1 += instructions;
    }
}
