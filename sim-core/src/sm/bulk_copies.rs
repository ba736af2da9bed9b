//! Bulk copies of an SM: an access of up to a line at a time, which goes to L2 as other accesses do.

use sim_frontend::chip::TmaSpec;
use sim_memory::access::{AccessKind, WarpAccess};
use sim_memory::line::line_of;
use sim_memory::vocabulary::{CacheHint, CacheOp, Cycle, LaneMask, Scope, Semantics, StateSpace, WARP_LANES};

use super::accesses::{ALONE, InFlight, port};
use super::{Notice, Sm, SmMessage, Tells};
use crate::bulk::{Awaited, Job, PIECE, Piece, Way};
use crate::copies::{Bulk, BulkTo};
use crate::error::Fault;
use crate::reconvergence::Reconvergence;
use crate::tensor_map::BYTES;

impl<P: Reconvergence> Sm<P> {
    /// The unit gets the bulk copies of the last step.
    #[cold]
    #[inline(never)]
    pub(super) fn queue_jobs(&mut self, now: Cycle) {
        if self.resident.jobs.iter().any(|job| matches!(job.way, Way::Cancel(_))) {
            return self.ask_dispatcher(now);
        }
        self.stats.tma.copies += self.resident.jobs.len() as u64;
        self.tma.unasked += self.resident.jobs.iter().filter(|job| job.awaits.is_some()).count() as u32;
        self.tma.queue.extend(self.resident.jobs.drain(..));
        if !std::mem::replace(&mut self.tma.busy, true) {
            let begin = now + Cycle::from(self.tma.spec.latency);
            self.deliver(begin.max(self.tma.free_at), SmMessage::Tma);
        }
    }

    /// The dispatcher is asked to cancel launches: no copies, but what is done with its answers is what is done with their
    /// bytes.
    fn ask_dispatcher(&mut self, now: Cycle) {
        for job in self.resident.jobs.drain(..) {
            let number = self.tma.next_request;
            self.tma.next_request += 1;
            self.notices.push(Notice {
                grid_id: job.grid_id,
                what: Tells::Cancel,
                number,
                at: now,
                issued: 0,
            });
            self.tma.requests.push((number, job));
        }
    }

    /// The dispatcher has answered.
    #[cold]
    #[inline(never)]
    pub(super) fn answer_arrives(
        &mut self,
        number: u64,
        cancelled: Option<[u32; 3]>,
    ) -> Result<(), Box<Fault>> {
        let now = self.now;
        let Some(at) = self.tma.requests.iter().position(|request| request.0 == number) else {
            return Ok(());
        };
        let (_, job) = self.tma.requests.remove(at);
        let w = job.origin.slot;
        if cancelled.is_some() {
            let size = self.resident.kernels[self.resident.warps[w].kernel].cluster_size();
            if let Some(counts) = self.stats.kernels.get_mut(job.grid_id as usize) {
                counts.cancelled_blocks += u64::from(size);
            }
        }
        let answered = self.resident.answered(&job, cancelled);
        answered.map_err(|violation| job.origin.fault(&violation, self.index, now))?;
        if !self.resident.outgoing.is_empty() {
            self.send_packets(now);
        }
        self.woken.push(w);
        self.arrive_after_copies()?;
        self.log_barriers(now);
        self.wake_waiting(now)
    }

    /// The unit makes its next access.
    #[cold]
    #[inline(never)]
    pub(super) fn copy_next(&mut self) -> Result<(), Box<Fault>> {
        let now = self.now;
        if self.tma.unasked > 0 {
            return self.ask_for_map(now);
        }
        let waits = self.tma.queue.front().is_none_or(|job| job.awaits.is_some());
        let Some(mut job) = (if waits { None } else { self.tma.queue.pop_front() }) else {
            // The arrival of its map goes on with the first one.
            self.tma.busy = false;
            return Ok(());
        };
        // What is filled costs no access.
        let filled = self.resident.fill_beyond(&mut job);
        filled.map_err(|violation| job.origin.fault(&violation, self.index, now))?;
        if !self.resident.outgoing.is_empty() {
            self.send_packets(now);
        }
        let TmaSpec { bytes_per_cycle, access_interval, .. } = self.tma.spec;
        let mut after = Cycle::from(access_interval);
        if self.memory.accepting() || matches!(job.way, Way::Between(_)) {
            let pieces = job.take(line_of);
            let bytes = pieces.len() as u32 * job.bytes;
            after = after.max(bytes.div_ceil(bytes_per_cycle).into());
            let counted = match job.way {
                Way::Load(_) => Some(&mut self.stats.tma.loaded_bytes),
                Way::Store(_) => Some(&mut self.stats.tma.stored_bytes),
                Way::Between(_) => Some(&mut self.stats.tma.between_bytes),
                Way::Prefetch | Way::Cancel(_) => None,
            };
            if let Some(counted) = counted {
                *counted += u64::from(bytes);
            }
            if !pieces.is_empty() {
                self.copy_pieces(&job, &pieces, now)?;
            }
        } else {
            after = 1;
        }
        if job.is_over() {
            let put = match job.way {
                Way::Store(number) => Some(number),
                _ => None,
            };
            let w = job.origin.slot;
            self.resident.warps[w].copies_mut().let_go(put);
            self.woken.push(w);
        } else {
            self.tma.queue.push_front(job);
        }
        self.stats.tma.busy_cycles += after;
        self.tma.free_at = now + after;
        self.tma.busy = !self.tma.queue.is_empty();
        if self.tma.busy {
            self.deliver(now + after, SmMessage::Tma);
        }
        self.arrive_after_copies()?;
        self.wake_waiting(now)
    }

    /// Asks for the next tensor map in global memory: all copies of the queue that need one do, before the first of them
    /// goes on. Its bytes come from L2.
    fn ask_for_map(&mut self, now: Cycle) -> Result<(), Box<Fault>> {
        let mut after = 1;
        if self.memory.accepting() {
            after = Cycle::from(self.tma.spec.access_interval);
            let number = self.tma.next_map;
            let unasked = |awaited: &&mut Box<Awaited>| awaited.asked.is_none();
            let job = self.tma.queue.iter_mut().find_map(|job| {
                let awaited = job.awaits.as_mut().filter(unasked)?;
                awaited.asked = Some(number);
                Some((job.origin.slot, job.origin.pc, job.lane, awaited.map))
            });
            if let Some((slot, pc, lane, map)) = job {
                (self.tma.next_map, self.tma.unasked) = (number + 1, self.tma.unasked - 1);
                let piece = |at: u64| Piece { far: map + at, near: 0 };
                let pieces: Vec<Piece> = (0..BYTES as u64).step_by(PIECE as usize).map(piece).collect();
                let (bytes, to) = (BYTES as u32, BulkTo::Map(number));
                let bulk = Bulk { lane, object: 0, bytes, pc, to, parity: None };
                let data = [[0; 16]; WARP_LANES];
                self.begin_access(slot, (AccessKind::Load, PIECE), &pieces, bulk, &data)?;
            }
        }
        self.tma.free_at = now + after;
        self.deliver(now + after, SmMessage::Tma);
        self.arrive_after_copies()?;
        self.wake_waiting(now)
    }

    /// Tensor maps have arrived.
    #[cold]
    #[inline(never)]
    pub(super) fn maps_arrive(&mut self) -> Result<(), Box<Fault>> {
        let now = self.now;
        for (number, bytes) in std::mem::take(&mut self.resident.maps) {
            let of = |job: &Job| job.awaits.as_ref().is_some_and(|awaited| awaited.asked == Some(number));
            let Some(at) = self.tma.queue.iter().position(of) else { continue };
            let job = &mut self.tma.queue[at];
            let made = self.resident.map_is_here(job, &bytes);
            made.map_err(|violation| job.origin.fault(&violation, self.index, now))?;
            self.log_barriers(now);
            if at == 0 && !std::mem::replace(&mut self.tma.busy, true) {
                self.deliver(self.tma.free_at.max(now + 1), SmMessage::Tma);
            }
        }
        Ok(())
    }

    fn copy_pieces(&mut self, job: &Job, pieces: &[Piece], now: Cycle) -> Result<(), Box<Fault>> {
        let (w, pc) = (job.origin.slot, job.origin.pc);
        let (own, _) = self.resident.own_rank(w);
        let (kind, to) = match job.way {
            Way::Between(rank) => {
                let data = self.resident.bytes_of(job, pieces);
                self.resident.send_pieces(job, rank, pieces, &data);
                self.send_packets(now);
                return Ok(());
            }
            Way::Load(ranks) if ranks == 1 << own && job.parity.is_none() => (AccessKind::Load, BulkTo::Here),
            Way::Load(ranks) => (AccessKind::Load, BulkTo::Ranks(ranks)),
            Way::Prefetch | Way::Cancel(_) => (AccessKind::Hint(CacheHint::PrefetchL2), BulkTo::Cache),
            Way::Store(number) => {
                self.resident.warps[w].copies_mut().put(number);
                let kind = match job.atomic {
                    Some((op, ty)) => AccessKind::Atomic { op, ty, returns: false },
                    None => AccessKind::Store,
                };
                (kind, BulkTo::Global(number))
            }
        };
        let data = match job.way {
            Way::Store(_) => self.resident.bytes_of(job, pieces),
            _ => Box::new([[0; 16]; WARP_LANES]),
        };
        let bytes = pieces.len() as u32 * job.bytes;
        let (object, parity) = (job.object.into(), job.parity);
        let bulk = Bulk { lane: job.lane, object, bytes, pc, to, parity };
        self.begin_access(w, (kind, job.bytes), pieces, bulk, &data)
    }

    /// An access of the unit for a warp goes to memory; its lanes are pieces of so many bytes.
    fn begin_access(
        &mut self,
        w: usize,
        (kind, each): (AccessKind, u32),
        pieces: &[Piece],
        bulk: Bulk,
        data: &[[u8; 16]; WARP_LANES],
    ) -> Result<(), Box<Fault>> {
        let (now, pc) = (self.now, bulk.pc);
        let lanes = LaneMask::MAX >> (WARP_LANES - pieces.len().clamp(1, WARP_LANES));
        let mut addresses = [pieces.first().map_or(0, |piece| piece.far); WARP_LANES];
        let mut places = [[0; 2]; WARP_LANES];
        let mut operands = [[0; 2]; WARP_LANES];
        for (lane, piece) in pieces.iter().enumerate() {
            addresses[lane] = piece.far;
            places[lane] = [piece.near.into(), each.into()];
            operands[lane][0] = crate::registers::from_bytes(&data[lane][..each.min(8) as usize]);
        }
        let id = self.accesses.begin(
            InFlight {
                warp: w,
                pc,
                lanes,
                blocked: lanes,
                pending: lanes,
                issued: now,
                part: 0,
                parts: 1,
                group: ALONE,
                copy: true,
                volatile: false,
                acquires: false,
                write: None,
            },
            &addresses,
        );
        self.resident.warps[w].copies_mut().begin(id, lanes, places, Some(bulk));
        let access = WarpAccess {
            policy: sim_memory::priority::Policy::None,
            id,
            kind,
            space: StateSpace::Global,
            cache_op: if kind == AccessKind::Store { CacheOp::Wb } else { CacheOp::Cg },
            semantics: Semantics::Weak,
            scope: Scope::Cta,
            element_bytes: each,
            lanes,
            addresses: &addresses,
            data,
            operands: Some(&operands),
            combined: false,
        };
        if let Some(observation) = &mut self.memory.observation {
            observation.origin = (w as u32, pc);
        }
        let mut port = port!(self);
        let result = self.memory.access(now, &access, &mut port);
        result.map_err(|fault| self.memory_fault(&fault))
    }
}
