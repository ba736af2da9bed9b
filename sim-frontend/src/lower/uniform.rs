//! What is the same for all threads of a warp: registers, and the branches that therefore need no injected control
//! flow.

use super::ir::{Func, Inst, Operand, PredOperand, Reg, Terminator};
use super::work::count;
use crate::program::OpClass;

/// The instructions that write a register.
#[derive(Clone, Copy)]
enum Definition<'f> {
    None,
    One(&'f Inst),
    Many,
}

/// The registers of a function that are the same for all threads of a warp: those with one definition from constants,
/// parameters and block-uniform special registers, through registers of the same kind.
pub struct Uniform(Vec<bool>);

impl Uniform {
    /// Those of `func`.
    pub fn new(func: &Func) -> Self {
        let mut definitions: Vec<Definition<'_>> = vec![Definition::None; func.regs.len()];
        for inst in func.blocks.iter().flat_map(|b| b.all()) {
            inst.for_writes(|reg| {
                let definition = &mut definitions[reg as usize];
                *definition = match definition {
                    Definition::None => Definition::One(inst),
                    _ => Definition::Many,
                };
            });
        }
        Self(uniform_registers(&definitions))
    }

    /// Whether an operand has one value for all threads of a warp.
    pub fn operand(&self, operand: &Operand) -> bool {
        match operand {
            Operand::None
            | Operand::Const { .. }
            | Operand::Parameter { .. }
            | Operand::Link { .. }
            | Operand::Function(..) => true,
            Operand::Special(special) => !special.differs_by_lane(),
            Operand::Reg(reg) => self.0[*reg as usize],
        }
    }

    fn guard(&self, guard: PredOperand) -> bool {
        match guard {
            PredOperand::Reg(reg, _) => self.0[reg as usize],
            _ => true,
        }
    }
}

/// For each block, whether its branch is the same for all threads of a warp.
pub fn uniform_branches(func: &Func) -> Vec<bool> {
    if !func.blocks.iter().any(|block| matches!(block.end, Terminator::Branch(..) | Terminator::Indirect(..)))
    {
        return vec![true; func.blocks.len()];
    }
    let uniform = Uniform::new(func);
    let branch = |end: &Terminator| match end {
        Terminator::Branch(inst, ..) => uniform.guard(inst.guard),
        Terminator::Indirect(inst, _) => {
            inst.guard == PredOperand::Const(true) && uniform.operand(&inst.src[0])
        }
        _ => true,
    };
    func.blocks.iter().map(|block| branch(&block.end)).collect()
}

/// Registers that are made of uniform ones only, those first that are made of none.
fn uniform_registers(definitions: &[Definition<'_>]) -> Vec<bool> {
    let n = definitions.len();
    // By register: how many of those it is made of are not known to be uniform; and a list of the
    // registers made of it, as the place of its first one, each with the place of the next.
    let mut unknown = vec![0u32; n];
    let mut first = vec![u32::MAX; n];
    let mut made_of: Vec<(u32, Reg)> = Vec::new();
    let mut open: Vec<Reg> = Vec::new();
    for (definition, reg) in definitions.iter().zip(0..) {
        let Definition::One(inst) = definition else { continue };
        let differs = |o: &Operand| matches!(o, Operand::Special(special) if special.differs_by_lane());
        let pure = matches!(inst.class, OpClass::Data | OpClass::LoadParam)
            && inst.guard == PredOperand::Const(true)
            && !inst.src.iter().any(differs);
        if !pure {
            continue;
        }
        inst.for_reads(|read| {
            unknown[reg as usize] += 1;
            made_of.push((std::mem::replace(&mut first[read as usize], made_of.len() as u32), reg));
        });
        if unknown[reg as usize] == 0 {
            open.push(reg);
        }
    }
    let mut uniform = vec![false; n];
    while let Some(reg) = open.pop() {
        uniform[reg as usize] = true;
        let mut next = first[reg as usize];
        while let Some(&(after, user)) = made_of.get(next as usize) {
            count(1);
            next = after;
            unknown[user as usize] -= 1;
            if unknown[user as usize] == 0 {
                open.push(user);
            }
        }
    }
    uniform
}
