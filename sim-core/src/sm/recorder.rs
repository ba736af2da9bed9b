//! What an SM writes down of every issue, where it is asked for: counts by operation, a timeline.

use std::sync::Arc;

use sim_memory::sm_memory::Asked;
use sim_memory::vocabulary::{Cycle, LaneMask, WARP_LANES};

use super::accesses::InFlight;
use super::profile::Profile;
use super::timeline::Timeline;
use crate::code::Code;
use crate::reconvergence::SplitId;

/// The records of an SM.
#[derive(Debug)]
pub struct Recorder {
    /// Counts by operation.
    pub profile: Option<Profile>,
    /// Events.
    pub timeline: Option<Timeline>,
}

impl Recorder {
    /// A warp begins at `now`.
    pub fn begin(&mut self, warp: usize, now: Cycle) {
        if let Some(profile) = &mut self.profile {
            profile.begin(warp, now);
        }
    }

    /// A split of a warp issues the operation at `pc` by so many executing and active lanes.
    pub fn issue(
        &mut self,
        code: &Arc<Code>,
        pc: u32,
        (split, warp): (SplitId, usize),
        lanes: [u32; 2],
        now: Cycle,
    ) {
        if let Some(profile) = &mut self.profile {
            profile.count(code, pc, warp, lanes, now);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.issue(code, pc, split, lanes[1], now);
        }
    }

    /// What the accesses of the operation at `pc` asked of memory, or the turns they took beyond the first.
    pub fn accessed(&mut self, code: &Arc<Code>, pc: u32, asked: Asked, conflict_cycles: u64) {
        if let Some(profile) = &mut self.profile {
            profile.accessed(code, pc, asked, conflict_cycles);
        }
    }

    /// A split goes over to a state.
    pub fn state(&mut self, split: SplitId, state: u8, now: Cycle) {
        if let Some(profile) = &mut self.profile {
            profile.state(split, state, now);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.state(split, state, now);
        }
    }

    /// An access of these lanes, with the address of each, is over.
    pub fn access(
        &mut self,
        code: &Arc<Code>,
        (access, addresses): (&InFlight, &[u64; WARP_LANES]),
        lanes: LaneMask,
        now: Cycle,
    ) {
        if let Some(timeline) = &mut self.timeline {
            let least = crate::reconvergence::Lanes(lanes).map(|lane| addresses[lane as usize]).min();
            let facts = [u64::from(lanes.count_ones()), least.unwrap_or(0)];
            timeline.access(code, access.pc, access.warp as u32, facts, access.issued, now);
        }
    }
}
