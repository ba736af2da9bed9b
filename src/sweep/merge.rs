//! `warpsim sweep merge`: results of several folders, in one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::points::{Candidate, candidates, load, refused_id};
use super::store::{Store, Stored};
use crate::cli::sweep::SweepMergeArgs;
use crate::console::{complain, status};
use crate::files;

/// Merges; gives the exit status. Nothing is written unless everything can be.
pub fn merge(args: &SweepMergeArgs) -> u8 {
    let (_, spec, points) = match load(&args.file) {
        Ok(loaded) => loaded,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let ids = candidates(&spec, &points).into_iter().map(|candidate| match candidate {
        Candidate::Ready { id, words, .. } => (id, words),
        Candidate::Refused { words, .. } => (refused_id(&words), words),
    });
    let ids: BTreeMap<String, Vec<String>> = ids.collect();
    match merged(args, &ids) {
        Ok(added) => {
            let store = Store::read_only(&args.results);
            println!(
                "{}: {added} results added to {}, which has {} of {} distinct points",
                spec.name,
                args.results.display(),
                ids.keys().filter(|id| store.get(id).is_some()).count(),
                ids.len()
            );
            status::DONE
        }
        Err(errors) => {
            errors.iter().for_each(|message| eprintln!("error: {message}"));
            status::BAD_INPUT
        }
    }
}

/// Adds what the folders have, and counts it.
fn merged(args: &SweepMergeArgs, ids: &BTreeMap<String, Vec<String>>) -> Result<usize, Vec<String>> {
    let mut found: BTreeMap<String, (Stored, PathBuf)> = BTreeMap::new();
    let mut errors = Vec::new();
    let into = std::iter::once(&args.results).filter(|folder| folder.join("points").is_dir());
    for folder in into.chain(&args.from) {
        let stored = match stored(folder) {
            Ok(stored) => stored,
            Err(message) => {
                errors.push(message);
                continue;
            }
        };
        for point in stored {
            let name = point.run.join(" ");
            if !ids.contains_key(&point.id) {
                // What the folder itself holds besides is not moved.
                if *folder != args.results {
                    errors.push(format!(
                        "{}: `{name}` of {} is not a point of {} as this program, {}, would simulate it",
                        folder.display(),
                        point.version,
                        args.file.display(),
                        crate::VERSION
                    ));
                }
                continue;
            }
            match found.get(&point.id) {
                Some((other, from)) if !same(other, &point) => errors.push(format!(
                    "`{name}` is {} in {} and {} in {}, with different metrics: the results of one point must agree; \
                     remove points/{}.json from one of them",
                    other.result,
                    from.display(),
                    point.result,
                    folder.display(),
                    point.id
                )),
                Some(_) => {}
                None => {
                    found.insert(point.id.clone(), (point, folder.clone()));
                }
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let failed = |error: std::io::Error| vec![files::unwritable(&args.results, &error)];
    let store = Store::open(&args.results).map_err(failed)?;
    let mut added = 0;
    for (point, from) in found.values().filter(|(_, from)| *from != args.results) {
        let config = Store::read_only(from).config(&point.config);
        if let Some(text) = config {
            store.put_config(&point.config, || text).map_err(failed)?;
        }
        store.put(point).map_err(failed)?;
        added += 1;
    }
    Ok(added)
}

/// Two results of one simulation agree; the host's time does not matter.
pub(super) fn same(a: &Stored, b: &Stored) -> bool {
    (&a.result, &a.message, &a.config, &a.report) == (&b.result, &b.message, &b.config, &b.report)
}

/// The results of a folder, in the order of their names.
fn stored(folder: &Path) -> Result<Vec<Stored>, String> {
    let points = folder.join("points");
    if !points.is_dir() {
        return Err(format!("{} is not a folder of results: it has no folder `points`", folder.display()));
    }
    let unreadable = |error: std::io::Error| files::unreadable(&points, &error);
    let store = Store::read_only(folder);
    store.ids().map_err(unreadable)?.iter().map(|id| store.read(id)).collect()
}
