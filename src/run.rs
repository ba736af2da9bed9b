//! `warpsim run`.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use sha2::{Digest, Sha256};
use sim_core::device::Options;
use sim_core::error::{Fault, SimError};
use sim_core::lanes::InstructionSet;
use sim_core::monitor::Check;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::report::DeviceReport;
use sim_core::sm::scheduler::WarpScheduler;
use sim_core::sm::timeline::{Timeline, TimelineOptions};
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::ptx::parser::scalar_type;
use sim_frontend::workload::{
    Argument, BufferSpec, Expr, Init, LaunchSpec, Schedule, Step, Termination, Variant, WorkloadSpec,
};

use crate::cli::{Found, RunArgs, complain, find_workload, run_args, status};
use crate::configs;
use crate::host::Meter;
use crate::listing::Listing;
use crate::machine::Machine;
use crate::simulate::{Job, Outcome, Verdict, simulate};
use crate::summary;

static STOP: AtomicBool = AtomicBool::new(false);

/// `report.json`: simulated facts only.
#[derive(Serialize)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// Workload.
    pub workload: String,
    /// Program.
    pub variant: String,
    /// Chip.
    pub chip: String,
    /// Policy with every parameter.
    pub policy: String,
    /// Warp scheduler.
    pub scheduler: String,
    /// What was checked.
    pub check: String,
    /// Parameters.
    pub params: BTreeMap<String, f64>,
    /// What the seeds of the workload were changed by.
    #[serde(skip_serializing_if = "sim_core::report::is_zero")]
    pub seed: u64,
    /// Values of the chip that differ from its file, by path.
    pub set: BTreeMap<String, String>,
    /// An instruction above the chip's compute capability ran.
    pub allow_newer_isa: bool,
    /// pass, fail, unchecked, or stopped.
    pub result: &'static str,
    /// The first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    /// What stopped the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// What the chip can do at most.
    pub machine: Machine,
    /// The device.
    #[serde(flatten)]
    pub device: DeviceReport,
    /// The program's text, where lines are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listing: Option<Listing>,
}

/// What stopped a run.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// A fault, check violation or deadlock.
    Fault(Box<Fault>),
    /// The limit of cycles.
    MaxCycles {
        /// The limit.
        limit: u64,
        /// Someone who still ran.
        place: Option<Box<sim_core::error::Place>>,
        /// Why it may never end.
        #[serde(skip_serializing_if = "Option::is_none")]
        suspicion: Option<String>,
    },
    /// Ctrl-C.
    Interrupted,
}

/// Runs; gives the exit status.
pub fn run(args: &RunArgs) -> u8 {
    match prepare(args) {
        Ok(prepared) => execute(args, prepared, |_| status::DONE),
        Err(errors) => {
            complain(&errors);
            status::BAD_INPUT
        }
    }
}

/// Runs, and hands what `options` asks to be recorded to `write`; gives the exit status.
pub fn trace(
    args: &RunArgs,
    options: impl FnOnce(u32) -> Result<TimelineOptions, String>,
    write: impl FnOnce(&[Timeline], &DeviceReport) -> u8,
) -> u8 {
    let prepared = prepare(args).and_then(|mut prepared| {
        let asked = options(prepared.chip.limits.num_processors);
        prepared.options.timeline = Some(asked.map_err(|e| vec![Diagnostic::error("usage", e)])?);
        Ok(prepared)
    });
    match prepared {
        Ok(prepared) => execute(args, prepared, |outcome| write(&outcome.timelines, &outcome.report)),
        Err(errors) => {
            complain(&errors);
            status::BAD_INPUT
        }
    }
}

/// Runs to the end and gives what it came to, with the chip it ran on.
///
/// # Errors
/// Bad input, a run that stopped early, a result that differs.
pub fn measure(args: &RunArgs) -> Result<(Outcome, Arc<ChipSpec>), Vec<Diagnostic>> {
    let (outcome, chip) = outcome(args)?;
    if let Some(stopped) = &outcome.stopped {
        return Err(vec![Diagnostic::error("run", stopped.to_string())]);
    }
    match &outcome.verdict {
        Some(Verdict::Fail(difference)) => Err(vec![Diagnostic::error("run", difference.clone())]),
        _ => Ok((outcome, chip)),
    }
}

/// Runs and gives what it came to, stopped early or not, with the chip it ran on.
///
/// # Errors
/// Bad input.
pub fn outcome(args: &RunArgs) -> Result<(Outcome, Arc<ChipSpec>), Vec<Diagnostic>> {
    let prepared = prepare(args)?;
    let outcome = prepared.simulate()?;
    Ok((outcome, prepared.chip))
}

/// Ctrl-C was pressed.
pub fn interrupted() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Ctrl-C stops what is simulated; a second one ends the process at once.
pub fn on_interrupt() {
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(status::INTERRUPTED));
        }
    });
}

/// The first 64 bits of the SHA-256 of texts, in hexadecimal.
pub fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        // Lengths keep the parts apart.
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    short(&hasher.finalize())
}

/// The first 64 bits of a digest, in hexadecimal.
fn short(digest: &[u8]) -> String {
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What tells this simulator from others: its version, and where that names no commit exactly, the
/// program itself, so that results of a build that was changed since are not taken for its own.
pub fn simulator() -> &'static str {
    static SIMULATOR: OnceLock<String> = OnceLock::new();
    SIMULATOR.get_or_init(|| {
        let exact = crate::VERSION.contains('(') && !crate::VERSION.contains("-modified");
        let program = if exact { None } else { std::env::current_exe().and_then(std::fs::read).ok() };
        match program {
            Some(bytes) => format!("{} {}", crate::VERSION, hash(&[&bytes])),
            None => crate::VERSION.to_string(),
        }
    })
}

/// What a run is told from others by.
pub struct Identity {
    /// Hash of everything that is simulated, and of the simulator.
    pub id: String,
    /// Hash of the chip with all its values and costs.
    pub config: String,
    /// The chip's values as JSON.
    pub values: String,
}

/// A run that is ready.
pub struct Simulation {
    args: RunArgs,
    prepared: Prepared,
}

impl Simulation {
    /// A run by its arguments as they would be typed.
    ///
    /// # Errors
    /// What is wrong with them, or with the files they name.
    pub fn new(words: &[String]) -> Result<Self, Vec<Diagnostic>> {
        let args = run_args(words).map_err(|text| {
            let line = text.lines().next().unwrap_or_default();
            vec![Diagnostic::error("usage", line.strip_prefix("error: ").unwrap_or(line))]
        })?;
        let prepared = prepare(&args)?;
        Ok(Self { args, prepared })
    }

    /// Its identity.
    pub fn identity(&self) -> Identity {
        let p = &self.prepared;
        let chip = format!("{:?} {:?}", p.chip, p.costs);
        let config = hash(&[chip.as_bytes()]);
        let spec = WorkloadSpec { source: None, ..p.job.spec.clone() };
        let workload =
            format!("{spec:?} {:?} {} {} {}", p.job.params, p.job.skip, p.job.functional, p.job.seed);
        let mut files: Vec<Vec<u8>> = Vec::new();
        for buffer in p.job.spec.buffers.values() {
            if let Init::File(file) = &buffer.init {
                files.push(std::fs::read(p.job.folder.join(file)).unwrap_or_default());
            }
        }
        let o = &p.options;
        let how = format!(
            "{} {} {:?} {:?} {}",
            o.policy.canonical(),
            p.scheduler,
            o.check,
            o.max_cycles,
            o.allow_newer_isa
        );
        let mut parts: Vec<&[u8]> = vec![
            simulator().as_bytes(),
            chip.as_bytes(),
            workload.as_bytes(),
            p.job.ptx.text.as_bytes(),
            how.as_bytes(),
        ];
        parts.extend(files.iter().map(Vec::as_slice));
        let values = serde_json::to_string_pretty(&*p.chip).unwrap_or_default() + "\n";
        Identity { id: hash(&parts), config, values }
    }

    /// Simulates; gives the report, host seconds, and what stopped it early.
    ///
    /// # Errors
    /// Bad input that only the run finds.
    pub fn run(self) -> Result<(Report, f64, Option<SimError>), Vec<Diagnostic>> {
        let Self { args, prepared: p } = self;
        let policy = p.options.policy.canonical();
        let outcome = p.simulate()?;
        let seconds = outcome.simulated.as_secs_f64();
        let stopped = outcome.stopped.clone();
        Ok((report(&args, &p, policy, outcome), seconds, stopped))
    }
}

struct Prepared {
    job: Job,
    variant: String,
    chip: Arc<ChipSpec>,
    costs: Arc<IsaCosts>,
    options: Options,
    scheduler: String,
    set: BTreeMap<String, String>,
}

impl Prepared {
    /// Simulates, with nobody who watches.
    fn simulate(&self) -> Result<Outcome, Vec<Diagnostic>> {
        let unseen = |_: u64, _: u64, _: u64| {};
        let (chip, costs) = (Arc::clone(&self.chip), Arc::clone(&self.costs));
        simulate(&self.job, chip, costs, self.options.clone(), &STOP, &unseen).map_err(|error| match error {
            SimError::Input(errors) => errors,
            other => vec![Diagnostic::error("run", other.to_string())],
        })
    }
}

fn prepare(args: &RunArgs) -> Result<Prepared, Vec<Diagnostic>> {
    let one = |e: Diagnostic| vec![e];
    let is_ptx = Path::new(&args.workload).extension().is_some_and(|e| e == "ptx");
    let Found { spec, folder } = if is_ptx { from_ptx(args)? } else { find_workload(&args.workload)? };
    let (params, chip_settings) = settings(args, &spec)?;
    let (chip, costs) = configs::chip(&args.chip, &chip_settings)?;
    let set = chip_settings.iter().map(|(path, value)| ((*path).to_string(), (*value).to_string())).collect();
    let policy = PolicyChoice::parse(args.policy.as_deref().unwrap_or(&chip.default_policy)).map_err(one)?;
    let scheduler = args.scheduler.clone().unwrap_or_else(|| chip.default_scheduler.clone());
    let options = Options {
        policy,
        scheduler: WarpScheduler::parse(&scheduler).map_err(one)?,
        threads: args.threads,
        check: match args.check.as_str() {
            "off" => Check::Off,
            "full" => Check::Full,
            _ => Check::Safety,
        },
        max_cycles: args.max_cycles,
        allow_newer_isa: args.allow_newer_isa,
        schedule_dependent: spec.schedule == Schedule::Dependent,
        instruction_set: args.instruction_set.as_deref().map(instruction_set).transpose().map_err(one)?,
        epoch: args.epoch,
        profile: args.profile,
        timeline: None,
        sample: args.sample,
        delay: None,
    };
    let variant = spec
        .variant(args.variant.as_deref(), if is_ptx { u32::MAX } else { chip.capability() })
        .map_err(one)?;
    let ptx = configs::read(&folder.join(&variant.file)).map_err(one)?;
    let variant = variant.name.clone();
    let dump =
        args.dump.iter().map(|request| request.split('=').next().unwrap_or(request).to_string()).collect();
    let seed = args.seed;
    let job =
        Job { spec, folder, ptx, params, seed, skip: args.skip_launches, functional: args.functional, dump };
    Ok(Prepared { job, variant, chip: Arc::new(chip), costs: Arc::new(costs), options, scheduler, set })
}

/// What `--set` changes: parameters of the workload by name, the chip by path.
#[allow(clippy::type_complexity, reason = "two lists")]
fn settings<'a>(
    args: &'a RunArgs,
    spec: &WorkloadSpec,
) -> Result<(BTreeMap<String, f64>, Vec<(&'a str, &'a str)>), Vec<Diagnostic>> {
    let wrong = |message: String| vec![Diagnostic::error("set", message)];
    let mut params = spec.params.clone();
    let mut chip = Vec::new();
    for setting in &args.set {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| wrong(format!("--set takes KEY=VALUE, not `{setting}`")))?;
        if let Some(param) = params.get_mut(key) {
            *param = value
                .parse::<f64>()
                .ok()
                .filter(|v| v.is_finite())
                .ok_or_else(|| wrong(format!("`{value}` is no number (--set {setting})")))?;
        } else if key.contains('.') {
            chip.push((key, value));
        } else {
            let known: Vec<&str> = params.keys().map(String::as_str).collect();
            let message = format!(
                "`{}` has no parameter `{key}`; it has: {}; keys of the chip have a path, as sm.branch_latency",
                spec.name,
                known.join(", ")
            );
            return Err(vec![Diagnostic::error("set", message).did_you_mean(key, known)]);
        }
    }
    Ok((params, chip))
}

/// A workload made of a PTX file and arguments of the command line.
fn from_ptx(args: &RunArgs) -> Result<Found, Vec<Diagnostic>> {
    let usage = |message: String| vec![Diagnostic::error("usage", message)];
    let Some(entry) = args.entry.clone() else {
        return Err(usage("a .ptx file needs --entry, --grid and --block".into()));
    };
    let size = |text: &Option<String>, what: &str| -> Result<Vec<Expr>, Vec<Diagnostic>> {
        let text = text.as_deref().ok_or_else(|| usage(format!("a .ptx file needs {what}")))?;
        let parts: Result<Vec<u32>, _> = text.split(',').map(|p| p.trim().parse::<u32>()).collect();
        match parts {
            Ok(parts) if parts.len() <= 3 => Ok(parts.into_iter().map(|n| Expr::Number(n.into())).collect()),
            _ => Err(usage(format!("{what} takes one to three numbers, not `{text}`"))),
        }
    };
    let mut buffers = BTreeMap::new();
    let mut list = Vec::new();
    for (i, arg) in args.args.iter().enumerate() {
        let parts: Vec<&str> = arg.split(':').collect();
        match parts.as_slice() {
            ["buffer", ty, length, rest @ ..] if rest.len() <= 1 => {
                let ty =
                    scalar_type(ty).ok_or_else(|| usage(format!("--arg {arg}: there is no type `{ty}`")))?;
                let init = match rest.first() {
                    None | Some(&"zeros") => Init::Zeros,
                    Some(&"iota") => Init::Iota,
                    Some(other) => return Err(usage(format!("--arg {arg}: `{other}` is not zeros or iota"))),
                };
                let name = format!("arg{i}");
                let length = Expr::Text((*length).to_string());
                buffers.insert(name.clone(), BufferSpec { ty, length, init });
                list.push(Argument::Buffer(name));
            }
            [ty, value] if scalar_type(ty).is_some() => {
                let value = Expr::Text((*value).to_string());
                list.push(Argument::Scalar(BTreeMap::from([((*ty).to_string(), value)])));
            }
            _ => {
                return Err(usage(format!(
                    "--arg takes TYPE:VALUE or buffer:TYPE:LENGTH[:zeros|iota], not `{arg}`"
                )));
            }
        }
    }
    let path = PathBuf::from(&args.workload);
    let file = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let spec = WorkloadSpec {
        schema: 1,
        name: file.clone(),
        description: String::new(),
        schedule: Schedule::Dependent,
        reason: Some("nothing is known of it".into()),
        termination: Termination::default(),
        params: BTreeMap::new(),
        variants: vec![Variant {
            name: "file".into(),
            file,
            compiler: String::new(),
            target: "sm_10".into(),
        }],
        buffers,
        launches: vec![Step::Launch(LaunchSpec {
            entry,
            grid: size(&args.grid, "--grid")?,
            block: size(&args.block, "--block")?,
            dynamic_shared: Some(Expr::Number(args.dynamic_shared.into())),
            stream: 0,
            args: list,
            place: None,
        })],
        expect: Vec::new(),
        source: None,
    };
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    Ok(Found { spec, folder })
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

/// Runs, shows and writes what came of it, and gives the outcome to `also`, whose exit status counts where
/// it is not [`status::DONE`].
fn execute(args: &RunArgs, p: Prepared, also: impl FnOnce(&Outcome) -> u8) -> u8 {
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
    let policy = p.options.policy.canonical();
    let outcome =
        simulate(&p.job, Arc::clone(&p.chip), Arc::clone(&p.costs), p.options.clone(), &STOP, &progress);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(SimError::Input(errors)) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
        Err(other) => {
            eprintln!("error: {other}");
            return status::FAULT;
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
    let report = report(args, &p, policy, outcome);
    let text = match serde_json::to_string_pretty(&report) {
        Ok(text) => text + "\n",
        Err(error) => {
            eprintln!("error: the report cannot be written: {error}");
            return status::BAD_INPUT;
        }
    };
    host.report_digest = short(&Sha256::digest(&text));
    if let Some(folder) = &args.out {
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(folder.join("report.json"), &text))
            .and_then(|()| {
                let host = serde_json::to_string_pretty(&host).unwrap_or_default() + "\n";
                std::fs::write(folder.join("host.json"), host)
            });
        if let Err(error) = written {
            eprintln!("error: {} cannot be written: {error}", folder.display());
            return status::BAD_INPUT;
        }
    }
    if args.json {
        print!("{text}");
    } else {
        print!("{}", summary::render(&report, &host, &p.chip));
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
        std::fs::write(file, &buffer.bytes).map_err(|error| format!("{file} cannot be written: {error}"))?;
    }
    Ok(())
}

fn report(args: &RunArgs, p: &Prepared, policy: String, outcome: Outcome) -> Report {
    let (result, difference) = match outcome.verdict {
        Some(Verdict::Pass) => ("pass", None),
        Some(Verdict::Fail(difference)) => ("fail", Some(difference)),
        Some(Verdict::Unchecked) => ("unchecked", None),
        None => ("stopped", None),
    };
    let stopped = outcome.stopped.map(|error| match error {
        SimError::Stopped(fault) => Stopped::Fault(fault),
        SimError::MaxCycles { limit, place, suspicion } => Stopped::MaxCycles { limit, place, suspicion },
        _ => Stopped::Interrupted,
    });
    Report {
        schema: 1,
        workload: p.job.spec.name.clone(),
        variant: p.variant.clone(),
        chip: p.chip.name.clone(),
        policy,
        scheduler: p.scheduler.clone(),
        check: args.check.clone(),
        params: p.job.params.clone(),
        seed: p.job.seed,
        set: p.set.clone(),
        allow_newer_isa: outcome.newer_isa,
        result,
        difference,
        stopped,
        machine: Machine::of(&p.chip),
        listing: (!outcome.report.lines.is_empty()).then(|| Listing::of(&p.job.ptx, &p.job.folder)),
        device: outcome.report,
    }
}
