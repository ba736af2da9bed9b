//! Where an element of a matrix in shared memory lies, from the canonical layouts of the PTX manual, one element at a
//! time: `wgmma`'s descriptors once more, slowly. Layouts are lists of extents and strides by dimension, as the manual
//! writes them; a swizzle exchanges single address bits.

use proptest::prelude::*;

use super::shared_matrix::{Descriptor, PIECE_BYTES};

/// A dimension of a layout: extents from the inside out, the last one open, with strides in elements.
struct Dimension(Vec<(Option<u64>, u64)>);

impl Dimension {
    fn offset(&self, mut index: u64) -> u64 {
        let mut offset = 0;
        for (extent, stride) in &self.0 {
            match extent {
                Some(extent) => {
                    offset += index % extent * stride;
                    index /= extent;
                }
                None => return offset + index * stride,
            }
        }
        assert_eq!(index, 0, "the index is within the layout");
        offset
    }
}

/// The byte in which element (`mn`, `k`) of `bits` bits begins.
fn literal(descriptor: u64, bits: u64, major_k: bool, mn: u64, k: u64) -> u64 {
    let field = |from: u64, width: u64| descriptor / 2u64.pow(from as u32) % 2u64.pow(width as u32);
    let start = field(0, 14) * 16;
    // Offsets and the unit of 128 bits, in elements.
    let (leading, stride) = (field(16, 14) * 128 / bits, field(32, 14) * 128 / bits);
    let t = 128 / bits;
    let pattern_start = field(49, 3) * 128;
    let (units, swizzled_bits) = match field(62, 2) {
        0 => (1, 0),
        1 => (8, 3),
        2 => (4, 2),
        _ => (2, 1),
    };
    let (of_mn, of_k) = match (major_k, units) {
        // ((8,m),(T,2)):((1T,SBO),(1,LBO))
        (true, 1) => (vec![(Some(8), t), (None, stride)], vec![(Some(t), 1), (None, leading)]),
        // ((8,m),(T,2)):((2T,SBO),(1,T)), and 4T, 8T; beyond the swizzle's bytes another atom follows.
        (true, _) => (
            vec![(Some(8), units * t), (None, stride)],
            vec![(Some(t), 1), (Some(units), t), (None, leading)],
        ),
        // ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
        (false, 1) => (vec![(Some(t), 1), (None, stride)], vec![(Some(8), t), (None, leading)]),
        // ((T,2,m),(8,k)):((1,T,LBO),(2T,SBO)), and 4, 8.
        (false, _) => (
            vec![(Some(t), 1), (Some(units), t), (None, leading)],
            vec![(Some(8), units * t), (None, stride)],
        ),
    };
    let offset = Dimension(of_mn).offset(mn) + Dimension(of_k).offset(k);
    let mut at = start + offset * bits / 8;
    // The swizzle counts from where its pattern begins.
    let phase = (at + 1024 - pattern_start) % 1024;
    for bit in 0..swizzled_bits {
        if phase / 2u64.pow(7 + bit) % 2 == 1 {
            let place = 2u64.pow(4 + bit);
            at = if at / place % 2 == 1 { at - place } else { at + place };
        }
    }
    at
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn pieces_lie_where_the_canonical_layouts_have_their_elements(
        (start, leading, stride) in (0u64..0x4000, 0u64..0x4000, 0u64..0x4000),
        (base, swizzle) in (0u64..8, 0u64..4),
        (mn, k) in (0u64..256, 0u64..64),
        bits in prop::sample::select(vec![8u64, 16, 32]),
    ) {
        let word = start | leading << 16 | stride << 32 | base << 49 | swizzle << 62;
        let descriptor = Descriptor::of(word);
        let t = 128 / bits;
        let within = |at: u64, inside: u64| at + inside * bits / 8;
        let along = within(descriptor.along_k(mn as u32, (k / t) as u32), k % t);
        prop_assert_eq!(along, literal(word, bits, true, mn, k));
        // Only halves may be neighbours across K.
        let across = descriptor.across_k((mn / 8) as u32, k as u32) + mn % 8 * 2;
        prop_assert_eq!(across, literal(word, 16, false, mn, k));
    }

    /// What a kernel writes by the well-known formula is what is read: rows of 128 bytes whose pieces change places.
    #[test]
    fn a_tile_of_rows_of_128_bytes(row in 0u64..64, piece in 0u64..8, tile in 0u64..16) {
        let start = tile * 8192;
        let word = start >> 4 | 1 << 16 | 64 << 32 | 1 << 62;
        let written = start + row * 128 + (piece ^ (row % 8)) * 16;
        prop_assert_eq!(Descriptor::of(word).along_k(row as u32, piece as u32), written);
        // A step along K moves the start by as many bytes.
        let step = piece / 2 * 2;
        let moved = Descriptor::of(word + step);
        prop_assert_eq!(moved.along_k(row as u32, (piece - step) as u32), written);
        prop_assert!(written % PIECE_BYTES as u64 == 0);
    }
}

/// Places by hand, from the figures of the manual: pieces of the first rows of each swizzle.
#[test]
fn places_by_hand() {
    let of = |swizzle: u64, leading: u64, stride: u64| {
        Descriptor::of(0x400 | (leading >> 4) << 16 | (stride >> 4) << 32 | swizzle << 62)
    };
    let base = 0x4000;
    // Without a swizzle: core matrices of 128 bytes in one piece.
    let none = of(0, 128, 256);
    assert_eq!(
        [none.along_k(0, 0), none.along_k(1, 0), none.along_k(0, 1), none.along_k(8, 0)],
        [base, base + 16, base + 128, base + 256]
    );
    assert_eq!(
        [none.across_k(0, 1), none.across_k(1, 0), none.across_k(0, 8)],
        [base + 16, base + 256, base + 128]
    );
    // 32 bytes: two pieces a row; those of rows 4 to 7 change places.
    let small = of(3, 16, 256);
    assert_eq!(
        [small.along_k(3, 0), small.along_k(4, 0), small.along_k(4, 1)],
        [base + 96, base + 128 + 16, base + 128]
    );
    // 64 bytes: rows 2 and 3 exchange neighbours, rows 4 and 5 pairs.
    let middle = of(2, 16, 512);
    assert_eq!(
        [middle.along_k(2, 0), middle.along_k(4, 0), middle.along_k(6, 0)],
        [base + 128 + 16, base + 256 + 32, base + 384 + 48]
    );
    // 128 bytes, across K: eight pieces of columns, then the leading offset; eight rows of K, then the stride.
    let large = of(1, 4096, 1024);
    assert_eq!(
        [large.across_k(1, 0), large.across_k(8, 0), large.across_k(0, 1), large.across_k(0, 8)],
        [base + 16, base + 4096, base + 128 + 16, base + 1024]
    );
}
