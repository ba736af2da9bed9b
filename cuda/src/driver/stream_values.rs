//! Values in memory that a stream writes and waits for. Work of streams runs in the order in which it was given: a value
//! that is waited for must have been written before.

use std::ffi::c_void;

use crate::driver::streams::find;
use crate::error::{Error, INVALID_VALUE, NOT_SUPPORTED};
use crate::graph::Work;
use crate::memory::{ANY, copy};
use crate::pointers;
use crate::runtime::State;

/// Bits of how a value is waited for, besides the flush of remote writes, of which there are none.
const COMPARISON: u32 = 3;
const FLUSH: u32 = 1 << 30;

/// CUDA's `CUstreamBatchMemOpParams`: the kind in the first four bytes, the rest by the kind.
pub type Operation = [u64; 6];

/// Kinds as CUDA numbers them.
const WAIT_32: u32 = 1;
const WRITE_32: u32 = 2;
const FLUSH_WRITES: u32 = 3;
const WAIT_64: u32 = 4;
const WRITE_64: u32 = 5;
const BARRIER: u32 = 6;
const REDUCE: u32 = 8;

/// CUDA's `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Batch {
    context: usize,
    count: u32,
    all: *const Operation,
    flags: u32,
}

impl Batch {
    /// Operations as a structure that leads to them.
    pub fn of(all: &[Operation]) -> Self {
        Self { context: 0, count: all.len() as u32, all: all.as_ptr(), flags: 0 }
    }

    /// What a node does that has them.
    ///
    /// # Errors
    /// One of them is none.
    ///
    /// # Safety
    /// There must be as many as the structure says.
    pub unsafe fn work(&self) -> Result<Work, Error> {
        // SAFETY: the caller's promise.
        let all = (0..self.count as usize).map(|i| unsafe { pointers::get(self.all.wrapping_add(i)) });
        let all = all.collect::<Result<Vec<_>, _>>()?;
        check(&all)?;
        Ok(Work::Values(all))
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// Writes a value.
    Write,
    /// Waits for a value.
    Wait { how: u32 },
    /// Changes a value by an operator, as CUDA numbers it.
    Reduce { operator: u32 },
    /// Orders accesses, which are in order.
    Nothing,
}

/// An operation: what it does, with which value of how many bytes, where.
struct Meant {
    does: Does,
    at: u64,
    value: u64,
    bytes: usize,
}

/// Operators of reductions as CUDA numbers them.
const ADD: u32 = 0;
const AND: u32 = 5;
const OR: u32 = 6;
/// Types of reductions: unsigned numbers of 32 and of 64 bits.
const UNSIGNED_32: u32 = 14;
const UNSIGNED_64: u32 = 22;

fn meant(own: &Operation) -> Result<Meant, Error> {
    let word = |i: usize| (own[i / 2] >> (32 * (i % 2))) as u32;
    let bytes = if matches!(word(0), WAIT_32 | WRITE_32) { 4 } else { 8 };
    let value = if bytes == 4 { own[2] & u64::from(u32::MAX) } else { own[2] };
    let how = word(6);
    let found = match word(0) {
        WAIT_32 | WAIT_64 if how & !(COMPARISON | FLUSH) == 0 => {
            Meant { does: Does::Wait { how }, at: own[1], value, bytes }
        }
        WRITE_32 | WRITE_64 => Meant { does: Does::Write, at: own[1], value, bytes },
        FLUSH_WRITES | BARRIER => return Ok(Meant { does: Does::Nothing, at: 0, value: 0, bytes: 1 }),
        REDUCE if matches!(word(2), ADD | AND | OR) => {
            let bytes = match word(3) {
                UNSIGNED_32 => 4,
                UNSIGNED_64 => 8,
                _ => return Err(INVALID_VALUE),
            };
            Meant { does: Does::Reduce { operator: word(2) }, at: own[2], value: own[3], bytes }
        }
        _ => return Err(INVALID_VALUE),
    };
    if found.at == 0 || !found.at.is_multiple_of(found.bytes as u64) {
        return Err(INVALID_VALUE);
    }
    Ok(found)
}

/// Operations are such as there are.
///
/// # Errors
/// One is not.
pub fn check(all: &[Operation]) -> Result<(), Error> {
    all.iter().try_for_each(|own| meant(own).map(drop))
}

/// Performs operations.
///
/// # Errors
/// There is no such memory, or nothing has written what is waited for.
pub fn perform(state: &mut State, call: &str, all: &[Operation]) -> Result<(), Error> {
    for own in all {
        let Meant { does, at, value, bytes } = meant(own)?;
        let mut before = [0u8; 8];
        if !matches!(does, Does::Nothing | Does::Write) {
            // SAFETY: the destination is the variable above; CUDA's manual asks for a valid source.
            unsafe { copy(state, before.as_mut_ptr() as u64, at, bytes, ANY) }?;
        }
        let has = u64::from_le_bytes(before);
        let new = match does {
            Does::Nothing => continue,
            Does::Wait { how } if fits(has, value, 8 * bytes as u32, how) => continue,
            Does::Wait { .. } => {
                eprintln!(
                    "warpsim: {call}: the value at {at:#x} is {has:#x}, and nothing that was given to the device before \
                     makes it what is waited for ({value:#x}): work runs in the order in which it is given; write the value \
                     before the call"
                );
                return Err(NOT_SUPPORTED);
            }
            Does::Write => value,
            Does::Reduce { operator: AND } => has & value,
            Does::Reduce { operator: OR } => has | value,
            Does::Reduce { .. } => has.wrapping_add(value),
        };
        let new = new.to_le_bytes();
        // SAFETY: the source is the variable above; CUDA's manual asks for a valid destination.
        unsafe { copy(state, at, new.as_ptr() as u64, bytes, ANY) }?;
    }
    Ok(())
}

/// Gives operations to a stream; where that is captured, they become a node.
///
/// # Errors
/// As [`perform`], or there is no such stream.
pub fn give(state: &mut State, call: &str, stream: *mut c_void, all: Vec<Operation>) -> Result<(), Error> {
    find(state, stream)?;
    if state.is_captured(stream) {
        state.captured(stream, || Work::Values(all));
        return Ok(());
    }
    perform(state, call, &all)
}

/// One operation of a kind, on a value.
fn one(
    state: &mut State,
    (call, stream): (&str, *mut c_void),
    kind: u32,
    (at, value, how): (u64, u64, u32),
) -> Result<(), Error> {
    let own = [kind.into(), at, value, how.into(), 0, 0];
    check(&[own])?;
    give(state, call, stream, vec![own])
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

driver! {
    ENTRIES []

    context cuStreamWriteValue32 cuStreamWriteValue32_ptsz cuStreamWriteValue32_v2 cuStreamWriteValue32_v2_ptsz = (
        stream: *mut c_void, at: u64, value: u32, flags: u32
    ) |state| { one(state, ("cuStreamWriteValue32", stream), WRITE_32, (at, value.into(), flags)) }

    context cuStreamWriteValue64 cuStreamWriteValue64_ptsz cuStreamWriteValue64_v2 cuStreamWriteValue64_v2_ptsz = (
        stream: *mut c_void, at: u64, value: u64, flags: u32
    ) |state| { one(state, ("cuStreamWriteValue64", stream), WRITE_64, (at, value, flags)) }

    context cuStreamWaitValue32 cuStreamWaitValue32_ptsz cuStreamWaitValue32_v2 cuStreamWaitValue32_v2_ptsz = (
        stream: *mut c_void, at: u64, value: u32, how: u32
    ) |state| { one(state, ("cuStreamWaitValue32", stream), WAIT_32, (at, value.into(), how)) }

    context cuStreamWaitValue64 cuStreamWaitValue64_ptsz cuStreamWaitValue64_v2 cuStreamWaitValue64_v2_ptsz = (
        stream: *mut c_void, at: u64, value: u64, how: u32
    ) |state| { one(state, ("cuStreamWaitValue64", stream), WAIT_64, (at, value, how)) }
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
