//! Graphs: nodes with what they wait for, and the capture of what is given to streams.

use std::collections::BTreeSet;
use std::ffi::c_void;

use warpsim::device::Kernel;

use crate::error::{Error, INVALID_VALUE};

/// A function of the host.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// CUDA's `cudaPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pitched {
    /// Address.
    pub at: usize,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Bytes of a row that count.
    pub width: usize,
    /// Rows of a plane.
    pub height: usize,
}

/// CUDA's `cudaExtent` and `cudaPos`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Bytes in x.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Planes.
    pub depth: usize,
}

/// CUDA's `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copy3D {
    /// An array, or 0.
    pub from_array: usize,
    /// Where the copy begins.
    pub from_position: Extent,
    /// Where it is copied from.
    pub from: Pitched,
    /// An array, or 0.
    pub to_array: usize,
    /// Where the copy begins.
    pub to_position: Extent,
    /// Where it is copied to.
    pub to: Pitched,
    /// What is copied.
    pub extent: Extent,
    /// The direction.
    pub kind: i32,
}

/// Marks a direction: widths of the box and of positions in arrays are bytes, as the driver API has them.
pub const IN_BYTES: i32 = 0x100;

/// CUDA's `cudaMemsetParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    /// Address.
    pub at: usize,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Value of an element.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u32,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum Work {
    /// A launch.
    Kernel(Box<Kernel>),
    /// A copy of bytes: to, from, bytes, direction.
    Copy(usize, usize, usize, i32),
    /// A copy of a box.
    Copy3D(Copy3D),
    /// A fill.
    Fill(Fill),
    /// A function of the host and its data.
    Host(HostFunction, usize),
    /// What a graph does.
    Graph(Box<Graph>),
    /// An event is recorded.
    Record(usize),
    /// An event is waited for.
    Wait(usize),
    /// Nothing.
    Empty,
}

/// A node; its handle leads to it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its handle.
    pub handle: usize,
    /// The handle of the node of which it is a copy in a cloned graph, or 0.
    pub origin: usize,
    /// What it does.
    pub work: Work,
    /// Handles of the nodes that come before it.
    pub after: Vec<usize>,
}

/// Nodes in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// They.
    pub nodes: Vec<Node>,
    /// It was instantiated.
    pub executable: bool,
}

impl Graph {
    /// What the nodes do, each behind those that it waits for, else in the order in which they were added.
    ///
    /// # Errors
    /// Nodes wait for each other, or for one of another graph.
    pub fn ordered(&self) -> Result<Vec<Work>, Error> {
        let (mut done, mut out) = (BTreeSet::new(), Vec::new());
        while out.len() < self.nodes.len() {
            let ready = |node: &&Node| {
                !done.contains(&node.handle) && node.after.iter().all(|other| done.contains(other))
            };
            let node = self.nodes.iter().find(ready).ok_or(INVALID_VALUE)?;
            done.insert(node.handle);
            out.push(&node.work);
        }
        let mut flat = Vec::with_capacity(out.len());
        for work in out {
            match work {
                Work::Graph(graph) => flat.extend(graph.ordered()?),
                work => flat.push(work.clone()),
            }
        }
        Ok(flat)
    }
}

/// A capture that goes on. What is given to its streams becomes a graph, in the order of the calls.
#[derive(Debug)]
pub struct Capture {
    /// The stream on which it began.
    pub origin: usize,
    /// All its streams: an event of one of them that another waits for brings that one in.
    pub streams: BTreeSet<usize>,
    /// What was captured.
    pub graph: Graph,
    /// Events that were recorded in it.
    pub events: BTreeSet<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_behind_what_they_wait_for() {
        let node = |handle: usize, after: &[usize]| Node {
            handle,
            origin: 0,
            work: Work::Copy(handle, 0, 0, 0),
            after: after.to_vec(),
        };
        let order = |graph: &Graph| -> Result<Vec<usize>, Error> {
            let handle = |work| if let Work::Copy(handle, ..) = work { handle } else { 0 };
            Ok(graph.ordered()?.into_iter().map(handle).collect())
        };
        let nodes = vec![node(1, &[3]), node(2, &[]), node(3, &[2]), node(4, &[1, 2])];
        let mut graph = Graph { nodes, executable: false };
        assert_eq!(order(&graph), Ok(vec![2, 3, 1, 4]));
        let child = Work::Graph(Box::new(graph.clone()));
        let nodes = vec![node(5, &[6]), Node { handle: 6, origin: 0, work: child, after: Vec::new() }];
        assert_eq!(order(&Graph { nodes, executable: false }), Ok(vec![2, 3, 1, 4, 5]));
        graph.nodes[1].after = vec![4];
        assert_eq!(order(&graph), Err(INVALID_VALUE));
    }
}
