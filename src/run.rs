//! Runs: a [`Request`] becomes a [`Simulation`], which gives an [`Outcome`] and its [`Report`].

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use sim_core::device::Progress;
use sim_core::error::SimError;
use sim_core::recording::Record;
use sim_core::sampling::Sampling;
use sim_core::sm::timeline::TimelineOptions;
use sim_frontend::chip::{ChipSpec, Needs};
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::workload::{Init, Number, Params, Variant, WorkloadSpec};

use crate::chip_for::{chip_for, fits_target, fitting};
use crate::device::Configured;
use crate::digest::hash;
use crate::interrupt::STOP;
use crate::known::{Digest, Known, KnownText, KnownWorkload};
use crate::listing::Listing;
use crate::machine::Machine;
use crate::program;
use crate::report_file::{Report, SCHEMA, Stopped};
use crate::request::{Program, Request, Setting};
use crate::sanitize::{self, Suppression};
use crate::simulate::checkpoint::{Checkpoint, CheckpointRequest};
use crate::simulate::{Job, Outcome, Verdict, simulate};

/// Runs to completion and returns the results, with the chip it ran on.
///
/// # Errors
/// Bad input, a run that stopped early, a result that differs.
pub fn measure(request: Request) -> Result<(Outcome, Arc<ChipSpec>), Vec<Diagnostic>> {
    let (outcome, chip) = outcome(request)?;
    if let Some(stopped) = &outcome.stopped {
        return Err(vec![Diagnostic::error("run", stopped.to_string())]);
    }
    match &outcome.verdict {
        Some(Verdict::Fail(difference)) => Err(vec![Diagnostic::error("run", difference.clone())]),
        _ => Ok((outcome, chip)),
    }
}

/// Runs and returns the results, complete or stopped early, with the chip it ran on.
///
/// # Errors
/// Bad input.
pub fn outcome(request: Request) -> Result<(Outcome, Arc<ChipSpec>), Vec<Diagnostic>> {
    let simulation = Simulation::new(request)?;
    let outcome = simulation.unwatched()?;
    Ok((outcome, simulation.chip))
}

/// What tells this simulator from others: its version, and where that names no commit exactly, the
/// program itself, so that results of a build that was changed since are not taken for its own.
pub fn simulator() -> &'static str {
    static SIMULATOR: OnceLock<String> = OnceLock::new();
    SIMULATOR.get_or_init(|| {
        let exact = crate::VERSION.contains('(') && !crate::VERSION.contains("-modified");
        let program = if exact { None } else { program::file().and_then(std::fs::read).ok() };
        match program {
            Some(bytes) => format!("{} {}", crate::VERSION, hash(&[&bytes])),
            None => crate::VERSION.to_string(),
        }
    })
}

/// What identifies a run.
pub struct Identity {
    /// Hash of everything that is simulated, and of the simulator.
    pub id: String,
    /// Hash of the chip with all its values and costs.
    pub config: String,
}

/// All that a run is, but for its chip, its PTX and the contents of its files.
#[derive(Serialize)]
struct Simulated<'a> {
    workload: &'a str,
    params: &'a Params,
    seed: u64,
    skip_launches: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_launches: Option<u64>,
    functional: bool,
    policy: String,
    scheduler: &'a str,
    check: String,
    max_cycles: Option<u64>,
    max_instructions: Option<u64>,
    allow_newer_isa: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<Sampling>,
}

/// A run that is ready: what its request names has been found and read.
pub struct Simulation {
    /// The chip, as it was changed.
    pub chip: Arc<ChipSpec>,
    configured: Configured,
    job: Job,
    variant: String,
    /// Why this chip, where none is named.
    chosen: Option<String>,
    /// Arguments of the kernel as they were typed.
    args: Vec<String>,
    suppress: Vec<Suppression>,
    /// Of the workload and of its PTX.
    digests: [Digest; 2],
}

impl Simulation {
    /// Finds and reads what a request names, and checks that the chip can be built and runs the program.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn new(request: Request) -> Result<Self, Vec<Diagnostic>> {
        Self::known(request, &Known::default())
    }

    /// The same, where others have read some of it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn known(request: Request, known: &Known) -> Result<Self, Vec<Diagnostic>> {
        let one = |e: Diagnostic| vec![e];
        contradictions(&request).map_err(one)?;
        let given = matches!(request.program, Program::Given { .. });
        let (workload, args) = match &request.program {
            Program::Workload(name) => (known.workload(name)?, Vec::new()),
            Program::Given { spec, folder, args } => {
                let (spec, folder) = (Arc::clone(spec), folder.clone());
                (KnownWorkload { spec, folder, digest: Digest::default() }, args.clone())
            }
            Program::Cuda(command) => {
                let message = format!("`{}` is a CUDA program, not a workload", command.name());
                return Err(one(
                    Diagnostic::error("usage", message).help("`warpsim cuda -- PROGRAM` runs it")
                ));
            }
        };
        let KnownWorkload { spec, folder, digest } = workload;
        let (params, chip_settings) = settings(&request, &spec)?;
        let (name, chosen) = chip_for(&request, &spec)?;
        let configured = Configured::of_request(&request, Some(&spec), &name, &chip_settings, known)?;
        let chip = &configured.chip;
        // The only program of a launch that is given is told to fit by its target.
        let most = if given { u32::MAX } else { chip.capability() };
        let name = request.variant.as_deref();
        let variant = spec.variant(name, most).or_else(|error| match request.allow_newer_isa {
            true => spec.variant(name, u32::MAX),
            false => Err(error),
        });
        let variant = variant.map_err(|error| match spec.variants.iter().map(Variant::sm).min() {
            Some(sm) if name.is_none() => vec![error.help(fitting(&Needs::capability(sm)))],
            _ => vec![error],
        })?;
        let KnownText { source: ptx, digest: text } = known.text(&folder.join(&variant.file))?;
        if !request.allow_newer_isa {
            fits_target(&ptx, chip).map_err(one)?;
        }
        let variant = variant.name.clone();
        let job = Job {
            spec,
            folder,
            ptx,
            params,
            seed: request.seed,
            skip: request.skip_launches,
            timed: request.time_launches,
            dump: request.keep,
            export: request.export,
            checkpoint: None,
        };
        let (chip, suppress) = (Arc::clone(&configured.chip), request.suppress);
        let mut own =
            Self { chip, configured, job, variant, chosen, args, suppress, digests: [digest, text] };
        if let Some(asked) = &request.checkpoint {
            if let Some(what) = own.configured.options.unsaved() {
                let message = format!("a checkpoint does not hold {what}");
                return Err(one(
                    Diagnostic::error("usage", message).help("remove --checkpoint, or what it does not hold")
                ));
            }
            own.job.checkpoint = Some(own.checkpoint(asked, known).map_err(one)?);
        }
        Ok(own)
    }

    /// Records events, which [`Outcome::timelines`] has then.
    pub fn record(&mut self, timeline: TimelineOptions) {
        self.configured.options.timeline = Some(timeline);
    }

    /// Tells what threads do at barriers and in shared memory, in functional runs.
    pub fn tell(&mut self, record: Record) {
        self.configured.options.record = Some(record);
    }

    /// The names of the workload and its variant.
    pub fn names(&self) -> (&str, &str) {
        (&self.job.spec.name, &self.variant)
    }

    /// The checkpoint that is asked for.
    fn checkpoint(&self, asked: &CheckpointRequest, known: &Known) -> Result<Checkpoint, Diagnostic> {
        // The limit of cycles decides how far a run comes, not what it does; that of instructions, when they are counted.
        let what = Simulated { max_cycles: None, ..self.simulated() };
        let mut of = serde_json::to_value(&what).unwrap_or_default();
        of["simulator"] = simulator().into();
        of["chip"] = self.chip.name.as_str().into();
        of["config"] = self.configured.config().into();
        of["variant"] = self.variant.as_str().into();
        of["ptx"] = self.digests[1].of(&&*self.job.ptx.text).into();
        of["files"] = self.files(known).into();
        Checkpoint::new(asked, of)
    }

    /// Where the run goes on, if it does: timed runs before, and core cycle.
    pub fn resumed(&self) -> Option<(u32, u64)> {
        self.job.checkpoint.as_ref()?.from()
    }

    /// All that the run is, but for its chip, its PTX and the contents of its files.
    fn simulated(&self) -> Simulated<'_> {
        Simulated {
            workload: self.digests[0].of(&*self.job.spec),
            params: &self.job.params,
            seed: self.job.seed,
            skip_launches: self.job.skip,
            time_launches: self.job.timed,
            functional: self.configured.functional,
            policy: self.configured.options.policy.canonical(),
            scheduler: &self.configured.scheduler,
            check: self.configured.options.check_name(),
            max_cycles: self.configured.options.max_cycles,
            max_instructions: self.configured.options.max_instructions,
            allow_newer_isa: self.configured.options.allow_newer_isa,
            sampling: self.configured.options.sampling,
        }
    }

    /// Digests of the files that it reads.
    fn files(&self, known: &Known) -> Vec<String> {
        let spec = &*self.job.spec;
        let inits = spec.buffers.values().map(|buffer| &buffer.init);
        let inits = inits.chain(spec.variables.values().filter_map(|variable| variable.init.as_ref()));
        let named = inits.filter_map(|init| match init {
            Init::File(file) => Some(file),
            _ => None,
        });
        named.chain(&spec.l2).map(|file| known.file(&self.job.folder.join(file))).collect()
    }

    /// What identifies the run.
    pub fn identity(&self, known: &Known) -> Identity {
        let config = self.configured.config().to_string();
        let what = serde_json::to_vec(&self.simulated()).unwrap_or_default();
        let files = self.files(known);
        let text = self.digests[1].of(&&*self.job.ptx.text);
        let mut parts: Vec<&[u8]> = vec![simulator().as_bytes(), config.as_bytes(), &what, text.as_bytes()];
        parts.extend(files.iter().map(String::as_bytes));
        Identity { id: hash(&parts), config }
    }

    /// The chip's values as JSON.
    pub fn values(&self) -> String {
        serde_json::to_string_pretty(&*self.chip).unwrap_or_default() + "\n"
    }

    /// Simulates until it ends, or until [`STOP`] says so; `progress` is called from time to time.
    ///
    /// # Errors
    /// Bad input that only the run finds.
    pub fn simulate(&self, progress: &Progress<'_>) -> Result<Outcome, Vec<Diagnostic>> {
        self.simulate_until(&STOP, progress)
    }

    /// The same with a flag of its own to stop it.
    ///
    /// # Errors
    /// As [`simulate`](Self::simulate).
    pub fn simulate_until(
        &self,
        stop: &AtomicBool,
        progress: &Progress<'_>,
    ) -> Result<Outcome, Vec<Diagnostic>> {
        let outcome = simulate(&self.job, self.configured.clone(), stop, progress);
        let judged = outcome.map(|mut outcome| {
            if let Some(found) = &mut outcome.report.sanitizers {
                sanitize::judge(found, &self.suppress, self.job.spec.intended_races.as_deref());
            }
            outcome
        });
        judged.map_err(|error| match error {
            SimError::Input(errors) => errors,
            other => vec![Diagnostic::error("run", other.to_string())],
        })
    }

    /// [`simulate`](Self::simulate), and nobody is told how far it is.
    ///
    /// # Errors
    /// Bad input that only the run finds.
    pub fn unwatched(&self) -> Result<Outcome, Vec<Diagnostic>> {
        self.simulate(&|_, _, _| {})
    }

    /// Simulates; gives the report, host seconds, and what stopped it early.
    ///
    /// # Errors
    /// Bad input that only the run finds.
    pub fn run(&self) -> Result<(Report, f64, Option<SimError>), Vec<Diagnostic>> {
        let outcome = self.unwatched()?;
        let seconds = outcome.simulated.as_secs_f64();
        let stopped = outcome.stopped.clone();
        Ok((self.report(outcome), seconds, stopped))
    }

    /// `report.json` of what came of it.
    pub fn report(&self, outcome: Outcome) -> Report {
        let (result, difference) = match outcome.verdict {
            Some(Verdict::Pass) => ("pass", None),
            Some(Verdict::Fail(difference)) => ("fail", Some(difference)),
            Some(Verdict::Unchecked) => ("unchecked", None),
            None => ("stopped", None),
        };
        let stopped = outcome.stopped.map(Stopped::of);
        Report {
            schema: SCHEMA,
            workload: self.job.spec.name.clone(),
            variant: self.variant.clone(),
            chip: self.chip.name.clone(),
            chip_file: self.configured.chip_file.clone(),
            chosen: self.chosen.clone(),
            policy: self.configured.options.policy.canonical(),
            scheduler: self.configured.scheduler.clone(),
            check: self.configured.options.check_name(),
            params: self.job.params.clone(),
            args: self.args.clone(),
            seed: self.job.seed,
            set: self.configured.set.clone(),
            allow_newer_isa: outcome.newer_isa,
            result,
            difference,
            stopped,
            contents: outcome.contents,
            machine: Machine::of(&self.chip),
            listing: (!outcome.report.lines.is_empty()).then(|| Listing::of(&self.job.ptx, &self.job.folder)),
            device: outcome.report,
        }
    }
}

/// What a request says that cannot be, or not together.
pub(crate) fn contradictions(request: &Request) -> Result<(), Diagnostic> {
    let wrong = |message: &str, help: &str| Err(Diagnostic::error("usage", message).help(help));
    if request.functional && request.max_cycles.is_some() {
        return wrong(
            "--max-cycles cannot be used with --functional: functional mode has no cycles",
            "--max-instructions N limits functional runs",
        );
    }
    let counted = [("--profile", request.profile), ("--sample-every", request.sample_every.is_some())];
    if let Some((option, _)) = counted.iter().find(|(_, given)| request.functional && *given) {
        return wrong(
            &format!("{option} cannot be used with --functional: functional mode has no cycles"),
            "remove --functional to collect it",
        );
    }
    if request.functional && request.time_launches.is_some() {
        return wrong(
            "--time-launches cannot be used with --functional: nothing is timed",
            "remove one of them",
        );
    }
    if request.time_launches == Some(0) {
        return wrong("--time-launches must be at least 1", "--functional times no launch");
    }
    if let Some(CheckpointRequest { every, .. }) = request.checkpoint {
        if request.functional {
            return wrong(
                "--checkpoint cannot be used with --functional: states are saved by core cycles",
                "remove --functional",
            );
        }
        if request.export.is_some() {
            return wrong("--checkpoint cannot be used with --export", "export the run without --checkpoint");
        }
        if every == 0 {
            return wrong("--every must be at least 1 cycle", "--every 1000000, for example");
        }
    }
    if request.threads == 0 {
        return wrong("--threads must be at least 1", "--threads 1 is the default");
    }
    if request.epoch == Some(0) {
        return wrong("--epoch must be at least 1 cycle", "by default epochs are as long as possible");
    }
    Ok(())
}

/// What `--set` changes: parameters of the workload by name, the chip by path.
#[allow(clippy::type_complexity, reason = "two lists")]
fn settings<'a>(
    request: &'a Request,
    spec: &WorkloadSpec,
) -> Result<(Params, Vec<(&'a str, &'a str)>), Vec<Diagnostic>> {
    let wrong = |message: String| vec![Diagnostic::error("set", message)];
    let mut params = spec.params.clone();
    let mut chip = Vec::new();
    for Setting { key, value } in &request.set {
        if let Some(param) = params.get_mut(key) {
            *param = Number::parse(value)
                .ok()
                .filter(|value| value.is_finite())
                .ok_or_else(|| wrong(format!("`{value}` is not a number (--set {key}={value})")))?;
        } else if key.contains('.') {
            chip.push((key.as_str(), value.as_str()));
        } else {
            let known: Vec<&str> = params.keys().map(String::as_str).collect();
            let message = format!(
                "`{}` has no parameter `{key}`; it has: {}; keys of the chip are paths, such as sm.branch_latency \
                 (`warpsim docs reference/chip` lists them)",
                spec.name,
                known.join(", ")
            );
            return Err(vec![Diagnostic::error("set", message).did_you_mean(key, known)]);
        }
    }
    Ok((params, chip))
}
