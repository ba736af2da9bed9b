//! A host for the workloads of the repository, as far as they make their data from formulas.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::workload::{
    ArgumentKind, Expr, HostBuffer, Init, LaunchSpec, Number, Params, Schedule, SplitMix64, Step,
    Termination, WorkloadSpec, evaluate,
};

use sim_memory::vocabulary::ScalarType;

use super::follow::Follower;
use crate::context::{Context, Launch};
use crate::device::{Device, Options};
use crate::reconvergence::registry::PolicyChoice;
use crate::sm::scheduler::WarpScheduler;

/// A GTX 480 under the token stack.
pub(super) fn device() -> Device {
    let chip = include_str!("../../../configs/chips/gtx480.yaml");
    let chip = ChipSpec::load(&Source::new("gtx480.yaml", chip)).expect("a chip");
    let costs = include_str!("../../../configs/isa/2.0.yaml");
    let costs = IsaCosts::load(&Source::new("2.0.yaml", costs)).expect("costs");
    let options = Options {
        max_cycles: Some(100_000_000),
        allow_newer_isa: true,
        schedule_dependent: true,
        ..Options::of(PolicyChoice::parse("crs_stack").expect("a policy"), WarpScheduler::Gto)
    };
    Device::new(Arc::new(chip), Arc::new(costs), options)
}

/// Runs what is queued.
pub(super) fn wait(context: &mut Context) {
    let stop = AtomicBool::new(false);
    context.synchronize(&stop, &|_, _, _| {}).unwrap_or_else(|e| panic!("{e}"));
}

struct Host<'a> {
    context: &'a mut Context,
    module: usize,
    buffers: BTreeMap<String, (u64, HostBuffer)>,
    functional: bool,
}

/// Follows a workload; `None` where the token stack does not run it to its end, or the chip does not.
pub(super) fn follow(
    file: &Path,
    functional: bool,
    smaller: &[(&str, f64)],
) -> Option<Result<Follower, String>> {
    let text = std::fs::read_to_string(file).expect("a workload");
    let spec = WorkloadSpec::load(&Source::new("workload.yaml", &text))
        .unwrap_or_else(|e| panic!("{}", e[0].render()));
    if spec.termination == Termination::FairSchedules {
        return None;
    }
    let mut params: Params = spec.params.clone();
    for (name, value) in smaller {
        params.insert((*name).into(), (*value).into());
    }
    let variant = spec.variant(None, 20).ok()?;
    let ptx = std::fs::read_to_string(file.with_file_name(&variant.file))
        .unwrap_or_else(|e| panic!("{}: {e}", variant.file));
    let mut device = device();
    let id = device.create_context();
    let module = device.load(id, &Source::new(&variant.file, &ptx), false).unwrap_or_else(|e| panic!("{e}"));
    let context = device.context(id).expect("it exists");
    let mut host = Host { context, module, buffers: BTreeMap::new(), functional };
    for (name, buffer) in &spec.buffers {
        let length = count(&buffer.length, &params) as usize;
        let first = initial(&buffer.init, buffer.ty, length, &params);
        let at = host.context.malloc(name, first.bytes.len() as u64).expect("fits");
        host.context.write(at, &first.bytes);
        host.buffers.insert(name.clone(), (at, first));
    }
    Follower::begin(functional);
    host.steps(&spec.launches, &mut params);
    wait(host.context);
    // Only what does not depend on the schedule is as it was issued.
    // And what the host took, it has cleared.
    let comparable =
        (functional || spec.schedule != Schedule::Dependent) && host.context.report().printed.is_empty();
    Some(Follower::end(comparable.then(|| host.context.memory.as_ref())))
}

fn number(expr: &Expr, params: &Params) -> Number {
    evaluate(expr, params).unwrap_or_else(|e| panic!("{e}"))
}

fn count(expr: &Expr, params: &Params) -> u64 {
    let value = number(expr, params);
    value
        .integer()
        .and_then(|value| value.try_into().ok())
        .unwrap_or_else(|| panic!("{value} is not a count"))
}

fn element(ty: ScalarType, value: Number) -> Vec<u8> {
    HostBuffer::element(ty, value).unwrap_or_else(|e| panic!("{e}"))
}

/// First contents. In the place of the graphs that the command makes stands one whose every node
/// has the same degree: what matters here is that two machines do the same.
fn initial(init: &Init, ty: ScalarType, length: usize, params: &Params) -> HostBuffer {
    let param = |name: &str| params.get(name).map_or(1.0, |value| value.as_f64());
    let mut buffer = HostBuffer::zeros(ty, length).expect("the host has room");
    let mut numbers = SplitMix64(if let Init::Random { seed, .. } = init { *seed } else { 0 });
    let bytes = ty.bytes() as usize;
    for (i, place) in buffer.bytes.chunks_exact_mut(bytes).enumerate() {
        let value = match init {
            Init::Iota => Number::from(i as u64),
            Init::Random { min, max, .. } => {
                numbers.next_value(ty, *min, *max).unwrap_or_else(|e| panic!("{e}"))
            }
            Init::Formula { modulo, scale, offset } => {
                let step = Number::from(i as u64 % modulo);
                match (step, scale, offset) {
                    (Number::Int(step), Number::Int(scale), Number::Int(offset)) => {
                        Number::Int(step * scale + offset)
                    }
                    _ => Number::Real(step.as_f64() * scale.as_f64() + offset.as_f64()),
                }
            }
            Init::Values(values) => values.get(i).copied().unwrap_or(Number::ZERO),
            Init::Reference(name) => match name.as_str() {
                "graph_rows" => Number::Real(i as f64 * param("degree")),
                "graph_edges" => Number::Real((i as f64 * 7919.0 + 13.0) % param("n")),
                "first_level" if i == 0 => Number::ZERO,
                "first_level" => Number::Int(-1),
                other => panic!("no contents like {other}"),
            },
            Init::Zeros => Number::ZERO,
            Init::Hex(_) | Init::File(_) => panic!("no contents from digits or files"),
        };
        place.copy_from_slice(&element(ty, value));
    }
    buffer
}

impl Host<'_> {
    fn steps(&mut self, steps: &[Step], params: &mut Params) {
        for step in steps {
            match step {
                Step::Launch(launch) => self.launch(launch, params),
                Step::Fill { fill } => {
                    wait(self.context);
                    let (at, buffer) = &self.buffers[&fill.buffer];
                    let element = element(buffer.ty, number(&fill.value, params));
                    self.context.write(*at, &element.repeat(buffer.len()));
                    Follower::host_writes();
                }
                Step::Loop { body } => {
                    for pass in 0..count(&body.max_iterations, params) {
                        if let Some(name) = &body.index {
                            params.insert(name.clone(), pass.into());
                        }
                        self.steps(&body.launches, params);
                        for [a, b] in &body.swap {
                            let (first, second) = (self.buffers[a].clone(), self.buffers[b].clone());
                            self.buffers.insert(a.clone(), second);
                            self.buffers.insert(b.clone(), first);
                        }
                        let Some(until) = &body.until else { continue };
                        wait(self.context);
                        let (at, buffer) = &mut self.buffers.get_mut(&until.buffer).expect("a buffer");
                        self.context.read(*at, &mut buffer.bytes);
                        let index = count(&until.index, params) as usize;
                        if buffer.number(index) == Some(number(&until.equals, params)) {
                            break;
                        }
                    }
                }
            }
        }
    }

    fn launch(&mut self, spec: &LaunchSpec, params: &Params) {
        let info = self.context.entry_info(self.module, &spec.entry).expect("an entry");
        let size = info.params.last().map_or(0, |p| p.offset + p.size);
        let mut bytes = vec![0u8; size as usize];
        for (argument, param) in spec.args.iter().zip(&info.params) {
            let value = match &argument.kind {
                ArgumentKind::Pointer { buffer, offset: None } => {
                    self.buffers[buffer].0.to_le_bytes()[..param.size as usize].to_vec()
                }
                ArgumentKind::Bytes(digits) => (0..digits.len() / 2)
                    .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("digits"))
                    .collect(),
                ArgumentKind::Scalar { ty, values } => {
                    let ty = ScalarType::named(ty).expect("a type");
                    values.iter().flat_map(|value| element(ty, number(value, params))).collect()
                }
                other => panic!("no workload here has {other:?}"),
            };
            bytes[param.offset as usize..][..value.len()].copy_from_slice(&value);
        }
        let sizes = |list: &[Expr]| {
            let mut out = [1; 3];
            out.iter_mut().zip(list).for_each(|(slot, expr)| *slot = count(expr, params) as u32);
            out
        };
        let launch = Launch {
            module: self.module,
            entry: spec.entry.clone(),
            grid: sizes(&spec.grid),
            block: sizes(&spec.block),
            dynamic_shared: spec.dynamic_shared.as_ref().map_or(0, |e| count(e, params) as u32),
            stream: spec.stream,
            params: bytes,
            functional: self.functional,
            cluster: None,
            non_portable_cluster: false,
        };
        self.context.launch(&launch).unwrap_or_else(|e| panic!("{e}"));
    }
}
