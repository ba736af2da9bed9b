//! A memory partition: one L2 slice and one DRAM channel, the part of device memory they own, and the
//! partition's part of the memory programs.

mod halves;
mod micro_steps;
mod observe;
mod reuse;

use std::collections::VecDeque;
use std::sync::Arc;

use halves::Halves;
use rustc_hash::FxHashSet;

use crate::cache::{Cache, CacheStats, Class};
use crate::coalescing::round_to_sectors;
use crate::device_memory::DeviceMemory;
use crate::divide::Divisor;
use crate::dram::{DramChannel, DramRequest, DramStats, DramTimings};
use crate::event_queue::EventQueue;
use crate::fault::MemoryFault;
use crate::held_lines::HeldLines;
use crate::hundredths::Hundredths;
use crate::line::{ByteMask, LINE_BYTES, LineData, bytes_in, line_number, offset_in_line};
use crate::links;
use crate::mapping::Mapping;
use crate::messages::{AtomicLanes, Reply, Request};
use crate::observation::{NO_STORES, PartitionObservation};
use crate::occupancy::{Occupancy, QueueStats};
use crate::priority::Priority;
use crate::programs::{Instruction, OpExp, ProgramSet};
use crate::spec::{Clocks, MemorySpec};
use crate::vocabulary::{AtomicOp, Cycle, WARP_LANES};

#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Instance {
    request: Request,
    sm: u32,
    set: u64,
    pinned: bool,
    holds: bool,
    /// True if it has waited for another to release its line.
    waited: bool,
    fetched: bool,
    /// The bytes that the reply to a load carries.
    replies: ByteMask,
}

#[derive(Clone, Copy, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
enum Event {
    /// An instance leaves the pipeline of the slice and runs its first micro step.
    Start,
    /// The instance's bytes have crossed the DRAM data bus.
    Fetched,
}

/// Request and reply counters of one partition, with those of its L2 slice and DRAM channel.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
pub struct PartitionStats {
    /// Requests of all kinds.
    pub requests: u64,
    /// Write-backs of L1 lines, which get no reply; included in `requests`.
    pub write_backs: u64,
    /// Atomic operations performed, counted by lane.
    pub atomics: u64,
    /// Counters of the L2 slice.
    pub l2: CacheStats,
    /// Counters of the DRAM channel.
    pub dram: DramStats,
    /// Replies sent to SMs.
    pub replies: u64,
    /// Occupancy of the MSHRs of L2.
    pub mshrs: QueueStats,
    /// Occupancy of the queue of requests stalled because no MSHR, or no merge at one, is free.
    pub stalled: QueueStats,
}

/// A memory partition: an L2 slice with its DRAM channel.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Partition {
    #[borsh(serialize_with = "links::named", deserialize_with = "links::linked")]
    spec: Arc<MemorySpec>,
    #[borsh(serialize_with = "links::named", deserialize_with = "links::linked")]
    clocks: Clocks,
    /// Taken out of `self` while micro steps change the other fields.
    #[borsh(serialize_with = "links::named", deserialize_with = "links::linked")]
    programs: ProgramSet,
    #[borsh(serialize_with = "links::named", deserialize_with = "links::linked")]
    memory: Arc<DeviceMemory>,
    mapping: Mapping,
    l2: Cache,
    dram: DramChannel,
    instances: Vec<Instance>,
    free: Vec<u32>,
    held: HeldLines,
    /// Requests that are in the network, ordered by (cycle, SM, order of sending).
    arrivals: EventQueue<u32>,
    events: EventQueue<(Event, u32)>,
    /// For each bank of the slice: when it accepts a request, in hundredths of a cycle.
    port_free: Vec<u64>,
    by_banks: Divisor,
    /// If L2 has two halves.
    halves: Option<Halves>,
    /// The line that was asked for last.
    last_line: u64,
    /// Requests stalled in order behind one that found no MSHR, or no merge at one.
    stalled: VecDeque<u32>,
    /// Occupancy of `stalled`.
    waiting: Occupancy,
    /// MSHRs in use: misses in flight.
    mshrs: Occupancy,
    /// Instances that wait for an MSHR (`want_mshr`) or for room in the channel's write queue (`want_write`).
    want_mshr: VecDeque<u32>,
    want_write: VecDeque<u32>,
    /// Hundredths of the cycle up to which replies keep the port.
    egress_free: u64,
    dram_next: Option<Cycle>,
    outbox: Vec<(Cycle, u32, Reply)>,
    runnable: Vec<u32>,
    /// Number of writes that bypassed L2 and changed a byte of device memory.
    memory_changes: u64,
    stats: PartitionStats,
    /// Observation of memory, if it is asked for.
    #[borsh(skip)]
    pub observation: Option<Box<PartitionObservation>>,
}

/// The tag of a DRAM request that no instance waits for.
const NOBODY: u32 = u32::MAX;

impl Partition {
    /// An idle partition. Its slice holds the lines left by an earlier run, if they are given.
    pub fn new(
        index: u32,
        spec: Arc<MemorySpec>,
        clocks: Clocks,
        programs: Arc<ProgramSet>,
        timings: Arc<DramTimings>,
        memory: Arc<DeviceMemory>,
        l2: Cache,
    ) -> Self {
        Self {
            mapping: Mapping::new(&spec),
            held: HeldLines::new(u64::from(spec.l2.sets().max(1))),
            l2,
            dram: DramChannel::new(&spec.dram, timings),
            clocks,
            programs: ProgramSet::clone(&programs),
            memory,
            instances: Vec::new(),
            free: Vec::new(),
            arrivals: EventQueue::default(),
            events: EventQueue::default(),
            port_free: vec![0; spec.slice_banks as usize],
            by_banks: Divisor::new(u64::from(spec.slice_banks)),
            last_line: u64::MAX,
            halves: spec
                .l2_halves
                .as_ref()
                .filter(|halves| halves.sms > 0)
                .map(|halves| Halves::new(halves, index, spec.l2.sets())),
            stalled: VecDeque::new(),
            waiting: Occupancy::default(),
            mshrs: Occupancy::default(),
            want_mshr: VecDeque::new(),
            want_write: VecDeque::new(),
            egress_free: 0,
            dram_next: None,
            outbox: Vec::new(),
            runnable: Vec::new(),
            memory_changes: 0,
            stats: PartitionStats::default(),
            observation: None,
            spec,
        }
    }

    /// Accepts a request from `sm` that arrives at `at`. Requests take effect in the order (cycle, SM, order
    /// of sending), in whatever order they are delivered.
    pub fn deliver(&mut self, at: Cycle, sm: u32, request: Request) {
        let instance = Instance {
            set: self.l2.set_of(line_number(request.local)),
            replies: request.mask,
            request,
            sm,
            pinned: false,
            holds: false,
            waited: false,
            fetched: false,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.instances[slot as usize] = instance;
                slot
            }
            None => {
                self.instances.push(instance);
                self.held.reserve(self.instances.len());
                (self.instances.len() - 1) as u32
            }
        };
        if self.observation.is_some() {
            self.observe_request(slot as usize);
        }
        self.arrivals.push(at, sm, slot);
    }

    /// Number of writes so far that changed a byte, or may have, in the slice or past it.
    pub fn changes(&self) -> u64 {
        self.l2.changes() + self.memory_changes
    }

    /// The cycle of the partition's next event; `None` if it has none.
    #[inline]
    pub fn next_event(&self) -> Option<Cycle> {
        let mut next = self.events.next();
        let mut take = |at: Cycle| next = Some(next.map_or(at, |n| n.min(at)));
        if let Some(at) = self.arrivals.next() {
            take(at);
        }
        if let Some(at) = self.dram_next {
            take(at);
        }
        next
    }

    /// Processes all events before `until`.
    ///
    /// # Errors
    /// `⊥` of a memory program.
    pub fn advance(&mut self, until: Cycle) -> Result<(), MemoryFault> {
        while let Some(now) = self.next_event()
            && now < until
        {
            while let Some((at, slot)) = self.arrivals.pop(now) {
                self.receive(at, slot);
            }
            while let Some((_, (event, slot))) = self.events.pop(now) {
                match event {
                    Event::Start => self.start(slot, now)?,
                    Event::Fetched => {
                        self.instances[slot as usize].fetched = true;
                        self.fill_takes_time(slot as usize, now);
                        self.mshrs.remove(now);
                        if let Some(next) = self.want_mshr.pop_front() {
                            self.fetch(next, now);
                        }
                        self.run(slot, now)?;
                    }
                }
            }
            if self.dram_next.is_some_and(|at| at <= now) {
                self.schedule_dram(now)?;
            }
            while let Some(&slot) = self.stalled.front()
                && let Some(holder) = self.finds_mshr(slot)
            {
                self.stalled.pop_front();
                self.waiting.set(self.stalled.len() as u64, now);
                self.begin(slot, holder, now)?;
            }
        }
        Ok(())
    }

    /// Passes the replies that have left to `sink`: arrival cycle, SM, reply.
    pub fn take_replies(&mut self, mut sink: impl FnMut(Cycle, u32, Reply)) {
        for (at, sm, reply) in self.outbox.drain(..) {
            sink(at, sm, reply);
        }
    }

    /// Writes all dirty lines to device memory without taking time, because the host reads it after a run.
    pub fn flush_to_memory(&mut self) {
        let memory = &self.memory;
        self.l2.clean_all(|line, mask, data| memory.write_line(line, mask, data));
    }

    /// Writes all dirty bytes to device memory, which stay dirty.
    pub fn share_with_memory(&self) {
        self.l2.share(|line, mask, data| self.memory.write_line(line, mask, data));
    }

    /// True if no atomic operation is between its operation and its write: between
    /// [`share_with_memory`](Self::share_with_memory) and [`renew`](Self::renew) memory may change then.
    pub fn settled(&self) -> bool {
        let held = |(_, instance): (u32, &Instance)| {
            if instance.request.atomic.is_none() {
                return false;
            }
            let code = &self.programs.get(instance.request.program).code;
            let done = &code[..usize::from(instance.request.pc).min(code.len())];
            instance.holds
                && done.iter().any(|step| matches!(step.instruction, Instruction::Op(OpExp::AtomOp)))
        };
        !self.in_flight().any(held)
    }

    /// The requests in flight, by slot.
    fn in_flight(&self) -> impl Iterator<Item = (u32, &Instance)> {
        let free: FxHashSet<u32> = self.free.iter().copied().collect();
        (0..).zip(&self.instances).filter(move |(slot, _)| !free.contains(slot))
    }

    /// Memory has changed: L2 has the bytes of memory, and the lines of `last` besides, the most recent one last, of which these bytes
    /// are dirty if stores stay in L2. The lines are of this partition. Those that a request in flight is about are left as they
    /// are: it may have found its line absent.
    pub fn renew(&mut self, last: &[(u64, ByteMask)]) {
        let memory = &self.memory;
        self.l2.renew(|line, mask, data| memory.read_line(line, mask, data));
        let busy: FxHashSet<u64> = self.in_flight().map(|(_, instance)| instance.request.line).collect();
        let stays = if self.programs.write_l2() { ByteMask::MAX } else { 0 };
        for &(line, written) in last.iter().filter(|(line, _)| !busy.contains(line)) {
            let (_, local) = self.mapping.place(line);
            let mut data = [0; LINE_BYTES as usize];
            memory.read_line(line, ByteMask::MAX, &mut data);
            self.l2.put(self.l2.set_of(line_number(local)), line, &data, written & stays);
        }
    }

    /// Takes the lines of L2 for the partition of a later run. The partition must be idle, and
    /// [`flush_to_memory`](Self::flush_to_memory) must have been called. The counters restart at zero.
    pub fn take_l2(&mut self) -> Cache {
        let mut l2 = std::mem::replace(&mut self.l2, Cache::hollow());
        l2.observe(false);
        l2.stats = CacheStats::default();
        l2
    }

    /// The L2 slice, for inspection.
    pub fn l2(&self) -> &Cache {
        &self.l2
    }

    /// True if no request is in flight.
    pub fn idle(&self) -> bool {
        self.instances.len() == self.free.len() && self.dram.queued() == 0
    }

    /// Checks the invariants of an idle partition.
    ///
    /// # Errors
    /// A description of the first violation.
    pub fn check_idle(&self) -> Result<(), String> {
        let leaks = [
            (self.l2.pinned(), "pinned L2 lines"),
            (self.held.held(), "held lines"),
            (self.held.waiting_for_sets(), "operations waiting for a way"),
            (self.mshrs.len(), "MSHRs in use"),
            (self.want_mshr.len(), "operations waiting for an MSHR"),
            (self.want_write.len(), "operations waiting to write to DRAM"),
            (self.stalled.len(), "stalled requests"),
        ];
        match leaks.iter().find(|(count, _)| *count != 0) {
            Some((count, what)) => Err(format!("{count} {what} are left")),
            None => self.l2.check_idle().map_err(|why| format!("L2: {why}")),
        }
    }

    /// The counters so far.
    pub fn stats(&self) -> PartitionStats {
        PartitionStats {
            l2: self.l2.stats,
            dram: self.dram.stats(),
            mshrs: self.mshrs.stats(),
            stalled: self.waiting.stats(),
            ..self.stats
        }
    }

    fn receive(&mut self, at: Cycle, slot: u32) {
        self.stats.requests += 1;
        let request = &self.instances[slot as usize].request;
        self.stats.write_backs += u64::from(request.slot.is_none());
        let crosses = self
            .halves
            .as_mut()
            .is_some_and(|halves| halves.crosses(self.instances[slot as usize].sm, request));
        let busy = match &request.atomic {
            // Measured at the slice that performs it.
            Some(atomic) => time_of_atomic(atomic, &self.spec),
            None if request.is_load => self.spec.slice_reads.sector.times(sectors(request.mask, &self.spec)),
            None => self.spec.slice_writes.sector.times(sectors(request.asked, &self.spec)),
        };
        let (busy, way) = match &self.spec.l2_halves {
            Some(halves) if crosses => (busy + self.passing(request, busy), Cycle::from(halves.latency)),
            _ => (busy, 0),
        };
        self.last_line = request.line;
        let (_, bank) = self.by_banks.divide(line_number(request.local));
        let port = &mut self.port_free[bank as usize];
        let start = (*port).max(Hundredths::at(at));
        *port = start + busy.max(Hundredths::at(self.spec.partition_interval.into()));
        let start = Hundredths::cycle(start);
        self.push_event(start + way + Cycle::from(self.spec.l2.hit_latency), Event::Start, slot);
    }

    /// Hundredths of a cycle that a request, which takes `busy` here, takes in the opposite slice, by which it comes. An atomic takes the
    /// time of its sectors there. That is another slice: where one line is asked for again and again, its own slice does not do as
    /// much for others.
    fn passing(&self, request: &Request, busy: u64) -> u64 {
        match &request.atomic {
            Some(_) if self.last_line == request.line => 0,
            Some(_) => self.spec.slice_writes.atomic_sector.times(sectors(request.asked, &self.spec)),
            None => busy,
        }
    }

    /// Charges the bank of the slice for the sectors that have come from DRAM.
    fn fill_takes_time(&mut self, index: usize, now: Cycle) {
        let request = &self.instances[index].request;
        let fill = self.spec.slice_reads.fill;
        if fill == Hundredths::default() {
            return;
        }
        let (_, bank) = self.by_banks.divide(line_number(request.local));
        let port = &mut self.port_free[bank as usize];
        *port = (*port).max(Hundredths::at(now)) + fill.times(sectors(request.mask, &self.spec));
    }

    fn push_event(&mut self, at: Cycle, event: Event, slot: u32) {
        self.events.push(at, 0, (event, slot));
    }

    /// `Some` if the instance has an MSHR and a merge available, or needs none; within it, the operation that
    /// holds its line, if there is one.
    fn finds_mshr(&self, slot: u32) -> Option<Option<u32>> {
        let Instance { request, set, .. } = &self.instances[slot as usize];
        let holder = self.held.holder(*set, request.line);
        let fetches = request.is_load || request.atomic.is_some();
        let found = match holder {
            _ if !fetches => true,
            Some((_, waiting)) => waiting < self.spec.l2.mshr_merges,
            None => {
                self.mshrs.len() < self.spec.l2.mshrs as usize
                    || self.l2.is_cached(*set, request.line, request.mask)
            }
        };
        found.then_some(holder.map(|(holder, _)| holder))
    }

    /// Starts an instance. The slice works in order: an instance behind a stalled one stalls too.
    fn start(&mut self, slot: u32, now: Cycle) -> Result<(), MemoryFault> {
        if self.stalled.is_empty()
            && let Some(holder) = self.finds_mshr(slot)
        {
            return self.begin(slot, holder, now);
        }
        self.l2.stats.reservation_fails += 1;
        self.stalled.push_back(slot);
        self.waiting.set(self.stalled.len() as u64, now);
        Ok(())
    }

    fn begin(&mut self, slot: u32, holder: Option<u32>, now: Cycle) -> Result<(), MemoryFault> {
        if let Some(holder) = holder {
            if self.is_apart(holder, slot) {
                self.held.share(holder, slot);
                self.instances[slot as usize].holds = true;
                return self.run(slot, now);
            }
            self.held.wait(holder, slot);
            self.instances[slot as usize].waited = true;
            return Ok(());
        }
        self.run(slot, now)
    }

    /// True if an instance is a load, beside loads that hold its line, of a sector that none of them fetches.
    fn is_apart(&self, holder: u32, slot: u32) -> bool {
        let of = |slot: u32| {
            let request = &self.instances[slot as usize].request;
            (request.mask | request.asked, request.is_load)
        };
        let (own, loads) = of(slot);
        // All loads of a byte before the next store to it read the same here.
        loads && self.held.left(holder, own, true, of) != 0
    }

    fn run(&mut self, slot: u32, now: Cycle) -> Result<(), MemoryFault> {
        let programs = std::mem::take(&mut self.programs);
        let mut result = self.micro_steps(&programs, slot, now);
        while result.is_ok()
            && let Some(next) = self.runnable.pop()
        {
            result = self.micro_steps(&programs, next, now);
        }
        self.programs = programs;
        result
    }

    fn fetch(&mut self, slot: u32, now: Cycle) {
        let request = &self.instances[slot as usize].request;
        let bursts = bytes_in(request.mask).div_ceil(self.spec.dram.burst_bytes);
        let first = offset_in_line(request.mask.trailing_zeros().into()) as u64;
        let request = DramRequest { tag: Some(slot), address: request.local + first, bursts, write: false };
        self.mshrs.add(now);
        self.push_dram(request, now);
    }

    /// `wbL2`: the bytes are in memory at once; the channel is charged for the write later.
    fn write_back(&mut self, line: u64, mask: ByteMask, data: &LineData, now: Cycle) {
        if self.observation.is_some() {
            self.observe_write_back(line, mask);
        }
        self.memory.write_line(line, mask, data);
        let sectors = round_to_sectors(mask, self.spec.dram.burst_bytes);
        let bursts = bytes_in(sectors).div_ceil(self.spec.dram.burst_bytes);
        let (_, address) = self.mapping.place(line);
        self.push_dram(DramRequest { tag: None, address, bursts, write: true }, now);
    }

    fn push_dram(&mut self, request: DramRequest, now: Cycle) {
        self.dram.push(request, self.clocks.to_dram(now));
        let decision = self.dram.next_decision().map(|at| self.clocks.to_core(at).max(now));
        self.dram_next = match (self.dram_next, decision) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    fn schedule_dram(&mut self, now: Cycle) -> Result<(), MemoryFault> {
        let dram_now = self.clocks.to_dram(now);
        while let Some((request, end)) = self.dram.choose(dram_now) {
            let slot = request.tag.unwrap_or(NOBODY);
            if slot != NOBODY {
                let at = self.clocks.to_core(end) + Cycle::from(self.spec.dram.latency);
                self.push_event(at, Event::Fetched, slot);
            }
        }
        self.dram_next = self.dram.next_decision().map(|at| self.clocks.to_core(at).max(now + 1));
        while self.dram.takes_writes()
            && let Some(slot) = self.want_write.pop_front()
        {
            self.run(slot, now)?;
        }
        Ok(())
    }

    /// Gives the line of an instance the eviction priority that its access asks for.
    #[cold]
    fn prioritize(&mut self, index: usize) {
        let Instance { request, set, .. } = &self.instances[index];
        let class = match request.priority {
            Priority::Unchanged => return,
            Priority::Normal => Class::Normal,
            Priority::First => Class::First,
            Priority::Last => Class::Last,
        };
        self.l2.keep(*set, request.line, class, self.spec.l2.most_kept());
    }

    /// Ends the partition's part of an instance: releases the line and sends the reply.
    fn leave(&mut self, slot: u32, now: Cycle) {
        if self.instances[slot as usize].request.priority != Priority::Unchanged {
            self.prioritize(slot as usize);
        }
        self.release_line(slot as usize);
        self.free.push(slot);
        let instance = &mut self.instances[slot as usize];
        let (sm, request) = (instance.sm, &mut instance.request);
        let Some(sm_slot) = request.slot else { return };
        let payload = match &request.atomic {
            _ if request.is_load => bytes_in(instance.replies),
            Some(atomic) => atomic.returned_bytes(),
            None => 0,
        };
        let net = &self.spec.interconnect;
        let start = self.egress_free.max(Hundredths::at(now));
        self.egress_free = start + net.time_of_reply(payload);
        self.stats.replies += 1;
        let reply = Reply {
            slot: sm_slot,
            pc: request.pc,
            data: request.data,
            atomic: request.atomic.take(),
            fetched: instance.fetched,
            stores: match &self.observation {
                Some(observed) if request.is_load => {
                    Some(&observed.stores[slot as usize]).filter(|s| **s != NO_STORES).map(|s| Box::new(*s))
                }
                _ => None,
            },
        };
        let left = Hundredths::cycle(self.egress_free);
        self.outbox.push((left + Cycle::from(net.latency), sm, reply));
    }
}

/// Number of sectors of L2 in which bytes lie.
fn sectors(bytes: ByteMask, spec: &MemorySpec) -> u32 {
    bytes_in(round_to_sectors(bytes, spec.l2.sector_bytes)) / spec.l2.sector_bytes.max(1)
}

/// Hundredths of a cycle that an atomic keeps a bank. The sectors come one after another; in each of them lanes with
/// different addresses are one step, and lanes with one address as many as they are.
fn time_of_atomic(atomic: &AtomicLanes, spec: &MemorySpec) -> u64 {
    let writes = &spec.slice_writes;
    let sum = atomic.op == AtomicOp::Add && atomic.ty.is_float();
    let again = if sum { writes.atomic_float } else { writes.atomic_address };
    let mut counts = [0u8; LINE_BYTES as usize];
    let lanes = (0..WARP_LANES).filter(|lane| atomic.lanes >> lane & 1 == 1);
    lanes.for_each(|lane| counts[offset_in_line(atomic.offsets[lane].into())] += 1);
    let most = counts.chunks(spec.l2.sector_bytes.max(1) as usize).map(|sector| {
        let most = sector.iter().copied().max().unwrap_or(0);
        debug_assert!(!atomic.combined || most == 0 || u32::from(most) == atomic.lanes.count_ones());
        if atomic.combined { most.min(1) } else { most }
    });
    most.filter(|most| *most > 0)
        .map(|most| writes.atomic_sector.times(1) + again.times(u32::from(most) - 1))
        .sum()
}
