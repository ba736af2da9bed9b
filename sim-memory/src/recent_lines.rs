//! Tags of lines in sets of ways, of which the least recently used one is replaced: caches whose bytes lie elsewhere.

use crate::divide::Divisor;

/// The number of no line.
const NONE: u64 = u64::MAX;

/// Such tags, with what is known of each line.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct RecentLines<T> {
    ways: usize,
    by_sets: Divisor,
    /// By set, from the most recently used line to the least.
    lines: Vec<(u64, T)>,
}

impl<T: Copy + Default> RecentLines<T> {
    /// Empty sets, one with one way at least.
    pub fn new(sets: u32, ways: u32) -> Self {
        let (sets, ways) = (sets.max(1), ways.max(1) as usize);
        let lines = vec![(NONE, T::default()); sets as usize * ways];
        Self { ways, by_sets: Divisor::new(sets.into()), lines }
    }

    /// Empties them.
    pub fn clear(&mut self) {
        self.lines.fill((NONE, T::default()));
    }

    /// The ways of a line's set.
    #[inline]
    fn set(&mut self, number: u64) -> &mut [(u64, T)] {
        let (_, set) = self.by_sets.divide(number);
        let first = set as usize * self.ways;
        &mut self.lines[first..first + self.ways]
    }

    /// A line that is here; it is used no more recently for it.
    #[inline]
    pub fn look_at(&mut self, number: u64) -> Option<&mut T> {
        self.set(number).iter_mut().find(|line| line.0 == number).map(|line| &mut line.1)
    }

    /// A line that is here, which is the most recently used one from now on.
    #[inline]
    pub fn find(&mut self, number: u64) -> Option<&mut T> {
        let set = self.set(number);
        let way = set.iter().position(|line| line.0 == number)?;
        set[..=way].rotate_right(1);
        set.first_mut().map(|line| &mut line.1)
    }

    /// True if no way of a line's set is empty.
    pub fn is_full(&mut self, number: u64) -> bool {
        self.set(number).last().is_some_and(|line| line.0 != NONE)
    }

    /// A line that is not here takes the place of the least recently used one of its set.
    pub fn insert(&mut self, number: u64, known: T) {
        let set = self.set(number);
        debug_assert!(set.iter().all(|line| line.0 != number), "a line is here once");
        set.rotate_right(1);
        if let Some(first) = set.first_mut() {
            *first = (number, known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_used_before_keep_their_order() {
        let mut lines = RecentLines::<()>::new(1, 4);
        (0..4).for_each(|number| lines.insert(number, ()));
        assert!(lines.find(1).is_some() && lines.look_at(0).is_some());
        (4..6).for_each(|number| lines.insert(number, ()));
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|number| lines.find(number).is_some()),
            [false, true, false, true, true, true]
        );
    }

    #[test]
    fn the_least_recently_used_line_of_a_set_is_replaced() {
        let mut lines = RecentLines::<u8>::new(2, 2);
        for (number, known) in [(0, 1), (2, 2), (1, 3)] {
            assert_eq!((lines.find(number).is_none(), lines.is_full(number)), (true, false));
            lines.insert(number, known);
        }
        assert_eq!(lines.find(0), Some(&mut 1));
        assert_eq!([lines.is_full(0), lines.is_full(1)], [true, false]);
        lines.insert(4, 4);
        assert_eq!([0, 1, 2, 4].map(|number| lines.find(number).copied()), [Some(1), Some(3), None, Some(4)]);
        lines.clear();
        assert_eq!([0, 1, 2, 4].map(|number| lines.find(number).copied()), [None; 4]);
    }
}
