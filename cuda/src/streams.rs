//! Streams. Copies and waits run at the call, after all that is queued: one of the orders that CUDA allows. Kernels of
//! several streams run together.

use std::ffi::c_void;

use crate::call;
use crate::error::{CAPTURE_MERGE, CAPTURE_UNSUPPORTED, Error, INVALID_HANDLE, INVALID_VALUE};
use crate::graph::{Capture, HostFunction, Work};
use crate::runtime::State;
use crate::stream_list::NON_BLOCKING;

/// Creates a stream.
///
/// # Errors
/// Its flags are none.
pub fn create(state: &mut State, at: *mut *mut c_void, flags: u32, priority: i32) -> Result<(), Error> {
    if flags & !NON_BLOCKING != 0 || at.is_null() {
        return Err(INVALID_VALUE);
    }
    let handle = state.handle();
    state.runtime()?.streams.add(handle, flags, priority.clamp(-5, 0));
    out!(at, handle as *mut c_void);
    Ok(())
}

/// The stream waits for an event; one of a captured stream brings it into the capture.
///
/// # Errors
/// There is none such.
pub fn wait(state: &mut State, stream: *mut c_void, event: *mut c_void) -> Result<(), Error> {
    let runtime = state.runtime()?;
    runtime.streams.find(stream)?;
    if !runtime.events.contains_key(&(event as usize)) {
        return Err(INVALID_HANDLE);
    }
    let of_event = |capture: &Capture| capture.events.contains_key(&(event as usize));
    match state.captures.iter().position(of_event) {
        Some(found) => {
            // An event of one capture does not bring in a stream of another.
            let other = |(i, capture): (usize, &Capture)| i != found && capture.has(stream);
            if state.captures.iter().enumerate().any(other) {
                return Err(CAPTURE_MERGE);
            }
            let capture = &mut state.captures[found];
            let behind = capture.events[&(event as usize)].clone();
            let own = capture.streams.entry(stream as usize).or_default();
            behind.into_iter().for_each(|node| {
                if !own.contains(&node) {
                    own.push(node);
                }
            });
            Ok(())
        }
        None => state.synchronize(),
    }
}

/// Gives a function to a stream; what it gives is to be run now, without the lock.
///
/// # Errors
/// There is no such stream, or what an earlier launch came to.
pub fn host_function(
    state: &mut State,
    stream: *mut c_void,
    function: Option<HostFunction>,
    data: *mut c_void,
) -> Result<Option<HostFunction>, Error> {
    let function = function.ok_or(INVALID_VALUE)?;
    state.runtime()?.streams.find(stream)?;
    if state.captured(stream, || Work::Host(function, data as usize)) {
        return Ok(None);
    }
    state.synchronize()?;
    Ok(Some(function))
}

cuda! {
    fn cudaStreamCreate = (at: *mut *mut c_void) |state| { create(state, at, 0, 0) }

    fn cudaStreamCreateWithFlags = (at: *mut *mut c_void, flags: u32) |state| { create(state, at, flags, 0) }

    fn cudaStreamCreateWithPriority = (at: *mut *mut c_void, flags: u32, priority: i32) |state| {
        create(state, at, flags, priority)
    }

    fn cudaStreamDestroy = (stream: *mut c_void) |state| {
        state.synchronize()?;
        let found = state.runtime()?.streams.remove(stream);
        found.map(drop).ok_or(INVALID_HANDLE)
    }

    fn cudaStreamSynchronize cudaStreamSynchronize_ptsz cudaStreamQuery cudaStreamQuery_ptsz = (stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        state.synchronize()
    }

    fn cudaStreamWaitEvent cudaStreamWaitEvent_ptsz = (stream: *mut c_void, event: *mut c_void, _flags: u32) |state| {
        wait(state, stream, event)
    }

    fn cudaStreamGetFlags cudaStreamGetFlags_ptsz = (stream: *mut c_void, flags: *mut u32) |state| {
        out!(flags, state.runtime()?.streams.find(stream)?.flags);
        Ok(())
    }

    fn cudaStreamGetPriority cudaStreamGetPriority_ptsz = (stream: *mut c_void, priority: *mut i32) |state| {
        out!(priority, state.runtime()?.streams.find(stream)?.priority);
        Ok(())
    }

    fn cudaStreamGetId cudaStreamGetId_ptsz = (stream: *mut c_void, id: *mut u64) |state| {
        out!(id, u64::from(state.runtime()?.streams.find(stream)?.number));
        Ok(())
    }

    fn cudaStreamGetDevice cudaStreamGetDevice_ptsz = (stream: *mut c_void, device: *mut i32) |state| {
        state.runtime()?.streams.find(stream)?;
        out!(device, 0);
        Ok(())
    }

    fn cudaStreamAttachMemAsync cudaStreamAttachMemAsync_ptsz = (stream: *mut c_void, _at: *mut c_void, _bytes: usize, _flags: u32) |state| {
        // Managed memory is the host's between runs, whichever stream it belongs to.
        state.runtime()?.streams.find(stream).map(drop)
    }

    fn cudaDeviceGetStreamPriorityRange = (least: *mut i32, greatest: *mut i32) |_state| {
        if !least.is_null() {
            out!(least, 0);
        }
        if !greatest.is_null() {
            out!(greatest, -5);
        }
        Ok(())
    }
}

/// As in CUDA's runtime API; the function runs behind what is queued, without the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchHostFunc(
    stream: *mut c_void,
    function: Option<HostFunction>,
    data: *mut c_void,
) -> i32 {
    let mut run = None;
    let status = call::enter("cudaLaunchHostFunc", |state| {
        run = host_function(state, stream, function, data)?;
        Ok(())
    });
    if let (0, Some(function)) = (status, run) {
        // SAFETY: the program's function gets the program's data.
        unsafe { function(data) };
    }
    status
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamAddCallback(
    stream: *mut c_void,
    function: Option<unsafe extern "C" fn(*mut c_void, i32, *mut c_void)>,
    data: *mut c_void,
    _flags: u32,
) -> i32 {
    let status = call::enter("cudaStreamAddCallback", |state| {
        function.ok_or(INVALID_VALUE)?;
        state.runtime()?.streams.find(stream)?;
        if state.is_captured(stream) {
            return Err(CAPTURE_UNSUPPORTED);
        }
        state.synchronize()
    });
    if let (0, Some(function)) = (status, function) {
        // SAFETY: the program's function gets the program's data.
        unsafe { function(stream, 0, data) };
    }
    status
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchHostFunc_ptsz(
    stream: *mut c_void,
    function: Option<HostFunction>,
    data: *mut c_void,
) -> i32 {
    // SAFETY: as the call that is forwarded.
    unsafe { cudaLaunchHostFunc(stream, function, data) }
}

/// As in CUDA's runtime API; how the host waits changes no result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchHostFunc_v2(
    stream: *mut c_void,
    function: Option<HostFunction>,
    data: *mut c_void,
    _mode: u32,
) -> i32 {
    // SAFETY: as the call that is forwarded.
    unsafe { cudaLaunchHostFunc(stream, function, data) }
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamAddCallback_ptsz(
    stream: *mut c_void,
    function: Option<unsafe extern "C" fn(*mut c_void, i32, *mut c_void)>,
    data: *mut c_void,
    flags: u32,
) -> i32 {
    // SAFETY: as the call that is forwarded.
    unsafe { cudaStreamAddCallback(stream, function, data, flags) }
}
