//! Eviction priorities of lines in L2, and the cache policies that say which line has which (PTX ISA "createpolicy",
//! "Cache Eviction Priority Hints"). A policy is 64 bits that programs do not look into; those of whole accesses are
//! the constants that CUDA's libraries contain.

use crate::line::{LINE_BYTES, line_number};
use crate::vocabulary::WARP_LANES;

/// The eviction priority that an access gives a line.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
#[repr(u8)]
pub enum Priority {
    /// That which it has.
    #[default]
    Unchanged,
    /// It is replaced in the order of use.
    Normal,
    /// It is replaced before others.
    First,
    /// It is replaced after others, as long as there is room for such lines.
    Last,
}

/// Where the priorities of an access are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Nowhere.
    #[default]
    None,
    /// In the instruction.
    Fixed(Priority),
    /// In this operand of each lane.
    Operand(u8),
}

impl Policy {
    /// The priority for a line, by the policy of the first of `lanes`.
    #[cold]
    #[inline(never)]
    pub fn priority(self, operands: Option<&[[u64; 2]; WARP_LANES]>, lanes: u32, line: u64) -> Priority {
        match (self, operands) {
            (Self::Fixed(priority), _) => priority,
            (Self::Operand(place), Some(operands)) => {
                let lane = (lanes.trailing_zeros() as usize).min(WARP_LANES - 1);
                of_line(operands[lane][usize::from(place) & 1], line)
            }
            _ => Priority::Unchanged,
        }
    }
}

/// Bits 63 to 60: the policy is by shares of lines, or by ranges of addresses.
const FRACTIONAL: u64 = 1;
const RANGE: u64 = 2;
/// Bytes that ranges begin at multiples of.
const PAGE_SHIFT: u32 = 12;
const PAGE_BITS: u32 = 36;

const fn code(priority: Priority) -> u64 {
    match priority {
        Priority::Normal => 0,
        Priority::First => 1,
        Priority::Last => 2,
        Priority::Unchanged => 3,
    }
}

const fn priority(code: u64) -> Priority {
    match code & 3 {
        0 => Priority::Normal,
        1 => Priority::First,
        2 => Priority::Last,
        _ => Priority::Unchanged,
    }
}

/// `createpolicy.fractional`: sixteenths of the lines have the primary priority. Bits 59 to 57 are the primary
/// priority, bits 55 to 52 sixteenths less one, bit 51 is 1 where the others are to go first.
pub fn fractional(primary: Priority, secondary: Priority, fraction: f32) -> u64 {
    // Of a NaN too at least one.
    let sixteenths = (fraction.clamp(0.0, 1.0) * 16.0).ceil().max(1.0) as u64;
    FRACTIONAL << 60
        | code(primary) << 57
        | (sixteenths - 1) << 52
        | u64::from(secondary == Priority::First) << 51
}

/// `createpolicy.range`: lines from `base` on have the primary priority, those around them the secondary one. Bits
/// 0 to 35 are the page of the base, then come both sizes, rounded up to four bits of precision.
pub fn range(primary: Priority, secondary: Priority, base: u64, primary_bytes: u32, total_bytes: u32) -> u64 {
    RANGE << 60
        | code(primary) << 57
        | u64::from(secondary == Priority::First) << 56
        | size_code(primary_bytes) << PAGE_BITS
        | size_code(total_bytes) << (PAGE_BITS + 9)
        | base >> PAGE_SHIFT & ((1 << PAGE_BITS) - 1)
}

/// Five bits of an exponent and four of a significand, no less than the size.
fn size_code(bytes: u32) -> u64 {
    let bytes = u64::from(bytes);
    let mut exponent = (64 - bytes.leading_zeros()).saturating_sub(4);
    let mut significand = bytes.div_ceil(1 << exponent);
    if significand == 16 {
        (significand, exponent) = (8, exponent + 1);
    }
    significand << 5 | u64::from(exponent)
}

fn size(code: u64) -> u64 {
    (code >> 5 & 15) << (code & 31)
}

/// The priority that a policy gives a line.
pub fn of_line(policy: u64, line: u64) -> Priority {
    let primary = priority(policy >> 57);
    match policy >> 60 {
        FRACTIONAL => {
            let secondary = if policy >> 51 & 1 == 1 { Priority::First } else { Priority::Unchanged };
            // Which lines they are is spread over the address space.
            let place = line_number(line).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
            if place <= policy >> 52 & 15 { primary } else { secondary }
        }
        RANGE => {
            let secondary = if policy >> 56 & 1 == 1 { Priority::First } else { Priority::Unchanged };
            let base = (policy & ((1 << PAGE_BITS) - 1)) << PAGE_SHIFT;
            let (first, all) = (size(policy >> PAGE_BITS), size(policy >> (PAGE_BITS + 9)));
            let end = line.saturating_add(LINE_BYTES.into());
            if line < base.saturating_add(first) && end > base {
                primary
            } else if line < base.saturating_add(all) && end > base.saturating_sub(all.saturating_sub(first))
            {
                secondary
            } else {
                Priority::Unchanged
            }
        }
        _ => Priority::Unchanged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_of_whole_accesses_are_those_of_libraries() {
        assert_eq!(fractional(Priority::First, Priority::Unchanged, 1.0), 0x12f0_0000_0000_0000);
        assert_eq!(fractional(Priority::Last, Priority::Unchanged, 1.0), 0x14f0_0000_0000_0000);
        for line in 0..100 {
            assert_eq!(of_line(0x12f0_0000_0000_0000, 128 * line), Priority::First);
            assert_eq!(of_line(0x14f0_0000_0000_0000, 128 * line), Priority::Last);
            assert_ne!(of_line(0x1000_0000_0000_0000, 128 * line), Priority::Last);
            assert_eq!(of_line(0, 128 * line), Priority::Unchanged);
        }
    }

    #[test]
    fn an_access_has_the_policy_of_its_first_lane() {
        let whole = |priority| fractional(priority, Priority::Unchanged, 1.0);
        let mut operands = [[0; 2]; WARP_LANES];
        (operands[1][1], operands[2][1]) = (whole(Priority::First), whole(Priority::Last));
        let of = |lanes| Policy::Operand(1).priority(Some(&operands), lanes, 0);
        assert_eq!(of(0b110), Priority::First);
        assert_eq!(of(0b100), Priority::Last);
        assert_eq!(of(0b101), Priority::Unchanged);
    }

    #[test]
    fn a_share_of_the_lines_has_the_primary_priority() {
        for sixteenths in 1..=16 {
            let policy = fractional(Priority::Last, Priority::First, sixteenths as f32 / 16.0);
            let of = |wanted| (0..16_000).filter(|line| of_line(policy, 128 * line) == wanted).count();
            let share = of(Priority::Last) as f64 / 1000.0;
            assert!((share - f64::from(sixteenths)).abs() < 0.1, "{sixteenths}: {share}");
            assert_eq!(of(Priority::Last) + of(Priority::First), 16_000);
        }
        let least = fractional(Priority::Last, Priority::First, f32::NAN);
        assert_eq!(least, fractional(Priority::Last, Priority::First, 0.01));
    }

    #[test]
    fn ranges_have_lines_before_and_behind() {
        let base = 0x7_0000_3000;
        let policy = range(Priority::Last, Priority::First, base, 8192, 20_480);
        for (offset, wanted) in [
            (0, Priority::Last),
            (8064, Priority::Last),
            (8192, Priority::First),
            (20_352, Priority::First),
            (20_480, Priority::Unchanged),
            (-128, Priority::First),
            (-12_288, Priority::First),
            (-12_416, Priority::Unchanged),
        ] {
            assert_eq!(of_line(policy, base.wrapping_add_signed(offset)), wanted, "{offset}");
        }
    }

    #[test]
    fn sizes_are_rounded_up_by_at_most_an_eighth() {
        for bytes in (0..u32::MAX).step_by(999_983).chain([0, 1, 7, 8, 9, 15, 16, 17, 31, 33, u32::MAX]) {
            let coded = size(size_code(bytes));
            assert!(
                coded >= bytes.into() && coded <= u64::from(bytes) + u64::from(bytes) / 8 + 1,
                "{bytes} {coded}"
            );
        }
    }
}
