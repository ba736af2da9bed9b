//! Memory pools: who allocates from which, and how much. Memory is taken from the device and given back to it at once.

use std::ffi::c_void;

use crate::error::{Error, INVALID_VALUE, MEMORY_ALLOCATION, NOT_SUPPORTED};
use crate::graph::Work;
use crate::graph_use;
use crate::memory::free;
use crate::one_device::known;
use crate::pointers;
use crate::pool_list::{NEW, Pools};
use crate::runtime::{Runtime, State};

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

impl Properties {
    /// Pinned memory of the device.
    pub const OF_DEVICE: Self = Self { allocation: PINNED, handles: 0, place: DEVICE, device: 0 };

    /// Pinned memory of the device that is not shared between processes.
    pub fn is_of_device(&self) -> bool {
        (self.allocation, self.handles, self.place, self.device) == (PINNED, 0, DEVICE, 0)
    }
}

/// The device memory of `cudaMemLocationTypeDevice`.
const DEVICE: i32 = 1;
/// `cudaMemAllocationTypePinned`.
const PINNED: i32 = 1;

/// CUDA's `cudaMemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Place {
    kind: i32,
    device: i32,
}

/// The device whose pinned memory a location and a kind name.
fn of_place(call: &str, place: *const Place, kind: i32) -> Result<i32, Error> {
    // SAFETY: CUDA's manual asks for the structure.
    let place = unsafe { pointers::get(place) }?;
    if (place.kind, kind) != (DEVICE, PINNED) {
        eprintln!("warpsim: {call}: pools have pinned memory of a device");
        return Err(NOT_SUPPORTED);
    }
    Ok(place.device)
}

/// `cudaMemAccessFlagsProtReadWrite`.
pub const READ_WRITE: i32 = 3;

/// CUDA's `cudaMemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Access {
    /// What kind of place.
    pub place: i32,
    /// Its number.
    pub device: i32,
    /// What is allowed.
    pub flags: i32,
}

/// The pool of a device: the one it began with, or the one of allocations that name none.
///
/// # Errors
/// There is no such device.
pub fn of_device(state: &mut State, device: i32, default: bool) -> Result<usize, Error> {
    known(device)?;
    let pools = pools(state)?;
    Ok(if default { pools.default } else { pools.current })
}

/// Makes a pool that of allocations that name none.
///
/// # Errors
/// There is no such device or pool.
pub fn choose(state: &mut State, device: i32, pool: *mut c_void) -> Result<(), Error> {
    known(device)?;
    let pools = pools(state)?;
    pools.pool(pool)?;
    pools.current = pool as usize;
    Ok(())
}

/// Makes a pool.
///
/// # Errors
/// Its memory is not that of the device, or is shared.
///
/// # Safety
/// `properties` must lead to the structure.
pub unsafe fn create(state: &mut State, call: &str, properties: *const Properties) -> Result<usize, Error> {
    // SAFETY: the caller's promise.
    let properties = unsafe { pointers::get(properties) }?;
    if properties.handles != 0 {
        eprintln!("warpsim: {call}: pools are not shared between processes");
        return Err(NOT_SUPPORTED);
    }
    if !properties.is_of_device() {
        return Err(INVALID_VALUE);
    }
    pools(state)?;
    let handle = state.handle();
    pools(state)?.list.insert(handle, NEW);
    Ok(handle)
}

/// Forgets a pool; what was allocated from it stays.
///
/// # Errors
/// There is none such, or it is the one that the device began with.
pub fn destroy(state: &mut State, pool: *mut c_void) -> Result<(), Error> {
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

/// There is such a pool. What is free is the device's already.
///
/// # Errors
/// There is none.
pub fn trim(state: &mut State, pool: *mut c_void) -> Result<(), Error> {
    pools(state)?.pool(pool).map(drop)
}

/// Sets an attribute of a pool.
///
/// # Errors
/// There is no such pool or attribute.
///
/// # Safety
/// `value` must lead to a value of the attribute's type.
pub unsafe fn set_attribute(
    state: &mut State,
    pool: *mut c_void,
    attribute: i32,
    value: *mut c_void,
) -> Result<(), Error> {
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

/// Writes an attribute of a pool.
///
/// # Errors
/// There is no such pool or attribute.
pub fn attribute(
    state: &mut State,
    pool: *mut c_void,
    attribute: i32,
    value: *mut c_void,
) -> Result<(), Error> {
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

/// Sets who may access a pool: the one device, to read and write.
///
/// # Errors
/// There is no such pool, or something else is wanted.
///
/// # Safety
/// `list` must lead to `count` structures.
pub unsafe fn set_access(
    state: &mut State,
    pool: *mut c_void,
    list: *const Access,
    count: usize,
) -> Result<(), Error> {
    pools(state)?.pool(pool)?;
    for i in 0..count {
        // SAFETY: the caller's promise.
        let access = unsafe { pointers::get(list.wrapping_add(i)) }?;
        if (access.place, access.device, access.flags) != (DEVICE, 0, READ_WRITE) {
            return Err(INVALID_VALUE);
        }
    }
    Ok(())
}

/// Allocates from a pool, or from the device's current one, on a stream: where that is captured, a node allocates.
///
/// # Errors
/// As [`allocate`], or there is no such stream.
pub fn allocate_on(
    state: &mut State,
    at: *mut *mut c_void,
    bytes: usize,
    pool: Option<*mut c_void>,
    stream: *mut c_void,
) -> Result<(), Error> {
    state.runtime()?.streams.find(stream)?;
    if !state.is_captured(stream) {
        return allocate(state, at, bytes, pool);
    }
    let work = graph_use::allocate(state, bytes as u64)?;
    let Work::Allocate(address, _) = work else { return Err(INVALID_VALUE) };
    out!(at, address as *mut c_void);
    state.captured(stream, || work);
    Ok(())
}

/// Frees on a stream: where that is captured, a node frees.
///
/// # Errors
/// There is no such stream, or nothing begins there.
pub fn free_on(state: &mut State, at: *mut c_void, stream: *mut c_void) -> Result<(), Error> {
    state.runtime()?.streams.find(stream)?;
    if state.captured(stream, || Work::Free(at as u64)) {
        return Ok(());
    }
    free(state, at, false)
}

cuda! {
    fn cudaMallocAsync cudaMallocAsync_ptsz = (at: *mut *mut c_void, bytes: usize, stream: *mut c_void) |state| {
        allocate_on(state, at, bytes, None, stream)
    }

    fn cudaFreeAsync cudaFreeAsync_ptsz = (at: *mut c_void, stream: *mut c_void) |state| {
        free_on(state, at, stream)
    }

    fn cudaDeviceGetDefaultMemPool = (pool: *mut usize, device: i32) |state| {
        out!(pool, of_device(state, device, true)?);
        Ok(())
    }

    fn cudaDeviceGetMemPool = (pool: *mut usize, device: i32) |state| {
        out!(pool, of_device(state, device, false)?);
        Ok(())
    }

    fn cudaDeviceSetMemPool = (device: i32, pool: *mut c_void) |state| { choose(state, device, pool) }

    fn cudaMemGetDefaultMemPool = (pool: *mut usize, place: *const Place, kind: i32) |state| {
        out!(pool, of_device(state, of_place("cudaMemGetDefaultMemPool", place, kind)?, true)?);
        Ok(())
    }

    fn cudaMemGetMemPool = (pool: *mut usize, place: *const Place, kind: i32) |state| {
        out!(pool, of_device(state, of_place("cudaMemGetMemPool", place, kind)?, false)?);
        Ok(())
    }

    fn cudaMemSetMemPool = (place: *const Place, kind: i32, pool: *mut c_void) |state| {
        let device = of_place("cudaMemSetMemPool", place, kind)?;
        choose(state, device, pool)
    }

    fn cudaMemPoolCreate = (pool: *mut usize, properties: *const Properties) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        out!(pool, unsafe { create(state, "cudaMemPoolCreate", properties) }?);
        Ok(())
    }

    fn cudaMemPoolDestroy = (pool: *mut c_void) |state| { destroy(state, pool) }

    fn cudaMemPoolTrimTo = (pool: *mut c_void, _keep: usize) |state| { trim(state, pool) }

    fn cudaMemPoolSetAttribute = (pool: *mut c_void, number: i32, value: *mut c_void) |state| {
        // SAFETY: CUDA's manual asks for a value of the attribute's type.
        unsafe { set_attribute(state, pool, number, value) }
    }

    fn cudaMemPoolGetAttribute = (pool: *mut c_void, number: i32, value: *mut c_void) |state| {
        attribute(state, pool, number, value)
    }

    fn cudaMemPoolSetAccess = (pool: *mut c_void, list: *const Access, count: usize) |state| {
        // SAFETY: CUDA's manual asks for as many structures.
        unsafe { set_access(state, pool, list, count) }
    }

    fn cudaMemPoolGetAccess = (flags: *mut i32, pool: *mut c_void, _location: *mut c_void) |state| {
        trim(state, pool)?;
        out!(flags, READ_WRITE);
        Ok(())
    }

    fn cudaMallocFromPoolAsync cudaMallocFromPoolAsync_ptsz = (at: *mut *mut c_void, bytes: usize, pool: *mut c_void, stream: *mut c_void) |state| {
        allocate_on(state, at, bytes, Some(pool), stream)
    }
}
