//! The dispatcher: block dispatch under the chip's limits, kernels in stream order (CS §5.6, §5.7).

use std::collections::VecDeque;
use std::sync::Arc;

use sim_frontend::chip::ChipSpec;
use sim_memory::vocabulary::Cycle;

use crate::grid::Kernel;
use crate::sampling::blocks::{L2Use, Skip, Windows};
use crate::sm::{Notice, SmMessage, Tells};

/// Times of a kernel, in core cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct KernelTimes {
    /// The dispatcher begins the kernel: its launch latency starts.
    pub taken: Cycle,
    /// Dispatch of its first block.
    pub start: Cycle,
    /// End of its last block, as its SM saw it.
    pub end: Cycle,
    /// True while blocks of it have not ended.
    pub runs: bool,
}

impl KernelTimes {
    /// Number of cycles before `now` in which at least one of these grids ran. Launch latencies count only if
    /// another grid runs at the same time.
    pub fn running(all: &[Self], now: Cycle) -> Cycle {
        let end = |times: &Self| if times.runs { now } else { times.end.min(now) };
        let mut spans: Vec<(Cycle, Cycle)> =
            all.iter().map(|times| (times.start, end(times))).filter(|(start, end)| start < end).collect();
        spans.sort_unstable();
        let mut sum = 0;
        let mut seen = 0;
        for (start, end) in spans {
            sum += end.saturating_sub(start.max(seen));
            seen = seen.max(end);
        }
        sum
    }
}

/// A grid that runs or waits for dispatch [block-idle].
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Running {
    #[borsh(serialize_with = "crate::state::write_kernel", deserialize_with = "crate::state::read_kernel")]
    kernel: Arc<Kernel>,
    next: u64,
    done: u64,
    /// Its blocks are not dispatched before this cycle.
    ready: Cycle,
    fits: u32,
    /// True if no more blocks are dispatched.
    aborted: bool,
}

/// The dispatcher: block dispatch under the chip's limits, kernels in stream order.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub(super) struct Dispatcher {
    #[borsh(serialize_with = "sim_memory::links::named", deserialize_with = "sim_memory::links::linked")]
    chip: Arc<ChipSpec>,
    /// The queued kernels of each stream, in order.
    #[borsh(serialize_with = "crate::state::write_streams", deserialize_with = "crate::state::read_streams")]
    streams: Vec<(u32, VecDeque<Arc<Kernel>>)>,
    running: Vec<Running>,
    /// For each SM: blocks, warps, registers and shared memory bytes in use.
    used: Vec<[u32; 4]>,
    cursor: usize,
    /// The GPC that is asked first for room for a cluster.
    gpc_cursor: usize,
    /// A cluster that has more blocks than a cycle sends takes those of the cycles before this one.
    free_at: Cycle,
    /// For each SM: from when on it takes a block in the place of one that ended. None before a block has ended there.
    replaces_at: Vec<Option<Cycle>>,
    /// For each SM: since when it has had room for a block as the one before it, or for what a block that ended had.
    room_since: Vec<Option<Cycle>>,
    /// Cycles for which SMs with room have waited for `replaces_at`.
    pub(super) waited: Cycle,
    /// The next cycle at which the dispatcher acts.
    next: Option<Cycle>,
    pub(super) inbox: Vec<(Cycle, u32, Notice)>,
    arrived: Vec<(Cycle, u32, Notice)>,
    /// Messages to SMs: SM, arrival cycle, message. Those to one SM are in the order of arrival.
    pub(super) outbox: Vec<(u32, Cycle, SmMessage)>,
    aborts: Vec<(Cycle, u32)>,
    /// Grids whose blocks have all completed, in the order of completion.
    pub(super) completed: Vec<u32>,
    pub(super) times: Vec<KernelTimes>,
    pub(super) blocks_done: u64,
    pub(super) blocks_total: u64,
    flushed_any: bool,
    /// Which blocks are executed without timing, where kernels are sampled.
    #[borsh(skip)]
    pub(super) windows: Option<Box<Windows>>,
}

impl Dispatcher {
    /// An idle dispatcher for `sms` empty SMs.
    pub(super) fn new(chip: Arc<ChipSpec>, sms: usize) -> Self {
        Self {
            chip,
            streams: Vec::new(),
            running: Vec::new(),
            used: vec![[0; 4]; sms],
            cursor: 0,
            gpc_cursor: 0,
            free_at: 0,
            replaces_at: vec![None; sms],
            room_since: vec![None; sms],
            waited: 0,
            next: None,
            inbox: Vec::new(),
            arrived: Vec::new(),
            outbox: Vec::new(),
            aborts: Vec::new(),
            completed: Vec::new(),
            times: Vec::new(),
            blocks_done: 0,
            blocks_total: 0,
            flushed_any: false,
            windows: None,
        }
    }

    /// Queues a kernel after the others of its stream, at `now`.
    pub(super) fn launch(&mut self, kernel: Arc<Kernel>, now: Cycle) {
        self.blocks_total += kernel.blocks();
        let stream = kernel.stream;
        match self.streams.iter_mut().find(|(id, _)| *id == stream) {
            Some((_, queue)) => queue.push_back(kernel),
            None => self.streams.push((stream, VecDeque::from([kernel]))),
        }
        self.next = Some(now);
    }

    /// Aborts a grid at cycle `at`.
    pub(super) fn abort(&mut self, grid: u32, at: Cycle) {
        self.aborts.push((at, grid));
        self.aborts.sort_unstable();
    }

    /// Performs the dispatcher's part of an epoch: frees the resources of completed blocks, begins kernels
    /// that are due, and sends blocks to SMs.
    pub(super) fn act_before(&mut self, end: Cycle) {
        loop {
            let d = &mut *self;
            let Some(now) = d.next_action().filter(|now| *now < end) else { return };
            if d.next.is_some_and(|next| next <= now) {
                d.next = None;
            }
            let mut arrived = std::mem::take(&mut d.arrived);
            d.inbox.retain(|entry| {
                let here = entry.0 <= now;
                if here {
                    arrived.push(*entry);
                }
                !here
            });
            arrived.sort_unstable_by_key(|(at, sm, notice)| (*at, *sm, notice.what, notice.number));
            for (_, sm, notice) in arrived.drain(..) {
                match notice.what {
                    Tells::Ended => self.block_done(sm, notice, now),
                    Tells::Cancel => self.cancel(sm, notice, now),
                }
            }
            self.arrived = arrived;
            while let Some(&(at, grid)) = self.aborts.first()
                && at <= now
            {
                self.aborts.remove(0);
                self.abort_grid(grid, now);
            }
            self.begin_kernels(now);
            self.send_blocks(now);
        }
    }

    /// Aborts a grid: its undispatched blocks never start, and the threads of the others end where they are;
    /// accesses in flight continue [ctx-abort].
    fn abort_grid(&mut self, grid: u32, now: Cycle) {
        let d = &mut *self;
        for (_, queue) in &mut d.streams {
            queue.retain(|kernel| kernel.grid_id != grid);
        }
        let Some(i) = d.running.iter().position(|r| r.kernel.grid_id == grid) else { return };
        d.running[i].aborted = true;
        if d.running[i].done == d.running[i].next {
            d.times[grid as usize].runs = false;
            d.running.remove(i);
            return;
        }
        let at = now + Cycle::from(self.chip.dispatch.latency);
        for sm in 0..self.used.len() as u32 {
            self.outbox.push((sm, at, SmMessage::Abort { grid_id: grid }));
        }
    }

    /// Frees the resources of a completed block. With its last block the grid is complete [grid-compl]
    /// [ctx-compl] [cio-compl].
    fn block_done(&mut self, sm: u32, block: Notice, now: Cycle) {
        let d = &mut *self;
        d.blocks_done += 1;
        let Some(i) = d.running.iter().position(|r| r.kernel.grid_id == block.grid_id) else { return };
        let kernel = Arc::clone(&d.running[i].kernel);
        let needs = needs_of(&d.chip, &kernel);
        for (used, need) in d.used[sm as usize].iter_mut().zip(needs) {
            *used -= need;
        }
        d.replaces_at[sm as usize].get_or_insert(now);
        d.room_since[sm as usize].get_or_insert(now);
        let times = &mut d.times[block.grid_id as usize];
        times.end = times.end.max(block.at);
        d.running[i].done += 1;
        if self.windows.is_some() {
            self.follow(i, sm, block, now);
        }
        self.may_be_complete(i, now);
    }

    /// Blocks of a grid are done: the grid may be complete with them.
    fn may_be_complete(&mut self, i: usize, now: Cycle) {
        let d = &mut *self;
        let (running, grid) = (&d.running[i], d.running[i].kernel.grid_id);
        let times = &mut d.times[grid as usize];
        if running.aborted {
            // An aborted grid never completes, though all its blocks were resident.
            if running.done == running.next {
                times.runs = false;
                d.running.remove(i);
            }
        } else if running.done == running.kernel.blocks() {
            times.runs = false;
            d.completed.push(grid);
            d.running.remove(i);
        }
        d.next = Some(d.next.map_or(now, |n| n.min(now)));
    }

    /// A block of a kernel that is sampled ended.
    #[cold]
    fn follow(&mut self, i: usize, sm: u32, block: Notice, now: Cycle) {
        let d = &mut *self;
        let (Some(windows), running) = (&mut d.windows, &d.running[i]) else { return };
        let size = u64::from(running.kernel.cluster_size());
        let wave = u64::from(running.fits) * d.used.len() as u64 / size * size;
        windows.block_ended(now, block.grid_id, wave.max(size), sm, block.issued);
    }

    /// Of a kernel that runs alone and steadily, some blocks are not sent to SMs: they are executed without timing.
    pub(super) fn leave_blocks_out(&mut self, l2: L2Use) -> Option<Skip> {
        let d = &mut *self;
        let windows = d.windows.as_mut()?;
        let [running] = d.running.as_mut_slice() else { return None };
        let kernel = &running.kernel;
        let others = d.streams.iter().any(|(id, queue)| *id != kernel.stream && !queue.is_empty());
        // Blocks of a cooperative launch wait for one another, and those that cancel launches depend on the time.
        let whole = kernel.workspace != 0 || kernel.code.cancels || running.aborted || !d.aborts.is_empty();
        if others || whole {
            return None;
        }
        let skip = windows.leave_out(kernel.grid_id, running.next, kernel.blocks(), l2)?;
        running.next += skip.to - skip.from;
        Some(skip)
    }

    /// Blocks that were left out have been executed, with so many instructions.
    pub(super) fn executed(&mut self, skip: &Skip, instructions: u64) {
        let Some(windows) = &mut self.windows else { return };
        windows.executed(skip, instructions);
        let now = windows.looked();
        let blocks = skip.to - skip.from;
        self.blocks_done += blocks;
        if let Some(i) = self.running.iter().position(|running| running.kernel.grid_id == skip.grid) {
            self.running[i].done += blocks;
            self.may_be_complete(i, now);
        }
    }

    /// A grid that runs.
    pub(super) fn kernel(&self, grid: u32) -> Option<Arc<Kernel>> {
        self.running.iter().map(|running| &running.kernel).find(|kernel| kernel.grid_id == grid).cloned()
    }

    /// The cycle at which blocks are to be executed without timing.
    pub(super) fn pause(&self) -> Cycle {
        self.windows.as_ref().and_then(|windows| windows.due()).unwrap_or(Cycle::MAX)
    }

    /// Cancels the launch of the next cluster of a grid, if one is left, and says so. The grid goes on: the block that asks
    /// does not end before it is answered.
    #[cold]
    fn cancel(&mut self, sm: u32, notice: Notice, now: Cycle) {
        let mut cancelled = None;
        let of_grid = |running: &&mut Running| running.kernel.grid_id == notice.grid_id && !running.aborted;
        if let Some(running) = self.running.iter_mut().find(of_grid)
            && running.next < running.kernel.blocks()
        {
            let kernel = &running.kernel;
            let size = u64::from(kernel.cluster_size());
            cancelled = Some(kernel.block_index(kernel.in_order(running.next)));
            running.next += size;
            running.done += size;
            self.blocks_done += size;
        }
        let at = now + Cycle::from(self.chip.dispatch.latency);
        self.outbox.push((sm, at, SmMessage::Answer { number: notice.number, cancelled }));
    }

    /// Begins kernels at the head of their streams, up to NumConKernels at a time [sched-grids].
    fn begin_kernels(&mut self, now: Cycle) {
        if self.running.is_empty() {
            // The next grid fills the SMs anew.
            self.replaces_at.fill(None);
            self.room_since.fill(None);
        }
        let limit = self.chip.limits.num_con_kernels as usize;
        let launch = Cycle::from(self.chip.dispatch.launch_latency);
        loop {
            let d = &mut *self;
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
            // A grid without blocks has no first dispatch to wait for.
            let start = if kernel.blocks() == 0 { now } else { now + launch };
            d.times[grid] = KernelTimes { taken: now, start, end: start, runs: kernel.blocks() > 0 };
            // A dependent grid sees what earlier ones wrote: stale lines of L1 go.
            if d.flushed_any {
                let at = now + Cycle::from(self.chip.dispatch.latency);
                for sm in 0..self.used.len() as u32 {
                    self.outbox.push((sm, at, SmMessage::FlushL1));
                }
            }
            let d = &mut *self;
            d.flushed_any = true;
            if kernel.blocks() == 0 {
                d.completed.push(kernel.grid_id);
                continue;
            }
            let fits = fits_of(&d.chip, &kernel);
            d.running.push(Running { kernel, next: 0, done: 0, ready: now + launch, fits, aborted: false });
        }
    }

    /// Sends blocks to SMs with room for them, in round-robin order, up to the dispatch rate per cycle
    /// [ctx-issue] [sched-issueBlocks].
    fn send_blocks(&mut self, now: Cycle) {
        let latency = Cycle::from(self.chip.dispatch.latency);
        let mut budget = if now < self.free_at { 0 } else { self.chip.dispatch.blocks_per_cycle };
        for i in 0..self.running.len() {
            let d = &mut *self;
            let running = &d.running[i];
            if running.aborted {
                continue;
            }
            if running.ready > now {
                d.next = Some(d.next.map_or(running.ready, |n| n.min(running.ready)));
                continue;
            }
            let kernel = Arc::clone(&running.kernel);
            let needs = needs_of(&d.chip, &kernel);
            let limits = limits_of(&self.chip);
            if kernel.cluster_size() > 1 {
                if !self.send_clusters(i, &kernel, now, &mut budget) {
                    return;
                }
                continue;
            }
            while self.running[i].next < kernel.blocks() {
                let d = &mut *self;
                if budget == 0 {
                    d.next = Some(d.free_at.max(now + 1));
                    return;
                }
                let sms = d.used.len();
                // The first cycle at which an SM with room takes a block.
                let mut later = None;
                let found = (0..sms).map(|k| (d.cursor + k) % sms).find(|sm| {
                    let room = has_room(d.used[*sm], needs, limits);
                    let waits = d.replaces_at[*sm].filter(|at| room && *at > now);
                    later = [later, waits].into_iter().flatten().min();
                    room && waits.is_none()
                });
                let Some(sm) = found else {
                    d.next = [d.next, later].into_iter().flatten().min();
                    break;
                };
                d.cursor = (sm + 1) % sms;
                d.take(sm, needs, now);
                let number = d.running[i].next;
                d.running[i].next += 1;
                budget -= 1;
                let message = SmMessage::Block { kernel: Arc::clone(&kernel), number, sms: None };
                d.outbox.push((sm as u32, now + latency, message));
            }
            debug_assert!(self.running[i].fits > 0, "launches that fit nowhere are refused");
        }
    }

    /// A block that is sent to an SM takes what it needs there.
    fn take(&mut self, sm: usize, needs: [u32; 4], now: Cycle) {
        self.used[sm].iter_mut().zip(needs).for_each(|(used, need)| *used += need);
        if let Some(at) = &mut self.replaces_at[sm] {
            let since = self.room_since[sm].unwrap_or(now);
            self.waited += now.min(*at).saturating_sub(since);
            *at = now + Cycle::from(self.chip.dispatch.replacement_interval);
        }
        self.room_since[sm] = has_room(self.used[sm], needs, limits_of(&self.chip)).then_some(now);
    }

    /// Sends whole clusters to the SMs of a GPC with room for them, GPCs in round-robin order, their blocks to as many SMs
    /// as there are. False where the blocks of this cycle are used up.
    #[cold]
    fn send_clusters(&mut self, i: usize, kernel: &Arc<Kernel>, now: Cycle, budget: &mut u32) -> bool {
        let size = kernel.cluster_size();
        let (needs, limits) = (needs_of(&self.chip, kernel), limits_of(&self.chip));
        let latency = Cycle::from(self.chip.dispatch.latency);
        let bounds = self.chip.cluster.as_ref().map(|spec| spec.bounds(self.used.len() as u32));
        let gpcs: Vec<[u32; 2]> =
            bounds.iter().flat_map(|bounds| bounds.windows(2)).map(|gpc| [gpc[0], gpc[1]]).collect();
        while self.running[i].next < kernel.blocks() {
            let d = &mut *self;
            if *budget == 0 {
                d.next = Some(d.free_at.max(now + 1));
                return false;
            }
            let places = (0..gpcs.len()).map(|k| (d.gpc_cursor + k) % gpcs.len());
            let waits = |sm: usize| d.replaces_at[sm].is_some_and(|at| at > now);
            let found = places.into_iter().find_map(|gpc| {
                let sms = place_cluster(&d.used, gpcs[gpc], size, needs, limits, waits)?;
                Some((gpc, sms))
            });
            let Some((gpc, sms)) = found else {
                let later = d.replaces_at.iter().flatten().filter(|at| **at > now).min().copied();
                d.next = [d.next, later].into_iter().flatten().min();
                break;
            };
            d.gpc_cursor = (gpc + 1) % gpcs.len();
            let sms: Arc<[u32]> = sms.into();
            for &sm in &*sms {
                d.take(sm as usize, needs, now);
                let number = kernel.in_order(d.running[i].next);
                d.running[i].next += 1;
                let sms = Some(Arc::clone(&sms));
                let message = SmMessage::Block { kernel: Arc::clone(kernel), number, sms };
                d.outbox.push((sm, now + latency, message));
            }
            // A cluster starts as a whole: what is beyond the blocks of this cycle is taken from the next ones.
            let beyond = size.saturating_sub(*budget);
            *budget = budget.saturating_sub(size);
            if beyond > 0 {
                d.free_at = now + 1 + Cycle::from(beyond / d.chip.dispatch.blocks_per_cycle.max(1));
            }
        }
        true
    }

    /// The next cycle at which the dispatcher acts.
    pub(super) fn next_action(&self) -> Option<Cycle> {
        let arrived = self.inbox.iter().map(|(at, ..)| *at).min();
        // Aborts alone keep nothing running.
        let abort = self.aborts.first().map(|(at, _)| *at).filter(|_| !self.idle());
        [self.next, arrived, abort].into_iter().flatten().min()
    }

    /// Number of blocks sent to SMs so far.
    pub(super) fn blocks_sent(&self) -> u64 {
        self.blocks_done + self.running.iter().map(|running| running.next - running.done).sum::<u64>()
    }

    /// A description of the blocks and grids that wait for dispatch.
    pub(super) fn waits_in_words(&self) -> String {
        let mut words = String::new();
        for running in &self.running {
            let left = running.kernel.blocks() - running.next;
            if left != 0 && !running.aborted {
                words.push_str(&format!(
                    "; {left} blocks of {} cannot become resident until a resident block completes",
                    running.kernel.name
                ));
            }
        }
        let queued: usize = self.streams.iter().map(|(_, queue)| queue.len()).sum();
        if queued != 0 {
            words.push_str(&format!("; {queued} more launches are queued"));
        }
        words
    }

    /// True if no grid runs or waits.
    pub(super) fn idle(&self) -> bool {
        self.running.is_empty() && self.streams.iter().all(|(_, queue)| queue.is_empty())
    }
}

/// The resources that a block needs: block slots, warps, registers, shared memory bytes.
fn needs_of(chip: &ChipSpec, kernel: &Kernel) -> [u32; 4] {
    let threads = kernel.block.iter().product();
    let needs = chip.block_needs(threads, kernel.code.program.registers_per_thread, kernel.shared_bytes);
    [1, needs.warps, needs.registers, needs.shared]
}

fn limits_of(chip: &ChipSpec) -> [u32; 4] {
    let l = &chip.limits;
    [l.max_resident_blocks, l.max_resident_threads / l.warp_size, l.reg_file_size, chip.shared_memory()]
}

/// True if an SM of whose resources so much is in use has room for what a block needs.
fn has_room(used: [u32; 4], needs: [u32; 4], limits: [u32; 4]) -> bool {
    used.iter().zip(needs).zip(limits).all(|((used, need), limit)| used + need <= limit)
}

fn fits_of(chip: &ChipSpec, kernel: &Kernel) -> u32 {
    let threads = kernel.block.iter().product();
    let needs = chip.block_needs(threads, kernel.code.program.registers_per_thread, kernel.shared_bytes);
    chip.occupancy(needs).0
}

/// SMs from `first` to `end` for the blocks of a cluster, by rank, where there is room: one after another, until each
/// block has one. SMs that wait take none.
fn place_cluster(
    used: &[[u32; 4]],
    [first, end]: [u32; 2],
    size: u32,
    needs: [u32; 4],
    limits: [u32; 4],
    waits: impl Fn(usize) -> bool,
) -> Option<Vec<u32>> {
    let mut used = used.get(first as usize..end as usize)?.to_vec();
    let mut sms = Vec::new();
    loop {
        let before = sms.len();
        for (sm, used) in (first..end).zip(&mut used) {
            if sms.len() == size as usize {
                return Some(sms);
            }
            if has_room(*used, needs, limits) && !waits(sm as usize) {
                used.iter_mut().zip(needs).for_each(|(used, need)| *used += need);
                sms.push(sm);
            }
        }
        if sms.len() == size as usize {
            return Some(sms);
        }
        if sms.len() == before {
            return None;
        }
    }
}
