//! Captures of streams: where they begin and end, what they depend on.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

mod common;

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use common::{begin, event, stream};
use warpsim_cuda::captures::{
    cudaStreamBeginCapture, cudaStreamBeginCaptureToGraph, cudaStreamEndCapture, cudaStreamGetCaptureInfo_v3,
    cudaStreamIsCapturing, cudaStreamUpdateCaptureDependencies_v2, cudaThreadExchangeStreamCaptureMode,
};
use warpsim_cuda::events::cudaEventRecord;
use warpsim_cuda::graph_nodes::{cudaGraphAddChildGraphNode, cudaGraphNodeGetDependencies_v2};
use warpsim_cuda::graphs::{
    cudaGraphAddEmptyNode, cudaGraphClone, cudaGraphCreate, cudaGraphDestroy, cudaGraphExecDestroy,
    cudaGraphGetNodes, cudaGraphInstantiate,
};
use warpsim_cuda::memory::{cudaMalloc, cudaMemsetAsync};
use warpsim_cuda::streams::cudaStreamWaitEvent;
use warpsim_cuda::user_objects::{
    cudaGraphReleaseUserObject, cudaGraphRetainUserObject, cudaUserObjectCreate, cudaUserObjectRelease,
    cudaUserObjectRetain,
};

fn memory() -> *mut c_void {
    let mut at = null_mut();
    // SAFETY: a place.
    assert_eq!(unsafe { cudaMalloc(&raw mut at, 256) }, 0);
    at
}

fn nodes(graph: usize) -> Vec<usize> {
    let (mut count, mut all) = (64, [0; 64]);
    // SAFETY: there is room for as many nodes.
    assert_eq!(unsafe { cudaGraphGetNodes(graph, all.as_mut_ptr(), &raw mut count) }, 0);
    all[..count].to_vec()
}

fn behind(node: usize) -> Vec<usize> {
    let (mut count, mut all) = (8, [0; 8]);
    // SAFETY: there is room for as many nodes.
    let done = unsafe { cudaGraphNodeGetDependencies_v2(node, all.as_mut_ptr(), null_mut(), &raw mut count) };
    assert_eq!(done, 0);
    all[..count].to_vec()
}

/// Whether a stream is captured, and into which graph.
fn captured(stream: *mut c_void) -> (i32, usize) {
    let (mut status, mut graph, mut again) = (7, 0, 7);
    // SAFETY: places; the others are not asked for.
    unsafe {
        let none = (null_mut(), null_mut(), null_mut(), null_mut());
        let told = &raw mut graph;
        let done = cudaStreamGetCaptureInfo_v3(stream, &raw mut status, none.0, told, none.1, none.2, none.3);
        assert_eq!((done, cudaStreamIsCapturing(stream, &raw mut again)), (0, 0));
    }
    assert_eq!(status, again);
    (status, graph)
}

#[test]
fn a_capture_begins_and_ends_on_one_stream() {
    let _one = begin();
    let (first, second, at) = (stream(), stream(), memory());
    let (mut graph, mut ready, mut own) = (0, 0, 0);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaStreamBeginCapture(null_mut(), 0), 900, "the default stream");
        assert_eq!(cudaStreamBeginCapture(77 as *mut c_void, 0), 400);
        assert_eq!((captured(first), cudaStreamEndCapture(first, &raw mut graph)), ((0, 0), 401));
        assert_eq!((cudaStreamBeginCapture(first, 0), captured(second)), (0, (0, 0)));
        assert_eq!(cudaMemsetAsync(at, 1, 16, first), 0);
        assert_eq!(cudaStreamEndCapture(second, &raw mut graph), 401, "it is not captured");
        let told = captured(first);
        assert_eq!((told.0, cudaStreamEndCapture(first, &raw mut graph)), (1, 0));
        assert_eq!((told.1, captured(first), nodes(graph).len()), (graph, (0, 0), 1));
        // Into a graph that is not executable.
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!(cudaStreamBeginCaptureToGraph(first, ready, null(), 0, 0, 0), 400);
        assert_eq!(cudaStreamBeginCaptureToGraph(first, 77, null(), 0, 0, 0), 400);
        assert_eq!(cudaStreamBeginCaptureToGraph(first, graph, null(), 0, 0, 0), 0);
        assert_eq!(cudaMemsetAsync(at, 1, 16, first), 0);
        assert_eq!((cudaStreamEndCapture(first, &raw mut own), own, nodes(graph).len()), (0, graph, 2));
        // Without a place for the graph, which the program has.
        assert_eq!(cudaStreamBeginCaptureToGraph(first, graph, null(), 0, 0, 0), 0);
        assert_eq!(cudaMemsetAsync(at, 1, 16, first), 0);
        assert_eq!((cudaStreamEndCapture(first, null_mut()), nodes(graph).len()), (0, 3));
    }
}

#[test]
fn a_graph_whose_capture_was_not_joined_is_gone() {
    let _one = begin();
    let (first, second, fork, at) = (stream(), stream(), event(), memory());
    let mut ended = 7;
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!((cudaStreamBeginCapture(first, 0), cudaEventRecord(fork, first)), (0, 0));
        assert_eq!((cudaStreamWaitEvent(second, fork, 0), cudaMemsetAsync(at, 1, 16, second)), (0, 0));
        let (status, graph) = captured(second);
        assert_eq!((status, captured(first)), (1, (1, graph)), "both are of one capture");
        assert_eq!((cudaStreamEndCapture(first, &raw mut ended), ended), (904, 0));
        assert_eq!((cudaGraphDestroy(graph), captured(second)), (400, (0, 0)));
    }
}

#[test]
fn dependencies_are_noted_once_and_checked() {
    let _one = begin();
    let (first, second, fork, at) = (stream(), stream(), event(), memory());
    let (mut graph, mut other, mut ended) = (0, 0, 0);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaGraphCreate(&raw mut graph, 0), 0);
        assert_eq!(cudaStreamBeginCaptureToGraph(first, graph, null(), 0, 0, 0), 0);
        assert_eq!((cudaMemsetAsync(at, 1, 16, first), cudaEventRecord(fork, first)), (0, 0));
        let node = nodes(graph)[0];
        // The stream waits for what it had itself, and is told of it again.
        assert_eq!(cudaStreamWaitEvent(first, fork, 0), 0);
        let update = |nodes: *const usize, count, flags| {
            cudaStreamUpdateCaptureDependencies_v2(first, nodes, 0, count, flags)
        };
        assert_eq!((update(&raw const node, 1, 2), update(&raw const node, 1, 0)), (1, 0));
        assert_eq!(cudaGraphAddEmptyNode(&raw mut other, graph, null(), 0), 0);
        let twice = [other, other];
        assert_eq!((update(twice.as_ptr(), 2, 0), cudaMemsetAsync(at, 2, 16, first)), (0, 0));
        assert_eq!(behind(nodes(graph)[2]), [node, other]);
        // An event that is recorded outside of the capture stands for nothing in it any more.
        assert_eq!((cudaEventRecord(fork, second), cudaStreamWaitEvent(second, fork, 0)), (0, 0));
        assert_eq!(captured(second), (0, 0));
        assert_eq!((cudaStreamEndCapture(first, &raw mut ended), nodes(graph).len()), (0, 3));
    }
}

#[test]
fn a_thread_has_its_own_mode() {
    let exchange = |wanted| {
        let mut mode = wanted;
        // SAFETY: a mode.
        let done = unsafe { cudaThreadExchangeStreamCaptureMode(&raw mut mode) };
        (done, mode)
    };
    assert_eq!((exchange(2), exchange(1), exchange(3)), ((0, 0), (0, 2), (1, 3)));
    assert_eq!(std::thread::spawn(move || exchange(1)).join().expect("no panic"), (0, 0));
    assert_eq!(exchange(0), (0, 1));
}

#[test]
fn captures_of_several_streams_go_on_beside_each_other() {
    let _one = begin();
    let (first, second, third, fork, at) = (stream(), stream(), stream(), event(), memory());
    let (mut one, mut other) = (0, 0);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!((cudaStreamBeginCapture(first, 0), cudaStreamBeginCapture(second, 0)), (0, 0));
        assert_eq!(cudaStreamBeginCapture(first, 0), 401, "it is captured already");
        assert_ne!(captured(first).1, captured(second).1);
        assert_eq!((cudaMemsetAsync(at, 1, 16, first), cudaMemsetAsync(at, 2, 16, second)), (0, 0));
        assert_eq!((cudaMemsetAsync(at, 3, 16, first), cudaEventRecord(fork, first)), (0, 0));
        assert_eq!(cudaStreamWaitEvent(second, fork, 0), 902, "an event of another capture");
        assert_eq!((cudaStreamWaitEvent(third, fork, 0), captured(third)), (0, captured(first)));
        assert_eq!(cudaStreamEndCapture(third, &raw mut one), 903, "it began elsewhere");
        assert_eq!((cudaStreamEndCapture(first, &raw mut one), captured(second).0), (0, 1));
        assert_eq!(cudaStreamEndCapture(second, &raw mut other), 0);
        assert_eq!((nodes(one).len(), nodes(other).len(), captured(third).0), (2, 1, 0));
    }
}

unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: the test passes a number that lives as long.
    unsafe { *data.cast::<u32>() += 1 };
}

#[test]
fn user_objects_go_with_the_last_graph_that_keeps_them() {
    let _one = begin();
    let (mut gone, mut object, mut graph, mut whole, mut node) = (0u32, 0, 0, 0, 0);
    let (mut clone, mut ready) = (0, 0);
    let data = (&raw mut gone).cast::<c_void>();
    // SAFETY: all pointers lead to variables of this function, which live as long as the objects.
    unsafe {
        let seen = || data.cast::<u32>().read();
        let place = &raw mut object;
        assert_eq!(cudaUserObjectCreate(place, data, None, 1, 1), 1, "it has no destructor");
        assert_eq!(cudaUserObjectCreate(place, data, Some(count), 0, 1), 1, "it has no reference");
        assert_eq!(cudaUserObjectCreate(place, data, Some(count), 1, 0), 1, "nothing waits for it");
        // Without a graph.
        assert_eq!(cudaUserObjectCreate(place, data, Some(count), 1, 1), 0);
        assert_eq!((cudaUserObjectRetain(object, 2), cudaUserObjectRelease(object, 4)), (0, 1));
        assert_eq!((cudaUserObjectRetain(object, 0), cudaUserObjectRelease(object, 0)), (1, 1));
        assert_eq!((cudaUserObjectRelease(object, 2), seen()), (0, 0));
        assert_eq!((cudaUserObjectRelease(object, 1), seen(), cudaUserObjectRelease(object, 1)), (0, 1, 1));
        // The program's reference becomes the graph's; what is made of the graph has one too.
        assert_eq!((cudaGraphCreate(&raw mut graph, 0), cudaGraphCreate(&raw mut whole, 0)), (0, 0));
        assert_eq!(cudaUserObjectCreate(place, data, Some(count), 1, 1), 0);
        assert_eq!(cudaGraphRetainUserObject(graph, object, 2, 1), 1, "the program has one");
        assert_eq!(cudaGraphRetainUserObject(graph, object, 1, 2), 1, "no such flag");
        assert_eq!(cudaGraphRetainUserObject(graph, object, 1, 1), 0);
        assert_eq!(cudaUserObjectRelease(object, 1), 1, "the program has none");
        assert_eq!(cudaGraphRetainUserObject(77, object, 1, 0), 400);
        // A graph has as many references as it was given.
        assert_eq!(cudaGraphRetainUserObject(graph, object, 2, 0), 0);
        assert_eq!((cudaGraphReleaseUserObject(graph, object, 2), seen()), (0, 1));
        assert_eq!(cudaGraphClone(&raw mut clone, graph), 0);
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!(cudaGraphAddChildGraphNode(&raw mut node, whole, null(), 0, graph), 0);
        assert_eq!((cudaGraphReleaseUserObject(graph, object, 2), cudaGraphDestroy(graph)), (1, 0));
        assert_eq!((cudaGraphReleaseUserObject(clone, object, 1), seen()), (0, 1));
        assert_eq!((cudaGraphReleaseUserObject(clone, object, 1), cudaGraphDestroy(clone)), (1, 0));
        assert_eq!((cudaGraphExecDestroy(ready), seen()), (0, 1), "the child is left");
        assert_eq!((cudaGraphDestroy(whole), seen()), (0, 2));
    }
}
