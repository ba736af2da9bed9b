//! The SM's side of the memory environment: the load-store unit, L1, and the memory programs of accesses in
//! flight. It is driven by events; nothing is polled.

pub mod latency;
mod micro_steps;
mod observe;
mod reuse;
mod stats;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::access::{AccessKind, WarpAccess};
use crate::address_space::{CONST_BASE, LOCAL_PHYSICAL};
use crate::cache::Cache;
use crate::coalescing::{Coalescing, LineAccess, round_to_sectors, transactions};
use crate::event_queue::EventQueue;
use crate::fault::MemoryFault;
use crate::held_lines::HeldLines;
use crate::line::{ByteMask, LINE_BYTES, LineData, bytes_in, line_number, offset_in_line};
use crate::links;
use crate::mapping::Mapping;
use crate::messages::{AtomicLanes, Reply, Request, WideLanes};
use crate::observation::{INITIAL, NO_STORES, SmObservation, Transaction};
use crate::occupancy::Occupancy;
use crate::port::{AccessId, RegisterPort};
use crate::priority::{Policy, Priority};
use crate::programs::{Operation, ProgramId, ProgramSet};
use crate::spec::MemorySpec;
use crate::tlb::Tlbs;
use crate::vocabulary::{CacheHint, Cycle, LaneMask, NEVER, ScalarType, Scope, StateSpace, WARP_LANES};
use latency::{Kind, Latencies, Level};
pub use stats::{Asked, SmMemoryStats};

#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Instance {
    access: AccessId,
    kind: AccessKind,
    program: ProgramId,
    pc: u16,
    line: u64,
    set: u64,
    asked: ByteMask,
    mask: ByteMask,
    lanes: LaneMask,
    atomic: Option<Box<AtomicLanes>>,
    pinned: bool,
    travelled: bool,
    /// The cycle at which the access was issued.
    issued: Cycle,
    /// The cycle at which it left the load-store unit: the latency of a hit counts from here.
    began: Cycle,
    /// The level that supplies the bytes, as far as it is known yet.
    level: Level,
    /// True if this instance is the holder of its line.
    holds: bool,
    /// True if it has waited for another to release its line.
    waited: bool,
    priority: Priority,
    /// Its number, while memory is observed.
    transaction: Transaction,
}

/// The memory side of one SM.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct SmMemory {
    #[borsh(serialize_with = "links::named", deserialize_with = "links::linked")]
    spec: Arc<MemorySpec>,
    /// Taken out of `self` while micro steps change the other fields.
    #[borsh(serialize_with = "links::named", deserialize_with = "links::linked")]
    programs: ProgramSet,
    latencies: Latencies,
    /// For block scope and for wider scopes: true if a fence drops L1's lines of global memory.
    fence_flushes: [bool; 2],
    mapping: Mapping,
    l1: Cache,
    instances: Vec<Instance>,
    /// For each instance: the bytes of its line.
    data: Vec<LineData>,
    free: Vec<u32>,
    /// Instances in the load-store unit. They start in order, one line a cycle.
    lsu: VecDeque<u32>,
    lsu_free: Cycle,
    lsu_blocked: bool,
    /// Lines held by instances, with the instances that wait for them or for a way of their set.
    held: HeldLines,
    events: EventQueue<u32>,
    /// Replies in the network, ordered by (cycle, partition, order of sending), by the instance they answer.
    /// Their bytes are already stored with that instance, which does not read them before.
    replies: EventQueue<u32>,
    /// Replies that wait for the SM's port, by the cycle in which they pass it.
    accepted: EventQueue<u32>,
    /// The cycle from which the port accepts a reply.
    ingress_free: Cycle,
    /// The cycle from which L1 serves another load that has waited for a line.
    replay_free: Cycle,
    parts: Vec<LineAccess>,
    /// Boxes of completed atomics, for reuse by later messages.
    #[allow(clippy::vec_box, reason = "the boxes are what is kept")]
    spare_atomics: Vec<Box<AtomicLanes>>,
    outbox: Vec<(Cycle, u32, Request)>,
    egress_free: Cycle,
    tlbs: Option<Tlbs>,
    /// The SM's number.
    sm: u32,
    /// MSHRs in use: loads in flight.
    mshrs: Occupancy,
    /// Store tokens in use: stores and atomics in flight.
    tokens: Occupancy,
    /// Occupancy of `lsu`.
    load_store: Occupancy,
    /// Departure cycles of requests that wait for the SM's port.
    leaving: VecDeque<Cycle>,
    runnable: Vec<u32>,
    stats: SmMemoryStats,
    /// Counters of the accesses since they were last taken; `None` if they are not wanted.
    pub asked: Option<Asked>,
    /// Observation of memory, if it is asked for.
    #[borsh(skip)]
    pub observation: Option<Box<SmObservation>>,
    /// Which stores are read is observed too, not only what is issued.
    follows_stores: bool,
}

impl SmMemory {
    /// An idle memory side with an empty L1.
    pub fn new(spec: Arc<MemorySpec>, programs: Arc<ProgramSet>, sm: u32) -> Self {
        Self {
            sm,
            mapping: Mapping::new(&spec),
            held: HeldLines::new(u64::from(spec.l1.sets().max(1))),
            l1: Cache::new(&spec.l1),
            instances: Vec::new(),
            data: Vec::new(),
            free: Vec::new(),
            lsu: VecDeque::new(),
            lsu_free: 0,
            lsu_blocked: false,
            events: EventQueue::default(),
            replies: EventQueue::default(),
            accepted: EventQueue::default(),
            ingress_free: 0,
            replay_free: 0,
            parts: Vec::new(),
            spare_atomics: Vec::new(),
            outbox: Vec::new(),
            egress_free: 0,
            tlbs: spec.tlb.as_ref().map(Tlbs::new),
            mshrs: Occupancy::default(),
            tokens: Occupancy::default(),
            load_store: Occupancy::default(),
            leaving: VecDeque::new(),
            runnable: Vec::new(),
            stats: SmMemoryStats::default(),
            asked: None,
            observation: None,
            follows_stores: false,
            spec,
            fence_flushes: [Scope::Cta, Scope::Gpu].map(|scope| programs.fence_flushes(scope)),
            programs: ProgramSet::clone(&programs),
            latencies: Latencies::default(),
        }
    }

    /// True if the load-store unit accepts another access. Changes only in [`access`](Self::access) and
    /// [`advance`](Self::advance).
    #[inline]
    pub fn accepting(&self) -> bool {
        self.lsu.len() < self.spec.lsu_queue as usize
    }

    /// Performs a warp's access: coalesces it into lines, each of which becomes an instance of its memory
    /// program.
    ///
    /// # Errors
    /// `⊥` of a memory program.
    pub fn access(
        &mut self,
        now: Cycle,
        access: &WarpAccess<'_>,
        port: &mut impl RegisterPort,
    ) -> Result<(), MemoryFault> {
        self.stats.accesses += 1;
        let local = access.space == StateSpace::Local;
        self.stats.local_accesses += u64::from(local);
        let operation =
            Operation::of(access.kind, access.space, access.cache_op, access.semantics, access.scope);
        let program = self.programs.select(operation);
        let sector = if self.programs.get(program).fills_l1 {
            self.spec.l1.sector_bytes
        } else {
            self.spec.l2.sector_bytes
        };
        let l2_sector = self.spec.l2.sector_bytes;
        let mut parts = std::mem::take(&mut self.parts);
        let rule = if access.space == StateSpace::Local { Coalescing::Sectors } else { self.spec.coalescing };
        transactions(rule, access.addresses, access.lanes, access.element_bytes, &mut parts);
        if let Some(asked) = &mut self.asked
            && !matches!(access.kind, AccessKind::Hint(_))
        {
            // Stores and atomics act on the sectors of L2.
            asked.count(&parts, if access.kind == AccessKind::Load { sector } else { l2_sector });
        }
        for part in parts.drain(..) {
            let mask = match access.kind {
                AccessKind::Load if part.segment != 0 => part.segment,
                AccessKind::Load => round_to_sectors(part.bytes, sector),
                AccessKind::Store => part.bytes,
                AccessKind::Atomic { .. } => round_to_sectors(part.bytes, l2_sector),
                AccessKind::Hint(CacheHint::PrefetchL1 | CacheHint::PrefetchL2) => {
                    round_to_sectors(part.bytes, sector)
                }
                AccessKind::Hint(_) => ByteMask::MAX,
            };
            let slot = self.free.pop().unwrap_or(self.instances.len() as u32);
            self.data.resize(self.data.len().max(slot as usize + 1), [0; LINE_BYTES as usize]);
            self.held.reserve(slot as usize + 1);
            let data = &mut self.data[slot as usize];
            let mut atomic = None;
            match access.kind {
                AccessKind::Load | AccessKind::Hint(_) => {}
                AccessKind::Store => {
                    let size = access.element_bytes as usize;
                    // Ascending lanes: where two write one byte, the highest lane's stays.
                    if size == 4 && part.lanes == LaneMask::MAX {
                        let (words, _) = data.as_chunks_mut::<4>();
                        for lane in 0..WARP_LANES {
                            let [a, b, c, d, ..] = access.data[lane];
                            words[offset_in_line(access.addresses[lane]) / 4] = [a, b, c, d];
                        }
                    } else {
                        let mut rest = part.lanes;
                        while rest != 0 {
                            let lane = rest.trailing_zeros() as usize;
                            rest &= rest - 1;
                            let at = offset_in_line(access.addresses[lane]);
                            data[at..at + size].copy_from_slice(&access.data[lane][..size]);
                        }
                    }
                }
                AccessKind::Atomic { op, ty, returns } => {
                    let lanes = AtomicLanes {
                        op,
                        ty,
                        lanes: part.lanes,
                        offsets: std::array::from_fn(|l| offset_in_line(access.addresses[l]) as u8),
                        operands: access.operands.copied().unwrap_or([[0; 2]; WARP_LANES]),
                        old: [0; WARP_LANES],
                        wide: (ty == ScalarType::B128).then(|| wide_lanes(access)),
                        combined: access.combined,
                        returns,
                    };
                    atomic = Some(match self.spare_atomics.pop() {
                        Some(mut spare) => {
                            *spare = lanes;
                            spare
                        }
                        None => Box::new(lanes),
                    });
                }
            }
            self.stats.transactions += 1;
            self.stats.local_transactions += u64::from(local);
            self.stats.bytes_useful += u64::from(bytes_in(part.bytes));
            let instance = Instance {
                access: access.id,
                kind: access.kind,
                program,
                pc: 0,
                line: part.line,
                set: self.l1.set_of(line_number(part.line)),
                asked: if matches!(access.kind, AccessKind::Hint(_)) { mask } else { part.bytes },
                mask,
                lanes: part.lanes,
                atomic,
                pinned: false,
                travelled: false,
                issued: now,
                began: now,
                level: Level::L1,
                holds: false,
                waited: false,
                priority: match access.policy {
                    Policy::None => Priority::Unchanged,
                    policy => policy.priority(access.operands, part.lanes, part.line),
                },
                transaction: INITIAL,
            };
            if let Some(place) = self.instances.get_mut(slot as usize) {
                *place = instance;
            } else {
                self.instances.push(instance);
            }
            if self.observation.is_some() {
                self.observe_issue(slot, access, now);
            }
            self.lsu.push_back(slot);
        }
        self.parts = parts;
        self.load_store.set(self.lsu.len() as u64, now);
        self.pump(now, port)
    }

    /// The cycle of the next event; `None` if there is none.
    #[inline]
    pub fn next_event(&self) -> Option<Cycle> {
        let first = self.first_event();
        (first != NEVER).then_some(first)
    }

    /// The cycle of the next event; [`NEVER`] if there is none.
    #[inline(always)]
    pub fn first_event(&self) -> Cycle {
        let queued = self.events.first().min(self.replies.first()).min(self.accepted.first());
        if self.lsu.is_empty() || self.lsu_blocked { queued } else { queued.min(self.lsu_free) }
    }

    /// Processes all events before `until`, in the order of their cycles.
    ///
    /// # Errors
    /// `⊥` of a memory program.
    pub fn advance(&mut self, until: Cycle, port: &mut impl RegisterPort) -> Result<(), MemoryFault> {
        while let Some(now) = self.next_event()
            && now < until
        {
            while let Some((_, slot)) = self.accepted.pop(now) {
                self.arrive(slot, now, port)?;
            }
            while let Some((_, slot)) = self.replies.pop(now) {
                match self.passes_port(slot, now) {
                    at if at > now => self.accepted.push(at, 0, slot),
                    _ => self.arrive(slot, now, port)?,
                }
            }
            while let Some((_, slot)) = self.events.pop(now) {
                self.run(slot, now, port)?;
            }
            self.pump(now, port)?;
        }
        Ok(())
    }

    /// Accepts a reply of partition `from` that arrives at `at`. Replies take effect in the order (cycle,
    /// partition, order of sending), in whatever order they are delivered.
    pub fn deliver(&mut self, reply: Reply, from: u32, at: Cycle) {
        let instance = &mut self.instances[reply.slot as usize];
        instance.pc = reply.pc;
        instance.level = if reply.fetched { Level::Dram } else { Level::L2 };
        match instance.kind {
            kind if kind.fetches() => self.data[reply.slot as usize] = reply.data,
            _ => instance.atomic = reply.atomic,
        }
        if let Some(observation) = &mut self.observation
            && self.follows_stores
            && instance.kind.fetches()
        {
            observation.stores[reply.slot as usize] = reply.stores.map_or(NO_STORES, |stores| *stores);
        }
        let at = at + self.spec.interconnect.distance(self.sm, from);
        self.replies.push(at, from, reply.slot);
    }

    /// Passes the requests that have left to `sink`: arrival cycle, partition, request.
    pub fn take_requests(&mut self, mut sink: impl FnMut(Cycle, u32, Request)) {
        for (at, partition, request) in self.outbox.drain(..) {
            sink(at + self.spec.interconnect.distance(self.sm, partition), partition, request);
        }
    }

    /// `flush`: drops the lines of global memory from L1; those of local memory stay.
    pub fn flush_l1(&mut self) {
        self.l1.flush(|line| (LOCAL_PHYSICAL..CONST_BASE).contains(&line));
    }

    /// Executes a fence of this scope, once the earlier accesses are performed.
    pub fn fence(&mut self, scope: Scope) {
        if self.fence_flushes[usize::from(scope != Scope::Cta)] {
            self.flush_l1();
        }
    }

    /// The L1 cache, for inspection.
    pub fn l1(&self) -> &Cache {
        &self.l1
    }

    /// True if no access is in flight.
    pub fn idle(&self) -> bool {
        self.instances.len() == self.free.len() && self.replies.is_empty() && self.accepted.is_empty()
    }

    /// Checks the invariants of an idle memory side: no pinned and no held lines.
    ///
    /// # Errors
    /// A description of the first violation.
    pub fn check_idle(&self) -> Result<(), String> {
        let leaks = [
            (self.l1.pinned(), "pinned L1 lines"),
            (self.held.held(), "held lines"),
            (self.mshrs.len(), "loads away"),
            (self.tokens.len(), "stores away"),
        ];
        match leaks.iter().find(|(count, _)| *count != 0) {
            Some((count, what)) => Err(format!("{count} {what} are left")),
            None => self.l1.check_idle().map_err(|why| format!("L1: {why}")),
        }
    }

    /// The counters so far.
    pub fn stats(&self) -> SmMemoryStats {
        SmMemoryStats {
            l1: self.l1.stats,
            load_store: self.load_store.stats(),
            mshrs: self.mshrs.stats(),
            tokens: self.tokens.stats(),
            tlb: self.tlbs.as_ref().map(Tlbs::stats).unwrap_or_default(),
            ..self.stats
        }
    }

    /// Latency histograms of the accesses so far.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Starts queued lines, one a cycle or as fast as L1 moves their sectors, as far as MSHRs and store tokens allow.
    fn pump(&mut self, now: Cycle, port: &mut impl RegisterPort) -> Result<(), MemoryFault> {
        while self.lsu_free <= now
            && let Some(&slot) = self.lsu.front()
        {
            // The miss queue: requests that wait for the SM's port.
            while self.leaving.front().is_some_and(|at| *at <= now) {
                self.leaving.pop_front();
            }
            if let Some(&first) = self.leaving.front()
                && self.leaving.len() >= self.spec.miss_queue as usize
            {
                self.lsu_free = first;
                return Ok(());
            }
            let instance = &self.instances[slot as usize];
            let room = match instance.kind {
                kind if kind.fetches() => match self.held.holder(instance.set, instance.line) {
                    Some((_, waiting)) => waiting < self.spec.l1.mshr_merges,
                    None => self.mshrs.len() < self.spec.l1.mshrs as usize || self.hits(instance),
                },
                _ => self.tokens.len() < self.spec.store_tokens as usize,
            };
            if !room {
                self.stats.blocked += u64::from(!self.lsu_blocked);
                self.lsu_blocked = true;
                return Ok(());
            }
            let load = instance.kind.fetches();
            let next = now + self.spec.l1.cycles_of(instance.mask);
            self.lsu_blocked = false;
            self.lsu.pop_front();
            self.load_store.set(self.lsu.len() as u64, now);
            self.lsu_free = next;
            if !load {
                self.tokens.add(now);
            }
            self.start(slot, now, port)?;
        }
        Ok(())
    }

    /// True if L1 serves the load without an MSHR.
    fn hits(&self, instance: &Instance) -> bool {
        self.programs.get(instance.program).fills_l1
            && self.l1.is_cached(instance.set, instance.line, instance.mask)
    }

    /// Runs the first micro step, once no earlier operation holds the line.
    fn start(&mut self, slot: u32, now: Cycle, port: &mut impl RegisterPort) -> Result<(), MemoryFault> {
        let instance = &mut self.instances[slot as usize];
        instance.began = now;
        let program = self.programs.get(instance.program);
        if program.code.first().is_some_and(|step| step.touches_l1)
            && let Some((holder, _)) = self.held.holder(instance.set, instance.line)
        {
            if self.is_apart(holder, slot) {
                self.held.share(holder, slot);
                self.instances[slot as usize].holds = true;
            } else {
                self.held.wait(holder, slot);
                self.instances[slot as usize].waited = true;
                return Ok(());
            }
        }
        self.run(slot, now, port)
    }

    /// True if an instance is a load, beside loads that hold its line, of a sector that none of them fetches; if an MSHR is free, and
    /// the line has not been flushed under them: what they fetch is too old then. Loads that L1 keeps the bytes of may come before
    /// others of the same bytes: those of relaxed semantics at this scope read what the block's threads wrote in L1.
    fn is_apart(&self, holder: u32, slot: u32) -> bool {
        let of = |slot: u32| {
            let instance = &self.instances[slot as usize];
            (instance.mask, matches!(instance.kind, AccessKind::Load))
        };
        let (own, loads) = of(slot);
        let Instance { set, line, program, .. } = self.instances[slot as usize];
        let before_loads = self.programs.get(program).fills_l1;
        loads
            && self.mshrs.len() < self.spec.l1.mshrs as usize
            && self.held.left(holder, own, before_loads, of) != 0
            && !self.l1.is_flushed(set, line)
    }

    /// The cycle at which L1 has read the bytes of a hit. A load that has waited for a miss of another passes L1 while it
    /// waits: it is served with the fill, or once its own latency is over, one a cycle.
    fn has_read(&mut self, index: usize, now: Cycle) -> Cycle {
        let Instance { began, waited, .. } = self.instances[index];
        let due = began + Cycle::from(self.spec.l1.hit_latency);
        if !waited && due > now {
            return due;
        }
        let at = due.max(self.replay_free).max(now + 1);
        if at > due {
            self.replay_free = at + 1;
        }
        at
    }

    /// Runs micro steps of an instance, and of the instances it wakes.
    fn run(&mut self, slot: u32, now: Cycle, port: &mut impl RegisterPort) -> Result<(), MemoryFault> {
        let programs = std::mem::take(&mut self.programs);
        let mut result = self.micro_steps(&programs, slot, now, port);
        while result.is_ok()
            && let Some(next) = self.runnable.pop()
        {
            result = self.micro_steps(&programs, next, now, port);
        }
        self.programs = programs;
        result
    }

    /// The cycle in which a reply passes the SM's port. Its first bytes do not wait for the last.
    #[inline]
    fn passes_port(&mut self, slot: u32, now: Cycle) -> Cycle {
        let Some(width) = self.spec.interconnect.accepted_bytes_per_cycle else { return now };
        let instance = &self.instances[slot as usize];
        let bytes = match (&instance.atomic, instance.kind) {
            (_, kind) if kind.fetches() => bytes_in(instance.mask),
            (Some(atomic), _) => atomic.returned_bytes(),
            _ => return now,
        };
        let at = self.ingress_free.max(now);
        self.ingress_free = at + Cycle::from(bytes.div_ceil(width));
        at
    }

    fn arrive(&mut self, slot: u32, now: Cycle, port: &mut impl RegisterPort) -> Result<(), MemoryFault> {
        let instance = &mut self.instances[slot as usize];
        instance.travelled = true;
        match instance.kind {
            kind if kind.fetches() => {
                self.mshrs.remove(now);
                self.stats.bytes_moved += u64::from(bytes_in(instance.mask));
            }
            _ => {
                self.tokens.remove(now);
            }
        }
        self.lsu_blocked = false;
        self.run(slot, now, port)
    }

    fn send(&mut self, slot: u32, now: Cycle) {
        let index = slot as usize;
        let instance = &mut self.instances[index];
        let is_load = instance.kind.fetches();
        if is_load {
            self.mshrs.add(now);
        }
        let request = Request {
            slot: Some(slot),
            local: 0,
            program: instance.program,
            pc: instance.pc,
            line: instance.line,
            asked: instance.asked,
            mask: instance.mask,
            is_load,
            priority: instance.priority,
            data: self.data[index],
            atomic: instance.atomic.take(),
            transaction: instance.transaction,
            stores: None,
        };
        let payload = match is_load {
            true => 0,
            false => bytes_in(instance.asked) + self.bytes_of_sectors(&request),
        };
        self.depart(request, payload, now);
    }

    /// What a message has for the sectors of an atomic besides operands.
    fn bytes_of_sectors(&self, request: &Request) -> u32 {
        let each = self.spec.interconnect.atomic_sector_bytes;
        if each == 0 || request.atomic.is_none() {
            return 0;
        }
        let sector = self.spec.l2.sector_bytes;
        each * (bytes_in(round_to_sectors(request.asked, sector)) / sector.max(1))
    }

    fn send_write_back(&mut self, set: u64, line: u64, mask: ByteMask, data: LineData, now: Cycle) {
        let stores = self.l1.stores_of(set, line).map(|stores| Box::new(*stores));
        let request = Request {
            slot: None,
            local: 0,
            program: 0,
            pc: 0,
            line,
            asked: mask,
            mask,
            is_load: false,
            priority: Priority::Unchanged,
            data,
            atomic: None,
            transaction: INITIAL,
            stores,
        };
        self.depart(request, bytes_in(mask), now);
    }

    fn depart(&mut self, mut request: Request, payload: u32, now: Cycle) {
        let net = &self.spec.interconnect;
        let bytes = net.header_bytes + payload;
        let start = self.egress_free.max(now);
        self.egress_free = start + Cycle::from(bytes.div_ceil(net.request_bytes_per_cycle).max(1));
        let translated = match &mut self.tlbs {
            Some(tlbs) => tlbs.translate(request.line, self.egress_free),
            None => self.egress_free,
        };
        let arrival = translated + Cycle::from(net.latency);
        self.leaving.push_back(self.egress_free);
        self.stats.requests += 1;
        self.stats.bytes_moved += u64::from(payload);
        let (partition, local) = self.mapping.place(request.line);
        request.local = local;
        self.outbox.push((arrival, partition, request));
    }

    /// Ends an instance and removes it from the queue [mem-end].
    fn end(&mut self, slot: u32, now: Cycle, port: &mut impl RegisterPort) {
        let instance = &self.instances[slot as usize];
        let took = now - instance.issued;
        match instance.kind {
            AccessKind::Load | AccessKind::Hint(_) => {}
            AccessKind::Store => self.latencies.record(Kind::Store, took),
            AccessKind::Atomic { .. } => self.latencies.record(Kind::Atomic, took),
        }
        if !instance.kind.fetches() && !instance.travelled {
            // It never left: its token is free.
            self.tokens.remove(now);
            self.lsu_blocked = false;
        }
        port.performed(instance.access, instance.lanes, now);
        self.spare_atomics.extend(self.instances[slot as usize].atomic.take());
        self.free.push(slot);
    }
}

/// The part of an atomic's operands that [`AtomicLanes::operands`] has no room for.
#[cold]
fn wide_lanes(access: &WarpAccess<'_>) -> Box<WideLanes> {
    Box::new(WideLanes { c: access.data.map(u128::from_le_bytes), old: [0; WARP_LANES] })
}
