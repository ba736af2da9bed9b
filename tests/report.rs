//! `warpsim report` in a browser: every section is drawn, nothing complains, and the numbers on the page
//! are those of the JSON.
//!
//! The tests look for Chromium; `WARPSIM_BROWSER` names another, and then one must be there.

mod common;

use std::collections::BTreeSet;

use common::page::{DESK, PHONE, browser, check, list, look, number, numbers_of, saved, section, table};
use common::{Folder, json, parse, text, warpsim};
use serde_json::Value;

#[test]
fn a_page_of_runs_shows_what_their_reports_say() {
    let folder = Folder::new("report-runs");
    let dirs = ["stack", "barriers"].map(|name| folder.join(name));
    for (dir, policy) in dirs.iter().zip(["crs_stack", "convergence_barriers"]) {
        let words = ["run", "docs/tutorial/collatz", "--chip", "gtx480", "--profile", "--policy", policy];
        let out = warpsim(&[&words[..], &["--sample-every", "3000", "--out", dir]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let page = folder.join("page.html");
    let out = warpsim(&["report", &dirs[0], &dirs[1], "-o", &page, "--title", "Two <policies>"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let html = std::fs::read_to_string(&page).expect("written");
    assert!(html.contains("<title>Two &lt;policies&gt;</title>"));
    let Some(browser) = browser() else { return };
    let names = ["stack", "barriers"];
    let reports = dirs.map(|dir| parse(&std::fs::read(format!("{dir}/report.json")).expect("a report")));
    for screen in [DESK, PHONE] {
        let found = look(&browser, &folder, &page, screen);
        check(&found, screen);
        saved(&found);
        let ids: Vec<&str> = list(&found, "sections").iter().filter_map(|s| s["id"].as_str()).collect();
        let parts =
            ["summary", "figures", "time", "roofline", "stalls", "memory", "latency", "launches", "program"];
        assert_eq!(ids, parts);
        opening(&found, names, &reports);
        over_time(&found, names, &reports);
        let part = |part: &str| section(&found, part);
        for (name, report) in names.iter().zip(&reports) {
            let figures = table(part("figures"), "All figures");
            for metric in ["cycles", "warp_instructions", "policy_entries"] {
                assert_eq!(Some(number(figures, metric, name)), report[metric].as_f64(), "{metric}");
            }
            let ipc = report["warp_instructions"].as_f64().unwrap() / report["cycles"].as_f64().unwrap();
            assert_eq!(number(figures, "ipc", name), ipc);
            slots(part("stalls"), name, report);
            memory(part("memory"), name, report);
            let latency = table(part("latency"), "Latencies");
            for key in ["min", "p50", "p90", "p99", "max"] {
                assert_eq!(
                    Some(number(latency, &format!("stores, {name}"), key)),
                    report["memory"]["store_latency"][key].as_f64()
                );
            }
            let launches = table(part("launches"), "Launches");
            let cycles = report["kernels"][0]["cycles"].as_f64().unwrap();
            assert_eq!(number(launches, name, "core cycles"), cycles);
            assert_eq!(number(launches, name, "µs"), micros(report, cycles));
            program(part("program"), name, report);
        }
        let roofline = table(part("roofline"), "Roofline");
        let m = &reports[0]["machine"];
        let seconds = reports[0]["cycles"].as_f64().unwrap() / (m["core_khz"].as_f64().unwrap() * 1e3);
        let rate = reports[0]["warp_instructions"].as_f64().unwrap() / seconds / 1e9;
        let shown = number(roofline, "stack", "10⁹ warp instructions per second");
        assert!((shown / rate - 1.0).abs() < 1e-12, "{shown} {rate}");
    }
}

/// A run with products of matrices has a roofline of tensor cores, a point a level of memory; one without has none.
#[test]
fn products_of_matrices_have_a_roofline_of_their_own() {
    let folder = Folder::new("report-tensor");
    let dirs = [("hgemm_mma", "a100"), ("vecadd", "a100")].map(|(workload, chip)| {
        let dir = folder.join(workload);
        // What the host copies does not stay in L2, so DRAM has traffic.
        let set = "memory.copies_fill_l2=false";
        let out = warpsim(&["run", workload, "--chip", chip, "--set", set, "--out", &dir]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        if workload == "hgemm_mma" {
            assert!(text(&out.stdout).contains("tensor cores: f16_f32 "), "{}", text(&out.stdout));
        }
        dir
    });
    let page = folder.join("page.html");
    assert!(warpsim(&["report", &dirs[0], &dirs[1], "-o", &page]).status.success());
    let Some(browser) = browser() else { return };
    let report = parse(&std::fs::read(format!("{}/report.json", dirs[0])).expect("a report"));
    for screen in [DESK, PHONE] {
        let found = look(&browser, &folder, &page, screen);
        check(&found, screen);
        let tensor = table(section(&found, "roofline"), "Roofline of tensor cores");
        assert_eq!(list(tensor, "rows").len(), 2, "{tensor}");
        let rate = 128f64.powi(3) / (micros(&report, report["cycles"].as_f64().unwrap()) * 1e6);
        let shown = number(tensor, "hgemm_mma", "10¹² multiply-adds per second");
        assert!((shown / rate - 1.0).abs() < 1e-12, "{shown} {rate}");
    }
}

/// A wait for memory names its loads, and accesses that lie apart or conflict name their lines.
#[test]
fn findings_of_memory_have_their_lines() {
    let folder = Folder::new("report-findings");
    for (name, run, kinds) in [
        (
            "spmv",
            &["spmv"][..],
            &[("memory", "it waits for line"), ("coalescing", "cache lines per access")][..],
        ),
        ("tiles", &["transpose"], &[("conflicts", "16 cycles per access"), ("memory", "it waits for line")]),
    ] {
        let dir = folder.join(name);
        let out = warpsim(&[&["run"], run, &["--chip", "gtx480", "--profile", "--out", &dir]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let page = folder.join("page.html");
        assert!(warpsim(&["report", &dir, "-o", &page]).status.success());
        let Some(browser) = browser() else { return };
        let found = look(&browser, &folder, &page, PHONE);
        check(&found, PHONE);
        let findings = list(section(&found, "summary"), "findings");
        for (kind, words) in kinds {
            let finding = findings.iter().find(|finding| finding["kind"] == *kind);
            let finding = finding.unwrap_or_else(|| panic!("{name}: no {kind} in {findings:?}"));
            assert!(finding["text"].as_str().is_some_and(|text| text.contains(words)), "{finding}");
            for link in list(finding, "links") {
                assert_eq!(link[1], true, "{link}");
            }
        }
    }
}

fn micros(report: &Value, cycles: f64) -> f64 {
    cycles * 1000.0 / report["machine"]["core_khz"].as_f64().expect("a clock")
}

/// The page opens with what bounds each run; all metrics are folded below, with their differences.
fn opening(found: &Value, names: [&str; 2], reports: &[Value; 2]) {
    let own = section(found, "summary");
    let verdicts = list(own, "verdicts");
    assert_eq!(verdicts.len(), 2);
    for words in verdicts {
        assert!(words.as_str().is_some_and(|words| words.starts_with("Bound by idle SMs — in")), "{words}");
    }
    let models = list(own, "models");
    assert_eq!(models.len(), 2);
    for words in models {
        let words = words.as_str().expect("words");
        assert!(words.starts_with("Model of gtx480: nothing of it was compared with hardware; "), "{words}");
    }
    let findings = list(own, "findings");
    assert!(findings.iter().any(|finding| finding["kind"] == "divergence"));
    for finding in findings {
        assert!(finding["share"].as_str().is_some_and(|s| s.parse::<f64>().is_ok_and(|s| s >= 2.0)));
        // Lines at fault are links to where they stand.
        for link in list(finding, "links") {
            assert_eq!(link[1], true, "{link}");
        }
        if finding["kind"] == "dependency" {
            assert_eq!(list(finding, "links").len(), 3);
        }
    }
    // The bar of each run is of all its issue slots.
    for ((bar, name), report) in list(own, "slots").iter().zip(names).zip(reports) {
        let all =
            ["cycles", "sms", "schedulers"].iter().map(|key| report[key].as_u64().unwrap()).product::<u64>();
        assert_eq!(bar, &serde_json::json!([name, all]));
    }
    let sides = table(own, "Runs side by side");
    assert_eq!(sides["columns"], serde_json::json!(["", names[0], names[1], "change"]));
    let figures = table(section(found, "figures"), "All figures");
    let folded = list(section(found, "figures"), "folded");
    assert!(folded.iter().any(|caption| caption == "All figures"), "{folded:?}");
    let cycles = [0, 1].map(|i| reports[i]["cycles"].as_f64().unwrap());
    assert_eq!(number(figures, "cycles", "barriers − stack"), cycles[1] - cycles[0]);
    let change = 100.0 * (cycles[1] / cycles[0] - 1.0);
    assert!((value(figures, "cycles", "change") - change).abs() < 1e-9);
    assert!((value(sides, "core cycles", "change") - change).abs() < 1e-9);
    for (name, report) in names.into_iter().zip(reports) {
        let time = micros(report, report["cycles"].as_f64().unwrap());
        assert_eq!(number(sides, "time, µs", name), time);
        let of = |key: &str| report[key].as_f64().unwrap();
        let occupancy = 100.0 * of("warp_cycles") / of("warp_slots");
        assert!((number(sides, "% of the warps an SM can hold", name) - occupancy).abs() < 1e-9);
        let peak = report["machine"]["l2_bytes_per_second"].as_f64().unwrap();
        let l2 = report["memory"]["bytes_moved"].as_f64().unwrap() / (time / 1e6) / peak * 100.0;
        assert!((number(sides, "% of peak L2 bandwidth", name) - l2).abs() < 1e-9);
    }
    // A run that is compared with no other has no differences.
    let choice =
        list(found, "choices").iter().find(|c| c["control"] == "differences from" && c["value"] == "none");
    let plain = table(choice.expect("a choice"), "All figures");
    assert_eq!(plain["columns"], serde_json::json!(["metric", names[0], names[1], "unit", "meaning"]));
}

/// The value of a cell, however it is shown.
fn value(table: &Value, row: &str, column: &str) -> f64 {
    let at = list(table, "columns").iter().position(|c| c == column).expect("the column");
    let cells = list(table, "rows").iter().find(|cells| cells[0]["text"] == row).expect("the row");
    cells[at]["value"].as_str().expect("a value").parse().expect("a number")
}

/// Samples are drawn and saved as the report has them.
fn over_time(found: &Value, names: [&str; 2], reports: &[Value; 2]) {
    let own = section(found, "time");
    for (name, report) in names.into_iter().zip(reports) {
        let samples = list(&report["samples"], "list");
        // The launch is under way before: no warp is resident.
        let first = samples.iter().position(|sample| sample["warp_cycles"] != 0).expect("one that runs");
        assert!(first > 0);
        let drawn = serde_json::json!(["issue slots used over time", name, samples.len() - first]);
        assert!(list(own, "series").contains(&drawn), "{drawn}");
        let issued: f64 = samples.iter().filter_map(|sample| sample["issued"].as_f64()).sum();
        assert_eq!(issued, report["issued"].as_f64().unwrap());
        let shown = table(own, &format!("Samples of {name}"));
        assert_eq!(list(shown, "rows").len(), samples.len());
        assert_eq!(number(shown, "0", "warp_cycles"), samples[0]["warp_cycles"].as_f64().unwrap());
    }
    let file = numbers_of(found, "resident-warps-over-time.csv");
    assert_eq!(file[0], ["run", "from, core cycles", "to, core cycles", "resident warps, mean of an SM"]);
    let first = list(&reports[0]["samples"], "list").iter().find(|sample| sample["warp_cycles"] != 0);
    let [cycles, from, to] =
        ["warp_cycles", "from", "to"].map(|key| first.expect("one that runs")[key].as_f64().unwrap());
    let mean = cycles / (to - from) / 15.0;
    assert_eq!(file[1][..3], ["stack".to_string(), from.to_string(), to.to_string()]);
    assert_eq!(file[1][3].parse::<f64>().unwrap(), mean);
}

/// Issue slots, of the chip and of each SM; they add up.
fn slots(section: &Value, name: &str, report: &Value) {
    let table = table(section, &format!("Issue slots of {name}"));
    let sms = list(report, "by_sm");
    assert_eq!(section["bars"].as_u64(), Some(2 * sms.len() as u64));
    for key in ["blocks", "warp_instructions", "issued", "warp_cycles"] {
        let sum: u64 = sms.iter().filter_map(|sm| sm[key].as_u64()).sum();
        assert_eq!(Some(sum), report[key].as_u64(), "{key}");
    }
    for kind in list(table, "columns").iter().skip(1).filter_map(Value::as_str) {
        let of = |report: &Value| match kind {
            "issued" => report["issued"].as_f64(),
            _ => report["stalls"][kind].as_f64(),
        };
        assert_eq!(Some(number(table, "chip", kind)), of(report), "{kind}");
        let mut sum = 0.0;
        for (i, sm) in sms.iter().enumerate() {
            let shown = number(table, &format!("SM {i}"), kind);
            assert_eq!(shown, of(sm).unwrap_or(0.0), "SM {i} {kind}");
            sum += shown;
        }
        assert_eq!(sum, number(table, "chip", kind), "{kind}");
    }
}

fn memory(section: &Value, name: &str, report: &Value) {
    let caches = table(section, "Caches");
    let m = &report["memory"];
    for (row, cache) in [("L1", &m["l1"]), ("L2", &m["l2"])] {
        for key in ["hits", "merges", "misses", "evictions"] {
            assert_eq!(
                Some(number(caches, &format!("{row} {key}"), name)),
                cache[key].as_f64(),
                "{row} {key}"
            );
        }
    }
    assert_eq!(Some(number(table(section, "DRAM"), "bytes", name)), m["dram"]["bytes"].as_f64());
    assert_eq!(
        Some(number(table(section, "Traffic"), "line transactions", name)),
        m["transactions"].as_f64()
    );
}

/// The heat map of the PTX, and that of the source by `.loc`.
fn program(section: &Value, name: &str, report: &Value) {
    let ptx = table(section, "PTX of collatz");
    let waits = table(section, &format!("Waits by reason, {name}: PTX of collatz"));
    let lines = list(report, "lines");
    for line in lines.iter().filter(|line| line["line"].as_u64() > Some(0)) {
        let row = line["line"].to_string();
        assert_eq!(
            Some(number(ptx, &row, &format!("{name}: issues"))),
            line["issues"].as_f64(),
            "line {row}"
        );
        assert_eq!(
            Some(number(ptx, &row, &format!("{name}: cycles waited"))),
            line["waited"].as_f64(),
            "line {row}"
        );
        for (reason, cycles) in line["waits"].as_object().expect("reasons") {
            assert_eq!(Some(number(waits, &row, reason)), cycles.as_f64(), "line {row} {reason}");
        }
    }
    let source = table(section, "CUDA source by .loc, collatz.cu");
    // `value >>= 1` of the inner loop.
    let (shift, words) = ("15", "value >>= 1;");
    let row = list(source, "rows").iter().find(|cells| cells[0]["text"] == shift).expect("the line");
    assert!(row.as_array().unwrap().last().unwrap()["text"].as_str().unwrap().contains(words), "{row}");
    let of_line = lines.iter().filter(|l| l["source_line"] == 15 && l["source_file"] == 1);
    let issues: f64 = of_line.filter_map(|line| line["issues"].as_f64()).sum();
    assert!(issues > 0.0);
    assert_eq!(number(source, shift, &format!("{name}: issues")), issues);
}

#[test]
fn a_page_of_a_sweep_plots_its_table() {
    let folder = Folder::new("report-sweep");
    let file = folder.write(
        "small.yaml",
        "schema: 1\nname: small\nrun: {check: \"off\"}\naxes:\n  workload: [docs/tutorial/collatz, saxpy]\n  \
         chip: [gtx480, gtx980]\n  set: {sm.branch_latency: [1, 4, 16], limits.NumProcessors: [2, 0]}\n",
    );
    let page = folder.join("page.html");
    let out = warpsim(&["sweep", "run", &file, "--results", &folder.join("results"), "--report", &page]);
    // Points without an SM are refused.
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    let csv = std::fs::read_to_string(folder.join("results/table.csv")).expect("the table");
    let Some(browser) = browser() else { return };
    let mut times: Vec<([String; 3], f64)> = Vec::new();
    let header: Vec<&str> = csv.lines().next().expect("a header").split(',').collect();
    let at = |name: &str| header.iter().position(|own| *own == name).expect("a column");
    for row in csv::Reader::from_reader(csv.as_bytes()).records() {
        let row = row.expect("a row");
        // Chips of different clocks are compared by time.
        if &row[at("metric")] == "time_us" {
            let axes = ["workload", "chip", "sm.branch_latency"].map(|axis| row[at(axis)].to_string());
            times.push((axes, row[at("value")].parse().expect("a number")));
        }
    }
    assert_eq!(times.len(), 12, "a chip without SMs is refused");
    for screen in [DESK, PHONE] {
        let found = look(&browser, &folder, &page, screen);
        check(&found, screen);
        let own = section(&found, "sweep0");
        let bad = table(own, "Points that did not pass");
        assert_eq!(list(bad, "rows").len(), 12);
        let choices = list(&found, "choices");
        let chosen = |control: &str, value: &str| {
            let found = choices.iter().find(|c| c["control"] == control && c["value"] == value);
            found.unwrap_or_else(|| panic!("no choice {control} {value}"))
        };
        // The plot of one chip marks what the table has of it.
        let one = chosen("chip", "gtx480");
        let values = table(one, "time_us (µs)");
        let columns: Vec<&str> = list(values, "columns").iter().skip(1).filter_map(Value::as_str).collect();
        assert_eq!(columns, ["1", "4", "16"]);
        let marks = list(one, "values").iter();
        let mut marked: Vec<f64> = marks.map(|v| v.as_str().unwrap().parse().unwrap()).collect();
        let mut wanted: Vec<f64> = Vec::new();
        for ([workload, chip, latency], value) in &times {
            if chip == "gtx480" {
                assert_eq!(number(values, workload, latency), *value, "{workload} {latency}");
                wanted.push(*value);
            }
        }
        marked.sort_by(f64::total_cmp);
        wanted.sort_by(f64::total_cmp);
        assert_eq!(marked, wanted);
        // The geometric mean over both workloads.
        let both = table(own, "time_us (µs)");
        let of = |chip: &str| times.iter().find(|(axes, _)| *axes == ["saxpy", chip, "4"]).unwrap().1;
        let mean = number(both, "saxpy", "4");
        assert!(((of("gtx480") * of("gtx980")).sqrt() / mean - 1.0).abs() < 1e-12);
        assert_eq!(chosen("plot", "bar")["pictures"], 1);
        assert_eq!(number(table(chosen("plot", "heat map"), "time_us"), "saxpy", "4"), mean);
        // The front's ends are the least of each.
        let pareto = chosen("plot", "Pareto");
        // Marks stand for all points, some for several; both axes say something.
        assert_eq!(list(pareto, "points").iter().filter_map(Value::as_u64).sum::<u64>(), 12);
        let against = pareto["controls"]["against"].as_str().expect("an axis");
        let of_metric =
            |row: &csv::StringRecord| (&row[at("metric")] == against).then(|| row[at("value")].to_string());
        let rows = csv::Reader::from_reader(csv.as_bytes()).into_records();
        let different: BTreeSet<String> = rows.filter_map(|row| of_metric(&row.expect("a row"))).collect();
        assert!(different.len() > 1, "{against} is {different:?} everywhere");
        let front = table(pareto, "The Pareto front");
        let least = times.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
        assert_eq!(list(front, "rows")[0][1]["value"].as_str().unwrap().parse::<f64>().unwrap(), least);
        // Over the means of one chip, and on an axis of powers.
        let multiple = table(chosen("normalised to", "chip gtx980"), "time_us, as a multiple of chip gtx980");
        let shown = number(multiple, "saxpy", "4");
        assert!(((of("gtx480") / of("gtx980")).sqrt() / shown - 1.0).abs() < 1e-12, "{shown}");
        // The axis of values has no zero then, the one from left to right keeps its own.
        let zeros =
            |axes: &str| list(chosen("axes", axes), "scale").iter().filter(|tick| **tick == "0").count();
        assert_eq!((zeros("linear"), zeros("logarithmic")), (2, 1));
        assert_eq!(list(chosen("axes", "logarithmic"), "values"), list(chosen("axes", "linear"), "values"));
        saved(&found);
        let file = numbers_of(&found, "time-us-of-small.csv");
        let row = file.iter().find(|row| row[0] == "saxpy").expect("a row");
        assert_eq!(file[0], ["workload", "1", "4", "16"]);
        assert_eq!(row[2].parse::<f64>().unwrap(), mean);
    }
}

/// A mean is of the same points at each place of a line: a chip that is left out at one is left out of all.
#[test]
fn means_of_a_sweep_are_of_the_same_points() {
    let folder = Folder::new("report-means");
    let file = folder.write(
        "partly.yaml",
        "schema: 1\nname: partly\nrun: {check: \"off\"}\naxes:\n  workload: saxpy\n  chip: [gtx480, gtx980]\n  \
         policy: [crs_stack, pdom_stack, mimd]\n  set: {sm.branch_latency: [1, 4, 8, 16]}\nexclude:\n\
         - {chip: gtx980, sm.branch_latency: 16}\n",
    );
    let page = folder.join("page.html");
    let results = folder.join("results");
    let out = warpsim(&["sweep", "run", &file, "--results", &results, "--report", &page]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let Some(browser) = browser() else { return };
    let found = look(&browser, &folder, &page, DESK);
    check(&found, DESK);
    let own = section(&found, "sweep0");
    let all = table(own, "time_us (µs)");
    let choices = list(&found, "choices");
    let one = choices.iter().find(|c| c["control"] == "chip" && c["value"] == "gtx480").expect("a choice");
    let one = table(one, "time_us (µs)");
    for policy in ["crs_stack", "pdom_stack", "mimd"] {
        for latency in ["1", "4", "8", "16"] {
            assert_eq!(number(all, policy, latency), number(one, policy, latency), "{policy} {latency}");
        }
    }
    let words = own["captions"].to_string();
    assert!(words.contains("of the points that are there at every sm.branch_latency"), "{words}");
}

#[test]
fn a_page_of_a_policy_study_shows_the_matrix() {
    let folder = Folder::new("report-study");
    let page = folder.join("page.html");
    let words = [
        "study",
        "policies",
        "--workloads",
        "if_else,break_continue,switch_case",
        "--json",
        "--report",
        &page,
    ];
    let rows = json(&warpsim(&words));
    assert!(rows.as_array().is_some_and(|rows| rows.iter().all(|row| row["chip"] == "gtx480")), "{rows}");
    // The list that was printed gives the same page.
    let again = folder.join("again.html");
    let file = folder.write("gtx480.json", &rows.to_string());
    assert!(warpsim(&["report", &file, "-o", &again]).status.success());
    let page_text = std::fs::read_to_string(&page).expect("written");
    assert!(page_text == std::fs::read_to_string(&again).expect("written"));
    let Some(browser) = browser() else { return };
    for screen in [DESK, PHONE] {
        let found = look(&browser, &folder, &page, screen);
        check(&found, screen);
        // Equal factors have equal shades, larger ones darker; a legend grades them.
        let speedups = list(&found, "choices").iter().find(|c| c["value"] == "speedup").expect("a choice");
        let shade = |cell: &Value| -> (f64, f64) {
            let alpha = cell[1].as_str().and_then(|style| style.rsplit([',', ')']).nth(1)).expect("a shade");
            (cell[0].as_f64().expect("a factor"), alpha.trim().parse().expect("a number"))
        };
        let mut faster: Vec<(f64, f64)> =
            list(speedups, "shades").iter().map(shade).filter(|(factor, _)| *factor > 1.0).collect();
        faster.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(faster.is_sorted_by(|a, b| a.1 <= b.1), "{faster:?}");
        let (least, most) = (faster[0], faster[faster.len() - 1]);
        assert!(most.0 > 10.0 && most.1 - least.1 > 0.3, "{faster:?}");
        assert!(faster.iter().any(|(factor, alpha)| *factor > 1.5 && *factor < 2.5 && most.1 - alpha > 0.2));
        assert!(speedups["grades"].as_u64() > Some(4));
        if screen.size == DESK.size {
            assert_eq!(section(&found, "study0")["wide"], serde_json::json!([]), "columns are hidden");
        }
        for (key, caption) in
            [("speedup", "speed-up"), ("cycles", "core cycles"), ("transactions", "line transactions")]
        {
            let choice = list(&found, "choices").iter().find(|c| c["value"] == key).expect("a choice");
            let matrix = table(choice, caption);
            for row in rows.as_array().expect("rows") {
                let (workload, policy) = (row["workload"].as_str().unwrap(), row["policy"].as_str().unwrap());
                assert_eq!(Some(number(matrix, workload, policy)), row[key].as_f64(), "{workload} {policy}");
            }
        }
    }
}

#[test]
fn what_is_no_result_is_told() {
    let folder = Folder::new("report-wrong");
    let list = folder.write("list.json", "[1, 2]");
    std::fs::create_dir_all(folder.0.join("swept/points")).expect("a folder");
    let page = folder.join("page.html");
    let table = folder.write("table.csv", "a,b\n1,2\n");
    for (path, words) in [
        (list.as_str(), "neither a report.json"),
        (&folder.join("nothing.json"), "cannot be read"),
        (&folder.join("swept"), "`warpsim sweep collect` creates it"),
        (&table, "not a table of `sweep collect`"),
        (&folder.write("half.json", "{\"cycles\":"), "half.json:1:10: invalid JSON: EOF"),
        (&folder.write("other.json", "{\"stalls\": {}}"), "neither a report.json"),
    ] {
        let out = warpsim(&["report", path, "-o", &page]);
        assert_eq!(out.status.code(), Some(2), "{path}");
        assert!(text(&out.stderr).contains(words), "{path}: {}", text(&out.stderr));
        assert!(!std::path::Path::new(&page).exists());
    }
}

/// Chips of different sizes: rows are in the order of the runs, SMs without a warp share a bar.
#[test]
fn runs_on_several_chips_have_one_page() {
    let folder = Folder::new("report-chips");
    let chips = ["v100", "gtx480", "h100"];
    let dirs = chips.map(|chip| {
        let dir = folder.join(chip);
        let out = warpsim(&["run", "spmv", "--set", "n=1024", "--chip", chip, "--profile", "--out", &dir]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        dir
    });
    let page = folder.join("page.html");
    assert!(warpsim(&["report", &dirs[0], &dirs[1], &dirs[2], "-o", &page]).status.success());
    let Some(browser) = browser() else { return };
    let found = look(&browser, &folder, &page, DESK);
    check(&found, DESK);
    let latency = list(table(section(&found, "latency"), "Latencies"), "rows").iter();
    let rows: Vec<&str> = latency.filter_map(|row| row[0]["text"].as_str()).collect();
    let stores: Vec<&str> = rows.iter().filter_map(|name| name.strip_prefix("stores, ")).collect();
    assert_eq!(stores, chips, "{rows:?}");
    // 8 blocks: 72 SMs of v100, 7 of gtx480 and 124 of h100 had no warp.
    assert_eq!(section(&found, "stalls")["bars"], 3 * (8 + 1));
    let words = section(&found, "roofline")["captions"].to_string();
    assert!(words.contains("v100 (solid), gtx480 (dashed), h100 (dotted)"), "{words}");
}

/// Runs that stopped, had no time, were sampled, or whose chip has no caches have pages too.
#[test]
fn odd_runs_have_pages() {
    let folder = Folder::new("report-odd");
    let runs: [(&str, &[&str], i32); 4] = [
        ("functional", &["spmv", "--chip", "gtx480", "--functional"], 0),
        ("stopped", &["spmv", "--chip", "gtx480", "--max-cycles", "5300", "--profile"], 3),
        ("uncached", &["spmv", "--chip", "8800gtx", "--variant", "sm_20", "--allow-newer-isa"], 0),
        ("sampled", &["blackscholes", "--chip", "gtx480", "--set", "n=524288", "--sample=3%"], 0),
    ];
    let dirs = runs.map(|(name, options, status)| {
        let dir = folder.join(name);
        let out = warpsim(&[&["run", "--out", &dir], options].concat());
        assert_eq!(out.status.code(), Some(status), "{}", text(&out.stderr));
        dir
    });
    let page = folder.join("page.html");
    assert!(warpsim(&["report", &dirs[0], &dirs[1], &dirs[2], &dirs[3], "-o", &page]).status.success());
    let Some(browser) = browser() else { return };
    let found = look(&browser, &folder, &page, DESK);
    check(&found, DESK);
    let levels = list(table(section(&found, "roofline"), "Roofline"), "rows").iter();
    let levels: Vec<[&str; 2]> =
        levels.map(|row| [0, 1].map(|cell| row[cell]["text"].as_str().unwrap())).collect();
    assert!(table(section(&found, "summary"), "Runs side by side")["rows"].as_array().is_some());
    assert_eq!(levels, [["stopped", "L1"], ["stopped", "L2"], ["uncached", "L2"], ["uncached", "DRAM"]]);
    let figures = table(section(&found, "figures"), "All figures");
    assert_eq!(number(figures, "cycles", "stopped"), 300.0);
    let sample = &parse(&std::fs::read(format!("{}/report.json", dirs[3])).expect("a report"))["kernels"][0];
    assert_eq!(number(figures, "cycles", "sampled"), sample["cycles"].as_f64().expect("a number"));
    let launches = table(section(&found, "launches"), "Launches");
    let at = list(launches, "columns").iter().position(|column| column == "with 95 % confidence");
    let interval = |row: usize| launches["rows"][row][at.expect("a column")]["text"].as_str().expect("text");
    assert_eq!(interval(0), "");
    assert!(sample["sampled"].is_object() && interval(3).contains(" to "), "{}", interval(3));
}
