//! Boxes and columns of interleaved tensors, element by element.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Bytes of global memory by the byte of shared memory that has them; none where it is filled.
type Bytes = BTreeMap<u32, Option<u64>>;

/// A map, coordinates, offsets, and where the box lies in shared memory.
type Copy = (TensorMap, Vec<i32>, Vec<u16>, u32);

/// Of each dimension: its size, that of the box, a step, the first coordinate.
type Axis = (u32, u32, u32, i32);

fn interleaved(axes: &[Axis], ty: u8, thick: bool, swizzle: usize, padding: u64) -> TensorMap {
    let mut map = TensorMap {
        data_type: ty,
        address: 0x4000_0000,
        sizes: axes.iter().map(|axis| axis.0).collect(),
        box_sizes: axes.iter().map(|axis| axis.1).collect(),
        element_strides: axes.iter().map(|axis| axis.2).collect(),
        interleave: if thick { 32 } else { 16 },
        swizzle: if thick { 32 } else { [0, 32, 64, 128][swizzle] },
        ..TensorMap::default()
    };
    let unit = u64::from(map.interleave);
    let mut stride = unit;
    for size in &map.sizes[1..] {
        map.strides.push(stride);
        stride = stride * u64::from(*size) + unit * padding;
    }
    // Images have all slices.
    if let Some(last) = map.strides.last_mut() {
        *last *= u64::from(map.sizes[0]);
    }
    map
}

fn boxes() -> impl Strategy<Value = Copy> {
    let axis = (1u32..9, 1u32..5, 1u32..4, -4i32..9);
    let channels = (1u32..50, 1u32..40, 1u32..4, -9i32..50);
    let axes = proptest::collection::vec(axis, 2..=4);
    (axes, channels, 0u8..13, any::<bool>(), 0usize..4, 0u64..2, 0u32..4).prop_map(
        |(mut axes, channels, ty, thick, swizzle, padding, to)| {
            axes.insert(0, channels);
            let map = interleaved(&axes, ty, thick, swizzle, padding);
            (map, axes.iter().map(|axis| axis.3).collect(), Vec::new(), to * 1024)
        },
    )
}

/// Columns whose first pixel is in the bounding box.
fn columns() -> impl Strategy<Value = Copy> {
    // Size, step, lower corner, positions of the box, the first one, offset.
    let axis = (1u32..7, 1u32..4, -3i32..2, 1i32..8, 0i32..8, 0u16..4);
    let channels = (1u32..50, 1u32..40, 1u32..4, -9i32..50);
    let axes = proptest::collection::vec(axis, 1..=3);
    (axes, channels, (1u32..4, -1i32..3), 1u32..40, 0u8..13, any::<bool>(), 0usize..4).prop_map(
        |(axes, channels, (images, image), pixels, ty, thick, swizzle)| {
            let mut all = vec![channels];
            all.extend(axes.iter().map(|axis| (axis.0, 1, axis.1, axis.2 + axis.4 % axis.3)));
            all.push((images, 1, 1, image));
            let mut map = interleaved(&all, ty, thick, swizzle, 1);
            map.box_sizes = Vec::new();
            map.im2col = Some(Im2col {
                lower: axes.iter().map(|axis| axis.2).collect(),
                upper: axes.iter().map(|axis| axis.2 + axis.3 - axis.0 as i32).collect(),
                channels: channels.1,
                pixels,
                along_w: None,
            });
            let offsets = axes.iter().map(|axis| axis.5).collect();
            (map, all.iter().map(|axis| axis.3).collect(), offsets, swizzle as u32 * 1024)
        },
    )
}

/// The byte of shared memory for one of a box, by rows of 128 bytes and chunks of 16.
fn swizzled(map: &TensorMap, place: u32) -> u32 {
    let (row, chunk, rest) = (place / 128, place % 128 / 16, place % 16);
    let moved = match map.swizzle {
        128 => row % 8,
        64 => row % 4,
        32 => row % 2,
        _ => 0,
    };
    row * 128 + (chunk ^ moved) * 16 + rest
}

/// What a box has, by the coordinates of its pixels in the order of shared memory, image by image.
fn literal(map: &TensorMap, first: i32, count: u32, images: &[Vec<Vec<i64>>], to: u32) -> Bytes {
    let element = map.element().bytes();
    let thick = map.interleave / element;
    let mut out = Bytes::new();
    let mut place = to;
    for pixels in images {
        let mut taken = 0;
        while taken < count {
            for pixel in pixels {
                for lane in 0..thick {
                    let channel = i64::from(first) + i64::from((taken + lane) * map.element_strides[0]);
                    let inside = taken + lane < count
                        && (0..i64::from(map.sizes[0])).contains(&channel)
                        && pixel
                            .iter()
                            .zip(&map.sizes[1..])
                            .all(|(at, size)| (0..i64::from(*size)).contains(at));
                    // The tensor's dimensions as memory has them: channels of a slice, W, H, D, slices, images.
                    let from = inside.then(|| {
                        let spatial = map.sizes.len() - 2;
                        let image = map.strides[spatial - 1] * u64::from(map.sizes[spatial]);
                        let (channel, thick) = (channel as u64, u64::from(thick));
                        let strides = pixel.iter().zip(&map.strides).map(|(at, stride)| *at as u64 * stride);
                        map.address
                            + channel % thick * u64::from(element)
                            + channel / thick * image
                            + strides.sum::<u64>()
                    });
                    for byte in 0..element {
                        let at = swizzled(map, place + byte);
                        assert_eq!(out.insert(at, from.map(|from| from + u64::from(byte))), None);
                    }
                    place += element;
                }
            }
            taken += thick;
        }
    }
    out
}

fn fast(map: &TensorMap, at: &[i32], offsets: &[u16], to: u32, single: bool) -> Bytes {
    let found = map.pieces(at, offsets, to, single);
    assert!(!single || found.bytes == map.element().bytes());
    let mut out = Bytes::new();
    for piece in &found.inside {
        assert!(piece.far.is_multiple_of(found.bytes.into()) && piece.near.is_multiple_of(found.bytes));
        for byte in 0..found.bytes {
            assert_eq!(out.insert(piece.near + byte, Some(piece.far + u64::from(byte))), None);
        }
    }
    for near in &found.beyond {
        for byte in 0..found.bytes {
            assert_eq!(out.insert(near + byte, None), None);
        }
    }
    out
}

/// The pixels of a box of an image, W fastest.
fn pixels(map: &TensorMap, at: &[i32], image: i64) -> Vec<Vec<i64>> {
    let axes = 1..map.sizes.len() - 1;
    let mut all: Vec<Vec<i64>> = vec![vec![image]];
    for axis in axes.rev() {
        let steps = map.box_sizes[axis].div_ceil(map.element_strides[axis]);
        all = all
            .iter()
            .flat_map(|rest| {
                (0..steps).map(move |i| {
                    let here = i64::from(at[axis]) + i64::from(i * map.element_strides[axis]);
                    [&[here], rest.as_slice()].concat()
                })
            })
            .collect();
    }
    all
}

/// The pixels of a column, one after another.
fn column(map: &TensorMap, at: &[i32], offsets: &[u16]) -> Vec<Vec<i64>> {
    let columns = map.im2col.as_ref().expect("im2col");
    let mut here: Vec<i64> = at[1..].iter().map(|at| i64::from(*at)).collect();
    let mut out = Vec::new();
    for _ in 0..columns.pixels {
        let moved = here.iter().enumerate().map(|(i, at)| at + offsets.get(i).map_or(0, |o| i64::from(*o)));
        out.push(moved.collect());
        let mut axis = 0;
        loop {
            if axis == columns.lower.len() {
                here[axis] += 1;
                break;
            }
            here[axis] += i64::from(map.element_strides[axis + 1]);
            if here[axis] < i64::from(map.sizes[axis + 1]) + i64::from(columns.upper[axis]) {
                break;
            }
            here[axis] = columns.lower[axis].into();
            axis += 1;
        }
    }
    out
}

proptest! {
    #[test]
    fn boxes_of_slices_are_copied_element_by_element((map, at, _, to) in boxes(), single in any::<bool>()) {
        prop_assert_eq!(map.check(), []);
        prop_assert_eq!(TensorMap::decode(&map.encode()), Ok(map.clone()));
        let last = map.sizes.len() - 1;
        let steps = map.box_sizes[last].div_ceil(map.element_strides[last]);
        let images: Vec<_> = (0..steps)
            .map(|i| pixels(&map, &at, i64::from(at[last]) + i64::from(i * map.element_strides[last])))
            .collect();
        let count = map.box_sizes[0].div_ceil(map.element_strides[0]);
        let expected = literal(&map, at[0], count, &images, to);
        prop_assert_eq!(expected.len() as u64, map.box_bytes());
        prop_assert_eq!(fast(&map, &at, &[], to, single), expected);
    }

    #[test]
    fn columns_of_slices_are_copied_pixel_by_pixel((map, at, offsets, to) in columns(), single in any::<bool>()) {
        prop_assert_eq!(map.check(), []);
        prop_assert_eq!(TensorMap::decode(&map.encode()), Ok(map.clone()));
        let channels = map.im2col.as_ref().expect("im2col").channels;
        let expected = literal(&map, at[0], channels, &[column(&map, &at, &offsets)], to);
        prop_assert_eq!(expected.len() as u64, map.box_bytes());
        prop_assert_eq!(fast(&map, &at, &offsets, to, single), expected);
    }
}

/// Two images of 2 by 3 pixels of 20 halves: three slices of 16 bytes, which lie one after another. A box of 12 channels
/// from the eighth on, of one row of the second image.
#[test]
fn slices_of_a_box_follow_one_another() {
    let map = TensorMap {
        interleave: 16,
        ..TensorMap::tiled("f16", 0, &[20, 3, 2, 2], &[16, 48, 288], &[12, 3, 1, 1])
    };
    assert_eq!(map.check(), []);
    let pieces = map.pieces(&[8, 0, 1, 1], &[], 512, false);
    // Slice 1, its second row, then slice 2, of which 4 channels are copied.
    assert_eq!(pieces.bytes, 8);
    let found: Vec<_> = pieces.inside.iter().map(|piece| (piece.near - 512, piece.far)).collect();
    let second = 288 + 96 + 48;
    let third = 288 + 192 + 48;
    let expected = [
        (0, second),
        (8, second + 8),
        (16, second + 16),
        (24, second + 24),
        (32, second + 32),
        (40, second + 40),
        (48, third),
        (64, third + 16),
        (80, third + 32),
    ];
    assert_eq!(found, expected);
    assert_eq!(pieces.beyond, [568, 584, 600]);
}
