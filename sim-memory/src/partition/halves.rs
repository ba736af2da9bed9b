//! L2 in two halves: what an SM reads of the other half comes through the slice of its own half that stands opposite, which
//! keeps a copy; what it writes passes through both.
//!
//! A slice and its opposite do the same work for each other: the times that a crossing takes in the opposite slice are charged
//! here, and the copies that the opposite slice keeps of this slice's lines are counted here. Copies have no bytes, only tags:
//! values are those of the slice that owns the line.

use super::Request;
use crate::divide::Divisor;
use crate::line::{ByteMask, line_number};
use crate::recent_lines::RecentLines;
use crate::spec::HalvesSpec;

/// The copies of a slice's lines in the other half.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub(super) struct Halves {
    /// The half that the slice is in.
    own: u32,
    by_sms: Divisor,
    /// The bytes copied of each line.
    copies: RecentLines<ByteMask>,
}

impl Halves {
    /// For the slice of a partition, with as many sets as the slice.
    pub(super) fn new(spec: &HalvesSpec, partition: u32, sets: u32) -> Self {
        Self {
            own: partition % 2,
            by_sms: Divisor::new(u64::from(spec.sms)),
            copies: RecentLines::new(sets, spec.copy_ways),
        }
    }

    /// As after [`new`](Self::new).
    pub(super) fn reset(&mut self) {
        self.copies.clear();
    }

    /// True if a request crosses to the slice: its SM is in the other half, and no copy there has the bytes that it reads.
    pub(super) fn crosses(&mut self, sm: u32, request: &Request) -> bool {
        let (group, _) = self.by_sms.divide(u64::from(sm));
        let other = group as u32 % 2 != self.own;
        let number = line_number(request.local);
        if !request.is_load {
            // The copy would be out of date.
            if let Some(copied) = self.copies.look_at(number) {
                *copied &= !request.asked;
            }
            return other;
        }
        if !other {
            return false;
        }
        if let Some(copied) = self.copies.find(number) {
            let crosses = request.mask & !*copied != 0;
            *copied |= request.mask;
            return crosses;
        }
        self.copies.insert(number, request.mask);
        request.mask != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priority::Priority;

    const SECTOR: ByteMask = (1 << 32) - 1;

    fn request(line: u64, mask: ByteMask, is_load: bool) -> Request {
        Request {
            slot: Some(0),
            local: line,
            program: 0,
            pc: 0,
            line,
            asked: mask,
            mask,
            is_load,
            priority: Priority::Unchanged,
            data: [0; crate::line::LINE_BYTES as usize],
            atomic: None,
            transaction: crate::observation::INITIAL,
            stores: None,
        }
    }

    #[test]
    fn what_was_read_by_the_other_half_has_a_copy_there_until_it_is_written() {
        let spec = HalvesSpec { latency: 120, copy_ways: 2, sms: 2 };
        // Two sets; SMs 0 and 1, 4 and 5 are of its half.
        let mut halves = Halves::new(&spec, 0, 2);
        let (line, set) = (u64::from(crate::line::LINE_BYTES), 2 * u64::from(crate::line::LINE_BYTES));
        let load = |at: u64| request(at, SECTOR, true);
        assert!(!halves.crosses(0, &load(0)) && !halves.crosses(5, &load(0)));
        assert!(halves.crosses(2, &load(0)) && !halves.crosses(3, &load(0)) && !halves.crosses(6, &load(0)));
        // Another sector, another line, and one that both cover in part.
        assert!(halves.crosses(2, &request(0, SECTOR << 32, true)));
        assert!(halves.crosses(2, &request(0, SECTOR << 32 | SECTOR << 64, true)));
        assert!(!halves.crosses(2, &request(0, SECTOR | SECTOR << 32 | SECTOR << 64, true)));
        assert!(halves.crosses(2, &load(line)));
        // Stores of the other half always cross; those of either make copies old.
        assert!(halves.crosses(2, &request(line, SECTOR, false)) && halves.crosses(2, &load(line)));
        assert!(!halves.crosses(0, &request(line, SECTOR, false)) && halves.crosses(2, &load(line)));
        // The least recently used of two ways goes.
        assert!(halves.crosses(2, &load(set)) && !halves.crosses(2, &load(0)));
        assert!(
            halves.crosses(2, &load(2 * set))
                && !halves.crosses(2, &load(0))
                && halves.crosses(2, &load(set))
        );
        halves.reset();
        assert!(halves.crosses(2, &load(0)));
        // A slice of the other half.
        let mut halves = Halves::new(&spec, 1, 2);
        assert!(halves.crosses(0, &load(0)) && !halves.crosses(2, &load(line)));
    }
}
