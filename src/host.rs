//! What a run cost the host: `host.json`, kept apart from simulated facts.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Facts of the host.
#[derive(Clone, Debug, Serialize)]
pub struct HostReport {
    /// Seconds inside the simulator, from each synchronisation's first launch to its last.
    pub seconds: f64,
    /// Seconds of the whole job: program, buffers, simulation, references, checks.
    pub job_seconds: f64,
    /// Warp instructions, functional ones included, per second.
    pub warp_instructions_per_second: f64,
    /// Most memory the process had.
    pub peak_memory_bytes: u64,
    /// Number of worker threads.
    pub threads: usize,
    /// Host instruction set of the lanes.
    pub instruction_set: &'static str,
    /// Digest of report.json: the first 64 bits of its SHA-256. The same on every host.
    pub report_digest: String,
}

/// Measures a run.
pub struct Meter(Instant);

impl Meter {
    /// Starts the clock.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Stops the clock and returns the measurements.
    pub fn stop(
        &self,
        simulated: Duration,
        warp_instructions: u64,
        threads: usize,
        instruction_set: &'static str,
    ) -> HostReport {
        let seconds = simulated.as_secs_f64();
        HostReport {
            seconds,
            job_seconds: self.0.elapsed().as_secs_f64(),
            warp_instructions_per_second: warp_instructions as f64 / seconds.max(1e-9),
            peak_memory_bytes: peak_memory(),
            threads,
            instruction_set,
            report_digest: String::new(),
        }
    }
}

/// The kernel's high-water mark of resident memory; 0 where it does not say.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
