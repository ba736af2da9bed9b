//! Slips of those who type commands and write sweeps and suites: each is refused with the way out.

mod common;

use common::{Folder, command, results_in, text, warpsim};

/// Exit status and both streams.
fn said(args: &[&str]) -> (Option<i32>, String) {
    let output = warpsim(args);
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

const KERNEL: &str = ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .f32 a, .param .f64 b)\n{\n  ret;\n}\n";

fn sweep(folder: &Folder, body: &str) -> String {
    folder.write("s.yaml", &format!("schema: 1\nname: s\naxes:\n{body}"))
}

#[test]
fn float_literals_of_ptx_are_arguments() {
    let folder = Folder::new("literals");
    let file = folder.write("k.ptx", KERNEL);
    let run = |a: &str, b: &str| {
        said(&["run", &file, "--entry", "k", "--grid", "1", "--block", "1", "--arg", a, "--arg", b])
    };
    let (code, out) = run("f32:0f3F800000", "f64:0d3FF0000000000000");
    assert_eq!(code, Some(0), "{out}");
    let (code, out) = run("f32:0f3F80", "f64:1");
    assert!(code == Some(2) && out.contains("0f and 8 hexadecimal digits"), "{out}");
    let (code, out) = run("f32:0x3f800000", "f64:1");
    assert!(code == Some(2) && out.contains("0f3f800000"), "{out}");
    let (_, out) = run("nothing", "f64:1");
    assert!(out.contains("warpsim docs reference/workload"), "{out}");
    let help = text(&warpsim(&["run", "--help"]).stdout);
    assert!(help.contains("0 to 1") && help.contains("0f3F800000"), "{help}");
}

#[test]
fn a_misspelt_chip_or_key_of_a_sweep_is_said_once_with_the_way_out() {
    let folder = Folder::new("misspelt");
    let results = folder.join("r");
    let file = sweep(&folder, "  workload: vecadd\n  chip: gtx48\n  seed: [1, 2, 3]\n");
    let (code, out) = said(&["sweep", "run", &file, "--results", &results]);
    assert_eq!(code, Some(2), "{out}");
    assert!(out.contains("did you mean `gtx480`?") && out.contains("2 more points"), "{out}");
    assert_eq!(out.matches("there is no chip").count(), 1, "{out}");
    let (code, out) = said(&["sweep", "plan", &file, "--results", &results]);
    assert!(code == Some(2) && !out.contains("nothing is left to do"), "{out}");
}

#[test]
fn filters_that_leave_no_point_or_name_no_number_are_refused() {
    let folder = Folder::new("filters");
    let results = folder.join("r");
    let axes = "  workload: vecadd\n  chip: [gtx480, v100]\n  seed: [1, 2]\nzip: [[chip, seed]]\n";
    let file = sweep(&folder, &format!("{axes}only:\n- {{chip: gtx480, seed: 2}}\n"));
    for args in [&["sweep", "run", &file, "--results", &results][..], &["sweep", "plan", &file]] {
        let (code, out) = said(args);
        assert!(code == Some(2) && out.contains("no point of the sweep is left"), "{out}");
    }
    let file = sweep(&folder, &format!("{axes}exclude:\n- {{seed: {{min: .nan}}}}\n"));
    let (code, out) = said(&["sweep", "plan", &file]);
    assert!(code == Some(2) && out.contains("a finite number"), "{out}");
}

#[cfg(unix)]
#[test]
fn a_pipe_among_the_points_holds_nothing_up() {
    use std::process::{Command, Stdio};
    let folder = Folder::new("pipe");
    let results = folder.join("r");
    let file = sweep(&folder, "  workload: vecadd\n  chip: gtx480\n");
    assert_eq!(said(&["sweep", "run", &file, "--results", &results]).0, Some(0));
    let point = point(&folder);
    std::fs::remove_file(&point).expect("removed");
    assert!(Command::new("mkfifo").arg(&point).status().expect("starts").success());
    let mut child = command(&["sweep", "run", &file, "--results", &results])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    for _ in 0..300 {
        if child.try_wait().expect("asked").is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let ended = child.try_wait().expect("asked").is_some();
    let _ = child.kill();
    let output = child.wait_with_output().expect("ended");
    assert!(ended && text(&output.stderr).contains("it is a pipe"), "{}", text(&output.stderr));
}

#[test]
fn points_of_another_format_are_not_compared() {
    let folder = Folder::new("format");
    let file = sweep(&folder, "  workload: vecadd\n  chip: gtx480\n");
    for results in ["a", "b"] {
        assert_eq!(said(&["sweep", "run", &file, "--results", &folder.join(results)]).0, Some(0));
    }
    let point = results_in(&folder.0.join("b")).pop().expect("one");
    let whole = std::fs::read_to_string(&point).expect("there");
    std::fs::write(&point, whole.replacen("\"schema\": 1", "\"schema\": 99", 1)).expect("written");
    let (code, out) = said(&["compare", &folder.join("a"), &folder.join("b")]);
    assert!(code == Some(2) && out.contains("schema 99"), "{out}");
    let part =
        point.parent().and_then(|part| part.file_name()).expect("a folder").to_string_lossy().into_owned();
    std::fs::write(point.with_file_name(format!("{part}other.json")), &whole).expect("written");
    std::fs::remove_file(&point).expect("removed");
    let (code, out) = said(&["compare", &folder.join("a"), &folder.join("b")]);
    assert!(code == Some(2) && out.contains("of another point"), "{out}");
}

#[test]
fn what_is_no_report_names_the_key_that_is_missing() {
    let folder = Folder::new("keys");
    let bare = folder.write("bare.json", "{\"schema\": 2}");
    let newer = folder.write("newer.json", "{\"schema\": 99, \"cycles\": 5, \"stalls\": {}}");
    for command in ["compare", "report"] {
        let output = folder.join("page.html");
        let with = |file: &str| match command {
            "compare" => said(&[command, file, file]),
            _ => said(&[command, file, "-o", &output]),
        };
        let (code, out) = with(&bare);
        assert!(code == Some(2) && out.contains("`cycles`"), "{command}: {out}");
        let (code, out) = with(&newer);
        assert!(code == Some(2) && out.contains("written by a newer version"), "{command}: {out}");
    }
}

#[test]
fn a_suite_writes_no_files_of_its_runs() {
    let folder = Folder::new("writes");
    for option in ["--out x", "--dump=c=x"] {
        let file = folder.write(
            "u.yaml",
            &format!("schema: 1\nname: s\nruns:\n- vecadd --chip gtx480\n- vecadd {option}\n"),
        );
        let (code, out) = said(&["baseline", "record", "--suite", &file]);
        assert!(code == Some(2) && out.contains("u.yaml:3:1") && out.contains("writes"), "{out}");
    }
}

#[test]
fn policies_of_a_study_are_named_once_and_right() {
    let study = |policies: &[&str]| {
        let mut args = vec!["study", "policies", "--workloads", "vecadd"];
        policies.iter().for_each(|policy| args.extend(["--policy", policy]));
        said(&args)
    };
    let (code, out) = study(&["pdom_stack,mimd"]);
    assert!(code == Some(2) && out.contains("--policy pdom_stack --policy mimd"), "{out}");
    let (code, out) = study(&["pdom_stck"]);
    assert!(code == Some(2) && out.contains("did you mean `pdom_stack`?"), "{out}");
    let (code, out) = study(&["mimd", "mimd"]);
    assert!(code == Some(2) && out.contains("is given twice"), "{out}");
}

#[test]
fn the_chip_of_inspect_follows_from_the_program() {
    let folder = Folder::new("follows");
    let file = folder.write("k.ptx", KERNEL);
    let (code, out) = said(&["inspect", &file]);
    assert!(code == Some(0) && out.contains("v100"), "{out}");
    let help = text(&warpsim(&["inspect", "--help"]).stdout);
    assert!(help.starts_with("Analyses a PTX program statically"), "{help}");
}

const COUNTER: &str = ".version 6.0\n.target sm_70\n.address_size 64\n.global .u32 counter;\n.shared .u32 s;\n.entry k()\n{\n  .reg .u32 %r<4>;\n  .reg .u64 %rd<3>;\n  mov.u64 %rd1, counter;\n  atom.shared.add.u32 %r1, [s], 1;\n  atom.global.add.u32 %r2, [%rd1], %r1;\n  ret;\n}\n";

#[test]
fn inspect_counts_the_instructions_that_a_run_issues() {
    let folder = Folder::new("counts");
    let file = folder.write("k.ptx", COUNTER);
    let (code, out) = said(&["inspect", &file]);
    assert!(code == Some(0) && out.contains("kernel k: 5 instructions"), "{out}");
    let (code, out) = said(&["run", &file, "--grid", "1", "--block", "32"]);
    assert!(code == Some(0) && out.contains("instructions: 5 warp"), "{out}");
}

#[test]
fn atomics_that_wait_for_one_another_are_counted_with_the_conflicts() {
    let folder = Folder::new("waits");
    let file = folder.write("k.ptx", COUNTER);
    let run = |lanes: &str, combine: &str| {
        let combine = format!("assembler.combine_atomics={combine}");
        let words = ["run", &file, "--grid", "1", "--block", lanes, "--profile", "--json", "--set", &combine];
        let report = warpsim(&words);
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("a report");
        let lines = report["lines"].as_array().expect("lines are counted");
        let line = lines.iter().find(|line| line["line"] == 11).expect("the atomic has a line");
        let of = |value: &serde_json::Value| value["conflict_cycles"].as_u64().unwrap_or(0);
        assert_eq!(of(line), of(&report["memory"]));
        (of(line), report["cycles"].as_u64().expect("cycles"))
    };
    let ((none, one), (waits, all)) = (run("1", "none"), run("32", "none"));
    assert_eq!(none, 0);
    assert_eq!(run("32", "redux").0, 0, "one operation waits for none");
    // 31 lanes wait for the one before, which is what the warp takes longer in shared memory.
    assert!(waits > 0 && waits % 31 == 0 && all >= one + waits, "{waits} {one} {all}");
}

#[test]
fn the_limit_of_cycles_is_that_of_all_launches_with_their_latencies() {
    let limited = |cycles: &str| said(&["run", "hotspot", "--chip", "gtx480", "--max-cycles", cycles]);
    let (code, out) = limited("200");
    assert!(code == Some(3) && out.contains("during the launch latency of the first kernel"), "{out}");
    let whole = warpsim(&["run", "hotspot", "--chip", "gtx480", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&whole.stdout).expect("a report");
    let of = |key: &str| report[key].as_u64().expect("a figure");
    assert!(report["kernels"].as_array().is_some_and(|kernels| kernels.len() > 1));
    let all = of("cycles") + of("launch_cycles");
    let (code, out) = limited(&(all + 5000).to_string());
    assert_eq!(code, Some(0), "{out}");
    let (code, out) = limited(&(all - 10).to_string());
    assert!(code == Some(3) && out.contains(&format!("stopped after {} core cycles", all - 10)), "{out}");
    let help = text(&warpsim(&["run", "--help"]).stdout);
    assert!(help.contains("launch latency"), "{help}");
}

#[test]
fn options_that_would_change_nothing_are_refused() {
    let folder = Folder::new("nothing");
    let trace = folder.join("t.json");
    for (args, word) in [
        (&["run", "vecadd", "--functional", "--profile"][..], "--profile"),
        (&["run", "vecadd", "--functional", "--sample-every", "100"], "--sample-every"),
        (&["trace", "vecadd", "--functional", "-o", &trace], "--functional"),
        (&["run", "vecadd", "--entry", "k"], "--entry"),
        (&["run", "vecadd", "--grid", "2"], "--grid"),
        (&["run", "vecadd", "--block", "2"], "--block"),
        (&["run", "vecadd", "--arg", "u32:1"], "--arg"),
        (&["run", "vecadd", "--dynamic-shared", "64"], "--dynamic-shared"),
    ] {
        let (code, out) = said(args);
        assert!(code == Some(2) && out.contains(word) && out.contains("= help: "), "{args:?}: {out}");
    }
    let (code, out) = said(&["run", "vecadd", "--functional"]);
    assert!(code == Some(0) && !out.contains("0 cycles"), "{out}");
}

#[test]
fn small_numbers_and_nothing_are_told_as_they_are() {
    let (code, out) = said(&["run", "vecadd", "--max-memory", "1K"]);
    assert!(code == Some(3) && out.contains("1 KiB"), "{out}");
    let (code, out) = said(&["run", "vecadd", "--skip-launches", "99"]);
    assert!(code == Some(2) && out.contains("there is 1 launch"), "{out}");
    let (code, out) = said(&["run", "vecadd", "--time-launches", "0"]);
    assert!(code == Some(2) && out.contains("must be at least 1"), "{out}");
    let (code, out) = said(&["run", "vecadd", "--time-launches", "1", "--functional"]);
    assert!(code == Some(2) && out.contains("nothing is timed"), "{out}");
    let (code, out) = said(&["chips", "diff", "v100", "v100"]);
    assert!(code == Some(0) && out.contains("have the same parameters, and the same costs"), "{out}");
    let (code, out) = said(&["run", "vecadd", "--set", "sms=0"]);
    assert!(code == Some(2) && out.contains("warpsim docs reference/chip"), "{out}");
    let (code, out) = said(&["inspect"]);
    assert!(code == Some(2) && out.contains("<FILE|--memory <CHIP>|--liveness <FILE>>"), "{out}");
}

#[test]
fn what_is_not_executed_is_shown_alone() {
    let folder = Folder::new("alone");
    let body = KERNEL.replace(
        "  ret;",
        "  .reg .u32 %r<3>; mov.u32 %r1, 0; tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; ret;",
    );
    let body = body.replace(".version 6.0", ".version 8.6").replace("sm_70", "sm_100a");
    let file = folder.write("k.ptx", &body);
    let (code, out) = said(&["inspect", &file, "--entry", "k"]);
    assert!(code == Some(2) && out.contains("not executed"), "{out}");
    let carets = out.lines().find(|line| line.contains('^')).expect("underlined");
    assert_eq!(
        carets.matches('^').count(),
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned".len(),
        "{out}"
    );
}

#[test]
fn a_file_of_a_later_format_is_told_by_that_alone() {
    let folder = Folder::new("later");
    let file = folder.write("s.yaml", "schema: 2\nname: s\nnew_key: 1\naxes:\n  workload: vecadd\n");
    let (code, out) = said(&["sweep", "plan", &file]);
    assert!(
        code == Some(2) && out.contains("s.yaml:1:9") && out.contains("schema: must be 1, not 2"),
        "{out}"
    );
    assert!(!out.contains("new_key"), "{out}");
}

#[test]
fn a_folder_that_hides_a_workload_and_a_later_workload_are_told_once() {
    let folder = Folder::new("hides");
    std::fs::create_dir_all(folder.0.join("vecadd")).expect("a folder");
    let output = command(&["run", "vecadd"]).current_dir(&folder.0).output().expect("the command starts");
    let err = text(&output.stderr);
    assert!(output.status.code() == Some(2) && err.contains("hides the workload of that name"), "{err}");
    let file = folder.write("workload.yaml", "schema: 2\nname: x\n");
    let (code, out) = said(&["run", &file]);
    assert_eq!((code, out.matches("must be 1, not 2").count()), (Some(2), 1), "{out}");
}

#[test]
fn folders_without_results_are_told_once() {
    let folder = Folder::new("once");
    let path = folder.0.to_str().expect("text");
    let (code, out) = said(&["compare", path, path]);
    assert_eq!(code, Some(2), "{out}");
    assert_eq!(out.matches("error").count(), 1, "{out}");
}

/// The file of the only point of a sweep that has run.
fn point(folder: &Folder) -> std::path::PathBuf {
    results_in(&folder.0.join("r")).pop().expect("one")
}

#[test]
fn results_of_a_newer_version_are_kept_and_parts_of_results_are_none() {
    let folder = Folder::new("newer");
    let results = folder.join("r");
    let file = sweep(&folder, "  workload: vecadd\n  chip: gtx480\n");
    let run = || said(&["sweep", "run", &file, "--results", &results]);
    assert_eq!(run().0, Some(0));
    let path = point(&folder);
    let whole = std::fs::read_to_string(&path).expect("there");
    // Its report lost, or a part of that: it is simulated again.
    for (key, other) in [("\"report\"", "\"reportx\""), ("\"cycles\": ", "\"cyclesx\": ")] {
        std::fs::write(&path, whole.replacen(key, other, 1)).expect("written");
        let (_, out) = said(&["sweep", "collect", &file, "--results", &results]);
        assert!(out.contains("1 have no result yet"), "{out}");
        let (code, out) = run();
        assert_eq!(code, Some(0), "{out}");
        let value =
            |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON")["report"].clone();
        assert_eq!(value(&std::fs::read_to_string(&path).expect("there")), value(&whole));
    }
    let newer = whole.replacen("\"schema\": 1", "\"schema\": 99", 1);
    assert_ne!(newer, whole);
    std::fs::write(&path, &newer).expect("written");
    let (code, out) = run();
    assert!(code != Some(0) && out.contains("a newer version"), "{out}");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), newer);
}

#[test]
fn keys_of_a_chip_that_are_not_written_as_keys_have_a_place() {
    let folder = Folder::new("keys");
    let file = folder.write("c.yaml", "extends: gtx480\nlimits: {max_threads_per_block 5}\n");
    let (code, out) = said(&["run", "vecadd", "--chip", &file]);
    assert!(code == Some(2) && out.contains("c.yaml:2:10") && out.contains("`key: value`"), "{out}");
}

#[test]
fn reports_without_their_keys_and_outputs_that_are_no_folders_are_refused() {
    let folder = Folder::new("parts");
    let out = folder.join("a");
    assert_eq!(said(&["run", "vecadd", "--out", &out]).0, Some(0));
    let path = folder.0.join("a").join("report.json");
    let whole: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).expect("there")).expect("JSON");
    let page = folder.join("p.html");
    for key in ["schema", "workload", "chip", "policy", "result", "cycles", "stalls", "memory"] {
        let mut part = whole.clone();
        part.as_object_mut().expect("keys").remove(key).expect("it has it");
        let file = folder.write("report.json", &part.to_string());
        for args in [&["compare", &file, path.to_str().expect("text")][..], &["report", &file, "-o", &page]] {
            let (code, said) = said(args);
            assert!(code == Some(2) && said.contains(&format!("`{key}`")), "{key}: {said}");
        }
    }
    let file = folder.write("file", "");
    let (code, out) = said(&["run", "vecadd", "--out", &file]);
    assert!(code == Some(2) && out.contains("it is not a folder"), "{out}");
}
