//! The linker library `nvJitLink`, which some programs use in the place of the driver's linker (`cuLink…`). NVIDIA's own
//! makes machine code, which cannot run here; this one links PTX like the driver's linker. (nvJitLink's manual, 13.0.)

use std::ffi::{c_char, c_void};
use std::path::Path;

use crate::driver::call::{Need, enter};
use crate::driver::link::Link;
use crate::driver::linker::{add, complete, named};
use crate::error::{Error, FILE_NOT_FOUND, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED};
use crate::pointers;
use crate::runtime::State;

/// `nvJitLinkResult`s: of what the linker was given, and of the linking.
const INVALID_INPUT: i32 = 3;
const PTX_COMPILE: i32 = 4;

/// Version of the library whose functions these are. From 12.3 on Python packages (numba-cuda, cuda-core) give it
/// intermediate code; before, they give PTX to the driver's linker.
const VERSION: (u32, u32) = (12, 0);

/// `NVJITLINK_INPUT_LTOIR`.
const LTO: i32 = 3;
/// `NVJITLINK_INPUT_INDEX`.
const INDEX: i32 = 7;

/// Machine code, PTX, a fat binary, an object, a library or what it finds are told apart by their contents.
fn added(state: &mut State, handle: usize, kind: i32, name: &str, bytes: &[u8]) -> Result<(), Error> {
    if kind == LTO || kind == INDEX {
        eprintln!("warpsim: nvJitLink: {name}: intermediate code (LTO) is not supported: compile to PTX");
        return Err(NOT_SUPPORTED);
    }
    add(state, handle, 0, name, bytes)
}

fn entered(name: &str, wrong: i32, body: impl FnOnce(&mut State) -> Result<(), Error>) -> i32 {
    if enter(name, Need::Nothing, body) == 0 { 0 } else { wrong }
}

/// Functions of the library: names, the result where they fail, parameters, and what they do with the state.
macro_rules! nvjitlink {
    ($(fn $name:ident $wrong:ident = ($($arg:ident: $ty:ty),*) |$state:ident| $body:block)*) => {
        $(
            #[doc = "As in nvJitLink."]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
                entered(stringify!($name), $wrong, |$state: &mut State| $body)
            }
        )*
    };
}

/// The link of a handle.
fn find(state: &State, handle: usize) -> Result<&Link, Error> {
    state.driver.links.get(&handle).ok_or(INVALID_HANDLE)
}

/// Writes the bytes of a link to the caller's room.
unsafe fn copied(state: &State, handle: usize, at: *mut u8) -> Result<(), Error> {
    let image = &find(state, handle)?.image;
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller has room of the size that it was told.
    unsafe { pointers::bytes_mut(at, image.len()) }.copy_from_slice(image);
    Ok(())
}

nvjitlink! {
    fn nvJitLinkCreate INVALID_INPUT = (at: *mut usize, _count: u32, _options: *const *const c_char) |state| {
        // Architectures, optimisation and debugging change no result.
        let handle = state.handle();
        state.driver.links.insert(handle, Link::default());
        out!(at, handle);
        Ok(())
    }

    fn nvJitLinkDestroy INVALID_INPUT = (at: *mut usize) |state| {
        // SAFETY: the manual asks for a handle.
        let handle = unsafe { pointers::get(at) }?;
        state.driver.links.remove(&handle).map(drop).ok_or(INVALID_HANDLE)
    }

    fn nvJitLinkAddData INVALID_INPUT = (
        handle: usize, kind: i32, data: *const c_void, bytes: usize, name: *const c_char
    ) |state| {
        if data.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the manual asks for as many bytes, and a text or null.
        let (data, name) = unsafe { (pointers::bytes(data.cast(), bytes), named(name)) };
        added(state, handle, kind, &name, data)
    }

    fn nvJitLinkAddFile INVALID_INPUT = (handle: usize, kind: i32, path: *const c_char) |state| {
        // SAFETY: the manual asks for a text.
        let path = unsafe { pointers::text(path) }?;
        let bytes = std::fs::read(Path::new(&path)).map_err(|error| {
            eprintln!("warpsim: {path}: {error}");
            FILE_NOT_FOUND
        })?;
        added(state, handle, kind, &path, &bytes)
    }

    fn nvJitLinkComplete PTX_COMPILE = (handle: usize) |state| { complete(state, handle).map(drop) }

    fn nvJitLinkGetLinkedCubinSize INVALID_INPUT = (handle: usize, bytes: *mut usize) |state| {
        out!(bytes, find(state, handle)?.image.len());
        Ok(())
    }

    fn nvJitLinkGetLinkedCubin INVALID_INPUT = (handle: usize, at: *mut u8) |state| {
        // SAFETY: the manual asks for room.
        unsafe { copied(state, handle, at) }
    }

    fn nvJitLinkGetLinkedPtxSize INVALID_INPUT = (handle: usize, bytes: *mut usize) |state| {
        out!(bytes, find(state, handle)?.image.len());
        Ok(())
    }

    fn nvJitLinkGetLinkedPtx INVALID_INPUT = (handle: usize, at: *mut u8) |state| {
        // SAFETY: the manual asks for room.
        unsafe { copied(state, handle, at) }
    }

    fn nvJitLinkGetErrorLogSize INVALID_INPUT = (handle: usize, bytes: *mut usize) |state| {
        // What goes wrong is said on stderr.
        find(state, handle)?;
        out!(bytes, 1);
        Ok(())
    }

    fn nvJitLinkGetErrorLog INVALID_INPUT = (handle: usize, at: *mut u8) |state| {
        find(state, handle)?;
        out!(at, 0);
        Ok(())
    }

    fn nvJitLinkGetInfoLogSize INVALID_INPUT = (handle: usize, bytes: *mut usize) |state| {
        find(state, handle)?;
        out!(bytes, 1);
        Ok(())
    }

    fn nvJitLinkGetInfoLog INVALID_INPUT = (handle: usize, at: *mut u8) |state| {
        find(state, handle)?;
        out!(at, 0);
        Ok(())
    }

    fn nvJitLinkGetLinkedLTOIRSize INVALID_INPUT = (_handle: usize, _bytes: *mut usize) |_state| { Err(NOT_SUPPORTED) }

    fn nvJitLinkGetLinkedLTOIR INVALID_INPUT = (_handle: usize, _at: *mut u8) |_state| { Err(NOT_SUPPORTED) }

    fn nvJitLinkVersion INVALID_INPUT = (major: *mut u32, minor: *mut u32) |_state| {
        out!(major, VERSION.0);
        out!(minor, VERSION.1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_comes_out_of_the_linker_as_it_went_in() {
        let ptx = b".version 7.0\n.target sm_70\n.address_size 64\n";
        let (mut handle, mut size, mut out) = (0, 0, [1u8; 64]);
        // SAFETY: the places are valid, and there is room for the result.
        unsafe {
            assert_eq!(nvJitLinkCreate(&raw mut handle, 0, std::ptr::null()), 0);
            let data = ptx.as_ptr().cast();
            assert_eq!(nvJitLinkAddData(handle, LTO, data, ptx.len(), c"lto".as_ptr()), INVALID_INPUT);
            assert_eq!(nvJitLinkComplete(handle), PTX_COMPILE, "nothing is linked");
            assert_eq!(nvJitLinkAddData(handle, 2, data, ptx.len(), c"text".as_ptr()), 0);
            assert_eq!(nvJitLinkComplete(handle), 0);
            assert_eq!((nvJitLinkGetLinkedCubinSize(handle, &raw mut size), size), (0, ptx.len() + 1));
            assert_eq!(nvJitLinkGetLinkedCubin(handle, out.as_mut_ptr()), 0);
            assert_eq!((&out[..ptx.len()], out[ptx.len()]), (&ptx[..], 0));
            assert_eq!(nvJitLinkDestroy(&raw mut handle), 0);
            assert_eq!(nvJitLinkDestroy(&raw mut handle), INVALID_INPUT);
        }
    }
}
