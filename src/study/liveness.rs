//! `study liveness`: which policy ends which of the programs whose end depends on fairness, beside
//! what is claimed of the policies [sc-stackless].

use serde::Serialize;
use sim_core::error::{FaultKind, SimError};
use sim_core::monitor::Check;
use sim_core::reconvergence::registry::{POLICIES, PolicyChoice};
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::workload::Termination;

use super::{Progress, jobs, told};
use crate::cli::study::LivenessArgs;
use crate::console::{complain, status, table};
use crate::find::{find_workload, workload_folders};
use crate::request::{Program, Request};
use crate::run::outcome;
use crate::simulate::Verdict;

/// Parameters with which a policy ends other programs than with their defaults; each stands after its policy.
const VARIANTS: &[&str] = &[
    "dynamic_warp_formation:scheduler=DMin",
    "dynamic_warp_formation:scheduler=DTime",
    "dynamic_warp_formation:scheduler=DPdPri",
    "dynamic_warp_formation:scheduler=DPC",
    "convergence_barriers:yield_after=never",
];

/// The policies and parameters of the table: every policy there is.
fn policies() -> Vec<&'static str> {
    let of = |name: &'static str| {
        let variants = VARIANTS.iter().copied();
        std::iter::once(name).chain(variants.filter(move |text| text.split(':').next() == Some(name)))
    };
    POLICIES.iter().flat_map(|policy| of(policy.name)).collect()
}

/// How a program ended.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    policy: String,
    workload: String,
    /// `terminates`, `livelock` or `deadlock` (proved), `runs on`, or what else happened.
    verdict: String,
    /// Cycles until it ended, or until it was stopped.
    cycles: u64,
    /// Where one that did not end was.
    at: Option<String>,
}

/// The programs of the table.
fn workloads() -> Vec<String> {
    workload_folders()
        .iter()
        .filter(|folder| folder.parent().is_some_and(|parent| parent.ends_with("liveness")))
        .filter_map(|folder| {
            let spec = find_workload(&folder.display().to_string()).ok()?.spec;
            (spec.termination == Termination::FairSchedules).then_some(spec.name)
        })
        .collect()
}

/// The rows of the study: each program under each policy, the programs of a policy together.
///
/// # Errors
/// There is no such chip.
pub fn study(args: &LivenessArgs, progress: Progress<'_>) -> Result<Vec<Row>, Vec<Diagnostic>> {
    crate::configs::chip(&args.chip, &[])?;
    let workloads = workloads();
    let pairs: Vec<(&str, &String)> = policies()
        .into_iter()
        .flat_map(|policy| workloads.iter().map(move |workload| (policy, workload)))
        .collect();
    Ok(told(&pairs, jobs(args.jobs), progress, |(policy, workload)| row(args, policy, workload)))
}

/// Runs the command.
pub fn run(args: &LivenessArgs) -> u8 {
    let rows = match study(args, &|_, _| {}) {
        Ok(rows) => rows,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let (workloads, policies) = (workloads(), policies());
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows).unwrap_or_default());
    } else {
        let mut header = vec!["policy"];
        header.extend(workloads.iter().map(String::as_str));
        let mut out = table(&header);
        for policy in &policies {
            let mut cells = vec![(*policy).to_string()];
            cells.extend(rows.iter().filter(|row| row.policy == *policy).map(|row| row.verdict.clone()));
            out.add_row(cells);
        }
        println!("{out}");
        println!(
            "variant {}, chip {}; `runs on`: not terminated after {} cycles",
            args.variant, args.chip, args.max_cycles
        );
    }
    let known = ["terminates", "runs on", "livelock", "deadlock"];
    let odd: Vec<_> = rows.iter().filter(|row| !known.contains(&row.verdict.as_str())).collect();
    for row in &odd {
        eprintln!("error: {} under {}: {}", row.workload, row.policy, row.verdict);
    }
    if odd.is_empty() { status::DONE } else { status::DIFFERS }
}

fn row(args: &LivenessArgs, policy: &str, workload: &str) -> Row {
    let request = || {
        Ok(Request {
            policy: Some(PolicyChoice::parse(policy).map_err(|error| vec![error])?),
            chip: Some(args.chip.clone()),
            variant: Some(args.variant.clone()),
            allow_newer_isa: true,
            max_cycles: Some(args.max_cycles),
            check: Check::Full,
            ..Request::new(Program::named(workload)?)
        })
    };
    let row = |verdict: String, cycles: u64, at: Option<String>| Row {
        policy: policy.into(),
        workload: workload.into(),
        verdict,
        cycles,
        at,
    };
    match request().and_then(outcome) {
        Ok((found, _)) => {
            let cycles = found.report.cycles + found.report.launch_cycles;
            match (&found.stopped, &found.verdict) {
                (Some(SimError::MaxCycles { place, .. }), _) => {
                    row("runs on".into(), cycles, place.as_ref().map(ToString::to_string))
                }
                (Some(SimError::Stopped(fault)), _) if fault.rule == "live" => {
                    let verdict = if fault.kind == FaultKind::Livelock { "livelock" } else { "deadlock" };
                    row(verdict.into(), cycles, Some(fault.place.to_string()))
                }
                (Some(other), _) => row(other.to_string(), cycles, None),
                (None, Some(Verdict::Pass)) => row("terminates".into(), cycles, None),
                (None, other) => row(format!("{other:?}"), cycles, None),
            }
        }
        Err(errors) => {
            complain(&errors);
            row("bad input".into(), 0, None)
        }
    }
}
