//! `warpsim sweep run`: every point that has no result yet is simulated, several at a time.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim_core::error::SimError;
use sim_frontend::diagnostic::Diagnostic;

use super::collect;
use super::points::{first, load, refused_id};
use super::spec::{Common, Point};
use super::store::{SCHEMA, Store, Stored};
use crate::cli::sweep::SweepRunArgs;
use crate::console::{complain, status};
use crate::files;
use crate::interrupt::{interrupted, on_interrupt};
use crate::memory;
use crate::study::{in_parallel, jobs};
use crate::work::Work;

/// What came of a point in this run.
enum Done {
    Simulated,
    HadResult,
    Elsewhere,
    Interrupted,
    /// The simulator gave up; nothing is kept, so that it is tried again.
    Broken(String),
}

/// Counts of a run.
#[derive(Default)]
struct Counts {
    simulated: usize,
    had: usize,
    elsewhere: usize,
    broken: Vec<String>,
    /// What was wrong, and the points it was wrong with.
    bad: BTreeMap<String, Vec<String>>,
    /// The exit status of the points that were simulated.
    worst: u8,
}

/// Simulates what has no result; gives the exit status.
pub fn run(args: &SweepRunArgs) -> u8 {
    let (spec, points) = match load(&args.file) {
        Ok(loaded) => loaded,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let (part, parts) = match shard(args.shard.as_deref()) {
        Ok(shard) => shard,
        Err(message) => {
            eprintln!("error: {message}");
            return status::BAD_INPUT;
        }
    };
    if let Err(message) = args.report.iter().try_for_each(|path| files::probe(path)) {
        eprintln!("error: {message}");
        return status::BAD_INPUT;
    }
    let store = match Store::open(&args.results) {
        Ok(store) => store,
        Err(error) => {
            eprintln!("error: {}", files::unwritable(&args.results, &error));
            return status::BAD_INPUT;
        }
    };
    on_interrupt();
    let own: Vec<&Point> =
        points.iter().enumerate().filter(|(i, _)| i % parts == part).map(|(_, p)| p).collect();
    let bar = std::io::stderr().is_terminal().then(|| {
        let style = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} points, ETA {eta}");
        indicatif::ProgressBar::new(own.len() as u64)
            .with_style(style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()))
    });
    let counts = Mutex::new(Counts::default());
    let failed = AtomicUsize::new(0);
    in_parallel(&own, jobs(args.jobs), |point| {
        let words = point.words(&spec.run);
        // A point that brings the simulator down loses no other.
        let done = catch_unwind(AssertUnwindSafe(|| simulate(&store, point, &spec.run)));
        let done = done.unwrap_or_else(|_| Ok((Done::Broken("the simulator panicked".into()), None)));
        if let Some(bar) = &bar {
            bar.inc(1);
        }
        let Ok(mut counts) = counts.lock() else { return };
        match done {
            Ok((done, stored)) => {
                match done {
                    Done::Simulated => counts.simulated += 1,
                    Done::HadResult => counts.had += 1,
                    Done::Elsewhere => counts.elsewhere += 1,
                    Done::Interrupted => {}
                    Done::Broken(reason) => counts.broken.push(format!("{}: {reason}", words.join(" "))),
                }
                if let Some(stored) = stored.filter(|s| !matches!(s.result.as_str(), "pass" | "unchecked")) {
                    let why = format!("{} {}", stored.result, stored.message);
                    counts.bad.entry(why).or_default().push(words.join(" "));
                    counts.worst = worse(counts.worst, &stored.result);
                }
            }
            Err(error) => {
                failed.fetch_add(1, Ordering::Relaxed);
                counts.broken.push(format!(
                    "{}: the result cannot be stored: {}",
                    words.join(" "),
                    files::reason(&error)
                ));
            }
        }
    });
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let mut counts = counts.into_inner().unwrap_or_default();
    for line in &counts.broken {
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
    println!(
        "{}: {} points, {} simulated, {} already had results, {} in progress elsewhere, {} faulted, differed or were refused, {} failed",
        spec.name,
        own.len(),
        counts.simulated,
        counts.had,
        counts.elsewhere,
        counts.bad.values().map(Vec::len).sum::<usize>(),
        counts.broken.len()
    );
    if let Some(page) = args.report.as_deref().filter(|_| !interrupted()) {
        let code = collect::page(&args.file, &args.results, page);
        if code != status::DONE {
            return code;
        }
    }
    match (memory::exceeded(), interrupted(), counts.broken.is_empty()) {
        (None, true, _) => status::INTERRUPTED,
        (None, false, true) => counts.worst,
        _ => status::FAULT,
    }
}

/// The exit status of several points, one of which came to `result`: a fault outweighs a wrong result,
/// which outweighs a point that was refused.
fn worse(so_far: u8, result: &str) -> u8 {
    let own = match result {
        "refused" => status::BAD_INPUT,
        "fail" => status::DIFFERS,
        _ => status::FAULT,
    };
    let weight = [status::DONE, status::BAD_INPUT, status::DIFFERS, status::FAULT];
    let of = |code: u8| weight.iter().position(|other| *other == code);
    if of(own) > of(so_far) { own } else { so_far }
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

/// Simulates a point, if it has no result, and keeps what came of it.
fn simulate(store: &Store, point: &Point, common: &Common) -> std::io::Result<(Done, Option<Stored>)> {
    let words = point.words(common);
    if interrupted() {
        return Ok((Done::Interrupted, None));
    }
    let refused = |words: Vec<String>, errors: &[Diagnostic]| Stored {
        schema: SCHEMA,
        id: refused_id(&words),
        config: String::new(),
        version: crate::VERSION.into(),
        run: words,
        result: "refused".into(),
        message: first(errors),
        seconds: 0.0,
        report: None,
    };
    let ready = point.request(common).and_then(Work::new).and_then(|work| Ok((work.identity()?, work)));
    let (identity, work) = match ready {
        Ok(ready) => ready,
        Err(errors) => {
            let stored = refused(words, &errors);
            if store.get(&stored.id).is_some() {
                return Ok((Done::HadResult, Some(stored)));
            }
            store.put(&stored)?;
            return Ok((Done::Simulated, Some(stored)));
        }
    };
    if let Some(stored) = store.get(&identity.id) {
        return Ok((Done::HadResult, Some(stored)));
    }
    let Some(_claim) = store.claim(&identity.id)? else { return Ok((Done::Elsewhere, None)) };
    // It may have come while this one waited for nothing.
    if let Some(stored) = store.get(&identity.id) {
        return Ok((Done::HadResult, Some(stored)));
    }
    let mut stored = Stored { id: identity.id, config: identity.config.clone(), ..refused(words, &[]) };
    match work.run() {
        Ok(done) => {
            match done.lost {
                Some(SimError::Interrupted) => return Ok((Done::Interrupted, None)),
                // That others run beside it is no fault of the point's.
                Some(error) => return Ok((Done::Broken(error.to_string()), None)),
                None => {}
            }
            stored.seconds = done.seconds;
            (stored.result, stored.message) = (done.result, done.message);
            stored.report = Some(done.report);
        }
        Err(errors) => stored.message = errors.first().map_or(String::new(), |e| e.message.clone()),
    }
    store.put_config(&identity.config, &identity.values)?;
    store.put(&stored)?;
    Ok((Done::Simulated, Some(stored)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_point_gives_the_exit_status() {
        let of = |results: &[&str]| results.iter().fold(status::DONE, |code, result| worse(code, result));
        assert_eq!(of(&[]), 0);
        assert_eq!((of(&["refused"]), of(&["fail"]), of(&["fault"]), of(&["stopped"])), (2, 1, 3, 3));
        assert_eq!((of(&["fail", "refused"]), of(&["refused", "fail"]), of(&["fault", "fail"])), (1, 1, 3));
    }

    #[test]
    fn shards_are_counted_from_one() {
        assert_eq!(shard(None), Ok((0, 1)));
        assert_eq!(shard(Some("2/3")), Ok((1, 3)));
        for wrong in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(shard(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
