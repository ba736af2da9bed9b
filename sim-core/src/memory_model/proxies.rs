//! Proxies: what threads store to shared memory, bulk copies and products of warpgroups read through another proxy (PTX ISA
//! "Proxies", "Async proxy"). Beside the order of both a fence between the proxies is needed.
//!
//! Any such fence that a thread of the cluster has executed since counts for all bytes stored before it: it may stand for
//! more than it orders, so what is found is wrong, and not all is found. What `cp.async` copies is not followed.

use sim_frontend::program::Extra;
use sim_memory::access::AccessKind;
use sim_memory::line::{ByteMask, LINE_BYTES};
use sim_memory::vocabulary::{Cycle, Scope, Semantics, WARP_LANES};

use super::Checker;
use super::lines::Transfer;
use super::on_chip::Access;
use super::stored::Stored;
use crate::sanitizer::findings::Kind;

impl Checker {
    /// A line of the shared memory of a block is accessed, by threads or by an asynchronous operation.
    pub(super) fn by_proxy(&mut self, transfer: &Transfer, block: u32) {
        let of = &mut self.blocks[block as usize];
        if !self.proxies.get(of.kernel).copied().unwrap_or_default() {
            return;
        }
        let (fences, at) = (self.clusters[of.cluster as usize].proxy_fences, transfer.address(0) as u32);
        let op = self.kernels.get(of.kernel).and_then(|k| k.code.program.ops.get(transfer.pc as usize));
        let copied = op.is_some_and(|op| matches!(op.extra, Extra::Copy(_)));
        match (transfer.kind, transfer.copies.is_some() || copied) {
            (AccessKind::Load, false) => {}
            (AccessKind::Load, true) => self.reads_line(transfer, block, (at, transfer.bytes)),
            (_, false) => {
                let new = || Stored { fences, bytes: 0, last: transfer.clone() };
                let line = of.stored.entry(at).or_insert_with(new);
                line.bytes = transfer.bytes | if line.fences == fences { line.bytes } else { 0 };
                line.fences = fences;
                line.last.set(transfer);
            }
            (_, true) => {
                if let Some(line) = of.stored.get_mut(&at) {
                    line.bytes &= !transfer.bytes;
                }
            }
        }
    }

    /// A warp's part of a product reads shared memory of its block.
    pub(super) fn product_reads(&mut self, sm: u32, at: Cycle, origin: (u32, u32), ranges: &[(u32, u32)]) {
        let Some(warp) = self.warps.get_mut(sm, origin.0) else { return };
        let number = warp.block;
        let of = &self.blocks[number as usize];
        if of.stored.is_empty() || !self.proxies.get(of.kernel).copied().unwrap_or_default() {
            return;
        }
        let access = Access {
            origin,
            kind: AccessKind::Load,
            semantics: Semantics::Weak,
            scope: Scope::Cta,
            warp: warp.snapshot(of.phase),
            size: 16,
            copies: None,
            addresses: &[0; WARP_LANES],
        };
        let mut transfer = self.transfer(sm, at, &access, 1);
        let base = self.shared_base(number);
        for &(first, bytes) in ranges {
            let mut from = first;
            while from < first + bytes {
                let end = ((from / LINE_BYTES + 1) * LINE_BYTES).min(first + bytes);
                let low = ByteMask::MAX >> (LINE_BYTES - (end - from));
                let line = from / LINE_BYTES * LINE_BYTES;
                transfer.line = base | u64::from(line);
                self.reads_line(&transfer, number, (line, low << (from % LINE_BYTES)));
                from = end;
            }
        }
    }

    /// An asynchronous operation reads bytes of a line.
    fn reads_line(&mut self, transfer: &Transfer, block: u32, (at, bytes): (u32, ByteMask)) {
        let of = &self.blocks[block as usize];
        let fences = self.clusters[of.cluster as usize].proxy_fences;
        let Some(line) = of.stored.get(&at).filter(|line| line.fences == fences) else { return };
        let wrong = line.bytes & bytes;
        if wrong == 0 {
            return;
        }
        let Some(sanitizer) = &mut self.sanitizer else { return };
        let byte = wrong.trailing_zeros() as usize;
        // The last store to the line may be of other bytes.
        let sides = [(transfer, 0), (&line.last, line.last.writer(byte))];
        let address = u64::from(at) + byte as u64;
        sanitizer.found_pair(Kind::ProxyNotFenced, sides, address, &self.kernels);
    }
}
