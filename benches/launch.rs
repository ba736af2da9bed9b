//! What does a launch cost besides its kernel? An empty one of one block, launched through the interface that CUDA's
//! runtime is built on: queued, run, its report taken, its line written. The last lines say red or green; red is exit status 1.

use std::time::Instant;

use criterion::{Criterion, Throughput};
use sim_frontend::diagnostic::Source;
use warpsim::device::program::ProgramRequest;
use warpsim::device::{Device, DeviceRequest, Kernel, Module};

const PTX: &str = ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry empty(.param .u64 p) { ret; }\n\
    .visible .entry busy(.param .u64 p) {\n\
    .reg .b32 %r<3>; .reg .pred %p; mov.u32 %r0, 0; mov.u32 %r1, 0;\n\
    $again: mad.lo.u32 %r1, %r1, %r0, 7; add.u32 %r0, %r0, 1; setp.lt.u32 %p, %r0, 100; @%p bra $again; ret; }";

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
        launch_and_write(device, kernel);
    }
}

/// A launch, and the line that CUDA's runtime writes of it.
fn launch_and_write(device: &mut Device, kernel: &Kernel) {
    device.launch(kernel).expect("a launch");
    device.synchronize(&|_, _, _| {}).expect("no fault");
    let run = device.take().expect("nothing is queued");
    let lines = device.lines(&ProgramRequest::default(), &run, None);
    let text = serde_json::to_string(&lines[0]).expect("JSON");
    assert!(lines.len() == 1 && text.len() > 100);
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

/// Microseconds that a launch may cost besides its kernel.
const MOST: f64 = 50.0;
/// Percent of the time of a program that may be spent outside of the simulation of its kernels.
const SHARE: f64 = 2.0;

/// The fastest of several measurements, in seconds.
fn fastest(mut measured: impl FnMut() -> f64) -> f64 {
    (0..10).map(|_| measured()).fold(f64::INFINITY, f64::min)
}

/// Prints whether launches cost as little as they may; what they cost is red or green.
fn judge() -> bool {
    let mut green = true;
    let mut verdict = |what: &str, value: f64, most: f64, unit: &str| {
        let word = if value < most { "green" } else { "red" };
        println!("{word}: {what}: {value:.2} {unit}, {most} {unit} allowed");
        green &= value < most;
    };
    for (mode, functional) in [("timed", false), ("functional", true)] {
        let (mut device, module) = device(functional);
        let kernel = Kernel::new(module, "empty", [1; 3], [64, 1, 1], &[0; 8]);
        let seconds = fastest(|| {
            let start = Instant::now();
            launches(&mut device, &kernel);
            start.elapsed().as_secs_f64()
        });
        verdict(
            &format!("an empty launch, {mode}, written down"),
            seconds * 1e6 / LAUNCHES as f64,
            MOST,
            "µs",
        );
    }
    let (mut device, module) = device(false);
    let kernel = Kernel::new(module, "busy", [136, 1, 1], [256, 1, 1], &[0; 8]);
    let share = fastest(|| {
        let (start, before) = (Instant::now(), device.simulated());
        launch_and_write(&mut device, &kernel);
        let simulated = (device.simulated() - before).as_secs_f64();
        100.0 * (1.0 - simulated / start.elapsed().as_secs_f64())
    });
    verdict("outside of the simulation of 136 blocks of 256 threads", share, SHARE, "%");
    green
}

fn main() {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    launch(&mut criterion);
    criterion.final_summary();
    if !judge() {
        std::process::exit(1);
    }
}
