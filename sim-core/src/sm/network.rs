//! The network between the SMs of a GPC: packets to blocks of clusters leave by a port of limited width and travel for a
//! fixed time.

use sim_frontend::chip::ChipSpec;
use sim_memory::vocabulary::Cycle;

use crate::packet::Packet;

/// An SM's port to the network.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub(super) struct Network {
    /// Cycles that a packet travels.
    hop: Cycle,
    /// Cycles of an access to shared memory.
    pub(super) shared: Cycle,
    bytes_per_cycle: u64,
    /// Bytes that the port could have sent since cycle 0 when it has sent all it has.
    sent: u64,
    /// Packets that left since they were last taken: cycle of arrival, SM, packet.
    pub(super) out: Vec<(Cycle, u32, Packet)>,
    /// Grids that were aborted: what is wrong with packets that their blocks still send each other is no fault.
    pub(super) aborted: Vec<u32>,
}

impl Network {
    pub(super) fn new(chip: &ChipSpec) -> Option<Box<Self>> {
        let spec = chip.cluster.as_ref()?;
        let shared = chip.memory.shared.latency;
        Some(Box::new(Self {
            hop: spec.hop(shared).into(),
            shared: shared.into(),
            bytes_per_cycle: spec.bytes_per_cycle.into(),
            sent: 0,
            out: Vec::new(),
            aborted: Vec::new(),
        }))
    }

    pub(super) fn reset(&mut self) {
        let Self { hop: _, shared: _, bytes_per_cycle: _, sent, out, aborted } = self;
        *sent = 0;
        out.clear();
        aborted.clear();
    }

    /// A grid is aborted.
    pub(super) fn abort(&mut self, grid_id: u32) {
        self.aborted.push(grid_id);
    }

    /// Sends a packet at `now`, or where it takes time to make it, `later`.
    pub(super) fn send(&mut self, now: Cycle, later: Cycle, packet: Packet) {
        let begin = self.sent.max(now * self.bytes_per_cycle);
        self.sent = begin + packet.bytes();
        let last = (self.sent - 1) / self.bytes_per_cycle;
        self.out.push((last + later + self.hop, packet.sm, packet));
    }
}
