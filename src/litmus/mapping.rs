//! `litmus mapping`: the compiler mapping from scoped C++ onto PTX, checked to a bound.

use std::path::Path;
use std::time::Instant;

use sim_frontend::diagnostic::Diagnostic;
use sim_verify::mapping::counterexample::pair;
use sim_verify::mapping::execution::ScAccess;
use sim_verify::mapping::search::{Check, Counterexample, Searched};
use sim_verify::mapping::table::{FIG11, Table};

use super::model;
use crate::cli::litmus::MappingArgs;
use crate::configs;
use crate::console::{complain, status};

/// Runs the command.
pub fn run(args: &MappingArgs) -> u8 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.unwrap_or(0)).build();
    let checked = match pool {
        Ok(pool) => pool.install(|| checked(args)),
        Err(_) => checked(args),
    };
    checked.unwrap_or_else(|error| {
        complain(&[error]);
        status::BAD_INPUT
    })
}

fn checked(args: &MappingArgs) -> Result<u8, Diagnostic> {
    let (source, target) = (model(&args.source_model)?, model(&args.model)?);
    for (model, name, order) in [(&source, &args.source_model, "mo"), (&target, &args.model, "co")] {
        if !model.defines(order) {
            let message = format!(
                "{name}: the model defines no relation `{order}`, which the check of the mapping requires"
            );
            return Err(Diagnostic::error("model", message));
        }
    }
    let right = Table::parse("fig11.map", FIG11)?;
    let table = match &args.map {
        Some(file) => Table::parse(&file.display().to_string(), &configs::read(file)?.text)?,
        None => right.clone(),
    };
    let sc = if args.direct_sc { ScAccess::Direct } else { ScAccess::Converted };
    let differing = table.differing(&right);
    let shipped = args.source_model == "rc11-scoped" && args.model == "ptx-6.0";
    let reduce = shipped && sc == ScAccess::Converted && differing.is_empty() && !args.all_programs;
    let check = Check { source: &source, target: &target, table: &table, sc, reduce };
    if !differing.is_empty() {
        println!(
            "{} rows differ from MM figure 11; the classical shapes with such a row are searched first",
            differing.len()
        );
        let searched = timed("classical", || check.classical(&differing));
        if let Some(found) = searched.counterexample {
            return told(&found, &table, args);
        }
    }
    for events in 1..=usize::from(args.events) {
        let searched = timed(&format!("{events} events"), || check.all_of(events));
        if let Some(found) = searched.counterexample {
            return told(&found, &table, args);
        }
    }
    println!(
        "no counterexample: theorems 1, 2 and 3 of MM §5 hold for all programs of at most {} events",
        args.events
    );
    Ok(status::DONE)
}

fn timed(what: &str, search: impl FnOnce() -> Searched) -> Searched {
    let start = Instant::now();
    let searched = search();
    println!(
        "{what}: {} shapes, {} programs; {} representative shapes searched, {} programs decided individually, {:.1} s",
        searched.shapes,
        searched.programs,
        searched.searched,
        searched.decided_one_by_one,
        start.elapsed().as_secs_f64()
    );
    searched
}

/// Prints the counterexample, and writes it into files.
fn told(found: &Counterexample, table: &Table, args: &MappingArgs) -> Result<u8, Diagnostic> {
    let name =
        args.map.as_deref().and_then(Path::file_stem).map_or("mapping".into(), |stem| stem.to_string_lossy());
    let pair = pair(found, table, &name);
    println!(
        "the scoped C++ program forbids this outcome:\n\n{}\nthe compiled PTX program allows it:\n\n{}",
        pair.source, pair.target
    );
    if let Some(folder) = &args.out {
        let failed = |reason: std::io::Error| {
            Diagnostic::error("mapping", format!("{}: {}", folder.display(), crate::files::reason(&reason)))
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        std::fs::write(folder.join(format!("{name}.c11")), pair.source).map_err(failed)?;
        std::fs::write(folder.join(format!("{name}.litmus")), pair.target).map_err(failed)?;
    }
    Ok(status::DIFFERS)
}
