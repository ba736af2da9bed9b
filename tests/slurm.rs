//! A sweep on a real array of Slurm, on one machine: `.ci/slurm cargo test --workspace --test slurm`. A task is killed, then the node
//! fails, then the jobs are cancelled; a task of another sweep reaches its time limit. The table is that of one
//! undisturbed process all the same.

#![cfg(unix)]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Folder, parse, results_in, text, warpsim};

/// Longest time for all of it.
const LIMIT: Duration = Duration::from_secs(540);
/// Points of the sweep.
const POINTS: usize = 3000;

/// What a command says, which succeeds.
fn said(program: &str, args: &[&str]) -> String {
    let output = match program {
        "warpsim" => warpsim(args),
        other => Command::new(other).args(args).output().unwrap_or_else(|e| panic!("{other}: {e}")),
    };
    assert!(output.status.success(), "{program} {args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn queue() -> String {
    said("squeue", &["--noheader", "--array", "--format=%F_%a %T %r"])
}

fn is_claim(path: &Path) -> bool {
    path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
}

/// The claims of a results folder. What a process that was killed had not linked to its name is none.
fn claims(results: &str) -> Vec<PathBuf> {
    let list = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.flatten().map(|entry| entry.path())
    };
    list(Path::new(results).join("claims"))
        .filter(|path| path.is_dir())
        .flat_map(list)
        .filter(|path| is_claim(path))
        .collect()
}

/// The processes that have claims, which may go while they are looked at.
fn workers(results: &str) -> BTreeSet<u64> {
    let texts = claims(results).into_iter().filter_map(|path| std::fs::read(path).ok());
    let claims = texts.filter_map(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    claims
        .filter(|claim| claim["ended"].is_null())
        .filter_map(|claim| claim["holder"]["pid"].as_u64())
        .collect()
}

fn kill(pid: &str) {
    // It may have ended just now.
    let _ = Command::new("kill").args(["-KILL", pid]).output();
}

struct Clock(Instant);

impl Clock {
    /// Waits until it is so.
    fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        while !so() {
            assert!(self.0.elapsed() < LIMIT, "{what}: too long\n{}", queue());
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("{:6.1} s  {what}", self.0.elapsed().as_secs_f64());
    }
}

#[test]
fn a_disturbed_array_has_the_table_of_one_process() {
    let Ok(slurm) = std::env::var("WARPSIM_SLURM") else {
        eprintln!(
            "skipped: `.ci/slurm cargo test --workspace --test slurm` runs it where Slurm can be installed"
        );
        return;
    };
    let clock = Clock(Instant::now());
    let folder = Folder::new("slurm");
    let sweep = folder.write(
        "s.yaml",
        &format!(
            "schema: 1\nname: s\naxes:\n  workload: nqueens\n  seed: {{range: {{from: 1, to: {POINTS}, step: 1}}}}\n  chip: gtx480\n"
        ),
    );
    let long = folder.write(
        "long.yaml",
        "schema: 1\nname: long\naxes:\n  workload: fmaloop\n  chip: gtx480\n  set: {n: 3000000}\n",
    );
    let [whole, results, limited] = ["whole", "results", "limited"].map(|name| folder.join(name));
    let submit = |sweep: &str, results: &str, more: &[&str]| {
        let said = said("warpsim", &[&["sweep", "submit", sweep, "--results", results], more].concat());
        let job = |kind: &str| {
            said.lines().find_map(|line| line.strip_prefix(kind)).map(|job| job.trim().to_string())
        };
        (job("array:").unwrap_or_else(|| panic!("{said}")), job("collect:").expect("a job"))
    };
    // A task of a minute, which is told 10 seconds before its end; Slurm looks every so often.
    let (limited_task, limited_collect) =
        submit(&long, &limited, &["--slurm-option=--time=1", "--slurm-option=--signal=B:TERM@10"]);
    clock.until("the long point is under way", || !claims(&limited).is_empty());
    said("warpsim", &["sweep", "run", &sweep, "--results", &whole, "--jobs", "1"]);
    said("warpsim", &["sweep", "collect", &whole]);
    let there = || results_in(Path::new(&results)).len();
    let nothing = || {
        let of_limited = |line: &str| {
            line.starts_with(&format!("{limited_task}_")) || line.starts_with(&format!("{limited_collect}_"))
        };
        queue().lines().all(of_limited)
    };
    let more = |count: usize| {
        let wanted = there() + count;
        clock.until(&format!("{wanted} results"), || there() >= wanted);
    };

    // The task with a limit reaches it. When that is depends on Slurm's clock alone, so the sweep that is disturbed does
    // not begin before.
    let log = Path::new(&limited).join("logs/1/1.txt");
    let ended = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("ended by SIGTERM"));
    clock.until("the long task reaches its limit", ended);
    assert!(claims(&limited).is_empty(), "its point was given back");

    // A task is killed; those that go on do its points.
    let four = ["--tasks", "4"];
    submit(&sweep, &results, &four);
    more(100);
    clock.until("a task is killed", || {
        let worker = workers(&results).into_iter().next();
        worker.iter().for_each(|pid| kill(&pid.to_string()));
        worker.is_some()
    });
    more(100);

    // The node fails with all that runs on it.
    let pid = std::fs::read_to_string(format!("{slurm}/slurmd.pid")).expect("a number");
    kill(pid.trim());
    clock.until("all tasks of the node are gone", || {
        let workers = workers(&results);
        workers.iter().for_each(|pid| kill(&pid.to_string()));
        let before = there();
        std::thread::sleep(Duration::from_millis(700));
        there() == before
    });
    assert!(there() < POINTS, "nothing is left to disturb");
    clock.until("the node is down", || said("sinfo", &["--noheader", "--format=%t"]).contains("down"));
    said("slurmd", &[]);
    clock.until("the node is back", || !said("sinfo", &["--noheader", "--format=%t"]).contains("down"));

    // Slurm starts the tasks again some minutes later: they are cancelled, and new ones submitted.
    said("warpsim", &["sweep", "cancel", &results]);
    clock.until("nothing of it is queued", nothing);
    submit(&sweep, &results, &four);
    more(100);
    said("warpsim", &["sweep", "cancel", &results]);
    clock.until("nothing of it is queued", nothing);
    let status = said("warpsim", &["sweep", "status", &results]);
    assert!(status.contains("running  0"), "tasks that are cancelled give back their points: {status}");
    assert!(there() < POINTS, "nothing is left to disturb");

    // Two arrays on one folder, to the end.
    let (_, first) = submit(&sweep, &results, &["--tasks", "2"]);
    let (_, second) = submit(&sweep, &results, &["--tasks", "2"]);
    clock.until("the jobs that collect have ended", || {
        let queue = queue();
        !queue.contains(&format!("{first}_")) && !queue.contains(&format!("{second}_"))
    });
    assert_eq!((there(), claims(&results).len()), (POINTS, 0));
    for name in ["table.csv", "table.sqlite"] {
        let of = |results: &str| std::fs::read(Path::new(results).join(name)).expect("a table");
        assert!(of(&results) == of(&whole), "{name} differs");
    }
    // What Slurm says of the limit, and the task.
    clock.until("the long task has ended", || queue().is_empty());
    let state = std::fs::read_to_string(format!("{slurm}/log/jobcomp.txt")).expect("a ledger");
    assert!(state.contains("JobState=COMPLETED"), "{state}");
    let plans = std::fs::read_dir(Path::new(&results).join("sweeps")).expect("a folder").flatten();
    let kept = plans.map(|entry| parse(&std::fs::read(entry.path()).expect("there"))["name"].clone());
    assert_eq!(kept.collect::<Vec<_>>(), ["s"]);
}
