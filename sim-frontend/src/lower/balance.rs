//! Sums and shifts that the multipliers of the FP32 lanes do as well as the integer lanes: NVIDIA's assembler writes them as
//! multiplications (IMAD.SHL, IMAD.IADD) from compute capability 7.0 on. Shifts to the left by a constant always become one;
//! additions of two operands as long as the integer lanes have more to do in a basic block. Values stay what they were.

use super::ir::{Func, Inst, Operand, PredOperand};
use super::work::count;
use crate::form::{Form, Half};
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
        for inst in block.insts.iter_mut().filter(|inst| shift(inst).is_some()) {
            if let Some(by) = shift(inst) {
                let by = Operand::Const { bits: 1 << by, wide: false };
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
    let mut form = Form::plain(root, ScalarType::U32);
    form.mods.half = Some(Half::Lo);
    let src = [a, b, c, Operand::None, Operand::None];
    Inst { form, opcode: None, src, imm: 0, text: Text::Made(text), ..of.clone() }
}

/// By how much an instruction shifts 32 bits to the left.
fn shift(inst: &Inst) -> Option<u32> {
    let plain = inst.class == OpClass::Data && (inst.form.root, inst.form.ty) == (Root::Shl, ScalarType::B32);
    match (inst.src[0], inst.src[1]) {
        (Operand::Reg(_), Operand::Const { bits: by @ 1..=31, wide: false }) if plain => Some(by as u32),
        _ => None,
    }
}

/// A sum of two operands of 32 bits, as a + b · factor with a factor of 1 or -1: b, the factor, a.
fn sum(inst: &Inst) -> Option<(Operand, i32, Operand)> {
    let mods = &inst.form.mods;
    let plain = inst.class == OpClass::Data
        && matches!(inst.form.ty, ScalarType::S32 | ScalarType::U32)
        && inst.pdst == [super::ir::PredOperand::None; 2]
        && inst.psrc == [PredOperand::None; 2]
        && !(mods.sat || mods.cc || mods.third);
    let [a, b, ..] = inst.src;
    // The factor takes the place of a constant.
    let registers = matches!((a, b), (Operand::Reg(_), Operand::Reg(_)));
    match inst.form.root {
        Root::Add if plain && registers => Some((a, 1, b)),
        Root::Sub if plain && registers => Some((b, -1, a)),
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
