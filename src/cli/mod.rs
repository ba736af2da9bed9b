//! The command line.

pub mod baseline;
mod chips;
pub mod cuda;
mod getting;
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

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use sim_core::reconvergence::registry::POLICIES;
use sim_core::sm::scheduler::SCHEDULERS;
use sim_frontend::workload::Termination;

use crate::console::{Colour, colours, complain, status, table, unprinted};
use crate::find::{Found, find_workload, workload_folders};
use crate::memory;
use crate::metrics::METRICS;

use chips::ChipsCommand;
use cuda::CudaArgs;
use getting::{CompletionsArgs, DocsArgs, ManArgs};
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
#[command(name = "warpsim", version = crate::VERSION, long_version = LONG_VERSION)]
struct Cli {
    /// Colours in messages.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    color: Colour,
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
        /// Copies the shipped files to a folder instead: workloads, litmus tests, chips, sweeps, documentation.
        #[arg(long, value_name = "DIR", conflicts_with = "json")]
        copy: Option<PathBuf>,
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
    /// Prints a script that completes commands and options in a shell.
    Completions(CompletionsArgs),
    /// Prints the manual page.
    Man(ManArgs),
    /// Prints a page of the documentation (Markdown).
    Docs(DocsArgs),
}

/// The version, and how the command was built.
const LONG_VERSION: &str = concat!(
    env!("WARPSIM_VERSION"),
    "\ntarget: ",
    env!("WARPSIM_TARGET"),
    "\noptimisation: ",
    env!("WARPSIM_OPTIMISED"),
);

/// Runs the command of this process.
pub fn main() -> ExitCode {
    ExitCode::from(run_words(std::env::args_os().collect()))
}

/// Runs a command line, the name of the command first; gives the exit status.
pub fn run_words(words: Vec<OsString>) -> u8 {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // `print!` panics where it cannot write.
        let message = info.payload().downcast_ref::<String>();
        match message.and_then(|text| text.strip_prefix("failed printing to stdout: ")) {
            Some(reason) => std::process::exit(unprinted(reason).into()),
            None => hook(info),
        }
    }));
    memory::limit_by_host();
    let colour = colour_of(&words);
    let command = Cli::command().color(match colour {
        Colour::Auto => clap::ColorChoice::Auto,
        Colour::Always => clap::ColorChoice::Always,
        Colour::Never => clap::ColorChoice::Never,
    });
    let parsed = command.try_get_matches_from(words).and_then(|found| Cli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let code = match error.print() {
                Err(reason) if !error.use_stderr() => unprinted(&reason.to_string()),
                _ if error.use_stderr() => status::BAD_INPUT,
                _ => status::DONE,
            };
            return code;
        }
    };
    colours(cli.color);
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Cuda(args) => cuda::run(&args),
        Command::Workloads { copy: Some(folder), .. } => getting::copy(&folder),
        Command::Workloads { json, copy: None } => workloads(json),
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
        Command::Completions(args) => getting::completions(&args, Cli::command()),
        Command::Man(args) => getting::man(&args, Cli::command()),
        Command::Docs(args) => getting::docs(&args),
    }
}

/// What `--color` says, for what is printed before options are read.
fn colour_of(words: &[OsString]) -> Colour {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).take_while(|w| *w != "--").collect();
    let after = words.iter().position(|word| *word == "--color").and_then(|at| words.get(at + 1).copied());
    let value = words.iter().find_map(|word| word.strip_prefix("--color=")).or(after);
    value.and_then(|value| Colour::from_str(value, false).ok()).unwrap_or_default()
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
