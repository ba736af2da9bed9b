//! What a context answers its host: facts of kernels, variables, and the assertion that failed.

use sim_memory::vocabulary::StateSpace;

/// What an entry needs of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Registers of a thread, as occupancy counts them.
    pub registers: u32,
    /// Bytes of shared memory of a block that the module declares.
    pub shared: u32,
    /// Bytes of local memory of a thread.
    pub local: u32,
    /// Threads of a block at most: the chip's limit, the entry's bounds, and what its registers leave.
    pub max_threads: u32,
    /// Bytes of the parameter block.
    pub parameters: u32,
}

/// A variable of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Global or const.
    pub space: StateSpace,
    /// Its generic address.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
}

/// An assertion of a kernel that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    /// The expression.
    pub expression: String,
    /// File of the source.
    pub file: String,
    /// Its line.
    pub line: u32,
    /// The function it stands in.
    pub function: String,
    /// Block of the thread.
    pub block: [u64; 3],
    /// The thread in its block.
    pub thread: [u64; 3],
}
