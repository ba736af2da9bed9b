//! `mov`: values, predicates, packing and unpacking of vectors.

use sim_frontend::form::Form;
use sim_frontend::program::Op;
use sim_memory::vocabulary::ScalarType as T;
use sim_memory::vocabulary::WARP_LANES;

use super::bodies::{Variants, lane, un32, un64};
use super::file::LaneFile;
use crate::registers::each;

pub(super) fn words(words: u32) -> Option<Variants> {
    match words {
        1 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| a)),
        2 => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| a)),
        _ => None,
    }
}

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    if form.ty == T::Pred {
        return lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let value = f.pred(op.psrc[0]);
            f.wpred(op.pdst[0], m, value);
        });
    }
    match (form.mods.vector, form.dst.bits(), form.ty.bits()) {
        (0 | 1, 64, _) => words(2),
        (0 | 1, ..) => words(1),
        // {a, b} = x
        (2, 32, 64) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r64(op.src[0]);
            f.w32(op.dst[0], m, a.map(|v| v as u32));
            f.w32(op.dst[1], m, a.map(|v| (v >> 32) as u32));
        }),
        (2, 16, 32) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            f.w32(op.dst[0], m, a.map(|v| v & 0xffff));
            f.w32(op.dst[1], m, a.map(|v| v >> 16));
        }),
        (2, 8, 16) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            f.w32(op.dst[0], m, a.map(|v| v & 0xff));
            f.w32(op.dst[1], m, a.map(|v| v >> 8 & 0xff));
        }),
        (4, 8, 32) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r32(op.src[0]);
            for k in 0..4 {
                f.w32(op.dst[k], m, a.map(|v| v >> (8 * k) & 0xff));
            }
        }),
        (4, 16, 64) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let a = f.r64(op.src[0]);
            for k in 0..4 {
                f.w32(op.dst[k], m, a.map(|v| (v >> (16 * k)) as u32 & 0xffff));
            }
        }),
        // x = {a, b}
        (2, 64, 32) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
            f.w64(op.dst[0], m, each(|i| u64::from(a[i]) | u64::from(b[i]) << 32));
        }),
        (2, 32, 16) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
            f.w32(op.dst[0], m, each(|i| a[i] & 0xffff | b[i] << 16));
        }),
        (2, 16, 8) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
            f.w32(op.dst[0], m, each(|i| a[i] & 0xff | (b[i] & 0xff) << 8));
        }),
        (4, 32, 8) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let mut out = [0u32; WARP_LANES];
            for k in 0..4 {
                let a = f.r32(op.src[k]);
                for i in 0..WARP_LANES {
                    out[i] |= (a[i] & 0xff) << (8 * k);
                }
            }
            f.w32(op.dst[0], m, out);
        }),
        (4, 64, 16) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let mut out = [0u64; WARP_LANES];
            for k in 0..4 {
                let a = f.r32(op.src[k]);
                for i in 0..WARP_LANES {
                    out[i] |= u64::from(a[i] & 0xffff) << (16 * k);
                }
            }
            f.w64(op.dst[0], m, out);
        }),
        _ => None,
    }
}
