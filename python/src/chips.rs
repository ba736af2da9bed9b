//! Chips, workloads, policies and metrics.

use pyo3::prelude::*;
use serde_json::json;
use sim_core::reconvergence::registry::POLICIES;
use sim_core::sm::scheduler::SCHEDULERS;
use sim_frontend::diagnostic::Diagnostic;
use warpsim::configs;
use warpsim::find::{find_workload, workload_folders};
use warpsim::metrics::METRICS;

use crate::errors::Wrong;

/// The values of a chip, by its name or file, with changes by their paths, as JSON.
#[pyfunction]
pub fn chip(py: Python<'_>, name: &str, set: Vec<(String, String)>) -> PyResult<String> {
    let set: Vec<(&str, &str)> = set.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
    let (spec, _) = configs::chip(name, &set).map_err(|errors| Wrong::from(errors).raised(py))?;
    let facts = json!({
        "values": &spec,
        "core_khz": spec.clocks().core_khz,
        "dram_bytes_per_second": spec.dram_bandwidth(),
    });
    Ok(facts.to_string())
}

/// Names of the chips that ship.
#[pyfunction]
pub fn chips() -> Vec<&'static str> {
    configs::CHIPS.iter().map(|(name, _)| *name).collect()
}

/// The workloads: names and descriptions.
#[pyfunction]
pub fn workloads(py: Python<'_>) -> PyResult<Vec<(String, String)>> {
    let found: Result<Vec<_>, Vec<Diagnostic>> = py.detach(|| {
        let specs = workload_folders().into_iter().map(|folder| find_workload(&folder.display().to_string()));
        specs.map(|found| found.map(|found| (found.spec.name, found.spec.description))).collect()
    });
    found.map_err(|errors| Wrong::from(errors).raised(py))
}

/// The policies: names, what they do, what is known of their fairness.
#[pyfunction]
pub fn policies() -> Vec<(&'static str, &'static str, &'static str)> {
    POLICIES.iter().map(|policy| (policy.name, policy.doc, policy.fairness)).collect()
}

/// The warp schedulers: names, and what they do.
#[pyfunction]
pub fn schedulers() -> Vec<(&'static str, &'static str)> {
    SCHEDULERS.to_vec()
}

/// The metrics: names, units, definitions.
#[pyfunction]
pub fn metrics() -> Vec<(&'static str, &'static str, &'static str)> {
    METRICS.iter().map(|metric| (metric.name, metric.unit, metric.doc)).collect()
}
