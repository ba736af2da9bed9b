//! Memory pools as they are kept.

use std::collections::BTreeMap;
use std::ffi::c_void;

use crate::error::{Error, INVALID_VALUE};

/// A pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pool {
    /// Whether memory is reused behind events, by chance, and behind inserted dependencies; it is all the same here.
    pub reuse: [i32; 3],
    /// Bytes that stay with the pool; none do here.
    pub threshold: u64,
    /// Bytes that are allocated.
    pub used: u64,
    /// The most that were.
    pub most: u64,
}

/// The pools of a device.
#[derive(Debug, Default)]
pub struct Pools {
    /// They, by handle.
    pub list: BTreeMap<usize, Pool>,
    /// The pool that the device began with.
    pub default: usize,
    /// The pool of allocations that name none.
    pub current: usize,
    /// By address, the pool of an allocation and its bytes.
    pub owners: BTreeMap<u64, (usize, u64)>,
}

/// A pool that nothing was allocated from.
pub const NEW: Pool = Pool { reuse: [1; 3], threshold: 0, used: 0, most: 0 };

impl Pools {
    /// Memory was freed.
    pub fn freed(&mut self, at: u64) {
        let Some((pool, bytes)) = self.owners.remove(&at) else { return };
        if let Some(pool) = self.list.get_mut(&pool) {
            pool.used -= bytes;
        }
    }

    /// The pool of a handle.
    ///
    /// # Errors
    /// There is none.
    pub fn pool(&mut self, pool: *mut c_void) -> Result<&mut Pool, Error> {
        self.list.get_mut(&(pool as usize)).ok_or(INVALID_VALUE)
    }
}
