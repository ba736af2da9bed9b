//! Loads of neighbouring words of shared memory become one load of two or four elements, as NVIDIA's assembler makes them:
//! where the address is known to be a multiple of what is loaded, and nothing between them can change what they read.

use std::collections::BTreeMap;

use super::ir::{Func, Inst, Operand, PredOperand, Reg};
use super::work::count;
use crate::form::Half;
use crate::isa::Root;
use crate::program::{Extra, MemoryOp, OpClass, Text};
use sim_memory::vocabulary::{Semantics, StateSpace};

/// Passes over a function in which the zeros of registers are looked for, at most.
const PASSES: u32 = 8;

/// Bytes of an access of a thread at most.
const MOST_BYTES: i64 = 16;

/// All bits of a value are zero.
const ALL_ZERO: u32 = 64;

/// Makes wide loads; returns how many loads went into others.
pub fn widen(func: &mut Func) -> u32 {
    if func.injected_by_hand
        || !func.blocks.iter().flat_map(|block| &block.insts).any(|inst| element(inst).is_some())
    {
        return 0;
    }
    let zeros = zeros(func);
    let mut touched = vec![(0, 0); func.regs.len()];
    (0..func.blocks.len()).map(|b| widen_block(func, b, &zeros, &mut touched)).sum()
}

/// By register: how many of its low bits are zero whatever it was written by.
fn zeros(func: &Func) -> Vec<u32> {
    let mut zeros = vec![ALL_ZERO; func.regs.len()];
    for fixed in func.fixed().into_iter().flatten() {
        zeros[fixed as usize] = 0;
    }
    for _ in 0..PASSES {
        let mut changed = false;
        for inst in func.blocks.iter().flat_map(|block| block.all()) {
            count(1);
            let made = zeros_of(inst, &zeros);
            inst.for_writes(|reg| {
                let known = &mut zeros[reg as usize];
                changed |= made < *known;
                *known = made.min(*known);
            });
        }
        if !changed {
            return zeros;
        }
    }
    // Not all of them are known to hold.
    vec![0; func.regs.len()]
}

/// Low bits that are zero in what an instruction writes.
fn zeros_of(inst: &Inst, zeros: &[u32]) -> u32 {
    let of = |slot: usize| match inst.src[slot] {
        Operand::Reg(reg) => zeros[reg as usize],
        Operand::Const { bits: 0, .. } => ALL_ZERO,
        Operand::Const { bits, .. } => bits.trailing_zeros(),
        _ => 0,
    };
    let whole = (inst.form.ty.is_integer() || inst.form.ty.is_bits()) && inst.form.ty.bits() >= 32;
    if inst.class != OpClass::Data || !whole {
        return 0;
    }
    let sum = match inst.form.mods.third {
        true => of(0).min(of(1)).min(of(2)),
        false => of(0).min(of(1)),
    };
    match inst.form.root {
        Root::Mov if inst.src[1] == Operand::None => of(0),
        Root::Cvt if inst.form.dst.is_integer() && inst.form.dst.bits() >= 32 && !inst.form.mods.sat => of(0),
        Root::Add | Root::Sub if !inst.form.mods.cc && !inst.form.mods.sat => sum,
        Root::Shl => match inst.src[1] {
            Operand::Const { bits, .. } => of(0).saturating_add(bits.min(64) as u32).min(ALL_ZERO),
            _ => of(0),
        },
        Root::Mul if inst.form.mods.half != Some(Half::Hi) => (of(0) + of(1)).min(ALL_ZERO),
        Root::Mad if inst.form.mods.half != Some(Half::Hi) && !inst.form.mods.cc => {
            (of(0) + of(1)).min(of(2))
        }
        Root::And => of(0).max(of(1)),
        Root::Or | Root::Xor => of(0).min(of(1)),
        _ => 0,
    }
}

/// The element of a load that may go into another: one of 32 or 64 bits of shared memory, which nothing orders but barriers,
/// fences and stores.
fn element(inst: &Inst) -> Option<&MemoryOp> {
    let Extra::Memory(facts) = &inst.extra else { return None };
    let plain = inst.class == OpClass::Load
        && inst.guard == PredOperand::Const(true)
        && facts.space == StateSpace::Shared
        && facts.semantics == Semantics::Weak
        && !facts.cluster
        && facts.vector == 1
        && matches!(facts.element_bytes, 4 | 8)
        && facts.reg_bits == 8 * facts.element_bytes
        && matches!(inst.dst[0], Operand::Reg(_));
    plain.then_some(facts)
}

/// Loads may move up past it: it changes no shared memory, and orders nothing.
fn may_be_passed(inst: &Inst) -> bool {
    let other_space = || match &inst.extra {
        Extra::Memory(facts) => {
            facts.semantics == Semantics::Weak
                && !matches!(facts.space, StateSpace::Shared | StateSpace::Generic)
        }
        _ => false,
    };
    match inst.class {
        OpClass::Data | OpClass::LoadParam => true,
        OpClass::Load => matches!(&inst.extra, Extra::Memory(facts) if facts.semantics == Semantics::Weak),
        OpClass::Store => other_space(),
        _ => false,
    }
}

/// Loads of one base that could be one, by offset: their places in the block.
type Group = BTreeMap<i64, usize>;

fn widen_block(func: &mut Func, b: usize, zeros: &[u32], touched: &mut [(u32, usize)]) -> u32 {
    // By base, where there is one, and bytes of an element.
    let mut open: BTreeMap<(Option<Reg>, u8), Group> = BTreeMap::new();
    let mut wide: Vec<Vec<usize>> = Vec::new();
    let insts = &func.blocks[b].insts;
    let block = b as u32 + 1;
    for (i, inst) in insts.iter().enumerate() {
        count(1);
        if !may_be_passed(inst) {
            open.values().for_each(|group| sets(group, insts, zeros, &mut wide));
            open.clear();
        }
        if let (Some(facts), Operand::Reg(dst)) = (element(inst), inst.dst[0]) {
            let base = match inst.src[0] {
                Operand::Reg(reg) => Some(Some(reg)),
                Operand::None => Some(None),
                _ => None,
            };
            if let Some(base) = base {
                let group = open.entry((base, facts.element_bytes)).or_default();
                let first = group.values().min().copied().unwrap_or(i);
                // Nothing between the first of them and here knows the register.
                let (known, at) = touched[dst as usize];
                if known == block && at >= first || group.contains_key(&inst.imm) {
                    sets(group, insts, zeros, &mut wide);
                    group.clear();
                }
                group.insert(inst.imm, i);
            }
        }
        inst.for_reads(|reg| touched[reg as usize] = (block, i));
        inst.for_writes(|reg| {
            touched[reg as usize] = (block, i);
            open.retain(|(base, _), group| {
                let ends = *base == Some(reg);
                if ends {
                    sets(group, insts, zeros, &mut wide);
                }
                !ends
            });
        });
    }
    open.values().for_each(|group| sets(group, insts, zeros, &mut wide));
    let mut gone = vec![false; insts.len()];
    let mut merged = 0;
    for set in wide {
        let made = one_load(&set, &func.blocks[b].insts);
        let first = set.iter().copied().min().unwrap_or(0);
        func.blocks[b].insts[first] = made;
        set.iter().filter(|i| **i != first).for_each(|i| gone[*i] = true);
        merged += set.len() as u32 - 1;
    }
    let mut gone = gone.into_iter();
    func.blocks[b].insts.retain(|_| !gone.next().unwrap_or(false));
    merged
}

/// Takes the widest loads first that are aligned.
fn sets(group: &Group, insts: &[Inst], zeros: &[u32], wide: &mut Vec<Vec<usize>>) {
    let mut left = group.clone();
    let Some(facts) = left.values().next().and_then(|i| element(&insts[*i])) else { return };
    let bytes = i64::from(facts.element_bytes);
    for elements in [4, 2] {
        let whole = elements * bytes;
        if whole > MOST_BYTES {
            continue;
        }
        let offsets: Vec<i64> = left.keys().copied().collect();
        for at in offsets {
            let members: Option<Vec<usize>> =
                (0..elements).map(|e| left.get(&(at + e * bytes)).copied()).collect();
            let Some(members) = members else { continue };
            let base = match insts[members[0]].src[0] {
                Operand::Reg(reg) => zeros[reg as usize],
                _ => ALL_ZERO,
            };
            if at % whole == 0 && base >= whole.trailing_zeros() {
                for e in 0..elements {
                    left.remove(&(at + e * bytes));
                }
                wide.push(members);
            }
        }
    }
}

/// The load that stands for those of a set, which are in the order of their offsets.
fn one_load(set: &[usize], insts: &[Inst]) -> Inst {
    let first = set.iter().copied().min().unwrap_or(0);
    let mut made = insts[first].clone();
    let elements = set.len() as u8;
    made.imm = insts[set[0]].imm;
    for (slot, i) in set.iter().enumerate() {
        made.dst[slot] = insts[*i].dst[0];
    }
    made.form.mods.vector = elements;
    made.opcode = None;
    made.text = Text::Made(if elements == 4 { "ld.shared.v4" } else { "ld.shared.v2" });
    if let Extra::Memory(facts) = &mut made.extra {
        facts.vector = elements;
        facts.alignment = facts.element_bytes * elements;
    }
    made
}

#[cfg(test)]
mod tests;
