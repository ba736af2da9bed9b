//! Masks of bytes as masks of bits.

/// All bits of the bytes of a mask of eight; bit 0 is the least significant byte.
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

/// All bits of the bytes of a mask of eight; bit 0 is the least significant byte.
#[inline(always)]
pub fn bits(mask: u8) -> u64 {
    BITS[usize::from(mask)]
}

/// Those of the eight bytes from `8 * i` on of a mask of a line.
#[inline(always)]
pub fn bits_at(mask: u128, i: usize) -> u64 {
    bits((mask >> (8 * i)) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

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
