//! Branches that need no injected control flow, since all threads of a warp go the same way.

use crate::lower::ir::{Func, Inst, Operand, PredOperand, Terminator};
use crate::program::OpClass;

/// The instructions that write a register.
#[derive(Clone, Copy)]
enum Definition<'f> {
    None,
    One(&'f Inst),
    Many,
}

/// For each block, whether its branch is the same for all threads of a warp: its condition is a
/// register with one definition from constants, parameters and block-uniform special registers,
/// through registers of the same kind.
pub(super) fn uniform_branches(func: &Func) -> Vec<bool> {
    let n = func.regs.len();
    if !func.blocks.iter().any(|block| matches!(block.end, Terminator::Branch(..) | Terminator::Indirect(..)))
    {
        return vec![true; func.blocks.len()];
    }
    let mut definitions: Vec<Definition<'_>> = vec![Definition::None; n];
    for inst in func.blocks.iter().flat_map(|b| b.all()) {
        inst.for_writes(|reg| {
            let definition = &mut definitions[reg as usize];
            *definition = match definition {
                Definition::None => Definition::One(inst),
                _ => Definition::Many,
            };
        });
    }
    let mut uniform = vec![false; n];
    let operand = |o: &Operand, uniform: &[bool]| match o {
        Operand::None | Operand::Const { .. } | Operand::Link { .. } | Operand::Function(..) => true,
        Operand::Special(special) => !special.differs_by_lane(),
        Operand::Reg(reg) => uniform[*reg as usize],
    };
    let pred = |p: &PredOperand, uniform: &[bool]| match p {
        PredOperand::Reg(reg, _) => uniform[*reg as usize],
        _ => true,
    };
    loop {
        let mut changed = false;
        for reg in 0..n {
            let Definition::One(inst) = definitions[reg] else { continue };
            if uniform[reg] {
                continue;
            }
            let pure = matches!(inst.class, OpClass::Data | OpClass::LoadParam)
                && inst.guard == PredOperand::Const(true);
            if pure
                && inst.src.iter().all(|o| operand(o, &uniform))
                && inst.psrc.iter().all(|p| pred(p, &uniform))
            {
                uniform[reg] = true;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    func.blocks
        .iter()
        .map(|block| match &block.end {
            Terminator::Branch(inst, ..) => pred(&inst.guard, &uniform),
            Terminator::Indirect(inst, _) => {
                inst.guard == PredOperand::Const(true) && operand(&inst.src[0], &uniform)
            }
            _ => true,
        })
        .collect()
}
