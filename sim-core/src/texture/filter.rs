//! From bytes of texels to results.

use sim_memory::soft_float::{F16, F32, Round};

use super::image::{Channels, Format};
use super::lookup::{MAX_TAPS, Plan};
use super::sampler::{ReadMode, Sampler};

/// True if texels of a format are numbers that can be interpolated: integers only as normalized ones.
pub fn interpolates(format: Format, sampler: &Sampler) -> bool {
    match format.channels {
        Channels::Float(_) => true,
        Channels::Unsigned(bits) | Channels::Signed(bits) => {
            sampler.read == ReadMode::NormalizedFloat && bits < 32
        }
    }
}

/// The linear value of an sRGB one, both from 0 to 1 (IEC 61966-2-1): ((c + 0.055) / 1.055)^2.4, the power as the
/// fifth root of the twelfth power, by operations that every host rounds alike.
pub fn f32_of_srgb(c: f64) -> f32 {
    if c <= 0.04045 {
        return (c / 12.92) as f32;
    }
    let base = (c + 0.055) / 1.055;
    let square = base * base;
    let fourth = square * square;
    let twelfth = fourth * fourth * fourth;
    // Newton's method from above; it has converged long before.
    let mut root = 1.0f64;
    for _ in 0..64 {
        let power = root * root * root * root;
        root = (4.0 * root + twelfth / power) / 5.0;
    }
    root as f32
}

fn half(bits: u16) -> f32 {
    f32::from_bits(F32.convert(F16, bits.into(), Round::Nearest) as u32)
}

/// The raw bits of a channel, extended to 32.
fn raw(format: Format, channel: usize, bytes: &[u8; 16]) -> u32 {
    let size = format.channel_bytes() as usize;
    let at = channel * size;
    let mut word = [0; 4];
    word[..size].copy_from_slice(&bytes[at..at + size]);
    let bits = u32::from_le_bytes(word);
    match format.channels {
        Channels::Signed(8) => bits as u8 as i8 as i32 as u32,
        Channels::Signed(16) => bits as u16 as i16 as i32 as u32,
        _ => bits,
    }
}

/// A channel as a number.
fn number(format: Format, sampler: &Sampler, channel: usize, bytes: &[u8; 16]) -> f32 {
    let bits = raw(format, channel, bytes);
    let signed = |most: f32| (bits as i32 as f32 / most).max(-1.0);
    match format.channels {
        Channels::Unsigned(8) if sampler.srgb && channel < 3 => f32_of_srgb(f64::from(bits) / 255.0),
        Channels::Unsigned(8) => bits as f32 / 255.0,
        Channels::Unsigned(16) => bits as f32 / 65535.0,
        Channels::Unsigned(_) => bits as f32,
        Channels::Signed(8) => signed(127.0),
        Channels::Signed(16) => signed(32767.0),
        Channels::Signed(_) => bits as i32 as f32,
        Channels::Float(16) => half(bits as u16),
        Channels::Float(_) => f32::from_bits(bits),
    }
}

/// What the channels hold that a format does not have.
fn absent(channel: usize, float: bool) -> u32 {
    match (channel, float) {
        (3, true) => 1f32.to_bits(),
        (3, false) => 1,
        _ => 0,
    }
}

impl Plan {
    /// The four channels that the lookup returns, as bits of `f32` or of integers of 32 bits, given the bytes of
    /// the texels of [`taps`](Self::taps).
    pub fn result(&self, format: Format, sampler: &Sampler, texels: &[[u8; 16]; MAX_TAPS]) -> [u32; 4] {
        let as_numbers = interpolates(format, sampler);
        if let Some(channel) = self.gather {
            // Counter-clockwise from the lower left: (0, 1), (1, 1), (1, 0), (0, 0).
            return [2, 3, 1, 0].map(|tap| self.channel(tap, channel.into(), format, sampler, texels));
        }
        std::array::from_fn(|channel| {
            if channel >= format.count.into() && (self.reference.is_none() || channel > 0) {
                return absent(channel, as_numbers);
            }
            if !as_numbers && self.reference.is_none() {
                return self.channel(0, channel, format, sampler, texels);
            }
            let level = |first: usize| {
                let taps = first..first + usize::from(self.per_level);
                // Products are exact; so are the sums but for numbers of very different size.
                let sum = taps.fold(0f64, |sum, tap| {
                    let value = f32::from_bits(self.channel(tap, channel, format, sampler, texels));
                    match self.taps[tap].weight {
                        // What has no weight is not looked at, an infinity either.
                        0 => sum,
                        weight => sum + f64::from(value) * f64::from(weight),
                    }
                });
                (sum / f64::from(1u32 << self.weight_bits)) as f32
            };
            let lower = level(0);
            let value = if self.levels == 1 {
                lower
            } else {
                let upper = level(self.per_level.into());
                let (a, b) = (f64::from(256 - self.fraction), f64::from(self.fraction));
                ((f64::from(lower) * a + f64::from(upper) * b) / 256.0) as f32
            };
            value.to_bits()
        })
    }

    /// A channel of one texel, or of the border; 0 or 1 where it is compared.
    fn channel(
        &self,
        tap: usize,
        channel: usize,
        format: Format,
        sampler: &Sampler,
        texels: &[[u8; 16]; MAX_TAPS],
    ) -> u32 {
        let as_numbers = interpolates(format, sampler) || self.reference.is_some();
        let bits = match self.taps[tap].address {
            None if self.zeros => 0,
            None => sampler.border[channel].to_bits(),
            Some(_) if channel >= format.count.into() => absent(channel, as_numbers),
            Some(_) if as_numbers => number(format, sampler, channel, &texels[tap]).to_bits(),
            Some(_) => raw(format, channel, &texels[tap]),
        };
        match self.reference {
            Some(reference) => {
                let holds = reference <= f32::from_bits(bits);
                f32::from(u8::from(holds)).to_bits()
            }
            None => bits,
        }
    }
}

/// Single precision to half, rounded to the nearest.
pub fn half_of(value: f32) -> u16 {
    F16.convert(F32, value.to_bits().into(), Round::Nearest) as u16
}
