//! Occupancy of a queue over time.

use crate::vocabulary::Cycle;

/// Occupancy counters of a queue for a report. Cycles are those of the queue's clock.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
pub struct QueueStats {
    /// Sum of the number of entries over all cycles. Divided by the cycles of a run and by the number of
    /// queues summed here, it is the mean occupancy.
    pub entry_cycles: u64,
    /// The largest number of entries in one queue at a time.
    pub most: u64,
}

impl QueueStats {
    /// Adds the counters of another component's queues.
    pub fn add(&mut self, other: &Self) {
        self.entry_cycles += other.entry_cycles;
        self.most = self.most.max(other.most);
    }
}

/// The current number of entries of one queue, and its counters.
#[derive(Clone, Copy, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Occupancy {
    entries: u64,
    since: Cycle,
    stats: QueueStats,
}

impl Occupancy {
    /// The current number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries as usize
    }

    /// True if the queue has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Adds one entry from cycle `now` on.
    #[inline]
    pub fn add(&mut self, now: Cycle) {
        self.set(self.entries + 1, now);
    }

    /// Removes one entry from cycle `now` on.
    #[inline]
    pub fn remove(&mut self, now: Cycle) {
        self.set(self.entries - 1, now);
    }

    /// Sets the number of entries from cycle `now` on.
    #[inline]
    pub fn set(&mut self, entries: u64, now: Cycle) {
        self.stats.entry_cycles += self.entries * now.saturating_sub(self.since);
        self.since = self.since.max(now);
        self.entries = entries;
        self.stats.most = self.stats.most.max(entries);
    }

    /// The counters up to the last change.
    pub fn stats(&self) -> QueueStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_count_for_as_long_as_they_stay() {
        let mut queue = Occupancy::default();
        queue.set(2, 10);
        queue.set(5, 14);
        queue.set(0, 15);
        assert!(queue.is_empty());
        queue.add(100);
        queue.add(101);
        assert_eq!(queue.len(), 2);
        queue.remove(103);
        queue.remove(104);
        assert_eq!(queue.stats(), QueueStats { entry_cycles: 2 * 4 + 5 + 1 + 2 * 2 + 1, most: 5 });
    }
}
