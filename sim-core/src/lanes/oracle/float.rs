//! Floating-point arithmetic in exact rationals.

use num_rational::BigRational;
use num_traits::{Signed, Zero};
use sim_frontend::form::{Accuracy, Form, Rounding};
use sim_frontend::isa::Root as R;
use sim_memory::vocabulary::ScalarType as T;

use super::number::{Format, Mode, Value, power};
use super::{Bound, Expected, Inputs};

pub fn mode(rounding: Option<Rounding>) -> Mode {
    match rounding {
        Some(Rounding::Rz | Rounding::Rzi) => Mode::Zero,
        Some(Rounding::Rm | Rounding::Rmi) => Mode::Down,
        Some(Rounding::Rp | Rounding::Rpi) => Mode::Up,
        Some(Rounding::Rna) => Mode::NearestAway,
        _ => Mode::NearestEven,
    }
}

fn add(a: Value, b: Value, mode: Mode) -> Value {
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite(x), Value::Infinite(y)) if x != y => Value::Nan,
        (Value::Infinite(x), _) | (_, Value::Infinite(x)) => Value::Infinite(x),
        (Value::Number(s, x), Value::Number(t, y)) => {
            let sum = x + y;
            // A zero sum of opposite signs is positive, but negative when rounding down.
            let negative =
                if sum.is_zero() { if s == t { s } else { mode == Mode::Down } } else { sum.is_negative() };
            Value::Number(negative, sum)
        }
    }
}

fn mul(a: Value, b: Value) -> Value {
    let negative = a.negative() != b.negative();
    if a == Value::Nan || b == Value::Nan {
        return Value::Nan;
    }
    match (a, b) {
        (Value::Number(_, x), Value::Number(_, y)) => Value::Number(negative, x * y),
        (x, y) if x.zero() || y.zero() => Value::Nan,
        _ => Value::Infinite(negative),
    }
}

fn div(a: Value, b: Value) -> Value {
    let negative = a.negative() != b.negative();
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) | (Value::Infinite(_), Value::Infinite(_)) => Value::Nan,
        (Value::Infinite(_), _) => Value::Infinite(negative),
        (_, Value::Infinite(_)) => Value::Number(negative, BigRational::zero()),
        (Value::Number(_, x), Value::Number(_, y)) => match (x.is_zero(), y.is_zero()) {
            (true, true) => Value::Nan,
            (_, true) => Value::Infinite(negative),
            _ => Value::Number(negative, x / y),
        },
    }
}

/// The square root to more bits than any format has, and whether it lies above that.
fn sqrt(a: Value) -> (Value, bool) {
    match a {
        Value::Number(negative, x) if x.is_zero() => (Value::Number(negative, x), false),
        Value::Number(true, _) | Value::Infinite(true) | Value::Nan => (Value::Nan, false),
        Value::Infinite(false) => (Value::Infinite(false), false),
        Value::Number(false, x) => {
            // An even power that leaves an integer of at least 256 bits.
            let shift = 2 * (1400 + i64::try_from(x.denom().bits()).unwrap_or(0));
            let scaled = (&x * power(shift)).to_integer();
            let root = scaled.sqrt();
            let exact = &root * &root == scaled;
            (Value::number(BigRational::from_integer(root) * power(-shift / 2)), !exact)
        }
    }
}

/// Saturation, `.relu` and flushing of a rounded result.
fn finish(form: &Form, format: Format, bits: u64) -> u64 {
    let m = &form.mods;
    let nan = format.value(bits, false) == Value::Nan;
    let negative = bits >> (format.bits() - 1) & 1 == 1;
    let one = format.round(&Value::number(power(0)), Mode::NearestEven);
    let bits = if m.sat && (nan || negative) {
        0
    } else if m.sat {
        bits.min(one)
    } else if m.relu && negative && !nan {
        0
    } else {
        bits
    };
    if m.ftz { format.flushed(bits) } else { bits }
}

/// One part of the result.
fn part(form: &Form, format: Format, x: [u64; 3]) -> Option<u64> {
    let m = &form.mods;
    let mode = mode(m.rounding);
    let [a, b, c] = x.map(|bits| format.value(bits, m.ftz));
    let sign = 1u64 << (format.bits() - 1);
    let all = (sign - 1) | sign;
    let input = |i: usize| if m.ftz { format.flushed(x[i] & all) } else { x[i] & all };
    // Measured on an H100.
    if m.out_of_bounds && [x[0], x[1]].iter().any(|bits| bits & (sign - 1) == 0x7ff7) {
        return Some(0);
    }
    let value = match form.root {
        R::Add => add(a, b, mode),
        R::Sub => add(a, b.negated(), mode),
        R::Mul => mul(a, b),
        R::Fma | R::Mad => {
            let product = mul(a, b);
            add(product, c, mode)
        }
        R::Div => div(a, b),
        R::Rcp => div(Value::number(power(0)), a),
        R::Sqrt => {
            let (root, above) = sqrt(a);
            return Some(finish(form, format, format.round_with(&root, mode, above)));
        }
        R::Neg => return Some(input(0) ^ sign),
        R::Abs => return Some(input(0) & !sign),
        // PTX copies the sign of a to the magnitude of b.
        R::Copysign => return Some(input(0) & sign | input(1) & !sign),
        R::Min | R::Max => {
            let either = a == Value::Nan || b == Value::Nan;
            if either && (m.propagate_nan || a == b) {
                return Some(format.nan());
            }
            let magnitude = |value: Value| if value.negative() { value.negated() } else { value };
            let flip = m.xorsign_abs && (input(0) ^ input(1)) & sign != 0;
            let (a, b) = if m.abs { (magnitude(a), magnitude(b)) } else { (a, b) };
            let chosen = match a.compare(&b) {
                None if a == Value::Nan => b,
                None => a,
                Some(std::cmp::Ordering::Equal) => {
                    if a.negative() == (form.root == R::Min) {
                        a
                    } else {
                        b
                    }
                }
                Some(order) => {
                    if (order == std::cmp::Ordering::Less) == (form.root == R::Min) {
                        a
                    } else {
                        b
                    }
                }
            };
            if flip { chosen.negated() } else { chosen }
        }
        _ => return None,
    };
    Some(finish(form, format, format.round(&value, mode)))
}

/// `.f32` arithmetic whose first operands are halves: they are exact in single precision.
fn mixed(form: &Form, x: &Inputs) -> Option<u64> {
    let (half, single) = (Format::of(form.ty)?, Format::F32);
    let value = |k: usize| {
        if k < if form.root == R::Fma { 2 } else { 1 } {
            half.value(x.src[k], false)
        } else {
            single.value(x.src[k], false)
        }
    };
    let mode = mode(form.mods.rounding);
    let sum = match form.root {
        R::Add => add(value(0), value(1), mode),
        R::Sub => add(value(0), value(1).negated(), mode),
        _ => add(mul(value(0), value(1)), value(2), mode),
    };
    Some(finish(form, single, single.round(&sum, mode)))
}

pub fn expected(form: &Form, x: &Inputs) -> Option<Expected> {
    if form.dst == T::F32
        && matches!(form.ty, T::F16 | T::Bf16)
        && matches!(form.root, R::Add | R::Sub | R::Fma)
    {
        return mixed(form, x).map(Expected::Bits);
    }
    let format = Format::of(form.ty)?;
    if let Some(low) = approximate(form, x, format) {
        if !matches!(form.ty, T::F16x2 | T::Bf16x2) {
            return Some(Expected::Near(low));
        }
        let upper = Inputs { src: x.src.map(|bits| bits >> 16), ..*x };
        return Some(Expected::NearPair(low, approximate(form, &upper, format)?));
    }
    let (count, step) = match form.ty {
        T::F16x2 | T::Bf16x2 => (2, 16),
        T::F32x2 => (2, 32),
        _ => (1, 0),
    };
    let mut out = 0;
    for i in 0..count {
        let at = i * step;
        out |= part(form, format, [0, 1, 2].map(|k| x.src[k] >> at))? << at;
    }
    Some(Expected::Bits(out))
}

/// The manual's bounds of the approximate functions (PTX ISA, section of each instruction).
fn approximate(form: &Form, x: &Inputs, format: Format) -> Option<Bound> {
    let m = &form.mods;
    let approx =
        m.accuracy.is_some() || matches!(form.root, R::Sin | R::Cos | R::Lg2 | R::Ex2 | R::Rsqrt | R::Tanh);
    if !approx {
        return None;
    }
    let double = |bits: u64| -> f64 {
        let value = match format.precision {
            24 => f64::from(f32::from_bits(bits as u32)),
            53 => f64::from_bits(bits),
            _ => super::convert::half_to_double(format, bits),
        };
        let least = f64::powi(2.0, 2 - (1 << (format.exponent - 1)));
        if m.ftz && value.abs() < least { f64::copysign(0.0, value) } else { value }
    };
    let (a, b) = (double(x.src[0]), double(x.src[1]));
    let bound = |exponent: f64| f64::powf(2.0, exponent);
    let (value, relative, absolute) = match (form.root, form.ty) {
        // Two units in the last place; a divisor above 2^126 gives zero.
        (R::Div, _) if m.accuracy == Some(Accuracy::Approx) && b.is_finite() && b.abs() > bound(126.0) => {
            (if a.is_infinite() { f64::NAN } else { a * f64::copysign(0.0, b) }, 0.0, 0.0)
        }
        (R::Div, _) => (a / b, bound(-22.0), 0.0),
        // One unit; a double keeps its upper half only.
        (R::Rcp, T::F32) => (1.0 / a, bound(-23.0), 0.0),
        (R::Rcp, _) => (1.0 / a, bound(-20.0), 0.0),
        (R::Sqrt, _) => (a.sqrt(), bound(-23.0), 0.0),
        (R::Rsqrt, T::F32) => (1.0 / a.sqrt(), bound(-22.9), 0.0),
        (R::Rsqrt, _) if m.ftz => (1.0 / a.sqrt(), bound(-20.0), 0.0),
        (R::Rsqrt, _) => (1.0 / a.sqrt(), bound(-22.9), 0.0),
        (R::Sin, _) => (a.sin(), 0.0, bound(-20.5)),
        (R::Cos, _) => (a.cos(), 0.0, bound(-20.5)),
        (R::Lg2, _) if (0.5..=2.0).contains(&a) => (a.log2(), 0.0, bound(-22.0)),
        (R::Lg2, _) => (a.log2(), bound(-22.0), 0.0),
        (R::Ex2, T::F32) => (a.exp2(), bound(-22.5), 0.0),
        (R::Ex2, T::F16 | T::F16x2) => (a.exp2(), bound(-9.9), 0.0),
        (R::Ex2, _) => (a.exp2(), bound(-7.0), 0.0),
        (R::Tanh, T::F32) => (a.tanh(), bound(-11.0), 0.0),
        (R::Tanh, T::F16 | T::F16x2) => (a.tanh(), 0.0, bound(-10.987)),
        (R::Tanh, _) => (a.tanh(), 0.0, bound(-8.0)),
        _ => return None,
    };
    let negative_root = matches!(form.root, R::Sqrt | R::Rsqrt | R::Lg2) && a < 0.0;
    let value = if negative_root { f64::NAN } else { value };
    // Half a unit of the format is lost by rounding at least; results may be subnormal or flushed.
    let unit = f64::powi(2.0, -(format.precision as i32));
    let least = f64::powi(2.0, 2 - (1 << (format.exponent - 1)));
    let tiny = if m.ftz { least } else { least * unit * 2.0 };
    let exact_zero = relative == 0.0 && absolute == 0.0;
    Some(Bound {
        value,
        relative: if exact_zero { 0.0 } else { relative.max(unit) },
        absolute: if exact_zero { 0.0 } else { absolute.max(tiny) },
        format,
    })
}
