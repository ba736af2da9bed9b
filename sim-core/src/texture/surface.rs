//! Surfaces: texels read and written by their place (PTX ISA "Surface Instructions").

pub use sim_frontend::form::Beyond;

use super::filter::half_of;
use super::image::{Channels, Format, Image};
use super::lookup::Geometry;

/// A place of a surface: x in bytes or in texels, y, z, and a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the coordinates are.
    pub geometry: Geometry,
    /// x, y, z; those that the geometry has.
    pub at: [i32; 3],
    /// The layer.
    pub layer: u32,
    /// x counts texels, not bytes.
    pub texels: bool,
}

/// Why a place has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// It lies beyond the surface: the access is dropped.
    Dropped,
    /// It lies beyond the surface, which is a fault.
    Outside,
    /// x is no multiple of the size of the access.
    Misaligned,
}

impl Place {
    /// The address of an access of `bytes` bytes.
    ///
    /// # Errors
    /// Why there is none.
    pub fn address(&self, image: &Image, bytes: u32, beyond: Beyond) -> Result<u64, NoAddress> {
        let axes = self.geometry.axes();
        let unit = if self.texels { i64::from(image.format.bytes()) } else { 1 };
        let row = i64::from(image.extent.width) * i64::from(image.format.bytes());
        let bytes = i64::from(bytes);
        let x = i64::from(self.at[0]) * unit;
        let [y, z] = [1, 2].map(|axis| if axis < axes { i64::from(self.at[axis]) } else { 0 });
        let layers = i64::from(image.layers.max(1));
        let layer = if self.geometry.layered() { i64::from(self.layer) } else { 0 };
        let (height, depth) = (i64::from(image.extent.height), i64::from(image.extent.depth));
        let last = (row - bytes).max(0) / bytes * bytes;
        let inside = (0..=row - bytes).contains(&x)
            && (0..height).contains(&y)
            && (0..depth).contains(&z)
            && (0..layers).contains(&layer);
        let [x, y, z, layer] = match beyond {
            _ if inside => [x, y, z, layer],
            Beyond::Trap => return Err(NoAddress::Outside),
            Beyond::Zero => return Err(NoAddress::Dropped),
            Beyond::Clamp if row < bytes => return Err(NoAddress::Outside),
            Beyond::Clamp => {
                [x.clamp(0, last), y.clamp(0, height - 1), z.clamp(0, depth - 1), layer.clamp(0, layers - 1)]
            }
        };
        if x % bytes != 0 {
            return Err(NoAddress::Misaligned);
        }
        let slice = if axes == 3 { z } else { layer };
        Ok(image.address_of(0, slice as u32, x as u64, y as u32))
    }
}

/// The bytes of a texel that a formatted store of 32-bit channels writes: numbers are rounded to the format, integers
/// clamped to its range. Channels that the store does not have are zero.
pub fn formatted(format: Format, channels: &[u32]) -> [u8; 16] {
    let mut out = [0; 16];
    let size = format.channel_bytes() as usize;
    for (channel, bits) in channels.iter().take(format.count.into()).enumerate() {
        let stored = match format.channels {
            Channels::Float(16) => half_of(f32::from_bits(*bits)).into(),
            Channels::Float(_) => *bits,
            Channels::Unsigned(32) | Channels::Signed(32) => *bits,
            Channels::Unsigned(width) => (*bits).min((1 << width) - 1),
            Channels::Signed(width) => {
                let most = (1i32 << (width - 1)) - 1;
                (*bits as i32).clamp(-most - 1, most) as u32
            }
        };
        out[channel * size..][..size].copy_from_slice(&stored.to_le_bytes()[..size]);
    }
    out
}
