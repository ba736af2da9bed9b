//! `run --check memory-model`: no workload violates the memory model, planted faults do, and the check changes nothing
//! else of a report.

mod common;

use common::{Folder, parse, text, warpsim};
use rayon::prelude::*;

fn reports(args: &[&str]) -> (i32, serde_json::Value, String) {
    let mut all = vec!["run"];
    all.extend(args);
    all.push("--json");
    let output = warpsim(&all);
    let report = if output.stdout.is_empty() { serde_json::Value::Null } else { parse(&output.stdout) };
    (output.status.code().unwrap_or(-1), report, text(&output.stderr))
}

fn workloads() -> Vec<String> {
    let listed = parse(&warpsim(&["workloads", "--json"]).stdout);
    let names =
        listed.as_array().expect("a list").iter().filter(|workload| workload["termination"] != "broken");
    names.map(|workload| workload["name"].as_str().expect("a name").to_string()).collect()
}

/// On the chip that follows from the program, and in functional mode.
#[test]
fn mm_hw_no_workload_violates_the_model() {
    let names = workloads();
    assert!(names.len() > 40, "{names:?}");
    let wrong: Vec<String> = names
        .par_iter()
        .flat_map_iter(|name| {
            [vec![], vec!["--functional"]].into_iter().filter_map(move |mode| {
                let mut args = vec![name.as_str(), "--check", "memory-model"];
                args.extend(&mode);
                let (status, report, stderr) = reports(&args);
                let checked = &report["memory_model"];
                let counted =
                    checked["reads"].as_u64().unwrap_or(0) + checked["writes"].as_u64().unwrap_or(0);
                let done = status == 0 && counted > 0 && checked["unknown"] == 0;
                (!done).then(|| format!("{name} {mode:?}: {status}, {checked}, {stderr}"))
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Under every protocol, on a chip whose fences and acquires invalidate L1.
#[test]
fn workloads_that_synchronize_obey_it_under_every_protocol() {
    for protocol in ["volta", "fermi", "thesis", "tesla"] {
        for name in ["stale_reads", "producer_consumer", "atomics", "histogram", "linked_lists", "bfs"] {
            let set = format!("memory.protocol={protocol}");
            let (status, report, stderr) =
                reports(&[name, "--chip", "v100", "--set", &set, "--check", "memory-model"]);
            assert_eq!(status, 0, "{name} under {protocol}: {stderr}");
            assert!(report["memory_model"]["reads"].as_u64() > Some(0), "{name}: {}", report["memory_model"]);
        }
    }
}

#[test]
fn a_violation_names_axiom_instructions_lines_and_address() {
    let (status, report, stderr) = reports(&["stale_reads", "--chip", "gtx480", "--check", "memory-model"]);
    assert_eq!(status, 3, "{stderr}");
    for words in [
        "axiom Causality of the memory model is violated: at address 0x",
        "the load reads the initial value, although a store later in coherence order precedes it in causality order: \
         the store of kernel stale_reads, block (1, 0, 0)",
        "stale_reads.sm_20.ptx:44: `st.volatile.global.u32 [%rd12], %r5`",
        "stale_reads.sm_20.ptx:100: `ld.global.ca.u32 %r13, [%rd19]`), SM 0, cycle",
    ] {
        assert!(stderr.contains(words), "no `{words}` in {stderr}");
    }
    assert_eq!(report["stopped"]["fault"]["rule"], "mm-hw");
    // What it computed until then is not lost.
    assert!(report["memory_model"]["reads"].as_u64() > Some(0));
    let (status, ..) = reports(&["stale_reads", "--chip", "gtx480"]);
    assert_ne!(status, 3, "only the check stops it");
}

#[test]
fn the_check_changes_nothing_else_and_not_by_threads() {
    let plain = reports(&["histogram"]).1;
    let one = reports(&["histogram", "--check", "memory-model"]).1;
    let four = reports(&["histogram", "--check", "memory-model", "--threads", "4"]).1;
    let epochs = reports(&["histogram", "--check", "memory-model", "--epoch", "7"]).1;
    assert_eq!(one, four);
    assert_eq!(one, epochs);
    let without = |mut report: serde_json::Value| {
        let fields = report.as_object_mut().expect("a report");
        assert_eq!(
            fields.remove("check").map(|c| c == "memory-model"),
            Some(fields.contains_key("memory_model"))
        );
        fields.remove("memory_model");
        report
    };
    assert_eq!(without(plain), without(one));
}

/// Faults planted by memory programs of a chip: each is found by the outcomes of litmus tests, or by the axioms.
#[test]
fn planted_faults_of_the_protocol_are_found() {
    let folder = Folder::new("memory-model-planted");
    let root = env!("CARGO_MANIFEST_DIR");
    let program = |path: &str| {
        let path = format!("{root}/sim-memory/src/programs/{path}.mem");
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    for (operation, path, from, to, tests) in [
        ("ld.global.acquire.gpu", "thesis/ld_acquire", "flushL1;\n", "", "mp/mp-release-acquire"),
        ("atom.global.acquire.gpu", "thesis/atom_acquire", "flushL1;\n", "", "atomics/cas-spinlock"),
        ("fence.gpu", "volta/fence", "flushL1;\n", "", "mp/mp-fences"),
        ("st.global.wb", "volta/st_global", "writeAllocateL1;\n", "", "coherence"),
    ] {
        let text = program(path);
        let broken = text.replace(from, to);
        assert_ne!(text, broken, "{operation}");
        folder.write("broken.mem", &broken);
        let chip = format!("extends: v100\nmemory: {{programs: {{{operation}: broken.mem}}}}\n");
        let chip = folder.write("planted.yaml", &chip);
        let file = if tests.contains('/') { format!("{tests}.litmus") } else { tests.to_string() };
        let file = format!("workloads/litmus/{file}");
        let run = |chip: &str| {
            let args =
                ["litmus", "hardware", &file, "--chip", chip, "--schedules", "24", "--check-executions"];
            let output = warpsim(&args);
            (
                output.status.code(),
                format!("{}{}", common::text(&output.stdout), common::text(&output.stderr)),
            )
        };
        let (status, told) = run(&chip);
        assert_eq!(status, Some(3), "{operation}: {told}");
        let (status, told) = run("v100");
        assert_eq!(status, Some(0), "{operation}: {told}");
    }
}
