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
    /// Submits the points without a result to Slurm: an array of tasks, and a job that collects the table after them.
    Submit(SweepSubmitArgs),
    /// Works on a sweep that was planned in a result folder, beside others. The tasks of `submit` run it; so may any
    /// other scheduler.
    Work(SweepWorkArgs),
    /// Shows what is done, running, failed and left, the rate and the remaining time.
    Status(SweepStatusArgs),
    /// Cancels the Slurm jobs of a result folder. Points under way are given back.
    Cancel(SweepCancelArgs),
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
    /// Result folders of one sweep, such as those of shards; with --results, the sweep file.
    #[arg(required = true, value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// Result folder, where a sweep file is named.
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// CSV file. Default: table.csv in the first result folder.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// SQLite file. Default: table.sqlite in the first result folder.
    #[arg(long, value_name = "FILE")]
    pub sqlite: Option<PathBuf>,
    /// The plan, where a folder has several.
    #[arg(long, value_name = "KEY", hide = true)]
    pub plan: Option<String>,
}

/// Options of `sweep submit`.
#[derive(Args, Clone, Debug)]
pub struct SweepSubmitArgs {
    /// Sweep file.
    pub file: PathBuf,
    /// Result folder, on a file system that all nodes share.
    #[arg(long, value_name = "DIR")]
    pub results: PathBuf,
    /// Number of tasks. Default: one per 10 points without a result, at most 1000.
    #[arg(long, value_name = "N")]
    pub tasks: Option<usize>,
    /// Option of sbatch for both jobs, such as `--time=60`, `--mem=8G` or `--cpus-per-task=16`. Can be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub slurm_option: Vec<String>,
    /// Prints what would be submitted.
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `sweep work`.
#[derive(Args, Clone, Debug)]
pub struct SweepWorkArgs {
    /// Result folder.
    #[arg(value_name = "DIR")]
    pub results: PathBuf,
    /// Number of concurrent simulations. Default: the CPUs of the Slurm task, else the number of host cores.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// The plan, where a folder has several.
    #[arg(long, value_name = "KEY", hide = true)]
    pub plan: Option<String>,
    /// The number of the only point, which ended a process before.
    #[arg(long, hide = true, requires = "deaths")]
    pub point: Option<usize>,
    /// How many it ended.
    #[arg(long, hide = true)]
    pub deaths: Option<usize>,
}

/// Options of `sweep status`.
#[derive(Args, Clone, Debug)]
pub struct SweepStatusArgs {
    /// Result folder.
    #[arg(value_name = "DIR")]
    pub results: PathBuf,
    /// Shows it anew every 5 seconds, until nothing is running or left.
    #[arg(long)]
    pub watch: bool,
    /// Lists all running and failed points.
    #[arg(long)]
    pub all: bool,
}

/// Options of `sweep cancel`.
#[derive(Args, Clone, Debug)]
pub struct SweepCancelArgs {
    /// Result folder.
    #[arg(value_name = "DIR")]
    pub results: PathBuf,
}
