//! Conversions by random bits, with scales, and of `.s2f6`, in exact rationals: what lies below a value is searched for among
//! all codes of a format.

use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive};
use sim_frontend::form::{Form, Rounding};
use sim_memory::vocabulary::ScalarType as T;

use super::Inputs;
use super::convert::{e4m3_value, tiny, tiny_value};
use super::number::{Format, Mode, Value, power};

/// The codes of magnitudes up to the largest finite one, and the values they stand for.
struct Grid {
    ty: T,
    largest: u64,
}

impl Grid {
    fn of(ty: T) -> Self {
        let largest = match (ty, Format::of(ty)) {
            (T::E4m3x2, _) => 0x7e,
            (_, Some(format)) => format.infinity(false) - 1,
            _ => tiny(ty).map_or(0, |(exponent, fraction, _)| (1 << (exponent + fraction)) - 1),
        };
        Self { ty, largest }
    }

    fn value(&self, code: u64) -> BigRational {
        let value = match (self.ty, Format::of(self.ty), tiny(self.ty)) {
            (T::E4m3x2, ..) => e4m3_value(code),
            (_, Some(format), _) => format.value(code, false),
            (_, _, Some(format)) => return tiny_value(format, code),
            _ => Value::Nan,
        };
        match value {
            Value::Number(_, number) => number,
            _ => unreachable!("codes up to the largest are numbers"),
        }
    }

    /// The code of the greatest value that is not above.
    fn below(&self, magnitude: &BigRational) -> u64 {
        let (mut low, mut high) = (0, self.largest + 1);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if self.value(middle) <= *magnitude { low = middle } else { high = middle }
        }
        low
    }

    /// Away from zero where the random bits, as a fraction, carry beyond what is cut off.
    fn by_chance(&self, form: &Form, bits: u64, random: &BigRational) -> u64 {
        let nothing = matches!(self.ty, T::E2m1x2 | T::E2m3x2 | T::E3m2x2);
        let sign = match self.ty {
            T::F16 | T::Bf16 => 15,
            T::E4m3x2 | T::E5m2x2 => 7,
            T::E2m1x2 => 3,
            _ => 5,
        };
        let ieee = matches!(self.ty, T::F16 | T::Bf16 | T::E5m2x2);
        let beyond = if ieee && !form.mods.satfinite { self.largest + 1 } else { self.largest };
        let (negative, magnitude) = match Format::F32.value(bits, false) {
            Value::Nan if nothing => return self.largest,
            Value::Nan => return (1 << sign) - 1,
            value if form.mods.relu && value.negative() => return 0,
            Value::Infinite(negative) => return u64::from(negative) << sign | beyond,
            Value::Number(negative, number) => (negative, number.abs()),
        };
        let below = self.below(&magnitude);
        let at = self.value(below);
        // The step above the largest is that below it.
        let step = match below {
            code if code == self.largest => &at - self.value(code - 1),
            code => self.value(code + 1) - &at,
        };
        let cut = (magnitude - at) / step;
        let code = if cut >= power(0) || cut + random >= power(0) { below + 1 } else { below };
        u64::from(negative) << sign | if code > self.largest { beyond } else { code }
    }
}

fn stochastic(form: &Form, x: &Inputs) -> u64 {
    let fraction = |random: u64, bits: i64| BigRational::from_integer(random.into()) * power(-bits);
    let one = |ty: T, bits: u64, random: BigRational| Grid::of(ty).by_chance(form, bits, &random);
    match form.dst {
        T::F16x2 => {
            let r = x.src[2];
            let high = one(T::F16, x.src[0], fraction(r >> 16 & 0x1fff, 13));
            high << 16 | one(T::F16, x.src[1], fraction(r & 0x1fff, 13))
        }
        T::Bf16x2 => {
            let r = x.src[2];
            let high = one(T::Bf16, x.src[0], fraction(r >> 16 & 0xffff, 16));
            high << 16 | one(T::Bf16, x.src[1], fraction(r & 0xffff, 16))
        }
        _ => {
            let (ty, place) = match form.dst {
                T::E4m3x4 => (T::E4m3x2, 8),
                T::E5m2x4 => (T::E5m2x2, 8),
                T::E2m3x4 => (T::E2m3x2, 8),
                T::E3m2x4 => (T::E3m2x2, 8),
                _ => (T::E2m1x2, 4),
            };
            let r = x.src[4];
            let (of_ab, of_ef) = if place == 4 {
                ((r >> 24 & 0xff) << 8 | r >> 8 & 0xff, (r >> 16 & 0xff) << 8 | r & 0xff)
            } else {
                (r >> 16 & 0xffff, r & 0xffff)
            };
            let reversed = |half: u64| (0..16).fold(0, |out, bit| out << 1 | half >> bit & 1);
            [reversed(of_ab), of_ab, reversed(of_ef), of_ef]
                .into_iter()
                .zip(x.src)
                .fold(0, |out, (random, bits)| out << place | one(ty, bits, fraction(random, 16)))
        }
    }
}

/// A scale; none of what is no number.
fn scale(form: &Form, source: u64, upper: bool) -> Option<BigRational> {
    match (form.mods.scaled, source >> if upper { 8 } else { 0 } & 0xff) {
        (false, _) => Some(power(0)),
        (true, 255) => None,
        (true, bits) => Some(power(bits as i64 - 127)),
    }
}

/// Of fixed point with six bits behind the point.
fn to_fixed(form: &Form, value: &Value, scale: Option<BigRational>) -> u64 {
    let units = match (value, scale) {
        (Value::Nan, _) | (_, None) => 127,
        (Value::Infinite(negative), _) => {
            if *negative {
                -127
            } else {
                127
            }
        }
        (Value::Number(_, number), Some(scale)) => {
            let exact = number / scale * power(6);
            let most = BigRational::from_integer(127.into());
            if exact.abs() > most {
                if exact.is_negative() { -127 } else { 127 }
            } else {
                super::convert::integral(&exact, Mode::NearestEven).to_integer().to_i64().unwrap_or(0)
            }
        }
    };
    (if form.mods.relu { units.max(0) } else { units }) as u64 & 0xff
}

fn to_bf16(form: &Form, bits: u64, scale: Option<BigRational>) -> u64 {
    let format = Format { precision: 8, exponent: 8 };
    let value = match (form.ty, Format::of(form.ty), tiny(form.ty)) {
        (T::E4m3x2, ..) => e4m3_value(bits),
        (_, Some(format), _) => format.value(bits & 0xff, false),
        (_, _, Some(own)) => {
            let sign = 1u64 << (own.0 + own.1);
            let magnitude = tiny_value(own, bits & (sign - 1));
            let negative = bits & sign != 0;
            Value::Number(negative, if negative { -magnitude } else { magnitude })
        }
        _ => Value::number(BigRational::from_integer((bits as u8 as i8).into()) * power(-6)),
    };
    let scaled = match (value, scale) {
        (Value::Nan, _) | (_, None) => return format.nan(),
        (Value::Number(negative, number), Some(scale)) => Value::Number(negative, number * scale),
        (infinite, _) => infinite,
    };
    if form.mods.relu && scaled.negative() {
        return 0;
    }
    let out = format.round(&scaled, Mode::NearestEven);
    if form.mods.satfinite && out & 0x7fff == 0x7f80 { out - 1 } else { out }
}

/// The result of a form of this file.
pub fn expected(form: &Form, x: &Inputs) -> Option<u64> {
    if form.mods.rounding == Some(Rounding::Rs) {
        return Some(stochastic(form, x));
    }
    if form.dst == T::S2f6x2 {
        let single = |bits: u64| Format::F32.value(bits, false);
        let (high, low, scales) = match form.ty {
            T::F32 => (x.src[0], x.src[1], x.src[2]),
            _ => (x.src[0] & 0xffff_0000, x.src[0] << 16 & 0xffff_0000, x.src[1]),
        };
        let high = to_fixed(form, &single(high), scale(form, scales, true));
        return Some(high << 8 | to_fixed(form, &single(low), scale(form, scales, false)));
    }
    let small = matches!(form.ty, T::E4m3x2 | T::E5m2x2 | T::S2f6x2) || tiny(form.ty).is_some();
    if form.dst != T::Bf16x2 || !small {
        return None;
    }
    let place = tiny(form.ty).map_or(8, |(.., place)| place);
    let high = to_bf16(form, x.src[0] >> place, scale(form, x.src[1], true));
    Some(high << 16 | to_bf16(form, x.src[0], scale(form, x.src[1], false)))
}
