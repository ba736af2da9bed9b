//! What sweeps, studies and suites run: a workload or a CUDA program, by one interface.

use serde_json::Value;
use sim_core::error::SimError;
use sim_frontend::diagnostic::Diagnostic;

use crate::cuda::{CudaRun, Outputs, code, summary};
use crate::interrupt::interrupted;
use crate::known::Known;
use crate::request::{Program, Request};
use crate::run::{Identity, Simulation, contradictions};

/// A run that is ready: what its request names has been found and read.
pub enum Work {
    /// A workload.
    Workload(Box<Simulation>),
    /// A CUDA program.
    Cuda(Box<CudaRun>),
}

/// What came of a run.
pub struct Done {
    /// `report.json`.
    pub report: Value,
    /// pass, fail, unchecked, fault or stopped.
    pub result: String,
    /// What was wrong, in one line.
    pub message: String,
    /// Host seconds: in the simulator for a workload, of the process for a program.
    pub seconds: f64,
    /// It says nothing of what was asked for: it was interrupted, or the host lacked memory.
    pub lost: Option<SimError>,
    /// The program was killed from outside, as whoever runs out of memory is: it says nothing either.
    pub killed: bool,
}

impl Work {
    /// Finds and reads what a request names.
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
        if let Program::Cuda(command) = &request.program {
            contradictions(&request).map_err(|error| vec![error])?;
            return Ok(Self::Cuda(Box::new(CudaRun::new(&request, command, known)?)));
        }
        Ok(Self::Workload(Box::new(Simulation::known(request, known)?)))
    }

    /// What identifies the run.
    ///
    /// # Errors
    /// A file that a program reads cannot be read.
    pub fn identity(&self, known: &Known) -> Result<Identity, Vec<Diagnostic>> {
        match self {
            Self::Workload(simulation) => Ok(simulation.identity(known)),
            Self::Cuda(run) => run.identity(),
        }
    }

    /// The chip's values as JSON.
    pub fn values(&self) -> String {
        match self {
            Self::Workload(simulation) => simulation.values(),
            Self::Cuda(run) => run.values(),
        }
    }

    /// Runs; what a program writes is kept from the terminal.
    ///
    /// # Errors
    /// Bad input that only the run finds.
    pub fn run(&self) -> Result<Done, Vec<Diagnostic>> {
        match self {
            Self::Workload(simulation) => {
                let (report, seconds, stopped) = simulation.run()?;
                let (result, message) = match &stopped {
                    Some(error @ SimError::Stopped(_)) => ("fault", first_line(&error.to_string())),
                    Some(error) => ("stopped", first_line(&error.to_string())),
                    None => (report.result, report.difference.clone().unwrap_or_default()),
                };
                let lost = stopped
                    .filter(|error| matches!(error, SimError::Interrupted | SimError::MaxMemory { .. }));
                let value = serde_json::to_value(&report);
                let report = value.map_err(|error| vec![Diagnostic::error("report", error.to_string())])?;
                Ok(Done { report, result: result.into(), message, seconds, lost, killed: false })
            }
            Self::Cuda(run) => {
                let ended = run.run(&Outputs::default())?;
                let (result, message) = run.verdict(&ended);
                let (name, words) = (run.name(), run.words());
                let code = code(ended.status);
                let program =
                    summary::Program { name: &name, words: &words, code, result, message: &message };
                let report = summary::report(&program, run.configured(), &ended.launches);
                let lost = interrupted().then_some(SimError::Interrupted);
                let seconds = ended.time.as_secs_f64();
                let killed = ended.killed();
                Ok(Done { report, result: result.into(), message, seconds, lost, killed })
            }
        }
    }
}

impl Done {
    /// The kernels in the order of their launches: names, core cycles, warp instructions.
    pub fn kernels(&self) -> Vec<(String, u64, u64)> {
        let list = self.report["kernels"].as_array().map_or(&[][..], Vec::as_slice);
        let of = |kernel: &Value| {
            let number = |key: &str| kernel[key].as_u64().unwrap_or(0);
            (
                kernel["name"].as_str().unwrap_or_default().to_string(),
                number("cycles"),
                number("warp_instructions"),
            )
        };
        list.iter().map(of).collect()
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}
