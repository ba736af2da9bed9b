//! Products of matrices whose fragments the threads of a warp hold: what the tensor cores of a chip compute, to
//! the bit. Fragments become tiles (`fragments`), tiles are multiplied (`float`, `whole`), and D goes back.

mod float;
mod fragments;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod whole;

use sim_frontend::chip::TensorArithmetic;
use sim_frontend::form::Rounding;
use sim_frontend::matrix::{Element, MmaOp};
use sim_memory::vocabulary::WARP_LANES;

use crate::instruction_set::InstructionSet;
use crate::registers::LaneRow;

/// Most rows of A or D.
const M: usize = 16;
/// Columns of B and D.
const N: usize = 8;
/// Most words of a row of A.
const A_WORDS: usize = 8;
/// Most words of a column of B.
const B_WORDS: usize = 16;
/// Most elements of a row of A that are floating-point numbers, and rows of B.
const FLOATS: [usize; 2] = [32, 64];
/// The same of integers.
const INTEGERS: [usize; 2] = [64, 128];
/// Most rows of all fragments that are read, and of D.
pub(crate) const SOURCES: usize = 32;
pub(crate) const RESULTS: usize = 8;

/// A register of 32 lanes.
type Lanes32 = [u32; WARP_LANES];

/// What products are worked out in. It is written before it is read.
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    /// Words of A by rows, and of B by word and column.
    a_words: [[u32; A_WORDS]; M],
    b_words: [[u32; N]; B_WORDS],
    /// Elements and their exponents.
    a: [[f64; FLOATS[0]]; M],
    a_exponents: [[i32; FLOATS[0]]; M],
    b: [[f64; N]; FLOATS[1]],
    b_exponents: [[i32; N]; FLOATS[1]],
    a_integers: [[i32; INTEGERS[0]]; M],
    b_integers: [[i32; N]; INTEGERS[1]],
    /// For each element of a sparse A: its place among all.
    places: [[u8; INTEGERS[0]]; M],
    /// The sum so far.
    sums: [[f64; N]; M],
    whole_sums: [[i32; N]; M],
}

impl Scratch {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            a_words: [[0; A_WORDS]; M],
            b_words: [[0; N]; B_WORDS],
            a: [[0.0; FLOATS[0]]; M],
            a_exponents: [[0; FLOATS[0]]; M],
            b: [[0.0; N]; FLOATS[1]],
            b_exponents: [[0; N]; FLOATS[1]],
            a_integers: [[0; INTEGERS[0]]; M],
            b_integers: [[0; N]; INTEGERS[1]],
            places: [[0; INTEGERS[0]]; M],
            sums: [[0.0; N]; M],
            whole_sums: [[0; N]; M],
        })
    }
}

/// A product: what is read, and how it is added.
pub(crate) struct Product<'r> {
    pub(crate) op: &'r MmaOp,
    pub(crate) arithmetic: &'r TensorArithmetic,
    pub(crate) rounding: Option<Rounding>,
    /// Rows of A, B, C and metadata, one after the other; those of doubles are pairs.
    pub(crate) sources: &'r [Lanes32],
}

impl Product<'_> {
    /// Rows of A, B, C and metadata.
    fn parts(&self) -> [&[Lanes32]; 4] {
        let wide = if self.op.matrix.types[1] == Element::F64 { 2 } else { 1 };
        let [_, a, b, c, e] = self.op.registers();
        let (own_a, rest) = self.sources.split_at(a * wide);
        let (own_b, rest) = rest.split_at(b * wide);
        let (own_c, rest) = rest.split_at(c * wide);
        [own_a, own_b, own_c, &rest[..e.min(rest.len())]]
    }
}

/// The rows of D.
pub(crate) fn multiply(
    scratch: &mut Scratch,
    set: InstructionSet,
    product: &Product<'_>,
    results: &mut [LaneRow; RESULTS],
) {
    match set {
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2Fma | InstructionSet::Avx512 => {
            // SAFETY: the set is one that `InstructionSet::available` found on this host, and both sets hold
            // these features.
            #[allow(unsafe_code, reason = "products of tiles are vectors")]
            unsafe {
                multiply_avx2(scratch, product, results);
            }
        }
        _ => multiply_here(scratch, product, results),
    }
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt"))]
#[allow(unsafe_code, reason = "callers must have the features")]
unsafe fn multiply_avx2(scratch: &mut Scratch, product: &Product<'_>, results: &mut [LaneRow; RESULTS]) {
    multiply_here(scratch, product, results);
}

#[inline(always)]
fn multiply_here(scratch: &mut Scratch, product: &Product<'_>, results: &mut [LaneRow; RESULTS]) {
    let matrix = &product.op.matrix;
    match matrix.types[1] {
        _ if matrix.is_quad() => float::quads(scratch, product, results),
        Element::F64 => float::doubles(product, results),
        Element::F16 | Element::Bf16 | Element::Tf32 | Element::F32 | Element::E4m3 | Element::E5m2 => {
            float::tiles(scratch, product, results);
        }
        _ => whole::tiles(scratch, product, results),
    }
}
