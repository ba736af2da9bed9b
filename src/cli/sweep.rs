//! Options of `sweep`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands of `sweep`.
#[derive(Subcommand)]
pub enum SweepCommand {
    /// Shows the points, whether each has a result, and the estimated remaining time.
    Plan(SweepPlanArgs),
    /// Simulates all points without a result. An interrupted sweep resumes.
    Run(SweepRunArgs),
    /// Writes one table with a row per point and metric, as CSV and SQLite.
    Collect(SweepCollectArgs),
    /// Merges result folders, such as those of shards on several hosts.
    Merge(SweepMergeArgs),
}

/// Options of `sweep merge`.
#[derive(Args, Clone, Debug)]
pub struct SweepMergeArgs {
    /// The sweep file that all folders were simulated from.
    pub file: PathBuf,
    /// Result folders to merge. Conflicting results of a point are an error.
    #[arg(required = true, value_name = "FROM")]
    pub from: Vec<PathBuf>,
    /// Destination folder; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub results: PathBuf,
}

/// Options of `sweep plan`.
#[derive(Args, Clone, Debug)]
pub struct SweepPlanArgs {
    /// Sweep file.
    pub file: PathBuf,
    /// Result folder.
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Lists all points.
    #[arg(long)]
    pub all: bool,
    /// Number of concurrent simulations assumed. Default: the number of host cores.
    #[arg(long)]
    pub jobs: Option<usize>,
}

/// Options of `sweep run`.
#[derive(Args, Clone, Debug)]
pub struct SweepRunArgs {
    /// Sweep file.
    pub file: PathBuf,
    /// Result folder.
    #[arg(long, value_name = "DIR")]
    pub results: PathBuf,
    /// Number of concurrent simulations. Default: the number of host cores.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Simulates shard I of N: every N-th point.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// Collects the results afterwards and writes an HTML page. Not for shards: use `sweep merge`, `sweep collect`
    /// and `report`.
    #[arg(long, value_name = "FILE", conflicts_with = "shard")]
    pub report: Option<PathBuf>,
}

/// Options of `sweep collect`.
#[derive(Args, Clone, Debug)]
pub struct SweepCollectArgs {
    /// Sweep file.
    pub file: PathBuf,
    /// Result folder.
    #[arg(long, value_name = "DIR")]
    pub results: PathBuf,
    /// CSV file. Default: table.csv in the result folder.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// SQLite file. Default: table.sqlite in the result folder.
    #[arg(long, value_name = "FILE")]
    pub sqlite: Option<PathBuf>,
}
