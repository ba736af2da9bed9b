//! What a page is made of: reports of runs, tables of sweeps, policy studies, told apart by what they hold.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::files;
use crate::findings::{self, Answer};
use crate::metrics;
use crate::report_file::is_report;
use crate::sweep::table::{Sweep, read_table};
use crate::validation;

/// A run: `report.json` of `warpsim run`.
#[derive(Serialize)]
struct Run {
    name: String,
    /// The metrics it has.
    figures: BTreeMap<&'static str, f64>,
    /// What bounds it, and what else cost it time.
    answer: Answer,
    /// What of the chip's model was compared with hardware.
    model: Option<String>,
    report: Value,
}

/// A policy study: what `warpsim study policies --json` prints.
#[derive(Serialize)]
pub struct Study {
    /// Name.
    pub name: String,
    /// A row for each workload and policy.
    pub rows: Value,
}

/// Everything on a page.
#[derive(Default, Serialize)]
pub struct Results {
    runs: Vec<Run>,
    sweeps: Vec<Sweep>,
    studies: Vec<Study>,
}

/// The name of a file without what all such files are called.
fn name(path: &Path) -> String {
    let words = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let stem = path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    match stem.as_str() {
        "report" | "table" => path.parent().and_then(words).unwrap_or(stem),
        _ => stem,
    }
}

impl Results {
    /// Adds what a file or folder holds.
    ///
    /// # Errors
    /// It cannot be read, or is nothing a page can show.
    pub fn add(&mut self, path: &Path) -> Result<(), String> {
        if path.is_dir() {
            let inside = ["report.json", "table.csv"].map(|file| path.join(file));
            return match inside.iter().find(|file| file.exists()) {
                Some(file) => self.add(file),
                None if path.join("points").is_dir() => Err(format!(
                    "{}: the sweep has no table yet; `warpsim sweep collect` creates it",
                    path.display()
                )),
                None => Err(format!("{}: there is neither report.json nor table.csv", path.display())),
            };
        }
        if path.extension().is_some_and(|extension| extension == "csv") {
            self.sweeps.push(read_table(&name(path), path)?);
            return Ok(());
        }
        let value: Value = files::read_json(path)?;
        let missing = ["cycles", "stalls"].into_iter().find(|key| value.get(key).is_none());
        if value.is_object() && missing.is_none() {
            is_report(path, &value)?;
        }
        let is_run = value.get("cycles").is_some_and(Value::is_u64) && value.get("stalls").is_some();
        let is_study = value.as_array().is_some_and(|rows| {
            !rows.is_empty()
                && rows
                    .iter()
                    .all(|row| ["workload", "policy", "result"].iter().all(|key| row[key].is_string()))
        });
        let launches = value["launches"].as_array().filter(|_| value.get("command").is_some());
        match (is_run, is_study) {
            (true, _) if launches.is_some() => self.add_program(path, launches.map_or(&[], Vec::as_slice))?,
            (true, _) => self.add_run(name(path), value),
            (_, true) => self.studies.push(Study { name: name(path), rows: value }),
            _ => {
                let missing = missing.filter(|_| value.is_object());
                let missing = missing.map_or(String::new(), |key| format!(", as it has no key `{key}`"));
                return Err(format!(
                    "{}: this is neither a report.json of `run`{missing}, nor the output of `study policies --json`, \
                     nor a table of `sweep collect`",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    /// Adds the runs of a CUDA program's launches; those of launches that ran together are one.
    fn add_program(&mut self, path: &Path, launches: &[Value]) -> Result<(), String> {
        let timed = launches
            .iter()
            .filter(|launch| launch["launch"] == launch["run"] && launch["functional"] == false);
        let timed: Vec<&Value> = timed.filter(|launch| launch["section"].is_object()).collect();
        if timed.is_empty() {
            return Err(format!("{}: the program has no timed launch", path.display()));
        }
        for launch in timed {
            let kernel = launch["kernel"].as_str().unwrap_or_default();
            let number = launch["launch"].as_u64().unwrap_or_default();
            self.add_run(format!("{number:04} {kernel}"), launch["section"].clone());
        }
        Ok(())
    }

    /// Adds a run.
    pub fn add_run(&mut self, name: String, report: Value) {
        let figures = metrics::of(&report).map(|(metric, value)| (metric.name, value)).collect();
        // Two runs of one name are told apart.
        let taken = |name: &str| self.runs.iter().any(|run| run.name == name);
        let name = match (1..)
            .map(|n| if n == 1 { name.clone() } else { format!("{name} ({n})") })
            .find(|n| !taken(n))
        {
            Some(free) => free,
            None => name,
        };
        let answer = findings::answer(&report);
        let model = validation::line(&report);
        self.runs.push(Run { name, figures, answer, model, report });
    }

    /// Adds a sweep.
    pub fn add_sweep(&mut self, sweep: Sweep) {
        self.sweeps.push(sweep);
    }

    /// Adds a policy study.
    pub fn add_study(&mut self, study: Study) {
        self.studies.push(study);
    }

    /// A title for the page.
    pub fn title(&self) -> String {
        let one = |key: &str, run: &Run| run.report[key].as_str().unwrap_or("?").to_string();
        match (self.runs.as_slice(), self.sweeps.as_slice(), self.studies.as_slice()) {
            ([run], [], []) => format!("{} on {}", one("workload", run), one("chip", run)),
            ([], [sweep], []) => format!("Sweep {}", sweep.name),
            ([], [], [_]) => "Reconvergence policies".to_string(),
            _ => "Simulated results".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_what_tells_them_apart() {
        assert_eq!(name(Path::new("out/a/report.json")), "a");
        assert_eq!(name(Path::new("out/table.csv")), "out");
        assert_eq!(name(Path::new("out/first.json")), "first");
        assert_eq!(name(Path::new("report.json")), "report");
    }

    #[test]
    fn runs_of_one_name_are_told_apart() {
        let mut results = Results::default();
        for _ in 0..3 {
            results.add_run("a".into(), serde_json::json!({"cycles": 5}));
        }
        let names: Vec<&str> = results.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names, ["a", "a (2)", "a (3)"]);
        assert_eq!(results.runs[0].figures["cycles"], 5.0);
    }
}
