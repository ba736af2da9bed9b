//! Textures and surfaces: which texels a lookup reads, and what it makes of them (CUDA C++ Programming Guide,
//! appendix "Texture Fetching"). No cycles and no caches: a lookup is a [`Plan`] of addresses, which whoever
//! executes it reads in its own way, and a result made of the bytes that were found.

mod filter;
mod image;
mod lookup;
mod sampler;
pub mod surface;

pub use filter::{f32_of_srgb, half_of};
pub use image::{Channels, Extent, Format, Image, Storage};
pub use lookup::{Geometry, Level, Lookup, MAX_TAPS, Plan, Tap};
pub use sampler::{AddressMode, Filter, ReadMode, Sampler};

use std::collections::BTreeMap;

/// What the handle of a texture or surface, or the address of a `.texref`, `.surfref` or `.samplerref` variable,
/// stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// Texels and how they are sampled.
    Texture(Image, Sampler),
    /// Texels that are read and written as they are.
    Surface(Image),
    /// How texels are sampled.
    Sampler(Sampler),
}

impl Bound {
    /// The texels, if it has any.
    pub fn image(&self) -> Option<&Image> {
        match self {
            Self::Texture(image, _) | Self::Surface(image) => Some(image),
            Self::Sampler(_) => None,
        }
    }

    /// How it samples, if it does.
    pub fn sampler(&self) -> Option<&Sampler> {
        match self {
            Self::Texture(_, sampler) | Self::Sampler(sampler) => Some(sampler),
            Self::Surface(_) => None,
        }
    }
}

/// Everything that a context has bound, by handle.
pub type Bindings = BTreeMap<u64, Bound>;

/// The handle of the `n`-th object that a context makes. Handles are no addresses: device memory begins above them.
pub fn object_handle(n: u32) -> u64 {
    FIRST_OBJECT + u64::from(n)
}

/// What handles of objects begin with. Allocations begin above 2^28.
const FIRST_OBJECT: u64 = 0x0010_0000;

#[cfg(test)]
mod literal;
#[cfg(test)]
mod tests;
