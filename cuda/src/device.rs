//! The device: how many there are, what it can do, waiting for it. There is one.

use std::ffi::{CStr, c_char, c_void};

use crate::call;
use crate::error::{Error, INVALID_DEVICE, INVALID_VALUE, PEER_NOT_ENABLED};
use crate::images::ChannelFormat;
use crate::limits;
pub use crate::one_device::{Runtime, known, loaded};
use crate::pointers;
use crate::properties::{Version, attribute, properties};
use crate::runtime::State;

/// Where the device is said to be.
pub const BUS_ID: &CStr = c"0000:01:00.0";

fn tell(state: &mut State, at: *mut u8, device: i32, version: Version) -> Result<(), Error> {
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    known(device)?;
    let all = properties(state.runtime()?.device.chip(), version);
    // SAFETY: CUDA's manual asks for the structure of the version that the program was compiled with.
    unsafe { pointers::bytes_mut(at, all.len()) }.copy_from_slice(&all);
    Ok(())
}

/// The version of CUDA's runtime that the program was made for.
pub fn runtime_version() -> i32 {
    if loaded(Runtime::Thirteen) { 13_000 } else { 12_090 }
}

/// `cudaDevAttrMaxTexture1DLinearWidth`.
pub const LINEAR_WIDTH: i32 = 69;

cuda! {
    fn cudaGetDeviceCount = (count: *mut i32) |_state| {
        out!(count, 1);
        Ok(())
    }

    fn cudaGetDevice = (device: *mut i32) |_state| {
        out!(device, 0);
        Ok(())
    }

    fn cudaSetDevice = (device: i32) |state| {
        known(device)?;
        state.runtime().map(drop)
    }

    fn cudaInitDevice = (device: i32, _device_flags: u32, _flags: u32) |state| {
        known(device)?;
        state.runtime().map(drop)
    }

    fn cudaChooseDevice = (device: *mut i32, _properties: *const c_void) |_state| {
        out!(device, 0);
        Ok(())
    }

    fn cudaSetValidDevices = (devices: *mut i32, count: i32) |_state| {
        // SAFETY: CUDA's manual asks for as many numbers.
        (0..count.max(0) as usize).try_for_each(|i| known(unsafe { pointers::get(devices.wrapping_add(i)) }?))
    }

    fn cudaGetDeviceProperties = (at: *mut u8, device: i32) |state| {
        tell(state, at, device, if loaded(Runtime::Thirteen) { Version::Thirteen } else { Version::Eleven })
    }

    fn cudaGetDeviceProperties_v2 = (at: *mut u8, device: i32) |state| { tell(state, at, device, Version::Twelve) }

    fn cudaDeviceGetAttribute = (value: *mut i32, number: i32, device: i32) |state| {
        known(device)?;
        out!(value, attribute(state.runtime()?.device.chip(), number).ok_or(INVALID_VALUE)?);
        Ok(())
    }

    fn cudaDeviceSynchronize cudaThreadSynchronize = () |state| {
        state.runtime()?;
        state.synchronize()
    }

    fn cudaSetDeviceFlags = (_flags: u32) |_state| { Ok(()) }

    fn cudaGetDeviceFlags = (flags: *mut u32) |_state| {
        out!(flags, 0);
        Ok(())
    }

    fn cudaDeviceGetLimit cudaThreadGetLimit = (value: *mut usize, number: i32) |state| { limits::tell(state, value, number) }

    fn cudaDeviceSetLimit cudaThreadSetLimit = (number: i32, value: usize) |state| { limits::set(state, number, value) }

    fn cudaDeviceSetCacheConfig cudaDeviceSetSharedMemConfig cudaThreadSetCacheConfig = (_config: i32) |_state| {
        // What a program prefers changes no result.
        Ok(())
    }

    fn cudaThreadGetCacheConfig cudaDeviceGetCacheConfig cudaDeviceGetSharedMemConfig = (config: *mut i32) |_state| {
        out!(config, 0);
        Ok(())
    }

    fn cudaDeviceCanAccessPeer = (can: *mut i32, device: i32, peer: i32) |_state| {
        known(device)?;
        known(peer)?;
        out!(can, 0);
        Ok(())
    }

    // A device is no peer of its own, and there is no other.
    fn cudaDeviceEnablePeerAccess = (_peer: i32, _flags: u32) |_state| { Err(INVALID_DEVICE) }

    fn cudaDeviceDisablePeerAccess = (peer: i32) |_state| {
        known(peer)?;
        Err(PEER_NOT_ENABLED)
    }

    fn cudaDeviceGetPCIBusId = (text: *mut c_char, length: i32, device: i32) |_state| {
        known(device)?;
        // SAFETY: CUDA's manual asks for room of `length` bytes.
        unsafe { pointers::put_text(text, length, BUS_ID.to_bytes(), false) }
    }

    fn cudaDeviceGetByPCIBusId = (device: *mut i32, text: *const c_char) |_state| {
        // SAFETY: CUDA's manual asks for a text.
        if unsafe { pointers::text(text) }?.as_bytes() != BUS_ID.to_bytes() {
            return Err(INVALID_DEVICE);
        }
        out!(device, 0);
        Ok(())
    }

    fn cudaDriverGetVersion cudaRuntimeGetVersion = (version: *mut i32) |_state| {
        out!(version, runtime_version());
        Ok(())
    }

    fn cudaDeviceGetP2PAttribute = (_value: *mut i32, _number: i32, device: i32, peer: i32) |_state| {
        known(device)?;
        known(peer)?;
        // A device is no peer of itself.
        Err(INVALID_DEVICE)
    }

    fn cudaDeviceGetTexture1DLinearMaxWidth = (elements: *mut usize, format: *const ChannelFormat, device: i32) |state| {
        known(device)?;
        // SAFETY: CUDA's manual asks for the structure.
        unsafe { pointers::get(format) }?;
        out!(elements, attribute(state.runtime()?.device.chip(), LINEAR_WIDTH).ok_or(INVALID_VALUE)? as usize);
        Ok(())
    }

    fn cudaDeviceFlushGPUDirectRDMAWrites = (_target: i32, _scope: i32) |state| {
        // No other device writes to this one.
        state.runtime().map(drop)
    }

    fn cudaProfilerStart cudaProfilerStop = () |_state| { Ok(()) }
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceReset() -> i32 {
    call::keep("cudaDeviceReset", || {
        call::lock().reset();
        call::last(true);
        Ok(())
    })
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaThreadExit() -> i32 {
    cudaDeviceReset()
}
