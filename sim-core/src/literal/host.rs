//! A host for the workloads of the repository, as far as they make their data from formulas.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::ptx::parser::scalar_type;
use sim_frontend::workload::{
    Argument, Expr, HostBuffer, Init, LaunchSpec, Params, Schedule, SplitMix64, Step, Termination,
    WorkloadSpec, evaluate,
};

use super::follow::Follower;
use crate::context::{Context, Launch};
use crate::device::{Device, Options};
use crate::monitor::Check;
use crate::reconvergence::registry::PolicyChoice;
use crate::sm::scheduler::WarpScheduler;

/// A GTX 480 under the token stack.
pub(super) fn device() -> Device {
    let chip = include_str!("../../../configs/chips/gtx480.yaml");
    let chip = ChipSpec::load(&Source::new("gtx480.yaml", chip)).expect("a chip");
    let costs = include_str!("../../../configs/isa/2.0.yaml");
    let costs = IsaCosts::load(&Source::new("2.0.yaml", costs)).expect("costs");
    let options = Options {
        policy: PolicyChoice::parse("crs_stack").expect("a policy"),
        scheduler: WarpScheduler::Gto,
        threads: 1,
        check: Check::Safety,
        max_cycles: Some(100_000_000),
        allow_newer_isa: true,
        schedule_dependent: true,
        instruction_set: None,
        epoch: None,
        profile: false,
        timeline: None,
        sample: None,
        delay: None,
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
        params.insert((*name).into(), *value);
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
        let length = number(&buffer.length, &params) as usize;
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

fn number(expr: &Expr, params: &Params) -> f64 {
    evaluate(expr, params).unwrap_or_else(|e| panic!("{e}"))
}

/// First contents. In the place of the graphs that the command makes stands one whose every node
/// has the same degree: what matters here is that two machines do the same.
fn initial(
    init: &Init,
    ty: sim_memory::vocabulary::ScalarType,
    length: usize,
    params: &Params,
) -> HostBuffer {
    let param = |name: &str| params.get(name).copied().unwrap_or(1.0);
    let mut buffer = HostBuffer::zeros(ty, length);
    let mut numbers = SplitMix64(if let Init::Random { seed, .. } = init { *seed } else { 0 });
    let size = ty.bytes() as usize;
    for (i, element) in buffer.bytes.chunks_exact_mut(size).enumerate() {
        let value = match init {
            Init::Iota => i as f64,
            Init::Random { min, max, .. } => numbers.next_value(ty, *min, *max),
            Init::Formula { modulo, scale, offset } => (i as u64 % (*modulo).max(1)) as f64 * scale + offset,
            Init::Values(values) => values.get(i).copied().unwrap_or(0.0),
            Init::Reference(name) => match name.as_str() {
                "graph_rows" => i as f64 * param("degree"),
                "graph_edges" => (i as f64 * 7919.0 + 13.0) % param("n"),
                "first_level" => {
                    if i == 0 {
                        0.0
                    } else {
                        -1.0
                    }
                }
                other => panic!("no contents like {other}"),
            },
            Init::Zeros => 0.0,
            Init::Hex(_) | Init::File(_) => panic!("no contents from digits or files"),
        };
        element.copy_from_slice(&HostBuffer::element(ty, value));
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
                    let element = HostBuffer::element(buffer.ty, number(&fill.value, params));
                    self.context.write(*at, &element.repeat(buffer.len()));
                    Follower::host_writes();
                }
                Step::Loop { body } => {
                    for pass in 0..number(&body.max_iterations, params) as u64 {
                        if let Some(name) = &body.index {
                            params.insert(name.clone(), pass as f64);
                        }
                        self.steps(&body.launches, params);
                        let Some(until) = &body.until else { continue };
                        wait(self.context);
                        let (at, buffer) = &mut self.buffers.get_mut(&until.buffer).expect("a buffer");
                        self.context.read(*at, &mut buffer.bytes);
                        let index = number(&until.index, params) as usize;
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
            let value = match argument {
                Argument::Buffer(name) => self.buffers[name].0.to_le_bytes()[..param.size as usize].to_vec(),
                Argument::Scalar(pair) => match pair.iter().next() {
                    Some((ty, Expr::Text(digits))) if ty == "bytes" => (0..digits.len() / 2)
                        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("digits"))
                        .collect(),
                    Some((ty, value)) => {
                        HostBuffer::element(scalar_type(ty).expect("a type"), number(value, params))
                    }
                    None => Vec::new(),
                },
            };
            bytes[param.offset as usize..][..value.len()].copy_from_slice(&value);
        }
        let sizes = |list: &[Expr]| {
            let mut out = [1; 3];
            out.iter_mut().zip(list).for_each(|(slot, expr)| *slot = number(expr, params) as u32);
            out
        };
        let launch = Launch {
            module: self.module,
            entry: spec.entry.clone(),
            grid: sizes(&spec.grid),
            block: sizes(&spec.block),
            dynamic_shared: spec.dynamic_shared.as_ref().map_or(0, |e| number(e, params) as u32),
            stream: spec.stream,
            params: bytes,
            functional: self.functional,
        };
        self.context.launch(&launch).unwrap_or_else(|e| panic!("{e}"));
    }
}
