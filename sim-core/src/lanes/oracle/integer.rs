//! Integer arithmetic in `i128`.

use sim_frontend::form::{Form, Half};
use sim_frontend::isa::Root as R;
use sim_memory::vocabulary::ScalarType as T;

use super::{Expected, Inputs, integer_value, width_mask};

fn wrap(value: i128, ty: T) -> Expected {
    Expected::Bits(value as u64 & width_mask(ty))
}

fn saturate(value: i128) -> Expected {
    wrap(value.clamp(i128::from(i32::MIN), i128::from(i32::MAX)), T::S32)
}

/// The product kept by `.lo`, `.hi`, or all of it.
fn product(a: i128, b: i128, ty: T, half: Option<Half>) -> i128 {
    // Signed 64-bit products fit; unsigned ones need all 128 bits.
    let whole = (a as u128).wrapping_mul(b as u128);
    match half {
        Some(Half::Hi) if ty.is_signed() => (whole as i128) >> ty.bits(),
        Some(Half::Hi) => (whole >> ty.bits()) as i128,
        _ => whole as i128,
    }
}

pub fn expected(form: &Form, x: &Inputs) -> Option<Expected> {
    let (ty, m) = (form.ty, &form.mods);
    let packed = matches!(ty, T::U16x2 | T::S16x2);
    if !ty.is_integer() && !packed {
        return None;
    }
    if packed {
        let part = if ty == T::S16x2 { T::S16 } else { T::U16 };
        let lane = |at: u32| {
            let (a, b) = (integer_value(x.src[0] >> at, part), integer_value(x.src[1] >> at, part));
            let value = match form.root {
                R::Add => a + b,
                R::Min => a.min(b),
                _ => a.max(b),
            };
            (if m.relu { value.max(0) } else { value }) as u64 & 0xffff
        };
        return Some(Expected::Bits(lane(16) << 16 | lane(0)));
    }
    let [a, b, c] = [0, 1, 2].map(|i| integer_value(x.src[i], ty));
    let carry = i128::from(x.psrc[0]);
    let unsigned = |i: usize| i128::from(x.src[i] & width_mask(ty));
    let with_carry = |value: i128| {
        let out = value as u64 & width_mask(ty);
        if m.cc { Expected::BitsAndPredicate(out, value >> ty.bits() & 1 == 1) } else { Expected::Bits(out) }
    };
    Some(match form.root {
        R::Add if m.sat => saturate(a + b),
        R::Sub if m.sat => saturate(a - b),
        R::Add if m.cc => with_carry(unsigned(0) + unsigned(1)),
        // What does not borrow carries.
        R::Sub if m.cc => with_carry(unsigned(0) - unsigned(1) + (1 << ty.bits())),
        R::Addc => with_carry(unsigned(0) + unsigned(1) + carry),
        R::Subc => with_carry(unsigned(0) - unsigned(1) - (1 - carry) + (1 << ty.bits())),
        R::Add => wrap(a + b, ty),
        R::Sub => wrap(a - b, ty),
        R::Mul => wrap(product(a, b, ty, m.half), form.dst),
        R::Mad if m.sat => saturate(product(a, b, ty, m.half) + c),
        R::Mad if m.cc => {
            with_carry((product(a, b, ty, m.half) as u64 & width_mask(ty)) as i128 + unsigned(2))
        }
        R::Madc => {
            with_carry((product(a, b, ty, m.half) as u64 & width_mask(ty)) as i128 + unsigned(2) + carry)
        }
        R::Mad => wrap(product(a, b, ty, m.half).wrapping_add(integer_value(x.src[2], form.dst)), form.dst),
        R::Mul24 | R::Mad24 => {
            let low = |value: i128| {
                let bits = value & 0xff_ffff;
                if ty.is_signed() && bits >> 23 == 1 { bits - (1 << 24) } else { bits }
            };
            let whole = low(a) * low(b);
            let part = if m.half == Some(Half::Hi) { whole >> 16 } else { whole };
            match form.root {
                R::Mul24 => wrap(part, ty),
                _ if m.sat => saturate(part + c),
                _ => wrap(part + c, ty),
            }
        }
        R::Sad => wrap((a - b).abs() + c, ty),
        // The manual leaves division by zero open; an H100 gives all ones.
        R::Div | R::Rem if b == 0 => wrap(-1, ty),
        R::Div => wrap(a / b, ty),
        R::Rem => wrap(a % b, ty),
        R::Abs => wrap(a.abs(), ty),
        R::Neg => wrap(-a, ty),
        R::Min | R::Max => {
            let value = if form.root == R::Min { a.min(b) } else { a.max(b) };
            wrap(if m.relu { value.max(0) } else { value }, ty)
        }
        R::Dp4a | R::Dp2a => {
            let a_signed = m.a_type == Some(T::S32);
            let pick = |bits: u64, at: usize, width: usize, signed: bool| {
                let ty = match (width, signed) {
                    (8, false) => T::U8,
                    (8, true) => T::S8,
                    (_, false) => T::U16,
                    (_, true) => T::S16,
                };
                integer_value(bits >> (at * width), ty)
            };
            let (count, width) = if form.root == R::Dp4a { (4, 8) } else { (2, 16) };
            let first = if m.half == Some(Half::Hi) { 2 } else { 0 };
            let sum = (0..count).fold(i128::from(x.src[2] as u32), |sum, i| {
                let part = pick(x.src[0], i, width, a_signed);
                sum + part * pick(x.src[1], first + i, 8, ty.is_signed())
            });
            wrap(sum, T::U32)
        }
        _ => return None,
    })
}
