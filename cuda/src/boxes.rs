//! Copies of boxes: between memory, and between memory and arrays.

use std::ffi::c_void;

use crate::arrays::copy_arrays;
use crate::error::Error;
use crate::graph::{Copy3D, Extent, IN_BYTES, Pitched, Work};
use crate::memory::copy_rows;
use crate::one_device::known;
use crate::pointers;
use crate::runtime::State;

/// Copies a box.
///
/// # Errors
/// As [`copy_rows`], or as [`copy_arrays`] where an array takes part.
///
/// # Safety
/// Addresses of the host must be valid for the copy.
pub unsafe fn copy_boxes(state: &mut State, all: &Copy3D) -> Result<(), Error> {
    if all.from_array != 0 || all.to_array != 0 {
        // SAFETY: the caller's promise.
        return unsafe { copy_arrays(state, all) };
    }
    let begin = |side: Pitched, position: Extent, z: usize| {
        let rows = (position.depth + z) * side.height + position.height;
        side.at as u64 + (rows * side.pitch + position.width) as u64
    };
    let size = (all.extent.width, all.extent.height);
    for z in 0..all.extent.depth {
        let to = (begin(all.to, all.to_position, z), all.to.pitch);
        let from = (begin(all.from, all.from_position, z), all.from.pitch);
        // SAFETY: CUDA's manual asks for valid boxes.
        unsafe { copy_rows(state, to, from, size, all.kind & !IN_BYTES) }?;
    }
    Ok(())
}

/// CUDA's `cudaMemcpy3DPeerParms`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Peers {
    from_array: usize,
    from_position: Extent,
    from: Pitched,
    from_device: i32,
    to_array: usize,
    to_position: Extent,
    to: Pitched,
    to_device: i32,
    extent: Extent,
}

impl Peers {
    /// The copy within the one device.
    ///
    /// # Errors
    /// A device is another.
    fn own(&self) -> Result<Copy3D, Error> {
        known(self.from_device)?;
        known(self.to_device)?;
        Ok(Copy3D {
            from_array: self.from_array,
            from_position: self.from_position,
            from: self.from,
            to_array: self.to_array,
            to_position: self.to_position,
            to: self.to,
            extent: self.extent,
            kind: WITHIN,
        })
    }
}

/// `cudaMemcpyDeviceToDevice`.
const WITHIN: i32 = 3;

cuda! {
    fn cudaMemcpy3DPeer cudaMemcpy3DPeer_ptds = (parameters: *const Peers) |state| {
        // SAFETY: CUDA's manual asks for the structure and valid memory.
        unsafe { copy_boxes(state, &pointers::get(parameters)?.own()?) }
    }

    fn cudaMemcpy3DPeerAsync cudaMemcpy3DPeerAsync_ptsz = (parameters: *const Peers, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        // SAFETY: CUDA's manual asks for the structure.
        let own = unsafe { pointers::get(parameters) }?.own()?;
        if state.captured(stream, || Work::Copy3D(own)) {
            return Ok(());
        }
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_boxes(state, &own) }
    }

    fn cudaMemcpy3D cudaMemcpy3D_ptds = (parameters: *const Copy3D) |state| {
        // SAFETY: CUDA's manual asks for the structure and valid memory.
        unsafe { copy_boxes(state, &pointers::get(parameters)?) }
    }

    fn cudaMemcpy3DAsync cudaMemcpy3DAsync_ptsz = (parameters: *const Copy3D, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        // SAFETY: CUDA's manual asks for the structure.
        let own = unsafe { pointers::get(parameters) }?;
        if state.captured(stream, || Work::Copy3D(own)) {
            return Ok(());
        }
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_boxes(state, &own) }
    }
}
