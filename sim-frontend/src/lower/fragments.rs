//! Loads and stores of the fragments of `wmma` become address arithmetic and ordinary accesses, or `ldmatrix`, as an
//! assembler makes them. The fragments are those of `mma.m16n8`. What is made, and how many instructions it
//! takes, was read from what ptxas 13 makes for sm_80 of 54 forms in shared and global memory.
//!
//! Until then such an instruction is one [`OpClass::LoadMatrix`] or [`OpClass::StoreMatrix`] of [`Root::Wmma`]: its
//! first source is the address, its second one the elements from one row or column to the next, and its results or
//! fragments are the registers.

use rustc_hash::FxHashMap;
use sim_memory::vocabulary::{ScalarType, StateSpace};

use super::ir::{Func, Inst, Operand, Reg, Width};
use super::{tf3_stack, tf4_access_sizes};
use crate::form::{Half, Modifiers, register_bits};
use crate::isa::Root;
use crate::matrix::{Element, Layout, Matrix, MatrixStep, TileElements};
use crate::program::{Extra, OpClass, SpecialRegister, Text};

/// What listings show of the operations before the last one.
const ADDRESS: Text = Text::Made("the address of a fragment");
const PART: Text = Text::Made("a part of a fragment");

/// Bytes of a row that `ldmatrix` reads.
const TILE_ROW: u64 = 16;
/// Rows of such a tile, each of which one thread names.
const TILE_ROWS: u64 = 8;

/// True if an instruction is the load or store of a fragment.
fn is_access(inst: &Inst) -> bool {
    inst.form.root == Root::Wmma && matches!(inst.class, OpClass::LoadMatrix | OpClass::StoreMatrix)
}

/// True if a function loads or stores fragments.
pub fn has_fragments(func: &Func) -> bool {
    func.blocks.iter().flat_map(|block| &block.insts).any(is_access)
}

/// Expands all loads and stores of fragments. With `tiles`, those that can be are loaded by `ldmatrix`.
pub fn expand(func: &mut Func, tiles: bool) {
    for b in 0..func.blocks.len() {
        if !func.blocks[b].insts.iter().any(is_access) {
            continue;
        }
        let insts = std::mem::take(&mut func.blocks[b].insts);
        let mut block = Expansion {
            func,
            tiles,
            made: Vec::with_capacity(insts.len()),
            words: FxHashMap::default(),
            made_of: FxHashMap::default(),
        };
        for inst in insts {
            if is_access(&inst) {
                block.access(&inst);
            } else {
                block.forget(&inst);
                block.made.push(inst);
            }
        }
        func.blocks[b].insts = block.made;
    }
}

/// What makes a word of the address arithmetic: the operation, which half of a product, and the operands.
type Word = (Root, Option<Half>, [Operand; 3]);

/// A block whose fragments are expanded.
struct Expansion<'f> {
    func: &'f mut Func,
    tiles: bool,
    made: Vec<Inst>,
    /// What has been computed for addresses in this block, each word once, and the registers that hold it.
    words: FxHashMap<Word, Reg>,
    /// By register: the words that are made of it.
    made_of: FxHashMap<Reg, Vec<Word>>,
}

/// Where a fragment lies in memory.
struct Place {
    base: Operand,
    offset: i64,
    wide: bool,
    space: StateSpace,
    /// Elements from one row to the next, or from one column to the next, and the bits of an element.
    stride: Operand,
    bits: u64,
}

impl Place {
    /// False if rows are known to lie at addresses that `ldmatrix` does not take.
    fn has_whole_rows(&self) -> bool {
        match self.stride {
            Operand::Const { bits, .. } => bits.wrapping_mul(self.bits).is_multiple_of(8 * TILE_ROW),
            _ => true,
        }
    }
}

/// A register of a fragment: how many strides and bytes it lies beyond the thread's first address.
#[derive(Clone, Copy, PartialEq, Eq)]
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
    /// So many times `laneid % 4` counts strides, and `laneid / 4` units; else the other way round.
    by_thread: Option<u64>,
    /// Bytes from one of those that count them to the next.
    unit: u64,
}

fn constant(bits: u64) -> Operand {
    Operand::Const { bits: bits & 0xffff_ffff, wide: false }
}

impl Expansion<'_> {
    /// Words that are made of what an instruction writes are no longer known.
    fn forget(&mut self, inst: &Inst) {
        inst.for_writes(|reg| {
            for word in self.made_of.remove(&reg).unwrap_or_default() {
                self.words.remove(&word);
            }
        });
    }

    fn push(&mut self, inst: Inst) {
        self.forget(&inst);
        self.made.push(inst);
    }

    /// A register with what an operation on words makes of others, in all lanes.
    fn word(&mut self, inst: &Inst, root: Root, half: Option<Half>, from: [Operand; 3]) -> Operand {
        let word = (root, half, from);
        if let Some(known) = self.words.get(&word) {
            return Operand::Reg(*known);
        }
        let logic = matches!(root, Root::Shl | Root::And | Root::Or | Root::Mov);
        let ty = if logic { ScalarType::B32 } else { ScalarType::U32 };
        let mut made = tf3_stack::unguarded(tf3_stack::made(inst, OpClass::Data, root, ty));
        let wide = half == Some(Half::Wide);
        if half.is_some() {
            made.form.mods = Modifiers { half, ..Modifiers::plain() };
            made.form.dst = if wide { ScalarType::U64 } else { ScalarType::U32 };
            made.form.dst_reg = register_bits(made.form.dst);
        }
        let to = self.func.register(if wide { Width::Pair } else { Width::Word }, false);
        (made.text, made.dst[0]) = (ADDRESS, Operand::Reg(to));
        made.src[..3].copy_from_slice(&from);
        self.made.push(made);
        self.words.insert(word, to);
        for operand in from {
            if let Operand::Reg(reg) = operand {
                self.made_of.entry(reg).or_default().push(word);
            }
        }
        Operand::Reg(to)
    }

    fn two(&mut self, inst: &Inst, root: Root, a: Operand, b: Operand) -> Operand {
        self.word(inst, root, None, [a, b, Operand::None])
    }

    fn shift(&mut self, inst: &Inst, root: Root, of: Operand, by: u32) -> Operand {
        match by {
            0 => of,
            _ => self.two(inst, root, of, constant(by.into())),
        }
    }

    /// `a * b + c`, of 64 bits where `wide`.
    fn sum(&mut self, inst: &Inst, a: Operand, b: Operand, c: Operand, wide: bool) -> Operand {
        self.word(inst, Root::Mad, Some(if wide { Half::Wide } else { Half::Lo }), [a, b, c])
    }

    fn lane(&mut self, inst: &Inst) -> Operand {
        let lane = Operand::Special(SpecialRegister::LaneId);
        self.word(inst, Root::Mov, None, [lane, Operand::None, Operand::None])
    }

    /// The stride in units of so many bytes, a power of two that divides what PTX asks of strides.
    fn stride(&mut self, inst: &Inst, place: &Place, unit: u64) -> Operand {
        let (bits, unit) = (place.bits, 8 * unit);
        match place.stride {
            Operand::Const { bits: elements, .. } => constant(elements.wrapping_mul(bits) / unit),
            stride if bits >= unit => self.shift(inst, Root::Shl, stride, (bits / unit).trailing_zeros()),
            stride => self.shift(inst, Root::Shr, stride, (unit / bits).trailing_zeros()),
        }
    }

    /// `base` and so many units.
    fn address(&mut self, inst: &Inst, place: &Place, index: Operand, unit: u64) -> Operand {
        match place.base {
            Operand::Const { bits: 0, .. } if !place.wide => {
                self.shift(inst, Root::Shl, index, unit.trailing_zeros())
            }
            base => self.sum(inst, index, constant(unit), base, place.wide),
        }
    }

    /// The load or store of a fragment.
    fn access(&mut self, inst: &Inst) {
        let (Some(matrix), Extra::Memory(facts)) = (inst.form.mods.matrix, &inst.extra) else { return };
        let store = inst.class == OpClass::StoreMatrix;
        let list = if store { &inst.fragments } else { &inst.results };
        // Of a variable in shared memory the address is an offset, and what is added to it has 32 bits.
        let wide = facts.address_64 && !(inst.src[0] == Operand::None && facts.space == StateSpace::Shared);
        let place = Place {
            base: if inst.src[0] == Operand::None { Operand::Const { bits: 0, wide } } else { inst.src[0] },
            offset: inst.imm,
            wide,
            space: facts.space,
            stride: inst.src[1],
            bits: matrix.types[0].bits() as u64,
        };
        let map = map(&matrix);
        let spots = spots(&matrix, &map);
        let unique = needed(&matrix).min(list.len());
        // Of those that repeat one another the first that is no sink.
        let register = |o: &&Operand| matches!(o, Operand::Reg(_));
        let first = |i: usize| list[i..].iter().step_by(unique).find(register).copied().unwrap_or(list[i]);
        let named: Vec<Operand> = (0..unique).map(first).collect();
        let own = self.made.len();
        let several = tile_registers(&matrix).filter(|_| place.has_whole_rows());
        if self.tiles
            && facts.space == StateSpace::Shared
            && let Some(lanes) = several.and_then(|several| TileLanes::of(&spots, several))
        {
            let own = self.tile_address(inst, &place, &lanes);
            let firsts = spots.iter().step_by(lanes.registers);
            let places: Vec<_> = firsts.map(|spot| self.at(inst, &place, own, *spot)).collect();
            for (registers, at) in named.chunks(lanes.registers).zip(places) {
                self.load_tiles(inst, &place, at, map.exchanged, registers);
            }
        } else {
            self.accesses(inst, &place, &map, &named, &spots, matrix.types[0]);
        }
        for i in unique..list.len() {
            let (Operand::Reg(_), from @ Operand::Reg(_)) = (list[i], named[i % unique]) else { continue };
            if list[i] == from {
                continue;
            }
            let mut copy = tf3_stack::made(inst, OpClass::Data, Root::Mov, ScalarType::B32);
            (copy.dst[0], copy.src[0], copy.text) = (list[i], from, PART);
            self.push(copy);
        }
        // The last one stands for the whole in listings.
        if let Some(last) = self.made[own..].last_mut() {
            last.text = inst.text;
        }
    }

    /// The loads or stores of a fragment's registers by their threads.
    fn accesses(
        &mut self,
        inst: &Inst,
        place: &Place,
        map: &Map,
        list: &[Operand],
        spots: &[Spot],
        ty: Element,
    ) {
        let own = self.own_address(inst, place, map);
        let bytes = (ty.register_bits() / 8) as i64;
        // Before anything is loaded: the registers may be among those loaded.
        let places: Vec<_> = spots.iter().map(|spot| self.at(inst, place, own, *spot)).collect();
        if !map.whole {
            for (to, places) in list.iter().zip(places.chunks(4)) {
                self.load_bytes(inst, place, *to, places);
            }
            return;
        }
        // Neighbours, which only sums have, are accessed together; a thread's part is aligned to both.
        let beside =
            |i: usize| spots[i + 1] == Spot { bytes: spots[i].bytes + bytes, strides: spots[i].strides };
        let pairs = list.len().is_multiple_of(2)
            && (0..list.len()).step_by(2).all(beside)
            && place.offset % (2 * bytes) == 0;
        let each = if pairs { 2 } else { 1 };
        for (registers, places) in list.chunks(each).zip(places.chunks(each)) {
            self.registers(inst, place, places[0], map.exchanged, registers, bytes == 8);
        }
    }

    /// The address of the thread's first element.
    fn own_address(&mut self, inst: &Inst, place: &Place, map: &Map) -> (Operand, u64) {
        let lane = self.lane(inst);
        let group = self.shift(inst, Root::Shr, lane, 2);
        let stride = self.stride(inst, place, map.unit);
        let (strided, other) = match map.by_thread {
            None => (group, self.two(inst, Root::And, lane, constant(3))),
            Some(times) => {
                let lane = self.shift(inst, Root::Shl, lane, times.trailing_zeros());
                (self.two(inst, Root::And, lane, constant(3 * times)), group)
            }
        };
        let index = self.sum(inst, strided, stride, other, false);
        (self.address(inst, place, index, map.unit), map.unit)
    }

    /// Base and offset of a register's part.
    fn at(&mut self, inst: &Inst, place: &Place, (base, unit): (Operand, u64), spot: Spot) -> (Operand, i64) {
        let offset = place.offset.wrapping_add(spot.bytes);
        if spot.strides == 0 {
            return (base, offset);
        }
        match self.stride(inst, place, unit) {
            Operand::Const { bits, .. } => (base, offset.wrapping_add((bits * unit * spot.strides) as i64)),
            stride => (self.sum(inst, stride, constant(unit * spot.strides), base, place.wide), offset),
        }
    }

    /// An access without operands, of elements that have so many bytes.
    fn blank(&self, inst: &Inst, place: &Place, ty: ScalarType, vector: u8) -> Inst {
        let store = inst.class == OpClass::StoreMatrix;
        let (class, root) = if store { (OpClass::Store, Root::St) } else { (OpClass::Load, Root::Ld) };
        let mut access = tf3_stack::made(inst, class, root, ty);
        access.form.mods.space = Some(place.space).filter(|space| *space != StateSpace::Generic);
        access.form.mods.vector = vector;
        access.text = PART;
        let bits = register_bits(ty).max(32);
        (access.form.dst_reg, access.form.src_reg) = (bits, bits);
        access.extra = Extra::Memory(tf4_access_sizes::facts(&access.form, place.space, bits, place.wide));
        access
    }

    /// One access: of a register, or of two neighbours.
    fn registers(
        &mut self,
        inst: &Inst,
        place: &Place,
        (base, offset): (Operand, i64),
        exchanged: bool,
        registers: &[Operand],
        long: bool,
    ) {
        let store = inst.class == OpClass::StoreMatrix;
        let ty = if long { ScalarType::B64 } else { ScalarType::B32 };
        let mut access = self.blank(inst, place, ty, registers.len() as u8);
        (access.src[0], access.imm) = (without_zero(base), offset);
        let mut exchange = None;
        for (i, register) in registers.iter().enumerate() {
            let mut own = *register;
            if exchanged {
                own = Operand::Reg(self.func.register(Width::Word, false));
                let (to, from) = if store { (own, *register) } else { (*register, own) };
                exchange = Some(exchange_halves(inst, to, from));
            }
            if store {
                access.src[1 + i] = own;
            } else {
                access.dst[i] = own;
            }
        }
        let (first, then) = if store { (exchange, Some(access)) } else { (Some(access), exchange) };
        first.into_iter().chain(then).for_each(|inst| self.push(inst));
    }

    /// Four bytes, put together.
    fn load_bytes(&mut self, inst: &Inst, place: &Place, to: Operand, places: &[(Operand, i64)]) {
        let bytes: Vec<Reg> = places
            .iter()
            .map(|(base, offset)| {
                let byte = self.func.register(Width::Word, false);
                let mut load = self.blank(inst, place, ScalarType::U8, 1);
                (load.src[0], load.imm, load.dst[0]) = (without_zero(*base), *offset, Operand::Reg(byte));
                self.push(load);
                byte
            })
            .collect();
        let low = self.joined(inst, bytes[0], bytes[1]);
        let high = self.joined(inst, bytes[2], bytes[3]);
        let join = selection(inst, to, low, high, 0x5410);
        self.push(join);
    }

    fn joined(&mut self, inst: &Inst, a: Reg, b: Reg) -> Reg {
        let to = self.func.register(Width::Word, false);
        let join = selection(inst, Operand::Reg(to), a, b, 0x40);
        self.push(join);
        to
    }

    /// One `ldmatrix`.
    fn load_tiles(
        &mut self,
        inst: &Inst,
        place: &Place,
        (base, offset): (Operand, i64),
        trans: bool,
        registers: &[Operand],
    ) {
        let mut load = tf3_stack::made(inst, OpClass::LoadMatrix, Root::Ldmatrix, ScalarType::B16);
        let count = ["x1", "x2", "x4"][registers.len().trailing_zeros() as usize % 3];
        let words = ["m8n8", count, "trans"];
        load.form.mods.matrix = Matrix::of(Root::Ldmatrix, &words[..if trans { 3 } else { 2 }]);
        load.form.mods.space = Some(place.space);
        load.dst[..registers.len()].copy_from_slice(registers);
        (load.src[0], load.imm, load.text) = (without_zero(base), offset, PART);
        let mut memory = tf4_access_sizes::facts(&load.form, place.space, 32, place.wide);
        memory.element_bytes = TILE_ROW as u8;
        let count = registers.len() as u8;
        load.extra = Extra::Tiles { memory, count, trans, elements: TileElements::Halves };
        self.push(load);
    }

    /// The address of the row that the thread names: threads 0 to 7 those of the first tile, and so on.
    fn tile_address(&mut self, inst: &Inst, place: &Place, lanes: &TileLanes) -> (Operand, u64) {
        // Halves are counted one by one, smaller elements by bytes.
        let unit = (place.bits / 8).max(1);
        let mut lane = self.lane(inst);
        if lanes.registers == 2 {
            lane = self.two(inst, Root::And, lane, constant(2 * TILE_ROWS - 1));
        }
        let mut row = self.two(inst, Root::And, lane, constant(TILE_ROWS - 1));
        let mut column = None;
        for (bit, step) in lanes.steps.iter().enumerate() {
            let by_row = step.strides > 0;
            let times = if by_row { step.strides } else { step.bytes as u64 / unit };
            let tile = self.shift(inst, Root::Shr, lane, TILE_ROWS.trailing_zeros() + bit as u32);
            let before = if by_row { Some(row) } else { column };
            let sum = if bit + 1 == lanes.steps.len() {
                match before {
                    Some(before) => self.sum(inst, tile, constant(times), before, false),
                    None => self.shift(inst, Root::Shl, tile, times.trailing_zeros()),
                }
            } else {
                let tile = self.shift(inst, Root::Shl, tile, times.trailing_zeros());
                let tile = self.two(inst, Root::And, tile, constant(times));
                before.map_or(tile, |before| self.two(inst, Root::Or, tile, before))
            };
            if by_row {
                row = sum;
            } else {
                column = Some(sum);
            }
        }
        let stride = self.stride(inst, place, unit);
        let index = self.sum(inst, row, stride, column.unwrap_or(constant(0)), false);
        (self.address(inst, place, index, unit), unit)
    }
}

/// The tiles of one `ldmatrix`.
struct TileLanes {
    registers: usize,
    /// What lies between tiles whose numbers differ in bit 0, and in bit 1.
    steps: Vec<Spot>,
}

impl TileLanes {
    /// If the registers of a fragment are such tiles, at most so many in one.
    fn of(spots: &[Spot], most: usize) -> Option<Self> {
        let registers = most.min(spots.len());
        let between =
            |a: Spot, b: Spot| Spot { strides: b.strides.wrapping_sub(a.strides), bytes: b.bytes - a.bytes };
        let steps: Vec<Spot> =
            [1, 2].into_iter().filter(|i| *i < registers).map(|i| between(spots[0], spots[i])).collect();
        let one = |step: &Spot| match (step.strides, step.bytes) {
            (strides, 0) => strides.is_power_of_two() && strides >= TILE_ROWS,
            (0, bytes) => bytes.count_ones() == 1 && bytes >= TILE_ROW as i64,
            _ => false,
        };
        let alike = spots.chunks(registers).all(|chunk| {
            chunk.len() == registers
                && chunk.iter().zip(spots).all(|(a, b)| between(chunk[0], *a) == between(spots[0], *b))
        });
        let sums = registers < 4 || between(spots[2], spots[3]) == steps[0];
        (matches!(registers, 1 | 2 | 4) && steps.iter().all(one) && alike && sums)
            .then_some(Self { registers, steps })
    }
}

/// Registers that one `ldmatrix` loads of A or B at most, if it can: it moves rows of 16 bytes, and transposes halves only.
fn tile_registers(matrix: &Matrix) -> Option<usize> {
    let whole = match matrix.types[0].bits() {
        16 => return matches!(matrix.step, MatrixStep::LoadA | MatrixStep::LoadB).then_some(4),
        8 => 2,
        1..8 => 1,
        _ => return None,
    };
    (matches!(matrix.step, MatrixStep::LoadA | MatrixStep::LoadB) && along(matrix)).then_some(whole)
}

/// No base is no operand.
fn without_zero(base: Operand) -> Operand {
    match base {
        Operand::Const { bits: 0, .. } => Operand::None,
        base => base,
    }
}

/// The operation that exchanges the halves of a block of 8 by 8.
fn exchange_halves(inst: &Inst, to: Operand, from: Operand) -> Inst {
    let mut made = tf3_stack::made(inst, OpClass::MoveMatrix, Root::Movmatrix, ScalarType::B32);
    made.form.mods.matrix = Matrix::of(Root::Movmatrix, &["m8n8", "trans"]);
    (made.dst[0], made.src[0], made.text) = (to, from, PART);
    made
}

/// `prmt to, a, b, selector`.
fn selection(inst: &Inst, to: Operand, a: Reg, b: Reg, selector: u64) -> Inst {
    let mut made = tf3_stack::made(inst, OpClass::Data, Root::Prmt, ScalarType::B32);
    (made.text, made.dst[0]) = (PART, to);
    made.src[..3].copy_from_slice(&[Operand::Reg(a), Operand::Reg(b), constant(selector)]);
    made
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
        return Map { whole: true, exchanged: false, by_thread: None, unit: each };
    }
    match ty.bits() {
        16 => Map { whole: true, exchanged: true, by_thread: None, unit: 4 },
        8 => Map { whole: false, exchanged: false, by_thread: Some(4), unit: 1 },
        _ if of_sums => Map { whole: true, exchanged: false, by_thread: Some(2), unit: bytes },
        _ => Map { whole: true, exchanged: false, by_thread: Some(1), unit: bytes },
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

#[cfg(test)]
mod tests;
