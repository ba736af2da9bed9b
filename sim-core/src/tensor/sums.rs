//! Sums of products, after M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh and F. A. Khattak, whose models agree with the
//! hardware bit by bit: the products of a group and the sum so far are aligned to the largest exponent among them,
//! truncated below so many fractional bits, added exactly, and rounded once. Products are not normalised before.
//!
//! The sums of a column of D are worked out together, a lane for each row, in doubles, in which all of it is exact: products
//! have 22 bits, sums of aligned terms fewer than 40. Where exponents are ordinary and the host has AVX2, aligned terms are
//! integers of 32 bits instead (`avx2`).

use std::ops::Range;

use super::scratch::{M, N};
use crate::lanes::power;

/// The exponent that zeros have among others, so that it never is the largest.
pub(super) const OF_ZERO: i16 = -1000;
/// No exponent of a sum in single precision is less.
pub(super) const LEAST: i32 = -126;
/// The least exponent of a normal half.
pub(super) const LEAST_HALF: i32 = -14;
/// The exponent of what is infinite or no number, as single precision has it.
pub(super) const SPECIAL: i16 = 128;

/// How sums are rounded.
#[derive(Clone, Copy)]
pub(super) enum Sums {
    /// Toward zero, to this many fractional bits of single precision.
    Single(u32),
    /// To the nearest half.
    Half,
}

/// How products are added.
#[derive(Clone, Copy)]
pub(super) struct Adder {
    /// Fractional bits that are kept below the largest exponent.
    pub(super) bits: i32,
    /// How many products are added at once.
    pub(super) group: usize,
    pub(super) rounding: Sums,
    /// All elements are finite, their exponents are their own, and the host has AVX2: terms may be integers.
    pub(super) integers: bool,
}

/// Elements along K, a lane for each row, and their exponents.
#[derive(Clone, Copy)]
pub(super) struct Lanes<'a> {
    pub(super) values: &'a [[f32; M]],
    pub(super) exponents: &'a [[i16; M]],
}

/// Elements of B along K, and their exponents.
#[derive(Clone, Copy)]
pub(super) enum Others<'b> {
    /// A column, the same for all rows of A.
    Column(&'b [[f32; N]], &'b [[i16; N]], usize),
    /// For each row its own ones.
    Own(Lanes<'b>),
}

impl Others<'_> {
    #[inline(always)]
    pub(super) fn values(self, k: usize) -> [f32; M] {
        match self {
            Self::Column(values, _, column) => [values[k][column % N]; M],
            Self::Own(lanes) => lanes.values[k],
        }
    }

    #[inline(always)]
    pub(super) fn exponents(self, k: usize) -> [i16; M] {
        match self {
            Self::Column(_, exponents, column) => [exponents[k][column % N]; M],
            Self::Own(lanes) => lanes.exponents[k],
        }
    }
}

impl Adder {
    /// Adds products to the sums of a column, group by group.
    #[inline(always)]
    pub(super) fn add(self, sums: &mut [f32; M], a: Lanes<'_>, b: Others<'_>, factors: Option<&[f64; M]>) {
        for first in (0..a.values.len()).step_by(self.group) {
            let group = first..(first + self.group).min(a.values.len());
            self.add_group(sums, a, b, group, factors);
        }
    }

    /// Adds the products of a group to the sums of a column.
    #[inline(always)]
    pub(super) fn add_group(
        self,
        sums: &mut [f32; M],
        a: Lanes<'_>,
        b: Others<'_>,
        group: Range<usize>,
        factors: Option<&[f64; M]>,
    ) {
        #[cfg(target_arch = "x86_64")]
        if self.integers && self.fits() {
            // SAFETY: `integers` says that the host has what the function needs.
            #[allow(unsafe_code, reason = "callers must have the features")]
            let added = unsafe { self.add_integers(sums, a, b, group.clone()) };
            if added {
                return;
            }
        }
        self.add_doubles(sums, a, b, group, factors);
    }

    /// Adds a group in doubles. Products are scaled by `factors` besides, which are powers of two or NaN.
    #[inline(always)]
    fn add_doubles(
        self,
        sums: &mut [f32; M],
        a: Lanes<'_>,
        b: Others<'_>,
        group: Range<usize>,
        factors: Option<&[f64; M]>,
    ) {
        let least = if matches!(self.rounding, Sums::Half) { LEAST_HALF } else { LEAST };
        let mut largest = [0; M];
        for r in 0..M {
            // Of infinities too it is one of single precision, so that scales do not become zero.
            let own = exponent_of_sum(sums[r].into()).clamp(least, SPECIAL.into());
            largest[r] = if sums[r] == 0.0 { LEAST } else { own };
        }
        for k in group.clone() {
            let (of_a, of_b) = (&a.exponents[k], b.exponents(k));
            for r in 0..M {
                largest[r] = largest[r].max(i32::from(of_a[r]) + i32::from(of_b[r]));
            }
        }
        let mut scale = [0.0; M];
        let mut total = [0.0; M];
        for r in 0..M {
            let aligned = power(self.bits - largest[r]);
            // Begun with a positive zero, to which a negative one changes nothing.
            total[r] += (f64::from(sums[r]) * aligned).trunc();
            scale[r] = match factors {
                Some(factors) => aligned * factors[r],
                None => aligned,
            };
        }
        for k in group {
            let (of_a, of_b) = (&a.values[k], b.values(k));
            for r in 0..M {
                total[r] += (f64::from(of_a[r]) * f64::from(of_b[r]) * scale[r]).trunc();
            }
        }
        for r in 0..M {
            sums[r] = round(total[r] * power(largest[r] - self.bits), self.rounding) as f32;
        }
    }
}

/// The exponent that a sum in single precision has in hardware.
#[inline(always)]
pub(super) fn exponent_of_sum(value: f64) -> i32 {
    let own = (value.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    own.max(LEAST)
}

/// A sum as the next group takes it.
#[inline(always)]
pub(super) fn round(value: f64, sums: Sums) -> f64 {
    let bits = value.to_bits();
    match sums {
        Sums::Single(kept) => {
            let normal = f64::from_bits(bits & !((1 << (52 - kept)) - 1));
            let unit = power(LEAST - kept as i32);
            let subnormal = (value * power(kept as i32 - LEAST)).trunc() * unit;
            let rounded = if value.abs() < power(LEAST) { subnormal } else { normal };
            // Beyond the largest number there is infinity.
            f64::from(rounded as f32)
        }
        Sums::Half => {
            let even = bits >> 42 & 1;
            let normal = f64::from_bits((bits + (1 << 41) - 1 + even) & !((1 << 42) - 1));
            // Units of 2^-24: those of 1.5 * 2^28.
            let magic = 1.5 * power(28);
            let subnormal = ((value + magic) - magic).copysign(value);
            let rounded = if value.abs() < power(LEAST_HALF) { subnormal } else { normal };
            let infinite = f64::INFINITY.copysign(value);
            if rounded.abs() >= 65536.0 { infinite } else { rounded }
        }
    }
}
