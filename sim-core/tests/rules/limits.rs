//! The global constants of CS figure 3.2: what breaks one is refused with an error that names it.

use sim_core::context::Launch;
use sim_core::device::Options;
use sim_core::error::{FaultKind, SimError};
use sim_core::monitor::Check;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;

use crate::machine::{Run, chip, device, device_with, module};

/// Launches `k` of `text` on a changed chip; the error, if it is refused.
fn refusal(
    change: impl FnOnce(&mut ChipSpec),
    text: &str,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic: u32,
) -> Option<String> {
    let mut device = device(chip(change), "crs_stack");
    let context = device.create_context();
    let tried = device.load(context, &Source::new("t.ptx", text), false).and_then(|_| {
        let out = device.context(context)?.malloc("out", 4 << 10)?;
        let launch = Launch {
            module: 0,
            entry: "k".into(),
            grid,
            block,
            dynamic_shared: dynamic,
            stream: 0,
            params: out.to_le_bytes().to_vec(),
            functional: false,
            cluster: None,
            non_portable_cluster: false,
        };
        device.launch(context, &launch)
    });
    match tried {
        Ok(_) => None,
        Err(error @ SimError::Input(_)) => Some(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn launches_that_break_a_global_constant_name_it() {
    let text = module("", "mov.u32 %r, 1;");
    let one = [1, 1, 1];
    let named = |name: &str, refused: Option<String>| {
        let message = refused.unwrap_or_else(|| panic!("{name} was not enforced"));
        assert!(message.contains(name), "{name}: {message}");
    };
    assert_eq!(refusal(|_| {}, &text, [1, 1, 1], [32, 1, 1], 0), None);
    named("MaxBlocksPerGrid", refusal(|c| c.limits.max_blocks_per_grid = 8, &text, [3, 3, 1], one, 0));
    named("MaxGridSize", refusal(|c| c.limits.max_grid_size[1] = 2, &text, [1, 3, 1], one, 0));
    named("MaxGridSize", refusal(|_| {}, &text, [1, 0, 1], one, 0));
    named("MaxBlockSize", refusal(|_| {}, &text, one, [1, 1, 65], 0));
    named("MaxThreadsPerBlock", refusal(|_| {}, &text, one, [1024, 2, 1], 0));
    named("MaxThreadsPerBlock", refusal(|_| {}, &text, one, [0, 1, 1], 0));
    named("MaxProgSize", refusal(|c| c.limits.max_prog_size = 5, &text, one, one, 0));
    named("MaxRegSize", refusal(|c| c.limits.max_reg_size = 3, &text, one, one, 0));
    named("RegFileSize", refusal(|c| c.limits.reg_file_size = 256, &text, one, [1024, 1, 1], 0));
    named("SharedMemSize", refusal(|_| {}, &text, one, one, 48 << 10));
    named(
        "GlobalMemSize",
        refusal(|c| c.limits.global_mem_size = 1 << 10, &text, one, one, 0)
            .map(|m| m.replace("global memory", "GlobalMemSize")),
    );
    let large = |space: &str| module(&format!(".{space} .align 4 .b8 big[70000];\n"), "mov.u32 %r, 1;");
    named("big", refusal(|_| {}, &large("const"), one, one, 0));
    let local = text
        .replace(".reg .pred %p, %q;", ".reg .pred %p, %q;\n.local .align 4 .b8 own[300000], more[300000];");
    named("LocalMemSize", refusal(|_| {}, &local, one, one, 0));
}

#[test]
fn programs_that_break_one_while_they_run_are_faults() {
    let mut run = Run::new(
        device(chip(|c| c.limits.num_barrier_indices = 4), "crs_stack"),
        &module("", "bar.sync 5;"),
        false,
        32,
    );
    run.launch(1, 32, false).expect("allowed");
    let error = run.wait().expect_err("there are four barriers").to_string();
    assert!(error.contains("barrier index 5") && error.contains("t.ptx:"), "{error}");
}

#[test]
fn residency_follows_the_constants() {
    let resident = |change: &dyn Fn(&mut ChipSpec)| {
        let mut run = Run::new(device(chip(change), "crs_stack"), &module("", "mov.u32 %r, 1;"), false, 64);
        run.launch(1, 64, false).expect("allowed");
        run.wait().unwrap_or_else(|e| panic!("{e}"));
        let report = run.report();
        (report.kernels[0].resident_blocks, report.kernels[0].occupancy_limit.clone())
    };
    // 2 warps a block: 8 blocks by MaxResidentBlocks; 4 by 8 warps; 2 by 4608 bytes of shared memory.
    assert_eq!(resident(&|_| {}), (8, "blocks".into()));
    let warps = |c: &mut ChipSpec| {
        c.limits.max_resident_threads = 256;
        c.limits.max_threads_per_block = 256;
    };
    assert_eq!(resident(&warps), (4, "warps".into()));
    assert_eq!(resident(&|c| c.limits.shared_mem_size = 9216).0, 2);
    assert_eq!(resident(&|c| c.limits.reg_file_size = 3 * 2 * 192).0, 3);
}

#[test]
fn chip_files_that_break_one_are_refused_where_they_say_so() {
    let text = include_str!("../../../configs/chips/gtx480.yaml");
    for (from, to, name) in [
        ("WarpSize: 32 ", "WarpSize: 0 ", "WarpSize"),
        ("NumProcessors: 15", "NumProcessors: 0", "NumProcessors"),
        ("NumCores: 32", "NumCores: 31", "NumCores"),
        ("NumConWarps: 2", "NumConWarps: 3", "NumConWarps"),
        ("NumConKernels: 16", "NumConKernels: 0", "NumConKernels"),
        ("MaxMemOpSize: 128", "MaxMemOpSize: 64", "MaxMemOpSize"),
        ("MaxProgSize: 512000000", "MaxProgSize: 0", "MaxProgSize"),
        ("SharedMemBanks: 32", "SharedMemBanks: 31", "SharedMemBanks"),
        ("Level1CacheSize: 16384", "Level1CacheSize: 16000", "Level1CacheSize"),
        ("Level2CacheSize: 786432", "Level2CacheSize: 786433", "Level2CacheSize"),
        ("NumBarrierIndices: 16", "NumBarrierIndices: 40", "NumBarrierIndices"),
        ("MaxResidentBlocks: 8", "MaxResidentBlocks: 0", "MaxResidentBlocks"),
        ("MaxResidentThreads: 1536", "MaxResidentThreads: 1000", "MaxResidentThreads"),
        ("LocalMemSize: 524288", "LocalMemSize: 524289", "LocalMemSize"),
    ] {
        assert!(text.contains(from), "{from}");
        let source = Source::new("c.yaml", &text.replace(from, to));
        let errors = ChipSpec::load(&source).expect_err(name);
        let all: String = errors.iter().map(|e| e.render()).collect();
        assert!(all.contains(&format!("limits.{name}")) && all.contains(to.trim()), "{name}: {all}");
    }
}

/// A loop that only ends when its counter wraps, and a launch of more blocks than anybody waits for.
#[test]
fn max_instructions_stops_either_mode_and_what_is_known_stays() {
    let counts = "L: add.u32 %r, %r, 1;\nsetp.ne.u32 %p, %r, 0;\n@%p bra L;";
    let limited = |functional, threads, epoch, body: &str, grid, most| {
        let options = |o| Options { max_instructions: Some(most), threads, epoch, ..o };
        let mut run =
            Run::new(device_with(chip(|_| {}), "crs_stack", options), &module("", body), false, 1 << 17);
        run.launch(grid, 32, functional).expect("allowed");
        run.launch(1, 32, functional).expect("allowed");
        let error = run.wait().expect_err("it does not end by itself");
        let SimError::MaxInstructions { limit, place, .. } = &error else { panic!("{error}") };
        let place = place.as_ref().expect("somebody still ran");
        assert_eq!((*limit, &*place.kernel), (most, "k"), "{error}");
        assert!(place.line > 0 && error.to_string().contains("--max-instructions"), "{error}");
        (error.to_string(), run.report().kernels.iter().map(|k| k.warp_instructions).sum::<u64>())
    };
    assert_eq!(limited(true, 1, None, counts, 2, 100_000).1, 100_000);
    assert_eq!(limited(true, 1, None, "mov.u32 %r, 1;", 1 << 12, 30_000).1, 30_000);
    // With time it is noticed some cycles later, on the same one for any number of threads and epochs.
    let timed = limited(false, 1, None, counts, 2, 10_000);
    assert!((10_000..10_000 + 64 * 2).contains(&timed.1), "{timed:?}");
    for (threads, epoch) in [(1, Some(1)), (2, None), (3, Some(3))] {
        assert_eq!(limited(false, threads, epoch, counts, 2, 10_000), timed, "{threads} {epoch:?}");
    }
}

#[test]
fn a_launch_that_ends_within_its_instructions_is_not_stopped() {
    for functional in [true, false] {
        let run = |max_instructions| {
            let options = |o| Options { max_instructions, ..o };
            let text = module("", "mov.u32 %r, 1;");
            let mut run = Run::new(device_with(chip(|_| {}), "crs_stack", options), &text, false, 128);
            run.launch(4, 32, functional).expect("allowed");
            let ended = run.wait();
            (ended, run.report().kernels[0].warp_instructions)
        };
        let (ended, all) = run(None);
        assert!(ended.is_ok() && all > 20, "{ended:?}");
        assert!(run(Some(all)).0.is_ok());
        if functional {
            let (ended, executed) = run(Some(all - 1));
            assert_eq!((ended.is_err(), executed), (true, all - 1));
        }
    }
}

#[test]
fn recursion_is_bounded_by_the_stack_of_a_thread() {
    let endless = ".func f () { call.uni f; ret; }";
    let indirect = "proto: .callprototype _ ();\nmov.u64 %x, f;\ncall.uni %x, (), proto;";
    for (functions, body) in [(endless, "call.uni f;"), (endless, indirect)] {
        for policy in ["crs_stack", "functional crs_stack", "pdom_stack", "mimd", "min_pc"] {
            for check in [Check::Off, Check::Safety] {
                let functional = policy.strip_prefix("functional ");
                let options = |o| Options { check, ..o };
                let device = device_with(chip(|_| {}), functional.unwrap_or(policy), options);
                let mut run = Run::new(device, &module(functions, body), false, 128);
                run.launch(2, 64, functional.is_some()).expect("allowed");
                let fault = match run.wait() {
                    Err(SimError::Stopped(fault)) => fault,
                    other => panic!("{policy}: {other:?}"),
                };
                assert_eq!((fault.kind, fault.rule.as_str()), (FaultKind::Fault, "thr-call"), "{policy}");
                for words in ["stack overflow", "call depth is 512", "stack of 8192 bytes"] {
                    assert!(fault.message.contains(words), "{policy}: {}", fault.message);
                }
                assert!(fault.place.instruction.contains("call") && fault.place.line > 0, "{}", fault.place);
            }
        }
    }
    // As deep as the stack holds frames is no fault.
    let deep = ".func f (.reg .u32 n) { .reg .pred %d; setp.eq.u32 %d, n, 0; @%d ret; sub.u32 n, n, 1; \
        call.uni f, (n); ret; }";
    let text = module(deep, "mov.u32 %a, 200;\ncall.uni f, (%a);\nmov.u32 %r, 1;");
    let mut run = Run::new(device(chip(|_| {}), "crs_stack"), &text, false, 32);
    run.launch(1, 32, true).expect("allowed");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
}
