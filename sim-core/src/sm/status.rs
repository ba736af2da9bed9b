//! Where splits are: ready, waiting for results, memory, barriers or others, and how that changes.

use sim_memory::vocabulary::Cycle;

use super::Sm;
use super::next::Next;
use super::scheduler::MAX_SCHEDULERS;
use super::states::Status;
use crate::code::Queue;
use crate::reconvergence::{Reconvergence, SplitId};

impl<P: Reconvergence> Sm<P> {
    /// Where a split is.
    #[inline(always)]
    pub(super) fn status_of(&self, scheduler: usize, place: u32, split: SplitId) -> Status {
        match self.status[split] {
            Status::Dependency if self.is_ready(scheduler, place) => Status::Ready,
            other => other,
        }
    }

    /// A split has the operands of its next operation.
    #[inline(always)]
    pub(super) fn is_ready(&self, scheduler: usize, place: u32) -> bool {
        self.scheduler_states[scheduler % MAX_SCHEDULERS].is_ready(place)
    }

    /// A split goes from one status to another; whether it is ready has been noted.
    #[inline(always)]
    pub(super) fn set_status(&mut self, scheduler: usize, split: SplitId, old: Status, new: Status) {
        if old == new {
            return;
        }
        let state = &mut self.scheduler_states[scheduler % MAX_SCHEDULERS];
        state.account(self.now, !self.finishing.is_empty(), &mut self.stats);
        state.changes(old, new);
        let kept = |status| if status == Status::Ready { Status::Dependency } else { status };
        if kept(old) != kept(new) {
            self.status[split] = kept(new);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.state(split, new as u8, self.now);
        }
    }

    /// Splits of a scheduler, those of `bits` in a word of places, wake.
    #[inline(always)]
    pub(super) fn wake_ready(&mut self, scheduler: usize, word: usize, bits: u64) {
        let state = &mut self.scheduler_states[scheduler % MAX_SCHEDULERS];
        *state.ready_word(word) |= bits;
        state.account(self.now, !self.finishing.is_empty(), &mut self.stats);
        state.counts[Status::Ready as usize] += bits.count_ones();
        state.counts[Status::Dependency as usize] =
            state.counts[Status::Dependency as usize].wrapping_sub(bits.count_ones());
        let others = state.counts[Status::Sleep as usize] | state.counts[Status::Fetch as usize];
        if others != 0 || self.recorder.is_some() {
            self.wake_one_by_one(scheduler, word as u32 * 64, bits);
        }
    }

    /// What [`wake_ready`](Self::wake_ready) has left: those that slept or had no code, and what is written down.
    #[inline(never)]
    fn wake_one_by_one(&mut self, scheduler: usize, first: u32, bits: u64) {
        for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
            let split = self.split_at(scheduler, first + bit);
            let status = self.status[split];
            if matches!(status, Status::Sleep | Status::Fetch) {
                self.status[split] = Status::Dependency;
                let counts = &mut self.scheduler(scheduler).counts;
                counts[status as usize] -= 1;
                counts[Status::Dependency as usize] = counts[Status::Dependency as usize].wrapping_add(1);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.state(split, Status::Ready as u8, self.now);
            }
        }
    }

    /// Puts a split, which was at a status with an operation of a unit, where it waits for its next
    /// issue.
    #[inline(always)]
    pub(super) fn requeue(
        &mut self,
        scheduler: usize,
        place: u32,
        split: SplitId,
        before: (Status, Queue),
        next: Next,
        queue: Queue,
        horizon: Cycle,
    ) {
        if place < 64 {
            self.requeue_in::<true>(scheduler, place, split, before, next, queue, horizon);
        } else {
            self.requeue_beyond(scheduler, place, split, before, next, queue, horizon);
        }
    }

    /// As [`requeue`](Self::requeue), for a place beyond the first word of them.
    #[inline(never)]
    fn requeue_beyond(
        &mut self,
        scheduler: usize,
        place: u32,
        split: SplitId,
        before: (Status, Queue),
        next: Next,
        queue: Queue,
        horizon: Cycle,
    ) {
        self.live = self.live.max(place as usize / 64 + 1);
        self.requeue_in::<false>(scheduler, place, split, before, next, queue, horizon);
    }

    /// As [`requeue`](Self::requeue); `FIRST`: the place is in the first word.
    #[inline(always)]
    fn requeue_in<const FIRST: bool>(
        &mut self,
        scheduler: usize,
        place: u32,
        split: SplitId,
        (status, old): (Status, Queue),
        next: Next,
        queue: Queue,
        horizon: Cycle,
    ) {
        let word = if FIRST { 0 } else { place as usize / 64 };
        let bit = 1u64 << (place % 64);
        let Self { scheduler_states, queue_of, wheel, .. } = self;
        let state = &mut scheduler_states[scheduler % MAX_SCHEDULERS];
        if old != queue {
            state.moves(word, bit, old, queue);
            queue_of[split] = queue;
        }
        let ready = state.ready_word(word);
        let new = match next {
            Next::At(at) | Next::Fetch(at) if at <= horizon => {
                *ready |= bit;
                Status::Ready
            }
            Next::At(at) | Next::Fetch(at) => {
                *ready &= !bit;
                wheel.insert(at, scheduler, word, place % 64);
                if matches!(next, Next::Fetch(_)) { Status::Fetch } else { Status::Dependency }
            }
            Next::Memory | Next::Drain => {
                *ready &= !bit;
                state.picker.long_wait(place);
                if matches!(next, Next::Memory) {
                    Status::Memory
                } else {
                    self.await_accesses(split);
                    Status::Drain
                }
            }
        };
        self.set_status(scheduler, split, status, new);
    }
}
