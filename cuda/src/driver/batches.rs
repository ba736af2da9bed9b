//! Several operations of a stream on values in memory at once, by the stream and as nodes of graphs.

use std::ffi::c_void;

use crate::driver::stream_values::{Batch, check, give};
use crate::error::{Error, INVALID_VALUE};
use crate::graph::Work;
use crate::graph_nodes::{node, set};
use crate::graphs::add;
use crate::pointers;
use crate::runtime::State;

/// Reads the operations of a batch.
///
/// # Safety
/// The structure must have as many as it says.
unsafe fn of(parameters: *const Batch) -> Result<Work, Error> {
    // SAFETY: the caller's promise.
    unsafe { pointers::get(parameters)?.work() }
}

/// What a node does, for the program.
fn tell(state: &mut State, own: usize, parameters: *mut Batch) -> Result<(), Error> {
    let Work::Values(all) = &node(state, own)?.work else { return Err(INVALID_VALUE) };
    out!(parameters, Batch::of(all));
    Ok(())
}

driver! {
    ENTRIES []

    context cuStreamBatchMemOp cuStreamBatchMemOp_ptsz cuStreamBatchMemOp_v2 cuStreamBatchMemOp_v2_ptsz = (
        stream: *mut c_void, count: u32, all: *const [u64; 6], _flags: u32
    ) |state| {
        // SAFETY: CUDA's manual asks for as many structures.
        let all = (0..count as usize).map(|i| unsafe { pointers::get(all.wrapping_add(i)) });
        let all = all.collect::<Result<Vec<_>, _>>()?;
        check(&all)?;
        give(state, "cuStreamBatchMemOp", stream, all)
    }

    context cuGraphAddBatchMemOpNode = (
        at: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const Batch
    ) |state| {
        // SAFETY: CUDA's manual asks for the structures and as many handles.
        unsafe {
            let work = of(parameters)?;
            add(state, at, graph, (after, count), work)
        }
    }

    driver cuGraphBatchMemOpNodeGetParams = (node: usize, parameters: *mut Batch) |state| {
        tell(state, node, parameters)
    }

    context cuGraphBatchMemOpNodeSetParams = (node: usize, parameters: *const Batch) |state| {
        // SAFETY: CUDA's manual asks for the structures.
        let work = unsafe { of(parameters) }?;
        set(state, None, node, work)
    }

    context cuGraphExecBatchMemOpNodeSetParams = (graph: usize, node: usize, parameters: *const Batch) |state| {
        // SAFETY: CUDA's manual asks for the structures.
        let work = unsafe { of(parameters) }?;
        set(state, Some(graph), node, work)
    }
}
