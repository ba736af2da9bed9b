//! `study policies`: divergent workloads under every reconvergence policy.

use serde::Serialize;
use sim_core::monitor::Check;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::workload::Termination;

use super::{Progress, jobs, told};
use crate::cli::study::PoliciesArgs;
use crate::console::{complain, status, table};
use crate::cuda::command::CudaCommand;
use crate::figures::Figures;
use crate::files;
use crate::find::{find_workload, workload_folders};
use crate::metrics::shown;
use crate::report::{self, Results, Study};
use crate::request::{Program, Request, Setting};
use crate::work::Work;

/// What others are compared with.
const BASE: &str = "pdom_stack";

/// Divergent workloads beside those of the folder `divergence`.
const DIVERGENT: &[&str] = &["bfs", "bitonic_sort", "mandelbrot", "needleman_wunsch", "nqueens", "spmv"];

/// One workload under one policy.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    workload: String,
    chip: String,
    policy: String,
    /// pass, or why not.
    result: String,
    cycles: Option<u64>,
    /// Their time.
    time_us: Option<f64>,
    /// Cycles under the post-dominator stack by these.
    speedup: Option<f64>,
    /// Active lanes an issued instruction has, of those of a warp.
    simd_efficiency: Option<f64>,
    /// Warp instructions issued, without injected ones.
    warp_instructions: Option<u64>,
    /// Injected ones.
    control_instructions: Option<u64>,
    /// Lines asked of L1 or L2.
    transactions: Option<u64>,
    /// Most entries of the policy's stack or table for one warp.
    entries: Option<u32>,
    /// Bytes of them that went to or from spill memory.
    spilled_bytes: Option<u64>,
    fairness: &'static str,
}

/// Runs the command.
pub fn run(args: &PoliciesArgs) -> u8 {
    if let Err(message) = args.csv.iter().chain(&args.report).try_for_each(|path| files::probe(path)) {
        eprintln!("error: {message}");
        return status::BAD_INPUT;
    }
    let (rows, policies) = match study(args, &|_, _| {}) {
        Ok(studied) => studied,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    if let Some(file) = &args.csv
        && let Err(error) = write_csv(file, &rows)
    {
        eprintln!("error: {}", files::unwritable(file, &error));
        return status::BAD_INPUT;
    }
    if let Some(file) = &args.report {
        let mut results = Results::default();
        let rows = serde_json::to_value(&rows).unwrap_or_default();
        results.add_study(Study { name: args.chip.clone(), rows });
        if let Err(message) = report::write(file, None, results) {
            eprintln!("error: {message}");
            return status::BAD_INPUT;
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows).unwrap_or_default());
    } else {
        show(&rows, &policies);
    }
    if rows.iter().all(|row| row.result == "pass") { status::DONE } else { status::DIFFERS }
}

/// The rows of the study, and its policies; `progress` is told how many of how many simulations are done.
///
/// # Errors
/// What is wrong with what is asked for.
pub fn study(
    args: &PoliciesArgs,
    progress: Progress<'_>,
) -> Result<(Vec<Row>, Vec<String>), Vec<Diagnostic>> {
    let (chip, _) = crate::configs::chip(&args.chip, &[])?;
    let workloads = match args.workloads.is_empty() && args.programs.is_empty() {
        true => divergent_workloads(args, chip.capability()),
        false => args.workloads.clone(),
    };
    let mut policies = args.policies.clone();
    if policies.is_empty() {
        policies = sim_core::reconvergence::registry::POLICIES.iter().map(|p| p.name.to_string()).collect();
    }
    let mut errors = wrong(&policies);
    errors.extend(workloads.iter().filter_map(|w| find_workload(w).err()).flatten());
    errors.extend(args.programs.iter().filter_map(|program| CudaCommand::parse(program).err()));
    if !errors.is_empty() {
        return Err(errors);
    }
    let based = policies.iter().any(|policy| policy == BASE);
    if !based {
        policies.insert(0, BASE.to_string());
    }
    let pairs: Vec<(String, String)> = workloads
        .iter()
        .chain(&args.programs)
        .flat_map(|w| policies.iter().map(move |p| (w.clone(), p.clone())))
        .collect();
    let mut rows = told(&pairs, jobs(args.jobs), progress, |(workload, policy)| row(args, workload, policy));
    for at in 0..rows.len() {
        let base = rows.iter().find(|row| row.workload == rows[at].workload && row.policy == BASE);
        let base = base.and_then(|row| row.cycles);
        rows[at].speedup = base.zip(rows[at].cycles).map(|(base, own)| base as f64 / own as f64);
    }
    if !based {
        rows.retain(|row| row.policy != BASE);
        policies.remove(0);
    }
    Ok((rows, policies))
}

/// What is wrong with a list of policies.
fn wrong(policies: &[String]) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    let mut seen = Vec::new();
    for policy in policies {
        match PolicyChoice::parse(policy) {
            Ok(choice) if seen.contains(&choice.canonical()) => {
                errors.push(Diagnostic::error("policy", format!("`{policy}` is given twice")));
            }
            Ok(choice) => seen.push(choice.canonical()),
            Err(error) => {
                // A comma may also stand between the parameters of one policy.
                let list: Vec<String> = policy.split(',').map(|one| format!("--policy {one}")).collect();
                errors.push(match (list.len(), error.help.is_some()) {
                    (2.., _) if !policy.contains(':') => {
                        error.help(format!("one option each: {}", list.join(" ")))
                    }
                    (_, true) => error,
                    _ => error.did_you_mean(
                        policy.split(':').next().unwrap_or_default(),
                        sim_core::reconvergence::registry::POLICIES.iter().map(|known| known.name),
                    ),
                });
            }
        }
    }
    errors
}

/// Workloads of the folder `divergence` and others that diverge, as far as they end under every
/// policy and run on a chip of this capability.
fn divergent_workloads(args: &PoliciesArgs, capability: u32) -> Vec<String> {
    workload_folders()
        .iter()
        .filter_map(|folder| {
            let name = folder.file_name()?.to_str()?;
            let group = folder.parent()?.file_name()?.to_str()?;
            let spec = find_workload(&folder.display().to_string()).ok()?.spec;
            let runs = spec.variant(args.variant.as_deref(), capability).is_ok();
            let wanted = runs && (group == "divergence" || DIVERGENT.contains(&name));
            (wanted && spec.termination == Termination::Always).then(|| name.to_string())
        })
        .collect()
}

fn row(args: &PoliciesArgs, workload: &str, policy: &str) -> Row {
    let request = || {
        let one = |e: Diagnostic| vec![e];
        let program = match args.programs.iter().any(|program| program == workload) {
            true => Program::Cuda(Box::new(CudaCommand::parse(workload).map_err(one)?)),
            false => Program::named(workload)?,
        };
        Ok(Request {
            policy: Some(PolicyChoice::parse(policy).map_err(one)?),
            chip: Some(args.chip.clone()),
            variant: args.variant.clone(),
            allow_newer_isa: args.variant.is_some(),
            set: args.set.iter().map(|text| Setting::parse(text)).collect::<Result<_, _>>().map_err(one)?,
            check: Check::named(&args.check).unwrap_or_default(),
            ..Request::new(program)
        })
    };
    let row = Row {
        workload: workload.into(),
        chip: args.chip.clone(),
        policy: policy.into(),
        fairness: PolicyChoice::parse(policy).map_or("", |choice| choice.info.fairness),
        ..Row::default()
    };
    let failed = |why: String| Row { result: why, ..row.clone() };
    let done = match request().and_then(Work::new).and_then(|work| work.run()) {
        Ok(done) if matches!(done.result.as_str(), "pass" | "unchecked") => done,
        Ok(done) => return failed(done.message),
        Err(errors) => return failed(errors.first().map_or(String::new(), |e| e.message.clone())),
    };
    let figures = match Figures::read(&done.report) {
        Ok(figures) => figures,
        Err(why) => return failed(why),
    };
    let count = |value: Option<f64>| value.map(|value| value as u64);
    Row {
        result: "pass".into(),
        cycles: count(figures.cycles),
        time_us: figures.time_us,
        simd_efficiency: figures.lane_utilisation_ppm.map(|ppm| ppm / 1e6),
        warp_instructions: count(figures.warp_instructions),
        control_instructions: count(figures.control_instructions),
        transactions: count(figures.memory.transactions),
        entries: count(figures.policy_entries).map(|entries| entries as u32),
        spilled_bytes: count(figures.policy_spilled_bytes),
        ..row
    }
}

fn write_csv(file: &std::path::Path, rows: &[Row]) -> Result<(), csv::Error> {
    let mut writer = csv::Writer::from_writer(files::Output::create(file)?);
    for row in rows {
        writer.serialize(row)?;
    }
    let output = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(output.finish()?)
}

fn show(rows: &[Row], policies: &[String]) {
    let header =
        ["workload", "policy", "cycles", "µs", "speed-up", "SIMD", "issued", "injected", "lines", "entries"];
    let mut out = table(&header);
    for row in rows {
        let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let factor = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
        let cycles = if row.result == "pass" { number(row.cycles) } else { row.result.clone() };
        out.add_row([
            // A path is as long as it is; its last word tells workloads apart.
            row.workload.rsplit('/').next().unwrap_or_default(),
            &row.policy,
            &cycles,
            &row.time_us.map_or(String::new(), shown),
            &factor(row.speedup),
            &factor(row.simd_efficiency),
            &number(row.warp_instructions),
            &number(row.control_instructions),
            &number(row.transactions),
            &number(row.entries.map(u64::from)),
        ]);
    }
    println!("{out}\n");
    let mut out = table(&[
        "policy",
        "speed-up over pdom_stack, geometric mean",
        "warp instructions relative to pdom_stack",
        "fairness",
    ]);
    for policy in policies {
        let own: Vec<&Row> = rows.iter().filter(|row| row.policy == *policy).collect();
        let speedups: Vec<f64> = own.iter().filter_map(|row| row.speedup).collect();
        let issued: Vec<f64> = own
            .iter()
            .filter_map(|row| {
                let base = rows.iter().find(|base| base.policy == BASE && base.workload == row.workload)?;
                Some(row.warp_instructions? as f64 / base.warp_instructions? as f64)
            })
            .collect();
        let mean = |values: &[f64]| match values.len() {
            0 => String::new(),
            n => format!("{:.3}", (values.iter().map(|v| v.ln()).sum::<f64>() / n as f64).exp()),
        };
        let fairness = own.first().map_or("", |row| row.fairness);
        out.add_row([policy.as_str(), &mean(&speedups), &mean(&issued), fairness]);
    }
    println!("{out}");
}
