//! The policies that work on a table of paths, with their parameters.

use super::convergence_barriers::{self, ConvergenceBarriers};
use super::dual_path::{self, DualPath};
use super::dynamic_warp_formation::{self, DynamicWarpFormation};
use super::lowest_first::{LowestFirst, Order};
use super::multi_path::{self, MultiPath};
use super::rules::Rules;
use super::thread_block_compaction::ThreadBlockCompaction;
use super::warp_subdivision::{self, WarpSubdivision};

/// A policy that works on a table of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the policies'")]
pub enum TablePolicy {
    LowestFirst(Order),
    DualPath(dual_path::Parameters),
    MultiPath(multi_path::Parameters),
    WarpSubdivision(warp_subdivision::Parameters),
    DynamicWarpFormation(dynamic_warp_formation::Parameters),
    ThreadBlockCompaction,
    ConvergenceBarriers(convergence_barriers::Parameters),
}

impl TablePolicy {
    /// What it decides, for the table of one SM.
    pub fn rules(&self) -> Box<dyn Rules> {
        match *self {
            Self::LowestFirst(order) => Box::new(LowestFirst(order)),
            Self::DualPath(parameters) => Box::new(DualPath::new(parameters)),
            Self::MultiPath(parameters) => Box::new(MultiPath::new(parameters)),
            Self::WarpSubdivision(parameters) => Box::new(WarpSubdivision::new(parameters)),
            Self::DynamicWarpFormation(parameters) => Box::new(DynamicWarpFormation::new(parameters)),
            Self::ThreadBlockCompaction => Box::new(ThreadBlockCompaction::default()),
            Self::ConvergenceBarriers(parameters) => Box::new(ConvergenceBarriers::new(parameters)),
        }
    }
}
