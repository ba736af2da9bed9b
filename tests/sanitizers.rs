//! `--check races,sync,init`: every workload passes or says why its races are intended; findings, suppressions and exit
//! statuses of the command.

mod common;

use common::{Folder, json, parse, text, warpsim};
use rayon::prelude::*;

const RACY: &str = ".version 8.0\n.target sm_70\n.address_size 64\n.file 1 \"racy.cu\"\n\
    .visible .entry k(.param .u64 p)\n{\n.reg .u32 %t;\n.reg .u64 %out;\nld.param.u64 %out, [p];\n\
    mov.u32 %t, %tid.x;\n.loc 1 7 0\nst.global.u32 [%out], %t;\nret;\n}\n";

fn run(args: &[&str]) -> (Option<i32>, serde_json::Value) {
    let output = warpsim(&[&["run"], args, &["--json"]].concat());
    (output.status.code(), json(&output))
}

fn racy(folder: &Folder, more: &[&str]) -> (Option<i32>, serde_json::Value) {
    let file = folder.write("racy.ptx", RACY);
    let launch =
        [file.as_str(), "--entry", "k", "--grid", "1", "--block", "64", "--arg", "buffer:u32:4:zeros"];
    run(&[&launch, more].concat())
}

/// Functionally, where it costs least; those that synchronize most also with timing.
#[test]
fn every_workload_passes_all_sanitizers_or_says_why_it_races() {
    let listed = parse(&warpsim(&["workloads", "--json"]).stdout);
    let list = listed.as_array().expect("a list");
    let broken: Vec<&str> = list
        .iter()
        .filter(|workload| workload["termination"] == "broken")
        .map(|workload| workload["name"].as_str().expect("a name"))
        .collect();
    let names: Vec<&str> = list
        .iter()
        .filter(|workload| workload["termination"] != "fair_schedules")
        .map(|workload| workload["name"].as_str().expect("a name"))
        .collect();
    assert!(names.len() > 50, "{names:?}");
    let timed = [
        "producer_consumer",
        "atomics",
        "reduction",
        "copy_pipeline",
        "scan",
        "divergent_shuffle",
        "dsmem_histogram",
        "splitk_cluster",
    ];
    assert!(timed.iter().all(|name| names.contains(name)));
    let runs = names.iter().map(|name| (*name, true)).chain(timed.iter().map(|name| (*name, false)));
    let runs: Vec<(&str, bool)> = runs.collect();
    let wrong: Vec<String> = runs
        .par_iter()
        .filter_map(|(name, functional)| {
            let mode: &[&str] = if *functional { &["--functional"] } else { &[] };
            let (status, report) = run(&[&[name, "--check", "all"], mode].concat());
            let found = &report["sanitizers"];
            let findings = found["findings"].as_array().expect("a list");
            let races = findings.iter().filter(|finding| finding["kind"] == "race").count();
            let intended = found["intended_races"].is_string();
            // What is declared is there, and nothing else.
            let right = match broken.contains(name) {
                // Its accesses are volatile, hence strong: unordered, but no data race (MM §3.3).
                true if *name == "warp_synchronous" => status == Some(0) && findings.is_empty(),
                true => status == Some(3),
                false => status == Some(0) && races == findings.len() && (races > 0) == intended,
            };
            (!right).then(|| format!("{name} (functional: {functional}): {status:?}, {found}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn findings_have_lines_of_both_sources_and_exit_status_3() {
    let folder = Folder::new("sanitizers-findings");
    let (status, report) = racy(&folder, &["--check", "races"]);
    assert_eq!(status, Some(3));
    assert_eq!(report["check"], "races");
    let found = &report["sanitizers"];
    assert_eq!(found["threads_of_a_warp"], "independent");
    let finding = &found["findings"][0];
    assert_eq!((&finding["kind"], &finding["space"]), (&"race".into(), &"global".into()));
    for access in finding["accesses"].as_array().expect("a list") {
        assert_eq!((&access["kind"], &access["source"]), (&"store".into(), &"racy.cu:7".into()));
        assert_eq!(access["place"]["line"], 12);
    }
    // Without the check there is nothing of it.
    let (status, report) = racy(&folder, &[]);
    assert_eq!((status, report.get("sanitizers")), (Some(0), None));
    let file = folder.join("racy.ptx");
    let args = ["run", &file, "--entry", "k", "--grid", "1", "--block", "64", "--arg", "buffer:u32:4:zeros"];
    let shown = text(&warpsim(&[&args[..], &["--check", "all"]].concat()).stdout);
    assert!(shown.contains("sanitizers: 1 finding; 64 accesses checked"), "{shown}");
    assert!(shown.contains("finding [races]: data race at global address 0x"), "{shown}");
}

#[test]
fn suppressions_are_by_file_and_line_and_unused_ones_are_said() {
    let folder = Folder::new("sanitizers-suppressions");
    for place in ["racy.ptx:12", "racy.cu:7"] {
        let (status, report) = racy(&folder, &["--check", "all", "--suppress", place]);
        assert_eq!(status, Some(0), "{place}");
        let found = &report["sanitizers"];
        assert_eq!((&found["suppressed"], found["findings"].as_array().map(Vec::len)), (&1.into(), Some(0)));
        assert!(found.get("unused_suppressions").is_none());
    }
    let list = folder.write("list", "# known\nracy.ptx:12 # stores of all threads\n\nracy.ptx:13\n");
    let (status, report) = racy(&folder, &["--check", "all", "--suppress", &list]);
    assert_eq!(status, Some(0));
    assert_eq!(report["sanitizers"]["unused_suppressions"][0], "racy.ptx:13");
    let (status, _) = racy(&folder, &["--check", "all", "--suppress", "racy.ptx:11"]);
    assert_eq!(status, Some(3), "of another line");
    for (more, words) in [
        (&["--suppress", "racy.ptx:12"][..], "--suppress applies only to sanitizers"),
        (
            &["--check", "all", "--suppress", "no/such/list"][..],
            "--suppress takes FILE:LINE or a file of such lines",
        ),
        (&["--check", "race"][..], "unknown check `race`"),
        (&["--check", "off,races"][..], "`off` cannot be combined with other checks"),
    ] {
        let file = folder.join("racy.ptx");
        let output = warpsim(&[&["run", &file], more].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "no `{words}` in {stderr}");
    }
}

#[test]
fn reports_are_the_same_for_any_number_of_threads_and_otherwise_those_without_the_check() {
    for name in ["histogram", "reduction"] {
        let plain = run(&[name]).1;
        let one = run(&[name, "--check", "all"]).1;
        let three = run(&[name, "--check", "all", "--threads", "3"]).1;
        let epochs = run(&[name, "--check", "all", "--epoch", "7"]).1;
        assert_eq!(one, three, "{name}");
        assert_eq!(one, epochs, "{name}");
        let without = |mut report: serde_json::Value| {
            let fields = report.as_object_mut().expect("a report");
            assert!(fields.remove("check").is_some());
            fields.remove("sanitizers");
            report
        };
        assert_eq!(without(plain), without(one), "{name}");
    }
}
