//! `warpsim report` in a browser: every section is drawn, nothing complains, and the numbers on the page
//! are those of the JSON.
//!
//! The tests look for Chromium; `WARPSIM_BROWSER` names another, and then one must be there.

mod common;

use std::process::Command;

use common::{Folder, json, parse, text, warpsim};
use serde_json::Value;

/// A browser, where there is one.
fn browser() -> Option<String> {
    let runs =
        |name: &str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    match std::env::var("WARPSIM_BROWSER") {
        Ok(name) => {
            assert!(runs(&name), "WARPSIM_BROWSER={name} does not run");
            Some(name)
        }
        Err(_) => ["chromium", "chromium-browser", "google-chrome"]
            .into_iter()
            .find(|name| runs(name))
            .map(str::to_string)
            .or_else(|| {
                eprintln!("there is no browser: the page was not looked at");
                None
            }),
    }
}

/// A screen.
#[derive(Clone, Copy)]
struct Screen {
    size: &'static str,
    dark: bool,
}

const DESK: Screen = Screen { size: "1280,900", dark: false };
/// As narrow as a browser's window can be.
const PHONE: Screen = Screen { size: "500,900", dark: true };

/// What a reader finds on a page.
fn look(browser: &str, folder: &Folder, page: &str, screen: Screen) -> Value {
    let html = std::fs::read_to_string(page).expect("the page");
    let catch = format!("<head><script>{}</script>", include_str!("browser/catch.js"));
    let probe = format!(
        "<script>addEventListener('load', () => setTimeout(() => {{ {} }}, 300));</script></body>",
        include_str!("browser/probe.js")
    );
    assert_eq!((html.matches("<head>").count(), html.matches("</body>").count()), (1, 1));
    let probed = folder.write("probed.html", &html.replace("<head>", &catch).replace("</body>", &probe));
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!screen.dark));
    let out = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=4000",
            "--dump-dom",
            &scheme,
        ])
        .arg(format!("--window-size={}", screen.size))
        .arg(format!("--user-data-dir={}", folder.join("profile")))
        .arg(format!("file://{probed}"))
        .output()
        .expect("the browser starts");
    let dom = text(&out.stdout);
    let found = dom.split_once("<pre id=\"probe\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (found, _) = found.unwrap_or_else(|| panic!("no probe: {} {dom}", text(&out.stderr)));
    let found =
        found.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    parse(found.as_bytes())
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key} in {value}"))
}

/// What holds of every page.
fn check(found: &Value, screen: Screen) {
    assert_eq!(found["ready"], "true", "the script came to its end");
    assert_eq!(found["wrong"], serde_json::json!([]));
    assert_eq!(found["dark"], screen.dark);
    assert_eq!(found["outside"], serde_json::json!([]), "wider than the screen");
    assert!(found["contrast"].as_f64().expect("a number") >= 4.5, "contrast {}", found["contrast"]);
    assert_eq!(found["unreachable"], serde_json::json!([]), "by keyboard");
    assert_eq!(found["folded"], 0, "on paper");
    assert!(!list(found, "contents").is_empty());
    for link in list(found, "contents") {
        assert_eq!(link[1], true, "{link}");
    }
    for section in list(found, "sections") {
        assert!(section["height"].as_f64().expect("a number") > 20.0, "{} is empty", section["id"]);
        for picture in list(section, "pictures") {
            assert!(picture["marks"].as_u64() > Some(0), "{picture}");
            assert_eq!(picture["broken"], 0, "{picture}");
        }
    }
    for choice in list(found, "choices") {
        assert_eq!(choice["broken"], 0, "{} {}", choice["control"], choice["value"]);
        assert_eq!(choice["outside"], serde_json::json!([]), "{} {}", choice["control"], choice["value"]);
    }
}

/// A table of a section or choice by the start of its caption.
fn table<'a>(within: &'a Value, caption: &str) -> &'a Value {
    let all = list(within, "tables");
    all.iter()
        .find(|table| table["caption"].as_str().is_some_and(|own| own.starts_with(caption)))
        .unwrap_or_else(|| panic!("no table `{caption}`"))
}

fn section<'a>(found: &'a Value, id: &str) -> &'a Value {
    list(found, "sections").iter().find(|s| s["id"] == id).unwrap_or_else(|| panic!("no section {id}"))
}

/// The number that a table shows, as it was before it was rounded.
fn number(table: &Value, row: &str, column: &str) -> f64 {
    let columns = list(table, "columns");
    let at =
        columns.iter().position(|c| c == column).unwrap_or_else(|| panic!("no column {column}: {columns:?}"));
    let found = list(table, "rows").iter().find(|cells| cells[0]["text"] == row);
    let cell = &found.unwrap_or_else(|| panic!("no row {row}"))[at];
    let value: f64 =
        cell["value"].as_str().unwrap_or_else(|| panic!("{row} {column}: {cell}")).parse().expect("a number");
    // What is read is the same, to its last digit or to the fourth.
    let shown: String = cell["text"].as_str().unwrap_or("").chars().filter(|c| *c != '\u{202f}').collect();
    let shown: f64 =
        shown.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{cell}"));
    let near = if value.fract() == 0.0 { 0.0 } else { 6e-4 * value.abs() };
    assert!((shown - value).abs() <= near, "{row} {column}: {cell}");
    value
}

#[test]
fn a_page_of_runs_shows_what_their_reports_say() {
    let folder = Folder::new("report-runs");
    let dirs = ["stack", "barriers"].map(|name| folder.join(name));
    for (dir, policy) in dirs.iter().zip(["crs_stack", "convergence_barriers"]) {
        let out = warpsim(&["run", "docs/tutorial/collatz", "--profile", "--policy", policy, "--out", dir]);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let page = folder.join("page.html");
    let out = warpsim(&["report", &dirs[0], &dirs[1], "-o", &page, "--title", "Two <policies>"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let html = std::fs::read_to_string(&page).expect("written");
    assert!(html.contains("<title>Two &lt;policies&gt;</title>"));
    let Some(browser) = browser() else { return };
    let reports = dirs.map(|dir| parse(&std::fs::read(format!("{dir}/report.json")).expect("a report")));
    for screen in [DESK, PHONE] {
        let found = look(&browser, &folder, &page, screen);
        check(&found, screen);
        let ids: Vec<&str> = list(&found, "sections").iter().filter_map(|s| s["id"].as_str()).collect();
        let parts = ["", "-stalls", "-memory", "-latency", "-launches", "-program"];
        let wanted =
            ["run0", "run1"].iter().flat_map(|run| parts.iter().map(move |part| format!("{run}{part}")));
        let wanted: Vec<String> =
            ["summary", "figures", "roofline"].map(String::from).into_iter().chain(wanted).collect();
        assert_eq!(ids, wanted);
        for (i, (name, report)) in ["stack", "barriers"].iter().zip(&reports).enumerate() {
            let figures = table(section(&found, "figures"), "All figures");
            for metric in ["cycles", "warp_instructions", "policy_entries"] {
                assert_eq!(Some(number(figures, metric, name)), report[metric].as_f64(), "{metric}");
            }
            let ipc = report["warp_instructions"].as_f64().unwrap() / report["cycles"].as_f64().unwrap();
            assert_eq!(number(figures, "ipc", name), ipc);
            let part = |part: &str| section(&found, &format!("run{i}{part}"));
            slots(part("-stalls"), report);
            memory(part("-memory"), report);
            let latency = table(part("-latency"), "Latencies");
            for key in ["min", "p50", "p90", "p99", "max"] {
                assert_eq!(
                    Some(number(latency, "stores", key)),
                    report["memory"]["store_latency"][key].as_f64()
                );
            }
            let launches = table(part("-launches"), "Launches");
            assert_eq!(
                Some(number(launches, "collatz", "core cycles")),
                report["kernels"][0]["cycles"].as_f64()
            );
            program(part("-program"), report);
        }
        let roofline = table(section(&found, "roofline"), "Roofline");
        let m = &reports[0]["machine"];
        let seconds = reports[0]["cycles"].as_f64().unwrap() / (m["core_khz"].as_f64().unwrap() * 1e3);
        let rate = reports[0]["warp_instructions"].as_f64().unwrap() / seconds / 1e9;
        let shown = number(roofline, "stack", "10⁹ warp instructions a second");
        assert!((shown / rate - 1.0).abs() < 1e-12, "{shown} {rate}");
    }
}

/// Issue slots, of the chip and of each SM; they add up.
fn slots(section: &Value, report: &Value) {
    let table = table(section, "Issue slots");
    let sms = list(report, "by_sm");
    assert_eq!(section["bars"].as_u64(), Some(sms.len() as u64 + 1));
    for key in ["blocks", "warp_instructions", "issued"] {
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

fn memory(section: &Value, report: &Value) {
    let caches = table(section, "Caches");
    let m = &report["memory"];
    for (row, cache) in [("L1", &m["l1"]), ("L2", &m["l2"])] {
        for key in ["hits", "merges", "misses", "evictions"] {
            assert_eq!(Some(number(caches, row, key)), cache[key].as_f64(), "{row} {key}");
        }
    }
    assert_eq!(Some(number(table(section, "DRAM"), "bytes", "count")), m["dram"]["bytes"].as_f64());
    assert_eq!(
        Some(number(table(section, "Traffic"), "lines of these", "count")),
        m["transactions"].as_f64()
    );
}

/// The heat map of the PTX, and that of the source by `.loc`.
fn program(section: &Value, report: &Value) {
    let ptx = table(section, "PTX of collatz");
    let lines = list(report, "lines");
    for line in lines.iter().filter(|line| line["line"].as_u64() > Some(0)) {
        let row = line["line"].to_string();
        assert_eq!(Some(number(ptx, &row, "issues")), line["issues"].as_f64(), "line {row}");
        assert_eq!(Some(number(ptx, &row, "cycles waited")), line["waited"].as_f64(), "line {row}");
    }
    let source = table(section, "CUDA source by .loc, collatz.cu");
    // `value >>= 1` of the inner loop.
    let (shift, words) = ("15", "value >>= 1;");
    let row = list(source, "rows").iter().find(|cells| cells[0]["text"] == shift).expect("the line");
    assert!(row.as_array().unwrap().last().unwrap()["text"].as_str().unwrap().contains(words), "{row}");
    let of_line = lines.iter().filter(|l| l["source_line"] == 15 && l["source_file"] == 1);
    let issues: f64 = of_line.filter_map(|line| line["issues"].as_f64()).sum();
    assert!(issues > 0.0);
    assert_eq!(number(source, shift, "issues"), issues);
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
    assert!(out.status.success(), "{}", text(&out.stderr));
    let csv = std::fs::read_to_string(folder.join("results/table.csv")).expect("the table");
    let Some(browser) = browser() else { return };
    let mut cycles: Vec<([String; 3], f64)> = Vec::new();
    let header: Vec<&str> = csv.lines().next().expect("a header").split(',').collect();
    let at = |name: &str| header.iter().position(|own| *own == name).expect("a column");
    for row in csv::Reader::from_reader(csv.as_bytes()).records() {
        let row = row.expect("a row");
        if &row[at("metric")] == "cycles" {
            let axes = ["workload", "chip", "sm.branch_latency"].map(|axis| row[at(axis)].to_string());
            cycles.push((axes, row[at("value")].parse().expect("a number")));
        }
    }
    assert_eq!(cycles.len(), 12, "a chip without SMs is refused");
    for screen in [DESK, PHONE] {
        let found = look(&browser, &folder, &page, screen);
        check(&found, screen);
        let own = section(&found, "sweep0");
        let bad = table(own, "Points without a good result");
        assert_eq!(list(bad, "rows").len(), 12);
        let choices = list(&found, "choices");
        let chosen = |control: &str, value: &str| {
            let found = choices.iter().find(|c| c["control"] == control && c["value"] == value);
            found.unwrap_or_else(|| panic!("no choice {control} {value}"))
        };
        // The plot of one chip marks what the table has of it.
        let one = chosen("chip", "gtx480");
        let values = table(one, "cycles");
        let columns: Vec<&str> = list(values, "columns").iter().skip(1).filter_map(Value::as_str).collect();
        assert_eq!(columns, ["1", "4", "16"]);
        let marks = list(one, "values").iter();
        let mut marked: Vec<f64> = marks.map(|v| v.as_str().unwrap().parse().unwrap()).collect();
        let mut wanted: Vec<f64> = Vec::new();
        for ([workload, chip, latency], value) in &cycles {
            if chip == "gtx480" {
                assert_eq!(number(values, workload, latency), *value, "{workload} {latency}");
                wanted.push(*value);
            }
        }
        marked.sort_by(f64::total_cmp);
        wanted.sort_by(f64::total_cmp);
        assert_eq!(marked, wanted);
        // The geometric mean over both workloads.
        let both = table(own, "cycles");
        let of = |chip: &str| cycles.iter().find(|(axes, _)| *axes == ["saxpy", chip, "4"]).unwrap().1;
        let mean = number(both, "saxpy", "4");
        assert!(((of("gtx480") * of("gtx980")).sqrt() / mean - 1.0).abs() < 1e-12);
        assert_eq!(chosen("plot", "bar")["pictures"], 1);
        assert_eq!(number(table(chosen("plot", "heat map"), "cycles"), "saxpy", "4"), mean);
        // The front's ends are the least of each.
        let front = table(chosen("plot", "Pareto"), "The Pareto front");
        let least = cycles.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
        assert_eq!(list(front, "rows")[0][1]["value"].as_str().unwrap().parse::<f64>().unwrap(), least);
    }
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
        for (key, caption) in
            [("speedup", "speed-up"), ("cycles", "core cycles"), ("transactions", "lines asked")]
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
        (&folder.join("swept"), "`warpsim sweep collect` makes it"),
        (&table, "no table of `sweep collect`"),
        (&folder.write("half.json", "{\"cycles\":"), "half.json: EOF"),
        (&folder.write("other.json", "{\"stalls\": {}}"), "neither a report.json"),
    ] {
        let out = warpsim(&["report", path, "-o", &page]);
        assert_eq!(out.status.code(), Some(2), "{path}");
        assert!(text(&out.stderr).contains(words), "{path}: {}", text(&out.stderr));
        assert!(!std::path::Path::new(&page).exists());
    }
}

/// Runs that stopped, had no time, or whose chip has no caches have pages too.
#[test]
fn odd_runs_have_pages() {
    let folder = Folder::new("report-odd");
    let runs: [(&str, &[&str], i32); 3] = [
        ("functional", &["--functional"], 0),
        ("stopped", &["--max-cycles", "5300", "--profile"], 3),
        ("uncached", &["--chip", "8800gtx", "--variant", "sm_20", "--allow-newer-isa"], 0),
    ];
    let dirs = runs.map(|(name, options, status)| {
        let dir = folder.join(name);
        let out = warpsim(&[&["run", "spmv", "--out", &dir], options].concat());
        assert_eq!(out.status.code(), Some(status), "{}", text(&out.stderr));
        dir
    });
    let page = folder.join("page.html");
    assert!(warpsim(&["report", &dirs[0], &dirs[1], &dirs[2], "-o", &page]).status.success());
    let Some(browser) = browser() else { return };
    let found = look(&browser, &folder, &page, DESK);
    check(&found, DESK);
    let levels = list(table(section(&found, "roofline"), "Roofline"), "rows").iter();
    let levels: Vec<[&str; 2]> =
        levels.map(|row| [0, 1].map(|cell| row[cell]["text"].as_str().unwrap())).collect();
    assert_eq!(levels, [["stopped", "L1"], ["stopped", "L2"], ["uncached", "L2"], ["uncached", "DRAM"]]);
    let figures = table(section(&found, "figures"), "All figures");
    assert_eq!(number(figures, "cycles", "stopped"), 300.0);
}
