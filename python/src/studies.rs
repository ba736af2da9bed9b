//! Studies: their rows, as JSON.

use std::path::PathBuf;

use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use warpsim::cli::study::{LivenessArgs, MicrobenchmarkArgs, PoliciesArgs, SiliconArgs};
use warpsim::study::{Progress, liveness, microbenchmarks, policies, registers, silicon};

use crate::errors::Wrong;
use crate::runs::interruptible;

/// How policies are studied.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyOptions {
    workloads: Vec<String>,
    policies: Vec<String>,
    chip: String,
    variant: Option<String>,
    set: Vec<String>,
    jobs: Option<usize>,
}

impl From<PolicyOptions> for PoliciesArgs {
    fn from(options: PolicyOptions) -> Self {
        let PolicyOptions { workloads, policies, chip, variant, set, jobs } = options;
        Self {
            workloads,
            programs: Vec::new(),
            policies,
            chip,
            variant,
            set,
            check: "safety".to_string(),
            csv: None,
            report: None,
            jobs,
            json: false,
        }
    }
}

/// Which programs need which policies.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LivenessOptions {
    chip: String,
    variant: String,
    max_cycles: u64,
    jobs: Option<usize>,
}

impl From<LivenessOptions> for LivenessArgs {
    fn from(options: LivenessOptions) -> Self {
        let LivenessOptions { chip, variant, max_cycles, jobs } = options;
        Self { chip, variant, max_cycles, jobs, json: false }
    }
}

/// Which microbenchmarks run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MicrobenchmarkOptions {
    chip: Vec<String>,
    gated: bool,
    jobs: Option<usize>,
}

impl From<MicrobenchmarkOptions> for MicrobenchmarkArgs {
    fn from(options: MicrobenchmarkOptions) -> Self {
        let MicrobenchmarkOptions { chip, gated, jobs } = options;
        Self { chip, gated, jobs, json: false }
    }
}

/// What is compared with hardware: workloads where there is no folder of programs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SiliconOptions {
    programs: Option<PathBuf>,
    data: Option<PathBuf>,
    chip: Vec<String>,
    set: Vec<String>,
    only: Option<String>,
    jobs: Option<usize>,
}

impl From<SiliconOptions> for SiliconArgs {
    fn from(options: SiliconOptions) -> Self {
        let SiliconOptions { programs, data, chip, set, only, jobs } = options;
        let workloads = programs.is_none();
        let programs = programs.unwrap_or_default();
        let (ablation, sensitivity, parameter, by, json) = (false, false, Vec::new(), 1.0, false);
        Self { programs, workloads, data, chip, set, only, ablation, sensitivity, parameter, by, jobs, json }
    }
}

fn read<O: DeserializeOwned, A: From<O>>(options: &str) -> Result<A, Wrong> {
    let options: O = serde_json::from_str(options).map_err(|error| error.to_string())?;
    Ok(options.into())
}

fn written(rows: &impl Serialize) -> Result<String, Wrong> {
    serde_json::to_string(rows).map_err(|error| Wrong::from(error.to_string()))
}

fn rows(name: &str, options: &str, tell: Progress<'_>) -> Result<(String, Vec<String>), Wrong> {
    let rows = match name {
        "policies" => written(&policies::study(&read::<PolicyOptions, _>(options)?, tell)?.0),
        "liveness" => written(&liveness::study(&read::<LivenessOptions, _>(options)?, tell)?),
        "microbenchmarks" => {
            written(&microbenchmarks::study(&read::<MicrobenchmarkOptions, _>(options)?, tell)?)
        }
        "registers" => written(&registers::study(None)?),
        "silicon" => {
            let (rows, not_compared) = silicon::study(&read::<SiliconOptions, _>(options)?, tell)?;
            return Ok((written(&rows)?, not_compared));
        }
        _ => Err(Wrong::from(format!("there is no study `{name}`"))),
    };
    Ok((rows?, Vec::new()))
}

/// A study, as JSON asks for it: the rows, as JSON, and what could not be studied.
#[pyfunction]
#[pyo3(signature = (name, options, progress=None))]
pub fn study(
    py: Python<'_>,
    name: &str,
    options: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<String>)> {
    let studied = interruptible(py, progress.as_ref(), |tell| rows(name, options, tell))?;
    studied.map_err(|error| error.raised(py))
}
