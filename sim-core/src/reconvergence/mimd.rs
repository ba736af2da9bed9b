//! Every thread alone: each live lane is a split of its own with its own pc and return stack.
//! Nothing diverges, so nothing reconverges; what a program computes here is what each thread's
//! own control flow says. The reference that other policies are compared with.

use std::sync::Arc;

use sim_frontend::program::{ControlFlow, NO_PC, Pc};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

#[cfg(test)]
use super::Corruption;
use super::plan::Plan;
use super::{Cost, Holding, LaneTargets, Lanes, Reconvergence, SplitId, WarpSlots};
use crate::error::Violation;

const LANES: usize = WARP_LANES;

/// The state of one thread.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Thread {
    pc: Pc,
    live: bool,
    returns: Vec<Pc>,
}

/// The policy `mimd`: every thread executes independently.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Mimd {
    threads: Vec<Thread>,
}

impl Mimd {
    fn cost(&self, split: SplitId) -> Cost {
        let entries = self.threads[split as usize].returns.len() as u32;
        Cost { entries, ..Cost::default() }
    }
}

impl Reconvergence for Mimd {
    const FLOW: ControlFlow = ControlFlow::Plain;
    const WHOLE_WARP: bool = false;
    const SPLITS: usize = LANES;

    type Parameters = ();

    fn new(_: &(), slots: WarpSlots) -> Self {
        Self { threads: vec![Thread::default(); slots.count * LANES] }
    }

    fn grow(&mut self, warps: usize) {
        self.threads.resize(warps * LANES, Thread::default());
    }

    fn admit(
        &mut self,
        warp: usize,
        _block: usize,
        lanes: LaneMask,
        plan: &Arc<Plan>,
        touched: &mut Vec<SplitId>,
    ) {
        for lane in Lanes(lanes) {
            let split = warp * LANES + lane as usize;
            let thread = &mut self.threads[split];
            thread.pc = plan.entry;
            thread.live = true;
            thread.returns.clear();
            touched.push(split as SplitId);
        }
    }

    fn pc(&self, split: SplitId) -> Pc {
        self.threads[split as usize].pc
    }

    fn mask(&self, split: SplitId) -> LaneMask {
        if self.threads[split as usize].live { 1 << (split as usize % LANES) } else { 0 }
    }

    fn advance(&mut self, split: SplitId) -> bool {
        self.threads[split as usize].pc += 1;
        false
    }

    fn stop(&self, _split: SplitId) -> Pc {
        NO_PC
    }

    fn advance_by(&mut self, split: SplitId, count: Pc) {
        self.threads[split as usize].pc += count;
    }

    fn branched(
        &mut self,
        split: SplitId,
        to: &LaneTargets<'_>,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let thread = &mut self.threads[split as usize];
        if to.lanes == 0 {
            thread.pc += 1;
        } else {
            if to.call {
                thread.returns.push(thread.pc + 1);
            }
            thread.pc = to.targets.of((split as usize % LANES) as u32);
        }
        Ok(self.cost(split))
    }

    fn returned(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let thread = &mut self.threads[split as usize];
        if lanes == 0 {
            thread.pc += 1;
        } else {
            thread.pc = thread.returns.pop().ok_or_else(|| {
                Violation::new("thr-return", lanes, "return instruction with an empty call stack")
            })?;
        }
        Ok(self.cost(split))
    }

    fn exited(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let thread = &mut self.threads[split as usize];
        if lanes == 0 {
            thread.pc += 1;
        } else {
            thread.live = false;
        }
        Ok(self.cost(split))
    }

    fn threads(&self, warp: usize, visit: &mut dyn FnMut(Holding)) {
        for (lane, thread) in self.threads[warp * LANES..][..LANES].iter().enumerate() {
            if thread.live {
                visit(Holding { pc: thread.pc, mask: 1 << lane, waits: false });
            }
        }
    }

    #[cfg(test)]
    fn corrupt(&mut self, split: SplitId, how: Corruption) -> bool {
        self.threads[split as usize].live &= how != Corruption::DropLane;
        how == Corruption::DropLane
    }

    fn describe(&self, warp: usize) -> String {
        let threads: Vec<String> = self.threads[warp * LANES..][..LANES]
            .iter()
            .enumerate()
            .filter(|(_, thread)| thread.live)
            .map(|(lane, thread)| format!("{lane}:{}", thread.pc))
            .collect();
        format!("lane:pc {}", threads.join(" "))
    }
}
