//! Verdicts as JSON and as text.

use std::fmt::Write;

use serde::Serialize;
use sim_verify::sync::View;

/// Of what kind a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Proved.
    Verified,
    /// Not decided.
    Unknown,
    /// Something is wrong.
    Finding,
}

impl Kind {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Unknown => "unknown",
            Self::Finding => "finding",
        }
    }
}

/// A place in a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The PTX file.
    pub file: String,
    /// Its line.
    pub line: u32,
    /// The instruction.
    pub instruction: String,
    /// File and line that it was compiled from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Place {
    /// As text.
    pub fn text(&self) -> String {
        let source = self.source.as_ref().map_or(String::new(), |source| format!(", {source}"));
        format!("{}:{} (`{}`{source})", self.file, self.line, self.instruction)
    }
}

/// What a thread does in a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Act {
    /// Its index in the block.
    pub thread: [u32; 3],
    /// Its warp.
    pub warp: u32,
    /// Threads that do the same, itself among them.
    pub threads: u32,
    /// The rank of its block in a cluster of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// In words.
    pub does: String,
    /// The barrier, of an operation of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub barrier: Option<u32>,
    /// Which use of it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The address in shared memory, of an access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<u32>,
    /// Its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// Where.
    pub place: Place,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `deadlock`, `unsafe_recycling`, `count_mismatch`, `too_many`, `wrong_phase`, `copy_not_awaited`, `race` or
    /// `barrier_misuse`.
    pub kind: &'static str,
    /// What is wrong.
    pub message: String,
    /// How often at these places.
    pub count: u64,
    /// Who does what.
    pub acts: Vec<Act>,
    /// Of a deadlock: the last steps of a schedule that leads to it, and how many steps come before them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<Act>,
    /// Steps of the schedule that are left out.
    pub schedule_before: u64,
    /// Why, or what keeps it from being right.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

/// What the proof needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "named in docs/synchronisation.md")]
pub struct Needed {
    pub threads: u32,
    pub groups: u32,
    pub barriers: u32,
    pub generations: u32,
    pub dynamic_barriers: u64,
    pub barrier_operations: u64,
    pub accesses: u64,
    pub bytes: u64,
    pub pairs: u64,
}

/// The verdict by one view of warps.
#[derive(Clone, Debug, Serialize)]
pub struct ViewVerdict {
    /// The view.
    pub view: View,
    /// The verdict.
    pub verdict: Kind,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Why it is not decided, and where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Barriers that are left with arrivals when all threads have returned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_open: Vec<Act>,
    /// What it needed.
    pub needed: Needed,
}

/// The verdict on the thread programs of some blocks.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramVerdict {
    /// The first of these blocks.
    pub block: [u32; 3],
    /// How many have these programs.
    pub blocks: u64,
    /// By view.
    pub views: Vec<ViewVerdict>,
}

/// The verdict on a launch.
#[derive(Clone, Debug, Serialize)]
pub struct KernelVerdict {
    /// The kernel.
    pub kernel: String,
    /// The number of the launch, from 0.
    pub launch: u32,
    /// Blocks of its grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block_size: [u32; 3],
    /// Blocks that were decided.
    pub blocks: u64,
    /// The view of the chip's warps, whose verdict counts.
    pub view: View,
    /// The first place where what other threads write decides about synchronization: the verdict is then for these inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends: Option<Place>,
    /// The first place where an atomic operation acquires what another one has released: the verdict is then for the order
    /// in which this run executed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub atomics: Option<Place>,
    /// By thread programs.
    pub programs: Vec<ProgramVerdict>,
}

impl KernelVerdict {
    /// The verdict by a view.
    pub fn by(&self, view: View) -> Kind {
        let all = self.programs.iter().flat_map(|program| &program.views);
        all.filter(|v| v.view == view).map(|v| v.verdict).max().unwrap_or(Kind::Verified)
    }

    /// The verdict that counts.
    pub fn verdict(&self) -> Kind {
        self.by(self.view)
    }
}

/// The verdicts on a run.
#[derive(Clone, Debug, Serialize)]
pub struct SyncReport {
    /// Version of the format.
    pub schema: u32,
    /// The workload or file.
    pub workload: String,
    /// Its variant.
    pub variant: String,
    /// The chip.
    pub chip: String,
    /// The verdict.
    pub verdict: Kind,
    /// By launch.
    pub launches: Vec<KernelVerdict>,
    /// What it cost; the only part that differs between two runs.
    pub host: Host,
}

/// What a proof cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Host {
    /// Seconds, the run included.
    pub seconds: f64,
    /// Most memory that the process had.
    pub peak_memory_bytes: u64,
}

/// Findings of a block that the text tells of.
const MOST_TOLD: usize = 4;

fn view_words(view: View) -> &'static str {
    match view {
        View::Threads => "independent threads",
        View::Lockstep => "warps in lockstep",
    }
}

impl SyncReport {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for launch in &self.launches {
            launch.text(&mut out);
        }
        let Host { seconds, peak_memory_bytes } = self.host;
        let _ = writeln!(
            out,
            "verdict: {} ({} on {}; {seconds:.2} s, {} MiB)",
            self.verdict.word(),
            self.workload,
            self.chip,
            peak_memory_bytes >> 20
        );
        out
    }
}

impl KernelVerdict {
    fn text(&self, out: &mut String) {
        let inputs = match (&self.depends, &self.atomics) {
            (_, Some(_)) => "for these inputs and this order of atomic operations",
            (Some(_), None) => "for these inputs",
            (None, None) => "for all inputs of these sizes",
        };
        let _ = writeln!(
            out,
            "kernel {} (launch {}): {}, {inputs}; blocks: {}, distinct thread programs: {}",
            self.kernel,
            self.launch,
            self.verdict().word(),
            self.blocks,
            self.programs.len()
        );
        if let Some(place) = &self.depends {
            let _ = writeln!(
                out,
                "  values in memory may decide how threads synchronize, first at {}",
                place.text()
            );
        }
        if let Some(place) = &self.atomics {
            let _ = writeln!(
                out,
                "  atomic operations order threads as they did in this run, first at {}",
                place.text()
            );
        }
        let other = if self.view == View::Threads { View::Lockstep } else { View::Threads };
        let (own, others) = (self.by(self.view), self.by(other));
        let _ = writeln!(out, "  {}: {} (applies to this chip)", view_words(self.view), own.word());
        let _ = writeln!(out, "  {}: {}", view_words(other), others.word());
        if own == Kind::Verified && others == Kind::Finding && other == View::Threads {
            let _ =
                writeln!(out, "  relies on warps that run in lockstep: wrong from compute capability 7.0 on");
        }
        if own == Kind::Finding && others == Kind::Verified && other == View::Lockstep {
            let _ = writeln!(out, "  right only where warps run in lockstep, before compute capability 7.0");
        }
        for program in &self.programs {
            for view in &program.views {
                let matters = view.view == self.view || others != own;
                if matters && (view.verdict != Kind::Verified || view.view == self.view) {
                    program.text(view, self.view, out);
                }
            }
        }
    }
}

impl ProgramVerdict {
    fn text(&self, view: &ViewVerdict, own: View, out: &mut String) {
        let [x, y, z] = self.block;
        let more =
            if self.blocks > 1 { format!(" and {} more like it", self.blocks - 1) } else { String::new() };
        let by = if view.view == own { String::new() } else { format!(", {}", view_words(view.view)) };
        let _ = writeln!(out, "  block ({x}, {y}, {z}){more}{by}:");
        if let Some(reason) = &view.reason {
            let _ = writeln!(out, "    unknown: {reason}");
        }
        for finding in view.findings.iter().take(MOST_TOLD) {
            finding.text(out);
        }
        if view.findings.len() > MOST_TOLD {
            let left = view.findings.len() - MOST_TOLD;
            let _ = writeln!(out, "    findings at other places: {left} (--json lists them)");
        }
        for act in &view.left_open {
            let _ = writeln!(out, "    note: {}", act.text());
        }
        let n = view.needed;
        let _ = writeln!(
            out,
            "    size of the proof: threads: {} in {} groups; barriers: {}, used {} times in total and at most {} times each; barrier operations: {}; \
             accesses: {} to {} bytes; pairs tested: {}",
            n.threads,
            n.groups,
            n.barriers,
            n.dynamic_barriers,
            n.generations,
            n.barrier_operations,
            n.accesses,
            n.bytes,
            n.pairs
        );
    }
}

impl Act {
    /// As a sentence.
    pub fn text(&self) -> String {
        let [x, y, z] = self.thread;
        let of = self.rank.map_or(String::new(), |rank| format!(" of block {rank} of the cluster"));
        let more = if self.threads > 1 { format!(" and {} more", self.threads - 1) } else { String::new() };
        format!(
            "thread ({x}, {y}, {z}) of warp {}{of}{more} {} at {}",
            self.warp,
            self.does,
            self.place.text()
        )
    }
}

impl Finding {
    fn text(&self, out: &mut String) {
        let count = if self.count > 1 { format!(" ({} like it)", self.count) } else { String::new() };
        let _ = writeln!(out, "    {}: {}{count}", self.kind.replace('_', " "), self.message);
        for act in &self.acts {
            let _ = writeln!(out, "      {}", act.text());
        }
        for why in &self.why {
            let _ = writeln!(out, "      {why}");
        }
        if !self.schedule.is_empty() {
            let before = match self.schedule_before {
                0 => String::new(),
                n => format!(" after {n} other steps"),
            };
            let _ = writeln!(out, "      a schedule that leads to it{before}:");
            for act in &self.schedule {
                let _ = writeln!(out, "        {}", act.text());
            }
        }
    }
}
