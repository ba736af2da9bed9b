//! Memory pools of the runtime API: attributes, the pool that is current, captured allocations.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;

use common::begin;
use warpsim_cuda::captures::{cudaStreamBeginCapture, cudaStreamEndCapture};
use warpsim_cuda::graph_memory::{
    AllocateNode, cudaDeviceGetGraphMemAttribute, cudaDeviceGraphMemTrim, cudaDeviceSetGraphMemAttribute,
    cudaGraphAddMemAllocNode, cudaGraphMemAllocNodeGetParams,
};
use warpsim_cuda::graphs::{
    cudaGraphCreate, cudaGraphDestroy, cudaGraphExecDestroy, cudaGraphInstantiate, cudaGraphLaunch,
};
use warpsim_cuda::memory::{cudaFree, cudaMemGetInfo};
use warpsim_cuda::pools::{
    Access, Properties, cudaDeviceGetDefaultMemPool, cudaDeviceGetMemPool, cudaDeviceSetMemPool,
    cudaFreeAsync, cudaMallocAsync, cudaMallocFromPoolAsync, cudaMemPoolCreate, cudaMemPoolDestroy,
    cudaMemPoolGetAttribute, cudaMemPoolSetAccess, cudaMemPoolSetAttribute, cudaMemPoolTrimTo,
};
use warpsim_cuda::streams::cudaStreamCreate;

/// CUDA's `cudaMemPoolProps`: kind of allocation, kind of handles, kind of place, device, and what is reserved.
fn created(properties: [i32; 4]) -> (i32, *mut c_void) {
    let (mut pool, mut all) = (0, [0i32; 32]);
    all[..4].copy_from_slice(&properties);
    // SAFETY: the structure and a place.
    (unsafe { cudaMemPoolCreate(&raw mut pool, all.as_ptr().cast::<Properties>()) }, pool as *mut c_void)
}

fn number(pool: *mut c_void, attribute: i32) -> u64 {
    let mut value = 0u64;
    // SAFETY: a place for a value of either size.
    assert_eq!(unsafe { cudaMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()) }, 0);
    value
}

fn free_bytes() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: places.
    assert_eq!(unsafe { cudaMemGetInfo(&raw mut free, &raw mut total) }, 0);
    free
}

#[test]
fn pools_are_asked_changed_and_current() {
    let _one = begin();
    let (status, own) = created([1, 0, 1, 0]);
    assert_eq!(status, 0);
    for (wrong, status) in [([1, 1, 1, 0], 801), ([0, 0, 1, 0], 1), ([1, 0, 1, 1], 1), ([1, 0, 3, 0], 1)] {
        assert_eq!(created(wrong).0, status, "{wrong:?}");
    }
    let (mut default, mut current, mut first, mut second) = (0, 0, null_mut(), null_mut());
    let (threshold, zero, no) = (1u64 << 20, 0u64, 0i32);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        let set = |attribute, value: *const c_void| cudaMemPoolSetAttribute(own, attribute, value.cast_mut());
        assert_eq!((number(own, 1), number(own, 2), number(own, 3), number(own, 4)), (1, 1, 1, 0));
        assert_eq!(set(4, (&raw const threshold).cast()), 0);
        assert_eq!(set(2, (&raw const no).cast()), 0);
        assert_eq!((number(own, 1), number(own, 2), number(own, 3), number(own, 4)), (1, 0, 1, 1 << 20));
        assert_eq!((set(5, (&raw const zero).cast()), set(9, (&raw const zero).cast())), (1, 1));
        // A pool of which nothing was allocated is current at first.
        assert_eq!((cudaDeviceGetDefaultMemPool(&raw mut default, 0), cudaDeviceSetMemPool(0, own)), (0, 0));
        assert_eq!((cudaDeviceGetMemPool(&raw mut current, 0), current), (0, own as usize));
        assert_ne!(current, default);
        assert_eq!((cudaDeviceSetMemPool(1, own), cudaDeviceSetMemPool(0, null_mut())), (101, 1));
        assert_eq!(cudaMallocAsync(&raw mut first, 3000, null_mut()), 0);
        assert_eq!(cudaMallocFromPoolAsync(&raw mut second, 500, default as *mut c_void, null_mut()), 0);
        let of_default = default as *mut c_void;
        assert_eq!((number(own, 7), number(own, 8), number(of_default, 7)), (3000, 3000, 500));
        assert_eq!((cudaFreeAsync(first, null_mut()), cudaFree(second)), (0, 0));
        assert_eq!((number(own, 7), number(own, 8), number(of_default, 7)), (0, 3000, 0), "the most stays");
        assert_eq!((set(8, (&raw const threshold).cast()), number(own, 8)), (1, 3000), "it is set to 0 only");
        assert_eq!((set(8, (&raw const zero).cast()), number(own, 8)), (0, 0));
        // Who may access a pool.
        let with = |place, device, flags| {
            let access = Access { place, device, flags };
            cudaMemPoolSetAccess(own, &raw const access, 1)
        };
        assert_eq!((with(1, 0, 3), with(1, 0, 1), with(1, 1, 3), with(2, 0, 3)), (0, 1, 1, 1));
        // The pool goes, and the first one is current again.
        assert_eq!(
            (cudaMemPoolTrimTo(own, 0), cudaMemPoolDestroy(own), cudaMemPoolTrimTo(own, 0)),
            (0, 0, 1)
        );
        assert_eq!((cudaDeviceGetMemPool(&raw mut current, 0), current), (0, default));
        assert_eq!(cudaMemPoolDestroy(of_default), 1, "the device began with it");
    }
}

/// CUDA's `cudaMemAllocNodeParams` for so many bytes of a kind of place.
fn node(place: i32, bytes: u64) -> [u64; 15] {
    let mut all = [0; 15];
    (all[0], all[1], all[13]) = (1, place as u64, bytes);
    all
}

#[test]
fn memory_of_graphs_is_counted() {
    let _one = begin();
    let before = free_bytes();
    let attribute = |number| {
        let mut value = 7;
        // SAFETY: a place.
        let status = unsafe { cudaDeviceGetGraphMemAttribute(0, number, &raw mut value) };
        (status, value)
    };
    let reset = |number, value: u64| {
        // SAFETY: a number.
        unsafe { cudaDeviceSetGraphMemAttribute(0, number, &raw const value) }
    };
    let (mut graph, mut made, mut ready, mut told) = (0, 0, 0, node(0, 0));
    let (mut own, mut on_host, mut empty, unknown) = (node(1, 8192), node(2, 8192), node(1, 0), 77);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        let add = |all: &mut [u64; 15], made: &mut usize, after: *const usize, count, graph| {
            cudaGraphAddMemAllocNode(made, graph, after, count, all.as_mut_ptr().cast::<AllocateNode>())
        };
        assert_eq!(cudaGraphCreate(&raw mut graph, 0), 0);
        let none = std::ptr::null();
        assert_eq!(add(&mut on_host, &mut made, none, 0, graph), 801, "memory of the host");
        assert_eq!(add(&mut empty, &mut made, none, 0, graph), 1);
        assert_eq!(add(&mut own, &mut made, &raw const unknown, 1, graph), 1);
        assert_eq!(free_bytes(), before, "nothing is left of a node that was refused");
        assert_eq!(add(&mut own, &mut made, none, 0, graph), 0);
        assert_eq!(before - free_bytes(), 8192);
        assert_eq!(cudaGraphMemAllocNodeGetParams(made, told.as_mut_ptr().cast()), 0);
        assert_eq!((told[13], told[14], told[0]), (8192, own[14], 1));
        assert_eq!((0..4).map(attribute).collect::<Vec<_>>(), [(0, 0), (0, 0), (0, 8192), (0, 8192)]);
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!(cudaGraphLaunch(ready, null_mut()), 0);
        assert_eq!((0..4).map(attribute).collect::<Vec<_>>(), [(0, 8192); 4]);
        // Marks go back to what there is, not to nothing.
        assert_eq!((reset(1, 0), reset(3, 0), attribute(1), attribute(3)), (0, 0, (0, 8192), (0, 8192)));
        assert_eq!((reset(0, 0), reset(1, 5), attribute(4).0), (1, 1, 1));
        assert_eq!((cudaGraphExecDestroy(ready), cudaGraphDestroy(graph)), (0, 0));
        let at = own[14] as *mut c_void;
        assert_eq!((cudaFree(at), cudaFree(at), free_bytes()), (0, 1, before));
        assert_eq!((0..4).map(attribute).collect::<Vec<_>>(), [(0, 0), (0, 8192), (0, 0), (0, 8192)]);
        assert_eq!((reset(1, 0), reset(3, 0), attribute(1), attribute(3)), (0, 0, (0, 0), (0, 0)));
        assert_eq!((cudaDeviceGraphMemTrim(0), cudaDeviceGraphMemTrim(1)), (0, 101));
    }
}

#[test]
fn a_captured_allocation_is_no_allocation_of_its_pool() {
    let _one = begin();
    let (mut stream, mut graph, mut at) = (null_mut(), 0, null_mut());
    let (_, own) = created([1, 0, 1, 0]);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaStreamCreate(&raw mut stream), 0);
        assert_eq!(cudaStreamBeginCapture(stream, 0), 0);
        assert_eq!(cudaMallocFromPoolAsync(&raw mut at, 4096, own, stream), 0);
        assert_eq!(cudaMallocFromPoolAsync(&raw mut at, 0, own, stream), 1, "a node of no bytes");
        assert_eq!((number(own, 7), cudaFreeAsync(at, stream)), (0, 0));
        assert_eq!(cudaStreamEndCapture(stream, &raw mut graph), 0);
        assert_eq!((number(own, 8), cudaGraphDestroy(graph)), (0, 0));
    }
}
