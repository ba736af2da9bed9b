//! What bounds a run, and what else cost it issue slots, most first, with the lines of the program at fault.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::figures::Figures;
use crate::metrics;

/// Issue slots in use from which on issue itself is the bound, in percent.
const FULL: f64 = 75.0;
/// Percent of what a level of memory can move, or of the cycles in which SMs wait for blocks, from which on it is the bound.
const BUSY: f64 = 60.0;
/// Findings of fewer percent of the issue slots are left out.
const LEAST: f64 = 2.0;
/// Most lines of a finding.
const LINES: usize = 3;

/// A line of the program, and its part of a finding.
#[derive(Debug, PartialEq, Serialize)]
pub struct Line {
    /// Entry of its program.
    pub kernel: String,
    /// Line of the PTX.
    pub line: u64,
    /// The first instruction of the line.
    pub text: String,
    /// File and line of the source by `.loc`, where that file is known.
    pub source: Option<(String, u64)>,
    /// Percent of what all lines have.
    pub part: f64,
    /// What its accesses are like, where they are at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The loads and atomics that a wait for memory is for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<Load>,
}

/// A load or an atomic that is waited for.
#[derive(Debug, PartialEq, Serialize)]
pub struct Load {
    /// Line of the PTX.
    pub line: u64,
    /// The first instruction of the line.
    pub text: String,
    /// File and line of the source by `.loc`, where that file is known.
    pub source: Option<(String, u64)>,
}

/// Something that cost issue slots.
#[derive(Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What it is, in a word: a stall reason, or what a figure shows.
    pub kind: &'static str,
    /// Name of the finding.
    pub title: String,
    /// Percent of the issue slots.
    pub share: f64,
    /// What it means, and what would help.
    pub text: String,
    /// Lines at fault, most first; empty without `--profile`.
    pub lines: Vec<Line>,
}

/// The answer to why a run took as long as it did.
#[derive(Debug, PartialEq, Serialize)]
pub struct Answer {
    /// What bounds it: the kind of the first finding; empty for a functional run.
    pub bound: &'static str,
    /// The same in a sentence.
    pub words: String,
    /// Findings, the largest share first.
    pub findings: Vec<Finding>,
}

/// The stall reasons: name, what lines are ranked by, title, text.
const STALLS: [(&str, &str, &str, &str); 9] = [
    (
        "memory",
        "memory",
        "memory latency",
        "All warps are stalled on a load or an atomic. More resident warps, or accesses that are issued earlier and \
         used later, hide more of the latency.",
    ),
    (
        "dependency",
        "dependency",
        "dependences",
        "All warps are stalled on the result of an earlier instruction of fixed latency. More resident warps or more independent instructions would fill these slots.",
    ),
    (
        "unit_busy",
        "ready",
        "busy functional unit",
        "Warps are ready, but the functional unit of their next instruction is busy. Fewer instructions on that unit shorten the run.",
    ),
    (
        "barrier",
        "barrier",
        "barriers",
        "All warps are stalled at a barrier. Distribute the work more evenly, or use more and smaller blocks.",
    ),
    (
        "drain",
        "drain",
        "accesses before a fence or barrier",
        "All warps are stalled at a fence or barrier until their earlier memory accesses are performed.",
    ),
    (
        "collective",
        "collective",
        "warp-collective instructions",
        "All warps are stalled at a vote, shuffle or warp barrier, waiting for lanes of the same warp that have not reached it.",
    ),
    ("sleep", "sleep", "sleep", "All warps are stalled in nanosleep."),
    (
        "fetch",
        "fetch",
        "instruction fetch",
        "All warps are stalled until their next instruction is in the instruction cache. Shorter code, or fewer unrolled iterations, needs fewer lines of it.",
    ),
    (
        "finishing",
        "",
        "block completion",
        "All warps have exited, but their last memory accesses are outstanding; their resources are not yet free for the next block.",
    ),
];

/// The answer for a report.
pub fn answer(report: &Value) -> Answer {
    let metrics: BTreeMap<&str, f64> =
        metrics::of(report).map(|(metric, value)| (metric.name, value)).collect();
    let metric = |name: &str| metrics.get(name).copied();
    let slots = Figures::read(report).ok().and_then(|figures| figures.issue_slots()).unwrap_or(0.0);
    if number(report, "/cycles") == 0.0 || slots == 0.0 {
        let words = match report.get("issued") {
            None if number(report, "/cycles") > 0.0 => "Not known: kernels were sampled.",
            _ => "No cycles were simulated.",
        };
        return Answer { bound: "", words: words.into(), findings: Vec::new() };
    }
    let stall = |name: &str| 100.0 * number(report, &format!("/stalls/{name}")) / slots;
    let issued = 100.0 * number(report, "/issued") / slots;
    let mut list: Vec<Finding> = Vec::new();
    let mut find = |kind, title: &str, share: f64, text: String, lines| {
        if share >= LEAST {
            list.push(Finding { kind, title: title.to_string(), share, text, lines });
        }
    };
    for (name, reason, title, text) in STALLS {
        find(name, title, stall(name), text.to_string(), waiting(report, reason));
    }
    find("idle", "idle SMs", stall("idle"), idle(report), Vec::new());
    // What fills the slots, and what of it was in vain.
    find(
        "issue",
        "issue",
        issued,
        "These slots issue instructions. Executing fewer instructions, or activating more lanes per instruction, shortens the run.".to_string(),
        ranked(report, |line| number(line, "/issues")),
    );
    let used = metric("lane_utilisation").unwrap_or(100.0);
    let width = number(report, "/machine/warp_size");
    find(
        "divergence",
        "inactive lanes",
        issued * (1.0 - used / 100.0),
        format!(
            "Only {used:.0} % of the lanes of issued instructions were active: branches diverged, lanes were predicated off, or warps were partially filled."
        ),
        ranked(report, |line| number(line, "/issues") * width - number(line, "/active_lanes")),
    );
    let waits = stall("memory") + stall("drain");
    let (asked, moved) = (number(report, "/memory/bytes_useful"), number(report, "/memory/bytes_moved"));
    if moved >= 2.0 * asked && asked > 0.0 {
        let part = 100.0 * asked / moved;
        find(
            "coalescing",
            "uncoalesced accesses",
            waits * (1.0 - asked / moved),
            format!(
                "Lanes requested only {part:.0} % of the bytes transferred: the addresses of a warp are scattered."
            ),
            scattered(report),
        );
    }
    let (local, all) = (number(report, "/memory/local_transactions"), number(report, "/memory/transactions"));
    if all > 0.0 {
        find(
            "local",
            "local memory",
            waits * local / all,
            format!(
                "{:.0} % of the lines accessed are local memory: spilled registers or per-thread arrays.",
                100.0 * local / all
            ),
            Vec::new(),
        );
    }
    let conflicts = number(report, "/memory/conflict_cycles") / number(report, "/cycles");
    find(
        "conflicts",
        "bank conflicts",
        // Those of atomics of several warps overlap.
        (100.0 * conflicts / number(report, "/sms").max(1.0)).min(100.0),
        "Accesses to shared or constant memory took more than one cycle: lanes had bank conflicts or different \
             constant addresses, or lanes of an atomic were serialized; the share is of the SMs' cycles."
            .to_string(),
        conflicting(report),
    );
    let waits_of_sms = number(report, "/dispatch_wait_cycles") / number(report, "/sms").max(1.0);
    find(
        "dispatch",
        "block dispatch",
        100.0 * waits_of_sms / number(report, "/cycles"),
        "SMs had room for a block and waited for the next one, as blocks start and end faster than they are dispatched; the share \
             is of the SMs' cycles. Fewer blocks that do more, for example several elements a thread, wait less."
            .to_string(),
        Vec::new(),
    );
    list.sort_by(|a, b| b.share.total_cmp(&a.share));
    let (bound, words) = bound(&list, issued, waits, &metric);
    // The bound comes first; a level of memory that is full is told instead of the wait for it.
    let levels = ["dram", "l2", "l1"];
    if levels.contains(&bound) {
        let lines = waiting(report, "memory");
        let text = "Accesses queue for bandwidth: transfer fewer bytes, or reuse more data in a cache closer to the SM.";
        list.retain(|finding| finding.kind != "memory");
        let title = words.split(" — ").next().unwrap_or_default().to_string();
        list.push(Finding { kind: bound, title, share: waits, text: text.into(), lines });
    }
    list.sort_by_key(|finding| finding.kind != bound);
    Answer { bound, words, findings: list }
}

/// What bounds the run: issue, the dispatch of blocks, a level of memory that is full, or what most empty issue slots wait for.
fn bound(
    list: &[Finding],
    issued: f64,
    waits: f64,
    metric: &dyn Fn(&str) -> Option<f64>,
) -> (&'static str, String) {
    if issued >= FULL {
        return ("issue", format!("issue — {issued:.0} % of the issue slots are used"));
    }
    if let Some(finding) = list.iter().find(|finding| finding.kind == "dispatch" && finding.share >= BUSY) {
        let share = finding.share;
        return (
            "dispatch",
            format!(
                "{} — for {share:.0} % of the cycles an SM has room for a block and waits for it",
                finding.title
            ),
        );
    }
    for (kind, name, title) in [
        ("dram", "peak.dram", "DRAM bandwidth"),
        ("l2", "peak.l2", "L2 bandwidth"),
        ("l1", "peak.l1", "L1 bandwidth"),
    ] {
        if let Some(of_peak) = metric(name).filter(|of_peak| *of_peak >= BUSY) {
            return (
                kind,
                format!(
                    "{title} — {of_peak:.0} % of peak bandwidth; in {waits:.0} % of the issue slots all warps are stalled on memory"
                ),
            );
        }
    }
    let dram =
        metric("peak.dram").map_or(String::new(), |of| format!("; DRAM is at {of:.0} % of peak bandwidth"));
    let largest = list.iter().find(|f| f.kind == "idle" || STALLS.iter().any(|(name, ..)| *name == f.kind));
    match largest {
        Some(finding) => {
            let share = finding.share;
            let why = match finding.kind {
                "memory" => format!("all warps are stalled on a load or an atomic{dram}"),
                "dependency" => "all warps are stalled on a result".to_string(),
                "unit_busy" => "the functional unit of every ready warp is busy".to_string(),
                "idle" => "the SM has no warp".to_string(),
                "barrier" => "all warps are stalled at one".to_string(),
                _ => "no warp can issue".to_string(),
            };
            (finding.kind, format!("{} — in {share:.0} % of the issue slots {why}", finding.title))
        }
        None => ("issue", format!("issue — {issued:.0} % of the issue slots are used")),
    }
}

/// Why SMs were empty.
fn idle(report: &Value) -> String {
    let kernels = report["kernels"].as_array().map_or(&[][..], Vec::as_slice);
    let timed: Vec<&Value> = kernels.iter().filter(|kernel| number(kernel, "/cycles") > 0.0).collect();
    let sms = number(report, "/sms");
    let blocks = |kernel: &Value| (0..3).map(|i| number(kernel, &format!("/grid/{i}"))).product::<f64>();
    let room = |kernel: &Value| sms * number(kernel, "/resident_blocks").max(1.0);
    let few = timed.iter().filter(|kernel| blocks(kernel) < sms).count();
    let partial = timed.iter().filter(|kernel| blocks(kernel) > room(kernel)).count();
    let inside: f64 = timed.iter().map(|kernel| number(kernel, "/cycles")).sum();
    let cycles = number(report, "/cycles");
    if few > 0 && timed.len() == 1 {
        format!("The launch has fewer blocks ({}) than the chip has SMs ({sms}).", blocks(timed[0]))
    } else if few > 0 {
        format!("{few} of {} launches have fewer blocks than the chip has SMs ({sms}).", timed.len())
    } else if timed.len() > 1 && inside < 0.8 * cycles {
        "Much of the time is launch latency between kernels: use fewer, larger launches.".to_string()
    } else if partial > 0 {
        "The last blocks of a launch leave SMs idle: smaller blocks reduce this tail.".to_string()
    } else {
        "All blocks are resident at once, and some complete later than others: more and smaller blocks reduce this tail.".to_string()
    }
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0)
}

/// The lines at which warps waited most for a reason; reports of earlier versions have the sum only.
fn waiting(report: &Value, reason: &str) -> Vec<Line> {
    if reason.is_empty() {
        return Vec::new();
    }
    let mut list = ranked(report, |line| match line.get("waits") {
        Some(waits) => waits.get(reason).and_then(Value::as_f64).unwrap_or(0.0),
        None => number(line, "/waited"),
    });
    for line in list.iter_mut().filter(|_| reason == "ready") {
        // What keeps the load-store unit busy: accesses that take several turns there.
        line.note = counts(report, &line.kernel, line.line).and_then(turns);
    }
    for line in list.iter_mut().filter(|_| reason == "memory") {
        let loads = counts(report, &line.kernel, line.line).and_then(|own| own["waits_for"].as_array());
        let load = |number: &Value| {
            let own = counts(report, &line.kernel, number.as_u64()?)?;
            let text = own["text"].as_str()?.to_string();
            Some(Load { line: number.as_u64()?, text, source: source(report, own) })
        };
        line.waits_for = loads.into_iter().flatten().filter_map(load).collect();
    }
    list
}

/// File and line of the source of a line's counts.
fn source(report: &Value, line: &Value) -> Option<(String, u64)> {
    let sources = report.pointer("/listing/sources").and_then(Value::as_array)?;
    let own = sources.iter().find(|source| source["index"] == line["source_file"])?;
    Some((own["file"].as_str()?.to_string(), line["source_line"].as_u64()?))
}

/// What an access of a line is like, where it takes two turns or more.
fn turns(line: &Value) -> Option<String> {
    let many = |key: &str| number(line, key) >= 2.0 * number(line, "/accesses").max(1.0);
    if many("/transactions") {
        Some(scatter(line))
    } else if number(line, "/conflict_cycles") >= number(line, "/issues").max(1.0) {
        Some(conflict(line))
    } else {
        None
    }
}

fn scatter(line: &Value) -> String {
    let lines = number(line, "/transactions") / number(line, "/accesses").max(1.0);
    let part = 100.0 * number(line, "/bytes_useful") / number(line, "/bytes_sectors").max(1.0);
    format!(
        "{} cache lines per access; lanes request {part:.0} % of the sector bytes transferred",
        rounded(lines)
    )
}

fn conflict(line: &Value) -> String {
    let cycles = 1.0 + number(line, "/conflict_cycles") / number(line, "/issues").max(1.0);
    format!("{} cycles per access", rounded(cycles))
}

/// The lines whose accesses move most bytes that no lane asked for.
fn scattered(report: &Value) -> Vec<Line> {
    noted(report, |line| number(line, "/bytes_sectors") - number(line, "/bytes_useful"), scatter)
}

/// The lines whose accesses to shared and constant memory take most cycles beyond the first.
fn conflicting(report: &Value) -> Vec<Line> {
    noted(report, |line| number(line, "/conflict_cycles"), conflict)
}

/// To a tenth, where it matters.
fn rounded(value: f64) -> String {
    if value.fract() < 0.05 || value.fract() > 0.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// The lines that have most of something, with words on each.
fn noted(report: &Value, of: impl Fn(&Value) -> f64, words: impl Fn(&Value) -> String) -> Vec<Line> {
    let mut list = ranked(report, of);
    for line in &mut list {
        line.note = counts(report, &line.kernel, line.line).map(&words);
    }
    list
}

/// The counts of a line.
fn counts<'r>(report: &'r Value, kernel: &str, line: u64) -> Option<&'r Value> {
    let own = |counts: &&Value| counts["kernel"] == kernel && counts["line"] == line;
    report["lines"].as_array()?.iter().find(own)
}

/// The lines that have most of something.
fn ranked(report: &Value, of: impl Fn(&Value) -> f64) -> Vec<Line> {
    let lines = report["lines"].as_array().map_or(&[][..], Vec::as_slice);
    let mut list: Vec<(f64, &Value)> = lines.iter().map(|line| (of(line), line)).collect();
    let all: f64 = list.iter().map(|(value, _)| value).sum();
    list.retain(|(value, _)| *value > 0.01 * all);
    list.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let line = |(value, line): &(f64, &Value)| Line {
        kernel: line["kernel"].as_str().unwrap_or_default().to_string(),
        line: line["line"].as_u64().unwrap_or(0),
        text: line["text"].as_str().unwrap_or_default().to_string(),
        source: source(report, line),
        part: 100.0 * value / all,
        note: None,
        waits_for: Vec::new(),
    };
    list.iter().take(LINES).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(issued: u64, stalls: &Value, dram: u64) -> Value {
        json!({
            "cycles": 1000, "sms": 1, "schedulers": 1, "issued": issued, "stalls": stalls,
            "machine": {"core_khz": 1000, "warp_size": 32, "line_bytes": 128, "warp_instructions_per_second": 1_000_000,
                "l1_bytes_per_second": 128_000_000, "l2_bytes_per_second": 64_000_000, "dram_bytes_per_second": 32_000_000},
            "lane_utilisation_ppm": 1_000_000,
            "memory": {"transactions": 1, "bytes_moved": 32, "bytes_useful": 32, "dram": {"bytes": dram}},
            "lines": [
                {"kernel": "k", "line": 7, "text": "add", "issues": 10, "active_lanes": 320, "waited": 30,
                    "waits": {"memory": 10, "dependency": 20}, "source_file": 1, "source_line": 3},
                {"kernel": "k", "line": 9, "text": "mul", "issues": 30, "active_lanes": 960, "waited": 60,
                    "waits": {"memory": 60}, "waits_for": [5, 7], "conflict_cycles": 90},
                {"kernel": "k", "line": 5, "text": "ld", "issues": 10, "active_lanes": 320, "waited": 0, "waits": {},
                    "source_file": 1, "source_line": 2, "accesses": 10, "transactions": 320, "bytes_useful": 1280,
                    "bytes_sectors": 10240},
            ],
            "listing": {"sources": [{"index": 1, "file": "k.cu", "text": ""}]},
        })
    }

    #[test]
    fn the_bound_is_the_fullest_resource_or_the_longest_wait() {
        for (issued, stalls, dram, bound, first) in [
            (800, json!({"memory": 200}), 0, "issue", "mul"),
            (100, json!({"memory": 900}), 0, "memory", "mul"),
            (100, json!({"memory": 900}), 31_000, "dram", "mul"),
            (400, json!({"memory": 200, "dependency": 400}), 0, "dependency", "add"),
            (100, json!({"idle": 900}), 0, "idle", ""),
            (100, json!({"barrier": 900}), 0, "barrier", ""),
        ] {
            let answer = answer(&report(issued, &stalls, dram));
            assert_eq!(answer.bound, bound, "{}", answer.words);
            assert_eq!(answer.findings[0].kind, bound);
            assert_eq!(answer.findings[0].lines.first().map_or("", |line| line.text.as_str()), first);
        }
    }

    #[test]
    fn dispatch_is_the_bound_where_sms_wait_for_blocks_most_of_the_time() {
        for (waited, bound, found) in
            [(0, "dram", false), (19, "dram", false), (590, "dram", true), (610, "dispatch", true)]
        {
            let mut own = report(100, &json!({"memory": 900}), 31_000);
            own["dispatch_wait_cycles"] = json!(waited);
            let answer = answer(&own);
            assert_eq!(answer.bound, bound, "{waited}: {}", answer.words);
            assert_eq!(answer.findings.iter().any(|f| f.kind == "dispatch"), found, "{waited}");
            assert_eq!(answer.findings[0].kind, bound);
        }
        let mut own = report(800, &json!({"memory": 200}), 0);
        own["dispatch_wait_cycles"] = json!(900);
        assert_eq!(answer(&own).bound, "issue");
    }

    #[test]
    fn findings_are_ranked_and_have_their_lines() {
        let own = answer(&report(300, &json!({"memory": 500, "dependency": 195, "sleep": 5}), 0));
        let kinds: Vec<(&str, f64)> = own.findings.iter().map(|f| (f.kind, f.share)).collect();
        assert_eq!(kinds, [("memory", 50.0), ("issue", 30.0), ("dependency", 19.5)]);
        let lines: Vec<(u64, u64)> =
            own.findings[0].lines.iter().map(|line| (line.line, line.part.round() as u64)).collect();
        assert_eq!(lines, [(9, 86), (7, 14)]);
        assert_eq!(own.findings[2].lines[0].source, Some(("k.cu".to_string(), 3)));
        assert!(own.words.starts_with("memory latency — in 50 % of the issue slots"), "{}", own.words);
    }

    #[test]
    fn waits_for_memory_name_their_loads_and_accesses_the_lines_at_fault() {
        let mut own = report(100, &json!({"memory": 900}), 0);
        own["memory"]["bytes_moved"] = json!(320);
        own["memory"]["conflict_cycles"] = json!(90);
        let answer = answer(&own);
        let find = |kind| answer.findings.iter().find(|f| f.kind == kind).expect(kind);
        let loads: Vec<(u64, &str)> =
            find("memory").lines[0].waits_for.iter().map(|load| (load.line, load.text.as_str())).collect();
        assert_eq!(loads, [(5, "ld"), (7, "add")]);
        assert_eq!(find("memory").lines[0].waits_for[0].source, Some(("k.cu".to_string(), 2)));
        let told = |kind| {
            let line = &find(kind).lines[0];
            (line.line, line.part.round() as u64, line.note.clone().unwrap_or_default())
        };
        let words = "32 cache lines per access; lanes request 12 % of the sector bytes transferred";
        assert_eq!(told("coalescing"), (5, 100, words.to_string()));
        assert_eq!(told("conflicts"), (9, 100, "4 cycles per access".to_string()));
        // Cycles of conflicts are those of all SMs.
        for (sms, share) in [(1, 9.0), (3, 3.0)] {
            own["sms"] = json!(sms);
            let answer = super::answer(&own);
            let found = answer.findings.iter().find(|finding| finding.kind == "conflicts");
            assert_eq!(found.map(|finding| finding.share), Some(share), "{sms} SMs");
        }
        own["sms"] = json!(1);
        // Lines that wait for a busy unit say what their accesses are like.
        own["lines"][1]["waits"] = json!({"ready": 50});
        own["lines"][2]["waits"] = json!({"ready": 60});
        own["stalls"] = json!({"unit_busy": 900});
        let busy = super::answer(&own);
        let notes: Vec<Option<&str>> =
            busy.findings[0].lines.iter().map(|line| line.note.as_deref()).collect();
        assert_eq!(notes, [Some(words), Some("4 cycles per access")]);
        assert!(find("issue").lines.iter().all(|line| line.waits_for.is_empty() && line.note.is_none()));
    }

    #[test]
    fn runs_without_time_have_no_bound() {
        let own = answer(&json!({"cycles": 0, "issued": 0, "stalls": {}}));
        assert_eq!((own.bound, own.findings.len()), ("", 0));
    }
}
