//! Where values of constant memory are loaded, and in which registers they lie, as NVIDIA's assembler places them (code of ptxas 12.9
//! and 13 for sm_52 to sm_90): what is left of loads of parameters once operations name them is done in the nearest block that leads
//! to all that read it; words at fixed addresses are operands; on compute capability 7.5 addresses that are the same for all threads
//! lie in uniform registers.

use std::collections::BTreeMap;

use super::cfg::{Around, Dominance, Graph, natural_loops};
use super::constants::{is_address, parameter, spans};
use super::ir::{Block, Func, Inst, Operand, PredOperand, Reg};
use super::work::count;
use crate::chip::{AssemblerSpec, ConstantOperands};
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::StateSpace;

/// Words of uniform registers that are given out at the most: a warp has 63, of which loops fill others.
const UNIFORM: u32 = 32;

/// Moves loads of parameters, and says which values take no registers of a thread.
pub fn place(func: &mut Func, passes: AssemblerSpec) {
    if passes.constant_operands == ConstantOperands::Any || func.injected_by_hand {
        return;
    }
    sink(func);
    operands(func);
    if passes.uniform_addresses {
        addresses(func);
    }
}

/// Parameters that no operation has room for are loaded in the nearest block that leads to all that read them, in front of loops.
fn sink(func: &mut Func) {
    let mut writes = vec![0u32; func.regs.len()];
    func.blocks.iter().flat_map(Block::all).for_each(|inst| inst.for_writes(|reg| writes[reg as usize] += 1));
    let fixed = func.fixed();
    let loaded = |inst: &Inst| {
        let Operand::Reg(reg) = inst.dst[0] else { return None };
        let only = writes[reg as usize] == 1 && !fixed.contains(&Some(reg));
        (only && parameter(func, inst, reg).is_some()).then_some(reg)
    };
    let places: BTreeMap<Reg, usize> =
        func.blocks[0].insts.iter().enumerate().filter_map(|(i, inst)| Some((loaded(inst)?, i))).collect();
    if places.is_empty() || func.blocks.len() == 1 {
        return;
    }
    let graph: Graph = func.blocks.iter().map(|block| block.successors()).collect();
    let Ok(loops) = natural_loops(&graph, 0) else { return };
    let dominance = Dominance::new(&graph, 0);
    let within = Around::new(&loops, graph.len()).node;
    let mut homes: BTreeMap<Reg, usize> = BTreeMap::new();
    for (block, b) in func.blocks.iter().zip(0..).filter(|(_, b)| dominance.number[*b] != usize::MAX) {
        for inst in block.all() {
            count(1);
            inst.for_reads(|reg| {
                if places.contains_key(&reg) {
                    let home = homes.entry(reg).or_insert(b);
                    *home = dominance.common(*home, b);
                }
            });
        }
    }
    // By block: the registers that are loaded there, with the places of their loads.
    let mut moved: BTreeMap<usize, BTreeMap<Reg, usize>> = BTreeMap::new();
    for (reg, mut home) in homes {
        while within[home] != within[0] {
            count(1);
            let Some(before) = dominance.idom[home] else { break };
            home = before;
        }
        if home != 0 {
            moved.entry(home).or_default().insert(reg, places[&reg]);
        }
    }
    if moved.is_empty() {
        return;
    }
    let mut insts: Vec<Option<Inst>> =
        std::mem::take(&mut func.blocks[0].insts).into_iter().map(Some).collect();
    for (home, mut loads) in moved {
        let mut out = Vec::with_capacity(func.blocks[home].insts.len() + loads.len());
        for inst in std::mem::take(&mut func.blocks[home].insts) {
            // In front of the first that reads it.
            count(1);
            inst.for_reads(|reg| out.extend(loads.remove(&reg).and_then(|place| insts[place].take())));
            out.push(inst);
        }
        out.extend(loads.into_values().filter_map(|place| insts[place].take()));
        func.blocks[home].insts = out;
    }
    func.blocks[0].insts = insts.into_iter().flatten().collect();
}

/// Words of constant memory at a fixed address that operations read are operands of machine code: they take no register of the thread.
fn operands(func: &mut Func) {
    // What functions that are called hold in uniform registers is not told from what their threads hold.
    if !func.entry {
        return;
    }
    let is_word = |inst: &Inst| {
        let Extra::Memory(facts) = &inst.extra else { return false };
        inst.class == OpClass::Load
            && facts.space == StateSpace::Const
            && !matches!(inst.src[0], Operand::Reg(_))
            && inst.guard == PredOperand::Const(true)
            && facts.vector == 1
            && facts.element_bytes == 4
    };
    // What reads it has no other constant.
    let has_room = |inst: &Inst, _: Reg| {
        let registers = inst.src.iter().all(|operand| matches!(operand, Operand::Reg(_) | Operand::None));
        inst.class == OpClass::Data && !spans(inst.form.root) && registers
    };
    let uniform = written_and_read_by(func, is_word, has_room);
    set_uniform(func, &uniform);
}

/// Parameters, and sums of products of parameters and immediates, that are addresses alone lie in uniform registers.
fn addresses(func: &mut Func) {
    let constant = |operand: &Operand| matches!(operand, Operand::Const { .. } | Operand::Parameter { .. });
    if !func.entry {
        return;
    }
    let is_sum = |inst: &Inst| match inst.class {
        OpClass::LoadParam => inst.src[0] == Operand::None,
        _ => is_address(inst) && inst.src[..3].iter().all(constant),
    };
    let is_base = |inst: &Inst, reg: Reg| {
        let access = matches!(inst.class, OpClass::Load | OpClass::Store | OpClass::Atomic);
        let data = inst.sources().skip(1).any(|operand| *operand == Operand::Reg(reg));
        access && inst.src[0] == Operand::Reg(reg) && !data
    };
    let uniform = written_and_read_by(func, is_sum, is_base);
    set_uniform(func, &uniform);
}

/// By register: such instructions write it, and no others, and none but the other kind reads it, which reads no second one. No more
/// words than [`UNIFORM`].
fn written_and_read_by(
    func: &Func,
    writes: impl Fn(&Inst) -> bool,
    reads: impl Fn(&Inst, Reg) -> bool,
) -> Vec<bool> {
    let (mut found, mut others) = (vec![false; func.regs.len()], vec![false; func.regs.len()]);
    for inst in func.blocks.iter().flat_map(Block::all) {
        count(1);
        let own = writes(inst);
        inst.for_writes(|reg| if own { found[reg as usize] = true } else { others[reg as usize] = true });
    }
    func.fixed().into_iter().flatten().for_each(|reg| others[reg as usize] = true);
    for inst in func.blocks.iter().flat_map(Block::all) {
        inst.for_reads(|reg| others[reg as usize] |= found[reg as usize] && !reads(inst, reg));
    }
    for inst in func.blocks.iter().flat_map(Block::all) {
        let mut read = 0;
        inst.for_reads(|reg| {
            read += u32::from(found[reg as usize] && !others[reg as usize]);
            others[reg as usize] |= read > 1;
        });
    }
    let mut words = 0;
    let mut fits = |reg: usize| {
        words += func.regs[reg].words();
        words <= UNIFORM
    };
    (0..found.len()).map(|reg| found[reg] && !others[reg] && fits(reg)).collect()
}

fn set_uniform(func: &mut Func, more: &[bool]) {
    if more.contains(&true) {
        func.uniform.resize(func.regs.len(), false);
        func.uniform.iter_mut().zip(more).for_each(|(uniform, more)| *uniform |= more);
    }
}

#[cfg(test)]
mod tests;
