//! Translation lookaside buffers of an SM. L1 is looked up by virtual addresses, L2 by physical ones (Jia et al.,
//! arXiv:1804.06826): what leaves an SM is translated first. An address is its own translation here; what is modelled is the
//! time of those that are not at hand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::line::LINE_BYTES;
use crate::recent_lines::RecentLines;
use crate::vocabulary::Cycle;

/// Translation lookaside buffers (TLBs) of an SM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbSpec {
    /// The TLB that translates what leaves an SM. It is empty after each synchronisation.
    pub first: TlbLevel,
    /// The TLB that has what the first misses. In a chip several SMs share it; here each has one of its size. Of memory that fits
    /// it, it has the translations from the start: one that is missing takes no time as long as there are free entries.
    #[serde(default)]
    pub second: Option<TlbLevel>,
}

/// One TLB. The entry used least recently is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbLevel {
    /// Bytes of memory that an entry translates: a power of two, 128 at least.
    #[schemars(range(min = 128, max = 1_099_511_627_776_u64))]
    pub page_bytes: u64,
    /// Entries.
    #[schemars(range(min = 1, max = 65_536))]
    pub entries: u32,
    /// Additional cycles of the core clock of a request whose translation is not in this TLB, and of those for the same page that
    /// come meanwhile.
    #[schemars(range(min = 0, max = 100_000))]
    pub miss_latency: u32,
}

impl TlbSpec {
    /// The first TLB, and the second if there is one.
    pub fn levels(&self) -> impl Iterator<Item = &TlbLevel> {
        std::iter::once(&self.first).chain(&self.second)
    }

    /// What is not valid, if anything.
    pub fn invalid(&self) -> Option<&'static str> {
        let good = |level: &TlbLevel| {
            level.entries > 0
                && level.page_bytes.is_power_of_two()
                && level.page_bytes >= u64::from(LINE_BYTES)
        };
        (!self.levels().all(good))
            .then_some("entries must be positive, page_bytes a power of two and a line's 128 bytes at least")
    }
}

/// One TLB, with the cycle from which each translation is there. One that is missed later is there later, so that what is asked of
/// one line keeps its order.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Tlb {
    pages: RecentLines<Cycle>,
    /// Bits of an address below the number of its page.
    shift: u32,
    miss_latency: Cycle,
}

impl Tlb {
    fn new(level: &TlbLevel) -> Self {
        Self {
            pages: RecentLines::new(1, level.entries),
            shift: level.page_bytes.ilog2(),
            miss_latency: level.miss_latency.into(),
        }
    }

    /// The cycle from which the translation of an address is there, which becomes that used last; `None` if it is missing.
    #[inline]
    fn find(&mut self, address: u64) -> Option<Cycle> {
        self.pages.find(address >> self.shift).copied()
    }

    /// Takes in a translation that is there from a cycle on; returns that cycle.
    fn fill(&mut self, address: u64, from: Cycle) -> Cycle {
        self.pages.insert(address >> self.shift, from);
        from
    }
}

/// Requests by the TLBs that missed them.
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
pub struct TlbStats {
    /// Requests that were translated.
    pub requests: u64,
    /// Those whose translation was not in the first TLB.
    pub misses: u64,
    /// Those of them whose translation was not in the second TLB, which was full.
    pub second_misses: u64,
}

impl TlbStats {
    /// Adds other counters.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.misses += other.misses;
        self.second_misses += other.second_misses;
    }
}

/// The TLBs of one SM.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Tlbs {
    first: Tlb,
    second: Option<Tlb>,
    stats: TlbStats,
}

impl Tlbs {
    /// Empty ones.
    pub fn new(spec: &TlbSpec) -> Self {
        Self {
            first: Tlb::new(&spec.first),
            second: spec.second.as_ref().map(Tlb::new),
            stats: TlbStats::default(),
        }
    }

    /// The cycle from which a request for this line that leaves at `now` is translated.
    #[inline]
    pub fn translate(&mut self, line: u64, now: Cycle) -> Cycle {
        self.stats.requests += 1;
        match self.first.find(line) {
            Some(from) => from.max(now),
            None => self.miss(line, now),
        }
    }

    #[cold]
    fn miss(&mut self, line: u64, now: Cycle) -> Cycle {
        self.stats.misses += 1;
        let from = match &mut self.second {
            None => now,
            Some(second) => match second.find(line) {
                Some(from) => from.max(now),
                None => {
                    let walks = second.pages.is_full(line);
                    self.stats.second_misses += u64::from(walks);
                    second.fill(line, now + if walks { second.miss_latency } else { 0 })
                }
            },
        };
        self.first.fill(line, from + self.first.miss_latency)
    }

    /// Counters.
    pub fn stats(&self) -> TlbStats {
        self.stats
    }

    /// Makes them what they are after a synchronisation.
    pub fn reset(&mut self) {
        self.first.pages.clear();
        self.second.iter_mut().for_each(|second| second.pages.clear());
        self.stats = TlbStats::default();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn spec(second: Option<TlbLevel>) -> TlbSpec {
        TlbSpec { first: TlbLevel { page_bytes: 1 << 12, entries: 3, miss_latency: 10 }, second }
    }

    #[test]
    fn what_was_used_least_recently_is_missed() {
        let mut tlbs = Tlbs::new(&spec(None));
        let mut delay = |page: u64, now| tlbs.translate(page << 12, now) - now;
        for now in [100, 200] {
            let expected = if now == 100 { 10 } else { 0 };
            for page in 1..=3 {
                assert_eq!(delay(page, now + 20 * page), expected, "page {page}");
            }
        }
        assert_eq!(delay(1, 300), 0);
        assert_eq!(delay(4, 320), 10, "a fourth takes the place of 2");
        assert_eq!([delay(1, 340), delay(3, 341), delay(4, 342)], [0, 0, 0]);
        assert_eq!(delay(2, 360), 10);
        assert_eq!(delay(1, 380), 10, "a ring of more pages than entries misses all");
        assert_eq!(tlbs.stats(), TlbStats { requests: 13, misses: 6, second_misses: 0 });
    }

    #[test]
    fn requests_of_a_page_wait_for_the_one_that_missed() {
        let mut tlbs = Tlbs::new(&spec(None));
        assert_eq!(tlbs.translate(0, 100), 110);
        assert_eq!(tlbs.translate(128, 104), 110);
        assert_eq!(tlbs.translate(1 << 12, 105), 115);
        assert_eq!(tlbs.translate(0, 111), 111);
    }

    #[test]
    fn a_second_tlb_has_what_fits_it() {
        let second = TlbLevel { page_bytes: 1 << 14, entries: 2, miss_latency: 500 };
        let mut tlbs = Tlbs::new(&spec(Some(second)));
        let mut delay = |page: u64, now| tlbs.translate(page << 12, now) - now;
        for (i, page) in [0, 1, 2, 3, 4, 5, 6, 7].into_iter().enumerate() {
            assert_eq!(delay(page, 1000 * i as u64), 10, "page {page}");
        }
        assert_eq!(delay(8, 9000), 510, "a third of 16 KiB");
        assert_eq!(delay(9, 10_000), 10);
        assert_eq!(delay(4, 11_000), 10, "in the second still");
        assert_eq!(delay(0, 12_000), 510);
        assert_eq!(tlbs.stats(), TlbStats { requests: 12, misses: 12, second_misses: 2 });
    }

    proptest! {
        /// A literal model: pages in a queue in the order of use, with since when they are there; and the second TLB's behind it.
        #[test]
        fn translations_are_those_of_queues(
            entries in 1..5u32,
            second in 0..4u32,
            accesses in proptest::collection::vec((0..12u64, 0..15u64), 1..80),
        ) {
            let level = |page_bytes, entries, miss_latency| TlbLevel { page_bytes, entries, miss_latency };
            let spec = TlbSpec {
                first: level(1 << 12, entries, 10),
                second: (second > 0).then(|| level(1 << 14, second, 70)),
            };
            let mut tlbs = Tlbs::new(&spec);
            let (mut queue, mut behind) = (VecDeque::new(), VecDeque::new());
            let (mut now, mut last) = (0, [0; 12]);
            for (page, later) in accesses {
                now += later;
                let found = |queue: &mut VecDeque<(u64, u64)>, page: u64| {
                    queue.iter().position(|(of, _)| *of == page).and_then(|i| queue.remove(i))
                };
                let (_, from) = found(&mut queue, page).unwrap_or_else(|| {
                    let mut from = now;
                    if second > 0 {
                        let full = behind.len() == second as usize;
                        let walked = (page / 4, now + if full { 70 } else { 0 });
                        let big = found(&mut behind, page / 4).unwrap_or(walked);
                        behind.push_front(big);
                        behind.truncate(second as usize);
                        from = big.1.max(now);
                    }
                    (page, from + 10)
                });
                queue.push_front((page, from));
                queue.truncate(entries as usize);
                let at = tlbs.translate((page << 12) + 256, now);
                prop_assert_eq!(at, from.max(now));
                prop_assert!(at >= last[page as usize], "requests of a page keep their order");
                last[page as usize] = at;
            }
        }
    }
}
