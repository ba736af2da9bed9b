//! A streaming multiprocessor, cycle by cycle: warp schedulers issue ready splits to units, the
//! scoreboard and a time wheel say when each is ready again, accesses go through the SM's side
//! of the memory environment. Cycles on which nothing can happen are jumped over.

pub mod accesses;
mod ahead;
mod bulk_copies;
mod drains;
mod fetch;
mod formation;
mod issue;
mod network;
mod next;
mod packets;
mod pick;
mod products;
pub mod profile;
pub mod recorder;
mod reuse;
pub mod scheduler;
mod scheduler_state;
pub mod states;
pub mod stats;
mod status;
mod straight;
pub mod timeline;
mod tma;
pub mod units;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;

use sim_frontend::chip::{ChipSpec, FenceSpec};
use sim_frontend::isa::UnitClass;
use sim_memory::messages::Reply;
use sim_memory::messages::Request;
use sim_memory::sm_memory::SmMemory;
use sim_memory::vocabulary::{Cycle, NEVER};

use accesses::{Accesses, port};
use scheduler::{MAX_SCHEDULERS, WarpScheduler};
use scheduler_state::{ByUnit, SchedulerState};
use states::Status;
use stats::{STALLS, SmStats};
use units::{ROOM, Units};

use self::fetch::Fetch;
use self::network::Network;
use self::recorder::Recorder;
use self::timeline::Timeline;
use self::tma::Tma;
use crate::by_split::BySplit;
use crate::code::Queue;
use crate::error::Fault;
use crate::execute::{ConstantCache, Resident, World};
use crate::grid::Kernel;
use crate::instruction_set::InstructionSet;
use crate::packet::Packet;
use crate::reconvergence::{Lanes, Reconvergence, SplitId};
use crate::wheel::Wheel;

/// What arrives at an SM from the device component.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum SmMessage {
    /// A block to run.
    Block {
        /// Its kernel.
        #[borsh(
            serialize_with = "crate::state::write_kernel",
            deserialize_with = "crate::state::read_kernel"
        )]
        kernel: Arc<Kernel>,
        /// Its number in the grid.
        number: u64,
        /// SMs of the blocks of its cluster, by rank, where it has several.
        sms: Option<Arc<[u32]>>,
    },
    /// From itself: the unit of bulk copies goes on.
    Tma,
    /// Of another block of a cluster.
    Packet {
        /// The SM that sent it.
        from: u32,
        /// What it is.
        packet: Packet,
    },
    /// Forget the global lines of L1: a dependent grid starts.
    FlushL1,
    /// The threads of this grid end where they are.
    Abort {
        /// The grid.
        grid_id: u32,
    },
    /// What became of a request to cancel a launch.
    Answer {
        /// Number of the request.
        number: u64,
        /// Index of the first block of the cluster that will not run, if there is one.
        cancelled: Option<[u32; 3]>,
    },
}

/// What an SM tells the dispatcher of grid `grid_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Notice {
    /// Number of the launch.
    pub grid_id: u32,
    /// What it is.
    pub what: Tells,
    /// Number of the block in its grid, or of the request.
    pub number: u64,
    /// Core cycle: of the end of a block the one at which its last thread ended and its last access was performed.
    pub at: Cycle,
    /// Warp instructions of the grid that the SM has issued by then.
    pub issued: u64,
}

/// What a notice says, in the order in which those of an SM that arrive together take effect.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
pub enum Tells {
    /// A block ended.
    Ended,
    /// A launch is to be cancelled.
    Cancel,
}

/// A streaming multiprocessor.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Sm<P> {
    /// Number of the SM.
    pub index: u32,
    /// Blocks, warps, policy.
    pub resident: Resident<P>,
    /// Its side of the memory environment.
    pub memory: SmMemory,
    /// Counters of the SM.
    pub stats: SmStats,
    accesses: Accesses,
    units: Units,
    /// Those of the first `schedulers` are in use.
    scheduler_states: Box<[SchedulerState; MAX_SCHEDULERS]>,
    wheel: Wheel,
    /// Where splits are. `Dependency` are those that the wheel wakes, whether or not it has: which of
    /// them are ready, the schedulers know.
    status: BySplit<Status, P>,
    queue_of: BySplit<Queue, P>,
    schedulers: usize,
    /// log2 of the schedulers, where it is a whole number.
    scheduler_shift: Option<u32>,
    /// log2 of the warps of a scheduler, rounded up.
    local_shift: u32,
    /// Words of each set that may have bits.
    live: usize,
    now: Cycle,
    next: Option<Cycle>,
    inbox: VecDeque<(Cycle, SmMessage)>,
    woken: Vec<usize>,
    /// Warps whose asynchronous copies have arrived.
    copied: Vec<usize>,
    touched: Vec<SplitId>,
    notices: Vec<Notice>,
    barrier_latency: u32,
    /// Cycles that an arrival at a barrier takes.
    barrier_interval: u32,
    /// When the next arrival at a barrier can be taken.
    barriers_free: Cycle,
    fence: FenceSpec,
    branch_latency: u32,
    resident_warps: u32,
    /// Resident warps are counted up to this cycle.
    resident_since: Cycle,
    finishing: Vec<usize>,
    load_store: usize,
    #[borsh(serialize_with = "sim_memory::links::named", deserialize_with = "sim_memory::links::linked")]
    instruction_set: InstructionSet,
    /// Schedulers that have had their turn in this cycle, the one that issues among them.
    #[borsh(skip)]
    turned: usize,
    /// Operations that follow one another are issued together before this cycle.
    #[borsh(skip)]
    runs_until: Cycle,
    /// What issues now belongs to a formed warp whose leader has the issue slot.
    following: bool,
    /// Memory of the host is asked for ahead of its use.
    ahead: bool,
    /// A scheduler issues up to two instructions of a warp in a cycle.
    dual_issue: bool,
    /// What is written down of every issue, where it is asked for.
    #[borsh(skip)]
    pub recorder: Option<Box<Recorder>>,
    /// Splits likely to issue in the epoch to come.
    coming: Vec<SplitId>,
    /// When shared memory has been read for the products of warpgroups so far, and the turns of other accesses to it when
    /// this was worked out.
    product_reads: (Cycle, u64),
    /// A message has come since it was made or reset.
    used: bool,
    /// To the other SMs of its GPC, where blocks of clusters use it.
    network: Option<Box<Network>>,
    /// What makes bulk copies.
    tma: Box<Tma>,
    /// Instruction caches, where the chip has any.
    fetch: Option<Box<Fetch>>,
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
        let local_shift = warps.div_ceil(schedulers).next_power_of_two().trailing_zeros();
        let per_scheduler = P::SPLITS << local_shift;
        let words = per_scheduler.div_ceil(64);
        let instruction_set = world.instruction_set;
        debug_assert!((1..=MAX_SCHEDULERS).contains(&schedulers), "the chip's check");
        let state =
            |index| SchedulerState::new(scheduler, if index < schedulers { words } else { 0 }, local_shift);
        let mut resident =
            Resident::new(index, world, policy, warps, chip.limits.max_resident_blocks as usize);
        resident.constants =
            chip.memory.constant.cache.as_ref().map(|spec| Box::new(ConstantCache::new(spec)));
        Self {
            index,
            resident,
            memory,
            stats: SmStats::default(),
            accesses: Accesses::default(),
            units: Units::new(&chip.sm),
            scheduler_states: Box::new(std::array::from_fn(state)),
            wheel: Wheel::new(schedulers, words),
            status: BySplit::new(warps, Status::Absent),
            queue_of: BySplit::new(warps, Queue::default()),
            schedulers,
            scheduler_shift: schedulers.is_power_of_two().then(|| schedulers.trailing_zeros()),
            local_shift,
            live: 1,
            now: 0,
            next: None,
            inbox: VecDeque::new(),
            woken: Vec::new(),
            copied: Vec::new(),
            touched: Vec::new(),
            notices: Vec::new(),
            barrier_latency: chip.sm.barrier_latency,
            barrier_interval: chip.sm.barrier_interval,
            barriers_free: 0,
            fence: chip.sm.fence,
            branch_latency: chip.sm.branch_latency,
            resident_warps: 0,
            resident_since: 0,
            finishing: Vec::new(),
            load_store: UnitClass::LoadStore as usize,
            instruction_set,
            ahead: ahead::pays(chip),
            dual_issue: chip.sm.issue_width > 1,
            recorder: None,
            turned: 0,
            runs_until: 0,
            following: false,
            coming: Vec::new(),
            product_reads: (0, 0),
            used: false,
            network: Network::new(chip),
            tma: Box::new(Tma::new(chip)),
            fetch: chip.sm.instruction_cache.as_ref().map(|spec| Box::new(Fetch::new(spec))),
        }
    }

    /// Scheduler of a split, and its place in the scheduler's sets: the first splits of all its warps,
    /// then the second ones. Most warps have one, so most sets have bits in their first word only.
    #[inline(always)]
    fn place(&self, split: SplitId) -> (usize, u32) {
        let splits = P::SPLITS as SplitId;
        let (warp, within) = (split / splits, split % splits);
        let schedulers = self.schedulers as u32;
        let (local, scheduler) = match self.scheduler_shift {
            Some(shift) => (warp >> shift, warp & (schedulers - 1)),
            None => (warp / schedulers, warp % schedulers),
        };
        (scheduler as usize, (within << self.local_shift) | local)
    }

    #[inline(always)]
    fn split_at(&self, scheduler: usize, place: u32) -> SplitId {
        if P::SPLITS == 1 {
            return place * self.schedulers as u32 + scheduler as u32;
        }
        let (within, local) = (place >> self.local_shift, place & ((1 << self.local_shift) - 1));
        let warp = local * self.schedulers as u32 + scheduler as u32;
        warp * P::SPLITS as SplitId + within
    }

    /// A message that arrives at `at`; those of one sender and cycle come in their order.
    pub fn deliver(&mut self, at: Cycle, message: SmMessage) {
        self.used = true;
        if self.overtakes(at, &message) {
            self.deliver_before_others(at, message);
        } else {
            self.inbox.push_back((at, message));
        }
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

    /// Gives what the dispatcher is told since the last call to `sink`.
    pub fn take_notices(&mut self, sink: impl FnMut(Notice)) {
        self.notices.drain(..).for_each(sink);
    }

    /// Gives the requests that left since the last call: arrival cycle, partition, request.
    pub fn take_requests(&mut self, sink: impl FnMut(Cycle, u32, Request)) {
        self.memory.take_requests(sink);
    }

    /// Number of warp schedulers.
    pub fn schedulers(&self) -> usize {
        self.schedulers
    }

    /// Runs everything that happens before `until`.
    ///
    /// # Errors
    /// The first fault.
    pub fn run(&mut self, until: Cycle) -> Result<(), Box<Fault>> {
        match self.instruction_set {
            InstructionSet::Baseline => self.run_here(until),
            // SAFETY: the set is one that `InstructionSet::available` found on this host, and
            // both sets hold these features.
            #[allow(unsafe_code, reason = "the loop is compiled for the host's bit operations")]
            InstructionSet::Avx2Fma | InstructionSet::Avx512 => unsafe { self.run_avx2(until) },
        }
    }

    /// The whole issue loop with the host's bit counts and vector moves: one call an epoch, not
    /// one an operation.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt"))]
    #[allow(unsafe_code, reason = "callers must have the features")]
    unsafe fn run_avx2(&mut self, until: Cycle) -> Result<(), Box<Fault>> {
        self.run_here(until)
    }

    #[inline(always)]
    fn run_here(&mut self, until: Cycle) -> Result<(), Box<Fault>> {
        self.runs_until = if self.runs_on() { until } else { 0 };
        while let Some(cycle) = self.next
            && cycle < until
        {
            self.cycle(cycle)?;
        }
        Ok(())
    }

    /// The timeline, where one is asked for.
    fn timeline(&mut self) -> Option<&mut Timeline> {
        self.recorder.as_mut()?.timeline.as_mut()
    }

    /// The state of a scheduler.
    #[inline(always)]
    fn scheduler(&mut self, index: usize) -> &mut SchedulerState {
        &mut self.scheduler_states[index % MAX_SCHEDULERS]
    }

    /// Accounts for idle issue slots up to `until`.
    pub fn account_until(&mut self, until: Cycle) {
        for state in &mut self.scheduler_states[..self.schedulers] {
            state.account(until, !self.finishing.is_empty(), &mut self.stats);
        }
        self.count_residents(until);
    }

    /// Counts resident warps up to `until`, before their number changes.
    #[inline(never)]
    fn count_residents(&mut self, until: Cycle) {
        let cycles = until.saturating_sub(self.resident_since);
        self.stats.warp_cycles += cycles * u64::from(self.resident_warps);
        self.stats.active_cycles += if self.resident_warps > 0 { cycles } else { 0 };
        self.resident_since = until.max(self.resident_since);
    }

    /// Everything that happens here on cycle `now`: arrivals, memory, wake-ups, issues.
    #[inline(always)]
    fn cycle(&mut self, now: Cycle) -> Result<(), Box<Fault>> {
        (self.now, self.turned) = (now, 0);
        while self.inbox.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, message)) = self.inbox.pop_front() {
                self.receive(message)?;
            }
        }
        if self.memory.first_event() <= now {
            self.advance_memory(now)?;
        }
        if let Some(slot) = self.wheel.turn(now) {
            let woken = self.wheel.take_first(slot);
            for scheduler in 0..self.schedulers {
                let bits = woken[scheduler % MAX_SCHEDULERS];
                if bits != 0 {
                    self.wake_ready(scheduler, 0, bits);
                }
            }
            if self.live > 1 {
                self.wake_more(slot);
            }
        }
        while let Some((scheduler, place)) = self.wheel.take_far(now) {
            self.wake_ready(scheduler, place as usize / 64, 1 << (place % 64));
        }
        let mut issued = false;
        for scheduler in 0..self.schedulers {
            self.turned = scheduler + 1;
            if let Some(place) = self.pick(scheduler, now) {
                if P::FORMS_WARPS && self.resident.policy.forms_warps() {
                    self.issue_formed(scheduler, place, now)?;
                } else if self.dual_issue {
                    self.issue_pair(scheduler, place, now)?;
                } else {
                    self.issue(scheduler, place, now)?;
                }
                self.stats.issued += 1;
                issued = true;
            }
        }
        // After all of them: an issue may wake a split of a scheduler that had its turn.
        let from = self.ready_from();
        // Where something issued, something ready most often finds its unit free on the next
        // cycle, and looking there costs less than finding out.
        self.next = if from <= now + 1 && issued { Some(now + 1) } else { self.next_after(now, from) };
        Ok(())
    }

    /// Splits beyond the first words of places that wake in a slot of the wheel.
    #[inline(never)]
    fn wake_more(&mut self, slot: usize) {
        for word in 1..self.live {
            for scheduler in 0..self.schedulers {
                let bits = self.wheel.take(slot, word, scheduler);
                if bits != 0 {
                    self.wake_ready(scheduler, word, bits);
                }
            }
        }
    }

    /// The first cycle from which a scheduler that has a ready split has not issued yet; none where no split is ready.
    #[inline(always)]
    fn ready_from(&self) -> Cycle {
        let mut from = NEVER;
        for state in &self.scheduler_states[..self.schedulers] {
            if state.any_ready(self.live) {
                from = from.min(state.accounted);
            }
        }
        from
    }

    /// The next cycle after `now` on which something happens; a split is ready for a scheduler that has not issued up to `from`.
    #[inline(always)]
    fn next_after(&mut self, now: Cycle, from: Cycle) -> Option<Cycle> {
        let mut next = self.wheel.first().min(self.memory.first_event());
        if let Some((at, _)) = self.inbox.front() {
            next = next.min(*at);
        }
        if from < next {
            next = next.min(self.issuable_from(now));
        }
        (next != NEVER).then(|| next.max(now + 1))
    }

    /// The first cycle after `now` on which a ready split finds its unit free.
    #[inline(always)]
    fn issuable_from(&self, now: Cycle) -> Cycle {
        let accepting = self.memory.accepting();
        let mut first = NEVER;
        for (scheduler, state) in self.scheduler_states[..self.schedulers].iter().enumerate() {
            let next = state.accounted.max(now + 1);
            if next >= first || !state.any_ready(self.live) {
                continue;
            }
            first = if accepting && self.units.all_free(scheduler, next) {
                next
            } else {
                first.min(self.unit_free_from(scheduler, next, accepting))
            };
        }
        first
    }

    /// The first cycle from `next` on in which a unit is free for one of a scheduler's ready splits.
    #[inline(always)]
    fn unit_free_from(&self, scheduler: usize, next: Cycle, accepting: bool) -> Cycle {
        let state = &self.scheduler_states[scheduler % MAX_SCHEDULERS];
        let free = self.units.free(scheduler);
        // Where the load-store unit does not accept, it wakes the SM itself.
        let refused = if accepting { ROOM } else { self.load_store };
        let first_of = |ready: u64, units: &ByUnit| {
            // Without branches: the host looks at several classes at once.
            let mut first = NEVER;
            for class in 0..ROOM {
                let wanted = units[class] & ready != 0 && class != refused;
                first = first.min(if wanted { free[class] } else { NEVER });
            }
            first
        };
        let mut first = first_of(state.ready, &state.by_unit);
        if self.live > 1 {
            let more = state.more.iter().map(|(ready, units)| first_of(*ready, units));
            first = more.fold(first, Cycle::min);
        }
        first.max(next)
    }

    fn receive(&mut self, message: SmMessage) -> Result<(), Box<Fault>> {
        let now = self.now;
        match message {
            SmMessage::Block { kernel, number, sms } => {
                let grid = kernel.grid_id as usize;
                if self.stats.kernels.len() <= grid {
                    self.stats.kernels.resize(grid + 1, Default::default());
                }
                if let Some(fetch) = &mut self.fetch {
                    fetch.launch(&kernel);
                }
                let slot = self.resident.admit(&kernel, number);
                debug_assert!(slot.is_some(), "the device counts slots");
                if let (Some(slot), Some(sms)) = (slot, sms) {
                    self.resident.join_cluster(slot, &kernel, &sms);
                }
                if self.memory.observation.is_some()
                    && let Some(slot) = slot
                {
                    self.log_block(slot, &kernel, number, now);
                }
                if let (Some(slot), Some(timeline)) = (slot, self.timeline()) {
                    timeline.block_begins(slot as u32, kernel.grid_id, number, now);
                }
                self.count_residents(now);
                self.resident_warps += kernel.warps_per_block();
                let admitted = std::mem::take(&mut self.resident.touched);
                for &split in &admitted {
                    let warp = self.resident.warp_of(split);
                    let (scheduler, first) = self.place(self.resident.splits_of(warp).start);
                    let age = self.resident.warps[warp].age;
                    self.scheduler(scheduler).older.admit(first, age);
                    if let Some(recorder) = &mut self.recorder {
                        recorder.begin(warp, self.now);
                    }
                    self.reschedule(split, self.now, self.now);
                }
                self.resident.touched = admitted;
            }
            SmMessage::FlushL1 => self.memory.flush_l1(),
            SmMessage::Abort { grid_id } => self.abort(grid_id),
            SmMessage::Tma => return self.copy_next(),
            SmMessage::Answer { number, cancelled } => return self.answer_arrives(number, cancelled),
            SmMessage::Packet { packet, .. } => return self.receive_packet(packet),
        }
        Ok(())
    }

    /// Ends the threads of a grid's blocks; the blocks' places are free once the accesses in
    /// flight are performed.
    fn abort(&mut self, grid_id: u32) {
        if let Some(network) = &mut self.network {
            network.abort(grid_id);
        }
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
                    self.wheel.remove(scheduler, place);
                    self.resident.waits[split] = 0;
                    self.park(split, Status::Absent);
                }
                self.finish_if_drained(w, self.now);
            }
        }
    }

    fn advance_memory(&mut self, now: Cycle) -> Result<(), Box<Fault>> {
        let mut port = port!(self);
        let result = self.memory.advance(now + 1, &mut port);
        if let Err(fault) = result {
            return Err(self.memory_fault(&fault));
        }
        self.arrive_after_copies()?;
        self.wake_waiting(now)
    }

    /// Arrivals at mbarrier objects of warps whose copies have arrived.
    fn arrive_after_copies(&mut self) -> Result<(), Box<Fault>> {
        while let Some(w) = self.copied.pop() {
            if let Err((pc, violation)) = self.resident.arrivals_due(w) {
                return Err(self.fault(w, pc, &violation));
            }
            if !self.resident.outgoing.is_empty() {
                self.send_packets(self.now);
            }
            if !self.resident.maps.is_empty() {
                self.maps_arrive()?;
            }
        }
        Ok(())
    }

    /// Looks again at the warps whose accesses got on.
    fn wake_waiting(&mut self, now: Cycle) -> Result<(), Box<Fault>> {
        let mut woken = std::mem::take(&mut self.woken);
        for &warp in &woken {
            let first = self.resident.splits_of(warp).start;
            for own in Lanes(self.resident.policy.in_use(warp)) {
                let split = first + own;
                if matches!(self.status[split], Status::Memory | Status::Drain) {
                    self.reschedule(split, now, now);
                    if self.status[split] == Status::Memory && self.resident.policy.divides_at_memory() {
                        self.divide(split, now)?;
                    }
                }
            }
            if self.resident.warps[warp].live() == 0 {
                self.finish_if_drained(warp, now);
            }
        }
        woken.clear();
        self.woken = woken;
        Ok(())
    }

    /// Some lanes of a split have their data while others wait: its policy may divide it.
    fn divide(&mut self, split: SplitId, now: Cycle) -> Result<(), Box<Fault>> {
        let resident = &mut self.resident;
        let (w, pc) = (resident.warp_of(split), resident.policy.pc(split));
        let (warp, mask) = (&resident.warps[w], resident.policy.mask(split));
        let Some(decoded) = resident.kernels[warp.kernel].code.decoded.get(pc as usize) else {
            return Ok(());
        };
        let blocked = warp.board.blocked(decoded.slots(), mask);
        if blocked == 0 || blocked == mask {
            return Ok(());
        }
        let idle = self.ready_from() == NEVER;
        match self.resident.divide(split, mask & !blocked, idle) {
            Ok(false) => Ok(()),
            Ok(true) => {
                let at = now + 1 + self.charge();
                self.reschedule(split, at, now);
                self.reschedule_touched(split, now, 1);
                Ok(())
            }
            Err(violation) => Err(self.fault(w, pc, &violation)),
        }
    }
}

/// Names of the stall reasons with their counts.
pub fn stall_table(stalls: &[u64; STALLS.len()]) -> impl Iterator<Item = (&'static str, u64)> {
    STALLS.iter().copied().zip(stalls.iter().copied())
}
