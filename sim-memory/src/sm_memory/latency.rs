//! Latency histograms of accesses: loads by the level that supplied their bytes; stores and atomics until
//! they were performed.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::vocabulary::Cycle;

/// The level that supplied the bytes of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Latencies of transactions in core cycles, with a relative error of at most 1 %. Those of loads are from
/// the issue of the access to the write of its registers, those of others to the end of their programs.
#[derive(Clone, Debug, Default)]
pub struct Latencies([Option<Histogram<u32>>; Kind::COUNT]);

impl Latencies {
    /// Records a transaction that took `cycles` cycles.
    #[inline]
    pub fn record(&mut self, kind: Kind, cycles: Cycle) {
        // Made with the first one: many SMs of a small launch never have one.
        self.0[kind.index()].get_or_insert_with(empty).saturating_record(cycles);
    }

    /// Forgets all transactions.
    pub fn reset(&mut self) {
        self.0.iter_mut().flatten().for_each(Histogram::reset);
    }

    /// Adds the histograms of another SM.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            if let Some(other) = other.as_ref().filter(|other| !other.is_empty()) {
                // Both have the same bounds, so every value fits.
                let added = own.get_or_insert_with(empty).add(other);
                debug_assert!(added.is_ok());
            }
        }
    }

    /// Percentiles of a kind; `None` if it has no transactions.
    pub fn percentiles(&self, kind: Kind) -> Option<Percentiles> {
        let histogram = self.0[kind.index()].as_ref().filter(|histogram| !histogram.is_empty());
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
}
