//! Short branches become guards, as NVIDIA's assembler makes them: what one or both arms do is done under the condition, and
//! no branch is left (if-conversion). How long arms may be was read from what ptxas 12.9 and 13 make of them for sm_52 to sm_90, in
//! loops, behind other branches and elsewhere: `assembler.predicate` is 8, and what follows. An arm that has guards itself, so one
//! that holds such an arm, stays.

use super::constants::constants;
use super::hoist::passing;
use super::ir::{Block, BlockId, Func, Inst, Operand, PredOperand, Terminator, Width};
use super::liveness::{Live, RegSet};
use super::parameters::place;
use super::select::select;
use super::uniform::uniform_branches;
use super::work::count;
use crate::chip::AssemblerSpec;
use crate::form::Half;
use crate::isa::Root;
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::{Semantics, StateSpace};

/// What arms of a branch may have less that all threads of a warp take the same way.
const UNIFORM: usize = 2;

/// Instructions of arms that load from global memory, or that others can be executed beside: there is time to win.
const WITH_WORK: usize = 20;

/// Instructions behind a branch that are enough of those others; one load is, too.
const WORK: u32 = 4;

/// Instructions of PTX of an arm that is looked at: each of machine code is made of a few at most.
const LONGEST: usize = 80;

/// Stores of an arm.
const STORES: usize = 8;

/// A branch whose arms can be guarded.
struct Short {
    /// With what is guarded, in order, and the arm.
    arms: Vec<(PredOperand, BlockId)>,
    /// Where both ways meet.
    meet: BlockId,
    /// An arm loads from global memory.
    loads: bool,
}

/// Replaces branches by guards; returns how many.
pub fn predicate(func: &mut Func, passes: AssemblerSpec) -> u32 {
    let most = passes.predicate as usize;
    if func.injected_by_hand || most == 0 {
        return 0;
    }
    let ways_in = func.ways_in();
    let mut short: Vec<Option<Short>> = (0..func.blocks.len()).map(|b| short(func, b, &ways_in)).collect();
    if short.iter().all(Option::is_none) {
        return 0;
    }
    let uniform = uniform_branches(func);
    // Products of parts of 16 bits (before 7.0) are made of whole ones later.
    let mut made = func.clone();
    select(&mut made, AssemblerSpec { multiply_add: true, ..passes });
    // By block: there is work behind the branch that can be done beside that of the arms.
    let work: Vec<bool> = (0..func.blocks.len())
        .map(|b| short[b].as_ref().is_some_and(|short| has_work(&made, b, short, !uniform[b], &ways_in)))
        .collect();
    let lengths = lengths(made, &short, passes);
    for (b, uniform) in uniform.into_iter().enumerate() {
        short[b] = short[b].take().filter(|short| {
            let length = |arm: BlockId| lengths[arm] as usize;
            // The first of two arms jumps over the other.
            let jump = short.arms.len() - 1;
            let longest = short.arms.iter().zip([jump, 0]).map(|((_, arm), jump)| length(*arm) + jump).max();
            let all: usize = jump + short.arms.iter().map(|(_, arm)| length(*arm)).sum::<usize>();
            let most = if uniform { most.saturating_sub(UNIFORM) } else { most };
            longest.unwrap_or(0) <= most || (short.loads || work[b]) && all <= WITH_WORK
        });
    }
    let live = Live::new(func);
    let mut needed = RegSet::new(func.regs.len());
    let mut gone = vec![false; func.blocks.len()];
    let mut replaced = 0;
    for (b, short) in short.into_iter().enumerate() {
        let Some(Short { arms, meet, .. }) = short else { continue };
        replaced += 1;
        let mut insts = Vec::new();
        for (i, (condition, arm)) in arms.iter().enumerate() {
            // Behind the arm come what is left of the other one, and where they meet.
            needed.clear();
            live.for_before(meet, |reg| {
                needed.insert(reg);
            });
            if let Some((_, other)) = arms.get(i + 1) {
                func.blocks[*other].insts.iter().rev().for_each(|inst| needed.step_back(inst));
            }
            gone[*arm] = true;
            let own = std::mem::take(&mut func.blocks[*arm].insts);
            insts.extend(own.into_iter().map(|inst| guarded(inst, *condition, &needed)));
        }
        let Terminator::Branch(mut jump, ..) =
            std::mem::replace(&mut func.blocks[b].end, Terminator::Jump(None, meet))
        else {
            continue;
        };
        (jump.guard, jump.opcode) = (PredOperand::Const(true), None);
        func.blocks[b].insts.append(&mut insts);
        let behind = (b + 1..gone.len()).find(|at| !gone[*at]);
        func.blocks[b].end = Terminator::Jump(Some(jump).filter(|_| behind != Some(meet)), meet);
    }
    func.remove_blocks(&gone);
    replaced
}

/// An instruction of an arm under its condition. `needed`: registers that are read behind the arm.
fn guarded(mut inst: Inst, condition: PredOperand, needed: &RegSet) -> Inst {
    let (mut writes, mut read) = (false, false);
    inst.for_writes(|reg| {
        writes = true;
        read |= needed.contains(reg);
    });
    let own = writes && !read;
    // What only the arm reads can be computed in any case.
    if own && inst.class == OpClass::Data {
        return inst;
    }
    (inst.guard, inst.opcode, inst.fresh) = (condition, None, own);
    inst
}

/// True if what stands behind a branch and needs nothing of its arms is a load, or [`WORK`] instructions of machine code.
fn has_work(made: &Func, b: BlockId, short: &Short, loads: bool, ways_in: &[u32]) -> bool {
    if ways_in[short.meet] != 2 {
        return false;
    }
    let arms: Vec<BlockId> = short.arms.iter().map(|(_, arm)| *arm).collect();
    let mut work = 0;
    passing(made, b, &arms, short.meet, loads).any(|inst| {
        work += if inst.class == OpClass::Data { instructions(inst, &made.regs) } else { 0 };
        inst.class == OpClass::Load || work >= WORK
    })
}

/// By block: the instructions of machine code that it becomes, those that fill registers with constants among them.
fn lengths(mut made: Func, short: &[Option<Short>], passes: AssemblerSpec) -> Vec<u32> {
    // A register that the arm fills for itself and for what follows counts.
    short.iter().flatten().for_each(|short| made.blocks[short.meet].insts.clear());
    place(&mut made, passes);
    constants(&mut made, passes.constant_operands);
    let length = |block: &Block| block.insts.iter().map(|inst| instructions(inst, &made.regs)).sum();
    made.blocks.iter().map(length).collect()
}

/// The instructions of machine code that one becomes: integers of 64 bits take one for each word.
fn instructions(inst: &Inst, regs: &[Width]) -> u32 {
    let Operand::Reg(to) = inst.dst[0] else { return 1 };
    let halves = inst.class == OpClass::Data
        && regs[to as usize] == Width::Pair
        && !inst.form.dst.is_float()
        && inst.form.mods.half != Some(Half::Wide);
    match inst.form.root {
        Root::Mul | Root::Mad if halves => 4,
        Root::Cvt if halves && inst.form.ty.bits() < 64 => 1,
        _ if halves => 2,
        _ => 1,
    }
}

/// The arms of a block's branch, if the assembler can guard them.
fn short(func: &Func, b: BlockId, ways_in: &[u32]) -> Option<Short> {
    let Terminator::Branch(branch, taken, next) = &func.blocks[b].end else { return None };
    let PredOperand::Reg(reg, negated) = branch.guard else { return None };
    let (taken, next) = (*taken, *next);
    let after = |arm: BlockId| match func.blocks[arm].end {
        Terminator::Jump(_, to) if ways_in[arm] == 1 && arm != b => Some(to),
        _ => None,
    };
    let (jumps, falls) = (PredOperand::Reg(reg, negated), PredOperand::Reg(reg, !negated));
    let (arms, meet) = match (after(next), after(taken)) {
        (Some(meet), _) if meet == taken => (vec![(falls, next)], meet),
        (_, Some(meet)) if meet == next => (vec![(jumps, taken)], meet),
        (Some(meet), Some(other)) if meet == other => (vec![(falls, next), (jumps, taken)], meet),
        _ => return None,
    };
    // Where nothing follows, threads end instead: `@p exit`.
    let over = &func.blocks[meet];
    if over.insts.is_empty() && matches!(over.end, Terminator::End(_)) {
        return None;
    }
    if meet == b || taken == next || arms.iter().any(|(_, arm)| *arm == meet) {
        return None;
    }
    let (mut stores, mut loads) = (0, false);
    for (_, arm) in &arms {
        let block = &func.blocks[*arm];
        if block.insts.len() > LONGEST {
            return None;
        }
        for inst in &block.insts {
            count(1);
            let mut spoils = false;
            inst.for_writes(|own| spoils |= own == reg || func.fixed().contains(&Some(own)));
            if spoils || !allowed(inst) {
                return None;
            }
            stores += usize::from(inst.class == OpClass::Store);
            loads |= inst.class == OpClass::Load && is_global(inst);
        }
    }
    (stores <= STORES).then_some(Short { arms, meet, loads })
}

fn is_global(inst: &Inst) -> bool {
    inst.extra.access().is_some_and(|facts| matches!(facts.space, StateSpace::Global | StateSpace::Generic))
}

/// True if an instruction can stand under a guard in place of a branch.
fn allowed(inst: &Inst) -> bool {
    let plain = match inst.class {
        // Those are calls, or have branches in them.
        OpClass::Data => !matches!(inst.form.root, Root::Div | Root::Rem | Root::Sqrt | Root::Rcp),
        OpClass::Load | OpClass::Store => {
            let ordered =
                |semantics| !matches!(semantics, Semantics::Weak | Semantics::Volatile | Semantics::Relaxed);
            matches!(&inst.extra, Extra::Memory(facts) if !ordered(facts.semantics) && !facts.cluster)
        }
        OpClass::LoadParam | OpClass::Clock => true,
        _ => false,
    };
    plain && inst.guard == PredOperand::Const(true) && !inst.carries()
}

#[cfg(test)]
mod tests;
