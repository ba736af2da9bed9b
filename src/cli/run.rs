//! `run`: its options, and what it shows and writes.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use sha2::{Digest, Sha256};
use sim_core::error::SimError;
use sim_core::instruction_set::InstructionSet;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::report::DeviceReport;
use sim_core::sampling::Sampling;
use sim_core::sanitizer::SanitizerReport;
use sim_core::sm::timeline::{Timeline, TimelineOptions};
use sim_frontend::diagnostic::Diagnostic;

use super::program::ProgramArgs;
use crate::console::{complain, status};
use crate::digest::short;
use crate::files;
use crate::host::Meter;
use crate::interrupt::on_interrupt;
use crate::request::{Request, SchedulerChoice, sampling};
use crate::run::Simulation;
use crate::sanitize::{Checks, Suppression};
use crate::simulate::checkpoint::CheckpointRequest;
use crate::simulate::{Outcome, Verdict};
use crate::summary;

/// Options of `run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// What runs.
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Chip: a name or a file. Default: the smallest shipped chip that can run the newest program of the workload
    /// (or the --variant, or the target of the .ptx file); gtx480 if the program names no target.
    #[arg(long)]
    pub chip: Option<String>,
    /// Reconvergence policy: NAME[:KEY=VALUE,…]; `warpsim policies` lists them. Default: the chip's.
    #[arg(long)]
    pub policy: Option<String>,
    /// Warp scheduler: lrr, gto or two_level[:N]. Default: the chip's.
    #[arg(long)]
    pub scheduler: Option<String>,
    /// Host instruction set for lane arithmetic and the issue loop: baseline, avx2+fma or avx512. Default:
    /// avx2+fma if the host has it. Results do not depend on it.
    #[arg(long, value_name = "SET")]
    pub instruction_set: Option<String>,
    /// Epoch length in core cycles: SMs and memory partitions synchronize once per epoch. Default and maximum:
    /// the smallest of the chip's interconnect and block-dispatch latencies. Results do not depend on it.
    #[arg(long, value_name = "CYCLES")]
    pub epoch: Option<u64>,
    /// Number of host threads that simulate. Results do not depend on it.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Run-time checks of the formal semantics: `safety` compares the control flow of every thread with the policy's
    /// and checks that every thread is in exactly one path; `full` also checks the program counters of waiting
    /// threads, the invariants of the policy, and that every message sent is received; `memory-model` does the checks of
    /// `safety` and also checks every load, store and atomic of global memory against the axioms of the PTX memory consistency model. The sanitizers look for errors of the
    /// program: `races` for data races in shared and global memory, `sync` for misuse of barriers, mbarrier objects and
    /// asynchronous copies, `init` for reads of uninitialized memory and registers and for memory leaks, `all` for all
    /// three. Several kinds are separated by commas. Exit status 3 with findings.
    #[arg(long, value_name = "KINDS", default_value = "safety", value_parser = Checks::parse)]
    pub check: Checks,
    /// Suppresses sanitizer findings in which an access is at this line of a PTX or CUDA file. Instead of FILE:LINE, the
    /// name of a file with one FILE:LINE per line is accepted; `#` starts a comment. Repeatable.
    #[arg(long, value_name = "FILE:LINE")]
    pub suppress: Vec<String>,
    /// Collects counters for each PTX line: issues, active lanes, stall cycles by reason.
    #[arg(long)]
    pub profile: bool,
    /// Samples issue slots, resident warps and memory traffic every N core cycles.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub sample_every: Option<u64>,
    /// Functional mode: no timing.
    #[arg(long)]
    pub functional: bool,
    /// Times a part of the blocks of each kernel and executes the others without timing, where the blocks run at a steady
    /// rate; all results are computed. `cycles` of such a kernel is an estimate, with a 95 % confidence interval in the
    /// report. More blocks are timed until the half-width of the interval of what is left out is within PERCENT of it.
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "2%", value_parser = sampling)]
    pub sample: Option<Sampling>,
    /// Runs the first N launches in functional mode.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_launches: u64,
    /// Times N launches, after those of --skip-launches, and runs the rest in functional mode.
    #[arg(long, value_name = "N")]
    pub time_launches: Option<u64>,
    /// Stops after N core cycles, summed over all timed launches and including their launch latency (5,000 cycles
    /// on the shipped chips).
    #[arg(long, value_name = "N")]
    pub max_cycles: Option<u64>,
    /// Saves the state of the timed run to a folder every --every core cycles, each in the place of the one before. A run
    /// that is killed loses what it did since the last one.
    #[arg(long, value_name = "DIR", requires = "every")]
    pub checkpoint: Option<PathBuf>,
    /// Core cycles from one saved state to the next.
    #[arg(long, value_name = "CYCLES", requires = "checkpoint", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// Goes on from the state that --checkpoint has, with the same report in the end; from the beginning where it has none
    /// yet.
    #[arg(long, requires = "checkpoint")]
    pub resume: bool,
    /// Prints report.json instead of the summary.
    #[arg(long)]
    pub json: bool,
    /// Writes report.json and host.json to a folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Writes the final contents of a buffer to a file, as raw bytes.
    #[arg(long, value_name = "BUFFER=FILE")]
    pub dump: Vec<String>,
    /// Writes the run to a folder: the PTX, the launches, and the buffers before and after. workloads/on-gpu.py executes it
    /// on a GPU and compares.
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
}

impl RunArgs {
    /// What is asked for.
    ///
    /// # Errors
    /// Options that are no values, or not for this program.
    pub fn request(&self) -> Result<Request, Vec<Diagnostic>> {
        let one = |e: Diagnostic| vec![e];
        let keep = |request: &String| request.split('=').next().unwrap_or(request).to_string();
        Ok(Request {
            chip: self.chip.clone(),
            policy: self.policy.as_deref().map(PolicyChoice::parse).transpose().map_err(one)?,
            scheduler: self.scheduler.as_deref().map(SchedulerChoice::parse).transpose().map_err(one)?,
            functional: self.functional,
            skip_launches: self.skip_launches,
            time_launches: self.time_launches,
            check: self.check.check,
            memory_model: self.check.memory_model,
            sanitize: self.check.sanitize,
            suppress: self.suppressions()?,
            max_cycles: self.max_cycles,
            profile: self.profile,
            sample_every: self.sample_every,
            sampling: self.sample,
            keep: self.dump.iter().map(keep).collect(),
            export: self.export.clone(),
            checkpoint: self.checkpoint.as_ref().zip(self.every).map(|(folder, every)| CheckpointRequest {
                folder: folder.clone(),
                every,
                resume: self.resume,
            }),
            threads: self.threads,
            epoch: self.epoch,
            instruction_set: self.instruction_set.as_deref().map(instruction_set).transpose().map_err(one)?,
            ..self.program.request()?
        })
    }

    fn suppressions(&self) -> Result<Vec<Suppression>, Vec<Diagnostic>> {
        if !self.suppress.is_empty() && !self.check.sanitize.any() {
            let error = Diagnostic::error("usage", "--suppress applies only to sanitizers");
            return Err(vec![error.help("enable a sanitizer with --check races, sync, init or all")]);
        }
        let mut all = Vec::new();
        for text in &self.suppress {
            all.extend(Suppression::parse(text).map_err(|error| vec![error])?);
        }
        Ok(all)
    }
}

/// A line of options of `run`.
#[derive(Parser)]
#[command(name = "run", disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    args: RunArgs,
}

/// The run that a line asks for, as it would be typed after `warpsim run`.
///
/// # Errors
/// What is wrong with it.
pub fn request_of(words: &[String]) -> Result<Request, Vec<Diagnostic>> {
    let line = std::iter::once("run").chain(words.iter().map(String::as_str));
    let usage = |line: &str| vec![Diagnostic::error("usage", line.strip_prefix("error: ").unwrap_or(line))];
    match Line::try_parse_from(line) {
        Ok(Line { args }) => args.request(),
        Err(error) => Err(usage(error.to_string().lines().next().unwrap_or_default())),
    }
}

/// Runs; gives the exit status.
pub fn run(args: &RunArgs) -> u8 {
    let simulation = args.request().and_then(Simulation::new);
    match simulation.and_then(|simulation| outputs(args).map(|()| simulation)) {
        Ok(simulation) => execute(args, &simulation, |_| status::DONE),
        Err(errors) => {
            complain(&errors);
            status::BAD_INPUT
        }
    }
}

/// Runs, and hands what `options` asks to be recorded to `write`; gives the exit status.
pub fn trace(
    args: &RunArgs,
    output: &Path,
    options: impl FnOnce(u32) -> Result<TimelineOptions, String>,
    write: impl FnOnce(&[Timeline], &DeviceReport) -> u8,
) -> u8 {
    let simulation = args.request().and_then(Simulation::new).and_then(|mut simulation| {
        if args.functional {
            let error =
                Diagnostic::error("usage", "functional mode has no cycles, so there is nothing to trace");
            return Err(vec![error.help("remove --functional")]);
        }
        if args.sample.is_some() {
            let error = Diagnostic::error(
                "usage",
                "--sample times a part of the blocks, so there is no whole timeline",
            );
            return Err(vec![error.help("remove --sample")]);
        }
        if args.checkpoint.is_some() {
            let error = Diagnostic::error("usage", "a checkpoint does not hold a timeline");
            return Err(vec![error.help("remove --checkpoint")]);
        }
        let asked = options(simulation.chip.limits.num_processors);
        simulation.record(asked.map_err(|e| vec![Diagnostic::error("usage", e)])?);
        files::probe(output).map_err(|e| vec![Diagnostic::error("output", e)])?;
        outputs(args)?;
        Ok(simulation)
    });
    match simulation {
        Ok(simulation) => execute(args, &simulation, |outcome| write(&outcome.timelines, &outcome.report)),
        Err(errors) => {
            complain(&errors);
            status::BAD_INPUT
        }
    }
}

/// An instruction set of this host by name.
fn instruction_set(name: &str) -> Result<InstructionSet, Diagnostic> {
    let available = InstructionSet::available();
    available.iter().copied().find(|set| set.name() == name).ok_or_else(|| {
        let names: Vec<&str> = available.iter().map(|set| set.name()).collect();
        let message = format!("this host has no instruction set `{name}`; it has: {}", names.join(", "));
        Diagnostic::error("instruction-set", message)
    })
}

/// Whether what the run is to write can be written, before it takes its time.
fn outputs(args: &RunArgs) -> Result<(), Vec<Diagnostic>> {
    let cannot = |message: String| vec![Diagnostic::error("output", message)];
    if let Some(folder) = &args.out {
        if folder.exists() && !folder.is_dir() {
            return Err(cannot(files::unwritable(folder, &"it is not a folder")));
        }
        std::fs::create_dir_all(folder).map_err(|error| cannot(files::unwritable(folder, &error)))?;
        for name in ["report.json", "host.json"] {
            files::probe(&folder.join(name)).map_err(cannot)?;
        }
    }
    for request in &args.dump {
        let (_, file) = request
            .split_once('=')
            .ok_or_else(|| cannot(format!("--dump takes BUFFER=FILE, not `{request}`")))?;
        files::probe(Path::new(file)).map_err(cannot)?;
    }
    Ok(())
}

/// Runs, shows and writes what came of it, and gives the outcome to `also`, whose exit status counts where
/// it is not [`status::DONE`].
fn execute(args: &RunArgs, simulation: &Simulation, also: impl FnOnce(&Outcome) -> u8) -> u8 {
    on_interrupt();
    let bar = std::io::stderr().is_terminal().then(|| {
        let style =
            indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} blocks, cycle {msg}, ETA {eta}");
        indicatif::ProgressBar::new(0)
            .with_style(style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()))
    });
    let progress = |cycle: u64, done: u64, all: u64| {
        if let Some(bar) = &bar {
            bar.set_length(all);
            bar.set_position(done);
            bar.set_message(cycle.to_string());
        }
    };
    if let Some((run, cycle)) = simulation.resumed() {
        eprintln!("note: goes on from cycle {cycle} of timed run {run}");
    } else if args.resume {
        eprintln!("note: there is no saved state yet; the run begins at its beginning");
    }
    let meter = Meter::start();
    let outcome = simulation.simulate(&progress);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let instructions = outcome.report.kernels.iter().map(|k| k.warp_instructions).sum();
    let mut host = meter.stop(outcome.simulated, instructions, args.threads, outcome.instruction_set);
    let code = exit_status(&outcome);
    if let Some(error) = &outcome.stopped {
        eprintln!("error: {error}");
    }
    let dumps = dump(args, &outcome);
    let also = also(&outcome);
    let report = simulation.report(outcome);
    let text = match serde_json::to_string_pretty(&report) {
        Ok(text) => text + "\n",
        Err(error) => {
            eprintln!("error: the report cannot be written: {error}");
            return status::BAD_INPUT;
        }
    };
    host.report_digest = short(&Sha256::digest(&text));
    if let Some(folder) = &args.out {
        let host = serde_json::to_string_pretty(&host).unwrap_or_default() + "\n";
        for (name, text) in [("report.json", &text), ("host.json", &host)] {
            let path = folder.join(name);
            if let Err(error) = files::write(&path, text.as_bytes()) {
                eprintln!("error: {}", files::unwritable(&path, &error));
                return status::BAD_INPUT;
            }
        }
    }
    if args.json {
        print!("{text}");
    } else {
        print!("{}", summary::render(&report, &host, &simulation.chip));
    }
    if let Err(error) = dumps {
        eprintln!("error: {error}");
        return status::BAD_INPUT;
    }
    if also == status::DONE { code } else { also }
}

fn exit_status(outcome: &Outcome) -> u8 {
    match (&outcome.stopped, &outcome.verdict) {
        (Some(SimError::Interrupted), _) => status::INTERRUPTED,
        (Some(_), _) => status::FAULT,
        _ if outcome.report.sanitizers.as_ref().is_some_and(SanitizerReport::is_wrong) => status::FAULT,
        (None, Some(Verdict::Fail(_))) => status::DIFFERS,
        _ => status::DONE,
    }
}

fn dump(args: &RunArgs, outcome: &Outcome) -> Result<(), String> {
    for request in &args.dump {
        let (name, file) =
            request.split_once('=').ok_or(format!("--dump takes BUFFER=FILE, not `{request}`"))?;
        let Some(buffer) = outcome.buffers.get(name) else { continue };
        let path = Path::new(file);
        files::write(path, &buffer.bytes).map_err(|error| files::unwritable(path, &error))?;
    }
    Ok(())
}
