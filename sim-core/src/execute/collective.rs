//! The collectives of a warp: `vote` (CS §5.4.2), `shfl`, `match`, `redux`, `elect`,
//! `activemask`, `bar.warp.sync`. Lane masks and indices always mean the home warp.

use std::sync::Arc;

use sim_frontend::form::{Reduction, ShflMode, VoteMode};
use sim_frontend::program::{Extra, Op, OpClass, Pc, Row};
use sim_frontend::workload::UndefinedValues;
use sim_memory::atomics::NAN_F32;
use sim_memory::observation::Event;
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use super::meet::Meeting;
use super::resident::{Resident, Step, UndefinedReads};
use crate::code::Code;
use crate::error::Violation;
use crate::grid::Kernel;
use crate::monitor::Check;
use crate::reconvergence::{Lanes, Reconvergence, SplitId};
use crate::registers::{first_lane, guard, read_element, read_row, write_element, write_pred};
use crate::warp::Warp;

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
    ) -> Result<Step, Violation> {
        if exec == 0 {
            self.advance(split, w)?;
            return Ok(Step::Done);
        }
        let code = &*kernels[self.warps[w].kernel].code;
        self.computed = Step::Done;
        let Some(members) = sync_mask(op) else {
            if !P::WHOLE_WARP && !self.world.schedule_dependent {
                return Err(Violation::new(
                    "collective",
                    exec,
                    "the result of this instruction depends on which threads are converged, and this policy changes that: declare `schedule: dependent` with a `reason` in the workload file, or use a policy that does not split warps (crs_stack, pdom_stack)",
                ));
            }
            self.compute(w, &kernels[self.warps[w].kernel], &[(pc, exec)])?;
            self.advance(split, w)?;
            return Ok(Step::Done);
        };
        let all = matches!(members, Members::All);
        let masks = match members {
            Members::Row(row) => read_row(&self.warps[w].rows, &code.consts, row),
            Members::All if exec != mask => {
                return Err(Violation::new(
                    "matrix",
                    mask & !exec,
                    format!(
                        "`{}` requires all threads of the warp to execute it; the guard is false for threads {:#010x}",
                        code.program.text(pc),
                        mask & !exec
                    ),
                ));
            }
            Members::All => &[LaneMask::MAX; WARP_LANES],
        };
        let wanted = masks[first_lane(exec)];
        if all || Lanes(exec).all(|l| masks[l as usize] == wanted) {
            self.complete_mask(w, mask, exec, wanted)?;
            if wanted & self.warps[w].live() & !exec == 0 && !self.lacks_registers(w, code, op) {
                self.compute(w, &kernels[self.warps[w].kernel], &[(pc, exec)])?;
                self.advance(split, w)?;
                let computed = self.computed;
                self.after_registers(kernels, w, op)?;
                return Ok(computed);
            }
            self.meet(code, split, w, pc, exec, wanted);
        } else {
            // Groups of threads that name themselves, as tiles of a warp do.
            let masks = *masks;
            let mut left = exec;
            while left != 0 {
                let wanted = masks[first_lane(left)];
                let group = Lanes(left).filter(|&l| masks[l as usize] == wanted).fold(0, |m, l| m | 1 << l);
                let others = wanted & exec & !group;
                // From 7.0 on they meet where the others come to it later, each mask by itself.
                if others != 0 && self.world.compute_capability < 70 {
                    return Err(Violation::new(
                        "collective",
                        others,
                        format!(
                            "mismatched member masks: {wanted:#010x} contains a thread that executes this instruction with a different mask"
                        ),
                    ));
                }
                self.complete_mask(w, mask, group, wanted)?;
                self.meet(code, split, w, pc, group, wanted);
                left &= !group;
            }
        }
        self.park(split, w);
        self.reevaluate_meetings(kernels, w)?;
        if !self.meetings.iter().any(|m| m.splits.contains(&split)) {
            return Ok(self.computed);
        }
        self.give_way(split);
        Ok(Step::Parked)
    }

    /// The lanes `group` of a split, whose active mask is `active`, name the mask `wanted`: it must
    /// name them, and where a warp runs as a whole, no thread that is elsewhere.
    fn complete_mask(
        &self,
        w: usize,
        active: LaneMask,
        group: LaneMask,
        wanted: LaneMask,
    ) -> Result<(), Violation> {
        if group & !wanted != 0 {
            return Err(Violation::new(
                "collective",
                group & !wanted,
                format!("an executing thread is not in its member mask {wanted:#010x}"),
            ));
        }
        let absent = wanted & self.warps[w].live() & !group;
        if P::WHOLE_WARP && absent != 0 {
            let why = match self.world.compute_capability {
                70.. => {
                    "this policy serializes the paths of a warp, and these threads are on another path that has not reconverged with this one"
                }
                _ => "below compute capability 7.0 all members must be active",
            };
            return Err(Violation::new(
                "collective",
                absent,
                format!(
                    "the member mask {wanted:#010x} contains threads {absent:#010x} that are not active here (active \
                     mask {active:#010x}); {why}"
                ),
            ));
        }
        Ok(())
    }

    /// Lanes of a split arrive where those of a mask meet.
    fn meet(&mut self, code: &Code, split: SplitId, w: usize, pc: Pc, lanes: LaneMask, wanted: LaneMask) {
        let apart = self.world.compute_capability >= 70;
        let ops = &code.program.ops;
        let mut open = self.meetings.iter_mut().filter(|m| m.warp == w && m.mask == wanted);
        match open.find(|meeting| meeting.is_for(ops, pc, apart)) {
            Some(meeting) => meeting.arrive(split, pc, lanes),
            None => self.meetings.push(Meeting {
                warp: w,
                mask: wanted,
                arrived: lanes,
                parts: vec![(pc, lanes)],
                splits: vec![split],
            }),
        }
    }

    /// Ends the meetings of a warp whose lanes have all arrived or exited.
    pub(super) fn reevaluate_meetings(&mut self, kernels: &[Arc<Kernel>], w: usize) -> Result<(), Violation> {
        let mut i = 0;
        // Splits of meetings that end, with the lanes that go on.
        let mut freed: Vec<(SplitId, LaneMask)> = Vec::new();
        let mut given = false;
        while i < self.meetings.len() {
            let live = self.warps[w].live();
            let meeting = &self.meetings[i];
            if meeting.warp != w || meeting.mask & live & !meeting.arrived != 0 {
                i += 1;
                continue;
            }
            let code = &*kernels[self.warps[w].kernel].code;
            let op = meeting.parts.first().and_then(|(pc, _)| code.program.ops.get(*pc as usize));
            if op.is_some_and(|op| self.lacks_registers(w, code, op)) {
                i += 1;
                continue;
            }
            let meeting = self.meetings.remove(i);
            debug_assert_eq!(meeting.arrived & !meeting.mask, 0);
            self.compute(w, &kernels[self.warps[w].kernel], &meeting.parts)?;
            given |= op.is_some_and(gives_registers);
            for &split in &meeting.splits {
                let lanes = meeting.arrived & self.policy.mask(split);
                match freed.iter_mut().find(|(other, _)| *other == split) {
                    Some((_, all)) => *all |= lanes,
                    None => freed.push((split, lanes)),
                }
            }
        }
        for (split, lanes) in freed {
            // Its lanes may have named several masks.
            if !self.meetings.iter().any(|m| m.splits.contains(&split)) {
                self.resume(split);
            } else if let Some(part) = self.part_of(split, lanes) {
                self.resume(part);
            }
        }
        if given { self.take_registers(kernels, w) } else { Ok(()) }
    }

    /// Warps that wait for registers take those that a step has given back.
    fn after_registers(&mut self, kernels: &[Arc<Kernel>], w: usize, op: &Op) -> Result<(), Violation> {
        if gives_registers(op) { self.take_registers(kernels, w) } else { Ok(()) }
    }

    #[cold]
    fn take_registers(&mut self, kernels: &[Arc<Kernel>], w: usize) -> Result<(), Violation> {
        let mates = self.blocks[self.warps[w].block].as_ref().map_or(Vec::new(), |block| block.warps.clone());
        mates
            .into_iter()
            .filter(|mate| *mate != w)
            .try_for_each(|mate| self.reevaluate_meetings(kernels, mate))
    }

    /// Takes the lanes of a split whose mask is complete out of it, where threads of a warp go on
    /// without each other: the others wait for those of their own masks.
    fn part_of(&mut self, split: SplitId, lanes: LaneMask) -> Option<SplitId> {
        if self.world.compute_capability < 70 {
            return None;
        }
        let part = self.policy.carve(split, lanes)?;
        self.expected[part] = self.expected[split];
        self.waits[part] = 0;
        Some(part)
    }

    /// Counts values that PTX leaves undefined: those that these lanes have read.
    #[cold]
    fn count_undefined(&mut self, kernel: &Arc<Kernel>, parts: &[(Pc, LaneMask)], lanes: LaneMask) {
        for &(pc, own) in parts.iter().filter(|(_, own)| own & lanes != 0) {
            let counted = self.undefined.entry((kernel.grid_id, pc));
            let none = || UndefinedReads { kernel: Arc::clone(kernel), lanes: 0 };
            counted.or_insert_with(none).lanes += u64::from((own & lanes).count_ones());
        }
    }

    /// Computes a collective for the lanes of `parts`, which all take part: each lane by the
    /// operands of the instruction that it executes.
    fn compute(&mut self, w: usize, kernel: &Arc<Kernel>, parts: &[(Pc, LaneMask)]) -> Result<(), Violation> {
        let code = &*kernel.code;
        let warp = &mut self.warps[w];
        let ops = || parts.iter().map(|&(pc, own)| (&code.program.ops[pc as usize], own));
        let lanes = parts.iter().fold(0, |lanes, (_, own)| lanes | own);
        let Some((first, _)) = ops().next() else { return Ok(()) };
        if first.class == OpClass::WarpSync
            && self.on_chip
            && let Some(observed) = &mut self.observed
        {
            observed.push(Event::WarpSync { warp: w as u32, lanes });
        }
        if let OpClass::Mma
        | OpClass::Wgmma
        | OpClass::SetRegisters
        | OpClass::MoveMatrix
        | OpClass::LoadMatrix
        | OpClass::StoreMatrix = first.class
        {
            return self.matrices(w, code, parts, lanes);
        }
        match (first.class, first.extra) {
            (OpClass::Vote, Extra::Vote { mode, .. }) => {
                let votes = ops().fold(0, |votes, (op, own)| votes | guard(op.psrc[0], &warp.preds) & own);
                let result = vote(mode, lanes, votes);
                for (op, own) in ops() {
                    if mode == VoteMode::Ballot {
                        write_words(warp, op, own, &[result; WARP_LANES]);
                    } else {
                        let value = if result != 0 { u32::MAX } else { 0 };
                        write_pred(&mut warp.preds, op.pdst[0], own, value);
                    }
                }
            }
            (OpClass::Shuffle, Extra::Shuffle { mode, .. }) => {
                // Read before any is written: a destination may be what another lane reads.
                let values = words_of(warp, code, ops(), 0);
                let b = words_of(warp, code, ops(), 1);
                let c = words_of(warp, code, ops(), 2);
                let mut read = [0; WARP_LANES];
                let (mut in_range, mut undefined) = (0u32, 0u32);
                for lane in Lanes(lanes) {
                    let l = lane as usize;
                    let (source, inside) = shuffle_source(mode, lane, b[l], c[l]);
                    if inside && lanes >> source & 1 == 0 {
                        // PTX leaves the value undefined.
                        if self.world.check == Check::Off || self.world.undefined == UndefinedValues::Zero {
                            in_range |= 1 << lane;
                            undefined |= 1 << lane;
                            continue;
                        }
                        return Err(Violation::new(
                            "collective",
                            1 << lane,
                            format!(
                                "lane {lane} reads from lane {source}, which does not participate: the value is \
                                 undefined in PTX; `--check off` makes it 0"
                            ),
                        ));
                    }
                    in_range |= u32::from(inside) << lane;
                    read[l] = values[source as usize];
                }
                for (op, own) in ops() {
                    write_words(warp, op, own, &read);
                    write_pred(&mut warp.preds, op.pdst[0], own, in_range);
                }
                if undefined != 0 && self.world.check != Check::Off {
                    self.count_undefined(kernel, parts, undefined);
                }
            }
            (OpClass::Redux, Extra::Redux { reduction, signed, float }) => {
                let values = words_of(warp, code, ops(), 0);
                let values = Lanes(lanes).map(|l| values[l as usize]);
                let result = match float {
                    Some((magnitudes, nan_wins)) => redux_float(reduction, magnitudes, nan_wins, values),
                    None => redux(reduction, signed, values),
                };
                ops().for_each(|(op, own)| write_words(warp, op, own, &[result; WARP_LANES]));
            }
            (OpClass::Match, Extra::Match { all, wide }) => {
                let bits = if wide { 64 } else { 32 };
                let mut values: Vec<(u32, u64)> = Vec::with_capacity(32);
                for (op, own) in ops() {
                    let value = |lane| read_element(&warp.rows, &code.consts, op.src[0], lane, bits);
                    values.extend(Lanes(own).map(|lane| (lane, value(lane))));
                }
                let same = |v: u64| values.iter().filter(|(_, o)| *o == v).fold(0u32, |m, (l, _)| m | 1 << l);
                let mut masks = [0; WARP_LANES];
                values.iter().for_each(|&(lane, v)| masks[lane as usize] = same(v));
                let agree = Lanes(lanes).all(|lane| masks[lane as usize] == lanes);
                if all && !agree {
                    masks = [0; WARP_LANES];
                }
                for (op, own) in ops() {
                    write_words(warp, op, own, &masks);
                    write_pred(&mut warp.preds, op.pdst[0], own, if agree { u32::MAX } else { 0 });
                }
            }
            // Any of the threads may be elected; it is the one of the lowest lane.
            (OpClass::Elect, _) => {
                let leader = lanes.trailing_zeros();
                for (op, own) in ops() {
                    write_words(warp, op, own, &[leader; WARP_LANES]);
                    write_pred(&mut warp.preds, op.pdst[0], own, 1u32.checked_shl(leader).unwrap_or(0));
                }
            }
            (OpClass::ActiveMask, _) => {
                ops().for_each(|(op, own)| write_words(warp, op, own, &[lanes; WARP_LANES]));
            }
            (OpClass::WarpSync, _) => {}
            _ => {
                return Err(Violation::new(
                    "warp-comm",
                    lanes,
                    "internal error: a decoded warp-collective instruction has no operands",
                ));
            }
        }
        Ok(())
    }
}

/// By lane, source `n` of the instruction that the lane executes.
pub(super) fn words_of<'a>(
    warp: &Warp,
    code: &Code,
    ops: impl Iterator<Item = (&'a Op, LaneMask)>,
    n: usize,
) -> [u32; WARP_LANES] {
    let mut words = [0; WARP_LANES];
    for (op, own) in ops {
        let row = read_row(&warp.rows, &code.consts, op.src[n]);
        Lanes(own).for_each(|lane| words[lane as usize] = row[lane as usize]);
    }
    words
}

/// Writes the destination of an instruction in the lanes that execute it.
fn write_words(warp: &mut Warp, op: &Op, lanes: LaneMask, words: &[u32; WARP_LANES]) {
    for lane in Lanes(lanes) {
        write_element(&mut warp.rows, op.dst[0], lane, words[lane as usize].into(), 32);
    }
}

/// The threads that a `.sync` collective waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Members {
    /// Those of a mask.
    Row(Row),
    /// The whole warp.
    All,
}

/// The member mask of a `.sync` collective.
pub(crate) fn sync_mask(op: &Op) -> Option<Members> {
    let row = match (op.class, op.extra) {
        (OpClass::Vote, Extra::Vote { sync: true, .. }) => op.src[0],
        (OpClass::Shuffle, Extra::Shuffle { sync: true, .. }) => op.src[3],
        (OpClass::Redux | OpClass::Match, _) => op.src[1],
        (OpClass::WarpSync | OpClass::Elect, _) => op.src[0],
        (
            OpClass::Mma
            | OpClass::Wgmma
            | OpClass::SetRegisters
            | OpClass::MoveMatrix
            | OpClass::LoadMatrix
            | OpClass::StoreMatrix,
            _,
        ) => {
            return Some(Members::All);
        }
        _ => return None,
    };
    Some(Members::Row(row))
}

/// `setmaxnreg.dec`.
fn gives_registers(op: &Op) -> bool {
    matches!(op.extra, Extra::SetRegisters { take: false, .. })
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
