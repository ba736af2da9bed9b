//! Which bytes of shared, local and device memory were written [san-init].

use std::collections::HashMap;
use std::ops::Range;

/// Bits of bytes, from the first.
type Bits = Vec<u64>;

/// The words of the bytes `at..at + bytes`, with the bits of each.
fn words(at: u32, bytes: u32) -> impl Iterator<Item = (usize, u64)> {
    let end = at + bytes;
    (at / 64..end.div_ceil(64)).map(move |word| {
        let (first, last) = ((64 * word).max(at) % 64, (64 * word + 64).min(end) - 64 * word);
        (word as usize, u64::MAX >> (64 - (last - first)) << first)
    })
}

fn set(bits: &mut Bits, at: u32, bytes: u32) {
    for (word, mask) in words(at, bytes) {
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        bits[word] |= mask;
    }
}

fn first_missing(bits: &Bits, at: u32, bytes: u32) -> Option<u32> {
    words(at, bytes).find_map(|(word, mask)| {
        let missing = mask & !bits.get(word).copied().unwrap_or(0);
        (missing != 0).then(|| 64 * word as u32 + missing.trailing_zeros())
    })
}

/// Bytes that were written.
#[derive(Debug, Default)]
pub struct Written {
    /// By block.
    shared: HashMap<u32, Bits>,
    /// By block and thread.
    local: HashMap<(u32, u32), Bits>,
    /// Device memory that nobody has initialised: the heap of `malloc`.
    pub heap: Range<u64>,
    of_heap: Bits,
}

impl Written {
    /// Bytes of the shared memory of a block are written.
    pub fn write_shared(&mut self, block: u32, at: u32, bytes: u32) {
        set(self.shared.entry(block).or_default(), at, bytes);
    }

    /// The first of these bytes that was not written.
    pub fn unwritten_shared(&self, block: u32, at: u32, bytes: u32) -> Option<u32> {
        self.shared.get(&block).map_or(Some(at), |bits| first_missing(bits, at, bytes))
    }

    /// Bytes of a thread's local memory are written.
    pub fn write_local(&mut self, thread: (u32, u32), at: u32, bytes: u32) {
        set(self.local.entry(thread).or_default(), at, bytes);
    }

    /// The first of these bytes that was not written.
    pub fn unwritten_local(&self, thread: (u32, u32), at: u32, bytes: u32) -> Option<u32> {
        self.local.get(&thread).map_or(Some(at), |bits| first_missing(bits, at, bytes))
    }

    /// Bytes of device memory are written.
    pub fn write_global(&mut self, at: u64, bytes: u32) {
        if self.heap.contains(&at) {
            set(&mut self.of_heap, (at - self.heap.start) as u32, bytes);
        }
    }

    /// The first of these bytes that was not written.
    pub fn unwritten_global(&self, at: u64, bytes: u32) -> Option<u64> {
        if !self.heap.contains(&at) {
            return None;
        }
        first_missing(&self.of_heap, (at - self.heap.start) as u32, bytes)
            .map(|i| self.heap.start + u64::from(i))
    }

    /// A block has ended.
    pub fn end_block(&mut self, block: u32, threads: u32) {
        self.shared.remove(&block);
        if !self.local.is_empty() {
            for thread in 0..threads {
                self.local.remove(&(block, thread));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn san_init_bytes_are_written_one_by_one() {
        let mut written = Written { heap: 1000..2000, ..Written::default() };
        assert_eq!(written.unwritten_shared(0, 4, 4), Some(4));
        written.write_shared(0, 62, 4);
        assert_eq!(written.unwritten_shared(0, 62, 4), None);
        assert_eq!(written.unwritten_shared(0, 64, 4), Some(66));
        assert_eq!(written.unwritten_shared(1, 62, 4), Some(62));
        written.write_local((0, 3), 0, 8);
        assert_eq!(written.unwritten_local((0, 3), 4, 8), Some(8));
        assert_eq!(written.unwritten_local((0, 2), 4, 4), Some(4));
        written.write_global(1200, 1);
        assert_eq!(
            (written.unwritten_global(1200, 1), written.unwritten_global(1200, 2)),
            (None, Some(1201))
        );
        assert_eq!(written.unwritten_global(2000, 4), None, "all other memory was initialised");
        written.end_block(0, 4);
        assert_eq!(
            (written.unwritten_shared(0, 62, 1), written.unwritten_local((0, 3), 0, 1)),
            (Some(62), Some(0))
        );
    }
}
