//! Running a context's grids: timed on the engine, or functionally in launch order (CS §5.7.3 exec).

use sim_memory::line::{LINE_BYTES, line_number, line_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sim_frontend::chip::ChipSpec;
use sim_memory::cache::{Cache, CacheStats};
use sim_memory::dram::DramTimings;
use sim_memory::mapping::Mapping;
use sim_memory::partition::Partition;
use sim_memory::programs::ProgramSet;
use sim_memory::sm_memory::{Asked, SmMemory};
use sim_memory::spec::MemorySpec;
use sim_memory::vocabulary::Cycle;

use super::gather::{add_counts, add_undefined};
use super::sampled::Beside;
use super::{Context, ContextOutput};
use crate::device::Progress;
use crate::engine::{Control, Engine, Saves};
use crate::error::SimError;
use crate::execute::{LocalLatency, World};
use crate::functional::{Functional, Halt, Room};
use crate::grid::Kernel;
use crate::memory_model::Checker;
use crate::monitor::Check;
use crate::options::{Options, Save};
use crate::reconvergence::crs_stack::CrsStack;
use crate::reconvergence::mimd::Mimd;
use crate::reconvergence::pdom_stack::PdomStack;
use crate::reconvergence::registry::Policy;
use crate::reconvergence::table::Table;
use crate::reconvergence::{Reconvergence, WarpSlots};
use crate::sanitizer::Sanitizer;
use crate::sm::Sm;
use crate::sm::profile::Profile;
use crate::sm::recorder::Recorder;
use crate::sm::timeline::Timeline;

impl Context {
    pub(super) fn world(&self) -> Arc<World> {
        let spec = &self.chip.memory;
        Arc::new(World {
            memory: Arc::clone(&self.memory),
            allocations: Arc::clone(&self.allocations),
            textures: Arc::clone(&self.textures),
            latency: LocalLatency {
                shared: spec.shared.latency,
                conflict: spec.shared.conflict_latency,
                turn: spec.shared.turn_interval,
                shared_atomic: spec.shared.atomic_latency,
                atomic_interval: spec.shared.atomic_interval.unwrap_or(spec.shared.atomic_latency),
                constant: spec.constant.hit_latency,
                indexed: spec.constant.indexed_latency.unwrap_or(spec.constant.hit_latency),
                address_interval: spec.constant.address_interval,
                banks: self.chip.limits.shared_mem_banks,
                bank_rule: spec.shared.banks,
            },
            warp_size: self.chip.limits.warp_size,
            barriers: self.chip.limits.num_barrier_indices as usize,
            sms: self.chip.limits.num_processors,
            instruction_set: self.set,
            core_khz: self.chip.clocks().core_khz,
            compute_capability: self.chip.capability(),
            check: match self.options.check {
                Check::Safety if self.options.sanitize.init => Check::Registers,
                check => check,
            },
            undefined: self.options.undefined,
            track_registers: self.options.sanitize.init,
            tensor: self.chip.tensor.as_ref().map(|tensor| tensor.arithmetic),
            schedule_dependent: self.options.schedule_dependent,
        })
    }

    /// Runs all queued grids.
    ///
    /// # Errors
    /// The reason why the run stopped; the report holds the counters up to then.
    pub fn synchronize(&mut self, stop: &AtomicBool, progress: &Progress<'_>) -> Result<(), SimError> {
        self.assertions.clear();
        let result = match &self.options.policy.policy.clone() {
            Policy::CrsStack(parameters) => self.run::<CrsStack>(parameters, stop, progress),
            Policy::PdomStack(parameters) => self.run::<PdomStack>(parameters, stop, progress),
            Policy::Table(policy) => self.run::<Table>(policy, stop, progress),
            Policy::Mimd => self.run::<Mimd>(&(), stop, progress),
        };
        self.collect_output();
        result.map_err(|error| self.explain(error))
    }

    pub(super) fn run<P: Reconvergence>(
        &mut self,
        parameters: &P::Parameters,
        stop: &AtomicBool,
        progress: &Progress<'_>,
    ) -> Result<(), SimError> {
        let queue = std::mem::take(&mut self.queue);
        let mut rest = queue.as_slice();
        if let Some(sampling) = self.options.sampling
            && self.aborts.is_empty()
            && queue.iter().all(|(kernel, _)| kernel.stream == queue[0].0.stream)
        {
            return self.run_sampled::<P>(parameters, &queue, sampling, stop, progress);
        }
        while let Some((_, functional)) = rest.first() {
            let same = rest.iter().take_while(|(_, f)| f == functional).count();
            let (now, later) = rest.split_at(same);
            rest = later;
            if self.passes_over(*functional) {
                continue;
            }
            if *functional {
                self.run_functional::<P>(parameters, now, later, stop)?;
            } else {
                self.run_timed::<P>(parameters, now, stop, progress)?;
            }
        }
        Ok(())
    }

    /// The check of a run against the memory model, and by sanitizers.
    fn check_of(&mut self, kernels: &[(Arc<Kernel>, bool)]) -> Option<Checker> {
        let Options { memory_model, sanitize, .. } = self.options;
        if !memory_model && !sanitize.any() {
            return None;
        }
        let kernels: Vec<_> = kernels.iter().map(|(kernel, _)| Arc::clone(kernel)).collect();
        let sanitizer = sanitize.any().then(|| {
            let mut sanitizer = Sanitizer::new(sanitize, self.chip.capability() < 70, &kernels);
            if let Some(written) = self.written.take() {
                sanitizer.written = written;
            }
            if let Some(heap) = self.heap() {
                sanitizer.written.heap = heap;
            }
            Box::new(sanitizer)
        });
        Some(Checker::new(kernels, memory_model, sanitizer))
    }

    /// A run is over: what was checked.
    fn checked(&mut self, checker: &mut Checker) {
        if checker.checks_axioms() {
            self.report.memory_model.get_or_insert_default().add(checker.checked);
        }
        if let Some(found) = checker.sanitized() {
            match &mut self.report.sanitizers {
                Some(report) => report.add(found),
                report @ None => *report = Some(found),
            }
        }
        self.written = checker.sanitizer.take().map(|sanitizer| sanitizer.written);
    }

    pub(super) fn warps(&self) -> usize {
        (self.chip.limits.max_resident_threads / self.chip.limits.warp_size) as usize
    }

    /// A warp slot description with `count` slots.
    pub(super) fn slots(&self, count: usize) -> WarpSlots {
        let size = self.chip.limits.warp_size;
        WarpSlots { count, lanes: if size >= 32 { u32::MAX } else { (1 << size) - 1 } }
    }

    pub(super) fn run_functional<P: Reconvergence>(
        &mut self,
        parameters: &P::Parameters,
        kernels: &[(Arc<Kernel>, bool)],
        later: &[(Arc<Kernel>, bool)],
        stop: &AtomicBool,
    ) -> Result<(), SimError> {
        // Memory changes past L2.
        self.slices.clear();
        let touched = self.touched();
        let rooms: Vec<Room> = kernels.iter().map(|(kernel, _)| self.room(kernel)).collect();
        // Slots for the blocks that may be resident at once.
        let warps = kernels.iter().zip(&rooms);
        let warps = warps.map(|((kernel, _), room)| (kernel.warps_per_block() * room.most) as usize);
        // At first there are none but those that the first kernel needs.
        let mut machine = Functional::new(self.world(), P::new(parameters, self.slots(0)), 0, 0);
        machine.set_slots(warps.max().unwrap_or(1));
        if let Some(checker) = self.check_of(kernels) {
            machine.observe(checker);
        }
        machine.record(self.options.record.clone());
        machine.touch(touched);
        let mut result = Ok(());
        let mut left = self.instructions_left();
        for (i, (kernel, _)) in kernels.iter().enumerate() {
            let alone = kernels[i..].iter().chain(later).all(|(other, _)| other.stream == kernel.stream);
            let stop = || stop.load(Ordering::Relaxed);
            result = machine.run(kernel, rooms[i], alone, left, &stop).map_err(|halt| self.halted(halt));
            let counts = machine.counts().get(kernel.grid_id as usize);
            left = left.saturating_sub(counts.map_or(0, |counts| counts.warp_instructions));
            if result.is_err() {
                break;
            }
            self.outputs.push(ContextOutput::Completed(kernel.grid_id));
            if let Some(touched) = machine.touched_mut() {
                touched.launch_ends();
            }
        }
        if let Some(checker) = machine.checker() {
            self.checked(checker);
        }
        if let Some(touched) = machine.take_touched() {
            self.warm_by(*touched);
        }
        for (grid, counts) in machine.counts().iter().enumerate() {
            if let Some(report) = self.kernels.get_mut(grid) {
                add_counts(report, counts);
            }
        }
        add_undefined(&mut self.kernels, machine.take_undefined());
        result
    }

    /// Why a functional run did not come to its end.
    pub(super) fn halted(&self, halt: Halt) -> SimError {
        match halt {
            Halt::Fault(fault) => SimError::Stopped(fault),
            Halt::Stopped => SimError::Interrupted,
            Halt::Instructions(place) => SimError::MaxInstructions {
                limit: self.options.max_instructions.unwrap_or(u64::MAX),
                place: Some(place),
                suspicion: None,
            },
        }
    }

    /// The number of warp instructions that may still be executed under `--max-instructions`.
    pub(super) fn instructions_left(&self) -> u64 {
        let now: u64 = self.kernels.iter().map(|kernel| kernel.warp_instructions).sum();
        let done = self.taken.1 + now;
        self.options.max_instructions.unwrap_or(u64::MAX).saturating_sub(done)
    }

    /// The recorder of an SM, if a profile or a timeline of it is requested.
    fn recorder(&self, sm: u32, splits_per_warp: u32) -> Option<Box<Recorder>> {
        let profile = self.options.profile.then(|| Profile::new(splits_per_warp));
        let options = self.options.timeline.as_ref();
        let timeline = options.map(|asked| Timeline::new(asked, sm, splits_per_warp, self.report.cycles));
        (profile.is_some() || timeline.is_some()).then(|| Box::new(Recorder { profile, timeline }))
    }

    pub(super) fn run_timed<P: Reconvergence>(
        &mut self,
        parameters: &P::Parameters,
        kernels: &[(Arc<Kernel>, bool)],
        stop: &AtomicBool,
        progress: &Progress<'_>,
    ) -> Result<(), SimError> {
        let mut engine = self.engine::<P>(parameters, kernels)?;
        if !self.take_over(&mut engine, parameters, kernels)? {
            for (kernel, _) in kernels {
                engine.launch(Arc::clone(kernel));
            }
        }
        if let Some(checker) = self.check_of(kernels) {
            engine.observe(checker);
        }
        for (grid, at) in self.aborts.drain(..) {
            engine.abort(grid, at);
            self.kernels[grid as usize].aborted = true;
        }
        // The engine's clock begins at 0.
        let before = self.report.cycles + self.report.launch_cycles;
        let all_before = self.taken.0 + before;
        if let Some(sampling) = self.options.sampling {
            engine.sample_blocks(sampling);
        }
        let mut beside: Option<Box<Beside<P>>> = None;
        let mut result = loop {
            // What was left out of the timing counts too.
            let instructions = beside.as_ref().map_or(0, |beside| beside.instructions());
            let cycles = all_before + engine.left_out_of_all();
            let split = self.split(kernels);
            let saves = self.options.save.clone();
            let save = |cycle: Cycle, state: &mut dyn FnMut() -> std::io::Result<Vec<u8>>| {
                let Some(Save { write, .. }) = &saves else { return };
                let saved = self.linked::<P, _>(parameters, kernels, &split, || self.saved(cycle, state()?));
                write(saved);
            };
            let control = Control {
                stop,
                max_cycles: self.options.max_cycles.map(|most| most.saturating_sub(cycles)),
                max_instructions: self
                    .options
                    .max_instructions
                    .map(|_| self.instructions_left().saturating_sub(instructions)),
                progress,
                threads: self.options.threads,
                epoch: self.options.epoch,
                sample: self.options.sample.map(|every| (every, before)),
                save: saves.as_ref().map(|saves| (saves.every, &save as &Saves<'_>)),
                delay: self.options.delay.as_ref().map(|delay| &*delay.0 as &(dyn Fn(usize) + Sync)),
            };
            match engine.run(&control) {
                Ok(None) => break Ok(()),
                Ok(Some(pause)) => {
                    let executed = self.execute_beside(&mut engine, &mut beside, parameters, &pause, stop);
                    if let Err(error) = executed {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        // The engine knows what was left of them.
        match &mut result {
            Err(SimError::MaxInstructions { limit, .. }) => {
                *limit = self.options.max_instructions.unwrap_or(*limit);
            }
            Err(SimError::MaxCycles { limit, .. }) => *limit = self.options.max_cycles.unwrap_or(*limit),
            _ => {}
        }
        if result.is_ok() && self.options.check == Check::Full {
            result = check_conservation(&mut engine);
        }
        for &grid in engine.completed() {
            self.kernels[grid as usize].aborted = false;
            self.outputs.push(ContextOutput::Completed(grid));
        }
        if let Some(checker) = engine.checker() {
            self.checked(checker);
        }
        self.gather(&mut engine, result.is_ok());
        if let Some(beside) = &mut beside {
            self.gather_beside(&engine, beside);
        }
        self.runs += 1;
        if result.is_ok() {
            self.slices = engine.partitions().map(Partition::take_l2).collect();
            self.idle = Some(engine);
        }
        result
    }

    /// The chip, its L1 split for kernels: L1 keeps what the blocks that can be resident leave of the array it shares.
    pub(super) fn split(&mut self, kernels: &[(Arc<Kernel>, bool)]) -> (Arc<ChipSpec>, Arc<MemorySpec>) {
        let chip = &self.chip;
        let shared = kernels.iter().map(|(kernel, _)| {
            let threads = kernel.block.iter().product();
            let registers = kernel.code.program.registers_per_thread;
            let needs = chip.block_needs(threads, registers, kernel.shared_bytes);
            // A grid of few blocks does not fill an SM.
            let most = match kernel.cluster_size() {
                1 => kernel.blocks().div_ceil(chip.limits.num_processors.into()),
                // Blocks of a cluster may have to share SMs.
                size => kernel.blocks().min(size.into()),
            };
            chip.occupancy(needs).0.min(u32::try_from(most).unwrap_or(u32::MAX)) * needs.shared
        });
        let shared = shared.max().unwrap_or(0);
        let carveout = chip.memory.unified.as_ref().map_or(0, |unified| unified.carveout(shared));
        if let Some((_, chip, spec)) = self.splits.iter().find(|(own, ..)| *own == carveout) {
            return (Arc::clone(chip), Arc::clone(spec));
        }
        let mut split = ChipSpec::clone(chip);
        split.memory.split(shared);
        let spec = Arc::new(split.memory.clone());
        let split = Arc::new(split);
        self.splits.push((carveout, Arc::clone(&split), Arc::clone(&spec)));
        (split, spec)
    }

    /// An engine at rest at cycle 0: that of the last run, its components reset, or a new one. What persists between
    /// runs on the device is its memory and the contents of L2.
    fn engine<P: Reconvergence>(
        &mut self,
        parameters: &P::Parameters,
        kernels: &[(Arc<Kernel>, bool)],
    ) -> Result<Box<Engine<P>>, SimError> {
        let world = self.world();
        let (chip, spec) = self.split(kernels);
        let (programs, timings) = self.tables()?;
        let slots = self.slots(self.warps());
        let slices = self.slices_after_copies(&spec);
        let mut engine = match self.idle.take().and_then(|idle| idle.downcast::<Engine<P>>().ok()) {
            Some(mut engine) => {
                let mut slices: Vec<Option<Cache>> = slices.into_iter().map(Some).collect();
                engine.reset(
                    chip,
                    |sm| sm.reset(&world, &spec, || P::new(parameters, slots)),
                    |i, partition| {
                        let slice = slices.get_mut(i).and_then(Option::take);
                        partition.reset(&spec, slice.unwrap_or_else(Cache::hollow));
                    },
                );
                engine
            }
            None => {
                let sms = (0..chip.limits.num_processors).map(|i| {
                    let memory = SmMemory::new(Arc::clone(&spec), Arc::clone(&programs), i);
                    let policy = P::new(parameters, slots);
                    Sm::new(i, &chip, Arc::clone(&world), memory, policy, self.options.scheduler)
                });
                let partitions = (0..).zip(slices).map(|(index, l2)| {
                    Partition::new(
                        index,
                        Arc::clone(&spec),
                        chip.clocks(),
                        Arc::clone(&programs),
                        Arc::clone(&timings),
                        Arc::clone(&self.memory),
                        l2,
                    )
                });
                let (sms, partitions) = (sms.collect(), partitions.collect());
                Box::new(Engine::new(chip, sms, partitions))
            }
        };
        if self.options.profile || self.options.timeline.is_some() {
            for sm in engine.sms() {
                sm.recorder = self.recorder(sm.index, P::SPLITS as u32);
                sm.memory.asked = self.options.profile.then(Asked::default);
            }
        }
        Ok(engine)
    }

    /// The chip's memory programs and DRAM timing, built at the first use.
    fn tables(&mut self) -> Result<(Arc<ProgramSet>, Arc<DramTimings>), SimError> {
        if let Some(tables) = &self.tables {
            return Ok(tables.clone());
        }
        let spec = &self.chip.memory;
        let programs = ProgramSet::for_chip(spec.protocol, &spec.programs, self.chip.capability())
            .map_err(|e| SimError::input("memory-program", e.to_string()))?;
        let timings =
            DramTimings::of(&spec.dram).map_err(|e| SimError::input("chip", format!("memory.dram: {e}")))?;
        let tables = (Arc::new(programs), Arc::new(timings));
        Ok(self.tables.insert(tables).clone())
    }

    /// The L2 slices with their contents from earlier runs, after the host's copies to the device since then:
    /// copied bytes are inserted into L2, or dropped from it if the chip's copies bypass L2.
    pub(super) fn slices_after_copies(&mut self, spec: &MemorySpec) -> Vec<Cache> {
        let mut slices = std::mem::take(&mut self.slices);
        let new = slices.is_empty();
        slices.resize_with(spec.partitions as usize, || Cache::new(&spec.l2));
        let mapping = Mapping::new(spec);
        // What is followed by twice as much as L2 holds is not there any more.
        let lasts = if spec.copies_fill_l2 { 2 * self.chip.limits.level2_cache_size } else { 0 };
        let mut after: u64 = self.copies.iter().map(|(_, bytes)| *bytes).sum();
        let copies = std::mem::take(&mut self.copies);
        let warm = self.warming.as_mut().map(|warming| std::mem::take(&mut warming.runs)).unwrap_or_default();
        let mut warm = warm.into_iter().peekable();
        for (number, (address, bytes)) in copies.into_iter().enumerate() {
            while let Some((_, touched)) = warm.next_if(|(copies, _)| *copies <= number) {
                self.leave(&touched, &mapping, &mut slices);
            }
            let past = after.saturating_sub(lasts).min(bytes);
            after -= bytes;
            let stays = line_of(address + past);
            for line in (line_of(address)..address + bytes).step_by(LINE_BYTES as usize) {
                if new && line < stays {
                    continue;
                }
                let (partition, local) = mapping.place(line);
                let slice = &mut slices[partition as usize];
                let set = slice.set_of(line_number(local));
                if line < stays || !spec.copies_fill_l2 {
                    slice.forget(set, line);
                } else {
                    let mut data = [0; LINE_BYTES as usize];
                    self.memory.read_line(line, u128::MAX, &mut data);
                    slice.fill(set, line, &data);
                }
            }
        }
        warm.for_each(|(_, touched)| self.leave(&touched, &mapping, &mut slices));
        slices.iter_mut().for_each(|slice| slice.stats = CacheStats::default());
        slices
    }
}

/// Checks conservation at the end of a run: nothing is in flight, pinned or held.
fn check_conservation<P: Reconvergence>(engine: &mut Engine<P>) -> Result<(), SimError> {
    let mut leaks = Vec::new();
    for sm in engine.sms() {
        if !sm.memory.idle() || sm.has_blocks() {
            leaks.push(format!("SM {} is not idle", sm.index));
        }
        leaks.extend(sm.memory.check_idle().err().map(|e| format!("SM {}: {e}", sm.index)));
    }
    for (i, partition) in engine.partitions().enumerate() {
        leaks.extend(partition.check_idle().err().map(|e| format!("partition {i}: {e}")));
    }
    // Each request arrived once, and was answered once where somebody waits.
    let sent: u64 = engine.sms().map(|sm| sm.memory.stats().requests).sum();
    let stats: Vec<_> = engine.partitions().map(|partition| partition.stats()).collect();
    let arrived: u64 = stats.iter().map(|s| s.requests).sum();
    let answered: u64 = stats.iter().map(|s| s.replies + s.write_backs).sum();
    if sent != arrived || arrived != answered {
        leaks.push(format!(
            "{sent} requests were sent, {arrived} arrived, {answered} were answered or wanted no answer"
        ));
    }
    match leaks.first() {
        None => Ok(()),
        Some(leak) => Err(SimError::Stopped(Box::new(crate::error::Fault {
            kind: crate::error::FaultKind::CheckViolation,
            rule: "conservation".into(),
            message: leak.clone(),
            place: crate::error::Location {
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
                cycle: engine.now(),
            },
        }))),
    }
}
