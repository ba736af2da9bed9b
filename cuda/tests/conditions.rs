//! Conditional nodes of graphs: if, while and switch, in each other, and what CUDA refuses.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

mod common;

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use common::{begin, stream};
use warpsim_cuda::captures::{cudaStreamBeginCaptureToGraph, cudaStreamEndCapture};
use warpsim_cuda::conditions::driver::cuGraphConditionalHandleCreate;
use warpsim_cuda::conditions::{cudaGraphConditionalHandleCreate, cudaGraphConditionalHandleCreate_v2};
use warpsim_cuda::driver::graph_parameters::cuGraphAddNode_v2;
use warpsim_cuda::graph_nodes::{
    Updated, cudaGraphAddChildGraphNode, cudaGraphDestroyNode, cudaGraphExecUpdate, cudaGraphNodeGetType,
};
use warpsim_cuda::graph_parameters::{cudaGraphAddNode_v2, cudaGraphNodeSetParams};
use warpsim_cuda::graphs::{
    HostNode, KernelNode, cudaGraphAddEmptyNode, cudaGraphAddHostNode, cudaGraphAddKernelNode,
    cudaGraphClone, cudaGraphCreate, cudaGraphDestroy, cudaGraphExecDestroy, cudaGraphInstantiate,
    cudaGraphLaunch,
};
use warpsim_cuda::launch::{Dim3, cudaLaunchKernel};
use warpsim_cuda::libraries::{cudaLibraryGetKernel, cudaLibraryLoadData};
use warpsim_cuda::memory::{cudaMalloc, cudaMemGetInfo, cudaMemcpy, cudaMemset};

/// `step` counts and goes on while it is below a limit; `set` sets a condition; `add` adds.
const PTX: &CStr = c"
.version 8.3
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry step(.param .u64 handle, .param .u64 at, .param .u32 limit) {
    .reg .b64 %h, %a;
    .reg .b32 %r, %s;
    .reg .pred %p;
    ld.param.u64 %h, [handle];
    ld.param.u64 %a, [at];
    ld.param.u32 %s, [limit];
    ld.global.u32 %r, [%a];
    add.u32 %r, %r, 1;
    st.global.u32 [%a], %r;
    setp.lt.u32 %p, %r, %s;
    selp.u32 %r, 1, 0, %p;
    { .param .b64 a; .param .b32 b;
      st.param.b64 [a], %h;
      st.param.b32 [b], %r;
      call.uni cudaGraphSetConditional, (a, b); }
    ret;
}
.visible .entry set(.param .u64 handle, .param .u64 at, .param .u32 value) {
    .reg .b64 %h;
    .reg .b32 %r;
    ld.param.u64 %h, [handle];
    ld.param.u32 %r, [value];
    { .param .b64 a; .param .b32 b;
      st.param.b64 [a], %h;
      st.param.b32 [b], %r;
      call.uni cudaGraphSetConditional, (a, b); }
    ret;
}
.visible .entry add(.param .u64 handle, .param .u64 at, .param .u32 value) {
    .reg .b64 %a;
    .reg .b32 %r, %s;
    ld.param.u64 %a, [at];
    ld.param.u32 %s, [value];
    ld.global.u32 %r, [%a];
    add.u32 %r, %r, %s;
    st.global.u32 [%a], %r;
    ret;
}
";

const IF: i32 = 0;
const WHILE: i32 = 1;
const SWITCH: i32 = 2;
const DEFAULT: u32 = 1;

/// CUDA's `cudaGraphNodeParams` with those of a conditional node.
#[repr(C)]
struct Params {
    kind: i32,
    reserved: [i32; 3],
    handle: u64,
    condition: i32,
    size: u32,
    bodies: *const usize,
    rest: [u64; 27],
}

struct Kernels {
    step: *const c_void,
    set: *const c_void,
    add: *const c_void,
}

fn kernels() -> Kernels {
    let mut library = 0;
    let none = (null(), null());
    // SAFETY: a PTX text and places.
    unsafe {
        let image = PTX.as_ptr().cast();
        assert_eq!(cudaLibraryLoadData(&raw mut library, image, none.0, none.1, 0, null(), null(), 0), 0);
        let kernel = |name: &CStr| {
            let mut kernel = 0;
            assert_eq!(cudaLibraryGetKernel(&raw mut kernel, library, name.as_ptr()), 0);
            kernel as *const c_void
        };
        Kernels { step: kernel(c"step"), set: kernel(c"set"), add: kernel(c"add") }
    }
}

fn graph() -> usize {
    let mut graph = 0;
    // SAFETY: a place.
    assert_eq!(unsafe { cudaGraphCreate(&raw mut graph, 0) }, 0);
    graph
}

fn condition(graph: usize, value: u32, flags: u32) -> u64 {
    let mut handle = 0;
    // SAFETY: a place.
    assert_eq!(unsafe { cudaGraphConditionalHandleCreate(&raw mut handle, graph, value, flags) }, 0);
    handle
}

/// Adds a conditional node; gives the status, the node and its bodies.
fn conditional(
    graph: usize,
    after: &[usize],
    handle: u64,
    condition: i32,
    size: u32,
) -> (i32, usize, Vec<usize>) {
    let mut own =
        Params { kind: 13, reserved: [0; 3], handle, condition, size, bodies: null(), rest: [0; 27] };
    let mut node = 0;
    // SAFETY: places, as many handles, and the structure; CUDA gives as many bodies.
    unsafe {
        let all = (&raw mut own).cast();
        let status = cudaGraphAddNode_v2(&raw mut node, graph, after.as_ptr(), 0, after.len(), all);
        let bodies =
            if status == 0 { (0..size as usize).map(|i| *own.bodies.add(i)).collect() } else { Vec::new() };
        (status, node, bodies)
    }
}

/// Adds a node that launches one thread.
fn launch(
    graph: usize,
    after: &[usize],
    kernel: *const c_void,
    handle: u64,
    at: *mut c_void,
    value: u32,
) -> usize {
    let one = Dim3 { x: 1, y: 1, z: 1 };
    let arguments = [(&raw const handle).cast::<c_void>(), (&raw const at).cast(), (&raw const value).cast()];
    let extra = null();
    let own = KernelNode {
        function: kernel,
        grid: one,
        block: one,
        shared: 0,
        arguments: arguments.as_ptr(),
        extra,
    };
    let mut node = 0;
    // SAFETY: a place, the structure with a pointer to each argument, and as many handles.
    unsafe {
        let status =
            cudaGraphAddKernelNode(&raw mut node, graph, after.as_ptr(), after.len(), &raw const own);
        assert_eq!(status, 0);
    }
    node
}

fn executable(graph: usize) -> usize {
    let mut ready = 0;
    // SAFETY: a place.
    assert_eq!(unsafe { cudaGraphInstantiate(&raw mut ready, graph, 0) }, 0);
    ready
}

fn word() -> *mut c_void {
    let mut at = null_mut();
    // SAFETY: a place.
    unsafe { assert_eq!((cudaMalloc(&raw mut at, 4), cudaMemset(at, 0, 4)), (0, 0)) };
    at
}

fn value(at: *mut c_void) -> u32 {
    let mut value = 0u32;
    // SAFETY: a place of four bytes.
    assert_eq!(unsafe { cudaMemcpy((&raw mut value).cast(), at, 4, 2) }, 0);
    value
}

/// What a launch adds to a word.
fn adds(ready: usize, at: *mut c_void) -> u32 {
    let before = value(at);
    // SAFETY: a graph whose nodes have valid memory.
    assert_eq!(unsafe { cudaGraphLaunch(ready, null_mut()) }, 0);
    value(at) - before
}

#[test]
fn a_while_node_runs_its_body_until_a_kernel_ends_it() {
    let _one = begin();
    let (own, count, sum) = (kernels(), word(), word());
    let whole = graph();
    let handle = condition(whole, 1, DEFAULT);
    let before = launch(whole, &[], own.add, 0, sum, 100);
    let (status, node, bodies) = conditional(whole, &[before], handle, WHILE, 1);
    assert_eq!((status, bodies.len()), (0, 1));
    let (mut kind, first) = (0, launch(bodies[0], &[], own.add, 0, sum, 1));
    launch(bodies[0], &[first], own.step, handle, count, 10);
    launch(whole, &[node], own.add, 0, sum, 1000);
    let ready = executable(whole);
    // SAFETY: a place.
    unsafe { assert_eq!((cudaGraphNodeGetType(node, &raw mut kind), kind), (0, 13)) };
    assert_eq!((adds(ready, sum), value(count)), (1110, 10));
    // The default holds again: one more round, as the count is beyond the limit.
    assert_eq!((adds(ready, sum), value(count)), (1101, 11));
}

#[test]
fn conditions_without_a_default_keep_what_they_are() {
    let _one = begin();
    let (own, count) = (kernels(), word());
    let whole = graph();
    let handle = condition(whole, 1, 0);
    let (_, _, bodies) = conditional(whole, &[], handle, WHILE, 1);
    launch(bodies[0], &[], own.step, handle, count, 5);
    let ready = executable(whole);
    assert_eq!(adds(ready, count), 0, "its condition is 0 at first");
    let setter = graph();
    launch(setter, &[], own.set, handle, count, 7);
    assert_eq!((adds(executable(setter), count), adds(ready, count), adds(ready, count)), (0, 5, 0));
}

#[test]
fn if_and_switch_nodes_run_one_body_at_most() {
    let _one = begin();
    let (own, sum) = (kernels(), word());
    for (kind, bodies, expected) in [
        (IF, 1, [0, 1, 1, 1]),
        (IF, 2, [10, 1, 1, 1]),
        (SWITCH, 1, [1, 0, 0, 0]),
        (SWITCH, 3, [1, 10, 100, 0]),
    ] {
        for (set, adds_then) in expected.into_iter().enumerate() {
            let whole = graph();
            let handle = condition(whole, 9, DEFAULT);
            let setter = launch(whole, &[], own.set, handle, sum, set as u32);
            let (status, _, made) = conditional(whole, &[setter], handle, kind, bodies);
            assert_eq!((status, made.len()), (0, bodies as usize));
            for (i, body) in made.iter().enumerate() {
                launch(*body, &[], own.add, 0, sum, 10u32.pow(i as u32));
            }
            assert_eq!(adds(executable(whole), sum), adds_then, "{kind} of {bodies}, {set}");
        }
    }
}

/// While a count is below six: where it is odd, by a condition in the body, it adds to the sum. The bodies are captured.
#[test]
fn conditions_stand_in_bodies_of_others_and_bodies_are_captured() {
    let _one = begin();
    let (own, count, sum, first) = (kernels(), word(), word(), stream());
    let whole = graph();
    let outer = condition(whole, 1, DEFAULT);
    let (_, _, bodies) = conditional(whole, &[], outer, WHILE, 1);
    let inner = condition(bodies[0], 0, 0);
    let setter = launch(bodies[0], &[], own.set, inner, count, 1);
    let (_, node, inside) = conditional(bodies[0], &[setter], inner, IF, 1);
    launch(bodies[0], &[node], own.step, outer, count, 6);
    let one = Dim3 { x: 1, y: 1, z: 1 };
    let (zero, more, mut captured) = (0u64, 3u32, 0);
    let mut arguments = [
        (&raw const zero).cast::<c_void>().cast_mut(),
        (&raw const sum).cast_mut().cast(),
        (&raw const more).cast_mut().cast(),
    ];
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaStreamBeginCaptureToGraph(first, inside[0], null(), 0, 0, 0), 0);
        assert_eq!(cudaLaunchKernel(own.add, one, one, arguments.as_mut_ptr(), 0, first), 0);
        assert_eq!((cudaStreamEndCapture(first, &raw mut captured), captured), (0, inside[0]));
    }
    let ready = executable(whole);
    assert_eq!((adds(ready, sum), value(count)), (18, 6));
    // An executable graph is what the graphs were; an update takes what they are now.
    launch(inside[0], &[], own.add, 0, sum, 4);
    assert_eq!(adds(ready, sum), 3);
    let mut info = Updated { result: 0, node: 0, from: 0 };
    // SAFETY: a place.
    unsafe {
        let third = &raw mut info as usize;
        assert_eq!(
            (cudaGraphExecUpdate(ready, whole, third, 0), info.result),
            (910, 2),
            "a body has one node more"
        );
    }
    assert_eq!((adds(ready, sum), adds(executable(whole), sum)), (3, 7));
}

#[test]
fn what_cuda_refuses_of_conditions_is_refused() {
    let _one = begin();
    let (own, at) = (kernels(), word());
    let (whole, other) = (graph(), graph());
    let (mut handle, mut node, mut made) = (0u64, 0usize, 0usize);
    for (kind, size) in [(IF, 0), (IF, 3), (WHILE, 0), (WHILE, 2), (SWITCH, 0), (3, 1), (-1, 1)] {
        assert_eq!(conditional(whole, &[], condition(whole, 0, 0), kind, size).0, 1, "{kind} {size}");
    }
    assert_eq!(conditional(whole, &[], 4096, IF, 1).0, 1, "no handle");
    // SAFETY: places.
    unsafe {
        assert_eq!(cudaGraphConditionalHandleCreate(&raw mut handle, 5, 0, 0), 400);
        assert_eq!(cudaGraphConditionalHandleCreate(&raw mut handle, whole, 0, 2), 1);
        assert_eq!(cudaGraphInstantiate(&raw mut made, whole, 0), 1, "handles without nodes");
        assert_eq!(cudaGraphConditionalHandleCreate_v2(&raw mut handle, other, null_mut(), 3, DEFAULT), 0);
        let (status, conditional_node, bodies) = conditional(other, &[], handle, WHILE, 1);
        assert_eq!((status, conditional(other, &[], handle, IF, 1).0), (0, 1), "a handle has one node");
        assert_eq!(cudaGraphClone(&raw mut made, other), 801);
        assert_eq!(cudaGraphAddChildGraphNode(&raw mut node, whole, null(), 0, other), 801);
        let all = Params {
            kind: 13,
            reserved: [0; 3],
            handle,
            condition: IF,
            size: 1,
            bodies: null(),
            rest: [0; 27],
        };
        assert_eq!(cudaGraphNodeSetParams(conditional_node, (&raw const all).cast()), 801);
        assert_eq!(cudaGraphAddEmptyNode(&raw mut node, bodies[0], null(), 0), 0);
        let ready = executable(other);
        assert_eq!(cudaGraphLaunch(ready, null_mut()), 1, "nothing in the body ends it");
        let host = HostNode { function: Some(nothing), data: null_mut() };
        assert_eq!(cudaGraphAddHostNode(&raw mut node, bodies[0], null(), 0, &raw const host), 0);
        assert_eq!(cudaGraphInstantiate(&raw mut made, other, 0), 801, "bodies have no host functions");
        assert_eq!((cudaGraphDestroyNode(node), cudaGraphDestroyNode(conditional_node)), (0, 0));
        assert_eq!(
            cudaGraphAddEmptyNode(&raw mut node, bodies[0], null(), 0),
            400,
            "bodies go with their node"
        );
        launch(other, &[], own.add, 0, at, 5);
        assert_eq!(adds(executable(other), at), 5);
    }
}

unsafe extern "C" fn nothing(_data: *mut c_void) {}

#[test]
fn conditions_are_given_back_with_the_last_graph_that_has_them() {
    let _one = begin();
    let (own, count) = (kernels(), word());
    let free = || {
        let (mut free, mut total) = (0, 0);
        // SAFETY: places.
        assert_eq!(unsafe { cudaMemGetInfo(&raw mut free, &raw mut total) }, 0);
        free
    };
    let before = free();
    let (mut handle, mut node, whole) = (0, 0, graph());
    // SAFETY: places and the structure.
    unsafe {
        let context = null_mut();
        assert_eq!(cuGraphConditionalHandleCreate(&raw mut handle, whole, context, 1, DEFAULT), 0);
        let mut all = Params {
            kind: 13,
            reserved: [0; 3],
            handle,
            condition: WHILE,
            size: 1,
            bodies: null(),
            rest: [0; 27],
        };
        assert_eq!(cuGraphAddNode_v2(&raw mut node, whole, null(), 0, 0, (&raw mut all).cast()), 0);
        launch(*all.bodies, &[], own.step, handle, count, 4);
        let ready = executable(whole);
        assert!(free() < before);
        assert_eq!(cudaGraphDestroy(whole), 0);
        assert_eq!((adds(ready, count), free() < before), (4, true));
        assert_eq!((cudaGraphExecDestroy(ready), free()), (0, before));
    }
}
