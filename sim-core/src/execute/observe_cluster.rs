//! What sanitizers are told of clusters: accesses to the shared memory of other blocks, and copies to it. An access is
//! told where it is sent, with what its threads know then; of strong accesses and of mbarrier objects it is told too where
//! they are performed.

use sim_frontend::program::{MemoryOp, Op, Pc};
use sim_memory::observation::Event;
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use super::bulk::counted_by;
use super::mbarrier::action;
use super::observe::kind_of;
use super::resident::Resident;
use crate::packet::{Does, RemoteAccess};
use crate::reconvergence::{Lanes, Reconvergence};

/// A bulk copy of a thread as sanitizers follow it.
#[derive(Clone, Copy)]
pub(super) struct Followed {
    /// Warp slot, lane and address of the instruction.
    pub by: (usize, u32, Pc),
    /// Where it goes in shared memory.
    pub to: u32,
    /// Its bytes.
    pub bytes: u32,
    /// The mbarrier object that counts them.
    pub object: u32,
    /// The last bit of the ranks whose blocks count, where some block's bytes are counted by the other one of its pair.
    pub parity: Option<u8>,
    /// It combines with what is there.
    pub reduces: bool,
    /// That by which it was held, where it waited for its tensor map.
    pub ticket: Option<u32>,
}

impl<P: Reconvergence> Resident<P> {
    /// Lanes access the block's own shared memory by addresses of the cluster: [`observe_step`](Self::observe_step) does
    /// not know these.
    pub(super) fn observe_own(
        &mut self,
        (w, pc): (usize, Pc),
        (op, facts): (&Op, &MemoryOp),
        lanes: LaneMask,
        offsets: &[u64; WARP_LANES],
    ) {
        let Some(kind) = kind_of(op, facts).filter(|_| self.on_chip) else { return };
        self.observe_event(|| Event::OnChip {
            origin: (w as u32, pc),
            space: sim_memory::vocabulary::StateSpace::Shared,
            kind,
            semantics: facts.semantics,
            scope: facts.scope,
            lanes,
            addresses: at_first(lanes, offsets),
            size: facts.element_bytes * facts.vector,
        });
    }

    /// An access, or an operation on mbarrier objects, is sent to the block of this number.
    pub(super) fn observe_remote(&mut self, block: u64, access: &RemoteAccess) {
        let Some(ticket) = access.ticket else { return };
        let (origin, lanes) = ((access.origin.slot as u32, access.origin.pc), access.lanes);
        if let Does::Count(step, _) = access.does {
            self.observe_event(|| Event::RemoteCount { origin, ticket, lanes, action: action(step) });
            return;
        }
        let op = &access.origin.code.program.ops[access.origin.pc as usize];
        let Some(facts) = op.extra.access() else { return };
        let Some(kind) = kind_of(op, facts) else { return };
        self.observe_event(|| Event::Remote {
            origin,
            ticket,
            block,
            kind,
            semantics: facts.semantics,
            scope: facts.scope,
            lanes,
            addresses: access.places().map(|at| at as u32),
            size: access.bytes as u8,
        });
    }

    /// `st.async` and `red.async` to the block of a rank.
    pub(super) fn observe_async_stores(&mut self, w: usize, access: &RemoteAccess, rank: u32, reduces: bool) {
        if !self.on_chip {
            return;
        }
        for lane in Lanes(access.lanes) {
            let l = lane as usize;
            let (to, object) = (access.addresses[l], access.operands[l][0] as u32);
            let by = (w, lane, access.origin.pc);
            let (bytes, parity, ticket) = (access.bytes, None, None);
            self.observe_bulk(1 << rank, Followed { by, to, bytes, object, parity, reduces, ticket });
        }
    }

    /// A copy is issued that begins when its tensor map has arrived: by its ticket it is known then.
    pub(super) fn observe_held(&mut self, (w, lane, pc): (usize, u32, Pc)) -> Option<u32> {
        if !self.on_chip {
            return None;
        }
        let ticket = self.tickets;
        self.tickets += 1;
        self.observe_event(|| Event::BulkHeld { origin: (w as u32, pc), lane, ticket });
        Some(ticket)
    }

    /// A copy that was held takes nothing of the tensor.
    pub(super) fn observe_dropped(&mut self, ticket: Option<u32>) {
        if let Some(ticket) = ticket {
            self.observe_event(|| Event::BulkDropped { ticket });
        }
    }

    /// A copy that an mbarrier object counts begins, to the blocks of these ranks.
    pub(super) fn observe_bulk(&mut self, ranks: u32, copy: Followed) {
        if !self.on_chip {
            return;
        }
        let Followed { by: (w, lane, pc), to, bytes, object, parity, reduces, ticket } = copy;
        let (own, _) = self.own_rank(w);
        let number = |rank| self.block_of_rank(w, rank).map(|(number, _)| number);
        let targets: Vec<_> = Lanes(ranks)
            .map(|rank| (number(rank).filter(|_| rank != own), counted_by(parity, rank).and_then(number)))
            .collect();
        for (block, counter) in targets {
            let origin = (w as u32, pc);
            self.observe_event(|| Event::Bulk {
                origin,
                lane,
                to,
                bytes,
                object,
                block,
                counter,
                reduces,
                ticket,
            });
        }
        self.observe_dropped(ticket);
    }

    /// A copy reads the shared memory of its block, to another block that counts it by an object there, or to global
    /// memory: the places that it writes.
    pub(super) fn observe_bulk_read(
        &mut self,
        (w, lane, pc): (usize, u32, Pc),
        (from, bytes): (u32, u32),
        counted: Option<(u32, u32)>,
        stored: &[(u64, u32)],
        ticket: Option<u32>,
    ) {
        if !self.on_chip {
            return;
        }
        let block = |rank| self.block_of_rank(w, rank).map(|(number, _)| number);
        let counted = counted.and_then(|(rank, object)| Some((block(rank)?, object)));
        let stored = stored.to_vec();
        let origin = (w as u32, pc);
        self.observe_event(|| Event::BulkRead { origin, lane, from, bytes, counted, stored, ticket });
        self.observe_dropped(ticket);
    }
}

/// Addresses of lanes; inactive ones are at that of the first active one.
fn at_first(lanes: LaneMask, offsets: &[u64; WARP_LANES]) -> [u32; WARP_LANES] {
    let first = offsets[crate::registers::first_lane(lanes)];
    std::array::from_fn(|lane| if lanes >> lane & 1 == 1 { offsets[lane] as u32 } else { first as u32 })
}
