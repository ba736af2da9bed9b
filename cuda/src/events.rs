//! Events: points of simulated time. In the functional mode no time passes.

use std::ffi::c_void;

use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE};
use crate::event::{Event, When};
use crate::runtime::State;

/// `cudaEventDisableTiming`.
const DISABLE_TIMING: u32 = 2;
/// `cudaEventInterprocess`.
const INTERPROCESS: u32 = 4;

/// Creates an event.
///
/// # Errors
/// Its flags are none.
pub fn create(state: &mut State, at: *mut *mut c_void, flags: u32) -> Result<(), Error> {
    if at.is_null() || flags > 7 {
        return Err(INVALID_VALUE);
    }
    let handle = state.handle();
    let event =
        Event { when: None, timing: flags & DISABLE_TIMING == 0, interprocess: flags & INTERPROCESS != 0 };
    state.runtime()?.events.insert(handle, event);
    out!(at, handle as *mut c_void);
    Ok(())
}

/// The event of a handle.
///
/// # Errors
/// It is none.
pub fn find(state: &mut State, event: *mut c_void) -> Result<Event, Error> {
    state.runtime()?.events.get(&(event as usize)).copied().ok_or(INVALID_HANDLE)
}

/// Records an event on a stream.
///
/// # Errors
/// There is none such.
pub fn record(state: &mut State, event: *mut c_void, stream: *mut c_void) -> Result<(), Error> {
    for capture in &mut state.captures {
        capture.events.remove(&(event as usize));
    }
    if let Some(capture) = state.captures.iter_mut().find(|capture| capture.has(stream)) {
        let behind = capture.streams[&(stream as usize)].clone();
        capture.events.insert(event as usize, behind);
        return Ok(());
    }
    let runtime = state.runtime()?;
    let when = runtime.when(runtime.streams.find(stream)?.number);
    let event = runtime.events.get_mut(&(event as usize)).ok_or(INVALID_HANDLE)?;
    event.when = Some(when);
    Ok(())
}

/// Milliseconds from one event to another.
///
/// # Errors
/// They have no time.
pub fn elapsed(state: &mut State, start: *mut c_void, end: *mut c_void) -> Result<f32, Error> {
    find(state, start)?;
    find(state, end)?;
    state.synchronize()?;
    let (start, end) = (find(state, start)?, find(state, end)?);
    let (Some(When::At(from)), Some(When::At(to)), true) = (start.when, end.when, start.timing && end.timing)
    else {
        return Err(INVALID_HANDLE);
    };
    Ok(((to.micros() - from.micros()) / 1e3) as f32)
}

cuda! {
    fn cudaEventCreate = (at: *mut *mut c_void) |state| { create(state, at, 0) }

    fn cudaEventCreateWithFlags = (at: *mut *mut c_void, flags: u32) |state| { create(state, at, flags) }

    fn cudaEventDestroy = (event: *mut c_void) |state| {
        let found = state.runtime()?.events.remove(&(event as usize));
        found.map(drop).ok_or(INVALID_HANDLE)
    }

    fn cudaEventRecord cudaEventRecord_ptsz = (event: *mut c_void, stream: *mut c_void) |state| {
        record(state, event, stream)
    }

    fn cudaEventRecordWithFlags cudaEventRecordWithFlags_ptsz = (event: *mut c_void, stream: *mut c_void, _flags: u32) |state| {
        record(state, event, stream)
    }

    fn cudaEventSynchronize cudaEventQuery = (event: *mut c_void) |state| {
        find(state, event)?;
        state.synchronize()
    }

    fn cudaEventElapsedTime cudaEventElapsedTime_v2 = (milliseconds: *mut f32, start: *mut c_void, end: *mut c_void) |state| {
        out!(milliseconds, elapsed(state, start, end)?);
        Ok(())
    }
}
