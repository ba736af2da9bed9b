//! What a program can ask of an address.

use std::ffi::c_void;

use crate::driver::call::{current, primary};
use crate::error::{Error, INVALID_VALUE, NOT_SUPPORTED};
use crate::memory::Place;
use crate::pointers::{bytes_mut, get};
use crate::runtime::State;
use crate::shared::Kind;

/// What there is at an address.
struct Found {
    /// Where the device has the address, and where its memory begins there.
    at: u64,
    begin: u64,
    bytes: u64,
    kind: Option<Kind>,
    /// Where the host has the address.
    host: Option<u64>,
}

/// The allocation that holds an address; `None` for memory of the host.
fn found(state: &mut State, at: u64) -> Result<Option<Found>, Error> {
    let runtime = state.runtime()?;
    // Registered memory has two addresses: the host's own one leads to it too.
    let at = runtime.shared.device_side(at).unwrap_or(at);
    if let Some((begin, bytes, kind)) = runtime.shared.find(at) {
        let host = Some(runtime.shared.host_side(at));
        return Ok(Some(Found { at, begin, bytes, kind: Some(kind), host }));
    }
    if runtime.place(at, 1) != Ok(Place::Device) {
        return Ok(None);
    }
    let allocation = runtime.device.allocation(at, 1);
    Ok(allocation.map(|(begin, bytes)| Found { at, begin, bytes, kind: None, host: None }))
}

/// The bytes of an attribute (`CUpointer_attribute`); of none where the address is the host's own.
fn attribute(state: &mut State, number: i32, at: u64) -> Result<Option<Vec<u8>>, Error> {
    let word = |value: u32| Ok(Some(value.to_le_bytes().to_vec()));
    let long = |value: u64| Ok(Some(value.to_le_bytes().to_vec()));
    // A `bool` of these is an `unsigned int`.
    let flag = |value: bool| word(value.into());
    let Some(own) = found(state, at)? else {
        return match number {
            // It is not mapped, not managed, of no device, not of IPC.
            8 | 10 | 13 | 15 => flag(false),
            9 => Ok(Some((-2i32).to_le_bytes().to_vec())),
            1..=20 => Ok(None),
            _ => Err(INVALID_VALUE),
        };
    };
    let pinned = matches!(own.kind, Some(Kind::Pinned | Kind::Registered));
    match number {
        1 => {
            let owner = state.driver.owned.get(&(own.begin as usize)).map(|(context, _)| *context);
            let context = match owner {
                Some(context) => context,
                None => current(state).or_else(|_| primary(state, 0))?,
            };
            long(context as u64)
        }
        // 1 host, 2 device.
        2 => word(if pinned { 1 } else { 2 }),
        3 => long(own.at),
        4 => own.host.map_or(Ok(None), long),
        6 | 13 => flag(number == 13),
        7 | 20 => long(own.begin),
        8 => flag(own.kind.is_some() && !pinned),
        9 => word(0),
        10 | 15 => flag(false),
        11 | 19 => long(own.begin),
        12 | 18 => long(own.bytes),
        14 => long(0),
        16 => word(3),
        17 => long(0),
        5 => Err(NOT_SUPPORTED),
        _ => Err(INVALID_VALUE),
    }
}

/// Bytes of an attribute.
fn size(number: i32) -> usize {
    match number {
        2 | 6 | 8 | 9 | 10 | 13 | 15 | 16 => 4,
        _ => 8,
    }
}

driver! {
    ENTRIES []

    driver cuPointerGetAttribute = (data: *mut c_void, number: i32, at: u64) |state| {
        if data.is_null() {
            return Err(INVALID_VALUE);
        }
        let bytes = attribute(state, number, at)?.ok_or(INVALID_VALUE)?;
        // SAFETY: CUDA's manual asks for room of the attribute's type.
        unsafe { bytes_mut(data.cast(), bytes.len()) }.copy_from_slice(&bytes);
        Ok(())
    }

    driver cuPointerGetAttributes = (count: u32, numbers: *const i32, data: *const *mut c_void, at: u64) |state| {
        for i in 0..count as usize {
            // SAFETY: CUDA's manual asks for as many numbers and places.
            let (number, place) = unsafe { (get(numbers.wrapping_add(i))?, get(data.wrapping_add(i))?) };
            if place.is_null() {
                return Err(INVALID_VALUE);
            }
            // What the host's own memory does not have is zero.
            let bytes = attribute(state, number, at)?.unwrap_or_else(|| vec![0; size(number)]);
            // SAFETY: CUDA's manual asks for room of the attribute's type.
            unsafe { bytes_mut(place.cast(), bytes.len()) }.copy_from_slice(&bytes);
        }
        Ok(())
    }

    driver cuPointerSetAttribute = (_value: *const c_void, number: i32, at: u64) |state| {
        // Synchronous copies, which all are.
        if number == 6 && found(state, at)?.is_some() { Ok(()) } else { Err(INVALID_VALUE) }
    }
}
