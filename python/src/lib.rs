//! The simulator as a module of Python: what the package `warpsim` (`python/warpsim`) is made of. It hands over texts, bytes
//! and JSON; names, arrays and what is shown are Python's part.

mod arrow;
mod chips;
mod device;
mod errors;
mod ran;
mod runs;
mod studies;
mod watched;

use std::alloc::System;
use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use warpsim::memory::{self, Counted, Simulating};
use warpsim::{cli, program};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

/// Says how Python starts the command, and which file the simulator is in.
#[pyfunction]
fn start(words: Vec<OsString>, file: PathBuf) {
    program::is(words, file);
    memory::limit_by_host();
    // The limit holds while something is simulated.
    drop(Simulating::begin());
}

/// Runs a command line of `warpsim`; gives the exit status.
#[pyfunction]
fn command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| cli::run_words(words))
}

/// The version, with the commit where it is known.
#[pyfunction]
fn version() -> &'static str {
    warpsim::VERSION
}

/// The native part of the package `warpsim`.
#[pymodule]
mod _warpsim {
    #[pymodule_export]
    use super::arrow::arrow_stream;
    #[pymodule_export]
    use super::chips::{chip, chips, metrics, policies, schedulers, workloads};
    #[pymodule_export]
    use super::device::Device;
    #[pymodule_export]
    use super::ran::{Ran, compare, page};
    #[pymodule_export]
    use super::runs::{Sweep, run};
    #[pymodule_export]
    use super::studies::study;
    #[pymodule_export]
    use super::{command, start, version};
}
