//! Runs a workload on a device: buffers, launches, comparison of results.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sim_core::context::{Context, Launch};
use sim_core::device::{Device, Options, Progress};
use sim_core::error::SimError;
use sim_core::report::DeviceReport;
use sim_core::sm::timeline::Timeline;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::program::ParamInfo;
use sim_frontend::workload::{
    ArgumentKind, BufferSpec, Expectation, Expr, HostBuffer, Init, KeySpan, LaunchSpec, LoopSpec, Number,
    Params, SplitMix64, Step, Tolerance, WorkloadSpec, evaluate, push_element,
};
use sim_memory::vocabulary::ScalarType;

use crate::contents::{Content, Contents};
use crate::files;
use crate::memory;
use crate::npy;
use crate::reference::{self, Inputs, ReferenceError};

/// A workload with everything a run needs.
pub struct Job {
    /// The workload.
    pub spec: WorkloadSpec,
    /// Folder of its files.
    pub folder: PathBuf,
    /// PTX of the variant.
    pub ptx: Source,
    /// Parameters, as changed by `--set`.
    pub params: Params,
    /// What the seeds of random contents are changed by.
    pub seed: u64,
    /// Launches to run functionally first.
    pub skip: u64,
    /// All launches run functionally.
    pub functional: bool,
    /// Buffers whose final contents are wanted.
    pub dump: Vec<String>,
}

/// Type and length of a buffer.
#[derive(Clone, Copy, Debug)]
struct Layout {
    ty: ScalarType,
    len: usize,
}

impl Layout {
    fn bytes(self) -> usize {
        self.len * self.ty.bytes() as usize
    }
}

/// How the results compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All as expected.
    Pass,
    /// The first difference, in words.
    Fail(String),
    /// Nothing is expected.
    Unchecked,
}

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
    /// Lane code.
    pub instruction_set: &'static str,
    /// What was recorded event by event.
    pub timelines: Vec<Timeline>,
}

fn wrong(message: impl Into<String>) -> SimError {
    SimError::Input(vec![Diagnostic::error("workload", message)])
}

/// An input error that says nowhere where, at a place of a file.
fn placed(error: SimError, place: KeySpan, source: Option<&Source>) -> SimError {
    match (error, place.0, source) {
        (SimError::Input(errors), Some(span), Some(source)) => {
            let put = |error: Diagnostic| match error.source {
                None => error.at(span, "").in_source(source),
                Some(_) => error,
            };
            SimError::Input(errors.into_iter().map(put).collect())
        }
        (error, ..) => error,
    }
}

fn number(expr: &Expr, params: &Params, what: &str) -> Result<Number, SimError> {
    evaluate(expr, params).map_err(|reason| wrong(format!("{what}: {reason}")))
}

fn whole(expr: &Expr, params: &Params, what: &str) -> Result<u32, SimError> {
    let value = number(expr, params, what)?;
    let integer = value.integer().and_then(|value| u32::try_from(value).ok());
    integer.ok_or_else(|| wrong(format!("{what}: {value} is not an integer from 0 to {}", u32::MAX)))
}

/// Runs a job. Input errors come back as the error; a run that stops is an outcome.
pub fn simulate(
    job: &Job,
    chip: Arc<ChipSpec>,
    costs: Arc<IsaCosts>,
    options: Options,
    stop: &AtomicBool,
    progress: &Progress<'_>,
) -> Result<Outcome, SimError> {
    if let Some(name) = job.dump.iter().find(|name| !job.spec.buffers.contains_key(*name)) {
        let known: Vec<&str> = job.spec.buffers.keys().map(String::as_str).collect();
        return Err(wrong(format!("--dump: there is no buffer `{name}`; there are: {}", known.join(", "))));
    }
    let mut device = Device::new(chip, costs, options);
    let context = device.create_context();
    let module = device.load(context, &job.ptx, false)?;
    let context = device.context(context)?;
    let (mut buffers, mut addresses) = (BTreeMap::new(), BTreeMap::new());
    for name in job.spec.buffers.keys() {
        let buffer = initial(job, name)?;
        let address = context.malloc(name, buffer.bytes.len() as u64)?;
        context.write(address, &buffer.bytes);
        addresses.insert(name.clone(), address);
        buffers.insert(name.clone(), Layout { ty: buffer.ty, len: buffer.len() });
    }
    let mut runner = Runner {
        job,
        context,
        module,
        addresses,
        buffers,
        launched: 0,
        stop,
        progress,
        simulated: Duration::ZERO,
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
        runner.synchronize()
    });
    if let Err(SimError::Input(errors)) = ran {
        return Err(SimError::Input(errors));
    }
    let ran = ran.map_err(|error| match (error, memory::exceeded()) {
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
        let mut bytes = vec![0; buffer.bytes()];
        runner.context.read(address, &mut bytes);
        results.insert(name.clone(), HostBuffer { ty: buffer.ty, bytes });
    }
    let contents = ran.is_ok().then(|| runner.contents());
    let simulated = runner.simulated;
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

struct Runner<'r> {
    job: &'r Job,
    context: &'r mut Context,
    module: usize,
    addresses: BTreeMap<String, u64>,
    buffers: BTreeMap<String, Layout>,
    launched: u64,
    stop: &'r AtomicBool,
    progress: &'r Progress<'r>,
    simulated: Duration,
}

impl Runner<'_> {
    /// Runs what is queued, on the clock. Not inlined: `benches/instructions.sh` counts inside it.
    #[inline(never)]
    fn synchronize(&mut self) -> Result<(), SimError> {
        let start = Instant::now();
        let result = self.context.synchronize(self.stop, self.progress);
        self.simulated += start.elapsed();
        result
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
                    self.context.write(address, &element.repeat(buffer.len));
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
            let mut now = HostBuffer { ty: buffer.ty, bytes: vec![0; buffer.bytes()] };
            self.context.read(address, &mut now.bytes);
            let index = whole(&until.index, params, "until").map_err(at)?;
            let Some(value) = now.number(index as usize) else {
                return Err(at(wrong(format!("until: `{}` has no element {index}", until.buffer))));
            };
            if value == number(&until.equals, params, "until").map_err(at)? {
                break;
            }
        }
        Ok(())
    }

    /// Two buffers exchange their names.
    fn swap(&mut self, a: &str, b: &str) -> Result<(), SimError> {
        let ((first, at), (second, behind)) = (self.buffer(a)?, self.buffer(b)?);
        if first.len != second.len {
            return Err(wrong(format!(
                "swap: `{a}` has {} elements and `{b}` {}: buffers that exchange their names need the same length",
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

    fn contents(&self) -> Contents {
        let content = |address, bytes| Content::of(self.context, address, bytes);
        let buffers = self.buffers.iter().filter_map(|(name, buffer)| {
            let address = *self.addresses.get(name)?;
            Some((name.clone(), content(address, buffer.bytes() as u64)))
        });
        let variables = self.context.variables(self.module);
        Contents {
            buffers: buffers.collect(),
            variables: variables.map(|(name, at, size)| (name.to_string(), content(at, size))).collect(),
        }
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
        let Some(info) = self.context.entry_info(self.module, &spec.entry) else {
            let known = self.context.entries(self.module).join(", ");
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
        for (at, (argument, param)) in spec.args.iter().zip(&info.params).enumerate() {
            let value = self.argument(&argument.kind, param, params).map_err(|found| {
                let message = format!("argument {} of {}: {}", at + 1, spec.entry, found.message);
                let error = SimError::Input(vec![Diagnostic { message, ..found }]);
                placed(error, argument.place, self.job.spec.source.as_ref())
            })?;
            block[param.offset as usize..][..value.len()].copy_from_slice(&value);
        }
        let size = |list: &[Expr], what: &str| -> Result<[u32; 3], SimError> {
            if list.is_empty() || list.len() > 3 {
                return Err(wrong(format!("{what} needs one to three sizes")));
            }
            let mut out = [1; 3];
            for (slot, expr) in out.iter_mut().zip(list) {
                *slot = whole(expr, params, what)?;
            }
            Ok(out)
        };
        let launch = Launch {
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
            functional: self.job.functional || self.launched < self.job.skip,
        };
        self.launched += 1;
        self.context.launch(&launch)?;
        Ok(())
    }

    /// A value as the workload's file would have it, or the command line where there is no file.
    fn written(&self, ty: &str, value: &str) -> String {
        match self.job.spec.source {
            Some(_) => format!("{{{ty}: {value}}}"),
            None => format!("--arg {ty}:{value}"),
        }
    }

    /// The bytes of an argument, as many as the parameter has.
    fn argument(
        &self,
        argument: &ArgumentKind,
        param: &ParamInfo,
        params: &Params,
    ) -> Result<Vec<u8>, Diagnostic> {
        let error = |message: String| Diagnostic::error("argument", message);
        let (bytes, given) = match argument {
            ArgumentKind::Pointer { buffer, offset } => {
                let mut bytes = self.pointer(buffer, offset.as_ref(), params).map_err(error)?.to_vec();
                // Pointers of programs with .address_size 32.
                bytes.truncate(param.size.clamp(4, 8) as usize);
                if param.ty.is_some_and(|ty| ty.is_float() || ty.bytes() < 4) {
                    let found = error(format!("`{buffer}` is a buffer, parameter {}", described(param)));
                    return Err(found.help(format!("give a value: {}", self.written(named(param), "1"))));
                }
                (bytes, format!("the address of `{buffer}`"))
            }
            ArgumentKind::Scalar { ty, values } => {
                let scalar = ScalarType::named(ty)
                    .ok_or_else(|| error(format!("there is no type `{ty}`")).did_you_mean(ty, TYPES))?;
                if let Some(wanted) = param.ty
                    && !fits(scalar, wanted)
                {
                    let found = error(format!("it is .{ty}, parameter {}", described(param)));
                    return Err(found.help(match wanted {
                        _ if wanted.bytes() == 8 && !wanted.is_float() => {
                            format!(
                                "write {}, or {} for a pointer",
                                self.written(wanted.name(), "…"),
                                if self.job.spec.source.is_some() {
                                    "the name of a buffer"
                                } else {
                                    "--arg buffer:TYPE:LENGTH"
                                }
                            )
                        }
                        _ => format!("write {}", self.written(wanted.name(), "…")),
                    }));
                }
                let mut bytes = Vec::new();
                self.values(scalar, values, params, &mut bytes).map_err(error)?;
                (bytes, format!("{} of .{ty}", values.len()))
            }
            ArgumentKind::Bytes(digits) => (hex(digits).map_err(error)?, "it".to_string()),
            ArgumentKind::Struct(fields) => {
                let mut layout = Fields::default();
                self.fields(fields, params, &mut layout).map_err(error)?;
                let places = layout.places.join(", ");
                (layout.whole(), format!("the struct ({places})"))
            }
        };
        if bytes.len() == param.size as usize {
            return Ok(bytes);
        }
        let found = error(format!("{given} has {} bytes, parameter {}", bytes.len(), described(param)));
        Err(match argument {
            ArgumentKind::Struct(_) => found.help("fields stand at multiples of their sizes, as in C"),
            _ => found,
        })
    }

    fn pointer(&self, buffer: &str, offset: Option<&Expr>, params: &Params) -> Result<[u8; 8], String> {
        let Ok((layout, address)) = self.buffer(buffer) else {
            let known: Vec<&str> = self.buffers.keys().map(String::as_str).collect();
            return Err(format!("there is no buffer `{buffer}`; there are: {}", known.join(", ")));
        };
        let elements = match offset {
            Some(offset) => evaluate(offset, params)?,
            None => Number::ZERO,
        };
        let inside = elements.integer().and_then(|value| usize::try_from(value).ok());
        match inside.filter(|elements| *elements <= layout.len) {
            Some(elements) => Ok((address + elements as u64 * u64::from(layout.ty.bytes())).to_le_bytes()),
            None => {
                Err(format!("`{buffer} + {elements}` does not lie within the {} elements of it", layout.len))
            }
        }
    }

    fn values(
        &self,
        ty: ScalarType,
        values: &[Expr],
        params: &Params,
        bytes: &mut Vec<u8>,
    ) -> Result<(), String> {
        values.iter().try_for_each(|value| push_element(bytes, ty, evaluate(value, params)?))
    }

    /// Lays fields out as C does.
    fn fields(&self, list: &[ArgumentKind], params: &Params, layout: &mut Fields) -> Result<(), String> {
        for field in list {
            match field {
                ArgumentKind::Pointer { buffer, offset } => {
                    let bytes = self.pointer(buffer, offset.as_ref(), params)?;
                    layout.push(8, &bytes, buffer);
                }
                ArgumentKind::Scalar { ty, values } => {
                    let scalar = ScalarType::named(ty).ok_or_else(|| format!("there is no type `{ty}`"))?;
                    let mut bytes = Vec::new();
                    self.values(scalar, values, params, &mut bytes)?;
                    layout.push(scalar.bytes() as usize, &bytes, ty);
                }
                ArgumentKind::Bytes(digits) => layout.push(1, &hex(digits)?, "bytes"),
                ArgumentKind::Struct(inner) => {
                    let mut nested = Fields::default();
                    self.fields(inner, params, &mut nested)?;
                    let align = nested.align;
                    layout.push(align, &nested.whole(), "struct");
                }
            }
        }
        Ok(())
    }
}

/// Names of types as arguments have them.
const TYPES: [&str; 17] = [
    "b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "bf16", "f32",
    "f64", "bytes",
];

/// The bytes of a struct so far.
#[derive(Default)]
struct Fields {
    bytes: Vec<u8>,
    align: usize,
    places: Vec<String>,
}

impl Fields {
    fn push(&mut self, align: usize, bytes: &[u8], name: &str) {
        let align = align.max(1);
        self.align = self.align.max(align);
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        self.places.push(format!("{name} at {}", self.bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    /// All of it, padded to its alignment.
    fn whole(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(self.align.max(1)), 0);
        self.bytes
    }
}

/// A value of a type can be an argument for a parameter of another.
fn fits(given: ScalarType, wanted: ScalarType) -> bool {
    let untyped = given.is_bits() || wanted.is_bits();
    given.bits() == wanted.bits() && (untyped || given.is_float() == wanted.is_float())
}

/// The type of a parameter as an argument would name it.
fn named(param: &ParamInfo) -> &'static str {
    param.ty.map_or("bytes", ScalarType::name)
}

fn described(param: &ParamInfo) -> String {
    match param.ty {
        Some(ty) => format!("`{}` is .{}", param.name, ty.name()),
        None => format!("`{}` has {} bytes", param.name, param.size),
    }
}

/// Parameters with their types.
pub fn declared(params: &[ParamInfo]) -> String {
    let one = |param: &ParamInfo| match param.ty {
        Some(ty) => format!(".{} {}", ty.name(), param.name),
        None => format!("{} bytes {}", param.size, param.name),
    };
    params.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Arguments that such parameters could have, as options of the command line: what has the size of an address
/// is taken for one.
pub fn example(params: &[ParamInfo]) -> String {
    let one = |param: &ParamInfo| match param.ty {
        Some(ScalarType::U64 | ScalarType::B64) => "--arg buffer:u32:1024".to_string(),
        Some(ty) => format!("--arg {}:1", ty.name()),
        None => format!("--arg bytes:{}", "00".repeat(param.size.min(64) as usize)),
    };
    params.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// What is missing, or how many there are too many.
fn arguments_differ(entry: &str, params: &[ParamInfo], given: usize) -> String {
    let takes = match params {
        [] => format!("{entry} takes no arguments"),
        _ => format!("{entry} takes {} arguments ({}), {given} are given", params.len(), declared(params)),
    };
    let names = |params: &[ParamInfo]| -> String {
        params.iter().map(|param| format!("`{}`", param.name)).collect::<Vec<_>>().join(", ")
    };
    match params.get(given..) {
        Some(missing @ [_, ..]) => format!("{takes}: there is none for {}", names(missing)),
        _ => format!("{takes}: {} too many", given - params.len()),
    }
}

fn hex(digits: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    if !digits.len().is_multiple_of(2) {
        return Err("hexadecimal bytes need an even number of digits".into());
    }
    digits
        .chunks(2)
        .map(|pair| {
            let text = std::str::from_utf8(pair).unwrap_or("");
            u8::from_str_radix(text, 16).map_err(|_| format!("`{text}` is no hexadecimal byte"))
        })
        .collect()
}

/// The first contents of a buffer.
fn initial(job: &Job, name: &str) -> Result<HostBuffer, SimError> {
    let Some(spec) = job.spec.buffers.get(name) else {
        return Err(wrong(format!("there is no buffer `{name}`")));
    };
    let source = job.spec.source.as_ref();
    let length = whole(&spec.length, &job.params, &format!("length of `{name}`"))
        .map_err(|error| placed(error, spec.length_place, source))? as usize;
    contents(job, name, spec, length).map_err(|error| placed(error, spec.init_place, source))
}

fn contents(job: &Job, name: &str, spec: &BufferSpec, length: usize) -> Result<HostBuffer, SimError> {
    let ty = spec.ty;
    let bytes = length as u64 * u64::from(ty.bytes());
    let too_large = || {
        wrong(format!(
            "`{name}` has {length} elements of .{}, {bytes} bytes; the host has {} bytes left for the run: fewer \
             elements, or a greater --max-memory",
            ty.name(),
            memory::left()
        ))
    };
    if bytes > memory::left() {
        return Err(too_large());
    }
    let mut buffer = HostBuffer::zeros(ty, length).ok_or_else(too_large)?;
    let fill = |bytes: &mut Vec<u8>, value: &mut dyn FnMut(usize) -> Result<Number, String>| {
        bytes.clear();
        (0..length)
            .try_for_each(|i| push_element(bytes, ty, value(i)?).map_err(|reason| format!("[{i}]: {reason}")))
            .map_err(|reason| wrong(format!("`{name}`{reason}")))
    };
    let put = |buffer: &mut HostBuffer, bytes: &[u8]| {
        if bytes.len() > buffer.bytes.len() {
            return Err(wrong(format!(
                "`{name}` has {} bytes, its contents {}",
                buffer.bytes.len(),
                bytes.len()
            )));
        }
        buffer.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    };
    match &spec.init {
        Init::Zeros => {}
        Init::Iota => fill(&mut buffer.bytes, &mut |i| Ok(Number::from(i as u64)))?,
        Init::Random { seed, min, max } => {
            // Odd multiples of the golden ratio keep streams of neighbouring seeds apart.
            let mut generator = SplitMix64(seed.wrapping_add(job.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            fill(&mut buffer.bytes, &mut |_| generator.next_value(ty, *min, *max))?;
        }
        Init::Formula { modulo, scale, offset } => {
            let modulo = (*modulo).max(1);
            fill(&mut buffer.bytes, &mut |i| {
                let step = i as u64 % modulo;
                Ok(match (scale.integer(), offset.integer()) {
                    (Some(scale), Some(offset)) if !ty.is_float() => {
                        let value = i128::from(step).checked_mul(scale).and_then(|v| v.checked_add(offset));
                        Number::Int(value.ok_or("the value exceeds 127 bits")?)
                    }
                    _ => Number::Real(step as f64 * scale.as_f64() + offset.as_f64()),
                })
            })?;
        }
        Init::Values(values) => {
            let mut bytes = Vec::new();
            values.iter().try_for_each(|value| push_element(&mut bytes, ty, *value)).map_err(wrong)?;
            put(&mut buffer, &bytes)?;
        }
        Init::Hex(digits) => put(&mut buffer, &hex(digits).map_err(wrong)?)?,
        Init::File(file) => buffer.bytes = data_file(job, file, name, ty, length)?,
        Init::Reference(function) => {
            // In the order of names, so that none needs itself.
            let made = call(job, function, |other| other < name)?;
            if made.ty != ty {
                return Err(wrong(format!(
                    "`{function}` makes .{} elements, `{name}` has .{}",
                    made.ty.name(),
                    ty.name()
                )));
            }
            put(&mut buffer, &made.bytes)?;
        }
    }
    Ok(buffer)
}

/// The whole contents of a buffer from a `.npy` file, or from the bytes of any other.
fn data_file(job: &Job, file: &str, name: &str, ty: ScalarType, length: usize) -> Result<Vec<u8>, SimError> {
    let path = job.folder.join(file);
    let shown = path.display();
    // Contents in .npy files have a header besides; `initial` holds them to the buffer's size.
    let bytes = files::read(&path, memory::left() / 2)
        .map_err(|error| wrong(format!("{shown} cannot be read: {}", files::reason(&error))))?;
    let data = match npy::elements(&bytes, ty) {
        Some(found) => found.map_err(|reason| wrong(format!("{shown}: {reason}")))?.to_vec(),
        None => bytes,
    };
    let wanted = length * ty.bytes() as usize;
    if data.len() == wanted {
        return Ok(data);
    }
    let message = format!(
        "{shown} has {} bytes, `{name}` has {wanted}: {length} elements of .{}",
        data.len(),
        ty.name()
    );
    let has = data.len() / (ty.bytes() as usize).max(1);
    let help =
        format!("a file has the whole contents: make the buffer {has} elements long, or the file longer");
    Err(SimError::Input(vec![Diagnostic::error("workload", message).help(help)]))
}

/// Calls a reference that may read the buffers `may` admits.
fn call(job: &Job, name: &str, may: impl Fn(&str) -> bool) -> Result<HostBuffer, SimError> {
    let Some(function) = reference::find(name) else {
        let known: Vec<&str> = reference::names().collect();
        return Err(wrong(format!("there is no reference `{name}`; there are: {}", known.join(", "))));
    };
    let buffers = |buffer: &str| {
        if !may(buffer) || !job.spec.buffers.contains_key(buffer) {
            return Err(ReferenceError(format!("no buffer `{buffer}`")));
        }
        initial(job, buffer).map_err(|error| ReferenceError(error.to_string()))
    };
    let inputs = Inputs { buffers: &buffers, params: &job.params };
    function(&inputs).map_err(|error| wrong(format!("reference `{name}`: {error}")))
}

fn judge(job: &Job, after: &BTreeMap<String, HostBuffer>) -> Result<Verdict, SimError> {
    if job.spec.expect.is_empty() {
        return Ok(Verdict::Unchecked);
    }
    for expectation in &job.spec.expect {
        let Some(got) = after.get(&expectation.buffer) else { continue };
        let source = job.spec.source.as_ref();
        let expected =
            expected(job, expectation, got).map_err(|error| placed(error, expectation.place, source))?;
        if let Some(difference) = difference(&expectation.buffer, got, &expected, expectation.tolerance) {
            return Ok(Verdict::Fail(difference));
        }
    }
    Ok(Verdict::Pass)
}

fn expected(job: &Job, e: &Expectation, got: &HostBuffer) -> Result<HostBuffer, SimError> {
    if let Some(function) = &e.reference {
        return call(job, function, |_| true);
    }
    let mut bytes = Vec::new();
    match (&e.values, &e.file) {
        (Some(values), _) => {
            values.iter().try_for_each(|value| push_element(&mut bytes, got.ty, *value)).map_err(wrong)?;
        }
        (None, Some(file)) => bytes = data_file(job, file, &e.buffer, got.ty, got.len())?,
        (None, None) => {}
    }
    Ok(HostBuffer { ty: got.ty, bytes })
}

/// The first element that differs by more than the tolerance, in words.
fn difference(name: &str, got: &HostBuffer, expected: &HostBuffer, tolerance: Tolerance) -> Option<String> {
    if expected.is_empty() || expected.len() > got.len() || expected.ty.bytes() != got.ty.bytes() {
        return Some(format!(
            "{name} has {} elements of {} bytes, {} of {} are expected",
            got.len(),
            got.ty.bytes(),
            expected.len(),
            expected.ty.bytes()
        ));
    }
    let size = got.ty.bytes() as usize;
    if tolerance == Tolerance::Multiset {
        let sorted = |buffer: &HostBuffer| -> HostBuffer {
            let mut elements: Vec<&[u8]> = buffer.bytes.chunks(size).take(expected.len()).collect();
            elements.sort_unstable();
            HostBuffer { ty: buffer.ty, bytes: elements.concat() }
        };
        let name = format!("{name}, sorted by bytes, ");
        return difference(&name, &sorted(got), &sorted(expected), Tolerance::Exact);
    }
    for i in 0..expected.len() {
        let (a, b) = (&got.bytes[i * size..][..size], &expected.bytes[i * size..][..size]);
        if a == b {
            continue;
        }
        let (Some(x), Some(y)) = (got.number(i), expected.number(i)) else { continue };
        let near = match tolerance {
            Tolerance::Exact | Tolerance::Multiset => false,
            Tolerance::Ulp(n) => ulps(a, b) <= u64::from(n),
            Tolerance::Near { abs, rel } => {
                let apart = match (x, y) {
                    (Number::Int(x), Number::Int(y)) => x.abs_diff(y) as f64,
                    _ => (x.as_f64() - y.as_f64()).abs(),
                };
                apart <= abs + rel * y.as_f64().abs()
            }
        };
        if !near {
            return Some(format!("{name}[{i}] is {x}, {y} is expected"));
        }
    }
    None
}

/// Distance of two floating-point values of equal size, in units in the last place.
fn ulps(a: &[u8], b: &[u8]) -> u64 {
    let ordered = |bytes: &[u8]| -> i64 {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide) as i64;
        let sign = 1i64 << (bytes.len() * 8 - 1);
        if bits & sign == 0 { bits } else { -(bits & !sign) }
    };
    ordered(a).abs_diff(ordered(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances() {
        let got = HostBuffer::from_f32(&[1.0, 2.0]);
        let next = HostBuffer::from_f32(&[1.0, f32::from_bits(2f32.to_bits() + 2)]);
        assert!(difference("x", &got, &next, Tolerance::Exact).is_some());
        assert!(difference("x", &got, &next, Tolerance::Ulp(1)).is_some());
        assert_eq!(difference("x", &got, &next, Tolerance::Ulp(2)), None);
        assert_eq!(difference("x", &got, &next, Tolerance::Near { abs: 1e-5, rel: 0.0 }), None);
        // A relative tolerance is of what is expected, not of what came out.
        let relative = Tolerance::Near { abs: 0.0, rel: 0.1 };
        let (one, more) = (HostBuffer::from_f32(&[1.0]), HostBuffer::from_f32(&[1.105]));
        assert_eq!(difference("x", &one, &more, relative), None);
        assert!(difference("x", &more, &one, relative).is_some());
        assert!(difference("x", &got, &HostBuffer::from_f32(&[]), Tolerance::Exact).is_some());
        let swapped = HostBuffer::from_f32(&[2.0, 1.0]);
        assert!(difference("x", &got, &swapped, Tolerance::Exact).is_some());
        assert_eq!(difference("x", &got, &swapped, Tolerance::Multiset), None);
        let twice = HostBuffer::from_f32(&[2.0, 2.0]);
        assert!(difference("x", &got, &twice, Tolerance::Multiset).is_some());
        assert_eq!(ulps(&0f32.to_le_bytes(), &(-0f32).to_le_bytes()), 0);
    }

    #[test]
    fn hexadecimal() {
        assert_eq!(hex("00 ff1A"), Ok(vec![0, 255, 26]));
        assert!(hex("0").is_err() && hex("zz").is_err());
    }
}
