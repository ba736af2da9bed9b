//! Runs of data operations, which are issued together.
//!
//! Where a scheduler stays with its last split as long as that can issue, as `gto` does, what a split issues in the next cycles does
//! not depend on anything but its own registers and units of the scheduler's own. So the operations that follow one which has
//! been issued are issued with it, each at its cycle: nobody can see the registers of its threads meanwhile but loads on
//! their way, whose registers block. What the issue of each needs is looked up once for all of them.

use sim_frontend::program::Pred;
use sim_memory::vocabulary::Cycle;

use super::ahead::prefetch_operands;
use super::scheduler::MAX_SCHEDULERS;
use super::{Sm, Status};
use crate::execute::Resident;
use crate::instruction_set::InstructionSet;
use crate::lanes::file::LaneFile;
use crate::monitor::Check;
use crate::reconvergence::{Reconvergence, SplitId};
use crate::registers::guard;
use crate::scoreboard::Readiness;
use crate::warp::Warp;

/// A scheduler's turn, in which it issues an operation that leads others.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) scheduler: usize,
    pub(super) place: u32,
    pub(super) split: SplitId,
    pub(super) now: Cycle,
}

impl<P: Reconvergence> Sm<P> {
    /// Whether operations of a split are issued together in the cycles to come: where nobody looks at each of them, and no other
    /// split of its warp or scheduler comes between.
    pub(super) fn runs_on(&self) -> bool {
        #[cfg(test)]
        if crate::literal::follows() {
            return false;
        }
        let checks = matches!(self.resident.world.check, Check::Off | Check::Safety);
        let alone = P::SPLITS == 1 && !P::FORMS_WARPS && !self.dual_issue;
        let stays = self.scheduler_states[..self.schedulers].iter().all(|state| state.picker.stays());
        checks && alone && stays && self.recorder.is_none()
    }

    /// [`run_on`](Self::run_on), compiled for this host.
    #[inline(always)]
    pub(super) fn run_on_for_host(&mut self, run: Run) -> bool {
        match self.instruction_set {
            InstructionSet::Baseline => self.run_on(run),
            // SAFETY: the set is one that `InstructionSet::available` found on this host, and both sets hold these features.
            #[allow(unsafe_code, reason = "the issue loop is compiled for the host's bit operations")]
            InstructionSet::Avx2Fma | InstructionSet::Avx512 => unsafe { self.run_on_avx2(run) },
        }
    }

    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt"))]
    #[inline(never)]
    #[allow(unsafe_code, reason = "callers must have the features")]
    unsafe fn run_on_avx2(&mut self, run: Run) -> bool {
        self.run_on(run)
    }

    /// Issues the next operations of a split as long as they are quick and none has to wait. False, and nothing has been done, where
    /// the first one is not for it.
    #[inline(always)]
    fn run_on(&mut self, Run { scheduler, place, split, now }: Run) -> bool {
        let Self {
            resident, stats, units, queue_of, scheduler_states, wheel, inbox, ahead, runs_until, ..
        } = self;
        let w = resident.warp_of(split);
        let Resident { policy, warps, kernels, expected, world, .. } = resident;
        let (pc, mask, stop) = (policy.pc(split), policy.mask(split), policy.stop(split));
        let warp = &mut warps[w];
        let kernel = &*kernels[warp.kernel];
        let code = &*kernel.code;
        let (Some(first), expected) = (code.decoded.get(pc as usize), &mut expected[split]) else {
            return false;
        };
        let safe = world.check == Check::Safety;
        if safe && *expected != first.base_pc {
            return false;
        }
        // A message may end the run of the threads, and the policy has a say behind the last operation before its address.
        let until = inbox.front().map_or(*runs_until, |(at, _)| (*runs_until).min(*at));
        let before_stop = if stop > pc { u64::from(stop - pc) - 1 } else { u64::MAX };
        let mut left = before_stop.min(until.saturating_sub(now));
        // They leave no trace in units: they take one cycle of such as are the scheduler's own.
        let own = units.own(scheduler, now);
        let Warp { rows, preds, board, .. } = &mut *warp;
        let mut file = LaneFile { rows, consts: &kernel.consts, preds };
        let (mut at_pc, mut at, mut idle, mut next) = (pc as usize, now, 0, first);
        let mut ready = Readiness::At(now);
        while left > 0 && ready == Readiness::At(at) && next.quick() && own >> next.unit & 1 == 1 {
            let current = next;
            let (Some(op), Some(behind)) = (code.ops.get(at_pc), code.decoded.get(at_pc + 1)) else { break };
            (next, at_pc, at, left) = (behind, at_pc + 1, at + 1, left - 1);
            let mut exec = mask;
            if current.guard != Pred::TRUE {
                exec &= guard(current.guard, file.preds);
                idle += (mask & !exec).count_ones();
            }
            current.write(board, exec, at - 1, at - 1 + Cycle::from(current.latency));
            ready = next.readiness(board, mask, at);
            if let Some(lane) = current.lane {
                // SAFETY: as in `Resident::step`.
                #[allow(unsafe_code, reason = "lane functions carry target features")]
                unsafe {
                    lane(&mut file, op, exec);
                }
            }
        }
        let done = at_pc as u32 - pc;
        if done == 0 {
            return false;
        }
        if *ahead {
            prefetch_operands(warp, next);
        }
        if safe {
            *expected += done;
        }
        policy.advance_by(split, done);
        let (done, lanes) = (u64::from(done), u64::from(mask.count_ones()));
        stats.issued += done - 1;
        let counts = &mut stats.kernels[kernel.grid_id as usize];
        counts.warp_instructions += done;
        counts.machine_instructions += done;
        counts.active_lanes += done * lanes;
        counts.thread_instructions += done * lanes - u64::from(idle);
        let state = &mut scheduler_states[scheduler % MAX_SCHEDULERS];
        state.accounted = at;
        let (old, queue) = (first.queue, next.queue);
        let (Readiness::At(ready), 0..64) = (ready, place) else {
            self.requeue(scheduler, place, split, (Status::Ready, old), ready.into(), queue, at);
            return true;
        };
        // As `requeue` does; the slots up to `at` are accounted for.
        let bit = 1 << place;
        if old != queue {
            state.moves(0, bit, old, queue);
            queue_of[split] = queue;
        }
        if ready > at {
            state.ready &= !bit;
            state.changes(Status::Ready, Status::Dependency);
            wheel.insert(ready, scheduler, 0, place);
        }
        true
    }

    /// Instructions of a grid that have been issued for cycles to come, seen in cycle `now`.
    #[cold]
    pub(super) fn issued_early(&self, grid_id: u32, now: Cycle) -> u64 {
        let mut early = 0;
        for (scheduler, state) in self.scheduler_states[..self.schedulers].iter().enumerate() {
            let seen = if scheduler < self.turned { now + 1 } else { now };
            let last = state.picker.last();
            if state.accounted <= seen || last == u32::MAX {
                continue;
            }
            let warp = &self.resident.warps[self.resident.warp_of(self.split_at(scheduler, last))];
            if self.resident.kernels[warp.kernel].grid_id == grid_id {
                early += state.accounted - seen;
            }
        }
        early
    }
}
