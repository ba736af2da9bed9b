//! What is reported as stuck is stuck, with who goes round and who waits; what may still get on is
//! let run.

use std::sync::Arc;

use sim_core::device::Options;
use sim_core::error::{Fault, FaultKind, SimError};
use sim_core::monitor::Check;
use sim_core::recording::Record;

use crate::contract::policies;
use crate::machine::{Run, chip, device, device_with, module, newer_chip};
use sim_memory::programs::Protocol;

/// Thread 0 sets the word that the others wait for, on the path that is run last under the stack.
const REVERSED: &str = "setp.eq.u32 %p, %t, 0;\n@!%p bra WAITS;\nst.volatile.global.u32 [%out], 1;\nbra OVER;\n\
    WAITS:\nld.volatile.global.u32 %a, [%out];\nsetp.ne.u32 %q, %a, 1;\n@%q bra WAITS;\nOVER:\nmov.u32 %r, 1;";

fn run(
    body: &str,
    policy: &str,
    grid: u32,
    block: u32,
    change: impl FnOnce(Options) -> Options,
) -> (Result<(), SimError>, String) {
    let chip = chip(|c| {
        c.limits.num_processors = 1;
        c.limits.max_resident_blocks = 2;
    });
    let functional = policy.strip_prefix("functional ");
    let device = device_with(chip, functional.unwrap_or(policy), change);
    let mut run = Run::new(device, &module("", body), false, 256);
    run.launch(grid, block, functional.is_some()).expect("it fits");
    let result = run.wait();
    (result, format!("{:?}", run.report()))
}

fn fault(result: Result<(), SimError>) -> Box<Fault> {
    match result {
        Err(SimError::Stopped(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn live_threads_that_go_round_for_ever_are_found_with_those_that_wait() {
    for policy in ["crs_stack", "functional crs_stack", "pdom_stack", "thread_frontiers"] {
        let (result, _) = run(REVERSED, policy, 1, 32, |o| o);
        let fault = fault(result);
        assert_eq!((fault.kind, fault.rule.as_str()), (FaultKind::Livelock, "live"), "{policy}");
        for words in ["lanes 0xfffffffe loop at line", "lanes 0x1 wait for other threads of their warp"] {
            assert!(fault.message.contains(words), "{policy}: {}", fault.message);
        }
        assert!(
            fault.place.instruction.contains("setp")
                || fault.place.instruction.contains("ld.volatile")
                || fault.place.instruction.contains("bra"),
            "{}",
            fault.place
        );
        assert_eq!(fault.place.lane, 1, "{policy}");
    }
    for policy in ["dual_path", "mimd", "functional mimd", "convergence_barriers"] {
        assert!(run(REVERSED, policy, 1, 32, |o| o).0.is_ok(), "{policy}");
    }
}

/// In functional mode, too, warps that a barrier has released are found out, though they leave turns to each other, and those
/// that meet at a barrier each time, so that no turn is a whole one.
#[test]
fn live_warps_that_spin_behind_or_at_a_barrier_are_found() {
    let wait = "ld.volatile.global.u32 %a, [%out];\nsetp.ne.u32 %q, %a, 1;\n@%q bra WAITS;";
    for body in [format!("bar.sync 0;\nWAITS:\n{wait}"), format!("WAITS:\nbar.sync 0;\n{wait}")] {
        for policy in ["crs_stack", "functional crs_stack", "functional mimd"] {
            let (result, _) = run(&body, policy, 1, 64, |o| o);
            assert_eq!(fault(result).kind, FaultKind::Livelock, "{policy}: {body}");
        }
    }
}

/// Blocks that wait for all others, and meet at a barrier between looks, get the others to begin.
#[test]
fn functional_blocks_that_wait_at_barriers_for_others_let_them_begin() {
    let body = "atom.global.add.u32 %b, [%out+4000], 1;\nWAITS:\nbar.sync 0;\n\
                ld.volatile.global.u32 %a, [%out+4000];\nsetp.lt.u32 %q, %a, 768;\n@%q bra WAITS;\nmov.u32 %r, 1;";
    let chip = chip(|c| c.limits.max_resident_blocks = 4);
    let mut run = Run::new(device(chip, "crs_stack"), &module("", body), false, 1024);
    run.launch(12, 64, true).expect("it fits");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn live_is_the_same_verdict_for_any_number_of_threads_and_epochs() {
    let found = |threads, epoch| {
        let (result, report) = run(REVERSED, "crs_stack", 3, 64, |o| Options { threads, epoch, ..o });
        (fault(result).to_string(), report)
    };
    let first = found(1, None);
    for (threads, epoch) in [(1, Some(1)), (2, None), (3, Some(5)), (4, Some(1))] {
        assert_eq!(found(threads, epoch), first, "{threads} threads, epoch {epoch:?}");
    }
}

#[test]
fn live_what_gets_on_is_not_stuck() {
    // A warp counts for long and changes nothing while another waits for its word.
    let counts = "setp.lt.u32 %p, %t, 32;\n@!%p bra WAITS;\nmov.u32 %b, 0;\nCOUNTS:\nadd.u32 %b, %b, 1;\n\
        setp.lt.u32 %q, %b, ROUNDS;\n@%q bra COUNTS;\nst.volatile.global.u32 [%out], 1;\nbra OVER;\nWAITS:\n\
        ld.volatile.global.u32 %a, [%out];\nsetp.ne.u32 %q, %a, 1;\n@%q bra WAITS;\nOVER:\nmov.u32 %r, 1;";
    for policy in ["crs_stack", "functional crs_stack", "mimd", "min_pc"] {
        let rounds = if policy.starts_with("functional") { "150000" } else { "40000" };
        let (result, _) = run(&counts.replace("ROUNDS", rounds), policy, 1, 64, |o| o);
        assert!(result.is_ok(), "{policy}: {result:?}");
    }
    // What goes on is in memory alone: at most of its addresses the thread always has the same
    // registers.
    let counts = "mov.u32 %n, room;\nmov.u32 %b, 0;\nCOUNTS:\nmov.u32 %a, 0;\nmov.u32 %c, 0;\nmov.u32 %c, 0;\nmov.u32 %c, 0;\n\
        mov.u32 %c, 0;\nmov.u32 %c, 0;\nmov.u32 %c, 0;\nld.volatile.SPACE.u32 %a, [WHERE];\nadd.u32 %a, %a, 1;\n\
        st.volatile.SPACE.u32 [WHERE], %a;\nsetp.lt.u32 %q, %a, ROUNDS;\nmov.u32 %a, 0;\n@%q bra COUNTS;\nmov.u32 %r, 1;";
    for (policy, space, at, rounds) in [
        ("crs_stack", "shared", "room", "20000"),
        ("crs_stack", "shared", "%n", "20000"),
        ("functional crs_stack", "shared", "room", "100000"),
        ("crs_stack", "global", "%out", "3000"),
        ("functional crs_stack", "global", "%out", "100000"),
    ] {
        let body = counts.replace("SPACE", space).replace("WHERE", at).replace("ROUNDS", rounds);
        let (result, _) = run(&body, policy, 1, 1, |o| o);
        assert!(result.is_ok(), "{policy} {space}: {result:?}");
    }
    // One thread counts; at most moments it waits for another, which goes round, before it goes on.
    let load = "ld.volatile.global.u32 %a, [%out+64];\n".repeat(4);
    let counts = format!(
        "mov.u32 %a, 0;\nmov.u32 %b, 0;\nLOOP:\nsetp.eq.u32 %p, %t, 1;\n@!%p bra SKIP;\n{load}SKIP:\n\
         setp.eq.u32 %p, %t, 0;\n@%p add.u32 %b, %b, 1;\nsetp.eq.u32 %q, %b, ROUNDS;\n\
         @%q st.volatile.global.u32 [%out+64], 1;\nsetp.gt.u32 %q, %b, ROUNDS;\nsetp.eq.u32 %p, %a, 1;\n\
         @%p mov.u32 %b, 100000;\nsetp.lt.u32 %q, %b, LAST;\n@%q bra LOOP;\nmov.u32 %r, 1;"
    );
    for policy in ["pdom_stack", "crs_stack", "multi_path", "convergence_barriers", "functional pdom_stack"] {
        let rounds = if policy.starts_with("functional") { 60_000 } else { 120 };
        let body = counts.replace("ROUNDS", &rounds.to_string()).replace("LAST", &(rounds + 5).to_string());
        let (result, _) = run(&body, policy, 1, 2, |o| o);
        assert!(result.is_ok(), "{policy}: {result:?}");
    }
    // Two paths take turns, and one of them gets on.
    let body = "setp.eq.u32 %p, %t, 0;\n@%p bra COUNTS;\nWAITS:\nld.volatile.global.u32 %a, [%out+64];\n\
        setp.ne.u32 %q, %a, 1;\n@%q bra WAITS;\nbra OVER;\nCOUNTS:\nmov.u32 %b, 0;\nNEXT:\nadd.u32 %b, %b, 1;\n\
        setp.lt.u32 %q, %b, 2000;\n@%q bra NEXT;\nst.volatile.global.u32 [%out+64], 1;\nOVER:\nmov.u32 %r, 1;";
    for policy in
        ["convergence_barriers", "convergence_barriers:yield_after=never", "multi_path:paths=1", "mimd"]
    {
        let (result, _) = run(body, policy, 1, 2, |o| o);
        assert!(result.is_ok(), "{policy}: {result:?}");
    }
    // Where waiting threads go on after a time, nothing is proved before.
    let in_turn = "WAITS:\nld.volatile.global.u32 %a, [%out+64];\nsetp.ne.u32 %q, %a, %t;\n@%q bra WAITS;\n\
        add.u32 %b, %t, 1;\nst.volatile.global.u32 [%out+64], %b;\nmov.u32 %r, 1;";
    let with = |policy: &str| run(in_turn, policy, 1, 3, |o| o).0;
    assert!(with("convergence_barriers:yield_after=5000").is_ok());
    assert_eq!(fault(with("convergence_barriers:yield_after=never")).kind, FaultKind::Livelock);
}

/// Without caches a program writes device memory itself, which is a change like any other: thread 0
/// counts, the others come back to where they were until it has counted far enough.
#[test]
fn live_writes_past_the_caches_are_seen() {
    let body = "setp.eq.u32 %p, %t, 0;\n@!%p bra WAITS;\n\
        COUNTS:\nred.global.add.u32 [%out+128], 1;\nld.volatile.global.u32 %a, [%out+132];\n\
        setp.eq.u32 %q, %a, 0;\n@%q bra COUNTS;\nbra OVER;\n\
        WAITS:\nld.volatile.global.u32 %a, [%out+128];\nshr.u32 %a, %a, 8;\nsetp.eq.u32 %q, %a, 0;\n\
        @%q bra WAITS;\nst.volatile.global.u32 [%out+132], 1;\nOVER:\nmov.u32 %r, 1;";
    let chip = chip(|c| {
        c.limits.num_processors = 1;
        c.memory.protocol = Protocol::Tesla;
    });
    let device = device_with(chip, "mimd", |o| o);
    let mut run = Run::new(device, &module("", body), false, 64);
    run.launch(1, 2, false).expect("it fits");
    run.wait().unwrap_or_else(|e| panic!("it ends: {e}"));
    assert_eq!(run.words()[..2], [1, 1]);
}

#[test]
fn live_is_a_suspicion_where_a_clock_is_read() {
    let body = REVERSED.replace("WAITS:\n", "WAITS:\nmov.u32 %b, %clock;\nmov.u32 %b, 0;\n");
    let (result, _) = run(&body, "crs_stack", 1, 32, |o| Options { max_cycles: Some(1_500_000), ..o });
    match result {
        Err(SimError::MaxCycles { suspicion: Some(why), .. }) => {
            assert!(why.contains("not proved: kernel k reads a clock"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

/// As compilers write the wait of `cuda::pipeline`: a counter, a clock and a sleep between tests.
#[test]
fn live_a_test_that_fails_for_ever_is_a_proof_whatever_its_loop_counts() {
    let body = |arrivals: u32, leave: &str| {
        format!(
            "mov.u64 %w, room;\nsetp.ne.u32 %p, %t, 0;\n@%p bra READY;\nmbarrier.init.shared.b64 [%w], {arrivals};\nREADY:\n\
             bar.sync 0;\nsetp.ge.u32 %p, %t, 32;\n@%p bra LAST;\nmbarrier.arrive.shared.b64 %x, [%w];\nSPIN:\n\
             mbarrier.test_wait.parity.shared.b64 %q, [%w], 0;\n@%q bra DONE;\nadd.u32 %c, %c, 1;\nmov.u32 %b, %clock;\n\
             {leave}nanosleep.u32 20;\nbra SPIN;\nDONE:\nmov.u32 %r, 1;\nLAST:\nbar.sync 1;"
        )
    };
    let result = |policy: &str, body: &str| {
        let functional = policy.strip_prefix("functional ");
        let most =
            |options| Options { max_cycles: Some(1_500_000), max_instructions: Some(4_000_000), ..options };
        let device = device_with(newer_chip("9.0"), functional.unwrap_or(policy), most);
        let text = module("", body).replace(".version 3.0\n.target sm_20", ".version 8.6\n.target sm_90");
        let mut run = Run::new(device, &text, false, 64);
        run.launch(1, 64, functional.is_some()).expect("it fits");
        run.wait()
    };
    for policy in ["convergence_barriers", "functional convergence_barriers", "crs_stack", "pdom_stack"] {
        let fault = fault(result(policy, &body(33, "")));
        assert_eq!((fault.kind, fault.rule.as_str()), (FaultKind::Livelock, "live"), "{policy}");
        for words in
            ["repeats a test of an mbarrier object that fails", "lanes 0xffffffff loop", "wait at a barrier"]
        {
            assert!(fault.message.contains(words), "{policy}: {}", fault.message);
        }
        assert!(result(policy, &body(32, "")).is_ok(), "{policy}");
        // A loop that gives up gets on in the end.
        let gives_up = "setp.gt.u32 %q, %c, 3000;\n@%q bra DONE;\n";
        assert!(result(policy, &body(33, gives_up)).is_ok(), "{policy}");
    }
}

#[test]
fn live_blocks_that_cannot_become_resident_are_named() {
    // Every block waits for the last one.
    let body = "mov.u32 %c, %nctaid.x;\nsub.u32 %c, %c, 1;\nmov.u32 %b, %ctaid.x;\nsetp.eq.u32 %p, %b, %c;\n\
        @%p st.volatile.global.u32 [%out], 7;\n\
        WAITS:\nld.volatile.global.u32 %a, [%out];\nsetp.ne.u32 %q, %a, 7;\n@%q bra WAITS;\nmov.u32 %r, 7;";
    assert!(run(body, "crs_stack", 2, 32, |o| o).0.is_ok());
    let fault = fault(run(body, "crs_stack", 5, 32, |o| o).0);
    assert_eq!(fault.kind, FaultKind::Livelock);
    assert!(fault.message.contains("3 blocks of k cannot become resident"), "{}", fault.message);
}

/// Block 0 waits for block 1, for which there is no room: whatever the policy, a warp of one path has
/// nothing to yield to.
#[test]
fn live_a_wait_for_a_block_without_room_is_proved_under_every_policy() {
    let body = "mov.u32 %b, %ctaid.x;\nsetp.eq.u32 %p, %b, 1;\n@%p bra SETS;\nWAITS:\n\
        ld.volatile.global.u32 %a, [%out+64];\nsetp.eq.u32 %q, %a, 0;\n@%q bra WAITS;\nbra OVER;\nSETS:\n\
        st.volatile.global.u32 [%out+64], 1;\nOVER:\nmov.u32 %r, 1;";
    for policy in policies() {
        for (threads, functional) in [(1, false), (32, false), (1, true)] {
            let chip = chip(|c| {
                c.limits.num_processors = 1;
                c.limits.max_resident_blocks = 1;
            });
            let device = device_with(chip, policy, |o| o);
            let mut run = Run::new(device, &module("", body), false, 256);
            run.launch(2, threads, functional).expect("it fits");
            let fault = fault(run.wait());
            assert_eq!(fault.kind, FaultKind::Livelock, "{policy}, {threads} threads: {fault}");
        }
    }
}

#[test]
fn live_a_barrier_that_nobody_left_can_reach_says_who_is_where() {
    let body = "setp.lt.u32 %p, %t, 32;\n@%p bra FIRST;\nsetp.lt.u32 %p, %t, 64;\n@%p exit;\nbar.sync 1, 64;\nFIRST:\n\
        bar.sync 0, 96;\nmov.u32 %r, 1;";
    for policy in ["crs_stack", "functional crs_stack"] {
        let fault = fault(run(body, policy, 1, 96, |o| Options { check: Check::Safety, ..o }).0);
        assert_eq!(fault.kind, FaultKind::Deadlock, "{policy}");
        for words in [
            "barrier 0 of its block, where 32 of 96 threads have arrived",
            "32 threads of the block have exited",
            "warp 2 lanes 0xffffffff waits at barrier 1",
        ] {
            assert!(fault.message.contains(words), "{policy}: {}", fault.message);
        }
    }
}

#[test]
fn live_a_branch_to_itself_is_proved_to_be_stuck() {
    for body in [
        "L: bra L;",
        "setp.lt.u32 %p, %t, 40;\nL: @%p bra L;",
        "setp.lt.u32 %p, %t, 40;\n@%p bra L;\nbra OVER;\nL: bra L;\nOVER:\nmov.u32 %r, 1;",
    ] {
        for policy in ["crs_stack", "functional crs_stack", "pdom_stack", "functional mimd", "min_pc"] {
            let fault = fault(run(body, policy, 1, 64, |o| o).0);
            assert_eq!((fault.kind, fault.rule.as_str()), (FaultKind::Livelock, "live"), "{policy}: {body}");
            assert!(fault.place.instruction.contains("bra"), "{policy}: {}", fault.place);
            assert!(fault.message.contains("loop at line"), "{policy}: {}", fault.message);
        }
    }
}

/// Blocks that an SM has no room for begin on others: who waits for them is not stuck, in functional mode
/// either.
#[test]
fn live_blocks_wait_for_blocks_that_other_sms_have_room_for() {
    let body = "mov.u32 %a, %ctaid.x;\nmov.u32 %b, %nctaid.x;\nsub.u32 %b, %b, 1;\nsetp.eq.u32 %p, %a, %b;\n\
                @%p st.volatile.global.u32 [%out+240], 1;\nWAIT:\nld.volatile.global.u32 %r, [%out+240];\n\
                setp.eq.u32 %q, %r, 0;\n@%q bra WAIT;\n";
    for policy in ["crs_stack", "mimd"] {
        for functional in [false, true] {
            let mut run = Run::new(device(chip(|_| {}), policy), &module("", body), false, 64);
            run.launch(40, 1, functional).expect("it fits");
            run.wait().unwrap_or_else(|e| panic!("{policy}, functional {functional}: {e}"));
            assert_eq!(run.words()[..40], [1; 40]);
        }
    }
    // 15 SMs hold 120 blocks: the last of 121 never begins.
    let mut run = Run::new(device(chip(|_| {}), "mimd"), &module("", body), false, 64);
    run.launch(121, 1, true).expect("it fits");
    assert_eq!(fault(run.wait()).kind, FaultKind::Livelock);
}

/// Kernels of several streams run one after another in functional mode: that one waits for another is no
/// proof of a livelock, and is said.
#[test]
fn live_a_wait_for_a_kernel_of_another_stream_is_no_proof() {
    let body = "mov.u32 %b, %nctaid.x;\nsetp.eq.u32 %p, %b, 2;\n@%p st.volatile.global.u32 [%out+240], 1;\n\
                WAIT:\nld.volatile.global.u32 %r, [%out+240];\nsetp.eq.u32 %q, %r, 0;\n@%q bra WAIT;\n";
    let result = |functional: bool| {
        let mut run = Run::new(device(chip(|_| {}), "crs_stack"), &module("", body), false, 64);
        run.launch_on(0, 1, 1, functional).expect("it fits");
        run.launch_on(1, 2, 1, functional).expect("it fits");
        run.wait()
    };
    result(false).unwrap_or_else(|e| panic!("{e}"));
    let fault = fault(result(true));
    assert_eq!((fault.kind, fault.rule.as_str()), (FaultKind::Fault, "functional"));
    assert!(fault.message.contains("another stream that has not begun"), "{}", fault.message);
}

/// While blocks are on their way to the SMs nothing is stuck, however long that takes.
#[test]
fn live_blocks_on_their_way_are_awaited() {
    for latency in [60_000, 66_000, 100_000] {
        let slow = chip(|c| c.dispatch.latency = latency);
        let mut run = Run::new(device(slow, "crs_stack"), &module("", "mov.u32 %r, 7;\n"), false, 64);
        run.launch(2, 32, false).expect("it fits");
        run.wait().unwrap_or_else(|e| panic!("{latency}: {e}"));
        assert_eq!(run.words(), [7; 64]);
    }
}

#[test]
fn live_warps_that_nearly_always_wait_are_seen_to_go_round() {
    // The lock of a block, taken by a path that the policy does not run again while others try. The lanes of
    // four warps come one after another at the bank: nearly always each waits for its result.
    let lock = "mov.u32 %n, room;\nsetp.ne.u32 %p, %t, 0;\n@%p bra READY;\nst.shared.u32 [%n], 0;\nREADY:\n\
        bar.sync 0;\nTRIES:\natom.shared.cas.b32 %a, [%n], 0, 1;\nsetp.ne.u32 %p, %a, 0;\n@%p bra TRIES;\n\
        atom.shared.exch.b32 %a, [%n], 0;\nmov.u32 %r, 1;";
    for policy in ["pdom_stack", "crs_stack", "min_pc", "multi_path", "thread_frontiers"] {
        for block in [64, 96, 100, 128, 256] {
            let limit = |o| Options { max_cycles: Some(400_000), ..o };
            let (result, _) = run(lock, policy, 1, block, limit);
            let fault = fault(result);
            assert_eq!((fault.kind, fault.rule.as_str()), (FaultKind::Livelock, "live"), "{policy} {block}");
        }
    }
    let (result, _) = run(lock, "mimd", 1, 128, |o| o);
    assert!(result.is_ok(), "{result:?}");
}

/// Clocks of the functional mode count instructions: a loop that waits for one ends, and what it read does not
/// depend on how the run is observed.
#[test]
fn live_a_wait_for_a_clock_ends_in_functional_mode() {
    let wait = |clock: &str, sleep: &str| {
        format!(
            "mov.u64 %w, {clock};\nadd.u64 %w, %w, 20000;\nWAITS:\n{sleep}mov.u64 %x, {clock};\nadd.u32 %r, %r, 1;\n\
             setp.lt.u64 %q, %x, %w;\n@%q bra WAITS;\nsub.u64 %x, %x, %w;\ncvt.u32.u64 %a, %x;\nshl.b32 %a, %a, 16;\n\
             or.b32 %r, %r, %a;"
        )
    };
    let result = |policy: &str, body: &str, change: &dyn Fn(Options) -> Options| {
        let device = device_with(newer_chip("7.0"), policy, change);
        let text = module("", body).replace(".version 3.0\n.target sm_20", ".version 6.3\n.target sm_70");
        let mut run = Run::new(device, &text, false, 128);
        let launches = [0, 1].map(|_| {
            run.launch(2, 64, true).expect("it fits");
            run.wait().unwrap_or_else(|error| panic!("{policy}: {error}"));
            run.words()
        });
        assert_eq!(launches[0], launches[1], "{policy}: clocks begin at 0 after each wait of the host");
        launches[0].clone()
    };
    for policy in ["crs_stack", "convergence_barriers", "mimd"] {
        for (clock, most) in [("%clock64", 5001), ("%globaltimer", 5001 * 2)] {
            let words = result(policy, &wait(clock, ""), &|o| o);
            // A round of the loop is four instructions at least.
            assert!(
                words.iter().all(|word| (2..=most).contains(&(word & 0xffff))),
                "{policy}, {clock}: {words:?}"
            );
            for threads in [1, 2] {
                assert_eq!(
                    result(policy, &wait(clock, ""), &|o| Options { threads, ..o }),
                    words,
                    "{policy}"
                );
            }
            let record = |o| Options { record: Some(Record(Arc::new(|_| {}))), ..o };
            assert_eq!(result(policy, &wait(clock, ""), &record), words, "{policy}: recorded");
        }
        // Time passes while a thread sleeps.
        let words = result(policy, &wait("%globaltimer", "nanosleep.u32 10000;\n"), &|o| o);
        assert!(words.iter().all(|word| (1..=3).contains(&(word & 0xffff))), "{policy}: {words:?}");
    }
}
