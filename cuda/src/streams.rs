//! Streams. Copies and waits run at the call, after all that is queued: one of the orders that CUDA allows. Kernels of
//! several streams run together.

use std::collections::BTreeMap;
use std::ffi::c_void;

use crate::call;
use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE};
use crate::runtime::State;

/// Handle of the legacy default stream, beside null.
const LEGACY: usize = 1;
/// Handle of a thread's default stream.
const PER_THREAD: usize = 2;
/// `cudaStreamNonBlocking`.
const NON_BLOCKING: u32 = 1;

/// A stream of the program.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Its number on the device.
    pub number: u32,
    /// As it was created.
    pub flags: u32,
    /// As it was created.
    pub priority: i32,
}

/// All streams.
#[derive(Debug, Default)]
pub struct Streams {
    list: BTreeMap<usize, Stream>,
    created: u32,
}

impl Streams {
    /// The stream of a handle.
    ///
    /// # Errors
    /// It is none.
    pub fn find(&self, handle: *mut c_void) -> Result<Stream, Error> {
        match handle as usize {
            0 | LEGACY => Ok(Stream { number: 0, flags: 0, priority: 0 }),
            PER_THREAD => Ok(Stream { number: 1, flags: 0, priority: 0 }),
            other => self.list.get(&other).copied().ok_or(INVALID_HANDLE),
        }
    }

    fn is_non_blocking(&self, number: u32) -> bool {
        self.list.values().any(|stream| stream.number == number && stream.flags & NON_BLOCKING != 0)
    }

    /// Whether a launch on a stream can be queued behind others without waiting for them: launches of one stream run
    /// one at a time where no other stream is in use, and the default stream waits for the others as they do for it.
    pub fn run_beside(&self, stream: u32, queued: impl Iterator<Item = u32>) -> bool {
        let mut others = false;
        let mut same = false;
        for other in queued {
            same |= other == stream;
            let waits = |a: u32, b: u32| a == 0 && b != 0 && !self.is_non_blocking(b);
            if waits(stream, other) || waits(other, stream) {
                return false;
            }
            others |= other != stream;
        }
        !same || others || self.list.len() > 1
    }
}

fn create(state: &mut State, at: *mut *mut c_void, flags: u32, priority: i32) -> Result<(), Error> {
    if flags & !NON_BLOCKING != 0 || at.is_null() {
        return Err(INVALID_VALUE);
    }
    let handle = state.handle();
    let streams = &mut state.runtime()?.streams;
    streams.created += 1;
    // 0 and 1 are the default streams.
    streams
        .list
        .insert(handle, Stream { number: streams.created + 1, flags, priority: priority.clamp(-5, 0) });
    out!(at, handle as *mut c_void);
    Ok(())
}

cuda! {
    fn cudaStreamCreate = (at: *mut *mut c_void) |state| { create(state, at, 0, 0) }

    fn cudaStreamCreateWithFlags = (at: *mut *mut c_void, flags: u32) |state| { create(state, at, flags, 0) }

    fn cudaStreamCreateWithPriority = (at: *mut *mut c_void, flags: u32, priority: i32) |state| {
        create(state, at, flags, priority)
    }

    fn cudaStreamDestroy = (stream: *mut c_void) |state| {
        state.synchronize()?;
        let found = state.runtime()?.streams.list.remove(&(stream as usize));
        found.map(drop).ok_or(INVALID_HANDLE)
    }

    fn cudaStreamSynchronize cudaStreamSynchronize_ptsz cudaStreamQuery cudaStreamQuery_ptsz = (stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        state.synchronize()
    }

    fn cudaStreamWaitEvent cudaStreamWaitEvent_ptsz = (stream: *mut c_void, event: *mut c_void, _flags: u32) |state| {
        let runtime = state.runtime()?;
        runtime.streams.find(stream)?;
        if !runtime.events.contains_key(&(event as usize)) {
            return Err(INVALID_HANDLE);
        }
        state.synchronize()
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

    fn cudaStreamIsCapturing cudaStreamIsCapturing_ptsz = (stream: *mut c_void, status: *mut i32) |state| {
        state.runtime()?.streams.find(stream)?;
        out!(status, 0);
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

/// Runs a function of the host behind what is queued; the function may call CUDA from another thread.
unsafe fn host_function(name: &str, stream: *mut c_void, function: impl FnOnce()) -> i32 {
    let status = call::enter(name, |state| {
        state.runtime()?.streams.find(stream)?;
        state.synchronize()
    });
    if status == 0 {
        function();
    }
    status
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchHostFunc(
    stream: *mut c_void,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> i32 {
    let Some(function) = function else { return call::keep("cudaLaunchHostFunc", || Err(INVALID_VALUE)) };
    // SAFETY: the program's function gets the program's data.
    unsafe { host_function("cudaLaunchHostFunc", stream, || function(data)) }
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamAddCallback(
    stream: *mut c_void,
    function: Option<unsafe extern "C" fn(*mut c_void, i32, *mut c_void)>,
    data: *mut c_void,
    _flags: u32,
) -> i32 {
    let Some(function) = function else { return call::keep("cudaStreamAddCallback", || Err(INVALID_VALUE)) };
    // SAFETY: the program's function gets the program's data.
    unsafe { host_function("cudaStreamAddCallback", stream, || function(stream, 0, data)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_run_together_only_on_streams_that_do_not_wait_for_each_other() {
        let mut streams = Streams::default();
        let beside =
            |streams: &Streams, stream, queued: &[u32]| streams.run_beside(stream, queued.iter().copied());
        assert!(beside(&streams, 0, &[]));
        assert!(!beside(&streams, 0, &[0]), "one at a time");
        for (handle, number, flags) in [(16, 2, 0), (32, 3, NON_BLOCKING)] {
            streams.list.insert(handle, Stream { number, flags, priority: 0 });
        }
        assert!(beside(&streams, 2, &[3, 2]) && beside(&streams, 2, &[2]));
        assert!(!beside(&streams, 0, &[2]) && !beside(&streams, 2, &[0]), "the default stream waits");
        assert!(beside(&streams, 0, &[3]) && beside(&streams, 3, &[0]), "but not for this one");
    }
}
