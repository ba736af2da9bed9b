//! The return stacks of a warp's threads, for the policies that run the untransformed control
//! flow: each thread knows by itself where it goes back to. Threads that go to one address in the
//! same depth of calls are a group.

use sim_frontend::program::{NO_PC, Pc};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use super::{LaneTargets, Lanes, Targets};
use crate::error::Violation;

/// Threads that go to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Group {
    /// Address to return to.
    pub pc: Pc,
    /// Calls they are in there.
    pub depth: u32,
    /// Lanes that return there.
    pub mask: LaneMask,
}

/// One stack a thread.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Returns(Vec<Vec<Pc>>);

impl Returns {
    /// No thread is in a call.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(Vec::clear);
    }

    /// `lanes` call a function and come back to `pc`.
    pub fn call(&mut self, lanes: LaneMask, pc: Pc) {
        if self.0.is_empty() {
            self.0.resize_with(WARP_LANES, Vec::new);
        }
        Lanes(lanes).for_each(|lane| self.0[lane as usize].push(pc));
    }

    /// `lanes` return: where each goes.
    ///
    /// # Errors
    /// A thread is in no call.
    pub fn ret(&mut self, lanes: LaneMask) -> Result<[Pc; WARP_LANES], Violation> {
        let mut to = [NO_PC; WARP_LANES];
        for lane in Lanes(lanes) {
            to[lane as usize] = self.0.get_mut(lane as usize).and_then(Vec::pop).ok_or_else(|| {
                Violation::new("thr-return", 1 << lane, "return instruction with an empty call stack")
            })?;
        }
        Ok(to)
    }

    /// Calls a thread is in.
    pub fn depth(&self, lane: u32) -> u32 {
        self.0.get(lane as usize).map_or(0, |stack| stack.len() as u32)
    }

    /// Where the threads of `mask` go from a branch or call at `pc`: as `to` says, the others on.
    pub fn branch(&self, mask: LaneMask, pc: Pc, to: &LaneTargets<'_>, out: &mut Vec<Group>) {
        match to.targets {
            Targets::One(target) => self.group(to.lanes, target, out),
            Targets::PerLane(_) => self.groups(to.lanes, |lane| to.targets.of(lane), out),
        }
        self.group(mask & !to.lanes, pc + 1, out);
    }

    /// `lanes` all go to `pc`: as [`groups`](Self::groups).
    pub fn group(&self, lanes: LaneMask, pc: Pc, out: &mut Vec<Group>) {
        if !self.0.is_empty() || lanes == 0 {
            return self.groups(lanes, |_| pc, out);
        }
        match out.iter_mut().find(|group| group.pc == pc) {
            Some(group) => group.mask |= lanes,
            None => out.push(Group { pc, depth: 0, mask: lanes }),
        }
    }

    /// `lanes` by the address each goes to and the calls it is in, the group of the lowest lane first,
    /// after those that are in `out`.
    pub fn groups(&self, lanes: LaneMask, to: impl Fn(u32) -> Pc, out: &mut Vec<Group>) {
        for lane in Lanes(lanes) {
            let (pc, depth) = (to(lane), self.depth(lane));
            match out.iter_mut().find(|group| group.pc == pc && group.depth == depth) {
                Some(group) => group.mask |= 1 << lane,
                None => out.push(Group { pc, depth, mask: 1 << lane }),
            }
        }
    }
}
