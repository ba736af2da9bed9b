//! The engine runs SMs, partitions and the dispatcher in epochs that are no longer than the shortest latency
//! of any channel between them, so that no message sent in an epoch arrives in it. Messages take effect in
//! the order (cycle, source, sequence), so the report is the same for any number of threads and any epoch
//! length.

mod dispatcher;
#[cfg_attr(test, allow(clippy::duplicate_mod, reason = "the model checker has them too"))]
mod exchange;
#[cfg_attr(test, allow(clippy::duplicate_mod, reason = "the model checker has them too"))]
mod gate;
mod lookout;
#[cfg(test)]
mod model;
mod pace;
mod primitives;
pub mod samples;
mod saved;
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sim_frontend::chip::ChipSpec;
use sim_memory::observation::Event;
use sim_memory::partition::Partition;
use sim_memory::vocabulary::Cycle;

use crate::error::{Fault, FaultKind, Location, SimError};
use crate::grid::Kernel;
use crate::memory_model::{self, Checker, SourceLog};
use crate::reconvergence::Reconvergence;
use crate::sampling::Sampling;
use crate::sampling::blocks::{L2Use, LeftOut, Skip, Windows};
use crate::sm::Sm;

use dispatcher::Dispatcher;
pub use dispatcher::KernelTimes;
use lookout::Lookout;
use samples::{Counters, Sampler, Samples};
use workers::{Team, Turn, Worker};

/// What is called at every so many core cycles, with the cycle and with what gives the state.
pub type Saves<'s> = dyn Fn(Cycle, &mut dyn FnMut() -> std::io::Result<Vec<u8>>) + 's;

/// Limits and observers of a run.
pub struct Control<'c> {
    /// Set by the caller to stop the run.
    pub stop: &'c AtomicBool,
    /// Stop after this many core cycles.
    pub max_cycles: Option<Cycle>,
    /// Stop after this many warp instructions.
    pub max_instructions: Option<u64>,
    /// Called from time to time with the cycle, completed blocks and total blocks.
    pub progress: &'c (dyn Fn(Cycle, u64, u64) + Sync),
    /// Number of worker threads.
    pub threads: usize,
    /// Epoch length in cycles, at most the shortest channel latency, which is the default.
    pub epoch: Option<Cycle>,
    /// Core cycles between two samples, and core cycles that passed before this engine started.
    pub sample: Option<(Cycle, Cycle)>,
    /// Core cycles from one state that is saved to the next, and who saves it.
    pub save: Option<(Cycle, &'c Saves<'c>)>,
    /// Delays workers, for tests: called with the worker's number before each step of an epoch.
    pub delay: Option<&'c (dyn Fn(usize) + Sync)>,
}

/// An engine stands still, for blocks of a kernel to be executed without timing.
pub struct Pause {
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// The blocks.
    pub skip: Skip,
    /// Nothing runs, or ever changes, that they could wait for.
    pub rests: bool,
}

/// The components of a device and their synchronisation.
pub struct Engine<P> {
    /// All SMs and partitions, divided among the workers.
    workers: Vec<Worker<P>>,
    dispatcher: Dispatcher,
    lookahead: Cycle,
    now: Cycle,
    lookout: Lookout,
    /// The cycle of the next instruction count, if instructions are limited.
    next_count: Cycle,
    sampler: Option<Sampler>,
    /// The cycle at which the state was saved last, and the one at which it is saved next.
    saved_at: Cycle,
    next_save: Cycle,
    /// The state is one that was saved, and nothing has happened since.
    restored: bool,
    /// The check against the memory model, if it is asked for.
    checker: Option<Box<Checker>>,
}

/// Minimum number of cycles between two instruction counts.
const COUNT_AT_LEAST: Cycle = 64;

impl<P: Reconvergence> Engine<P> {
    /// An engine for SMs and partitions.
    pub fn new(chip: Arc<ChipSpec>, sms: Vec<Sm<P>>, partitions: Vec<Partition>) -> Self {
        let lookahead = Cycle::from(
            chip.memory
                .interconnect
                .latency
                .min(chip.dispatch.latency)
                .min(chip.dispatch.done_latency)
                .min(chip.cluster.as_ref().map_or(u32::MAX, |spec| spec.hop(chip.memory.shared.latency))),
        );
        let done_latency = Cycle::from(chip.dispatch.done_latency);
        let dispatcher = Dispatcher::new(chip, sms.len());
        let workers = vec![Worker::new(sms, partitions, done_latency)];
        Self {
            workers,
            dispatcher,
            lookahead,
            now: 0,
            lookout: Lookout::new(),
            next_count: Cycle::MAX,
            sampler: None,
            saved_at: 0,
            next_save: Cycle::MAX,
            restored: false,
            checker: None,
        }
    }

    /// Makes an engine whose kernels have all completed what [`new`](Self::new) makes, for a chip that differs at most
    /// in how it splits L1 and shared memory.
    pub fn reset(
        &mut self,
        chip: Arc<ChipSpec>,
        reset_sm: impl FnMut(&mut Sm<P>),
        reset_partition: impl FnMut(usize, &mut Partition),
    ) {
        let sms = self.sms().count();
        let Self {
            workers,
            dispatcher,
            lookahead: _,
            now,
            lookout,
            next_count,
            sampler,
            saved_at,
            next_save,
            restored,
            checker,
        } = self;
        *dispatcher = Dispatcher::new(chip, sms);
        (*now, *lookout, *next_count) = (0, Lookout::new(), Cycle::MAX);
        (*saved_at, *next_save, *restored) = (0, Cycle::MAX, false);
        (*sampler, *checker) = (None, None);
        workers::reset(workers, reset_sm, reset_partition);
    }

    /// Checks the run of kernels against the memory model, or by sanitizers.
    pub fn observe(&mut self, checker: Checker) {
        let on_chip = checker.sanitizer.is_some();
        let follows = checker.follows_stores();
        self.sms().for_each(|sm| sm.observe(on_chip, follows));
        if follows {
            self.partitions().for_each(Partition::observe);
        }
        self.checker = Some(Box::new(checker));
    }

    /// The check, at the end.
    pub fn checker(&mut self) -> Option<&mut Checker> {
        self.checker.as_deref_mut()
    }

    /// Visits what the components have logged: the SMs, then the partitions, in the order of their indices.
    fn for_each_log(&mut self, mut visit: impl FnMut(Option<u32>, &mut Vec<(Cycle, Event)>)) {
        for sm in self.sms() {
            if let Some(observation) = &mut sm.memory.observation {
                visit(Some(sm.index), &mut observation.log.events);
            }
        }
        for partition in self.partitions() {
            if let Some(observation) = &mut partition.observation {
                visit(None, &mut observation.log.events);
            }
        }
    }

    /// Hands what the components have logged to the check.
    fn check_memory(&mut self) -> Result<(), SimError> {
        let Some(mut checker) = self.checker.take() else { return Ok(()) };
        let mut logs: Vec<SourceLog> = Vec::new();
        self.for_each_log(|sm, events| logs.push((sm, std::mem::take(events))));
        let result = checker.process(&logs);
        // Their room is used again.
        let mut room = logs.into_iter().map(|log| log.1);
        self.for_each_log(|_, events| {
            *events = room.next().unwrap_or_default();
            events.clear();
        });
        checker.next += memory_model::EVERY;
        self.checker = Some(checker);
        result.map_err(SimError::Stopped)
    }

    /// What L2 holds.
    fn l2_use(&mut self) -> L2Use {
        let mut sum = L2Use::default();
        for partition in self.partitions() {
            let (used, dirty) = partition.l2().used();
            for (sum, own) in sum.used.iter_mut().zip(used).chain(sum.dirty.iter_mut().zip(dirty)) {
                *sum += own;
            }
        }
        sum
    }

    /// Samples the kernels.
    pub fn sample_blocks(&mut self, sampling: Sampling) {
        self.dispatcher.windows = Some(Box::new(Windows::new(sampling, self.lookahead)));
    }

    /// The pause in which blocks are executed without timing, if any are, where everything stands at one cycle.
    fn pause(&mut self) -> Option<Pause> {
        let windows = self.dispatcher.windows.as_mut()?;
        let (waiting, rests) = (windows.take_due(), windows.take_rest());
        let l2 = self.l2_use();
        let skip = waiting.or_else(|| self.dispatcher.leave_blocks_out(l2))?;
        let kernel = self.dispatcher.kernel(skip.grid)?;
        Some(Pause { kernel, skip, rests })
    }

    /// The blocks of a pause have been executed, with so many instructions.
    pub fn executed(&mut self, pause: &Pause, instructions: u64) {
        self.dispatcher.executed(&pause.skip, instructions);
    }

    /// The blocks of a pause wait for others: there is another pause after some time.
    pub fn wait(&mut self, pause: &Pause) {
        if let Some(windows) = &mut self.dispatcher.windows {
            windows.wait(pause.skip);
        }
    }

    /// What was left out of the timing of a grid.
    pub fn left_out(&self, grid: usize) -> LeftOut {
        self.dispatcher.windows.as_ref().map_or_else(LeftOut::default, |windows| windows.left_out(grid))
    }

    /// Estimate of the cycles that were left out of all grids.
    pub fn left_out_of_all(&self) -> Cycle {
        self.dispatcher.windows.as_ref().map_or(0, |windows| windows.cycles())
    }

    /// Queues a kernel after the others of its stream.
    pub fn launch(&mut self, kernel: Arc<Kernel>) {
        self.dispatcher.launch(kernel, self.now);
    }

    /// Aborts a grid at cycle `at`.
    pub fn abort(&mut self, grid: u32, at: Cycle) {
        self.dispatcher.abort(grid, at);
    }

    /// Grids whose blocks have all completed, in the order of completion.
    pub fn completed(&self) -> &[u32] {
        &self.dispatcher.completed
    }

    /// Runs until all kernels have completed [ctx-exec], or blocks are to be executed without timing.
    ///
    /// # Errors
    /// The fault with the lowest cycle, a deadlock, the cycle limit, or a stop by the caller.
    pub fn run(&mut self, control: &Control<'_>) -> Result<Option<Pause>, SimError> {
        let parts = self.sms().count() + self.partitions().count();
        let threads = control.threads.clamp(1, parts.max(1));
        let lookahead = control.epoch.map_or(self.lookahead, |epoch| epoch.clamp(1, self.lookahead));
        workers::deal(&mut self.workers, threads);
        self.next_save = control.save.map_or(Cycle::MAX, |(every, _)| self.next_save_after(every));
        // The count that was due when the state was saved is due now.
        let restored = std::mem::take(&mut self.restored);
        self.next_count = match control.max_instructions {
            Some(_) if restored => self.next_count,
            Some(most) => {
                let left = most.saturating_sub(self.instructions());
                self.count_after(self.now, left)
            }
            None => Cycle::MAX,
        };
        self.sampler = control.sample.map(|(every, base)| Sampler::new(every, base));
        let mut epochs = 0;
        let result = loop {
            match self.run_on(control, lookahead, &mut epochs) {
                Ok(Turn::Look) if self.saves_before_look() => {
                    if let Some((every, save)) = control.save {
                        self.saved_at = self.next_save;
                        self.next_save = self.next_save_after(every);
                        save(self.saved_at, &mut || self.save());
                    }
                }
                Ok(Turn::Look) if self.pauses_before_look() => {
                    if !self.partitions().all(|partition| partition.settled()) {
                        // An atomic waits between its operation and its write.
                        self.dispatcher.windows.iter_mut().for_each(|windows| windows.later());
                    } else if let Some(pause) = self.pause() {
                        return Ok(Some(pause));
                    }
                }
                Ok(Turn::Look) if self.checks_memory_before_look() => {
                    if let Err(fault) = self.check_memory() {
                        break Err(fault);
                    }
                }
                Ok(Turn::Look) if self.counts_before_look() => {
                    let (most, at) = (control.max_instructions.unwrap_or(u64::MAX), self.next_count);
                    let Some(left) = most.checked_sub(self.instructions()) else {
                        self.now = at;
                        break Err(SimError::MaxInstructions { limit: most, place: None, suspicion: None });
                    };
                    self.next_count = self.count_after(at, left);
                }
                Ok(Turn::Look) => {
                    if self.samples_before_look() {
                        self.sample();
                    } else if let Some(fault) = self.look() {
                        break Err(SimError::Stopped(fault));
                    }
                }
                other => break other,
            }
        };
        let result = match result {
            Ok(turn) => self.check_memory().map(|()| turn),
            // What is checked comes before what stopped the run.
            Err(error) => Err(self.check_memory().err().unwrap_or(error)),
        };
        if matches!(result, Ok(Turn::Over))
            && let Some(windows) = self.dispatcher.windows.as_mut().filter(|windows| windows.waits())
        {
            windows.rest();
            return Ok(self.pause());
        }
        match result {
            Ok(_) if self.dispatcher.idle() => Ok(None),
            Ok(_) => Err(self.deadlock()),
            Err(SimError::MaxCycles { limit, .. }) => {
                let place = self.anyone().map(|(place, _)| Box::new(place));
                Err(SimError::MaxCycles { limit, place, suspicion: self.lookout.suspicion.take() })
            }
            Err(SimError::MaxInstructions { limit, .. }) => {
                let place = self.anyone().map(|(place, _)| Box::new(place));
                Err(SimError::MaxInstructions { limit, place, suspicion: self.lookout.suspicion.take() })
            }
            Err(error) => Err(error),
        }
    }

    /// Number of warp instructions issued so far.
    pub fn instructions(&mut self) -> u64 {
        self.sms().flat_map(|sm| &sm.stats.kernels).map(|counts| counts.warp_instructions).sum()
    }

    /// The cycle of the next sample, if any is due.
    fn next_sample(&self) -> Cycle {
        self.sampler.as_ref().map_or(Cycle::MAX, |sampler| sampler.next)
    }

    /// The cycle of the next check against the memory model, if any is due.
    fn next_check(&self) -> Cycle {
        self.checker.as_ref().map_or(Cycle::MAX, |checker| checker.next)
    }

    /// The first multiple of `every` cycles after the last state that was saved.
    fn next_save_after(&self, every: Cycle) -> Cycle {
        (self.saved_at.max(self.now) / every.max(1) + 1).saturating_mul(every.max(1))
    }

    /// True if the state is to be saved before anything else.
    fn saves_before_look(&self) -> bool {
        let others = self.lookout.next.min(self.next_sample()).min(self.next_check()).min(self.next_count);
        self.next_save <= others.min(self.dispatcher.pause())
    }

    /// True if blocks are to be executed without timing before anything else.
    fn pauses_before_look(&self) -> bool {
        self.dispatcher.pause() <= self.lookout.next.min(self.next_sample()).min(self.next_count)
    }

    /// True if a check against the memory model is due before anything else.
    fn checks_memory_before_look(&self) -> bool {
        let others = self.lookout.next.min(self.next_sample()).min(self.next_count);
        self.checker.is_some() && self.next_check() <= others
    }

    /// True if an instruction count is due before a liveness check or sample.
    fn counts_before_look(&self) -> bool {
        self.next_count <= self.lookout.next.min(self.next_sample())
    }

    /// The cycle of the next count, chosen so that the limit of `left` more instructions is detected soon
    /// after it is exceeded. It does not depend on the division of the run into epochs.
    fn count_after(&mut self, now: Cycle, left: u64) -> Cycle {
        let most = self.sms().map(|sm| sm.issues_per_cycle()).sum::<u64>().max(1);
        now.saturating_add((left / most).max(COUNT_AT_LEAST))
    }

    /// Runs epochs until a liveness check, sample or count is due, or the run is over.
    fn run_on(
        &mut self,
        control: &Control<'_>,
        lookahead: Cycle,
        epochs: &mut u64,
    ) -> Result<Turn, SimError> {
        let observed = self.next_sample().min(self.next_check());
        let Self { workers, dispatcher, now, lookout, next_count, next_save, .. } = self;
        let look = lookout.next.min(*next_count).min(observed).min(*next_save);
        let mut turn = |next: Option<Cycle>, dispatcher: &mut Dispatcher, now: &mut Cycle| {
            let look = look.min(dispatcher.pause());
            let next = [next, dispatcher.next_action()].into_iter().flatten().min();
            let Some(begin) = next else { return Ok(Turn::Over) };
            if let Some(limit) = control.max_cycles
                && begin >= limit
            {
                *now = limit;
                return Err(SimError::MaxCycles { limit, place: None, suspicion: None });
            }
            if begin >= look {
                return Ok(Turn::Look);
            }
            *epochs += 1;
            if epochs.is_multiple_of(256) {
                if control.stop.load(Ordering::Relaxed) {
                    return Err(SimError::Interrupted);
                }
                (control.progress)(begin, dispatcher.blocks_done, dispatcher.blocks_total);
            }
            let end = (begin + lookahead).min(control.max_cycles.unwrap_or(Cycle::MAX)).min(look);
            *now = begin;
            dispatcher.act_before(end);
            *now = end;
            Ok(Turn::Until(end))
        };
        let first = workers.iter_mut().filter_map(Worker::next_event).min();
        let result = turn(first, dispatcher, now);
        if let (Ok(Turn::Until(end)), [worker]) = (&result, workers.as_mut_slice()) {
            // One thread needs no gate and no locks.
            let mut end = *end;
            loop {
                worker.deliver_own(&mut dispatcher.outbox);
                if let Some(fault) = worker.run(end) {
                    break Err(SimError::Stopped(fault));
                }
                let next = worker.post(&mut dispatcher.inbox);
                match turn(next, dispatcher, now) {
                    Ok(Turn::Until(next)) => end = next,
                    other => break other,
                }
            }
        } else if let Ok(Turn::Until(end)) = result {
            let team = Team::new(workers, control.delay);
            team.run(end, dispatcher, |next, dispatcher| turn(next, dispatcher, now))
        } else {
            result
        }
    }

    /// The fault for a state in which no event is left but blocks are.
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
                message: "no SM has the resources for the pending blocks".into(),
                place: Location {
                    kernel: "".into(),
                    block: [0; 3],
                    thread: [0; 3],
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

    fn anyone(&mut self) -> Option<(Location, String)> {
        self.sms().find_map(|sm| sm.first_waiting().map(|(_, place, why)| (place, why)))
    }

    /// The SMs, in the order of their indices.
    pub fn sms(&mut self) -> impl Iterator<Item = &mut Sm<P>> {
        let mut all: Vec<_> = self.workers.iter_mut().flat_map(Worker::sms).collect();
        all.sort_unstable_by_key(|sm| sm.index);
        all.into_iter()
    }

    /// The partitions, in the order of their indices.
    pub fn partitions(&mut self) -> impl Iterator<Item = &mut Partition> {
        let mut all: Vec<_> = self.workers.iter_mut().flat_map(Worker::partitions).collect();
        all.sort_unstable_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, partition)| partition)
    }

    /// Start and end of the kernels, by grid id.
    pub fn times(&self) -> &[KernelTimes] {
        &self.dispatcher.times
    }

    /// Cycles, summed over SMs, for which SMs with room for a block have waited for the interval between blocks.
    pub fn dispatch_waits(&self) -> Cycle {
        self.dispatcher.waited
    }

    /// The cycle up to which all events have been processed.
    pub fn now(&self) -> Cycle {
        self.now
    }

    /// Number of completed blocks and of all blocks.
    pub fn blocks(&self) -> (u64, u64) {
        (self.dispatcher.blocks_done, self.dispatcher.blocks_total)
    }

    /// True if a sample is due before a liveness check.
    fn samples_before_look(&self) -> bool {
        self.sampler.as_ref().is_some_and(|sampler| sampler.next <= self.lookout.next)
    }

    /// Takes the sample that is due now.
    fn sample(&mut self) {
        if let Some(mut sampler) = self.sampler.take() {
            let now = self.counters(sampler.next);
            sampler.take_due(now);
            self.sampler = Some(sampler);
        }
    }

    /// Takes the samples of a run that ended at `end`.
    pub fn take_samples(&mut self, end: Cycle) -> Option<Samples> {
        let sampler = self.sampler.take()?;
        let now = self.counters(sampler.last(end));
        let slots = self.sms().map(|sm| sm.schedulers()).sum::<usize>() as u64;
        Some(sampler.finish(end, now, slots))
    }

    /// Sums of all components' counters up to `at`, before which all events have been processed.
    fn counters(&mut self, at: Cycle) -> Counters {
        let mut out = Counters::default();
        self.sms().for_each(|sm| out.add_sm(sm, at));
        self.partitions().for_each(|partition| out.add_partition(partition));
        out
    }
}
