//! Words of 32 lanes at once, by AVX2 where the host has it. The loops beside them say what they
//! compute; the compiler makes scalar code of those, which was 1.6 times slower on `sgemm`.

use sim_frontend::program::Row;
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
