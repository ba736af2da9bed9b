//! Handles for other processes.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

mod common;

use std::ptr::null_mut;

use common::{begin, event};
use warpsim_cuda::driver::context::{cuCtxSetCurrent, cuDevicePrimaryCtxRetain};
use warpsim_cuda::driver::device::cuInit;
use warpsim_cuda::events::cudaEventCreateWithFlags;
use warpsim_cuda::ipc::driver::{
    cuIpcCloseMemHandle, cuIpcGetMemHandle, cuIpcOpenEventHandle, cuIpcOpenMemHandle_v2,
};
use warpsim_cuda::ipc::{
    Handle, cudaIpcCloseMemHandle, cudaIpcGetEventHandle, cudaIpcGetMemHandle, cudaIpcOpenEventHandle,
    cudaIpcOpenMemHandle,
};
use warpsim_cuda::memory::cudaMalloc;

#[test]
fn handles_of_memory_are_made_and_opened_by_no_process() {
    let _one = begin();
    let (mut at, mut own, mut inside, mut opened) = (null_mut(), Handle([0; 8]), Handle([0; 8]), 0u64);
    let mut host = 0u32;
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaMalloc(&raw mut at, 4096), 0);
        assert_eq!(cudaIpcGetMemHandle(&raw mut own, at), 0);
        assert_eq!((cudaIpcGetMemHandle(&raw mut inside, at.wrapping_byte_add(64)), inside), (0, own));
        assert_eq!(cudaIpcGetMemHandle(&raw mut inside, (&raw mut host).cast()), 1, "memory of the host");
        assert_eq!(cudaIpcGetMemHandle(null_mut(), at), 1);
        // CUDA opens none in the process that made it.
        assert_eq!(cudaIpcOpenMemHandle(&raw mut opened, own, 1), 201);
        assert_eq!(
            (cudaIpcOpenMemHandle(&raw mut opened, own, 0), cudaIpcOpenMemHandle(null_mut(), own, 1)),
            (1, 1)
        );
        assert_eq!(cudaIpcOpenMemHandle(&raw mut opened, Handle([7; 8]), 1), 400, "it is none");
        let mut other = own;
        other.0[1] += 1;
        assert_eq!(cudaIpcOpenMemHandle(&raw mut opened, other, 1), 801, "one of another process");
        assert_eq!((cudaIpcCloseMemHandle(at), opened), (1, 0));
        let mut context = 0;
        assert_eq!(
            (cuInit(0), cuDevicePrimaryCtxRetain(&raw mut context, 0), cuCtxSetCurrent(context)),
            (0, 0, 0)
        );
        assert_eq!((cuIpcGetMemHandle(&raw mut inside, at), inside), (0, own));
        assert_eq!(
            (cuIpcOpenMemHandle_v2(&raw mut opened, own, 1), cuIpcCloseMemHandle(at as u64)),
            (201, 1)
        );
        assert_eq!(cuIpcOpenEventHandle(&raw mut opened, own), 400, "a handle of memory");
    }
}

#[test]
fn handles_of_events_need_what_cuda_asks_for() {
    let _one = begin();
    let (mut shared, mut timed, mut own, mut opened) = (null_mut(), null_mut(), Handle([0; 8]), 0u64);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(
            (cudaEventCreateWithFlags(&raw mut shared, 6), cudaEventCreateWithFlags(&raw mut timed, 4)),
            (0, 0)
        );
        assert_eq!(cudaIpcGetEventHandle(&raw mut own, event()), 400, "it is not for other processes");
        assert_eq!(cudaIpcGetEventHandle(&raw mut own, timed), 400, "it keeps its time");
        assert_eq!(cudaIpcGetEventHandle(&raw mut own, null_mut()), 400);
        assert_eq!((cudaIpcGetEventHandle(&raw mut own, shared), own.0[2]), (0, shared as u64));
        assert_eq!(cudaIpcOpenEventHandle(&raw mut opened, own), 201);
        assert_eq!(
            (cudaIpcOpenMemHandle(&raw mut opened, own, 1), cudaIpcOpenEventHandle(null_mut(), own)),
            (400, 1)
        );
        own.0[1] += 1;
        assert_eq!((cudaIpcOpenEventHandle(&raw mut opened, own), opened), (801, 0));
    }
}
