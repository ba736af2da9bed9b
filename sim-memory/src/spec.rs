//! The memory environment's part of a chip file: plain data, checked before anything is built.

mod cache;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::coalescing::Coalescing;
use crate::divide::Divisor;
use crate::hundredths::Hundredths;
use crate::line::LINE_BYTES;
use crate::programs::{Choice, Choices, Protocol};
use crate::shared::BankRule;
use crate::tlb::TlbSpec;
pub use cache::{CacheSpec, IndexFunction};

/// The network between SMs and partitions, one port each way for each of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterconnectSpec {
    /// Cycles of the core clock from one end to the other.
    #[schemars(range(min = 1, max = 100_000))]
    pub latency: u32,
    /// Bytes an SM sends per cycle.
    #[schemars(range(min = 1, max = 65_536))]
    pub request_bytes_per_cycle: u32,
    /// Bytes a partition sends per cycle.
    #[schemars(range(min = 1, max = 65_536))]
    pub reply_bytes_per_cycle: u32,
    /// Bytes of data that an SM accepts per cycle; without a limit where none is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_536))]
    pub accepted_bytes_per_cycle: Option<u32>,
    /// Bytes a message has besides its data.
    #[schemars(range(min = 0, max = 65_536))]
    pub header_bytes: u32,
    /// Bytes a message has for each sector of L2 that it performs atomics in, besides their operands.
    #[serde(default)]
    #[schemars(range(min = 0, max = 65_536))]
    pub atomic_sector_bytes: u32,
    /// Largest additional latency between an SM and a partition, in cycles of the core clock, each way. Each pair has a
    /// latency of its own, from `latency` to `latency + spread`, most of them nearer to `latency`, so messages of an SM to
    /// different partitions may overtake each other.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 100_000))]
    pub spread: u32,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl InterconnectSpec {
    /// Hundredths of a cycle for which a reply with so many bytes of data keeps its partition's port: one cycle at least.
    #[inline]
    pub fn time_of_reply(&self, payload: u32) -> u64 {
        let hundredths = Hundredths::CYCLE.times(self.header_bytes + payload);
        hundredths.div_ceil(self.reply_bytes_per_cycle.into()).max(Hundredths::CYCLE.times(1))
    }

    /// Additional latency between an SM and a partition: a fixed function of both, so that a run is the same on every
    /// machine. It is `spread` times the cube of a uniform number (the finalizer of splitmix64 over the pair): with most
    /// pairs near and some far, a message often overtakes another by more than a round trip, which a third party can
    /// observe.
    pub fn distance(&self, sm: u32, partition: u32) -> u64 {
        if self.spread == 0 {
            return 0;
        }
        let mut z = (u64::from(sm) << 32 | u64::from(partition)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = u128::from((z ^ (z >> 31)) >> 32);
        ((uniform.pow(3) * (u128::from(self.spread) + 1)) >> 96) as u64
    }
}

/// Shared memory's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedSpec {
    /// Cycles of the core clock from issue to data, without conflicts.
    #[schemars(range(min = 0, max = 100_000))]
    pub latency: u32,
    /// Cycles of the core clock that each further turn of lanes that conflict in a bank adds to the latency of a load. The banks are in use
    /// for `turn_interval` of it.
    #[serde(default = "one_cycle")]
    #[schemars(range(min = 1, max = 1000))]
    pub conflict_latency: u32,
    /// Cycles of the core clock for which the banks are in use in each turn: 2 where they move 64 bytes in a cycle.
    #[serde(default = "one_cycle")]
    #[schemars(range(min = 1, max = 1000))]
    pub turn_interval: u32,
    /// Cycles of the core clock from the issue of an atomic to its data, without conflicts.
    #[schemars(range(min = 0, max = 100_000))]
    pub atomic_latency: u32,
    /// Cycles of the core clock for which an atomic locks its banks. Default: its whole latency, as on
    /// chips whose shared atomics are a lock, a load and a store.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub atomic_interval: Option<u32>,
    /// When lanes conflict in a bank.
    pub banks: BankRule,
}

/// One array for L1 and shared memory, partitioned again for the grids of each run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnifiedSpec {
    /// Bytes of both together.
    #[schemars(range(min = 0, max = 1_048_576))]
    pub size_bytes: u32,
    /// The sizes shared memory can have, ascending.
    #[schemars(inner(range(min = 0, max = 1_048_576)))]
    pub shared_bytes: Vec<u32>,
    /// Size of shared memory. Default: the smallest that holds all blocks that can be resident on an SM.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_048_576))]
    pub carveout_bytes: Option<u32>,
}

impl UnifiedSpec {
    /// Bytes of shared memory to configure if the blocks of an SM need `shared` bytes.
    pub fn carveout(&self, shared: u32) -> u32 {
        let fits = self.shared_bytes.iter().copied().find(|bytes| *bytes >= shared);
        let most = self.shared_bytes.last().copied();
        self.carveout_bytes.or(fits).or(most).unwrap_or(0)
    }
}

/// The constant cache's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConstantSpec {
    /// Cycles of the core clock from issue to data, all lanes at one address.
    #[schemars(range(min = 0, max = 100_000))]
    pub hit_latency: u32,
    /// Cycles of the core clock for each further address that the lanes name.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 10_000))]
    pub address_interval: Hundredths,
    /// Cycles of the core clock from issue to data where a register names the address. Default: `hit_latency`.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub indexed_latency: Option<u32>,
    /// The first cache of an SM; none: every constant is there. Parameters always are.
    #[serde(default)]
    pub cache: Option<ConstantCacheSpec>,
}

/// The first constant cache of an SM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConstantCacheSpec {
    /// Bytes.
    #[schemars(range(min = 16, max = 16_777_216))]
    pub bytes: u32,
    /// Ways; the least recently used line of a set is replaced.
    #[schemars(range(min = 1, max = 1024))]
    pub ways: u32,
    /// Bytes of a line.
    #[schemars(range(min = 16, max = 4096))]
    pub line_bytes: u32,
    /// Cycles of the core clock that each line takes from the cache behind it, one after another.
    #[schemars(range(min = 0, max = 10_000))]
    pub miss_interval: Hundredths,
}

impl ConstantCacheSpec {
    /// Sets of ways.
    pub fn sets(&self) -> u32 {
        self.bytes / self.line_bytes.max(1) / self.ways.max(1)
    }
}

fn one_cycle() -> u32 {
    1
}

fn one() -> Hundredths {
    Hundredths::CYCLE
}

/// The queue of writes of a DRAM channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteQueueSpec {
    /// Writes it holds; evictions wait while it is full.
    #[schemars(range(min = 1, max = 65_536))]
    pub entries: u32,
    /// Number of queued writes from which on writes are served before reads.
    #[schemars(range(min = 1, max = 65_536))]
    pub high: u32,
    /// Writes are served before reads until fewer than this number are queued or `high` - `low` were served; then as many
    /// reads come first.
    #[schemars(range(min = 1, max = 65_536))]
    pub low: u32,
}

/// One DRAM channel: the memory behind one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramSpec {
    /// Number of banks.
    #[schemars(range(min = 1, max = 64))]
    pub banks: u32,
    /// Number of bank groups.
    #[schemars(range(min = 1, max = 64))]
    pub bank_groups: u32,
    /// Bytes of a row.
    #[schemars(range(min = 128, max = 1_048_576))]
    pub row_bytes: u32,
    /// Consecutive bytes in one bank group.
    #[schemars(range(min = 128, max = 1_048_576))]
    pub group_interleave_bytes: u32,
    /// Bytes of one burst.
    #[schemars(range(min = 8, max = 128))]
    pub burst_bytes: u32,
    /// Cycles of the command clock one burst holds the data bus.
    #[schemars(range(min = 1, max = 1024))]
    pub burst_cycles: u32,
    /// Cycles of the core clock between the channel and the partition, besides the commands.
    #[schemars(range(min = 0, max = 100_000))]
    pub latency: u32,
    /// Capacity of the read queue, from which the scheduler chooses.
    #[schemars(range(min = 1, max = 65_536))]
    pub queue: u32,
    /// The queue of writes.
    pub write_queue: WriteQueueSpec,
    /// Maximum number of younger requests that are served before the oldest of the queue.
    #[schemars(range(min = 1, max = 65_536))]
    pub overtaking_limit: u32,
    /// Its constraints: a shipped standard by name, or a file.
    pub standard: Choice,
    /// The standard's parameters, in cycles of the command clock.
    #[schemars(transform = timing_bounds)]
    pub timing: BTreeMap<String, u32>,
}

fn timing_bounds(schema: &mut schemars::Schema) {
    if let Some(value) = schema.get_mut("additionalProperties").and_then(|value| value.as_object_mut()) {
        value.insert("minimum".into(), 0.into());
        value.insert("maximum".into(), 100_000.into());
    }
}

/// How long requests that write keep a bank of an L2 slice, in cycles of the core clock with two decimals, at least
/// `partition_interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SliceWrites {
    /// For each sector that a store or a write-back of L1 writes.
    #[schemars(range(min = 0, max = 10_000))]
    pub sector: Hundredths,
    /// For each sector that an atomic acts on: lanes with different addresses in it are one step.
    #[schemars(range(min = 0, max = 10_000))]
    pub atomic_sector: Hundredths,
    /// For each further lane that acts on the most contended address of the sector.
    #[schemars(range(min = 0, max = 10_000))]
    pub atomic_address: Hundredths,
    /// The same for sums of floating-point numbers.
    #[schemars(range(min = 0, max = 10_000))]
    pub atomic_float: Hundredths,
}

impl Default for SliceWrites {
    fn default() -> Self {
        let one = Hundredths::CYCLE;
        Self { sector: Hundredths::default(), atomic_sector: one, atomic_address: one, atomic_float: one }
    }
}

/// How long reads keep a bank of an L2 slice, in cycles of the core clock, besides `partition_interval`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceReads {
    /// For each sector that a load reads.
    #[schemars(range(min = 0, max = 10_000))]
    pub sector: Hundredths,
    /// For each sector that comes from DRAM.
    #[schemars(range(min = 0, max = 10_000))]
    pub fill: Hundredths,
}

/// L2 in two halves. Partitions belong to them in turn. A line has its place in one; a slice of the other keeps a copy of what the
/// SMs of that other half read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HalvesSpec {
    /// Additional cycles of the core clock of a request that crosses to the other half, with its reply.
    #[schemars(range(min = 0, max = 100_000))]
    pub latency: u32,
    /// Ways of a slice that have copies of lines of the other half.
    #[schemars(range(min = 1, max = 1024))]
    pub copy_ways: u32,
    /// Consecutive SMs that belong to one half; the next as many belong to the other. 0: L2 is one.
    #[schemars(range(min = 0, max = 1023))]
    pub sms: u32,
}

/// The memory environment of a chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemorySpec {
    /// Set of memory programs.
    pub protocol: Protocol,
    /// Programs in place of the protocol's, by operation: names of shipped ones, or files.
    #[serde(default)]
    pub programs: Choices,
    /// How a warp's access to global memory becomes transactions.
    pub coalescing: Coalescing,
    /// L1 of one SM, with shared memory at its largest.
    pub l1: CacheSpec,
    /// How L1 and shared memory share one array, on chips on which they do.
    #[serde(default)]
    pub unified: Option<UnifiedSpec>,
    /// L2 of one partition.
    pub l2: CacheSpec,
    /// Bytes that a load which misses L2 brings from DRAM, with those around what it asks for: multiples of these, without those that
    /// L2 has. 32, 64 or 128; default: `l2.sector_bytes`.
    #[serde(default)]
    #[schemars(range(min = 32, max = 128))]
    pub l2_fetch_bytes: Option<u32>,
    /// Copies from the host to the device allocate their lines in L2.
    pub copies_fill_l2: bool,
    /// Partitions: one L2 slice and one DRAM channel each.
    #[schemars(range(min = 1, max = 1024))]
    pub partitions: u32,
    /// Consecutive bytes in one partition: a multiple of 128.
    #[schemars(range(min = 128, max = 1_048_576))]
    pub interleave_bytes: u32,
    /// Cycles of the core clock between the starts of two requests in a bank of an L2 slice.
    #[schemars(range(min = 1, max = 100_000))]
    pub partition_interval: u32,
    /// Banks of an L2 slice, by line: each starts requests of its own.
    #[schemars(range(min = 1, max = 64))]
    pub slice_banks: u32,
    /// How long what reads keeps a bank of a slice.
    #[serde(default)]
    pub slice_reads: SliceReads,
    /// The two halves of L2, on chips that have them.
    #[serde(default)]
    pub l2_halves: Option<HalvesSpec>,
    /// How long what writes keeps a bank of a slice.
    #[serde(default)]
    pub slice_writes: SliceWrites,
    /// Maximum number of outstanding stores, reductions and atomics of an SM.
    #[schemars(range(min = 1, max = 65_536))]
    pub store_tokens: u32,
    /// Capacity of the load-store unit's queue, in line accesses.
    #[schemars(range(min = 1, max = 65_536))]
    pub lsu_queue: u32,
    /// Capacity of an SM's queue of requests for its interconnect port; the load-store unit stalls when
    /// it is full.
    #[schemars(range(min = 1, max = 65_536))]
    pub miss_queue: u32,
    /// Translation lookaside buffers of an SM, on chips of which their times are known.
    #[serde(default)]
    pub tlb: Option<TlbSpec>,
    /// Network between SMs and partitions.
    pub interconnect: InterconnectSpec,
    /// Shared memory of an SM.
    pub shared: SharedSpec,
    /// Constant cache of an SM.
    pub constant: ConstantSpec,
    /// DRAM of a partition.
    pub dram: DramSpec,
}

/// An invalid value in the memory section of a chip file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The key, relative to the memory section.
    pub path: &'static str,
    /// Why the value is not valid.
    pub reason: String,
}

impl MemorySpec {
    /// Sets the sizes of L1 and shared memory for a unified array, if the blocks of an SM need `shared`
    /// bytes.
    pub fn split(&mut self, shared: u32) {
        if let Some(unified) = &mut self.unified {
            let carveout = unified.carveout(shared);
            unified.carveout_bytes = Some(carveout);
            self.l1.size_bytes = unified.size_bytes.saturating_sub(carveout);
        }
    }

    /// All invalid values.
    pub fn validate(&self) -> Vec<SpecError> {
        let mut errors = Vec::new();
        let mut check = |good: bool, path: &'static str, reason: String| {
            if !good {
                errors.push(SpecError { path, reason });
            }
        };
        if let Some(bytes) = self.l2_fetch_bytes {
            check(
                bytes.is_power_of_two() && bytes >= self.l2.sector_bytes,
                "l2_fetch_bytes",
                "must be 32, 64 or 128, and l2.sector_bytes at least".into(),
            );
        }
        if let Some(cache) = &self.constant.cache {
            let set = u64::from(cache.ways) * u64::from(cache.line_bytes);
            check(
                cache.bytes > 0 && u64::from(cache.bytes).is_multiple_of(set.max(1)),
                "constant.cache.bytes",
                "must be a multiple of line_bytes × ways".into(),
            );
        }
        for (path, cache) in [("l1", &self.l1), ("l2", &self.l2)] {
            let line_bytes = u64::from(cache.ways) * u64::from(LINE_BYTES);
            check(
                cache.ways > 0 && u64::from(cache.size_bytes).is_multiple_of(line_bytes.max(1)),
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
        if let Some(unified) = &self.unified {
            let sizes = &unified.shared_bytes;
            let most = sizes.last().copied().unwrap_or(0);
            let ways = self.l1.ways.max(1) * LINE_BYTES;
            check(
                !sizes.is_empty()
                    && sizes.is_sorted()
                    && unified.carveout_bytes.is_none_or(|c| sizes.contains(&c)),
                "unified",
                "shared_bytes must be ascending, with carveout_bytes among them".into(),
            );
            check(
                unified.size_bytes.checked_sub(most) == Some(self.l1.size_bytes),
                "unified",
                "l1.size_bytes must equal size_bytes minus the largest of shared_bytes".into(),
            );
            check(
                sizes.iter().all(|shared| unified.size_bytes.saturating_sub(*shared).is_multiple_of(ways)),
                "unified",
                format!("size_bytes minus each of shared_bytes must be a multiple of ways × {LINE_BYTES}"),
            );
        }
        check((1..=1024).contains(&self.partitions), "partitions", "must be between 1 and 1024".into());
        check(
            self.interleave_bytes > 0 && self.interleave_bytes.is_multiple_of(LINE_BYTES),
            "interleave_bytes",
            format!("must be a positive multiple of {LINE_BYTES}"),
        );
        check(self.partition_interval > 0, "partition_interval", "must be positive".into());
        check((1..=64).contains(&self.slice_banks), "slice_banks", "must be between 1 and 64".into());
        check(self.store_tokens > 0, "store_tokens", "must be positive".into());
        check(self.lsu_queue > 0, "lsu_queue", "must be positive".into());
        check(self.miss_queue > 0, "miss_queue", "must be positive".into());
        check(self.shared.turn_interval > 0, "shared", "turn_interval must be positive".into());
        check(self.l1.bytes_per_cycle > 0, "l1", "bytes_per_cycle must be positive".into());
        let message = "bytes_per_cycle is of L1; `slice_reads` and `slice_writes` have the rates of L2";
        check(self.l2.bytes_per_cycle == LINE_BYTES, "l2", message.into());
        let wrong = self.tlb.as_ref().and_then(TlbSpec::invalid);
        check(wrong.is_none(), "tlb", wrong.unwrap_or_default().into());
        let net = &self.interconnect;
        check(net.latency > 0, "interconnect", "latency must be positive".into());
        check(
            net.request_bytes_per_cycle > 0 && net.reply_bytes_per_cycle > 0,
            "interconnect",
            "bytes per cycle must be positive".into(),
        );
        let dram = &self.dram;
        check(
            (1..=64).contains(&dram.banks)
                && dram.bank_groups > 0
                && dram.banks.is_multiple_of(dram.bank_groups),
            "dram",
            "banks must be a multiple of bank_groups, at most 64".into(),
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
            dram.burst_cycles > 0 && dram.queue > 0 && dram.overtaking_limit > 0,
            "dram",
            "burst_cycles, queue and overtaking_limit must be positive".into(),
        );
        let writes = &dram.write_queue;
        check(
            0 < writes.low && writes.low <= writes.high && writes.high <= writes.entries,
            "dram.write_queue",
            "must have 0 < low ≤ high ≤ entries".into(),
        );
        let piece = dram.group_interleave_bytes;
        check(
            piece > 0 && piece.is_multiple_of(LINE_BYTES) && dram.row_bytes.is_multiple_of(piece),
            "dram.group_interleave_bytes",
            format!("must be a multiple of {LINE_BYTES} that divides row_bytes"),
        );
        errors
    }
}

/// Clock frequencies of the chip, and conversions between their cycles.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Frequency of SMs, interconnect and L2, in kHz.
    pub core_khz: u64,
    /// Frequency of DRAM's command clock, in kHz.
    pub dram_khz: u64,
    by_core: Divisor,
    by_dram: Divisor,
}

impl Clocks {
    /// Clocks of these frequencies, in kHz.
    pub fn new(core_khz: u64, dram_khz: u64) -> Self {
        Self { core_khz, dram_khz, by_core: Divisor::new(core_khz), by_dram: Divisor::new(dram_khz) }
    }

    /// The first DRAM cycle that begins at or after the start of this core cycle.
    #[inline]
    pub fn to_dram(&self, core: u64) -> u64 {
        convert(core, self.dram_khz, self.by_core)
    }

    /// The first core cycle that begins at or after the start of this DRAM cycle.
    #[inline]
    pub fn to_core(&self, dram: u64) -> u64 {
        convert(dram, self.core_khz, self.by_dram)
    }
}

/// `ceil(cycle * to / from)`, computed from the absolute cycle number, so that rounding errors do not
/// accumulate.
#[inline]
fn convert(cycle: u64, to: u64, from: Divisor) -> u64 {
    match cycle.checked_mul(to).and_then(|product| product.checked_add(from.by() - 1)) {
        Some(sum) => from.divide(sum).0,
        None => (u128::from(cycle) * u128::from(to)).div_ceil(u128::from(from.by())) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_takes_the_least_that_fits_and_l1_the_rest() {
        let unified = |carveout_bytes| {
            Some(UnifiedSpec {
                size_bytes: 131_072,
                shared_bytes: vec![0, 8192, 65536, 98304],
                carveout_bytes,
            })
        };
        let carveout = |fixed, shared| unified(fixed).map(|unified| unified.carveout(shared));
        assert_eq!(carveout(None, 0), Some(0));
        assert_eq!(carveout(None, 1), Some(8192));
        assert_eq!(carveout(None, 8192), Some(8192));
        assert_eq!(carveout(None, 8193), Some(65536));
        assert_eq!(carveout(None, 98304), Some(98304));
        assert_eq!(carveout(Some(98304), 0), Some(98304));
    }

    #[test]
    fn a_burst_keeps_its_bandwidth_across_clocks() {
        let clocks = Clocks::new(700_000, 924_000);
        // A million bursts of two DRAM cycles each end where exact arithmetic says.
        assert_eq!(clocks.to_core(2_000_000), 1_515_152);
        assert_eq!(clocks.to_dram(clocks.to_core(924)), 924);
        for cycle in [1 << 40, 1 << 60] {
            let wide = (u128::from(cycle) * 924_000).div_ceil(700_000);
            assert_eq!(u128::from(clocks.to_dram(cycle)), wide);
        }
        for cycle in 0..2000 {
            let there = clocks.to_dram(cycle);
            assert!(clocks.to_core(there) >= cycle);
            assert!(there * 700_000 >= cycle * 924_000);
            assert!(there == 0 || (there - 1) * 700_000 < cycle * 924_000);
        }
    }

    #[test]
    fn every_pair_has_a_distance_of_its_own_within_the_spread() {
        let net = |spread| InterconnectSpec {
            latency: 7,
            spread,
            request_bytes_per_cycle: 16,
            reply_bytes_per_cycle: 32,
            accepted_bytes_per_cycle: None,
            header_bytes: 8,
            atomic_sector_bytes: 0,
        };
        let pairs = || (0..80).flat_map(|sm| (0..32).map(move |partition| (sm, partition)));
        assert!(pairs().all(|(sm, partition)| net(0).distance(sm, partition) == 0));
        let distances: Vec<u64> = pairs().map(|(sm, partition)| net(99).distance(sm, partition)).collect();
        // The cube root of a share of the spread is the share of the pairs up to there: 2560 of them, within 4 %.
        for (up_to, share) in [(0, 0.215), (12, 0.507), (49, 0.794), (98, 0.997)] {
            let count = distances.iter().filter(|distance| **distance <= up_to).count();
            assert!((count as f64 / 2560.0 - share).abs() < 0.04, "{count} pairs up to {up_to}");
        }
        assert!(distances.iter().all(|distance| *distance <= 99));
    }
}
