//! The figures of a `report.json` that metrics are made of, by name and type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim_core::report::DeviceReport;
use sim_memory::cache::CacheStats;

/// Figures of a run; none where the report has none. Counts are read as floating-point numbers: ratios are
/// made of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    pub dispatch_wait_cycles: Option<f64>,
    pub policy_entries: Option<f64>,
    pub policy_spilled_bytes: Option<f64>,
    pub memory: Memory,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<Tensor>,
    #[serde(skip_serializing)]
    pub machine: Machine,
}

/// Figures of tensor cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `sim_core::report`")]
pub struct Tensor {
    pub multiply_adds: f64,
    pub by_type: BTreeMap<String, f64>,
    pub busy_cycles: f64,
    pub active_cycles: f64,
}

/// Figures of the memory environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `sim_core::report`")]
pub struct Memory {
    pub accesses: Option<f64>,
    pub transactions: Option<f64>,
    pub bytes_useful: Option<f64>,
    pub bytes_moved: Option<f64>,
    pub conflict_cycles: Option<f64>,
    pub atomics: Option<f64>,
    pub local_transactions: Option<f64>,
    pub l1: Cache,
    pub l2: Cache,
    pub dram: Dram,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tlb: Option<Tlb>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tma: Option<Tma>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
    /// Latencies of loads in core cycles, by the level that had their bytes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub load_latency: BTreeMap<String, Percentiles>,
}

/// Figures of the TLBs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `sim_core::report`")]
pub struct Tlb {
    pub requests: f64,
    pub misses: f64,
    pub second_misses: f64,
}

/// Figures of the units that make bulk copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `sim_core::report`")]
pub struct Tma {
    pub copies: f64,
    pub loaded_bytes: f64,
    pub stored_bytes: f64,
    pub between_bytes: f64,
    pub busy_cycles: f64,
    pub active_cycles: f64,
}

/// Figures of accesses to other blocks of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `sim_core::report`")]
pub struct Remote {
    pub accesses: f64,
    pub packets: f64,
}

/// Figures of a level of caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `sim_memory::dram`")]
pub struct Dram {
    pub bytes: Option<f64>,
    pub row_hits: Option<f64>,
    pub row_misses: Option<f64>,
    pub row_conflicts: Option<f64>,
}

/// Latencies in core cycles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

/// Rates of the chip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in `crate::machine`")]
pub struct Machine {
    pub core_khz: Option<f64>,
    pub line_bytes: Option<f64>,
    pub warp_instructions_per_second: Option<f64>,
    pub l1_bytes_per_second: Option<f64>,
    pub l2_bytes_per_second: Option<f64>,
    pub dram_bytes_per_second: Option<f64>,
    pub tensor_multiply_adds_per_second: BTreeMap<String, f64>,
}

impl Figures {
    /// Those of a report.
    ///
    /// # Errors
    /// One of them is no number.
    pub fn read(report: &Value) -> Result<Self, String> {
        Self::deserialize(report).map_err(|error| error.to_string())
    }

    /// Those of nothing that ran: counts of zero.
    pub fn none() -> Self {
        Self::of(&DeviceReport::default())
    }

    /// The counters of a run. What the chip can do, and latencies, which cannot be summed, are left out.
    pub fn of(report: &DeviceReport) -> Self {
        let count = |value: u64| Some(value as f64);
        let of_all = Self {
            cycles: count(report.cycles),
            launch_cycles: count(report.launch_cycles),
            time_us: Some(report.time_us.micros()),
            launch_us: Some(report.launch_us.micros()),
            warp_instructions: count(report.warp_instructions),
            thread_instructions: count(report.thread_instructions),
            control_instructions: count(report.control_instructions),
            machine_instructions: count(report.machine_instructions),
            lane_utilisation_ppm: count(report.lane_utilisation_ppm),
            ..Self::default()
        };
        if report.is_sampled() {
            return of_all;
        }
        let cache = |stats: &CacheStats| Cache {
            hits: count(stats.hits),
            merges: count(stats.merges),
            misses: count(stats.misses),
            reservation_fails: count(stats.reservation_fails),
            write_backs: count(stats.write_backs),
        };
        let (memory, dram) = (&report.memory, &report.memory.dram);
        Self {
            issued: count(report.issued),
            stalls: report.stalls.iter().map(|(reason, slots)| (reason.clone(), *slots as f64)).collect(),
            warp_cycles: count(report.warp_cycles),
            warp_slots: count(report.warp_slots),
            dispatch_wait_cycles: count(report.dispatch_wait_cycles),
            policy_entries: count(report.policy_entries.into()),
            policy_spilled_bytes: count(report.policy_spilled_bytes),
            memory: Memory {
                accesses: count(memory.accesses),
                transactions: count(memory.transactions),
                bytes_useful: count(memory.bytes_useful),
                bytes_moved: count(memory.bytes_moved),
                conflict_cycles: count(memory.conflict_cycles),
                atomics: count(memory.atomics),
                local_transactions: count(memory.local_transactions),
                l1: cache(&memory.l1),
                l2: cache(&memory.l2),
                dram: Dram {
                    bytes: count(dram.bytes),
                    row_hits: count(dram.row_hits),
                    row_misses: count(dram.row_misses),
                    row_conflicts: count(dram.row_conflicts),
                },
                tlb: memory.tlb.map(|tlb| Tlb {
                    requests: tlb.requests as f64,
                    misses: tlb.misses as f64,
                    second_misses: tlb.second_misses as f64,
                }),
                tma: memory.tma.map(|tma| Tma {
                    copies: tma.copies as f64,
                    loaded_bytes: tma.loaded_bytes as f64,
                    stored_bytes: tma.stored_bytes as f64,
                    between_bytes: tma.between_bytes as f64,
                    busy_cycles: tma.busy_cycles as f64,
                    active_cycles: tma.active_cycles as f64,
                }),
                remote: memory.remote.map(|remote| Remote {
                    accesses: remote.accesses as f64,
                    packets: remote.packets as f64,
                }),
                load_latency: BTreeMap::new(),
            },
            tensor: report.tensor.as_ref().map(|tensor| Tensor {
                multiply_adds: tensor.multiply_adds as f64,
                by_type: tensor
                    .by_type
                    .iter()
                    .map(|(ty, count)| ((*ty).to_string(), *count as f64))
                    .collect(),
                busy_cycles: tensor.busy_cycles as f64,
                active_cycles: tensor.active_cycles as f64,
            }),
            ..of_all
        }
    }

    /// Adds the counters of another run.
    pub fn add(&mut self, other: &Self) {
        let instructions = [self.warp_instructions.unwrap_or(0.0), other.warp_instructions.unwrap_or(0.0)];
        let lanes = self.lane_utilisation_ppm.unwrap_or(0.0) * instructions[0]
            + other.lane_utilisation_ppm.unwrap_or(0.0) * instructions[1];
        self.lane_utilisation_ppm =
            Some(rate(lanes, instructions[0] + instructions[1], 1.0).unwrap_or(0.0).round());
        let entries = self.policy_entries.zip(other.policy_entries);
        self.policy_entries = entries.map(|(own, other)| own.max(other));
        for (own, other) in [
            (&mut self.cycles, other.cycles),
            (&mut self.launch_cycles, other.launch_cycles),
            (&mut self.time_us, other.time_us),
            (&mut self.launch_us, other.launch_us),
            (&mut self.warp_instructions, other.warp_instructions),
            (&mut self.thread_instructions, other.thread_instructions),
            (&mut self.control_instructions, other.control_instructions),
            (&mut self.machine_instructions, other.machine_instructions),
            (&mut self.issued, other.issued),
            (&mut self.warp_cycles, other.warp_cycles),
            (&mut self.warp_slots, other.warp_slots),
            (&mut self.dispatch_wait_cycles, other.dispatch_wait_cycles),
            (&mut self.policy_spilled_bytes, other.policy_spilled_bytes),
        ] {
            plus(own, other);
        }
        for (reason, slots) in &other.stalls {
            match self.stalls.get_mut(reason) {
                Some(own) => *own += slots,
                None => drop(self.stalls.insert(reason.clone(), *slots)),
            }
        }
        self.memory.add(&other.memory);
        // Runs without products have none, which is nothing to add.
        if let Some(more) = &other.tensor {
            let sum = self.tensor.get_or_insert_default();
            sum.multiply_adds += more.multiply_adds;
            sum.busy_cycles += more.busy_cycles;
            sum.active_cycles += more.active_cycles;
            for (ty, count) in &more.by_type {
                *sum.by_type.entry(ty.clone()).or_default() += count;
            }
        }
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

/// Adds a count; what is not known in one of the two is not known of both.
fn plus(own: &mut Option<f64>, other: Option<f64>) {
    *own = own.zip(other).map(|(own, other)| own + other);
}

impl Memory {
    fn add(&mut self, other: &Self) {
        for (own, other) in [
            (&mut self.accesses, other.accesses),
            (&mut self.transactions, other.transactions),
            (&mut self.bytes_useful, other.bytes_useful),
            (&mut self.bytes_moved, other.bytes_moved),
            (&mut self.conflict_cycles, other.conflict_cycles),
            (&mut self.atomics, other.atomics),
            (&mut self.local_transactions, other.local_transactions),
            (&mut self.dram.bytes, other.dram.bytes),
            (&mut self.dram.row_hits, other.dram.row_hits),
            (&mut self.dram.row_misses, other.dram.row_misses),
            (&mut self.dram.row_conflicts, other.dram.row_conflicts),
        ] {
            plus(own, other);
        }
        // Runs without TLBs, copies or packets have none, which is nothing to add.
        if let Some(more) = &other.tlb {
            let sum = self.tlb.get_or_insert_default();
            sum.requests += more.requests;
            sum.misses += more.misses;
            sum.second_misses += more.second_misses;
        }
        if let Some(more) = &other.tma {
            let sum = self.tma.get_or_insert_default();
            sum.copies += more.copies;
            sum.loaded_bytes += more.loaded_bytes;
            sum.stored_bytes += more.stored_bytes;
            sum.between_bytes += more.between_bytes;
            sum.busy_cycles += more.busy_cycles;
            sum.active_cycles += more.active_cycles;
        }
        if let Some(more) = &other.remote {
            let sum = self.remote.get_or_insert_default();
            sum.accesses += more.accesses;
            sum.packets += more.packets;
        }
        self.l1.add(&other.l1);
        self.l2.add(&other.l2);
        self.load_latency.clear();
    }

    /// Latencies of the loads that a level served.
    pub fn loads(&self, level: &str) -> Option<&Percentiles> {
        self.load_latency.get(level)
    }
}

impl Cache {
    fn add(&mut self, other: &Self) {
        for (own, other) in [
            (&mut self.hits, other.hits),
            (&mut self.merges, other.merges),
            (&mut self.misses, other.misses),
            (&mut self.reservation_fails, other.reservation_fails),
            (&mut self.write_backs, other.write_backs),
        ] {
            plus(own, other);
        }
    }

    /// Accesses that hit, in percent of all. One that waits for a miss under way is no hit.
    pub fn hit_rate(&self) -> Option<f64> {
        rate(self.hits?, self.hits? + self.merges? + self.misses?, 100.0)
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
