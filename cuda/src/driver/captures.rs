//! Captures of streams by the driver API.

use std::ffi::c_void;

use crate::captures::{Places, begin, begin_in, end, exchange_mode, few, tell, update};

driver! {
    ENTRIES []

    context cuStreamBeginCapture cuStreamBeginCapture_ptsz cuStreamBeginCapture_v2 cuStreamBeginCapture_v2_ptsz = (
        stream: *mut c_void
    ) |state| { begin(state, stream, None) }

    context cuStreamBeginCaptureToGraph cuStreamBeginCaptureToGraph_ptsz = (
        stream: *mut c_void, graph: usize, after: *const usize, _edges: usize, count: usize, _mode: i32
    ) |state| { begin_in(state, stream, graph, (after, count)) }

    context cuStreamEndCapture cuStreamEndCapture_ptsz = (stream: *mut c_void, at: *mut usize) |state| {
        end(state, stream, at)
    }

    context cuStreamGetCaptureInfo cuStreamGetCaptureInfo_ptsz = (
        stream: *mut c_void, status: *mut i32, id: *mut u64
    ) |state| { tell(state, stream, few(status, id)) }

    context cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v2_ptsz = (
        stream: *mut c_void, status: *mut i32, id: *mut u64, graph: *mut usize, nodes: *mut *const usize, count: *mut usize
    ) |state| { tell(state, stream, Places { graph, nodes, count, ..few(status, id) }) }

    context cuStreamGetCaptureInfo_v3 cuStreamGetCaptureInfo_v3_ptsz = (
        stream: *mut c_void, status: *mut i32, id: *mut u64, graph: *mut usize, nodes: *mut *const usize,
        edges: *mut *const [u8; 8], count: *mut usize
    ) |state| { tell(state, stream, Places { status, id, graph, nodes, edges, count }) }

    context cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_ptsz = (
        stream: *mut c_void, nodes: *const usize, count: usize, flags: u32
    ) |state| { update(state, stream, nodes, count, flags) }

    context cuStreamUpdateCaptureDependencies_v2 cuStreamUpdateCaptureDependencies_v2_ptsz = (
        stream: *mut c_void, nodes: *const usize, _edges: usize, count: usize, flags: u32
    ) |state| { update(state, stream, nodes, count, flags) }

    nothing cuThreadExchangeStreamCaptureMode = (mode: *mut i32) |_state| {
        // SAFETY: CUDA's manual asks for a mode.
        unsafe { exchange_mode(mode) }
    }
}
