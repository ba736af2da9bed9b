//! The simulated figures that tables of results hold: name, unit, meaning, and what of a report they are.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use crate::figures::{Figures, rate};

/// A figure of a run.
#[derive(Serialize)]
pub struct Metric {
    /// Name: its path in report.json, or that of a ratio.
    pub name: &'static str,
    /// Unit of its values.
    pub unit: &'static str,
    /// What it measures.
    pub doc: &'static str,
    /// What it is made of, as the page of the metrics has it; the value at the path of its name where it is
    /// empty.
    #[serde(skip)]
    from: &'static str,
    /// Computes the metric from a report.
    #[serde(skip)]
    of: fn(&Figures) -> Option<f64>,
}

impl Metric {
    /// Its value, where the run has one.
    pub fn value(&self, figures: &Figures) -> Option<f64> {
        (self.of)(figures)
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

/// The metrics of a report that [`is_report`](crate::report_file::is_report) has accepted.
pub fn of(report: &Value) -> impl Iterator<Item = (&'static Metric, f64)> {
    let figures = Figures::read(report).unwrap_or_default();
    METRICS.iter().filter_map(move |metric| Some((metric, metric.value(&figures)?)))
}

type Of = fn(&Figures) -> Option<f64>;

const fn path(name: &'static str, unit: &'static str, doc: &'static str, of: Of) -> Metric {
    Metric { name, unit, doc, from: "", of }
}

const fn ratio(
    name: &'static str,
    unit: &'static str,
    doc: &'static str,
    from: &'static str,
    of: Of,
) -> Metric {
    Metric { name, unit, doc, from, of }
}

/// Issue slots without an issue for one reason, as a share of all.
macro_rules! stall {
    ($reason:literal, $doc:literal) => {
        ratio(
            concat!("stalls.", $reason),
            "% of issue slots",
            $doc,
            concat!("100 × `stalls.", $reason, "` / (`issued` + all of `stalls`)"),
            |f| f.of_slots(f.stall($reason)?),
        )
    };
}

/// All of them, in the order of tables.
pub const METRICS: &[Metric] = &[
    path(
        "cycles",
        "core cycles",
        "cycles in which a kernel ran, from the dispatch of its first block to the end of its last block",
        |f| f.cycles,
    ),
    path("time_us", "µs", "`cycles` in microseconds at the core clock", |f| f.time_us),
    path(
        "launch_cycles",
        "core cycles",
        "cycles not counted in `cycles`: a launch was in progress and no kernel was running",
        |f| f.launch_cycles,
    ),
    path("launch_us", "µs", "`launch_cycles` in microseconds at the core clock", |f| f.launch_us),
    path(
        "dispatch_wait_cycles",
        "SM cycles",
        "cycles in which an SM had room for a block and waited for `dispatch.replacement_interval`, summed over SMs",
        |f| f.dispatch_wait_cycles,
    ),
    path(
        "warp_instructions",
        "instructions",
        "source instructions issued for a warp or a path of one",
        |f| f.warp_instructions,
    ),
    path(
        "thread_instructions",
        "instructions",
        "lanes of the issued warp instructions whose guard predicate was true, or that had none",
        |f| f.thread_instructions,
    ),
    path(
        "control_instructions",
        "instructions",
        "issues of injected control-flow instructions, and repeated issues of an indirect branch",
        |f| f.control_instructions,
    ),
    path(
        "machine_instructions",
        "operations",
        "machine operations that the issued instructions expand to, by the cost table",
        |f| f.machine_instructions,
    ),
    ratio(
        "ipc",
        "instructions per core cycle",
        "warp instructions per core cycle, over all SMs",
        "`warp_instructions` / `cycles`",
        |f| rate(f.warp_instructions?, f.cycles?, 1.0),
    ),
    ratio(
        "lane_utilisation",
        "%",
        "active lanes as a share of the warp size, over all issues",
        "`lane_utilisation_ppm` / 10000",
        |f| Some(f.lane_utilisation_ppm? / 1e4),
    ),
    ratio(
        "occupancy",
        "%",
        "resident warps as a share of the maximum per SM, averaged over the cycles in which the SM has a resident warp",
        "100 × `warp_cycles` / `warp_slots`",
        |f| rate(f.warp_cycles?, f.warp_slots?, 100.0),
    ),
    ratio(
        "peak.issue",
        "% of peak",
        "issued warp instructions, relative to the peak issue rate of all schedulers",
        "100 × `warp_instructions` per second / `machine.warp_instructions_per_second`",
        |f| f.of_peak(f.warp_instructions?, f.machine.warp_instructions_per_second?),
    ),
    ratio(
        "peak.l1",
        "% of peak",
        "line accesses, relative to the peak L1 throughput",
        "100 × `memory.transactions` × `machine.line_bytes` per second / `machine.l1_bytes_per_second`",
        |f| f.of_peak(f.memory.transactions? * f.machine.line_bytes?, f.machine.l1_bytes_per_second?),
    ),
    ratio(
        "peak.l2",
        "% of peak",
        "bytes between SMs and L2, relative to the peak bandwidth of the partitions",
        "100 × `memory.bytes_moved` per second / `machine.l2_bytes_per_second`",
        |f| f.of_peak(f.memory.bytes_moved?, f.machine.l2_bytes_per_second?),
    ),
    ratio(
        "peak.dram",
        "% of peak",
        "bytes of DRAM bursts, relative to the peak bandwidth of DRAM",
        "100 × `memory.dram.bytes` per second / `machine.dram_bytes_per_second`",
        |f| f.of_peak(f.memory.dram.bytes?, f.machine.dram_bytes_per_second?),
    ),
    ratio(
        "peak.tensor",
        "% of peak",
        "multiply-adds of products of matrices, in percent of what all tensor cores could do in the cycles of the kernels, summed over types",
        "100 × Σ (`tensor.by_type` / `machine.tensor_multiply_adds_per_second`) / time of `cycles`",
        |f| {
            let rates = &f.machine.tensor_multiply_adds_per_second;
            let seconds = f.tensor.as_ref()?.by_type.iter().map(|(ty, count)| Some(count / rates.get(ty)?));
            f.of_peak(seconds.sum::<Option<f64>>()?, 1.0)
        },
    ),
    ratio(
        "issued",
        "% of issue slots",
        "issue slots in which an instruction issued",
        "100 × `issued` / (`issued` + all of `stalls`)",
        |f| f.of_slots(f.issued?),
    ),
    stall!("barrier", "all warps are stalled at a barrier"),
    stall!(
        "collective",
        "all warps are stalled at a warp-collective instruction (vote, shuffle, match, warp barrier) that other lanes have not reached"
    ),
    stall!("dependency", "all warps are stalled on the result of an earlier instruction of fixed latency"),
    stall!(
        "drain",
        "all warps are stalled at a fence, barrier, release or other ordered access until earlier memory accesses are performed"
    ),
    stall!("fetch", "all warps are stalled until their line of code is in the instruction cache"),
    stall!("finishing", "all warps have exited, but their blocks have not completed"),
    stall!("idle", "the SM has no resident warp"),
    stall!("memory", "all warps are stalled on a load or an atomic"),
    stall!("sleep", "all warps are stalled in nanosleep"),
    stall!("unit_busy", "a warp is ready, but the functional unit of its next instruction is busy"),
    path("memory.accesses", "accesses", "warps' accesses to global and local memory", |f| f.memory.accesses),
    path(
        "memory.transactions",
        "accesses",
        "line transactions into which `memory.accesses` were split",
        |f| f.memory.transactions,
    ),
    path(
        "memory.bytes_useful",
        "bytes",
        "bytes requested by lanes; a byte that several lanes of a transaction request counts once",
        |f| f.memory.bytes_useful,
    ),
    path(
        "memory.bytes_moved",
        "bytes",
        "bytes transferred between SMs and L2, without packet headers",
        |f| f.memory.bytes_moved,
    ),
    path(
        "memory.conflict_cycles",
        "core cycles",
        "cycles beyond the first of each access to shared and constant memory, summed: bank conflicts, and serialized lanes of atomics",
        |f| f.memory.conflict_cycles,
    ),
    path("memory.atomics", "operations", "atomic operations on global memory, counted per lane", |f| {
        f.memory.atomics
    }),
    path("memory.tlb.requests", "requests", "requests of SMs to L2 that TLBs translated", |f| {
        Some(f.memory.tlb?.requests)
    }),
    ratio(
        "memory.tlb.miss_rate",
        "%",
        "requests of SMs to L2 whose translation was not in the first TLB",
        "100 × `memory.tlb.misses` / `memory.tlb.requests`",
        |f| rate(f.memory.tlb?.misses, f.memory.tlb?.requests, 100.0),
    ),
    path(
        "memory.tlb.second_misses",
        "requests",
        "requests of SMs to L2 whose translation was in neither TLB, of which the second was full",
        |f| Some(f.memory.tlb?.second_misses),
    ),
    path("memory.tma.copies", "copies", "bulk copies and copies of tensors that threads asked for", |f| {
        Some(f.memory.tma?.copies)
    }),
    path(
        "memory.tma.loaded_bytes",
        "bytes",
        "bytes that bulk copies read from global memory for shared memory; a multicast counts once",
        |f| Some(f.memory.tma?.loaded_bytes),
    ),
    path(
        "memory.tma.stored_bytes",
        "bytes",
        "bytes that bulk copies wrote to global memory or reduced there",
        |f| Some(f.memory.tma?.stored_bytes),
    ),
    path(
        "memory.tma.between_bytes",
        "bytes",
        "bytes that bulk copies brought from shared memory of one block to that of another",
        |f| Some(f.memory.tma?.between_bytes),
    ),
    path(
        "memory.tma.busy_cycles",
        "core cycles",
        "cycles in which the unit for bulk copies of an SM was at work, waiting for the queue of accesses included, summed over SMs",
        |f| Some(f.memory.tma?.busy_cycles),
    ),
    ratio(
        "memory.tma.occupancy",
        "%",
        "share of the cycles with a resident warp in which the unit for bulk copies was at work, over the SMs that had copies",
        "100 × `memory.tma.busy_cycles` / `memory.tma.active_cycles`",
        |f| rate(f.memory.tma?.busy_cycles, f.memory.tma?.active_cycles, 100.0),
    ),
    path(
        "tensor.multiply_adds",
        "multiply-adds",
        "multiply-adds of products of matrices on tensor cores; of sparse products, of the elements that are stored",
        |f| Some(f.tensor.as_ref()?.multiply_adds),
    ),
    path(
        "tensor.busy_cycles",
        "core cycles",
        "cycles for which products held tensor cores, summed over tensor cores",
        |f| Some(f.tensor.as_ref()?.busy_cycles),
    ),
    ratio(
        "tensor.utilisation",
        "%",
        "share of the cycles with a resident warp for which products held tensor cores, over the SMs that had products",
        "100 × `tensor.busy_cycles` / `tensor.active_cycles`",
        |f| rate(f.tensor.as_ref()?.busy_cycles, f.tensor.as_ref()?.active_cycles, 100.0),
    ),
    path(
        "memory.remote.accesses",
        "accesses",
        "accesses of warps to shared memory of other blocks of their cluster, counted per block",
        |f| Some(f.memory.remote?.accesses),
    ),
    path(
        "memory.remote.packets",
        "packets",
        "packets between SMs: remote accesses and their answers, arrivals at cluster barriers, pieces of copies",
        |f| Some(f.memory.remote?.packets),
    ),
    ratio(
        "memory.l1.hit_rate",
        "%",
        "loads and atomics whose bytes were in L1 when they came; those that merge with an outstanding miss are none",
        "100 × `memory.l1.hits` / (`memory.l1.hits` + `memory.l1.merges` + `memory.l1.misses`)",
        |f| f.memory.l1.hit_rate(),
    ),
    path(
        "memory.l1.reservation_fails",
        "times",
        "operations that found no free way in their L1 set; each attempt counts",
        |f| f.memory.l1.reservation_fails,
    ),
    ratio(
        "memory.l2.hit_rate",
        "%",
        "loads and atomics whose bytes were in L2 when they came; those that merge with an outstanding miss are none",
        "100 × `memory.l2.hits` / (`memory.l2.hits` + `memory.l2.merges` + `memory.l2.misses`)",
        |f| f.memory.l2.hit_rate(),
    ),
    path("memory.l2.write_backs", "lines", "dirty lines that L2 wrote back", |f| f.memory.l2.write_backs),
    path("memory.dram.bytes", "bytes", "bytes of DRAM bursts", |f| f.memory.dram.bytes),
    ratio(
        "memory.dram.row_hit_rate",
        "%",
        "bursts that found their row open",
        "100 × `memory.dram.row_hits` / (`memory.dram.row_hits` + `memory.dram.row_misses` + `memory.dram.row_conflicts`)",
        |f| f.memory.dram.row_hit_rate(),
    ),
    path("memory.load_latency.dram.p50", "core cycles", "median latency of loads that went to DRAM", |f| {
        f.memory.loads("dram")?.p50
    }),
    path(
        "memory.load_latency.dram.p99",
        "core cycles",
        "99th percentile latency of loads that went to DRAM",
        |f| f.memory.loads("dram")?.p99,
    ),
    path("memory.load_latency.l2.p50", "core cycles", "median latency of loads that L2 served", |f| {
        f.memory.loads("l2")?.p50
    }),
    path("memory.load_latency.l1.p50", "core cycles", "median latency of loads that L1 served", |f| {
        f.memory.loads("l1")?.p50
    }),
    path(
        "policy_entries",
        "entries",
        "maximum number of entries in the policy's stack or table for any one warp",
        |f| f.policy_entries,
    ),
    path("policy_spilled_bytes", "bytes", "bytes that the policy's stack or table spilled to memory", |f| {
        f.policy_spilled_bytes
    }),
];

/// The page of the metrics, in Markdown.
pub fn page() -> String {
    let mut out = "<!-- Made by `warpsim metrics --markdown`. -->\n\n# Metrics\n\nThe metrics of a run in the tables of \
                   sweeps, baselines, comparisons and pages. A dotted name is the path of the value in `report.json`; a \
                   ratio is computed from several values. Kernels that ran in functional mode are not counted.\n\n\
                   An issue slot in which nothing issues counts once. Where warps are stalled for several reasons, it \
                   counts for the first of `unit_busy`, `dependency`, `fetch`, `memory`, `drain`, `collective`, `barrier`, \
                   `sleep`.\n\n\
                   | metric | unit | from | meaning |\n|---|---|---|---|\n"
        .to_string();
    for metric in METRICS {
        let from = match metric.from {
            "" => format!("`{}`", metric.name),
            from => from.to_string(),
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
        let figures = Figures::read(report).expect("figures");
        METRICS.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}")).value(&figures)
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
        assert_eq!(value("memory.l1.hit_rate", &report), Some(37.5));
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
