//! The memory environment's part of a chip file: plain data, checked before anything is built.

use serde::Deserialize;

use crate::coalescing::Coalescing;
use crate::programs::{Choices, Protocol};

/// How an address picks its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexFunction {
    /// The low bits of the line number.
    Linear,
    /// The line number folded onto its low bits by exclusive or.
    Xor,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Bytes of data (of one slice, for L2).
    pub size_bytes: u32,
    /// Ways of a set.
    pub ways: u32,
    /// Bytes a miss fetches at least: a power of two from 32 to 128.
    pub sector_bytes: u32,
    /// Misses in flight.
    pub mshrs: u32,
    /// Accesses that one miss can serve.
    pub mshr_merges: u32,
    /// Cycles of the core clock from access to data (L2: from arrival to reply).
    pub hit_latency: u32,
    /// How an address picks its set.
    pub index: IndexFunction,
}

impl CacheSpec {
    /// Number of sets.
    pub fn sets(&self) -> u32 {
        self.size_bytes / (LINE_BYTES * self.ways.max(1))
    }
}

/// Bytes of a cache line, everywhere.
pub const LINE_BYTES: u32 = 128;

/// The network between SMs and partitions, one port each way for each of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterconnectSpec {
    /// Cycles of the core clock from one end to the other.
    pub latency: u32,
    /// Bytes an SM sends per cycle.
    pub request_bytes_per_cycle: u32,
    /// Bytes a partition sends per cycle.
    pub reply_bytes_per_cycle: u32,
    /// Bytes a message has besides its data.
    pub header_bytes: u32,
}

/// Shared memory's part.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedSpec {
    /// Cycles of the core clock from issue to data, without conflicts.
    pub latency: u32,
    /// The same for an atomic.
    pub atomic_latency: u32,
}

/// The constant cache's part.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantSpec {
    /// Cycles of the core clock from issue to data, all lanes at one address.
    pub hit_latency: u32,
}

/// Timing of one DRAM channel in cycles of its command clock.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(non_snake_case, reason = "the names are JEDEC's")]
#[allow(missing_docs, reason = "the names are JEDEC's")]
pub struct DramTiming {
    pub CCD: u32,
    pub CCDL: u32,
    pub RRD: u32,
    pub RCD: u32,
    pub RAS: u32,
    pub RP: u32,
    pub RC: u32,
    pub CL: u32,
    pub WL: u32,
    pub CDLR: u32,
    pub WR: u32,
    pub RTPL: u32,
}

/// One DRAM channel: the memory behind one partition.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramSpec {
    /// Banks.
    pub banks: u32,
    /// Bank groups.
    pub bank_groups: u32,
    /// Bytes of a row.
    pub row_bytes: u32,
    /// Bytes of one burst.
    pub burst_bytes: u32,
    /// Cycles of the command clock one burst holds the data bus.
    pub burst_cycles: u32,
    /// Cycles of the core clock between the channel and the partition, besides the commands.
    pub latency: u32,
    /// Requests the scheduler sees.
    pub queue: u32,
    /// Constraints.
    pub timing: DramTiming,
}

/// The memory environment of a chip.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySpec {
    /// Set of memory programs.
    pub protocol: Protocol,
    /// Programs in place of the protocol's, by operation: names of shipped ones, or files.
    #[serde(default)]
    pub programs: Choices,
    /// How a warp's access to global memory becomes transactions.
    pub coalescing: Coalescing,
    /// L1 of one SM.
    pub l1: CacheSpec,
    /// L2 of one partition.
    pub l2: CacheSpec,
    /// Partitions: one L2 slice and one DRAM channel each.
    pub partitions: u32,
    /// Bytes that lie in one partition before the next takes over: a multiple of 128.
    pub interleave_bytes: u32,
    /// Requests a partition starts per cycle of the core clock, over this many cycles.
    pub partition_interval: u32,
    /// Stores, reductions and atomics an SM has outstanding at most.
    pub store_tokens: u32,
    /// Line accesses that wait in the load-store unit before it takes no more.
    pub lsu_queue: u32,
    /// The network.
    pub interconnect: InterconnectSpec,
    /// Shared memory.
    pub shared: SharedSpec,
    /// Constant cache.
    pub constant: ConstantSpec,
    /// DRAM.
    pub dram: DramSpec,
}

/// A value that no chip can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The key, from the memory section.
    pub path: &'static str,
    /// Why not.
    pub reason: String,
}

impl MemorySpec {
    /// Everything that is wrong with the values.
    pub fn validate(&self) -> Vec<SpecError> {
        let mut errors = Vec::new();
        let mut check = |good: bool, path: &'static str, reason: String| {
            if !good {
                errors.push(SpecError { path, reason });
            }
        };
        for (path, cache) in [("l1", &self.l1), ("l2", &self.l2)] {
            let line_bytes = u64::from(cache.ways) * u64::from(LINE_BYTES);
            check(
                cache.ways > 0
                    && cache.size_bytes > 0
                    && u64::from(cache.size_bytes).is_multiple_of(line_bytes.max(1)),
                path,
                format!("size_bytes must be a multiple of ways × {LINE_BYTES}"),
            );
            check(
                cache.sector_bytes.is_power_of_two() && (32..=128).contains(&cache.sector_bytes),
                path,
                "sector_bytes must be 32, 64 or 128".into(),
            );
            check(cache.mshrs > 0 && cache.mshr_merges > 0, path, "needs at least one MSHR".into());
            check(cache.hit_latency > 0, path, "hit_latency must be positive".into());
        }
        check((1..=1024).contains(&self.partitions), "partitions", "must lie in 1..=1024".into());
        check(
            self.interleave_bytes > 0 && self.interleave_bytes.is_multiple_of(LINE_BYTES),
            "interleave_bytes",
            format!("must be a positive multiple of {LINE_BYTES}"),
        );
        check(self.partition_interval > 0, "partition_interval", "must be positive".into());
        check(self.store_tokens > 0, "store_tokens", "must be positive".into());
        check(self.lsu_queue > 0, "lsu_queue", "must be positive".into());
        let net = &self.interconnect;
        check(net.latency > 0, "interconnect", "latency must be positive".into());
        check(
            net.request_bytes_per_cycle > 0 && net.reply_bytes_per_cycle > 0,
            "interconnect",
            "bytes per cycle must be positive".into(),
        );
        let dram = &self.dram;
        check(
            dram.banks > 0 && dram.bank_groups > 0 && dram.banks.is_multiple_of(dram.bank_groups),
            "dram",
            "banks must be a positive multiple of bank_groups".into(),
        );
        check(
            dram.row_bytes >= LINE_BYTES && dram.row_bytes.is_multiple_of(LINE_BYTES),
            "dram",
            format!("row_bytes must be a positive multiple of {LINE_BYTES}"),
        );
        check(
            dram.burst_bytes.is_power_of_two() && dram.burst_bytes <= LINE_BYTES && dram.burst_bytes >= 8,
            "dram",
            "burst_bytes must be a power of two from 8 to 128".into(),
        );
        check(
            dram.burst_cycles > 0 && dram.queue > 0,
            "dram",
            "burst_cycles and queue must be positive".into(),
        );
        errors
    }
}

/// Frequencies in kilohertz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// SMs, interconnect and L2.
    pub core_khz: u64,
    /// DRAM's command clock.
    pub dram_khz: u64,
}

impl Clocks {
    /// The first DRAM cycle that does not begin before this core cycle.
    #[inline]
    pub fn to_dram(&self, core: u64) -> u64 {
        convert(core, self.dram_khz, self.core_khz)
    }

    /// The first core cycle that does not begin before this DRAM cycle.
    #[inline]
    pub fn to_core(&self, dram: u64) -> u64 {
        convert(dram, self.core_khz, self.dram_khz)
    }
}

/// `ceil(cycle * to / from)` from the absolute cycle number, so that rounding never adds up.
fn convert(cycle: u64, to: u64, from: u64) -> u64 {
    match cycle.checked_mul(to) {
        Some(product) => product.div_ceil(from.max(1)),
        None => (u128::from(cycle) * u128::from(to)).div_ceil(u128::from(from.max(1))) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_keeps_its_bandwidth_across_clocks() {
        let clocks = Clocks { core_khz: 700_000, dram_khz: 924_000 };
        // A million bursts of two DRAM cycles each end where exact arithmetic says.
        assert_eq!(clocks.to_core(2_000_000), 1_515_152);
        assert_eq!(clocks.to_dram(clocks.to_core(924)), 924);
        for cycle in 0..2000 {
            let there = clocks.to_dram(cycle);
            assert!(clocks.to_core(there) >= cycle);
            assert!(there * 700_000 >= cycle * 924_000);
            assert!(there == 0 || (there - 1) * 700_000 < cycle * 924_000);
        }
    }
}
