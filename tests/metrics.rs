//! Every metric on a real report, beside its definition written out on the JSON.

mod common;

use std::collections::BTreeMap;

use common::{json, warpsim};
use serde_json::Value;
use warpsim::metrics::{METRICS, of};

fn at(report: &Value, path: &str) -> f64 {
    let found = path.split('.').try_fold(report, |value, key| value.get(key)).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("the report has no number at {path}"))
}

fn sum(report: &Value, paths: &[&str]) -> f64 {
    paths.iter().map(|path| at(report, path)).sum()
}

/// Metrics that are not the value at the path of their name.
const DERIVED: [(&str, fn(&Value) -> f64); 25] = [
    ("ipc", |r| at(r, "warp_instructions") / at(r, "cycles")),
    ("lane_utilisation", |r| at(r, "lane_utilisation_ppm") / 10_000.0),
    ("occupancy", |r| 100.0 * at(r, "warp_cycles") / at(r, "warp_slots")),
    ("peak.issue", |r| peak(r, at(r, "warp_instructions"), "warp_instructions_per_second")),
    ("peak.l1", |r| {
        peak(r, at(r, "memory.transactions") * at(r, "machine.line_bytes"), "l1_bytes_per_second")
    }),
    ("peak.l2", |r| peak(r, at(r, "memory.bytes_moved"), "l2_bytes_per_second")),
    ("peak.dram", |r| peak(r, at(r, "memory.dram.bytes"), "dram_bytes_per_second")),
    ("peak.tensor", |r| {
        let counts = r["tensor"]["by_type"].as_object().expect("types").iter();
        counts
            .map(|(ty, count)| {
                peak(r, count.as_f64().expect("a count"), &format!("tensor_multiply_adds_per_second.{ty}"))
            })
            .sum()
    }),
    ("tensor.utilisation", |r| 100.0 * at(r, "tensor.busy_cycles") / at(r, "tensor.active_cycles")),
    ("issued", |r| slots(r, at(r, "issued"))),
    ("stalls.barrier", |r| slots(r, at(r, "stalls.barrier"))),
    ("stalls.collective", |r| slots(r, at(r, "stalls.collective"))),
    ("stalls.dependency", |r| slots(r, at(r, "stalls.dependency"))),
    ("stalls.drain", |r| slots(r, at(r, "stalls.drain"))),
    ("stalls.fetch", |r| slots(r, at(r, "stalls.fetch"))),
    ("stalls.finishing", |r| slots(r, at(r, "stalls.finishing"))),
    ("stalls.idle", |r| slots(r, at(r, "stalls.idle"))),
    ("stalls.memory", |r| slots(r, at(r, "stalls.memory"))),
    ("stalls.sleep", |r| slots(r, at(r, "stalls.sleep"))),
    ("stalls.unit_busy", |r| slots(r, at(r, "stalls.unit_busy"))),
    ("memory.tlb.miss_rate", |r| 100.0 * at(r, "memory.tlb.misses") / at(r, "memory.tlb.requests")),
    ("memory.tma.occupancy", |r| 100.0 * at(r, "memory.tma.busy_cycles") / at(r, "memory.tma.active_cycles")),
    ("memory.l1.hit_rate", |r| hit_rate(r, "l1")),
    ("memory.l2.hit_rate", |r| hit_rate(r, "l2")),
    ("memory.dram.row_hit_rate", |r| {
        let all = ["memory.dram.row_hits", "memory.dram.row_misses", "memory.dram.row_conflicts"];
        100.0 * at(r, "memory.dram.row_hits") / sum(r, &all)
    }),
];

fn slots(report: &Value, part: f64) -> f64 {
    // What the chip offers: cycles × SMs × schedulers, launch cycles among them.
    let cycles = sum(report, &["cycles", "launch_cycles"]);
    let stalls: f64 = report["stalls"].as_object().expect("stalls").values().filter_map(Value::as_f64).sum();
    let all = at(report, "issued") + stalls;
    assert!(all <= cycles * at(report, "sms") * at(report, "schedulers"), "{all}");
    100.0 * part / all
}

fn peak(report: &Value, amount: f64, rate: &str) -> f64 {
    let seconds = at(report, "cycles") / (at(report, "machine.core_khz") * 1000.0);
    100.0 * amount / (seconds * at(report, &format!("machine.{rate}")))
}

fn hit_rate(report: &Value, level: &str) -> f64 {
    let [hits, merges, misses] =
        ["hits", "merges", "misses"].map(|name| at(report, &format!("memory.{level}.{name}")));
    100.0 * hits / (hits + merges + misses)
}

/// Cycles of kernels and blocks of SMs against each other.
fn parts_add_up(report: &Value) {
    let kernels = report["kernels"].as_array().expect("kernels");
    for kernel in kernels {
        assert_eq!(at(kernel, "end_cycle") - at(kernel, "start_cycle"), at(kernel, "cycles"), "{kernel}");
    }
    let cycles: f64 = kernels.iter().map(|kernel| at(kernel, "cycles")).sum();
    assert_eq!(cycles, at(report, "cycles"));
    let blocks = |kernel: &Value| -> f64 {
        kernel["grid"].as_array().expect("a grid").iter().filter_map(Value::as_f64).product()
    };
    let of_sms: f64 = report["by_sm"].as_array().expect("SMs").iter().map(|sm| at(sm, "blocks")).sum();
    assert_eq!(of_sms, kernels.iter().map(blocks).sum::<f64>());
}

#[test]
fn every_metric_has_the_value_of_its_definition_in_a_real_report() {
    // Divergence, atomics, shared memory, caches and DRAM between them.
    let runs = [
        &["run", "bfs", "--chip", "gtx480", "--json"][..],
        &["run", "reduce", "--chip", "v100", "--policy", "multi_path", "--json"],
        &["run", "histogram", "--chip", "h100", "--json"],
        &["run", "stale_reads", "--json"],
        &["run", "hgemm_tma", "--json"],
        &["run", "dsmem_histogram", "--json"],
        // More blocks than there is room for.
        &["run", "empty_blocks", "--set", "blocks=8192", "--chip", "h100", "--json"],
        // More than L2 holds.
        &["run", "vecadd", "--set", "n=262144", "--chip", "gtx480", "--json"],
        // More than either TLB has.
        &[
            "run",
            "vecadd",
            "--set",
            "n=262144",
            "--chip",
            "v100",
            "--set",
            "memory.tlb.first.page_bytes=65536",
            "--set",
            "memory.tlb.first.entries=1",
            "--set",
            "memory.tlb.second.page_bytes=65536",
            "--set",
            "memory.tlb.second.entries=1",
            "--json",
        ],
    ];
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for run in runs {
        let report = json(&warpsim(run));
        parts_add_up(&report);
        for (metric, value) in of(&report) {
            let derived = DERIVED.iter().find(|(name, _)| *name == metric.name);
            let expected = derived.map_or_else(|| at(&report, metric.name), |(_, define)| define(&report));
            let near = (value - expected).abs() <= 1e-9 * expected.abs();
            assert!(near, "{run:?}: {}: {value}, not {expected}", metric.name);
            *seen.entry(metric.name).or_default() += u32::from(value != 0.0);
        }
    }
    let never: Vec<&str> =
        METRICS.iter().map(|metric| metric.name).filter(|name| !seen.contains_key(name)).collect();
    assert!(never.is_empty(), "no run has a value of {never:?}");
    let rare = [
        "stalls.sleep",
        "stalls.collective",
        "policy_spilled_bytes",
        "memory.l1.reservation_fails",
        "memory.l2.write_backs",
        "memory.tma.stored_bytes",
        "memory.tma.between_bytes",
    ];
    let zero: Vec<&&str> = seen
        .iter()
        .filter(|(name, count)| **count == 0 && !rare.contains(name))
        .map(|(name, _)| name)
        .collect();
    assert!(zero.is_empty(), "always 0, which would hide a wrong name: {zero:?}");
}

#[test]
fn a_report_whose_figures_are_no_numbers_is_refused() {
    let folder = common::Folder::new("figures");
    let mut report = json(&warpsim(&["run", "vecadd", "--json"]));
    report["memory"]["l2"]["hits"] = "many".into();
    let file = folder.write("report.json", &report.to_string());
    let output = warpsim(&["compare", &file, &file]);
    let said = common::text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("this is not a report.json"), "{said}");
}

/// A product of square matrices of n rows has n³ multiply-adds, whatever it is made of; sparse ones store half of them. At
/// their rate they hold the tensor cores: those of the chip, of which an SM has 4 or 8, and no more.
#[test]
fn multiply_adds_of_tensor_cores_are_those_of_the_products() {
    for (workload, (chip, of_sm), ty, part) in [
        ("hgemm_mma", ("a100", 4.0), "f16_f32", 1.0),
        ("hgemm_wmma", ("v100", 8.0), "f16_f32", 1.0),
        ("igemm", ("a100", 4.0), "int8", 1.0),
        ("sparse_gemm", ("a100", 4.0), "f16_f32", 0.5),
        ("hgemm_wgmma", ("h100", 4.0), "f16_f32", 1.0),
    ] {
        let report = json(&warpsim(&["run", workload, "--chip", chip, "--json"]));
        let count = 128.0f64.powi(3) * part;
        assert_eq!(at(&report, &format!("tensor.by_type.{ty}")), count, "{workload}: {}", report["tensor"]);
        assert_eq!(at(&report, "tensor.multiply_adds"), count, "{workload}");
        let peak = at(&report, &format!("machine.tensor_multiply_adds_per_second.{ty}"));
        let busy = at(&report, "tensor.busy_cycles");
        let cores = of_sm * at(&report, "sms");
        let rate = peak / (at(&report, "machine.core_khz") * 1000.0) / cores;
        assert_eq!(busy, count / rate, "{workload}");
        assert!(busy < at(&report, "tensor.active_cycles"), "{workload}");
        let functional = json(&warpsim(&["run", workload, "--chip", chip, "--json", "--functional"]));
        assert!(functional["tensor"].is_null(), "{workload}: nothing is timed");
    }
    assert!(json(&warpsim(&["run", "vecadd", "--chip", "h100", "--json"]))["tensor"].is_null());
}
