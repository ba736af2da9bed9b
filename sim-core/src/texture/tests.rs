//! Lookups against the literal formulas, and layouts.

use std::collections::BTreeSet;

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;

use super::literal::{nearest, sample};
use super::surface::{Beyond, NoAddress, Place, formatted};
use super::*;

fn format(channels: Channels, count: u8) -> Format {
    Format::new(channels, count).unwrap_or_else(|| panic!("{channels:?} {count}"))
}

/// An image in host memory.
struct Texels {
    image: Image,
    bytes: Vec<u8>,
}

impl Texels {
    fn new(image: Image, byte: impl Fn(usize) -> u8) -> Self {
        let bytes = (0..image.bytes() as usize).map(byte).collect();
        Self { image, bytes }
    }

    fn texel(&self, address: u64) -> [u8; 16] {
        let at = (address - self.image.address) as usize;
        let mut out = [0; 16];
        let size = self.image.format.bytes() as usize;
        out[..size].copy_from_slice(&self.bytes[at..at + size]);
        out
    }

    fn put(&mut self, level: u32, slice: u32, x: u32, y: u32, texel: &[u8]) {
        let bytes = u64::from(x) * u64::from(self.image.format.bytes());
        let at = (self.image.address_of(level, slice, bytes, y) - self.image.address) as usize;
        self.bytes[at..at + texel.len()].copy_from_slice(texel);
    }

    fn look(&self, sampler: &Sampler, lookup: &Lookup) -> [u32; 4] {
        let plan = lookup.plan(&self.image, sampler);
        let mut texels = [[0; 16]; MAX_TAPS];
        for (texel, tap) in texels.iter_mut().zip(plan.taps()) {
            if let Some(address) = tap.address {
                *texel = self.texel(address);
            }
        }
        plan.result(self.image.format, sampler, &texels)
    }
}

fn lookup(geometry: Geometry, at: [f32; 3]) -> Lookup {
    Lookup {
        geometry,
        coordinates: at.map(f32::to_bits),
        integer: false,
        layer: 0,
        level: Level::Base,
        offset: [0; 3],
        reference: None,
        gather: None,
    }
}

fn image(channels: Channels, count: u8, [width, height, depth]: [u32; 3], dimensions: u8) -> Image {
    Image::array(1 << 20, format(channels, count), Extent { width, height, depth }, dimensions)
}

fn modes() -> impl Strategy<Value = AddressMode> {
    prop_oneof![
        Just(AddressMode::Wrap),
        Just(AddressMode::Clamp),
        Just(AddressMode::Mirror),
        Just(AddressMode::Border)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn lookups_are_those_of_the_guides_formulas(
        axes in 1usize..4,
        sizes in proptest::array::uniform3(1u32..9),
        at in proptest::array::uniform3(-40i32..40),
        fine in proptest::array::uniform3(0u32..4096),
        modes in proptest::array::uniform3(modes()),
        normalized: bool,
        linear: bool,
        kind in 0u8..5,
        border in -3i8..4,
        salt: u8,
    ) {
        let channels = [
            Channels::Unsigned(8),
            Channels::Signed(8),
            Channels::Unsigned(16),
            Channels::Signed(16),
            Channels::Float(16),
        ][usize::from(kind)];
        let extent: [u32; 3] = std::array::from_fn(|axis| if axis < axes { sizes[axis] } else { 1 });
        let mut image = image(channels, 1, extent, axes as u8);
        if kind == 1 && axes == 2 {
            image.storage = Storage::Pitched(64);
        }
        let mut texels = Texels::new(image, |i| (i as u8).wrapping_mul(167).wrapping_add(salt));
        if kind == 4 {
            // Halves that are small integers and fractions of 16.
            let bits: Vec<u8> = (0..texels.bytes.len() / 2)
                .flat_map(|i| half_of(((i * 37) as u8 as i8) as f32 / 16.0).to_le_bytes())
                .collect();
            texels.bytes = bits;
        }
        let scale = if normalized { 16.0 } else { 1.0 };
        let at: [f32; 3] = std::array::from_fn(|i| (at[i] as f32 + fine[i] as f32 / 4096.0) / scale);
        let sampler = Sampler {
            address: modes,
            filter: if linear { Filter::Linear } else { Filter::Point },
            normalized,
            read: ReadMode::NormalizedFloat,
            border: [f32::from(border); 4],
            ..Sampler::default()
        };
        let geometry = [Geometry::One, Geometry::Two, Geometry::Three][axes - 1];
        let found = texels.look(&sampler, &lookup(geometry, at))[0];
        let value = |indices: &[Option<i64>]| -> BigRational {
            let whole = |n: i64| BigRational::from_integer(BigInt::from(n));
            let Some(found) = indices.iter().copied().collect::<Option<Vec<i64>>>() else {
                return whole(border.into());
            };
            let [x, y, z] = std::array::from_fn(|axis| found.get(axis).copied().unwrap_or(0) as u32);
            let bytes = u64::from(x) * u64::from(texels.image.format.bytes());
            let texel = texels.texel(texels.image.address_of(0, z, bytes, y));
            // The value that a channel stands for is a single-precision number.
            let exact = |n: i64, most: i64| {
                let value = nearest(&BigRational::new(BigInt::from(n), BigInt::from(most)));
                BigRational::from_float(value.max(-1.0)).unwrap_or_else(|| whole(0))
            };
            let short = [texel[0], texel[1]];
            match kind {
                0 => exact(texel[0].into(), 255),
                1 => exact((texel[0] as i8).into(), 127),
                2 => exact(u16::from_le_bytes(short).into(), 65535),
                3 => exact(i16::from_le_bytes(short).into(), 32767),
                _ => {
                    let at = (texels.image.address_of(0, z, bytes, y) - texels.image.address) / 2;
                    BigRational::new(BigInt::from(((at * 37) as u8) as i8), BigInt::from(16))
                }
            }
        };
        let sizes: Vec<i64> = extent[..axes].iter().map(|n| i64::from(*n)).collect();
        let expected = sample(&at[..axes], &sizes, &modes[..axes], normalized, linear, &value);
        prop_assert_eq!(f32::from_bits(found), nearest(&expected));
    }

    #[test]
    fn bytes_of_an_image_have_places_of_their_own(
        width in 1u32..40,
        height in 1u32..40,
        slices in 1u32..4,
        levels in 1u32..4,
        count in prop_oneof![Just(1u8), Just(2), Just(4)],
        dimensions in 1u8..4,
    ) {
        let height = if dimensions == 1 { 1 } else { height };
        let depth = if dimensions == 3 { slices } else { 1 };
        let mut image = image(Channels::Float(32), count, [width, height, depth], dimensions);
        image.layers = if dimensions == 3 || slices == 1 { 0 } else { slices };
        image.levels = levels.min(image.extent.levels());
        let mut seen = BTreeSet::new();
        for level in 0..image.levels {
            let Extent { width, height, .. } = image.extent.level(level);
            for slice in 0..image.slices(level) {
                for y in 0..height {
                    let row = u64::from(width) * u64::from(image.format.bytes());
                    let mut length = 0;
                    for (address, bytes) in image.pieces(level, slice, 0, y, row) {
                        length += bytes;
                        for byte in address..address + bytes {
                            prop_assert!(byte >= image.address && byte < image.address + image.bytes());
                            prop_assert!(seen.insert(byte), "two places of byte {byte}");
                        }
                    }
                    prop_assert_eq!(length, row);
                }
            }
        }
    }
}

#[test]
fn a_sector_of_an_array_holds_two_rows() {
    let image = image(Channels::Unsigned(8), 4, [64, 64, 1], 2);
    let at = |x: u64, y| image.address_of(0, 0, 4 * x, y) - image.address;
    // 4 by 2 texels of 4 bytes are one sector of 32 bytes.
    assert_eq!([at(0, 0), at(3, 0), at(0, 1), at(3, 1)], [0, 12, 16, 28]);
    assert_eq!([at(4, 0), at(0, 2), at(8, 0), at(16, 0)], [32, 64, 256, 8 * 512]);
    // Eight rows further is the next group of the block.
    assert_eq!(at(0, 8), 512);
    assert_eq!(image.bytes(), 64 * 64 * 4);
}

#[test]
fn weights_have_eight_bits_and_reach_one() {
    let mut texels = Texels::new(image(Channels::Float(32), 1, [2, 1, 1], 1), |_| 0);
    texels.put(0, 0, 1, 0, &256f32.to_le_bytes());
    let sampler = Sampler { filter: Filter::Linear, ..Sampler::default() };
    let at = |x: f32| f32::from_bits(texels.look(&sampler, &lookup(Geometry::One, [x, 0.0, 0.0]))[0]);
    assert_eq!([at(0.5), at(0.5 + 1.0 / 256.0), at(1.0), at(1.5)], [0.0, 1.0, 128.0, 256.0]);
    // Between two weights the nearest is taken; 1 - 1/1024 is 1.
    assert_eq!([at(0.5 + 1.25 / 256.0), at(0.5 + 1.5 / 256.0), at(1.5 - 1.0 / 1024.0)], [1.0, 2.0, 256.0]);
}

#[test]
fn integers_are_read_as_they_are() {
    let mut texels = Texels::new(image(Channels::Signed(16), 2, [4, 4, 1], 2), |_| 0);
    texels.put(0, 0, 2, 3, &[0xfe, 0xff, 0x34, 0x12]);
    let linear = Sampler { filter: Filter::Linear, ..Sampler::default() };
    let found = texels.look(&linear, &lookup(Geometry::Two, [2.9, 3.2, 0.0]));
    // Channels that are absent are 0, 0, 1.
    assert_eq!(found, [0xffff_fffe, 0x1234, 0, 1]);
    let by_index = Lookup { integer: true, coordinates: [2, 3, 0], ..lookup(Geometry::Two, [0.0; 3]) };
    assert_eq!(texels.look(&linear, &by_index), found);
}

#[test]
fn a_buffer_reads_zeros_beyond_its_end() {
    let buffer = Image::buffer(4096, format(Channels::Float(32), 1), 3);
    let texels = Texels::new(buffer, |_| 0x40);
    let sampler = Sampler { border: [7.0; 4], ..Sampler::default() };
    let at = |i: i32| {
        let by_index =
            Lookup { integer: true, coordinates: [i as u32, 0, 0], ..lookup(Geometry::One, [0.0; 3]) };
        texels.look(&sampler, &by_index)[0]
    };
    assert_eq!([at(2), at(3), at(-1)], [0x4040_4040, 0, 0]);
}

#[test]
fn layers_and_levels_are_images_of_their_own() {
    let mut layered = image(Channels::Unsigned(32), 1, [8, 8, 1], 2);
    (layered.layers, layered.levels) = (3, 4);
    let mut texels = Texels::new(layered, |_| 0);
    for level in 0..4 {
        for layer in 0..3 {
            texels.put(level, layer, 0, 0, &[(10 * level + layer) as u8, 0, 0, 0]);
        }
    }
    let at = |layer, level, sampler: &Sampler| {
        texels.look(sampler, &Lookup { layer, level, ..lookup(Geometry::TwoArray, [0.0; 3]) })[0]
    };
    let point = Sampler::default();
    assert_eq!(
        [at(0, Level::Base, &point), at(2, Level::Base, &point), at(9, Level::Base, &point)],
        [0, 2, 2]
    );
    let levels = [0.4, 0.5, 2.6, 9.0].map(|detail| at(1, Level::Detail(detail), &point));
    assert_eq!(levels, [1, 11, 31, 31]);
    let biased = Sampler { mip_bias: 1.0, mip_clamp: [0.0, 2.0], ..Sampler::default() };
    assert_eq!([0.0, 2.0].map(|detail| at(0, Level::Detail(detail), &biased)), [10, 20]);
    // One step a texel is level 0; four a texel, level 2.
    let step = |n: f32| Level::Gradient([n, 0.0, 0.0], [0.0, 1.0, 0.0]);
    assert_eq!([1.0, 4.0, 3.0, 0.1].map(|n| at(0, step(n), &point)), [0, 20, 20, 0]);
}

#[test]
fn levels_are_blended_with_eight_bits() {
    let mut mipped = image(Channels::Float(32), 1, [2, 2, 1], 2);
    mipped.levels = 2;
    let mut texels = Texels::new(mipped, |_| 0);
    texels.put(1, 0, 0, 0, &256f32.to_le_bytes());
    let sampler = Sampler { mip_filter: Filter::Linear, ..Sampler::default() };
    let at = |detail| {
        let by_level = Lookup { level: Level::Detail(detail), ..lookup(Geometry::Two, [0.0; 3]) };
        f32::from_bits(texels.look(&sampler, &by_level)[0])
    };
    assert_eq!([at(0.0), at(0.25), at(1.0 / 256.0), at(1.0)], [0.0, 64.0, 1.0, 256.0]);
}

#[test]
fn a_direction_selects_a_face() {
    let mut cube = image(Channels::Unsigned(8), 1, [2, 2, 1], 2);
    (cube.layers, cube.cube) = (12, true);
    let mut texels = Texels::new(cube, |_| 0);
    for face in 0..12 {
        for (x, y) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            texels.put(0, face, x, y, &[(10 * face + x + 2 * y) as u8]);
        }
    }
    let at = |direction: [f32; 3]| {
        let sampler = Sampler { normalized: true, ..Sampler::default() };
        texels.look(&sampler, &lookup(Geometry::Cube, direction))[0]
    };
    // The table of the guide: face, and s and t by the signs of the other components.
    assert_eq!(at([1.0, 0.5, 0.5]), 0);
    assert_eq!(at([1.0, -0.5, -0.5]), 3);
    assert_eq!(at([-1.0, 0.5, 0.5]), 11);
    assert_eq!(at([0.5, 1.0, -0.5]), 21);
    assert_eq!(at([0.5, -1.0, -0.5]), 33);
    assert_eq!(at([-0.5, 0.5, 1.0]), 40);
    assert_eq!(at([-0.5, 0.5, -1.0]), 51);
    let second = Lookup { layer: 1, ..lookup(Geometry::CubeArray, [1.0, 0.5, 0.5]) };
    assert_eq!(texels.look(&Sampler::default(), &second)[0], 60);
}

#[test]
fn four_texels_are_gathered_counter_clockwise_from_the_lower_left() {
    let mut texels = Texels::new(image(Channels::Unsigned(8), 2, [4, 4, 1], 2), |_| 0);
    for y in 0..4 {
        for x in 0..4 {
            texels.put(0, 0, x, y, &[0, (10 * y + x) as u8]);
        }
    }
    let gather = Lookup { gather: Some(1), ..lookup(Geometry::Two, [2.0, 1.0, 0.0]) };
    assert_eq!(texels.look(&Sampler::default(), &gather), [11, 12, 2, 1]);
    let moved = Lookup { offset: [-1, 2, 0], ..gather };
    assert_eq!(texels.look(&Sampler::default(), &moved), [30, 31, 21, 20]);
}

#[test]
fn comparisons_are_filtered() {
    let mut texels = Texels::new(image(Channels::Float(32), 1, [2, 1, 1], 1), |_| 0);
    texels.put(0, 0, 1, 0, &0.75f32.to_le_bytes());
    let sampler = Sampler { filter: Filter::Linear, ..Sampler::default() };
    let at = |x: f32, reference| {
        let compared = Lookup { reference: Some(reference), ..lookup(Geometry::One, [x, 0.0, 0.0]) };
        f32::from_bits(texels.look(&sampler, &compared)[0])
    };
    assert_eq!([at(1.0, 0.5), at(0.75, 0.5), at(1.0, 0.9), at(1.0, 0.0)], [0.5, 0.25, 0.0, 1.0]);
}

#[test]
fn srgb_is_the_standards_curve() {
    // Values of IEC 61966-2-1 worked out by the host's power function, which is no part of the result.
    for value in 0..=255u32 {
        let c = f64::from(value) / 255.0;
        let expected = if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        assert!((f64::from(f32_of_srgb(c)) - expected).abs() < 1e-7, "{value}");
    }
    let mut texels = Texels::new(image(Channels::Unsigned(8), 4, [1, 1, 1], 2), |_| 0);
    texels.put(0, 0, 0, 0, &[255, 188, 0, 128]);
    let sampler = Sampler { srgb: true, read: ReadMode::NormalizedFloat, ..Sampler::default() };
    let found = texels.look(&sampler, &lookup(Geometry::Two, [0.0; 3])).map(f32::from_bits);
    assert_eq!(found, [1.0, f32_of_srgb(188.0 / 255.0), 0.0, 128.0 / 255.0]);
}

#[test]
fn coordinates_that_are_no_numbers_or_beyond_all_images_end_somewhere() {
    let texels = Texels::new(image(Channels::Unsigned(8), 1, [3, 3, 1], 2), |_| 5);
    for filter in [Filter::Point, Filter::Linear] {
        for mode in [AddressMode::Wrap, AddressMode::Clamp, AddressMode::Mirror, AddressMode::Border] {
            for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN] {
                let sampler = Sampler { filter, address: [mode; 3], normalized: true, ..Sampler::default() };
                let all = [Level::Base, Level::Detail(x), Level::Gradient([x; 3], [x; 3])];
                for level in all {
                    let by_level = Lookup { level, ..lookup(Geometry::Two, [x, x, 0.0]) };
                    assert!(matches!(texels.look(&sampler, &by_level)[0], 0 | 5));
                }
            }
        }
    }
}

#[test]
fn surfaces_are_addressed_by_bytes_and_texels() {
    let image = image(Channels::Unsigned(8), 4, [10, 4, 1], 2);
    let place = |x, y| Place { geometry: Geometry::Two, at: [x, y, 0], layer: 0, texels: false };
    let at = |x, y, beyond| place(x, y).address(&image, 4, beyond);
    assert_eq!(at(8, 1, Beyond::Trap), Ok(image.address_of(0, 0, 8, 1)));
    assert_eq!(at(40, 0, Beyond::Trap), Err(NoAddress::Outside));
    assert_eq!(at(-4, 0, Beyond::Zero), Err(NoAddress::Dropped));
    assert_eq!(at(400, 9, Beyond::Clamp), Ok(image.address_of(0, 0, 36, 3)));
    assert_eq!(at(2, 0, Beyond::Trap), Err(NoAddress::Misaligned));
    let texels = Place { texels: true, ..place(3, 2) };
    assert_eq!(texels.address(&image, 4, Beyond::Trap), Ok(image.address_of(0, 0, 12, 2)));
}

#[test]
fn formatted_stores_fit_the_format() {
    let of = |channels, values: [u32; 2]| formatted(format(channels, 2), &values);
    assert_eq!(of(Channels::Unsigned(8), [300, 7])[..3], [255, 7, 0]);
    assert_eq!(of(Channels::Signed(16), [-40000i32 as u32, 5])[..4], [0, 0x80, 5, 0]);
    assert_eq!(of(Channels::Float(16), [1.5f32.to_bits(), 0])[..2], [0, 0x3e]);
}
