//! How well figures of the simulator agree with measured ones.

use std::fmt;

use serde::Serialize;

/// Agreement over several pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Number of pairs.
    pub count: usize,
    /// Mean of |ours − measured| / measured, in per cent.
    pub mean_absolute_error: f64,
    /// Median of the same.
    pub median_absolute_error: f64,
    /// The greatest of them.
    pub greatest_absolute_error: f64,
    /// Geometric mean of ours / measured.
    pub geometric_mean_ratio: f64,
    /// Spearman's rank correlation; none of fewer than two pairs, or where one side does not vary.
    pub rank_correlation: Option<f64>,
}

impl Agreement {
    /// That of pairs of our figure and the measured one, which are greater than 0.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let count = pairs.len();
        let mut errors: Vec<f64> =
            pairs.iter().map(|(ours, measured)| 100.0 * (ours - measured).abs() / measured).collect();
        errors.sort_by(f64::total_cmp);
        let mean = |sum: f64| sum / count.max(1) as f64;
        let logarithms = pairs.iter().map(|(ours, measured)| (ours / measured).ln()).sum::<f64>();
        let ranks = |side: fn(&(f64, f64)) -> f64| ranks(&pairs.iter().map(side).collect::<Vec<_>>());
        Self {
            count,
            mean_absolute_error: mean(errors.iter().sum()),
            median_absolute_error: middle(errors.clone()),
            greatest_absolute_error: errors.last().copied().unwrap_or(0.0),
            geometric_mean_ratio: mean(logarithms).exp(),
            rank_correlation: correlation(&ranks(|pair| pair.0), &ranks(|pair| pair.1)),
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kernels: mean absolute error {:.1} %, median {:.1} %, greatest {:.1} %; geometric mean ratio {:.2}",
            self.count,
            self.mean_absolute_error,
            self.median_absolute_error,
            self.greatest_absolute_error,
            self.geometric_mean_ratio
        )?;
        match self.rank_correlation {
            Some(correlation) => write!(f, "; rank correlation {correlation:.2}"),
            None => Ok(()),
        }
    }
}

/// The median; 0 of nothing.
pub fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    match values.as_slice() {
        [] => 0.0,
        list if count % 2 == 1 => list[count / 2],
        list => f64::midpoint(list[count / 2 - 1], list[count / 2]),
    }
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let less = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        less as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// Pearson's correlation.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
    let (a_mean, b_mean) = (mean(a), mean(b));
    let product = |x: &[f64], x_mean: f64, y: &[f64], y_mean: f64| {
        x.iter().zip(y).map(|(x, y)| (x - x_mean) * (y - y_mean)).sum::<f64>()
    };
    let spread = product(a, a_mean, a, a_mean) * product(b, b_mean, b, b_mean);
    (a.len() > 1 && spread > 0.0).then(|| product(a, a_mean, b, b_mean) / spread.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_ratios_and_ranks_are_those_of_the_definitions() {
        // Errors of 50, 25, 100 and 100 per cent; ranks 1 2 3 4 against 1 3 2 4.
        let found = Agreement::of(&[(50.0, 100.0), (500.0, 400.0), (600.0, 300.0), (1600.0, 800.0)]);
        assert_eq!((found.count, found.mean_absolute_error, found.median_absolute_error), (4, 68.75, 75.0));
        assert_eq!(found.greatest_absolute_error, 100.0);
        assert!((found.geometric_mean_ratio - (0.5f64 * 1.25 * 2.0 * 2.0).powf(0.25)).abs() < 1e-12);
        // 1 - 6 * 2 / (4 * 15).
        assert!((found.rank_correlation.expect("one") - 0.8).abs() < 1e-12, "{found}");
        assert_eq!(found.to_string().split(';').count(), 3);
    }

    #[test]
    fn few_pairs_and_equal_ones_have_no_correlation() {
        let none = Agreement::of(&[]);
        assert_eq!((none.count, none.mean_absolute_error, none.geometric_mean_ratio), (0, 0.0, 1.0));
        assert_eq!(Agreement::of(&[(1.0, 2.0)]).rank_correlation, None);
        assert_eq!(Agreement::of(&[(1.0, 2.0), (1.0, 3.0)]).rank_correlation, None);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
        assert_eq!(Agreement::of(&[(3.0, 1.0), (2.0, 2.0), (1.0, 3.0)]).rank_correlation, Some(-1.0));
    }
}
