//! Launches of a kernel that are executed without timing, since others like them were timed.
//!
//! Launches of one kernel with one shape form a group. Its first ones are timed. When their rate is known well enough, some
//! are left out, many more with each time that it is found again. A launch that did more or less than all that were timed is
//! followed by one that is timed.

use std::collections::BTreeMap;

use sim_memory::vocabulary::Cycle;

use super::{AHEAD, BIAS, FEWEST, Rate, Sampling, Window};
use crate::grid::Kernel;
use crate::report::SampledReport;

/// Timed launches by which a group is judged: the last ones.
const MOST: usize = 16;

/// By how much the instructions of a launch may differ from those of all timed ones: one part in so many.
const LIKE: u64 = 10;

/// Launches of a kernel with one shape.
#[derive(Debug, Default)]
struct Group {
    /// The last ones that were timed.
    timed: Vec<Window>,
    /// All so far.
    seen: u64,
    /// Launches still to be left out.
    left_out: u64,
    /// The first one was timed.
    settled: bool,
    /// Launches that are timed, and whose cycles are not known yet.
    running: usize,
    /// One was timed since it was last decided.
    asks: bool,
}

/// Name, blocks, threads, bytes of dynamic shared memory, and blocks of a cluster.
type Shape = (String, [u32; 3], [u32; 3], u32, [u32; 3]);

/// The groups of a context.
#[derive(Debug, Default)]
pub struct Groups(BTreeMap<Shape, Group>);

fn shape(kernel: &Kernel) -> Shape {
    (kernel.name.to_string(), kernel.grid, kernel.block, kernel.dynamic_shared, kernel.cluster)
}

impl Groups {
    /// True if a launch is left out.
    pub fn leaves_out(&mut self, kernel: &Kernel, sampling: Sampling) -> bool {
        self.0.entry(shape(kernel)).or_default().leaves_out(sampling)
    }

    /// True if a launch must be timed, whatever the launches take that were taken before it and are still to run: too few of
    /// its group were timed. It counts as taken then.
    pub fn must_time(&mut self, kernel: &Kernel) -> bool {
        self.0.entry(shape(kernel)).or_default().must_time()
    }

    /// Launches that were taken do not run: the run ended with an error.
    pub fn give_up(&mut self) {
        self.0.values_mut().for_each(|group| group.seen -= std::mem::take(&mut group.running) as u64);
    }

    /// A launch was timed.
    pub fn timed(&mut self, kernel: &Kernel, cycles: Cycle, instructions: u64) {
        self.0.entry(shape(kernel)).or_default().timed_for(cycles, instructions);
    }

    /// A launch was left out, and had so many instructions. Gives its cycles, and what a report says of them.
    pub fn left_out(&mut self, kernel: &Kernel, instructions: u64) -> (Cycle, SampledReport) {
        self.0.entry(shape(kernel)).or_default().left_out_with(instructions)
    }
}

impl Group {
    fn leaves_out(&mut self, sampling: Sampling) -> bool {
        // It is asked when one more was timed, so that those that are left out are followed by one that is timed.
        if std::mem::take(&mut self.asks) && self.steady(sampling) {
            self.left_out = AHEAD * self.seen;
        }
        self.seen += 1;
        let left_out = self.left_out > 0;
        self.left_out -= u64::from(left_out);
        self.running += usize::from(!left_out);
        left_out
    }

    fn must_time(&mut self) -> bool {
        // The first one does not count.
        let known = (self.timed.len() + self.running).saturating_sub(usize::from(!self.settled));
        let must = self.left_out == 0 && known < FEWEST;
        self.seen += u64::from(must);
        self.running += usize::from(must);
        must
    }

    fn timed_for(&mut self, cycles: Cycle, instructions: u64) {
        self.running = self.running.saturating_sub(1);
        // The first one finds caches cold.
        if !std::mem::replace(&mut self.settled, true) {
            return;
        }
        if self.timed.len() == MOST {
            self.timed.remove(0);
        }
        self.timed.push(Window { cycles, instructions });
        self.asks = true;
    }

    fn left_out_with(&mut self, instructions: u64) -> (Cycle, SampledReport) {
        let timed = self.timed.iter().map(|timed| timed.instructions);
        let (least, most) = (timed.clone().min().unwrap_or(0), timed.max().unwrap_or(0));
        if instructions < least - least / LIKE || instructions > most + most / LIKE {
            self.left_out = 0;
        }
        let (cycles, half) = self.rate(1).cycles(1.0, instructions);
        let half = half.hypot(BIAS * cycles);
        let report = SampledReport {
            cycles_low: (cycles - half).max(0.0).floor() as Cycle,
            cycles_high: (cycles + half).ceil() as Cycle,
            ..SampledReport::default()
        };
        (cycles.round() as Cycle, report)
    }

    /// The rate of so many launches like those that were timed.
    fn rate(&self, more: u64) -> Rate {
        let half = &self.timed[self.timed.len() / 2..];
        let all = Rate::of_launches(&self.timed, more);
        if half.len() < FEWEST {
            return all;
        }
        let later = Rate::of_launches(half, more);
        if later.half_width < all.half_width { later } else { all }
    }

    fn steady(&self, sampling: Sampling) -> bool {
        self.timed.len() >= FEWEST && self.rate(AHEAD * self.seen).half_width <= sampling.error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(times: impl Fn(u64) -> (Cycle, u64), launches: u64) -> (Vec<u64>, Vec<SampledReport>) {
        let mut group = Group::default();
        let sampling = Sampling::try_from(2.0).expect("an error");
        let (mut timed, mut left_out) = (Vec::new(), Vec::new());
        for launch in 0..launches {
            let (cycles, instructions) = times(launch);
            if group.leaves_out(sampling) {
                left_out.push(group.left_out_with(instructions).1);
            } else {
                timed.push(launch);
                group.timed_for(cycles, instructions);
            }
        }
        (timed, left_out)
    }

    #[test]
    fn launches_are_left_out_when_their_rate_is_known_and_looked_at_again() {
        let (timed, left_out) = group(|launch| (1000 + launch % 2, 500), 2000);
        assert_eq!(timed, [0, 1, 2, 3, 4, 80, 1296]);
        assert_eq!(left_out.len(), 1993);
        assert!(
            left_out.iter().all(|of| of.cycles_low < 1000 && of.cycles_high > 1001 && of.cycles_high < 1035)
        );
    }

    #[test]
    fn the_first_launches_are_timed_together() {
        let (mut group, sampling) = (Group::default(), Sampling::try_from(2.0).expect("an error"));
        let (mut launch, mut together) = (0, Vec::new());
        while launch < 100 {
            if group.leaves_out(sampling) {
                group.left_out_with(500);
                launch += 1;
                continue;
            }
            let first = launch;
            launch += 1;
            while launch < 100 && group.must_time() {
                launch += 1;
            }
            (first..launch).for_each(|launch| group.timed_for(1000 + launch % 2, 500));
            together.push((first, launch - first));
        }
        // As many as are timed where each is known before the next one.
        assert_eq!(together, [(0, 5), (80, 1)]);
    }

    #[test]
    fn launches_that_were_taken_and_did_not_run_do_not_count() {
        let (mut groups, sampling) = (Groups::default(), Sampling::try_from(2.0).expect("an error"));
        let group = groups.0.entry(Default::default()).or_default();
        assert!(!group.leaves_out(sampling));
        assert_eq!((0..9).take_while(|_| group.must_time()).count(), 4);
        groups.give_up();
        let group = groups.0.entry(Default::default()).or_default();
        assert_eq!((group.seen, group.running), (0, 0));
        assert!(!group.leaves_out(sampling));
        assert_eq!((0..9).take_while(|_| group.must_time()).count(), 4);
    }

    #[test]
    fn launches_that_did_more_are_followed_by_one_that_is_timed() {
        let (timed, left_out) = group(|launch| if launch < 20 { (1000, 500) } else { (2000, 1000) }, 60);
        assert_eq!(timed[..6], [0, 1, 2, 3, 4, 21]);
        // The first of them by its instructions.
        assert!(left_out[15].cycles_low < 2000 && left_out[15].cycles_high > 2000, "{:?}", left_out[15]);
    }

    #[test]
    fn launches_that_have_no_rate_are_timed() {
        let (timed, left_out) = group(|launch| (1000 + (launch + 30) * (launch + 30) * 37 % 700, 500), 60);
        assert_eq!((timed.len(), left_out.len()), (60, 0));
    }
}
