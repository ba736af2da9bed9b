//! The command line.

mod baseline;
mod chips;
mod find;
mod inspect;
mod isa;
mod report;
mod study;
mod sweep;
mod trace;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sim_core::reconvergence::registry::POLICIES;
use sim_core::sm::scheduler::SCHEDULERS;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::workload::Termination;

use crate::metrics::METRICS;

use chips::ChipsCommand;
use inspect::InspectArgs;
use isa::IsaArgs;

pub use baseline::{BaselineCheckArgs, BaselineCommand, BaselineHistoryArgs, CompareArgs, SuiteArgs};
pub use find::{Found, find_workload, workload_folders};
pub use report::ReportArgs;
pub use study::{LivenessArgs, MicrobenchmarkArgs, PoliciesArgs, RegistersArgs, StudyCommand};
pub use sweep::{SweepCollectArgs, SweepCommand, SweepMergeArgs, SweepPlanArgs, SweepRunArgs};
pub use trace::TraceArgs;

/// A GPU architecture simulator: real PTX in, a cycle-level answer out.
#[derive(Parser)]
#[command(name = "warpsim", version = crate::VERSION)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a workload or a PTX file on a simulated chip.
    Run(Box<RunArgs>),
    /// Lists the workloads.
    Workloads {
        /// Prints a JSON list: name, folder, variants, checked buffers, all buffers, schedule.
        #[arg(long)]
        json: bool,
    },
    /// Lists the chips, or shows what differs between two.
    Chips {
        #[command(subcommand)]
        command: Option<ChipsCommand>,
    },
    /// Lists the reconvergence policies and the warp schedulers.
    Policies,
    /// Shows what can be said of a program without running it, and the memory programs of a chip.
    Inspect(InspectArgs),
    /// Lists the instructions, or the forms of one: executed or parsed, unit, least target.
    Isa(IsaArgs),
    /// Runs many simulations for one table.
    #[command(subcommand)]
    Study(StudyCommand),
    /// Holds the simulated figures of a suite of runs to what they were, and the host's speed near it.
    #[command(subcommand)]
    Baseline(BaselineCommand),
    /// Shows what differs between two reports, and where the cycles went.
    Compare(CompareArgs),
    /// Makes one page of results for a browser: issue slots, roofline, memory, latencies, program,
    /// plots of sweeps, policies.
    Report(ReportArgs),
    /// Runs like `run` and writes a timeline for Perfetto: blocks on SMs, what warps do and wait for,
    /// issues, accesses to memory.
    Trace(Box<TraceArgs>),
    /// Prints the JSON Schema of a kind of file, for editors.
    Schema {
        /// Which.
        kind: crate::schema::Kind,
        /// Prints the page of docs/reference instead.
        #[arg(long)]
        markdown: bool,
    },
    /// Lists the metrics: name, unit, meaning.
    Metrics {
        /// Prints a JSON list.
        #[arg(long, conflicts_with = "markdown")]
        json: bool,
        /// Prints the page docs/reference/metrics.md.
        #[arg(long)]
        markdown: bool,
    },
    /// Simulates the points of a sweep file, each once, and makes one table of them.
    #[command(subcommand)]
    Sweep(SweepCommand),
}

/// Options of `run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// A workload's name, folder or workload.yaml; or a .ptx file, with --entry where it has several kernels.
    pub workload: String,
    /// Which of the workload's programs; the newest the chip runs by default.
    #[arg(long)]
    pub variant: Option<String>,
    /// Chip by name or file. Without it the smallest shipped chip that runs the newest program of the workload
    /// (or the --variant, or the target of the .ptx file); gtx480 where a program names no target.
    #[arg(long)]
    pub chip: Option<String>,
    /// Reconvergence policy, NAME[:key=value,…].
    #[arg(long)]
    pub policy: Option<String>,
    /// Warp scheduler: lrr, gto, two_level[:N].
    #[arg(long)]
    pub scheduler: Option<String>,
    /// Changes a parameter of the workload, or of the chip by its path (sm.branch_latency=2).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Changes the seeds of random contents.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Instruction set of the host that lanes and the issue loop use: baseline, avx2+fma or avx512,
    /// as far as the host has it. The best is the default; results do not depend on it.
    #[arg(long, value_name = "SET")]
    pub instruction_set: Option<String>,
    /// Cycles of an epoch, between which SMs and partitions run apart. Shorter than the default (the
    /// chip's least channel latency) is slower and changes nothing else.
    #[arg(long, value_name = "CYCLES")]
    pub epoch: Option<u64>,
    /// Worker threads of the engine.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// What is checked while it runs.
    #[arg(long, default_value = "safety", value_parser = ["off", "safety", "full"])]
    pub check: String,
    /// Counts by line of the PTX: issues, lanes, cycles waited and for what; in the report and below the summary.
    #[arg(long)]
    pub profile: bool,
    /// Counters every N core cycles: issue slots, resident warps, traffic; in the report and in timelines.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub sample: Option<u64>,
    /// Without time.
    #[arg(long)]
    pub functional: bool,
    /// Runs the first N launches without time.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_launches: u64,
    /// Stops after N core cycles of all launches with time, their launch latencies among them (5,000 cycles
    /// on the shipped chips).
    #[arg(long, value_name = "N")]
    pub max_cycles: Option<u64>,
    /// Stops after N warp instructions of all launches, with time and without. They are counted from time to
    /// time: with time up to some thousand more are executed.
    #[arg(long, value_name = "N")]
    pub max_instructions: Option<u64>,
    /// Stops where the simulator takes more memory of the host: bytes, or a number with K, M, G or T
    /// (binary), or `unlimited`. Three quarters of what the host has by default.
    #[arg(long, value_name = "SIZE", value_parser = crate::memory::size)]
    pub max_memory: Option<u64>,
    /// Runs instructions the chip lacks.
    #[arg(long)]
    pub allow_newer_isa: bool,
    /// Prints report.json instead of the summary.
    #[arg(long)]
    pub json: bool,
    /// Writes report.json and host.json to a folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Writes a buffer's final bytes to a file.
    #[arg(long, value_name = "BUFFER=FILE")]
    pub dump: Vec<String>,
    /// Entry of a .ptx file.
    #[arg(long)]
    pub entry: Option<String>,
    /// Grid of a .ptx file: X[,Y[,Z]] blocks.
    #[arg(long)]
    pub grid: Option<String>,
    /// Block of a .ptx file: X[,Y[,Z]] threads.
    #[arg(long)]
    pub block: Option<String>,
    /// Argument of a .ptx file: TYPE:VALUE, bytes:DIGITS, argN[+ELEMENTS] (the buffer of an earlier one), or
    /// buffer:TYPE:LENGTH[:zeros|iota|random[:MIN:MAX]|@FILE] (.npy or raw bytes). The bits of f32 and f64 are
    /// written as in PTX, f32:0f3F800000. `random` without bounds is 0 to 1 for floating-point types, and
    /// every value of an integer type. A struct that holds a pointer needs a workload file.
    #[arg(long = "arg", value_name = "ARG")]
    pub args: Vec<String>,
    /// Dynamic shared memory of a .ptx file, in bytes.
    #[arg(long, default_value_t = 0)]
    pub dynamic_shared: u32,
}

/// Exit statuses.
pub mod status {
    /// Done, and right or unchecked.
    pub const DONE: u8 = 0;
    /// Results differ.
    pub const DIFFERS: u8 = 1;
    /// Bad input or usage.
    pub const BAD_INPUT: u8 = 2;
    /// A simulated fault, check violation, deadlock, or the limit of cycles.
    pub const FAULT: u8 = 3;
    /// Stopped by Ctrl-C.
    pub const INTERRUPTED: u8 = 130;
}

/// Prints diagnostics; those that say the same of other places are counted.
pub fn complain(errors: &[Diagnostic]) {
    for (error, others) in grouped(errors) {
        eprintln!("{}", error.render());
        if !others.is_empty() {
            let places: Vec<String> = others.iter().take(3).filter_map(|other| other.place()).collect();
            let rest = if others.len() > places.len() { ", …" } else { "" };
            eprintln!("  = {} more like this: {}{rest}", others.len(), places.join(", "));
        }
    }
}

/// Each diagnostic with the later ones that say the same.
fn grouped(errors: &[Diagnostic]) -> Vec<(&Diagnostic, Vec<&Diagnostic>)> {
    let mut groups: Vec<(&Diagnostic, Vec<&Diagnostic>)> = Vec::new();
    let mut seen = HashMap::new();
    for error in errors {
        match seen.get(&(error.code, error.message.as_str())) {
            Some(&at) => {
                let (_, others): &mut (_, Vec<&Diagnostic>) = &mut groups[at];
                others.push(error);
            }
            None => {
                seen.insert((error.code, error.message.as_str()), groups.len());
                groups.push((error, Vec::new()));
            }
        }
    }
    groups
}

/// Says that nothing can be printed; gives the exit status. Whoever reads the output may stop reading, as
/// `head` does: that is no fault.
pub fn unprinted(reason: &str) -> u8 {
    if reason.contains("Broken pipe") {
        return status::DONE;
    }
    eprintln!("error: the output cannot be printed: {}", crate::files::reason(&reason));
    status::BAD_INPUT
}

/// Runs the command.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = match error.print() {
                Err(reason) if !error.use_stderr() => unprinted(&reason.to_string()),
                _ if error.use_stderr() => status::BAD_INPUT,
                _ => status::DONE,
            };
            return ExitCode::from(code);
        }
    };
    let code = match cli.command {
        Command::Run(args) => crate::run::run(&args),
        Command::Workloads { json } => workloads(json),
        Command::Chips { command: None } => chips::list(),
        Command::Chips { command: Some(ChipsCommand::Diff(args)) } => chips::diff(&args),
        Command::Policies => policies(),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Isa(args) => isa::isa(&args),
        Command::Study(StudyCommand::Microbenchmarks(args)) => crate::study::microbenchmarks::run(&args),
        Command::Study(StudyCommand::Policies(args)) => crate::study::policies::run(&args),
        Command::Study(StudyCommand::Liveness(args)) => crate::study::liveness::run(&args),
        Command::Study(StudyCommand::Registers(args)) => crate::study::registers::run(&args),
        Command::Baseline(BaselineCommand::Record(args)) => crate::baseline::record(&args),
        Command::Baseline(BaselineCommand::Check(args)) => crate::baseline::check(&args),
        Command::Baseline(BaselineCommand::History(args)) => crate::baseline::history(&args),
        Command::Compare(args) => crate::compare::compare(&args),
        Command::Trace(args) => crate::trace::trace(&args),
        Command::Report(args) => crate::report::report(&args),
        Command::Schema { kind, markdown } => {
            let text = if markdown { crate::schema::page(kind) } else { crate::schema::text(kind) };
            print!("{text}");
            status::DONE
        }
        Command::Metrics { json, markdown } => metrics(json, markdown),
        Command::Sweep(SweepCommand::Plan(args)) => crate::sweep::plan(&args),
        Command::Sweep(SweepCommand::Run(args)) => crate::sweep::run(&args),
        Command::Sweep(SweepCommand::Collect(args)) => crate::sweep::collect(&args),
        Command::Sweep(SweepCommand::Merge(args)) => crate::sweep::merge(&args),
    };
    ExitCode::from(code)
}

/// Arguments of `run`, as they would be typed.
///
/// # Errors
/// What is wrong with them, in clap's words.
pub fn run_args(words: &[String]) -> Result<RunArgs, String> {
    let line = ["warpsim", "run"].into_iter().map(str::to_string).chain(words.iter().cloned());
    match Cli::try_parse_from(line) {
        Ok(Cli { command: Command::Run(args) }) => Ok(*args),
        Ok(_) => Err("not a run".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// A table for people.
pub fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.set_header(header.to_vec());
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    if !std::io::stdout().is_terminal() {
        table.set_width(120);
    }
    table
}

/// A workload as `workloads --json` lists it.
#[derive(serde::Serialize)]
struct Listed {
    name: String,
    folder: String,
    variants: Vec<String>,
    expects: Vec<String>,
    buffers: Vec<String>,
    schedule: String,
    termination: String,
}

fn workloads(json: bool) -> u8 {
    let mut list = Vec::new();
    let mut out = table(&["workload", "variants", "schedule", "description"]);
    let mut bad = Vec::new();
    for folder in workload_folders() {
        match find_workload(&folder.display().to_string()) {
            Ok(Found { spec, .. }) => {
                list.push(Listed {
                    name: spec.name.clone(),
                    folder: folder.display().to_string(),
                    variants: spec.variants.iter().map(|v| v.name.clone()).collect(),
                    expects: spec.expect.iter().map(|e| e.buffer.clone()).collect(),
                    buffers: spec.buffers.keys().cloned().collect(),
                    schedule: format!("{:?}", spec.schedule).to_lowercase(),
                    termination: match spec.termination {
                        Termination::Always => "always",
                        Termination::FairSchedules => "fair_schedules",
                    }
                    .to_string(),
                });
                let variants: Vec<&str> = spec.variants.iter().map(|v| v.name.as_str()).collect();
                let schedule = format!("{:?}", spec.schedule).to_lowercase();
                out.add_row([spec.name.as_str(), &variants.join(" "), &schedule, &spec.description]);
            }
            Err(errors) => bad.extend(errors),
        }
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&list).unwrap_or_default());
    } else {
        println!("{out}");
    }
    complain(&bad);
    if bad.is_empty() { status::DONE } else { status::BAD_INPUT }
}

fn metrics(json: bool, markdown: bool) -> u8 {
    if json {
        println!("{}", serde_json::to_string_pretty(METRICS).unwrap_or_default());
    } else if markdown {
        print!("{}", crate::metrics::page());
    } else {
        let mut out = table(&["metric", "unit", "meaning"]);
        for metric in METRICS {
            out.add_row([metric.name, metric.unit, metric.doc]);
        }
        println!("{out}");
    }
    status::DONE
}

fn policies() -> u8 {
    let mut out = table(&["policy", "what it does", "reference", "fairness", "parameters"]);
    for policy in POLICIES {
        let parameters: Vec<String> =
            policy.parameters.iter().map(|p| format!("{}={} ({})", p.name, p.default, p.doc)).collect();
        out.add_row([policy.name, policy.doc, policy.reference, policy.fairness, &parameters.join("; ")]);
    }
    println!("{out}\n");
    let mut out = table(&["scheduler", "what it does"]);
    for (name, doc) in SCHEDULERS {
        out.add_row([name, doc]);
    }
    println!("{out}");
    status::DONE
}
