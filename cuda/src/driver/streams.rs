//! Streams and events of the driver API.

use std::ffi::c_void;

use crate::driver::call::{Need, current, enter, own};
use crate::driver::state::Owned;
use crate::error::{CAPTURE_UNSUPPORTED, Error, INVALID_HANDLE, INVALID_VALUE};
use crate::graph::HostFunction;
use crate::runtime::State;
use crate::stream_attributes::{self, Value};
use crate::stream_list::Stream;
use crate::{events, pointers, streams};

/// A stream of the current context, or a default stream.
///
/// # Errors
/// It is none, or belongs to another context.
pub fn find(state: &mut State, stream: *mut c_void) -> Result<Stream, Error> {
    let found = state.runtime()?.streams.find(stream)?;
    let context = current(state)?;
    match state.driver.owned.get(&(stream as usize)) {
        Some((other, _)) if *other != context => Err(INVALID_HANDLE),
        _ => Ok(found),
    }
}

fn create(state: &mut State, at: *mut *mut c_void, flags: u32, priority: i32) -> Result<(), Error> {
    streams::create(state, at, flags, priority)?;
    // SAFETY: it was written just now.
    let handle = unsafe { pointers::get(at) }?;
    own(state, handle as usize, Owned::Stream)
}

fn destroy(state: &mut State, stream: *mut c_void) -> Result<(), Error> {
    state.synchronize()?;
    state.runtime()?.streams.remove(stream).ok_or(INVALID_HANDLE)?;
    state.driver.owned.remove(&(stream as usize));
    Ok(())
}

fn destroy_event(state: &mut State, event: usize) -> Result<(), Error> {
    state.runtime()?.events.remove(&event).ok_or(INVALID_HANDLE)?;
    state.driver.owned.remove(&event);
    Ok(())
}

/// As in CUDA's driver API; the function runs behind what is queued, without the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc(
    stream: *mut c_void,
    function: Option<HostFunction>,
    data: *mut c_void,
) -> i32 {
    let mut run = None;
    let status = enter("cuLaunchHostFunc", Need::Context, |state| {
        find(state, stream)?;
        run = streams::host_function(state, stream, function, data)?;
        Ok(())
    });
    if let (0, Some(function)) = (status, run) {
        // SAFETY: the program's function gets the program's data.
        unsafe { function(data) };
    }
    status
}

/// As in CUDA's driver API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc_ptsz(
    stream: *mut c_void,
    function: Option<HostFunction>,
    data: *mut c_void,
) -> i32 {
    // SAFETY: as the call that is forwarded.
    unsafe { cuLaunchHostFunc(stream, function, data) }
}

/// As in CUDA's driver API; how the host waits changes no result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc_v2(
    stream: *mut c_void,
    function: Option<HostFunction>,
    data: *mut c_void,
    _mode: u32,
) -> i32 {
    // SAFETY: as the call that is forwarded.
    unsafe { cuLaunchHostFunc(stream, function, data) }
}

/// A callback of a stream.
type Callback = unsafe extern "C" fn(*mut c_void, i32, *mut c_void);

/// As in CUDA's driver API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamAddCallback(
    stream: *mut c_void,
    function: Option<Callback>,
    data: *mut c_void,
    _flags: u32,
) -> i32 {
    let status = enter("cuStreamAddCallback", Need::Context, |state| {
        function.ok_or(INVALID_VALUE)?;
        find(state, stream)?;
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

driver! {
    ENTRIES [cuLaunchHostFunc cuLaunchHostFunc_ptsz cuLaunchHostFunc_v2 cuStreamAddCallback]

    context cuStreamCreate = (at: *mut *mut c_void, flags: u32) |state| { create(state, at, flags, 0) }

    context cuStreamCreateWithPriority = (at: *mut *mut c_void, flags: u32, priority: i32) |state| {
        create(state, at, flags, priority)
    }

    context cuStreamDestroy cuStreamDestroy_v2 = (stream: *mut c_void) |state| { destroy(state, stream) }

    context cuStreamSynchronize cuStreamSynchronize_ptsz cuStreamQuery cuStreamQuery_ptsz = (stream: *mut c_void) |state| {
        find(state, stream)?;
        state.synchronize()
    }

    context cuStreamWaitEvent cuStreamWaitEvent_ptsz = (stream: *mut c_void, event: *mut c_void, _flags: u32) |state| {
        find(state, stream)?;
        streams::wait(state, stream, event)
    }

    context cuStreamSetAttribute cuStreamSetAttribute_ptsz = (stream: *mut c_void, number: i32, value: *const Value) |state| {
        find(state, stream)?;
        // SAFETY: CUDA's manual asks for the value.
        unsafe { stream_attributes::set(state, stream, number, value) }
    }

    context cuStreamGetAttribute cuStreamGetAttribute_ptsz = (stream: *mut c_void, number: i32, value: *mut Value) |state| {
        find(state, stream)?;
        out!(value, stream_attributes::attribute(state, stream, number)?);
        Ok(())
    }

    context cuStreamCopyAttributes cuStreamCopyAttributes_ptsz = (to: *mut c_void, from: *mut c_void) |state| {
        stream_attributes::copy(state, to, from)
    }

    context cuStreamGetFlags cuStreamGetFlags_ptsz = (stream: *mut c_void, flags: *mut u32) |state| {
        out!(flags, find(state, stream)?.flags);
        Ok(())
    }

    context cuStreamGetPriority cuStreamGetPriority_ptsz = (stream: *mut c_void, priority: *mut i32) |state| {
        out!(priority, find(state, stream)?.priority);
        Ok(())
    }

    context cuStreamGetId cuStreamGetId_ptsz = (stream: *mut c_void, id: *mut u64) |state| {
        out!(id, u64::from(find(state, stream)?.number));
        Ok(())
    }

    context cuStreamGetDevice cuStreamGetDevice_ptsz = (stream: *mut c_void, device: *mut i32) |state| {
        find(state, stream)?;
        out!(device, 0);
        Ok(())
    }

    context cuStreamGetCtx cuStreamGetCtx_ptsz = (stream: *mut c_void, context: *mut usize) |state| {
        state.runtime()?.streams.find(stream)?;
        let own = state.driver.owned.get(&(stream as usize)).map(|(context, _)| *context);
        let own = match own {
            Some(context) => context,
            None => current(state)?,
        };
        out!(context, own);
        Ok(())
    }

    context cuStreamGetCtx_v2 cuStreamGetCtx_v2_ptsz = (stream: *mut c_void, context: *mut usize, green: *mut usize) |state| {
        find(state, stream)?;
        out!(context, current(state)?);
        out!(green, 0);
        Ok(())
    }

    context cuStreamAttachMemAsync cuStreamAttachMemAsync_ptsz = (stream: *mut c_void, _at: u64, _bytes: usize, _flags: u32) |state| {
        // Managed memory is the host's between runs, whichever stream it belongs to.
        find(state, stream).map(drop)
    }

    context cuStreamIsCapturing cuStreamIsCapturing_ptsz = (stream: *mut c_void, status: *mut i32) |state| {
        find(state, stream)?;
        out!(status, i32::from(state.is_captured(stream)));
        Ok(())
    }

    context cuEventCreate = (at: *mut *mut c_void, flags: u32) |state| {
        events::create(state, at, flags)?;
        // SAFETY: it was written just now.
        let handle = unsafe { pointers::get(at) }?;
        own(state, handle as usize, Owned::Event)
    }

    context cuEventDestroy cuEventDestroy_v2 = (event: usize) |state| { destroy_event(state, event) }

    context cuEventRecord cuEventRecord_ptsz = (event: *mut c_void, stream: *mut c_void) |state| {
        find(state, stream)?;
        events::record(state, event, stream)
    }

    context cuEventRecordWithFlags cuEventRecordWithFlags_ptsz = (event: *mut c_void, stream: *mut c_void, _flags: u32) |state| {
        find(state, stream)?;
        events::record(state, event, stream)
    }

    context cuEventSynchronize cuEventQuery = (event: *mut c_void) |state| {
        events::find(state, event)?;
        state.synchronize()
    }

    context cuEventElapsedTime cuEventElapsedTime_v2 = (milliseconds: *mut f32, start: *mut c_void, end: *mut c_void) |state| {
        out!(milliseconds, events::elapsed(state, start, end)?);
        Ok(())
    }
}
