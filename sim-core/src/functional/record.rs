//! Tells what threads do at barriers and in shared memory: one instruction at a time, before it is executed, so that
//! runs that are not recorded execute nothing more.

use std::sync::Arc;

use sim_frontend::form::{BulkWay, MbarrierStep, TensorMode};
use sim_frontend::program::{BulkBytes, Extra, MbarrierOp, Op, OpClass, Row};
use sim_memory::address_space::{CLUSTER_SHIFT, SHARED_WINDOW, WINDOW_BYTES, of_cluster};
use sim_memory::vocabulary::{AtomicOp, LaneMask, Semantics, StateSpace, WARP_LANES};

use crate::execute::{Members, addressing_lanes};
use crate::execute::{Resident, addresses, shared_addresses, sync_mask};
use crate::grid::Kernel;
use crate::instruction_set::InstructionSet;
use crate::mbarrier::{is_odd, perform};
use crate::reconvergence::{Lanes, Reconvergence, SplitId};
use crate::recording::{AccessKind, Groups, Orders, Record, Recorded, Who};
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
        if op.class == OpClass::Wgmma {
            self.record_products(record, op, who);
        }
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
        let addresses =
            addresses(InstructionSet::Baseline, warp, &kernel.code, op, facts.address_64, who.lanes);
        let addresses = addresses.map(|address| address.wrapping_sub(base));
        let bytes = u32::from(facts.element_bytes) * u32::from(facts.vector);
        // What lies outside the memory of blocks is a fault, or another space.
        let most = if base == 0 { u64::from(kernel.shared_bytes) } else { WINDOW_BYTES };
        let several = kernel.cluster_size() > 1;
        let places = match several {
            true => self.in_cluster(who.warp, &addresses, bytes.into()),
            false => addresses.map(|at| (at.saturating_add(bytes.into()) <= most).then_some(at)),
        };
        let inside = |lane: &u32| places[*lane as usize].is_some();
        let lanes = Lanes(who.lanes).filter(inside).fold(0, |mask, lane| mask | 1 << lane);
        if lanes == 0 {
            return;
        }
        let addresses = places.map(Option::unwrap_or_default);
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

    /// Where shared addresses lie in the cluster of a warp's block; `None`: in no block of it.
    fn in_cluster(&self, warp: u32, addresses: &[u64; WARP_LANES], bytes: u64) -> [Option<u64>; WARP_LANES] {
        let kernel = &*self.resident.kernels[self.resident.warps[warp as usize].kernel];
        let (own, _) = self.resident.own_rank(warp as usize);
        addresses.map(|at| {
            let (rank, offset) = of_cluster(at);
            let rank = rank.unwrap_or(own.into());
            let inside = at < WINDOW_BYTES && offset.saturating_add(bytes) <= kernel.shared_bytes.into();
            (inside && rank < kernel.cluster_size().into()).then_some(rank << CLUSTER_SHIFT | offset)
        })
    }

    /// The same where all of `lanes` must name such places: else what they do is a fault.
    fn placed(
        &self,
        who: Who,
        space: StateSpace,
        bytes: u64,
        mut addresses: [u64; WARP_LANES],
    ) -> Option<[u64; WARP_LANES]> {
        let (w, lanes) = (who.warp as usize, who.lanes);
        let kernel = &*self.resident.kernels[self.resident.warps[w].kernel];
        if kernel.cluster_size() == 1 {
            // By its own rank a block may name itself.
            if space != StateSpace::Generic {
                addresses =
                    addresses.map(|at| if of_cluster(at).0 == Some(0) { of_cluster(at).1 } else { at });
            }
            return self
                .resident
                .to_shared(w, space, bytes, lanes, &mut addresses)
                .is_ok()
                .then_some(addresses);
        }
        self.resident.without_window(space, lanes, &mut addresses).ok()?;
        let places = self.in_cluster(who.warp, &addresses, bytes);
        let all = Lanes(lanes).all(|lane| places[lane as usize].is_some());
        all.then(|| places.map(Option::unwrap_or_default))
    }

    /// What cannot be done is not told: it is a fault.
    fn record_object(&self, record: &Record, op: &Op, facts: &MbarrierOp, who: Who, relaxed: bool) {
        let (w, warp) = (who.warp as usize, &self.resident.warps[who.warp as usize]);
        let code = &*self.resident.kernels[warp.kernel].code;
        let Some(place) = facts.place else { return };
        let found = addresses(InstructionSet::Baseline, warp, code, op, place.address_64, who.lanes);
        let Some(addresses) = self.placed(who, place.space, 8, found) else { return };
        let offset = |l: usize| addresses[l] & ((1 << CLUSTER_SHIFT) - 1);
        let mut operands = [1; WARP_LANES];
        let mut passes = 0;
        for lane in Lanes(who.lanes) {
            let l = lane as usize;
            if op.src[1].is_some() {
                operands[l] =
                    read_element(&warp.rows, &code.consts, op.src[1], lane, facts.operand_bits.into());
            }
            if matches!(facts.step, MbarrierStep::TestWait | MbarrierStep::TryWait) {
                // Only threads of its own block may wait at it.
                let word = self.resident.object(w, offset(l));
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
        let warp = &self.resident.warps[who.warp as usize];
        let kernel = &*self.resident.kernels[warp.kernel];
        let code = &*kernel.code;
        let shared = |row, place, bytes| {
            self.placed(who, StateSpace::Shared, bytes, shared_addresses(warp, code, row, place))
        };
        match &op.extra {
            Extra::Copy(facts) => {
                let bytes = u32::from(facts.memory.element_bytes);
                let Some(addresses) = shared(op.src[1], facts.to, bytes.into()) else { return };
                record.0(Recorded::Copy {
                    who,
                    groups: Groups::Copies,
                    more: false,
                    bytes,
                    addresses: &addresses,
                });
            }
            Extra::CopyCommit => record.0(Recorded::Commit { who, groups: Groups::Copies }),
            Extra::CopyWait(newest) => {
                record.0(Recorded::Await { who, groups: Groups::Copies, newest: *newest });
            }
            Extra::CopyArrive(place, no_inc) => {
                let found = addresses(InstructionSet::Baseline, warp, code, op, place.address_64, who.lanes);
                let Some(addresses) = self.placed(who, place.space, 8, found) else { return };
                record.0(Recorded::CopiesArrive { who, no_inc: *no_inc, addresses: &addresses });
            }
            Extra::Bulk(facts) if facts.way == BulkWay::Prefetch => {}
            Extra::Tensor(facts) if facts.way == BulkWay::Prefetch => {}
            Extra::Bulk(facts) if facts.way == BulkWay::Between => {
                record.0(Recorded::Other { who, what: "a bulk copy between blocks" });
            }
            // What its thread does next depends on what the scheduler has left.
            Extra::Bulk(facts) if matches!(facts.way, BulkWay::Cancel { .. }) => {
                record.0(Recorded::Other { who, what: "a request to cancel a launch" });
            }
            Extra::Bulk(facts) if facts.way == BulkWay::Store => {
                let Some(from) = shared(op.src[1], facts.to, 1) else { return };
                self.stores(record, who, read_row(&warp.rows, &code.consts, op.src[2]), &from);
            }
            Extra::Tensor(facts) if facts.way == BulkWay::Store => {
                let Some(from) = shared(op.src[1], facts.to, 1) else { return };
                self.stores(record, who, &self.box_bytes(op, who), &from);
            }
            Extra::StoreAsync(facts) if facts.memory.atomic.is_some() => {
                record.0(Recorded::Other { who, what: "an asynchronous reduction" });
            }
            Extra::StoreAsync(facts) => {
                let bytes = u32::from(facts.memory.element_bytes) * u32::from(facts.memory.vector);
                let found =
                    addresses(InstructionSet::Baseline, warp, code, op, facts.memory.address_64, who.lanes);
                let to = self.placed(who, facts.memory.space, bytes.into(), found);
                let Some(addresses) = to else { return };
                let objects = shared_addresses(warp, code, op.src[4], facts.object);
                let Some(objects) = self.placed(who, facts.memory.space, 8, objects) else { return };
                record.0(Recorded::Bulk {
                    who,
                    bytes: &[bytes; WARP_LANES],
                    addresses: &addresses,
                    objects: &objects,
                });
            }
            Extra::BulkCommit => record.0(Recorded::Commit { who, groups: Groups::Stores }),
            Extra::BulkWait(newest, _) => {
                record.0(Recorded::Await { who, groups: Groups::Stores, newest: Some(*newest) });
            }
            Extra::Bulk(facts) => {
                let (to, object) = (shared(op.src[1], facts.to, 1), shared(op.src[3], facts.object, 8));
                let (Some(addresses), Some(objects)) = (to, object) else { return };
                let bytes = read_row(&warp.rows, &code.consts, op.src[2]);
                let lanes = Lanes(who.lanes).filter(|&lane| bytes[lane as usize] != 0);
                let who = Who { lanes: lanes.fold(0, |mask, lane| mask | 1 << lane), ..who };
                // Here another operand is no mask of ranks.
                if facts.bytes == BulkBytes::MayBeBeyond {
                    let (addresses, objects) = (&addresses, &objects);
                    return record.0(Recorded::Bulk { who, bytes, addresses, objects });
                }
                self.to_ranks(record, op, who, bytes, (&addresses, &objects), false);
            }
            Extra::Tensor(facts) => {
                let (to, object) = (shared(op.src[1], facts.to, 1), shared(op.src[3], facts.object, 8));
                let (Some(places), Some(objects)) = (to, object) else { return };
                let bytes = self.box_bytes(op, who);
                self.to_ranks(record, op, who, &bytes, (&places, &objects), facts.pair);
            }
            _ => record.0(Recorded::Other { who, what: "a copy of an unknown kind" }),
        }
    }

    /// Bytes of the boxes that lanes copy.
    fn box_bytes(&self, op: &Op, who: Who) -> [u32; WARP_LANES] {
        let warp = &self.resident.warps[who.warp as usize];
        let kernel = &*self.resident.kernels[warp.kernel];
        let maps = addresses(InstructionSet::Baseline, warp, &kernel.code, op, true, who.lanes);
        let mut bytes = [0; WARP_LANES];
        for lane in Lanes(who.lanes) {
            let map = self.resident.tensor_map(kernel, maps[lane as usize]);
            let Extra::Tensor(facts) = &op.extra else { continue };
            // Behind the coordinates there is the halo, where there is one.
            let halo =
                warp.staged.as_ref().map_or(0, |all| all[usize::from(facts.rank)][lane as usize] as u16);
            let four = facts.mode == TensorMode::Four;
            bytes[lane as usize] = map.map_or(0, |map| map.copied_bytes(four, &[halo]) as u32);
        }
        bytes
    }

    /// Bulk copies of lanes from shared memory.
    fn stores(&self, record: &Record, who: Who, bytes: &[u32; WARP_LANES], addresses: &[u64; WARP_LANES]) {
        for lane in Lanes(who.lanes).filter(|lane| bytes[*lane as usize] != 0) {
            let who = Who { lanes: 1 << lane, ..who };
            let (groups, bytes) = (Groups::Stores, bytes[lane as usize]);
            record.0(Recorded::Copy { who, groups, more: false, bytes, addresses });
        }
    }

    /// An instruction of a warpgroup, behind the meeting of the warp.
    fn record_products(&self, record: &Record, op: &Op, who: Who) {
        match &op.extra {
            Extra::Wgmma(wgmma) => {
                let w = who.warp as usize;
                let code = &*self.resident.kernels[self.resident.warps[w].kernel].code;
                let Ok(ranges) = self.resident.product_reads(w, code, op, wgmma) else { return };
                let (own, _) = self.resident.own_rank(w);
                let base = match self.resident.kernels[self.resident.warps[w].kernel].cluster_size() {
                    1 => 0,
                    _ => u64::from(own) << CLUSTER_SHIFT,
                };
                let mut rest = &ranges[..];
                while let Some(&(_, bytes)) = rest.first() {
                    // As many as have the same size; lanes without one repeat the last.
                    let alike = rest.iter().take(WARP_LANES).take_while(|range| range.1 == bytes).count();
                    let addresses = std::array::from_fn(|lane| base + rest[lane.min(alike - 1)].0);
                    let groups = Groups::Products;
                    rest = &rest[alike..];
                    let more = !rest.is_empty();
                    record.0(Recorded::Copy { who, groups, more, bytes, addresses: &addresses });
                }
                record.0(Recorded::Product { who });
            }
            Extra::WgmmaCommit => record.0(Recorded::Commit { who, groups: Groups::Products }),
            Extra::WgmmaWait(newest) => {
                let newest = Some(u8::try_from(*newest).unwrap_or(u8::MAX));
                record.0(Recorded::Await { who, groups: Groups::Products, newest });
            }
            _ => {}
        }
    }

    /// A bulk copy to the blocks of each lane's mask, or to where its address says. Of a pair of blocks that one counts
    /// whose rank has the last bit of the object's.
    fn to_ranks(
        &self,
        record: &Record,
        op: &Op,
        who: Who,
        bytes: &[u32; WARP_LANES],
        (addresses, objects): (&[u64; WARP_LANES], &[u64; WARP_LANES]),
        pair: bool,
    ) {
        if !op.src[4].is_some() {
            return record.0(Recorded::Bulk { who, bytes, addresses, objects });
        }
        let warp = &self.resident.warps[who.warp as usize];
        let kernel = &*self.resident.kernels[warp.kernel];
        let mask = |lane| read_element(&warp.rows, &kernel.code.consts, op.src[4], lane, 16) as u32;
        for rank in 0..kernel.cluster_size() {
            let lanes = Lanes(who.lanes).filter(|lane| mask(*lane) >> rank & 1 == 1);
            let lanes = lanes.fold(0, |lanes, lane| lanes | 1 << lane);
            let rank = u64::from(rank);
            let there = |rank: u64, at: &u64| rank << CLUSTER_SHIFT | at & ((1 << CLUSTER_SHIFT) - 1);
            let counting = |at: &u64| if pair { rank & !1 | at >> CLUSTER_SHIFT & 1 } else { rank };
            if lanes != 0 {
                record.0(Recorded::Bulk {
                    who: Who { lanes, ..who },
                    bytes,
                    addresses: &addresses.each_ref().map(|at| there(rank, at)),
                    objects: &objects.each_ref().map(|at| there(counting(at), at)),
                });
            }
        }
    }
}
