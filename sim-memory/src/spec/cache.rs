//! What a chip file says of a cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::coalescing::round_to_sectors;
use crate::line::{ByteMask, LINE_BYTES, bytes_in};
use crate::vocabulary::Cycle;

/// How an address selects its set.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum IndexFunction {
    /// The low bits of the line number.
    Linear,
    /// The line number folded onto its low bits by exclusive or.
    Xor,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Bytes of data (of one slice, for L2); 0 where there is none.
    #[schemars(range(min = 0, max = 268_435_456))]
    pub size_bytes: u32,
    /// Ways of a set.
    #[schemars(range(min = 1, max = 1024))]
    pub ways: u32,
    /// Bytes a miss fetches at least: a power of two from 32 to 128.
    #[schemars(range(min = 32, max = 128))]
    pub sector_bytes: u32,
    /// Maximum number of outstanding misses.
    #[schemars(range(min = 1, max = 65_536))]
    pub mshrs: u32,
    /// Maximum number of accesses that one miss serves.
    #[schemars(range(min = 1, max = 65_536))]
    pub mshr_merges: u32,
    /// Cycles of the core clock from access to data (L2: from arrival to reply).
    #[schemars(range(min = 1, max = 100_000))]
    pub hit_latency: u32,
    /// How an address selects its set.
    pub index: IndexFunction,
    /// Ways of a set that lines of eviction priority `evict_last` may have at most; three quarters where none is
    /// written. Caches other than L2 have no priorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1024))]
    pub set_aside_ways: Option<u32>,
    /// Ways of a set that may be dirty: a store that would need one more writes the least recently used of them back first;
    /// all where none is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub dirty_ways: Option<u32>,
    /// A store of the bytes that a line has already leaves it clean (CS `cache-writeEq`), as the rule is; otherwise the line
    /// is written back like any that was stored to.
    #[serde(default = "yes")]
    pub equal_stores_stay_clean: bool,
    /// A store takes a line of a write-through L1 where it finds none: what it writes is valid and clean there, and a load
    /// fetches the rest of a sector when it needs it. Otherwise it only brings bytes up to date that L1 holds.
    #[serde(default)]
    pub write_allocate: bool,
    /// Bytes of a line that L1 moves in a core cycle, sector by sector. L2 has `slice_reads` and `slice_writes` in its place.
    #[serde(default = "line_bytes")]
    #[schemars(range(min = 1, max = 128))]
    pub bytes_per_cycle: u32,
}

fn line_bytes() -> u32 {
    LINE_BYTES
}

fn yes() -> bool {
    true
}

impl CacheSpec {
    /// Ways of a set that lines of eviction priority `evict_last` have at most.
    pub fn most_kept(&self) -> u32 {
        self.set_aside_ways.unwrap_or(self.ways * 3 / 4).min(self.ways)
    }

    /// Core cycles for which L1 moves the sectors of these bytes of a line.
    #[inline]
    pub fn cycles_of(&self, bytes: ByteMask) -> Cycle {
        match self.bytes_per_cycle {
            LINE_BYTES => 1,
            most => bytes_in(round_to_sectors(bytes, self.sector_bytes)).div_ceil(most).max(1).into(),
        }
    }

    /// Number of sets; 0 for a cache without bytes.
    pub fn sets(&self) -> u32 {
        self.size_bytes / (LINE_BYTES * self.ways.max(1))
    }
}
