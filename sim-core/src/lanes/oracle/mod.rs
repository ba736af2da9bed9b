//! What each data form must compute, one lane at a time, slowly and literally: integers in `i128`,
//! floating point in exact rationals rounded once, approximations in the host's double precision
//! with the manual's bounds. Nothing here is shared with the lane functions.

mod bits;
mod convert;
mod exhaustive;
mod float;
mod formats;
mod integer;
mod number;
mod programs;
mod tests;
mod video;

use sim_frontend::form::{BoolOp, CmpOp, Form};
use sim_frontend::isa::{Root as R, is_video};
use sim_memory::vocabulary::ScalarType as T;

pub use number::Format;

/// What one lane reads: row operands as 64 bits, predicates.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// Sources.
    pub src: [u64; 5],
    /// Predicate sources.
    pub psrc: [bool; 2],
}

/// What one lane must write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// These bits of the destination.
    Bits(u64),
    /// These bits and this predicate.
    BitsAndPredicate(u64, bool),
    /// One or two predicates.
    Predicates(bool, Option<bool>),
    /// A value near enough to the exact one.
    Near(Bound),
    /// Two of them, the low part first.
    NearPair(Bound, Bound),
}

/// A value and how far a result may lie from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The exact value, or nearly.
    pub value: f64,
    /// Greatest relative error.
    pub relative: f64,
    /// Greatest absolute error; the larger of the two is allowed.
    pub absolute: f64,
    /// Of the result.
    pub format: Format,
}

/// The result of a form; `None` where no rule of this file covers it.
pub fn expected(form: &Form, x: &Inputs) -> Option<Expected> {
    match form.root {
        R::Mov if form.ty == T::Pred => Some(Expected::Predicates(x.psrc[0], None)),
        R::Mov => Some(Expected::Bits(x.src[0] & width_mask(form.ty))),
        R::Createpolicy => Some(Expected::Bits(policy(form, x))),
        R::Pmevent | R::Griddepcontrol => Some(Expected::Bits(0)),
        R::Cvt => formats::expected(form, x).map(Expected::Bits).or_else(|| convert::expected(form, x)),
        root if is_video(root) => Some(Expected::Bits(video::expected(form, x)?.into())),
        R::Setp | R::Set => compare(form, x),
        R::Selp => Some(Expected::Bits(x.src[if x.psrc[0] { 0 } else { 1 }] & width_mask(form.ty))),
        R::Slct => {
            let c = x.src[2] as u32;
            let first = if form.ty == T::F32 {
                // Zeros of both signs are at least zero; so is a flushed subnormal.
                let value = f32::from_bits(c);
                let zero = form.mods.ftz && value.is_subnormal();
                zero || value >= 0.0
            } else {
                c >> 31 == 0
            };
            Some(Expected::Bits(x.src[if first { 0 } else { 1 }] & width_mask(form.dst)))
        }
        _ => bits::expected(form, x)
            .or_else(|| integer::expected(form, x))
            .or_else(|| float::expected(form, x)),
    }
}

/// `createpolicy`, digit by digit.
fn policy(form: &Form, x: &Inputs) -> u64 {
    use sim_frontend::form::PolicyStep;
    use sim_memory::priority::Priority;
    let primary = match form.mods.l2_priority {
        Some(Priority::Normal) => 0,
        Some(Priority::First) => 2,
        Some(Priority::Last) => 4,
        _ => 6,
    };
    let others_first = form.mods.other_priority == Some(Priority::First);
    match form.mods.policy {
        Some(PolicyStep::Fractional) => {
            let share = f64::from(f32::from_bits(x.src[0] as u32));
            let digit =
                (0..15).find(|digit| share.is_nan() || share <= f64::from(digit + 1) / 16.0).unwrap_or(15);
            (0x10 + primary) << 56 | (digit as u64) << 52 | if others_first { 8 << 48 } else { 0 }
        }
        Some(PolicyStep::Range) => {
            // Both sizes: the least of the form s * 2^e with s below 16 that is large enough.
            let code = |bytes: u64| {
                let fits = |e: &u64| bytes.div_ceil(1 << e) < 16;
                let e = (0..32).find(fits).unwrap_or(31);
                bytes.div_ceil(1 << e) * 32 + e
            };
            let (first, all) = (x.src[1] & 0xffff_ffff, x.src[2] & 0xffff_ffff);
            let page = x.src[0] / 4096 % (1 << 36);
            (0x20 + primary + u64::from(others_first)) << 56 | code(all) << 45 | code(first) << 36 | page
        }
        _ => x.src[0],
    }
}

/// Ones where a type has bits.
pub fn width_mask(ty: T) -> u64 {
    if ty.bits() >= 64 { u64::MAX } else { (1 << ty.bits()) - 1 }
}

/// A source as the integer it stands for.
pub fn integer_value(bits: u64, ty: T) -> i128 {
    let value = i128::from(bits & width_mask(ty));
    if ty.is_signed() && value >> (ty.bits() - 1) & 1 == 1 { value - (1 << ty.bits()) } else { value }
}

fn combine(outcome: bool, bool_op: Option<BoolOp>, p: bool) -> bool {
    match bool_op {
        None => outcome,
        Some(BoolOp::And) => outcome && p,
        Some(BoolOp::Or) => outcome || p,
        Some(BoolOp::Xor) => outcome != p,
    }
}

/// One comparison, by the order of the values; `None` as order means that one is a NaN.
fn holds(cmp: CmpOp, order: Option<std::cmp::Ordering>) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let Some(order) = order else {
        return matches!(
            cmp,
            CmpOp::Equ | CmpOp::Neu | CmpOp::Ltu | CmpOp::Leu | CmpOp::Gtu | CmpOp::Geu | CmpOp::Nan
        );
    };
    match cmp {
        CmpOp::Eq | CmpOp::Equ => order == Equal,
        CmpOp::Ne | CmpOp::Neu => order != Equal,
        CmpOp::Lt | CmpOp::Lo | CmpOp::Ltu => order == Less,
        CmpOp::Le | CmpOp::Ls | CmpOp::Leu => order != Greater,
        CmpOp::Gt | CmpOp::Hi | CmpOp::Gtu => order == Greater,
        CmpOp::Ge | CmpOp::Hs | CmpOp::Geu => order != Less,
        CmpOp::Num => true,
        CmpOp::Nan => false,
    }
}

/// `setp` and `set`.
fn compare(form: &Form, x: &Inputs) -> Option<Expected> {
    let cmp = form.mods.cmp?;
    let outcome = |at: u32| {
        let part = |bits: u64| bits >> at;
        let order = match number::Format::of(form.ty) {
            Some(format) => {
                let value = |bits: u64| format.value(part(bits), form.mods.ftz);
                value(x.src[0]).compare(&value(x.src[1]))
            }
            None => Some(integer_value(x.src[0], form.ty).cmp(&integer_value(x.src[1], form.ty))),
        };
        holds(cmp, order)
    };
    let pair = matches!(form.ty, T::F16x2 | T::Bf16x2);
    let first = combine(outcome(0), form.mods.bool_op, x.psrc[0]);
    let other = if pair { outcome(16) } else { !outcome(0) };
    let second = combine(other, form.mods.bool_op, x.psrc[0]);
    if form.root == R::Setp {
        let has_second = !matches!(form.ty, T::F16 | T::Bf16);
        return Some(Expected::Predicates(first, has_second.then_some(second)));
    }
    let yes: u64 = match form.dst {
        T::F32 => 0x3f80_0000,
        T::F16 | T::F16x2 => 0x3c00,
        T::Bf16 | T::Bf16x2 => 0x3f80,
        T::U16 | T::S16 => 0xffff,
        // One of two halves.
        _ if pair => 0xffff,
        _ => 0xffff_ffff,
    };
    let low = if first { yes } else { 0 };
    let high = if pair && second { yes << 16 } else { 0 };
    Some(Expected::Bits(high | low))
}
