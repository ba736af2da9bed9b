//! Tells what threads do at barriers and in shared memory: one instruction at a time, before it is executed, so that
//! runs that are not recorded execute nothing more.

use std::sync::Arc;

use sim_frontend::program::{Extra, Op, OpClass, Row};
use sim_memory::address_space::{SHARED_WINDOW, WINDOW_BYTES};
use sim_memory::vocabulary::{LaneMask, StateSpace};

use super::{Functional, Halt, TURN, WATCHED_TURN};
use crate::execute::{addresses, sync_mask};
use crate::grid::Kernel;
use crate::reconvergence::{Lanes, Reconvergence, SplitId};
use crate::recording::{AccessKind, Record, Recorded, Who};
use crate::registers::{guard, read_row};

/// A block has ended; `first` is its first warp.
pub(super) fn ended(record: Option<&Record>, first: Option<&usize>) {
    if let (Some(record), Some(&warp)) = (record, first) {
        record.0(Recorded::Ended { warp: warp as u32 });
    }
}

impl<P: Reconvergence> Functional<P> {
    /// Tells `record` what threads do.
    pub fn record(&mut self, record: Option<Record>) {
        self.record = record;
    }

    /// A block begins.
    pub(super) fn record_block(&self, slot: usize, kernel: &Arc<Kernel>, number: u64) {
        let (Some(record), Some(block)) = (&self.record, &self.resident.blocks[slot]) else { return };
        let warps: Vec<(u32, LaneMask)> =
            block.warps.iter().map(|&w| (w as u32, self.resident.warps[w].threads)).collect();
        record.0(Recorded::Block { kernel, number, warps: &warps });
    }

    /// [`turn`](Self::turn), instruction by instruction.
    pub(super) fn turn_recorded(&mut self, split: SplitId, grid: usize, left: u64) -> Result<bool, Halt> {
        let whole = if self.watch.is_some() { WATCHED_TURN } else { TURN };
        for _ in 0..left.min(whole) {
            self.record_step(split);
            if !self.turn_on_host(split, grid, 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next instruction of a split.
    fn record_step(&self, split: SplitId) {
        let Some(record) = &self.record else { return };
        let (w, pc, mask) = {
            let resident = &self.resident;
            (resident.warp_of(split), resident.policy.pc(split), resident.policy.mask(split))
        };
        let warp = &self.resident.warps[w];
        let code = &*self.resident.kernels[warp.kernel].code;
        let Some(op) = code.program.ops.get(pc as usize) else { return };
        let lanes = mask & guard(op.guard, &warp.preds);
        let who = Who { warp: w as u32, pc, lanes };
        if lanes == 0 {
            return;
        }
        let other = |what| record.0(Recorded::Other { who, what });
        match op.class {
            OpClass::Load | OpClass::Store | OpClass::Atomic => self.record_access(record, op, who),
            OpClass::Copy => other("cp.async"),
            OpClass::Mbarrier => other("mbarrier"),
            OpClass::Barrier => match op.extra {
                Extra::Barrier { kind, .. } => {
                    self.by_value([op.src[0], op.src[1]], who, |index, count, who| {
                        let index = index.unwrap_or(op.imm as u32);
                        record.0(Recorded::Barrier { who, kind, index, count });
                    });
                }
                _ => other("barrier.cluster"),
            },
            _ => {
                let Some(row) = sync_mask(op) else { return };
                let orders_memory = op.class == OpClass::WarpSync;
                self.by_value([row, Row::NONE], who, |mask, _, who| {
                    record.0(Recorded::Meet { who, mask: mask.unwrap_or(who.lanes), orders_memory });
                });
            }
        }
    }

    /// Lanes with the same values of `rows` together.
    fn by_value(&self, rows: [Row; 2], who: Who, mut tell: impl FnMut(Option<u32>, Option<u32>, Who)) {
        let warp = &self.resident.warps[who.warp as usize];
        let code = &*self.resident.kernels[warp.kernel].code;
        let value = |row: Row, lane: u32| {
            row.is_some().then(|| read_row(&warp.rows, &code.consts, row)[lane as usize])
        };
        let mut left = who.lanes;
        while left != 0 {
            let of = |lane: u32| (value(rows[0], lane), value(rows[1], lane));
            let first = of(left.trailing_zeros());
            let same = Lanes(left).filter(|&lane| of(lane) == first).fold(0, |mask, lane| mask | 1 << lane);
            tell(first.0, first.1, Who { lanes: same, ..who });
            left &= !same;
        }
    }

    fn record_access(&self, record: &Record, op: &Op, who: Who) {
        let Extra::Memory(facts) = &op.extra else { return };
        let warp = &self.resident.warps[who.warp as usize];
        let kernel = &*self.resident.kernels[warp.kernel];
        let base = match facts.space {
            StateSpace::Shared => 0,
            StateSpace::Generic => SHARED_WINDOW,
            _ => return,
        };
        let addresses = addresses(warp, &kernel.code, op, facts.address_64, who.lanes);
        let addresses = addresses.map(|address| address.wrapping_sub(base));
        let bytes = u32::from(facts.element_bytes) * u32::from(facts.vector);
        // What lies outside a block's memory is a fault, or another space.
        let most = if base == 0 { u64::from(kernel.shared_bytes) } else { WINDOW_BYTES };
        let inside = |lane: &u32| addresses[*lane as usize].saturating_add(bytes.into()) <= most;
        let lanes = Lanes(who.lanes).filter(inside).fold(0, |mask, lane| mask | 1 << lane);
        if lanes == 0 {
            return;
        }
        let kind = match op.class {
            OpClass::Load => AccessKind::Read,
            OpClass::Store => AccessKind::Write,
            _ => AccessKind::Atomic,
        };
        record.0(Recorded::Access { who: Who { lanes, ..who }, kind, bytes, addresses: &addresses });
    }
}
