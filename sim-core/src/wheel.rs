//! The time wheel of one SM: which splits of which scheduler become ready at which cycle. Time
//! jumps to the next occupied cycle; cycles on which nothing happens cost nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sim_memory::vocabulary::Cycle;

/// Cycles the ring covers; longer waits go to the heap.
const SPAN: u64 = 128;

/// Wake-ups by cycle, one ring of bit sets and a heap for those far away.
#[derive(Clone, Debug)]
pub struct Wheel {
    /// `ring[(word * SPAN + cycle % SPAN) * schedulers..][..schedulers]`: splits that wake at
    /// `cycle`, of 64 places of each scheduler. Most have bits in their first words only.
    ring: Vec<u64>,
    schedulers: usize,
    words: usize,
    /// Bit `cycle % SPAN`: the ring has an entry there.
    occupied: u128,
    /// Everything before this cycle has been taken.
    now: Cycle,
    /// Cycle, scheduler, place.
    far: BinaryHeap<Reverse<(Cycle, u32, u32)>>,
    /// The first cycle of `far`.
    far_next: Cycle,
}

/// The cycle of an event that never occurs.
const NEVER: Cycle = Cycle::MAX;

impl Wheel {
    /// A wheel for places `0..words * 64` of each scheduler.
    pub fn new(schedulers: usize, words: usize) -> Self {
        Self {
            ring: vec![0; schedulers * words * SPAN as usize],
            schedulers,
            words,
            occupied: 0,
            now: 0,
            far: BinaryHeap::new(),
            far_next: NEVER,
        }
    }

    /// Forgets all wake-ups, and begins at cycle 0 again.
    pub fn reset(&mut self) {
        let Self { ring, schedulers: _, words: _, occupied, now, far, far_next } = self;
        ring.fill(0);
        far.clear();
        (*occupied, *now, *far_next) = (0, 0, NEVER);
    }

    /// Where the sets of the schedulers begin.
    #[inline(always)]
    fn sets_at(&self, word: usize, slot: usize) -> usize {
        (word * SPAN as usize + slot) * self.schedulers
    }

    /// Wakes `place` of `scheduler` at `at`, which must not lie before the last cycle taken.
    #[inline(always)]
    pub fn insert(&mut self, at: Cycle, scheduler: usize, place: u32) {
        debug_assert!(at >= self.now);
        if at - self.now < SPAN {
            let slot = (at % SPAN) as usize;
            let sets = self.sets_at(place as usize / 64, slot);
            self.ring[sets + scheduler] |= 1 << (place % 64);
            self.occupied |= 1 << slot;
        } else {
            self.far.push(Reverse((at, scheduler as u32, place)));
            self.far_next = self.far_next.min(at);
        }
    }

    /// Takes a place out, wherever it waits: for aborts, which are rare.
    pub fn remove(&mut self, scheduler: usize, place: u32) {
        let (word, bit) = (place as usize / 64, 1u64 << (place % 64));
        for slot in 0..SPAN as usize {
            let own = self.sets_at(word, slot) + scheduler;
            self.ring[own] &= !bit;
            let mut all = (0..self.words).map(|word| self.sets_at(word, slot));
            if all.all(|sets| self.ring[sets..][..self.schedulers].iter().all(|bits| *bits == 0)) {
                self.occupied &= !(1 << slot);
            }
        }
        self.far.retain(|Reverse((_, other, at))| (*other as usize, *at) != (scheduler, place));
        self.far_next = self.far.peek().map_or(NEVER, |Reverse((at, ..))| *at);
    }

    /// The next cycle on which something wakes.
    #[inline(always)]
    pub fn next(&self) -> Option<Cycle> {
        let near = (self.occupied != 0).then(|| {
            let turned = self.occupied.rotate_right((self.now % SPAN) as u32);
            self.now + u64::from(turned.trailing_zeros())
        });
        let next = near.map_or(self.far_next, |near| near.min(self.far_next));
        (next != NEVER).then_some(next)
    }

    /// Gives scheduler and place of what wakes before `until`, as far as the ring knows; only the
    /// first `live` words of places hold any.
    #[inline]
    pub fn upcoming(&self, until: Cycle, live: usize, mut each: impl FnMut(usize, u32)) {
        let slots = until.saturating_sub(self.now).min(SPAN);
        for slot in (self.now..self.now + slots).map(|cycle| (cycle % SPAN) as usize) {
            if self.occupied >> slot & 1 == 0 {
                continue;
            }
            for word in 0..live {
                let sets = &self.ring[self.sets_at(word, slot)..][..self.schedulers];
                for (scheduler, &bits) in sets.iter().enumerate() {
                    let mut bits = bits;
                    while bits != 0 {
                        each(scheduler, word as u32 * 64 + bits.trailing_zeros());
                        bits &= bits - 1;
                    }
                }
            }
        }
    }

    /// Moves time to `cycle` (no entry may lie before it): the slot of the ring whose sets wake then,
    /// each to be taken.
    #[inline(always)]
    pub fn turn(&mut self, cycle: Cycle) -> Option<usize> {
        debug_assert!(self.next().is_none_or(|next| next >= cycle));
        self.now = cycle;
        let slot = (cycle % SPAN) as usize;
        let any = self.occupied >> slot & 1 == 1;
        self.occupied &= !(1 << slot);
        any.then_some(slot)
    }

    /// Of one scheduler's places in a word, those that wake in a slot.
    #[inline(always)]
    pub fn take(&mut self, slot: usize, word: usize, scheduler: usize) -> u64 {
        let at = self.sets_at(word, slot) + scheduler;
        std::mem::take(&mut self.ring[at])
    }

    /// Scheduler and place of one that wakes at `cycle` and was too far away for the ring.
    #[inline(always)]
    pub fn take_far(&mut self, cycle: Cycle) -> Option<(usize, u32)> {
        if self.far_next == cycle { self.pop_far() } else { None }
    }

    #[inline(never)]
    fn pop_far(&mut self) -> Option<(usize, u32)> {
        let Reverse((_, scheduler, place)) = self.far.pop()?;
        self.far_next = self.far.peek().map_or(NEVER, |Reverse((at, ..))| *at);
        Some((scheduler as usize, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULERS: usize = 3;

    /// What wakes at a cycle.
    fn woken(wheel: &mut Wheel, cycle: Cycle) -> Vec<(Cycle, usize, u32)> {
        let mut out = Vec::new();
        if let Some(slot) = wheel.turn(cycle) {
            for (word, scheduler) in (0..wheel.words).flat_map(|word| (0..SCHEDULERS).map(move |s| (word, s)))
            {
                let bits = wheel.take(slot, word, scheduler);
                let places = (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| word as u32 * 64 + bit);
                out.extend(places.map(|place| (cycle, scheduler, place)));
            }
        }
        while let Some((scheduler, place)) = wheel.take_far(cycle) {
            out.push((cycle, scheduler, place));
        }
        out
    }

    fn drain(wheel: &mut Wheel) -> Vec<(Cycle, usize, u32)> {
        let mut out = Vec::new();
        while let Some(cycle) = wheel.next() {
            let woken = woken(wheel, cycle);
            assert!(!woken.is_empty());
            out.extend(woken);
        }
        out.sort_unstable();
        out
    }

    #[test]
    fn wakes_near_and_far_in_order() {
        let mut wheel = Wheel::new(SCHEDULERS, 2);
        let cycles = [5u64, 127, 128, 129, 1000, 7, 5, 100_000];
        let mut expected = Vec::new();
        for (i, &cycle) in cycles.iter().enumerate() {
            wheel.insert(cycle, i % SCHEDULERS, i as u32 * 17);
            expected.push((cycle, i % SCHEDULERS, i as u32 * 17));
        }
        let mut near = Vec::new();
        wheel.upcoming(100, 2, |scheduler, place| near.push((scheduler, place)));
        assert_eq!(near, [(0, 0), (0, 102), (2, 85)]);
        expected.sort_unstable();
        assert_eq!(drain(&mut wheel), expected);
    }

    #[test]
    fn a_far_entry_and_a_near_one_meet_on_one_cycle() {
        let mut wheel = Wheel::new(SCHEDULERS, 1);
        wheel.insert(300, 2, 3);
        wheel.insert(250, 1, 1);
        assert_eq!(wheel.next(), Some(250));
        assert_eq!(woken(&mut wheel, 249), []);
        assert_eq!(woken(&mut wheel, 250), [(250, 1, 1)]);
        wheel.insert(300, 0, 4);
        assert_eq!(drain(&mut wheel), vec![(300, 0, 4), (300, 2, 3)]);
    }

    #[test]
    fn what_is_taken_out_does_not_wake() {
        let mut wheel = Wheel::new(SCHEDULERS, 2);
        for place in [1, 70] {
            wheel.insert(10, 1, place);
            wheel.insert(500, 1, place);
        }
        wheel.insert(10, 0, 1);
        wheel.remove(1, 70);
        assert_eq!(drain(&mut wheel.clone()), vec![(10, 0, 1), (10, 1, 1), (500, 1, 1)]);
        wheel.remove(1, 1);
        wheel.remove(0, 1);
        assert_eq!(wheel.next(), None);
    }
}
