//! Textures and surfaces as workload files declare them, over buffers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expr::Expr;
use super::key_span::KeySpan;

/// Layout of the texels of a texture or surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageStorage {
    /// A CUDA array: the buffer is stored in the layout of arrays, and kernels do not access it by address.
    #[default]
    Array,
    /// A buffer, as `cudaResourceTypeLinear`; lookups beyond its end read zero.
    Linear,
    /// Rows of a buffer, as `cudaResourceTypePitch2D`.
    Pitched,
}

/// Out-of-range coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageAddress {
    /// The image repeats; needs normalized coordinates.
    Wrap,
    /// The nearest texel.
    #[default]
    Clamp,
    /// The image repeats, mirrored every other time; needs normalized coordinates.
    Mirror,
    /// The border color.
    Border,
}

/// Sampling between texels or mip levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageFilter {
    /// The nearest.
    #[default]
    Point,
    /// Linear interpolation, with weights of 8 fraction bits.
    Linear,
}

/// Type of the result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageRead {
    /// The element.
    #[default]
    Element,
    /// Integers of 8 and 16 bits as numbers from 0 to 1, or -1 to 1.
    NormalizedFloat,
}

fn one() -> Expr {
    Expr::Number(1u64.into())
}

fn zero() -> Expr {
    Expr::Number(0u64.into())
}

fn most() -> f32 {
    255.0
}

/// One address mode for all axes, or one for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ImageAddresses {
    /// For all.
    All(ImageAddress),
    /// By axis.
    Each(Vec<ImageAddress>),
}

impl Default for ImageAddresses {
    fn default() -> Self {
        Self::All(ImageAddress::Clamp)
    }
}

/// A texture or surface over a buffer. An argument that names it is its handle (a `.u64` parameter).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "ImageSpec")]
pub struct ImageSpec {
    /// The buffer with the texels, row by row, layer by layer, level by level. Its type is that of a channel: `u8`,
    /// `s8`, `u16`, `s16`, `u32`, `s32` or `f32`.
    pub buffer: String,
    /// Texels of a row.
    pub width: Expr,
    /// Rows; one-dimensional if not given.
    #[serde(default)]
    pub height: Option<Expr>,
    /// Slices of a three-dimensional image.
    #[serde(default)]
    pub depth: Option<Expr>,
    /// Layers; of cubemaps, faces: a multiple of 6. 0 if it is not layered.
    #[serde(default = "zero")]
    pub layers: Expr,
    /// Every six layers are the faces of a cube.
    #[serde(default)]
    pub cube: bool,
    /// Mip levels.
    #[serde(default = "one")]
    pub levels: Expr,
    /// Samples of a texel, for `.2dms` and `.a2dms`: 1, 2, 4 or 8. In the buffer those of a layer follow one another, each
    /// row by row.
    #[serde(default = "one")]
    pub samples: Expr,
    /// Channels of a texel: 1, 2 or 4.
    #[serde(default = "one")]
    pub channels: Expr,
    /// The channels are half-precision numbers; the buffer is of type `u16`.
    #[serde(default)]
    pub half: bool,
    /// Layout of the texels.
    #[serde(default)]
    pub storage: ImageStorage,
    /// Texels from one row to the next of `pitched` storage; `width` if not given.
    #[serde(default)]
    pub pitch: Option<Expr>,
    /// Out-of-range coordinates.
    #[serde(default)]
    pub address: ImageAddresses,
    /// Sampling between texels.
    #[serde(default)]
    pub filter: ImageFilter,
    /// Coordinates range from 0 to 1.
    #[serde(default)]
    pub normalized: bool,
    /// Type of the result.
    #[serde(default)]
    pub read: ImageRead,
    /// Border color.
    #[serde(default)]
    pub border: [f32; 4],
    /// Sampling between mip levels.
    #[serde(default)]
    pub mip_filter: ImageFilter,
    /// Added to the level of detail.
    #[serde(default)]
    pub mip_bias: f32,
    /// Least level of detail.
    #[serde(default)]
    pub mip_min: f32,
    /// Greatest level of detail.
    #[serde(default = "most")]
    pub mip_max: f32,
    /// Texels of 8 bits are sRGB.
    #[serde(default)]
    pub srgb: bool,
    /// The `.texref` or `.surfref` variable of the program that it is bound to.
    #[serde(default)]
    pub reference: Option<String>,
    /// Where the file has it.
    #[serde(skip)]
    pub place: KeySpan,
}
