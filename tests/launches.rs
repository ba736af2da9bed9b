//! Launches of a program written down as workloads, and functional launches that warm L2.

#![allow(missing_docs, reason = "tests")]

use sim_frontend::diagnostic::Source;
use warpsim::device::{Device, DeviceRequest, Kernel, Module};
use warpsim::request::{Program, Request};
use warpsim::run::measure;

const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 total = 5;
.const .align 4 .u32 step = 3;
.visible .entry add(.param .u64 at, .param .u32 n) {
    .reg .b64 %a, %b;
    .reg .b32 %r, %s, %t;
    .reg .pred %p;
    ld.param.u64 %a, [at];
    ld.param.u32 %s, [n];
    mov.u32 %t, %tid.x;
    setp.ge.u32 %p, %t, %s;
    @%p ret;
    mul.wide.u32 %b, %t, 4;
    add.s64 %a, %a, %b;
    ld.global.u32 %r, [%a];
    ld.const.u32 %s, [step];
    add.u32 %r, %r, %s;
    st.global.u32 [%a], %r;
    atom.global.add.u32 %r, [total], 1;
    ret;
}
";

fn device() -> (Device, Module) {
    let request = DeviceRequest { chip: "v100".into(), ..DeviceRequest::default() };
    let mut device = Device::new(&request).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let module = device.load(&Source::new("add.ptx", PTX)).unwrap_or_else(|error| panic!("{error}"));
    (device, module)
}

fn add(module: Module, at: u64, n: u32) -> Kernel {
    let params = [&at.to_le_bytes()[..], &n.to_le_bytes()].concat();
    Kernel::new(module, "add", [1; 3], [64, 1, 1], &params)
}

#[test]
fn a_recorded_launch_takes_the_cycles_it_took_in_its_program() {
    let (mut device, module) = device();
    let folder = tempfile::tempdir().expect("a folder");
    // Something else lies before the buffer, and something was freed.
    let [gap, other, at] = [5000, 100, 256].map(|bytes| device.malloc("x", bytes, 1).expect("fits"));
    device.free(gap, 1).expect("it was allocated");
    device.write(other, &[1; 100]).expect("allocated");
    device.write(at, &[2; 256]).expect("allocated");
    let mut run = |kernel: &Kernel, record: Option<u64>| {
        let recording = record.map(|_| device.recording(kernel).expect("nothing is queued"));
        device.launch(kernel).expect("a launch");
        device.synchronize(&|_, _, _| {}).expect("no fault");
        let cycles = device.take().expect("nothing is queued").report.cycles;
        let written = recording.zip(record).map(|(recording, number)| {
            recording.write(&mut device, folder.path(), number).expect("it can be written")
        });
        (cycles, written)
    };
    let (first, workload) = run(&add(module, at, 64), Some(0));
    run(&add(module, at + 128, 7), None);
    let (later, again) = run(&add(module, at, 60), Some(2));
    assert!(first > 0 && later > 0);
    for (workload, cycles) in [(workload, first), (again, later)] {
        let workload = workload.expect("recorded").display().to_string();
        let mut request = Request::new(Program::named(&workload).expect("a name"));
        request.chip = Some("v100".into());
        let (outcome, _) = measure(request).unwrap_or_else(|errors| panic!("{}", errors[0].render()));
        assert_eq!(outcome.verdict, Some(warpsim::simulate::Verdict::Pass));
        assert_eq!(outcome.report.cycles, cycles, "{workload}");
    }
    let names = std::fs::read_dir(folder.path().join("data")).expect("there is data");
    let names = names.filter_map(|file| file.ok()?.file_name().into_string().ok());
    assert_eq!(
        names.filter(|name| name.ends_with("-100.zst")).count(),
        1,
        "what did not change is stored once"
    );
}

#[test]
fn functional_launches_warm_l2_where_that_is_asked_for() {
    let cycles = |warm: usize| {
        let (mut device, module) = device();
        device.warm(warm).expect("a context");
        let at = device.malloc("x", 256, 1).expect("fits");
        let functional = Kernel { functional: true, ..add(module, at, 64) };
        for kernel in [functional, add(module, at, 64)] {
            device.launch(&kernel).expect("a launch");
            device.synchronize(&|_, _, _| {}).expect("no fault");
        }
        device.take().expect("nothing is queued").report.cycles
    };
    assert!(cycles(1) < cycles(0), "{} and {}", cycles(1), cycles(0));
    assert_eq!(cycles(2), cycles(1));
}
