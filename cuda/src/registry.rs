//! What a program registers before it runs: fat binaries, kernels and variables by the addresses of their stand-ins on
//! the host.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};

use crate::error::{Error, INVALID_FUNCTION, INVALID_SYMBOL};
use crate::fatbin::File;

/// The files of each translation unit of a fat binary, or what is wrong with it.
pub type FatBinary = Result<Vec<Vec<File>>, String>;

/// A kernel.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its fat binary.
    pub binary: usize,
    /// Its name in PTX.
    pub name: String,
    /// The same for C.
    pub c_name: CString,
    /// Dynamic shared memory that `cudaFuncSetAttribute` allows.
    pub dynamic_shared: Option<u32>,
    /// `cudaFuncSetAttribute` allows clusters of more blocks than every chip does.
    pub non_portable_cluster: bool,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its fat binary.
    pub binary: usize,
    /// Its name in PTX.
    pub name: String,
    /// Where the host keeps the address of a managed variable.
    pub managed: Option<usize>,
}

/// Everything that is registered.
pub struct Registry {
    /// Fat binaries in the order of registration; `None` once unregistered.
    pub binaries: Vec<Option<FatBinary>>,
    /// Kernels by the address of their stand-in.
    pub functions: BTreeMap<usize, Function>,
    /// Variables in the order of registration, by the address of their stand-in.
    pub variables: Vec<(usize, Variable)>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// Nothing is registered.
    pub const fn new() -> Self {
        Self { binaries: Vec::new(), functions: BTreeMap::new(), variables: Vec::new() }
    }

    /// Forgets a fat binary with its kernels and variables.
    pub fn forget(&mut self, binary: usize) {
        if let Some(place) = self.binaries.get_mut(binary) {
            *place = None;
            self.functions.retain(|_, function| function.binary != binary);
            self.variables.retain(|(_, variable)| variable.binary != binary);
        }
    }

    /// The kernel of a stand-in.
    ///
    /// # Errors
    /// It is none.
    pub fn function(&self, stand_in: *const c_void) -> Result<&Function, Error> {
        self.functions.get(&(stand_in as usize)).ok_or(INVALID_FUNCTION)
    }

    /// The variable of a stand-in.
    ///
    /// # Errors
    /// It is none.
    pub fn variable(&self, stand_in: *const c_void) -> Result<&Variable, Error> {
        let found = self.variables.iter().find(|(at, _)| *at == stand_in as usize);
        found.map(|(_, variable)| variable).ok_or(INVALID_SYMBOL)
    }
}
