//! `alloca`, `stacksave`, `stackrestore`: what a thread allocates lies at the upper end of its local
//! memory and grows downwards, away from the frames. One register counts the bytes; functions that
//! change it give back what they took when they return.

use sim_memory::vocabulary::ScalarType;

use super::Translator;
use crate::form::CmpOp;
use crate::isa::Root;
use crate::lower::ir::{Inst, Link, Operand, PredOperand, Reg, Terminator};
use crate::lower::tf1_validate::OperandSize;
use crate::lower::tf3_stack::made;
use crate::program::{OpClass, SpecialRegister};
use crate::ptx::ast::{Instruction, OperandKind};

/// Alignment where none is written, in bytes (PTX ISA "alloca").
const ALIGN: u64 = 8;

/// Most that local memory as a whole is aligned to.
pub(crate) const MOST_ALIGN: u64 = 4096;

impl<'a> Translator<'_, 'a> {
    pub(super) fn dynamic_stack(&mut self, inst: Inst, ast: &Instruction<'a>) {
        let ty = inst.form.ty;
        match (inst.form.root, ast.operands.as_slice()) {
            (Root::Alloca, [pointer, size, align @ ..]) if align.len() <= 1 => {
                let bytes = match align {
                    [] => Some(ALIGN),
                    [align, ..] => match align.kind {
                        OperandKind::Int(bytes) => u64::try_from(bytes.value()).ok(),
                        _ => None,
                    },
                };
                let Some(bytes) = bytes.filter(|bytes| bytes.is_power_of_two() && *bytes <= MOST_ALIGN)
                else {
                    let message =
                        format!("the alignment must be a constant power of two, at most {MOST_ALIGN}");
                    return self.error(ast.span, "operands", message);
                };
                let size = self.source(size, ty, OperandSize::Exact);
                let pointer = self.destination(pointer, ty, OperandSize::Exact);
                self.allocate(&inst, pointer, size, bytes.max(ALIGN), ty);
            }
            (Root::Stacksave, [to]) => {
                let to = self.destination(to, ty, OperandSize::Exact);
                let taken = Operand::Reg(self.taken());
                self.convert(&inst, to, taken, ty);
            }
            (Root::Stackrestore, [from]) => {
                let from = self.source(from, ty, OperandSize::Exact);
                let taken = self.taken();
                let mut back = made(&inst, OpClass::Data, Root::Cvt, ScalarType::U32);
                back.form.ty = ty;
                back.form.src_reg = crate::form::register_bits(ty);
                (back.dst[0], back.src[0]) = (Operand::Reg(taken), from);
                self.push(back);
            }
            (Root::Alloca, _) => self.count(ast, "2 or 3"),
            _ => self.count(ast, 1),
        }
    }

    /// The register that counts what is allocated, in bytes.
    fn taken(&mut self) -> Reg {
        if let Some(taken) = self.func.taken {
            return taken;
        }
        let taken = self.fresh(ScalarType::U32);
        self.func.taken = Some(taken);
        taken
    }

    /// A function returns what it allocated: it keeps what was taken when it began, and sets that
    /// again before it returns.
    pub(super) fn give_back(&mut self) {
        let (false, Some(taken)) = (self.func.entry, self.func.taken) else { return };
        let kept = self.fresh(ScalarType::U32);
        let copy = |like: &Inst, to, from| {
            let mut inst = made(like, OpClass::Data, Root::Mov, ScalarType::U32);
            (inst.dst[0], inst.src[0]) = (Operand::Reg(to), Operand::Reg(from));
            inst
        };
        for block in &mut self.func.blocks {
            let mut with = Vec::with_capacity(block.insts.len() + 1);
            for inst in block.insts.drain(..) {
                if inst.class == OpClass::Return {
                    with.push(copy(&inst, taken, kept));
                }
                with.push(inst);
            }
            if let Terminator::End(end) = &block.end
                && end.class == OpClass::Return
            {
                with.push(copy(end, taken, kept));
            }
            block.insts = with;
        }
        let span = self.cx.module.functions[self.function].span;
        let first = self.blank_like(span);
        self.func.blocks[0].insts.insert(0, copy(&first, kept, taken));
    }

    fn allocate(&mut self, like: &Inst, pointer: Operand, size: Operand, align: u64, ty: ScalarType) {
        let taken = self.taken();
        let word = |bits: u64| Operand::Const { bits, wide: false };
        let binary = |root, dst, a, b| {
            let ty = if root == Root::And { ScalarType::B32 } else { ScalarType::U32 };
            let mut inst = made(like, OpClass::Data, root, ty);
            (inst.dst[0], inst.src[0], inst.src[1]) = (dst, a, b);
            inst
        };
        // A size of 64 bits that 32 do not hold is more than there is.
        let mut bytes = size;
        if ty == ScalarType::U64 {
            let narrow = self.fresh(ScalarType::U32);
            let mut cut = made(like, OpClass::Data, Root::Cvt, ScalarType::U32);
            cut.form.ty = ScalarType::U64;
            cut.form.src_reg = 64;
            cut.form.mods.sat = true;
            (cut.dst[0], cut.src[0]) = (Operand::Reg(narrow), size);
            self.push(cut);
            bytes = Operand::Reg(narrow);
        }
        let link = self.link(Link::StackBytes);
        let room = Operand::Link { link, addend: 0, wide: false };
        let left = self.fresh(ScalarType::U32);
        let left_reg = Operand::Reg(left);
        let over = self.fresh(ScalarType::Pred);
        self.push(binary(Root::Sub, left_reg, room, Operand::Reg(taken)));
        self.push(binary(Root::And, left_reg, left_reg, word(!(align - 1) & 0xffff_ffff)));
        let mut test = made(like, OpClass::Data, Root::Setp, ScalarType::U32);
        test.form.mods.cmp = Some(CmpOp::Gt);
        (test.pdst[0], test.src[0], test.src[1]) = (PredOperand::Reg(over, false), bytes, left_reg);
        if let PredOperand::Reg(..) = like.guard {
            // Lanes that do not allocate keep what the register held.
            let mut clear = made(like, OpClass::Data, Root::Mov, ScalarType::Pred);
            clear.guard = PredOperand::Const(true);
            (clear.pdst[0], clear.psrc[0]) = (PredOperand::Reg(over, false), PredOperand::Const(false));
            self.push(clear);
        }
        self.push(test);
        let mut full = made(like, OpClass::Trap, Root::Trap, ScalarType::B32);
        full.guard = PredOperand::Reg(over, false);
        full.unsupported =
            Some("stack overflow: `alloca` exceeds the space left in the {}-byte stack of the thread".into());
        // For the message.
        full.src[0] = room;
        self.push(full);
        // The lower end of what is allocated, aligned downwards.
        self.push(binary(Root::Sub, left_reg, left_reg, bytes));
        self.push(binary(Root::And, left_reg, left_reg, word(!(align - 1) & 0xffff_ffff)));
        self.push(binary(Root::Sub, Operand::Reg(taken), room, left_reg));
        let address = Operand::Reg(self.fresh(ScalarType::U32));
        let end = Operand::Special(SpecialRegister::LocalBytes);
        self.push(binary(Root::Sub, address, end, Operand::Reg(taken)));
        self.convert(like, pointer, address, ty);
    }

    /// A word to a register of 32 or 64 bits.
    fn convert(&mut self, like: &Inst, to: Operand, from: Operand, ty: ScalarType) {
        let mut inst = made(like, OpClass::Data, Root::Cvt, ScalarType::U32);
        inst.form.dst = ty;
        inst.form.dst_reg = crate::form::register_bits(ty);
        (inst.dst[0], inst.src[0]) = (to, from);
        self.push(inst);
    }
}
