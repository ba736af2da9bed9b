//! What only the driver API has: contexts, modules and libraries by handle, what belongs to which context.

use std::collections::BTreeMap;

use crate::driver::link::Link;
use crate::images::TextureReference;

/// What CUDA's static runtime has called when a context goes: the context, a key and a value.
pub type Destructor = unsafe extern "C" fn(usize, usize, usize);

/// A context. All share the one device.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Its number.
    pub id: u64,
    /// As it was created.
    pub flags: u32,
}

/// What a context owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned {
    /// Memory of the device, or managed.
    Memory,
    /// Pinned memory.
    Pinned,
    /// A stream.
    Stream,
    /// An event.
    Event,
    /// A module.
    Module,
}

/// The state.
#[derive(Debug)]
pub struct Driver {
    /// `cuInit` was called.
    pub initialized: bool,
    /// The program uses the runtime API, which initialises the driver and makes the primary context current.
    pub runtime_in_use: bool,
    /// CUDA's static runtime is within the program.
    pub runtime_within: bool,
    /// Contexts by handle, the primary one among them once it was asked for.
    pub contexts: BTreeMap<usize, Context>,
    /// Handle of the primary context, or 0.
    pub primary: usize,
    /// How often it is retained.
    pub retained: u32,
    /// Its flags.
    pub primary_flags: u32,
    /// Contexts made so far.
    pub made: u64,
    /// What contexts own, by address or handle.
    pub owned: BTreeMap<usize, (usize, Owned)>,
    /// The fat binaries of modules and libraries by handle.
    pub binaries: BTreeMap<usize, usize>,
    /// Handles of kernels by fat binary and name.
    pub functions: BTreeMap<(usize, String), usize>,
    /// What CUDA's static runtime keeps for contexts, by context and key.
    pub storage: BTreeMap<(usize, usize), (usize, Option<Destructor>)>,
    /// Links by handle.
    pub links: BTreeMap<usize, Link>,
    /// Texture references by the address of their variable.
    pub references: BTreeMap<usize, TextureReference>,
}

impl Default for Driver {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver {
    /// Not initialised.
    pub const fn new() -> Self {
        Self {
            initialized: false,
            runtime_in_use: false,
            runtime_within: false,
            contexts: BTreeMap::new(),
            primary: 0,
            retained: 0,
            primary_flags: 0,
            made: 0,
            owned: BTreeMap::new(),
            binaries: BTreeMap::new(),
            functions: BTreeMap::new(),
            storage: BTreeMap::new(),
            links: BTreeMap::new(),
            references: BTreeMap::new(),
        }
    }
}
