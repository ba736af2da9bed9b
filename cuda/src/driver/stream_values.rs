//! Values in memory that a stream writes and waits for. Work of streams runs in the order in which it was given: a value
//! that is waited for must have been written before.

use std::ffi::c_void;

use crate::driver::streams::find;
use crate::error::{CAPTURE_UNSUPPORTED, Error, INVALID_VALUE, NOT_SUPPORTED};
use crate::memory::{ANY, copy};
use crate::runtime::State;

/// Bits of how a value is waited for, besides the flush of remote writes, of which there are none.
const COMPARISON: u32 = 3;
const FLUSH: u32 = 1 << 30;

fn ready(state: &mut State, stream: *mut c_void, at: u64, bytes: usize) -> Result<(), Error> {
    find(state, stream)?;
    if at == 0 || !at.is_multiple_of(bytes as u64) {
        return Err(INVALID_VALUE);
    }
    // CUDA captures these calls; here they are no nodes.
    if state.is_captured(stream) { Err(CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

fn write(state: &mut State, stream: *mut c_void, at: u64, value: u64, bytes: usize) -> Result<(), Error> {
    ready(state, stream, at, bytes)?;
    let own = value.to_le_bytes();
    // SAFETY: the source is the variable above; CUDA's manual asks for a valid destination.
    unsafe { copy(state, at, own.as_ptr() as u64, bytes, ANY) }
}

/// A value of `bits` bits is what is waited for: at least it as a cyclic number, equal, sharing a bit, lacking one.
fn fits(has: u64, wanted: u64, bits: u32, how: u32) -> bool {
    let mask = u64::MAX >> (64 - bits);
    match how & COMPARISON {
        0 => (has.wrapping_sub(wanted) & mask) >> (bits - 1) == 0,
        1 => has == wanted,
        2 => has & wanted != 0,
        _ => !(has | wanted) & mask != 0,
    }
}

fn wait(
    state: &mut State,
    (call, stream): (&str, *mut c_void),
    at: u64,
    (value, bytes): (u64, usize),
    how: u32,
) -> Result<(), Error> {
    if how & !(COMPARISON | FLUSH) != 0 {
        return Err(INVALID_VALUE);
    }
    ready(state, stream, at, bytes)?;
    let mut own = [0u8; 8];
    // SAFETY: the destination is the variable above; CUDA's manual asks for a valid source.
    unsafe { copy(state, own.as_mut_ptr() as u64, at, bytes, ANY) }?;
    let has = u64::from_le_bytes(own);
    if fits(has, value, 8 * bytes as u32, how) {
        return Ok(());
    }
    eprintln!(
        "warpsim: {call}: the value at {at:#x} is {has:#x}, and nothing that was given to the device before makes it what is \
         waited for ({value:#x}): work runs in the order in which it is given; write the value before the call"
    );
    Err(NOT_SUPPORTED)
}

driver! {
    ENTRIES []

    context cuStreamWriteValue32 cuStreamWriteValue32_ptsz cuStreamWriteValue32_v2 cuStreamWriteValue32_v2_ptsz = (
        stream: *mut c_void, at: u64, value: u32, _flags: u32
    ) |state| { write(state, stream, at, value.into(), 4) }

    context cuStreamWriteValue64 cuStreamWriteValue64_ptsz cuStreamWriteValue64_v2 cuStreamWriteValue64_v2_ptsz = (
        stream: *mut c_void, at: u64, value: u64, _flags: u32
    ) |state| { write(state, stream, at, value, 8) }

    context cuStreamWaitValue32 cuStreamWaitValue32_ptsz cuStreamWaitValue32_v2 cuStreamWaitValue32_v2_ptsz = (
        stream: *mut c_void, at: u64, value: u32, how: u32
    ) |state| { wait(state, ("cuStreamWaitValue32", stream), at, (value.into(), 4), how) }

    context cuStreamWaitValue64 cuStreamWaitValue64_ptsz cuStreamWaitValue64_v2 cuStreamWaitValue64_v2_ptsz = (
        stream: *mut c_void, at: u64, value: u64, how: u32
    ) |state| { wait(state, ("cuStreamWaitValue64", stream), at, (value, 8), how) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_as_cyclic_numbers_and_by_bits() {
        let small = |has: u32, wanted: u32, how| fits(has.into(), wanted.into(), 32, how);
        assert!(small(5, 5, 0) && small(6, 5, 0) && !small(4, 5, 0) && small(1, u32::MAX, 0));
        assert!(small(5, 5, 1) && !small(6, 5, 1));
        assert!(small(6, 4, 2) && !small(3, 4, 2));
        assert!(small(1, 1, 3) && !small(u32::MAX, 0, 3) && !small(u32::MAX - 1, 1, 3));
        assert!(fits(0, u64::MAX, 64, 0) && !fits(1 << 63, 0, 64, 0) && fits(7, 7, 64, FLUSH | 1));
    }
}
