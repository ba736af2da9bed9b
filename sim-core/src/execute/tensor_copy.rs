//! `cp.async.bulk.tensor`: boxes of tensors in tiled and im2col mode, as jobs of the unit that makes bulk copies.

use sim_frontend::form::BulkWay;
use sim_frontend::program::{Op, OpClass, Pc, TensorOp};
use sim_memory::address_space::{CLUSTER_SHIFT, CONST_BASE, resolve};
use sim_memory::vocabulary::{AtomicOp, LaneMask, ScalarType, StateSpace, WARP_LANES};

use super::access::addresses;
use super::asynchronous::shared_addresses;
use super::observe_cluster::Followed;
use super::on_chip::outside;
use super::resident::Resident;
use crate::error::Violation;
use crate::grid::Kernel;
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::read_element;
use crate::tensor_map::{ALIGN, BYTES, TensorMap};

/// Rule of what is wrong with copies of tensors.
const RULE: &str = "tensor-copy";

impl<P: Reconvergence> Resident<P> {
    pub(super) fn begin_tensor(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &TensorOp,
        exec: LaneMask,
    ) -> Result<(), Violation> {
        let (code, warp) = (&*kernel.code, &self.warps[w]);
        let maps = addresses(warp, code, op, true, exec);
        let shared = shared_addresses(warp, code, op.src[1], facts.to);
        let objects = shared_addresses(warp, code, op.src[3], facts.object);
        for lane in Lanes(exec) {
            let l = lane as usize;
            let wrong = |reason: String| Violation::new(RULE, 1 << lane, reason);
            let map = self.tensor_map(kernel, maps[l]).map_err(wrong)?;
            if map.sizes.len() != usize::from(facts.rank) {
                let reason =
                    format!("the tensor has {} dimensions, the instruction {}", map.sizes.len(), facts.rank);
                return Err(Violation::new(RULE, 1 << lane, reason));
            }
            if map.im2col.is_some() != facts.im2col {
                let words = |im2col| if im2col { "im2col" } else { "tiled" };
                let reason = format!(
                    "the tensor map is of {} mode, the instruction of {} mode",
                    words(map.im2col.is_some()),
                    words(facts.im2col)
                );
                return Err(Violation::new(RULE, 1 << lane, reason));
            }
            if map.interleave != 0 {
                let reason = "copies of interleaved tensors are not executed (DEVIATIONS.md)".to_string();
                return Err(Violation::new("unsupported", 1 << lane, reason));
            }
            let bytes = map.box_bytes();
            if bytes > 1 << CLUSTER_SHIFT {
                let reason = format!("a box has {bytes} bytes, more than the shared memory of a block");
                return Err(Violation::new(RULE, 1 << lane, reason));
            }
            let staged = self.warps[w].staged.as_deref();
            let rank = usize::from(facts.rank);
            let given = |slot: usize| staged.map_or(0, |all| all[slot][l]);
            let coordinates: Vec<i32> = (0..rank).map(|axis| given(axis) as i32).collect();
            // Stores have no offsets.
            let axes = if facts.im2col && facts.way != BulkWay::Store { rank - 2 } else { 0 };
            let offsets: Vec<u16> = (rank..rank + axes).map(|slot| given(slot) as u16).collect();
            if let Some(most) = map.largest_offset()
                && let Some(offset) = offsets.iter().find(|offset| **offset > most)
            {
                let reason = format!("an im2col offset of {rank} dimensions is 0 to {most}, not {offset}");
                return Err(Violation::new(RULE, 1 << lane, reason));
            }
            let (own, blocks) = self.own_rank(w);
            let (mut place, mut object, mut ranks) = (shared[l], 0, 1 << own);
            if facts.way == BulkWay::Load {
                (place, object, ranks) = self.target_of_bulk(w, lane, shared[l], objects[l], blocks)?;
                if op.src[4].is_some() {
                    let mask = read_element(&self.warps[w].rows, &code.consts, op.src[4], lane, 16);
                    ranks = self.ranks_of_mask(lane, mask as u32 & 0xffff, blocks)?;
                }
            }
            if facts.way != BulkWay::Prefetch {
                if !place.is_multiple_of(128) {
                    let reason = format!("the address {place:#x} in shared memory is no multiple of 128");
                    return Err(Violation::new(RULE, 1 << lane, reason));
                }
                let room = self.blocks[self.warps[w].block].as_ref().map_or(0, |b| b.shared.len() as u64);
                if place.checked_add(bytes).is_none_or(|end| end > room) {
                    return Err(outside(1 << lane, &[place; WARP_LANES], bytes, room));
                }
            }
            let ty = map.element();
            let atomic = match facts.memory.atomic {
                Some((operation, _)) => Some((operation, reducible(operation, ty).map_err(wrong)?)),
                None => None,
            };
            let mut boxes = map.pieces(&coordinates, &offsets, place as u32, atomic.is_some());
            if facts.way != BulkWay::Prefetch {
                let class = if facts.way == BulkWay::Load { OpClass::Load } else { OpClass::Store };
                for piece in &boxes.inside {
                    self.in_buffers(class, 1 << lane, &[piece.far; WARP_LANES], boxes.bytes.into())?;
                }
            } else {
                let allocations = &self.world.allocations;
                boxes.inside.retain(|piece| allocations.find(piece.far, 1).is_some());
            }
            boxes.inside.reverse();
            let beyond = if facts.way == BulkWay::Load { boxes.beyond } else { Vec::new() };
            if boxes.inside.is_empty() && beyond.is_empty() {
                continue;
            }
            let by = (w, lane, pc);
            let (to, bytes) = (place as u32, bytes as u32);
            match facts.way {
                BulkWay::Load => {
                    let object = object as u32;
                    self.observe_bulk(ranks, Followed { by, to, bytes, object, reduces: false });
                }
                BulkWay::Store => {
                    let each = boxes.bytes;
                    let stored: Vec<_> = boxes.inside.iter().map(|piece| (piece.far, each)).collect();
                    self.observe_bulk_read(by, (to, bytes), None, &stored);
                }
                BulkWay::Between | BulkWay::Prefetch => {}
            }
            self.push_job(kernel, by, facts.way, ranks, (object as u32, boxes.bytes), boxes.inside);
            if let Some(job) = self.jobs.last_mut() {
                (job.beyond, job.fill, job.atomic) = (beyond, map.fill(), atomic);
            }
        }
        Ok(())
    }

    /// The tensor map at a generic address: among the parameters, in constant or in global memory.
    pub(crate) fn tensor_map(&self, kernel: &Kernel, address: u64) -> Result<TensorMap, String> {
        let mut bytes = [0; BYTES];
        if !address.is_multiple_of(ALIGN) {
            return Err(format!("the address {address:#x} of a tensor map is no multiple of {ALIGN}"));
        }
        match resolve(address) {
            (StateSpace::Param, at) => {
                let at = at as usize;
                let found = kernel.params.get(at..at + BYTES);
                bytes.copy_from_slice(found.ok_or("the tensor map is beyond the kernel's parameters")?);
            }
            (space @ (StateSpace::Global | StateSpace::Const), at) => {
                let at = if space == StateSpace::Const { at + CONST_BASE } else { at };
                if self.world.allocations.find(at, BYTES as u64).is_none() {
                    return Err(format!("the tensor map at {address:#x} is not in any allocation"));
                }
                self.world.memory.read(at, &mut bytes);
            }
            _ => {
                return Err(format!(
                    "the tensor map at {address:#x} is neither a parameter nor in constant or global memory"
                ));
            }
        }
        TensorMap::decode(&bytes).map_err(|reason| format!("tensor map at {address:#x}: {reason}"))
    }
}

/// The type by which elements are reduced (PTX ISA "cp.reduce.async.bulk.tensor").
fn reducible(operation: AtomicOp, ty: ScalarType) -> Result<ScalarType, String> {
    use AtomicOp as A;
    use ScalarType as T;
    let found = match (operation, ty) {
        (A::And | A::Or | A::Xor, T::U32 | T::S32) => Some(T::B32),
        (A::And | A::Or | A::Xor, T::U64 | T::S64) => Some(T::B64),
        (A::Add, T::S64) => Some(T::U64),
        (A::Add, T::U32 | T::S32 | T::U64 | T::F16 | T::F32 | T::F64 | T::Bf16) => Some(ty),
        (A::Min | A::Max, T::U32 | T::S32 | T::U64 | T::S64) => Some(ty),
        (A::Inc | A::Dec, T::U32) => Some(ty),
        _ => None,
    };
    found.ok_or_else(|| format!("elements of type .{} have no reduction {operation:?}", ty.name()))
}
