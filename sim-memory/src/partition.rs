//! A partition: one L2 slice and one DRAM channel, the part of device memory they own, and the
//! partition's half of the memory programs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::address_space::LOCAL_PHYSICAL;
use crate::atomics;
use crate::cache::{Cache, CacheStats, Outcome};
use crate::device_memory::DeviceMemory;
use crate::divide::Divisor;
use crate::dram::{DramChannel, DramRequest, DramStats, DramTimings};
use crate::fault::MemoryFault;
use crate::held_lines::HeldLines;
use crate::occupancy::{Occupancy, QueueStats};
use crate::programs::{BExp, Instruction, OpExp, ProgramId, ProgramSet, Room};
use crate::sm_memory::{AtomicLanes, Reply};
use crate::spec::{Clocks, MemorySpec};
use crate::vocabulary::Cycle;

/// Which partition owns an address, and where it lies there.
#[derive(Clone, Debug)]
pub struct Mapping {
    partitions: Divisor,
    interleave: Divisor,
}

impl Mapping {
    /// The mapping of a chip.
    pub fn new(spec: &MemorySpec) -> Self {
        Self {
            partitions: Divisor::new(u64::from(spec.partitions)),
            interleave: Divisor::new(u64::from(spec.interleave_bytes)),
        }
    }

    /// Partition and byte address within it. Blocks of `interleave_bytes` go round the
    /// partitions, each round turned by a hash of its number, so that strides spread.
    #[inline]
    pub fn place(&self, address: u64) -> (u32, u64) {
        let (block, within) = self.interleave.divide(address);
        let (round, position) = self.partitions.divide(block);
        let turn = round ^ (round >> 7) ^ (round >> 15);
        let (_, partition) = self.partitions.divide(position + self.partitions.divide(turn).1);
        (partition as u32, round * self.interleave.by() + within)
    }
}

/// What an SM sends to a partition.
#[derive(Clone, Debug)]
pub struct Request {
    /// The instance that waits for a reply; `None` for the write-back of an L1 line.
    pub slot: Option<u32>,
    /// The line's address in its partition.
    pub local: u64,
    /// Its program.
    pub program: ProgramId,
    /// Where the program goes on.
    pub pc: u16,
    /// First address of the line.
    pub line: u64,
    /// Bytes asked for or written.
    pub asked: u128,
    /// The same, rounded to what is fetched.
    pub mask: u128,
    /// A load: the reply carries the bytes.
    pub is_load: bool,
    /// Data of stores.
    pub data: [u8; 128],
    /// Lanes of atomics.
    pub atomic: Option<Box<AtomicLanes>>,
}

#[derive(Clone, Debug)]
struct Instance {
    request: Request,
    sm: u32,
    set: u64,
    pinned: bool,
    holds: bool,
    fetched: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An instance left the pipeline of the slice: its first micro step.
    Start,
    /// Its bytes have crossed the DRAM bus.
    Fetched,
}

/// Counters of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PartitionStats {
    /// Requests of all kinds.
    pub requests: u64,
    /// Of these, lines of L1 written back, which nobody waits for.
    pub write_backs: u64,
    /// Atomics, by lane.
    pub atomics: u64,
    /// L2 slice.
    pub l2: CacheStats,
    /// DRAM channel.
    pub dram: DramStats,
    /// Replies sent.
    pub replies: u64,
    /// L2's MSHRs in use.
    pub mshrs: QueueStats,
    /// Requests that wait because MSHRs or their merges are used up.
    pub stalled: QueueStats,
}

/// One partition.
#[derive(Debug)]
pub struct Partition {
    spec: Arc<MemorySpec>,
    clocks: Clocks,
    /// Its own copy: it steps aside while micro steps change all else.
    programs: ProgramSet,
    memory: Arc<DeviceMemory>,
    mapping: Mapping,
    l2: Cache,
    dram: DramChannel,
    instances: Vec<Instance>,
    free: Vec<u32>,
    held: HeldLines,
    /// Requests on their way, by (cycle, SM, sequence).
    arrivals: BinaryHeap<Reverse<(Cycle, u32, u64, u32)>>,
    events: BinaryHeap<Reverse<(Cycle, u64, Event, u32)>>,
    sequence: u64,
    /// By bank of the slice.
    port_free: Vec<Cycle>,
    /// In order, behind one that finds no MSHR or no place at one.
    stalled: VecDeque<u32>,
    stalled_occupancy: Occupancy,
    /// Misses in flight.
    fetching: u32,
    fetching_occupancy: Occupancy,
    /// Instances that wait for an MSHR, and for room among the writes of the channel.
    want_mshr: VecDeque<u32>,
    want_write: VecDeque<u32>,
    egress_free: Cycle,
    dram_next: Option<Cycle>,
    outbox: Vec<(Cycle, u32, Reply)>,
    runnable: Vec<u32>,
    stats: PartitionStats,
}

/// Tag bit of no instance.
const NOBODY: u32 = u32::MAX;

impl Partition {
    /// An idle partition with the lines that earlier runs left in its slice, or a new one.
    pub fn new(
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
            arrivals: BinaryHeap::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            port_free: vec![0; spec.slice_banks as usize],
            stalled: VecDeque::new(),
            stalled_occupancy: Occupancy::default(),
            fetching: 0,
            fetching_occupancy: Occupancy::default(),
            want_mshr: VecDeque::new(),
            want_write: VecDeque::new(),
            egress_free: 0,
            dram_next: None,
            outbox: Vec::new(),
            runnable: Vec::new(),
            stats: PartitionStats::default(),
            spec,
        }
    }

    /// A request of `sm` arrives at `at`: requests take effect in the order (cycle, SM, sequence),
    /// whatever order they are delivered in.
    pub fn deliver(&mut self, at: Cycle, sm: u32, request: Request) {
        let instance = Instance {
            set: self.l2.set_of(request.local / 128),
            request,
            sm,
            pinned: false,
            holds: false,
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
        self.sequence += 1;
        self.arrivals.push(Reverse((at, sm, self.sequence, slot)));
    }

    /// The next cycle on which something happens here.
    #[inline]
    pub fn next_event(&self) -> Option<Cycle> {
        let mut next = self.events.peek().map(|Reverse((at, ..))| *at);
        let mut take = |at: Cycle| next = Some(next.map_or(at, |n| n.min(at)));
        if let Some(Reverse((at, ..))) = self.arrivals.peek() {
            take(*at);
        }
        if let Some(at) = self.dram_next {
            take(at);
        }
        next
    }

    /// Runs everything that happens before `until`.
    ///
    /// # Errors
    /// `⊥` of a memory program.
    pub fn advance(&mut self, until: Cycle) -> Result<(), MemoryFault> {
        while let Some(now) = self.next_event()
            && now < until
        {
            while let Some(&Reverse((at, .., slot))) = self.arrivals.peek()
                && at <= now
            {
                self.arrivals.pop();
                self.receive(at, slot);
            }
            while let Some(&Reverse((at, _, event, slot))) = self.events.peek()
                && at <= now
            {
                self.events.pop();
                match event {
                    Event::Start => self.start(slot, now)?,
                    Event::Fetched => {
                        self.instances[slot as usize].fetched = true;
                        self.fetching -= 1;
                        self.fetching_occupancy.set(self.fetching as usize, now);
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
                self.stalled_occupancy.set(self.stalled.len(), now);
                self.begin(slot, holder, now)?;
            }
        }
        Ok(())
    }

    /// Gives what has left to `sink`: arrival cycle, SM, reply.
    pub fn take_replies(&mut self, mut sink: impl FnMut(Cycle, u32, Reply)) {
        for (at, sm, reply) in self.outbox.drain(..) {
            sink(at, sm, reply);
        }
    }

    /// Writes all dirty lines to device memory, outside time: the host reads it after a run.
    pub fn flush_to_memory(&mut self) {
        let memory = &self.memory;
        self.l2.clean_all(|line, mask, data| memory.write_line(line, mask, data));
    }

    /// L2's lines, for the partition of a later run, to be taken when idle and after
    /// [`flush_to_memory`](Self::flush_to_memory). Counters begin anew.
    pub fn take_l2(&mut self) -> Cache {
        let mut l2 = std::mem::replace(&mut self.l2, Cache::hollow());
        l2.stats = CacheStats::default();
        l2
    }

    /// True if nothing is in flight.
    pub fn idle(&self) -> bool {
        self.instances.len() == self.free.len() && self.dram.queued() == 0
    }

    /// Checks what must hold when nothing is in flight.
    ///
    /// # Errors
    /// The first leak, in words.
    pub fn check_idle(&self) -> Result<(), String> {
        let leaks = [
            (self.l2.pinned(), "pinned L2 lines"),
            (self.held.held(), "held lines"),
            (self.held.waiting_for_sets(), "operations waiting for a way"),
            (self.fetching as usize, "MSHRs in use"),
            (self.want_mshr.len(), "operations waiting for an MSHR"),
            (self.want_write.len(), "operations waiting to write to DRAM"),
            (self.stalled.len(), "stalled requests"),
        ];
        match leaks.iter().find(|(count, _)| *count != 0) {
            Some((count, what)) => Err(format!("{count} {what} are left")),
            None => self.l2.check_idle().map_err(|why| format!("L2: {why}")),
        }
    }

    /// Counters.
    pub fn stats(&self) -> PartitionStats {
        PartitionStats {
            l2: self.l2.stats,
            dram: self.dram.stats(),
            mshrs: self.fetching_occupancy.stats(),
            stalled: self.stalled_occupancy.stats(),
            ..self.stats
        }
    }

    fn receive(&mut self, at: Cycle, slot: u32) {
        self.stats.requests += 1;
        let request = &self.instances[slot as usize].request;
        self.stats.write_backs += u64::from(request.slot.is_none());
        let turns = request.atomic.as_ref().map_or(1, |a| most_on_one_address(a));
        let banks = self.port_free.len() as u64;
        let port = &mut self.port_free[(request.local / 128 % banks) as usize];
        let start = (*port).max(at);
        *port = start + Cycle::from(self.spec.partition_interval * turns);
        self.push_event(start + Cycle::from(self.spec.l2.hit_latency), Event::Start, slot);
    }

    fn push_event(&mut self, at: Cycle, event: Event, slot: u32) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event, slot)));
    }

    /// An MSHR and a place at it are free, or it needs none: then the operation that holds its
    /// line, if one does.
    fn finds_mshr(&self, slot: u32) -> Option<Option<u32>> {
        let Instance { request, set, .. } = &self.instances[slot as usize];
        let holder = self.held.holder(*set, request.line);
        let fetches = request.is_load || request.atomic.is_some();
        let found = match holder {
            _ if !fetches => true,
            Some((_, waiting)) => waiting < self.spec.l2.mshr_merges,
            None => self.fetching < self.spec.l2.mshrs || self.l2.is_cached(*set, request.line, request.mask),
        };
        found.then_some(holder.map(|(holder, _)| holder))
    }

    /// The slice works in order: behind one that is stalled, all are.
    fn start(&mut self, slot: u32, now: Cycle) -> Result<(), MemoryFault> {
        if self.stalled.is_empty()
            && let Some(holder) = self.finds_mshr(slot)
        {
            return self.begin(slot, holder, now);
        }
        self.l2.stats.reservation_fails += 1;
        self.stalled.push_back(slot);
        self.stalled_occupancy.set(self.stalled.len(), now);
        Ok(())
    }

    fn begin(&mut self, slot: u32, holder: Option<u32>, now: Cycle) -> Result<(), MemoryFault> {
        if let Some(holder) = holder {
            let request = &self.instances[slot as usize].request;
            if request.is_load {
                self.l2.stats.merged(request.line >= LOCAL_PHYSICAL);
            }
            self.held.wait(holder, slot);
            return Ok(());
        }
        self.run(slot, now)
    }

    fn run(&mut self, slot: u32, now: Cycle) -> Result<(), MemoryFault> {
        self.runnable.push(slot);
        let programs = std::mem::take(&mut self.programs);
        let mut result = Ok(());
        while result.is_ok()
            && let Some(next) = self.runnable.pop()
        {
            result = self.micro_steps(&programs, next, now);
        }
        self.programs = programs;
        result
    }

    fn micro_steps(&mut self, programs: &ProgramSet, slot: u32, now: Cycle) -> Result<(), MemoryFault> {
        let index = slot as usize;
        if self.instances[index].request.slot.is_none() {
            self.write_back_of_l1(slot, now);
            return Ok(());
        }
        let program = programs.get(self.instances[index].request.program);
        loop {
            let instance = &mut self.instances[index];
            let pc = usize::from(instance.request.pc);
            match &program.code[pc] {
                // A tail of register operations runs when the reply arrives.
                Instruction::Op(_) | Instruction::Unless(..) | Instruction::End
                    if program.room[pc] == Room::Sm && !is_constant(&program.code[pc]) =>
                {
                    self.leave(slot, now);
                    return Ok(());
                }
                Instruction::Op(op) => {
                    if *op == OpExp::ReadMem && !instance.fetched {
                        if self.fetching < self.spec.l2.mshrs {
                            self.fetch(slot, now);
                        } else {
                            self.want_mshr.push_back(slot);
                        }
                        self.hold_line(slot);
                        return Ok(());
                    }
                    if *op == OpExp::WriteMem {
                        if !self.dram.takes_writes() {
                            self.want_write.push_back(slot);
                            self.hold_line(slot);
                            return Ok(());
                        }
                        let Request { line, asked, data, .. } = self.instances[index].request;
                        self.write_back(line, asked, &data, now);
                        self.instances[index].request.pc += 1;
                        continue;
                    }
                    match self.operate(*op, index) {
                        Outcome::Done => self.instances[index].request.pc += 1,
                        Outcome::Defer => {
                            if self.makes_room(slot, now) {
                                continue;
                            }
                            return Ok(());
                        }
                        Outcome::Stuck => return Err(stuck(*op, &self.instances[index])),
                    }
                }
                Instruction::Yield => instance.request.pc += 1,
                Instruction::Jump(to) => instance.request.pc = *to,
                Instruction::Unless(condition, to) => {
                    let truth = self.evaluate(condition, index);
                    let pc = &mut self.instances[index].request.pc;
                    *pc = if truth { *pc + 1 } else { *to };
                }
                Instruction::End => {
                    self.leave(slot, now);
                    return Ok(());
                }
            }
        }
    }

    /// A line of the instance's set is written back. Without one, or with the queue of writes
    /// full, it waits.
    fn makes_room(&mut self, slot: u32, now: Cycle) -> bool {
        let set = self.instances[slot as usize].set;
        if !self.dram.takes_writes() {
            self.want_write.push_back(slot);
        } else if let Some((line, mask, data)) = self.l2.write_back_one(set) {
            self.write_back(line, mask, &data, now);
            return true;
        } else {
            self.held.wait_for_set(set, slot);
        }
        self.hold_line(slot);
        false
    }

    /// The write-back of an L1 line, at the slice (`wbL1`, its second half).
    fn write_back_of_l1(&mut self, slot: u32, now: Cycle) {
        let index = slot as usize;
        let set = self.instances[index].set;
        loop {
            let request = &self.instances[index].request;
            if self.l2.write(set, request.line, request.asked, &request.data) != Outcome::Defer {
                break;
            }
            if !self.makes_room(slot, now) {
                return;
            }
        }
        self.release_line(index);
        self.free.push(slot);
    }

    fn hold_line(&mut self, slot: u32) {
        let instance = &mut self.instances[slot as usize];
        if !instance.holds {
            instance.holds = true;
            self.held.hold(instance.set, instance.request.line, slot);
        }
    }

    fn release_line(&mut self, index: usize) {
        let instance = &self.instances[index];
        if instance.holds
            && let Some(next) = self.held.release(instance.set, index as u32)
        {
            self.instances[next as usize].holds = true;
            self.runnable.push(next);
        }
    }

    fn evaluate(&mut self, condition: &BExp, index: usize) -> bool {
        match condition {
            BExp::True => true,
            BExp::False | BExp::IsCachedL1 => false,
            BExp::Not(inner) => !self.evaluate(inner, index),
            BExp::And(a, b) => self.evaluate(a, index) && self.evaluate(b, index),
            BExp::Or(a, b) => self.evaluate(a, index) || self.evaluate(b, index),
            BExp::IsCachedL2 => {
                let instance = &self.instances[index];
                let cached = self.l2.is_cached(instance.set, instance.request.line, instance.request.mask);
                self.l2.stats.looked_up(cached, instance.request.line >= LOCAL_PHYSICAL);
                cached
            }
        }
    }

    fn operate(&mut self, op: OpExp, index: usize) -> Outcome {
        let Instance { request: r, set, pinned, .. } = &mut self.instances[index];
        let set = *set;
        match op {
            OpExp::ReadMem => {
                self.memory.read_line(r.line, r.mask, &mut r.data);
                Outcome::Done
            }
            OpExp::AtomOp => {
                let Some(atomic) = &mut r.atomic else { return Outcome::Stuck };
                self.stats.atomics += u64::from(atomic.lanes.count_ones());
                perform(atomic, &mut r.data);
                Outcome::Done
            }
            OpExp::ReadL2 => {
                let outcome = self.l2.read(set, r.line, r.mask, &mut r.data, pinned);
                if outcome == Outcome::Done {
                    self.held.wake_set(set, &mut self.runnable);
                }
                outcome
            }
            OpExp::WriteL2 => self.l2.write(set, r.line, r.asked, &r.data),
            OpExp::ReserveL2 => self.l2.reserve(set, r.line, r.mask, pinned),
            OpExp::UpdateL2 => self.l2.update(set, r.line, r.mask, &r.data),
            OpExp::EvictL2 => self.l2.evict(set, r.line),
            OpExp::DiscardL2 => self.l2.discard(set, r.line, r.asked),
            OpExp::ClassifyFirstL2 => {
                self.l2.classify(set, r.line, true);
                Outcome::Done
            }
            OpExp::ClassifyNormalL2 => {
                self.l2.classify(set, r.line, false);
                Outcome::Done
            }
            _ => Outcome::Stuck,
        }
    }

    fn fetch(&mut self, slot: u32, now: Cycle) {
        let request = &self.instances[slot as usize].request;
        let bursts = request.mask.count_ones().div_ceil(self.spec.dram.burst_bytes);
        let first = u64::from(request.mask.trailing_zeros() & 127);
        let request = DramRequest { tag: Some(slot), address: request.local + first, bursts, write: false };
        self.fetching += 1;
        self.fetching_occupancy.set(self.fetching as usize, now);
        self.push_dram(request, now);
    }

    /// `wbL2`: the bytes are in memory at once; the channel is busy with them later.
    fn write_back(&mut self, line: u64, mask: u128, data: &[u8; 128], now: Cycle) {
        self.memory.write_line(line, mask, data);
        let sectors = crate::coalesce::round_to_sectors(mask, self.spec.dram.burst_bytes);
        let bursts = sectors.count_ones().div_ceil(self.spec.dram.burst_bytes);
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

    /// The partition's part is over: the line is free, the reply leaves.
    fn leave(&mut self, slot: u32, now: Cycle) {
        self.release_line(slot as usize);
        self.free.push(slot);
        let instance = &mut self.instances[slot as usize];
        let (sm, request) = (instance.sm, &mut instance.request);
        let Some(sm_slot) = request.slot else { return };
        let payload = match &request.atomic {
            _ if request.is_load => request.mask.count_ones(),
            Some(atomic) => atomic.lanes.count_ones() * atomic.ty.bytes(),
            None => 0,
        };
        let net = &self.spec.interconnect;
        let start = self.egress_free.max(now);
        let cycles = (net.header_bytes + payload).div_ceil(net.reply_bytes_per_cycle).max(1);
        self.egress_free = start + Cycle::from(cycles);
        self.stats.replies += 1;
        let reply = Reply {
            slot: sm_slot,
            pc: request.pc,
            data: request.data,
            atomic: request.atomic.take(),
            fetched: instance.fetched,
        };
        self.outbox.push((self.egress_free + Cycle::from(net.latency), sm, reply));
    }
}

/// Conditions without a room run wherever they are met.
fn is_constant(instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::Unless(BExp::True | BExp::False, _))
}

/// Runs an atomic over its lanes in ascending order on the bytes of a line.
fn perform(atomic: &mut AtomicLanes, data: &mut [u8; 128]) {
    let size = atomic.ty.bytes() as usize;
    for lane in (0..32).filter(|lane| atomic.lanes >> lane & 1 == 1) {
        let at = usize::from(atomic.offsets[lane]);
        let Some(bytes) = data.get_mut(at..at + size) else { continue };
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        let old = u64::from_le_bytes(word);
        let [b, c] = atomic.operands[lane];
        let new = atomics::apply(atomic.op, atomic.ty, old, b, c);
        bytes.copy_from_slice(&new.to_le_bytes()[..size]);
        atomic.old[lane] = old;
    }
}

/// One atomic per address and cycle: the most lanes on one address.
fn most_on_one_address(atomic: &AtomicLanes) -> u32 {
    let lanes = (0..32).filter(|lane| atomic.lanes >> lane & 1 == 1);
    let mut counts = [0u8; 128];
    lanes.for_each(|lane| counts[usize::from(atomic.offsets[lane] & 127)] += 1);
    counts.into_iter().max().map_or(1, u32::from).max(1)
}

#[cold]
fn stuck(op: OpExp, instance: &Instance) -> MemoryFault {
    let name = OpExp::ALL.iter().find(|(_, o)| *o == op).map_or("?", |(name, _)| *name);
    MemoryFault::new(
        "prog-opexp",
        instance.request.line,
        format!("the state does not fit the operation `{name}`"),
    )
}
