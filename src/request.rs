//! What is asked to be simulated: a program, a chip, and how. The command line, sweeps, studies and suites
//! make requests; [`Work::new`](crate::work::Work::new) finds what they name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sim_core::instruction_set::InstructionSet;
use sim_core::monitor::Check;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::sampling::Sampling;
use sim_core::sanitizer::Kinds;
use sim_core::sm::scheduler::WarpScheduler;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::workload::WorkloadSpec;

use crate::cuda::command::CudaCommand;
use crate::ptx_file::PtxLaunch;
use crate::sanitize::Suppression;
use crate::simulate::checkpoint::CheckpointRequest;

/// What is simulated.
#[derive(Clone, Debug)]
pub enum Program {
    /// A workload by its name, folder or `workload.yaml`.
    Workload(String),
    /// A workload that is no file, such as the launch of one kernel of a PTX file.
    Given {
        /// The workload.
        spec: Arc<WorkloadSpec>,
        /// The folder that names of files are relative to.
        folder: PathBuf,
        /// Arguments of its kernel as they were typed, for the report.
        args: Vec<String>,
    },
    /// A CUDA program with a `main`, by its command.
    Cuda(Box<CudaCommand>),
}

impl Program {
    /// A workload by its name, folder or file; a `.ptx` file, where its only kernel takes no arguments.
    ///
    /// # Errors
    /// What a launch of the file lacks.
    pub fn named(name: &str) -> Result<Self, Vec<Diagnostic>> {
        match is_ptx(name) {
            true => PtxLaunch { file: PathBuf::from(name), ..PtxLaunch::default() }.program(),
            false => Ok(Self::Workload(name.to_string())),
        }
    }
}

/// A name is that of a PTX file, not of a workload.
pub fn is_ptx(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "ptx")
}

/// A warp scheduler, and how it was written: reports repeat it.
#[derive(Clone, Debug)]
pub struct SchedulerChoice {
    /// The scheduler.
    pub scheduler: WarpScheduler,
    /// As it was written, `two_level` or `two_level:8`.
    pub written: String,
}

impl SchedulerChoice {
    /// Parses `lrr`, `gto`, `two_level[:N]`.
    ///
    /// # Errors
    /// A diagnostic that lists the names.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        Ok(Self { scheduler: WarpScheduler::parse(text)?, written: text.to_string() })
    }
}

/// A value that is changed: of a parameter of the workload by its name, of the chip by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// `n`, or `sm.branch_latency`.
    pub key: String,
    /// A number, or a value as the chip's file has it.
    pub value: String,
}

impl Setting {
    /// Parses `KEY=VALUE`.
    ///
    /// # Errors
    /// There is no `=`.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| Diagnostic::error("set", format!("--set takes KEY=VALUE, not `{text}`")))?;
        Ok(Self { key: key.to_string(), value: value.to_string() })
    }
}

/// A run that is asked for. [`Request::new`] leaves all but the program to defaults.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is simulated.
    pub program: Program,
    /// Which of the workload's PTX files; the newest the chip runs where nothing is said.
    pub variant: Option<String>,
    /// The chip, by its name or file; it follows from the program where nothing is said.
    pub chip: Option<String>,
    /// Reconvergence policy; the chip's where nothing is said.
    pub policy: Option<PolicyChoice>,
    /// Warp scheduler; the chip's where nothing is said.
    pub scheduler: Option<SchedulerChoice>,
    /// What is changed of the workload and the chip.
    pub set: Vec<Setting>,
    /// What the seeds of random contents are changed by.
    pub seed: u64,
    /// All launches run in the functional mode.
    pub functional: bool,
    /// Launches that run in the functional mode first.
    pub skip_launches: u64,
    /// Launches that are timed after those; the others run in the functional mode. All where nothing is said.
    pub time_launches: Option<u64>,
    /// Run-time checks.
    pub check: Check,
    /// Executions are checked against the memory consistency model of PTX.
    pub memory_model: bool,
    /// What sanitizers look for.
    pub sanitize: Kinds,
    /// Findings of sanitizers that do not count.
    pub suppress: Vec<Suppression>,
    /// Core cycles of all launches, launch latencies among them, after which to stop.
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
    /// Buffers whose final contents are kept.
    pub keep: Vec<String>,
    /// A folder to which the run is written, for another device.
    pub export: Option<PathBuf>,
    /// The run's state is saved from time to time, or the run goes on from one.
    pub checkpoint: Option<CheckpointRequest>,
    /// Worker threads of the engine.
    pub threads: usize,
    /// Core cycles of an epoch of the engine.
    pub epoch: Option<u64>,
    /// Instruction set of the host; the best where nothing is said.
    pub instruction_set: Option<InstructionSet>,
}

/// An error of samples as options have it: `1.5%`, or `1.5`.
///
/// # Errors
/// It is none.
pub fn sampling(text: &str) -> Result<Sampling, String> {
    let percent = text.strip_suffix('%').unwrap_or(text);
    Sampling::try_from(percent.parse::<f64>().map_err(|_| format!("`{text}` is no percentage"))?)
}

impl Request {
    /// A timed run on one thread, on the chip that follows from the program, with its defaults.
    pub fn new(program: Program) -> Self {
        Self {
            program,
            variant: None,
            chip: None,
            policy: None,
            scheduler: None,
            set: Vec::new(),
            seed: 0,
            functional: false,
            skip_launches: 0,
            time_launches: None,
            check: Check::Safety,
            memory_model: false,
            sanitize: Kinds::default(),
            suppress: Vec::new(),
            max_cycles: None,
            max_instructions: None,
            allow_newer_isa: false,
            profile: false,
            sample_every: None,
            sampling: None,
            keep: Vec::new(),
            export: None,
            checkpoint: None,
            threads: 1,
            epoch: None,
            instruction_set: None,
        }
    }
}
