//! CUDA programs with a `main`, compiled here and run by `warpsim cuda`. Where no nvcc can be had (`WARPSIM_NVCC`, or
//! `nvcc` on the path), the tests say so and check nothing.

#![allow(missing_docs, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The compiler, and the library that the workspace's tests build.
fn tools() -> Option<(PathBuf, PathBuf)> {
    let compiler = std::env::var_os("WARPSIM_NVCC").map_or_else(|| PathBuf::from("nvcc"), PathBuf::from);
    if !Command::new(&compiler).arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no nvcc; WARPSIM_NVCC names one");
        return None;
    }
    // Tests of the workspace build it beside themselves, `cargo build` beside the command.
    let own = std::env::current_exe().expect("this test");
    let folders = [own.as_path(), Path::new(env!("CARGO_BIN_EXE_warpsim"))]
        .map(|path| path.parent().expect("a folder"));
    let libraries = folders.map(|folder| folder.join("libwarpsim_cuda.so"));
    let Some(library) = libraries.into_iter().find(|library| library.is_file()) else {
        eprintln!("skipped: libwarpsim_cuda.so is not built: cargo test --workspace");
        return None;
    };
    Some((compiler, library))
}

/// Compiles an example and runs it with options.
fn run(name: &str, options: &[&str]) -> Option<Output> {
    run_files(&[name], &[], options)
}

/// Compiles files of the examples to one program, with flags, and runs it with options.
fn run_files(names: &[&str], flags: &[&str], options: &[&str]) -> Option<Output> {
    let (compiler, library) = tools()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let program = folder.path().join(names[0]);
    let mut compile = Command::new(compiler);
    compile.args(["-cudart", "shared", "-std=c++17", "-gencode", "arch=compute_75,code=compute_75", "-o"]);
    compile.arg(&program).args(flags).args(names.iter().map(|name| format!("{ROOT}/examples/{name}.cu")));
    let compiled = compile.output().expect("nvcc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
    command.arg("cuda").args(options).arg("--").arg(&program).env("WARPSIM_CUDA_LIB", library);
    Some(command.output().expect("warpsim runs"))
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn streams_and_events_run_timed_and_functional() {
    for (options, timed) in [(&[][..], "yes"), (&["--functional"][..], "no")] {
        let Some(output) = run("stencil", options) else { return };
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}{err}");
        assert_eq!(out, format!("PASS: time is simulated: {timed}\n"));
        let row = err.lines().find(|line| line.contains("stencil")).unwrap_or_else(|| panic!("{err}"));
        assert!(row.contains("stencil") && err.contains(" 8 "), "{err}");
        assert!(!err.contains("no version information"), "{err}");
    }
}

#[test]
fn managed_memory_printf_and_assertions_are_as_in_cuda() {
    let Some(output) = run("managed", &["--functional"]) else { return };
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    let last = "PASS: sum is 499542, then cudaSuccess, then cudaErrorAssert\n";
    assert_eq!(out, format!("thread 999 of 1000\n{last}"));
    assert!(err.contains("block: [0,0,0], thread: [0,0,0] Assertion `sum == value` failed."), "{err}");
}

#[test]
fn a_grid_synchronizes_as_a_whole_and_pools_are_counted() {
    for options in [&[][..], &["--functional"]] {
        let Some(output) = run("reduction", options) else { return };
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}{err}");
        let expected: u32 = (0..20_000).map(|i| i % 97).sum();
        assert_eq!(out, format!("PASS: the sum is {expected}, then cudaErrorCooperativeLaunchTooLarge\n"));
    }
}

#[test]
fn graphs_are_captured_and_registered_memory_is_mapped() {
    let Some(output) = run("graph", &["--functional"]) else { return };
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out, "PASS: 0 of 1000 are wrong\n");
}

#[test]
fn translation_units_are_linked() {
    let Some(output) = run_files(&["linked", "linked_other"], &["-rdc=true"], &["--functional"]) else {
        return;
    };
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out, "PASS: 0 are wrong\n");
}

#[test]
fn chosen_launches_are_timed_and_recorded_as_workloads_with_the_same_cycles() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [recorded, out] = ["recorded", "out"].map(|name| folder.path().join(name).display().to_string());
    let options = ["--time", "stencil:3-4", "--warm", "1", "--record", &recorded, "--out", &out];
    let Some(output) = run("stencil", &options) else { return };
    let (text, err) = texts(&output);
    let read = |path: String| -> serde_json::Value {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}\n{err}"));
        serde_json::from_str(&text).expect("JSON")
    };
    assert!(text.starts_with("PASS"), "{text}{err}");
    let launches = read(format!("{out}/report.json"))["launches"].as_array().cloned().expect("launches");
    let timed: Vec<usize> = (0..launches.len()).filter(|i| launches[*i]["functional"] == false).collect();
    assert_eq!((launches.len(), timed), (8, vec![3, 4]));
    let mut workloads: Vec<PathBuf> = std::fs::read_dir(&recorded)
        .expect("a folder")
        .filter_map(|entry| Some(entry.ok()?.path().join("workload.yaml")))
        .filter(|path| path.is_file())
        .collect();
    workloads.sort();
    assert_eq!(workloads.len(), 2);
    for (workload, launch) in workloads.iter().zip([3, 4]) {
        let again = folder.path().join(format!("again{launch}")).display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
        let command = command.arg("run").arg(workload).args(["--chip", "rtx2080ti", "--out", &again]);
        let output = command.output().expect("warpsim runs");
        let (_, err) = texts(&output);
        assert!(output.status.success(), "{err}");
        let report = read(format!("{again}/report.json"));
        assert_eq!(report["result"], "pass");
        assert_eq!(report["kernels"][0]["cycles"], launches[launch]["cycles"], "launch {launch}");
        assert!(launches[launch]["cycles"].as_u64().is_some_and(|cycles| cycles > 0));
    }
}

#[test]
fn what_cannot_be_run_is_said() {
    let command = |library: &str, words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
        let output = command.arg("cuda").args(words).env("WARPSIM_CUDA_LIB", library).output();
        output.expect("warpsim runs")
    };
    let absent = command("/nowhere/lib.so", &["--", "true"]);
    let (_, err) = texts(&absent);
    assert_eq!(absent.status.code(), Some(2));
    assert!(err.contains("/nowhere/lib.so") && err.contains("WARPSIM_CUDA_LIB"), "{err}");
    // Any file does where no program needs it.
    let own = env!("CARGO_BIN_EXE_warpsim");
    let chip = command(own, &["--chip", "none", "--", "true"]);
    assert_eq!(chip.status.code(), Some(2));
    let Some((_, library)) = tools() else { return };
    let library = library.display().to_string();
    let none = command(&library, &["--", "/nowhere/program"]);
    assert_eq!((none.status.code(), texts(&none).1.contains("/nowhere/program")), (Some(2), true));
    let passed = command(&library, &["--", "sh", "-c", "echo out; exit 7"]);
    let (out, err) = texts(&passed);
    assert_eq!((passed.status.code(), out.as_str()), (Some(7), "out\n"));
    assert!(err.contains("-cudart shared"), "{err}");
}
