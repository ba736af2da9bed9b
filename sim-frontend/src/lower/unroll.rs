//! Loops that count are unrolled, as NVIDIA's assembler does it: four iterations at a time, then two, then one by one. The
//! loop is one basic block that ends where a register, which grows by a constant, is compared with what does not change in
//! it. Which loops those are was read from what ptxas 12.8 and 13 make of some two hundred of them for sm_52 to sm_90:
//! [`MOST`] and [`MOST_WITH_LOADS`] say how long they may be. `.pragma "nounroll"` keeps a loop as it is.

use rustc_hash::{FxHashMap, FxHashSet};

use super::ir::{Block, BlockId, Func, Inst, Operand, PredOperand, Reg, Terminator, Width};
use super::select::is_sum;
use super::uniform::Uniform;
use super::work::count;
use crate::form::{CmpOp, Form};
use crate::isa::Root;
use crate::program::{OpClass, Text};
use sim_memory::vocabulary::{ScalarType, StateSpace};

/// Iterations of the long loop, and of what follows it.
const FACTORS: [usize; 2] = [4, 2];

/// Instructions of a loop, its branch among them, that loads nothing.
const MOST: usize = 21;

/// The same where it loads from memory: there is time to win; more where it loads much, as those of shared memory become
/// wider.
const MOST_WITH_LOADS: usize = 48;
const MOST_WITH_MANY_LOADS: usize = 60;
const MANY_LOADS: usize = 8;

/// Loads of global memory in an iteration: results of four iterations have to find registers.
const MOST_GLOBAL_LOADS: usize = 15;

/// Blocks that stand in front of the loop: the check, the long loop, its end, the check of what follows, and that.
const ADDED: usize = 5;

/// A loop that counts.
struct Counted {
    /// What the counter grows by.
    step: i64,
    /// The comparison that leads to the next iteration, and its place in the block.
    test: usize,
    cmp: CmpOp,
    limit: Operand,
}

/// Unrolls loops; returns how many.
pub fn unroll(func: &mut Func) -> u32 {
    let candidate =
        |(b, block): (usize, &Block)| matches!(&block.end, Terminator::Branch(_, to, _) if *to == b);
    if func.injected_by_hand || !func.blocks.iter().enumerate().any(candidate) {
        return 0;
    }
    let uniform = Uniform::new(func);
    let found: Vec<Option<Counted>> = (0..func.blocks.len()).map(|b| counted(func, b, &uniform)).collect();
    let mut entry: Vec<BlockId> = Vec::with_capacity(found.len());
    let mut blocks = 0;
    for own in &found {
        entry.push(blocks);
        blocks += if own.is_some() { ADDED + 1 } else { 1 };
    }
    let mut made = Vec::with_capacity(blocks);
    for (b, (mut block, own)) in std::mem::take(&mut func.blocks).into_iter().zip(&found).enumerate() {
        let itself = entry[b] + if own.is_some() { ADDED } else { 0 };
        if let Some(own) = own {
            made.extend(unrolled(func, &block, own, entry[b], entry[b + 1]));
        }
        block.end.for_targets_mut(|to| *to = if *to == b { itself } else { entry[*to] });
        made.push(block);
    }
    func.blocks = made;
    found.iter().flatten().count() as u32
}

/// The loop that a block is, if it counts and is short enough.
fn counted(func: &Func, b: BlockId, uniform: &Uniform) -> Option<Counted> {
    let block = &func.blocks[b];
    let Terminator::Branch(branch, taken, next) = &block.end else { return None };
    let PredOperand::Reg(goes_on, false) = branch.guard else { return None };
    if block.kept || *taken != b || *next != b + 1 {
        return None;
    }
    let writes = |inst: &Inst, reg: Reg| {
        let mut found = false;
        inst.for_writes(|own| found |= own == reg);
        found
    };
    let last_write = |reg: Reg| block.insts.iter().rposition(|inst| writes(inst, reg));
    count(block.insts.len());
    let test = last_write(goes_on)?;
    let compares = &block.insts[test];
    let mods = &compares.form.mods;
    let ty = compares.form.ty;
    let plain = compares.form.root == Root::Setp
        && matches!(ty, ScalarType::S32 | ScalarType::U32)
        && mods.bool_op.is_none()
        && compares.guard == PredOperand::Const(true)
        && compares.pdst[1] == PredOperand::None;
    let Operand::Reg(counter) = compares.src[0] else { return None };
    let (limit, cmp) = (compares.src[1], mods.cmp?);
    let invariant = match limit {
        Operand::Reg(reg) => last_write(reg).is_none(),
        Operand::Const { .. } | Operand::Parameter { .. } => true,
        _ => false,
    };
    let at = last_write(counter)?;
    let step = growth(&block.insts[at], counter)?;
    let once = block.insts.iter().filter(|inst| writes(inst, counter)).count() == 1;
    // Where it may pass the limit, it does not reach it first.
    let towards = match cmp {
        CmpOp::Ne => true,
        CmpOp::Lt | CmpOp::Le => step > 0 && ty == ScalarType::S32,
        CmpOp::Gt | CmpOp::Ge => step < 0 && ty == ScalarType::S32,
        _ => false,
    };
    let counts = plain && invariant && once && at < test && towards && step != 0 && step.abs() < 1 << 24;
    let starts_alike = || {
        let outside = func
            .blocks
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != b)
            .flat_map(|(_, block)| block.all());
        let mut starts = outside.filter(|inst| writes(inst, counter));
        starts.all(|inst| {
            inst.class == OpClass::Data
                && inst.guard == PredOperand::Const(true)
                && inst.src.iter().all(|operand| uniform.operand(operand))
        }) && uniform.operand(&limit)
    };
    (counts && fits(func, block, starts_alike)).then_some(Counted { step, test, cmp, limit })
}

/// What `add.s32 r, r, constant` adds.
fn growth(inst: &Inst, counter: Reg) -> Option<i64> {
    match (inst.dst[0], inst.src[0], inst.src[1]) {
        (Operand::Reg(to), Operand::Reg(from), Operand::Const { bits, wide })
            if to == counter
                && from == counter
                && is_sum(inst, Root::Add)
                && inst.class == OpClass::Data
                && inst.guard == PredOperand::Const(true) =>
        {
            Some(if wide { bits as i64 } else { i64::from(bits as i32) })
        }
        _ => None,
    }
}

/// True if the assembler would unroll a loop of these instructions. `alike`: all threads of a warp iterate equally often.
fn fits(func: &Func, block: &Block, alike: impl Fn() -> bool) -> bool {
    let (mut loads, mut global, mut stores, mut meets) = (0, 0, 0, 0);
    for inst in &block.insts {
        match inst.class {
            OpClass::Data | OpClass::LoadParam | OpClass::Mma | OpClass::MoveMatrix => {}
            OpClass::Load | OpClass::LoadMatrix => {
                loads += 1;
                let shared = inst.extra.access().is_some_and(|facts| facts.space == StateSpace::Shared);
                global += usize::from(!shared);
            }
            OpClass::Store | OpClass::StoreMatrix => stores += 1,
            OpClass::Barrier | OpClass::Shuffle | OpClass::Vote | OpClass::WarpSync | OpClass::Atomic => {
                meets += 1
            }
            _ => return false,
        }
        // Sums with a carry name no register for it.
        let carries = inst.form.mods.cc || matches!(inst.form.root, Root::Addc | Root::Subc | Root::Madc);
        let of_predicate = inst.pdst.iter().any(|p| *p != PredOperand::None);
        if carries || of_predicate && inst.guard != PredOperand::Const(true) {
            return false;
        }
        let mut fixed = false;
        inst.for_writes(|reg| fixed |= [func.stack_base, func.taken, func.carry].contains(&Some(reg)));
        if fixed {
            return false;
        }
    }
    let most = match loads {
        0 => MOST,
        _ if loads < MANY_LOADS => MOST_WITH_LOADS,
        _ => MOST_WITH_MANY_LOADS,
    };
    block.insts.len() < most
        && global <= MOST_GLOBAL_LOADS
        // Where threads leave at different times, only what touches nothing else or only loads or only stores.
        && ((meets == 0 && (loads == 0 || stores == 0)) || alike())
}

/// The blocks in front of a loop; the first of them has the number `first`, what follows the loop `behind`.
fn unrolled(func: &mut Func, block: &Block, own: &Counted, first: BlockId, behind: BlockId) -> Vec<Block> {
    let [long, end, again, short, itself] = [1, 2, 3, 4, ADDED].map(|i| first + i);
    let Terminator::Branch(branch, ..) = &block.end else { return Vec::new() };
    let new = |insts, end| Block { insts, end, kept: false };
    let jump = |p: Reg, negated: bool| {
        let mut inst = (**branch).clone();
        (inst.guard, inst.text, inst.opcode) =
            (PredOperand::Reg(p, negated), Text::Made("bra of an unrolled loop"), None);
        Box::new(inst)
    };
    let [before_long, before_short] = FACTORS.map(|factor| limit(func, block, own, factor as i64 - 1));
    let ((long_limit, mut check_insts), (short_limit, mut again_insts)) = (before_long, before_short);
    // Where the limit is the least number, no counter is below it.
    let towards = if own.step > 0 { CmpOp::Lt } else { CmpOp::Gt };
    let mut tests = |insts: &mut Vec<Inst>, cmp: CmpOp, limit: Operand| {
        let mut test = block.insts[own.test].clone();
        let p = func.register(Width::Pred, false);
        (test.text, test.opcode, test.pdst[0]) =
            (Text::Made("setp of an unrolled loop"), None, PredOperand::Reg(p, false));
        test.form.mods.cmp = Some(cmp);
        if cmp == towards {
            test.form.ty = ScalarType::S32;
        }
        test.src[1] = limit;
        insts.push(test);
        p
    };
    let enough = tests(&mut check_insts, towards, long_limit);
    let mut long_end = Vec::new();
    let go_on = tests(&mut long_end, towards, long_limit);
    let mut end_insts = Vec::new();
    let left = tests(&mut end_insts, own.cmp, own.limit);
    let two = tests(&mut again_insts, towards, short_limit);
    let mut short_end = Vec::new();
    let one = tests(&mut short_end, own.cmp, own.limit);
    let [mut long_insts, mut short_insts] = FACTORS.map(|factor| copies(func, block, factor));
    long_insts.extend(long_end);
    short_insts.extend(short_end);
    vec![
        new(check_insts, Terminator::Branch(jump(enough, true), again, long)),
        new(long_insts, Terminator::Branch(jump(go_on, false), long, end)),
        new(end_insts, Terminator::Branch(jump(left, true), behind, again)),
        new(again_insts, Terminator::Branch(jump(two, true), itself, short)),
        new(short_insts, Terminator::Branch(jump(one, true), behind, itself)),
    ]
}

/// The limit of a counter after which so many iterations more are sure to come, and what computes it.
fn limit(func: &mut Func, block: &Block, own: &Counted, more: i64) -> (Operand, Vec<Inst>) {
    let room = own.step * more;
    if let Operand::Const { bits, .. } = own.limit {
        // Beyond the numbers of 32 bits nothing is sure.
        let nearer = i64::from(bits as i32) - room;
        let most = if own.step > 0 { i32::MIN } else { i32::MAX };
        let nearer = i32::try_from(nearer).unwrap_or(most);
        return (Operand::Const { bits: u64::from(nearer as u32), wide: false }, Vec::new());
    }
    let mut form = Form::plain(Root::Sub, ScalarType::S32);
    form.mods.sat = true;
    let to = func.register(Width::Word, false);
    let mut inst = Inst { form, opcode: None, imm: 0, ..block.insts[own.test].clone() };
    (inst.pdst, inst.psrc) = ([PredOperand::None; 2], [PredOperand::None; 2]);
    inst.dst[0] = Operand::Reg(to);
    inst.src = [Operand::None; 5];
    (inst.src[0], inst.src[1]) = (own.limit, Operand::Const { bits: u64::from(room as u32), wide: false });
    inst.text = Text::Made("sub.sat of an unrolled loop");
    (Operand::Reg(to), vec![inst])
}

/// So many iterations, one after the other. What an iteration but the last one writes is in registers of its own, so that
/// they can be done at a time; what grows by a constant is made of what it was before them.
fn copies(func: &mut Func, block: &Block, factor: usize) -> Vec<Inst> {
    let mut written: FxHashMap<Reg, u32> = FxHashMap::default();
    block.insts.iter().for_each(|inst| inst.for_writes(|reg| *written.entry(reg).or_default() += 1));
    let grows: FxHashSet<Reg> = written
        .iter()
        .filter(|(_, times)| **times == 1)
        .filter(|(reg, _)| block.insts.iter().any(|inst| growth(inst, **reg).is_some()))
        .map(|(reg, _)| *reg)
        .collect();
    // By register: where its value lies.
    let mut holds: FxHashMap<Reg, Reg> = FxHashMap::default();
    let mut made = Vec::with_capacity(block.insts.len() * factor);
    for iteration in 1..=factor {
        let last = iteration == factor;
        for inst in &block.insts {
            count(1);
            let mut copy = inst.clone();
            if let Operand::Reg(reg) = inst.dst[0]
                && grows.contains(&reg)
                && let Some(step) = growth(inst, reg)
                && let Operand::Const { wide, .. } = inst.src[1]
            {
                let bits = step.wrapping_mul(iteration as i64) as u64;
                copy.src[1] = Operand::Const { bits: if wide { bits } else { bits & 0xffff_ffff }, wide };
                copy.opcode = None;
                copy.text = Text::Made("add of an unrolled loop");
                let to = if last { reg } else { func.register(func.regs[reg as usize], false) };
                copy.dst[0] = Operand::Reg(to);
                holds.insert(reg, to);
                made.push(copy);
                continue;
            }
            rename_reads(&mut copy, &holds);
            let guarded = inst.guard != PredOperand::Const(true);
            let mut names: Vec<(Reg, Reg)> = Vec::new();
            inst.for_writes(|reg| {
                let before = holds.get(&reg).copied().unwrap_or(reg);
                names.push((reg, before));
            });
            for (reg, to) in &mut names {
                if !guarded {
                    *to = if last { *reg } else { func.register(func.regs[*reg as usize], false) };
                } else if last && to != reg {
                    // Lanes whose guard is false keep what there was.
                    made.push(moved(inst, func.regs[*reg as usize], *reg, *to));
                    *to = *reg;
                }
                holds.insert(*reg, *to);
            }
            rename_writes(&mut copy, &names);
            made.push(copy);
        }
    }
    made
}

fn moved(like: &Inst, width: Width, to: Reg, from: Reg) -> Inst {
    let ty = match width {
        Width::Pair => ScalarType::B64,
        Width::Half => ScalarType::B16,
        Width::Word | Width::Pred => ScalarType::B32,
    };
    let mut inst = Inst::blank(Form::plain(Root::Mov, ty), PredOperand::Const(true));
    (inst.dst[0], inst.src[0]) = (Operand::Reg(to), Operand::Reg(from));
    (inst.line, inst.loc, inst.text) = (like.line, like.loc, Text::Made("mov of an unrolled loop"));
    inst
}

fn rename_reads(inst: &mut Inst, holds: &FxHashMap<Reg, Reg>) {
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

fn rename_writes(inst: &mut Inst, names: &[(Reg, Reg)]) {
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
