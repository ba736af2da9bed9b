//! A product as it is asked for, and what it is worked out in.

use sim_frontend::chip::TensorArithmetic;
use sim_frontend::form::Rounding;
use sim_frontend::matrix::{Element, MmaOp};
use sim_memory::vocabulary::WARP_LANES;

use crate::registers::LaneRow;

/// Most rows of A or D.
pub(super) const M: usize = 16;
/// Columns of B and D.
pub const N: usize = 8;
/// Most words of a row of A.
pub(super) const A_WORDS: usize = 8;
/// Most words of a column of B.
pub(super) const B_WORDS: usize = 16;
/// Most elements of a row of A that are floating-point numbers, and rows of B.
pub(super) const FLOATS: [usize; 2] = [32, 64];
/// The same of integers.
pub(super) const INTEGERS: [usize; 2] = [64, 128];
/// Most rows of all fragments that are read, and of D.
pub(crate) const SOURCES: usize = 32;
pub(crate) const RESULTS: usize = 8;

/// A register of 32 lanes.
pub type Lanes32 = [u32; WARP_LANES];

/// Eight words of a vector.
#[cfg(target_arch = "x86_64")]
pub(super) type Eight = [u32; N];

/// What products of ordinary numbers are worked out in with vectors (`avx2`), each of eight rows or columns: bits of singles, and
/// exponents of sixteen rows, two in a word.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Debug)]
pub(super) struct Tile {
    /// Elements of A by place along K, and their exponents.
    pub(super) a: [[Eight; 2]; FLOATS[0]],
    pub(super) a_exponents: [Eight; FLOATS[0]],
    /// All of them are ordinary.
    pub(super) ordinary_a: bool,
    pub(super) b: [Eight; FLOATS[1]],
    pub(super) b_exponents: [Eight; FLOATS[1]],
    /// Of a sparse A: which of four elements of a column of B is multiplied, in words and in bytes.
    pub(super) places: [[Eight; 2]; FLOATS[0]],
    pub(super) exponent_places: [Eight; FLOATS[0]],
    /// Four elements of a column of B side by side.
    pub(super) fours: [[Eight; 4]; FLOATS[1] / 4],
    pub(super) exponent_fours: [[Eight; 4]; FLOATS[1] / 4],
    /// The sums so far by column, and the largest exponents of a group.
    pub(super) sums: [[Eight; 2]; N],
    pub(super) largest: [Eight; N],
}

#[cfg(target_arch = "x86_64")]
impl Tile {
    fn new() -> Self {
        let none = [0; N];
        Self {
            a: [[none; 2]; FLOATS[0]],
            a_exponents: [none; FLOATS[0]],
            ordinary_a: false,
            b: [none; FLOATS[1]],
            b_exponents: [none; FLOATS[1]],
            places: [[none; 2]; FLOATS[0]],
            exponent_places: [none; FLOATS[0]],
            fours: [[none; 4]; FLOATS[1] / 4],
            exponent_fours: [[none; 4]; FLOATS[1] / 4],
            sums: [[none; 2]; N],
            largest: [none; N],
        }
    }
}

/// What products are worked out in. It is written before it is read.
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    /// Words of A by word and row, and of B by word and column.
    pub(super) a_words: [[u32; M]; A_WORDS],
    pub(super) b_words: [[u32; N]; B_WORDS],
    /// Elements by place along K, and their exponents.
    pub(super) a: [[f32; M]; FLOATS[0]],
    pub(super) a_exponents: [[i16; M]; FLOATS[0]],
    pub(super) b: [[f32; N]; FLOATS[1]],
    pub(super) b_exponents: [[i16; N]; FLOATS[1]],
    /// The elements of A are neither infinite nor NaN.
    pub(super) finite_a: bool,
    #[cfg(target_arch = "x86_64")]
    pub(super) tile: Tile,
    pub(super) a_integers: [[i32; INTEGERS[0]]; M],
    pub(super) b_integers: [[i32; N]; INTEGERS[1]],
    /// For each element of a sparse A: its place among all.
    pub(super) places: [[u8; INTEGERS[0]]; M],
    /// The sums so far, those of floating-point numbers by column.
    pub(super) sums: [[f32; M]; N],
    pub(super) whole_sums: [[i32; N]; M],
    /// Room for what the products of a warpgroup read of shared memory.
    pub(crate) pieces: Vec<Lanes32>,
    /// Room for the rows of D.
    pub(crate) results: [LaneRow; RESULTS],
    /// Room for the rows of D of a product that is made of several.
    pub(crate) wide: Vec<LaneRow>,
}

impl Scratch {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            a_words: [[0; M]; A_WORDS],
            b_words: [[0; N]; B_WORDS],
            a: [[0.0; M]; FLOATS[0]],
            a_exponents: [[0; M]; FLOATS[0]],
            b: [[0.0; N]; FLOATS[1]],
            b_exponents: [[0; N]; FLOATS[1]],
            finite_a: false,
            #[cfg(target_arch = "x86_64")]
            tile: Tile::new(),
            a_integers: [[0; INTEGERS[0]]; M],
            b_integers: [[0; N]; INTEGERS[1]],
            places: [[0; INTEGERS[0]]; M],
            sums: [[0.0; M]; N],
            whole_sums: [[0; N]; M],
            results: [LaneRow([0; WARP_LANES]); RESULTS],
            pieces: Vec::new(),
            wide: Vec::new(),
        })
    }
}

/// A product: what is read, and how it is added.
pub(crate) struct Product<'r> {
    pub(crate) op: &'r MmaOp,
    pub(crate) arithmetic: &'r TensorArithmetic,
    pub(crate) rounding: Option<Rounding>,
    /// It is that of one warp, not of a group of them.
    pub(crate) warp: bool,
    /// A is that of the last product of the scratch, which has the same form.
    pub(crate) keeps_a: bool,
    /// Registers of D, A, B, C, metadata and scales ([`MmaOp::registers`]).
    pub(crate) registers: [usize; 6],
    /// Rows of A, B, C, metadata and scales, one after the other; those of doubles are pairs.
    pub(crate) sources: &'r [&'r Lanes32],
}

impl Product<'_> {
    /// It is two products of halves; see [`TensorArithmetic::fp8_by_halves`].
    pub(super) fn by_halves(&self) -> bool {
        let small = matches!(self.op.matrix.types[1], Element::E4m3 | Element::E5m2);
        self.warp && small && self.arithmetic.fp8_by_halves && self.op.matrix.scale.is_none()
    }

    /// Rows of A, B, C and metadata.
    pub(super) fn parts(&self) -> [&[&Lanes32]; 4] {
        let wide = if self.op.matrix.types[1] == Element::F64 { 2 } else { 1 };
        let [_, a, b, c, e, _] = self.registers;
        let (own_a, rest) = self.sources.split_at(a * wide);
        let (own_b, rest) = rest.split_at(b * wide);
        let (own_c, rest) = rest.split_at(c * wide);
        [own_a, own_b, own_c, &rest[..e.min(rest.len())]]
    }

    /// Rows of what says how A and B are scaled.
    pub(super) fn scales(&self) -> &[&Lanes32] {
        let [.., scales] = self.registers;
        &self.sources[self.sources.len().saturating_sub(scales)..]
    }
}
