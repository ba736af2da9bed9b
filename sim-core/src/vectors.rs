//! Vectors of eight words of the host, read from arrays and written to them.

use std::arch::x86_64::*;

/// Bytes of eight words.
pub(crate) const BYTES: usize = 4 * 8;

/// Eight words.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn load(words: &[u32; 8]) -> __m256i {
    // SAFETY: eight words are read of an array of eight; they need no alignment.
    #[allow(unsafe_code, reason = "vectors have no safe loads")]
    unsafe {
        _mm256_loadu_si256(words.as_ptr().cast())
    }
}

/// Eight words of memory.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn load_bytes(bytes: &[u8; BYTES]) -> __m256i {
    // SAFETY: as many bytes are read as the array has; they need no alignment.
    #[allow(unsafe_code, reason = "vectors have no safe loads")]
    unsafe {
        _mm256_loadu_si256(bytes.as_ptr().cast())
    }
}

/// Four words, twice.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn load_twice(words: &[u32; 4]) -> __m256i {
    // SAFETY: four words are read of an array of four; they need no alignment.
    #[allow(unsafe_code, reason = "vectors have no safe loads")]
    unsafe {
        _mm256_broadcastsi128_si256(_mm_loadu_si128(words.as_ptr().cast()))
    }
}

/// Four words of 64 bits.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn load_wide(words: &[u64; 4]) -> __m256i {
    // SAFETY: four words are read of an array of four; they need no alignment.
    #[allow(unsafe_code, reason = "vectors have no safe loads")]
    unsafe {
        _mm256_loadu_si256(words.as_ptr().cast())
    }
}

/// Writes eight words.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn store(to: &mut [u32; 8], words: __m256i) {
    // SAFETY: there is room for eight words; they need no alignment.
    #[allow(unsafe_code, reason = "vectors have no safe stores")]
    unsafe {
        _mm256_storeu_si256(to.as_mut_ptr().cast(), words);
    }
}

/// Writes four words of 64 bits.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn store_wide(to: &mut [u64; 4], words: __m256i) {
    // SAFETY: there is room for four words; they need no alignment.
    #[allow(unsafe_code, reason = "vectors have no safe stores")]
    unsafe {
        _mm256_storeu_si256(to.as_mut_ptr().cast(), words);
    }
}
