//! Pointers of the C interface: checked for null, read and written without assuming alignment.

use std::ffi::{CStr, c_char};

use crate::error::{Error, INVALID_VALUE};

/// Writes a result.
///
/// # Errors
/// The pointer is null.
///
/// # Safety
/// A pointer that is not null must be valid for writes of a `T`.
pub unsafe fn put<T>(at: *mut T, value: T) -> Result<(), Error> {
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { at.write_unaligned(value) };
    Ok(())
}

/// Reads an argument.
///
/// # Errors
/// The pointer is null.
///
/// # Safety
/// A pointer that is not null must be valid for reads of a `T`.
pub unsafe fn get<T: Copy>(at: *const T) -> Result<T, Error> {
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { at.read_unaligned() })
}

/// A zero-terminated text.
///
/// # Errors
/// The pointer is null.
///
/// # Safety
/// A pointer that is not null must lead to a zero-terminated text.
pub unsafe fn text(at: *const c_char) -> Result<String, Error> {
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

/// Writes a zero-terminated text to a place of `length` bytes; what is too long is cut off where that is allowed.
///
/// # Errors
/// The pointer is null, or there is no room.
///
/// # Safety
/// A pointer that is not null must be valid for writes of `length` bytes.
pub unsafe fn put_text(at: *mut c_char, length: i32, text: &[u8], may_cut: bool) -> Result<(), Error> {
    let room = usize::try_from(length).ok().filter(|room| *room > 0).ok_or(INVALID_VALUE)?;
    if at.is_null() || (text.len() >= room && !may_cut) {
        return Err(INVALID_VALUE);
    }
    let text = &text[..text.len().min(room - 1)];
    // SAFETY: the caller's promise.
    let place = unsafe { bytes_mut(at.cast(), text.len() + 1) };
    place[..text.len()].copy_from_slice(text);
    place[text.len()] = 0;
    Ok(())
}

/// Bytes of the host that are read.
///
/// # Safety
/// `bytes` bytes from `at` on must be readable, and stay as they are while the slice lives.
pub unsafe fn bytes<'a>(at: *const u8, bytes: usize) -> &'a [u8] {
    // SAFETY: the caller's promise; an empty slice needs no memory.
    if bytes == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, bytes) } }
}

/// Bytes of the host that are written.
///
/// # Safety
/// `bytes` bytes from `at` on must be writable, and nobody else may use them while the slice lives.
pub unsafe fn bytes_mut<'a>(at: *mut u8, bytes: usize) -> &'a mut [u8] {
    // SAFETY: the caller's promise; an empty slice needs no memory.
    if bytes == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(at, bytes) } }
}
