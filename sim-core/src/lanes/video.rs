//! Scalar and SIMD video instructions (PTX ISA "Video Instructions"): operations on bytes, halves
//! and words of registers, with saturation, a secondary operation, and merging.

use sim_frontend::form::{CmpOp, Form, VideoSecondary};
use sim_frontend::isa::Root as R;
use sim_frontend::program::Op;
use sim_memory::vocabulary::ScalarType as T;
use sim_memory::vocabulary::WARP_LANES;

use super::bodies::{Variants, lane};
use super::file::LaneFile;
use crate::registers::each;

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    match form.root {
        R::Vmad => lane!(|f: &mut LaneFile<'_>, op: &Op, m| run(f, op, m, multiply_add)),
        root if root < R::Vadd2 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| run(f, op, m, scalar)),
        _ => lane!(|f: &mut LaneFile<'_>, op: &Op, m| run(f, op, m, simd)),
    }
}

/// What is computed of two parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Primary {
    Add,
    Sub,
    Average,
    AbsoluteDifference,
    Min,
    Max,
    Shl,
    Shr,
    Set,
    Mad,
}

const PRIMARIES: [Primary; 10] = [
    Primary::Add,
    Primary::Sub,
    Primary::Average,
    Primary::AbsoluteDifference,
    Primary::Min,
    Primary::Max,
    Primary::Shl,
    Primary::Shr,
    Primary::Set,
    Primary::Mad,
];
const COMPARISONS: [CmpOp; 6] = [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge];
const SECONDARIES: [Option<VideoSecondary>; 4] =
    [None, Some(VideoSecondary::Add), Some(VideoSecondary::Min), Some(VideoSecondary::Max)];

/// What an operation of this file depends on.
#[derive(Clone, Copy)]
struct Video {
    primary: Primary,
    /// Results: 1, 2 or 4.
    lanes: u32,
    /// Signs of the result, a and b.
    signed: [bool; 3],
    sat: bool,
    secondary: Option<VideoSecondary>,
    wrap: bool,
    scale: u32,
    plus_one: bool,
    negate: [bool; 3],
    cmp: CmpOp,
    /// Destination, a and b; three bits a part.
    select: [u32; 3],
}

fn primary(root: R) -> Primary {
    match root {
        R::Vadd | R::Vadd2 | R::Vadd4 => Primary::Add,
        R::Vsub | R::Vsub2 | R::Vsub4 => Primary::Sub,
        R::Vavrg2 | R::Vavrg4 => Primary::Average,
        R::Vabsdiff | R::Vabsdiff2 | R::Vabsdiff4 => Primary::AbsoluteDifference,
        R::Vmin | R::Vmin2 | R::Vmin4 => Primary::Min,
        R::Vmax | R::Vmax2 | R::Vmax4 => Primary::Max,
        R::Vshl => Primary::Shl,
        R::Vshr => Primary::Shr,
        R::Vmad => Primary::Mad,
        _ => Primary::Set,
    }
}

/// A form as the immediate of its operation.
pub(super) fn encode(form: &Form) -> i64 {
    let index = |found: Option<usize>| found.unwrap_or(0) as i64;
    let (m, video) = (&form.mods, &form.mods.video);
    let lanes = match form.root {
        root if root >= R::Vadd4 => 2,
        root if root >= R::Vadd2 => 1,
        _ => 0,
    };
    // Nibbles of the form become three bits.
    let source = |select: u16| (0..4).fold(0, |bits, i| bits | i64::from(select >> (4 * i) & 7) << (3 * i));
    let types = [form.dst, m.a_type.unwrap_or(form.ty), form.ty];
    let signs = (0..3).fold(0, |bits, i| bits | i64::from(types[i] == T::S32) << i);
    let negate = (0..3).fold(0, |bits, i| bits | i64::from(video.negate[i]) << i);
    index(PRIMARIES.iter().position(|p| *p == primary(form.root)))
        | lanes << 4
        | signs << 6
        | i64::from(m.sat) << 9
        | index(SECONDARIES.iter().position(|s| *s == video.secondary)) << 10
        | i64::from(m.wrap) << 12
        | i64::from(video.scale) << 13
        | i64::from(video.plus_one) << 17
        | negate << 18
        | index(COMPARISONS.iter().position(|c| Some(*c) == m.cmp)) << 21
        | i64::from(video.select[0] & 15) << 24
        | source(video.select[1]) << 28
        | source(video.select[2]) << 40
}

fn decode(imm: i64) -> Video {
    let bits = |from: u32, count: u32| (imm >> from) as u32 & ((1 << count) - 1);
    let flags = |from: u32| each::<bool, 3>(|i| imm >> (from + i as u32) & 1 == 1);
    Video {
        primary: PRIMARIES[(bits(0, 4) as usize).min(PRIMARIES.len() - 1)],
        lanes: 1 << bits(4, 2),
        signed: flags(6),
        sat: bits(9, 1) == 1,
        secondary: SECONDARIES[bits(10, 2) as usize],
        wrap: bits(12, 1) == 1,
        scale: bits(13, 4),
        plus_one: bits(17, 1) == 1,
        negate: flags(18),
        cmp: COMPARISONS[(bits(21, 3) as usize).min(COMPARISONS.len() - 1)],
        select: [bits(24, 4), bits(28, 12), bits(40, 12)],
    }
}

#[inline(always)]
fn run(f: &mut LaneFile<'_>, op: &Op, m: u32, g: fn(&Video, u32, u32, u32) -> u32) {
    let video = decode(op.imm);
    let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
    let c = if op.src[2].is_some() { f.r32(op.src[2]) } else { [0; WARP_LANES] };
    f.w32(op.dst[0], m, each(|i| g(&video, a[i], b[i], c[i])));
}

/// The low bits of a value with their sign, or zeros.
fn extend(value: u32, bits: u32, signed: bool) -> i64 {
    let value = u64::from(value) << (64 - bits);
    if signed { value as i64 >> (64 - bits) } else { (value >> (64 - bits)) as i64 }
}

fn clamp(value: i128, bits: u32, signed: bool) -> i128 {
    if signed {
        value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        value.clamp(0, (1 << bits) - 1)
    }
}

/// partSelectSignExtend: the word, a byte or a half of a source.
fn part(value: u32, select: u32, signed: bool) -> i64 {
    match select & 7 {
        0 => extend(value, 32, signed),
        byte @ 1..=4 => extend(value >> (8 * (byte - 1)), 8, signed),
        half => extend(value >> (16 * (half - 5)), 16, signed),
    }
}

fn holds(cmp: CmpOp, a: i128, b: i128) -> bool {
    match cmp {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::Lt => a < b,
        CmpOp::Le => a <= b,
        CmpOp::Gt => a > b,
        _ => a >= b,
    }
}

fn compute(v: &Video, a: i64, b: i64) -> i128 {
    let (a, b) = (i128::from(a), i128::from(b));
    match v.primary {
        Primary::Add | Primary::Mad => a + b,
        Primary::Sub => a - b,
        // Halves round away from zero.
        Primary::Average => (a + b + i128::from(a + b >= 0)) >> 1,
        Primary::AbsoluteDifference => (a - b).abs(),
        Primary::Min => a.min(b),
        Primary::Max => a.max(b),
        Primary::Shl | Primary::Shr => {
            let by = if v.wrap { b & 31 } else { b.min(32) };
            if v.primary == Primary::Shl { a << by } else { a >> by }
        }
        Primary::Set => i128::from(holds(v.cmp, a, b)),
    }
}

/// optSaturate, optSecondaryOp, optMerge.
fn scalar(v: &Video, a: u32, b: u32, c: u32) -> u32 {
    let (a, b) = (part(a, v.select[1], v.signed[1]), part(b, v.select[2], v.signed[2]));
    let mut value = compute(v, a, b);
    if v.sat {
        let bits = match v.select[0] {
            0 => 32,
            1..=4 => 8,
            _ => 16,
        };
        value = clamp(value, bits, v.signed[0]);
    }
    let third = i128::from(extend(c, 32, v.signed[0]));
    let value = match v.secondary {
        None => value,
        Some(VideoSecondary::Add) => value + third,
        Some(VideoSecondary::Min) => value.min(third),
        Some(VideoSecondary::Max) => value.max(third),
    } as u32;
    let merge = |at: u32, mask: u32| (value & mask) << at | c & !(mask << at);
    match v.select[0] {
        0 => value,
        byte @ 1..=4 => merge(8 * (byte - 1), 0xff),
        half => merge(16 * (half - 5), 0xffff),
    }
}

/// `vmad`: the intermediate result has 64 bits and more.
fn multiply_add(v: &Video, a: u32, b: u32, c: u32) -> u32 {
    let (x, y) = (part(a, v.select[1], v.signed[1]), part(b, v.select[2], v.signed[2]));
    let product_negated = v.negate[0] != v.negate[1];
    let signed = v.signed[1] || v.signed[2] || product_negated || v.negate[2];
    let mut product = i128::from(x) * i128::from(y);
    let mut c = c;
    let mut low_bit = 0;
    if v.plus_one {
        low_bit = 1;
    } else if product_negated {
        product = !product;
        low_bit = 1;
    } else if v.negate[2] {
        c = !c;
        low_bit = 1;
    }
    let value = (product + i128::from(extend(c, 32, signed)) + low_bit) >> v.scale;
    if !v.sat {
        return value as u32;
    }
    if signed {
        value.clamp(i32::MIN.into(), i32::MAX.into()) as u32
    } else {
        value.clamp(0, u32::MAX.into()) as u32
    }
}

/// Two halves or four bytes at once: results outside the mask come from c, or all are added to it.
fn simd(v: &Video, a: u32, b: u32, c: u32) -> u32 {
    let bits = 32 / v.lanes;
    let both = u64::from(b) << 32 | u64::from(a);
    let select = |list: u32, lane: u32, signed: bool| {
        let which = list >> (3 * lane) & 7;
        extend((both >> (bits * which)) as u32, bits, signed)
    };
    let mut sum = c;
    let mut merged = 0;
    for lane in 0..v.lanes {
        let (x, y) = (select(v.select[1], lane, v.signed[1]), select(v.select[2], lane, v.signed[2]));
        let mut value = compute(v, x, y);
        if v.sat {
            value = clamp(value, bits, v.signed[0]);
        }
        let taken = v.select[0] >> lane & 1 == 1;
        let kept = i128::from(c >> (bits * lane));
        let low = (if taken { value } else { kept }) as u32 & (u32::MAX >> (32 - bits));
        merged |= low << (bits * lane);
        if taken {
            sum = sum.wrapping_add(value as u32);
        }
    }
    if v.secondary.is_some() { sum } else { merged }
}
