//! Variables of modules, by the addresses of their stand-ins on the host.

use std::ffi::c_void;

use sim_core::answers::Symbol;

use crate::error::{Error, INVALID_SYMBOL, INVALID_VALUE};
use crate::graph::Work;
use crate::graphs::add;
use crate::memory::copy;
use crate::runtime::State;

fn symbol(state: &mut State, stand_in: *const c_void) -> Result<Symbol, Error> {
    let variable = state.registry.variable(stand_in)?.clone();
    let module = state.module(variable.binary)?;
    state.runtime()?.device.symbol(module, &variable.name).ok_or(INVALID_SYMBOL)
}

/// The address of `bytes` bytes in a variable.
fn inside(state: &mut State, stand_in: *const c_void, bytes: usize, offset: usize) -> Result<u64, Error> {
    let symbol = symbol(state, stand_in)?;
    let end = offset.checked_add(bytes).filter(|end| *end as u64 <= symbol.bytes);
    end.map(|_| symbol.address + offset as u64).ok_or(INVALID_VALUE)
}

cuda! {
    fn cudaMemcpyToSymbol cudaMemcpyToSymbol_ptds = (symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: i32) |state| {
        let to = inside(state, symbol, bytes, offset)?;
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to, from as u64, bytes, kind) }
    }

    fn cudaMemcpyToSymbolAsync cudaMemcpyToSymbolAsync_ptsz = (symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: i32, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        let to = inside(state, symbol, bytes, offset)?;
        if state.captured(stream, || Work::Copy(to as usize, from as usize, bytes, kind)) {
            return Ok(());
        }
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to, from as u64, bytes, kind) }
    }

    fn cudaMemcpyFromSymbol cudaMemcpyFromSymbol_ptds = (to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: i32) |state| {
        let from = inside(state, symbol, bytes, offset)?;
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to as u64, from, bytes, kind) }
    }

    fn cudaMemcpyFromSymbolAsync cudaMemcpyFromSymbolAsync_ptsz = (to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: i32, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        let from = inside(state, symbol, bytes, offset)?;
        if state.captured(stream, || Work::Copy(to as usize, from as usize, bytes, kind)) {
            return Ok(());
        }
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to as u64, from, bytes, kind) }
    }

    fn cudaGraphAddMemcpyNodeToSymbol = (
        at: *mut usize, graph: usize, after: *const usize, count: usize,
        symbol: *const c_void, from: usize, bytes: usize, offset: usize, kind: i32
    ) |state| {
        let to = inside(state, symbol, bytes, offset)? as usize;
        // SAFETY: CUDA's manual asks for as many handles as it says.
        unsafe { add(state, at, graph, (after, count), Work::Copy(to, from, bytes, kind)) }
    }

    fn cudaGraphAddMemcpyNodeFromSymbol = (
        at: *mut usize, graph: usize, after: *const usize, count: usize,
        to: usize, symbol: *const c_void, bytes: usize, offset: usize, kind: i32
    ) |state| {
        let from = inside(state, symbol, bytes, offset)? as usize;
        // SAFETY: CUDA's manual asks for as many handles as it says.
        unsafe { add(state, at, graph, (after, count), Work::Copy(to, from, bytes, kind)) }
    }

    fn cudaGetSymbolAddress = (at: *mut *mut c_void, stand_in: *const c_void) |state| {
        out!(at, symbol(state, stand_in)?.address as *mut c_void);
        Ok(())
    }

    fn cudaGetSymbolSize = (bytes: *mut usize, stand_in: *const c_void) |state| {
        out!(bytes, symbol(state, stand_in)?.bytes as usize);
        Ok(())
    }
}
