//! Coalescing: the lines an access touches, the bytes asked of each, and the lanes that ask.

use crate::vocabulary::LaneMask;

/// The part of a warp access that falls into one 128-byte line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess {
    /// First address of the line.
    pub line: u64,
    /// Bytes asked for.
    pub bytes: u128,
    /// Lanes that ask.
    pub lanes: LaneMask,
}

/// Splits an access into lines, in the order of the lowest lane of each.
#[inline]
pub fn lines(addresses: &[u64; 32], lanes: LaneMask, element_bytes: u32, mut each: impl FnMut(LineAccess)) {
    let element = if element_bytes >= 128 { u128::MAX } else { (1u128 << element_bytes) - 1 };
    let mut left = lanes;
    while left != 0 {
        let line = addresses[left.trailing_zeros() as usize] & !127;
        let mut same = 0u32;
        for lane in 0..32 {
            same |= u32::from(addresses[lane] & !127 == line) << lane;
        }
        same &= left;
        let mut bytes = 0u128;
        let mut rest = same;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            bytes |= element << (addresses[lane] & 127);
        }
        each(LineAccess { line, bytes, lanes: same });
        left &= !same;
    }
}

/// The bytes of all sectors of `sector_bytes` that `bytes` touches.
pub fn round_to_sectors(bytes: u128, sector_bytes: u32) -> u128 {
    let n = sector_bytes.clamp(1, 128);
    if n == 128 {
        return if bytes == 0 { 0 } else { u128::MAX };
    }
    let sector = (1u128 << n) - 1;
    let mut out = 0;
    for start in (0..128).step_by(n as usize) {
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
        lines(&addresses, lanes, size, |l| out.push(l));
        out
    }

    #[test]
    fn contiguous_words_are_one_line() {
        let got = of(std::array::from_fn(|l| 1024 + 4 * l as u64), u32::MAX, 4);
        assert_eq!(got, vec![LineAccess { line: 1024, bytes: u128::MAX, lanes: u32::MAX }]);
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
