//! Splitting a warp access into lines: the bytes requested of each line and the lanes that request them.

use crate::line::{ByteMask, LINE_BYTES, line_of, offset_in_line};
use crate::vocabulary::{LaneMask, WARP_LANES};

/// The part of a warp access that lies in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct LineAccess {
    /// First address of the line.
    pub line: u64,
    /// Bytes of the line that the lanes request.
    pub bytes: ByteMask,
    /// Lanes with bytes in this line.
    pub lanes: LaneMask,
    /// Bytes to transfer if the coalescing rule determines them; 0 if the sector size of the caches does.
    pub segment: ByteMask,
}

/// Splits an access into lines, ordered by the lowest lane of each, and appends them to `out`. The address of each lane is a multiple
/// of its element's bytes, or of 4 where these are more: an element lies in one line.
#[inline]
pub fn lines(addresses: &[u64; WARP_LANES], lanes: LaneMask, element_bytes: u32, out: &mut Vec<LineAccess>) {
    debug_assert!(
        (0..WARP_LANES).all(|lane| lanes >> lane & 1 == 0
            || addresses[lane].is_multiple_of(u64::from(element_bytes.clamp(1, 4)))),
        "elements are aligned"
    );
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the host has just been asked for each of the features.
        #[allow(unsafe_code, reason = "32 addresses are compared at once")]
        unsafe {
            lines_avx2(addresses, lanes, element_bytes, out);
        }
        return;
    }
    lines_here(addresses, lanes, element_bytes, out);
}

/// True if the host has every feature that [`lines_avx2`] is compiled for.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(unsafe_code, reason = "callers must have the features")]
unsafe fn lines_avx2(
    addresses: &[u64; WARP_LANES],
    lanes: LaneMask,
    element_bytes: u32,
    out: &mut Vec<LineAccess>,
) {
    if !vectors::lines(addresses, lanes, element_bytes, out) {
        lines_here(addresses, lanes, element_bytes, out);
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::*;

    use super::*;

    /// Four addresses.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(addresses: &[u64; 4]) -> __m256i {
        // SAFETY: four words of 64 bits are read of an array of four; they need no alignment.
        #[allow(unsafe_code, reason = "vectors have no safe loads")]
        unsafe {
            _mm256_loadu_si256(addresses.as_ptr().cast())
        }
    }

    /// [`lines_here`] of words whose addresses have the same upper 32 bits; false, and nothing has been done, where they are others.
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[inline]
    pub(super) fn lines(
        addresses: &[u64; WARP_LANES],
        lanes: LaneMask,
        element_bytes: u32,
        out: &mut Vec<LineAccess>,
    ) -> bool {
        if !matches!(element_bytes, 4 | 8 | 16) {
            return false;
        }
        let (quads, mut left) = (addresses.as_chunks::<4>().0, lanes);
        let first = _mm256_set1_epi64x(addresses[first_lane(lanes)].cast_signed());
        let mut differ = _mm256_setzero_si256();
        let mut low = [_mm256_setzero_si256(); 4];
        for i in 0..4 {
            let (a, b) = (load(&quads[2 * i]), load(&quads[2 * i + 1]));
            let other = _mm256_or_si256(_mm256_xor_si256(a, first), _mm256_xor_si256(b, first));
            differ = _mm256_or_si256(differ, other);
            // The lower halves, in the order of lanes.
            let halves = _mm256_shuffle_ps::<0b10_00_10_00>(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            low[i] = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(halves));
        }
        if _mm256_testz_si256(differ, _mm256_set1_epi64x(!0xffff_ffff)) == 0 {
            return false;
        }
        // By lane: its line's lower half, and the words that it requests of it.
        let element = _mm256_set1_epi32((1 << (element_bytes / 4)) - 1);
        let (all, mut words) = (_mm256_set1_epi32(lanes.cast_signed()), low);
        for i in 0..4 {
            let offset = _mm256_srli_epi32::<2>(_mm256_and_si256(low[i], _mm256_set1_epi32(127)));
            low[i] = _mm256_andnot_si256(_mm256_set1_epi32(127), low[i]);
            let to_sign = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
            let to_sign = _mm256_sub_epi32(to_sign, _mm256_set1_epi32(8 * i as i32));
            let active = _mm256_srai_epi32::<31>(_mm256_sllv_epi32(all, to_sign));
            words[i] = _mm256_and_si256(_mm256_sllv_epi32(element, offset), active);
        }
        while left != 0 {
            let line = line_of(addresses[first_lane(left)]);
            let number = _mm256_set1_epi32(line as i32);
            let (mut same, mut found) = (0, _mm256_setzero_si256());
            for i in 0..4 {
                let here = _mm256_cmpeq_epi32(low[i], number);
                same |= _mm256_movemask_ps(_mm256_castsi256_ps(here)).cast_unsigned() << (8 * i);
                found = _mm256_or_si256(found, _mm256_and_si256(here, words[i]));
            }
            same &= left;
            out.push(LineAccess { line, bytes: bytes_of_words(found), lanes: same, segment: 0 });
            left &= !same;
        }
        true
    }

    /// The bytes of the words that any lane requests.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    fn bytes_of_words(words: __m256i) -> ByteMask {
        let half = _mm_or_si128(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
        let pair = _mm_or_si128(half, _mm_shuffle_epi32::<0b01_00_11_10>(half));
        let both = _mm_cvtsi128_si64(pair).cast_unsigned();
        let words = (both | both >> 32) & 0xffff_ffff;
        // A bit becomes four.
        let spread = |words: u64| _pdep_u64(words, 0x1111_1111_1111_1111) * 15;
        ByteMask::from(spread(words)) | ByteMask::from(spread(words >> 16)) << 64
    }
}

#[inline(always)]
fn lines_here(addresses: &[u64; WARP_LANES], lanes: LaneMask, element_bytes: u32, out: &mut Vec<LineAccess>) {
    if lanes == 0 {
        return;
    }
    let mut low = [0u32; WARP_LANES];
    for lane in 0..WARP_LANES {
        low[lane] = offset_in_line(addresses[lane]) as u32;
    }
    let first = line_of(addresses[first_lane(lanes)]);
    let mut other = 0u64;
    for lane in 0..WARP_LANES {
        // Inactive lanes count too: who holds them at an active one's address is quicker.
        other |= line_of(addresses[lane] ^ first);
    }
    if other == 0 {
        let bytes = bytes_of(&low, lanes, element_bytes);
        out.push(LineAccess { line: first, bytes, lanes, segment: 0 });
        return;
    }
    let mut left = lanes;
    // Where lines differ in 32 bits of their numbers only, these are compared.
    let near = other / u64::from(LINE_BYTES) <= u64::from(u32::MAX);
    let mut numbers = [0u32; WARP_LANES];
    for lane in 0..WARP_LANES {
        numbers[lane] = (addresses[lane] / u64::from(LINE_BYTES)) as u32;
    }
    while left != 0 {
        let lowest = first_lane(left);
        let line = line_of(addresses[lowest]);
        let mut same = 0u32;
        for lane in 0..WARP_LANES {
            same |= if numbers[lane] == numbers[lowest] { 1 << lane } else { 0 };
        }
        if !near {
            for lane in 0..WARP_LANES {
                same &= !(u32::from(line_of(addresses[lane]) != line) << lane);
            }
        }
        same &= left;
        let bytes = match same.is_power_of_two() && element_bytes < LINE_BYTES {
            true => ((1u128 << element_bytes) - 1) << low[lowest],
            false => bytes_of(&low, same, element_bytes),
        };
        out.push(LineAccess { line, bytes, lanes: same, segment: 0 });
        left &= !same;
    }
}

/// The lowest of some lanes.
#[inline(always)]
fn first_lane(lanes: LaneMask) -> usize {
    lanes.trailing_zeros() as usize % WARP_LANES
}

/// The bytes of a line that `lanes` request: `size` bytes from each lane's offset.
#[inline(always)]
fn bytes_of(low: &[u32; WARP_LANES], lanes: LaneMask, size: u32) -> ByteMask {
    if size.is_multiple_of(4) && size <= 16 {
        // Aligned words: a bit a word, then four bits for each.
        let element = (1u32 << (size / 4)) - 1;
        let mut words = 0u32;
        for lane in 0..WARP_LANES {
            let here = if lanes >> lane & 1 == 1 { element } else { 0 };
            words |= here << (low[lane] / 4);
        }
        if words == u32::MAX {
            return ByteMask::MAX;
        }
        return spread(words);
    }
    let element = if size >= LINE_BYTES { ByteMask::MAX } else { (1u128 << size) - 1 };
    let mut bytes = 0u128;
    let mut rest = lanes;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        bytes |= element << low[lane];
    }
    bytes
}

/// Expands each bit to four bits.
#[inline(always)]
fn spread(words: u32) -> ByteMask {
    let half = |bits: u32| {
        let mut x = u64::from(bits);
        x = (x | x << 24) & 0x0000_00ff_0000_00ff;
        x = (x | x << 12) & 0x000f_000f_000f_000f;
        x = (x | x << 6) & 0x0303_0303_0303_0303;
        x = (x | x << 3) & 0x1111_1111_1111_1111;
        x * 15
    };
    ByteMask::from(half(words & 0xffff)) | ByteMask::from(half(words >> 16)) << 64
}

/// Rounds a byte mask up to whole sectors of `sector_bytes`.
pub fn round_to_sectors(bytes: ByteMask, sector_bytes: u32) -> ByteMask {
    let n = sector_bytes.clamp(1, LINE_BYTES);
    if n == LINE_BYTES {
        return if bytes == 0 { 0 } else { ByteMask::MAX };
    }
    if bytes == ByteMask::MAX {
        return bytes;
    }
    let sector = (1u128 << n) - 1;
    let mut out = 0;
    for start in (0..LINE_BYTES).step_by(n as usize) {
        if bytes >> start & sector != 0 {
            out |= sector << start;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(addresses: [u64; 32], lanes: LaneMask, size: u32) -> Vec<LineAccess> {
        let mut out = Vec::new();
        lines(&addresses, lanes, size, &mut out);
        out
    }

    /// The literal definition, lane by lane.
    fn literal(addresses: &[u64; 32], lanes: LaneMask, size: u32) -> Vec<LineAccess> {
        let mut out: Vec<LineAccess> = Vec::new();
        for lane in (0..32).filter(|lane| lanes >> lane & 1 == 1) {
            let (line, at) = (addresses[lane] / 128 * 128, addresses[lane] % 128);
            let bytes = (0..u64::from(size)).fold(0u128, |bits, i| bits | 1 << (at + i));
            match out.iter_mut().find(|l| l.line == line) {
                Some(found) => (found.bytes, found.lanes) = (found.bytes | bytes, found.lanes | 1 << lane),
                None => out.push(LineAccess { line, bytes, lanes: 1 << lane, segment: 0 }),
            }
        }
        out
    }

    proptest::proptest! {
        #[test]
        fn lines_equal_the_definition_on_every_path(
            at in proptest::collection::vec(0u64..96, 32),
            lanes in proptest::prop_oneof![1 => proptest::strategy::Just(0), 4 => proptest::strategy::Just(u32::MAX), 8 => 0u32..],
            size in 0usize..5,
            base in 0u64..1 << 45,
            near: bool,
            (far, bit) in (0u32.., 32u32..41),
        ) {
            let size = [1u64, 2, 4, 8, 16][size];
            let spread = if near { 1 } else { 5 };
            // Some lanes at lines whose numbers have the same lowest 32 bits.
            let above = |l: usize| if near { 0 } else { u64::from(far >> l & 1) << bit };
            let addresses = std::array::from_fn(|l| base / 128 * 128 + at[l] * spread * size + above(l));
            let expected = literal(&addresses, lanes, size as u32);
            proptest::prop_assert_eq!(&of(addresses, lanes, size as u32), &expected);
            let mut here = Vec::new();
            lines_here(&addresses, lanes, size as u32, &mut here);
            proptest::prop_assert_eq!(here, expected);
        }
    }

    /// Every feature that a function is compiled for is detected on the host before the call.
    #[test]
    fn each_feature_that_is_enabled_is_detected() {
        let text = include_str!("lines.rs");
        let text = text.split("mod tests").next().unwrap_or_default();
        let enabled: Vec<&str> = text
            .split("target_feature(enable = \"")
            .skip(1)
            .flat_map(|rest| rest.split('"').next().unwrap_or_default().split(','))
            .collect();
        assert!(enabled.contains(&"avx2"), "{enabled:?}");
        for feature in enabled {
            assert!(text.contains(&format!("is_x86_feature_detected!(\"{feature}\")")), "{feature}");
        }
    }

    #[test]
    fn contiguous_words_are_one_line() {
        let got = of(std::array::from_fn(|l| 1024 + 4 * l as u64), u32::MAX, 4);
        assert_eq!(got, vec![LineAccess { line: 1024, bytes: u128::MAX, lanes: u32::MAX, segment: 0 }]);
    }

    #[test]
    fn misplaced_words_are_two_lines() {
        let got = of(std::array::from_fn(|l| 1028 + 4 * l as u64), u32::MAX, 4);
        assert_eq!(got.len(), 2);
        assert_eq!((got[0].line, got[0].lanes), (1024, u32::MAX >> 1));
        assert_eq!((got[1].line, got[1].bytes, got[1].lanes), (1152, 0xf, 1 << 31));
    }

    #[test]
    fn scattered_and_inactive_lanes() {
        let got = of(std::array::from_fn(|l| 128 * (l as u64 % 5)), 0x0000_ffff, 1);
        assert_eq!(got.iter().map(|l| l.line / 128).collect::<Vec<_>>(), vec![0, 1, 2, 3, 4]);
        assert_eq!(got[0].lanes, 1 | 1 << 5 | 1 << 10 | 1 << 15);
        assert_eq!(round_to_sectors(1 | 1 << 40, 32), u128::from(u64::MAX));
        assert_eq!(round_to_sectors(1, 128), u128::MAX);
    }
}
