//! Queries of errors, which answer even after a fault.

use std::ffi::c_char;

use crate::call;
use crate::error::words;

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(code: i32) -> *const c_char {
    words(code).0.as_ptr()
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(code: i32) -> *const c_char {
    words(code).1.as_ptr()
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> i32 {
    call::last(true)
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> i32 {
    call::last(false)
}
