//! How NVIDIA's assembler selects instructions: what two instructions of PTX compute, one of machine code does where
//! nothing else reads what lies between. `add`s of three operands (IADD3), logic of three (LOP3), comparisons combined with a
//! predicate (ISETP, FSETP), multiplications that take in shifts and additions (IMAD), and additions that take in shifts and
//! extensions of 32 bits to 64 (LEA, LEA.HI.X). Each but the first and the last is an instruction of PTX too. Values stay what they
//! were, to the bit.

use rustc_hash::FxHashMap;

use super::cfg::{Dominance, Graph};
use super::ir::{Block, Func, Inst, Operand, PredOperand, Reg, Width};
use super::liveness::Live;
use super::work::count;
use crate::chip::AssemblerSpec;
use crate::form::{BoolOp, CmpOp, Form, Half};
use crate::isa::Root;
use crate::program::{OpClass, Text};
use sim_memory::vocabulary::ScalarType;

/// No instruction.
const NONE: u32 = u32::MAX;

/// Selects instructions; returns how often one took in another. What nobody reads any more stays.
pub fn select(func: &mut Func, passes: AssemblerSpec) -> u32 {
    if func.injected_by_hand || !(passes.three_inputs || passes.multiply_add) {
        return 0;
    }
    let fixed = func.fixed();
    let live = Live::new(func);
    let mut readers = Readers { of: vec![(0, NONE); func.regs.len()] };
    let outer = Outer::of(func, passes);
    let mut places = Places { of: vec![(0, NONE); func.regs.len()], block: 0 };
    let mut fused = 0;
    for b in 0..func.blocks.len() {
        live.for_behind(b, |reg| readers.of[reg as usize] = (2, NONE));
        let mut only = readers.of_block(&func.blocks[b], &fixed);
        live.for_behind(b, |reg| readers.of[reg as usize] = (0, NONE));
        places.block += 1;
        let insts = &mut func.blocks[b].insts;
        let mut keep = vec![true; insts.len()];
        for u in 0..insts.len() {
            loop {
                if let Some((made, d)) = places.found(insts, &only, u, &func.regs, passes) {
                    let goes = only[d] == u as u32;
                    // What the one read that goes, the other reads now; where it stays, both do.
                    insts[d].for_reads(|reg| {
                        let before = places.last(reg);
                        if before != NONE && only[before as usize] == d as u32 {
                            only[before as usize] = if goes { u as u32 } else { NONE };
                        }
                    });
                    insts[u] = made;
                    keep[d] = !goes;
                } else if let Some(made) = outer.found(b, &insts[u], &func.regs, passes) {
                    insts[u] = made;
                } else {
                    break;
                }
                fused += 1;
            }
            insts[u].for_writes(|reg| places.of[reg as usize] = (places.block, u as u32));
            count(1);
        }
        let mut keep = keep.into_iter();
        insts.retain(|_| keep.next().unwrap_or(true));
    }
    fused
}

/// What blocks give that lead to others, and that others may make again: products of twice the width, and extensions to 64 bits that
/// become such.
struct Outer {
    /// By register: the block and the instruction that writes it, the only one.
    givers: FxHashMap<Reg, (usize, Inst)>,
    /// Where there are givers.
    dominance: Option<Dominance>,
}

impl Outer {
    fn of(func: &Func, passes: AssemblerSpec) -> Self {
        let mut givers = FxHashMap::default();
        if !passes.multiply_add
            || func.blocks.len() < 2
            || !func.blocks.iter().any(|b| b.insts.iter().any(gives))
        {
            return Self { givers, dominance: None };
        }
        // By register: instructions that write it, and the place of the last one.
        let mut written: Vec<(u32, usize, usize)> = vec![(0, 0, 0); func.regs.len()];
        for (b, block) in func.blocks.iter().enumerate() {
            for (i, inst) in block.all().enumerate() {
                count(1);
                inst.for_writes(|reg| {
                    let (times, ..) = written[reg as usize];
                    written[reg as usize] = (times + 1, b, i);
                });
            }
        }
        for fixed in func.fixed().into_iter().flatten() {
            written[fixed as usize].0 = 2;
        }
        let graph: Graph = func.blocks.iter().map(|block| block.successors()).collect();
        let dominance = Dominance::new(&graph, 0);
        let reached = |b: usize| dominance.number[b] != usize::MAX;
        for (b, block) in func.blocks.iter().enumerate().filter(|(b, _)| reached(*b)) {
            for (i, inst) in block.insts.iter().enumerate().filter(|(_, inst)| gives(inst)) {
                let Operand::Reg(to) = inst.dst[0] else { continue };
                // Whoever comes by it came by what it reads, and neither is written again before it is.
                let mut kept = written[to as usize].0 == 1;
                inst.for_reads(|reg| {
                    let (times, block, place) = written[reg as usize];
                    let before =
                        if block == b { place < i } else { reached(block) && dominance.dominates(block, b) };
                    kept &= times == 1 && before;
                });
                if kept {
                    givers.insert(to, (b, inst.clone()));
                }
            }
        }
        Self { givers, dominance: Some(dominance) }
    }

    /// What an instruction of a block becomes with one of them.
    fn found(&self, block: usize, user: &Inst, regs: &[Width], passes: AssemblerSpec) -> Option<Inst> {
        let dominance = self.dominance.as_ref()?;
        if user.class != OpClass::Data || dominance.number[block] == usize::MAX {
            return None;
        }
        user.src.iter().enumerate().find_map(|(slot, operand)| {
            let Operand::Reg(reg) = operand else { return None };
            let (from, giver) = self.givers.get(reg)?;
            if *from == block || !dominance.dominates(*from, block) {
                return None;
            }
            let made = fuse(giver, user, slot, regs, passes)?;
            (made.form.mods.half == Some(Half::Wide) && !made.form.mods.shifted).then_some(made)
        })
    }
}

/// A product of twice the width, or an extension from 32 bits to 64.
fn gives(inst: &Inst) -> bool {
    let wide = inst.form.root == Root::Mul && inst.form.mods.half == Some(Half::Wide);
    inst.class == OpClass::Data
        && inst.guard == PredOperand::Const(true)
        && (wide || inst.form.root == Root::Cvt)
        && inst.form.dst.bits() == 64
        && matches!(inst.form.ty, ScalarType::S32 | ScalarType::U32)
}

/// By register: how often its value is read from a place on, two for more, and by which instruction.
struct Readers {
    of: Vec<(u32, u32)>,
}

impl Readers {
    /// By instruction of a block: the only one that reads what it writes, if it writes one register and that has no reader
    /// besides.
    fn of_block(&mut self, block: &Block, fixed: &[Option<Reg>]) -> Vec<u32> {
        let mut only = vec![NONE; block.insts.len()];
        let read = |of: &mut Vec<(u32, u32)>, inst: &Inst, i: u32| {
            inst.for_reads(|reg| {
                let (times, _) = of[reg as usize];
                of[reg as usize] = ((times + 1).min(2), i);
            });
        };
        if let Some(last) = block.last() {
            read(&mut self.of, last, NONE);
        }
        for (i, inst) in block.insts.iter().enumerate().rev() {
            count(1);
            if inst.guard == PredOperand::Const(true) {
                let mut writes = 0;
                inst.for_writes(|reg| {
                    writes += 1;
                    let (times, reader) = std::mem::replace(&mut self.of[reg as usize], (0, NONE));
                    let alone = writes == 1 && times == 1 && !fixed.contains(&Some(reg));
                    only[i] = if alone { reader } else { NONE };
                });
            }
            read(&mut self.of, inst, i as u32);
        }
        for inst in block.all() {
            inst.for_reads(|reg| self.of[reg as usize] = (0, NONE));
            inst.for_writes(|reg| self.of[reg as usize] = (0, NONE));
        }
        only
    }
}

/// By register: the last instruction of a block that wrote it so far.
struct Places {
    of: Vec<(u32, u32)>,
    block: u32,
}

impl Places {
    /// The last instruction of the block that wrote a register so far.
    fn last(&self, reg: Reg) -> u32 {
        let (block, place) = self.of[reg as usize];
        if block == self.block { place } else { NONE }
    }

    /// An instruction that the one at `u` can take in, and what both become.
    fn found(
        &self,
        insts: &[Inst],
        only: &[u32],
        u: usize,
        regs: &[Width],
        passes: AssemblerSpec,
    ) -> Option<(Inst, usize)> {
        let user = &insts[u];
        if user.class != OpClass::Data {
            return None;
        }
        let operands = user.src.iter().enumerate().filter_map(|(slot, operand)| match operand {
            Operand::Reg(reg) => Some((slot, *reg)),
            _ => None,
        });
        let predicates = user.psrc.iter().enumerate().filter_map(|(slot, operand)| match operand {
            PredOperand::Reg(reg, _) => Some((slot, *reg)),
            _ => None,
        });
        operands.chain(predicates).find_map(|(slot, reg)| {
            let d = self.last(reg);
            if d == NONE {
                return None;
            }
            let giver = &insts[d as usize];
            // What it reads is still there.
            let mut kept = giver.class == OpClass::Data && giver.guard == PredOperand::Const(true);
            giver.for_reads(|source| {
                let last = self.last(source);
                kept &= source != reg && (last == NONE || last < d);
            });
            let alone =
                giver.dst[1..].iter().all(|o| *o == Operand::None) && giver.pdst[1] == PredOperand::None;
            let made = (kept && alone).then(|| fuse(giver, user, slot, regs, passes))??;
            // A product of twice the width is one operation, what it replaces two, and a sum with a shift takes no more than one
            // without: they may be made several times.
            let again = made.form.mods.half == Some(Half::Wide) || made.form.mods.shifted || is_shift(giver);
            (again || only[d as usize] == u as u32).then_some((made, d as usize))
        })
    }
}

/// What two instructions become, the second of which reads the result of the first in its operand `slot`.
fn fuse(giver: &Inst, user: &Inst, slot: usize, regs: &[Width], passes: AssemblerSpec) -> Option<Inst> {
    let logic = || {
        let one = combine(giver, user, slot).or_else(|| logic(giver, user, slot));
        one.or_else(|| sum(giver, user, slot)).or_else(|| address(giver, user, slot, regs))
    };
    let product = || shifted(giver, user, slot, regs).or_else(|| multiply(giver, user, slot));
    let product = passes.multiply_add.then(product).flatten();
    product.or_else(|| passes.three_inputs.then(logic).flatten())
}

/// The instruction that stands where `user` stood.
fn made(user: &Inst, form: Form, src: [Operand; 5], text: &'static str) -> Inst {
    Inst { form, opcode: None, src, imm: 0, text: Text::Made(text), ..user.clone() }
}

/// At most one operand is no register: machine code has room for one constant.
fn one_constant(operands: &[Operand]) -> bool {
    operands.iter().filter(|o| o.is_constant()).count() <= 1
}

/// An addition, or a subtraction of the second operand, without saturation and carry.
pub(super) fn is_sum(inst: &Inst, root: Root) -> bool {
    let mods = &inst.form.mods;
    let whole = matches!(inst.form.ty, ScalarType::S32 | ScalarType::U32 | ScalarType::S64 | ScalarType::U64);
    inst.form.root == root && whole && !mods.sat && !mods.cc && !mods.third
}

/// `add` of an `add`.
fn sum(giver: &Inst, user: &Inst, slot: usize) -> Option<Inst> {
    let fits = is_sum(giver, Root::Add) && is_sum(user, Root::Add) && slot < 2;
    let same = giver.form.ty.bits() == user.form.ty.bits();
    let operands = [giver.src[0], giver.src[1], user.src[1 - slot.min(1)]];
    if !(fits && same && one_constant(&operands)) {
        return None;
    }
    let mut form = user.form;
    form.mods.third = true;
    let [a, b, c] = operands;
    Some(made(user, form, [a, b, c, Operand::None, Operand::None], "add of three operands"))
}

/// `add` of what is shifted by a constant, or extended to 64 bits: a sum with a shift (LEA).
fn address(giver: &Inst, user: &Inst, slot: usize, regs: &[Width]) -> Option<Inst> {
    if slot > 1 || !is_sum(user, Root::Add) {
        return None;
    }
    let other = user.src[1 - slot];
    let bits = user.form.ty.bits();
    let constant = |operand| match operand {
        Operand::Const { bits, wide: false } => Some(bits),
        _ => None,
    };
    let (mut form, by) = match (giver.form.root, giver.form.ty, constant(giver.src[1])) {
        (Root::Shl, ScalarType::B64, Some(by @ 1..=31)) if bits == 64 => {
            let mut form = Form::plain(Root::Mad, ScalarType::U64);
            form.mods.half = Some(Half::Lo);
            (form, Operand::Const { bits: 1 << by, wide: true })
        }
        (Root::Shl, ScalarType::B32, Some(by @ 1..=31)) if bits == 32 => {
            (low(Root::Mad), Operand::Const { bits: 1 << by, wide: false })
        }
        (Root::Shr, ScalarType::U32 | ScalarType::B32, Some(by @ 1..=31)) if bits == 32 => {
            let mut form = low(Root::Mad);
            form.mods.half = Some(Half::Hi);
            (form, Operand::Const { bits: 1 << (32 - by), wide: false })
        }
        (Root::Cvt, ty @ (ScalarType::S32 | ScalarType::U32), None) if bits == 64 && extends(giver, regs) => {
            (wide(Root::Mad, ty), Operand::Const { bits: 1, wide: false })
        }
        _ => return None,
    };
    form.mods.shifted = true;
    let src = [giver.src[0], by, other, Operand::None, Operand::None];
    let fits = matches!(giver.src[0], Operand::Reg(_)) && one_constant(&[giver.src[0], other]);
    fits.then(|| {
        made(user, form, src, if bits == 64 { "add of 64 bits with a shift" } else { "add with a shift" })
    })
}

/// A shift to the left by a constant.
fn is_shift(inst: &Inst) -> bool {
    inst.form.root == Root::Shl && matches!(inst.src[1], Operand::Const { .. })
}

/// A `cvt` of an integer of 32 bits to 64 that does nothing else.
fn extends(inst: &Inst, regs: &[Width]) -> bool {
    // It may read a wider register.
    let word = matches!(inst.src[0], Operand::Reg(a) if regs[a as usize] == Width::Word);
    inst.form.root == Root::Cvt
        && inst.form.dst.bits() == 64
        && inst.form.dst.is_integer()
        && matches!(inst.form.ty, ScalarType::S32 | ScalarType::U32)
        && inst.form.mods == crate::form::Modifiers::plain()
        && word
}

/// What a bitwise operation of 32 bits makes of tables of its operands.
fn table(inst: &Inst, a: u8, b: u8) -> Option<u8> {
    if inst.form.ty != ScalarType::B32 || inst.pdst[0] != PredOperand::None {
        return None;
    }
    match inst.form.root {
        Root::And => Some(a & b),
        Root::Or => Some(a | b),
        Root::Xor => Some(a ^ b),
        Root::Not => Some(!a),
        _ => None,
    }
}

/// `and`, `or`, `xor`, `not` of another.
fn logic(giver: &Inst, user: &Inst, slot: usize) -> Option<Inst> {
    // The tables of the operands of `lop3` (PTX ISA "lop3").
    let (a, b, c) = (0xf0, 0xcc, 0xaa);
    let inner = table(giver, a, b)?;
    let of_user = if slot == 0 { table(user, inner, c)? } else { table(user, c, inner)? };
    let other = user.src[1 - slot.min(1)];
    let operands = [giver.src[0], giver.src[1], other].map(|operand| match operand {
        // `not` has one operand.
        Operand::None => giver.src[0],
        operand => operand,
    });
    if slot > 1 || !one_constant(&operands) {
        return None;
    }
    let [a, b, c] = operands;
    let bits = Operand::Const { bits: of_user.into(), wide: false };
    Some(made(user, Form::plain(Root::Lop3, ScalarType::B32), [a, b, c, bits, Operand::None], "lop3"))
}

/// The comparison that is true where another is not.
fn inverse(cmp: CmpOp, ty: ScalarType) -> CmpOp {
    use CmpOp as C;
    let float = ty.is_float();
    match cmp {
        C::Eq if float => C::Neu,
        C::Ne if float => C::Equ,
        C::Lt if float => C::Geu,
        C::Le if float => C::Gtu,
        C::Gt if float => C::Leu,
        C::Ge if float => C::Ltu,
        C::Eq => C::Ne,
        C::Ne => C::Eq,
        C::Lt => C::Ge,
        C::Le => C::Gt,
        C::Gt => C::Le,
        C::Ge => C::Lt,
        C::Lo => C::Hs,
        C::Ls => C::Hi,
        C::Hi => C::Ls,
        C::Hs => C::Lo,
        C::Equ => C::Ne,
        C::Neu => C::Eq,
        C::Ltu => C::Ge,
        C::Leu => C::Gt,
        C::Gtu => C::Le,
        C::Geu => C::Lt,
        C::Num => C::Nan,
        C::Nan => C::Num,
    }
}

/// A logical operation of predicates on a comparison.
fn combine(giver: &Inst, user: &Inst, slot: usize) -> Option<Inst> {
    let by = match user.form.root {
        Root::And => BoolOp::And,
        Root::Or => BoolOp::Or,
        Root::Xor => BoolOp::Xor,
        _ => return None,
    };
    let simple = giver.form.root == Root::Setp && giver.form.mods.bool_op.is_none();
    let scalar =
        giver.form.mods.vector == 1 && !matches!(giver.form.ty, ScalarType::F16x2 | ScalarType::Bf16x2);
    if !(simple && scalar && user.form.ty == ScalarType::Pred && slot < 2) {
        return None;
    }
    let PredOperand::Reg(_, negated) = user.psrc[slot] else { return None };
    let mut form = giver.form;
    form.mods.bool_op = Some(by);
    if negated {
        form.mods.cmp = Some(inverse(form.mods.cmp?, form.ty));
    }
    let mut inst = made(user, form, giver.src, "setp with a predicate");
    inst.psrc = [user.psrc[1 - slot], PredOperand::None];
    Some(inst)
}

/// The power of two that a shift to the left by a constant multiplies by.
pub(super) fn power(inst: &Inst, most: u64) -> Option<Operand> {
    match inst.src[1] {
        Operand::Const { bits, wide: false } if inst.form.root == Root::Shl && bits <= most => {
            Some(Operand::Const { bits: 1 << bits, wide: false })
        }
        _ => None,
    }
}

/// `shl` of a widened value, by a constant: `mul.wide`.
fn shifted(giver: &Inst, user: &Inst, slot: usize, regs: &[Width]) -> Option<Inst> {
    if !(extends(giver, regs) && user.form.ty == ScalarType::B64 && slot == 0) {
        return None;
    }
    let by = power(user, 30)?;
    Some(made(
        user,
        wide(Root::Mul, giver.form.ty),
        [giver.src[0], by, Operand::None, Operand::None, Operand::None],
        "mul.wide",
    ))
}

/// `mul.wide`, `mad.wide`.
fn wide(root: Root, ty: ScalarType) -> Form {
    let signed = ty == ScalarType::S32;
    let mut form = Form::plain(root, ty);
    form.dst = if signed { ScalarType::S64 } else { ScalarType::U64 };
    form.dst_reg = 64;
    form.mods.half = Some(Half::Wide);
    form
}

/// An addition to a product, or to what is shifted by a constant: `mad`.
fn multiply(giver: &Inst, user: &Inst, slot: usize) -> Option<Inst> {
    if slot > 1 {
        return None;
    }
    let minus = is_sum(user, Root::Sub) && slot == 1;
    if !(is_sum(user, Root::Add) || minus) {
        return None;
    }
    let long = user.form.ty.bits() == 64;
    let product = giver.form.root == Root::Mul && matches!(giver.form.ty, ScalarType::S32 | ScalarType::U32);
    let (form, a, mut b) = match giver.form.mods.half {
        Some(Half::Wide) if product && long && !minus => {
            (wide(Root::Mad, giver.form.ty), giver.src[0], giver.src[1])
        }
        Some(Half::Lo) if product && !long => (low(Root::Mad), giver.src[0], giver.src[1]),
        None if giver.form.ty == ScalarType::B32 && !long => {
            (low(Root::Mad), giver.src[0], power(giver, 31)?)
        }
        _ => return None,
    };
    if minus {
        let Operand::Const { bits, wide: false } = b else { return None };
        b = Operand::Const { bits: (bits as u32).wrapping_neg().into(), wide: false };
    }
    let c = user.src[1 - slot];
    // A constant factor is in a register that all such multiplications share; a parameter that is a factor is in one too.
    let factor = matches!(b, Operand::Const { .. });
    let room = factor && matches!(c, Operand::Parameter { .. });
    let moved = factor && matches!(a, Operand::Parameter { .. }) && !c.is_constant();
    if !(room || moved || one_constant(&[a, b, c])) {
        return None;
    }
    let text = if long { "mad.wide" } else { "mad.lo" };
    Some(made(user, form, [a, b, c, Operand::None, Operand::None], text))
}

/// `mul.lo.u32`, `mad.lo.u32`.
pub(super) fn low(root: Root) -> Form {
    let mut form = Form::plain(root, ScalarType::U32);
    form.mods.half = Some(Half::Lo);
    form
}

#[cfg(test)]
mod tests;
