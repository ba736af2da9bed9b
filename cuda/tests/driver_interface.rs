//! The driver API, called as programs, Python packages and CUDA's static runtime call it.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use warpsim_cuda::driver::captures::{cuStreamBeginCapture_v2, cuStreamEndCapture};
use warpsim_cuda::driver::context::{
    cuCtxCreate_v2, cuCtxDestroy_v2, cuCtxGetApiVersion, cuCtxGetCurrent, cuCtxPopCurrent_v2,
    cuCtxPushCurrent_v2, cuCtxSetCurrent, cuCtxSynchronize, cuDevicePrimaryCtxGetState,
    cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxRetain,
};
use warpsim_cuda::driver::device::{
    cuDeviceGet, cuDeviceGetAttribute, cuDeviceGetCount, cuDeviceGetName, cuDeviceGetUuid,
    cuDeviceTotalMem_v2, cuInit,
};
use warpsim_cuda::driver::entries::cuGetProcAddress_v2;
use warpsim_cuda::driver::graphs::{cuGraphInstantiateWithFlags, cuGraphLaunch};
use warpsim_cuda::driver::launch::{cuLaunchKernel, cuOccupancyMaxPotentialBlockSize};
use warpsim_cuda::driver::linker::{cuLinkAddData_v2, cuLinkComplete, cuLinkCreate_v2, cuLinkDestroy};
use warpsim_cuda::driver::memory::{
    cuMemAlloc_v2, cuMemAllocManaged, cuMemFree_v2, cuMemGetAddressRange_v2, cuMemHostGetDevicePointer_v2,
    cuMemHostRegister_v2, cuMemHostUnregister, cuMemcpyDtoH_v2, cuMemcpyHtoD_v2, cuMemsetD32_v2,
};
use warpsim_cuda::driver::modules::{
    cuFuncGetAttribute, cuFuncGetParamInfo, cuFuncSetAttribute, cuKernelGetFunction, cuLibraryGetKernel,
    cuLibraryLoadData, cuLibraryUnload, cuModuleGetFunction, cuModuleGetGlobal_v2, cuModuleLoadData,
    cuModuleUnload,
};
use warpsim_cuda::driver::pointers::{cuPointerGetAttribute, cuPointerGetAttributes};
use warpsim_cuda::driver::stream_values::{
    cuStreamWaitValue32_v2, cuStreamWaitValue64_v2, cuStreamWriteValue32_v2, cuStreamWriteValue64_v2,
};
use warpsim_cuda::driver::streams::{
    cuEventCreate, cuEventElapsedTime, cuEventRecord, cuStreamCreate, cuStreamGetCtx, cuStreamSynchronize,
};
use warpsim_cuda::driver::tables::cuGetExportTable;
use warpsim_cuda::fatbin::make::{Packing, container, wrapper};

const PTX: &CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 factor = 2;
.visible .entry scale(.param .u64 at, .param .u32 n) {
    .reg .b64 %a, %b;
    .reg .b32 %r, %s, %t, %u;
    .reg .pred %p;
    ld.param.u64 %a, [at];
    ld.param.u32 %s, [n];
    mov.u32 %t, %tid.x;
    setp.ge.u32 %p, %t, %s;
    @%p ret;
    mul.wide.u32 %b, %t, 4;
    add.s64 %a, %a, %b;
    ld.global.u32 %r, [%a];
    ld.global.u32 %u, [factor];
    mul.lo.u32 %r, %r, %u;
    st.global.u32 [%a], %r;
    ret;
}
.visible .entry stop() { trap; }
";

const INVALID_VALUE: i32 = 1;
const INVALID_CONTEXT: i32 = 201;
const NO_BINARY: i32 = 209;
const INVALID_PTX: i32 = 218;
const INVALID_HANDLE: i32 = 400;
const NOT_FOUND: i32 = 500;
const CONTEXT_DESTROYED: i32 = 709;
const ALREADY_REGISTERED: i32 = 712;
const NOT_REGISTERED: i32 = 713;
const LAUNCH_FAILED: i32 = 719;

/// One test at a time, without a context.
fn begin() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: contexts of this thread.
    unsafe {
        assert_eq!(cuInit(0), 0);
        while cuCtxPopCurrent_v2(null_mut()) == 0 {}
        while cuDevicePrimaryCtxRelease_v2(0) == 0 {}
        assert_eq!(cuDevicePrimaryCtxReset_v2(0), 0);
    }
    guard
}

/// The primary context, made current.
fn primary() -> usize {
    let mut context = 0;
    // SAFETY: the place is valid.
    unsafe {
        assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, 0), 0);
        assert_eq!(cuCtxSetCurrent(context), 0);
    }
    context
}

fn loaded(image: &CStr) -> usize {
    let mut module = 0;
    // SAFETY: a PTX text.
    assert_eq!(unsafe { cuModuleLoadData(&raw mut module, image.as_ptr().cast()) }, 0);
    module
}

fn function(module: usize, name: &CStr) -> *const c_void {
    let mut function = 0;
    // SAFETY: a text.
    assert_eq!(unsafe { cuModuleGetFunction(&raw mut function, module, name.as_ptr()) }, 0);
    function as *const c_void
}

unsafe fn launch(function: *const c_void, threads: u32, stream: *mut c_void, at: u64, n: u32) -> i32 {
    let arguments = [(&raw const at).cast::<c_void>(), (&raw const n).cast()];
    // SAFETY: the arguments live here.
    unsafe { cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, arguments.as_ptr(), null()) }
}

fn memory(words: usize) -> u64 {
    let mut at = 0;
    // SAFETY: the place is valid.
    unsafe {
        assert_eq!(cuMemAlloc_v2(&raw mut at, 4 * words), 0);
        assert_eq!(cuMemsetD32_v2(at, 5, words), 0);
    }
    at
}

fn word(at: u64) -> u32 {
    let mut word = 0u32;
    // SAFETY: the place has four bytes.
    assert_eq!(unsafe { cuMemcpyDtoH_v2(&raw mut word as u64, at, 4) }, 0);
    word
}

#[test]
fn memory_of_the_host_is_registered_once_and_shared_while_it_is() {
    let _one = begin();
    primary();
    let scale = function(loaded(PTX), c"scale");
    let mut own = vec![7u32; 64];
    let (host, bytes) = (own.as_mut_ptr(), size_of_val(&own[..]));
    let mut at = 0;
    // SAFETY: the memory lives until it is unregistered.
    unsafe {
        assert_eq!(cuMemHostGetDevicePointer_v2(&raw mut at, host.cast(), 0), INVALID_VALUE);
        assert_eq!(cuMemHostRegister_v2(host as usize, bytes, 0), 0);
        assert_eq!(cuMemHostRegister_v2(host as usize, bytes, 0), ALREADY_REGISTERED);
        assert_eq!(cuMemHostGetDevicePointer_v2(&raw mut at, host.cast(), 0), 0);
        assert_eq!(launch(scale, 64, null_mut(), at, 64), 0);
        assert_eq!(cuCtxSynchronize(), 0);
        assert_eq!((host.read_volatile(), host.add(63).read_volatile()), (14, 14));
        assert_eq!(cuMemHostUnregister(host as usize), 0);
        assert_eq!(cuMemHostUnregister(host as usize), NOT_REGISTERED);
    }
}

#[test]
fn devices_tell_the_simulated_chip() {
    let _one = begin();
    let (mut count, mut device, mut sms, mut bytes, mut name, mut uuid) = (0, 7, 0, 0, [0u8; 64], [0; 16]);
    // SAFETY: the places are valid.
    unsafe {
        assert_eq!((cuDeviceGetCount(&raw mut count), count), (0, 1));
        assert_eq!((cuDeviceGet(&raw mut device, 0), device), (0, 0));
        assert_eq!(cuDeviceGet(&raw mut device, 1), 101);
        assert_eq!((cuDeviceGetAttribute(&raw mut sms, 16, 0), sms), (0, 68));
        assert_eq!(cuDeviceGetAttribute(&raw mut sms, 100_000, 0), INVALID_VALUE);
        assert_eq!((cuDeviceTotalMem_v2(&raw mut bytes, 0), bytes >> 30), (0, 11));
        assert_eq!(cuDeviceGetName(name.as_mut_ptr().cast(), 10, 0), 0);
        assert_eq!(&name[..10], b"warpsim G\0");
        assert_eq!((cuDeviceGetUuid(&raw mut uuid, 0), &uuid[..8]), (0, &b"warpsim "[..]));
    }
}

#[test]
fn contexts_are_stacked_and_take_what_they_own_with_them() {
    let _one = begin();
    let (mut context, mut other, mut current, mut at, mut version) = (0, 0, 1, 0, 0);
    // SAFETY: the places are valid.
    unsafe {
        assert_eq!((cuCtxGetCurrent(&raw mut current), current), (0, 0));
        assert_eq!(cuMemAlloc_v2(&raw mut at, 4), INVALID_CONTEXT);
        assert_eq!(cuCtxCreate_v2(&raw mut context, 0, 0), 0);
        assert_eq!(cuCtxCreate_v2(&raw mut other, 0, 0), 0);
        assert_eq!((cuCtxGetCurrent(&raw mut current), current), (0, other));
        let mut stream = null_mut();
        assert_eq!(cuStreamCreate(&raw mut stream, 1), 0);
        let scale = function(loaded(PTX), c"scale");
        let mine = memory(4);
        assert_eq!((cuCtxPopCurrent_v2(&raw mut current), current), (0, other));
        // What belongs to one context is not the other's.
        assert_eq!(cuStreamSynchronize(stream), INVALID_HANDLE);
        assert_eq!((cuStreamGetCtx(stream, &raw mut current), current), (0, other));
        assert_eq!(launch(scale, 4, null_mut(), mine, 4), INVALID_HANDLE);
        let yours = memory(4);
        assert_eq!(cuCtxPushCurrent_v2(other), 0);
        assert_eq!(cuCtxDestroy_v2(other), 0);
        assert_eq!((cuCtxGetCurrent(&raw mut current), current), (0, context));
        assert_eq!(cuMemFree_v2(mine), INVALID_VALUE);
        assert_eq!(cuStreamSynchronize(stream), INVALID_HANDLE);
        assert_eq!(word(yours), 5);
        assert_eq!(cuCtxPushCurrent_v2(other), INVALID_CONTEXT);
        assert_eq!(cuCtxGetApiVersion(other, &raw mut version), INVALID_CONTEXT);
        assert_eq!(cuCtxPushCurrent_v2(context), 0);
        assert_eq!(cuCtxDestroy_v2(context), 0);
        assert_eq!(cuCtxSynchronize(), CONTEXT_DESTROYED);
    }
}

#[test]
fn the_primary_context_is_counted() {
    let _one = begin();
    let first = primary();
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the places are valid.
    unsafe {
        assert_eq!(primary(), first);
        let at = memory(1);
        assert_eq!(cuDevicePrimaryCtxRelease_v2(0), 0);
        assert_eq!(word(at), 5);
        assert_eq!((cuDevicePrimaryCtxGetState(0, &raw mut flags, &raw mut active), active), (0, 1));
        assert_eq!(cuDevicePrimaryCtxRelease_v2(0), 0);
        assert_eq!((cuDevicePrimaryCtxGetState(0, &raw mut flags, &raw mut active), active), (0, 0));
        assert_eq!(cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
        assert_eq!(primary(), first);
        assert_eq!(cuMemFree_v2(at), INVALID_VALUE, "it went with the context");
    }
}

#[test]
fn kernels_of_modules_and_libraries_run() {
    let _one = begin();
    primary();
    let module = loaded(PTX);
    let scale = function(module, c"scale");
    let at = memory(100);
    let fat = container(&[(1, 70, PTX.to_bytes())], Packing::Lz4);
    let wrapper = wrapper(&fat);
    let (mut none, mut factor, mut size, mut library, mut kernel) = (0, 0, 0, 0, 0);
    // SAFETY: the places are valid, and images live.
    unsafe {
        assert_eq!(launch(scale, 100, null_mut(), at, 99), 0);
        assert_eq!((word(at), word(at + 4 * 98), word(at + 4 * 99)), (10, 10, 5));
        assert_eq!(cuModuleGetGlobal_v2(&raw mut factor, &raw mut size, module, c"factor".as_ptr()), 0);
        let seven = 7u32;
        assert_eq!((size, cuMemcpyHtoD_v2(factor, &raw const seven as u64, 4)), (4, 0));
        assert_eq!(launch(scale, 1, null_mut(), at, 1), 0);
        assert_eq!(word(at), 70);
        assert_eq!(cuModuleGetFunction(&raw mut none, module, c"none".as_ptr()), NOT_FOUND);
        assert_eq!(cuModuleGetFunction(&raw mut none, 4711, c"scale".as_ptr()), INVALID_HANDLE);
        assert_eq!(launch(scale, 2048, null_mut(), at, 1), INVALID_VALUE);
        // A library is another instance with variables of its own.
        let image = wrapper.as_ptr().cast();
        let load = |library| cuLibraryLoadData(library, image, null(), null(), 0, null(), null(), 0);
        assert_eq!(load(&raw mut library), 0);
        assert_eq!(cuLibraryGetKernel(&raw mut kernel, library, c"scale".as_ptr()), 0);
        assert_eq!((cuKernelGetFunction(&raw mut none, kernel), none), (0, kernel));
        assert_eq!(launch(kernel as *const c_void, 1, null_mut(), at, 1), 0);
        assert_eq!(word(at), 140);
        let (mut offset, mut bytes, mut registers, mut value) = (0, 0, 0, 0);
        assert_eq!(cuFuncGetParamInfo(scale, 1, &raw mut offset, &raw mut bytes), 0);
        assert_eq!((offset, bytes), (8, 4));
        assert_eq!(cuFuncGetParamInfo(scale, 2, &raw mut offset, &raw mut bytes), INVALID_VALUE);
        assert_eq!((cuFuncGetAttribute(&raw mut registers, 4, scale), registers > 0), (0, true));
        // What it was compiled for, and what it runs on.
        let mut version = |number| (cuFuncGetAttribute(&raw mut value, number, scale), value);
        assert_eq!((version(5), version(6)), ((0, 70), (0, 75)));
        assert_eq!(cuFuncSetAttribute(scale, 8, 1 << 20), INVALID_VALUE);
        let (mut blocks, mut threads) = (0, 0);
        let (b, t) = (&raw mut blocks, &raw mut threads);
        assert_eq!(cuOccupancyMaxPotentialBlockSize(b, t, scale, None, 0, 0), 0);
        assert_eq!((blocks, threads), (68, 1024));
        assert_eq!((cuLibraryUnload(library), cuModuleUnload(module)), (0, 0));
        assert_eq!(launch(scale, 1, null_mut(), at, 1), INVALID_HANDLE);
    }
}

#[test]
fn images_that_cannot_run_are_refused() {
    let _one = begin();
    primary();
    let mut module = 0;
    let mut load = |image: *const u8| {
        // SAFETY: images that live.
        unsafe { cuModuleLoadData(&raw mut module, image.cast()) }
    };
    let mut elf = [0u8; 64];
    elf[..4].copy_from_slice(b"\x7fELF");
    elf[48] = 75;
    assert_eq!(load(elf.as_ptr()), NO_BINARY);
    assert_eq!(load(c".version 7.0\n.target sm_70\n.entry k( {".as_ptr().cast()), INVALID_PTX);
    assert_eq!(load(c"nothing of the kind".as_ptr().cast()), NO_BINARY);
    assert_eq!(load(null()), INVALID_VALUE);
}

#[test]
fn texts_are_linked_and_captured_work_runs_again() {
    let _one = begin();
    primary();
    let (mut link, mut image, mut size) = (0, 0, 0);
    let (mut stream, mut graph, mut ready) = (null_mut(), 0, 0);
    let extra = c".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry other() { ret; }\n";
    // SAFETY: the places are valid, and images live.
    unsafe {
        assert_eq!(cuLinkCreate_v2(0, null(), null(), &raw mut link), 0);
        for text in [PTX, extra] {
            let bytes = text.to_bytes_with_nul();
            let add = cuLinkAddData_v2(link, 1, bytes.as_ptr(), bytes.len(), null(), 0, null(), null());
            assert_eq!(add, 0);
        }
        assert_eq!(cuLinkComplete(link, &raw mut image, &raw mut size), 0);
        let module = loaded(CStr::from_ptr(image as *const _));
        assert_eq!((cuLinkDestroy(link), cuLinkDestroy(link)), (0, INVALID_HANDLE));
        function(module, c"other");
        let scale = function(module, c"scale");
        let at = memory(1);
        assert_eq!(cuStreamCreate(&raw mut stream, 0), 0);
        assert_eq!(cuStreamBeginCapture_v2(stream), 0);
        assert_eq!(launch(scale, 1, stream, at, 1), 0);
        assert_eq!(cuStreamEndCapture(stream, &raw mut graph), 0);
        assert_eq!(word(at), 5, "nothing has run");
        assert_eq!(cuGraphInstantiateWithFlags(&raw mut ready, graph, 0), 0);
        assert_eq!((cuGraphLaunch(ready, stream), cuGraphLaunch(ready, stream)), (0, 0));
        assert_eq!(word(at), 20);
    }
}

#[test]
fn events_have_simulated_time_and_faults_stay() {
    let _one = begin();
    primary();
    let module = loaded(PTX);
    let (scale, stop) = (function(module, c"scale"), function(module, c"stop"));
    let at = memory(1);
    let (mut start, mut end, mut milliseconds) = (null_mut(), null_mut(), 0.0);
    // SAFETY: the places are valid.
    unsafe {
        assert_eq!((cuEventCreate(&raw mut start, 0), cuEventCreate(&raw mut end, 0)), (0, 0));
        assert_eq!(cuEventRecord(start, null_mut()), 0);
        assert_eq!(launch(scale, 32, null_mut(), at, 1), 0);
        assert_eq!(cuEventRecord(end, null_mut()), 0);
        assert_eq!(cuEventElapsedTime(&raw mut milliseconds, start, end), 0);
        assert!(milliseconds > 0.0 && milliseconds < 1.0, "{milliseconds}");
        let none = null();
        assert_eq!(cuLaunchKernel(stop, 1, 1, 1, 1, 1, 1, 0, null_mut(), none, null()), 0);
        assert_eq!(cuCtxSynchronize(), LAUNCH_FAILED);
        assert_eq!(cuMemFree_v2(at), LAUNCH_FAILED);
        assert_eq!(cuDevicePrimaryCtxReset_v2(0), 0);
        assert_eq!(word(memory(1)), 5);
    }
}

#[test]
fn addresses_tell_what_is_there() {
    let _one = begin();
    let context = primary();
    let at = memory(64);
    let (mut managed, mut base, mut size) = (null_mut(), 0, 0);
    let local = 0u32;
    // SAFETY: the places are valid.
    unsafe {
        assert_eq!(cuMemAllocManaged(&raw mut managed, 100, 1), 0);
        let ask = |number: i32, at: u64| {
            let mut value = 0u64;
            let status = cuPointerGetAttribute((&raw mut value).cast(), number, at);
            (status, value)
        };
        assert_eq!((ask(1, at), ask(2, at), ask(9, at)), ((0, context as u64), (0, 2), (0, 0)));
        assert_eq!((ask(8, at), ask(8, managed as u64), ask(11, at + 8)), ((0, 0), (0, 1), (0, at)));
        assert_eq!((ask(2, &raw const local as u64).0, ask(999, at).0), (INVALID_VALUE, INVALID_VALUE));
        let (mut kind, mut begin, mut bytes) = (9u32, 9u64, 9u64);
        let data: [*mut c_void; 3] =
            [(&raw mut kind).cast(), (&raw mut begin).cast(), (&raw mut bytes).cast()];
        let numbers = [2, 11, 12];
        assert_eq!(cuPointerGetAttributes(3, numbers.as_ptr(), data.as_ptr(), at + 4), 0);
        assert_eq!((kind, begin, bytes), (2, at, 256));
        assert_eq!(cuPointerGetAttributes(3, numbers.as_ptr(), data.as_ptr(), &raw const local as u64), 0);
        assert_eq!((kind, begin, bytes), (0, 0, 0));
        assert_eq!(cuMemGetAddressRange_v2(&raw mut base, &raw mut size, at + 100), 0);
        assert_eq!((base, size), (at, 256));
    }
}

/// How often a context said that it went.
static GONE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn gone(_context: usize, key: usize, value: usize) {
    GONE.fetch_add(key * value, Ordering::Relaxed);
}

#[test]
fn the_static_runtime_finds_its_tables() {
    let _one = begin();
    let context = primary();
    let table = |uuid: u128| {
        let (mut at, uuid) = (null(), uuid.to_be_bytes());
        // SAFETY: the places are valid.
        assert_eq!(unsafe { cuGetExportTable(&raw mut at, &raw const uuid) }, 0);
        at.cast::<*const ()>()
    };
    let storage = table(0xc693_336e_1121_df11_a8c3_68f3_55d8_9593);
    let interface = table(0x6bd5_fb6c_5bf4_e74a_8987_d939_12fd_9df9);
    let checks = table(0xd408_2055_bde6_704b_8d34_ba12_3c66_e1f2);
    type Put =
        unsafe extern "C" fn(usize, usize, usize, Option<unsafe extern "C" fn(usize, usize, usize)>) -> i32;
    type Get = unsafe extern "C" fn(*mut usize, usize, usize) -> i32;
    type Primary = unsafe extern "C" fn(*mut usize, i32) -> i32;
    type Check = unsafe extern "C" fn(u32, u64, *mut [u8; 16]) -> i32;
    // SAFETY: the slots have functions of these types.
    unsafe {
        let put: Put = std::mem::transmute(*storage);
        let get: Get = std::mem::transmute(*storage.add(2));
        let primary_of: Primary = std::mem::transmute(*interface.add(2));
        let check: Check = std::mem::transmute(*checks.add(1));
        let (mut value, mut found) = (0, 0);
        assert_eq!((primary_of(&raw mut found, 0), found), (0, context));
        assert_eq!(get(&raw mut value, 0, 3), INVALID_HANDLE);
        assert_eq!(put(0, 3, 14, Some(gone)), 0);
        assert_eq!((get(&raw mut value, context, 3), value), (0, 14));
        assert_eq!(cuDevicePrimaryCtxReset_v2(0), 0);
        assert_eq!((GONE.load(Ordering::Relaxed), get(&raw mut value, context, 3)), (42, INVALID_HANDLE));
        // The answer depends on the question and the time, and is the same for both.
        let answer = |version, seconds| {
            let mut out = [0; 16];
            assert_eq!(check(version, seconds, &raw mut out), 0);
            out
        };
        assert_eq!(answer(13_002, 1), answer(13_002, 1));
        assert_ne!(answer(13_002, 1), answer(13_002, 2));
        assert_eq!(answer(13_001, 1), answer(13_001, 2));
    }
}

#[test]
fn functions_are_found_by_name_and_version() {
    let _one = begin();
    let find = |name: &CStr, version| {
        let (mut at, mut status) = (null(), 9);
        // SAFETY: the places are valid.
        let code = unsafe { cuGetProcAddress_v2(name.as_ptr(), &raw mut at, version, 0, &raw mut status) };
        (code, at, status)
    };
    assert_eq!(find(c"cuMemAlloc", 13_000), (0, cuMemAlloc_v2 as *const c_void, 0));
    assert_eq!(find(c"cuNone", 13_000), (NOT_FOUND, null(), 1));
    assert_eq!(find(c"cuMemPrefetchAsync", 1000).2, 2);
}

#[test]
fn streams_write_values_and_wait_for_those_that_are_there() {
    let _one = begin();
    primary();
    let (at, mut stream) = (memory(4), null_mut());
    // SAFETY: the memory is the device's.
    unsafe {
        assert_eq!(cuStreamCreate(&raw mut stream, 0), 0);
        assert_eq!(cuStreamWriteValue32_v2(stream, at + 4, 9, 0), 0);
        assert_eq!(cuStreamWriteValue64_v2(stream, at + 8, 7 << 32 | 5, 0), 0);
        assert_eq!([4, 8, 12].map(|offset| word(at + offset)), [9, 5, 7]);
        let wait = |value, how| cuStreamWaitValue32_v2(stream, at + 4, value, how);
        assert_eq!((wait(9, 0), wait(8, 0), wait(9, 1), wait(8, 2), wait(9, 3)), (0, 0, 0, 0, 0));
        assert_eq!((wait(10, 0), wait(8, 1), wait(6, 2), wait(9, 8)), (801, 801, 801, INVALID_VALUE));
        assert_eq!(cuStreamWaitValue64_v2(stream, at + 8, 7 << 32 | 5, 1), 0);
        assert_eq!(cuStreamWaitValue64_v2(stream, at + 4, 5, 1), INVALID_VALUE, "no multiple of 8");
        assert_eq!(cuStreamWriteValue32_v2(77 as *mut c_void, at, 1, 0), INVALID_HANDLE);
        // Memory of the host that is registered has the host's address and the device's.
        let mut host = vec![0u32; 2048];
        let (mut device, mut kind) = (0u64, 0u32);
        let place = host.as_mut_ptr();
        assert_eq!(cuMemHostRegister_v2(place as usize, 8192, 2), 0);
        assert_eq!(cuMemHostGetDevicePointer_v2(&raw mut device, place.cast(), 0), 0);
        let offset = |number, at| {
            let mut value = 0u64;
            assert_eq!(cuPointerGetAttribute((&raw mut value).cast(), number, at), 0);
            value
        };
        for at in [place as u64 + 16, device + 16] {
            assert_eq!((offset(3, at), offset(4, at)), (device + 16, place as u64 + 16));
            assert_eq!(cuPointerGetAttribute((&raw mut kind).cast(), 2, at), 0);
            assert_eq!(kind, 1, "memory of the host");
        }
        assert_eq!((offset(12, device), cuMemHostUnregister(place as usize)), (8192, 0));
    }
}
