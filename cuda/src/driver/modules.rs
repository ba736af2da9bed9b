//! Modules, libraries and their kernels. A module is a fat binary like those that programs register for the runtime
//! API, with one file if it is a PTX text; a library is the same, loaded when it is first used. A kernel of a library
//! and a function of a module are the same handle: a stand-in, as the runtime API has them.

use std::ffi::{CString, c_char, c_void};
use std::path::Path;

use sim_core::answers::Symbol;
use warpsim::device::Module;

use crate::driver::call::{own, status};
use crate::driver::jit::Jit;
use crate::driver::state::Owned;
use crate::error::{Error, FILE_NOT_FOUND, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NOT_FOUND};
use crate::fatbin::{self, CONTAINER, File, WRAPPER};
use crate::occupancy::{set, told};
use crate::pointers;
use crate::registry::{FatBinary, Function};
use crate::runtime::State;
use crate::shared::Kind;

/// How an ELF image begins.
const ELF_MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");

/// The compute capability of machine code, which its header's flags have in the lowest byte, or from CUDA 13 on in the
/// next one.
fn capability(flags: u32) -> u32 {
    let (older, newer) = (flags & 0xff, flags >> 8 & 0xff);
    if (20..=130).contains(&newer) { newer } else { older }
}

/// A PTX text.
fn text(bytes: &[u8]) -> Result<Vec<File>, String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = &bytes[..end];
    if text.windows(8).any(|word| word == b".version") {
        Ok(vec![File::ptx(text)])
    } else {
        Err("it is neither a fat binary nor PTX".to_string())
    }
}

/// What is in an image of known size.
pub fn of_bytes(bytes: &[u8]) -> Result<Vec<File>, String> {
    let word =
        |at: usize| bytes.get(at..at + 4).and_then(|word| Some(u32::from_le_bytes(word.try_into().ok()?)));
    match word(0) {
        Some(CONTAINER) => fatbin::files(bytes),
        Some(ELF_MAGIC) => Ok(vec![File::machine_code(capability(word(48).unwrap_or(0)))]),
        _ => text(bytes),
    }
}

/// What is in an image in memory.
///
/// # Safety
/// `image` must lead to a fat binary, its wrapper, an ELF image or a zero-terminated PTX text.
pub unsafe fn of_memory(image: *const c_void) -> Result<FatBinary, Error> {
    // SAFETY: the caller's promise; each has four bytes.
    let magic: u32 = unsafe { pointers::get(image.cast()) }?;
    let files = match magic {
        // SAFETY: the caller's promise.
        WRAPPER => return Ok(unsafe { fatbin::registered(image.cast()) }),
        // SAFETY: the caller's promise.
        CONTAINER => unsafe { fatbin::container(image.cast()) },
        // SAFETY: an ELF header has 64 bytes.
        ELF_MAGIC => of_bytes(unsafe { pointers::bytes(image.cast(), 64) }),
        // SAFETY: the caller's promise.
        _ => text(unsafe { pointers::text(image.cast()) }?.as_bytes()),
    };
    Ok(one_unit(files))
}

/// The fat binary of one translation unit.
fn one_unit(files: Result<Vec<File>, String>) -> FatBinary {
    files.map(|files| vec![files])
}

fn of_file(path: *const c_char) -> Result<FatBinary, Error> {
    // SAFETY: CUDA's manual asks for a text.
    let path = unsafe { pointers::text(path) }?;
    let bytes = std::fs::read(Path::new(&path)).map_err(|error| {
        eprintln!("warpsim: {path}: {error}");
        FILE_NOT_FOUND
    })?;
    Ok(one_unit(of_bytes(&bytes)))
}

/// Keeps a fat binary under a new handle.
fn keep(state: &mut State, binary: FatBinary) -> usize {
    let handle = state.handle();
    state.registry.binaries.push(Some(binary));
    state.driver.binaries.insert(handle, state.registry.binaries.len() - 1);
    handle
}

/// Forgets a module or library with its kernels.
pub fn forget(state: &mut State, handle: usize) {
    let Some(binary) = state.driver.binaries.remove(&handle) else { return };
    state.driver.owned.remove(&handle);
    state.driver.functions.retain(|(own, _), _| *own != binary);
    state.registry.forget(binary);
}

fn load_module(state: &mut State, at: *mut usize, binary: FatBinary) -> Result<(), Error> {
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    let handle = keep(state, binary);
    own(state, handle, Owned::Module)?;
    if let Err(error) = binary_of(state, handle).and_then(|binary| state.module(binary)) {
        forget(state, handle);
        // What is no image at all is another error than an image without PTX.
        return Err(error);
    }
    out!(at, handle);
    Ok(())
}

/// The fat binary of a module or library.
fn binary_of(state: &State, handle: usize) -> Result<usize, Error> {
    state.driver.binaries.get(&handle).copied().ok_or(INVALID_HANDLE)
}

fn module_of(state: &mut State, handle: usize) -> Result<Module, Error> {
    let binary = binary_of(state, handle)?;
    state.module(binary)
}

/// The handle of a kernel by name.
fn kernel(state: &mut State, handle: usize, name: &str) -> Result<usize, Error> {
    let binary = binary_of(state, handle)?;
    if let Some(found) = state.driver.functions.get(&(binary, name.to_string())) {
        return Ok(*found);
    }
    let module = state.module(binary)?;
    state.runtime()?.device.entry(module, name).ok_or(NOT_FOUND)?;
    let own = state.handle();
    let c_name = CString::new(name).map_err(|_| NOT_FOUND)?;
    let function = Function {
        binary,
        name: name.to_string(),
        c_name,
        dynamic_shared: None,
        non_portable_cluster: false,
    };
    state.registry.functions.insert(own, function);
    state.driver.functions.insert((binary, name.to_string()), own);
    Ok(own)
}

/// The names of all kernels of a module or library.
///
/// # Errors
/// There is none such.
pub fn kernels(state: &mut State, handle: usize) -> Result<Vec<String>, Error> {
    let module = module_of(state, handle)?;
    state.runtime()?.device.entries(module).map_err(|_| INVALID_HANDLE)
}

/// Writes handles of kernels to a place for `room` of them.
///
/// # Errors
/// There is no such library, or no place.
pub fn enumerate(state: &mut State, at: *mut usize, room: u32, handle: usize) -> Result<(), Error> {
    for (i, name) in kernels(state, handle)?.iter().take(room as usize).enumerate() {
        out!(at.wrapping_add(i), kernel(state, handle, name)?);
    }
    Ok(())
}

/// A variable of a module.
///
/// # Errors
/// There is none of this name.
///
/// # Safety
/// `name` must be null or lead to a text.
pub unsafe fn variable(state: &mut State, handle: usize, name: *const c_char) -> Result<Symbol, Error> {
    // SAFETY: CUDA's manual asks for a text.
    let name = unsafe { pointers::text(name) }?;
    let module = module_of(state, handle)?;
    state.runtime()?.device.symbol(module, &name).ok_or(NOT_FOUND)
}

/// Writes address and size of a variable, each where it is asked for.
///
/// # Errors
/// Neither is.
pub fn give(at: *mut u64, bytes: *mut usize, symbol: Symbol) -> Result<(), Error> {
    if at.is_null() && bytes.is_null() {
        return Err(INVALID_VALUE);
    }
    if !at.is_null() {
        out!(at, symbol.address);
    }
    if !bytes.is_null() {
        out!(bytes, symbol.bytes as usize);
    }
    Ok(())
}

/// The handle of the module or library of a kernel.
fn home(state: &State, function: *const c_void) -> Result<usize, Error> {
    let binary = state.registry.function(function).map_err(|_| INVALID_HANDLE)?.binary;
    let found = state.driver.binaries.iter().find(|(_, own)| **own == binary);
    found.map(|(handle, _)| *handle).ok_or(INVALID_HANDLE)
}

/// An attribute of a kernel (`CUfunction_attribute`).
fn attribute(state: &mut State, function: *const c_void, number: i32) -> Result<i32, Error> {
    let all = told(state, function)?;
    Ok(match number {
        0 => all.max_threads,
        1 => all.shared as i32,
        2 => all.constant as i32,
        3 => all.local as i32,
        4 => all.registers,
        5 => all.ptx_version,
        6 => all.binary_version,
        7 => all.cache_mode,
        8 => all.max_dynamic_shared,
        9 => all.carveout,
        // Clusters.
        10..=15 => 0,
        _ => return Err(INVALID_VALUE),
    })
}

/// Writes offset and size of a parameter of a kernel.
///
/// # Errors
/// There is none such.
pub fn parameter(
    state: &mut State,
    function: *const c_void,
    index: usize,
    (offset, size): (*mut usize, *mut usize),
) -> Result<(), Error> {
    let found = state.registry.function(function)?.clone();
    let module = state.module(found.binary)?;
    let entry = state.runtime()?.device.entry(module, &found.name).ok_or(INVALID_HANDLE)?;
    let parameter = entry.params.get(index).ok_or(INVALID_VALUE)?;
    out!(offset, parameter.offset as usize);
    if !size.is_null() {
        out!(size, parameter.size as usize);
    }
    Ok(())
}

/// How many parameters a kernel has.
///
/// # Errors
/// There is no such kernel.
pub fn parameters(state: &mut State, function: *const c_void) -> Result<usize, Error> {
    let found = state.registry.function(function)?.clone();
    let module = state.module(found.binary)?;
    let entry = state.runtime()?.device.entry(module, &found.name).ok_or(INVALID_HANDLE)?;
    Ok(entry.params.len())
}

/// Loads a library from memory.
///
/// # Errors
/// It is no image.
///
/// # Safety
/// As [`of_memory`].
pub unsafe fn library(
    state: &mut State,
    call: &str,
    image: *const c_void,
    jit: &Jit,
) -> Result<usize, Error> {
    // SAFETY: the caller's promise.
    let binary = unsafe { of_memory(image) }?;
    let is_image = binary.as_ref().map(drop).map_err(|why| {
        eprintln!("warpsim: {call}: {why}");
        INVALID_IMAGE
    });
    logged(jit, is_image)?;
    Ok(keep(state, binary))
}

/// Loads a library from a file.
///
/// # Errors
/// It cannot be read.
pub fn file_library(state: &mut State, path: *const c_char) -> Result<usize, Error> {
    let binary = of_file(path)?;
    Ok(keep(state, binary))
}

/// Unloads a library.
///
/// # Errors
/// There is none such.
pub fn forget_library(state: &mut State, library: usize) -> Result<(), Error> {
    binary_of(state, library)?;
    state.finish();
    forget(state, library);
    Ok(())
}

/// The kernel of a name.
///
/// # Errors
/// There is no such library or kernel.
///
/// # Safety
/// `name` must be null or lead to a text.
pub unsafe fn named_kernel(state: &mut State, library: usize, name: *const c_char) -> Result<usize, Error> {
    // SAFETY: CUDA's manual asks for a text.
    let name = unsafe { pointers::text(name) }?;
    kernel(state, library, &name)
}

/// A variable of managed memory, which the host may access from here on.
///
/// # Errors
/// There is no such library or variable.
///
/// # Safety
/// `name` must be null or lead to a text.
pub unsafe fn managed(state: &mut State, library: usize, name: *const c_char) -> Result<Symbol, Error> {
    // SAFETY: the caller's promise.
    let symbol = unsafe { variable(state, library, name) }?;
    let runtime = state.runtime()?;
    if runtime.shared.find(symbol.address).is_none() {
        runtime.shared.share(&mut runtime.device, symbol.address, symbol.bytes, Kind::Variable)?;
    }
    Ok(symbol)
}

/// What goes wrong in a load is written to the caller's log too.
fn logged(jit: &Jit, result: Result<(), Error>) -> Result<(), Error> {
    jit.tell(
        result
            .as_ref()
            .err()
            .map(|error| format!("warpsim: status {}: see stderr", status(*error)))
            .as_deref(),
    );
    result
}

driver! {
    ENTRIES []

    context cuModuleLoadData cuModuleLoadFatBinary = (at: *mut usize, image: *const c_void) |state| {
        // SAFETY: CUDA's manual asks for an image.
        let binary = unsafe { of_memory(image) }?;
        load_module(state, at, binary)
    }

    context cuModuleLoadDataEx = (
        at: *mut usize, image: *const c_void, count: u32, options: *const i32, values: *const *mut c_void
    ) |state| {
        // SAFETY: CUDA's manual asks for an image, and for as many options.
        let (binary, jit) = unsafe { (of_memory(image)?, Jit::of(count, options, values)?) };
        logged(&jit, load_module(state, at, binary))
    }

    context cuModuleLoad = (at: *mut usize, path: *const c_char) |state| {
        let binary = of_file(path)?;
        load_module(state, at, binary)
    }

    context cuModuleUnload = (module: usize) |state| {
        binary_of(state, module)?;
        state.synchronize()?;
        forget(state, module);
        Ok(())
    }

    context cuModuleGetFunction = (at: *mut usize, module: usize, name: *const c_char) |state| {
        // SAFETY: CUDA's manual asks for a text.
        let name = unsafe { pointers::text(name) }?;
        out!(at, kernel(state, module, &name)?);
        Ok(())
    }

    context cuModuleGetFunctionCount = (count: *mut u32, module: usize) |state| {
        out!(count, kernels(state, module)?.len() as u32);
        Ok(())
    }

    context cuModuleEnumerateFunctions = (at: *mut usize, room: u32, module: usize) |state| {
        enumerate(state, at, room, module)
    }

    context cuModuleGetGlobal_v2 = (at: *mut u64, bytes: *mut usize, module: usize, name: *const c_char) |state| {
        // SAFETY: CUDA's manual asks for a text.
        give(at, bytes, unsafe { variable(state, module, name) }?)
    }

    nothing cuModuleGetLoadingMode = (mode: *mut i32) |_state| {
        // CU_MODULE_LAZY_LOADING.
        out!(mode, 2);
        Ok(())
    }

    driver cuLibraryLoadData = (
        at: *mut usize, image: *const c_void, options: *const i32, values: *const *mut c_void, count: u32,
        _library_options: *const i32, _library_values: *const *mut c_void, _library_count: u32
    ) |state| {
        // SAFETY: CUDA's manual asks for an image, and for as many options.
        let handle = unsafe {
            let jit = Jit::of(count, options, values)?;
            library(state, "cuLibraryLoadData", image, &jit)
        }?;
        out!(at, handle);
        Ok(())
    }

    driver cuLibraryLoadFromFile = (
        at: *mut usize, path: *const c_char, _options: *const i32, _values: *const *mut c_void, _count: u32,
        _library_options: *const i32, _library_values: *const *mut c_void, _library_count: u32
    ) |state| {
        out!(at, file_library(state, path)?);
        Ok(())
    }

    driver cuLibraryUnload = (library: usize) |state| { forget_library(state, library) }

    driver cuLibraryGetKernel = (at: *mut usize, library: usize, name: *const c_char) |state| {
        // SAFETY: CUDA's manual asks for a text.
        out!(at, unsafe { named_kernel(state, library, name) }?);
        Ok(())
    }

    driver cuLibraryGetKernelCount = (count: *mut u32, library: usize) |state| {
        out!(count, kernels(state, library)?.len() as u32);
        Ok(())
    }

    driver cuLibraryEnumerateKernels = (at: *mut usize, room: u32, library: usize) |state| {
        enumerate(state, at, room, library)
    }

    context cuLibraryGetModule = (at: *mut usize, library: usize) |state| {
        module_of(state, library)?;
        out!(at, library);
        Ok(())
    }

    context cuLibraryGetGlobal = (at: *mut u64, bytes: *mut usize, library: usize, name: *const c_char) |state| {
        // SAFETY: CUDA's manual asks for a text.
        give(at, bytes, unsafe { variable(state, library, name) }?)
    }

    driver cuLibraryGetManaged = (at: *mut u64, bytes: *mut usize, library: usize, name: *const c_char) |state| {
        // SAFETY: CUDA's manual asks for a text.
        give(at, bytes, unsafe { managed(state, library, name) }?)
    }

    context cuKernelGetFunction = (at: *mut usize, kernel: usize) |state| {
        state.registry.function(kernel as *const c_void)?;
        out!(at, kernel);
        Ok(())
    }

    driver cuKernelGetLibrary = (at: *mut usize, kernel: *const c_void) |state| {
        out!(at, home(state, kernel)?);
        Ok(())
    }

    context cuFuncGetModule = (at: *mut usize, function: *const c_void) |state| {
        out!(at, home(state, function)?);
        Ok(())
    }

    driver cuFuncGetName cuKernelGetName = (name: *mut *const c_char, function: *const c_void) |state| {
        out!(name, state.registry.function(function)?.c_name.as_ptr());
        Ok(())
    }

    context cuFuncIsLoaded = (loaded: *mut i32, function: *const c_void) |state| {
        state.registry.function(function)?;
        out!(loaded, 1);
        Ok(())
    }

    context cuFuncLoad = (function: *const c_void) |state| { state.registry.function(function).map(drop) }

    driver cuFuncGetParamInfo cuKernelGetParamInfo = (
        function: *const c_void, index: usize, offset: *mut usize, size: *mut usize
    ) |state| { parameter(state, function, index, (offset, size)) }

    context cuFuncGetParamCount cuKernelGetParamCount = (function: *const c_void, count: *mut usize) |state| {
        out!(count, parameters(state, function)?);
        Ok(())
    }

    context cuFuncGetAttribute = (value: *mut i32, number: i32, function: *const c_void) |state| {
        out!(value, attribute(state, function, number)?);
        Ok(())
    }

    context cuFuncSetAttribute = (function: *const c_void, number: i32, value: i32) |state| {
        set(state, function, number, value)
    }

    driver cuKernelGetAttribute = (value: *mut i32, number: i32, kernel: *const c_void, device: i32) |state| {
        crate::device::known(device)?;
        out!(value, attribute(state, kernel, number)?);
        Ok(())
    }

    driver cuKernelSetAttribute = (number: i32, value: i32, kernel: *const c_void, device: i32) |state| {
        crate::device::known(device)?;
        set(state, kernel, number, value)
    }

    context cuFuncSetCacheConfig cuFuncSetSharedMemConfig = (function: *const c_void, _config: i32) |state| {
        // What a kernel prefers changes no result; L1 has what shared memory leaves.
        state.registry.function(function).map(drop)
    }

    driver cuKernelSetCacheConfig = (kernel: *const c_void, _config: i32, device: i32) |state| {
        crate::device::known(device)?;
        state.registry.function(kernel).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fatbin::make::{Packing, container, wrapper};

    #[test]
    fn images_are_told_apart() {
        let ptx = b".version 7.0\n.target sm_70\n\0garbage";
        let one = |image: &FatBinary| {
            image.as_ref().map(|units| (units[0][0].kind, units[0][0].sm)).map_err(Clone::clone)
        };
        assert_eq!(one(&one_unit(of_bytes(ptx))), Ok((1, 0)));
        assert_eq!(of_bytes(ptx).expect("PTX")[0].text(), Ok(".version 7.0\n.target sm_70\n".to_string()));
        let fat = container(&[(1, 75, b"text")], Packing::Lz4);
        assert_eq!(one(&one_unit(of_bytes(&fat))), Ok((1, 75)));
        let wrapper = wrapper(&fat);
        // SAFETY: images that live.
        let memory = |image: *const u8| unsafe { of_memory(image.cast()) }.expect("no null");
        assert_eq!(one(&memory(wrapper.as_ptr().cast())), Ok((1, 75)));
        assert_eq!(one(&memory(fat.as_ptr())), Ok((1, 75)));
        assert_eq!(one(&memory(ptx.as_ptr())), Ok((1, 0)));
        for (flags, sm) in [(0x0050_0550u32, 80), (0x0600_5a04, 90), (0x0055_054b, 75)] {
            let mut elf = [0; 64];
            elf[..4].copy_from_slice(b"\x7fELF");
            elf[48..52].copy_from_slice(&flags.to_le_bytes());
            assert_eq!(one(&one_unit(of_bytes(&elf))), Ok((2, sm)), "{flags:#x}");
        }
        assert!(of_bytes(b"nothing").is_err());
        assert_eq!(unsafe { of_memory(std::ptr::null()) }.err(), Some(INVALID_VALUE));
    }
}
