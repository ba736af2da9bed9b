//! Sweeps: every point once, whatever happens to the process; one table at the end.

mod common;

use std::path::PathBuf;
use std::process::Stdio;

use common::{Folder, command, json, results_in, text, warpsim};

/// The results in a folder.
fn points(folder: &Folder) -> Vec<PathBuf> {
    results_in(&folder.0.join("results"))
}

/// Rows of a CSV file by column.
fn rows(path: &str) -> Vec<std::collections::HashMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).expect("a table");
    reader.deserialize().map(|row| row.expect("a row")).collect()
}

#[test]
fn a_table_holds_what_the_runs_report() {
    let folder = Folder::new("table");
    let sweep = folder.write(
        "s.yaml",
        "schema: 1\nname: s\naxes:\n  workload: [reduction, spmv]\n  chip: [gtx480, v100]\n  policy: [pdom_stack, mimd]\n  \
         set:\n    memory.l1.hit_latency: [20, 60]\nexclude:\n- {workload: spmv, policy: mimd}\n",
    );
    let results = folder.join("results");
    let output = warpsim(&["sweep", "run", &sweep, "--results", &results]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("12 points, 12 simulated, 0 already had results"),
        "{}",
        text(&output.stdout)
    );
    assert!(output.stderr.is_empty(), "quiet in a pipe: {}", text(&output.stderr));
    let output = warpsim(&["sweep", "collect", &sweep, "--results", &results]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = rows(&format!("{results}/table.csv"));
    let cycles: Vec<_> = table.iter().filter(|row| row["metric"] == "cycles").collect();
    assert_eq!(cycles.len(), 12);
    for row in cycles {
        let latency = format!("memory.l1.hit_latency={}", row["memory.l1.hit_latency"]);
        let run = warpsim(&[
            "run",
            &row["workload"],
            "--chip",
            &row["chip"],
            "--policy",
            &row["policy"],
            "--set",
            &latency,
            "--json",
        ]);
        let report = json(&run);
        assert_eq!(row["value"], report["cycles"].to_string(), "{row:?}");
        assert_eq!((row["unit"].as_str(), row["result"].as_str()), ("core cycles", "pass"));
        assert!(row["version"].starts_with(env!("CARGO_PKG_VERSION")) && row["config"].len() == 16);
    }
    // The same in SQLite, where numbers are numbers and the chips' values stand beside them.
    let base = rusqlite::Connection::open(format!("{results}/table.sqlite")).expect("a database");
    let one = |query: &str| base.query_row(query, [], |row| row.get::<_, f64>(0)).expect(query);
    let sum: f64 = table
        .iter()
        .filter(|r| r["metric"] == "cycles")
        .map(|r| r["value"].parse::<f64>().expect("a number"))
        .sum();
    assert_eq!(one("SELECT sum(value) FROM results WHERE metric = 'cycles'"), sum);
    assert_eq!(one("SELECT count(*) FROM results"), table.len() as f64);
    assert_eq!(one("SELECT count(*) FROM configs"), 4.0);
    assert_eq!(one("SELECT count(*) FROM results WHERE metric NOT IN (SELECT name FROM metrics)"), 0.0);
    let slow = "SELECT json_extract(json, '$.memory.l1.hit_latency') FROM configs JOIN results ON hash = config \
                WHERE \"memory.l1.hit_latency\" = 60 LIMIT 1";
    assert_eq!(one(slow), 60.0);
    assert_eq!(one("SELECT count(*) FROM results WHERE typeof(\"memory.l1.hit_latency\") != 'integer'"), 0.0);
}

/// A sweep of so many seeds of a small kernel.
fn seeds(folder: &Folder, count: usize) -> String {
    let seed = format!("{{range: {{from: 1, to: {count}, step: 1}}}}");
    folder.write(
        "s.yaml",
        &format!("schema: 1\nname: s\naxes:\n  workload: nqueens\n  seed: {seed}\n  chip: gtx480\n"),
    )
}

/// Killed at any moment and run again, a sweep computes what is missing and nothing twice.
#[test]
fn a_killed_run_goes_on_where_it_was() {
    let folder = Folder::new("kill");
    let sweep = seeds(&folder, 40);
    let results = folder.join("results");
    let mut kept: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for _ in 0..3 {
        let mut child = command(&["sweep", "run", &sweep, "--results", &results, "--jobs", "2"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        // Some results are there, most likely not all of them.
        let wanted = kept.len() + 2;
        while child.try_wait().expect("a state").is_none() {
            if points(&folder).len() >= wanted {
                break;
            }
            std::thread::yield_now();
        }
        // SIGKILL.
        let _ = child.kill();
        let _ = child.wait();
        for (path, bytes) in &kept {
            assert_eq!(&std::fs::read(path).expect("kept"), bytes, "{} was computed again", path.display());
        }
        kept = points(&folder).into_iter().map(|p| (p.clone(), std::fs::read(p).expect("whole"))).collect();
        for (path, bytes) in &kept {
            serde_json::from_slice::<serde_json::Value>(bytes)
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }
    let output = warpsim(&["sweep", "run", &sweep, "--results", &results]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(
        said.contains(&format!(
            "40 points, {} simulated, {} already had results",
            40 - kept.len(),
            kept.len()
        )),
        "{said}"
    );
    assert_eq!(points(&folder).len(), 40);
}

/// Two runs at once share a folder: no point is simulated by both.
#[test]
fn runs_side_by_side_do_nothing_twice() {
    let folder = Folder::new("beside");
    let sweep = seeds(&folder, 60);
    let results = folder.join("results");
    let start = || {
        let mut command = command(&["sweep", "run", &sweep, "--results", &results, "--jobs", "2"]);
        command.stdout(Stdio::piped()).spawn().expect("it starts")
    };
    let both = [start(), start()].map(|child| text(&child.wait_with_output().expect("it ends").stdout));
    let simulated = both.each_ref().map(|said| {
        let words: Vec<&str> = said.split(", ").collect();
        let count = words.iter().find_map(|words| words.strip_suffix(" simulated")).expect("a count");
        count.parse::<usize>().expect("a number")
    });
    assert_eq!(simulated.iter().sum::<usize>(), 60, "{both:?}");
    assert_eq!(points(&folder).len(), 60);
}

#[test]
fn shards_share_the_work_and_a_point_that_two_axes_name_is_computed_once() {
    let folder = Folder::new("shards");
    // The last two policies are one.
    let sweep = folder.write(
        "s.yaml",
        "schema: 1\nname: s\naxes:\n  workload: [reduction, vecadd]\n  policy: [mimd, crs_stack, \"crs_stack:depth=16\"]\n",
    );
    let results = folder.join("results");
    let run = |shard: &str| {
        let output =
            warpsim(&["sweep", "run", &sweep, "--results", &results, "--jobs", "1", "--shard", shard]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(
        run("1/2").contains("3 points, 3 simulated, 0 already had"),
        "reduction mimd and depth, vecadd crs_stack"
    );
    assert!(run("2/2").contains("3 points, 1 simulated, 2 already had"), "vecadd mimd alone is new");
    assert_eq!(points(&folder).len(), 4);
    let output = warpsim(&["sweep", "plan", &sweep, "--results", &results]);
    let said = text(&output.stdout);
    assert!(
        said.contains("6 points, 4 distinct; 4 with results, 0 refused, 2 duplicates, 0 remaining"),
        "{said}"
    );
    assert!(said.contains("as point 2"), "{said}");
    let output = warpsim(&["sweep", "collect", &sweep, "--results", &results]);
    assert!(text(&output.stdout).contains("6 points in"), "{}", text(&output.stdout));
    assert_eq!(
        warpsim(&["sweep", "run", &sweep, "--results", &results, "--shard", "3/2"]).status.code(),
        Some(2)
    );
}

#[test]
fn points_that_fail_are_rows() {
    let folder = Folder::new("fail");
    // Too few cycles for one, instructions that the chip lacks for another, a value no chip can have.
    let sweep = folder.write(
        "s.yaml",
        "schema: 1\nname: s\nrun: {max_cycles: 8000}\naxes:\n  workload: [reduction, vecadd, shuffle_scan]\n  chip: gtx480\n  set:\n    limits.WarpSize: [32, 33]\n",
    );
    let results = folder.join("results");
    // A plan and a run that hold such points are no success.
    assert_eq!(warpsim(&["sweep", "plan", &sweep]).status.code(), Some(2));
    let output = warpsim(&["sweep", "run", &sweep, "--results", &results]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("stopped") && said.contains("refused"), "{said}");
    let output = warpsim(&["sweep", "collect", &sweep, "--results", &results]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = rows(&format!("{results}/table.csv"));
    let found = |workload: &str, size: &str| {
        let mut rows = table.iter().filter(|r| r["workload"] == workload && r["limits.WarpSize"] == size);
        let first = rows.next().unwrap_or_else(|| panic!("{workload} {size}"));
        (first["result"].clone(), first["message"].clone(), rows.count() + 1)
    };
    let (result, _, count) = found("reduction", "32");
    assert!(result == "pass" && count > 20, "{result} {count}");
    let (result, message, count) = found("vecadd", "32");
    assert!(result == "stopped" && message.contains("8000") && count == 1, "{result} {message}");
    let (result, message, _) = found("shuffle_scan", "32");
    assert!(result == "refused" && message.contains("no variant"), "{result} {message}");
    let (result, message, _) = found("reduction", "33");
    assert!(result == "refused" && message.contains("WarpSize"), "{result} {message}");
    // What is refused is not tried again, and is none the better for it.
    let output = warpsim(&["sweep", "run", &sweep, "--results", &results]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("0 simulated, 6 already had results"), "{}", text(&output.stdout));
}

/// A run whose result differs from what is expected has its figures in the table, marked so.
#[test]
fn points_that_differ_keep_their_figures() {
    let folder = Folder::new("differ");
    std::fs::copy("workloads/vecadd/vecadd.sm_20.ptx", folder.join("vecadd.ptx")).expect("copied");
    let workload = folder.write(
        "workload.yaml",
        "schema: 1\nname: wrong\ndescription: Expects what is not so.\nschedule: independent\nparams: {n: 64}\n\
         variants:\n- {name: sm_20, file: vecadd.ptx, compiler: LLVM 14, target: sm_20}\nbuffers:\n\
         \u{20} a: {type: f32, length: n, init: iota}\n  b: {type: f32, length: n, init: zeros}\n\
         \u{20} c: {type: f32, length: n, init: zeros}\nlaunches:\n\
         - {entry: vecadd, grid: [1], block: [n], args: [a, b, c, {s32: n}]}\nexpect:\n\
         - {buffer: c, values: [7], tolerance: exact}\n",
    );
    let sweep = folder
        .write("s.yaml", &format!("schema: 1\nname: s\naxes:\n  workload: [{workload}]\n  chip: [gtx480]\n"));
    let results = folder.join("results");
    let output = warpsim(&["sweep", "run", &sweep, "--results", &results]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let output = warpsim(&["sweep", "collect", &sweep, "--results", &results]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = rows(&format!("{results}/table.csv"));
    assert!(table.iter().all(|row| row["result"] == "fail"), "{table:?}");
    let cycles = table.iter().find(|row| row["metric"] == "cycles").expect("cycles");
    assert!(cycles["value"].parse::<f64>().is_ok_and(|cycles| cycles > 0.0), "{cycles:?}");
}

#[test]
fn wrong_sweeps_are_refused_with_their_place() {
    let folder = Folder::new("wrong");
    let sweep = folder.write("s.yaml", "schema: 1\nname: s\naxes:\n  workload: vecadd\n  chip: []\n");
    for command in ["plan", "run", "collect"] {
        let mut args = vec!["sweep", command, &sweep];
        let results = folder.join("results");
        args.extend(["--results", &results]);
        let output = warpsim(&args);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let said = text(&output.stderr);
        assert!(said.contains("s.yaml:5:3") && said.contains("`chip` has no value"), "{said}");
    }
}

#[test]
fn shipped_sweeps_are_right() {
    let list = std::fs::read_dir("configs/sweeps").expect("a folder");
    let mut seen = 0;
    for entry in list {
        let path = entry.expect("an entry").path().display().to_string();
        let output = warpsim(&["sweep", "plan", &path]);
        assert!(output.status.success(), "{path}: {}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(said.contains("0 refused") && said.contains("estimate:"), "{path}: {said}");
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn folders_of_results_are_merged() {
    let folder = Folder::new("merge");
    let sweep = folder.write(
        "s.yaml",
        "schema: 1\nname: s\naxes:\n  workload: [vecadd, vecadd, nowhere]\n  set:\n    n: [1000, 2000]\n",
    );
    let [a, b, results] = ["a", "b", "results"].map(|name| folder.join(name));
    for (shard, into) in [("1/2", &a), ("2/2", &b)] {
        let output = warpsim(&["sweep", "run", &sweep, "--results", into, "--shard", shard]);
        // Each shard has a point that is refused.
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
    let merge =
        |from: &[&str]| warpsim(&[&["sweep", "merge", &sweep, "--results", &results][..], from].concat());
    let output = merge(&[&a]);
    assert!(text(&output.stdout).contains("2 results added"), "{output:?}");
    let output = merge(&[&b]);
    assert!(text(&output.stdout).contains("2 results added"), "{output:?}");
    assert!(text(&output.stdout).contains("has 4 of 4 distinct points"), "{output:?}");
    let output = warpsim(&["sweep", "run", &sweep, "--results", &results]);
    assert!(text(&output.stdout).contains("0 simulated, 6 already had results"), "{output:?}");
    // What is there already is no conflict, and two folders of the same results are equal.
    assert!(text(&merge(&[&a, &b]).stdout).contains("0 results added"));
    assert_eq!(warpsim(&["compare", &results, &results]).status.code(), Some(0));
    // Another result of the same point is one.
    let path = points(&folder)
        .into_iter()
        .find(|path| std::fs::read_to_string(path).expect("a result").contains("\"pass\""))
        .expect("one that passed");
    let other = std::fs::read_to_string(&path)
        .expect("a result")
        .replace("\"launch_cycles\": ", "\"launch_cycles\": 1");
    std::fs::write(&path, other).expect("written");
    let output = merge(&[&a, &b]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("with different metrics"), "{}", text(&output.stderr));
    assert_eq!(warpsim(&["compare", &results, &a]).status.code(), Some(1));
    // Results of another sweep are none of this one.
    let single = folder.write("t.yaml", "schema: 1\nname: t\naxes: {workload: vecadd, set: {n: 1000}}\n");
    let output = warpsim(&["sweep", "merge", &single, "--results", &folder.join("new"), &a, &b]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is not a point of"), "{}", text(&output.stderr));
    assert!(!folder.0.join("new").exists(), "nothing is written where something is refused");
}
