//! `warpsim sweep run` and `sweep work`: every point that has no result yet is simulated, several at a time.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use super::claims::{Claims, DEATHS};
use super::collect;
use super::planned::Plan;
use super::store::Store;
use super::worker::{Counts, Worker};
use crate::cli::sweep::{SweepRunArgs, SweepWorkArgs};
use crate::console::{complain, status};
use crate::files;
use crate::interrupt::{interrupted, on_interrupt, on_termination, terminated};
use crate::known::Known;
use crate::memory;
use crate::program;
use crate::study::jobs;

/// Time from SIGTERM to the end of a process that has not ended by itself. Slurm kills 30 seconds after the signal if it
/// is not configured otherwise (`KillWait`).
const GRACE: Duration = Duration::from_secs(10);

/// What a task says that SIGTERM has ended.
const TERMINATED: &str = "ended by SIGTERM: points under way were given back";

/// Simulates what has no result; gives the exit status.
pub fn run(args: &SweepRunArgs) -> u8 {
    let known = Known::default();
    let plan = match Plan::make(&args.file, &known) {
        Ok(plan) => plan,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    match begun(args, &plan) {
        Ok((store, shard)) => run_planned(args, &plan, &known, &store, shard),
        Err(message) => {
            eprintln!("error: {message}");
            status::BAD_INPUT
        }
    }
}

/// The folder of results, with the plan in it, and which part is to be done of how many.
fn begun(args: &SweepRunArgs, plan: &Plan) -> Result<(Store, (usize, usize)), String> {
    let shard = shard(args.shard.as_deref())?;
    args.report.iter().try_for_each(|path| files::probe(path))?;
    let store = Store::open(&args.results).map_err(|error| files::unwritable(&args.results, &error))?;
    plan.keep(&store)?;
    Ok((store, shard))
}

fn run_planned(
    args: &SweepRunArgs,
    plan: &Plan,
    known: &Known,
    store: &Store,
    (part, parts): (usize, usize),
) -> u8 {
    on_interrupt();
    let claims = Claims::of(store.folder());
    let held = claims.held();
    on_termination(GRACE, move || {
        held.give_back();
        status::INTERRUPTED
    });
    let own = plan.items(|i| i % parts == part);
    let points = own.iter().map(|item| item.points.len()).sum();
    let bar = std::io::stderr().is_terminal().then(|| {
        let style = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} points, ETA {eta}");
        indicatif::ProgressBar::new(points as u64)
            .with_style(style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()))
    });
    let progress = |points: usize| bar.iter().for_each(|bar| bar.inc(points as u64));
    let (key, jobs) = (plan.key(), jobs(args.jobs));
    let worker =
        Worker { plan, store, claims: &claims, known, key: &key, jobs, reads: true, progress: &progress };
    let mut counts = worker.run(own, 0.0);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    say(&plan.spec.name, points, &mut counts);
    if let Some(page) = args.report.as_deref().filter(|_| !interrupted()) {
        let code = collect::page(&args.file, &args.results, page);
        if code != status::DONE {
            return code;
        }
    }
    match (memory::exceeded(), interrupted(), counts.broken.is_empty() && counts.stuck.is_none()) {
        (None, true, _) => status::INTERRUPTED,
        (None, false, true) => counts.worst,
        _ => status::FAULT,
    }
}

/// Says what came of the points.
fn say(name: &str, points: usize, counts: &mut Counts) {
    for line in counts.broken.values() {
        eprintln!("{line}");
    }
    for (why, points) in &mut counts.bad {
        points.sort();
        // What is refused for one reason is said once; what faults may do so each in its own way.
        match points.as_slice() {
            [first, others @ ..] if !others.is_empty() && why.starts_with("refused") => {
                eprintln!("{first}: {why}\n  = {} more points like this", others.len());
            }
            points => points.iter().for_each(|point| eprintln!("{point}: {why}")),
        }
    }
    if let Some(message) = &counts.stuck {
        eprintln!("error: {message}");
    }
    println!(
        "{name}: {points} points, {} simulated, {} already had results, {} in progress elsewhere, {} faulted, differed or were refused, {} failed",
        counts.simulated,
        counts.had,
        counts.elsewhere,
        counts.bad.values().map(Vec::len).sum::<usize>(),
        counts.broken.len()
    );
}

/// Works on a planned sweep; gives the exit status. Points that fail are rows of the table, not failures of the task.
pub fn work(args: &SweepWorkArgs) -> u8 {
    match working(args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("error: {message}");
            status::BAD_INPUT
        }
    }
}

fn working(args: &SweepWorkArgs) -> Result<u8, String> {
    on_interrupt();
    let results =
        std::fs::canonicalize(&args.results).map_err(|error| files::unreadable(&args.results, &error))?;
    let claims = Claims::of(&results);
    let held = claims.held();
    // A process of a point ends before the one that waits for it: what is left of a task then is killed.
    let grace = if args.point.is_some() { GRACE / 2 } else { GRACE };
    on_termination(grace, move || {
        held.give_back();
        println!("{TERMINATED}");
        status::DONE
    });
    let plan = Plan::one(&results, args.plan.as_deref())?;
    std::env::set_current_dir(&plan.folder).map_err(|error| {
        let folder = plan.folder.display();
        let reason = files::reason(&error);
        format!("{folder}, where the sweep was planned, cannot be entered on this host: {reason}; paths in the sweep are relative to it")
    })?;
    let (key, known) = (plan.key(), Known::default());
    let store = match args.point {
        // The process that started this one has opened it.
        Some(_) => Store::read_only(&results),
        None => Store::open(&results).map_err(|error| files::unwritable(&results, &error))?,
    };
    let worker = Worker {
        plan: &plan,
        store: &store,
        claims: &claims,
        known: &known,
        key: &key,
        jobs: args.jobs.unwrap_or_else(allotted),
        reads: false,
        progress: &|_| {},
    };
    if let Some(number) = args.point {
        end_with_parent();
        let items = plan.items(|i| i == number);
        let item = items.first().ok_or_else(|| format!("the sweep has no point {number}"))?;
        let deaths = args.deaths.filter(|deaths| *deaths < DEATHS);
        let deaths = deaths.ok_or_else(|| format!("--deaths takes a number below {DEATHS}"))?;
        let (code, message) = worker.only(item, deaths);
        message.iter().for_each(|message| eprintln!("{}: {message}", plan.words(item)));
        return Ok(code);
    }
    let points = plan.points.len();
    let mut counts = worker.run(plan.items(|_| true), place());
    say(&plan.spec.name, points, &mut counts);
    if memory::exceeded().is_some() && !terminated() {
        return again(&results, &key, worker.jobs);
    }
    if terminated() {
        println!("{TERMINATED}");
        return Ok(status::DONE);
    }
    Ok(match (interrupted(), counts.broken.is_empty() && counts.stuck.is_none()) {
        (true, _) => status::INTERRUPTED,
        (false, true) => status::DONE,
        (false, false) => status::FAULT,
    })
}

/// Begins anew in the same process: one that has reached the limit of memory simulates nothing more, and what was
/// simulated then is done apart.
fn again(results: &Path, key: &str, jobs: usize) -> Result<u8, String> {
    use std::os::unix::process::CommandExt;
    eprintln!("the limit of memory was reached: the task begins anew");
    let error = program::command()
        .map_err(|error| files::reason(&error))?
        .args("sweep work --plan".split(' '))
        .args([key, "--jobs", &jobs.to_string()])
        .arg(results)
        .exec();
    Err(format!("the task cannot begin anew: {}", files::reason(&error)))
}

/// This process gives its point back when the one that started it ends.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
}

/// A number of Slurm's environment.
fn slurm(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// Simulations at a time: as many as the task has processors.
fn allotted() -> usize {
    slurm("SLURM_CPUS_PER_TASK").or_else(|| slurm("SLURM_CPUS_ON_NODE")).unwrap_or_else(|| jobs(None))
}

/// Where among the points this process begins, from 0 to 1: by its number in the array, or else anywhere.
fn place() -> f64 {
    let in_array = || {
        let first = slurm("SLURM_ARRAY_TASK_MIN")?;
        let count = slurm("SLURM_ARRAY_TASK_COUNT")?;
        let at = slurm("SLURM_ARRAY_TASK_ID")?.checked_sub(first)?;
        Some((at % count.max(1)) as f64 / count.max(1) as f64)
    };
    in_array().unwrap_or_else(|| f64::from(std::process::id() % 1000) / 1000.0)
}

/// `i/n` as a part from 0 and how many there are.
fn shard(text: Option<&str>) -> Result<(usize, usize), String> {
    let Some(text) = text else { return Ok((0, 1)) };
    let parts =
        text.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    match parts {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i - 1, n)),
        _ => Err(format!("--shard takes I/N with I from 1 to N, not `{text}`")),
    }
}

/// The folder of results of a command line, which is one.
///
/// # Errors
/// It is none, in words.
pub fn is_results(folder: &Path) -> Result<(), String> {
    match folder.is_dir() {
        true => Ok(()),
        false => Err(format!(
            "there is no folder {}; `warpsim sweep submit` and `sweep run` create it",
            folder.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_counted_from_one() {
        assert_eq!(shard(None), Ok((0, 1)));
        assert_eq!(shard(Some("2/3")), Ok((1, 3)));
        for wrong in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(shard(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
