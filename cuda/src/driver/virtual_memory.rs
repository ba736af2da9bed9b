//! Virtual memory of the driver API.

use std::ffi::c_void;

use crate::device::known as known_device;
use crate::error::{Error, INVALID_VALUE, NOT_SUPPORTED};
use crate::pointers;
use crate::pools::{Access, READ_WRITE};
use crate::virtual_memory::{
    GRANULARITY, allow, create, give_back, is_allowed, known, map, release, reserve, retain, unmap,
};

/// CUDA's `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Wanted {
    kind: i32,
    handles: i32,
    place: i32,
    device: i32,
    windows: usize,
    /// Compression, direct access by others, usage.
    flags: u64,
}

/// `CU_MEM_ALLOCATION_TYPE_PINNED` and `CU_MEM_LOCATION_TYPE_DEVICE`.
const PINNED: i32 = 1;
const DEVICE: i32 = 1;

impl Wanted {
    /// Pinned memory of the device.
    pub const PINNED: Self =
        Self { kind: PINNED, handles: 0, place: DEVICE, device: 0, windows: 0, flags: 0 };
}

fn wanted(call: &str, at: *const Wanted) -> Result<(), Error> {
    // SAFETY: CUDA's manual asks for the structure.
    let own = unsafe { pointers::get(at) }?;
    if own.handles != 0 || own.place != DEVICE {
        eprintln!(
            "warpsim: {call}: memory of the host, and memory that other processes share, is not supported"
        );
        return Err(NOT_SUPPORTED);
    }
    known_device(own.device)?;
    if own.kind == PINNED { Ok(()) } else { Err(INVALID_VALUE) }
}

driver! {
    ENTRIES []

    driver cuMemGetAllocationGranularity = (bytes: *mut usize, properties: *const Wanted, _option: i32) |_state| {
        wanted("cuMemGetAllocationGranularity", properties)?;
        out!(bytes, GRANULARITY as usize);
        Ok(())
    }

    context cuMemAddressReserve = (at: *mut u64, bytes: usize, align: usize, wanted: u64, _flags: u64) |state| {
        out!(at, reserve(state, bytes as u64, align as u64, wanted)?);
        Ok(())
    }

    context cuMemAddressFree = (at: u64, bytes: usize) |state| { give_back(state, at, bytes as u64) }

    context cuMemCreate = (handle: *mut usize, bytes: usize, properties: *const Wanted, _flags: u64) |state| {
        wanted("cuMemCreate", properties)?;
        out!(handle, create(state, bytes as u64)?);
        Ok(())
    }

    context cuMemRelease = (handle: usize) |state| { release(state, handle) }

    context cuMemMap = (at: u64, bytes: usize, offset: usize, handle: usize, _flags: u64) |state| {
        map(state, at, bytes as u64, offset as u64, handle)
    }

    context cuMemUnmap = (at: u64, bytes: usize) |state| { unmap(state, at, bytes as u64) }

    context cuMemSetAccess = (at: u64, bytes: usize, list: *const Access, count: usize) |state| {
        for i in 0..count {
            // SAFETY: CUDA's manual asks for as many structures.
            let own = unsafe { pointers::get(list.wrapping_add(i)) }?;
            if own.place != DEVICE {
                eprintln!("warpsim: cuMemSetAccess: access by the host is not supported");
                return Err(NOT_SUPPORTED);
            }
            known_device(own.device)?;
            match own.flags {
                0 => allow(state, at, bytes as u64, false)?,
                READ_WRITE => allow(state, at, bytes as u64, true)?,
                1 => {
                    eprintln!(
                        "warpsim: cuMemSetAccess: memory that can be read and not written is not supported; \
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE is"
                    );
                    return Err(NOT_SUPPORTED);
                }
                _ => return Err(INVALID_VALUE),
            }
        }
        Ok(())
    }

    context cuMemGetAccess = (flags: *mut u64, _place: *const c_void, at: u64) |state| {
        out!(flags, if is_allowed(state, at)? { READ_WRITE as u64 } else { 0 });
        Ok(())
    }

    context cuMemRetainAllocationHandle = (handle: *mut usize, at: u64) |state| {
        out!(handle, retain(state, at)?);
        Ok(())
    }

    context cuMemGetAllocationPropertiesFromHandle = (properties: *mut Wanted, handle: usize) |state| {
        known(state, handle)?;
        out!(properties, Wanted::PINNED);
        Ok(())
    }
}
