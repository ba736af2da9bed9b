//! Blocks that are left out of the timing of a kernel.
//!
//! Blocks of a kernel run in waves, each as many blocks as the chip holds at a time. A window is the time in which as
//! many blocks end as a wave has. The windows after the first one, in which blocks begin and caches fill, are steady when
//! their mean is known well enough; then the next blocks are executed without timing, as many whole waves as may be left out.
//! Those after them are timed again, and with the last ones the end of the kernel, in which fewer and fewer blocks run. What was
//! left out takes the mean of the rates before and after it.

use sim_memory::vocabulary::Cycle;

use super::{AHEAD, BIAS, FEWEST, Rate, Sampling, Window};
use crate::report::SampledReport;

/// As [`AHEAD`], for the first blocks that are left out, and as long as the rates before and after those that were left out last
/// differ by more than the error: blocks that began together go apart for some time, or the kernel changes.
const AHEAD_AT_FIRST: u64 = 3;

/// Fewest windows after blocks that were left out that tell the rate there.
const FEWEST_AFTER: usize = 2;

/// Kernels of at least so many waves have such windows after the last blocks that are left out, too.
const MANY: u64 = 24;

/// What L2 holds: lines in use, dirty lines, and how many of either there can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L2Use {
    /// Lines in use, and lines.
    pub used: [u64; 2],
    /// Dirty lines, and as many as may be dirty.
    pub dirty: [u64; 2],
}

impl L2Use {
    /// Waves after which L2 is full of lines, or of dirty ones, where it was not before and fills as it has since `before`, so many
    /// waves ago: from then on accesses take other times.
    fn waves_until_full(&self, before: &Self, waves: u64) -> u64 {
        let of = |[now, most]: [u64; 2], [before, _]: [u64; 2]| {
            let full = most - most / 32;
            if now >= full || now <= before { u64::MAX } else { (full - now) * waves / (now - before) }
        };
        of(self.used, before.used).min(of(self.dirty, before.dirty))
    }
}

/// Blocks that are executed without timing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skip {
    /// Their grid.
    pub grid: u32,
    /// The first of them, in the order of dispatch.
    pub from: u64,
    /// The first one behind them.
    pub to: u64,
    rate: Rate,
    wave: u64,
}

/// Blocks that were left out last: their rate is known when some after them were timed.
#[derive(Debug)]
struct Open {
    skip: Skip,
    instructions: u64,
    /// What its grid has of it so far.
    is: Estimate,
    /// The rate after it is that before it, within the error.
    steady: bool,
}

/// Cycles, and the half-width of their interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Estimate {
    cycles: f64,
    half: f64,
}

/// The kernel that runs alone, as the dispatcher sees it.
#[derive(Debug)]
struct Followed {
    grid: u32,
    /// Blocks of a wave.
    wave: u64,
    /// Blocks that have ended in the window under way.
    ended: u64,
    /// Warp instructions of each SM when its last block ended.
    issued: Vec<u64>,
    /// Where the window under way began.
    begin: Cycle,
    instructions: u64,
    /// Windows that do not count: the first one, and the first one after blocks were left out.
    settles: bool,
    windows: Vec<Window>,
    /// Windows so far.
    seen: u64,
    /// What L2 held after so many windows.
    l2: Option<(u64, L2Use)>,
    /// Blocks timed or left out so far.
    covered: u64,
    /// All blocks of the kernel; 0 until some were left out.
    blocks: u64,
    /// Its blocks wait for others: no more are left out.
    wait: bool,
}

/// What of the kernels of a run is left out.
#[derive(Debug)]
pub struct Windows {
    sampling: Sampling,
    /// Cycles from a decision to the execution of blocks: no less than an epoch, so that all components stand at one cycle then.
    after: Cycle,
    followed: Option<Followed>,
    /// The cycle at which blocks may be left out, or such are to be executed that have waited for others.
    due: Option<(Cycle, Option<Skip>)>,
    /// How often blocks that are left out have waited for others, and the cycle at which they were looked at last.
    waits: u32,
    looked: Cycle,
    /// Nothing runs any more, or ever changes, that they could wait for.
    rests: bool,
    /// What was left out, by grid.
    left_out: Vec<LeftOut>,
    /// What was left out last, of which the rate after it may still change the estimate.
    open: Option<Open>,
}

/// Half the cycles after which blocks that wait for others are looked at again the first time; each time they wait twice as
/// long.
const WAIT: Cycle = 1024;

/// What was left out of a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeftOut {
    /// Blocks.
    pub blocks: u64,
    /// Estimate of their cycles.
    cycles: f64,
    /// Sum of the squares of the half-widths of the intervals.
    squares: f64,
}

impl Open {
    /// What it took at a rate.
    fn estimate(&self, rate: &Rate) -> Estimate {
        let waves = (self.skip.to - self.skip.from) as f64 / self.skip.wave as f64;
        let (cycles, half) = rate.cycles(waves, self.instructions);
        Estimate { cycles, half }
    }
}

impl LeftOut {
    /// Adds an estimate in place of another one.
    fn add(&mut self, is: &Estimate, was: &Estimate) {
        self.cycles += is.cycles - was.cycles;
        self.squares += is.half.powi(2) - was.half.powi(2);
    }

    /// Estimate of the cycles, in whole ones.
    pub fn cycles(&self) -> Cycle {
        self.cycles.round() as Cycle
    }

    /// What a report says of a kernel that was timed for so many cycles and instructions.
    pub fn report(&self, blocks: u64, cycles: Cycle, warp_instructions: u64) -> SampledReport {
        let whole = cycles as f64 + self.cycles;
        let half = self.squares.max(0.0).sqrt().hypot(BIAS * self.cycles);
        SampledReport {
            timed_blocks: blocks - self.blocks,
            timed_cycles: cycles,
            timed_warp_instructions: warp_instructions,
            cycles_low: (whole - half).max(cycles as f64).floor() as Cycle,
            cycles_high: (whole + half).ceil() as Cycle,
        }
    }
}

impl Windows {
    pub(crate) fn new(sampling: Sampling, after: Cycle) -> Self {
        Self {
            sampling,
            after,
            followed: None,
            due: None,
            waits: 0,
            looked: 0,
            rests: false,
            left_out: Vec::new(),
            open: None,
        }
    }

    /// A block of a grid ended on an SM that has issued so many instructions of it by then. When a window has ended with it, and
    /// the rate is known well enough, blocks may be left out soon.
    pub(crate) fn block_ended(&mut self, now: Cycle, grid: u32, wave: u64, sm: u32, issued: u64) {
        if !matches!(&self.followed, Some(followed) if followed.grid == grid) {
            self.followed = Some(Followed::new(grid, wave, now));
            self.open = None;
        }
        let error = self.sampling.error();
        let Some(followed) = self.followed.as_mut() else { return };
        if !followed.ended(now, sm, issued) {
            return;
        }
        if !followed.wait
            && self.due.is_none()
            && followed.rate(u64::MAX).is_some_and(|rate| rate.half_width <= error)
        {
            self.due = Some((now + self.after, None));
        }
        self.look_back();
    }

    /// Some blocks have been timed after those that were left out last: these take the mean of the rates on both sides, and their
    /// interval has both.
    fn look_back(&mut self) {
        let (Some(followed), Some(open)) = (&self.followed, &mut self.open) else { return };
        // In the last window blocks run out.
        if followed.windows.len() < FEWEST_AFTER || followed.covered + followed.wave > followed.blocks {
            return;
        }
        let before = open.estimate(&open.skip.rate);
        let after = open.estimate(&open.skip.rate.of_others(&followed.windows));
        let apart = (after.cycles - before.cycles) / 2.0;
        open.steady = 2.0 * apart.abs() <= self.sampling.error() * before.cycles;
        let is = Estimate { cycles: before.cycles + apart, half: before.half.hypot(apart) };
        let sum = &mut self.left_out[open.skip.grid as usize];
        sum.add(&is, &std::mem::replace(&mut open.is, is));
    }

    /// It is not the time for it: later.
    pub(crate) fn later(&mut self) {
        if let Some((at, _)) = &mut self.due {
            *at += self.after;
        }
    }

    /// Blocks of a grid, of which `next` is the next one to be sent, that are left out.
    pub(crate) fn leave_out(&mut self, grid: u32, next: u64, blocks: u64, l2: L2Use) -> Option<Skip> {
        let error = self.sampling.error();
        let followed = self.followed.as_mut().filter(|followed| followed.grid == grid)?;
        let wave = followed.wave;
        let before = followed.l2.replace((followed.seen, l2));
        // The blocks of a wave are left for the end, and, of many, such that tell the rate before it.
        let last = wave * if blocks / wave < MANY { 1 } else { 1 + FEWEST_AFTER as u64 };
        let left = blocks.saturating_sub(next).saturating_sub(last);
        let (seen, before) = before?;
        let full = l2.waves_until_full(&before, followed.seen - seen);
        let steady = self.open.as_ref().is_some_and(|open| open.steady);
        let ahead = if steady { AHEAD } else { AHEAD_AT_FIRST };
        let waves = (left.min(ahead * followed.covered) / wave).min(full);
        if waves < 2 {
            return None;
        }
        let rate = followed.rate(waves).filter(|rate| rate.half_width <= error)?;
        followed.windows.clear();
        followed.settles = true;
        followed.l2 = None;
        followed.covered += waves * wave;
        followed.blocks = blocks;
        self.open = None;
        Some(Skip { grid, from: next, to: next + waves * wave, rate, wave })
    }

    /// The cycle at which blocks may be left out or are to be executed.
    pub(crate) fn due(&self) -> Option<Cycle> {
        self.due.map(|(at, _)| at)
    }

    /// It is time: gives the blocks that are still to be executed, if there are any.
    pub(crate) fn take_due(&mut self) -> Option<Skip> {
        let (at, skip) = self.due.take()?;
        self.looked = at;
        skip
    }

    /// Blocks that are left out wait for others.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.due, Some((_, Some(_))))
    }

    /// Nothing runs, or ever changes, that they could wait for.
    pub(crate) fn rest(&mut self) {
        self.rests = true;
    }

    /// Whether that was so when they were last looked at.
    pub(crate) fn take_rest(&mut self) -> bool {
        std::mem::take(&mut self.rests)
    }

    /// They wait for blocks that are timed: more of the kernel are not left out.
    pub(crate) fn wait(&mut self, skip: Skip) {
        if let Some(followed) = &mut self.followed {
            followed.wait = true;
        }
        self.waits += 1;
        self.due = Some((self.looked + (WAIT << self.waits.min(10)), Some(skip)));
    }

    /// The cycle at which blocks were last looked at.
    pub(crate) fn looked(&self) -> Cycle {
        self.looked
    }

    /// They have been executed, with so many instructions.
    pub(crate) fn executed(&mut self, skip: &Skip, instructions: u64) {
        let grid = skip.grid as usize;
        if self.left_out.len() <= grid {
            self.left_out.resize(grid + 1, LeftOut::default());
        }
        let mut open = Open { skip: *skip, instructions, is: Estimate::default(), steady: false };
        open.is = open.estimate(&skip.rate);
        let sum = &mut self.left_out[grid];
        sum.blocks += skip.to - skip.from;
        sum.add(&open.is, &Estimate::default());
        self.open = Some(open);
    }

    /// Cycles of all that was left out.
    pub(crate) fn cycles(&self) -> Cycle {
        self.left_out.iter().map(LeftOut::cycles).sum()
    }

    /// What was left out of a grid.
    pub(crate) fn left_out(&self, grid: usize) -> LeftOut {
        self.left_out.get(grid).copied().unwrap_or_default()
    }
}

impl Followed {
    fn new(grid: u32, wave: u64, now: Cycle) -> Self {
        Self {
            grid,
            wave,
            ended: 0,
            issued: Vec::new(),
            begin: now,
            instructions: 0,
            settles: true,
            windows: Vec::new(),
            seen: 0,
            l2: None,
            covered: 0,
            blocks: 0,
            wait: false,
        }
    }

    /// A block ended. True where a window ended with it.
    fn ended(&mut self, now: Cycle, sm: u32, issued: u64) -> bool {
        let sm = sm as usize;
        if self.issued.len() <= sm {
            self.issued.resize(sm + 1, 0);
        }
        self.issued[sm] = issued;
        self.ended += 1;
        self.covered += 1;
        if self.ended < self.wave {
            return false;
        }
        let instructions = self.issued.iter().sum();
        let window = Window { cycles: now - self.begin, instructions: instructions - self.instructions };
        (self.ended, self.begin, self.instructions) = (0, now, instructions);
        self.seen += 1;
        if !std::mem::take(&mut self.settles) {
            self.windows.push(window);
        }
        true
    }

    /// The rate of the windows so far, or of their later half, where it is known better.
    fn rate(&self, waves: u64) -> Option<Rate> {
        let all = &self.windows[..];
        let half = &all[all.len() / 2..];
        let rates = [all, half].into_iter().filter(|windows| windows.len() >= FEWEST);
        rates.map(|windows| Rate::of(windows, waves)).min_by(|a, b| a.half_width.total_cmp(&b.half_width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one SM that holds two at a time and ends a wave each 100 cycles, or as `times` says.
    fn run(blocks: u64, percent: f64, times: impl Fn(u64) -> Cycle) -> (Windows, Vec<Skip>) {
        run_with(blocks, percent, times, |_| L2Use { used: [7, 100], dirty: [1, 100] })
    }

    fn run_with(
        blocks: u64,
        percent: f64,
        times: impl Fn(u64) -> Cycle,
        l2: impl Fn(u64) -> L2Use,
    ) -> (Windows, Vec<Skip>) {
        let mut windows = Windows::new(Sampling::try_from(percent).expect("an error"), 8);
        let (mut next, mut now, mut issued, mut skips) = (2, 0, 0, Vec::new());
        let mut ended = 0;
        while ended < blocks {
            now += times(ended / 2);
            for _ in 0..2.min(blocks - ended) {
                issued += 50;
                ended += 1;
                next = (next + 1).min(blocks);
                windows.block_ended(now, 0, 2, 0, issued);
                if windows.due() == Some(now + 8)
                    && windows.take_due().is_none()
                    && let Some(skip) = windows.leave_out(0, next, blocks, l2(ended))
                {
                    windows.executed(&skip, 50 * (skip.to - skip.from));
                    ended += skip.to - skip.from;
                    next = skip.to;
                    skips.push(skip);
                }
            }
        }
        (windows, skips)
    }

    #[test]
    fn steady_blocks_are_left_out_in_whole_waves() {
        let (windows, skips) = run(1000, 2.0, |_| 100);
        let left = windows.left_out(0);
        // After a window to settle and four that count, and one more that shows how L2 fills: 6 waves, then 3 times as many.
        assert_eq!((skips[0].from, skips[0].to), (14, 50));
        assert!(left.blocks > 900, "{left:?}");
        assert_eq!(left.cycles(), 50 * left.blocks);
        assert_eq!(left.squares, 0.0);
        for skip in &skips {
            assert!((skip.to - skip.from) % 2 == 0 && skip.to <= 998, "{skip:?}");
        }
    }

    #[test]
    fn blocks_that_vary_are_timed_until_their_mean_is_known() {
        // Waves of 100 to 140 cycles.
        let uneven = |wave: u64| 100 + wave * wave * 31 % 41;
        let (windows, skips) = run(4000, 2.0, uneven);
        assert!(skips[0].from > 40, "{skips:?}");
        let left = windows.left_out(0);
        let all: u64 = (0..2000).map(uneven).sum();
        let expected = left.blocks as f64 * all as f64 / 4000.0;
        assert!((left.cycles - expected).abs() < left.squares.sqrt() + 1.0, "{left:?}, {expected}");
        // A smaller error is not reached, and nothing is left out.
        assert_eq!(run(400, 0.1, uneven).1, []);
        // Waves that differ in turn are as steady as two of them together.
        let (windows, skips) = run(4000, 2.0, |wave| if wave % 2 == 0 { 100 } else { 120 });
        let left = windows.left_out(0);
        let off = (left.cycles - 55.0 * left.blocks as f64).abs();
        assert!(skips[0].from < 30 && off < 1.0, "{left:?}");
    }

    #[test]
    fn what_is_left_out_takes_the_rates_of_both_sides() {
        // Waves of 120 cycles for some time, then of fewer and fewer, then of 90.
        let falls = |wave: u64| 120 - (wave.max(10) - 10).min(30);
        let (windows, skips) = run(400, 2.0, falls);
        let left = windows.left_out(0);
        let skip = skips[0];
        assert_eq!((skip.from, skip.to), (14, 50));
        // These 18 waves alone, with windows of 106 and 104 cycles behind them: each takes the mean of 120 and 105.
        let mut own = Windows::new(Sampling::try_from(2.0).expect("an error"), 8);
        own.followed = Some(Followed { blocks: 400, ..Followed::new(0, 2, 0) });
        own.executed(&skip, 1800);
        assert_eq!((own.left_out(0).cycles, own.left_out(0).squares), (18.0 * 120.0, 0.0));
        let mut now = 0;
        for (window, cycles) in [(1, 500), (2, 106), (3, 104)] {
            now += cycles;
            own.block_ended(now - 1, 0, 2, 0, 50 * window);
            own.block_ended(now, 0, 2, 0, 100 * window);
            assert_eq!(own.left_out(0).cycles == 18.0 * 112.5, window == 3, "{:?}", own.left_out(0));
        }
        assert_eq!(own.left_out(0).squares.sqrt(), 18.0 * 7.5);
        assert!(!own.open.as_ref().expect("the last one").steady);
        let first = (0..skip.from / 2).map(falls).sum::<u64>();
        assert!(first == 7 * 120 && skips.len() > 1, "{skips:?}");
        let all: u64 = (0..200).map(falls).sum();
        let timed: u64 =
            all - skips.iter().flat_map(|skip| skip.from / 2..skip.to / 2).map(falls).sum::<u64>();
        let report = left.report(400, timed, 1);
        assert!((report.cycles_low..=report.cycles_high).contains(&all), "{report:?}, {all}");
        // With the rates before it alone it is not.
        let before = skips
            .iter()
            .map(|skip| skip.rate.cycles((skip.to - skip.from) as f64 / 2.0, 50 * (skip.to - skip.from)));
        assert!(before.map(|(cycles, _)| cycles).sum::<f64>() + timed as f64 > 1.03 * all as f64);
    }

    #[test]
    fn fewer_are_left_out_while_the_rates_of_both_sides_differ() {
        let most = |times: &dyn Fn(u64) -> u64| {
            let skips = run(20_000, 2.0, times).1;
            skips.iter().map(|skip| (skip.to - skip.from) / (skip.from + 1)).max()
        };
        assert_eq!(most(&|wave| 100 + wave / 4), Some(2));
        assert!(most(&|_| 100) > Some(10));
    }

    #[test]
    fn blocks_are_left_out_until_l2_is_full() {
        // 10 lines a wave, of 960 before it is full.
        let l2 = |ended| L2Use { used: [5 * ended, 992], dirty: [0, 992] };
        let skips = run_with(1000, 2.0, |_| 100, l2).1;
        assert_eq!((skips[0].from, skips[0].to), (14, 50));
        assert!(skips[1].to <= 200, "{skips:?}");
        // A full one, and one that does not fill, are no limit.
        for [now, most] in [[980, 992], [7, 992]] {
            let skips = run_with(1000, 2.0, |_| 100, |_| L2Use { used: [now, most], dirty: [now, most] }).1;
            assert_eq!((skips[1].from, skips[1].to), (62, 962), "{skips:?}");
        }
    }

    #[test]
    fn of_a_kernel_whose_blocks_wait_no_more_are_left_out() {
        let mut windows = Windows::new(Sampling::try_from(2.0).expect("an error"), 8);
        let l2 = L2Use { used: [7, 100], dirty: [1, 100] };
        let end = |windows: &mut Windows, ended: u64| {
            windows.block_ended(50 * ended, 0, 2, 0, 50 * ended);
            windows.due().filter(|_| !windows.waits())
        };
        assert!((1..10).all(|ended| end(&mut windows, ended).is_none()));
        assert_eq!(end(&mut windows, 10), Some(508));
        assert!(windows.take_due().is_none() && windows.leave_out(0, 12, 1000, l2).is_none());
        end(&mut windows, 11);
        assert_eq!(end(&mut windows, 12), Some(608));
        assert!(windows.take_due().is_none());
        let skip = windows.leave_out(0, 14, 1000, l2).expect("the rate is known");
        // It waits for others, longer each time.
        for at in [608 + 2 * WAIT, 608 + 6 * WAIT] {
            windows.wait(skip);
            assert!(windows.waits() && !windows.take_rest());
            assert_eq!((windows.due(), windows.take_due()), (Some(at), Some(skip)));
        }
        windows.executed(&skip, 1800);
        assert!((13..100).all(|ended| end(&mut windows, ended).is_none()));
    }

    #[test]
    fn other_times_later_are_seen() {
        let (_, skips) = run(20_000, 2.0, |wave| if wave < 1000 { 100 } else { 200 });
        assert!(skips.len() >= 3, "{skips:?}");
        assert!(skips.iter().all(|skip| skip.to - skip.from <= AHEAD * skip.from), "{skips:?}");
    }
}
