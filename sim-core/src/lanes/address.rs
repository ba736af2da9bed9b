//! `cvta` and `isspacep`: the windows of the spaces in the generic address space.

use sim_frontend::form::Form;
use sim_frontend::isa::Root;
use sim_frontend::program::Op;
use sim_memory::address_space::{
    CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES, WINDOWS,
};
use sim_memory::vocabulary::StateSpace;

use super::bodies::{Variants, lane, un32, un64};
use super::file::LaneFile;

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
        ($from:expr, $bytes:expr, $inside:expr) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
                let a = f.r64(op.src[0]);
                let mut bits = 0u32;
                for (i, &address) in a.iter().enumerate() {
                    bits |= u32::from((address.wrapping_sub($from) < $bytes) == $inside) << i;
                }
                f.wpred(op.pdst[0], m, bits);
            })
        };
    }
    let space = form.mods.space?;
    if form.root == Root::Isspacep {
        return match space {
            StateSpace::Shared => test!(SHARED_WINDOW, WINDOW_BYTES, true),
            StateSpace::Local => test!(LOCAL_WINDOW, WINDOW_BYTES, true),
            StateSpace::Const => test!(CONST_WINDOW, WINDOW_BYTES, true),
            StateSpace::Param => test!(PARAM_WINDOW, WINDOW_BYTES, true),
            StateSpace::Global | StateSpace::Generic => {
                test!(WINDOWS.start, WINDOWS.end - WINDOWS.start, false)
            }
        };
    }
    match (space, form.mods.to) {
        (StateSpace::Shared, true) => shift!(SHARED_WINDOW, true),
        (StateSpace::Shared, false) => shift!(SHARED_WINDOW, false),
        (StateSpace::Local, true) => shift!(LOCAL_WINDOW, true),
        (StateSpace::Local, false) => shift!(LOCAL_WINDOW, false),
        (StateSpace::Const, true) => shift!(CONST_WINDOW, true),
        (StateSpace::Const, false) => shift!(CONST_WINDOW, false),
        (StateSpace::Param, true) => shift!(PARAM_WINDOW, true),
        (StateSpace::Param, false) => shift!(PARAM_WINDOW, false),
        (StateSpace::Global | StateSpace::Generic, _) => shift!(0u64, true),
    }
}
