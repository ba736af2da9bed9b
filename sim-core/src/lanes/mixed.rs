//! Single-precision arithmetic whose factors, or whose first summand, are halves (PTX ISA "Mixed Precision
//! Floating-Point Instructions"): a half is a value of single precision, so that there is one rounding.

use sim_frontend::form::{Form, Rounding};
use sim_frontend::isa::Root as R;
use sim_frontend::program::Op;
use sim_memory::soft_float::{BF16, F16, F32, Format, Round};
use sim_memory::vocabulary::ScalarType as T;
use sim_memory::vocabulary::WARP_LANES;

use super::bodies::{Variants, lane};
use super::file::LaneFile;
use super::float::output;
use crate::registers::each;

/// Forms of this file.
pub(super) fn handles(form: &Form) -> bool {
    let arithmetic = matches!(form.root, R::Add | R::Sub | R::Fma);
    arithmetic && form.dst == T::F32 && matches!(form.ty, T::F16 | T::Bf16)
}

pub(super) fn resolve(_: &Form) -> Option<Variants> {
    lane!(|f: &mut LaneFile<'_>, op: &Op, m| run(f, op, m))
}

/// A form as the immediate of its operation.
pub(super) fn encode(form: &Form) -> i64 {
    let round = match form.mods.rounding {
        Some(Rounding::Rz) => 1,
        Some(Rounding::Rm) => 2,
        Some(Rounding::Rp) => 3,
        _ => 0,
    };
    let root = match form.root {
        R::Add => 0,
        R::Sub => 1,
        _ => 2,
    };
    root | round << 2 | i64::from(form.ty == T::Bf16) << 4 | i64::from(form.mods.sat) << 5
}

fn run(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let format: Format = if op.imm >> 4 & 1 == 1 { BF16 } else { F16 };
    let round = [Round::Nearest, Round::Zero, Round::Down, Round::Up][(op.imm >> 2 & 3) as usize];
    let (root, sat) = (op.imm & 3, op.imm >> 5 & 1 == 1);
    let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
    let c = if root == 2 { f.r32(op.src[2]) } else { [0; WARP_LANES] };
    let wide = |half: u32| F32.convert(format, u64::from(half & 0xffff), Round::Nearest);
    let out = each(|i| {
        let value = match root {
            0 => F32.add(wide(a[i]), b[i].into(), round),
            1 => F32.add(wide(a[i]), u64::from(b[i]) ^ 1 << 31, round),
            _ => F32.fma(wide(a[i]), wide(b[i]), c[i].into(), round),
        };
        output(f32::from_bits(value as u32), false, sat)
    });
    f.w32(op.dst[0], m, out);
}
