//! A context (CS §5.7): modules, memory and grids that belong together. Grids of a context share its memory,
//! which other contexts cannot access.

mod abort;
mod gather;
mod host;
mod launch;
pub mod parts;
pub mod replay;
mod run;
mod runtime;
mod sampled;
mod saved;
mod warm;

use std::any::Any;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::load::{GlobalVariable, Module};
use sim_frontend::program::{LaunchBounds, ParamInfo};
use sim_memory::address_space::{Allocations, CONST_BASE, CONST_WINDOW};
use sim_memory::cache::Cache;
use sim_memory::device_memory::DeviceMemory;
use sim_memory::dram::DramTimings;
use sim_memory::programs::ProgramSet;
use sim_memory::sm_memory::latency::Latencies;
use sim_memory::spec::MemorySpec;
use sim_memory::vocabulary::{Cycle, StateSpace};

pub use launch::Launch;

use crate::answers::Assertion;
use crate::code::Code;
use crate::grid::Kernel;
use crate::instruction_set::InstructionSet;
use crate::options::Options;
use crate::report::{DeviceReport, KernelReport};
use crate::sanitizer::written::Written;
use crate::sm::timeline::Timeline;
use crate::texture::{Bindings, Bound, object_handle};

/// A loaded module with its variables and decoded entries.
#[derive(Debug)]
pub struct LoadedModule {
    /// The parsed and checked module.
    pub module: Module,
    /// Names and addresses of its variables.
    pub addresses: Vec<(String, u64)>,
    /// Entries decoded so far, by name.
    pub codes: Vec<(String, Arc<Code>)>,
}

/// Parameters and launch bounds of an entry.
#[derive(Clone, Debug)]
pub struct EntryInfo {
    /// The parameters, in order.
    pub params: Vec<ParamInfo>,
    /// Launch bounds that the kernel declares.
    pub bounds: LaunchBounds,
}

/// A message of a context to its host (CS §5.7.2). Starts come in the order of grid ids, completions in the
/// order of the cycles at which the last blocks ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum ContextOutput {
    /// A grid was created; the host needs its index to abort it.
    Started(u32),
    /// All blocks of a grid have completed.
    Completed(u32),
}

/// What the saved state of a timed run holds (`context/saved.rs`).
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Saved {
    format: u32,
    /// Timed runs of the context before it.
    run: u32,
    engine: Vec<u8>,
    /// Pages of memory that are not zero, by address.
    memory: Vec<(u64, Vec<u8>)>,
    report: DeviceReport,
    kernels: Vec<KernelReport>,
    latencies: Latencies,
    outputs: Vec<ContextOutput>,
    taken: (Cycle, u64),
}

/// A context of a device.
#[derive(Debug)]
pub struct Context {
    id: u32,
    chip: Arc<ChipSpec>,
    costs: Arc<IsaCosts>,
    options: Options,
    set: InstructionSet,
    pub(crate) memory: Arc<DeviceMemory>,
    /// The chip's memory programs and DRAM timing, built at the first timed run.
    tables: Option<(Arc<ProgramSet>, Arc<DramTimings>)>,
    /// Access latencies of all timed runs so far.
    latencies: Latencies,
    /// The L2 slices as the last timed run left them; empty if device memory has been changed without them.
    slices: Vec<Cache>,
    /// The engine of the last timed run, where that completed: the next one begins with what it has allocated.
    idle: Option<Box<dyn Any + Send>>,
    /// The chip and its memory by bytes of shared memory that its L1 leaves.
    splits: Vec<(u32, Arc<ChipSpec>, Arc<MemorySpec>)>,
    /// Copies from the host to the device since the last timed run: address and bytes.
    copies: Vec<(u64, u64)>,
    /// Address of the workspace that launches get.
    workspace: u64,
    /// Launches by kernel and shape, where kernels are sampled.
    groups: crate::sampling::launches::Groups,
    /// What functional runs leave in L2, where they do.
    warming: Option<crate::touched::Warming>,
    allocations: Arc<Allocations>,
    /// Textures, surfaces and samplers by handle.
    textures: Arc<Bindings>,
    next_object: u32,
    /// Bytes of global memory that all contexts of the device have allocated.
    device_bytes: Arc<AtomicU64>,
    own_bytes: u64,
    modules: Vec<LoadedModule>,
    /// Lines of code of the programs made so far.
    lines: u64,
    /// What the device runtime has in memory.
    runtime: parts::Runtime,
    queue: Vec<(Arc<Kernel>, bool)>,
    /// Grids to abort: index, and core cycle of the next timed run.
    aborts: Vec<(u32, Cycle)>,
    kernels: Vec<KernelReport>,
    next_grid: u32,
    report: DeviceReport,
    /// Counts by operation, if profiling is enabled.
    profile: crate::sm::profile::Programs,
    timelines: Vec<Timeline>,
    used_newer_isa: bool,
    outputs: Vec<ContextOutput>,
    /// Core cycles and warp instructions of the reports that were taken.
    taken: (Cycle, u64),
    /// The assertions that failed when one stopped the last run.
    assertions: Vec<Assertion>,
    /// For sanitizers: the bytes that earlier runs have written.
    written: Option<Written>,
    /// Timed runs so far.
    runs: u32,
    /// The state that a timed run takes over.
    pending: Option<Box<Saved>>,
    /// Digest of what the host has written since the last run, where it is followed.
    inputs: Option<std::hash::DefaultHasher>,
}

impl Drop for Context {
    fn drop(&mut self) {
        self.device_bytes.fetch_sub(self.own_bytes, Ordering::Relaxed);
    }
}

impl Context {
    /// An empty context: no modules, grids or messages [link-newCtx]. It has its own address space; its
    /// allocations are charged to the memory that all contexts of the device share [link-newVM].
    pub(crate) fn new(
        id: u32,
        chip: Arc<ChipSpec>,
        costs: Arc<IsaCosts>,
        options: Options,
        device_bytes: Arc<AtomicU64>,
    ) -> Self {
        // Code for instructions that the host lacks is undefined behaviour. Results are the same with any.
        let asked = options.instruction_set.filter(|set| InstructionSet::available().contains(set));
        let set = asked.unwrap_or_else(InstructionSet::detect);
        let sampled = options.sampling.is_some();
        let mut context = Self {
            id,
            allocations: Arc::new(Allocations::new(chip.limits.global_mem_size, chip.limits.const_mem_size)),
            memory: Arc::new(DeviceMemory::new()),
            tables: None,
            latencies: Latencies::default(),
            slices: Vec::new(),
            idle: None,
            splits: Vec::new(),
            copies: Vec::new(),
            workspace: 0,
            groups: Default::default(),
            warming: None,
            textures: Arc::default(),
            next_object: 0,
            device_bytes,
            own_bytes: 0,
            modules: Vec::new(),
            lines: 0,
            runtime: parts::Runtime::default(),
            queue: Vec::new(),
            aborts: Vec::new(),
            kernels: Vec::new(),
            next_grid: 0,
            profile: Vec::new(),
            timelines: Vec::new(),
            report: DeviceReport {
                sms: chip.limits.num_processors,
                schedulers: chip.sm.schedulers,
                ..DeviceReport::default()
            },
            used_newer_isa: false,
            outputs: Vec::new(),
            taken: (0, 0),
            assertions: Vec::new(),
            written: None,
            runs: 0,
            pending: None,
            inputs: None,
            chip,
            costs,
            options,
            set,
        };
        // Launches that are left out leave L2 as they would.
        context.warm(usize::from(sampled));
        context
    }

    /// Index of the context, unique on the device.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Takes the messages to the host since the last call [ctx-out].
    pub fn outputs(&mut self) -> Vec<ContextOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// Loads a module and returns its index, which is unique in the context. Its variables are allocated and
    /// initialised before any thread runs [dev-load].
    ///
    /// # Errors
    /// All diagnostics of the program text.
    pub fn load_module(&mut self, source: &Source, papers: bool) -> Result<usize, Vec<Diagnostic>> {
        self.load_module_at(source, papers, &|_| None)
    }

    /// The same with variables at given places: addresses of global memory, offsets in constant memory.
    ///
    /// # Errors
    /// As [`load_module`](Self::load_module), or a place that is not free.
    pub fn load_module_at(
        &mut self,
        source: &Source,
        papers: bool,
        place: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<usize, Vec<Diagnostic>> {
        let module = Module::build(source, papers)?;
        let mut addresses = Vec::new();
        for variable in module.globals() {
            if let Some(address) = self.runtime.address(&variable.name) {
                addresses.push((variable.name.clone(), address));
                continue;
            }
            let size = self.runtime.size(variable);
            let place = match (variable.space, place(&variable.name)) {
                (StateSpace::Const, at) => {
                    let allocations = Arc::make_mut(&mut self.allocations);
                    match at {
                        Some(at) => allocations.constant_at(&variable.name, at, variable.size),
                        None => allocations.constant(&variable.name, variable.size, variable.align),
                    }
                }
                (_, Some(at)) => self.allocate_at(&variable.name, at, size),
                (_, None) => self.allocate(&variable.name, size, 1),
            };
            let Some(address) = place else {
                let message = format!("`{}` ({size} bytes) does not fit the chip's memory", variable.name);
                let error = Diagnostic::error("memory", message).at(variable.span, "");
                return Err(vec![error.in_source(source)]);
            };
            addresses.push((variable.name.clone(), address));
        }
        let mut forgotten = Vec::new();
        let find = |name: &str| addresses.iter().find(|(n, _)| n == name).map(|(_, at)| *at);
        // Those of the device runtime that are there keep their contents.
        for variable in module.globals().iter().filter(|own| self.runtime.address(&own.name).is_none()) {
            let Some(address) = find(&variable.name) else { continue };
            let physical = if variable.space == StateSpace::Const { address + CONST_BASE } else { address };
            // What was freed there before left its contents.
            let bytes = self.runtime.size(variable);
            self.memory.clear(physical, bytes);
            forgotten.push((physical, bytes));
            self.memory.write(physical, &variable.init);
            for (offset, bytes, symbol, addend, generic) in &variable.relocations {
                // Generic addresses of constant memory lie in its window; those of global memory are its own.
                let constant = |variable: &GlobalVariable| {
                    variable.name == *symbol && variable.space == StateSpace::Const
                };
                let window = match *generic && module.globals().iter().any(constant) {
                    true => CONST_WINDOW,
                    false => 0,
                };
                let found = find(symbol).map(|address| address + window);
                let Some(target) = found.or_else(|| module.function_address(symbol)) else {
                    let message = format!(
                        "the initializer of `{}` names `{symbol}`, which has no address",
                        variable.name
                    );
                    return Err(vec![Diagnostic::error("init", message).in_source(source)]);
                };
                let value = target.wrapping_add_signed(*addend).to_le_bytes();
                self.memory.write(physical + offset, &value[..(*bytes as usize).min(8)]);
            }
        }
        for (address, bytes) in forgotten.into_iter().filter(|(address, _)| *address < CONST_BASE) {
            self.forget_lines(address, bytes);
        }
        self.runtime.placed(&addresses);
        self.modules.push(LoadedModule { module, addresses, codes: Vec::new() });
        Ok(self.modules.len() - 1)
    }

    /// Names of the entries of a module.
    pub fn entries(&self, module: usize) -> Vec<String> {
        self.modules.get(module).map_or(Vec::new(), |m| m.module.entries().map(str::to_string).collect())
    }

    /// Parameters and launch bounds of an entry; `None` if it does not exist.
    pub fn entry_info(&self, module: usize, entry: &str) -> Option<EntryInfo> {
        let (params, bounds) = self.modules.get(module)?.module.params(entry)?;
        Some(EntryInfo { params, bounds })
    }

    /// The `.global` variables of a module: name, address, bytes.
    pub fn variables(&self, module: usize) -> impl Iterator<Item = (&str, u64, u64)> {
        self.all_variables(module).filter(|(_, address, _)| *address < CONST_BASE)
    }

    /// Binds a texture, surface or sampler to a handle that none had before.
    pub fn create_object(&mut self, bound: Bound) -> u64 {
        let handle = object_handle(self.next_object);
        self.next_object += 1;
        self.bind(handle, Some(bound));
        handle
    }

    /// What a handle, or the address of a variable of an opaque type, stands for in launches that run from now on.
    pub fn bind(&mut self, handle: u64, bound: Option<Bound>) {
        let textures = Arc::make_mut(&mut self.textures);
        match bound {
            Some(bound) => textures.insert(handle, bound),
            None => textures.remove(&handle),
        };
    }

    /// What a handle stands for.
    pub fn bound(&self, handle: u64) -> Option<&Bound> {
        self.textures.get(&handle)
    }

    /// Copies bytes from the host to device memory.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        self.memory.write(address, bytes);
        self.copies.push((address, bytes.len() as u64));
        if let Some(inputs) = &mut self.inputs {
            (address, bytes).hash(inputs);
        }
    }

    /// Copies bytes from device memory to the host.
    pub fn read(&self, address: u64, bytes: &mut [u8]) {
        self.memory.read(address, bytes);
    }

    /// True if a kernel has used an instruction beyond the chip's compute capability, which was allowed.
    pub fn used_newer_isa(&self) -> bool {
        self.used_newer_isa
    }

    /// The host instruction set for which lane functions were resolved.
    pub fn instruction_set(&self) -> InstructionSet {
        self.set
    }

    /// Bytes of host memory that device memory occupies.
    pub fn touched_bytes(&self) -> u64 {
        self.memory.touched_bytes()
    }

    /// Takes the timelines recorded since the last call, ordered by synchronisation, then by SM.
    pub fn timelines(&mut self) -> Vec<Timeline> {
        std::mem::take(&mut self.timelines)
    }

    /// The report of all runs so far.
    pub fn report(&self) -> DeviceReport {
        let mut report = DeviceReport { kernels: self.kernels.clone(), ..self.report.clone() };
        self.complete(&mut report);
        report
    }

    /// Fills in what follows from the counters of a report.
    fn complete(&self, report: &mut DeviceReport) {
        report.lines = self.lines();
        self.leaks(report);
        let (lanes, issues) = report
            .kernels
            .iter()
            .fold((0u64, 0u64), |(l, i), k| (l + k.active_lanes, i + k.warp_instructions));
        let possible = issues * u64::from(self.chip.limits.warp_size);
        report.lane_utilisation_ppm = (lanes * 1_000_000).checked_div(possible).unwrap_or(0);
    }
}

#[cfg(test)]
mod mutation_tests;
#[cfg(test)]
mod reuse_tests;
