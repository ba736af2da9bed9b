//! The simulated figures that tables of results hold: name, unit, meaning, and where a report has it.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

/// A figure of a report.
#[derive(Serialize)]
pub struct Metric {
    /// Name: its path in report.json, or a ratio of such.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Meaning.
    pub doc: &'static str,
    /// How a report gives it.
    #[serde(skip)]
    of: Source,
}

enum Source {
    /// The value at a path, divided by a number.
    Path(&'static str, f64),
    /// The sum of the first paths divided by the sum of the second, times a number.
    Ratio(&'static [&'static str], &'static [&'static str], f64),
    /// The value at a path in percent of all issue slots: those with an issue and all stalls.
    Slots(&'static str),
    /// The value at a path, times the one at another path where there is one, a second, in percent of the
    /// rate at a third.
    Peak(&'static str, Option<&'static str>, &'static str),
}

impl Metric {
    /// Its value, where the report has one.
    pub fn value(&self, report: &Value) -> Option<f64> {
        match &self.of {
            Source::Path(path, divisor) => number(report, path).map(|value| value / divisor),
            Source::Ratio(above, below, factor) => {
                let sum =
                    |paths: &[&str]| -> Option<f64> { paths.iter().map(|path| number(report, path)).sum() };
                let below = sum(below)?;
                (below > 0.0).then_some(sum(above)? * factor / below)
            }
            Source::Peak(path, unit, peak) => {
                let seconds = number(report, "cycles")? / (number(report, "machine.core_khz")? * 1000.0);
                let all = seconds * number(report, peak)?;
                let amount = number(report, path)? * unit.map_or(Some(1.0), |unit| number(report, unit))?;
                (all > 0.0).then(|| amount * 100.0 / all)
            }
            Source::Slots(path) => {
                let all = issue_slots(report)?;
                (all > 0.0).then_some(number(report, path)? * 100.0 / all)
            }
        }
    }
}

/// A figure for people: integers as they are, others with five significant digits.
pub fn shown(value: f64) -> String {
    if value.fract() == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let leading = format!("{:e}", value.abs());
    let exponent: i32 = leading.rsplit('e').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let digits = (4 - exponent).clamp(0, 12) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// All issue slots of a report: those with an issue, and the stalls.
pub fn issue_slots(report: &Value) -> Option<f64> {
    let stalls: f64 = report.get("stalls")?.as_object()?.values().filter_map(Value::as_f64).sum();
    Some(number(report, "issued")? + stalls)
}

/// The number at a path of dots.
fn number(report: &Value, path: &str) -> Option<f64> {
    path.split('.').try_fold(report, |value, key| value.get(key))?.as_f64()
}

const fn path(name: &'static str, unit: &'static str, doc: &'static str) -> Metric {
    Metric { name, unit, doc, of: Source::Path(name, 1.0) }
}

const fn ratio(
    name: &'static str,
    unit: &'static str,
    doc: &'static str,
    above: &'static [&'static str],
    below: &'static [&'static str],
    factor: f64,
) -> Metric {
    Metric { name, unit, doc, of: Source::Ratio(above, below, factor) }
}

const fn slots(name: &'static str, doc: &'static str) -> Metric {
    Metric { name, unit: "% of issue slots", doc, of: Source::Slots(name) }
}

const fn peak(
    name: &'static str,
    doc: &'static str,
    path: &'static str,
    unit: Option<&'static str>,
    peak: &'static str,
) -> Metric {
    Metric { name, unit: "% of peak", doc, of: Source::Peak(path, unit, peak) }
}

/// All of them, in the order of tables.
pub const METRICS: &[Metric] = &[
    path(
        "cycles",
        "core cycles",
        "cycles in which a kernel ran, from its first dispatch to its last block's end",
    ),
    path("time_us", "µs", "their time at the chip's core clock"),
    path("launch_cycles", "core cycles", "cycles beside them: launches were under way and no kernel ran"),
    path("launch_us", "µs", "their time"),
    path("warp_instructions", "instructions", "source instructions issued for a warp or a part of one"),
    path("thread_instructions", "instructions", "lanes of these issues whose guard was true"),
    path(
        "control_instructions",
        "instructions",
        "issues of injected control flow, and further ones of an indirect branch",
    ),
    path("machine_instructions", "operations", "machine operations these stand for, by the cost table"),
    ratio(
        "ipc",
        "instructions per core cycle",
        "warp instructions a cycle, all SMs",
        &["warp_instructions"],
        &["cycles"],
        1.0,
    ),
    Metric {
        name: "lane_utilisation",
        unit: "%",
        doc: "active lanes of those a warp has, over all issues",
        of: Source::Path("lane_utilisation_ppm", 1e4),
    },
    ratio(
        "occupancy",
        "%",
        "resident warps of those an SM can hold, over its cycles with a warp",
        &["warp_cycles"],
        &["warp_slots"],
        100.0,
    ),
    peak(
        "peak.issue",
        "warp instructions of those that all schedulers can issue",
        "warp_instructions",
        None,
        "machine.warp_instructions_per_second",
    ),
    peak(
        "peak.l1",
        "lines accessed of what L1 can serve",
        "memory.transactions",
        Some("machine.line_bytes"),
        "machine.l1_bytes_per_second",
    ),
    peak(
        "peak.l2",
        "bytes between SMs and L2 of what partitions can send",
        "memory.bytes_moved",
        None,
        "machine.l2_bytes_per_second",
    ),
    peak(
        "peak.dram",
        "bytes of DRAM bursts of what the data buses can move",
        "memory.dram.bytes",
        None,
        "machine.dram_bytes_per_second",
    ),
    slots("issued", "slots with an issue"),
    slots("stalls.barrier", "every warp waits at a barrier, or for what comes behind one"),
    slots("stalls.collective", "every warp waits for lanes of a collective"),
    slots("stalls.dependency", "every warp waits for a result of an operation"),
    slots("stalls.drain", "every warp waits for its accesses to be performed"),
    slots("stalls.finishing", "no warp is left, but blocks have not ended"),
    slots("stalls.idle", "the SM has no warp"),
    slots("stalls.memory", "every warp waits for a load or an atomic"),
    slots("stalls.sleep", "every warp sleeps"),
    slots("stalls.unit_busy", "an instruction could issue, its unit is taken"),
    path("memory.accesses", "accesses", "warps' accesses to global and local memory"),
    path("memory.transactions", "accesses", "line accesses they were split into"),
    path("memory.bytes_useful", "bytes", "bytes lanes asked for"),
    path("memory.bytes_moved", "bytes", "bytes of the sectors that moved for them"),
    path(
        "memory.conflict_cycles",
        "core cycles",
        "cycles beyond the first that accesses to shared and constant memory took: bank conflicts, and lanes of atomics that waited for one another",
    ),
    path("memory.atomics", "operations", "atomic operations of lanes on global memory"),
    ratio(
        "memory.l1.hit_rate",
        "%",
        "loads and atomics whose bytes L1 had or was fetching",
        &["memory.l1.hits", "memory.l1.merges"],
        &["memory.l1.hits", "memory.l1.merges", "memory.l1.misses"],
        100.0,
    ),
    path("memory.l1.reservation_fails", "times", "an operation waited for a way of L1"),
    ratio(
        "memory.l2.hit_rate",
        "%",
        "loads and atomics whose bytes L2 had or was fetching",
        &["memory.l2.hits", "memory.l2.merges"],
        &["memory.l2.hits", "memory.l2.merges", "memory.l2.misses"],
        100.0,
    ),
    path("memory.l2.write_backs", "lines", "dirty lines L2 wrote back"),
    path("memory.dram.bytes", "bytes", "bytes of DRAM bursts"),
    ratio(
        "memory.dram.row_hit_rate",
        "%",
        "bursts that found their row open",
        &["memory.dram.row_hits"],
        &["memory.dram.row_hits", "memory.dram.row_misses", "memory.dram.row_conflicts"],
        100.0,
    ),
    path("memory.load_latency.dram.p50", "core cycles", "median latency of loads that went to DRAM"),
    path("memory.load_latency.dram.p99", "core cycles", "99th percentile of it"),
    path("memory.load_latency.l2.p50", "core cycles", "median latency of loads that L2 served"),
    path("memory.load_latency.l1.p50", "core cycles", "median latency of loads that L1 served"),
    path("policy_entries", "entries", "most entries of the policy's stack or table for one warp"),
    path("policy_spilled_bytes", "bytes", "bytes spilled from it"),
];

/// The page of the metrics, in Markdown.
pub fn page() -> String {
    let mut out = "<!-- Made by `warpsim metrics --markdown`. -->\n\n# Metrics\n\nThe figures of a run that tables of \
                   sweeps, baselines, comparisons and pages hold. A path of dots is where `report.json` has the \
                   value; ratios are made of several. Figures of kernels that ran without time are not in them.\n\n\
                   | metric | unit | from | meaning |\n|---|---|---|---|\n"
        .to_string();
    for metric in METRICS {
        let from = match &metric.of {
            Source::Path(path, divisor) if *divisor == 1.0 => format!("`{path}`"),
            Source::Path(path, divisor) => format!("`{path}` / {divisor}"),
            Source::Ratio(above, below, factor) => {
                let sum = |paths: &[&str]| format!("`{}`", paths.join("` + `"));
                let bracketed = |paths: &[&str]| match paths.len() {
                    1 => sum(paths),
                    _ => format!("({})", sum(paths)),
                };
                let times = if *factor == 1.0 { String::new() } else { format!("{factor} × ") };
                format!("{times}{} / {}", bracketed(above), bracketed(below))
            }
            Source::Peak(path, unit, peak) => {
                let unit = unit.map_or(String::new(), |unit| format!(" × `{unit}`"));
                format!("100 × `{path}`{unit} a second / `{peak}`")
            }
            Source::Slots(path) => format!("100 × `{path}` / (`issued` + all of `stalls`)"),
        };
        let _ = writeln!(out, "| `{}` | {} | {from} | {} |", metric.name, metric.unit, metric.doc);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_shipped_page_is_that_of_the_table() {
        let shipped = std::fs::read_to_string("docs/reference/metrics.md").unwrap_or_default();
        assert!(shipped == page(), "run: warpsim metrics --markdown > docs/reference/metrics.md");
    }

    use super::*;

    fn value(name: &str, report: &Value) -> Option<f64> {
        METRICS.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}")).value(report)
    }

    #[test]
    fn metrics_are_found_in_a_report() {
        let stalls = serde_json::json!({"memory": 10, "dependency": 20, "idle": 60});
        let report = serde_json::json!({
            "cycles": 200, "warp_instructions": 300, "lane_utilisation_ppm": 750_000, "issued": 110,
            "stalls": stalls,
            "memory": {"l1": {"hits": 3, "merges": 1, "misses": 4}, "l2": {"hits": 0, "merges": 0, "misses": 0}},
        });
        assert_eq!(value("cycles", &report), Some(200.0));
        assert_eq!(value("ipc", &report), Some(1.5));
        assert_eq!(value("lane_utilisation", &report), Some(75.0));
        assert_eq!(value("issued", &report), Some(55.0));
        assert_eq!(value("stalls.memory", &report), Some(5.0));
        assert_eq!(value("memory.l1.hit_rate", &report), Some(50.0));
        // No accesses have no rate; what is not there has no value.
        assert_eq!(value("memory.l2.hit_rate", &report), None);
        assert_eq!(value("memory.load_latency.l1.p50", &report), None);
    }

    #[test]
    fn figures_for_people_have_five_significant_digits() {
        for (value, text) in [
            (9980.0, "9980"),
            (1.234_567_89, "1.2346"),
            (0.000_123_456_7, "0.00012346"),
            (123_456.7, "123457"),
            (99.999_99, "100"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(shown(value), text);
        }
    }

    #[test]
    fn names_are_told_apart_and_explained() {
        for (i, metric) in METRICS.iter().enumerate() {
            assert!(METRICS[..i].iter().all(|other| other.name != metric.name), "{}", metric.name);
            assert!(!metric.unit.is_empty() && !metric.doc.is_empty(), "{}", metric.name);
        }
    }
}
