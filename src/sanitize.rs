//! `--check` and `--suppress`: what is looked for, and which findings of sanitizers do not count.

use std::path::Path;

use sim_core::monitor::Check;
use sim_core::options::MEMORY_MODEL;
use sim_core::sanitizer::findings::{Finding, Kind};
use sim_core::sanitizer::{Kinds, SanitizerReport};
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::workload::UndefinedValues;

use crate::files;

/// What `--check` names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Control flow and invariants of the simulator.
    pub check: Check,
    /// The memory consistency model.
    pub memory_model: bool,
    /// What sanitizers look for.
    pub sanitize: Kinds,
}

impl Checks {
    /// Parses kinds separated by commas.
    ///
    /// # Errors
    /// A name that is none, or `off` beside others.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut checks = Self::default();
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        for name in &names {
            if let Some(check) = Check::named(name) {
                if check == Check::Off && names.len() > 1 {
                    return Err("`off` cannot be combined with other checks".into());
                }
                checks.check = if checks.check == Check::Full { Check::Full } else { check };
            } else if *name == MEMORY_MODEL {
                checks.memory_model = true;
            } else if !checks.sanitize.add(name) {
                return Err(format!(
                    "unknown check `{name}`; available: off, safety, full, memory-model, races, sync, init, all"
                ));
            }
        }
        Ok(checks)
    }
}

/// What becomes of values that PTX leaves undefined in a program that was not written for the simulator: those that work on
/// hardware although they read such values work here, unless this is what is looked for.
pub fn undefined_in_programs(check: Check, sanitize: Kinds) -> UndefinedValues {
    if check == Check::Full || sanitize.sync { UndefinedValues::Fault } else { UndefinedValues::Zero }
}

/// A line of a source whose findings do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppression {
    /// The PTX or CUDA file, as its name ends.
    pub file: String,
    /// The line.
    pub line: u32,
}

impl Suppression {
    /// Reads `FILE:LINE`, or a file with one such line for each.
    ///
    /// # Errors
    /// What is no file and line.
    pub fn parse(text: &str) -> Result<Vec<Self>, Diagnostic> {
        let one = |text: &str| {
            let (file, line) = text.rsplit_once(':')?;
            let line = line.parse().ok()?;
            (!file.is_empty()).then(|| Self { file: file.to_string(), line })
        };
        if let Some(own) = one(text) {
            return Ok(vec![own]);
        }
        let listed = files::read_text(Path::new(text)).map_err(|error| {
            let message =
                format!("--suppress takes FILE:LINE or a file of such lines, not `{text}`: {error}");
            Diagnostic::error("suppress", message)
        })?;
        let mut all = Vec::new();
        for (number, line) in listed.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            all.push(one(line).ok_or_else(|| {
                let message = format!("{text}:{}: `{line}` is not FILE:LINE", number + 1);
                Diagnostic::error("suppress", message)
            })?);
        }
        Ok(all)
    }

    /// True if a place `file:line` is that of the suppression.
    fn is(&self, file: &str, line: u32) -> bool {
        let end = file.strip_suffix(self.file.as_str());
        line == self.line && end.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    }

    fn covers(&self, finding: &Finding) -> bool {
        finding.accesses.iter().any(|access| {
            let source = access.source.as_deref().and_then(|source| source.rsplit_once(':'));
            self.is(&access.place.file, access.place.line)
                || source.is_some_and(|(file, line)| line.parse().is_ok_and(|line| self.is(file, line)))
        })
    }
}

/// Removes the findings that are suppressed, says which suppressions have none, and why races are intended.
pub fn judge(report: &mut SanitizerReport, suppress: &[Suppression], intended: Option<&str>) {
    let mut used = vec![false; suppress.len()];
    let before = report.findings.len();
    report.findings.retain(|finding| {
        let mut covered = false;
        for (suppression, used) in suppress.iter().zip(&mut used) {
            let covers = suppression.covers(finding);
            *used |= covers;
            covered |= covers;
        }
        !covered
    });
    report.suppressed = (before - report.findings.len()) as u64;
    let unused = suppress.iter().zip(used).filter(|(_, used)| !used);
    report.unused_suppressions = unused.map(|(s, _)| format!("{}:{}", s.file, s.line)).collect();
    if report.findings.iter().any(|finding| finding.kind == Kind::Race) {
        report.intended_races = intended.map(str::to_string);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_checks_are_combined() {
        let all = Checks::parse("all").expect("a kind");
        assert_eq!((all.check, all.memory_model, all.sanitize), (Check::Safety, false, Kinds::ALL));
        let some = Checks::parse("full,races,memory-model").expect("kinds");
        assert_eq!((some.check, some.memory_model), (Check::Full, true));
        assert_eq!(some.sanitize.names(), ["races"]);
        assert_eq!(Checks::parse("full,safety").expect("kinds").check, Check::Full);
        assert!(Checks::parse("off,races").is_err_and(|error| error.contains("cannot be combined")));
        assert!(Checks::parse("race").is_err_and(|error| error.contains("races, sync, init, all")));
    }

    #[test]
    fn suppressions_name_files_by_their_ends() {
        let one = Suppression::parse("a/b.ptx:12").expect("a place");
        assert_eq!(one, [Suppression { file: "a/b.ptx".into(), line: 12 }]);
        assert!(one[0].is("dir/a/b.ptx", 12) && one[0].is("a/b.ptx", 12));
        assert!(!one[0].is("ba/b.ptx", 12) && !one[0].is("a/b.ptx", 13));
        assert!(Suppression::parse("there/is/no/file").is_err());
    }
}
