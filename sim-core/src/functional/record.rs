//! Tells what threads do at barriers and in shared memory: one instruction at a time, before it is executed, so that
//! runs that are not recorded execute nothing more.

use std::sync::Arc;

use sim_frontend::form::{BulkWay, MbarrierStep};
use sim_frontend::program::{Extra, MbarrierOp, Op, OpClass, Row};
use sim_memory::address_space::{SHARED_WINDOW, WINDOW_BYTES};
use sim_memory::vocabulary::{AtomicOp, LaneMask, Semantics, StateSpace, WARP_LANES};

use crate::execute::{Members, addressing_lanes};
use crate::execute::{Resident, addresses, shared_addresses, sync_mask};
use crate::grid::Kernel;
use crate::mbarrier::{is_odd, perform};
use crate::reconvergence::{Lanes, Reconvergence, SplitId};
use crate::recording::{AccessKind, Orders, Record, Recorded, Who};
use crate::registers::{guard, read_element, read_row};

/// A block has ended; `first` is its first warp.
pub(super) fn ended(record: Option<&Record>, first: Option<&usize>) {
    if let (Some(record), Some(&warp)) = (record, first) {
        record.0(Recorded::Ended { warp: warp as u32 });
    }
}

/// A block begins in the place `slot`.
pub(super) fn block<P: Reconvergence>(
    record: &Record,
    resident: &Resident<P>,
    slot: usize,
    kernel: &Arc<Kernel>,
    number: u64,
) {
    let Some(block) = &resident.blocks[slot] else { return };
    let warps: Vec<(u32, LaneMask)> =
        block.warps.iter().map(|&w| (w as u32, resident.warps[w].threads)).collect();
    record.0(Recorded::Block { kernel, number, warps: &warps });
    if let (true, Some(&(warp, lanes))) = (kernel.cluster_size() > 1, warps.first()) {
        // What blocks of a cluster do to each other is not followed.
        let who = Who { warp, pc: kernel.code.program.entry_pc, lanes };
        record.0(Recorded::Other { who, what: "a kernel in clusters of several blocks" });
    }
}

/// The next instruction of a split.
pub(super) fn step<P: Reconvergence>(record: &Record, resident: &Resident<P>, split: SplitId) {
    Recorder { record, resident }.step(split);
}

struct Recorder<'r, P> {
    record: &'r Record,
    resident: &'r Resident<P>,
}

impl<P: Reconvergence> Recorder<'_, P> {
    fn step(&self, split: SplitId) {
        let record = self.record;
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
        let relaxed = || {
            let form = code.program.forms.get(usize::from(op.form));
            form.is_some_and(|form| form.mods.semantics == Semantics::Relaxed)
        };
        match op.class {
            OpClass::Load | OpClass::Store | OpClass::Atomic => self.record_access(record, op, who),
            OpClass::Copy => self.record_copy(record, op, who),
            OpClass::Membar => {
                if let Extra::Membar(_, semantics) = op.extra {
                    record.0(Recorded::Fence { who, orders: Orders::of(semantics) });
                }
            }
            OpClass::Mbarrier => {
                if let Extra::Mbarrier(facts) = &op.extra {
                    self.record_object(record, op, facts, who, relaxed());
                }
            }
            OpClass::Barrier => match op.extra {
                Extra::Barrier { kind, .. } => {
                    self.by_value([op.src[0], op.src[1]], who, |index, count, who| {
                        let index = index.unwrap_or(op.imm as u32);
                        record.0(Recorded::Barrier { who, kind, index, count });
                    });
                }
                Extra::ClusterBarrier { wait, .. } => {
                    record.0(Recorded::Cluster { who, wait, relaxed: relaxed() });
                }
                _ => record.0(Recorded::Other { who, what: "a barrier of an unknown kind" }),
            },
            _ => {
                let row = match sync_mask(op) {
                    None => return,
                    Some(Members::Row(row)) => row,
                    Some(Members::All) => return self.record_tiles(record, op, who),
                };
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

    /// An instruction on matrices: a meeting of the whole warp, and the rows that it reads or writes.
    fn record_tiles(&self, record: &Record, op: &Op, who: Who) {
        record.0(Recorded::Meet { who, mask: LaneMask::MAX, orders_memory: false });
        if let Extra::Tiles { count, .. } = op.extra {
            self.record_access(record, op, Who { lanes: who.lanes & addressing_lanes(count), ..who });
        }
    }

    fn record_access(&self, record: &Record, op: &Op, who: Who) {
        let Some(facts) = op.extra.access() else { return };
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
            OpClass::Load | OpClass::LoadMatrix => AccessKind::Read,
            OpClass::Store | OpClass::StoreMatrix => AccessKind::Write,
            _ => AccessKind::Atomic,
        };
        let orders = match kind {
            AccessKind::Atomic => Orders {
                reads: op.dst[0].is_some(),
                writes: facts.atomic.is_some_and(|(operation, _)| operation != AtomicOp::Cas),
                ..Orders::of(facts.semantics)
            },
            AccessKind::Read | AccessKind::Write => Orders::default(),
        };
        record.0(Recorded::Access { who: Who { lanes, ..who }, kind, orders, bytes, addresses: &addresses });
    }
    /// What cannot be done is not told: it is a fault.
    fn record_object(&self, record: &Record, op: &Op, facts: &MbarrierOp, who: Who, relaxed: bool) {
        let (w, warp) = (who.warp as usize, &self.resident.warps[who.warp as usize]);
        let code = &*self.resident.kernels[warp.kernel].code;
        let Some(place) = facts.place else { return };
        let Ok(addresses) = self.resident.objects(code, w, op, place, who.lanes) else { return };
        let mut operands = [1; WARP_LANES];
        let mut passes = 0;
        for lane in Lanes(who.lanes) {
            let l = lane as usize;
            if op.src[1].is_some() {
                operands[l] =
                    read_element(&warp.rows, &code.consts, op.src[1], lane, facts.operand_bits.into());
            }
            if matches!(facts.step, MbarrierStep::TestWait | MbarrierStep::TryWait) {
                let word = self.resident.object(w, addresses[l]);
                let passed = perform(facts.step, facts.options, word, operands[l]);
                passes |= u32::from(passed.is_ok_and(|(_, passed)| passed != 0)) << lane;
                operands[l] = if facts.options.parity { operands[l] & 1 } else { is_odd(operands[l]).into() };
            }
        }
        record.0(Recorded::Object {
            who,
            step: facts.step,
            options: facts.options,
            relaxed,
            addresses: &addresses,
            operands: &operands,
            passes,
        });
    }

    fn record_copy(&self, record: &Record, op: &Op, who: Who) {
        let (w, warp) = (who.warp as usize, &self.resident.warps[who.warp as usize]);
        let code = &*self.resident.kernels[warp.kernel].code;
        let shared = |row, place, bytes| {
            let mut addresses = shared_addresses(warp, code, row, place);
            let there = self.resident.to_shared(w, StateSpace::Shared, bytes, who.lanes, &mut addresses);
            there.is_ok().then_some(addresses)
        };
        match &op.extra {
            Extra::Copy(facts) => {
                let bytes = u32::from(facts.memory.element_bytes);
                let Some(addresses) = shared(op.src[1], facts.to, bytes.into()) else { return };
                record.0(Recorded::Copy { who, bytes, addresses: &addresses });
            }
            Extra::CopyCommit => record.0(Recorded::Commit { who }),
            Extra::CopyWait(newest) => record.0(Recorded::Await { who, newest: *newest }),
            Extra::CopyArrive(place, no_inc) => {
                let Ok(addresses) = self.resident.objects(code, w, op, *place, who.lanes) else { return };
                record.0(Recorded::CopiesArrive { who, no_inc: *no_inc, addresses: &addresses });
            }
            Extra::Bulk(facts) if facts.way != BulkWay::Load || op.src[4].is_some() => {
                record.0(Recorded::Other { who, what: "a bulk copy that is no load into the own block" });
            }
            Extra::StoreAsync(_) => record.0(Recorded::Other { who, what: "an asynchronous store" }),
            Extra::BulkCommit | Extra::BulkWait(..) => {
                record.0(Recorded::Other { who, what: "groups of bulk copies" });
            }
            Extra::Bulk(facts) => {
                let (to, object) = (shared(op.src[1], facts.to, 1), shared(op.src[3], facts.object, 8));
                let (Some(addresses), Some(objects)) = (to, object) else { return };
                let bytes = read_row(&warp.rows, &code.consts, op.src[2]);
                let lanes = Lanes(who.lanes).filter(|&lane| bytes[lane as usize] != 0);
                let who = Who { lanes: lanes.fold(0, |mask, lane| mask | 1 << lane), ..who };
                record.0(Recorded::Bulk { who, bytes, addresses: &addresses, objects: &objects });
            }
            _ => record.0(Recorded::Other { who, what: "a copy of an unknown kind" }),
        }
    }
}
