//! Logic, shifts, bit fields and permutations (PTX ISA "Logic and Shift Instructions", "Integer
//! Arithmetic Instructions"). 16-bit values live zero-extended in 32-bit rows.

use sim_frontend::form::{BoolOp, Form, PrmtMode};
use sim_frontend::isa::Root as R;
use sim_frontend::program::Op;
use sim_memory::vocabulary::ScalarType as T;
use sim_memory::vocabulary::WARP_LANES;

use super::bodies::{Variants, bin32, int1, int2, lane, tri32, un32, un64};
use super::file::LaneFile;
use crate::registers::each;

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    let ty = form.ty;
    let mods = &form.mods;
    match form.root {
        R::And | R::Or | R::Xor | R::Not if ty == T::Pred => predicate(form.root),
        R::And => int2!(ty, |a, b| a & b),
        R::Or => int2!(ty, |a, b| a | b),
        R::Xor => int2!(ty, |a, b| a ^ b),
        R::Not => int1!(ty, |a| !a),
        R::Cnot => int1!(ty, |a| u8::from(a == 0)),
        R::Shl | R::Shr => shift(form),
        R::Popc if ty == T::B64 => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| long_to_word(f, op, m, u64::count_ones))
        }
        R::Popc => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, u32::count_ones)),
        R::Clz if ty == T::B64 => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| long_to_word(f, op, m, u64::leading_zeros))
        }
        R::Clz => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, u32::leading_zeros)),
        R::Brev => match ty {
            T::B64 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, u64::reverse_bits)),
            _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, u32::reverse_bits)),
        },
        R::Bfind => bfind(ty, mods.shiftamt),
        R::Bfe => bfe(ty),
        R::Bfi => bfi(ty),
        R::Shf => {
            macro_rules! by {
                (|$c:ident| $by:expr, $left:expr) => {
                    lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, $c| funnel(
                        a, b, $by, $left
                    )))
                };
            }
            match (mods.left, mods.wrap) {
                (true, true) => by!(|c| c & 31, true),
                (true, false) => by!(|c| c.min(32), true),
                (false, true) => by!(|c| c & 31, false),
                (false, false) => by!(|c| c.min(32), false),
            }
        }
        R::Lop3 if mods.bool_op.is_some() => lop3_with_predicate(mods.bool_op),
        R::Lop3 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let table = f.r32(op.src[3]);
            let (a, b, c) = (f.r32(op.src[0]), f.r32(op.src[1]), f.r32(op.src[2]));
            f.w32(op.dst[0], m, each(|i| lop3(a[i], b[i], c[i], table[i])));
        }),
        R::Prmt => prmt(mods.prmt),
        R::Fns => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, find_nth_set)),
        R::Szext => {
            macro_rules! to {
                ($signed:expr, $wrap:expr) => {
                    lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
                        bin32(f, op, m, |a, b| size_extend(a, b, $signed, $wrap));
                    })
                };
            }
            match (ty.is_signed(), mods.wrap) {
                (false, false) => to!(false, false),
                (false, true) => to!(false, true),
                (true, false) => to!(true, false),
                (true, true) => to!(true, true),
            }
        }
        R::Bmsk if mods.wrap => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| bit_mask(a & 31, b & 31)))
        }
        R::Bmsk => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, bit_mask)),
        _ => None,
    }
}

fn predicate(root: R) -> Option<Variants> {
    match root {
        R::And => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let v = f.pred(op.psrc[0]) & f.pred(op.psrc[1]);
            f.wpred(op.pdst[0], m, v)
        }),
        R::Or => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let v = f.pred(op.psrc[0]) | f.pred(op.psrc[1]);
            f.wpred(op.pdst[0], m, v)
        }),
        R::Xor => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let v = f.pred(op.psrc[0]) ^ f.pred(op.psrc[1]);
            f.wpred(op.pdst[0], m, v)
        }),
        _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let v = !f.pred(op.psrc[0]);
            f.wpred(op.pdst[0], m, v)
        }),
    }
}

/// Shifts by more than the width give zero, or the sign (PTX ISA "shl", "shr").
fn shift(form: &Form) -> Option<Variants> {
    #[inline(always)]
    fn by64(f: &mut LaneFile<'_>, op: &Op, m: u32, g: impl Fn(u64, u32) -> u64) {
        let (a, b) = (f.r64(op.src[0]), f.r32(op.src[1]));
        f.w64(op.dst[0], m, each(|i| g(a[i], b[i])));
    }
    let left = form.root == R::Shl;
    match (form.ty, left) {
        (T::B16 | T::U16, true) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| {
            if b < 16 { a << b & 0xffff } else { 0 }
        })),
        (T::B32 | T::U32 | T::S32, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| if b < 32 { a << b } else { 0 }))
        }
        (_, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| by64(f, op, m, |a, b| if b < 64 { a << b } else { 0 }))
        }
        (T::B16 | T::U16, false) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| {
            if b < 16 { (a & 0xffff) >> b } else { 0 }
        })),
        (T::S16, false) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| u32::from(
            (a as i16 >> b.min(15)) as u16
        ))),
        (T::B32 | T::U32, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| if b < 32 { a >> b } else { 0 }))
        }
        (T::S32, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| bin32(f, op, m, |a, b| (a as i32 >> b.min(31)) as u32))
        }
        (T::S64, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| by64(f, op, m, |a, b| (a as i64 >> b.min(63)) as u64))
        }
        (_, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| by64(f, op, m, |a, b| if b < 64 { a >> b } else { 0 }))
        }
    }
}

#[inline(always)]
fn long_to_word(f: &mut LaneFile<'_>, op: &Op, m: u32, g: impl Fn(u64) -> u32) {
    let a = f.r64(op.src[0]);
    f.w32(op.dst[0], m, each(|i| g(a[i])));
}

fn bfind(ty: T, shiftamt: bool) -> Option<Variants> {
    #[inline(always)]
    fn find(value: u64, width: u32, signed: bool, shiftamt: bool) -> u32 {
        let value =
            if signed && value >> (width - 1) & 1 == 1 { !value & (u64::MAX >> (64 - width)) } else { value };
        if value == 0 {
            return u32::MAX;
        }
        let position = 63 - value.leading_zeros();
        if shiftamt { width - 1 - position } else { position }
    }
    match (ty, shiftamt) {
        (T::U32, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| find(a.into(), 32, false, false)))
        }
        (T::U32, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| find(a.into(), 32, false, true)))
        }
        (T::S32, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| find(a.into(), 32, true, false)))
        }
        (T::S32, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| find(a.into(), 32, true, true)))
        }
        (T::U64, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| long_to_word(f, op, m, |a| find(a, 64, false, false)))
        }
        (T::U64, true) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| long_to_word(f, op, m, |a| find(a, 64, false, true)))
        }
        (T::S64, false) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| long_to_word(f, op, m, |a| find(a, 64, true, false)))
        }
        _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| long_to_word(f, op, m, |a| find(a, 64, true, true))),
    }
}

/// Extracts a field: position and length are taken modulo 256; beyond the value the sign fills
/// (PTX ISA "bfe").
pub(crate) fn extract(a: u64, position: u32, length: u32, width: u32, signed: bool) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let msb = width - 1;
    let sign = signed && length != 0 && a >> (position + length - 1).min(msb) & 1 == 1;
    let field = if position > msb { 0 } else { a >> position };
    let kept = length.min(width.saturating_sub(position.min(width)));
    let mask = if kept >= 64 { u64::MAX } else { (1u64 << kept) - 1 };
    let out = if sign { field & mask | !mask } else { field & mask };
    out & (u64::MAX >> (64 - width))
}

fn bfe(ty: T) -> Option<Variants> {
    #[inline(always)]
    fn long(f: &mut LaneFile<'_>, op: &Op, m: u32, signed: bool) {
        let (a, b, c) = (f.r64(op.src[0]), f.r32(op.src[1]), f.r32(op.src[2]));
        f.w64(op.dst[0], m, each(|i| extract(a[i], b[i], c[i], 64, signed)));
    }
    match ty {
        T::U32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| extract(
            a.into(),
            b,
            c,
            32,
            false
        ) as u32)),
        T::S32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| extract(
            a.into(),
            b,
            c,
            32,
            true
        ) as u32)),
        T::U64 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| long(f, op, m, false)),
        _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| long(f, op, m, true)),
    }
}

/// Inserts the low bits of `a` into `b` (PTX ISA "bfi").
pub(crate) fn insert(a: u64, b: u64, position: u32, length: u32, width: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if position >= width {
        return b;
    }
    let length = length.min(width - position);
    let mask = if length >= 64 { u64::MAX } else { (1u64 << length) - 1 };
    b & !(mask << position) | (a & mask) << position
}

fn bfi(ty: T) -> Option<Variants> {
    match ty {
        T::B32 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
            let (c, d) = (f.r32(op.src[2]), f.r32(op.src[3]));
            f.w32(op.dst[0], m, each(|i| insert(a[i].into(), b[i].into(), c[i], d[i], 32) as u32));
        }),
        _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (a, b) = (f.r64(op.src[0]), f.r64(op.src[1]));
            let (c, d) = (f.r32(op.src[2]), f.r32(op.src[3]));
            f.w64(op.dst[0], m, each(|i| insert(a[i], b[i], c[i], d[i], 64)));
        }),
    }
}

#[inline(always)]
fn funnel(a: u32, b: u32, by: u32, left: bool) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    if left { (both << by >> 32) as u32 } else { (both >> by) as u32 }
}

/// Bit by bit, the table says what three bits give.
fn lop3(a: u32, b: u32, c: u32, table: u32) -> u32 {
    (0..8)
        .filter(|k| table >> k & 1 == 1)
        .map(|k| {
            let pick = |value: u32, bit: u32| if k >> bit & 1 == 1 { value } else { !value };
            pick(a, 2) & pick(b, 1) & pick(c, 0)
        })
        .fold(0, |out, term| out | term)
}

/// Byte permutation; the special modes choose four bytes by the low two bits of `c`.
pub(crate) fn permute(a: u32, b: u32, c: u32, mode: Option<PrmtMode>) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let k = (c & 3) as usize;
    let select: [usize; 4] = match mode {
        None => {
            return (0..4).fold(0, |out, i| {
                let selector = c >> (4 * i);
                let byte = bytes[(selector & 7) as usize];
                let byte = if selector & 8 != 0 { ((byte as i8) >> 7) as u8 } else { byte };
                out | u32::from(byte) << (8 * i)
            });
        }
        Some(PrmtMode::F4e) => each(|i| (k + i) & 7),
        Some(PrmtMode::B4e) => each(|i| (k + 8 - i) & 7),
        Some(PrmtMode::Rc8) => [k; 4],
        Some(PrmtMode::Ecl) => each(|i| i.max(k)),
        Some(PrmtMode::Ecr) => each(|i| i.min(k)),
        Some(PrmtMode::Rc16) => each(|i| (k & 1) * 2 + (i & 1)),
    };
    u32::from_le_bytes(select.map(|i| bytes[i]))
}

fn prmt(mode: Option<PrmtMode>) -> Option<Variants> {
    macro_rules! by {
        ($mode:expr) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| tri32(f, op, m, |a, b, c| permute(a, b, c, $mode)))
        };
    }
    match mode {
        None => by!(None),
        Some(PrmtMode::F4e) => by!(Some(PrmtMode::F4e)),
        Some(PrmtMode::B4e) => by!(Some(PrmtMode::B4e)),
        Some(PrmtMode::Rc8) => by!(Some(PrmtMode::Rc8)),
        Some(PrmtMode::Ecl) => by!(Some(PrmtMode::Ecl)),
        Some(PrmtMode::Ecr) => by!(Some(PrmtMode::Ecr)),
        Some(PrmtMode::Rc16) => by!(Some(PrmtMode::Rc16)),
    }
}

/// `lop3.and`, `lop3.or`: a predicate says whether the result has a bit set, combined with c.
fn lop3_with_predicate(bool_op: Option<BoolOp>) -> Option<Variants> {
    #[inline(always)]
    fn run(f: &mut LaneFile<'_>, op: &Op, m: u32, and: bool) {
        let table = f.r32(op.src[3]);
        let (a, b, c) = (f.r32(op.src[0]), f.r32(op.src[1]), f.r32(op.src[2]));
        let out: [u32; WARP_LANES] = each(|i| lop3(a[i], b[i], c[i], table[i]));
        let any = (0..WARP_LANES).fold(0, |bits, i| bits | u32::from(out[i] != 0) << i);
        let p = f.pred(op.psrc[0]);
        f.w32(op.dst[0], m, out);
        f.wpred(op.pdst[0], m, if and { any & p } else { any | p });
    }
    match bool_op {
        Some(BoolOp::And) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| run(f, op, m, true)),
        _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| run(f, op, m, false)),
    }
}

/// `fns`: the position of the `|offset|`-th set bit of `mask` from `base` on, upwards or
/// downwards; with offset 0, `base` itself if its bit is set.
fn find_nth_set(mask: u32, base: u32, offset: u32) -> u32 {
    let offset = offset as i32;
    // The distance that has no magnitude: an H100 gives 0, whatever the mask.
    if offset == i32::MIN {
        return 0;
    }
    if base >= 32 {
        return u32::MAX;
    }
    if offset == 0 {
        return if mask >> base & 1 == 1 { base } else { u32::MAX };
    }
    let mut left = if offset > 0 { mask >> base << base } else { mask << (31 - base) >> (31 - base) };
    for _ in 1..offset.unsigned_abs().min(33) {
        left = if offset > 0 {
            left & left.wrapping_sub(1)
        } else {
            // Without its highest bit.
            left.checked_ilog2().map_or(0, |top| left ^ 1 << top)
        };
    }
    match (left, offset > 0) {
        (0, _) => u32::MAX,
        (_, true) => left.trailing_zeros(),
        (_, false) => 31 - left.leading_zeros(),
    }
}

/// `szext`: the low `b` bits of `a`, the rest its sign or zero; a width of 32 or more keeps all
/// bits where it is clamped.
#[inline(always)]
fn size_extend(a: u32, b: u32, signed: bool, wrap: bool) -> u32 {
    if b >= 32 && !wrap {
        return a;
    }
    let width = b & 31;
    let low = a & !(u32::MAX << width);
    let negative = signed && width != 0 && a >> (width.wrapping_sub(1) & 31) & 1 == 1;
    if negative { low | u32::MAX << width } else { low }
}

/// `bmsk`: `width` ones from bit `position` on, as far as they fit.
#[inline(always)]
fn bit_mask(position: u32, width: u32) -> u32 {
    if position >= 32 {
        return 0;
    }
    let ones = if width >= 32 { u32::MAX } else { !(u32::MAX << width) };
    ones << position
}
