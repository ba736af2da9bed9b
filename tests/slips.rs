//! Slips of those who type commands and write sweeps and suites: each is refused with the way out.

mod common;

use common::{Folder, command, text, warpsim};

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
    assert!(out.contains("docs/reference/workload.md"), "{out}");
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
        assert!(code == Some(2) && out.contains("no point is left"), "{out}");
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
    let points = folder.0.join("r").join("points");
    let point = std::fs::read_dir(&points).expect("a folder").flatten().map(|entry| entry.path());
    let point = point.into_iter().find(|path| path.extension().is_some_and(|e| e == "json")).expect("one");
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
    let point = std::fs::read_dir(folder.0.join("b").join("points")).expect("a folder");
    let point = point.flatten().map(|entry| entry.path()).next().expect("one");
    let whole = std::fs::read_to_string(&point).expect("there");
    std::fs::write(&point, whole.replacen("\"schema\": 1", "\"schema\": 99", 1)).expect("written");
    let (code, out) = said(&["compare", &folder.join("a"), &folder.join("b")]);
    assert!(code == Some(2) && out.contains("schema 99"), "{out}");
    std::fs::write(point.with_file_name("other.json"), &whole).expect("written");
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
    assert!(code == Some(2) && out.contains("stands twice"), "{out}");
}

#[test]
fn the_chip_of_inspect_follows_from_the_program() {
    let folder = Folder::new("follows");
    let file = folder.write("k.ptx", KERNEL);
    let (code, out) = said(&["inspect", &file]);
    assert!(code == Some(0) && out.contains("v100"), "{out}");
    let help = text(&warpsim(&["inspect", "--help"]).stdout);
    assert!(help.starts_with("Shows what can be said of a program without running it"), "{help}");
}
