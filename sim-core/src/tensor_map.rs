//! Tensor maps: what `cp.async.bulk.tensor` is told of a tensor in global memory, with the parameters of
//! `cuTensorMapEncodeTiled`. NVIDIA's encoding of the 128 bytes is not published; this one is our own, words of 32 and
//! 64 bits, the least significant byte first:
//!
//! | bytes | content |
//! |-------|---------|
//! | 0–3   | `wstm` |
//! | 4     | type of the elements, as `CUtensorMapDataType` numbers them |
//! | 5     | dimensions, 1 to 5 |
//! | 6     | swizzle: 0 none, 1, 2, 3 of 32, 64, 128 bytes |
//! | 7     | 1: NaN beyond the tensor, 0: zero |
//! | 8–15  | address |
//! | 16–35 | sizes in elements, the innermost first |
//! | 40–71 | strides in bytes of the dimensions but the innermost |
//! | 72–91 | sizes of the box |
//! | 92–111 | strides of elements |

use sim_memory::address_space::CLUSTER_SHIFT;
use sim_memory::vocabulary::ScalarType;

use crate::bulk::{PIECE, Piece};

/// Bytes of a map.
pub const BYTES: usize = 128;

/// Most dimensions.
pub const DIMENSIONS: usize = 5;

const MAGIC: &[u8; 4] = b"wstm";

/// The types that maps may have, in the order of `CUtensorMapDataType`.
const TYPES: [ScalarType; 13] = [
    ScalarType::U8,
    ScalarType::U16,
    ScalarType::U32,
    ScalarType::S32,
    ScalarType::U64,
    ScalarType::S64,
    ScalarType::F16,
    ScalarType::F32,
    ScalarType::F64,
    ScalarType::Bf16,
    ScalarType::F32,
    ScalarType::F32,
    ScalarType::F32,
];

/// A tensor and a box that copies take from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Type of the elements, as `CUtensorMapDataType` numbers them.
    pub data_type: u8,
    /// Address of the tensor.
    pub address: u64,
    /// Sizes in elements, the innermost first.
    pub sizes: Vec<u32>,
    /// Strides in bytes of the dimensions but the innermost.
    pub strides: Vec<u64>,
    /// Sizes of the box.
    pub box_sizes: Vec<u32>,
    /// Of so many elements along a dimension one is copied.
    pub element_strides: Vec<u32>,
    /// Bytes within which 16-byte chunks of shared memory are permuted: 0, 32, 64 or 128.
    pub swizzle: u32,
    /// Elements beyond the tensor are NaN, else zero.
    pub nan: bool,
}

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
    /// The type of the elements.
    pub fn element(&self) -> ScalarType {
        TYPES.get(usize::from(self.data_type)).copied().unwrap_or(ScalarType::U8)
    }

    /// What is wrong with it (CUDA driver API, `cuTensorMapEncodeTiled`).
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self) -> Result<(), String> {
        let rank = self.sizes.len();
        if !(1..=DIMENSIONS).contains(&rank) {
            return Err(format!("a tensor has 1 to 5 dimensions, not {rank}"));
        }
        if self.strides.len() + 1 != rank
            || self.box_sizes.len() != rank
            || self.element_strides.len() != rank
        {
            return Err(
                "the box and the strides of elements have one number a dimension, the strides one less"
                    .into(),
            );
        }
        if usize::from(self.data_type) >= TYPES.len() {
            return Err(format!("there is no type of elements {}", self.data_type));
        }
        if !self.address.is_multiple_of(16) {
            return Err(format!("the address {:#x} of the tensor is no multiple of 16", self.address));
        }
        if let Some(stride) =
            self.strides.iter().find(|stride| !stride.is_multiple_of(16) || **stride >= 1 << 40)
        {
            return Err(format!("a stride of {stride} bytes is no multiple of 16 below 2^40"));
        }
        if self.sizes.contains(&0) {
            return Err("a size of the tensor is 0".into());
        }
        if let Some(size) = self.box_sizes.iter().find(|size| !(1..=256).contains(*size)) {
            return Err(format!("a size of the box is 1 to 256, not {size}"));
        }
        if let Some(stride) = self.element_strides.iter().find(|stride| !(1..=8).contains(*stride)) {
            return Err(format!("a stride of elements is 1 to 8, not {stride}"));
        }
        let inner = self.counts()[0] * self.element().bytes();
        if !inner.is_multiple_of(16) {
            return Err(format!(
                "the innermost dimension of the box has {inner} bytes, which is no multiple of 16"
            ));
        }
        if !matches!(self.swizzle, 0 | 32 | 64 | 128) {
            return Err(format!("there is no swizzle of {} bytes", self.swizzle));
        }
        if self.swizzle != 0 && inner > self.swizzle {
            return Err(format!(
                "the innermost dimension of the box has {inner} bytes, more than the swizzle's {}",
                self.swizzle
            ));
        }
        let bytes = self
            .counts()
            .iter()
            .fold(u64::from(self.element().bytes()), |bytes, count| bytes.saturating_mul(u64::from(*count)));
        if bytes > 1 << CLUSTER_SHIFT {
            return Err(format!("a box has {bytes} bytes, more than the shared memory of a block"));
        }
        if self.nan && !self.element().is_float() {
            return Err("elements that are no floating-point numbers cannot be NaN".into());
        }
        Ok(())
    }

    /// The map as bytes.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[..4].copy_from_slice(MAGIC);
        out[4] = self.data_type;
        out[5] = self.sizes.len() as u8;
        out[6] = (self.swizzle / 16).checked_ilog2().map_or(0, |log| log as u8);
        out[7] = self.nan.into();
        out[8..16].copy_from_slice(&self.address.to_le_bytes());
        let mut words = |first: usize, list: &[u32]| {
            for (to, word) in out[first..first + 20].chunks_exact_mut(4).zip(list) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        };
        words(16, &self.sizes);
        words(72, &self.box_sizes);
        words(92, &self.element_strides);
        for (to, stride) in out[40..72].chunks_exact_mut(8).zip(&self.strides) {
            to.copy_from_slice(&stride.to_le_bytes());
        }
        out
    }

    /// The map that these bytes are.
    ///
    /// # Errors
    /// They are none, or [`check`](Self::check) finds a problem.
    pub fn decode(bytes: &[u8; BYTES]) -> Result<Self, String> {
        if &bytes[..4] != MAGIC {
            return Err("there is no tensor map at this address".into());
        }
        let rank = usize::from(bytes[5]);
        if !(1..=DIMENSIONS).contains(&rank) {
            return Err(format!("a tensor has 1 to 5 dimensions, not {rank}"));
        }
        let words = |first: usize| {
            let all = bytes[first..first + 20].as_chunks().0.iter();
            all.take(rank).map(|word| u32::from_le_bytes(*word)).collect()
        };
        let strides = bytes[40..72].as_chunks().0.iter();
        let map = Self {
            data_type: bytes[4],
            address: u64::from_le_bytes(std::array::from_fn(|i| bytes[8 + i])),
            sizes: words(16),
            strides: strides.take(rank - 1).map(|word| u64::from_le_bytes(*word)).collect(),
            box_sizes: words(72),
            element_strides: words(92),
            swizzle: if bytes[6] == 0 { 0 } else { 16 << bytes[6].min(4) },
            nan: bytes[7] == 1,
        };
        map.check()?;
        Ok(map)
    }

    /// Elements that are copied along each dimension: of those of the box every so manieth.
    fn counts(&self) -> Vec<u32> {
        self.box_sizes
            .iter()
            .zip(&self.element_strides)
            .map(|(size, stride)| size.div_ceil(*stride))
            .collect()
    }

    /// Bytes of a box in shared memory.
    pub fn box_bytes(&self) -> u32 {
        self.counts().iter().product::<u32>() * self.element().bytes()
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

    /// What a copy of the box at these coordinates is made of, where shared memory has it from `to` on. Pieces have the
    /// size of an element if `single`.
    pub fn pieces(&self, coordinates: &[i32], to: u32, single: bool) -> BoxPieces {
        let (counts, element) = (self.counts(), self.element().bytes());
        let row = counts[0] * element;
        let first = i64::from(coordinates.first().copied().unwrap_or(0)) * i64::from(element);
        let end = i64::from(self.sizes[0]) * i64::from(element);
        // The largest pieces that no edge divides and that are aligned on both sides.
        let whole = !single && self.element_strides[0] == 1;
        let mut bytes = if whole { PIECE } else { element };
        while whole && bytes > element && (first | end) & i64::from(bytes - 1) != 0 {
            bytes /= 2;
        }
        let mut out = BoxPieces { bytes, ..BoxPieces::default() };
        let rows: u32 = counts[1..].iter().product();
        for number in 0..rows {
            let (mut rest, mut base, mut inside) = (number, self.address as i64, true);
            for axis in 1..counts.len() {
                let step = i64::from(rest % counts[axis]) * i64::from(self.element_strides[axis]);
                rest /= counts[axis];
                let at = i64::from(coordinates.get(axis).copied().unwrap_or(0)) + step;
                inside &= (0..i64::from(self.sizes[axis])).contains(&at);
                base = base.wrapping_add(at.wrapping_mul(self.strides[axis - 1] as i64));
            }
            for within in (0..row).step_by(bytes as usize) {
                let along = match whole {
                    true => first + i64::from(within),
                    false => first + i64::from(within * self.element_strides[0]),
                };
                let near = self.swizzled(to + number * row + within);
                if inside && (0..end).contains(&along) {
                    out.inside.push(Piece { far: base.wrapping_add(along) as u64, near });
                } else {
                    out.beyond.push(near);
                }
            }
        }
        out
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn maps() -> impl Strategy<Value = (TensorMap, Vec<i32>, u32)> {
        let axis = (1u32..20, 1u32..6, 1u32..4, -8i32..24);
        (proptest::collection::vec(axis, 1..=5), 0u8..13, 0u32..4, any::<bool>(), 0u32..4).prop_map(
            |(axes, data_type, swizzle, nan, to)| {
                let mut map = TensorMap {
                    data_type,
                    address: 0x1000_0000,
                    sizes: axes.iter().map(|axis| axis.0).collect(),
                    strides: Vec::new(),
                    box_sizes: axes.iter().map(|axis| axis.1).collect(),
                    element_strides: axes.iter().map(|axis| axis.2).collect(),
                    swizzle: [0, 32, 64, 128][swizzle as usize],
                    nan,
                };
                let element = map.element().bytes();
                map.nan &= map.element().is_float();
                // The innermost dimension of the box is a multiple of 16 bytes and fits the swizzle.
                map.box_sizes[0] = (16 / element) * map.element_strides[0] * axes[0].1.min(2);
                map.sizes[0] *= 3;
                let mut stride = u64::from(map.sizes[0] * element).next_multiple_of(16);
                for size in &map.sizes[1..] {
                    map.strides.push(stride);
                    stride *= u64::from(*size) + 1;
                    stride = stride.next_multiple_of(16);
                }
                (map, axes.iter().map(|axis| axis.3).collect(), to * 1024)
            },
        )
    }

    proptest! {
        #[test]
        fn a_map_is_what_its_bytes_say((map, ..) in maps()) {
            prop_assert_eq!(map.check(), Ok(()));
            prop_assert_eq!(TensorMap::decode(&map.encode()), Ok(map));
        }

        /// Element by element, as the manual describes tiled mode: the element at coordinate `c + j * stride` of each
        /// dimension lies at place `j` of the box, the innermost dimension first; what lies beyond is filled. Swizzling
        /// by rows of 128 bytes, chunk by chunk.
        #[test]
        fn boxes_are_copied_element_by_element((map, coordinates, to) in maps(), single in any::<bool>()) {
            let element = map.element().bytes();
            let counts: Vec<u32> =
                map.box_sizes.iter().zip(&map.element_strides).map(|(b, s)| b.div_ceil(*s)).collect();
            // For each byte of shared memory: the byte of global memory, or none.
            let mut literal: BTreeMap<u32, Option<u64>> = BTreeMap::new();
            for number in 0..counts.iter().product::<u32>() {
                let (mut rest, mut at, mut inside) = (number, i128::from(map.address), true);
                for (axis, count) in counts.iter().enumerate() {
                    let j = rest % count;
                    rest /= count;
                    let c = i128::from(coordinates[axis]) + i128::from(j * map.element_strides[axis]);
                    inside &= c >= 0 && c < i128::from(map.sizes[axis]);
                    let stride = if axis == 0 { u64::from(element) } else { map.strides[axis - 1] };
                    at += c * i128::from(stride);
                }
                for byte in 0..element {
                    let place = to + number * element + byte;
                    let (row, chunk, rest) = (place / 128, place % 128 / 16, place % 16);
                    let chunk = match map.swizzle {
                        128 => chunk ^ (row % 8),
                        64 => chunk ^ (row % 4),
                        32 => chunk ^ (row % 2),
                        _ => chunk,
                    };
                    let from = inside.then_some((at + i128::from(byte)) as u64);
                    prop_assert_eq!(literal.insert(row * 128 + chunk * 16 + rest, from), None);
                }
            }
            let found = map.pieces(&coordinates, to, single);
            let mut fast: BTreeMap<u32, Option<u64>> = BTreeMap::new();
            for piece in &found.inside {
                prop_assert!(piece.far.is_multiple_of(found.bytes.into()));
                for byte in 0..found.bytes {
                    prop_assert_eq!(fast.insert(piece.near + byte, Some(piece.far + u64::from(byte))), None);
                }
            }
            for near in &found.beyond {
                for byte in 0..found.bytes {
                    prop_assert_eq!(fast.insert(near + byte, None), None);
                }
            }
            prop_assert_eq!(&fast, &literal);
            prop_assert_eq!(fast.len() as u32, map.box_bytes());
        }
    }

    #[test]
    fn maps_that_cuda_refuses_are_wrong() {
        let good = TensorMap {
            data_type: 2,
            address: 256,
            sizes: vec![64, 8],
            strides: vec![256],
            box_sizes: vec![8, 4],
            element_strides: vec![1, 1],
            swizzle: 32,
            nan: false,
        };
        assert_eq!(good.check(), Ok(()));
        let wrong: [(fn(&mut TensorMap), &str); 10] = [
            (|m| m.address = 8, "no multiple of 16"),
            (|m| m.strides[0] = 24, "a stride of 24 bytes"),
            (|m| m.sizes[1] = 0, "is 0"),
            (|m| m.box_sizes[1] = 257, "1 to 256"),
            (|m| m.element_strides[1] = 9, "1 to 8"),
            (|m| m.box_sizes[0] = 6, "24 bytes, which is no multiple of 16"),
            (|m| m.box_sizes[0] = 16, "more than the swizzle's 32"),
            (|m| m.nan = true, "cannot be NaN"),
            (|m| m.strides.clear(), "one number a dimension"),
            (
                |m| {
                    // 2^32 bytes and more: no number of 32 bits has so many.
                    (m.sizes, m.strides) = (vec![256; 5], vec![512; 4]);
                    (m.box_sizes, m.element_strides, m.swizzle) = (vec![256; 5], vec![1; 5], 0);
                },
                "bytes, more than the shared memory of a block",
            ),
        ];
        for (change, words) in wrong {
            let mut map = good.clone();
            change(&mut map);
            assert!(map.check().expect_err(words).contains(words), "{words}");
        }
        assert!(TensorMap::decode(&[0; BYTES]).expect_err("none").contains("no tensor map"));
    }
}
