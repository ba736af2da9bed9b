//! Parameters of nodes of graphs: what they are asked for, and nodes that are made of a structure of every type.

use std::ffi::c_void;

use crate::conditions::{self, ConditionalNode};
use crate::driver::graphs::KernelNode2;
use crate::driver::memory::{Boxes, boxes};
use crate::driver::stream_values::Batch;
use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED};
use crate::graph::{Copy3D, Extent, Fill, Launched, Pitched, Work};
use crate::graph_memory::{AllocateNode, add_allocation};
use crate::graph_nodes::{add_event, add_graph, as_child, node, node_of, set};
use crate::graphs::{HostNode, KernelNode, add, add_kernel, find, kernel_work};
use crate::launch::{CLUSTER, COOPERATIVE, Dim3};
use crate::pointers;
use crate::runtime::State;
use crate::stream_attributes::Value;

/// What a node launches.
fn launched(state: &mut State, own: usize) -> Result<&mut Launched, Error> {
    match &mut node(state, own)?.work {
        Work::Kernel(own) => Ok(own),
        _ => Err(INVALID_VALUE),
    }
}

/// Parameters of a kernel's node. The pointers to the arguments lead into the node: they are valid until the node is
/// changed or destroyed.
///
/// # Errors
/// It is no such node.
pub fn kernel(state: &mut State, own: usize) -> Result<KernelNode, Error> {
    let (module, entry) = {
        let kernel = &launched(state, own)?.kernel;
        (kernel.module, kernel.entry.clone())
    };
    let entry = state.runtime()?.device.entry(module, &entry).ok_or(INVALID_HANDLE)?;
    let offsets: Vec<usize> = entry.params.iter().map(|parameter| parameter.offset as usize).collect();
    let own = launched(state, own)?;
    let begin = own.kernel.params.as_ptr() as usize;
    own.arguments.clear();
    own.arguments.extend(offsets.iter().map(|offset| begin + offset));
    let three = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
    Ok(KernelNode {
        function: own.function as *const c_void,
        grid: three(own.kernel.grid),
        block: three(own.kernel.block),
        shared: own.kernel.dynamic_shared,
        arguments: own.arguments.as_ptr().cast(),
        extra: std::ptr::null(),
    })
}

/// Attributes of nodes of kernels that say nothing about results: access policy, scheduling of clusters, priority, memory
/// domains, preferred size of clusters, carveout.
const HINTS: [i32; 7] = [1, 5, 8, 9, 10, 11, 14];

/// An attribute of a kernel's node.
///
/// # Errors
/// There is no such node or attribute.
pub fn attribute(state: &mut State, node: usize, number: i32) -> Result<Value, Error> {
    let own = launched(state, node)?;
    let mut value = [0; 16];
    match number {
        COOPERATIVE => value[0] = own.kernel.cooperative.into(),
        CLUSTER => value[..3].copy_from_slice(&own.kernel.cluster.unwrap_or_default()),
        id if HINTS.contains(&id) => return Ok(own.attributes.get(&id).copied().unwrap_or(value)),
        _ => return Err(INVALID_VALUE),
    }
    Ok(value)
}

/// Sets an attribute of a kernel's node.
///
/// # Errors
/// There is no such node, or the attribute is not supported.
///
/// # Safety
/// `value` must lead to the value.
pub unsafe fn set_attribute(
    state: &mut State,
    call: &str,
    node: usize,
    number: i32,
    value: *const Value,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let value = unsafe { pointers::get(value) }?;
    let own = launched(state, node)?;
    match number {
        COOPERATIVE => own.kernel.cooperative = value[0] != 0,
        CLUSTER => own.kernel.cluster = value.first_chunk().copied().filter(|sizes| *sizes != [0; 3]),
        id if HINTS.contains(&id) => drop(own.attributes.insert(id, value)),
        id => {
            eprintln!("warpsim: {call}: attribute {id} is not supported");
            return Err(NOT_SUPPORTED);
        }
    }
    Ok(())
}

/// Gives a kernel's node the attributes of another.
///
/// # Errors
/// One is no such node.
pub fn copy_attributes(state: &mut State, to: usize, from: usize) -> Result<(), Error> {
    let from = launched(state, from)?.clone();
    let to = launched(state, to)?;
    to.attributes = from.attributes;
    (to.kernel.cooperative, to.kernel.cluster) = (from.kernel.cooperative, from.kernel.cluster);
    Ok(())
}

/// What a host's node calls.
///
/// # Errors
/// It is no such node.
pub fn host(state: &mut State, own: usize) -> Result<HostNode, Error> {
    match node(state, own)?.work {
        Work::Host(function, data) => Ok(HostNode { function: Some(function), data: data as *mut c_void }),
        _ => Err(INVALID_VALUE),
    }
}

/// What a node copies, as a box.
///
/// # Errors
/// It is no such node.
pub fn copy(state: &mut State, own: usize) -> Result<Copy3D, Error> {
    match node(state, own)?.work {
        Work::Copy3D(all) => Ok(all),
        Work::Copy(to, from, bytes, kind) => {
            let none = Extent { width: 0, height: 0, depth: 0 };
            let side = |at| Pitched { at, pitch: bytes, width: bytes, height: 1 };
            Ok(Copy3D {
                from_array: 0,
                from_position: none,
                from: side(from),
                to_array: 0,
                to_position: none,
                to: side(to),
                extent: Extent { width: bytes, height: 1, depth: 1 },
                kind,
            })
        }
        _ => Err(INVALID_VALUE),
    }
}

/// The event that a node records or waits for.
///
/// # Errors
/// It does neither.
pub fn event(state: &mut State, own: usize, records: bool) -> Result<usize, Error> {
    match node(state, own)?.work {
        Work::Record(event) if records => Ok(event),
        Work::Wait(event) if !records => Ok(event),
        _ => Err(INVALID_VALUE),
    }
}

/// Changes the event that a node records or waits for.
///
/// # Errors
/// As [`set`], or there is no such event.
pub fn set_event(
    state: &mut State,
    graph: Option<usize>,
    node: usize,
    event: usize,
    records: bool,
) -> Result<(), Error> {
    crate::events::find(state, event as *mut c_void)?;
    set(state, graph, node, if records { Work::Record(event) } else { Work::Wait(event) })
}

/// Whether a node of an executable graph does what it does.
///
/// # Errors
/// There is no such graph or node.
pub fn is_enabled(state: &mut State, graph: usize, node: usize) -> Result<bool, Error> {
    let graph = state.runtime()?.graphs.get_mut(&graph).filter(|own| own.executable).ok_or(INVALID_HANDLE)?;
    Ok(!node_of(graph, node)?.disabled)
}

/// Lets a kernel, copy or fill of an executable graph do nothing, or again what it does.
///
/// # Errors
/// There is no such graph or node, or it is another one.
pub fn enable(state: &mut State, graph: usize, node: usize, enabled: bool) -> Result<(), Error> {
    let graph = state.runtime()?.graphs.get_mut(&graph).filter(|own| own.executable).ok_or(INVALID_HANDLE)?;
    let own = node_of(graph, node)?;
    if !matches!(own.work, Work::Kernel(_) | Work::Copy(..) | Work::Copy3D(_) | Work::Fill(_)) {
        return Err(INVALID_VALUE);
    }
    own.disabled = !enabled;
    Ok(())
}

/// Where the parameters of a type begin in CUDA's `cudaGraphNodeParams`, behind the type.
const PARAMETERS: usize = 16;
/// Where the box of a copy begins in its parameters, behind flags and context.
const BOX: usize = 16;

/// The type of a structure, and its parameters.
fn of_type<T: Copy>(all: *const u8) -> Result<T, Error> {
    if all.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: CUDA's manual asks for the structure, whose type the caller has read.
    unsafe { pointers::get(all.wrapping_add(PARAMETERS).cast()) }
}

fn type_of(all: *const u8) -> Result<i32, Error> {
    // SAFETY: CUDA's manual asks for the structure.
    unsafe { pointers::get(all.cast()) }
}

/// The launch of a kernel's node; the driver API may name the kernel behind the rest.
fn kernel_of(all: *const u8, of_driver: bool) -> Result<KernelNode, Error> {
    if of_driver { Ok(of_type::<KernelNode2>(all)?.first()) } else { of_type(all) }
}

fn no_such(call: &str, kind: i32) -> Error {
    let what = match kind {
        8 | 9 => "external semaphores are not supported",
        13 => "parameters of conditional nodes cannot be changed, as CUDA's manual says: their bodies can",
        _ => return INVALID_VALUE,
    };
    eprintln!("warpsim: {call}: {what}");
    NOT_SUPPORTED
}

fn box_of(all: *const u8, of_driver: bool) -> Result<Copy3D, Error> {
    // SAFETY: as `of_type`.
    unsafe {
        let at = all.wrapping_add(PARAMETERS + BOX);
        if of_driver {
            boxes(&pointers::get(at.cast::<Boxes>())?)
        } else {
            pointers::get(at.cast::<Copy3D>())
        }
    }
}

/// Adds a node that runs one of several graphs, and says which they are.
unsafe fn add_conditional(
    state: &mut State,
    call: &str,
    at: *mut usize,
    graph: usize,
    after: (*const usize, usize),
    parameters: *mut ConditionalNode,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let own = unsafe { pointers::get(parameters) }?;
    find(state, graph)?;
    let work = conditions::work(state, call, &own)?;
    let Work::Conditional(made) = &work else { return Err(INVALID_VALUE) };
    out!(parameters, own.with(&made.bodies));
    // SAFETY: the caller's promise.
    unsafe { add(state, at, graph, after, work) }
}

/// Adds a node of a type that its parameters name.
///
/// # Errors
/// As the calls of each type.
///
/// # Safety
/// `all` must lead to CUDA's `cudaGraphNodeParams`, or `CUgraphNodeParams`; the rest as [`add`].
pub unsafe fn add_node(
    state: &mut State,
    call: &str,
    at: *mut usize,
    graph: usize,
    after: (*const usize, usize),
    (all, of_driver): (*mut u8, bool),
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe {
        match type_of(all)? {
            0 => add_kernel(state, call, at, graph, after, kernel_of(all, of_driver)?),
            1 => add(state, at, graph, after, Work::Copy3D(box_of(all, of_driver)?)),
            2 => add(state, at, graph, after, Work::Fill(of_type(all)?)),
            3 => {
                let work = of_type::<HostNode>(all)?.work().ok_or(INVALID_VALUE)?;
                add(state, at, graph, after, work)
            }
            4 => add_graph(state, at, graph, after, of_type(all)?),
            5 => add(state, at, graph, after, Work::Empty),
            kind @ (6 | 7) => {
                add_event(state, at, graph, after, of_type::<usize>(all)? as *mut c_void, kind == 7)
            }
            10 => {
                let own = all.wrapping_add(PARAMETERS).cast::<AllocateNode>();
                add_allocation(state, call, at, graph, after, own)
            }
            11 => add(state, at, graph, after, Work::Free(of_type(all)?)),
            12 => add(state, at, graph, after, of_type::<Batch>(all)?.work()?),
            13 => add_conditional(state, call, at, graph, after, all.wrapping_add(PARAMETERS).cast()),
            kind => Err(no_such(call, kind)),
        }
    }
}

/// Gives a node, or in an executable graph what was made of it, other parameters.
///
/// # Errors
/// As [`set`], or its type has no parameters that can be changed.
///
/// # Safety
/// As [`add_node`].
pub unsafe fn set_node(
    state: &mut State,
    call: &str,
    (graph, node): (Option<usize>, usize),
    (all, of_driver): (*const u8, bool),
) -> Result<(), Error> {
    let work = match type_of(all)? {
        // SAFETY: the caller's promise.
        0 => unsafe { kernel_work(state, call, kernel_of(all, of_driver)?) }?,
        1 => Work::Copy3D(box_of(all, of_driver)?),
        2 => Work::Fill(of_type::<Fill>(all)?),
        3 => of_type::<HostNode>(all)?.work().ok_or(INVALID_VALUE)?,
        4 => {
            let child = as_child(state, of_type(all)?)?;
            Work::Graph(Box::new(child))
        }
        // SAFETY: the caller's promise.
        12 => unsafe { of_type::<Batch>(all)?.work() }?,
        kind @ (6 | 7) => return set_event(state, graph, node, of_type(all)?, kind == 7),
        kind => return Err(no_such(call, kind)),
    };
    set(state, graph, node, work)
}

cuda! {
    fn cudaGraphKernelNodeGetParams = (node: usize, parameters: *mut KernelNode) |state| {
        out!(parameters, kernel(state, node)?);
        Ok(())
    }

    fn cudaGraphKernelNodeGetAttribute = (node: usize, number: i32, value: *mut Value) |state| {
        out!(value, attribute(state, node, number)?);
        Ok(())
    }

    fn cudaGraphKernelNodeSetAttribute = (node: usize, number: i32, value: *const Value) |state| {
        // SAFETY: CUDA's manual asks for the value.
        unsafe { set_attribute(state, "cudaGraphKernelNodeSetAttribute", node, number, value) }
    }

    fn cudaGraphKernelNodeCopyAttributes = (first: usize, second: usize) |state| {
        // CUDA's headers name the source first until CUDA 12, the destination from 13 on.
        let (to, from) = if crate::one_device::loaded(crate::one_device::Runtime::Thirteen) { (first, second) } else { (second, first) };
        copy_attributes(state, to, from)
    }

    fn cudaGraphHostNodeGetParams = (node: usize, parameters: *mut HostNode) |state| {
        out!(parameters, host(state, node)?);
        Ok(())
    }

    fn cudaGraphMemcpyNodeGetParams = (node: usize, parameters: *mut Copy3D) |state| {
        out!(parameters, copy(state, node)?);
        Ok(())
    }

    fn cudaGraphEventRecordNodeGetEvent = (node: usize, at: *mut usize) |state| {
        out!(at, event(state, node, true)?);
        Ok(())
    }

    fn cudaGraphEventWaitNodeGetEvent = (node: usize, at: *mut usize) |state| {
        out!(at, event(state, node, false)?);
        Ok(())
    }

    fn cudaGraphEventRecordNodeSetEvent = (node: usize, event: usize) |state| {
        set_event(state, None, node, event, true)
    }

    fn cudaGraphEventWaitNodeSetEvent = (node: usize, event: usize) |state| {
        set_event(state, None, node, event, false)
    }

    fn cudaGraphExecEventRecordNodeSetEvent = (graph: usize, node: usize, event: usize) |state| {
        set_event(state, Some(graph), node, event, true)
    }

    fn cudaGraphExecEventWaitNodeSetEvent = (graph: usize, node: usize, event: usize) |state| {
        set_event(state, Some(graph), node, event, false)
    }

    fn cudaGraphNodeSetEnabled = (graph: usize, node: usize, enabled: u32) |state| {
        enable(state, graph, node, enabled != 0)
    }

    fn cudaGraphNodeGetEnabled = (graph: usize, node: usize, enabled: *mut u32) |state| {
        out!(enabled, is_enabled(state, graph, node)?.into());
        Ok(())
    }

    fn cudaGraphExecGetFlags = (graph: usize, flags: *mut u64) |state| {
        out!(flags, find(state, graph)?.flags);
        Ok(())
    }

    fn cudaGraphAddNode = (
        at: *mut usize, graph: usize, after: *const usize, fourth: usize, fifth: usize, sixth: *mut u8
    ) |state| {
        // CUDA 13 gave the name the parameters of the second version, with the data of edges.
        let thirteen = crate::one_device::loaded(crate::one_device::Runtime::Thirteen);
        let (count, all) = if thirteen { (fifth, sixth) } else { (fourth, fifth as *mut u8) };
        // SAFETY: CUDA's manual asks for the structure and as many handles.
        unsafe { add_node(state, "cudaGraphAddNode", at, graph, (after, count), (all, false)) }
    }

    fn cudaGraphAddNode_v2 = (
        at: *mut usize, graph: usize, after: *const usize, _edges: usize, count: usize, all: *mut u8
    ) |state| {
        // SAFETY: as above.
        unsafe { add_node(state, "cudaGraphAddNode", at, graph, (after, count), (all, false)) }
    }

    fn cudaGraphNodeSetParams = (node: usize, all: *const u8) |state| {
        // SAFETY: as above.
        unsafe { set_node(state, "cudaGraphNodeSetParams", (None, node), (all, false)) }
    }

    fn cudaGraphExecNodeSetParams = (graph: usize, node: usize, all: *const u8) |state| {
        // SAFETY: as above.
        unsafe { set_node(state, "cudaGraphExecNodeSetParams", (Some(graph), node), (all, false)) }
    }
}
