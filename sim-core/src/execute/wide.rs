//! Words of 32 lanes at once, by AVX2 where the host has it. The loops beside them say what they
//! compute; the compiler makes scalar code of those, which was 1.6 times slower on `sgemm`.

use sim_frontend::program::Row;
use sim_memory::line::{LineData, offset_in_line};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use crate::instruction_set::InstructionSet;
use crate::reconvergence::Lanes;
use crate::registers::{LaneRow, read_row};
#[cfg(target_arch = "x86_64")]
use crate::vectors;

/// The least and the greatest of 32 addresses, and the bits set in any.
#[inline(always)]
pub fn span(set: InstructionSet, at: &[u32; WARP_LANES]) -> (u32, u32, u32) {
    #[cfg(target_arch = "x86_64")]
    if set != InstructionSet::Baseline {
        // SAFETY: the set is one that `InstructionSet::available` found on this host; both sets
        // hold AVX2.
        #[allow(unsafe_code, reason = "measured; see the module")]
        return unsafe { span_avx2(at) };
    }
    let _ = set;
    span_here(at)
}

fn span_here(at: &[u32; WARP_LANES]) -> (u32, u32, u32) {
    let first = (at[0], at[0], 0);
    at.iter().fold(first, |(least, most, bits), &a| (least.min(a), most.max(a), bits | a))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn span_avx2(at: &[u32; WARP_LANES]) -> (u32, u32, u32) {
    use std::arch::x86_64::*;
    let mut words = [_mm256_setzero_si256(); 4];
    for (words, at) in words.iter_mut().zip(at.as_chunks::<8>().0) {
        *words = vectors::load(at);
    }
    let [a, b, c, d] = words;
    let least = _mm256_min_epu32(_mm256_min_epu32(a, b), _mm256_min_epu32(c, d));
    let most = _mm256_max_epu32(_mm256_max_epu32(a, b), _mm256_max_epu32(c, d));
    let bits = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    let halves = |v| (_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    let (l, h) = halves(least);
    let least = _mm_min_epu32(l, h);
    let least = _mm_min_epu32(least, _mm_shuffle_epi32::<0b01_00_11_10>(least));
    let least = _mm_min_epu32(least, _mm_shuffle_epi32::<0b10_11_00_01>(least));
    let (l, h) = halves(most);
    let most = _mm_max_epu32(l, h);
    let most = _mm_max_epu32(most, _mm_shuffle_epi32::<0b01_00_11_10>(most));
    let most = _mm_max_epu32(most, _mm_shuffle_epi32::<0b10_11_00_01>(most));
    let (l, h) = halves(bits);
    let bits = _mm_or_si128(l, h);
    let bits = _mm_or_si128(bits, _mm_shuffle_epi32::<0b01_00_11_10>(bits));
    let bits = _mm_or_si128(bits, _mm_shuffle_epi32::<0b10_11_00_01>(bits));
    (_mm_cvtsi128_si32(least) as u32, _mm_cvtsi128_si32(most) as u32, _mm_cvtsi128_si32(bits) as u32)
}

/// The little-endian words at 32 byte addresses, of which `most` is the greatest; false where one lies outside. They are
/// written to `out`: behind an `Option` they would be moved word by word.
#[inline(always)]
pub fn gather(
    set: InstructionSet,
    memory: &[u8],
    at: &[u32; WARP_LANES],
    most: u32,
    out: &mut [u32; WARP_LANES],
) -> bool {
    debug_assert_eq!(span_here(at).1, most);
    if most as usize + 4 > memory.len() {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    if set != InstructionSet::Baseline {
        // SAFETY: as in `span`.
        #[allow(unsafe_code, reason = "measured; see the module")]
        return unsafe { gather_avx2(memory, at, out) };
    }
    let _ = set;
    let mut groups = at.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<8>().0);
    groups.all(|(at, out)| gather_each(memory, at, out).is_some())
}

/// Lane by lane, with bounds checks: unchecked loads (which the compiler may make vector gathers of) were within the
/// noise of these on `sgemm`.
#[inline(always)]
fn gather_each(memory: &[u8], at: &[u32; 8], out: &mut [u32; 8]) -> Option<()> {
    for lane in 0..8 {
        let at = at[lane] as usize;
        out[lane] = u32::from_le_bytes(memory.get(at..at + 4)?.try_into().ok()?);
    }
    Some(())
}

/// [`gather`], eight lanes at a time. What kernels do most are consecutive words, or the same word for all.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn gather_avx2(memory: &[u8], at: &[u32; WARP_LANES], out: &mut [u32; WARP_LANES]) -> bool {
    use std::arch::x86_64::*;
    let apart = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    for (at, out) in at.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<8>().0) {
        let all = vectors::load(at);
        let first = _mm256_set1_epi32(at[0].cast_signed());
        let start = at[0] as usize;
        let words = if _mm256_movemask_epi8(_mm256_cmpeq_epi32(all, _mm256_add_epi32(first, apart))) == -1 {
            let Some(words) = memory.get(start..).and_then(|rest| rest.first_chunk::<{ vectors::BYTES }>())
            else {
                return false;
            };
            vectors::load_bytes(words)
        } else if _mm256_movemask_epi8(_mm256_cmpeq_epi32(all, first)) == -1 {
            let Some(word) = memory.get(start..).and_then(|rest| rest.first_chunk::<4>()) else {
                return false;
            };
            _mm256_set1_epi32(i32::from_le_bytes(*word))
        } else {
            if gather_each(memory, at, out).is_none() {
                return false;
            }
            continue;
        };
        vectors::store(out, words);
    }
    true
}

/// Numbers of 64 bits whose halves lie in two rows, and `add` to each.
#[inline(always)]
pub fn pairs(
    set: InstructionSet,
    low: &[u32; WARP_LANES],
    high: &[u32; WARP_LANES],
    add: i64,
) -> [u64; WARP_LANES] {
    let mut out = [0; WARP_LANES];
    #[cfg(target_arch = "x86_64")]
    if set != InstructionSet::Baseline {
        // SAFETY: as in `span`.
        #[allow(unsafe_code, reason = "measured; see the module")]
        unsafe {
            pairs_avx2(low, high, add, &mut out);
        }
        return out;
    }
    let _ = set;
    for lane in 0..WARP_LANES {
        out[lane] = (u64::from(low[lane]) | u64::from(high[lane]) << 32).wrapping_add_signed(add);
    }
    out
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn pairs_avx2(low: &[u32; WARP_LANES], high: &[u32; WARP_LANES], add: i64, out: &mut [u64; WARP_LANES]) {
    use std::arch::x86_64::*;
    let add = _mm256_set1_epi64x(add);
    let halves = low.as_chunks::<8>().0.iter().zip(high.as_chunks::<8>().0);
    for ((low, high), out) in halves.zip(out.as_chunks_mut::<8>().0) {
        let (low, high) = (vectors::load(low), vectors::load(high));
        // Lanes 0, 1, 4 and 5, and the others.
        let (even, odd) = (_mm256_unpacklo_epi32(low, high), _mm256_unpackhi_epi32(low, high));
        let (first, second) =
            (_mm256_permute2x128_si256::<0x20>(even, odd), _mm256_permute2x128_si256::<0x31>(even, odd));
        let (to_first, to_second) = out.split_at_mut(4);
        if let (Some(to_first), Some(to_second)) = (to_first.first_chunk_mut(), to_second.first_chunk_mut()) {
            vectors::store_wide(to_first, _mm256_add_epi64(first, add));
            vectors::store_wide(to_second, _mm256_add_epi64(second, add));
        }
    }
}

/// The bits that are 1 in any of 32 numbers, and in all of them.
#[inline(always)]
pub fn any_and_all(set: InstructionSet, numbers: &[u64; WARP_LANES]) -> (u64, u64) {
    #[cfg(target_arch = "x86_64")]
    if set != InstructionSet::Baseline {
        // SAFETY: as in `span`.
        #[allow(unsafe_code, reason = "measured; see the module")]
        return unsafe { any_and_all_avx2(numbers) };
    }
    let _ = set;
    numbers.iter().fold((0, u64::MAX), |(any, all), number| (any | number, all & number))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn any_and_all_avx2(numbers: &[u64; WARP_LANES]) -> (u64, u64) {
    use std::arch::x86_64::*;
    let (mut any, mut all) = (_mm256_setzero_si256(), _mm256_set1_epi64x(-1));
    for four in numbers.as_chunks::<4>().0 {
        let four = vectors::load_wide(four);
        (any, all) = (_mm256_or_si256(any, four), _mm256_and_si256(all, four));
    }
    let halves = |v| (_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    let (low, high) = halves(any);
    let any = _mm_or_si128(low, high);
    let any = _mm_or_si128(any, _mm_unpackhi_epi64(any, any));
    let (low, high) = halves(all);
    let all = _mm_and_si128(low, high);
    let all = _mm_and_si128(all, _mm_unpackhi_epi64(all, all));
    (_mm_cvtsi128_si64(any).cast_unsigned(), _mm_cvtsi128_si64(all).cast_unsigned())
}

/// Words of a line, at the offsets of the addresses in it, for those of `lanes`.
#[inline(always)]
pub fn of_line(
    set: InstructionSet,
    line: &LineData,
    addresses: &[u64; WARP_LANES],
    lanes: LaneMask,
    to: &mut [u32; WARP_LANES],
) {
    #[cfg(target_arch = "x86_64")]
    if set != InstructionSet::Baseline {
        // SAFETY: as in `span`.
        #[allow(unsafe_code, reason = "measured; see the module")]
        return unsafe { of_line_avx2(line, addresses, lanes, to) };
    }
    let _ = set;
    for lane in Lanes(lanes) {
        let at = offset_in_line(addresses[lane as usize]) & !3;
        to[lane as usize] = u32::from_le_bytes([line[at], line[at + 1], line[at + 2], line[at + 3]]);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
fn of_line_avx2(line: &LineData, addresses: &[u64; WARP_LANES], lanes: LaneMask, to: &mut [u32; WARP_LANES]) {
    use std::arch::x86_64::*;
    let mut words = [_mm256_setzero_si256(); 4];
    for (words, bytes) in words.iter_mut().zip(line.as_chunks::<{ vectors::BYTES }>().0) {
        *words = vectors::load_bytes(bytes);
    }
    let of_group = addresses.as_chunks::<4>().0.as_chunks::<2>().0;
    for (i, ([first, second], to)) in of_group.iter().zip(to.as_chunks_mut::<8>().0).enumerate() {
        // The lower halves, in the order of lanes.
        let (first, second) = (vectors::load_wide(first), vectors::load_wide(second));
        let (first, second) = (_mm256_castsi256_ps(first), _mm256_castsi256_ps(second));
        let halves = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(first, second));
        let low = _mm256_permute4x64_epi64::<0b11_01_10_00>(halves);
        // Bits 2 to 4 of an address choose a word of eight, bits 5 and 6 the eight.
        let word = _mm256_srli_epi32::<2>(low);
        let [a, b, c, d] = words.map(|eight| _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(eight, word)));
        let odd = _mm256_castsi256_ps(_mm256_slli_epi32::<26>(low));
        let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<25>(low));
        let found = _mm256_blendv_ps(_mm256_blendv_ps(a, b, odd), _mm256_blendv_ps(c, d, odd), upper);
        let to_sign = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
        let own = _mm256_sllv_epi32(_mm256_set1_epi32((lanes >> (8 * i)).cast_signed()), to_sign);
        let before = _mm256_castsi256_ps(vectors::load(to));
        let after = _mm256_blendv_ps(before, found, _mm256_castsi256_ps(own));
        vectors::store(to, _mm256_castps_si256(after));
    }
}

/// Loads consecutive words at each lane's address, all of which lie in `memory`, into `rows`; a row that is none takes nothing.
/// Inactive lanes stand at the address of an active one.
#[inline(always)]
pub fn load(
    set: InstructionSet,
    memory: &[u8],
    registers: &mut [LaneRow],
    rows: &[Row],
    at: &[u32; WARP_LANES],
    lanes: LaneMask,
) {
    #[cfg(target_arch = "x86_64")]
    if set != InstructionSet::Baseline {
        // SAFETY: as in `span`.
        #[allow(unsafe_code, reason = "measured; see the module")]
        return unsafe { load_avx2(memory, registers, rows, at, lanes) };
    }
    let _ = set;
    load_here(InstructionSet::Baseline, memory, registers, rows, at, lanes);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
#[allow(unsafe_code, reason = "callers must have the feature")]
unsafe fn load_avx2(
    memory: &[u8],
    registers: &mut [LaneRow],
    rows: &[Row],
    at: &[u32; WARP_LANES],
    lanes: LaneMask,
) {
    load_here(InstructionSet::Avx2Fma, memory, registers, rows, at, lanes);
}

#[inline(always)]
fn load_here(
    set: InstructionSet,
    memory: &[u8],
    registers: &mut [LaneRow],
    rows: &[Row],
    at: &[u32; WARP_LANES],
    lanes: LaneMask,
) {
    let most = span_here(at).1;
    for (word, row) in rows.iter().enumerate() {
        let (Some(to), Some(memory)) = (registers.get_mut(usize::from(row.0)), memory.get(4 * word..)) else {
            continue;
        };
        let mut values = [0; WARP_LANES];
        if !gather(set, memory, at, most, &mut values) {
            continue;
        }
        for lane in 0..WARP_LANES {
            to.0[lane] = if lanes >> lane & 1 == 1 { values[lane] } else { to.0[lane] };
        }
    }
}

/// Stores `rows` as consecutive words at each lane's address; all of them lie in `memory`.
pub fn store(
    memory: &mut [u8],
    registers: &[LaneRow],
    consts: &[LaneRow],
    rows: &[Row],
    at: &[u32; WARP_LANES],
    lanes: LaneMask,
) {
    for (word, row) in rows.iter().enumerate() {
        let values = read_row(registers, consts, *row);
        for lane in Lanes(lanes) {
            let at = at[lane as usize] as usize + 4 * word;
            if let Some(to) = memory.get_mut(at..at + 4) {
                to.copy_from_slice(&values[lane as usize].to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pairs_equal_the_loop(
            low in proptest::array::uniform32(any::<u32>()),
            high in proptest::array::uniform32(any::<u32>()),
            add: i64,
        ) {
            let expected: [u64; WARP_LANES] = std::array::from_fn(|lane| {
                (u64::from(high[lane]) * (1 << 32) + u64::from(low[lane])).wrapping_add(add as u64)
            });
            for set in InstructionSet::available() {
                prop_assert_eq!(pairs(set, &low, &high, add), expected);
            }
        }

        #[test]
        fn bits_of_any_and_all_numbers(
            numbers in proptest::array::uniform32(any::<u64>()),
            common: u64,
            other in 0..WARP_LANES,
        ) {
            let mut one = [common; WARP_LANES];
            one[other] = numbers[other];
            for numbers in [one, numbers, numbers.map(|n| n | common), numbers.map(|n| n & common)] {
                for bit in 0..64 {
                    let set = numbers.iter().filter(|number| **number >> bit & 1 == 1).count();
                    for host in InstructionSet::available() {
                        let (any, all) = any_and_all(host, &numbers);
                        prop_assert_eq!((any >> bit & 1 == 1, all >> bit & 1 == 1), (set > 0, set == 32));
                    }
                }
            }
        }

        #[test]
        fn words_of_a_line_go_to_the_lanes_that_ask(
            addresses in proptest::array::uniform32(any::<u64>()),
            lanes: u32,
            bytes: u8,
        ) {
            let line: LineData = std::array::from_fn(|i| (i as u8).wrapping_mul(bytes | 1));
            let before: [u32; WARP_LANES] = std::array::from_fn(|lane| 1000 + lane as u32);
            let expected: [u32; WARP_LANES] = std::array::from_fn(|lane| {
                let at = (addresses[lane] % 128 / 4 * 4) as usize;
                let word = u32::from_le_bytes([line[at], line[at + 1], line[at + 2], line[at + 3]]);
                if lanes >> lane & 1 == 1 { word } else { before[lane] }
            });
            for set in InstructionSet::available() {
                let mut to = before;
                of_line(set, &line, &addresses, lanes, &mut to);
                prop_assert_eq!(to, expected);
            }
        }

        #[test]
        fn wide_words_equal_the_loops(
            words in proptest::collection::vec(0u32..292, 32),
            strides in proptest::collection::vec(0u32..6, 4),
            bytes: u8,
        ) {
            let memory: Vec<u8> = (0..1200u32).map(|i| (i as u8).wrapping_mul(bytes | 1)).collect();
            // Groups of eight: one word, consecutive ones, either of these but for the last lane, any.
            let at: [u32; 32] = std::array::from_fn(|lane| match strides[lane / 8] {
                stride @ 0..4 if stride < 2 || lane % 8 < 7 => {
                    (words[lane / 8 * 8] + stride % 2 * (lane as u32 % 8)) * 4
                }
                _ => words[lane] * 4,
            });
            let most = at.into_iter().max().unwrap_or(0);
            for set in InstructionSet::available() {
                prop_assert_eq!(span(set, &at), span_here(&at));
            }
            let expected = at.map(|a| {
                let a = a as usize;
                u32::from_le_bytes([memory[a], memory[a + 1], memory[a + 2], memory[a + 3]])
            });
            for set in InstructionSet::available() {
                let mut words = [0; WARP_LANES];
                prop_assert!(gather(set, &memory, &at, most, &mut words));
                prop_assert_eq!(words, expected);
                prop_assert!(!gather(set, &memory[..most as usize + 3], &at, most, &mut words));
            }
        }

        #[test]
        fn rows_of_words_are_moved_as_word_by_word(
            places in proptest::collection::vec(0usize..70, 32),
            together in 0usize..3,
            words in 1usize..5,
            lanes in 1u32..,
            sink: bool,
        ) {
            let memory: Vec<u8> = (0..70 * 16u32).map(|i| (i * 7 + i / 256) as u8).collect();
            let place = |lane: usize| [places[lane], places[0], (places[0] + lane).min(69)][together];
            let first = lanes.trailing_zeros() as usize;
            let at = std::array::from_fn(|lane| 16 * place(if lanes >> lane & 1 == 1 { lane } else { first }) as u32);
            let mut rows = [Row(3), Row(0), Row(4), Row(2)];
            if sink {
                rows[words - 1] = Row::NONE;
            }
            let before: Vec<LaneRow> =
                (0..5).map(|row| LaneRow(std::array::from_fn(|lane| row * 100 + lane as u32))).collect();
            let word = |from: &[u8], lane: usize, word: usize| {
                let at = at[lane] as usize + 4 * word;
                u32::from_le_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]])
            };
            for set in InstructionSet::available() {
                let mut registers = before.clone();
                load(set, &memory, &mut registers, &rows[..words], &at, lanes);
                for lane in 0..WARP_LANES {
                    for row in 0..5 {
                        let here = rows[..words].iter().position(|r| r.0 == row as u16);
                        let expected = match here {
                            Some(which) if lanes >> lane & 1 == 1 => word(&memory, lane, which),
                            _ => before[row].0[lane],
                        };
                        prop_assert_eq!(registers[row].0[lane], expected, "lane {} row {}", lane, row);
                    }
                }
            }
            let mut stored = memory.clone();
            rows[words - 1] = Row(1);
            store(&mut stored, &before, &[], &rows[..words], &at, lanes);
            // The highest of the lanes at one address is the last.
            for lane in Lanes(lanes).map(|lane| lane as usize) {
                let last = Lanes(lanes).filter(|l| at[*l as usize] == at[lane]).last().unwrap_or(0) as usize;
                for which in 0..words {
                    prop_assert_eq!(word(&stored, lane, which), before[usize::from(rows[which].0)].0[last]);
                }
            }
        }
    }
}
