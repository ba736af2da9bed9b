//! A map.

use sim_frontend::form::TensorMode;
use sim_memory::vocabulary::ScalarType;

/// Bytes of a map.
pub const BYTES: usize = 128;

/// Alignment of a map.
pub const ALIGN: u64 = 64;

/// Most dimensions.
pub const DIMENSIONS: usize = 5;

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
    /// Bytes within which chunks of shared memory are permuted: 0, 32, 64 or 128.
    pub swizzle: u32,
    /// The chunks: of 16 bytes where `swizzle` is not 128.
    pub atom: Atom,
    /// Bytes that L2 fetches from DRAM at once: 0 (as it does anyway), 64, 128 or 256.
    pub promotion: u32,
    /// Elements beyond the tensor are NaN, else zero.
    pub nan: bool,
    /// Im2col mode.
    pub im2col: Option<Im2col>,
}

/// Chunks of shared memory that a swizzle of 128 bytes permutes, as `tensormap.replace` numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Atom {
    /// 16 bytes.
    #[default]
    B16,
    /// 32 bytes.
    B32,
    /// 32 bytes; in every second row of 128 bytes the halves of each 16 bytes change places.
    B32Flip8,
    /// 64 bytes.
    B64,
}

impl Atom {
    /// All of them, by number.
    pub const ALL: [Self; 4] = [Self::B16, Self::B32, Self::B32Flip8, Self::B64];
}

/// Which pixels of one row of the bounding box are copied, where others of it are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlongW {
    /// As many as a column has, and a halo behind them (`.im2col::w`).
    Column,
    /// 128, and a halo behind each 32 (`.im2col::w::128`).
    By32,
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
    /// The mode of `cuTensorMapEncodeIm2colWide`: corners are of W only.
    pub along_w: Option<AlongW>,
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

    /// How copies go through the tensor, unless they take four rows.
    pub fn mode(&self) -> TensorMode {
        match self.im2col.as_ref().map(|columns| columns.along_w) {
            None => TensorMode::Tile,
            Some(None) => TensorMode::Im2col,
            Some(Some(AlongW::Column)) => TensorMode::W,
            Some(Some(AlongW::By32)) => TensorMode::W128,
        }
    }

    /// The type of the elements.
    pub fn element(&self) -> ScalarType {
        TYPES.get(usize::from(self.data_type)).map_or(ScalarType::U8, |(_, ty)| *ty)
    }
}
