//! What NVIDIA's assembler does to every program between PTX and machine code, as far as it changes
//! how many instructions there are: copies propagate, additions go into the addresses they are made for,
//! and what nobody reads goes. Off where a chip runs PTX as it is written (`assembler.clean_up`).
//!
//! Copies and additions are followed by a data-flow analysis of what holds on every path to an operation
//! (available expressions), so that it does not matter how often a register is written.

use serde::Serialize;

use super::cfg::reverse;
use super::ir::{Block, Func, Inst, Operand, PredOperand, Reg, Width};
use super::liveness::{live_out, step_back};
use crate::isa::Root;
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::{ScalarType, StateSpace};

/// What it did to the functions of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CleanUp {
    /// Instructions before.
    pub before: u32,
    /// Instructions after.
    pub after: u32,
    /// Operands that now name what was copied.
    pub copies: u32,
    /// Addresses that took in an addition.
    pub addresses: u32,
}

impl CleanUp {
    /// Adds another function's.
    pub fn add(&mut self, other: &Self) {
        self.before += other.before;
        self.after += other.after;
        self.copies += other.copies;
        self.addresses += other.addresses;
    }
}

/// Offsets of addresses that machine code has room for: 24 bits with a sign.
const OFFSETS: std::ops::Range<i64> = -(1 << 23)..1 << 23;

/// Bits of the analysis at most; beyond, blocks are looked at one by one.
const MOST_BITS: usize = 1 << 26;

/// Looks at facts in one walk over a function at most: text that copies to and from few registers tens of
/// thousands of times is left as it is.
const MOST_LOOKS: u64 = 1 << 25;

/// Passes over a function at most: each finds what the one before made possible.
const PASSES: u32 = 8;

/// Cleans a function up.
pub fn clean_up(func: &mut Func) -> CleanUp {
    let count = |func: &Func| func.blocks.iter().map(|block| block.all().count() as u32).sum();
    let before = count(func);
    let mut done = CleanUp { before, after: before, ..CleanUp::default() };
    if func.injected_by_hand {
        // Its control flow leads where the graph does not say.
        return done;
    }
    for _ in 0..PASSES {
        let replaced = propagate(func);
        let removed = remove_dead(func);
        done.copies += replaced.copies;
        done.addresses += replaced.addresses;
        if replaced == CleanUp::default() && removed == 0 {
            break;
        }
    }
    done.after = count(func);
    done
}

/// What a register is known to hold: `base`, if there is one, plus `addend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fact {
    reg: Reg,
    base: Option<Reg>,
    addend: i64,
    /// A constant that an instruction has room for.
    constant: Option<Operand>,
}

/// What an instruction makes known.
fn fact(func: &Func, inst: &Inst) -> Option<Fact> {
    let Operand::Reg(reg) = inst.dst[0] else { return None };
    let alone = inst.dst[1..].iter().all(|o| *o == Operand::None)
        && inst.pdst.iter().chain(&inst.psrc).all(|p| *p == PredOperand::None);
    if inst.class != OpClass::Data || inst.guard != PredOperand::Const(true) || !alone {
        return None;
    }
    // The frame's base moves at calls.
    let fixed = [func.stack_base, func.taken, func.carry];
    let same_width = |other: Reg| func.regs[other as usize] == func.regs[reg as usize];
    let usable = |other: Reg| other != reg && same_width(other) && !fixed.contains(&Some(other));
    if fixed.contains(&Some(reg)) {
        return None;
    }
    let none = |operands: &[Operand]| operands.iter().all(|o| *o == Operand::None);
    match inst.form.root {
        Root::Mov if none(&inst.src[1..]) => match inst.src[0] {
            Operand::Reg(base) if usable(base) => {
                Some(Fact { reg, base: Some(base), addend: 0, constant: None })
            }
            constant @ Operand::Const { bits, wide: false } if func.regs[reg as usize] == Width::Word => {
                Some(Fact { reg, base: None, addend: i64::from(bits as u32), constant: Some(constant) })
            }
            Operand::Const { bits, wide: true } if func.regs[reg as usize] == Width::Pair => {
                Some(Fact { reg, base: None, addend: bits as i64, constant: None })
            }
            _ => None,
        },
        // Generic addresses of global memory are its own.
        Root::Cvta if inst.form.mods.space == Some(StateSpace::Global) && none(&inst.src[1..]) => {
            match inst.src[0] {
                Operand::Reg(base) if usable(base) => {
                    Some(Fact { reg, base: Some(base), addend: 0, constant: None })
                }
                _ => None,
            }
        }
        Root::Add if none(&inst.src[2..]) && !inst.form.mods.sat => {
            let whole = [ScalarType::S32, ScalarType::U32, ScalarType::S64, ScalarType::U64];
            let (base, bits) = match (inst.src[0], inst.src[1]) {
                (Operand::Reg(base), Operand::Const { bits, .. })
                | (Operand::Const { bits, .. }, Operand::Reg(base)) => (base, bits),
                _ => return None,
            };
            let long = matches!(inst.form.ty, ScalarType::S64 | ScalarType::U64);
            let addend = if long { bits as i64 } else { i64::from(bits as i32) };
            let fits = whole.contains(&inst.form.ty) && usable(base);
            fits.then_some(Fact { reg, base: Some(base), addend, constant: None })
        }
        _ => None,
    }
}

/// The facts that hold at a place, by number.
#[derive(Clone, PartialEq, Eq)]
struct Known(Vec<u64>);

impl Known {
    fn set(&mut self, fact: usize) {
        self.0[fact / 64] |= 1 << (fact % 64);
    }

    fn clear(&mut self, fact: usize) {
        self.0[fact / 64] &= !(1 << (fact % 64));
    }

    fn has(&self, fact: usize) -> bool {
        self.0[fact / 64] >> (fact % 64) & 1 == 1
    }
}

/// All facts of a function.
struct Facts {
    list: Vec<Fact>,
    /// By register: facts that end where it is written.
    ended_by: Vec<Vec<u32>>,
    /// By register: facts about it.
    about: Vec<Vec<u32>>,
    /// By block and instruction: what it makes known.
    made: Vec<Vec<Option<u32>>>,
}

impl Facts {
    fn of(func: &Func) -> Self {
        let registers = func.regs.len();
        let mut facts = Self {
            list: Vec::new(),
            ended_by: vec![Vec::new(); registers],
            about: vec![Vec::new(); registers],
            made: Vec::new(),
        };
        for block in &func.blocks {
            let made = block.insts.iter().map(|inst| {
                let found = fact(func, inst)?;
                let number = facts.list.len() as u32;
                facts.list.push(found);
                facts.about[found.reg as usize].push(number);
                for reg in [Some(found.reg), found.base].into_iter().flatten() {
                    facts.ended_by[reg as usize].push(number);
                }
                Some(number)
            });
            let made = made.collect();
            facts.made.push(made);
        }
        facts
    }

    /// How often one walk over the function looks at a fact.
    fn looks(&self, func: &Func) -> u64 {
        let mut looks = 0;
        for inst in func.blocks.iter().flat_map(Block::all) {
            inst.for_writes(|reg| looks += self.ended_by[reg as usize].len() as u64);
            inst.for_reads(|reg| looks += self.about[reg as usize].len() as u64);
        }
        looks
    }

    fn none(&self) -> Known {
        Known(vec![0; self.list.len().div_ceil(64)])
    }

    /// What is known behind an instruction.
    fn step(&self, known: &mut Known, inst: &Inst, made: Option<u32>) {
        inst.for_writes(|reg| {
            for ended in &self.ended_by[reg as usize] {
                known.clear(*ended as usize);
            }
        });
        if let Some(made) = made {
            known.set(made as usize);
        }
    }

    fn through(&self, block: &Block, made: &[Option<u32>], known: &mut Known) {
        for (inst, made) in block.insts.iter().zip(made) {
            self.step(known, inst, *made);
        }
        if let Some(last) = block.last() {
            self.step(known, last, None);
        }
    }

    /// What holds at the beginning of each block, whichever way it was reached.
    fn before(&self, func: &Func) -> Vec<Known> {
        let blocks = func.blocks.len();
        if blocks * self.list.len() > MOST_BITS {
            return vec![self.none(); blocks];
        }
        let graph: Vec<Vec<usize>> = func.blocks.iter().map(Block::successors).collect();
        let predecessors = reverse(&graph);
        let all = Known(vec![u64::MAX; self.list.len().div_ceil(64)]);
        let mut before = vec![all.clone(); blocks];
        let mut behind = vec![all; blocks];
        let mut changed = true;
        while changed {
            changed = false;
            for b in 0..blocks {
                let mut known = match predecessors[b].split_first() {
                    // The entry is reached from outside too.
                    Some((first, rest)) if b != 0 => {
                        let mut known = behind[*first].clone();
                        for other in rest {
                            known.0.iter_mut().zip(&behind[*other].0).for_each(|(a, b)| *a &= b);
                        }
                        known
                    }
                    _ => self.none(),
                };
                before[b].clone_from(&known);
                self.through(&func.blocks[b], &self.made[b], &mut known);
                changed |= known != behind[b];
                behind[b] = known;
            }
        }
        before
    }

    /// What is known of a register.
    fn about<'f>(&'f self, known: &'f Known, reg: Reg) -> impl Iterator<Item = &'f Fact> {
        let numbers = self.about[reg as usize].iter().map(|number| *number as usize);
        numbers.filter(|number| known.has(*number)).map(|number| &self.list[number])
    }
}

/// Operands name what was copied; addresses take in what was added.
fn propagate(func: &mut Func) -> CleanUp {
    let mut done = CleanUp::default();
    let facts = Facts::of(func);
    if facts.list.is_empty() || facts.looks(func) > MOST_LOOKS {
        return done;
    }
    let before = facts.before(func);
    for ((block, made), mut known) in func.blocks.iter_mut().zip(&facts.made).zip(before) {
        for (inst, made) in block.insts.iter_mut().zip(made) {
            replace(inst, &facts, &known, &mut done);
            facts.step(&mut known, inst, *made);
        }
        if let Some(last) = block.end.inst_mut() {
            replace(last, &facts, &known, &mut done);
        }
    }
    done
}

/// Puts into an instruction what is known of its operands.
fn replace(inst: &mut Inst, facts: &Facts, known: &Known, done: &mut CleanUp) {
    let address = matches!(inst.class, OpClass::Load | OpClass::Store | OpClass::Atomic | OpClass::Hint)
        && matches!(inst.extra, Extra::Memory(_));
    for slot in 0..inst.src.len() {
        let Operand::Reg(reg) = inst.src[slot] else { continue };
        for found in facts.about(known, reg) {
            if let Some(base) = found.base.filter(|_| found.addend == 0) {
                inst.src[slot] = Operand::Reg(base);
                done.copies += 1;
                break;
            }
            if address && slot == 0 {
                let least = if found.base.is_some() { OFFSETS.start } else { 0 };
                let Some(offset) =
                    inst.imm.checked_add(found.addend).filter(|at| (least..OFFSETS.end).contains(at))
                else {
                    continue;
                };
                inst.src[0] = found.base.map_or(Operand::None, Operand::Reg);
                inst.imm = offset;
                done.addresses += 1;
                break;
            }
            if let Some(constant) = found.constant.filter(|_| inst.class == OpClass::Data) {
                inst.src[slot] = constant;
                done.copies += 1;
                break;
            }
        }
    }
}

/// Removes what computes only what nobody reads; gives how many instructions.
fn remove_dead(func: &mut Func) -> usize {
    let mut removed = 0;
    // Calls and frames read these without naming them.
    let fixed = [func.stack_base, func.taken, func.carry];
    for (b, mut live) in live_out(func).into_iter().enumerate() {
        if let Some(last) = func.blocks[b].last() {
            step_back(&mut live, last);
        }
        let insts = &func.blocks[b].insts;
        let mut keep = vec![true; insts.len()];
        for (inst, keep) in insts.iter().zip(&mut keep).rev() {
            let (mut writes, mut read) = (false, false);
            inst.for_writes(|reg| {
                writes = true;
                read |= live.contains(reg) || fixed.contains(&Some(reg));
            });
            // Loads of memory stay: they may fault, and others see them.
            let pure = matches!(inst.class, OpClass::Data | OpClass::LoadParam);
            // Copied onto itself.
            let itself = matches!(inst.dst[0], Operand::Reg(_))
                && inst.src[0] == inst.dst[0]
                && inst.form.root == Root::Mov;
            *keep = !(pure && writes && (!read || (itself && inst.class == OpClass::Data)));
            if *keep {
                step_back(&mut live, inst);
            }
        }
        let mut keep = keep.into_iter();
        let block = &mut func.blocks[b];
        let before = block.insts.len();
        block.insts.retain(|_| keep.next().unwrap_or(true));
        removed += before - block.insts.len();
    }
    removed
}

#[cfg(test)]
mod tests;
