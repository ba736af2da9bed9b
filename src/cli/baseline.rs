//! Options of `baseline` and `compare`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands of `baseline`.
#[derive(Subcommand)]
pub enum BaselineCommand {
    /// Runs a suite and records its metrics and results. Exit status 1 if a result is wrong; it is recorded
    /// nevertheless, and `check` then expects it.
    Record(SuiteArgs),
    /// Runs a suite and compares it with the baseline. Exit status 1 on a difference beyond the tolerances.
    Check(BaselineCheckArgs),
    /// Shows a metric by version, as recorded by `check --history`.
    History(BaselineHistoryArgs),
}

/// Which suite, and how it is simulated.
#[derive(Args, Clone, Debug)]
pub struct SuiteArgs {
    /// Suite file.
    #[arg(long, value_name = "FILE", default_value = "baselines/ci.yaml")]
    pub suite: PathBuf,
    /// Baseline file. Default: the suite's name with .json.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Also measures the simulation speed on this host, one run at a time; `check` applies the suite's tolerance.
    #[arg(long)]
    pub host: bool,
    /// Number of concurrent simulations. Default: the number of host cores.
    #[arg(long)]
    pub jobs: Option<usize>,
}

/// Options of `baseline check`.
#[derive(Args, Clone, Debug)]
pub struct BaselineCheckArgs {
    /// The suite.
    #[command(flatten)]
    pub suite: SuiteArgs,
    /// Writes a JUnit XML file.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Adds the metrics to a SQLite file.
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
}

/// Options of `baseline history`.
#[derive(Args, Clone, Debug)]
pub struct BaselineHistoryArgs {
    /// Metric, such as cycles.
    pub metric: String,
    /// Only this run.
    #[arg(long)]
    pub run: Option<String>,
    /// The SQLite file.
    #[arg(long, value_name = "FILE", default_value = "history.sqlite")]
    pub history: PathBuf,
}

/// Options of `compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// A report.json or its folder; or a folder of several results (of a sweep, or of runs), compared by name, with
    /// exit status 1 if any differs.
    pub a: PathBuf,
    /// Second report or folder, of the same kind as A.
    pub b: PathBuf,
}
