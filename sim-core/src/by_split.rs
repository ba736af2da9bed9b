//! An array indexed by split, laid out so that the first splits of all warps are adjacent: most warps run as
//! one split, so the entries that the issue loop reads share the host's cache lines.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use crate::reconvergence::{Reconvergence, SplitId};

/// One value for each split under the policy `P`.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct BySplit<T, P> {
    /// The values of the first splits of all warps, then those of the second ones, and so on.
    values: Vec<T>,
    warps: usize,
    /// log2 of the number of warps, rounded up.
    warp_shift: u32,
    policy: PhantomData<P>,
}

impl<T: Clone, P: Reconvergence> BySplit<T, P> {
    /// An array of `value` for every split of `warps` warps.
    pub fn new(warps: usize, value: T) -> Self {
        let warp_shift = warps.next_power_of_two().trailing_zeros();
        let values = if P::SPLITS == 1 { warps } else { P::SPLITS << warp_shift };
        Self { values: vec![value; values], warps, warp_shift, policy: PhantomData }
    }
}

impl<T: Clone, P: Reconvergence> BySplit<T, P> {
    /// Every split has `value`.
    pub fn fill(&mut self, value: T) {
        self.values.fill(value);
    }

    /// Makes it an array for more warps; the splits of new ones have `value`.
    pub fn grow(&mut self, warps: usize, value: T) {
        let mut grown = Self::new(warps, value);
        for split in self.splits() {
            grown[split] = self[split].clone();
        }
        *self = grown;
    }
}

impl<T, P: Reconvergence> BySplit<T, P> {
    /// All split ids, those of one warp consecutive.
    pub fn splits(&self) -> impl Iterator<Item = SplitId> + use<T, P> {
        0..(self.warps * P::SPLITS) as SplitId
    }

    #[inline(always)]
    fn place(&self, split: SplitId) -> usize {
        if P::SPLITS == 1 {
            return split as usize;
        }
        let splits = P::SPLITS as SplitId;
        let (warp, within) = (split / splits, split % splits);
        ((within << self.warp_shift) | warp) as usize
    }
}

impl<T, P: Reconvergence> Index<SplitId> for BySplit<T, P> {
    type Output = T;

    #[inline(always)]
    fn index(&self, split: SplitId) -> &T {
        &self.values[self.place(split)]
    }
}

impl<T, P: Reconvergence> IndexMut<SplitId> for BySplit<T, P> {
    #[inline(always)]
    fn index_mut(&mut self, split: SplitId) -> &mut T {
        let place = self.place(split);
        &mut self.values[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconvergence::crs_stack::CrsStack;
    use crate::reconvergence::table::Table;

    fn each_has_its_own<P: Reconvergence>() {
        for warps in [1, 3, 48, 64] {
            let mut by: BySplit<Option<SplitId>, P> = BySplit::new(warps, None);
            assert_eq!(by.splits().count(), warps * P::SPLITS);
            by.splits().for_each(|split| by[split] = Some(split));
            assert!(by.splits().all(|split| by[split] == Some(split)), "{warps} x {}", P::SPLITS);
        }
    }

    #[test]
    fn each_split_has_a_place_of_its_own() {
        each_has_its_own::<CrsStack>();
        each_has_its_own::<Table>();
    }

    #[test]
    fn what_grows_keeps_what_it_has() {
        let mut by: BySplit<Option<SplitId>, Table> = BySplit::new(3, None);
        by.splits().for_each(|split| by[split] = Some(split));
        by.grow(48, None);
        let kept = (3 * Table::SPLITS) as SplitId;
        assert!(by.splits().all(|split| by[split] == (split < kept).then_some(split)));
    }

    #[test]
    fn first_splits_lie_side_by_side() {
        let by: BySplit<u8, Table> = BySplit::new(48, 0);
        let first = |warp: SplitId| std::ptr::from_ref(&by[warp * Table::SPLITS as SplitId]) as usize;
        assert!((1..48).all(|warp| first(warp) == first(0) + warp as usize));
    }
}
