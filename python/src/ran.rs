//! What came of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;
use sim_frontend::chip::ChipSpec;
use warpsim::report_file::Report;
use warpsim::{compare as comparison, findings, metrics, report, summary};

use crate::errors::Wrong;

/// A run: its report, and what was kept of its buffers.
#[pyclass(frozen, module = "warpsim._warpsim")]
pub struct Ran {
    pub report: Report,
    pub chip: Arc<ChipSpec>,
    /// Host seconds inside the simulator.
    pub seconds: f64,
    /// Buffers that were kept: their types and bytes.
    pub buffers: BTreeMap<String, (&'static str, Vec<u8>)>,
}

impl Ran {
    fn value(&self) -> Value {
        serde_json::to_value(&self.report).unwrap_or_default()
    }
}

#[pymethods]
impl Ran {
    /// The report as JSON.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| serde_json::to_string(&self.report).unwrap_or_default())
    }

    /// The report as text.
    fn summary(&self, py: Python<'_>) -> String {
        py.detach(|| summary::facts(&self.report, &self.chip))
    }

    /// Figures of the report by the names of their metrics.
    fn metrics(&self, py: Python<'_>) -> BTreeMap<&'static str, f64> {
        py.detach(|| metrics::of(&self.value()).map(|(metric, value)| (metric.name, value)).collect())
    }

    /// What bounds the run, in words.
    fn bound(&self, py: Python<'_>) -> String {
        py.detach(|| findings::answer(&self.value()).words)
    }

    /// Host seconds inside the simulator.
    #[getter]
    fn seconds(&self) -> f64 {
        self.seconds
    }

    /// The type and the bytes of a buffer that was kept.
    fn buffer<'py>(&self, py: Python<'py>, name: &str) -> Option<(&'static str, Bound<'py, PyBytes>)> {
        self.buffers.get(name).map(|(ty, bytes)| (*ty, PyBytes::new(py, bytes)))
    }
}

/// A page of runs, given as JSON by their names.
#[pyfunction]
pub fn page(py: Python<'_>, title: &str, runs: Vec<(String, String)>) -> PyResult<String> {
    let made = py.detach(|| {
        let runs = runs.into_iter().map(|(name, text)| parsed(&text).map(|report| (name, report)));
        report::page(title, runs.collect::<Result<_, _>>()?)
    });
    made.map_err(|words| Wrong::from(words).raised(py))
}

/// The metrics of two reports that differ: name, unit, both values, change in per cent.
#[pyfunction]
pub fn compare(py: Python<'_>, was: &str, is: &str) -> PyResult<Vec<Moved>> {
    let moved = py.detach(|| Ok(comparison::of_reports(&parsed(was)?, &parsed(is)?)));
    let moved = moved.map_err(|words: String| Wrong::from(words).raised(py))?;
    let row = |moved: &comparison::Moved| {
        (moved.metric.clone(), moved.unit(), moved.was, moved.is, moved.percent())
    };
    Ok(moved.iter().map(row).collect())
}

type Moved = (String, &'static str, Option<f64>, Option<f64>, Option<f64>);

fn parsed(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("this is not a report: {error}"))
}
