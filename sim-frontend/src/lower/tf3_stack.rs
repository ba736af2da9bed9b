//! Transformation 3: the call stack made explicit (CS §5.1.3 step 3) [tf-3]. A frame in local
//! memory holds a function's return values and parameters from offset 0, then its local
//! variables, then saved registers; parameters of a call lie behind the frame, where the callee
//! finds them at its own offset 0 once the base of the stack has been raised.

use crate::form::{CmpOp, Form};
use crate::isa::Root;
use crate::program::{Extra, MemoryOp, OpClass};
use crate::ptx::ast::Variable;
use sim_memory::vocabulary::{CacheOp, ScalarType, Scope, Semantics, StateSpace};

use super::ir::{Func, Inst, Operand, PredOperand, Reg, Width};
use super::liveness::Live;
use super::work::count;
use std::collections::BTreeSet;

/// Offsets of return values, then parameters, each aligned; and the bytes in all.
pub fn layout<'v, 'a: 'v>(variables: impl Iterator<Item = &'v Variable<'a>>) -> (Vec<u32>, u32) {
    let mut at = 0u64;
    let offsets = variables
        .map(|variable| {
            at = at.next_multiple_of(variable.alignment());
            let offset = at;
            at += variable.bytes().unwrap_or(0);
            offset as u32
        })
        .collect();
    (offsets, at.min(u32::MAX.into()) as u32)
}

/// Frames begin at multiples of this, so that every alignment inside holds.
pub const FRAME_ALIGN: u32 = 16;

/// An instruction made by a transformation: it stands for `like` in messages.
pub fn made(like: &Inst, class: OpClass, root: Root, ty: ScalarType) -> Inst {
    Inst {
        class,
        line: like.line,
        text: like.text,
        loc: like.loc,
        min_sm: like.min_sm,
        ..Inst::blank(Form::plain(root, ty), like.guard)
    }
}

/// In all lanes, those too that a guard keeps from the call: what a recursive callee leaves in the
/// guard's register says nothing once it returns.
pub fn unguarded(inst: Inst) -> Inst {
    Inst { guard: PredOperand::Const(true), ..inst }
}

/// `base = base + bytes`, in the lanes that make the call.
pub fn adjust(like: &Inst, base: Reg, bytes: u32, up: bool) -> Inst {
    let root = if up { Root::Add } else { Root::Sub };
    let mut inst = made(like, OpClass::Data, root, ScalarType::U32);
    inst.dst[0] = Operand::Reg(base);
    inst.src[0] = Operand::Reg(base);
    inst.src[1] = Operand::Const { bits: bytes.into(), wide: false };
    inst
}

/// A load from or store to the frame.
pub fn frame_access(
    like: &Inst,
    store: bool,
    base: Option<Reg>,
    offset: u32,
    value: Operand,
    ty: ScalarType,
) -> Inst {
    let (class, root) = if store { (OpClass::Store, Root::St) } else { (OpClass::Load, Root::Ld) };
    let mut inst = made(like, class, root, ty);
    inst.src[0] = base.map_or(Operand::None, Operand::Reg);
    inst.imm = offset.into();
    if store {
        inst.src[1] = value;
    } else {
        inst.dst[0] = value;
    }
    inst.extra = Extra::Memory(MemoryOp {
        space: StateSpace::Local,
        cache: if store { CacheOp::Wb } else { CacheOp::Ca },
        semantics: Semantics::Weak,
        scope: Scope::Cta,
        element_bytes: ty.bytes() as u8,
        vector: 1,
        signed: ty.is_signed(),
        reg_bits: crate::form::register_bits(ty).max(if ty.bits() <= 16 { 16 } else { 32 }),
        address_64: false,
        scale: 0,
        alignment: ty.bytes().next_power_of_two() as u8,
        atomic: None,
        hint: None,
        policy: sim_memory::priority::Policy::None,
        cluster: false,
        of_warp: false,
        combined: None,
    });
    inst
}

/// Bytes that a value of a register has in the frame.
pub fn frame_bytes(ty: ScalarType) -> u32 {
    if ty == ScalarType::Pred { 4 } else { ty.bytes() }
}

/// `word = reg ? 1 : 0`: memory holds no predicates.
pub fn predicate_to_word(like: &Inst, word: Reg, reg: Reg) -> Inst {
    let mut select = made(like, OpClass::Data, Root::Selp, ScalarType::B32);
    select.dst[0] = Operand::Reg(word);
    select.src[0] = Operand::Const { bits: 1, wide: false };
    select.src[1] = Operand::Const { bits: 0, wide: false };
    select.psrc[0] = PredOperand::Reg(reg, false);
    select
}

/// `reg = word != 0`.
pub fn predicate_of_word(like: &Inst, reg: Reg, word: Reg) -> Inst {
    let mut test = made(like, OpClass::Data, Root::Setp, ScalarType::U32);
    test.form.mods.cmp = Some(CmpOp::Ne);
    test.src[0] = Operand::Reg(word);
    test.src[1] = Operand::Const { bits: 0, wide: false };
    test.pdst[0] = PredOperand::Reg(reg, false);
    test
}

/// Register preservation: what is live across a call is stored to the frame before it and
/// loaded after it, from `offset` on. Gives the bytes used.
pub fn preserve_registers(func: &mut Func, offset: u32) -> u32 {
    let across = Live::new(func);
    let is_call = |inst: &Inst| inst.class.is_call();
    let mut most = 0;
    for b in 0..func.blocks.len() {
        if !func.blocks[b].insts.iter().any(is_call) {
            continue;
        }
        let insts: Vec<Inst> = std::mem::take(&mut func.blocks[b].insts);
        let mut live = BTreeSet::new();
        across.for_behind(b, |reg| {
            live.insert(reg);
        });
        if let Some(last) = func.blocks[b].last() {
            step_back(&mut live, last);
        }
        let mut new: Vec<Inst> = Vec::new();
        for inst in insts.iter().rev() {
            if !is_call(inst) {
                new.push(inst.clone());
                step_back(&mut live, inst);
                continue;
            }
            let fixed = [func.stack_base, func.taken];
            let saved: Vec<Reg> = live.iter().copied().filter(|reg| !fixed.contains(&Some(*reg))).collect();
            count(saved.len());
            let mut at = offset;
            let (mut before, mut after) = (Vec::new(), Vec::new());
            for reg in saved {
                let ty = match func.regs[reg as usize] {
                    Width::Pair => ScalarType::B64,
                    Width::Half => ScalarType::B16,
                    Width::Word | Width::Pred => ScalarType::B32,
                };
                at = at.next_multiple_of(ty.bytes());
                if func.regs[reg as usize] == Width::Pred {
                    let word = func.regs.len() as Reg;
                    func.regs.push(Width::Word);
                    before.push(predicate_to_word(inst, word, reg));
                    before.push(frame_access(inst, true, func.stack_base, at, Operand::Reg(word), ty));
                    let back = func.regs.len() as Reg;
                    func.regs.push(Width::Word);
                    after.push(frame_access(inst, false, func.stack_base, at, Operand::Reg(back), ty));
                    after.push(predicate_of_word(inst, reg, back));
                } else {
                    before.push(frame_access(inst, true, func.stack_base, at, Operand::Reg(reg), ty));
                    after.push(frame_access(inst, false, func.stack_base, at, Operand::Reg(reg), ty));
                }
                at += ty.bytes();
            }
            most = most.max(at - offset);
            // The stack base is raised around the call; saves lie outside of that.
            new.extend(after.into_iter().rev().map(unguarded));
            new.push(inst.clone());
            new.extend(before.into_iter().rev().map(unguarded));
            step_back(&mut live, inst);
        }
        new.reverse();
        func.blocks[b].insts = order_around_calls(new, func.stack_base);
    }
    most
}

/// Liveness before an instruction from liveness after it, in the order of the registers.
fn step_back(live: &mut BTreeSet<Reg>, inst: &Inst) {
    inst.for_writes(|reg| {
        live.remove(&reg);
    });
    inst.for_reads(|reg| {
        live.insert(reg);
    });
}

/// Saves must lie before the stack base is raised and reloads after it is lowered: moves the
/// adjustments next to their calls.
fn order_around_calls(insts: Vec<Inst>, base: Option<Reg>) -> Vec<Inst> {
    let Some(base) = base else { return insts };
    let is_adjust = |inst: &Inst, root| {
        inst.form.root == root && inst.dst[0] == Operand::Reg(base) && inst.src[0] == Operand::Reg(base)
    };
    let mut out: Vec<Inst> = Vec::new();
    let mut raise: Option<Inst> = None;
    let mut held: Vec<Inst> = Vec::new();
    let mut after_call = false;
    for inst in insts {
        if is_adjust(&inst, Root::Add) {
            raise = Some(unguarded(inst));
        } else if is_adjust(&inst, Root::Sub) && after_call {
            out.push(unguarded(inst));
            out.append(&mut held);
            after_call = false;
        } else if inst.class.is_call() {
            out.extend(raise.take());
            out.push(inst);
            after_call = true;
        } else if after_call {
            held.push(inst);
        } else {
            out.push(inst);
        }
    }
    out.extend(raise);
    out.append(&mut held);
    out
}
