//! The issue stage: what issuing the split that a scheduler picked does, and when it can issue again.

use sim_frontend::program::{Extra, OpClass};
use sim_memory::access::{AccessKind, WarpAccess};
use sim_memory::observation::Event;
use sim_memory::sm_memory::Asked;
use sim_memory::vocabulary::{Cycle, LaneMask, Scope, StateSpace};

use super::accesses::{ALONE, InFlight, access_kind, physical, port};
use super::ahead::prefetch_operands;
use super::fetch::Fetch;
use super::next::{Next, next_issue};
use super::recorder::Recorder;
use super::stats::SmStats;
use super::straight::Run;
use super::units::Units;
use super::{Notice, Sm, Status, Tells};
use crate::code::{Drain, Queue, acquires};
use crate::counts::source_lanes;
use crate::error::Fault;
use crate::execute::{Executed, Issuer, Step, Stepped, Timing};
use crate::lookups::NO_LOOKUP;
use crate::reconvergence::{Reconvergence, SplitId};

/// The issue of an operation that a step executes itself.
struct Issue<'s> {
    stats: &'s mut SmStats,
    recorder: &'s mut Option<Box<Recorder>>,
    units: &'s mut Units,
    fetch: &'s mut Option<Box<Fetch>>,
    scheduler: usize,
    split: SplitId,
    pc: u32,
    now: Cycle,
    /// It takes the unit: it belongs to no formed warp whose leader has taken it.
    occupies: bool,
    /// Operands are asked for ahead of their use.
    ahead: bool,
    /// Cycles from a branch to the next issue, one at least.
    branch_latency: Cycle,
}

impl Issuer for Issue<'_> {
    /// When the next operation of the split can issue, its queue, and that of the one executed.
    type Issued = (Next, Queue, Queue);

    #[inline(always)]
    fn now(&self) -> Cycle {
        self.now
    }

    #[inline(always)]
    fn executed(self, data: Executed<'_>) -> (Next, Queue, Queue) {
        let Executed { warp, w, blocks, kernel, decoded, mask, exec, timing } = data;
        let Timing { jump, arrived, latency, occupancy, turns, more } = timing;
        let Self { now, pc, .. } = self;
        let lanes = [exec.count_ones(), mask.count_ones()];
        self.stats.kernels[kernel.grid_id as usize].count(decoded, lanes);
        if decoded.class != OpClass::Data && jump.is_none() {
            // Parameters lie in constant memory.
            self.stats.on_chip(turns.max(1), more, 0);
        }
        if let Some(recorder) = self.recorder {
            recorder.issue(&kernel.code, pc, (self.split, w), lanes, now);
            if turns > 0 {
                recorder.accessed(&kernel.code, pc, Asked::default(), more.into());
            }
        }
        if self.occupies {
            self.units.occupy(usize::from(decoded.unit), self.scheduler, now, occupancy);
            self.units.issue(self.scheduler, now, decoded.machine_operations);
        }
        decoded.write(&mut warp.board, exec, now, now + Cycle::from(latency));
        let (at, earliest) = match jump {
            Some(target) => (target, now + self.branch_latency),
            None => (pc + 1, now + 1),
        };
        let next = kernel.code.decoded.get(at as usize).filter(|_| !arrived);
        let Some(next) = next else { return (Next::At(now + 1), decoded.queue, decoded.queue) };
        if self.ahead {
            prefetch_operands(warp, next);
        }
        let issue = next_issue(warp, blocks, &kernel.code, next, mask, earliest);
        let issue = issue.fetched(self.fetch, &kernel.code, Some((pc, decoded)), (at, next), now);
        (issue, next.queue, decoded.queue)
    }
}

impl<P: Reconvergence> Sm<P> {
    /// Finds out when `split` can issue its next instruction, not before `earliest`; ready means
    /// by the end of cycle `horizon`.
    pub(super) fn reschedule(&mut self, split: SplitId, earliest: Cycle, horizon: Cycle) {
        let (scheduler, place) = self.place(split);
        let mask = self.resident.policy.mask(split);
        let old = self.status_of(scheduler, place, split);
        if matches!(old, Status::Dependency | Status::Sleep | Status::Fetch) {
            // Its policy changed it while it waited.
            self.wheel.remove(scheduler, place);
        }
        if mask == 0 {
            self.park(split, Status::Absent);
            return;
        }
        let warp = &self.resident.warps[self.resident.warp_of(split)];
        let code = &self.resident.kernels[warp.kernel].code;
        let pc = self.resident.policy.pc(split);
        let (next, queue) = match code.decoded.get(pc as usize) {
            Some(decoded) => {
                let mut next = next_issue(warp, &self.resident.blocks, code, decoded, mask, earliest);
                // Who waited for memory has come to its line before.
                if !matches!(old, Status::Memory | Status::Drain) {
                    next = next.fetched(&mut self.fetch, code, None, (pc, decoded), self.now);
                }
                (next, decoded.queue)
            }
            // The step reports it with its place.
            None => (Next::At(horizon), self.queue_of[split]),
        };
        self.requeue(scheduler, place, split, (old, self.queue_of[split]), next, queue, horizon);
    }

    /// A split begins to wait for accesses, or still does. If it only waits for writes of its block, before a fence or release of device
    /// scope, it waits for those begun so far.
    #[cold]
    pub(super) fn await_accesses(&mut self, split: SplitId) {
        let Self { resident, now, .. } = self;
        let (pc, mask) = (resident.policy.pc(split), resident.policy.mask(split));
        let w = resident.warp_of(split);
        let warp = &mut resident.warps[w];
        let Some(decoded) = resident.kernels[warp.kernel].code.decoded.get(pc as usize) else { return };
        if decoded.class == OpClass::Membar {
            warp.at_fence.get_or_insert(*now);
        }
        if decoded.drain != Drain::Device || warp.awaited_writes.is_some() || warp.outstanding.any(mask, true)
        {
            return;
        }
        if let Some(block) = &mut resident.blocks[warp.block] {
            let begun = block.writes.begun();
            warp.awaited_writes = Some(begun);
            block.writes.wait(w, begun);
        }
    }

    /// A warp of an active block takes a step [block-exec].
    #[inline(always)]
    pub(super) fn issue(&mut self, scheduler: usize, place: u32, now: Cycle) -> Result<(), Box<Fault>> {
        let split = self.split_at(scheduler, place);
        debug_assert!(self.unit_agrees(scheduler, place, split), "sets of units follow the splits");
        if now < self.runs_until
            && self.queue_of[split].leads()
            && self.run_on_for_host(Run { scheduler, place, split, now })
        {
            return Ok(());
        }
        let (w, pc) = (self.resident.warp_of(split), self.resident.policy.pc(split));
        let occupies = !(P::FORMS_WARPS && self.following);
        let branch_latency = self.branch_latency.max(1).into();
        let Self { resident, stats, recorder, units, fetch, ahead, .. } = self;
        let ahead = *ahead;
        let issue = Issue {
            stats,
            recorder,
            units,
            fetch,
            scheduler,
            split,
            pc,
            now,
            occupies,
            ahead,
            branch_latency,
        };
        let step = resident.step(split, issue);
        match step {
            Ok(Stepped::Data((next, queue, old))) => {
                let before = if P::FORMS_WARPS {
                    self.issued_as(scheduler, place, split)
                } else {
                    (Status::Ready, old)
                };
                // Readiness at the next cycle is readiness now: this scheduler has issued.
                self.requeue(scheduler, place, split, before, next, queue, now + 1);
                Ok(())
            }
            Ok(Stepped::Arrived(_)) => {
                self.arrived((scheduler, place), split, now);
                Ok(())
            }
            Ok(Stepped::Other { mask, exec }) => {
                // Counted here: this function is compiled for the host's bit counts.
                let lanes = [exec.count_ones(), mask.count_ones()];
                if matches!(self.resident.outcome, Step::Control | Step::Again) {
                    self.issue_control((scheduler, place), split, w, pc, lanes, now);
                    return Ok(());
                }
                self.issue_other(scheduler, place, split, w, pc, exec, lanes, now)
            }
            Err(violation) => Err(self.fault(w, pc, &violation)),
        }
    }

    /// Issues the next instruction of a split and, where it depends on nothing under way and finds a
    /// unit of its own, the one after it. Only data operations and
    /// accesses go together.
    #[inline(never)]
    pub(super) fn issue_pair(&mut self, scheduler: usize, place: u32, now: Cycle) -> Result<(), Box<Fault>> {
        let split = self.split_at(scheduler, place);
        let w = self.resident.warp_of(split);
        let grid = self.resident.warps[w].kernel;
        let pc = self.resident.policy.pc(split);
        let first = self.resident.kernels[grid]
            .code
            .decoded
            .get(pc as usize)
            .map(|decoded| (decoded.unit, decoded.pairs()));
        self.issue(scheduler, place, now)?;
        // What the policy did to the split may have made it another's, or none.
        let stays = self.resident.policy.mask(split) != 0
            && self.resident.policy.pc(split) == pc + 1
            && self.is_ready(scheduler, place);
        let Some((unit, true)) = first.filter(|_| stays) else { return Ok(()) };
        let mask = self.resident.policy.mask(split);
        let warp = &self.resident.warps[w];
        let code = &self.resident.kernels[warp.kernel].code;
        let Some(decoded) = code.decoded.get(pc as usize + 1) else { return Ok(()) };
        let (unit, second) = (usize::from(unit), usize::from(decoded.unit));
        let now_ready = {
            let next = next_issue(warp, &self.resident.blocks, code, decoded, mask, now);
            matches!(next, Next::At(at) if at <= now)
        };
        let accepting = second != self.load_store || self.memory.accepting();
        if !decoded.pairs() || !now_ready || !accepting || !self.units.beside(scheduler, unit, second, now) {
            return Ok(());
        }
        self.stats.paired += 1;
        self.issue(scheduler, place, now)
    }

    /// An operation brought the split to where its policy had a say.
    #[inline(never)]
    fn arrived(&mut self, at: (usize, u32), split: SplitId, now: Cycle) {
        let earliest = now + 1 + self.charge();
        self.after_issue(at, split, None, earliest, now);
        self.reschedule_touched(split, now, 1);
    }

    /// Accounts for what the policy charged in this step: the cycles.
    pub(super) fn charge(&mut self) -> Cycle {
        let cost = self.resident.charge;
        self.stats.spilled_bytes += u64::from(cost.spilled_bytes);
        self.stats.most_entries = self.stats.most_entries.max(cost.entries);
        Cycle::from(cost.cycles)
    }

    /// The sets by unit hold `split` in its unit's and in no other.
    fn unit_agrees(&self, scheduler: usize, place: u32, split: SplitId) -> bool {
        let Some((_, sets)) = self.scheduler_states[scheduler].words().nth(place as usize / 64) else {
            return false;
        };
        let own = self.queue_of[split].unit();
        sets.iter().enumerate().all(|(class, set)| (set >> (place % 64) & 1 == 1) == (class == own))
    }

    /// What follows the issue of an instruction of which the policy has chosen the next one.
    #[inline(never)]
    fn issue_control(
        &mut self,
        (scheduler, place): (usize, u32),
        split: SplitId,
        w: usize,
        pc: u32,
        lanes: [u32; 2],
        now: Cycle,
    ) {
        let earliest = now + Cycle::from(self.branch_latency.max(1)) + self.charge();
        let before = self.issued_as(scheduler, place, split);
        let resident = &self.resident;
        let warp = &resident.warps[w];
        let kernel = &*resident.kernels[warp.kernel];
        let decoded = &kernel.code.decoded[pc as usize];
        let again = resident.outcome == Step::Again;
        self.stats.kernels[kernel.grid_id as usize].count_other(decoded, again, lanes);
        if let Some(recorder) = &mut self.recorder {
            recorder.issue(&kernel.code, pc, (split, w), source_lanes(decoded, again, lanes), now);
        }
        if !(P::FORMS_WARPS && self.following) {
            let (unit, cycles) = (usize::from(decoded.unit), u32::from(decoded.initiation));
            self.units.occupy(unit, scheduler, now, cycles);
        }
        let mask = resident.policy.mask(split);
        if mask == 0 {
            self.park(split, Status::Absent);
        } else {
            let at = resident.policy.pc(split);
            let (next, queue) = match kernel.code.decoded.get(at as usize) {
                Some(following) => {
                    let next = next_issue(warp, &resident.blocks, &kernel.code, following, mask, earliest);
                    let came = Some((pc, decoded));
                    let next = next.fetched(&mut self.fetch, &kernel.code, came, (at, following), now);
                    (next, following.queue)
                }
                // The step reports it with its place.
                None => (Next::At(now + 1), before.1),
            };
            self.requeue(scheduler, place, split, before, next, queue, now + 1);
        }
        if self.resident.observed.is_some() {
            self.log_barriers(now);
        }
        if !self.resident.outgoing.is_empty() {
            self.send_packets(now);
        }
        if !self.resident.touched.is_empty() || !self.resident.ended.is_empty() {
            self.reschedule_touched(split, now, self.branch_latency);
        }
    }

    /// What follows the issue of anything else but what a step executes itself.
    #[inline(never)]
    fn issue_other(
        &mut self,
        scheduler: usize,
        place: u32,
        split: SplitId,
        w: usize,
        pc: u32,
        exec: LaneMask,
        lanes: [u32; 2],
        now: Cycle,
    ) -> Result<(), Box<Fault>> {
        let warp = &mut self.resident.warps[w];
        let kernel = &self.resident.kernels[warp.kernel];
        let decoded = &kernel.code.decoded[pc as usize];
        self.stats.kernels[kernel.grid_id as usize].count(decoded, lanes);
        if let Some(recorder) = &mut self.recorder {
            recorder.issue(&kernel.code, pc, (split, w), lanes, now);
        }
        if decoded.drain == Drain::Device {
            warp.awaited_writes = None;
        }
        let came_to_fence = if decoded.class == OpClass::Membar { warp.at_fence.take() } else { None };
        let unit = usize::from(decoded.unit);
        let (class, machine_operations) = (decoded.class, decoded.machine_operations);
        let mut earliest = now + 1;
        let mut fence = 0;
        let mut occupancy = u32::from(decoded.initiation);
        let mut parked = None;
        match self.resident.outcome {
            Step::Done => {
                let ready = now + Cycle::from(decoded.latency);
                warp.board.write(decoded.written(), exec, now, ready);
                match kernel.code.program.ops[pc as usize].extra {
                    Extra::Membar(scope, semantics) if exec != 0 => {
                        self.memory.fence(scope);
                        fence = self.fence.behind(scope, now - came_to_fence.unwrap_or(now));
                        if self.memory.observation.is_some() {
                            let fence = Event::Fence { warp: w as u32, lanes: exec, scope, semantics };
                            self.memory.log(now, fence);
                        }
                    }
                    // What is written before a thread arrives at the barrier of its cluster, other SMs see behind it.
                    Extra::ClusterBarrier { wait: false, releases: true, .. } => {
                        fence = self.fence.of(Scope::Cluster);
                    }
                    _ => {}
                }
                earliest += Cycle::from(fence);
            }
            Step::DoneAfter { latency, occupancy: held, turns } => {
                warp.board.write(decoded.written(), exec, now, now + Cycle::from(latency));
                let waited = std::mem::take(&mut self.resident.lock_wait);
                let more = held - held / turns.max(1);
                self.stats.on_chip(turns, more, waited);
                if let Some(recorder) = &mut self.recorder {
                    let extra = u64::from(more) + u64::from(waited);
                    recorder.accessed(&kernel.code, pc, Asked::default(), extra);
                }
                occupancy = occupancy.max(held);
            }
            Step::Access => {
                if !(P::FORMS_WARPS && self.following) {
                    self.units.occupy(unit, scheduler, now, occupancy);
                    self.units.issue(scheduler, now, machine_operations);
                }
                let earliest = earliest + self.charge();
                if self.resident.observed.is_some() {
                    self.log_barriers(now);
                }
                // The lists of the step are the next step's too.
                let touched = std::mem::take(&mut self.resident.touched);
                self.send_accesses(w, pc, now)?;
                self.resident.touched = touched;
                if !self.resident.outgoing.is_empty() {
                    self.send_packets(now);
                }
                if !self.resident.jobs.is_empty() {
                    self.queue_jobs(now);
                }
                self.after_issue((scheduler, place), split, Some(pc), earliest, now);
                self.reschedule_touched(split, now, 1);
                return Ok(());
            }
            // Not here: `issue_control` has these.
            Step::Control | Step::Again => {}
            Step::Product { shared } => {
                occupancy = 1;
                self.begin_product(scheduler, w, pc, shared, now);
            }
            Step::Wait(cycles) => earliest = now + 1 + cycles,
            Step::Sleep(cycles) => {
                earliest = now + 1 + cycles;
                parked = (cycles > 0).then_some(Status::Sleep);
            }
            Step::Parked => {
                let status = if class == OpClass::Barrier { Status::Barrier } else { Status::Collective };
                parked = Some(status);
            }
        }
        if !(P::FORMS_WARPS && self.following) {
            self.units.occupy(unit, scheduler, now, occupancy);
            self.units.issue(scheduler, now, machine_operations);
        }
        earliest += self.charge();
        let at_barrier = if class == OpClass::Barrier { self.arrive(now) } else { self.barrier_latency };
        match parked {
            Some(status @ (Status::Barrier | Status::Collective)) => self.park(split, status),
            Some(_) => {
                self.after_issue((scheduler, place), split, Some(pc), earliest, now);
                if self.status_of(scheduler, place, split) == Status::Dependency {
                    self.set_status(scheduler, split, Status::Dependency, Status::Sleep);
                }
            }
            None if class == OpClass::Barrier => {
                let earliest = now + Cycle::from(at_barrier.max(1) + fence);
                self.after_issue((scheduler, place), split, Some(pc), earliest, now);
            }
            None => self.after_issue((scheduler, place), split, Some(pc), earliest, now),
        }
        debug_assert_eq!(self.place(split), (scheduler, place));
        if self.resident.observed.is_some() {
            self.log_barriers(now);
        }
        if !self.resident.outgoing.is_empty() {
            self.send_packets(now);
        }
        // Those that a barrier or collective lets go on, or that the split meets where its policy has a say.
        let others = if class.effects().waits { at_barrier } else { 1 };
        self.reschedule_touched(split, now, others);
        Ok(())
    }

    /// A warp arrives at a barrier: cycles until those go on that it is the last for.
    fn arrive(&mut self, now: Cycle) -> u32 {
        self.barriers_free = self.barriers_free.max(now) + Cycle::from(self.barrier_interval);
        let wait = u32::try_from(self.barriers_free - now).unwrap_or(u32::MAX);
        wait.saturating_add(self.barrier_latency)
    }

    /// A split that issued the operation at `from` in this cycle, or came from elsewhere, looks for its next issue.
    #[inline(never)]
    fn after_issue(
        &mut self,
        (scheduler, place): (usize, u32),
        split: SplitId,
        from: Option<u32>,
        earliest: Cycle,
        now: Cycle,
    ) {
        let horizon = if earliest == now + 1 { earliest } else { now };
        let before = self.issued_as(scheduler, place, split);
        let mask = self.resident.policy.mask(split);
        if mask == 0 {
            return self.park(split, Status::Absent);
        }
        let warp = &self.resident.warps[self.resident.warp_of(split)];
        let code = &self.resident.kernels[warp.kernel].code;
        let pc = self.resident.policy.pc(split);
        let (next, queue) = match code.decoded.get(pc as usize) {
            Some(decoded) => {
                let next = next_issue(warp, &self.resident.blocks, code, decoded, mask, earliest);
                let from = from.and_then(|from| Some((from, code.decoded.get(from as usize)?)));
                (next.fetched(&mut self.fetch, code, from, (pc, decoded), now), decoded.queue)
            }
            // The step reports it with its place.
            None => (Next::At(horizon), before.1),
        };
        self.requeue(scheduler, place, split, before, next, queue, horizon);
    }

    /// Status and unit of a split while it issues: it is ready, but for a part just carved out of
    /// another.
    #[inline(always)]
    fn issued_as(&self, scheduler: usize, place: u32, split: SplitId) -> (Status, Queue) {
        if P::FORMS_WARPS && self.following {
            return (self.status_of(scheduler, place, split), self.queue_of[split]);
        }
        debug_assert_eq!(self.status_of(scheduler, place, split), Status::Ready);
        (Status::Ready, self.queue_of[split])
    }

    pub(super) fn park(&mut self, split: SplitId, status: Status) {
        let (scheduler, place) = self.place(split);
        let old = self.status_of(scheduler, place, split);
        let state = self.scheduler(scheduler);
        *state.ready_word(place as usize / 64) &= !(1 << (place % 64));
        state.picker.long_wait(place);
        self.set_status(scheduler, split, old, status);
    }

    /// Other splits that a control instruction, barrier, collective or join changed, which go on
    /// after `latency` cycles, and warps that ended.
    pub(super) fn reschedule_touched(&mut self, issued: SplitId, now: Cycle, latency: u32) {
        if !self.resident.touched.is_empty() {
            let touched = std::mem::replace(&mut self.resident.touched, std::mem::take(&mut self.touched));
            let at = now + Cycle::from(latency.max(1));
            for &split in &touched {
                let waiting = matches!(self.status[split], Status::Barrier | Status::Collective);
                if (split != issued || waiting) && self.resident.waits[split] == 0 {
                    self.reschedule(split, at, now);
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
    pub(super) fn finish_if_drained(&mut self, warp: usize, now: Cycle) {
        let state = &self.resident.warps[warp];
        if !state.resident {
            return;
        }
        if !state.drained() {
            if !self.finishing.contains(&warp) {
                self.account_until(now);
                self.finishing.push(warp);
            }
            return;
        }
        if self.finishing.contains(&warp) {
            self.account_until(now);
            self.finishing.retain(|&other| other != warp);
        }
        let slot = self.resident.warps[warp].block;
        self.resident.warps[warp].resident = false;
        self.count_residents(now);
        self.resident_warps -= 1;
        let Some(block) = self.resident.blocks[slot].as_mut() else { return };
        block.finished_warps += 1;
        if (block.finished_warps as usize) < block.warps.len() {
            return;
        }
        let grid_id = self.resident.kernels[block.kernel].grid_id;
        let number = block.number;
        let issued = self.stats.kernels.get(grid_id as usize).map_or(0, |counts| counts.warp_instructions);
        let issued = issued - self.issued_early(grid_id, now);
        self.notices.push(Notice { grid_id, what: Tells::Ended, number, at: now, issued });
        if let Some(timeline) = self.timeline() {
            timeline.block_ends(slot as u32, now);
        }
        self.stats.blocks += 1;
        self.stats.last_block_end = now;
        self.resident.blocks[slot] = None;
    }

    /// Logs the barriers that the last step completed.
    #[cold]
    pub(super) fn log_barriers(&mut self, now: Cycle) {
        let Some(observed) = &mut self.resident.observed else { return };
        for event in observed.drain(..) {
            self.memory.log(now, event);
        }
    }

    /// Hands the accesses of the last step to the memory environment [link-memOp].
    #[inline(never)]
    fn send_accesses(&mut self, w: usize, pc: u32, now: Cycle) -> Result<(), Box<Fault>> {
        let mut group = ALONE;
        for i in 0..self.resident.requests.len() {
            let request = self.resident.requests.get(i);
            let looks = request.lookup != NO_LOOKUP;
            if (request.parts > 1 || looks) && request.part == 0 {
                // Lanes of a lookup need not have equally many texels.
                let lanes = if looks { self.resident.lookups.lanes(request.lookup) } else { request.lanes };
                group = self.accesses.group(request.parts.into(), lanes, request.lookup);
            }
            let warp = &mut self.resident.warps[w];
            let code = &self.resident.kernels[warp.kernel].code;
            let op = &code.program.ops[pc as usize];
            let Some(facts) = op.extra.access() else { continue };
            let lanes = request.lanes;
            let decoded = &code.decoded[pc as usize];
            let copies = op.class == OpClass::Copy;
            if !copies {
                // Barriers and fences do not wait for asynchronous copies.
                warp.board.block(decoded.blocking(), lanes);
                warp.outstanding.begin(lanes);
            }
            let volatile = decoded.drain == Drain::Volatile;
            if volatile {
                warp.outstanding.begin_volatile(lanes);
            }
            let acquires = acquires(op.class, &op.extra);
            if acquires {
                warp.outstanding.begin_acquire(lanes);
            }
            let Some(kind) = access_kind(op, acquires) else { continue };
            let writes = code.publishes
                && matches!(kind, AccessKind::Store | AccessKind::Atomic { .. })
                && request.space == StateSpace::Global;
            let block = self.resident.blocks[warp.block].as_mut().filter(|_| writes);
            let write = block.map(|block| block.writes.begin());
            let local;
            let addresses = match request.space {
                StateSpace::Local => {
                    local = physical(self.index, w as u32, lanes, &request.addresses);
                    &local
                }
                _ => &request.addresses,
            };
            let entry = InFlight {
                warp: w,
                pc,
                lanes,
                blocked: lanes,
                pending: lanes,
                issued: now,
                part: request.part,
                parts: request.parts,
                group: if request.parts > 1 || looks { group } else { ALONE },
                copy: copies,
                volatile,
                acquires,
                write,
            };
            let id = self.accesses.begin(entry, addresses);
            if copies {
                warp.copies_mut().begin(id, lanes, request.operands, None);
            }
            let access = WarpAccess {
                id,
                kind,
                space: request.space,
                cache_op: facts.cache,
                semantics: facts.semantics,
                scope: facts.scope,
                policy: facts.policy,
                element_bytes: request.bytes,
                lanes,
                addresses,
                data: &request.data,
                operands: Some(&request.operands),
                combined: facts.is_one(lanes),
            };
            if let Some(observation) = &mut self.memory.observation {
                observation.origin = (w as u32, pc);
            }
            let mut port = port!(self);
            let result = self.memory.access(now, &access, &mut port);
            if let Err(fault) = result {
                return Err(self.memory_fault(&fault));
            }
            if let (Some(recorder), Some(asked)) = (&mut self.recorder, &mut self.memory.asked) {
                let code = &self.resident.kernels[self.resident.warps[w].kernel].code;
                recorder.accessed(code, pc, std::mem::take(asked), 0);
            }
        }
        if !self.woken.is_empty() {
            self.arrive_after_copies()?;
            self.wake_waiting(now)?;
        }
        Ok(())
    }
}
