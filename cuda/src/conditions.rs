//! Conditional nodes of graphs. The handle of a condition is the address of a word of device memory: kernels store to it
//! (`cudaGraphSetConditional` of the device runtime), and the host reads it when what comes before the node has run.

use std::ffi::c_void;

use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE, MEMORY_ALLOCATION, NOT_SUPPORTED, UNKNOWN};
use crate::graph::{Condition, ConditionKind, Conditional, Graph, Work};
use crate::runtime::State;

/// `cudaGraphCondTypeIf`, `cudaGraphCondTypeWhile`, `cudaGraphCondTypeSwitch`.
const IF: i32 = 0;
const WHILE: i32 = 1;
const SWITCH: i32 = 2;
/// `cudaGraphCondAssignDefault`.
const ASSIGN_DEFAULT: u32 = 1;
/// The most bodies that a node may have: what does not come from a mistake has far fewer.
const MOST_BODIES: u32 = 1 << 16;

/// CUDA's `cudaConditionalNodeParams`, and `CUDA_CONDITIONAL_NODE_PARAMS` of the driver API.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ConditionalNode {
    handle: u64,
    kind: i32,
    size: u32,
    bodies: *const usize,
}

impl ConditionalNode {
    /// The same, with where the program finds the graphs of the bodies.
    pub fn with(self, bodies: &[usize]) -> Self {
        Self { bodies: bodies.as_ptr(), ..self }
    }
}

/// Makes a condition for a node of a graph.
///
/// # Errors
/// There is no such graph, or no memory for it.
pub fn create(state: &mut State, at: *mut u64, graph: usize, value: u32, flags: u32) -> Result<(), Error> {
    let runtime = state.runtime()?;
    if runtime.graphs.get(&graph).is_none_or(|own| own.executable) {
        return Err(INVALID_HANDLE);
    }
    if flags & !ASSIGN_DEFAULT != 0 || at.is_null() {
        return Err(INVALID_VALUE);
    }
    let handle = runtime.device.malloc("condition of a graph", 4, 1).map_err(|_| MEMORY_ALLOCATION)?;
    runtime.device.write(handle, &[0; 4]).map_err(|_| UNKNOWN)?;
    let default = (flags & ASSIGN_DEFAULT != 0).then_some(value);
    runtime.conditions.insert(handle, Condition { graph, default, used: false });
    out!(at, handle);
    Ok(())
}

/// What a conditional node does; its bodies are new graphs.
///
/// # Errors
/// The condition is none or has its node already, or there are no such nodes.
pub fn work(state: &mut State, call: &str, own: &ConditionalNode) -> Result<Work, Error> {
    let (kind, most) = match own.kind {
        IF => (ConditionKind::If, 2),
        WHILE => (ConditionKind::While, 1),
        SWITCH => (ConditionKind::Switch, MOST_BODIES),
        _ => return Err(INVALID_VALUE),
    };
    let fits = (1..=most).contains(&own.size);
    let condition = state.runtime()?.conditions.get_mut(&own.handle).filter(|_| fits).ok_or(INVALID_VALUE)?;
    if std::mem::replace(&mut condition.used, true) {
        eprintln!("warpsim: {call}: the handle has a node already: each conditional node has one of its own");
        return Err(INVALID_VALUE);
    }
    let bodies: Box<[usize]> = (0..own.size).map(|_| state.handle()).collect();
    let graphs = &mut state.runtime()?.graphs;
    graphs.extend(bodies.iter().map(|handle| (*handle, Graph::default())));
    Ok(Work::Conditional(Box::new(Conditional { handle: own.handle, kind, bodies, graphs: Vec::new() })))
}

/// A graph that is to be part of another, or to be cloned, has no conditional nodes, as CUDA says.
///
/// # Errors
/// It has some.
pub fn has_none(graph: &Graph, what: &str) -> Result<(), Error> {
    if graph.nodes.iter().all(|node| !matches!(node.work, Work::Conditional(_))) {
        return Ok(());
    }
    eprintln!("warpsim: a graph with conditional nodes cannot be {what}, as CUDA's manual says");
    Err(NOT_SUPPORTED)
}

/// What a graph is now, with the bodies of its conditional nodes.
///
/// # Errors
/// A body has nodes that it may not have, or nodes that wait for each other, or a condition of the graph has no node.
pub fn resolve(state: &mut State, handle: usize, mut graph: Graph) -> Result<Graph, Error> {
    let unused =
        state.runtime()?.conditions.values().any(|condition| condition.graph == handle && !condition.used);
    if unused {
        eprintln!("warpsim: a graph is instantiated that has a conditional handle without a node");
        return Err(INVALID_VALUE);
    }
    resolve_bodies(state, &mut graph)?;
    Ok(graph)
}

fn resolve_bodies(state: &mut State, graph: &mut Graph) -> Result<(), Error> {
    for node in &mut graph.nodes {
        let Work::Conditional(own) = &mut node.work else { continue };
        own.graphs.clear();
        for body in &own.bodies {
            let mut body = state.runtime()?.graphs.get(body).cloned().ok_or(INVALID_HANDLE)?;
            body.ordered()?;
            if !only_work_of_the_device(&body) {
                eprintln!(
                    "warpsim: the body of a conditional node has a node that is none of a kernel, a copy, a fill, a child \
                     graph, a condition, or empty"
                );
                return Err(NOT_SUPPORTED);
            }
            resolve_bodies(state, &mut body)?;
            own.graphs.push(body);
        }
    }
    Ok(())
}

fn only_work_of_the_device(graph: &Graph) -> bool {
    graph.nodes.iter().all(|node| match &node.work {
        Work::Graph(child) => only_work_of_the_device(child),
        Work::Kernel(_)
        | Work::Copy(..)
        | Work::Copy3D(_)
        | Work::Fill(_)
        | Work::Conditional(_)
        | Work::Empty => true,
        Work::Host(..)
        | Work::Record(_)
        | Work::Wait(_)
        | Work::Allocate(..)
        | Work::Free(_)
        | Work::Values(_) => false,
    })
}

/// A launch of an executable graph begins: its conditions have the values that they were made with, where these are
/// defaults.
///
/// # Errors
/// What stopped the device.
pub fn begin(state: &mut State, graph: &Graph) -> Result<(), Error> {
    let all = graph.conditionals();
    if all.is_empty() {
        return Ok(());
    }
    // Earlier kernels may still read them.
    state.synchronize()?;
    let runtime = state.runtime()?;
    for own in all {
        let default = runtime.conditions.get(&own.handle).and_then(|condition| condition.default);
        if let Some(value) = default {
            runtime.device.write(own.handle, &value.to_le_bytes()).map_err(|_| UNKNOWN)?;
        }
    }
    Ok(())
}

/// The body that runs next, and whether the condition is looked at again behind it.
///
/// # Errors
/// What stopped the device, or the node can never end.
pub fn chosen<'c>(state: &mut State, own: &'c Conditional) -> Result<Option<(&'c Graph, bool)>, Error> {
    state.synchronize()?;
    let mut bytes = [0; 4];
    state.runtime()?.device.read(own.handle, &mut bytes).map_err(|_| UNKNOWN)?;
    let value = u32::from_le_bytes(bytes) as usize;
    let body = match own.kind {
        ConditionKind::If => usize::from(value == 0),
        ConditionKind::While if value == 0 => return Ok(None),
        ConditionKind::While => 0,
        ConditionKind::Switch => value,
    };
    let Some(body) = own.graphs.get(body) else { return Ok(None) };
    let again = own.kind == ConditionKind::While;
    if again && !body.launches() {
        eprintln!(
            "warpsim: a while node of a graph never ends: its condition is {value}, and its body has no kernel that sets it \
             (cudaGraphSetConditional)"
        );
        return Err(INVALID_VALUE);
    }
    Ok(Some((body, again)))
}

/// Gives back conditions whose graph is gone and that no executable graph has.
///
/// # Errors
/// What stopped the device.
pub fn sweep(state: &mut State) -> Result<(), Error> {
    let runtime = state.runtime()?;
    if runtime.conditions.is_empty() {
        return Ok(());
    }
    // Bodies go with the nodes that have them.
    let mut kept: Vec<usize> = runtime.conditions.values().map(|condition| condition.graph).collect();
    kept.retain(|graph| runtime.graphs.contains_key(graph));
    let used = |handle: &u64| {
        let mut executable = runtime.graphs.values().filter(|graph| graph.executable);
        executable.any(|graph| graph.conditionals().iter().any(|own| own.handle == *handle))
    };
    let gone =
        |(handle, own): (&u64, &Condition)| (!kept.contains(&own.graph) && !used(handle)).then_some(*handle);
    let gone: Vec<u64> = runtime.conditions.iter().filter_map(gone).collect();
    if !gone.is_empty() {
        state.synchronize()?;
    }
    let runtime = state.runtime()?;
    for handle in gone {
        runtime.conditions.remove(&handle);
        runtime.device.free(handle, 1).map_err(|_| INVALID_VALUE)?;
    }
    Ok(())
}

/// Forgets the bodies of the conditional nodes among some work.
///
/// # Errors
/// There is no device.
pub fn forget_bodies(state: &mut State, graph: &Graph) -> Result<(), Error> {
    for node in &graph.nodes {
        let Work::Conditional(own) = &node.work else { continue };
        for handle in &own.bodies {
            if let Some(body) = state.runtime()?.graphs.remove(handle) {
                forget_bodies(state, &body)?;
            }
        }
    }
    Ok(())
}

cuda! {
    fn cudaGraphConditionalHandleCreate = (at: *mut u64, graph: usize, value: u32, flags: u32) |state| {
        create(state, at, graph, value, flags)
    }

    fn cudaGraphConditionalHandleCreate_v2 = (
        at: *mut u64, graph: usize, _context: *mut c_void, value: u32, flags: u32
    ) |state| { create(state, at, graph, value, flags) }
}

/// The same of the driver API.
pub mod driver {
    use super::*;

    driver! {
        ENTRIES []

        driver cuGraphConditionalHandleCreate = (
            at: *mut u64, graph: usize, _context: *mut c_void, value: u32, flags: u32
        ) |state| { create(state, at, graph, value, flags) }
    }
}
