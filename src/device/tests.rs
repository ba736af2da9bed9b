use super::*;

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
    ret;
}
.visible .entry wide() .maxntid 96, 1, 1 { .shared .align 4 .b8 s[128]; .reg .b32 %r; ld.shared.u32 %r, [s]; ret; }
";

fn device(functional: bool) -> (Device, Module) {
    let request = DeviceRequest { chip: "v100".into(), functional, ..DeviceRequest::default() };
    let mut device = Device::new(&request).unwrap_or_else(|e| panic!("{}", e[0]));
    let module = device.load(&Source::new("add.ptx", PTX)).unwrap_or_else(|e| panic!("{e}"));
    (device, module)
}

fn add(module: Module, at: u64, n: u32) -> Kernel {
    let mut params = at.to_le_bytes().to_vec();
    params.extend(n.to_le_bytes());
    Kernel::new(module, "add", [1; 3], [64, 1, 1], &params)
}

#[test]
fn launches_are_reported_one_by_one_and_the_clock_goes_on() {
    let (mut device, module) = device(false);
    let at = device.malloc("x", 256, 1).expect("fits");
    let numbers: Vec<u8> = (0..64u32).flat_map(u32::to_le_bytes).collect();
    device.write(at, &numbers).expect("allocated");
    let mut runs = Vec::new();
    for launch in 0..3 {
        assert_eq!(device.launch(&add(module, at, 64)).expect("a launch"), launch);
        assert!(device.take().is_none(), "it is queued");
        device.synchronize(&|_, _, _| {}).expect("no fault");
        runs.push(device.take().expect("nothing is queued"));
    }
    let mut back = vec![0; 256];
    device.read(at, &mut back).expect("allocated");
    let expected: Vec<u8> = (0..64u32).flat_map(|i| (i + 9).to_le_bytes()).collect();
    assert_eq!(back, expected);
    assert_eq!(runs.iter().map(|run| run.first).collect::<Vec<_>>(), [0, 1, 2]);
    for pair in runs.windows(2) {
        let report = &pair[0].report;
        assert_eq!(pair[1].start, pair[0].start + report.time_us + report.launch_us);
        assert_eq!(report.kernels.len(), 1);
        assert_eq!(report.warp_instructions, pair[1].report.warp_instructions);
    }
    assert_eq!(device.now(), runs[2].start + runs[2].report.time_us + runs[2].report.launch_us);
}

#[test]
fn a_functional_device_has_results_and_no_cycles() {
    let (mut device, module) = device(true);
    let at = device.malloc("x", 256, 1).expect("fits");
    device.launch(&add(module, at, 8)).expect("a launch");
    device.synchronize(&|_, _, _| {}).expect("no fault");
    let run = device.take().expect("nothing is queued");
    assert!(run.report.kernels[0].functional && run.report.kernels[0].warp_instructions > 0);
    assert_eq!((run.report.cycles, device.now()), (0, Time::default()));
    let mut back = [0; 4];
    device.read(at + 28, &mut back).expect("allocated");
    assert_eq!(back, [3, 0, 0, 0]);
}

#[test]
fn memory_is_allocated_freed_and_bounded() {
    let (mut device, module) = device(true);
    let free = device.free_bytes().expect("a context");
    let at = device.malloc("x", 1 << 20, 4096).expect("fits");
    assert_eq!((at % 4096, free - device.free_bytes().expect("a context")), (0, 1 << 20));
    assert_eq!(device.allocation(at + 100, 4), Some((at, 1 << 20)));
    assert!(device.write(at + (1 << 20) - 2, &[0; 4]).is_err());
    device.free(at, 4096).expect("it begins there");
    assert!(device.free(at, 4096).is_err() && device.read(at, &mut [0]).is_err());
    assert_eq!(device.free_bytes().expect("a context"), free);
    assert!(device.malloc("too much", u64::MAX / 2, 1).is_err());
    // A kernel that uses what was freed is stopped.
    device.launch(&add(module, at, 1)).expect("a launch");
    let error = device.synchronize(&|_, _, _| {}).expect_err("a fault");
    assert!(matches!(&error, SimError::Stopped(fault) if fault.rule == "env-readDevice"), "{error}");
}

#[test]
fn variables_and_attributes_are_the_modules() {
    let (mut device, module) = device(true);
    let total = device.symbol(module, "total").expect("it is there");
    let step = device.symbol(module, "step").expect("it is there");
    assert!(device.symbol(module, "none").is_none());
    let mut word = [0; 4];
    device.read(total.address, &mut word).expect("allocated");
    assert_eq!(word, [5, 0, 0, 0]);
    device.write(step.address, &[9, 0, 0, 0]).expect("the host writes constants");
    let at = device.malloc("x", 4, 1).expect("fits");
    device.launch(&add(module, at, 1)).expect("a launch");
    device.synchronize(&|_, _, _| {}).expect("no fault");
    device.read(at, &mut word).expect("allocated");
    assert_eq!(word, [9, 0, 0, 0]);
    let wide = device.attributes(module, "wide").expect("it is there");
    assert_eq!((wide.max_threads, wide.shared, wide.parameters), (96, 128, 0));
    let add = device.attributes(module, "add").expect("it is there");
    assert_eq!((add.max_threads, add.parameters, add.local), (1024, 12, 0));
    assert!(add.registers >= 4 && device.attributes(module, "none").is_err());
    assert_eq!(device.entry(module, "add").expect("it is there").params.len(), 2);
}

#[test]
fn requests_travel_as_json() {
    let request = DeviceRequest { policy: Some("mimd".into()), threads: 3, ..DeviceRequest::default() };
    let text = serde_json::to_string(&request).expect("JSON");
    assert_eq!(serde_json::from_str::<DeviceRequest>(&text).expect("the same"), request);
    assert_eq!(serde_json::from_str::<DeviceRequest>("{}").expect("defaults"), DeviceRequest::default());
    assert!(serde_json::from_str::<DeviceRequest>("{\"chips\": 1}").is_err());
    for (request, code) in [
        (DeviceRequest { chip: "none".into(), ..DeviceRequest::default() }, "chip"),
        (DeviceRequest { check: "none".into(), ..DeviceRequest::default() }, "check"),
        (DeviceRequest { set: vec!["x".into()], ..DeviceRequest::default() }, "set"),
    ] {
        let errors = request.configured().expect_err("it is wrong");
        assert_eq!(errors[0].code, code);
    }
}

#[test]
fn variables_are_zero_where_other_memory_was() {
    let (mut device, _) = device(true);
    let at = device.malloc("x", 1 << 16, 1).expect("fits");
    device.write(at, &[0xff; 1 << 16]).expect("allocated");
    device.free(at, 1).expect("it begins there");
    let text = ".version 7.0\n.target sm_70\n.address_size 64\n.global .align 4 .b8 room[8192];\n\
                .global .align 4 .u32 words[4] = {5, 6};\n";
    let module = device.load(&Source::new("room.ptx", text)).expect("a module");
    let places = device.variables(module).expect("a context");
    assert!(places.iter().any(|(_, place, _)| (at..at + (1 << 16)).contains(place)), "memory is used again");
    for (name, place, bytes) in places {
        let mut contents = vec![1; bytes as usize];
        device.read(place, &mut contents).expect("allocated");
        let set = usize::from(name == "words") * 2;
        assert_eq!(contents.iter().filter(|byte| **byte != 0).count(), set, "{name}");
    }
}
