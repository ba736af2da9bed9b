//! `litmus hardware`: litmus tests on the simulated chip, their final states against those that the model allows.

mod kernel;
mod schedule;
mod trial;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_frontend::diagnostic::Diagnostic;
use sim_verify::litmus::program::{Instruction, Kind, Order};
use sim_verify::litmus::{Atom, Test};
use sim_verify::show;
use sim_verify::verdict::{Bounds, Outcomes, atoms, decide, outcomes};

use self::kernel::{Kernel, Places, kernel, places};
use self::schedule::{Schedule, Space, Threads};
use self::trial::{Machine, States, Trial};
use super::{files, model};
use crate::cli::litmus::HardwareArgs;
use crate::configs;
use crate::console::{complain, status};

/// A final state, and how often it was seen.
#[derive(Serialize)]
struct State {
    values: BTreeMap<String, i64>,
    seen: u64,
    allowed: bool,
}

/// A test on a chip under a protocol and a policy.
#[derive(Serialize)]
struct Row {
    file: String,
    test: String,
    chip: String,
    protocol: String,
    policy: String,
    schedules: u32,
    /// Instances that completed.
    ended: u64,
    /// Launches that were stopped: a thread never ends, or a fault.
    stopped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_stopped: Option<String>,
    /// Final states that were seen, then those that the model allows and that were not.
    states: Vec<State>,
    allowed: usize,
    allowed_seen: usize,
    /// The condition of the test was satisfied, or violated if it asks `forall`.
    condition_seen: bool,
    /// Commands that reproduce a state that is not allowed.
    violations: Vec<String>,
    /// The model's states are not all known: a loop was unrolled to its bound, or executions were left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    bounded: bool,
    /// The first violation of an axiom by an execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
    /// Threads did not end, although every execution ends under weak fairness.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    endless: bool,
    /// Why it was not run, or why the states that the model allows are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_run: Option<String>,
}

struct Setup {
    name: String,
    protocol: String,
    policy: String,
    machine: Machine,
}

/// Runs the command.
pub fn run(args: &HardwareArgs) -> u8 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.unwrap_or(0)).build();
    let outcome = match pool {
        Ok(pool) => pool.install(|| checked(args)),
        Err(_) => checked(args),
    };
    match outcome {
        Err(errors) => {
            complain(&errors);
            status::BAD_INPUT
        }
        Ok(rows) => told(args, &rows),
    }
}

fn checked(args: &HardwareArgs) -> Result<Vec<Row>, Vec<Diagnostic>> {
    let one = |error| vec![error];
    let model = model(&args.model).map_err(one)?;
    let paths = files(&args.files).map_err(one)?;
    let setups = setups(args)?;
    let tests: Result<Vec<(PathBuf, Test)>, Diagnostic> =
        paths.into_iter().map(|path| Ok((path.clone(), super::run::read(&path)?))).collect();
    let tests = tests.map_err(one)?;
    let allowed: Vec<Result<Outcomes, String>> =
        tests.par_iter().map(|(_, test)| outcomes(test, &model, Bounds::default())).collect();
    let jobs: Vec<(usize, &Setup)> =
        (0..tests.len()).flat_map(|test| setups.iter().map(move |setup| (test, setup))).collect();
    let rows: Result<Vec<Row>, Diagnostic> = jobs
        .par_iter()
        .map(|(i, setup)| {
            let (path, test) = &tests[*i];
            row(args, path, test, &allowed[*i], setup)
        })
        .collect();
    rows.map_err(one)
}

/// Every combination of chip, protocol and policy.
fn setups(args: &HardwareArgs) -> Result<Vec<Setup>, Vec<Diagnostic>> {
    let mut out = Vec::new();
    for name in &args.chip {
        let protocols: Vec<Option<&String>> = match &args.protocol[..] {
            [] => vec![None],
            list => list.iter().map(Some).collect(),
        };
        for protocol in protocols {
            let set: Vec<(&str, &str)> = protocol.iter().map(|p| ("memory.protocol", p.as_str())).collect();
            let (chip, costs) = configs::chip(name, &set)?;
            let policies =
                if args.policy.is_empty() { vec![chip.default_policy.clone()] } else { args.policy.clone() };
            let protocol = match protocol {
                Some(protocol) => protocol.clone(),
                None => {
                    let all = sim_memory::programs::Protocol::ALL;
                    let found = all.iter().find(|(_, p)| *p == chip.memory.protocol);
                    found.map_or("its own".to_string(), |(name, _)| (*name).to_string())
                }
            };
            let chip = Arc::new(chip);
            for policy in policies {
                let choice = PolicyChoice::parse(&policy).map_err(|e| vec![e])?;
                let machine = Machine { chip: Arc::clone(&chip), costs: Arc::clone(&costs), policy: choice };
                out.push(Setup { name: name.clone(), protocol: protocol.clone(), policy, machine });
            }
        }
    }
    Ok(out)
}

fn row(
    args: &HardwareArgs,
    path: &Path,
    test: &Test,
    allowed: &Result<Outcomes, String>,
    setup: &Setup,
) -> Result<Row, Diagnostic> {
    let mut row = Row {
        file: path.display().to_string(),
        test: test.name.clone(),
        chip: setup.name.clone(),
        protocol: setup.protocol.clone(),
        policy: setup.policy.clone(),
        schedules: args.schedules,
        ended: 0,
        stopped: 0,
        why_stopped: None,
        states: Vec::new(),
        allowed: 0,
        allowed_seen: 0,
        condition_seen: false,
        violations: Vec::new(),
        broken: None,
        bounded: false,
        endless: false,
        not_run: None,
    };
    let allowed = match (allowed, places(test)) {
        (Err(why), _) => {
            row.not_run = Some(format!("what the model allows is not known: {why}"));
            return Ok(row);
        }
        (_, Err(why)) => {
            row.not_run = Some(why);
            return Ok(row);
        }
        (Ok(allowed), Ok(places)) => match trials(args, path, test, &places, setup)? {
            Err(why) => {
                row.not_run = Some(why);
                return Ok(row);
            }
            Ok(trials) => {
                // Asked only where it matters: most tests have no loop.
                row.endless = trials.iter().any(|(_, trial)| trial.endless) && must_end(args, test)?;
                gather(&mut row, args, test, allowed, &trials, setup);
                allowed
            }
        },
    };
    (row.allowed, row.bounded) = (allowed.states.len(), allowed.bounded);
    Ok(row)
}

/// The test ends on a chip that makes strong stores visible and lets every warp issue: each of its executions ends under
/// weak fairness, no load in a loop is weak (a weak load may return an old value for ever), and it has no barrier (where
/// threads may wait for others that do not arrive).
fn must_end(args: &HardwareArgs, test: &Test) -> Result<bool, Diagnostic> {
    let weak = |i: &Instruction| matches!(i.kind, Kind::Load { access, .. } if access.order == Order::Weak);
    let waits = test.threads.iter().flat_map(|t| &t.code).any(|i| matches!(i.kind, Kind::Barrier { .. }));
    let spins_weakly = test.threads.iter().any(|thread| {
        thread.code.iter().enumerate().any(|(at, i)| match i.kind {
            Kind::Branch { target, .. } | Kind::Goto(target) if target <= at => {
                thread.code[target..at].iter().any(weak)
            }
            _ => false,
        })
    });
    Ok(!waits && !spins_weakly && decide(test, &model(&args.model)?, Bounds::default()).endless.is_none())
}

/// The trials of a test by their numbers; the reason why there are none.
fn trials(
    args: &HardwareArgs,
    path: &Path,
    test: &Test,
    places: &Places,
    setup: &Setup,
) -> Result<Result<Vec<(u32, Trial)>, String>, Diagnostic> {
    let scoped = setup.machine.chip.capability() >= 70;
    let numbers: Vec<u32> =
        args.schedule.map_or_else(|| (0..args.schedules).collect(), |number| vec![number]);
    let mut kernels: BTreeMap<(bool, bool), Kernel> = BTreeMap::new();
    for threads in [Threads::Warps, Threads::Lanes] {
        for space in [Space::Global, Space::Shared] {
            match kernel(test, places, threads, space, scoped) {
                Ok(made) => drop(kernels.insert((threads == Threads::Lanes, space == Space::Shared), made)),
                Err(why) => return Ok(Err(why)),
            }
        }
    }
    let run = |number: &u32| {
        let mut schedule = Schedule::new(test, places.ctas, args.seed, *number);
        if !scoped && schedule.space == Space::Shared {
            // Before compute capability 7.0 lanes that reach the barrier at the end one by one count as their warp.
            schedule.threads = Threads::Warps;
        }
        let key = (schedule.threads == Threads::Lanes, schedule.space == Space::Shared);
        let trial = trial::run(test, &kernels[&key], &schedule, &setup.machine, args.check);
        trial.map(|trial| (*number, trial)).map_err(|error| {
            Diagnostic::error("litmus", format!("{} on {}: {error}", path.display(), setup.name))
        })
    };
    numbers.par_iter().map(run).collect::<Result<Vec<_>, _>>().map(Ok)
}

fn gather(
    row: &mut Row,
    args: &HardwareArgs,
    test: &Test,
    allowed: &Outcomes,
    trials: &[(u32, Trial)],
    setup: &Setup,
) {
    let mut seen = States::new();
    for (number, trial) in trials {
        let mut wrong = trial.broken.is_some() || row.endless && trial.endless;
        for (state, count) in &trial.states {
            *seen.entry(state.clone()).or_default() += count;
            wrong |= !allowed.states.contains_key(state) && !allowed.bounded;
        }
        if wrong && row.violations.len() < 3 {
            row.violations.push(format!(
                "warpsim litmus hardware {} --chip {} --protocol {} --policy {} --model {} --seed {} --schedule {number}{}",
                row.file,
                setup.name,
                setup.protocol,
                setup.policy,
                args.model,
                args.seed,
                if args.check { " --check-executions" } else { "" }
            ));
        }
        if row.broken.is_none() {
            row.broken.clone_from(&trial.broken);
        }
        row.stopped += u64::from(trial.stopped.is_some());
        if row.why_stopped.is_none() {
            row.why_stopped.clone_from(&trial.stopped);
        }
    }
    let list = atoms(test);
    let names: Vec<String> = list.iter().map(|atom| show::atom(test, *atom)).collect();
    let as_row = |state: &Vec<i64>, seen: u64, allowed: bool| State {
        values: names.iter().cloned().zip(state.iter().copied()).collect(),
        seen,
        allowed,
    };
    let holds = |state: &Vec<i64>| {
        let value = |atom: Atom| match atom {
            Atom::Constant(value) => value,
            atom => list.iter().position(|a| *a == atom).map_or(0, |i| state[i]),
        };
        test.condition.holds(&value) != (test.quantifier == sim_verify::litmus::Quantifier::Forall)
            && test.filter.as_ref().is_none_or(|filter| filter.holds(&value))
    };
    row.ended = seen.values().sum();
    row.condition_seen = seen.keys().any(holds);
    row.allowed_seen = seen.keys().filter(|state| allowed.states.contains_key(*state)).count();
    let others = allowed.states.keys().filter(|state| !seen.contains_key(*state));
    row.states = seen.iter().map(|(s, count)| as_row(s, *count, allowed.states.contains_key(s))).collect();
    row.states.extend(others.map(|state| as_row(state, 0, true)));
}

fn told(args: &HardwareArgs, rows: &[Row]) -> u8 {
    if args.json {
        println!("{}", serde_json::to_string_pretty(rows).unwrap_or_default());
    } else {
        rows.iter().for_each(|row| print!("{}", text(row, args.quiet)));
        if rows.len() > 1 {
            println!("{}", summary(rows));
        }
    }
    match rows.iter().any(|row| !row.violations.is_empty()) {
        true => status::FAULT,
        false => status::DONE,
    }
}

fn text(row: &Row, quiet: bool) -> String {
    let mut out = format!("{} on {}, protocol {}, policy {}: ", row.file, row.chip, row.protocol, row.policy);
    if let Some(why) = &row.not_run {
        let _ = writeln!(out, "not run: {why}");
        return out;
    }
    let verdict = match row {
        _ if !row.violations.is_empty() => "VIOLATION",
        _ if row.ended == 0 => "no instance terminated: nothing to compare",
        _ if row.states.iter().any(|state| !state.allowed) => {
            "not known: states beyond the loop bound of the model"
        }
        _ => "as the model allows",
    };
    let _ = write!(
        out,
        "{verdict}; {} instances, {} of {} allowed states seen, condition {}",
        row.ended,
        row.allowed_seen,
        row.allowed,
        if row.condition_seen { "seen" } else { "not seen" }
    );
    if row.stopped > 0 {
        let _ = write!(out, "; {} of {} schedules stopped", row.stopped, row.schedules);
    }
    out.push('\n');
    if !quiet {
        for state in &row.states {
            let values: Vec<String> = state.values.iter().map(|(name, v)| format!("{name}={v}")).collect();
            let mark = match () {
                () if state.allowed => "",
                () if row.bounded => "  not known",
                () => "  NOT ALLOWED",
            };
            let _ = writeln!(out, "  {:>6}  {}{mark}", state.seen, values.join(" "));
        }
        if let Some(why) = &row.why_stopped {
            let _ = writeln!(out, "  stopped: {why}");
        }
    }
    if row.endless && !quiet {
        out.push_str("  threads do not terminate, although every execution of the test terminates under weak fairness\n");
    }
    if let Some(why) = row.broken.as_ref().filter(|_| !quiet) {
        let _ = writeln!(out, "  {why}");
    }
    for command in &row.violations {
        let _ = writeln!(out, "  reproduce: {command}");
    }
    out
}

fn summary(rows: &[Row]) -> String {
    let run: Vec<&Row> = rows.iter().filter(|row| row.not_run.is_none()).collect();
    format!(
        "{} runs of {}: {} with a violation, {} stopped; {} instances; {} of {} allowed states seen",
        run.len(),
        rows.len(),
        run.iter().filter(|row| !row.violations.is_empty()).count(),
        run.iter().filter(|row| row.stopped > 0).count(),
        run.iter().map(|row| row.ended).sum::<u64>(),
        run.iter().map(|row| row.allowed_seen).sum::<usize>(),
        run.iter().map(|row| row.allowed).sum::<usize>()
    )
}
