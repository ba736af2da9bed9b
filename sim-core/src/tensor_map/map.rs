//! A map, and its bytes.

use sim_memory::vocabulary::ScalarType;

/// Bytes of a map.
pub const BYTES: usize = 128;

/// Alignment of a map.
pub const ALIGN: u64 = 64;

/// Most dimensions.
pub const DIMENSIONS: usize = 5;

const MAGIC: &[u8; 4] = b"wstm";

const TYPE: usize = 4;
const RANK: usize = 5;
const SWIZZLE: usize = 6;
const FILL: usize = 7;
const ADDRESS: usize = 8;
const SIZES: usize = 16;
const INTERLEAVE: usize = 36;
const STRIDES: usize = 40;
const BOX: usize = 80;
const ELEMENT_STRIDES: usize = 100;
const PROMOTION: usize = 37;
const MODE: usize = 38;
const LOWER: usize = BOX + 8;
const UPPER: usize = LOWER + 6;

/// The types that maps may have, in the order of `CUtensorMapDataType`, with their names in workload files.
pub const TYPES: [(&str, ScalarType); 13] = [
    ("u8", ScalarType::U8),
    ("u16", ScalarType::U16),
    ("u32", ScalarType::U32),
    ("s32", ScalarType::S32),
    ("u64", ScalarType::U64),
    ("s64", ScalarType::S64),
    ("f16", ScalarType::F16),
    ("f32", ScalarType::F32),
    ("f64", ScalarType::F64),
    ("bf16", ScalarType::Bf16),
    ("f32_ftz", ScalarType::F32),
    ("tf32", ScalarType::F32),
    ("tf32_ftz", ScalarType::F32),
];

/// A tensor and what a copy takes from it: a box, or columns of pixels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorMap {
    /// Type of the elements, as `CUtensorMapDataType` numbers them.
    pub data_type: u8,
    /// Address of the tensor.
    pub address: u64,
    /// Sizes in elements, the innermost first.
    pub sizes: Vec<u32>,
    /// Strides in bytes of the dimensions but the innermost.
    pub strides: Vec<u64>,
    /// Sizes of the box; none in im2col mode.
    pub box_sizes: Vec<u32>,
    /// Of so many elements along a dimension one is copied.
    pub element_strides: Vec<u32>,
    /// Bytes of a slice of channels that lie together: 0 (not interleaved), 16 or 32.
    pub interleave: u32,
    /// Bytes within which 16-byte chunks of shared memory are permuted: 0, 32, 64 or 128.
    pub swizzle: u32,
    /// Bytes that L2 fetches from DRAM at once: 0 (as it does anyway), 64, 128 or 256.
    pub promotion: u32,
    /// Elements beyond the tensor are NaN, else zero.
    pub nan: bool,
    /// Im2col mode.
    pub im2col: Option<Im2col>,
}

/// What copies in im2col mode take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Im2col {
    /// Where the bounding box of the pixels begins, from the tensor's first pixel: W, H, D.
    pub lower: Vec<i32>,
    /// Where its last pixel is, from the tensor's last.
    pub upper: Vec<i32>,
    /// Channels of each pixel.
    pub channels: u32,
    /// Pixels.
    pub pixels: u32,
}

impl TensorMap {
    /// A tiled map without strides of elements, interleave, swizzle, promotion and NaN.
    pub fn tiled(ty: &str, address: u64, sizes: &[u32], strides: &[u64], box_sizes: &[u32]) -> Self {
        let number = TYPES.iter().position(|(name, _)| *name == ty).unwrap_or(TYPES.len());
        Self {
            data_type: number as u8,
            address,
            sizes: sizes.to_vec(),
            strides: strides.to_vec(),
            box_sizes: box_sizes.to_vec(),
            element_strides: vec![1; sizes.len()],
            ..Self::default()
        }
    }

    /// The type of the elements.
    pub fn element(&self) -> ScalarType {
        TYPES.get(usize::from(self.data_type)).map_or(ScalarType::U8, |(_, ty)| *ty)
    }

    /// The map as bytes.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[..4].copy_from_slice(MAGIC);
        out[TYPE] = self.data_type;
        // Zero-based, as `tensormap.replace` has it.
        out[RANK] = (self.sizes.len() as u8).wrapping_sub(1);
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
        (out[INTERLEAVE], out[PROMOTION], out[MODE]) =
            (code(self.interleave, 8), code(self.promotion, 32), self.im2col.is_some().into());
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
    /// They are none, or [`check`](Self::check) finds a problem.
    pub fn decode(bytes: &[u8; BYTES]) -> Result<Self, String> {
        if &bytes[..4] != MAGIC {
            return Err("there is no tensor map at this address".into());
        }
        let rank = usize::from(bytes[RANK]) + 1;
        if !(1..=DIMENSIONS).contains(&rank) {
            return Err(format!("a tensor has 1 to 5 dimensions, not {rank}"));
        }
        let words = |first: usize, count: usize| -> Vec<u32> {
            let all = bytes[first..first + 20].as_chunks().0.iter();
            all.take(count).map(|word| u32::from_le_bytes(*word)).collect()
        };
        let corner = |first: usize| {
            let all = bytes[first..first + 6].as_chunks().0.iter();
            all.take(rank.saturating_sub(2)).map(|at| i16::from_le_bytes(*at).into()).collect()
        };
        let strides = bytes[STRIDES..STRIDES + 32].as_chunks().0.iter();
        let im2col = (bytes[MODE] == 1).then(|| {
            let counts = words(BOX, 2);
            Im2col { lower: corner(LOWER), upper: corner(UPPER), channels: counts[0], pixels: counts[1] }
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
            promotion: decoded(bytes[PROMOTION], 32),
            nan: bytes[FILL] == 1,
            im2col,
        };
        match map.check().into_iter().next() {
            Some(wrong) => Err(wrong.reason),
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
