//! How many clusters of blocks a chip holds, as programs ask for it, on a chip with clusters.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

use std::ffi::{CStr, c_void};
use std::ptr::null;

use warpsim::device::DeviceRequest;
use warpsim::device::program::{ENVIRONMENT, ProgramRequest};
use warpsim_cuda::launch::LaunchConfig;
use warpsim_cuda::libraries::{cudaLibraryGetKernel, cudaLibraryLoadData};
use warpsim_cuda::occupancy::{
    cudaFuncSetAttribute, cudaOccupancyAvailableDynamicSMemPerBlock, cudaOccupancyMaxActiveClusters,
    cudaOccupancyMaxPotentialClusterSize,
};

const PTX: &CStr = c"
.version 8.0
.target sm_90
.address_size 64
.visible .entry chosen() { ret; }
.visible .entry fixed() .reqnctapercluster 4, 1, 1 { ret; }
.visible .entry large() .maxntid 1024 { .shared .align 4 .b8 room[65536]; .reg .b32 %r; mov.u32 %r, room; ret; }
";

/// CUDA's `cudaLaunchConfig_t`, with one attribute.
#[repr(C)]
struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: usize,
    stream: usize,
    attributes: *const Attribute,
    count: u32,
}

#[repr(C)]
struct Attribute {
    id: i32,
    padding: u32,
    value: [u32; 16],
}

const CLUSTER: i32 = 4;
const NON_PORTABLE: i32 = 14;

fn kernel(library: usize, name: &CStr) -> *const c_void {
    let mut kernel = 0;
    // SAFETY: a text and a place.
    assert_eq!(unsafe { cudaLibraryGetKernel(&raw mut kernel, library, name.as_ptr()) }, 0);
    kernel as *const c_void
}

/// Asks with blocks of so many threads and bytes, in clusters of `size` blocks where it is not 0: the largest cluster, and
/// how many clusters there are at a time.
fn asked(kernel: *const c_void, threads: u32, shared: usize, size: u32) -> ((i32, i32), (i32, i32)) {
    let mut value = [0; 16];
    value[..3].copy_from_slice(&[size, 1, 1]);
    let attribute = Attribute { id: CLUSTER, padding: 0, value };
    let config = Config {
        grid: [1024, 1, 1],
        block: [threads, 1, 1],
        shared,
        stream: 0,
        attributes: &raw const attribute,
        count: (size > 0).into(),
    };
    let config = (&raw const config).cast::<LaunchConfig>();
    let (mut largest, mut active) = (-1, -1);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        let first = cudaOccupancyMaxPotentialClusterSize(&raw mut largest, kernel, config);
        let second = cudaOccupancyMaxActiveClusters(&raw mut active, kernel, config);
        ((first, largest), (second, active))
    }
}

#[test]
fn clusters_fit_the_sms_of_a_gpc() {
    let device = DeviceRequest { chip: "h100".into(), ..DeviceRequest::default() };
    let request = ProgramRequest { program: "test".into(), device, ..ProgramRequest::default() };
    let request = serde_json::to_string(&request).expect("JSON");
    // SAFETY: this is the only test of the file.
    unsafe { std::env::set_var(ENVIRONMENT, request) };
    let mut library = 0;
    // SAFETY: a PTX text and a place.
    unsafe {
        let image = PTX.as_ptr().cast();
        assert_eq!(cudaLibraryLoadData(&raw mut library, image, null(), null(), 0, null(), null(), 0), 0);
    }
    let [chosen, fixed, large] = [c"chosen", c"fixed", c"large"].map(|name| kernel(library, name));
    // H100's 132 SMs are GPCs of 18, 18 and six of 16 SMs. An SM holds 2 blocks of 1024 threads: 36 or 32 of a GPC.
    assert_eq!(asked(chosen, 1024, 0, 0), ((0, 8), (0, 264)), "without a size, each block is a cluster");
    assert_eq!(asked(chosen, 1024, 0, 8), ((0, 8), (0, 2 * (36 / 8) + 6 * (32 / 8))));
    assert_eq!(asked(chosen, 1024, 0, 5), ((0, 8), (0, 2 * (36 / 5) + 6 * (32 / 5))));
    assert_eq!(asked(chosen, 1024, 0, 16).1.0, 912, "that many only with an attribute");
    assert_eq!(asked(fixed, 1024, 0, 0), ((0, 8), (0, 2 * (36 / 4) + 6 * (32 / 4))), "the kernel says 4");
    // One block of 160 KiB in an SM: 18 or 16 of a GPC, and no more than 8 or 16 of them in a cluster.
    // SAFETY: the kernel is one.
    unsafe {
        assert_eq!(cudaFuncSetAttribute(chosen, 8, 160 << 10), 0);
        assert_eq!(cudaFuncSetAttribute(chosen, NON_PORTABLE, 2), 1, "yes or no");
        assert_eq!(cudaFuncSetAttribute(chosen, NON_PORTABLE, 1), 0);
    }
    assert_eq!(asked(chosen, 256, 160 << 10, 16), ((0, 16), (0, 2 + 6)));
    assert_eq!(asked(chosen, 256, 160 << 10, 17).1.0, 912);
    assert_eq!(asked(chosen, 1025, 0, 1), ((0, 0), (0, 0)), "no such block");
    // 64 KiB of its own: of 227 KiB in an SM, three blocks with 1 KiB for the system each have 75 KiB.
    let mut bytes = 0;
    // SAFETY: a place.
    unsafe {
        for (blocks, wanted) in [(1, 163 << 10), (3, 11 << 10), (4, 0)] {
            assert_eq!(cudaOccupancyAvailableDynamicSMemPerBlock(&raw mut bytes, large, blocks, 128), 0);
            assert!(bytes.abs_diff(wanted) < 2048, "{blocks}: {bytes}");
        }
        assert_eq!(cudaOccupancyAvailableDynamicSMemPerBlock(&raw mut bytes, large, -1, 128), 1);
    }
}
