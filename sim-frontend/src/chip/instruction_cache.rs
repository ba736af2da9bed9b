//! Instruction caches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_memory::hundredths::Hundredths;

/// The instruction caches of an SM. Lines that a warp comes to and that are not there are fetched one after another, each with the
/// one behind it; a launch empties the first cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstructionCacheSpec {
    /// Bytes of a machine instruction.
    #[schemars(range(min = 1, max = 64))]
    pub instruction_bytes: u32,
    /// Bytes of a line.
    #[schemars(range(min = 16, max = 4096))]
    pub line_bytes: u32,
    /// Bytes of the first cache, from which instructions issue without delay. Levels before it that are private to a scheduler are not
    /// told apart.
    #[schemars(range(min = 16, max = 16_777_216))]
    pub bytes: u32,
    /// Ways of the first cache, which replaces the least recently used line of a set.
    #[schemars(range(min = 1, max = 1024))]
    pub ways: u32,
    /// Core cycles from one line to the next that come from the second cache.
    #[schemars(range(min = 0, max = 10_000))]
    pub interval: Hundredths,
    /// Bytes of the second cache (L1.5).
    #[schemars(range(min = 16, max = 16_777_216))]
    pub second_bytes: u32,
    /// Ways of the second cache.
    #[schemars(range(min = 1, max = 1024))]
    pub second_ways: u32,
    /// Core cycles from one line to the next that come from L2.
    #[schemars(range(min = 0, max = 10_000))]
    pub second_interval: Hundredths,
    /// Bytes of a kernel's code that its launch brings into the second cache.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16_777_216))]
    pub launch_bytes: u32,
}

impl InstructionCacheSpec {
    /// Machine instructions of a line.
    pub fn instructions(&self) -> u32 {
        (self.line_bytes / self.instruction_bytes.max(1)).max(1)
    }

    /// What is wrong with it: key and reason.
    pub(super) fn problems(&self) -> Vec<(String, String)> {
        let caches =
            [("bytes", self.bytes, self.ways), ("second_bytes", self.second_bytes, self.second_ways)];
        let whole = |bytes: u32, ways: u32| {
            bytes > 0 && u64::from(bytes).is_multiple_of(u64::from(self.line_bytes) * u64::from(ways))
        };
        let mut problems: Vec<_> = caches
            .iter()
            .filter(|(_, bytes, ways)| !whole(*bytes, *ways))
            .map(|(key, ..)| (*key, "must be a multiple of line_bytes × the ways".to_string()))
            .collect();
        if !self.line_bytes.is_multiple_of(self.instruction_bytes.max(1)) {
            problems.push(("line_bytes", "must be a multiple of instruction_bytes".to_string()));
        }
        let place = |(key, reason)| (format!("sm.instruction_cache.{key}"), reason);
        problems.into_iter().map(place).collect()
    }
}
