//! A queue of future events, ordered by cycle.

use std::collections::VecDeque;

use borsh::{BorshDeserialize, BorshSerialize};

use crate::vocabulary::{Cycle, NEVER};

/// Bits of an event's insertion number within its key; the other bits hold its source.
const NUMBER_BITS: u32 = 40;

/// Events by (cycle, source, order of insertion). Most delays of a component are equal, so that most events come
/// after all that are queued: a sorted list serves them with fewer instructions than a heap.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub struct EventQueue<T> {
    /// In ascending order.
    sorted: VecDeque<Entry<T>>,
    /// Number of events inserted so far.
    inserted: u64,
    /// The cycle of the first event; `NEVER` if there is none.
    first: Cycle,
}

/// An event with its key: cycle, source and number in one word, so that one comparison orders them.
#[derive(Clone, Copy, Debug, BorshSerialize, BorshDeserialize)]
struct Entry<T> {
    key: u128,
    event: T,
}

impl<T> Entry<T> {
    fn at(&self) -> Cycle {
        (self.key >> 64) as Cycle
    }
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { sorted: VecDeque::new(), inserted: 0, first: NEVER }
    }
}

impl<T> EventQueue<T> {
    /// Inserts `event` of `source` (below 2^24) for cycle `at`.
    #[inline]
    pub fn push(&mut self, at: Cycle, source: u32, event: T) {
        debug_assert!(source < 1 << (64 - NUMBER_BITS) && self.inserted < 1 << NUMBER_BITS);
        let order = u64::from(source) << NUMBER_BITS | self.inserted;
        self.inserted += 1;
        self.first = self.first.min(at);
        let entry = Entry { key: u128::from(at) << 64 | u128::from(order), event };
        match self.sorted.back() {
            Some(last) if last.key > entry.key => self.insert(entry),
            _ => self.sorted.push_back(entry),
        }
    }

    /// Inserts an event that comes before others.
    #[inline(never)]
    fn insert(&mut self, entry: Entry<T>) {
        let place = self.sorted.partition_point(|other| other.key < entry.key);
        self.sorted.insert(place, entry);
    }

    /// The cycle of the first event; `None` if the queue is empty.
    #[inline]
    pub fn next(&self) -> Option<Cycle> {
        (self.first != NEVER).then_some(self.first)
    }

    /// The cycle of the first event; [`NEVER`] if the queue is empty.
    #[inline(always)]
    pub fn first(&self) -> Cycle {
        self.first
    }

    /// Removes the first event and returns it with its cycle, unless its cycle is after `now`.
    #[inline]
    pub fn pop(&mut self, now: Cycle) -> Option<(Cycle, T)> {
        if self.first > now {
            return None;
        }
        let entry = self.sorted.pop_front()?;
        self.first = self.sorted.front().map_or(NEVER, Entry::at);
        Some((entry.at(), entry.event))
    }

    /// Removes all events; those inserted from now on are counted from the first.
    pub fn reset(&mut self) {
        let Self { sorted, inserted, first } = self;
        sorted.clear();
        (*inserted, *first) = (0, NEVER);
    }

    /// True if no event is queued.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_by_cycle_then_source_then_order(
            events in proptest::collection::vec((0u64..20, 0u32..4), 1..100),
            until in 0u64..25,
        ) {
            let mut queue = EventQueue::default();
            for (number, &(at, source)) in events.iter().enumerate() {
                queue.push(at, source, number);
            }
            let mut sorted: Vec<usize> = (0..events.len()).collect();
            sorted.sort_by_key(|&number| events[number]);
            prop_assert_eq!(queue.next(), Some(events[sorted[0]].0));
            sorted.retain(|&number| events[number].0 <= until);
            let expected: Vec<(u64, usize)> = sorted.into_iter().map(|number| (events[number].0, number)).collect();
            let came: Vec<(u64, usize)> = std::iter::from_fn(|| queue.pop(until)).collect();
            prop_assert_eq!(queue.is_empty(), came.len() == events.len());
            let left = events.iter().map(|(at, _)| *at).filter(|at| *at > until).min();
            prop_assert_eq!((queue.next(), queue.first()), (left, left.unwrap_or(NEVER)));
            prop_assert_eq!(came, expected);
        }
    }
}
