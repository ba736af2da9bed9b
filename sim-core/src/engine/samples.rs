//! Counters over time: the engine reads the counters of all components at a fixed interval of core cycles.
//! Epochs end at these cycles, so samples do not depend on threads or epochs, and cost nothing if they are
//! not requested.

use std::collections::BTreeMap;

use serde::Serialize;
use sim_memory::partition::Partition;
use sim_memory::vocabulary::Cycle;

use crate::reconvergence::Reconvergence;
use crate::sm::stats::STALLS;
use crate::sm::{Sm, stall_table};

/// Counter values at a cycle, or their differences between two cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    figures: [u64; FIGURES.len()],
    stalls: [u64; STALLS.len()],
    /// For each SM: issue slots used, and resident warps summed over cycles.
    by_sm: Vec<[u64; 2]>,
}

/// Names of the counters of a sample.
pub const FIGURES: [&str; 12] = [
    "issued",
    "warp_instructions",
    "warp_cycles",
    "l1_hits",
    "l1_merges",
    "l1_misses",
    "l1_transactions",
    "l2_bytes",
    "l2_hits",
    "l2_merges",
    "l2_misses",
    "dram_bytes",
];

impl Counters {
    /// Adds the counters of an SM up to `at`.
    pub(super) fn add_sm<P: Reconvergence>(&mut self, sm: &mut Sm<P>, at: Cycle) {
        sm.account_until(at);
        let (stats, memory) = (&sm.stats, sm.memory.stats());
        let f = &mut self.figures;
        f[0] += stats.issued;
        f[1] += stats.kernels.iter().map(|counts| counts.warp_instructions).sum::<u64>();
        f[2] += stats.warp_cycles;
        f[3] += memory.l1.hits;
        f[4] += memory.l1.merges;
        f[5] += memory.l1.misses;
        f[6] += memory.transactions;
        f[7] += memory.bytes_moved;
        self.stalls.iter_mut().zip(stats.stalls).for_each(|(sum, own)| *sum += own);
        self.by_sm.push([stats.issued, stats.warp_cycles]);
    }

    /// Adds the counters of a partition.
    pub(super) fn add_partition(&mut self, partition: &Partition) {
        let stats = partition.stats();
        let f = &mut self.figures;
        f[8] += stats.l2.hits;
        f[9] += stats.l2.merges;
        f[10] += stats.l2.misses;
        f[11] += stats.dram.bytes;
    }

    /// Adds the differences between `before` and `after`.
    fn add(&mut self, after: &Self, before: &Self) {
        let grow = |sum: &mut [u64], after: &[u64], before: &[u64]| {
            for (i, sum) in sum.iter_mut().enumerate() {
                *sum += after[i] - before.get(i).copied().unwrap_or(0);
            }
        };
        grow(&mut self.figures, &after.figures, &before.figures);
        grow(&mut self.stalls, &after.stalls, &before.stalls);
        self.by_sm.resize(after.by_sm.len(), [0; 2]);
        for (i, sum) in self.by_sm.iter_mut().enumerate() {
            grow(sum, &after.by_sm[i], before.by_sm.get(i).map_or(&[0; 2], |own| own));
        }
    }
}

/// A sample: the counter differences over an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// First core cycle of the interval.
    pub from: Cycle,
    /// First core cycle after the interval.
    pub to: Cycle,
    /// Counters of the chip, by their names in [`FIGURES`].
    #[serde(flatten)]
    pub figures: BTreeMap<&'static str, u64>,
    /// Issue slots without an issue, by reason; only reasons that occurred.
    pub stalls: BTreeMap<&'static str, u64>,
    /// For each SM: issue slots used, and resident warps summed over core cycles. For timelines.
    #[serde(skip)]
    pub by_sm: Vec<[u64; 2]>,
}

/// The samples of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Samples {
    /// Interval between two samples, in core cycles.
    pub every: Cycle,
    /// The samples in order of time. The end of a synchronisation ends a sample early.
    pub list: Vec<Sample>,
}

impl Samples {
    /// Appends the samples of a later synchronisation.
    pub fn append(&mut self, mut later: Self) {
        self.every = later.every;
        self.list.append(&mut later.list);
    }
}

/// Takes samples at a fixed interval.
#[derive(Debug)]
pub(super) struct Sampler {
    /// The cycle of the next sample.
    pub(super) next: Cycle,
    every: Cycle,
    base: Cycle,
    /// The end cycle of the last sample, and the counters at that time.
    since: Cycle,
    before: Counters,
    list: Vec<(Cycle, Cycle, Counters)>,
}

impl Sampler {
    /// A sampler with the interval `every`, for a run of which `base` cycles have passed.
    pub(super) fn new(every: Cycle, base: Cycle) -> Self {
        let every = every.max(1);
        let next = every - base % every;
        Self { next, every, base, since: 0, before: Counters::default(), list: Vec::new() }
    }

    /// Takes the sample that is due.
    pub(super) fn take_due(&mut self, now: Counters) {
        self.take(self.next, now);
        self.next += self.every;
    }

    /// The cycle at which the counters are read last, in a run that ended at `end`.
    pub(super) fn last(&self, end: Cycle) -> Cycle {
        end.max(self.since)
    }

    /// The samples of a run that ended at `end` with the counters `now`; `slots` is the number of issue slots
    /// per cycle.
    pub(super) fn finish(mut self, end: Cycle, now: Counters, slots: u64) -> Samples {
        if end > self.since || self.list.is_empty() {
            self.take(self.last(end), now);
        } else if let Some((.., last)) = self.list.last_mut() {
            // What came after the last sample is within it.
            last.add(&now, &self.before);
        }
        self.cut(end, slots);
        let base = self.base;
        let list = self.list.into_iter().filter(|(from, to, _)| from < to).map(|(from, to, own)| Sample {
            from: base + from,
            to: base + to,
            figures: FIGURES.into_iter().zip(own.figures).collect(),
            stalls: stall_table(&own.stalls).filter(|(_, slots)| *slots > 0).collect(),
            by_sm: own.by_sm,
        });
        Samples { every: self.every, list: list.collect() }
    }

    /// Takes a sample that ends at `at`.
    fn take(&mut self, at: Cycle, now: Counters) {
        let mut own = Counters::default();
        own.add(&now, &self.before);
        self.list.push((self.since, at, own));
        (self.since, self.before) = (at, now);
    }

    /// Removes what was sampled after `end`, where only work in flight finished.
    fn cut(&mut self, end: Cycle, slots_a_cycle: u64) {
        while let Some((from, to, _)) = self.list.last().filter(|(_, to, _)| *to > end) {
            let (from, idle) = (*from, (*to - end.max(*from)) * slots_a_cycle);
            let Some((_, to, mut own)) = self.list.pop() else { return };
            own.stalls[0] -= idle.min(own.stalls[0]);
            match self.list.last_mut().filter(|_| from >= end) {
                Some((.., last)) => last.add(&own, &Counters::default()),
                None => return self.list.push((from, end.min(to), own)),
            }
        }
    }
}
