//! `cvta` and `isspacep`: the windows of the spaces in the generic address space; `mapa` and `getctarank`: the blocks of
//! a cluster within that of shared memory.

use sim_frontend::form::Form;
use sim_frontend::isa::Root;
use sim_frontend::program::Op;
use sim_memory::address_space::{
    CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES, WINDOWS, in_cluster, of_cluster,
};
use sim_memory::vocabulary::{LaneMask, StateSpace};

use super::bodies::{Variants, lane, un32, un64};
use super::file::LaneFile;
use crate::registers::each;

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
    if matches!(form.root, Root::Mapa | Root::Getctarank) {
        let window = if form.mods.shared_cluster { 0 } else { SHARED_WINDOW };
        let wide = form.ty.bits() == 64;
        return match (form.root, wide, window) {
            (Root::Mapa, true, 0) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| map64(f, op, m, 0)),
            (Root::Mapa, true, _) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| map64(f, op, m, SHARED_WINDOW)),
            (Root::Mapa, false, 0) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| map32(f, op, m, 0)),
            (Root::Mapa, false, _) => {
                lane!(|f: &mut LaneFile<'_>, op: &Op, m| map32(f, op, m, SHARED_WINDOW))
            }
            (_, true, 0) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| rank64(f, op, m, 0)),
            (_, true, _) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| rank64(f, op, m, SHARED_WINDOW)),
            (_, false, 0) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| rank32(f, op, m, 0)),
            (_, false, _) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| rank32(f, op, m, SHARED_WINDOW)),
        };
    }
    let space = form.mods.space?;
    if form.root == Root::Isspacep {
        return match space {
            StateSpace::Shared if form.mods.shared_cluster => test!(SHARED_WINDOW, WINDOW_BYTES, true),
            // The block's own memory, by plain addresses or by those of its rank.
            StateSpace::Shared => lane!(|f: &mut LaneFile<'_>, op: &Op, m| {
                let (a, own) = (f.r64(op.src[0]), f.r32(op.src[1]));
                let mut bits = 0u32;
                for (i, &address) in a.iter().enumerate() {
                    let at = address.wrapping_sub(SHARED_WINDOW);
                    let rank = of_cluster(at).0.unwrap_or(own[i].into());
                    bits |= u32::from(at < WINDOW_BYTES && rank == u64::from(own[i])) << i;
                }
                f.wpred(op.pdst[0], m, bits);
            }),
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

/// The address of the same place in the block of a rank.
fn map(at: u64, rank: u32, window: u64) -> u64 {
    u64::from(in_cluster(rank, at.wrapping_sub(window) as u32)) + window
}

fn map64(f: &mut LaneFile<'_>, op: &Op, m: LaneMask, window: u64) {
    let (a, ranks) = (f.r64(op.src[0]), f.r32(op.src[1]));
    f.w64(op.dst[0], m, each(|lane| map(a[lane], ranks[lane], window)));
}

fn map32(f: &mut LaneFile<'_>, op: &Op, m: LaneMask, window: u64) {
    let (a, ranks) = (f.r32(op.src[0]), f.r32(op.src[1]));
    f.w32(op.dst[0], m, each(|lane| map(a[lane].into(), ranks[lane], window) as u32));
}

/// The rank of the block that an address is in; that of the block itself for its own addresses.
fn rank(at: u64, own: u32, window: u64) -> u32 {
    of_cluster(at.wrapping_sub(window)).0.map_or(own, |rank| rank as u32)
}

fn rank64(f: &mut LaneFile<'_>, op: &Op, m: LaneMask, window: u64) {
    let (a, own) = (f.r64(op.src[0]), f.r32(op.src[1]));
    f.w32(op.dst[0], m, each(|lane| rank(a[lane], own[lane], window)));
}

fn rank32(f: &mut LaneFile<'_>, op: &Op, m: LaneMask, window: u64) {
    let (a, own) = (f.r32(op.src[0]), f.r32(op.src[1]));
    f.w32(op.dst[0], m, each(|lane| rank(a[lane].into(), own[lane], window)));
}
