//! Options of `baseline` and `compare`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands of `baseline`.
#[derive(Subcommand)]
pub enum BaselineCommand {
    /// Simulates a suite and records what it comes to. Exit status 1 if a result is wrong; that result is
    /// recorded too, and `check` then wants it again.
    Record(SuiteArgs),
    /// Simulates a suite and says what moved. Exit status 1 if something did that may not.
    Check(BaselineCheckArgs),
    /// Shows a metric over the versions that `check --history` saw.
    History(BaselineHistoryArgs),
}

/// Which suite, and how it is simulated.
#[derive(Args, Clone, Debug)]
pub struct SuiteArgs {
    /// The suite.
    #[arg(long, value_name = "FILE", default_value = "baselines/ci.yaml")]
    pub suite: PathBuf,
    /// The baseline; the suite's name with .json by default.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Measures this host's speed too, one run at a time; `check` holds it to the suite's tolerance.
    #[arg(long)]
    pub host: bool,
    /// Simulations at a time; the host's cores by default.
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
    /// Adds the figures to a SQLite file.
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
}

/// Options of `baseline history`.
#[derive(Args, Clone, Debug)]
pub struct BaselineHistoryArgs {
    /// The metric, such as cycles.
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
    /// A report.json or its folder; or a folder of results: of a sweep, or of folders of runs. Runs of two
    /// such folders are compared by name, with exit status 1 if any differs.
    pub a: PathBuf,
    /// Another.
    pub b: PathBuf,
}
