//! What L2 holds between runs: lines that functional runs leave there, and lines that a recording says.

use std::collections::VecDeque;
use std::sync::Arc;

use sim_memory::cache::{Cache, CachedLine};
use sim_memory::line::{LINE_BYTES, line_number, line_of};
use sim_memory::mapping::Mapping;

use super::Context;
use crate::touched::{Touched, Warming};

impl Context {
    /// The last `launches` functional launches before a timed run leave what they accessed in L2, as if L1 and L2 had
    /// seen their accesses one after another. Without them a timed run behind functional launches begins with an empty
    /// L2, copies from the host aside.
    pub fn warm(&mut self, launches: usize) {
        let launches = launches.max(usize::from(self.options.sampling.is_some()));
        self.warming = (launches > 0).then(|| Warming { launches, runs: VecDeque::new() });
    }

    /// Room for what a functional run accesses, where it matters.
    pub(super) fn touched(&self) -> Option<Box<Touched>> {
        let lines = self.chip.limits.level2_cache_size / u64::from(LINE_BYTES);
        let launches = self.warming.as_ref()?.launches;
        Some(Box::new(Touched::new((lines as usize).max(1), launches)))
    }

    /// A functional run is over.
    pub(super) fn warm_by(&mut self, touched: Touched) {
        let copies = self.copies.len();
        let Some(warming) = &mut self.warming else { return };
        warming.runs.push_back((copies, touched));
        let mut launches = 0;
        let counted = |(_, touched): &(usize, Touched)| touched.launches();
        let enough = warming.runs.iter().rev().take_while(|run| {
            let before = launches;
            launches += counted(run);
            before < warming.launches
        });
        let enough = enough.count();
        warming.runs.drain(..warming.runs.len() - enough);
    }

    /// Lines that were accessed are in L2.
    pub(super) fn leave(&self, touched: &Touched, mapping: &Mapping, slices: &mut [Cache]) {
        for line in touched.last() {
            let (partition, local) = mapping.place(line);
            let slice = &mut slices[partition as usize];
            let mut data = [0; LINE_BYTES as usize];
            self.memory.read_line(line, u128::MAX, &mut data);
            slice.fill(slice.set_of(line_number(local)), line, &data);
        }
    }

    /// Memory has other contents than the last run left there: L2 has none of these bytes.
    pub(super) fn forget_lines(&mut self, address: u64, bytes: u64) {
        if self.slices.is_empty() {
            return;
        }
        let mapping = Mapping::new(&self.chip.memory);
        for line in (line_of(address)..address + bytes).step_by(LINE_BYTES as usize) {
            let (partition, local) = mapping.place(line);
            let slice = &mut self.slices[partition as usize];
            slice.forget(slice.set_of(line_number(local)), line);
        }
    }

    /// The lines that L2 holds as the next timed run finds it, those of each set from the least to the most recently
    /// used.
    pub fn l2(&mut self) -> Vec<CachedLine> {
        let chip = Arc::clone(&self.chip);
        self.slices = self.slices_after_copies(&chip.memory);
        self.slices.iter().flat_map(Cache::lines).collect()
    }

    /// L2 holds these lines, as [`l2`](Self::l2) gave them, and no others; their bytes are those of memory.
    pub fn set_l2(&mut self, lines: &[CachedLine]) {
        let spec = &self.chip.memory;
        let mapping = Mapping::new(spec);
        let mut slices: Vec<Cache> = (0..spec.partitions).map(|_| Cache::new(&spec.l2)).collect();
        for cached in lines {
            let (partition, local) = mapping.place(cached.line);
            let slice = &mut slices[partition as usize];
            let mut data = [0; LINE_BYTES as usize];
            self.memory.read_line(cached.line, u128::MAX, &mut data);
            slice.restore(slice.set_of(line_number(local)), *cached, &data);
        }
        self.copies.clear();
        self.slices = slices;
    }
}
