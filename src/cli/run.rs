//! `run`: its options, and what it shows and writes.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use sha2::{Digest, Sha256};
use sim_core::error::SimError;
use sim_core::instruction_set::InstructionSet;
use sim_core::monitor::Check;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::report::DeviceReport;
use sim_core::sm::timeline::{Timeline, TimelineOptions};
use sim_frontend::diagnostic::Diagnostic;

use crate::console::{complain, status};
use crate::digest::short;
use crate::files;
use crate::host::Meter;
use crate::interrupt::on_interrupt;
use crate::memory;
use crate::ptx_file::PtxLaunch;
use crate::request::{Program, Request, SchedulerChoice, Setting, is_ptx};
use crate::run::Simulation;
use crate::simulate::{Outcome, Verdict};
use crate::summary;

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

impl RunArgs {
    /// What is asked for. A limit of the host's memory is the whole process's, and holds from here on.
    ///
    /// # Errors
    /// Options that are no values, or not for this program.
    pub fn request(&self) -> Result<Request, Vec<Diagnostic>> {
        let one = |e: Diagnostic| vec![e];
        if let Some(limit) = self.max_memory {
            memory::limit(limit);
        }
        let keep = |request: &String| request.split('=').next().unwrap_or(request).to_string();
        Ok(Request {
            variant: self.variant.clone(),
            chip: self.chip.clone(),
            policy: self.policy.as_deref().map(PolicyChoice::parse).transpose().map_err(one)?,
            scheduler: self.scheduler.as_deref().map(SchedulerChoice::parse).transpose().map_err(one)?,
            set: self.set.iter().map(|text| Setting::parse(text)).collect::<Result<_, _>>().map_err(one)?,
            seed: self.seed,
            functional: self.functional,
            skip_launches: self.skip_launches,
            check: Check::named(&self.check).unwrap_or_default(),
            max_cycles: self.max_cycles,
            max_instructions: self.max_instructions,
            allow_newer_isa: self.allow_newer_isa,
            profile: self.profile,
            sample: self.sample,
            keep: self.dump.iter().map(keep).collect(),
            threads: self.threads,
            epoch: self.epoch,
            instruction_set: self.instruction_set.as_deref().map(instruction_set).transpose().map_err(one)?,
            ..Request::new(self.program()?)
        })
    }

    fn program(&self) -> Result<Program, Vec<Diagnostic>> {
        if is_ptx(&self.workload) {
            let launch = PtxLaunch {
                file: PathBuf::from(&self.workload),
                entry: self.entry.clone(),
                grid: self.grid.clone(),
                block: self.block.clone(),
                args: self.args.clone(),
                dynamic_shared: self.dynamic_shared,
            };
            return launch.program();
        }
        let of_ptx = [
            ("--entry", self.entry.is_some()),
            ("--grid", self.grid.is_some()),
            ("--block", self.block.is_some()),
            ("--arg", !self.args.is_empty()),
            ("--dynamic-shared", self.dynamic_shared != 0),
        ];
        match of_ptx.iter().find(|(_, given)| *given) {
            None => Ok(Program::Workload(self.workload.clone())),
            Some((option, _)) => {
                let message = format!(
                    "{option} is for .ptx files; `{}` is a workload, which says it itself",
                    self.workload
                );
                let help = "--set KEY=VALUE changes the parameters of a workload";
                Err(vec![Diagnostic::error("usage", message).help(help)])
            }
        }
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
                Diagnostic::error("usage", "--functional has no cycles, so there is nothing to trace");
            return Err(vec![error.help("without --functional the events of the run are traced")]);
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
