//! What there is of arrays, textures and surfaces, and the structures by which programs describe them.

use std::collections::BTreeMap;

use sim_core::texture::{AddressMode, Channels, Filter, Format, Image, ReadMode, Sampler, Storage};

use crate::error::{Error, INVALID_VALUE};
use crate::graph::Extent;

/// CUDA's `cudaChannelFormatDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelFormat {
    /// Bits of each channel.
    pub bits: [i32; 4],
    /// 0 signed, 1 unsigned, 2 float, 3 none.
    pub kind: i32,
}

impl ChannelFormat {
    /// The format of a texel.
    ///
    /// # Errors
    /// There is none with these channels.
    pub fn format(self) -> Result<Format, Error> {
        let [first, ..] = self.bits;
        let count = self.bits.iter().take_while(|bits| **bits == first && first != 0).count();
        let rest = self.bits.iter().skip(count).all(|bits| *bits == 0);
        let bits = u8::try_from(first).map_err(|_| INVALID_VALUE)?;
        let channels = match self.kind {
            0 => Channels::Signed(bits),
            1 => Channels::Unsigned(bits),
            2 => Channels::Float(bits),
            _ => return Err(INVALID_VALUE),
        };
        Format::new(channels, count as u8).filter(|_| rest).ok_or(INVALID_VALUE)
    }

    /// That of a format.
    pub fn of(format: Format) -> Self {
        let (bits, kind) = match format.channels {
            Channels::Signed(bits) => (bits, 0),
            Channels::Unsigned(bits) => (bits, 1),
            Channels::Float(bits) => (bits, 2),
        };
        let bits = std::array::from_fn(|i| if i < format.count.into() { bits.into() } else { 0 });
        Self { bits, kind }
    }
}

/// An array, or a level of a mipmapped one.
#[derive(Clone, Debug)]
pub struct Array {
    /// All its levels.
    pub image: Image,
    /// The level that it is.
    pub level: u32,
    /// It is a level, whose memory is another's.
    pub borrowed: bool,
    /// It was made as a mipmapped one.
    pub mipmapped: bool,
    /// As it was made.
    pub flags: u32,
    /// As it was asked for.
    pub extent: Extent,
}

/// Arrays and objects by handle.
#[derive(Debug, Default)]
pub struct Images {
    /// Arrays.
    pub arrays: BTreeMap<usize, Array>,
    /// Levels of mipmapped arrays that were given out.
    pub levels: BTreeMap<(usize, u32), usize>,
    /// Texture and surface objects.
    pub objects: BTreeMap<u64, Object>,
}

/// CUDA's `cudaResourceDesc`: a kind, and the fields of that kind.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields of the header")]
pub struct Resource {
    /// 0 array, 1 mipmapped array, 2 linear memory, 3 pitched memory.
    pub kind: i32,
    /// An array, or an address.
    pub at: usize,
    pub format: ChannelFormat,
    /// Bytes of linear memory; texels of a row of pitched memory.
    pub width: usize,
    pub height: usize,
    // The newest headers have more room in the union, which nothing uses.
    pub pitch: usize,
}

/// CUDA's `cudaTextureDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields of the header")]
pub struct Description {
    pub address: [i32; 3],
    pub filter: i32,
    pub read: i32,
    pub srgb: i32,
    pub border: [f32; 4],
    pub normalized: i32,
    pub anisotropy: u32,
    pub mip_filter: i32,
    pub mip_bias: f32,
    pub mip_clamp: [f32; 2],
    pub no_trilinear_optimization: i32,
    pub seamless: i32,
}

/// An object as it was made.
#[derive(Clone, Copy, Debug)]
pub enum Object {
    /// By the runtime API; a surface has no second description.
    Runtime(Resource, Option<Description>),
    /// By the driver API, with the bytes of its descriptions.
    Driver([u64; 18], Option<[u32; 26]>),
}

fn address(number: i32) -> Result<AddressMode, Error> {
    Ok(match number {
        0 => AddressMode::Wrap,
        1 => AddressMode::Clamp,
        2 => AddressMode::Mirror,
        3 => AddressMode::Border,
        _ => return Err(INVALID_VALUE),
    })
}

fn filter(number: i32) -> Result<Filter, Error> {
    match number {
        0 => Ok(Filter::Point),
        1 => Ok(Filter::Linear),
        _ => Err(INVALID_VALUE),
    }
}

/// What both interfaces say of sampling, with the numbers that they share.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Address modes.
    pub address: [i32; 3],
    /// Filters within and between levels.
    pub filters: [i32; 2],
    /// Elements become normalized numbers.
    pub normalized_float: bool,
    /// Coordinates go from 0 to 1.
    pub normalized: bool,
    /// sRGB.
    pub srgb: bool,
    /// Border color.
    pub border: [f32; 4],
    /// Bias, and bounds of the level.
    pub mip: [f32; 3],
}

impl Sampling {
    /// The sampler of an image.
    ///
    /// # Errors
    /// A number means nothing, or the image cannot be sampled so.
    pub fn of(&self, image: &Image) -> Result<Sampler, Error> {
        // Linear memory is read by index, whatever the filter.
        let within = if image.storage == Storage::Buffer { Filter::Point } else { filter(self.filters[0])? };
        let filters = [within, filter(self.filters[1])?];
        let integer = !matches!(image.format.channels, Channels::Float(_));
        let wide = matches!(image.format.channels, Channels::Unsigned(32) | Channels::Signed(32));
        // Integers are interpolated as normalized numbers only, which those of 32 bits cannot be.
        if integer
            && (filters[0] == Filter::Linear && !self.normalized_float || wide && self.normalized_float)
        {
            return Err(INVALID_VALUE);
        }
        Ok(Sampler {
            address: [address(self.address[0])?, address(self.address[1])?, address(self.address[2])?],
            filter: filters[0],
            normalized: self.normalized,
            read: if self.normalized_float && integer {
                ReadMode::NormalizedFloat
            } else {
                ReadMode::Element
            },
            border: self.border,
            mip_filter: filters[1],
            mip_bias: self.mip[0],
            mip_clamp: [self.mip[1], self.mip[2]],
            srgb: self.srgb,
        })
    }
}

/// What a texture reference of the driver API is bound to.
#[derive(Clone, Debug)]
pub struct TextureReference {
    /// How it is sampled.
    pub sampling: Sampling,
    /// Format of its texels.
    pub format: Option<Format>,
    /// Its texels.
    pub image: Option<Image>,
}

impl Default for TextureReference {
    /// Nothing is said of it.
    fn default() -> Self {
        let sampling = Sampling {
            address: [1; 3],
            filters: [0; 2],
            normalized_float: true,
            normalized: false,
            srgb: false,
            border: [0.0; 4],
            mip: [0.0; 3],
        };
        Self { sampling, format: None, image: None }
    }
}
