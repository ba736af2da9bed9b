//! Options of `litmus`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands of `litmus`.
#[derive(Subcommand)]
pub enum LitmusCommand {
    /// Decides litmus tests by an axiomatic memory model. Exit status 1 if a verdict is not the one that a test
    /// expects, 2 on bad input.
    Run(LitmusRunArgs),
    /// Checks the compiler mapping from scoped C++ onto PTX for all programs up to a number of events. Exit status 1 with a
    /// counterexample, 2 on bad input.
    Mapping(MappingArgs),
    /// Runs litmus tests on the simulated chip under many schedules and compares the final states with those that the
    /// model allows. Exit status 3 if one is not allowed, 2 on bad input.
    Hardware(HardwareArgs),
}

/// Options of `litmus run`.
#[derive(Args, Clone, Debug)]
pub struct LitmusRunArgs {
    /// Litmus tests, or directories of them.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Memory model: ptx-6.0, ptx-7.5, or a file in the cat language.
    #[arg(long, default_value = "ptx-7.5")]
    pub model: String,
    /// Maximum number of times that a thread repeats a loop; executions with more are not considered.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub unroll: u32,
    /// Maximum number of candidate executions of a test; beyond it the verdict is `unknown`.
    #[arg(long, default_value_t = 5_000_000, value_name = "N")]
    pub max_candidates: u64,
    /// Prints only one line per test.
    #[arg(long)]
    pub quiet: bool,
    /// Prints a JSON list.
    #[arg(long)]
    pub json: bool,
    /// Writes the execution shown for each test as a Graphviz graph into this directory.
    #[arg(long, value_name = "DIR")]
    pub graph: Option<PathBuf>,
    /// Number of host threads. Default: the number of host cores.
    #[arg(long)]
    pub threads: Option<usize>,
}

/// Options of `litmus mapping`.
#[derive(Args, Clone, Debug)]
pub struct MappingArgs {
    /// Maximum number of events of a program; a read-modify-write counts as two.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub events: u8,
    /// Mapping table. Default: figure 11 of MM (Lustig et al., ASPLOS 2019).
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// Model of PTX: ptx-6.0, ptx-7.5, or a file in the cat language.
    #[arg(long, default_value = "ptx-6.0")]
    pub model: String,
    /// Model of C++: rc11-scoped, or a file in the cat language.
    #[arg(long, default_value = "rc11-scoped")]
    pub source_model: String,
    /// Treats sequentially consistent accesses of C++ as events of psc (MM figure 10) instead of a fence and an acquire or
    /// release access (MM §5, theorem 3).
    #[arg(long)]
    pub direct_sc: bool,
    /// Searches every program. Default: one representative of programs known to be equivalent, if the models and the table
    /// are those of MM.
    #[arg(long)]
    pub all_programs: bool,
    /// Writes a counterexample, as a C++ and a PTX litmus test, into this directory.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Number of host threads. Default: the number of host cores.
    #[arg(long)]
    pub threads: Option<usize>,
}

/// Options of `litmus hardware`.
#[derive(Args, Clone, Debug)]
pub struct HardwareArgs {
    /// Litmus tests, or directories of them.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Chip; repeatable.
    #[arg(long, default_value = "v100", value_name = "C")]
    pub chip: Vec<String>,
    /// Memory protocol: tesla, thesis, fermi or volta; repeatable. Default: that of the chip.
    #[arg(long, value_name = "P")]
    pub protocol: Vec<String>,
    /// Reconvergence policy; repeatable. Default: that of the chip.
    #[arg(long, value_name = "POLICY")]
    pub policy: Vec<String>,
    /// Number of schedules. A schedule varies the placement of threads and locations, delays, cache contents, other
    /// traffic, warp scheduler, epoch length and worker threads.
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub schedules: u32,
    /// Runs only schedule number K, counted from 0.
    #[arg(long, value_name = "K", conflicts_with = "schedules")]
    pub schedule: Option<u32>,
    /// Seed of the schedules.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Memory model: ptx-6.0, ptx-7.5, or a file in the cat language.
    #[arg(long, default_value = "ptx-7.5")]
    pub model: String,
    /// Also checks every execution against the axioms while it runs, as `warpsim run --check memory-model` does.
    #[arg(long = "check-executions")]
    pub check: bool,
    /// Prints only one line per test, chip, protocol and policy.
    #[arg(long)]
    pub quiet: bool,
    /// Prints a JSON list.
    #[arg(long)]
    pub json: bool,
    /// Number of host threads. Default: the number of host cores.
    #[arg(long)]
    pub threads: Option<usize>,
}
