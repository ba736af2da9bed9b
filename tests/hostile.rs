//! What a careless or hostile user gets: an end, an exit status that tells, files that are whole, and the
//! reason in words.

#![allow(missing_docs, reason = "tests")]

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Folder, command, json, parse, text, warpsim};

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
    refused(&output, &["`arg0` has 200000000 elements of .u32, 800000000 bytes", "greater --max-memory"]);
    refused(&run(&ptx, &["--max-memory", "lots"]), &["`lots` is not a size"]);
    // What was computed is written, though that takes more than the run was left.
    let (counts, out) = (folder.write("counts.ptx", &module("sm_20", COUNTS)), folder.join("out"));
    let output = run(
        &counts,
        &["--sample-every", "1", "--max-memory", "60M", "--out", &out, "--max-cycles", "4000000"],
    );
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("more than 60 MiB"), "{said}");
    let report = parse(&std::fs::read(format!("{out}/report.json")).expect("written"));
    assert_eq!(report["stopped"]["max_memory"]["limit"], 60 << 20);
    assert!(report["samples"]["list"].as_array().is_some_and(|list| list.len() > 1000));
    // The whole chip is looked at before it is built.
    let slices = "schema: 1\nname: large\nextends: gtx480\nlimits: {Level2CacheSize: 3221225472}\n\
        memory:\n  l2: {size_bytes: 268435456}\n";
    let chip = folder.write("large.yaml", slices);
    let output = run(&ptx, &["--chip", &chip, "--max-memory", "1G"]);
    refused(&output, &["its SMs and partitions need about", "are left within --max-memory"]);
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
        let output = warpsim(&["run", "sgemm", "--chip", "gtx480", "--set", &format!("{path}={value}")]);
        refused(&output, &[path, "must be between"]);
    }
    let output = warpsim(&["run", "sgemm", "--chip", "gtx480", "--set", "clocks.core_mhz=.nan"]);
    refused(&output, &["clocks.core_mhz=.nan:41:", "must be between 0.001 and 100000.0"]);
    let folder = Folder::new("chips");
    let extends = "schema: 1\nname: a\nextends: gtx480\n";
    for (name, keys, words) in [
        ("twice", "limits: {NumProcessors: 15, NumProcessors: 2}\n", "twice"),
        ("again", "limits: {NumProcessors: 15}\nlimits: {NumProcessors: 2}\n", "twice"),
        ("lines", "limits: {\n  NumProcessors: 15}\n", "spans more than one line"),
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
    refused(
        &warpsim(&["run", "sgemm", "--chip", &chip]),
        &["deep.yaml:1:", "nesting is deeper than 64 levels"],
    );
    refused(&warpsim(&["sweep", "plan", &chip]), &["deep.yaml:1:", "nesting is deeper than 64 levels"]);
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

/// The same of results that `report`, `compare`, `baseline` and `sweep` read.
#[cfg(unix)]
#[test]
fn results_are_read_only_where_they_are_files() {
    let folder = Folder::new("results");
    let (pipe, page) = (folder.join("pipe.json"), folder.join("page.html"));
    let (table, suite) =
        (folder.join("zero.csv"), folder.write("s.yaml", "schema: 1\nname: s\nruns:\n- nqueens\n"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    std::os::unix::fs::symlink("/dev/zero", &table).expect("made");
    let text = folder.write("text.json", "{\n  \"cycles\": x\n}\n");
    let latin = folder.join("latin.json");
    std::fs::write(&latin, b"{\"a\": \"\xe9\"}").expect("written");
    for (file, words) in [
        ("/dev/zero", "it is a device, not a regular file"),
        (pipe.as_str(), "it is a pipe, not a regular file"),
        (text.as_str(), "text.json:2:13: invalid JSON: expected value"),
        (latin.as_str(), "latin.json cannot be read: byte 7 is not UTF-8"),
    ] {
        refused(&warpsim(&["report", file, "-o", &page]), &[words]);
        refused(&warpsim(&["compare", file, file]), &[words]);
        refused(&warpsim(&["baseline", "check", "--suite", &suite, "--file", file]), &[words]);
    }
    refused(&warpsim(&["report", &table, "-o", &page]), &["it is a device, not a regular file"]);
    refused(
        &warpsim(&["baseline", "check", "--suite", &suite, "--file", "/"]),
        &["a directory, not a regular file"],
    );
    for history in ["/dev/zero", &pipe, "/"] {
        refused(&warpsim(&["baseline", "history", "cycles", "--history", history]), &["not a regular file"]);
    }
    // Tried before anything is simulated.
    let baseline =
        folder.write("b.json", "{\"schema\": 2, \"suite\": \"s\", \"version\": \"v\", \"runs\": []}");
    let check = ["baseline", "check", "--suite", &suite, "--file", &baseline, "--history"];
    for history in ["/dev/zero", &pipe, &folder.join("none/h.sqlite")] {
        refused(&warpsim(&[&check[..], &[history]].concat()), &[history]);
    }
    let sweep = folder.write("sweep.yaml", "schema: 1\nname: s\naxes:\n  workload: nqueens\n");
    let from = folder.join("from");
    std::fs::create_dir_all(folder.join("from/points")).expect("made");
    std::os::unix::fs::symlink(&pipe, folder.join("from/points/a.json")).expect("made");
    refused(&warpsim(&["compare", &from, &from]), &["it is a pipe, not a regular file"]);
    let into = folder.join("into");
    refused(
        &warpsim(&["sweep", "merge", &sweep, "--results", &into, &from]),
        &["points/a.json cannot be read: it is a pipe, not a regular file"],
    );
}

/// What is refused by a limit of the chip says which chips have more.
#[test]
fn refusals_by_limits_name_chips_that_fit() {
    let folder = Folder::new("limits");
    let ptx = |target: &str, body: &str| folder.write("k.ptx", &module(target, body));
    let chips = "shipped chips that can run it: --chip ";
    let shared = ["--chip", "gtx980", "--dynamic-shared"];
    refused(
        &run(&ptx("sm_20", ""), &[&shared[..], &["60000"]].concat()),
        &["60000 bytes of shared memory", &format!("{chips}v100, qv100, titanv, rtx2080ti, a100,")],
    );
    refused(
        &run(&ptx("sm_20", ""), &[&shared[..], &["180000"]].concat()),
        &[&format!("{chips}h100, gh200, h200")],
    );
    refused(&run(&ptx("sm_20", ""), &[&shared[..], &["300000"]].concat()), &["no shipped chip allows it"]);
    let old = ["--chip", "gtx280", "--allow-newer-isa"];
    let block = ["run", &ptx("sm_20", ""), "--entry", "k", "--grid", "1", "--arg", "buffer:u32:1", "--block"];
    refused(
        &warpsim(&[&block[..], &["1024"], &old[..]].concat()),
        &["the block has 1024 threads in x; at most 512", &format!("{chips}gtx480, gtx560ti,")],
    );
    refused(
        &run(&ptx("sm_20", ""), &["--grid", "70000", "--functional"]),
        &["the grid has 70000 blocks in x", &format!("{chips}gtx680, gtx980,")],
    );
    // 48 registers a thread, of 1024 threads.
    let many: String = (0..48).map(|i| format!("mov.u32 %r{i}, %clock;\n")).collect();
    let used: String = (0..48).map(|i| format!("xor.b32 %r, %r, %r{i};\n")).collect();
    let body = format!(
        ".reg .u32 %r<48>;\n.reg .u64 %a;\n{many}mov.u32 %r, 0;\n{used}ld.param.u64 %a, [p];\nst.global.u32 [%a], %r;"
    );
    refused(
        &warpsim(&[&["run", &ptx("sm_20", &body)], &block[2..], &["1024", "--chip", "gtx480"]].concat()),
        &["more than an SM has: registers", &format!("{chips}gtx680, gtx980,")],
    );
    // An instruction that only newer chips execute; where there is a target, the module is refused before.
    let atom = "// dialect: papers\n.entry k(.param .u64 p) { .reg .u64 a; .reg .f32 f; ld.param.u64 a, [p]; \
                atom.global.add.f32 f, [a], 1.0; exit; }\n";
    refused(
        &run(&folder.write("p.ptx", atom), &["--chip", "gtx280"]),
        &["--allow-newer-isa runs it anyway; ", &format!("{chips}gtx480, gtx560ti,")],
    );
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
    // It would take minutes.
    let long = "schema: 1\nname: s\naxes:\n  workload: fmaloop\n  chip: gtx480\n  set: {n: 40000000}\n";
    let sweep =
        ["sweep", "run", &folder.write("s.yaml", long), "--results", &folder.join("r"), "--report", &inside];
    refused(&warpsim(&sweep), &["cannot be written"]);
    for option in ["--csv", "--report"] {
        refused(&warpsim(&["study", "policies", option, &inside]), &["cannot be written"]);
    }
    // Nothing is left beside what is written.
    let out = folder.join("out");
    assert_eq!(warpsim(&["run", "vecadd", "--out", &out]).status.code(), Some(0));
    let entries = std::fs::read_dir(&out).expect("there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names, ["host.json", "report.json"]);
}

/// No output takes the place of an input or of another output of the same command, whatever it is called.
#[test]
fn outputs_replace_neither_inputs_nor_each_other() {
    let folder = Folder::new("places");
    let ptx = folder.write("k.ptx", &module("sm_20", "ret;"));
    let data = folder.write("data.bin", "\0\0\0\0");
    let chip = folder.write("chip.yaml", "extends: gtx480\nname: mine\n");
    let around = format!("{}/.", folder.join("")) + "/k.ptx";
    let from = format!("buffer:u32:1:@{data}");
    let base = ["run", &ptx, "--entry", "k", "--grid", "1", "--block", "1", "--chip", &chip, "--arg", &from];
    let (twice, out) = (folder.join("x"), folder.join("out"));
    let dump = |file: &str| format!("arg0={file}");
    let report = format!("{out}/report.json");
    for (words, reasons) in [
        (vec!["--dump".to_string(), dump(&ptx)], ["k.ptx", "an input of the same command"]),
        (vec!["--dump".into(), dump(&around)], ["k.ptx", "an input of the same command"]),
        (vec!["--dump".into(), dump(&chip)], ["chip.yaml", "an input of the same command"]),
        (vec!["--dump".into(), dump(&data)], ["data.bin", "it is an output of the same command"]),
        (vec!["--dump".into(), dump(&twice), "--dump".into(), dump(&twice)], ["x", "two outputs"]),
        (vec!["--out".into(), out.clone(), "--dump".into(), dump(&report)], ["report.json", "two outputs"]),
    ] {
        let words: Vec<&str> = base.iter().copied().chain(words.iter().map(String::as_str)).collect();
        refused(&warpsim(&words), &reasons);
    }
    let link = folder.join("link");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&ptx, &link).expect("a link");
        let words: Vec<&str> = base.iter().copied().chain(["--dump"]).collect();
        refused(&warpsim(&[&words[..], &[&dump(&link)]].concat()), &["an input of the same command"]);
    }
    // A device may be named twice.
    let words: Vec<&str> =
        base.iter().copied().chain(["--dump", "arg0=/dev/null", "--dump", "arg0=/dev/null"]).collect();
    assert_eq!(warpsim(&words).status.code(), Some(0));
    let words: Vec<&str> = base.iter().copied().chain(["--out", &out]).collect();
    assert_eq!(warpsim(&words).status.code(), Some(0));
    let suite = folder.write("s.yaml", "schema: 1\nname: s\nruns: [vecadd --chip gtx480]\n");
    let sweep = folder.write("sweep.yaml", "schema: 1\nname: s\naxes: {workload: vecadd, chip: gtx480}\n");
    assert!(warpsim(&["baseline", "record", "--suite", &suite]).status.success());
    let before = std::fs::read(&report).expect("a report");
    let results = folder.join("results");
    let baseline = folder.join("s.json");
    // A copy: a folder that ships with the command is compiled into it anew whenever it changes.
    let workload = folder.join("workload.yaml");
    for entry in std::fs::read_dir("workloads/vecadd").expect("a folder").flatten() {
        std::fs::copy(entry.path(), folder.join(&entry.file_name().to_string_lossy())).expect("copied");
    }
    for words in [
        &["report", &out, "-o", &report][..],
        &["baseline", "record", "--suite", &suite, "--file", &suite],
        &["baseline", "check", "--suite", &suite, "--junit", &suite],
        &["baseline", "check", "--suite", &suite, "--junit", &baseline],
        &["baseline", "check", "--suite", &suite, "--history", &baseline],
        &["baseline", "check", "--suite", &suite, "--junit", &twice, "--history", &twice],
        &["study", "policies", "--csv", &twice, "--report", &twice],
        &["sweep", "run", &sweep, "--results", &results, "--report", &sweep],
        &["trace", &workload, "-o", &workload],
    ] {
        refused(&warpsim(words), &["same command"]);
    }
    assert_eq!(std::fs::read(&report).expect("a report"), before);
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
    refused(&run(&ptx, &["--grid", "0"]), &["the grid size in x is 0"]);
    refused(&run(&ptx, &["--threads", "0"]), &["--threads must be at least 1"]);
    refused(&run(&ptx, &["--skip-launches", "99"]), &["--skip-launches 99: there is 1 launch"]);
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

/// Arguments of a command that writes to a folder, and the files it writes there.
#[cfg(target_os = "linux")]
fn writers(folder: &Folder) -> Vec<(Vec<String>, Vec<String>)> {
    let ptx = folder.write(
        "k.ptx",
        &module("sm_20", "mov.u32 %r, 3;\nL: sub.u32 %r, %r, 1;\nsetp.ne.u32 %p, %r, 0;\n@%p bra L;"),
    );
    let runs: String =
        (0..8).map(|seed| format!("- nqueens --set n=5 --chip gtx480 --seed {seed}\n")).collect();
    let suite = folder.write("suite.yaml", &format!("schema: 1\nname: s\nruns:\n{runs}"));
    let sweep = folder.write(
        "sweep.yaml",
        "schema: 1\nname: s\naxes:\n  workload: nqueens\n  chip: gtx480\n  set: {n: 5}\n",
    );
    let kernel = ["--entry", "k", "--grid", "2", "--block", "64", "--arg", "buffer:u32:4096:iota"];
    let good = |args: &[&str]| {
        let output = warpsim(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    };
    // What the others read.
    let (run, baseline) = (folder.join("run"), folder.join("baseline.json"));
    good(&[&["run", &ptx, "--out", &run], &kernel[..]].concat());
    good(&["baseline", "record", "--suite", &suite, "--file", &baseline]);
    let results = folder.join("results");
    good(&["sweep", "run", &sweep, "--results", &results]);
    let to = |name: &str| folder.join(&format!("out/{name}"));
    let dump = format!("arg0={}", to("dump.bin"));
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let check = ["baseline", "check", "--suite", &suite, "--file", &baseline];
    vec![
        (words(&[&["run", &ptx, "--out", &to("")], &kernel[..]].concat()), words(&["report.json"])),
        (words(&[&["run", &ptx, "--dump", &dump], &kernel[..]].concat()), words(&["dump.bin"])),
        (words(&[&["trace", &ptx, "-o", &to("trace.json")], &kernel[..]].concat()), words(&["trace.json"])),
        (words(&["report", &run, "-o", &to("page.html")]), words(&["page.html"])),
        (words(&["study", "policies", "--workloads", "if_else", "--csv", &to("p.csv")]), words(&["p.csv"])),
        (words(&["baseline", "record", "--suite", &suite, "--file", &to("b.json")]), words(&["b.json"])),
        (words(&[&check[..], &["--junit", &to("junit.xml")]].concat()), words(&["junit.xml"])),
        (words(&["sweep", "run", &sweep, "--results", &to("")]), words(&["points/*", "configs/*"])),
        (words(&["sweep", "collect", &sweep, "--results", &results]), words(&["table.csv", "table.sqlite"])),
    ]
}

/// The command by a shell that lets it write at most `blocks` of 512 bytes to a file; beyond that writing
/// fails, or the process is killed in the middle.
#[cfg(target_os = "linux")]
fn limited(blocks: u32, is_killed: bool, args: &[String]) -> std::process::Output {
    let trap = if is_killed { "" } else { "trap '' XFSZ; " };
    let script = format!("{trap}ulimit -c 0; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    std::process::Command::new("sh")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["-c", &script, env!("CARGO_BIN_EXE_warpsim")])
        .args(args)
        .output()
        .expect("sh starts")
}

/// The files of a folder and of those in it, with their bytes.
#[cfg(target_os = "linux")]
fn files(folder: &std::path::Path, out: &mut std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => files(&entry.path(), out),
            false => drop(out.insert(entry.path(), std::fs::read(entry.path()).expect("readable"))),
        }
    }
}

/// Whatever is written stands there whole, or as it was before; what a killed process left goes with the
/// next run.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_and_a_killed_writer_leave_what_was_there() {
    let folder = Folder::new("full");
    for (args, names) in writers(&folder) {
        let into = match args[1].as_str() {
            "collect" => folder.0.join("results"),
            _ => folder.0.join("out"),
        };
        let store = args[..2] == ["sweep", "run"];
        std::fs::create_dir_all(&into).expect("a folder");
        if !store {
            names.iter().for_each(|name| std::fs::write(into.join(name), "old").expect("written"));
        }
        let list = |is_all: bool| {
            let mut found = std::collections::BTreeMap::new();
            files(&into, &mut found);
            let hidden =
                |path: &std::path::PathBuf| path.file_name().is_some_and(|n| n.as_encoded_bytes()[0] == b'.');
            found.retain(|path, _| is_all || !hidden(path));
            // Plans are small, and claims are for those that come after.
            found.retain(|path, _| {
                !store || !path.starts_with(into.join("sweeps")) && !path.starts_with(into.join("claims"))
            });
            found
        };
        let before = list(true);
        // A disk without room.
        let output = limited(1, false, &args);
        let said = text(&output.stderr);
        // To a sweep it is a point that failed.
        assert_eq!(output.status.code(), Some(if store { 3 } else { 2 }), "{args:?}: {said}");
        assert!(said.contains("File too large") || said.contains("disk"), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        assert!(list(true) == before, "{args:?}: {:?}", list(true).keys());
        // A process that is killed while it writes.
        let output = limited(1, true, &args);
        assert_eq!(output.status.code(), None, "{args:?}: {}", text(&output.stderr));
        assert!(list(false) == before, "{args:?}: {:?}", list(false).keys());
        // What it left is old by the time of the next run, which ends as if nothing had been.
        let old = std::time::SystemTime::now() - Duration::from_secs(3600);
        for left in list(true).into_keys().filter(|path| !before.contains_key(path)) {
            let file = std::fs::File::options().write(true).open(&left).expect("there");
            file.set_modified(old).expect("set");
        }
        let line: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = warpsim(&line);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        assert!(list(true) == list(false), "{args:?} leaves {:?}", list(true).keys());
        for name in names.iter().filter(|_| !store) {
            assert_ne!(std::fs::read(into.join(name)).expect("there"), b"old", "{name}");
        }
        if args[1] != "collect" {
            std::fs::remove_dir_all(&into).expect("removed");
        }
    }
}

/// A history is added to as a whole or not at all.
#[cfg(target_os = "linux")]
#[test]
fn a_history_survives_a_full_disk_and_a_killed_writer() {
    let folder = Folder::new("history-full");
    let suite = folder.write("s.yaml", "schema: 1\nname: s\nruns:\n- nqueens --set n=5 --chip gtx480\n");
    let (baseline, history) = (folder.join("b.json"), folder.join("h.sqlite"));
    assert!(warpsim(&["baseline", "record", "--suite", &suite, "--file", &baseline]).status.success());
    let check = ["baseline", "check", "--suite", &suite, "--file", &baseline, "--history", &history];
    let rows = || text(&warpsim(&["baseline", "history", "cycles", "--history", &history]).stdout);
    assert!(warpsim(&check).status.success());
    let before = rows();
    let words: Vec<String> = check.iter().map(|word| word.to_string()).collect();
    let size = std::fs::metadata(&history).expect("there").len();
    // Room for what is there, and for half of what comes to it.
    for is_killed in [false, true] {
        let output = limited((size / 512) as u32, is_killed, &words);
        let code = if is_killed { None } else { Some(2) };
        assert_eq!(output.status.code(), code, "{}", text(&output.stderr));
        assert_eq!(rows(), before);
    }
}
