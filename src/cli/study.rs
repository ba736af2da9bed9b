//! Options of `study`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands of `study`.
#[derive(Subcommand)]
pub enum StudyCommand {
    /// Runs the microbenchmarks and compares them with published measurements. Exit status 1 if a row is
    /// outside its tolerance (gate) or cannot be measured.
    Microbenchmarks(MicrobenchmarkArgs),
    /// Runs divergent workloads under the reconvergence policies: cycles, SIMD efficiency, instructions, memory
    /// transactions, fairness. Exit status 1 if a result is wrong.
    Policies(PoliciesArgs),
    /// Compares the registers per thread that warpsim computes for all workload kernels with those that ptxas allocates.
    Registers(RegistersArgs),
    /// Runs CUDA programs whose kernels were measured on hardware and compares the cycles, the worst kernel first.
    Silicon(SiliconArgs),
    /// Runs programs that need fair scheduling under the policies and shows which terminate.
    Liveness(LivenessArgs),
}

/// Options of `study policies`.
#[derive(Args, Clone, Debug)]
pub struct PoliciesArgs {
    /// Workloads, separated by commas. Default: the divergent ones.
    #[arg(long, value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// CUDA program with its arguments, in one word, as after `warpsim cuda --`; repeatable.
    #[arg(long = "program", value_name = "COMMAND")]
    pub programs: Vec<String>,
    /// Policy, as for `run --policy`; repeatable. Default: all.
    #[arg(long = "policy")]
    pub policies: Vec<String>,
    /// Chip.
    #[arg(long, default_value = "gtx480")]
    pub chip: String,
    /// Variant of the workloads, such as sm_52. Default: for each workload, the newest that the chip can run.
    #[arg(long)]
    pub variant: Option<String>,
    /// Override, as for `run --set`.
    #[arg(long)]
    pub set: Vec<String>,
    /// Run-time checks of the formal semantics, as for `run --check`.
    #[arg(long, default_value = "safety", value_parser = ["off", "safety", "full"])]
    pub check: String,
    /// Writes the rows to a CSV file.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Writes an HTML page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Number of concurrent simulations. Default: the number of host cores.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Prints a JSON list instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// Options of `study registers`.
#[derive(Args, Clone, Debug)]
pub struct RegistersArgs {
    /// Compares other kernels: a CSV file with the columns `file` (PTX, relative to the folder of the CSV file), `entry`, `arch` (75
    /// for sm_75), `registers` and `spill_bytes` (`spill stores`), as `ptxas -v` prints them. Default: the kernels of the workloads.
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// Prints a JSON list instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Options of `study silicon`.
#[derive(Args, Clone, Debug)]
pub struct SiliconArgs {
    /// Folder of built programs: files of the programs' names, or names that end in them (`samples-mergeSort`).
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub programs: PathBuf,
    /// Compares workloads that were measured, not programs.
    #[arg(long)]
    pub workloads: bool,
    /// Measurements, in the format of data/silicon.yaml. Default: those that are shipped.
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Chips, separated by commas. Default: all with measurements.
    #[arg(long, value_delimiter = ',')]
    pub chip: Vec<String>,
    /// Overrides a key of the chips by its path (sm.branch_latency=2); repeatable.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Only programs whose name, or workloads whose command, matches the regular expression.
    #[arg(long, value_name = "REGEX")]
    pub only: Option<String>,
    /// Compares again without each part of the model (data/mechanisms.yaml): the error with it and without it.
    #[arg(long)]
    pub ablation: bool,
    /// Compares again with each key of the chips changed: by how much cycles of the kernels change.
    #[arg(long, conflicts_with = "ablation")]
    pub sensitivity: bool,
    /// Key of the chips that `--sensitivity` changes; repeatable. Default: those of data/mechanisms.yaml.
    #[arg(long, value_name = "PATH", requires = "sensitivity")]
    pub parameter: Vec<String>,
    /// Factor by which `--sensitivity` multiplies the value of a key; a whole number changes by one at least.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.25, requires = "sensitivity")]
    pub by: f64,
    /// Number of concurrent programs. Default: the number of host cores.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Prints JSON instead of a table.
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
    /// Core cycles after which a program counts as not terminating.
    #[arg(long, default_value_t = 4_000_000)]
    pub max_cycles: u64,
    /// Number of concurrent simulations. Default: the number of host cores.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Prints a JSON list instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Options of `study microbenchmarks`.
#[derive(Args, Clone, Debug)]
pub struct MicrobenchmarkArgs {
    /// Chips, separated by commas. Default: all with measurements.
    #[arg(long, value_delimiter = ',')]
    pub chip: Vec<String>,
    /// Only rows with a tolerance (gate).
    #[arg(long)]
    pub gated: bool,
    /// Number of concurrent simulations. Default: the number of host cores.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Prints a JSON list instead of a table.
    #[arg(long)]
    pub json: bool,
}
