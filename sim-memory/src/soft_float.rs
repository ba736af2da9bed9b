//! Floating-point arithmetic on integers, in any format and rounding mode, for what the host's instructions
//! do not provide: directed rounding, small formats, and fused multiply-add without the instruction. Exact
//! values are kept as significand, exponent and a sticky bit, and are rounded once.

/// The rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum Round {
    Nearest,
    Zero,
    Down,
    Up,
    /// To nearest, ties away from zero (`.rna`).
    NearestAway,
}

/// A binary floating-point format: the widths of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Width of the fraction field in bits.
    pub fraction: u32,
    /// Width of the exponent field in bits.
    pub exponent: u32,
}

/// Eight bits with a five-bit exponent (`.e5m2`).
pub const E5M2: Format = Format { fraction: 2, exponent: 5 };
/// Eight bits with a four-bit exponent; only the finite values of `.e4m3` below 256.
pub const E4M3: Format = Format { fraction: 3, exponent: 4 };
/// 16 bits with the exponent of single precision (`.bf16`).
pub const BF16: Format = Format { fraction: 7, exponent: 8 };
/// `.tf32`, as the upper 19 bits of a 32-bit word.
pub const TF32: Format = Format { fraction: 10, exponent: 8 };
/// Half precision (`.f16`).
pub const F16: Format = Format { fraction: 10, exponent: 5 };
/// Single precision (`.f32`).
pub const F32: Format = Format { fraction: 23, exponent: 8 };
/// Double precision (`.f64`).
pub const F64: Format = Format { fraction: 52, exponent: 11 };

/// An unpacked value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Not a number.
    Nan,
    /// Infinity; negative if true.
    Infinite(bool),
    /// `±significand × 2^exponent`; with a significand of 0, a zero.
    Finite {
        /// True for a negative value.
        negative: bool,
        /// The significand as an integer.
        significand: u128,
        /// The binary exponent of the significand's unit.
        exponent: i32,
    },
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn max_exponent_field(self) -> u64 {
        (1 << self.exponent) - 1
    }

    /// The canonical NaN: all bits set except the sign.
    pub fn nan(self) -> u64 {
        (1 << (self.fraction + self.exponent)) - 1
    }

    /// Infinity of a sign.
    pub fn infinity(self, negative: bool) -> u64 {
        u64::from(negative) << (self.fraction + self.exponent) | self.max_exponent_field() << self.fraction
    }

    fn zero(self, negative: bool) -> u64 {
        u64::from(negative) << (self.fraction + self.exponent)
    }

    /// Unpacks the bits of a value.
    pub fn unpack(self, bits: u64) -> Parts {
        let negative = bits >> (self.fraction + self.exponent) & 1 == 1;
        let field = bits >> self.fraction & self.max_exponent_field();
        let fraction = u128::from(bits & ((1 << self.fraction) - 1));
        let unit = 1 - self.bias() - self.fraction as i32;
        if field == self.max_exponent_field() {
            return if fraction == 0 { Parts::Infinite(negative) } else { Parts::Nan };
        }
        if field == 0 {
            return Parts::Finite { negative, significand: fraction, exponent: unit };
        }
        Parts::Finite {
            negative,
            significand: fraction | 1 << self.fraction,
            exponent: unit + field as i32 - 1,
        }
    }

    /// Rounds `±significand × 2^exponent`; `sticky` is set if bits below the significand were lost.
    pub fn round(self, negative: bool, significand: u128, exponent: i32, sticky: bool, round: Round) -> u64 {
        if significand == 0 && !sticky {
            return self.zero(negative);
        }
        // Two bits to spare below the last one kept, and no more than 126 in all.
        let (mut value, mut unit, mut sticky) = (significand, exponent, sticky);
        let spare = value.leading_zeros() as i32 - 2;
        if spare > 0 {
            value <<= spare;
            unit -= spare;
        }
        let least = 1 - self.bias() - self.fraction as i32;
        let top = 127 - value.leading_zeros() as i32;
        let wanted = (top - self.fraction as i32 + unit).max(least) - unit;
        let (kept, rest_half, rest_any) = if wanted <= 0 {
            (value, false, false)
        } else if wanted > 127 {
            sticky |= value != 0;
            (0, false, false)
        } else {
            let below = value & ((1u128 << wanted) - 1);
            let half = 1u128 << (wanted - 1);
            (value >> wanted, below & half != 0, below & (half - 1) != 0)
        };
        let unit = unit + wanted.max(0);
        let inexact_low = rest_any || sticky;
        let up = match round {
            Round::Nearest => rest_half && (inexact_low || kept & 1 == 1),
            Round::Zero => false,
            Round::Down => negative && (rest_half || inexact_low),
            Round::Up => !negative && (rest_half || inexact_low),
            Round::NearestAway => rest_half,
        };
        let mut kept = kept + u128::from(up);
        let mut unit = unit;
        if kept >> (self.fraction + 1) != 0 {
            kept >>= 1;
            unit += 1;
        }
        if kept >> self.fraction == 0 {
            return self.zero(negative) | kept as u64;
        }
        let field = i64::from(unit) - i64::from(least) + 1;
        if field >= self.max_exponent_field() as i64 {
            let to_infinity = match round {
                Round::Nearest | Round::NearestAway => true,
                Round::Zero => false,
                Round::Down => negative,
                Round::Up => !negative,
            };
            return if to_infinity { self.infinity(negative) } else { self.infinity(negative) - 1 };
        }
        self.zero(negative) | (field as u64) << self.fraction | (kept as u64 & ((1 << self.fraction) - 1))
    }

    /// `a + b`.
    pub fn add(self, a: u64, b: u64, round: Round) -> u64 {
        match (self.unpack(a), self.unpack(b)) {
            (Parts::Nan, _) | (_, Parts::Nan) => self.nan(),
            (Parts::Infinite(x), Parts::Infinite(y)) if x != y => self.nan(),
            (Parts::Infinite(x), _) | (_, Parts::Infinite(x)) => self.infinity(x),
            (x, y) => self.sum(x, y, round),
        }
    }

    /// The rounded sum of two finite values with significands below 2^110.
    fn sum(self, a: Parts, b: Parts, round: Round) -> u64 {
        let (
            Parts::Finite { negative: na, significand: sa, exponent: ea },
            Parts::Finite { negative: nb, significand: sb, exponent: eb },
        ) = (a, b)
        else {
            return self.nan();
        };
        if sa == 0 && sb == 0 {
            return self.zero(if na == nb { na } else { round == Round::Down });
        }
        // The larger exponent first; the other is shifted right with a sticky bit.
        let (mut big, mut small) = ((na, sa, ea), (nb, sb, eb));
        if sa == 0
            || sb != 0 && (127 - sb.leading_zeros() as i32 + eb) > (127 - sa.leading_zeros() as i32 + ea)
        {
            std::mem::swap(&mut big, &mut small);
        }
        let lift = (big.1.leading_zeros() as i32 - 3).max(0);
        let (big_value, unit) = (big.1 << lift, big.2 - lift);
        let shift = unit - small.2;
        let (small_value, sticky) = if small.1 == 0 {
            (0, false)
        } else if shift <= 0 {
            (small.1 << (-shift).min(127), false)
        } else if shift > 127 {
            (0, true)
        } else {
            (small.1 >> shift, small.1 & ((1u128 << shift) - 1) != 0)
        };
        if big.0 == small.0 {
            return self.round(big.0, big_value + small_value, unit, sticky, round);
        }
        // A sticky subtrahend borrows one: what is left lies strictly above that.
        let difference = big_value.wrapping_sub(small_value).wrapping_sub(u128::from(sticky));
        if difference == 0 && !sticky {
            return self.zero(round == Round::Down);
        }
        if (difference as i128) < 0 {
            return self.round(small.0, difference.wrapping_neg(), unit, sticky, round);
        }
        self.round(big.0, difference, unit, sticky, round)
    }

    /// `a * b + c`, rounded once.
    pub fn fma(self, a: u64, b: u64, c: u64, round: Round) -> u64 {
        let (x, y, z) = (self.unpack(a), self.unpack(b), self.unpack(c));
        let sign = |p: Parts| match p {
            Parts::Nan => false,
            Parts::Infinite(n) => n,
            Parts::Finite { negative, .. } => negative,
        };
        let negative = sign(x) != sign(y);
        let zero = |p: Parts| matches!(p, Parts::Finite { significand: 0, .. });
        match (x, y, z) {
            (Parts::Nan, ..) | (_, Parts::Nan, _) | (.., Parts::Nan) => self.nan(),
            (Parts::Infinite(_), other, _) | (other, Parts::Infinite(_), _) if zero(other) => self.nan(),
            (Parts::Infinite(_), ..) | (_, Parts::Infinite(_), _) => match z {
                Parts::Infinite(other) if other != negative => self.nan(),
                _ => self.infinity(negative),
            },
            (.., Parts::Infinite(other)) => self.infinity(other),
            (
                Parts::Finite { significand: sa, exponent: ea, .. },
                Parts::Finite { significand: sb, exponent: eb, .. },
                _,
            ) => {
                let product = Parts::Finite { negative, significand: sa * sb, exponent: ea + eb };
                self.sum(product, z, round)
            }
        }
    }

    /// `a * b`.
    pub fn mul(self, a: u64, b: u64, round: Round) -> u64 {
        match (self.unpack(a), self.unpack(b)) {
            (
                Parts::Finite { negative: na, significand: sa, exponent: ea },
                Parts::Finite { negative: nb, significand: sb, exponent: eb },
            ) => self.round(na != nb, sa * sb, ea + eb, false, round),
            _ => self.fma(a, b, self.zero(false), round),
        }
    }

    /// `a / b`.
    pub fn div(self, a: u64, b: u64, round: Round) -> u64 {
        match (self.unpack(a), self.unpack(b)) {
            (Parts::Nan, _) | (_, Parts::Nan) | (Parts::Infinite(_), Parts::Infinite(_)) => self.nan(),
            (Parts::Infinite(n), Parts::Finite { negative, .. }) => self.infinity(n != negative),
            (Parts::Finite { negative, .. }, Parts::Infinite(n)) => self.zero(n != negative),
            (
                Parts::Finite { negative: na, significand: sa, exponent: ea },
                Parts::Finite { negative: nb, significand: sb, exponent: eb },
            ) => match (sa, sb) {
                (0, 0) => self.nan(),
                (_, 0) => self.infinity(na != nb),
                (0, _) => self.zero(na != nb),
                _ => {
                    let lift = sa.leading_zeros() as i32 - 1;
                    let top = sa << lift;
                    self.round(na != nb, top / sb, ea - lift - eb, !top.is_multiple_of(sb), round)
                }
            },
        }
    }

    /// The correctly rounded square root.
    pub fn sqrt(self, a: u64, round: Round) -> u64 {
        match self.unpack(a) {
            Parts::Nan | Parts::Infinite(true) => self.nan(),
            Parts::Infinite(false) => self.infinity(false),
            Parts::Finite { negative, significand: 0, .. } => self.zero(negative),
            Parts::Finite { negative: true, .. } => self.nan(),
            Parts::Finite { significand, exponent, .. } => {
                let mut lift = significand.leading_zeros() as i32 - 2;
                lift -= (exponent - lift).rem_euclid(2);
                let value = significand << lift;
                let root = value.isqrt();
                self.round(false, root, (exponent - lift) / 2, root * root != value, round)
            }
        }
    }

    /// Converts a value from another format.
    pub fn convert(self, from: Format, bits: u64, round: Round) -> u64 {
        match from.unpack(bits) {
            Parts::Nan => self.nan(),
            Parts::Infinite(n) => self.infinity(n),
            Parts::Finite { negative, significand, exponent } => {
                self.round(negative, significand, exponent, false, round)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical32(value: f32) -> u64 {
        if value.is_nan() { F32.nan() } else { u64::from(value.to_bits()) }
    }

    fn canonical64(value: f64) -> u64 {
        if value.is_nan() { F64.nan() } else { value.to_bits() }
    }

    /// Values that often are special cases: extreme exponents, fractions of few bits.
    fn any32() -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            (any::<bool>(), 0u32..4, 0u32..8).prop_map(|(s, e, f)| u32::from(s) << 31 | e << 23 | f),
            (any::<bool>(), 250u32..256, any::<u32>())
                .prop_map(|(s, e, f)| u32::from(s) << 31 | e << 23 | f & 0x7f_ffff),
            (any::<bool>(), 100u32..150, 0u32..4).prop_map(|(s, e, f)| u32::from(s) << 31 | e << 23 | f),
        ]
    }

    fn any64() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            any32().prop_map(|b| f64::from(f32::from_bits(b)).to_bits()),
            (any::<bool>(), 0u64..3, any::<u64>())
                .prop_map(|(s, e, f)| u64::from(s) << 63 | e << 52 | f & 0xf_ffff_ffff_ffff)
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn nearest_agrees_with_the_host(a in any32(), b in any32(), c in any32()) {
            let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            let (a, b, c) = (u64::from(a), u64::from(b), u64::from(c));
            prop_assert_eq!(F32.add(a, b, Round::Nearest), canonical32(x + y));
            prop_assert_eq!(F32.mul(a, b, Round::Nearest), canonical32(x * y));
            prop_assert_eq!(F32.div(a, b, Round::Nearest), canonical32(x / y));
            prop_assert_eq!(F32.sqrt(a, Round::Nearest), if x < 0.0 { F32.nan() } else { canonical32(x.sqrt()) });
            prop_assert_eq!(F32.fma(a, b, c, Round::Nearest), canonical32(x.mul_add(y, z)));
        }

        #[test]
        fn nearest_agrees_with_the_host_in_double(a in any64(), b in any64(), c in any64()) {
            let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
            prop_assert_eq!(F64.add(a, b, Round::Nearest), canonical64(x + y));
            prop_assert_eq!(F64.mul(a, b, Round::Nearest), canonical64(x * y));
            prop_assert_eq!(F64.div(a, b, Round::Nearest), canonical64(x / y));
            prop_assert_eq!(F64.sqrt(a, Round::Nearest), if x < 0.0 { F64.nan() } else { canonical64(x.sqrt()) });
            prop_assert_eq!(F64.fma(a, b, c, Round::Nearest), canonical64(x.mul_add(y, z)));
        }

        /// Directed roundings enclose the exact value: the results are neighbours or equal, and the result
        /// rounded to nearest is one of them. f64 arithmetic decides on which side the exact product lies.
        #[test]
        fn directed_roundings_enclose(a in any32(), b in any32()) {
            let exact = f64::from(f32::from_bits(a)) * f64::from(f32::from_bits(b));
            prop_assume!(exact.is_finite());
            let (a, b) = (u64::from(a), u64::from(b));
            let value = |r| f64::from(f32::from_bits(F32.mul(a, b, r) as u32));
            prop_assert!(value(Round::Down) <= exact && exact <= value(Round::Up));
            prop_assert!(value(Round::Zero).abs() <= exact.abs());
            let nearest = value(Round::Nearest);
            prop_assert!(nearest == value(Round::Down) || nearest == value(Round::Up));
        }
    }

    #[test]
    fn signed_zeros_and_overflow() {
        let one = u64::from(1f32.to_bits());
        let minus = u64::from((-1f32).to_bits());
        assert_eq!(F32.add(one, minus, Round::Nearest), 0);
        assert_eq!(F32.add(one, minus, Round::Down), 1 << 31);
        let max = u64::from(f32::MAX.to_bits());
        assert_eq!(F32.add(max, max, Round::Zero), max);
        assert_eq!(F32.add(max, max, Round::Up), F32.infinity(false));
        assert_eq!(F16.convert(F32, u64::from(65519f32.to_bits()), Round::Nearest), 0x7bff);
        assert_eq!(F16.convert(F32, u64::from(65520f32.to_bits()), Round::Nearest), 0x7c00);
    }
}
