//! The unit of an SM that makes bulk copies, in issue order: what it has to do.

use std::collections::VecDeque;

use sim_frontend::chip::{ChipSpec, TmaSpec};

use crate::bulk::Job;

/// The unit.
#[derive(Debug)]
pub(super) struct Tma {
    pub(super) spec: TmaSpec,
    pub(super) queue: VecDeque<Job>,
    /// Its next access is scheduled.
    pub(super) busy: bool,
}

impl Tma {
    pub(super) fn new(chip: &ChipSpec) -> Self {
        Self { spec: chip.tma, queue: VecDeque::new(), busy: false }
    }

    pub(super) fn reset(&mut self) {
        let Self { spec: _, queue, busy } = self;
        queue.clear();
        *busy = false;
    }
}
