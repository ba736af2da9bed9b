//! Captures: what is given to streams becomes a graph.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;

use crate::error::{
    CAPTURE_UNJOINED, CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED, Error, ILLEGAL_STATE, INVALID_HANDLE,
    INVALID_VALUE,
};
use crate::graph::{Capture, Graph};
use crate::one_device::{Runtime as Loaded, loaded};
use crate::pointers;
use crate::runtime::State;

/// Handles from memory of the caller.
fn handles(at: *const usize, count: usize) -> Result<Vec<usize>, Error> {
    // SAFETY: CUDA's manual asks for as many.
    (0..count).map(|i| unsafe { pointers::get(at.wrapping_add(i)) }).collect()
}

/// Begins to capture a stream, into a new graph or behind nodes of one that there is.
///
/// # Errors
/// It is the default stream or captured already, or there is no such graph or node.
pub fn begin(state: &mut State, stream: *mut c_void, into: Option<(usize, Vec<usize>)>) -> Result<(), Error> {
    let found = state.runtime()?.streams.find(stream)?;
    if found.number == 0 {
        return Err(CAPTURE_UNSUPPORTED);
    }
    if state.is_captured(stream) {
        return Err(ILLEGAL_STATE);
    }
    state.synchronize()?;
    let (graph, after) = match into {
        Some((graph, after)) => {
            let own =
                state.runtime()?.graphs.get(&graph).filter(|own| !own.executable).ok_or(INVALID_HANDLE)?;
            if after.iter().any(|node| own.nodes.iter().all(|own| own.handle != *node)) {
                return Err(INVALID_VALUE);
            }
            (graph, after)
        }
        None => {
            let handle = state.handle();
            state.runtime()?.graphs.insert(handle, Graph::default());
            (handle, Vec::new())
        }
    };
    let (origin, events) = (stream as usize, BTreeMap::new());
    let streams = BTreeMap::from([(origin, after)]);
    let told = Default::default();
    state.captures.push(Capture { origin, streams, graph, made: Vec::new(), events, told });
    Ok(())
}

/// Ends the capture that began on a stream.
///
/// # Errors
/// None did, or a stream that it brought in has work that it does not wait for.
pub fn end(state: &mut State, stream: *mut c_void, at: *mut usize) -> Result<(), Error> {
    let Some(own) = state.captures.iter().position(|capture| capture.origin == stream as usize) else {
        return Err(if state.is_captured(stream) { CAPTURE_UNMATCHED } else { ILLEGAL_STATE });
    };
    let capture = state.captures.remove(own);
    let graph = state.runtime()?.graphs.get(&capture.graph).ok_or(INVALID_HANDLE)?;
    let joined = graph.before(&capture.streams[&capture.origin]);
    // A node that others of the capture wait for may end in a graph's node that the program added by itself.
    let waited: Vec<usize> = graph.nodes.iter().flat_map(|node| node.after.iter().copied()).collect();
    let is_joined = |node: &usize| joined.contains(node) || waited.contains(node);
    if !capture.made.iter().all(is_joined) {
        eprintln!(
            "warpsim: the end of a capture: a stream that was brought in by an event has work that the first stream does \
             not wait for (cudaEventRecord on it, cudaStreamWaitEvent on the first one)"
        );
        state.runtime()?.graphs.remove(&capture.graph);
        state.sweep()?;
        if !at.is_null() {
            out!(at, 0);
        }
        return Err(CAPTURE_UNJOINED);
    }
    // Who captures into a graph that he has needs no place for it.
    if !at.is_null() {
        out!(at, capture.graph);
    }
    Ok(())
}

thread_local! {
    /// What else a thread may do while it captures; nothing here depends on it.
    static MODE: Cell<i32> = const { Cell::new(0) };
}

/// Exchanges what else this thread may do while it captures.
///
/// # Errors
/// It is no mode.
///
/// # Safety
/// `mode` must lead to one.
pub unsafe fn exchange_mode(mode: *mut i32) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let wanted = unsafe { pointers::get(mode) }?;
    if !(0..=2).contains(&wanted) {
        return Err(INVALID_VALUE);
    }
    out!(mode, MODE.with(|own| own.replace(wanted)));
    Ok(())
}

/// Where the program wants to be told of a capture; each place may be null but the first.
#[derive(Clone, Copy)]
pub struct Places {
    /// 1 where the capture goes on.
    pub status: *mut i32,
    /// Its number.
    pub id: *mut u64,
    /// Its graph.
    pub graph: *mut usize,
    /// The address of the nodes that the next one waits for.
    pub nodes: *mut *const usize,
    /// The address of the data of these edges.
    pub edges: *mut *const [u8; 8],
    /// Their number.
    pub count: *mut usize,
}

/// Tells of the capture of a stream.
///
/// # Errors
/// There is no such stream, or no place for the status.
pub fn tell(state: &mut State, stream: *mut c_void, places: Places) -> Result<(), Error> {
    state.runtime()?.streams.find(stream)?;
    let own = state.captures.iter_mut().find(|own| own.has(stream));
    out!(places.status, i32::from(own.is_some()));
    let Some(own) = own else { return Ok(()) };
    let last = own.streams[&(stream as usize)].clone();
    own.told = (last, Vec::new());
    own.told.1.resize(own.told.0.len(), [0; 8]);
    if !places.id.is_null() {
        out!(places.id, own.graph as u64);
    }
    if !places.graph.is_null() {
        out!(places.graph, own.graph);
    }
    if !places.nodes.is_null() {
        out!(places.nodes, own.told.0.as_ptr());
    }
    if !places.edges.is_null() {
        out!(places.edges, own.told.1.as_ptr());
    }
    if !places.count.is_null() {
        out!(places.count, own.told.0.len());
    }
    Ok(())
}

/// Changes what the next node of a stream waits for: more nodes, or others (`flags` 1).
///
/// # Errors
/// The stream is not captured, or there is no such node in its graph.
pub fn update(
    state: &mut State,
    stream: *mut c_void,
    nodes: *const usize,
    count: usize,
    flags: u32,
) -> Result<(), Error> {
    let nodes = handles(nodes, count)?;
    let own = state.captures.iter().find(|own| own.has(stream));
    let graph = own.ok_or(ILLEGAL_STATE)?.graph;
    let graph = state.runtime()?.graphs.get(&graph).ok_or(INVALID_HANDLE)?;
    if flags > 1 || nodes.iter().any(|node| graph.nodes.iter().all(|own| own.handle != *node)) {
        return Err(INVALID_VALUE);
    }
    let last = state.captures.iter_mut().find_map(|own| own.streams.get_mut(&(stream as usize)));
    let last = last.ok_or(ILLEGAL_STATE)?;
    if flags == 1 {
        last.clear();
    }
    for node in nodes {
        if !last.contains(&node) {
            last.push(node);
        }
    }
    Ok(())
}

/// Begins a capture into a graph that there is.
///
/// # Errors
/// As [`begin`].
pub fn begin_in(
    state: &mut State,
    stream: *mut c_void,
    graph: usize,
    (after, count): (*const usize, usize),
) -> Result<(), Error> {
    let after = handles(after, count)?;
    begin(state, stream, Some((graph, after)))
}

/// The places of the first two versions.
pub fn few(status: *mut i32, id: *mut u64) -> Places {
    let null = std::ptr::null_mut();
    Places { status, id, graph: null, nodes: null.cast(), edges: null.cast(), count: null }
}

cuda! {
    fn cudaStreamBeginCapture cudaStreamBeginCapture_ptsz = (stream: *mut c_void, _mode: i32) |state| {
        begin(state, stream, None)
    }

    fn cudaStreamBeginCaptureToGraph cudaStreamBeginCaptureToGraph_ptsz = (
        stream: *mut c_void, graph: usize, after: *const usize, _edges: usize, count: usize, _mode: i32
    ) |state| { begin_in(state, stream, graph, (after, count)) }

    fn cudaStreamEndCapture cudaStreamEndCapture_ptsz = (stream: *mut c_void, at: *mut usize) |state| {
        end(state, stream, at)
    }

    fn cudaStreamIsCapturing cudaStreamIsCapturing_ptsz = (stream: *mut c_void, status: *mut i32) |state| {
        state.runtime()?.streams.find(stream)?;
        out!(status, i32::from(state.is_captured(stream)));
        Ok(())
    }

    fn cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_ptsz = (
        stream: *mut c_void, status: *mut i32, id: *mut u64, graph: *mut usize, nodes: *mut *const usize,
        edges: *mut *const [u8; 8], count: *mut usize
    ) |state| {
        // CUDA 13 gave the name the parameters of the third version.
        let all = Places { status, id, graph, nodes, edges, count };
        tell(state, stream, if loaded(Loaded::Thirteen) { all } else { few(status, id) })
    }

    fn cudaStreamGetCaptureInfo_v2 cudaStreamGetCaptureInfo_v2_ptsz = (
        stream: *mut c_void, status: *mut i32, id: *mut u64, graph: *mut usize, nodes: *mut *const usize, count: *mut usize
    ) |state| { tell(state, stream, Places { graph, nodes, count, ..few(status, id) }) }

    fn cudaStreamGetCaptureInfo_v3 cudaStreamGetCaptureInfo_v3_ptsz = (
        stream: *mut c_void, status: *mut i32, id: *mut u64, graph: *mut usize, nodes: *mut *const usize,
        edges: *mut *const [u8; 8], count: *mut usize
    ) |state| { tell(state, stream, Places { status, id, graph, nodes, edges, count }) }

    fn cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_ptsz = (
        stream: *mut c_void, nodes: *const usize, third: usize, fourth: usize, fifth: u32
    ) |state| {
        // CUDA 13 gave the name the parameters of the second version, with the data of edges.
        let (count, flags) = if loaded(Loaded::Thirteen) { (fourth, fifth) } else { (third, fourth as u32) };
        update(state, stream, nodes, count, flags)
    }

    fn cudaStreamUpdateCaptureDependencies_v2 cudaStreamUpdateCaptureDependencies_v2_ptsz = (
        stream: *mut c_void, nodes: *const usize, _edges: usize, count: usize, flags: u32
    ) |state| { update(state, stream, nodes, count, flags) }

    fn cudaThreadExchangeStreamCaptureMode = (mode: *mut i32) |_state| {
        // SAFETY: CUDA's manual asks for a mode.
        unsafe { exchange_mode(mode) }
    }
}
