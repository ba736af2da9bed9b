//! What happens on an SM, event by event, where it is asked for: blocks, states of splits, issues,
//! accesses to memory.

use std::sync::Arc;

use sim_memory::vocabulary::Cycle;

use crate::code::Code;
use crate::reconvergence::SplitId;

/// What of a run is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineOptions {
    /// SMs whose warps are recorded; of the others there are blocks.
    pub sms: Vec<u32>,
    /// First core cycle of the record, counted over all synchronisations.
    pub from: Cycle,
    /// The first core cycle after the record.
    pub to: Cycle,
    /// Most events of an SM.
    pub most: usize,
}

/// An event of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block has come to a slot.
    BlockBegins {
        /// Core cycle.
        at: Cycle,
        /// Slot of the SM.
        slot: u32,
        /// Grid number of the launch.
        grid_id: u32,
        /// Number in its grid.
        number: u64,
    },
    /// The block of a slot has ended.
    BlockEnds {
        /// Core cycle.
        at: Cycle,
        /// Slot of the SM.
        slot: u32,
    },
    /// A split changes its state.
    State {
        /// Core cycle.
        at: Cycle,
        /// Split of the SM.
        split: SplitId,
        /// Index into [`STATES`](super::states::STATES).
        state: u8,
    },
    /// A split issues.
    Issue {
        /// Core cycle.
        at: Cycle,
        /// Split of the SM.
        split: SplitId,
        /// Index into [`Timeline::codes`].
        code: u32,
        /// Address of the operation.
        pc: u32,
        /// Number of active lanes.
        lanes: u8,
    },
    /// An access of a warp to global or local memory, from its issue until it was performed for all of its
    /// lanes and their registers were released.
    Access {
        /// Core cycle of its issue.
        from: Cycle,
        /// Core cycle of its end.
        to: Cycle,
        /// Warp of the SM.
        warp: u32,
        /// Index into [`Timeline::codes`].
        code: u32,
        /// Address of the operation.
        pc: u32,
        /// Number of lanes of the access.
        lanes: u8,
        /// The least address of a lane.
        address: u64,
    },
}

/// The record of an SM.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Number of the SM.
    pub sm: u32,
    /// Splits of a warp.
    pub splits_per_warp: u32,
    /// Events in the order in which they were known.
    pub events: Vec<Event>,
    /// Programs they name.
    pub codes: Vec<Arc<Code>>,
    /// Core cycle from which on there was no room.
    pub full_at: Option<Cycle>,
    /// The last core cycle it saw.
    pub end: Cycle,
    /// Core cycles before this engine's first.
    base: Cycle,
    /// States of splits before the record begins.
    before: Vec<u8>,
    whole: bool,
    from: Cycle,
    to: Cycle,
    most: usize,
}

impl Timeline {
    /// An empty one of an SM; `base` core cycles have passed before.
    pub fn new(options: &TimelineOptions, sm: u32, splits_per_warp: u32, base: Cycle) -> Self {
        Self {
            sm,
            splits_per_warp,
            events: Vec::new(),
            codes: Vec::new(),
            full_at: None,
            end: base,
            base,
            before: Vec::new(),
            whole: options.sms.contains(&sm),
            from: options.from,
            to: options.to,
            most: options.most,
        }
    }

    /// The cycle as it is recorded, where it is.
    fn wanted(&mut self, now: Cycle) -> Option<Cycle> {
        let at = self.base + now;
        if at >= self.to || self.full_at.is_some() {
            return None;
        }
        self.end = self.end.max(at);
        if self.events.len() >= self.most {
            self.full_at = Some(at);
            return None;
        }
        Some(at)
    }

    fn code(&mut self, code: &Arc<Code>) -> u32 {
        // A run has few programs.
        let known = self.codes.iter().position(|own| Arc::ptr_eq(own, code));
        known.unwrap_or_else(|| {
            self.codes.push(Arc::clone(code));
            self.codes.len() - 1
        }) as u32
    }

    /// A block comes to a slot.
    pub fn block_begins(&mut self, slot: u32, grid_id: u32, number: u64, now: Cycle) {
        if let Some(at) = self.wanted(now) {
            self.events.push(Event::BlockBegins { at, slot, grid_id, number });
        }
    }

    /// The block of a slot ends.
    pub fn block_ends(&mut self, slot: u32, now: Cycle) {
        if let Some(at) = self.wanted(now) {
            self.events.push(Event::BlockEnds { at, slot });
        }
    }

    /// A split goes over to a state.
    pub fn state(&mut self, split: SplitId, state: u8, now: Cycle) {
        if !self.whole {
            return;
        }
        if self.base + now < self.from {
            if self.before.len() <= split as usize {
                self.before.resize(split as usize + 1, 0);
            }
            self.before[split as usize] = state;
            return;
        }
        self.enter(now);
        if let Some(at) = self.wanted(now) {
            self.events.push(Event::State { at, split, state });
        }
    }

    /// What splits were in when the record began is part of it.
    fn enter(&mut self, now: Cycle) {
        for (split, state) in (0..).zip(std::mem::take(&mut self.before)) {
            if state != 0 && self.wanted(now).is_some() {
                self.events.push(Event::State { at: self.from, split, state });
            }
        }
    }

    /// A split issues.
    pub fn issue(&mut self, code: &Arc<Code>, pc: u32, split: SplitId, lanes: u32, now: Cycle) {
        if self.whole
            && self.base + now >= self.from
            && let Some(at) = {
                self.enter(now);
                self.wanted(now)
            }
        {
            let code = self.code(code);
            self.events.push(Event::Issue { at, split, code, pc, lanes: lanes as u8 });
        }
    }

    /// An access is over.
    pub fn access(
        &mut self,
        code: &Arc<Code>,
        pc: u32,
        warp: u32,
        [lanes, least]: [u64; 2],
        issued: Cycle,
        now: Cycle,
    ) {
        if self.whole
            && self.base + now >= self.from
            && let Some(to) = self.wanted(now)
        {
            let (code, from) = (self.code(code), self.base + issued);
            self.events.push(Event::Access { from, to, warp, code, pc, lanes: lanes as u8, address: least });
        }
    }
}
