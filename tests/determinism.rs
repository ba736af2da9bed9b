//! One report, byte for byte: for any number of threads, any length of epoch, whatever is
//! checked, in debug and release builds (whose digests are compared with the same table).

use std::process::Command;

/// Small runs of different kinds: barriers and shared memory, atomics, divergence with calls,
/// loops of launches, streams of memory.
const RUNS: &[&[&str]] = &[
    &["sgemm", "--set", "n=64", "--chip", "gtx480"],
    &["histogram", "--set", "n=4096", "--chip", "gtx480"],
    &["nqueens", "--set", "n=5", "--chip", "gtx480"],
    &["bfs", "--set", "n=512", "--chip", "gtx480"],
    &["vecadd", "--set", "n=20000", "--chip", "qv100"],
    &["producer_consumer", "--chip", "gtx480"],
    // Operations of a split issue together here, up to the end of an epoch, unless everything is checked: the samples tell how many
    // have been issued.
    &["fmaloop", "--set", "n=40", "--chip", "gtx480", "--sample-every", "24"],
    // These differ where replies of one cycle take effect in the order of their delivery.
    &["vecadd", "--chip", "gtx480"],
    &["spmv", "--chip", "qv100"],
    // Its splits come and go, so their first operations are of all unit classes.
    &["blackscholes", "--policy", "mimd", "--chip", "gtx480"],
    // Two instructions of a warp in a cycle; memory without caches.
    &["transpose", "--chip", "gtx680"],
    &["reduction", "--chip", "gtx280", "--variant", "sm_20", "--allow-newer-isa"],
];

fn report(run: &[&str], more: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_warpsim"))
        .arg("run")
        .args(run)
        .args(more)
        .arg("--json")
        .output()
        .expect("the command runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{run:?} {more:?}: {errors}");
    String::from_utf8(output.stdout).expect("JSON is text")
}

#[test]
fn the_report_is_the_same_for_any_threads_and_epochs() {
    for run in RUNS {
        let expected = report(run, &[]);
        for threads in ["1", "2", "3", "4", "8", "16"] {
            for epoch in ["1", "8", "1000000"] {
                let got = report(run, &["--threads", threads, "--epoch", epoch]);
                assert!(got == expected, "{run:?} differs on {threads} threads with epochs of {epoch}");
            }
        }
    }
}

#[test]
fn the_report_is_the_same_on_every_instruction_set() {
    for run in RUNS {
        assert!(report(run, &["--instruction-set", "baseline"]) == report(run, &[]), "{run:?}");
    }
}

#[test]
fn the_report_is_the_same_whatever_is_checked() {
    let without_check = |text: &str| {
        let mut report: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let check = report.as_object_mut().expect("an object").remove("check");
        assert!(check.is_some(), "the report says what was checked");
        report
    };
    for run in RUNS {
        let expected = without_check(&report(run, &[]));
        for check in ["off", "full"] {
            assert_eq!(without_check(&report(run, &["--check", check])), expected, "{run:?} {check}");
        }
    }
}

/// Where a sampled run goes on without time depends on how much has been issued when a block ends, of which operations that
/// were issued together with an earlier one may be none.
#[test]
fn a_sampled_run_is_the_same_for_any_epoch_and_check() {
    let run = ["fmaloop", "--set", "n=64", "--set", "blocks=1000", "--chip", "gtx480", "--sample"];
    let values = |more: &[&str]| {
        let mut report: serde_json::Value = serde_json::from_str(&report(&run, more)).expect("JSON");
        report.as_object_mut().expect("an object").remove("check");
        report
    };
    let expected = values(&[]);
    assert!(expected["kernels"][0]["sampled"]["timed_blocks"].as_u64().is_some_and(|timed| timed < 1000));
    for more in [["--check", "full"], ["--epoch", "1"]] {
        assert_eq!(values(&more), expected, "{more:?}");
    }
}

/// The digests of this build equal those committed, which any build and machine must give.
/// Where a change is meant to change reports: `UPDATE_DIGESTS=1 cargo test --test determinism`.
#[test]
fn the_digests_are_those_of_every_build() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/digests.txt");
    let mut now = String::new();
    for run in RUNS {
        let output = Command::new(env!("CARGO_BIN_EXE_warpsim")).arg("run").args(*run).output();
        let output = output.expect("the command runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let digest = text
            .lines()
            .find_map(|line| line.strip_prefix("digest of report.json: "))
            .expect("a digest is printed");
        now.push_str(&format!("{} {digest}\n", run.join(" ")));
    }
    if std::env::var_os("UPDATE_DIGESTS").is_some() {
        std::fs::write(path, &now).expect("the table can be written");
    }
    let committed = std::fs::read_to_string(path).expect("the table is committed");
    assert_eq!(now, committed);
}
