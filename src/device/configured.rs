//! How a device is made: from a request, as the command line, a workload's run or another process has it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sim_core::monitor::Check;
use sim_core::options::Options;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::sampling::Sampling;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::workload::{Schedule, UndefinedValues, WorkloadSpec};

use crate::chip_for::fits_host;
use crate::configs::ships;
use crate::known::{Digest, Known, KnownChip};
use crate::memory;
use crate::request::{Request, SchedulerChoice, Setting};
use crate::sanitize::{Checks, undefined_in_programs};

/// The chip of CUDA programs where none is named.
pub const CHIP: &str = "rtx2080ti";

/// A device that is asked for, in the words of the command line; it travels to other processes as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceRequest {
    /// The chip, by its name or file.
    pub chip: String,
    /// Reconvergence policy; the chip's where nothing is said.
    pub policy: Option<String>,
    /// Warp scheduler; the chip's where nothing is said.
    pub scheduler: Option<String>,
    /// Values of the chip that are changed, `PATH=VALUE`.
    pub set: Vec<String>,
    /// What is checked.
    pub check: String,
    /// Worker threads of the engine.
    pub threads: usize,
    /// Launches run in the functional mode.
    pub functional: bool,
    /// Core cycles of all launches after which to stop.
    pub max_cycles: Option<u64>,
    /// Warp instructions of all launches after which to stop.
    pub max_instructions: Option<u64>,
    /// Instructions that the chip lacks run all the same.
    pub allow_newer_isa: bool,
    /// Counts by line of the PTX are kept.
    pub profile: bool,
    /// Core cycles between samples of the counters.
    pub sample_every: Option<u64>,
    /// Kernels are sampled: a part of their blocks is timed.
    pub sampling: Option<Sampling>,
}

impl Default for DeviceRequest {
    fn default() -> Self {
        Self {
            chip: CHIP.to_string(),
            policy: None,
            scheduler: None,
            set: Vec::new(),
            check: Check::default().name().to_string(),
            threads: 1,
            functional: false,
            max_cycles: None,
            max_instructions: None,
            allow_newer_isa: false,
            profile: false,
            sample_every: None,
            sampling: None,
        }
    }
}

impl DeviceRequest {
    /// What it comes to.
    ///
    /// # Errors
    /// Names that are none, values that are wrong, a chip that does not fit the host.
    pub fn configured(&self) -> Result<Configured, Vec<Diagnostic>> {
        let one = |e: Diagnostic| vec![e];
        let checks = Checks::parse(&self.check).map_err(|why| one(Diagnostic::error("check", why)))?;
        let set: Vec<Setting> =
            self.set.iter().map(|text| Setting::parse(text)).collect::<Result<_, _>>().map_err(one)?;
        let set: Vec<(&str, &str)> = set.iter().map(|s| (s.key.as_str(), s.value.as_str())).collect();
        let how = How {
            policy: self.policy.as_deref().map(PolicyChoice::parse).transpose().map_err(one)?,
            scheduler: self.scheduler.as_deref().map(SchedulerChoice::parse).transpose().map_err(one)?,
            functional: self.functional,
        };
        Configured::new(&self.chip, &set, how, &Known::default(), |policy, scheduler| Options {
            policy,
            scheduler: scheduler.scheduler,
            threads: self.threads.max(1),
            check: checks.check,
            undefined: undefined_in_programs(checks.check, checks.sanitize),
            memory_model: checks.memory_model,
            sanitize: checks.sanitize,
            max_cycles: self.max_cycles,
            max_instructions: self.max_instructions,
            allow_newer_isa: self.allow_newer_isa,
            // A program has no place to say that it uses `activemask`, as cooperative groups and barriers of CUDA C++ do.
            schedule_dependent: true,
            instruction_set: None,
            epoch: None,
            profile: self.profile,
            timeline: None,
            sample: self.sample_every,
            sampling: self.sampling,
            record: None,
            save: None,
            delay: None,
        })
    }
}

/// What a chip has a default for, and the mode.
pub struct How {
    policy: Option<PolicyChoice>,
    scheduler: Option<SchedulerChoice>,
    functional: bool,
}

/// A device before it is made: all that was named has been found and read.
#[derive(Clone, Debug)]
pub struct Configured {
    /// The chip, as it was changed.
    pub chip: Arc<ChipSpec>,
    /// Its costs.
    pub costs: Arc<IsaCosts>,
    /// How it runs.
    pub options: Options,
    /// The file of the chip, where it is none of those that ship.
    pub chip_file: Option<String>,
    /// The scheduler as it was written.
    pub scheduler: String,
    /// What was changed of the chip.
    pub set: BTreeMap<String, String>,
    /// All launches run without timing.
    pub functional: bool,
    /// The digest of the chip and its costs.
    digest: Digest,
}

impl Configured {
    /// The device that a request asks for, of a workload where it is for one, on a chip with changed values.
    ///
    /// # Errors
    /// What is wrong with the chip, or does not fit the host.
    pub fn of_request(
        request: &Request,
        workload: Option<&WorkloadSpec>,
        chip: &str,
        set: &[(&str, &str)],
        known: &Known,
    ) -> Result<Self, Vec<Diagnostic>> {
        let how = How {
            policy: request.policy,
            scheduler: request.scheduler.clone(),
            functional: request.functional,
        };
        let undefined = match workload.map(|workload| workload.undefined_values) {
            Some(UndefinedValues::Fault) => UndefinedValues::Fault,
            Some(UndefinedValues::Zero) | None => undefined_in_programs(request.check, request.sanitize),
        };
        Self::new(chip, set, how, known, |policy, scheduler| Options {
            policy,
            scheduler: scheduler.scheduler,
            threads: request.threads,
            check: request.check,
            undefined,
            memory_model: request.memory_model,
            sanitize: request.sanitize,
            max_cycles: request.max_cycles,
            max_instructions: request.max_instructions,
            allow_newer_isa: request.allow_newer_isa,
            schedule_dependent: workload.is_some_and(|workload| workload.schedule == Schedule::Dependent),
            instruction_set: request.instruction_set,
            epoch: request.epoch,
            profile: request.profile,
            timeline: None,
            sample: request.sample_every,
            sampling: request.sampling,
            record: None,
            save: None,
            delay: None,
        })
    }

    fn new(
        chip: &str,
        set: &[(&str, &str)],
        how: How,
        known: &Known,
        options: impl FnOnce(PolicyChoice, &SchedulerChoice) -> Options,
    ) -> Result<Self, Vec<Diagnostic>> {
        let one = |e: Diagnostic| vec![e];
        let chip_file = (!ships(chip)).then(|| chip.to_string());
        let KnownChip { spec: chip, costs, digest } = known.chip(chip, set)?;
        fits_host(&chip, memory::left())?;
        let policy = how.policy.map_or_else(|| PolicyChoice::parse(&chip.default_policy), Ok).map_err(one)?;
        let scheduler =
            how.scheduler.map_or_else(|| SchedulerChoice::parse(&chip.default_scheduler), Ok).map_err(one)?;
        let options = options(policy, &scheduler);
        sampled_alone(&options, how.functional).map_err(one)?;
        Ok(Self {
            options,
            chip,
            costs,
            chip_file,
            scheduler: scheduler.written,
            set: set.iter().map(|(path, value)| ((*path).to_string(), (*value).to_string())).collect(),
            functional: how.functional,
            digest,
        })
    }

    /// The hash of the chip with all its values and costs.
    pub fn config(&self) -> &str {
        self.digest.of(&(&*self.chip, &*self.costs))
    }
}

/// Samples have no counters of all blocks, and checks need all of them.
fn sampled_alone(options: &Options, functional: bool) -> Result<(), Diagnostic> {
    let check = format!("--check {}", options.check_name());
    let whole = [
        ("--functional", functional),
        ("--profile", options.profile),
        ("--sample-every", options.sample.is_some()),
        (check.as_str(), options.memory_model || options.sanitize.any()),
    ];
    match whole.iter().find(|(_, given)| *given && options.sampling.is_some()) {
        None => Ok(()),
        Some((option, _)) => {
            let message =
                format!("--sample cannot be used with {option}: it times a part of the blocks only");
            Err(Diagnostic::error("usage", message).help("remove one of the two"))
        }
    }
}
