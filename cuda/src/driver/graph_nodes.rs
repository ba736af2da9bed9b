//! Nodes of graphs of the driver API after they were made.

use std::ffi::{c_char, c_void};

use crate::driver::graphs::KernelNode2;
use crate::driver::memory::{Boxes, boxes};
use crate::error::{Error, INVALID_VALUE};
use crate::graph::{Fill, Work};
use crate::graph_nodes::{
    Edge, Updated, add_event, add_graph, as_child, depend, destroy, edges, in_clone, kind, neighbours, node,
    print, roots, set, set_kernel, update, updated,
};
use crate::graphs::{HostNode, KernelNode};
use crate::pointers;
use crate::runtime::State;

/// The parameters of a kernel's node as the first version has them.
unsafe fn first(parameters: *const KernelNode2) -> Result<KernelNode, Error> {
    // SAFETY: CUDA's manual asks for the structure.
    Ok(unsafe { pointers::get(parameters) }?.first())
}

fn child(state: &mut State, child: usize) -> Result<Work, Error> {
    let child = as_child(state, child)?;
    Ok(Work::Graph(Box::new(child)))
}

driver! {
    ENTRIES []

    driver cuGraphNodeGetType = (own: usize, at: *mut i32) |state| {
        out!(at, kind(&node(state, own)?.work));
        Ok(())
    }

    context cuGraphKernelNodeSetParams = (node: usize, parameters: *const KernelNode) |state| {
        // SAFETY: CUDA's manual asks for the structure, with a pointer to each argument.
        unsafe { set_kernel(state, "cuGraphKernelNodeSetParams", (None, node), parameters) }
    }

    context cuGraphKernelNodeSetParams_v2 = (node: usize, parameters: *const KernelNode2) |state| {
        // SAFETY: as above.
        unsafe {
            let own = first(parameters)?;
            set_kernel(state, "cuGraphKernelNodeSetParams", (None, node), &raw const own)
        }
    }

    context cuGraphExecKernelNodeSetParams = (graph: usize, node: usize, parameters: *const KernelNode) |state| {
        // SAFETY: as above.
        unsafe { set_kernel(state, "cuGraphExecKernelNodeSetParams", (Some(graph), node), parameters) }
    }

    context cuGraphExecKernelNodeSetParams_v2 = (graph: usize, node: usize, parameters: *const KernelNode2) |state| {
        // SAFETY: as above.
        unsafe {
            let own = first(parameters)?;
            set_kernel(state, "cuGraphExecKernelNodeSetParams", (Some(graph), node), &raw const own)
        }
    }

    context cuGraphMemcpyNodeSetParams = (node: usize, parameters: *const Boxes) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = Work::Copy3D(boxes(&unsafe { pointers::get(parameters) }?)?);
        set(state, None, node, work)
    }

    context cuGraphExecMemcpyNodeSetParams = (graph: usize, node: usize, parameters: *const Boxes) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = Work::Copy3D(boxes(&unsafe { pointers::get(parameters) }?)?);
        set(state, Some(graph), node, work)
    }

    context cuGraphMemsetNodeSetParams = (node: usize, parameters: *const Fill) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = Work::Fill(unsafe { pointers::get(parameters) }?);
        set(state, None, node, work)
    }

    context cuGraphExecMemsetNodeSetParams = (graph: usize, node: usize, parameters: *const Fill) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = Work::Fill(unsafe { pointers::get(parameters) }?);
        set(state, Some(graph), node, work)
    }

    driver cuGraphMemsetNodeGetParams = (own: usize, parameters: *mut Fill) |state| {
        let Work::Fill(fill) = node(state, own)?.work else { return Err(INVALID_VALUE) };
        out!(parameters, fill);
        Ok(())
    }

    context cuGraphHostNodeSetParams = (node: usize, parameters: *const HostNode) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = unsafe { pointers::get(parameters) }?.work().ok_or(INVALID_VALUE)?;
        set(state, None, node, work)
    }

    context cuGraphExecHostNodeSetParams = (graph: usize, node: usize, parameters: *const HostNode) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = unsafe { pointers::get(parameters) }?.work().ok_or(INVALID_VALUE)?;
        set(state, Some(graph), node, work)
    }

    context cuGraphExecChildGraphNodeSetParams = (graph: usize, node: usize, other: usize) |state| {
        let work = child(state, other)?;
        set(state, Some(graph), node, work)
    }

    driver cuGraphAddDependencies = (graph: usize, from: *const usize, to: *const usize, count: usize) |state| {
        depend(state, graph, (from, to), count, true)
    }

    driver cuGraphAddDependencies_v2 = (graph: usize, from: *const usize, to: *const usize, _edges: usize, count: usize) |state| {
        depend(state, graph, (from, to), count, true)
    }

    driver cuGraphRemoveDependencies = (graph: usize, from: *const usize, to: *const usize, count: usize) |state| {
        depend(state, graph, (from, to), count, false)
    }

    driver cuGraphRemoveDependencies_v2 = (graph: usize, from: *const usize, to: *const usize, _edges: usize, count: usize) |state| {
        depend(state, graph, (from, to), count, false)
    }

    driver cuGraphGetEdges = (graph: usize, from: *mut usize, to: *mut usize, count: *mut usize) |state| {
        edges(state, graph, (from, to), std::ptr::null_mut(), count)
    }

    driver cuGraphGetEdges_v2 = (graph: usize, from: *mut usize, to: *mut usize, data: *mut Edge, count: *mut usize) |state| {
        edges(state, graph, (from, to), data, count)
    }

    driver cuGraphNodeGetDependencies = (node: usize, at: *mut usize, count: *mut usize) |state| {
        neighbours(state, node, false, (at, std::ptr::null_mut()), count)
    }

    driver cuGraphNodeGetDependencies_v2 = (node: usize, at: *mut usize, data: *mut Edge, count: *mut usize) |state| {
        neighbours(state, node, false, (at, data), count)
    }

    driver cuGraphNodeGetDependentNodes = (node: usize, at: *mut usize, count: *mut usize) |state| {
        neighbours(state, node, true, (at, std::ptr::null_mut()), count)
    }

    driver cuGraphNodeGetDependentNodes_v2 = (node: usize, at: *mut usize, data: *mut Edge, count: *mut usize) |state| {
        neighbours(state, node, true, (at, data), count)
    }

    driver cuGraphGetRootNodes = (graph: usize, at: *mut usize, count: *mut usize) |state| {
        roots(state, graph, at, count)
    }

    driver cuGraphDestroyNode = (node: usize) |state| { destroy(state, node) }

    driver cuGraphNodeFindInClone = (at: *mut usize, node: usize, clone: usize) |state| {
        in_clone(state, at, node, clone)
    }

    context cuGraphAddChildGraphNode = (at: *mut usize, graph: usize, after: *const usize, count: usize, other: usize) |state| {
        // SAFETY: CUDA's manual asks for as many handles.
        unsafe { add_graph(state, at, graph, (after, count), other) }
    }

    context cuGraphAddEventRecordNode = (at: *mut usize, graph: usize, after: *const usize, count: usize, event: *mut c_void) |state| {
        // SAFETY: as above.
        unsafe { add_event(state, at, graph, (after, count), event, true) }
    }

    context cuGraphAddEventWaitNode = (at: *mut usize, graph: usize, after: *const usize, count: usize, event: *mut c_void) |state| {
        // SAFETY: as above.
        unsafe { add_event(state, at, graph, (after, count), event, false) }
    }

    context cuGraphExecUpdate = (executable: usize, graph: usize, wrong: *mut usize, result: *mut i32) |state| {
        let info = update(state, executable, graph)?;
        if !wrong.is_null() {
            out!(wrong, info.node);
        }
        out!(result, info.result);
        updated(info.result)
    }

    context cuGraphExecUpdate_v2 = (executable: usize, graph: usize, result: *mut Updated) |state| {
        let info = update(state, executable, graph)?;
        out!(result, info);
        updated(info.result)
    }

    driver cuGraphDebugDotPrint = (graph: usize, path: *const c_char, _flags: u32) |state| {
        // SAFETY: CUDA's manual asks for a text.
        unsafe { print(state, graph, path) }
    }
}
