//! Conversions in exact rationals.

use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};
use sim_frontend::form::{Form, Rounding};
use sim_memory::vocabulary::ScalarType as T;

use super::float::mode;
use super::number::{Format, Mode, Value, power};
use super::{Expected, Inputs, integer_value, width_mask};

/// A half as a double.
pub fn half_to_double(format: Format, bits: u64) -> f64 {
    match format.value(bits, false) {
        Value::Nan => f64::NAN,
        Value::Infinite(true) => f64::NEG_INFINITY,
        Value::Infinite(false) => f64::INFINITY,
        Value::Number(negative, value) => {
            let value = value.to_f64().unwrap_or(0.0);
            if negative && value == 0.0 { -0.0 } else { value }
        }
    }
}

/// The nearest integer in a direction.
pub(super) fn integral(value: &BigRational, mode: Mode) -> BigRational {
    match mode {
        Mode::Zero => value.trunc(),
        Mode::Down => value.floor(),
        Mode::Up => value.ceil(),
        Mode::NearestAway => value.round(),
        Mode::NearestEven => {
            let (below, half) = (value.floor(), power(-1));
            let rest = value - &below;
            let odd = !(below.to_integer() % num_bigint::BigInt::from(2)).is_zero();
            if rest > half || rest == half && odd { below + power(0) } else { below }
        }
    }
}

/// The numbers of `.e4m3`: no infinity, one NaN.
pub(super) fn e4m3_value(bits: u64) -> Value {
    let (negative, field, fraction) = (bits >> 7 & 1 == 1, (bits >> 3 & 15) as i64, bits & 7);
    if field == 15 && fraction == 7 {
        return Value::Nan;
    }
    let magnitude = if field == 0 {
        BigRational::from_integer(fraction.into()) * power(-9)
    } else {
        BigRational::from_integer((8 + fraction).into()) * power(field - 10)
    };
    Value::Number(negative, if negative { -magnitude } else { magnitude })
}

/// The nearest `.e4m3` by trying all of them; ties go to the even one, what lies beyond saturates.
fn nearest_e4m3(value: &Value) -> u64 {
    let (negative, magnitude) = match value {
        Value::Nan => return 0x7f,
        Value::Infinite(negative) => return u64::from(*negative) << 7 | 0x7e,
        Value::Number(negative, number) => (*negative, number.abs()),
    };
    let distance = |bits: u64| match e4m3_value(bits) {
        Value::Number(_, number) => (number - &magnitude).abs(),
        _ => power(300),
    };
    let mut best = 0;
    for bits in 1..0x7f {
        let (new, old) = (distance(bits), distance(best));
        if new < old || new == old && bits % 2 == 0 {
            best = bits;
        }
    }
    u64::from(negative) << 7 | best
}

/// One value converted, as the bits of the type.
fn one(form: &Form, from: T, to: T, bits: u64) -> u64 {
    let m = &form.mods;
    let source = Format::of(from);
    let flush_in = m.ftz && from == T::F32;
    let value = match (source, from) {
        (_, T::E4m3) => e4m3_value(bits),
        (Some(format), _) => format.value(bits, flush_in),
        (None, _) => {
            let value = integer_value(bits, from);
            Value::number(BigRational::from_integer(value.into()))
        }
    };
    let whole = matches!(m.rounding, Some(Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi));
    if to == T::E4m3 {
        let result = nearest_e4m3(&value);
        return if m.relu && value.negative() { 0 } else { result };
    }
    let Some(format) = Format::of(to) else {
        let bits = to.bits();
        let (least, most) = if to.is_signed() {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        };
        let number = match &value {
            // As the manual of PTX ISA 9.0 says it: 1 << (BitWidth(dst) - 1) if the source is .f64 or the
            // destination is .s64 or .u64.
            Value::Nan if from == T::F64 || matches!(to, T::S64 | T::U64) => return 1 << (bits - 1),
            Value::Nan => return 0,
            Value::Infinite(negative) => return (if *negative { least } else { most }) as u64,
            Value::Number(_, number) => number,
        };
        let rounded = integral(number, mode(m.rounding)).to_integer();
        // From floating point the result is clamped; from integers only where that is asked for.
        let clamped = source.is_some() || m.sat;
        let value = rounded.to_i128().unwrap_or(if rounded.is_negative() { i128::MIN } else { i128::MAX });
        return (if clamped { value.clamp(least, most) } else { value }) as u64;
    };
    let value = match value {
        Value::Number(negative, number) if whole => {
            Value::Number(negative, integral(&number, mode(m.rounding)))
        }
        other => other,
    };
    let rounding = if whole { Mode::NearestEven } else { mode(m.rounding) };
    let mut out = format.round(&value, rounding);
    if m.ftz && to == T::F32 {
        out = format.flushed(out);
    }
    if m.relu && value.negative() {
        out = 0;
    }
    if m.satfinite && out & !(1 << (format.bits() - 1)) == format.infinity(false) {
        out = format.largest(out >> (format.bits() - 1) == 1);
    }
    if m.sat {
        let one = format.round(&Value::number(power(0)), Mode::NearestEven);
        out = if value == Value::Nan || value.negative() { 0 } else { out.min(one) };
    }
    if to == T::Tf32 { out << 13 } else { out }
}

fn part(ty: T) -> (T, u32) {
    match ty {
        T::F16x2 => (T::F16, 16),
        T::Bf16x2 => (T::Bf16, 16),
        T::E4m3x2 => (T::E4m3, 8),
        T::E5m2x2 => (T::E5m2, 8),
        other => (other, 0),
    }
}

/// Exponent bits, fraction bits and bits of the place of the formats without infinities.
pub(super) fn tiny(ty: T) -> Option<(i64, i64, u32)> {
    match ty {
        T::E2m1x2 => Some((2, 1, 4)),
        T::E2m3x2 => Some((2, 3, 8)),
        T::E3m2x2 => Some((3, 2, 8)),
        _ => None,
    }
}

/// The magnitude that the bits below the sign stand for.
pub(super) fn tiny_value((exponent, fraction, _): (i64, i64, u32), bits: u64) -> BigRational {
    let (field, rest) = ((bits >> fraction) as i64, (bits & ((1 << fraction) - 1)) as i64);
    let (bias, one) = ((1 << (exponent - 1)) - 1, 1i64 << fraction);
    let (significand, power_of) = if field == 0 { (rest, 1 - bias) } else { (one + rest, field - bias) };
    BigRational::from_integer(significand.into()) * power(power_of - fraction)
}

/// Conversions of the formats of less than eight bits, by trying every value, and of scales.
fn narrow(form: &Form, x: &Inputs) -> Option<u64> {
    let relu = form.mods.relu;
    if let Some(format) = tiny(form.dst) {
        let (exponent, fraction, place) = format;
        let largest = (1u64 << (exponent + fraction)) - 1;
        let nearest = |bits: u64| {
            let (negative, magnitude) = match Format::F32.value(bits, false) {
                Value::Nan => return largest,
                Value::Infinite(true) if relu => return 0,
                Value::Infinite(negative) => return u64::from(negative) << (exponent + fraction) | largest,
                Value::Number(true, _) if relu => return 0,
                Value::Number(negative, number) => (negative, number.abs()),
            };
            let distance = |code: u64| (tiny_value(format, code) - &magnitude).abs();
            let best = (0..=largest).fold(0, |best, code| {
                let (new, old) = (distance(code), distance(best));
                if new < old || new == old && code % 2 == 0 { code } else { best }
            });
            u64::from(negative) << (exponent + fraction) | best
        };
        let single = |half: u64| match form.ty {
            T::Bf16x2 => half << 16 & 0xffff_0000,
            _ => Format::F32.round(&Format::F16.value(half, false), Mode::NearestEven),
        };
        return Some(match form.ty {
            T::F32 => nearest(x.src[0]) << place | nearest(x.src[1]),
            _ => nearest(single(x.src[0] >> 16)) << place | nearest(single(x.src[0])),
        });
    }
    if let Some(format) = tiny(form.ty) {
        let (exponent, fraction, place) = format;
        let half = |bits: u64| {
            let sign = 1u64 << (exponent + fraction);
            let negative = bits & sign != 0;
            let magnitude = tiny_value(format, bits & (sign - 1));
            if relu && negative {
                return 0;
            }
            let value = if negative { -magnitude } else { magnitude };
            Format::F16.round(&Value::Number(negative, value), Mode::NearestEven)
        };
        return Some(half(x.src[0] >> place) << 16 | half(x.src[0]));
    }
    let bfloat = Format::of(T::Bf16)?;
    if form.ty == T::Ue8m0x2 {
        let one = |code: u64| match code & 0xff {
            255 => bfloat.nan(),
            code => bfloat.round(&Value::number(power(code as i64 - 127)), Mode::NearestEven),
        };
        return Some(one(x.src[0] >> 8) << 16 | one(x.src[0]));
    }
    let scale = |value: Value| {
        let most = if form.mods.satfinite { 254 } else { 255 };
        let magnitude = match value {
            Value::Nan => return 255,
            Value::Infinite(_) => return most,
            Value::Number(_, number) => number.abs(),
        };
        let up = form.mods.rounding == Some(Rounding::Rp);
        let reaches = |code: &u64| power(*code as i64 - 127) >= magnitude;
        match (0..255).find(reaches) {
            Some(code) if up || code == 0 || power(code as i64 - 127) == magnitude => code,
            Some(code) => code - 1,
            None if up => most,
            None => 254,
        }
    };
    match form.ty {
        T::F32 => {
            let of = |bits: u64| scale(Format::F32.value(bits, false));
            Some(of(x.src[0]) << 8 | of(x.src[1]))
        }
        _ => {
            let of = |bits: u64| scale(bfloat.value(bits, false));
            Some(of(x.src[0] >> 16) << 8 | of(x.src[0]))
        }
    }
}

pub fn expected(form: &Form, x: &Inputs) -> Option<Expected> {
    if tiny(form.dst).or(tiny(form.ty)).is_some() || form.dst == T::Ue8m0x2 || form.ty == T::Ue8m0x2 {
        return narrow(form, x).map(Expected::Bits);
    }
    let ((from, from_step), (to, to_step)) = (part(form.ty), part(form.dst));
    if form.mods.pack {
        let (width, signed) = match form.mods.narrow {
            Some((bits, signed)) => (u32::from(bits), signed),
            None => (to.bits(), to.is_signed()),
        };
        let clamp = |bits: u64| {
            let value = i128::from(bits as u32 as i32);
            let (least, most) = if signed {
                (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
            } else {
                (0, (1i128 << width) - 1)
            };
            value.clamp(least, most) as u64 & ((1 << width) - 1)
        };
        let both = clamp(x.src[0]) << width | clamp(x.src[1]);
        let above = if width < 16 { x.src[2] << (2 * width) & 0xffff_ffff } else { 0 };
        return Some(Expected::Bits(above | both));
    }
    if to_step > 0 {
        let (high, low) =
            if from_step > 0 { (x.src[0] >> from_step, x.src[0]) } else { (x.src[0], x.src[1]) };
        let convert = |bits: u64| one(form, from, to, bits) & width_mask(to);
        return Some(Expected::Bits(convert(high) << to_step | convert(low)));
    }
    let bits = one(form, from, to, x.src[0]);
    // Integers are extended to the register, by the sign of their type.
    let register = if form.dst_reg == 64 { u64::MAX } else { (1 << form.dst_reg) - 1 };
    let extended = if to.is_integer() { integer_value(bits, to) as u64 } else { bits };
    Some(Expected::Bits(extended & register))
}
