//! Conversions of the formats of tensor cores that say more than where a value is rounded to (PTX ISA "cvt"): by random
//! bits (`.rs`), by scales of `.ue8m0` (`.scaled::n2::ue8m0`), to and from the fixed point of `.s2f6`.

use sim_frontend::form::{Form, Rounding};
use sim_frontend::program::Op;
use sim_memory::soft_float::{self as soft, Round};
use sim_memory::vocabulary::{ScalarType as T, WARP_LANES};

use super::bodies::{Variants, lane};
use super::file::LaneFile;
use super::float::power;
use crate::registers::each;

/// What values beyond the largest finite one become.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Specials {
    /// Infinities and NaN, as IEEE 754 has them.
    Ieee,
    /// One NaN of each sign, no infinity.
    OneNan,
    /// Neither.
    None,
}

/// A floating-point format of sixteen bits or fewer.
#[derive(Clone, Copy)]
pub(super) struct Small {
    pub(super) exponent: u32,
    pub(super) fraction: u32,
    specials: Specials,
}

/// Types that the immediate of an operation may name.
const TYPES: [T; 14] = [
    T::F32,
    T::F16x2,
    T::Bf16x2,
    T::E4m3x2,
    T::E5m2x2,
    T::E2m3x2,
    T::E3m2x2,
    T::E2m1x2,
    T::S2f6x2,
    T::E4m3x4,
    T::E5m2x4,
    T::E2m3x4,
    T::E3m2x4,
    T::E2m1x4,
];

/// The format of a part, and the bits of its place.
pub(super) fn small(ty: T) -> Option<(Small, u32)> {
    let of = |exponent, fraction, specials, place| Some((Small { exponent, fraction, specials }, place));
    match ty {
        T::F16x2 => of(5, 10, Specials::Ieee, 16),
        T::Bf16x2 => of(8, 7, Specials::Ieee, 16),
        T::E4m3x2 | T::E4m3x4 => of(4, 3, Specials::OneNan, 8),
        T::E5m2x2 | T::E5m2x4 => of(5, 2, Specials::Ieee, 8),
        T::E2m3x2 | T::E2m3x4 => of(2, 3, Specials::None, 8),
        T::E3m2x2 | T::E3m2x4 => of(3, 2, Specials::None, 8),
        T::E2m1x2 | T::E2m1x4 => of(2, 1, Specials::None, 4),
        _ => None,
    }
}

/// Forms of this file.
pub(super) fn handles(form: &Form) -> bool {
    let from_small = form.dst == T::Bf16x2 && !matches!(form.ty, T::F32 | T::Ue8m0x2);
    form.mods.rounding == Some(Rounding::Rs) || from_small || form.dst == T::S2f6x2
}

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    match (form.dst, form.ty) {
        (T::F16x2 | T::Bf16x2, T::F32) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| pair_by_chance(f, op, m)),
        (_, T::F32) if form.mods.rounding == Some(Rounding::Rs) => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| four_by_chance(f, op, m))
        }
        (T::S2f6x2, T::F32 | T::Bf16x2) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| to_fixed(f, op, m)),
        (T::Bf16x2, _) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| to_bf16(f, op, m)),
        _ => None,
    }
}

/// A form as the immediate of its operation.
pub(super) fn encode(form: &Form) -> i64 {
    let index = |ty: T| TYPES.iter().position(|t| *t == ty).unwrap_or(0) as i64;
    index(form.dst)
        | index(form.ty) << 4
        | i64::from(form.mods.relu) << 8
        | i64::from(form.mods.satfinite) << 9
        | i64::from(form.mods.scaled) << 10
}

struct Conversion {
    dst: T,
    src: T,
    relu: bool,
    satfinite: bool,
    scaled: bool,
}

fn decode(imm: i64) -> Conversion {
    let ty = |at: u32| TYPES[((imm >> at & 15) as usize).min(TYPES.len() - 1)];
    Conversion {
        dst: ty(0),
        src: ty(4),
        relu: imm >> 8 & 1 == 1,
        satfinite: imm >> 9 & 1 == 1,
        scaled: imm >> 10 & 1 == 1,
    }
}

impl Small {
    /// The bits of the largest finite magnitude.
    fn largest(self) -> u32 {
        let all = (1 << (self.exponent + self.fraction)) - 1;
        match self.specials {
            Specials::Ieee => all - (1 << self.fraction),
            Specials::OneNan => all - 1,
            Specials::None => all,
        }
    }

    /// Its least normal number has this exponent.
    fn least(self) -> i32 {
        2 - (1 << (self.exponent - 1))
    }

    /// A value rounded by `random`, of which `bits` are added to what is cut off of its magnitude: away from zero where
    /// they carry.
    fn by_chance(self, value: f32, random: u32, bits: u32, c: &Conversion) -> u32 {
        let sign = value.to_bits() >> 31 << (self.exponent + self.fraction);
        if value.is_nan() {
            return match self.specials {
                Specials::None => self.largest(),
                _ => (1 << (self.exponent + self.fraction)) - 1,
            };
        }
        if c.relu && sign != 0 {
            return 0;
        }
        let beyond = match self.specials {
            Specials::Ieee if !c.satfinite => self.largest() + 1,
            _ => self.largest(),
        };
        if value.is_infinite() {
            return sign | beyond;
        }
        let magnitude = f64::from(value).abs();
        let own = ((magnitude.to_bits() >> 52) as i32 - 1023).max(self.least());
        let units = magnitude * power(self.fraction as i32 - own);
        let whole = (units + f64::from(random) * power(-(bits as i32))).floor() as u32;
        let code = (((own - self.least()) as u32) << self.fraction) + whole;
        sign | if code > self.largest() { beyond } else { code }
    }

    /// The value of some bits.
    fn value(self, bits: u32) -> f64 {
        let width = self.exponent + self.fraction;
        let magnitude = bits & ((1 << width) - 1);
        let (field, rest) = (magnitude >> self.fraction, magnitude & ((1 << self.fraction) - 1));
        let value = match self.specials {
            Specials::Ieee if magnitude == self.largest() + 1 => f64::INFINITY,
            _ if magnitude > self.largest() => f64::NAN,
            _ => {
                let hidden = if field == 0 { 0 } else { 1 << self.fraction };
                f64::from(hidden + rest)
                    * power(field.max(1) as i32 - 1 + self.least() - self.fraction as i32)
            }
        };
        if bits >> width & 1 == 1 { -value } else { value }
    }
}

/// `cvt.rs` of two values: thirteen random bits of each half for halves, sixteen for `.bf16`.
fn pair_by_chance(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let c = decode(op.imm);
    let Some((to, _)) = small(c.dst) else { return };
    let bits = 23 - to.fraction;
    let (a, b, random) = (f.r32(op.src[0]), f.r32(op.src[1]), f.r32(op.src[2]));
    let one =
        |value: u32, random: u32| to.by_chance(f32::from_bits(value), random & ((1 << bits) - 1), bits, &c);
    f.w32(op.dst[0], m, each(|i| one(a[i], random[i] >> 16) << 16 | one(b[i], random[i])));
}

/// `cvt.rs` of four values: two have sixteen random bits together, the first of them in reverse order.
fn four_by_chance(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let c = decode(op.imm);
    let Some((to, place)) = small(c.dst) else { return };
    let values = [0, 1, 2, 3].map(|i| f.r32(op.src[i]));
    let random = f.r32(op.src[4]);
    let out = each(|i| {
        let [r0, r1, r2, r3] = random[i].to_le_bytes();
        let halves = match c.dst {
            // The upper bytes of both halves, and the lower ones.
            T::E2m1x4 => [u16::from_le_bytes([r1, r3]), u16::from_le_bytes([r0, r2])],
            _ => [u16::from_le_bytes([r2, r3]), u16::from_le_bytes([r0, r1])],
        };
        (0..4).fold(0, |out, k| {
            let half = halves[k / 2];
            let own = if k % 2 == 0 { half.reverse_bits() } else { half };
            out << place | to.by_chance(f32::from_bits(values[k][i]), own.into(), 16, &c)
        })
    });
    f.w32(op.dst[0], m, out);
}

/// Scales of one.
const UNSCALED: [u32; WARP_LANES] = [0x7f7f; WARP_LANES];

/// The factor of a scale of `.ue8m0`; one that is no number makes none.
fn scale(bits: u32) -> f64 {
    match bits & 0xff {
        255 => f64::NAN,
        bits => power(bits as i32 - 127),
    }
}

/// The nearest 64th, ties to even, within the format: the largest magnitude is 127, and a NaN becomes it.
fn fixed(value: f64, relu: bool) -> u32 {
    if value.is_nan() {
        return 127;
    }
    let units = (value * 64.0).clamp(-127.0, 127.0).round_ties_even() as i32;
    let units = if relu { units.max(0) } else { units };
    units as u32 & 0xff
}

/// To `.s2f6`, after a division by scales.
fn to_fixed(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let c = decode(op.imm);
    let single = |bits: u32| f64::from(f32::from_bits(bits));
    let (high, low, scales) = if c.src == T::F32 {
        (f.r32(op.src[0]), f.r32(op.src[1]), op.src[2])
    } else {
        let a = f.r32(op.src[0]);
        (a.map(|v| v & 0xffff_0000), a.map(|v| v << 16), op.src[1])
    };
    let scales = if c.scaled { f.r32(scales) } else { UNSCALED };
    let out = each(|i| {
        let [high, low] = [(high[i], scales[i] >> 8), (low[i], scales[i])]
            .map(|(value, bits)| fixed(single(value) / scale(bits), c.relu));
        high << 8 | low
    });
    f.w32(op.dst[0], m, out);
}

/// To `.bf16`, and times scales.
fn to_bf16(f: &mut LaneFile<'_>, op: &Op, m: u32) {
    let c = decode(op.imm);
    let a = f.r32(op.src[0]);
    let scales = if c.scaled { f.r32(op.src[1]) } else { UNSCALED };
    let from = small(c.src);
    let one = |bits: u32, factor: u32| {
        let value = match from {
            Some((format, _)) => format.value(bits),
            None => f64::from(bits as u8 as i8) / 64.0,
        };
        let scaled = value * scale(factor);
        if scaled.is_nan() {
            return soft::BF16.nan() as u32;
        }
        if c.relu && scaled.is_sign_negative() {
            return 0;
        }
        let out = soft::BF16.convert(soft::F64, scaled.to_bits(), Round::Nearest) as u32;
        // An infinity becomes the largest number.
        if c.satfinite && out & 0x7fff == 0x7f80 { out - 1 } else { out }
    };
    let place = from.map_or(8, |(_, place)| place);
    f.w32(op.dst[0], m, each(|i| one(a[i] >> place, scales[i] >> 8) << 16 | one(a[i], scales[i])));
}
