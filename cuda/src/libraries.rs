//! Libraries of the runtime API: images that are loaded while the program runs. They are those of the driver API.

use std::ffi::{c_char, c_void};

use crate::driver::jit::Jit;
use crate::driver::modules::{
    enumerate, file_library, forget_library, give, kernels, library, managed, named_kernel, parameter,
    parameters, variable,
};
use crate::occupancy::set;

cuda! {
    fn cudaLibraryLoadData = (
        at: *mut usize, image: *const c_void, options: *const i32, values: *const *mut c_void, count: u32,
        _library_options: *const i32, _library_values: *const *mut c_void, _library_count: u32
    ) |state| {
        // SAFETY: CUDA's manual asks for an image, and for as many options.
        let handle = unsafe {
            let jit = Jit::of(count, options, values)?;
            library(state, "cudaLibraryLoadData", image, &jit)
        }?;
        out!(at, handle);
        Ok(())
    }

    fn cudaLibraryLoadFromFile = (
        at: *mut usize, path: *const c_char, _options: *const i32, _values: *const *mut c_void, _count: u32,
        _library_options: *const i32, _library_values: *const *mut c_void, _library_count: u32
    ) |state| {
        out!(at, file_library(state, path)?);
        Ok(())
    }

    fn cudaLibraryUnload = (library: usize) |state| { forget_library(state, library) }

    fn cudaLibraryGetKernel = (at: *mut usize, library: usize, name: *const c_char) |state| {
        // SAFETY: CUDA's manual asks for a text.
        out!(at, unsafe { named_kernel(state, library, name) }?);
        Ok(())
    }

    fn cudaLibraryGetKernelCount = (count: *mut u32, library: usize) |state| {
        out!(count, kernels(state, library)?.len() as u32);
        Ok(())
    }

    fn cudaLibraryEnumerateKernels = (at: *mut usize, room: u32, library: usize) |state| {
        enumerate(state, at, room, library)
    }

    fn cudaLibraryGetGlobal = (at: *mut u64, bytes: *mut usize, library: usize, name: *const c_char) |state| {
        // SAFETY: CUDA's manual asks for a text.
        give(at, bytes, unsafe { variable(state, library, name) }?)
    }

    fn cudaLibraryGetManaged = (at: *mut u64, bytes: *mut usize, library: usize, name: *const c_char) |state| {
        // SAFETY: CUDA's manual asks for a text.
        give(at, bytes, unsafe { managed(state, library, name) }?)
    }

    fn cudaKernelSetAttributeForDevice = (kernel: *const c_void, number: i32, value: i32, device: i32) |state| {
        crate::one_device::known(device)?;
        set(state, kernel, number, value)
    }

    fn cudaFuncGetParamInfo = (function: *const c_void, index: usize, offset: *mut usize, size: *mut usize) |state| {
        parameter(state, function, index, (offset, size))
    }

    fn cudaFuncGetParamCount = (function: *const c_void, count: *mut usize) |state| {
        out!(count, parameters(state, function)?);
        Ok(())
    }
}
