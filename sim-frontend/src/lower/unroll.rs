//! Loops that count are unrolled, as NVIDIA's assembler does it: four iterations at a time, then two, then one by one. The
//! loop is one basic block that ends where a register, which grows by a constant, is compared with what does not change in
//! it. Which loops those are was read from what ptxas 12.8 and 13 make of some two hundred of them for sm_52 to sm_90:
//! [`MOST`] and what follows it say how long they may be. `.pragma "nounroll"` keeps a loop as it is.

use rustc_hash::FxHashMap;

use super::ir::{Block, BlockId, Func, Inst, Operand, PredOperand, Reg, Terminator, Width};
use super::rename::{rename_reads, rename_writes};
use super::select::is_sum;
use super::tf3_stack::{made, unguarded};
use super::uniform::Uniform;
use super::work::count;
use crate::form::{BoolOp, CmpOp};
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

/// Loads of an iteration that are not of shared memory: results of four iterations have to find registers.
const MOST_GLOBAL_LOADS: usize = 15;

/// Blocks that stand in front of the loop: the check, the long loop, the check of what follows, that, and whether anything is left.
const ADDED: usize = 5;

/// A loop that counts.
struct Counted {
    /// What the counter grows by.
    step: i64,
    /// The place in the block of the comparison that leads to the next iteration, and what it is.
    test: usize,
    cmp: CmpOp,
    limit: Operand,
    unsigned: bool,
}

impl Counted {
    /// What the counter is compared as.
    fn ty(&self) -> ScalarType {
        if self.unsigned { ScalarType::U32 } else { ScalarType::S32 }
    }
}

/// Where registers begin.
struct Starts {
    uniform: Uniform,
    /// By register: how many instructions write it, and how many of those write one value for all threads of a warp.
    writes: Vec<(u32, u32)>,
}

impl Starts {
    fn new(func: &Func) -> Self {
        let uniform = Uniform::new(func);
        let mut writes = vec![(0, 0); func.regs.len()];
        for inst in func.blocks.iter().flat_map(Block::all) {
            count(1);
            let alike = inst.class == OpClass::Data
                && inst.guard == PredOperand::Const(true)
                && inst.psrc.iter().all(|p| *p == PredOperand::None)
                && inst.src.iter().all(|operand| uniform.operand(operand));
            inst.for_writes(|reg| {
                let (all, of_warp) = &mut writes[reg as usize];
                (*all, *of_warp) = (*all + 1, *of_warp + u32::from(alike));
            });
        }
        Self { uniform, writes }
    }

    /// A counter, which its loop writes once, has one value for all threads of a warp where the loop begins.
    fn alike(&self, counter: Reg) -> bool {
        self.writes[counter as usize] == (2, 1)
    }
}

/// Unrolls loops; returns how many.
pub fn unroll(func: &mut Func) -> u32 {
    let candidate =
        |(b, block): (usize, &Block)| matches!(&block.end, Terminator::Branch(_, to, _) if *to == b);
    if func.injected_by_hand || !func.blocks.iter().enumerate().any(candidate) {
        return 0;
    }
    let starts = Starts::new(func);
    let found: Vec<Option<Counted>> = (0..func.blocks.len()).map(|b| counted(func, b, &starts)).collect();
    let mut entry: Vec<BlockId> = Vec::with_capacity(found.len());
    let mut blocks = 0;
    for own in &found {
        entry.push(blocks);
        blocks += if own.is_some() { ADDED + 1 } else { 1 };
    }
    let mut all = Vec::with_capacity(blocks);
    for (b, (mut block, own)) in std::mem::take(&mut func.blocks).into_iter().zip(&found).enumerate() {
        let itself = entry[b] + if own.is_some() { ADDED } else { 0 };
        if let Some(own) = own {
            all.extend(unrolled(func, &block, own, entry[b], entry[b + 1]));
        }
        block.end.for_targets_mut(|to| *to = if *to == b { itself } else { entry[*to] });
        all.push(block);
    }
    func.blocks = all;
    found.iter().flatten().count() as u32
}

/// The loop that a block is, if it counts and is short enough.
fn counted(func: &Func, b: BlockId, starts: &Starts) -> Option<Counted> {
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
        CmpOp::Lt | CmpOp::Le => step > 0,
        CmpOp::Gt | CmpOp::Ge => step < 0,
        CmpOp::Lo | CmpOp::Ls => step > 0 && ty == ScalarType::U32,
        CmpOp::Hi | CmpOp::Hs => step < 0 && ty == ScalarType::U32,
        _ => false,
    };
    let small = step != 0 && step.unsigned_abs() < 1 << 24 && func.regs[counter as usize] == Width::Word;
    let counts = plain && invariant && once && at < test && towards && small;
    let alike = starts.alike(counter) && starts.uniform.operand(&limit);
    // What is compared for equality alone counts from either side of zero.
    let unsigned = ty == ScalarType::U32 && cmp != CmpOp::Ne;
    (counts && fits(func, block, alike)).then_some(Counted { step, test, cmp, limit, unsigned })
}

/// What `add.s32 r, r, constant` adds, or takes away as `sub`.
fn growth(inst: &Inst, counter: Reg) -> Option<i64> {
    let sign = if is_sum(inst, Root::Add) { 1 } else { -1 };
    match (inst.dst[0], inst.src[0], inst.src[1]) {
        (Operand::Reg(to), Operand::Reg(from), Operand::Const { bits, wide })
            if to == counter
                && from == counter
                && (sign > 0 || is_sum(inst, Root::Sub))
                && inst.class == OpClass::Data
                && inst.guard == PredOperand::Const(true) =>
        {
            Some((if wide { bits as i64 } else { i64::from(bits as i32) }).wrapping_mul(sign))
        }
        _ => None,
    }
}

/// True if the assembler would unroll a loop of these instructions. `alike`: all threads of a warp iterate equally often.
fn fits(func: &Func, block: &Block, alike: bool) -> bool {
    let (mut loads, mut global, mut stores, mut meets) = (0, 0, 0, 0);
    for inst in &block.insts {
        match inst.class {
            OpClass::Data | OpClass::LoadParam => {}
            OpClass::Load | OpClass::LoadMatrix => {
                loads += 1;
                meets += usize::from(inst.class == OpClass::LoadMatrix);
                let shared = inst.extra.access().is_some_and(|facts| facts.space == StateSpace::Shared);
                global += usize::from(!shared);
            }
            OpClass::Store => stores += 1,
            OpClass::Barrier
            | OpClass::Shuffle
            | OpClass::Vote
            | OpClass::WarpSync
            | OpClass::Atomic
            | OpClass::Mma
            | OpClass::MoveMatrix
            | OpClass::StoreMatrix => meets += 1,
            _ => return false,
        }
        let of_predicate = inst.pdst.iter().any(|p| *p != PredOperand::None);
        if inst.carries() || of_predicate && inst.keeps() {
            return false;
        }
        let mut fixed = false;
        inst.for_writes(|reg| fixed |= func.fixed().contains(&Some(reg)));
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
        && ((meets == 0 && (loads == 0 || stores == 0)) || alike)
}

/// The blocks in front of a loop; the first of them has the number `first`, what follows the loop `behind`.
fn unrolled(func: &mut Func, block: &Block, own: &Counted, first: BlockId, behind: BlockId) -> Vec<Block> {
    let [long, again, short, end] = [1, 2, 3, 4].map(|i| first + i);
    let Terminator::Branch(branch, ..) = &block.end else { return Vec::new() };
    let new = |insts, end| Block { insts, end, kept: false };
    let jump = |p: Reg, negated: bool| {
        let mut inst = (**branch).clone();
        (inst.guard, inst.opcode) = (PredOperand::Reg(p, negated), None);
        // What is said of the loop's branch holds for the iterations, not for how they are counted.
        inst.uniform_hint = false;
        inst.text = Text::Made("bra of an unrolled loop");
        Box::new(inst)
    };
    let [before_long, before_short] = FACTORS.map(|factor| limit(func, block, own, factor as i64 - 1));
    let ((long_limit, mut check_insts), (short_limit, mut again_insts)) = (before_long, before_short);
    // Where the limit is the least number, no counter is below it.
    let towards = if own.step > 0 { CmpOp::Lt } else { CmpOp::Gt };
    let mut test = |insts: &mut Vec<Inst>, limit: Operand| {
        let mut test = block.insts[own.test].clone();
        let p = func.register(Width::Pred, false);
        (test.pdst[0], test.opcode) = (PredOperand::Reg(p, false), None);
        test.text = Text::Made("setp of an unrolled loop");
        (test.form.ty, test.form.mods.cmp, test.src[1]) = (own.ty(), Some(towards), limit);
        insts.push(test);
        p
    };
    let enough = test(&mut check_insts, long_limit);
    let mut long_end = Vec::new();
    let goes_on = test(&mut long_end, long_limit);
    let two = test(&mut again_insts, short_limit);
    // What has iterated goes on as the loop would; what has not iterates once in any case.
    let [none, left] = [(); 2].map(|()| func.register(Width::Pred, false));
    let test = &block.insts[own.test];
    let mut nothing = made(test, OpClass::Data, Root::And, ScalarType::Pred);
    nothing.psrc = [PredOperand::Reg(enough, true), PredOperand::Reg(two, true)];
    nothing.pdst[0] = PredOperand::Reg(none, false);
    let mut goes = test.clone();
    goes.form.mods.bool_op = Some(BoolOp::Or);
    (goes.psrc[0], goes.pdst[0]) = (PredOperand::Reg(none, false), PredOperand::Reg(left, false));
    let mut end_insts = vec![nothing, goes];
    for inst in &mut end_insts {
        (inst.opcode, inst.text) = (None, Text::Made("setp of an unrolled loop"));
    }
    let [mut long_insts, short_insts] = FACTORS.map(|factor| copies(func, block, factor));
    long_insts.extend(long_end);
    vec![
        new(check_insts, Terminator::Branch(jump(enough, true), again, long)),
        new(long_insts, Terminator::Branch(jump(goes_on, false), long, again)),
        new(again_insts, Terminator::Branch(jump(two, true), end, short)),
        new(short_insts, Terminator::Jump(None, end)),
        new(end_insts, Terminator::Branch(jump(left, true), behind, first + ADDED)),
    ]
}

/// The limit of a counter after which so many iterations more are sure to come, and what computes it.
fn limit(func: &mut Func, block: &Block, own: &Counted, more: i64) -> (Operand, Vec<Inst>) {
    // What may reach its limit is sure to come where what is one nearer may not.
    let reaches = matches!(own.cmp, CmpOp::Le | CmpOp::Ge | CmpOp::Ls | CmpOp::Hs);
    let room = own.step * more - if reaches { own.step.signum() } else { 0 };
    let constant = |bits: u32| Operand::Const { bits: u64::from(bits), wide: false };
    if let Operand::Const { bits, .. } = own.limit {
        // Beyond the numbers of 32 bits nothing is sure.
        let nearer = if own.unsigned {
            let nearer = i64::from(bits as u32) - room;
            u32::try_from(nearer).unwrap_or(if own.step > 0 { 0 } else { u32::MAX })
        } else {
            let nearer = i64::from(bits as i32) - room;
            i32::try_from(nearer).unwrap_or(if own.step > 0 { i32::MIN } else { i32::MAX }) as u32
        };
        return (constant(nearer), Vec::new());
    }
    let to = func.register(Width::Word, false);
    let mut inst = made(&block.insts[own.test], OpClass::Data, Root::Sub, own.ty());
    (inst.dst[0], inst.src[0], inst.src[1]) = (Operand::Reg(to), own.limit, constant(room as u32));
    if !own.unsigned {
        inst.form.mods.sat = true;
        inst.text = Text::Made("sub.sat of an unrolled loop");
        return (Operand::Reg(to), vec![inst]);
    }
    // Numbers without a sign end at zero and at the greatest one.
    inst.text = Text::Made("sub of an unrolled loop");
    let within = func.register(Width::Word, false);
    let mut bound = inst.clone();
    let (root, end) =
        if own.step > 0 { (Root::Max, room as u32) } else { (Root::Min, u32::MAX.wrapping_add(room as u32)) };
    bound.form.root = root;
    (bound.dst[0], bound.src[1]) = (Operand::Reg(within), constant(end));
    bound.text = Text::Made(if own.step > 0 { "max of an unrolled loop" } else { "min of an unrolled loop" });
    inst.src[0] = Operand::Reg(within);
    (Operand::Reg(to), vec![bound, inst])
}

/// So many iterations, one after the other. What an iteration but the last one writes is in registers of its own, so that
/// they can be done at a time, unless a guard may keep it as it is; what grows by a constant is made of what it was before them.
fn copies(func: &mut Func, block: &Block, factor: usize) -> Vec<Inst> {
    let mut written: FxHashMap<Reg, u32> = FxHashMap::default();
    block.insts.iter().for_each(|inst| inst.for_writes(|reg| *written.entry(reg).or_default() += 1));
    // By register: where its value lies.
    let mut holds: FxHashMap<Reg, Reg> = FxHashMap::default();
    let mut insts = Vec::with_capacity(block.insts.len() * factor);
    for iteration in 1..=factor {
        let last = iteration == factor;
        for inst in &block.insts {
            count(1);
            let mut copy = inst.clone();
            if let Operand::Reg(reg) = inst.dst[0]
                && written[&reg] == 1
                && let Some(step) = growth(inst, reg)
                && let Operand::Const { wide, .. } = inst.src[1]
            {
                let bits = step.wrapping_mul(iteration as i64) as u64;
                copy.src[1] = Operand::Const { bits: if wide { bits } else { bits & 0xffff_ffff }, wide };
                copy.form.root = Root::Add;
                copy.opcode = None;
                copy.text = Text::Made("add of an unrolled loop");
                let to = if last { reg } else { func.register(func.regs[reg as usize], false) };
                copy.dst[0] = Operand::Reg(to);
                holds.insert(reg, to);
                insts.push(copy);
                continue;
            }
            rename_reads(&mut copy, &holds);
            let guarded = inst.keeps();
            let mut names: Vec<(Reg, Reg)> = Vec::new();
            inst.for_writes(|reg| {
                // `{a, a}`: one name for what is written twice.
                if !names.iter().any(|(known, _)| *known == reg) {
                    names.push((reg, holds.get(&reg).copied().unwrap_or(reg)));
                }
            });
            for (reg, to) in &mut names {
                if !guarded {
                    *to = if last { *reg } else { func.register(func.regs[*reg as usize], false) };
                } else if last && to != reg {
                    // Lanes whose guard is false keep what there was.
                    insts.push(moved(inst, func.regs[*reg as usize], *reg, *to));
                    *to = *reg;
                }
                holds.insert(*reg, *to);
            }
            rename_writes(&mut copy, &names);
            insts.push(copy);
        }
    }
    insts
}

fn moved(like: &Inst, width: Width, to: Reg, from: Reg) -> Inst {
    let ty = match width {
        Width::Pair => ScalarType::B64,
        Width::Half => ScalarType::B16,
        Width::Word | Width::Pred => ScalarType::B32,
    };
    let mut inst = unguarded(made(like, OpClass::Data, Root::Mov, ty));
    (inst.dst[0], inst.src[0]) = (Operand::Reg(to), Operand::Reg(from));
    inst.text = Text::Made("mov of an unrolled loop");
    inst
}

#[cfg(test)]
mod tests;
