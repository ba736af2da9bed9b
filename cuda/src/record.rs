//! What is written down of launches: a line each, at once, so that a program that crashes leaves them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use sim_core::error::SimError;
use warpsim::device::program::{ENVIRONMENT, LaunchLine, ProgramRequest};
use warpsim::device::{Device, Run};

/// Writes lines to a file of the process.
#[derive(Default)]
pub struct Recorder {
    /// What was asked for.
    pub request: ProgramRequest,
    file: Option<File>,
    /// Lines written so far: launches are numbered through, also after a reset of the device.
    written: u64,
    /// Where the host's time in the simulation is written, after each run; for benchmarks.
    pace: Option<File>,
}

/// The variable of the environment that names a file for the seconds that the host has spent in simulation.
const PACE: &str = "WARPSIM_CUDA_PACE";

fn appended(path: &Path) -> Result<File, String> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

impl Recorder {
    /// As the environment asks for it.
    ///
    /// # Errors
    /// The variable is no request, or its folder cannot be written, in words.
    pub fn from_environment() -> Result<Self, String> {
        let Ok(text) = std::env::var(ENVIRONMENT) else { return Ok(Self::default()) };
        let request: ProgramRequest = serde_json::from_str(&text)
            .map_err(|error| format!("{ENVIRONMENT} is not a request: {error}"))?;
        let name = format!("launches-{}.jsonl", std::process::id());
        let file = request.folder.as_ref().map(|folder| appended(&folder.join(name)));
        let pace = std::env::var_os(PACE).map(|path| appended(Path::new(&path)));
        Ok(Self { file: file.transpose()?, request, written: 0, pace: pace.transpose()? })
    }

    /// Launches written down so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes the lines of a run; gives them.
    pub fn write(&mut self, device: &Device, run: &Run, stopped: Option<&SimError>) -> Vec<LaunchLine> {
        if let Some(Err(error)) =
            self.pace.as_mut().map(|pace| writeln!(pace, "{}", device.simulated().as_secs_f64()))
        {
            eprintln!("warpsim: the time of the simulation cannot be written down: {error}");
        }
        if self.file.is_none() && self.request.checkpoint.is_none() {
            self.written += run.report.kernels.len() as u64;
            return Vec::new();
        }
        let first = self.written;
        let mut lines = device.lines(&self.request, run, stopped);
        for line in &mut lines {
            line.launch = self.written;
            line.run = first;
            self.written += 1;
            self.put(line);
        }
        lines
    }

    /// Writes lines as an earlier run of the program had them.
    pub fn repeat(&mut self, lines: Vec<LaunchLine>) {
        self.written += lines.len() as u64;
        for mut line in lines {
            if !self.request.sections {
                line.section = None;
            }
            self.put(&line);
        }
    }

    fn put(&mut self, line: &LaunchLine) {
        let Some(file) = &mut self.file else { return };
        let written = serde_json::to_string(line).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|line| file.write_all((line + "\n").as_bytes())) {
            eprintln!("warpsim: launches cannot be written down: {error}");
        }
    }
}
