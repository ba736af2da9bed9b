//! The figures of a `report.json` that metrics are made of, by name and type.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Figures of a run; none where the report has none. Counts are read as floating-point numbers: ratios are
/// made of them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `sim_core::report`")]
pub struct Figures {
    pub cycles: Option<f64>,
    pub launch_cycles: Option<f64>,
    pub time_us: Option<f64>,
    pub launch_us: Option<f64>,
    pub warp_instructions: Option<f64>,
    pub thread_instructions: Option<f64>,
    pub control_instructions: Option<f64>,
    pub machine_instructions: Option<f64>,
    pub lane_utilisation_ppm: Option<f64>,
    pub issued: Option<f64>,
    /// Issue slots without an issue, by reason.
    pub stalls: BTreeMap<String, f64>,
    pub warp_cycles: Option<f64>,
    pub warp_slots: Option<f64>,
    pub policy_entries: Option<f64>,
    pub policy_spilled_bytes: Option<f64>,
    pub memory: Memory,
    pub machine: Machine,
}

/// Figures of the memory environment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `sim_core::report`")]
pub struct Memory {
    pub accesses: Option<f64>,
    pub transactions: Option<f64>,
    pub bytes_useful: Option<f64>,
    pub bytes_moved: Option<f64>,
    pub conflict_cycles: Option<f64>,
    pub atomics: Option<f64>,
    pub l1: Cache,
    pub l2: Cache,
    pub dram: Dram,
    /// Latencies of loads in core cycles, by the level that had their bytes.
    pub load_latency: BTreeMap<String, Percentiles>,
}

/// Figures of a level of caches.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `sim_memory::cache`")]
pub struct Cache {
    pub hits: Option<f64>,
    pub merges: Option<f64>,
    pub misses: Option<f64>,
    pub reservation_fails: Option<f64>,
    pub write_backs: Option<f64>,
}

/// Figures of DRAM.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `sim_memory::dram`")]
pub struct Dram {
    pub bytes: Option<f64>,
    pub row_hits: Option<f64>,
    pub row_misses: Option<f64>,
    pub row_conflicts: Option<f64>,
}

/// Latencies in core cycles.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

/// Rates of the chip.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `crate::machine`")]
pub struct Machine {
    pub core_khz: Option<f64>,
    pub line_bytes: Option<f64>,
    pub warp_instructions_per_second: Option<f64>,
    pub l1_bytes_per_second: Option<f64>,
    pub l2_bytes_per_second: Option<f64>,
    pub dram_bytes_per_second: Option<f64>,
}

impl Figures {
    /// Those of a report.
    ///
    /// # Errors
    /// One of them is no number.
    pub fn read(report: &Value) -> Result<Self, String> {
        Self::deserialize(report).map_err(|error| error.to_string())
    }

    /// Issue slots without an issue for this reason.
    pub fn stall(&self, reason: &str) -> Option<f64> {
        self.stalls.get(reason).copied()
    }

    /// All issue slots: those with an issue, and the stalls.
    pub fn issue_slots(&self) -> Option<f64> {
        Some(self.issued? + self.stalls.values().sum::<f64>())
    }

    /// So many slots in percent of all.
    pub fn of_slots(&self, slots: f64) -> Option<f64> {
        rate(slots, self.issue_slots()?, 100.0)
    }

    /// What the run did, in percent of what a rate would have done in its time.
    pub fn of_peak(&self, amount: f64, a_second: f64) -> Option<f64> {
        let seconds = self.cycles? / (self.machine.core_khz? * 1000.0);
        rate(amount, seconds * a_second, 100.0)
    }
}

impl Memory {
    /// Latencies of the loads that a level served.
    pub fn loads(&self, level: &str) -> Option<&Percentiles> {
        self.load_latency.get(level)
    }
}

impl Cache {
    /// Accesses that hit or merged, in percent of all.
    pub fn hit_rate(&self) -> Option<f64> {
        let found = self.hits? + self.merges?;
        rate(found, found + self.misses?, 100.0)
    }
}

impl Dram {
    /// Bursts that found their row open, in percent of all.
    pub fn row_hit_rate(&self) -> Option<f64> {
        rate(self.row_hits?, self.row_hits? + self.row_misses? + self.row_conflicts?, 100.0)
    }
}

/// `above` in so many parts of `below`; none of nothing.
pub fn rate(above: f64, below: f64, parts: f64) -> Option<f64> {
    (below > 0.0).then_some(above * parts / below)
}
