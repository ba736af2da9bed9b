//! What a cache holds, as seen and changed from outside of the memory programs: between runs, and where memory changes beside.

use super::{Cache, CachedLine, UNUSED};
use crate::line::{ByteMask, LineData};

impl Cache {
    /// Inserts a line, as a copy from the host brings it through the cache; one that is not there yet is clean, and left out where no
    /// way can be evicted.
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

    /// Inserts a line of which the bytes of `dirty` count as written. Memory must have all bytes of the cache and these ones: a line
    /// that gives way is made clean without a write-back.
    pub fn put(&mut self, set: u64, line: u64, data: &LineData, dirty: ByteMask) {
        let found = self.find(set, line);
        if found.is_none() && self.victim(set).is_none() {
            self.clean_oldest(set);
        }
        self.fill(set, line, data);
        let Some(i) = self.find(set, line).filter(|_| dirty != 0) else { return };
        if self.lines[i].dirty == 0 {
            if self.dirty_lines[set as usize] >= self.most_dirty && self.clean_oldest(set).is_none() {
                return;
            }
            self.dirty_sets[set as usize / 64] |= 1 << (set % 64);
            self.dirty_lines[set as usize] += 1;
            self.held[set as usize] += u32::from(self.lines[i].can_evict());
        }
        self.lines[i].dirty |= dirty;
    }

    /// Passes the dirty bytes of every line to `sink`; they stay dirty.
    pub fn share(&self, mut sink: impl FnMut(u64, ByteMask, &LineData)) {
        for (line, data) in self.lines.iter().zip(&self.data).filter(|(line, _)| line.dirty != 0) {
            sink(line.tag, line.dirty, data);
        }
    }

    /// Memory, which had all bytes of the cache, has changed: each line has the bytes of memory, as far as it has any. Operations
    /// may be in flight.
    pub fn renew(&mut self, mut read: impl FnMut(u64, ByteMask, &mut LineData)) {
        for (line, data) in self.lines.iter().zip(&mut self.data).filter(|(line, _)| line.tag != UNUSED) {
            read(line.tag, line.valid, data);
        }
    }

    /// Lines in use and lines; dirty lines, and as many as may be dirty before one is written back.
    pub fn used(&self) -> ([u64; 2], [u64; 2]) {
        let used = self.lines.iter().filter(|line| line.tag != UNUSED).count() as u64;
        let dirty = self.dirty_lines.iter().map(|&dirty| u64::from(dirty)).sum();
        let most = self.dirty_lines.len() as u64 * u64::from(self.most_dirty).min(self.ways as u64);
        ([used, self.lines.len() as u64], [dirty, most])
    }

    /// The lines in use, those of each set from the least to the most recently used. Only between runs, when nothing is
    /// pinned or dirty.
    pub fn lines(&self) -> impl Iterator<Item = CachedLine> {
        let used = (0..self.classed.len()).flat_map(|set| self.order.ways(set)).map(|i| &self.lines[i]);
        let used = used.filter(|line| line.tag != UNUSED);
        used.map(|line| CachedLine { line: line.tag, valid: line.valid, class: line.class })
    }

    /// Puts a clean line behind those of its set, as [`lines`](Self::lines) gave it; `data` are the bytes of memory.
    pub fn restore(&mut self, set: u64, cached: CachedLine, data: &LineData) {
        self.fill(set, cached.line, data);
        if let Some(i) = self.find(set, cached.line) {
            self.lines[i].valid = cached.valid;
        }
        self.classify(set, cached.line, cached.class);
    }

    /// Drops a line that the host has overwritten in device memory. Only between runs.
    pub fn forget(&mut self, set: u64, line: u64) {
        if let Some(i) = self.find(set, line) {
            self.drop_line(set, i);
        }
    }
}
