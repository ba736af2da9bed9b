//! Numbers of workload and sweep files: integers are exact, others are f64.

use std::cmp::Ordering;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number. Integers keep all their digits.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An integer.
    Int(i128),
    /// Any other number, NaN and the infinities.
    Real(f64),
}

/// 2^53: an f64 above it may stand for an integer that was rounded.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// Zero.
    pub const ZERO: Self = Self::Int(0);

    /// A literal: decimal or `0x`, `0o`, `0b`, with `_` between digits; `1.5`, `1e-3`, `.inf`, `.nan`.
    ///
    /// # Errors
    /// It is none, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a number");
        let trimmed = text.trim();
        let (negative, rest) = match trimmed.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
        };
        let sign = |value: f64| if negative { -value } else { value };
        match rest.to_ascii_lowercase().as_str() {
            ".inf" | "inf" => return Ok(Self::Real(sign(f64::INFINITY))),
            ".nan" | "nan" => return Ok(Self::Real(f64::NAN)),
            _ => {}
        }
        if rest.starts_with('_') || rest.ends_with('_') || rest.contains("__") {
            return Err(wrong());
        }
        let digits = rest.replace('_', "");
        let lower = digits.to_ascii_lowercase();
        let based = [("0x", 16), ("0o", 8), ("0b", 2)];
        let (digits, radix) = based
            .iter()
            .find_map(|(prefix, radix)| Some((lower.strip_prefix(prefix)?, *radix)))
            .unwrap_or((&lower, 10));
        if !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix)) {
            let value = i128::from_str_radix(digits, radix)
                .map_err(|_| format!("`{text}` does not fit in 127 bits"))?;
            return Ok(Self::Int(if negative { -value } else { value }));
        }
        if radix != 10 || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return Err(wrong());
        }
        // An integer times a power of ten is an integer: 4e9.
        if let Some((mantissa, exponent)) = digits.split_once('e')
            && let (Ok(mantissa), Ok(exponent)) = (mantissa.parse::<i128>(), exponent.parse::<u32>())
            && let Some(value) = 10i128.checked_pow(exponent).and_then(|scale| mantissa.checked_mul(scale))
        {
            return Ok(Self::Int(if negative { -value } else { value }));
        }
        match digits.parse::<f64>() {
            // Where an f64 would round an integer, it keeps its digits.
            Ok(value) if value.abs() >= EXACT && value.is_finite() => match integer_of(digits) {
                Some(value) => Ok(Self::Int(if negative { -value } else { value })),
                None => Ok(Self::Real(sign(value))),
            },
            Ok(value) if value.is_finite() => Ok(Self::Real(sign(value))),
            _ => Err(wrong()),
        }
    }

    /// The nearest f64.
    pub fn as_f64(self) -> f64 {
        match self {
            // Hosts convert 64 bits by an instruction.
            Self::Int(value) => i64::try_from(value).map_or(value as f64, |value| value as f64),
            Self::Real(value) => value,
        }
    }

    /// The integer that it is; none for a fraction, and for an f64 that may have been rounded.
    pub fn integer(self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(value),
            Self::Real(value) if value.fract() == 0.0 && value.abs() <= EXACT => Some(value as i128),
            Self::Real(_) => None,
        }
    }

    /// Neither NaN nor infinite.
    pub fn is_finite(self) -> bool {
        self.as_f64().is_finite()
    }
}

/// The integer that a decimal literal writes, as `9007199254740993.0` or `1.5e17`; none for a fraction, and
/// for one beyond 127 bits.
fn integer_of(digits: &str) -> Option<i128> {
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((digits, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let scale = exponent.parse::<i64>().ok()?.checked_sub(fraction.len() as i64)?;
    let scale = 10i128.checked_pow(u32::try_from(scale).ok()?)?;
    format!("{whole}{fraction}").parse::<i128>().ok()?.checked_mul(scale)
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

macro_rules! from_integers {
    ($($ty:ty)+) => {
        $(impl From<$ty> for Number {
            fn from(value: $ty) -> Self {
                Self::Int(i128::from(value))
            }
        })+
    };
}

from_integers!(u8 i32 u32 i64 u64 i128);

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Real(a), Self::Real(b)) => a.partial_cmp(b),
            (Self::Real(_), Self::Int(_)) => other.partial_cmp(self).map(Ordering::reverse),
            (Self::Int(_), Self::Real(b)) if b.is_nan() => None,
            (Self::Int(a), Self::Real(b)) => {
                // The cast saturates, and so do the infinities.
                let floor = b.floor();
                Some(a.cmp(&(floor as i128)).then(if floor < *b { Ordering::Less } else { Ordering::Equal }))
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Real(value) => write!(f, "{value}"),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Int(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => serializer.serialize_i64(value),
                (_, Ok(value)) => serializer.serialize_u64(value),
                _ => serializer.serialize_str(&value.to_string()),
            },
            Self::Real(value) => serializer.serialize_f64(value),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Literal;

        impl Visitor<'_> for Literal {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
                Ok(value.into())
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
                Ok(value.into())
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
                Ok(value.into())
            }
        }

        deserializer.deserialize_any(Literal)
    }
}

impl JsonSchema for Number {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Number".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "number"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        let int = |text: &str| Number::parse(text).ok().and_then(Number::integer);
        assert_eq!(int("16045690984503098046"), Some(0xdead_beef_cafe_babe));
        assert_eq!(int("0xdeadbeefcafebabe"), Some(0xdead_beef_cafe_babe));
        assert_eq!(int("-0x10"), Some(-16));
        assert_eq!(int("0xdead_beef"), Some(0xdead_beef));
        assert_eq!(int("1_000"), Some(1000));
        assert_eq!(int("0b101"), Some(5));
        assert_eq!(int("0o17"), Some(15));
        assert_eq!(int("18e18"), Some(18_000_000_000_000_000_000));
        assert_eq!(int("9007199254740993.0"), Some(9_007_199_254_740_993));
        assert_eq!(int("-9007199254740993.00"), Some(-9_007_199_254_740_993));
        assert_eq!(int("1.6045690984503098046e19"), Some(0xdead_beef_cafe_babe));
        assert_eq!(int("9007199254740993.5"), None);
        assert_eq!(Number::parse("1.0"), Ok(Number::Real(1.0)));
        assert_eq!(Number::parse("1e-3"), Ok(Number::Real(1e-3)));
        assert_eq!(Number::parse(".5"), Ok(Number::Real(0.5)));
        assert_eq!(Number::parse("-.inf"), Ok(Number::Real(f64::NEG_INFINITY)));
        for wrong in ["", "_1", "1_", "1__0", "0x", "0xg", "1.2.3", "e5", "abc", "1e999", &"9".repeat(60)] {
            assert!(Number::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn integers_and_others_compare_by_value() {
        let big = Number::Int(9_007_199_254_740_993);
        assert_ne!(big, Number::Real(9_007_199_254_740_992.0));
        assert_eq!(Number::Int(3), Number::Real(3.0));
        assert!(Number::Int(3) < Number::Real(3.5) && Number::Real(3.5) < Number::Int(4));
        assert!(Number::Int(-3) > Number::Real(-3.5));
        assert!(Number::Int(0).partial_cmp(&Number::Real(f64::NAN)).is_none());
        assert_eq!(Number::Real(1e19).integer(), None);
    }
}
