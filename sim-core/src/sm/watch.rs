//! What an SM says of itself: faults with their places, what waits and why.

use sim_memory::observation::Event;
use sim_memory::vocabulary::Cycle;

use super::states::STATES;
use super::{Sm, Status};
use crate::error::{Fault, FaultKind, Location, Violation};
use crate::grid::Kernel;
use crate::liveness::waits_in_words;
use crate::reconvergence::Reconvergence;

impl<P: Reconvergence> Sm<P> {
    /// A memory fault at the access it names.
    #[cold]
    pub(super) fn memory_fault(&self, fault: &sim_memory::fault::MemoryFault) -> Box<Fault> {
        let entry = fault.access.and_then(|id| self.accesses.get(id));
        let lanes = fault.lane.map_or(0, |lane| 1 << lane);
        let violation = Violation::new(fault.rule, lanes, fault.reason.clone());
        let (warp, pc) = entry.map_or((0, 0), |e| (e.warp, e.pc));
        self.fault(warp, pc, &violation)
    }

    /// Begins the observation of memory, and of what stays on the SM. Which stores are read is observed if `follows`.
    pub fn observe(&mut self, on_chip: bool, follows: bool) {
        self.resident.on_chip = on_chip;
        self.memory.observe(self.index, self.resident.world.sms, follows);
        self.resident.observed = Some(Vec::new());
    }

    /// Logs that a block starts.
    #[cold]
    pub(super) fn log_block(&mut self, slot: usize, kernel: &Kernel, number: u64, now: Cycle) {
        let Some(block) = &self.resident.blocks[slot] else { return };
        let warps = block.warps.iter().map(|&w| (w as u32, self.resident.warps[w].threads)).collect();
        self.memory.log(now, Event::Block { grid: kernel.grid_id, number, warps });
    }

    /// `⊥` with its place.
    #[cold]
    pub fn fault(&self, warp: usize, pc: u32, violation: &Violation) -> Box<Fault> {
        let kind = violation.kind();
        let mut message = violation.reason.clone();
        if kind == FaultKind::CheckViolation {
            message.push_str(&format!("; state: {}", self.resident.policy.describe(warp)));
        }
        Box::new(Fault {
            kind,
            rule: violation.rule.to_string(),
            message,
            place: self.resident.where_is(warp, pc, violation.lanes, self.now),
        })
    }

    /// Cycle of the last thing that happened here.
    pub fn now(&self) -> Cycle {
        self.now
    }

    /// True if a block or another message is on its way here.
    pub fn expects_messages(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// True if an access issued before `since` is not over.
    pub fn waits_since(&self, since: Cycle) -> bool {
        self.accesses.any_older(since)
    }

    /// True if a block is resident.
    pub fn has_blocks(&self) -> bool {
        self.resident.blocks.iter().any(Option::is_some)
    }

    /// Issue slots of all kinds so far: `issued + Σ stalls`.
    pub fn slots(&self) -> u64 {
        self.stats.issued + self.stats.stalls.iter().sum::<u64>()
    }

    /// Warp instructions that are issued in a cycle at most.
    pub fn issues_per_cycle(&self) -> u64 {
        self.schedulers as u64 * (1 + u64::from(self.dual_issue))
    }

    /// Counts of splits by where they are, for messages: (name, splits).
    pub fn waiting(&self) -> Vec<(&'static str, u32)> {
        STATES
            .iter()
            .enumerate()
            .skip(1)
            .map(|(i, name)| (*name, self.scheduler_states.iter().map(|lane| lane.counts[i]).sum()))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// A split that waits, for messages about deadlocks: its warp, pc and why.
    pub fn first_waiting(&self) -> Option<(usize, Location, String)> {
        let split = self.status.splits().find(|&split| self.status[split] != Status::Absent)?;
        let warp = self.resident.warp_of(split);
        let pc = self.resident.policy.pc(split).saturating_sub(1);
        let mask = self.resident.policy.mask(split);
        let why = match self.status[split] {
            Status::Barrier | Status::Collective => waits_in_words(&self.resident, split),
            Status::Memory => "waits for memory".into(),
            Status::Drain => "waits until its earlier memory accesses are performed".into(),
            _ => "runs".into(),
        };
        Some((warp, self.resident.where_is(warp, pc, mask, self.now), why))
    }
}
