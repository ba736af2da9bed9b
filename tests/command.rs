//! The command line beside the workloads: lists, settings, files it writes, Ctrl-C, diagnostics.

#![allow(missing_docs, reason = "tests")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Folder, command, parse, warpsim};

#[test]
fn lists_name_what_there_is() {
    for (args, words) in [
        (&["workloads"][..], &["vecadd", "bfs", "sm_20 sm_52 sm_90", "values"][..]),
        (&["chips"], &["gtx480", "2.0", "15", "700"]),
        (&["policies"], &["crs_stack", "mimd", "depth=16", "gto", "two_level", "lrr"]),
    ] {
        let output = warpsim(args);
        assert!(output.status.success());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for word in words {
            assert!(text.contains(word), "{args:?} lacks {word}: {text}");
        }
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{args:?} is wider than 120 columns");
    }
}

#[test]
fn set_changes_parameters_and_chip_keys_and_the_report_says_so() {
    let cycles = |set: &[&str]| {
        let mut args = vec!["run", "reduce", "--chip", "gtx480", "--json"];
        set.iter().for_each(|s| args.extend(["--set", s]));
        let output = warpsim(&args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        parse(&output.stdout)
    };
    let (base, slow) = (cycles(&[]), cycles(&["sm.branch_latency=40"]));
    let count = |report: &serde_json::Value| report["cycles"].as_u64().expect("cycles");
    assert!(count(&slow) > count(&base));
    assert_eq!(slow["set"]["sm.branch_latency"], "40");
    assert_eq!(slow["warp_instructions"], base["warp_instructions"]);
    let one = cycles(&["limits.NumProcessors=1"]);
    assert_eq!((one["sms"].as_u64(), one["result"].as_str()), (Some(1), Some("pass")));
    let small = cycles(&["n=1000"]);
    assert_eq!(small["params"]["n"], 1000.0);
    let chip = include_str!("../configs/chips/gtx480.yaml");
    let ways = 1 + chip.lines().position(|line| line.trim().starts_with("ways:")).expect("L1 has ways");
    for (set, words) in [
        ("sm.branch_latencies=4", "did you mean `sm.branch_latency`?"),
        ("memory.l1=4", "`memory.l1` is a mapping"),
        ("memory.l1.ways=many", &format!("memory.l1.ways=many:{ways}:11")),
        ("limits.WarpSize=33", "must be between 1 and 32"),
        ("n=lots", "not a number"),
        ("n", "KEY=VALUE"),
    ] {
        let output = warpsim(&["run", "reduce", "--chip", "gtx480", "--set", set]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{set}: {text}");
        assert!(text.contains(words), "{set}: {text}");
    }
}

/// What of its chip was compared with hardware is told of a run; of a chip of the user's, nothing was, whatever its name.
#[test]
fn the_summary_says_what_of_the_chip_was_compared_with_hardware() {
    let folder = Folder::new("command-model");
    let file = folder.write("mine.yaml", "extends: h100\n");
    let model = |words: &[&str]| {
        let output = warpsim(&["run", "reduce", "--chip"].iter().chain(words).copied().collect::<Vec<_>>());
        let out = common::text(&output.stdout);
        out.lines().find(|line| line.starts_with("model of ")).map(str::to_string)
    };
    let shipped = model(&["h100", "--set", "sm.branch_latency=40"]).expect("a line");
    assert!(shipped.starts_with("model of h100: held to measurements on hardware: "), "{shipped}");
    assert!(shipped.ends_with("; changed in this run: sm.branch_latency"), "{shipped}");
    let expected = format!("model of h100 of {file}: not among the chips that were compared with hardware");
    assert_eq!(model(&[&file]), Some(expected));
    assert_eq!(model(&["h100", "--functional"]), None);
    let report = parse(&warpsim(&["run", "reduce", "--chip", &file, "--json"]).stdout);
    assert_eq!((&report["chip"], &report["chip_file"]), (&"h100".into(), &file.as_str().into()));
    let report = parse(&warpsim(&["run", "reduce", "--chip", "h100", "--json"]).stdout);
    assert_eq!(report.get("chip_file"), None);
}

#[test]
fn out_and_dump_write_files() {
    let folder = Folder::new("out");
    let (out, dump) = (folder.join("reports"), folder.join("c.bin"));
    let output = warpsim(&[
        "run",
        "vecadd",
        "--set",
        "n=1000",
        "--out",
        &out,
        "--dump",
        &format!("c={dump}"),
        "--json",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = std::fs::read(Path::new(&out).join("report.json")).expect("report.json");
    assert_eq!(parse(&written), parse(&output.stdout), "the same facts");
    let host = parse(&std::fs::read(Path::new(&out).join("host.json")).expect("host.json"));
    assert!(host["warp_instructions_per_second"].as_f64().is_some_and(|r| r > 0.0), "{host}");
    let bytes = std::fs::read(&dump).expect("the buffer");
    assert_eq!(bytes.len(), 4000);
    let missing = warpsim(&["run", "vecadd", "--dump", "q=x"]);
    assert_eq!(missing.status.code(), Some(2), "{}", String::from_utf8_lossy(&missing.stderr));
}

#[test]
fn skipped_launches_run_functionally() {
    // bfs launches level by level.
    let all = parse(&warpsim(&["run", "bfs", "--chip", "gtx480", "--json"]).stdout);
    let some = parse(&warpsim(&["run", "bfs", "--chip", "gtx480", "--json", "--skip-launches", "2"]).stdout);
    let functional = |report: &serde_json::Value| {
        let kernels = report["kernels"].as_array().expect("kernels");
        kernels.iter().map(|k| k["functional"].as_bool().expect("a flag")).collect::<Vec<_>>()
    };
    assert!(functional(&all).iter().all(|f| !f));
    assert_eq!(functional(&some)[..3], [true, true, false]);
    assert_eq!(some["result"], "pass");
    let cycles = |report: &serde_json::Value| report["cycles"].as_u64().expect("cycles");
    assert!(cycles(&some) < cycles(&all));
    let words = ["run", "bfs", "--chip", "gtx480", "--json", "--skip-launches", "1", "--time-launches", "2"];
    let two = parse(&warpsim(&words).stdout);
    let timed: Vec<usize> = (0..functional(&two).len()).filter(|at| !functional(&two)[*at]).collect();
    assert_eq!((timed.as_slice(), &two["result"]), (&[1, 2][..], &some["result"]));
    assert_eq!(functional(&two).len(), functional(&all).len());
    assert!(cycles(&two) < cycles(&all));
}

/// An integer division is many machine operations, and what becomes an operand none.
#[test]
fn lines_have_the_machine_operations_of_their_kernel() {
    let words = ["run", "saxpy", "--chip", "h100", "--time-launches", "1", "--profile", "--json"];
    let report = parse(&warpsim(&words).stdout);
    let lines = report["lines"].as_array().expect("lines").iter();
    let operations = lines.filter_map(|line| line["machine_operations"].as_object());
    let sum: u64 = operations.flat_map(|units| units.values()).filter_map(serde_json::Value::as_u64).sum();
    // What is written on a line, and what the assembler makes for it, are told apart.
    let texts = |line: &serde_json::Value| {
        let own =
            report["lines"].as_array().expect("lines").iter().filter(|other| other["line"] == line["line"]);
        own.map(|line| line["text"].as_str().unwrap_or_default()).collect::<Vec<_>>()
    };
    let made = |line: &&serde_json::Value| {
        line["text"] == "mov" && texts(line).iter().any(|text| text.starts_with("m") && text.contains('%'))
    };
    assert!(report["lines"].as_array().expect("lines").iter().any(|line| made(&line)), "{}", report["lines"]);
    let kernel = &report["kernels"][0];
    assert_eq!(Some(sum), kernel["machine_instructions"].as_u64());
    assert_ne!(Some(sum), kernel["warp_instructions"].as_u64(), "issues are not operations");
}

#[test]
fn ctrl_c_writes_what_is_known() {
    let folder = Folder::new("int");
    let out = folder.join("reports");
    // Far longer than any test may take. How long the command takes to start is the machine's
    // affair: wait longer until something has been simulated when the signal comes.
    for wait in [200, 1000, 5000, 20_000] {
        let args = ["run", "fmaloop", "--chip", "gtx480", "--set", "n=40000000", "--set", "blocks=120"];
        let child = command(&[&args[..], &["--out", &out]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        std::thread::sleep(std::time::Duration::from_millis(wait));
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
        assert!(sent.success());
        let output = child.wait_with_output().expect("it ends");
        let Ok(report) = std::fs::read(Path::new(&out).join("report.json")) else { continue };
        let report = parse(&report);
        if report["warp_instructions"].as_u64().is_none_or(|n| n == 0) {
            continue;
        }
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(report["result"], "stopped");
        assert_eq!(report["stopped"], "interrupted");
        return;
    }
    panic!("nothing was simulated before any signal");
}

#[test]
fn a_ptx_file_runs_by_itself() {
    let output = warpsim(&[
        "run",
        "workloads/vecadd/vecadd.sm_20.ptx",
        "--entry",
        "vecadd",
        "--grid",
        "2",
        "--block",
        "64",
        "--arg",
        "buffer:f32:128:iota",
        "--arg",
        "buffer:f32:128:iota",
        "--arg",
        "buffer:f32:128",
        "--arg",
        "s32:128",
        "--json",
    ]);
    let report = parse(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(report["result"], "unchecked");
    assert_eq!(report["thread_instructions"].as_u64().map(|n| n > 128), Some(true));
    for (args, words) in [
        (&["run", "workloads/vecadd/vecadd.sm_20.ptx"][..], "--entry"),
        (
            &["run", "workloads/vecadd/vecadd.sm_20.ptx", "--entry", "x", "--grid", "1", "--block", "1"],
            "vecadd",
        ),
        (&["run", "nowhere.ptx", "--entry", "x", "--grid", "1", "--block", "1"], "nowhere.ptx"),
        (&["run", "nowhere.ptx"], "nowhere.ptx"),
        // Who gives too little learns what the kernels take, and how arguments are written.
        (
            &["run", "docs/tutorial/collatz/collatz.sm_20.ptx"],
            "collatz(.u64 collatz_param_0, .u32 collatz_param_1); for example: --entry collatz --grid 1 --block 32 \
             --arg buffer:u32:1024 --arg u32:1",
        ),
        (
            &[
                "run",
                "docs/tutorial/collatz/collatz.sm_20.ptx",
                "--entry",
                "collatz",
                "--grid",
                "1",
                "--block",
                "32",
            ],
            "--arg buffer:u32:1024 --arg u32:1",
        ),
        (&["run", "docs/tutorial/collatz/collatz.cu"], "nvcc -ptx"),
        (&["run", "nowhere.cu"], "nvcc -ptx"),
    ] {
        let output = warpsim(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(words), "{args:?}: {text}");
    }
}

/// What a user sees of a wrong file: place, line, caret, reason, way out.
#[test]
fn wrong_files_are_shown_where_they_are_wrong() {
    let folder = Folder::new("yaml");
    let chip =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/chips/gtx480.yaml"))
            .expect("the shipped chip");
    let show = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("written");
        let output = warpsim(&["run", "vecadd", "--chip", &path]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).replace(&path, "chip.yaml")
    };
    let unknown = show("a.yaml", &chip.replace("  barrier_latency: 4", "  barier_latency: 4"));
    for part in ["chip.yaml:", "barier_latency", "^", "did you mean `barrier_latency`?"] {
        assert!(unknown.contains(part), "{part}: {unknown}");
    }
    let kind = show("b.yaml", &chip.replace("NumProcessors: 15", "NumProcessors: many"));
    for part in ["chip.yaml:24:", "NumProcessors: many", "^"] {
        assert!(kind.contains(part), "{part}: {kind}");
    }
    let impossible = show("c.yaml", &chip.replace("WarpSize: 32 ", "WarpSize: 64 "));
    for part in ["chip.yaml:20:3", "WarpSize: 64", "^^^^^^^^", "between 1 and 32"] {
        assert!(impossible.contains(part), "{part}: {impossible}");
    }
    let broken = show("d.yaml", "schema: [1\n");
    assert!(broken.contains("chip.yaml:"), "{broken}");
    let ptx = folder.join("w.ptx");
    std::fs::write(&ptx, ".version 3.0\n.target sm_20\n.address_size 64\n.entry k() {\n.reg .u32 %r<3>;\nad.u32 %r1, %r2, 3;\nmov.u32 %r1, %q;\nret;\n}\n")
        .expect("written");
    let output = warpsim(&["run", &ptx, "--entry", "k", "--grid", "1", "--block", "1"]);
    let text = String::from_utf8_lossy(&output.stderr).replace(&ptx, "w.ptx");
    assert_eq!(output.status.code(), Some(2));
    for part in ["w.ptx:6:1", "did you mean `add`?", "w.ptx:7:14", "`%q` is not declared", "mov.u32 %r1, %q;"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// A reader that goes away, as `head` does, is no fault.
#[test]
fn a_closed_pipe_ends_the_output_quietly() {
    let mut child = command(&["isa", "--markdown"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Counts by line add up to those of the run, and change nothing else.
#[test]
fn profiles_count_every_issue_at_its_line() {
    let report = |more: &[&str]| {
        let args = ["run", "nqueens", "--chip", "gtx480", "--set", "n=5", "--json"];
        let output = warpsim(&[&args[..], more].concat());
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let plain = report(&[]);
    assert!(plain.get("lines").is_none());
    for threads in ["1", "3"] {
        let mut profiled = report(&["--profile", "--threads", threads]);
        let lines = profiled.as_object_mut().and_then(|report| report.remove("lines")).expect("lines");
        let listing =
            profiled.as_object_mut().and_then(|report| report.remove("listing")).expect("a listing");
        assert_eq!(listing["ptx"]["file"], "nqueens.sm_20.ptx");
        assert_eq!(profiled, plain);
        let lines = lines.as_array().expect("a list");
        let sum = |name: &str| lines.iter().map(|line| line[name].as_u64().expect(name)).sum::<u64>();
        assert_eq!(sum("issues"), plain["warp_instructions"]);
        assert_eq!(sum("injected"), plain["control_instructions"]);
        assert_eq!(sum("executing_lanes"), plain["thread_instructions"]);
        assert_eq!(sum("active_lanes"), plain["kernels"][0]["active_lanes"]);
        assert!(sum("waited") > 0);
        // A branch of the text, at its line.
        let text = std::fs::read_to_string("workloads/nqueens/nqueens.sm_20.ptx").expect("PTX");
        let branch =
            lines.iter().find(|line| line["text"].as_str().is_some_and(|t| t.contains("bra"))).expect("one");
        let line = branch["line"].as_u64().expect("a number") as usize;
        assert!(text.lines().nth(line - 1).is_some_and(|line| line.contains("bra")), "{branch}");
    }
    let shown = warpsim(&["run", "nqueens", "--chip", "gtx480", "--set", "n=5", "--profile"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("PTX line") && shown.contains("warp stall cycles by line"), "{shown}");
}

#[test]
fn launches_and_time_stand_beside_the_cycles_of_kernels() {
    let report = |args: &[&str]| {
        let output = warpsim(&[&["run"][..], args, &["--json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        parse(&output.stdout)
    };
    let number = |report: &serde_json::Value, key: &str| report[key].as_u64().expect("a number");
    let latency = |cycles: u32| format!("dispatch.launch_latency={cycles}");
    let (none, long) = (latency(0), latency(7000));
    let without = report(&["vecadd", "--chip", "v100", "--set", &none]);
    let with = report(&["vecadd", "--chip", "v100", "--set", &long]);
    assert_eq!(number(&with, "launch_cycles"), number(&without, "launch_cycles") + 7000);
    assert_eq!(with["kernels"][0]["launch_cycles"], 7000);
    // The same work at another phase of DRAM's refresh.
    let (a, b) = (number(&with, "cycles") as f64, number(&without, "cycles") as f64);
    assert!((a / b - 1.0).abs() < 0.05, "{a} {b}");
    assert_eq!(with["schema"], 2);
    // A picosecond is the sixth decimal: cycles over 1380 MHz.
    assert_eq!(with["time_us"].as_f64(), Some((a / 1380.0 * 1e6).round() / 1e6));
    let old = ["--chip", "gtx480", "--set", &long];
    for args in [&["bfs"][..], &["lud"], &["vecadd", "--chip", "v100"], &[&["mergesort"], &old[..]].concat()]
    {
        let report = report(args);
        let stalls: u64 = report["stalls"]
            .as_object()
            .expect("stalls")
            .values()
            .filter_map(serde_json::Value::as_u64)
            .sum();
        let slots = number(&report, "cycles") * number(&report, "sms") * number(&report, "schedulers");
        assert_eq!(number(&report, "issued") + stalls, slots, "{args:?}");
        let kernels: u64 =
            report["kernels"].as_array().expect("a list").iter().filter_map(|k| k["cycles"].as_u64()).sum();
        assert_eq!(kernels, number(&report, "cycles"), "{args:?}: one kernel after another");
    }
}

#[test]
fn the_chip_follows_from_the_program_unless_it_is_named() {
    let folder = Folder::new("chosen");
    let of = |args: &[&str]| {
        let output = warpsim(&[&["run"][..], args].concat());
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let ptx = |target: &str| {
        folder.write(
            "k.ptx",
            &format!(".version 8.0\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"),
        )
    };
    let kernel = ["--entry", "k", "--grid", "1", "--block", "32"];
    for (target, chip) in [
        ("sm_10", "8800gtx (the smallest shipped chip for sm_10)"),
        ("sm_20", "gtx480 (the smallest shipped chip for sm_20)"),
        ("sm_61", "gtx1080ti (the smallest shipped chip for sm_61)"),
        ("sm_62", "v100 (the smallest shipped chip for sm_62)"),
        ("sm_90a", "h100 (the smallest shipped chip for sm_90)"),
        // On the line of the version.
        ("sm_80 .address_size 64 //", "a100 (the smallest shipped chip for sm_80)"),
    ] {
        let path = ptx(target);
        let (code, text) = of(&[&[path.as_str()][..], &kernel].concat());
        assert!(code == Some(0) && text.contains(&format!("on {chip}")), "{target}: {text}");
    }
    let one_line = ".version 8.0 .target sm_80 .address_size 64 .visible .entry k() { ret; }\n";
    let (code, text) = of(&[&[folder.write("one.ptx", one_line).as_str()][..], &kernel].concat());
    assert!(code == Some(0) && text.contains("on a100 (the smallest"), "{text}");
    let (code, text) = of(&[&[folder.join("one.ptx").as_str()][..], &kernel, &["--chip", "v100"]].concat());
    assert!(code == Some(2) && text.contains("one.ptx:1:22: the module targets sm_80"), "{text}");
    // Nothing says which.
    let papers = folder.write("p.ptx", "// dialect: papers\n.entry k() { exit; }\n");
    let (code, text) = of(&[&[papers.as_str()][..], &kernel].concat());
    assert!(code == Some(0) && text.contains("on gtx480 (the program names no target)"), "{text}");
    let (_, text) = of(&[&[ptx("sm_61").as_str()][..], &kernel, &["--chip", "v100"]].concat());
    assert!(text.contains("on v100, policy"), "{text}");
    let (code, text) = of(&["vecadd"]);
    let said = "vecadd (sm_90) on h100 (the smallest shipped chip for sm_90), policy";
    assert!(code == Some(0) && text.contains(said), "{text}");
    let (code, text) = of(&["vecadd", "--variant", "sm_52"]);
    assert!(code == Some(0) && text.contains("on gtx980 (the smallest shipped chip for sm_52)"), "{text}");
    // A program that no shipped chip runs does not count.
    folder.write("a.ptx", &std::fs::read_to_string(ptx("sm_52")).expect("there"));
    let workload = |newest: &str| {
        folder.write(
            "workload.yaml",
            &format!(
                "schema: 1\nname: w\ndescription: d\nschedule: independent\nvariants:\n\
                 - {{name: old, file: a.ptx, compiler: c, target: sm_52}}\n\
                 - {{name: new, file: a.ptx, compiler: c, target: {newest}}}\nbuffers: {{}}\n\
                 launches:\n- {{entry: k, grid: [1], block: [32], args: []}}\n"
            ),
        )
    };
    let (code, text) = of(&[&workload("sm_121")]);
    assert!(code == Some(0) && text.contains("w (old) on gtx980 (the smallest shipped"), "{text}");
    let (code, text) = of(&[&workload("sm_86")]);
    assert!(code == Some(0) && text.contains("w (new) on rtx3080 (the smallest shipped"), "{text}");
    let (code, text) = of(&[&workload("sm_121"), "--variant", "new"]);
    assert!(code == Some(2) && text.contains("no shipped chip runs sm_121"), "{text}");
    let (code, text) = of(&["warp_sum"]);
    assert!(code == Some(0) && text.contains("on h100 (the smallest shipped chip for sm_90)"), "{text}");
    let (code, text) = of(&["warp_sum", "--chip", "gtx480"]);
    assert!(
        code == Some(2) && text.contains("shipped chips that can run it: --chip gtx980, gtx1080ti,"),
        "{text}"
    );
    let (code, text) = of(&["copy_pipeline", "--variant", "sm_90", "--chip", "v100"]);
    assert!(
        code == Some(2) && text.contains("shipped chips that can run it: --chip h100, gh200, h200"),
        "{text}"
    );
}

/// A kernel without parameters, and two on one line.
const TWO_ON_A_LINE: &str = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry only(.param .u64 out)\n{\n\
    .reg .u64 %rd<4>; .reg .u32 %r<4>;\nld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x; add.u32 %r2, %r1, 9; \
    st.global.u32 [%rd1], %r2;\nret;\n}\n";

#[test]
fn the_only_kernel_of_a_file_needs_no_name() {
    let folder = Folder::new("only");
    let one = folder.write("one.ptx", TWO_ON_A_LINE);
    let run = |file: &str| warpsim(&["run", file, "--grid", "1", "--block", "32", "--arg", "buffer:u32:1"]);
    let output = run(&one);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let other = TWO_ON_A_LINE.replace(".version 7.0\n.target sm_70\n.address_size 64\n", "");
    let two = folder.write("two.ptx", &format!("{TWO_ON_A_LINE}{}", other.replace("only", "second")));
    let output = run(&two);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("a .ptx file requires --entry"), "{text}");
}

#[test]
fn a_line_of_several_instructions_is_shown_whole() {
    let folder = Folder::new("several");
    let file = folder.write("one.ptx", TWO_ON_A_LINE);
    let output = warpsim(&[
        "run",
        &file,
        "--grid",
        "1",
        "--block",
        "32",
        "--arg",
        "buffer:u32:1",
        "--profile",
        "--json",
        "--set",
        "assembler.clean_up=false",
    ]);
    let report = parse(&output.stdout);
    let texts: Vec<&str> =
        report["lines"].as_array().expect("lines").iter().filter_map(|line| line["text"].as_str()).collect();
    assert!(
        texts.contains(&"mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 9; st.global.u32 [%rd1], %r2"),
        "{texts:?}"
    );
}

#[test]
fn the_summary_says_which_kernels_did_not_end() {
    let folder = Folder::new("ended");
    let file = folder.write("one.ptx", &TWO_ON_A_LINE.replace("[%rd1], %r2", "[%rd1+4096], %r2"));
    let output = warpsim(&["run", &file, "--grid", "1", "--block", "32", "--arg", "buffer:u32:1"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("0 only: did not complete"), "{text}");
    assert!(!text.contains(": 0 cycles"), "{text}");
}

#[test]
fn buffers_that_no_host_or_memory_holds_are_refused() {
    let folder = Folder::new("buffers");
    let file = folder.write("one.ptx", TWO_ON_A_LINE);
    for (arg, words) in [
        ("buffer:pred:4", "`pred` is not a valid buffer element type; valid types: b8, b16"),
        ("buffer:e4m3:4", "`e4m3` is not a valid buffer element type"),
        ("buffer:e5m2:4", "`e5m2` is not a valid buffer element type"),
        ("buffer:b128:4294967295", "has 4294967295 elements of .b128, 68719476720 bytes"),
    ] {
        let run = ["run", &file, "--grid", "1", "--block", "32", "--max-memory", "16G", "--arg", arg];
        let output = warpsim(&run);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arg}: {text}");
        assert!(text.contains(words), "{arg}: {text}");
    }
}
