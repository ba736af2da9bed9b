//! What a careless or hostile user gets: an end, an exit status that tells, files that are whole, and the
//! reason in words.

#![allow(missing_docs, reason = "tests")]

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Folder, command, json, text, warpsim};

/// A module with an entry `k` of one pointer.
fn module(target: &str, body: &str) -> String {
    format!(
        ".version 8.7\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .u32 %r;\n\
         .reg .pred %p;\n{body}\nret;\n}}\n"
    )
}

const COUNTS: &str = "mov.u32 %r, 0;\nL: add.u32 %r, %r, 1;\nsetp.ne.u32 %p, %r, 0;\n@%p bra L;";

/// Runs `k` of a file with more arguments.
fn run(ptx: &str, more: &[&str]) -> std::process::Output {
    let own = ["run", ptx, "--entry", "k", "--block", "64", "--arg", "buffer:u32:16"];
    let grid: &[&str] = if more.contains(&"--grid") { &[] } else { &["--grid", "2"] };
    warpsim(&[&own[..], grid, more].concat())
}

fn refused(output: &std::process::Output, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn what_never_ends_is_stopped_in_either_mode() {
    let folder = Folder::new("endless");
    let counts = folder.write("counts.ptx", &module("sm_20", COUNTS));
    for mode in [&["--functional"][..], &[]] {
        let output = run(&counts, &[mode, &["--max-instructions", "20000", "--json"]].concat());
        let report = json(&output);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("counts.ptx:"), "{}", text(&output.stderr));
        assert_eq!(report["stopped"]["max_instructions"]["limit"], 20000);
        assert!(report["kernels"][0]["warp_instructions"].as_u64() >= Some(20000));
    }
    // More blocks than anybody waits for.
    let empty = folder.write("empty.ptx", &module("sm_52", ""));
    let blocks = ["--chip", "gtx980", "--grid", "2147483647", "--functional", "--max-instructions", "5000"];
    assert_eq!(run(&empty, &blocks).status.code(), Some(3));
    refused(
        &run(&counts, &["--functional", "--max-cycles", "1000"]),
        &["--max-cycles", "--max-instructions"],
    );
    let itself = folder.write("itself.ptx", &module("sm_20", "L: bra L;"));
    for mode in [&["--functional"][..], &[]] {
        let output = run(&itself, mode);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(3) && said.contains("livelock ["), "{said}");
    }
}

#[test]
fn the_hosts_memory_is_bounded() {
    let folder = Folder::new("memory");
    let ptx = folder.write("k.ptx", &module("sm_20", ""));
    let large =
        ["run", &ptx, "--entry", "k", "--grid", "1", "--block", "1", "--arg", "buffer:u32:200000000:iota"];
    let output = warpsim(&[&large[..], &["--max-memory", "200M"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("--max-memory (200 MiB)"), "{}", text(&output.stderr));
    refused(&run(&ptx, &["--max-memory", "lots"]), &["`lots` is not a size"]);
    // The whole chip is looked at before it is built.
    let slices = "schema: 1\nname: large\nextends: gtx480\nlimits: {Level2CacheSize: 3221225472}\n\
        memory:\n  l2: {size_bytes: 268435456}\n";
    let chip = folder.write("large.yaml", slices);
    let output = run(&ptx, &["--chip", &chip, "--max-memory", "1G"]);
    refused(&output, &["its SMs and partitions take about", "--max-memory leaves"]);
}

#[test]
fn chips_beyond_every_bound_are_refused() {
    for (path, value) in [
        ("limits.MaxResidentBlocks", "4294967295"),
        ("limits.MaxResidentBlocks", "1000000000"),
        ("limits.NumProcessors", "9223372036854775808"),
        ("memory.l1.mshrs", "4294967295"),
        ("clocks.core_mhz", "0.0000001"),
    ] {
        let output = warpsim(&["run", "sgemm", "--set", &format!("{path}={value}")]);
        refused(&output, &[path, "must be between"]);
    }
    let output = warpsim(&["run", "sgemm", "--set", "clocks.core_mhz=.nan"]);
    refused(&output, &["clocks.core_mhz=.nan:41:", "must be between 0.001 and 100000.0"]);
    let folder = Folder::new("chips");
    let extends = "schema: 1\nname: a\nextends: gtx480\n";
    for (name, keys, words) in [
        ("twice", "limits: {NumProcessors: 15, NumProcessors: 2}\n", "twice"),
        ("again", "limits: {NumProcessors: 15}\nlimits: {NumProcessors: 2}\n", "twice"),
        ("lines", "limits: {\n  NumProcessors: 15}\n", "does not stand on one line"),
        (
            "units",
            "sm: {units: {alu: {count: 4294967295, per: sm}}}\n",
            "sm.units.alu.count: must be between",
        ),
    ] {
        let chip = folder.write(&format!("{name}.yaml"), &format!("{extends}{keys}"));
        refused(&warpsim(&["run", "sgemm", "--chip", &chip]), &[&format!("{name}.yaml:"), words]);
    }
}

#[test]
fn deep_files_are_refused_at_once() {
    let folder = Folder::new("deep");
    let deep = format!("{}1{}\n", "a: {".repeat(100_000), "}".repeat(100_000));
    let chip = folder.write("deep.yaml", &deep);
    let started = Instant::now();
    refused(&warpsim(&["run", "sgemm", "--chip", &chip]), &["deep.yaml:1:", "lie within each other"]);
    refused(&warpsim(&["sweep", "plan", &chip]), &["deep.yaml:1:", "lie within each other"]);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_read() {
    let folder = Folder::new("devices");
    let pipe = folder.join("pipe.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    for chip in ["/dev/zero", &pipe, "/"] {
        refused(&warpsim(&["run", "sgemm", "--chip", chip]), &["not a regular file"]);
    }
    let link = folder.join("zero.ptx");
    std::os::unix::fs::symlink("/dev/zero", &link).expect("made");
    refused(&run(&link, &[]), &["it is a device, not a regular file"]);
    folder.write("k.ptx", &module("sm_20", ""));
    let workload = folder.write(
        "workload.yaml",
        "schema: 1\nname: w\ndescription: d\nschedule: independent\nvariants:\n- {name: sm_20, file: k.ptx, \
         compiler: c, target: sm_20}\nbuffers:\n  a: {type: u32, length: 4, init: {file: /dev/zero}}\nlaunches:\n\
         - {entry: k, grid: [1], block: [1], args: [a]}\nexpect:\n\
         - {buffer: a, values: [0], tolerance: exact}\n",
    );
    refused(&warpsim(&["run", &workload]), &["it is a device, not a regular file"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_or_closed_output_is_no_panic() {
    for args in [&["workloads"][..], &["run", "vecadd"], &["--help"], &["schema", "chip"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there");
        let output = command(args).stdout(full).output().expect("starts");
        refused(&output, &["the output cannot be printed", "No space left"]);
        let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{args:?}");
    }
}

#[test]
fn outputs_are_tried_before_anything_is_simulated() {
    let folder = Folder::new("outputs");
    // It would never end.
    let ptx = folder.write("counts.ptx", &module("sm_20", COUNTS));
    let file = folder.write("file", "");
    let (inside, dump) = (format!("{file}/out"), format!("arg0={file}/x"));
    for more in [&["--out", &inside][..], &["--out", &file], &["--dump", &dump], &["--dump", "arg0"]] {
        refused(&run(&ptx, more), &[]);
    }
    let trace = [
        "trace",
        &ptx,
        "--entry",
        "k",
        "--grid",
        "1",
        "--block",
        "1",
        "--arg",
        "buffer:u32:1",
        "-o",
        &inside,
    ];
    refused(&warpsim(&trace), &["cannot be written"]);
    // Nothing is left beside what is written.
    let out = folder.join("out");
    assert_eq!(warpsim(&["run", "vecadd", "--out", &out]).status.code(), Some(0));
    let entries = std::fs::read_dir(&out).expect("there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names, ["host.json", "report.json"]);
}

#[test]
fn a_target_above_the_chip_is_refused_wherever_it_stands() {
    let folder = Folder::new("targets");
    let ptx = |target: &str| folder.write(&format!("{target}.ptx"), &module(target, ""));
    for (target, chip, runs) in [
        ("sm_61", "gtx1080ti", true),
        ("sm_90", "gtx1080ti", false),
        ("sm_52", "gtx1080ti", true),
        ("sm_90a", "h100", true),
        ("sm_80", "h100", true),
        ("sm_100f", "h100", false),
    ] {
        let output = run(&ptx(target), &["--chip", chip]);
        if runs {
            assert_eq!(output.status.code(), Some(0), "{target} {chip}: {}", text(&output.stderr));
        } else {
            refused(&output, &[&format!("{target}.ptx:2:9"), "--allow-newer-isa"]);
            let output = run(&ptx(target), &["--chip", chip, "--allow-newer-isa"]);
            assert_eq!(output.status.code(), Some(0), "{target} {chip}: {}", text(&output.stderr));
        }
    }
    refused(&warpsim(&["run", "vecadd", "--chip", "gtx480", "--variant", "sm_90"]), &["--allow-newer-isa"]);
    refused(&warpsim(&["run", "vecadd", "--chip", "gtx280"]), &["no variant"]);
    let any = ["run", "vecadd", "--chip", "gtx480", "--variant", "sm_52", "--allow-newer-isa"];
    assert_eq!(warpsim(&any).status.code(), Some(0));
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    let folder = Folder::new("numbers");
    let ptx = folder.write("k.ptx", &module("sm_20", ""));
    refused(&run(&ptx, &["--grid", "0"]), &["the grid has no blocks in x"]);
    refused(&run(&ptx, &["--threads", "0"]), &["--threads takes a number from 1 on"]);
    refused(&run(&ptx, &["--skip-launches", "99"]), &["--skip-launches 99: there are 1 launches"]);
    refused(&run(&ptx, &["--epoch", "0"]), &["--epoch"]);
}

#[test]
fn one_thing_that_is_wrong_in_many_places_is_said_once() {
    let folder = Folder::new("many");
    let ptx = folder.write("k.ptx", &module("sm_20", &"mov.u32 %q, 1;\n".repeat(20)));
    let output = run(&ptx, &[]);
    let said = text(&output.stderr);
    refused(&output, &["19 more like this: ", "k.ptx:9:9"]);
    assert!(said.lines().count() < 20, "{said}");
}
