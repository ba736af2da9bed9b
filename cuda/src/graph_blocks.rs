//! Memory of graphs as it is kept.

use std::collections::BTreeMap;

use crate::error::{Error, INVALID_VALUE};
use crate::graph::HostFunction;

/// The memory of a node.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Its size.
    pub bytes: u64,
    /// It is between its allocation and its free.
    pub used: bool,
}

/// An object of the program, which goes when nothing refers to it.
#[derive(Clone, Copy, Debug)]
pub struct UserObject {
    /// What is called when it goes.
    pub destroy: HostFunction,
    /// What that is given.
    pub data: usize,
    /// References of the program.
    pub references: u32,
}

/// Memory of graphs, by address.
#[derive(Debug, Default)]
pub struct GraphMemory {
    /// They.
    pub list: BTreeMap<u64, Own>,
    /// The most bytes that were in use.
    pub most_used: u64,
    /// The most bytes that nodes had.
    pub most_reserved: u64,
}

impl GraphMemory {
    /// Bytes that are in use.
    pub fn used(&self) -> u64 {
        self.list.values().filter(|own| own.used).map(|own| own.bytes).sum()
    }

    /// Bytes that nodes have.
    pub fn reserved(&self) -> u64 {
        self.list.values().map(|own| own.bytes).sum()
    }

    /// Counts what there is now.
    pub fn count(&mut self) {
        (self.most_used, self.most_reserved) =
            (self.most_used.max(self.used()), self.most_reserved.max(self.reserved()));
    }

    /// Memory of a graph begins at an address.
    pub fn has(&self, at: u64) -> bool {
        self.list.contains_key(&at)
    }

    /// Memory is freed.
    ///
    /// # Errors
    /// It is not in use.
    pub fn release(&mut self, at: u64) -> Result<(), Error> {
        let own = self.list.get_mut(&at).filter(|own| own.used).ok_or(INVALID_VALUE)?;
        own.used = false;
        Ok(())
    }
}
