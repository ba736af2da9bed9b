//! Which split a scheduler issues: one that is ready and whose unit is free.

use sim_memory::vocabulary::Cycle;

use super::Sm;
use super::scheduler::MAX_SCHEDULERS;
use super::scheduler_state::SchedulerState;
use super::units::ROOM;
use crate::reconvergence::Reconvergence;

impl<P: Reconvergence> Sm<P> {
    /// The split a scheduler issues, whose slot is used then: one of those that can be scheduled and whose unit is free
    /// [sched-warps].
    #[inline(always)]
    pub(super) fn pick(&mut self, scheduler: usize, now: Cycle) -> Option<u32> {
        let forms = P::FORMS_WARPS && self.resident.policy.forms_warps();
        if self.live > 1 || forms {
            return self.pick_of_all(scheduler, now, forms);
        }
        let Self { scheduler_states, units, load_store, memory, finishing, stats, .. } = self;
        let state = &mut scheduler_states[scheduler % MAX_SCHEDULERS];
        let mut candidates = state.ready;
        if candidates == 0 || state.accounted > now {
            return None;
        }
        if !memory.accepting() {
            candidates &= !state.by_unit[*load_store];
        }
        if !units.all_free(scheduler, now) {
            // Without branches: the host compares several classes at once.
            let (mut busy, free) = (0, units.free(scheduler));
            for class in 0..ROOM {
                busy |= state.by_unit[class] & u64::from(free[class] > now).wrapping_neg();
            }
            candidates &= !busy;
        }
        let picked = state.picker.pick_of_first(candidates, &state.older)?;
        state.issues(now, !finishing.is_empty(), stats);
        Some(picked)
    }

    /// As [`pick`](Self::pick), from all words of places.
    #[inline(never)]
    fn pick_of_all(&mut self, scheduler: usize, now: Cycle, forms: bool) -> Option<u32> {
        let Self { scheduler_states, units, live, load_store, memory, .. } = self;
        let (live, accepting) = (*live, memory.accepting());
        let state = &mut scheduler_states[scheduler % MAX_SCHEDULERS];
        if state.accounted > now || state.ready_words().all(|word| word == 0) {
            return None;
        }
        let SchedulerState { candidates, by_unit, ready, more, .. } = state;
        let words =
            std::iter::once((&*ready, &*by_unit)).chain(more.iter().map(|(ready, units)| (ready, units)));
        let busy = |class: usize, free: Cycle| free > now || (class == *load_store && !accepting);
        let all = accepting && units.all_free(scheduler, now);
        for (candidates, (ready, sets)) in candidates.iter_mut().zip(words).take(live) {
            *candidates = *ready;
            if !all {
                for ((class, free), set) in units.free(scheduler).iter().enumerate().zip(sets) {
                    *candidates &= !(set & u64::from(busy(class, *free)).wrapping_neg());
                }
            }
        }
        if forms {
            self.keep_preferred(scheduler);
        }
        let Self { scheduler_states, finishing, stats, .. } = self;
        let state = &mut scheduler_states[scheduler % MAX_SCHEDULERS];
        let picked = state.picker.pick(&state.candidates[..live], &state.older)?;
        state.issues(now, !finishing.is_empty(), stats);
        Some(picked)
    }
}
