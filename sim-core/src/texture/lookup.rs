//! Which texels a lookup reads, and with which weights.

pub use sim_frontend::form::Geometry;

use super::filter;
use super::image::{Extent, Image, Storage};
use super::sampler::{Filter, Sampler};

/// Most texels that a lookup reads: eight of each of two mip levels.
pub const MAX_TAPS: usize = 16;

/// Where the mip level comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// The first.
    Base,
    /// A level of detail.
    Detail(f32),
    /// Derivatives of the coordinates along x and y of the screen.
    Gradient([f32; 3], [f32; 3]),
}

/// A lookup of one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lookup {
    /// What its coordinates are.
    pub geometry: Geometry,
    /// The coordinates as bits: of `f32`, or of `i32` where they are integers.
    pub coordinates: [u32; 3],
    /// The coordinates are indices of texels.
    pub integer: bool,
    /// The layer.
    pub layer: u32,
    /// The mip level.
    pub level: Level,
    /// Added to the index of the texel, by axis.
    pub offset: [i32; 3],
    /// Texels are compared with this value.
    pub reference: Option<f32>,
    /// One channel of the four texels of a bilinear footprint is returned.
    pub gather: Option<u8>,
}

/// A texel of a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Tap {
    /// Its address; `None` is the border, or zeros beyond a buffer.
    pub address: Option<u64>,
    /// Its weight, of `1 << 8 * axes`.
    pub weight: u32,
}

/// The texels that a lookup reads.
#[derive(Clone, Copy, Debug, PartialEq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Plan {
    pub(super) taps: [Tap; MAX_TAPS],
    /// Taps of each level, and levels.
    pub(super) per_level: u8,
    pub(super) levels: u8,
    /// Weight of the second level, of 256.
    pub(super) fraction: u32,
    /// Bits of the weights.
    pub(super) weight_bits: u32,
    pub(super) reference: Option<f32>,
    pub(super) gather: Option<u8>,
    /// What lies outside is zero, not the border color.
    pub(super) zeros: bool,
}

/// A coordinate in fixed point: the index of the texel at or below it, and 8 bits of fraction, rounded to the nearest
/// of 0 to 256 (the guide: "9-bit fixed point format with 8 bits of fractional value (so 1.0 is exactly represented)").
fn fixed(x: f64) -> (i64, u32) {
    let floor = libm::floor(x);
    let fraction = libm::floor((x - floor) * 256.0 + 0.5) as u32;
    // What is beyond these bounds is beyond every image; NaN is 0.
    (floor.clamp(-1e12, 1e12) as i64, if x.is_finite() { fraction } else { 0 })
}

/// The base-2 logarithm with 8 bits of fraction, rounded to nearest; the operations are exact or correctly rounded, so
/// that every host gives the same.
fn log2_fixed(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return -1e4;
    }
    if x.is_infinite() {
        return 1e4;
    }
    let (mut mantissa, exponent) = libm::frexp(x);
    mantissa *= 2.0;
    let mut bits = 0u32;
    for _ in 0..9 {
        mantissa *= mantissa;
        bits <<= 1;
        if mantissa >= 2.0 {
            mantissa *= 0.5;
            bits |= 1;
        }
    }
    f64::from(exponent - 1) + f64::from(bits.div_ceil(2)) / 256.0
}

/// The face that a direction points at, and where on it (the guide's table "Cubemap Texture"; of equal components z
/// goes before y before x): coordinates from 0 to 1.
fn face([x, y, z]: [f64; 3]) -> (u32, [f64; 2]) {
    let [ax, ay, az] = [x, y, z].map(f64::abs);
    let (face, m, s, t) = if az >= ax && az >= ay {
        if z >= 0.0 { (4, z, x, -y) } else { (5, -z, -x, -y) }
    } else if ay >= ax {
        if y >= 0.0 { (2, y, x, z) } else { (3, -y, x, -z) }
    } else if x >= 0.0 {
        (0, x, -z, -y)
    } else {
        (1, -x, z, -y)
    };
    let on = |c: f64| if m == 0.0 { 0.5 } else { (c / m + 1.0) / 2.0 };
    (face, [on(s), on(t)])
}

/// The level of detail of derivatives: the logarithm of the longer one in texels.
fn detail_of(extent: Extent, axes: usize, scale: bool, gradients: [[f32; 3]; 2]) -> f64 {
    let sizes = [extent.width, extent.height, extent.depth];
    let longest = gradients.into_iter().map(|gradient| {
        (0..axes).fold(0.0, |sum: f64, axis| {
            let size = if scale { f64::from(sizes[axis]) } else { 1.0 };
            let along = f64::from(gradient[axis]) * size;
            sum + along * along
        })
    });
    log2_fixed(longest.fold(0.0, f64::max)) / 2.0
}

impl Lookup {
    /// The texels it reads of an image.
    pub fn plan(&self, image: &Image, sampler: &Sampler) -> Plan {
        let axes = self.geometry.axes();
        let linear = self.gather.is_some()
            || sampler.filter == Filter::Linear
                && !self.integer
                && filter::interpolates(image.format, sampler);
        let mut plan = Plan {
            taps: [Tap::default(); MAX_TAPS],
            per_level: if linear { 1 << axes } else { 1 },
            levels: 1,
            fraction: 0,
            weight_bits: if linear { 8 * axes as u32 } else { 0 },
            reference: self.reference,
            gather: self.gather,
            zeros: image.storage == Storage::Buffer,
        };
        let (first, fraction) = self.levels(image, sampler);
        if fraction > 0 {
            (plan.levels, plan.fraction) = (2, fraction);
        }
        for level in 0..u32::from(plan.levels) {
            let at = level as usize * usize::from(plan.per_level);
            self.level_taps(image, sampler, first + level, linear, &mut plan.taps[at..]);
        }
        plan
    }

    /// The first level, and the weight of the next one of 256.
    fn levels(&self, image: &Image, sampler: &Sampler) -> (u32, u32) {
        let detail = match self.level {
            Level::Base => return (0, 0),
            Level::Detail(detail) => f64::from(detail),
            Level::Gradient(x, y) => {
                let scale = sampler.normalized || self.geometry.cube();
                detail_of(image.extent, self.geometry.coordinates(), scale, [x, y])
            }
        };
        let last = f64::from(image.levels - 1);
        let [least, most] = sampler.mip_clamp.map(f64::from);
        // Not `clamp`, which refuses bounds that are not in order.
        let detail = (detail + f64::from(sampler.mip_bias)).max(least).min(most).max(0.0).min(last);
        match sampler.mip_filter {
            Filter::Point => (libm::floor(detail + 0.5) as u32, 0),
            Filter::Linear => {
                let (level, fraction) = fixed(detail);
                let level = level as u32;
                if fraction == 256 { (level + 1, 0) } else { (level, fraction) }
            }
        }
    }

    fn level_taps(&self, image: &Image, sampler: &Sampler, level: u32, linear: bool, taps: &mut [Tap]) {
        let axes = self.geometry.axes();
        let extent = image.extent.level(level);
        let sizes = [extent.width, extent.height, extent.depth];
        let bits = |axis: usize| f64::from(f32::from_bits(self.coordinates[axis]));
        let normalized = (sampler.normalized || self.geometry.cube()) && !self.integer;
        let (slice, at) = match self.geometry.cube() {
            true => {
                let (face, [s, t]) = face([bits(0), bits(1), bits(2)]);
                let cubes = image.layers / 6;
                let cube = if self.geometry.layered() { self.layer.min(cubes.saturating_sub(1)) } else { 0 };
                (6 * cube + face, [s, t, 0.0])
            }
            false => (self.layer_of(image), std::array::from_fn(bits)),
        };
        // Index of the lower texel and weight of the upper one, by axis.
        let mut place = [(0i64, 0u32); 3];
        for axis in 0..axes {
            let (index, upper) = if self.integer {
                (i64::from(self.coordinates[axis] as i32), 0)
            } else {
                let scale = if normalized { f64::from(sizes[axis]) } else { 1.0 };
                let half = if linear { 0.5 } else { 0.0 };
                let (index, fraction) = fixed(at[axis] * scale - half);
                if linear { (index, fraction) } else { (index, 0) }
            };
            place[axis] = (index + i64::from(self.offset[axis]), upper);
        }
        let corners = if linear { 1 << axes } else { 1 };
        for (corner, tap) in taps.iter_mut().enumerate().take(corners) {
            let mut texel = [0u32; 3];
            let mut weight = 1;
            let mut inside = true;
            for axis in 0..axes {
                let (index, upper) = place[axis];
                let second = corner >> axis & 1 == 1;
                if linear {
                    weight *= if second { upper } else { 256 - upper };
                }
                let index = index + i64::from(second);
                let found = match image.storage {
                    Storage::Buffer => u32::try_from(index).ok().filter(|i| *i < sizes[0]),
                    _ if self.geometry.cube() => Some(index.clamp(0, i64::from(sizes[axis]) - 1) as u32),
                    _ => sampler.address[axis].texel(index, sizes[axis], normalized),
                };
                match found {
                    Some(found) => texel[axis] = found,
                    None => inside = false,
                }
            }
            let [x, y, z] = texel;
            let slice = if axes == 3 { z } else { slice };
            let bytes = u64::from(x) * u64::from(image.format.bytes());
            let address = inside.then(|| image.address_of(level, slice, bytes, y));
            *tap = Tap { address, weight };
        }
    }

    fn layer_of(&self, image: &Image) -> u32 {
        if self.geometry.layered() { self.layer.min(image.layers.saturating_sub(1)) } else { 0 }
    }
}

impl Plan {
    /// The texels, in the order in which [`result`](Self::result) takes their bytes.
    pub fn taps(&self) -> &[Tap] {
        &self.taps[..usize::from(self.per_level) * usize::from(self.levels)]
    }
}
