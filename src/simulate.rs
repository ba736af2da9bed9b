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
use sim_frontend::diagnostic::{Diagnostic, Source, Span};
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::program::ParamInfo;
use sim_frontend::ptx::parser::scalar_type;
use sim_frontend::workload::{
    Argument, Expectation, Expr, HostBuffer, Init, LaunchSpec, Params, SplitMix64, Step, Tolerance,
    WorkloadSpec, evaluate,
};
use sim_frontend::yaml::key_span;
use sim_memory::vocabulary::ScalarType;

use crate::files;
use crate::memory;
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
fn placed(error: SimError, place: Option<Span>, source: Option<&Source>) -> SimError {
    match (error, place, source) {
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

fn number(expr: &Expr, params: &Params, what: &str) -> Result<f64, SimError> {
    evaluate(expr, params).map_err(|reason| wrong(format!("{what}: {reason}")))
}

fn whole(expr: &Expr, params: &Params, what: &str) -> Result<u32, SimError> {
    let value = number(expr, params, what)?;
    if value >= 0.0 && value <= f64::from(u32::MAX) && value.fract() == 0.0 {
        Ok(value as u32)
    } else {
        Err(wrong(format!("{what}: {value} is no whole number of 32 bits")))
    }
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
        addresses: &addresses,
        buffers: &buffers,
        launched: 0,
        stop,
        progress,
        simulated: Duration::ZERO,
    };
    let mut params = job.params.clone();
    let ran = runner.steps(&job.spec.launches, &mut params).and_then(|()| {
        if job.skip > runner.launched {
            let message = format!("--skip-launches {}: there are {} launches", job.skip, runner.launched);
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
    let mut results = BTreeMap::new();
    for name in job.spec.expect.iter().map(|e| &e.buffer).chain(&job.dump) {
        let Some(buffer) = buffers.get(name).filter(|_| !results.contains_key(name)) else { continue };
        let mut bytes = vec![0; buffer.bytes()];
        runner.context.read(addresses[name], &mut bytes);
        results.insert(name.clone(), HostBuffer { ty: buffer.ty, bytes });
    }
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
    addresses: &'r BTreeMap<String, u64>,
    buffers: &'r BTreeMap<String, Layout>,
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
                    let element = HostBuffer::element(buffer.ty, number(&fill.value, params, "fill")?);
                    self.context.write(address, &element.repeat(buffer.len));
                }
                Step::Loop { body } => {
                    let passes = whole(&body.max_iterations, params, "max_iterations")?;
                    for pass in 0..passes {
                        if let Some(name) = &body.index {
                            params.insert(name.clone(), pass.into());
                        }
                        self.steps(&body.launches, params)?;
                        let Some(until) = &body.until else { continue };
                        self.synchronize()?;
                        let (buffer, address) = self.buffer(&until.buffer)?;
                        let mut now = HostBuffer { ty: buffer.ty, bytes: vec![0; buffer.bytes()] };
                        self.context.read(address, &mut now.bytes);
                        let index = whole(&until.index, params, "until")?;
                        let value = now.number(index as usize).ok_or_else(|| {
                            wrong(format!("until: `{}` has no element {index}", until.buffer))
                        })?;
                        if value == number(&until.equals, params, "until")? {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn buffer(&self, name: &str) -> Result<(Layout, u64), SimError> {
        match (self.buffers.get(name), self.addresses.get(name)) {
            (Some(buffer), Some(address)) => Ok((*buffer, *address)),
            _ => Err(wrong(format!("there is no buffer `{name}`"))),
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
            return Err(wrong(format!(
                "{} takes {} arguments, {} are given",
                spec.entry,
                info.params.len(),
                spec.args.len()
            )));
        }
        let bytes = info.params.last().map_or(0, |p| p.offset + p.size);
        let mut block = vec![0u8; bytes as usize];
        for (argument, param) in spec.args.iter().zip(&info.params) {
            let value = self.argument(argument, param, params)?;
            if value.len() != param.size as usize {
                return Err(wrong(format!(
                    "{}: argument `{}` has {} bytes, the parameter {}",
                    spec.entry,
                    param.name,
                    value.len(),
                    param.size
                )));
            }
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

    fn argument(&self, argument: &Argument, param: &ParamInfo, params: &Params) -> Result<Vec<u8>, SimError> {
        match argument {
            Argument::Buffer(name) => {
                let (_, address) = self.buffer(name)?;
                Ok(address.to_le_bytes()[..(param.size as usize).min(8)].to_vec())
            }
            Argument::Scalar(pair) => {
                let Some((ty, value)) = pair.iter().next().filter(|_| pair.len() == 1) else {
                    return Err(wrong(format!("argument `{}` needs one type and value", param.name)));
                };
                if ty == "bytes" {
                    return match value {
                        Expr::Text(digits) => hex(digits).map_err(wrong),
                        Expr::Number(_) => Err(wrong("bytes are written as a text of hexadecimal digits")),
                    };
                }
                let Some(scalar) = scalar_type(ty) else {
                    return Err(wrong(format!("argument `{}`: there is no type `{ty}`", param.name)));
                };
                Ok(HostBuffer::element(scalar, number(value, params, &param.name)?))
            }
        }
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
    let length = whole(&spec.length, &job.params, &format!("length of `{name}`")).map_err(|error| {
        let source = job.spec.source.as_ref();
        placed(error, source.and_then(|source| key_span(source, &["buffers", name])), source)
    })? as usize;
    let ty = spec.ty;
    let mut buffer = HostBuffer::zeros(ty, length);
    let fill = |bytes: &mut Vec<u8>, value: &mut dyn FnMut(usize) -> f64| {
        bytes.clear();
        (0..length).for_each(|i| bytes.extend(HostBuffer::element(ty, value(i))));
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
        Init::Iota => fill(&mut buffer.bytes, &mut |i| i as f64),
        Init::Random { seed, min, max } => {
            // Odd multiples of the golden ratio keep streams of neighbouring seeds apart.
            let mut generator = SplitMix64(seed.wrapping_add(job.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            fill(&mut buffer.bytes, &mut |_| generator.next_value(ty, *min, *max));
        }
        Init::Formula { modulo, scale, offset } => {
            let modulo = (*modulo).max(1);
            fill(&mut buffer.bytes, &mut |i| (i as u64 % modulo) as f64 * scale + offset);
        }
        Init::Values(values) => {
            let bytes: Vec<u8> = values.iter().flat_map(|v| HostBuffer::element(ty, *v)).collect();
            put(&mut buffer, &bytes)?;
        }
        Init::Hex(digits) => put(&mut buffer, &hex(digits).map_err(wrong)?)?,
        Init::File(file) => put(&mut buffer, &data_file(job, file)?)?,
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

/// The data of a `.npy` file, or the bytes of any other.
fn data_file(job: &Job, file: &str) -> Result<Vec<u8>, SimError> {
    let path = job.folder.join(file);
    // Contents in .npy files have a header besides; `initial` holds them to the buffer's size.
    let bytes = files::read(&path, memory::left() / 2)
        .map_err(|error| wrong(format!("{} cannot be read: {error}", path.display())))?;
    if !bytes.starts_with(b"\x93NUMPY") {
        return Ok(bytes);
    }
    let length = match bytes.get(6) {
        Some(1) => bytes.get(8..10).map(|b| u32::from(u16::from_le_bytes([b[0], b[1]])) + 10),
        _ => bytes.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]).saturating_add(12)),
    };
    let data = length.and_then(|length| bytes.get(length as usize..));
    data.map(<[u8]>::to_vec).ok_or_else(|| wrong(format!("{} is no whole .npy file", path.display())))
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
        let expected = expected(job, expectation, got)?;
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
    let bytes = match (&e.values, &e.file) {
        (Some(values), _) => values.iter().flat_map(|v| HostBuffer::element(got.ty, *v)).collect(),
        (None, Some(file)) => data_file(job, file)?,
        (None, None) => Vec::new(),
    };
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
        let (x, y) = (got.number(i).unwrap_or(f64::NAN), expected.number(i).unwrap_or(f64::NAN));
        let near = match tolerance {
            Tolerance::Exact | Tolerance::Multiset => false,
            Tolerance::Ulp(n) => ulps(a, b) <= u64::from(n),
            Tolerance::Near { abs, rel } => (x - y).abs() <= abs + rel * y.abs(),
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
