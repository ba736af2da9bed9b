//! Options of `sweep`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands of `sweep`.
#[derive(Subcommand)]
pub enum SweepCommand {
    /// Shows the points, which of them have results, and how long the others may take.
    Plan(SweepPlanArgs),
    /// Simulates what has no result yet. A killed run goes on where it was.
    Run(SweepRunArgs),
    /// Writes one table, a row for each point and metric, as CSV and SQLite.
    Collect(SweepCollectArgs),
    /// Adds the results of other folders, as shards on several hosts leave them, to one.
    Merge(SweepMergeArgs),
}

/// Options of `sweep merge`.
#[derive(Args, Clone, Debug)]
pub struct SweepMergeArgs {
    /// The sweep file that all were made from.
    pub file: PathBuf,
    /// Folders of results; two different results of one point are refused.
    #[arg(required = true, value_name = "FROM")]
    pub from: Vec<PathBuf>,
    /// Folder of results they are added to; it is made if there is none.
    #[arg(long, value_name = "DIR")]
    pub results: PathBuf,
}

/// Options of `sweep plan`.
#[derive(Args, Clone, Debug)]
pub struct SweepPlanArgs {
    /// A sweep file.
    pub file: PathBuf,
    /// Folder of results.
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Lists all points.
    #[arg(long)]
    pub all: bool,
    /// Simulations at a time, for the estimate; the host's cores by default.
    #[arg(long)]
    pub jobs: Option<usize>,
}

/// Options of `sweep run`.
#[derive(Args, Clone, Debug)]
pub struct SweepRunArgs {
    /// A sweep file.
    pub file: PathBuf,
    /// Folder of results.
    #[arg(long, value_name = "DIR")]
    pub results: PathBuf,
    /// Simulations at a time; the host's cores by default.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Simulates part I of N: every N-th point.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// Collects the results afterwards and writes a page for a browser. A shard has not all of them:
    /// `sweep collect` and `report` make the page after `sweep merge`.
    #[arg(long, value_name = "FILE", conflicts_with = "shard")]
    pub report: Option<PathBuf>,
}

/// Options of `sweep collect`.
#[derive(Args, Clone, Debug)]
pub struct SweepCollectArgs {
    /// A sweep file.
    pub file: PathBuf,
    /// Folder of results.
    #[arg(long, value_name = "DIR")]
    pub results: PathBuf,
    /// The CSV file; table.csv in the folder by default.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// The SQLite file; table.sqlite in the folder by default.
    #[arg(long, value_name = "FILE")]
    pub sqlite: Option<PathBuf>,
}
