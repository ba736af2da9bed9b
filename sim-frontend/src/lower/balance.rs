//! Sums and shifts that the multipliers of the FP32 lanes do as well as the integer lanes: NVIDIA's assembler writes them as
//! multiplications (IMAD.SHL, IMAD.IADD) from compute capability 7.0 on. Shifts to the left by a constant always become one
//! (of ptxas nine of ten), additions of two registers as long as the integer lanes have more to do in a basic block. Values
//! stay what they were.

use super::ir::{Func, Inst, Operand};
use super::select::{is_sum, low, power};
use super::work::count;
use crate::isa::Root;
use crate::program::{OpClass, Text};
use sim_memory::vocabulary::ScalarType;

/// Who executes an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lanes {
    Integer,
    /// The multipliers.
    Multiplier,
    Other,
}

/// Gives operations to the multipliers; returns how many.
pub fn balance(func: &mut Func) -> u32 {
    if func.injected_by_hand {
        return 0;
    }
    let mut given = 0;
    for block in &mut func.blocks {
        for inst in &mut block.insts {
            if let Some(by) = factor(inst) {
                *inst = product(inst, Root::Mul, [inst.src[0], by, Operand::None], "shl as mul.lo");
                given += 1;
            }
        }
        let (mut integer, mut multiplier) = (0u32, 0u32);
        for inst in block.all() {
            count(1);
            let operations = inst.form.ty.bits().div_ceil(32).max(1);
            match lanes(inst) {
                Lanes::Integer => integer += operations,
                Lanes::Multiplier => multiplier += operations,
                Lanes::Other => {}
            }
        }
        for inst in &mut block.insts {
            if integer <= multiplier + 1 {
                break;
            }
            if let Some((a, by, b)) = sum(inst) {
                let by = Operand::Const { bits: u64::from(by as u32), wide: false };
                let text = if inst.form.root == Root::Sub { "sub as mad.lo" } else { "add as mad.lo" };
                *inst = product(inst, Root::Mad, [a, by, b], text);
                (integer, multiplier) = (integer - 1, multiplier + 1);
                given += 1;
            }
        }
    }
    given
}

/// `mul.lo.u32`, `mad.lo.u32` in the place of another.
fn product(of: &Inst, root: Root, [a, b, c]: [Operand; 3], text: &'static str) -> Inst {
    let src = [a, b, c, Operand::None, Operand::None];
    Inst { form: low(root), opcode: None, src, imm: 0, text: Text::Made(text), ..of.clone() }
}

/// What a shift of 32 bits to the left by a constant multiplies by.
fn factor(inst: &Inst) -> Option<Operand> {
    let plain = inst.class == OpClass::Data && inst.form.ty == ScalarType::B32;
    (plain && matches!(inst.src[0], Operand::Reg(_))).then(|| power(inst, 31))?
}

/// A sum of two registers of 32 bits: what is multiplied, by 1 or -1, and what is added to it.
fn sum(inst: &Inst) -> Option<(Operand, i32, Operand)> {
    let [a, b, ..] = inst.src;
    // The factor takes the place of a constant.
    let registers = matches!((a, b), (Operand::Reg(_), Operand::Reg(_)));
    if inst.class != OpClass::Data || inst.form.ty.bits() != 32 || !registers {
        return None;
    }
    match inst.form.root {
        Root::Add if is_sum(inst, Root::Add) => Some((a, 1, b)),
        Root::Sub if is_sum(inst, Root::Sub) => Some((b, -1, a)),
        _ => None,
    }
}

/// Who executes an instruction, as far as it tells.
fn lanes(inst: &Inst) -> Lanes {
    let ty = inst.form.ty;
    if inst.class != OpClass::Data || ty.bits() < 32 && ty != ScalarType::Pred {
        return Lanes::Other;
    }
    let whole = !ty.is_float();
    match inst.form.root {
        Root::Mad if inst.form.mods.shifted => Lanes::Integer,
        Root::Mul | Root::Mad | Root::Fma if ty != ScalarType::F64 => Lanes::Multiplier,
        Root::Add | Root::Sub if ty == ScalarType::F32 => Lanes::Multiplier,
        // Constants and copies are products too (IMAD.MOV).
        Root::Mov => Lanes::Multiplier,
        Root::Add | Root::Sub | Root::Shl | Root::Shr | Root::Shf if whole => Lanes::Integer,
        Root::And | Root::Or | Root::Xor | Root::Not | Root::Lop3 | Root::Prmt if ty != ScalarType::Pred => {
            Lanes::Integer
        }
        Root::Setp | Root::Set | Root::Selp | Root::Slct | Root::Min | Root::Max if ty != ScalarType::F64 => {
            Lanes::Integer
        }
        Root::Abs | Root::Neg if whole => Lanes::Integer,
        _ => Lanes::Other,
    }
}

#[cfg(test)]
mod tests;
