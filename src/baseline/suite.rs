//! Suites: which runs, and how far figures may move.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_frontend::diagnostic::{Diagnostic, nearest};
use sim_frontend::yaml::{key_span, read_checked};

use crate::cli::cuda::request_of as cuda_request_of;
use crate::cli::run::request_of;
use crate::configs;
use crate::contents::digests;
use crate::metrics::{self, METRICS};
use crate::request::Request;
use crate::study::in_parallel;
use crate::work::Work;

/// A suite.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Version of this format: 1.
    pub schema: u32,
    /// Name of the suite.
    pub name: String,
    /// Description in one line.
    #[serde(default)]
    pub description: String,
    /// Arguments of `warpsim run`, one line each, or `cuda` and those of `warpsim cuda`. Paths are relative to the current
    /// directory, as typed.
    pub runs: Vec<String>,
    /// Per cent by which a simulated metric may move; none where nothing is said.
    #[serde(default)]
    pub tolerance: BTreeMap<String, f64>,
    /// The host's speed.
    #[serde(default)]
    pub host: Host,
}

/// How the host's speed is measured.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Per cent by which the fastest of the repeats may be slower than the recorded one.
    pub tolerance: f64,
    /// Runs per measurement of host speed.
    pub repeats: u32,
}

impl Default for Host {
    fn default() -> Self {
        Self { tolerance: 25.0, repeats: 5 }
    }
}

impl Suite {
    /// Reads and checks a suite file.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn load(path: &Path) -> Result<Self, Vec<Diagnostic>> {
        let source = configs::read(path).map_err(|e| vec![e])?;
        let suite: Self = read_checked(&source)?;
        let mut errors = Vec::new();
        let mut wrong = |keys: &[&str], message: String, near: Option<&str>| {
            let mut error = Diagnostic::error("suite", message).in_source(&source);
            if let Some(span) = key_span(&source, keys) {
                error = error.at(span, "");
            }
            errors.push(match near {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error,
            });
        };
        if suite.schema != 1 {
            wrong(&["schema"], "this version of warpsim reads only schema 1".into(), None);
        }
        if suite.runs.is_empty() {
            wrong(&["runs"], "the suite has no run".into(), None);
        }
        for (i, run) in suite.runs.iter().enumerate() {
            if suite.runs[..i].contains(run) {
                wrong(&["runs"], format!("`{run}` is given twice"), None);
            }
            let writes = run.split_whitespace().find_map(|word| {
                ["--out", "--dump", "--record", "--checkpoint", "--from"]
                    .into_iter()
                    .find(|option| word.split('=').next() == Some(option))
            });
            if let Some(option) = writes {
                let message = format!(
                    "`{run}`: a run of a suite writes no files and goes on from none, so it takes no {option}"
                );
                wrong(&["runs"], message, None);
            }
        }
        for name in suite.tolerance.keys().filter(|name| METRICS.iter().all(|m| m.name != **name)) {
            let near = nearest(name, METRICS.iter().map(|m| m.name));
            wrong(&["tolerance", name], format!("there is no metric `{name}`"), near);
        }
        let most = "a tolerance is a number of percent from 0 to 1000";
        let is_tolerance = |percent: f64| (0.0..=1000.0).contains(&percent);
        for (name, percent) in suite.tolerance.iter().filter(|(_, percent)| !is_tolerance(**percent)) {
            wrong(&["tolerance", name], format!("`{name}` is {percent}: {most}"), None);
        }
        let host = suite.host.tolerance;
        if !is_tolerance(host) {
            wrong(&["host", "tolerance"], format!("`tolerance` is {host}: {most}"), None);
        }
        if suite.host.repeats == 0 {
            wrong(&["host", "repeats"], "`repeats` must be positive".into(), None);
        }
        if errors.is_empty() { Ok(suite) } else { Err(errors) }
    }

    /// Simulates every run once, several at a time.
    ///
    /// # Errors
    /// The runs that cannot be made.
    pub fn simulate(&self, jobs: usize) -> Result<Vec<Measured>, Vec<Diagnostic>> {
        let results = in_parallel(&self.runs, jobs, |run| Measured::of(run));
        let (mut measured, mut errors) = (Vec::new(), Vec::new());
        for (run, result) in self.runs.iter().zip(results) {
            match result {
                Ok(found) => measured.push(found),
                Err(found) => errors.extend(
                    found.into_iter().map(|e| Diagnostic { message: format!("{run}: {}", e.message), ..e }),
                ),
            }
        }
        if errors.is_empty() { Ok(measured) } else { Err(errors) }
    }

    /// The fastest of the repeats of a run, in warp instructions a host second, one at a time.
    ///
    /// # Errors
    /// The run cannot be made.
    pub fn speed(&self, run: &str) -> Result<f64, Vec<Diagnostic>> {
        let mut best: f64 = 0.0;
        for _ in 0..self.host.repeats {
            best = best.max(Measured::of(run)?.speed);
        }
        Ok(best)
    }
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Arguments of `warpsim run`.
    pub run: String,
    /// pass, fail, unchecked or stopped.
    pub result: String,
    /// Simulated figures by name.
    pub metrics: BTreeMap<String, f64>,
    /// Cycles of each kernel, in the order of the launches.
    pub kernels: Vec<(String, u64)>,
    /// Digests of what the device's memory held in the end and of what was printed, by name.
    #[serde(default)]
    pub contents: BTreeMap<String, String>,
    /// Warp instructions a host second.
    #[serde(skip)]
    pub speed: f64,
}

impl Measured {
    fn of(run: &str) -> Result<Self, Vec<Diagnostic>> {
        let work = Work::new(request(run)?)?;
        let done = work.run()?;
        let launches = done.kernels();
        let instructions: u64 = launches.iter().map(|(.., instructions)| instructions).sum();
        let kernels = launches.into_iter().map(|(name, cycles, _)| (name, cycles)).collect();
        let value = &done.report;
        let metrics = metrics::of(value).map(|(metric, value)| (metric.name.to_string(), value)).collect();
        Ok(Self {
            run: run.to_string(),
            result: value["result"].as_str().unwrap_or_default().to_string(),
            metrics,
            kernels,
            contents: digests(value),
            speed: instructions as f64 / done.seconds.max(1e-9),
        })
    }
}

/// The run of a line.
fn request(run: &str) -> Result<Request, Vec<Diagnostic>> {
    let unclosed = || vec![Diagnostic::error("usage", "a quotation is not closed")];
    let words = shlex::split(run).ok_or_else(unclosed)?;
    match words.split_first() {
        Some((first, words)) if first == "cuda" => cuda_request_of(words),
        _ => request_of(&words),
    }
}
