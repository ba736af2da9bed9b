//! Tensor maps in a program's memory, and a kernel that uses one.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use warpsim::device::DeviceRequest;
use warpsim::device::program::{ENVIRONMENT, ProgramRequest};
use warpsim_cuda::driver::context::{cuCtxSetCurrent, cuDevicePrimaryCtxRetain};
use warpsim_cuda::driver::device::cuInit;
use warpsim_cuda::driver::launch::cuLaunchKernel;
use warpsim_cuda::driver::memory::{cuMemAlloc_v2, cuMemcpyDtoH_v2, cuMemcpyHtoD_v2};
use warpsim_cuda::driver::modules::{cuModuleGetFunction, cuModuleLoadData};

/// A `CUtensorMap`.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Map(pub [u8; 128]);

/// The process, which has one test, asks for a chip.
pub fn ask_for(chip: &str) {
    let device = DeviceRequest { chip: chip.into(), ..DeviceRequest::default() };
    let request = ProgramRequest { device, program: "test".into(), ..ProgramRequest::default() };
    let request = serde_json::to_string(&request).expect("JSON");
    // SAFETY: no other thread of this test reads the environment.
    unsafe { std::env::set_var(ENVIRONMENT, request) };
}

/// Device memory of so many bytes.
fn allocated(bytes: usize) -> u64 {
    let mut at = 0;
    // SAFETY: a place.
    assert_eq!(unsafe { cuMemAlloc_v2(&raw mut at, bytes) }, 0);
    at
}

/// The kernel `k(map, out)` of a PTX, and a tensor.
pub struct User {
    function: usize,
    /// The address of the tensor.
    pub tensor: u64,
}

impl User {
    /// The first use of the device; the tensor has these words.
    pub fn new(ptx: &CStr, words: impl IntoIterator<Item = u32>) -> Self {
        let (mut context, mut module, mut function) = (0, 0, 0);
        let words: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        // SAFETY: places and texts are valid.
        unsafe {
            assert_eq!(cuInit(0), 0);
            assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, 0), 0);
            assert_eq!(cuCtxSetCurrent(context), 0);
            assert_eq!(cuModuleLoadData(&raw mut module, ptx.as_ptr().cast()), 0);
            assert_eq!(cuModuleGetFunction(&raw mut function, module, c"k".as_ptr()), 0);
        }
        let tensor = allocated(words.len());
        // SAFETY: the bytes are there.
        assert_eq!(unsafe { cuMemcpyHtoD_v2(tensor, words.as_ptr() as u64, words.len()) }, 0);
        Self { function, tensor }
    }

    /// The word that each of so many threads stores.
    pub fn run(&self, map: &Map, threads: u32) -> Vec<u32> {
        let mut found = vec![0u32; threads as usize];
        let bytes = found.len() * 4;
        let out = allocated(bytes);
        let arguments = [(&raw const *map).cast::<c_void>(), (&raw const out).cast()];
        let function = self.function as *const c_void;
        // SAFETY: places and arguments are valid.
        unsafe {
            let code =
                cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, null_mut(), arguments.as_ptr(), null());
            assert_eq!(code, 0);
            assert_eq!(cuMemcpyDtoH_v2(found.as_mut_ptr() as u64, out, bytes), 0);
        }
        found
    }
}
