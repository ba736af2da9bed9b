//! Virtual memory: ranges of addresses that are reserved, and memory that is created and mapped there. What is reserved
//! and not mapped is no allocation: an access to it faults. Memory keeps its bytes while it is not mapped.

use std::ops::Range;

use sim_memory::address_space::{GLOBAL_BASE, LOCAL_PHYSICAL};

use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE, MEMORY_ALLOCATION, NOT_SUPPORTED};
pub use crate::mappings::GRANULARITY;
use crate::mappings::{Created, Mapping, is_whole};
use crate::runtime::State;

/// Reserves addresses, at `wanted` where that is free.
///
/// # Errors
/// They are more than the device has.
pub fn reserve(state: &mut State, bytes: u64, align: u64, wanted: u64) -> Result<u64, Error> {
    if !is_whole(bytes) || (align != 0 && !align.is_power_of_two()) {
        return Err(INVALID_VALUE);
    }
    let runtime = state.runtime()?;
    let align = align.max(GRANULARITY);
    // What is allocated otherwise has as many addresses as there is memory, from the first one on.
    let memory = GLOBAL_BASE..GLOBAL_BASE + runtime.device.chip().limits.global_mem_size;
    let own = &runtime.virtual_memory.reserved;
    let is_free = |at: &u64| {
        let Some(end) = at.checked_add(bytes).filter(|_| at.is_multiple_of(align)) else { return false };
        let inside = |range: &Range<u64>| range.start <= *at && end <= range.end;
        (inside(&memory) || inside(&(memory.end..LOCAL_PHYSICAL)))
            && own.iter().all(|(begin, size)| end <= *begin || begin + size <= *at)
    };
    // From the last address downwards.
    let below = |top: u64| top.checked_sub(bytes).map(|at| at / align * align);
    let tops = std::iter::once(LOCAL_PHYSICAL).chain(own.keys().rev().copied());
    let mut all = std::iter::once(wanted).chain(tops.filter_map(below));
    let Some(at) = all.find(is_free) else {
        eprintln!(
            "warpsim: cuMemAddressReserve: {bytes} bytes of addresses are not free: the simulated device has 2^40 bytes of \
             them; reserve fewer"
        );
        return Err(MEMORY_ALLOCATION);
    };
    // The host has nothing there, so that no address means both.
    if !runtime.shared.claim(at, bytes) {
        eprintln!(
            "warpsim: cuMemAddressReserve: the program has mapped something at {at:#x}, in {bytes} bytes"
        );
        return Err(MEMORY_ALLOCATION);
    }
    runtime.virtual_memory.reserved.insert(at, bytes);
    Ok(at)
}

/// Gives reserved addresses back.
///
/// # Errors
/// They are none, or something is mapped there.
pub fn give_back(state: &mut State, at: u64, bytes: u64) -> Result<(), Error> {
    let own = &mut state.runtime()?.virtual_memory;
    if own.reserved.get(&at) != Some(&bytes) || own.mapped.range(at..at + bytes).next().is_some() {
        return Err(INVALID_VALUE);
    }
    own.reserved.remove(&at);
    state.runtime()?.shared.unclaim(at);
    Ok(())
}

/// Creates memory.
///
/// # Errors
/// Too little is left.
pub fn create(state: &mut State, bytes: u64) -> Result<usize, Error> {
    if !is_whole(bytes) {
        return Err(INVALID_VALUE);
    }
    let handle = state.handle();
    let runtime = state.runtime()?;
    let free = runtime.device.free_bytes().map_err(|_| INVALID_VALUE)?;
    if runtime.virtual_memory.unmapped() + bytes > free {
        return Err(MEMORY_ALLOCATION);
    }
    let own = Created { bytes, references: 1, mapped: false, contents: None };
    runtime.virtual_memory.created.insert(handle, own);
    Ok(handle)
}

/// Gives a handle of memory up.
///
/// # Errors
/// It is none.
pub fn release(state: &mut State, handle: usize) -> Result<(), Error> {
    let memory = &mut state.runtime()?.virtual_memory;
    let own = memory.created(handle)?;
    own.references = own.references.checked_sub(1).ok_or(INVALID_HANDLE)?;
    memory.forget_if_unused(handle);
    Ok(())
}

/// One more handle of the memory that is mapped at an address.
///
/// # Errors
/// There is none.
pub fn retain(state: &mut State, at: u64) -> Result<usize, Error> {
    let memory = &mut state.runtime()?.virtual_memory;
    let (_, mapping) = memory.mapping(at).ok_or(INVALID_VALUE)?;
    memory.created(mapping.handle)?.references += 1;
    Ok(mapping.handle)
}

/// There is such memory.
///
/// # Errors
/// There is none.
pub fn known(state: &mut State, handle: usize) -> Result<(), Error> {
    state.runtime()?.virtual_memory.created(handle).map(drop)
}

/// Maps all of some memory in a reserved range.
///
/// # Errors
/// It is mapped already, or the range is not free.
pub fn map(state: &mut State, at: u64, bytes: u64, offset: u64, handle: usize) -> Result<(), Error> {
    let memory = &mut state.runtime()?.virtual_memory;
    let own = memory.created(handle)?;
    if own.mapped {
        eprintln!(
            "warpsim: cuMemMap: memory that is mapped already cannot be mapped a second time: a byte of the simulated \
             device has one address; unmap it before"
        );
        return Err(NOT_SUPPORTED);
    }
    if offset != 0 || bytes != own.bytes {
        // CUDA itself asks for an offset of 0 in this version.
        return Err(INVALID_VALUE);
    }
    let end = at.checked_add(bytes).ok_or(INVALID_VALUE)?;
    let inside = memory.range(at).is_some_and(|(begin, size)| end <= begin + size);
    let meets = memory.mapped.iter().any(|(begin, other)| at < begin + other.bytes && *begin < end);
    if !at.is_multiple_of(GRANULARITY) || !inside || meets {
        return Err(INVALID_VALUE);
    }
    memory.mapped.insert(at, Mapping { handle, bytes, accessible: false });
    memory.created(handle)?.mapped = true;
    Ok(())
}

/// Makes mapped memory accessible or inaccessible; its bytes stay.
fn set_accessible(state: &mut State, at: u64, wanted: bool) -> Result<(), Error> {
    let runtime = state.runtime()?;
    let mapping = runtime.virtual_memory.mapped.get_mut(&at).ok_or(INVALID_VALUE)?;
    if mapping.accessible == wanted {
        return Ok(());
    }
    let own = runtime.virtual_memory.created.get_mut(&mapping.handle).ok_or(INVALID_HANDLE)?;
    if wanted {
        runtime.device.malloc_at("mapped memory", at, mapping.bytes).map_err(|_| MEMORY_ALLOCATION)?;
        let bytes = own.contents.take().unwrap_or_else(|| vec![0; mapping.bytes as usize]);
        runtime.device.write(at, &bytes).map_err(|_| INVALID_VALUE)?;
    } else {
        let mut bytes = vec![0; mapping.bytes as usize];
        runtime.device.read(at, &mut bytes).map_err(|_| INVALID_VALUE)?;
        runtime.device.free(at, 1).map_err(|_| INVALID_VALUE)?;
        own.contents = Some(bytes);
    }
    mapping.accessible = wanted;
    Ok(())
}

/// Unmaps a range that mappings fill.
///
/// # Errors
/// They do not.
pub fn unmap(state: &mut State, at: u64, bytes: u64) -> Result<(), Error> {
    state.synchronize()?;
    for (begin, own) in state.runtime()?.virtual_memory.within(at, bytes)? {
        set_accessible(state, begin, false)?;
        let memory = &mut state.runtime()?.virtual_memory;
        memory.mapped.remove(&begin);
        memory.created(own.handle)?.mapped = false;
        memory.forget_if_unused(own.handle);
    }
    Ok(())
}

/// Lets the device access a range that mappings fill, or no longer.
///
/// # Errors
/// They do not fill it.
pub fn allow(state: &mut State, at: u64, bytes: u64, wanted: bool) -> Result<(), Error> {
    state.synchronize()?;
    let all = state.runtime()?.virtual_memory.within(at, bytes)?;
    all.into_iter().try_for_each(|(begin, _)| set_accessible(state, begin, wanted))
}

/// Whether the device may access an address.
///
/// # Errors
/// Nothing is mapped there.
pub fn is_allowed(state: &mut State, at: u64) -> Result<bool, Error> {
    let memory = &state.runtime()?.virtual_memory;
    memory.mapping(at).map(|(_, own)| own.accessible).ok_or(INVALID_VALUE)
}
