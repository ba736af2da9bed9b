//! The instruction caches of an SM: when the line of machine code that a warp comes to is there.
//!
//! A line that the first cache lacks is fetched from the second one or from L2, and the next line behind it, one line after another.
//! As an H100 shows no latency of its own besides (data/h100), a line comes once those asked for before it have come.

use sim_frontend::chip::InstructionCacheSpec;
use sim_frontend::program::Pc;
use sim_memory::hundredths::Hundredths;
use sim_memory::recent_lines::RecentLines;
use sim_memory::vocabulary::Cycle;

use crate::code::Code;
use crate::grid::Kernel;

/// A line of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Line {
    /// When it is there.
    at: Cycle,
    /// It was fetched ahead, and no warp has come to it yet.
    ahead: bool,
}

/// The instruction caches of an SM, and what fetches into them.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub(super) struct Fetch {
    first: RecentLines<Line>,
    second: RecentLines<()>,
    /// Hundredths of a cycle that a line takes from the second cache, and from L2.
    intervals: [u64; 2],
    /// Lines of a kernel that its launch brings into the second cache.
    launched: u64,
    /// Grids below this number have begun here.
    grids: u32,
    /// Hundredths of a cycle: when what was asked for has come.
    free: u64,
}

impl Fetch {
    /// Empty caches.
    pub(super) fn new(spec: &InstructionCacheSpec) -> Self {
        let line_bytes = spec.line_bytes.max(1);
        let sets = |bytes: u32, ways: u32| bytes / line_bytes / ways.max(1);
        Self {
            first: RecentLines::new(sets(spec.bytes, spec.ways), spec.ways),
            second: RecentLines::new(sets(spec.second_bytes, spec.second_ways), spec.second_ways),
            intervals: [spec.interval.times(1), spec.second_interval.times(1)],
            launched: (spec.launch_bytes / line_bytes).into(),
            grids: 0,
            free: 0,
        }
    }

    /// Empties them.
    pub(super) fn reset(&mut self) {
        let Self { first, second, intervals: _, launched: _, grids, free } = self;
        first.clear();
        second.clear();
        (*grids, *free) = (0, 0);
    }

    /// A block begins. With the first one of a grid its first lines of code come into the second cache, and the first cache is empty.
    pub(super) fn launch(&mut self, kernel: &Kernel) {
        if kernel.grid_id < self.grids {
            return;
        }
        self.grids = kernel.grid_id + 1;
        self.first.clear();
        let code = &*kernel.code;
        let first = code.first_line;
        for number in first..first + u64::from(code.line_count()).min(self.launched) {
            if self.second.find(number).is_none() {
                self.second.insert(number, ());
            }
        }
    }

    /// A warp comes to an operation behind another, or from elsewhere: when its line of code is there, and those that the operation
    /// before it extends over.
    #[inline(never)]
    pub(super) fn come_to(&mut self, code: &Code, from: Option<Pc>, pc: Pc, now: Cycle) -> Cycle {
        let line = code.line_of(pc);
        let before = from.filter(|from| from + 1 == pc);
        let begin = before.map_or(line, |before| (code.line_of(before) + 1).min(line));
        let end = code.first_line + u64::from(code.line_count());
        let lines = code.first_line + u64::from(begin)..=code.first_line + u64::from(line);
        lines.fold(now, |at, line| at.max(self.line(line, end, now)))
    }

    /// When a line of a program that ends before line `end` is there.
    fn line(&mut self, number: u64, end: u64, now: Cycle) -> Cycle {
        let (at, first_use) = match self.first.find(number) {
            Some(found) => (found.at, std::mem::take(&mut found.ahead)),
            None => (self.fetch(number, now, false), true),
        };
        if first_use && number + 1 < end && self.first.find(number + 1).is_none() {
            self.fetch(number + 1, now, true);
        }
        at
    }

    /// Fetches a line that the first cache lacks: when it is there.
    fn fetch(&mut self, number: u64, now: Cycle, ahead: bool) -> Cycle {
        let missing = self.second.find(number).is_none();
        if missing {
            self.second.insert(number, ());
        }
        self.free = self.free.max(Hundredths::at(now)) + self.intervals[usize::from(missing)];
        let at = Hundredths::cycle(self.free);
        self.first.insert(number, Line { at, ahead });
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Caches of 4 and 16 lines, in sets of two, with 10 and 25.5 cycles a line.
    fn fetch() -> Fetch {
        let cycles = |cycles| Hundredths::try_from(cycles).expect("cycles");
        Fetch::new(&InstructionCacheSpec {
            instruction_bytes: 16,
            line_bytes: 128,
            bytes: 512,
            ways: 2,
            interval: cycles(10.0),
            second_bytes: 2048,
            second_ways: 2,
            second_interval: cycles(25.5),
            launch_bytes: 0,
        })
    }

    /// When each of these lines, of twenty, is there for a warp that comes to it at the cycle beside it.
    fn times(fetch: &mut Fetch, at: &[(u64, Cycle)]) -> Vec<Cycle> {
        at.iter().map(|&(line, now)| fetch.line(line, 20, now)).collect()
    }

    #[test]
    fn lines_come_one_after_another_each_with_the_next() {
        let mut fetch = fetch();
        // From L2: 0 and 1, then 2 with the first use of 1.
        assert_eq!(times(&mut fetch, &[(0, 100), (0, 110), (1, 130), (2, 155)]), [126, 126, 151, 177]);
        // Those ahead have been asked for before line 10.
        assert_eq!(times(&mut fetch, &[(10, 200)]), [228], "behind line 3");
        assert_eq!(
            times(&mut fetch, &[(19, 1000), (19, 1001)]),
            [1026, 1026],
            "the last line has no next one"
        );
    }

    #[test]
    fn what_the_first_cache_lacks_comes_from_the_second() {
        let mut fetch = fetch();
        times(&mut fetch, &[(0, 0), (1, 100), (2, 200)]);
        fetch.first.clear();
        assert_eq!(
            times(&mut fetch, &[(0, 1000), (1, 1040)]),
            [1010, 1020],
            "they come from the second cache"
        );
        fetch.reset();
        assert_eq!(times(&mut fetch, &[(0, 0)]), [26]);
    }
}
