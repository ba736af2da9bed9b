//! The state of one warp scheduler: which of its splits are ready, which units their next operations need,
//! who is the oldest, and why nothing issues.
//!
//! A scheduler knows its splits by their *places* (see [`Sm::place`](super::Sm::place)). Those of the first
//! splits of all its warps lie in the first word of each set, and as most warps run as one split, most sets
//! have bits in that word only. So it lies here, in arrays that an index reaches without a check, and what
//! one issue touches shares few lines of the host's cache.

use sim_memory::vocabulary::Cycle;

use super::scheduler::{Older, Picker, WarpScheduler};
use super::states::{STATUSES, Status};
use super::stats::{SmStats, Stall};
use super::units::{OF_FIRST_CLASS, ROOM};
use crate::code::Queue;

/// Sets of 64 places, by the unit class that the next operation needs.
pub(super) type ByUnit = [u64; ROOM];

/// One scheduler's state.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
#[repr(C, align(64))]
pub(super) struct SchedulerState {
    /// Cycles before this one are accounted for.
    pub(super) accounted: Cycle,
    /// Splits whose next operation has its operands, of the first 64 places.
    pub(super) ready: u64,
    /// Splits by where they are.
    pub(super) counts: [u32; STATUSES],
    /// The first 64 places by unit class.
    pub(super) by_unit: ByUnit,
    pub(super) picker: Picker,
    /// The further words of `ready` and `by_unit`.
    pub(super) more: Vec<(u64, ByUnit)>,
    /// Room for the splits that may issue, by word.
    pub(super) candidates: Vec<u64>,
    /// Order of admission of the scheduler's warps.
    pub(super) older: Older,
}

impl SchedulerState {
    /// A scheduler without splits, its sets of `words` words, its warps `1 << local_shift` at most.
    pub(super) fn new(kind: WarpScheduler, words: usize, local_shift: u32) -> Self {
        Self {
            accounted: 0,
            ready: 0,
            counts: [0; STATUSES],
            by_unit: OF_FIRST_CLASS,
            picker: Picker::new(kind, words),
            more: vec![(0, OF_FIRST_CLASS); words.saturating_sub(1)],
            candidates: vec![0; words],
            older: Older::new(local_shift),
        }
    }

    /// Makes it what [`new`](Self::new) makes.
    pub(super) fn reset(&mut self) {
        let Self { accounted, ready, counts, by_unit, picker, more, candidates, older } = self;
        (*accounted, *ready, *counts, *by_unit) = (0, 0, [0; STATUSES], OF_FIRST_CLASS);
        picker.reset();
        more.fill((0, OF_FIRST_CLASS));
        candidates.fill(0);
        older.reset();
    }

    /// The ready splits of a word of places.
    #[inline(always)]
    pub(super) fn ready_word(&mut self, word: usize) -> &mut u64 {
        match word.checked_sub(1) {
            None => &mut self.ready,
            Some(word) => &mut self.more[word].0,
        }
    }

    /// The same, to look at.
    #[inline(always)]
    pub(super) fn ready_in(&self, word: usize) -> u64 {
        word.checked_sub(1).map_or(self.ready, |word| self.more[word].0)
    }

    /// A word of places by unit class.
    #[inline(always)]
    pub(super) fn units_of(&mut self, word: usize) -> &mut ByUnit {
        match word.checked_sub(1) {
            None => &mut self.by_unit,
            Some(word) => &mut self.more[word].1,
        }
    }

    /// A split goes from one status to another. `Absent` is counted too, modulo 2^32: nobody reads it.
    #[inline(always)]
    pub(super) fn changes(&mut self, from: Status, to: Status) {
        self.counts[from as usize] = self.counts[from as usize].wrapping_sub(1);
        self.counts[to as usize] = self.counts[to as usize].wrapping_add(1);
    }

    /// A split at a bit of a word of places goes from one queue to another.
    #[inline(always)]
    pub(super) fn moves(&mut self, word: usize, bit: u64, from: Queue, to: Queue) {
        let sets = self.units_of(word);
        sets[from.unit() % ROOM] &= !bit;
        sets[to.unit() % ROOM] |= bit;
    }

    /// The ready splits, by word.
    #[inline(always)]
    pub(super) fn ready_words(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        std::iter::once(self.ready).chain(self.more.iter().map(|(ready, _)| *ready))
    }

    /// A split is ready; only the first `live` words of places hold any.
    #[inline(always)]
    pub(super) fn any_ready(&self, live: usize) -> bool {
        self.ready != 0 || live > 1 && self.more.iter().any(|(ready, _)| *ready != 0)
    }

    /// Ready splits and splits by unit class, by word.
    pub(super) fn words(&self) -> impl Iterator<Item = (u64, &ByUnit)> {
        std::iter::once((self.ready, &self.by_unit))
            .chain(self.more.iter().map(|(ready, units)| (*ready, units)))
    }

    /// A split is ready.
    #[inline(always)]
    pub(super) fn is_ready(&self, place: u32) -> bool {
        self.ready_in(place as usize / 64) >> (place % 64) & 1 == 1
    }

    /// Accounts for idle issue slots up to `until`: they have the reason that the counts give,
    /// since these have not changed meanwhile.
    #[inline(always)]
    pub(super) fn account(&mut self, until: Cycle, finishing: bool, stats: &mut SmStats) {
        if self.accounted < until {
            stats.stalls[self.reason(finishing) as usize] += until - self.accounted;
            self.accounted = until;
        }
    }

    /// It issues at `now`: its slot of this cycle is used.
    #[inline(always)]
    pub(super) fn issues(&mut self, now: Cycle, finishing: bool, stats: &mut SmStats) {
        self.account(now, finishing, stats);
        self.accounted = now + 1;
    }

    /// Why nothing issues, once nothing does.
    fn reason(&self, finishing: bool) -> Stall {
        const ORDER: [(Status, Stall); 8] = [
            (Status::Ready, Stall::Unit),
            (Status::Dependency, Stall::Dependency),
            (Status::Fetch, Stall::Fetch),
            (Status::Memory, Stall::Memory),
            (Status::Drain, Stall::Drain),
            (Status::Collective, Stall::Collective),
            (Status::Barrier, Stall::Barrier),
            (Status::Sleep, Stall::Sleep),
        ];
        let found = ORDER.iter().find(|(status, _)| self.counts[*status as usize] != 0);
        found.map_or(if finishing { Stall::Finishing } else { Stall::Idle }, |(_, stall)| *stall)
    }
}
