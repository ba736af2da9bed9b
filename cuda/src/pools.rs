//! Memory pools: who allocates from which, and how much. Memory is taken from the device and given back to it at once.

use std::collections::BTreeMap;
use std::ffi::c_void;

use crate::error::{Error, INVALID_VALUE, MEMORY_ALLOCATION, NOT_SUPPORTED};
use crate::pointers;
use crate::runtime::{Runtime, State};

/// A pool.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    /// Whether memory is reused behind events, by chance, and behind inserted dependencies; it is all the same here.
    reuse: [i32; 3],
    /// Bytes that stay with the pool; none do here.
    threshold: u64,
    used: u64,
    most: u64,
}

/// The pools of a device.
#[derive(Debug, Default)]
pub struct Pools {
    list: BTreeMap<usize, Pool>,
    /// The pool that the device began with.
    default: usize,
    /// The pool of allocations that name none.
    current: usize,
    /// By address, the pool of an allocation and its bytes.
    owners: BTreeMap<u64, (usize, u64)>,
}

const NEW: Pool = Pool { reuse: [1; 3], threshold: 0, used: 0, most: 0 };

impl Pools {
    /// Memory was freed.
    pub fn freed(&mut self, at: u64) {
        let Some((pool, bytes)) = self.owners.remove(&at) else { return };
        if let Some(pool) = self.list.get_mut(&pool) {
            pool.used -= bytes;
        }
    }

    fn pool(&mut self, pool: *mut c_void) -> Result<&mut Pool, Error> {
        self.list.get_mut(&(pool as usize)).ok_or(INVALID_VALUE)
    }
}

/// The pools; the default one is made at the first use.
fn pools(state: &mut State) -> Result<&mut Pools, Error> {
    if state.runtime()?.pools.list.is_empty() {
        let handle = state.handle();
        let pools = &mut state.runtime()?.pools;
        pools.list.insert(handle, NEW);
        (pools.default, pools.current) = (handle, handle);
    }
    Ok(&mut state.runtime()?.pools)
}

/// Allocates from a pool, or from the device's current one.
///
/// # Errors
/// There is no such pool, or too little memory.
pub fn allocate(
    state: &mut State,
    at: *mut *mut c_void,
    bytes: usize,
    pool: Option<*mut c_void>,
) -> Result<(), Error> {
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    let own = pools(state)?;
    let pool = pool.map_or(own.current, |pool| pool as usize);
    own.pool(pool as *mut c_void)?;
    let Runtime { device, pools, .. } = state.runtime()?;
    let address = match bytes {
        0 => 0,
        _ => device.malloc("cudaMallocAsync", bytes as u64, 1).map_err(|_| MEMORY_ALLOCATION)?,
    };
    if address != 0 {
        pools.owners.insert(address, (pool, bytes as u64));
        let pool = pools.pool(pool as *mut c_void)?;
        pool.used += bytes as u64;
        pool.most = pool.most.max(pool.used);
    }
    out!(at, address as *mut c_void);
    Ok(())
}

/// What begins CUDA's `cudaMemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    allocation: i32,
    handles: i32,
    place: i32,
    device: i32,
}

/// The device memory of `cudaMemLocationTypeDevice`.
const DEVICE: i32 = 1;
/// `cudaMemAllocationTypePinned`.
const PINNED: i32 = 1;

/// CUDA's `cudaMemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Access {
    place: i32,
    device: i32,
    flags: i32,
}

cuda! {
    fn cudaDeviceGetDefaultMemPool = (pool: *mut *mut c_void, device: i32) |state| {
        if device != 0 {
            return Err(crate::error::INVALID_DEVICE);
        }
        out!(pool, pools(state)?.default as *mut c_void);
        Ok(())
    }

    fn cudaDeviceGetMemPool = (pool: *mut *mut c_void, device: i32) |state| {
        if device != 0 {
            return Err(crate::error::INVALID_DEVICE);
        }
        out!(pool, pools(state)?.current as *mut c_void);
        Ok(())
    }

    fn cudaDeviceSetMemPool = (device: i32, pool: *mut c_void) |state| {
        if device != 0 {
            return Err(crate::error::INVALID_DEVICE);
        }
        let pools = pools(state)?;
        pools.pool(pool)?;
        pools.current = pool as usize;
        Ok(())
    }

    fn cudaMemPoolCreate = (pool: *mut *mut c_void, properties: *const Properties) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let properties = unsafe { pointers::get(properties) }?;
        if properties.allocation != PINNED || properties.place != DEVICE || properties.device != 0 {
            return Err(INVALID_VALUE);
        }
        if properties.handles != 0 {
            eprintln!("warpsim: cudaMemPoolCreate: pools are not shared between processes");
            return Err(NOT_SUPPORTED);
        }
        pools(state)?;
        let handle = state.handle();
        pools(state)?.list.insert(handle, NEW);
        out!(pool, handle as *mut c_void);
        Ok(())
    }

    fn cudaMemPoolDestroy = (pool: *mut c_void) |state| {
        state.synchronize()?;
        let pools = pools(state)?;
        pools.pool(pool)?;
        if pools.default == pool as usize {
            return Err(INVALID_VALUE);
        }
        pools.list.remove(&(pool as usize));
        if pools.current == pool as usize {
            pools.current = pools.default;
        }
        Ok(())
    }

    fn cudaMemPoolTrimTo = (pool: *mut c_void, _keep: usize) |state| {
        // What is free is the device's already.
        pools(state)?.pool(pool).map(drop)
    }

    fn cudaMemPoolSetAttribute = (pool: *mut c_void, attribute: i32, value: *mut c_void) |state| {
        let pool = pools(state)?.pool(pool)?;
        match attribute {
            // SAFETY: CUDA's manual asks for an `int`.
            1..=3 => pool.reuse[attribute as usize - 1] = unsafe { pointers::get(value as *const i32) }?,
            // SAFETY: CUDA's manual asks for a 64-bit number.
            4 => pool.threshold = unsafe { pointers::get(value as *const u64) }?,
            // SAFETY: as above.
            6 | 8 if unsafe { pointers::get(value as *const u64) }? == 0 => pool.most = pool.used,
            _ => return Err(INVALID_VALUE),
        }
        Ok(())
    }

    fn cudaMemPoolGetAttribute = (pool: *mut c_void, attribute: i32, value: *mut c_void) |state| {
        let pool = *pools(state)?.pool(pool)?;
        match attribute {
            1..=3 => out!(value.cast::<i32>(), pool.reuse[attribute as usize - 1]),
            4 => out!(value.cast::<u64>(), pool.threshold),
            5 | 7 => out!(value.cast::<u64>(), pool.used),
            6 | 8 => out!(value.cast::<u64>(), pool.most),
            _ => return Err(INVALID_VALUE),
        }
        Ok(())
    }

    fn cudaMemPoolSetAccess = (pool: *mut c_void, list: *const Access, count: usize) |state| {
        pools(state)?.pool(pool)?;
        for i in 0..count {
            // SAFETY: CUDA's manual asks for so many structures.
            let access = unsafe { pointers::get(list.wrapping_add(i)) }?;
            // There is one device, and it may read and write.
            if (access.place, access.device, access.flags) != (DEVICE, 0, 3) {
                return Err(INVALID_VALUE);
            }
        }
        Ok(())
    }

    fn cudaMemPoolGetAccess = (flags: *mut i32, pool: *mut c_void, _location: *mut c_void) |state| {
        pools(state)?.pool(pool)?;
        out!(flags, 3);
        Ok(())
    }

    fn cudaMallocFromPoolAsync cudaMallocFromPoolAsync_ptsz = (at: *mut *mut c_void, bytes: usize, pool: *mut c_void, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        allocate(state, at, bytes, Some(pool))
    }
}
