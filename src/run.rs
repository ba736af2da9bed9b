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
use sim_frontend::chip::{ChipSpec, Needs};
use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::load::{Module, target_of};
use sim_frontend::ptx::parser::scalar_type;
use sim_frontend::workload::{
    ArgumentKind, BufferSpec, Expr, HostBuffer, Init, LaunchSpec, Number, Params, Place, Schedule, Step,
    Termination, Variant, WorkloadSpec,
};
use sim_memory::vocabulary::ScalarType;

use crate::cli::{Found, RunArgs, complain, find_workload, run_args, status};
use crate::configs;
use crate::contents::Contents;
use crate::files;
use crate::host::Meter;
use crate::listing::Listing;
use crate::machine::Machine;
use crate::memory;
use crate::simulate::{Job, Outcome, Verdict, declared, example, simulate};
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
    let is_ptx = Path::new(&args.workload).extension().is_some_and(|e| e == "ptx");
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

/// Words that name the shipped chips that fit.
fn fitting(needs: &Needs) -> String {
    let sm = needs.capability;
    match configs::chips_that_fit(needs).as_slice() {
        [] if configs::chips_that_fit(&Needs::capability(sm)).is_empty() => {
            format!("no shipped chip has compute capability {}.{}", sm / 10, sm % 10)
        }
        [] => "no shipped chip allows it".to_string(),
        chips => format!("shipped chips that can run it: --chip {}", chips.join(", ")),
    }
}

/// Where the chip lacks something, the way out names the chips that have it.
fn naming_chips(errors: Vec<Diagnostic>) -> Vec<Diagnostic> {
    // Many instructions of a kernel may need the same.
    let mut known: Option<(Needs, String)> = None;
    let mut words = |needs: &Needs| match &known {
        Some((same, words)) if same == needs => words.clone(),
        _ => known.insert((needs.clone(), fitting(needs))).1.clone(),
    };
    let named = |error: Diagnostic| {
        let Some(chips) = error.needs.as_deref().map(&mut words) else { return error };
        let help = error.help.as_ref().map_or(chips.clone(), |help| format!("{help}; {chips}"));
        error.help(help)
    };
    errors.into_iter().map(named).collect()
}

/// The chip where nothing says which.
const USUAL: &str = "gtx480";

/// The chip that is named, or the one that follows from the program, and then why: the smallest shipped one
/// of the class of the newest program that a shipped chip runs.
fn chip_for(args: &RunArgs, spec: &WorkloadSpec) -> Result<(String, Option<String>), Vec<Diagnostic>> {
    if let Some(chip) = &args.chip {
        return Ok((chip.clone(), None));
    }
    let mut programs: Vec<u32> = match args.variant.as_deref() {
        // An unknown name is said with the others, when the variant is looked for.
        Some(name) => spec.variants.iter().filter(|variant| variant.name == name).map(Variant::sm).collect(),
        None => spec.variants.iter().map(Variant::sm).collect(),
    };
    programs.sort_unstable();
    chip_of(&programs, args.allow_newer_isa)
}

/// The chip that follows from the target of a PTX file; the usual one where no shipped chip runs it.
pub fn chip_of_program(source: &Source) -> String {
    let target = target_of(source).map(|(word, _)| word.to_string()).unwrap_or_default();
    let variant = Variant { name: String::new(), file: String::new(), compiler: String::new(), target };
    chip_of(&[variant.sm()], true).map_or(USUAL.to_string(), |(chip, _)| chip)
}

/// The chip that follows from the classes of programs in ascending order, and why.
fn chip_of(programs: &[u32], allow_newer_isa: bool) -> Result<(String, Option<String>), Vec<Diagnostic>> {
    let usual = |why: &str| Ok((USUAL.to_string(), Some(why.to_string())));
    let Some(newest) = programs.last().filter(|sm| **sm > 0) else {
        return usual("the program names no target");
    };
    let smallest = |sm: &u32| Some((*configs::chips_that_fit(&Needs::capability(*sm)).first()?, *sm));
    match programs.iter().rev().find_map(smallest) {
        Some((chip, sm)) => Ok((chip.to_string(), Some(format!("the smallest shipped chip for sm_{sm}")))),
        None if allow_newer_isa => usual(&format!("no shipped chip is for sm_{newest}")),
        None => Err(vec![
            Diagnostic::error("chip", format!("no shipped chip runs sm_{newest}"))
                .help("--chip NAME --allow-newer-isa runs what a chip lacks, as far as it is executed"),
        ]),
    }
}

/// Refuses a chip whose parts take more of the host's memory than there is.
fn fits_host(chip: &ChipSpec, left: u64) -> Result<(), Vec<Diagnostic>> {
    let needed = chip.host_bytes();
    if needed <= left {
        return Ok(());
    }
    let message = format!(
        "{}: its SMs and partitions take about {} MiB of the host's memory, of which --max-memory leaves {} MiB",
        chip.name,
        needed >> 20,
        left >> 20
    );
    let help = "fewer SMs or partitions, or smaller caches; or a greater --max-memory";
    Err(vec![Diagnostic::error("chip", message).help(help)])
}

/// Refuses PTX whose `.target` is above the chip, as CUDA does: code for sm_XX runs from compute capability
/// X.X on, for sm_XXa there alone, for sm_XXf in the rest of its family.
fn fits_target(ptx: &Source, chip: &ChipSpec) -> Result<(), Diagnostic> {
    let Some((word, place)) = target_of(ptx) else { return Ok(()) };
    let digits = word.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    let (Ok(target), own) = (digits.parse::<u32>(), chip.capability()) else { return Ok(()) };
    let (runs, where_else) = match word.chars().last() {
        Some('a') => (own == target, " alone"),
        Some('f') => (own >= target && own / 10 == target / 10, " and its family"),
        _ => (own >= target, " or above"),
    };
    if runs {
        return Ok(());
    }
    let message = format!(
        "the module is for {word}, which runs on compute capability {}.{}{where_else}; {} has {}",
        target / 10,
        target % 10,
        chip.name,
        chip.compute_capability
    );
    Err(Diagnostic::error("target", message)
        .at(place, "")
        .help(format!("--allow-newer-isa runs it all the same; {}", fitting(&Needs::capability(target))))
        .in_source(ptx))
}

/// Whether what the run is to write can be written, before it takes its time.
fn outputs(args: &RunArgs) -> Result<(), Vec<Diagnostic>> {
    let cannot = |message: String| vec![Diagnostic::error("output", message)];
    if let Some(folder) = &args.out {
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

/// Options that cannot be, or not together.
fn options(args: &RunArgs) -> Result<(), Vec<Diagnostic>> {
    let wrong = |message: &str, help: &str| Err(vec![Diagnostic::error("usage", message).help(help)]);
    if args.functional && args.max_cycles.is_some() {
        return wrong(
            "--max-cycles means nothing with --functional, which has no cycles",
            "--max-instructions N stops a run without time",
        );
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
    // The only kernel of a file needs no name.
    let entry = match &args.entry {
        Some(entry) => Some(entry.clone()),
        None => only_kernel(Path::new(&args.workload)),
    };
    let given = [("--entry", &entry), ("--grid", &args.grid), ("--block", &args.block)];
    let missing: Vec<&str> =
        given.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name).collect();
    let Some(entry) = entry.clone().filter(|_| missing.is_empty()) else {
        let kernels = kernels(Path::new(&args.workload))?;
        let message = format!("a .ptx file needs {}", missing.join(", "));
        return Err(vec![Diagnostic::error("usage", message).help(kernels)]);
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
    for (i, text) in args.args.iter().enumerate() {
        let kind = argument(i, text, &mut buffers).map_err(|reason| {
            vec![Diagnostic::error("usage", format!("--arg {text}: {reason}")).help(ARGUMENTS)]
        })?;
        list.push(kind.into());
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
            // What is not readable is said when the program is loaded.
            target: configs::read(&path)
                .ok()
                .and_then(|source| target_of(&source).map(|(word, _)| word.to_string()))
                .unwrap_or_default(),
        }],
        buffers,
        launches: vec![Step::Launch(LaunchSpec {
            entry,
            grid: size(&args.grid, "--grid")?,
            block: size(&args.block, "--block")?,
            dynamic_shared: Some(Expr::Number(args.dynamic_shared.into())),
            stream: 0,
            args: list,
            place: Place::default(),
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

/// The kernel of a PTX file, where it has one only; what is wrong with a file is said later.
fn only_kernel(file: &Path) -> Option<String> {
    let module = Module::build(&configs::read(file).ok()?, false).ok()?;
    let mut entries = module.entries();
    let only = entries.next()?.to_string();
    entries.next().is_none().then_some(only)
}

/// The kernels of a PTX file with what they take, and how the first is run.
fn kernels(file: &Path) -> Result<String, Vec<Diagnostic>> {
    const MOST: usize = 8;
    let source = configs::read(file).map_err(|error| vec![error])?;
    let module = Module::build(&source, false)?;
    let params = |entry: &str| module.params(entry).map_or_else(Vec::new, |(params, _)| params);
    let mut list: Vec<String> =
        module.entries().take(MOST).map(|entry| format!("{entry}({})", declared(&params(entry)))).collect();
    let Some(first) = module.entries().next() else { return Ok("the file has no kernel".into()) };
    let more = module.entries().count() - list.len();
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    let example = example(&params(first));
    Ok(format!(
        "its kernels: {}; for example: --entry {first} --grid 1 --block 32 {example}",
        list.join(", ")
    ))
}

/// What `--arg` takes.
const ARGUMENTS: &str = "an argument is TYPE:VALUE, bytes:DIGITS, argN[+ELEMENTS] (the buffer of an earlier one), or \
                         buffer:TYPE:LENGTH[:zeros|iota|random[:MIN:MAX]|@FILE]; a struct that holds a pointer \
                         needs a workload file, with `{struct: [fields]}` (docs/reference/workload.md)";

/// An argument of the command line, the `i`-th; a new buffer is added to `buffers`.
fn argument(
    i: usize,
    text: &str,
    buffers: &mut BTreeMap<String, BufferSpec>,
) -> Result<ArgumentKind, String> {
    let scalar = |ty: &str| scalar_type(ty).ok_or_else(|| format!("there is no type `{ty}`"));
    let Some((first, rest)) = text.split_once(':') else {
        let ArgumentKind::Pointer { buffer, offset } = ArgumentKind::pointer(text) else {
            return Err("this is not an argument".into());
        };
        let known = buffers.contains_key(&buffer);
        return match known {
            true => Ok(ArgumentKind::Pointer { buffer, offset }),
            false => Err(format!("there is no earlier buffer `{buffer}`")),
        };
    };
    if first == "bytes" {
        return Ok(ArgumentKind::Bytes(rest.to_string()));
    }
    if first != "buffer" {
        let value = match scalar(first)? {
            ty if ty.is_float() => float(first, rest)?,
            _ => Expr::Text(rest.to_string()),
        };
        let values = vec![value];
        return Ok(ArgumentKind::Scalar { ty: first.to_string(), values });
    }
    let mut parts = rest.splitn(3, ':');
    let (Some(ty), Some(length)) = (parts.next(), parts.next()) else {
        return Err("a buffer needs a type and a length".into());
    };
    let ty = scalar(ty)?;
    HostBuffer::holds(ty)?;
    let init = match parts.next() {
        None | Some("zeros") => Init::Zeros,
        Some("iota") => Init::Iota,
        Some(how) => match (how.strip_prefix('@'), how.strip_prefix("random")) {
            (Some(file), _) => {
                // Beside the working directory, not beside the program.
                let path = std::path::absolute(file).map_err(|error| format!("{file}: {error}"))?;
                Init::File(path.display().to_string())
            }
            (None, Some(bounds)) => random(i, ty, bounds)?,
            (None, None) => return Err(format!("`{how}` is not zeros, iota, random or @FILE")),
        },
    };
    let name = format!("arg{i}");
    let length = Expr::Text(length.to_string());
    let (length_place, init_place) = (Place::default(), Place::default());
    buffers.insert(name.clone(), BufferSpec { ty, length, init, length_place, init_place });
    Ok(ArgumentKind::pointer(&name))
}

/// A value of a floating-point type; the bits of f32 and f64 are written as in PTX, `0f…` and `0d…`.
fn float(ty: &str, text: &str) -> Result<Expr, String> {
    let (negative, digits) = match text.trim().strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.trim()),
    };
    let after = |letters: [&str; 2]| letters.iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (prefix, bits, length) = match ty {
        "f32" => ("0f", after(["0f", "0F"]), 8),
        "f64" => ("0d", after(["0d", "0D"]), 16),
        _ => return Ok(Expr::Text(text.to_string())),
    };
    if let Some(digits) = after(["0x", "0X"]) {
        return Err(format!(
            "`0x{digits}` may be a number or its bits; {prefix}{digits:0>length$} gives bits"
        ));
    }
    let Some(bits) = bits else { return Ok(Expr::Text(text.to_string())) };
    let parsed =
        u64::from_str_radix(bits, 16).ok().filter(|_| bits.len() == length && !bits.starts_with('+'));
    let value = match (parsed, ty) {
        (Some(bits), "f32") => u32::try_from(bits).ok().map(|bits| f64::from(f32::from_bits(bits))),
        (Some(bits), _) => Some(f64::from_bits(bits)),
        (None, _) => None,
    };
    let value = value.ok_or_else(|| {
        format!("`{text}` is not a literal of {ty}: {prefix} and {length} hexadecimal digits")
    })?;
    if value.is_nan() {
        return Err(format!("`{text}` is NaN, whose bits would not be kept; bytes:DIGITS keeps them"));
    }
    Ok(Expr::Number(Number::from(if negative { -value } else { value })))
}

/// Random contents with bounds `:MIN:MAX`; without them from 0 to 1, or every value of an integer type.
fn random(i: usize, ty: ScalarType, bounds: &str) -> Result<Init, String> {
    let (min, max) = match bounds.strip_prefix(':') {
        Some(bounds) => {
            let (min, max) = bounds.split_once(':').ok_or("random takes both bounds, random:MIN:MAX")?;
            (Number::parse(min)?, Number::parse(max)?)
        }
        None if !bounds.is_empty() => return Err(format!("`random{bounds}` is not random:MIN:MAX")),
        None if ty.is_float() => (Number::Int(0), Number::Int(1)),
        None if ty.is_signed() => {
            (Number::Int(-(1 << (ty.bits() - 1))), Number::Int((1 << (ty.bits() - 1)) - 1))
        }
        None => (Number::Int(0), Number::Int((1 << ty.bits().min(64)) - 1)),
    };
    if min > max || !min.is_finite() || !max.is_finite() {
        return Err(format!("{min} to {max} is not a range"));
    }
    // Every argument has a seed of its own.
    Ok(Init::Random { seed: i as u64 + 1, min, max })
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
