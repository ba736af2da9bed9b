//! Each value of a basic block has a register of its own, as in the form in which NVIDIA's assembler works (static single
//! assignment within a block): what a register held before does not bind when the next value is computed, nor in which row it lies.

use rustc_hash::FxHashMap;

use super::ir::{Func, Inst, Operand, PredOperand, Reg};
use super::work::count;

/// Registers that a block writes several times have other names until the last of these writes. Sums of
/// matrices stay where they are, as `wgmma` adds in place.
pub fn rename(func: &mut Func) {
    if func.injected_by_hand {
        return;
    }
    let fixed = func.fixed();
    // By register: how many instructions of the block write it whatever it held.
    let mut left: FxHashMap<Reg, u32> = FxHashMap::default();
    // By register: where its value lies.
    let mut holds: FxHashMap<Reg, Reg> = FxHashMap::default();
    for b in 0..func.blocks.len() {
        left.clear();
        for inst in func.blocks[b].insts.iter().filter(|inst| !inst.keeps()) {
            for_each_written(inst, |reg| *left.entry(reg).or_default() += 1);
        }
        for operand in func.blocks[b].insts.iter().flat_map(|inst| &inst.results) {
            if let Operand::Reg(reg) = operand {
                left.remove(reg);
            }
        }
        left.retain(|reg, writes| *writes > 1 && !fixed.contains(&Some(*reg)));
        if left.is_empty() {
            continue;
        }
        holds.clear();
        // Where the block ends each has its own name again.
        let mut insts = std::mem::take(&mut func.blocks[b].insts);
        for inst in &mut insts {
            count(1);
            let mut names: Vec<(Reg, Reg)> = Vec::new();
            // Lanes whose guard is false keep what there was.
            let keeps = inst.keeps();
            for_each_written(inst, |reg| {
                if keeps {
                    names.extend(holds.get(&reg).map(|to| (reg, *to)));
                } else if let Some(writes) = left.get_mut(&reg) {
                    *writes -= 1;
                    let last = *writes == 0;
                    let mut new = || func.register(func.regs[reg as usize], func.is_uniform(reg));
                    names.push((reg, if last { reg } else { new() }));
                }
            });
            rename_reads(inst, &holds);
            rename_writes(inst, &names);
            names.into_iter().for_each(|(reg, to)| {
                holds.insert(reg, to);
            });
        }
        func.blocks[b].insts = insts;
    }
}

/// The registers that an instruction writes, each once: `{a, a}` has one name.
fn for_each_written(inst: &Inst, mut each: impl FnMut(Reg)) {
    let mut seen: Vec<Reg> = Vec::new();
    inst.for_writes(|reg| {
        if !seen.contains(&reg) {
            seen.push(reg);
            each(reg);
        }
    });
}

/// Reads registers by other names, those of `holds`.
pub(super) fn rename_reads(inst: &mut Inst, holds: &FxHashMap<Reg, Reg>) {
    for operand in inst.src.iter_mut().chain(&mut inst.fragments) {
        if let Operand::Reg(reg) = operand {
            *reg = holds.get(reg).copied().unwrap_or(*reg);
        }
    }
    for pred in inst.psrc.iter_mut().chain([&mut inst.guard]) {
        if let PredOperand::Reg(reg, _) = pred {
            *reg = holds.get(reg).copied().unwrap_or(*reg);
        }
    }
}

/// Writes registers by other names: old and new ones.
pub(super) fn rename_writes(inst: &mut Inst, names: &[(Reg, Reg)]) {
    let renamed = |reg: Reg| names.iter().find(|(old, _)| *old == reg).map_or(reg, |(_, new)| *new);
    for operand in inst.dst.iter_mut().chain(&mut inst.results) {
        if let Operand::Reg(reg) = operand {
            *reg = renamed(*reg);
        }
    }
    for pred in &mut inst.pdst {
        if let PredOperand::Reg(reg, _) = pred {
            *reg = renamed(*reg);
        }
    }
}

#[cfg(test)]
mod tests;
