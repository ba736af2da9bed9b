//! What is run, and how errors in it are said.

use std::path::PathBuf;
use std::sync::Arc;

use sim_core::error::SimError;
use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::workload::{Expr, ImageSpec, KeySpan, Number, Params, WorkloadSpec, evaluate};

use super::checkpoint::Checkpoint;

/// A workload with everything a run needs.
pub struct Job {
    /// The workload.
    pub spec: Arc<WorkloadSpec>,
    /// Folder of its files.
    pub folder: PathBuf,
    /// PTX of the variant.
    pub ptx: Source,
    /// Parameters, as changed by `--set`.
    pub params: Params,
    /// What the seeds of random contents are changed by.
    pub seed: u64,
    /// Launches to run functionally first.
    pub skip: u64,
    /// Launches to time after those; all where nothing is said.
    pub timed: Option<u64>,
    /// Buffers whose final contents are wanted.
    pub dump: Vec<String>,
    /// A folder to which the run is written, for another device.
    pub export: Option<PathBuf>,
    /// The run's state is saved from time to time.
    pub checkpoint: Option<Checkpoint>,
}

impl Job {
    /// Whether a launch runs in the functional mode, by its number.
    pub fn is_functional(&self, launch: u64) -> bool {
        let timed = launch.checked_sub(self.skip);
        timed.is_none_or(|number| self.timed.is_some_and(|most| number >= most))
    }

    /// Its textures and surfaces.
    pub fn images(&self) -> impl Iterator<Item = &ImageSpec> {
        self.spec.textures.values().chain(self.spec.surfaces.values())
    }
}

/// An input error of a workload.
pub fn wrong(message: impl Into<String>) -> SimError {
    SimError::Input(vec![Diagnostic::error("workload", message)])
}

/// An input error that says nowhere where, at a place of a file.
pub fn placed(error: SimError, place: KeySpan, source: Option<&Source>) -> SimError {
    match (error, place.0, source) {
        (SimError::Input(errors), Some(span), Some(source)) => {
            let put = |error: Diagnostic| match error.source {
                None => error.at(span, "").in_source(source),
                Some(_) => error,
            };
            SimError::Input(errors.into_iter().map(put).collect())
        }
        (error, ..) => error,
    }
}

/// The value of an expression; `what` it is for.
pub fn number(expr: &Expr, params: &Params, what: &str) -> Result<Number, SimError> {
    evaluate(expr, params).map_err(|reason| wrong(format!("{what}: {reason}")))
}

/// The same as a 32-bit integer.
pub fn whole(expr: &Expr, params: &Params, what: &str) -> Result<u32, SimError> {
    let value = number(expr, params, what)?;
    let integer = value.integer().and_then(|value| u32::try_from(value).ok());
    integer.ok_or_else(|| wrong(format!("{what}: {value} is not an integer from 0 to {}", u32::MAX)))
}
