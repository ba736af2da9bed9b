//! The bytes of a map.

use sim_frontend::tensor_map::MapField;

use super::limits::{Part, Wrong};
use super::map::{AlongW, Atom, BYTES, DIMENSIONS, Im2col, TensorMap};

const TYPE: usize = MapField::Type.offset();
const RANK: usize = MapField::Rank.offset();
const ATOM: usize = MapField::Atomicity.offset();
const SWIZZLE: usize = MapField::Swizzle.offset();
const FILL: usize = MapField::Fill.offset();
const ADDRESS: usize = MapField::Address.offset();
const SIZES: usize = MapField::Dim.offset();
const INTERLEAVE: usize = MapField::Interleave.offset();
const STRIDES: usize = MapField::Stride.offset();
const BOX: usize = MapField::Box.offset();
const ELEMENT_STRIDES: usize = MapField::ElementStride.offset();
const PROMOTION: usize = 37;
const MODE: usize = 38;
const LOWER: usize = BOX + 8;
const UPPER: usize = LOWER + 6;

/// Bytes that are 0 in every map.
const UNUSED: [std::ops::Range<usize>; 2] = [MODE + 1..STRIDES, ELEMENT_STRIDES + 20..BYTES];

impl TensorMap {
    /// The map as bytes.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[TYPE] = self.data_type;
        // Zero-based, as `tensormap.replace` has it.
        out[RANK..RANK + 4].copy_from_slice(&(self.sizes.len() as u32).wrapping_sub(1).to_le_bytes());
        out[ATOM] = self.atom as u8;
        out[SWIZZLE] = code(self.swizzle, 16);
        out[FILL] = self.nan.into();
        out[ADDRESS..ADDRESS + 8].copy_from_slice(&self.address.to_le_bytes());
        let mut words = |first: usize, list: &[u32]| {
            for (to, word) in out[first..first + 20].chunks_exact_mut(4).zip(list) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        };
        words(SIZES, &self.sizes);
        words(ELEMENT_STRIDES, &self.element_strides);
        match &self.im2col {
            None => words(BOX, &self.box_sizes),
            Some(columns) => words(BOX, &[columns.channels, columns.pixels]),
        }
        out[MODE] = match self.im2col.as_ref().map(|columns| columns.along_w) {
            None => 0,
            Some(None) => 1,
            Some(Some(AlongW::Column)) => 2,
            Some(Some(AlongW::By32)) => 3,
        };
        (out[INTERLEAVE], out[PROMOTION]) = (code(self.interleave, 8), code(self.promotion, 32));
        for (to, stride) in out[STRIDES..STRIDES + 32].chunks_exact_mut(8).zip(&self.strides) {
            to.copy_from_slice(&stride.to_le_bytes());
        }
        if let Some(Im2col { lower, upper, .. }) = &self.im2col {
            for (first, corner) in [(LOWER, lower), (UPPER, upper)] {
                for (to, at) in out[first..first + 6].chunks_exact_mut(2).zip(corner) {
                    to.copy_from_slice(&(*at as i16).to_le_bytes());
                }
            }
        }
        out
    }

    /// The map that these bytes are.
    ///
    /// # Errors
    /// They are none, or a field of it has no value that a map may have, which is named.
    pub fn decode(bytes: &[u8; BYTES]) -> Result<Self, String> {
        if *bytes == [0; BYTES] {
            return Err("there is no tensor map at this address: all of its 128 bytes are 0".into());
        }
        if let Some(at) = UNUSED.into_iter().flatten().find(|at| bytes[*at] != 0) {
            return Err(format!(
                "there is no tensor map at this address: byte {at} is not 0 as in every map"
            ));
        }
        let of_field = |part, reason| Wrong { part, reason }.of_field();
        let rank = 1 + u64::from(u32::from_le_bytes(std::array::from_fn(|i| bytes[RANK + i])));
        let Some(rank) = usize::try_from(rank).ok().filter(|rank| *rank <= DIMENSIONS) else {
            return Err(format!("rank: a tensor has 1 to 5 dimensions, not {rank}"));
        };
        for (at, part, most, what) in [
            (INTERLEAVE, Part::Interleave, 2, "interleave"),
            (SWIZZLE, Part::Swizzle, 3, "swizzle"),
            (ATOM, Part::Atom, 3, "swizzle atomicity"),
            (FILL, Part::Fill, 1, "fill mode"),
            (PROMOTION, Part::Promotion, 3, "number of bytes for L2"),
            (MODE, Part::Im2col, 3, "mode"),
        ] {
            if bytes[at] > most {
                return Err(of_field(part, format!("there is no {what} {}", bytes[at])));
            }
        }
        let words = |first: usize, count: usize| -> Vec<u32> {
            let all = bytes[first..first + 20].as_chunks().0.iter();
            all.take(count).map(|word| u32::from_le_bytes(*word)).collect()
        };
        let along_w = match bytes[MODE] {
            2 => Some(AlongW::Column),
            3 => Some(AlongW::By32),
            _ => None,
        };
        let corner = |first: usize| {
            let all = bytes[first..first + 6].as_chunks().0.iter();
            let axes = if along_w.is_some() { 1 } else { rank.saturating_sub(2) };
            all.take(axes).map(|at| i16::from_le_bytes(*at).into()).collect()
        };
        let strides = bytes[STRIDES..STRIDES + 32].as_chunks().0.iter();
        let im2col = (bytes[MODE] != 0).then(|| {
            let counts = words(BOX, 2);
            let (lower, upper) = (corner(LOWER), corner(UPPER));
            Im2col { lower, upper, channels: counts[0], pixels: counts[1], along_w }
        });
        let map = Self {
            data_type: bytes[TYPE],
            address: u64::from_le_bytes(std::array::from_fn(|i| bytes[ADDRESS + i])),
            sizes: words(SIZES, rank),
            strides: strides.take(rank - 1).map(|word| u64::from_le_bytes(*word)).collect(),
            box_sizes: if im2col.is_some() { Vec::new() } else { words(BOX, rank) },
            element_strides: words(ELEMENT_STRIDES, rank),
            interleave: decoded(bytes[INTERLEAVE], 8),
            swizzle: decoded(bytes[SWIZZLE], 16),
            atom: Atom::ALL[usize::from(bytes[ATOM] & 3)],
            promotion: decoded(bytes[PROMOTION], 32),
            nan: bytes[FILL] == 1,
            im2col,
        };
        match map.check().into_iter().next() {
            Some(wrong) => Err(wrong.of_field()),
            None => Ok(map),
        }
    }
}

/// The byte for a number of bytes that is 0, or twice the unit, and so on by factors of two.
fn code(bytes: u32, unit: u32) -> u8 {
    (bytes / unit).checked_ilog2().map_or(0, |log| log as u8)
}

/// The number of bytes for it.
fn decoded(code: u8, unit: u32) -> u32 {
    if code == 0 { 0 } else { unit << code.min(4) }
}
