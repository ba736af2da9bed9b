//! Memory of graphs while they run: nodes allocate and free.

use std::ffi::c_void;

use crate::error::{Error, INVALID_VALUE, MEMORY_ALLOCATION};
use crate::graph::Work;
use crate::graph_blocks::Own;
use crate::memory::free;
use crate::runtime::State;

/// Memory for a node.
///
/// # Errors
/// Too little is left, or none is wanted.
pub fn allocate(state: &mut State, bytes: u64) -> Result<Work, Error> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let runtime = state.runtime()?;
    let at = runtime.device.malloc("memory of a graph", bytes, 1).map_err(|_| MEMORY_ALLOCATION)?;
    runtime.graph_memory.list.insert(at, Own { bytes, used: false });
    runtime.graph_memory.count();
    Ok(Work::Allocate(at, bytes))
}

/// A node allocates.
///
/// # Errors
/// The memory is in use: the graph was launched before, and nothing has freed what it allocated.
pub fn begin(state: &mut State, at: u64) -> Result<(), Error> {
    let memory = &mut state.runtime()?.graph_memory;
    let own = memory.list.get_mut(&at).ok_or(INVALID_VALUE)?;
    if own.used {
        eprintln!(
            "warpsim: a graph allocates memory at {at:#x} that an earlier launch of it allocated and nothing has freed: \
             cudaFree, a free node, or cudaGraphInstantiateFlagAutoFreeOnLaunch"
        );
        return Err(INVALID_VALUE);
    }
    own.used = true;
    memory.count();
    Ok(())
}

/// A node, or the program, frees.
///
/// # Errors
/// The memory is not in use.
pub fn end(state: &mut State, at: u64) -> Result<(), Error> {
    // Memory that a stream allocated may be freed by a graph too.
    free(state, at as *mut c_void, false)
}

/// Frees all that the nodes of a graph allocate.
pub fn end_all(state: &mut State, all: &[Work]) {
    let Ok(runtime) = state.runtime() else { return };
    for work in all {
        if let Work::Allocate(at, _) = work
            && let Some(own) = runtime.graph_memory.list.get_mut(at)
        {
            own.used = false;
        }
    }
}
