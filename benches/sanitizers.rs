//! What do sanitizers cost? Host time of every workload with `--check all` over that with the default check, in the
//! functional and in the timed mode: the sum over the suite, and the workload that pays most.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sim_core::sanitizer::Kinds;
use warpsim::request::{Program, Request};
use warpsim::run::Simulation;

// The allocator of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs of each, of which the fastest counts.
const RUNS: usize = 3;

fn time(workload: &Path, functional: bool, sanitize: Kinds) -> Option<Duration> {
    let run = || {
        let mut request = Request::new(Program::named(&workload.display().to_string()).ok()?);
        request.functional = functional;
        request.sanitize = sanitize;
        request.max_instructions = Some(20_000_000);
        let outcome = Simulation::new(request).ok()?.simulate(&|_, _, _| {}).ok()?;
        outcome.stopped.is_none().then_some(outcome.simulated)
    };
    (0..RUNS).filter_map(|_| run()).min()
}

fn main() {
    let mut workloads: Vec<PathBuf> =
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.join("workload.yaml").exists())
            .collect();
    workloads.sort();
    for functional in [true, false] {
        let (mut plain, mut checked, mut worst) = (Duration::ZERO, Duration::ZERO, (0.0, String::new()));
        for workload in &workloads {
            let (Some(a), Some(b)) =
                (time(workload, functional, Kinds::default()), time(workload, functional, Kinds::ALL))
            else {
                continue;
            };
            (plain, checked) = (plain + a, checked + b);
            let name = workload.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
            let times = b.as_secs_f64() / a.as_secs_f64();
            println!("{name}: {:.2} ms, {times:.2} times with sanitizers", a.as_secs_f64() * 1e3);
            if times > worst.0 {
                worst = (times, name);
            }
        }
        println!(
            "{}: {:.2} times over the suite, at most {:.2} ({})",
            if functional { "functional" } else { "timed" },
            checked.as_secs_f64() / plain.as_secs_f64(),
            worst.0,
            worst.1
        );
    }
}
