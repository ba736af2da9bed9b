//! A streaming multiprocessor, cycle by cycle: warp schedulers issue ready splits to units, the
//! scoreboard and a time wheel say when each is ready again, accesses go through the SM's side
//! of the memory environment. Cycles on which nothing can happen are jumped over.

pub mod accesses;
pub mod scheduler;
pub mod stats;
pub mod units;

use std::collections::VecDeque;
use std::sync::Arc;

use sim_frontend::chip::ChipSpec;
use sim_frontend::isa::UnitClass;
use sim_frontend::program::{Extra, OpClass};
use sim_memory::access::{AccessKind, WarpAccess};
use sim_memory::partition::Request;
use sim_memory::sm_memory::{Reply, SmMemory};
use sim_memory::vocabulary::{Cycle, StateSpace};

use accesses::{ALONE, Accesses, InFlight, Port};
use scheduler::{Picker, WarpScheduler};
use stats::{STALLS, SmStats, Stall};
use units::{UNIT_CLASSES, Units};

use crate::error::{Bottom, Fault, FaultKind, Place};
use crate::execute::{Resident, Step, World};
use crate::grid::{Drain, Kernel};
use crate::reconvergence::{Reconvergence, SplitId};
use crate::scoreboard::Readiness;
use crate::wheel::Wheel;

/// What arrives at an SM from the device component.
#[derive(Clone, Debug)]
pub enum SmMessage {
    /// A block to run.
    Block {
        /// Its kernel.
        kernel: Arc<Kernel>,
        /// Its number in the grid.
        number: u64,
    },
    /// Forget the global lines of L1: a dependent grid starts.
    FlushL1,
    /// The threads of this grid end where they are.
    Abort {
        /// The grid.
        grid_id: u32,
    },
}

/// A block of `grid_id` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDone {
    /// The launch.
    pub grid_id: u32,
    /// The block.
    pub number: u64,
    /// Core cycle at which its last thread ended and its last access was performed.
    pub at: Cycle,
}

/// Where a split is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Absent,
    Ready,
    Dependency,
    Memory,
    Drain,
    Barrier,
    Collective,
    Sleep,
}

const STATUSES: usize = 8;

/// One scheduler's sets, each of `words` words.
#[derive(Debug)]
struct Lane {
    ready: Vec<u64>,
    /// By unit class: splits whose next operation needs it.
    by_unit: Vec<u64>,
    candidates: Vec<u64>,
    picker: Picker,
    counts: [u32; STATUSES],
    /// Cycles before this one are accounted for.
    accounted: Cycle,
    reason: Stall,
}

/// One SM.
#[derive(Debug)]
pub struct Sm<P> {
    /// Its number.
    pub index: u32,
    /// Blocks, warps, policy.
    pub resident: Resident<P>,
    /// Its side of the memory environment.
    pub memory: SmMemory,
    /// Counters.
    pub stats: SmStats,
    accesses: Accesses,
    units: Units,
    lanes: Vec<Lane>,
    words: usize,
    wheel: Wheel,
    status: Vec<Status>,
    unit_of: Vec<u8>,
    schedulers: usize,
    split_shift: u32,
    now: Cycle,
    next: Option<Cycle>,
    inbox: VecDeque<(Cycle, SmMessage)>,
    woken: Vec<usize>,
    touched: Vec<SplitId>,
    done: Vec<BlockDone>,
    barrier_latency: u32,
    branch_latency: u32,
    resident_warps: u32,
    finishing: Vec<usize>,
    load_store: usize,
}

impl<P: Reconvergence> Sm<P> {
    /// An SM of `chip` that runs `policy` under `scheduler`.
    pub fn new(
        index: u32,
        chip: &ChipSpec,
        world: Arc<World>,
        memory: SmMemory,
        policy: P,
        scheduler: WarpScheduler,
    ) -> Self {
        let schedulers = chip.sm.schedulers as usize;
        let warps = (chip.limits.max_resident_threads / chip.limits.warp_size).max(1) as usize;
        let split_shift = policy.splits_per_warp().trailing_zeros();
        let per_scheduler = warps.div_ceil(schedulers) << split_shift;
        let words = per_scheduler.div_ceil(64);
        let splits = warps << split_shift;
        let lane = || Lane {
            ready: vec![0; words],
            by_unit: vec![0; words * UNIT_CLASSES],
            candidates: vec![0; words],
            picker: Picker::new(scheduler, words),
            counts: [0; STATUSES],
            accounted: 0,
            reason: Stall::Idle,
        };
        Self {
            index,
            resident: Resident::new(index, world, policy, warps, chip.limits.max_resident_blocks as usize),
            memory,
            stats: SmStats::default(),
            accesses: Accesses::default(),
            units: Units::new(&chip.sm),
            lanes: (0..schedulers).map(|_| lane()).collect(),
            words,
            wheel: Wheel::new(words * schedulers),
            status: vec![Status::Absent; splits],
            unit_of: vec![0; splits],
            schedulers,
            split_shift,
            now: 0,
            next: None,
            inbox: VecDeque::new(),
            woken: Vec::new(),
            touched: Vec::new(),
            done: Vec::new(),
            barrier_latency: chip.sm.barrier_latency,
            branch_latency: chip.sm.branch_latency,
            resident_warps: 0,
            finishing: Vec::new(),
            load_store: UnitClass::LoadStore as usize,
        }
    }

    /// Scheduler of a split, and its place in the scheduler's sets.
    #[inline]
    fn place(&self, split: SplitId) -> (usize, u32) {
        let warp = split >> self.split_shift;
        let within = split & ((1 << self.split_shift) - 1);
        let (local, scheduler) = (warp as usize / self.schedulers, warp as usize % self.schedulers);
        (scheduler, ((local as u32) << self.split_shift) | within)
    }

    #[inline]
    fn split_at(&self, scheduler: usize, place: u32) -> SplitId {
        let warp = (place >> self.split_shift) * self.schedulers as u32 + scheduler as u32;
        (warp << self.split_shift) | (place & ((1 << self.split_shift) - 1))
    }

    /// A message that arrives at `at`; messages come in the order of their cycles.
    pub fn deliver(&mut self, at: Cycle, message: SmMessage) {
        debug_assert!(self.inbox.back().is_none_or(|(last, _)| *last <= at));
        self.inbox.push_back((at, message));
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// A reply of partition `from` that arrives at `at`.
    pub fn deliver_reply(&mut self, at: Cycle, from: u32, reply: Reply) {
        self.memory.deliver(reply, from, at);
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// The next cycle on which something happens here.
    pub fn next_event(&self) -> Option<Cycle> {
        self.next
    }

    /// Gives the blocks that ended since the last call to `sink`.
    pub fn take_done(&mut self, sink: impl FnMut(BlockDone)) {
        self.done.drain(..).for_each(sink);
    }

    /// Gives the requests that left since the last call: arrival cycle, partition, request.
    pub fn take_requests(&mut self, sink: impl FnMut(Cycle, u32, Request)) {
        self.memory.take_requests(sink);
    }

    /// Runs everything that happens before `until`.
    ///
    /// # Errors
    /// The first fault.
    pub fn run(&mut self, until: Cycle) -> Result<(), Box<Fault>> {
        while let Some(cycle) = self.next
            && cycle < until
        {
            self.cycle(cycle)?;
        }
        Ok(())
    }

    /// Accounts for idle issue slots up to `until`.
    pub fn account_until(&mut self, until: Cycle) {
        for lane in &mut self.lanes {
            if lane.accounted < until {
                self.stats.stalls[lane.reason as usize] += until - lane.accounted;
                lane.accounted = until;
            }
        }
    }

    /// Everything that happens here on cycle `now`: arrivals, memory, wake-ups, issues.
    fn cycle(&mut self, now: Cycle) -> Result<(), Box<Fault>> {
        self.account_until(now);
        self.now = now;
        while self.inbox.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, message)) = self.inbox.pop_front() {
                self.receive(message);
            }
        }
        if self.memory.next_event().is_some_and(|at| at <= now) {
            self.advance_memory(now)?;
        }
        let Self { wheel, lanes, words, .. } = self;
        let words = *words;
        let mut woke = false;
        wheel.take(now, |word, bits| {
            lanes[word / words].ready[word % words] |= bits;
            woke = true;
        });
        if woke {
            self.mark_woken();
        }
        let mut issue_next = false;
        for scheduler in 0..self.schedulers {
            if let Some(split) = self.pick(scheduler, now) {
                self.issue(scheduler, split, now)?;
                let lane = &mut self.lanes[scheduler];
                lane.accounted = now + 1;
                self.stats.issued += 1;
            }
            issue_next |= self.lanes[scheduler].ready.iter().any(|word| *word != 0);
        }
        for scheduler in 0..self.schedulers {
            self.lanes[scheduler].reason = self.reason(scheduler);
        }
        self.next = self.next_after(now, issue_next);
        Ok(())
    }

    /// Splits the wheel made ready change their status.
    fn mark_woken(&mut self) {
        for scheduler in 0..self.schedulers {
            for word in 0..self.words {
                let mut bits = self.lanes[scheduler].ready[word];
                while bits != 0 {
                    let place = word as u32 * 64 + bits.trailing_zeros();
                    bits &= bits - 1;
                    let split = self.split_at(scheduler, place) as usize;
                    if self.status[split] != Status::Ready {
                        self.set_status(scheduler, split, Status::Ready);
                    }
                }
            }
        }
    }

    #[inline]
    fn set_status(&mut self, scheduler: usize, split: usize, status: Status) {
        let counts = &mut self.lanes[scheduler].counts;
        counts[self.status[split] as usize] -= u32::from(self.status[split] != Status::Absent);
        counts[status as usize] += u32::from(status != Status::Absent);
        self.status[split] = status;
    }

    fn next_after(&mut self, now: Cycle, ready: bool) -> Option<Cycle> {
        let mut next = self.wheel.next();
        let mut take = |at: Option<Cycle>| {
            next = match (next, at) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        };
        if ready {
            take(self.issuable_from(now));
        }
        take(self.memory.next_event());
        take(self.inbox.front().map(|(at, _)| *at));
        next.map(|at| at.max(now + 1))
    }

    /// The first cycle after `now` on which a ready split finds its unit free.
    fn issuable_from(&self, now: Cycle) -> Option<Cycle> {
        let accepting = self.memory.accepting();
        if self.units.all_free(now + 1) && accepting {
            return Some(now + 1);
        }
        let mut first: Option<Cycle> = None;
        for (scheduler, lane) in self.lanes.iter().enumerate() {
            for class in 0..UNIT_CLASSES {
                let sets = &lane.by_unit[class * self.words..][..self.words];
                if !sets.iter().zip(&lane.ready).any(|(a, b)| a & b != 0) {
                    continue;
                }
                if class == self.load_store && !accepting {
                    // The load-store unit wakes the SM itself.
                    continue;
                }
                let at = self.units.free_at(class, scheduler).max(now + 1);
                first = Some(first.map_or(at, |first| first.min(at)));
            }
        }
        first
    }

    fn receive(&mut self, message: SmMessage) {
        match message {
            SmMessage::Block { kernel, number } => {
                let grid = kernel.grid_id as usize;
                if self.stats.kernels.len() <= grid {
                    self.stats.kernels.resize(grid + 1, Default::default());
                }
                let slot = self.resident.admit(&kernel, number);
                debug_assert!(slot.is_some(), "the device counts slots");
                self.resident_warps += kernel.warps_per_block();
                let admitted = std::mem::take(&mut self.resident.touched);
                for &split in &admitted {
                    self.reschedule(split, self.now);
                }
                self.resident.touched = admitted;
            }
            SmMessage::FlushL1 => self.memory.flush_l1(self.now),
            SmMessage::Abort { grid_id } => self.abort(grid_id),
        }
    }

    /// Ends the threads of a grid's blocks; the blocks' places are free once the accesses in
    /// flight are performed.
    fn abort(&mut self, grid_id: u32) {
        let slots = 0..self.resident.blocks.len();
        for slot in slots {
            let Some(block) = self.resident.blocks[slot].as_mut() else { continue };
            if self.resident.kernels[block.kernel].grid_id != grid_id {
                continue;
            }
            (block.live_threads, block.live_warps) = (0, 0);
            for w in block.warps.clone() {
                self.resident.warps[w].exited = self.resident.warps[w].threads;
                self.resident.meetings.retain(|meeting| meeting.warp != w);
                for split in self.resident.splits_of(w) {
                    let (scheduler, place) = self.place(split);
                    self.wheel.remove((scheduler * self.words * 64) as u32 + place);
                    self.resident.waits[split as usize] = 0;
                    self.park(split, Status::Absent);
                }
                self.finish_if_drained(w, self.now);
            }
        }
    }

    fn advance_memory(&mut self, now: Cycle) -> Result<(), Box<Fault>> {
        let mut port = Port {
            warps: &mut self.resident.warps,
            kernels: &self.resident.kernels,
            accesses: &mut self.accesses,
            woken: &mut self.woken,
            stats: &mut self.stats,
        };
        let result = self.memory.advance(now + 1, &mut port);
        if let Err(fault) = result {
            return Err(self.memory_fault(&fault));
        }
        self.wake_waiting(now);
        Ok(())
    }

    /// Looks again at the warps whose accesses got on.
    fn wake_waiting(&mut self, now: Cycle) {
        let mut woken = std::mem::take(&mut self.woken);
        for &warp in &woken {
            for split in self.resident.splits_of(warp) {
                if matches!(self.status[split as usize], Status::Memory | Status::Drain) {
                    self.reschedule(split, now);
                }
            }
            if self.resident.warps[warp].live() == 0 {
                self.finish_if_drained(warp, now);
            }
        }
        woken.clear();
        self.woken = woken;
    }

    /// Finds out when `split` can issue its next instruction, not before `earliest`
    /// [sched-canBeScheduled].
    fn reschedule(&mut self, split: SplitId, earliest: Cycle) {
        let (scheduler, place) = self.place(split);
        let index = split as usize;
        let mask = self.resident.policy.mask(split);
        if self.status[index] == Status::Ready {
            self.lanes[scheduler].ready[place as usize / 64] &= !(1 << (place % 64));
        }
        if mask == 0 {
            self.lanes[scheduler].picker.long_wait(place);
            self.set_status(scheduler, index, Status::Absent);
            return;
        }
        let warp = &self.resident.warps[self.resident.warp_of(split)];
        let code = &self.resident.kernels[warp.kernel].code;
        let pc = self.resident.policy.pc(split) as usize;
        let Some(hot) = code.hot.get(pc) else {
            // The step reports it with its place.
            self.lanes[scheduler].ready[place as usize / 64] |= 1 << (place % 64);
            self.set_status(scheduler, index, Status::Ready);
            return;
        };
        let unit = hot.unit;
        let waits_for_drain = match hot.drain {
            Drain::None => false,
            Drain::Block => warp.outstanding.any(mask, false),
            Drain::Device => warp.outstanding.any(mask, true),
        };
        let readiness = warp.board.readiness(hot.slots(), mask, earliest);
        if self.unit_of[index] != unit {
            let bit = 1u64 << (place % 64);
            let word = place as usize / 64;
            let by_unit = &mut self.lanes[scheduler].by_unit;
            by_unit[usize::from(self.unit_of[index]) * self.words + word] &= !bit;
            by_unit[usize::from(unit) * self.words + word] |= bit;
            self.unit_of[index] = unit;
        }
        let status = if waits_for_drain {
            Status::Drain
        } else {
            match readiness {
                Readiness::Memory => Status::Memory,
                Readiness::At(at) if at <= self.now => {
                    self.lanes[scheduler].ready[place as usize / 64] |= 1 << (place % 64);
                    Status::Ready
                }
                Readiness::At(at) => {
                    let flat = (scheduler * self.words * 64) as u32 + place;
                    self.wheel.insert(at, flat);
                    Status::Dependency
                }
            }
        };
        if matches!(status, Status::Memory | Status::Drain) {
            self.lanes[scheduler].picker.long_wait(place);
        }
        self.set_status(scheduler, index, status);
    }

    /// The split a scheduler issues: one of those that can be scheduled and whose unit is free
    /// [sched-warps].
    fn pick(&mut self, scheduler: usize, now: Cycle) -> Option<SplitId> {
        let accepting = self.memory.accepting();
        let Self { lanes, units, words, resident, split_shift, schedulers, load_store, .. } = self;
        let lane = &mut lanes[scheduler];
        if lane.ready.iter().all(|word| *word == 0) {
            return None;
        }
        lane.candidates.copy_from_slice(&lane.ready);
        if !accepting || !units.all_free(now) {
            for class in 0..UNIT_CLASSES {
                let busy = units.free_at(class, scheduler) > now || (class == *load_store && !accepting);
                if busy {
                    let sets = &lane.by_unit[class * *words..][..*words];
                    for (candidates, set) in lane.candidates.iter_mut().zip(sets) {
                        *candidates &= !set;
                    }
                }
            }
        }
        let warps = &resident.warps;
        let (shift, schedulers) = (*split_shift, *schedulers);
        let place = lane
            .picker
            .pick(&lane.candidates, |place| warps[(place >> shift) as usize * schedulers + scheduler].age)?;
        Some(self.split_at(scheduler, place))
    }

    /// A warp of an active block takes a step [block-exec].
    fn issue(&mut self, scheduler: usize, split: SplitId, now: Cycle) -> Result<(), Box<Fault>> {
        let w = self.resident.warp_of(split);
        let pc = self.resident.policy.pc(split);
        let mask = self.resident.policy.mask(split);
        let step = match self.resident.step(split, now) {
            Ok(step) => step,
            Err(bottom) => return Err(self.fault(w, pc, &bottom)),
        };
        // The warp, its code and the operation again: `step` borrowed all of the resident state.
        let warp = &mut self.resident.warps[w];
        let kernel = &self.resident.kernels[warp.kernel];
        let hot = &kernel.code.hot[pc as usize];
        let exec = mask & crate::execute::guard(hot.guard, &warp.preds);
        let counts = &mut self.stats.kernels[kernel.grid_id as usize];
        if hot.bookkeeping {
            counts.control_instructions += 1;
        } else {
            counts.warp_instructions += 1;
            counts.thread_instructions += u64::from(exec.count_ones());
            counts.active_lanes += u64::from(mask.count_ones());
            counts.machine_instructions += u64::from(hot.machine_operations);
        }
        let unit = usize::from(hot.unit);
        let mut earliest = now + 1;
        let mut occupancy = u32::from(hot.initiation);
        let mut parked = None;
        match step {
            Step::Done => {
                let ready = now + Cycle::from(hot.latency);
                warp.board.write(hot.written(), exec, now, ready);
            }
            Step::DoneAfter { latency, occupancy: held } => {
                warp.board.write(hot.written(), exec, now, now + Cycle::from(latency));
                self.stats.bank_conflict_cycles += u64::from(held.saturating_sub(1));
                self.stats.shared_accesses += 1;
                occupancy = occupancy.max(held);
            }
            Step::Access => {
                self.units.occupy(unit, scheduler, now, occupancy);
                self.send_accesses(w, pc, now)?;
                self.after_issue(split, earliest);
                return Ok(());
            }
            Step::Control(cost) => {
                self.stats.spilled_bytes += u64::from(cost.spilled_bytes);
                self.stats.most_entries = self.stats.most_entries.max(cost.entries);
                earliest = now + Cycle::from(self.branch_latency.max(1)) + Cycle::from(cost.cycles);
            }
            Step::Sleep(cycles) => {
                earliest = now + 1 + cycles;
                parked = (cycles > 0).then_some(Status::Sleep);
            }
            Step::Parked => {
                let status = if hot.class == OpClass::Barrier { Status::Barrier } else { Status::Collective };
                parked = Some(status);
            }
        }
        let is_barrier = matches!(hot.class, OpClass::Barrier);
        let is_data = hot.lane.is_some();
        self.units.occupy(unit, scheduler, now, occupancy);
        match parked {
            Some(status @ (Status::Barrier | Status::Collective)) => {
                self.park(split, status);
            }
            Some(_) => {
                self.after_issue(split, earliest);
                let (scheduler, _) = self.place(split);
                if self.status[split as usize] == Status::Dependency {
                    self.set_status(scheduler, split as usize, Status::Sleep);
                }
            }
            None => self.after_issue(
                split,
                if is_barrier { now + Cycle::from(self.barrier_latency.max(1)) } else { earliest },
            ),
        }
        if !is_data {
            self.after_rare(split, now);
        }
        Ok(())
    }

    /// A split that issued in this cycle looks for its next issue.
    #[inline]
    fn after_issue(&mut self, split: SplitId, earliest: Cycle) {
        if earliest == self.now + 1 {
            // Readiness at the next cycle is readiness now: this scheduler has issued.
            self.now += 1;
            self.reschedule(split, earliest);
            self.now -= 1;
        } else {
            self.reschedule(split, earliest);
        }
    }

    fn park(&mut self, split: SplitId, status: Status) {
        let (scheduler, place) = self.place(split);
        self.lanes[scheduler].ready[place as usize / 64] &= !(1 << (place % 64));
        self.lanes[scheduler].picker.long_wait(place);
        self.set_status(scheduler, split as usize, status);
    }

    /// Other splits that a control instruction, barrier or collective changed, and warps that
    /// ended.
    fn after_rare(&mut self, issued: SplitId, now: Cycle) {
        if !self.resident.touched.is_empty() {
            let touched = std::mem::replace(&mut self.resident.touched, std::mem::take(&mut self.touched));
            let at = now + Cycle::from(self.barrier_latency.max(1));
            for &split in &touched {
                let waiting = matches!(self.status[split as usize], Status::Barrier | Status::Collective);
                if (split != issued || waiting) && self.resident.waits[split as usize] == 0 {
                    self.reschedule(split, at);
                }
            }
            self.touched = touched;
            self.touched.clear();
        }
        while let Some(warp) = self.resident.ended.pop() {
            self.finish_if_drained(warp, now);
        }
    }

    /// A warp whose threads have ended frees its block once all accesses are performed
    /// [block-compl].
    fn finish_if_drained(&mut self, warp: usize, now: Cycle) {
        let state = &self.resident.warps[warp];
        if !state.resident {
            return;
        }
        if state.outstanding.total != 0 {
            if !self.finishing.contains(&warp) {
                self.finishing.push(warp);
            }
            return;
        }
        self.finishing.retain(|&other| other != warp);
        let slot = state.block;
        self.resident.warps[warp].resident = false;
        self.resident_warps -= 1;
        let Some(block) = self.resident.blocks[slot].as_mut() else { return };
        block.finished_warps += 1;
        if (block.finished_warps as usize) < block.warps.len() {
            return;
        }
        let grid_id = self.resident.kernels[block.kernel].grid_id;
        self.done.push(BlockDone { grid_id, number: block.number, at: now });
        self.stats.blocks += 1;
        self.stats.last_block_end = now;
        self.resident.blocks[slot] = None;
    }

    /// Hands the accesses of the last step to the memory environment [link-memOp].
    fn send_accesses(&mut self, w: usize, pc: u32, now: Cycle) -> Result<(), Box<Fault>> {
        let mut group = ALONE;
        for i in 0..self.resident.requests.len() {
            let request = self.resident.requests.get(i);
            if request.parts > 1 && request.part == 0 {
                group = self.accesses.group(request.parts.into(), request.lanes);
            }
            let warp = &mut self.resident.warps[w];
            let code = &self.resident.kernels[warp.kernel].code;
            let op = &code.program.ops[pc as usize];
            let Extra::Memory(facts) = op.extra else { continue };
            let lanes = request.lanes;
            let hot = &code.hot[pc as usize];
            warp.board.block(hot.blocking(), lanes);
            warp.outstanding.begin(lanes);
            let mut addresses = request.addresses;
            if request.space == StateSpace::Local {
                for lane in crate::reconvergence::Lanes(lanes) {
                    addresses[lane as usize] = sim_memory::address_space::local_physical(
                        self.index,
                        w as u32,
                        lane,
                        request.addresses[lane as usize],
                    );
                }
            }
            let id = self.accesses.begin(InFlight {
                warp: w,
                pc,
                blocked: lanes,
                pending: lanes,
                issued: now,
                addresses,
                part: request.part,
                parts: request.parts,
                group: if request.parts > 1 { group } else { ALONE },
            });
            let kind = match (op.class, facts.atomic) {
                (OpClass::Store, _) => AccessKind::Store,
                (OpClass::Atomic, Some((op_, ty))) => {
                    AccessKind::Atomic { op: op_, ty, returns: op.dst[0].is_some() }
                }
                _ => AccessKind::Load,
            };
            let access = WarpAccess {
                id,
                kind,
                space: request.space,
                cache_op: facts.cache,
                semantics: facts.semantics,
                scope: facts.scope,
                element_bytes: request.bytes,
                lanes,
                addresses: &addresses,
                data: &request.data,
                operands: Some(&request.operands),
            };
            let mut port = Port {
                warps: &mut self.resident.warps,
                kernels: &self.resident.kernels,
                accesses: &mut self.accesses,
                woken: &mut self.woken,
                stats: &mut self.stats,
            };
            let result = self.memory.access(now, &access, &mut port);
            if let Err(fault) = result {
                return Err(self.memory_fault(&fault));
            }
        }
        if !self.woken.is_empty() {
            self.wake_waiting(now);
        }
        Ok(())
    }

    fn reason(&self, scheduler: usize) -> Stall {
        let counts = &self.lanes[scheduler].counts;
        let any = |status: Status| counts[status as usize] != 0;
        if any(Status::Ready) {
            Stall::Unit
        } else if any(Status::Dependency) {
            Stall::Dependency
        } else if any(Status::Memory) {
            Stall::Memory
        } else if any(Status::Drain) {
            Stall::Drain
        } else if any(Status::Collective) {
            Stall::Collective
        } else if any(Status::Barrier) {
            Stall::Barrier
        } else if any(Status::Sleep) {
            Stall::Sleep
        } else if !self.finishing.is_empty() {
            Stall::Finishing
        } else {
            Stall::Idle
        }
    }

    /// A memory fault at the access it names.
    #[cold]
    fn memory_fault(&self, fault: &sim_memory::fault::MemoryFault) -> Box<Fault> {
        let entry = fault.access.and_then(|id| self.accesses.get(id));
        let lanes = fault.lane.map_or(0, |lane| 1 << lane);
        let bottom = Bottom::new(fault.rule, lanes, fault.reason.clone());
        let (warp, pc) = entry.map_or((0, 0), |e| (e.warp, e.pc));
        self.fault(warp, pc, &bottom)
    }

    /// `⊥` with its place.
    #[cold]
    pub fn fault(&self, warp: usize, pc: u32, bottom: &Bottom) -> Box<Fault> {
        let checks = ["safe-act", "safe-split", "cfc-addr"];
        let kind = if checks.contains(&bottom.rule) { FaultKind::CheckViolation } else { FaultKind::Fault };
        let mut message = bottom.reason.clone();
        if kind == FaultKind::CheckViolation {
            message.push_str(&format!("; state: {}", self.resident.policy.describe(warp)));
        }
        Box::new(Fault {
            kind,
            rule: bottom.rule.to_string(),
            message,
            place: self.resident.where_is(warp, pc, bottom.lanes, self.now),
        })
    }

    /// Cycle of the last thing that happened here.
    pub fn now(&self) -> Cycle {
        self.now
    }

    /// True if a block is resident.
    pub fn has_blocks(&self) -> bool {
        self.resident.blocks.iter().any(Option::is_some)
    }

    /// Issue slots of all kinds so far: `issued + Σ stalls`.
    pub fn slots(&self) -> u64 {
        self.stats.issued + self.stats.stalls.iter().sum::<u64>()
    }

    /// Counts of splits by where they are, for messages: (name, splits).
    pub fn waiting(&self) -> Vec<(&'static str, u32)> {
        let names = ["absent", "ready", "dependency", "memory", "drain", "barrier", "collective", "sleep"];
        names
            .iter()
            .enumerate()
            .map(|(i, name)| (*name, self.lanes.iter().map(|lane| lane.counts[i]).sum()))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// A split that waits, for messages about deadlocks: its warp, pc and why.
    pub fn first_waiting(&self) -> Option<(usize, Place, &'static str)> {
        let split = (0..self.status.len()).find(|&s| self.status[s] != Status::Absent)?;
        let warp = self.resident.warp_of(split as SplitId);
        let pc = self.resident.policy.pc(split as SplitId).saturating_sub(1);
        let mask = self.resident.policy.mask(split as SplitId);
        let why = match self.status[split] {
            Status::Barrier => "waits at a barrier that no thread left can complete",
            Status::Collective => "waits at a collective for threads that never arrive",
            Status::Memory => "waits for memory",
            Status::Drain => "waits for its accesses",
            _ => "runs",
        };
        Some((warp, self.resident.where_is(warp, pc, mask, self.now), why))
    }
}

/// Names of the stall reasons with their counts.
pub fn stall_table(stalls: &[u64; STALLS.len()]) -> impl Iterator<Item = (&'static str, u64)> {
    STALLS.iter().copied().zip(stalls.iter().copied())
}
