//! Division by a number that is fixed when the device is built: a shift or a multiplication.

/// A divisor, prepared for fast division.
#[derive(Clone, Copy, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Divisor {
    by: u64,
    /// `ceil(2^64 / by)`; 0 if the divisor is 1.
    reciprocal: u64,
}

impl Divisor {
    /// Prepares division by `by`; 0 is taken as 1.
    pub fn new(by: u64) -> Self {
        let by = by.max(1);
        Self { by, reciprocal: if by == 1 { 0 } else { (u64::MAX / by).wrapping_add(1) } }
    }

    /// The divisor itself.
    pub fn by(self) -> u64 {
        self.by
    }

    /// Quotient and remainder of `n` by the divisor.
    #[inline(always)]
    pub fn divide(self, n: u64) -> (u64, u64) {
        // The reciprocal is too large by less than by / 2^64: exact below 2^64 / by.
        if self.reciprocal == 0 {
            (n, 0)
        } else if n.leading_zeros() + self.by.leading_zeros() >= 64 {
            let quotient = ((u128::from(n) * u128::from(self.reciprocal)) >> 64) as u64;
            (quotient, n - quotient * self.by)
        } else {
            (n / self.by, n % self.by)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn quotients_and_remainders_are_exact(n: u64, small in 0u64..1 << 40, by: u64, few in 1u64..5000) {
            for (n, by) in [(n, by.max(1)), (n, few), (small, few), (few.wrapping_mul(by) >> 3, few)] {
                proptest::prop_assert_eq!(Divisor::new(by).divide(n), (n / by, n % by));
            }
        }

        #[test]
        fn multiples_and_their_neighbours(q in 0u64..1 << 30, by in 1u64..1 << 20) {
            for n in [q * by, q * by + by - 1, (q * by).saturating_sub(1)] {
                proptest::prop_assert_eq!(Divisor::new(by).divide(n), (n / by, n % by));
            }
        }
    }
}
