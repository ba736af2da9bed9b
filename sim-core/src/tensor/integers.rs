//! Sums of a group of products as integers of 32 bits, with AVX2, to the same bits as doubles give (`sums`). Exponents of all rows
//! are one vector of 16-bit integers, values are two of single precision. Aligned terms are truncated by their conversion to
//! integers. Two sums are kept, of every other four terms, so that each fits.

use std::arch::x86_64::*;
use std::ops::Range;

use super::scratch::{M, N};
use super::sums::{Adder, LEAST, LEAST_HALF, Lanes, OF_ZERO, Others, Sums};

/// Sums whose largest exponent lies within these bounds are added here: neither scales nor rounded sums leave the
/// normal numbers of single precision.
const ORDINARY: [i16; 2] = [-60, 100];
/// Products that are zero have smaller exponents than this, and no others have.
const OF_ZEROS: i16 = -500;

impl Others<'_> {
    /// The elements of four neighbours along K from this one on.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn values_of_four(self, first: usize) -> [[__m256; 2]; 4] {
        let mut list = [[_mm256_setzero_ps(); 2]; 4];
        match self {
            Others::Column(values, _, column) => {
                for (four, values) in list.iter_mut().zip(&values[first..first + 4]) {
                    *four = [_mm256_set1_ps(values[column % N]); 2];
                }
            }
            Others::Own(lanes) => {
                for (four, values) in list.iter_mut().zip(&lanes.values[first..first + 4]) {
                    *four = split(values);
                }
            }
        }
        list
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn exponents_of_four(self, first: usize) -> [__m256i; 4] {
        let mut list = [_mm256_setzero_si256(); 4];
        match self {
            Others::Column(_, exponents, column) => {
                for (four, exponents) in list.iter_mut().zip(&exponents[first..first + 4]) {
                    *four = _mm256_set1_epi16(exponents[column % N]);
                }
            }
            Others::Own(lanes) => {
                for (four, exponents) in list.iter_mut().zip(&lanes.exponents[first..first + 4]) {
                    *four = words(exponents);
                }
            }
        }
        list
    }
}

impl Adder {
    /// Aligned terms are integers of 32 bits, and so are the sums of every other four of a group.
    pub(super) fn fits(self) -> bool {
        let terms = 4 * self.group.div_ceil(8) as u64;
        self.bits <= 25 && (terms << (self.bits + 2)) + (1 << (self.bits + 1)) <= 1 << 31
    }

    /// So are the sums of whole groups.
    pub(super) fn totals_fit(self) -> bool {
        ((self.group as u64) << (self.bits + 2)) + (1 << (self.bits + 1)) < 1 << 31
    }

    /// The bits of a single that sums keep.
    pub(super) fn kept(self) -> i32 {
        match self.rounding {
            Sums::Single(kept) => -1 << (23 - kept.min(23)),
            Sums::Half => -1,
        }
    }

    /// Adds the products of a group to the sums of a column if exponents and sums are ordinary, and says whether;
    /// otherwise nothing is changed.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn add_integers(
        self,
        sums: &mut [f32; M],
        a: Lanes<'_>,
        b: Others<'_>,
        group: Range<usize>,
    ) -> bool {
        let halves = split(sums);
        let mut largest = self.exponents(halves);
        let (fours, rest) = a.exponents[group.clone()].as_chunks::<4>();
        let mut first = group.start;
        for four in fours {
            let of_b = b.exponents_of_four(first);
            for i in 0..4 {
                largest = _mm256_max_epi16(largest, _mm256_add_epi16(words(&four[i]), of_b[i]));
            }
            first += 4;
        }
        for (i, of_a) in rest.iter().enumerate() {
            largest =
                _mm256_max_epi16(largest, _mm256_add_epi16(words(of_a), words(&b.exponents(first + i))));
        }
        let [least, most] = ORDINARY;
        let small = _mm256_and_si256(
            _mm256_cmpgt_epi16(_mm256_set1_epi16(least), largest),
            _mm256_cmpgt_epi16(largest, _mm256_set1_epi16(OF_ZEROS)),
        );
        let outside = _mm256_or_si256(_mm256_cmpgt_epi16(largest, _mm256_set1_epi16(most)), small);
        if _mm256_testz_si256(outside, outside) == 0 {
            return false;
        }
        largest = _mm256_max_epi16(largest, _mm256_set1_epi16(least));
        let largest = [
            _mm256_cvtepi16_epi32(_mm256_castsi256_si128(largest)),
            _mm256_cvtepi16_epi32(_mm256_extracti128_si256::<1>(largest)),
        ];
        let [low, high] = largest;
        let up = [
            power_of_two(_mm256_sub_epi32(_mm256_set1_epi32(self.bits), low)),
            power_of_two(_mm256_sub_epi32(_mm256_set1_epi32(self.bits), high)),
        ];
        let mut even = [aligned(halves[0], up[0]), aligned(halves[1], up[1])];
        let mut odd = [_mm256_setzero_si256(); 2];
        let (fours, rest) = a.values[group.clone()].as_chunks::<4>();
        let mut first = group.start;
        for four in fours {
            let of_b = b.values_of_four(first);
            for i in 0..4 {
                let of_a = split(&four[i]);
                let low = aligned(_mm256_mul_ps(of_a[0], of_b[i][0]), up[0]);
                let high = aligned(_mm256_mul_ps(of_a[1], of_b[i][1]), up[1]);
                even = [_mm256_add_epi32(even[0], low), _mm256_add_epi32(even[1], high)];
            }
            (even, odd) = (odd, even);
            first += 4;
        }
        for (i, of_a) in rest.iter().enumerate() {
            let (of_a, of_b) = (split(of_a), split(&b.values(first + i)));
            let low = aligned(_mm256_mul_ps(of_a[0], of_b[0]), up[0]);
            let high = aligned(_mm256_mul_ps(of_a[1], of_b[1]), up[1]);
            even = [_mm256_add_epi32(even[0], low), _mm256_add_epi32(even[1], high)];
        }
        let total = [_mm256_add_epi32(even[0], odd[0]), _mm256_add_epi32(even[1], odd[1])];
        if !self.totals_fit() {
            let overflow =
                _mm256_or_si256(overflow(even[0], odd[0], total[0]), overflow(even[1], odd[1], total[1]));
            if _mm256_movemask_ps(_mm256_castsi256_ps(overflow)) != 0 {
                return false;
            }
        }
        match self.rounding {
            Sums::Single(kept) => {
                for (half, to) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    let down = power_of_two(_mm256_sub_epi32(largest[half], _mm256_set1_epi32(self.bits)));
                    store(to, _mm256_mul_ps(toward_zero(total[half], kept as i32), down));
                }
            }
            Sums::Half => {
                for (half, to) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    let unit = _mm256_sub_epi32(largest[half], _mm256_set1_epi32(self.bits));
                    store(to, nearest_half(total[half], unit));
                }
            }
        }
        true
    }

    /// The exponents of the sums so far.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn exponents(self, sums: [__m256; 2]) -> __m256i {
        let least = if matches!(self.rounding, Sums::Half) { LEAST_HALF } else { LEAST };
        // Packed by halves of vectors.
        let packed = _mm256_packs_epi32(exponents(sums[0], least), exponents(sums[1], least));
        _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
    }
}

/// The exponents of elements.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn exponents(values: __m256, least: i32) -> __m256i {
    let magnitude = _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(i32::MAX));
    let biased = _mm256_srli_epi32::<23>(magnitude);
    let own = _mm256_max_epi32(_mm256_sub_epi32(biased, _mm256_set1_epi32(127)), _mm256_set1_epi32(least));
    let zero = _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
    _mm256_blendv_epi8(own, _mm256_set1_epi32(OF_ZERO.into()), zero)
}

/// An aligned term.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn aligned(term: __m256, up: __m256) -> __m256i {
    _mm256_cvttps_epi32(_mm256_mul_ps(term, up))
}

/// The sign says that a sum of two integers is not theirs.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn overflow(x: __m256i, y: __m256i, sum: __m256i) -> __m256i {
    _mm256_and_si256(_mm256_xor_si256(x, sum), _mm256_xor_si256(y, sum))
}

/// Two to these powers, which are exponents of normal numbers.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn power_of_two(exponent: __m256i) -> __m256 {
    let biased = _mm256_add_epi32(exponent, _mm256_set1_epi32(127));
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
}

/// Integers in single precision, rounded toward zero to so many fractional bits.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn toward_zero(total: __m256i, kept: i32) -> __m256 {
    // The least integer is its own magnitude; its conversion has another sign.
    let magnitude = _mm256_abs_epi32(total);
    let dropped = _mm256_sub_epi32(exponents_of_integers(magnitude), _mm256_set1_epi32(kept));
    let mask = _mm256_sllv_epi32(_mm256_set1_epi32(-1), _mm256_max_epi32(dropped, _mm256_setzero_si256()));
    let rounded = _mm256_cvtepi32_ps(_mm256_and_si256(magnitude, mask));
    _mm256_or_ps(rounded, sign(total))
}

/// Integers that count units of these powers of two, rounded to the nearest half.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn nearest_half(total: __m256i, unit: __m256i) -> __m256 {
    let magnitude = _mm256_abs_epi32(total);
    // Ten fractional bits, and none below 2^-24.
    let relative = _mm256_sub_epi32(exponents_of_integers(magnitude), _mm256_set1_epi32(10));
    let absolute = _mm256_sub_epi32(_mm256_set1_epi32(LEAST_HALF - 10), unit);
    let dropped = _mm256_max_epi32(relative, absolute);
    let rounds = _mm256_cmpgt_epi32(dropped, _mm256_setzero_si256());
    let dropped = _mm256_and_si256(dropped, rounds);
    let one = _mm256_set1_epi32(1);
    let odd = _mm256_and_si256(_mm256_srlv_epi32(magnitude, dropped), one);
    let below_half = _mm256_sub_epi32(_mm256_srli_epi32::<1>(_mm256_sllv_epi32(one, dropped)), one);
    let nearer = _mm256_and_si256(_mm256_add_epi32(below_half, odd), rounds);
    let mask = _mm256_sllv_epi32(_mm256_set1_epi32(-1), dropped);
    let rounded = _mm256_and_si256(_mm256_add_epi32(magnitude, nearer), mask);
    // Without the sign of what has become 2^31.
    let positive = _mm256_castsi256_ps(_mm256_set1_epi32(i32::MAX));
    let value = _mm256_mul_ps(_mm256_and_ps(_mm256_cvtepi32_ps(rounded), positive), power_of_two(unit));
    let infinite = _mm256_cmp_ps::<_CMP_GE_OQ>(value, _mm256_set1_ps(65536.0));
    _mm256_or_ps(_mm256_blendv_ps(value, _mm256_set1_ps(f32::INFINITY), infinite), sign(total))
}

/// The exponents of magnitudes, of zero -127.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn exponents_of_integers(magnitudes: __m256i) -> __m256i {
    // Without neighbours of ones a conversion does not carry into the next exponent.
    let apart = _mm256_andnot_si256(_mm256_srli_epi32::<1>(magnitudes), magnitudes);
    let bits = _mm256_castps_si256(_mm256_cvtepi32_ps(apart));
    let biased = _mm256_and_si256(_mm256_srli_epi32::<23>(bits), _mm256_set1_epi32(0xff));
    _mm256_sub_epi32(biased, _mm256_set1_epi32(127))
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn sign(integers: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_and_si256(integers, _mm256_set1_epi32(i32::MIN)))
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn split(lanes: &[f32; M]) -> [__m256; 2] {
    // SAFETY: two times eight numbers are read of an array of sixteen.
    #[allow(unsafe_code, reason = "vectors have no safe loads")]
    unsafe {
        [_mm256_loadu_ps(lanes.as_ptr()), _mm256_loadu_ps(lanes[N..].as_ptr())]
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn words(lanes: &[i16; M]) -> __m256i {
    // SAFETY: sixteen numbers are read of an array of sixteen.
    #[allow(unsafe_code, reason = "vectors have no safe loads")]
    unsafe {
        _mm256_loadu_si256(lanes.as_ptr().cast())
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn store(to: &mut [f32; 8], lanes: __m256) {
    // SAFETY: there is room for eight lanes.
    #[allow(unsafe_code, reason = "vectors have no safe stores")]
    unsafe {
        _mm256_storeu_ps(to.as_mut_ptr(), lanes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    #[test]
    fn terms_fit_where_their_sums_do() {
        let fits = |bits, group| Adder { bits, group, rounding: Sums::Single(23), integers: true }.fits();
        // Fifteen terms of less than 2^27 and a sum of less than 2^26 are the most; four at a time.
        assert_eq!([8, 16, 24, 32, 40].map(|group| fits(25, group)), [true, true, true, false, false]);
        assert_eq!([8, 32, 56, 64].map(|group| fits(24, group)), [true, true, true, false]);
        assert!(fits(13, 32) && fits(10, 1) && !fits(26, 8));
        let totals =
            |bits, group| Adder { bits, group, rounding: Sums::Single(23), integers: true }.totals_fit();
        assert_eq!([8, 15, 16].map(|group| totals(25, group)), [true, true, false]);
        assert_eq!([8, 16, 31, 32].map(|group| totals(24, group)), [true, true, true, false]);
    }

    proptest::proptest! {
        #[test]
        fn integers_are_rounded_toward_zero(
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
            let mut rounded = [0.0; 8];
            // SAFETY: the host has both features.
            #[allow(unsafe_code, reason = "vectors that not every host has")]
            unsafe {
                let words = vectors::load(&numbers.map(i32::cast_unsigned));
                store(&mut rounded, toward_zero(words, 23));
            }
            let expected = numbers.map(|number| {
                let magnitude = f64::from(number).abs();
                let kept = f64::from_bits(magnitude.to_bits() & !((1 << 29) - 1)) as f32;
                if number < 0 { -kept } else { kept }
            });
            proptest::prop_assert_eq!(rounded.map(f32::to_bits), expected.map(f32::to_bits));
        }
    }
}
