//! Attributes of streams. They are kept and told; none changes a result or a simulated time.

use std::ffi::c_void;

use crate::error::{Error, INVALID_VALUE};
use crate::pointers;
use crate::runtime::State;

/// The value of an attribute.
pub type Value = [u32; 16];

/// Attributes of streams as CUDA numbers them.
const ACCESS_POLICY: i32 = 1;
const SYNCHRONIZATION: i32 = 3;
const PRIORITY: i32 = 8;
const DOMAINS: i32 = 9;
const DOMAIN: i32 = 10;

/// `cudaAccessPropertyPersisting`.
const PERSISTING: u32 = 2;

/// The largest window of an access policy that is accepted: as much as a chip of NVIDIA has (`accessPolicyMaxWindowSize`).
const MOST_BYTES: u64 = 128 << 20;

/// A value is one of an attribute.
fn fits(number: i32, value: &Value) -> bool {
    match number {
        ACCESS_POLICY => {
            let bytes = u64::from(value[2]) | u64::from(value[3]) << 32;
            let ratio = f32::from_bits(value[4]);
            (0.0..=1.0).contains(&ratio)
                && value[5] <= PERSISTING
                && value[6] < PERSISTING
                && bytes <= MOST_BYTES
        }
        SYNCHRONIZATION => (1..=4).contains(&value[0]),
        DOMAIN => value[0] <= 1,
        PRIORITY | DOMAINS => true,
        _ => false,
    }
}

/// An attribute of a stream.
///
/// # Errors
/// There is no such stream or attribute.
pub fn attribute(state: &mut State, stream: *mut c_void, number: i32) -> Result<Value, Error> {
    let streams = &state.runtime()?.streams;
    let own = streams.find(stream)?;
    let mut value = [0; 16];
    match number {
        PRIORITY => value[0] = own.priority as u32,
        SYNCHRONIZATION => value[0] = 1,
        // Both domains of the program are what their numbers say.
        DOMAINS => value[0] = 0x100,
        ACCESS_POLICY | DOMAIN => {}
        _ => return Err(INVALID_VALUE),
    }
    Ok(streams.attributes.get(&(own.number, number)).copied().unwrap_or(value))
}

/// Sets an attribute of a stream.
///
/// # Errors
/// There is no such stream or attribute, or the value is none of it.
///
/// # Safety
/// `value` must lead to the value.
pub unsafe fn set(
    state: &mut State,
    stream: *mut c_void,
    number: i32,
    value: *const Value,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let value = unsafe { pointers::get(value) }?;
    if !fits(number, &value) {
        return Err(INVALID_VALUE);
    }
    let streams = &mut state.runtime()?.streams;
    let own = streams.find(stream)?;
    if number == PRIORITY {
        return streams.set_priority(stream, value[0] as i32);
    }
    streams.attributes.insert((own.number, number), value);
    Ok(())
}

/// Gives a stream the attributes of another.
///
/// # Errors
/// There is no such stream.
pub fn copy(state: &mut State, to: *mut c_void, from: *mut c_void) -> Result<(), Error> {
    let streams = &mut state.runtime()?.streams;
    let (to_own, from_own) = (streams.find(to)?.number, streams.find(from)?);
    for number in [ACCESS_POLICY, SYNCHRONIZATION, DOMAINS, DOMAIN] {
        match streams.attributes.get(&(from_own.number, number)).copied() {
            Some(value) => streams.attributes.insert((to_own, number), value),
            None => streams.attributes.remove(&(to_own, number)),
        };
    }
    streams.set_priority(to, from_own.priority)
}

cuda! {
    fn cudaStreamSetAttribute cudaStreamSetAttribute_ptsz = (stream: *mut c_void, number: i32, value: *const Value) |state| {
        // SAFETY: CUDA's manual asks for the value.
        unsafe { set(state, stream, number, value) }
    }

    fn cudaStreamGetAttribute cudaStreamGetAttribute_ptsz = (stream: *mut c_void, number: i32, value: *mut Value) |state| {
        out!(value, attribute(state, stream, number)?);
        Ok(())
    }

    fn cudaStreamCopyAttributes cudaStreamCopyAttributes_ptsz = (to: *mut c_void, from: *mut c_void) |state| {
        copy(state, to, from)
    }

    fn cudaCtxResetPersistingL2Cache = () |state| {
        // No line of L2 persists longer than its use.
        state.runtime().map(drop)
    }
}
