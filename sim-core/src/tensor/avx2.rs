//! Products of tiles of 16 by 8 with AVX2, to the same bits as `float` and `sums` give. Intrinsics, since compilers make vectors
//! along K of these loops, or none.
//!
//! Tiles have products here where all numbers are ordinary: nothing is infinite or NaN, and neither scales nor rounded sums
//! leave the normal numbers of single precision. Aligned terms are truncated by their conversion to integers of 32 bits, and added
//! as these. Two sums are kept, of every other four terms, so that each fits. The exponents of the sixteen rows of a column
//! are one vector of 16-bit integers, which are the upper halves of powers of two in single precision.

use std::arch::x86_64::*;

use sim_frontend::matrix::Element;

use super::float::{adder, least_exponent};
use super::fragments;
use super::integers::{aligned, overflow};
use super::scratch::{Eight, FLOATS, Lanes32, M, N, Product, RESULTS, Scratch, Tile};
use super::sums::{Adder, LEAST_HALF, Sums};
use crate::registers::LaneRow;
use crate::vectors::{self, load, store};

/// Bits below an exponent in the upper half of a single.
const FIELD: u32 = 7;
/// What the exponent of a single is biased by.
const BIAS: i32 = 127;
/// Largest exponents of a group that is added here lie within these bounds.
const ORDINARY: [i32; 2] = [-60, 100];

/// The rows of A and D, and the columns of B, that the lanes of a vector have.
const ORDER: [usize; N] = [0, 2, 4, 6, 1, 3, 5, 7];

/// Elements of B, four neighbours of a column side by side.
type Fours = [[Eight; 4]; FLOATS[1] / 4];

/// How a type's elements lie in words, and what they become singles by.
struct Form {
    ty: Element,
    /// A magnitude is moved down so far from below the sign of a word, masked, and multiplied by this power of two.
    down: i32,
    mask: i32,
    factor: f32,
    /// Greater magnitudes are infinite or NaN.
    greatest: f32,
}

/// The forms of the types that have products here, as constants of what is compiled for each. Exponents of halves move, so that
/// subnormal ones become subnormal singles, and right again by the factor.
const FORMS: [Form; 5] = {
    const HALF: f32 = f32::from_bits(0x7780_0000);
    const SMALL: f32 = f32::from_bits(0x7b80_0000);
    [
        Form { ty: Element::F16, down: 3, mask: 0x0fff_e000, factor: HALF, greatest: 65504.0 },
        Form { ty: Element::Bf16, down: 0, mask: 0x7fff_0000, factor: 1.0, greatest: f32::MAX },
        Form { ty: Element::Tf32, down: 0, mask: 0x7fff_e000, factor: 1.0, greatest: f32::MAX },
        Form { ty: Element::E4m3, down: 4, mask: 0x07f0_0000, factor: SMALL, greatest: 448.0 },
        Form { ty: Element::E5m2, down: 3, mask: 0x0fe0_0000, factor: HALF, greatest: 65504.0 },
    ]
};

impl Form {
    /// Subnormal elements have this exponent, as their sums of exponents are made of.
    const fn least(&self) -> i16 {
        ((least_exponent(self.ty) + BIAS) << FIELD) as i16
    }

    /// Subnormal elements are subnormal singles.
    const fn subnormal(&self) -> bool {
        matches!(self.ty, Element::Bf16 | Element::Tf32)
    }
}

/// The least and the greatest magnitudes so far, as bits of singles; the least less one, so that zeros do not count.
#[derive(Clone, Copy)]
struct Bounds {
    least: __m256i,
    greatest: __m256i,
}

impl Bounds {
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn new() -> Self {
        Self { least: _mm256_set1_epi32(-1), greatest: _mm256_setzero_si256() }
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn add(&mut self, magnitudes: __m256i, subnormal: bool) {
        self.greatest = _mm256_max_epi32(self.greatest, magnitudes);
        if subnormal {
            self.add_least(magnitudes);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn add_least(&mut self, magnitudes: __m256i) {
        let less = _mm256_sub_epi32(magnitudes, _mm256_set1_epi32(1));
        self.least = _mm256_min_epu32(self.least, less);
    }

    /// No magnitude is greater, none is a subnormal single.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn are_ordinary(self, greatest: f32) -> bool {
        let above = _mm256_cmpgt_epi32(self.greatest, _mm256_set1_epi32(greatest.to_bits().cast_signed()));
        let normal = _mm256_set1_epi32((1 << 23) - 1);
        let normal = _mm256_cmpeq_epi32(_mm256_max_epu32(self.least, normal), self.least);
        _mm256_testz_si256(above, above) != 0 && _mm256_movemask_epi8(normal) == -1
    }
}

/// Whether [`tiles`] has products of these types.
pub(super) fn has(product: &Product<'_>) -> bool {
    let matrix = &product.op.matrix;
    let [_, of_a, of_b, _] = matrix.types;
    let usual =
        |ty| matches!(ty, Element::F16 | Element::Bf16 | Element::Tf32 | Element::E4m3 | Element::E5m2);
    let whole = usize::from(matrix.shape.m) == M && !matrix.is_quad();
    whole && usual(of_a) && usual(of_b) && matrix.scale.is_none() && !product.by_halves()
}

/// Products of tiles of 16 by 8, and whether there are any: not where a number is not ordinary.
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn tiles(scratch: &mut Scratch, product: &Product<'_>) -> bool {
    let matrix = &product.op.matrix;
    let [a, b, c, e] = product.parts();
    let [of_d, of_a, of_b, of_c] = matrix.types;
    let adder = adder(product, true);
    let Scratch { tile, results, .. } = scratch;
    if !product.keeps_a {
        tile.ordinary_a = match of_a {
            Element::F16 => load_a::<0>(tile, a),
            Element::Bf16 => load_a::<1>(tile, a),
            Element::Tf32 => load_a::<2>(tile, a),
            Element::E4m3 => load_a::<3>(tile, a),
            Element::E5m2 => load_a::<4>(tile, a),
            _ => false,
        };
        if let Some(metadata) = e.first() {
            load_places(tile, product, metadata);
        }
    }
    let ordinary_b = match of_b {
        Element::F16 => load_b::<0>(tile, b),
        Element::Bf16 => load_b::<1>(tile, b),
        Element::Tf32 => load_b::<2>(tile, b),
        Element::E4m3 => load_b::<3>(tile, b),
        Element::E5m2 => load_b::<4>(tile, b),
        _ => false,
    };
    if !(adder.fits() && tile.ordinary_a && ordinary_b && load_c(tile, of_c, c)) {
        return false;
    }
    let depth = matrix.stored_k();
    if matrix.sparse {
        load_fours(tile, usize::from(matrix.shape.k));
    }
    let ordinary = match (matrix.sparse, matches!(adder.rounding, Sums::Half)) {
        (false, false) => add_groups::<false, false>(tile, adder, depth),
        (false, true) => add_groups::<false, true>(tile, adder, depth),
        (true, false) => add_groups::<true, false>(tile, adder, depth),
        (true, true) => add_groups::<true, true>(tile, adder, depth),
    };
    if ordinary {
        store_d(tile, of_d, results);
    }
    ordinary
}

/// Adds products by groups, whose number of elements is known when this is compiled where chips have it.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn add_groups<const SPARSE: bool, const HALF: bool>(tile: &mut Tile, adder: Adder, depth: usize) -> bool {
    let depth = depth.min(FLOATS[0]);
    match adder.group {
        4 if depth.is_multiple_of(4) => add::<SPARSE, HALF, 4>(tile, adder, depth),
        8 if depth.is_multiple_of(8) => add::<SPARSE, HALF, 8>(tile, adder, depth),
        16 if depth.is_multiple_of(16) => add::<SPARSE, HALF, 16>(tile, adder, depth),
        32 if depth.is_multiple_of(32) => add::<SPARSE, HALF, 32>(tile, adder, depth),
        _ => add::<SPARSE, HALF, 0>(tile, adder, depth),
    }
}

/// Adds products group by group, each of `GROUP` elements or of as many as the adder says, and says whether all sums are ordinary.
/// Column by column within a group: a sum of one group waits for that of the group before, and for no other.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn add<const SPARSE: bool, const HALF: bool, const GROUP: usize>(
    tile: &mut Tile,
    adder: Adder,
    depth: usize,
) -> bool {
    let [least, most] = ORDINARY.map(|exponent| _mm256_set1_epi16(((exponent + BIAS) << FIELD) as i16));
    let mut lowest = _mm256_set1_epi16(-1);
    let mut highest = _mm256_setzero_si256();
    let mut over = _mm256_setzero_si256();
    let mut first = 0;
    while first < depth {
        let count = if GROUP == 0 { adder.group.min(depth - first) } else { GROUP };
        for at in 0..N {
            let largest = largest::<SPARSE, HALF>(tile, at, first, count);
            // Zeros have none, which is not the lowest.
            lowest = _mm256_min_epu16(lowest, _mm256_sub_epi16(largest, _mm256_set1_epi16(1)));
            highest = _mm256_max_epi16(highest, largest);
            store(&mut tile.largest[at], _mm256_max_epi16(largest, least));
        }
        for at in 0..N {
            let own = add_column::<SPARSE, HALF>(tile, at, first, count, adder);
            over = _mm256_or_si256(over, own);
        }
        first += count;
    }
    let low = _mm256_cmpeq_epi16(_mm256_max_epu16(lowest, least), lowest);
    let high = _mm256_cmpgt_epi16(highest, most);
    _mm256_movemask_epi8(low) == -1
        && _mm256_testz_si256(high, high) != 0
        && _mm256_movemask_ps(_mm256_castsi256_ps(over)) == 0
}

/// The largest exponents of the sums of a column, which is lane `at` of those of B, and the products of a group.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn largest<const SPARSE: bool, const HALF: bool>(
    tile: &Tile,
    at: usize,
    first: usize,
    count: usize,
) -> __m256i {
    let [low, high] = &tile.sums[ORDER[at]];
    let mut largest = exponents([load(low), load(high)]);
    if HALF {
        let zero = _mm256_cmpeq_epi16(largest, _mm256_setzero_si256());
        // Infinite ones stay.
        let infinite = _mm256_cmpeq_epi16(largest, _mm256_set1_epi16(0x7f80));
        let least = _mm256_set1_epi16(((LEAST_HALF + BIAS) << FIELD) as i16);
        let ordinary = _mm256_max_epi16(largest, least);
        largest = _mm256_andnot_si256(_mm256_or_si256(zero, infinite), ordinary);
    }
    let group = first..first + count;
    let of_a = &tile.a_exponents[group.clone()];
    let (of_b, places) = (&tile.b_exponents[group.clone()], &tile.exponent_places[group]);
    for i in 0..count {
        let of_b = if SPARSE {
            let fours = vectors::load_twice(four(&tile.exponent_fours, first + i, at));
            _mm256_shuffle_epi8(fours, load(&places[i]))
        } else {
            _mm256_set1_epi32(of_b[i][at].cast_signed())
        };
        largest = _mm256_max_epi16(largest, _mm256_adds_epi16(load(&of_a[i]), of_b));
    }
    largest
}

/// Adds the products of a group to the sums of a column, and gives signs that say that a sum is not theirs.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn add_column<const SPARSE: bool, const HALF: bool>(
    tile: &mut Tile,
    at: usize,
    first: usize,
    count: usize,
    adder: Adder,
) -> __m256i {
    let largest = load(&tile.largest[at]);
    let column = ORDER[at];
    let zero = _mm256_setzero_si256();
    // Powers of two, and those that align to them: 2^(bits - largest).
    let powers = [_mm256_unpacklo_epi16(zero, largest), _mm256_unpackhi_epi16(zero, largest)];
    let one = _mm256_set1_epi32((adder.bits + 2 * BIAS) << 23);
    let up = [
        _mm256_castsi256_ps(_mm256_sub_epi32(one, powers[0])),
        _mm256_castsi256_ps(_mm256_sub_epi32(one, powers[1])),
    ];
    let [low, high] = &tile.sums[column];
    let mut even = [aligned(single(low), up[0]), aligned(single(high), up[1])];
    let mut odd = [zero; 2];
    let group = first..first + count;
    let group = (&tile.a[group.clone()], &tile.b[group.clone()], &tile.places[group]);
    for four in 0..count / 4 {
        for i in 4 * four..4 * four + 4 {
            let own = terms::<SPARSE>(group, i, &tile.fours, (first + i, at), up);
            even = [_mm256_add_epi32(even[0], own[0]), _mm256_add_epi32(even[1], own[1])];
        }
        (even, odd) = (odd, even);
    }
    for i in count / 4 * 4..count {
        let own = terms::<SPARSE>(group, i, &tile.fours, (first + i, at), up);
        even = [_mm256_add_epi32(even[0], own[0]), _mm256_add_epi32(even[1], own[1])];
    }
    let total = [_mm256_add_epi32(even[0], odd[0]), _mm256_add_epi32(even[1], odd[1])];
    let below = _mm256_set1_epi32(adder.bits << 23);
    for half in 0..2 {
        let down = _mm256_castsi256_ps(_mm256_sub_epi32(powers[half], below));
        let sums = if HALF {
            let sums = _mm256_mul_ps(_mm256_castsi256_ps(to_odd(total[half])), down);
            let sums = _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(sums));
            // Infinite sums stay.
            let before = single(&tile.sums[column][half]);
            let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), before);
            let infinite = _mm256_cmp_ps::<_CMP_EQ_OQ>(magnitude, _mm256_set1_ps(f32::INFINITY));
            _mm256_blendv_ps(sums, before, infinite)
        } else {
            let rounded = _mm256_and_si256(toward_zero(total[half]), _mm256_set1_epi32(adder.kept()));
            _mm256_mul_ps(_mm256_castsi256_ps(rounded), down)
        };
        store(&mut tile.sums[column][half], _mm256_castps_si256(sums));
    }
    if adder.totals_fit() {
        return zero;
    }
    let own = |i: usize| overflow(even[i], odd[i], total[i]);
    _mm256_or_si256(own(0), own(1))
}

/// The aligned products of element `i` of a group, which is number `k`, in a column.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn terms<const SPARSE: bool>(
    (of_a, of_b, places): (&[[Eight; 2]], &[Eight], &[[Eight; 2]]),
    i: usize,
    fours: &Fours,
    (k, at): (usize, usize),
    up: [__m256; 2],
) -> [__m256i; 2] {
    let [of_low, of_high] = if SPARSE {
        let fours = _mm256_castsi256_ps(vectors::load_twice(four(fours, k, at)));
        let [low, high] = &places[i];
        [_mm256_permutevar_ps(fours, load(low)), _mm256_permutevar_ps(fours, load(high))]
    } else {
        [_mm256_set1_ps(f32::from_bits(of_b[i][at])); 2]
    };
    let [low, high] = &of_a[i];
    [aligned(_mm256_mul_ps(single(low), of_low), up[0]), aligned(_mm256_mul_ps(single(high), of_high), up[1])]
}

/// The four elements of a column among which one is multiplied by element `k` of a sparse A.
#[inline(always)]
fn four(fours: &Fours, k: usize, at: usize) -> &[u32; 4] {
    &fours[k / 2][at % 4].as_chunks::<4>().0[at / 4]
}

/// The nearest singles to integers, and by how much they are greater; what 2^31 is greater than an integer is found modulo 2^32.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn nearest(total: __m256i) -> [__m256i; 2] {
    let nearest = _mm256_cvtepi32_ps(total);
    [_mm256_castps_si256(nearest), _mm256_sub_epi32(_mm256_cvttps_epi32(nearest), total)]
}

/// Integers as singles, rounded toward zero.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn toward_zero(total: __m256i) -> __m256i {
    let [nearest, greater] = nearest(total);
    // Of negative ones it is less that has a greater magnitude.
    let above = _mm256_cmpgt_epi32(_mm256_sign_epi32(greater, total), _mm256_setzero_si256());
    _mm256_add_epi32(nearest, above)
}

/// Integers as singles, rounded toward zero, and to an odd significand where they are not exact: rounded again, to fewer bits by
/// two at least, they become what the integers are rounded to.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn to_odd(total: __m256i) -> __m256i {
    let [nearest, greater] = nearest(total);
    let zero = _mm256_setzero_si256();
    let above = _mm256_cmpgt_epi32(_mm256_sign_epi32(greater, total), zero);
    let inexact = _mm256_add_epi32(_mm256_cmpeq_epi32(greater, zero), _mm256_set1_epi32(1));
    _mm256_or_si256(_mm256_add_epi32(nearest, above), inexact)
}

/// The upper halves of singles but for their significands, in the order that unpacking undoes.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn exponents([low, high]: [__m256i; 2]) -> __m256i {
    let packed = _mm256_packus_epi32(_mm256_srli_epi32::<16>(low), _mm256_srli_epi32::<16>(high));
    _mm256_and_si256(packed, _mm256_set1_epi16(0x7f80))
}

/// The same of elements: subnormal ones have the least exponent, zeros a negative one, which stays so where another is added.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn exponents_of_elements<const TY: usize>(elements: [__m256i; 2]) -> __m256i {
    let least = const { FORMS[TY].least() };
    let own = exponents(elements);
    let zero = _mm256_cmpeq_epi16(own, _mm256_setzero_si256());
    _mm256_or_si256(_mm256_max_epi16(own, _mm256_set1_epi16(least)), _mm256_slli_epi16::<15>(zero))
}

/// Element `p` of those of words as singles.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn element<const TY: usize>(words: __m256i, p: usize, bounds: &mut Bounds) -> __m256i {
    let form = const { &FORMS[TY] };
    let width = const { 32 / FORMS[TY].ty.packed() };
    let own = _mm256_sllv_epi32(words, _mm256_set1_epi32((32 - (p + 1) * width) as i32));
    let bits = _mm256_srlv_epi32(own, _mm256_set1_epi32(form.down));
    let bits = _mm256_and_si256(bits, _mm256_set1_epi32(form.mask));
    let magnitude = _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(form.factor));
    let magnitude = _mm256_castps_si256(magnitude);
    bounds.add(magnitude, form.subnormal());
    _mm256_or_si256(magnitude, _mm256_and_si256(own, _mm256_set1_epi32(i32::MIN)))
}

/// Elements of A and their exponents, and whether all are ordinary. Registers alternate between rows `g` and `g + 8`.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn load_a<const TY: usize>(tile: &mut Tile, registers: &[&Lanes32]) -> bool {
    let form = const { &FORMS[TY] };
    let packed = const { FORMS[TY].ty.packed() };
    let mut bounds = Bounds::new();
    for r in 0..registers.len() / 2 {
        let words = [by_thread(registers[2 * r]), by_thread(registers[2 * r + 1])];
        let places = 4 * packed * r..4 * packed * (r + 1);
        let (Some(values), Some(exponents)) =
            (tile.a.get_mut(places.clone()), tile.a_exponents.get_mut(places))
        else {
            return false;
        };
        for t in 0..4 {
            for p in 0..packed {
                let low = element::<TY>(words[0][t], p, &mut bounds);
                let high = element::<TY>(words[1][t], p, &mut bounds);
                store(&mut values[packed * t + p][0], low);
                store(&mut values[packed * t + p][1], high);
                store(&mut exponents[packed * t + p], exponents_of_elements::<TY>([low, high]));
            }
        }
    }
    bounds.are_ordinary(form.greatest)
}

/// Elements of B, and their exponents without a bias, each twice in a word; whether all are ordinary.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn load_b<const TY: usize>(tile: &mut Tile, registers: &[&Lanes32]) -> bool {
    let form = const { &FORMS[TY] };
    let packed = const { FORMS[TY].ty.packed() };
    let mut bounds = Bounds::new();
    let bias = _mm256_set1_epi16((BIAS << FIELD) as i16);
    for r in 0..registers.len() {
        let words = by_thread(registers[r]);
        let places = 4 * packed * r..4 * packed * (r + 1);
        let (Some(values), Some(exponents)) =
            (tile.b.get_mut(places.clone()), tile.b_exponents.get_mut(places))
        else {
            return false;
        };
        for pair in 0..2 * packed {
            let (k, next) = (2 * pair, 2 * pair + 1);
            let own = [
                element::<TY>(words[k / packed], k % packed, &mut bounds),
                element::<TY>(words[next / packed], next % packed, &mut bounds),
            ];
            store(&mut values[k], own[0]);
            store(&mut values[next], own[1]);
            let own = _mm256_subs_epi16(exponents_of_elements::<TY>(own), bias);
            store(&mut exponents[k], _mm256_unpacklo_epi16(own, own));
            store(&mut exponents[next], _mm256_unpackhi_epi16(own, own));
        }
    }
    bounds.are_ordinary(form.greatest)
}

/// The sums so far, and whether all are ordinary: of halves none is NaN, of singles none is infinite or subnormal besides. Registers
/// of halves have eight rows and pairs of columns, of singles there are two for eight rows.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn load_c(tile: &mut Tile, ty: Element, registers: &[&Lanes32]) -> bool {
    let mut bounds = Bounds::new();
    if ty == Element::F16 {
        // What an infinite half becomes, as the greatest exponent is an ordinary one of singles.
        const INFINITE: f32 = 65536.0;
        for (half, register) in registers.iter().enumerate().take(2) {
            let words = by_thread(register);
            for t in 0..4 {
                for p in 0..2 {
                    let own = element::<0>(words[t], p, &mut bounds);
                    let sign = _mm256_and_si256(own, _mm256_set1_epi32(i32::MIN));
                    let magnitude = _mm256_xor_si256(own, sign);
                    let infinite = _mm256_set1_epi32(INFINITE.to_bits().cast_signed());
                    let infinite = _mm256_cmpeq_epi32(magnitude, infinite);
                    // Exponents of infinities have all bits.
                    let infinite = _mm256_and_si256(infinite, _mm256_set1_epi32(0x7f80_0000));
                    store(&mut tile.sums[2 * t + p][half], _mm256_or_si256(own, infinite));
                }
            }
        }
        return bounds.are_ordinary(INFINITE);
    }
    for (r, register) in registers.iter().enumerate().take(4) {
        let words = by_thread(register);
        for t in 0..4 {
            // Infinities and NaN have an exponent that is too large.
            bounds.add_least(_mm256_and_si256(words[t], _mm256_set1_epi32(i32::MAX)));
            store(&mut tile.sums[2 * t + r % 2][r / 2], words[t]);
        }
    }
    bounds.are_ordinary(f32::MAX)
}

/// The registers of D.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn store_d(tile: &Tile, ty: Element, results: &mut [LaneRow; RESULTS]) {
    let pairs = ty == Element::F16;
    for (r, register) in results.iter_mut().enumerate().take(if pairs { 2 } else { 4 }) {
        let half = if pairs { r } else { r / 2 };
        let mut words = [_mm256_setzero_si256(); 4];
        for t in 0..4 {
            words[t] = if pairs {
                let own = |column: usize| {
                    let sums = single(&tile.sums[column][half]);
                    _mm256_cvtepu16_epi32(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(sums))
                };
                _mm256_or_si256(own(2 * t), _mm256_slli_epi32::<16>(own(2 * t + 1)))
            } else {
                load(&tile.sums[2 * t + r % 2][half])
            };
        }
        of_threads(words, &mut register.0);
    }
}

/// Which of four neighbours in a column of B each element of a sparse A is multiplied by: places of words, and of the bytes of
/// exponents.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn load_places(tile: &mut Tile, product: &Product<'_>, metadata: &Lanes32) {
    let matrix = &product.op.matrix;
    let words = by_thread(metadata);
    let (stored, ty) = (matrix.stored_k().min(FLOATS[0]), matrix.types[1]);
    if ty == Element::Tf32 {
        // Of two one is named by the upper bit of the first of two bits, and every other chunk has the upper two of four.
        for k in 0..stored {
            let own = |half: usize| {
                let (thread, shift) = fragments::of_chunk(ty, stored, product.op.selector, half, k);
                let named = shifted(words[thread % 4], shift + 1);
                let second = _mm256_and_si256(named, _mm256_set1_epi32(1));
                _mm256_add_epi32(second, _mm256_set1_epi32((2 * (k % 2)) as i32))
            };
            store_place(tile, k, [own(0), own(1)]);
        }
        return;
    }
    for chunk in 0..stored / 2 {
        let own = |half: usize| {
            let (thread, shift) = fragments::of_chunk(ty, stored / 2, product.op.selector, half, chunk);
            shifted(words[thread % 4], shift)
        };
        let [low, high] = [own(0), own(1)];
        let three = _mm256_set1_epi32(3);
        let first = [_mm256_and_si256(low, three), _mm256_and_si256(high, three)];
        store_place(tile, 2 * chunk, first);
        let [low, high] = [_mm256_srli_epi32::<2>(low), _mm256_srli_epi32::<2>(high)];
        let second = [_mm256_and_si256(low, three), _mm256_and_si256(high, three)];
        store_place(tile, 2 * chunk + 1, second);
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn shifted(words: __m256i, count: usize) -> __m256i {
    _mm256_srlv_epi32(words, _mm256_set1_epi32(count as i32))
}

/// The place of element `k` of each row among four.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn store_place(tile: &mut Tile, k: usize, [low, high]: [__m256i; 2]) {
    store(&mut tile.places[k][0], low);
    store(&mut tile.places[k][1], high);
    let bytes = _mm256_mullo_epi16(_mm256_packus_epi32(low, high), _mm256_set1_epi16(0x0404));
    store(&mut tile.exponent_places[k], _mm256_add_epi16(bytes, _mm256_set1_epi16(0x0100)));
}

/// Four neighbours of a column of B side by side: of lanes `i` and `i + 4` for each `i`.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn load_fours(tile: &mut Tile, depth: usize) {
    let Tile { b, b_exponents, fours, exponent_fours, .. } = tile;
    for (from, to) in [(b, fours), (b_exponents, exponent_fours)] {
        for (from, to) in from.as_chunks::<4>().0.iter().zip(to).take(depth / 4) {
            let columns = transposed([load(&from[0]), load(&from[1]), load(&from[2]), load(&from[3])]);
            for i in 0..4 {
                store(&mut to[i], columns[i]);
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn single(words: &Eight) -> __m256 {
    _mm256_castsi256_ps(load(words))
}

/// The words of threads `4 * g + t` of a register, for each `t`; `g` is in the order of [`ORDER`].
#[target_feature(enable = "avx2,fma")]
#[inline]
fn by_thread(register: &Lanes32) -> [__m256i; 4] {
    let mut rows = [_mm256_setzero_si256(); 4];
    for (row, words) in rows.iter_mut().zip(register.as_chunks::<8>().0) {
        *row = load(words);
    }
    transposed(rows)
}

/// The inverse.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn of_threads(words: [__m256i; 4], register: &mut Lanes32) {
    for (to, row) in register.as_chunks_mut::<8>().0.iter_mut().zip(&transposed(words)) {
        store(to, *row);
    }
}

/// The lower and the upper halves of vectors as matrices of four by four, transposed.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn transposed([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (of_ab, of_cd) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(of_ab, of_cd),
        _mm256_unpackhi_epi64(of_ab, of_cd),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn integers_are_rounded(
            numbers in proptest::collection::vec(proptest::prelude::any::<i32>(), 8),
            drops in proptest::collection::vec(0u32..32, 8),
            close in proptest::collection::vec(-2i32..3, 8),
        ) {
            if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
                return Ok(());
            }
            // All magnitudes, and neighbours of powers of two.
            let numbers: [i32; 8] = std::array::from_fn(|i| match drops[i] % 3 {
                0 => numbers[i] >> drops[i],
                1 => (1i32.wrapping_shl(drops[i])).wrapping_add(close[i]),
                _ => i32::MIN.wrapping_add(close[i]),
            });
            let mut rounded = [[0; 8]; 2];
            // SAFETY: the host has both features.
            #[allow(unsafe_code, reason = "vectors that not every host has")]
            unsafe {
                let words = load(&numbers.map(i32::cast_unsigned));
                store(&mut rounded[0], toward_zero(words));
                store(&mut rounded[1], to_odd(words));
            }
            for (i, number) in numbers.into_iter().enumerate() {
                let magnitude = f64::from(number).abs();
                let kept = f64::from_bits(magnitude.to_bits() & !((1 << 29) - 1));
                let expected = (kept as f32).copysign(number as f32);
                proptest::prop_assert_eq!(rounded[0][i], expected.to_bits(), "{}", number);
                let odd = u32::from(kept < magnitude);
                proptest::prop_assert_eq!(rounded[1][i], expected.to_bits() | odd, "{}", number);
            }
        }
    }
}
