//! A device that a process drives step by step: modules, memory, launches, results launch by launch. Workloads run
//! on it ([`crate::simulate`]), and so does what replaces CUDA's runtime.
//!
//! ```
//! use sim_frontend::diagnostic::Source;
//! use warpsim::device::{Device, DeviceRequest, Kernel};
//!
//! let ptx = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry set(.param .u64 at) {\n\
//!     .reg .b64 %a; ld.param.u64 %a, [at]; st.global.u32 [%a], 7; ret; }";
//! let mut device = Device::new(&DeviceRequest { chip: "v100".into(), ..DeviceRequest::default() }).expect("a chip");
//! let module = device.load(&Source::new("set.ptx", ptx)).expect("correct PTX");
//! let at = device.malloc("x", 4, 1).expect("it fits");
//! device.launch(&Kernel::new(module, "set", [1; 3], [1; 3], &at.to_le_bytes())).expect("a launch");
//! device.synchronize(&|_, _, _| {}).expect("no fault");
//! let mut word = [0; 4];
//! device.read(at, &mut word).expect("allocated");
//! assert_eq!(u32::from_le_bytes(word), 7);
//! let run = device.take().expect("nothing is queued");
//! assert!(run.report.kernels[0].cycles > 0);
//! ```

pub mod checkpoint;
mod configured;
pub mod program;
pub mod recording;
pub mod selection;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use sim_core::answers::{Assertion, Attributes, Symbol};
use sim_core::context::{Context, EntryInfo, Launch};
use sim_core::device::{ContextId, Progress};
use sim_core::error::SimError;
use sim_core::report::{DeviceReport, Time};
use sim_core::sm::timeline::Timeline;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::{Diagnostic, Source};

use crate::chip_for::{fits_target, naming_chips};
use crate::interrupt::STOP;
use crate::memory;

pub use configured::{CHIP, Configured, DeviceRequest};
pub use sim_core::tensor_map::{Im2col, Part, TensorMap, Wrong};

/// A module of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Module(usize);

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its module.
    pub module: Module,
    /// Its name.
    pub entry: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub dynamic_shared: u32,
    /// Kernels of one stream run in order.
    pub stream: u32,
    /// The parameter block: the bytes of all parameters at their offsets.
    pub params: Vec<u8>,
    /// It runs without timing, whatever the device does.
    pub functional: bool,
    /// Its blocks may wait for each other: it has a workspace for a barrier of the grid.
    pub cooperative: bool,
    /// Blocks of a cluster by axis; where none are given, as the kernel says, or each block is a cluster.
    pub cluster: Option<[u32; 3]>,
    /// Clusters may have more blocks than every chip allows.
    pub non_portable_cluster: bool,
}

impl Kernel {
    /// A launch on stream 0 without dynamic shared memory.
    pub fn new(module: Module, entry: &str, grid: [u32; 3], block: [u32; 3], params: &[u8]) -> Self {
        Self {
            module,
            entry: entry.to_string(),
            grid,
            block,
            dynamic_shared: 0,
            stream: 0,
            params: params.to_vec(),
            functional: false,
            cooperative: false,
            cluster: None,
            non_portable_cluster: false,
        }
    }
}

/// Bytes of a tensor map.
pub const TENSOR_MAP_BYTES: usize = sim_core::tensor_map::BYTES;

/// The compute capability from which on chips copy tensors.
const TENSOR_MAPS_SINCE: u32 = 90;

/// Bytes of the workspace of cooperative launches: its size, and the barrier of the grid.
const WORKSPACE: u64 = 256;

/// What ran since it was last asked for.
#[derive(Clone, Debug)]
pub struct Run {
    /// Number of its first launch, from 0.
    pub first: u64,
    /// Simulated time at which it began.
    pub start: Time,
    /// Its figures; grids are numbered from 0 within it.
    pub report: DeviceReport,
}

/// A simulated device with one context.
#[derive(Debug)]
pub struct Device {
    configured: Configured,
    inner: sim_core::device::Device,
    context: ContextId,
    /// Texts of the modules.
    sources: Vec<Source>,
    /// Workspaces of cooperative launches, by stream: those of one stream run one after another.
    workspaces: BTreeMap<u32, u64>,
    launched: u64,
    taken: u64,
    time: Time,
    simulated: Duration,
}

impl Device {
    /// A device as it is asked for.
    ///
    /// # Errors
    /// What the request names and is not there, or does not fit together.
    pub fn new(request: &DeviceRequest) -> Result<Self, Vec<Diagnostic>> {
        Ok(Self::of(request.configured()?))
    }

    /// A device of a configuration.
    pub fn of(configured: Configured) -> Self {
        let (chip, costs) = (Arc::clone(&configured.chip), Arc::clone(&configured.costs));
        let mut inner = sim_core::device::Device::new(chip, costs, configured.options.clone());
        let context = inner.create_context();
        Self {
            configured,
            inner,
            context,
            sources: Vec::new(),
            workspaces: BTreeMap::new(),
            launched: 0,
            taken: 0,
            time: Time::default(),
            simulated: Duration::ZERO,
        }
    }

    /// What it was made from.
    pub fn configured(&self) -> &Configured {
        &self.configured
    }

    /// Its chip.
    pub fn chip(&self) -> &ChipSpec {
        &self.configured.chip
    }

    /// Its context, for what this interface does not offer.
    ///
    /// # Errors
    /// None: it lives as long as the device.
    pub fn context(&mut self) -> Result<&mut Context, SimError> {
        self.inner.context(self.context)
    }

    /// Loads a module; its variables are allocated and initialised.
    ///
    /// # Errors
    /// All that is wrong with the text, or a target above the chip.
    pub fn load(&mut self, ptx: &Source) -> Result<Module, SimError> {
        self.load_at(ptx, &|_| None)
    }

    /// The same with variables at given places: addresses of global memory, offsets in constant memory.
    ///
    /// # Errors
    /// As [`load`](Self::load), or a place that is not free.
    pub fn load_at(&mut self, ptx: &Source, place: &dyn Fn(&str) -> Option<u64>) -> Result<Module, SimError> {
        if !self.configured.options.allow_newer_isa {
            fits_target(ptx, &self.configured.chip).map_err(|error| SimError::Input(vec![error]))?;
        }
        let module = self.inner.load_at(self.context, ptx, false, place);
        let module = module.map_err(|error| self.naming(error))?;
        self.sources.push(ptx.clone());
        Ok(Module(module))
    }

    /// The text of a module.
    pub fn source(&self, module: Module) -> Option<&Source> {
        self.sources.get(module.0)
    }

    /// The last `launches` functional launches before a timed one leave what they accessed in L2.
    ///
    /// # Errors
    /// None.
    pub fn warm(&mut self, launches: usize) -> Result<(), SimError> {
        self.context()?.warm(launches);
        Ok(())
    }

    /// Allocates global memory at a multiple of `align`, a power of two; what is smaller than CUDA's alignment of
    /// 256 bytes is that.
    ///
    /// # Errors
    /// Too little is left.
    pub fn malloc(&mut self, name: &str, bytes: u64, align: u64) -> Result<u64, SimError> {
        self.context()?.malloc_aligned(name, bytes, align)
    }

    /// Allocates global memory at an address.
    ///
    /// # Errors
    /// It is not free.
    pub fn malloc_at(&mut self, name: &str, at: u64, bytes: u64) -> Result<u64, SimError> {
        self.context()?.malloc_at(name, at, bytes)
    }

    /// Frees what was allocated at an address with an alignment.
    ///
    /// # Errors
    /// Nothing begins there.
    pub fn free(&mut self, address: u64, align: u64) -> Result<(), SimError> {
        self.context()?.free(address, align)
    }

    /// Bytes of global memory that are free.
    ///
    /// # Errors
    /// None.
    pub fn free_bytes(&mut self) -> Result<u64, SimError> {
        Ok(self.context()?.free_bytes())
    }

    /// Where the allocation that holds `bytes` bytes from an address on begins, and its size.
    pub fn allocation(&mut self, address: u64, bytes: u64) -> Option<(u64, u64)> {
        let range = &self.context().ok()?.allocation(address, bytes)?.range;
        Some((range.start, range.end - range.start))
    }

    fn allocated(&mut self, address: u64, bytes: u64) -> Result<u64, SimError> {
        match self.context()?.allocation(address, bytes) {
            Some(_) => Ok(Context::physical(address)),
            None => {
                let message = format!("{bytes} bytes at {address:#x} lie in no allocation");
                Err(SimError::Input(vec![Diagnostic::error("memory", message)]))
            }
        }
    }

    /// Copies from the host.
    ///
    /// # Errors
    /// The bytes do not lie in one allocation.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), SimError> {
        if !bytes.is_empty() {
            let physical = self.allocated(address, bytes.len() as u64)?;
            self.context()?.write(physical, bytes);
        }
        Ok(())
    }

    /// Copies to the host.
    ///
    /// # Errors
    /// The bytes do not lie in one allocation.
    pub fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), SimError> {
        if !bytes.is_empty() {
            let physical = self.allocated(address, bytes.len() as u64)?;
            self.context()?.read(physical, bytes);
        }
        Ok(())
    }

    /// The bytes of a tensor map, for a parameter or for global memory at a multiple of 64.
    ///
    /// # Errors
    /// Everything that `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col` refuses of it, or the chip has no unit for
    /// copies of tensors.
    pub fn tensor_map(&self, map: &TensorMap) -> Result<[u8; TENSOR_MAP_BYTES], SimError> {
        let error = |reason: String| Diagnostic::error("tensor_map", reason);
        let (name, capability) = (&self.chip().name, self.chip().capability());
        if capability < TENSOR_MAPS_SINCE {
            let found = format!(
                "{name} has compute capability {}.{}; copies of tensors need 9.0",
                capability / 10,
                capability % 10
            );
            return Err(SimError::Input(vec![error(found)]));
        }
        let wrong = map.check();
        if wrong.is_empty() {
            return Ok(map.encode());
        }
        let words = |Wrong { part, reason }: Wrong| error(format!("{}: {reason}", part.name()));
        Err(SimError::Input(wrong.into_iter().map(words).collect()))
    }

    /// A variable of a module.
    pub fn symbol(&mut self, module: Module, name: &str) -> Option<Symbol> {
        self.context().ok()?.symbol(module.0, name)
    }

    /// The `.global` variables of a module: name, address, bytes.
    ///
    /// # Errors
    /// None.
    pub fn variables(&mut self, module: Module) -> Result<Vec<(String, u64, u64)>, SimError> {
        let variables = self.context()?.variables(module.0);
        Ok(variables.map(|(name, at, bytes)| (name.to_string(), at, bytes)).collect())
    }

    /// Where a variable of a module lies in device memory, and its bytes.
    ///
    /// # Errors
    /// None.
    pub fn variable(&mut self, module: Module, name: &str) -> Result<Option<(u64, u64)>, SimError> {
        let mut variables = self.context()?.all_variables(module.0);
        Ok(variables.find(|(own, ..)| *own == name).map(|(_, at, bytes)| (at, bytes)))
    }

    /// Names of the kernels of a module.
    ///
    /// # Errors
    /// None.
    pub fn entries(&mut self, module: Module) -> Result<Vec<String>, SimError> {
        Ok(self.context()?.entries(module.0))
    }

    /// Parameters and launch bounds of a kernel.
    pub fn entry(&mut self, module: Module, entry: &str) -> Option<EntryInfo> {
        self.context().ok()?.entry_info(module.0, entry)
    }

    /// What a kernel needs.
    ///
    /// # Errors
    /// There is none of that name, or its program cannot be made.
    pub fn attributes(&mut self, module: Module, entry: &str) -> Result<Attributes, SimError> {
        self.context()?.attributes(module.0, entry).map_err(|error| self.naming(error))
    }

    /// Queues a launch; gives its number, from 0.
    ///
    /// # Errors
    /// It exceeds a limit, or does not match the kernel.
    pub fn launch(&mut self, kernel: &Kernel) -> Result<u64, SimError> {
        let functional = kernel.functional || self.configured.functional;
        let launch = Launch {
            module: kernel.module.0,
            entry: kernel.entry.clone(),
            grid: kernel.grid,
            block: kernel.block,
            dynamic_shared: kernel.dynamic_shared,
            stream: kernel.stream,
            params: kernel.params.clone(),
            functional,
            cluster: kernel.cluster,
            non_portable_cluster: kernel.non_portable_cluster,
        };
        let workspace = if kernel.cooperative { self.workspace(kernel.stream)? } else { 0 };
        self.context()?.set_workspace(workspace);
        let launched = self.inner.launch(self.context, &launch);
        launched.map_err(|error| self.naming(error))?;
        self.launched += 1;
        Ok(self.launched - 1)
    }

    /// The workspace of cooperative launches of a stream.
    fn workspace(&mut self, stream: u32) -> Result<u64, SimError> {
        if let Some(address) = self.workspaces.get(&stream) {
            return Ok(*address);
        }
        let address = self.malloc("the workspace of cooperative launches", WORKSPACE, 1)?;
        self.write(address, &[0; WORKSPACE as usize])?;
        self.workspaces.insert(stream, address);
        Ok(address)
    }

    /// Runs what is queued; stops where the process was interrupted or takes too much memory.
    ///
    /// # Errors
    /// Why it stopped.
    pub fn synchronize(&mut self, progress: &Progress<'_>) -> Result<(), SimError> {
        self.synchronize_until(&STOP, progress)
    }

    /// The same with a flag of its own to stop it. Not inlined: `benches/instructions.sh` counts inside it.
    ///
    /// # Errors
    /// Why it stopped.
    #[inline(never)]
    pub fn synchronize_until(&mut self, stop: &AtomicBool, progress: &Progress<'_>) -> Result<(), SimError> {
        let simulating = memory::Simulating::begin();
        let start = Instant::now();
        let result = self.inner.synchronize(self.context, stop, progress);
        self.simulated += start.elapsed();
        drop(simulating);
        result.map_err(|error| match (error, memory::exceeded()) {
            (SimError::Interrupted, Some(limit)) => SimError::MaxMemory { limit },
            (error, _) => error,
        })
    }

    /// The assertions that failed when one stopped the last run: those that threads had come to and written down by then, 64 at
    /// most.
    pub fn failed(&mut self) -> Vec<Assertion> {
        self.context().map(|context| context.failed().to_vec()).unwrap_or_default()
    }

    /// The report of all that ran since it was last taken.
    ///
    /// # Errors
    /// None.
    pub fn report(&mut self) -> Result<DeviceReport, SimError> {
        Ok(self.context()?.report())
    }

    /// Takes the report, and the simulated clock goes on; `None` while launches are queued.
    pub fn take(&mut self) -> Option<Run> {
        let report = self.context().ok()?.take_report()?;
        let (first, start) = (self.taken, self.time);
        self.taken += report.kernels.len() as u64;
        self.time = self.time + report.time_us + report.launch_us;
        Some(Run { first, start, report })
    }

    /// Simulated time of all reports taken.
    pub fn now(&self) -> Time {
        self.time
    }

    /// Host time spent in [`synchronize`](Self::synchronize).
    pub fn simulated(&self) -> Duration {
        self.simulated
    }

    /// Takes the timelines.
    ///
    /// # Errors
    /// None.
    pub fn timelines(&mut self) -> Result<Vec<Timeline>, SimError> {
        Ok(self.context()?.timelines())
    }

    /// Where the chip lacks something, the diagnostics name chips that have it.
    fn naming(&self, error: SimError) -> SimError {
        match error {
            SimError::Input(errors) => SimError::Input(naming_chips(errors)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
