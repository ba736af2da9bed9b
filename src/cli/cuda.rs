//! `cuda`: runs a program with the simulated device in the place of CUDA's runtime, and shows what its kernels came to.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser};
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::sampling::Sampling;
use sim_frontend::diagnostic::Diagnostic;

use crate::console::{complain, status};
use crate::cuda::checkpoint::Checkpoint;
use crate::cuda::command::CudaCommand;
use crate::cuda::{CudaRun, Outputs, code, summary};
use crate::files;
use crate::interrupt::on_interrupt;
use crate::known::Known;
use crate::request::{Program, Request, SchedulerChoice, Setting, sampling};
use crate::sanitize::Checks;

/// Options of `cuda`.
#[derive(Args, Clone, Debug)]
pub struct CudaArgs {
    /// Chip: a name or a file.
    #[arg(long, default_value = crate::device::CHIP)]
    chip: String,
    /// Reconvergence policy: NAME[:KEY=VALUE,…]; `warpsim policies` lists them. Default: the chip's.
    #[arg(long)]
    policy: Option<String>,
    /// Warp scheduler: lrr, gto or two_level[:N]. Default: the chip's.
    #[arg(long)]
    scheduler: Option<String>,
    /// Overrides a key of the chip by its path (sm.branch_latency=2).
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Number of host threads that simulate. Results do not depend on it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Run-time checks, as for `run`. Findings of sanitizers stand below the table; with them the exit status of a program
    /// that succeeds is 3.
    #[arg(long, value_name = "KINDS", default_value = "safety", value_parser = Checks::parse)]
    check: Checks,
    /// Functional mode: no timing.
    #[arg(long)]
    functional: bool,
    /// Samples kernels: times a part of their blocks, as for `run`, and a part of the launches of each.
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "2%", value_parser = sampling, conflicts_with_all = ["record", "checkpoint", "from"])]
    sample: Option<Sampling>,
    /// Stops after N core cycles, summed over all timed launches and including their launch latency.
    #[arg(long, value_name = "N", conflicts_with = "functional")]
    max_cycles: Option<u64>,
    /// Stops after N warp instructions, summed over all launches.
    #[arg(long, value_name = "N")]
    max_instructions: Option<u64>,
    /// Allows PTX and instructions above the chip's compute capability.
    #[arg(long)]
    allow_newer_isa: bool,
    /// Writes report.json to a folder, with a section for each launch in the format of report.json of `run`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Collects counters for each PTX line, for --out.
    #[arg(long, requires = "out", conflicts_with = "functional")]
    profile: bool,
    /// Times only these launches: a regular expression over the kernels' PTX names, and optionally launch numbers and
    /// ranges, counted from 0 for each kernel, such as `stencil:0,5-7`. The others run in functional mode. Repeatable.
    #[arg(long, value_name = "KERNELS[:LAUNCHES]", conflicts_with = "functional")]
    time: Vec<String>,
    /// Warms L2 before a timed launch with the lines that the last N functional launches accessed.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "time")]
    warm: usize,
    /// Writes the launches that --time chooses, or all, as workloads for `warpsim run`.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Writes what each completed run of the device left to a folder, from which --from goes on. A program that is killed
    /// leaves the runs before.
    #[arg(long, value_name = "DIR", conflicts_with = "record")]
    checkpoint: Option<PathBuf>,
    /// Goes on from a checkpoint: the program runs from its start, and launches that the checkpoint has are not simulated
    /// again. With --checkpoint and the same folder, further runs are added to it.
    #[arg(long, value_name = "DIR", conflicts_with = "record")]
    from: Option<PathBuf>,
    /// The program and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

impl CudaArgs {
    /// What is asked for.
    ///
    /// # Errors
    /// Options that are no values.
    pub fn request(&self) -> Result<Request, Vec<Diagnostic>> {
        let one = |e: Diagnostic| vec![e];
        let set: Result<_, _> = self.set.iter().map(|text| Setting::parse(text)).collect();
        let command = CudaCommand {
            words: self.command.clone(),
            time: self.time.clone(),
            warm: self.warm,
            ..CudaCommand::default()
        };
        Ok(Request {
            chip: Some(self.chip.clone()),
            policy: self.policy.as_deref().map(PolicyChoice::parse).transpose().map_err(one)?,
            scheduler: self.scheduler.as_deref().map(SchedulerChoice::parse).transpose().map_err(one)?,
            set: set.map_err(one)?,
            functional: self.functional,
            sampling: self.sample,
            check: self.check.check,
            memory_model: self.check.memory_model,
            sanitize: self.check.sanitize,
            max_cycles: self.max_cycles,
            max_instructions: self.max_instructions,
            allow_newer_isa: self.allow_newer_isa,
            profile: self.profile,
            threads: self.threads.into(),
            ..Request::new(Program::Cuda(Box::new(command)))
        })
    }
}

/// A line of options of `cuda`.
#[derive(Parser)]
#[command(name = "cuda", disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    args: CudaArgs,
}

/// The run that a line asks for, as it would be typed after `warpsim cuda`.
///
/// # Errors
/// What is wrong with it.
pub fn request_of(words: &[String]) -> Result<Request, Vec<Diagnostic>> {
    let line = std::iter::once("cuda").chain(words.iter().map(String::as_str));
    let usage = |line: &str| vec![Diagnostic::error("usage", line.strip_prefix("error: ").unwrap_or(line))];
    match Line::try_parse_from(line) {
        Ok(Line { args }) => args.request(),
        Err(error) => Err(usage(error.to_string().lines().next().unwrap_or_default())),
    }
}

/// Runs; gives the exit status of the program, or that of findings where it has none of its own.
pub fn run(args: &CudaArgs) -> u8 {
    match execute(args) {
        Ok(code) => code,
        Err(errors) => {
            complain(&errors);
            status::BAD_INPUT
        }
    }
}

fn execute(args: &CudaArgs) -> Result<u8, Vec<Diagnostic>> {
    let wrong = |message: String| vec![Diagnostic::error("output", message)];
    let request = args.request()?;
    let Program::Cuda(command) = &request.program else { return Ok(status::BAD_INPUT) };
    let run = CudaRun::new(&request, command, &Known::default())?;
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|error| wrong(files::unwritable(folder, &error)))?;
        files::probe(&folder.join("report.json")).map_err(wrong)?;
    }
    let record = args.record.as_ref().map(|folder| {
        let made = std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
        made.map_err(|error| wrong(files::unwritable(folder, &error)))
    });
    let checkpoint =
        Checkpoint::of(&run, args.out.is_some(), args.checkpoint.as_deref(), args.from.as_deref());
    let outputs = Outputs {
        sections: args.out.is_some(),
        record: record.transpose()?,
        checkpoint: checkpoint.map_err(|error| vec![error])?,
        passed: true,
    };
    on_interrupt();
    let ended = run.run(&outputs)?;
    let name = run.name();
    eprint!("{}", summary::render(&name, run.configured(), &ended.launches));
    let (result, message) = run.verdict(&ended);
    let code = code(ended.status);
    let found = summary::sanitized(&ended.launches).is_some_and(|found| found.is_wrong());
    if let Some(folder) = &args.out {
        let words = run.words();
        let program = summary::Program { name: &name, words: &words, code, result, message: &message };
        let mut report = summary::report(&program, run.configured(), &ended.launches);
        report["launches"] = summary::sections(run.configured(), ended.launches);
        let path = folder.join("report.json");
        let text = serde_json::to_string_pretty(&report).unwrap_or_default() + "\n";
        files::write(&path, text.as_bytes()).map_err(|error| wrong(files::unwritable(&path, &error)))?;
    }
    if code == 0 && found { Ok(status::FAULT) } else { Ok(code) }
}
