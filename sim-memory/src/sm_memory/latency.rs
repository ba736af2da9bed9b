//! Latency histograms of accesses: loads by the level that supplied their bytes; stores and atomics until
//! they were performed.

use hdrhistogram::Histogram;
use std::io::{Read, Write};

use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;

use crate::vocabulary::Cycle;

/// The level that supplied the bytes of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum Level {
    /// L1, or a fetch already in flight from the same SM.
    L1,
    /// The L2 slice, or a fetch already in flight there.
    L2,
    /// DRAM: the bytes were fetched for this load.
    Dram,
}

impl Level {
    /// All levels with their names.
    pub const ALL: [(&'static str, Level); 3] = [("l1", Level::L1), ("l2", Level::L2), ("dram", Level::Dram)];
}

/// The categories of accesses with a histogram each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum Kind {
    /// A load, by the level that supplied its bytes.
    Load(Level),
    /// A store, until it is performed.
    Store,
    /// An atomic or a reduction, until it is performed.
    Atomic,
}

impl Kind {
    const COUNT: usize = Level::ALL.len() + 2;

    fn index(self) -> usize {
        match self {
            Self::Load(level) => level as usize,
            Self::Store => Level::ALL.len(),
            Self::Atomic => Level::ALL.len() + 1,
        }
    }
}

/// The longest latency recorded, in core cycles; longer ones are recorded as this one.
const LONGEST: u64 = 1 << 20;

/// Transactions that are kept as they are: histograms of fewer would cost a launch more than its transactions do.
const KEPT: usize = 1024;

/// Latencies of transactions in core cycles, with a relative error of at most 1 %. Those of loads are from
/// the issue of the access to the write of its registers, those of others to the end of their programs.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Latencies {
    /// Those recorded since the last ones entered the histograms.
    recent: Vec<(Kind, Cycle)>,
    histograms: Histograms,
}

/// Histograms by kind, each made with its first transaction: many SMs of a small launch never have one.
#[derive(Clone, Debug, Default)]
struct Histograms([Option<Histogram<u32>>; Kind::COUNT]);

impl Histograms {
    fn of(&mut self, kind: usize) -> &mut Histogram<u32> {
        self.0[kind].get_or_insert_with(empty)
    }

    fn enter(&mut self, recent: &[(Kind, Cycle)]) {
        for &(kind, cycles) in recent {
            self.of(kind.index()).saturating_record(cycles);
        }
    }
}

impl BorshSerialize for Histograms {
    /// Buckets by kind, each with a value of it and its count.
    fn serialize<W: Write>(&self, writer: &mut W) -> std::io::Result<()> {
        let buckets = |own: &Histogram<u32>| -> Vec<(u64, u32)> {
            own.iter_recorded().map(|own| (own.value_iterated_to(), own.count_at_value())).collect()
        };
        BorshSerialize::serialize(&self.0.each_ref().map(|own| own.as_ref().map(buckets)), writer)
    }
}

impl BorshDeserialize for Histograms {
    fn deserialize_reader<R: Read>(reader: &mut R) -> std::io::Result<Self> {
        let kinds = <[Option<Vec<(u64, u32)>>; Kind::COUNT]>::deserialize_reader(reader)?;
        let of = |buckets: Vec<(u64, u32)>| {
            let mut histogram = empty();
            buckets.into_iter().for_each(|(value, count)| histogram.saturating_record_n(value, count));
            histogram
        };
        Ok(Self(kinds.map(|own| own.map(of))))
    }
}

impl Latencies {
    /// Records a transaction that took `cycles` cycles.
    #[inline]
    pub fn record(&mut self, kind: Kind, cycles: Cycle) {
        if self.recent.len() == KEPT {
            self.settle();
        }
        self.recent.push((kind, cycles));
    }

    #[inline(never)]
    fn settle(&mut self) {
        self.histograms.enter(&self.recent);
        self.recent.clear();
    }

    /// Forgets all transactions.
    pub fn reset(&mut self) {
        let Self { recent, histograms } = self;
        recent.clear();
        let used = histograms.0.iter_mut().flatten().filter(|histogram| !histogram.is_empty());
        used.for_each(Histogram::reset);
    }

    /// Adds the transactions of another SM.
    pub fn add(&mut self, other: &Self) {
        self.histograms.enter(&other.recent);
        for (kind, other) in other.histograms.0.iter().enumerate() {
            if let Some(other) = other.as_ref().filter(|other| !other.is_empty()) {
                // Both have the same bounds, so every value fits.
                let added = self.histograms.of(kind).add(other);
                debug_assert!(added.is_ok());
            }
        }
    }

    /// Percentiles of a kind; `None` if it has no transactions.
    pub fn percentiles(&mut self, kind: Kind) -> Option<Percentiles> {
        self.settle();
        let histogram = self.histograms.0[kind.index()].as_ref().filter(|histogram| !histogram.is_empty());
        histogram.map(|histogram| Percentiles {
            count: histogram.len(),
            min: histogram.min(),
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
        })
    }
}

fn empty() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LONGEST, 2).unwrap_or_else(|_| unreachable!("bounds are constants"))
}

/// Percentiles of one kind in core cycles; those above 255 have a relative error of at most 1 %.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub count: u64,
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_two_sms() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        (1..=90).for_each(|cycles| one.record(Kind::Load(Level::L2), cycles));
        (91..=100).for_each(|cycles| other.record(Kind::Load(Level::L2), cycles));
        other.record(Kind::Load(Level::Dram), LONGEST * 100);
        one.add(&other);
        let figures = one.percentiles(Kind::Load(Level::L2));
        let expected = Percentiles { count: 100, min: 1, p50: 50, p90: 90, p99: 99, max: 100 };
        assert_eq!(figures, Some(expected));
        assert_eq!(one.percentiles(Kind::Load(Level::L1)), None);
        let longest = one.percentiles(Kind::Load(Level::Dram)).map_or(0, |p| p.max);
        assert!((LONGEST..LONGEST * 2).contains(&longest), "longer ones count as the longest: {longest}");
    }

    #[test]
    fn more_transactions_than_are_kept_are_all_counted() {
        let (mut one, mut sum) = (Latencies::default(), Latencies::default());
        for cycles in 1..=(3 * KEPT as Cycle + 5) {
            one.record(if cycles.is_multiple_of(3) { Kind::Store } else { Kind::Atomic }, 1 + cycles % 100);
        }
        sum.add(&one);
        for latencies in [&mut one, &mut sum] {
            let stores = latencies.percentiles(Kind::Store).map(|p| (p.count, p.min, p.max));
            assert_eq!(stores, Some((KEPT as u64 + 1, 1, 100)));
            assert_eq!(latencies.percentiles(Kind::Atomic).map(|p| p.count), Some(2 * KEPT as u64 + 4));
        }
        one.reset();
        assert_eq!(one.percentiles(Kind::Store), None);
        one.record(Kind::Store, 7);
        assert_eq!(one.percentiles(Kind::Store).map(|p| (p.count, p.max)), Some((1, 7)));
        one.record(Kind::Store, 7);
        one.reset();
        assert_eq!(one.percentiles(Kind::Store), None);
    }
}
