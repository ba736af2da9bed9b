//! What was measured on an H100 (data/h100/microbenchmarks.jsonl), to the cycle: barriers, chains of operations of two
//! pipelines, fences, and branches; and whole kernels within a tolerance.

#![allow(missing_docs, reason = "tests")]

mod common;

use sim_core::report::DeviceReport;
use sim_frontend::diagnostic::Source;
use warpsim::device::{Device, DeviceRequest, Kernel};

const TIMES: usize = 128;

/// Core cycles that a line takes in a block of so many threads, from kernels that have it so often and twice as often.
fn cycles(line: &str, threads: u32) -> f64 {
    let run = |times: usize| kernel_cycles(&line.repeat(times), threads);
    (run(2 * TIMES) - run(TIMES)) as f64 / TIMES as f64
}

/// A kernel with this body. Each of its threads has a line at `%a`.
fn kernel_text(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .b64 %a;\n.reg .pred %p;\n\
         ld.param.u64 %a, [out];\nmov.u32 %r1, %tid.x;\nmad.wide.u32 %a, %r1, 128, %a;\n\
         add.u32 %r2, %r1, 7;\nxor.b32 %r3, %r2, 5;\n\
         cvt.rn.f32.u32 %f1, %r1;\nadd.f32 %f2, %f1, 0f40000000;\nadd.f32 %f3, %f1, 0f40400000;\n\
         {body}st.global.u32 [%a], %r1;\nst.global.f32 [%a+4], %f1;\nret;\n}}\n"
    )
}

/// Core cycles of a kernel of one block.
fn kernel_cycles(body: &str, threads: u32) -> u64 {
    report(body, threads).cycles
}

/// The report of a kernel of one block.
fn report(body: &str, threads: u32) -> DeviceReport {
    let text = kernel_text(body);
    let request = DeviceRequest { chip: "h100".into(), ..DeviceRequest::default() };
    let mut device = Device::new(&request).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let module = device.load(&Source::new("k.ptx", &text)).unwrap_or_else(|error| panic!("{error}"));
    let out = device.malloc("out", 128 * u64::from(threads.max(64)), 128).expect("fits");
    device.launch(&Kernel::new(module, "k", [1; 3], [threads, 1, 1], &out.to_le_bytes())).expect("a launch");
    device.synchronize(&|_, _, _| {}).expect("no fault");
    device.take().expect("nothing is queued").report
}

#[test]
fn barriers_take_what_they_take_for_each_number_of_warps() {
    for (threads, measured) in [(32, 14.0), (64, 16.0), (128, 20.0), (256, 28.03), (512, 44.03), (1024, 76.0)]
    {
        let ours = cycles("bar.sync 0;\n", threads);
        assert!((ours - measured).abs() <= 1.0, "{threads} threads: {ours}, measured {measured}");
    }
}

#[test]
fn pairs_of_dependent_operations_take_longer_across_pipelines() {
    let xor = "xor.b32 %r1, %r1, %r2;\n";
    let shift = "shf.l.wrap.b32 %r1, %r1, %r2, 3;\n";
    let product = "mad.lo.u32 %r1, %r1, %r3, %r2;\n";
    let [add, fma] = ["add.f32 %f1, %f1, %f2;\n", "fma.rn.f32 %f1, %f1, %f2, %f3;\n"];
    for (pair, measured) in
        [([xor, shift], 8.0), ([add, fma], 8.06), ([xor, product], 10.06), ([shift, product], 10.06)]
    {
        let ours = cycles(&pair.concat(), 32);
        assert!((ours - measured).abs() <= 0.1, "{pair:?}: {ours}, measured {measured}");
    }
}

/// A fence behind a store, which the thread waits for, of the GPU and of the system.
#[test]
fn fences_take_what_they_take_behind_a_store() {
    for (scope, measured) in [("gpu", 753.22), ("sys", 1305.31)] {
        let ours = cycles(&format!("st.global.u32 [%a], %r1;\nfence.acq_rel.{scope};\n"), 32);
        assert!((ours / measured - 1.0).abs() < 0.01, "{scope}: {ours}, measured {measured}");
    }
}

/// A fence of the GPU takes its whole time from where the thread comes to it, whether or not there is a store to wait for.
#[test]
fn fences_take_what_they_take_behind_nothing() {
    let ours = cycles("fence.acq_rel.gpu;\n", 32);
    assert!((ours / 674.05 - 1.0).abs() < 0.01, "{ours}, measured 674.05");
    // Behind another one, which has waited for a store, it begins anew.
    let second = cycles("st.global.u32 [%a], %r1;\nfence.acq_rel.gpu;\nfence.acq_rel.gpu;\n", 32);
    assert!((second - 753.22 - 674.05).abs() < 8.0, "{second}");
    // A store that is nearly done when the thread comes to the fence adds nothing. The fence does not wait for the last sine.
    let work = "sin.approx.f32 %f1, %f1;\n".repeat(14);
    let after = cycles(&format!("st.global.u32 [%a], %r1;\n{work}fence.acq_rel.gpu;\n"), 32);
    assert!((after - cycles(&work, 32) - 674.05).abs() < 30.0, "{after}");
}

/// A loop that is not unrolled takes the time of its guard and of its branch in each iteration.
#[test]
fn loops_take_the_time_of_their_branches() {
    let run = |times: usize| {
        let body = format!(
            "mov.u32 %r8, 0;\nLOOP:\n.pragma \"nounroll\";\nxor.b32 %r1, %r1, %r8;\nadd.u32 %r8, %r8, 1;\n\
             setp.lt.u32 %p, %r8, {times};\n@%p bra LOOP;\n"
        );
        kernel_cycles(&body, 32)
    };
    let (ours, measured) = ((run(2 * TIMES) - run(TIMES)) as f64 / TIMES as f64, 29.32);
    assert!((ours - measured).abs() < 0.5, "{ours}, measured {measured}");
}

/// Kernels of few warps, whose time is that of their chains: as they are ordered, they take what data/silicon.yaml says that they
/// take on an H100. So does one whose threads load what they have stored.
#[test]
fn kernels_of_few_warps_take_their_time() {
    let only = "^(nbody|nbody_half2|sgemm_tiled|sha256)$";
    let words = ["study", "silicon", "--workloads", "--chip", "h100", "--only", only, "--json"];
    let found = common::json(&common::warpsim(&words));
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4, "{found}");
    for row in rows {
        let ratio = row["ratio"].as_f64().expect("a ratio");
        // ptxas puts more chains of nbody side by side in 32 registers.
        let within = if row["kernel"] == "nbody" { 0.28 } else { 0.12 };
        assert!((ratio - 1.0).abs() < within, "{row}");
    }
}

#[test]
fn l2_fetches_pairs_of_sectors() {
    let loads = |first: u32, step: usize| -> String {
        let at = (first..64 * 128).step_by(step);
        at.map(|at| format!("ld.global.u32 %r4, [%a+{at}];\nadd.u32 %r1, %r1, %r4;\n")).collect()
    };
    // A sector of each of 64 lines: 131,072 lines took 262,248 sectors (data/h100/kernels.csv).
    let dram = |body: &str| report(body, 1).memory.dram.bytes / 32;
    assert_eq!((dram(&loads(0, 128)), dram(&loads(96, 128))), (128, 128));
    // The other sector of the pair is there, in whatever order they come.
    assert_eq!(dram(&(loads(0, 128) + &loads(32, 128))), 128);
    assert_eq!(dram(&(loads(32, 128) + &loads(64, 128) + &loads(0, 128))), 256);
    assert_eq!(dram(&loads(0, 32)), 256);
}

/// Code of 8 KB, launched twice: each launch finds the first instruction cache empty.
#[test]
fn each_launch_fetches_its_code() {
    let chains = "fma.rn.f32 %f1, %f1, %f3, %f3;\nfma.rn.f32 %f2, %f2, %f3, %f3;\n".repeat(256);
    let body = format!("{chains}add.f32 %f1, %f1, %f2;\n");
    let text = kernel_text(&body);
    let request = |set: &[&str]| DeviceRequest {
        chip: "h100".into(),
        set: set.iter().map(|one| (*one).to_string()).collect(),
        ..DeviceRequest::default()
    };
    let run = |set: &[&str]| {
        let mut device = Device::new(&request(set)).unwrap_or_else(|errors| panic!("{}", errors[0]));
        let module = device.load(&Source::new("k.ptx", &text)).unwrap_or_else(|error| panic!("{error}"));
        let out = device.malloc("out", 128, 128).expect("fits");
        for _ in 0..2 {
            device
                .launch(&Kernel::new(module, "k", [1; 3], [1, 1, 1], &out.to_le_bytes()))
                .expect("a launch");
        }
        device.synchronize(&|_, _, _| {}).expect("no fault");
        device.take().expect("nothing is queued").report
    };
    let cycles = |report: &DeviceReport| -> Vec<u64> { report.kernels.iter().map(|k| k.cycles).collect() };
    let off = ["sm.instruction_cache.interval=0", "sm.instruction_cache.second_interval=0"];
    let (with, without) = (run(&[]), run(&off));
    let more: Vec<i64> = cycles(&with)
        .iter()
        .zip(cycles(&without))
        .map(|(with, without)| *with as i64 - without as i64)
        .collect();
    // Two chains of 4 cycles a product issue every second cycle, 16 a line, which takes 22.
    assert!(more.iter().all(|more| (330..=450).contains(more)), "{more:?}");
    assert!(with.stalls["fetch"] >= 660 && without.stalls["fetch"] == 0, "{:?}", with.stalls);
}
