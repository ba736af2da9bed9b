//! What several files of tests call: one test at a time on a device as it is at first, streams and events.

#![allow(dead_code, reason = "each file of tests calls some")]

pub mod maps;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use warpsim_cuda::device::cudaDeviceReset;
use warpsim_cuda::events::cudaEventCreate;
use warpsim_cuda::streams::cudaStreamCreate;

/// A test begins; while it holds the guard, no other one does.
pub fn begin() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(cudaDeviceReset(), 0);
    guard
}

/// A stream of its own.
pub fn stream() -> *mut c_void {
    let mut stream = null_mut();
    // SAFETY: a place.
    assert_eq!(unsafe { cudaStreamCreate(&raw mut stream) }, 0);
    stream
}

/// An event.
pub fn event() -> *mut c_void {
    let mut event = null_mut();
    // SAFETY: a place.
    assert_eq!(unsafe { cudaEventCreate(&raw mut event) }, 0);
    event
}
