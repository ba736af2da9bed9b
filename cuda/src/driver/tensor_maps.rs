//! Tensor maps.

use std::ffi::c_void;

use sim_core::tensor_map::{ALIGN, AlongW, Atom, BYTES, Im2col, TensorMap};

use crate::error::{Error, INVALID_VALUE, NOT_SUPPORTED};
use crate::pointers::{bytes, bytes_mut, get};
use crate::runtime::State;

/// The compute capability from which on there are tensor maps.
const SINCE: u32 = 90;

/// The one from which on there are maps whose pixels lie along W.
const WIDE_SINCE: u32 = 100;

/// The parameters that both kinds of maps have, after their sizes.
struct Layout {
    interleave: i32,
    swizzle: i32,
    promotion: i32,
    fill: i32,
}

/// The bytes that an enumeration names: 0 for its first value, else `unit` and so on by factors of two.
fn enumerated(value: i32, unit: u32, last: i32) -> Result<u32, Error> {
    match value {
        0 => Ok(0),
        value if (1..=last).contains(&value) => Ok(unit << (value - 1)),
        _ => Err(INVALID_VALUE),
    }
}

/// The numbers of an array.
///
/// # Safety
/// An array that is not null must have `count` numbers.
unsafe fn list<T: Copy>(at: *const T, count: usize) -> Result<Vec<T>, Error> {
    // SAFETY: the caller's promise.
    (0..count).map(|i| unsafe { get(at.wrapping_add(i)) }).collect()
}

/// What both kinds of maps have.
///
/// # Safety
/// Arrays that are not null must have as many numbers as the tensor dimensions.
unsafe fn common(
    (data_type, rank, address): (i32, u32, *mut c_void),
    (sizes, strides, element_strides): (*const u64, *const u64, *const u32),
    layout: &Layout,
) -> Result<TensorMap, Error> {
    if !(1..=5).contains(&rank) {
        return Err(INVALID_VALUE);
    }
    let rank = rank as usize;
    // SAFETY: the caller's promise.
    let (sizes, strides, element_strides) =
        unsafe { (list(sizes, rank)?, list(strides, rank - 1)?, list(element_strides, rank)?) };
    let size = |size: u64| u32::try_from(size).map_err(|_| INVALID_VALUE);
    Ok(TensorMap {
        data_type: u8::try_from(data_type).map_err(|_| INVALID_VALUE)?,
        address: address as u64,
        sizes: sizes.into_iter().map(size).collect::<Result<_, _>>()?,
        strides,
        element_strides,
        interleave: enumerated(layout.interleave, 16, 2)?,
        // From 4 on they are of 128 bytes, in other chunks.
        swizzle: if (4..=6).contains(&layout.swizzle) { 128 } else { enumerated(layout.swizzle, 32, 3)? },
        atom: match layout.swizzle {
            4 => Atom::B32,
            5 => Atom::B32Flip8,
            6 => Atom::B64,
            _ => Atom::B16,
        },
        promotion: enumerated(layout.promotion, 64, 3)?,
        nan: match layout.fill {
            0 => false,
            1 => true,
            _ => return Err(INVALID_VALUE),
        },
        ..TensorMap::default()
    })
}

/// Writes a map, if CUDA allows it.
///
/// # Safety
/// A place that is not null must be valid for writes of a map.
unsafe fn encode(state: &mut State, to: *mut c_void, map: &TensorMap) -> Result<(), Error> {
    if state.runtime()?.device.chip().capability() < SINCE {
        return Err(NOT_SUPPORTED);
    }
    if !map.check().is_empty() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { place(to) }?.copy_from_slice(&map.encode());
    Ok(())
}

/// The bytes of a map of the host.
///
/// # Safety
/// A place that is not null must be valid for a map.
unsafe fn place<'a>(at: *mut c_void) -> Result<&'a mut [u8], Error> {
    if at.is_null() || !(at as u64).is_multiple_of(ALIGN) {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { bytes_mut(at.cast(), BYTES) })
}

driver! {
    ENTRIES []

    driver cuTensorMapEncodeTiled = (
        map: *mut c_void, data_type: i32, rank: u32, address: *mut c_void, sizes: *const u64, strides: *const u64,
        box_sizes: *const u32, element_strides: *const u32, interleave: i32, swizzle: i32, promotion: i32, fill: i32
    ) |state| {
        let layout = Layout { interleave, swizzle, promotion, fill };
        // SAFETY: CUDA's manual asks for arrays of as many numbers as dimensions, and for a place of a map.
        unsafe {
            let common = common((data_type, rank, address), (sizes, strides, element_strides), &layout)?;
            let box_sizes = list(box_sizes, common.sizes.len())?;
            encode(state, map, &TensorMap { box_sizes, ..common })
        }
    }

    driver cuTensorMapEncodeIm2col = (
        map: *mut c_void, data_type: i32, rank: u32, address: *mut c_void, sizes: *const u64, strides: *const u64,
        lower: *const i32, upper: *const i32, channels: u32, pixels: u32, element_strides: *const u32,
        interleave: i32, swizzle: i32, promotion: i32, fill: i32
    ) |state| {
        let layout = Layout { interleave, swizzle, promotion, fill };
        // SAFETY: CUDA's manual asks for arrays of as many numbers as dimensions, two less of corners, and for a place
        // of a map.
        unsafe {
            let common = common((data_type, rank, address), (sizes, strides, element_strides), &layout)?;
            let axes = common.sizes.len().saturating_sub(2);
            // As the other arrays, the offset of the innermost dimension, W, first.
            let (lower, upper) = (list(lower, axes)?, list(upper, axes)?);
            let columns = Im2col { lower, upper, channels, pixels, along_w: None };
            encode(state, map, &TensorMap { im2col: Some(columns), ..common })
        }
    }

    driver cuTensorMapEncodeIm2colWide = (
        map: *mut c_void, data_type: i32, rank: u32, address: *mut c_void, sizes: *const u64, strides: *const u64,
        lower: i32, upper: i32, channels: u32, pixels: u32, element_strides: *const u32,
        interleave: i32, mode: i32, swizzle: i32, promotion: i32, fill: i32
    ) |state| {
        if state.runtime()?.device.chip().capability() < WIDE_SINCE {
            return Err(NOT_SUPPORTED);
        }
        let along_w = match mode {
            0 => AlongW::Column,
            1 => AlongW::By32,
            _ => return Err(INVALID_VALUE),
        };
        let layout = Layout { interleave, swizzle, promotion, fill };
        // SAFETY: CUDA's manual asks for arrays of as many numbers as dimensions, and for a place of a map.
        unsafe {
            let common = common((data_type, rank, address), (sizes, strides, element_strides), &layout)?;
            let (lower, upper) = (vec![lower], vec![upper]);
            let columns = Im2col { lower, upper, channels, pixels, along_w: Some(along_w) };
            encode(state, map, &TensorMap { im2col: Some(columns), ..common })
        }
    }

    driver cuTensorMapReplaceAddress = (map: *mut c_void, address: *mut c_void) |state| {
        // SAFETY: CUDA's manual asks for a map.
        let found = unsafe { bytes(place(map)?.as_ptr(), BYTES) };
        let found = found.try_into().map_err(|_| INVALID_VALUE)?;
        let old = TensorMap::decode(&found).map_err(|_| INVALID_VALUE)?;
        // SAFETY: as above.
        unsafe { encode(state, map, &TensorMap { address: address as u64, ..old }) }
    }
}
