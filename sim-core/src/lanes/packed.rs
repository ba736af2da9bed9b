//! Half precision and values packed in a register (PTX ISA "Half Precision Floating-Point
//! Instructions", "Half Precision Comparison Instructions"): `.f16`, `.bf16`, pairs of them,
//! `.f32x2`, `.u16x2`, `.s16x2`, and the modifiers of `min` and `max` that came with them. Halves
//! are computed in double precision, which is exact or rounded to odd, and rounded once.

use sim_frontend::form::{BoolOp, CmpOp, Form};
use sim_frontend::isa::Root as R;
use sim_frontend::program::Op;
use sim_memory::soft_float::{BF16, F16, F32, Format, Round};
use sim_memory::vocabulary::ScalarType as T;
use sim_memory::vocabulary::WARP_LANES;

use super::bodies::{Variants, lane};
use super::file::LaneFile;
use super::float::{direction, sum_to_odd};
use crate::registers::each;

/// Forms of this file.
pub(super) fn handles(form: &Form) -> bool {
    let arithmetic = matches!(
        form.root,
        R::Add | R::Sub | R::Mul | R::Fma | R::Min | R::Max | R::Neg | R::Abs | R::Tanh | R::Ex2
    );
    let m = &form.mods;
    let packed = matches!(form.ty, T::F16 | T::Bf16 | T::F16x2 | T::Bf16x2 | T::F32x2 | T::U16x2 | T::S16x2);
    arithmetic && (packed || m.abs || m.relu || m.propagate_nan || m.xorsign_abs)
        || matches!(form.root, R::Setp | R::Set) && packed
}

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    if !ROOTS.contains(&form.root) || !TYPES.contains(&form.ty) {
        return None;
    }
    if matches!(form.root, R::Setp | R::Set) {
        return lane!(|f: &mut LaneFile<'_>, op: &Op, m| compare(f, op, m));
    }
    match form.ty {
        T::F32x2 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| wide(f, op, m)),
        _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| run(f, op, m)),
    }
}

const ROOTS: [R; 12] =
    [R::Add, R::Sub, R::Mul, R::Fma, R::Min, R::Max, R::Neg, R::Abs, R::Tanh, R::Ex2, R::Setp, R::Set];
const TYPES: [T; 9] = [T::F16, T::Bf16, T::F16x2, T::Bf16x2, T::F32, T::F32x2, T::U16x2, T::S16x2, T::S32];
const RESULTS: [T; 9] = [T::F16, T::Bf16, T::F16x2, T::Bf16x2, T::U16, T::S16, T::U32, T::S32, T::Pred];
const COMPARISONS: [CmpOp; 14] = [
    CmpOp::Eq,
    CmpOp::Ne,
    CmpOp::Lt,
    CmpOp::Le,
    CmpOp::Gt,
    CmpOp::Ge,
    CmpOp::Equ,
    CmpOp::Neu,
    CmpOp::Ltu,
    CmpOp::Leu,
    CmpOp::Gtu,
    CmpOp::Geu,
    CmpOp::Num,
    CmpOp::Nan,
];
const ROUNDS: [Round; 4] = [Round::Nearest, Round::Zero, Round::Down, Round::Up];
const BOOLS: [Option<BoolOp>; 4] = [None, Some(BoolOp::And), Some(BoolOp::Or), Some(BoolOp::Xor)];

/// What an operation of this file depends on.
#[derive(Clone, Copy)]
struct Arithmetic {
    root: R,
    ty: T,
    result: T,
    round: Round,
    cmp: CmpOp,
    bool_op: Option<BoolOp>,
    ftz: bool,
    sat: bool,
    relu: bool,
    propagate_nan: bool,
    xorsign_abs: bool,
    abs: bool,
    out_of_bounds: bool,
}

/// A form as the immediate of its operation.
pub(super) fn encode(form: &Form) -> i64 {
    fn index<V: PartialEq>(list: &[V], value: &V) -> i64 {
        list.iter().position(|v| v == value).unwrap_or(0) as i64
    }
    let m = &form.mods;
    let result = if form.root == R::Setp { T::Pred } else { form.dst };
    index(&ROOTS, &form.root)
        | index(&TYPES, &form.ty) << 4
        | index(&RESULTS, &result) << 8
        | index(&ROUNDS, &direction(m.rounding)) << 12
        | index(&COMPARISONS, &m.cmp.unwrap_or(CmpOp::Eq)) << 14
        | index(&BOOLS, &m.bool_op) << 18
        | i64::from(m.ftz) << 20
        | i64::from(m.sat) << 21
        | i64::from(m.relu) << 22
        | i64::from(m.propagate_nan) << 23
        | i64::from(m.xorsign_abs) << 24
        | i64::from(m.abs) << 25
        | i64::from(m.out_of_bounds) << 26
}

fn decode(imm: i64) -> Arithmetic {
    let at = |from: u32, bits: u32, count: usize| ((imm >> from) as usize & ((1 << bits) - 1)).min(count - 1);
    let flag = |bit: u32| imm >> bit & 1 == 1;
    Arithmetic {
        root: ROOTS[at(0, 4, ROOTS.len())],
        ty: TYPES[at(4, 4, TYPES.len())],
        result: RESULTS[at(8, 4, RESULTS.len())],
        round: ROUNDS[at(12, 2, ROUNDS.len())],
        cmp: COMPARISONS[at(14, 4, COMPARISONS.len())],
        bool_op: BOOLS[at(18, 2, BOOLS.len())],
        ftz: flag(20),
        sat: flag(21),
        relu: flag(22),
        propagate_nan: flag(23),
        xorsign_abs: flag(24),
        abs: flag(25),
        out_of_bounds: flag(26),
    }
}

/// Sources; zeros for those the operation lacks.
fn sources(f: &LaneFile<'_>, op: &Op) -> [[u32; WARP_LANES]; 3] {
    each(|k| if op.src[k].is_some() { f.r32(op.src[k]) } else { [0; WARP_LANES] })
}

fn run(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let k = decode(op.imm);
    let [a, b, c] = sources(f, op);
    let both = |i: usize, g: &dyn Fn(u16, u16, u16) -> u16| {
        let part =
            |at: u32| u32::from(g((a[i] >> at) as u16, (b[i] >> at) as u16, (c[i] >> at) as u16)) << at;
        part(16) | part(0)
    };
    let out = match k.ty {
        T::F16 => each(|i| half(&k, F16, a[i] as u16, b[i] as u16, c[i] as u16).into()),
        T::Bf16 => each(|i| half(&k, BF16, a[i] as u16, b[i] as u16, c[i] as u16).into()),
        T::F16x2 => each(|i| both(i, &|a, b, c| half(&k, F16, a, b, c))),
        T::Bf16x2 => each(|i| both(i, &|a, b, c| half(&k, BF16, a, b, c))),
        T::U16x2 => each(|i| {
            both(i, &|a, b, _| match k.root {
                R::Add => a.wrapping_add(b),
                R::Min => a.min(b),
                _ => a.max(b),
            })
        }),
        T::S16x2 => each(|i| {
            both(i, &|a, b, _| {
                let (a, b) = (a as i16, b as i16);
                let value = match k.root {
                    R::Add => a.wrapping_add(b),
                    R::Min => a.min(b),
                    _ => a.max(b),
                };
                (if k.relu { value.max(0) } else { value }) as u16
            })
        }),
        T::S32 => each(|i| {
            let (a, b) = (a[i] as i32, b[i] as i32);
            let value = if k.root == R::Min { a.min(b) } else { a.max(b) };
            (if k.relu { value.max(0) } else { value }) as u32
        }),
        _ => each(|i| single(&k, a[i], b[i])),
    };
    f.w32(op.dst[0], m, out);
}

/// `.f32x2`: both words of a pair.
fn wide(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let k = decode(op.imm);
    let (a, b) = (f.r64(op.src[0]), f.r64(op.src[1]));
    let c = if op.src[2].is_some() { f.r64(op.src[2]) } else { [0; WARP_LANES] };
    let word = |a: u64, b: u64, c: u64| {
        let flush = |v: u64| if k.ftz { flushed(F32, v & 0xffff_ffff) } else { v & 0xffff_ffff };
        let (a, b, c) = (flush(a), flush(b), flush(c));
        let value = match k.root {
            R::Add => F32.add(a, b, k.round),
            R::Sub => F32.add(a, b ^ 1 << 31, k.round),
            R::Mul => F32.mul(a, b, k.round),
            _ => F32.fma(a, b, c, k.round),
        };
        flush(value)
    };
    let out = each(|i| word(a[i] >> 32, b[i] >> 32, c[i] >> 32) << 32 | word(a[i], b[i], c[i]));
    f.w64(op.dst[0], m, out);
}

/// Subnormal values become zeros of their sign.
fn flushed(format: Format, bits: u64) -> u64 {
    let sign = 1 << (format.fraction + format.exponent);
    if bits & (sign - 1) >> format.fraction << format.fraction == 0 { bits & sign } else { bits }
}

/// The value of a half, exactly.
#[inline(always)]
fn widen(format: Format, bits: u16) -> f64 {
    if format == BF16 {
        return f64::from(f32::from_bits(u32::from(bits) << 16));
    }
    let (sign, field) = (u64::from(bits) >> 15, u64::from(bits) >> 10 & 31);
    let fraction = u64::from(bits) & 0x3ff;
    let magnitude = match field {
        // Units of 2^-24.
        0 => fraction as f64 * f64::from_bits((1023 - 24) << 52),
        31 => f64::from_bits(0x7ff << 52 | fraction << 42),
        _ => f64::from_bits((field + 1023 - 15) << 52 | fraction << 42),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// The nearest half, ties to even; the value is exact or has more than two bits to spare.
#[inline(always)]
fn narrow(format: Format, value: f64) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 63) as u16) << 15;
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    let infinity = format.infinity(false) as u16;
    if exponent == 1024 {
        return if value.is_nan() { format.nan() as u16 } else { sign | infinity };
    }
    let least = 2 - (1 << (format.exponent - 1));
    let below = 52 - format.fraction as i32 + (least - exponent).max(0);
    if exponent == -1023 || below > 54 {
        return sign;
    }
    let significand = bits & (u64::MAX >> 12) | 1 << 52;
    let (kept, rest) = (significand >> below, significand & ((1 << below) - 1));
    let tie = 1u64 << (below - 1);
    let kept = kept + u64::from(rest > tie || rest == tie && kept & 1 == 1);
    // The leading one of a normal number adds one to the exponent's field.
    let field = (exponent - least).max(0) as u64;
    let out = (field << format.fraction) + kept;
    sign | (out.min(infinity.into()) as u16)
}

/// The lesser or greater of two values; a NaN loses unless `.NaN` lets it win; -0 is below +0.
fn choose(k: &Arithmetic, a: f64, b: f64) -> f64 {
    if k.propagate_nan && (a.is_nan() || b.is_nan()) {
        return f64::NAN;
    }
    let (x, y) = if k.abs { (a.abs(), b.abs()) } else { (a, b) };
    let lesser = k.root == R::Min;
    let chosen = if x.is_nan() {
        y
    } else if y.is_nan() {
        x
    } else if x == y {
        if x.is_sign_negative() == lesser { x } else { y }
    } else if (x < y) == lesser {
        x
    } else {
        y
    };
    let negative = a.is_sign_negative() != b.is_sign_negative();
    if k.xorsign_abs && negative { -chosen } else { chosen }
}

/// What stands for an element that a tensor does not have, of either sign, in both formats: measured on an H100, where the
/// canonical NaN (0x7fff) is a NaN like others.
const OUT_OF_BOUNDS: u16 = 0x7ff7;

fn half(k: &Arithmetic, format: Format, a: u16, b: u16, c: u16) -> u16 {
    let flush = |v: u16| if k.ftz { flushed(format, v.into()) as u16 } else { v };
    let (a, b, c) = (flush(a), flush(b), flush(c));
    if k.out_of_bounds && [a, b].iter().any(|x| x & 0x7fff == OUT_OF_BOUNDS) {
        return 0;
    }
    match k.root {
        R::Neg => return a ^ 0x8000,
        R::Abs => return a & 0x7fff,
        _ => {}
    }
    let (x, y) = (widen(format, a), widen(format, b));
    let value = match k.root {
        R::Add => x + y,
        R::Sub => x - y,
        R::Mul => x * y,
        R::Fma => sum_to_odd(x * y, widen(format, c)),
        R::Tanh => libm::tanh(x),
        R::Ex2 => libm::exp2(x),
        _ => choose(k, x, y),
    };
    let value = match value {
        // A NaN compares false and becomes zero.
        v if k.sat => {
            let v = if v > 0.0 { v } else { 0.0 };
            if v < 1.0 { v } else { 1.0 }
        }
        v if k.relu && v.is_sign_negative() && !v.is_nan() => 0.0,
        v => v,
    };
    flush(narrow(format, value))
}

/// `min` and `max` of single precision with `.NaN` or `.xorsign.abs`.
fn single(k: &Arithmetic, a: u32, b: u32) -> u32 {
    let flush = |v: u32| if k.ftz { flushed(F32, v.into()) as u32 } else { v };
    let value = choose(k, f32::from_bits(flush(a)).into(), f32::from_bits(flush(b)).into()) as f32;
    if value.is_nan() { F32.nan() as u32 } else { value.to_bits() }
}

fn holds(cmp: CmpOp, x: f64, y: f64) -> bool {
    let unordered = x.is_nan() || y.is_nan();
    match cmp {
        CmpOp::Eq => x == y,
        CmpOp::Ne => x != y && !unordered,
        CmpOp::Lt | CmpOp::Lo => x < y,
        CmpOp::Le | CmpOp::Ls => x <= y,
        CmpOp::Gt | CmpOp::Hi => x > y,
        CmpOp::Ge | CmpOp::Hs => x >= y,
        CmpOp::Equ => x == y || unordered,
        CmpOp::Neu => x != y,
        CmpOp::Ltu => x < y || unordered,
        CmpOp::Leu => x <= y || unordered,
        CmpOp::Gtu => x > y || unordered,
        CmpOp::Geu => x >= y || unordered,
        CmpOp::Num => !unordered,
        CmpOp::Nan => unordered,
    }
}

/// `setp` and `set` of halves: the first predicate, or the low half of the result, is that of the
/// low halves.
fn compare(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let k = decode(op.imm);
    let (format, pair) = match k.ty {
        T::F16 => (F16, false),
        T::F16x2 => (F16, true),
        T::Bf16 => (BF16, false),
        _ => (BF16, true),
    };
    let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
    let p = if k.bool_op.is_some() { f.pred(op.psrc[0]) } else { 0 };
    let combine = |bits: u32| match k.bool_op {
        None => bits,
        Some(BoolOp::And) => bits & p,
        Some(BoolOp::Or) => bits | p,
        Some(BoolOp::Xor) => bits ^ p,
    };
    let outcomes = |at: u32| {
        let value = |v: u32| {
            let bits = (v >> at) as u16;
            widen(format, if k.ftz { flushed(format, bits.into()) as u16 } else { bits })
        };
        (0..WARP_LANES).fold(0, |bits, i| bits | u32::from(holds(k.cmp, value(a[i]), value(b[i]))) << i)
    };
    let low = outcomes(0);
    let second = combine(if pair { outcomes(16) } else { !low });
    let first = combine(low);
    if k.result == T::Pred {
        f.wpred(op.pdst[1], m, second);
        f.wpred(op.pdst[0], m, first);
        return;
    }
    let one_of = if matches!(k.result, T::Bf16 | T::Bf16x2) { BF16 } else { F16 };
    let one = one_of.convert(F32, u64::from(1f32.to_bits()), Round::Nearest) as u32;
    let out = each(|i| {
        let (low, high) = (first >> i & 1, second >> i & 1);
        match k.result {
            T::F16 | T::Bf16 => low * one,
            T::F16x2 | T::Bf16x2 => (low * one) | ((high * one) << 16),
            T::U16 | T::S16 => low * 0xffff,
            _ if pair => (low * 0xffff) | ((high * 0xffff) << 16),
            _ => low * u32::MAX,
        }
    });
    f.w32(op.dst[0], m, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_widening_and_narrowing() {
        for bits in 0..=u16::MAX {
            for format in [F16, BF16] {
                let nan = format.unpack(bits.into()) == sim_memory::soft_float::Parts::Nan;
                let expected = if nan { format.nan() as u16 } else { bits };
                assert_eq!(narrow(format, widen(format, bits)), expected, "{bits:#x}");
            }
        }
    }

    /// Against arithmetic by integers, which rounds the exact value once.
    #[test]
    fn halves_round_once() {
        let plain = |root| Arithmetic { root, ..decode(0) };
        let mut seed = 11;
        let mut pick = || {
            let bits = super::super::tests::mix(&mut seed);
            // Few distinct exponents, so that sums cancel and ties are met.
            match bits >> 60 {
                0..4 => bits as u16,
                4..8 => (bits as u16 & 0x83ff) | 0x3c00,
                8..10 => bits as u16 & 0x80ff,
                _ => (bits as u16 & 0x87ff) | 0x2000,
            }
        };
        for _ in 0..200_000 {
            let (a, b, c) = (pick(), pick(), pick());
            let (x, y, z) = (u64::from(a), u64::from(b), u64::from(c));
            for format in [F16, BF16] {
                let cases = [
                    (R::Add, format.add(x, y, Round::Nearest)),
                    (R::Sub, format.add(x, y ^ 0x8000, Round::Nearest)),
                    (R::Mul, format.mul(x, y, Round::Nearest)),
                    (R::Fma, format.fma(x, y, z, Round::Nearest)),
                ];
                for (root, expected) in cases {
                    let got = half(&plain(root), format, a, b, c);
                    assert_eq!(u64::from(got), expected, "{root:?} {format:?} {a:#x} {b:#x} {c:#x}");
                }
            }
        }
    }
}
