//! Arrays: images in device memory whose layout is the device's, with mip levels, layers and faces; and copies of
//! boxes of them.

use std::ffi::c_void;

use sim_core::texture::{Format, Image};

use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE, MEMORY_ALLOCATION, NOT_SUPPORTED};
use crate::graph::{Copy3D, Extent, IN_BYTES, Pitched};
use crate::images::{Array, ChannelFormat};
use crate::memory::copy;
use crate::pointers;
use crate::runtime::State;

/// Layers are what the depth counts.
pub const LAYERED: u32 = 1;
/// The layers are faces of cubes.
pub const CUBEMAP: u32 = 4;
/// All flags: layered, for surfaces, cubemap, gathers.
const FLAGS: u32 = 15;

/// Makes an array; its handle.
///
/// # Errors
/// There is none of this size, or no room.
pub fn create(
    state: &mut State,
    format: Format,
    extent: Extent,
    (levels, flags): (u32, u32),
    mipmapped: bool,
) -> Result<usize, Error> {
    let number = |n: usize| u32::try_from(n).ok().filter(|n| *n <= 1 << 20).ok_or(INVALID_VALUE);
    let [width, height, depth] = [number(extent.width)?, number(extent.height)?, number(extent.depth)?];
    let layered = flags & (LAYERED | CUBEMAP) != 0;
    let cube = flags & CUBEMAP != 0;
    let no_cube = cube && (width != height || depth == 0 || !depth.is_multiple_of(6));
    if width == 0 || flags > FLAGS || layered && depth == 0 || no_cube || depth > 0 && height == 0 && !layered
    {
        return Err(INVALID_VALUE);
    }
    let dimensions = match (height, depth) {
        (0, _) => 1,
        (_, depth) if depth > 0 && !layered => 3,
        _ => 2,
    };
    let size = sim_core::texture::Extent {
        width,
        height: height.max(1),
        depth: if dimensions == 3 { depth } else { 1 },
    };
    let mut image = Image::array(0, format, size, dimensions);
    (image.layers, image.cube) = (if layered { depth } else { 0 }, cube);
    image.levels = levels.clamp(1, size.levels());
    let bytes = image.checked_bytes().ok_or(MEMORY_ALLOCATION)?;
    let runtime = state.runtime()?;
    image.address = runtime.device.malloc("array", bytes, 1).map_err(|_| MEMORY_ALLOCATION)?;
    let array = Array { image, level: 0, borrowed: false, mipmapped, flags, extent };
    let handle = state.handle();
    state.runtime()?.images.arrays.insert(handle, array);
    Ok(handle)
}

/// Frees an array with the levels that were given out of it.
///
/// # Errors
/// There is none, or it is only a level.
pub fn destroy(state: &mut State, handle: usize) -> Result<(), Error> {
    if handle == 0 {
        return Ok(());
    }
    state.synchronize()?;
    let runtime = state.runtime()?;
    let images = &mut runtime.images;
    if images.arrays.get(&handle).is_none_or(|array| array.borrowed) {
        return Err(INVALID_HANDLE);
    }
    let Some(array) = images.arrays.remove(&handle) else { return Err(INVALID_HANDLE) };
    for level in 0..array.image.levels {
        if let Some(own) = images.levels.remove(&(handle, level)) {
            images.arrays.remove(&own);
        }
    }
    runtime.device.free(array.image.address, 1).map_err(|_| INVALID_VALUE)
}

/// A level of a mipmapped array.
///
/// # Errors
/// There is none.
pub fn level(state: &mut State, handle: usize, level: u32) -> Result<usize, Error> {
    let whole = array(state, handle)?;
    if level >= whole.image.levels {
        return Err(INVALID_VALUE);
    }
    if let Some(own) = state.runtime()?.images.levels.get(&(handle, level)) {
        return Ok(*own);
    }
    let own = state.handle();
    let half = |n: usize| if n == 0 { 0 } else { (n >> level).max(1) };
    let depth = if whole.image.layers > 0 { whole.extent.depth } else { half(whole.extent.depth) };
    let extent = Extent { width: half(whole.extent.width), height: half(whole.extent.height), depth };
    let images = &mut state.runtime()?.images;
    images.arrays.insert(own, Array { level, borrowed: true, mipmapped: false, extent, ..whole });
    images.levels.insert((handle, level), own);
    Ok(own)
}

/// The array of a handle.
///
/// # Errors
/// There is none.
pub fn array(state: &mut State, handle: usize) -> Result<Array, Error> {
    state.runtime()?.images.arrays.get(&handle).cloned().ok_or(INVALID_HANDLE)
}

/// A side of a copy.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    /// Rows in memory.
    Memory(Pitched),
    /// An array.
    Array(usize),
}

impl Array {
    /// The bytes of one of its slices, and where they lie.
    fn slice(&self, state: &mut State, slice: u32) -> Result<(u64, Vec<u8>), Error> {
        let start = self.image.address_of(self.level, slice, 0, 0);
        let mut bytes = vec![0; self.image.slice_bytes(self.level) as usize];
        state.runtime()?.device.read(start, &mut bytes).map_err(|_| INVALID_VALUE)?;
        Ok((start, bytes))
    }

    /// Whether a box lies within it.
    fn holds(&self, at: Extent, size: Extent) -> bool {
        let own = self.image.extent.level(self.level);
        let row = own.width as usize * self.image.format.bytes() as usize;
        let within = |at: usize, size: usize, all: usize| at.checked_add(size).is_some_and(|end| end <= all);
        within(at.width, size.width, row)
            && within(at.height, size.height, own.height as usize)
            && within(at.depth, size.depth, self.image.slices(self.level) as usize)
    }
}

/// Copies a box between memory and arrays, widths in bytes, behind all that is queued.
///
/// # Errors
/// The box is not within a side, or the direction does not fit.
///
/// # Safety
/// Addresses of the host must be valid for the copy.
pub unsafe fn copy_box(
    state: &mut State,
    (to, to_at): (Side, Extent),
    (from, from_at): (Side, Extent),
    size: Extent,
    kind: i32,
) -> Result<(), Error> {
    state.synchronize()?;
    let size = Extent { height: size.height.max(1), depth: size.depth.max(1), ..size };
    if size.width == 0 {
        return Ok(());
    }
    // One side at least is an array, which bounds the size.
    for (side, at) in [(to, to_at), (from, from_at)] {
        if let Side::Array(handle) = side
            && !array(state, handle)?.holds(at, size)
        {
            return Err(INVALID_VALUE);
        }
    }
    let mut slice = vec![0u8; size.width * size.height];
    for z in 0..size.depth {
        match from {
            Side::Memory(memory) => {
                for (y, row) in slice.chunks_exact_mut(size.width).enumerate() {
                    let at = begin(memory, from_at, z, y);
                    let room = row.as_mut_ptr() as u64;
                    // What leaves the host's memory for an array goes to the device; the room here is the host's.
                    let way = match kind {
                        0 | 1 => 0,
                        4 => 4,
                        _ => 2,
                    };
                    // SAFETY: the caller's promise; the room is this row's.
                    unsafe { copy(state, room, at, size.width, way) }?;
                }
            }
            Side::Array(handle) => {
                let array = array(state, handle)?;
                let (start, bytes) = array.slice(state, (from_at.depth + z) as u32)?;
                for (y, row) in slice.chunks_exact_mut(size.width).enumerate() {
                    let mut at = 0;
                    for (address, length) in pieces(&array, from_at, z, y, size.width) {
                        let place = (address - start) as usize;
                        row[at..at + length].copy_from_slice(&bytes[place..place + length]);
                        at += length;
                    }
                }
            }
        }
        match to {
            Side::Memory(memory) => {
                for (y, row) in slice.chunks_exact(size.width).enumerate() {
                    let at = begin(memory, to_at, z, y);
                    let way = match kind {
                        0 | 2 => 0,
                        4 => 4,
                        _ => 1,
                    };
                    // SAFETY: the caller's promise; the row is not changed.
                    unsafe { copy(state, at, row.as_ptr() as u64, size.width, way) }?;
                }
            }
            Side::Array(handle) => {
                let array = array(state, handle)?;
                let (start, mut bytes) = array.slice(state, (to_at.depth + z) as u32)?;
                for (y, row) in slice.chunks_exact(size.width).enumerate() {
                    let mut at = 0;
                    for (address, length) in pieces(&array, to_at, z, y, size.width) {
                        let place = (address - start) as usize;
                        bytes[place..place + length].copy_from_slice(&row[at..at + length]);
                        at += length;
                    }
                }
                state.runtime()?.device.write(start, &bytes).map_err(|_| INVALID_VALUE)?;
            }
        }
    }
    Ok(())
}

fn begin(memory: Pitched, at: Extent, z: usize, y: usize) -> u64 {
    let rows = (at.depth + z) * memory.height + at.height + y;
    (memory.at + rows * memory.pitch + at.width) as u64
}

fn pieces(array: &Array, at: Extent, z: usize, y: usize, width: usize) -> Vec<(u64, usize)> {
    let (slice, row) = ((at.depth + z) as u32, (at.height + y) as u32);
    let pieces = array.image.pieces(array.level, slice, at.width as u64, row, width as u64);
    pieces.into_iter().map(|(address, length)| (address, length as usize)).collect()
}

/// A copy of a box with an array.
///
/// # Errors
/// As [`copy_box`].
///
/// # Safety
/// As [`copy_box`].
pub unsafe fn copy_arrays(state: &mut State, all: &Copy3D) -> Result<(), Error> {
    let own = if all.to_array != 0 { all.to_array } else { all.from_array };
    // The runtime API counts elements of the array.
    let element = match all.kind & IN_BYTES {
        0 => array(state, own)?.image.format.bytes() as usize,
        _ => 1,
    };
    let scaled = |extent: Extent| -> Result<Extent, Error> {
        Ok(Extent { width: extent.width.checked_mul(element).ok_or(INVALID_VALUE)?, ..extent })
    };
    let size = scaled(all.extent)?;
    let side = |array: usize, memory: Pitched, at: Extent| -> Result<(Side, Extent), Error> {
        match array {
            0 => Ok((Side::Memory(memory), at)),
            handle => Ok((Side::Array(handle), scaled(at)?)),
        }
    };
    let to = side(all.to_array, all.to, all.to_position)?;
    let from = side(all.from_array, all.from, all.from_position)?;
    // SAFETY: the caller's promise.
    unsafe { copy_box(state, to, from, size, all.kind & !IN_BYTES) }
}

/// Copies rows to an array, or from it.
unsafe fn rows(
    state: &mut State,
    handle: usize,
    [x, y]: [usize; 2],
    (at, pitch): (usize, usize),
    [width, height]: [usize; 2],
    (to_array, kind): (bool, i32),
) -> Result<(), Error> {
    let memory = Side::Memory(Pitched { at, pitch, width, height });
    let own = (Side::Array(handle), Extent { width: x, height: y, depth: 0 });
    let other = (memory, Extent { width: 0, height: 0, depth: 0 });
    let size = Extent { width, height, depth: 1 };
    let (to, from) = if to_array { (own, other) } else { (other, own) };
    // SAFETY: the caller's promise.
    unsafe { copy_box(state, to, from, size, kind) }
}

/// Copies bytes to an array or from it, row after row, the first from (x, y) on.
unsafe fn linear(
    state: &mut State,
    handle: usize,
    [x, y]: [usize; 2],
    at: usize,
    bytes: usize,
    way: (bool, i32),
) -> Result<(), Error> {
    let own = array(state, handle)?;
    let row = own.image.extent.level(own.level).width as usize * own.image.format.bytes() as usize;
    let (mut x, mut y, mut done) = (x, y, 0);
    while done < bytes {
        let length = row.checked_sub(x).filter(|left| *left > 0).ok_or(INVALID_VALUE)?.min(bytes - done);
        // Whole rows go at once.
        let height = if x == 0 && length == row { ((bytes - done) / row).max(1) } else { 1 };
        // SAFETY: the caller's promise.
        unsafe { rows(state, handle, [x, y], (at + done, length), [length, height], way) }?;
        (x, y, done) = (0, y + height, done + length * height);
    }
    Ok(())
}

/// Makes an array of the runtime API.
fn make(
    state: &mut State,
    at: *mut usize,
    format: *const ChannelFormat,
    extent: Extent,
    levels: (u32, u32),
    mipmapped: bool,
) -> Result<(), Error> {
    // SAFETY: CUDA's manual asks for the structure.
    let format = unsafe { pointers::get(format) }?.format()?;
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    let handle = create(state, format, extent, levels, mipmapped)?;
    out!(at, handle);
    Ok(())
}

/// A channel format by its fields.
#[unsafe(no_mangle)]
pub extern "C" fn cudaCreateChannelDesc(x: i32, y: i32, z: i32, w: i32, kind: i32) -> ChannelFormat {
    ChannelFormat { bits: [x, y, z, w], kind }
}

/// Copies of arrays are captured by `cudaMemcpy3DAsync` alone.
///
/// # Errors
/// The stream is being captured.
pub fn not_captured(state: &State, stream: *mut c_void) -> Result<(), Error> {
    if state.is_captured(stream) {
        eprintln!("warpsim: of the copies of arrays, cudaMemcpy3DAsync is supported in a capture");
        return Err(NOT_SUPPORTED);
    }
    Ok(())
}

cuda! {
    fn cudaMallocArray = (at: *mut usize, format: *const ChannelFormat, width: usize, height: usize, flags: u32) |state| {
        make(state, at, format, Extent { width, height, depth: 0 }, (1, flags & !(LAYERED | CUBEMAP)), false)
    }

    fn cudaMalloc3DArray = (at: *mut usize, format: *const ChannelFormat, extent: Extent, flags: u32) |state| {
        make(state, at, format, extent, (1, flags), false)
    }

    fn cudaMallocMipmappedArray = (at: *mut usize, format: *const ChannelFormat, extent: Extent, levels: u32, flags: u32) |state| {
        make(state, at, format, extent, (levels, flags), true)
    }

    fn cudaGetMipmappedArrayLevel = (at: *mut usize, handle: usize, number: u32) |state| {
        let own = level(state, handle, number)?;
        out!(at, own);
        Ok(())
    }

    fn cudaFreeArray = (handle: usize) |state| { destroy(state, handle) }

    fn cudaFreeMipmappedArray = (handle: usize) |state| { destroy(state, handle) }

    fn cudaArrayGetInfo = (format: *mut ChannelFormat, extent: *mut Extent, flags: *mut u32, handle: usize) |state| {
        let own = array(state, handle)?;
        if !format.is_null() {
            out!(format, ChannelFormat::of(own.image.format));
        }
        if !extent.is_null() {
            out!(extent, own.extent);
        }
        if !flags.is_null() {
            out!(flags, own.flags);
        }
        Ok(())
    }

    fn cudaGetChannelDesc = (format: *mut ChannelFormat, handle: usize) |state| {
        out!(format, ChannelFormat::of(array(state, handle)?.image.format));
        Ok(())
    }

    fn cudaMemcpy2DToArray cudaMemcpy2DToArray_ptds = (
        to: usize, x: usize, y: usize, from: usize, pitch: usize, width: usize, height: usize, kind: i32
    ) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { rows(state, to, [x, y], (from, pitch), [width, height], (true, kind)) }
    }

    fn cudaMemcpy2DToArrayAsync cudaMemcpy2DToArrayAsync_ptsz = (
        to: usize, x: usize, y: usize, from: usize, pitch: usize, width: usize, height: usize, kind: i32, stream: *mut c_void
    ) |state| {
        state.runtime()?.streams.find(stream)?;
        not_captured(state, stream)?;
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { rows(state, to, [x, y], (from, pitch), [width, height], (true, kind)) }
    }

    fn cudaMemcpy2DFromArray cudaMemcpy2DFromArray_ptds = (
        to: usize, pitch: usize, from: usize, x: usize, y: usize, width: usize, height: usize, kind: i32
    ) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { rows(state, from, [x, y], (to, pitch), [width, height], (false, kind)) }
    }

    fn cudaMemcpy2DFromArrayAsync cudaMemcpy2DFromArrayAsync_ptsz = (
        to: usize, pitch: usize, from: usize, x: usize, y: usize, width: usize, height: usize, kind: i32, stream: *mut c_void
    ) |state| {
        state.runtime()?.streams.find(stream)?;
        not_captured(state, stream)?;
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { rows(state, from, [x, y], (to, pitch), [width, height], (false, kind)) }
    }

    fn cudaMemcpy2DArrayToArray cudaMemcpy2DArrayToArray_ptds = (
        to: usize, to_x: usize, to_y: usize, from: usize, from_x: usize, from_y: usize, width: usize, height: usize, _kind: i32
    ) |state| {
        let at = |x, y| Extent { width: x, height: y, depth: 0 };
        let size = Extent { width, height, depth: 1 };
        // SAFETY: no memory of the host takes part.
        unsafe { copy_box(state, (Side::Array(to), at(to_x, to_y)), (Side::Array(from), at(from_x, from_y)), size, 3) }
    }

    fn cudaMemcpyToArray cudaMemcpyToArray_ptds = (to: usize, x: usize, y: usize, from: usize, bytes: usize, kind: i32) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { linear(state, to, [x, y], from, bytes, (true, kind)) }
    }

    fn cudaMemcpyToArrayAsync cudaMemcpyToArrayAsync_ptsz = (
        to: usize, x: usize, y: usize, from: usize, bytes: usize, kind: i32, stream: *mut c_void
    ) |state| {
        state.runtime()?.streams.find(stream)?;
        not_captured(state, stream)?;
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { linear(state, to, [x, y], from, bytes, (true, kind)) }
    }

    fn cudaMemcpyFromArray cudaMemcpyFromArray_ptds = (to: usize, from: usize, x: usize, y: usize, bytes: usize, kind: i32) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { linear(state, from, [x, y], to, bytes, (false, kind)) }
    }

    fn cudaMemcpyFromArrayAsync cudaMemcpyFromArrayAsync_ptsz = (
        to: usize, from: usize, x: usize, y: usize, bytes: usize, kind: i32, stream: *mut c_void
    ) |state| {
        state.runtime()?.streams.find(stream)?;
        not_captured(state, stream)?;
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { linear(state, from, [x, y], to, bytes, (false, kind)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_one_two_or_four_equal_channels() {
        let format = |bits, kind| ChannelFormat { bits, kind };
        for (bits, kind) in [([32, 0, 0, 0], 2), ([8, 8, 0, 0], 1), ([16, 16, 16, 16], 0), ([16, 0, 0, 0], 2)]
        {
            let own = format(bits, kind);
            assert_eq!(own.format().map(ChannelFormat::of), Ok(own));
        }
        for (bits, kind) in
            [([8, 8, 8, 0], 1), ([8, 16, 0, 0], 1), ([0, 0, 0, 0], 1), ([8, 0, 8, 0], 1), ([32, 0, 0, 0], 3)]
        {
            assert_eq!(format(bits, kind).format(), Err(INVALID_VALUE));
        }
        assert_eq!(size_of::<ChannelFormat>(), 20);
    }
}
