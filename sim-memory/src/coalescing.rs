//! Coalescing rules: the memory transactions that a warp's access becomes, by compute capability
//! (CUDA C Programming Guide, the sections "Global Memory" of the compute capabilities; those of
//! 1.x in its edition 4.2, appendix F.3.2).

mod lines;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::line::{ByteMask, LINE_BYTES, line_of, offset_in_line};
use crate::vocabulary::{LaneMask, WARP_LANES};
pub use lines::{LineAccess, lines, round_to_sectors};

/// How a warp's access to global memory becomes transactions, by compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Coalescing {
    /// 1.0 and 1.1: a half-warp whose thread k accesses word k of an aligned segment is one
    /// transaction (two for words of 16 bytes); any other is one of 32 bytes for each thread.
    HalfWarpInOrder,
    /// 1.2 and 1.3: one transaction for each segment that a half-warp addresses, halved while
    /// only one of its halves is used.
    HalfWarpSegments,
    /// 2.x and 3.x: 128-byte lines, for each half-warp by itself where words have 8 bytes, for
    /// each quarter where they have 16.
    Lines,
    /// Later: the lines of the whole warp, of which only the sectors asked for move.
    Sectors,
}

/// Splits an access of `size` bytes per lane into transactions, ordered by their lowest lane. Clears `out`
/// first.
#[inline]
pub fn transactions(
    rule: Coalescing,
    addresses: &[u64; WARP_LANES],
    lanes: LaneMask,
    size: u32,
    out: &mut Vec<LineAccess>,
) {
    out.clear();
    match rule {
        Coalescing::Sectors => lines(addresses, lanes, size, out),
        Coalescing::Lines if size <= 4 => lines(addresses, lanes, size, out),
        Coalescing::Lines => {
            let width = if size == 8 { 16 } else { 8 };
            for first in (0..WARP_LANES).step_by(width) {
                let part = LaneMask::MAX >> (32 - width) << first;
                lines(addresses, lanes & part, size, out);
            }
        }
        Coalescing::HalfWarpInOrder => {
            for half in [0, 16] {
                in_order(addresses, lanes & 0xffff << half, half, size, out);
            }
        }
        Coalescing::HalfWarpSegments => {
            for half in [0, 16] {
                segments(addresses, lanes & 0xffff << half, size, out);
            }
        }
    }
}

fn each(lanes: LaneMask) -> impl Iterator<Item = usize> {
    (0..WARP_LANES).filter(move |lane| lanes >> lane & 1 == 1)
}

/// A transaction of `bytes` bytes from `start` on, for `lanes`.
fn transaction(
    addresses: &[u64; WARP_LANES],
    lanes: LaneMask,
    size: u32,
    start: u64,
    bytes: u32,
) -> LineAccess {
    let run = |at: u64, bytes: u32| {
        let ones = if bytes >= LINE_BYTES { ByteMask::MAX } else { (1 << bytes) - 1 };
        ones << offset_in_line(at)
    };
    LineAccess {
        line: line_of(start),
        bytes: each(lanes).fold(0, |all, lane| all | run(addresses[lane], size)),
        lanes,
        segment: run(start, bytes),
    }
}

fn in_order(
    addresses: &[u64; WARP_LANES],
    lanes: LaneMask,
    half: usize,
    size: u32,
    out: &mut Vec<LineAccess>,
) {
    let Some(first) = each(lanes).next() else { return };
    let word = |lane: usize| (lane - half) as u64 * u64::from(size);
    let base = addresses[first].wrapping_sub(word(first));
    let whole = 16 * size;
    let coalesces = matches!(size, 4 | 8 | 16)
        && base.is_multiple_of(whole.into())
        && each(lanes).all(|lane| addresses[lane] == base.wrapping_add(word(lane)));
    if !coalesces {
        for lane in each(lanes) {
            let start = addresses[lane] & !31;
            out.push(transaction(addresses, 1 << lane, size, start, 32));
        }
        return;
    }
    let parts = whole.div_ceil(LINE_BYTES);
    let width = 16 / parts;
    for part in 0..parts {
        let own = lanes & ((1 << width) - 1) << (half as u32 + part * width);
        if own != 0 {
            let start = base + u64::from(LINE_BYTES * part);
            out.push(transaction(addresses, own, size, start, whole.min(LINE_BYTES)));
        }
    }
}

fn segments(addresses: &[u64; WARP_LANES], lanes: LaneMask, size: u32, out: &mut Vec<LineAccess>) {
    let mut left = lanes;
    while let Some(first) = each(left).next() {
        let mut bytes: u64 = match size {
            1 => 32,
            2 => 64,
            _ => 128,
        };
        let mut start = addresses[first] & !(bytes - 1);
        let served = each(left)
            .filter(|lane| addresses[*lane] & !(bytes - 1) == start)
            .fold(0, |all, lane| all | 1 << lane);
        while bytes > 32 {
            let half = bytes / 2;
            let upper = |lane: usize| addresses[lane] >= start + half;
            // A word of 16 bytes lies in one half, since it is aligned.
            let above = each(served).filter(|lane| upper(*lane)).count();
            if above == each(served).count() {
                start += half;
            } else if above != 0 {
                break;
            }
            bytes = half;
        }
        out.push(transaction(addresses, served, size, start, bytes as u32));
        left &= !served;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Start and size in bytes of each transaction, in order.
    fn of(rule: Coalescing, size: u32, lanes: LaneMask, at: impl Fn(u64) -> u64) -> Vec<(u64, u32)> {
        let addresses = std::array::from_fn(|lane| at(lane as u64));
        let mut out = Vec::new();
        transactions(rule, &addresses, lanes, size, &mut out);
        let served = out.iter().fold(0, |all, t| {
            assert_eq!(all & t.lanes, 0, "a lane is served once");
            all | t.lanes
        });
        assert_eq!(served, lanes, "every lane is served");
        out.iter()
            .map(|t| {
                assert_eq!(t.bytes & !moved(t), 0, "what is asked for moves");
                let moved = moved(t);
                (t.line + u64::from(moved.trailing_zeros()), moved.count_ones())
            })
            .collect()
    }

    /// The bytes that move. [`Coalescing::Lines`] leaves that to the caches: here whole lines.
    fn moved(t: &LineAccess) -> u128 {
        if t.segment == 0 { u128::MAX } else { t.segment }
    }

    const ALL: LaneMask = LaneMask::MAX;
    const LOW: LaneMask = 0xffff;

    /// 1.0 and 1.1. Each half-warp by itself; a permuted or misaligned one becomes 16 transactions.
    #[test]
    fn half_warps_in_order() {
        let of = |size, lanes, at: fn(u64) -> u64| of(Coalescing::HalfWarpInOrder, size, lanes, at);
        // 1: 32 words of 4 bytes from an aligned address: 64 bytes for each half-warp.
        assert_eq!(of(4, ALL, |l| 1024 + 4 * l), [(1024, 64), (1088, 64)]);
        // 2: threads that do not take part change nothing.
        assert_eq!(of(4, 0x0f0f, |l| 1024 + 4 * l), [(1024, 64)]);
        // 3: one word further: out of the segment, so 16 transactions a half-warp.
        assert_eq!(of(4, ALL, |l| 1028 + 4 * l).len(), 32);
        // 4: two threads of the first half-warp change places: only that half-warp falls apart.
        let swapped = of(4, ALL, |l| 1024 + 4 * if l < 2 { 1 - l } else { l });
        assert_eq!((swapped.len(), swapped[0], swapped[16]), (17, (1024, 32), (1088, 64)));
        // 5: one word for all: no broadcast.
        assert_eq!(of(4, LOW, |_| 1024), [(1024, 32); 16]);
        // 6: words of 8 bytes: 128 bytes for each half-warp.
        assert_eq!(of(8, ALL, |l| 1024 + 8 * l), [(1024, 128), (1152, 128)]);
        // 7: words of 16 bytes: two of 128 bytes for each half-warp.
        assert_eq!(of(16, LOW, |l| 1024 + 16 * l), [(1024, 128), (1152, 128)]);
        // 8: words of 16 bytes from an address aligned to 128 only: not the following segment.
        assert_eq!(of(16, LOW, |l| 1152 + 16 * l).len(), 16);
        // 9: words of 1 and 2 bytes never coalesce.
        assert_eq!(of(1, LOW, |l| 1024 + l).len(), 16);
        assert_eq!(of(2, LOW, |l| 1024 + 2 * l).len(), 16);
        // 10: stride 2.
        assert_eq!(of(4, LOW, |l| 1024 + 8 * l).len(), 16);
        // 11: only the upper eight threads, of 16-byte words: the second transaction alone.
        assert_eq!(of(16, 0xff00, |l| 1024 + 16 * l), [(1152, 128)]);
    }

    /// 1.2 and 1.3. Segments of 32, 64 or 128 bytes by word size, halved while half is unused.
    #[test]
    fn half_warp_segments() {
        let of = |size, lanes, at: fn(u64) -> u64| of(Coalescing::HalfWarpSegments, size, lanes, at);
        // 1: aligned words: the 128-byte segment's lower half, then the upper.
        assert_eq!(of(4, ALL, |l| 1024 + 4 * l), [(1024, 64), (1088, 64)]);
        // 2: any order within the segment.
        assert_eq!(of(4, LOW, |l| 1024 + 4 * (l ^ 15)), [(1024, 64)]);
        // 3: one word further: both halves of the segment are used.
        assert_eq!(of(4, LOW, |l| 1028 + 4 * l), [(1024, 128)]);
        // 4: across a 128-byte boundary: 8 words at the end of one, 8 at the start of the next.
        assert_eq!(of(4, LOW, |l| 1120 + 4 * l), [(1120, 32), (1152, 32)]);
        // 5: one word for all: 128 halves to 64, to 32.
        assert_eq!(of(4, LOW, |_| 1100), [(1088, 32)]);
        // 6: stride 2: the whole segment.
        assert_eq!(of(4, LOW, |l| 1024 + 8 * l), [(1024, 128)]);
        // 7: stride 32 words: a segment each, of 32 bytes.
        assert_eq!(of(4, LOW, |l| 4096 + 128 * l).len(), 16);
        assert!(of(4, LOW, |l| 4096 + 128 * l).iter().all(|t| t.1 == 32));
        // 8: bytes: segments of 32.
        assert_eq!(of(1, LOW, |l| 1030 + l), [(1024, 32)]);
        assert_eq!(of(1, LOW, |l| 1050 + l), [(1024, 32), (1056, 32)]);
        // 9: words of 2 bytes: segments of 64, halved.
        assert_eq!(of(2, LOW, |l| 1024 + 2 * l), [(1024, 32)]);
        assert_eq!(of(2, LOW, |l| 1040 + 2 * l), [(1024, 64)]);
        // Across the boundary of two such segments within one of 128: one transaction each.
        assert_eq!(of(2, LOW, |l| 1072 + 2 * l), [(1056, 32), (1088, 32)]);
        // 10: words of 8 bytes: 128 a half-warp.
        assert_eq!(of(8, ALL, |l| 1024 + 8 * l), [(1024, 128), (1152, 128)]);
        // 11: words of 16 bytes: two segments a half-warp.
        assert_eq!(of(16, LOW, |l| 1024 + 16 * l), [(1024, 128), (1152, 128)]);
        // 12: the segment of the lowest thread comes first.
        assert_eq!(of(4, LOW, |l| if l % 2 == 0 { 2048 } else { 1024 }), [(2048, 32), (1024, 32)]);
    }

    /// 2.x and 3.x. Lines of 128 bytes for a warp, its halves or its quarters.
    #[test]
    fn lines_of_a_warp_its_halves_or_quarters() {
        let of = |size, lanes, at: fn(u64) -> u64| of(Coalescing::Lines, size, lanes, at);
        let lines = |list: &[u64]| list.iter().map(|line| (*line, 128)).collect::<Vec<_>>();
        // 1: a warp of aligned words.
        assert_eq!(of(4, ALL, |l| 1024 + 4 * l), lines(&[1024]));
        // 2: in any order.
        assert_eq!(of(4, ALL, |l| 1024 + 4 * (31 - l)), lines(&[1024]));
        // 3: misaligned by a word.
        assert_eq!(of(4, ALL, |l| 1028 + 4 * l), lines(&[1024, 1152]));
        // 4: one word for all.
        assert_eq!(of(4, ALL, |_| 1100), lines(&[1024]));
        // 5: stride 2.
        assert_eq!(of(4, ALL, |l| 1024 + 8 * l), lines(&[1024, 1152]));
        // 6: a line each.
        assert_eq!(of(4, ALL, |l| 128 * l).len(), 32);
        // 7: bytes.
        assert_eq!(of(1, ALL, |l| 1024 + l), lines(&[1024]));
        // 8: words of 8 bytes: each half-warp has its line.
        assert_eq!(of(8, ALL, |l| 1024 + 8 * l), lines(&[1024, 1152]));
        // 9: the same word of 8 bytes for all: each half-warp asks.
        assert_eq!(of(8, ALL, |_| 1024), lines(&[1024, 1024]));
        // 10: words of 16 bytes: each quarter has its line.
        assert_eq!(of(16, ALL, |l| 1024 + 16 * l), lines(&[1024, 1152, 1280, 1408]));
        // 11: misaligned by a word of 8: two lines for each half-warp.
        assert_eq!(of(8, ALL, |l| 1032 + 8 * l), lines(&[1024, 1152, 1152, 1280]));
        // 12: a quarter that does not take part asks for nothing.
        assert_eq!(of(16, 0x00ff_00ff, |l| 1024 + 16 * l), lines(&[1024, 1280]));
    }

    /// Later than 3.x. Bytes that move, by sectors of 32.
    #[test]
    fn sectors_of_the_lines_of_a_warp() {
        let of = |size, lanes, at: fn(u64) -> u64| {
            let addresses = std::array::from_fn(|lane| at(lane as u64));
            let mut out = Vec::new();
            transactions(Coalescing::Sectors, &addresses, lanes, size, &mut out);
            let sectors = |t: &LineAccess| round_to_sectors(t.bytes, 32).count_ones() / 32;
            out.iter().map(|t| (t.line, sectors(t))).collect::<Vec<_>>()
        };
        // 1: aligned words: four sectors of a line.
        assert_eq!(of(4, ALL, |l| 1024 + 4 * l), [(1024, 4)]);
        // 2: misaligned by a word: one sector more.
        assert_eq!(of(4, ALL, |l| 1028 + 4 * l), [(1024, 4), (1152, 1)]);
        // 3: misaligned by a sector.
        assert_eq!(of(4, ALL, |l| 1056 + 4 * l), [(1024, 3), (1152, 1)]);
        // 4: one word for all.
        assert_eq!(of(4, ALL, |_| 1100), [(1024, 1)]);
        // 5: stride 2: all sectors, half of their bytes.
        assert_eq!(of(4, ALL, |l| 1024 + 8 * l), [(1024, 4), (1152, 4)]);
        // 6: stride 8: a sector each.
        assert_eq!(of(4, ALL, |l| 1024 + 32 * l), (0..8).map(|i| (1024 + 128 * i, 4)).collect::<Vec<_>>());
        // 7: stride 32: a line each, one sector of it.
        assert_eq!(of(4, ALL, |l| 128 * l), (0..32).map(|i| (128 * i, 1)).collect::<Vec<_>>());
        // 8: half of the warp.
        assert_eq!(of(4, LOW, |l| 1024 + 4 * l), [(1024, 2)]);
        // 9: words of 8 bytes, the same for all: once, unlike 2.x.
        assert_eq!(of(8, ALL, |_| 1024), [(1024, 1)]);
        // 10: words of 16 bytes.
        assert_eq!(of(16, ALL, |l| 1024 + 16 * l), (0..4).map(|i| (1024 + 128 * i, 4)).collect::<Vec<_>>());
        // 11: bytes.
        assert_eq!(of(1, ALL, |l| 1024 + l), [(1024, 1)]);
    }
}
