//! Options of `study`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands of `study`.
#[derive(Subcommand)]
pub enum StudyCommand {
    /// Runs the microbenchmarks and sets their results beside published measurements. Exit status
    /// 1 if one that must agree does not.
    Microbenchmarks(MicrobenchmarkArgs),
    /// Divergent workloads under the reconvergence policies: cycles, efficiency, instructions, memory
    /// transactions, fairness. Exits with 1 if a result is wrong.
    Policies(PoliciesArgs),
    /// Registers of every kernel of the workloads beside those of NVIDIA's assembler.
    Registers(RegistersArgs),
    /// Programs that end under fair schedules only, under the policies: which ends which.
    Liveness(LivenessArgs),
}

/// Options of `study policies`.
#[derive(Args, Clone, Debug)]
pub struct PoliciesArgs {
    /// Workloads; by default the folder `divergence` and other divergent ones.
    #[arg(long, value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// Policies as `run --policy` takes them, one option each; all by default.
    #[arg(long = "policy")]
    pub policies: Vec<String>,
    /// Chip.
    #[arg(long, default_value = "gtx480")]
    pub chip: String,
    /// Variant of the workloads.
    #[arg(long)]
    pub variant: Option<String>,
    /// KEY=VALUE as `run --set` takes it.
    #[arg(long)]
    pub set: Vec<String>,
    /// What is checked: off, safety or full.
    #[arg(long, default_value = "safety", value_parser = ["off", "safety", "full"])]
    pub check: String,
    /// Writes the rows to a CSV file.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Writes a page for a browser.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Simulations at a time; the host's cores by default.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Prints a JSON list instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// Options of `study registers`.
#[derive(Args, Clone, Debug)]
pub struct RegistersArgs {
    /// Prints a JSON list instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Options of `study liveness`.
#[derive(Args, Clone, Debug)]
pub struct LivenessArgs {
    /// Chip.
    #[arg(long, default_value = "gtx480")]
    pub chip: String,
    /// Variant of the programs.
    #[arg(long, default_value = "sm_52")]
    pub variant: String,
    /// Core cycles after which a program counts as running on.
    #[arg(long, default_value_t = 4_000_000)]
    pub max_cycles: u64,
    /// Simulations at a time; the host's cores by default.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Prints a JSON list instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Options of `study microbenchmarks`.
#[derive(Args, Clone, Debug)]
pub struct MicrobenchmarkArgs {
    /// Only these chips.
    #[arg(long, value_delimiter = ',')]
    pub chip: Vec<String>,
    /// Only the rows that must agree.
    #[arg(long)]
    pub gated: bool,
    /// Simulations at a time; the host's cores by default.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Prints a JSON list instead of a table.
    #[arg(long)]
    pub json: bool,
}
