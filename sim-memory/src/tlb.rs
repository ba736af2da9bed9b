//! Translation lookaside buffers of an SM. L1 is looked up by virtual addresses, L2 by physical ones (Jia et al.,
//! arXiv:1804.06826): what leaves an SM is translated first. An address is its own translation here; what is modelled is the
//! time of those that are not at hand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::line::LINE_BYTES;
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

/// Translations of one TLB, those used last first. One that is missed later is there later, so that what is asked of one line
/// keeps its order.
#[derive(Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Translations {
    /// Pages, with the cycle from which the translation is there.
    entries: Vec<(u64, Cycle)>,
}

impl Translations {
    /// The cycle from which a page's translation is there, which becomes that used last; `None` if it is missing.
    #[inline]
    fn find(&mut self, page: u64) -> Option<Cycle> {
        let place = self.entries.iter().position(|(of, _)| *of == page)?;
        self.entries[..=place].rotate_right(1);
        Some(self.entries[0].1)
    }

    /// Takes a translation in that is there from a cycle on; returns that cycle.
    #[cold]
    fn fill(&mut self, page: u64, at: Cycle, most: u32) -> Cycle {
        if self.is_full(most) {
            self.entries.pop();
        }
        self.entries.insert(0, (page, at));
        at
    }

    fn is_full(&self, most: u32) -> bool {
        self.entries.len() >= most as usize
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
#[derive(Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Tlbs {
    first: Translations,
    second: Translations,
    stats: TlbStats,
}

impl Tlbs {
    /// The cycle from which a request for this line that leaves at `now` is translated.
    #[inline]
    pub fn translate(&mut self, spec: &TlbSpec, line: u64, now: Cycle) -> Cycle {
        self.stats.requests += 1;
        let page = line >> spec.first.page_bytes.ilog2();
        match self.first.find(page) {
            Some(from) => from.max(now),
            None => self.miss(spec, line, page, now),
        }
    }

    #[cold]
    fn miss(&mut self, spec: &TlbSpec, line: u64, page: u64, now: Cycle) -> Cycle {
        self.stats.misses += 1;
        let mut from = now;
        if let Some(second) = &spec.second {
            let page = line >> second.page_bytes.ilog2();
            from = match self.second.find(page) {
                Some(from) => from.max(now),
                None => {
                    let missing = self.second.is_full(second.entries);
                    self.stats.second_misses += u64::from(missing);
                    let walk = if missing { second.miss_latency } else { 0 };
                    self.second.fill(page, now + Cycle::from(walk), second.entries)
                }
            };
        }
        self.first.fill(page, from + Cycle::from(spec.first.miss_latency), spec.first.entries)
    }

    /// Counters.
    pub fn stats(&self) -> TlbStats {
        self.stats
    }

    /// Makes them what they are after a synchronisation.
    pub fn reset(&mut self) {
        self.first.entries.clear();
        self.second.entries.clear();
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
        let (spec, mut tlbs) = (spec(None), Tlbs::default());
        let mut delay = |page: u64, now| tlbs.translate(&spec, page << 12, now) - now;
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
        let (spec, mut tlbs) = (spec(None), Tlbs::default());
        assert_eq!(tlbs.translate(&spec, 0, 100), 110);
        assert_eq!(tlbs.translate(&spec, 128, 104), 110);
        assert_eq!(tlbs.translate(&spec, 1 << 12, 105), 115);
        assert_eq!(tlbs.translate(&spec, 0, 111), 111);
    }

    #[test]
    fn a_second_tlb_has_what_fits_it() {
        let second = TlbLevel { page_bytes: 1 << 14, entries: 2, miss_latency: 500 };
        let (spec, mut tlbs) = (spec(Some(second)), Tlbs::default());
        let mut delay = |page: u64, now| tlbs.translate(&spec, page << 12, now) - now;
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
            let mut tlbs = Tlbs::default();
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
                let at = tlbs.translate(&spec, (page << 12) + 256, now);
                prop_assert_eq!(at, from.max(now));
                prop_assert!(at >= last[page as usize], "requests of a page keep their order");
                last[page as usize] = at;
            }
        }
    }
}
