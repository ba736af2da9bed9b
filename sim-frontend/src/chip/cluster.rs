//! Clusters of blocks: where their blocks may run, and the network between SMs by which they reach each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Clusters of a chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// GPU processing clusters (GPCs); the blocks of a cluster run on the SMs of one.
    #[schemars(range(min = 1, max = 1023))]
    pub gpcs: u32,
    /// SMs that a GPC has or lacks together (a TPC).
    #[schemars(range(min = 1, max = 1023))]
    pub sms_per_tpc: u32,
    /// Most blocks of a cluster on every chip that has clusters.
    #[schemars(range(min = 1, max = 16))]
    pub max_blocks: u32,
    /// Most blocks of a cluster of a launch that asks for more than is portable.
    #[schemars(range(min = 1, max = 16))]
    pub max_blocks_non_portable: u32,
    /// Core cycles from a load to the first use of its result, in the shared memory of another block.
    #[schemars(range(min = 1, max = 100_000))]
    pub latency: u32,
    /// Bytes that an SM sends to other SMs in a core cycle.
    #[schemars(range(min = 1, max = 1024))]
    pub bytes_per_cycle: u32,
}

impl ClusterSpec {
    /// The first SM of each GPC and the end of the last: whole TPCs are dealt out evenly, to the first GPCs first.
    pub fn bounds(&self, sms: u32) -> Vec<u32> {
        let tpcs = sms.div_ceil(self.sms_per_tpc);
        let mut bounds = vec![0];
        let mut end = 0;
        for gpc in 0..self.gpcs {
            end += tpcs / self.gpcs + u32::from(gpc < tpcs % self.gpcs);
            bounds.push((end * self.sms_per_tpc).min(sms));
        }
        bounds
    }

    /// Core cycles of a message from one SM to another, where a load takes `shared` in shared memory.
    pub fn hop(&self, shared: u32) -> u32 {
        (self.latency.saturating_sub(shared) / 2).max(1)
    }
}

/// The unit of an SM that makes bulk copies (the tensor memory accelerator). Its accesses go to L2 as others do.
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
#[serde(deny_unknown_fields)]
pub struct TmaSpec {
    /// Core cycles from the issue of a copy to its first access.
    #[schemars(range(min = 1, max = 100_000))]
    pub latency: u32,
    /// Bytes that it asks for in a core cycle.
    #[schemars(range(min = 1, max = 4096))]
    pub bytes_per_cycle: u32,
    /// Core cycles between two accesses at least.
    #[schemars(range(min = 1, max = 1024))]
    pub access_interval: u32,
}

impl Default for TmaSpec {
    /// Of a chip that says nothing: a line of 128 bytes every two cycles.
    fn default() -> Self {
        Self { latency: 1, bytes_per_cycle: 64, access_interval: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_tpcs_are_dealt_out_to_gpcs() {
        let spec = |gpcs| ClusterSpec {
            gpcs,
            sms_per_tpc: 2,
            max_blocks: 8,
            max_blocks_non_portable: 16,
            latency: 181,
            bytes_per_cycle: 20,
        };
        assert_eq!(spec(8).bounds(132), [0, 18, 36, 52, 68, 84, 100, 116, 132]);
        assert_eq!(spec(8).bounds(3), [0, 2, 3, 3, 3, 3, 3, 3, 3]);
        assert_eq!(spec(1).bounds(15), [0, 15]);
        assert_eq!((spec(1).hop(29), spec(1).hop(180)), (76, 1));
    }
}
