//! Parts of the device runtime in the memory of a context, and their sizes.

use std::collections::BTreeMap;

use sim_frontend::load::GlobalVariable;
use sim_frontend::load::library::variables;

/// Bytes of a part of the device runtime that has no other size: as CUDA has them.
const HEAP_BYTES: u64 = 8 << 20;
const OUTPUT_BYTES: u64 = 1 << 20;

/// A part of the device runtime whose size is a limit of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The heap of `malloc`.
    Heap,
    /// The buffer of `printf`.
    Output,
}

impl Part {
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Heap => variables::HEAP,
            Self::Output => variables::OUTPUT,
        }
    }

    /// The part that lies in a variable.
    pub fn of(variable: &str) -> Option<Self> {
        [Self::Heap, Self::Output].into_iter().find(|part| part.variable() == variable)
    }
}

/// Why the size of a part cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartRefused {
    /// Threads have allocated from the heap, or grids are queued.
    Used,
    /// It does not fit the memory of the device.
    Memory,
}

/// What the device runtime has in the memory of a context: the first module that needs a variable brings it, and those
/// after it share it. So threads free what kernels of other modules have allocated, and lines are printed in their order.
#[derive(Debug)]
pub struct Runtime {
    pub(super) heap_bytes: u64,
    pub(super) output_bytes: u64,
    /// Addresses by name.
    pub(super) places: BTreeMap<String, u64>,
}

impl Default for Runtime {
    fn default() -> Self {
        Self { heap_bytes: HEAP_BYTES, output_bytes: OUTPUT_BYTES, places: BTreeMap::new() }
    }
}

impl Runtime {
    /// The variable stands for a number: its address.
    pub(super) fn is_number(name: &str) -> bool {
        [variables::HEAP_BYTES, variables::OUTPUT_BYTES].contains(&name)
    }

    /// The address of a variable of the runtime that needs no memory of its own (any more).
    pub(super) fn address(&self, name: &str) -> Option<u64> {
        match name {
            variables::HEAP_BYTES => Some(self.heap_bytes),
            variables::OUTPUT_BYTES => Some(self.output_bytes),
            _ => self.places.get(name).copied(),
        }
    }

    /// The bytes of a variable.
    pub(super) fn size(&self, variable: &GlobalVariable) -> u64 {
        match Part::of(&variable.name) {
            Some(Part::Heap) => self.heap_bytes,
            Some(Part::Output) => self.output_bytes,
            None => variable.size,
        }
    }

    pub(super) fn set_bytes(&mut self, part: Part, bytes: u64) {
        match part {
            Part::Heap => self.heap_bytes = bytes,
            Part::Output => self.output_bytes = bytes,
        }
    }

    /// A variable was placed.
    pub(super) fn placed(&mut self, name: &str, address: u64) {
        if name.starts_with(variables::PREFIX) {
            self.places.insert(name.to_string(), address);
        }
    }
}
