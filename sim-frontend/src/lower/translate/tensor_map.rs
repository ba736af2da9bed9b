//! `tensormap`: a map is changed by stores into its fields, copied by loads and stores with a fence behind them.

use sim_memory::vocabulary::{ScalarType, Scope, Semantics, StateSpace};

use super::Translator;
use crate::form::Form;
use crate::isa::{OperandShape, Root};
use crate::lower::ir::{Inst, Operand};
use crate::lower::tf1_validate::OperandSize;
use crate::lower::tf3_stack::made;
use crate::lower::tf4_access_sizes;
use crate::program::{Extra, MemoryOp, OpClass, Text};
use crate::ptx::ast::{Instruction, Operand as AstOperand};
use crate::tensor_map::MapField;

/// Bytes of a map.
const BYTES: u64 = 128;

/// The scope of a fence for tensor maps: maps are read from L2, so that what a thread stored must be there, also where only
/// threads of its block are to see it.
pub(super) fn visible(scope: Scope) -> Scope {
    if matches!(scope, Scope::Cta | Scope::Cluster) { Scope::Gpu } else { scope }
}

impl<'a> Translator<'_, 'a> {
    pub(super) fn tensor_map(&mut self, inst: Inst, ast: &Instruction<'a>) {
        match (inst.form.mods.map_field, ast.operands.as_slice()) {
            (Some(field), [at, ordinal, value]) if field.elements().is_some() => {
                self.replace(inst, field, at, Some(ordinal), value);
            }
            (Some(field), [at, value]) if field.elements().is_none() => {
                self.replace(inst, field, at, None, value);
            }
            (None, [to, from, bytes]) => self.copy_map(&inst, [to, from, bytes]),
            (Some(field), _) => self.count(ast, 2 + usize::from(field.elements().is_some())),
            (None, _) => self.count(ast, 3),
        }
    }

    /// `fence`; one that acquires a tensor map names its 128 bytes.
    pub(super) fn fence(&mut self, inst: Inst, ast: &Instruction<'a>, shapes: &'static [OperandShape]) {
        if let [_, bytes] = ast.operands.as_slice() {
            let Some(number) = self.constant(bytes) else { return };
            if number != BYTES {
                return self.error(
                    bytes.span,
                    "operand",
                    format!("a tensor map has 128 bytes, not {number}"),
                );
            }
        }
        self.ordinary(inst, ast, shapes);
    }

    /// `tensormap.replace`: a store into the field.
    fn replace(
        &mut self,
        mut inst: Inst,
        field: MapField,
        at: &AstOperand<'a>,
        ordinal: Option<&AstOperand<'a>>,
        value: &AstOperand<'a>,
    ) {
        let space = inst.form.mods.space.unwrap_or(StateSpace::Generic);
        let Some(address) = self.address(at) else { return };
        if space != StateSpace::Generic {
            self.lies_in(&address, at, space);
        }
        let mut offset = field.offset() as u64;
        if let Some(ordinal) = ordinal {
            let Some(number) = self.constant(ordinal) else { return };
            let elements = field.elements().unwrap_or_default();
            if number >= elements {
                let message = format!("the field has elements 0 to {}, not {number}", elements - 1);
                return self.error(ordinal.span, "operand", message);
            }
            offset += number * u64::from(field.ty().bytes());
        }
        inst.src[1] = match field {
            MapField::Type
            | MapField::Interleave
            | MapField::Swizzle
            | MapField::Atomicity
            | MapField::Fill => {
                let Some(written) = self.constant(value) else { return };
                let Some(bits) = field.value(written) else {
                    let message = format!("{written} is no value of the field that can be executed");
                    return self.error(value.span, "operand", message);
                };
                Operand::Const { bits, wide: false }
            }
            _ => self.source(value, inst.form.ty, OperandSize::Exact),
        };
        let bits = if field.ty() == ScalarType::B64 { 64 } else { 32 };
        if let (Operand::Const { wide, .. } | Operand::Link { wide, .. }, 64) = (&mut inst.src[1], bits) {
            *wide = true;
        }
        let form = Form::plain(Root::St, field.ty());
        inst.extra = Extra::Memory(tf4_access_sizes::facts(&form, space, bits, address.wide));
        (inst.class, inst.src[0], inst.imm) = (OpClass::Store, address.base, address.offset + offset as i64);
        self.push(inst);
    }

    /// `tensormap.cp_fenceproxy`: the map is copied to global memory, sixteen bytes at a time, and a fence orders what
    /// copies of tensors read of it afterwards.
    fn copy_map(&mut self, inst: &Inst, [to, from, bytes]: [&AstOperand<'a>; 3]) {
        let Some(number) = self.constant(bytes) else { return };
        if number != BYTES {
            return self.error(bytes.span, "operand", format!("a tensor map has 128 bytes, not {number}"));
        }
        let (Some(target), Some(source)) = (self.address(to), self.address(from)) else { return };
        self.lies_in(&target, to, StateSpace::Global);
        self.lies_in(&source, from, StateSpace::Shared);
        let halves = [(); 2].map(|()| Operand::Reg(self.fresh(ScalarType::B64)));
        for at in (0..BYTES as i64).step_by(16) {
            let sides = [
                (OpClass::Load, Root::Ld, StateSpace::Shared, &source),
                (OpClass::Store, Root::St, StateSpace::Global, &target),
            ];
            for (class, root, space, address) in sides {
                let mut part = made(inst, class, root, ScalarType::B64);
                part.text = Text::Made("bytes of the tensor map");
                part.form.mods.vector = 2;
                (part.src[0], part.imm) = (address.base, address.offset + at);
                match class {
                    OpClass::Load => part.dst[..2].copy_from_slice(&halves),
                    _ => part.src[1..3].copy_from_slice(&halves),
                }
                let facts = tf4_access_sizes::facts(&part.form, space, 64, address.wide);
                part.extra = Extra::Memory(MemoryOp { of_warp: true, ..facts });
                self.push(part);
            }
        }
        let mut fence = made(inst, OpClass::Membar, Root::Fence, ScalarType::B32);
        let scope = visible(inst.form.mods.scope.unwrap_or(Scope::Sys));
        fence.extra = Extra::Membar(scope, Semantics::AcqRel);
        self.push(fence);
    }
}
