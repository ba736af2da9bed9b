//! Operations of streams on values in memory: at once, in batches, as nodes of graphs and captured.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;

use common::{begin, stream};
use warpsim_cuda::captures::{cudaStreamBeginCapture, cudaStreamEndCapture};
use warpsim_cuda::driver::batches::{
    cuGraphAddBatchMemOpNode, cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeSetParams,
    cuGraphExecBatchMemOpNodeSetParams, cuStreamBatchMemOp, cuStreamBatchMemOp_v2,
};
use warpsim_cuda::driver::context::{cuCtxSetCurrent, cuDevicePrimaryCtxRetain};
use warpsim_cuda::driver::device::cuInit;
use warpsim_cuda::driver::entries::cuGetProcAddress_v2;
use warpsim_cuda::driver::stream_values::{
    Batch, cuStreamWaitValue32, cuStreamWaitValue64_v2, cuStreamWriteValue32, cuStreamWriteValue64_v2,
};
use warpsim_cuda::graph_nodes::cudaGraphNodeGetType;
use warpsim_cuda::graph_parameters::cudaGraphAddNode_v2;
use warpsim_cuda::graphs::{cudaGraphCreate, cudaGraphGetNodes, cudaGraphInstantiate, cudaGraphLaunch};
use warpsim_cuda::memory::{cudaMalloc, cudaMemcpy, cudaMemset};

type Operation = [u64; 6];

fn wait32(at: u64, value: u32, how: u64) -> Operation {
    // Bytes beyond a value of 32 bits mean nothing.
    [1 | 7 << 32, at, u64::from(value) | 9 << 32, how, 0, 0]
}

fn write32(at: u64, value: u32) -> Operation {
    [2, at, u64::from(value) | 9 << 32, 0, 0, 0]
}

fn write64(at: u64, value: u64) -> Operation {
    [5, at, value, 0, 0, 0]
}

fn wait64(at: u64, value: u64, how: u64) -> Operation {
    [4, at, value, how, 0, 0]
}

/// An atomic reduction: 0 adds, 5 is `and`, 6 is `or`; the types of 32 and 64 bits are 14 and 22.
fn reduce(operator: u64, bits: u32, at: u64, value: u64) -> Operation {
    [8, operator | (if bits == 32 { 14 } else { 22 }) << 32, at, value, 0, 0]
}

const FLUSH: Operation = [3, 0, 0, 0, 0, 0];
const BARRIER: Operation = [6 | 1 << 32, 0, 0, 0, 0, 0];

fn memory() -> u64 {
    let (mut at, mut context) = (null_mut(), 0);
    // SAFETY: places.
    unsafe {
        assert_eq!(
            (cuInit(0), cuDevicePrimaryCtxRetain(&raw mut context, 0), cuCtxSetCurrent(context)),
            (0, 0, 0)
        );
        assert_eq!((cudaMalloc(&raw mut at, 64), cudaMemset(at, 0, 64)), (0, 0));
    }
    at as u64
}

fn words(at: u64) -> [u32; 4] {
    let mut words = [0; 4];
    // SAFETY: a place of 16 bytes.
    assert_eq!(unsafe { cudaMemcpy(words.as_mut_ptr().cast(), at as *const c_void, 16, 2) }, 0);
    words
}

fn batch(all: &[Operation]) -> i32 {
    // SAFETY: as many structures.
    unsafe { cuStreamBatchMemOp_v2(null_mut(), all.len() as u32, all.as_ptr(), 0) }
}

#[test]
fn a_batch_performs_its_operations_in_order() {
    let _one = begin();
    let at = memory();
    let all = [
        write32(at, 5),
        wait32(at, 4, 0),
        FLUSH,
        write64(at + 8, 1 << 40),
        wait64(at + 8, 1 << 40, 1),
        BARRIER,
        reduce(0, 32, at, u64::from(u32::MAX)),
        reduce(6, 32, at + 4, 6),
        reduce(5, 32, at + 4, 3),
        reduce(0, 64, at + 8, 7),
    ];
    assert_eq!((batch(&all), words(at)), (0, [4, 2, 7, 1 << 8]));
    // SAFETY: as many structures.
    assert_eq!(unsafe { cuStreamBatchMemOp(null_mut(), 1, &raw const all[0], 0) }, 0);
    // What nothing has written is not waited for; what comes before has been done.
    assert_eq!((batch(&[write32(at, 8), wait32(at, 9, 1), write32(at, 10)]), words(at)[0]), (801, 8));
    // One operation that is none: nothing is done.
    for wrong in [
        [7, at, 0, 0, 0, 0],
        [0; 6],
        write32(0, 1),
        write32(at + 2, 1),
        write64(at + 4, 1),
        wait32(at, 1, 4),
        reduce(1, 32, at, 1),
        [8, 13 << 32, at, 1, 0, 0],
    ] {
        assert_eq!((batch(&[write32(at, 1), wrong]), words(at)[0]), (1, 8), "{wrong:x?}");
    }
    let mut function = std::ptr::null();
    // SAFETY: a name and a place.
    unsafe {
        let name = c"cuStreamBatchMemOp".as_ptr();
        assert_eq!(cuGetProcAddress_v2(name, &raw mut function, 11_070, 0, null_mut()), 0);
    }
    assert_eq!(function as usize, cuStreamBatchMemOp_v2 as *const () as usize);
}

#[test]
fn batches_are_nodes_and_streams_that_write_and_wait_are_captured() {
    let _one = begin();
    let (at, first) = (memory(), stream());
    let (mut graph, mut node, mut kind, mut ready, mut count) = (0, 0, 0, 0, 0);
    let (one, other) = ([write32(at, 3), reduce(0, 32, at + 4, 2)], [write32(at, 11)]);
    let mut told = Batch::of(&[]);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaGraphCreate(&raw mut graph, 0), 0);
        assert_eq!(cuGraphAddBatchMemOpNode(&raw mut node, graph, &raw const node, 0, &Batch::of(&one)), 0);
        assert_eq!((cudaGraphNodeGetType(node, &raw mut kind), kind), (0, 12));
        assert_eq!(cuGraphBatchMemOpNodeGetParams(node, &raw mut told), 0);
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!((words(at), cudaGraphLaunch(ready, first), words(at)), ([0; 4], 0, [3, 2, 0, 0]));
        // What the program was told of leads to the operations of the node.
        assert_eq!(cuGraphBatchMemOpNodeSetParams(node, &Batch::of(&other)), 0);
        assert_eq!((cudaGraphLaunch(ready, first), words(at)), (0, [3, 4, 0, 0]));
        assert_eq!(cuGraphExecBatchMemOpNodeSetParams(ready, node, &Batch::of(&other)), 0);
        assert_eq!((cudaGraphLaunch(ready, first), words(at)), (0, [11, 4, 0, 0]));
        assert_eq!(cuGraphBatchMemOpNodeSetParams(node, &Batch::of(&[[0; 6]])), 1);
        // The same by `cudaGraphAddNode`, whose parameters begin behind the type.
        let mut all = [0u64; 32];
        all[0] = 12;
        std::ptr::copy_nonoverlapping(
            std::ptr::from_ref(&Batch::of(&one)).cast::<u64>(),
            all[2..].as_mut_ptr(),
            4,
        );
        assert_eq!(
            cudaGraphAddNode_v2(&raw mut node, graph, &raw const node, 0, 0, all.as_mut_ptr().cast()),
            0
        );

        assert_eq!(cudaStreamBeginCapture(first, 0), 0);
        assert_eq!((cuStreamWriteValue32(first, at, 21, 0), cuStreamWaitValue32(first, at, 21, 1)), (0, 0));
        assert_eq!(cuStreamWriteValue64_v2(first, at + 8, 1 << 32, 0), 0);
        assert_eq!((cuStreamWaitValue64_v2(first, at + 8, 1 << 32, 1), words(at)), (0, [11, 4, 0, 0]));
        assert_eq!(cudaStreamEndCapture(first, &raw mut graph), 0);
        assert_eq!((cudaGraphGetNodes(graph, null_mut(), &raw mut count), count), (0, 4));
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!((cudaGraphLaunch(ready, first), words(at)), (0, [21, 4, 0, 1]));
        // By itself a wait for what is not there fails.
        assert_eq!(
            (cuStreamWaitValue32(first, at, 22, 1), cuStreamWriteValue32(first, at + 1, 1, 0)),
            (801, 1)
        );
    }
}
