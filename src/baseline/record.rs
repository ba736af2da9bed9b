//! `warpsim baseline record`: what a suite comes to today.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::suite::{Measured, Suite};
use crate::cli::baseline::SuiteArgs;
use crate::console::{complain, status};
use crate::files;
use crate::study::jobs;

/// A recorded suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Version of this format: 2.
    pub schema: u32,
    /// Name of the suite.
    pub suite: String,
    /// Version of the simulator that recorded it.
    pub version: String,
    /// Results by run.
    pub runs: Vec<Measured>,
    /// Warp instructions a second of this host, by run; none where they were not measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host: BTreeMap<String, f64>,
}

/// Where a suite's baseline lies: beside it.
pub fn beside(suite: &Path) -> PathBuf {
    suite.with_extension("json")
}

impl Baseline {
    /// Reads a baseline.
    ///
    /// # Errors
    /// It is not there, or is none.
    pub fn load(path: &Path) -> Result<Self, String> {
        let made = |reason: String| match path.exists() {
            true => reason,
            false => format!("{reason}; `warpsim baseline record` creates it"),
        };
        let baseline: Self = files::read_json(path).map_err(made)?;
        match baseline.schema {
            2 => Ok(baseline),
            other => Err(format!(
                "{}: schema {other}; this version reads schema 2; `warpsim baseline record` creates it again",
                path.display()
            )),
        }
    }
}

/// Simulates the suite and writes the file; gives the exit status.
pub fn record(args: &SuiteArgs) -> u8 {
    let path = args.file.clone().unwrap_or_else(|| beside(&args.suite));
    if let Err(message) = files::probe(&path) {
        eprintln!("error: {message}");
        return status::BAD_INPUT;
    }
    let measured = Suite::load(&args.suite).and_then(|suite| {
        let runs = suite.simulate(jobs(args.jobs))?;
        let mut host = BTreeMap::new();
        if args.host {
            for run in &suite.runs {
                host.insert(run.clone(), suite.speed(run)?);
            }
        }
        Ok(Baseline { schema: 2, suite: suite.name, version: crate::VERSION.into(), runs, host })
    });
    let baseline = match measured {
        Ok(baseline) => baseline,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let text = serde_json::to_string_pretty(&baseline).unwrap_or_default() + "\n";
    if let Err(error) = files::write(&path, text.as_bytes()) {
        eprintln!("error: {}", files::unwritable(&path, &error));
        return status::BAD_INPUT;
    }
    let bad: Vec<&str> = baseline
        .runs
        .iter()
        .filter(|run| !matches!(run.result.as_str(), "pass" | "unchecked"))
        .map(|run| run.run.as_str())
        .collect();
    println!("{}: {} runs in {}", baseline.suite, baseline.runs.len(), path.display());
    if bad.is_empty() {
        return status::DONE;
    }
    println!("result not as expected: {}", bad.join("; "));
    status::DIFFERS
}
