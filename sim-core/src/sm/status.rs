//! Where splits are: ready, waiting for results, memory, barriers or others, and how that changes.

use super::Sm;
use super::states::Status;
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
        self.ready[place as usize / 64 * self.schedulers + scheduler] >> (place % 64) & 1 == 1
    }

    /// A split goes from one status to another; whether it is ready has been noted.
    #[inline(always)]
    pub(super) fn set_status(&mut self, scheduler: usize, split: SplitId, old: Status, new: Status) {
        if old == new {
            return;
        }
        let state = &mut self.scheduler_states[scheduler];
        state.account(self.now, !self.finishing.is_empty(), &mut self.stats);
        // `Absent` is counted too, modulo 2^32: nobody reads it.
        state.counts[old as usize] = state.counts[old as usize].wrapping_sub(1);
        state.counts[new as usize] = state.counts[new as usize].wrapping_add(1);
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
        self.ready[word * self.schedulers + scheduler] |= bits;
        let state = &mut self.scheduler_states[scheduler];
        state.account(self.now, !self.finishing.is_empty(), &mut self.stats);
        state.counts[Status::Ready as usize] += bits.count_ones();
        state.counts[Status::Dependency as usize] =
            state.counts[Status::Dependency as usize].wrapping_sub(bits.count_ones());
        if state.counts[Status::Sleep as usize] != 0 || self.recorder.is_some() {
            self.wake_one_by_one(scheduler, word as u32 * 64, bits);
        }
    }

    /// What [`wake_ready`](Self::wake_ready) has left: those that slept, and what is written down.
    #[inline(never)]
    fn wake_one_by_one(&mut self, scheduler: usize, first: u32, bits: u64) {
        for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
            let split = self.split_at(scheduler, first + bit);
            if self.status[split] == Status::Sleep {
                self.status[split] = Status::Dependency;
                let counts = &mut self.scheduler_states[scheduler].counts;
                counts[Status::Sleep as usize] -= 1;
                counts[Status::Dependency as usize] = counts[Status::Dependency as usize].wrapping_add(1);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.state(split, Status::Ready as u8, self.now);
            }
        }
    }
}
