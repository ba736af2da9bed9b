//! What a copy of a box is made of: pieces of global and of shared memory.

use super::map::{AlongW, Atom, Im2col, TensorMap};
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

/// What a copy takes of the innermost dimension, in bytes.
pub(super) struct Inner {
    /// Where it begins in the tensor.
    pub first: i64,
    /// Where the tensor ends.
    pub end: i64,
    /// Of the elements that are copied.
    pub row: u32,
    /// Of a piece.
    pub bytes: u32,
}

impl Im2col {
    /// Groups of pixels with a halo of their own behind them, and pixels of each, of a copy along W.
    fn groups(&self) -> (u32, u32) {
        match self.along_w {
            Some(AlongW::By32) => (4, 32),
            _ => (1, self.pixels),
        }
    }
}

impl TensorMap {
    /// Of so many elements along a dimension one is copied: the innermost has no such stride, but in slices of channels.
    pub(super) fn step(&self, axis: usize) -> u32 {
        if axis == 0 && self.interleave == 0 { 1 } else { self.element_strides[axis] }
    }

    /// Elements that are copied along each dimension: of those of the box every so manieth.
    pub(super) fn counts(&self) -> Vec<u32> {
        self.box_sizes.iter().enumerate().map(|(axis, size)| size.div_ceil(self.step(axis))).collect()
    }

    /// Elements of the innermost dimension that are copied.
    pub(super) fn inner(&self) -> u32 {
        match &self.im2col {
            Some(columns) => columns.channels,
            None => self.box_sizes[0].div_ceil(self.step(0).max(1)),
        }
    }

    /// Bytes in shared memory of the innermost dimension: whole slices of an interleaved tensor.
    fn row_bytes(&self) -> u64 {
        match self.interleave {
            0 => u64::from(self.inner()) * u64::from(self.element().bytes()),
            slice => u64::from(self.slices(self.inner())) * u64::from(slice),
        }
    }

    /// The largest offset of im2col mode (PTX ISA "im2col mode", the size of offsets by dimensions).
    pub fn largest_offset(&self) -> Option<u16> {
        self.im2col.as_ref().filter(|columns| columns.along_w.is_none())?;
        [u16::MAX, u8::MAX.into(), 31].get(self.sizes.len().checked_sub(3)?).copied()
    }

    /// Bytes in shared memory of what a copy takes: of four rows, or by its offsets of a halo more than a column.
    pub fn copied_bytes(&self, four: bool, offsets: &[u16]) -> u64 {
        if four {
            return 4 * u64::from(self.inner()) * u64::from(self.element().bytes());
        }
        let Some(columns) = self.im2col.as_ref().filter(|columns| columns.along_w.is_some()) else {
            return self.box_bytes();
        };
        let halo = u64::from(offsets.first().copied().unwrap_or(0));
        let (groups, pixels) = columns.groups();
        let pixels = u64::from(groups) * (u64::from(pixels) + halo);
        u64::from(columns.channels) * pixels * u64::from(self.element().bytes())
    }

    /// Bytes of a box in shared memory, or of a column of pixels.
    pub fn box_bytes(&self) -> u64 {
        let row = self.row_bytes();
        if let Some(columns) = &self.im2col {
            let (groups, pixels) = columns.groups();
            return row * u64::from(groups) * u64::from(pixels);
        }
        self.counts()[1..].iter().fold(row, |bytes, count| bytes.saturating_mul(u64::from(*count)))
    }

    /// Where a byte of the box lies that without swizzle would be at this address of shared memory: within
    /// eight, four or two rows of 128 bytes the chunks of 16 bytes change places.
    pub(super) fn swizzled(&self, at: u32) -> u32 {
        match self.swizzle {
            32 => at ^ (at >> 3 & 0x10),
            64 => at ^ (at >> 3 & 0x30),
            128 => match self.atom {
                Atom::B16 => at ^ (at >> 3 & 0x70),
                Atom::B32 => at ^ (at >> 2 & 0x60),
                Atom::B32Flip8 => at ^ (at >> 2 & 0x60) ^ (at >> 4 & 8),
                Atom::B64 => at ^ (at >> 1 & 0x40),
            },
            _ => at,
        }
    }

    /// What a copy of the box at these coordinates is made of, where shared memory has it from `to` on; in im2col mode of
    /// the column of pixels from there on, each at an offset. Pieces have the size of an element if `single`.
    pub fn pieces(&self, coordinates: &[i32], offsets: &[u16], to: u32, single: bool) -> BoxPieces {
        self.pieces_of(false, coordinates, offsets, to, single)
    }

    /// The same, or of `four` rows: the first coordinate is their column, the others are their places.
    pub fn pieces_of(
        &self,
        four: bool,
        coordinates: &[i32],
        offsets: &[u16],
        to: u32,
        single: bool,
    ) -> BoxPieces {
        if self.interleave != 0 {
            return self.pieces_of_slices(coordinates, offsets, to, single);
        }
        let Inner { first, end, row, bytes } = self.along_inner(coordinates, single);
        let mut out = BoxPieces { bytes, ..BoxPieces::default() };
        let mut number = 0;
        self.rows(four, coordinates, offsets, |base, inside| {
            for within in (0..row).step_by(bytes as usize) {
                let along = first + i64::from(within);
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

    /// What a copy takes of the innermost dimension, in pieces that have the size of an element if `single`.
    pub(super) fn along_inner(&self, coordinates: &[i32], single: bool) -> Inner {
        let element = self.element().bytes();
        let row = self.inner() * element;
        let first = i64::from(coordinates.first().copied().unwrap_or(0)) * i64::from(element);
        let end = i64::from(self.sizes[0]) * i64::from(element);
        // The largest pieces that no edge divides and that are aligned on both sides.
        let whole = !single && self.step(0) == 1;
        // Halves of 16 bytes that change places are copied one by one.
        let most = if self.atom == Atom::B32Flip8 { PIECE / 2 } else { PIECE };
        let mut bytes = if whole { most } else { element };
        while whole && bytes > element && (first | end | i64::from(row)) & i64::from(bytes - 1) != 0 {
            bytes /= 2;
        }
        Inner { first, end, row, bytes }
    }

    /// The rows of elements that are copied, as they follow one another in shared memory: the address of the row's first
    /// element in the tensor, and whether the row is inside.
    pub(super) fn rows(
        &self,
        four: bool,
        coordinates: &[i32],
        offsets: &[u16],
        mut each: impl FnMut(i64, bool),
    ) {
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
        if four {
            for number in 1..=4 {
                if let Some(place) = at.get_mut(1) {
                    *place = start(number);
                }
                let (base, inside) = row(&at, &|_| 0);
                each(base, inside);
            }
            return;
        }
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
        if columns.along_w.is_some() {
            let halo = offsets.first().copied().unwrap_or(0);
            // The whole bounding box is moved.
            let moved = i64::from(offsets.get(1).copied().unwrap_or(0));
            let lower = i64::from(columns.lower.first().copied().unwrap_or(0)) + moved;
            let upper = i64::from(columns.upper.first().copied().unwrap_or(0)) + moved;
            let last = i64::from(self.sizes[1]) - 1 + upper;
            at[1] += moved;
            let mut next = |at: &mut [i64]| {
                let (base, inside) = row(at, &|_| 0);
                each(base, inside);
                at[1] += i64::from(self.step(1));
                if at[1] > last {
                    (at[1], at[images]) = (lower, at[images] + 1);
                }
            };
            let (groups, pixels) = columns.groups();
            for _ in 0..groups {
                (0..pixels).for_each(|_| next(&mut at));
                // Those of a halo are pixels of the next group, too.
                let mut beyond = at.clone();
                (0..halo).for_each(|_| next(&mut beyond));
            }
            return;
        }
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

    /// The bytes of a piece beyond the tensor. A NaN has every bit but the sign, and of 16 bits not that of 8, so that
    /// `fma.oob` knows it.
    pub fn fill(&self) -> [u8; PIECE as usize] {
        let mut out = [0; PIECE as usize];
        if self.nan {
            for element in out.chunks_exact_mut(self.element().bytes() as usize) {
                element.fill(0xff);
                if let Some(last) = element.last_mut() {
                    *last = 0x7f;
                }
                if let [low, _] = element {
                    *low = 0xf7;
                }
            }
        }
        out
    }
}
