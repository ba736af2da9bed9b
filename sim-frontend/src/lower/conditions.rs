//! Guards that test what a predicate selected: `selp.u32 r, 1, 0, p; setp.ne.u32 q, r, 0; @q bra` is `@p bra`. Compilers write it
//! where a condition comes as a number, as from inline assembly.

use super::ir::{Block, Func, Inst, Operand, PredOperand, Reg};
use super::work::count;
use crate::form::CmpOp;
use crate::isa::Root;
use crate::program::OpClass;

/// By register: the block that wrote it last, and where in it.
type Last = Vec<(usize, usize)>;

/// Puts the predicates in the place of such guards; returns how many. What nobody reads any more stays.
pub fn conditions(func: &mut Func) -> u32 {
    let selects = |inst: &Inst| selection(inst).is_some();
    if func.injected_by_hand || !func.blocks.iter().flat_map(|block| &block.insts).any(selects) {
        return 0;
    }
    let mut last: Last = vec![(usize::MAX, 0); func.regs.len()];
    let mut made = 0;
    for (b, block) in func.blocks.iter_mut().enumerate() {
        let end = block.insts.len();
        for i in 0..=end {
            count(1);
            let inst = if i < end { Some(&block.insts[i]) } else { block.last() };
            let Some(guard) = inst.map(|inst| inst.guard) else { continue };
            if let Some(condition) = condition(block, b, &last, guard) {
                let inst = if i < end { Some(&mut block.insts[i]) } else { block.end.inst_mut() };
                if let Some(inst) = inst {
                    (inst.guard, inst.opcode) = (condition, None);
                    made += 1;
                }
            }
            if i < end {
                block.insts[i].for_writes(|reg| last[reg as usize] = (b, i));
            }
        }
    }
    made
}

/// What a guard of a block comes to, if it is a predicate that still has its value.
fn condition(block: &Block, b: usize, last: &Last, guard: PredOperand) -> Option<PredOperand> {
    let at = |reg: Reg| Some(last[reg as usize]).filter(|(block, _)| *block == b).map(|(_, place)| place);
    let PredOperand::Reg(reg, negated) = guard else { return None };
    let tests = at(reg)?;
    let (equal, value, compared) = test_of(&block.insts[tests])?;
    let place = at(value).filter(|place| *place < tests)?;
    let (predicate, inverse, [yes, no]) = selection(&block.insts[place])?;
    // Nothing wrote it since.
    if at(predicate).is_some_and(|written| written >= place) || yes == no {
        return None;
    }
    // True where the test is true for what is selected by a true predicate.
    let straight = match (yes == compared, no == compared) {
        (true, false) => equal,
        (false, true) => !equal,
        _ => return None,
    };
    Some(PredOperand::Reg(predicate, negated ^ !straight ^ inverse))
}

/// A selection between two constants of 32 bits: the predicate, whether it is negated, and the constants.
fn selection(inst: &Inst) -> Option<(Reg, bool, [u32; 2])> {
    let plain = inst.class == OpClass::Data
        && inst.form.root == Root::Selp
        && inst.form.ty.bits() == 32
        && inst.guard == PredOperand::Const(true);
    match (inst.src[0], inst.src[1], inst.psrc[0]) {
        (
            Operand::Const { bits: yes, .. },
            Operand::Const { bits: no, .. },
            PredOperand::Reg(reg, negated),
        ) if plain => Some((reg, negated, [yes as u32, no as u32])),
        _ => None,
    }
}

/// A comparison with a constant: whether it is one for equality, the register, and the constant.
fn test_of(inst: &Inst) -> Option<(bool, Reg, u32)> {
    let equal = match inst.form.mods.cmp? {
        CmpOp::Eq => true,
        CmpOp::Ne => false,
        _ => return None,
    };
    let whole = inst.form.ty.bits() == 32 && (inst.form.ty.is_integer() || inst.form.ty.is_bits());
    let plain = inst.class == OpClass::Data
        && inst.form.root == Root::Setp
        && whole
        && inst.form.mods.bool_op.is_none()
        && inst.pdst[1] == PredOperand::None
        && inst.guard == PredOperand::Const(true);
    match (inst.src[0], inst.src[1]) {
        (Operand::Reg(reg), Operand::Const { bits, .. }) if plain => Some((equal, reg, bits as u32)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
