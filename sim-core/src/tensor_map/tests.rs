//! Maps against what CUDA's manual says of them, and boxes element by element.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sim_frontend::tensor_map::MapField;

use super::*;

fn maps() -> impl Strategy<Value = (TensorMap, Vec<i32>, u32)> {
    let axis = (1u32..20, 1u32..6, 1u32..4, -8i32..24);
    (proptest::collection::vec(axis, 1..=5), 0u8..13, 0u32..4, any::<bool>(), 0u32..4).prop_map(
        |(axes, data_type, swizzle, nan, to)| {
            let mut map = TensorMap {
                data_type,
                address: 0x1000_0000,
                sizes: axes.iter().map(|axis| axis.0).collect(),
                strides: Vec::new(),
                box_sizes: axes.iter().map(|axis| axis.1).collect(),
                element_strides: axes.iter().map(|axis| axis.2).collect(),
                swizzle: [0, 32, 64, 128][swizzle as usize],
                nan,
                ..TensorMap::default()
            };
            let element = map.element().bytes();
            map.nan &= map.element().is_float();
            // The innermost dimension of the box is a multiple of 16 bytes and fits the swizzle.
            map.box_sizes[0] = (16 / element) * axes[0].1.min(2);
            map.sizes[0] *= 3;
            let mut stride = u64::from(map.sizes[0] * element).next_multiple_of(16);
            for size in &map.sizes[1..] {
                map.strides.push(stride);
                stride *= u64::from(*size) + 1;
                stride = stride.next_multiple_of(16);
            }
            (map, axes.iter().map(|axis| axis.3).collect(), to * 1024)
        },
    )
}

proptest! {
    #[test]
    fn a_map_is_what_its_bytes_say((map, ..) in maps()) {
        prop_assert_eq!(map.check(), []);
        prop_assert_eq!(TensorMap::decode(&map.encode()), Ok(map));
    }

    /// Element by element, as the manual describes tiled mode: the element at coordinate `c + j * stride` of each
    /// dimension lies at place `j` of the box, the innermost dimension first; what lies beyond is filled. Swizzling
    /// by rows of 128 bytes, chunk by chunk.
    #[test]
    fn boxes_are_copied_element_by_element((map, coordinates, to) in maps(), single in any::<bool>()) {
        let element = map.element().bytes();
        // The innermost dimension has no stride of elements.
        let steps: Vec<u32> = [1].iter().chain(&map.element_strides[1..]).copied().collect();
        let counts: Vec<u32> = map.box_sizes.iter().zip(&steps).map(|(b, s)| b.div_ceil(*s)).collect();
        // For each byte of shared memory: the byte of global memory, or none.
        let mut literal: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        for number in 0..counts.iter().product::<u32>() {
            let (mut rest, mut at, mut inside) = (number, i128::from(map.address), true);
            for (axis, count) in counts.iter().enumerate() {
                let j = rest % count;
                rest /= count;
                let c = i128::from(coordinates[axis]) + i128::from(j * steps[axis]);
                inside &= c >= 0 && c < i128::from(map.sizes[axis]);
                let stride = if axis == 0 { u64::from(element) } else { map.strides[axis - 1] };
                at += c * i128::from(stride);
            }
            for byte in 0..element {
                let place = to + number * element + byte;
                let (row, chunk, rest) = (place / 128, place % 128 / 16, place % 16);
                let chunk = match map.swizzle {
                    128 => chunk ^ (row % 8),
                    64 => chunk ^ (row % 4),
                    32 => chunk ^ (row % 2),
                    _ => chunk,
                };
                let from = inside.then_some((at + i128::from(byte)) as u64);
                prop_assert_eq!(literal.insert(row * 128 + chunk * 16 + rest, from), None);
            }
        }
        let found = map.pieces(&coordinates, &[], to, single);
        let mut fast: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        for piece in &found.inside {
            prop_assert!(piece.far.is_multiple_of(found.bytes.into()));
            for byte in 0..found.bytes {
                prop_assert_eq!(fast.insert(piece.near + byte, Some(piece.far + u64::from(byte))), None);
            }
        }
        for near in &found.beyond {
            for byte in 0..found.bytes {
                prop_assert_eq!(fast.insert(near + byte, None), None);
            }
        }
        prop_assert_eq!(&fast, &literal);
        prop_assert_eq!(fast.len() as u64, map.box_bytes());
    }
}

fn columns_maps() -> impl Strategy<Value = (TensorMap, Vec<i32>, Vec<u16>, u32)> {
    // Of each axis between channels and images: size, step, lower corner, positions of the box, the first one, offset.
    let axis = (1u32..9, 1u32..4, -3i32..2, 1i32..8, 0i32..8, 0u16..4);
    let axes = proptest::collection::vec(axis, 1..=3);
    let channels = (1u32..40, 1u32..9, -3i32..9);
    (axes, channels, (1u32..4, -1i32..3), 1u32..60, 0usize..5, 0u32..4, any::<bool>()).prop_map(
        |(axes, (size, units, first), (images, image), pixels, ty, swizzle, nan)| {
            let data_type = [0, 6, 7, 8, 9][ty];
            let mut map = TensorMap { data_type, address: 0x2000_0000, nan, ..TensorMap::default() };
            let element = map.element().bytes();
            map.nan &= map.element().is_float();
            map.swizzle = [0, 32, 64, 128][swizzle as usize];
            let room = if map.swizzle == 0 { 128 } else { map.swizzle };
            let channels = (16 / element * units).min(room / element);
            map.sizes = vec![size];
            map.element_strides = vec![1];
            let (mut columns, mut at, mut offsets) = (Im2col::default(), vec![first], Vec::new());
            for (size, step, lower, positions, start, offset) in &axes {
                map.sizes.push(*size);
                map.element_strides.push(*step);
                columns.lower.push(*lower);
                columns.upper.push((lower + positions - *size as i32).clamp(-16, 15));
                at.push(lower + start % positions);
                offsets.push(*offset);
            }
            (columns.channels, columns.pixels) = (channels, pixels);
            map.sizes.push(images);
            map.element_strides.push(1);
            at.push(image);
            let mut stride = u64::from(size * element).next_multiple_of(16);
            for size in &map.sizes[1..] {
                map.strides.push(stride);
                stride = stride * u64::from(*size) + 16;
            }
            map.im2col = Some(columns);
            (map, at, offsets, swizzle * 1024)
        },
    )
}

/// The pixels of a column as the manual has them: image after image, all of the bounding box, W fastest, from the
/// coordinates on. Loops within loops, the first pass of each from where the coordinates are.
fn literal_pixels(map: &TensorMap, at: &[i32]) -> Vec<Vec<i64>> {
    fn walk(map: &TensorMap, at: &[i32], axis: usize, fresh: bool, tail: &[i64], out: &mut Vec<Vec<i64>>) {
        let columns = map.im2col.as_ref().expect("im2col");
        if axis == 0 {
            out.push(tail.to_vec());
            return;
        }
        let last = i64::from(map.sizes[axis]) - 1 + i64::from(columns.upper[axis - 1]);
        let mut here = if fresh { columns.lower[axis - 1].into() } else { i64::from(at[axis]) };
        let mut fresh = fresh;
        while here <= last && out.len() < columns.pixels as usize {
            walk(map, at, axis - 1, fresh, &[&[here], tail].concat(), out);
            here += i64::from(map.element_strides[axis]);
            fresh = true;
        }
    }
    let images = map.sizes.len() - 1;
    let pixels = map.im2col.as_ref().expect("im2col").pixels as usize;
    let mut out = Vec::new();
    let mut image = i64::from(at[images]);
    let mut fresh = false;
    while out.len() < pixels {
        walk(map, at, images - 1, fresh, &[image], &mut out);
        (image, fresh) = (image + 1, true);
    }
    out.truncate(pixels);
    out
}

proptest! {
    #[test]
    fn columns_are_copied_pixel_by_pixel((map, at, offsets, to) in columns_maps(), single in any::<bool>()) {
        let columns = map.im2col.clone().expect("im2col");
        let element = map.element().bytes();
        let has_box = columns.lower.iter().zip(&columns.upper).zip(&map.sizes[1..])
            .zip(&at[1..])
            .all(|(((lower, upper), size), at)| {
                let last = *size as i32 - 1 + upper;
                lower <= &last && *at <= last
            });
        prop_assume!(has_box);
        prop_assert_eq!(map.check(), []);
        let decoded = TensorMap::decode(&map.encode());
        prop_assert_eq!(decoded.as_ref(), Ok(&map));
        let mut literal: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        for (row, pixel) in literal_pixels(&map, &at).iter().enumerate() {
            for channel in 0..columns.channels {
                // Channels, then what the pixel has with the offsets, then the image.
                let mut place = vec![i64::from(at[0]) + i64::from(channel)];
                place.extend(pixel.iter().enumerate().map(|(axis, at)| at + offsets.get(axis).map_or(0, |o| i64::from(*o))));
                let inside = place.iter().zip(&map.sizes).all(|(at, size)| (0..i64::from(*size)).contains(at));
                let strides = [u64::from(element)].into_iter().chain(map.strides.iter().copied());
                let from = place.iter().zip(strides).fold(i128::from(map.address), |sum, (at, stride)| sum + i128::from(*at) * i128::from(stride));
                for byte in 0..element {
                    let place = to + (row as u32 * columns.channels + channel) * element + byte;
                    let (line, chunk, rest) = (place / 128, place % 128 / 16, place % 16);
                    let chunk = chunk ^ match map.swizzle { 128 => line % 8, 64 => line % 4, 32 => line % 2, _ => 0 };
                    let from = inside.then_some((from + i128::from(byte)) as u64);
                    prop_assert_eq!(literal.insert(line * 128 + chunk * 16 + rest, from), None);
                }
            }
        }
        let found = map.pieces(&at, &offsets, to, single);
        let mut fast: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        for piece in &found.inside {
            for byte in 0..found.bytes {
                prop_assert_eq!(fast.insert(piece.near + byte, Some(piece.far + u64::from(byte))), None);
            }
        }
        for near in &found.beyond {
            for byte in 0..found.bytes {
                prop_assert_eq!(fast.insert(near + byte, None), None);
            }
        }
        prop_assert_eq!(&fast, &literal);
        prop_assert_eq!(fast.len() as u64, map.box_bytes());
    }
}

/// Two dimensions of words with a box of 8 by 4.
fn words() -> TensorMap {
    TensorMap { swizzle: 32, ..TensorMap::tiled("u32", 256, &[64, 8], &[256], &[8, 4]) }
}

/// Three dimensions of halves, 4 pixels of 8 channels.
fn pixels() -> TensorMap {
    let columns = Im2col { lower: vec![-1], upper: vec![-1], channels: 8, pixels: 4, along_w: None };
    let map = TensorMap::tiled("f16", 256, &[64, 8, 2], &[128, 1024], &[]);
    TensorMap { im2col: Some(columns), ..map }
}

/// A change of a map, the part that is wrong then, and words of why.
type Change = (fn(&mut TensorMap), Part, &'static str);

#[track_caller]
fn all_refused(good: &TensorMap, wrong: &[Change]) {
    assert_eq!(good.check(), []);
    assert_eq!(TensorMap::decode(&good.encode()).as_ref(), Ok(good));
    for (change, part, words) in wrong {
        let mut map = good.clone();
        change(&mut map);
        let found = map.check();
        assert!(
            found.iter().any(|wrong| wrong.part == *part && wrong.reason.contains(words)),
            "{words}: {found:?}"
        );
    }
}

/// The limits of `cuTensorMapEncodeTiled`, one after another.
#[test]
fn tiled_maps_that_cuda_refuses_are_wrong() {
    let wrong: [Change; 21] = [
        (|m| m.data_type = 13, Part::Type, "no type of elements 13"),
        (|m| m.sizes.clear(), Part::Dims, "1 to 5 dimensions, not 0"),
        (|m| m.sizes = vec![1; 6], Part::Dims, "1 to 5 dimensions, not 6"),
        (|m| m.interleave = 16, Part::Dims, "3 to 5 dimensions, not 2"),
        (|m| m.address = 8, Part::Address, "no multiple of 16"),
        (|m| (m.interleave, m.address) = (32, 16), Part::Address, "no multiple of 32"),
        (|m| m.sizes[1] = 0, Part::Dims, "not 0"),
        (|m| m.sizes[1] = (1 << 31) + 1, Part::Dims, "1 to 2147483648"),
        (|m| m.strides[0] = 24, Part::Strides, "a stride of 24 bytes"),
        (|m| m.strides[0] = 1 << 40, Part::Strides, "below 2^40"),
        (|m| (m.interleave, m.strides[0]) = (32, 48), Part::Strides, "no multiple of 32"),
        (|m| m.strides.clear(), Part::Strides, "one less than dimensions"),
        (|m| m.box_sizes[1] = 257, Part::Box, "1 to 256"),
        (|m| m.box_sizes[1] = 0, Part::Box, "1 to 256"),
        (|m| m.box_sizes[0] = 6, Part::Box, "24 bytes, which is no multiple of 16"),
        (|m| m.box_sizes[0] = 16, Part::Box, "more than the swizzle's 32"),
        (|m| m.element_strides[1] = 9, Part::ElementStrides, "1 to 8"),
        (|m| m.element_strides[1] = 0, Part::ElementStrides, "1 to 8"),
        (|m| (m.interleave, m.swizzle) = (32, 64), Part::Swizzle, "needs a swizzle of 32 bytes"),
        (|m| m.swizzle = 16, Part::Swizzle, "no swizzle of 16"),
        (|m| m.nan = true, Part::Fill, "cannot be NaN"),
    ];
    all_refused(&words(), &wrong);
    // The stride of the innermost dimension is ignored; two maps differ by what L2 fetches.
    let odd = TensorMap { element_strides: vec![2, 1], promotion: 256, ..words() };
    all_refused(&odd, &[(|m| m.promotion = 32, Part::Promotion, "64, 128 or 256")]);
    assert_eq!(odd.box_bytes(), words().box_bytes());
    assert!(TensorMap::decode(&[0; BYTES]).expect_err("none").contains("no tensor map"));
    // More bytes than a number of 32 bits has.
    let large = TensorMap::tiled("u32", 256, &[256; 5], &[1024; 4], &[256; 5]);
    assert_eq!(large.box_bytes(), 1 << 42);
    // Whatever is wrong is told at once.
    let all = TensorMap { address: 8, box_sizes: vec![6, 0], nan: true, ..words() }.check();
    let parts: Vec<Part> = all.iter().map(|wrong| wrong.part).collect();
    assert_eq!(parts, [Part::Address, Part::Box, Part::Box, Part::Fill]);
}

/// The limits that `cuTensorMapEncodeIm2col` has beside them.
#[test]
fn maps_of_columns_that_cuda_refuses_are_wrong() {
    fn columns(m: &mut TensorMap) -> &mut Im2col {
        m.im2col.as_mut().expect("it has some")
    }
    let wrong: [Change; 8] = [
        (|m| (m.sizes, m.strides) = (vec![64, 8], vec![128]), Part::Dims, "3 to 5 dimensions, not 2"),
        (|m| columns(m).channels = 257, Part::Im2col, "channels of a pixel is 1 to 256"),
        (|m| columns(m).pixels = 1025, Part::Im2col, "pixels of a column is 1 to 1024"),
        (|m| columns(m).pixels = 0, Part::Im2col, "1 to 1024, not 0"),
        (|m| columns(m).lower = vec![0, 0], Part::Im2col, "has 1 offsets, not 2"),
        (|m| columns(m).lower = vec![-32769], Part::Im2col, "-32768 to 32767, not -32769"),
        (|m| columns(m).upper = vec![-9], Part::Im2col, "no pixel"),
        (
            |m| (m.swizzle, columns(m).channels) = (32, 17),
            Part::Im2col,
            "34 bytes, more than the swizzle's 32",
        ),
    ];
    all_refused(&pixels(), &wrong);
    let deep = TensorMap {
        im2col: Some(Im2col {
            lower: vec![-16, 0, 15],
            upper: vec![0, 1, 15],
            channels: 256,
            pixels: 1024,
            along_w: None,
        }),
        ..TensorMap::tiled("u8", 256, &[512, 40, 40, 40, 3], &[512, 20480, 819_200, 32_768_000], &[])
    };
    all_refused(&deep, &[(|m| columns(m).upper[1] = 16, Part::Im2col, "-16 to 15, not 16")]);
}

/// An interleaved tensor's box is whole slices, whose bytes nothing else bounds.
#[test]
fn interleaved_maps_have_limits_of_their_own() {
    let slices = TensorMap {
        interleave: 32,
        swizzle: 32,
        ..TensorMap::tiled("f16", 256, &[40, 8, 2], &[32, 768], &[6, 4, 1])
    };
    let wrong: [Change; 5] = [
        (|m| (m.sizes, m.strides) = (vec![64, 8], vec![128]), Part::Dims, "an interleaved tensor has 3 to 5"),
        (|m| m.address = 16, Part::Address, "no multiple of 32"),
        (|m| m.strides[1] = 784, Part::Strides, "no multiple of 32"),
        (|m| m.swizzle = 0, Part::Swizzle, "needs a swizzle of 32 bytes, not 0"),
        (|m| m.interleave = 64, Part::Interleave, "no interleave of 64"),
    ];
    all_refused(&slices, &wrong);
    // 6 channels are one slice, 17 are two; every third of 36 is 12, one slice.
    assert_eq!((slices.box_bytes(), slices.slices(17), slices.slice_stride()), (128, 2, 256));
    let sparse = TensorMap { box_sizes: vec![36, 4, 1], element_strides: vec![3, 1, 1], ..slices.clone() };
    assert_eq!(sparse.box_bytes(), 128);
    let sixteen = TensorMap { interleave: 16, swizzle: 128, atom: Atom::B32, address: 16, ..slices.clone() };
    assert_eq!((sixteen.check(), sixteen.slices(17), sixteen.box_bytes()), (vec![], 3, 64));
    let along = Im2col { lower: vec![-1], upper: vec![-1], channels: 17, pixels: 5, along_w: None };
    let columns = TensorMap { im2col: Some(along), box_sizes: vec![], ..slices };
    assert_eq!((columns.check(), columns.box_bytes()), (vec![], 320));
    let mut wide = columns;
    wide.im2col.as_mut().expect("im2col").along_w = Some(AlongW::Column);
    assert!(wide.check().iter().any(|wrong| wrong.part == Part::Interleave), "{:?}", wide.check());
}

/// Types as `tensormap.replace` numbers them (PTX ISA, table of its values).
#[test]
fn types_of_the_instruction_become_those_of_maps() {
    let order =
        ["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16", "tf32", "tf32_ftz"];
    for (number, name) in (0u64..).zip(order) {
        let value = MapField::Type.value(number).expect("a type");
        assert_eq!(TYPES[value as usize].0, name);
    }
    assert_eq!(MapField::Type.value(13), None);
}
