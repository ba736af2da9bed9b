//! `barrier.cluster` (PTX ISA): threads arrive and wait in two steps.

use sim_memory::observation::{ClusterAction, Event};
use sim_memory::vocabulary::LaneMask;

use super::resident::{Resident, Step};
use crate::cluster_barrier::CLUSTER;
use crate::error::Violation;
use crate::reconvergence::{Reconvergence, SplitId};

impl<P: Reconvergence> Resident<P> {
    /// `barrier.cluster.arrive` and `.wait`.
    pub(super) fn cluster_barrier(
        &mut self,
        split: SplitId,
        w: usize,
        (wait, releases): (bool, bool),
        exec: LaneMask,
    ) -> Result<Step, Violation> {
        let slot = self.warps[w].block;
        let odd = self.blocks[slot].as_ref().is_some_and(|block| block.cluster.odd);
        let odd = if odd { LaneMask::MAX } else { 0 };
        let warp = &mut self.warps[w];
        let wrong = if wait { exec & !warp.cluster_arrived } else { exec & warp.cluster_arrived };
        if wrong != 0 {
            let reason = match wait {
                true => "barrier.cluster.wait without a preceding barrier.cluster.arrive",
                false => "barrier.cluster.arrive executed twice without barrier.cluster.wait in between",
            };
            return Err(Violation::new("barrier-cluster", wrong, reason));
        }
        if !wait {
            warp.cluster_arrived |= exec;
            warp.cluster_parity = warp.cluster_parity & !exec | odd & exec;
            if let Some(block) = self.blocks[slot].as_mut() {
                block.cluster.arrived += exec.count_ones();
            }
            if releases {
                self.observe_cluster(w, exec, ClusterAction::Arrive, odd != 0);
            }
            self.advance(split, w)?;
            self.end_cluster_phase(slot);
            return Ok(Step::Done);
        }
        warp.cluster_arrived &= !exec;
        if !(warp.cluster_parity ^ odd) & exec == 0 {
            // The phase before the current one.
            self.observe_cluster(w, exec, ClusterAction::Waited, odd == 0);
            self.advance(split, w)?;
            return Ok(Step::Done);
        }
        self.park(split, w);
        self.waits[split] = 1 << CLUSTER;
        if let Some(block) = self.blocks[slot].as_mut() {
            block.cluster.waiting.push(split);
        }
        self.give_way(split);
        Ok(Step::Parked)
    }

    /// Threads end: they count as arrived in every phase (PTX ISA "barrier.cluster").
    pub(super) fn leave_cluster(&mut self, w: usize, lanes: LaneMask) {
        let warp = &mut self.warps[w];
        let arrived = warp.cluster_arrived & lanes;
        warp.cluster_arrived &= !lanes;
        // Those whose phase is over are not among the arrived of this one.
        let slot = warp.block;
        let parity = warp.cluster_parity;
        if let Some(block) = self.blocks[slot].as_mut() {
            let odd = if block.cluster.odd { LaneMask::MAX } else { 0 };
            block.cluster.arrived -= (arrived & !(parity ^ odd)).count_ones();
        }
        self.end_cluster_phase(slot);
    }

    /// What sanitizers follow.
    fn observe_cluster(&mut self, w: usize, lanes: LaneMask, action: ClusterAction, odd: bool) {
        if self.on_chip && lanes != 0 {
            self.observe_event(|| Event::ClusterBarrier { warp: w as u32, lanes, action, odd });
        }
    }

    /// The live threads of a block may all have arrived, or all its threads have ended: the other blocks of its cluster
    /// are told, and the next phase begins if they have arrived too.
    fn end_cluster_phase(&mut self, slot: usize) {
        let Some(block) = self.blocks[slot].as_mut() else { return };
        let all = block.cluster.arrived != 0 && block.cluster.arrived >= block.live_threads;
        if block.cluster.peers.is_some() {
            return self.tell_cluster(slot, all);
        }
        if all {
            self.next_cluster_phase(slot);
        }
    }

    /// The next phase begins in a block.
    pub(super) fn next_cluster_phase(&mut self, slot: usize) {
        let Some(block) = self.blocks[slot].as_mut() else { return };
        let odd = block.cluster.odd;
        let waiting = block.cluster.next_phase();
        if self.on_chip {
            for &split in &waiting {
                let (w, lanes) = (self.warp_of(split), self.policy.mask(split));
                // Some lanes may have been behind their phase when others of the split began to wait.
                let of_odd = lanes & self.warps[w].cluster_parity;
                let (over, earlier) = if odd { (of_odd, lanes & !of_odd) } else { (lanes & !of_odd, of_odd) };
                self.observe_cluster(w, over, ClusterAction::Waited, odd);
                self.observe_cluster(w, earlier, ClusterAction::Waited, !odd);
            }
        }
        for split in waiting {
            self.waits[split] = 0;
            self.resume(split);
        }
    }
}
