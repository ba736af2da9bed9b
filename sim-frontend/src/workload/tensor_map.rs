//! Tensor maps as workload files declare them, over buffers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_yaml::Spanned;

use super::expr::Expr;
use super::key_span::KeySpan;
use crate::yaml::span_of as span;

/// What lies beyond a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TensorFill {
    /// Zero.
    #[default]
    Zero,
    /// NaN, as `CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA`.
    Nan,
}

/// Chunks that a swizzle of 128 bytes permutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum SwizzleAtom {
    /// 16 bytes, as `CU_TENSOR_MAP_SWIZZLE_128B`.
    #[default]
    #[serde(rename = "16B")]
    B16,
    /// 32 bytes, as `CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B`.
    #[serde(rename = "32B")]
    B32,
    /// 32 bytes, the halves of each 16 exchanged in every second row, as `CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B`.
    #[serde(rename = "32B_flip_8B")]
    B32Flip8,
    /// 64 bytes, as `CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B`.
    #[serde(rename = "64B")]
    B64,
}

/// Which pixels copies along W take, as `cuTensorMapEncodeIm2colWide` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AlongW {
    /// Those of a column, and a halo behind them: `.im2col::w`.
    #[serde(rename = "w")]
    Column,
    /// 128, and a halo behind each 32: `.im2col::w::128`.
    #[serde(rename = "w128")]
    By32,
}

/// A tensor map over a buffer. An argument that names it is the map (a parameter of 128 bytes at a multiple of 64), or
/// where the parameter is a `.u64` the address of the map in global memory.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "TensorMapSpec")]
pub(super) struct TensorMapKeys {
    /// The buffer with the tensor.
    #[schemars(with = "String")]
    buffer: Option<Spanned<String>>,
    /// Elements of the buffer before the tensor.
    #[serde(default)]
    #[schemars(with = "Option<Expr>")]
    offset: Option<Spanned<Expr>>,
    /// Type of the elements: `u8`, `u16`, `u32`, `s32`, `u64`, `s64`, `f16`, `f32`, `f64`, `bf16`, `f32_ftz`, `tf32` or
    /// `tf32_ftz`; that of the buffer if not given.
    #[serde(default, rename = "type")]
    #[schemars(with = "Option<String>")]
    ty: Option<Spanned<String>>,
    /// Sizes of the tensor in elements, the innermost first.
    #[schemars(with = "Vec<Expr>")]
    dims: Option<Spanned<Vec<Expr>>>,
    /// Strides in bytes of the dimensions but the innermost; if not given, elements lie one after another, or slices of
    /// channels.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Expr>>")]
    strides: Option<Spanned<Vec<Expr>>>,
    /// Sizes of the box in elements, of a tiled map.
    #[serde(default, rename = "box")]
    #[schemars(with = "Option<Vec<Expr>>")]
    box_sizes: Option<Spanned<Vec<Expr>>>,
    /// What is copied in im2col mode, in place of a box.
    #[serde(default)]
    #[schemars(with = "Option<Im2colSpec>")]
    im2col: Option<Spanned<Im2colSpec>>,
    /// Of so many elements along each dimension one is copied; 1 if not given.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Expr>>")]
    element_strides: Option<Spanned<Vec<Expr>>>,
    /// Bytes of slices of channels that lie together: 0 (not interleaved), 16 or 32. `dims` and `box` have all channels, in
    /// elements; slices of an image lie one after another.
    #[serde(default)]
    #[schemars(with = "u32")]
    interleave: Option<Spanned<u32>>,
    /// Bytes within which chunks of shared memory are permuted: 0 (none), 32, 64 or 128.
    #[serde(default)]
    #[schemars(with = "u32")]
    swizzle: Option<Spanned<u32>>,
    /// The chunks that a swizzle of 128 bytes permutes.
    #[serde(default)]
    #[schemars(with = "SwizzleAtom")]
    swizzle_atom: Option<Spanned<SwizzleAtom>>,
    /// Bytes that L2 fetches from DRAM at once: 0 (as it does anyway), 64, 128 or 256.
    #[serde(default)]
    #[schemars(with = "u32")]
    l2_promotion: Option<Spanned<u32>>,
    /// What lies beyond the tensor.
    #[serde(default)]
    #[schemars(with = "TensorFill")]
    fill: Option<Spanned<TensorFill>>,
}

/// What copies in im2col mode take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Im2colSpec {
    /// Where the bounding box of the pixels begins, from the tensor's first pixel: W, H, D.
    pub lower: Vec<i32>,
    /// Where its last pixel is, from the tensor's last: W, H, D.
    pub upper: Vec<i32>,
    /// Channels of each pixel.
    pub channels: Expr,
    /// Pixels.
    pub pixels: Expr,
    /// Pixels along W only; then corners have W only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wide: Option<AlongW>,
}

/// A tensor map over a buffer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorMapSpec {
    /// The buffer with the tensor.
    pub buffer: String,
    /// Elements of it before the tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<Expr>,
    /// Type of the elements; that of the buffer if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ty: Option<String>,
    /// Sizes in elements, the innermost first.
    pub dims: Vec<Expr>,
    /// Strides in bytes of the dimensions but the innermost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strides: Option<Vec<Expr>>,
    /// Sizes of the box; none in im2col mode.
    pub box_sizes: Vec<Expr>,
    /// Im2col mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub im2col: Option<Im2colSpec>,
    /// Of so many elements along each dimension one is copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub element_strides: Option<Vec<Expr>>,
    /// Bytes of slices of channels.
    pub interleave: u32,
    /// Bytes within which chunks are permuted.
    pub swizzle: u32,
    /// The chunks.
    #[serde(skip_serializing_if = "SwizzleAtom::is_usual")]
    pub swizzle_atom: SwizzleAtom,
    /// Bytes that L2 fetches at once.
    pub l2_promotion: u32,
    /// What lies beyond the tensor.
    pub fill: TensorFill,
    /// Where the file has it.
    #[serde(skip)]
    pub place: KeySpan,
    /// Where the file has the keys that it gives.
    #[serde(skip)]
    pub places: BTreeMap<&'static str, KeySpan>,
}

impl SwizzleAtom {
    fn is_usual(&self) -> bool {
        *self == Self::B16
    }
}

impl TensorMapSpec {
    /// Where the file has a key, or the map that does not give it.
    pub fn place_of(&self, key: &str) -> KeySpan {
        self.places.get(key).copied().unwrap_or(self.place)
    }
}

impl TensorMapKeys {
    /// The map, and what is wrong with it.
    pub(super) fn spec(self, place: KeySpan) -> Option<(TensorMapSpec, Option<&'static str>)> {
        let mut places = BTreeMap::new();
        fn given<T>(
            places: &mut BTreeMap<&'static str, KeySpan>,
            key: &'static str,
            value: Option<Spanned<T>>,
        ) -> Option<T> {
            let value = value?;
            places.insert(key, KeySpan(span(&value)));
            Some(value.value)
        }
        let buffer = given(&mut places, "buffer", self.buffer);
        let dims = given(&mut places, "dims", self.dims);
        let box_sizes = given(&mut places, "box", self.box_sizes);
        let im2col = given(&mut places, "im2col", self.im2col);
        let wrong = match (&box_sizes, &im2col) {
            (None, None) => Some("needs `box`, or `im2col`"),
            (Some(_), Some(_)) => Some("has `box` or `im2col`, not both"),
            _ => None,
        };
        let spec = TensorMapSpec {
            offset: given(&mut places, "offset", self.offset),
            ty: given(&mut places, "type", self.ty),
            strides: given(&mut places, "strides", self.strides),
            box_sizes: box_sizes.unwrap_or_default(),
            im2col,
            element_strides: given(&mut places, "element_strides", self.element_strides),
            interleave: given(&mut places, "interleave", self.interleave).unwrap_or_default(),
            swizzle: given(&mut places, "swizzle", self.swizzle).unwrap_or_default(),
            swizzle_atom: given(&mut places, "swizzle_atom", self.swizzle_atom).unwrap_or_default(),
            l2_promotion: given(&mut places, "l2_promotion", self.l2_promotion).unwrap_or_default(),
            fill: given(&mut places, "fill", self.fill).unwrap_or_default(),
            buffer: buffer?,
            dims: dims?,
            place,
            places,
        };
        Some((spec, wrong))
    }
}
