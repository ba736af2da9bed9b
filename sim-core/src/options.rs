//! How a device runs.

use std::sync::Arc;

use sim_frontend::workload::UndefinedValues;
use sim_memory::vocabulary::Cycle;

use crate::instruction_set::InstructionSet;
use crate::monitor::Check;
use crate::reconvergence::registry::PolicyChoice;
use crate::recording::Record;
use crate::sampling::Sampling;
use crate::sanitizer::Kinds;
use crate::sm::scheduler::WarpScheduler;
use crate::sm::timeline::TimelineOptions;

/// The name of the check against the memory model in options and reports.
pub const MEMORY_MODEL: &str = "memory-model";

/// How a device runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Reconvergence policy and its parameters.
    pub policy: PolicyChoice,
    /// Warp scheduler of every SM.
    pub scheduler: WarpScheduler,
    /// Number of worker threads of the engine.
    pub threads: usize,
    /// Run-time checks.
    pub check: Check,
    /// What becomes of values that PTX leaves undefined, unless nothing is checked.
    pub undefined: UndefinedValues,
    /// Executions are checked against the memory consistency model of PTX.
    pub memory_model: bool,
    /// What sanitizers look for.
    pub sanitize: Kinds,
    /// Core cycles after which to stop.
    pub max_cycles: Option<Cycle>,
    /// Warp instructions of all launches after which to stop.
    pub max_instructions: Option<u64>,
    /// Run instructions the chip lacks.
    pub allow_newer_isa: bool,
    /// The workload's results may depend on the schedule.
    pub schedule_dependent: bool,
    /// Lane code; `None`, and one that this host lacks, choose the best for this host.
    pub instruction_set: Option<InstructionSet>,
    /// Cycles of an epoch; `None`, and anything longer than the channels' least latency, is that.
    pub epoch: Option<Cycle>,
    /// Counts by operation are kept.
    pub profile: bool,
    /// What is recorded event by event.
    pub timeline: Option<TimelineOptions>,
    /// Core cycles between two samples of the counters, where they are asked for.
    pub sample: Option<Cycle>,
    /// Kernels are sampled: a part of their blocks is timed.
    pub sampling: Option<Sampling>,
    /// Who is told what threads do at barriers and in shared memory, in functional runs.
    pub record: Option<Record>,
    /// The state of timed runs is saved from time to time.
    pub save: Option<Save>,
    /// Where workers are held up.
    pub delay: Option<Delay>,
}

impl Options {
    /// One worker under a policy and a scheduler with the checks of safety: no limits, and nothing else is
    /// observed or kept.
    pub fn of(policy: PolicyChoice, scheduler: WarpScheduler) -> Self {
        Self {
            policy,
            scheduler,
            threads: 1,
            check: Check::Safety,
            undefined: UndefinedValues::Fault,
            memory_model: false,
            sanitize: Kinds::default(),
            max_cycles: None,
            max_instructions: None,
            allow_newer_isa: false,
            schedule_dependent: false,
            instruction_set: None,
            epoch: None,
            profile: false,
            timeline: None,
            sample: None,
            sampling: None,
            record: None,
            save: None,
            delay: None,
        }
    }

    /// What is asked for that the saved state of a run does not hold.
    pub fn unsaved(&self) -> Option<&'static str> {
        let Self { profile, timeline, sample, sampling, memory_model, sanitize, .. } = self;
        let parts = [
            (*profile, "a profile of PTX lines"),
            (timeline.is_some(), "a timeline"),
            (sample.is_some(), "counters over time"),
            (sampling.is_some(), "a run that times a part of the blocks"),
            (*memory_model, "a check against the memory model"),
            (sanitize.any(), "what a sanitizer knows"),
        ];
        parts.into_iter().find_map(|(asked, what)| asked.then_some(what))
    }

    /// The name of what is checked: the kinds of `--check`, separated by commas.
    pub fn check_name(&self) -> String {
        let mut names: Vec<&str> = self.sanitize.names();
        if self.memory_model {
            names.insert(0, MEMORY_MODEL);
        }
        if names.is_empty() || self.check == Check::Full {
            names.insert(0, self.check.name());
        }
        names.join(",")
    }
}

/// Holds workers up, to test that nothing depends on who is first: called with the worker's
/// number before each step of an epoch.
#[derive(Clone)]
pub struct Delay(pub Arc<dyn Fn(usize) + Send + Sync>);

impl std::fmt::Debug for Delay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Delay")
    }
}

/// The state of a timed run.
#[derive(Debug)]
pub struct State {
    /// Timed runs of the context before the one whose state it is.
    pub run: u32,
    /// Core cycle of that run.
    pub cycle: Cycle,
    /// The state.
    pub bytes: Vec<u8>,
}

/// Saves the state of timed runs.
#[derive(Clone)]
pub struct Save {
    /// Core cycles of a run from one state to the next.
    pub every: Cycle,
    /// Who gets each state, or why there is none.
    pub write: Arc<dyn Fn(std::io::Result<State>) + Send + Sync>,
}

impl std::fmt::Debug for Save {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Save every {}", self.every)
    }
}

/// Told now and then: cycle, blocks done, blocks in all.
pub type Progress<'p> = dyn Fn(Cycle, u64, u64) + Sync + 'p;
