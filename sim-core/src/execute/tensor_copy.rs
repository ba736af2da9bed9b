//! `cp.async.bulk.tensor`: boxes of tensors in tiled and im2col mode, as jobs of the unit that makes bulk copies. A map in
//! global memory is read by the unit, after the instruction: only then is it known what the copy is made of.

use std::sync::Arc;

use sim_frontend::form::{BulkWay, TensorMode};
use sim_frontend::program::{Extra, Op, OpClass, Pc, TensorOp};
use sim_memory::address_space::{CLUSTER_SHIFT, CONST_BASE, resolve};
use sim_memory::vocabulary::{AtomicOp, LaneMask, ScalarType, StateSpace, WARP_LANES};

use super::access::addresses;
use super::asynchronous::shared_addresses;
use super::observe_cluster::Followed;
use super::on_chip::outside;
use super::resident::Resident;
use crate::bulk::{Awaited, Job, PIECE, Taken};
use crate::error::Violation;
use crate::grid::Kernel;
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::read_element;
use crate::tensor_map::{ALIGN, Atom, BYTES, BoxPieces, TensorMap};

/// Rule of what is wrong with copies of tensors.
const RULE: &str = "tensor-copy";

/// Where a tensor map is found.
enum MapAt {
    /// Among the parameters or in constant memory, which no thread changes: its bytes.
    Here([u8; BYTES]),
    /// In global memory, at this address.
    Global(u64),
}

/// What a copy is made of once its map is known.
struct Parts {
    boxes: BoxPieces,
    fill: [u8; PIECE as usize],
    atomic: Option<(AtomicOp, ScalarType)>,
}

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
        let maps = addresses(self.world.instruction_set, warp, code, op, true, exec);
        let shared = shared_addresses(warp, code, op.src[1], facts.to);
        let objects = shared_addresses(warp, code, op.src[3], facts.object);
        for lane in Lanes(exec) {
            let l = lane as usize;
            let map = self.find_map(kernel, maps[l]).map_err(|reason| wrong(lane, reason))?;
            let staged = self.warps[w].staged.as_deref();
            let rank = usize::from(facts.rank);
            let given = |slot: usize| staged.map_or(0, |all| all[slot][l]);
            let coordinates = if facts.mode == TensorMode::Four { 5 } else { rank };
            // Stores have no offsets.
            let axes = match facts.mode {
                TensorMode::Im2col if facts.way != BulkWay::Store => rank - 2,
                TensorMode::W | TensorMode::W128 => 2,
                _ => 0,
            };
            let (own, blocks) = self.own_rank(w);
            let mut taken = Taken {
                coordinates: (0..coordinates).map(|axis| given(axis) as i32).collect(),
                offsets: (rank..rank + axes).map(|slot| given(slot) as u16).collect(),
                place: shared[l],
                ranks: 1 << own,
                parity: None,
            };
            let (mut object, mut of_object) = (0, own);
            if facts.way == BulkWay::Load {
                let target = self.target_of_bulk(w, lane, shared[l], objects[l], (blocks, facts.pair))?;
                (taken.place, object, taken.ranks, of_object) = target;
                if op.src[4].is_some() {
                    let mask = read_element(&self.warps[w].rows, &code.consts, op.src[4], lane, 16);
                    taken.ranks = self.ranks_of_mask(lane, mask as u32 & 0xffff, blocks)?;
                }
            }
            if facts.pair {
                taken.parity =
                    parity(taken.ranks, of_object, blocks).map_err(|reason| wrong(lane, reason))?;
            }
            if facts.way != BulkWay::Prefetch && !taken.place.is_multiple_of(128) {
                let reason = format!("the address {:#x} in shared memory is no multiple of 128", taken.place);
                return Err(wrong(lane, reason));
            }
            let (by, ranks, object) = ((w, lane, pc), taken.ranks, object as u32);
            let parity = taken.parity;
            let (parts, awaits) = match map {
                MapAt::Here(bytes) => {
                    let parts = self.parts(by, object, facts, (&taken, maps[l]), &bytes, None)?;
                    if parts.boxes.inside.is_empty() && parts.boxes.beyond.is_empty() {
                        continue;
                    }
                    (Some(parts), None)
                }
                MapAt::Global(map) => {
                    let ticket = if facts.way == BulkWay::Prefetch { None } else { self.observe_held(by) };
                    (None, Some(Box::new(Awaited { map, asked: None, ticket, taken })))
                }
            };
            self.push_job(kernel, by, facts.way, ranks, (object, 0), Vec::new());
            if let Some(job) = self.jobs.last_mut() {
                (job.awaits, job.parity) = (awaits, parity);
                if let Some(parts) = parts {
                    parts.make(job);
                }
            }
        }
        Ok(())
    }

    /// The map of a copy has arrived.
    ///
    /// # Errors
    /// What is wrong with the map, or with what the copy takes of its tensor.
    pub fn map_is_here(&mut self, job: &mut Job, bytes: &[u8; BYTES]) -> Result<(), Violation> {
        let Some(awaited) = job.awaits.take() else { return Ok(()) };
        let code = Arc::clone(&job.origin.code);
        let op = &code.program.ops[job.origin.pc as usize];
        let Extra::Tensor(facts) = &op.extra else { return Ok(()) };
        let by = (job.origin.slot, job.lane, job.origin.pc);
        let of = (&awaited.taken, awaited.map);
        self.parts(by, job.object, facts, of, bytes, awaited.ticket)?.make(job);
        Ok(())
    }

    /// What a copy is made of, by the bytes of its map at an address.
    fn parts(
        &mut self,
        by: (usize, u32, Pc),
        object: u32,
        facts: &TensorOp,
        (taken, at): (&Taken, u64),
        bytes: &[u8; BYTES],
        ticket: Option<u32>,
    ) -> Result<Parts, Violation> {
        let (w, lane, _) = by;
        let map = TensorMap::decode(bytes)
            .map_err(|reason| wrong(lane, format!("tensor map at {at:#x}: {reason}")))?;
        let four = facts.mode == TensorMode::Four;
        fits(&map, facts, taken).map_err(|reason| wrong(lane, reason))?;
        let (place, bytes) = (taken.place, map.copied_bytes(four, &taken.offsets));
        if facts.way != BulkWay::Prefetch {
            let room = self.blocks[self.warps[w].block].as_ref().map_or(0, |b| b.shared.len() as u64);
            if place.checked_add(bytes).is_none_or(|end| end > room) {
                return Err(outside(1 << lane, &[place; WARP_LANES], bytes, room));
            }
        }
        let ty = map.element();
        let atomic = match facts.memory.atomic {
            Some((operation, _)) => {
                Some((operation, reducible(operation, ty).map_err(|reason| wrong(lane, reason))?))
            }
            None => None,
        };
        let (coordinates, single) = (&taken.coordinates, atomic.is_some());
        let mut boxes = map.pieces_of(four, coordinates, &taken.offsets, place as u32, single);
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
        if facts.way != BulkWay::Load {
            boxes.beyond.clear();
        }
        if boxes.inside.is_empty() && boxes.beyond.is_empty() {
            self.observe_dropped(ticket);
            return Ok(Parts { boxes, fill: map.fill(), atomic });
        }
        let (to, bytes) = (place as u32, bytes as u32);
        match facts.way {
            BulkWay::Load => {
                let (parity, reduces) = (taken.parity, false);
                let followed = Followed { by, to, bytes, object, parity, reduces, ticket };
                self.observe_bulk(taken.ranks, followed);
            }
            BulkWay::Store => {
                let each = boxes.bytes;
                let stored: Vec<_> = boxes.inside.iter().map(|piece| (piece.far, each)).collect();
                self.observe_bulk_read(by, (to, bytes), None, &stored, ticket);
            }
            BulkWay::Between | BulkWay::Prefetch | BulkWay::Cancel { .. } => {}
        }
        Ok(Parts { boxes, fill: map.fill(), atomic })
    }

    /// The tensor map at a generic address, as memory has it now.
    pub(crate) fn tensor_map(&self, kernel: &Kernel, address: u64) -> Result<TensorMap, String> {
        let bytes = match self.find_map(kernel, address)? {
            MapAt::Here(bytes) => bytes,
            MapAt::Global(at) => self.map_in_memory(at),
        };
        TensorMap::decode(&bytes).map_err(|reason| format!("tensor map at {address:#x}: {reason}"))
    }

    /// The bytes of a map in global memory, past all caches.
    pub(crate) fn map_in_memory(&self, at: u64) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        self.world.memory.read(at, &mut bytes);
        bytes
    }

    /// Where the tensor map at a generic address lies: among the parameters, in constant or in global memory.
    fn find_map(&self, kernel: &Kernel, address: u64) -> Result<MapAt, String> {
        if !address.is_multiple_of(ALIGN) {
            return Err(format!("the address {address:#x} of a tensor map is no multiple of {ALIGN}"));
        }
        match resolve(address) {
            (StateSpace::Param, at) => {
                let at = at as usize;
                let found = kernel.params.get(at..at + BYTES).and_then(|bytes| bytes.try_into().ok());
                Ok(MapAt::Here(found.ok_or("the tensor map is beyond the kernel's parameters")?))
            }
            (space @ (StateSpace::Global | StateSpace::Const), at) => {
                let at = if space == StateSpace::Const { at + CONST_BASE } else { at };
                if self.world.allocations.find(at, BYTES as u64).is_none() {
                    return Err(format!("the tensor map at {address:#x} is not in any allocation"));
                }
                Ok(match space {
                    StateSpace::Const => MapAt::Here(self.map_in_memory(at)),
                    _ => MapAt::Global(at),
                })
            }
            _ => Err(format!(
                "the tensor map at {address:#x} is neither a parameter nor in constant or global memory"
            )),
        }
    }
}

impl Parts {
    /// They are those of the job.
    fn make(self, job: &mut Job) {
        let Self { boxes: BoxPieces { bytes, inside, beyond }, fill, atomic } = self;
        (job.bytes, job.pieces, job.beyond) = (bytes, inside, beyond);
        (job.fill, job.atomic) = (fill, atomic);
    }
}

fn wrong(lane: u32, reason: String) -> Violation {
    Violation::new(RULE, 1 << lane, reason)
}

/// What an instruction says must be of the kind of its map.
fn fits(map: &TensorMap, facts: &TensorOp, taken: &Taken) -> Result<(), String> {
    let rank = map.sizes.len();
    if rank != usize::from(facts.rank) {
        return Err(format!("the tensor has {rank} dimensions, the instruction {}", facts.rank));
    }
    let four = facts.mode == TensorMode::Four;
    let wanted = if four { TensorMode::Tile } else { facts.mode };
    if map.mode() != wanted {
        let words = |mode| match mode {
            TensorMode::Tile | TensorMode::Four => "tiled",
            TensorMode::Im2col => "im2col",
            TensorMode::W => "im2col::w",
            TensorMode::W128 => "im2col::w::128",
        };
        return Err(format!(
            "the tensor map is of {} mode, the instruction of {} mode",
            words(map.mode()),
            words(wanted)
        ));
    }
    if let Some(rows) = map.box_sizes.get(1).filter(|rows| four && **rows != 1) {
        return Err(format!("the box of a copy of four rows has one row, not {rows}"));
    }
    if map.atom == Atom::B32Flip8 && facts.way == BulkWay::Store {
        return Err("a swizzle that flips halves of 16 bytes is one of loads".into());
    }
    if let (TensorMode::W | TensorMode::W128, &[halo, offset]) = (facts.mode, taken.offsets.as_slice()) {
        let most = if facts.mode == TensorMode::W { 511 } else { 31 };
        if halo > most || offset > 31 {
            return Err(format!("the halo is 0 to {most} and the offset 0 to 31, not {halo} and {offset}"));
        }
    }
    let bytes = map.copied_bytes(four, &taken.offsets);
    if bytes > 1 << CLUSTER_SHIFT {
        return Err(format!("a box has {bytes} bytes, more than the shared memory of a block"));
    }
    if let Some(most) = map.largest_offset()
        && let Some(offset) = taken.offsets.iter().find(|offset| **offset > most)
    {
        return Err(format!("an im2col offset of {rank} dimensions is 0 to {most}, not {offset}"));
    }
    Ok(())
}

/// The last bit of the ranks whose blocks count, where some block's bytes are counted by the other one of its pair.
fn parity(ranks: u32, of_object: u32, blocks: u64) -> Result<Option<u8>, String> {
    let bit = of_object & 1;
    if let Some(rank) = Lanes(ranks).find(|rank| u64::from(rank & !1 | bit) >= blocks) {
        return Err(format!("block {rank} of the cluster of {blocks} has no pair"));
    }
    Ok(Lanes(ranks).any(|rank| rank & 1 != bit).then_some(bit as u8))
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
