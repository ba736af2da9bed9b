//! `wmma`: loads and stores of fragments become address arithmetic and ordinary accesses, and a product one or two
//! operations of `mma`, as an assembler does it. The fragments are those of `mma.m16n8`: 16 by 8 elements of D a
//! piece. Where A has eight rows, pieces are of the transposed product. Fragments of halves have eight registers;
//! where A or B needs fewer, the others repeat them.

use sim_memory::vocabulary::{ScalarType, StateSpace};

use super::Translator;
use super::matrix::Fragments;
use crate::form::{Half, Modifiers, register_bits};
use crate::isa::Root;
use crate::lower::ir::{Inst, Operand, PredOperand, Reg};
use crate::lower::tf1_validate::OperandSize;
use crate::lower::{tf3_stack, tf4_access_sizes};
use crate::matrix::{Element, Layout, Matrix, MatrixShape, MatrixStep};
use crate::program::{Extra, OpClass, SpecialRegister, Text};
use crate::ptx::ast::{Instruction, Operand as AstOperand};

/// What listings show of the operations before the last one.
const ADDRESS: Text = Text::Made("the address of a fragment");
const PART: Text = Text::Made("a part of a fragment");

/// Where a fragment lies in memory.
struct Place {
    /// The thread's first address.
    base: Operand,
    offset: i64,
    wide: bool,
    space: StateSpace,
    /// Bytes from one row to the next, or from one column to the next.
    stride: Operand,
    /// Bases so many strides further.
    further: Vec<(u64, Operand)>,
}

/// A register of a fragment: how many strides and bytes it lies beyond the thread's first address.
#[derive(Clone, Copy)]
struct Spot {
    strides: u64,
    bytes: i64,
}

/// How the elements of one operand lie over the threads.
#[derive(Clone, Copy)]
struct Map {
    /// Elements of a register lie side by side in memory.
    whole: bool,
    /// Halves the other way round: loaded as if transposed, then exchanged among the threads.
    exchanged: bool,
    /// Strides and bytes by `laneid / 4`, and by `laneid % 4`.
    by_group: (u64, u64),
    by_thread: (u64, u64),
}

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

    /// `wmma.load r, [p] {, stride}` and `wmma.store [p], r {, stride}`.
    pub(super) fn wmma_access(&mut self, inst: &Inst, ast: &Instruction<'a>, matrix: Matrix) {
        let store = matrix.step == MatrixStep::StoreD;
        let ty = matrix.types[0];
        let [d, a, b, _] = matrix.wmma_registers();
        let registers = match matrix.step {
            MatrixStep::LoadA => a,
            MatrixStep::LoadB => b,
            _ => d,
        };
        let (vector, at) = if store { (1, 0) } else { (0, 1) };
        let list = self.fragment(&ast.operands[vector], registers, ty, !store);
        let place = self.place(inst, &ast.operands[at], ast.operands.get(2), &matrix);
        let (Some(list), Some(mut place)) = (list, place) else { return };
        let map = map(&matrix);
        self.own_address(inst, &mut place, &map);
        let spots = spots(&matrix, &map);
        let step = spots.len() / needed(&matrix);
        for (i, operand) in list.iter().enumerate().take(needed(&matrix)) {
            let last = i + 1 == needed(&matrix) && list.len() == needed(&matrix);
            let spots = &spots[i * step..(i + 1) * step];
            if store {
                self.store_register(inst, &mut place, &map, *operand, spots, ty, last);
            } else {
                self.load_register(inst, &mut place, &map, *operand, spots, ty, last);
            }
        }
        let unique = needed(&matrix);
        for i in unique..list.len() {
            let (Operand::Reg(_), from @ Operand::Reg(_)) = (list[i], list[i % unique]) else { continue };
            let mut copy = tf3_stack::made(inst, OpClass::Data, Root::Mov, ScalarType::B32);
            copy.text = if i + 1 == list.len() { inst.text } else { PART };
            (copy.dst[0], copy.src[0]) = (list[i], from);
            self.push(copy);
        }
    }

    /// The matrix's address and the bytes between its rows or columns.
    fn place(
        &mut self,
        inst: &Inst,
        operand: &AstOperand<'a>,
        stride: Option<&AstOperand<'a>>,
        matrix: &Matrix,
    ) -> Option<Place> {
        let address = self.address(operand)?;
        let space = self.matrix_space(inst, address.space, operand)?;
        let MatrixShape { m, n, k } = matrix.shape;
        let [rows, columns] = match matrix.step {
            MatrixStep::LoadA => [m, k],
            MatrixStep::LoadB => [k, n],
            _ => [m, n],
        };
        let bits = matrix.types[0].bits() as u64;
        let stride = match stride {
            Some(operand) => self.source(operand, ScalarType::U32, OperandSize::Exact),
            None => {
                let elements = if matrix.layouts[0] == Layout::Row { columns } else { rows };
                Operand::Const { bits: elements.into(), wide: false }
            }
        };
        let stride = match stride {
            Operand::Const { bits: elements, .. } => {
                Operand::Const { bits: (elements.wrapping_mul(bits) / 8) & 0xffff_ffff, wide: false }
            }
            _ if bits == 8 => stride,
            elements => {
                let root = if bits < 8 { Root::Shr } else { Root::Shl };
                let shift = if bits < 8 { 8 / bits } else { bits / 8 }.trailing_zeros();
                let ty = if bits < 8 { ScalarType::U32 } else { ScalarType::B32 };
                let count = Operand::Const { bits: shift.into(), wide: false };
                self.word(inst, root, ty, [elements, count])
            }
        };
        let base = match address.base {
            Operand::None => Operand::Const { bits: 0, wide: address.wide },
            base => base,
        };
        Some(Place { base, offset: address.offset, wide: address.wide, space, stride, further: Vec::new() })
    }

    /// A new word that an operation makes of two others, in all lanes.
    fn word(&mut self, inst: &Inst, root: Root, ty: ScalarType, from: [Operand; 2]) -> Operand {
        let to = Operand::Reg(self.fresh(ty));
        let mut made = tf3_stack::made(inst, OpClass::Data, root, ty);
        (made.guard, made.text, made.dst[0]) = (PredOperand::Const(true), ADDRESS, to);
        made.src[..2].copy_from_slice(&from);
        self.push(made);
        to
    }

    /// `count * bytes + base`.
    fn beyond(&mut self, inst: &Inst, count: Operand, bytes: Operand, base: Operand, wide: bool) -> Operand {
        if let (Operand::Const { bits: count, .. }, Operand::Const { bits, .. }) = (count, bytes)
            && count.wrapping_mul(bits) == 0
        {
            return base;
        }
        let ty = if wide { ScalarType::U64 } else { ScalarType::U32 };
        let to = Operand::Reg(self.fresh(ty));
        let mut made = tf3_stack::made(inst, OpClass::Data, Root::Mad, ScalarType::U32);
        made.form.mods =
            Modifiers { half: Some(if wide { Half::Wide } else { Half::Lo }), ..Modifiers::plain() };
        (made.form.dst, made.form.dst_reg) = (ty, register_bits(ty));
        (made.guard, made.text, made.dst[0]) = (PredOperand::Const(true), ADDRESS, to);
        made.src[..3].copy_from_slice(&[count, bytes, base]);
        self.push(made);
        to
    }

    /// The address of the thread's first element.
    fn own_address(&mut self, inst: &Inst, place: &mut Place, map: &Map) {
        let constant = |bits: u64| Operand::Const { bits, wide: false };
        let lane = Operand::Special(SpecialRegister::LaneId);
        let group = self.word(inst, Root::Shr, ScalarType::U32, [lane, constant(2)]);
        let thread = self.word(inst, Root::And, ScalarType::B32, [lane, constant(3)]);
        for (index, (strides, bytes)) in [(group, map.by_group), (thread, map.by_thread)] {
            if strides > 0 {
                let each = match place.stride {
                    Operand::Const { bits, .. } => constant(bits.wrapping_mul(strides) & 0xffff_ffff),
                    stride if strides == 1 => stride,
                    stride => {
                        let shift = constant(strides.trailing_zeros().into());
                        self.word(inst, Root::Shl, ScalarType::B32, [stride, shift])
                    }
                };
                place.base = self.beyond(inst, index, each, place.base, place.wide);
            }
            if bytes > 0 {
                place.base = self.beyond(inst, index, constant(bytes), place.base, place.wide);
            }
        }
    }

    /// Base and offset of a register's part.
    fn at(&mut self, inst: &Inst, place: &mut Place, spot: Spot) -> (Operand, i64) {
        let offset = place.offset + spot.bytes;
        match place.stride {
            _ if spot.strides == 0 => (place.base, offset),
            Operand::Const { bits, .. } => (place.base, offset + (bits * spot.strides) as i64),
            stride => {
                if let Some((_, base)) = place.further.iter().find(|(strides, _)| *strides == spot.strides) {
                    return (*base, offset);
                }
                let count = Operand::Const { bits: spot.strides, wide: false };
                let base = self.beyond(inst, stride, count, place.base, place.wide);
                place.further.push((spot.strides, base));
                (base, offset)
            }
        }
    }

    /// One access of a fragment.
    fn part(
        &mut self,
        inst: &Inst,
        place: &mut Place,
        spot: Spot,
        store: bool,
        ty: ScalarType,
        value: Operand,
    ) -> Inst {
        let (base, offset) = self.at(inst, place, spot);
        let (class, root) = if store { (OpClass::Store, Root::St) } else { (OpClass::Load, Root::Ld) };
        let mut access = tf3_stack::made(inst, class, root, ty);
        access.form.mods.space = Some(place.space).filter(|space| *space != StateSpace::Generic);
        (access.src[0], access.imm, access.text) = (base, offset, PART);
        if let Operand::Const { bits: 0, .. } = base {
            access.src[0] = Operand::None;
        }
        if store {
            access.src[1] = value;
        } else {
            access.dst[0] = value;
        }
        let bits = register_bits(ty).max(32);
        access.form.dst_reg = bits;
        access.form.src_reg = bits;
        access.extra = Extra::Memory(tf4_access_sizes::facts(&access.form, place.space, bits, place.wide));
        access
    }

    /// The operation that exchanges the halves of a block of 8 by 8.
    fn exchange(&self, inst: &Inst, to: Operand, from: Operand) -> Inst {
        let mut made = tf3_stack::made(inst, OpClass::MoveMatrix, Root::Movmatrix, ScalarType::B32);
        made.form.mods.matrix = Matrix::of(Root::Movmatrix, &["m8n8", "trans"]);
        (made.dst[0], made.src[0], made.text) = (to, from, PART);
        made
    }

    fn load_register(
        &mut self,
        inst: &Inst,
        place: &mut Place,
        map: &Map,
        to: Operand,
        spots: &[Spot],
        ty: Element,
        last: bool,
    ) {
        let own = |last: bool| if last { inst.text } else { PART };
        if let [spot] = *spots {
            let loaded = if map.exchanged { Operand::Reg(self.fresh(ScalarType::B32)) } else { to };
            let access_type = if ty == Element::F64 { ScalarType::B64 } else { ScalarType::B32 };
            let mut load = self.part(inst, place, spot, false, access_type, loaded);
            if map.exchanged {
                self.push(load);
                load = self.exchange(inst, to, loaded);
            }
            load.text = own(last);
            return self.push(load);
        }
        // Four bytes, put together.
        let bytes: Vec<Reg> = spots
            .iter()
            .map(|spot| {
                let byte = self.fresh(ScalarType::B32);
                let load = self.part(inst, place, *spot, false, ScalarType::U8, Operand::Reg(byte));
                self.push(load);
                byte
            })
            .collect();
        let low = self.joined(inst, bytes[0], bytes[1], 0x40);
        let high = self.joined(inst, bytes[2], bytes[3], 0x40);
        let mut join = self.selection(inst, low, high, 0x5410);
        (join.dst[0], join.text) = (to, own(last));
        self.push(join);
    }

    /// `prmt a, b, selector`.
    fn selection(&mut self, inst: &Inst, a: Reg, b: Reg, selector: u64) -> Inst {
        let mut made = tf3_stack::made(inst, OpClass::Data, Root::Prmt, ScalarType::B32);
        made.text = PART;
        made.src[..3].copy_from_slice(&[
            Operand::Reg(a),
            Operand::Reg(b),
            Operand::Const { bits: selector, wide: false },
        ]);
        made
    }

    fn joined(&mut self, inst: &Inst, a: Reg, b: Reg, selector: u64) -> Reg {
        let to = self.fresh(ScalarType::B32);
        let mut made = self.selection(inst, a, b, selector);
        made.dst[0] = Operand::Reg(to);
        self.push(made);
        to
    }

    fn store_register(
        &mut self,
        inst: &Inst,
        place: &mut Place,
        map: &Map,
        from: Operand,
        spots: &[Spot],
        ty: Element,
        last: bool,
    ) {
        let [spot] = *spots else { return };
        let mut value = from;
        if map.exchanged {
            value = Operand::Reg(self.fresh(ScalarType::B32));
            let exchange = self.exchange(inst, value, from);
            self.push(exchange);
        }
        let access_type = if ty == Element::F64 { ScalarType::B64 } else { ScalarType::B32 };
        let mut store = self.part(inst, place, spot, true, access_type, value);
        if last {
            store.text = inst.text;
        }
        self.push(store);
    }
}

/// Registers that hold all elements once.
fn needed(matrix: &Matrix) -> usize {
    let [d, a, b, _] = matrix.registers();
    match matrix.step {
        MatrixStep::LoadA => a,
        MatrixStep::LoadB => b,
        _ => d,
    }
}

/// True if the product is made of pieces of the transposed one.
fn transposed(matrix: &Matrix) -> bool {
    matrix.shape.m == 8 && matrix.shape.n == 32
}

/// True if the matrix, as the pieces see it, lies row by row: A by its rows, B by its columns, D by its rows.
fn along(matrix: &Matrix) -> bool {
    let row = matrix.layouts[0] == Layout::Row;
    match matrix.step {
        MatrixStep::LoadA => row,
        MatrixStep::LoadB => !row,
        _ => row != transposed(matrix),
    }
}

fn map(matrix: &Matrix) -> Map {
    let ty = matrix.types[0];
    let bytes = (ty.register_bits() / 8) as u64;
    let of_sums = matches!(matrix.step, MatrixStep::LoadC | MatrixStep::StoreD);
    if along(matrix) {
        // A thread's registers hold neighbours; of sums they are pairs of elements.
        let each = if of_sums && ty.packed() == 1 { 2 * bytes } else { bytes };
        return Map { whole: true, exchanged: false, by_group: (1, 0), by_thread: (0, each) };
    }
    match ty.bits() {
        16 => Map { whole: true, exchanged: true, by_group: (1, 0), by_thread: (0, 4) },
        8 => Map { whole: false, exchanged: false, by_group: (0, 1), by_thread: (4, 0) },
        _ if of_sums => Map { whole: true, exchanged: false, by_group: (0, bytes), by_thread: (2, 0) },
        _ => Map { whole: true, exchanged: false, by_group: (0, bytes), by_thread: (1, 0) },
    }
}

/// The parts of each register that holds an element once, in order.
fn spots(matrix: &Matrix, map: &Map) -> Vec<Spot> {
    let ty = matrix.types[0];
    let size = ty.bits() as u64;
    let along = along(matrix);
    let mut out = Vec::new();
    // `outer` counts rows of A or D and columns of B, `inner` what runs along them, in elements.
    let mut add = |outer: u64, inner: u64| {
        let (strides, elements) = if along { (outer, inner) } else { (inner, outer) };
        if map.whole {
            out.push(Spot { strides, bytes: (elements * size / 8) as i64 });
        } else {
            out.extend((0..4).map(|byte| Spot { strides: strides + byte, bytes: elements as i64 }));
        }
    };
    let registers = needed(matrix) as u64;
    let small = matrix.shape.m == 8 && matrix.shape.n == 8;
    if matches!(matrix.step, MatrixStep::LoadC | MatrixStep::StoreD) {
        // Pieces of 16 by 8: below one another or side by side.
        let packed = ty.packed() as u64;
        let of_piece = if small { registers } else { registers / 2 };
        for register in 0..registers {
            let (piece, own) = (register / of_piece, register % of_piece);
            let element = own * packed;
            let (outer, inner) = (element / 2 * 8, element % 2);
            match matrix.shape.m {
                16 => add(outer, inner + 8 * piece),
                _ => add(outer + 16 * piece, inner),
            }
        }
        return out;
    }
    let a_like = !small && (matrix.step == MatrixStep::LoadA) != transposed(matrix);
    // Elements from one register to the next along k.
    let block = 4 * ty.packed() as u64;
    let of_piece = if a_like { 2 } else { 1 } * (u64::from(matrix.shape.k) / block).max(1);
    for register in 0..registers {
        let (piece, own) = (register / of_piece, register % of_piece);
        if a_like {
            add(8 * (own % 2) + 16 * piece, block * (own / 2));
        } else {
            add(8 * piece, block * own);
        }
    }
    out
}
