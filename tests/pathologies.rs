//! Shapes that break simulators: no blocks, very many tiny ones, one SM, a block that fills an SM.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("warpsim-{}-{name}", std::process::id()));
    std::fs::write(&path, text).expect("a temporary file");
    path
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warpsim")).arg("run").args(arguments).output().expect("it runs")
}

fn report(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A figure of a report, which is there.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

const TINY: &str = ".version 3.0\n.target sm_20\n.address_size 64\n.visible .entry k()\n{\nexit;\n}\n";

#[test]
fn a_grid_of_many_tiny_blocks_costs_what_its_blocks_cost() {
    let path = file("tiny.ptx", TINY);
    let path = path.to_str().expect("text");
    let blocks = |grid: &str| {
        let report = report(&[path, "--entry", "k", "--grid", grid, "--block", "1", "--threads", "4"]);
        (number(&report["warp_instructions"]), number(&report["cycles"]))
    };
    let (instructions, cycles) = blocks("60000");
    assert_eq!(instructions, 60_000);
    let (instructions, half) = blocks("30000");
    assert_eq!(instructions, 30_000);
    assert!(cycles < 2 * half + 100 && cycles > half, "{half} cycles, then {cycles}");
}

/// As in CUDA.
#[test]
fn an_empty_grid_is_refused() {
    let path = file("empty.ptx", TINY);
    let path = path.to_str().expect("text");
    for (grid, block, words) in
        [("0", "32", "the grid size in x is 0"), ("1", "0", "the block has 0 threads")]
    {
        let output = run(&[path, "--entry", "k", "--grid", grid, "--block", block]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn one_sm_runs_what_fifteen_run() {
    let many = report(&["sgemm", "--chip", "gtx480", "--set", "n=64"]);
    let one = report(&[
        "sgemm",
        "--chip",
        "gtx480",
        "--set",
        "n=64",
        "--set",
        "limits.NumProcessors=1",
        "--threads",
        "16",
    ]);
    assert_eq!(one["result"], "pass");
    let issues = |report: &Value| number(&report["warp_instructions"]);
    assert!(issues(&one) > 0 && issues(&one) == issues(&many));
    assert_eq!((number(&one["sms"]), number(&many["sms"])), (1, 15));
    assert!(number(&one["cycles"]) > number(&many["cycles"]));
}

#[test]
fn a_block_that_fills_an_sm_runs() {
    // 1,024 threads of 32 registers: all 32,768 of the SM.
    let names: Vec<String> = (0..28).map(|i| format!("%v{i}")).collect();
    let loads: String = names.iter().map(|n| format!("ld.volatile.shared.u32 {n}, [room];\n")).collect();
    let adds: String = names.iter().map(|n| format!("add.u32 %s, %s, {n};\n")).collect();
    let text = format!(
        ".version 3.0\n.target sm_20\n.address_size 64\n.visible .entry k()\n{{\n\
         .reg .u32 {}, %s;\n.shared .align 4 .b8 room[49152];\nmov.u32 %s, %tid.x;\n{loads}{adds}\
         st.volatile.shared.u32 [room], %s;\nbar.sync 0;\nexit;\n}}\n",
        names.join(", ")
    );
    let path = file("full.ptx", &text);
    let report = report(&[path.to_str().expect("text"), "--entry", "k", "--grid", "40", "--block", "1024"]);
    let kernel = &report["kernels"][0];
    assert_eq!(kernel["resident_blocks"], 1, "{kernel}");
    let registers = number(&kernel["registers_per_thread"]);
    assert!((29..=32).contains(&registers), "{registers} registers");
}
