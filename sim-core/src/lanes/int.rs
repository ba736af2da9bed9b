//! Integer arithmetic (PTX ISA "Integer Arithmetic Instructions"). 16-bit values live zero-extended in 32-bit rows.

use sim_frontend::form::{Form, Half};
use sim_frontend::isa::Root as R;
use sim_frontend::program::Op;
use sim_memory::vocabulary::ScalarType as T;
use sim_memory::vocabulary::WARP_LANES;

use super::bodies::{Variants, bin32, bin64, int1, int2, lane, tri32, tri64, un32, un64};
use super::file::LaneFile;
use crate::registers::each;

macro_rules! int3 {
    ($ty:expr, |$a:ident, $b:ident, $c:ident| $e:expr) => {
        match $ty {
            T::S16 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| {
                let ($a, $b, $c) = (a as i16, b as i16, c as i16);
                ($e) as u16 as u32
            })),
            T::U16 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| {
                let ($a, $b, $c) = (a as u16, b as u16, c as u16);
                ($e) as u16 as u32
            })),
            T::S32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| {
                let ($a, $b, $c) = (a as i32, b as i32, c as i32);
                ($e) as u32
            })),
            T::U32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| {
                let ($a, $b, $c) = (a as u32, b as u32, c as u32);
                ($e) as u32
            })),
            T::S64 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri64(f, op, m, |a, b, c| {
                let ($a, $b, $c) = (a as i64, b as i64, c as i64);
                ($e) as u64
            })),
            T::U64 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri64(f, op, m, |a, b, c| {
                let ($a, $b, $c) = (a as u64, b as u64, c as u64);
                ($e) as u64
            })),
            _ => None,
        }
    };
}

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    let ty = form.ty;
    let mods = &form.mods;
    match form.root {
        R::Add if mods.cc => carry(ty, false, false, true),
        R::Addc => carry(ty, false, true, mods.cc),
        R::Sub if mods.cc => carry(ty, true, false, true),
        R::Subc => carry(ty, true, true, mods.cc),
        R::Add if mods.sat => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| (a as i32)
            .saturating_add(b as i32)
            as u32)),
        R::Sub if mods.sat => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| (a as i32)
            .saturating_sub(b as i32)
            as u32)),
        R::Add if mods.third => int3!(ty, |a, b, c| a.wrapping_add(b).wrapping_add(c)),
        R::Add => int2!(ty, |a, b| a.wrapping_add(b)),
        R::Sub => int2!(ty, |a, b| a.wrapping_sub(b)),
        R::Mul => match mods.half {
            Some(Half::Lo) => int2!(ty, |a, b| a.wrapping_mul(b)),
            Some(Half::Hi) => mul_hi(ty),
            _ => mul_wide(ty, false),
        },
        R::Mad | R::Madc if mods.cc || form.root == R::Madc => {
            mad_carry(ty, mods.half == Some(Half::Hi), form.root == R::Madc, mods.cc)
        }
        R::Mad => match mods.half {
            Some(Half::Lo) => int3!(ty, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
            Some(Half::Hi) if mods.sat => {
                lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| {
                    (((i64::from(a as i32) * i64::from(b as i32)) >> 32) as i32).saturating_add(c as i32)
                        as u32
                }))
            }
            Some(Half::Hi) => mad_hi(ty),
            _ => mul_wide(ty, true),
        },
        R::Mul24 | R::Mad24 => mul24(form),
        // Division by zero gives all ones, as the hardware's sequence does; the remainder is a.
        R::Div => int2!(ty, |a, b| a.checked_div(b).unwrap_or(if b == 0 { !0 } else { a })),
        R::Rem => int2!(ty, |a, b| a.checked_rem(b).unwrap_or(if b == 0 { !0 } else { 0 })),
        R::Abs => match ty {
            T::S16 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| u32::from(
                (a as i16).wrapping_abs() as u16
            ))),
            T::S32 => {
                lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| (a as i32).wrapping_abs() as u32))
            }
            _ => {
                lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| (a as i64).wrapping_abs() as u64))
            }
        },
        R::Neg => int1!(ty, |a| a.wrapping_neg()),
        R::Min => int2!(ty, |a, b| a.min(b)),
        R::Max => int2!(ty, |a, b| a.max(b)),
        R::Sad => int3!(ty, |a, b, c| a.max(b).wrapping_sub(a.min(b)).wrapping_add(c)),
        R::Dp2a | R::Dp4a => dot(form),
        _ => None,
    }
}

/// add.cc, addc, sub.cc, subc. A subtraction is an addition of the complement and one, as in ptxas and
/// the hardware: its carry is set where it does not borrow, whichever instruction reads it.
fn carry(ty: T, subtract: bool, reads: bool, writes: bool) -> Option<Variants> {
    macro_rules! chain {
        ($sub:expr, $in:expr, $out:expr) => {
            match ty.bits() {
                32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| carry32(f, op, m, $sub, $in, $out)),
                _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| carry64(f, op, m, $sub, $in, $out)),
            }
        };
    }
    match (subtract, reads, writes) {
        (false, false, _) => chain!(false, false, true),
        (false, true, false) => chain!(false, true, false),
        (false, true, true) => chain!(false, true, true),
        (true, false, _) => chain!(true, false, true),
        (true, true, false) => chain!(true, true, false),
        (true, true, true) => chain!(true, true, true),
    }
}

#[inline(always)]
fn carry32(f: &mut LaneFile<'_>, op: &Op, m: u32, sub: bool, reads: bool, writes: bool) {
    let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
    let cin = if reads {
        f.pred(op.psrc[0])
    } else if sub {
        u32::MAX
    } else {
        0
    };
    let mut cout = 0;
    let out = each(|i| {
        let c = u64::from(cin >> i & 1);
        let wide = u64::from(a[i]) + u64::from(if sub { !b[i] } else { b[i] }) + c;
        cout |= ((wide >> 32) as u32) << i;
        wide as u32
    });
    f.w32(op.dst[0], m, out);
    if writes {
        f.wpred(op.pdst[0], m, cout);
    }
}

#[inline(always)]
fn carry64(f: &mut LaneFile<'_>, op: &Op, m: u32, sub: bool, reads: bool, writes: bool) {
    let (a, b) = (f.r64(op.src[0]), f.r64(op.src[1]));
    let cin = if reads {
        f.pred(op.psrc[0])
    } else if sub {
        u32::MAX
    } else {
        0
    };
    let mut cout = 0;
    let out = each(|i| {
        let c = u128::from(cin >> i & 1);
        let wide = u128::from(a[i]) + u128::from(if sub { !b[i] } else { b[i] }) + c;
        cout |= ((wide >> 64) as u32) << i;
        wide as u64
    });
    f.w64(op.dst[0], m, out);
    if writes {
        f.wpred(op.pdst[0], m, cout);
    }
}

fn mad_carry(ty: T, hi: bool, reads: bool, writes: bool) -> Option<Variants> {
    let signed = ty.is_signed();
    macro_rules! chain {
        ($hi:expr, $in:expr, $out:expr, $signed:expr) => {
            match ty.bits() {
                32 => {
                    lane!(|f: &mut LaneFile<'_>, op: &Op, m| mad_carry32(f, op, m, $hi, $in, $out, $signed))
                }
                _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| mad_carry64(f, op, m, $hi, $in, $out, $signed)),
            }
        };
    }
    match (hi, reads, writes) {
        (false, false, _) => chain!(false, false, true, false),
        (false, true, false) => chain!(false, true, false, false),
        (false, true, true) => chain!(false, true, true, false),
        (true, false, _) if signed => chain!(true, false, true, true),
        (true, false, _) => chain!(true, false, true, false),
        (true, true, false) if signed => chain!(true, true, false, true),
        (true, true, false) => chain!(true, true, false, false),
        (true, true, true) if signed => chain!(true, true, true, true),
        (true, true, true) => chain!(true, true, true, false),
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "constants of one form")]
fn mad_carry32(f: &mut LaneFile<'_>, op: &Op, m: u32, hi: bool, reads: bool, writes: bool, signed: bool) {
    let (a, b, c) = (f.r32(op.src[0]), f.r32(op.src[1]), f.r32(op.src[2]));
    let cin = if reads { f.pred(op.psrc[0]) } else { 0 };
    let mut cout = 0;
    let out = each(|i| {
        let product = if signed {
            (i64::from(a[i] as i32) * i64::from(b[i] as i32)) as u64
        } else {
            u64::from(a[i]) * u64::from(b[i])
        };
        let half = if hi { product >> 32 } else { product & 0xffff_ffff };
        let wide = half + u64::from(c[i]) + u64::from(cin >> i & 1);
        cout |= ((wide >> 32 & 1) as u32) << i;
        wide as u32
    });
    f.w32(op.dst[0], m, out);
    if writes {
        f.wpred(op.pdst[0], m, cout);
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "constants of one form")]
fn mad_carry64(f: &mut LaneFile<'_>, op: &Op, m: u32, hi: bool, reads: bool, writes: bool, signed: bool) {
    let (a, b, c) = (f.r64(op.src[0]), f.r64(op.src[1]), f.r64(op.src[2]));
    let cin = if reads { f.pred(op.psrc[0]) } else { 0 };
    let mut cout = 0;
    let out = each(|i| {
        let product = if signed {
            (i128::from(a[i] as i64) * i128::from(b[i] as i64)) as u128
        } else {
            u128::from(a[i]) * u128::from(b[i])
        };
        let half = if hi { product >> 64 } else { u128::from(product as u64) };
        let wide = half + u128::from(c[i]) + u128::from(cin >> i & 1);
        cout |= ((wide >> 64 & 1) as u32) << i;
        wide as u64
    });
    f.w64(op.dst[0], m, out);
    if writes {
        f.wpred(op.pdst[0], m, cout);
    }
}

fn mul_hi(ty: T) -> Option<Variants> {
    match ty {
        T::S16 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| u32::from(
            ((i32::from(a as i16) * i32::from(b as i16)) >> 16) as u16
        ))),
        T::U16 => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| ((a & 0xffff) * (b & 0xffff))
                >> 16))
        }
        T::S32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| ((i64::from(a as i32)
            * i64::from(b as i32))
            >> 32) as u32)),
        T::U32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| ((u64::from(a)
            * u64::from(b))
            >> 32) as u32)),
        T::S64 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| ((i128::from(a as i64)
            * i128::from(b as i64))
            >> 64) as u64)),
        _ => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin64(f, op, m, |a, b| ((u128::from(a) * u128::from(b))
                >> 64) as u64))
        }
    }
}

fn mad_hi(ty: T) -> Option<Variants> {
    match ty {
        T::S16 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| u32::from(
            (((i32::from(a as i16) * i32::from(b as i16)) >> 16) as u16).wrapping_add(c as u16)
        ))),
        T::U16 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| (((a & 0xffff)
            * (b & 0xffff))
            >> 16)
            .wrapping_add(c)
            & 0xffff)),
        T::S32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| (((i64::from(a as i32)
            * i64::from(b as i32))
            >> 32)
            as u32)
            .wrapping_add(c))),
        T::U32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| (((u64::from(a)
            * u64::from(b))
            >> 32)
            as u32)
            .wrapping_add(c))),
        T::S64 => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri64(f, op, m, |a, b, c| (((i128::from(a as i64)
                * i128::from(b as i64))
                >> 64)
                as u64)
                .wrapping_add(c)))
        }
        _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri64(f, op, m, |a, b, c| (((u128::from(a)
            * u128::from(b))
            >> 64) as u64)
            .wrapping_add(c))),
    }
}

/// `mul.wide` and `mad.wide`: the product has twice the width of the operands.
fn mul_wide(ty: T, add: bool) -> Option<Variants> {
    #[inline(always)]
    fn to32(f: &mut LaneFile<'_>, op: &Op, m: u32, add: bool, g: impl Fn(u32, u32) -> u32) {
        let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
        let c = if add { f.r32(op.src[2]) } else { [0; WARP_LANES] };
        f.w32(op.dst[0], m, each(|i| g(a[i], b[i]).wrapping_add(c[i])));
    }
    #[inline(always)]
    fn to64(f: &mut LaneFile<'_>, op: &Op, m: u32, add: bool, g: impl Fn(u32, u32) -> u64) {
        let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
        let c = if add { f.r64(op.src[2]) } else { [0; WARP_LANES] };
        f.w64(op.dst[0], m, each(|i| g(a[i], b[i]).wrapping_add(c[i])));
    }
    match (ty, add) {
        (T::S16, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| to32(f, op, m, false, |a, b| (i32::from(a as i16)
                * i32::from(b as i16))
                as u32))
        }
        (T::S16, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| to32(f, op, m, true, |a, b| (i32::from(a as i16)
                * i32::from(b as i16))
                as u32))
        }
        (T::U16, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| to32(f, op, m, false, |a, b| (a & 0xffff) * (b & 0xffff)))
        }
        (T::U16, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| to32(f, op, m, true, |a, b| (a & 0xffff) * (b & 0xffff)))
        }
        (T::S32, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| to64(f, op, m, false, |a, b| (i64::from(a as i32)
                * i64::from(b as i32))
                as u64))
        }
        (T::S32, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| to64(f, op, m, true, |a, b| (i64::from(a as i32)
                * i64::from(b as i32))
                as u64))
        }
        (T::U32, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| to64(f, op, m, false, |a, b| u64::from(a) * u64::from(b)))
        }
        (T::U32, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| to64(f, op, m, true, |a, b| u64::from(a) * u64::from(b)))
        }
        _ => None,
    }
}

/// 24-bit products: `.lo` the low 32 bits, `.hi` bits 16 to 47.
fn mul24(form: &Form) -> Option<Variants> {
    #[inline(always)]
    fn s(a: u32, b: u32) -> i64 {
        i64::from((a as i32) << 8 >> 8) * i64::from((b as i32) << 8 >> 8)
    }
    #[inline(always)]
    fn u(a: u32, b: u32) -> u64 {
        u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)
    }
    let hi = form.mods.half == Some(Half::Hi);
    match (form.root, form.ty.is_signed(), hi) {
        (R::Mul24, true, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| s(a, b) as u32))
        }
        (R::Mul24, true, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| (s(a, b) >> 16) as u32))
        }
        (R::Mul24, false, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| u(a, b) as u32))
        }
        (R::Mul24, false, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| (u(a, b) >> 16) as u32))
        }
        (_, true, false) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| (s(a, b)
            as u32)
            .wrapping_add(c))),
        (_, true, true) if form.mods.sat => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| ((s(a, b) >> 16) as i32)
                .saturating_add(c as i32)
                as u32))
        }
        (_, true, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| ((s(a, b) >> 16) as u32)
                .wrapping_add(c)))
        }
        (_, false, false) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| (u(a, b)
            as u32)
            .wrapping_add(c))),
        (_, false, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| ((u(a, b) >> 16) as u32)
                .wrapping_add(c)))
        }
    }
}

/// `dp4a`, `dp2a`: products of four bytes, or of two halves of a and two bytes of b, added to c.
fn dot(form: &Form) -> Option<Variants> {
    #[inline(always)]
    fn byte(value: u32, at: u32, signed: bool) -> i32 {
        let byte = (value >> (8 * at)) as u8;
        if signed { i32::from(byte as i8) } else { i32::from(byte) }
    }
    #[inline(always)]
    fn half(value: u32, at: u32, signed: bool) -> i32 {
        let half = (value >> (16 * at)) as u16;
        if signed { i32::from(half as i16) } else { i32::from(half) }
    }
    #[inline(always)]
    fn four(f: &mut LaneFile<'_>, op: &Op, m: u32, sa: bool, sb: bool) {
        tri32(f, op, m, |a, b, c| {
            (0..4).fold(c, |sum, i| sum.wrapping_add((byte(a, i, sa) * byte(b, i, sb)) as u32))
        });
    }
    #[inline(always)]
    fn two(f: &mut LaneFile<'_>, op: &Op, m: u32, first: u32, sa: bool, sb: bool) {
        tri32(f, op, m, |a, b, c| {
            (0..2).fold(c, |sum, i| sum.wrapping_add((half(a, i, sa) * byte(b, first + i, sb)) as u32))
        });
    }
    macro_rules! signs {
        ($run:ident $(, $first:expr)?) => {
            match (form.mods.a_type? == T::S32, form.ty == T::S32) {
                (false, false) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| $run(f, op, m $(, $first)?, false, false)),
                (false, true) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| $run(f, op, m $(, $first)?, false, true)),
                (true, false) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| $run(f, op, m $(, $first)?, true, false)),
                (true, true) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| $run(f, op, m $(, $first)?, true, true)),
            }
        };
    }
    match (form.root, form.mods.half) {
        (R::Dp4a, _) => signs!(four),
        (_, Some(Half::Hi)) => signs!(two, 2),
        _ => signs!(two, 0),
    }
}
