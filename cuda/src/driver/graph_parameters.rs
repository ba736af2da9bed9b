//! Parameters of nodes of graphs of the driver API.

use crate::driver::graphs::KernelNode2;
use crate::graph::Work;
use crate::graph_memory::{
    AllocateNode, add_allocation, allocation, attribute as of_memory, freed, set_attribute as set_of_memory,
};
use crate::graph_parameters::{
    add_node, attribute, copy_attributes, enable, event, host, is_enabled, kernel, set_attribute, set_event,
    set_node,
};
use crate::graphs::{HostNode, KernelNode, add, find};
use crate::stream_attributes::Value;

driver! {
    ENTRIES []

    context cuGraphKernelNodeGetParams = (node: usize, parameters: *mut KernelNode) |state| {
        out!(parameters, kernel(state, node)?);
        Ok(())
    }

    context cuGraphKernelNodeGetParams_v2 = (node: usize, parameters: *mut KernelNode2) |state| {
        out!(parameters, KernelNode2::of(kernel(state, node)?));
        Ok(())
    }

    driver cuGraphKernelNodeGetAttribute = (node: usize, number: i32, value: *mut Value) |state| {
        out!(value, attribute(state, node, number)?);
        Ok(())
    }

    driver cuGraphKernelNodeSetAttribute = (node: usize, number: i32, value: *const Value) |state| {
        // SAFETY: CUDA's manual asks for the value.
        unsafe { set_attribute(state, "cuGraphKernelNodeSetAttribute", node, number, value) }
    }

    driver cuGraphKernelNodeCopyAttributes = (to: usize, from: usize) |state| { copy_attributes(state, to, from) }

    driver cuGraphHostNodeGetParams = (node: usize, parameters: *mut HostNode) |state| {
        out!(parameters, host(state, node)?);
        Ok(())
    }

    driver cuGraphEventRecordNodeGetEvent = (node: usize, at: *mut usize) |state| {
        out!(at, event(state, node, true)?);
        Ok(())
    }

    driver cuGraphEventWaitNodeGetEvent = (node: usize, at: *mut usize) |state| {
        out!(at, event(state, node, false)?);
        Ok(())
    }

    context cuGraphEventRecordNodeSetEvent = (node: usize, event: usize) |state| {
        set_event(state, None, node, event, true)
    }

    context cuGraphEventWaitNodeSetEvent = (node: usize, event: usize) |state| {
        set_event(state, None, node, event, false)
    }

    context cuGraphExecEventRecordNodeSetEvent = (graph: usize, node: usize, event: usize) |state| {
        set_event(state, Some(graph), node, event, true)
    }

    context cuGraphExecEventWaitNodeSetEvent = (graph: usize, node: usize, event: usize) |state| {
        set_event(state, Some(graph), node, event, false)
    }

    driver cuGraphNodeSetEnabled = (graph: usize, node: usize, enabled: u32) |state| {
        enable(state, graph, node, enabled != 0)
    }

    driver cuGraphNodeGetEnabled = (graph: usize, node: usize, enabled: *mut u32) |state| {
        out!(enabled, is_enabled(state, graph, node)?.into());
        Ok(())
    }

    driver cuGraphExecGetFlags = (graph: usize, flags: *mut u64) |state| {
        out!(flags, find(state, graph)?.flags);
        Ok(())
    }

    context cuGraphAddNode = (at: *mut usize, graph: usize, after: *const usize, count: usize, all: *mut u8) |state| {
        // SAFETY: CUDA's manual asks for the structure and as many handles.
        unsafe { add_node(state, "cuGraphAddNode", at, graph, (after, count), (all, true)) }
    }

    context cuGraphAddNode_v2 = (
        at: *mut usize, graph: usize, after: *const usize, _edges: usize, count: usize, all: *mut u8
    ) |state| {
        // SAFETY: as above.
        unsafe { add_node(state, "cuGraphAddNode", at, graph, (after, count), (all, true)) }
    }

    context cuGraphNodeSetParams = (node: usize, all: *const u8) |state| {
        // SAFETY: as above.
        unsafe { set_node(state, "cuGraphNodeSetParams", (None, node), (all, true)) }
    }

    context cuGraphExecNodeSetParams = (graph: usize, node: usize, all: *const u8) |state| {
        // SAFETY: as above.
        unsafe { set_node(state, "cuGraphExecNodeSetParams", (Some(graph), node), (all, true)) }
    }

    context cuGraphAddMemAllocNode = (
        at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *mut AllocateNode
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure and as many handles.
        unsafe { add_allocation(state, "cuGraphAddMemAllocNode", at, graph, (after, count), parameters) }
    }

    context cuGraphAddMemFreeNode = (at: *mut usize, graph: usize, after: *const usize, count: usize, memory: u64) |state| {
        // SAFETY: CUDA's manual asks for as many handles.
        unsafe { add(state, at, graph, (after, count), Work::Free(memory)) }
    }

    driver cuGraphMemAllocNodeGetParams = (node: usize, parameters: *mut AllocateNode) |state| {
        allocation(state, node, parameters)
    }

    driver cuGraphMemFreeNodeGetParams = (node: usize, at: *mut u64) |state| { freed(state, node, at) }

    driver cuDeviceGetGraphMemAttribute = (device: i32, number: i32, value: *mut u64) |state| {
        out!(value, of_memory(state, device, number)?);
        Ok(())
    }

    driver cuDeviceSetGraphMemAttribute = (device: i32, number: i32, value: *const u64) |state| {
        // SAFETY: CUDA's manual asks for a number.
        unsafe { set_of_memory(state, device, number, value) }
    }

    driver cuDeviceGraphMemTrim = (device: i32) |state| {
        crate::device::known(device)?;
        state.sweep()
    }
}
