//! `cuGetProcAddress`: the functions of the driver API by name and version.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::LazyLock;

use crate::driver::call::Entry;
use crate::driver::{
    arrays, batches, captures, context, device, errors, graph_nodes, graph_parameters, graphs, launch,
    linker, memory, modules, pointers as addresses, pools, stream_values, streams, tables, tensor_maps,
    unsupported, virtual_memory,
};
use crate::error::{Error, INVALID_VALUE, NOT_FOUND};
use crate::pointers;

/// From which version of CUDA on each of the functions of a name is meant: the first has the name itself, the next ones
/// `_v2` and so on (`cudaTypedefs.h` of CUDA 13.5).
#[rustfmt::skip]
const SINCE: &[(&str, &[i32])] = &[
    ("cuArray3DCreate", &[2000, 3020]),
    ("cuArray3DGetDescriptor", &[2000, 3020]),
    ("cuArrayCreate", &[2000, 3020]),
    ("cuArrayGetDescriptor", &[2000, 3020]),
    ("cuCtxCreate", &[2000, 3020, 11040, 12050]),
    ("cuCtxDestroy", &[2000, 4000]),
    ("cuCtxGetDevice", &[2000, 13000]),
    ("cuCtxPopCurrent", &[2000, 4000]),
    ("cuCtxPushCurrent", &[2000, 4000]),
    ("cuCtxSynchronize", &[2000, 13000]),
    ("cuDeviceGetUuid", &[9020, 11040]),
    ("cuDevicePrimaryCtxRelease", &[7000, 11000]),
    ("cuDevicePrimaryCtxReset", &[7000, 11000]),
    ("cuDevicePrimaryCtxSetFlags", &[7000, 11000]),
    ("cuDeviceTotalMem", &[2000, 3020]),
    ("cuEventDestroy", &[2000, 4000]),
    ("cuEventElapsedTime", &[2000, 12080]),
    ("cuGLCtxCreate", &[2000, 3020]),
    ("cuGLGetDevices", &[4010, 6050]),
    ("cuGLMapBufferObject", &[2000, 3020]),
    ("cuGLMapBufferObjectAsync", &[2030, 3020]),
    ("cuGetProcAddress", &[11030, 12000]),
    ("cuGraphAddDependencies", &[10000, 12030]),
    ("cuGraphAddKernelNode", &[10000, 12000]),
    ("cuGraphAddNode", &[12020, 12030, 13040]),
    ("cuGraphExecKernelNodeSetParams", &[10010, 12000]),
    ("cuGraphExecUpdate", &[10020, 12000]),
    ("cuGraphGetEdges", &[10000, 12030]),
    ("cuGraphInstantiate", &[10000, 11000]),
    ("cuGraphKernelNodeGetParams", &[10000, 12000]),
    ("cuGraphKernelNodeSetParams", &[10000, 12000]),
    ("cuGraphNodeGetDependencies", &[10000, 12030]),
    ("cuGraphNodeGetDependentNodes", &[10000, 12030]),
    ("cuGraphNodeSetParams", &[12020, 13040]),
    ("cuGraphRemoveDependencies", &[10000, 12030]),
    ("cuGraphicsResourceGetMappedPointer", &[3000, 3020]),
    ("cuGraphicsResourceSetMapFlags", &[3000, 6050]),
    ("cuIpcOpenMemHandle", &[4010, 11000]),
    ("cuLaunchHostFunc", &[10000, 13010]),
    ("cuLinkAddData", &[5050, 6050]),
    ("cuLinkAddFile", &[5050, 6050]),
    ("cuLinkCreate", &[5050, 6050]),
    ("cuMemAdvise", &[8000, 12020]),
    ("cuMemAlloc", &[2000, 3020]),
    ("cuMemAllocHost", &[2000, 3020]),
    ("cuMemAllocPitch", &[2000, 3020]),
    ("cuMemFree", &[2000, 3020]),
    ("cuMemGetAddressRange", &[2000, 3020]),
    ("cuMemGetInfo", &[2000, 3020]),
    ("cuMemHostGetDevicePointer", &[2020, 3020]),
    ("cuMemHostRegister", &[4000, 6050]),
    ("cuMemPrefetchAsync", &[8000, 12020]),
    ("cuMemcpy2D", &[2000, 3020]),
    ("cuMemcpy2DAsync", &[2000, 3020]),
    ("cuMemcpy2DUnaligned", &[2000, 3020]),
    ("cuMemcpy3D", &[2000, 3020]),
    ("cuMemcpy3DAsync", &[2000, 3020]),
    ("cuMemcpy3DBatchAsync", &[12080, 13000]),
    ("cuMemcpyAtoA", &[2000, 3020]),
    ("cuMemcpyAtoD", &[2000, 3020]),
    ("cuMemcpyAtoH", &[2000, 3020]),
    ("cuMemcpyAtoHAsync", &[2000, 3020]),
    ("cuMemcpyBatchAsync", &[12080, 13000]),
    ("cuMemcpyDtoA", &[2000, 3020]),
    ("cuMemcpyDtoD", &[2000, 3020]),
    ("cuMemcpyDtoDAsync", &[3000, 3020]),
    ("cuMemcpyDtoH", &[2000, 3020]),
    ("cuMemcpyDtoHAsync", &[2000, 3020]),
    ("cuMemcpyHtoA", &[2000, 3020]),
    ("cuMemcpyHtoAAsync", &[2000, 3020]),
    ("cuMemcpyHtoD", &[2000, 3020]),
    ("cuMemcpyHtoDAsync", &[2000, 3020]),
    ("cuMemsetD16", &[2000, 3020]),
    ("cuMemsetD2D16", &[2000, 3020]),
    ("cuMemsetD2D32", &[2000, 3020]),
    ("cuMemsetD2D8", &[2000, 3020]),
    ("cuMemsetD32", &[2000, 3020]),
    ("cuMemsetD8", &[2000, 3020]),
    ("cuModuleGetGlobal", &[2000, 3020]),
    ("cuMulticastBindAddr", &[12010, 13010]),
    ("cuMulticastBindMem", &[12010, 13010]),
    ("cuStreamBatchMemOp", &[8000, 11070]),
    ("cuStreamBeginCapture", &[10000, 10010]),
    ("cuStreamDestroy", &[2000, 4000]),
    ("cuStreamGetCaptureInfo", &[10010, 11030, 12030]),
    ("cuStreamGetCtx", &[9020, 12050]),
    ("cuStreamUpdateCaptureDependencies", &[11030, 12030]),
    ("cuStreamWaitValue32", &[8000, 11070]),
    ("cuStreamWaitValue64", &[9000, 11070]),
    ("cuStreamWriteValue32", &[8000, 11070]),
    ("cuStreamWriteValue64", &[9000, 11070]),
    ("cuTexRefGetAddress", &[2000, 3020]),
    ("cuTexRefSetAddress", &[2000, 3020]),
    ("cuTexRefSetAddress2D", &[2020, 3020, 4010]),
    ("cuVDPAUCtxCreate", &[3010, 3020]),
];

/// From this version on `cuGraphInstantiate` is what was `cuGraphInstantiateWithFlags`.
const GRAPH_FLAGS: i32 = 12_000;
/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
pub const PER_THREAD: u64 = 2;

/// What is said of a name (`CUdriverProcAddressQueryResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Function(usize),
    None,
    Newer,
}

static ALL: LazyLock<BTreeMap<&'static str, usize>> = LazyLock::new(|| {
    let lists: [&[Entry]; 26] = [
        crate::advice::driver::ENTRIES,
        crate::ipc::driver::ENTRIES,
        crate::conditions::driver::ENTRIES,
        crate::user_objects::driver::ENTRIES,
        arrays::ENTRIES,
        batches::ENTRIES,
        captures::ENTRIES,
        context::ENTRIES,
        device::ENTRIES,
        errors::ENTRIES,
        graph_nodes::ENTRIES,
        graph_parameters::ENTRIES,
        graphs::ENTRIES,
        launch::ENTRIES,
        linker::ENTRIES,
        memory::ENTRIES,
        modules::ENTRIES,
        addresses::ENTRIES,
        pools::ENTRIES,
        stream_values::ENTRIES,
        streams::ENTRIES,
        tables::ENTRIES,
        tensor_maps::ENTRIES,
        unsupported::ENTRIES,
        virtual_memory::ENTRIES,
        ENTRIES,
    ];
    lists.into_iter().flatten().map(|entry| (entry.name, entry.function as usize)).collect()
});

/// The function that a name means in a version.
fn find(name: &str, version: i32, flags: u64) -> Found {
    let name = if name == "cuGraphInstantiate" && version >= GRAPH_FLAGS {
        "cuGraphInstantiateWithFlags"
    } else {
        name
    };
    let since = SINCE.iter().find(|(own, _)| *own == name).map_or(&[0][..], |(_, since)| *since);
    let exported = |n: usize| if n == 1 { name.to_string() } else { format!("{name}_v{n}") };
    let is_there = |n: &usize| ALL.contains_key(exported(*n).as_str());
    let fitting = (1..=since.len()).rev().filter(|n| since[n - 1] <= version).find(is_there);
    let Some(n) = fitting else {
        return if (1..=since.len()).any(|n| is_there(&n)) { Found::Newer } else { Found::None };
    };
    let exported = exported(n);
    let per_thread = ["_ptsz", "_ptds"].map(|suffix| format!("{exported}{suffix}"));
    let per_thread =
        per_thread.iter().filter(|_| flags & PER_THREAD != 0).find_map(|name| ALL.get(name.as_str()));
    per_thread
        .or_else(|| ALL.get(exported.as_str()))
        .map_or(Found::None, |function| Found::Function(*function))
}

/// The address of the function that a name means in a version, 0 for none, and what is said of it
/// (`CUdriverProcAddressQueryResult`).
fn look_up(name: &str, version: i32, flags: u64) -> (usize, i32) {
    match find(name, version, flags) {
        Found::Function(function) => (function, 0),
        Found::None => (0, 1),
        Found::Newer => (0, 2),
    }
}

/// Writes the function that a name means, with what is said of it where `status` is not null; false where there is none.
///
/// # Errors
/// There is no place for it, or a flag is unknown.
///
/// # Safety
/// The name is a text, the pointers are null or places of results.
pub unsafe fn give(
    name: *const c_char,
    at: *mut *const c_void,
    version: i32,
    flags: u64,
    status: *mut i32,
) -> Result<bool, Error> {
    // SAFETY: CUDA's manual asks for a text.
    let name = unsafe { pointers::text(name) }?;
    if at.is_null() || flags > PER_THREAD {
        return Err(INVALID_VALUE);
    }
    let (function, told) = look_up(&name, version, flags);
    out!(at, function as *const c_void);
    if !status.is_null() {
        out!(status, told);
    }
    Ok(function != 0)
}

/// An error where nothing was found.
fn found(is: bool) -> Result<(), Error> {
    if is { Ok(()) } else { Err(NOT_FOUND) }
}

driver! {
    ENTRIES []

    nothing cuGetProcAddress = (name: *const c_char, at: *mut *const c_void, version: i32, flags: u64) |_state| {
        // SAFETY: CUDA's manual asks for a text and a place.
        found(unsafe { give(name, at, version, flags, std::ptr::null_mut()) }?)
    }

    nothing cuGetProcAddress_v2 cuGetProcAddress_v2_ptsz = (
        name: *const c_char, at: *mut *const c_void, version: i32, flags: u64, status: *mut i32
    ) |_state| {
        // SAFETY: CUDA's manual asks for a text and places.
        found(unsafe { give(name, at, version, flags, status) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_the_functions_of_their_versions() {
        let named = |exported: &str| Found::Function(ALL[exported]);
        assert_eq!(find("cuMemAlloc", 12_000, 0), named("cuMemAlloc_v2"));
        assert_eq!(find("cuCtxCreate", 12_000, 0), named("cuCtxCreate_v3"));
        assert_eq!(find("cuCtxCreate", 13_000, 0), named("cuCtxCreate_v4"));
        assert_eq!(find("cuCtxSynchronize", 2000, 0), named("cuCtxSynchronize"));
        assert_eq!(find("cuGetProcAddress", 11_030, 0), named("cuGetProcAddress"));
        assert_eq!(find("cuGetProcAddress", 12_000, 0), named("cuGetProcAddress_v2"));
        assert_eq!(find("cuGraphInstantiate", 11_040, 0), named("cuGraphInstantiate_v2"));
        assert_eq!(find("cuGraphInstantiate", 12_000, 0), named("cuGraphInstantiateWithFlags"));
        assert_eq!(find("cuLaunchKernel", 12_000, PER_THREAD), named("cuLaunchKernel_ptsz"));
        assert_eq!(find("cuMemcpyHtoD", 12_000, PER_THREAD), named("cuMemcpyHtoD_v2_ptds"));
        assert_eq!(find("cuNoSuchCall", 12_000, 0), Found::None);
        assert_eq!(find("cuMemAdvise", 7000, 0), Found::Newer);
    }

    #[test]
    fn every_function_has_one_name_and_no_unsupported_one_succeeds() {
        assert!(ALL.len() > 650, "{} functions", ALL.len());
        for entry in unsupported::ENTRIES {
            // SAFETY: an unsupported function takes no arguments.
            let function: extern "C" fn() -> i32 = unsafe { std::mem::transmute(entry.function) };
            assert_eq!(function(), crate::error::NOT_SUPPORTED.0, "{}", entry.name);
        }
        // Names of versions belong to a name that has as many.
        for (name, since) in SINCE {
            assert!(since.is_sorted() && since.len() > 1, "{name}");
        }
    }
}
