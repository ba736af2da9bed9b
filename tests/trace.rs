//! `warpsim trace`: what the timeline shows is what the report counts.

mod common;

use std::collections::BTreeMap;

use common::{Folder, parse, text, warpsim};
use serde_json::Value;

/// A run with its trace: the report, and the trace.
fn traced(folder: &Folder, words: &[&str]) -> (Value, Value, String) {
    let file = folder.join("trace.json");
    let out = warpsim(&[&["trace"], words, &["--json", "-o", &file]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let trace = std::fs::read(&file).expect("the trace");
    (parse(&out.stdout), parse(&trace), text(&out.stderr))
}

fn events<'t>(trace: &'t Value, phase: &'t str, category: &'t str) -> impl Iterator<Item = &'t Value> {
    let all = trace["traceEvents"].as_array().expect("events");
    all.iter().filter(move |event| event["ph"] == phase && event["cat"] == category)
}

fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().unwrap_or_else(|| panic!("{key}: {event}"))
}

/// Slices of every track, in the order of their beginnings, the longer first.
fn tracks(trace: &Value) -> BTreeMap<(u64, u64), Vec<(u64, u64)>> {
    let mut out: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "X") {
        let (begin, length) = (number(event, "ts"), number(event, "dur"));
        out.entry((number(event, "pid"), number(event, "tid"))).or_default().push((begin, begin + length));
    }
    for list in out.values_mut() {
        list.sort_by_key(|(begin, end)| (*begin, std::cmp::Reverse(*end)));
    }
    out
}

#[test]
fn the_timeline_shows_what_the_report_counts() {
    for (workload, policy) in
        [("docs/tutorial/collatz", "crs_stack"), ("spmv", "dual_path"), ("reduction", "convergence_barriers")]
    {
        let folder = Folder::new(&format!("trace-{policy}"));
        let words =
            [workload, "--chip", "gtx480", "--policy", policy, "--sms", "all", "--events", "100000000"];
        let (report, trace, said) = traced(&folder, &words);
        assert!(!said.contains("no room"), "{said}");
        // The record changes nothing.
        let plain = warpsim(&["run", workload, "--chip", "gtx480", "--policy", policy, "--json"]);
        assert_eq!(report, parse(&plain.stdout));
        let issued = events(&trace, "X", "issue").count() as u64;
        assert_eq!(issued, number(&report, "warp_instructions") + number(&report, "control_instructions"));
        let lanes: u64 = events(&trace, "X", "issue").map(|event| number(&event["args"], "lanes")).sum();
        let active: u64 =
            report["kernels"].as_array().expect("kernels").iter().map(|k| number(k, "active_lanes")).sum();
        assert!(lanes >= active, "injected control flow has lanes too: {lanes} {active}");
        assert_eq!(events(&trace, "X", "block").count() as u64, number(&report, "blocks"));
        // Every access begins once and ends once, and they take together what the report says.
        let mut open: BTreeMap<&str, u64> = BTreeMap::new();
        let mut latency = 0;
        for event in trace["traceEvents"].as_array().expect("events").iter().filter(|e| e["cat"] == "memory")
        {
            let id = event["id"].as_str().expect("an id");
            match event["ph"].as_str() {
                Some("b") => assert!(open.insert(id, number(event, "ts")).is_none(), "{id} begins twice"),
                _ => {
                    latency +=
                        number(event, "ts") - open.remove(id).unwrap_or_else(|| panic!("{id} never began"))
                }
            }
        }
        assert!(open.is_empty());
        assert_eq!(events(&trace, "b", "memory").count() as u64, number(&report["memory"], "accesses"));
        assert_eq!(latency, number(&report["memory"], "access_latency"));
        // Timelines hold launches too.
        let cycles = number(&report, "cycles") + number(&report, "launch_cycles");
        for ((sm, track), slices) in tracks(&trace) {
            // Slices lie beside or within each other, and in the time of the run.
            let mut within: Vec<u64> = Vec::new();
            for (begin, end) in slices {
                within.retain(|outer| *outer > begin);
                assert!(within.last().is_none_or(|outer| end <= *outer), "SM {sm} track {track} at {begin}");
                // The last issue is on the last cycle.
                assert!(end <= cycles + 1, "SM {sm} track {track}: {end} of {cycles}");
                within.push(end);
            }
        }
        if workload == "reduction" {
            assert!(events(&trace, "X", "state").any(|event| event["name"] == "barrier"));
        }
    }
}

/// What `--profile` says that warps waited is what lies between their issues.
#[test]
fn profiles_count_the_cycles_between_issues() {
    let folder = Folder::new("trace-profile");
    let words =
        ["docs/tutorial/collatz", "--chip", "gtx480", "--profile", "--sms", "all", "--events", "100000000"];
    let (report, trace, _) = traced(&folder, &words);
    // Each slot of a warp is used once here.
    let mut warps: BTreeMap<(u64, u64), (u64, Vec<u64>)> = BTreeMap::new();
    for event in events(&trace, "X", "state").chain(events(&trace, "X", "issue")) {
        let at = number(event, "ts");
        let (begin, issues) =
            warps.entry((number(event, "pid"), number(event, "tid"))).or_insert((u64::MAX, Vec::new()));
        *begin = at.min(*begin);
        if event["cat"] == "issue" {
            issues.push(at);
        }
    }
    assert_eq!(warps.len(), 128);
    let mut waited = 0;
    for (begin, mut issues) in warps.into_values() {
        issues.sort_unstable();
        // From the warp's beginning, or the cycle after an issue, to the next issue.
        waited += issues[0] - begin + issues.windows(2).map(|pair| pair[1] - pair[0] - 1).sum::<u64>();
    }
    let lines = report["lines"].as_array().expect("lines");
    // What they waited for is all of it, and the state that the timeline shows meanwhile.
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for line in lines {
        let waits = line["waits"].as_object().expect("waits by reason");
        assert_eq!(waits.values().filter_map(Value::as_u64).sum::<u64>(), number(line, "waited"), "{line}");
        waits
            .iter()
            .for_each(|(reason, cycles)| *reasons.entry(reason).or_default() += cycles.as_u64().unwrap_or(0));
    }
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events(&trace, "X", "state") {
        *states.entry(event["name"].as_str().expect("a name")).or_default() += number(event, "dur");
    }
    assert!(reasons["dependency"] > 0 && reasons["ready"] > 0, "{reasons:?}");
    // A warp is ready in the cycle it issues.
    let issued = events(&trace, "X", "issue").count() as u64;
    let all = |of: &BTreeMap<&str, u64>| of.values().sum::<u64>();
    assert!(all(&states) <= all(&reasons) + issued, "{states:?} {reasons:?}");
    assert!(reasons["dependency"] <= states["dependency"], "{states:?} {reasons:?}");
    assert_eq!(waited, lines.iter().map(|line| number(line, "waited")).sum::<u64>());
}

/// Waits are counted by what the warp waited for, at the line that waited.
#[test]
fn profiles_tell_what_warps_waited_for() {
    let profiled = |words: &[&str]| -> Value {
        let out = warpsim(&[&["run"], words, &["--chip", "gtx480", "--profile", "--json"]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        parse(&out.stdout)
    };
    let sum = |report: &Value, reason: &str, which: &dyn Fn(&str) -> bool| -> u64 {
        let lines = report["lines"].as_array().expect("lines").iter();
        let lines = lines.filter(|line| line["text"].as_str().is_some_and(which));
        lines.filter_map(|line| line["waits"][reason].as_u64()).sum()
    };
    let any = |_: &str| true;
    // A load's register is waited for by what reads it: not by barriers, whose wait is for other warps.
    let reduction = profiled(&["reduction"]);
    assert!(sum(&reduction, "memory", &any) > 0 && sum(&reduction, "barrier", &any) > 0);
    assert_eq!(sum(&reduction, "memory", &|text| text.starts_with("bar.")), 0);
    // Every policy counts all of it.
    for policy in ["crs_stack", "convergence_barriers", "mimd", "dual_path", "dynamic_warp_formation"] {
        let report = profiled(&["spmv", "--policy", policy, "--set", "n=256"]);
        for line in report["lines"].as_array().expect("lines") {
            let all: u64 = line["waits"].as_object().expect("waits").values().filter_map(Value::as_u64).sum();
            assert_eq!(all, number(line, "waited"), "{policy} {line}");
        }
        assert!(sum(&report, "memory", &any) > 0, "{policy}");
    }
}

/// A line that waits for memory names the loads it waits for; what accesses ask for is counted at their lines.
#[test]
fn lines_name_the_loads_they_wait_for_and_count_their_accesses() {
    for words in [&["spmv", "--set", "n=512"][..], &["transpose"], &["histogram", "--set", "n=4096"]] {
        let out = warpsim(&[&["run"], words, &["--profile", "--json"]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let report = parse(&out.stdout);
        let lines = report["lines"].as_array().expect("lines");
        let (mut waited, mut named) = (0, 0);
        for line in lines.iter().filter(|line| line["waits"]["memory"].as_u64() > Some(0)) {
            let cycles = number(&line["waits"], "memory");
            waited += cycles;
            let loads = line["waits_for"].as_array().map_or(&[][..], Vec::as_slice);
            named += if loads.is_empty() { 0 } else { cycles };
            for load in loads {
                let of = |own: &&Value| own["line"] == *load && own["kernel"] == line["kernel"];
                let own = lines.iter().find(of).expect("the load's line");
                let text = own["text"].as_str().expect("text");
                assert!(text.contains("ld.") || text.contains("atom."), "{words:?} {text}");
            }
        }
        assert!(waited > 0 && 10 * named > 9 * waited, "{words:?}: {named} of {waited}");
        let sum = |key: &str| lines.iter().filter_map(|line| line[key].as_u64()).sum::<u64>();
        for key in ["accesses", "transactions", "bytes_useful", "conflict_cycles"] {
            assert_eq!(sum(key), number(&report["memory"], key), "{words:?} {key}");
        }
        assert!(sum("bytes_sectors") >= sum("bytes_useful"), "{words:?}");
    }
}

/// Samples are sums of what the report counts, the same for any threads and epochs, and tracks of the timeline.
/// An L2 so small that accesses miss it and others wait for what is on its way.
const SMALL_L2: [&str; 4] = ["--set", "memory.l2.size_bytes=2048", "--set", "limits.Level2CacheSize=24576"];

#[test]
fn samples_add_up_to_the_report() {
    let folder = Folder::new("trace-samples");
    let run = |words: &[&str]| -> Value {
        let out = warpsim(&[&["run", "spmv", "--chip", "gtx480", "--json"], &SMALL_L2[..], words].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        parse(&out.stdout)
    };
    let plain = run(&[]);
    let report = run(&["--sample-every", "250"]);
    for other in [&["--threads", "3"][..], &["--epoch", "7"]] {
        assert_eq!(report, run(&[&["--sample-every", "250"], other].concat()), "{other:?}");
    }
    // Nothing else changes.
    let mut without = report.clone();
    let samples = without.as_object_mut().expect("a report").remove("samples").expect("samples");
    assert_eq!(without, plain);
    let list = samples["list"].as_array().expect("a list");
    let cycles = number(&report, "cycles") + number(&report, "launch_cycles");
    assert_eq!(list.len() as u64, cycles.div_ceil(250));
    for (i, sample) in list.iter().enumerate() {
        assert_eq!(number(sample, "from"), 250 * i as u64);
        assert_eq!(number(sample, "to"), (250 * (i as u64 + 1)).min(cycles));
        let stalls: u64 =
            sample["stalls"].as_object().expect("stalls").values().filter_map(Value::as_u64).sum();
        let slots = (number(sample, "to") - number(sample, "from")) * 15 * 2;
        assert_eq!(number(sample, "issued") + stalls, slots, "{sample}");
    }
    let memory = &report["memory"];
    assert!(number(&memory["l1"], "merges") > 0 && number(&memory["l2"], "merges") > 0, "{memory}");
    for (key, wanted) in [
        ("issued", number(&report, "issued")),
        ("warp_instructions", number(&report, "warp_instructions")),
        ("warp_cycles", number(&report, "warp_cycles")),
        ("l1_transactions", number(memory, "transactions")),
        ("l1_hits", number(&memory["l1"], "hits")),
        ("l1_merges", number(&memory["l1"], "merges")),
        ("l2_bytes", number(memory, "bytes_moved")),
        ("l2_hits", number(&memory["l2"], "hits")),
        ("l2_merges", number(&memory["l2"], "merges")),
        ("l2_misses", number(&memory["l2"], "misses")),
        ("dram_bytes", number(&memory["dram"], "bytes")),
    ] {
        assert_eq!(list.iter().map(|sample| number(sample, key)).sum::<u64>(), wanted, "{key}");
    }

    let (_, trace, _) = traced(
        &folder,
        &[&["spmv", "--chip", "gtx480", "--sample-every", "250", "--sms", "2"], &SMALL_L2[..]].concat(),
    );
    let counters = |name: &str, pid: u64| -> Vec<&Value> {
        let all = trace["traceEvents"].as_array().expect("events").iter();
        all.filter(|e| e["ph"] == "C" && e["name"] == name && e["pid"] == pid).collect()
    };
    let chip = counters("issue slots per cycle", 15);
    assert_eq!(
        chip.iter().map(|event| number(event, "ts")).collect::<Vec<_>>(),
        (0..list.len() as u64).map(|i| i * 250).collect::<Vec<_>>()
    );
    for (event, sample) in chip.iter().zip(list) {
        let used = event["args"]["issued"].as_f64().expect("a value");
        let length = number(sample, "to") - number(sample, "from");
        assert_eq!(used, number(sample, "issued") as f64 / length as f64);
        // Stacked, they are the schedulers of the chip.
        let all: f64 = event["args"].as_object().expect("values").values().filter_map(Value::as_f64).sum();
        assert!((all - 30.0).abs() < 1e-9, "{event}");
    }
    assert_eq!(counters("resident warps", 2).len(), list.len());
    assert_eq!(counters("resident warps", 1).len(), 0);
    for name in ["L1 lines per cycle", "L2 bytes per cycle", "DRAM bytes per cycle", "resident warps"] {
        assert_eq!(counters(name, 15).len(), list.len(), "{name}");
    }
}

/// A synchronisation ends a sample; those of several launches lie one after the other.
#[test]
fn samples_of_several_synchronisations_follow_each_other() {
    let out =
        warpsim(&["run", "bfs", "--chip", "gtx480", "--set", "n=512", "--sample-every", "400", "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report = parse(&out.stdout);
    let list = report["samples"]["list"].as_array().expect("a list");
    let mut at = 0;
    for sample in list {
        assert_eq!(number(sample, "from"), at);
        at = number(sample, "to");
        // Samples end at multiples of the interval, counted from the beginning of the run.
        assert_eq!(number(sample, "from") / 400, (at - 1) / 400, "{sample}");
    }
    assert_eq!(at, number(&report, "cycles") + number(&report, "launch_cycles"));
    let issued: u64 = list.iter().map(|sample| number(sample, "issued")).sum();
    assert_eq!(issued, number(&report, "issued"));
}

#[test]
fn a_trace_is_bounded_and_the_same_for_any_number_of_threads() {
    let folder = Folder::new("trace-bounded");
    let bytes = |threads: &str| {
        let words = ["spmv", "--sms", "0,2", "--from", "5500", "--to", "6500", "--threads", threads];
        let words = [&words[..], &["--chip", "gtx480"]].concat();
        let (_, trace, said) = traced(&folder, &words);
        assert!(!said.contains("no room"), "{said}");
        (trace, std::fs::read(folder.join("trace.json")).expect("the trace"))
    };
    let (trace, one) = bytes("1");
    assert!(one == bytes("3").1, "differs by the number of threads");
    let all = trace["traceEvents"].as_array().expect("events");
    let with_warps = |sm: u64| all.iter().any(|e| e["pid"] == sm && e["tid"].as_u64() >= Some(1000));
    assert_eq!([0, 1, 2, 3].map(with_warps), [true, false, true, false]);
    let issues: Vec<u64> = events(&trace, "X", "issue").map(|event| number(event, "ts")).collect();
    assert!(!issues.is_empty() && issues.iter().all(|at| (5500..6500).contains(at)));
    // A warp's state before its first event is known.
    assert!(events(&trace, "X", "state").any(|event| number(event, "ts") == 5500));

    let (_, few, said) = traced(&folder, &["spmv", "--chip", "gtx480", "--events", "300"]);
    let counted = few["traceEvents"].as_array().expect("events").iter().filter(|e| e["ph"] != "M").count();
    assert!(counted <= 600, "an access is two: {counted}");
    assert!(said.contains("the event buffer of SM 0 is full from core cycle"), "{said}");
}

#[test]
fn wrong_options_are_told() {
    for (words, wanted) in [
        (["--sms", "15"], "--sms takes numbers below 15 or `all`, not `15`"),
        (["--sms", "x"], "--sms takes numbers below 15 or `all`, not `x`"),
        (["--to", "0"], "--from 0 must be less than --to 0"),
        (["--events", "0"], "invalid value '0'"),
        (["--sample-every", "0"], "invalid value '0'"),
    ] {
        let out = warpsim(&[&["trace", "saxpy", "--chip", "gtx480"], &words[..]].concat());
        assert_eq!(out.status.code(), Some(2));
        assert!(text(&out.stderr).contains(wanted), "{}", text(&out.stderr));
    }
}
