//! The state of the runtime: what is registered, the device once it is used, queued launches, streams and events.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;

use sim_core::answers::Assertion;
use sim_core::error::SimError;
use sim_core::report::Time;
use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::link::link;
use sim_memory::vocabulary::Cycle;
use warpsim::console::complain;
use warpsim::device::checkpoint::Log;
use warpsim::device::selection::Selection;
use warpsim::device::{Device, Kernel, Module};

use crate::advised::Advice;
use crate::checkpoint;
use crate::closed;
use crate::driver::state::Driver;
use crate::error::{self, Error, INITIALIZATION, INVALID_PTX, INVALID_VALUE, NO_IMAGE, UNKNOWN};
use crate::event::{Event, When};
use crate::fatbin::{self, File};
use crate::graph::{Capture, Condition, Graph, HostFunction, Node, Work};
use crate::graph_blocks::{GraphMemory, Own, UserObject};
use crate::images::Images;
use crate::limits::Limits;
use crate::mappings::VirtualMemory;
use crate::pool_list::Pools;
use crate::record::Recorder;
use crate::registry::Registry;
use crate::shared::{Kind, Shared};
use crate::stream_list::Streams;

/// A device in use.
pub struct Runtime {
    /// It.
    pub device: Device,
    /// Memory that the host uses too.
    pub shared: Shared,
    /// Streams of the program.
    pub streams: Streams,
    /// Events by handle.
    pub events: BTreeMap<usize, Event>,
    /// Graphs by handle; those that were instantiated are among them.
    pub graphs: BTreeMap<usize, Graph>,
    /// Addresses that `cudaHostRegister` was given, with those that the device has for them.
    pub registered: BTreeMap<usize, u64>,
    /// Limits of the device.
    pub limits: Limits,
    /// Memory pools.
    pub pools: Pools,
    /// Advice about memory of both sides.
    pub advice: Advice,
    /// Objects of the program that graphs keep.
    pub objects: BTreeMap<usize, UserObject>,
    /// Memory of graphs.
    pub graph_memory: GraphMemory,
    /// Conditions of nodes of graphs, by handle.
    pub conditions: BTreeMap<u64, Condition>,
    /// Virtual memory.
    pub virtual_memory: VirtualMemory,
    /// Arrays, textures and surfaces.
    pub images: Images,
    /// Launches that wait to run: number and stream.
    queued: Vec<(u64, u32)>,
    /// The same launches, where there is a checkpoint.
    kernels: Vec<Kernel>,
    /// Modules by fat binary, as far as they were used, with the compute capability of their PTX; what could not be loaded
    /// stays so.
    modules: BTreeMap<usize, Result<(Module, u32), Error>>,
}

/// Everything there is.
pub struct State {
    /// What is registered.
    pub registry: Registry,
    /// What only the driver API has.
    pub driver: Driver,
    runtime: Option<Runtime>,
    recorder: Option<Recorder>,
    /// Launches that are timed, where not all are.
    selection: Option<Selection>,
    /// The checkpoint, where there is one.
    pub log: Option<Log>,
    /// What stopped the device: every call gives it from then on.
    pub sticky: Option<Error>,
    /// The captures that go on.
    pub captures: Vec<Capture>,
    /// Destructors of user objects, with their data, that run when the call has given the lock back.
    pub gone: Vec<(HostFunction, usize)>,
    /// The process that made the device.
    process: Option<u32>,
    /// Handles given out so far.
    handles: usize,
}

/// Prints what is wrong.
pub fn explain(error: &SimError) {
    match error {
        SimError::Input(errors) => complain(errors),
        other => eprintln!("warpsim: {other}"),
    }
}

/// Prints what a kernel printed where the program prints: through the C library's buffer.
fn print(text: &str) {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
    }
    // SAFETY: the C library's `stdout` is valid while the process runs, and the bytes are `text`'s.
    unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), stdout) };
}

/// Says which assertion failed, as CUDA does.
fn say(assertion: &Assertion) {
    let Assertion { expression, file, line, function, block, thread } = assertion;
    let three = |[x, y, z]: [u64; 3]| format!("[{x},{y},{z}]");
    eprintln!(
        "{file}:{line}: {function}: block: {}, thread: {} Assertion `{expression}` failed.",
        three(*block),
        three(*thread)
    );
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Nothing is registered and no device is in use.
    pub const fn new() -> Self {
        Self {
            registry: Registry::new(),
            driver: Driver::new(),
            runtime: None,
            recorder: None,
            selection: None,
            log: None,
            sticky: None,
            captures: Vec::new(),
            gone: Vec::new(),
            process: None,
            handles: 0,
        }
    }

    /// This process was forked from the one that made the device: CUDA does not work in it.
    pub fn is_forked(&self) -> bool {
        self.process.is_some_and(|process| process != std::process::id())
    }

    /// The device; it is made at the first use.
    ///
    /// # Errors
    /// What the environment asks for cannot be had; it has been printed.
    pub fn runtime(&mut self) -> Result<&mut Runtime, Error> {
        if self.runtime.is_none() {
            let runtime = self.create()?;
            self.runtime = Some(runtime);
        }
        self.runtime.as_mut().ok_or(INITIALIZATION)
    }

    fn create(&mut self) -> Result<Runtime, Error> {
        if self.recorder.is_none() {
            let recorder = Recorder::from_environment().map_err(|why| {
                eprintln!("warpsim: {why}");
                INITIALIZATION
            })?;
            self.recorder = Some(recorder);
        }
        if let Some(why) = closed::loaded() {
            eprintln!("warpsim: {why}");
            return Err(INITIALIZATION);
        }
        let request = &self.recorder.as_ref().ok_or(INITIALIZATION)?.request;
        let wrong = |errors: &[Diagnostic]| {
            complain(errors);
            INITIALIZATION
        };
        let selection = Selection::parse(&request.time).map_err(|error| wrong(&[error]))?;
        let mut device = Device::new(&request.device).map_err(|errors| wrong(&errors))?;
        device.warm(request.warm).map_err(|_| INITIALIZATION)?;
        // Launches are counted through, also after a reset of the device.
        if self.selection.is_none() && !selection.is_empty() {
            self.selection = Some(selection);
        }
        self.process = Some(std::process::id());
        checkpoint::open(&mut self.log, request, &mut device)?;
        let shared = Shared::reserve(device.chip().limits.global_mem_size);
        Ok(Runtime {
            device,
            shared,
            streams: Streams::default(),
            events: BTreeMap::new(),
            graphs: BTreeMap::new(),
            registered: BTreeMap::new(),
            limits: Limits::default(),
            pools: Pools::default(),
            advice: Advice::default(),
            objects: BTreeMap::new(),
            graph_memory: GraphMemory::default(),
            conditions: BTreeMap::new(),
            virtual_memory: VirtualMemory::default(),
            images: Images::default(),
            queued: Vec::new(),
            kernels: Vec::new(),
            modules: BTreeMap::new(),
        })
    }

    /// A handle that was not given out yet; it leads nowhere.
    pub fn handle(&mut self) -> usize {
        self.handles += 1;
        0x5700_0000_0000_0000 + self.handles * 16
    }

    /// A stream is captured.
    pub fn is_captured(&self, stream: *mut c_void) -> bool {
        self.captures.iter().any(|capture| capture.has(stream))
    }

    /// Captures what is given to a stream, behind what the stream had before; false where it is not captured.
    pub fn captured(&mut self, stream: *mut c_void, work: impl FnOnce() -> Work) -> bool {
        let handle = self.handle();
        let capture = self.captures.iter_mut().find(|capture| capture.has(stream));
        let (Some(capture), Some(runtime)) = (capture, &mut self.runtime) else { return false };
        let Some(last) = capture.streams.get_mut(&(stream as usize)) else { return false };
        let after = std::mem::replace(last, vec![handle]);
        capture.made.push(handle);
        if let Some(graph) = runtime.graphs.get_mut(&capture.graph) {
            graph.nodes.push(Node { handle, origin: 0, work: work(), after, disabled: false });
        }
        true
    }

    /// The module of a fat binary; it is loaded at the first use.
    ///
    /// # Errors
    /// It has no PTX for the chip, or its PTX is wrong; the reason has been printed.
    pub fn module(&mut self, binary: usize) -> Result<Module, Error> {
        self.runtime()?;
        let Some(runtime) = self.runtime.as_mut() else { return Err(INITIALIZATION) };
        if let Some(module) = runtime.modules.get(&binary) {
            return module.map(|(module, _)| module);
        }
        let program = self.recorder.as_ref().map_or("", |recorder| recorder.request.program.as_str());
        let name = format!("{}.{binary}", if program.is_empty() { "module" } else { program });
        let files = self.registry.binaries.get(binary).and_then(Option::as_ref);
        let module = load(&mut runtime.device, &name, files);
        runtime.modules.insert(binary, module);
        let (module, _) = module?;
        // Managed variables are the host's too.
        for (_, variable) in self.registry.variables.iter().filter(|(_, variable)| variable.binary == binary)
        {
            let (Some(host), Some(symbol)) =
                (variable.managed, runtime.device.symbol(module, &variable.name))
            else {
                continue;
            };
            runtime.shared.share(&mut runtime.device, symbol.address, symbol.bytes, Kind::Variable)?;
            // SAFETY: nvcc registers the address of a pointer that lives as long as the program.
            unsafe { crate::pointers::put(host as *mut usize, symbol.address as usize) }?;
        }
        Ok(module)
    }

    /// The compute capability of a module's PTX, as major * 10 + minor.
    ///
    /// # Errors
    /// As [`module`](Self::module).
    pub fn target(&mut self, binary: usize) -> Result<u32, Error> {
        self.module(binary)?;
        self.runtime()?.modules.get(&binary).copied().ok_or(NO_IMAGE)?.map(|(_, target)| target)
    }

    /// Queues a launch; launches run together only where several streams are in use.
    ///
    /// # Errors
    /// Why it cannot be launched, or what an earlier launch came to.
    pub fn launch(&mut self, kernel: &Kernel) -> Result<(), Error> {
        let chosen = self.selection.as_mut().is_none_or(|selection| selection.next(&kernel.entry));
        let kernel = &Kernel { functional: !chosen, ..kernel.clone() };
        let folder = self.recorder.as_ref().and_then(|recorder| recorder.request.record.clone());
        if let (true, Some(folder)) = (chosen, folder) {
            return self.record(kernel, &folder);
        }
        self.queue(kernel)
    }

    /// Runs a launch alone, and writes it down as a workload.
    fn record(&mut self, kernel: &Kernel, folder: &Path) -> Result<(), Error> {
        self.synchronize()?;
        let number = self.recorder.as_ref().map_or(0, Recorder::written);
        let runtime = self.runtime()?;
        let stopped = |error: SimError| {
            explain(&error);
            INITIALIZATION
        };
        runtime.shared.to_device(&mut runtime.device).map_err(stopped)?;
        let recording = runtime.device.recording(kernel).map_err(stopped)?;
        self.queue(kernel)?;
        self.synchronize()?;
        let device = &mut self.runtime()?.device;
        if let Err(why) = recording.write(device, folder, number) {
            eprintln!("warpsim: a launch cannot be recorded: {why}");
        }
        Ok(())
    }

    fn queue(&mut self, kernel: &Kernel) -> Result<(), Error> {
        let has_log = self.log.is_some();
        let runtime = self.runtime()?;
        if !runtime.streams.run_beside(kernel.stream, runtime.queued.iter().map(|(_, stream)| *stream)) {
            self.synchronize()?;
        }
        let runtime = self.runtime()?;
        let number = runtime.device.launch(kernel).map_err(|error| {
            explain(&error);
            INVALID_PTX
        })?;
        runtime.queued.push((number, kernel.stream));
        if has_log {
            runtime.kernels.push(kernel.clone());
        }
        Ok(())
    }

    /// Runs what is queued.
    ///
    /// # Errors
    /// What stopped it; it stays so.
    pub fn synchronize(&mut self) -> Result<(), Error> {
        let Some(runtime) = self.runtime.as_mut().filter(|runtime| !runtime.queued.is_empty()) else {
            return Ok(());
        };
        runtime.queued.clear();
        let kernels = std::mem::take(&mut runtime.kernels);
        let device = &mut runtime.device;
        let ready = runtime.shared.to_device(device);
        if ready.is_ok() && self.log.as_ref().is_some_and(Log::replays) {
            return self.replay(&kernels);
        }
        let begun = ready.and_then(|()| self.log.as_mut().map_or(Ok(()), |log| log.begin(device)));
        let ran = begun.and_then(|()| device.synchronize(&|_, _, _| {}));
        let assertions = device.failed();
        let run = device.take();
        let back = runtime.shared.to_host(device);
        if let Some(run) = &run {
            print(&run.report.printed);
            let lost = run.report.printfs_lost;
            if lost > 0 {
                eprintln!(
                    "warpsim: {lost} printf calls were dropped: the buffer was full; \
                     cudaDeviceSetLimit(cudaLimitPrintfFifoSize, BYTES) sets its size"
                );
            }
            let ends: Vec<Cycle> = run.report.kernels.iter().map(|kernel| kernel.end_cycle).collect();
            runtime.resolve(run.first, run.start, &ends);
        }
        let result = ran.and(back);
        if let (Some(run), Some(recorder)) = (&run, &mut self.recorder) {
            let lines = recorder.write(&runtime.device, run, result.as_ref().err());
            if let (true, Some(log)) = (result.is_ok(), &mut self.log)
                && let Err(why) = log.end(&mut runtime.device, &kernels, run, lines)
            {
                eprintln!("warpsim: the checkpoint ends here: {why}");
                self.log = None;
            }
        }
        result.map_err(|error| {
            assertions.iter().for_each(say);
            if assertions.is_empty() {
                eprintln!("warpsim: {error}");
            }
            let status = error::of_run(&error);
            self.sticky = Some(status);
            status
        })
    }

    /// Puts back what the launches that are queued left in an earlier run of the program.
    fn replay(&mut self, kernels: &[Kernel]) -> Result<(), Error> {
        let (Some(runtime), Some(log), Some(recorder)) =
            (&mut self.runtime, &mut self.log, &mut self.recorder)
        else {
            return Err(INITIALIZATION);
        };
        let back = log.replay(&mut runtime.device, kernels).and_then(|replayed| {
            print(&replayed.printed);
            runtime.resolve(replayed.first, replayed.start, &replayed.ends);
            recorder.repeat(replayed.lines);
            runtime.shared.to_host(&mut runtime.device).map_err(|error| error.to_string())
        });
        back.map_err(|why| {
            eprintln!("warpsim: the program cannot go on from the checkpoint: {why}");
            self.sticky = Some(UNKNOWN);
            UNKNOWN
        })
    }

    /// Runs what is queued as the process ends; what goes wrong has been printed.
    pub fn finish(&mut self) {
        if !self.is_forked() && self.sticky.is_none() {
            let _ = self.synchronize();
        }
    }

    /// Gives back memory of graphs that is not in use and that no graph has a node for, and lets go user objects that
    /// neither the program nor a graph has.
    ///
    /// # Errors
    /// What stopped the device.
    pub fn sweep(&mut self) -> Result<(), Error> {
        if let Some(Runtime { graphs, objects, .. }) = &mut self.runtime {
            let kept = |handle: &usize| graphs.values().any(|graph| graph.keeps(*handle));
            let unused = |(handle, own): (&usize, &UserObject)| {
                (own.references == 0 && !kept(handle)).then_some(*handle)
            };
            let unused: Vec<usize> = objects.iter().filter_map(unused).collect();
            let unused = unused.into_iter().filter_map(|handle| objects.remove_entry(&handle));
            self.gone.extend(unused.map(|(_, own)| (own.destroy, own.data)));
        }
        let Some(runtime) = self.runtime().ok().filter(|runtime| !runtime.graph_memory.list.is_empty())
        else {
            return Ok(());
        };
        let graphs = &runtime.graphs;
        let unused = |(at, own): (&u64, &Own)| {
            (!own.used && !graphs.values().any(|graph| graph.allocates(*at))).then_some(*at)
        };
        let gone: Vec<u64> = runtime.graph_memory.list.iter().filter_map(unused).collect();
        if gone.is_empty() {
            return Ok(());
        }
        self.synchronize()?;
        let runtime = self.runtime()?;
        for at in gone {
            runtime.graph_memory.list.remove(&at);
            runtime.device.free(at, 1).map_err(|_| INVALID_VALUE)?;
        }
        Ok(())
    }

    /// Gives the device up with all it holds.
    pub fn reset(&mut self) {
        self.finish();
        self.runtime = None;
        self.sticky = None;
        self.captures.clear();
    }
}

impl Runtime {
    /// When work that is given to a stream now would begin.
    pub fn when(&self, stream: u32) -> When {
        let last = self.queued.iter().rev().find(|(_, own)| *own == stream || stream == 0);
        last.map_or(When::At(self.device.now()), |(number, _)| When::After(*number))
    }

    /// Events behind launches of a run know their time: of its first launch the number, its beginning, and the cycles at
    /// which its kernels ended.
    fn resolve(&mut self, first: u64, start: Time, ends: &[Cycle]) {
        let khz = self.device.chip().clocks().core_khz;
        for event in self.events.values_mut() {
            let Some(When::After(number)) = event.when else { continue };
            let Some(end) = number.checked_sub(first).and_then(|i| ends.get(i as usize)) else { continue };
            event.when = Some(When::At(start + Time::of(*end, khz)));
        }
    }
}

/// Loads the newest PTX of each translation unit of a fat binary that the chip runs, linked to one module; gives the
/// compute capability of the newest one too.
fn load(
    device: &mut Device,
    name: &str,
    units: Option<&Result<Vec<Vec<File>>, String>>,
) -> Result<(Module, u32), Error> {
    let said = |why: &str, error: Error| {
        eprintln!("warpsim: {why}");
        error
    };
    let units = match units {
        Some(Ok(units)) => units,
        Some(Err(why)) => return Err(said(&format!("{name}: {why}"), NO_IMAGE)),
        None => return Err(said(&format!("{name}: its fat binary was unregistered"), NO_IMAGE)),
    };
    let allow_newer = device.configured().options.allow_newer_isa;
    let capability = device.chip().capability();
    let (mut texts, mut without, mut newest) = (Vec::new(), Vec::new(), 0);
    for (i, files) in units.iter().enumerate() {
        let own = if units.len() == 1 { name.to_string() } else { format!("{name}.{i}") };
        match fatbin::newest(files, &own, capability, allow_newer) {
            Ok(file) => {
                let text = file.text().map_err(|why| said(&format!("{own}: {why}"), NO_IMAGE))?;
                // What of CUDA's own device library can run here is the device runtime of the simulator.
                if units.len() > 1 && fatbin::is_device_runtime(&text) {
                    continue;
                }
                newest = newest.max(fatbin::target(&text));
                texts.push(Source::new(&format!("{own}.sm_{}.ptx", file.sm), &text));
            }
            // CUDA's own device library may be such a unit; whether something of it is needed shows when they are linked.
            Err(why) => without.push(why),
        }
    }
    if texts.is_empty() {
        return Err(said(without.first().map_or("a fat binary without files", String::as_str), NO_IMAGE));
    }
    let linked = link(&format!("{name}.ptx"), &texts).map_err(SimError::Input);
    let module = linked.and_then(|linked| device.load(&linked)).map_err(|error| {
        explain(&error);
        without.iter().for_each(|why| eprintln!("warpsim: {why}"));
        INVALID_PTX
    })?;
    Ok((module, newest))
}
