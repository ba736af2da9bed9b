//! Runs a workload on a device: buffers, launches, comparison of results.

pub mod arguments;
mod buffers;
pub mod checkpoint;
mod export;
mod images;
mod job;
mod tensor_maps;
mod verdict;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sim_core::context::parts::Part;
use sim_core::device::Progress;
use sim_core::error::SimError;
use sim_core::report::DeviceReport;
use sim_core::sm::timeline::Timeline;
use sim_core::tensor_map::{BYTES, TensorMap};
use sim_core::texture::Image;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::workload::{ArgumentKind, Expr, HostBuffer, LaunchSpec, LoopSpec, Params, Step};

use crate::contents::{Content, Contents};
use crate::device::{Configured, Device, Kernel, Module, recording};
use crate::memory;
use arguments::{Arguments, arguments_differ, example, is_address};
use buffers::{Layout, file_bytes, initial, of_variable};
use export::Export;
use job::{number, placed, whole, wrong};
use verdict::judge;

pub use job::Job;
pub use verdict::Verdict;

/// What a run gave.
pub struct Outcome {
    /// The device's report.
    pub report: DeviceReport,
    /// How the results compare; `None` where the run stopped early.
    pub verdict: Option<Verdict>,
    /// Why it stopped early.
    pub stopped: Option<SimError>,
    /// What the device's memory holds in the end; `None` where the run stopped early: how far each SM had
    /// come is then no simulated fact.
    pub contents: Option<Contents>,
    /// Final contents of the buffers that [`Job::dump`] names.
    pub buffers: BTreeMap<String, HostBuffer>,
    /// An instruction above the chip was allowed.
    pub newer_isa: bool,
    /// Host time inside the simulator, without files, references and checks of results.
    pub simulated: Duration,
    /// Host instruction set of the lanes.
    pub instruction_set: &'static str,
    /// What was recorded event by event.
    pub timelines: Vec<Timeline>,
}

/// Runs a job. Input errors come back as the error; a run that stops is an outcome.
pub fn simulate(
    job: &Job,
    configured: Configured,
    stop: &AtomicBool,
    progress: &Progress<'_>,
) -> Result<Outcome, SimError> {
    if let Some(name) = job.dump.iter().find(|name| !job.spec.buffers.contains_key(*name)) {
        let known: Vec<&str> = job.spec.buffers.keys().map(String::as_str).collect();
        return Err(wrong(format!("--dump: there is no buffer `{name}`; available: {}", known.join(", "))));
    }
    let mut configured = configured;
    if let Some(checkpoint) = &job.checkpoint {
        configured.options.save = Some(checkpoint.save());
    }
    let mut device = Device::of(configured);
    size_parts(job, &mut device)?;
    let module = device.load_at(&job.ptx, &|name| job.spec.variables.get(name)?.at)?;
    let (mut buffers, mut addresses) = (BTreeMap::new(), BTreeMap::new());
    // Those that have an address get it before others could.
    let mut names: Vec<_> = job.spec.buffers.iter().map(|(name, buffer)| (name, buffer.at)).collect();
    names.sort_by_key(|(_, at)| at.is_none());
    let arrays = arrays_of(job)?;
    let mut export = job.export.as_deref().map(|folder| Export::new(folder, job)).transpose()?;
    for (name, at) in names {
        let buffer = initial(job, name)?;
        let array = arrays.get(name);
        let bytes = array.map_or(buffer.bytes.len() as u64, Image::bytes);
        let address = match at {
            Some(at) => device.malloc_at(name, at, bytes)?,
            None => device.malloc(name, bytes, 1)?,
        };
        match array {
            Some(image) => {
                let mut stored = vec![0; bytes as usize];
                images::rearrange(image, |from, to| {
                    stored[to as usize..][..from.len()].copy_from_slice(&buffer.bytes[from]);
                });
                device.write(address, &stored)?;
            }
            None => device.write(address, &buffer.bytes)?,
        }
        let layout = Layout { ty: buffer.ty, len: buffer.len() };
        addresses.insert(name.clone(), address);
        buffers.insert(name.clone(), layout);
        if let Some(export) = &mut export {
            export.buffer(name, layout, address, buffer.bytes)?;
        }
    }
    prepare(job, &mut device, module, export.as_mut())?;
    let handles = images::bind(job, &mut device, module, &|name| {
        let layout: &Layout = buffers.get(name)?;
        Some((*addresses.get(name)?, layout.bytes() as u64))
    })?;
    let maps = tensor_maps::maps(job, &|name| Some((*buffers.get(name)?, *addresses.get(name)?)))?;
    if let Some(state) = job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.state()) {
        device.context()?.resume(state)?;
    }
    let mut runner = Runner {
        job,
        device: &mut device,
        module,
        addresses,
        buffers,
        arrays,
        handles,
        maps,
        map_addresses: BTreeMap::new(),
        launched: 0,
        export,
        stop,
        progress,
    };
    let mut params = job.params.clone();
    let simulating = memory::Simulating::begin();
    let ran = runner.steps(&job.spec.launches, &mut params).and_then(|()| {
        if job.skip > runner.launched {
            let there = match runner.launched {
                1 => "there is 1 launch".to_string(),
                n => format!("there are {n} launches"),
            };
            let message = format!("--skip-launches {}: {there}", job.skip);
            return Err(SimError::Input(vec![Diagnostic::error("usage", message)]));
        }
        runner.synchronize()?;
        match runner.device.context()?.is_resuming() {
            true => Err(wrong("the checkpoint is of a later launch than there are")),
            false => Ok(()),
        }
    });
    if let Err(SimError::Input(errors)) = ran {
        return Err(SimError::Input(errors));
    }
    let ran = ran.map_err(|error| match (error, memory::exceeded()) {
        // A loop of launches was told to stop between them.
        (SimError::Interrupted, Some(limit)) => SimError::MaxMemory { limit },
        (error, _) => error,
    });
    drop(simulating);
    let mut results = BTreeMap::new();
    for name in job.spec.expect.iter().map(|e| &e.buffer).chain(&job.dump) {
        if results.contains_key(name) {
            continue;
        }
        let Ok((buffer, address)) = runner.buffer(name) else { continue };
        let bytes = runner.read(name, buffer, address)?;
        results.insert(name.clone(), HostBuffer { ty: buffer.ty, bytes });
    }
    let contents = ran.is_ok().then(|| runner.contents()).transpose()?;
    if let (Ok(()), Some(export)) = (&ran, runner.export.take()) {
        export.finish(job, &mut |address, bytes| runner.device.read(address, bytes))?;
    }
    let simulated = device.simulated();
    let context = device.context()?;
    let report = context.report();
    let timelines = context.timelines();
    let newer_isa = context.used_newer_isa();
    let instruction_set = context.instruction_set().name();
    // The references make the first contents again, in the place of the device's.
    drop(device);
    let verdict = match &ran {
        Ok(()) => Some(judge(job, &results)?),
        Err(_) => None,
    };
    results.retain(|name, _| job.dump.contains(name));
    Ok(Outcome {
        report,
        verdict,
        stopped: ran.err(),
        contents,
        buffers: results,
        newer_isa,
        simulated,
        instruction_set,
        timelines,
    })
}

/// Gives the heap of `malloc` and the buffer of `printf` the sizes that the workload says.
fn size_parts(job: &Job, device: &mut Device) -> Result<(), SimError> {
    for (name, spec) in &job.spec.variables {
        let (Some(bytes), Some(part)) = (spec.bytes, Part::of(name)) else { continue };
        device.context()?.set_part_bytes(part, bytes).map_err(|_| {
            let error = wrong(format!("`variables`: `{name}`: {bytes} bytes do not fit the memory"));
            placed(error, spec.bytes_place, job.spec.source.as_ref())
        })?;
    }
    Ok(())
}

/// Gives variables and L2 what the workload says of them.
fn prepare(
    job: &Job,
    device: &mut Device,
    module: Module,
    mut export: Option<&mut Export>,
) -> Result<(), SimError> {
    for (name, spec) in &job.spec.variables {
        let Some((at, bytes)) = device.variable(module, name)? else {
            return Err(wrong(format!("{} has no variable `{name}`", job.ptx.name)));
        };
        if let Some(contents) = of_variable(job, name, spec, bytes as usize)? {
            device.context()?.write(at, &contents);
            if let Some(export) = &mut export {
                export.variable(name, &contents);
            }
        }
    }
    if let Some(file) = &job.spec.l2 {
        let lines =
            recording::lines(&file_bytes(job, file)?).map_err(|why| wrong(format!("`l2`: {file}: {why}")))?;
        device.context()?.set_l2(&lines);
    }
    Ok(())
}

/// The buffers that textures and surfaces make arrays of.
fn arrays_of(job: &Job) -> Result<images::Arrays, SimError> {
    let mut sizes = BTreeMap::new();
    for spec in job.spec.textures.values().chain(job.spec.surfaces.values()) {
        if let Some(buffer) = job.spec.buffers.get(&spec.buffer) {
            let length = whole(&buffer.length, &job.params, &format!("length of `{}`", spec.buffer))?;
            sizes.insert(spec.buffer.clone(), u64::from(length) * u64::from(buffer.ty.bytes()));
        }
    }
    images::arrays(job, &|name| sizes.get(name).copied().unwrap_or(0))
}

struct Runner<'r> {
    job: &'r Job,
    device: &'r mut Device,
    module: Module,
    addresses: BTreeMap<String, u64>,
    buffers: BTreeMap<String, Layout>,
    arrays: images::Arrays,
    /// Handles of textures and surfaces.
    handles: BTreeMap<String, u64>,
    maps: BTreeMap<String, TensorMap>,
    /// Addresses of the maps that a launch had in global memory.
    map_addresses: BTreeMap<String, u64>,
    launched: u64,
    /// What is done is written down.
    export: Option<Export>,
    stop: &'r AtomicBool,
    progress: &'r Progress<'r>,
}

impl Runner<'_> {
    /// The contents of a buffer, in the order of a file.
    fn read(&mut self, name: &str, buffer: Layout, address: u64) -> Result<Vec<u8>, SimError> {
        let Some(image) = self.arrays.get(name) else {
            let mut bytes = vec![0; buffer.bytes()];
            self.device.read(address, &mut bytes)?;
            return Ok(bytes);
        };
        let mut stored = vec![0; image.bytes() as usize];
        self.device.read(address, &mut stored)?;
        let mut bytes = vec![0; buffer.bytes()];
        images::rearrange(image, |to, from| {
            let length = to.len();
            bytes[to].copy_from_slice(&stored[from as usize..][..length]);
        });
        Ok(bytes)
    }

    fn synchronize(&mut self) -> Result<(), SimError> {
        self.device.synchronize_until(self.stop, self.progress)
    }

    fn steps(&mut self, steps: &[Step], params: &mut Params) -> Result<(), SimError> {
        for step in steps {
            match step {
                Step::Launch(launch) => self.launch(launch, params)?,
                Step::Fill { fill } => {
                    self.synchronize()?;
                    let (buffer, address) = self.buffer(&fill.buffer)?;
                    let element = number(&fill.value, params, "fill")
                        .and_then(|value| HostBuffer::element(buffer.ty, value).map_err(wrong))
                        .map_err(|error| placed(error, fill.place, self.job.spec.source.as_ref()))?;
                    if let Some(export) = &mut self.export {
                        export.fill(address, &element);
                    }
                    // All elements of an array are alike, wherever they lie.
                    let stored =
                        self.arrays.get(&fill.buffer).map(|image| image.bytes() as usize / element.len());
                    self.device.write(address, &element.repeat(stored.unwrap_or(buffer.len)))?;
                }
                Step::Loop { body } => self.repeat(body, params)?,
            }
        }
        Ok(())
    }

    fn repeat(&mut self, body: &LoopSpec, params: &mut Params) -> Result<(), SimError> {
        let source = self.job.spec.source.clone();
        let at = |error| placed(error, body.place, source.as_ref());
        let passes = whole(&body.max_iterations, params, "max_iterations").map_err(at)?;
        for pass in 0..passes {
            if let Some(name) = &body.index {
                params.insert(name.clone(), pass.into());
            }
            self.steps(&body.launches, params)?;
            for [a, b] in &body.swap {
                self.swap(a, b).map_err(at)?;
            }
            let Some(until) = &body.until else { continue };
            self.synchronize()?;
            let (buffer, address) = self.buffer(&until.buffer)?;
            let now = HostBuffer { ty: buffer.ty, bytes: self.read(&until.buffer, buffer, address)? };
            let index = whole(&until.index, params, "until").map_err(at)?;
            let Some(value) = now.number(index as usize) else {
                return Err(at(wrong(format!("until: `{}` has no element {index}", until.buffer))));
            };
            let ask = || Ok(value == number(&until.equals, params, "until").map_err(at)?);
            let over = match &self.job.checkpoint {
                Some(checkpoint) => checkpoint.answer(self.device.context()?.is_resuming(), ask)?,
                None => ask()?,
            };
            if over {
                break;
            }
        }
        Ok(())
    }

    /// Two buffers exchange their names.
    fn swap(&mut self, a: &str, b: &str) -> Result<(), SimError> {
        let ((first, at), (second, behind)) = (self.buffer(a)?, self.buffer(b)?);
        if let Some(name) =
            [a, b].into_iter().find(|name| self.job.images().any(|image| image.buffer == **name))
        {
            return Err(wrong(format!(
                "swap: `{name}` has a texture or surface, which would keep its memory"
            )));
        }
        if let Some(name) =
            [a, b].into_iter().find(|name| self.job.spec.tensor_maps.values().any(|map| map.buffer == **name))
        {
            return Err(wrong(format!("swap: `{name}` has a tensor map, which would keep its memory")));
        }
        if first.len != second.len {
            return Err(wrong(format!(
                "swap: `{a}` has {} elements and `{b}` {}: swapped buffers must have the same length",
                first.len, second.len
            )));
        }
        self.addresses.insert(a.to_string(), behind);
        self.addresses.insert(b.to_string(), at);
        Ok(())
    }

    fn buffer(&self, name: &str) -> Result<(Layout, u64), SimError> {
        match (self.buffers.get(name), self.addresses.get(name)) {
            (Some(buffer), Some(address)) => Ok((*buffer, *address)),
            _ => Err(wrong(format!("there is no buffer `{name}`"))),
        }
    }

    fn contents(&mut self) -> Result<Contents, SimError> {
        let module = self.module;
        let variables = self.device.variables(module)?;
        let context = self.device.context()?;
        let content = |address, bytes| Content::of(context, address, bytes);
        let buffers = self.buffers.iter().filter_map(|(name, buffer)| {
            let address = *self.addresses.get(name)?;
            Some((name.clone(), content(address, buffer.bytes() as u64)))
        });
        Ok(Contents {
            buffers: buffers.collect(),
            variables: variables.into_iter().map(|(name, at, size)| (name, content(at, size))).collect(),
        })
    }

    /// A tensor map gets a place in global memory, where a name is one.
    fn place_map(&mut self, name: &str) -> Result<(), SimError> {
        let Some(map) = self.maps.get(name) else { return Ok(()) };
        if !self.map_addresses.contains_key(name) {
            let address = self.device.malloc(name, BYTES as u64, 1)?;
            self.device.write(address, &map.encode())?;
            self.map_addresses.insert(name.to_string(), address);
        }
        Ok(())
    }

    /// What is wrong with a launch is said with its place in the workload's file.
    fn launch(&mut self, spec: &LaunchSpec, params: &Params) -> Result<(), SimError> {
        let source = self.job.spec.source.clone();
        self.launch_kernel(spec, params).map_err(|error| placed(error, spec.place, source.as_ref()))
    }

    fn launch_kernel(&mut self, spec: &LaunchSpec, params: &Params) -> Result<(), SimError> {
        // A loop may queue launches for ever.
        if self.stop.load(Ordering::Relaxed) {
            return Err(SimError::Interrupted);
        }
        let Some(info) = self.device.entry(self.module, &spec.entry) else {
            let known = self.device.entries(self.module)?.join(", ");
            return Err(wrong(format!(
                "{} has no entry `{}`; it has: {known}",
                self.job.ptx.name, spec.entry
            )));
        };
        if info.params.len() != spec.args.len() {
            let message = arguments_differ(&spec.entry, &info.params, spec.args.len());
            let error = Diagnostic::error("workload", message);
            // A launch without a place is one of the command line.
            let error = match spec.place.0 {
                None => error.help(format!("for example: {}", example(&info.params))),
                Some(_) => error,
            };
            return Err(SimError::Input(vec![error]));
        }
        let bytes = info.params.last().map_or(0, |p| p.offset + p.size);
        let mut block = vec![0u8; bytes as usize];
        for (argument, param) in spec.args.iter().zip(&info.params) {
            if let ArgumentKind::Pointer { buffer, .. } = &argument.kind
                && is_address(param)
            {
                self.place_map(buffer)?;
            }
        }
        let arguments = Arguments {
            layouts: &self.buffers,
            addresses: &self.addresses,
            arrays: &self.arrays,
            handles: &self.handles,
            maps: &self.maps,
            map_addresses: &self.map_addresses,
            from_file: self.job.spec.source.is_some(),
        };
        for (at, (argument, param)) in spec.args.iter().zip(&info.params).enumerate() {
            let value = arguments.argument(&argument.kind, param, params).map_err(|found| {
                let message = format!("argument {} of {}: {}", at + 1, spec.entry, found.message);
                let error = SimError::Input(vec![Diagnostic { message, ..found }]);
                placed(error, argument.place, self.job.spec.source.as_ref())
            })?;
            block[param.offset as usize..][..value.len()].copy_from_slice(&value);
        }
        let size = |list: &[Expr], what: &str| -> Result<[u32; 3], SimError> {
            if list.is_empty() || list.len() > 3 {
                return Err(wrong(format!("{what} takes one to three dimensions (x, y, z)")));
            }
            let mut out = [1; 3];
            for (slot, expr) in out.iter_mut().zip(list) {
                *slot = whole(expr, params, what)?;
            }
            Ok(out)
        };
        let kernel = Kernel {
            module: self.module,
            entry: spec.entry.clone(),
            grid: size(&spec.grid, "grid")?,
            block: size(&spec.block, "block")?,
            dynamic_shared: spec
                .dynamic_shared
                .as_ref()
                .map_or(Ok(0), |e| whole(e, params, "dynamic_shared"))?,
            stream: spec.stream,
            params: block,
            functional: self.job.is_functional(self.launched),
            cooperative: false,
            cluster: match spec.cluster.as_slice() {
                [] => None,
                list => Some(size(list, "cluster")?),
            },
            non_portable_cluster: spec.non_portable_cluster,
        };
        self.launched += 1;
        if let Some(export) = &mut self.export {
            export.launch(spec, &info.params, &kernel, &self.maps, &self.map_addresses);
        }
        self.device.launch(&kernel)?;
        Ok(())
    }
}
