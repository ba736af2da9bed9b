//! What passes between `warpsim cuda` and the runtime within the program that it runs: the request in the
//! environment, and a line for each launch in files of a folder. A program that crashes leaves what it had measured.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim_core::error::SimError;
use sim_core::report::{SampledReport, UndefinedReport};
use sim_core::sanitizer::SanitizerReport;
use sim_core::sanitizer::findings::{Finding, Kind};

use super::{Device, DeviceRequest, Run};
use crate::figures::Figures;
use crate::machine::Machine;
use crate::report_file::{Report, SCHEMA, Stopped};

/// The variable of the environment that holds a [`ProgramRequest`] as JSON.
pub const ENVIRONMENT: &str = "WARPSIM_CUDA";

/// What a program's runtime is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProgramRequest {
    /// The device.
    pub device: DeviceRequest,
    /// Name of the program, for reports.
    pub program: String,
    /// Where lines are written; nowhere where nothing is said.
    pub folder: Option<PathBuf>,
    /// Lines have the whole report of their launch.
    pub sections: bool,
    /// Launches that are timed, as [`Selection`](super::selection::Selection) has them, where not all are.
    pub time: Vec<String>,
    /// Functional launches before a timed one that warm L2.
    pub warm: usize,
    /// Where launches are written down as workloads: those of `time`, or all.
    pub record: Option<PathBuf>,
    /// The folder of a checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// The runs of the checkpoint are not simulated again.
    pub from: bool,
    /// Further runs are added to the checkpoint.
    pub keep: bool,
}

/// Libraries of machine code, by the beginnings of their file names.
const CLOSED_LIBRARIES: [(&str, &str); 11] = [
    ("libcublas", "cuBLAS"),
    ("libcudnn", "cuDNN"),
    ("libcufft", "cuFFT"),
    ("libcurand", "cuRAND"),
    ("libcusolver", "cuSOLVER"),
    ("libcusparse", "cuSPARSE"),
    ("libcutensor", "cuTENSOR"),
    ("libnccl", "NCCL"),
    ("libnvinfer", "TensorRT"),
    ("libnvjpeg", "nvJPEG"),
    ("libnpp", "NPP"),
];

/// The name of the library of a file, where it is one of machine code: its kernels cannot run here.
pub fn closed_library(file: &str) -> Option<&'static str> {
    CLOSED_LIBRARIES.iter().find(|(begin, _)| file.starts_with(begin)).map(|(_, name)| *name)
}

/// A launch that ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchLine {
    /// Its number, from 0.
    pub launch: u64,
    /// The kernel.
    pub kernel: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Number of its stream; 0 is the default stream.
    pub stream: u32,
    /// It ran without timing.
    pub functional: bool,
    /// Core cycles from its first dispatch to its last block's end.
    pub cycles: u64,
    /// What of it was timed, where it was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledReport>,
    /// Time of these cycles.
    pub time_us: f64,
    /// Simulated time of the program at which it was launched.
    pub launched_us: f64,
    /// Issues of source instructions by a split.
    pub warp_instructions: u64,
    /// Lanes of these issues whose guard was true.
    pub thread_instructions: u64,
    /// Instructions that read values which PTX leaves undefined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undefined_values: Vec<UndefinedReport>,
    /// What sanitizers have found in the run of the device that it was part of, where this is its first launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sanitizers: Option<Box<Sanitized>>,
    /// What stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// It was a limit that stopped it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limit: bool,
    /// The run of the device that it was part of, by the number of that run's first launch.
    #[serde(default)]
    pub run: u64,
    /// Counters of that run, where this is its first launch and it was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Box<Figures>>,
    /// The report of the run it was part of: its own, but where launches of several streams ran together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<Value>,
}

/// What sanitizers have found in a run, as it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sanitized {
    /// Accesses that were looked at.
    pub accesses: u64,
    /// Of these, those whose races with later ones may have been missed.
    pub forgotten: u64,
    /// Findings beyond the number that is kept.
    pub more: u64,
    /// The findings.
    pub findings: Vec<Told>,
    /// Memory of `malloc` that was not freed when the run was over; a later one of the process may free it.
    pub leaks: Vec<Told>,
}

/// A finding as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Its kind and the lines of its instructions: findings in which they are the same are one.
    pub what: String,
    /// How often.
    pub count: u64,
    /// The first example, in some lines of text.
    pub text: String,
}

impl Told {
    fn of(finding: &Finding) -> Self {
        let places = finding.accesses.iter().map(|access| {
            let place = &access.place;
            format!(" {}:{}:{}", place.kernel, place.file, place.line)
        });
        let once = Finding { count: 1, ..finding.clone() };
        Self {
            what: std::iter::once(format!("{:?}", finding.kind)).chain(places).collect(),
            count: finding.count,
            text: once.to_string(),
        }
    }
}

impl Sanitized {
    /// What a report has.
    fn of(report: &SanitizerReport) -> Self {
        let (leaks, findings) =
            report.findings.iter().partition::<Vec<_>, _>(|finding| finding.kind == Kind::Leak);
        let told = |findings: Vec<&Finding>| findings.into_iter().map(Told::of).collect();
        Self {
            accesses: report.accesses,
            forgotten: report.forgotten,
            more: report.more,
            findings: told(findings),
            leaks: told(leaks),
        }
    }

    /// Adds what a later run of the process has.
    pub fn add(&mut self, later: &Self) {
        self.accesses += later.accesses;
        self.forgotten += later.forgotten;
        self.more += later.more;
        for finding in &later.findings {
            match self.findings.iter_mut().find(|own| own.what == finding.what) {
                Some(own) => own.count += finding.count,
                None => self.findings.push(finding.clone()),
            }
        }
        self.leaks.clone_from(&later.leaks);
    }

    /// No later run of the process frees anything.
    pub fn end(&mut self) {
        self.findings.append(&mut self.leaks);
    }

    /// True if there are findings.
    pub fn is_wrong(&self) -> bool {
        self.more > 0 || !self.findings.is_empty()
    }
}

impl Device {
    /// The report of a run of a program on this device, as `report.json` has it.
    pub fn section(&self, program: &str, run: &Run, stopped: Option<&SimError>) -> Report {
        let configured = self.configured();
        Report {
            schema: SCHEMA,
            workload: program.to_string(),
            variant: "cuda".to_string(),
            chip: configured.chip.name.clone(),
            chip_file: configured.chip_file.clone(),
            chosen: None,
            policy: configured.options.policy.canonical(),
            scheduler: configured.scheduler.clone(),
            check: configured.options.check_name(),
            params: sim_frontend::workload::Params::default(),
            args: Vec::new(),
            seed: 0,
            set: configured.set.clone(),
            allow_newer_isa: configured.options.allow_newer_isa,
            result: if stopped.is_some() { "stopped" } else { "unchecked" },
            difference: None,
            stopped: stopped.cloned().map(Stopped::of),
            contents: None,
            machine: Machine::of(&configured.chip),
            listing: None,
            device: run.report.clone(),
        }
    }

    /// The lines of the launches of a run.
    pub fn lines(&self, request: &ProgramRequest, run: &Run, stopped: Option<&SimError>) -> Vec<LaunchLine> {
        let timed = run.report.cycles > 0;
        let section =
            |()| serde_json::to_value(self.section(&request.program, run, stopped)).unwrap_or_default();
        let section = request.sections.then_some(()).map(section);
        let limit = matches!(
            stopped,
            Some(SimError::MaxCycles { .. } | SimError::MaxInstructions { .. } | SimError::MaxMemory { .. })
        );
        let line = |(i, kernel): (usize, &sim_core::report::KernelReport)| LaunchLine {
            launch: run.first + i as u64,
            kernel: kernel.name.clone(),
            grid: kernel.grid,
            block: kernel.block,
            stream: kernel.stream,
            functional: kernel.functional,
            cycles: kernel.cycles,
            sampled: kernel.sampled,
            time_us: kernel.time_us.micros(),
            launched_us: run.start.micros(),
            warp_instructions: kernel.warp_instructions,
            thread_instructions: kernel.thread_instructions,
            undefined_values: kernel.undefined_values.clone(),
            sanitizers: run
                .report
                .sanitizers
                .as_ref()
                .filter(|_| i == 0)
                .map(|report| Box::new(Sanitized::of(report))),
            stopped: stopped.map(ToString::to_string),
            limit,
            run: run.first,
            figures: (timed && i == 0).then(|| Box::new(Figures::of(&run.report))),
            section: section.clone(),
        };
        run.report.kernels.iter().enumerate().map(line).collect()
    }
}
