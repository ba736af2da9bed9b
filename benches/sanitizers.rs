//! What do sanitizers cost? Every workload with `--check all` against the default check, functional and timed: the part
//! of a run in which kernels execute, without start-up, loading and the comparison of results. Limits: 4 times
//! functional, 2 times timed. Each workload is marked `ok` or `OVER`; in the end it says `green`, or `red` with those over
//! a limit, and exits with status 1 if these are host instructions, which are the same in every run.
//!
//! ```text
//! cargo bench --bench sanitizers                                 host time, both by turns, the fastest of several
//! cargo bench --bench sanitizers -- instructions [WORKLOAD…]     host instructions, counted by valgrind's callgrind
//! ```
//!
//! Workloads that come to no end, as those that deadlock on purpose, say nothing of cost.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sim_core::sanitizer::Kinds;
use warpsim::request::{Program, Request};
use warpsim::run::Simulation;

// The allocator of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The modes with what a checked run may cost in each, against one that is not.
const MODES: [(&str, bool, f64); 2] = [("functional", true, 4.0), ("timed", false, 2.0)];
/// Runs of each, of which the fastest counts: at least, and at most.
const RUNS: [usize; 2] = [3, 40];
/// Runs end once they have taken so long.
const ENOUGH: Duration = Duration::from_millis(500);

fn seconds(workload: &Path, functional: bool, sanitize: Kinds) -> Option<f64> {
    let mut request = Request::new(Program::named(&workload.display().to_string()).ok()?);
    request.functional = functional;
    request.sanitize = sanitize;
    let outcome = Simulation::new(request).ok()?.simulate(&|_, _, _| {}).ok()?;
    outcome.stopped.is_none().then_some(outcome.simulated.as_secs_f64())
}

/// Milliseconds of host time without and with the check, by turns.
fn times(workload: &Path, functional: bool) -> Option<[f64; 2]> {
    let begin = Instant::now();
    let mut best = [f64::MAX; 2];
    for run in 0..RUNS[1] {
        for (best, sanitize) in best.iter_mut().zip([Kinds::default(), Kinds::ALL]) {
            *best = best.min(1e3 * seconds(workload, functional, sanitize)?);
        }
        if run + 1 >= RUNS[0] && begin.elapsed() > ENOUGH {
            break;
        }
    }
    Some(best)
}

/// Millions of host instructions without and with the check.
fn instructions(workload: &Path, functional: bool) -> Option<[f64; 2]> {
    let out = std::env::temp_dir().join(format!("warpsim-sanitizers-{}", std::process::id()));
    let count = |check: &str| {
        let run = Command::new("valgrind")
            .args([
                "--tool=callgrind",
                "--collect-atstart=no",
                "--toggle-collect=*device*Device*synchronize_until*",
            ])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(env!("CARGO_BIN_EXE_warpsim"))
            .args(["run", "--json", "--check", check])
            .args(functional.then_some("--functional"))
            .arg(workload)
            .output()
            .expect("valgrind is installed");
        let text = std::fs::read_to_string(&out).unwrap_or_else(|error| {
            panic!("{error}: valgrind says {}", String::from_utf8_lossy(&run.stderr));
        });
        let total =
            text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
        total.and_then(|total| total.split_whitespace().next()?.parse::<f64>().ok()).map(|count| count / 1e6)
    };
    // Those that come to no end say nothing.
    seconds(workload, functional, Kinds::default())?;
    let counts = [count("safety")?, count("all")?];
    std::fs::remove_file(&out).ok();
    Some(counts)
}

/// A workload, and for each mode what it cost without and with the check.
struct Row {
    name: String,
    costs: [Option<[f64; 2]>; 2],
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let counts = arguments.first().is_some_and(|first| first == "instructions");
    let wanted = &arguments[usize::from(counts)..];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut workloads: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .flat_map(|entry| {
            let path = entry.expect("an entry").path();
            let inside = std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path());
            inside.chain([path.clone()]).collect::<Vec<_>>()
        })
        .filter(|path| path.join("workload.yaml").exists())
        .collect();
    workloads.sort();
    let unit = if counts { "million instructions" } else { "ms" };
    println!("{:24} {:>24} {:>24}", format!("({unit})"), MODES[0].0, MODES[1].0);
    let mut rows = Vec::new();
    for workload in &workloads {
        let name = workload.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if !wanted.is_empty() && !wanted.contains(&name) {
            continue;
        }
        let measure = if counts { instructions } else { times };
        let row = Row { name, costs: MODES.map(|(_, functional, _)| measure(workload, functional)) };
        let told = [0, 1].map(|mode| match row.costs[mode] {
            Some([plain, checked]) if checked <= MODES[mode].2 * plain => {
                format!("{plain:10.2} × {:<6.2}{:5}", checked / plain, "ok")
            }
            Some([plain, checked]) => format!("{plain:10.2} × {:<6.2}{:5}", checked / plain, "OVER"),
            None => "does not end".into(),
        });
        println!("{:24} {:>24} {:>24}", row.name, told[0], told[1]);
        rows.push(row);
    }
    let mut red = false;
    for (mode, (name, _, limit)) in MODES.iter().enumerate() {
        let costs = rows.iter().filter_map(|row| Some((row.costs[mode]?, &row.name)));
        let mut ratios: Vec<(f64, &String)> =
            costs.map(|([plain, checked], name)| (checked / plain, name)).collect();
        ratios.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some((worst, of)) = ratios.first() else { continue };
        let total = rows.iter().filter_map(|row| row.costs[mode]);
        let [plain, checked] = total.fold([0.0, 0.0], |sum, cost| [sum[0] + cost[0], sum[1] + cost[1]]);
        let over: Vec<String> = ratios
            .iter()
            .filter(|(ratio, _)| ratio > limit)
            .map(|(ratio, name)| format!("{name} {ratio:.2}"))
            .collect();
        println!(
            "{name}: {}: {} workloads, {:.2} times over all, at most {worst:.2} ({of}); over the limit of {limit}: {}",
            if over.is_empty() { "green" } else { "red" },
            ratios.len(),
            checked / plain,
            if over.is_empty() { "none".into() } else { over.join(", ") }
        );
        red |= !over.is_empty();
    }
    if red && counts {
        std::process::exit(1);
    }
}
