//! Interleaved tensors: channels lie in slices of 16 or 32 bytes (PTX ISA "Interleave layout": NC/8DHWC8, NC/16HWC16). Their
//! dimensions are those of the tensor without slices: channels, W, H and D, images. DEVIATIONS.md says what is published of
//! them and what is assumed here:
//!
//! - Slices lie between images and what is left of an image, in the tensor as in shared memory: the next slice begins where
//!   the outermost dimension but that of the images ends. In im2col mode a column is one image.
//! - A box has whole slices. What is left of the last one is filled, and not stored.

use super::boxes::{BoxPieces, Inner};
use super::map::TensorMap;
use crate::bulk::Piece;

impl TensorMap {
    /// Slices of so many channels.
    pub fn slices(&self, channels: u32) -> u32 {
        channels.div_ceil((self.interleave / self.element().bytes()).max(1))
    }

    /// Bytes from a slice of the tensor to the next one.
    pub fn slice_stride(&self) -> u64 {
        let axis = self.sizes.len().saturating_sub(2).max(1);
        self.strides[axis - 1].wrapping_mul(self.sizes[axis].into())
    }

    /// `pieces` of an interleaved tensor.
    pub(super) fn pieces_of_slices(
        &self,
        coordinates: &[i32],
        offsets: &[u16],
        to: u32,
        single: bool,
    ) -> BoxPieces {
        let Inner { first, end, row, bytes } = self.along_inner(coordinates, single);
        let (slice, step) = (self.interleave, self.step(0));
        let mut rows = Vec::new();
        self.rows(false, coordinates, offsets, |base, inside| rows.push((base, inside)));
        let images = if self.im2col.is_some() { 1 } else { self.counts().last().map_or(1, |n| *n as usize) };
        let mut out = BoxPieces { bytes, ..BoxPieces::default() };
        let mut place = to;
        for image in rows.chunks((rows.len() / images).max(1)) {
            for number in 0..self.slices(self.inner()) {
                for (base, inside) in image {
                    for within in (0..slice).step_by(bytes as usize) {
                        let taken = number * slice + within;
                        // Pieces are elements where channels have a step.
                        let along = first + i64::from(taken) * i64::from(step);
                        let near = self.swizzled(place + within);
                        if *inside && taken < row && (0..end).contains(&along) {
                            let (number, within) = (along / i64::from(slice), along % i64::from(slice));
                            let slices = number.wrapping_mul(self.slice_stride() as i64);
                            let far = base.wrapping_add(slices).wrapping_add(within) as u64;
                            out.inside.push(Piece { far, near });
                        } else {
                            out.beyond.push(near);
                        }
                    }
                    place += slice;
                }
            }
        }
        out
    }
}
