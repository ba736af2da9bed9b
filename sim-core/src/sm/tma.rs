//! The unit of an SM that makes bulk copies, in issue order: what it has to do.

use std::collections::VecDeque;

use sim_frontend::chip::{ChipSpec, TmaSpec};
use sim_memory::vocabulary::Cycle;

use crate::bulk::Job;

/// The unit.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub(super) struct Tma {
    pub(super) spec: TmaSpec,
    pub(super) queue: VecDeque<Job>,
    /// Its next access is scheduled.
    pub(super) busy: bool,
    /// When it can make the one after the last.
    pub(super) free_at: Cycle,
    /// Copies in the queue whose tensor maps it has not asked for yet.
    pub(super) unasked: u32,
    /// Number of the next access that reads a map.
    pub(super) next_map: u64,
    /// Requests to cancel launches that have not been answered, which pass the unit by.
    pub(super) requests: Vec<(u64, Job)>,
    /// Number of the next one.
    pub(super) next_request: u64,
}

impl Tma {
    pub(super) fn new(chip: &ChipSpec) -> Self {
        Self {
            spec: chip.tma,
            queue: VecDeque::new(),
            busy: false,
            free_at: 0,
            unasked: 0,
            next_map: 0,
            requests: Vec::new(),
            next_request: 0,
        }
    }

    pub(super) fn reset(&mut self) {
        let Self { spec: _, queue, busy, free_at, unasked, next_map, requests, next_request } = self;
        queue.clear();
        requests.clear();
        (*busy, *free_at, *unasked, *next_map, *next_request) = (false, 0, 0, 0, 0);
    }
}
