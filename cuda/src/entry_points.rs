//! `cudaGetDriverEntryPoint`: functions of the driver API, as the runtime API gives them.

use std::ffi::{c_char, c_void};

use crate::device::runtime_version;
use crate::driver::entries::{self, PER_THREAD};
use crate::error::{Error, INVALID_VALUE};
use crate::pointers::text;

/// Writes what a name means; the status says whether there is such a function.
///
/// # Safety
/// The name is a text, the pointers are null or places of results.
unsafe fn give(
    name: *const c_char,
    at: *mut *const c_void,
    version: i32,
    flags: u64,
    status: *mut i32,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe {
        if text(name)?.is_empty() {
            return Err(INVALID_VALUE);
        }
        entries::give(name, at, version, flags, status).map(drop)
    }
}

cuda! {
    fn cudaGetDriverEntryPoint = (name: *const c_char, at: *mut *const c_void, flags: u64, status: *mut i32) |_state| {
        // SAFETY: CUDA's manual asks for a text and places.
        unsafe { give(name, at, runtime_version(), flags, status) }
    }

    fn cudaGetDriverEntryPoint_ptsz = (name: *const c_char, at: *mut *const c_void, flags: u64, status: *mut i32) |_state| {
        // Without a choice, the functions are those of the thread's own default stream.
        let flags = if flags == 0 { PER_THREAD } else { flags };
        // SAFETY: CUDA's manual asks for a text and places.
        unsafe { give(name, at, runtime_version(), flags, status) }
    }

    fn cudaGetDriverEntryPointByVersion = (
        name: *const c_char, at: *mut *const c_void, version: u32, flags: u64, status: *mut i32
    ) |_state| {
        let version = i32::try_from(version).map_err(|_| INVALID_VALUE)?;
        // SAFETY: CUDA's manual asks for a text and places.
        unsafe { give(name, at, version, flags, status) }
    }

    fn cudaGetDriverEntryPointByVersion_ptsz = (
        name: *const c_char, at: *mut *const c_void, version: u32, flags: u64, status: *mut i32
    ) |_state| {
        let version = i32::try_from(version).map_err(|_| INVALID_VALUE)?;
        let flags = if flags == 0 { PER_THREAD } else { flags };
        // SAFETY: CUDA's manual asks for a text and places.
        unsafe { give(name, at, version, flags, status) }
    }
}
