//! Where constants and parameters lie. An instruction of machine code has room for one immediate or one word of constant
//! memory; PTX gives it as many as it likes. What finds no room is moved to a register first. From compute capability 9.0 on,
//! instructions name no constant memory: parameters are loaded, into uniform registers (ULDC) or those of the thread (LDC), and so
//! are words at fixed addresses (`parameters`).
//! Registers of the thread are filled where they are needed, in loops too, uniform ones in front of a loop (code of ptxas 12.9 for
//! sm_80 and sm_90).

use std::collections::{BTreeMap, BTreeSet};

use super::cfg::{Around, Dominance, Graph, components, natural_loops};
use super::ir::{Block, Func, Inst, Operand, PredOperand, Reg, Width};
use super::tf4_access_sizes;
use super::work::count;
use crate::chip::ConstantOperands;
use crate::form::Form;
use crate::isa::Root;
use crate::program::{Extra, OpClass, SpecialRegister, Text};
use sim_memory::vocabulary::{ScalarType, StateSpace};

/// Words of uniform registers that are filled in front of a loop, at the most: a warp has 63.
const UNIFORM_AROUND_A_LOOP: u32 = 48;

/// Blocks in which a constant is filled that are looked at for another, at the most.
const COMPARED: usize = 8;

/// A constant in a register: where it is filled, what it is, and in which kind of register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Need {
    block: usize,
    constant: Constant,
    uniform: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Constant {
    Immediate {
        bits: u64,
        wide: bool,
    },
    Parameter {
        offset: u32,
        wide: bool,
    },
    /// The size of a block or grid.
    Size(SpecialRegister),
}

impl Constant {
    /// What an operand names; zero is a register (RZ).
    fn of(operand: Operand) -> Option<Self> {
        match operand {
            Operand::Const { bits: 0, .. } => None,
            Operand::Const { bits, wide } => Some(Self::Immediate { bits, wide }),
            Operand::Parameter { offset, wide } => Some(Self::Parameter { offset, wide }),
            Operand::Special(size) if operand.is_size() => Some(Self::Size(size)),
            _ => None,
        }
    }

    fn width(self) -> Width {
        match self {
            Self::Immediate { wide: true, .. } | Self::Parameter { wide: true, .. } => Width::Pair,
            _ => Width::Word,
        }
    }
}

/// What a kernel begins with besides its own instructions: the stack pointer, and what else lies in uniform registers; then as many
/// for the `window` of shared memory, the first of which reads a number of the block. Nothing reads it here.
pub fn begin(func: &mut Func, instructions: u32, window: u32) {
    if !func.entry || func.injected_by_hand {
        return;
    }
    let line = func.blocks.first().and_then(|block| block.all().next()).map_or(0, |inst| inst.line);
    let computes = (1..window).map(|_| "base of shared memory");
    let first = computes.chain((0..instructions.saturating_add(window.min(1))).map(|_| "mov"));
    for text in first {
        let reg = func.register(Width::Word, true);
        let fill = fill(reg, Constant::Immediate { bits: 0, wide: false }, line);
        func.blocks[0].insts.insert(0, Inst { text: Text::Made(text), ..fill });
    }
}

/// An operand that names such a register.
struct Use {
    block: usize,
    inst: usize,
    slot: usize,
    need: Need,
}

/// Puts constants that find no room in an instruction into registers; returns how many instructions fill them.
pub fn constants(func: &mut Func, way: ConstantOperands) -> u32 {
    if way == ConstantOperands::Any || func.injected_by_hand {
        return 0;
    }
    let uses = uses(func, way);
    let held = held(func);
    let of_threads: BTreeSet<Need> = uses.iter().map(|one| one.need).filter(|need| !need.uniform).collect();
    // By need: the register, where in the block it is filled, and the line of the first instruction that reads it.
    let mut filled: BTreeMap<Need, (Reg, usize, u32)> = BTreeMap::new();
    for Use { block, inst: i, slot, need } in uses {
        // What is in a register of the thread in any case is not loaded to a uniform one too.
        let own = Need { uniform: false, ..need };
        let need = if of_threads.contains(&own) { own } else { need };
        // In front of a loop: behind all else.
        let at = if need.block == block { i } else { func.blocks[need.block].insts.len() };
        let reg = match held.get(&need.constant) {
            Some((reg, from)) if block > 0 || *from < i => *reg,
            _ => {
                let line = func.blocks[block].insts[i].line;
                let new = || (func.register(need.constant.width(), need.uniform), at, line);
                let (reg, first, _) = filled.entry(need).or_insert_with(new);
                *first = at.min(*first);
                *reg
            }
        };
        let inst = &mut func.blocks[block].insts[i];
        match slot.checked_sub(inst.src.len()) {
            None => inst.src[slot] = Operand::Reg(reg),
            Some(place) => inst.fragments[place] = Operand::Reg(reg),
        }
    }
    let mut places: BTreeMap<usize, Vec<(usize, Inst)>> = BTreeMap::new();
    let made = filled.len() as u32;
    for (need, (reg, at, line)) in filled {
        places.entry(need.block).or_default().push((at, fill(reg, need.constant, line)));
    }
    for (block, mut fills) in places {
        // Of one place in the order of the constants.
        fills.sort_by_key(|(at, _)| *at);
        let mut fills = fills.into_iter().peekable();
        let insts = std::mem::take(&mut func.blocks[block].insts);
        let out = &mut func.blocks[block].insts;
        for (i, inst) in insts.into_iter().enumerate() {
            while let Some((_, fill)) = fills.next_if(|(at, _)| *at <= i) {
                out.push(fill);
            }
            out.push(inst);
        }
        out.extend(fills.map(|(_, fill)| fill));
    }
    made
}

/// The operands that are registers filled with constants, those of a block behind those of the blocks that lead to it.
fn uses(func: &Func, way: ConstantOperands) -> Vec<Use> {
    let mut found = Vec::new();
    for (block, b) in func.blocks.iter().zip(0..) {
        for (inst, i) in block.insts.iter().zip(0..) {
            count(1);
            found.extend(in_registers(func, inst, way).into_iter().flatten().map(|need| (b, i, need)));
            // Fragments of matrices are registers.
            if let Extra::Mma(product) = &inst.extra {
                let [_, of_a, of_b, of_c, ..] = product.registers();
                let fragments = inst.fragments.iter().take(of_a + of_b + of_c).zip(inst.src.len()..);
                let constant =
                    |(operand, slot): (&Operand, usize)| Some((slot, Constant::of(*operand)?, false));
                found.extend(fragments.filter_map(constant).map(|need| (b, i, need)));
            }
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let graph: Graph = func.blocks.iter().map(|block| block.successors()).collect();
    let dominance = Dominance::new(&graph, 0);
    let homes = homes(&graph, &dominance);
    // Where loops cannot be told, each block is one.
    let loops = natural_loops(&graph, 0).ok();
    let within =
        loops.map_or_else(|| (0..graph.len()).collect(), |loops| Around::new(&loops, graph.len()).node);
    // Registers of a thread are filled once for all blocks of one loop that read them: in the nearest block that leads to all.
    let mut shared: BTreeMap<(Constant, usize), usize> = BTreeMap::new();
    for (b, i, (_, constant, uniform)) in &found {
        if !uniform && !late(&func.blocks[*b].insts[*i], *constant) && dominance.number[*b] != usize::MAX {
            let before = *shared.entry((*constant, within[*b])).or_insert(*b);
            shared.insert((*constant, within[*b]), dominance.common(before, *b));
        }
    }
    // Not in a loop on the way.
    for ((_, around), block) in &mut shared {
        while within[*block] != *around {
            count(1);
            let Some(before) = dominance.idom[*block] else { break };
            *block = before;
        }
    }
    // Uniform ones that a block fills serve those it leads to: by constant the blocks, the newest last.
    let mut filled: BTreeMap<Constant, Vec<usize>> = BTreeMap::new();
    // By block: words of the warp that are filled there for others.
    let mut words: BTreeMap<usize, u32> = BTreeMap::new();
    let mut uses = Vec::new();
    found.sort_by_key(|(b, i, _)| (dominance.number[*b], *i));
    for (b, i, (slot, constant, uniform)) in found {
        let mut block = b;
        if !uniform {
            let shared =
                shared.get(&(constant, within[b])).filter(|_| !late(&func.blocks[b].insts[i], constant));
            block = shared.copied().unwrap_or(b);
        } else if dominance.number[b] != usize::MAX {
            let home = homes[b];
            let blocks = filled.entry(constant).or_default();
            let own = constant.width().words();
            count(1);
            if let Some(from) = blocks.iter().rev().take(COMPARED).find(|from| dominance.dominates(**from, b))
            {
                block = *from;
            } else {
                let taken = words.entry(home).or_default();
                if home != b && *taken + own <= UNIFORM_AROUND_A_LOOP {
                    *taken += own;
                    block = home;
                }
                blocks.push(block);
            }
        }
        uses.push(Use { block: b, inst: i, slot, need: Need { block, constant, uniform } });
    }
    uses
}

/// Parameters that a register holds from a place of the first block on, as other operations read it.
fn held(func: &Func) -> BTreeMap<Constant, (Reg, usize)> {
    let mut writes = vec![0u32; func.regs.len()];
    let mut read = vec![false; func.regs.len()];
    for inst in func.blocks.iter().flat_map(Block::all) {
        count(1);
        inst.for_writes(|reg| writes[reg as usize] += 1);
        inst.for_reads(|reg| read[reg as usize] = true);
    }
    let fixed = func.fixed();
    let found = func.blocks[0].insts.iter().enumerate().filter_map(|(place, inst)| {
        let Operand::Reg(reg) = inst.dst[0] else { return None };
        let Operand::Parameter { offset, wide } = parameter(func, inst, reg)? else { return None };
        let only = writes[reg as usize] == 1 && read[reg as usize] && !fixed.contains(&Some(reg));
        only.then_some((Constant::Parameter { offset, wide }, (reg, place)))
    });
    found.collect()
}

/// By block: where registers for it are filled: there, or for a loop in the block through which all ways into the outermost one
/// lead.
fn homes(graph: &Graph, dominance: &Dominance) -> Vec<usize> {
    let mut homes: Vec<usize> = (0..graph.len()).collect();
    for (head, members) in components(graph, 0) {
        let repeats = members.len() > 1 || graph[head].contains(&head);
        if let Some(before) = dominance.idom[head].filter(|_| repeats) {
            members.into_iter().for_each(|block| homes[block] = before);
        }
    }
    homes
}

/// It is moved to a register in each block that needs it: parameters, and what addresses are multiplied by, which NVIDIA's assembler
/// finds behind the pass that shares constants between blocks.
fn late(inst: &Inst, constant: Constant) -> bool {
    is_address(inst) || matches!(constant, Constant::Parameter { .. })
}

/// A sum of 64 bits with a product of words that the lowering made of two instructions, as addresses are.
pub(super) fn is_address(inst: &Inst) -> bool {
    inst.text == Text::Made("mad.wide")
}

/// The constants of an instruction that are in registers: its operand, what it is, and whether the register is uniform.
fn in_registers(func: &Func, inst: &Inst, way: ConstantOperands) -> [Option<(usize, Constant, bool)>; 5] {
    let mut out = [None; 5];
    if inst.class != OpClass::Data || spans(inst.form.root) {
        return out;
    }
    // How far it is shifted is part of the operation, as is the table of `lop3`.
    let shifted = |slot| slot == 1 && inst.form.mods.shifted;
    let found = |slot: usize| {
        Constant::of(inst.src[slot]).filter(|_| !shifted(slot)).map(|constant| (slot, constant))
    };
    let operands = if inst.form.root == Root::Lop3 { 3 } else { inst.src.len() };
    let all = || (0..operands).filter_map(found);
    let is_parameter = |constant| !matches!(constant, Constant::Immediate { .. });
    let loaded = way == ConstantOperands::Loaded;
    // A uniform result has uniform operands.
    let own_uniform = matches!(inst.dst[0], Operand::Reg(reg) if func.is_uniform(reg));
    // The operand that has room is the size of a block or grid, or the parameter that is added, or the last immediate, or the last
    // parameter; where parameters are loaded, the last immediate before them.
    let size = inst.src.iter().position(Operand::is_size).filter(|_| !loaded);
    let added = all().any(|(slot, constant)| is_parameter(constant) && slot > 1);
    let mut immediates = all().filter(|(_, constant)| !is_parameter(*constant));
    let immediate = immediates.next_back().filter(|_| !added && !loaded).map(|(slot, _)| slot);
    let room = size.or(immediate).or_else(|| {
        all().max_by_key(|(slot, constant)| (is_parameter(*constant) != loaded, *slot)).map(|(slot, _)| slot)
    });
    for (slot, constant) in all() {
        let has_room = room == Some(slot);
        let uniform = own_uniform || has_room && loaded && is_parameter(constant);
        if !has_room || uniform {
            out[slot] = Some((slot, constant, uniform));
        }
    }
    out
}

/// Instructions of PTX that are copies, that pack small constants into one, or that several instructions of machine code stand
/// for, which the cost table counts.
pub(super) fn spans(root: Root) -> bool {
    matches!(root, Root::Mov | Root::Bfe | Root::Bfi | Root::Div | Root::Rem)
}

/// A load of a parameter that is an operand of machine code.
pub(super) fn parameter(func: &Func, inst: &Inst, reg: Reg) -> Option<Operand> {
    let Extra::Memory(facts) = &inst.extra else { return None };
    let wide = func.regs[reg as usize] == Width::Pair;
    let bytes = if wide { 8 } else { 4 };
    let whole = func.entry
        && inst.class == OpClass::LoadParam
        && inst.guard == PredOperand::Const(true)
        && func.regs[reg as usize] != Width::Half
        && inst.src[0] == Operand::None
        && facts.vector == 1
        && (facts.element_bytes, facts.reg_bits) == (bytes, 8 * bytes);
    let offset = u32::try_from(inst.imm).ok().filter(|_| whole)?;
    // What lies beyond them is told where it is loaded.
    (offset.checked_add(u32::from(bytes))? <= func.param_bytes).then_some(Operand::Parameter { offset, wide })
}

/// The instruction that fills a register.
fn fill(reg: Reg, constant: Constant, line: u32) -> Inst {
    let wide = constant.width() == Width::Pair;
    let ty = if wide { ScalarType::B64 } else { ScalarType::B32 };
    let mut inst = Inst::blank(Form::plain(Root::Mov, ty), PredOperand::Const(true));
    (inst.dst[0], inst.line, inst.text) = (Operand::Reg(reg), line, Text::Made("mov"));
    match constant {
        Constant::Immediate { bits, wide } => inst.src[0] = Operand::Const { bits, wide },
        Constant::Size(size) => inst.src[0] = Operand::Special(size),
        Constant::Parameter { offset, .. } => {
            inst.form = Form::plain(Root::Ld, ty);
            inst.form.mods.space = Some(StateSpace::Param);
            inst.class = OpClass::LoadParam;
            inst.imm = offset.into();
            let bits = ty.bits() as u8;
            inst.extra = Extra::Memory(tf4_access_sizes::facts(&inst.form, StateSpace::Param, bits, false));
            inst.text = Text::Made("ld.param");
        }
    }
    inst
}

#[cfg(test)]
mod tests;
