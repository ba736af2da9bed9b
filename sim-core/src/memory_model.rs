//! The check of executions against the memory consistency model of PTX while they run: each load, each store and each
//! atomic of global memory against the axioms of Lustig et al. (ASPLOS 2019, "MM") [mm-hw].
//!
//! SMs and partitions log what they do (`sim_memory::observation`): reads-from is known from the store that each byte
//! carries, coherence order is the order in which stores are performed. Causality order is kept as vector clocks
//! ([`clock`]). From time to time the engine hands the logs over, and they are processed in the order of cycles.

mod axioms;
mod bulk;
mod by_slot;
pub mod clock;
mod cluster;
pub mod lines;
mod mbarrier;
mod on_chip;
mod order;
mod proxies;
mod sent;
mod stored;
pub mod threads;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Serialize;
use sim_frontend::program::{Extra, OpInfo, Program};
use sim_memory::access::AccessKind;
use sim_memory::coalescing::LineAccess;
use sim_memory::observation::{Event, INITIAL, Members, Stores, Transaction};
use sim_memory::vocabulary::{Cycle, Semantics, WARP_LANES};

use self::by_slot::BySlot;
use self::clock::Clock;
use self::lines::{Line, Read, Reads, Store, Transfer};
use self::order::Order;
pub use self::order::SourceLog;
use self::sent::{Cluster, Sent};
use self::threads::{Release, Warp};
use crate::error::Fault;
use crate::grid::Kernel;
use crate::reconvergence::Lanes;
use crate::sanitizer::Sanitizer;
use crate::sanitizer::findings::Side;

/// Lines whose stores are known at most.
const MOST_LINES: usize = 1 << 18;

/// A block of the run.
#[derive(Clone, Debug)]
struct Block {
    grid: u32,
    /// Place of its kernel among those of the run.
    kernel: usize,
    number: u64,
    /// Threads of the block.
    threads: u32,
    /// How often all of them have met at a barrier.
    phase: u32,
    /// Its fences of sequential consistency.
    sc: Clock,
    /// By barrier: what the threads that did not wait have released there.
    arrived: Vec<(u32, Clock)>,
    /// The same, for each warp: an example of the threads that arrived.
    arrivals: Vec<(u32, Side)>,
    /// Warps that have not ended.
    warps: u32,
    /// Its cluster.
    cluster: u32,
    /// Its mbarrier objects by address.
    objects: BTreeMap<u32, on_chip::Object>,
    /// By the address of a line of its shared memory: what threads have stored there since the last fence between proxies.
    stored: BTreeMap<u32, stored::Stored>,
}

/// Where a component's events come from: SMs first, then partitions.
pub type Source = u32;

/// What was checked against the memory model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Loads and atomics of global memory, counted by lane.
    pub reads: u64,
    /// Of these, those that did not read the last store performed: the model allows it while nothing orders that
    /// store before them.
    pub stale: u64,
    /// Of these, those of a store that was not known any more.
    pub unknown: u64,
    /// Stores and atomics that were performed, counted by line of a warp's access.
    pub writes: u64,
}

impl Checked {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.stale += other.stale;
        self.unknown += other.unknown;
        self.writes += other.writes;
    }
}

/// The axiom that an execution violates, and why.
struct Broken {
    axiom: &'static str,
    /// The access at which it shows, with its lane.
    at: (Arc<Transfer>, usize),
    why: String,
}

/// The state of the check.
#[derive(Debug, Default)]
pub struct Checker {
    kernels: Vec<Arc<Kernel>>,
    blocks: Vec<Block>,
    warps: BySlot<Warp>,
    /// Transactions in flight: loads, atomics whose results are not back.
    transfers: FxHashMap<Transaction, (Arc<Transfer>, Option<Reads>)>,
    /// Asynchronous copies to shared memory.
    copies: BySlot<on_chip::Copies>,
    /// Bulk copies to global memory.
    puts: BySlot<on_chip::Copies>,
    /// By SM and ticket: bulk copies that wait for their tensor maps, as they were issued.
    held: FxHashMap<(u32, u32), on_chip::Held>,
    clusters: Vec<Cluster>,
    /// Blocks by their grids and their numbers there.
    numbers: FxHashMap<(u32, u64), u32>,
    /// Clusters of several blocks, by their first ones.
    by_first: FxHashMap<(u32, u64), u32>,
    /// By SM and ticket: what one SM has sent to another.
    sent: FxHashMap<(u32, u32), Sent>,
    /// The number of the last transaction of shared memory.
    number: Transaction,
    /// Room for the lines of an access.
    parts: Vec<LineAccess>,
    order: Order,
    lines: FxHashMap<u64, Line>,
    sc: Clock,
    forgot_lines: bool,
    /// Executions are checked against the axioms.
    axioms: bool,
    /// What strong accesses observe matters: for the axioms, or because kernels release by what they store.
    follows: bool,
    /// What else is looked for.
    pub sanitizer: Option<Box<Sanitizer>>,
    /// What was checked so far.
    pub checked: Checked,
    /// For each kernel: asynchronous operations read what threads store to shared memory, and it is asked for.
    proxies: Vec<bool>,
    /// The cycle at which logs are handed over next.
    pub next: Cycle,
}

/// True if an instruction is one of the device runtime, which has no lines: `malloc`, `free`, `vprintf`.
fn is_runtime(info: &OpInfo) -> bool {
    info.line == 0 && !info.injected
}

/// True if threads can release by an access: a program with fences or accesses that release, or with calls of the
/// device runtime, which synchronize.
fn releases(program: &Program) -> bool {
    let releases = |semantics| matches!(semantics, Semantics::Release | Semantics::AcqRel | Semantics::Sc);
    program.ops.iter().zip(&program.info).any(|(op, info)| match &op.extra {
        Extra::Membar(_, semantics) => *semantics != Semantics::Acquire,
        extra => extra.access().is_some_and(|facts| releases(facts.semantics) || is_runtime(info)),
    })
}

/// Cycles between two hand-overs.
pub const EVERY: Cycle = 2048;

impl Checker {
    /// A check of a run of these kernels, in the order of their launch: against the axioms, and by sanitizers.
    pub fn new(kernels: Vec<Arc<Kernel>>, axioms: bool, sanitizer: Option<Box<Sanitizer>>) -> Self {
        let follows = axioms || kernels.iter().any(|kernel| releases(&kernel.code.program));
        let asked = sanitizer.as_ref().is_some_and(|sanitizer| sanitizer.kinds.sync);
        let proxies =
            kernels.iter().map(|kernel| asked && stored::reads_shared(&kernel.code.program)).collect();
        Self { kernels, axioms, follows, sanitizer, proxies, next: EVERY, ..Self::default() }
    }

    /// True if it must be told which stores accesses read and when stores are performed: for the axioms, or because
    /// threads can learn of each other by what they read. Otherwise it suffices to tell that accesses are issued.
    pub fn follows_stores(&self) -> bool {
        self.follows
    }

    /// True if executions are checked against the axioms.
    pub fn checks_axioms(&self) -> bool {
        self.axioms
    }

    /// Processes the logs of all components up to now: each with its SM, or none for a partition.
    ///
    /// # Errors
    /// The first violation of an axiom.
    pub fn process(&mut self, logs: &[SourceLog]) -> Result<(), Box<Fault>> {
        let mut order = std::mem::take(&mut self.order);
        // Partitions come last: what is performed in a cycle is seen later.
        order.sort(logs);
        for (source, i) in &order.events {
            let (sm, events) = &logs[*source as usize];
            let (at, event) = &events[*i as usize];
            self.one(*sm, *at, event)?;
        }
        self.order = order;
        Ok(())
    }

    /// Processes an event of an SM, or of a partition.
    ///
    /// # Errors
    /// The violation of an axiom.
    pub fn one(&mut self, sm: Option<u32>, at: Cycle, event: &Event) -> Result<(), Box<Fault>> {
        self.event(sm, at, event).map_err(|broken| self.fault(&broken, at))
    }

    fn event(&mut self, sm: Option<u32>, at: Cycle, event: &Event) -> Result<(), Broken> {
        let sm = sm.unwrap_or(u32::MAX);
        match event {
            Event::Block { grid, number, warps } => self.begin(sm, *grid, *number, warps),
            Event::Issued { .. } => self.issue(sm, at, event),
            Event::Loaded { transaction, stores } => return self.load(*transaction, stores),
            Event::Returned { transaction } => self.returned(*transaction),
            Event::Performed { line, bytes, stores, reads } => {
                return self.perform(*line, *bytes, stores, reads.as_deref());
            }
            Event::Fence { warp, lanes, scope, semantics } => {
                if let Some(warp) = self.warps.get_mut(sm, *warp) {
                    let block = &mut self.blocks[warp.block as usize];
                    warp.fence(*lanes, *scope, *semantics, block.phase, [&mut block.sc, &mut self.sc]);
                }
            }
            Event::Arrived { warp, lanes, barrier } => {
                if let Some(warp) = self.warps.get_mut(sm, *warp) {
                    let block = &mut self.blocks[warp.block as usize];
                    let mut clock = Clock::default();
                    warp.release_to(*lanes, block.phase, &mut clock);
                    block.arrived.push((*barrier, clock));
                }
                self.arrives(sm, at, *warp, *lanes, *barrier);
            }
            Event::Barrier { barrier, waited, arrived } => self.barrier(sm, *barrier, waited, arrived),
            _ => self.on_chip(sm, at, event),
        }
        Ok(())
    }

    fn begin(&mut self, sm: u32, grid: u32, number: u64, warps: &Members) {
        let block = self.blocks.len() as u32;
        for (slot, _) in warps {
            self.end_warp((sm, *slot));
        }
        let kernel = self.kernels.iter().position(|kernel| kernel.grid_id == grid);
        let threads = warps.iter().map(|(_, lanes)| lanes.count_ones()).sum();
        let kernel = kernel.unwrap_or(usize::MAX);
        let cluster = self.cluster_of(kernel, (grid, number), block);
        self.blocks.push(Block {
            grid,
            kernel,
            number,
            threads,
            phase: 0,
            sc: Clock::default(),
            arrived: Vec::new(),
            arrivals: Vec::new(),
            warps: warps.len() as u32,
            cluster,
            objects: BTreeMap::new(),
            stored: BTreeMap::new(),
        });
        let mut first = 0;
        for (slot, threads) in warps {
            self.warps.insert((sm, *slot), Warp::new(block, cluster, first, *threads));
            first += WARP_LANES as u32;
        }
    }

    fn issue(&mut self, sm: u32, at: Cycle, event: &Event) {
        let Event::Issued {
            transaction,
            origin: (slot, pc),
            kind,
            semantics,
            scope,
            line,
            bytes,
            lanes,
            offsets,
            size,
        } = event
        else {
            return;
        };
        let Some(warp) = self.warps.get_mut(sm, *slot) else { return };
        let block = &self.blocks[warp.block as usize];
        let kernel = block.kernel;
        let (mut semantics, scope) = (*semantics, on_chip::scope_of(*kind, *semantics, *scope));
        let info =
            self.kernels.get(block.kernel).and_then(|kernel| kernel.code.program.info.get(*pc as usize));
        let runtime = self.sanitizer.is_some() && info.is_some_and(is_runtime);
        if runtime
            && !self.axioms
            && (semantics != Semantics::Weak || matches!(kind, AccessKind::Atomic { .. }))
        {
            // `malloc` and `free` synchronize, which their fences alone do not say.
            semantics = Semantics::AcqRel;
        }
        let transfer = Transfer {
            number: *transaction,
            sm,
            slot: *slot,
            pc: *pc,
            grid: block.grid,
            issued: at,
            kind: *kind,
            semantics,
            scope,
            line: *line,
            bytes: *bytes,
            lanes: *lanes,
            offsets: *offsets,
            size: *size,
            exclusive: lanes.is_power_of_two() || bytes.count_ones() == lanes.count_ones() * u32::from(*size),
            copies: None,
            warp: warp.snapshot(block.phase),
        };
        if self.sanitizer.is_some() && !runtime {
            self.sanitize_global(&transfer, kernel);
        }
        if !self.follows || (!self.axioms && !transfer.strong()) {
            return;
        }
        let transfer = Arc::new(transfer);
        let Some(warp) = self.warps.get_mut(sm, *slot) else { return };
        let block = &self.blocks[warp.block as usize];
        if *kind == AccessKind::Load {
            self.transfers.insert(*transaction, (transfer, None));
            return;
        }
        let mut releases = Vec::new();
        if transfer.strong() {
            releases.reserve(lanes.count_ones() as usize);
            for lane in Lanes(*lanes) {
                warp.releases(lane as usize, semantics, scope, block.phase, &mut releases);
            }
        }
        if let AccessKind::Atomic { .. } = kind {
            self.transfers.insert(*transaction, (Arc::clone(&transfer), None));
        }
        if self.lines.len() >= MOST_LINES && !self.lines.contains_key(line) {
            self.lines.retain(|_, line| !line.pending.is_empty());
            self.forgot_lines = true;
        }
        let store = Store { transfer, releases: Arc::new(releases), bytes: 0, readers: Vec::new() };
        self.lines.entry(*line).or_default().pending.push(store);
    }

    fn load(&mut self, transaction: Transaction, stores: &Stores) -> Result<(), Broken> {
        let Some((read, _)) = self.transfers.remove(&transaction) else { return Ok(()) };
        if !self.axioms {
            self.observe_all(&read, stores);
            return Ok(());
        }
        // Most loads read what nobody writes, or the last store.
        let plain = match (self.lines.get(&read.line), stores) {
            (None, Stores::One(INITIAL)) => true,
            (None, _) if self.forgot_lines => true,
            (Some(line), stores) => line.agrees(read.bytes, stores),
            _ => false,
        };
        if plain && !read.strong() {
            self.checked.reads += u64::from(read.lanes.count_ones());
            return Ok(());
        }
        for lane in Lanes(read.lanes) {
            self.check_read(&read, lane as usize, &|byte| stores.at(byte))?;
        }
        if read.strong() {
            self.observe_all(&read, stores);
        }
        Ok(())
    }

    /// The lanes of a strong read observe what these stores release.
    fn observe_all(&mut self, read: &Arc<Transfer>, stores: &Stores) {
        for lane in Lanes(read.lanes) {
            let lane = lane as usize;
            let store = stores.at(usize::from(read.offsets[lane]));
            if let Some(observed) = self.observe(read, lane, store) {
                self.learn(read, &[observed]);
            }
        }
    }

    /// Observation (MM §3.4.1): a strong read of a strong store, morally strong with it. Gives what it releases.
    fn observe(&mut self, read: &Arc<Transfer>, lane: usize, store: Transaction) -> Option<Read> {
        if store == INITIAL {
            return None;
        }
        let line = self.lines.get_mut(&read.line)?;
        let byte = usize::from(read.offsets[lane]);
        let place = line.store(store).map(|(place, _)| place);
        let found = match place {
            Some(place) => &line.stores[place],
            None => line.pending.iter().find(|pending| pending.transfer.number == store)?,
        };
        let writer = found.transfer.writer(byte);
        let strong = found.transfer.strong() && read.morally_strong(lane, &found.transfer, writer);
        let out =
            (strong && !found.releases.is_empty()).then(|| (lane, Arc::clone(&found.releases), writer as u8));
        if let Some(place) = place.filter(|_| self.axioms) {
            line.read_by(place, read.warp.thread(lane), byte);
        }
        out
    }

    /// The threads of a read learn of releases that they have observed.
    fn learn(&mut self, read: &Transfer, observed: &[Read]) {
        let block = read.warp.thread(0).block;
        let warp = self.warps.get_mut(read.sm, read.slot);
        let Some(warp) = warp.filter(|warp| warp.block == block) else { return };
        for (lane, releases, writer) in observed {
            for (_, release) in releases.iter().filter(|(by, _)| by == writer) {
                warp.observe(*lane, read.semantics, read.scope, release);
            }
        }
    }

    fn returned(&mut self, transaction: Transaction) {
        if let Some((read, observed)) = self.transfers.remove(&transaction) {
            self.learn(&read, &observed.unwrap_or_default());
        }
    }

    /// A barrier is complete: who waited knows what all who came had done.
    fn barrier(&mut self, sm: u32, barrier: u32, waited: &Members, arrived: &Members) {
        let Some(block) = waited.iter().chain(arrived).find_map(|(slot, _)| self.warps.get(sm, *slot)) else {
            return;
        };
        let number = block.block;
        let block = &mut self.blocks[number as usize];
        let met: u32 = waited.iter().map(|(_, lanes)| lanes.count_ones()).sum();
        let mut clock = Clock::default();
        let all = met == block.threads;
        for (slot, lanes) in waited {
            let Some(warp) = self.warps.get_mut(sm, *slot) else { continue };
            if all {
                warp.tell(*lanes, &mut clock);
            } else {
                warp.release_to(*lanes, block.phase, &mut clock);
            }
        }
        block.arrived.retain(|(of, released)| {
            if *of == barrier {
                clock.join(released);
            }
            *of != barrier
        });
        block.arrivals.retain(|(of, _)| *of != barrier);
        if all {
            block.phase += 1;
            clock.meet(number, block.phase);
        }
        for (slot, lanes) in waited {
            if let Some(warp) = self.warps.get_mut(sm, *slot) {
                warp.set_clocks(*lanes, &clock);
            }
        }
    }

    /// Stores become visible: the next in coherence order (axioms Coherence and Atomicity).
    fn perform(
        &mut self,
        at: u64,
        bytes: u128,
        stores: &Stores,
        reads: Option<&[Transaction; WARP_LANES]>,
    ) -> Result<(), Broken> {
        match stores {
            Stores::One(store) => self.perform_one(at, bytes, *store, reads),
            Stores::Each(each) => {
                let mut rest = bytes;
                while rest != 0 {
                    let store = each[rest.trailing_zeros() as usize];
                    let own = (0..each.len()).filter(|i| bytes >> i & 1 == 1 && each[*i] == store);
                    let mask = own.fold(0u128, |mask, i| mask | 1 << i);
                    rest &= !mask;
                    self.perform_one(at, mask, store, reads)?;
                }
                Ok(())
            }
        }
    }

    fn perform_one(
        &mut self,
        at: u64,
        bytes: u128,
        number: Transaction,
        reads: Option<&[Transaction; WARP_LANES]>,
    ) -> Result<(), Broken> {
        let Some(line) = self.lines.get_mut(&at) else { return Ok(()) };
        let Some(place) = line.pending.iter().position(|pending| pending.transfer.number == number) else {
            return Ok(());
        };
        self.checked.writes += 1;
        // Of a line that L1 writes back, other bytes may follow.
        let pending = &line.pending[place].transfer;
        let rest = pending.bytes & !bytes;
        let mut store = match rest == 0 || matches!(pending.kind, AccessKind::Atomic { .. }) {
            true => line.pending.remove(place),
            false => line.pending[place].clone(),
        };
        store.bytes = bytes;
        let transfer = Arc::clone(&store.transfer);
        let mut observed: Reads = Vec::new();
        if let Some(reads) = reads {
            for lane in Lanes(transfer.lanes) {
                let lane = lane as usize;
                let found = reads[lane];
                if self.axioms {
                    self.atomic(&transfer, lane, found)?;
                }
                if self.axioms && found != number {
                    self.check_read(&transfer, lane, &|_| found)?;
                }
                observed.extend(self.observe(&transfer, lane, found));
            }
        }
        // Coherence: nothing that is performed already follows it in causality order.
        if let (true, Some(line)) = (self.axioms, self.lines.get(&at)) {
            for older in line.stores.iter().rev().take(8).filter(|older| older.bytes & bytes != 0) {
                let byte = (older.bytes & bytes).trailing_zeros() as usize;
                let (own, other) = (transfer.writer(byte), older.transfer.writer(byte));
                if self.precedes(&transfer, own, &older.transfer, other) {
                    return Err(self.reordered(&transfer, own, byte, older));
                }
            }
        }
        // An atomic goes on with the releases of what it reads (observation through rmw).
        inherit(&mut store, &observed);
        if let Some(entry) = self.transfers.get_mut(&number) {
            match transfer.kind {
                AccessKind::Atomic { returns: true, .. } => entry.1 = Some(observed),
                _ => {
                    self.transfers.remove(&number);
                }
            }
        }
        if let Some(line) = self.lines.get_mut(&at) {
            line.perform(store);
        }
        Ok(())
    }
}

/// An atomic goes on with the releases of what it reads.
fn inherit(store: &mut Store, observed: &Reads) {
    if observed.is_empty() {
        return;
    }
    let releases = Arc::make_mut(&mut store.releases);
    releases.reserve(observed.len());
    for (lane, inherited, writer) in observed {
        let of = inherited.iter().filter(|(by, _)| by == writer);
        releases.extend(of.map(|(_, release)| (*lane as u8, release.clone())));
    }
    bounded(releases);
}

/// Releases that a chain of atomics carries, at most: of each scope and writing lane they become one clock.
fn bounded(releases: &mut Vec<(u8, Release)>) {
    const MOST: usize = 64;
    if releases.len() > MOST {
        // The newest know the most.
        let over = releases.len() - MOST;
        releases.drain(..over);
    }
}
