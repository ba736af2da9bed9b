//! A context: modules, buffers, launches (CS §5.7). Its memory is its own.

use std::sync::Arc;

use sim_frontend::load::Module;
use sim_frontend::program::{LaunchBounds, ParamInfo};

use crate::grid::Code;

/// A module as loaded.
#[derive(Debug)]
pub struct LoadedModule {
    /// The checked module.
    pub module: Module,
    /// Addresses of its variables.
    pub addresses: Vec<(String, u64)>,
    /// Entries made ready so far.
    pub codes: Vec<(String, Arc<Code>)>,
}

/// Parameters and bounds of an entry.
#[derive(Clone, Debug)]
pub struct EntryInfo {
    /// Parameters in order.
    pub params: Vec<ParamInfo>,
    /// What the kernel says of its launches.
    pub bounds: LaunchBounds,
}

/// A launch to be queued.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Which module.
    pub module: usize,
    /// Entry.
    pub entry: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Stream.
    pub stream: u32,
    /// Parameter block.
    pub params: Vec<u8>,
    /// Without time.
    pub functional: bool,
}
