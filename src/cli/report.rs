//! Options of `report`.

use std::path::PathBuf;

use clap::Args;

/// Options of `report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// A report.json of `run` or its folder, a table of `sweep collect` or its folder, or
    /// the output of `study policies --json`.
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Output file.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Title of the page.
    #[arg(long)]
    pub title: Option<String>,
}
