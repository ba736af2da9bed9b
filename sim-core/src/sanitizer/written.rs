//! Which bytes of shared, local and device memory were written [san-init].

use std::ops::Range;

use sim_memory::line::{ByteMask, LINE_BYTES};

/// Bits of bytes, from the first.
type Bits = Vec<u64>;

/// The words of the bytes `at..at + bytes`, with the bits of each.
fn words(at: u64, bytes: u32) -> impl Iterator<Item = (usize, u64)> {
    let end = at + u64::from(bytes);
    (at / 64..end.div_ceil(64)).map(move |word| {
        let (first, last) = ((64 * word).max(at) % 64, (64 * word + 64).min(end) - 64 * word);
        (word as usize, u64::MAX >> (64 - (last - first)) << first)
    })
}

fn set(bits: &mut Bits, at: u64, bytes: u32) {
    for (word, mask) in words(at, bytes) {
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        bits[word] |= mask;
    }
}

fn first_missing(bits: &Bits, at: u64, bytes: u32) -> Option<u64> {
    words(at, bytes).find_map(|(word, mask)| {
        let missing = mask & !bits.get(word).copied().unwrap_or(0);
        (missing != 0).then(|| 64 * word as u64 + u64::from(missing.trailing_zeros()))
    })
}

/// Bytes that were written.
#[derive(Debug, Default)]
pub struct Written {
    /// By block and line.
    shared: Vec<Vec<ByteMask>>,
    /// By block and thread.
    local: Vec<Vec<Bits>>,
    /// Device memory that nobody has initialised: the heap of `malloc`.
    pub heap: Range<u64>,
    of_heap: Bits,
}

/// The entry of a list that grows.
fn grown<T: Default>(list: &mut Vec<T>, at: u32) -> &mut T {
    let at = at as usize;
    if list.len() <= at {
        list.resize_with(at + 1, T::default);
    }
    &mut list[at]
}

impl Written {
    /// The bytes of a line of the shared memory of a block, by the address of one of them.
    pub fn shared_line(&mut self, block: u32, at: u32) -> &mut ByteMask {
        grown(grown(&mut self.shared, block), at / LINE_BYTES)
    }

    /// Bytes of a thread's local memory are written.
    pub fn write_local(&mut self, (block, thread): (u32, u32), at: u32, bytes: u32) {
        set(grown(grown(&mut self.local, block), thread), at.into(), bytes);
    }

    /// The first of these bytes that was not written.
    pub fn unwritten_local(&self, (block, thread): (u32, u32), at: u32, bytes: u32) -> Option<u32> {
        let bits = self.local.get(block as usize).and_then(|threads| threads.get(thread as usize));
        bits.map_or(Some(at), |bits| first_missing(bits, at.into(), bytes).map(|at| at as u32))
    }

    /// Bytes of device memory are written.
    pub fn write_global(&mut self, at: u64, bytes: u32) {
        if self.heap.contains(&at) {
            set(&mut self.of_heap, at - self.heap.start, bytes);
        }
    }

    /// The first of these bytes that was not written.
    pub fn unwritten_global(&self, at: u64, bytes: u32) -> Option<u64> {
        if !self.heap.contains(&at) {
            return None;
        }
        first_missing(&self.of_heap, at - self.heap.start, bytes).map(|i| self.heap.start + i)
    }

    /// A block has ended.
    pub fn end_block(&mut self, block: u32) {
        if let Some(bytes) = self.shared.get_mut(block as usize) {
            *bytes = Vec::new();
        }
        if let Some(bits) = self.local.get_mut(block as usize) {
            *bits = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn san_init_bytes_are_written_one_by_one() {
        let mut written = Written { heap: 1000..2000, ..Written::default() };
        assert_eq!(*written.shared_line(0, 4), 0);
        *written.shared_line(0, 62) |= 0xf << 62;
        assert_eq!(*written.shared_line(0, 127), 0xf << 62);
        assert_eq!((*written.shared_line(0, 128), *written.shared_line(1, 62)), (0, 0));
        written.write_local((0, 3), 0, 8);
        assert_eq!(written.unwritten_local((0, 3), 4, 8), Some(8));
        assert_eq!(written.unwritten_local((0, 2), 4, 4), Some(4));
        written.write_global(1200, 1);
        assert_eq!(
            (written.unwritten_global(1200, 1), written.unwritten_global(1200, 2)),
            (None, Some(1201))
        );
        assert_eq!(written.unwritten_global(2000, 4), None, "all other memory was initialised");
        written.end_block(0);
        assert_eq!((*written.shared_line(0, 62), written.unwritten_local((0, 3), 0, 1)), (0, Some(0)));
    }
}
