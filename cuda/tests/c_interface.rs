//! The C interface, called as nvcc's code calls it: a fat binary is registered, then its kernels and variables; a
//! launch pushes its configuration, and the stand-in of the kernel pops it.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use warpsim::device::program::{ENVIRONMENT, LaunchLine, ProgramRequest};
use warpsim_cuda::captures::{cudaStreamBeginCapture, cudaStreamEndCapture, cudaStreamIsCapturing};
use warpsim_cuda::device::{
    cudaDeviceGetAttribute, cudaDeviceReset, cudaDeviceSetLimit, cudaDeviceSynchronize, cudaGetDeviceCount,
    cudaGetDeviceProperties_v2, cudaSetDevice,
};
use warpsim_cuda::errors::{cudaGetErrorName, cudaGetErrorString, cudaGetLastError, cudaPeekAtLastError};
use warpsim_cuda::events::{cudaEventCreate, cudaEventElapsedTime, cudaEventRecord, cudaEventSynchronize};
use warpsim_cuda::fatbin::make::{Packing, container, wrapper};
use warpsim_cuda::graph::Fill;
use warpsim_cuda::graph_nodes::{
    Updated, cudaGraphAddChildGraphNode, cudaGraphAddDependencies_v2, cudaGraphAddEventRecordNode,
    cudaGraphDebugDotPrint, cudaGraphDestroyNode, cudaGraphExecKernelNodeSetParams, cudaGraphExecUpdate,
    cudaGraphGetEdges_v2, cudaGraphGetRootNodes, cudaGraphKernelNodeSetParams, cudaGraphMemsetNodeSetParams,
    cudaGraphNodeFindInClone, cudaGraphNodeGetDependencies_v2, cudaGraphNodeGetDependentNodes_v2,
    cudaGraphNodeGetType, cudaGraphRemoveDependencies_v2,
};
use warpsim_cuda::graphs::{
    cudaGraphAddHostNode, cudaGraphAddKernelNode, cudaGraphAddMemcpyNode1D, cudaGraphAddMemsetNode,
    cudaGraphClone, cudaGraphCreate, cudaGraphDestroy, cudaGraphGetNodes, cudaGraphInstantiate,
    cudaGraphLaunch,
};
use warpsim_cuda::launch::{
    __cudaGetKernel, __cudaLaunchKernel, __cudaPopCallConfiguration, __cudaPushCallConfiguration, Dim3,
    cudaLaunchKernel,
};
use warpsim_cuda::memory::{
    cudaFree, cudaFreeHost, cudaMalloc, cudaMallocHost, cudaMallocManaged, cudaMemGetInfo, cudaMemcpy,
    cudaMemcpy2D, cudaMemcpyAsync, cudaMemset, cudaMemset2DAsync,
};
use warpsim_cuda::occupancy::{cudaFuncSetAttribute, cudaOccupancyMaxActiveBlocksPerMultiprocessor};
use warpsim_cuda::register::{
    __cudaRegisterFatBinary, __cudaRegisterFatBinaryEnd, __cudaRegisterFunction, __cudaRegisterVar,
};
use warpsim_cuda::streams::{
    cudaStreamCreate, cudaStreamDestroy, cudaStreamSynchronize, cudaStreamWaitEvent,
};
use warpsim_cuda::symbols::{
    cudaGetSymbolSize, cudaMemcpyFromSymbol, cudaMemcpyToSymbol, cudaMemcpyToSymbolAsync,
};
use warpsim_cuda::unsupported;

const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64
.const .align 4 .u32 factor = 2;
.visible .entry scale(.param .u64 at, .param .u32 n) {
    .reg .b64 %a, %b;
    .reg .b32 %r, %s, %t, %u;
    .reg .pred %p;
    ld.param.u64 %a, [at];
    ld.param.u32 %s, [n];
    mov.u32 %t, %tid.x;
    mov.u32 %u, %ctaid.x;
    mov.u32 %r, %ntid.x;
    mad.lo.u32 %t, %u, %r, %t;
    setp.ge.u32 %p, %t, %s;
    @%p ret;
    mul.wide.u32 %b, %t, 4;
    add.s64 %a, %a, %b;
    ld.global.u32 %r, [%a];
    ld.const.u32 %u, [factor];
    mul.lo.u32 %r, %r, %u;
    st.global.u32 [%a], %r;
    ret;
}
.visible .entry stop() { trap; }
";

const TO_DEVICE: i32 = 1;
const TO_HOST: i32 = 2;

/// Stand-ins of kernels and variables: their addresses are what counts.
static SCALE: u8 = 0;
static STOP: u8 = 1;
static FACTOR: u8 = 2;

fn at(stand_in: &'static u8) -> *const c_void {
    std::ptr::from_ref(stand_in).cast()
}

fn one(x: u32) -> Dim3 {
    Dim3 { x, y: 1, z: 1 }
}

/// One test at a time, with a fresh device; everything is registered once.
fn begin() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    static REGISTERED: OnceLock<()> = OnceLock::new();
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    REGISTERED.get_or_init(|| {
        let request = ProgramRequest {
            program: "test".into(),
            folder: Some(env!("CARGO_TARGET_TMPDIR").into()),
            ..ProgramRequest::default()
        };
        let request = serde_json::to_string(&request).expect("JSON");
        // SAFETY: other threads of the tests wait for the lock, and read no variables.
        unsafe { std::env::set_var(ENVIRONMENT, request) };
        let fat = container(&[(2, 80, b"\x7fELF"), (1, 70, PTX.as_bytes())], Packing::Zstd);
        let wrapper = Box::leak(Box::new(wrapper(Box::leak(fat.into_boxed_slice()))));
        // SAFETY: fat binary, texts and stand-ins live as long as the process.
        unsafe {
            let handle = __cudaRegisterFatBinary(wrapper.as_mut_ptr().cast());
            for (stand_in, name) in [(at(&SCALE), c"scale"), (at(&STOP), c"stop")] {
                let (none, name) = (null_mut(), name.as_ptr());
                let at = stand_in.cast();
                __cudaRegisterFunction(
                    handle,
                    at,
                    none,
                    name,
                    -1,
                    null_mut(),
                    null_mut(),
                    null_mut(),
                    null_mut(),
                    null_mut(),
                );
            }
            __cudaRegisterVar(
                handle,
                at(&FACTOR).cast_mut().cast(),
                null_mut(),
                c"factor".as_ptr(),
                0,
                4,
                1,
                0,
            );
            __cudaRegisterFatBinaryEnd(handle);
        }
    });
    assert_eq!(cudaDeviceReset(), 0);
    cudaGetLastError();
    guard
}

/// What nvcc makes of `scale<<<grid, block, 0, stream>>>(at, n)`.
unsafe fn scale(grid: u32, block: u32, stream: *mut c_void, at_device: *mut c_void, n: u32) -> i32 {
    let mut args =
        [(&raw const at_device).cast::<c_void>().cast_mut(), (&raw const n).cast::<c_void>().cast_mut()];
    let (mut own_grid, mut own_block, mut shared, mut own_stream) = (one(0), one(0), 1, null_mut::<c_void>());
    let mut kernel = null();
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(__cudaPushCallConfiguration(one(grid), one(block), 0, stream), 0);
        let stream = (&raw mut own_stream).cast();
        assert_eq!(
            __cudaPopCallConfiguration(&raw mut own_grid, &raw mut own_block, &raw mut shared, stream),
            0
        );
        assert_eq!(__cudaGetKernel(&raw mut kernel, at(&SCALE)), 0);
        __cudaLaunchKernel(kernel, own_grid, own_block, args.as_mut_ptr(), shared, own_stream)
    }
}

fn upload(words: &[u32]) -> *mut c_void {
    let mut device = null_mut();
    let bytes = size_of_val(words);
    // SAFETY: `words` has so many bytes.
    unsafe {
        assert_eq!(cudaMalloc(&raw mut device, bytes), 0);
        assert_eq!(cudaMemcpy(device, words.as_ptr().cast(), bytes, TO_DEVICE), 0);
    }
    device
}

fn download(device: *mut c_void, n: usize) -> Vec<u32> {
    let mut words = vec![0u32; n];
    // SAFETY: `words` has so many bytes.
    assert_eq!(unsafe { cudaMemcpy(words.as_mut_ptr().cast(), device, 4 * n, TO_HOST) }, 0);
    words
}

#[test]
fn a_program_runs_from_registration_to_its_results() {
    let _one = begin();
    let device = upload(&(0..100).collect::<Vec<_>>());
    let mut three = 3u32;
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(scale(4, 32, null_mut(), device, 90), 0);
        assert_eq!(cudaMemcpyToSymbol(at(&FACTOR), (&raw const three).cast(), 4, 0, TO_DEVICE), 0);
        assert_eq!(scale(4, 32, null_mut(), device, 50), 0);
        three = 0;
        assert_eq!(cudaMemcpyFromSymbol((&raw mut three).cast(), at(&FACTOR), 4, 0, TO_HOST), 0);
        let mut size = 0;
        assert_eq!((cudaGetSymbolSize(&raw mut size, at(&FACTOR)), size, three), (0, 4, 3));
    }
    let expected: Vec<u32> = (0..100)
        .map(|i| {
            if i < 50 {
                6 * i
            } else if i < 90 {
                2 * i
            } else {
                i
            }
        })
        .collect();
    assert_eq!(download(device, 100), expected);
    // SAFETY: it was allocated by `cudaMalloc`.
    unsafe {
        assert_eq!(cudaFree(device), 0);
        assert_eq!(cudaFree(device), 1, "it is freed already");
    }
    assert_eq!((cudaPeekAtLastError(), cudaGetLastError(), cudaGetLastError()), (1, 1, 0));
    // Launches are written down at once.
    let file = format!("{}/launches-{}.jsonl", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let text = std::fs::read_to_string(file).expect("lines");
    let lines: Vec<LaunchLine> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    let own: Vec<_> = lines.iter().filter(|line| line.kernel == "scale" && line.grid == [4, 1, 1]).collect();
    assert!(own.len() >= 2 && own.iter().all(|line| line.cycles > 0 && line.figures.is_some()), "{own:?}");
}

#[test]
fn managed_and_pinned_memory_is_the_hosts_and_the_devices() {
    let _one = begin();
    for kind in 0..2 {
        let mut memory = null_mut::<c_void>();
        // SAFETY: shared memory is the host's between launches, which the test keeps to.
        unsafe {
            let made = match kind {
                0 => cudaMallocManaged(&raw mut memory, 4 * 5000, 1),
                _ => cudaMallocHost(&raw mut memory, 4 * 5000),
            };
            assert_eq!(made, 0);
            let words = std::slice::from_raw_parts_mut(memory.cast::<u32>(), 5000);
            words.iter_mut().zip(0..).for_each(|(word, i)| *word = i);
            assert_eq!(scale(40, 128, null_mut(), memory, 5000), 0);
            assert_eq!(cudaDeviceSynchronize(), 0);
            assert!(words.iter().zip(0..).all(|(word, i)| *word == 2 * i));
            words[4999] = 7;
            assert_eq!(scale(40, 128, null_mut(), memory, 5000), 0);
            assert_eq!(cudaDeviceSynchronize(), 0);
            assert_eq!((words[4998], words[4999]), (4 * 4998, 14));
            assert_eq!(if kind == 0 { cudaFreeHost(memory) } else { cudaFree(memory) }, 1, "the wrong way");
            assert_eq!(if kind == 0 { cudaFree(memory) } else { cudaFreeHost(memory) }, 0);
        }
    }
}

#[test]
fn a_fault_stays_until_the_device_is_reset() {
    let _one = begin();
    // SAFETY: the kernel takes no arguments; the address is one of the device.
    unsafe {
        let device = upload(&[1; 8]);
        assert_eq!(scale(1, 32, null_mut(), device, 32), 0, "launches fail later");
        assert_eq!(cudaDeviceSynchronize(), 700);
        let text = CStr::from_ptr(cudaGetErrorString(700));
        assert_eq!(text, c"an illegal memory access was encountered");
        assert_eq!(CStr::from_ptr(cudaGetErrorName(700)), c"cudaErrorIllegalAddress");
        let mut other = null_mut();
        assert_eq!((cudaMalloc(&raw mut other, 4), cudaGetLastError(), cudaGetLastError()), (700, 700, 700));
        assert_eq!((cudaDeviceReset(), cudaGetLastError(), cudaMalloc(&raw mut other, 4)), (0, 0, 0));
        let launched = cudaLaunchKernel(at(&STOP), one(1), one(1), null_mut(), 0, null_mut());
        assert_eq!((launched, cudaDeviceSynchronize()), (0, 719));
        assert_eq!(cudaDeviceReset(), 0);
    }
}

#[test]
fn what_is_wrong_is_refused_at_the_call() {
    let _one = begin();
    // SAFETY: null pointers are refused; the others lead to variables of this function.
    unsafe {
        assert_eq!(cudaMalloc(null_mut(), 4), 1);
        assert_eq!(cudaSetDevice(1), 101);
        let mut device = null_mut();
        assert_eq!(cudaMalloc(&raw mut device, 1 << 50), 2);
        assert_eq!(cudaMalloc(&raw mut device, 16), 0);
        assert_eq!(cudaMemcpy(device, (&raw const device).cast(), 8, TO_HOST), 1, "the wrong direction");
        assert_eq!(cudaMemcpy(device, (&raw const device).cast(), 8, 9), 21);
        assert_eq!(cudaMemset(device, 0, 17), 1, "beyond the end");
        assert_eq!(scale(1, 2048, null_mut(), device, 1), 9);
        assert_eq!(scale(0, 32, null_mut(), device, 1), 9);
        assert_eq!(scale(1, 32, 77 as *mut c_void, device, 1), 400);
        let launched = cudaLaunchKernel(at(&FACTOR), one(1), one(1), null_mut(), 0, null_mut());
        assert_eq!(launched, 98, "no kernel");
        let mut arguments = [null_mut(); 2];
        let mut with =
            |shared| cudaLaunchKernel(at(&STOP), one(1), one(1), arguments.as_mut_ptr(), shared, null_mut());
        assert_eq!(with(50 << 10), 1, "more shared memory than without an attribute");
        assert_eq!(cudaFuncSetAttribute(at(&STOP), 8, 60 << 10), 0);
        assert_eq!((with(50 << 10), cudaDeviceSynchronize()), (0, 719));
        cudaDeviceReset();
        assert_eq!((cudaDeviceSetLimit(0, 4096), cudaDeviceSetLimit(2, 1 << 40)), (0, 215));
    }
    assert!(unsupported::NAMES.contains(&"cudaImportExternalMemory"));
    assert_eq!(unsupported::cudaImportExternalMemory(), 801);
}

#[test]
fn events_have_simulated_time_and_streams_run() {
    let _one = begin();
    let device = upload(&[1; 4096]);
    let (mut events, mut streams) = ([null_mut(); 2], [null_mut(); 2]);
    let mut milliseconds = 0f32;
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        for i in 0..2 {
            assert_eq!(cudaEventCreate(&raw mut events[i]), 0);
            assert_eq!(cudaStreamCreate(&raw mut streams[i]), 0);
        }
        assert_eq!(cudaEventElapsedTime(&raw mut milliseconds, events[0], events[1]), 400, "not recorded");
        assert_eq!(cudaEventRecord(events[0], null_mut()), 0);
        assert_eq!(scale(32, 128, null_mut(), device, 4096), 0);
        assert_eq!(cudaEventRecord(events[1], null_mut()), 0);
        assert_eq!(cudaEventSynchronize(events[1]), 0);
        assert_eq!(cudaEventElapsedTime(&raw mut milliseconds, events[0], events[1]), 0);
        assert!(milliseconds > 0.0005 && milliseconds < 1.0, "{milliseconds}");
        // Both halves at the same time.
        let half = device.wrapping_byte_add(4 * 2048);
        assert_eq!(
            (scale(16, 128, streams[0], device, 2048), scale(16, 128, streams[1], half, 2048)),
            (0, 0)
        );
        assert_eq!(cudaStreamSynchronize(streams[0]), 0);
        assert_eq!((cudaStreamDestroy(streams[0]), cudaStreamDestroy(streams[0])), (0, 400));
    }
    assert!(download(device, 4096).iter().all(|word| *word == 4));
}

#[test]
fn the_device_is_the_simulated_chip() {
    let _one = begin();
    let (mut count, mut value, mut free, mut total) = (0, 0, 0, 0);
    let mut properties = vec![0u8; 1032];
    let mut rows = [[0u8; 16]; 3];
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!((cudaGetDeviceCount(&raw mut count), count), (0, 1));
        assert_eq!((cudaDeviceGetAttribute(&raw mut value, 16, 0), value), (0, 68));
        assert_eq!(cudaDeviceGetAttribute(&raw mut value, 9999, 0), 1);
        assert_eq!(cudaGetDeviceProperties_v2(properties.as_mut_ptr(), 0), 0);
        assert!(properties.starts_with(b"warpsim "));
        let device = upload(&[0x0101_0101; 12]);
        assert_eq!(cudaMemGetInfo(&raw mut free, &raw mut total), 0);
        assert_eq!((total, total - free), (11_811_160_064, 48));
        let to = rows.as_mut_ptr().cast();
        assert_eq!(cudaMemcpy2D(to, 16, device, 12, 5, 3, TO_HOST), 0);
        assert!(rows.iter().all(|row| row[..5] == [1; 5] && row[5..] == [0; 11]));
        let mut blocks = 0;
        let function = at(&SCALE);
        let asked = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, 256, 0);
        assert_eq!((asked, blocks), (0, 4), "1024 threads of an SM");
    }
}

#[test]
fn captured_graphs_run_when_they_are_launched() {
    let _one = begin();
    let device = upload(&[5; 64]);
    let mut host = [3u32; 64];
    let (mut streams, mut event) = ([null_mut(); 2], null_mut());
    let (mut graph, mut ready, mut capturing, mut count) = (0, 0, 0, 0);
    // SAFETY: all pointers lead to variables of this function, which live while the graph runs.
    unsafe {
        assert_eq!(cudaStreamBeginCapture(null_mut(), 0), 900, "not the default stream");
        for stream in &mut streams {
            assert_eq!(cudaStreamCreate(stream), 0);
        }
        assert_eq!(cudaEventCreate(&raw mut event), 0);
        let [first, second] = streams;
        assert_eq!(cudaStreamBeginCapture(first, 0), 0);
        let bytes = size_of_val(&host);
        assert_eq!(cudaMemcpyAsync(device, host.as_ptr().cast(), bytes, TO_DEVICE, first), 0);
        assert_eq!(scale(2, 32, first, device, 64), 0);
        // The event brings the second stream in.
        assert_eq!((cudaEventRecord(event, first), cudaStreamWaitEvent(second, event, 0)), (0, 0));
        assert_eq!(scale(1, 32, second, device, 32), 0);
        assert_eq!((cudaStreamIsCapturing(second, &raw mut capturing), capturing), (0, 1));
        assert_eq!(cudaMemcpyAsync(host.as_mut_ptr().cast(), device, bytes, TO_HOST, second), 0);
        assert_eq!(cudaStreamEndCapture(second, &raw mut graph), 903, "it began on another stream");
        assert_eq!((cudaEventRecord(event, second), cudaStreamWaitEvent(first, event, 0)), (0, 0));
        assert_eq!(cudaStreamEndCapture(first, &raw mut graph), 0);
        assert_eq!((cudaGraphGetNodes(graph, null_mut(), &raw mut count), count), (0, 4));
        assert_eq!((host[0], download(device, 1)[0]), (3, 5), "nothing has run");
        assert_eq!((cudaGraphInstantiate(&raw mut ready, graph, 0), cudaGraphDestroy(graph)), (0, 0));
        for round in 1..=2 {
            assert_eq!((cudaGraphLaunch(ready, first), cudaStreamSynchronize(first)), (0, 0));
            assert_eq!((host[31], host[32]), (3 * 4u32.pow(round), 3 * 2u32.pow(round)));
        }
        assert_eq!(cudaGraphLaunch(graph, first), 400, "it was destroyed");
    }
}

#[repr(C)]
struct KernelNode(*const c_void, Dim3, Dim3, u32, *const *const c_void, *const c_void);

#[repr(C)]
struct HostNode(Option<unsafe extern "C" fn(*mut c_void)>, *mut c_void);

unsafe extern "C" fn count_up(number: *mut c_void) {
    // SAFETY: the test passes a number.
    unsafe { *number.cast::<u32>() += 1 };
}

#[test]
fn graphs_made_of_nodes_keep_their_dependencies() {
    let _one = begin();
    let device = upload(&[0; 64]);
    let (mut graph, mut ready, mut nodes, mut host, mut counted) = (0, 0, [0; 4], [0u32; 64], 0u32);
    let n = 64u32;
    let arguments = [(&raw const device).cast::<c_void>(), (&raw const n).cast()];
    let kernel = KernelNode(at(&SCALE), one(2), one(32), 0, arguments.as_ptr(), null());
    let fill = Fill { at: device as usize, pitch: 256, value: 21, element: 4, width: 64, height: 1 };
    let function = HostNode(Some(count_up), (&raw mut counted).cast());
    // SAFETY: all pointers lead to variables of this function, which live while the graph runs.
    unsafe {
        assert_eq!(cudaGraphCreate(&raw mut graph, 0), 0);
        let [filled, scaled, copied, called] = &mut nodes;
        assert_eq!(cudaGraphAddMemsetNode(filled, graph, null(), 0, &raw const fill), 0);
        assert_eq!(cudaGraphAddKernelNode(scaled, graph, filled, 1, (&raw const kernel).cast()), 0);
        let to = host.as_mut_ptr() as usize;
        assert_eq!(cudaGraphAddMemcpyNode1D(copied, graph, scaled, 1, to, device as usize, 256, TO_HOST), 0);
        assert_eq!(cudaGraphAddHostNode(called, graph, copied, 1, (&raw const function).cast()), 0);
        let unknown = 77;
        assert_eq!(
            cudaGraphAddHostNode(called, graph, &raw const unknown, 1, (&raw const function).cast()),
            1
        );
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!((cudaGraphLaunch(ready, null_mut()), cudaGraphLaunch(ready, null_mut())), (0, 0));
    }
    assert_eq!((host, counted), ([42; 64], 2));
}

/// A graph that fills 64 words with 21 and scales those that `kernel` says, each node behind the one before.
fn filled_and_scaled(device: *mut c_void, kernel: &KernelNode, value: u32) -> (usize, [usize; 2]) {
    let (mut graph, mut nodes) = (0, [0; 2]);
    let fill = Fill { at: device as usize, pitch: 256, value, element: 4, width: 64, height: 1 };
    let [filled, scaled] = &mut nodes;
    // SAFETY: all pointers lead to variables that live until the calls return.
    unsafe {
        assert_eq!(cudaGraphCreate(&raw mut graph, 0), 0);
        assert_eq!(cudaGraphAddMemsetNode(filled, graph, null(), 0, &raw const fill), 0);
        assert_eq!(cudaGraphAddKernelNode(scaled, graph, filled, 1, (&raw const *kernel).cast()), 0);
    }
    (graph, nodes)
}

#[test]
fn executable_graphs_change_by_node_and_as_a_whole() {
    let _one = begin();
    let device = upload(&[0; 64]);
    let (all, half) = (64u32, 32u32);
    let pointer = (&raw const device).cast::<c_void>();
    let (of_all, of_half) = ([pointer, (&raw const all).cast()], [pointer, (&raw const half).cast()]);
    let on = |arguments: &[*const c_void; 2]| {
        KernelNode(at(&SCALE), one(2), one(32), 0, arguments.as_ptr(), null())
    };
    let (graph, [filled, scaled]) = filled_and_scaled(device, &on(&of_all), 21);
    let (mut ready, on_half) = (0, on(&of_half));
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        let run = || {
            assert_eq!((cudaGraphLaunch(ready, null_mut()), cudaDeviceSynchronize()), (0, 0));
            let words = download(device, 64);
            (words[0], words[63])
        };
        assert_eq!(run(), (42, 42));
        // The graph itself changes, what was made of it does not.
        assert_eq!(cudaGraphKernelNodeSetParams(scaled, (&raw const on_half).cast()), 0);
        assert_eq!(run(), (42, 42));
        assert_eq!(cudaGraphExecKernelNodeSetParams(ready, scaled, (&raw const on_half).cast()), 0);
        assert_eq!(run(), (42, 21));
        let wrong = cudaGraphExecKernelNodeSetParams(ready, filled, (&raw const on_half).cast());
        assert_eq!(wrong, 1, "the node fills");
        assert_eq!(cudaGraphExecKernelNodeSetParams(graph, scaled, (&raw const on_half).cast()), 400);
        let five = Fill { at: device as usize, pitch: 256, value: 5, element: 4, width: 64, height: 1 };
        assert_eq!(cudaGraphMemsetNodeSetParams(filled, &raw const five), 0);
        // All at once, by a graph of the same shape.
        let (other, [_, last]) = filled_and_scaled(device, &on(&of_all), 7);
        let mut told = Updated { result: 9, node: 9, from: 9 };
        let mut update = |graph| {
            let status = cudaGraphExecUpdate(ready, graph, &raw mut told as usize, 0);
            (status, told.result)
        };
        assert_eq!(update(other), (0, 0));
        assert_eq!(run(), (14, 14));
        assert_eq!(update(graph), (0, 0));
        assert_eq!(run(), (10, 5));
        // Another shape is refused, and nothing changes.
        assert_eq!(cudaGraphDestroyNode(last), 0);
        assert_eq!(update(other), (910, 2));
        let (mut copied, size) = (0, 256);
        assert_eq!(
            cudaGraphAddMemcpyNode1D(
                &raw mut copied,
                other,
                null(),
                0,
                device as usize,
                device as usize,
                size,
                3
            ),
            0
        );
        assert_eq!(update(other), (910, 3));
        let (apart, [before, after]) = filled_and_scaled(device, &on(&of_all), 7);
        assert_eq!(cudaGraphRemoveDependencies_v2(apart, &raw const before, &raw const after, 0, 1), 0);
        assert_eq!(update(apart), (910, 2), "nothing waits there");
        assert_eq!(run(), (10, 5));
        // What was made of a graph outlives it; its nodes do not.
        assert_eq!(cudaGraphDestroy(graph), 0);
        assert_eq!(cudaGraphKernelNodeSetParams(scaled, (&raw const on_half).cast()), 1);
        assert_eq!(run(), (10, 5));
    }
}

#[test]
fn nodes_tell_what_they_are_and_wait_for() {
    let _one = begin();
    let device = upload(&[0; 64]);
    let n = 64u32;
    let arguments = [(&raw const device).cast::<c_void>(), (&raw const n).cast()];
    let kernel = KernelNode(at(&SCALE), one(2), one(32), 0, arguments.as_ptr(), null());
    let (graph, [filled, scaled]) = filled_and_scaled(device, &kernel, 21);
    let (mut whole, mut child, mut timed, mut event, mut ready) = (0, 0, 0, null_mut(), 0);
    let (mut kinds, mut count) = ([9; 3], 0);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cudaGraphCreate(&raw mut whole, 0), 0);
        assert_eq!(cudaGraphAddChildGraphNode(&raw mut child, whole, null(), 0, graph), 0);
        assert_eq!(cudaEventCreate(&raw mut event), 0);
        assert_eq!(cudaGraphAddEventRecordNode(&raw mut timed, whole, null(), 0, event), 0);
        for (node, kind) in [scaled, child, timed].into_iter().zip(&mut kinds) {
            assert_eq!(cudaGraphNodeGetType(node, kind), 0);
        }
        assert_eq!(kinds, [0, 4, 7]);
        assert_eq!((cudaGraphGetRootNodes(whole, null_mut(), &raw mut count), count), (0, 2));
        assert_eq!(cudaGraphAddDependencies_v2(whole, &raw const child, &raw const timed, 0, 1), 0);
        let again = cudaGraphAddDependencies_v2(whole, &raw const child, &raw const timed, 0, 1);
        assert_eq!(again, 1, "it is there");
        assert_eq!((cudaGraphGetRootNodes(whole, null_mut(), &raw mut count), count), (0, 1));
        let (mut from, mut to, mut edge) = ([0; 2], [0; 2], [[1u8; 8]; 2]);
        count = 2;
        assert_eq!(
            cudaGraphGetEdges_v2(
                whole,
                from.as_mut_ptr(),
                to.as_mut_ptr(),
                edge.as_mut_ptr(),
                &raw mut count
            ),
            0
        );
        assert_eq!((count, from[0], to[0], edge[0]), (1, child, timed, [0; 8]));
        let (mut near, mut one_node) = (1, 0);
        let at_node = &raw mut one_node;
        assert_eq!(cudaGraphNodeGetDependencies_v2(timed, at_node, null_mut(), &raw mut near), 0);
        assert_eq!((near, one_node), (1, child));
        assert_eq!(cudaGraphNodeGetDependentNodes_v2(child, at_node, null_mut(), &raw mut near), 0);
        assert_eq!((near, one_node), (1, timed));
        // A node of a copy is another one.
        let (mut copy, mut own) = (0, 0);
        assert_eq!(cudaGraphClone(&raw mut copy, whole), 0);
        assert_eq!(cudaGraphNodeFindInClone(&raw mut own, timed, copy), 0);
        assert_ne!(own, timed);
        assert_eq!(cudaGraphNodeGetDependencies_v2(own, at_node, null_mut(), &raw mut near), 0);
        assert_ne!((near, one_node), (1, child));
        assert_eq!(cudaGraphDestroyNode(own), 0);
        assert_eq!((cudaGraphGetNodes(copy, null_mut(), &raw mut count), count), (0, 1));
        assert_eq!((cudaGraphGetNodes(whole, null_mut(), &raw mut count), count), (0, 2));
        // The child does what its graph was when it was added.
        assert_eq!(cudaGraphDestroyNode(filled), 0);
        assert_eq!(
            cudaGraphInstantiate(&raw mut ready, graph, 0),
            0,
            "what waited for the node waits for none"
        );
        assert_eq!(cudaGraphInstantiate(&raw mut ready, whole, 0), 0);
        assert_eq!((cudaGraphLaunch(ready, null_mut()), cudaEventSynchronize(event)), (0, 0));
        assert_eq!(download(device, 64), [42; 64]);
        assert_eq!(cudaGraphRemoveDependencies_v2(whole, &raw const child, &raw const timed, 0, 1), 0);
        assert_eq!((cudaGraphGetRootNodes(whole, null_mut(), &raw mut count), count), (0, 2));
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("graph.dot");
        let name = std::ffi::CString::new(path.to_str().expect("UTF-8")).expect("no null");
        assert_eq!(cudaGraphDebugDotPrint(graph, name.as_ptr(), 0), 0);
        let text = std::fs::read_to_string(path).expect("the file");
        assert!(text.contains("0\\nscale"), "{text}");
    }
}

#[test]
fn captures_keep_copies_to_variables_and_fills_of_rows() {
    let _one = begin();
    let (mut stream, mut graph, mut ready) = (null_mut(), 0, 0);
    let device = upload(&[1; 64]);
    let five = 5u32;
    // SAFETY: all pointers lead to variables of this function, which live while the graph runs.
    unsafe {
        assert_eq!(cudaStreamCreate(&raw mut stream), 0);
        assert_eq!(cudaStreamBeginCapture(stream, 0), 0);
        let from = (&raw const five).cast();
        assert_eq!(cudaMemcpyToSymbolAsync(at(&FACTOR), from, 4, 0, TO_DEVICE, stream), 0);
        assert_eq!(cudaMemset2DAsync(device, 128, 0, 4, 2, stream), 0);
        assert_eq!(cudaStreamEndCapture(stream, &raw mut graph), 0);
        let mut factor = 0u32;
        let mut told = |expected: (u32, [u32; 3])| {
            assert_eq!(cudaMemcpyFromSymbol((&raw mut factor).cast(), at(&FACTOR), 4, 0, TO_HOST), 0);
            let words = download(device, 64);
            assert_eq!((factor, [words[0], words[1], words[32]]), expected);
        };
        told((2, [1; 3]));
        assert_eq!(cudaGraphInstantiate(&raw mut ready, graph, 0), 0);
        assert_eq!((cudaGraphLaunch(ready, stream), cudaStreamSynchronize(stream)), (0, 0));
        told((5, [0, 1, 0]));
        let two = 2u32;
        assert_eq!(cudaMemcpyToSymbol(at(&FACTOR), (&raw const two).cast(), 4, 0, TO_DEVICE), 0);
    }
}
