//! Graphs of the driver API.

use std::ffi::c_void;

use crate::driver::call::{Need, enter};
use crate::driver::memory::{Boxes, boxes};
use crate::error::INVALID_VALUE;
use crate::graph::{Fill, Graph, Work};
use crate::graphs::{
    HostNode, Instantiation, KernelNode, add, add_kernel, copy_graph, find, forget, instantiate,
    instantiate_with, keep, list,
};
use crate::pointers;

/// CUDA 12's `CUDA_KERNEL_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNode2 {
    first: KernelNode,
    kernel: *const c_void,
    context: usize,
}

impl KernelNode2 {
    /// Parameters of the first version, for the context of the caller.
    pub fn of(first: KernelNode) -> Self {
        Self { first, kernel: first.function, context: 0 }
    }

    /// As the first version has it.
    pub fn first(self) -> KernelNode {
        let mut own = self.first;
        if own.function.is_null() {
            own.function = self.kernel;
        }
        own
    }
}

/// As in CUDA's driver API; functions of the host run without the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(graph: usize, stream: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { crate::graphs::launch(graph, stream, &|body| enter("cuGraphLaunch", Need::Context, body)) }
}

/// As in CUDA's driver API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch_ptsz(graph: usize, stream: *mut c_void) -> i32 {
    // SAFETY: as the call that is forwarded.
    unsafe { cuGraphLaunch(graph, stream) }
}

driver! {
    ENTRIES [cuGraphLaunch cuGraphLaunch_ptsz]

    driver cuGraphCreate = (at: *mut usize, _flags: u32) |state| { keep(state, at, Graph::default()) }

    driver cuGraphClone = (at: *mut usize, graph: usize) |state| { copy_graph(state, at, graph) }

    driver cuGraphDestroy cuGraphExecDestroy = (graph: usize) |state| {
        forget(state, graph)
    }

    context cuGraphInstantiate cuGraphInstantiate_v2 = (
        at: *mut usize, graph: usize, _node: *mut usize, _log: *mut c_void, _size: usize
    ) |state| { instantiate(state, at, graph, 0) }

    context cuGraphInstantiateWithFlags = (at: *mut usize, graph: usize, flags: u64) |state| {
        instantiate(state, at, graph, flags)
    }

    context cuGraphInstantiateWithParams cuGraphInstantiateWithParams_ptsz = (
        at: *mut usize, graph: usize, parameters: *mut Instantiation
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        unsafe { instantiate_with(state, at, graph, parameters) }
    }

    context cuGraphUpload cuGraphUpload_ptsz = (graph: usize, stream: *mut c_void) |state| {
        find(state, graph)?;
        state.runtime()?.streams.find(stream).map(drop)
    }

    driver cuGraphGetNodes = (graph: usize, nodes: *mut usize, count: *mut usize) |state| {
        let graph = find(state, graph)?;
        // SAFETY: CUDA's manual asks for the room of the nodes.
        unsafe { list(&graph, nodes, count) }
    }

    context cuGraphAddKernelNode = (
        at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const KernelNode
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure; the rest as `add`.
        unsafe {
            let own = pointers::get(parameters)?;
            add_kernel(state, "cuGraphAddKernelNode", at, graph, (after, count), own)
        }
    }

    context cuGraphAddKernelNode_v2 = (
        at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const KernelNode2
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure; the rest as `add`.
        unsafe {
            let own = pointers::get(parameters)?.first();
            add_kernel(state, "cuGraphAddKernelNode", at, graph, (after, count), own)
        }
    }

    context cuGraphAddMemcpyNode = (
        at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const Boxes, _context: usize
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure; the rest as `add`.
        unsafe {
            let own = boxes(&pointers::get(parameters)?)?;
            add(state, at, graph, (after, count), Work::Copy3D(own))
        }
    }

    context cuGraphAddMemsetNode = (
        at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const Fill, _context: usize
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure; the rest as `add`.
        unsafe {
            let own = pointers::get(parameters)?;
            add(state, at, graph, (after, count), Work::Fill(own))
        }
    }

    context cuGraphAddHostNode = (
        at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const HostNode
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure; the rest as `add`.
        unsafe {
            let work = pointers::get(parameters)?.work().ok_or(INVALID_VALUE)?;
            add(state, at, graph, (after, count), work)
        }
    }

    context cuGraphAddEmptyNode = (at: *mut usize, graph: usize, after: *const usize, count: usize) |state| {
        // SAFETY: as `add`.
        unsafe { add(state, at, graph, (after, count), Work::Empty) }
    }
}
