//! Launches and occupancy of the driver API.

use std::ffi::c_void;

use crate::driver::call::{Need, current, enter};
use crate::driver::streams::find;
use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE};
use crate::launch::{Dim3, How, LaunchAttribute, launch};
use crate::occupancy::{
    active, active_clusters, attributes, available_shared, largest_cluster, resident_blocks,
};
use crate::pointers;
use crate::runtime::State;

/// CUDA's `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    grid: Dim3,
    block: Dim3,
    shared: u32,
    stream: *mut c_void,
    attributes: *const LaunchAttribute,
    count: u32,
}

impl Config {
    /// The configuration with its attributes.
    ///
    /// # Safety
    /// There must be as many attributes as it says.
    unsafe fn how(&self) -> Result<How, Error> {
        let mut how = How::of(self.grid, self.block, self.shared as usize, self.stream);
        // SAFETY: the caller's promise.
        unsafe { how.with(self.attributes, self.count) }?;
        Ok(how)
    }
}

/// Words of `extra` in a launch: the end, the address of the arguments, the address of their size.
const END: usize = 0;
const BUFFER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// The buffer of arguments that `extra` names.
///
/// # Safety
/// `extra` must be what CUDA's manual says.
unsafe fn buffer(extra: *const usize) -> Result<(usize, usize), Error> {
    let (mut at, mut size) = (0, 0);
    for i in (0..6).step_by(2) {
        // SAFETY: the caller's promise; a pair is read only before the end.
        let word = |i: usize| unsafe { pointers::get(extra.wrapping_add(i)) };
        match word(i)? {
            END => return Ok((at, size)),
            BUFFER => at = word(i + 1)?,
            // SAFETY: the caller's promise.
            BUFFER_SIZE => size = unsafe { pointers::get(word(i + 1)? as *const usize) }?,
            _ => return Err(INVALID_VALUE),
        }
    }
    Err(INVALID_VALUE)
}

/// Launches with the arguments of `pointers`, or of the buffer in `extra`.
unsafe fn start(
    state: &mut State,
    function: *const c_void,
    (how, stream): (&How, *mut c_void),
    pointers: *const *const c_void,
    extra: *const usize,
) -> Result<(), Error> {
    find(state, stream)?;
    let found = state.registry.function(function)?.clone();
    let context = current(state)?;
    let binaries = state.driver.binaries.iter();
    let home = binaries.filter(|(_, own)| **own == found.binary).map(|(handle, _)| *handle).next();
    let owner = home.and_then(|home| state.driver.owned.get(&home));
    if owner.is_some_and(|(other, _)| *other != context) {
        return Err(INVALID_HANDLE);
    }
    if extra.is_null() {
        // SAFETY: CUDA's manual asks for a pointer to each argument.
        return unsafe { launch(state, function, how, pointers) };
    }
    if !pointers.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: CUDA's manual says what `extra` is.
    let (at, size) = unsafe { buffer(extra) }?;
    let module = state.module(found.binary)?;
    let entry = state.runtime()?.device.entry(module, &found.name).ok_or(INVALID_HANDLE)?;
    if entry.params.iter().any(|parameter| (parameter.offset + parameter.size) as usize > size) {
        return Err(INVALID_VALUE);
    }
    let inside = entry.params.iter().map(|parameter| (at + parameter.offset as usize) as *const c_void);
    let inside: Vec<_> = inside.collect();
    // SAFETY: the buffer has the bytes of each argument.
    unsafe { launch(state, function, how, inside.as_ptr()) }
}

/// How many bytes of dynamic shared memory a block of some size needs.
type SharedOfBlock = unsafe extern "C" fn(i32) -> usize;

/// The block size with most threads in an SM, the largest such: blocks that fill the device, and the size.
fn best(
    state: &mut State,
    function: *const c_void,
    shared: &dyn Fn(i32) -> usize,
    limit: i32,
) -> Result<(i32, i32), Error> {
    let own = attributes(state, function)?;
    let chip = state.runtime()?.device.chip();
    let warp = chip.limits.warp_size;
    let most = if limit > 0 { own.max_threads.min(limit as u32) } else { own.max_threads };
    let sizes = (1..=most.div_ceil(warp)).rev().map(|warps| (warps * warp).min(most));
    let threads = |size: u32| {
        let dynamic = u32::try_from(shared(size as i32)).unwrap_or(u32::MAX);
        size * resident_blocks(chip, &own, size, dynamic)
    };
    let best =
        sizes.fold((0, 0), |best, size| if threads(size) > best.0 { (threads(size), size) } else { best });
    let (threads, size) = best;
    let blocks = threads.checked_div(size).unwrap_or(0) * chip.limits.num_processors;
    Ok((blocks as i32, size as i32))
}

/// As in CUDA's driver API; the program's function runs without the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxPotentialBlockSize(
    blocks: *mut i32,
    threads: *mut i32,
    function: *const c_void,
    shared_of: Option<SharedOfBlock>,
    shared: usize,
    limit: i32,
) -> i32 {
    // What it answers for every size is asked before the lock is taken.
    let sizes: Vec<usize> = match shared_of {
        // SAFETY: the program's function takes a block size.
        Some(of) => (0..=1024).map(|size| if size == 0 { 0 } else { unsafe { of(size) } }).collect(),
        None => Vec::new(),
    };
    enter("cuOccupancyMaxPotentialBlockSize", Need::Context, |state| {
        let of = |size: i32| sizes.get(size as usize).copied().unwrap_or(shared);
        let (own_blocks, own_threads) = best(state, function, &of, limit)?;
        out!(blocks, own_blocks);
        out!(threads, own_threads);
        Ok(())
    })
}

/// As in CUDA's driver API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    blocks: *mut i32,
    threads: *mut i32,
    function: *const c_void,
    shared_of: Option<SharedOfBlock>,
    shared: usize,
    limit: i32,
    _flags: u32,
) -> i32 {
    // SAFETY: as the call that is forwarded.
    unsafe { cuOccupancyMaxPotentialBlockSize(blocks, threads, function, shared_of, shared, limit) }
}

driver! {
    ENTRIES [cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags]

    context cuLaunchKernel cuLaunchKernel_ptsz = (
        function: *const c_void, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32,
        stream: *mut c_void, arguments: *const *const c_void, extra: *const usize
    ) |state| {
        let (grid, block) = (Dim3 { x: gx, y: gy, z: gz }, Dim3 { x: bx, y: by, z: bz });
        let how = How::of(grid, block, shared as usize, stream);
        // SAFETY: CUDA's manual says what the arguments are.
        unsafe { start(state, function, (&how, stream), arguments, extra) }
    }

    context cuLaunchCooperativeKernel cuLaunchCooperativeKernel_ptsz = (
        function: *const c_void, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32,
        stream: *mut c_void, arguments: *const *const c_void
    ) |state| {
        let (grid, block) = (Dim3 { x: gx, y: gy, z: gz }, Dim3 { x: bx, y: by, z: bz });
        let how = How::of(grid, block, shared as usize, stream).cooperative();
        // SAFETY: CUDA's manual says what the arguments are.
        unsafe { start(state, function, (&how, stream), arguments, std::ptr::null()) }
    }

    context cuLaunchKernelEx cuLaunchKernelEx_ptsz = (
        config: *const Config, function: *const c_void, arguments: *const *const c_void, extra: *const usize
    ) |state| {
        // SAFETY: CUDA's manual asks for a configuration.
        let config = unsafe { pointers::get(config) }?;
        // SAFETY: there are as many attributes as the configuration says, and the arguments are as the manual says.
        unsafe {
            let how = config.how()?;
            start(state, function, (&how, config.stream), arguments, extra)
        }
    }

    context cuOccupancyMaxActiveBlocksPerMultiprocessor = (
        blocks: *mut i32, function: *const c_void, threads: i32, shared: usize
    ) |state| { active(state, blocks, function, threads, shared) }

    context cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags = (
        blocks: *mut i32, function: *const c_void, threads: i32, shared: usize, _flags: u32
    ) |state| { active(state, blocks, function, threads, shared) }

    context cuOccupancyMaxActiveClusters = (count: *mut i32, function: *const c_void, config: *const Config) |state| {
        // SAFETY: CUDA's manual asks for a configuration.
        let how = unsafe { pointers::get(config)?.how() }?;
        out!(count, active_clusters(state, function, &how)? as i32);
        Ok(())
    }

    context cuOccupancyMaxPotentialClusterSize = (size: *mut i32, function: *const c_void, config: *const Config) |state| {
        // SAFETY: CUDA's manual asks for a configuration.
        let how = unsafe { pointers::get(config)?.how() }?;
        out!(size, largest_cluster(state, function, &how)? as i32);
        Ok(())
    }

    context cuOccupancyAvailableDynamicSMemPerBlock = (
        bytes: *mut usize, function: *const c_void, blocks: i32, threads: i32
    ) |state| {
        out!(bytes, available_shared(state, function, blocks, threads)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_arguments_are_found() {
        let size = 24usize;
        let at = &raw const size as usize;
        let read = |extra: &[usize]| unsafe { buffer(extra.as_ptr()) };
        assert_eq!(read(&[BUFFER, 64, BUFFER_SIZE, at, END]), Ok((64, 24)));
        assert_eq!(read(&[BUFFER_SIZE, at, BUFFER, 64, END]), Ok((64, 24)));
        assert_eq!(read(&[3, 64, END]), Err(INVALID_VALUE));
        assert_eq!((size_of::<Config>(), std::mem::offset_of!(Config, stream)), (56, 32));
    }
}
