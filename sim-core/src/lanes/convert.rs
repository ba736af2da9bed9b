//! `cvt` (PTX ISA "cvt"): integers by truncation, extension or saturation; floating point with
//! any rounding; floating point to integer saturates.

use sim_frontend::form::{Form, Rounding};
use sim_frontend::program::Op;
use sim_memory::soft_float::{self as soft, Format, Parts, Round};
use sim_memory::vocabulary::ScalarType as T;
use sim_memory::vocabulary::WARP_LANES;

use super::bodies::{Variants, lane};
use super::file::LaneFile;
use super::float::{direction, flush32};
use crate::registers::each;

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    fast(form).or_else(|| general(form))
}

/// The conversions compilers emit most.
fn fast(form: &Form) -> Option<Variants> {
    let widths = (form.dst_reg == 64, form.src_reg == 64);
    if form.mods.sat || form.mods.ftz {
        return None;
    }
    match (form.dst, form.ty, widths, form.mods.rounding) {
        (T::S64 | T::U64, T::S32, (true, false), None) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            f.w64(op.dst[0], m, a.map(|v| v as i32 as i64 as u64));
        }),
        (T::S64 | T::U64, T::U32, (true, false), None) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            f.w64(op.dst[0], m, a.map(u64::from));
        }),
        (T::S32 | T::U32, T::S64 | T::U64, (false, true), None) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
                let a = f.r64(op.src[0]);
                f.w32(op.dst[0], m, a.map(|v| v as u32));
            })
        }
        (T::F32, T::S32, (false, false), Some(Rounding::Rn)) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            f.w32(op.dst[0], m, a.map(|v| (v as i32 as f32).to_bits()));
        }),
        (T::F32, T::U32, (false, false), Some(Rounding::Rn)) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            f.w32(op.dst[0], m, a.map(|v| (v as f32).to_bits()));
        }),
        (T::S32, T::F32, (false, false), Some(Rounding::Rzi)) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            f.w32(op.dst[0], m, a.map(|v| f32::from_bits(v) as i32 as u32));
        }),
        (T::U32, T::F32, (false, false), Some(Rounding::Rzi)) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            f.w32(op.dst[0], m, a.map(|v| f32::from_bits(v) as u32));
        }),
        _ => None,
    }
}

/// The others share one body; what they are is decoded from [`Op::imm`], where
/// [`encode`] put it when the program was made ready.
fn general(form: &Form) -> Option<Variants> {
    if form.mods.pack {
        return lane!(|f: &mut LaneFile<'_>, op: &Op, m| pack(f, op, m));
    }
    if parts(form.dst) > 1 || parts(form.ty) > 1 {
        return lane!(|f: &mut LaneFile<'_>, op: &Op, m| run_packed(f, op, m));
    }
    match (kind(form.dst), kind(form.ty)) {
        (Kind::Other, _) | (_, Kind::Other) => None,
        _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| run(f, op, m)),
    }
}

/// Everything a conversion depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Conversion {
    dst: T,
    src: T,
    dst_bits: u32,
    src_wide: bool,
    round: Round,
    integral: bool,
    ftz: bool,
    sat: bool,
    relu: bool,
    satfinite: bool,
}

const TYPES: [T; 17] = [
    T::U8,
    T::U16,
    T::U32,
    T::U64,
    T::S8,
    T::S16,
    T::S32,
    T::S64,
    T::F16,
    T::F32,
    T::F64,
    T::Bf16,
    T::Tf32,
    T::F16x2,
    T::Bf16x2,
    T::E4m3x2,
    T::E5m2x2,
];
const ROUNDS: [Round; 5] = [Round::Nearest, Round::Zero, Round::Down, Round::Up, Round::NearestAway];

/// A `cvt` form as the immediate of its operation.
pub(super) fn encode(form: &Form) -> i64 {
    let index = |ty: T| TYPES.iter().position(|t| *t == ty).unwrap_or(2) as i64;
    let round = match form.mods.rounding {
        Some(Rounding::Rna) => Round::NearestAway,
        other => direction(other),
    };
    let round = ROUNDS.iter().position(|r| *r == round).unwrap_or(0) as i64;
    let integral =
        matches!(form.mods.rounding, Some(Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi));
    index(form.dst)
        | index(form.ty) << 5
        | i64::from(form.dst_reg) << 10
        | i64::from(form.src_reg == 64) << 18
        | round << 19
        | i64::from(integral) << 22
        | i64::from(form.mods.ftz) << 23
        | i64::from(form.mods.sat) << 24
        | i64::from(form.mods.relu) << 25
        | i64::from(form.mods.satfinite) << 26
        | form.mods.narrow.map_or(0, |(bits, signed)| i64::from(bits) << 27 | i64::from(signed) << 30)
}

fn decode(imm: i64) -> Conversion {
    let ty = |at: u32| TYPES[((imm >> at & 31) as usize).min(TYPES.len() - 1)];
    Conversion {
        dst: ty(0),
        src: ty(5),
        dst_bits: (imm >> 10 & 0xff) as u32,
        src_wide: imm >> 18 & 1 == 1,
        round: ROUNDS[((imm >> 19 & 7) as usize).min(ROUNDS.len() - 1)],
        integral: imm >> 22 & 1 == 1,
        ftz: imm >> 23 & 1 == 1,
        sat: imm >> 24 & 1 == 1,
        relu: imm >> 25 & 1 == 1,
        satfinite: imm >> 26 & 1 == 1,
    }
}

/// Values in one of the type.
fn parts(ty: T) -> u32 {
    if matches!(ty, T::F16x2 | T::Bf16x2 | T::E4m3x2 | T::E5m2x2) { 2 } else { 1 }
}

/// The type of a part.
fn part(ty: T) -> T {
    match ty {
        T::F16x2 => T::F16,
        T::Bf16x2 => T::Bf16,
        T::E4m3x2 => T::E4m3,
        T::E5m2x2 => T::E5m2,
        other => other,
    }
}

enum Kind {
    Int { bits: u32, signed: bool },
    Float(Format),
    Other,
}

fn kind(ty: T) -> Kind {
    match ty {
        T::F16 => Kind::Float(soft::F16),
        T::Bf16 => Kind::Float(soft::BF16),
        T::Tf32 => Kind::Float(soft::TF32),
        T::E5m2 => Kind::Float(soft::E5M2),
        T::F32 => Kind::Float(soft::F32),
        T::F64 => Kind::Float(soft::F64),
        ty if ty.is_integer() => Kind::Int { bits: ty.bits(), signed: ty.is_signed() },
        _ => Kind::Other,
    }
}

fn run(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let c = decode(op.imm);
    let values: [u64; WARP_LANES] =
        if c.src_wide { f.r64(op.src[0]) } else { f.r32(op.src[0]).map(u64::from) };
    let out = values.map(|v| convert(v, &c));
    if c.dst_bits == 64 {
        f.w64(op.dst[0], m, out);
    } else {
        f.w32(op.dst[0], m, out.map(|v| v as u32));
    }
}

/// Two values into the parts of one, or the parts of one into those of another.
fn run_packed(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let c = decode(op.imm);
    let (from, to) = (part(c.src), part(c.dst));
    let c = Conversion { dst: to, src: from, dst_bits: to.bits(), ..c };
    let convert = |bits: u64| match (from, to) {
        (_, T::E4m3) => to_e4m3(from, bits, c.relu),
        (T::E4m3, _) => relu(soft::F16, from_e4m3(bits), c.relu),
        _ => convert(bits, &c),
    };
    let (high, low) = if parts(decode(op.imm).src) == 1 {
        (f.r32(op.src[0]), f.r32(op.src[1]))
    } else {
        let (a, bits) = (f.r32(op.src[0]), from.bits());
        (a.map(|v| v >> bits & ((1 << bits) - 1)), a.map(|v| v & ((1 << bits) - 1)))
    };
    let out = each(|i| (convert(high[i].into()) << to.bits() | convert(low[i].into())) as u32);
    f.w32(op.dst[0], m, out);
}

/// `cvt.pack`: a in the upper, b in the lower part, saturated; what is narrower pushes c up.
fn pack(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let to = decode(op.imm).dst;
    let (bits, signed) = match (op.imm >> 27 & 7, op.imm >> 30 & 1) {
        (0, _) => (to.bits(), to.is_signed()),
        (bits, signed) => (bits as u32, signed == 1),
    };
    let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
    let c = if bits < 16 { f.r32(op.src[2]) } else { [0; WARP_LANES] };
    let part = |v: u32| extend(clamp(i128::from(v as i32), bits, signed), bits, false) as u32;
    f.w32(op.dst[0], m, each(|i| c[i].checked_shl(2 * bits).unwrap_or(0) | part(a[i]) << bits | part(b[i])));
}

/// `.e4m3` has no infinity: 256 to 448 lie where others have it, and larger values saturate.
fn to_e4m3(from: T, bits: u64, clamp: bool) -> u64 {
    let Kind::Float(format) = kind(from) else { return 0x7f };
    let value = f64::from_bits(soft::F64.convert(format, bits & format_mask(format), Round::Nearest));
    if value.is_nan() {
        return 0x7f;
    }
    let sign = u64::from(value.is_sign_negative()) << 7;
    let magnitude = match value.abs() {
        large if large >= 448.0 => 0x7e,
        large if large >= 256.0 => 0x70 + (large / 32.0).round_ties_even() as u64,
        _ => soft::E4M3.convert(format, bits & format_mask(format), Round::Nearest) & 0x7f,
    };
    if clamp && sign != 0 { 0 } else { sign | magnitude }
}

/// The half-precision value of an `.e4m3`.
fn from_e4m3(bits: u64) -> u64 {
    let (negative, fraction) = (bits >> 7 & 1 == 1, bits & 7);
    match (bits >> 3 & 15, fraction) {
        (15, 7) => soft::F16.nan(),
        (15, _) => soft::F16.round(negative, u128::from(8 + fraction), 5, false, Round::Nearest),
        _ => soft::F16.convert(soft::E4M3, bits & 0xff, Round::Nearest),
    }
}

/// Negative results become zero, if asked for; a NaN stays one.
fn relu(format: Format, bits: u64, clamp: bool) -> u64 {
    let negative = bits >> (format.fraction + format.exponent) & 1 == 1;
    if clamp && negative && format.unpack(bits) != Parts::Nan { 0 } else { bits }
}

/// The result as the bits of the destination register.
fn convert(bits: u64, c: &Conversion) -> u64 {
    let result = match (kind(c.src), kind(c.dst)) {
        (Kind::Int { bits: from, signed }, Kind::Int { bits: to, signed: to_signed }) => {
            let value = integer(bits, from, signed);
            let value = if c.sat { clamp(value, to, to_signed) } else { value };
            extend(value, to, to_signed)
        }
        (Kind::Int { bits: from, signed }, Kind::Float(format)) => {
            let value = integer(bits, from, signed);
            let rounded = format.round(value < 0, value.unsigned_abs(), 0, false, c.round);
            if c.sat { saturate(format, rounded) } else { rounded }
        }
        (Kind::Float(format), Kind::Int { bits: to, signed }) => {
            let value = flush(format, bits, c.ftz);
            // PTX ISA 9.0, "cvt": from .f64 and to 64 bits a NaN gives the greatest power of two, else 0.
            if format.unpack(value) == Parts::Nan {
                let top = format == soft::F64 || to == 64;
                let nan = if top { 1 << (to - 1) } else { 0 };
                return register(extend(nan, to, signed), c);
            }
            let value = to_integer(format, value, c.round, to, signed);
            extend(value, to, signed)
        }
        (Kind::Float(from), Kind::Float(to)) => {
            let mut value = flush(from, bits, c.ftz);
            if c.integral {
                value = integral(from, value, c.round);
            }
            let round = if c.integral { Round::Nearest } else { c.round };
            let result = relu(to, flush(to, to.convert(from, value, round), c.ftz), c.relu);
            let overflows = c.satfinite && matches!(to.unpack(result), Parts::Infinite(_));
            let result = if c.sat { saturate(to, result) } else { result - u64::from(overflows) };
            if c.dst == T::Tf32 { result << 13 } else { result }
        }
        _ => bits,
    };
    register(result, c)
}

/// The bits of it that the destination register has.
fn register(result: u64, c: &Conversion) -> u64 {
    if c.dst_bits == 64 { result } else { result & ((1 << c.dst_bits) - 1) }
}

fn integer(bits: u64, width: u32, signed: bool) -> i128 {
    let value = bits & (u64::MAX >> (64 - width));
    if signed { i128::from((value << (64 - width)) as i64 >> (64 - width)) } else { i128::from(value) }
}

fn bounds(width: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (width - 1)), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) }
}

fn clamp(value: i128, width: u32, signed: bool) -> i128 {
    let (least, most) = bounds(width, signed);
    value.clamp(least, most)
}

/// The low bits of a value, extended from its type's width to a register's.
fn extend(value: i128, width: u32, signed: bool) -> u64 {
    integer(value as u64, width, signed) as u64
}

fn flush(format: Format, bits: u64, ftz: bool) -> u64 {
    if ftz && format == soft::F32 {
        flush32(f32::from_bits(bits as u32)).to_bits().into()
    } else {
        bits & format_mask(format)
    }
}

fn format_mask(format: Format) -> u64 {
    u64::MAX >> (63 - format.fraction - format.exponent)
}

/// The value rounded to an integer.
fn rounded_integer(negative: bool, significand: u128, exponent: i32, round: Round) -> i128 {
    let magnitude = if exponent >= 0 {
        if exponent > 66 { i128::MAX } else { (significand << exponent) as i128 }
    } else {
        let shift = -exponent;
        let (whole, half, low) = if shift > 127 {
            (0, false, significand != 0)
        } else {
            let below = significand & ((1u128 << shift) - 1);
            (significand >> shift, below >> (shift - 1) & 1 == 1, below & ((1u128 << (shift - 1)) - 1) != 0)
        };
        let up = match round {
            Round::Nearest => half && (low || whole & 1 == 1),
            Round::Zero => false,
            Round::Down => negative && (half || low),
            Round::Up => !negative && (half || low),
            Round::NearestAway => half,
        };
        (whole + u128::from(up)) as i128
    };
    if negative { -magnitude } else { magnitude }
}

fn to_integer(format: Format, bits: u64, round: Round, width: u32, signed: bool) -> i128 {
    let (least, most) = bounds(width, signed);
    match format.unpack(bits) {
        Parts::Nan => 0,
        Parts::Infinite(true) => least,
        Parts::Infinite(false) => most,
        Parts::Finite { negative, significand, exponent } => {
            rounded_integer(negative, significand, exponent, round).clamp(least, most)
        }
    }
}

/// Rounds to an integral value of the same format; zeros keep the sign.
fn integral(format: Format, bits: u64, round: Round) -> u64 {
    match format.unpack(bits) {
        Parts::Finite { negative, significand, exponent } if exponent < 0 => {
            let value = rounded_integer(negative, significand, exponent, round);
            format.round(negative, value.unsigned_abs(), 0, false, Round::Nearest)
        }
        _ => bits,
    }
}

/// Clamps to [0, 1]; NaN gives zero.
fn saturate(format: Format, bits: u64) -> u64 {
    let one = format.round(false, 1, 0, false, Round::Nearest);
    match format.unpack(bits) {
        Parts::Nan | Parts::Infinite(true) => 0,
        Parts::Infinite(false) => one,
        Parts::Finite { negative: true, .. } => 0,
        Parts::Finite { .. } => bits.min(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cvt(dst: T, src: T, round: Round, integral: bool, sat: bool, bits: u64) -> u64 {
        let dst_bits = match dst.bits() {
            8 | 16 => 16,
            other => other,
        };
        convert(
            bits,
            &Conversion {
                dst,
                src,
                dst_bits,
                src_wide: src.bits() == 64,
                round,
                integral,
                ftz: false,
                sat,
                relu: false,
                satfinite: false,
            },
        )
    }

    #[test]
    fn integers() {
        let n = |dst, src, sat, v: i64| cvt(dst, src, Round::Nearest, false, sat, v as u64);
        assert_eq!(n(T::S32, T::S8, false, 0xff), 0xffff_ffff);
        assert_eq!(n(T::U32, T::S8, false, 0x80), 0xffff_ff80);
        assert_eq!(n(T::U16, T::U8, false, 0x1ff), 0xff);
        assert_eq!(n(T::S16, T::S8, false, 0x80), 0xff80);
        assert_eq!(n(T::U8, T::S32, true, -5), 0);
        assert_eq!(n(T::S8, T::S32, true, 300), 0x7f);
        assert_eq!(n(T::U64, T::S32, false, -1), u64::MAX);
    }

    #[test]
    fn floats_to_integers_round_and_saturate() {
        let f = |dst, round, x: f32| cvt(dst, T::F32, round, true, false, x.to_bits().into()) as u32 as i32;
        assert_eq!([2.5, 3.5, -2.5, 0.49].map(|x| f(T::S32, Round::Nearest, x)), [2, 4, -2, 0]);
        assert_eq!([2.7, -2.7].map(|x| f(T::S32, Round::Down, x)), [2, -3]);
        assert_eq!([2.2, -2.7].map(|x| f(T::S32, Round::Up, x)), [3, -2]);
        assert_eq!([1e20, -1e20, f32::NAN].map(|x| f(T::S32, Round::Zero, x)), [i32::MAX, i32::MIN, 0]);
        assert_eq!(f(T::U32, Round::Zero, -3.0), 0);
        // NaN: source, destination, and the low bits of the register.
        let nan = |src, dst, bits| cvt(dst, src, Round::Zero, true, false, bits);
        let (single, double, half) = (f32::NAN.to_bits().into(), f64::NAN.to_bits(), 0x7e00);
        for (src, dst, bits, expected) in [
            (T::F32, T::S32, single, 0),
            (T::F32, T::U16, single, 0),
            (T::F32, T::S64, single, 1 << 63),
            (T::F32, T::U64, single, 1 << 63),
            (T::F16, T::S64, half, 1 << 63),
            (T::F16, T::S32, half, 0),
            (T::F64, T::S32, double, 1 << 31),
            (T::F64, T::U32, double, 1 << 31),
            (T::F64, T::S64, double, 1 << 63),
            (T::F64, T::U16, double, 1 << 15),
            (T::F64, T::S8, double, 0xff80),
            (T::F64, T::U8, double, 0x80),
        ] {
            assert_eq!(nan(src, dst, bits), expected, "{src:?} {dst:?}");
        }
        assert_eq!(
            cvt(T::S64, T::F64, Round::Zero, true, false, (-1e18f64).to_bits()),
            -10i64.pow(18) as u64
        );
    }

    #[test]
    fn floats() {
        let to32 =
            |round, x: f64| f32::from_bits(cvt(T::F32, T::F64, round, false, false, x.to_bits()) as u32);
        assert_eq!(to32(Round::Nearest, 0.1), 0.1f32);
        assert!(f64::from(to32(Round::Down, 0.1)) < 0.1 && f64::from(to32(Round::Up, 0.1)) > 0.1);
        let same = |round, x: f32| {
            f32::from_bits(cvt(T::F32, T::F32, round, true, false, x.to_bits().into()) as u32)
        };
        assert_eq!(
            [same(Round::Up, -0.5), same(Round::Down, 1.5), same(Round::Nearest, 2.5)].map(f32::to_bits),
            [-0.0f32, 1.0, 2.0].map(f32::to_bits)
        );
        assert_eq!(
            cvt(T::F32, T::F32, Round::Nearest, false, true, u64::from(1.5f32.to_bits())),
            0x3f80_0000
        );
        assert_eq!(cvt(T::F32, T::F32, Round::Nearest, false, true, u64::from(f32::NAN.to_bits())), 0);
        assert_eq!(cvt(T::F32, T::F16, Round::Nearest, false, false, 0x3c00), 0x3f80_0000);
        assert_eq!(cvt(T::F16, T::F32, Round::Nearest, false, false, u64::from(1.5f32.to_bits())), 0x3e00);
        assert_eq!(cvt(T::F64, T::U64, Round::Nearest, false, false, u64::MAX), (u64::MAX as f64).to_bits());
    }
}
