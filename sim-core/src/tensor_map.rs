//! Tensor maps: what `cp.async.bulk.tensor` is told of a tensor in global memory, with the parameters of
//! `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`. NVIDIA's encoding of the 128 bytes is not published; this one
//! is our own, words of 16, 32 and 64 bits, the least significant byte first. Where the fields lie that `tensormap.replace`
//! changes, `sim_frontend::tensor_map::MapField` says. A map of zeros whose fields are all replaced is a map:
//!
//! | bytes | content |
//! |-------|---------|
//! | 0–3   | dimensions less one |
//! | 4     | type of the elements, as `CUtensorMapDataType` numbers them |
//! | 5     | chunks of a swizzle of 128 bytes: 0, 1, 3: 16, 32, 64 bytes; 2: 32, flipped by 8 |
//! | 6     | swizzle: 0 none, 1, 2, 3 of 32, 64, 128 bytes |
//! | 7     | 1: NaN beyond the tensor, 0: zero |
//! | 8–15  | address |
//! | 16–35 | sizes in elements, the innermost first |
//! | 36    | interleave: 0 none, 1, 2 of 16, 32 bytes |
//! | 37    | bytes that L2 fetches: 0 as it does, 1, 2, 3: 64, 128, 256 |
//! | 38    | 0: tiled, 1: im2col, 2, 3: im2col along W, by columns, by 128 pixels |
//! | 40–71 | strides in bytes of the dimensions but the innermost; 72–79: that of no dimension |
//! | 80–99 | sizes of the box; im2col: channels of a pixel, pixels of a column, lower and upper corner, W first |
//! | 100–119 | strides of elements |
//! | 39, 120–127 | 0 |

mod boxes;
mod bytes;
mod limits;
mod map;
#[cfg(test)]
mod slice_tests;
mod slices;
#[cfg(test)]
mod tests;

pub use boxes::BoxPieces;
pub use limits::{Part, Wrong};
pub use map::{ALIGN, AlongW, Atom, BYTES, DIMENSIONS, Im2col, TYPES, TensorMap};
