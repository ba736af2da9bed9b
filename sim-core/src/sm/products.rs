//! When products of warpgroups are complete: what they take of tensor cores and shared memory.

use sim_frontend::isa::UnitClass;
use sim_frontend::program::{Extra, Row};
use sim_frontend::wgmma::WARPGROUP;
use sim_memory::vocabulary::Cycle;

use super::Sm;
use crate::products::GroupReads;
use crate::reconvergence::Reconvergence;

impl<P: Reconvergence> Sm<P> {
    /// A warp's part of a product: the tensor core of its scheduler takes it after those before it, and shared memory
    /// is read for it meanwhile.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_product(&mut self, scheduler: usize, w: usize, pc: u32, shared: u32, now: Cycle) {
        let warp = &mut self.resident.warps[w];
        let code = &self.resident.kernels[warp.kernel].code;
        let decoded = &code.decoded[pc as usize];
        let Extra::Wgmma(wgmma) = &code.program.ops[pc as usize].extra else { return };
        let d = code.program.wgmma_rows(wgmma)[1].first().copied().unwrap_or(Row::NONE);
        let (latency, interval) = (Cycle::from(decoded.latency), decoded.initiation);
        let tensor = UnitClass::Tensor as usize;
        let products = warp.products_mut();
        let start = now.max(self.units.free(scheduler)[tensor]).max(products.earliest(d, latency));
        self.units.occupy(tensor, scheduler, start, interval.into());
        let (number, group) = (products.begun(), (warp.index / WARPGROUP) as usize);
        let Some(block) = self.resident.blocks.get_mut(warp.block).and_then(Option::as_mut) else { return };
        if block.product_reads.len() <= group {
            block.product_reads.resize_with(group + 1, GroupReads::default);
        }
        let read = block.product_reads[group].of(number, || {
            // Other accesses to shared memory go first.
            let turns = self.stats.shared_accesses + self.stats.bank_conflict_cycles;
            let (free, before) = self.product_reads;
            let read = now.max(free + (turns - before)) + Cycle::from(shared);
            self.product_reads = (read, turns);
            read
        });
        let computed = start + latency.max(interval.into());
        warp.products_mut().begin(d, start, computed.max(read));
    }
}
