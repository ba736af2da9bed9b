//! `cvta` and `isspacep`: the windows of shared and local memory in the generic address space.

use sim_frontend::form::Form;
use sim_frontend::isa::Root;
use sim_frontend::program::Op;
use sim_memory::address_space::{LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use sim_memory::vocabulary::StateSpace;

use super::file::LaneFile;
use super::{Variants, lane, un32, un64};

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    macro_rules! shift {
        ($window:expr, $to:expr) => {
            match ($to, form.ty.bits()) {
                (true, 64) => {
                    lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| a.wrapping_sub($window)))
                }
                (true, _) => lane!(
                    |f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| a.wrapping_sub($window as u32))
                ),
                (false, 64) => {
                    lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| a.wrapping_add($window)))
                }
                (false, _) => lane!(
                    |f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| a.wrapping_add($window as u32))
                ),
            }
        };
    }
    macro_rules! test {
        ($test:expr) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
                let a = f.r64(op.src[0]);
                let mut bits = 0u32;
                for (i, &address) in a.iter().enumerate() {
                    let shared = address.wrapping_sub(SHARED_WINDOW) < WINDOW_BYTES;
                    let local = address.wrapping_sub(LOCAL_WINDOW) < WINDOW_BYTES;
                    let test: fn(bool, bool) -> bool = $test;
                    bits |= u32::from(test(shared, local)) << i;
                }
                f.wpred(op.pdst[0], m, bits);
            })
        };
    }
    let space = form.mods.space?;
    if form.root == Root::Isspacep {
        return match space {
            StateSpace::Shared => test!(|shared, _| shared),
            StateSpace::Local => test!(|_, local| local),
            StateSpace::Global => test!(|shared, local| !shared && !local),
            _ => test!(|_, _| false),
        };
    }
    match (space, form.mods.to) {
        (StateSpace::Shared, true) => shift!(SHARED_WINDOW, true),
        (StateSpace::Shared, false) => shift!(SHARED_WINDOW, false),
        (StateSpace::Local, true) => shift!(LOCAL_WINDOW, true),
        (StateSpace::Local, false) => shift!(LOCAL_WINDOW, false),
        _ => shift!(0u64, true),
    }
}
