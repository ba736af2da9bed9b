//! The contents of device memory, shared by all components. Pages of 64 KiB are allocated at their first
//! write; memory that was never written reads as zero.
//!
//! Partitions own disjoint lines, so they never write the same word in one epoch. Words are relaxed atomics,
//! which avoids `unsafe` and compiles to plain moves.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::line::{ByteMask, LineData, bits};
use crate::vocabulary::WARP_LANES;

const PAGE_BYTES: u64 = 1 << 16;
const PAGE_WORDS: usize = (PAGE_BYTES / 4) as usize;
/// Pages in one region of the directory.
const REGION_PAGES: usize = 1 << 12;
/// Number of regions of 256 MiB each; together they cover 4 TiB, including local and constant memory.
const REGIONS: usize = 1 << 14;

type Page = Box<[AtomicU32]>;
type Region = Box<[OnceLock<Page>]>;

/// The little-endian word of four bytes.
#[inline(always)]
fn little_endian(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |four| u32::from_le_bytes(*four))
}

#[inline(always)]
fn one_page(addresses: &[u64; WARP_LANES]) -> bool {
    let mut other = 0;
    for lane in 0..WARP_LANES {
        other |= (addresses[lane] ^ addresses[0]) / PAGE_BYTES;
    }
    other == 0
}

/// Device memory as a sparse directory of pages.
#[derive(Debug)]
pub struct DeviceMemory {
    regions: Box<[OnceLock<Region>]>,
}

impl Default for DeviceMemory {
    fn default() -> Self {
        Self { regions: (0..REGIONS).map(|_| OnceLock::new()).collect() }
    }
}

impl DeviceMemory {
    /// Memory without pages: every byte reads as zero.
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn page(&self, address: u64) -> Option<&Page> {
        let page = address / PAGE_BYTES;
        let region = self.regions.get((page / REGION_PAGES as u64) as usize)?.get()?;
        region[page as usize % REGION_PAGES].get()
    }

    fn page_for_writing(&self, address: u64) -> Option<&Page> {
        let page = address / PAGE_BYTES;
        let region = self
            .regions
            .get((page / REGION_PAGES as u64) as usize)?
            .get_or_init(|| (0..REGION_PAGES).map(|_| OnceLock::new()).collect());
        Some(
            region[page as usize % REGION_PAGES]
                .get_or_init(|| (0..PAGE_WORDS).map(|_| AtomicU32::new(0)).collect()),
        )
    }

    /// Reads the words at aligned addresses that all lie in one page; `None` if they do not.
    #[inline(always)]
    pub fn read_words(&self, addresses: &[u64; WARP_LANES]) -> Option<[u32; WARP_LANES]> {
        if !one_page(addresses) {
            return None;
        }
        let mut out = [0; WARP_LANES];
        if let Some(page) = self.page(addresses[0]) {
            for lane in 0..WARP_LANES {
                out[lane] = page[Self::word_of(addresses[lane])].load(Relaxed);
            }
        }
        Some(out)
    }

    /// Writes the words of `lanes`, in ascending order, at aligned addresses that all lie in one page; false
    /// if they do not.
    #[inline(always)]
    pub fn write_words(&self, addresses: &[u64; WARP_LANES], lanes: u32, values: &[u32; WARP_LANES]) -> bool {
        if !one_page(addresses) {
            return false;
        }
        if let Some(page) = self.page_for_writing(addresses[0]) {
            for lane in (0..WARP_LANES).filter(|lane| lanes >> lane & 1 == 1) {
                page[Self::word_of(addresses[lane])].store(values[lane], Relaxed);
            }
        }
        true
    }

    #[inline]
    fn word_of(address: u64) -> usize {
        (address % PAGE_BYTES / 4) as usize
    }

    /// Reads the aligned word at `address`.
    #[inline]
    pub fn word(&self, address: u64) -> u32 {
        self.page(address).map_or(0, |page| page[Self::word_of(address)].load(Relaxed))
    }

    /// Writes the aligned word at `address`.
    #[inline]
    pub fn set_word(&self, address: u64, value: u32) {
        if let Some(page) = self.page_for_writing(address) {
            page[Self::word_of(address)].store(value, Relaxed);
        }
    }

    /// Reads `bytes.len()` bytes from `address` on [env-readDevice].
    pub fn read(&self, address: u64, bytes: &mut [u8]) {
        let mut at = address;
        let mut rest = bytes;
        while !rest.is_empty() {
            let word = self.word(at & !3).to_le_bytes();
            let skip = (at & 3) as usize;
            let n = rest.len().min(4 - skip);
            rest[..n].copy_from_slice(&word[skip..skip + n]);
            rest = &mut rest[n..];
            at += n as u64;
        }
    }

    /// Writes all of `bytes` from `address` on [env-writeDevice].
    pub fn write(&self, address: u64, bytes: &[u8]) {
        let mut at = address;
        let mut rest = bytes;
        while !rest.is_empty() {
            let skip = (at & 3) as usize;
            let n = rest.len().min(4 - skip);
            let mut word = if n == 4 { [0; 4] } else { self.word(at & !3).to_le_bytes() };
            word[skip..skip + n].copy_from_slice(&rest[..n]);
            self.set_word(at & !3, u32::from_le_bytes(word));
            rest = &rest[n..];
            at += n as u64;
        }
    }

    /// Reads the bytes of `mask` of a 128-byte line.
    pub fn read_line(&self, line: u64, mask: ByteMask, data: &mut LineData) {
        let Some(page) = self.page(line) else {
            for (i, byte) in data.iter_mut().enumerate() {
                if mask >> i & 1 == 1 {
                    *byte = 0;
                }
            }
            return;
        };
        let first = Self::word_of(line);
        let sectors = page[first..first + 32].chunks_exact(8).zip(data.chunks_exact_mut(32));
        for (s, (words, out)) in sectors.enumerate() {
            match (mask >> (32 * s)) as u32 {
                0 => {}
                u32::MAX => {
                    for (word, out) in words.iter().zip(out.chunks_exact_mut(4)) {
                        out.copy_from_slice(&word.load(Relaxed).to_le_bytes());
                    }
                }
                some => {
                    for i in (0..WARP_LANES).filter(|i| some >> i & 1 == 1) {
                        out[i] = words[i / 4].load(Relaxed).to_le_bytes()[i % 4];
                    }
                }
            }
        }
    }

    /// Writes the bytes of `mask` of a 128-byte line.
    pub fn write_line(&self, line: u64, mask: ByteMask, data: &LineData) {
        let Some(page) = self.page_for_writing(line) else { return };
        let first = Self::word_of(line);
        let sectors = page[first..first + 32].chunks_exact(8).zip(data.chunks_exact(32));
        for (s, (words, bytes)) in sectors.enumerate() {
            match (mask >> (32 * s)) as u32 {
                0 => {}
                u32::MAX => {
                    for (word, bytes) in words.iter().zip(bytes.chunks_exact(4)) {
                        word.store(little_endian(bytes), Relaxed);
                    }
                }
                some => {
                    for (i, (word, bytes)) in words.iter().zip(bytes.chunks_exact(4)).enumerate() {
                        let bits = bits((some >> (4 * i)) as u8 & 0xf) as u32;
                        if bits != 0 {
                            let value = word.load(Relaxed) & !bits | little_endian(bytes) & bits;
                            word.store(value, Relaxed);
                        }
                    }
                }
            }
        }
    }

    /// Total size in bytes of the allocated pages.
    pub fn touched_bytes(&self) -> u64 {
        let pages = self
            .regions
            .iter()
            .filter_map(OnceLock::get)
            .flat_map(|region| region.iter())
            .filter(|page| page.get().is_some());
        pages.count() as u64 * PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::{CONST_BASE, GLOBAL_BASE};

    #[test]
    fn env_readdevice_env_writedevice_keep_bytes_across_pages() {
        let memory = DeviceMemory::new();
        let at = GLOBAL_BASE + PAGE_BYTES - 3;
        let bytes: Vec<u8> = (1..=9).collect();
        memory.write(at, &bytes);
        let mut back = [0; 11];
        memory.read(at - 1, &mut back);
        assert_eq!(back, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
        assert_eq!(memory.touched_bytes(), 2 * PAGE_BYTES);
        memory.write(CONST_BASE + 5, &[7]);
        assert_eq!(memory.word(CONST_BASE + 4), 7 << 8);
    }

    #[test]
    fn lines_move_only_masked_bytes() {
        let memory = DeviceMemory::new();
        let line = GLOBAL_BASE + 256;
        memory.write_line(line, u128::MAX, &[9; 128]);
        memory.write_line(line, 0b0110, &[5; 128]);
        let mut data = [1; 128];
        memory.read_line(line, !0 << 1, &mut data);
        assert_eq!(data[..5], [1, 5, 5, 9, 9]);
        assert_eq!(data[127], 9);
    }
}
