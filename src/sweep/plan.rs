//! `warpsim sweep plan`: the points, which of them have results, and how long the others may take.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::points::{Candidate, candidates, load};
use super::store::Store;
use crate::cli::sweep::SweepPlanArgs;
use crate::console::{complain, status, table};
use crate::files;

/// Results whose times make the estimate.
const SAMPLE: usize = 1000;
/// Points that are listed where not all are asked for.
const LISTED: usize = 20;

/// Prints the plan; gives the exit status.
pub fn plan(args: &SweepPlanArgs) -> u8 {
    let (_, spec, points) = match load(&args.file) {
        Ok(loaded) => loaded,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let Some((first, _)) = points.split_first() else {
        println!("{}: no point is left", spec.name);
        return status::DONE;
    };
    let store = args.results.as_deref().filter(|folder| folder.exists()).map(Store::read_only);
    let there = match store.as_ref().map_or_else(|| Ok(BTreeSet::new()), Store::ids) {
        Ok(there) => there,
        Err(error) => {
            eprintln!("error: the folder of results cannot be read: {}", files::reason(&error));
            return status::BAD_INPUT;
        }
    };
    let list = candidates(&spec, &points);
    let axes: Vec<&str> = first.values.iter().map(|(axis, _)| axis.as_str()).collect();
    let mut header = vec!["point"];
    header.extend(&axes);
    header.push("state");
    let mut out = table(&header);
    let mut ids = BTreeMap::new();
    let (mut done, mut same, mut refused) = (0, 0, 0);
    let mut seconds: Vec<f64> = Vec::new();
    let shown = if args.all { list.len() } else { LISTED };
    for (i, candidate) in list.iter().enumerate() {
        let state = match candidate {
            Candidate::Refused { message, .. } => {
                refused += 1;
                format!("refused: {message}")
            }
            Candidate::Ready { id, .. } => {
                let first = *ids.entry(id.clone()).or_insert(i + 1);
                if first <= i {
                    same += 1;
                    format!("as point {first}")
                } else if there.contains(id) {
                    done += 1;
                    // A look into so many files tells how long a point takes.
                    let wanted = i < shown || seconds.len() < SAMPLE;
                    let stored = store.as_ref().filter(|_| wanted).and_then(|store| store.get(id));
                    seconds.extend(stored.as_ref().map(|stored| stored.seconds));
                    stored.map_or(String::new(), |stored| stored.result)
                } else {
                    String::new()
                }
            }
        };
        if i < shown {
            let mut row = vec![(i + 1).to_string()];
            row.extend(points[i].values.iter().map(|(_, value)| value.clone()));
            row.push(state);
            out.add_row(row);
        }
    }
    println!("{out}");
    if list.len() > shown {
        println!("… and {} more (--all lists them)", list.len() - shown);
    }
    let open = ids.len() - done;
    println!(
        "{}: {} points, {} distinct; {done} with results, {refused} refused, {same} duplicates, {open} remaining",
        spec.name,
        list.len(),
        ids.len(),
    );
    println!("{}", estimate(&list, &seconds, open, crate::study::jobs(args.jobs), args.results.as_deref()));
    if refused > 0 { status::BAD_INPUT } else { status::DONE }
}

/// How long the open points may take.
fn estimate(list: &[Candidate], seconds: &[f64], open: usize, jobs: usize, folder: Option<&Path>) -> String {
    if list.iter().all(|candidate| matches!(candidate, Candidate::Refused { .. })) {
        return "no point can be simulated: all are refused".to_string();
    }
    if open == 0 {
        return "nothing is left to do".to_string();
    }
    if !seconds.is_empty() {
        let each = seconds.iter().sum::<f64>() / seconds.len() as f64;
        let all = each * open as f64 / jobs as f64;
        let from = folder.map_or(String::new(), |folder| format!(" in {}", folder.display()));
        return format!(
            "estimate: {} with {jobs} concurrent simulations, from the mean of {} results{from}: {each:.3} s per point",
            span(all),
            seconds.len()
        );
    }
    // One point of the first, the middle and the last third, in functional mode.
    let ready: Vec<&Candidate> = list.iter().filter(|c| matches!(c, Candidate::Ready { .. })).collect();
    let tried: Vec<u64> = [0, ready.len() / 2, ready.len().saturating_sub(1)]
        .into_iter()
        .filter_map(|i| ready.get(i)?.instructions())
        .collect();
    if tried.is_empty() {
        return "estimate: none, no point runs".to_string();
    }
    let each = tried.iter().sum::<u64>() as f64 / tried.len() as f64 / ASSUMED_SPEED;
    format!(
        "estimate: {} with {jobs} concurrent simulations, from the warp instructions of {} points and an assumed {} per second; \
         with results in the folder it is more accurate",
        span(each * open as f64 / jobs as f64),
        tried.len(),
        ASSUMED_SPEED
    )
}

/// Warp instructions a host core simulates in a second, where nothing is known.
const ASSUMED_SPEED: f64 = 1e6;

fn span(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3600.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
