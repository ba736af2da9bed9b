//! Baselines: simulated figures equal to the digit, what moved, red or green.

mod common;

use common::{Folder, text, warpsim};

/// The committed baseline is what this build simulates. Where a change is meant to move it:
/// `cargo run --release -- baseline record`.
#[test]
fn simulated_figures_are_those_recorded() {
    let output = warpsim(&["baseline", "check"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// What a suite is recorded with: runs without expectations are no failure, tolerances are percent.
#[test]
fn unchecked_runs_are_recorded_and_tolerances_are_numbers() {
    let folder = Folder::new("unchecked");
    let ptx = folder.write(
        "k.ptx",
        ".version 6.0\n.target sm_20\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n",
    );
    let run = format!("{ptx} --entry k --grid 1 --block 32 --chip gtx480");
    let suite = |tolerance: &str| {
        folder.write("s.yaml", &format!("schema: 1\nname: s\nruns: [\"{run}\"]\n{tolerance}"))
    };
    let output = warpsim(&["baseline", "record", "--suite", &suite("")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(!text(&output.stdout).contains("not right"), "{}", text(&output.stdout));
    for value in ["-3", ".nan", ".inf", "1e300"] {
        let path =
            suite(&format!("tolerance: {{cycles: {value}}}\nhost: {{tolerance: {value}, repeats: 1}}\n"));
        let output = warpsim(&["baseline", "check", "--suite", &path]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{value}: {said}");
        assert_eq!(said.matches("a tolerance is a number of percent from 0 to 1000").count(), 2, "{said}");
    }
}

/// Whatever a run of a suite would write, or take from elsewhere, is refused by its name.
#[test]
fn runs_of_suites_write_nothing_and_go_on_from_nothing() {
    let folder = Folder::new("baseline-writes");
    for option in ["--out", "--dump", "--record", "--checkpoint", "--from"] {
        let runs = format!("schema: 1\nname: s\nruns:\n- cuda {option} x -- ./p\n- vecadd {option}=x\n");
        let output = warpsim(&["baseline", "record", "--suite", &folder.write("s.yaml", &runs)]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option}: {said}");
        assert_eq!(said.matches(&format!("so it takes no {option}")).count(), 2, "{said}");
    }
}

/// The suite may grow and must not shrink: chips, policies and kinds of work that it holds.
#[test]
fn the_suite_does_not_shrink() {
    let suite = std::fs::read_to_string("baselines/ci.yaml").expect("a file");
    let runs: Vec<&str> = suite.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert!(runs.len() >= 30, "{}", runs.len());
    let chips = ["v100", "a100", "h100", "gtx980", "gtx560ti", "gtx680", "gtx280"];
    let policies = ["pdom_stack", "mimd", "convergence_barriers", "multi_path"];
    for word in chips.iter().chain(&policies) {
        assert!(runs.iter().any(|run| run.split(' ').any(|w| w == *word)), "{word}");
    }
    for workload in ["vecadd", "sgemm_tiled", "bfs", "histogram", "bitonic_sort", "nqueens", "atomics"] {
        assert!(runs.iter().any(|run| run.split(' ').next() == Some(workload)), "{workload}");
    }
}

#[test]
fn what_moves_is_shown_and_red_unless_it_may() {
    let folder = Folder::new("moves");
    let suite = |setting: &str, tolerance: &str| {
        folder
            .write("s.yaml", &format!("schema: 1\nname: s\nruns:\n- reduction\n- spmv{setting}\n{tolerance}"))
    };
    let path = suite("", "");
    let file = folder.join("s.json");
    assert!(warpsim(&["baseline", "record", "--suite", &path]).status.success());
    let check = |more: &[&str]| {
        let output = warpsim(&[&["baseline", "check", "--suite", &path][..], more].concat());
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = check(&[]);
    assert!(code == Some(0) && said.contains("2 of 2 runs") && said.contains("0 differ"), "{said}");
    // One figure of the file is changed, by one per cent.
    let recorded = std::fs::read_to_string(&file).expect("a file");
    let mut value: serde_json::Value = serde_json::from_str(&recorded).expect("JSON");
    let cycles = value["runs"][1]["metrics"]["cycles"].as_f64().expect("a number");
    value["runs"][1]["metrics"]["cycles"] = (cycles * 1.01).into();
    std::fs::write(&file, value.to_string()).expect("written");
    let junit = folder.join("junit.xml");
    let (code, said) = check(&["--junit", &junit]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("spmv:") && said.contains("cycles") && said.contains("-0.99 %"), "{said}");
    assert!(
        !said.contains("reduction:") && said.contains("1 of 2 runs") && said.contains("1 differ"),
        "{said}"
    );
    let xml = std::fs::read_to_string(&junit).expect("a file");
    assert!(xml.contains("tests=\"2\" failures=\"1\"") && xml.contains("cycles was"), "{xml}");
    // Within a tolerance that the suite declares it is green.
    suite("", "tolerance: {cycles: 1.5}\n");
    let (code, said) = check(&[]);
    assert_eq!(code, Some(0), "{said}");
    // A run that is new, and one that is gone.
    suite(" --set memory.l1.hit_latency=99", "");
    let (code, said) = check(&[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("not in the baseline") && said.contains("not in the suite"), "{said}");
    suite("", "tolerance: {cylces: 1}\n");
    let (code, said) = check(&[]);
    assert!(
        code == Some(2) && said.contains("s.yaml:6:13") && said.contains("did you mean `cycles`?"),
        "{said}"
    );
}

#[test]
fn history_is_kept_by_version() {
    let folder = Folder::new("history");
    let suite = folder.write("s.yaml", "schema: 1\nname: s\nruns:\n- reduction\n");
    let history = folder.join("h.sqlite");
    assert!(warpsim(&["baseline", "record", "--suite", &suite]).status.success());
    for _ in 0..2 {
        assert!(warpsim(&["baseline", "check", "--suite", &suite, "--history", &history]).status.success());
    }
    let output = warpsim(&["baseline", "history", "cycles", "--history", &history]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    // The same figure of the same version stands once.
    assert_eq!(said.matches("reduction").count(), 1, "{said}");
    assert!(said.contains(env!("CARGO_PKG_VERSION")) && said.contains("in core cycles"), "{said}");
    // Figures for people are rounded.
    let output = warpsim(&["baseline", "history", "ipc", "--history", &history]);
    let said = text(&output.stdout);
    let row = said.lines().find(|line| line.contains("reduction")).expect("the run");
    let figure = row.split('|').nth(3).expect("a figure").trim();
    assert!(figure.parse::<f64>().is_ok_and(|value| value > 0.0) && figure.len() <= 7, "{figure}");
    let output = warpsim(&["baseline", "history", "cylces", "--history", &history]);
    assert_eq!(output.status.code(), Some(2));
}

/// The host's speed is measured where it is asked for; what is allowed is wide, as hosts are noisy.
#[test]
fn host_speed_is_recorded_and_missed_where_it_is_not() {
    let folder = Folder::new("host");
    let suite = folder
        .write("s.yaml", "schema: 1\nname: s\nruns:\n- reduction\nhost: {tolerance: 99.9, repeats: 1}\n");
    assert!(warpsim(&["baseline", "record", "--suite", &suite]).status.success());
    let output = warpsim(&["baseline", "check", "--suite", &suite, "--host"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("no host speed"), "{}", text(&output.stdout));
    assert!(warpsim(&["baseline", "record", "--suite", &suite, "--host"]).status.success());
    let output = warpsim(&["baseline", "check", "--suite", &suite, "--host"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    // A thousand times the speed was recorded.
    let file = folder.join("s.json");
    let mut value: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("a file")).expect("JSON");
    let speed = value["host"]["reduction"].as_f64().expect("a number");
    value["host"]["reduction"] = (speed * 1e6).into();
    std::fs::write(&file, value.to_string()).expect("written");
    let output = warpsim(&["baseline", "check", "--suite", &suite, "--host"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("warp instructions per second"), "{}", text(&output.stdout));
}

#[test]
fn two_reports_are_compared_down_to_the_slots() {
    let folder = Folder::new("compare");
    let (a, b) = (folder.join("a"), folder.join("b"));
    assert!(warpsim(&["run", "spmv", "--profile", "--out", &a]).status.success());
    assert!(
        warpsim(&["run", "spmv", "--set", "memory.l1.hit_latency=70", "--profile", "--out", &b])
            .status
            .success()
    );
    let cycles = |folder: &str| {
        let text = std::fs::read_to_string(format!("{folder}/report.json")).expect("a report");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        report["cycles"].as_i64().expect("a number")
    };
    let output = warpsim(&["compare", &format!("{a}/report.json"), &format!("{b}/report.json")]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("set: {} → {memory.l1.hit_latency:70}"), "{said}");
    // What the slots gained, as cycles, is what the runs differ by.
    let together = format!("total difference: {:+.1} core cycles", (cycles(&b) - cycles(&a)) as f64);
    assert!(said.contains(&together) && said.contains("memory"), "{together}: {said}");
    // The lines that wait for L1 are loads.
    assert!(said.contains("PTX line") && said.contains("lines differ"), "{said}");
    let output = warpsim(&["compare", &format!("{a}/report.json"), &format!("{a}/report.json")]);
    assert!(text(&output.stdout).contains("no metric differs"));
    let output = warpsim(&["compare", &format!("{a}/host.json"), &format!("{a}/report.json")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("not a report.json"));
}

#[test]
fn folders_of_runs_are_compared_pair_by_pair() {
    let folder = Folder::new("folders");
    for (side, reduce) in [("a", &[][..]), ("b", &["--set", "sm.barrier_latency=90"])] {
        for (name, more) in [("vecadd", &[][..]), ("reduce", reduce)] {
            let out = folder.join(&format!("{side}/{name}"));
            let output = warpsim(&[&["run", name, "--out", &out][..], more].concat());
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
    }
    let (a, b) = (folder.join("a"), folder.join("b"));
    let output = warpsim(&["compare", &a, &b]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("2 pairs, 1 differ; 0 in one folder only"), "{out}");
    assert!(out.contains("reduce") && !out.contains("vecadd"), "{out}");
    let output = warpsim(&["compare", &a, &a]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("2 pairs, 0 differ"));
    // The folder of one run is its report.
    let output = warpsim(&["compare", &format!("{a}/reduce"), &format!("{b}/reduce/report.json")]);
    assert!(output.status.success() && text(&output.stdout).contains("barrier_latency"), "{output:?}");
    std::fs::remove_dir_all(format!("{b}/vecadd")).expect("removed");
    let output = warpsim(&["compare", &a, &b]);
    assert!(text(&output.stdout).contains("only in A: vecadd"), "{}", text(&output.stdout));
    for (a, b) in [(&a, &format!("{a}/vecadd")), (&a, &folder.join(""))] {
        assert_eq!(warpsim(&["compare", a, b]).status.code(), Some(2));
    }
}

/// A program that stores one number, and what a run of it is made of.
fn stores(folder: &Folder, name: &str, number: u32) -> Vec<String> {
    let ptx = format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n.global .u32 left = 0;\n\
         .visible .entry k(.param .u64 to)\n{{\n  .reg .u64 %a<2>;\n  .reg .u32 %n<2>;\n\
         ld.param.u64 %a0, [to];\n  cvta.to.global.u64 %a1, %a0;\n  mov.u32 %n0, {number};\n\
         st.global.u32 [%a1], %n0;\n  st.global.u32 [left], 7;\n  ret;\n}}\n"
    );
    let words = "--entry k --grid 1 --block 1 --chip v100 --arg buffer:u32:4";
    let mut run = vec![folder.write(name, &ptx)];
    run.extend(words.split(' ').map(str::to_string));
    run
}

/// A result that nobody checks, and that changes in no metric, is told all the same.
#[test]
fn changed_contents_are_told_where_no_metric_moves() {
    let folder = Folder::new("contents");
    let run = |number: u32, out: &str| {
        let run = [vec!["run".to_string()], stores(&folder, "k.ptx", number)].concat();
        let args: Vec<&str> = run.iter().map(String::as_str).chain(["--out", out]).collect();
        assert!(warpsim(&args).status.success());
    };
    let (a, b) = (folder.join("all/a"), folder.join("new/a"));
    run(1, &a);
    run(2, &b);
    let report = std::fs::read_to_string(format!("{a}/report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    // The first 64 bits of the SHA-256 of 01 00 00 00 and twelve zeros, and of 07 00 00 00.
    let contents = serde_json::json!({
        "buffers": {"arg0": {"bytes": 16, "digest": "4cbbd8ca5215b8d1"}},
        "variables": {"left": {"bytes": 4, "digest": "e8613f5a5bc9f9fe"}},
    });
    assert_eq!(report["contents"], contents);
    assert_eq!(report["args"], serde_json::json!(["buffer:u32:4"]));
    let output = warpsim(&["compare", &a, &b]);
    let said = text(&output.stdout);
    assert!(
        said.contains("contents differ: buffer `arg0`\n") && said.contains("no metric differs"),
        "{said}"
    );
    let output = warpsim(&["compare", &folder.join("all"), &folder.join("new")]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("1 pairs, 1 differ") && said.contains("contents differ: buffer `arg0`"), "{said}");
    let output = warpsim(&["compare", &a, &a]);
    assert!(!text(&output.stdout).contains("contents"), "{}", text(&output.stdout));
    // A baseline too.
    let runs = stores(&folder, "k.ptx", 1).join(" ");
    let suite = folder.write("s.yaml", &format!("schema: 1\nname: s\nruns: [\"{runs}\"]\n"));
    assert!(warpsim(&["baseline", "record", "--suite", &suite]).status.success());
    let check = || warpsim(&["baseline", "check", "--suite", &suite]);
    assert_eq!(check().status.code(), Some(0));
    stores(&folder, "k.ptx", 3);
    let output = check();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("contents differ: buffer `arg0`"), "{said}");
    // One of before contents were kept is refused.
    let file = folder.join("s.json");
    let old = std::fs::read_to_string(&file).expect("a baseline").replace("\"schema\": 2", "\"schema\": 1");
    std::fs::write(&file, old).expect("written");
    let output = check();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("schema 1; this version reads schema 2"),
        "{}",
        text(&output.stderr)
    );
}
