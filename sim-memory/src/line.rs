//! Cache lines: their size, the position of an address in its line, and byte masks.

/// Bytes of a cache line, at every level and on every chip.
pub const LINE_BYTES: u32 = 128;

/// The data of a line.
pub type LineData = [u8; LINE_BYTES as usize];

/// A set of bytes of a line; bit `i` stands for byte `i`.
pub type ByteMask = u128;

/// First address of the line that holds `address`.
#[inline(always)]
pub const fn line_of(address: u64) -> u64 {
    address & !(LINE_BYTES as u64 - 1)
}

/// Number of the line that holds `address`, counted from address 0.
#[inline(always)]
pub const fn line_number(address: u64) -> u64 {
    address / LINE_BYTES as u64
}

/// Offset of `address` in its line, in bytes.
#[inline(always)]
pub const fn offset_in_line(address: u64) -> usize {
    (address & (LINE_BYTES as u64 - 1)) as usize
}

/// The number of bytes in a mask. Most masks are whole lines, and to count 128 bits takes hosts without an instruction
/// for it long.
#[inline]
pub const fn bytes_in(mask: ByteMask) -> u32 {
    if mask == ByteMask::MAX { LINE_BYTES } else { mask.count_ones() }
}

/// Expands a mask of eight bytes to a mask of 64 bits; byte 0 is the least significant.
static BITS: [u64; 256] = {
    let mut all = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        let mut byte = 0;
        while byte < 8 {
            if mask >> byte & 1 == 1 {
                all[mask] |= 0xff << (8 * byte);
            }
            byte += 1;
        }
        mask += 1;
    }
    all
};

/// Expands a mask of eight bytes to a mask of 64 bits; byte 0 is the least significant.
#[inline(always)]
pub fn bits(mask: u8) -> u64 {
    BITS[usize::from(mask)]
}

/// As [`bits`], for the eight bytes from `8 * i` on of a line's mask.
#[inline(always)]
pub fn bits_at(mask: ByteMask, i: usize) -> u64 {
    bits((mask >> (8 * i)) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_its_line_and_its_offset() {
        for address in [0, 1, 127, 128, 129, u64::MAX] {
            assert_eq!(line_of(address) + offset_in_line(address) as u64, address);
            assert_eq!(line_number(address) * u64::from(LINE_BYTES), line_of(address));
        }
        assert_eq!(ByteMask::BITS, LINE_BYTES);
    }

    #[test]
    fn each_byte_has_its_bits() {
        for mask in 0..=u8::MAX {
            let bytes = bits(mask).to_le_bytes();
            assert!((0..8).all(|i| bytes[i] == if mask >> i & 1 == 1 { 0xff } else { 0 }), "{mask:#b}");
        }
        assert_eq!(bits_at(0x8001 << 64, 8), 0xff);
        assert_eq!(bits_at(0x8001 << 64, 9), 0xff << 56);
    }
}
