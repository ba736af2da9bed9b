//! Runs that go on from a saved state: the same report in the end, byte for byte, wherever they were interrupted.

#![allow(missing_docs, reason = "tests")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use sim_core::reconvergence::registry::POLICIES;

/// Barriers and shared memory, atomics, calls, loops of launches that ask memory whether they are over, streams, chips without
/// caches and with two instructions a cycle, asynchronous copies, textures and surfaces, the heap, tensor cores, bulk
/// copies, clusters.
const RUNS: &[&[&str]] = &[
    &["sgemm", "--set", "n=64", "--chip", "gtx480"],
    &["histogram", "--set", "n=4096", "--chip", "gtx480"],
    &["nqueens", "--set", "n=5", "--chip", "gtx480", "--scheduler", "two_level:4"],
    &["bfs", "--set", "n=512", "--chip", "gtx480", "--scheduler", "gto"],
    &["producer_consumer", "--chip", "gtx480"],
    &["spmv", "--chip", "qv100"],
    &["transpose", "--chip", "gtx680"],
    &["reduction", "--chip", "gtx280", "--variant", "sm_20", "--allow-newer-isa"],
    &["virtual_calls", "--chip", "gtx980", "--check", "full"],
    &["atomics", "--chip", "qv100", "--check", "off"],
    &["copy_pipeline", "--chip", "rtx3080"],
    &["texture_stencil", "--chip", "rtx2080ti"],
    &["surface_writer", "--chip", "rtx2080ti"],
    &["hgemm_wmma", "--chip", "v100"],
    &["hgemm_tma", "--chip", "h100"],
    &["flash_tma", "--chip", "h100"],
    &["tma_copies", "--chip", "h100"],
    &["dsmem_histogram", "--chip", "h100"],
    &["splitk_cluster", "--chip", "h100"],
];

fn run(words: &[&str], more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
    command.arg("run").args(words).args(more).arg("--json").output().expect("the command runs")
}

fn report(words: &[&str], more: &[&str]) -> String {
    let output = run(words, more);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?} {more:?}: {errors}");
    String::from_utf8(output.stdout).expect("JSON is text")
}

/// What a run says of where it begins.
fn note(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    errors.lines().find(|line| line.starts_with("note: ")).unwrap_or_default().to_string()
}

/// The core cycle at which the longest run of the device ends.
fn longest(report: &str) -> u64 {
    let report: Value = serde_json::from_str(report).expect("JSON");
    let kernels = report["kernels"].as_array().expect("kernels").iter();
    kernels.map(|kernel| kernel["end_cycle"].as_u64().expect("a cycle")).max().expect("one kernel")
}

/// The reports are the same of a run that is not disturbed, of one whose state is saved, and of those that go on from the last
/// state.
fn goes_on(words: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let expected = report(words, &[]);
    let end = longest(&expected);
    for (part, every) in [(0, end * 2 / 5 + 1), (1, end * 11 / 20)] {
        let kept = folder.path().join(part.to_string());
        let (kept, every) = (kept.to_str().expect("a name"), every.to_string());
        let saving = ["--checkpoint", kept, "--every", &every];
        assert!(report(words, &saving) == expected, "{words:?} differs where states are saved");
        assert!(Path::new(kept).join("run.state").exists(), "{words:?} ends before cycle {every}");
        let more: &[&[&str]] = &[&[], &["--threads", "3", "--epoch", "7"]];
        for more in &more[..2 - part] {
            let output = run(words, &[&saving[..], &["--resume"], more].concat());
            assert!(note(&output).starts_with("note: goes on from cycle "), "{words:?}: {}", note(&output));
            let got = String::from_utf8_lossy(&output.stdout);
            assert!(got == expected, "{words:?} {more:?} differs; {}", note(&output));
        }
    }
}

#[test]
fn the_report_is_that_of_an_undisturbed_run() {
    RUNS.iter().for_each(|words| goes_on(words));
}

#[test]
fn so_it_is_under_every_policy() {
    for policy in POLICIES {
        goes_on(&["nqueens", "--set", "n=5", "--chip", "gtx480", "--policy", policy.name]);
    }
}

/// Pages of memory that held something when the host had written them, and were zero when the state was saved.
#[test]
fn memory_that_became_zero_is_zero() {
    const PTX: &str = ".version 6.0\n.target sm_70\n.address_size 64
.visible .entry zero(.param .u64 at) {
    .reg .b64 %a, %o; .reg .b32 %t, %n, %b;
    ld.param.u64 %a, [at];
    mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %b, %ctaid.x;
    mad.lo.u32 %t, %b, %n, %t;
    mul.wide.u32 %o, %t, 4;
    add.s64 %a, %a, %o;
    st.global.u32 [%a], 0;
    ret;
}
.visible .entry count(.param .u64 at) {
    .reg .b64 %a; .reg .b32 %n; .reg .pred %p;
    ld.param.u64 %a, [at];
    mov.u32 %n, 0;
loop:
    add.u32 %n, %n, 1;
    setp.lt.u32 %p, %n, 500;
    @%p bra loop;
    st.global.u32 [%a], %n;
    ret;
}
";
    const WORKLOAD: &str =
        "schema: 1\nname: zeros\ndescription: Memory becomes zero.\nschedule: independent\nparams: {n: 65536}
variants:\n- {name: sm_70, file: zeros.ptx, compiler: none, target: sm_70}
buffers:
  a: {type: u32, length: n, init: {formula: {modulo: 13, scale: 1}}}
  b: {type: u32, length: 1, init: zeros}
launches:
- {entry: zero, grid: [\"n / 256\"], block: [256], args: [a]}
- {entry: count, grid: [1], block: [1], args: [b]}
expect: []
";
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("zeros.ptx"), PTX).expect("a file");
    std::fs::write(folder.path().join("workload.yaml"), WORKLOAD).expect("a file");
    goes_on(&[folder.path().to_str().expect("a name"), "--chip", "v100", "--skip-launches", "1"]);
}

/// A run that stopped at a limit goes on from the state before, and to other limits; that which is passed over is not
/// simulated again.
#[test]
fn a_run_that_stopped_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("states");
    let kept = kept.to_str().expect("a name");
    let words = ["bfs", "--set", "n=512", "--chip", "gtx480"];
    let expected = report(&words, &[]);
    let saving = ["--checkpoint", kept, "--every", "1500", "--resume"];
    let output = run(&words, &[&saving[..], &["--max-cycles", "30000"]].concat());
    assert_eq!(note(&output), "note: there is no saved state yet; the run begins at its beginning");
    assert_eq!(output.status.code(), Some(3), "it stopped");
    let output = run(&words, &saving);
    let place = note(&output);
    assert!(place.starts_with("note: goes on from cycle ") && !place.ends_with("timed run 0"), "{place}");
    assert!(String::from_utf8_lossy(&output.stdout) == expected, "{place}");
    // It has saved further states.
    assert_ne!(note(&run(&words, &saving)), place);
}

/// A run that is killed whenever it has saved a state, also while it writes the next one, ends with the same report.
#[test]
fn a_run_that_is_killed_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("states");
    let words = ["sgemm", "--set", "n=128", "--chip", "gtx480"];
    let saving = ["--checkpoint", kept.to_str().expect("a name"), "--every", "300", "--resume"];
    let file = kept.join("run.state");
    // The header ends with the first line, and says at which cycle the state was saved.
    let saved = || Some(std::fs::read(&file).ok()?.split(|byte| *byte == b'\n').next()?.to_vec());
    for _ in 0..4 {
        let before = saved();
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
        command.arg("run").args(words).args(saving).arg("--json").stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the command runs");
        while saved() == before && child.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        child.kill().expect("a child");
        child.wait().expect("a child");
        assert_ne!(saved(), before, "it has saved a state");
    }
    let output = run(&words, &saving);
    assert!(note(&output).starts_with("note: goes on from cycle "), "{}", note(&output));
    assert!(String::from_utf8_lossy(&output.stdout) == report(&words, &[]));
}

#[test]
fn what_cannot_be_gone_on_from_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("states");
    let kept = kept.to_str().expect("a name");
    let words = ["vecadd", "--set", "n=4096", "--chip", "gtx480"];
    let saving = ["--checkpoint", kept, "--every", "5000"];
    let said = |words: &[&str], more: &[&str]| {
        let output = run(words, &[&saving[..], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let cases: &[(&[&str], &str)] = &[
        (&["--functional"], "--checkpoint cannot be used with --functional"),
        (&["--export", "x"], "--checkpoint cannot be used with --export"),
        (&["--profile"], "a checkpoint does not hold a profile of PTX lines"),
        (&["--sample-every", "10"], "a checkpoint does not hold counters over time"),
        (&["--sample"], "a checkpoint does not hold a run that times a part of the blocks"),
        (&["--check", "memory-model"], "a checkpoint does not hold a check against the memory model"),
        (&["--check", "races"], "a checkpoint does not hold what a sanitizer knows"),
    ];
    for (more, expected) in cases {
        let message = said(&words, more);
        assert!(message.contains(expected), "{more:?}: {message}");
    }
    report(&words, &saving);
    assert!(said(&words, &[]).contains("holds a checkpoint already"));
    let other = ["vecadd", "--set", "n=4097", "--chip", "gtx480"];
    let message = said(&other, &["--resume"]);
    assert!(message.contains("it is of another run: `params` was"), "{message}");
    let message = said(&words, &["--resume", "--policy", "mimd"]);
    assert!(message.contains("it is of another run: `policy` was"), "{message}");
    let message = said(&words, &["--resume", "--max-instructions", "100000"]);
    assert!(message.contains("it is of another run: `max_instructions` was null"), "{message}");
    let path = Path::new(kept).join("run.state");
    let mut bytes = std::fs::read(&path).expect("it is there");
    let at = bytes.len() - 9;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).expect("a file");
    let message = said(&words, &["--resume"]);
    assert!(message.contains("it is no checkpoint, or is damaged"), "{message}");
}
