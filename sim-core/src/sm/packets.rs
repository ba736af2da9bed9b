//! Packets between the SMs of a GPC: what an SM sends for its blocks, and what it does for those of other SMs, in the order
//! (cycle of arrival, sending SM, sequence).

use sim_frontend::form::MbarrierStep;
use sim_frontend::program::OpClass;
use sim_memory::vocabulary::{Cycle, Semantics, WARP_LANES};

use super::accesses::{ALONE, InFlight, port};
use super::{Sm, SmMessage};
use crate::code::{Drain, acquires};
use crate::error::Fault;
use crate::packet::{Does, Packet, RemoteAccess, What};
use crate::reconvergence::{Reconvergence, SplitId};

/// Where a message comes from, in the order in which those of one cycle take effect: the dispatcher, then the
/// SMs, then the unit of bulk copies.
fn source(message: &SmMessage) -> u32 {
    match message {
        SmMessage::Packet { from, .. } => from + 1,
        SmMessage::Tma => u32::MAX,
        _ => 0,
    }
}

impl<P: Reconvergence> Sm<P> {
    /// Gives the packets that left since the last call: cycle of arrival, SM, packet.
    pub fn take_packets(&mut self, sink: impl FnMut((Cycle, u32, Packet))) {
        if let Some(network) = &mut self.network {
            network.out.drain(..).for_each(sink);
        }
    }

    /// A packet of SM `from` that arrives at `at`.
    pub fn deliver_packet(&mut self, at: Cycle, from: u32, packet: Packet) {
        self.deliver(at, SmMessage::Packet { from, packet });
    }

    /// A message that does not arrive after all others.
    #[cold]
    pub(super) fn deliver_before_others(&mut self, at: Cycle, message: SmMessage) {
        let key = (at, source(&message));
        let place = self.inbox.partition_point(|(at, other)| (*at, source(other)) <= key);
        self.inbox.insert(place, (at, message));
    }

    /// True if a message takes effect before the last one of those that are on their way.
    pub(super) fn overtakes(&self, at: Cycle, message: &SmMessage) -> bool {
        self.inbox.back().is_some_and(|(last, other)| (*last, source(other)) > (at, source(message)))
    }

    /// Sends what the last step left for other blocks; accesses that are answered are in flight until then.
    #[cold]
    #[inline(never)]
    pub(super) fn send_packets(&mut self, now: Cycle) {
        for mut packet in std::mem::take(&mut self.resident.outgoing) {
            if let What::Access(access) = &mut packet.what
                && access.does == Does::Access
            {
                self.stats.remote.accesses += 1;
                self.begin_remote(access, now);
            }
            self.stats.remote.packets += 1;
            if let Some(network) = &mut self.network {
                network.send(now, 0, packet);
            }
        }
    }

    fn begin_remote(&mut self, access: &mut RemoteAccess, now: Cycle) {
        let (w, pc, lanes) = (access.origin.slot, access.origin.pc, access.lanes);
        let warp = &mut self.resident.warps[w];
        let code = &self.resident.kernels[warp.kernel].code;
        let (decoded, op) = (&code.decoded[pc as usize], &code.program.ops[pc as usize]);
        // The packet has the data of a store.
        let stores = op.class == OpClass::Store;
        if !stores {
            warp.board.block(decoded.blocking(), lanes);
        }
        warp.outstanding.begin(lanes);
        let (volatile, acquires) = (decoded.drain == Drain::Volatile, acquires(op.class, &op.extra));
        if volatile {
            warp.outstanding.begin_volatile(lanes);
        }
        if acquires {
            warp.outstanding.begin_acquire(lanes);
        }
        access.access = self.accesses.begin(
            InFlight {
                warp: w,
                pc,
                lanes,
                blocked: if stores { 0 } else { lanes },
                pending: lanes,
                issued: now,
                part: 0,
                parts: 1,
                group: ALONE,
                copy: false,
                volatile,
                acquires,
                write: None,
            },
            &[0; WARP_LANES],
        );
    }

    /// A packet arrives.
    #[cold]
    #[inline(never)]
    pub(super) fn receive_packet(&mut self, packet: Packet) -> Result<(), Box<Fault>> {
        let now = self.now;
        let Packet { grid_id, number, .. } = packet;
        match packet.what {
            What::Arrived { rank, odd } => {
                // What the block wrote to global memory before is seen from here on: old lines go.
                self.memory.flush_l1();
                self.resident.touched.clear();
                self.resident.hear_of_cluster(grid_id, number, rank, odd);
                self.reschedule_touched(SplitId::MAX, now, self.barrier_latency);
            }
            What::Access(mut access) => {
                let aborted = self.network.as_ref().is_some_and(|n| n.aborted.contains(&grid_id));
                let degree = match self.resident.serve(grid_id, number, &mut access) {
                    Err(_) if aborted => 1,
                    served => served.map_err(|violation| access.origin.fault(&violation, self.index, now))?,
                };
                if !self.resident.outgoing.is_empty() {
                    self.send_packets(now);
                }
                if releases(&access) {
                    self.memory.flush_l1();
                }
                if access.does == Does::Access
                    && let Some(network) = &mut self.network
                {
                    let packet = Packet { grid_id, number, sm: access.origin.sm, what: What::Answer(access) };
                    self.stats.remote.packets += 1;
                    network.send(now, network.shared + Cycle::from(degree) - 1, packet);
                }
            }
            What::Answer(access) => {
                self.resident.accept(&access);
                let op = &access.origin.code.program.ops[access.origin.pc as usize];
                if acquires(op.class, &op.extra) {
                    self.memory.flush_l1();
                }
                let mut port = port!(self);
                port.answered(access.access, now);
                self.wake_waiting(now)?;
            }
        }
        self.log_barriers(now);
        Ok(())
    }
}

/// True if other blocks may see by this access what its thread wrote before.
fn releases(access: &RemoteAccess) -> bool {
    let op = &access.origin.code.program.ops[access.origin.pc as usize];
    match access.does {
        Does::Count(step, _) => matches!(step, MbarrierStep::Arrive | MbarrierStep::ArriveDrop),
        Does::Async => false,
        Does::Access => op.extra.access().is_some_and(|facts| {
            matches!(facts.semantics, Semantics::Release | Semantics::AcqRel | Semantics::Sc)
        }),
    }
}
