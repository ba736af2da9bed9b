//! Sweeps by several processes on one folder: whatever becomes of them, the table is that of one undisturbed process.

#![cfg(unix)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use common::{Folder, command, parse, results_in, text, warpsim};

/// Longer than a claim lives that is not renewed.
const LONG_AGO: Duration = Duration::from_secs(3600);

/// What a command says, which succeeds.
fn said(args: &[&str]) -> String {
    let output = warpsim(args);
    assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A sweep of so many seeds of a small kernel.
fn seeds(folder: &Folder, count: usize) -> String {
    let seed = format!("{{range: {{from: 1, to: {count}, step: 1}}}}");
    folder.write(
        "s.yaml",
        &format!("schema: 1\nname: s\naxes:\n  workload: nqueens\n  seed: {seed}\n  chip: gtx480\n"),
    )
}

/// A sweep of one point that takes longer than any test.
fn long(folder: &Folder) -> String {
    folder.write(
        "s.yaml",
        "schema: 1\nname: long\naxes:\n  workload: fmaloop\n  chip: gtx480\n  set: {n: 100000}\n",
    )
}

/// Plans a sweep in a folder, and starts nothing.
fn planned(sweep: &str, results: &str) {
    let said = said(&["sweep", "submit", sweep, "--results", results, "--dry-run"]);
    assert!(said.contains("sbatch") && said.contains("sweep work"), "{said}");
}

/// Names of the results of the only sweep in a folder, in the order of its points.
fn ids(results: &str) -> Vec<String> {
    let list = std::fs::read_dir(Path::new(results).join("sweeps")).expect("a folder");
    let plans: Vec<PathBuf> = list.map(|entry| entry.expect("an entry").path()).collect();
    let [plan] = plans.as_slice() else { panic!("{plans:?}") };
    let plan = parse(&std::fs::read(plan).expect("there"));
    plan["ids"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|id| id.as_str().expect("a name").to_string())
        .collect()
}

/// The file of the claim of a point that ended its process so often.
fn claim(results: &str, id: &str, deaths: usize) -> PathBuf {
    Path::new(results).join("claims").join(&id[..2]).join(format!("{id}.{}", deaths + 1))
}

/// All claims of a folder. What a process that was killed had not linked to its name is none.
fn claims(results: &str) -> Vec<PathBuf> {
    let list = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path())
    };
    list(Path::new(results).join("claims"))
        .filter(|path| path.is_dir())
        .flat_map(list)
        .filter(|path| is_claim(path))
        .collect()
}

fn is_claim(path: &Path) -> bool {
    path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
}

/// Puts the claim of a process of another host there, as old as that.
fn put_claim(results: &str, id: &str, deaths: usize, age: Duration) {
    let path = claim(results, id, deaths);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let text = r#"{"holder":{"host":"far","system":"far","pid":7,"started":7,"job":"12_3","restart":0},"since":1000,"ended":null}"#;
    std::fs::write(&path, text).expect("written");
    let file = std::fs::File::options().write(true).open(&path).expect("there");
    file.set_modified(SystemTime::now() - age).expect("set");
}

fn work(results: &str, jobs: &str) -> Child {
    let mut command = command(&["sweep", "work", results, "--jobs", jobs]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Waits until it is so; the process that makes it so is still there.
fn until(child: &mut Child, mut so: impl FnMut() -> bool) {
    while !so() {
        assert!(child.try_wait().expect("a state").is_none(), "it ended before");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn terminate(child: &Child) {
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.expect("kill starts").success());
}

/// The tables of a folder.
fn tables(results: &str) -> [Vec<u8>; 2] {
    ["table.csv", "table.sqlite"].map(|name| std::fs::read(Path::new(results).join(name)).expect("a table"))
}

#[test]
fn a_disturbed_sweep_has_the_table_of_an_undisturbed_one() {
    let folder = Folder::new("disturbed");
    let sweep = seeds(&folder, 48);
    let [whole, results] = ["whole", "results"].map(|name| folder.join(name));
    said(&["sweep", "run", &sweep, "--results", &whole, "--jobs", "1"]);
    said(&["sweep", "collect", &sweep, "--results", &whole]);
    planned(&sweep, &results);
    let ids = ids(&results);
    assert_eq!(ids.len(), 48);
    // One point was begun on a host that failed.
    put_claim(&results, &ids[5], 0, LONG_AGO);
    let there = || results_in(Path::new(&results)).len();
    // One process is killed, one told to end, one goes on.
    let mut killed = work(&results, "2");
    until(&mut killed, || there() >= 3);
    killed.kill().expect("killed");
    killed.wait().expect("ended");
    let mut ended = work(&results, "1");
    let before = there();
    until(&mut ended, || there() >= before + 3);
    terminate(&ended);
    let ended = ended.wait_with_output().expect("ended");
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert!(text(&ended.stdout).contains("ended by SIGTERM"), "{}", text(&ended.stdout));
    let both = [work(&results, "1"), work(&results, "1")];
    for child in both {
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_eq!((there(), claims(&results).len()), (48, 0));
    // Who was killed behind the result leaves a claim, which the next process removes; that of a process that lives stays.
    put_claim(&results, &ids[9], 0, LONG_AGO);
    put_claim(&results, &ids[10], 0, Duration::ZERO);
    assert!(work(&results, "1").wait().expect("ended").success());
    assert_eq!(claims(&results), [claim(&results, &ids[10], 0)]);
    std::fs::remove_file(claim(&results, &ids[10], 0)).expect("there");
    let status = said(&["sweep", "status", &results]);
    assert!(status.contains("done     48 (100.0 %), 0 of them failed"), "{status}");
    // By the folder alone, and as if it were the file's.
    said(&["sweep", "collect", &results]);
    assert!(tables(&results) == tables(&whole), "the tables differ");
    said(&["sweep", "collect", &sweep, "--results", &results]);
    assert!(tables(&results) == tables(&whole), "the tables differ");
}

#[test]
fn a_point_under_way_is_given_back_at_sigterm() {
    let folder = Folder::new("given-back");
    let results = folder.join("results");
    planned(&long(&folder), &results);
    let mut child = work(&results, "1");
    until(&mut child, || claims(&results).len() == 1);
    // Others see it, and leave it alone.
    let status = said(&["sweep", "status", &results]);
    assert!(status.contains("running  1") && status.contains("left     0"), "{status}");
    assert!(status.contains(&child.id().to_string()) && status.contains("UTC"), "{status}");
    let other = text(&work(&results, "1").wait_with_output().expect("ended").stdout);
    assert!(other.contains("0 simulated") && other.contains("1 in progress elsewhere"), "{other}");
    terminate(&child);
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(claims(&results).is_empty() && results_in(Path::new(&results)).is_empty());
    let status = said(&["sweep", "status", &results]);
    assert!(status.contains("running  0") && status.contains("left     1\n"), "{status}");
}

#[test]
fn claims_of_other_hosts_hold_until_they_are_old() {
    let folder = Folder::new("claims");
    let results = folder.join("results");
    planned(&seeds(&folder, 3), &results);
    let ids = ids(&results);
    put_claim(&results, &ids[1], 0, Duration::ZERO);
    let status = said(&["sweep", "status", &results]);
    assert!(status.contains("running  1") && status.contains("far") && status.contains("12_3"), "{status}");
    let said_by = |child: Child| text(&child.wait_with_output().expect("ended").stdout);
    let first = said_by(work(&results, "1"));
    assert!(
        first.contains("3 points, 2 simulated, 0 already had results, 1 in progress elsewhere"),
        "{first}"
    );
    // Its host is silent for too long.
    put_claim(&results, &ids[1], 0, LONG_AGO);
    let status = said(&["sweep", "status", &results]);
    assert!(status.contains("left     1, 1 of them begun by processes that are gone"), "{status}");
    let second = said_by(work(&results, "1"));
    assert!(second.contains("3 points, 1 simulated, 2 already had results, 0 in progress"), "{second}");
    assert!(claims(&results).is_empty());
}

#[test]
fn the_task_that_slurm_starts_again_takes_its_point_back() {
    let folder = Folder::new("requeued");
    let results = folder.join("results");
    planned(&seeds(&folder, 1), &results);
    let ids = ids(&results);
    // Renewed a moment ago, by the same task on another host, which is down now.
    put_claim(&results, &ids[0], 0, Duration::ZERO);
    let again = |restart: &str| {
        let slurm =
            [("SLURM_ARRAY_JOB_ID", "12"), ("SLURM_ARRAY_TASK_ID", "3"), ("SLURM_RESTART_COUNT", restart)];
        text(&command(&["sweep", "work", &results]).envs(slurm).output().expect("it starts").stdout)
    };
    assert!(again("0").contains("1 in progress elsewhere"));
    assert!(again("1").contains("1 simulated"));
}

/// The rows of a point in a table.
fn row(results: &str, n: &str) -> (String, String) {
    said(&["sweep", "collect", results]);
    let mut reader = csv::Reader::from_path(Path::new(results).join("table.csv")).expect("a table");
    let rows =
        reader.deserialize::<std::collections::HashMap<String, String>>().map(|row| row.expect("a row"));
    let row = rows.into_iter().find(|row| row["n"] == n).expect("a row");
    (row["result"].clone(), row["message"].clone())
}

fn two_sizes(folder: &Folder, large: u64) -> String {
    folder.write(
        "s.yaml",
        &format!(
            "schema: 1\nname: s\naxes:\n  workload: vecadd\n  chip: gtx480\n  set: {{n: [1000, {large}]}}\n"
        ),
    )
}

#[test]
fn a_point_whose_process_was_killed_three_times_is_not_tried_again() {
    let folder = Folder::new("three");
    let results = folder.join("results");
    let sweep = two_sizes(&folder, 2000);
    planned(&sweep, &results);
    let ids = ids(&results);
    for deaths in 0..2 {
        put_claim(&results, &ids[1], deaths, LONG_AGO);
    }
    // After two deaths it is tried once more, apart.
    let other = Folder::new("three-less");
    let fewer = other.join("results");
    planned(&sweep, &fewer);
    for deaths in 0..2 {
        put_claim(&fewer, &ids[1], deaths, LONG_AGO);
    }
    let output = warpsim(&["sweep", "work", &fewer]);
    assert!(text(&output.stdout).contains("2 points, 2 simulated"), "{}", text(&output.stderr));
    assert_eq!(row(&fewer, "2000").0, "pass");
    put_claim(&results, &ids[1], 2, LONG_AGO);
    let output = warpsim(&["sweep", "work", &results]);
    assert!(output.status.success(), "a point that fails is a row: {}", text(&output.stderr));
    let (result, message) = row(&results, "2000");
    assert_eq!(result, "fault");
    assert!(message.starts_with("it ended its process 3 times: it was killed"), "{message}");
    assert!(claims(&results).is_empty());
    let status = said(&["sweep", "status", &results]);
    assert!(
        status.contains("1 of them failed") && status.contains("it ended its process 3 times"),
        "{status}"
    );
    let again = warpsim(&["sweep", "run", &sweep, "--results", &results]);
    assert_eq!(again.status.code(), Some(3));
    assert!(text(&again.stdout).contains("0 simulated, 2 already had results"), "{}", text(&again.stdout));
}

/// Another host may have the memory that this one lacks: such a point is no row before the third attempt, and its row is the same
/// however much memory there was.
#[test]
fn a_point_for_which_the_host_has_too_little_memory_is_tried_three_times() {
    let rows = ["400", "450"].map(|mib| {
        let folder = Folder::new(&format!("memory-{mib}"));
        let results = folder.join("results");
        let sweep = two_sizes(&folder, 100_000_000);
        let mut command = command(&["sweep", "run", &sweep, "--results", &results, "--jobs", "1"]);
        let output = command.env("SLURM_MEM_PER_NODE", mib).output().expect("it starts");
        assert_eq!(output.status.code(), Some(3), "{}{}", text(&output.stdout), text(&output.stderr));
        let (result, message) = row(&results, "100000000");
        assert_eq!(result, "fault");
        assert!(message.contains("3 times") && message.contains("too little memory"), "{message}");
        assert_eq!(row(&results, "1000").0, "pass");
        std::fs::read(Path::new(&results).join("table.csv")).expect("a table")
    });
    assert_eq!(rows[0], rows[1]);
}

/// A point whose process is killed at each attempt: the first takes the process of the sweep with it, the other two have
/// processes of their own. All others are simulated.
#[cfg(target_os = "linux")]
#[test]
fn a_point_that_is_killed_takes_no_other_with_it() {
    let folder = Folder::new("killer");
    let results = folder.join("results");
    // The second takes minutes, however fast the host: far more than the three seconds of processor time that a process may have.
    let sweep = folder.write(
        "s.yaml",
        "schema: 1\nname: s\naxes:\n  workload: fmaloop\n  chip: gtx480\n  set: {n: [1, 100000]}\n",
    );
    let run = || {
        let script = "ulimit -c 0; ulimit -t 3; exec \"$0\" sweep run \"$@\" --jobs 1";
        let mut sh = Command::new("sh");
        sh.current_dir(env!("CARGO_MANIFEST_DIR")).args(["-c", script, env!("CARGO_BIN_EXE_warpsim")]);
        sh.args([&sweep, "--results", &results]).output().expect("sh starts")
    };
    let first = run();
    assert_eq!(first.status.code(), None, "{}{}", text(&first.stdout), text(&first.stderr));
    assert_eq!((claims(&results).len(), results_in(Path::new(&results)).len()), (1, 1));
    let second = run();
    assert_eq!(second.status.code(), Some(3), "{}{}", text(&second.stdout), text(&second.stderr));
    let wanted = "2 points, 1 simulated, 1 already had results, 0 in progress elsewhere, 1 faulted";
    assert!(text(&second.stdout).contains(wanted), "{}", text(&second.stdout));
    let (result, message) = row(&results, "100000");
    assert_eq!(result, "fault");
    assert!(message.starts_with("it ended its process 3 times: signal 9 (SIGKILL)"), "{message}");
    assert_eq!(row(&results, "1").0, "pass");
    assert!(claims(&results).is_empty());
}

#[test]
fn a_task_does_not_simulate_what_was_not_planned() {
    let folder = Folder::new("other");
    let results = folder.join("results");
    for file in ["vecadd.sm_20.ptx", "workload.yaml"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/vecadd").join(file);
        std::fs::copy(from, folder.join(file)).expect("copied");
    }
    let workload = folder.join("workload.yaml");
    let sweep = folder.write(
        "s.yaml",
        &format!("schema: 1\nname: s\naxes:\n  workload: {workload}\n  variant: sm_20\n  chip: gtx480\n"),
    );
    planned(&sweep, &results);
    let file = folder.join("vecadd.sm_20.ptx");
    let ptx = std::fs::read_to_string(&file).expect("there");
    std::fs::write(&file, format!("{ptx}\n")).expect("written");
    let wrong = |wanted: &str| {
        let output = warpsim(&["sweep", "work", &results]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(3) && said.contains(wanted), "{said}");
        assert!(results_in(Path::new(&results)).is_empty() && claims(&results).is_empty());
    };
    wrong("is another simulation than was planned");
    std::fs::remove_file(&file).expect("removed");
    wrong("is refused here, and was not where the sweep was planned");
}

#[test]
fn folders_of_shards_have_the_table_of_one_folder() {
    let folder = Folder::new("shards-apart");
    let sweep = folder.write(
        "s.yaml",
        "schema: 1\nname: s\naxes:\n  workload: [reduction, vecadd, nowhere]\n  policy: [mimd, crs_stack, \"crs_stack:depth=16\"]\n",
    );
    let [whole, a, b] = ["whole", "a", "b"].map(|name| folder.join(name));
    let run = |results: &str, shard: &[&str]| {
        let output = warpsim(&[&["sweep", "run", &sweep, "--results", results], shard].concat());
        assert_eq!(output.status.code(), Some(2), "three points are refused: {}", text(&output.stderr));
    };
    run(&whole, &[]);
    run(&a, &["--shard", "1/2"]);
    run(&b, &["--shard", "2/2"]);
    said(&["sweep", "collect", &whole]);
    let part = said(&["sweep", "collect", &a]);
    assert!(!part.contains("0 have no result yet"), "{part}");
    let [csv, sqlite] = ["both.csv", "both.sqlite"].map(|name| folder.join(name));
    let all = said(&["sweep", "collect", &a, &b, "--csv", &csv, "--sqlite", &sqlite]);
    assert!(all.contains("9 points in") && all.contains("0 have no result yet"), "{all}");
    let both = [csv, sqlite].map(|path| std::fs::read(path).expect("a table"));
    assert!(both == tables(&whole), "the tables differ");
    // Results that contradict each other are none.
    let path = results_in(Path::new(&a)).into_iter().find(|path| {
        let other = Path::new(&b).join(path.strip_prefix(&a).expect("below"));
        let text = std::fs::read_to_string(path).expect("there");
        if !text.contains("\"pass\"") {
            return false;
        }
        std::fs::create_dir_all(other.parent().expect("a folder")).expect("made");
        std::fs::write(other, text.replace("\"launch_cycles\": ", "\"launch_cycles\": 1")).expect("written");
        true
    });
    assert!(path.is_some());
    let output = warpsim(&["sweep", "collect", &a, &b]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the results of one point must agree"), "{}", text(&output.stderr));
    // Folders of different sweeps have no common table.
    let other = folder.write("t.yaml", "schema: 1\nname: t\naxes: {workload: vecadd}\n");
    let c = folder.join("c");
    said(&["sweep", "run", &other, "--results", &c]);
    let output = warpsim(&["sweep", "collect", &a, &c]);
    assert!(
        output.status.code() == Some(2) && text(&output.stderr).contains("their points differ"),
        "{output:?}"
    );
    // A folder of several says so.
    said(&["sweep", "run", &other, "--results", &folder.join("c")]);
    let third = folder.write("u.yaml", "schema: 1\nname: u\naxes: {workload: vecadd}\n");
    said(&["sweep", "run", &third, "--results", &c]);
    let output = warpsim(&["sweep", "collect", &c]);
    assert!(
        output.status.code() == Some(2) && text(&output.stderr).contains("several sweeps (t, u)"),
        "{output:?}"
    );
    assert!(said(&["sweep", "collect", &third, "--results", &c]).contains("1 points in"));
}

/// Slurm's commands, which note how they are called; `squeue` says what is in a file.
struct Slurm {
    folder: Folder,
}

impl Slurm {
    fn new(name: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new(name);
        let called = folder.join("called");
        let queue = folder.write("queue", "");
        for (name, body) in [
            (
                "sbatch",
                format!(
                    "n=$(($(cat {called}.n 2>/dev/null || echo 40) + 1)); echo $n >{called}.n; {{ echo sbatch \"$@\"; cat; }} >>{called}; echo $n\n"
                ),
            ),
            ("squeue", format!("cat {queue}\n")),
            ("scancel", format!("echo scancel \"$@\" >>{called}\n")),
        ] {
            let path = folder.write(name, &format!("#!/bin/sh\n{body}"));
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("set");
        }
        Self { folder }
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let path = format!("{}:{}", self.folder.0.display(), std::env::var("PATH").expect("a path"));
        let output = command(args).env("PATH", path).output().expect("it starts");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    }

    /// How the commands were called since the last time.
    fn called(&self) -> String {
        let path = self.folder.join("called");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(&path);
        text
    }
}

#[test]
fn an_array_and_a_job_that_collects_are_submitted() {
    let slurm = Slurm::new("fake-slurm");
    let folder = Folder::new("submit");
    let sweep = seeds(&folder, 25);
    let results = folder.join("results");
    let submit =
        |more: &[&str]| slurm.run(&[&["sweep", "submit", &sweep, "--results", &results], more].concat());
    let (code, out) = submit(&["--slurm-option=--time=90", "--slurm-option", "mem=2G"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("25 of 25 points without a result, 3 tasks"), "{out}");
    assert!(out.contains("array:   41\n") && out.contains("collect: 42\n"), "{out}");
    let called = slurm.called();
    let [array, collect] = called.split("sbatch ").skip(1).collect::<Vec<_>>()[..] else {
        panic!("{called}")
    };
    for wanted in [
        "--array=1-3",
        "--requeue",
        "--signal=B:TERM@60",
        "--time=90",
        "--mem=2G",
        "/logs/1/%a.txt",
        "sweep work",
    ] {
        assert!(array.contains(wanted), "{wanted}: {array}");
    }
    for wanted in ["--dependency=afterany:41", "--time=90", "/logs/1/collect.txt", "sweep collect"] {
        assert!(collect.contains(wanted), "{wanted}: {collect}");
    }
    // What the task would do.
    let script = array.split("#!/bin/sh\n").nth(1).expect("a script");
    let sh = |script: &str| {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]).current_dir(env!("CARGO_MANIFEST_DIR")).env("SLURM_CPUS_PER_TASK", "2");
        sh.output().expect("sh starts")
    };
    let output = sh(script);
    assert!(text(&output.stdout).contains("25 points, 25 simulated"), "{}", text(&output.stderr));
    let collected = sh(collect.split("#!/bin/sh\n").nth(1).expect("a script"));
    assert!(text(&collected.stdout).contains("25 points in"), "{}", text(&collected.stderr));
    // Again: only what is missing.
    assert!(submit(&[]).1.contains("all 25 points have results"), "{}", submit(&[]).1);
    assert_eq!(slurm.called(), "");
    for path in &results_in(Path::new(&results))[..4] {
        std::fs::remove_file(path).expect("removed");
    }
    put_claim(
        &results,
        results_in(Path::new(&results))[0].file_stem().expect("a name").to_str().expect("text"),
        0,
        LONG_AGO,
    );
    slurm.folder.write("queue", "41 RUNNING\n41 PENDING\n41 PENDING\n");
    let (code, out) = submit(&[]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("nothing to submit: 3 tasks of this sweep are queued or running (41)"), "{out}");
    assert!(!slurm.called().contains("sbatch"));
    let (_, out) = submit(&["--tasks", "2"]);
    assert!(out.contains("4 of 25 points without a result, 2 tasks"), "{out}");
    assert!(out.contains("3 tasks of this sweep are queued or running (41): the new tasks share"), "{out}");
    let (_, out) = slurm.run(&["sweep", "status", &results]);
    assert!(out.contains("41: 3 tasks on s: 2 pending, 1 running"), "{out}");
    slurm.called();
    let (code, out) = slurm.run(&["sweep", "cancel", &results]);
    assert!(code == Some(0) && out.contains("cancelled: 41"), "{out}");
    assert_eq!(slurm.called(), "scancel 41\n");
    slurm.folder.write("queue", "");
    assert!(slurm.run(&["sweep", "cancel", &results]).1.contains("no job of"));
}

#[test]
fn what_cannot_be_submitted_is_refused_with_the_way_out() {
    let folder = Folder::new("unsubmitted");
    let sweep = seeds(&folder, 2);
    let results = folder.join("results");
    let submit = |more: &[&str], path: &str| {
        let mut command = command(&[&["sweep", "submit", &sweep, "--results", &results], more].concat());
        let output = command.env("PATH", path).output().expect("it starts");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, out) = submit(&[], "");
    assert!(
        code == Some(2) && out.contains("sbatch cannot be started") && out.contains("sweep work"),
        "{out}"
    );
    let (code, out) = submit(&["--slurm-option=--array=1-9"], "");
    assert!(code == Some(2) && out.contains("sets --array itself"), "{out}");
    for tasks in ["0", "10000"] {
        let (code, out) = submit(&["--tasks", tasks], "");
        assert!(code == Some(2) && out.contains("from 1 to 9000"), "{out}");
    }
    let refuses = |args: &[&str], wanted: &str| {
        let output = warpsim(args);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(wanted), "{args:?}: {said}");
    };
    let none = folder.join("none");
    for args in [["sweep", "status", &none], ["sweep", "cancel", &none], ["sweep", "collect", &none]] {
        refuses(&args, "there is no folder");
    }
    std::fs::create_dir_all(&none).expect("made");
    refuses(&["sweep", "status", &none], "holds no planned sweep");
    refuses(&["sweep", "work", &none], "holds no planned sweep");
    refuses(&["sweep", "collect", &sweep], "is named with --results DIR");
    refuses(&["sweep", "collect", &results, &results, "--results", &results], "goes with one sweep file");
}
