//! The time wheel of one SM: which splits of which scheduler become ready at which cycle. Time
//! jumps to the next occupied cycle; cycles on which nothing happens cost nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sim_memory::vocabulary::Cycle;

/// Cycles the ring covers; longer waits go to the heap.
const SPAN: u64 = 128;

/// Wake-ups by cycle, one ring of bit sets and a heap for those far away.
#[derive(Debug)]
pub struct Wheel {
    /// `ring[(cycle % SPAN) * words ..][..words]`: splits that wake at `cycle`.
    ring: Vec<u64>,
    words: usize,
    /// Bit `cycle % SPAN`: the ring has an entry there.
    occupied: u128,
    /// Everything before this cycle has been taken.
    now: Cycle,
    far: BinaryHeap<Reverse<(Cycle, u32)>>,
    /// The first cycle of `far`.
    far_next: Cycle,
}

/// No cycle.
const NEVER: Cycle = Cycle::MAX;

impl Wheel {
    /// A wheel for splits `0..words * 64`.
    pub fn new(words: usize) -> Self {
        Self {
            ring: vec![0; words * SPAN as usize],
            words,
            occupied: 0,
            now: 0,
            far: BinaryHeap::new(),
            far_next: NEVER,
        }
    }

    /// Wakes `index` at `at`, which must not lie before the last cycle taken.
    #[inline(always)]
    pub fn insert(&mut self, at: Cycle, index: u32) {
        debug_assert!(at >= self.now);
        if at - self.now < SPAN {
            let slot = (at % SPAN) as usize;
            self.ring[slot * self.words + index as usize / 64] |= 1 << (index % 64);
            self.occupied |= 1 << slot;
        } else {
            self.far.push(Reverse((at, index)));
            self.far_next = self.far_next.min(at);
        }
    }

    /// Takes `index` out, wherever it waits: for aborts, which are rare.
    pub fn remove(&mut self, index: u32) {
        let (word, bit) = (index as usize / 64, 1u64 << (index % 64));
        for slot in 0..SPAN as usize {
            let entry = &mut self.ring[slot * self.words..][..self.words];
            entry[word] &= !bit;
            if entry.iter().all(|bits| *bits == 0) {
                self.occupied &= !(1 << slot);
            }
        }
        self.far.retain(|Reverse((_, other))| *other != index);
        self.far_next = self.far.peek().map_or(NEVER, |Reverse((at, _))| *at);
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

    /// Gives what wakes before `until`, as far as the ring knows.
    #[inline]
    pub fn upcoming(&self, until: Cycle, mut each: impl FnMut(u32)) {
        let slots = until.saturating_sub(self.now).min(SPAN);
        for slot in (self.now..self.now + slots).map(|cycle| (cycle % SPAN) as usize) {
            if self.occupied >> slot & 1 == 0 {
                continue;
            }
            for (word, &bits) in self.ring[slot * self.words..][..self.words].iter().enumerate() {
                let mut bits = bits;
                while bits != 0 {
                    each(word as u32 * 64 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
    }

    /// Moves time to `cycle` (no entry may lie before it); what wakes then goes to `woken`, one
    /// word for 64 splits. False if nothing wakes.
    #[inline(always)]
    pub fn take(&mut self, cycle: Cycle, woken: &mut [u64]) -> bool {
        debug_assert!(self.next().is_none_or(|next| next >= cycle));
        self.now = cycle;
        let slot = (cycle % SPAN) as usize;
        let mut any = self.occupied >> slot & 1 == 1;
        if any {
            self.occupied &= !(1 << slot);
            let ring = &mut self.ring[slot * self.words..][..self.words];
            for (to, bits) in woken.iter_mut().zip(ring) {
                *to = std::mem::take(bits);
            }
        }
        if self.far_next == cycle {
            if !any {
                woken.fill(0);
                any = true;
            }
            self.take_far(cycle, woken);
        }
        any
    }

    #[inline(never)]
    fn take_far(&mut self, cycle: Cycle, woken: &mut [u64]) {
        while let Some(&Reverse((at, index))) = self.far.peek()
            && at == cycle
        {
            self.far.pop();
            woken[index as usize / 64] |= 1 << (index % 64);
        }
        self.far_next = self.far.peek().map_or(NEVER, |Reverse((at, _))| *at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(wheel: &mut Wheel) -> Vec<(Cycle, u32)> {
        let mut out = Vec::new();
        while let Some(cycle) = wheel.next() {
            let mut woken = vec![0; wheel.words];
            assert!(wheel.take(cycle, &mut woken));
            for (word, mut bits) in woken.into_iter().enumerate() {
                while bits != 0 {
                    out.push((cycle, word as u32 * 64 + bits.trailing_zeros()));
                    bits &= bits - 1;
                }
            }
        }
        out
    }

    #[test]
    fn wakes_near_and_far_in_order() {
        let mut wheel = Wheel::new(2);
        let cycles = [5u64, 127, 128, 129, 1000, 7, 5, 100_000];
        for (i, &cycle) in cycles.iter().enumerate() {
            wheel.insert(cycle, i as u32 * 17);
        }
        let mut expected: Vec<(Cycle, u32)> =
            cycles.iter().enumerate().map(|(i, &c)| (c, i as u32 * 17)).collect();
        expected.sort_unstable();
        assert_eq!(drain(&mut wheel), expected);
    }

    #[test]
    fn a_far_entry_and_a_near_one_meet_on_one_cycle() {
        let mut wheel = Wheel::new(1);
        wheel.insert(300, 3);
        wheel.insert(250, 1);
        assert_eq!(wheel.next(), Some(250));
        let mut woken = [0];
        assert!(!wheel.take(249, &mut woken));
        assert!(wheel.take(250, &mut woken));
        assert_eq!(woken, [2]);
        wheel.insert(300, 4);
        assert_eq!(drain(&mut wheel), vec![(300, 3), (300, 4)]);
    }
}
