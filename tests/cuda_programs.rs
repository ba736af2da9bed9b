//! CUDA programs with a `main`, compiled here and run by `warpsim cuda`. Where no nvcc can be had (`WARPSIM_NVCC`, or
//! `nvcc` on the path), the tests say so and check nothing.

#![allow(missing_docs, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The compiler, and the library that the workspace's tests build.
fn tools() -> Option<(PathBuf, PathBuf)> {
    let compiler = std::env::var_os("WARPSIM_NVCC").map_or_else(|| PathBuf::from("nvcc"), PathBuf::from);
    if !Command::new(&compiler).arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no nvcc; WARPSIM_NVCC names one");
        return None;
    }
    Some((compiler, library()?))
}

/// The library that the workspace's tests build.
fn library() -> Option<PathBuf> {
    // Tests of the workspace build it beside themselves, `cargo build` beside the command.
    let own = std::env::current_exe().expect("this test");
    let folders = [own.as_path(), Path::new(env!("CARGO_BIN_EXE_warpsim"))]
        .map(|path| path.parent().expect("a folder"));
    let libraries = folders.map(|folder| folder.join("libwarpsim_cuda.so"));
    let Some(library) = libraries.into_iter().find(|library| library.is_file()) else {
        eprintln!("skipped: libwarpsim_cuda.so is not built: cargo test --workspace");
        return None;
    };
    Some(library)
}

/// Compiles an example, for compute capability 7.5 where no other is given, with the runtime `cudart` of nvcc and what the
/// linker is told.
fn compiled(compiler: &Path, name: &str, source: &str, cudart: &str, linked: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compile = Command::new(compiler);
    compile.args(["-cudart", cudart, "-std=c++17"]);
    if !linked.contains(&"-gencode") {
        compile.args(["-gencode", "arch=compute_75,code=compute_75"]);
    }
    compile.arg("-o");
    let source = format!("{ROOT}/examples/{source}");
    let compiled = compile.arg(&program).arg(source).args(linked).output().expect("nvcc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

/// Runs a program with options.
fn ran(library: &Path, options: &[&str], program: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
    command.arg("cuda").args(options).arg("--").args(program).env("WARPSIM_CUDA_LIB", library);
    command.output().expect("warpsim runs")
}

/// Compiles an example and runs it with options.
fn run(name: &str, options: &[&str]) -> Option<Output> {
    run_files(&[name], &[], options)
}

/// Compiles files of the examples to one program, with flags, and runs it with options.
fn run_files(names: &[&str], flags: &[&str], options: &[&str]) -> Option<Output> {
    let (compiler, library) = tools()?;
    let [first, others @ ..] = names else { return None };
    let others: Vec<String> = others.iter().map(|name| format!("{ROOT}/examples/{name}.cu")).collect();
    let more: Vec<&str> = flags.iter().copied().chain(others.iter().map(String::as_str)).collect();
    let name = format!("{first}-{}-{}", options.len(), options.join("").replace('/', "_"));
    let program = compiled(&compiler, &name, &format!("{first}.cu"), "shared", &more);
    Some(ran(&library, options, &[&program]))
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
fn clusters_are_those_of_the_kernel_and_of_the_launch() {
    let ninety = ["-gencode", "arch=compute_90,code=compute_90"];
    for options in [&["--chip", "h100"][..], &["--chip", "h100", "--functional"][..]] {
        let Some(output) = run_files(&["clusters"], &ninety, options) else { return };
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}{err}");
        // H100's 132 SMs are 8 GPCs of whole TPCs: two of 18 SMs, six of 16. An SM holds 32 blocks of 64 threads.
        let wanted = "PASS: 3 refused, clusters of 8 or 16 blocks, 264 clusters of 16 at a time\n";
        assert_eq!(out, wanted, "{err}");
        for why in [
            "chosen: the grid has 32 blocks in x, which is no multiple of the cluster's 3 (cluster size)",
            "chosen: a cluster has 16 blocks; at most 8 are allowed (cluster size)",
            "fixed: the kernel requires clusters of [4, 1, 1] blocks, not [2, 1, 1] (.reqnctapercluster)",
        ] {
            let (name, why) = why.split_once(':').expect("a name");
            assert!(err.lines().any(|line| line.contains(name) && line.ends_with(why)), "{why}: {err}");
        }
    }
}

/// With CUDA's own device runtime linked too, and without.
#[test]
fn graphs_decide_by_conditions_that_kernels_set() {
    for (flags, options) in [
        (&[][..], &[][..]),
        (&["-rdc=true"][..], &["--functional"][..]),
        (&["-rdc=true"][..], &["--allow-newer-isa"][..]),
    ] {
        let Some(output) = run_files(&["conditional"], flags, options) else { return };
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}{err}");
        let wanted = "1.414214 after 6 rounds, 0 of them large, body 30\n\
                      1000.000000 after 16 rounds, 12 of them large, body 10\nPASS\n";
        assert_eq!(out, wanted, "{err}");
    }
}

#[test]
fn a_kernel_that_launches_kernels_is_refused_by_name_and_others_run() {
    let Some((compiler, library)) = tools() else { return };
    let program = compiled(&compiler, "nested", "../tests/programs/nested.cu", "shared", &["-rdc=true"]);
    let output = ran(&library, &["--functional"], &[&program]);
    let (out, err) = texts(&output);
    assert_eq!(out, "child: cudaSuccess, 31\nparent: cudaErrorInvalidPtx\n", "{err}");
    for words in [
        "error[dynamic_parallelism]: nested",
        "the kernel `_Z6parentPi` takes the address of the kernel `_Z5childPi`: kernels that launch kernels (dynamic \
         parallelism) are not supported",
        "launch them from the host",
    ] {
        assert!(err.contains(words), "{words}: {err}");
    }
}

#[test]
fn launches_that_cannot_be_are_called_what_cuda_calls_them() {
    let Some((compiler, library)) = tools() else { return };
    for cudart in ["shared", "static"] {
        let name = format!("configurations-of-{cudart}");
        let program = compiled(&compiler, &name, "../tests/programs/configurations.cu", cudart, &[]);
        let (out, err) = texts(&ran(&library, &["--functional"], &[&program]));
        let wrong = "cudaErrorInvalidConfiguration";
        let wanted = format!(
            "threads: {wrong}\nthreads in z: {wrong}\nblocks in y: {wrong}\nno blocks: {wrong}\n\
             shared memory: cudaErrorInvalidValue\na kernel: cudaSuccess\n"
        );
        assert_eq!(out, wanted, "{cudart}: {err}");
    }
}

/// Of launches like others some are timed, and all executed.
#[test]
fn launches_of_a_sampled_program_are_estimated() {
    let Some((compiler, library)) = tools() else { return };
    let program = compiled(&compiler, "many", "../tests/programs/many.cu", "shared", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let output = ran(&library, &["--sample=10%", "--out", path], &[&program]);
    let (out, err) = texts(&output);
    assert!(output.status.success() && out == "cudaSuccess: 2661120\n", "{out}{err}");
    assert!(err.contains(", sampled: cycles are estimates\n"), "{err}");
    let report = std::fs::read(folder.path().join("report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    let kernels = report["kernels"].as_array().expect("a list");
    let estimated = |kernel: &&serde_json::Value| kernel["sampled"]["cycles_low"].is_u64();
    let count = kernels.iter().filter(estimated).count();
    assert!(kernels.len() == 41 && (20..37).contains(&count), "{count} are estimated");
    assert!(!estimated(&&kernels[40]), "another shape");
    assert!(report["cycles"].is_u64() && report.get("issued").is_none(), "{report}");
}

/// The heap of `malloc` and the buffer of `printf` have the sizes that a program sets, also in a launch that was recorded.
#[test]
fn limits_of_the_device_runtime_are_what_a_program_sets() {
    let Some((compiler, library)) = tools() else { return };
    let program = compiled(&compiler, "heap", "../tests/programs/heap.cu", "shared", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    for options in [&["--functional"][..], &[], &["--record", path, "--out", path, "--time", "give:1"]] {
        let (out, err) = texts(&ran(&library, options, &[&program]));
        let (first, printed) = out.split_once("in use: ").unwrap_or_else(|| panic!("{out}{err}"));
        // In each of two launches 32 of the 40 threads have a piece, which depends on times. Thread 0's sum is 0, whether it has one
        // or not.
        let (before, _) =
            first.split_once(" pieces, 0 wrong: cudaSuccess").unwrap_or_else(|| panic!("{first}{err}"));
        let pieces = before.rsplit('\n').next().and_then(|count| count.parse::<u32>().ok());
        assert!(pieces.is_some_and(|pieces| (31..=39).contains(&pieces)), "{first}{err}");
        assert!(
            first.starts_with(
                "heap: cudaSuccess, 33554432\nmore than there is: cudaErrorUnsupportedLimit, 33554432\n\
                 buffer: cudaSuccess, 192\n"
            ),
            "{first}"
        );
        let printed: Vec<&str> = printed.lines().collect();
        assert_eq!((printed[0], printed.len()), ("cudaErrorInvalidValue, 33554432", 1 + 8), "{out}");
        assert!(err.contains("warpsim: 24 printf calls were dropped"), "{err}");
    }
    let read = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).expect("a report")).expect("JSON")
    };
    let report = read(&folder.path().join("report.json"));
    let recorded = folder.path().join("0003-_Z4givePi");
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
    let again = folder.path().join("again");
    command.arg("run").arg(&recorded).args(["--chip", "rtx2080ti", "--out"]).arg(&again);
    let output = command.output().expect("warpsim runs");
    assert!(output.status.success(), "{:?}", texts(&output));
    assert_eq!(
        read(&again.join("report.json"))["kernels"][0]["cycles"],
        report["kernels"][3]["cycles"],
        "{report}"
    );
}

#[test]
fn values_that_ptx_leaves_undefined_are_zero_and_told_unless_they_are_looked_for() {
    let Some((compiler, library)) = tools() else { return };
    let program = compiled(&compiler, "undefined", "../tests/programs/undefined.cu", "shared", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("UTF-8");
    let read = Regex::new(r"read (\d+) values").expect("a pattern");
    for options in [&["--out", out][..], &["--functional"]] {
        let output = ran(&library, options, &[&program]);
        let (out, err) = texts(&output);
        assert_eq!((out.as_str(), output.status.code()), ("cudaSuccess: 136\n", Some(0)), "{err}");
        // Two launches of lanes 0 to 15 that ask for 16 to 31, and of 8, 4, 2 and 1 that ask for what is beyond them.
        let told: Vec<&str> = err.lines().filter(|line| line.starts_with("warning: ")).collect();
        let count = |line: &&str| read.captures(line)?[1].parse::<u32>().ok();
        assert_eq!(told.iter().filter_map(count).sum::<u32>(), 2 * (16 + 8 + 4 + 2 + 1), "{err}");
        assert!(told.iter().all(|line| line.contains("_Z3sumPi: `shfl.sync.down.b32")), "{err}");
    }
    let report = std::fs::read(folder.path().join("report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    let counted = &report["kernels"][1]["undefined_values"];
    assert_eq!((counted[0]["lanes"].as_u64(), counted[4]["lanes"].as_u64()), (Some(16), Some(1)), "{report}");
    // A launch that is recorded has them too, and about as many cycles.
    let records = folder.path().join("records");
    let path = records.to_str().expect("UTF-8");
    assert!(ran(&library, &["--record", path, "--time", "sum:1"], &[&program]).status.success());
    let recorded = records.join("0001-_Z3sumPi");
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
        command
            .args(["run", recorded.to_str().expect("UTF-8"), "--chip", "rtx2080ti", "--out", path])
            .args(more);
        command.output().expect("warpsim runs")
    };
    let output = run(&[]);
    assert!(output.status.success(), "{:?}", texts(&output));
    let again = std::fs::read(records.join("report.json")).expect("a report");
    let again: serde_json::Value = serde_json::from_slice(&again).expect("JSON");
    assert_eq!(again["kernels"][0]["undefined_values"], *counted);
    // Sectors that the launch before it left in L2 are not there.
    let cycles = [&again["kernels"][0]["cycles"], &report["kernels"][1]["cycles"]]
        .map(|cycles| cycles.as_f64().expect("cycles"));
    assert!((cycles[0] / cycles[1] - 1.0).abs() < 0.05, "{cycles:?}");
    assert!(texts(&run(&["--check", "full"])).1.contains("which does not participate"));
    for check in ["full", "sync"] {
        let output = ran(&library, &["--check", check], &[&program]);
        let (_, err) = texts(&output);
        assert!(!output.status.success() && err.contains("which does not participate"), "{check}: {err}");
    }
    let (_, err) = texts(&ran(&library, &["--check", "off"], &[&program]));
    assert!(!err.contains("warning: "), "nothing is checked: {err}");
}

#[test]
fn findings_of_sanitizers_are_told_and_are_an_exit_status() {
    let Some((compiler, library)) = tools() else { return };
    let program = compiled(&compiler, "racy", "../tests/programs/racy.cu", "shared", &[]);
    for mode in [&["--check", "races"][..], &["--check", "races", "--functional"]] {
        let output = ran(&library, mode, &[&program]);
        let (out, err) = texts(&output);
        // As on hardware, where the word is read before it is written again.
        assert_eq!((out.as_str(), output.status.code()), ("64\n", Some(3)), "{err}");
        // Two launches with the same race: one finding.
        assert!(err.contains("sanitizers: 1 finding;") && err.contains("racy"), "{err}");
        assert_eq!(err.matches("sanitizers: ").count(), 1, "{err}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("UTF-8");
    assert_eq!(ran(&library, &["--check", "races", "--out", out], &[&program]).status.code(), Some(3));
    let report = std::fs::read(folder.path().join("report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!((&report["result"], &report["exit_status"]), (&"fault".into(), &0.into()), "{report}");
    let sanitizers = |launch: usize| &report["launches"][launch]["section"]["sanitizers"]["findings"];
    assert!(sanitizers(0).is_array() && sanitizers(1)[0]["kind"] == "race", "{report}");
    assert!(report["launches"][0]["sanitizers"].is_null(), "in the section alone");
    // A status of the program's own is passed through.
    let output = ran(&library, &["--check", "races"], &[&program, Path::new("fail")]);
    assert_eq!(output.status.code(), Some(7));
    let (_, err) = texts(&ran(&library, &[], &[&program]));
    assert!(!err.contains("sanitizers"), "{err}");
}

#[test]
fn managed_memory_printf_and_assertions_are_as_in_cuda() {
    let Some(output) = run("managed", &["--functional"]) else { return };
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    let last = "PASS: sum is 499542, then cudaSuccess, then cudaErrorAssert\n";
    assert_eq!(out, format!("thread 999 of 1000\n{last}"));
    // One line for each thread of the warp.
    for thread in 0..4 {
        let words = format!("block: [0,0,0], thread: [{thread},0,0] Assertion `sum == value` failed.");
        assert!(err.contains(&words), "{err}");
    }
    assert_eq!(err.matches("Assertion `").count(), 4, "{err}");
}

/// The table at the end, without the name of the program.
fn rows(err: &str) -> Vec<&str> {
    err.lines().filter(|line| line.starts_with(['|', '+'])).collect()
}

#[test]
fn a_program_with_cudas_runtime_within_it_runs_as_one_that_shares_it() {
    let Some((compiler, library)) = tools() else { return };
    for name in ["stencil", "managed"] {
        let source = format!("{name}.cu");
        let [own, shared] = ["static", "shared"].map(|cudart| {
            let program = compiled(&compiler, &format!("{name}-of-{cudart}"), &source, cudart, &[]);
            let output = ran(&library, &[], &[&program]);
            let (out, err) = texts(&output);
            assert!(output.status.success(), "{out}{err}");
            assert!(!err.contains("warpsim:") && out.contains("PASS"), "{out}{err}");
            (out, rows(&err).join("\n"))
        });
        assert_eq!(own, shared);
        assert!(own.1.lines().count() > 4, "{}", own.1);
    }
}

#[test]
fn a_program_of_the_driver_api_links_loads_and_launches() {
    let Some((compiler, library)) = tools() else { return };
    // The driver to link against: names are enough.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver-stub");
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = std::fs::read_to_string(format!("{ROOT}/examples/driver.cpp")).expect("the example");
    let call = Regex::new(r"\b(cu[A-Z]\w+)\(").expect("a pattern");
    let names: BTreeSet<&str> =
        call.captures_iter(&source).filter_map(|found| found.get(1)).map(|m| m.as_str()).collect();
    let stand_ins = names
        .iter()
        .flat_map(|name| ["", "_v2"].map(|version| format!("int {name}{version}(void) {{ return 1; }}\n")));
    std::fs::write(folder.join("stub.c"), stand_ins.collect::<String>()).expect("a file");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"])
        .arg(folder.join("libcuda.so"))
        .arg(folder.join("stub.c"));
    assert!(cc.output().is_ok_and(|output| output.status.success()), "nvcc has a C compiler");
    let place = format!("-L{}", folder.display());
    let program = compiled(&compiler, "driver", "driver.cpp", "none", &[&place, "-lcuda"]);
    for (options, timed) in [(&[][..], true), (&["--functional"][..], false)] {
        let output = ran(&library, options, &[&program]);
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}{err}");
        assert_eq!(out, "PASS: three launches, errors 1111111\n");
        assert!(err.contains("cuMemExportToShareableHandle is not supported"), "{err}");
        let row = err.lines().find(|line| line.contains("apply")).unwrap_or_else(|| panic!("{err}"));
        assert_eq!((row.contains(" 3 "), row.contains(" - ")), (true, !timed), "{err}");
    }
}

/// Python, where it has some modules.
fn python_with(modules: &str) -> Option<PathBuf> {
    let python = std::env::var_os("WARPSIM_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let mut has = Command::new(&python);
    if !has.args(["-c", &format!("import {modules}")]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no Python with {modules}; WARPSIM_PYTHON names one");
        return None;
    }
    Some(python)
}

/// Runs an example in Python, where the modules that it needs are installed.
fn python(modules: &str, script: &str) -> Option<Output> {
    let python = python_with(modules)?;
    let script = Path::new(ROOT).join("examples").join(script);
    Some(ran(&library()?, &["--functional"], &[&python, &script]))
}

#[test]
fn kernels_of_numba_triton_and_cupy_run() {
    let all = [
        ("numba, cuda.core, numba_cuda", "numba_saxpy.py", "PASS sum is 1000000\n", "saxpy"),
        ("cupy", "cupy_axpy.py", "PASS sum is 3000000\n", "triple"),
        ("triton, numpy", "triton_add.py", "PASS last is 999.5\n", " add "),
    ];
    for (modules, script, expected, kernel) in all {
        let Some(output) = python(modules, script) else { continue };
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}{err}");
        assert_eq!(out, expected, "{err}");
        assert!(rows(&err).iter().any(|row| row.contains(kernel)), "{err}");
    }
}

#[test]
fn kernels_of_triton_become_workloads_that_pass() {
    let Some(python) = python_with("triton, numpy") else { return };
    let folder = std::env::temp_dir().join(format!("warpsim-triton-{}", std::process::id()));
    for (capability, chips) in [("90", &["h100"][..]), ("80", &["a100", "h100"])] {
        let script = Path::new(ROOT).join("examples/triton_kernels.py");
        let made = Command::new(&python).arg(script).arg(&folder).arg(capability).output().expect("Python");
        assert!(made.status.success(), "{}", texts(&made).1);
        for (kernel, chip) in ["matmul", "matmul_descriptors", "matmul_persistent", "attention"]
            .into_iter()
            .flat_map(|k| chips.iter().map(move |c| (k, c)))
        {
            let file = folder.join(kernel).join("workload.yaml");
            let run = Command::new(env!("CARGO_BIN_EXE_warpsim"))
                .arg("run")
                .arg(file)
                .args(["--chip", chip])
                .output();
            let (out, err) = texts(&run.expect("warpsim"));
            assert!(out.contains("result: pass"), "{kernel} {capability} {chip}: {out}{err}");
        }
    }
    // Tensor maps that the host makes.
    let script = Path::new(ROOT).join("examples/triton_flash.py");
    let made = Command::new(&python).arg(script).arg(&folder).output().expect("Python");
    assert!(made.status.success(), "{}", texts(&made).1);
    for options in [&[][..], &["--functional"]] {
        let file = folder.join("workload.yaml");
        let run = Command::new(env!("CARGO_BIN_EXE_warpsim"))
            .arg("run")
            .arg(file)
            .args(["--chip", "h100"])
            .args(options)
            .output();
        let (out, err) = texts(&run.expect("warpsim"));
        assert!(out.contains("result: pass"), "{options:?}: {out}{err}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
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
    assert!(err.contains("no kernel ran"), "{err}");
}

#[test]
fn textures_and_surfaces_run_timed_and_functional() {
    for options in [&[][..], &["--functional"][..]] {
        let Some(output) = run("textures", options) else { return };
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}{err}");
        assert!(out.contains("turned: 0 of 4096 texels differ\nbetween levels: 12.50\n"), "{out}");
        assert!(err.contains("turn") && err.contains("shrink"), "{err}");
    }
}
