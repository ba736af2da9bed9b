//! Graphs: nodes with what they wait for, and the capture of what is given to streams.

use std::collections::{BTreeMap, BTreeSet};
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

/// The launch of a node.
#[derive(Clone, Debug)]
pub struct Launched {
    /// What is launched.
    pub kernel: Kernel,
    /// The handle of the kernel.
    pub function: usize,
    /// Attributes of the node that say nothing about results, by their numbers.
    pub attributes: BTreeMap<i32, [u32; 16]>,
    /// Pointers to the arguments, once the program asked for them; they lead into `kernel.params`.
    pub arguments: Vec<usize>,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum Work {
    /// A launch.
    Kernel(Box<Launched>),
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
    /// Memory is allocated: address and bytes.
    Allocate(u64, u64),
    /// Memory is freed: address.
    Free(u64),
    /// One of several graphs runs, as a condition says.
    Conditional(Box<Conditional>),
    /// Operations on values in memory, in the order of their list, as CUDA's driver API has them.
    Values(Vec<[u64; 6]>),
    /// Nothing.
    Empty,
}

/// The condition of a node, as it was made; its handle is the address of its value on the device.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// The graph that it was made for.
    pub graph: usize,
    /// What it is when a graph is launched.
    pub default: Option<u32>,
    /// A node has it.
    pub used: bool,
}

/// Which body of a conditional node runs for a value of its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionKind {
    /// The first for one that is not 0, else the second, if there is one.
    If,
    /// The only one, as long as the value is not 0.
    While,
    /// The one with the number.
    Switch,
}

/// What a conditional node does.
#[derive(Clone, Debug)]
pub struct Conditional {
    /// The handle of its condition.
    pub handle: u64,
    /// Which body runs.
    pub kind: ConditionKind,
    /// Handles of the graphs of its bodies. The program has a pointer to them.
    pub bodies: Box<[usize]>,
    /// In an executable graph, what the bodies were.
    pub graphs: Vec<Graph>,
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
    /// In an executable graph the node does nothing.
    pub disabled: bool,
}

/// Nodes in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// They.
    pub nodes: Vec<Node>,
    /// It was instantiated.
    pub executable: bool,
    /// As it was instantiated.
    pub flags: u64,
    /// References to user objects, by object.
    pub objects: BTreeMap<usize, u32>,
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
            out.push(if node.disabled { &Work::Empty } else { &node.work });
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

    /// The nodes that come before some, with these.
    pub fn before(&self, handles: &[usize]) -> BTreeSet<usize> {
        let (mut found, mut open) = (BTreeSet::new(), handles.to_vec());
        while let Some(handle) = open.pop() {
            if found.insert(handle) {
                let node = self.nodes.iter().find(|node| node.handle == handle);
                open.extend(node.into_iter().flat_map(|node| &node.after));
            }
        }
        found
    }

    /// Whether the graph, or one that a node runs, refers to a user object.
    pub fn keeps(&self, object: usize) -> bool {
        let within = |node: &Node| match &node.work {
            Work::Graph(child) => child.keeps(object),
            Work::Conditional(own) => own.graphs.iter().any(|body| body.keeps(object)),
            _ => false,
        };
        self.objects.contains_key(&object) || self.nodes.iter().any(within)
    }

    /// Conditional nodes, with those of bodies.
    pub fn conditionals(&self) -> Vec<&Conditional> {
        let mut found = Vec::new();
        for node in &self.nodes {
            match &node.work {
                Work::Graph(child) => found.extend(child.conditionals()),
                Work::Conditional(own) => {
                    found.push(&**own);
                    found.extend(own.graphs.iter().flat_map(Self::conditionals));
                }
                _ => {}
            }
        }
        found
    }

    /// Whether a node, also of a body, launches a kernel.
    pub fn launches(&self) -> bool {
        self.nodes.iter().any(|node| match &node.work {
            Work::Kernel(_) => !node.disabled,
            Work::Graph(child) => child.launches(),
            Work::Conditional(own) => own.graphs.iter().any(Self::launches),
            _ => false,
        })
    }

    /// Whether a node allocates the memory at an address.
    pub fn allocates(&self, address: u64) -> bool {
        self.nodes.iter().any(|node| match &node.work {
            Work::Allocate(at, _) => *at == address,
            Work::Graph(child) => child.allocates(address),
            _ => false,
        })
    }
}

/// A capture that goes on. What is given to its streams becomes a graph, each node behind what its stream had.
#[derive(Debug)]
pub struct Capture {
    /// The stream on which it began.
    pub origin: usize,
    /// By stream, the nodes that its next one waits for. An event of one of them that another stream waits for brings
    /// that one in.
    pub streams: BTreeMap<usize, Vec<usize>>,
    /// The handle of the graph.
    pub graph: usize,
    /// The nodes that were captured.
    pub made: Vec<usize>,
    /// By event that was recorded in it, the nodes that it stands behind.
    pub events: BTreeMap<usize, Vec<usize>>,
    /// What the program was told last that the next node of a stream waits for, where it finds it, and the data of these
    /// edges, which are all ordinary ones.
    pub told: (Vec<usize>, Vec<[u8; 8]>),
}

impl Capture {
    /// A stream is captured by it.
    pub fn has(&self, stream: *mut c_void) -> bool {
        self.streams.contains_key(&(stream as usize))
    }
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
            disabled: false,
        };
        let order = |graph: &Graph| -> Result<Vec<usize>, Error> {
            let handle = |work| if let Work::Copy(handle, ..) = work { handle } else { 0 };
            Ok(graph.ordered()?.into_iter().map(handle).collect())
        };
        let nodes = vec![node(1, &[3]), node(2, &[]), node(3, &[2]), node(4, &[1, 2])];
        let mut graph = Graph { nodes, ..Graph::default() };
        assert_eq!(order(&graph), Ok(vec![2, 3, 1, 4]));
        let child = Work::Graph(Box::new(graph.clone()));
        let nodes = vec![node(5, &[6]), Node { work: child, ..node(6, &[]) }];
        assert_eq!(order(&Graph { nodes, ..Graph::default() }), Ok(vec![2, 3, 1, 4, 5]));
        assert_eq!(graph.before(&[1]), BTreeSet::from([1, 2, 3]));
        graph.nodes[0].disabled = true;
        assert_eq!(order(&graph), Ok(vec![2, 3, 0, 4]), "a disabled node does nothing");
        graph.nodes[1].after = vec![4];
        assert_eq!(order(&graph), Err(INVALID_VALUE));
    }
}
