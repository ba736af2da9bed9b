//! Clusters, and what their blocks have sent each other.

use std::sync::Arc;

use sim_memory::vocabulary::LaneMask;

use super::clock::Clock;
use super::lines::{Reads, Transfer};
use super::threads::{Release, Snapshot};

/// A cluster of blocks.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// It has more than one block.
    pub several: bool,
    /// What arrivals at its barrier have released, in even and in odd phases. Nobody arrives in a phase before all have
    /// waited for the one before the last.
    pub released: [Clock; 2],
    /// Fences between proxies that its threads have executed.
    pub proxy_fences: u32,
}

/// What an SM has sent, and is not over.
#[derive(Debug)]
pub enum Sent {
    /// A strong access, by lines: what it releases, and then what it observes.
    Access(Vec<(Arc<Transfer>, Vec<(u8, Release)>, Reads)>),
    /// Operations on mbarrier objects.
    Count {
        /// Warp slot and address of the instruction.
        origin: (u32, u32),
        /// What the threads knew.
        warp: Arc<Snapshot>,
        /// What the lanes release.
        releases: Vec<(u32, Release)>,
        /// Lanes whose operations are not performed yet.
        left: LaneMask,
    },
}
