//! `createpolicy`: cache policies, whose bits are in `sim_memory::priority`.

use sim_frontend::form::{Form, PolicyStep};
use sim_frontend::program::Op;
use sim_memory::priority::{self, Priority};
use sim_memory::vocabulary::WARP_LANES;

use super::bodies::{Variants, lane};
use super::file::LaneFile;
use crate::registers::each;

const PRIORITIES: [Priority; 4] = [Priority::Unchanged, Priority::Normal, Priority::First, Priority::Last];

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    match form.mods.policy? {
        PolicyStep::Fractional => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (primary, secondary) = decode(op.imm);
            let one = [1f32.to_bits(); WARP_LANES];
            let fraction = if op.src[0].is_some() { f.r32(op.src[0]) } else { one };
            let of = |i: usize| priority::fractional(primary, secondary, f32::from_bits(fraction[i]));
            f.w64(op.dst[0], m, each(of));
        }),
        PolicyStep::Range => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let (primary, secondary) = decode(op.imm);
            let (base, first, all) = (f.r64(op.src[0]), f.r32(op.src[1]), f.r32(op.src[2]));
            let of = |i: usize| priority::range(primary, secondary, base[i], first[i], all[i]);
            f.w64(op.dst[0], m, each(of));
        }),
        // The property of an access window is a policy.
        PolicyStep::Convert => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
            let property = f.r64(op.src[0]);
            f.w64(op.dst[0], m, property);
        }),
    }
}

/// The priorities of a form as the immediate of its operation.
pub(super) fn encode(form: &Form) -> i64 {
    let place = |of: Option<Priority>| PRIORITIES.iter().position(|p| Some(*p) == of).unwrap_or(0) as i64;
    place(form.mods.l2_priority) | place(form.mods.other_priority) << 2
}

fn decode(imm: i64) -> (Priority, Priority) {
    (PRIORITIES[(imm & 3) as usize], PRIORITIES[(imm >> 2 & 3) as usize])
}
