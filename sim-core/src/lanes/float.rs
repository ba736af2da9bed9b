//! Floating-point arithmetic (PTX ISA "Floating-Point Instructions"): IEEE with the modifiers
//! `.ftz` and `.sat`; NaN results are canonical. `neg`, `abs` and `copysign` only touch the sign.

#![allow(clippy::if_same_then_else, reason = "NaN, order and sign are told apart one by one")]

use sim_frontend::form::{Accuracy, Form, Rounding};
use sim_frontend::isa::Root as R;
use sim_frontend::program::Op;
use sim_memory::atomics::{NAN_F32, NAN_F64};
use sim_memory::soft_float::{self as soft, Round};
use sim_memory::vocabulary::ScalarType as T;

use super::bodies::{Variants, bin32, bin64, lane, tri32, tri64, un32, un64};
use super::file::LaneFile;

/// Subnormal numbers become zeros of their sign.
#[inline(always)]
pub(crate) fn flush32(x: f32) -> f32 {
    if x.to_bits() & 0x7f80_0000 == 0 { f32::from_bits(x.to_bits() & 0x8000_0000) } else { x }
}

#[inline(always)]
fn input(a: u32, ftz: bool) -> f32 {
    let x = f32::from_bits(a);
    if ftz { flush32(x) } else { x }
}

/// Canonical NaN, flushing, saturation to [0, 1] (NaN: 0).
#[inline(always)]
pub(crate) fn output(x: f32, ftz: bool, sat: bool) -> u32 {
    if sat {
        // A NaN compares false twice and becomes zero.
        let x = if x > 0.0 { x } else { 0.0 };
        let x = if x < 1.0 { x } else { 1.0 };
        return if ftz { flush32(x).to_bits() } else { x.to_bits() };
    }
    let x = if ftz { flush32(x) } else { x };
    if x.is_nan() { NAN_F32 } else { x.to_bits() }
}

#[inline(always)]
fn output64(x: f64) -> u64 {
    if x.is_nan() { NAN_F64 } else { x.to_bits() }
}

/// `a * b + c` rounded once; by the instruction where there is one.
#[inline(always)]
pub(crate) fn fma32(fma: bool, a: f32, b: f32, c: f32) -> f32 {
    if fma {
        return a.mul_add(b, c);
    }
    // The product is exact in f64; the sum is rounded to odd there, so that rounding to f32
    // afterwards rounds the exact value (Boldo, Melquiond 2008).
    sum_to_odd(f64::from(a) * f64::from(b), f64::from(c)) as f32
}

/// A sum in double precision, rounded to odd: what is rounded again, to a format of less than half
/// the bits, is rounded as if it were exact.
#[inline(always)]
pub(super) fn sum_to_odd(product: f64, addend: f64) -> f64 {
    let sum = product + addend;
    let back = sum - product;
    let error = (product - (sum - back)) + (addend - back);
    let bits = sum.to_bits();
    let odd = error != 0.0 && sum.is_finite() && bits & 1 == 0;
    // Towards the error: away from zero if it has the sum's sign.
    let away = (error > 0.0) == (sum > 0.0);
    let fixed = if odd { if away { bits + 1 } else { bits.wrapping_sub(1) } } else { bits };
    f64::from_bits(fixed)
}

#[inline(always)]
fn fma64(fma: bool, a: f64, b: f64, c: f64) -> f64 {
    if fma {
        a.mul_add(b, c)
    } else {
        f64::from_bits(soft::F64.fma(a.to_bits(), b.to_bits(), c.to_bits(), Round::Nearest))
    }
}

/// The square root. Negative values are told apart by hand: LLVM's test for NaN of a root misses
/// negative subnormal numbers when it is optimised.
#[inline(always)]
fn root32(x: f32) -> f32 {
    if x < 0.0 { f32::NAN } else { x.sqrt() }
}

#[inline(always)]
fn root64(x: f64) -> f64 {
    if x < 0.0 { f64::NAN } else { x.sqrt() }
}

/// Minimum: a NaN loses, -0 is below +0 (PTX ISA "min").
#[inline(always)]
fn min32(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

#[inline(always)]
fn max32(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else if a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

#[inline(always)]
fn min64(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

#[inline(always)]
fn max64(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else if a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

/// `2^exponent`, of a normal double.
#[inline(always)]
pub(crate) fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

pub(crate) fn direction(rounding: Option<Rounding>) -> Round {
    match rounding {
        Some(Rounding::Rz | Rounding::Rzi) => Round::Zero,
        Some(Rounding::Rm | Rounding::Rmi) => Round::Down,
        Some(Rounding::Rp | Rounding::Rpi) => Round::Up,
        _ => Round::Nearest,
    }
}

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    let round = direction(form.mods.rounding);
    match (form.ty, round) {
        (T::F32, Round::Nearest) => single(form),
        (T::F64, Round::Nearest) => double(form),
        (T::F32, _) => directed32(form, round),
        _ => directed64(form, round),
    }
}

/// Compiles a body for the four combinations of `.ftz` and `.sat`.
macro_rules! modes {
    ($form:expr, |$f:ident, $op:ident, $m:ident, $ftz:ident, $sat:ident| $e:expr) => {
        match ($form.mods.ftz, $form.mods.sat) {
            (false, false) => lane!(|$f: &mut LaneFile<'_>, $op: &Op, $m| {
                const $ftz: bool = false;
                const $sat: bool = false;
                $e
            }),
            (true, false) => lane!(|$f: &mut LaneFile<'_>, $op: &Op, $m| {
                const $ftz: bool = true;
                const $sat: bool = false;
                $e
            }),
            (false, true) => lane!(|$f: &mut LaneFile<'_>, $op: &Op, $m| {
                const $ftz: bool = false;
                const $sat: bool = true;
                $e
            }),
            (true, true) => lane!(|$f: &mut LaneFile<'_>, $op: &Op, $m| {
                const $ftz: bool = true;
                const $sat: bool = true;
                $e
            }),
        }
    };
}

fn single(form: &Form) -> Option<Variants> {
    match form.root {
        R::Add => {
            modes!(form, |f, op, m, Z, S| bin32(f, op, m, |a, b| output(input(a, Z) + input(b, Z), Z, S)))
        }
        R::Sub => {
            modes!(form, |f, op, m, Z, S| bin32(f, op, m, |a, b| output(input(a, Z) - input(b, Z), Z, S)))
        }
        R::Mul => {
            modes!(form, |f, op, m, Z, S| bin32(f, op, m, |a, b| output(input(a, Z) * input(b, Z), Z, S)))
        }
        R::Fma | R::Mad => modes!(form, |f, op, m, Z, S| tri32(f, op, m, |a, b, c| output(
            fma32(FMA, input(a, Z), input(b, Z), input(c, Z)),
            Z,
            S
        ))),
        R::Div if form.mods.accuracy == Some(Accuracy::Approx) => modes!(form, |f, op, m, Z, S| bin32(
            f,
            op,
            m,
            |a, b| output(approx_div(input(a, Z), input(b, Z)), Z, S)
        )),
        R::Div => {
            modes!(form, |f, op, m, Z, S| bin32(f, op, m, |a, b| output(input(a, Z) / input(b, Z), Z, S)))
        }
        R::Rcp => modes!(form, |f, op, m, Z, S| un32(f, op, m, |a| output(1.0 / input(a, Z), Z, S))),
        R::Sqrt => modes!(form, |f, op, m, Z, S| un32(f, op, m, |a| output(root32(input(a, Z)), Z, S))),
        R::Min => modes!(form, |f, op, m, Z, S| bin32(f, op, m, |a, b| output(
            min32(input(a, Z), input(b, Z)),
            Z,
            S
        ))),
        R::Max => modes!(form, |f, op, m, Z, S| bin32(f, op, m, |a, b| output(
            max32(input(a, Z), input(b, Z)),
            Z,
            S
        ))),
        R::Neg => modes!(form, |f, op, m, Z, _S| un32(f, op, m, |a| input(a, Z).to_bits() ^ 0x8000_0000)),
        R::Abs => modes!(form, |f, op, m, Z, _S| un32(f, op, m, |a| input(a, Z).to_bits() & 0x7fff_ffff)),
        R::Copysign => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| a & 0x8000_0000 | b & 0x7fff_ffff))
        }
        _ => None,
    }
}

/// `div.approx`: a * (1/b); for |b| above 2^126 the reciprocal is flushed and the result is 0
/// (PTX ISA "div").
#[inline(always)]
fn approx_div(a: f32, b: f32) -> f32 {
    if b.is_finite() && b.abs() > 8.507_059e37 {
        return if a.is_infinite() { f32::NAN } else { f32::copysign(0.0, a) * f32::copysign(1.0, b) };
    }
    a / b
}

fn double(form: &Form) -> Option<Variants> {
    match form.root {
        R::Add => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| output64(
            f64::from_bits(a) + f64::from_bits(b)
        ))),
        R::Sub => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| output64(
            f64::from_bits(a) - f64::from_bits(b)
        ))),
        R::Mul => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| output64(
            f64::from_bits(a) * f64::from_bits(b)
        ))),
        R::Fma | R::Mad => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri64(f, op, m, |a, b, c| output64(
            fma64(FMA, f64::from_bits(a), f64::from_bits(b), f64::from_bits(c))
        ))),
        R::Div => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| output64(
            f64::from_bits(a) / f64::from_bits(b)
        ))),
        // The approximation keeps the upper half of the value (PTX ISA "rcp.approx.ftz.f64").
        R::Rcp if form.mods.accuracy.is_some() => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| super::approx::upper_half(
                1.0 / super::approx::flush64(f64::from_bits(a))
            )))
        }
        R::Rcp => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| output64(1.0 / f64::from_bits(a))))
        }
        R::Sqrt => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| output64(root64(f64::from_bits(a)))))
        }
        R::Min => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| output64(min64(
            f64::from_bits(a),
            f64::from_bits(b)
        )))),
        R::Max => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| output64(max64(
            f64::from_bits(a),
            f64::from_bits(b)
        )))),
        R::Neg => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| a ^ 1 << 63)),
        R::Abs => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| a & !(1 << 63))),
        R::Copysign => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| a & 1 << 63 | b & !(1 << 63)))
        }
        _ => None,
    }
}

fn directed32(form: &Form, round: Round) -> Option<Variants> {
    macro_rules! by {
        ($r:expr) => {
            match form.root {
                R::Add => modes!(form, |f, op, m, Z, S| bin32(f, op, m, |a, b| soft32(
                    soft::F32.add(i32s(a, Z), i32s(b, Z), $r),
                    Z,
                    S
                ))),
                R::Sub => modes!(form, |f, op, m, Z, S| bin32(f, op, m, |a, b| soft32(
                    soft::F32.add(i32s(a, Z), i32s(b, Z) ^ 1 << 31, $r),
                    Z,
                    S
                ))),
                R::Mul => modes!(form, |f, op, m, Z, S| bin32(f, op, m, |a, b| soft32(
                    soft::F32.mul(i32s(a, Z), i32s(b, Z), $r),
                    Z,
                    S
                ))),
                R::Fma | R::Mad => modes!(form, |f, op, m, Z, S| tri32(f, op, m, |a, b, c| soft32(
                    soft::F32.fma(i32s(a, Z), i32s(b, Z), i32s(c, Z), $r),
                    Z,
                    S
                ))),
                R::Div => modes!(form, |f, op, m, Z, S| bin32(f, op, m, |a, b| soft32(
                    soft::F32.div(i32s(a, Z), i32s(b, Z), $r),
                    Z,
                    S
                ))),
                R::Rcp => modes!(form, |f, op, m, Z, S| un32(f, op, m, |a| soft32(
                    soft::F32.div(0x3f80_0000, i32s(a, Z), $r),
                    Z,
                    S
                ))),
                R::Sqrt => modes!(form, |f, op, m, Z, S| un32(f, op, m, |a| soft32(
                    soft::F32.sqrt(i32s(a, Z), $r),
                    Z,
                    S
                ))),
                _ => None,
            }
        };
    }
    match round {
        Round::Zero => by!(Round::Zero),
        Round::Down => by!(Round::Down),
        _ => by!(Round::Up),
    }
}

#[inline(always)]
fn i32s(a: u32, ftz: bool) -> u64 {
    input(a, ftz).to_bits().into()
}

#[inline(always)]
fn soft32(bits: u64, ftz: bool, sat: bool) -> u32 {
    output(f32::from_bits(bits as u32), ftz, sat)
}

fn directed64(form: &Form, round: Round) -> Option<Variants> {
    macro_rules! by {
        ($r:expr) => {
            match form.root {
                R::Add => {
                    lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| soft::F64.add(a, b, $r)))
                }
                R::Sub => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| soft::F64.add(
                    a,
                    b ^ 1 << 63,
                    $r
                ))),
                R::Mul => {
                    lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| soft::F64.mul(a, b, $r)))
                }
                R::Fma | R::Mad => {
                    lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri64(f, op, m, |a, b, c| soft::F64
                        .fma(a, b, c, $r)))
                }
                R::Div => {
                    lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| soft::F64.div(a, b, $r)))
                }
                R::Rcp => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| soft::F64.div(
                    1f64.to_bits(),
                    a,
                    $r
                ))),
                R::Sqrt => {
                    lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| soft::F64.sqrt(a, $r)))
                }
                _ => None,
            }
        };
    }
    match round {
        Round::Zero => by!(Round::Zero),
        Round::Down => by!(Round::Down),
        _ => by!(Round::Up),
    }
}
