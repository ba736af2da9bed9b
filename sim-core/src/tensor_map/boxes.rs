//! What a copy of a box is made of: pieces of global and of shared memory.

use super::map::TensorMap;
use crate::bulk::{PIECE, Piece};

/// What a copy of a box is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoxPieces {
    /// Bytes of each piece.
    pub bytes: u32,
    /// Those in the tensor.
    pub inside: Vec<Piece>,
    /// Offsets in shared memory of those beyond it.
    pub beyond: Vec<u32>,
}

impl TensorMap {
    /// Of so many elements along a dimension one is copied: the innermost has no such stride, but in slices of channels.
    fn step(&self, axis: usize) -> u32 {
        if axis == 0 && self.interleave == 0 { 1 } else { self.element_strides[axis] }
    }

    /// Elements that are copied along each dimension: of those of the box every so manieth.
    fn counts(&self) -> Vec<u32> {
        self.box_sizes.iter().enumerate().map(|(axis, size)| size.div_ceil(self.step(axis))).collect()
    }

    /// Elements of the innermost dimension that are copied.
    pub(super) fn inner(&self) -> u32 {
        match &self.im2col {
            Some(columns) => columns.channels,
            None => self.box_sizes[0].div_ceil(self.step(0).max(1)),
        }
    }

    /// The largest offset of im2col mode (PTX ISA "im2col mode", the size of offsets by dimensions).
    pub fn largest_offset(&self) -> Option<u16> {
        self.im2col.as_ref()?;
        [u16::MAX, u8::MAX.into(), 31].get(self.sizes.len().checked_sub(3)?).copied()
    }

    /// Bytes of a box in shared memory, or of a column of pixels.
    pub fn box_bytes(&self) -> u64 {
        let element = u64::from(self.element().bytes());
        if let Some(columns) = &self.im2col {
            return u64::from(columns.channels) * u64::from(columns.pixels) * element;
        }
        self.counts().iter().fold(element, |bytes, count| bytes.saturating_mul(u64::from(*count)))
    }

    /// Where a byte of the box lies that without swizzle would be at this address of shared memory: within
    /// eight, four or two rows of 128 bytes the chunks of 16 bytes change places.
    fn swizzled(&self, at: u32) -> u32 {
        match self.swizzle {
            32 => at ^ (at >> 3 & 0x10),
            64 => at ^ (at >> 3 & 0x30),
            128 => at ^ (at >> 3 & 0x70),
            _ => at,
        }
    }

    /// What a copy of the box at these coordinates is made of, where shared memory has it from `to` on; in im2col mode of
    /// the column of pixels from there on, each at an offset. Pieces have the size of an element if `single`.
    pub fn pieces(&self, coordinates: &[i32], offsets: &[u16], to: u32, single: bool) -> BoxPieces {
        let element = self.element().bytes();
        let row = self.inner() * element;
        let first = i64::from(coordinates.first().copied().unwrap_or(0)) * i64::from(element);
        let end = i64::from(self.sizes[0]) * i64::from(element);
        // The largest pieces that no edge divides and that are aligned on both sides.
        let whole = !single && self.step(0) == 1;
        let mut bytes = if whole { PIECE } else { element };
        while whole && bytes > element && (first | end | i64::from(row)) & i64::from(bytes - 1) != 0 {
            bytes /= 2;
        }
        let mut out = BoxPieces { bytes, ..BoxPieces::default() };
        let mut number = 0;
        self.rows(coordinates, offsets, |base, inside| {
            for within in (0..row).step_by(bytes as usize) {
                let along = match whole {
                    true => first + i64::from(within),
                    false => first + i64::from(within * self.step(0)),
                };
                let near = self.swizzled(to + number * row + within);
                if inside && (0..end).contains(&along) {
                    out.inside.push(Piece { far: base.wrapping_add(along) as u64, near });
                } else {
                    out.beyond.push(near);
                }
            }
            number += 1;
        });
        out
    }

    /// The rows of elements that are copied, as they follow one another in shared memory: the address of the row's first
    /// element in the tensor, and whether the row is inside.
    fn rows(&self, coordinates: &[i32], offsets: &[u16], mut each: impl FnMut(i64, bool)) {
        let start = |axis: usize| i64::from(coordinates.get(axis).copied().unwrap_or(0));
        let mut at: Vec<i64> = (0..self.sizes.len()).map(start).collect();
        let row = |at: &[i64], offset: &dyn Fn(usize) -> i64| {
            let (mut base, mut inside) = (self.address as i64, true);
            for axis in 1..at.len() {
                let at = at[axis] + offset(axis);
                inside &= (0..i64::from(self.sizes[axis])).contains(&at);
                base = base.wrapping_add(at.wrapping_mul(self.strides[axis - 1] as i64));
            }
            (base, inside)
        };
        let Some(columns) = &self.im2col else {
            let counts = self.counts();
            let rows: u32 = counts[1..].iter().product();
            for number in 0..rows {
                let mut rest = number;
                for axis in 1..counts.len() {
                    at[axis] = start(axis) + i64::from(rest % counts[axis]) * i64::from(self.step(axis));
                    rest /= counts[axis];
                }
                let (base, inside) = row(&at, &|_| 0);
                each(base, inside);
            }
            return;
        };
        // The images of the batch are the last axis, what lies between it and the channels has the bounding box.
        let images = at.len() - 1;
        let offset = |axis: usize| match axis {
            axis if axis < images => i64::from(offsets.get(axis - 1).copied().unwrap_or(0)),
            _ => 0,
        };
        for _ in 0..columns.pixels {
            let (base, inside) = row(&at, &offset);
            each(base, inside);
            // The next pixel of the bounding box, with the steps of each axis.
            for axis in 1..=images {
                at[axis] += if axis < images { i64::from(self.step(axis)) } else { 1 };
                if axis == images {
                    break;
                }
                let last = i64::from(self.sizes[axis]) - 1 + i64::from(columns.upper[axis - 1]);
                if at[axis] <= last {
                    break;
                }
                at[axis] = columns.lower[axis - 1].into();
            }
        }
    }

    /// The bytes of a piece beyond the tensor: every bit but the sign is 1 in a NaN.
    pub fn fill(&self) -> [u8; PIECE as usize] {
        let mut out = [0; PIECE as usize];
        if self.nan {
            for element in out.chunks_exact_mut(self.element().bytes() as usize) {
                element.fill(0xff);
                if let Some(last) = element.last_mut() {
                    *last = 0x7f;
                }
            }
        }
        out
    }
}
