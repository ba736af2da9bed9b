//! `wmma`: a product becomes one or two operations of `mma`, as an assembler does it. The fragments are those of
//! `mma.m16n8`: 16 by 8 elements of D a piece. Where A has eight rows, pieces are of the transposed product.
//! Fragments of halves have eight registers; where A or B needs fewer, the others repeat them. Loads and stores of
//! fragments are expanded later ([`fragments`](crate::lower::fragments)).

use sim_memory::vocabulary::ScalarType;

use super::Translator;
use super::matrix::Fragments;
use crate::lower::ir::{Inst, Operand};
use crate::lower::tf1_validate::OperandSize;
use crate::lower::tf4_access_sizes;
use crate::matrix::{Layout, Matrix, MatrixShape, MatrixStep};
use crate::program::{Extra, OpClass};
use crate::ptx::ast::Instruction;

impl<'a> Translator<'_, 'a> {
    /// `wmma.mma d, a, b, c`.
    pub(super) fn wmma_multiply(&mut self, inst: &Inst, ast: &Instruction<'a>, matrix: Matrix) {
        let [d, a, b, c] = matrix.wmma_registers();
        let (types, list) = (matrix.types, &ast.operands);
        let fragments = (
            self.fragment(&list[0], d, types[0], true),
            self.fragment(&list[1], a, types[1], false),
            self.fragment(&list[2], b, types[2], false),
            self.fragment(&list[3], c, types[3], false),
        );
        let (Some(d), Some(mut a), Some(mut b), Some(c)) = fragments else { return };
        let MatrixShape { m, n, k } = matrix.shape;
        let mut piece = matrix;
        if m == 8 && n == 8 {
            return self.push_parts(
                inst,
                0,
                &mut vec![(piece, None, Fragments { d, a, b, c, e: None, scales: Vec::new() })],
            );
        }
        piece.shape = MatrixShape { m: 16, n: 8, k };
        if m == 8 {
            std::mem::swap(&mut a, &mut b);
            piece.types.swap(1, 2);
        }
        let [sums, of_a, of_b, addends] = piece.registers();
        let mut parts = Vec::new();
        for half in 0..2 {
            let part = |list: &[Operand], each: usize, moves: bool| {
                let first = if moves { half * each } else { 0 };
                list[first..first + each].to_vec()
            };
            let rows = m != 16;
            parts.push((
                piece,
                None,
                Fragments {
                    d: part(&d, sums, true),
                    a: part(&a, of_a, rows),
                    b: part(&b, of_b, !rows),
                    c: part(&c, addends, true),
                    e: None,
                    scales: Vec::new(),
                },
            ));
        }
        self.push_parts(inst, 0, &mut parts);
    }

    /// `wmma.load r, [p] {, stride}` and `wmma.store [p], r {, stride}`. What becomes of them differs between chips
    /// ([`expand`](crate::lower::fragments::expand)).
    pub(super) fn wmma_access(&mut self, mut inst: Inst, ast: &Instruction<'a>, matrix: Matrix) {
        let store = matrix.step == MatrixStep::StoreD;
        let [d, a, b, _] = matrix.wmma_registers();
        let registers = match matrix.step {
            MatrixStep::LoadA => a,
            MatrixStep::LoadB => b,
            _ => d,
        };
        let (vector, at) = if store { (1, 0) } else { (0, 1) };
        let list = self.fragment(&ast.operands[vector], registers, matrix.types[0], !store);
        let place = &ast.operands[at];
        let (Some(list), Some(address)) = (list, self.address(place)) else { return };
        let Some(space) = self.matrix_space(&inst, address.space, place) else { return };
        let MatrixShape { m, n, k } = matrix.shape;
        let [rows, columns] = match matrix.step {
            MatrixStep::LoadA => [m, k],
            MatrixStep::LoadB => [k, n],
            _ => [m, n],
        };
        let stride = match ast.operands.get(2) {
            Some(operand) => self.source(operand, ScalarType::U32, OperandSize::Exact),
            None => {
                let elements = if matrix.layouts[0] == Layout::Row { columns } else { rows };
                Operand::Const { bits: elements.into(), wide: false }
            }
        };
        inst.class = if store { OpClass::StoreMatrix } else { OpClass::LoadMatrix };
        (inst.src[0], inst.src[1], inst.imm) = (address.base, stride, address.offset);
        *if store { &mut inst.fragments } else { &mut inst.results } = list;
        inst.extra = Extra::Memory(tf4_access_sizes::facts(&inst.form, space, 32, address.wide));
        self.push(inst);
    }
}
