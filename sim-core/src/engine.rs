//! The engine: SMs, partitions and the dispatcher run in epochs no longer than the least latency
//! of any channel between them, so that nothing sent in an epoch arrives in it. Between epochs
//! messages are handed over in the order (cycle, source, sequence); the report is the same for
//! any number of threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use sim_frontend::chip::ChipSpec;
use sim_memory::partition::Partition;
use sim_memory::vocabulary::Cycle;

use crate::error::{Fault, FaultKind, Place, SimError};
use crate::grid::Kernel;
use crate::reconvergence::Reconvergence;
use crate::sm::{BlockDone, Sm, SmMessage};

/// What a kernel did, in core cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelTimes {
    /// First dispatch.
    pub start: Cycle,
    /// Last block's end, as its SM saw it.
    pub end: Cycle,
}

/// How a run is watched.
pub struct Control<'c> {
    /// Set from outside to stop.
    pub stop: &'c AtomicBool,
    /// Core cycles after which to stop.
    pub max_cycles: Option<Cycle>,
    /// Told now and then: cycle, blocks done, blocks in all.
    pub progress: &'c (dyn Fn(Cycle, u64, u64) + Sync),
    /// Worker threads.
    pub threads: usize,
}

/// A grid that runs or waits [block-idle].
#[derive(Debug)]
struct Running {
    kernel: Arc<Kernel>,
    next: u64,
    done: u64,
    /// Not dispatched before this cycle.
    ready: Cycle,
    fits: u32,
    /// No further blocks are dispatched.
    aborted: bool,
}

/// The dispatcher: block dispatch under the chip's limits, kernels in stream order.
#[derive(Debug)]
struct Dispatcher {
    /// Kernels of each stream, in order.
    streams: Vec<(u32, VecDeque<Arc<Kernel>>)>,
    running: Vec<Running>,
    /// By SM: blocks, warps, registers and shared bytes in use.
    used: Vec<[u32; 4]>,
    cursor: usize,
    /// The dispatcher acts at this cycle next.
    next: Option<Cycle>,
    inbox: Vec<(Cycle, u32, BlockDone)>,
    aborts: Vec<(Cycle, u32)>,
    /// Grids whose blocks have all completed, in that order.
    completed: Vec<u32>,
    times: Vec<KernelTimes>,
    blocks_done: u64,
    blocks_total: u64,
    flushed_any: bool,
}

/// One part of the device that runs through an epoch on its own.
enum Part<P> {
    Sm(Box<Sm<P>>),
    Partition(Box<Partition>),
}

/// The parts of a device and what holds them together.
pub struct Engine<P> {
    chip: Arc<ChipSpec>,
    parts: Vec<Mutex<Part<P>>>,
    sms: usize,
    dispatcher: Dispatcher,
    lookahead: Cycle,
    now: Cycle,
}

impl<P: Reconvergence> Engine<P> {
    /// An engine of SMs and partitions.
    pub fn new(chip: Arc<ChipSpec>, sms: Vec<Sm<P>>, partitions: Vec<Partition>) -> Self {
        let lookahead = Cycle::from(
            chip.memory.interconnect.latency.min(chip.dispatch.latency).min(chip.dispatch.done_latency),
        );
        let count = sms.len();
        let parts = sms
            .into_iter()
            .map(|sm| Mutex::new(Part::Sm(Box::new(sm))))
            .chain(partitions.into_iter().map(|p| Mutex::new(Part::Partition(Box::new(p)))))
            .collect();
        Self {
            chip,
            parts,
            sms: count,
            dispatcher: Dispatcher {
                streams: Vec::new(),
                running: Vec::new(),
                used: vec![[0; 4]; count],
                cursor: 0,
                next: None,
                inbox: Vec::new(),
                aborts: Vec::new(),
                completed: Vec::new(),
                times: Vec::new(),
                blocks_done: 0,
                blocks_total: 0,
                flushed_any: false,
            },
            lookahead,
            now: 0,
        }
    }

    /// Queues a kernel behind the others of its stream.
    pub fn launch(&mut self, kernel: Arc<Kernel>) {
        let d = &mut self.dispatcher;
        d.blocks_total += kernel.blocks();
        let stream = kernel.stream;
        match d.streams.iter_mut().find(|(id, _)| *id == stream) {
            Some((_, queue)) => queue.push_back(kernel),
            None => d.streams.push((stream, VecDeque::from([kernel]))),
        }
        d.next = Some(self.now);
    }

    /// Aborts a grid at `at`.
    pub fn abort(&mut self, grid: u32, at: Cycle) {
        self.dispatcher.aborts.push((at, grid));
        self.dispatcher.aborts.sort_unstable();
    }

    /// Grids whose blocks have all completed, in that order.
    pub fn completed(&self) -> &[u32] {
        &self.dispatcher.completed
    }

    /// Runs until every kernel has ended [ctx-exec].
    ///
    /// # Errors
    /// The fault with the least cycle, a deadlock, the limit of cycles, or a stop from outside.
    pub fn run(&mut self, control: &Control<'_>) -> Result<(), SimError> {
        let threads = control.threads.clamp(1, self.parts.len().max(1));
        let mut epochs = 0u64;
        loop {
            let Some(begin) = self.next_event() else {
                return match self.dispatcher.idle() {
                    true => Ok(()),
                    false => Err(self.deadlock()),
                };
            };
            if let Some(limit) = control.max_cycles
                && begin >= limit
            {
                self.now = limit;
                let place = self.anyone().map(|(place, _)| Box::new(place));
                return Err(SimError::MaxCycles { limit, place });
            }
            let end = match control.max_cycles {
                Some(limit) => (begin + self.lookahead).min(limit),
                None => begin + self.lookahead,
            };
            self.now = begin;
            self.dispatch(end);
            let faults = self.epoch(end, threads);
            if let Some(fault) = faults {
                return Err(SimError::Stopped(fault));
            }
            self.hand_over();
            self.now = end;
            epochs += 1;
            if epochs.is_multiple_of(256) {
                if control.stop.load(Ordering::Relaxed) {
                    return Err(SimError::Interrupted);
                }
                (control.progress)(begin, self.dispatcher.blocks_done, self.dispatcher.blocks_total);
            }
        }
    }

    fn next_event(&mut self) -> Option<Cycle> {
        let mut next = self.dispatcher.next_action();
        for part in &mut self.parts {
            let at = match part.get_mut() {
                Part::Sm(sm) => sm.next_event(),
                Part::Partition(partition) => partition.next_event(),
            };
            next = match (next, at) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        next
    }

    /// Runs every part through the epoch; gives the first fault by (cycle, source) [grid-exec].
    fn epoch(&mut self, end: Cycle, threads: usize) -> Option<Box<Fault>> {
        if threads == 1 {
            let faults = self.parts.iter_mut().filter_map(|part| run_part(part.get_mut(), end));
            return first_fault(faults);
        }
        let next = AtomicUsize::new(0);
        let faults = Mutex::new(Vec::new());
        let parts = &self.parts;
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(part) = parts.get(i) else { return };
                if let Some(fault) = run_part(&mut part.lock(), end) {
                    faults.lock().push(fault);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        first_fault(faults.into_inner().into_iter())
    }

    /// Hands over what the parts left, in the order (cycle, source, sequence).
    fn hand_over(&mut self) {
        // Receivers sort by (cycle, source); messages of one source keep their sequence.
        let (sms, partitions) = self.parts.split_at_mut(self.sms);
        let latency = Cycle::from(self.chip.dispatch.done_latency);
        let inbox = &mut self.dispatcher.inbox;
        for (i, part) in sms.iter_mut().enumerate() {
            let Part::Sm(sm) = part.get_mut() else { continue };
            sm.take_requests(|at, to, request| {
                if let Some(Part::Partition(partition)) = partitions.get_mut(to as usize).map(Mutex::get_mut)
                {
                    partition.deliver(at, i as u32, request);
                }
            });
            sm.take_done(|done| inbox.push((done.at + latency, i as u32, done)));
        }
        for (i, part) in partitions.iter_mut().enumerate() {
            let Part::Partition(partition) = part.get_mut() else { continue };
            partition.take_replies(|at, to, reply| {
                if let Some(Part::Sm(sm)) = sms.get_mut(to as usize).map(Mutex::get_mut) {
                    sm.deliver_reply(at, i as u32, reply);
                }
            });
        }
    }

    /// The dispatcher's share of an epoch: blocks that ended free their place, kernels whose
    /// turn it is begin, blocks go to SMs.
    fn dispatch(&mut self, end: Cycle) {
        loop {
            let d = &mut self.dispatcher;
            let Some(now) = d.next_action().filter(|now| *now < end) else { return };
            if d.next.is_some_and(|next| next <= now) {
                d.next = None;
            }
            let mut done: Vec<_> = Vec::new();
            d.inbox.retain(|entry| {
                let here = entry.0 <= now;
                if here {
                    done.push(*entry);
                }
                !here
            });
            done.sort_by_key(|(at, sm, block)| (*at, *sm, block.number));
            for (_, sm, block) in done {
                self.block_done(sm, block, now);
            }
            while let Some(&(at, grid)) = self.dispatcher.aborts.first()
                && at <= now
            {
                self.dispatcher.aborts.remove(0);
                self.abort_grid(grid, now);
            }
            self.begin_kernels(now);
            self.send_blocks(now);
        }
    }

    /// A grid is aborted: blocks not yet dispatched never are, the others' threads end where
    /// they are; accesses in flight go on [ctx-abort].
    fn abort_grid(&mut self, grid: u32, now: Cycle) {
        let d = &mut self.dispatcher;
        for (_, queue) in &mut d.streams {
            queue.retain(|kernel| kernel.grid_id != grid);
        }
        let Some(i) = d.running.iter().position(|r| r.kernel.grid_id == grid) else { return };
        d.running[i].aborted = true;
        if d.running[i].done == d.running[i].next {
            d.running.remove(i);
            return;
        }
        let at = now + Cycle::from(self.chip.dispatch.latency);
        for part in self.parts.iter_mut().take(self.sms) {
            if let Part::Sm(sm) = part.get_mut() {
                sm.deliver(at, SmMessage::Abort { grid_id: grid });
            }
        }
    }

    /// A block ended: its place is free; with its last block the grid is complete
    /// [grid-compl] [ctx-compl] [cio-compl].
    fn block_done(&mut self, sm: u32, block: BlockDone, now: Cycle) {
        let d = &mut self.dispatcher;
        d.blocks_done += 1;
        let Some(i) = d.running.iter().position(|r| r.kernel.grid_id == block.grid_id) else { return };
        let kernel = Arc::clone(&d.running[i].kernel);
        let needs = needs_of(&self.chip, &kernel);
        for (used, need) in d.used[sm as usize].iter_mut().zip(needs) {
            *used -= need;
        }
        let times = &mut d.times[block.grid_id as usize];
        times.end = times.end.max(block.at);
        d.running[i].done += 1;
        if d.running[i].done == kernel.blocks() {
            d.completed.push(block.grid_id);
            d.running.remove(i);
        } else if d.running[i].aborted && d.running[i].done == d.running[i].next {
            d.running.remove(i);
        }
        d.next = Some(d.next.map_or(now, |n| n.min(now)));
    }

    /// Kernels at the head of their streams begin, up to NumConKernels at a time
    /// [sched-grids].
    fn begin_kernels(&mut self, now: Cycle) {
        let limit = self.chip.limits.num_con_kernels as usize;
        let launch = Cycle::from(self.chip.dispatch.launch_latency);
        loop {
            let d = &mut self.dispatcher;
            if d.running.len() >= limit {
                return;
            }
            let busy = |stream: u32| d.running.iter().any(|r| r.kernel.stream == stream);
            // The kernel launched first among those whose stream is free.
            let next = d
                .streams
                .iter()
                .enumerate()
                .filter(|(_, (stream, queue))| !queue.is_empty() && !busy(*stream))
                .min_by_key(|(_, (_, queue))| queue.front().map_or(u32::MAX, |k| k.grid_id))
                .map(|(i, _)| i);
            let Some(kernel) = next.and_then(|i| d.streams[i].1.pop_front()) else { return };
            let grid = kernel.grid_id as usize;
            if d.times.len() <= grid {
                d.times.resize(grid + 1, KernelTimes::default());
            }
            d.times[grid] = KernelTimes { start: now, end: now };
            // A dependent grid sees what earlier ones wrote: stale lines of L1 go.
            if d.flushed_any {
                let at = now + Cycle::from(self.chip.dispatch.latency);
                for part in self.parts.iter_mut().take(self.sms) {
                    if let Part::Sm(sm) = part.get_mut() {
                        sm.deliver(at, SmMessage::FlushL1);
                    }
                }
            }
            let d = &mut self.dispatcher;
            d.flushed_any = true;
            if kernel.blocks() == 0 {
                d.completed.push(kernel.grid_id);
                continue;
            }
            let fits = fits_of(&self.chip, &kernel);
            d.running.push(Running { kernel, next: 0, done: 0, ready: now + launch, fits, aborted: false });
        }
    }

    /// Sends blocks to SMs with room for them, one after another round the chip, up to the rate
    /// of a cycle [ctx-issue] [sched-issueBlocks].
    fn send_blocks(&mut self, now: Cycle) {
        let latency = Cycle::from(self.chip.dispatch.latency);
        let mut budget = self.chip.dispatch.blocks_per_cycle;
        for i in 0..self.dispatcher.running.len() {
            let d = &mut self.dispatcher;
            let running = &d.running[i];
            if running.aborted {
                continue;
            }
            if running.ready > now {
                d.next = Some(d.next.map_or(running.ready, |n| n.min(running.ready)));
                continue;
            }
            let kernel = Arc::clone(&running.kernel);
            let needs = needs_of(&self.chip, &kernel);
            let limits = limits_of(&self.chip);
            while self.dispatcher.running[i].next < kernel.blocks() {
                let d = &mut self.dispatcher;
                if budget == 0 {
                    d.next = Some(now + 1);
                    return;
                }
                let sms = self.sms;
                let room = |sm: &usize| {
                    d.used[*sm]
                        .iter()
                        .zip(needs)
                        .zip(limits)
                        .all(|((used, need), limit)| used + need <= limit)
                };
                let Some(sm) = (0..sms).map(|k| (d.cursor + k) % sms).find(room) else { break };
                d.cursor = (sm + 1) % sms;
                for (used, need) in d.used[sm].iter_mut().zip(needs) {
                    *used += need;
                }
                let number = d.running[i].next;
                d.running[i].next += 1;
                budget -= 1;
                if let Part::Sm(target) = self.parts[sm].get_mut() {
                    let kernel = Arc::clone(&kernel);
                    target.deliver(now + latency, SmMessage::Block { kernel, number });
                }
            }
            debug_assert!(self.dispatcher.running[i].fits > 0, "launches that fit nowhere are refused");
        }
    }

    /// Nothing can happen any more, but blocks are left.
    fn deadlock(&mut self) -> SimError {
        match self.anyone() {
            Some((place, why)) => SimError::Stopped(Box::new(Fault {
                kind: FaultKind::Deadlock,
                rule: "live".into(),
                message: format!(
                    "no operation, timer or dispatch is pending anywhere, and every resident warp \
                     is blocked: this warp {why}"
                ),
                place,
            })),
            None => SimError::Stopped(Box::new(Fault {
                kind: FaultKind::Deadlock,
                rule: "live".into(),
                message: "blocks wait that no SM can hold".into(),
                place: Place {
                    kernel: "".into(),
                    block: [0; 3],
                    warp: 0,
                    lane: 0,
                    pc: 0,
                    file: "".into(),
                    line: 0,
                    instruction: "".into(),
                    sm: 0,
                    cycle: self.now,
                },
            })),
        }
    }

    fn anyone(&mut self) -> Option<(Place, &'static str)> {
        self.parts.iter_mut().find_map(|part| match part.get_mut() {
            Part::Sm(sm) => sm.first_waiting().map(|(_, place, why)| (place, why)),
            Part::Partition(_) => None,
        })
    }

    /// The SMs.
    pub fn sms(&mut self) -> impl Iterator<Item = &mut Sm<P>> {
        self.parts.iter_mut().filter_map(|part| match part.get_mut() {
            Part::Sm(sm) => Some(sm.as_mut()),
            Part::Partition(_) => None,
        })
    }

    /// The partitions.
    pub fn partitions(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.parts.iter_mut().filter_map(|part| match part.get_mut() {
            Part::Partition(partition) => Some(partition.as_mut()),
            Part::Sm(_) => None,
        })
    }

    /// Times of the kernels, by grid id.
    pub fn times(&self) -> &[KernelTimes] {
        &self.dispatcher.times
    }

    /// The cycle up to which everything has happened.
    pub fn now(&self) -> Cycle {
        self.now
    }

    /// Blocks that ended, and all of them.
    pub fn blocks(&self) -> (u64, u64) {
        (self.dispatcher.blocks_done, self.dispatcher.blocks_total)
    }
}

impl Dispatcher {
    /// The next cycle on which the dispatcher has something to do.
    fn next_action(&self) -> Option<Cycle> {
        let arrived = self.inbox.iter().map(|(at, ..)| *at).min();
        // Aborts alone keep nothing running.
        let abort = self.aborts.first().map(|(at, _)| *at).filter(|_| !self.idle());
        [self.next, arrived, abort].into_iter().flatten().min()
    }

    fn idle(&self) -> bool {
        self.running.is_empty() && self.streams.iter().all(|(_, queue)| queue.is_empty())
    }
}

fn run_part<P: Reconvergence>(part: &mut Part<P>, end: Cycle) -> Option<Box<Fault>> {
    match part {
        Part::Sm(sm) => sm.run(end).err(),
        Part::Partition(partition) => partition.advance(end).err().map(|fault| {
            Box::new(Fault {
                kind: FaultKind::Fault,
                rule: fault.rule.to_string(),
                message: format!("{} at {:#x}", fault.reason, fault.address),
                place: Place {
                    kernel: "".into(),
                    block: [0; 3],
                    warp: 0,
                    lane: 0,
                    pc: 0,
                    file: "".into(),
                    line: 0,
                    instruction: "".into(),
                    sm: u32::MAX,
                    cycle: end,
                },
            })
        }),
    }
}

fn first_fault(faults: impl Iterator<Item = Box<Fault>>) -> Option<Box<Fault>> {
    faults.min_by_key(|fault| (fault.place.cycle, fault.place.sm))
}

/// Resources a block takes: blocks, warps, registers, shared bytes.
fn needs_of(chip: &ChipSpec, kernel: &Kernel) -> [u32; 4] {
    let threads = kernel.block.iter().product();
    let needs = chip.block_needs(threads, kernel.code.program.registers_per_thread, kernel.shared_bytes);
    [1, needs.warps, needs.registers, needs.shared]
}

fn limits_of(chip: &ChipSpec) -> [u32; 4] {
    let l = &chip.limits;
    [l.max_resident_blocks, l.max_resident_threads / l.warp_size, l.reg_file_size, l.shared_mem_size]
}

fn fits_of(chip: &ChipSpec, kernel: &Kernel) -> u32 {
    let threads = kernel.block.iter().product();
    let needs = chip.block_needs(threads, kernel.code.program.registers_per_thread, kernel.shared_bytes);
    chip.occupancy(needs).0
}
