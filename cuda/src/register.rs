//! The calls by which a program registers fat binaries, kernels and variables before it runs.

use std::ffi::{CString, c_char, c_void};

use crate::call::lock;
use crate::fatbin;
use crate::pointers;
use crate::registry::{Function, Variable};

/// The index that a handle stands for: handles are numbers from 1, as null is none.
fn index(handle: *mut *mut c_void) -> usize {
    (handle as usize).wrapping_sub(1)
}

/// Registers a fat binary; what is wrong with it is said where it is first used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *mut c_void) -> *mut *mut c_void {
    // SAFETY: what nvcc's code passes is a wrapper.
    let binary = unsafe { fatbin::registered(wrapper as *const u8) };
    let mut state = lock();
    state.registry.binaries.push(Some(binary));
    state.registry.binaries.len() as *mut *mut c_void
}

/// The end of a registration; nothing is left to do.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_: *mut *mut c_void) {}

/// Forgets a fat binary with its kernels and variables.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    let mut state = lock();
    state.finish();
    let binary = index(handle);
    state.registry.forget(binary);
}

/// Registers a kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    stand_in: *const c_char,
    _device_function: *mut c_char,
    name: *const c_char,
    _thread_limit: i32,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_dim: *mut c_void,
    _grid_dim: *mut c_void,
    _warp_size: *mut i32,
) {
    // SAFETY: what nvcc's code passes is a text.
    let Ok(name) = (unsafe { pointers::text(name) }) else { return };
    let Ok(c_name) = CString::new(name.as_str()) else { return };
    let function =
        Function { binary: index(handle), name, c_name, dynamic_shared: None, non_portable_cluster: false };
    lock().registry.functions.insert(stand_in as usize, function);
}

unsafe fn variable(handle: *mut *mut c_void, stand_in: usize, name: *const c_char, managed: Option<usize>) {
    // SAFETY: what nvcc's code passes is a text.
    let Ok(name) = (unsafe { pointers::text(name) }) else { return };
    let variable = Variable { binary: index(handle), name, managed };
    lock().registry.variables.push((stand_in, variable));
}

/// Registers a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    stand_in: *mut c_char,
    _device_address: *mut c_char,
    name: *const c_char,
    _external: i32,
    _size: usize,
    _constant: i32,
    _global: i32,
) {
    // SAFETY: as `variable`.
    unsafe { variable(handle, stand_in as usize, name, None) };
}

/// Registers a variable of managed memory; `__cudaInitModule` gives it its address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    address: *mut *mut c_void,
    _device_address: *mut c_char,
    name: *const c_char,
    _external: i32,
    _size: usize,
    _constant: i32,
    _global: i32,
) {
    // SAFETY: as `variable`.
    unsafe { variable(handle, address as usize, name, Some(address as usize)) };
}

/// Gives the managed variables of a fat binary their addresses; true on success.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaInitModule(handle: *mut *mut c_void) -> c_char {
    let binary = index(handle);
    let done = crate::call::enter("__cudaInitModule", |state| {
        let mut needed = state.registry.variables.iter();
        let needed = needed.any(|(_, variable)| variable.binary == binary && variable.managed.is_some());
        if needed { state.module(binary).map(drop) } else { Ok(()) }
    });
    c_char::from(done == 0)
}
