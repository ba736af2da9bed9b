//! Runs of workloads, sweeps, studies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use serde::Deserialize;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::sampling::Sampling;
use sim_frontend::diagnostic::Diagnostic;
use warpsim::interrupt;
use warpsim::request::{Program, Request, SchedulerChoice, Setting};
use warpsim::run::Simulation;
use warpsim::sanitize::Checks;
use warpsim::sweep::library;

use crate::errors::Wrong;
use crate::ran::Ran;
use crate::watched::{Far, watched};

/// How a workload runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    program: String,
    variant: Option<String>,
    chip: Option<String>,
    policy: Option<String>,
    scheduler: Option<String>,
    set: Vec<(String, String)>,
    check: String,
    seed: u64,
    threads: usize,
    functional: bool,
    skip_launches: u64,
    time_launches: Option<u64>,
    max_cycles: Option<u64>,
    max_instructions: Option<u64>,
    allow_newer_isa: bool,
    profile: bool,
    sample_every: Option<u64>,
    sample: Option<Sampling>,
    keep: Vec<String>,
}

impl Options {
    fn request(self) -> Result<Request, Vec<Diagnostic>> {
        let one = |error: Diagnostic| vec![error];
        let checks = Checks::parse(&self.check).map_err(|why| one(Diagnostic::error("check", why)))?;
        Ok(Request {
            variant: self.variant,
            chip: self.chip,
            policy: self.policy.as_deref().map(PolicyChoice::parse).transpose().map_err(one)?,
            scheduler: self.scheduler.as_deref().map(SchedulerChoice::parse).transpose().map_err(one)?,
            set: self.set.into_iter().map(|(key, value)| Setting { key, value }).collect(),
            seed: self.seed,
            functional: self.functional,
            skip_launches: self.skip_launches,
            time_launches: self.time_launches,
            check: checks.check,
            memory_model: checks.memory_model,
            sanitize: checks.sanitize,
            max_cycles: self.max_cycles,
            max_instructions: self.max_instructions,
            allow_newer_isa: self.allow_newer_isa,
            profile: self.profile,
            sample_every: self.sample_every,
            sampling: self.sample,
            keep: self.keep,
            threads: self.threads,
            ..Request::new(Program::named(&self.program)?)
        })
    }
}

/// Runs a workload as JSON asks for it. `progress` is called with cycle, blocks done, blocks in all.
///
/// An exception of a run that stopped has the attribute `ran`.
#[pyfunction]
#[pyo3(signature = (options, progress=None))]
pub fn run(py: Python<'_>, options: &str, progress: Option<Py<PyAny>>) -> PyResult<Ran> {
    let (stop, far) = (AtomicBool::new(false), Far::default());
    let halt = || stop.store(true, Ordering::Relaxed);
    let done = watched(py, progress.as_ref(), &far, &halt, || {
        let options: Options = serde_json::from_str(options).map_err(|error| error.to_string())?;
        let simulation = Simulation::new(options.request()?)?;
        let mut outcome = simulation.simulate_until(&stop, &|cycle, done, all| far.is(cycle, done, all))?;
        let stopped = outcome.stopped.clone();
        let seconds = outcome.simulated.as_secs_f64();
        let buffers = std::mem::take(&mut outcome.buffers).into_iter();
        let buffers = buffers.map(|(name, buffer)| (name, (buffer.ty.name(), buffer.bytes))).collect();
        let chip = Arc::clone(&simulation.chip);
        Ok::<_, Wrong>((Ran { report: simulation.report(outcome), chip, seconds, buffers }, stopped))
    })?;
    let (ran, stopped) = done.map_err(|error| error.raised(py))?;
    let Some(error) = stopped else { return Ok(ran) };
    let raised = Wrong::from(error).raised(py);
    raised.value(py).setattr("ran", ran)?;
    Err(raised)
}

/// Does what the flag of the whole process stops.
///
/// # Errors
/// As [`watched`].
pub fn interruptible<R: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&(dyn Fn(usize, usize) + Sync)) -> R + Send,
) -> PyResult<R> {
    let far = Far::default();
    let done = watched(py, progress, &far, &interrupt::interrupt, || {
        work(&|done, all| far.is(0, done as u64, all as u64))
    });
    interrupt::resume();
    done
}

/// A sweep.
#[pyclass(frozen, module = "warpsim._warpsim")]
pub struct Sweep {
    inner: library::Sweep,
}

#[pymethods]
impl Sweep {
    /// Reads a sweep file and plans it.
    #[new]
    fn new(py: Python<'_>, file: PathBuf, results: PathBuf) -> PyResult<Self> {
        let made = interruptible(py, None, |_| library::Sweep::new(&file, &results))?;
        made.map(|inner| Self { inner }).map_err(|errors| Wrong::from(errors).raised(py))
    }

    /// Name.
    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// Number of points.
    #[getter]
    fn points(&self) -> usize {
        self.inner.points()
    }

    /// Simulates what has no result: counts, what was wrong with which points, points without a result.
    #[pyo3(signature = (jobs=None, progress=None))]
    fn simulate(&self, py: Python<'_>, jobs: Option<usize>, progress: Option<Py<PyAny>>) -> PyResult<Swept> {
        let done = interruptible(py, progress.as_ref(), |tell| self.inner.simulate(jobs, tell))?;
        let done = done.map_err(|words| Wrong::from(words).raised(py))?;
        let counts =
            BTreeMap::from([("simulated", done.simulated), ("had", done.had), ("elsewhere", done.elsewhere)]);
        Ok((counts, done.bad, done.broken))
    }

    /// The table: names of its columns, and its rows.
    fn table(&self, py: Python<'_>) -> PyResult<(Vec<String>, Vec<Vec<String>>)> {
        py.detach(|| self.inner.table()).map_err(|words| Wrong::from(words).raised(py))
    }
}

type Swept = (BTreeMap<&'static str, usize>, Vec<(String, Vec<String>)>, Vec<String>);
