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
}

impl Wheel {
    /// A wheel for splits `0..words * 64`.
    pub fn new(words: usize) -> Self {
        Self { ring: vec![0; words * SPAN as usize], words, occupied: 0, now: 0, far: BinaryHeap::new() }
    }

    /// Wakes `index` at `at`, which must not lie before the last cycle taken.
    #[inline]
    pub fn insert(&mut self, at: Cycle, index: u32) {
        debug_assert!(at >= self.now);
        if at - self.now < SPAN {
            let slot = (at % SPAN) as usize;
            self.ring[slot * self.words + index as usize / 64] |= 1 << (index % 64);
            self.occupied |= 1 << slot;
        } else {
            self.far.push(Reverse((at, index)));
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
    }

    /// The next cycle on which something wakes.
    #[inline]
    pub fn next(&self) -> Option<Cycle> {
        let near = (self.occupied != 0).then(|| {
            let turned = self.occupied.rotate_right((self.now % SPAN) as u32);
            self.now + u64::from(turned.trailing_zeros())
        });
        let far = self.far.peek().map(|Reverse((cycle, _))| *cycle);
        match (near, far) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }

    /// Moves time to `cycle` (no entry may lie before it) and gives what wakes then to `wake`,
    /// one word of 64 splits at a time.
    #[inline]
    pub fn take(&mut self, cycle: Cycle, mut wake: impl FnMut(usize, u64)) {
        debug_assert!(self.next().is_none_or(|next| next >= cycle));
        self.now = cycle;
        let slot = (cycle % SPAN) as usize;
        if self.occupied >> slot & 1 == 1 {
            self.occupied &= !(1 << slot);
            for word in 0..self.words {
                let bits = std::mem::take(&mut self.ring[slot * self.words + word]);
                if bits != 0 {
                    wake(word, bits);
                }
            }
        }
        while let Some(&Reverse((at, index))) = self.far.peek()
            && at == cycle
        {
            self.far.pop();
            wake(index as usize / 64, 1 << (index % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(wheel: &mut Wheel) -> Vec<(Cycle, u32)> {
        let mut out = Vec::new();
        while let Some(cycle) = wheel.next() {
            wheel.take(cycle, |word, mut bits| {
                while bits != 0 {
                    out.push((cycle, word as u32 * 64 + bits.trailing_zeros()));
                    bits &= bits - 1;
                }
            });
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
        wheel.take(250, |_, bits| assert_eq!(bits, 2));
        wheel.insert(300, 4);
        assert_eq!(drain(&mut wheel), vec![(300, 4), (300, 3)]);
    }
}
