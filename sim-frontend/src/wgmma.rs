//! What `wgmma` says (PTX ISA "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"): products of
//! matrices by the four warps of a warpgroup, of which each has sixteen rows of D and A.

use crate::matrix::{Matrix, MatrixShape};
use crate::program::{Extra, Op, Program, Row};

/// Warps of a warpgroup.
pub const WARPGROUP: u32 = 4;

/// Rows of D and A that a warp has.
pub const ROWS: u16 = 16;

/// A warp's part of a product. The rows of the fragments of A, C and, of a sparse one, the metadata follow one
/// another in [`Program::fragments`](crate::program::Program::fragments); those of D come after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgmmaOp {
    /// Types and the rest; its shape is that of the part: sixteen rows.
    pub matrix: Matrix,
    /// The threads of four that hold the metadata.
    pub selector: u8,
    /// A is in shared memory, and `src[0]` its descriptor.
    pub shared_a: bool,
    /// Products are subtracted: one of A and B is negated.
    pub negated: bool,
    /// A and B lie in shared memory by columns, as to K: `imm-trans-a`, `imm-trans-b`.
    pub transposed: [bool; 2],
    /// C may be added: `scale-d` is not the constant 0.
    pub adds: bool,
    /// The first row.
    pub rows: u32,
    /// The first of the slots that do not fit into the operation, and how many they are.
    pub slots: (u32, u16),
    /// How many of them are written.
    pub written: u16,
}

impl WgmmaOp {
    /// Registers of D, A, C and metadata.
    pub fn registers(&self) -> [usize; 4] {
        let [d, a, ..] = self.matrix.registers();
        [d, if self.shared_a { 0 } else { a }, if self.adds { d } else { 0 }, usize::from(self.matrix.sparse)]
    }

    /// Bytes that a row of A and a column of B take along K.
    pub fn k_bytes(&self) -> [usize; 2] {
        let bits = self.matrix.types[1].bits();
        [self.matrix.stored_k() * bits / 8, usize::from(self.matrix.shape.k) * bits / 8]
    }
}

/// The part of a warp in a product of a warpgroup.
pub fn part(matrix: &Matrix) -> Matrix {
    Matrix { shape: MatrixShape { m: ROWS, ..matrix.shape }, ..*matrix }
}

impl Program {
    /// Of [`more_slots`](Self::more_slots), those that the operation writes.
    pub fn more_written(&self, op: &Op) -> &[u16] {
        let written = match &op.extra {
            Extra::Wgmma(wgmma) => usize::from(wgmma.written),
            _ => 0,
        };
        self.more_slots(op).get(..written).unwrap_or_default()
    }

    /// Rows that an operation reads besides its sources: fragments of matrices.
    pub fn fragments_of(&self, op: &Op) -> &[Row] {
        match &op.extra {
            Extra::Mma(mma) => self.fragments(mma),
            Extra::Wgmma(wgmma) => self.wgmma_rows(wgmma)[0],
            _ => &[],
        }
    }

    /// Rows that a `wgmma` reads (A, C and metadata), and those of D.
    pub fn wgmma_rows(&self, wgmma: &WgmmaOp) -> [&[Row]; 2] {
        let [d, a, c, e] = wgmma.registers();
        let first = wgmma.rows as usize;
        let read = a + c + e;
        let rows = self.fragments.get(first..first + read + d).unwrap_or_default();
        rows.split_at_checked(read).map_or([&[], &[]], |(read, written)| [read, written])
    }
}
