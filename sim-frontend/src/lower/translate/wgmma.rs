//! `wgmma` and `setmaxnreg`: what a warp of a warpgroup executes. A product is one operation, whose destinations are
//! as many as D has registers.

use sim_memory::vocabulary::ScalarType;

use super::Translator;
use crate::isa::{OperandShape, Resolved};
use crate::lower::ir::{Inst, Operand, PredOperand};
use crate::lower::tf1_validate::OperandSize;
use crate::matrix::{Element, Matrix, MatrixStep};
use crate::program::{Extra, OpClass};
use crate::ptx::ast::{Instruction, Operand as AstOperand, OperandKind};
use crate::ptx::print;
use crate::wgmma::{WgmmaOp, part};

impl<'a> Translator<'_, 'a> {
    pub(super) fn warpgroup(&mut self, mut inst: Inst, ast: &Instruction<'a>, shapes: &[OperandShape]) {
        let Some(matrix) = inst.form.mods.matrix else { return };
        let list = ast.operands.as_slice();
        inst.extra = match matrix.step {
            MatrixStep::Multiply => return self.warpgroup_product(inst, ast, matrix, shapes),
            MatrixStep::Fence | MatrixStep::Commit if !list.is_empty() => return self.count(ast, 0),
            MatrixStep::Fence => Extra::WgmmaFence,
            MatrixStep::Commit => Extra::WgmmaCommit,
            _ => {
                let [groups] = list else { return self.count(ast, 1) };
                let Some(newest) = self.number(groups, "the number of groups", 0, u32::MAX.into()) else {
                    return;
                };
                Extra::WgmmaWait(newest as u32)
            }
        };
        self.push(inst);
    }

    /// `wgmma.mma_async d, a, b {, metadata, selector}, scale-d {, imm-scale-a, imm-scale-b {, imm-trans-a,}
    /// imm-trans-b}}`.
    fn warpgroup_product(
        &mut self,
        mut inst: Inst,
        ast: &Instruction<'a>,
        matrix: Matrix,
        shapes: &[OperandShape],
    ) {
        let list = ast.operands.as_slice();
        let in_registers = |operand: &AstOperand<'a>| match &operand.kind {
            OperandKind::Vector(_) => true,
            OperandKind::Name(name) => matches!(self.lookup(name), Some(super::Local::Vector(..))),
            _ => false,
        };
        let shared_a = list.get(1).is_some_and(|a| !in_registers(a));
        // One that lies in registers has no other layout.
        let transposes = matches!(matrix.types[1], Element::F16 | Element::Bf16);
        let wanted = shapes.len() - usize::from(transposes && !shared_a);
        if list.len() != wanted {
            return self.count(ast, wanted);
        }
        let matrix = part(&matrix);
        let [d, a, ..] = matrix.registers();
        let of_d = match matrix.types[0] {
            Element::F32 => ScalarType::F32,
            Element::S32 => ScalarType::S32,
            // Pairs of halves do not lie in registers of type `.f32`.
            _ => ScalarType::U32,
        };
        let sums = self.warpgroup_fragment(&list[0], d, of_d);
        let fragment = if shared_a {
            inst.src[0] = self.descriptor(&list[1]);
            Some(Vec::new())
        } else {
            self.warpgroup_fragment(&list[1], a, ScalarType::U32)
        };
        inst.src[1] = self.descriptor(&list[2]);
        let mut rest = &list[3..];
        let (mut selector, mut metadata) = (0, None);
        if matrix.sparse {
            let [e, which, others @ ..] = rest else { return };
            metadata = Some(self.register_source(e, ScalarType::B32));
            // Two pairs of threads may hold it, or all four do.
            let most = if matrix.types[1].bits() < 16 { 0 } else { 1 };
            let Some(which) = self.number(which, "the sparsity selector", 0, most) else { return };
            (selector, rest) = (which as u8, others);
        }
        let [scale_d, rest @ ..] = rest else { return };
        let Some(scale_d) = self.scale_d(scale_d) else { return };
        inst.psrc[0] = scale_d;
        let mut numbers = [1, 1, 0, 0];
        // Without one for A, the last is that of B.
        let places: &[usize] = if shared_a { &[0, 1, 2, 3] } else { &[0, 1, 3] };
        for (operand, &place) in rest.iter().zip(places) {
            let Some(number) = (if place < 2 { self.sign(operand) } else { self.flag(operand) }) else {
                return;
            };
            numbers[place] = number;
        }
        let (Some(sums), Some(fragment)) = (sums, fragment) else { return };
        let adds = scale_d != PredOperand::Const(false);
        inst.fragments = fragment;
        inst.fragments.extend(sums.iter().filter(|_| adds));
        inst.fragments.extend(metadata);
        inst.results = sums;
        inst.class = OpClass::Wgmma;
        inst.extra = Extra::Wgmma(WgmmaOp {
            matrix,
            selector,
            shared_a,
            negated: numbers[0] != numbers[1],
            transposed: [numbers[2] != 0, numbers[3] != 0],
            adds,
            rows: 0,
            slots: (0, 0),
            written: 0,
        });
        self.push(inst);
    }

    /// The registers of D or A: read, those of D written too, so that none is a constant or left out.
    fn warpgroup_fragment(
        &mut self,
        operand: &AstOperand<'a>,
        registers: usize,
        ty: ScalarType,
    ) -> Option<Vec<Operand>> {
        let list = self.fragment_elements(operand, registers)?;
        // The first that is wrong says enough.
        let before = self.errors.len();
        let each = list.iter().map(|element| match self.register_source(element, ty) {
            Operand::Reg(reg) if self.errors.len() == before => Some(Operand::Reg(reg)),
            _ => None,
        });
        each.collect()
    }

    /// A source that must be a register.
    fn register_source(&mut self, operand: &AstOperand<'a>, ty: ScalarType) -> Operand {
        if matches!(operand.kind, OperandKind::Sink) {
            self.error(operand.span, "operand", "the sink symbol `_` is no source");
            return Operand::None;
        }
        let before = self.errors.len();
        let source = self.source(operand, ty, OperandSize::Exact);
        if !matches!(source, Operand::Reg(_)) && self.errors.len() == before {
            self.error(operand.span, "operand", "expected a register");
        }
        source
    }

    fn descriptor(&mut self, operand: &AstOperand<'a>) -> Operand {
        self.source(operand, ScalarType::U64, OperandSize::Exact)
    }

    /// A predicate, or 0 or 1.
    fn scale_d(&mut self, operand: &AstOperand<'a>) -> Option<PredOperand> {
        if matches!(operand.kind, OperandKind::Int(_)) {
            return Some(PredOperand::Const(self.flag(operand)? != 0));
        }
        let before = self.errors.len();
        let found = self.predicate(operand);
        (self.errors.len() == before).then_some(found)
    }

    fn flag(&mut self, operand: &AstOperand<'a>) -> Option<i128> {
        self.number(operand, "the operand", 0, 1)
    }

    /// 1 or -1.
    fn sign(&mut self, operand: &AstOperand<'a>) -> Option<i128> {
        match &operand.kind {
            OperandKind::Int(value) if matches!(value.value(), -1 | 1) => Some(value.value()),
            _ => {
                self.error(operand.span, "operand", "the scale of a matrix must be 1 or -1");
                None
            }
        }
    }

    /// A constant within a range.
    fn number(&mut self, operand: &AstOperand<'a>, what: &str, least: i128, most: i128) -> Option<i128> {
        let found = match &operand.kind {
            OperandKind::Int(value) => Some(value.value()),
            _ => None,
        };
        let inside = found.filter(|value| (least..=most).contains(value));
        if inside.is_none() {
            let words = match (least, most) {
                (0, 0) => format!("{what} must be 0"),
                (0, 1) => format!("{what} must be 0 or 1"),
                (0, most) if most >= u32::MAX.into() => {
                    format!("{what} must be a non-negative integer constant")
                }
                _ => format!("{what} must be an integer constant between {least} and {most}"),
            };
            self.error(operand.span, "operand", words);
        }
        inside
    }

    /// `setmaxnreg.inc`, `.dec`.
    pub(super) fn set_registers(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let [operand] = ast.operands.as_slice() else { return self.count(ast, 1) };
        let Some(count) = self.number(operand, "the register count", 24, 256) else { return };
        if count % 8 != 0 {
            let message = format!("the register count must be a multiple of 8, not {count}");
            return self.error(operand.span, "operand", message);
        }
        let take = ast.modifiers().any(|word| word == "inc");
        inst.class = OpClass::SetRegisters;
        inst.extra = Extra::SetRegisters { take, count: count as u16 };
        self.push(inst);
    }

    /// Instructions of one architecture only: its targets are named with a letter behind the number.
    pub(super) fn fits_architecture(&mut self, ast: &Instruction<'a>, resolved: &Resolved) -> bool {
        let module = self.cx.module;
        let Some(architectures) = resolved.architectures else { return true };
        let numbers = module
            .target
            .iter()
            .filter_map(|word| word.strip_prefix("sm_").or_else(|| word.strip_prefix("compute_")));
        let fits = numbers.take(1).all(|number| architectures.has(number));
        if fits {
            return true;
        }
        let target = module.target.join(", ");
        let fault = format!(
            "`{}` requires .target {}; the module has .target {target}",
            print::opcode(ast),
            architectures.wanted()
        );
        self.error(ast.opcode, "target", fault);
        false
    }
}
