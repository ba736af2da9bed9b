//! The functional mode: the same instructions on the same resident blocks, without timing. Accesses
//! happen at once on device memory; splits take turns.

mod blocks;
mod observe;
mod perform;
mod record;
mod released;

use std::collections::BTreeMap;
use std::sync::Arc;

use sim_frontend::form::MbarrierStep;
use sim_frontend::program::{Extra, OpClass, Pc};
use sim_memory::access::AccessKind;
use sim_memory::vocabulary::{Cycle, LaneMask, StateSpace};

use crate::bulk::{Job, Way};
use crate::counts::KernelCounts;
use crate::error::{Fault, FaultKind, Location, Violation};
use crate::execute::{Executed, Issuer, Resident, Step, Stepped, UndefinedReads, World};
use crate::instruction_set::InstructionSet;
use crate::liveness::{Look, Watch, waits_in_words};
use crate::packet::{Does, Packet, What};
use crate::reconvergence::{Lanes, Reconvergence, SplitId};
use crate::recording::Record;
use crate::registers::guard;
use crate::sm::accesses::access_kind;
use crate::touched::Touched;
use released::Released;

/// Without timing a data operation is counted, and that is all. Clocks count issues, since they are the
/// same however a run is observed.
struct Counting<'c> {
    counts: &'c mut KernelCounts,
    /// The clock less the issues of the kernel.
    base: Cycle,
}

impl Issuer for Counting<'_> {
    /// Whether it accessed shared memory.
    type Issued = bool;

    #[inline(always)]
    fn now(&self) -> Cycle {
        self.base.wrapping_add(self.counts.issues())
    }

    #[inline(always)]
    fn executed(self, Executed { decoded, mask, exec, timing, .. }: Executed<'_>) -> bool {
        self.counts.count(decoded, [exec.count_ones(), mask.count_ones()]);
        timing.turns > 0
    }
}

/// What an access to shared memory is, as far as turns go.
const ON_CHIP: Step = Step::DoneAfter { latency: 0, occupancy: 0, turns: 0 };
/// Instructions a split runs before others get their turn.
const TURN: u64 = 4096;
/// The same while the threads are watched: a prime, so that no short loop is always seen at the
/// same place.
const WATCHED_TURN: u64 = 4093;
/// Rounds in which a split used up its turn after which threads are watched first.
const FIRST_WATCH: u64 = 64;

/// How many blocks are resident at a time.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Those that one SM holds.
    pub fits: u32,
    /// Those that the chip holds.
    pub most: u32,
}

/// The result of one observation of the threads.
enum Verdict {
    /// A watch has begun or goes on.
    Undecided,
    /// A watch is over: the threads make progress, or it cannot be decided.
    Over,
    /// No thread can ever make progress: a proof.
    Stuck(Box<Fault>),
}

/// Why a kernel did not complete.
#[derive(Debug)]
pub enum Halt {
    /// A fault.
    Fault(Box<Fault>),
    /// It was stopped from outside.
    Stopped,
    /// It executed as many instructions as it may; the place is a warp that still ran.
    Instructions(Box<Location>),
}

/// Runs kernels without timing, their blocks on the place of one SM or more.
pub struct Functional<P> {
    resident: Resident<P>,
    counts: Vec<KernelCounts>,
    /// The clock less the issues of the kernel that runs: those of earlier kernels, and the time that
    /// threads slept.
    base: Cycle,
    parked: Vec<bool>,
    /// How splits have gone on since others released them, as at a barrier.
    released: Vec<Released>,
    /// Splits that may have a turn.
    splits: Vec<SplitId>,
    queued: Vec<bool>,
    watch: Option<Watch>,
    /// The check against the memory model, if it is asked for.
    observed: Option<Box<observe::Observed>>,
    /// Who is told what threads do, if it is asked for.
    record: Option<Record>,
    /// The lines of global memory that are accessed, if they are asked for.
    touched: Option<Box<Touched>>,
    /// Accesses are noted by either.
    notes: bool,
    /// Of which blocks the lines are noted, if not of all.
    noted: Option<Noted>,
    /// The launches of the kernel that runs.
    launches: Launches,
    going: Going,
    /// The SM whose local memory its threads have.
    local_sm: u32,
    /// The split that runs has looked at an mbarrier object in vain, and leaves the rest of its turn to others.
    yields: bool,
}

/// How far the blocks are.
#[derive(Clone, Copy, Debug, Default)]
struct Going {
    /// The number of the last warp instruction of the kernel that is executed.
    last: u64,
    /// Blocks that run at a time, and may at most.
    room: u32,
    most_room: u32,
    /// Blocks before the range and those of it that have ended, and those that run.
    done: u64,
    live: u32,
    /// Rounds in which a split used up its turn, or many together as much as a turn each; instructions since the last one.
    rounds: u64,
    next_watch: u64,
    spent: u64,
}

/// The blocks of a range whose accesses are noted: the first ones, which tell how many lines blocks access, and the last ones, whose
/// lines fill L2.
#[derive(Clone, Copy, Debug)]
struct Noted {
    /// Where the first ones begin, and how many they are.
    from: u64,
    first: u64,
    /// Where the last ones begin, when that is known.
    last: Option<u64>,
}

/// Blocks of a grid.
#[derive(Clone, Copy, Debug, Default)]
struct Launches {
    /// The next one to begin, in the order of dispatch.
    next: u64,
    /// All of them.
    blocks: u64,
    /// Those that will not run, as threads cancelled their launches.
    cancelled: u64,
}

impl<P: Reconvergence> Functional<P> {
    /// A functional machine with room for `warps` and `blocks`; kernels that need more get it when they run.
    pub fn new(world: Arc<World>, policy: P, warps: usize, blocks: usize) -> Self {
        let splits = warps * P::SPLITS;
        Self {
            resident: Resident::new(0, world, policy, warps, blocks),
            counts: Vec::new(),
            base: 0,
            parked: vec![false; splits],
            released: vec![Released::Not; splits],
            splits: Vec::new(),
            queued: vec![false; splits],
            watch: None,
            observed: None,
            record: None,
            touched: None,
            notes: false,
            noted: None,
            launches: Launches::default(),
            going: Going::default(),
            local_sm: 0,
            yields: false,
        }
    }

    /// Threads of SMs run beside: its own have other local memory than they.
    pub fn run_beside(&mut self, sms: u32) {
        self.local_sm = sms;
    }

    /// Notes the lines that are accessed from now on.
    pub fn touch(&mut self, touched: Option<Box<Touched>>) {
        self.notes |= touched.is_some();
        self.touched = touched;
    }

    /// Notes the lines that the last blocks of a range access, as far as L2 holds them. The range begins with block `from`, and so many
    /// of its first blocks tell from which block on.
    pub fn touch_last(&mut self, touched: Box<Touched>, from: u64, first: u64) {
        self.touch(Some(touched));
        self.noted = Some(Noted { from, first, last: None });
    }

    /// The lines that were accessed.
    pub fn touched_mut(&mut self) -> Option<&mut Touched> {
        self.touched.as_deref_mut()
    }

    /// Takes the lines that were accessed.
    pub fn take_touched(&mut self) -> Option<Box<Touched>> {
        self.touched.take()
    }

    /// Notes the accesses of the last step.
    #[cold]
    #[inline(never)]
    fn note_accesses(&mut self, w: usize) {
        if self.observed.is_some() {
            self.observe_accesses(w);
        }
        let Some(touched) = &mut self.touched else { return };
        for request in self.resident.requests.iter().filter(|request| request.space == StateSpace::Global) {
            let kernel = &self.resident.kernels[self.resident.warps[request.warp].kernel];
            let kind = access_kind(&kernel.code.program.ops[request.pc as usize], false);
            let writes = matches!(kind, Some(AccessKind::Store | AccessKind::Atomic { .. }));
            let written = if writes { request.bytes } else { 0 };
            for lane in Lanes(request.lanes) {
                touched.access(request.addresses[lane as usize], written);
            }
        }
    }

    /// Sets the number of warp slots that `%nwarpid` gives.
    pub fn set_slots(&mut self, slots: usize) {
        self.resident.set_slots(slots);
    }

    /// Values that PTX leaves undefined, as they were counted since this was last asked.
    pub fn take_undefined(&mut self) -> BTreeMap<(u32, Pc), UndefinedReads> {
        std::mem::take(&mut self.resident.undefined)
    }

    /// Counts by grid id.
    pub fn counts(&self) -> &[KernelCounts] {
        &self.counts
    }

    /// Each split that can go on has a turn, no instruction beyond the last one that is executed. True if one could go on,
    /// and if a warp used up its turn.
    ///
    /// Splits of one warp share a turn: those that hand over to each other, as they spin, must not keep others waiting. Nor
    /// must warps that release each other over and over again, so that a round has an end.
    fn round(&mut self, grid: usize) -> Result<(bool, bool), Halt> {
        let whole = if self.watch.is_some() { WATCHED_TURN } else { TURN };
        let end = self.counts[grid].issues() + (self.splits.len() as u64 + 8) * whole;
        let (mut moved, mut whole_turn) = (false, false);
        // The warp whose turn it is, and the instructions that it has issued in it.
        let (mut current, mut spent) = (usize::MAX, 0);
        let mut i = 0;
        while let Some(&split) = self.splits.get(i) {
            if self.parked[split as usize] {
                i += 1;
                continue;
            }
            moved = true;
            let issues = self.counts[grid].issues();
            if issues >= end {
                return Ok((true, true));
            }
            let left = self.going.last.saturating_sub(self.counts[grid].warp_instructions);
            if left == 0 {
                return Err(Halt::Instructions(self.place_of(split)));
            }
            let warp = self.resident.warp_of(split);
            if warp != current {
                (current, spent) = (warp, 0);
            }
            let mut over = self.turn(split, grid, left.min(whole - spent))?;
            spent += self.counts[grid].issues() - issues;
            over |= spent >= whole;
            whole_turn |= over;
            if self.resident.policy.mask(split) == 0 {
                self.queued[split as usize] = false;
                self.splits.swap_remove(i);
                i += usize::from(over);
            } else {
                i += 1;
            }
            if over {
                current = usize::MAX;
            }
            let ended = self.finish_blocks().len();
            self.going.live -= ended as u32;
            self.going.done += ended as u64;
        }
        Ok((moved, whole_turn))
    }

    /// Splits that changed may go on, and new ones get their turns. True if one had waited for others.
    #[inline(always)]
    fn queue_touched(&mut self) -> bool {
        !self.resident.touched.is_empty() && self.queue_each_touched()
    }

    fn queue_each_touched(&mut self) -> bool {
        let mut released = false;
        for &split in &self.resident.touched {
            let index = split as usize;
            if self.resident.waits[split] == 0 {
                if std::mem::take(&mut self.parked[index]) {
                    (self.released[index], released) = (Released::Now, true);
                }
                if !self.queued[index] && self.resident.policy.mask(split) != 0 {
                    self.queued[index] = true;
                    self.splits.push(split);
                }
            }
        }
        released
    }

    /// Whether the threads only go round.
    fn look(&mut self, blocks: u64) -> Verdict {
        let resident = &mut self.resident;
        let changes = resident.changes + blocks;
        let Some(watch) = &mut self.watch else {
            resident.watching = true;
            resident.forget_branches();
            self.watch = Some(Watch::begin(std::iter::once(&*resident), changes, None));
            return Verdict::Undecided;
        };
        match watch.look(&[resident], changes, None) {
            Look::Open => {
                watch.renew(std::iter::once(&mut *resident));
                return Verdict::Undecided;
            }
            Look::Stuck => return Verdict::Stuck(watch.stuck(&[resident], 0)),
            Look::Progress | Look::Suspicious(_) => {}
        }
        resident.watching = false;
        self.watch = None;
        Verdict::Over
    }

    /// True if the split used up its turn, which is of no more than `left` instructions.
    fn turn(&mut self, split: SplitId, grid: usize, left: u64) -> Result<bool, Halt> {
        if self.record.is_some() {
            return self.turn_recorded(split, grid, left);
        }
        self.turn_on_host(split, grid, left)
    }

    /// Tells `record` what threads do.
    pub fn record(&mut self, record: Option<Record>) {
        self.record = record;
    }

    /// [`turn`](Self::turn), instruction by instruction.
    fn turn_recorded(&mut self, split: SplitId, grid: usize, left: u64) -> Result<bool, Halt> {
        let whole = if self.watch.is_some() { WATCHED_TURN } else { TURN };
        for _ in 0..left.min(whole) {
            if let Some(record) = &self.record {
                record::step(record, &self.resident, split);
            }
            if !self.turn_on_host(split, grid, 1)? {
                return Ok(false);
            }
            if self.yields {
                break;
            }
        }
        Ok(true)
    }

    /// The same, by the loop compiled for the host's instruction set.
    fn turn_on_host(&mut self, split: SplitId, grid: usize, left: u64) -> Result<bool, Halt> {
        match self.resident.world.instruction_set {
            InstructionSet::Baseline => self.turn_here(split, grid, left),
            // SAFETY: the set is one that `InstructionSet::available` found on this host, and
            // both sets hold these features.
            #[allow(unsafe_code, reason = "the loop is compiled for the host's bit operations")]
            InstructionSet::Avx2Fma | InstructionSet::Avx512 => unsafe { self.turn_avx2(split, grid, left) },
        }
    }

    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt"))]
    #[allow(unsafe_code, reason = "callers must have the features")]
    unsafe fn turn_avx2(&mut self, split: SplitId, grid: usize, left: u64) -> Result<bool, Halt> {
        self.turn_here(split, grid, left)
    }

    #[inline(always)]
    fn turn_here(&mut self, split: SplitId, grid: usize, left: u64) -> Result<bool, Halt> {
        let w = self.resident.warp_of(split);
        let whole = if self.watch.is_some() { WATCHED_TURN } else { TURN };
        self.yields = false;
        let mut left = left.min(whole);
        while left > 0 {
            if self.resident.policy.mask(split) == 0 {
                return Ok(false);
            }
            // Where others have released the split, its next access ends the turn.
            let words = self.released[split as usize] != Released::Now;
            left -= self.resident.straight(split, w, left, words, &mut self.counts[grid]);
            if left == 0 {
                break;
            }
            left -= 1;
            let pc = self.resident.policy.pc(split);
            let done =
                self.resident.step(split, Counting { counts: &mut self.counts[grid], base: self.base });
            // No `map_err`: it has become a call for each step before.
            let stepped = match done {
                Ok(stepped) => stepped,
                Err(violation) => return Err(Halt::Fault(self.fault(w, pc, &violation))),
            };
            match stepped {
                Stepped::Data(false) => continue,
                Stepped::Arrived(false) => {
                    self.queue_touched();
                    continue;
                }
                Stepped::Data(true) | Stepped::Arrived(true) => {
                    if matches!(stepped, Stepped::Arrived(_)) && self.queue_touched() {
                        self.released[split as usize] = Released::Now;
                    }
                    if self.released[split as usize].may_leave(ON_CHIP)
                        && self.keeps_step(split, w, pc, ON_CHIP)
                    {
                        return Ok(false);
                    }
                    continue;
                }
                Stepped::Other { mask, exec } => {
                    let decoded =
                        &self.resident.kernels[self.resident.warps[w].kernel].code.decoded[pc as usize];
                    let lanes = [exec.count_ones(), mask.count_ones()];
                    self.counts[grid].count_other(decoded, self.resident.outcome == Step::Again, lanes);
                    // Threads that are watched go on for as long as any others: where they stand is what is looked at.
                    self.yields = decoded.class == OpClass::Mbarrier
                        && self.watch.is_none()
                        && self.waited_in_vain(w, pc, exec);
                    if self.observed.is_some() {
                        self.observe_step(w, pc, exec)?;
                    }
                }
            }
            match self.resident.outcome {
                Step::Access => {
                    if self.notes {
                        self.note_accesses(w);
                    }
                    self.perform(w);
                    if !self.resident.jobs.is_empty() {
                        self.do_jobs()?;
                    }
                }
                Step::Parked => self.parked[split as usize] = true,
                // Nothing runs beside a warp that sleeps: the time passes for all.
                Step::Sleep(cycles) => self.base = self.base.wrapping_add(cycles),
                _ => {}
            }
            if !self.resident.outgoing.is_empty() {
                self.exchange()?;
            }
            let released = self.queue_touched();
            if self.parked[split as usize] {
                return Ok(false);
            }
            if self.yields {
                break;
            }
            if released {
                self.released[split as usize] = Released::Now;
            }
            let outcome = self.resident.outcome;
            if self.released[split as usize].may_leave(outcome) && self.keeps_step(split, w, pc, outcome) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The operation on mbarrier objects that these lanes executed is a wait that failed for one of them.
    #[inline(never)]
    fn waited_in_vain(&self, w: usize, pc: Pc, exec: LaneMask) -> bool {
        let warp = &self.resident.warps[w];
        let op = &self.resident.kernels[warp.kernel].code.program.ops[pc as usize];
        let waits = matches!(&op.extra, Extra::Mbarrier(facts)
            if matches!(facts.step, MbarrierStep::TestWait | MbarrierStep::TryWait));
        waits && exec & !guard(op.pdst[0], &warp.preds) != 0
    }

    /// Bulk copies of the last step, at once.
    #[cold]
    #[inline(never)]
    fn do_jobs(&mut self) -> Result<(), Halt> {
        for mut job in std::mem::take(&mut self.resident.jobs) {
            if let Way::Cancel(_) = job.way {
                self.cancel(&job)?;
                continue;
            }
            if let Some(map) = job.awaits.as_ref().map(|awaited| awaited.map) {
                let bytes = self.resident.map_in_memory(map);
                let made = self.resident.map_is_here(&mut job, &bytes);
                made.map_err(|violation| Halt::Fault(job.origin.fault(&violation, 0, 0)))?;
                if let Some(touched) = self.touched.as_mut().filter(|_| self.notes) {
                    touched.access(map, 0);
                }
            }
            if let Some(touched) = self.touched.as_mut().filter(|_| self.notes) {
                let far = job.pieces.iter().filter(|_| !matches!(job.way, Way::Between(_)));
                let written = if matches!(job.way, Way::Store(_)) { job.bytes } else { 0 };
                far.for_each(|piece| touched.access(piece.far, written));
            }
            let origin = job.origin.clone();
            let done = self.resident.do_job(job);
            done.map_err(|violation| Halt::Fault(origin.fault(&violation, 0, 0)))?;
        }
        Ok(())
    }

    /// A request to cancel the launch of a cluster, at once: of the next one.
    fn cancel(&mut self, job: &Job) -> Result<(), Halt> {
        let kernel = &self.resident.kernels[self.resident.warps[job.origin.slot].kernel];
        let mut cancelled = None;
        let Launches { next, blocks, .. } = self.launches;
        if next < blocks {
            let size = u64::from(kernel.cluster_size());
            cancelled = Some(kernel.block_index(kernel.in_order(next)));
            (self.launches.next, self.launches.cancelled) = (next + size, self.launches.cancelled + size);
            self.counts[job.grid_id as usize].cancelled_blocks += size;
        }
        let answered = self.resident.answered(job, cancelled);
        answered.map_err(|violation| Halt::Fault(job.origin.fault(&violation, 0, 0)))
    }

    /// What the last step left for other blocks of the cluster, at once.
    #[cold]
    #[inline(never)]
    fn exchange(&mut self) -> Result<(), Halt> {
        // What is served may send more.
        while !self.resident.outgoing.is_empty() {
            for Packet { grid_id, number, what, .. } in std::mem::take(&mut self.resident.outgoing) {
                match what {
                    What::Arrived { rank, odd } => self.resident.hear_of_cluster(grid_id, number, rank, odd),
                    What::Access(mut access) | What::Answer(mut access) => {
                        let served = self.resident.serve(grid_id, number, &mut access);
                        served.map_err(|violation| Halt::Fault(access.origin.fault(&violation, 0, 0)))?;
                        if access.does == Does::Access {
                            self.resident.accept(&access);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the split, which others have released, leaves the rest of its turn to them ([`Released::leaves`]).
    #[inline(never)]
    fn keeps_step(&mut self, split: SplitId, w: usize, pc: Pc, outcome: Step) -> bool {
        let released = &mut self.released[split as usize];
        // What is recorded is the order that verification begins with.
        if self.watch.is_some() || self.record.is_some() {
            *released = Released::Not;
            return false;
        }
        let op = &self.resident.kernels[self.resident.warps[w].kernel].code.program.ops[pc as usize];
        released.leaves(op, outcome)
    }

    /// Blocks all of whose warps have ended make room.
    fn finish_blocks(&mut self) -> Vec<usize> {
        let mut out = Vec::new();
        while let Some(warp) = self.resident.ended.pop() {
            let state = &mut self.resident.warps[warp];
            state.resident = false;
            let slot = state.block;
            let Some(block) = self.resident.blocks[slot].as_mut() else { continue };
            block.finished_warps += 1;
            if block.finished_warps as usize == block.warps.len() {
                record::ended(self.record.as_ref(), block.warps.first());
                self.resident.blocks[slot] = None;
                out.push(slot);
            }
        }
        out
    }

    fn fault(&self, warp: usize, pc: u32, violation: &Violation) -> Box<Fault> {
        Box::new(Fault {
            kind: violation.kind(),
            rule: violation.rule.to_string(),
            message: violation.reason.clone(),
            place: self.resident.where_is(warp, pc, violation.lanes, 0),
        })
    }

    /// Where a split is.
    #[cold]
    fn place_of(&self, split: SplitId) -> Box<Location> {
        let (warp, policy) = (self.resident.warp_of(split), &self.resident.policy);
        Box::new(self.resident.where_is(warp, policy.pc(split), policy.mask(split), 0))
    }

    fn deadlock(&self) -> Box<Fault> {
        let split = self.splits.first().copied().unwrap_or(0);
        let warp = self.resident.warp_of(split);
        let pc = self.resident.policy.pc(split).saturating_sub(1);
        Box::new(Fault {
            kind: FaultKind::Deadlock,
            rule: "live".into(),
            message: format!(
                "every resident warp is blocked: this warp {}",
                waits_in_words(&self.resident, split)
            ),
            place: self.resident.where_is(warp, pc, self.resident.policy.mask(split), 0),
        })
    }
}
