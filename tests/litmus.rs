//! `litmus run`, `litmus mapping` and `litmus hardware`: what they print and their exit status.

mod common;

use std::process::Output;

use common::{Folder, json, text, warpsim};

fn ends(args: &[&str], status: i32) -> Output {
    let output = warpsim(args);
    let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{args:?}: {told}");
    output
}

fn says(args: &[&str], status: i32, words: &[&str]) {
    let output = ends(args, status);
    let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
    for word in words {
        assert!(told.contains(word), "{args:?}: no `{word}` in\n{told}");
    }
}

/// Message passing by release and acquire.
const MP: &str = "\
PTX mp
{ x=0; y=0; }
 P0@cta 0,gpu 0      | P1@cta 1,gpu 0       ;
 st.weak x, 1        | ld.acquire.gpu r1, y ;
 st.release.gpu y, 1 | ld.weak r2, x        ;
exists (P1:r1 == 1 /\\ P1:r2 == 0)
";

#[test]
fn a_verdict_has_its_cycle_or_its_witness() {
    let folder = Folder::new("litmus-verdict");
    let file = folder.write("mp.litmus", MP);
    says(
        &["litmus", "run", &file],
        0,
        &[
            "forbidden, `exists` does not hold",
            "4 candidates, 3 consistent",
            "violates Causality",
            "f: P1 line 5 `ld.weak r2, x` R x = 0",
            "—causality→ f",
            "data race (MM §3.3)",
        ],
    );
    let weak = folder.write("weak.litmus", &MP.replace("st.release.gpu", "st.weak"));
    says(
        &["litmus", "run", &weak],
        0,
        &["allowed, `exists` holds", "rf: a→f d→e", "satisfies the condition"],
    );
    // A model without the axiom allows it.
    let model = include_str!("../data/models/ptx-6.0.cat");
    let model = model.replace("irreflexive (rf | fr); causality as Causality", "");
    let model = folder.write("without.cat", &model);
    says(&["litmus", "run", &file, "--model", &model], 0, &["allowed, `exists` holds"]);
}

#[test]
fn expectations_decide_the_exit_status() {
    let folder = Folder::new("litmus-expect");
    let with = |lines: &str| MP.replace("{ x=0", &format!("{lines}\n{{ x=0"));
    let right = folder.write("right.litmus", &with("Verdict=forbidden\nRace=yes\nConsistent=3"));
    says(&["litmus", "run", &right, "--quiet"], 0, &["as the test expects"]);
    let wrong = folder.write("wrong.litmus", &with("Verdict=allowed"));
    says(
        &["litmus", "run", &wrong, &right, "--quiet"],
        1,
        &["the test expects Verdict=allowed (found forbidden)", "1 of 2 as expected"],
    );
    let unread = folder.write("unread.litmus", &with("Verdict=perhaps"));
    says(&["litmus", "run", &unread], 2, &["unread.litmus:2:", "Verdict=perhaps", "^"]);
    // What is wrong with one file does not lose the verdicts of the others.
    says(&["litmus", "run", &unread, &right, "--quiet"], 2, &["right.litmus: forbidden"]);
}

#[test]
fn bad_input_is_told_with_line_and_caret() {
    let folder = Folder::new("litmus-bad");
    let fence = folder.write("fence.litmus", &MP.replace("ld.weak r2, x", "fence.half.gpu"));
    says(&["litmus", "run", &fence], 2, &["fence.litmus:5:24", "fence.half.gpu", "^"]);
    let tree = folder.write("tree.litmus", &MP.replace("P1@cta 1", "P0@cta 1"));
    says(&["litmus", "run", &tree], 2, &["tree.litmus:3:24", "declared twice", "^"]);
    let good = folder.write("good.litmus", MP);
    let model = folder.write("bad.cat", "\"bad\"\nlet com = rf | nothing\nacyclic com as all\n");
    says(&["litmus", "run", &good, "--model", &model], 2, &["bad.cat:2:16", "nothing", "^"]);
    says(&["litmus", "run", &good, "--model", "ptx-9.9"], 2, &["ptx-9.9", "ptx-6.0"]);
    says(&["litmus", "run", &folder.join("none.litmus")], 2, &["none.litmus"]);
    let binary = folder.join("binary.litmus");
    std::fs::write(&binary, b"PTX binary\n\xff\xfe").expect("written");
    says(&["litmus", "run", &binary], 2, &["binary.litmus:2:1", "not UTF-8"]);
    let table = folder.write("bad.map", "R.na ld.weak\nR.na ld.weak\n");
    says(&["litmus", "mapping", "--map", &table], 2, &["bad.map:2:1"]);
}

#[test]
fn json_and_graphs_say_the_same() {
    let folder = Folder::new("litmus-json");
    let file = folder.write("mp.litmus", &MP.replace("st.release.gpu", "st.relaxed.gpu"));
    let graphs = folder.join("graphs");
    let told = json(&ends(&["litmus", "run", &file, "--json", "--graph", &graphs], 0));
    let test = &told[0];
    assert_eq!(test["verdict"], "allowed");
    assert_eq!(test["candidates"], 4);
    assert_eq!(test["consistent"], 4);
    assert_eq!(test["states"].as_array().map(Vec::len), Some(4));
    let graph = std::fs::read_to_string(format!("{graphs}/mp.dot")).expect("a graph");
    assert!(graph.starts_with("digraph"), "{graph}");
    assert!(graph.contains("ld.acquire.gpu r1, y") && graph.contains("rf"), "{graph}");
}

#[test]
fn output_is_the_same_for_any_number_of_threads() {
    let run = |threads: &str| {
        let args = ["litmus", "run", "workloads/litmus/mp", "workloads/litmus/iriw", "--threads", threads];
        ends(&args, 0).stdout
    };
    assert_eq!(run("1"), run("2"));
    let hardware = |threads: &str| {
        let folder = "workloads/litmus/coherence";
        ends(&["litmus", "hardware", folder, "--schedules", "4", "--threads", threads, "--json"], 0).stdout
    };
    let one = hardware("1");
    assert!(text(&one).contains("\"seen\""));
    assert_eq!(one, hardware("2"));
}

/// The table of figure 12 and four others that are wrong: the counterexample is the one that is kept beside them.
#[test]
fn wrong_tables_have_the_counterexamples_that_are_kept() {
    let folder = Folder::new("litmus-mapping");
    for table in ["elided_release", "narrow_acquire", "no_fence_sc", "relaxed_release", "trailing_fence"] {
        let kept = format!("workloads/litmus/mappings/{table}");
        let out = folder.join("pairs");
        ends(&["litmus", "mapping", "--map", &format!("{kept}.map"), "--out", &out], 1);
        for kind in ["c11", "litmus"] {
            let read =
                |path: String| std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
            let root = env!("CARGO_MANIFEST_DIR");
            let (found, kept) =
                (read(format!("{out}/{table}.{kind}")), read(format!("{root}/{kept}.{kind}")));
            assert_eq!(found, kept, "{table}.{kind}");
        }
    }
    says(&["litmus", "mapping", "--events", "3"], 0, &["128920 programs", "no counterexample"]);
}

/// An L1 that nobody invalidates (the Fermi protocol) lets a lock's next owner read what was there before; the command
/// that is printed shows the same violation again.
#[test]
fn mm_hw_a_violation_names_the_command_that_shows_it_again() {
    let file = "workloads/litmus/atomics/cas-spinlock.litmus";
    let args = ["litmus", "hardware", file, "--chip", "gtx480", "--schedules", "8"];
    let told = text(&ends(&args, 3).stdout);
    assert!(told.contains("NOT ALLOWED"), "{told}");
    let again =
        told.lines().find_map(|line| line.trim().strip_prefix("reproduce: warpsim ")).expect("a command");
    let again: Vec<&str> = again.split(' ').collect();
    assert!(again.contains(&"--schedule"), "{again:?}");
    says(&again, 3, &["VIOLATION", "NOT ALLOWED"]);
    // Not so where L1 keeps no line for others' stores, nor on the chip that drops its lines on acquire.
    says(
        &["litmus", "hardware", file, "--chip", "gtx480", "--protocol", "tesla", "--schedules", "4"],
        0,
        &[],
    );
    says(&["litmus", "hardware", file, "--schedules", "8"], 0, &["as the model allows"]);
}

/// Every test of the suite, in two of its schedules: tests that wait at barriers for nobody are no violation.
#[test]
fn mm_hw_the_suite_is_as_the_model_allows() {
    says(
        &["litmus", "hardware", "workloads/litmus", "--schedules", "2", "--quiet"],
        0,
        &[" 0 with a violation"],
    );
}

#[test]
fn what_a_chip_does_not_have_is_said() {
    let folder = Folder::new("litmus-chip");
    let file = folder.write("mp.litmus", MP);
    says(&["litmus", "hardware", &file, "--chip", "nothing"], 2, &["nothing"]);
    says(&["litmus", "hardware", &file, "--protocol", "mesi"], 2, &["mesi", "volta"]);
    says(&["litmus", "hardware", &file, "--policy", "mine"], 2, &["mine"]);
    let proxy = "workloads/litmus/proxies";
    says(&["litmus", "hardware", proxy, "--schedules", "1"], 0, &["not run"]);
}
