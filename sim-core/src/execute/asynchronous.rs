//! `cp.async` (PTX ISA "Non-bulk copy"): global to shared memory past the registers, the groups of
//! copies, and the mbarrier objects that count them.

use sim_frontend::form::{MbarrierOptions, MbarrierStep};
use sim_frontend::program::{CopyOp, Extra, NO_PC, Op, OpClass, Pc, Row, SharedAddress};
use sim_memory::address_space::{SHARED_WINDOW, WINDOW_BYTES};
use sim_memory::observation::{Event, ObjectAction};
use sim_memory::vocabulary::{LaneMask, StateSpace, WARP_LANES};

use super::access::{addresses, misaligned, only};
use super::on_chip::outside;
use super::resident::{Resident, Step};
use crate::block::Block;
use crate::code::Code;
use crate::error::Violation;
use crate::grid::Kernel;
use crate::mbarrier::{await_one_more, perform};
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::{each, guard, read_element, read_row};
use crate::warp::Warp;

impl<P: Reconvergence> Resident<P> {
    /// One `cp.async` instruction.
    pub(super) fn copy(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        op: &Op,
        exec: LaneMask,
    ) -> Result<(), Violation> {
        self.requests.clear();
        self.outcome = Step::Done;
        let code = &*kernel.code;
        match &op.extra {
            _ if exec == 0 => Ok(()),
            Extra::StoreAsync(facts) => self.store_async(kernel, w, pc, op, facts, exec),
            Extra::Copy(facts) => self.begin_copy(code, w, pc, op, facts, exec),
            Extra::Bulk(facts) => self.begin_bulk(kernel, w, pc, op, facts, exec),
            Extra::Tensor(facts) => self.begin_tensor(kernel, w, pc, op, facts, exec),
            Extra::BulkCommit => {
                self.observe_event(|| Event::BulkCommit { warp: w as u32, lanes: exec });
                self.warps[w].copies_mut().commit_puts(exec);
                Ok(())
            }
            // Its drain waited.
            Extra::BulkWait(newest, _) => {
                self.observe_event(|| Event::BulkAwaited { warp: w as u32, lanes: exec, newest: *newest });
                Ok(())
            }
            Extra::CopyCommit => {
                self.observe_event(|| Event::Commit { warp: w as u32, lanes: exec });
                self.warps[w].copies_mut().commit(exec);
                Ok(())
            }
            // Its drain waited.
            Extra::CopyWait(newest) => {
                self.observe_event(|| Event::Awaited { warp: w as u32, lanes: exec, newest: *newest });
                Ok(())
            }
            Extra::CopyArrive(place, no_inc) => {
                let places = self.objects(code, w, op, *place, exec)?;
                for lane in Lanes(exec) {
                    let at = places[lane as usize];
                    let object = at as u32;
                    self.observe_event(|| Event::CopiesArrive { warp: w as u32, lane, object });
                    if !no_inc {
                        self.act_on_object(w, lane, at, |word| Ok((await_one_more(word)?, 0)))?;
                    }
                    self.warps[w].copies_mut().arrive_later(lane, at, pc);
                }
                self.arrivals_due(w).map_err(|(_, violation)| violation)
            }
            _ => Err(Violation::new("cp-async", exec, "internal error: a decoded copy has no operands")),
        }
    }

    fn begin_copy(
        &mut self,
        code: &Code,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &CopyOp,
        exec: LaneMask,
    ) -> Result<(), Violation> {
        let warp = &self.warps[w];
        let size = u64::from(facts.memory.element_bytes);
        let from = addresses(self.world.instruction_set, warp, code, op, facts.memory.address_64, exec);
        let mut to = shared_addresses(warp, code, op.src[1], facts.to);
        self.to_shared(w, StateSpace::Shared, size, exec, &mut to)?;
        let ignored = if op.psrc[0].is_some() { guard(op.psrc[0], &warp.preds) } else { 0 };
        let mut plan = [[0u64; 2]; WARP_LANES];
        let mut reads = 0;
        for lane in Lanes(exec) {
            let l = lane as usize;
            let given = op.src[2].is_some().then(|| read_row(&warp.rows, &code.consts, op.src[2])[l]);
            let bytes = if ignored >> lane & 1 == 1 { 0 } else { given.map_or(size, u64::from) };
            if bytes > size {
                let reason = format!("src-size {bytes} exceeds cp-size {size}");
                return Err(Violation::new("cp-async", 1 << lane, reason));
            }
            plan[l] = [to[l], bytes];
            reads |= u32::from(bytes != 0) << lane;
        }
        self.observe_event(|| Event::Copy {
            origin: (w as u32, pc),
            lanes: exec,
            to: to.map(|at| at as u32),
            size: size as u8,
        });
        for lane in Lanes(exec & !reads) {
            // Nothing is read: only zeros are written.
            self.copy_arrived(w, plan[lane as usize], &[0; 16][..size as usize]);
        }
        if reads == 0 {
            return Ok(());
        }
        if let Some(lane) = Lanes(reads).find(|&l| from[l as usize] & (size - 1) != 0) {
            return Err(misaligned(1 << lane, &from, size));
        }
        for lane in Lanes(reads) {
            let l = lane as usize;
            self.in_buffers(OpClass::Load, 1 << lane, &from, plan[l][1])?;
        }
        self.request(code, w, pc, op, &facts.memory, reads, StateSpace::Global, &only(&from, reads), (0, 1));
        self.requests.last_mut().operands = plan;
        self.outcome = Step::Access;
        Ok(())
    }

    /// The bytes at a lane's global address have arrived: `to` is where they go and how many were read.
    pub fn copy_arrived(&mut self, w: usize, to: [u64; 2], bytes: &[u8]) {
        if let Some(block) = self.blocks[self.warps[w].block].as_mut() {
            self.changes += u64::from(deliver(block, to, bytes) && self.watching);
        }
    }

    /// Arrivals at mbarrier objects whose copies have arrived.
    ///
    /// # Errors
    /// The object was invalidated, or awaits no arrival.
    pub fn arrivals_due(&mut self, w: usize) -> Result<(), (Pc, Violation)> {
        self.object_action = (NO_PC, ObjectAction::Count);
        while let Some(over) = self.warps[w].copies.as_mut().and_then(|copies| copies.arrived_bulk()) {
            let pc = over.bulk.pc;
            self.part_is_over(w, over).map_err(|violation| (pc, violation))?;
        }
        while let Some(arrival) = self.warps[w].copies.as_mut().and_then(|copies| copies.due()) {
            let at = arrival.address;
            let act = |word| after_copies(perform(MbarrierStep::Arrive, MbarrierOptions::default(), word, 1));
            self.act_on_object(w, arrival.lane, at, act).map_err(|violation| (arrival.pc, violation))?;
        }
        Ok(())
    }

    /// Makes generic addresses shared ones, and checks that `bytes` aligned bytes are there.
    pub(crate) fn to_shared(
        &self,
        w: usize,
        space: StateSpace,
        bytes: u64,
        lanes: LaneMask,
        places: &mut [u64; WARP_LANES],
    ) -> Result<(), Violation> {
        let size = self.blocks[self.warps[w].block].as_ref().map_or(0, |block| block.shared.len() as u64);
        for lane in Lanes(lanes) {
            let at = &mut places[lane as usize];
            if space == StateSpace::Generic {
                let inside = at.wrapping_sub(SHARED_WINDOW);
                if inside >= WINDOW_BYTES {
                    let reason = format!("generic address {at:#x} is not in the shared memory window");
                    return Err(Violation::new("env-readShared", 1 << lane, reason));
                }
                *at = inside;
            }
            if *at & (bytes - 1) != 0 {
                return Err(misaligned(1 << lane, places, bytes));
            }
            if at.checked_add(bytes).is_none_or(|end| end > size) {
                return Err(outside(1 << lane, places, bytes, size));
            }
        }
        Ok(())
    }
}

/// A reason that belongs to a later time than its instruction.
pub(super) fn after_copies<T>(done: Result<T, String>) -> Result<T, String> {
    done.map_err(|reason| format!("on completion of the asynchronous copies: {reason}"))
}

/// The address of each lane that a base and an offset give.
pub(crate) fn shared_addresses(
    warp: &Warp,
    code: &Code,
    base: Row,
    address: SharedAddress,
) -> [u64; WARP_LANES] {
    let offset = i64::from(address.offset);
    each(|lane| {
        let base = |bits| match base.is_some() {
            true => read_element(&warp.rows, &code.consts, base, lane as u32, bits),
            false => 0,
        };
        match address.wide {
            true => base(64).wrapping_add_signed(offset),
            false => u64::from((base(32) as u32).wrapping_add_signed(address.offset)),
        }
    })
}

/// Writes what a copy brought to shared memory: the bytes that were read, then zeros up to the
/// number of `bytes`. The place is one that was checked. True if it changes anything.
pub fn deliver(block: &mut Block, [at, read]: [u64; 2], bytes: &[u8]) -> bool {
    let mut filled = [0; 16];
    let read = (read as usize).min(bytes.len());
    filled[..read].copy_from_slice(&bytes[..read]);
    let new = &filled[..bytes.len()];
    let place = block.shared.bytes_mut().get_mut(at as usize..at as usize + new.len());
    place.is_some_and(|place| {
        let differs = *place != *new;
        place.copy_from_slice(new);
        differs
    })
}
