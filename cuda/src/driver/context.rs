//! Contexts: created ones and the primary one. All share the memory of the one device; what was made in a context goes
//! with it.

use std::ffi::c_void;

use crate::device::known;
use crate::driver::call::{Need, current, enter, made, primary, stack};
use crate::driver::state::{Destructor, Owned};
use crate::error::{
    Error, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, PEER_NOT_ENABLED, PEER_UNSUPPORTED,
};
use crate::limits;
use crate::memory::free;
use crate::runtime::State;

/// What is called when a context has gone, without the lock.
#[derive(Debug)]
struct Call(Destructor, [usize; 3]);

/// Calls.
fn run(calls: Vec<Call>) {
    for Call(function, [context, key, value]) in calls {
        // SAFETY: CUDA's static runtime registered the function with these arguments.
        unsafe { function(context, key, value) };
    }
}

/// The context that a handle stands for; null is the current one.
fn named(state: &mut State, handle: usize) -> Result<usize, Error> {
    match handle {
        0 => current(state),
        own if state.driver.contexts.contains_key(&own) => Ok(own),
        _ => Err(INVALID_CONTEXT),
    }
}

/// Frees what a context has.
fn empty(state: &mut State, context: usize) -> Vec<Call> {
    state.finish();
    let stored = state.driver.storage.range((context, 0)..=(context, usize::MAX));
    let stored: Vec<_> = stored.map(|((_, key), (value, call))| (*key, *value, *call)).collect();
    let mut calls = Vec::new();
    for (key, value, call) in stored {
        state.driver.storage.remove(&(context, key));
        calls.extend(call.map(|call| Call(call, [context, key, value])));
    }
    let owned: Vec<_> = state.driver.owned.iter().filter(|(_, (own, _))| *own == context).collect();
    let owned: Vec<_> = owned.into_iter().map(|(handle, (_, what))| (*handle, *what)).collect();
    let others = state.driver.contexts.keys().any(|other| *other != context);
    for (handle, what) in owned {
        state.driver.owned.remove(&handle);
        match what {
            // What cannot be freed any more goes with the device.
            Owned::Memory => drop(free(state, handle as *mut c_void, false)),
            Owned::Pinned => drop(free(state, handle as *mut c_void, true)),
            Owned::Stream => drop(state.runtime().map(|all| all.streams.remove(handle as *mut c_void))),
            Owned::Event => drop(state.runtime().map(|all| all.events.remove(&handle))),
            Owned::Module => super::modules::forget(state, handle),
        }
    }
    if !others {
        state.reset();
    }
    calls
}

fn create(state: &mut State, at: *mut usize, flags: u32, device: i32) -> Result<(), Error> {
    known(device)?;
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    state.runtime()?;
    let handle = made(state, flags);
    stack(|stack| stack.push(handle));
    out!(at, handle);
    Ok(())
}

/// Destroys a context; the functions that were registered for that run without the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDestroy_v2(context: usize) -> i32 {
    let mut calls = Vec::new();
    let status = enter("cuCtxDestroy", Need::Driver, |state| {
        if context == state.driver.primary || !state.driver.contexts.contains_key(&context) {
            return Err(INVALID_CONTEXT);
        }
        calls = empty(state, context);
        state.driver.contexts.remove(&context);
        stack(|stack| stack.pop_if(|last| *last == context));
        Ok(())
    });
    run(calls);
    status
}

/// As in CUDA's driver API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDestroy(context: usize) -> i32 {
    // SAFETY: as the call that is forwarded.
    unsafe { cuCtxDestroy_v2(context) }
}

/// As in CUDA's driver API: a context is attached once, when it is created.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDetach(context: usize) -> i32 {
    // SAFETY: as the call that is forwarded.
    unsafe { cuCtxDestroy_v2(context) }
}

/// Gives the primary context up; with `all`, however often it is retained.
fn release(name: &str, device: i32, all: bool) -> i32 {
    let mut calls = Vec::new();
    let status = enter(name, Need::Driver, |state| {
        known(device)?;
        let driver = &mut state.driver;
        if driver.retained == 0 && !all {
            return Err(INVALID_CONTEXT);
        }
        if !all {
            driver.retained -= 1;
        }
        let context = driver.primary;
        if context != 0 && (all || driver.retained == 0) {
            calls = empty(state, context);
        }
        Ok(())
    });
    run(calls);
    status
}

/// As in CUDA's driver API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease(device: i32) -> i32 {
    release("cuDevicePrimaryCtxRelease", device, false)
}

/// As in CUDA's driver API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> i32 {
    release("cuDevicePrimaryCtxRelease", device, false)
}

/// As in CUDA's driver API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxReset(device: i32) -> i32 {
    release("cuDevicePrimaryCtxReset", device, true)
}

/// As in CUDA's driver API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxReset_v2(device: i32) -> i32 {
    release("cuDevicePrimaryCtxReset", device, true)
}

/// Makes a context current in the place of the last; null takes that away.
fn make_current(state: &mut State, context: usize) -> Result<(), Error> {
    if context != 0 && !state.driver.contexts.contains_key(&context) {
        return Err(INVALID_CONTEXT);
    }
    stack(|stack| {
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    });
    Ok(())
}

driver! {
    ENTRIES [
        cuCtxDestroy cuCtxDestroy_v2 cuCtxDetach cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
        cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
    ]

    driver cuCtxCreate cuCtxCreate_v2 = (at: *mut usize, flags: u32, device: i32) |state| {
        create(state, at, flags, device)
    }

    driver cuCtxCreate_v3 = (at: *mut usize, _affinity: *const c_void, count: i32, flags: u32, device: i32) |state| {
        if count != 0 {
            eprintln!("warpsim: cuCtxCreate: execution affinities are not supported");
            return Err(NOT_SUPPORTED);
        }
        create(state, at, flags, device)
    }

    driver cuCtxCreate_v4 = (at: *mut usize, _parameters: *const c_void, flags: u32, device: i32) |state| {
        // What the parameters ask for, affinity and shared work queues, changes no result.
        create(state, at, flags, device)
    }

    driver cuCtxPushCurrent cuCtxPushCurrent_v2 = (context: usize) |state| {
        if !state.driver.contexts.contains_key(&context) {
            return Err(INVALID_CONTEXT);
        }
        stack(|stack| stack.push(context));
        Ok(())
    }

    driver cuCtxPopCurrent cuCtxPopCurrent_v2 = (at: *mut usize) |_state| {
        let last = stack(Vec::pop).ok_or(INVALID_CONTEXT)?;
        if !at.is_null() {
            out!(at, last);
        }
        Ok(())
    }

    context cuCtxAttach = (at: *mut usize, _flags: u32) |state| {
        out!(at, current(state)?);
        Ok(())
    }

    driver cuCtxSetCurrent = (context: usize) |state| { make_current(state, context) }

    driver cuCtxGetCurrent = (at: *mut usize) |state| {
        let context = match current(state) {
            Err(INVALID_CONTEXT) => 0,
            other => other?,
        };
        out!(at, context);
        Ok(())
    }

    context cuCtxGetDevice = (device: *mut i32) |_state| {
        out!(device, 0);
        Ok(())
    }

    driver cuCtxGetDevice_v2 = (device: *mut i32, context: usize) |state| {
        named(state, context)?;
        out!(device, 0);
        Ok(())
    }

    context cuCtxGetFlags = (flags: *mut u32) |state| {
        let context = current(state)?;
        out!(flags, state.driver.contexts.get(&context).map_or(0, |context| context.flags));
        Ok(())
    }

    context cuCtxSetFlags = (flags: u32) |state| {
        // How the host waits changes no result.
        let context = current(state)?;
        state.driver.contexts.get_mut(&context).ok_or(INVALID_CONTEXT)?.flags = flags;
        Ok(())
    }

    driver cuCtxGetId = (context: usize, id: *mut u64) |state| {
        let context = named(state, context)?;
        out!(id, state.driver.contexts.get(&context).ok_or(INVALID_CONTEXT)?.id);
        Ok(())
    }

    driver cuCtxGetApiVersion = (context: usize, version: *mut u32) |state| {
        named(state, context)?;
        out!(version, 3020);
        Ok(())
    }

    context cuCtxSynchronize = () |state| {
        state.runtime()?;
        state.synchronize()
    }

    context cuCtxSynchronize_v2 = (context: usize) |state| {
        named(state, context)?;
        state.runtime()?;
        state.synchronize()
    }

    context cuCtxGetLimit = (value: *mut usize, number: i32) |state| { limits::tell(state, value, number) }

    context cuCtxSetLimit = (number: i32, value: usize) |state| { limits::set(state, number, value) }

    context cuCtxSetCacheConfig cuCtxSetSharedMemConfig = (_config: i32) |_state| {
        // What a program prefers changes no result.
        Ok(())
    }

    context cuCtxGetCacheConfig cuCtxGetSharedMemConfig = (config: *mut i32) |_state| {
        out!(config, 0);
        Ok(())
    }

    context cuCtxGetStreamPriorityRange = (least: *mut i32, greatest: *mut i32) |_state| {
        if !least.is_null() {
            out!(least, 0);
        }
        if !greatest.is_null() {
            out!(greatest, -5);
        }
        Ok(())
    }

    context cuCtxResetPersistingL2Cache = () |_state| { Ok(()) }

    context cuCtxEnablePeerAccess = (_peer: usize, _flags: u32) |_state| { Err(PEER_UNSUPPORTED) }

    context cuCtxDisablePeerAccess = (_peer: usize) |_state| { Err(PEER_NOT_ENABLED) }

    driver cuDevicePrimaryCtxRetain = (at: *mut usize, device: i32) |state| {
        let context = primary(state, device)?;
        state.runtime()?;
        out!(at, context);
        state.driver.retained += 1;
        Ok(())
    }

    driver cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2 = (device: i32, flags: u32) |state| {
        known(device)?;
        state.driver.primary_flags = flags;
        let primary = state.driver.primary;
        if let Some(context) = state.driver.contexts.get_mut(&primary) {
            context.flags = flags;
        }
        Ok(())
    }

    driver cuDevicePrimaryCtxGetState = (device: i32, flags: *mut u32, active: *mut i32) |state| {
        if device != 0 {
            return Err(INVALID_DEVICE);
        }
        let driver = &state.driver;
        out!(flags, driver.primary_flags);
        out!(active, i32::from(driver.retained > 0 || driver.runtime_in_use));
        Ok(())
    }
}
