//! L2 in two halves: what an SM reads of the other half comes through the slice of its own half that stands opposite, which
//! keeps a copy; what it writes passes through both.
//!
//! A slice and its opposite do the same work for each other: the times that a crossing takes in the opposite slice are charged
//! here, and the copies that the opposite slice keeps of this slice's lines are counted here. Copies have no bytes, only tags:
//! values are those of the slice that owns the line.

use super::Request;
use crate::divide::Divisor;
use crate::line::{ByteMask, line_number};
use crate::spec::HalvesSpec;

/// The copies of a slice's lines in the other half.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub(super) struct Halves {
    /// The half that the slice is in.
    own: u32,
    ways: usize,
    by_sets: Divisor,
    by_sms: Divisor,
    /// For each set the lines that have been used, the most recent one first, and the bytes copied.
    copies: Vec<(u64, ByteMask)>,
}

/// A way without a copy.
const NO_COPY: (u64, ByteMask) = (u64::MAX, 0);

impl Halves {
    /// For the slice of a partition, with as many sets as the slice.
    pub(super) fn new(spec: &HalvesSpec, partition: u32, sets: u32) -> Self {
        let ways = spec.copy_ways as usize;
        Self {
            own: partition % 2,
            ways,
            by_sets: Divisor::new(u64::from(sets.max(1))),
            by_sms: Divisor::new(u64::from(spec.sms)),
            copies: vec![NO_COPY; sets.max(1) as usize * ways],
        }
    }

    /// As after [`new`](Self::new).
    pub(super) fn reset(&mut self) {
        self.copies.fill(NO_COPY);
    }

    /// True if a request crosses to the slice: its SM is in the other half, and no copy there has the bytes that it reads.
    pub(super) fn crosses(&mut self, sm: u32, request: &Request) -> bool {
        let (group, _) = self.by_sms.divide(u64::from(sm));
        let other = group as u32 % 2 != self.own;
        let number = line_number(request.local);
        let (_, set) = self.by_sets.divide(number);
        let first = set as usize * self.ways;
        let ways = &mut self.copies[first..first + self.ways];
        let way = ways.iter().position(|(line, _)| *line == request.line);
        if !request.is_load {
            // The copy would be out of date.
            if let Some(way) = way {
                ways[way].1 &= !request.asked;
            }
            return other;
        }
        if !other {
            return false;
        }
        let way = way.unwrap_or_else(|| {
            let last = ways.len() - 1;
            ways[last] = (request.line, 0);
            last
        });
        ways[..=way].rotate_right(1);
        let has = &mut ways[0].1;
        let crosses = request.mask & !*has != 0;
        *has |= request.mask;
        crosses
    }
}
