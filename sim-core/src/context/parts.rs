//! Parts of the device runtime in the memory of a context, and their sizes.

use std::collections::BTreeMap;

use sim_frontend::load::GlobalVariable;
use sim_frontend::load::library::variables;

/// A part of the device runtime whose size is a limit of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The heap of `malloc`.
    Heap,
    /// The buffer of `printf`.
    Output,
}

impl Part {
    const ALL: [Self; 2] = [Self::Heap, Self::Output];

    /// Bytes on a new device, as CUDA has them.
    pub const fn initial(self) -> u64 {
        match self {
            Self::Heap => 8 << 20,
            Self::Output => 1 << 20,
        }
    }

    /// The most bytes: lists of the heap name units by 32 bits, and 0 is none.
    pub(super) const fn most(self) -> u64 {
        match self {
            Self::Heap => variables::HEAP_UNIT * (u32::MAX as u64 - 1),
            Self::Output => 1 << 40,
        }
    }

    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Heap => variables::HEAP,
            Self::Output => variables::OUTPUT,
        }
    }

    /// The part that lies in a variable.
    pub fn of(variable: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.variable() == variable)
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
    /// Sizes of the parts, in their order.
    bytes: [u64; 2],
    /// Addresses by name.
    pub(super) places: BTreeMap<String, u64>,
}

impl Default for Runtime {
    fn default() -> Self {
        Self { bytes: Part::ALL.map(Part::initial), places: BTreeMap::new() }
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
            variables::HEAP_BYTES => Some(self.bytes(Part::Heap)),
            variables::OUTPUT_BYTES => Some(self.bytes(Part::Output)),
            _ => self.places.get(name).copied(),
        }
    }

    /// The bytes of a variable.
    pub(super) fn size(&self, variable: &GlobalVariable) -> u64 {
        Part::of(&variable.name).map_or(variable.size, |part| self.bytes(part))
    }

    /// The bytes of a part.
    pub(super) fn bytes(&self, part: Part) -> u64 {
        self.bytes[part as usize]
    }

    pub(super) fn set_bytes(&mut self, part: Part, bytes: u64) {
        self.bytes[part as usize] = bytes;
    }

    /// Variables of a module that is loaded: those of the runtime among them are there for others now.
    pub(super) fn placed(&mut self, addresses: &[(String, u64)]) {
        let own = addresses
            .iter()
            .filter(|(name, _)| name.starts_with(variables::PREFIX) && !Self::is_number(name));
        self.places.extend(own.cloned());
    }
}
