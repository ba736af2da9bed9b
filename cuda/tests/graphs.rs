//! Captures and graphs of the runtime API: parameters of nodes, memory of graphs, what streams depend on; libraries,
//! attributes of streams, advice.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

mod common;

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use common::{begin, event, stream};
use warpsim_cuda::advice::{cudaMemAdvise, cudaMemPrefetchAsync, cudaMemRangeGetAttribute};
use warpsim_cuda::captures::{
    cudaStreamBeginCapture, cudaStreamBeginCaptureToGraph, cudaStreamEndCapture, cudaStreamGetCaptureInfo_v3,
    cudaStreamUpdateCaptureDependencies_v2,
};
use warpsim_cuda::events::cudaEventRecord;
use warpsim_cuda::graph_memory::{cudaDeviceGetGraphMemAttribute, cudaGraphMemFreeNodeGetParams};
use warpsim_cuda::graph_nodes::{
    cudaGraphExecKernelNodeSetParams, cudaGraphGetEdges_v2, cudaGraphNodeGetType,
};
use warpsim_cuda::graph_parameters::{
    cudaGraphAddNode_v2, cudaGraphExecGetFlags, cudaGraphKernelNodeGetAttribute,
    cudaGraphKernelNodeGetParams, cudaGraphKernelNodeSetAttribute, cudaGraphNodeGetEnabled,
    cudaGraphNodeSetEnabled, cudaGraphNodeSetParams,
};
use warpsim_cuda::graphs::{
    KernelNode, cudaGraphAddEmptyNode, cudaGraphCreate, cudaGraphDestroy, cudaGraphExecDestroy,
    cudaGraphGetNodes, cudaGraphInstantiate, cudaGraphLaunch,
};
use warpsim_cuda::launch::{Dim3, cudaFuncGetName, cudaLaunchKernel};
use warpsim_cuda::libraries::{
    cudaFuncGetParamCount, cudaFuncGetParamInfo, cudaKernelSetAttributeForDevice, cudaLibraryGetGlobal,
    cudaLibraryGetKernel, cudaLibraryGetKernelCount, cudaLibraryLoadData, cudaLibraryUnload,
};
use warpsim_cuda::memory::{
    cudaFree, cudaMalloc, cudaMallocManaged, cudaMemGetInfo, cudaMemcpy, cudaMemcpy2DAsync,
    cudaMemcpyPeerAsync, cudaMemset, cudaMemset3D, cudaMemsetAsync,
};
use warpsim_cuda::pools::{cudaFreeAsync, cudaMallocAsync};
use warpsim_cuda::stream_attributes::{
    cudaStreamCopyAttributes, cudaStreamGetAttribute, cudaStreamSetAttribute,
};
use warpsim_cuda::streams::{cudaStreamGetPriority, cudaStreamSynchronize, cudaStreamWaitEvent};

const PTX: &CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 start = 9;
.visible .entry add(.param .u64 at, .param .u32 value) {
    .reg .b64 %a, %b;
    .reg .b32 %r, %s, %t;
    ld.param.u64 %a, [at];
    ld.param.u32 %s, [value];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %b, %t, 4;
    add.s64 %a, %a, %b;
    ld.global.u32 %r, [%a];
    add.u32 %r, %r, %s;
    st.global.u32 [%a], %r;
    ret;
}
";

const TO_HOST: i32 = 2;
const WITHIN: i32 = 3;

fn one(x: u32) -> Dim3 {
    Dim3 { x, y: 1, z: 1 }
}

/// A library, and its kernel.
fn loaded() -> (usize, *const c_void) {
    let (mut library, mut kernel) = (0, 0);
    // SAFETY: a PTX text and places.
    unsafe {
        let image = PTX.as_ptr().cast();
        let none = (null(), null());
        assert_eq!(cudaLibraryLoadData(&raw mut library, image, none.0, none.1, 0, null(), null(), 0), 0);
        assert_eq!(cudaLibraryGetKernel(&raw mut kernel, library, c"add".as_ptr()), 0);
    }
    (library, kernel as *const c_void)
}

fn memory(words: usize) -> *mut c_void {
    let mut at = null_mut();
    // SAFETY: a place.
    unsafe { assert_eq!((cudaMalloc(&raw mut at, 4 * words), cudaMemset(at, 0, 4 * words)), (0, 0)) };
    at
}

fn words(at: *mut c_void, n: usize) -> Vec<u32> {
    let mut words = vec![0u32; n];
    // SAFETY: `words` has so many bytes.
    assert_eq!(unsafe { cudaMemcpy(words.as_mut_ptr().cast(), at, 4 * n, TO_HOST) }, 0);
    words
}

/// `add<<<1, 32, 0, stream>>>(at, value)`.
fn add(kernel: *const c_void, at: *mut c_void, value: u32, stream: *mut c_void) -> i32 {
    let mut arguments = [(&raw const at).cast::<c_void>().cast_mut(), (&raw const value).cast_mut().cast()];
    // SAFETY: a pointer to each argument.
    unsafe { cudaLaunchKernel(kernel, one(1), one(32), arguments.as_mut_ptr(), 0, stream) }
}

fn nodes(graph: usize) -> Vec<usize> {
    let mut count = 0;
    // SAFETY: as many places as nodes.
    unsafe {
        assert_eq!(cudaGraphGetNodes(graph, null_mut(), &raw mut count), 0);
        let mut all = vec![0; count];
        assert_eq!(cudaGraphGetNodes(graph, all.as_mut_ptr(), &raw mut count), 0);
        all
    }
}

#[test]
fn libraries_have_kernels_with_names_and_parameters_and_variables() {
    let _one = begin();
    let (mut library, kernel) = loaded();
    let (mut count, mut name, mut offset, mut size, mut params) = (0, null(), 0, 0, 0);
    let (mut at, mut bytes) = (0u64, 0usize);
    // SAFETY: texts and places.
    unsafe {
        assert_eq!((cudaLibraryGetKernelCount(&raw mut count, library), count), (0, 1));
        assert_eq!(cudaFuncGetName(&raw mut name, kernel), 0);
        assert_eq!(CStr::from_ptr(name), c"add");
        assert_eq!(cudaFuncGetParamInfo(kernel, 1, &raw mut offset, &raw mut size), 0);
        assert_eq!((offset, size, cudaFuncGetParamInfo(kernel, 2, &raw mut offset, null_mut())), (8, 4, 1));
        assert_eq!((cudaFuncGetParamCount(kernel, &raw mut params), params), (0, 2));
        assert_eq!(cudaLibraryGetGlobal(&raw mut at, &raw mut bytes, library, c"start".as_ptr()), 0);
        assert_eq!((bytes, words(at as *mut c_void, 1)), (4, vec![9]));
        assert_eq!(cudaLibraryGetGlobal(&raw mut at, null_mut(), library, c"none".as_ptr()), 500);
        assert_eq!(cudaKernelSetAttributeForDevice(kernel, 8, 1024, 0), 0);
        assert_eq!(cudaKernelSetAttributeForDevice(kernel, 8, 1024, 1), 101, "there is one device");
        let device = memory(32);
        assert_eq!((add(kernel, device, 5, null_mut()), words(device, 32)), (0, vec![5; 32]));
        assert_eq!((cudaLibraryUnload(library), cudaLibraryUnload(library)), (0, 400));
        assert_eq!(add(kernel, device, 5, null_mut()), 98, "the kernel went with its library");
        let none = c"no image".as_ptr().cast();
        assert_eq!(cudaLibraryLoadData(&raw mut library, none, null(), null(), 0, null(), null(), 0), 200);
    }
}

#[test]
fn streams_of_a_capture_depend_on_what_they_had_and_must_be_joined() {
    let _one = begin();
    let (_, kernel) = loaded();
    let device = memory(64);
    let (first, second, fork, join) = (stream(), stream(), event(), event());
    let (mut graph, mut ready) = (0, 0);
    let (mut from, mut to, mut count) = ([0usize; 8], [0usize; 8], 8usize);
    let other = device.wrapping_byte_add(128);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        let forked = || {
            assert_eq!(cudaStreamBeginCapture(first, 0), 0);
            assert_eq!(add(kernel, device, 1, first), 0);
            assert_eq!((cudaEventRecord(fork, first), cudaStreamWaitEvent(second, fork, 0)), (0, 0));
            assert_eq!((add(kernel, device, 2, first), add(kernel, other, 7, second)), (0, 0));
        };
        forked();
        assert_eq!(
            (cudaStreamEndCapture(first, &raw mut graph), graph),
            (904, 0),
            "the second stream is not joined"
        );
        forked();
        assert_eq!((cudaEventRecord(join, second), cudaStreamWaitEvent(first, join, 0)), (0, 0));
        // A copy of rows is captured too.
        assert_eq!(cudaMemcpy2DAsync(other, 64, device, 64, 64, 1, WITHIN, first), 0);
        assert_eq!(cudaStreamEndCapture(first, &raw mut graph), 0);
        assert_eq!(words(device, 64), [0; 64], "nothing has run");
        let all = nodes(graph);
        assert_eq!(all.len(), 4);
        assert_eq!(
            cudaGraphGetEdges_v2(graph, from.as_mut_ptr(), to.as_mut_ptr(), null_mut(), &raw mut count),
            0
        );
        let mut edges: Vec<_> = from.into_iter().zip(to).take(count).collect();
        edges.sort_unstable();
        let wanted = [(0, 1), (0, 2), (1, 3), (2, 3)].map(|(from, to)| (all[from], all[to]));
        assert_eq!(edges, wanted, "the second branch does not wait for the first one");
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!((cudaGraphLaunch(ready, first), cudaStreamSynchronize(first)), (0, 0));
    }
    let all = words(device, 64);
    assert_eq!((&all[..32], &all[32..48], &all[48..]), (&[3; 32][..], &[3; 16][..], &[7; 16][..]));
}

#[test]
fn a_capture_goes_into_a_graph_and_its_dependencies_are_told_and_changed() {
    let _one = begin();
    let (_, kernel) = loaded();
    let (device, first) = (memory(32), stream());
    let (mut graph, mut empty, mut more, mut ended) = (0, 0, 0, 0);
    let (mut status, mut id, mut told, mut count) = (0, 0, 0, 0);
    let (mut behind, mut edges) = (null(), null());
    // SAFETY: all pointers lead to variables of this function, or of the capture.
    unsafe {
        assert_eq!(cudaGraphCreate(&raw mut graph, 0), 0);
        assert_eq!(cudaGraphAddEmptyNode(&raw mut empty, graph, null(), 0), 0);
        let unknown = 77;
        assert_eq!(cudaStreamBeginCaptureToGraph(first, graph, &raw const unknown, 0, 1, 0), 1);
        assert_eq!(cudaStreamBeginCaptureToGraph(first, graph, &raw const empty, 0, 1, 0), 0);
        let mut info = || {
            let places = (&raw mut status, &raw mut id, &raw mut told);
            let lists = (&raw mut behind, &raw mut edges, &raw mut count);
            let done =
                cudaStreamGetCaptureInfo_v3(first, places.0, places.1, places.2, lists.0, lists.1, lists.2);
            assert_eq!((done, status, told), (0, 1, graph));
            std::slice::from_raw_parts(behind, count).to_vec()
        };
        assert_eq!(info(), [empty]);
        assert_eq!(add(kernel, device, 1, first), 0);
        let captured = nodes(graph)[1];
        assert_eq!(info(), [captured]);
        assert_eq!(cudaGraphAddEmptyNode(&raw mut more, graph, &raw const captured, 1), 0);
        assert_eq!(cudaStreamUpdateCaptureDependencies_v2(first, &raw const unknown, 0, 1, 0), 1);
        assert_eq!(cudaStreamUpdateCaptureDependencies_v2(first, &raw const more, 0, 1, 0), 0);
        assert_eq!(info(), [captured, more]);
        assert_eq!(cudaStreamUpdateCaptureDependencies_v2(first, &raw const more, 0, 1, 1), 0);
        assert_eq!(info(), [more]);
        assert_eq!((cudaStreamEndCapture(first, &raw mut ended), ended), (0, graph));
        assert_eq!(cudaStreamUpdateCaptureDependencies_v2(first, &raw const more, 0, 1, 1), 401);
    }
}

#[test]
fn parameters_of_a_kernels_node_are_told_and_changed() {
    let _one = begin();
    let (_, kernel) = loaded();
    let (device, first) = (memory(32), stream());
    let (mut graph, mut ready, mut enabled, mut flags) = (0, 0, 0, 0);
    let mut own = KernelNode {
        function: null(),
        grid: one(0),
        block: one(0),
        shared: 1,
        arguments: null(),
        extra: null(),
    };
    // SAFETY: all pointers lead to variables of this function, or into the node.
    unsafe {
        assert_eq!((cudaStreamBeginCapture(first, 0), add(kernel, device, 4, first)), (0, 0));
        assert_eq!(cudaStreamEndCapture(first, &raw mut graph), 0);
        let node = nodes(graph)[0];
        assert_eq!(cudaGraphKernelNodeGetParams(node, &raw mut own), 0);
        assert_eq!((own.function, own.grid, own.block, own.shared), (kernel, one(1), one(32), 0));
        let arguments = std::slice::from_raw_parts(own.arguments, 2);
        assert_eq!(arguments[0].cast::<*mut c_void>().read_unaligned(), device);
        assert_eq!(arguments[1].cast::<u32>().read_unaligned(), 4);
        // What CUDA's samples do: change an argument and set the parameters.
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 1), 0);
        let value = 6u32;
        let changed = [arguments[0], (&raw const value).cast()];
        own.arguments = changed.as_ptr();
        assert_eq!(cudaGraphExecKernelNodeSetParams(ready, node, &raw const own), 0);
        assert_eq!((cudaGraphLaunch(ready, first), words(device, 2)), (0, vec![6, 6]));
        assert_eq!((cudaGraphExecGetFlags(ready, &raw mut flags), flags), (0, 1));
        assert_eq!(cudaGraphNodeSetEnabled(ready, node, 0), 0);
        assert_eq!((cudaGraphNodeGetEnabled(ready, node, &raw mut enabled), enabled), (0, 0));
        assert_eq!(
            (cudaGraphLaunch(ready, first), words(device, 1)),
            (0, vec![6]),
            "a disabled node does nothing"
        );
        assert_eq!(cudaGraphNodeSetEnabled(ready, node, 1), 0);
        assert_eq!((cudaGraphLaunch(ready, first), words(device, 1)), (0, vec![12]));
        let (mut value, cooperative) = ([9u32; 16], 2);
        assert_eq!((cudaGraphKernelNodeGetAttribute(node, cooperative, &raw mut value), value[0]), (0, 0));
        value[0] = 1;
        assert_eq!(cudaGraphKernelNodeSetAttribute(node, cooperative, &raw const value), 0);
        value[0] = 0;
        assert_eq!((cudaGraphKernelNodeGetAttribute(node, cooperative, &raw mut value), value[0]), (0, 1));
        assert_eq!(cudaGraphKernelNodeSetAttribute(node, 13, &raw const value), 801);
    }
}

/// CUDA's `cudaGraphNodeParams`.
#[repr(C)]
struct Parameters {
    kind: i32,
    reserved: [i32; 3],
    words: [u64; 30],
}

#[test]
fn nodes_are_made_of_a_structure_of_every_type() {
    let _one = begin();
    let (device, first) = (memory(32), stream());
    let (mut graph, mut filled, mut memory, mut gone, mut ready, mut kind) = (0, 0, 0, 0, 0, 0);
    let mut fill = Parameters { kind: 2, reserved: [0; 3], words: [0; 30] };
    // Address, pitch, value and size of an element, elements, rows.
    fill.words[..5].copy_from_slice(&[device as u64, 128, 3 | 4 << 32, 32, 1]);
    let mut allocate = Parameters { kind: 10, reserved: [0; 3], words: [0; 30] };
    // Pinned memory of device 0; bytes behind the access descriptions.
    (allocate.words[0], allocate.words[1], allocate.words[13]) = (1, 1, 4096);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaGraphCreate(&raw mut graph, 0), 0);
        let all = (&raw mut fill).cast();
        assert_eq!(cudaGraphAddNode_v2(&raw mut filled, graph, null(), 0, 0, all), 0);
        assert_eq!(
            cudaGraphAddNode_v2(&raw mut memory, graph, &raw const filled, 0, 1, (&raw mut allocate).cast()),
            0
        );
        let at = allocate.words[14];
        assert_ne!(at, 0);
        let mut free = Parameters { kind: 11, reserved: [0; 3], words: [at; 30] };
        assert_eq!(
            cudaGraphAddNode_v2(&raw mut gone, graph, &raw const memory, 0, 1, (&raw mut free).cast()),
            0
        );
        assert_eq!((cudaGraphNodeGetType(memory, &raw mut kind), kind), (0, 10));
        let mut address = 0;
        assert_eq!((cudaGraphMemFreeNodeGetParams(gone, &raw mut address), address), (0, at));
        fill.words[2] = 8 | 4 << 32;
        assert_eq!(cudaGraphNodeSetParams(filled, (&raw const fill).cast()), 0);
        assert_eq!(cudaGraphNodeSetParams(memory, (&raw const fill).cast()), 1, "it is of another type");
        let mut semaphores = Parameters { kind: 8, reserved: [0; 3], words: [0; 30] };
        let all = (&raw mut semaphores).cast();
        assert_eq!(cudaGraphAddNode_v2(&raw mut gone, graph, null(), 0, 0, all), 801);
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!((cudaGraphLaunch(ready, first), words(device, 32)), (0, vec![8; 32]));
    }
}

#[test]
fn memory_of_a_graph_is_there_as_long_as_it_is_used() {
    let _one = begin();
    let (_, kernel) = loaded();
    let (device, first) = (memory(32), stream());
    let (mut graph, mut ready, mut at) = (0, 0, null_mut());
    let free = || {
        let (mut free, mut total) = (0, 0);
        // SAFETY: places.
        assert_eq!(unsafe { cudaMemGetInfo(&raw mut free, &raw mut total) }, 0);
        free
    };
    let attribute = |number| {
        let mut value = 0;
        // SAFETY: a place.
        assert_eq!(unsafe { cudaDeviceGetGraphMemAttribute(0, number, &raw mut value) }, 0);
        value
    };
    let before = free();
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaStreamBeginCapture(first, 0), 0);
        assert_eq!(cudaMallocAsync(&raw mut at, 4096, first), 0);
        assert_eq!((cudaMemsetAsync(at, 1, 128, first), add(kernel, at, 1, first)), (0, 0));
        assert_eq!(cudaMemcpyPeerAsync(device, 0, at, 0, 128, first), 0);
        assert_eq!(cudaFreeAsync(at, first), 0);
        assert_eq!(cudaStreamEndCapture(first, &raw mut graph), 0);
        assert_eq!((nodes(graph).len(), attribute(0), attribute(2)), (5, 0, 4096));
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        for _ in 0..2 {
            assert_eq!((cudaGraphLaunch(ready, first), words(device, 32)), (0, vec![0x0101_0102; 32]));
        }
        assert_eq!((attribute(0), attribute(1)), (0, 4096), "in use, and at most");
        assert_eq!((cudaGraphExecDestroy(ready), cudaGraphDestroy(graph)), (0, 0));
        assert_eq!(free(), before, "it went with the graph");
        // Memory that the graph does not free is the program's until it frees it.
        assert_eq!(cudaStreamBeginCapture(first, 0), 0);
        assert_eq!((cudaMallocAsync(&raw mut at, 4096, first), cudaMemsetAsync(at, 2, 128, first)), (0, 0));
        assert_eq!(cudaStreamEndCapture(first, &raw mut graph), 0);
        assert_eq!(cudaFree(at), 1, "the graph has not run");
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!((cudaGraphLaunch(ready, first), cudaGraphLaunch(ready, first)), (0, 1));
        assert_eq!((words(at, 32), cudaFree(at), cudaFree(at)), (vec![0x0202_0202; 32], 0, 1));
        assert_eq!(cudaGraphLaunch(ready, first), 0);
        assert_eq!((cudaGraphExecDestroy(ready), cudaGraphDestroy(graph), attribute(0)), (0, 0, 4096));
        assert_eq!((words(at, 32), cudaFree(at), free()), (vec![0x0202_0202; 32], 0, before));
        // `cudaGraphInstantiateFlagAutoFreeOnLaunch`.
        assert_eq!((cudaStreamBeginCapture(first, 0), cudaMallocAsync(&raw mut at, 512, first)), (0, 0));
        assert_eq!(cudaStreamEndCapture(first, &raw mut graph), 0);
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 1), 0);
        assert_eq!((cudaGraphLaunch(ready, first), cudaGraphLaunch(ready, first)), (0, 0));
    }
}

#[test]
fn attributes_of_streams_are_kept_told_and_copied() {
    let _one = begin();
    let (first, second) = (stream(), stream());
    let (mut window, mut told, mut priority) = ([0u32; 16], [0u32; 16], 1);
    // Address, bytes, ratio, properties of hits and misses.
    (window[0], window[2], window[4], window[5], window[6]) = (0x1000_0000, 4096, 0.5f32.to_bits(), 2, 1);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaStreamSetAttribute(first, 1, &raw const window), 0);
        assert_eq!((cudaStreamGetAttribute(first, 1, &raw mut told), told), (0, window));
        assert_eq!((cudaStreamGetAttribute(second, 1, &raw mut told), told), (0, [0; 16]));
        assert_eq!(cudaStreamSetAttribute(first, 8, [(-3i32) as u32; 16].as_ptr().cast()), 0);
        assert_eq!(cudaStreamCopyAttributes(second, first), 0);
        assert_eq!((cudaStreamGetAttribute(second, 1, &raw mut told), told), (0, window));
        assert_eq!((cudaStreamGetPriority(second, &raw mut priority), priority), (0, -3));
        window[6] = 2;
        assert_eq!(cudaStreamSetAttribute(first, 1, &raw const window), 1, "misses do not persist");
        assert_eq!(cudaStreamSetAttribute(first, 4, &raw const window), 1, "a stream has no clusters");
    }
}

#[test]
fn advice_is_kept_by_page_and_told() {
    let _one = begin();
    let mut at = null_mut();
    let told = |at: *mut c_void, number, bytes| {
        let mut value = 7i32;
        // SAFETY: a place of 4 bytes.
        unsafe {
            let done = cudaMemRangeGetAttribute((&raw mut value).cast(), 4, number, at as u64, bytes);
            (done, value)
        }
    };
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaMallocManaged(&raw mut at, 3 * 4096, 1), 0);
        assert_eq!((told(at, 1, 8192), told(at, 2, 8192)), ((0, 0), (0, -2)));
        assert_eq!(cudaMemAdvise(at as u64, 4096, 1, 0), 0);
        assert_eq!((told(at, 1, 4096), told(at, 1, 8192)), ((0, 1), (0, 0)), "not all pages have it");
        assert_eq!(cudaMemAdvise(at as u64, 8192, 3, -1i32 as u32 as u64), 0);
        assert_eq!((told(at, 2, 8192), told(at, 2, 12288)), ((0, -1), (0, -2)));
        assert_eq!(cudaMemPrefetchAsync(at as u64, 4096, 0, 0, null_mut()), 0);
        assert_eq!((told(at, 4, 4096), told(at, 9, 4096).0), ((0, 0), 1));
        assert_eq!(cudaMemAdvise(at as u64, 4096, 7, 0), 1, "no such advice");
        assert_eq!(cudaMemAdvise(at as u64, 4096, 1, 5), 101, "no such device");
        assert_eq!(cudaMemAdvise(memory(4) as u64, 16, 1, 0), 1, "memory of the device alone");
        assert_eq!((cudaFree(at), cudaMallocManaged(&raw mut at, 3 * 4096, 1)), (0, 0));
        assert_eq!(told(at, 1, 4096), (0, 0), "new memory has no advice");
    }
}

#[test]
fn boxes_are_filled() {
    let _one = begin();
    let device = memory(64);
    let at = warpsim_cuda::graph::Pitched { at: device as usize, pitch: 16, width: 16, height: 4 };
    let extent = warpsim_cuda::graph::Extent { width: 8, height: 2, depth: 3 };
    // SAFETY: the box lies in the memory.
    assert_eq!(unsafe { cudaMemset3D(at, 0x11, extent) }, 0);
    let filled = |i: &usize| i % 4 < 2 && i / 4 % 4 < 2 && i / 16 < 3;
    let wanted: Vec<u32> = (0..64).map(|i| if filled(&i) { 0x1111_1111 } else { 0 }).collect();
    assert_eq!(words(device, 64), wanted);
}
