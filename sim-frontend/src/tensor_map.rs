//! Where the fields of a tensor map lie in its 128 bytes. NVIDIA's encoding is not published; this one is our own, words of
//! 16, 32 and 64 bits, the least significant byte first. `tensormap.replace` stores into it, what copies tensors reads it.

use sim_memory::vocabulary::ScalarType;

/// A field that `tensormap.replace` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapField {
    /// Address of the tensor.
    Address,
    /// Dimensions less one.
    Rank,
    /// Size of the box along a dimension.
    Box,
    /// Size of the tensor along a dimension.
    Dim,
    /// Stride in bytes of a dimension but the innermost.
    Stride,
    /// Stride of elements along a dimension.
    ElementStride,
    /// Type of the elements, as `CUtensorMapDataType` numbers them.
    Type,
    /// Interleave: 0 none, 1, 2 of 16, 32 bytes.
    Interleave,
    /// Swizzle: 0 none, 1, 2, 3 of 32, 64, 128 bytes.
    Swizzle,
    /// Bytes that a swizzle of 128 bytes leaves together: 0, 1, 3: 16, 32, 64; 2: 32, whose halves of 16 bytes have
    /// theirs of 8 change places in every second row.
    Atomicity,
    /// 1: NaN beyond the tensor, 0: zero.
    Fill,
}

impl MapField {
    /// Where it begins.
    pub const fn offset(self) -> usize {
        match self {
            Self::Rank => 0,
            Self::Type => 4,
            Self::Atomicity => 5,
            Self::Swizzle => 6,
            Self::Fill => 7,
            Self::Address => 8,
            Self::Dim => 16,
            Self::Interleave => 36,
            Self::Stride => 40,
            Self::Box => 80,
            Self::ElementStride => 100,
        }
    }

    /// The type of it, or of one of its elements.
    pub const fn ty(self) -> ScalarType {
        match self {
            Self::Address | Self::Stride => ScalarType::B64,
            Self::Rank | Self::Dim | Self::Box | Self::ElementStride => ScalarType::B32,
            Self::Type | Self::Swizzle | Self::Atomicity | Self::Fill | Self::Interleave => ScalarType::B8,
        }
    }

    /// Its elements, where there is one a dimension.
    pub const fn elements(self) -> Option<u64> {
        match self {
            // The fifth stride is of no dimension, and is ignored; ptxas allows it.
            Self::Dim | Self::Box | Self::ElementStride | Self::Stride => Some(5),
            _ => None,
        }
    }

    /// The value that stands for one of `tensormap.replace` (PTX ISA, table of its values), where it is an enumeration.
    pub fn value(self, written: u64) -> Option<u64> {
        // Types in the order of the instruction: those of 32 bits that flush, and f64 and bf16, have other numbers.
        const TYPES: [u64; 13] = [0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12];
        match self {
            Self::Type => TYPES.get(usize::try_from(written).ok()?).copied(),
            Self::Interleave => (written <= 2).then_some(written),
            Self::Swizzle | Self::Atomicity => (written <= 3).then_some(written),
            Self::Fill => (written <= 1).then_some(written),
            _ => None,
        }
    }
}
