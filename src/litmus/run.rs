//! `litmus run`: the verdict on each test, with an execution that shows it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;
use sim_frontend::diagnostic::Diagnostic;
use sim_verify::cat::Model;
use sim_verify::expect::{Expectation, expectations};
use sim_verify::litmus::{Quantifier, Test};
use sim_verify::show;
use sim_verify::verdict::{Answer, Bounds, Shown, Verdict, decide};

use super::{files, model};
use crate::cli::litmus::LitmusRunArgs;
use crate::configs;
use crate::console::{complain, status};

/// The verdict on a test, as `--json` prints it.
#[derive(Serialize)]
struct Row {
    file: String,
    name: String,
    model: String,
    /// `allowed`, `forbidden` or `unknown`: whether an execution satisfies the condition; of `forall`, whether one
    /// violates it.
    verdict: &'static str,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// `exists`, `not_exists` or `forall`.
    quantifier: &'static str,
    /// What the test asks for is so.
    holds: Option<bool>,
    /// What the test expects, by key; none where it expects nothing of this model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    expected: BTreeMap<&'static str, String>,
    /// All of it is so.
    as_expected: Option<bool>,
    candidates: u64,
    consistent: u64,
    /// Final states: values by name, and the number of executions that end there.
    states: Vec<State>,
    /// Loops are enumerated up to this number of iterations; none where all loops end earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    unrolled: Option<u32>,
    /// The axiom that an execution with this outcome violates.
    #[serde(skip_serializing_if = "Option::is_none")]
    axiom: Option<String>,
    data_race: bool,
    /// Under weak fairness, every execution ends.
    terminates: bool,
    /// Lines whose accesses have no location, or whose divisions have no result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<u32>,
}

#[derive(Serialize)]
struct State {
    values: BTreeMap<String, i64>,
    executions: u64,
}

/// A test that was decided.
struct Decided {
    path: PathBuf,
    test: Test,
    verdict: Verdict,
}

/// Runs the command.
pub fn run(args: &LitmusRunArgs) -> u8 {
    let (model, paths) = match (model(&args.model), files(&args.files)) {
        (Ok(model), Ok(paths)) => (model, paths),
        (model, paths) => {
            complain(&[model.err(), paths.err()].into_iter().flatten().collect::<Vec<_>>());
            return status::BAD_INPUT;
        }
    };
    let bounds = Bounds { unroll: args.unroll, candidates: args.max_candidates };
    let decided = |path: &PathBuf| {
        let test = read(path)?;
        let verdict = decide(&test, &model, bounds);
        Ok(Decided { path: path.clone(), test, verdict })
    };
    let threads = args.threads.unwrap_or(0);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let results: Vec<Result<Decided, Diagnostic>> = match pool {
        Ok(pool) => pool.install(|| paths.par_iter().map(decided).collect()),
        Err(_) => paths.iter().map(decided).collect(),
    };
    let (mut errors, mut rows, mut wrong) = (Vec::new(), Vec::new(), false);
    for result in results {
        match result {
            Err(error) => errors.push(error),
            Ok(decided) => {
                let row = row(&decided, &model, args);
                wrong |= row.as_expected == Some(false);
                if !args.json {
                    print!("{}", text(&decided, &row, &args.model, args.quiet));
                }
                if let Some(folder) = &args.graph
                    && let Err(error) = graph(folder, &decided)
                {
                    errors.push(error);
                }
                rows.push(row);
            }
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows).unwrap_or_default());
    } else if rows.len() > 1 {
        println!("{}", summary(&rows));
    }
    complain(&errors);
    match (errors.is_empty(), wrong) {
        (false, _) => status::BAD_INPUT,
        (true, true) => status::DIFFERS,
        (true, false) => status::DONE,
    }
}

pub(super) fn read(path: &Path) -> Result<Test, Diagnostic> {
    Test::parse(&path.display().to_string(), &configs::read(path)?.text)
}

fn row(decided: &Decided, model: &Model, args: &LitmusRunArgs) -> Row {
    let Decided { path, test, verdict } = decided;
    let (answer, reason) = match &verdict.answer {
        Answer::Allowed => ("allowed", None),
        Answer::Forbidden => ("forbidden", None),
        Answer::Unknown(reason) => ("unknown", Some(reason.clone())),
    };
    let expectations = expectations(test, &args.model, verdict);
    let names: Vec<String> = verdict.atoms.iter().map(|atom| show::atom(test, *atom)).collect();
    let states = verdict.states.iter().map(|(values, executions)| State {
        values: names.iter().cloned().zip(values.iter().copied()).collect(),
        executions: *executions,
    });
    Row {
        file: path.display().to_string(),
        name: test.name.clone(),
        model: model.title.clone(),
        verdict: answer,
        reason,
        quantifier: match test.quantifier {
            Quantifier::Exists => "exists",
            Quantifier::NotExists => "not_exists",
            Quantifier::Forall => "forall",
        },
        holds: verdict.holds(test),
        as_expected: (!expectations.is_empty()).then(|| expectations.iter().all(Expectation::is_met)),
        expected: expectations.iter().map(|e| (e.key, e.expected.clone())).collect(),
        candidates: verdict.candidates,
        consistent: verdict.consistent,
        states: states.collect(),
        unrolled: verdict.bounded.then_some(args.unroll),
        axiom: verdict.rejected.as_ref().and_then(|r| r.violates.as_ref()).map(|(name, _)| name.clone()),
        data_race: verdict.race.is_some(),
        terminates: verdict.endless.is_none(),
        left_out: verdict.wild.iter().copied().collect(),
    }
}

fn text(decided: &Decided, row: &Row, model: &str, quiet: bool) -> String {
    let Decided { test, verdict, .. } = decided;
    let mut out = format!("{}: {}", row.file, row.verdict);
    let question = match (test.quantifier, row.holds) {
        (_, None) => String::new(),
        (Quantifier::Exists, Some(holds)) => {
            format!(", `exists` {}", if holds { "holds" } else { "does not hold" })
        }
        (Quantifier::NotExists, Some(holds)) => {
            format!(", `~exists` {}", if holds { "holds" } else { "does not hold" })
        }
        (Quantifier::Forall, Some(holds)) => {
            format!(", `forall` {}", if holds { "holds" } else { "does not hold" })
        }
    };
    out.push_str(&question);
    if let Some(reason) = &row.reason {
        let _ = write!(out, ": {reason}");
    }
    match row.as_expected {
        Some(true) => out.push_str("; as the test expects"),
        Some(false) => {
            let wrong = expectations(test, model, verdict);
            let wrong = wrong.iter().filter(|e| !e.is_met());
            let wrong: Vec<String> =
                wrong.map(|e| format!("{}={} (found {})", e.key, e.expected, e.found)).collect();
            let _ = write!(out, "; the test expects {}", wrong.join(", "));
        }
        None => {}
    }
    let s = if row.candidates == 1 { "" } else { "s" };
    let _ = writeln!(out, " [{}; {} candidate{s}, {} consistent]", row.model, row.candidates, row.consistent);
    if quiet {
        return out;
    }
    for state in &row.states {
        let values: Vec<String> =
            state.values.iter().map(|(name, v)| format!("{name}={}", show::value(test, *v))).collect();
        let _ = writeln!(out, "  {:>6}  {}", state.executions, values.join(" "));
    }
    if let Some(unrolled) = row.unrolled {
        let _ = writeln!(out, "  loops are unrolled {unrolled} times; longer executions are not considered");
    }
    for line in &row.left_out {
        let _ = writeln!(
            out,
            "  executions in which line {line} accesses no declared location or divides by zero are not considered"
        );
    }
    if let Some(witness) = &verdict.witness {
        let what = if test.quantifier == Quantifier::Forall { "violates" } else { "satisfies" };
        let _ = write!(out, "  this execution {what} the condition:\n{}", show::text(test, witness));
    } else if let Some(rejected) = &verdict.rejected {
        let _ = write!(out, "  {}", explained(test, rejected));
    }
    if let Some(race) = &verdict.race {
        let _ = writeln!(out, "  data race (MM §3.3):");
        for (a, b) in &race.races {
            let event = |i| show::event(test, &race.candidate, i);
            let _ = writeln!(out, "    {}\n    {}", event(*a), event(*b));
        }
    }
    if let Some(endless) = &verdict.endless {
        let _ = write!(
            out,
            "  this execution does not terminate under weak fairness:\n{}",
            show::text(test, endless)
        );
    }
    out
}

fn explained(test: &Test, rejected: &Shown) -> String {
    let Some((axiom, edges)) = &rejected.violates else { return String::new() };
    let mut out = format!("an execution that would make the verdict `allowed` violates {axiom}:\n");
    out.push_str(&show::text(test, rejected));
    let _ = writeln!(out, "    {axiom}:");
    out.push_str(&show::edges(edges, 6));
    out
}

fn summary(rows: &[Row]) -> String {
    let count = |verdict: &str| rows.iter().filter(|row| row.verdict == verdict).count();
    let mut out = format!(
        "{} tests: {} allowed, {} forbidden, {} unknown",
        rows.len(),
        count("allowed"),
        count("forbidden"),
        count("unknown")
    );
    let expecting = rows.iter().filter(|row| row.as_expected.is_some()).count();
    if expecting > 0 {
        let wrong = rows.iter().filter(|row| row.as_expected == Some(false)).count();
        let _ = write!(out, "; {} of {expecting} as expected", expecting - wrong);
    }
    out
}

fn graph(folder: &Path, decided: &Decided) -> Result<(), Diagnostic> {
    let Decided { path, test, verdict } = decided;
    let Some(shown) = verdict.witness.as_ref().or(verdict.rejected.as_ref()) else { return Ok(()) };
    let failed = |reason: std::io::Error| {
        Diagnostic::error("graph", format!("{}: {}", folder.display(), crate::files::reason(&reason)))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let name = path.file_stem().map_or("test".into(), |stem| stem.to_string_lossy().into_owned());
    let file = folder.join(format!("{name}.dot"));
    std::fs::write(&file, show::graph(test, shown, &test.name)).map_err(failed)
}
