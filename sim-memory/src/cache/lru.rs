//! LRU order of the ways of each set, as a doubly linked list per set, so that neither a use nor the choice
//! of a victim scans all ways.

/// The end of a list: no way has this index.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Links {
    before: u32,
    after: u32,
}

/// The lists of all sets. Way indices run through all sets.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct LruOrder {
    links: Vec<Links>,
    /// For each set: the least and the most recently used way.
    ends: Vec<(u32, u32)>,
}

impl LruOrder {
    /// Lists for `sets` sets of `ways` ways, each in ascending order.
    pub fn new(sets: usize, ways: usize) -> Self {
        let mut order = Self { links: Vec::new(), ends: Vec::new() };
        order.reset(sets, ways);
        order
    }

    /// Makes it what [`new`](Self::new) makes, in the memory it has.
    pub fn reset(&mut self, sets: usize, ways: usize) {
        let ways = ways as u32;
        self.links.clear();
        self.ends.clear();
        for first in (0..sets as u32).map(|set| set * ways) {
            let last = first + ways - 1;
            self.ends.push((first, last));
            self.links.extend((first..=last).map(|i| Links {
                before: if i == first { NONE } else { i - 1 },
                after: if i == last { NONE } else { i + 1 },
            }));
        }
    }

    /// The ways of a set, from the least to the most recently used.
    pub fn ways(&self, set: usize) -> impl Iterator<Item = usize> {
        let mut next = self.ends.get(set).map_or(NONE, |ends| ends.0);
        std::iter::from_fn(move || {
            let way = next;
            next = self.links.get(way as usize)?.after;
            Some(way as usize)
        })
    }

    /// The most recently used way of a set; `None` where the cache has no sets.
    #[inline]
    pub fn last(&self, set: usize) -> Option<usize> {
        self.ends.get(set).map(|ends| ends.1 as usize)
    }

    /// Moves a way of `set` to the end of its list: it was just used.
    #[inline]
    pub fn used(&mut self, set: usize, way: usize) {
        if self.ends[set].1 != way as u32 {
            self.unlink(set, way);
            let last = std::mem::replace(&mut self.ends[set].1, way as u32);
            self.links[way] = Links { before: last, after: NONE };
            self.links[last as usize].after = way as u32;
        }
    }

    /// Moves a freed way of `set` to the front of its list: it is replaced first.
    pub fn freed(&mut self, set: usize, way: usize) {
        if self.ends[set].0 != way as u32 {
            self.unlink(set, way);
            let first = std::mem::replace(&mut self.ends[set].0, way as u32);
            self.links[way] = Links { before: NONE, after: first };
            self.links[first as usize].before = way as u32;
        }
    }

    #[inline]
    fn unlink(&mut self, set: usize, way: usize) {
        let Links { before, after } = self.links[way];
        match self.links.get_mut(before as usize) {
            Some(links) => links.after = after,
            None => self.ends[set].0 = after,
        }
        match self.links.get_mut(after as usize) {
            Some(links) => links.before = before,
            None => self.ends[set].1 = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// The order equals that of a plain list that is searched and rebuilt on each use.
        #[test]
        fn order_is_that_of_the_last_uses(
            ways in 1usize..6,
            uses in proptest::collection::vec((0usize..3, 0usize..6, proptest::bool::ANY), 0..60),
        ) {
            let mut order = LruOrder::new(3, ways);
            let mut literal: Vec<Vec<usize>> =
                (0..3).map(|set| (set * ways..(set + 1) * ways).collect()).collect();
            for (set, way, free) in uses {
                let way = set * ways + way % ways;
                literal[set].retain(|other| *other != way);
                if free {
                    order.freed(set, way);
                    literal[set].insert(0, way);
                } else {
                    order.used(set, way);
                    literal[set].push(way);
                }
            }
            for (set, expected) in literal.iter().enumerate() {
                let got: Vec<usize> = order.ways(set).collect();
                proptest::prop_assert_eq!(&got, expected);
                proptest::prop_assert_eq!(order.last(set), expected.last().copied());
            }
        }
    }
}
