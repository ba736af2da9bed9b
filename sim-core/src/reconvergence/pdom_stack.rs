//! The post-dominator stack (Levinthal and Porter 1984; Fung et al. 2007): one split a warp and a
//! stack of entries (pc, reconvergence pc, mask). A branch that divides the threads leaves its own
//! entry at the immediate post-dominator and pushes one entry for each path; a path that comes to
//! its reconvergence pc is popped.
//!
//! Threads that call together, some or all, to one function or several, meet at the instruction
//! after the call. Where the paths of a branch meet only at the function's end, they meet
//! where the entry below does.

use std::sync::Arc;

use sim_frontend::program::{ControlFlow, NO_PC, Pc};
use sim_memory::vocabulary::LaneMask;

#[cfg(test)]
use super::Corruption;
use super::multi_path::spill;
use super::parameters::parameters;
use super::plan::Plan;
use super::returns::{Group, Returns};
use super::{Cost, Holding, Issuing, LaneTargets, Reconvergence, SplitId, WarpSlots};
use crate::error::Violation;

/// A place in a program: an address, and the calls a thread is in there.
type At = (Pc, u32);

/// No reconvergence: the entry ends with its threads.
const NEVER: At = (NO_PC, 0);

/// One entry of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Entry {
    pc: Pc,
    depth: u32,
    /// Where it is popped.
    join: At,
    mask: LaneMask,
}

/// The stack of one warp.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Warp {
    /// The top; the others below it. Its mask is empty once all threads have ended.
    top: Option<Entry>,
    below: Vec<Entry>,
    returns: Returns,
    #[borsh(serialize_with = "crate::state::write_plan", deserialize_with = "crate::state::read_plan")]
    plan: Arc<Plan>,
}

parameters! {
    /// Parameters of `pdom_stack`.
    pub struct Parameters {
        depth: u32 = 32, 1..=4096, "entries a warp holds on chip before the oldest are spilled";
        spill_cycles: u32 = 0, 0..=10_000, "core cycles to move one entry to or from spill memory";
    }
}

/// The post-dominator stack.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct PdomStack {
    decoded: Vec<Issuing>,
    warps: Vec<Warp>,
    #[borsh(serialize_with = "sim_memory::links::named", deserialize_with = "sim_memory::links::linked")]
    parameters: Parameters,
    groups: Vec<Group>,
}

impl PdomStack {
    /// The top entry with the address the warp has come to.
    fn sync(&mut self, warp: usize) -> Option<Entry> {
        let top = self.warps[warp].top.as_mut()?;
        top.pc = self.decoded[warp].pc;
        Some(*top)
    }

    fn size(&self, warp: usize) -> u32 {
        let Warp { top, below, .. } = &self.warps[warp];
        below.len() as u32 + u32::from(top.is_some())
    }

    /// Pops what has come to its join or has no threads left, and makes the top known.
    fn settle(&mut self, warp: usize, before: u32) -> Cost {
        let state = &mut self.warps[warp];
        while let Some(top) = state.top {
            if top.mask != 0 && (top.pc, top.depth) != top.join {
                break;
            }
            state.top = state.below.pop();
        }
        self.decoded[warp] = match state.top {
            Some(Entry { pc, depth, join, mask }) => {
                Issuing { pc, stop: if join.1 == depth { join.0 } else { NO_PC }, mask }
            }
            None => NOBODY,
        };
        spill(before, self.size(warp), self.parameters.depth, self.parameters.spill_cycles)
    }

    /// The threads of the top entry go where the groups say, the first group first.
    fn moved(&mut self, warp: usize, call: bool) -> Cost {
        let before = self.size(warp);
        let groups = std::mem::take(&mut self.groups);
        let state = &mut self.warps[warp];
        if let Some(top) = state.top.take() {
            let join = match groups.as_slice() {
                [] => top.join,
                [_] if !call => top.join,
                _ => match state.plan.join(top.pc) {
                    Some(pc) => {
                        let join = (pc, top.depth);
                        if join != top.join {
                            state.below.push(Entry { pc, ..top });
                        }
                        join
                    }
                    None => top.join,
                },
            };
            for &Group { pc, depth, mask } in groups.iter().rev() {
                if (pc, depth) != join || join == top.join && groups.len() == 1 {
                    state.below.push(Entry { pc, depth, join, mask });
                }
            }
            state.top = state.below.pop();
        }
        self.groups = groups;
        self.settle(warp, before)
    }
}

/// What issues of a warp without threads.
const NOBODY: Issuing = Issuing { pc: 0, stop: NO_PC, mask: 0 };

impl Reconvergence for PdomStack {
    const FLOW: ControlFlow = ControlFlow::Plain;
    const WHOLE_WARP: bool = true;
    const SPLITS: usize = 1;

    type Parameters = Parameters;

    fn new(parameters: &Parameters, slots: WarpSlots) -> Self {
        let warps = slots.count;
        Self {
            decoded: vec![NOBODY; warps],
            warps: vec![Warp::default(); warps],
            parameters: *parameters,
            groups: Vec::new(),
        }
    }

    fn grow(&mut self, warps: usize) {
        self.decoded.resize(warps, NOBODY);
        self.warps.resize(warps, Warp::default());
    }

    fn admit(
        &mut self,
        warp: usize,
        _block: usize,
        lanes: LaneMask,
        plan: &Arc<Plan>,
        touched: &mut Vec<SplitId>,
    ) {
        let state = &mut self.warps[warp];
        state.below.clear();
        state.returns.clear();
        state.plan = Arc::clone(plan);
        state.top = Some(Entry { pc: plan.entry, depth: 0, join: NEVER, mask: lanes });
        self.settle(warp, 1);
        touched.push(warp as SplitId);
    }

    #[inline]
    fn lies_at(&self, split: SplitId) -> *const u8 {
        self.decoded
            .get(split as usize)
            .map_or(std::ptr::null(), |decoded| std::ptr::from_ref(decoded).cast())
    }

    #[inline]
    fn pc(&self, split: SplitId) -> Pc {
        self.decoded[split as usize].pc
    }

    #[inline]
    fn mask(&self, split: SplitId) -> LaneMask {
        self.decoded[split as usize].mask
    }

    #[inline]
    fn advance(&mut self, split: SplitId) -> bool {
        let decoded = &mut self.decoded[split as usize];
        decoded.pc += 1;
        decoded.pc == decoded.stop
    }

    #[inline]
    fn stop(&self, split: SplitId) -> Pc {
        self.decoded[split as usize].stop
    }

    #[inline]
    fn advance_by(&mut self, split: SplitId, count: Pc) {
        self.decoded[split as usize].pc += count;
    }

    fn arrived(&mut self, split: SplitId, _touched: &mut Vec<SplitId>) -> Cost {
        let warp = split as usize;
        self.sync(warp);
        let before = self.size(warp);
        self.settle(warp, before)
    }

    fn resumed(&mut self, split: SplitId, touched: &mut Vec<SplitId>) {
        // The barrier may have been the last instruction before the join.
        self.arrived(split, touched);
    }

    fn branched(
        &mut self,
        split: SplitId,
        to: &LaneTargets<'_>,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let warp = split as usize;
        let Some(Entry { pc, mask, .. }) = self.sync(warp) else { return Ok(Cost::default()) };
        if to.call {
            self.warps[warp].returns.call(to.lanes, pc + 1);
        }
        self.groups.clear();
        self.warps[warp].returns.branch(mask, pc, to, &mut self.groups);
        Ok(self.moved(warp, to.call && to.lanes != 0))
    }

    fn returned(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let warp = split as usize;
        let Some(Entry { pc, mask, .. }) = self.sync(warp) else { return Ok(Cost::default()) };
        let targets = self.warps[warp].returns.ret(lanes)?;
        self.groups.clear();
        self.warps[warp].returns.groups(lanes, |lane| targets[lane as usize], &mut self.groups);
        self.warps[warp].returns.group(mask & !lanes, pc + 1, &mut self.groups);
        Ok(self.moved(warp, false))
    }

    fn exited(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let warp = split as usize;
        let Some(Entry { pc, mask, .. }) = self.sync(warp) else { return Ok(Cost::default()) };
        let before = self.size(warp);
        let state = &mut self.warps[warp];
        state.below.iter_mut().for_each(|entry| entry.mask &= !lanes);
        if let Some(top) = state.top.as_mut() {
            *top = Entry { pc: pc + 1, mask: mask & !lanes, ..*top };
        }
        Ok(self.settle(warp, before))
    }

    fn threads(&self, warp: usize, visit: &mut dyn FnMut(Holding)) {
        let Warp { top, below, .. } = &self.warps[warp];
        let Some(top) = top else { return };
        visit(Holding { pc: self.decoded[warp].pc, mask: top.mask, waits: false });
        // An entry's threads that an entry above it holds run there.
        let mut above = top.mask;
        for entry in below.iter().rev().filter(|entry| entry.mask != 0) {
            if entry.mask & !above != 0 {
                visit(Holding { pc: entry.pc, mask: entry.mask & !above, waits: true });
            }
            above |= entry.mask;
        }
    }

    #[cfg(test)]
    fn corrupt(&mut self, split: SplitId, how: Corruption) -> bool {
        let (decoded, state) = (&mut self.decoded[split as usize], &mut self.warps[split as usize]);
        match (how, state.below.last_mut()) {
            (Corruption::DropLane, _) => {
                decoded.mask &= decoded.mask - 1;
                state.top = state.top.map(|top| Entry { mask: decoded.mask, ..top });
                true
            }
            (Corruption::Pop, Some(_)) => state.below.pop().is_some(),
            (Corruption::MoveTop, Some(top)) => {
                top.pc += 1;
                true
            }
            (_, None) => false,
        }
    }

    fn describe(&self, warp: usize) -> String {
        let Warp { top, below, .. } = &self.warps[warp];
        let in_words = |e: &Entry| {
            let join = if e.join.0 == NO_PC { "end".to_string() } else { e.join.0.to_string() };
            format!("({}, {join}, {:#x})", e.pc, e.mask)
        };
        let top = top.map(|top| Entry { pc: self.decoded[warp].pc, ..top });
        let entries: Vec<String> = top.iter().chain(below.iter().rev()).map(in_words).collect();
        format!("stack of (pc, reconvergence pc, mask) [{}]", entries.join(" :: "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Targets;
    use super::*;

    /// Threads that end on one path are in no entry below: the warp does not come to the join with
    /// them, and an entry all of whose threads ended is popped.
    #[test]
    fn threads_that_end_leave_every_entry() {
        let mut stack = PdomStack::new(&Parameters::default(), WarpSlots { count: 1, lanes: u32::MAX });
        let touched = &mut Vec::new();
        stack.admit(0, 0, 0b1111, &Arc::default(), touched);
        let entry = |pc, join, mask| Entry { pc, depth: 0, join, mask };
        stack.warps[0].below =
            vec![entry(90, NEVER, 0b1111), entry(50, (90, 0), 0b1111), entry(30, (50, 0), 0b0100)];
        stack.warps[0].top = Some(entry(10, (50, 0), 0b0011));
        stack.settle(0, 4);
        stack.exited(0, 0b0011, touched).expect("there is such a rule");
        let masks: Vec<LaneMask> = stack.warps[0].below.iter().map(|entry| entry.mask).collect();
        assert_eq!((masks, stack.mask(0), stack.pc(0)), (vec![0b1100, 0b1100], 0b0100, 30));
        assert_eq!(stack.held(0), (0b1100, 0));
        stack.exited(0, 0b0100, touched).expect("there is such a rule");
        assert_eq!((stack.mask(0), stack.pc(0)), (0b1000, 50));
        let to = LaneTargets { lanes: 0b1000, targets: Targets::One(90), call: false };
        stack.branched(0, &to, touched).expect("there is such a rule");
        assert_eq!((stack.mask(0), stack.pc(0), stack.size(0)), (0b1000, 90, 1));
        stack.exited(0, 0b1000, touched).expect("there is such a rule");
        assert_eq!((stack.mask(0), stack.size(0)), (0, 0));
    }
}
