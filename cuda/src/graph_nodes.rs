//! Graphs after they were made: what nodes are and wait for, changes of nodes and of executable graphs.

use std::ffi::{c_char, c_void};
use std::fmt::Write as _;

use crate::conditions;
use crate::error::{Error, GRAPH_UPDATE, INVALID_HANDLE, INVALID_VALUE, UNKNOWN};
use crate::graph::{Copy3D, Fill, Graph, Node, Work};
use crate::graphs::{HostNode, KernelNode, add, find, kernel_work};
use crate::one_device::{Runtime as Loaded, loaded};
use crate::pointers;
use crate::runtime::State;

/// Types of nodes as CUDA numbers them.
const NODE_KERNEL: i32 = 0;
const NODE_COPY: i32 = 1;
const NODE_FILL: i32 = 2;
const NODE_HOST: i32 = 3;
const NODE_GRAPH: i32 = 4;
const NODE_EMPTY: i32 = 5;
const NODE_WAIT: i32 = 6;
const NODE_RECORD: i32 = 7;
const NODE_ALLOCATE: i32 = 10;
const NODE_FREE: i32 = 11;
const NODE_VALUES: i32 = 12;
const NODE_CONDITIONAL: i32 = 13;

/// What an update comes to: `cudaGraphExecUpdateErrorTopologyChanged`, `…NodeTypeChanged` and `…ParametersChanged`.
const TOPOLOGY_CHANGED: i32 = 2;
const TYPE_CHANGED: i32 = 3;
const PARAMETERS_CHANGED: i32 = 5;

/// CUDA's `cudaGraphEdgeData`: all zero for an ordinary dependency.
pub type Edge = [u8; 8];

/// CUDA 12's `cudaGraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Updated {
    /// What it came to; 0 where it could be done.
    pub result: i32,
    /// The node that could not be updated.
    pub node: usize,
    /// Of a wrong dependency, the node that is waited for.
    pub from: usize,
}

/// The type of a node.
pub fn kind(work: &Work) -> i32 {
    match work {
        Work::Kernel(_) => NODE_KERNEL,
        Work::Copy(..) | Work::Copy3D(_) => NODE_COPY,
        Work::Fill(_) => NODE_FILL,
        Work::Host(..) => NODE_HOST,
        Work::Graph(_) => NODE_GRAPH,
        Work::Empty => NODE_EMPTY,
        Work::Wait(_) => NODE_WAIT,
        Work::Record(_) => NODE_RECORD,
        Work::Allocate(..) => NODE_ALLOCATE,
        Work::Free(_) => NODE_FREE,
        Work::Values(_) => NODE_VALUES,
        Work::Conditional(_) => NODE_CONDITIONAL,
    }
}

/// The graph of a node. An executable graph has nodes of the same handles, but they are not its own.
///
/// # Errors
/// There is none.
pub fn owner(state: &mut State, node: usize) -> Result<&mut Graph, Error> {
    let mut graphs = state.runtime()?.graphs.values_mut();
    let found = graphs.find(|graph| !graph.executable && graph.nodes.iter().any(|own| own.handle == node));
    found.ok_or(INVALID_VALUE)
}

/// A node of a graph.
///
/// # Errors
/// There is none such.
pub fn node_of(graph: &mut Graph, node: usize) -> Result<&mut Node, Error> {
    graph.nodes.iter_mut().find(|own| own.handle == node).ok_or(INVALID_VALUE)
}

/// A node of a graph, which is not an executable one.
///
/// # Errors
/// There is none such.
pub fn node(state: &mut State, node: usize) -> Result<&mut Node, Error> {
    node_of(owner(state, node)?, node)
}

/// Gives a node, or in an executable graph what was made of it, other work of the same type.
///
/// # Errors
/// There is no such node, or it does something else.
pub fn set(state: &mut State, executable: Option<usize>, node: usize, work: Work) -> Result<(), Error> {
    let graph = match executable {
        Some(graph) => {
            state.runtime()?.graphs.get_mut(&graph).filter(|graph| graph.executable).ok_or(INVALID_HANDLE)?
        }
        None => owner(state, node)?,
    };
    let node = node_of(graph, node)?;
    if kind(&node.work) != kind(&work) {
        return Err(INVALID_VALUE);
    }
    let mut work = work;
    if let (Work::Kernel(own), Work::Kernel(new)) = (&node.work, &mut work) {
        // Parameters are not attributes: those of the node stay.
        new.attributes.clone_from(&own.attributes);
        new.kernel.cooperative = own.kernel.cooperative;
        new.kernel.cluster = own.kernel.cluster;
    }
    node.work = work;
    Ok(())
}

/// The same for a kernel.
///
/// # Errors
/// As [`set`], or as for a launch.
///
/// # Safety
/// As [`kernel_work`].
pub unsafe fn set_kernel(
    state: &mut State,
    call: &str,
    (executable, node): (Option<usize>, usize),
    parameters: *const KernelNode,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let work = unsafe { kernel_work(state, call, pointers::get(parameters)?) }?;
    set(state, executable, node, work)
}

/// Handles from memory of the caller.
fn handles(at: *const usize, count: usize) -> Result<Vec<usize>, Error> {
    // SAFETY: CUDA's manual asks for as many.
    (0..count).map(|i| unsafe { pointers::get(at.wrapping_add(i)) }).collect()
}

/// Adds dependencies: each of `to` waits for that of `from` in its place; or removes them.
///
/// # Errors
/// A node is none, the dependency is there already, or it is not there.
pub fn depend(
    state: &mut State,
    graph: usize,
    (from, to): (*const usize, *const usize),
    count: usize,
    adds: bool,
) -> Result<(), Error> {
    let pairs: Vec<_> = handles(from, count)?.into_iter().zip(handles(to, count)?).collect();
    let graph = state.runtime()?.graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?;
    let mut changed = graph.clone();
    for (from, to) in pairs {
        node_of(&mut changed, from)?;
        let after = &mut node_of(&mut changed, to)?.after;
        match after.iter().position(|other| *other == from) {
            Some(at) if !adds => drop(after.remove(at)),
            None if adds && from != to => after.push(from),
            _ => return Err(INVALID_VALUE),
        }
    }
    // Nothing changes where one of them is wrong. What nodes do stays in its place: the program may hold pointers to it.
    for (own, new) in graph.nodes.iter_mut().zip(changed.nodes) {
        own.after = new.after;
    }
    Ok(())
}

fn room(count: *const usize) -> Result<usize, Error> {
    // SAFETY: CUDA's manual asks for the number of handles that there is room for.
    unsafe { pointers::get(count) }
}

/// Writes as many handles as there is room for, and their number.
fn tell(all: &[usize], at: *mut usize, edges: *mut Edge, count: *mut usize) -> Result<(), Error> {
    if !at.is_null() {
        let room = room(count)?;
        for (i, handle) in all.iter().take(room).enumerate() {
            out!(at.wrapping_add(i), *handle);
            if !edges.is_null() {
                out!(edges.wrapping_add(i), Edge::default());
            }
        }
    }
    out!(count, all.len());
    Ok(())
}

/// The nodes that a node waits for, or those that wait for it.
///
/// # Errors
/// There is no such node, or no room for the number.
pub fn neighbours(
    state: &mut State,
    node: usize,
    dependent: bool,
    (at, edges): (*mut usize, *mut Edge),
    count: *mut usize,
) -> Result<(), Error> {
    let graph = owner(state, node)?;
    let all = if dependent {
        graph.nodes.iter().filter(|other| other.after.contains(&node)).map(|other| other.handle).collect()
    } else {
        node_of(graph, node)?.after.clone()
    };
    tell(&all, at, edges, count)
}

/// The dependencies of a graph.
///
/// # Errors
/// There is no such graph, or no room for the number.
pub fn edges(
    state: &mut State,
    graph: usize,
    (from, to): (*mut usize, *mut usize),
    data: *mut Edge,
    count: *mut usize,
) -> Result<(), Error> {
    let graph = find(state, graph)?;
    let pairs = graph.nodes.iter().flat_map(|node| node.after.iter().map(|from| (*from, node.handle)));
    let (first, second): (Vec<_>, Vec<_>) = pairs.unzip();
    if from.is_null() != to.is_null() {
        return Err(INVALID_VALUE);
    }
    if !from.is_null() {
        // The number of the first list is not that of the room for the second.
        let room = room(count)?;
        tell(&first, from, data, count)?;
        out!(count, room);
    }
    tell(&second, to, std::ptr::null_mut(), count)
}

/// The nodes that wait for none.
///
/// # Errors
/// There is no such graph, or no room for the number.
pub fn roots(state: &mut State, graph: usize, at: *mut usize, count: *mut usize) -> Result<(), Error> {
    let graph = find(state, graph)?;
    let all: Vec<_> =
        graph.nodes.iter().filter(|node| node.after.is_empty()).map(|node| node.handle).collect();
    tell(&all, at, std::ptr::null_mut(), count)
}

/// Removes a node with its dependencies.
///
/// # Errors
/// There is none such.
pub fn destroy(state: &mut State, node: usize) -> Result<(), Error> {
    let graph = owner(state, node)?;
    let (gone, rest) = std::mem::take(&mut graph.nodes).into_iter().partition(|other| other.handle == node);
    graph.nodes = rest;
    graph.nodes.iter_mut().for_each(|other| other.after.retain(|from| *from != node));
    conditions::forget_bodies(state, &Graph { nodes: gone, ..Graph::default() })?;
    state.sweep()
}

/// The node of a clone that was made of a node.
///
/// # Errors
/// There is none.
pub fn in_clone(state: &mut State, at: *mut usize, node: usize, clone: usize) -> Result<(), Error> {
    let clone = find(state, clone)?;
    let made = clone.nodes.iter().find(|own| own.origin == node).ok_or(INVALID_VALUE)?;
    out!(at, made.handle);
    Ok(())
}

/// What a graph is now, for a node that does it.
///
/// # Errors
/// There is no such graph, or its nodes wait for each other, or it has conditional ones.
pub fn as_child(state: &mut State, child: usize) -> Result<Graph, Error> {
    let child = find(state, child)?;
    child.ordered()?;
    conditions::has_none(&child, "a child of another")?;
    Ok(child)
}

/// Adds a node that does what another graph is now.
///
/// # Errors
/// As [`add`], or there is no such graph.
///
/// # Safety
/// As [`add`].
pub unsafe fn add_graph(
    state: &mut State,
    at: *mut usize,
    graph: usize,
    after: (*const usize, usize),
    child: usize,
) -> Result<(), Error> {
    let child = as_child(state, child)?;
    // SAFETY: the caller's promise.
    unsafe { add(state, at, graph, after, Work::Graph(Box::new(child))) }
}

/// Adds a node that records an event or waits for one.
///
/// # Errors
/// As [`add`], or there is no such event.
///
/// # Safety
/// As [`add`].
pub unsafe fn add_event(
    state: &mut State,
    at: *mut usize,
    graph: usize,
    after: (*const usize, usize),
    event: *mut c_void,
    records: bool,
) -> Result<(), Error> {
    crate::events::find(state, event)?;
    let event = event as usize;
    let work = if records { Work::Record(event) } else { Work::Wait(event) };
    // SAFETY: the caller's promise.
    unsafe { add(state, at, graph, after, work) }
}

/// Gives an executable graph what a graph of the same shape does now; says what differs otherwise.
///
/// # Errors
/// A handle is none.
pub fn update(state: &mut State, executable: usize, graph: usize) -> Result<Updated, Error> {
    let new = find(state, graph)?;
    let new = conditions::resolve(state, graph, new)?;
    let old = state
        .runtime()?
        .graphs
        .get_mut(&executable)
        .filter(|graph| graph.executable)
        .ok_or(INVALID_HANDLE)?;
    if let Some((result, node)) = difference(old, &new) {
        return Ok(Updated { result, node, from: 0 });
    }
    old.nodes.iter_mut().zip(new.nodes).for_each(|(own, other)| own.work = other.work);
    Ok(Updated { result: 0, node: 0, from: 0 })
}

/// In what the shapes of two graphs differ, and the node of the second where they do.
fn difference(old: &Graph, new: &Graph) -> Option<(i32, usize)> {
    if old.nodes.len() != new.nodes.len() {
        return Some((TOPOLOGY_CHANGED, 0));
    }
    // Nodes stand in the order in which they were added: those in the same place are taken for the same.
    let places = |graph: &Graph, node: &Node| {
        let place = |handle: &usize| graph.nodes.iter().position(|other| other.handle == *handle);
        let mut all: Vec<_> = node.after.iter().map(place).collect();
        all.sort_unstable();
        all
    };
    for (own, other) in old.nodes.iter().zip(&new.nodes) {
        if kind(&own.work) != kind(&other.work) {
            return Some((TYPE_CHANGED, other.handle));
        }
        if places(old, own) != places(new, other) {
            return Some((TOPOLOGY_CHANGED, other.handle));
        }
        if let (Work::Conditional(own), Work::Conditional(theirs)) = (&own.work, &other.work) {
            if (own.kind, own.graphs.len()) != (theirs.kind, theirs.graphs.len()) {
                return Some((PARAMETERS_CHANGED, other.handle));
            }
            let mut bodies = own.graphs.iter().zip(&theirs.graphs);
            if let Some(found) = bodies.find_map(|(own, theirs)| difference(own, theirs)) {
                return Some(found);
            }
        }
    }
    None
}

/// The status of an update.
///
/// # Errors
/// It could not be done.
pub fn updated(result: i32) -> Result<(), Error> {
    if result == 0 { Ok(()) } else { Err(GRAPH_UPDATE) }
}

/// Writes a graph as a DOT file.
///
/// # Errors
/// There is no such graph, or the file cannot be written.
///
/// # Safety
/// `path` must lead to a text.
pub unsafe fn print(state: &mut State, graph: usize, path: *const c_char) -> Result<(), Error> {
    let graph = find(state, graph)?;
    // SAFETY: the caller's promise.
    let path = unsafe { pointers::text(path) }?;
    let mut text = "digraph dot {\n".to_string();
    let place = |handle: usize| graph.nodes.iter().position(|node| node.handle == handle);
    for (i, node) in graph.nodes.iter().enumerate() {
        let what = match &node.work {
            Work::Kernel(own) => own.kernel.entry.as_str(),
            Work::Copy(..) | Work::Copy3D(_) => "MEMCPY",
            Work::Fill(_) => "MEMSET",
            Work::Host(..) => "HOST",
            Work::Graph(_) => "GRAPH",
            Work::Empty => "EMPTY",
            Work::Wait(_) => "EVENT_WAIT",
            Work::Record(_) => "EVENT_RECORD",
            Work::Allocate(..) => "MEM_ALLOC",
            Work::Free(_) => "MEM_FREE",
            Work::Values(_) => "BATCH_MEM_OP",
            Work::Conditional(_) => "CONDITIONAL",
        };
        let _ = writeln!(text, "\"graph_1_node_{i}\" [label=\"{i}\\n{what}\"];");
        for from in node.after.iter().filter_map(|from| place(*from)) {
            let _ = writeln!(text, "\"graph_1_node_{from}\" -> \"graph_1_node_{i}\";");
        }
    }
    text.push_str("}\n");
    std::fs::write(&path, text).map_err(|error| {
        eprintln!("warpsim: cudaGraphDebugDotPrint: {path} cannot be written: {error}");
        UNKNOWN
    })
}

/// CUDA 13 gave the names without a number the parameters of `_v2`: with the data of edges.
fn with_edges(fourth: usize, fifth: usize) -> (*mut Edge, usize) {
    if loaded(Loaded::Thirteen) { (fourth as *mut Edge, fifth) } else { (std::ptr::null_mut(), fourth) }
}

cuda! {
    fn cudaGraphNodeGetType = (own: usize, at: *mut i32) |state| {
        out!(at, kind(&node(state, own)?.work));
        Ok(())
    }

    fn cudaGraphKernelNodeSetParams = (node: usize, parameters: *const KernelNode) |state| {
        // SAFETY: CUDA's manual asks for the structure, with a pointer to each argument.
        unsafe { set_kernel(state, "cudaGraphKernelNodeSetParams", (None, node), parameters) }
    }

    fn cudaGraphExecKernelNodeSetParams = (graph: usize, node: usize, parameters: *const KernelNode) |state| {
        // SAFETY: as above.
        unsafe { set_kernel(state, "cudaGraphExecKernelNodeSetParams", (Some(graph), node), parameters) }
    }

    fn cudaGraphMemcpyNodeSetParams = (node: usize, parameters: *const Copy3D) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = Work::Copy3D(unsafe { pointers::get(parameters) }?);
        set(state, None, node, work)
    }

    fn cudaGraphExecMemcpyNodeSetParams = (graph: usize, node: usize, parameters: *const Copy3D) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = Work::Copy3D(unsafe { pointers::get(parameters) }?);
        set(state, Some(graph), node, work)
    }

    fn cudaGraphMemcpyNodeSetParams1D = (node: usize, to: usize, from: usize, bytes: usize, direction: i32) |state| {
        set(state, None, node, Work::Copy(to, from, bytes, direction))
    }

    fn cudaGraphExecMemcpyNodeSetParams1D = (
        graph: usize, node: usize, to: usize, from: usize, bytes: usize, direction: i32
    ) |state| { set(state, Some(graph), node, Work::Copy(to, from, bytes, direction)) }

    fn cudaGraphMemsetNodeSetParams = (node: usize, parameters: *const Fill) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = Work::Fill(unsafe { pointers::get(parameters) }?);
        set(state, None, node, work)
    }

    fn cudaGraphExecMemsetNodeSetParams = (graph: usize, node: usize, parameters: *const Fill) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = Work::Fill(unsafe { pointers::get(parameters) }?);
        set(state, Some(graph), node, work)
    }

    fn cudaGraphMemsetNodeGetParams = (own: usize, parameters: *mut Fill) |state| {
        let Work::Fill(fill) = node(state, own)?.work else { return Err(INVALID_VALUE) };
        out!(parameters, fill);
        Ok(())
    }

    fn cudaGraphHostNodeSetParams = (node: usize, parameters: *const HostNode) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = unsafe { pointers::get(parameters) }?.work().ok_or(INVALID_VALUE)?;
        set(state, None, node, work)
    }

    fn cudaGraphExecHostNodeSetParams = (graph: usize, node: usize, parameters: *const HostNode) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let work = unsafe { pointers::get(parameters) }?.work().ok_or(INVALID_VALUE)?;
        set(state, Some(graph), node, work)
    }

    fn cudaGraphExecChildGraphNodeSetParams = (graph: usize, node: usize, child: usize) |state| {
        let child = as_child(state, child)?;
        set(state, Some(graph), node, Work::Graph(Box::new(child)))
    }

    fn cudaGraphAddDependencies = (graph: usize, from: *const usize, to: *const usize, fourth: usize, fifth: usize) |state| {
        depend(state, graph, (from, to), with_edges(fourth, fifth).1, true)
    }

    fn cudaGraphAddDependencies_v2 = (graph: usize, from: *const usize, to: *const usize, _edges: usize, count: usize) |state| {
        depend(state, graph, (from, to), count, true)
    }

    fn cudaGraphRemoveDependencies = (graph: usize, from: *const usize, to: *const usize, fourth: usize, fifth: usize) |state| {
        depend(state, graph, (from, to), with_edges(fourth, fifth).1, false)
    }

    fn cudaGraphRemoveDependencies_v2 = (graph: usize, from: *const usize, to: *const usize, _edges: usize, count: usize) |state| {
        depend(state, graph, (from, to), count, false)
    }

    fn cudaGraphGetEdges = (graph: usize, from: *mut usize, to: *mut usize, fourth: usize, fifth: usize) |state| {
        let (data, count) = with_edges(fourth, fifth);
        edges(state, graph, (from, to), data, count as *mut usize)
    }

    fn cudaGraphGetEdges_v2 = (graph: usize, from: *mut usize, to: *mut usize, data: *mut Edge, count: *mut usize) |state| {
        edges(state, graph, (from, to), data, count)
    }

    fn cudaGraphNodeGetDependencies = (node: usize, at: *mut usize, third: usize, fourth: usize) |state| {
        let (data, count) = with_edges(third, fourth);
        neighbours(state, node, false, (at, data), count as *mut usize)
    }

    fn cudaGraphNodeGetDependencies_v2 = (node: usize, at: *mut usize, data: *mut Edge, count: *mut usize) |state| {
        neighbours(state, node, false, (at, data), count)
    }

    fn cudaGraphNodeGetDependentNodes = (node: usize, at: *mut usize, third: usize, fourth: usize) |state| {
        let (data, count) = with_edges(third, fourth);
        neighbours(state, node, true, (at, data), count as *mut usize)
    }

    fn cudaGraphNodeGetDependentNodes_v2 = (node: usize, at: *mut usize, data: *mut Edge, count: *mut usize) |state| {
        neighbours(state, node, true, (at, data), count)
    }

    fn cudaGraphGetRootNodes = (graph: usize, at: *mut usize, count: *mut usize) |state| {
        roots(state, graph, at, count)
    }

    fn cudaGraphDestroyNode = (node: usize) |state| { destroy(state, node) }

    fn cudaGraphNodeFindInClone = (at: *mut usize, node: usize, clone: usize) |state| {
        in_clone(state, at, node, clone)
    }

    fn cudaGraphAddChildGraphNode = (at: *mut usize, graph: usize, after: *const usize, count: usize, child: usize) |state| {
        // SAFETY: CUDA's manual asks for as many handles.
        unsafe { add_graph(state, at, graph, (after, count), child) }
    }

    fn cudaGraphAddEventRecordNode = (at: *mut usize, graph: usize, after: *const usize, count: usize, event: *mut c_void) |state| {
        // SAFETY: as above.
        unsafe { add_event(state, at, graph, (after, count), event, true) }
    }

    fn cudaGraphAddEventWaitNode = (at: *mut usize, graph: usize, after: *const usize, count: usize, event: *mut c_void) |state| {
        // SAFETY: as above.
        unsafe { add_event(state, at, graph, (after, count), event, false) }
    }

    fn cudaGraphExecUpdate = (executable: usize, graph: usize, third: usize, fourth: usize) |state| {
        let info = update(state, executable, graph)?;
        if loaded(Loaded::Eleven) {
            if third != 0 {
                out!(third as *mut usize, info.node);
            }
            out!(fourth as *mut i32, info.result);
        } else {
            out!(third as *mut Updated, info);
        }
        updated(info.result)
    }

    fn cudaGraphDebugDotPrint = (graph: usize, path: *const c_char, _flags: u32) |state| {
        // SAFETY: CUDA's manual asks for a text.
        unsafe { print(state, graph, path) }
    }
}
