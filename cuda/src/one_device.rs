//! That there is one device, and for which version of the runtime a program was made.

use std::ffi::c_void;

use crate::error::{Error, INVALID_DEVICE};
use crate::pointers;

/// Runtimes whose structures and parameters differ from those of CUDA 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// That of CUDA 11.
    Eleven,
    /// That of CUDA 13.
    Thirteen,
}

/// The program loaded this runtime: its structures and parameters are meant.
pub fn loaded(runtime: Runtime) -> bool {
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> i32 {
        // SAFETY: the loader passes the facts of an object, with a name or null.
        let name = unsafe { pointers::text((*info).dlpi_name) }.unwrap_or_default();
        // SAFETY: it leads to the variable below.
        let (wanted, found) = unsafe { &mut *found.cast::<(&str, bool)>() };
        *found |= name.ends_with(*wanted);
        0
    }
    let name = match runtime {
        Runtime::Eleven => "/libcudart.so.11.0",
        Runtime::Thirteen => "/libcudart.so.13",
    };
    let mut found = (name, false);
    // SAFETY: the function takes the variable as what it is.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found.1
}

/// There is one device.
///
/// # Errors
/// It is another.
pub fn known(device: i32) -> Result<(), Error> {
    if device == 0 { Ok(()) } else { Err(INVALID_DEVICE) }
}
