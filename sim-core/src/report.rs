//! The device's part of a report: simulated facts only.

use std::collections::BTreeMap;

pub use crate::copy_counts::{RemoteReport, TmaReport};
use crate::engine::samples::Samples;
use crate::memory_model::Checked;
use crate::sanitizer::SanitizerReport;
pub use crate::tensor_counts::TensorReport;
use serde::{Deserialize, Serialize};
use sim_frontend::isa::UnitClass;
use sim_frontend::program::{CleanUp, Pc};
use sim_memory::cache::CacheStats;
use sim_memory::dram::DramStats;
use sim_memory::occupancy::QueueStats;
use sim_memory::sm_memory::Asked;
use sim_memory::sm_memory::latency::Percentiles;
use sim_memory::tlb::TlbStats;
use sim_memory::vocabulary::Cycle;

/// A span of simulated time, as microseconds in reports.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
pub struct Time {
    picoseconds: u64,
}

impl Time {
    /// The time of so many cycles of a clock, rounded to picoseconds.
    pub fn of(cycles: Cycle, khz: u64) -> Self {
        let khz = u128::from(khz.max(1));
        let picoseconds = (u128::from(cycles) * 1_000_000_000 + khz / 2) / khz;
        Self { picoseconds: u64::try_from(picoseconds).unwrap_or(u64::MAX) }
    }

    /// A time in picoseconds.
    pub fn from_picoseconds(picoseconds: u64) -> Self {
        Self { picoseconds }
    }

    /// The time in picoseconds.
    pub fn picoseconds(self) -> u64 {
        self.picoseconds
    }

    /// The time in microseconds.
    pub fn micros(self) -> f64 {
        self.picoseconds as f64 / 1e6
    }
}

impl std::ops::Add for Time {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { picoseconds: self.picoseconds.saturating_add(other.picoseconds) }
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.micros())
    }
}

/// Figures of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct KernelReport {
    /// Name of the kernel.
    pub name: String,
    /// Number of the launch, from 0, in the order of launches.
    pub grid_id: u32,
    /// Stream it was launched on.
    pub stream: u32,
    /// Grid size in blocks.
    pub grid: [u32; 3],
    /// Block size in threads.
    pub block: [u32; 3],
    /// Ran in functional mode: no timing.
    pub functional: bool,
    /// The host aborted it.
    pub aborted: bool,
    /// Core cycles from its first dispatch to its last block's end.
    pub cycles: Cycle,
    /// Core cycles before them, from the moment the dispatcher took it up: the launch latency.
    pub launch_cycles: Cycle,
    /// Time of `cycles`.
    pub time_us: Time,
    /// Core cycle of the first dispatch of a block.
    pub start_cycle: Cycle,
    /// Last block's end.
    pub end_cycle: Cycle,
    /// What of it was timed, where it was sampled: `cycles` is an estimate then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledReport>,
    /// Issues of source instructions by a split.
    pub warp_instructions: u64,
    /// Lanes of these issues whose guard was true.
    pub thread_instructions: u64,
    /// Issues of injected instructions, and further ones of an indirect branch.
    pub control_instructions: u64,
    /// Machine operations the source instructions stand for.
    pub machine_instructions: u64,
    /// Active lanes summed over issues.
    pub active_lanes: u64,
    /// Registers of a thread, as occupancy counts them.
    pub registers_per_thread: u32,
    /// Shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Blocks an SM can hold.
    pub resident_blocks: u32,
    /// The resource that limits the resident blocks.
    pub occupancy_limit: String,
    /// Blocks that never ran, as their launches were cancelled (`clusterlaunchcontrol`).
    #[serde(skip_serializing_if = "is_zero")]
    pub cancelled_blocks: u64,
    /// Instructions that read values which PTX leaves undefined, in the order of their addresses, where that is no fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undefined_values: Vec<UndefinedReport>,
    /// What the lowering noted.
    pub notes: Vec<String>,
    /// What the clean-up pass did to its functions, where it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clean_up: Option<CleanUp>,
}

/// What of a sampled kernel was timed. All its blocks are executed.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
pub struct SampledReport {
    /// Blocks that were timed.
    pub timed_blocks: u64,
    /// Core cycles that were simulated; the rest of the kernel's cycles is an estimate.
    pub timed_cycles: Cycle,
    /// Warp instructions of the timed blocks.
    pub timed_warp_instructions: u64,
    /// Lower end of the 95 % confidence interval of the kernel's cycles.
    pub cycles_low: Cycle,
    /// Upper end of it.
    pub cycles_high: Cycle,
}

/// An instruction that reads values which PTX leaves undefined: each of them is 0.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
pub struct UndefinedReport {
    /// Its address.
    pub pc: Pc,
    /// Its line in the PTX, from 1.
    pub line: u32,
    /// Its text.
    pub text: String,
    /// Lanes that have read such a value, summed over issues.
    pub lanes: u64,
}

/// What a line of the PTX did, or what the assembler makes for it: one after the other; only where it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LineReport {
    /// Entry of its program.
    pub kernel: String,
    /// Line of the PTX; 0 in the device runtime.
    pub line: u32,
    /// Its instructions, one after another.
    pub text: String,
    /// Line of the source by `.loc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_line: Option<u32>,
    /// The `.file` it is a line of, by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_file: Option<u32>,
    /// Issues of its instructions by a split.
    pub issues: u64,
    /// Machine operations that these stand for, by the class of the unit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub machine_operations: BTreeMap<UnitClass, u64>,
    /// Issues of control flow injected before it.
    pub injected: u64,
    /// Lanes of the issues whose guard was true.
    pub executing_lanes: u64,
    /// Lanes of the issues that were active.
    pub active_lanes: u64,
    /// Core cycles for which its warps had issued nothing before it.
    pub waited: u64,
    /// Those cycles by what the warps waited for: a result (`dependency`), `memory` …; `ready` where another
    /// warp issued or the unit was taken. Reasons that did not occur are left out.
    pub waits: BTreeMap<&'static str, u64>,
    /// Lines of the loads and atomics whose results its instructions read, where they waited for memory: the
    /// definitions of their registers that reach them within the function.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<u32>,
    /// What its accesses to global and local memory asked for, where it has any.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// Cycles beyond the first of its accesses to shared and constant memory: bank conflicts, and lanes of
    /// atomics that waited for one another.
    #[serde(skip_serializing_if = "is_zero")]
    pub conflict_cycles: u64,
}

/// What an SM did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct SmReport {
    /// Number of blocks that completed.
    pub blocks: u64,
    /// Issues of source instructions by a split.
    pub warp_instructions: u64,
    /// Resident warps summed over core cycles.
    pub warp_cycles: u64,
    /// Core cycles with a resident warp.
    pub active_cycles: u64,
    /// Issue slots with an issue.
    pub issued: u64,
    /// Issue slots without, by reason; those that did not occur are left out.
    #[borsh(deserialize_with = "crate::state::read_names")]
    pub stalls: BTreeMap<&'static str, u64>,
}

/// Memory by level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct MemoryReport {
    /// Warp accesses to global and local memory.
    pub accesses: u64,
    /// Lines they were split into.
    pub transactions: u64,
    /// Of the accesses, those to local memory.
    pub local_accesses: u64,
    /// Of the lines, those of local memory.
    pub local_transactions: u64,
    /// Bytes requested by lanes.
    pub bytes_useful: u64,
    /// Bytes between SMs and partitions, headers not counted.
    pub bytes_moved: u64,
    /// Sum of the accesses' latencies in core cycles.
    pub access_latency: u64,
    /// Latencies of transactions of loads in core cycles, by the level that had their bytes.
    #[borsh(deserialize_with = "crate::state::read_names")]
    pub load_latency: BTreeMap<&'static str, Percentiles>,
    /// Latencies of transactions of stores until they were performed, in core cycles.
    pub store_latency: Option<Percentiles>,
    /// The same of atomics and reductions.
    pub atomic_latency: Option<Percentiles>,
    /// Times an access waited for MSHRs or store tokens.
    pub blocked: u64,
    /// Accesses to shared, constant and parameter memory.
    pub on_chip_accesses: u64,
    /// Those accesses by the turns they took: bank conflicts of so many ways, so many different
    /// constants.
    pub on_chip_turns: BTreeMap<u32, u64>,
    /// Extra cycles for bank conflicts, for lanes of atomics that wait for one another, and for serialised constants.
    pub conflict_cycles: u64,
    /// Atomics at L2, by lane.
    pub atomics: u64,
    /// L1, all SMs.
    pub l1: CacheStats,
    /// L2, all slices.
    pub l2: CacheStats,
    /// DRAM, all channels.
    pub dram: DramStats,
    /// Queues, all SMs or slices; those of DRAM are with it.
    pub queues: QueueReport,
    /// Requests of SMs by the TLBs that missed them, on chips whose TLBs are modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tlb: Option<TlbStats>,
    /// The units that make bulk copies, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tma: Option<TmaReport>,
    /// What blocks of clusters sent to one another, where they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteReport>,
}

/// Queues of the memory environment, in core cycles.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
pub struct QueueReport {
    /// Lines that wait in the load-store units.
    pub load_store: QueueStats,
    /// L1's MSHRs in use.
    pub l1_mshrs: QueueStats,
    /// Store tokens in use.
    pub store_tokens: QueueStats,
    /// L2's MSHRs in use.
    pub l2_mshrs: QueueStats,
    /// Requests that wait at slices without a free MSHR or merge.
    pub l2_stalled: QueueStats,
}

/// What a device did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct DeviceReport {
    /// Core cycles in which a kernel ran: from its first dispatch to its last block's end.
    pub cycles: Cycle,
    /// Core cycles beside them, in which launches were under way and no kernel ran.
    pub launch_cycles: Cycle,
    /// Time of `cycles`.
    pub time_us: Time,
    /// Time of `launch_cycles`.
    pub launch_us: Time,
    /// Issues of source instructions by a split, timed kernels only, as are all figures below.
    pub warp_instructions: u64,
    /// Lanes of these issues whose guard was true.
    pub thread_instructions: u64,
    /// Issues of injected instructions, and further ones of an indirect branch.
    pub control_instructions: u64,
    /// Machine operations these instructions stand for, by the cost table.
    pub machine_instructions: u64,
    /// Active lanes per issued lane: 1 where nothing diverges. Parts per million.
    pub lane_utilisation_ppm: u64,
    /// Issue slots with an issue.
    pub issued: u64,
    /// Of these, with two instructions of one warp.
    #[serde(skip_serializing_if = "is_zero")]
    pub paired: u64,
    /// Issue slots without, by reason; `issued + Σ stalls = cycles × SMs × schedulers`.
    pub stalls: BTreeMap<String, u64>,
    /// Resident warps summed over SMs and core cycles.
    pub warp_cycles: u64,
    /// Warps that an SM can hold, summed over SMs and core cycles with a resident warp.
    pub warp_slots: u64,
    /// Core cycles, summed over SMs, in which an SM with room for a block waited for `dispatch.replacement_interval`.
    pub dispatch_wait_cycles: u64,
    /// Number of SMs.
    pub sms: u32,
    /// Schedulers of an SM.
    pub schedulers: u32,
    /// Number of blocks that completed.
    pub blocks: u64,
    /// Memory environment: caches, DRAM, latencies, queues.
    pub memory: MemoryReport,
    /// Tensor cores, where there were products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<TensorReport>,
    /// Most entries of the policy's stack or table for one warp.
    pub policy_entries: u32,
    /// Bytes spilled from it.
    pub policy_spilled_bytes: u64,
    /// What the program printed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub printed: String,
    /// Printfs that found no room in the device's buffer.
    #[serde(skip_serializing_if = "is_zero")]
    pub printfs_lost: u64,
    /// Kernels in order of launch.
    pub kernels: Vec<KernelReport>,
    /// SMs by number.
    pub by_sm: Vec<SmReport>,
    /// Counters over time, where they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[borsh(skip)]
    pub samples: Option<Samples>,
    /// Lines of the PTX, where they are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[borsh(skip)]
    pub lines: Vec<LineReport>,
    /// What was checked against the memory model, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[borsh(skip)]
    pub memory_model: Option<Checked>,
    /// What sanitizers have found, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[borsh(skip)]
    pub sanitizers: Option<SanitizerReport>,
}

impl DeviceReport {
    /// A kernel was sampled: what is counted cycle by cycle and access by access is that of a part of the blocks.
    pub fn is_sampled(&self) -> bool {
        self.kernels.iter().any(|kernel| kernel.sampled.is_some())
    }
}

/// What reports leave out.
pub fn is_zero(number: &u64) -> bool {
    *number == 0
}
