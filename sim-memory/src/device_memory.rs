//! The contents of device memory, shared by all components. Pages of 64 KiB are allocated at their first
//! write; memory that was never written reads as zero.
//!
//! Partitions own disjoint lines, so they never write the same word in one epoch. Words are relaxed atomics,
//! which avoids `unsafe` and compiles to plain moves.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::line::{ByteMask, LineData, bits};
use crate::vocabulary::WARP_LANES;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 1 << 16;
const PAGE_WORDS: usize = (PAGE_BYTES / 4) as usize;
/// Pages in one region of the directory.
const REGION_PAGES: usize = 1 << 12;
/// Number of regions of 256 MiB each; together they cover 4 TiB, including local and constant memory.
const REGIONS: usize = 1 << 14;

/// An array, so that an index within it needs no check.
type Page = Box<[AtomicU32; PAGE_WORDS]>;
type Region = Box<[OnceLock<Page>]>;

/// A page of zeros.
fn empty_page() -> Page {
    let words: Box<[AtomicU32]> = (0..PAGE_WORDS).map(|_| AtomicU32::new(0)).collect();
    words.try_into().unwrap_or_else(|words: Box<[AtomicU32]>| {
        unreachable!("{} words were made, {PAGE_WORDS} asked for", words.len())
    })
}

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
        Some(region[page as usize % REGION_PAGES].get_or_init(empty_page))
    }

    /// Reads `words` words a lane from its address on and hands each over with its lane and number. The addresses are
    /// aligned to so many words. False, and nothing is read, if they do not all lie in one page.
    #[inline(always)]
    pub fn read_words(
        &self,
        addresses: &[u64; WARP_LANES],
        words: usize,
        mut take: impl FnMut(usize, usize, u32),
    ) -> bool {
        if !one_page(addresses) {
            return false;
        }
        let Some(page) = self.page(addresses[0]) else {
            (0..words).for_each(|word| (0..WARP_LANES).for_each(|lane| take(lane, word, 0)));
            return true;
        };
        if let Some(row) = Self::row_of_words(page, addresses, words) {
            for lane in 0..WARP_LANES {
                take(lane, 0, row[lane].load(Relaxed));
            }
            return true;
        }
        for word in 0..words {
            for lane in 0..WARP_LANES {
                take(lane, word, page[(Self::word_of(addresses[lane]) + word) % PAGE_WORDS].load(Relaxed));
            }
        }
        true
    }

    /// Writes `words` words a lane of `lanes`, in ascending order, from its address on, as `give` has them by lane and
    /// number. The addresses are aligned to so many words. False, and nothing is written, if they do not all lie in one
    /// page.
    #[inline(always)]
    pub fn write_words(
        &self,
        addresses: &[u64; WARP_LANES],
        lanes: u32,
        words: usize,
        give: impl Fn(usize, usize) -> u32,
    ) -> bool {
        if !one_page(addresses) {
            return false;
        }
        let Some(page) = self.page_for_writing(addresses[0]) else { return true };
        if lanes == u32::MAX
            && let Some(row) = Self::row_of_words(page, addresses, words)
        {
            for lane in 0..WARP_LANES {
                row[lane].store(give(lane, 0), Relaxed);
            }
            return true;
        }
        for word in 0..words {
            for lane in (0..WARP_LANES).filter(|lane| lanes >> lane & 1 == 1) {
                let at = (Self::word_of(addresses[lane]) + word) % PAGE_WORDS;
                page[at].store(give(lane, word), Relaxed);
            }
        }
        true
    }

    /// Consecutive words of a page, one a lane, where the lanes access such.
    #[inline(always)]
    fn row_of_words<'p>(
        page: &'p [AtomicU32; PAGE_WORDS],
        addresses: &[u64; WARP_LANES],
        words: usize,
    ) -> Option<&'p [AtomicU32; WARP_LANES]> {
        let mut apart = 0;
        for lane in 0..WARP_LANES {
            apart |= addresses[lane] ^ addresses[0].wrapping_add(4 * lane as u64);
        }
        if words != 1 || apart != 0 {
            return None;
        }
        page[Self::word_of(addresses[0])..].first_chunk()
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
        let (mut at, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let n = ((PAGE_BYTES - at % PAGE_BYTES) as usize).min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            match self.page(at) {
                None => now.fill(0),
                Some(page) => {
                    let (head, first) = Self::unaligned(at, n);
                    let (before, whole) = now.split_at_mut(head);
                    let word = |i: usize| page[i].load(Relaxed).to_le_bytes();
                    before.copy_from_slice(&word(Self::word_of(at))[(at & 3) as usize..][..head]);
                    let mut chunks = whole.chunks_exact_mut(4);
                    let mut i = first;
                    for (chunk, word) in chunks.by_ref().zip(&page[first.min(PAGE_WORDS)..]) {
                        chunk.copy_from_slice(&word.load(Relaxed).to_le_bytes());
                        i += 1;
                    }
                    let tail = chunks.into_remainder();
                    if !tail.is_empty() {
                        tail.copy_from_slice(&word(i)[..tail.len()]);
                    }
                }
            }
            rest = later;
            at += n as u64;
        }
    }

    /// Writes all of `bytes` from `address` on [env-writeDevice].
    pub fn write(&self, address: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let n = ((PAGE_BYTES - at % PAGE_BYTES) as usize).min(rest.len());
            let (now, later) = rest.split_at(n);
            let Some(page) = self.page_for_writing(at) else { return };
            let (head, first) = Self::unaligned(at, n);
            let (before, whole) = now.split_at(head);
            let part = |i: usize, skip: usize, bytes: &[u8]| {
                let mut word = page[i].load(Relaxed).to_le_bytes();
                word[skip..skip + bytes.len()].copy_from_slice(bytes);
                page[i].store(u32::from_le_bytes(word), Relaxed);
            };
            if head > 0 {
                part(Self::word_of(at), (at & 3) as usize, before);
            }
            let chunks = whole.chunks_exact(4);
            let tail = chunks.remainder();
            let mut i = first;
            for (chunk, word) in chunks.zip(&page[first.min(PAGE_WORDS)..]) {
                word.store(little_endian(chunk), Relaxed);
                i += 1;
            }
            if !tail.is_empty() {
                part(i, 0, tail);
            }
            rest = later;
            at += n as u64;
        }
    }

    /// Sets `bytes` bytes from `address` on to zero, without allocating pages.
    pub fn clear(&self, address: u64, bytes: u64) {
        let (mut at, end) = (address, address.saturating_add(bytes));
        while at < end {
            let next = (at / PAGE_BYTES + 1) * PAGE_BYTES;
            if self.page(at).is_some() {
                self.write(at, &vec![0; (next.min(end) - at) as usize]);
            }
            at = next;
        }
    }

    /// Of `n` bytes from an address on: how many come before the first aligned word, and that word's index.
    fn unaligned(address: u64, n: usize) -> (usize, usize) {
        let head = (address.wrapping_neg() & 3) as usize;
        (head.min(n), Self::word_of(address) + usize::from(head > 0))
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
        self.pages().count() as u64 * PAGE_BYTES
    }

    /// Addresses of the allocated pages of [`PAGE_BYTES`] each, ascending.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        let regions = self.regions.iter().enumerate();
        let regions = regions.filter_map(|(i, region)| Some((i, region.get()?)));
        let pages =
            regions.flat_map(|(i, region)| region.iter().enumerate().map(move |(j, page)| (i, j, page)));
        let there = pages.filter(|(.., page)| page.get().is_some());
        there.map(|(i, j, _)| (i * REGION_PAGES + j) as u64 * PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::{CONST_BASE, GLOBAL_BASE};

    #[test]
    fn clearing_sets_what_is_there_to_zero_and_allocates_nothing() {
        let memory = DeviceMemory::new();
        let (from, bytes) = (GLOBAL_BASE + PAGE_BYTES - 6, 2 * PAGE_BYTES + 9);
        memory.write(from - 2, &[7; 20]);
        let pages = memory.pages().count();
        memory.clear(from, bytes);
        let mut there = [1; 22];
        memory.read(from - 2, &mut there);
        assert_eq!(there[..2], [7; 2]);
        assert_eq!(there[2..], [0; 20]);
        assert_eq!(memory.pages().count(), pages);
        // What lies behind the cleared bytes stays.
        memory.write(from, &[9; 8]);
        memory.clear(from, 3);
        memory.read(from, &mut there[..8]);
        assert_eq!(there[..8], [0, 0, 0, 9, 9, 9, 9, 9]);
    }

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
        assert_eq!(memory.pages().collect::<Vec<_>>(), [GLOBAL_BASE, GLOBAL_BASE + PAGE_BYTES]);
        memory.write(CONST_BASE + 5, &[7]);
        assert_eq!(memory.word(CONST_BASE + 4), 7 << 8);
    }

    #[test]
    fn copies_of_every_alignment_and_length_touch_only_their_bytes() {
        let base = GLOBAL_BASE + PAGE_BYTES - 16;
        for offset in 0..24 {
            for length in 0..24 {
                let memory = DeviceMemory::new();
                memory.write(base, &[7; 64]);
                let bytes: Vec<u8> = (100..100 + length as u8).collect();
                memory.write(base + offset, &bytes);
                let mut expected = [7u8; 64];
                expected[offset as usize..][..length].copy_from_slice(&bytes);
                let mut whole = [0; 64];
                memory.read(base, &mut whole);
                assert_eq!(whole, expected, "{length} bytes at {offset}");
                let mut part = vec![0; length];
                memory.read(base + offset, &mut part);
                assert_eq!(part, bytes);
            }
        }
    }

    proptest::proptest! {
        /// Words of lanes one by one, against bytes: consecutive addresses, equal ones, any, and those of two pages.
        #[test]
        fn words_of_lanes_equal_bytes(
            starts in proptest::collection::vec(0u64..300, WARP_LANES),
            kind in 0usize..4,
            words in 1usize..5,
            lanes: u32,
            whole: bool,
        ) {
            let words = if words == 3 { 4 } else { words };
            let lanes = if whole { u32::MAX } else { lanes };
            let stride = 4 * words as u64;
            let base = GLOBAL_BASE + if kind == 3 { PAGE_BYTES - 4 * stride } else { 64 };
            let addresses: [u64; WARP_LANES] = std::array::from_fn(|lane| match kind {
                0 => base + stride * lane as u64,
                1 => base + stride * starts[0],
                _ => base + stride * starts[lane],
            });
            let memory = DeviceMemory::new();
            let bytes: Vec<u8> = (0..8192u32).map(|i| (i * 7 + i / 256) as u8).collect();
            memory.write(GLOBAL_BASE + PAGE_BYTES - 4096, &bytes);
            memory.write(GLOBAL_BASE, &bytes);
            let one = addresses.iter().all(|at| at / PAGE_BYTES == addresses[0] / PAGE_BYTES);
            let mut read = vec![[0; WARP_LANES]; words];
            let done = memory.read_words(&addresses, words, |lane, word, value| read[word][lane] = value);
            proptest::prop_assert_eq!(done, one);
            for (lane, at) in addresses.iter().enumerate().filter(|_| one) {
                for (word, read) in read.iter().enumerate() {
                    proptest::prop_assert_eq!(read[lane], memory.word(at + 4 * word as u64));
                }
            }
            let value = |lane: usize, word: usize| (lane * 16 + word) as u32 | 0x5500_0000;
            let literal = DeviceMemory::new();
            literal.write(GLOBAL_BASE + PAGE_BYTES - 4096, &bytes);
            literal.write(GLOBAL_BASE, &bytes);
            for (lane, at) in addresses.iter().enumerate().filter(|(lane, _)| one && lanes >> lane & 1 == 1) {
                (0..words).for_each(|word| literal.set_word(at + 4 * word as u64, value(lane, word)));
            }
            proptest::prop_assert_eq!(memory.write_words(&addresses, lanes, words, value), one);
            let (mut got, mut expected) = (vec![0; 2 * PAGE_BYTES as usize], vec![0; 2 * PAGE_BYTES as usize]);
            memory.read(GLOBAL_BASE, &mut got);
            literal.read(GLOBAL_BASE, &mut expected);
            proptest::prop_assert!(got == expected);
        }
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
