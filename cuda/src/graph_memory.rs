//! Memory of graphs: nodes that allocate and free. An address is the node's own from its making on, and lies in device
//! memory as long as a graph has the node or the memory is in use.

use crate::error::{Error, INVALID_VALUE, NOT_SUPPORTED};
use crate::graph::Work;
use crate::graph_nodes::node;
use crate::graph_use::allocate;
use crate::graphs::add;
use crate::one_device::known;
use crate::pointers;
use crate::pools::Properties;
use crate::runtime::State;

/// CUDA's `cudaMemAllocNodeParams`, and `CUDA_MEM_ALLOC_NODE_PARAMS` of the driver API.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AllocateNode {
    pool: Properties,
    rest: [u64; 9],
    access: usize,
    count: usize,
    /// Bytes that are wanted.
    pub bytes: usize,
    /// Where they are.
    pub at: u64,
}

impl AllocateNode {
    /// What the node does.
    ///
    /// # Errors
    /// Its memory is not that of the device, or there is too little.
    pub fn work(&self, state: &mut State, call: &str) -> Result<Work, Error> {
        if !self.pool.is_of_device() {
            eprintln!("warpsim: {call}: memory of a graph is pinned memory of device 0, and not shared");
            return Err(NOT_SUPPORTED);
        }
        allocate(state, self.bytes as u64)
    }
}

/// Adds a node that allocates, and says where.
///
/// # Errors
/// As [`AllocateNode::work`], or as [`add`].
///
/// # Safety
/// As `add`; `parameters` must lead to the structure.
pub unsafe fn add_allocation(
    state: &mut State,
    call: &str,
    at: *mut usize,
    graph: usize,
    after: (*const usize, usize),
    parameters: *mut AllocateNode,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let own = unsafe { pointers::get(parameters) }?;
    let work = own.work(state, call)?;
    let Work::Allocate(address, _) = work else { return Err(INVALID_VALUE) };
    // SAFETY: the caller's promise.
    if let Err(error) = unsafe { add(state, at, graph, after, work) } {
        state.sweep()?;
        return Err(error);
    }
    out!(parameters, AllocateNode { at: address, ..own });
    Ok(())
}

/// What a node allocates.
///
/// # Errors
/// It is no such node.
pub fn allocation(state: &mut State, own: usize, parameters: *mut AllocateNode) -> Result<(), Error> {
    let Work::Allocate(at, bytes) = node(state, own)?.work else { return Err(INVALID_VALUE) };
    let pool = Properties::OF_DEVICE;
    out!(parameters, AllocateNode { pool, rest: [0; 9], access: 0, count: 0, bytes: bytes as usize, at });
    Ok(())
}

/// What a node frees.
///
/// # Errors
/// It is no such node.
pub fn freed(state: &mut State, own: usize, at: *mut u64) -> Result<(), Error> {
    let Work::Free(address) = node(state, own)?.work else { return Err(INVALID_VALUE) };
    out!(at, address);
    Ok(())
}

/// An attribute of the memory of graphs of a device.
///
/// # Errors
/// There is none such.
pub fn attribute(state: &mut State, device: i32, number: i32) -> Result<u64, Error> {
    known(device)?;
    let memory = &state.runtime()?.graph_memory;
    Ok(match number {
        0 => memory.used(),
        1 => memory.most_used,
        2 => memory.reserved(),
        3 => memory.most_reserved,
        _ => return Err(INVALID_VALUE),
    })
}

/// Sets a high-water mark back.
///
/// # Errors
/// It is none, or the value is not 0.
///
/// # Safety
/// `value` must lead to a number.
pub unsafe fn set_attribute(
    state: &mut State,
    device: i32,
    number: i32,
    value: *const u64,
) -> Result<(), Error> {
    known(device)?;
    // SAFETY: the caller's promise.
    let value = unsafe { pointers::get(value) }?;
    let memory = &mut state.runtime()?.graph_memory;
    match number {
        1 if value == 0 => memory.most_used = memory.used(),
        3 if value == 0 => memory.most_reserved = memory.reserved(),
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

cuda! {
    fn cudaGraphAddMemAllocNode = (
        at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *mut AllocateNode
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure and as many handles.
        unsafe { add_allocation(state, "cudaGraphAddMemAllocNode", at, graph, (after, count), parameters) }
    }

    fn cudaGraphAddMemFreeNode = (at: *mut usize, graph: usize, after: *const usize, count: usize, memory: u64) |state| {
        // SAFETY: CUDA's manual asks for as many handles.
        unsafe { add(state, at, graph, (after, count), Work::Free(memory)) }
    }

    fn cudaGraphMemAllocNodeGetParams = (node: usize, parameters: *mut AllocateNode) |state| {
        allocation(state, node, parameters)
    }

    fn cudaGraphMemFreeNodeGetParams = (node: usize, at: *mut u64) |state| { freed(state, node, at) }

    fn cudaDeviceGetGraphMemAttribute = (device: i32, number: i32, value: *mut u64) |state| {
        out!(value, attribute(state, device, number)?);
        Ok(())
    }

    fn cudaDeviceSetGraphMemAttribute = (device: i32, number: i32, value: *const u64) |state| {
        // SAFETY: CUDA's manual asks for a number.
        unsafe { set_attribute(state, device, number, value) }
    }

    fn cudaDeviceGraphMemTrim = (device: i32) |state| {
        known(device)?;
        state.sweep()
    }
}
