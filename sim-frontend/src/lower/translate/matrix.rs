//! Instructions on matrices: fragments as vectors of registers, `mma` as one operation or several, `ldmatrix` and
//! its kin. `wmma` is in [`wmma`](super::wmma).

use sim_memory::vocabulary::{ScalarType, StateSpace};

use super::Translator;
use crate::isa::{OperandShape, Root, Shape};
use crate::lower::ir::{Inst, Operand, Reg};
use crate::lower::tf1_validate::OperandSize;
use crate::lower::{tf3_stack, tf4_access_sizes};
use crate::matrix::{BlockScale, Element, Matrix, MatrixStep, MmaOp, SCALE_SOURCES};
use crate::program::{Extra, OpClass, Text};
use crate::ptx::ast::{Instruction, Operand as AstOperand, OperandKind};

/// The fragments of a product: D, A, B, C and metadata.
pub(super) struct Fragments {
    pub(super) d: Vec<Operand>,
    pub(super) a: Vec<Operand>,
    pub(super) b: Vec<Operand>,
    pub(super) c: Vec<Operand>,
    pub(super) e: Option<Operand>,
    /// Scales of A, their byte and threads, and the same of B.
    pub(super) scales: Vec<Operand>,
}

impl<'a> Translator<'_, 'a> {
    pub(super) fn matrices(&mut self, inst: Inst, ast: &Instruction<'a>, shapes: &[OperandShape]) {
        let Some(matrix) = inst.form.mods.matrix else { return };
        let required = shapes.iter().filter(|shape| !shape.optional).count();
        let given = ast.operands.len();
        if given < required || given > shapes.len() {
            return match shapes.len() {
                most if most == required => self.count(ast, required),
                most => self.count(ast, format!("{required} to {most}")),
            };
        }
        match (inst.form.root, matrix.step) {
            (Root::Movmatrix, _) => self.move_matrix(inst, ast),
            (Root::Ldmatrix | Root::Stmatrix, _) => self.tiles(inst, ast, matrix),
            (Root::Wmma, MatrixStep::Multiply) => self.wmma_multiply(&inst, ast, matrix),
            (Root::Wmma, _) => self.wmma_access(inst, ast, matrix),
            _ => {
                let metadata = shapes.iter().any(|shape| shape.shape == Shape::Immediate);
                self.multiply(&inst, ast, matrix, metadata);
            }
        }
    }

    /// The elements of a fragment, which are so many.
    pub(super) fn fragment_elements(
        &mut self,
        operand: &AstOperand<'a>,
        registers: usize,
    ) -> Option<Vec<AstOperand<'a>>> {
        let AstOperand { kind: OperandKind::Vector(list), span } = self.as_list(operand) else {
            self.error(operand.span, "vector", format!("expected a vector of {registers} elements"));
            return None;
        };
        if list.len() != registers {
            let message =
                format!("the fragment has {} elements; the instruction requires {registers}", list.len());
            self.error(span, "vector", message);
            return None;
        }
        Some(list)
    }

    /// The registers of a fragment.
    pub(super) fn fragment(
        &mut self,
        operand: &AstOperand<'a>,
        registers: usize,
        ty: Element,
        written: bool,
    ) -> Option<Vec<Operand>> {
        let list = self.fragment_elements(operand, registers)?;
        let ty = if ty == Element::F64 { ScalarType::F64 } else { ScalarType::B32 };
        let mut out = Vec::with_capacity(registers);
        for element in &list {
            if !written && matches!(element.kind, OperandKind::Sink) {
                self.error(element.span, "operand", "the sink symbol `_` is no source");
                return None;
            }
            out.push(match written {
                true => self.destination(element, ty, OperandSize::Exact),
                false => self.source(element, ty, OperandSize::Exact),
            });
        }
        Some(out)
    }

    /// `mma d, a, b, c` and, where A is sparse, metadata and its selector.
    fn multiply(&mut self, inst: &Inst, ast: &Instruction<'a>, matrix: Matrix, metadata: bool) {
        let [d, a, b, c] = matrix.registers();
        let types = matrix.types;
        let list = &ast.operands;
        let (mut selector, mut e) = (0, None);
        if metadata {
            e = Some(self.source(&alone(&list[4]), ScalarType::B32, OperandSize::Exact));
            let most = selectors(&matrix);
            let OperandKind::Int(value) = &list[5].kind else {
                return self.error(
                    list[5].span,
                    "operand",
                    "the sparsity selector must be an integer constant",
                );
            };
            if value.value() < 0 || value.value() >= most as i128 {
                let message = format!("the sparsity selector must be between 0 and {}", most - 1);
                return self.error(list[5].span, "operand", message);
            }
            selector = value.value() as u8;
        }
        let fragments = (
            self.fragment(&list[0], d, types[0], true),
            self.fragment(&list[1], a, types[1], false),
            self.fragment(&list[2], b, types[2], false),
            self.fragment(&list[3], c, types[3], false),
        );
        let (Some(d), Some(a), Some(b), Some(c)) = fragments else { return };
        let scales = match matrix.scale {
            Some(scale) => self.scales(&list[list.len() - 4..], scale),
            None => Some(Vec::new()),
        };
        let Some(scales) = scales else { return };
        self.push_products(inst, matrix, selector, Fragments { d, a, b, c, e, scales });
    }

    /// `scale-a-data, {byte-id-a, thread-id-a}, scale-b-data, {byte-id-b, thread-id-b}`: of A two threads of four hold
    /// the scales of a row and of that eight below, of B one.
    fn scales(&mut self, list: &[AstOperand<'a>], scale: BlockScale) -> Option<Vec<Operand>> {
        let mut out = Vec::with_capacity(SCALE_SOURCES);
        for (of, (pair, threads)) in list.chunks(2).zip([2, 4]).enumerate() {
            let name = ['a', 'b'][of];
            let data = alone(&pair[0]);
            if !matches!(data.kind, OperandKind::Name(_) | OperandKind::Component(..)) {
                self.error(data.span, "operand", format!("scale-{name}-data must be a 32-bit register"));
                return None;
            }
            out.push(self.source(&data, ScalarType::B32, OperandSize::Exact));
            let selectors = self.fragment_elements(&pair[1], 2)?;
            let threads: Vec<u32> = (0..threads).collect();
            for (selector, (what, values)) in
                selectors.iter().zip([("byte-id", scale.first_bytes()), ("thread-id", threads.as_slice())])
            {
                if let OperandKind::Int(value) = &selector.kind
                    && !values.iter().any(|allowed| i128::from(*allowed) == value.value())
                {
                    let list: Vec<String> = values.iter().map(ToString::to_string).collect();
                    let message = format!("{what}-{name} must be {}", list.join(" or "));
                    self.error(selector.span, "operand", message);
                    return None;
                }
                out.push(self.source(selector, ScalarType::U16, OperandSize::Exact));
            }
        }
        Some(out)
    }

    /// One operation for a product; two where D has more registers than one can write.
    fn push_products(&mut self, inst: &Inst, matrix: Matrix, selector: u8, of: Fragments) {
        if !matrix.is_quad() {
            let mut parts = vec![(matrix, None, of)];
            return self.push_parts(inst, selector, &mut parts);
        }
        let mut parts = Vec::new();
        let halves = if of.d.len() > 4 { 2 } else { 1 };
        for half in 0..halves {
            let part = |list: &[Operand]| match (halves, list.len()) {
                (2, 8) => list[4 * half..4 * half + 4].to_vec(),
                _ => list.to_vec(),
            };
            let own = Fragments {
                d: part(&of.d),
                a: of.a.clone(),
                b: of.b.clone(),
                c: part(&of.c),
                e: None,
                scales: Vec::new(),
            };
            parts.push((matrix, (halves == 2).then_some(half as u8), own));
        }
        self.push_parts(inst, selector, &mut parts);
    }

    /// The operations of a product, one after the other. All read what was there before: what a later one reads
    /// is written last.
    pub(super) fn push_parts(
        &mut self,
        inst: &Inst,
        selector: u8,
        parts: &mut Vec<(Matrix, Option<u8>, Fragments)>,
    ) {
        let reads = |of: &Fragments, reg: Reg| {
            let sources = of.a.iter().chain(&of.b).chain(&of.c).chain(&of.e).chain(&of.scales);
            sources.into_iter().any(|operand| *operand == Operand::Reg(reg))
        };
        let mut late = Vec::new();
        for i in 0..parts.len() {
            for r in 0..parts[i].2.d.len() {
                let Operand::Reg(reg) = parts[i].2.d[r] else { continue };
                if parts[i + 1..].iter().any(|(_, _, of)| reads(of, reg)) {
                    let own = self.fresh_like(reg);
                    parts[i].2.d[r] = Operand::Reg(own);
                    late.push((reg, own));
                }
            }
        }
        let last = parts.len().saturating_sub(1);
        for (i, (matrix, half, of)) in parts.drain(..).enumerate() {
            let mut part = inst.clone();
            part.class = OpClass::Mma;
            part.form.mods.matrix = Some(matrix);
            if i != last {
                part.text = Text::Made("a part of a product of matrices");
            }
            for (slot, operand) in part.dst.iter_mut().zip(of.d) {
                *slot = operand;
            }
            part.fragments = of.a;
            part.fragments.extend(of.b);
            part.fragments.extend(of.c);
            part.fragments.extend(of.e);
            part.fragments.extend(of.scales);
            part.extra = Extra::Mma(MmaOp::new(matrix, selector, half));
            self.push(part);
        }
        for (to, from) in late {
            let ty = self.types[to as usize];
            let ty = if ty.bits() == 64 { ScalarType::B64 } else { ScalarType::B32 };
            let mut copy = tf3_stack::made(inst, OpClass::Data, Root::Mov, ty);
            copy.text = Text::Made("a result that the product had to read");
            copy.dst[0] = Operand::Reg(to);
            copy.src[0] = Operand::Reg(from);
            self.push(copy);
        }
    }

    fn fresh_like(&mut self, reg: Reg) -> Reg {
        self.fresh(self.types[reg as usize])
    }

    /// `movmatrix d, a`.
    fn move_matrix(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        inst.dst[0] = self.destination(&ast.operands[0], ScalarType::B32, OperandSize::Exact);
        inst.src[0] = self.source(&ast.operands[1], ScalarType::B32, OperandSize::Exact);
        inst.class = OpClass::MoveMatrix;
        self.push(inst);
    }

    /// `ldmatrix v, [a]` and `stmatrix [a], v`.
    fn tiles(&mut self, mut inst: Inst, ast: &Instruction<'a>, matrix: Matrix) {
        let load = inst.form.root == Root::Ldmatrix;
        let [first, second] = ast.operands.as_slice() else { return };
        let (vector, place) = if load { (first, second) } else { (second, first) };
        let list = self.fragment(vector, matrix.tiles().into(), Element::F16, load);
        let address = self.address(place);
        let (Some(list), Some(address)) = (list, address) else { return };
        let Some(space) = self.matrix_space(&inst, address.space, place) else { return };
        for (i, operand) in list.into_iter().enumerate() {
            if load {
                inst.dst[i] = operand;
            } else {
                inst.src[i + 1] = operand;
            }
        }
        (inst.src[0], inst.imm) = (address.base, address.offset);
        let mut memory = tf4_access_sizes::facts(&inst.form, space, 32, address.wide);
        memory.element_bytes = 16;
        let (count, trans, elements) = (matrix.tiles(), matrix.trans, matrix.elements);
        inst.extra = Extra::Tiles { memory, count, trans, elements };
        self.push(inst);
    }

    /// The space of an access to matrices: what is written, or that of a variable that is named, or generic.
    pub(super) fn matrix_space(
        &mut self,
        inst: &Inst,
        named: Option<StateSpace>,
        operand: &AstOperand<'a>,
    ) -> Option<StateSpace> {
        match (inst.form.mods.space, named) {
            (Some(space), Some(found)) if space != found => {
                let message =
                    format!("the variable is in .{found:?}; this operand must be an address in .{space:?}")
                        .to_lowercase();
                self.error(operand.span, "space", message);
                None
            }
            (Some(space), _) => Some(space),
            (None, found) => Some(found.unwrap_or(StateSpace::Generic)),
        }
    }
}

/// The one element of a vector, which may be written without braces.
fn alone<'a>(operand: &AstOperand<'a>) -> AstOperand<'a> {
    match &operand.kind {
        OperandKind::Vector(list) if list.len() == 1 => list[0].clone(),
        _ => operand.clone(),
    }
}

/// How many selectors there are: threads of a quad, or pairs of them, that may hold the metadata. Of halves with
/// `m16n8k32` the assembler takes four, of which two name each pair.
fn selectors(matrix: &Matrix) -> usize {
    let k = usize::from(matrix.shape.k);
    match matrix.types[1] {
        Element::F16 | Element::Bf16 => {
            if k == 16 || matrix.types[1] == Element::F16 {
                4
            } else {
                2
            }
        }
        Element::Tf32 => {
            if k == 8 {
                4
            } else {
                2
            }
        }
        Element::S4 | Element::U4 | Element::E2m1Packed => {
            if k == 64 {
                2
            } else {
                1
            }
        }
        _ => {
            if k == 32 {
                2
            } else {
                1
            }
        }
    }
}
