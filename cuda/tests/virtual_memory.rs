//! Virtual memory and memory pools of the driver API.

#![allow(missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "the interface is C's")]

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use warpsim_cuda::driver::context::{
    cuCtxSetCurrent, cuCtxSynchronize, cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxRetain,
};
use warpsim_cuda::driver::device::cuInit;
use warpsim_cuda::driver::launch::cuLaunchKernel;
use warpsim_cuda::driver::memory::{
    cuMemAlloc_v2, cuMemFree_v2, cuMemFreeAsync, cuMemGetInfo_v2, cuMemcpyDtoH_v2, cuMemcpyHtoD_v2,
    cuMemsetD32_v2,
};
use warpsim_cuda::driver::modules::{cuModuleGetFunction, cuModuleLoadData};
use warpsim_cuda::driver::pools::{
    cuDeviceGetDefaultMemPool, cuMemAllocFromPoolAsync, cuMemPoolCreate, cuMemPoolDestroy,
    cuMemPoolGetAttribute,
};
use warpsim_cuda::driver::virtual_memory::{
    Wanted, cuMemAddressFree, cuMemAddressReserve, cuMemCreate, cuMemGetAccess,
    cuMemGetAllocationGranularity, cuMemMap, cuMemRelease, cuMemRetainAllocationHandle, cuMemSetAccess,
    cuMemUnmap,
};
use warpsim_cuda::pools::{Access, Properties};

const PTX: &CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .entry put(.param .u64 at, .param .u32 value) {
    .reg .b64 %a;
    .reg .b32 %r;
    ld.param.u64 %a, [at];
    ld.param.u32 %r, [value];
    st.global.u32 [%a], %r;
    ret;
}
";

const PIECE: usize = 2 << 20;
static READ_WRITE: Access = Access { place: 1, device: 0, flags: 3 };

/// One test at a time, with a fresh device and its primary context.
fn begin() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut context = 0;
    // SAFETY: the place is valid.
    unsafe {
        assert_eq!((cuInit(0), cuDevicePrimaryCtxReset_v2(0)), (0, 0));
        assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, 0), 0);
        assert_eq!(cuCtxSetCurrent(context), 0);
    }
    guard
}

/// Stores a value by a kernel; gives the status of the run.
fn put(at: u64, value: u32) -> i32 {
    let (mut module, mut function) = (0, 0);
    let arguments = [(&raw const at).cast::<c_void>(), (&raw const value).cast()];
    // SAFETY: a PTX text, a name, a pointer to each argument.
    unsafe {
        assert_eq!(cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()), 0);
        assert_eq!(cuModuleGetFunction(&raw mut function, module, c"put".as_ptr()), 0);
        let function = function as *const c_void;
        let args = arguments.as_ptr();
        assert_eq!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, null_mut(), args, null()), 0);
        cuCtxSynchronize()
    }
}

fn word(at: u64) -> (i32, u32) {
    let mut word = 0u32;
    // SAFETY: a place of 4 bytes.
    let done = unsafe { cuMemcpyDtoH_v2((&raw mut word) as u64, at, 4) };
    (done, word)
}

fn wanted() -> Wanted {
    Wanted::PINNED
}

fn free() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: places.
    assert_eq!(unsafe { cuMemGetInfo_v2(&raw mut free, &raw mut total) }, 0);
    free
}

#[test]
fn memory_is_mapped_where_addresses_were_reserved() {
    let _one = begin();
    let (all, mut at, mut bytes) = (wanted(), 0u64, 0usize);
    let (mut first, mut second, mut again, mut flags) = (0, 0, 0, 0u64);
    let before = free();
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cuMemGetAllocationGranularity(&raw mut bytes, &raw const all, 0), 0);
        assert_eq!(bytes, PIECE);
        assert_eq!(cuMemAddressReserve(&raw mut at, 4096, 0, 0, 0), 1, "no multiple of the granularity");
        assert_eq!(cuMemAddressReserve(&raw mut at, 3 * PIECE, 0, 0, 0), 0);
        assert_eq!(cuMemCreate(&raw mut first, PIECE, &raw const all, 0), 0);
        assert_eq!(cuMemCreate(&raw mut second, PIECE, &raw const all, 0), 0);
        assert_eq!(before - free(), 2 * PIECE, "what was created is taken");
        assert_eq!(cuMemMap(at, PIECE, 0, first, 0), 0);
        assert_eq!(cuMemMap(at, PIECE, 0, second, 0), 1, "something is mapped there");
        assert_eq!(cuMemMap(at + PIECE as u64, PIECE, 0, first, 0), 801, "one address for each byte");
        assert_eq!(cuMemMap(at + PIECE as u64, PIECE, 0, second, 0), 0);
        assert_eq!((cuMemGetAccess(&raw mut flags, null(), at), flags), (0, 0));
        assert_eq!(cuMemSetAccess(at, 2 * PIECE, &raw const READ_WRITE, 1), 0);
        assert_eq!((cuMemGetAccess(&raw mut flags, null(), at), flags), (0, 3));
        assert_eq!(
            cuMemSetAccess(at, 3 * PIECE, &raw const READ_WRITE, 1),
            1,
            "the last piece is not mapped"
        );
        let read_only = Access { flags: 1, ..READ_WRITE };
        assert_eq!(cuMemSetAccess(at, 2 * PIECE, &raw const read_only, 1), 801);
        assert_eq!(before - free(), 2 * PIECE);
        // A fill and copies go over the border of both.
        let border = at + PIECE as u64 - 8;
        assert_eq!(cuMemsetD32_v2(border, 5, 4), 0);
        let host = [6u32, 7];
        assert_eq!(cuMemcpyHtoD_v2(border + 4, host.as_ptr() as u64, 8), 0);
        assert_eq!([0, 4, 8, 12].map(|offset| word(border + offset)), [(0, 5), (0, 6), (0, 7), (0, 5)]);
        assert_eq!(put(at + 16, 77), 0);
        assert_eq!(cuMemFree_v2(at), 1, "it was not allocated");
        // Mapped elsewhere, memory has its bytes.
        assert_eq!(cuMemAddressFree(at, 3 * PIECE), 1, "it is in use");
        assert_eq!((cuMemRetainAllocationHandle(&raw mut again, at), again), (0, first));
        assert_eq!(cuMemUnmap(at, PIECE), 0);
        assert_eq!(word(at + 16).0, 1, "it is not mapped");
        assert_eq!(cuMemMap(at + 2 * PIECE as u64, PIECE, 0, first, 0), 0);
        assert_eq!(cuMemSetAccess(at + 2 * PIECE as u64, PIECE, &raw const READ_WRITE, 1), 0);
        assert_eq!(word(at + 2 * PIECE as u64 + 16), (0, 77));
        assert_eq!((cuMemRelease(first), cuMemRelease(first), cuMemRelease(first)), (0, 0, 400));
        assert_eq!(word(at + 2 * PIECE as u64 + 16), (0, 77), "what is mapped stays");
        assert_eq!((cuMemUnmap(at + PIECE as u64, 2 * PIECE), cuMemRelease(second)), (0, 0));
        assert_eq!((cuMemAddressFree(at, 3 * PIECE), free()), (0, before));
    }
}

#[test]
fn memory_goes_with_its_last_handle_and_mapping() {
    let _one = begin();
    let (all, mut at, mut handle, mut again) = (wanted(), 0u64, 0, 0);
    let before = free();
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cuMemAddressReserve(&raw mut at, 2 * PIECE, 0, 0, 0), 0);
        assert_eq!(cuMemCreate(&raw mut handle, PIECE, &raw const all, 0), 0);
        assert_eq!(cuMemRetainAllocationHandle(&raw mut again, at), 1, "nothing is mapped there");
        assert_eq!(cuMemMap(at, PIECE, 0, handle, 0), 0);
        assert_eq!(cuMemSetAccess(at, PIECE, &raw const READ_WRITE, 1), 0);
        assert_eq!((cuMemcpyHtoD_v2(at, (&raw const at) as u64, 4), word(at)), (0, (0, at as u32)));
        // Without access it keeps its bytes, and counts.
        let none = Access { flags: 0, ..READ_WRITE };
        assert_eq!((cuMemSetAccess(at, PIECE, &raw const none, 1), word(at).0), (0, 1));
        assert_eq!(before - free(), PIECE);
        assert_eq!((cuMemSetAccess(at, PIECE, &raw const READ_WRITE, 1), word(at)), (0, (0, at as u32)));
        // A second handle by the address: each is released once.
        assert_eq!((cuMemRetainAllocationHandle(&raw mut again, at + 4096), again), (0, handle));
        assert_eq!((cuMemRelease(handle), cuMemUnmap(at, PIECE)), (0, 0));
        assert_eq!(before - free(), PIECE, "a handle is left");
        assert_eq!((cuMemMap(at, PIECE, 0, handle, 0), cuMemRelease(handle)), (0, 0));
        assert_eq!(cuMemRelease(handle), 400, "no handle is left");
        assert_eq!(before - free(), PIECE, "it is mapped");
        assert_eq!((cuMemUnmap(at, PIECE), free()), (0, before));
        assert_eq!(cuMemMap(at, PIECE, 0, handle, 0), 400);
        // What was never mapped goes with its handle.
        assert_eq!(cuMemCreate(&raw mut handle, PIECE, &raw const all, 0), 0);
        assert_eq!((before - free(), cuMemRelease(handle), free()), (PIECE, 0, before));
        assert_eq!(cuMemAddressFree(at, PIECE), 1, "it was reserved as a whole");
        assert_eq!((cuMemAddressFree(at, 2 * PIECE), cuMemAddressFree(at, 2 * PIECE)), (0, 1));
    }
}

#[test]
fn addresses_and_sizes_of_mappings_are_checked() {
    let _one = begin();
    let (all, piece) = (wanted(), PIECE as u64);
    let (mut at, mut other, mut handle, mut large, mut none) = (0u64, 0u64, 0, 0, 0);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cuMemAddressReserve(&raw mut at, 4 * PIECE, 8 * PIECE, 0, 0), 0);
        assert_eq!(at % (8 * piece), 0, "as it was asked for");
        assert_eq!(cuMemAddressReserve(&raw mut other, PIECE, 3, 0, 0), 1, "no power of two");
        let wanted = at - 16 * piece;
        assert_eq!((cuMemAddressReserve(&raw mut other, PIECE, 0, wanted, 0), other), (0, wanted));
        assert_eq!(cuMemAddressReserve(&raw mut other, PIECE, 0, wanted, 0), 0);
        assert_ne!(other, wanted, "where it is taken, another address is given");
        assert_eq!(cuMemCreate(&raw mut handle, 2 * PIECE, &raw const all, 0), 0);
        let map = |at: u64, bytes, offset| cuMemMap(at, bytes, offset, handle, 0);
        assert_eq!(map(at, PIECE, 0), 1, "all of it is mapped");
        assert_eq!(map(at, 2 * PIECE, PIECE), 1, "from its beginning");
        assert_eq!(map(at + piece / 2, 2 * PIECE, 0), 1, "at a multiple of the granularity");
        assert_eq!(map(at + 3 * piece, 2 * PIECE, 0), 1, "beyond what is reserved");
        assert_eq!(map(wanted - 4 * piece, 2 * PIECE, 0), 1, "nothing is reserved there");
        assert_eq!(map(at + piece, 2 * PIECE, 0), 0);
        assert_eq!(cuMemUnmap(at + piece, PIECE), 1, "mappings end as a whole");
        assert_eq!(cuMemUnmap(at, 3 * PIECE), 1, "nothing is mapped at the first piece");
        assert_eq!(cuMemSetAccess(at + piece, PIECE, &raw const READ_WRITE, 1), 1);
        assert_eq!(cuMemAddressFree(at, 4 * PIECE), 1, "something is mapped there");
        assert_eq!((cuMemUnmap(at + piece, 2 * PIECE), cuMemAddressFree(at, 4 * PIECE)), (0, 0));
        // As much memory as there is, whether it is mapped or not.
        let rest = free() / PIECE * PIECE;
        assert_eq!(cuMemCreate(&raw mut large, rest + PIECE, &raw const all, 0), 2);
        assert_eq!(cuMemCreate(&raw mut large, rest, &raw const all, 0), 0);
        assert_eq!(cuMemCreate(&raw mut none, PIECE, &raw const all, 0), 2);
        assert_eq!((cuMemRelease(large), cuMemRelease(handle)), (0, 0));
    }
}

/// As programs with sparse arrays do: more addresses than memory, pieces mapped here and there.
#[test]
fn more_addresses_than_memory_are_reserved_and_pieces_of_them_mapped() {
    let _one = begin();
    let (all, piece, before) = (wanted(), PIECE as u64, free());
    let (mut at, mut other, mut handles) = (0u64, 0u64, [0; 2]);
    let bytes = before.next_multiple_of(PIECE) * 8;
    let last = bytes as u64 - piece;
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cuMemAddressReserve(&raw mut at, 1 << 40, 0, 0, 0), 2, "more than there are");
        assert_eq!(cuMemAddressReserve(&raw mut at, bytes, 0, 0, 0), 0);
        assert_eq!(cuMemAddressReserve(&raw mut other, bytes, 0, 0, 0), 0);
        assert!(other + bytes as u64 <= at);
        for (handle, offset) in handles.iter_mut().zip([0, last]) {
            assert_eq!(cuMemCreate(handle, PIECE, &raw const all, 0), 0);
            assert_eq!(cuMemMap(at + offset, PIECE, 0, *handle, 0), 0);
            assert_eq!(cuMemSetAccess(at + offset, PIECE, &raw const READ_WRITE, 1), 0);
        }
        assert_eq!((put(at, 5), put(at + last + piece - 4, 6)), (0, 0));
        assert_eq!((word(at), word(at + last + piece - 4), word(at + piece).0), ((0, 5), (0, 6), 1));
        // Memory that is allocated otherwise is elsewhere, and counts what is mapped.
        let mut memory = 0u64;
        assert_eq!(cuMemAlloc_v2(&raw mut memory, before - PIECE), 2);
        assert_eq!(cuMemAlloc_v2(&raw mut memory, before - 4 * PIECE), 0);
        assert!(memory + (before as u64) < other);
        assert_eq!((put(memory, 7), word(at), cuMemFree_v2(memory)), (0, (0, 5), 0));
        for (handle, offset) in handles.into_iter().zip([0, last]) {
            assert_eq!((cuMemUnmap(at + offset, PIECE), cuMemRelease(handle)), (0, 0));
        }
        assert_eq!((cuMemAddressFree(at, bytes), cuMemAddressFree(other, bytes), free()), (0, 0, before));
        // The program's own memory is no address of the device.
        let page = libc::mmap(
            (at + piece) as *mut c_void,
            PIECE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        );
        assert_eq!(page as u64, at + piece, "these addresses are free again");
        assert_eq!(
            cuMemAddressReserve(&raw mut other, bytes, 0, at, 0),
            2,
            "the program has something there"
        );
        assert_eq!(libc::munmap(page, PIECE), 0);
    }
}

#[test]
fn kernels_fault_where_nothing_is_mapped() {
    let _one = begin();
    let (all, mut at, mut handle) = (wanted(), 0u64, 0);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!(cuMemAddressReserve(&raw mut at, 2 * PIECE, 0, 0, 0), 0);
        assert_eq!(cuMemCreate(&raw mut handle, PIECE, &raw const all, 0), 0);
        assert_eq!(cuMemMap(at, PIECE, 0, handle, 0), 0);
        assert_eq!(cuMemSetAccess(at, PIECE, &raw const READ_WRITE, 1), 0);
        assert_eq!(put(at + PIECE as u64 - 4, 1), 0);
        assert_eq!(put(at + PIECE as u64, 1), 700, "it is reserved and not mapped");
        assert_eq!(cuDevicePrimaryCtxReset_v2(0), 0);
    }
}

#[test]
fn pools_count_what_is_allocated_from_them() {
    let _one = begin();
    let (properties, mut pool, mut default, mut at, mut used) = (Properties::OF_DEVICE, 0, 0, 0u64, 0u64);
    // SAFETY: all pointers lead to variables of this function.
    unsafe {
        assert_eq!((cuDeviceGetDefaultMemPool(&raw mut default, 0), default == 0), (0, false));
        let mut properties = [properties; 6];
        assert_eq!(cuMemPoolCreate(&raw mut pool, properties.as_mut_ptr()), 0);
        let own = pool as *mut c_void;
        assert_eq!(cuMemAllocFromPoolAsync(&raw mut at, 4096, own, null_mut()), 0);
        let mut ask = |pool: usize| {
            assert_eq!(cuMemPoolGetAttribute(pool as *mut c_void, 7, (&raw mut used).cast()), 0);
            used
        };
        assert_eq!((ask(pool), ask(default)), (4096, 0));
        assert_eq!((put(at, 3), word(at)), (0, (0, 3)));
        assert_eq!((cuMemFreeAsync(at, null_mut()), ask(pool)), (0, 0));
        assert_eq!(
            (cuMemPoolDestroy(default as *mut c_void), cuMemPoolDestroy(own), cuMemPoolDestroy(own)),
            (1, 0, 1)
        );
        assert_eq!(cuMemAllocFromPoolAsync(&raw mut at, 4096, own, null_mut()), 1);
    }
}
