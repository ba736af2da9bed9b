//! Memory, copies and fills of the driver API.

use std::ffi::c_void;

use crate::boxes::copy_boxes;
use crate::driver::call::own;
use crate::driver::state::Owned;
use crate::error::{Error, INVALID_DEVICE, INVALID_VALUE};
use crate::graph::{Copy3D, Extent, Fill, IN_BYTES, Pitched, Work};
use crate::memory::{
    ANY, PITCH, allocate, allocate_shared, copy, copy_batch, copy_on, copy_rows, fill_rows, free, of_host,
    register, unregister,
};
use crate::pointers;
use crate::pools::{allocate_on, free_on};
use crate::runtime::State;
use crate::shared::Kind;

/// Directions of copies as the runtime API numbers them.
const TO_DEVICE: i32 = 1;
const TO_HOST: i32 = 2;
const DEVICE: i32 = 3;

/// A box in host or device memory, or in an array, as CUDA's copies describe it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side2D {
    x: usize,
    y: usize,
    /// 1 host, 2 device, 3 array, 4 unified.
    kind: i32,
    host: usize,
    device: usize,
    array: usize,
    pitch: usize,
}

/// CUDA's `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copy2D {
    from: Side2D,
    to: Side2D,
    width: usize,
    height: usize,
}

/// The same with a third dimension.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side3D {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: i32,
    host: usize,
    device: usize,
    array: usize,
    reserved: usize,
    pitch: usize,
    height: usize,
}

/// CUDA's `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Boxes {
    from: Side3D,
    to: Side3D,
    width: usize,
    height: usize,
    depth: usize,
}

/// The address of a side by its kind of memory.
fn address(kind: i32, host: usize, device: usize) -> Result<usize, Error> {
    match kind {
        1 => Ok(host),
        2 | 4 => Ok(device),
        // An array has a handle instead.
        3 => Ok(0),
        _ => Err(INVALID_VALUE),
    }
}

/// A copy of a box as the runtime API has it.
///
/// # Errors
/// A side is none.
pub fn boxes(all: &Boxes) -> Result<Copy3D, Error> {
    let position = |side: &Side3D| Extent { width: side.x, height: side.y, depth: side.z };
    let place = |side: &Side3D| {
        let at = address(side.kind, side.host, side.device)?;
        // A pitch or height of 0 is that of the box.
        let (pitch, height) = (side.pitch.max(all.width), side.height.max(all.height));
        Ok(Pitched { at, pitch, width: all.width, height })
    };
    let array = |side: &Side3D| match side.kind {
        3 if side.array == 0 => Err(INVALID_VALUE),
        3 => Ok(side.array),
        _ => Ok(0),
    };
    Ok(Copy3D {
        from_array: array(&all.from)?,
        from_position: position(&all.from),
        from: place(&all.from)?,
        to_array: array(&all.to)?,
        to_position: position(&all.to),
        to: place(&all.to)?,
        extent: Extent { width: all.width, height: all.height, depth: all.depth },
        kind: ANY | IN_BYTES,
    })
}

/// A copy of rows as that of a box.
fn box_of(all: &Copy2D) -> Result<Copy3D, Error> {
    let deep = |side: &Side2D| Side3D {
        x: side.x,
        y: side.y,
        z: 0,
        level: 0,
        kind: side.kind,
        host: side.host,
        device: side.device,
        array: side.array,
        reserved: 0,
        pitch: side.pitch,
        height: 0,
    };
    let (from, to) = (deep(&all.from), deep(&all.to));
    boxes(&Boxes { from, to, width: all.width, height: all.height, depth: 1 })
}

unsafe fn rows(state: &mut State, all: *const Copy2D) -> Result<(), Error> {
    // SAFETY: CUDA's manual asks for the structure.
    let all = unsafe { pointers::get(all) }?;
    if all.from.kind == 3 || all.to.kind == 3 {
        // SAFETY: CUDA's manual asks for valid memory.
        return unsafe { copy_boxes(state, &box_of(&all)?) };
    }
    let begin = |side: &Side2D| {
        let pitch = if side.pitch == 0 { all.width } else { side.pitch };
        Ok(((address(side.kind, side.host, side.device)? + side.y * pitch + side.x) as u64, pitch))
    };
    // SAFETY: CUDA's manual asks for valid memory.
    unsafe { copy_rows(state, begin(&all.to)?, begin(&all.from)?, (all.width, all.height), ANY) }
}

/// Fills `height` rows of `width` elements of `element` bytes.
fn fill(at: u64, pitch: usize, value: u32, element: u32, (width, height): (usize, usize)) -> Fill {
    Fill { at: at as usize, pitch, value, element, width, height }
}

fn fill_on(state: &mut State, fill: Fill, stream: *mut c_void) -> Result<(), Error> {
    state.runtime()?.streams.find(stream)?;
    if !fill.at.is_multiple_of(fill.element as usize) {
        return Err(INVALID_VALUE);
    }
    if state.captured(stream, || Work::Fill(fill)) {
        return Ok(());
    }
    fill_rows(state, &fill)
}

fn device_memory(state: &mut State, at: *mut u64, bytes: usize) -> Result<(), Error> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    allocate(state, at.cast(), bytes)?;
    // SAFETY: it was written just now.
    let address = unsafe { pointers::get(at) }?;
    own(state, address as usize, Owned::Memory)
}

/// Memory of a pool, or of the device's current one, on a stream.
///
/// # Errors
/// There is no such stream or pool, or too little memory.
///
/// # Safety
/// `at` must be null or a place for the address.
pub unsafe fn memory_on(
    state: &mut State,
    at: *mut u64,
    bytes: usize,
    pool: Option<*mut c_void>,
    stream: *mut c_void,
) -> Result<(), Error> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    allocate_on(state, at.cast(), bytes, pool, stream)?;
    if state.is_captured(stream) {
        return Ok(());
    }
    // SAFETY: it was written just now.
    let address = unsafe { pointers::get(at) }?;
    own(state, address as usize, Owned::Memory)
}

fn shared_memory(state: &mut State, at: *mut *mut c_void, bytes: usize, kind: Kind) -> Result<(), Error> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    allocate_shared(state, at, bytes, kind)?;
    // SAFETY: it was written just now.
    let address = unsafe { pointers::get(at) }?;
    let what = if kind == Kind::Pinned { Owned::Pinned } else { Owned::Memory };
    own(state, address as usize, what)
}

fn give_back(state: &mut State, at: usize, of_host: bool) -> Result<(), Error> {
    free(state, at as *mut c_void, of_host)?;
    state.driver.owned.remove(&at);
    Ok(())
}

driver! {
    ENTRIES []

    context cuMemAlloc_v2 = (at: *mut u64, bytes: usize) |state| { device_memory(state, at, bytes) }

    context cuMemAllocAsync cuMemAllocAsync_ptsz = (at: *mut u64, bytes: usize, stream: *mut c_void) |state| {
        // SAFETY: CUDA's manual asks for a place.
        unsafe { memory_on(state, at, bytes, None, stream) }
    }

    context cuMemAllocPitch_v2 = (at: *mut u64, pitch: *mut usize, width: usize, height: usize, element: u32) |state| {
        if ![4, 8, 16].contains(&element) {
            return Err(INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(PITCH).ok_or(INVALID_VALUE)?;
        device_memory(state, at, row.checked_mul(height).ok_or(INVALID_VALUE)?)?;
        out!(pitch, row);
        Ok(())
    }

    context cuMemFree_v2 = (at: u64) |state| { give_back(state, at as usize, false) }

    context cuMemFreeAsync cuMemFreeAsync_ptsz = (at: u64, stream: *mut c_void) |state| {
        free_on(state, at as *mut c_void, stream)?;
        if !state.is_captured(stream) {
            state.driver.owned.remove(&(at as usize));
        }
        Ok(())
    }

    context cuMemAllocHost_v2 = (at: *mut *mut c_void, bytes: usize) |state| {
        shared_memory(state, at, bytes, Kind::Pinned)
    }

    context cuMemHostAlloc = (at: *mut *mut c_void, bytes: usize, flags: u32) |state| {
        if flags > 7 {
            return Err(INVALID_VALUE);
        }
        shared_memory(state, at, bytes, Kind::Pinned)
    }

    context cuMemFreeHost = (at: usize) |state| { give_back(state, at, true) }

    context cuMemAllocManaged = (at: *mut *mut c_void, bytes: usize, flags: u32) |state| {
        if !(1..=2).contains(&flags) {
            return Err(INVALID_VALUE);
        }
        shared_memory(state, at, bytes, Kind::Managed)
    }

    context cuMemHostGetDevicePointer_v2 = (device: *mut u64, host: *mut c_void, _flags: u32) |state| {
        out!(device, of_host(state, host as u64)?);
        Ok(())
    }

    context cuMemHostGetFlags = (flags: *mut u32, host: *mut c_void) |state| {
        of_host(state, host as u64)?;
        out!(flags, 2);
        Ok(())
    }

    context cuMemHostRegister_v2 = (at: usize, bytes: usize, _flags: u32) |state| {
        // SAFETY: CUDA's manual asks for memory of the host that stays until it is unregistered.
        unsafe { register(state, at as u64, bytes as u64) }
    }

    context cuMemHostUnregister = (at: usize) |state| { unregister(state, at as u64) }

    context cuMemGetInfo_v2 = (free: *mut usize, total: *mut usize) |state| {
        let device = &mut state.runtime()?.device;
        let bytes = device.free_bytes().map_err(|_| INVALID_DEVICE)?;
        out!(total, device.chip().limits.global_mem_size as usize);
        out!(free, bytes.saturating_sub(state.runtime()?.virtual_memory.unmapped()) as usize);
        Ok(())
    }

    context cuMemGetAddressRange_v2 = (base: *mut u64, bytes: *mut usize, at: u64) |state| {
        let runtime = state.runtime()?;
        let shared = runtime.shared.find(at).map(|(begin, bytes, _)| (begin, bytes));
        let found = shared.or_else(|| runtime.device.allocation(at, 1));
        let (begin, size) = found.ok_or(crate::error::NOT_FOUND)?;
        if !base.is_null() {
            out!(base, begin);
        }
        if !bytes.is_null() {
            out!(bytes, size as usize);
        }
        Ok(())
    }

    context cuMemcpy cuMemcpy_ptds = (to: u64, from: u64, bytes: usize) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to, from, bytes, ANY) }
    }

    context cuMemcpyAsync cuMemcpyAsync_ptsz = (to: u64, from: u64, bytes: usize, stream: *mut c_void) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_on(state, (to, from), bytes, ANY, stream) }
    }

    context cuMemcpyHtoD_v2 cuMemcpyHtoD_v2_ptds = (to: u64, from: u64, bytes: usize) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to, from, bytes, TO_DEVICE) }
    }

    context cuMemcpyHtoDAsync_v2 cuMemcpyHtoDAsync_v2_ptsz = (to: u64, from: u64, bytes: usize, stream: *mut c_void) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_on(state, (to, from), bytes, TO_DEVICE, stream) }
    }

    context cuMemcpyDtoH_v2 cuMemcpyDtoH_v2_ptds = (to: u64, from: u64, bytes: usize) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to, from, bytes, TO_HOST) }
    }

    context cuMemcpyDtoHAsync_v2 cuMemcpyDtoHAsync_v2_ptsz = (to: u64, from: u64, bytes: usize, stream: *mut c_void) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_on(state, (to, from), bytes, TO_HOST, stream) }
    }

    context cuMemcpyDtoD_v2 cuMemcpyDtoD_v2_ptds = (to: u64, from: u64, bytes: usize) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to, from, bytes, DEVICE) }
    }

    context cuMemcpyDtoDAsync_v2 cuMemcpyDtoDAsync_v2_ptsz = (to: u64, from: u64, bytes: usize, stream: *mut c_void) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_on(state, (to, from), bytes, DEVICE, stream) }
    }

    context cuMemcpyPeer cuMemcpyPeer_ptds = (to: u64, _to_context: usize, from: u64, _from_context: usize, bytes: usize) |state| {
        // All contexts share the one device.
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to, from, bytes, DEVICE) }
    }

    context cuMemcpyPeerAsync cuMemcpyPeerAsync_ptsz = (
        to: u64, _to_context: usize, from: u64, _from_context: usize, bytes: usize, stream: *mut c_void
    ) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_on(state, (to, from), bytes, DEVICE, stream) }
    }

    context cuMemcpy2D_v2 cuMemcpy2D_v2_ptds cuMemcpy2DUnaligned_v2 cuMemcpy2DUnaligned_v2_ptds = (all: *const Copy2D) |state| {
        // SAFETY: CUDA's manual asks for the structure and valid memory.
        unsafe { rows(state, all) }
    }

    context cuMemcpy2DAsync_v2 cuMemcpy2DAsync_v2_ptsz = (all: *const Copy2D, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        if state.is_captured(stream) {
            // SAFETY: CUDA's manual asks for the structure.
            let all = unsafe { box_of(&pointers::get(all)?) }?;
            state.captured(stream, || Work::Copy3D(all));
            return Ok(());
        }
        // SAFETY: CUDA's manual asks for the structure and valid memory.
        unsafe { rows(state, all) }
    }

    context cuMemcpy3D_v2 cuMemcpy3D_v2_ptds = (all: *const Boxes) |state| {
        // SAFETY: CUDA's manual asks for the structure and valid memory.
        unsafe { copy_boxes(state, &boxes(&pointers::get(all)?)?) }
    }

    context cuMemcpy3DAsync_v2 cuMemcpy3DAsync_v2_ptsz = (all: *const Boxes, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        // SAFETY: CUDA's manual asks for the structure.
        let own = boxes(&unsafe { pointers::get(all) }?)?;
        if state.captured(stream, || Work::Copy3D(own)) {
            return Ok(());
        }
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_boxes(state, &own) }
    }

    context cuMemcpyBatchAsync_v2 cuMemcpyBatchAsync_v2_ptsz = (
        to: *const u64, from: *const u64, bytes: *const usize, count: usize, _attributes: *const c_void,
        _places: *const usize, _kinds: usize, stream: *mut c_void
    ) |state| {
        // SAFETY: CUDA's manual asks for as many of each, and for valid memory.
        unsafe { copy_batch(state, (to, from), bytes, count, stream) }
    }

    context cuMemcpyBatchAsync cuMemcpyBatchAsync_ptsz = (
        to: *const u64, from: *const u64, bytes: *const usize, count: usize, _attributes: *const c_void,
        _places: *const usize, _kinds: usize, _wrong: *mut usize, stream: *mut c_void
    ) |state| {
        // SAFETY: as above.
        unsafe { copy_batch(state, (to, from), bytes, count, stream) }
    }

    context cuMemcpyWithAttributesAsync cuMemcpyWithAttributesAsync_ptsz = (
        to: u64, from: u64, bytes: usize, _attributes: *const c_void, stream: *mut c_void
    ) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_on(state, (to, from), bytes, ANY, stream) }
    }

    context cuMemsetD8_v2 cuMemsetD8_v2_ptds = (at: u64, value: u8, n: usize) |state| {
        fill_rows(state, &fill(at, n, value.into(), 1, (n, 1)))
    }

    context cuMemsetD16_v2 cuMemsetD16_v2_ptds = (at: u64, value: u16, n: usize) |state| {
        fill_on(state, fill(at, 2 * n, value.into(), 2, (n, 1)), std::ptr::null_mut())
    }

    context cuMemsetD32_v2 cuMemsetD32_v2_ptds = (at: u64, value: u32, n: usize) |state| {
        fill_on(state, fill(at, 4 * n, value, 4, (n, 1)), std::ptr::null_mut())
    }

    context cuMemsetD8Async cuMemsetD8Async_ptsz = (at: u64, value: u8, n: usize, stream: *mut c_void) |state| {
        fill_on(state, fill(at, n, value.into(), 1, (n, 1)), stream)
    }

    context cuMemsetD16Async cuMemsetD16Async_ptsz = (at: u64, value: u16, n: usize, stream: *mut c_void) |state| {
        fill_on(state, fill(at, 2 * n, value.into(), 2, (n, 1)), stream)
    }

    context cuMemsetD32Async cuMemsetD32Async_ptsz = (at: u64, value: u32, n: usize, stream: *mut c_void) |state| {
        fill_on(state, fill(at, 4 * n, value, 4, (n, 1)), stream)
    }

    context cuMemsetD2D8_v2 cuMemsetD2D8_v2_ptds = (at: u64, pitch: usize, value: u8, width: usize, height: usize) |state| {
        fill_rows(state, &fill(at, pitch, value.into(), 1, (width, height)))
    }

    context cuMemsetD2D16_v2 cuMemsetD2D16_v2_ptds = (at: u64, pitch: usize, value: u16, width: usize, height: usize) |state| {
        fill_on(state, fill(at, pitch, value.into(), 2, (width, height)), std::ptr::null_mut())
    }

    context cuMemsetD2D32_v2 cuMemsetD2D32_v2_ptds = (at: u64, pitch: usize, value: u32, width: usize, height: usize) |state| {
        fill_on(state, fill(at, pitch, value, 4, (width, height)), std::ptr::null_mut())
    }

    context cuMemsetD2D8Async cuMemsetD2D8Async_ptsz = (
        at: u64, pitch: usize, value: u8, width: usize, height: usize, stream: *mut c_void
    ) |state| { fill_on(state, fill(at, pitch, value.into(), 1, (width, height)), stream) }

    context cuMemsetD2D16Async cuMemsetD2D16Async_ptsz = (
        at: u64, pitch: usize, value: u16, width: usize, height: usize, stream: *mut c_void
    ) |state| { fill_on(state, fill(at, pitch, value.into(), 2, (width, height)), stream) }

    context cuMemsetD2D32Async cuMemsetD2D32Async_ptsz = (
        at: u64, pitch: usize, value: u32, width: usize, height: usize, stream: *mut c_void
    ) |state| { fill_on(state, fill(at, pitch, value, 4, (width, height)), stream) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_headers() {
        assert_eq!((size_of::<Copy2D>(), size_of::<Boxes>()), (128, 200));
        let side = Side3D {
            x: 4,
            y: 1,
            z: 2,
            level: 0,
            kind: 2,
            host: 1,
            device: 4096,
            array: 0,
            reserved: 0,
            pitch: 0,
            height: 0,
        };
        let all =
            Boxes { from: side, to: Side3D { kind: 1, host: 64, ..side }, width: 16, height: 3, depth: 2 };
        let own = boxes(&all).expect("no array");
        assert_eq!((own.from.at, own.to.at, own.from.pitch, own.to.height), (4096, 64, 16, 3));
        assert_eq!(boxes(&Boxes { from: Side3D { kind: 3, ..side }, ..all }).err(), Some(INVALID_VALUE));
        let array = boxes(&Boxes { from: Side3D { kind: 3, array: 77, ..side }, ..all }).expect("an array");
        assert_eq!((array.from_array, array.to_array), (77, 0));
    }
}
