//! Attributes of kernels, and how many of their blocks an SM holds.

use std::ffi::c_void;

use sim_core::answers::Attributes;
use sim_core::clusters::{blocks_of_gpcs, most_blocks};
use sim_frontend::chip::ChipSpec;

use crate::error::{Error, INVALID_CLUSTER_SIZE, INVALID_PTX, INVALID_VALUE};
use crate::launch::{How, LaunchConfig};
use crate::runtime::{State, explain};

/// Bytes of shared memory that a block has without `cudaFuncSetAttribute` (CUDA C++ Programming Guide, "Shared Memory").
pub const DEFAULT_SHARED: u32 = 48 << 10;

/// Blocks of a kernel that an SM holds.
pub fn resident_blocks(chip: &ChipSpec, attributes: &Attributes, threads: u32, dynamic_shared: u32) -> u32 {
    let shared = attributes.shared.saturating_add(dynamic_shared);
    if threads == 0 || threads > attributes.max_threads || shared > chip.shared_of_block() {
        return 0;
    }
    chip.occupancy(chip.block_needs(threads, attributes.registers, shared)).0
}

/// What the kernel of a stand-in needs.
///
/// # Errors
/// There is none, or its module cannot be loaded.
pub fn attributes(state: &mut State, function: *const c_void) -> Result<Attributes, Error> {
    let found = state.registry.function(function)?.clone();
    let module = state.module(found.binary)?;
    state.runtime()?.device.attributes(module, &found.name).map_err(|error| {
        explain(&error);
        INVALID_PTX
    })
}

/// Blocks of a kernel that an SM holds at once.
///
/// # Errors
/// There is no such kernel, or `blocks` is null.
pub fn active(
    state: &mut State,
    blocks: *mut i32,
    function: *const c_void,
    threads: i32,
    shared: usize,
) -> Result<(), Error> {
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0).ok_or(INVALID_VALUE)?;
    let attributes = attributes(state, function)?;
    let shared = u32::try_from(shared).unwrap_or(u32::MAX);
    let chip = state.runtime()?.device.chip();
    out!(blocks, resident_blocks(chip, &attributes, threads, shared) as i32);
    Ok(())
}

/// Blocks of a kernel that the SMs of each GPC hold at a time, in the configuration of a launch.
fn of_gpcs(state: &mut State, function: *const c_void, how: &How) -> Result<Vec<u64>, Error> {
    let attributes = attributes(state, function)?;
    let threads = how.block.iter().fold(1u32, |product, n| product.saturating_mul(*n));
    let shared = u32::try_from(how.shared).unwrap_or(u32::MAX);
    let chip = state.runtime()?.device.chip();
    Ok(blocks_of_gpcs(chip, resident_blocks(chip, &attributes, threads, shared)))
}

/// The size of clusters that the kernel requires, if it does.
fn required(state: &mut State, function: *const c_void) -> Result<Option<[u32; 3]>, Error> {
    let found = state.registry.function(function)?.clone();
    let module = state.module(found.binary)?;
    Ok(state.runtime()?.device.entry(module, &found.name).and_then(|entry| entry.bounds.cluster))
}

/// Clusters of a launch that the chip holds at a time.
///
/// # Errors
/// There is no such kernel, or the launch has no size of clusters that the chip has.
pub fn active_clusters(state: &mut State, function: *const c_void, how: &How) -> Result<u32, Error> {
    let cluster = how.cluster.or(required(state, function)?).unwrap_or([1; 3]);
    let size = cluster.iter().fold(1u64, |product, n| product.saturating_mul(u64::from(*n)));
    let non_portable = state.registry.function(function)?.non_portable_cluster;
    if size == 0 || size > most_blocks(state.runtime()?.device.chip(), non_portable).into() {
        return Err(INVALID_CLUSTER_SIZE);
    }
    let all: u64 = of_gpcs(state, function, how)?.into_iter().map(|blocks| blocks / size).sum();
    Ok(u32::try_from(all).unwrap_or(u32::MAX))
}

/// The most blocks of a cluster of a kernel: a power of two.
///
/// # Errors
/// There is no such kernel.
pub fn largest_cluster(state: &mut State, function: *const c_void, how: &How) -> Result<u32, Error> {
    let non_portable = state.registry.function(function)?.non_portable_cluster;
    let most = most_blocks(state.runtime()?.device.chip(), non_portable);
    let fits = of_gpcs(state, function, how)?.into_iter().max().unwrap_or(0).min(most.into());
    Ok(if fits == 0 { 0 } else { 1 << fits.ilog2() })
}

/// Bytes of dynamic shared memory that each of `blocks` blocks of an SM can have.
///
/// # Errors
/// There is no such kernel, or a number is negative.
pub fn available_shared(
    state: &mut State,
    function: *const c_void,
    blocks: i32,
    threads: i32,
) -> Result<usize, Error> {
    let attributes = attributes(state, function)?;
    let chip = state.runtime()?.device.chip();
    let (Ok(blocks), Ok(threads)) = (u32::try_from(blocks), u32::try_from(threads)) else {
        return Err(INVALID_VALUE);
    };
    let fits = |shared: &u32| resident_blocks(chip, &attributes, threads, *shared) >= blocks;
    let most = chip.shared_of_block();
    Ok((0..=most / 256).rev().map(|units| units * 256).find(fits).unwrap_or(0) as usize)
}

/// CUDA's `cudaFuncAttributes`, as far as every version has it.
#[repr(C)]
pub struct FuncAttributes {
    /// Bytes of static shared memory of a block.
    pub shared: usize,
    /// Bytes of constant memory.
    pub constant: usize,
    /// Bytes of local memory of a thread.
    pub local: usize,
    /// The most threads of a block.
    pub max_threads: i32,
    /// Registers of a thread.
    pub registers: i32,
    /// Compute capability of the PTX as major * 10 + minor.
    pub ptx_version: i32,
    /// The same of the machine code.
    pub binary_version: i32,
    /// What L1 caches.
    pub cache_mode: i32,
    /// The most bytes of dynamic shared memory.
    pub max_dynamic_shared: i32,
    /// The part of L1 that is wanted as shared memory.
    pub carveout: i32,
}

/// `cudaFuncAttributeMaxDynamicSharedMemorySize`.
const MAX_DYNAMIC_SHARED: i32 = 8;
/// `cudaFuncAttributePreferredSharedMemoryCarveout`, a hint.
const CARVEOUT: i32 = 9;
/// `cudaFuncAttributeNonPortableClusterSizeAllowed`.
const NON_PORTABLE_CLUSTER: i32 = 14;

/// What a program is told of the kernel of a stand-in.
///
/// # Errors
/// As [`attributes`].
pub fn told(state: &mut State, function: *const c_void) -> Result<FuncAttributes, Error> {
    let own = attributes(state, function)?;
    let found = state.registry.function(function)?;
    let (binary, allowed) = (found.binary, found.dynamic_shared);
    // What a kernel was compiled for decides how programs (CUB) launch it.
    let ptx_version = state.target(binary)? as i32;
    let version = state.runtime()?.device.chip().capability() as i32;
    Ok(FuncAttributes {
        shared: own.shared as usize,
        constant: 0,
        local: own.local as usize,
        max_threads: own.max_threads as i32,
        registers: own.registers as i32,
        ptx_version,
        binary_version: version,
        cache_mode: 0,
        max_dynamic_shared: allowed.unwrap_or(DEFAULT_SHARED.saturating_sub(own.shared)) as i32,
        carveout: -1,
    })
}

/// Sets an attribute of the kernel of a stand-in.
///
/// # Errors
/// As [`attributes`], or the value is out of range.
pub fn set(state: &mut State, function: *const c_void, attribute: i32, value: i32) -> Result<(), Error> {
    let own = attributes(state, function)?;
    match attribute {
        MAX_DYNAMIC_SHARED => {
            let most = state.runtime()?.device.chip().shared_of_block();
            let value = u32::try_from(value).map_err(|_| INVALID_VALUE)?;
            if value.saturating_add(own.shared) > most {
                return Err(INVALID_VALUE);
            }
            let found = state.registry.functions.get_mut(&(function as usize)).ok_or(INVALID_VALUE)?;
            found.dynamic_shared = Some(value);
            Ok(())
        }
        NON_PORTABLE_CLUSTER if (0..=1).contains(&value) => {
            let found = state.registry.functions.get_mut(&(function as usize)).ok_or(INVALID_VALUE)?;
            found.non_portable_cluster = value == 1;
            Ok(())
        }
        CARVEOUT if (-1..=100).contains(&value) => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}

cuda! {
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor = (blocks: *mut i32, function: *const c_void, threads: i32, shared: usize) |state| {
        active(state, blocks, function, threads, shared)
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags = (blocks: *mut i32, function: *const c_void, threads: i32, shared: usize, _flags: u32) |state| {
        active(state, blocks, function, threads, shared)
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock = (bytes: *mut usize, function: *const c_void, blocks: i32, threads: i32) |state| {
        out!(bytes, available_shared(state, function, blocks, threads)?);
        Ok(())
    }

    fn cudaOccupancyMaxActiveClusters = (count: *mut i32, function: *const c_void, config: *const LaunchConfig) |state| {
        // SAFETY: CUDA's manual asks for a configuration.
        let how = unsafe { config.as_ref().ok_or(INVALID_VALUE)?.how() }?;
        out!(count, active_clusters(state, function, &how)? as i32);
        Ok(())
    }

    fn cudaOccupancyMaxPotentialClusterSize = (size: *mut i32, function: *const c_void, config: *const LaunchConfig) |state| {
        // SAFETY: CUDA's manual asks for a configuration.
        let how = unsafe { config.as_ref().ok_or(INVALID_VALUE)?.how() }?;
        out!(size, largest_cluster(state, function, &how)? as i32);
        Ok(())
    }

    fn cudaFuncGetAttributes = (result: *mut FuncAttributes, function: *const c_void) |state| {
        out!(result, told(state, function)?);
        Ok(())
    }

    fn cudaFuncSetAttribute = (function: *const c_void, attribute: i32, value: i32) |state| {
        set(state, function, attribute, value)
    }

    fn cudaFuncSetCacheConfig cudaFuncSetSharedMemConfig = (function: *const c_void, _config: i32) |state| {
        // What a kernel prefers changes no result; L1 has what shared memory leaves.
        state.registry.function(function).map(drop)
    }
}
