//! User objects: data of the program that goes, by a function of the program, when neither the program nor a graph refers to
//! it. A clone of a graph and what is made of it refer to what it refers to.

use std::ffi::c_void;

use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE};
use crate::graph::{Graph, HostFunction};
use crate::graph_blocks::UserObject;
use crate::runtime::State;

/// `cudaUserObjectNoDestructorSync`, which is asked for: nothing waits for the destructor.
const NO_SYNC: u32 = 1;
/// `cudaGraphUserObjectMove`: the references were the program's.
const MOVE: u32 = 1;

fn find(state: &mut State, object: usize) -> Result<&mut UserObject, Error> {
    state.runtime()?.objects.get_mut(&object).ok_or(INVALID_VALUE)
}

fn graph(state: &mut State, graph: usize) -> Result<&mut Graph, Error> {
    state.runtime()?.graphs.get_mut(&graph).filter(|graph| !graph.executable).ok_or(INVALID_HANDLE)
}

/// Makes an object with references of the program.
///
/// # Errors
/// There is no destructor, no reference, or the flags are others than those that CUDA has.
pub fn create(
    state: &mut State,
    at: *mut usize,
    data: *mut c_void,
    destroy: Option<HostFunction>,
    references: u32,
    flags: u32,
) -> Result<(), Error> {
    let destroy = destroy.ok_or(INVALID_VALUE)?;
    if references == 0 || flags != NO_SYNC || at.is_null() {
        return Err(INVALID_VALUE);
    }
    let handle = state.handle();
    let own = UserObject { destroy, data: data as usize, references };
    state.runtime()?.objects.insert(handle, own);
    out!(at, handle);
    Ok(())
}

/// More references of the program.
///
/// # Errors
/// There is no such object, or none is wanted.
pub fn retain(state: &mut State, object: usize, count: u32) -> Result<(), Error> {
    let own = find(state, object)?;
    own.references = own.references.checked_add(count).filter(|_| count > 0).ok_or(INVALID_VALUE)?;
    Ok(())
}

/// Fewer references of the program.
///
/// # Errors
/// There is no such object, or it has not as many.
pub fn release(state: &mut State, object: usize, count: u32) -> Result<(), Error> {
    let own = find(state, object)?;
    own.references = own.references.checked_sub(count).filter(|_| count > 0).ok_or(INVALID_VALUE)?;
    state.sweep()
}

/// More references of a graph; with a flag they were the program's.
///
/// # Errors
/// There is no such graph or object, or the program has not as many.
pub fn keep(state: &mut State, of: usize, object: usize, count: u32, flags: u32) -> Result<(), Error> {
    graph(state, of)?;
    let own = find(state, object)?;
    if count == 0 || flags > MOVE {
        return Err(INVALID_VALUE);
    }
    if flags == MOVE {
        own.references = own.references.checked_sub(count).ok_or(INVALID_VALUE)?;
    }
    let kept = graph(state, of)?.objects.entry(object).or_default();
    *kept = kept.saturating_add(count);
    Ok(())
}

/// Fewer references of a graph.
///
/// # Errors
/// There is no such graph, or it has not as many.
pub fn give_up(state: &mut State, of: usize, object: usize, count: u32) -> Result<(), Error> {
    let objects = &mut graph(state, of)?.objects;
    let kept = objects.get_mut(&object).ok_or(INVALID_VALUE)?;
    *kept = kept.checked_sub(count).filter(|_| count > 0).ok_or(INVALID_VALUE)?;
    if *kept == 0 {
        objects.remove(&object);
    }
    state.sweep()
}

cuda! {
    fn cudaUserObjectCreate = (
        at: *mut usize, data: *mut c_void, destroy: Option<HostFunction>, references: u32, flags: u32
    ) |state| { create(state, at, data, destroy, references, flags) }

    fn cudaUserObjectRetain = (object: usize, count: u32) |state| { retain(state, object, count) }

    fn cudaUserObjectRelease = (object: usize, count: u32) |state| { release(state, object, count) }

    fn cudaGraphRetainUserObject = (graph: usize, object: usize, count: u32, flags: u32) |state| {
        keep(state, graph, object, count, flags)
    }

    fn cudaGraphReleaseUserObject = (graph: usize, object: usize, count: u32) |state| {
        give_up(state, graph, object, count)
    }
}

/// The same of the driver API.
pub mod driver {
    use super::*;

    driver! {
        ENTRIES []

        driver cuUserObjectCreate = (
            at: *mut usize, data: *mut c_void, destroy: Option<HostFunction>, references: u32, flags: u32
        ) |state| { create(state, at, data, destroy, references, flags) }

        driver cuUserObjectRetain = (object: usize, count: u32) |state| { retain(state, object, count) }

        driver cuUserObjectRelease = (object: usize, count: u32) |state| { release(state, object, count) }

        driver cuGraphRetainUserObject = (graph: usize, object: usize, count: u32, flags: u32) |state| {
            keep(state, graph, object, count, flags)
        }

        driver cuGraphReleaseUserObject = (graph: usize, object: usize, count: u32) |state| {
            give_up(state, graph, object, count)
        }
    }
}
