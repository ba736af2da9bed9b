//! How texels are sampled.

/// What coordinates beyond an image mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum AddressMode {
    /// The image repeats. With coordinates that are not normalized, as `Clamp`.
    Wrap,
    /// The nearest texel of the image.
    #[default]
    Clamp,
    /// The image repeats, every other time mirrored. With coordinates that are not normalized, as `Clamp`.
    Mirror,
    /// The border color.
    Border,
}

impl AddressMode {
    /// The texel that index `i` of `n` means; `None` is the border. Wrapped and mirrored indices are those of the
    /// formulas of the guide, frac(x) and 1 - frac(x), without their rounding.
    pub fn texel(self, i: i64, n: u32, normalized: bool) -> Option<u32> {
        let n = i64::from(n);
        let index = match self {
            Self::Wrap if normalized => i.rem_euclid(n),
            Self::Mirror if normalized => {
                let at = i.rem_euclid(2 * n);
                if at < n { at } else { 2 * n - 1 - at }
            }
            Self::Border if i < 0 || i >= n => return None,
            _ => i.clamp(0, n - 1),
        };
        Some(index as u32)
    }
}

/// How a lookup between texels, or between mip levels, is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum Filter {
    /// The nearest.
    #[default]
    Point,
    /// Interpolated.
    Linear,
}

/// What a lookup returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum ReadMode {
    /// Elements as they are; halves as single precision.
    #[default]
    Element,
    /// Integers of 8 and 16 bits as numbers from 0 to 1, or from -1 to 1.
    NormalizedFloat,
}

/// The state of a sampler.
#[derive(Clone, Debug, PartialEq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Sampler {
    /// What coordinates beyond the image mean, by axis.
    pub address: [AddressMode; 3],
    /// Within a level.
    pub filter: Filter,
    /// Coordinates go from 0 to 1.
    pub normalized: bool,
    /// What lookups return.
    pub read: ReadMode,
    /// The border color; for integers that are read as such, its bits.
    pub border: [f32; 4],
    /// Between levels.
    pub mip_filter: Filter,
    /// Added to the level of detail.
    pub mip_bias: f32,
    /// Bounds of the level of detail.
    pub mip_clamp: [f32; 2],
    /// Integers of 8 bits are sRGB; the fourth channel is linear.
    pub srgb: bool,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            address: [AddressMode::Clamp; 3],
            filter: Filter::Point,
            normalized: false,
            read: ReadMode::Element,
            border: [0.0; 4],
            mip_filter: Filter::Point,
            mip_bias: 0.0,
            mip_clamp: [0.0, 255.0],
            srgb: false,
        }
    }
}
