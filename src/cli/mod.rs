//! The command line.

pub mod baseline;
mod chips;
pub mod cuda;
mod inspect;
mod isa;
pub mod litmus;
pub mod program;
pub mod report;
pub mod run;
pub mod study;
pub mod sweep;
pub mod trace;
pub mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sim_core::reconvergence::registry::POLICIES;
use sim_core::sm::scheduler::SCHEDULERS;
use sim_frontend::workload::Termination;

use crate::console::{complain, status, table, unprinted};
use crate::find::{Found, find_workload, workload_folders};
use crate::metrics::METRICS;

use chips::ChipsCommand;
use cuda::CudaArgs;
use inspect::InspectArgs;
use isa::IsaArgs;
use litmus::LitmusCommand;

use baseline::{BaselineCommand, CompareArgs};
use report::ReportArgs;
use run::RunArgs;
use study::StudyCommand;
use sweep::SweepCommand;
use trace::TraceArgs;
use verify::VerifyCommand;

/// A cycle-level GPU architecture simulator for PTX programs.
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
    /// Runs a CUDA program, unmodified, on a simulated chip: its kernels are simulated, its host code runs on the host.
    Cuda(Box<CudaArgs>),
    /// Lists the workloads.
    Workloads {
        /// Prints a JSON list: name, folder, variants, buffers with expected results, all buffers, schedule,
        /// termination.
        #[arg(long)]
        json: bool,
    },
    /// Lists the chips, or shows the differences between two.
    Chips {
        #[command(subcommand)]
        command: Option<ChipsCommand>,
    },
    /// Lists the reconvergence policies and the warp schedulers.
    Policies,
    /// Analyses a PTX program statically, or shows the memory programs (micro-operation sequences) of a chip.
    Inspect(InspectArgs),
    /// Lists the instructions, or the forms of one: support, functional unit, minimum target.
    Isa(IsaArgs),
    /// Decides litmus tests by a memory model, checks the C++ mapping, runs litmus tests on a chip.
    #[command(subcommand)]
    Litmus(LitmusCommand),
    /// Proves properties of a kernel for all schedules.
    #[command(subcommand)]
    Verify(VerifyCommand),
    /// Predefined studies: many simulations, one table.
    #[command(subcommand)]
    Study(StudyCommand),
    /// Regression tests: compares a suite of runs with recorded metrics, results and, optionally, simulation speed.
    #[command(subcommand)]
    Baseline(BaselineCommand),
    /// Compares two reports: metrics, buffer contents, stall cycles.
    Compare(CompareArgs),
    /// Writes an HTML page of results: findings, issue slots, roofline, memory, source lines, plots of sweeps,
    /// policies.
    Report(ReportArgs),
    /// Runs like `run` and writes a timeline for Perfetto: blocks, warp states, issues, memory accesses.
    Trace(Box<TraceArgs>),
    /// Prints the JSON Schema of chip, workload or sweep files.
    Schema {
        /// Kind of file.
        kind: crate::schema::Kind,
        /// Prints the reference page (Markdown) instead.
        #[arg(long)]
        markdown: bool,
    },
    /// Lists the metrics: name, unit, definition.
    Metrics {
        /// Prints a JSON list.
        #[arg(long, conflicts_with = "markdown")]
        json: bool,
        /// Prints the page docs/reference/metrics.md.
        #[arg(long)]
        markdown: bool,
    },
    /// Simulates the points of a sweep file and collects one table.
    #[command(subcommand)]
    Sweep(SweepCommand),
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
        Command::Run(args) => run::run(&args),
        Command::Cuda(args) => cuda::run(&args),
        Command::Workloads { json } => workloads(json),
        Command::Chips { command: None } => chips::list(),
        Command::Chips { command: Some(ChipsCommand::Diff(args)) } => chips::diff(&args),
        Command::Policies => policies(),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Isa(args) => isa::isa(&args),
        Command::Litmus(LitmusCommand::Run(args)) => crate::litmus::run::run(&args),
        Command::Litmus(LitmusCommand::Mapping(args)) => crate::litmus::mapping::run(&args),
        Command::Litmus(LitmusCommand::Hardware(args)) => crate::litmus::hardware::run(&args),
        Command::Verify(VerifyCommand::Sync(args)) => crate::verify::sync(&args),
        Command::Study(StudyCommand::Microbenchmarks(args)) => crate::study::microbenchmarks::run(&args),
        Command::Study(StudyCommand::Policies(args)) => crate::study::policies::run(&args),
        Command::Study(StudyCommand::Liveness(args)) => crate::study::liveness::run(&args),
        Command::Study(StudyCommand::Registers(args)) => crate::study::registers::run(&args),
        Command::Study(StudyCommand::Silicon(args)) => crate::study::silicon::run(&args),
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
        Command::Sweep(SweepCommand::Submit(args)) => crate::sweep::submit(&args),
        Command::Sweep(SweepCommand::Work(args)) => crate::sweep::work(&args),
        Command::Sweep(SweepCommand::Status(args)) => crate::sweep::status(&args),
        Command::Sweep(SweepCommand::Cancel(args)) => crate::sweep::cancel(&args),
    };
    ExitCode::from(code)
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
                        Termination::Broken => "broken",
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
        let parameters: Vec<String> = policy
            .parameters
            .iter()
            .map(|p| format!("{}={} ({})", p.name, p.spell(p.default), p.doc))
            .collect();
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
