//! Values by split, laid out so that the first splits of all warps lie side by side: most warps run
//! as one split, and what the issue loop reads of them shares the host's cache lines.

use std::ops::{Index, IndexMut};

use crate::reconvergence::SplitId;

/// One value a split.
#[derive(Clone, Debug)]
pub struct BySplit<T> {
    /// The first splits of all warps, then the second ones, and so on.
    values: Vec<T>,
    warps: usize,
    /// log2 of the splits per warp.
    split_shift: u32,
    /// log2 of the warps, rounded up.
    warp_shift: u32,
}

impl<T: Clone> BySplit<T> {
    /// `value` for each of `splits_per_warp` splits, a power of two, of `warps` warps.
    pub fn new(warps: usize, splits_per_warp: usize, value: T) -> Self {
        let warp_shift = warps.next_power_of_two().trailing_zeros();
        let values = match splits_per_warp {
            1 => warps,
            several => several << warp_shift,
        };
        Self { values: vec![value; values], warps, split_shift: splits_per_warp.trailing_zeros(), warp_shift }
    }
}

impl<T> BySplit<T> {
    /// All splits, those of a warp one after another.
    pub fn splits(&self) -> impl Iterator<Item = SplitId> + use<T> {
        0..(self.warps << self.split_shift) as SplitId
    }

    #[inline(always)]
    fn place(&self, split: SplitId) -> usize {
        let within = split as usize & ((1 << self.split_shift) - 1);
        within << self.warp_shift | split as usize >> self.split_shift
    }
}

impl<T> Index<SplitId> for BySplit<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, split: SplitId) -> &T {
        &self.values[self.place(split)]
    }
}

impl<T> IndexMut<SplitId> for BySplit<T> {
    #[inline(always)]
    fn index_mut(&mut self, split: SplitId) -> &mut T {
        let place = self.place(split);
        &mut self.values[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_split_has_a_place_of_its_own() {
        for (warps, splits_per_warp) in [(1, 1), (48, 1), (64, 32), (48, 32), (3, 2), (1, 32)] {
            let mut by = BySplit::new(warps, splits_per_warp, None);
            assert_eq!(by.splits().count(), warps * splits_per_warp);
            by.splits().for_each(|split| by[split] = Some(split));
            assert!(by.splits().all(|split| by[split] == Some(split)), "{warps} x {splits_per_warp}");
        }
    }

    #[test]
    fn first_splits_lie_side_by_side() {
        let by = BySplit::new(48, 32, 0u8);
        let first = |warp: SplitId| std::ptr::from_ref(&by[warp * 32]) as usize;
        assert!((1..48).all(|warp| first(warp) == first(0) + warp as usize));
    }
}
