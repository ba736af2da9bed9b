//! Attributes: of streams, of advice about memory of both sides, of nodes of graphs.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

mod common;

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use common::{begin, stream};
use warpsim_cuda::advice::{
    cudaMemAdvise, cudaMemAdvise_v2, cudaMemPrefetchAsync_v2, cudaMemRangeGetAttribute,
    cudaMemRangeGetAttributes,
};
use warpsim_cuda::events::cudaEventCreate;
use warpsim_cuda::graph::{Copy3D, Extent, Pitched};
use warpsim_cuda::graph_nodes::{
    cudaGraphAddDependencies_v2, cudaGraphAddEventWaitNode, cudaGraphExecUpdate,
    cudaGraphKernelNodeSetParams, cudaGraphNodeGetDependencies_v2, cudaGraphRemoveDependencies_v2,
};
use warpsim_cuda::graph_parameters::{
    cudaGraphEventRecordNodeGetEvent, cudaGraphEventWaitNodeGetEvent, cudaGraphEventWaitNodeSetEvent,
    cudaGraphKernelNodeCopyAttributes, cudaGraphKernelNodeGetAttribute, cudaGraphKernelNodeGetParams,
    cudaGraphKernelNodeSetAttribute, cudaGraphMemcpyNodeGetParams, cudaGraphNodeSetEnabled,
};
use warpsim_cuda::graphs::{
    KernelNode, cudaGraphAddEmptyNode, cudaGraphAddKernelNode, cudaGraphAddMemcpyNode1D, cudaGraphCreate,
    cudaGraphInstantiate,
};
use warpsim_cuda::launch::Dim3;
use warpsim_cuda::libraries::{cudaLibraryGetKernel, cudaLibraryLoadData};
use warpsim_cuda::memory::cudaMallocManaged;
use warpsim_cuda::stream_attributes::{
    Value, cudaStreamCopyAttributes, cudaStreamGetAttribute, cudaStreamSetAttribute,
};
use warpsim_cuda::streams::{cudaStreamCreateWithPriority, cudaStreamGetPriority};

const WINDOW: i32 = 1;
const SYNCHRONIZATION: i32 = 3;
const PRIORITY: i32 = 8;
const DOMAINS: i32 = 9;

/// The value of an access policy: so many bytes, a part of them, properties of hits and misses.
fn window(bytes: u64, ratio: f32, hit: u32, miss: u32) -> Value {
    let mut value = [0; 16];
    value[..4].copy_from_slice(&[0x1000_0000, 0, bytes as u32, (bytes >> 32) as u32]);
    value[4..7].copy_from_slice(&[ratio.to_bits(), hit, miss]);
    value
}

fn word(first: i32) -> Value {
    let mut value = [0; 16];
    value[0] = first as u32;
    value
}

#[test]
fn streams_take_values_of_their_attributes_and_no_others() {
    let _one = begin();
    let (first, second) = (stream(), stream());
    let set = |number, value: Value| {
        // SAFETY: a value.
        unsafe { cudaStreamSetAttribute(first, number, &raw const value) }
    };
    let get = |stream, number| {
        let mut value = [7; 16];
        // SAFETY: a place.
        assert_eq!(unsafe { cudaStreamGetAttribute(stream, number, &raw mut value) }, 0);
        value
    };
    assert_eq!((get(first, SYNCHRONIZATION), get(first, DOMAINS)[0]), (word(1), 0x100));
    for (number, value) in [
        (WINDOW, window(4096, 1.5, 1, 0)),
        (WINDOW, window(4096, -0.5, 1, 0)),
        (WINDOW, window(4096, f32::NAN, 1, 0)),
        (WINDOW, window(4096, 0.5, 3, 0)),
        (WINDOW, window(1 << 32, 0.5, 1, 0)),
        (SYNCHRONIZATION, word(0)),
        (SYNCHRONIZATION, word(5)),
        (10, word(2)),
        (2, word(1)),
    ] {
        assert_eq!(set(number, value), 1, "{number} {value:?}");
    }
    assert_eq!(set(WINDOW, window(128 << 20, 1.0, 2, 1)), 0);
    // SAFETY: the streams are ones; a place.
    unsafe {
        // What the other stream does not have is taken from this one.
        assert_eq!((set(SYNCHRONIZATION, word(3)), get(first, SYNCHRONIZATION)), (0, word(3)));
        assert_eq!(cudaStreamCopyAttributes(first, second), 0);
        assert_eq!((get(first, SYNCHRONIZATION), get(first, WINDOW)), (word(1), [0; 16]));
        // Priorities are brought into the range that the device has.
        let (mut third, mut told) = (null_mut(), 0);
        for (wanted, given) in [(-9, -5), (-2, -2), (4, 0)] {
            assert_eq!(set(PRIORITY, word(wanted)), 0);
            assert_eq!((cudaStreamGetPriority(first, &raw mut told), told), (0, given));
            assert_eq!(get(first, PRIORITY), word(given));
            assert_eq!(cudaStreamCreateWithPriority(&raw mut third, 0, wanted), 0);
            assert_eq!((cudaStreamGetPriority(third, &raw mut told), told), (0, given));
        }
        assert_eq!(cudaStreamCopyAttributes(first, 77 as *mut c_void), 400);
    }
}

#[test]
fn advice_is_taken_back_and_told_by_kind_of_place() {
    let _one = begin();
    let mut memory = null_mut();
    // SAFETY: a place.
    assert_eq!(unsafe { cudaMallocManaged(&raw mut memory, 2 * 4096, 1) }, 0);
    let at = memory as u64;
    let told = |number| {
        let mut value = 7i32;
        // SAFETY: a place of 4 bytes.
        let done = unsafe { cudaMemRangeGetAttribute((&raw mut value).cast(), 4, number, at, 8192) };
        (done, value)
    };
    let accessed = |size: usize| {
        let mut list = [7i32; 3];
        // SAFETY: a place of as many bytes at most.
        let done = unsafe { cudaMemRangeGetAttribute(list.as_mut_ptr().cast(), size, 3, at, 8192) };
        (done, list)
    };
    // Places as the second version has them: kind and number; 1 is a device, 2 to 4 the host.
    let (device, host) = (1u64, 2u64);
    let advise = |advice, place| {
        // SAFETY: the memory is managed.
        unsafe { cudaMemAdvise_v2(at, 8192, advice, place) }
    };
    assert_eq!((advise(1, device), told(1), advise(2, device), told(1)), (0, (0, 1), 0, (0, 0)));
    assert_eq!((told(2), told(5), told(6)), ((0, -2), (0, 0), (0, 0)));
    assert_eq!((advise(3, device), told(2), told(5), told(6)), (0, (0, 0), (0, 1), (0, 0)));
    assert_eq!((advise(3, host), told(2), told(5)), (0, (0, -1), (0, 2)));
    assert_eq!((told(4), told(7)), ((0, -2), (0, 0)), "it was not brought anywhere");
    assert_eq!((advise(4, host), told(2), told(5)), (0, (0, -2), (0, 0)));
    assert_eq!(accessed(12), (0, [-2, -2, -2]));
    assert_eq!((advise(5, host), accessed(12)), (0, (0, [-1, -2, -2])));
    assert_eq!((advise(5, device), accessed(12), accessed(4)), (0, (0, [0, -1, -2]), (0, [0, 7, 7])));
    assert_eq!((advise(6, device), accessed(12)), (0, (0, [-1, -2, -2])));
    assert_eq!((advise(6, host), accessed(8)), (0, (0, [-2, -2, 7])));
    assert_eq!((accessed(0).0, accessed(6).0), (1, 1), "a list of numbers");
    assert_eq!((advise(3, 9), advise(3, 1 | 5 << 32)), (101, 101), "no such place");
    // SAFETY: the memory is managed; places of 4 bytes.
    unsafe {
        assert_eq!(cudaMemPrefetchAsync_v2(at, 8192, host, 0, null_mut()), 0);
        assert_eq!((told(4), told(7), told(8)), ((0, -1), (0, 2), (0, 0)));
        assert_eq!(cudaMemPrefetchAsync_v2(at, 8192, device, 0, null_mut()), 0);
        assert_eq!((told(4), told(7)), ((0, 0), (0, 1)));
        assert_eq!(cudaMemPrefetchAsync_v2(at, 8192, device, 0, 77 as *mut c_void), 400);
        assert_eq!(cudaMemAdvise(at, 8193, 1, 0), 1, "beyond the end");
        let mut value = 0i64;
        let wide = cudaMemRangeGetAttribute((&raw mut value).cast(), 8, 1, at, 8192);
        assert_eq!(wide, 1, "an attribute has 4 bytes");
        let mut values = [7i32; 2];
        let places = [(&raw mut values[0]).cast::<c_void>(), (&raw mut values[1]).cast()];
        let (sizes, numbers) = ([4usize; 2], [2, 4]);
        let list = (places.as_ptr(), sizes.as_ptr());
        assert_eq!(cudaMemRangeGetAttributes(list.0, list.1, numbers.as_ptr(), 2, at, 8192), 0);
        assert_eq!(values, [-2, 0]);
    }
}

const PTX: &CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
";

#[test]
fn nodes_keep_their_attributes_when_their_parameters_change() {
    let _one = begin();
    let (mut library, mut kernel, mut graph, mut nodes) = (0, 0, 0, [0; 2]);
    let get = |node, number| {
        let mut value = [7; 16];
        // SAFETY: a place.
        assert_eq!(unsafe { cudaGraphKernelNodeGetAttribute(node, number, &raw mut value) }, 0);
        value
    };
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        let image = PTX.as_ptr().cast();
        assert_eq!(cudaLibraryLoadData(&raw mut library, image, null(), null(), 0, null(), null(), 0), 0);
        assert_eq!(cudaLibraryGetKernel(&raw mut kernel, library, c"nothing".as_ptr()), 0);
        assert_eq!(cudaGraphCreate(&raw mut graph, 0), 0);
        let one = Dim3 { x: 1, y: 1, z: 1 };
        let (function, none) = (kernel as *const c_void, null());
        let own = KernelNode { function, grid: one, block: one, shared: 0, arguments: none, extra: null() };
        for node in &mut nodes {
            assert_eq!(cudaGraphAddKernelNode(node, graph, null(), 0, &raw const own), 0);
        }
        let [first, second] = nodes;
        // Cooperative, a priority, an access policy.
        for (number, value) in [(2, word(1)), (8, word(-3)), (1, window(4096, 0.5, 2, 1))] {
            assert_eq!(cudaGraphKernelNodeSetAttribute(first, number, &raw const value), 0);
            assert_eq!((get(first, number), get(second, number)), (value, [0; 16]));
        }
        let wide = KernelNode { block: Dim3 { x: 32, ..one }, ..own };
        assert_eq!(cudaGraphKernelNodeSetParams(first, &raw const wide), 0);
        let mut told = own;
        assert_eq!((cudaGraphKernelNodeGetParams(first, &raw mut told), told.block.x), (0, 32));
        assert_eq!((get(first, 2), get(first, 8)[0] as i32, get(first, 1)[2]), (word(1), -3, 4096));
        // CUDA 12, which is meant here, names the source first.
        assert_eq!(cudaGraphKernelNodeCopyAttributes(first, second), 0);
        assert_eq!((get(second, 2), get(second, 8)[0] as i32, get(second, 1)[2]), (word(1), -3, 4096));
    }
}

#[test]
fn nodes_that_do_something_else_are_refused() {
    let _one = begin();
    let (mut graph, mut other, mut empty, mut waits, mut copy, mut next) = (0, 0, 0, 0, 0, 0);
    let (mut event, mut told, mut ready, mut count) = (null_mut(), 0, 0, 9);
    let none = Extent { width: 9, height: 9, depth: 9 };
    let side = Pitched { at: 9, pitch: 9, width: 9, height: 9 };
    let mut all = Copy3D {
        from_array: 9,
        from_position: none,
        from: side,
        to_array: 9,
        to_position: none,
        to: side,
        extent: none,
        kind: 9,
    };
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!((cudaGraphCreate(&raw mut graph, 0), cudaGraphCreate(&raw mut other, 0)), (0, 0));
        assert_eq!(cudaEventCreate(&raw mut event), 0);
        assert_eq!(cudaGraphAddEmptyNode(&raw mut empty, graph, null(), 0), 0);
        assert_eq!(cudaGraphAddEventWaitNode(&raw mut waits, graph, null(), 0, event), 0);
        assert_eq!(cudaGraphAddMemcpyNode1D(&raw mut copy, graph, &raw const empty, 1, 64, 32, 16, 0), 0);
        assert_eq!((cudaGraphEventWaitNodeGetEvent(waits, &raw mut told), told), (0, event as usize));
        assert_eq!(cudaGraphEventRecordNodeGetEvent(waits, &raw mut told), 1, "it waits");
        assert_eq!(cudaGraphEventWaitNodeSetEvent(waits, 77), 400, "no event");
        assert_eq!(cudaGraphMemcpyNodeGetParams(waits, &raw mut all), 1);
        assert_eq!(cudaGraphMemcpyNodeGetParams(copy, &raw mut all), 0);
        assert_eq!((all.to.at, all.from.at, all.kind, all.to_array, all.from_array), (64, 32, 0, 0, 0));
        assert_eq!((all.extent.width, all.extent.height, all.extent.depth), (16, 1, 1));
        // A node waits for no node twice, and not for itself.
        let depend = |from: &usize, to: &usize| {
            cudaGraphAddDependencies_v2(graph, std::ptr::from_ref(from), std::ptr::from_ref(to), 0, 1)
        };
        assert_eq!((depend(&waits, &copy), depend(&waits, &copy), depend(&copy, &copy)), (0, 1, 1));
        assert_eq!(cudaGraphNodeGetDependencies_v2(copy, null_mut(), null_mut(), &raw mut count), 0);
        assert_eq!(count, 2);
        let removed = cudaGraphRemoveDependencies_v2(graph, &raw const waits, &raw const empty, 0, 1);
        assert_eq!(removed, 1, "it is not there");
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!(cudaGraphNodeSetEnabled(ready, copy, 0), 0);
        assert_eq!(
            (cudaGraphNodeSetEnabled(ready, empty, 0), cudaGraphNodeSetEnabled(ready, waits, 0)),
            (1, 1)
        );
        assert_eq!(cudaGraphNodeSetEnabled(graph, copy, 0), 400, "the graph is not executable");
        // A graph of the same nodes with other dependencies is no update.
        let mut info = [9usize; 3];
        let mut update = |graph| cudaGraphExecUpdate(ready, graph, info.as_mut_ptr() as usize, 0);
        assert_eq!(update(graph), 0);
        assert_eq!(cudaGraphRemoveDependencies_v2(graph, &raw const waits, &raw const copy, 0, 1), 0);
        assert_eq!(update(graph), 910);
        assert_eq!(cudaGraphAddEmptyNode(&raw mut next, other, null(), 0), 0);
        assert_eq!(update(other), 910);
    }
}
