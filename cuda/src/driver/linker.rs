//! The linker of the driver API. It links PTX texts and the PTX of fat binaries; its image is PTX.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use sim_frontend::diagnostic::Source;

use crate::driver::jit::Jit;
use crate::driver::link::Link;
use crate::driver::modules::of_bytes;
use crate::error::{Error, FILE_NOT_FOUND, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NO_IMAGE};
use crate::fatbin::newest;
use crate::pointers;
use crate::runtime::State;

/// The kinds of input (`CUjitInputType`): machine code, PTX, fat binary, object, library.
const KINDS: i32 = 5;

/// Adds what an image has as PTX.
///
/// # Errors
/// It has none that the chip runs, or there is no such link.
pub fn add(state: &mut State, handle: usize, kind: i32, name: &str, bytes: &[u8]) -> Result<(), Error> {
    if !state.driver.links.contains_key(&handle) {
        return Err(INVALID_HANDLE);
    }
    if !(0..KINDS).contains(&kind) {
        eprintln!("warpsim: cuLinkAddData: {name}: input of kind {kind} is not supported");
        return Err(INVALID_VALUE);
    }
    let said = |why: &str, error: Error| {
        eprintln!("warpsim: {name}: {why}");
        error
    };
    let files = of_bytes(bytes).map_err(|why| said(&why, INVALID_IMAGE))?;
    let device = &state.runtime()?.device;
    let allow_newer = device.configured().options.allow_newer_isa;
    let file = newest(&files, name, device.chip().capability(), allow_newer);
    let text = file.map_err(|why| said(&why, NO_IMAGE))?.text().map_err(|why| said(&why, INVALID_IMAGE))?;
    state.driver.links.get_mut(&handle).ok_or(INVALID_HANDLE)?.texts.push(Source::new(name, &text));
    Ok(())
}

/// Links; gives address and size of the image.
///
/// # Errors
/// The texts do not fit together, or there is no such link.
pub fn complete(state: &mut State, handle: usize) -> Result<(usize, usize), Error> {
    let own = state.driver.links.get_mut(&handle).ok_or(INVALID_HANDLE)?;
    own.complete()?;
    Ok((own.image.as_ptr() as usize, own.image.len()))
}

/// A name for messages.
///
/// # Safety
/// It must be a text or null.
pub unsafe fn named(name: *const c_char) -> String {
    if name.is_null() {
        return "linked text".to_string();
    }
    // SAFETY: CUDA's manual asks for a text or null.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

driver! {
    ENTRIES []

    context cuLinkCreate cuLinkCreate_v2 = (
        count: u32, options: *const i32, values: *const *mut c_void, at: *mut usize
    ) |state| {
        // SAFETY: CUDA's manual asks for as many options.
        unsafe { Jit::of(count, options, values) }?.tell(None);
        let handle = state.handle();
        state.driver.links.insert(handle, Link::default());
        out!(at, handle);
        Ok(())
    }

    context cuLinkAddData cuLinkAddData_v2 = (
        link: usize, kind: i32, data: *const u8, bytes: usize, name: *const c_char, _count: u32,
        _options: *const i32, _values: *const *mut c_void
    ) |state| {
        if data.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: CUDA's manual asks for as many bytes, and a text or null.
        let (data, name) = unsafe { (pointers::bytes(data, bytes), named(name)) };
        add(state, link, kind, &name, data)
    }

    context cuLinkAddFile cuLinkAddFile_v2 = (
        link: usize, kind: i32, path: *const c_char, _count: u32, _options: *const i32, _values: *const *mut c_void
    ) |state| {
        // SAFETY: CUDA's manual asks for a text.
        let path = unsafe { pointers::text(path) }?;
        let bytes = std::fs::read(Path::new(&path)).map_err(|error| {
            eprintln!("warpsim: {path}: {error}");
            FILE_NOT_FOUND
        })?;
        add(state, link, kind, &path, &bytes)
    }

    context cuLinkComplete = (link: usize, image: *mut usize, bytes: *mut usize) |state| {
        let (own, size) = complete(state, link)?;
        out!(image, own);
        if !bytes.is_null() {
            out!(bytes, size);
        }
        Ok(())
    }

    context cuLinkDestroy = (link: usize) |state| {
        state.driver.links.remove(&link).map(drop).ok_or(INVALID_HANDLE)
    }
}
