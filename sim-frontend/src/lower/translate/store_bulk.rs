//! `st.bulk`: a loop of stores of eight bytes to shared memory of the block.

use sim_memory::vocabulary::{ScalarType, StateSpace};

use super::Translator;
use crate::form::CmpOp;
use crate::isa::Root;
use crate::lower::ir::{Inst, Operand, PredOperand, Terminator};
use crate::lower::tf1_validate::OperandSize;
use crate::lower::tf3_stack::made;
use crate::lower::tf4_access_sizes;
use crate::program::{Extra, OpClass, Text};
use crate::ptx::ast::{Instruction, Operand as AstOperand, OperandKind};

/// Bytes of a store.
const STEP: u64 = 8;

impl<'a> Translator<'_, 'a> {
    /// `st.bulk [a], size, 0`.
    pub(super) fn store_bulk(&mut self, inst: &Inst, ast: &Instruction<'a>) {
        let [place, size, value] = ast.operands.as_slice() else { return self.count(ast, 3) };
        if !matches!(&value.kind, OperandKind::Int(value) if value.value() == 0) {
            return self.error(value.span, "operand", "the initial value must be the constant 0");
        }
        if let OperandKind::Int(bytes) = &size.kind
            && (bytes.value() < 0 || bytes.value() % i128::from(STEP) != 0)
        {
            return self.error(size.span, "operand", "the size must be a multiple of 8 bytes");
        }
        let Some(address) = self.address(place) else { return };
        if address.space.is_some_and(|space| space != StateSpace::Shared) {
            return self.error(place.span, "space", "the variable must be in .shared");
        }
        let Some(left) = self.size(inst, size) else { return };
        let shared = inst.form.mods.space.is_some() || address.space.is_some();
        let ty = if address.wide { ScalarType::U64 } else { ScalarType::U32 };
        let register = self.fresh(ty);
        let at = Operand::Reg(register);
        let always = Inst { guard: PredOperand::Const(true), ..inst.clone() };
        let part = |root, ty, dst, src: [Operand; 2]| {
            let mut out = made(&always, OpClass::Data, root, ty);
            out.text = Text::Made("a part of `st.bulk`");
            out.dst[0] = dst;
            out.src[..2].copy_from_slice(&src);
            out
        };
        let constant = |bits: i64| Operand::Const { bits: bits as u64, wide: address.wide };
        let base = if address.base == Operand::None { constant(0) } else { address.base };
        self.push(part(Root::Add, ty, at, [base, constant(address.offset)]));
        if !shared {
            let mut to_shared = part(Root::Cvta, ty, at, [at, Operand::None]);
            (to_shared.form.mods.to, to_shared.form.mods.space) = (true, Some(StateSpace::Shared));
            self.push(to_shared);
        }
        // More than seven bytes are left; nothing is for threads that the guard keeps from it.
        let more = self.fresh(ScalarType::Pred);
        let compare = |guard, cmp, than: u64| {
            let than = Operand::Const { bits: than, wide: false };
            let mut out = part(Root::Setp, ScalarType::U32, Operand::None, [left, than]);
            (out.form.mods.cmp, out.pdst[0], out.guard) = (Some(cmp), PredOperand::Reg(more, false), guard);
            out
        };
        let mut none = part(Root::Mov, ScalarType::Pred, Operand::None, [Operand::None; 2]);
        (none.pdst[0], none.psrc[0]) = (PredOperand::Reg(more, false), PredOperand::Const(false));
        self.push(none.clone());
        self.push(compare(inst.guard, CmpOp::Ge, STEP));
        let body = self.func.blocks.len();
        let (first, second) = (self.placeholder(), self.placeholder());
        self.func.blocks.extend([first, second]);
        let branch = |negated| {
            let mut out = made(&always, OpClass::Branch, Root::Bra, ScalarType::B32);
            (out.text, out.guard) = (Text::Made("a part of `st.bulk`"), PredOperand::Reg(more, negated));
            Box::new(out)
        };
        self.finish(Terminator::Branch(branch(true), body + 1, body));
        self.enter(body);
        let mut store = made(&always, OpClass::Store, Root::St, ScalarType::B64);
        store.src[0] = at;
        store.src[1] = Operand::Const { bits: 0, wide: true };
        store.form.mods.space = Some(StateSpace::Shared);
        store.extra =
            Extra::Memory(tf4_access_sizes::facts(&store.form, StateSpace::Shared, 64, address.wide));
        self.push(store);
        self.push(part(Root::Add, ty, at, [at, constant(STEP as i64)]));
        let step = Operand::Const { bits: STEP, wide: false };
        self.push(part(Root::Sub, ScalarType::U32, left, [left, step]));
        self.push(compare(PredOperand::Const(true), CmpOp::Ge, STEP));
        self.finish(Terminator::Branch(branch(false), body, body + 1));
        self.enter(body + 1);
        if matches!(size.kind, OperandKind::Int(_)) {
            return;
        }
        self.push(none);
        self.push(compare(inst.guard, CmpOp::Ne, 0));
        let mut trap = made(&always, OpClass::Trap, Root::Trap, ScalarType::B32);
        trap.text = Text::Made("`st.bulk` of a size that is no multiple of 8 bytes");
        trap.guard = PredOperand::Reg(more, false);
        self.push(trap);
    }

    /// The size in a register of its own; a register of 32 bits does too.
    fn size(&mut self, inst: &Inst, size: &AstOperand<'a>) -> Option<Operand> {
        let errors = self.errors.len();
        let from = self.source(size, ScalarType::B64, OperandSize::Exact);
        let mut width = 64;
        let mut source = from;
        if self.errors.len() > errors {
            self.errors.truncate(errors);
            source = self.source(size, ScalarType::B32, OperandSize::Exact);
            width = 32;
            if self.errors.len() > errors {
                return None;
            }
        }
        if let Operand::Const { bits, .. } = source {
            source = Operand::Const { bits: bits.min(u64::from(u32::MAX)), wide: false };
            width = 32;
        }
        let ty = if width == 64 { ScalarType::U64 } else { ScalarType::U32 };
        let left = Operand::Reg(self.fresh(ScalarType::U32));
        let mut out = made(inst, OpClass::Data, Root::Cvt, ScalarType::U32);
        (out.form.ty, out.form.src_reg, out.guard) = (ty, width, PredOperand::Const(true));
        // More than 32 bits of bytes are beyond shared memory, and must stay so.
        out.form.mods.sat = true;
        if width == 32 {
            out.form = crate::form::Form::plain(Root::Mov, ScalarType::U32);
        }
        (out.dst[0], out.src[0], out.text) = (left, source, Text::Made("a part of `st.bulk`"));
        self.push(out);
        Some(left)
    }
}
