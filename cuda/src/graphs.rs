//! Graphs: made node by node or by capture, and run in one of the orders that they allow.

use std::collections::BTreeMap;
use std::ffi::c_void;

use crate::boxes::copy_boxes;
use crate::call;
use crate::conditions;
use crate::driver::stream_values::perform;
use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED};
use crate::events::record;
use crate::graph::{Copy3D, Fill, Graph, HostFunction, Launched, Node, Work};
use crate::graph_use;
use crate::launch::{Dim3, How, prepare};
use crate::memory::{copy, fill_rows};
use crate::one_device::{Runtime as Loaded, loaded};
use crate::pointers;
use crate::runtime::State;
use crate::streams::wait;

/// CUDA's `cudaKernelNodeParams`, and `CUDA_KERNEL_NODE_PARAMS` of the driver API as far as both of its versions have it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNode {
    /// The kernel.
    pub function: *const c_void,
    /// Blocks of the grid.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// A pointer to each argument.
    pub arguments: *const *const c_void,
    /// Arguments in another form.
    pub extra: *const *const c_void,
}

/// CUDA's `cudaHostNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostNode {
    /// What is called.
    pub function: Option<HostFunction>,
    /// What it is given.
    pub data: *mut c_void,
}

impl HostNode {
    /// What it does, where it has a function.
    pub fn work(self) -> Option<Work> {
        Some(Work::Host(self.function?, self.data as usize))
    }
}

/// Adds a node; `after` leads to the handles of `count` others.
///
/// # Errors
/// There is no such graph or node.
///
/// # Safety
/// As it says.
pub unsafe fn add(
    state: &mut State,
    at: *mut usize,
    graph: usize,
    (after, count): (*const usize, usize),
    work: Work,
) -> Result<(), Error> {
    // SAFETY: CUDA's manual asks for as many handles.
    let after = (0..count).map(|i| unsafe { pointers::get(after.wrapping_add(i)) });
    let after = after.collect::<Result<Vec<_>, _>>()?;
    let handle = state.handle();
    let graph = state.runtime()?.graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?;
    if after.iter().any(|other| graph.nodes.iter().all(|node| node.handle != *other)) {
        return Err(INVALID_VALUE);
    }
    out!(at, handle);
    graph.nodes.push(Node { handle, origin: 0, work, after, disabled: false });
    Ok(())
}

/// Keeps a graph under a new handle.
///
/// # Errors
/// `at` is null.
pub fn keep(state: &mut State, at: *mut usize, graph: Graph) -> Result<(), Error> {
    let handle = state.handle();
    out!(at, handle);
    state.runtime()?.graphs.insert(handle, graph);
    Ok(())
}

/// The graph of a handle.
///
/// # Errors
/// It is none.
pub fn find(state: &mut State, graph: usize) -> Result<Graph, Error> {
    state.runtime()?.graphs.get(&graph).cloned().ok_or(INVALID_HANDLE)
}

/// Writes the handles of nodes, as many as there is room for, and their number.
///
/// # Errors
/// `count` is null.
///
/// # Safety
/// Where `nodes` is not null, it must have room for as many as `count` says.
pub unsafe fn list(graph: &Graph, nodes: *mut usize, count: *mut usize) -> Result<(), Error> {
    if !nodes.is_null() {
        // SAFETY: the caller's promise.
        let room = unsafe { pointers::get(count) }?;
        for (i, node) in graph.nodes.iter().take(room).enumerate() {
            out!(nodes.wrapping_add(i), node.handle);
        }
    }
    out!(count, graph.nodes.len());
    Ok(())
}

/// Adds a node that launches a kernel; the rest as [`add`].
///
/// # Errors
/// As for a launch, or as `add`.
///
/// # Safety
/// As `add`; `own` must have a pointer to each argument.
pub unsafe fn add_kernel(
    state: &mut State,
    call: &str,
    at: *mut usize,
    graph: usize,
    after: (*const usize, usize),
    own: KernelNode,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe {
        let work = kernel_work(state, call, own)?;
        add(state, at, graph, after, work)
    }
}

/// What a node of a kernel does.
///
/// # Errors
/// As for a launch.
///
/// # Safety
/// `own` must have a pointer to each argument.
pub unsafe fn kernel_work(state: &mut State, call: &str, own: KernelNode) -> Result<Work, Error> {
    if !own.extra.is_null() {
        eprintln!("warpsim: {call}: arguments in `extra` are not supported");
        return Err(NOT_SUPPORTED);
    }
    let how = How::of(own.grid, own.block, own.shared as usize, std::ptr::null_mut());
    // SAFETY: the caller's promise.
    let kernel = unsafe { prepare(state, own.function, &how, own.arguments) }?;
    let (function, attributes) = (own.function as usize, BTreeMap::new());
    Ok(Work::Kernel(Box::new(Launched { kernel, function, attributes, arguments: Vec::new() })))
}

/// A copy of a graph, whose nodes are its own.
///
/// # Errors
/// There is no such graph.
pub fn copy_graph(state: &mut State, at: *mut usize, graph: usize) -> Result<(), Error> {
    let mut graph = find(state, graph)?;
    conditions::has_none(&graph, "cloned")?;
    let made: BTreeMap<usize, usize> = graph.nodes.iter().map(|node| (node.handle, state.handle())).collect();
    for node in &mut graph.nodes {
        (node.origin, node.handle) = (node.handle, made[&node.handle]);
        node.after.iter_mut().for_each(|other| *other = made.get(other).copied().unwrap_or(*other));
    }
    keep(state, at, graph)
}

/// What runs is what the graph is now.
///
/// # Errors
/// There is no such graph, or its nodes wait for each other.
pub fn instantiate(state: &mut State, at: *mut usize, graph: usize, flags: u64) -> Result<(), Error> {
    let own = find(state, graph)?;
    own.ordered()?;
    let own = conditions::resolve(state, graph, own)?;
    keep(state, at, Graph { executable: true, flags, ..own })
}

/// Forgets a graph, with memory that nothing else uses.
///
/// # Errors
/// There is no such graph.
pub fn forget(state: &mut State, graph: usize) -> Result<(), Error> {
    state.synchronize()?;
    let gone = state.runtime()?.graphs.remove(&graph).ok_or(INVALID_HANDLE)?;
    if !gone.executable {
        conditions::forget_bodies(state, &gone)?;
    }
    conditions::sweep(state)?;
    state.sweep()
}

/// CUDA's `cudaGraphInstantiateParams`, and that of the driver API.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Instantiation {
    flags: u64,
    stream: *mut c_void,
    wrong: usize,
    result: i32,
}

/// The same, with flags in a structure.
///
/// # Errors
/// As [`instantiate`].
///
/// # Safety
/// `parameters` must lead to the structure.
pub unsafe fn instantiate_with(
    state: &mut State,
    at: *mut usize,
    graph: usize,
    parameters: *mut Instantiation,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let own = unsafe { pointers::get(parameters) }?;
    instantiate(state, at, graph, own.flags)?;
    out!(parameters, Instantiation { wrong: 0, result: 0, ..own });
    Ok(())
}

/// `cudaGraphInstantiateFlagAutoFreeOnLaunch`.
const AUTO_FREE: u64 = 1;

cuda! {
    fn cudaGraphCreate = (at: *mut usize, _flags: u32) |state| { keep(state, at, Graph::default()) }

    fn cudaGraphClone = (at: *mut usize, graph: usize) |state| { copy_graph(state, at, graph) }

    fn cudaGraphInstantiate = (at: *mut usize, graph: usize, flags: u64) |state| {
        // CUDA 11 has a place for a node there.
        instantiate(state, at, graph, if loaded(Loaded::Eleven) { 0 } else { flags })
    }

    fn cudaGraphInstantiateWithFlags = (at: *mut usize, graph: usize, flags: u64) |state| {
        instantiate(state, at, graph, flags)
    }

    fn cudaGraphInstantiateWithParams cudaGraphInstantiateWithParams_ptsz = (
        at: *mut usize, graph: usize, parameters: *mut Instantiation
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        unsafe { instantiate_with(state, at, graph, parameters) }
    }

    fn cudaGraphDestroy cudaGraphExecDestroy = (graph: usize) |state| { forget(state, graph) }

    fn cudaGraphUpload cudaGraphUpload_ptsz = (graph: usize, stream: *mut c_void) |state| {
        find(state, graph)?;
        state.runtime()?.streams.find(stream).map(drop)
    }

    fn cudaGraphGetNodes = (graph: usize, nodes: *mut usize, count: *mut usize) |state| {
        let graph = find(state, graph)?;
        // SAFETY: CUDA's manual asks for the room of the nodes.
        unsafe { list(&graph, nodes, count) }
    }

    fn cudaGraphAddKernelNode =
    (at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const KernelNode) |state| {
        // SAFETY: CUDA's manual asks for the structure, with a pointer to each argument; the rest as `add`.
        unsafe {
            let own = pointers::get(parameters)?;
            add_kernel(state, "cudaGraphAddKernelNode", at, graph, (after, count), own)
        }
    }

    fn cudaGraphAddMemcpyNode =
    (at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const Copy3D) |state| {
        // SAFETY: CUDA's manual asks for the structure; the rest as `add`.
        unsafe {
            let own = pointers::get(parameters)?;
            add(state, at, graph, (after, count), Work::Copy3D(own))
        }
    }

    fn cudaGraphAddMemcpyNode1D = (
        at: *mut usize, graph: usize, after: *const usize, count: usize, to: usize, from: usize, bytes: usize, kind: i32
    ) |state| {
        // SAFETY: as `add`.
        unsafe { add(state, at, graph, (after, count), Work::Copy(to, from, bytes, kind)) }
    }

    fn cudaGraphAddMemsetNode =
    (at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const Fill) |state| {
        // SAFETY: CUDA's manual asks for the structure; the rest as `add`.
        unsafe {
            let own = pointers::get(parameters)?;
            add(state, at, graph, (after, count), Work::Fill(own))
        }
    }

    fn cudaGraphAddHostNode =
    (at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const HostNode) |state| {
        // SAFETY: CUDA's manual asks for the structure; the rest as `add`.
        unsafe {
            let work = pointers::get(parameters)?.work().ok_or(INVALID_VALUE)?;
            add(state, at, graph, (after, count), work)
        }
    }

    fn cudaGraphAddEmptyNode = (at: *mut usize, graph: usize, after: *const usize, count: usize) |state| {
        // SAFETY: as `add`.
        unsafe { add(state, at, graph, (after, count), Work::Empty) }
    }
}

/// Does what a node does, but for functions of the host.
fn run(state: &mut State, work: &Work, stream: *mut c_void) -> Result<(), Error> {
    match work {
        Work::Kernel(kernel) => {
            let mut kernel = kernel.kernel.clone();
            kernel.stream = state.runtime()?.streams.find(stream)?.number;
            state.launch(&kernel)
        }
        // SAFETY: CUDA's manual asks for memory that is valid when the graph runs.
        Work::Copy(to, from, bytes, kind) => unsafe { copy(state, *to as u64, *from as u64, *bytes, *kind) },
        // SAFETY: as above.
        Work::Copy3D(parameters) => unsafe { copy_boxes(state, parameters) },
        Work::Fill(parameters) => fill_rows(state, parameters),
        Work::Host(..) => state.synchronize(),
        Work::Record(event) => record(state, *event as *mut c_void, stream),
        Work::Wait(event) => wait(state, stream, *event as *mut c_void),
        Work::Graph(graph) => graph.ordered()?.iter().try_for_each(|work| run(state, work, stream)),
        Work::Allocate(at, _) => graph_use::begin(state, *at),
        Work::Free(at) => graph_use::end(state, *at),
        Work::Conditional(own) => {
            while let Some((body, again)) = conditions::chosen(state, own)? {
                body.ordered()?.iter().try_for_each(|work| run(state, work, stream))?;
                if !again {
                    break;
                }
            }
            Ok(())
        }
        Work::Values(all) => perform(state, "a graph", all),
        Work::Empty => Ok(()),
    }
}

/// How a call enters: it is given what it does with the state, and gives its status.
pub type Enter<'e> = &'e dyn Fn(&mut dyn FnMut(&mut State) -> Result<(), Error>) -> i32;

/// Runs a graph; functions of the host run without the lock.
///
/// # Safety
/// Memory and functions of its nodes must be valid.
pub unsafe fn launch(graph: usize, stream: *mut c_void, enter: Enter<'_>) -> i32 {
    let mut all = Vec::new();
    let found = enter(&mut |state| {
        state.runtime()?.streams.find(stream)?;
        let graph = find(state, graph)?;
        all = graph.ordered()?;
        conditions::begin(state, &graph)?;
        if graph.flags & AUTO_FREE != 0 {
            graph_use::end_all(state, &all);
        }
        Ok(())
    });
    if found != 0 {
        return found;
    }
    for work in all {
        let status = enter(&mut |state| run(state, &work, stream));
        if status != 0 {
            return status;
        }
        if let Work::Host(function, data) = work {
            // SAFETY: the program's function gets the program's data.
            unsafe { function(data as *mut c_void) };
        }
    }
    0
}

/// As in CUDA's runtime API.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphLaunch(graph: usize, stream: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { launch(graph, stream, &|body| call::enter("cudaGraphLaunch", body)) }
}

/// The same on a thread's default stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphLaunch_ptsz(graph: usize, stream: *mut c_void) -> i32 {
    // SAFETY: as the call that is forwarded.
    unsafe { cudaGraphLaunch(graph, stream) }
}
