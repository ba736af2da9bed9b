//! Exact values and their rounding to a format.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};
use sim_memory::vocabulary::ScalarType as T;

/// A rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the modes")]
pub enum Mode {
    NearestEven,
    NearestAway,
    Zero,
    Down,
    Up,
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the significand, the leading one included.
    pub precision: u32,
    /// Bits of the exponent.
    pub exponent: u32,
}

/// A value of a format.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not a number.
    Nan,
    /// Infinity; true: negative.
    Infinite(bool),
    /// A number; the sign matters for zeros.
    Number(bool, BigRational),
}

/// Two to a power.
pub fn power(exponent: i64) -> BigRational {
    let two = BigInt::one() << exponent.unsigned_abs();
    if exponent >= 0 { BigRational::from_integer(two) } else { BigRational::new(BigInt::one(), two) }
}

impl Value {
    /// A number; zeros are positive.
    pub fn number(value: BigRational) -> Self {
        Value::Number(value.is_negative(), value)
    }

    /// True below zero, and for the negative zero.
    pub fn negative(&self) -> bool {
        match self {
            Value::Nan => false,
            Value::Infinite(negative) | Value::Number(negative, _) => *negative,
        }
    }

    /// True for a zero.
    pub fn zero(&self) -> bool {
        matches!(self, Value::Number(_, value) if value.is_zero())
    }

    /// With the other sign.
    pub fn negated(self) -> Self {
        match self {
            Value::Nan => Value::Nan,
            Value::Infinite(negative) => Value::Infinite(!negative),
            Value::Number(negative, value) => Value::Number(!negative, -value),
        }
    }

    /// Order; `None` with a NaN.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        let rank = |value: &Value| match value {
            Value::Infinite(true) => -1,
            Value::Infinite(false) => 1,
            _ => 0,
        };
        match (self, other) {
            (Value::Nan, _) | (_, Value::Nan) => None,
            (Value::Number(_, a), Value::Number(_, b)) => Some(a.cmp(b)),
            _ => Some(rank(self).cmp(&rank(other))),
        }
    }
}

impl Format {
    /// Single precision.
    pub const F32: Format = Format { precision: 24, exponent: 8 };
    /// Half precision.
    pub const F16: Format = Format { precision: 11, exponent: 5 };

    /// The format of (the parts of) a type.
    pub fn of(ty: T) -> Option<Self> {
        Some(match ty {
            T::F16 | T::F16x2 => Self::F16,
            T::Bf16 | T::Bf16x2 => Format { precision: 8, exponent: 8 },
            T::Tf32 => Format { precision: 11, exponent: 8 },
            T::E5m2 | T::E5m2x2 => Format { precision: 3, exponent: 5 },
            T::F32 | T::F32x2 => Self::F32,
            T::F64 => Format { precision: 53, exponent: 11 },
            _ => return None,
        })
    }

    fn bias(self) -> i64 {
        (1 << (self.exponent - 1)) - 1
    }

    /// Exponent of the smallest subnormal number.
    fn least_unit(self) -> i64 {
        2 - self.bias() - i64::from(self.precision)
    }

    /// All bits.
    pub fn bits(self) -> u32 {
        self.precision + self.exponent
    }

    /// The canonical NaN.
    pub fn nan(self) -> u64 {
        (1 << (self.bits() - 1)) - 1
    }

    /// Infinity.
    pub fn infinity(self, negative: bool) -> u64 {
        u64::from(negative) << (self.bits() - 1) | ((1 << self.exponent) - 1) << (self.precision - 1)
    }

    /// The largest finite value.
    pub fn largest(self, negative: bool) -> u64 {
        self.infinity(negative) - 1
    }

    /// What the low bits stand for; subnormal numbers are zeros where `flush` says so.
    pub fn value(self, bits: u64, flush: bool) -> Value {
        let negative = bits >> (self.bits() - 1) & 1 == 1;
        let fraction = bits & ((1 << (self.precision - 1)) - 1);
        let field = bits >> (self.precision - 1) & ((1 << self.exponent) - 1);
        let sign = |value: BigRational| if negative { -value } else { value };
        if field == (1 << self.exponent) - 1 {
            return if fraction == 0 { Value::Infinite(negative) } else { Value::Nan };
        }
        if field == 0 {
            let fraction = if flush { 0 } else { fraction };
            let value = BigRational::from_integer(fraction.into()) * power(self.least_unit());
            return Value::Number(negative, sign(value));
        }
        let significand = BigRational::from_integer((fraction | 1 << (self.precision - 1)).into());
        Value::Number(negative, sign(significand * power(self.least_unit() + field as i64 - 1)))
    }

    /// The bits of a value rounded once; `extra` says that it is really a little farther from zero.
    pub fn round_with(self, value: &Value, mode: Mode, extra: bool) -> u64 {
        let (negative, number) = match value {
            Value::Nan => return self.nan(),
            Value::Infinite(negative) => return self.infinity(*negative),
            Value::Number(negative, number) => (*negative, number.abs()),
        };
        let sign = u64::from(negative) << (self.bits() - 1);
        if number.is_zero() {
            return sign;
        }
        // The unit in the last place: the greatest for which the significand has enough bits.
        let estimate = number.numer().bits() as i64 - number.denom().bits() as i64;
        let mut unit = (estimate - i64::from(self.precision) + 1).max(self.least_unit());
        let mut scaled = &number / power(unit);
        if scaled.to_integer().bits() > u64::from(self.precision) {
            unit += 1;
            scaled = &number / power(unit);
        } else if scaled.to_integer().bits() < u64::from(self.precision) && unit > self.least_unit() {
            unit -= 1;
            scaled = &number / power(unit);
        }
        let whole = scaled.to_integer();
        let rest = &scaled - BigRational::from_integer(whole.clone());
        let half = power(-1);
        let (above, tie) = match rest.cmp(&half) {
            Ordering::Greater => (true, false),
            Ordering::Equal => (extra, !extra),
            Ordering::Less => (false, false),
        };
        let inexact = !rest.is_zero() || extra;
        let odd = (&whole % BigInt::from(2)).is_one();
        let up = match mode {
            Mode::NearestEven => above || tie && odd,
            Mode::NearestAway => above || tie,
            Mode::Zero => false,
            Mode::Down => negative && inexact,
            Mode::Up => !negative && inexact,
        };
        let mut significand = (whole + BigInt::from(u8::from(up))).to_u64().unwrap_or(u64::MAX);
        if significand >> self.precision != 0 {
            significand >>= 1;
            unit += 1;
        }
        if significand >> (self.precision - 1) == 0 {
            return sign | significand;
        }
        let field = unit - self.least_unit() + 1;
        if field >= (1 << self.exponent) - 1 {
            let to_infinity = match mode {
                Mode::NearestEven | Mode::NearestAway => true,
                Mode::Zero => false,
                Mode::Down => negative,
                Mode::Up => !negative,
            };
            return if to_infinity { self.infinity(negative) } else { self.largest(negative) };
        }
        sign | (field as u64) << (self.precision - 1) | significand & ((1 << (self.precision - 1)) - 1)
    }

    /// The bits of a value rounded once.
    pub fn round(self, value: &Value, mode: Mode) -> u64 {
        self.round_with(value, mode, false)
    }

    /// Subnormal results as zeros of their sign.
    pub fn flushed(self, bits: u64) -> u64 {
        let field = bits >> (self.precision - 1) & ((1 << self.exponent) - 1);
        if field == 0 { bits & 1 << (self.bits() - 1) } else { bits }
    }
}
