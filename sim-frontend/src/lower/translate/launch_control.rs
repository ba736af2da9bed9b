//! `clusterlaunchcontrol`: a request to the block scheduler, and reading its answer. The 16 bytes of an answer are opaque
//! in the PTX ISA; they are ours: the index of the cluster's first block by axis in a word each, and in the last word the
//! highest bit, where a launch was cancelled.

use sim_memory::vocabulary::{CacheOp, ScalarType, StateSpace};

use super::Translator;
use crate::form::{BulkWay, CmpOp, Form};
use crate::isa::Root;
use crate::lower::ir::{Inst, Operand};
use crate::lower::tf1_validate::OperandSize;
use crate::lower::tf3_stack::made;
use crate::lower::tf4_access_sizes;
use crate::program::{BulkBytes, BulkOp, Extra, OpClass};
use crate::ptx::ast::{Instruction, Operand as AstOperand, OperandKind};

/// Bytes of an answer.
const BYTES: u64 = 16;

impl<'a> Translator<'_, 'a> {
    pub(super) fn launch_control(&mut self, inst: Inst, ast: &Instruction<'a>) {
        let [to, from] = ast.operands.as_slice() else { return self.count(ast, 2) };
        let words: Vec<&str> = ast.modifiers().collect();
        match words.get(..2) {
            Some(["query_cancel", "is_canceled"]) => self.is_cancelled(&inst, [to, from]),
            Some(["query_cancel", "get_first_ctaid"]) => self.first_block(&inst, [to, from]),
            Some(["query_cancel", which]) => {
                let axis = which.bytes().last().map_or(0, |axis| usize::from(axis.saturating_sub(b'x')));
                let index = self.destination(to, ScalarType::B32, OperandSize::Exact);
                let mut indices = [Operand::None; 4];
                indices[axis.min(2)] = index;
                self.unpack(&inst, from, indices);
            }
            _ => {
                let everywhere = words.contains(&"multicast::cluster::all");
                self.try_cancel(inst, [to, from], everywhere);
            }
        }
    }

    /// `try_cancel [to], [object]`.
    fn try_cancel(&mut self, mut inst: Inst, [to, object]: [&AstOperand<'a>; 2], everywhere: bool) {
        let space = inst.form.mods.space.unwrap_or(StateSpace::Generic);
        let (Some(to), Some(object)) =
            (self.beside(&mut inst.src[1], to), self.beside(&mut inst.src[3], object))
        else {
            return;
        };
        inst.src[2] = Operand::Const { bits: BYTES, wide: false };
        let mut memory = tf4_access_sizes::facts(&inst.form, space, 32, to.wide);
        (memory.element_bytes, memory.cache) = (BYTES as u8, CacheOp::Cg);
        inst.class = OpClass::Copy;
        let way = BulkWay::Cancel { everywhere };
        inst.extra = Extra::Bulk(BulkOp { way, memory, to, object, bytes: BulkBytes::All });
        self.push(inst);
    }

    /// `query_cancel.is_canceled`: the highest bit of the answer.
    fn is_cancelled(&mut self, inst: &Inst, [to, from]: [&AstOperand<'a>; 2]) {
        let cancelled = self.predicate_destination(to);
        let Some([_, high]) = self.wide_source(from) else { return };
        let mut test = made(inst, OpClass::Data, Root::Setp, ScalarType::S64);
        test.form = Form::compare(CmpOp::Lt, ScalarType::S64);
        (test.pdst[0], test.src[0]) = (cancelled, high);
        test.src[1] = Operand::Const { bits: 0, wide: true };
        self.push(test);
    }

    /// `query_cancel.get_first_ctaid.v4`; the fourth element is not specified.
    fn first_block(&mut self, inst: &Inst, [to, from]: [&AstOperand<'a>; 2]) {
        let list = self.as_list(to);
        let OperandKind::Vector(parts) = &list.kind else {
            return self.error(to.span, "vector", "expected a vector of 4 elements");
        };
        if parts.len() != 4 {
            let message = format!("expected 4 elements, not {}", parts.len());
            return self.error(to.span, "vector", message);
        }
        let mut indices = [Operand::None; 4];
        for (index, part) in indices.iter_mut().zip(parts) {
            *index = self.destination(part, ScalarType::B32, OperandSize::Exact);
        }
        self.unpack(inst, from, indices);
    }

    /// Words of an answer, where they are wanted.
    fn unpack(&mut self, inst: &Inst, from: &AstOperand<'a>, words: [Operand; 4]) {
        let Some(halves) = self.wide_source(from) else { return };
        for (to, half) in words.chunks(2).zip(halves) {
            if to.iter().all(|word| *word == Operand::None) {
                continue;
            }
            let mut unpacked = made(inst, OpClass::Data, Root::Mov, ScalarType::B64);
            (unpacked.form.dst, unpacked.form.dst_reg) = (ScalarType::B32, 32);
            unpacked.form.mods.vector = 2;
            unpacked.dst[..2].copy_from_slice(to);
            unpacked.src[0] = half;
            self.push(unpacked);
        }
    }
}
