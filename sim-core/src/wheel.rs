//! The time wheel of one SM: which splits of which scheduler become ready at which cycle. Time
//! jumps to the next occupied cycle; cycles on which nothing happens cost nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read, Write};

use borsh::{BorshDeserialize, BorshSerialize};

use sim_memory::vocabulary::{Cycle, NEVER};

use crate::sm::scheduler::MAX_SCHEDULERS;

/// Cycles the ring covers; longer waits go to the heap.
const SPAN: usize = 128;

/// The words of a set with a bit for each cycle of the ring.
const OCCUPIED: usize = SPAN / 64;

/// Sets of 64 places of one scheduler, by `cycle % SPAN`.
type Ring = [u64; SPAN];

/// A set of 64 places of each scheduler.
pub type BySchedulers = [u64; MAX_SCHEDULERS];

/// Wake-ups by cycle: rings of bit sets, and a heap for those far away.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Wheel {
    /// By `cycle % SPAN`, for the first 64 places of each scheduler: most have no others. What wakes in one cycle shares a
    /// line of the host's cache. Arrays, so that an index that is masked needs no check.
    first: Box<[BySchedulers; SPAN]>,
    /// For the places from the 64th on: `more[(place / 64 - 1) * schedulers + scheduler]`.
    more: Vec<Ring>,
    schedulers: usize,
    /// Bit `cycle % SPAN`: a ring has an entry there.
    occupied: [u64; OCCUPIED],
    /// Everything before this cycle has been taken.
    now: Cycle,
    /// Cycle, scheduler, place.
    #[borsh(serialize_with = "write_far", deserialize_with = "read_far")]
    far: Far,
    /// The first cycle of `far`.
    far_next: Cycle,
}

/// The slot of a cycle in the rings.
#[inline(always)]
fn slot_of(cycle: Cycle) -> usize {
    cycle as usize % SPAN
}

/// What wakes later than the rings reach.
type Far = BinaryHeap<Reverse<(Cycle, u32, u32)>>;

/// In the order of waking: that of the heap is of no account.
fn write_far<W: Write>(far: &Far, writer: &mut W) -> std::io::Result<()> {
    let mut list: Vec<_> = far.iter().map(|Reverse(entry)| *entry).collect();
    list.sort_unstable();
    list.serialize(writer)
}

fn read_far<R: Read>(reader: &mut R) -> std::io::Result<Far> {
    Ok(Vec::deserialize_reader(reader)?.into_iter().map(Reverse).collect())
}

impl Wheel {
    /// A wheel for places `0..words * 64` of each scheduler, of which there are `MAX_SCHEDULERS` at most.
    pub fn new(schedulers: usize, words: usize) -> Self {
        debug_assert!((1..=MAX_SCHEDULERS).contains(&schedulers));
        Self {
            first: Box::new([[0; MAX_SCHEDULERS]; SPAN]),
            more: vec![[0; SPAN]; schedulers * words.saturating_sub(1)],
            schedulers,
            occupied: [0; OCCUPIED],
            now: 0,
            far: BinaryHeap::new(),
            far_next: NEVER,
        }
    }

    /// Forgets all wake-ups, and begins at cycle 0 again.
    pub fn reset(&mut self) {
        let Self { first, more, schedulers: _, occupied, now, far, far_next } = self;
        for slot in (0..SPAN).filter(|slot| occupied[slot / 64] >> (slot % 64) & 1 == 1) {
            first[slot] = [0; MAX_SCHEDULERS];
            more.iter_mut().for_each(|ring| ring[slot] = 0);
        }
        debug_assert!(first.iter().flatten().chain(more.iter().flatten()).all(|set| *set == 0));
        far.clear();
        (*occupied, *now, *far_next) = ([0; OCCUPIED], 0, NEVER);
    }

    /// Of a scheduler's places in a word, those that wake in a slot.
    #[inline(always)]
    fn set(&mut self, slot: usize, scheduler: usize, word: usize) -> &mut u64 {
        match word.checked_sub(1) {
            None => &mut self.first[slot % SPAN][scheduler % MAX_SCHEDULERS],
            Some(word) => &mut self.more[word * self.schedulers + scheduler][slot % SPAN],
        }
    }

    /// Wakes the place that is `bit` of a word of a scheduler's places at `at`, which must not lie before the
    /// last cycle taken.
    #[inline(always)]
    pub fn insert(&mut self, at: Cycle, scheduler: usize, word: usize, bit: u32) {
        debug_assert!(at >= self.now && bit < 64);
        if at - self.now < SPAN as Cycle {
            let slot = slot_of(at);
            *self.set(slot, scheduler, word) |= 1 << bit;
            self.occupied[slot / 64] |= 1 << (slot % 64);
        } else {
            self.insert_far(at, scheduler, word as u32 * 64 + bit);
        }
    }

    #[inline(never)]
    fn insert_far(&mut self, at: Cycle, scheduler: usize, place: u32) {
        self.far.push(Reverse((at, scheduler as u32, place)));
        self.far_next = self.far_next.min(at);
    }

    /// Takes a place out, wherever it waits: for aborts, which are rare.
    pub fn remove(&mut self, scheduler: usize, place: u32) {
        let bit = 1u64 << (place % 64);
        for slot in 0..SPAN {
            *self.set(slot, scheduler, place as usize / 64) &= !bit;
            let mut all = self.first[slot].iter().chain(self.more.iter().map(|ring| &ring[slot]));
            if all.all(|set| *set == 0) {
                self.occupied[slot / 64] &= !(1 << (slot % 64));
            }
        }
        self.far.retain(|Reverse((_, other, at))| (*other as usize, *at) != (scheduler, place));
        self.far_next = self.far.peek().map_or(NEVER, |Reverse((at, ..))| *at);
    }

    /// The next cycle on which something wakes; [`NEVER`] if nothing does.
    #[inline(always)]
    pub fn first(&self) -> Cycle {
        let [low, high] = self.occupied;
        if low | high == 0 {
            return self.far_next;
        }
        let occupied = u128::from(low) | u128::from(high) << 64;
        let turned = occupied.rotate_right(slot_of(self.now) as u32);
        self.far_next.min(self.now + Cycle::from(turned.trailing_zeros()))
    }

    /// The same; `None` if nothing wakes.
    pub fn next(&self) -> Option<Cycle> {
        let first = self.first();
        (first != NEVER).then_some(first)
    }

    /// Gives scheduler and place of what wakes before `until`, as far as the rings know; only the
    /// first `live` words of places hold any.
    #[inline]
    pub fn upcoming(&self, until: Cycle, live: usize, mut each: impl FnMut(usize, u32)) {
        let slots = until.saturating_sub(self.now).min(SPAN as Cycle);
        for slot in (self.now..self.now + slots).map(slot_of) {
            if self.occupied[slot / 64] >> (slot % 64) & 1 == 0 {
                continue;
            }
            let first = self.first[slot].iter().take(self.schedulers);
            let all = first.chain(self.more.iter().map(|ring| &ring[slot]));
            for (place, set) in all.take(live * self.schedulers).enumerate() {
                let (word, scheduler) = (place / self.schedulers, place % self.schedulers);
                let mut bits = *set;
                while bits != 0 {
                    each(scheduler, word as u32 * 64 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
    }

    /// Moves time to `cycle` (no entry may lie before it): the slot of the rings whose sets wake then,
    /// each to be taken.
    #[inline(always)]
    pub fn turn(&mut self, cycle: Cycle) -> Option<usize> {
        debug_assert!(self.next().is_none_or(|next| next >= cycle));
        self.now = cycle;
        let slot = slot_of(cycle);
        let (occupied, bit) = (&mut self.occupied[slot / 64], 1u64 << (slot % 64));
        if *occupied & bit == 0 {
            return None;
        }
        *occupied &= !bit;
        Some(slot)
    }

    /// Of the first 64 places of each scheduler, those that wake in a slot.
    #[inline(always)]
    pub fn take_first(&mut self, slot: usize) -> BySchedulers {
        std::mem::replace(&mut self.first[slot % SPAN], [0; MAX_SCHEDULERS])
    }

    /// Of one scheduler's places in a word, those that wake in a slot.
    #[inline(always)]
    pub fn take(&mut self, slot: usize, word: usize, scheduler: usize) -> u64 {
        std::mem::take(self.set(slot, scheduler, word))
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

    fn insert(wheel: &mut Wheel, at: Cycle, scheduler: usize, place: u32) {
        wheel.insert(at, scheduler, place as usize / 64, place % 64);
    }

    /// What wakes at a cycle.
    fn woken(wheel: &mut Wheel, cycle: Cycle) -> Vec<(Cycle, usize, u32)> {
        let mut out = Vec::new();
        if let Some(slot) = wheel.turn(cycle) {
            let words = 1 + wheel.more.len() / SCHEDULERS;
            for (word, scheduler) in (0..words).flat_map(|word| (0..SCHEDULERS).map(move |s| (word, s))) {
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
            insert(&mut wheel, cycle, i % SCHEDULERS, i as u32 * 17);
            expected.push((cycle, i % SCHEDULERS, i as u32 * 17));
        }
        let mut near = Vec::new();
        wheel.upcoming(100, 2, |scheduler, place| near.push((scheduler, place)));
        assert_eq!(near, [(0, 0), (0, 102), (2, 85)]);
        expected.sort_unstable();
        assert_eq!(drain(&mut wheel), expected);
    }

    /// What was inserted before does not wake, near or far, and what is inserted after does, as in a new wheel.
    #[test]
    fn a_wheel_that_was_reset_is_as_new() {
        for at in [5, 100, 5000] {
            let mut wheel = Wheel::new(SCHEDULERS, 2);
            insert(&mut wheel, 3, 0, 1);
            assert_eq!(woken(&mut wheel, 3), [(3, 0, 1)]);
            for place in [0, 63, 64, 100] {
                insert(&mut wheel, at, place as usize % SCHEDULERS, place);
            }
            wheel.reset();
            let mut new = Wheel::new(SCHEDULERS, 2);
            assert_eq!(wheel.next(), None);
            for wheel in [&mut wheel, &mut new] {
                insert(wheel, at, 1, 7);
                insert(wheel, 700, 2, 70);
            }
            let mut near = Vec::new();
            wheel.upcoming(u64::MAX, 2, |scheduler, place| near.push((scheduler, place)));
            let mut expected = Vec::new();
            new.upcoming(u64::MAX, 2, |scheduler, place| expected.push((scheduler, place)));
            assert_eq!(near, expected);
            assert_eq!(drain(&mut wheel), drain(&mut new));
        }
    }

    #[test]
    fn a_far_entry_and_a_near_one_meet_on_one_cycle() {
        let mut wheel = Wheel::new(SCHEDULERS, 1);
        insert(&mut wheel, 300, 2, 3);
        insert(&mut wheel, 250, 1, 1);
        assert_eq!(wheel.next(), Some(250));
        assert_eq!(woken(&mut wheel, 249), []);
        assert_eq!(woken(&mut wheel, 250), [(250, 1, 1)]);
        insert(&mut wheel, 300, 0, 4);
        assert_eq!(drain(&mut wheel), vec![(300, 0, 4), (300, 2, 3)]);
    }

    #[test]
    fn what_is_taken_out_does_not_wake() {
        let mut wheel = Wheel::new(SCHEDULERS, 2);
        for place in [1, 70] {
            insert(&mut wheel, 10, 1, place);
            insert(&mut wheel, 500, 1, place);
        }
        insert(&mut wheel, 10, 0, 1);
        wheel.remove(1, 70);
        assert_eq!(drain(&mut wheel.clone()), vec![(10, 0, 1), (10, 1, 1), (500, 1, 1)]);
        wheel.remove(1, 1);
        wheel.remove(0, 1);
        assert_eq!(wheel.next(), None);
    }
}
