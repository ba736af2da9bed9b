//! Slurm's commands: what is submitted, what is queued or running, what is cancelled.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::files;

/// A job that is submitted: options of sbatch, and its script.
pub struct Job {
    /// Options.
    pub options: Vec<String>,
    /// The script.
    pub script: String,
}

impl Job {
    /// The command line and the script, for people.
    pub fn shown(&self) -> String {
        let words = std::iter::once("sbatch").chain(self.options.iter().map(String::as_str));
        let words: Vec<String> = words.map(quoted).collect();
        format!("{} <<'END'\n{}END", words.join(" "), self.script)
    }

    /// Submits it; gives its number.
    ///
    /// # Errors
    /// Slurm is not there, or refuses it; in words.
    pub fn submit(&self) -> Result<String, String> {
        let unstarted = |error: std::io::Error| {
            format!(
                "sbatch cannot be started: {}: Slurm's commands must be on the PATH; without Slurm, `warpsim sweep work \
                 DIR` on any number of hosts does the same",
                files::reason(&error)
            )
        };
        let mut command = Command::new("sbatch");
        command.args(&self.options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(unstarted)?;
        // What it did not read it refuses.
        let _ = child.stdin.take().map(|mut to| to.write_all(self.script.as_bytes()));
        let output = child.wait_with_output().map_err(unstarted)?;
        let said = String::from_utf8_lossy(&output.stdout);
        // `JOB` or `JOB;CLUSTER`.
        let job = said.trim().split(';').next().unwrap_or_default();
        match output.status.success() && !job.is_empty() && job.bytes().all(|b| b.is_ascii_digit()) {
            true => Ok(job.to_string()),
            false => Err(format!("sbatch refused the job: {}", words(&output))),
        }
    }
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_string(), std::borrow::Cow::into_owned)
}

fn words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.is_empty() {
        true => format!("it ended with {} and said nothing", output.status),
        false => lines.join("; "),
    }
}

/// The user's jobs that are queued or running: numbers of their tasks in each state, by the number of the job.
///
/// # Errors
/// Slurm is not there, or does not answer; in words.
pub fn queue() -> Result<BTreeMap<String, BTreeMap<String, usize>>, String> {
    let output = Command::new("squeue").args(["--me", "--noheader", "--array", "--format=%F %T"]).output();
    let output = output.map_err(|error| format!("squeue cannot be started: {}", files::reason(&error)))?;
    if !output.status.success() {
        return Err(format!("squeue does not answer: {}", words(&output)));
    }
    let mut jobs: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some((job, state)) = line.trim().split_once(' ') {
            let states = jobs.entry(job.to_string()).or_default();
            *states.entry(state.trim().to_lowercase()).or_default() += 1;
        }
    }
    Ok(jobs)
}

/// Cancels jobs.
///
/// # Errors
/// Slurm is not there, or refuses it; in words.
pub fn cancel(jobs: &[String]) -> Result<(), String> {
    let output = Command::new("scancel").args(jobs).output();
    let output = output.map_err(|error| format!("scancel cannot be started: {}", files::reason(&error)))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("scancel refused: {}", words(&output))),
    }
}
