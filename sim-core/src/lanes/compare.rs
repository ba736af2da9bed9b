//! Comparison and selection (PTX ISA "Comparison and Selection Instructions").

#![allow(clippy::neg_cmp_op_on_partial_ord, reason = "the unordered comparisons are negations")]

use sim_frontend::form::{BoolOp, CmpOp, FloatTest, Form};
use sim_frontend::isa::Root;
use sim_frontend::program::Op;
use sim_memory::vocabulary::ScalarType as T;
use sim_memory::vocabulary::WARP_LANES;

use super::bodies::{Variants, lane};
use super::file::LaneFile;
use super::float::flush32;
use crate::registers::each;

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    match form.root {
        Root::Selp if form.ty.bits() == 64 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (a, b, p) = (f.r64(op.src[0]), f.r64(op.src[1]), f.pred(op.psrc[0]));
            f.w64(op.dst[0], m, each(|i| if p >> i & 1 == 1 { a[i] } else { b[i] }));
        }),
        Root::Selp => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (a, b, p) = (f.r32(op.src[0]), f.r32(op.src[1]), f.pred(op.psrc[0]));
            f.w32(op.dst[0], m, each(|i| if p >> i & 1 == 1 { a[i] } else { b[i] }));
        }),
        Root::Slct => slct(form),
        Root::Testp => test(form),
        _ => compare(form),
    }
}

/// `slct`: a where c is at least zero (a NaN is not, -0 is), else b.
fn slct(form: &Form) -> Option<Variants> {
    macro_rules! select {
        ($read:ident, $write:ident, $at_least_zero:expr) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
                let (a, b, c) = (f.$read(op.src[0]), f.$read(op.src[1]), f.r32(op.src[2]));
                f.$write(op.dst[0], m, each(|i| if $at_least_zero(c[i]) { a[i] } else { b[i] }));
            })
        };
    }
    match (form.dst.bits(), form.ty) {
        (64, T::F32) if form.mods.ftz => select!(r64, w64, |c: u32| flush32(f32::from_bits(c)) >= 0.0),
        (64, T::F32) => select!(r64, w64, |c: u32| f32::from_bits(c) >= 0.0),
        (64, _) => select!(r64, w64, |c: u32| c as i32 >= 0),
        (_, T::F32) if form.mods.ftz => select!(r32, w32, |c: u32| flush32(f32::from_bits(c)) >= 0.0),
        (_, T::F32) => select!(r32, w32, |c: u32| f32::from_bits(c) >= 0.0),
        _ => select!(r32, w32, |c: u32| c as i32 >= 0),
    }
}

/// `testp`: a property of a value; zeros count as normal.
fn test(form: &Form) -> Option<Variants> {
    macro_rules! property {
        ($test:expr) => {
            match form.ty {
                T::F32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
                    let a = f.r32(op.src[0]);
                    let test: fn(f64, bool) -> bool = $test;
                    let bits = (0..WARP_LANES).fold(0, |bits, i| {
                        let x = f32::from_bits(a[i]);
                        bits | u32::from(test(x.into(), x.is_subnormal())) << i
                    });
                    f.wpred(op.pdst[0], m, bits);
                }),
                _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
                    let a = f.r64(op.src[0]);
                    let test: fn(f64, bool) -> bool = $test;
                    let bits = (0..WARP_LANES).fold(0, |bits, i| {
                        let x = f64::from_bits(a[i]);
                        bits | u32::from(test(x, x.is_subnormal())) << i
                    });
                    f.wpred(op.pdst[0], m, bits);
                }),
            }
        };
    }
    match form.mods.test? {
        FloatTest::Finite => property!(|x, _| x.is_finite()),
        FloatTest::Infinite => property!(|x, _| x.is_infinite()),
        FloatTest::Number => property!(|x, _| !x.is_nan()),
        FloatTest::NotANumber => property!(|x, _| x.is_nan()),
        FloatTest::Normal => property!(|x, subnormal| x.is_finite() && !subnormal),
        FloatTest::Subnormal => property!(|_, subnormal| subnormal),
    }
}

/// Bits of the immediate of `setp` and `set`: how the outcome is combined with a predicate, and that it is `set`. Below them lies what
/// `set` writes where the comparison holds.
const COMBINED: u32 = 32;
const SET: u32 = 34;

/// What to do with the outcome, as the immediate of the operation: one function of each comparison serves all that do more than
/// write it to predicates.
pub(super) fn encode(form: &Form) -> i64 {
    let yes: u32 = match form.dst {
        T::F32 => 1f32.to_bits(),
        T::F16 => 0x3c00,
        T::Bf16 => 0x3f80,
        _ => u32::MAX,
    };
    let combined = match form.mods.bool_op {
        None => 0,
        Some(BoolOp::And) => 1,
        Some(BoolOp::Or) => 2,
        Some(BoolOp::Xor) => 3,
    };
    i64::from(yes) | combined << COMBINED | i64::from(form.root == Root::Set) << SET
}

/// `setp` that combines nothing writes the outcome to predicates.
#[inline(always)]
fn plain(f: &mut LaneFile<'_>, op: &Op, m: u32, bits: u32) {
    if op.pdst[1].is_some() {
        f.wpred(op.pdst[1], m, !bits);
    }
    f.wpred(op.pdst[0], m, bits);
}

/// What to do with the outcome, as the immediate says: `setp` writes predicates, `set` a register.
#[inline(always)]
fn finish(f: &mut LaneFile<'_>, op: &Op, m: u32, bits: u32) {
    let combined = op.imm >> COMBINED & 3;
    let p = if combined != 0 { f.pred(op.psrc[0]) } else { 0 };
    let combine = |bits: u32| match combined {
        0 => bits,
        1 => bits & p,
        2 => bits | p,
        _ => bits ^ p,
    };
    let first = combine(bits);
    if op.imm >> SET & 1 == 1 {
        let yes = op.imm as u32;
        f.w32(op.dst[0], m, each(|i| if first >> i & 1 == 1 { yes } else { 0 }));
        return;
    }
    if op.pdst[1].is_some() {
        f.wpred(op.pdst[1], m, combine(!bits));
    }
    f.wpred(op.pdst[0], m, first);
}

/// Outcomes as bits, one a lane.
macro_rules! outcomes {
    ($read:ident, $f:expr, $op:expr, |$x:ident, $y:ident| $e:expr) => {{
        let (a, b) = ($f.$read($op.src[0]), $f.$read($op.src[1]));
        let mut bits = 0u32;
        for i in 0..WARP_LANES {
            let ($x, $y) = (a[i], b[i]);
            bits |= u32::from($e) << i;
        }
        bits
    }};
}

fn compare(form: &Form) -> Option<Variants> {
    let ftz = form.mods.ftz;
    let is_plain = form.root == Root::Setp && form.mods.bool_op.is_none();
    macro_rules! with {
        ($read:ident, $finish:expr, |$x:ident, $y:ident| $e:expr) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
                let bits = outcomes!($read, f, op, |$x, $y| $e);
                $finish(f, op, m, bits)
            })
        };
    }
    macro_rules! body {
        ($read:ident, |$x:ident, $y:ident| $e:expr) => {
            match is_plain {
                true => with!($read, plain, |$x, $y| $e),
                false => with!($read, finish, |$x, $y| $e),
            }
        };
    }
    let cmp = form.mods.cmp?;
    macro_rules! integer {
        ($read:ident, $ty:ty) => {
            match cmp {
                CmpOp::Eq => body!($read, |x, y| x as $ty == y as $ty),
                CmpOp::Ne => body!($read, |x, y| x as $ty != y as $ty),
                CmpOp::Lt | CmpOp::Lo => body!($read, |x, y| (x as $ty) < y as $ty),
                CmpOp::Le | CmpOp::Ls => body!($read, |x, y| x as $ty <= y as $ty),
                CmpOp::Gt | CmpOp::Hi => body!($read, |x, y| x as $ty > y as $ty),
                CmpOp::Ge | CmpOp::Hs => body!($read, |x, y| x as $ty >= y as $ty),
                _ => None,
            }
        };
    }
    macro_rules! floating {
        ($read:ident, $to:expr) => {
            match cmp {
                CmpOp::Eq => body!($read, |x, y| $to(x) == $to(y)),
                CmpOp::Ne => body!($read, |x, y| $to(x) < $to(y) || $to(x) > $to(y)),
                CmpOp::Lt => body!($read, |x, y| $to(x) < $to(y)),
                CmpOp::Le => body!($read, |x, y| $to(x) <= $to(y)),
                CmpOp::Gt => body!($read, |x, y| $to(x) > $to(y)),
                CmpOp::Ge => body!($read, |x, y| $to(x) >= $to(y)),
                CmpOp::Equ => body!($read, |x, y| !($to(x) < $to(y) || $to(x) > $to(y))),
                CmpOp::Neu => body!($read, |x, y| $to(x) != $to(y)),
                CmpOp::Ltu => body!($read, |x, y| !($to(x) >= $to(y))),
                CmpOp::Leu => body!($read, |x, y| !($to(x) > $to(y))),
                CmpOp::Gtu => body!($read, |x, y| !($to(x) <= $to(y))),
                CmpOp::Geu => body!($read, |x, y| !($to(x) < $to(y))),
                CmpOp::Num => body!($read, |x, y| !$to(x).is_nan() && !$to(y).is_nan()),
                CmpOp::Nan => body!($read, |x, y| $to(x).is_nan() || $to(y).is_nan()),
                _ => None,
            }
        };
    }
    match form.ty {
        T::S16 => integer!(r32, i16),
        T::U16 | T::B16 => integer!(r32, u16),
        T::S32 => integer!(r32, i32),
        T::U32 | T::B32 => integer!(r32, u32),
        T::S64 => integer!(r64, i64),
        T::U64 | T::B64 => integer!(r64, u64),
        T::F32 if ftz => floating!(r32, |x: u32| flush32(f32::from_bits(x))),
        T::F32 => floating!(r32, f32::from_bits),
        T::F64 => floating!(r64, f64::from_bits),
        _ => None,
    }
}
