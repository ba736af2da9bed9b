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
    let (compiler, library) = tools()?;
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", options.join("")));
    let mut compile = Command::new(compiler);
    compile.args(["-cudart", "shared", "-std=c++17", "-gencode", "arch=compute_75,code=compute_75", "-o"]);
    let compiled =
        compile.arg(&program).arg(format!("{ROOT}/examples/{name}.cu")).output().expect("nvcc runs");
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
