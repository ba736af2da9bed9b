//! Times in hundredths of a cycle, of what takes no whole number of cycles on average. They are whole numbers inside, so
//! that sums do not depend on their order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::Cycle;

/// Hundredths of a cycle; cycles with two decimals in a chip file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(with = "f64", inline)]
pub struct Hundredths(u32);

/// Hundredths of one.
const ONE: u32 = 100;

impl Hundredths {
    /// One cycle.
    pub const CYCLE: Self = Self(ONE);

    /// The number of hundredths of `count` times this.
    #[inline]
    pub fn times(self, count: u32) -> u64 {
        u64::from(self.0) * u64::from(count)
    }

    /// The hundredths at the begin of a cycle.
    #[inline]
    pub fn at(cycle: Cycle) -> u64 {
        cycle * u64::from(ONE)
    }

    /// The first cycle that begins at or after so many hundredths.
    #[inline]
    pub fn cycle(hundredths: u64) -> Cycle {
        hundredths.div_ceil(u64::from(ONE))
    }
}

impl TryFrom<f64> for Hundredths {
    type Error = String;

    fn try_from(cycles: f64) -> Result<Self, String> {
        let hundredths = (cycles * f64::from(ONE)).round();
        match (0.0..=10_000.0).contains(&cycles) {
            true => Ok(Self(hundredths as u32)),
            false => Err(format!("{cycles} is not between 0 and 10000 cycles")),
        }
    }
}

impl From<Hundredths> for f64 {
    fn from(Hundredths(hundredths): Hundredths) -> Self {
        Self::from(hundredths) / Self::from(ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::Hundredths;

    #[test]
    fn cycles_with_two_decimals() {
        let read = |cycles: f64| Hundredths::try_from(cycles).map(f64::from);
        assert_eq!(read(1.16), Ok(1.16));
        assert_eq!(read(3.484), Ok(3.48));
        assert!(read(-0.01).is_err() && read(10_000.5).is_err() && read(f64::NAN).is_err());
        let sum = Hundredths::at(7) + Hundredths::try_from(1.16).expect("cycles").times(3);
        assert_eq!((sum, Hundredths::cycle(sum), Hundredths::cycle(Hundredths::at(7))), (1048, 11, 7));
    }
}
