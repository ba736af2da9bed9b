//! Sampling: kernels of which only a part is timed. All of it is executed.
//!
//! Within a kernel some blocks are timed (`blocks`), of many launches of a kernel some launches (`launches`). What is left out takes
//! the cycles of what was timed, by number or by warp instructions, with a confidence interval.

pub mod blocks;
pub mod launches;

use serde::{Deserialize, Serialize};
use sim_memory::vocabulary::Cycle;

/// How kernels are sampled; in JSON, the error in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Sampling {
    /// The half-width of the 95 % confidence interval of the cycles of what is left out, as a share of these
    /// cycles, at which what is timed suffices: parts per million.
    error_ppm: u32,
}

impl TryFrom<f64> for Sampling {
    type Error = String;

    /// With an error in percent.
    fn try_from(percent: f64) -> Result<Self, String> {
        match percent {
            0.01..=50.0 => Ok(Self { error_ppm: (percent * 1e4).round() as u32 }),
            _ => Err(format!("{percent} % is no error of a sample; 0.01 to 50 % are")),
        }
    }
}

impl From<Sampling> for f64 {
    fn from(sampling: Sampling) -> Self {
        100.0 * sampling.error()
    }
}

impl Sampling {
    /// The error as a share.
    fn error(self) -> f64 {
        f64::from(self.error_ppm) / 1e6
    }
}

/// Fewest windows that tell a rate.
const FEWEST: usize = 4;

/// Blocks or launches that may be left out for each that was timed or left out before: what comes later may be of another kind,
/// and is looked at again.
const AHEAD: u64 = 15;

/// What the interval allows for besides the spread of windows, as a share of what is left out: times may change slowly, as where
/// blocks that began together go apart, and caches and rows of DRAM are not quite as blocks that are timed would leave them.
const BIAS: f64 = 0.03;

/// The value that a variable of Student's t-distribution with so many degrees of freedom exceeds in 2.5 % of all cases.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    match freedom {
        0 => f64::INFINITY,
        n => TABLE.get(n - 1).copied().unwrap_or(1.96),
    }
}

/// The time in which the blocks of a wave ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    cycles: Cycle,
    /// Warp instructions issued in it.
    instructions: u64,
}

impl Window {
    fn sum(windows: &[Self]) -> Self {
        Self {
            cycles: windows.iter().map(|window| window.cycles).sum(),
            instructions: windows.iter().map(|window| window.instructions).sum(),
        }
    }
}

/// Cycles of what is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Cycles of a wave, or of a warp instruction.
    each: f64,
    /// It is of a warp instruction.
    by_instruction: bool,
    /// Half-width of the 95 % interval, as a share.
    half_width: f64,
    /// Windows that were taken together.
    together: usize,
}

impl Rate {
    /// The rate of windows, for the next `waves` of them: by waves or by instructions, whichever differs less from one
    /// window to another. Where a window is long after a short one, those of several together differ less.
    fn of(windows: &[Window], waves: u64) -> Self {
        let sizes = std::iter::successors(Some(1), |size| Some(2 * size));
        let sizes = sizes.take_while(|size| windows.len() / size >= FEWEST);
        let rates = sizes.flat_map(|size| {
            let together: Vec<Window> = windows.rchunks_exact(size).map(Window::sum).collect();
            let waves = waves / size as u64;
            // Where both are as well known, what does more takes longer.
            [
                Self::spread(&together, waves, |window| window.instructions as f64, true),
                Self::spread(&together, waves, |_| size as f64, false),
            ]
            .map(|rate| Self { together: size, ..rate })
        });
        let unknown = Self { each: 0.0, by_instruction: false, half_width: f64::INFINITY, together: 1 };
        rates.min_by(|a, b| a.half_width.total_cmp(&b.half_width)).unwrap_or(unknown)
    }

    /// The rate of launches, for so many more like them.
    fn of_launches(launches: &[Window], more: u64) -> Self {
        let by_number = Self::spread(launches, more, |_| 1.0, false);
        let by_instruction = Self::spread(launches, more, |window| window.instructions as f64, true);
        if by_number.half_width < by_instruction.half_width { by_number } else { by_instruction }
    }

    fn spread(windows: &[Window], waves: u64, size: impl Fn(&Window) -> f64, by_instruction: bool) -> Self {
        let n = windows.len() as f64;
        let sizes: f64 = windows.iter().map(&size).sum();
        let each = windows.iter().map(|window| window.cycles as f64).sum::<f64>() / sizes;
        // The deviations of a ratio of sums.
        let mean = sizes / n;
        let off = |window: &Window| (window.cycles as f64 - each * size(window)) / (each * mean);
        let variance = windows.iter().map(|window| off(window).powi(2)).sum::<f64>() / (n - 1.0);
        let half_width =
            student(windows.len() - 1) * (variance * (1.0 / n + 1.0 / waves.max(1) as f64)).sqrt();
        let half_width = if half_width.is_finite() { half_width } else { f64::INFINITY };
        Self { each, by_instruction, half_width, together: 1 }
    }

    /// The rate of other windows, of the same kind and as well known: of the last ones, as many as make whole groups, if there is a
    /// group.
    fn of_others(&self, windows: &[Window]) -> Self {
        let windows = match windows.len() / self.together * self.together {
            0 => windows,
            whole => &windows[windows.len() - whole..],
        };
        let sum = Window::sum(windows);
        let size = if self.by_instruction { sum.instructions } else { windows.len() as u64 };
        Self { each: if size == 0 { self.each } else { sum.cycles as f64 / size as f64 }, ..*self }
    }

    /// Cycles of so many waves with so many instructions, and the half-width of their interval.
    fn cycles(&self, waves: f64, instructions: u64) -> (f64, f64) {
        let cycles = self.each * if self.by_instruction { instructions as f64 } else { waves };
        (cycles, cycles * self.half_width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_instructions_where_these_explain_the_times() {
        let window = |cycles, instructions| Window { cycles, instructions };
        let windows = [window(100, 1000), window(200, 2000), window(300, 3000), window(400, 4000)];
        let rate = Rate::of(&windows, 10);
        assert!(rate.by_instruction && rate.half_width < 1e-9);
        assert_eq!(rate.cycles(10.0, 50_000).0.round(), 5000.0);
        let windows = [window(100, 1000), window(100, 2000), window(100, 3000), window(100, 4000)];
        let rate = Rate::of(&windows, 10);
        assert!(!rate.by_instruction && rate.half_width < 1e-9);
        assert_eq!(rate.cycles(10.0, 50_000).0.round(), 1000.0);
    }

    #[test]
    fn the_rate_of_other_windows_is_of_the_same_kind() {
        let windows = |times: &[Cycle]| -> Vec<Window> {
            times.iter().map(|&cycles| Window { cycles, instructions: 2 * cycles }).collect()
        };
        let by_wave = |together| Rate { each: 7.0, by_instruction: false, half_width: 0.1, together };
        assert_eq!(by_wave(1).of_others(&windows(&[50, 150, 50])).each, 250.0 / 3.0);
        assert_eq!(by_wave(2).of_others(&windows(&[50, 150, 50])).each, 100.0);
        assert_eq!(
            by_wave(4).of_others(&windows(&[50, 150, 50])),
            by_wave(4).of_others(&windows(&[50, 50, 150]))
        );
        let by_instruction = Rate { by_instruction: true, ..by_wave(1) };
        assert_eq!(by_instruction.of_others(&windows(&[50, 150])).each, 0.5);
        assert_eq!(by_instruction.of_others(&windows(&[0, 0])).each, 7.0, "nothing is known of them");
    }
}
