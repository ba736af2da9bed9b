//! Blocks, grids, contexts, the device (CS §5.5–5.8).

use sim_core::context::{ContextOutput, Launch};
use sim_core::device::{ContextId, DeviceOutput};
use sim_core::error::SimError;
use sim_core::reconvergence::registry::POLICIES;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;

use crate::machine::{Run, chip, device, every_way, module, timed};

#[test]
fn block_exec_grid_exec_every_thread_of_every_block_runs_once() {
    let text = module("", "atom.global.add.u32 %a, [%own], 1;\nadd.u32 %r, %a, 1;");
    assert_eq!(every_way(&text, 50, 70), vec![1; 3500]);
}

/// Ten blocks, then five, each of which stores the clock.
fn two_grids(chip_of: impl FnOnce(&mut ChipSpec)) -> Run {
    let mut run =
        Run::new(device(chip(chip_of), "crs_stack"), &module("", "mov.u32 %r, %clock;"), false, 320);
    assert_eq!(run.launch(10, 32, false).expect("allowed"), 0);
    assert_eq!(run.launch(5, 32, false).expect("allowed"), 1);
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    run
}

/// The messages of a context, those of its making aside.
fn messages(run: &mut Run) -> Vec<(ContextId, ContextOutput)> {
    let of_context = |output: &DeviceOutput| match output {
        DeviceOutput::Context(id, message) => Some((*id, *message)),
        _ => None,
    };
    run.device.outputs().iter().filter_map(of_context).collect()
}

#[test]
fn block_compl_a_block_leaves_its_slot_to_the_next() {
    // An SM that holds one block runs all fifteen.
    let mut run = two_grids(|c| {
        c.limits.num_processors = 1;
        c.limits.max_resident_blocks = 1;
    });
    assert_eq!(run.report().by_sm[0].blocks, 15);
}

#[test]
fn grid_compl_a_grid_ends_with_its_last_block() {
    let mut run = two_grids(|_| {});
    let report = run.report();
    // The second grid, whose blocks overwrote the clocks of the first ones, began when the first had ended.
    let words = run.words();
    let [second, first] = [&words[..160], &words[160..]].map(|part| part.to_vec());
    let last = first.iter().max().copied().expect("clocks");
    assert!(report.kernels[0].end_cycle > u64::from(last), "{} and {last}", report.kernels[0].end_cycle);
    assert!(second.iter().all(|clock| u64::from(*clock) > report.kernels[0].end_cycle));
}

#[test]
fn ctx_compl_a_context_without_grids_has_nothing_left_to_do() {
    let mut run = two_grids(|_| {});
    let before = run.report().cycles;
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run.report().cycles, before);
}

#[test]
fn cio_compl_ctx_out_grids_are_reported_as_complete_in_their_order() {
    let mut run = two_grids(|_| {});
    let context = run.context;
    let all = messages(&mut run);
    let done: Vec<_> = all.iter().filter(|(_, m)| matches!(m, ContextOutput::Completed(_))).collect();
    let expected = [0, 1].map(|grid| (context, ContextOutput::Completed(grid)));
    assert_eq!(done, expected.iter().collect::<Vec<_>>());
    assert!(messages(&mut run).is_empty(), "each message goes out once");
}

#[test]
fn cio_compl_ctx_out_functional_grids_are_reported_as_complete_too() {
    let mut run = Run::new(device(chip(|_| {}), "crs_stack"), &module("", "mov.u32 %r, 7;"), false, 64);
    assert_eq!(run.launch(2, 32, true).expect("allowed"), 0);
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    let context = run.context;
    let all = messages(&mut run);
    assert_eq!(all, [ContextOutput::Started(0), ContextOutput::Completed(0)].map(|m| (context, m)));
}

#[test]
fn cio_start_ctx_start_a_launch_makes_a_grid_and_says_so() {
    let mut run = two_grids(|_| {});
    let context = run.context;
    let all = messages(&mut run);
    let begun: Vec<_> = all.iter().filter(|(_, m)| matches!(m, ContextOutput::Started(_))).collect();
    let expected = [0, 1].map(|grid| (context, ContextOutput::Started(grid)));
    assert_eq!(begun, expected.iter().collect::<Vec<_>>());
    assert_eq!(
        run.report().kernels.iter().map(|k| (k.grid_id, k.grid[0])).collect::<Vec<_>>(),
        [(0, 10), (1, 5)]
    );
    // One that is refused makes none.
    assert!(run.launch(0, 32, false).is_err());
    assert!(messages(&mut run).is_empty());
}

#[test]
fn block_idle_ctx_issue_sched_issueblocks_wait_for_a_place_on_an_sm() {
    // One SM that holds one block: blocks run one after another, in order of their index.
    let one = chip(|c| {
        c.limits.num_processors = 1;
        c.limits.max_resident_blocks = 1;
    });
    let mut run = Run::new(device(one, "crs_stack"), &module("", "mov.u32 %r, %clock;"), false, 4 * 32);
    run.launch(4, 32, false).expect("allowed");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    let words = run.words();
    let starts: Vec<u32> = words.chunks(32).map(|block| block[0]).collect();
    assert!(starts.is_sorted_by(|a, b| a < b), "{starts:?}");
    assert_eq!(run.report().kernels[0].resident_blocks, 1);
}

#[test]
fn ctx_exec_sched_grids_up_to_numconkernels_grids_of_other_streams_overlap() {
    let spin = "mov.u32 %a, 0;\nSPIN:\nadd.u32 %a, %a, 1;\nsetp.lt.u32 %p, %a, 200;\n@%p bra SPIN;";
    let spans = |limit: u32, streams: [u32; 2]| {
        let device = device(chip(|c| c.limits.num_con_kernels = limit), "crs_stack");
        let mut run = Run::new(device, &module("", spin), false, 32);
        for stream in streams {
            run.launch_on(stream, 1, 32, false).expect("allowed");
        }
        run.wait().unwrap_or_else(|e| panic!("{e}"));
        let kernels = run.report().kernels;
        (kernels[0].end_cycle, kernels[1].start_cycle)
    };
    let (end, start) = spans(16, [0, 1]);
    assert!(start < end, "they overlap: {start} {end}");
    let (end, start) = spans(1, [0, 1]);
    assert!(start >= end, "one at a time: {start} {end}");
    let (end, start) = spans(16, [3, 3]);
    assert!(start >= end, "one stream keeps its order: {start} {end}");
}

#[test]
fn ctx_in_ctx_abort_cio_abort_end_a_grid_but_not_its_accesses() {
    // Every thread stores and then spins for ever; the abort ends it, the stores are performed.
    let text = module("", "st.global.u32 [%own], 42;\nSPIN:\nbra SPIN;");
    let mut run = Run::new(device(chip(|_| {}), "crs_stack"), &text, false, 500 * 64);
    let grid = run.launch(500, 64, false).expect("allowed");
    let after = run.launch(0, 64, false);
    assert!(after.is_err() || after.is_ok_and(|id| id == grid + 1));
    // The stores issue some 60 cycles after the launch's latency and are in flight at cycle 5,100.
    run.device.context(run.context).expect("it exists").abort(grid, 5_100).expect("it waits");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    let report = run.report();
    assert!(report.kernels[0].aborted);
    let words = run.words();
    let stored = words.iter().filter(|w| **w == 42).count() as u64;
    let resident = report.blocks * 64;
    assert!(report.blocks > 0 && report.blocks < 500, "{}", report.blocks);
    assert!(stored > 0 && stored <= resident, "{stored} of {resident}");
    assert!(report.memory.accesses >= stored / 32, "every access issued was performed");
    assert!(
        !run.device.outputs().contains(&DeviceOutput::Context(run.context, ContextOutput::Completed(grid)))
    );
    // The device is usable afterwards.
    let grid = run.launch(1, 32, false).expect("allowed");
    run.device.context(run.context).expect("it exists").abort(grid, 0).expect("it waits");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    let error = run.device.context(run.context).expect("it exists").abort(grid, 5);
    assert!(matches!(error, Err(SimError::Input(_))));
}

#[test]
fn ctx_abort_ends_threads_wherever_their_policy_has_them() {
    // Threads wait at joins, at a barrier and for a function to return while others go on.
    let function = ".func (.reg .u32 %ro) f(.reg .u32 %ri)\n{\n.reg .pred %p;\n.reg .u32 %a;\nmov.u32 %a, %ri;\n\
        LOOP:\nsub.u32 %a, %a, 1;\nsetp.gt.s32 %p, %a, 0;\n@%p bra LOOP;\nadd.u32 %ro, %ri, 1;\nret;\n}\n";
    let body = "and.b32 %b, %t, 7;\nmov.u32 %c, 8;\nAGAIN:\nsetp.lt.u32 %p, %b, 3;\n@%p bra ONE;\n\
        mul.lo.u32 %a, %b, 9;\ncall (%a), f, (%a);\nadd.u32 %r, %r, %a;\nbra MET;\nONE:\nadd.u32 %r, %r, 5;\nMET:\n\
        bar.sync 0;\nsub.u32 %c, %c, 1;\nsetp.ne.u32 %q, %c, 0;\n@%q bra AGAIN;";
    let text = module(function, body);
    for policy in POLICIES {
        let fresh =
            || Run::new(device(chip(|c| c.limits.num_processors = 2), policy.name), &text, false, 8 * 64);
        let mut whole = fresh();
        whole.launch(8, 64, false).expect("allowed");
        whole.wait().unwrap_or_else(|e| panic!("{}: {e}", policy.name));
        let (expected, cycles) = (whole.words(), whole.report().cycles);
        let mut ended = 0;
        for part in [1, 3, 5, 7] {
            let mut run = fresh();
            let grid = run.launch(8, 64, false).expect("allowed");
            run.device
                .context(run.context)
                .expect("it exists")
                .abort(grid, cycles * part / 9)
                .expect("it waits");
            run.wait().unwrap_or_else(|e| panic!("{} at {part}/9: {e}", policy.name));
            ended += u64::from(run.report().kernels[0].aborted);
            run.launch(8, 64, false).expect("allowed");
            run.wait().unwrap_or_else(|e| panic!("{} after {part}/9: {e}", policy.name));
            assert!(run.words() == expected, "{} after an abort at {part}/9", policy.name);
        }
        assert!(ended >= 3, "{}: {ended}", policy.name);
    }
}

#[test]
fn dev_create_dio_create_link_newctx_link_newvm_contexts_share_nothing() {
    let text = module("", "ld.global.u32 %r, [%own];\nadd.u32 %r, %r, 1;");
    let mut run = Run::new(device(chip(|_| {}), "crs_stack"), &text, false, 32);
    let other = run.device.create_context();
    assert_ne!(other, run.context);
    // Empty: no program to launch.
    let launch = Launch {
        module: 0,
        entry: "k".into(),
        grid: [1; 3],
        block: [32, 1, 1],
        dynamic_shared: 0,
        stream: 0,
        params: run.out.to_le_bytes().to_vec(),
        functional: false,
        cluster: None,
        non_portable_cluster: false,
    };
    assert!(matches!(run.device.launch(other, &launch), Err(SimError::Input(_))));
    let context = run.device.context(other).expect("it exists");
    let address = context.malloc("mine", 128).expect("fits");
    context.write(address, &[9; 128]);
    run.launch(1, 32, false).expect("allowed");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run.words(), vec![1; 32], "the other context's bytes are not seen");
    let mut bytes = [0; 128];
    run.device.context(other).expect("it exists").read(address, &mut bytes);
    assert_eq!(bytes, [9; 128], "nor written");
}

/// L2 outlives a run, and copies of the host pass through it: what a kernel reads is what was
/// written last, by a kernel or the host, and comes from L2 where the chip says so.
#[test]
fn l2_outlives_a_run_and_copies_pass_through_it() {
    for fill in [true, false] {
        let text = module("", "ld.global.cg.u32 %r, [%own];\nadd.u32 %r, %r, 1;");
        let chip = chip(|c| c.memory.copies_fill_l2 = fill);
        let mut run = Run::new(device(chip, "crs_stack"), &text, false, 32);
        let mut misses = Vec::new();
        let mut step = |run: &mut Run, host: Option<u32>, expected: u32| {
            let (context, out) = (run.context, run.out);
            if let Some(value) = host {
                let context = run.device.context(context).expect("it exists");
                context.write(out, &value.to_le_bytes().repeat(32));
            }
            run.launch(1, 32, false).expect("allowed");
            run.wait().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(run.words(), vec![expected; 32], "copies fill L2: {fill}");
            misses.push(run.device.context(context).expect("it exists").report().memory.l2.misses);
        };
        step(&mut run, None, 1);
        step(&mut run, None, 2);
        step(&mut run, Some(40), 41);
        step(&mut run, Some(50), 51);
        step(&mut run, None, 52);
        // Counters add up over runs; before the first, nobody wrote.
        assert_eq!(misses, if fill { vec![1; 5] } else { vec![1, 1, 2, 3, 3] });
    }
}

#[test]
fn dev_destroy_dio_destroy_dev_cin_frees_the_contexts_memory() {
    let small = chip(|c| c.limits.global_mem_size = 1 << 20);
    let mut run = Run::new(device(small, "crs_stack"), &module("", ""), false, 32);
    let other = run.device.create_context();
    let fits = |run: &mut Run, bytes: u64| run.device.context(other).map(|c| c.malloc("big", bytes).is_ok());
    assert!(fits(&mut run, 1 << 19).expect("it exists"));
    let big = 3 << 18;
    let context = run.context;
    let again = |run: &mut Run| run.device.context(context).expect("it exists").malloc("big", big).is_ok();
    assert!(!again(&mut run), "contexts share the chip's memory");
    run.device.destroy_context(other).expect("it exists");
    assert!(again(&mut run));
    assert!(run.device.context(other).is_err());
    assert!(run.device.destroy_context(other).is_err());
    let next = run.device.create_context();
    assert_ne!(next, other, "indices are not used again");
}

#[test]
fn dev_load_dio_load_initialises_variables_before_the_first_thread() {
    let globals = ".global .align 4 .u32 table[3] = {5, 6, 7};\n.const .align 4 .u32 four = 4;\n";
    let body = "rem.u32 %a, %t, 3;\nmul.wide.u32 %w, %a, 4;\nmov.u64 %x, table;\nadd.u64 %x, %x, %w;\n\
                ld.global.u32 %r, [%x];\nld.const.u32 %b, [four];\nadd.u32 %r, %r, %b;";
    let expected: Vec<u32> = (0..32).map(|t| 9 + t % 3).collect();
    assert_eq!(every_way(&module(globals, body), 1, 32), expected);
    // A wrong text loads nothing and gives no index.
    let mut device = device(chip(|_| {}), "crs_stack");
    let context = device.create_context();
    assert!(
        device.load(context, &Source::new("w.ptx", ".version 3.0\n.target sm_20\nnonsense"), false).is_err()
    );
    assert_eq!(device.outputs(), vec![DeviceOutput::Created(context)]);
}

#[test]
fn dev_exec_dev_in_dev_out_dev_cout_contexts_run_one_after_another() {
    let mut run = Run::new(device(chip(|_| {}), "crs_stack"), &module("", "mov.u32 %r, 3;"), false, 32);
    let other = run.device.create_context();
    run.device.outputs();
    run.launch(1, 32, false).expect("allowed");
    // Running the other context does not run this one.
    let stop = std::sync::atomic::AtomicBool::new(false);
    run.device.synchronize(other, &stop, &|_, _, _| {}).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run.words(), vec![0; 32]);
    assert!(run.device.outputs().is_empty());
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run.words(), vec![3; 32]);
    let from: Vec<_> = run.device.outputs();
    assert!(from.iter().all(|o| matches!(o, DeviceOutput::Context(id, _) if *id == run.context)));
    assert_eq!(from.len(), 2);
}

#[test]
fn sched_canbescheduled_says_why_a_warp_does_not_issue() {
    let (_, report) = timed(
        &module(
            "",
            "ld.global.u32 %a, [%own];\nadd.u32 %b, %a, 1;\nmul.lo.u32 %b, %b, %b;\nadd.u32 %b, %b, 1;\n\
             setp.lt.u32 %p, %t, 32;\n@%p st.global.u32 [%own], %b;\n@%p membar.gl;\nbar.sync 0;",
        ),
        false,
        1,
        64,
    )
    .unwrap_or_else(|e| panic!("{e}"));
    for reason in ["memory", "dependency", "drain"] {
        assert!(report.stalls[reason] > 0, "{reason}: {:?}", report.stalls);
    }
}

#[test]
fn sched_newgrid_numbers_grids_blocks_and_threads_uniquely() {
    let text = module(
        "",
        "mov.u32 %a, %gridid;\nmov.u32 %b, %ctaid.x;\nmov.u32 %c, %nctaid.x;\nmad.lo.u32 %r, %a, 1000, %b;\n\
         mad.lo.u32 %r, %c, 100000, %r;",
    );
    let mut run = Run::new(device(chip(|_| {}), "crs_stack"), &text, false, 4 * 32);
    run.launch(4, 32, false).expect("allowed");
    run.launch(3, 32, false).expect("allowed");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    let heads: Vec<u32> = run.words().chunks(32).map(|block| block[0]).collect();
    assert_eq!(heads, vec![301_000, 301_001, 301_002, 400_003]);
}

#[test]
fn link_reglookup_special_registers_name_the_thread() {
    let text = module(
        "",
        "mov.u32 %r, %tid.x;\nmov.u32 %a, %ntid.x;\nmad.lo.u32 %r, %a, 1000, %r;\nmov.u32 %a, %ctaid.x;\n\
         mad.lo.u32 %r, %a, 100000, %r;\nmov.u32 %a, %nctaid.x;\nmad.lo.u32 %r, %a, 1000000, %r;",
    );
    let expected: Vec<u32> = (0..100).map(|i| 2_000_000 + i / 50 * 100_000 + 50_000 + i % 50).collect();
    assert_eq!(every_way(&text, 2, 50), expected);
}

#[test]
fn link_memop_cuts_to_the_access_size_and_one_of_several_writers_wins() {
    let text = module(
        "",
        "st.global.u16 [%out], %i;\nbar.sync 0;\nsetp.eq.u32 %p, %i, 0;\n@%p exit;\nmov.u32 %r, 0x10000;\nadd.u32 %r, %r, %i;\nst.global.u16 [%own], %r;\nexit;",
    );
    let words = every_way(&text, 1, 32);
    assert!(words[0] < 32, "a value one of them wrote, cut to 16 bits");
    assert_eq!(words[1..], (1..32).collect::<Vec<u32>>(), "the upper half was not stored");
}

/// Cycles that one warp takes for a load of its lanes, `stride` bytes apart, from shared memory, where a further turn of conflicts adds
/// `conflict_latency`, and each keeps the banks for `turn_interval`.
fn cycles_of_load((conflict_latency, turn_interval): (u32, u32), (load, stride): (&str, u32)) -> u32 {
    let body = format!(
        "mad.lo.u32 %a, %t, {stride}, 0;\nmov.u32 %b, room;\nadd.u32 %a, %a, %b;\n.reg .u32 %v<4>, %begin;\nmov.u32 %begin, %clock;\n\
         {load}\nadd.u32 %b, %v0, 1;\nmov.u32 %c, %clock;\nadd.u32 %b, %b, %c;\nsub.u32 %r, %c, %begin;"
    );
    let one = chip(|c| {
        (c.memory.shared.conflict_latency, c.memory.shared.turn_interval) = (conflict_latency, turn_interval);
    });
    let mut run = Run::new(device(one, "crs_stack"), &module("", &body), false, 32);
    run.launch(1, 32, false).expect("allowed");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    run.words()[0]
}

/// Banks are in use for `turn_interval` cycles in each turn.
#[test]
fn turns_keep_the_banks_for_their_interval() {
    let cycles = |turn_interval: u32, loads: &str| {
        let body = format!(
            "mad.lo.u32 %a, %t, 4, 0;\nmov.u32 %b, room;\nadd.u32 %a, %a, %b;\n.reg .u32 %v<9>, %begin;\nmov.u32 %begin, %clock;\n\
             {loads}\nmov.u32 %c, %clock;\nsub.u32 %r, %c, %begin;"
        );
        let one = chip(|c| c.memory.shared.turn_interval = turn_interval);
        let mut run = Run::new(device(one, "crs_stack"), &module("", &body), false, 32);
        run.launch(1, 32, false).expect("allowed");
        run.wait().unwrap_or_else(|e| panic!("{e}"));
        run.words()[0]
    };
    let each = |load: &dyn Fn(u32) -> String| (0..8).map(load).collect::<Vec<_>>().join("\n");
    let words = each(&|k| format!("ld.shared.u32 %v{k}, [%a];"));
    let bytes = each(&|k| format!("ld.shared.u8 %v{k}, [%a];"));
    for loads in [&words, &bytes] {
        assert_eq!(cycles(200, loads) - cycles(100, loads), 7 * 100, "{loads}");
    }
}

/// What a wide access takes more than one turn for without conflicts is no conflict.
#[test]
fn turns_beyond_those_that_an_access_needs_take_the_latency_of_conflicts() {
    const BYTE: &str = "ld.shared.u8 %v0, [%a];";
    const WORD: &str = "ld.shared.u32 %v0, [%a];";
    const TWO: &str = "ld.shared.v2.u32 {%v0, %v1}, [%a];";
    const FOUR: &str = "ld.shared.v4.u32 {%v0, %v1, %v2, %v3}, [%a];";
    const ATOMIC: &str = "atom.shared.add.u32 %v0, [%a], 1;";
    for (load, conflicts) in [
        ((WORD, 4), 0),
        ((WORD, 8), 1),
        ((WORD, 128), 31),
        ((BYTE, 1), 0),
        ((BYTE, 128), 31),
        ((TWO, 8), 0),
        ((TWO, 16), 2),
        ((FOUR, 0), 0),
        ((FOUR, 16), 0),
        ((FOUR, 32), 4),
        // Lanes of an atomic wait for locks.
        ((ATOMIC, 128), 0),
    ] {
        let more = cycles_of_load((11, 1), load) - cycles_of_load((1, 1), load);
        assert_eq!(more, 10 * conflicts, "{load:?}");
    }
}

/// A turn that keeps the banks for longer comes as much later, the further ones of a wide access too.
#[test]
fn turns_that_take_longer_add_to_the_latency() {
    const WORD: &str = "ld.shared.u32 %v0, [%a];";
    const FOUR: &str = "ld.shared.v4.u32 {%v0, %v1, %v2, %v3}, [%a];";
    for (load, further) in
        [((WORD, 4), 0), ((WORD, 8), 1), ((WORD, 128), 31), ((FOUR, 16), 3), ((FOUR, 32), 7)]
    {
        let more = cycles_of_load((1, 9), load) - cycles_of_load((1, 1), load);
        assert_eq!(more, 8 * further, "{load:?}");
    }
    assert_eq!(cycles_of_load((9, 9), (FOUR, 32)), cycles_of_load((1, 9), (FOUR, 32)));
}
