//! Short branches become guards, as NVIDIA's assembler makes them: what one or both arms do is done under the condition, and
//! no branch is left (if-conversion). How long arms may be was read from what ptxas 12.8 makes of them for sm_52 to sm_90:
//! [`NESTED`] and what follows it. An arm that has guards itself, so one that holds such an arm, stays.

use super::ir::{Block, BlockId, Func, Inst, PredOperand, Terminator};
use super::liveness::{Live, RegSet};
use super::work::count;
use crate::isa::Root;
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::{Semantics, StateSpace};

/// Instructions of an arm, its branch among them, in a loop or behind another branch.
const NESTED: usize = 8;

/// The same where it loads from global memory, wherever it is: there is time to win.
const WITH_LOADS: usize = 20;

/// Stores of an arm.
const STORES: usize = 8;

/// A branch whose arms can be guarded.
struct Short {
    /// With what is guarded, in order, and the arm.
    arms: Vec<(PredOperand, BlockId)>,
    /// Where both ways meet.
    meet: BlockId,
}

/// Replaces branches by guards; returns how many. `most`: instructions of an arm, its branch among them, outside of loops and
/// other branches.
pub fn predicate(func: &mut Func, most: u32) -> u32 {
    if func.injected_by_hand || most == 0 {
        return 0;
    }
    let branches = func.blocks.iter().any(|block| matches!(block.end, Terminator::Branch(..)));
    if !branches {
        return 0;
    }
    let ways_in = func.ways_in();
    let short: Vec<Option<Short>> =
        (0..func.blocks.len()).map(|b| short(func, b, &ways_in, most as usize)).collect();
    if short.iter().all(Option::is_none) {
        return 0;
    }
    let live = Live::new(func);
    let mut needed = RegSet::new(func.regs.len());
    let mut gone = vec![false; func.blocks.len()];
    let mut made = 0;
    for (b, short) in short.into_iter().enumerate() {
        let Some(Short { arms, meet }) = short else { continue };
        made += 1;
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
    made
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

/// The arms of a block's branch, if the assembler would guard them.
fn short(func: &Func, b: BlockId, ways_in: &[u32], most: usize) -> Option<Short> {
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
    let mut all = 0;
    let (mut stores, mut loads, mut longest) = (0, 0, 0);
    for (i, (_, arm)) in arms.iter().enumerate() {
        let block = &func.blocks[*arm];
        // The first of two arms jumps over the other.
        let length = block.insts.len() + usize::from(i + 1 < arms.len());
        if length > WITH_LOADS.max(most) {
            return None;
        }
        all += length;
        longest = longest.max(length);
        for inst in &block.insts {
            count(1);
            let mut spoils = false;
            inst.for_writes(|own| spoils |= own == reg || func.fixed().contains(&Some(own)));
            if spoils || !allowed(inst) {
                return None;
            }
            stores += usize::from(inst.class == OpClass::Store);
            loads += usize::from(inst.class == OpClass::Load && is_global(inst));
        }
    }
    let fits = longest <= NESTED || loads > 0 && all <= WITH_LOADS || all <= most && outermost(func, b);
    (fits && stores <= STORES).then_some(Short { arms, meet })
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

/// True if every path of the function that does more than end passes the block, and none twice.
fn outermost(func: &Func, b: BlockId) -> bool {
    let mut seen = vec![false; func.blocks.len()];
    let ends = |block: &Block| matches!(block.end, Terminator::End(_));
    // From the entry without it.
    let mut open = if b == 0 { Vec::new() } else { vec![0] };
    while let Some(at) = open.pop() {
        count(1);
        if at == b || std::mem::replace(&mut seen[at], true) {
            continue;
        }
        if ends(&func.blocks[at]) && !func.blocks[at].insts.is_empty() {
            return false;
        }
        func.blocks[at].for_successors(|to| open.push(to));
    }
    // From it back to it.
    seen.fill(false);
    func.blocks[b].for_successors(|to| open.push(to));
    while let Some(at) = open.pop() {
        count(1);
        if at == b {
            return false;
        }
        if !std::mem::replace(&mut seen[at], true) {
            func.blocks[at].for_successors(|to| open.push(to));
        }
    }
    true
}

#[cfg(test)]
mod tests;
