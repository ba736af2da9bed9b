//! Handles of memory and events for other processes. Each process has a simulated device of its own: within the process
//! that made a handle, CUDA refuses to open it; another process is told that there is nothing to open.

use std::ffi::c_void;

use crate::error::{Error, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED};
use crate::events;
use crate::memory::Place;
use crate::runtime::State;

/// CUDA's `cudaIpcMemHandle_t` and `cudaIpcEventHandle_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub [u64; 8]);

/// How the handles of each kind begin: `warpsimM` and `warpsimE`.
const MEMORY: u64 = u64::from_be_bytes(*b"warpsimM");
const EVENT: u64 = u64::from_be_bytes(*b"warpsimE");
/// `cudaIpcMemLazyEnablePeerAccess`, without which memory cannot be opened.
const PEERS: u32 = 1;

fn handle(kind: u64, what: u64) -> Handle {
    Handle([kind, std::process::id().into(), what, 0, 0, 0, 0, 0])
}

/// A handle for the allocation of an address.
///
/// # Errors
/// It is no memory of the device.
pub fn of_memory(state: &mut State, at: *mut Handle, address: *mut c_void) -> Result<(), Error> {
    let runtime = state.runtime()?;
    if runtime.place(address as u64, 1)? != Place::Device {
        return Err(INVALID_VALUE);
    }
    let (begin, _) = runtime.device.allocation(address as u64, 1).ok_or(INVALID_VALUE)?;
    out!(at, handle(MEMORY, begin));
    Ok(())
}

/// A handle for an event.
///
/// # Errors
/// There is none such, or it was not made for other processes (`cudaEventInterprocess` and `cudaEventDisableTiming`).
pub fn of_event(state: &mut State, at: *mut Handle, event: *mut c_void) -> Result<(), Error> {
    let own = events::find(state, event)?;
    if !own.interprocess || own.timing {
        return Err(INVALID_HANDLE);
    }
    out!(at, handle(EVENT, event as u64));
    Ok(())
}

/// What comes of opening a handle.
///
/// # Errors
/// Always: it is none, or one of this process, or there is nothing that another process could share.
pub fn open(call: &str, kind: u64, Handle([own_kind, process, ..]): Handle) -> Result<(), Error> {
    if own_kind != kind {
        return Err(INVALID_HANDLE);
    }
    if process == u64::from(std::process::id()) {
        return Err(INVALID_CONTEXT);
    }
    eprintln!(
        "warpsim: {call}: the handle is one of process {process}, and each process has a simulated device of its own: run \
         what shares memory in one process"
    );
    Err(NOT_SUPPORTED)
}

/// Opens a handle of memory: see [`open`].
///
/// # Errors
/// Always.
pub fn open_memory(call: &str, at: *mut u64, own: Handle, flags: u32) -> Result<(), Error> {
    if at.is_null() || flags != PEERS {
        return Err(INVALID_VALUE);
    }
    open(call, MEMORY, own)
}

/// Opens a handle of an event: see [`open`].
///
/// # Errors
/// Always.
pub fn open_event(call: &str, at: *mut u64, own: Handle) -> Result<(), Error> {
    if at.is_null() { Err(INVALID_VALUE) } else { open(call, EVENT, own) }
}

cuda! {
    fn cudaIpcGetMemHandle = (at: *mut Handle, address: *mut c_void) |state| { of_memory(state, at, address) }

    fn cudaIpcOpenMemHandle = (at: *mut u64, own: Handle, flags: u32) |_state| {
        open_memory("cudaIpcOpenMemHandle", at, own, flags)
    }

    fn cudaIpcCloseMemHandle = (_address: *mut c_void) |_state| {
        // Nothing was opened.
        Err(INVALID_VALUE)
    }

    fn cudaIpcGetEventHandle = (at: *mut Handle, event: *mut c_void) |state| { of_event(state, at, event) }

    fn cudaIpcOpenEventHandle = (at: *mut u64, own: Handle) |_state| { open_event("cudaIpcOpenEventHandle", at, own) }
}

/// The same of the driver API.
pub mod driver {
    use super::*;

    driver! {
        ENTRIES []

        context cuIpcGetMemHandle = (at: *mut Handle, address: *mut c_void) |state| { of_memory(state, at, address) }

        context cuIpcOpenMemHandle cuIpcOpenMemHandle_v2 = (at: *mut u64, own: Handle, flags: u32) |_state| {
            open_memory("cuIpcOpenMemHandle", at, own, flags)
        }

        context cuIpcCloseMemHandle = (_address: u64) |_state| {
            // Nothing was opened.
            Err(INVALID_VALUE)
        }

        context cuIpcGetEventHandle = (at: *mut Handle, event: *mut c_void) |state| { of_event(state, at, event) }

        context cuIpcOpenEventHandle = (at: *mut u64, own: Handle) |_state| {
            open_event("cuIpcOpenEventHandle", at, own)
        }
    }
}
