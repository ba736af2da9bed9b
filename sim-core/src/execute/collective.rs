//! The collectives of a warp: `vote` (CS §5.4.2), `shfl`, `match`, `redux`, `activemask`,
//! `bar.warp.sync`. Lane masks and indices always mean the home warp.

use std::sync::Arc;

use sim_frontend::form::{Reduction, ShflMode, VoteMode};
use sim_frontend::program::{Extra, Op, OpClass, Pc, Row};
use sim_memory::atomics::NAN_F32;
use sim_memory::vocabulary::LaneMask;

use super::access::{read_element, write_element};
use super::{Meeting, Resident, Step, guard, read_row, write_pred};
use crate::error::Bottom;
use crate::grid::{Code, Kernel};
use crate::reconvergence::{Lanes, Reconvergence, SplitId};

/// vote for the `.all`, `.any` and `.uni` modes and `.ballot` [vote-all] [vote-any] [vote-uni]
/// [vote-ballot]; inactive lanes vote false in a ballot.
pub fn vote(mode: VoteMode, lanes: LaneMask, votes: LaneMask) -> u32 {
    let votes = votes & lanes;
    match mode {
        VoteMode::All => u32::from(votes == lanes),
        VoteMode::Any => u32::from(votes != 0),
        VoteMode::Uni => u32::from(votes == 0 || votes == lanes),
        VoteMode::Ballot => votes,
    }
}

/// The lane `shfl` reads from, and whether it lies in range (PTX ISA "shfl").
pub fn shuffle_source(mode: ShflMode, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let b = b & 0x1f;
    let clamp = c & 0x1f;
    let segment = c >> 8 & 0x1f;
    let max = (lane & segment) | (clamp & !segment);
    let min = lane & segment;
    let (source, in_range) = match mode {
        ShflMode::Up => (lane.wrapping_sub(b), lane as i32 - b as i32 >= max as i32),
        ShflMode::Down => (lane + b, lane + b <= max),
        ShflMode::Bfly => (lane ^ b, lane ^ b <= max),
        ShflMode::Idx => {
            let source = min | (b & !segment);
            (source, source <= max)
        }
    };
    if in_range { (source & 0x1f, true) } else { (lane, false) }
}

impl<P: Reconvergence> Resident<P> {
    /// Runs a collective, or parks the split until the other lanes of its mask arrive
    /// [warp-comm] [thr-vote].
    pub(super) fn collective(
        &mut self,
        kernels: &[Arc<Kernel>],
        split: SplitId,
        w: usize,
        pc: Pc,
        op: &Op,
        mask: LaneMask,
        exec: LaneMask,
    ) -> Result<Step, Bottom> {
        if exec == 0 {
            self.advance(split, w)?;
            return Ok(Step::Done);
        }
        let code = &*kernels[self.warps[w].kernel].code;
        let Some(mask_row) = sync_mask(op) else {
            if !P::WHOLE_WARP && !self.world.schedule_dependent {
                return Err(Bottom::new(
                    "collective",
                    exec,
                    "this instruction sees whichever threads run together, which this policy changes: \
                     declare `schedule: dependent` with a `reason` in the workload file, or use a policy \
                     that keeps warps whole (crs_stack, pdom_stack)",
                ));
            }
            self.compute(w, op, code, exec, exec)?;
            self.advance(split, w)?;
            return Ok(Step::Done);
        };
        let masks = read_row(&self.warps[w].rows, &code.consts, mask_row);
        let wanted = masks[(exec.trailing_zeros() & 31) as usize];
        if Lanes(exec).all(|l| masks[l as usize] == wanted) {
            self.complete_mask(w, mask, exec, wanted)?;
            if wanted & self.warps[w].live() & !exec == 0 {
                self.compute(w, op, code, exec, wanted)?;
                self.advance(split, w)?;
                return Ok(Step::Done);
            }
            self.meet(split, w, pc, exec, wanted);
        } else {
            // Groups of threads that name themselves, as tiles of a warp do.
            let masks = *masks;
            let mut left = exec;
            while left != 0 {
                let wanted = masks[(left.trailing_zeros() & 31) as usize];
                let group = Lanes(left).filter(|&l| masks[l as usize] == wanted).fold(0, |m, l| m | 1 << l);
                let others = wanted & exec & !group;
                if others != 0 {
                    return Err(Bottom::new(
                        "collective",
                        others,
                        format!(
                            "the mask {wanted:#010x} of other threads that execute this names a thread that \
                             names another mask"
                        ),
                    ));
                }
                self.complete_mask(w, mask, group, wanted)?;
                self.meet(split, w, pc, group, wanted);
                left &= !group;
            }
        }
        self.park(split, w);
        self.reevaluate_meetings(kernels, w)?;
        let waits = self.meetings.iter().any(|m| m.splits.contains(&split));
        Ok(if waits { Step::Parked } else { Step::Done })
    }

    /// The lanes `group` of a split, whose active mask is `active`, name the mask `wanted`: it must
    /// name them, and where a warp runs as a whole, no thread that is elsewhere.
    fn complete_mask(
        &self,
        w: usize,
        active: LaneMask,
        group: LaneMask,
        wanted: LaneMask,
    ) -> Result<(), Bottom> {
        if group & !wanted != 0 {
            return Err(Bottom::new(
                "collective",
                group & !wanted,
                format!("a thread executes this that the mask {wanted:#010x} does not name"),
            ));
        }
        let absent = wanted & self.warps[w].live() & !group;
        if P::WHOLE_WARP && absent != 0 {
            return Err(Bottom::new(
                "collective",
                absent,
                format!(
                    "the mask {wanted:#010x} names threads {absent:#010x} that are not active here (active \
                     mask {active:#010x}); below compute capability 7.0 all must be"
                ),
            ));
        }
        Ok(())
    }

    /// Lanes of a split arrive where those of a mask meet.
    fn meet(&mut self, split: SplitId, w: usize, pc: Pc, lanes: LaneMask, wanted: LaneMask) {
        match self.meetings.iter_mut().find(|m| m.warp == w && m.pc == pc && m.mask == wanted) {
            Some(meeting) => {
                meeting.arrived |= lanes;
                meeting.splits.push(split);
            }
            None => {
                let splits = vec![split];
                self.meetings.push(Meeting { warp: w, pc, mask: wanted, arrived: lanes, splits });
            }
        }
    }

    /// Ends the meetings of a warp whose lanes have all arrived or exited.
    pub(super) fn reevaluate_meetings(&mut self, kernels: &[Arc<Kernel>], w: usize) -> Result<(), Bottom> {
        let mut i = 0;
        while i < self.meetings.len() {
            let live = self.warps[w].live();
            let meeting = &self.meetings[i];
            if meeting.warp != w || meeting.mask & live & !meeting.arrived != 0 {
                i += 1;
                continue;
            }
            let meeting = self.meetings.remove(i);
            let code = &*kernels[self.warps[w].kernel].code;
            let op = &code.program.ops[meeting.pc as usize];
            self.compute(w, op, code, meeting.arrived, meeting.mask)?;
            for &split in &meeting.splits {
                // Its lanes may have named several masks.
                if !self.meetings.iter().any(|m| m.splits.contains(&split)) {
                    self.resume(split);
                }
            }
        }
        Ok(())
    }

    /// Computes a collective for `lanes`, which all take part; `named` is the mask it names.
    fn compute(
        &mut self,
        w: usize,
        op: &Op,
        code: &Code,
        lanes: LaneMask,
        named: LaneMask,
    ) -> Result<(), Bottom> {
        let warp = &mut self.warps[w];
        match (op.class, op.extra) {
            (OpClass::Vote, Extra::Vote { mode, .. }) => {
                let result = vote(mode, lanes, guard(op.psrc[0], &warp.preds));
                if mode == VoteMode::Ballot {
                    for lane in Lanes(lanes) {
                        write_element(&mut warp.rows, op.dst[0], lane, result.into(), 32);
                    }
                } else {
                    let value = if result != 0 { u32::MAX } else { 0 };
                    write_pred(&mut warp.preds, op.pdst[0], lanes, value);
                }
            }
            (OpClass::Shuffle, Extra::Shuffle { mode, .. }) => {
                let values = *read_row(&warp.rows, &code.consts, op.src[0]);
                let b = *read_row(&warp.rows, &code.consts, op.src[1]);
                let c = *read_row(&warp.rows, &code.consts, op.src[2]);
                let mut in_range = 0u32;
                for lane in Lanes(lanes) {
                    let l = lane as usize;
                    let (source, inside) = shuffle_source(mode, lane, b[l], c[l]);
                    if inside && lanes >> source & 1 == 0 {
                        return Err(Bottom::new(
                            "collective",
                            1 << lane,
                            format!("lane {lane} reads from lane {source}, which does not take part"),
                        ));
                    }
                    in_range |= u32::from(inside) << lane;
                    write_element(&mut warp.rows, op.dst[0], lane, values[source as usize].into(), 32);
                }
                write_pred(&mut warp.preds, op.pdst[0], lanes, in_range);
            }
            (OpClass::Redux, Extra::Redux { reduction, signed, float }) => {
                let values = *read_row(&warp.rows, &code.consts, op.src[0]);
                let values = Lanes(lanes).map(|l| values[l as usize]);
                let result = match float {
                    Some((magnitudes, nan_wins)) => redux_float(reduction, magnitudes, nan_wins, values),
                    None => redux(reduction, signed, values),
                };
                for lane in Lanes(lanes) {
                    write_element(&mut warp.rows, op.dst[0], lane, result.into(), 32);
                }
            }
            (OpClass::Match, Extra::Match { all, wide }) => {
                let bits = if wide { 64 } else { 32 };
                let value = |lane| read_element(&warp.rows, &code.consts, op.src[0], lane, bits);
                let values: Vec<(u32, u64)> = Lanes(lanes).map(|l| (l, value(l))).collect();
                let same = |v: u64| values.iter().filter(|(_, o)| *o == v).fold(0u32, |m, (l, _)| m | 1 << l);
                let masks: Vec<(u32, u32)> = values.iter().map(|&(l, v)| (l, same(v))).collect();
                let agree = masks.iter().all(|&(_, m)| m == lanes);
                for (lane, mask) in masks {
                    let mask = if all && !agree { 0 } else { mask };
                    write_element(&mut warp.rows, op.dst[0], lane, mask.into(), 32);
                }
                write_pred(&mut warp.preds, op.pdst[0], lanes, if agree { u32::MAX } else { 0 });
            }
            // Any of the threads may be elected; it is the one of the lowest lane.
            (OpClass::Elect, _) => {
                let leader = lanes.trailing_zeros();
                for lane in Lanes(lanes) {
                    write_element(&mut warp.rows, op.dst[0], lane, leader.into(), 32);
                }
                write_pred(&mut warp.preds, op.pdst[0], lanes, 1u32.checked_shl(leader).unwrap_or(0));
            }
            (OpClass::ActiveMask, _) => {
                for lane in Lanes(lanes) {
                    write_element(&mut warp.rows, op.dst[0], lane, lanes.into(), 32);
                }
            }
            (OpClass::WarpSync, _) => debug_assert_eq!(lanes & !named, 0),
            _ => return Err(Bottom::new("warp-comm", lanes, "a collective without its facts")),
        }
        Ok(())
    }
}

/// The row of the member mask of a `.sync` collective.
fn sync_mask(op: &Op) -> Option<Row> {
    match (op.class, op.extra) {
        (OpClass::Vote, Extra::Vote { sync: true, .. }) => Some(op.src[0]),
        (OpClass::Shuffle, Extra::Shuffle { sync: true, .. }) => Some(op.src[3]),
        (OpClass::Redux | OpClass::Match, _) => Some(op.src[1]),
        (OpClass::WarpSync | OpClass::Elect, _) => Some(op.src[0]),
        _ => None,
    }
}

/// Minimum or maximum in single precision: -0 lies below +0, and a NaN is left out unless it wins.
fn redux_float(
    reduction: Reduction,
    magnitudes: bool,
    nan_wins: bool,
    values: impl Iterator<Item = u32>,
) -> u32 {
    let values: Vec<f32> =
        values.map(|bits| f32::from_bits(if magnitudes { bits & 0x7fff_ffff } else { bits })).collect();
    let any_nan = values.iter().any(|v| v.is_nan());
    let numbers = values.into_iter().filter(|v| !v.is_nan());
    let found = match reduction {
        Reduction::Min => numbers.min_by(f32::total_cmp),
        _ => numbers.max_by(f32::total_cmp),
    };
    found.filter(|_| !(nan_wins && any_nan)).map_or(NAN_F32, f32::to_bits)
}

fn redux(reduction: Reduction, signed: bool, values: impl Iterator<Item = u32>) -> u32 {
    values
        .reduce(|a, b| match reduction {
            Reduction::And => a & b,
            Reduction::Or => a | b,
            Reduction::Xor => a ^ b,
            Reduction::Add | Reduction::Popc => a.wrapping_add(b),
            Reduction::Min if signed => (a as i32).min(b as i32) as u32,
            Reduction::Max if signed => (a as i32).max(b as i32) as u32,
            Reduction::Min => a.min(b),
            Reduction::Max => a.max(b),
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vote_all_vote_any_vote_uni_vote_ballot_over_the_lanes_that_take_part() {
        let lanes = 0b1110;
        let cases = [(0b1110, [1, 1, 1, 0b1110]), (0b0111, [0, 1, 0, 0b0110]), (0b0001, [0, 0, 1, 0])];
        for (votes, expected) in cases {
            let modes = [VoteMode::All, VoteMode::Any, VoteMode::Uni, VoteMode::Ballot];
            assert_eq!(modes.map(|mode| vote(mode, lanes, votes)), expected, "{votes:#b}");
        }
    }

    #[test]
    fn shuffle_moves_within_segments() {
        // c of CUDA's __shfl_down with width 8: clamp 31, segment mask 24.
        let width8 = (32 - 8) << 8 | 0x1f;
        assert_eq!(shuffle_source(ShflMode::Down, 3, 4, width8), (7, true));
        assert_eq!(shuffle_source(ShflMode::Down, 5, 4, width8), (5, false));
        assert_eq!(shuffle_source(ShflMode::Up, 9, 1, (32 - 8) << 8), (8, true));
        assert_eq!(shuffle_source(ShflMode::Up, 8, 1, (32 - 8) << 8), (8, false));
        assert_eq!(shuffle_source(ShflMode::Bfly, 9, 16, 0x1f), (25, true));
        assert_eq!(shuffle_source(ShflMode::Idx, 20, 2, width8), (18, true));
    }

    #[test]
    fn redux_of_floats() {
        let of = |reduction, magnitudes, nan_wins, values: &[f32]| {
            redux_float(reduction, magnitudes, nan_wins, values.iter().map(|v| v.to_bits()))
        };
        let values = [1.5, -3.0, f32::NAN, 2.0];
        assert_eq!(of(Reduction::Min, false, false, &values), (-3.0f32).to_bits());
        assert_eq!(of(Reduction::Max, false, false, &values), 2.0f32.to_bits());
        assert_eq!(of(Reduction::Max, true, false, &values), 3.0f32.to_bits());
        assert_eq!(of(Reduction::Max, false, true, &values), NAN_F32);
        assert_eq!(of(Reduction::Min, false, false, &[f32::NAN; 2]), NAN_F32);
        assert_eq!(of(Reduction::Min, false, false, &[0.0, -0.0]), 0x8000_0000);
    }

    #[test]
    fn redux_signs() {
        let values = [5u32, u32::MAX, 7];
        assert_eq!(redux(Reduction::Min, true, values.into_iter()), u32::MAX);
        assert_eq!(redux(Reduction::Min, false, values.into_iter()), 5);
        assert_eq!(redux(Reduction::Add, true, values.into_iter()), 11);
    }
}
