//! `warpsim run`.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
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
use sim_frontend::chip::{ChipSpec, Needs};
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::workload::{Init, Number, Params, Schedule, Variant, WorkloadSpec};

use crate::chip_for::{chip_for, fits_host, fits_target, fitting, naming_chips};
use crate::cli::{Found, RunArgs, complain, find_workload, run_args, status};
use crate::configs;
use crate::contents::Contents;
use crate::files;
use crate::host::Meter;
use crate::listing::Listing;
use crate::machine::Machine;
use crate::memory;
use crate::ptx_file::from_ptx;
use crate::simulate::{Job, Outcome, Verdict, simulate};
use crate::summary;

/// Runs are to stop: Ctrl-C was pressed, or memory runs out.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// Version of the format of `report.json`.
pub const SCHEMA: u32 = 2;

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
    /// Why this one, where none was named.
    #[serde(skip)]
    pub chosen: Option<String>,
    /// Policy with every parameter.
    pub policy: String,
    /// Warp scheduler.
    pub scheduler: String,
    /// What was checked.
    pub check: String,
    /// Parameters.
    pub params: Params,
    /// Arguments of the kernel as they were typed, where the workload is a `.ptx` file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
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
    /// What the device's memory holds in the end, where the run came to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
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
    /// The limit of warp instructions.
    MaxInstructions {
        /// The limit.
        limit: u64,
        /// Someone who still ran.
        place: Option<Box<sim_core::error::Place>>,
        /// Why it may never end.
        #[serde(skip_serializing_if = "Option::is_none")]
        suspicion: Option<String>,
    },
    /// The limit of the host's memory.
    MaxMemory {
        /// The limit in bytes.
        limit: u64,
    },
    /// Ctrl-C.
    Interrupted,
}

/// Runs; gives the exit status.
pub fn run(args: &RunArgs) -> u8 {
    match prepare(args).and_then(|prepared| outputs(args).map(|()| prepared)) {
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
    output: &Path,
    options: impl FnOnce(u32) -> Result<TimelineOptions, String>,
    write: impl FnOnce(&[Timeline], &DeviceReport) -> u8,
) -> u8 {
    let prepared = prepare(args).and_then(|mut prepared| {
        if args.functional {
            let error =
                Diagnostic::error("usage", "--functional has no cycles, so there is nothing to trace");
            return Err(vec![error.help("without --functional the events of the run are traced")]);
        }
        let asked = options(prepared.chip.limits.num_processors);
        prepared.options.timeline = Some(asked.map_err(|e| vec![Diagnostic::error("usage", e)])?);
        files::probe(output).map_err(|e| vec![Diagnostic::error("output", e)])?;
        outputs(args)?;
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

/// Ctrl-C was pressed, or the host's memory is used up.
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
pub fn short(digest: &[u8]) -> String {
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
                files.push(files::read(&p.job.folder.join(file), u64::MAX).unwrap_or_default());
            }
        }
        let o = &p.options;
        let how = format!(
            "{} {} {:?} {:?} {:?} {}",
            o.policy.canonical(),
            p.scheduler,
            o.check,
            o.max_cycles,
            o.max_instructions,
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
    /// Why this chip, where none is named.
    chosen: Option<String>,
}

impl Prepared {
    /// Simulates, with nobody who watches.
    fn simulate(&self) -> Result<Outcome, Vec<Diagnostic>> {
        let unseen = |_: u64, _: u64, _: u64| {};
        let (chip, costs) = (Arc::clone(&self.chip), Arc::clone(&self.costs));
        simulate(&self.job, chip, costs, self.options.clone(), &STOP, &unseen).map_err(|error| match error {
            SimError::Input(errors) => naming_chips(errors),
            other => vec![Diagnostic::error("run", other.to_string())],
        })
    }
}

fn prepare(args: &RunArgs) -> Result<Prepared, Vec<Diagnostic>> {
    let one = |e: Diagnostic| vec![e];
    options(args)?;
    if let Some(limit) = args.max_memory {
        memory::limit(limit);
    }
    let is_ptx = is_ptx(args);
    let Found { spec, folder } = if is_ptx { from_ptx(args)? } else { find_workload(&args.workload)? };
    let (params, chip_settings) = settings(args, &spec)?;
    let (name, chosen) = chip_for(args, &spec)?;
    let (chip, costs) = configs::chip(&name, &chip_settings)?;
    fits_host(&chip, memory::left())?;
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
        max_instructions: args.max_instructions,
        allow_newer_isa: args.allow_newer_isa,
        schedule_dependent: spec.schedule == Schedule::Dependent,
        instruction_set: args.instruction_set.as_deref().map(instruction_set).transpose().map_err(one)?,
        epoch: args.epoch,
        profile: args.profile,
        timeline: None,
        sample: args.sample,
        delay: None,
    };
    let most = if is_ptx { u32::MAX } else { chip.capability() };
    let name = args.variant.as_deref();
    let variant = spec.variant(name, most).or_else(|error| match args.allow_newer_isa {
        true => spec.variant(name, u32::MAX),
        false => Err(error),
    });
    let variant = variant.map_err(|error| match spec.variants.iter().map(Variant::sm).min() {
        Some(sm) if name.is_none() => vec![error.help(fitting(&Needs::capability(sm)))],
        _ => vec![error],
    })?;
    let ptx = configs::read(&folder.join(&variant.file)).map_err(one)?;
    if !args.allow_newer_isa {
        fits_target(&ptx, &chip).map_err(one)?;
    }
    let variant = variant.name.clone();
    let dump =
        args.dump.iter().map(|request| request.split('=').next().unwrap_or(request).to_string()).collect();
    let seed = args.seed;
    let job =
        Job { spec, folder, ptx, params, seed, skip: args.skip_launches, functional: args.functional, dump };
    Ok(Prepared {
        job,
        variant,
        chip: Arc::new(chip),
        costs: Arc::new(costs),
        options,
        scheduler,
        set,
        chosen,
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

/// What is run is a .ptx file, not a workload.
fn is_ptx(args: &RunArgs) -> bool {
    Path::new(&args.workload).extension().is_some_and(|extension| extension == "ptx")
}

/// Options that cannot be, or not together.
fn options(args: &RunArgs) -> Result<(), Vec<Diagnostic>> {
    let wrong = |message: &str, help: &str| Err(vec![Diagnostic::error("usage", message).help(help)]);
    if args.functional && args.max_cycles.is_some() {
        return wrong(
            "--max-cycles means nothing with --functional, which has no cycles",
            "--max-instructions N stops a run without time",
        );
    }
    let counted = [("--profile", args.profile), ("--sample", args.sample.is_some())];
    if let Some((option, _)) = counted.iter().find(|(_, given)| args.functional && *given) {
        return wrong(
            &format!("{option} means nothing with --functional, which has no cycles"),
            "without --functional there is a time to tell",
        );
    }
    if !is_ptx(args) {
        let of_ptx = [
            ("--entry", args.entry.is_some()),
            ("--grid", args.grid.is_some()),
            ("--block", args.block.is_some()),
            ("--arg", !args.args.is_empty()),
            ("--dynamic-shared", args.dynamic_shared != 0),
        ];
        if let Some((option, _)) = of_ptx.iter().find(|(_, given)| *given) {
            return wrong(
                &format!(
                    "{option} is for .ptx files; `{}` is a workload, which says it itself",
                    args.workload
                ),
                "--set KEY=VALUE changes the parameters of a workload",
            );
        }
    }
    if args.threads == 0 {
        return wrong("--threads takes a number from 1 on", "--threads 1 is the default");
    }
    if args.epoch == Some(0) {
        return wrong(
            "--epoch takes a number of cycles from 1 on",
            "without it, epochs are as long as they can be",
        );
    }
    Ok(())
}

/// What `--set` changes: parameters of the workload by name, the chip by path.
#[allow(clippy::type_complexity, reason = "two lists")]
fn settings<'a>(
    args: &'a RunArgs,
    spec: &WorkloadSpec,
) -> Result<(Params, Vec<(&'a str, &'a str)>), Vec<Diagnostic>> {
    let wrong = |message: String| vec![Diagnostic::error("set", message)];
    let mut params = spec.params.clone();
    let mut chip = Vec::new();
    for setting in &args.set {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| wrong(format!("--set takes KEY=VALUE, not `{setting}`")))?;
        if let Some(param) = params.get_mut(key) {
            *param = Number::parse(value)
                .ok()
                .filter(|value| value.is_finite())
                .ok_or_else(|| wrong(format!("`{value}` is not a number (--set {setting})")))?;
        } else if key.contains('.') {
            chip.push((key, value));
        } else {
            let known: Vec<&str> = params.keys().map(String::as_str).collect();
            let message = format!(
                "`{}` has no parameter `{key}`; it has: {}; keys of the chip have a path, as sm.branch_latency \
                 (`warpsim chips show NAME` lists them)",
                spec.name,
                known.join(", ")
            );
            return Err(vec![Diagnostic::error("set", message).did_you_mean(key, known)]);
        }
    }
    Ok((params, chip))
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
            complain(&naming_chips(errors));
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
        let path = Path::new(file);
        files::write(path, &buffer.bytes).map_err(|error| files::unwritable(path, &error))?;
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
        SimError::MaxInstructions { limit, place, suspicion } => {
            Stopped::MaxInstructions { limit, place, suspicion }
        }
        SimError::MaxMemory { limit } => Stopped::MaxMemory { limit },
        _ => Stopped::Interrupted,
    });
    Report {
        schema: SCHEMA,
        workload: p.job.spec.name.clone(),
        variant: p.variant.clone(),
        chip: p.chip.name.clone(),
        chosen: p.chosen.clone(),
        policy,
        scheduler: p.scheduler.clone(),
        check: args.check.clone(),
        params: p.job.params.clone(),
        args: args.args.clone(),
        seed: p.job.seed,
        set: p.set.clone(),
        allow_newer_isa: outcome.newer_isa,
        result,
        difference,
        stopped,
        contents: outcome.contents,
        machine: Machine::of(&p.chip),
        listing: (!outcome.report.lines.is_empty()).then(|| Listing::of(&p.job.ptx, &p.job.folder)),
        device: outcome.report,
    }
}
