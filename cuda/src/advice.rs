//! Advice about memory of both sides: it is kept for the pages that it names and told; it changes no result.

use std::ffi::c_void;

use crate::advised::{HOST, NONE, Page, UNKNOWN};
use crate::error::{Error, INVALID_DEVICE, INVALID_VALUE};
use crate::one_device::{Runtime as Loaded, loaded};
use crate::pointers;
use crate::runtime::State;
use crate::shared::PAGE;

/// The pages of `bytes` bytes of memory of both sides.
fn pages(state: &mut State, at: u64, bytes: usize) -> Result<std::ops::Range<u64>, Error> {
    match state.runtime()?.shared.find(at) {
        Some((begin, size, _)) if bytes > 0 && at - begin + bytes as u64 <= size => {
            Ok(at / PAGE..(at + bytes as u64).div_ceil(PAGE))
        }
        _ => Err(INVALID_VALUE),
    }
}

/// The device of CUDA's `cudaMemLocation`, which is passed as its bytes: kind and number.
///
/// # Errors
/// There is no such place.
pub fn place(location: u64) -> Result<i32, Error> {
    match (location as u32, (location >> 32) as i32) {
        (1, 0) => Ok(0),
        (2..=4, _) => Ok(HOST),
        _ => Err(INVALID_DEVICE),
    }
}

/// A device by its number, or the host.
fn device(number: i32) -> Result<i32, Error> {
    if (HOST..=0).contains(&number) { Ok(number) } else { Err(INVALID_DEVICE) }
}

/// Advises.
///
/// # Errors
/// It is no memory of both sides, or there is no such advice.
pub fn advise(state: &mut State, at: u64, bytes: usize, advice: i32, device: i32) -> Result<(), Error> {
    if !(1..=6).contains(&advice) {
        return Err(INVALID_VALUE);
    }
    let pages = pages(state, at, bytes)?;
    let all = &mut state.runtime()?.advice.pages;
    for page in pages {
        let own = all.entry(page).or_insert(UNKNOWN);
        match advice {
            1 | 2 => own.read_mostly = advice == 1,
            3 => own.preferred = device,
            4 => own.preferred = NONE,
            _ if device == HOST => own.accessed_by_host = advice == 5,
            _ => own.accessed_by_device = advice == 5,
        }
    }
    Ok(())
}

/// Notes where memory was prefetched to; the simulated device has it all.
///
/// # Errors
/// It is no memory of both sides, or there is no such stream.
pub fn prefetch(
    state: &mut State,
    at: u64,
    bytes: usize,
    device: i32,
    stream: *mut c_void,
) -> Result<(), Error> {
    state.runtime()?.streams.find(stream)?;
    let pages = pages(state, at, bytes)?;
    let all = &mut state.runtime()?.advice.pages;
    for page in pages {
        all.entry(page).or_insert(UNKNOWN).prefetched = device;
    }
    Ok(())
}

/// Tells an attribute of a range; where pages differ, it is that of none.
///
/// # Errors
/// It is no memory of both sides, there is no such attribute, or the result has another size.
pub fn attribute(
    state: &mut State,
    (data, size): (*mut c_void, usize),
    number: i32,
    (at, bytes): (u64, usize),
) -> Result<(), Error> {
    let pages = pages(state, at, bytes)?;
    let all = &state.runtime()?.advice.pages;
    let own: Vec<Page> = pages.map(|page| all.get(&page).copied().unwrap_or(UNKNOWN)).collect();
    let same = |of: &dyn Fn(&Page) -> i32, other: i32| {
        let first = own.first().map_or(other, of);
        if own.iter().all(|page| of(page) == first) { first } else { other }
    };
    let at = data.cast::<i32>();
    if number == 3 {
        let mut list = Vec::new();
        list.extend(own.iter().all(|page| page.accessed_by_device).then_some(0));
        list.extend(own.iter().all(|page| page.accessed_by_host).then_some(HOST));
        if size == 0 || !size.is_multiple_of(4) {
            return Err(INVALID_VALUE);
        }
        for i in 0..size / 4 {
            out!(at.wrapping_add(i), list.get(i).copied().unwrap_or(NONE));
        }
        return Ok(());
    }
    // Kinds of places: none, device, host.
    let kind = |number: i32| match number {
        NONE => 0,
        HOST => 2,
        _ => 1,
    };
    let (preferred, prefetched) = (same(&|page| page.preferred, NONE), same(&|page| page.prefetched, NONE));
    let value = match number {
        1 => same(&|page| page.read_mostly.into(), 0),
        2 => preferred,
        4 => prefetched,
        5 => kind(preferred),
        6 => preferred.max(0),
        7 => kind(prefetched),
        8 => prefetched.max(0),
        _ => return Err(INVALID_VALUE),
    };
    if size != 4 {
        return Err(INVALID_VALUE);
    }
    out!(at, value);
    Ok(())
}

/// Tells several attributes.
///
/// # Errors
/// As [`attribute`].
///
/// # Safety
/// Each list must have `count` entries.
pub unsafe fn attributes(
    state: &mut State,
    (data, sizes): (*const *mut c_void, *const usize),
    numbers: *const i32,
    count: usize,
    range: (u64, usize),
) -> Result<(), Error> {
    for i in 0..count {
        // SAFETY: the caller's promise.
        let (place, number) = unsafe {
            let size = pointers::get(sizes.wrapping_add(i))?;
            ((pointers::get(data.wrapping_add(i))?, size), pointers::get(numbers.wrapping_add(i))?)
        };
        attribute(state, place, number, range)?;
    }
    Ok(())
}

/// The number of a device in the first version of a call, a place in the second one, which CUDA 13 gave its name.
fn either(argument: u64) -> Result<i32, Error> {
    if loaded(Loaded::Thirteen) { place(argument) } else { device(argument as i32) }
}

cuda! {
    fn cudaMemAdvise = (at: u64, bytes: usize, advice: i32, to: u64) |state| {
        advise(state, at, bytes, advice, either(to)?)
    }

    fn cudaMemAdvise_v2 = (at: u64, bytes: usize, advice: i32, to: u64) |state| {
        advise(state, at, bytes, advice, place(to)?)
    }

    fn cudaMemPrefetchAsync cudaMemPrefetchAsync_ptsz = (
        at: u64, bytes: usize, to: u64, fourth: usize, fifth: *mut c_void
    ) |state| {
        let stream = if loaded(Loaded::Thirteen) { fifth } else { fourth as *mut c_void };
        prefetch(state, at, bytes, either(to)?, stream)
    }

    fn cudaMemPrefetchAsync_v2 cudaMemPrefetchAsync_v2_ptsz = (
        at: u64, bytes: usize, to: u64, _flags: u32, stream: *mut c_void
    ) |state| { prefetch(state, at, bytes, place(to)?, stream) }

    fn cudaMemRangeGetAttribute = (data: *mut c_void, size: usize, number: i32, at: u64, bytes: usize) |state| {
        attribute(state, (data, size), number, (at, bytes))
    }

    fn cudaMemRangeGetAttributes = (
        data: *const *mut c_void, sizes: *const usize, numbers: *const i32, count: usize, at: u64, bytes: usize
    ) |state| {
        // SAFETY: CUDA's manual asks for as many of each.
        unsafe { attributes(state, (data, sizes), numbers, count, (at, bytes)) }
    }
}

/// The same of the driver API.
pub mod driver {
    use super::*;

    driver! {
        ENTRIES []

        context cuMemAdvise = (at: u64, bytes: usize, advice: i32, to: i32) |state| {
            advise(state, at, bytes, advice, device(to)?)
        }

        context cuMemAdvise_v2 = (at: u64, bytes: usize, advice: i32, to: u64) |state| {
            advise(state, at, bytes, advice, place(to)?)
        }

        context cuMemPrefetchAsync cuMemPrefetchAsync_ptsz = (at: u64, bytes: usize, to: i32, stream: *mut c_void) |state| {
            prefetch(state, at, bytes, device(to)?, stream)
        }

        context cuMemPrefetchAsync_v2 cuMemPrefetchAsync_v2_ptsz = (
            at: u64, bytes: usize, to: u64, _flags: u32, stream: *mut c_void
        ) |state| { prefetch(state, at, bytes, place(to)?, stream) }

        context cuMemRangeGetAttribute = (data: *mut c_void, size: usize, number: i32, at: u64, bytes: usize) |state| {
            attribute(state, (data, size), number, (at, bytes))
        }

        context cuMemRangeGetAttributes = (
            data: *const *mut c_void, sizes: *const usize, numbers: *const i32, count: usize, at: u64, bytes: usize
        ) |state| {
            // SAFETY: CUDA's manual asks for as many of each.
            unsafe { attributes(state, (data, sizes), numbers, count, (at, bytes)) }
        }
    }
}
