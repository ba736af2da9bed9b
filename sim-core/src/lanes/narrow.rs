//! Conversions to and from the formats of less than eight bits, and of scales (PTX ISA "cvt", "Alternate Floating-Point
//! Data Formats"): `.e2m1`, `.e2m3` and `.e3m2` have neither infinities nor NaN, `.ue8m0` is a power of two.

use sim_frontend::form::{Form, Rounding};
use sim_frontend::program::Op;
use sim_memory::soft_float::{F16, F32, Round};
use sim_memory::vocabulary::ScalarType as T;

use super::bodies::{Variants, lane};
use super::file::LaneFile;
use super::formats::small;
use crate::registers::each;

/// Forms of this file.
pub(super) fn handles(form: &Form) -> bool {
    tiny(form.dst).is_some() || tiny(form.ty).is_some() || form.dst == T::Ue8m0x2 || form.ty == T::Ue8m0x2
}

/// Bits of the exponent and of the fraction, bits of the place of one value.
fn tiny(ty: T) -> Option<(u32, u32, u32)> {
    let (format, place) = small(ty).filter(|_| matches!(ty, T::E2m1x2 | T::E2m3x2 | T::E3m2x2))?;
    Some((format.exponent, format.fraction, place))
}

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    match (form.dst, form.ty) {
        (T::Ue8m0x2, T::F32) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
            f.w32(op.dst[0], m, each(|i| to_scale(a[i], op.imm) << 8 | to_scale(b[i], op.imm)));
        }),
        (T::Ue8m0x2, T::Bf16x2) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            let of = |v: u32| to_scale(v & 0xffff_0000, op.imm) << 8 | to_scale(v << 16, op.imm);
            f.w32(op.dst[0], m, a.map(of));
        }),
        (T::Bf16x2, T::Ue8m0x2) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            f.w32(op.dst[0], m, a.map(|v| from_scale(v >> 8 & 0xff) << 16 | from_scale(v & 0xff)));
        }),
        (to, T::F32) if tiny(to).is_some() => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
            let place = op.imm >> 16 & 15;
            f.w32(op.dst[0], m, each(|i| to_tiny(a[i], op.imm) << place | to_tiny(b[i], op.imm)));
        }),
        (to, T::F16x2 | T::Bf16x2) if tiny(to).is_some() => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            let place = op.imm >> 16 & 15;
            let bfloat = op.imm >> 3 & 1 == 1;
            let one = |half: u32| {
                let single =
                    if bfloat { half << 16 } else { F32.convert(F16, half.into(), Round::Nearest) as u32 };
                to_tiny(single, op.imm)
            };
            f.w32(op.dst[0], m, a.map(|v| one(v >> 16) << place | one(v & 0xffff)));
        }),
        (T::F16x2, from) if tiny(from).is_some() => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            let place = op.imm >> 16 & 15;
            f.w32(op.dst[0], m, a.map(|v| from_tiny(v >> place, op.imm) << 16 | from_tiny(v, op.imm)));
        }),
        _ => None,
    }
}

/// A form as the immediate of its operation.
pub(super) fn encode(form: &Form) -> i64 {
    let (exponent, fraction, place) = tiny(form.dst).or(tiny(form.ty)).unwrap_or_default();
    i64::from(form.mods.rounding == Some(Rounding::Rp))
        | i64::from(form.mods.satfinite) << 1
        | i64::from(form.mods.relu) << 2
        | i64::from(form.ty == T::Bf16x2) << 3
        | i64::from(exponent) << 8
        | i64::from(fraction) << 12
        | i64::from(place) << 16
}

fn format(imm: i64) -> (u32, u32) {
    ((imm >> 8 & 15) as u32, (imm >> 12 & 15) as u32)
}

/// The nearest value of the format, ties to even; what is larger is the largest one, as is a NaN, with a plus.
fn to_tiny(bits: u32, imm: i64) -> u32 {
    let (exponent, fraction) = format(imm);
    let value = f32::from_bits(bits);
    let sign = (bits >> 31) << (exponent + fraction);
    let largest = (1 << (exponent + fraction)) - 1;
    if value.is_nan() {
        return largest;
    }
    if imm >> 2 & 1 == 1 && sign != 0 {
        return 0;
    }
    let bias = (1 << (exponent - 1)) - 1;
    let magnitude = f64::from(value).abs();
    // Units of the last place: of subnormal numbers those of the least normal ones.
    let power = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - bias);
    let units =
        if power > 16 { f64::from(largest) } else { magnitude * f64::powi(2.0, fraction as i32 - power) };
    let rounded = units.round_ties_even() as u32;
    let field = (power - (1 - bias)) as u32;
    let out = if power > 16 { largest } else { ((field << fraction) + rounded).min(largest) };
    sign | out
}

/// The half of a value, exactly.
fn from_tiny(bits: u32, imm: i64) -> u32 {
    let (exponent, fraction) = format(imm);
    let negative = bits >> (exponent + fraction) & 1;
    let field = bits >> fraction & ((1 << exponent) - 1);
    let rest = bits & ((1 << fraction) - 1);
    if negative == 1 && imm >> 2 & 1 == 1 {
        return 0;
    }
    let bias = (1 << (exponent - 1)) - 1;
    let out = if field > 0 {
        (field + 15 - bias) << 10 | rest << (10 - fraction)
    } else if rest == 0 {
        0
    } else {
        // The leading one becomes that of a normal half.
        let top = 31 - rest.leading_zeros();
        (15 + 1 - bias - (fraction - top)) << 10 | (rest ^ 1 << top) << (10 - top)
    };
    negative << 15 | out
}

/// The power of two below or above a magnitude; a NaN is 255, as is an infinity that does not saturate.
fn to_scale(bits: u32, imm: i64) -> u32 {
    let (up, saturates) = (imm & 1 == 1, imm >> 1 & 1 == 1);
    let magnitude = bits & 0x7fff_ffff;
    let infinity = 0x7f80_0000;
    if magnitude > infinity {
        return 255;
    }
    let most = if saturates { 254 } else { 255 };
    if magnitude == infinity {
        return most;
    }
    let field = magnitude >> 23;
    let above = if field == 0 {
        // Zero stands for 2^-127, which is half of the least normal number.
        magnitude > 1 << 22
    } else {
        magnitude & 0x7f_ffff != 0
    };
    (field + u32::from(up && above)).min(most)
}

/// The bfloat16 of a scale.
fn from_scale(scale: u32) -> u32 {
    match scale {
        255 => 0x7fff,
        // 2^-127 is subnormal.
        0 => 0x0040,
        scale => scale << 7,
    }
}
