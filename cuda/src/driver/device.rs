//! Devices: there is one, the simulated chip.

use std::ffi::{c_char, c_void};

use crate::device::{BUS_ID, LINEAR_WIDTH, known};
use crate::error::{Error, INVALID_DEVICE, INVALID_VALUE};
use crate::pointers;
use crate::properties::{attribute, name, uuid};
use crate::runtime::State;

/// Version of CUDA whose driver this is, as major * 1000 + minor * 10: the newest that was tried. A static runtime
/// works with a driver that is as new as itself or newer.
pub const VERSION: i32 = 13_050;

/// The value of an attribute.
///
/// # Errors
/// There is no such device or attribute.
pub fn value(state: &mut State, number: i32, device: i32) -> Result<i32, Error> {
    known(device)?;
    attribute(state.runtime()?.device.chip(), number).ok_or(INVALID_VALUE)
}

/// CUDA's `CUdevprop`.
#[repr(C)]
pub struct Properties([i32; 14]);

fn legacy(state: &mut State, device: i32) -> Result<Properties, Error> {
    let mut out = [0; 14];
    // Threads, sizes of blocks and grids, shared and constant memory, warp, pitch, registers, clock, alignment.
    for (place, number) in out.iter_mut().zip([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]) {
        *place = value(state, number, device)?;
    }
    Ok(Properties(out))
}

driver! {
    ENTRIES []

    nothing cuInit = (flags: u32) |state| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        state.driver.initialized = true;
        Ok(())
    }

    nothing cuDriverGetVersion = (version: *mut i32) |_state| {
        out!(version, VERSION);
        Ok(())
    }

    driver cuDeviceGetCount = (count: *mut i32) |_state| {
        out!(count, 1);
        Ok(())
    }

    driver cuDeviceGet = (device: *mut i32, ordinal: i32) |_state| {
        known(ordinal)?;
        out!(device, ordinal);
        Ok(())
    }

    driver cuDeviceGetName = (text: *mut c_char, length: i32, device: i32) |state| {
        known(device)?;
        let name = name(state.runtime()?.device.chip());
        // SAFETY: CUDA's manual asks for room of `length` bytes.
        unsafe { pointers::put_text(text, length, name.as_bytes(), true) }
    }

    driver cuDeviceTotalMem_v2 = (bytes: *mut usize, device: i32) |state| {
        known(device)?;
        out!(bytes, state.runtime()?.device.chip().limits.global_mem_size as usize);
        Ok(())
    }

    driver cuDeviceGetAttribute = (at: *mut i32, number: i32, device: i32) |state| {
        out!(at, value(state, number, device)?);
        Ok(())
    }

    driver cuDeviceGetUuid cuDeviceGetUuid_v2 = (at: *mut [u8; 16], device: i32) |state| {
        known(device)?;
        out!(at, uuid(state.runtime()?.device.chip()));
        Ok(())
    }

    driver cuDeviceComputeCapability = (major: *mut i32, minor: *mut i32, device: i32) |state| {
        out!(major, value(state, 75, device)?);
        out!(minor, value(state, 76, device)?);
        Ok(())
    }

    driver cuDeviceGetProperties = (at: *mut Properties, device: i32) |state| {
        known(device)?;
        out!(at, legacy(state, device)?);
        Ok(())
    }

    driver cuDeviceGetPCIBusId = (text: *mut c_char, length: i32, device: i32) |_state| {
        known(device)?;
        // SAFETY: CUDA's manual asks for room of `length` bytes.
        unsafe { pointers::put_text(text, length, BUS_ID.to_bytes(), false) }
    }

    driver cuDeviceGetByPCIBusId = (device: *mut i32, text: *const c_char) |_state| {
        // SAFETY: CUDA's manual asks for a text.
        if unsafe { pointers::text(text) }?.as_bytes() != BUS_ID.to_bytes() {
            return Err(INVALID_DEVICE);
        }
        out!(device, 0);
        Ok(())
    }

    driver cuDeviceCanAccessPeer = (can: *mut i32, device: i32, peer: i32) |_state| {
        known(device)?;
        known(peer)?;
        out!(can, 0);
        Ok(())
    }

    driver cuDeviceGetExecAffinitySupport = (supported: *mut i32, _kind: i32, device: i32) |_state| {
        known(device)?;
        out!(supported, 0);
        Ok(())
    }

    driver cuDeviceGetP2PAttribute = (_value: *mut i32, _number: i32, device: i32, peer: i32) |_state| {
        known(device)?;
        known(peer)?;
        // A device is no peer of itself.
        Err(INVALID_DEVICE)
    }

    driver cuDeviceGetTexture1DLinearMaxWidth = (elements: *mut usize, _format: i32, _channels: u32, device: i32) |state| {
        out!(elements, value(state, LINEAR_WIDTH, device)? as usize);
        Ok(())
    }

    context cuFlushGPUDirectRDMAWrites = (_target: i32, _scope: i32) |_state| {
        // No other device writes to this one.
        Ok(())
    }

    driver cuProfilerStart cuProfilerStop = () |_state| { Ok(()) }

    driver cuDeviceGetDevResource = (device: i32, _resource: *mut c_void, _kind: i32) |_state| {
        known(device)?;
        Err(crate::error::NOT_SUPPORTED)
    }
}
