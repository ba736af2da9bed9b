//! What does a launch cost besides its kernel? An empty one of one block, launched through the interface that CUDA's
//! runtime is built on: queued, run, its report taken.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim_frontend::diagnostic::Source;
use warpsim::device::{Device, DeviceRequest, Kernel, Module};

const PTX: &str =
    ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry empty(.param .u64 p) { ret; }";

/// Launches of one measurement.
const LAUNCHES: u64 = 1000;

fn device(functional: bool) -> (Device, Module) {
    let request = DeviceRequest { chip: "rtx2080ti".into(), functional, ..DeviceRequest::default() };
    let mut device = Device::new(&request).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let module = device.load(&Source::new("empty.ptx", PTX)).expect("correct PTX");
    (device, module)
}

fn launches(device: &mut Device, kernel: &Kernel) {
    for _ in 0..LAUNCHES {
        device.launch(kernel).expect("a launch");
        device.synchronize(&|_, _, _| {}).expect("no fault");
        let run = device.take().expect("nothing is queued");
        assert_eq!(run.report.kernels.len(), 1);
    }
}

fn launch(c: &mut Criterion) {
    let mut group = c.benchmark_group("launch");
    group.throughput(Throughput::Elements(LAUNCHES));
    for (mode, functional) in [("timed", false), ("functional", true)] {
        for blocks in [1, 68] {
            let (mut device, module) = device(functional);
            let kernel = Kernel::new(module, "empty", [blocks, 1, 1], [64, 1, 1], &[0; 8]);
            group.bench_function(format!("{mode}, blocks: {blocks}"), |b| {
                b.iter(|| launches(&mut device, &kernel))
            });
        }
    }
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = launch }
criterion_main!(benches);
