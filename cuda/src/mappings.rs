//! Virtual memory as it is kept: reserved ranges, memory that was created, and where it is mapped.

use std::collections::BTreeMap;

use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE};

/// Sizes and addresses of mappings are multiples of this, as on the chips of NVIDIA since compute capability 7.0.
pub const GRANULARITY: u64 = 2 << 20;

/// Memory that was created.
#[derive(Debug)]
pub struct Created {
    /// Its size.
    pub bytes: u64,
    /// Handles that lead to it; it goes with the last one, once it is mapped nowhere.
    pub references: u32,
    /// It is mapped.
    pub mapped: bool,
    /// What it has while it is not mapped; nothing was written to it before the first time.
    pub contents: Option<Vec<u8>>,
}

/// Where memory is mapped.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// It.
    pub handle: usize,
    /// Its size.
    pub bytes: u64,
    /// The device may access it: it is an allocation.
    pub accessible: bool,
}

/// The state.
#[derive(Debug, Default)]
pub struct VirtualMemory {
    /// Bytes of reserved ranges, by address.
    pub reserved: BTreeMap<u64, u64>,
    /// What was created, by handle.
    pub created: BTreeMap<usize, Created>,
    /// What is mapped, by address.
    pub mapped: BTreeMap<u64, Mapping>,
}

impl VirtualMemory {
    /// An address is in a reserved range.
    pub fn holds(&self, at: u64) -> bool {
        self.range(at).is_some()
    }

    /// The reserved range of an address: where it begins, its bytes.
    pub fn range(&self, at: u64) -> Option<(u64, u64)> {
        let (begin, bytes) = self.reserved.range(..=at).next_back()?;
        (at - begin < *bytes).then_some((*begin, *bytes))
    }

    /// What is mapped at an address, and where that begins.
    pub fn mapping(&self, at: u64) -> Option<(u64, Mapping)> {
        let (begin, own) = self.mapped.range(..=at).next_back()?;
        (at - begin < own.bytes).then_some((*begin, *own))
    }

    /// All of `bytes` bytes from an address on may be accessed.
    pub fn is_mapped(&self, at: u64, bytes: u64) -> bool {
        let Some(end) = at.checked_add(bytes) else { return false };
        let mut next = at;
        while next < end {
            match self.mapping(next) {
                Some((begin, own)) if own.accessible => next = begin + own.bytes,
                _ => return false,
            }
        }
        true
    }

    /// Bytes that were created and that the device does not count, as they are not accessible.
    pub fn unmapped(&self) -> u64 {
        let accessible: u64 = self.mapped.values().filter(|own| own.accessible).map(|own| own.bytes).sum();
        self.created.values().map(|own| own.bytes).sum::<u64>() - accessible
    }

    /// What was created under a handle.
    ///
    /// # Errors
    /// Nothing was.
    pub fn created(&mut self, handle: usize) -> Result<&mut Created, Error> {
        self.created.get_mut(&handle).ok_or(INVALID_HANDLE)
    }

    /// Forgets memory without handles that is mapped nowhere.
    pub fn forget_if_unused(&mut self, handle: usize) {
        if self.created.get(&handle).is_some_and(|own| own.references == 0 && !own.mapped) {
            self.created.remove(&handle);
        }
    }

    /// The mappings that fill a range; none of them reaches out of it.
    ///
    /// # Errors
    /// They do not fill it.
    pub fn within(&self, at: u64, bytes: u64) -> Result<Vec<(u64, Mapping)>, Error> {
        let end = at.checked_add(bytes).ok_or(INVALID_VALUE)?;
        let all: Vec<_> = self.mapped.range(at..end).map(|(begin, own)| (*begin, *own)).collect();
        let filled: u64 = all.iter().map(|(_, own)| own.bytes).sum();
        let inside = all.last().is_some_and(|(begin, own)| begin + own.bytes <= end);
        if inside && filled == bytes { Ok(all) } else { Err(INVALID_VALUE) }
    }
}

/// Bytes are a multiple of the granularity.
pub fn is_whole(bytes: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(GRANULARITY)
}
