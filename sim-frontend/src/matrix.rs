//! What instructions on matrices say: shape, types, layouts. `mma`, `wmma`, `ldmatrix`, `stmatrix` and
//! `movmatrix` name them by modifiers, in any order but that of their types.

use crate::isa::table::Root;

/// The type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX types")]
pub enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    /// Six bits, the low ones of a byte.
    E3m2,
    /// The same.
    E2m3,
    /// Four bits, those from the third on of a byte.
    E2m1,
    /// The same type, two elements in a byte (`.kind::mxf4`, `.kind::mxf4nvf4`).
    E2m1Packed,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
}

impl Element {
    /// By its name in PTX.
    pub fn named(word: &str) -> Option<Self> {
        Some(match word {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "e4m3" => Self::E4m3,
            "e5m2" => Self::E5m2,
            "e3m2" => Self::E3m2,
            "e2m3" => Self::E2m3,
            "e2m1" => Self::E2m1,
            "s8" => Self::S8,
            "u8" => Self::U8,
            "s4" => Self::S4,
            "u4" => Self::U4,
            "b1" => Self::B1,
            "s32" => Self::S32,
            _ => return None,
        })
    }

    /// Its name in PTX.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::E3m2 => "e3m2",
            Self::E2m3 => "e2m3",
            Self::E2m1 | Self::E2m1Packed => "e2m1",
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::S4 => "s4",
            Self::U4 => "u4",
            Self::B1 => "b1",
            Self::S32 => "s32",
        }
    }

    /// One of the types of `.kind::f8f6f4`, each element in a byte.
    pub const fn is_small_float(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2 | Self::E3m2 | Self::E2m3 | Self::E2m1)
    }

    /// Bits of an element, with those that pad it.
    pub const fn bits(self) -> usize {
        match self {
            Self::F64 => 64,
            Self::Tf32 | Self::F32 | Self::S32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::E4m3 | Self::E5m2 | Self::E3m2 | Self::E2m3 | Self::E2m1 | Self::S8 | Self::U8 => 8,
            Self::E2m1Packed | Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
        }
    }

    /// Bits of the registers that hold a fragment of it.
    pub const fn register_bits(self) -> usize {
        if matches!(self, Self::F64) { 64 } else { 32 }
    }

    /// Elements of a register.
    pub const fn packed(self) -> usize {
        // Both are powers of two; nobody divides at each product of a run.
        self.register_bits() >> self.bits().trailing_zeros()
    }
}

/// How a matrix lies in memory, or in the fragments of `m8n8k4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum Layout {
    #[default]
    Row,
    Col,
}

/// The operation on single bits, before they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum BitOp {
    Xor,
    And,
}

/// What is done with matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MatrixStep {
    /// `mma`, `wmma.mma`.
    Multiply,
    /// `wmma.load.a`.
    LoadA,
    /// `wmma.load.b`.
    LoadB,
    /// `wmma.load.c`.
    LoadC,
    /// `wmma.store.d`.
    StoreD,
    /// `ldmatrix`, `stmatrix`, `movmatrix`.
    Tiles,
    /// `wgmma.fence`.
    Fence,
    /// `wgmma.commit_group`.
    Commit,
    /// `wgmma.wait_group`.
    Wait,
}

/// Rows, columns and depth of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of PTX")]
pub struct MatrixShape {
    pub m: u16,
    pub n: u16,
    pub k: u16,
}

impl MatrixShape {
    /// `m16n8k16`; without depth `m8n8`.
    pub fn named(word: &str) -> Option<Self> {
        let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k').unwrap_or((rest, "0"));
        Some(Self { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
    }

    /// Multiply-adds of a dense product.
    pub fn multiply_adds(self) -> u32 {
        u32::from(self.m) * u32::from(self.n) * u32::from(self.k)
    }
}

/// What the rows are made of that `ldmatrix` and `stmatrix` move, sixteen bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TileElements {
    /// Eight of 16 bits (`.b16`).
    #[default]
    Halves,
    /// Sixteen of eight bits (`.b8`).
    Bytes,
    /// Sixteen of six bits and 32 bits of padding, which become bytes (`.b8x16.b6x16_p32`).
    Six,
    /// Sixteen of four bits and 64 bits of padding, which become bytes (`.b8x16.b4x16_p64`).
    Four,
}

/// The type of the scales of A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScaleType {
    /// A power of two.
    Ue8m0,
    /// As `.e4m3`, whose sign counts for nothing.
    Ue4m3,
}

/// `.block_scale`: each row of A and each column of B is scaled, by parts along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockScale {
    /// The type of the scales.
    pub ty: ScaleType,
    /// `.scale_vec::1X`, `2X`, `4X`: parts of K that have a scale of their own.
    pub parts: u8,
}

impl BlockScale {
    /// The bytes of a register in which the scales of a row may begin (PTX ISA "Block Scaling", `byte-id`).
    pub fn first_bytes(self) -> &'static [u32] {
        match self.parts {
            1 => &[0, 1, 2, 3],
            2 => &[0, 2],
            _ => &[0],
        }
    }
}

/// Sources of a product that say how it is scaled: the scales of A, which of its bytes and threads are meant, and
/// the same of B.
pub const SCALE_SOURCES: usize = 6;

/// What an instruction on matrices says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// What it does.
    pub step: MatrixStep,
    /// The shape of the product, or of each tile.
    pub shape: MatrixShape,
    /// Types of D, A, B and C; of loads and stores that of the matrix, four times.
    pub types: [Element; 4],
    /// Layouts of A and B; of loads and stores the first.
    pub layouts: [Layout; 2],
    /// `.sp`: of A only the elements that metadata names are given.
    pub sparse: bool,
    /// `.block_scale`.
    pub scale: Option<BlockScale>,
    /// `.satfinite`.
    pub saturate: bool,
    /// `.xor.popc`, `.and.popc`.
    pub bit_op: Option<BitOp>,
    /// `.trans`.
    pub trans: bool,
    /// `.x1`, `.x2`, `.x4`.
    pub count: u8,
    /// What rows of `ldmatrix` and `stmatrix` are made of.
    pub elements: TileElements,
}

impl Matrix {
    /// By the modifiers of an instruction.
    pub fn of(root: Root, words: &[&str]) -> Option<Self> {
        if !matches!(
            root,
            Root::Mma | Root::Wmma | Root::Wgmma | Root::Ldmatrix | Root::Stmatrix | Root::Movmatrix
        ) {
            return None;
        }
        let tiles = !matches!(root, Root::Mma | Root::Wmma | Root::Wgmma);
        let mut out = Self {
            step: if tiles { MatrixStep::Tiles } else { MatrixStep::Multiply },
            shape: MatrixShape::default(),
            types: [Element::F16; 4],
            layouts: [Layout::Row; 2],
            sparse: false,
            scale: None,
            saturate: false,
            bit_op: None,
            trans: false,
            count: 1,
            elements: TileElements::Halves,
        };
        let (mut types, mut layouts) = (Vec::new(), Vec::new());
        let mut load = false;
        let (mut parts, mut scale_type, mut packed) = (None, None, false);
        for word in words {
            if let Some(shape) = MatrixShape::named(word) {
                out.shape = shape;
            } else if let Some(ty) = Element::named(word) {
                types.push(ty);
            }
            match *word {
                "load" => load = true,
                "fence" => out.step = MatrixStep::Fence,
                "commit_group" => out.step = MatrixStep::Commit,
                "wait_group" => out.step = MatrixStep::Wait,
                "a" => out.step = MatrixStep::LoadA,
                "b" => out.step = MatrixStep::LoadB,
                "c" if load => out.step = MatrixStep::LoadC,
                "d" => out.step = MatrixStep::StoreD,
                "row" => layouts.push(Layout::Row),
                "col" => layouts.push(Layout::Col),
                "sp" | "sp::ordered_metadata" => out.sparse = true,
                "kind::mxf8f6f4" => parts = parts.or(Some(1)),
                "kind::mxf4" | "kind::mxf4nvf4" => (packed, parts) = (true, parts.or(Some(2))),
                "scale_vec::1X" => parts = Some(1),
                "scale_vec::2X" => parts = Some(2),
                "scale_vec::4X" => parts = Some(4),
                "ue8m0" => scale_type = Some(ScaleType::Ue8m0),
                "ue4m3" => scale_type = Some(ScaleType::Ue4m3),
                "satfinite" => out.saturate = true,
                "xor" => out.bit_op = Some(BitOp::Xor),
                "and" => out.bit_op = Some(BitOp::And),
                "trans" => out.trans = true,
                "b8" => out.elements = TileElements::Bytes,
                "b6x16_p32" => out.elements = TileElements::Six,
                "b4x16_p64" => out.elements = TileElements::Four,
                "x2" => out.count = 2,
                "x4" => out.count = 4,
                _ => {}
            }
        }
        match *types.as_slice() {
            [one] => out.types = [one; 4],
            // That of C is D's.
            [d, a, b] => out.types = [d, a, b, d],
            // `wmma.mma` of halves names D and C only.
            [d, c] => out.types = [d, Element::F16, Element::F16, c],
            [d, a, b, c] => out.types = [d, a, b, c],
            _ => {}
        }
        for (to, layout) in out.layouts.iter_mut().zip(layouts) {
            *to = layout;
        }
        out.scale = scale_type.zip(parts).map(|(ty, parts)| BlockScale { ty, parts });
        if packed {
            let pack = |ty: &mut Element| *ty = if *ty == Element::E2m1 { Element::E2m1Packed } else { *ty };
            out.types.iter_mut().for_each(pack);
        }
        Some(out)
    }

    /// Registers that `ldmatrix` and `stmatrix` move, each that of eight rows: two for a matrix of sixteen.
    pub fn tiles(&self) -> u8 {
        self.count * if self.shape.m == 16 && self.shape.n == 16 { 2 } else { 1 }
    }

    /// Elements of a row of A that fragments hold.
    pub fn stored_k(&self) -> usize {
        usize::from(self.shape.k) / if self.sparse { 2 } else { 1 }
    }

    /// The shape, with the elements of a row of A that fragments hold.
    pub fn stored_shape(&self) -> MatrixShape {
        MatrixShape { k: self.stored_k() as u16, ..self.shape }
    }

    /// Registers of the fragments D, A, B and C of an `mma`.
    #[inline]
    pub fn registers(&self) -> [usize; 4] {
        let [m, n, k] = [self.shape.m, self.shape.n, self.shape.k].map(usize::from);
        let [d, a, b, c] = self.types;
        let each = |elements: usize, ty: Element| {
            let of_warp = 32 * ty.packed();
            (elements + of_warp - 1) >> of_warp.trailing_zeros()
        };
        if self.is_quad() {
            let sums = |ty: Element| if ty == Element::F16 { 4 } else { 8 };
            return [sums(d), 2, 2, sums(c)];
        }
        [each(m * n, d), each(m * self.stored_k(), a), each(k * n, b), each(m * n, c)]
    }

    /// Registers of the fragments of a `wmma`, by the same places. Of halves A and B always have eight.
    pub fn wmma_registers(&self) -> [usize; 4] {
        let [d, a, b, c] = self.registers();
        let halves = |ty: Element, registers| if ty == Element::F16 { 8 } else { registers };
        [d, halves(self.types[1], a), halves(self.types[2], b), c]
    }

    /// The four products of quarter warps, as on Volta.
    pub fn is_quad(&self) -> bool {
        self.shape == MatrixShape { m: 8, n: 8, k: 4 } && self.types[1] == Element::F16
    }
}

/// A product of fragments that a warp executes as one operation. Its destinations are those of the operation; the
/// rows of A, B, C and, of a sparse one, the metadata, of a scaled one the scales, follow one another in
/// [`Program::fragments`](crate::program::Program::fragments).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaOp {
    /// Shape, types and the rest.
    pub matrix: Matrix,
    /// The threads of four that hold the metadata.
    pub selector: u8,
    /// Of the products of quarter warps: which half of the columns of D.
    pub half: Option<u8>,
    /// The first row.
    pub rows: u32,
    /// The first of the slots that it reads and that do not fit into the operation, and how many they are.
    pub slots: (u32, u8),
    registers: [u8; 6],
}

impl MmaOp {
    /// An operation that has no rows yet.
    pub fn new(matrix: Matrix, selector: u8, half: Option<u8>) -> Self {
        let halves = |n: usize| if half.is_some() && n > 4 { n / 2 } else { n };
        let scales = if matrix.scale.is_some() { SCALE_SOURCES } else { 0 };
        let [d, a, b, c] = matrix.registers();
        let registers = [halves(d), a, b, halves(c), usize::from(matrix.sparse), scales].map(|n| n as u8);
        Self { matrix, selector, half, rows: 0, slots: (0, 0), registers }
    }

    /// Registers of D, A, B, C, metadata and what says how it is scaled.
    #[inline]
    pub fn registers(&self) -> [usize; 6] {
        self.registers.map(usize::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(root: Root, text: &str) -> Matrix {
        Matrix::of(root, &text.split('.').collect::<Vec<_>>()).expect("a matrix instruction")
    }

    #[test]
    fn fragments_have_the_registers_of_the_manual() {
        let rows = [
            ("m16n8k16.row.col.f32.f16.f16.f32", [4, 4, 2, 4]),
            ("m16n8k16.row.col.f16.f16.f16.f16", [2, 4, 2, 2]),
            ("m16n8k8.row.col.f32.tf32.tf32.f32", [4, 4, 2, 4]),
            ("m16n8k32.row.col.s32.s8.u8.s32", [4, 4, 2, 4]),
            ("m8n8k16.row.col.s32.s8.u8.s32", [2, 1, 1, 2]),
            ("m16n8k64.row.col.s32.s4.u4.s32", [4, 4, 2, 4]),
            ("m16n8k256.row.col.s32.b1.b1.s32.and.popc", [4, 4, 2, 4]),
            ("m16n8k16.row.col.f64.f64.f64.f64", [4, 8, 4, 4]),
            ("m8n8k4.row.col.f64.f64.f64.f64", [2, 1, 1, 2]),
            ("m8n8k4.row.row.f32.f16.f16.f16", [8, 2, 2, 4]),
            ("sp.m16n8k32.row.col.f32.f16.f16.f32", [4, 4, 4, 4]),
            ("sp.m16n8k128.row.col.s32.s4.s4.s32", [4, 4, 4, 4]),
            ("m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", [4, 4, 2, 4]),
            ("m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m1.e4m3.f32.ue8m0", [4, 4, 2, 4]),
            ("sp.m16n8k128.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", [4, 4, 4, 4]),
        ];
        for (text, registers) in rows {
            assert_eq!(of(Root::Mma, text).registers(), registers, "{text}");
        }
        let scale = |text| of(Root::Mma, text).scale;
        let powers = |parts| Some(BlockScale { ty: ScaleType::Ue8m0, parts });
        assert_eq!(scale("m16n8k32.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"), powers(1));
        assert_eq!(scale("m16n8k64.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"), powers(2));
        assert_eq!(
            scale("m16n8k64.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"),
            Some(BlockScale { ty: ScaleType::Ue4m3, parts: 4 })
        );
        assert_eq!(scale("m16n8k32.kind::f8f6f4.f32.e4m3.e4m3.f32"), None);
        let rows = [
            ("mma.row.col.m16n16k16.f32.f32", [8, 8, 8, 8]),
            ("mma.row.col.m32n8k16.f16.f32", [4, 8, 8, 8]),
            ("mma.row.col.m8n32k16.f32.bf16.bf16.f32", [8, 2, 8, 8]),
            ("mma.row.col.m16n16k8.f32.tf32.tf32.f32", [8, 4, 4, 8]),
            ("mma.row.col.m32n8k16.s32.u8.u8.s32", [8, 4, 1, 8]),
        ];
        for (text, registers) in rows {
            assert_eq!(of(Root::Wmma, text).wmma_registers(), registers, "{text}");
        }
    }
}
