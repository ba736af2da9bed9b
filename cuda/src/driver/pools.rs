//! Memory pools of the driver API.

use std::ffi::c_void;

use crate::driver::memory::memory_on;
use crate::pools::{
    Access, Properties, READ_WRITE, attribute, choose, create, destroy, of_device, set_access, set_attribute,
    trim,
};

driver! {
    ENTRIES []

    driver cuDeviceGetDefaultMemPool = (pool: *mut usize, device: i32) |state| {
        out!(pool, of_device(state, device, true)?);
        Ok(())
    }

    driver cuDeviceGetMemPool = (pool: *mut usize, device: i32) |state| {
        out!(pool, of_device(state, device, false)?);
        Ok(())
    }

    driver cuDeviceSetMemPool = (device: i32, pool: *mut c_void) |state| { choose(state, device, pool) }

    driver cuMemPoolCreate = (pool: *mut usize, properties: *const Properties) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        out!(pool, unsafe { create(state, "cuMemPoolCreate", properties) }?);
        Ok(())
    }

    driver cuMemPoolDestroy = (pool: *mut c_void) |state| { destroy(state, pool) }

    driver cuMemPoolTrimTo = (pool: *mut c_void, _keep: usize) |state| { trim(state, pool) }

    driver cuMemPoolSetAttribute = (pool: *mut c_void, number: i32, value: *mut c_void) |state| {
        // SAFETY: CUDA's manual asks for a value of the attribute's type.
        unsafe { set_attribute(state, pool, number, value) }
    }

    driver cuMemPoolGetAttribute = (pool: *mut c_void, number: i32, value: *mut c_void) |state| {
        attribute(state, pool, number, value)
    }

    driver cuMemPoolSetAccess = (pool: *mut c_void, list: *const Access, count: usize) |state| {
        // SAFETY: CUDA's manual asks for as many structures.
        unsafe { set_access(state, pool, list, count) }
    }

    driver cuMemPoolGetAccess = (flags: *mut i32, pool: *mut c_void, _location: *mut c_void) |state| {
        trim(state, pool)?;
        out!(flags, READ_WRITE);
        Ok(())
    }

    context cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync_ptsz = (
        at: *mut u64, bytes: usize, pool: *mut c_void, stream: *mut c_void
    ) |state| {
        // SAFETY: CUDA's manual asks for a place.
        unsafe { memory_on(state, at, bytes, Some(pool), stream) }
    }
}
