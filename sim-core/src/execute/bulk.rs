//! Bulk copies: what an instruction asks of the unit that makes them, and what happens where their bytes are.

use sim_frontend::form::{BulkWay, MbarrierOptions, MbarrierStep};
use sim_frontend::program::{BulkBytes, BulkOp, NO_PC, Op, OpClass, Pc};
use sim_memory::address_space::of_cluster;
use sim_memory::atomics;
use sim_memory::observation::ObjectAction;
use sim_memory::vocabulary::{LaneMask, StateSpace, WARP_LANES};

use super::access::addresses;
use super::asynchronous::{after_copies, deliver, shared_addresses};
use super::observe_cluster::Followed;
use super::on_chip::outside;
use super::resident::{Resident, Step};
use crate::bulk::{Job, PIECE, Piece, Way};
use crate::copies::{Bulk, BulkTo, Over};
use crate::error::Violation;
use crate::grid::Kernel;
use crate::mbarrier::perform;
use crate::packet::{Does, Origin, Packet, RemoteAccess, What};
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::{from_bytes, read_element, read_row};
use crate::tensor_map::BYTES;

impl<P: Reconvergence> Resident<P> {
    /// `cp.async.bulk` and `cp.reduce.async.bulk`: a job for each thread.
    pub(super) fn begin_bulk(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &BulkOp,
        exec: LaneMask,
    ) -> Result<(), Violation> {
        if let BulkWay::Cancel { everywhere } = facts.way {
            return self.begin_cancel(kernel, (w, pc), op, facts, everywhere, exec);
        }
        let (code, warp) = (&*kernel.code, &self.warps[w]);
        let mut far = addresses(self.world.instruction_set, warp, code, op, facts.memory.address_64, exec);
        let mut near = shared_addresses(warp, code, op.src[1], facts.to);
        let mut objects = shared_addresses(warp, code, op.src[3], facts.object);
        let sizes = *read_row(&warp.rows, &code.consts, op.src[2]);
        let tracked = matches!(facts.way, BulkWay::Load | BulkWay::Between);
        if facts.way == BulkWay::Between {
            // The destination is what other blocks see, the source the block's own.
            std::mem::swap(&mut far, &mut near);
        }
        for lane in Lanes(exec) {
            let l = lane as usize;
            let size = sizes[l];
            if !size.is_multiple_of(PIECE) || (far[l] | near[l]) & u64::from(PIECE - 1) != 0 {
                let (to, from) = match facts.way {
                    BulkWay::Load => (near[l], far[l]),
                    _ => (far[l], near[l]),
                };
                let reason = format!(
                    "addresses and size of a bulk copy must be multiples of 16, not {to:#x}, {from:#x} and {size}"
                );
                return Err(Violation::new("cp-async", 1 << lane, reason));
            }
            let (own, blocks) = self.own_rank(w);
            let mut ranks = 1 << own;
            let given =
                |slot: usize, bits| read_element(&self.warps[w].rows, &code.consts, op.src[slot], lane, bits);
            // Where global memory is read, without what need not be there.
            let (mut read, mut mask) = (far[l]..far[l].saturating_add(size.into()), u16::MAX);
            match facts.bytes {
                BulkBytes::All if op.src[4].is_some() => {
                    ranks = self.ranks_of_mask(lane, given(4, 16) as u32 & 0xffff, blocks)?;
                }
                BulkBytes::All => {}
                BulkBytes::Masked => mask = given(3, 16) as u16,
                BulkBytes::MayBeBeyond => read = ignored(read, given(4, 64), lane)?,
            }
            if size == 0 || mask == 0 {
                continue;
            }
            let room = self.blocks[self.warps[w].block].as_ref().map_or(0, |block| block.shared.len() as u64);
            let bytes = u64::from(size);
            if tracked {
                let place = if facts.way == BulkWay::Load { &mut near[l] } else { &mut far[l] };
                let (offset, object, to, _) =
                    self.target_of_bulk(w, lane, *place, objects[l], (blocks, false))?;
                if offset + bytes > room {
                    return Err(outside(1 << lane, &[offset; WARP_LANES], bytes, room));
                }
                (*place, objects[l]) = (offset, object);
                if !op.src[4].is_some() || facts.bytes == BulkBytes::MayBeBeyond {
                    ranks = to;
                }
            }
            if !matches!(facts.way, BulkWay::Load | BulkWay::Prefetch) {
                let from = near[l];
                if from.checked_add(bytes).is_none_or(|end| end > room) {
                    return Err(outside(1 << lane, &near, bytes, room));
                }
            }
            match facts.way {
                BulkWay::Load => {
                    let (from, bytes) = ([read.start; WARP_LANES], read.end - read.start);
                    self.in_buffers(OpClass::Load, 1 << lane, &from, bytes)?;
                }
                BulkWay::Store => self.in_buffers(OpClass::Store, 1 << lane, &far, bytes)?,
                BulkWay::Prefetch if self.world.allocations.find(far[l], bytes).is_none() => continue,
                BulkWay::Prefetch | BulkWay::Between | BulkWay::Cancel { .. } => {}
            }
            let by = (w, lane, pc);
            let each = unit_of(mask).min(u32::from(facts.memory.element_bytes));
            let piece =
                |at: u32| Piece { far: far[l] + u64::from(at), near: (near[l] as u32).wrapping_add(at) };
            let copied = |at: &u32| mask >> (at % PIECE) & 1 == 1;
            let pieces: Vec<Piece> =
                (0..size).step_by(each as usize).rev().filter(copied).map(piece).collect();
            if tracked {
                let to = if facts.way == BulkWay::Load { near[l] } else { far[l] } as u32;
                let (object, bytes) = (objects[l] as u32, size);
                let reduces = facts.memory.atomic.is_some();
                let (parity, ticket) = (None, None);
                self.observe_bulk(ranks, Followed { by, to, bytes, object, parity, reduces, ticket });
            }
            match facts.way {
                BulkWay::Between => {
                    let counted = Some((ranks.trailing_zeros(), objects[l] as u32));
                    self.observe_bulk_read(by, (near[l] as u32, size), counted, &[], None);
                }
                BulkWay::Store if mask == u16::MAX => {
                    self.observe_bulk_read(by, (near[l] as u32, size), None, &[(far[l], size)], None);
                }
                BulkWay::Store => {
                    let stored: Vec<_> = pieces.iter().map(|piece| (piece.far, each)).collect();
                    self.observe_bulk_read(by, (near[l] as u32, size), None, &stored, None);
                }
                BulkWay::Load | BulkWay::Prefetch | BulkWay::Cancel { .. } => {}
            }
            self.push_job(kernel, by, facts.way, ranks, (objects[l] as u32, each), pieces);
        }
        Ok(())
    }

    /// Rank of a warp's block in its cluster, and the cluster's blocks.
    pub(crate) fn own_rank(&self, w: usize) -> (u32, u64) {
        let block = self.blocks[self.warps[w].block].as_ref();
        let peers = block.and_then(|block| block.cluster.peers.as_deref());
        peers.map_or((0, 1), |peers| (peers.rank, peers.blocks.len() as u64))
    }

    /// Where a bulk copy that an mbarrier object tracks goes: offsets of data and object, which are in one block or, where
    /// `pairs` count, in two whose ranks differ in the last bit; the bit of the rank of the data, the rank of the object.
    pub(super) fn target_of_bulk(
        &self,
        w: usize,
        lane: u32,
        place: u64,
        object: u64,
        (blocks, pairs): (u64, bool),
    ) -> Result<(u64, u64, u32, u32), Violation> {
        let mut plain = [of_cluster(object).1; WARP_LANES];
        self.to_shared(w, StateSpace::Shared, 8, 1 << lane, &mut plain)?;
        let (rank, offset) = self.block_of_bulk(w, lane, place, blocks)?;
        let (of_object, object) = self.block_of_bulk(w, lane, object, blocks)?;
        if rank != of_object && !(pairs && rank ^ of_object == 1) {
            let reason = format!(
                "the destination is in the shared memory of block {rank} of the cluster, the mbarrier object in that of block {of_object}"
            );
            return Err(Violation::new("mbarrier", 1 << lane, reason));
        }
        Ok((offset, object, 1 << rank, of_object))
    }

    /// The ranks of a multicast.
    pub(super) fn ranks_of_mask(&self, lane: u32, mask: u32, blocks: u64) -> Result<u32, Violation> {
        if u64::from(mask) >> blocks != 0 || mask == 0 {
            let reason = format!(
                "the mask {mask:#x} of a multicast names no blocks of the cluster of {blocks}, or others too"
            );
            return Err(Violation::new("cp-async", 1 << lane, reason));
        }
        Ok(mask)
    }

    /// The rank and offset that a shared address names.
    fn block_of_bulk(&self, w: usize, lane: u32, at: u64, blocks: u64) -> Result<(u32, u64), Violation> {
        let room = self.blocks[self.warps[w].block].as_ref().map_or(0, |block| block.shared.len() as u64);
        match of_cluster(at) {
            (None, offset) => Ok((self.own_rank(w).0, offset)),
            (Some(rank), offset) if rank < blocks => Ok((rank as u32, offset)),
            (Some(_), _) => Err(outside(1 << lane, &[at; WARP_LANES], 1, room)),
        }
    }

    /// A bulk copy of a thread is left to the unit.
    pub(super) fn push_job(
        &mut self,
        kernel: &Kernel,
        (w, lane, pc): (usize, u32, Pc),
        way: BulkWay,
        ranks: u32,
        (object, bytes): (u32, u32),
        pieces: Vec<Piece>,
    ) {
        let number = self.warps[w].copies_mut().hold(lane, way == BulkWay::Store);
        let way = match way {
            BulkWay::Load => Way::Load(ranks),
            BulkWay::Store => Way::Store(number),
            BulkWay::Between => Way::Between(ranks.trailing_zeros()),
            BulkWay::Prefetch => Way::Prefetch,
            BulkWay::Cancel { .. } => Way::Cancel(ranks),
        };
        let warp = &self.warps[w];
        let index = self.blocks[warp.block].as_ref().map_or([0; 3], |block| block.index);
        let origin = Origin::new(kernel, index, (w, warp.index), pc, self.sm);
        let op = &kernel.code.program.ops[pc as usize];
        let atomic = op.extra.access().and_then(|facts| facts.atomic);
        let (beyond, fill) = (Vec::new(), [0; PIECE as usize]);
        let grid_id = kernel.grid_id;
        let awaits = None;
        let parity = None;
        self.jobs.push(Job {
            origin,
            grid_id,
            lane,
            way,
            object,
            parity,
            bytes,
            pieces,
            beyond,
            fill,
            atomic,
            awaits,
        });
        self.outcome = Step::Access;
    }

    /// What lies in shared memory at the places of these pieces.
    pub fn bytes_of(&self, job: &Job, pieces: &[Piece]) -> Box<[[u8; 16]; WARP_LANES]> {
        let mut data = Box::new([[0; 16]; WARP_LANES]);
        let block = self.blocks[self.warps[job.origin.slot].block].as_ref();
        let shared = block.map_or(&[][..], |block| block.shared.bytes());
        for (to, piece) in data.iter_mut().zip(pieces) {
            let at = piece.near as usize;
            if let Some(from) = shared.get(at..at + job.bytes as usize) {
                to[..from.len()].copy_from_slice(from);
            }
        }
        data
    }

    /// Sends pieces of a copy between blocks.
    pub fn send_pieces(&mut self, job: &Job, rank: u32, pieces: &[Piece], data: &[[u8; 16]; WARP_LANES]) {
        let w = job.origin.slot;
        let Some((number, sm)) = self.block_of_rank(w, rank) else { return };
        let mut addresses = [0; WARP_LANES];
        addresses.iter_mut().zip(pieces).for_each(|(at, piece)| *at = piece.far as u32);
        let access = Box::new(RemoteAccess {
            origin: job.origin.clone(),
            does: Does::Async,
            access: 0,
            ticket: None,
            lanes: LaneMask::MAX >> (LaneMask::BITS as usize - pieces.len().clamp(1, WARP_LANES)),
            addresses,
            bytes: job.bytes,
            data: *data,
            // The second says who counts, where it is another block: its rank and 1.
            operands: [[
                job.object.into(),
                counted_by(job.parity, rank).map_or(0, |peer| u64::from(peer) + 1),
            ]; WARP_LANES],
        });
        self.outgoing.push(Packet { grid_id: job.grid_id, number, sm, what: What::Access(access) });
    }

    /// A part of a bulk copy is over: its bytes are counted where they are, or go on to other blocks.
    ///
    /// # Errors
    /// What is wrong with the mbarrier object.
    pub(super) fn part_is_over(&mut self, w: usize, over: Over) -> Result<(), Violation> {
        let Over { bulk, lanes, to, landed } = over;
        match bulk.to {
            BulkTo::Here => self.count_bulk(w, bulk),
            BulkTo::Cache => Ok(()),
            BulkTo::Map(number) => {
                let mut bytes = [0; BYTES];
                let found = landed.iter().flat_map(|landed| landed.iter().flatten());
                bytes.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
                self.maps.push((number, bytes));
                Ok(())
            }
            BulkTo::Global(number) => {
                self.warps[w].copies_mut().put_is_over(number);
                Ok(())
            }
            BulkTo::Ranks(ranks) => {
                let Some(data) = landed else { return Ok(()) };
                let (own, _) = self.own_rank(w);
                if ranks >> own & 1 == 1 {
                    for lane in Lanes(lanes) {
                        let to = to[lane as usize];
                        if let Some(block) = self.blocks[self.warps[w].block].as_mut() {
                            deliver(block, to, &data[lane as usize][..to[1] as usize]);
                        }
                    }
                    self.changes += 1;
                    match counted_by(bulk.parity, own) {
                        None => self.count_bulk(w, bulk)?,
                        Some(peer) => self.count_at_peer(w, bulk, peer),
                    }
                }
                let pieces: Vec<Piece> =
                    Lanes(lanes).map(|lane| Piece { far: to[lane as usize][0], near: 0 }).collect();
                let job = self.job_of(w, bulk, to[0][1] as u32);
                for rank in Lanes(ranks & !(1 << own)) {
                    self.send_pieces(&job, rank, &pieces, &data);
                }
                Ok(())
            }
        }
    }

    /// What a load of a tensor goes beyond it is filled and counted.
    ///
    /// # Errors
    /// What is wrong with the mbarrier object.
    pub fn fill_beyond(&mut self, job: &mut Job) -> Result<(), Violation> {
        let Way::Load(ranks) = job.way else { return Ok(()) };
        loop {
            let places = job.take_beyond();
            if places.is_empty() {
                return Ok(());
            }
            let mut to = [[0; 2]; WARP_LANES];
            to.iter_mut().zip(&places).for_each(|(to, near)| *to = [u64::from(*near), job.bytes.into()]);
            let bulk = Bulk {
                lane: job.lane,
                object: job.object.into(),
                bytes: places.len() as u32 * job.bytes,
                pc: job.origin.pc,
                to: BulkTo::Ranks(ranks),
                parity: job.parity,
            };
            let lanes = LaneMask::MAX >> (WARP_LANES - places.len());
            let landed = Some(Box::new([job.fill; WARP_LANES]));
            self.part_is_over(job.origin.slot, Over { bulk, lanes, to, landed })?;
        }
    }

    /// A job for pieces that go on.
    fn job_of(&self, w: usize, bulk: Bulk, bytes: u32) -> Job {
        let warp = &self.warps[w];
        let kernel = &self.kernels[warp.kernel];
        let index = self.blocks[warp.block].as_ref().map_or([0; 3], |block| block.index);
        let origin = Origin::new(kernel, index, (w, warp.index), bulk.pc, self.sm);
        let object = bulk.object as u32;
        let (lane, way) = (bulk.lane, Way::Prefetch);
        Job {
            origin,
            grid_id: kernel.grid_id,
            lane,
            way,
            object,
            parity: bulk.parity,
            bytes,
            pieces: Vec::new(),
            beyond: Vec::new(),
            fill: [0; PIECE as usize],
            atomic: None,
            awaits: None,
        }
    }

    /// The same at the object of another block.
    fn count_at_peer(&mut self, w: usize, bulk: Bulk, rank: u32) {
        let Some((number, sm)) = self.block_of_rank(w, rank) else { return };
        let warp = &self.warps[w];
        let kernel = &self.kernels[warp.kernel];
        let index = self.blocks[warp.block].as_ref().map_or([0; 3], |block| block.index);
        let origin = Origin::new(kernel, index, (w, warp.index), bulk.pc, self.sm);
        let grid_id = kernel.grid_id;
        let access = counted_elsewhere(origin, bulk.object as u32, bulk.bytes);
        self.outgoing.push(Packet { grid_id, number, sm, what: What::Access(access) });
    }

    /// The bytes of a part of a bulk copy have arrived: `complete_tx` at its object.
    fn count_bulk(&mut self, w: usize, bulk: Bulk) -> Result<(), Violation> {
        self.object_action = (NO_PC, ObjectAction::Count);
        let bytes = bulk.bytes.into();
        let counted = |word| perform(MbarrierStep::CompleteTx, MbarrierOptions::default(), word, bytes);
        self.act_on_object(w, bulk.lane, bulk.object, |word| after_copies(counted(word)))?;
        Ok(())
    }

    /// Does a whole job at once, as the functional mode does.
    ///
    /// # Errors
    /// What is wrong with an mbarrier object.
    pub fn do_job(&mut self, mut job: Job) -> Result<(), Violation> {
        let w = job.origin.slot;
        let atomic = job.atomic;
        let bytes = job.bytes as usize;
        let memory = std::sync::Arc::clone(&self.world.memory);
        self.changes += 1;
        self.fill_beyond(&mut job)?;
        loop {
            let pieces = job.take(sim_memory::line::line_of);
            if pieces.is_empty() {
                break;
            }
            match job.way {
                Way::Load(ranks) => {
                    let mut landed = Box::new([[0; 16]; WARP_LANES]);
                    let mut to = [[0; 2]; WARP_LANES];
                    for ((data, to), piece) in landed.iter_mut().zip(&mut to).zip(&pieces) {
                        memory.read(piece.far, &mut data[..bytes]);
                        *to = [piece.near.into(), bytes as u64];
                    }
                    let bulk = Bulk {
                        lane: job.lane,
                        object: job.object.into(),
                        bytes: (pieces.len() * bytes) as u32,
                        pc: job.origin.pc,
                        to: BulkTo::Ranks(ranks),
                        parity: job.parity,
                    };
                    let lanes = LaneMask::MAX >> (WARP_LANES - pieces.len());
                    self.part_is_over(w, Over { bulk, lanes, to, landed: Some(landed) })?;
                }
                Way::Between(rank) => {
                    let data = self.bytes_of(&job, &pieces);
                    self.send_pieces(&job, rank, &pieces, &data);
                }
                Way::Store(_) => {
                    let data = self.bytes_of(&job, &pieces);
                    for (data, piece) in data.iter().zip(&pieces) {
                        let data = &data[..bytes];
                        let Some((operation, ty)) = atomic else {
                            memory.write(piece.far, data);
                            continue;
                        };
                        let mut old = [0; 16];
                        memory.read(piece.far, &mut old[..bytes]);
                        let new = atomics::apply_global(
                            operation,
                            ty,
                            from_bytes(&old[..bytes]),
                            from_bytes(data),
                            0,
                        );
                        memory.write(piece.far, &new.to_le_bytes()[..bytes]);
                    }
                }
                Way::Prefetch | Way::Cancel(_) => {}
            }
        }
        let put = match job.way {
            Way::Store(number) => Some(number),
            _ => None,
        };
        self.warps[w].copies_mut().let_go(put);
        Ok(())
    }
}

/// The rank of the other block of a pair, where that counts a part of a copy to the block of a rank.
pub(super) fn counted_by(parity: Option<u8>, rank: u32) -> Option<u32> {
    parity.map(|parity| rank & !1 | u32::from(parity)).filter(|counting| *counting != rank)
}

/// `complete_tx` of bytes that another block got.
pub(super) fn counted_elsewhere(origin: Origin, object: u32, bytes: u32) -> Box<RemoteAccess> {
    Box::new(RemoteAccess {
        origin,
        does: Does::Count(MbarrierStep::CompleteTx, MbarrierOptions::default()),
        access: 0,
        ticket: None,
        lanes: 1,
        addresses: [object; WARP_LANES],
        bytes: 8,
        data: [[0; 16]; WARP_LANES],
        operands: [[bytes.into(), 0]; WARP_LANES],
    })
}

/// Bytes of the largest units of 16 bytes of which a mask has all or none.
fn unit_of(mask: u16) -> u32 {
    let whole = |unit: &u32| {
        let all = u16::MAX >> (PIECE - unit);
        (0..PIECE).step_by(*unit as usize).all(|at| [0, all].contains(&(mask >> at & all)))
    };
    [16, 8, 4, 2].into_iter().find(whole).unwrap_or(1)
}

/// A range of global memory without so many bytes at its beginning and at its end, as the halves of a number say.
fn ignored(all: std::ops::Range<u64>, both: u64, lane: u32) -> Result<std::ops::Range<u64>, Violation> {
    let (left, right) = (both & u64::from(u32::MAX), both >> 32);
    if left.max(right) >= PIECE.into() {
        let reason = format!(".ignore_oob ignores 0 to 15 bytes at each end, not {left} and {right}");
        return Err(Violation::new("cp-async", 1 << lane, reason));
    }
    let start = (all.start + left).min(all.end);
    Ok(start..all.end.saturating_sub(right).max(start))
}
