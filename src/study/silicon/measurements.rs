//! What was measured of whole kernels on hardware: the format of data/silicon.yaml.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use regex::Regex;
use serde::{Deserialize, Serialize};
use sim_frontend::diagnostic::{Diagnostic, Source};

use super::classes::Pipes;

pub(super) const DATA: &str = include_str!("../../../data/silicon.yaml");

/// The file of measurements.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// Version of the format: 1.
    pub(super) schema: u32,
    /// What the short names of sources mean.
    pub(super) sources: BTreeMap<String, String>,
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) programs: Vec<Measured>,
    /// Runs of workloads.
    #[serde(default)]
    pub(super) workloads: Vec<MeasuredRun>,
}

/// A machine that was measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    /// The chip that stands for it.
    pub(super) chip: String,
    /// Values of the chip that the measurement needs, `PATH=VALUE`.
    #[serde(default)]
    pub(super) set: Vec<String>,
    /// Core cycles that its profiler counts of a kernel that does nothing; they are added to the simulator's.
    #[serde(default)]
    pub(super) launch_cycles: f64,
    pub(super) source: String,
}

/// A run of a workload whose kernels were measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredRun {
    /// As it is typed after `warpsim run`.
    pub(super) run: String,
    pub(super) kernels: Vec<MeasuredLaunch>,
}

/// A launch of a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredLaunch {
    pub(super) kernel: String,
    /// Its number among all launches of the run, from 0.
    pub(super) launch: usize,
    /// By machine.
    pub(super) measured: BTreeMap<String, Counts>,
}

/// A program whose kernels were measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    pub(super) program: String,
    #[serde(default)]
    pub(super) arguments: String,
    /// The folder in which it runs, below a temporary one.
    #[serde(default)]
    pub(super) folder: String,
    /// What it reads, below the same temporary folder.
    #[serde(default)]
    pub(super) files: Vec<Input>,
    pub(super) kernels: Vec<Kernel>,
}

/// A text file: a header, and lines of integers that go round in a span.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pub(super) path: String,
    #[serde(default)]
    pub(super) header: String,
    pub(super) lines: u32,
    pub(super) first: u32,
    pub(super) span: u32,
}

/// A kernel.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kernel {
    /// Regular expression that its PTX name matches.
    pub(super) kernel: String,
    /// The launches that are timed, by their numbers from 0, such as `0,5-7`. Default: all.
    #[serde(default)]
    pub(super) launches: Option<String>,
    /// By machine.
    pub(super) measured: BTreeMap<String, Counts>,
}

/// What a profiler counts, averaged over launches; what it did not count is left out.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Counts {
    /// Core cycles.
    pub(super) cycles: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warp_instructions: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) l1_read_hits: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) l1_read_misses: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shared_accesses: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) l2_read_hits: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) l2_read_misses: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dram_read_sectors: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dram_written_sectors: Option<f64>,
    /// Executed warp instructions by pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pipes: Option<Pipes>,
}

impl Counts {
    /// Per cent of the reads of L1 that hit.
    pub(super) fn l1_hits(&self) -> Option<f64> {
        percent(self.l1_read_hits?, self.l1_read_misses?)
    }

    /// Sectors that DRAM reads and writes.
    pub(super) fn dram_sectors(&self) -> Option<f64> {
        Some(self.dram_read_sectors? + self.dram_written_sectors?)
    }
}

/// Per cent of `part` in both; none of nothing.
fn percent(part: f64, rest: f64) -> Option<f64> {
    (part + rest > 0.0).then(|| 100.0 * part / (part + rest))
}

/// An error of the study.
pub(super) fn wrong(message: impl Into<String>) -> Vec<Diagnostic> {
    vec![Diagnostic::error("silicon", message.into())]
}

/// The measurements, checked as far as no program is needed.
pub(super) fn read(source: &Source) -> Result<File, Vec<Diagnostic>> {
    let file: File = sim_frontend::yaml::read(source).map_err(|error| vec![error])?;
    let bad = |message: String| wrong(format!("{}: {message}", source.name));
    if file.schema != 1 {
        return Err(bad(format!("schema {} is not known; this version reads schema 1", file.schema)));
    }
    for (name, machine) in &file.machines {
        if !file.sources.contains_key(&machine.source) {
            return Err(bad(format!("the source `{}` of `{name}` is not listed", machine.source)));
        }
    }
    for measured in &file.programs {
        for path in measured.files.iter().map(|input| &input.path).chain([&measured.folder]) {
            let below = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
            if !Path::new(path).components().all(below) {
                return Err(bad(format!("`{path}` does not lie below the folder of the run")));
            }
        }
        if measured.files.iter().any(|input| input.span == 0) {
            return Err(bad(format!("a file of `{}` has the span 0; it is at least 1", measured.program)));
        }
        for kernel in &measured.kernels {
            Regex::new(&kernel.kernel).map_err(|error| bad(error.to_string()))?;
            for (machine, counts) in &kernel.measured {
                if !file.machines.contains_key(machine) {
                    return Err(bad(format!("the machine `{machine}` of `{}` is not listed", kernel.kernel)));
                }
                if counts.cycles <= 0.0 {
                    return Err(bad(format!("`{}` on `{machine}` has no cycles", kernel.kernel)));
                }
            }
        }
    }
    for kernel in file.workloads.iter().flat_map(|run| &run.kernels) {
        for (machine, counts) in &kernel.measured {
            if !file.machines.contains_key(machine) {
                return Err(bad(format!("the machine `{machine}` of `{}` is not listed", kernel.kernel)));
            }
            if counts.cycles <= 0.0 {
                return Err(bad(format!("`{}` on `{machine}` has no cycles", kernel.kernel)));
            }
        }
    }
    Ok(file)
}

impl Kernel {
    /// As `cuda --time` has it.
    pub(super) fn rule(&self) -> String {
        self.launches.as_ref().map_or(self.kernel.clone(), |launches| format!("{}:{launches}", self.kernel))
    }
}

impl Input {
    pub(super) fn text(&self) -> String {
        let mut text = self.header.clone();
        for line in 0..self.lines {
            let _ = writeln!(text, "{}", self.first + line % self.span);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::run::request_of;
    use crate::known::Known;
    use crate::request::Setting;

    fn error(text: &str) -> String {
        match read(&Source::new("m.yaml", text)) {
            Ok(_) => panic!("it is right"),
            Err(errors) => errors[0].to_string(),
        }
    }

    #[test]
    fn the_shipped_measurements_are_whole() {
        let file = read(&Source::new("data/silicon.yaml", DATA)).unwrap_or_else(|e| panic!("{}", e[0]));
        let rows: usize = file.programs.iter().flat_map(|p| &p.kernels).map(|k| k.measured.len()).sum();
        let launches: usize =
            file.workloads.iter().flat_map(|run| &run.kernels).map(|k| k.measured.len()).sum();
        assert_eq!((rows, launches), (55, 105));
        for run in &file.workloads {
            let words: Vec<String> = run.run.split_whitespace().map(str::to_string).collect();
            let request = request_of(&words).and_then(crate::run::Simulation::new);
            assert!(request.is_ok(), "{}", run.run);
        }
        for machine in file.machines.values() {
            let known = Known::default();
            let set: Vec<Setting> =
                machine.set.iter().map(|text| Setting::parse(text).expect("a setting")).collect();
            let set: Vec<(&str, &str)> = set.iter().map(|s| (s.key.as_str(), s.value.as_str())).collect();
            assert!(known.chip(&machine.chip, &set).is_ok(), "{machine:?}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_said() {
        let text = |machine: &str, kernel: &str, cycles: &str, path: &str| {
            format!(
                "schema: 1\nsources: {{s: x}}\nmachines: {{m: {{chip: qv100, source: {machine}}}}}\nprograms:\n\
                 - program: p\n  files: [{{path: {path}, lines: 1, first: 0, span: 1}}]\n  kernels:\n\
                 \x20 - {{kernel: '{kernel}', measured: {{m: {{cycles: {cycles}}}}}}}\n"
            )
        };
        assert!(read(&Source::new("m.yaml", &text("s", "k", "1", "a/b"))).is_ok());
        assert!(error(&text("t", "k", "1", "a")).contains("source `t`"));
        assert!(error(&text("s", "(", "1", "a")).contains("regex"));
        assert!(error(&text("s", "k", "0", "a")).contains("no cycles"));
        assert!(error(&text("s", "k", "1", "a").replace("span: 1", "span: 0")).contains("span 0"));
        assert!(error(&text("s", "k", "1", "../a")).contains("does not lie below"));
        assert!(error(&text("s", "k", "1", "/a")).contains("does not lie below"));
        assert!(
            error(&text("s", "k", "1", "a").replace("{m: {cycles", "{n: {cycles")).contains("machine `n`")
        );
        assert!(error(&text("s", "k", "1", "a").replace("schema: 1", "schema: 2")).contains("schema 2"));
        assert!(error(&text("s", "k", "1", "a").replace("cycles", "clocks")).contains("clocks"));
    }

    #[test]
    fn inputs_are_written() {
        let input = Input { path: "a".into(), header: "P2\n".into(), lines: 5, first: 7, span: 2 };
        assert_eq!(input.text(), "P2\n7\n8\n7\n8\n7\n");
    }
}
