//! What NVIDIA's assembler does to every program between PTX and machine code, as far as it changes
//! how many instructions there are: copies propagate, additions go into the addresses they are made for,
//! and what nobody reads goes. Off where a chip runs PTX as it is written (`assembler.clean_up`).
//!
//! Copies and additions are followed by a data-flow analysis of what holds on every path to an operation
//! (available expressions), so that it does not matter how often a register is written.

use super::balance::balance;
use super::combine::combine;
use super::conditions::conditions;
use super::constants::{begin, constants, parameter, spans};
use super::convergence::converge;
use super::copies::begin_copies;
use super::hoist::hoist;
use super::ir::{Func, Inst, Operand, PredOperand, Reg, Width};
use super::liveness::{Lists, Live, RegSet};
use super::narrow::narrow;
use super::parameters::place;
use super::predicate::predicate;
use super::rename::rename;
use super::scale::scale;
use super::schedule::schedule;
use super::select::select;
use super::straighten::straighten;
use super::unmasked::unmask;
use super::unroll::unroll;
use super::widen::widen;
use super::work::count;
use crate::chip::{AssemblerSpec, ConstantOperands};
use crate::isa::Root;
use crate::program::{CleanUp, Extra, OpClass};
use sim_memory::vocabulary::{ScalarType, StateSpace};

/// Offsets of addresses that machine code has room for: 24 bits with a sign.
const OFFSETS: std::ops::Range<i64> = -(1 << 23)..1 << 23;

/// Passes over a function at most: each finds what the one before made possible.
const PASSES: u32 = 8;

/// Cleans a function up. `most`: registers of a thread that the bounds of the kernel leave; `has_shared`: it names variables of shared
/// memory.
pub fn clean_up(func: &mut Func, passes: AssemblerSpec, most: u32, has_shared: bool) -> CleanUp {
    let count = |func: &Func| func.blocks.iter().map(|block| block.all().count() as u32).sum();
    let before = count(func);
    let mut done = CleanUp { before, after: before, ..CleanUp::default() };
    if func.injected_by_hand {
        // Its control flow leads where the graph does not say.
        return done;
    }
    done.jumps = straighten(func, true);
    done.copies += conditions(func);
    settle(func, passes, &mut done);
    done.narrowed = if passes.narrow { narrow(func) } else { 0 };
    if done.narrowed > 0 {
        settle(func, passes, &mut done);
    }
    done.guarded = predicate(func, passes);
    if done.guarded > 0 {
        straighten(func, true);
        settle(func, passes, &mut done);
    }
    if passes.hoist {
        let words = passes.full().saturating_sub(passes.reserved_registers).min(most);
        done.hoisted = hoist(func, words);
    }
    if passes.unroll {
        done.unrolled = unroll(func);
        if done.unrolled > 0 {
            settle(func, passes, &mut done);
        }
    }
    done.fused = select(func, passes);
    if done.fused > 0 {
        remove_dead(func);
    }
    done.loads = if passes.wide_loads { widen(func) } else { 0 };
    done.scaled = if passes.scaled_addresses { scale(func) } else { 0 };
    if done.scaled > 0 {
        remove_dead(func);
    }
    place(func, passes);
    done.filled = constants(func, passes.constant_operands);
    if done.filled > 0 {
        remove_dead(func);
    }
    if passes.schedule {
        rename(func);
    }
    done.ordered = match passes.schedule {
        true => schedule(
            func,
            passes.full().saturating_sub(passes.reserved_registers),
            passes.uniform_registers,
            most,
        ),
        false => 0,
    };
    unmask(func);
    done.atomics = combine(func, passes.combine_atomics);
    done.balanced = if passes.balance { balance(func) } else { 0 };
    begin_copies(func, passes.loads_before_copies);
    done.barriers = if passes.convergence_barriers { converge(func) } else { 0 };
    begin(func, passes.prologue, if has_shared { passes.shared_window } else { 0 });
    done.after = count(func);
    done
}

/// Replaces operands and removes what nobody reads until nothing changes.
fn settle(func: &mut Func, passes: AssemblerSpec, done: &mut CleanUp) {
    for _ in 0..PASSES {
        let replaced = propagate(func, passes);
        let removed = remove_dead(func);
        done.copies += replaced.copies;
        done.addresses += replaced.addresses;
        done.parameters += replaced.parameters;
        if replaced == CleanUp::default() && removed == 0 {
            break;
        }
    }
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

/// A conversion between generic addresses and those of global memory, which are the same.
fn is_global_cvta(inst: &Inst) -> bool {
    let alone = inst.src[1..].iter().all(|o| *o == Operand::None);
    inst.form.root == Root::Cvta && inst.form.mods.space == Some(StateSpace::Global) && alone
}

/// What an instruction makes known.
fn fact(func: &Func, inst: &Inst, passes: AssemblerSpec) -> Option<Fact> {
    let Operand::Reg(reg) = inst.dst[0] else { return None };
    if let Some(constant) = parameter(func, inst, reg).filter(|_| passes.parameters) {
        return Some(Fact { reg, base: None, addend: 0, constant: Some(constant) });
    }
    let alone = inst.dst[1..].iter().all(|o| *o == Operand::None)
        && inst.pdst.iter().chain(&inst.psrc).all(|p| *p == PredOperand::None);
    if inst.class != OpClass::Data || inst.guard != PredOperand::Const(true) || !alone {
        return None;
    }
    // The frame's base moves at calls.
    let fixed = func.fixed();
    let same_width = |other: Reg| func.regs[other as usize] == func.regs[reg as usize];
    let usable = |other: Reg| other != reg && same_width(other) && !fixed.contains(&Some(other));
    if fixed.contains(&Some(reg)) {
        return None;
    }
    let none = |operands: &[Operand]| operands.iter().all(|o| *o == Operand::None);
    match inst.form.root {
        Root::Mov if none(&inst.src[1..]) => match inst.src[0] {
            size if func.entry && size.is_size() => {
                let there = passes.parameters && passes.constant_operands != ConstantOperands::Any;
                let word = func.regs[reg as usize] == Width::Word;
                (there && word).then_some(Fact { reg, base: None, addend: 0, constant: Some(size) })
            }
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
        Root::Cvta if is_global_cvta(inst) => match inst.src[0] {
            Operand::Reg(base) if usable(base) => {
                Some(Fact { reg, base: Some(base), addend: 0, constant: None })
            }
            _ => None,
        },
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

/// No fact.
const NONE: u32 = u32::MAX;
/// What holds where no path is known to lead.
const ANYTHING: u32 = u32::MAX - 1;

/// All facts of a function. Whoever writes a register ends what was known of it, so that no more than one
/// fact about a register holds at a place.
struct Facts {
    list: Vec<Fact>,
    /// By instruction, the ends of blocks left out: what it makes known.
    made: Vec<u32>,
    /// Parameters, and constants of sums of 64 bits, are operands.
    operands: bool,
    /// Constants that find no room are moved to registers.
    moved: bool,
}

impl Facts {
    fn of(func: &Func, passes: AssemblerSpec) -> Self {
        let mut list = Vec::new();
        let insts = func.blocks.iter().flat_map(|block| &block.insts);
        let made = insts.map(|inst| match fact(func, inst, passes) {
            Some(found) => {
                list.push(found);
                list.len() as u32 - 1
            }
            None => NONE,
        });
        let made = made.collect();
        let moved = passes.constant_operands != ConstantOperands::Any;
        Self { list, made, operands: passes.parameters, moved }
    }

    /// By block: what holds at its beginning, whichever way it was reached, of registers that are read
    /// from there on.
    fn before(&self, func: &Func) -> Lists {
        let blocks = func.blocks.len();
        let mut has_facts = vec![false; func.regs.len()];
        self.list.iter().for_each(|fact| has_facts[fact.reg as usize] = true);
        let live = Live::new(func);
        let mut places: Vec<(Reg, u32)> = Vec::new();
        for b in 0..blocks {
            live.for_before(b, |reg| {
                if has_facts[reg as usize] {
                    places.push((reg, b as u32));
                }
            });
        }
        if places.is_empty() {
            return Lists::new(blocks, &[]);
        }
        let places = Lists::new(func.regs.len(), &places);
        let writes = self.writes(func, &has_facts);
        let mut reached = vec![false; blocks];
        func.blocks.iter().for_each(|block| block.for_successors(|to| reached[to] = true));
        // By block: what is known of one register after the other, and which one that is.
        let mut known = vec![(NONE, ANYTHING); blocks];
        let mut open: Vec<u32> = Vec::new();
        let mut found: Vec<(u32, u32)> = Vec::new();
        for reg in (0..func.regs.len()).filter(|reg| !places.of(*reg).is_empty()) {
            let number = reg as u32;
            for &b in places.of(reg) {
                // The entry is reached from outside too.
                let nothing = b == 0 || !reached[b as usize];
                known[b as usize] = (number, if nothing { NONE } else { ANYTHING });
                open.extend(nothing.then_some(b));
            }
            open.extend(writes.of(reg).iter().map(|write| write.0));
            while let Some(b) = open.pop() {
                let behind = match writes.at(reg, b) {
                    Some(made) => made,
                    None => match known[b as usize].1 {
                        fact @ (NONE | ANYTHING) => fact,
                        fact => match self.list[fact as usize].base {
                            Some(base) if writes.at(base as usize, b).is_some() => NONE,
                            _ => fact,
                        },
                    },
                };
                func.blocks[b as usize].for_successors(|to| {
                    count(1);
                    let (of, before) = known[to];
                    let both = match before {
                        ANYTHING => behind,
                        _ if behind == before || behind == ANYTHING => before,
                        _ => NONE,
                    };
                    if of == number && both != before {
                        known[to] = (number, both);
                        open.push(to as u32);
                    }
                });
            }
            let holds = places.of(reg).iter().map(|b| (*b, known[*b as usize].1));
            found.extend(holds.filter(|(_, fact)| !matches!(*fact, NONE | ANYTHING)));
        }
        Lists::new(blocks, &found)
    }

    /// Where registers that facts are about or made of are written.
    fn writes(&self, func: &Func, has_facts: &[bool]) -> Writes {
        let registers = func.regs.len();
        let mut counts = has_facts.to_vec();
        self.list.iter().filter_map(|fact| fact.base).for_each(|base| counts[base as usize] = true);
        let mut known = Known::new(registers);
        let mut written = RegSet::new(registers);
        let mut own: Vec<Reg> = Vec::new();
        let mut by_register: Vec<Vec<(u32, u32)>> = vec![Vec::new(); registers];
        let mut made = self.made.iter();
        for (b, block) in func.blocks.iter().enumerate() {
            known.begin();
            written.clear();
            let ends = block.last().map(|last| (last, &NONE));
            for (inst, made) in block.insts.iter().zip(made.by_ref().take(block.insts.len())).chain(ends) {
                inst.for_writes(|reg| {
                    if counts[reg as usize] && written.insert(reg) {
                        own.push(reg);
                    }
                });
                known.step(self, inst, *made);
            }
            for reg in own.drain(..) {
                by_register[reg as usize].push((b as u32, known.number(self, reg)));
            }
        }
        Writes { by_register }
    }
}

/// By register: the blocks that write it, ascending, with what is known of it after each.
struct Writes {
    by_register: Vec<Vec<(u32, u32)>>,
}

impl Writes {
    fn of(&self, reg: usize) -> &[(u32, u32)] {
        &self.by_register[reg]
    }

    /// What is known of a register after a block that writes it.
    fn at(&self, reg: usize, block: u32) -> Option<u32> {
        let list = self.of(reg);
        list.binary_search_by_key(&block, |write| write.0).ok().map(|i| list[i].1)
    }
}

/// The facts that hold at a place.
struct Known {
    /// By register: the fact about it, the block it was noted in, and how often its base was written
    /// before.
    facts: Vec<(u32, u32, u32)>,
    /// By register: how often it was written.
    written: Vec<u32>,
    block: u32,
}

impl Known {
    fn new(registers: usize) -> Self {
        Self { facts: vec![(NONE, 0, 0); registers], written: vec![0; registers], block: 0 }
    }

    /// Forgets everything.
    fn begin(&mut self) {
        self.block += 1;
    }

    fn note(&mut self, facts: &Facts, number: u32) {
        let fact = &facts.list[number as usize];
        let written = fact.base.map_or(0, |base| self.written[base as usize]);
        self.facts[fact.reg as usize] = (number, self.block, written);
    }

    /// What is known after an instruction.
    fn step(&mut self, facts: &Facts, inst: &Inst, made: u32) {
        inst.for_writes(|reg| {
            self.written[reg as usize] += 1;
            self.facts[reg as usize].0 = NONE;
        });
        if made != NONE {
            self.note(facts, made);
        }
    }

    /// The number of what is known of a register.
    fn number(&self, facts: &Facts, reg: Reg) -> u32 {
        let (number, block, written) = self.facts[reg as usize];
        if number == NONE || block != self.block {
            return NONE;
        }
        let base = facts.list[number as usize].base;
        if base.is_none_or(|base| self.written[base as usize] == written) { number } else { NONE }
    }

    /// What is known of a register.
    fn about<'f>(&self, facts: &'f Facts, reg: Reg) -> Option<&'f Fact> {
        facts.list.get(self.number(facts, reg) as usize)
    }
}

/// Operands name what was copied; addresses take in what was added.
fn propagate(func: &mut Func, passes: AssemblerSpec) -> CleanUp {
    let mut done = CleanUp::default();
    let facts = Facts::of(func, passes);
    if facts.list.is_empty() {
        return done;
    }
    let before = (func.blocks.len() > 1).then(|| facts.before(func));
    let mut known = Known::new(func.regs.len());
    let mut made = facts.made.iter();
    for (b, block) in func.blocks.iter_mut().enumerate() {
        known.begin();
        let holds = before.as_ref().map_or(&[][..], |before| before.of(b));
        holds.iter().for_each(|fact| known.note(&facts, *fact));
        let made = made.by_ref().take(block.insts.len());
        for (inst, made) in block.insts.iter_mut().zip(made) {
            count(1);
            replace(inst, &facts, &known, &mut done);
            known.step(&facts, inst, *made);
        }
        if let Some(last) = block.end.inst_mut() {
            replace(last, &facts, &known, &mut done);
        }
    }
    done
}

/// An addition of 64 bits.
fn is_long_sum(inst: &Inst) -> bool {
    let mods = &inst.form.mods;
    inst.form.root == Root::Add
        && matches!(inst.form.ty, ScalarType::S64 | ScalarType::U64)
        && !(mods.sat || mods.cc || mods.third)
}

/// True if an instruction has room for a constant there. Operations across a warp have it for all of theirs, and what is stored
/// may be zero, which is a register.
fn has_room(inst: &Inst, slot: usize, constant: Operand) -> bool {
    match inst.class {
        OpClass::Data | OpClass::Shuffle | OpClass::Vote | OpClass::WarpSync => true,
        OpClass::Store => slot > 0 && matches!(constant, Operand::Const { bits: 0, .. }),
        _ => false,
    }
}

/// Puts into an instruction what is known of its operands.
fn replace(inst: &mut Inst, facts: &Facts, known: &Known, done: &mut CleanUp) {
    let address = matches!(inst.class, OpClass::Load | OpClass::Store | OpClass::Atomic | OpClass::Hint)
        && matches!(inst.extra, Extra::Memory(_));
    for slot in 0..inst.src.len() {
        let Operand::Reg(reg) = inst.src[slot] else { continue };
        let Some(found) = known.about(facts, reg) else { continue };
        if let Some(base) = found.base.filter(|_| found.addend == 0) {
            inst.src[slot] = Operand::Reg(base);
            done.copies += 1;
        } else if let Some(parameter @ (Operand::Parameter { .. } | Operand::Special(_))) = found.constant {
            // An operation has room for one constant; others are moved to registers where it stands.
            let moves = facts.moved && !spans(inst.form.root);
            if inst.class == OpClass::Data && (moves || !inst.src.iter().any(Operand::is_constant)) {
                inst.src[slot] = parameter;
                done.parameters += 1;
            }
        } else if address && slot == 0 {
            let least = if found.base.is_some() { OFFSETS.start } else { 0 };
            let offset = inst.imm.checked_add(found.addend).filter(|at| (least..OFFSETS.end).contains(at));
            if let Some(offset) = offset {
                inst.src[0] = found.base.map_or(Operand::None, Operand::Reg);
                inst.imm = offset;
                done.addresses += 1;
            }
        } else if let Some(constant) = found.constant.filter(|constant| has_room(inst, slot, *constant)) {
            inst.src[slot] = constant;
            done.copies += 1;
        } else if facts.operands
            && found.base.is_none()
            && i32::try_from(found.addend).is_ok()
            && is_long_sum(inst)
        {
            // The lower half has room for 32 bits, and the upper one for its sign.
            let other = inst.src[1 - slot.min(1)];
            if slot < 2 && matches!(other, Operand::Reg(_)) {
                inst.src[slot] = Operand::Const { bits: found.addend as u64, wide: true };
                done.copies += 1;
            }
        }
    }
    for operand in &mut inst.fragments {
        let Operand::Reg(reg) = *operand else { continue };
        let Some(found) = known.about(facts, reg) else { continue };
        match (found.base.filter(|_| found.addend == 0), found.constant) {
            (Some(base), _) => *operand = Operand::Reg(base),
            (None, Some(constant @ Operand::Const { .. })) => *operand = constant,
            _ => continue,
        }
        done.copies += 1;
    }
}

/// Removes instructions whose results are never read; returns how many.
fn remove_dead(func: &mut Func) -> usize {
    let mut removed = 0;
    // Calls and frames read these without naming them.
    let fixed = func.fixed();
    let across = Live::new(func);
    let mut live = RegSet::new(func.regs.len());
    for b in 0..func.blocks.len() {
        across.behind(b, &mut live);
        if let Some(last) = func.blocks[b].last() {
            live.step_back(last);
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
                && (inst.form.root == Root::Mov || is_global_cvta(inst));
            count(1);
            *keep = !(pure && writes && (!read || (itself && inst.class == OpClass::Data)));
            if *keep {
                live.step_back(inst);
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
