//! What is written down of launches: a line each, at once, so that a program that crashes leaves them.

use std::fs::{File, OpenOptions};
use std::io::Write;

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
        let file = request.folder.as_ref().map(|folder| {
            let path = folder.join(format!("launches-{}.jsonl", std::process::id()));
            let file = OpenOptions::new().create(true).append(true).open(&path);
            file.map_err(|error| format!("{} cannot be written: {error}", path.display()))
        });
        Ok(Self { file: file.transpose()?, request, written: 0 })
    }

    /// Launches written down so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes the lines of a run; gives them.
    pub fn write(&mut self, device: &Device, run: &Run, stopped: Option<&SimError>) -> Vec<LaunchLine> {
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
