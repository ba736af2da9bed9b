//! `mbarrier` (PTX ISA): operations on an object in the block's shared memory. They act at issue,
//! lane after lane, as shared atomics do.

use sim_frontend::form::MbarrierStep;
use sim_frontend::program::{Extra, MbarrierPlace, Op, Pc};
use sim_memory::address_space::of_cluster;
use sim_memory::observation::ObjectAction;
use sim_memory::vocabulary::{Cycle, LaneMask, StateSpace, WARP_LANES};

use super::access::addresses;
use super::resident::{Resident, Step};
use crate::code::Code;
use crate::error::Violation;
use crate::grid::Kernel;
use crate::mbarrier::perform;
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::{read_element, write_element, write_pred};

/// What an operation does, as far as it orders memory.
pub(super) fn action(step: MbarrierStep) -> ObjectAction {
    use MbarrierStep as M;
    match step {
        M::Init => ObjectAction::Init,
        M::Inval => ObjectAction::Inval,
        M::Arrive | M::ArriveDrop => ObjectAction::Arrive,
        M::TestWait | M::TryWait => ObjectAction::Wait(false),
        M::ExpectTx | M::CompleteTx | M::PendingCount => ObjectAction::Count,
    }
}

/// Bytes of an object.
const BYTES: u64 = 8;

impl<P: Reconvergence> Resident<P> {
    /// One `mbarrier` instruction.
    pub(super) fn mbarrier(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        op: &Op,
        mut exec: LaneMask,
    ) -> Result<(), Violation> {
        let Extra::Mbarrier(facts) = &op.extra else {
            return Err(Violation::new(
                "mbarrier",
                exec,
                "internal error: a decoded mbarrier operation has no operands",
            ));
        };
        self.outcome = Step::Done;
        let code = &*kernel.code;
        let operand = |rows: &[_], lane| match op.src[1].is_some() {
            true => read_element(rows, &code.consts, op.src[1], lane, facts.operand_bits.into()),
            false => 1,
        };
        let Some(place) = facts.place else {
            let warp = &mut self.warps[w];
            for lane in Lanes(exec) {
                let state = operand(&warp.rows, lane);
                let done = perform(facts.step, facts.options, 0, state);
                let (_, count) = done.map_err(|reason| Violation::new("mbarrier", 1 << lane, reason))?;
                write_element(&mut warp.rows, op.dst[0], lane, count, 32);
            }
            return Ok(());
        };
        let mut places =
            addresses(self.world.instruction_set, &self.warps[w], code, op, place.address_64, exec);
        self.without_window(place.space, exec, &mut places)?;
        let sent = self.outgoing.len();
        if places.iter().any(|at| of_cluster(*at).0.is_some()) {
            exec = self.mbarrier_of_cluster(kernel, w, pc, (op, facts), exec, &mut places)?;
        }
        self.to_shared(w, StateSpace::Shared, BYTES, exec, &mut places)?;
        self.object_action.1 = action(facts.step);
        let latencies = self.world.latency;
        let waits = matches!(facts.step, MbarrierStep::TestWait | MbarrierStep::TryWait);
        let (mut first, mut start) = (Cycle::MAX, self.now);
        for lane in Lanes(exec) {
            let at = places[lane as usize];
            let value = operand(&self.warps[w].rows, lane);
            let act = |word| perform(facts.step, facts.options, word, value);
            let result = self.act_on_object(w, lane, at, act)?;
            let warp = &mut self.warps[w];
            if op.dst[0].is_some() {
                write_element(&mut warp.rows, op.dst[0], lane, result, 64);
            }
            write_pred(&mut warp.preds, op.pdst[0], 1 << lane, if result != 0 { u32::MAX } else { 0 });
            warp.failed |= u32::from(facts.repeats && result == 0) << lane;
            if !waits {
                let own = self.locks.lock(at, BYTES as u32, self.now, latencies.atomic_interval);
                (first, start) = (first.min(own), start.max(own));
            }
        }
        // A wait reads as a load does.
        let own = if waits { latencies.shared } else { latencies.shared_atomic };
        let waited = (start - self.now).min((u32::MAX / 2).into()) as u32;
        self.lock_wait = start.saturating_sub(first).min((u32::MAX / 2).into()) as u32;
        self.outcome = Step::DoneAfter { latency: waited + own, occupancy: 1, turns: 1 };
        if self.outgoing.len() > sent {
            self.outcome = Step::Access;
        }
        Ok(())
    }

    /// The shared addresses of the objects that lanes name, which exist and are aligned.
    pub(crate) fn objects(
        &self,
        code: &Code,
        w: usize,
        op: &Op,
        place: MbarrierPlace,
        lanes: LaneMask,
    ) -> Result<[u64; WARP_LANES], Violation> {
        let mut places =
            addresses(self.world.instruction_set, &self.warps[w], code, op, place.address_64, lanes);
        self.to_shared(w, place.space, BYTES, lanes, &mut places)?;
        Ok(places)
    }

    /// Lane `lane` changes the object at a shared address that [`objects`](Self::objects) gave, as
    /// `act` says of its bytes; the result.
    ///
    /// # Errors
    /// Why it cannot.
    pub(super) fn act_on_object(
        &mut self,
        w: usize,
        lane: u32,
        at: u64,
        act: impl FnOnce(u64) -> Result<(u64, u64), String>,
    ) -> Result<u64, Violation> {
        let before = self.object(w, at);
        let (word, result) = act(before).map_err(|reason| {
            Violation::new("mbarrier", 1 << lane, format!("mbarrier at shared address {at:#x}: {reason}"))
        })?;
        self.set_object(w, at, word);
        if self.on_chip {
            self.observe_object(w, lane, at, [before, word], result);
        }
        Ok(result)
    }

    /// The bytes of an object.
    pub(crate) fn object(&self, w: usize, at: u64) -> u64 {
        let block = self.blocks[self.warps[w].block].as_ref();
        let bytes = block.and_then(|b| b.shared.bytes().get(at as usize..)?.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Writes them.
    fn set_object(&mut self, w: usize, at: u64, word: u64) {
        self.changes += u64::from(self.watching && self.object(w, at) != word);
        let block = self.blocks[self.warps[w].block].as_mut();
        let bytes = block.and_then(|b| b.shared.bytes_mut().get_mut(at as usize..)?.first_chunk_mut());
        if let Some(bytes) = bytes {
            *bytes = word.to_le_bytes();
        }
    }
}
