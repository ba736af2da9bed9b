//! The device: what the host sees. Modules are loaded, memory is allocated and copied, kernels
//! are launched and run; a report says what happened (CS §5.8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::load::Module;
use sim_frontend::program::{OpClass, Program};
use sim_memory::address_space::{Allocations, CONST_BASE};
use sim_memory::device_memory::DeviceMemory;
use sim_memory::partition::Partition;
use sim_memory::programs::ProgramSet;
use sim_memory::sm_memory::SmMemory;
use sim_memory::vocabulary::{Cycle, StateSpace};

use crate::context::{EntryInfo, Launch, LoadedModule};
use crate::engine::{Control, Engine};
use crate::error::SimError;
use crate::execute::{LocalLatency, World};
use crate::functional::Functional;
use crate::grid::{Code, Kernel};
use crate::lanes::InstructionSet;
use crate::monitor::Check;
use crate::reconvergence::Reconvergence;
use crate::reconvergence::crs_stack::CrsStack;
use crate::reconvergence::mimd::Mimd;
use crate::reconvergence::registry::PolicyChoice;
use crate::report::{DeviceReport, KernelReport};
use crate::sm::scheduler::WarpScheduler;
use crate::sm::stats::{KernelCounts, SmStats};
use crate::sm::{Sm, stall_table};

/// How a device runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Reconvergence policy.
    pub policy: PolicyChoice,
    /// Warp scheduler.
    pub scheduler: WarpScheduler,
    /// Worker threads.
    pub threads: usize,
    /// What is checked.
    pub check: Check,
    /// Core cycles after which to stop.
    pub max_cycles: Option<Cycle>,
    /// Run instructions the chip lacks.
    pub allow_newer_isa: bool,
    /// The workload's results may depend on the schedule.
    pub schedule_dependent: bool,
    /// Lane code; `None` chooses the best for this host.
    pub instruction_set: Option<InstructionSet>,
}

/// Told now and then: cycle, blocks done, blocks in all.
pub type Progress<'p> = dyn Fn(Cycle, u64, u64) + Sync + 'p;

/// A simulated device with its only context.
pub struct Device {
    chip: Arc<ChipSpec>,
    costs: Arc<IsaCosts>,
    options: Options,
    set: InstructionSet,
    memory: Arc<DeviceMemory>,
    allocations: Allocations,
    modules: Vec<LoadedModule>,
    queue: Vec<(Arc<Kernel>, bool)>,
    kernels: Vec<KernelReport>,
    next_grid: u32,
    report: DeviceReport,
    used_newer_isa: bool,
}

fn input(code: &'static str, message: impl Into<String>) -> SimError {
    SimError::Input(vec![Diagnostic::error(code, message)])
}

impl Device {
    /// A device of `chip`.
    pub fn new(chip: Arc<ChipSpec>, costs: Arc<IsaCosts>, options: Options) -> Self {
        let set = options.instruction_set.unwrap_or_else(InstructionSet::detect);
        Self {
            allocations: Allocations::new(chip.limits.global_mem_size, chip.limits.const_mem_size),
            memory: Arc::new(DeviceMemory::new()),
            modules: Vec::new(),
            queue: Vec::new(),
            kernels: Vec::new(),
            next_grid: 0,
            report: DeviceReport {
                sms: chip.limits.num_processors,
                schedulers: chip.sm.schedulers,
                ..DeviceReport::default()
            },
            used_newer_isa: false,
            chip,
            costs,
            options,
            set,
        }
    }

    /// Loads a module: its variables are allocated and initialised before any thread runs.
    ///
    /// # Errors
    /// Everything that is wrong with the text.
    pub fn load_module(&mut self, source: &Source, papers: bool) -> Result<usize, Vec<Diagnostic>> {
        let module = Module::build(source, papers)?;
        let mut addresses = Vec::new();
        for variable in module.globals() {
            let place = match variable.space {
                StateSpace::Const => self.allocations.constant(&variable.name, variable.size, variable.align),
                _ => self.allocations.global(&variable.name, variable.size),
            };
            let Some(address) = place else {
                let message =
                    format!("`{}` ({} bytes) does not fit the chip's memory", variable.name, variable.size);
                return Err(vec![Diagnostic::error("memory", message).in_source(source)]);
            };
            addresses.push((variable.name.clone(), address));
        }
        let find = |name: &str| addresses.iter().find(|(n, _)| n == name).map(|(_, at)| *at);
        for variable in module.globals() {
            let Some(address) = find(&variable.name) else { continue };
            let physical = if variable.space == StateSpace::Const { address + CONST_BASE } else { address };
            self.memory.write(physical, &variable.init);
            for (offset, bytes, symbol, addend, _generic) in &variable.relocations {
                let Some(target) = find(symbol) else {
                    let message = format!(
                        "the initialiser of `{}` names `{symbol}`, which has no address",
                        variable.name
                    );
                    return Err(vec![Diagnostic::error("init", message).in_source(source)]);
                };
                let value = target.wrapping_add_signed(*addend).to_le_bytes();
                self.memory.write(physical + offset, &value[..(*bytes as usize).min(8)]);
            }
        }
        self.modules.push(LoadedModule { module, addresses, codes: Vec::new() });
        Ok(self.modules.len() - 1)
    }

    /// Names of a module's entries.
    pub fn entries(&self, module: usize) -> Vec<String> {
        self.modules.get(module).map_or(Vec::new(), |m| m.module.entries().map(str::to_string).collect())
    }

    /// Parameters and bounds of an entry.
    pub fn entry_info(&self, module: usize, entry: &str) -> Option<EntryInfo> {
        let (params, bounds) = self.modules.get(module)?.module.params(entry)?;
        Some(EntryInfo { params, bounds })
    }

    /// Allocates global memory.
    ///
    /// # Errors
    /// It does not fit.
    pub fn malloc(&mut self, name: &str, bytes: u64) -> Result<u64, SimError> {
        self.allocations.global(name, bytes).ok_or_else(|| {
            input(
                "memory",
                format!(
                    "buffer `{name}` ({bytes} bytes) does not fit the chip's global memory of {} bytes",
                    self.chip.limits.global_mem_size
                ),
            )
        })
    }

    /// Copies to the device.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        self.memory.write(address, bytes);
    }

    /// Copies from the device.
    pub fn read(&self, address: u64, bytes: &mut [u8]) {
        self.memory.read(address, bytes);
    }

    /// True if an instruction above the chip's compute capability was allowed.
    pub fn used_newer_isa(&self) -> bool {
        self.used_newer_isa
    }

    /// The lane code in use.
    pub fn instruction_set(&self) -> InstructionSet {
        self.set
    }

    /// Bytes of device memory that exist on the host.
    pub fn touched_bytes(&self) -> u64 {
        self.memory.touched_bytes()
    }

    fn code(&mut self, module: usize, entry: &str) -> Result<Arc<Code>, SimError> {
        let Some(loaded) = self.modules.get_mut(module) else {
            return Err(input("module", "there is no such module"));
        };
        if let Some((_, code)) = loaded.codes.iter().find(|(name, _)| name == entry) {
            return Ok(Arc::clone(code));
        }
        let flow = match self.options.policy.name {
            "mimd" => Mimd::FLOW,
            _ => CrsStack::FLOW,
        };
        let addresses = &loaded.addresses;
        let find = |name: &str| addresses.iter().find(|(n, _)| n == name).map(|(_, at)| *at);
        // Recursion gets what CUDA gives a thread by default.
        const STACK_BYTES: u32 = 8 << 10;
        let program = loaded.module.program(entry, &find, flow, STACK_BYTES).map_err(SimError::Input)?;
        let newer = self.check_program(&program, module)?;
        self.used_newer_isa |= newer;
        let code = Arc::new(Code::new(program, &self.costs, self.set));
        self.modules[module].codes.push((entry.to_string(), Arc::clone(&code)));
        Ok(code)
    }

    /// Refuses what the chip lacks: instructions, length; and what is not executed.
    fn check_program(&self, program: &Program, module: usize) -> Result<bool, SimError> {
        let chip = self.chip.capability();
        let source = self.modules[module].module.source();
        let mut newer = false;
        let mut errors = Vec::new();
        for (op, info) in program.ops.iter().zip(&program.info) {
            let place = |d: Diagnostic| match line_span(source, info.line) {
                Some(span) => d.at(span, "").in_source(source),
                None => d,
            };
            if let (OpClass::Unsupported, Some(reason)) = (op.class, &info.unsupported) {
                errors.push(place(Diagnostic::error("unsupported", reason.to_string())));
            } else if info.min_sm > chip {
                newer = true;
                if !self.options.allow_newer_isa {
                    let (major, minor) = (info.min_sm / 10, info.min_sm % 10);
                    errors.push(place(
                        Diagnostic::error(
                            "isa",
                            format!(
                                "`{}` needs compute capability {major}.{minor}; {} has {}",
                                info.text, self.chip.name, self.chip.compute_capability
                            ),
                        )
                        .help("--allow-newer-isa runs it all the same"),
                    ));
                }
            }
        }
        if program.ops.len() as u64 > self.chip.limits.max_prog_size {
            errors
                .push(Diagnostic::error("MaxProgSize", "the kernel has more instructions than MaxProgSize"));
        }
        if errors.is_empty() { Ok(newer) } else { Err(SimError::Input(errors)) }
    }

    /// Queues a launch in stream order.
    ///
    /// # Errors
    /// The launch breaks a limit of the chip or does not fit the entry; it is named.
    pub fn launch(&mut self, launch: &Launch) -> Result<(), SimError> {
        let code = self.code(launch.module, &launch.entry)?;
        let program = &code.program;
        let limits = &self.chip.limits;
        let entry = &launch.entry;
        let threads: u64 = launch.block.iter().map(|n| u64::from(*n)).product();
        let blocks: u128 = launch.grid.iter().map(|n| u128::from(*n)).product();
        let refuse =
            |limit: &str, message: String| Err(input("launch", format!("{entry}: {message} ({limit})")));
        for (axis, name) in ["x", "y", "z"].iter().enumerate() {
            if launch.grid[axis] > limits.max_grid_size[axis] {
                return refuse(
                    "MaxGridSize",
                    format!(
                        "the grid has {} blocks in {name}, at most {} are allowed",
                        launch.grid[axis], limits.max_grid_size[axis]
                    ),
                );
            }
            if launch.block[axis] > limits.max_block_size[axis] {
                return refuse(
                    "MaxBlockSize",
                    format!(
                        "the block has {} threads in {name}, at most {} are allowed",
                        launch.block[axis], limits.max_block_size[axis]
                    ),
                );
            }
        }
        if threads == 0 || threads > u64::from(limits.max_threads_per_block) {
            return refuse(
                "MaxThreadsPerBlock",
                format!("the block has {threads} threads, 1 to {} are allowed", limits.max_threads_per_block),
            );
        }
        if blocks > u128::from(limits.max_blocks_per_grid) {
            return refuse("MaxBlocksPerGrid", format!("the grid has {blocks} blocks"));
        }
        if let Some(required) = program.bounds.required
            && required != launch.block
        {
            return refuse(
                ".reqntid",
                format!("the kernel requires blocks of {required:?} threads, not {:?}", launch.block),
            );
        }
        if let Some(max) = program.bounds.max
            && threads > max.iter().map(|n| u64::from(*n)).product()
        {
            return refuse(
                ".maxntid",
                format!("the kernel allows blocks of {max:?} threads, not {:?}", launch.block),
            );
        }
        if launch.params.len() != program.param_bytes as usize {
            return refuse(
                "parameters",
                format!(
                    "{} bytes of parameters are given, the kernel has {}",
                    launch.params.len(),
                    program.param_bytes
                ),
            );
        }
        let shared = u64::from(program.shared_bytes) + u64::from(launch.dynamic_shared);
        if shared > u64::from(limits.shared_mem_size) {
            return refuse(
                "SharedMemSize",
                format!(
                    "a block needs {shared} bytes of shared memory, an SM has {}",
                    limits.shared_mem_size
                ),
            );
        }
        let local = u64::from(program.local_bytes);
        if local > limits.local_mem_size {
            return refuse(
                "LocalMemSize",
                format!(
                    "a thread needs {local} bytes of local memory, {} are allowed",
                    limits.local_mem_size
                ),
            );
        }
        let needs = self.chip.block_needs(threads as u32, program.registers_per_thread, shared as u32);
        let (resident, by) = self.chip.occupancy(needs);
        if resident == 0 {
            return refuse(
                "RegFileSize",
                format!(
                    "a block needs {} registers and {} bytes of shared memory, more than an SM has: {by}",
                    needs.registers, needs.shared
                ),
            );
        }
        let kernel = Kernel {
            grid_id: self.next_grid,
            grid: launch.grid,
            block: launch.block,
            warp_size: limits.warp_size,
            dynamic_shared: launch.dynamic_shared,
            shared_bytes: shared as u32,
            local_bytes: program.local_bytes,
            params: launch.params.clone(),
            stream: launch.stream,
            name: entry.as_str().into(),
            code: Arc::clone(&code),
        };
        self.next_grid += 1;
        self.kernels.push(KernelReport {
            name: entry.clone(),
            grid_id: kernel.grid_id,
            stream: kernel.stream,
            grid: kernel.grid,
            block: kernel.block,
            functional: launch.functional,
            registers_per_thread: program.registers_per_thread,
            shared_bytes: kernel.shared_bytes,
            resident_blocks: resident,
            occupancy_limit: by.to_string(),
            notes: program.notes.clone(),
            ..KernelReport::default()
        });
        self.queue.push((Arc::new(kernel), launch.functional));
        Ok(())
    }

    fn world(&self) -> Arc<World> {
        let spec = &self.chip.memory;
        Arc::new(World {
            memory: Arc::clone(&self.memory),
            allocations: Arc::new(self.allocations.clone()),
            latency: LocalLatency {
                shared: spec.shared.latency,
                shared_atomic: spec.shared.atomic_latency,
                constant: spec.constant.hit_latency,
                banks: self.chip.limits.shared_mem_banks,
            },
            warp_size: self.chip.limits.warp_size,
            barriers: self.chip.limits.num_barrier_indices as usize,
            sms: self.chip.limits.num_processors,
            core_khz: self.chip.clocks().core_khz,
            compute_capability: self.chip.capability(),
            check: self.options.check,
            schedule_dependent: self.options.schedule_dependent,
        })
    }

    /// Runs everything queued.
    ///
    /// # Errors
    /// What stopped it; the report has what is known by then.
    pub fn synchronize(&mut self, stop: &AtomicBool, progress: &Progress<'_>) -> Result<(), SimError> {
        match self.options.policy.name {
            "mimd" => self.run::<Mimd>(stop, progress),
            _ => self.run::<CrsStack>(stop, progress),
        }
    }

    fn run<P: Reconvergence>(&mut self, stop: &AtomicBool, progress: &Progress<'_>) -> Result<(), SimError> {
        let queue = std::mem::take(&mut self.queue);
        let mut rest = queue.as_slice();
        while let Some((_, functional)) = rest.first() {
            let same = rest.iter().take_while(|(_, f)| f == functional).count();
            let (now, later) = rest.split_at(same);
            rest = later;
            if *functional {
                self.run_functional::<P>(now, stop)?;
            } else {
                self.run_timed::<P>(now, stop, progress)?;
            }
        }
        Ok(())
    }

    fn warps(&self) -> usize {
        (self.chip.limits.max_resident_threads / self.chip.limits.warp_size) as usize
    }

    fn choice(&self) -> PolicyChoice {
        let size = self.chip.limits.warp_size;
        let warp_lanes = if size >= 32 { u32::MAX } else { (1 << size) - 1 };
        PolicyChoice { warp_lanes, ..self.options.policy.clone() }
    }

    fn run_functional<P: Reconvergence>(
        &mut self,
        kernels: &[(Arc<Kernel>, bool)],
        stop: &AtomicBool,
    ) -> Result<(), SimError> {
        let policy = P::new(&self.choice(), self.warps());
        let blocks = self.chip.limits.max_resident_blocks as usize;
        let mut machine = Functional::new(self.world(), policy, self.warps(), blocks);
        let mut result = Ok(());
        for (kernel, _) in kernels {
            let fits = self.kernels[kernel.grid_id as usize].resident_blocks;
            result =
                machine.run(kernel, fits, &|| stop.load(Ordering::Relaxed)).map_err(|fault| match fault {
                    Some(fault) => SimError::Stopped(fault),
                    None => SimError::Interrupted,
                });
            if result.is_err() {
                break;
            }
        }
        for (grid, counts) in machine.counts().iter().enumerate() {
            if let Some(report) = self.kernels.get_mut(grid) {
                add_counts(report, counts);
            }
        }
        result
    }

    fn run_timed<P: Reconvergence>(
        &mut self,
        kernels: &[(Arc<Kernel>, bool)],
        stop: &AtomicBool,
        progress: &Progress<'_>,
    ) -> Result<(), SimError> {
        let chip = Arc::clone(&self.chip);
        let world = self.world();
        let spec = Arc::new(chip.memory.clone());
        let programs = ProgramSet::for_protocol(spec.protocol).map_err(|e| input("memory", e.to_string()))?;
        let programs = Arc::new(programs);
        let warps = self.warps();
        let sms = (0..chip.limits.num_processors)
            .map(|i| {
                let memory = SmMemory::new(Arc::clone(&spec), Arc::clone(&programs));
                let policy = P::new(&self.choice(), warps);
                Sm::new(i, &chip, Arc::clone(&world), memory, policy, self.options.scheduler)
            })
            .collect();
        let partitions = (0..spec.partitions)
            .map(|_| {
                Partition::new(
                    Arc::clone(&spec),
                    chip.clocks(),
                    Arc::clone(&programs),
                    Arc::clone(&self.memory),
                )
            })
            .collect();
        let mut engine = Engine::new(Arc::clone(&chip), sms, partitions);
        for (kernel, _) in kernels {
            engine.launch(Arc::clone(kernel));
        }
        let control =
            Control { stop, max_cycles: self.options.max_cycles, progress, threads: self.options.threads };
        let mut result = engine.run(&control);
        if result.is_ok() && self.options.check == Check::Full {
            result = check_conservation(&mut engine);
        }
        self.gather(&mut engine, result.is_ok());
        result
    }

    /// Adds what an engine counted to the report.
    fn gather<P: Reconvergence>(&mut self, engine: &mut Engine<P>, complete: bool) {
        let times = engine.times().to_vec();
        let last = times.iter().map(|t| t.end).max().unwrap_or(0);
        // A run that ends is as long as its last block; one that stopped, as what has happened.
        let cycles = if complete { last } else { engine.now() };
        let mut total = SmStats::default();
        let mut memory = std::mem::take(&mut self.report.memory);
        for sm in engine.sms() {
            sm.account_until(cycles);
            total.issued += sm.stats.issued;
            for (sum, stall) in total.stalls.iter_mut().zip(sm.stats.stalls) {
                *sum += stall;
            }
            // Slots after the last block's end belong to no kernel.
            let slots = cycles * u64::from(self.report.schedulers);
            let beyond = sm.slots().saturating_sub(slots);
            total.stalls[0] -= beyond.min(total.stalls[0]);
            total.spilled_bytes += sm.stats.spilled_bytes;
            total.most_entries = total.most_entries.max(sm.stats.most_entries);
            total.blocks += sm.stats.blocks;
            memory.access_latency += sm.stats.access_latency;
            memory.on_chip_accesses += sm.stats.shared_accesses;
            memory.conflict_cycles += sm.stats.bank_conflict_cycles;
            for (grid, counts) in sm.stats.kernels.iter().enumerate() {
                if let Some(report) = self.kernels.get_mut(grid) {
                    add_counts(report, counts);
                }
                let r = &mut self.report;
                r.warp_instructions += counts.warp_instructions;
                r.thread_instructions += counts.thread_instructions;
                r.control_instructions += counts.control_instructions;
                r.machine_instructions += counts.machine_instructions;
            }
            let s = sm.memory.stats();
            memory.accesses += s.accesses;
            memory.transactions += s.transactions;
            memory.bytes_useful += s.bytes_useful;
            memory.bytes_moved += s.bytes_moved;
            memory.blocked += s.blocked;
            add_cache(&mut memory.l1, &s.l1);
        }
        for partition in engine.partitions() {
            partition.flush_to_memory();
            let s = partition.stats();
            memory.atomics += s.atomics;
            add_cache(&mut memory.l2, &s.l2);
            let (d, x) = (&mut memory.dram, &s.dram);
            d.reads += x.reads;
            d.writes += x.writes;
            d.row_hits += x.row_hits;
            d.row_misses += x.row_misses;
            d.bytes += x.bytes;
            d.busy_cycles += x.busy_cycles;
        }
        for (grid, times) in times.iter().enumerate() {
            if let Some(report) = self.kernels.get_mut(grid).filter(|k| !k.functional && k.end_cycle == 0) {
                report.start_cycle = times.start;
                report.end_cycle = times.end;
                report.cycles = times.end - times.start;
            }
        }
        let r = &mut self.report;
        r.cycles += cycles;
        r.issued += total.issued;
        for (name, stall) in stall_table(&total.stalls) {
            *r.stalls.entry(name.to_string()).or_default() += stall;
        }
        r.blocks += total.blocks;
        r.policy_entries = r.policy_entries.max(total.most_entries);
        r.policy_spilled_bytes += total.spilled_bytes;
        r.memory = memory;
    }

    /// What happened so far.
    pub fn report(&self) -> DeviceReport {
        let mut report = self.report.clone();
        report.kernels = self.kernels.clone();
        let (lanes, issues) =
            self.kernels.iter().fold((0u64, 0u64), |(l, i), k| (l + k.active_lanes, i + k.warp_instructions));
        let possible = issues * u64::from(self.chip.limits.warp_size);
        report.lane_utilisation_ppm = (lanes * 1_000_000).checked_div(possible).unwrap_or(0);
        report
    }
}

/// Conservation at the end of a run: nothing in flight, nothing pinned, nothing held.
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
    match leaks.first() {
        None => Ok(()),
        Some(leak) => Err(SimError::Stopped(Box::new(crate::error::Fault {
            kind: crate::error::FaultKind::CheckViolation,
            rule: "conservation".into(),
            message: leak.clone(),
            place: crate::error::Place {
                kernel: "".into(),
                block: [0; 3],
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

fn add_counts(report: &mut KernelReport, counts: &KernelCounts) {
    report.warp_instructions += counts.warp_instructions;
    report.thread_instructions += counts.thread_instructions;
    report.control_instructions += counts.control_instructions;
    report.machine_instructions += counts.machine_instructions;
    report.active_lanes += counts.active_lanes;
}

fn add_cache(sum: &mut sim_memory::cache::CacheStats, x: &sim_memory::cache::CacheStats) {
    sum.hits += x.hits;
    sum.misses += x.misses;
    sum.merges += x.merges;
    sum.reservation_fails += x.reservation_fails;
    sum.evictions += x.evictions;
    sum.write_backs += x.write_backs;
}

fn line_span(source: &Source, line: u32) -> Option<sim_frontend::diagnostic::Span> {
    let index = line.checked_sub(1)? as usize;
    let start: usize = source.text.split_inclusive('\n').take(index).map(str::len).sum();
    let text = source.text.get(start..)?.lines().next()?;
    let indent = text.len() - text.trim_start().len();
    Some(sim_frontend::diagnostic::Span {
        start: (start + indent) as u32,
        end: (start + text.trim_end().len()) as u32,
    })
}
