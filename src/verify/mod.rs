//! `verify sync`: synchronization of a kernel's threads, decided for all interleavings from one functional run.

mod atomics;
mod collect;
mod findings;
mod report;
mod told;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sim_core::error::{FaultKind, SimError};
use sim_core::recording::Record;
use sim_frontend::diagnostic::Diagnostic;

use crate::cli::verify::SyncArgs;
use crate::console::{complain, status};
use crate::host::peak_memory;
use crate::interrupt::on_interrupt;
use crate::run::Simulation;

use collect::{Collector, Stopped};
use report::{Host, Kind, Place, SyncReport};

/// Runs the command; gives the exit status.
pub fn sync(args: &SyncArgs) -> u8 {
    match verify(args) {
        Ok((report, interrupted)) => {
            if args.json {
                match serde_json::to_string_pretty(&report) {
                    Ok(text) => println!("{text}"),
                    Err(error) => {
                        eprintln!("error: the report cannot be written: {error}");
                        return status::BAD_INPUT;
                    }
                }
            } else {
                print!("{}", report.text());
            }
            match report.verdict {
                _ if interrupted => status::INTERRUPTED,
                Kind::Verified => status::DONE,
                Kind::Finding => status::FAULT,
                Kind::Unknown => status::UNKNOWN,
            }
        }
        Err(errors) => {
            complain(&errors);
            status::BAD_INPUT
        }
    }
}

fn verify(args: &SyncArgs) -> Result<(SyncReport, bool), Vec<Diagnostic>> {
    on_interrupt();
    let start = Instant::now();
    let mut simulation = Simulation::new(args.request()?)?;
    let collector = Arc::new(Mutex::new(Collector::new(simulation.chip.capability())));
    let told = Arc::clone(&collector);
    simulation.tell(Record(Arc::new(move |recorded| {
        told.lock().unwrap_or_else(PoisonError::into_inner).tell(&recorded);
    })));
    let outcome = simulation.unwatched()?;
    let stopped = outcome.stopped.as_ref().map(stopped);
    let interrupted = matches!(outcome.stopped, Some(SimError::Interrupted));
    let empty = Collector::new(simulation.chip.capability());
    let collector = std::mem::replace(&mut *collector.lock().unwrap_or_else(PoisonError::into_inner), empty);
    let launches = collector.finish(stopped.as_ref());
    if launches.is_empty() && stopped.is_none() {
        let error = Diagnostic::error("verify", "the workload launches no kernel");
        return Err(vec![error.help("--set KEY=VALUE changes the parameters of a workload")]);
    }
    let cut = if stopped.is_some() { Kind::Unknown } else { Kind::Verified };
    let verdict = launches.iter().map(report::KernelVerdict::verdict).max().unwrap_or(Kind::Unknown).max(cut);
    let host = Host { seconds: start.elapsed().as_secs_f64(), peak_memory_bytes: peak_memory() };
    let (workload, variant) = simulation.names();
    let (workload, variant) = (workload.to_string(), variant.to_string());
    let chip = simulation.chip.name.clone();
    Ok((SyncReport { schema: 1, workload, variant, chip, verdict, launches, host }, interrupted))
}

/// Why a run stopped, in terms of barriers.
fn stopped(error: &SimError) -> Stopped {
    let SimError::Stopped(fault) = error else {
        return Stopped { message: error.to_string(), ..Stopped::default() };
    };
    let place = Place {
        file: std::path::Path::new(&*fault.place.file)
            .file_name()
            .map_or(String::new(), |name| name.to_string_lossy().into_owned()),
        line: fault.place.line,
        instruction: fault.place.instruction.to_string(),
        source: None,
    };
    Stopped {
        message: fault.message.clone(),
        place: Some(place),
        block: Some(fault.place.block),
        // Threads that test an mbarrier object for ever wait.
        deadlock: matches!(fault.kind, FaultKind::Deadlock | FaultKind::Livelock),
        misuse: ["bar-", "mbarrier", "barrier-cluster"].iter().any(|rule| fault.rule.starts_with(rule)),
    }
}
