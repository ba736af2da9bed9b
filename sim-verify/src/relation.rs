//! Sets of events and relations over them, as bit matrices.

use std::fmt;

/// The most events an execution may have.
pub const MAX_EVENTS: usize = 64;

/// A set of events: bit `i` is event `i`.
pub type Set = u64;

/// The events of a set in ascending order.
pub fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let first = set.trailing_zeros() as usize;
        set &= set - 1;
        Some(first)
    })
}

/// The set of the first `n` events.
pub fn universe(n: usize) -> Set {
    if n == MAX_EVENTS { !0 } else { (1 << n) - 1 }
}

/// A relation over the first `n` events: bit `b` of row `a` is the pair (a, b). Rows from `n` on are empty.
#[derive(Clone, Copy)]
pub struct Relation {
    n: usize,
    rows: [u64; MAX_EVENTS],
}

impl PartialEq for Relation {
    fn eq(&self, other: &Self) -> bool {
        self.rows() == other.rows()
    }
}

impl Eq for Relation {}

impl fmt::Debug for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.pairs()).finish()
    }
}

impl Relation {
    /// The empty relation over `n` events.
    ///
    /// # Panics
    /// `n` exceeds [`MAX_EVENTS`].
    pub fn empty(n: usize) -> Self {
        assert!(n <= MAX_EVENTS, "{n} events");
        Self { n, rows: [0; MAX_EVENTS] }
    }

    /// The identity.
    pub fn identity(n: usize) -> Self {
        Self::on(n, universe(n))
    }

    /// `[set]`: the identity on a set.
    pub fn on(n: usize, set: Set) -> Self {
        let mut out = Self::empty(n);
        members(set & universe(n)).for_each(|i| out.rows[i] = 1 << i);
        out
    }

    /// `from * to`: the Cartesian product.
    pub fn product(n: usize, from: Set, to: Set) -> Self {
        let mut out = Self::empty(n);
        members(from & universe(n)).for_each(|i| out.rows[i] = to & universe(n));
        out
    }

    /// A relation by its pairs.
    pub fn of(n: usize, pairs: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut out = Self::empty(n);
        pairs.into_iter().for_each(|(a, b)| out.insert(a, b));
        out
    }

    /// The number of events it is over.
    pub fn events(&self) -> usize {
        self.n
    }

    /// The rows: successors of each event.
    pub fn rows(&self) -> &[u64] {
        &self.rows[..self.n]
    }

    /// The successors of an event.
    pub fn row(&self, a: usize) -> Set {
        self.rows[a]
    }

    /// Adds a pair.
    pub fn insert(&mut self, a: usize, b: usize) {
        debug_assert!(a < self.n && b < self.n);
        self.rows[a] |= 1 << b;
    }

    /// Removes a pair.
    pub fn remove(&mut self, a: usize, b: usize) {
        self.rows[a] &= !(1 << b);
    }

    /// True if it has the pair.
    pub fn has(&self, a: usize, b: usize) -> bool {
        self.rows[a] >> b & 1 != 0
    }

    /// The pairs, in ascending order.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.rows().iter().enumerate().flat_map(|(a, row)| members(*row).map(move |b| (a, b)))
    }

    /// True without a pair.
    pub fn is_empty(&self) -> bool {
        self.rows().iter().all(|row| *row == 0)
    }

    /// True if no event is related to itself.
    pub fn is_irreflexive(&self) -> bool {
        self.rows().iter().enumerate().all(|(i, row)| row >> i & 1 == 0)
    }

    /// True if no chain of pairs leads back to its start.
    pub fn is_acyclic(&self) -> bool {
        // Events without a successor among those left are taken away until none can be.
        let mut left = universe(self.n);
        loop {
            let gone = members(left).filter(|i| self.rows[*i] & left == 0).fold(0, |set, i| set | 1 << i);
            if gone == 0 {
                return left == 0;
            }
            left &= !gone;
        }
    }

    fn zip(mut self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        for i in 0..self.n {
            self.rows[i] = f(self.rows[i], other.rows[i]);
        }
        self
    }

    /// Union.
    #[must_use]
    pub fn union(self, other: &Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// Intersection.
    #[must_use]
    pub fn intersection(self, other: &Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// Difference.
    #[must_use]
    pub fn difference(self, other: &Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    /// Complement.
    #[must_use]
    pub fn complement(mut self) -> Self {
        let all = universe(self.n);
        self.rows[..self.n].iter_mut().for_each(|row| *row = !*row & all);
        self
    }

    /// `self ; other`.
    #[must_use]
    pub fn sequence(&self, other: &Self) -> Self {
        let mut out = Self::empty(self.n);
        for a in 0..self.n {
            out.rows[a] = members(self.rows[a]).fold(0, |row, b| row | other.rows[b]);
        }
        out
    }

    /// The inverse.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let mut out = Self::empty(self.n);
        self.pairs().for_each(|(a, b)| out.insert(b, a));
        out
    }

    /// The transitive closure.
    #[must_use]
    pub fn closure(mut self) -> Self {
        for via in 0..self.n {
            let row = self.rows[via];
            if row == 0 {
                continue;
            }
            for a in 0..self.n {
                if self.rows[a] >> via & 1 != 0 {
                    self.rows[a] |= row;
                }
            }
        }
        self
    }

    /// With the identity.
    #[must_use]
    pub fn reflexive(mut self) -> Self {
        for i in 0..self.n {
            self.rows[i] |= 1 << i;
        }
        self
    }

    /// Events with a successor.
    pub fn domain(&self) -> Set {
        self.rows().iter().enumerate().filter(|(_, row)| **row != 0).fold(0, |set, (i, _)| set | 1 << i)
    }

    /// Events with a predecessor.
    pub fn range(&self) -> Set {
        self.rows().iter().fold(0, |set, row| set | row)
    }

    /// A shortest cycle, as the events on it in their order; an event that is related to itself is a cycle of
    /// one.
    pub fn cycle(&self) -> Option<Vec<usize>> {
        (0..self.n).filter_map(|start| self.path(start, start)).min_by_key(Vec::len)
    }

    /// A shortest path of at least one pair, as its events without the last.
    pub fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut before = [usize::MAX; MAX_EVENTS];
        let mut seen = 0;
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(a) = queue.pop_front() {
            if self.has(a, to) {
                let mut path = vec![a];
                let mut at = a;
                while at != from {
                    at = before[at];
                    path.push(at);
                }
                path.reverse();
                return Some(path);
            }
            for b in members(self.rows[a] & !seen) {
                seen |= 1 << b;
                if b != from {
                    before[b] = a;
                    queue.push_back(b);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Pairs = BTreeSet<(usize, usize)>;

    fn relation() -> impl Strategy<Value = (usize, Pairs, Pairs)> {
        (1usize..=9).prop_flat_map(|n| {
            let pairs = proptest::collection::btree_set((0..n, 0..n), 0..14);
            (Just(n), pairs.clone(), pairs)
        })
    }

    /// The literal closure: pairs are added until none is missing.
    fn closed(pairs: &Pairs) -> Pairs {
        let mut all = pairs.clone();
        loop {
            let more: Pairs = all
                .iter()
                .flat_map(|(a, b)| all.iter().filter(move |(c, _)| b == c).map(move |(_, d)| (*a, *d)))
                .collect();
            if more.is_subset(&all) {
                return all;
            }
            all.extend(more);
        }
    }

    proptest! {
        #[test]
        fn operators_are_those_of_sets_of_pairs((n, x, y) in relation()) {
            let (r, s) = (Relation::of(n, x.clone()), Relation::of(n, y.clone()));
            let pairs = |r: Relation| r.pairs().collect::<Pairs>();
            prop_assert_eq!(pairs(r.union(&s)), &x | &y);
            prop_assert_eq!(pairs(r.intersection(&s)), &x & &y);
            prop_assert_eq!(pairs(r.difference(&s)), &x - &y);
            let all: Pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).collect();
            prop_assert_eq!(pairs(r.complement()), &all - &x);
            prop_assert_eq!(pairs(r.inverse()), x.iter().map(|(a, b)| (*b, *a)).collect::<Pairs>());
            let sequence = x.iter().flat_map(|(a, b)| {
                y.iter().filter(move |(c, _)| b == c).map(move |(_, d)| (*a, *d))
            });
            prop_assert_eq!(pairs(r.sequence(&s)), sequence.collect::<Pairs>());
            prop_assert_eq!(pairs(r.closure()), closed(&x));
            prop_assert_eq!(r.is_acyclic(), closed(&x).iter().all(|(a, b)| a != b));
            prop_assert_eq!(r.is_irreflexive(), x.iter().all(|(a, b)| a != b));
            prop_assert_eq!(r.cycle().is_none(), r.is_acyclic());
            if let Some(cycle) = r.cycle() {
                for (i, a) in cycle.iter().enumerate() {
                    prop_assert!(r.has(*a, cycle[(i + 1) % cycle.len()]), "{:?} {:?}", r, cycle);
                }
            }
            prop_assert_eq!(members(r.domain()).collect::<BTreeSet<_>>(), x.iter().map(|p| p.0).collect());
            prop_assert_eq!(members(r.range()).collect::<BTreeSet<_>>(), x.iter().map(|p| p.1).collect());
        }
    }

    #[test]
    fn sixty_four_events_have_room() {
        let chain = Relation::of(MAX_EVENTS, (0..MAX_EVENTS - 1).map(|i| (i, i + 1)));
        assert_eq!(chain.closure().pairs().count(), 64 * 63 / 2);
        assert!(chain.is_acyclic() && Relation::identity(MAX_EVENTS).cycle() == Some(vec![0]));
        assert_eq!(chain.complement().pairs().count(), 64 * 64 - 63);
    }
}
