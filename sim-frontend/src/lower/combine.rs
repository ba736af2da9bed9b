//! Atomics of which all threads of a warp name one address: NVIDIA's assembler combines their operands first, and one
//! thread performs them. Which it combines, and how many instructions stand before and behind, was read from what
//! ptxas 12.9 makes for sm_75, sm_80 and sm_90 of each kind.

use sim_memory::vocabulary::{AtomicOp, ScalarType, StateSpace};

use super::ir::{Func, Inst, Operand};
use super::uniform::Uniform;
use super::work::count;
use crate::chip::CombineAtomics;
use crate::program::{Combined, Extra, OpClass};

/// Marks the atomics that are combined, and gives their number.
pub fn combine(func: &mut Func, way: CombineAtomics) -> u32 {
    let candidate = |inst: &Inst| inst.class == OpClass::Atomic;
    if way == CombineAtomics::None || !func.blocks.iter().any(|block| block.all().any(candidate)) {
        return 0;
    }
    let uniform = Uniform::new(func);
    let mut read = vec![false; func.regs.len()];
    for inst in func.blocks.iter().flat_map(|block| block.all()) {
        count(1);
        inst.for_reads(|reg| read[reg as usize] = true);
    }
    let mut combined = 0;
    for inst in func.blocks.iter_mut().flat_map(|block| block.all_mut()).filter(|inst| candidate(inst)) {
        let returns = match inst.dst[0] {
            Operand::Reg(reg) => read[reg as usize],
            _ => false,
        };
        let one_address = uniform.operand(&inst.src[0]);
        let one_value = uniform.operand(&inst.src[1]);
        if let Extra::Memory(facts) = &mut inst.extra
            && let Some((op, ty)) = facts.atomic
            && matches!(facts.space, StateSpace::Global | StateSpace::Shared)
            && one_address
        {
            let one =
                facts.space == StateSpace::Shared && matches!(inst.src[1], Operand::Const { bits: 1, .. });
            facts.combined = combination(way, op, ty, Operands { one_value, one, returns });
            combined += u32::from(facts.combined.is_some());
        }
    }
    combined
}

/// What matters of an atomic's operands.
struct Operands {
    /// The value is the same for all threads.
    one_value: bool,
    /// It is 1, in shared memory.
    one: bool,
    /// The old value is used.
    returns: bool,
}

/// How an atomic on one address is combined, if it is.
fn combination(way: CombineAtomics, op: AtomicOp, ty: ScalarType, operands: Operands) -> Option<Combined> {
    let Operands { one_value, one, returns } = operands;
    let any = |operations| Some(Combined { whole: false, operations });
    let whole = |operations| Some(Combined { whole: true, operations });
    let logic = matches!(op, AtomicOp::Min | AtomicOp::Max | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
    if ty.is_float() || !(op == AtomicOp::Add || logic) {
        return None;
    }
    match (ty.bits(), returns) {
        // One instruction counts the threads.
        (32, false) if one && op == AtomicOp::Add && way == CombineAtomics::Redux => any(0),
        // The number of threads times the value; each gets the sum of those before it.
        (32, false) if op == AtomicOp::Add && one_value => any(4),
        (32, true) if op == AtomicOp::Add && one_value => any(9),
        (64, false) if op == AtomicOp::Add && one_value => any(10),
        (64, true) if op == AtomicOp::Add && one_value => any(18),
        (32, false) => match way {
            CombineAtomics::Redux => any(6),
            // The first thread's operand is that of all.
            _ if one_value && op != AtomicOp::Xor => whole(5),
            _ => whole(14),
        },
        // A scan by shuffles.
        (32, true) if op == AtomicOp::Add => whole(23),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
