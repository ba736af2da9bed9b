//! `warpsim baseline check`: red or green, and what moved.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::history;
use super::record::{Baseline, beside};
use super::suite::{Measured, Suite};
use crate::cli::baseline::BaselineCheckArgs;
use crate::compare::{Moved, moved};
use crate::console::{complain, status, table};
use crate::contents::differing;
use crate::files;
use crate::kernels::paired;
use crate::study::jobs;

/// What became of a run.
struct Verdict {
    run: String,
    /// Why it is red; empty where it is green.
    reasons: Vec<String>,
    /// Every figure that moved, the ones that may too.
    moved: Vec<Moved>,
}

/// Checks; gives the exit status.
pub fn check(args: &BaselineCheckArgs) -> u8 {
    let suite = match Suite::load(&args.suite.suite) {
        Ok(suite) => suite,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let file = args.suite.file.clone().unwrap_or_else(|| beside(&args.suite.suite));
    let baseline = match Baseline::load(&file) {
        Ok(baseline) => baseline,
        Err(message) => {
            eprintln!("error: {message}");
            return status::BAD_INPUT;
        }
    };
    let junit_file = args.junit.iter().try_for_each(|path| files::probe(path));
    let history_file = || args.history.iter().try_for_each(|path| history::probe(path));
    if let Err(message) = junit_file.and_then(|()| history_file()) {
        eprintln!("error: {message}");
        return status::BAD_INPUT;
    }
    let now = match suite.simulate(jobs(args.suite.jobs)) {
        Ok(now) => now,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let mut verdicts: Vec<Verdict> = now.iter().map(|run| judge(&suite, &baseline, run)).collect();
    // A run that is not there any more is one that nobody looks at.
    for gone in baseline.runs.iter().filter(|old| !suite.runs.contains(&old.run)) {
        let reasons = vec![
            "in the baseline but not in the suite; if intended, run `warpsim baseline record`".to_string(),
        ];
        verdicts.push(Verdict { run: gone.run.clone(), reasons, moved: Vec::new() });
    }
    if args.suite.host {
        for verdict in &mut verdicts {
            if let Err(errors) = judge_host(&suite, &baseline, verdict) {
                complain(&errors);
                return status::BAD_INPUT;
            }
        }
    }
    if let Some(path) = &args.history
        && let Err(error) = history::append(path, &suite.name, &now)
    {
        eprintln!("error: {}", files::unwritable(path, &error));
        return status::BAD_INPUT;
    }
    if let Some(path) = &args.junit {
        let written = junit(&suite, &verdicts).to_string().map_err(|error| error.to_string());
        let written =
            written.and_then(|text| files::write(path, text.as_bytes()).map_err(|error| error.to_string()));
        if let Err(error) = written {
            eprintln!("error: {}", files::unwritable(path, &error));
            return status::BAD_INPUT;
        }
    }
    print(&suite, &baseline, &verdicts);
    if verdicts.iter().all(|verdict| verdict.reasons.is_empty()) { status::DONE } else { status::DIFFERS }
}

fn judge(suite: &Suite, baseline: &Baseline, now: &Measured) -> Verdict {
    let run = now.run.clone();
    let Some(old) = baseline.runs.iter().find(|old| old.run == run) else {
        let reasons = vec!["not in the baseline; run `warpsim baseline record`".to_string()];
        return Verdict { run, reasons, moved: Vec::new() };
    };
    let mut reasons = Vec::new();
    if old.result != now.result {
        reasons.push(format!("the result was {}; now {}", old.result, now.result));
    }
    let contents = differing(&old.contents, &now.contents);
    if !contents.is_empty() {
        reasons.push(format!("contents differ: {}", contents.join(", ")));
    }
    let moved = moved(&old.metrics, &now.metrics);
    for one in &moved {
        let allowed = suite.tolerance.get(&one.metric).copied().unwrap_or(0.0);
        if one.percent().is_none_or(|percent| percent.abs() > allowed) {
            reasons.push(one.to_string());
        }
    }
    let allowed = suite.tolerance.get("cycles").copied().unwrap_or(0.0);
    reasons.extend(launches(&old.kernels, &now.kernels, allowed));
    Verdict { run, reasons, moved }
}

/// Launches that a reason lists.
const LAUNCHES: usize = 5;

/// What is not the same launch by launch, by kernel and number: launches that there are not any more, or not yet, and
/// cycles that moved by more percent than allowed.
fn launches(was: &[(String, u64)], is: &[(String, u64)], allowed: f64) -> Vec<String> {
    let mut reasons = Vec::new();
    if was.len() != is.len() {
        reasons.push(format!("the run had {} launches; now {}", was.len(), is.len()));
    }
    let mut list = Vec::new();
    for ((kernel, number), was, is) in paired(was.iter().cloned(), is.iter().cloned()) {
        let launch = format!("launch {number} of {kernel}");
        match (was, is) {
            (Some(_), None) => list.push(format!("{launch} is gone")),
            (None, Some(_)) => list.push(format!("{launch} is new")),
            (Some(was), Some(is)) if (is as f64 - was as f64).abs() * 100.0 > allowed * was as f64 => {
                list.push(format!("{launch} took {was} core cycles; now {is}"));
            }
            _ => {}
        }
    }
    let rest = list.len().saturating_sub(LAUNCHES);
    list.truncate(LAUNCHES);
    reasons.extend(list);
    reasons.extend((rest > 0).then(|| format!("{rest} more launches differ")));
    reasons
}

fn judge_host(
    suite: &Suite,
    baseline: &Baseline,
    verdict: &mut Verdict,
) -> Result<(), Vec<sim_frontend::diagnostic::Diagnostic>> {
    let Some(old) = baseline.host.get(&verdict.run) else {
        verdict.reasons.push("the baseline has no host speed: record with --host on this host".into());
        return Ok(());
    };
    let now = suite.speed(&verdict.run)?;
    let slower = (1.0 - now / old) * 100.0;
    if slower > suite.host.tolerance {
        verdict.reasons.push(format!(
            "the host simulates {now:.0} warp instructions per second, {slower:.0} % fewer than the {old:.0} recorded; {} % are allowed",
            suite.host.tolerance
        ));
    }
    Ok(())
}

/// Figures of a run that are listed.
const LISTED: usize = 12;

fn print(suite: &Suite, baseline: &Baseline, verdicts: &[Verdict]) {
    let red: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.reasons.is_empty()).collect();
    for verdict in &red {
        println!("{}:", verdict.run);
        let figures: BTreeMap<String, &Moved> =
            verdict.moved.iter().map(|moved| (moved.to_string(), moved)).collect();
        for reason in verdict.reasons.iter().filter(|reason| !figures.contains_key(*reason)) {
            println!("  {reason}");
        }
        if !verdict.moved.is_empty() {
            let mut out = table(&["metric", "baseline", "now", "change", "unit"]);
            for moved in verdict.moved.iter().take(LISTED) {
                out.add_row(moved.row());
            }
            println!("{out}");
            if verdict.moved.len() > LISTED {
                println!("… and {} more", verdict.moved.len() - LISTED);
            }
        }
    }
    println!(
        "{}: {} of {} runs equal to those recorded by {}; {} differ",
        suite.name,
        verdicts.len() - red.len(),
        verdicts.len(),
        baseline.version,
        red.len()
    );
}

fn junit(suite: &Suite, verdicts: &[Verdict]) -> Report {
    let mut report = Report::new("warpsim baseline");
    let mut list = TestSuite::new(suite.name.as_str());
    for verdict in verdicts {
        let status = if verdict.reasons.is_empty() {
            TestCaseStatus::success()
        } else {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(verdict.reasons.first().cloned().unwrap_or_default());
            status.set_description(verdict.reasons.join("\n"));
            status
        };
        let mut case = TestCase::new(verdict.run.as_str(), status);
        case.set_time(Duration::ZERO);
        list.add_test_case(case);
    }
    report.add_test_suite(list);
    report
}
