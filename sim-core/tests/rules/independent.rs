//! Threads that wait for each other wherever they are, as those of compute capability 7.0 and later
//! do: `.sync` collectives at several places of a program, barriers of parts of a warp, threads that
//! wait at a join for others that wait for them.

use sim_core::error::{FaultKind, SimError};

use crate::contract::policies;
use crate::machine::{Run, chip, device, module, newer_chip};

const CAPABILITIES: [&str; 3] = ["7.0", "8.0", "9.0"];

/// Policies that run the paths of a warp one after another.
fn runs_whole_warps(policy: &str) -> bool {
    policy.starts_with("crs_stack") || policy.starts_with("pdom_stack")
}

fn run(
    body: &str,
    capability: &str,
    policy: &str,
    threads: u32,
    functional: bool,
) -> Result<Vec<u32>, SimError> {
    let text = module("", body).replace(".version 3.0\n.target sm_20", ".version 7.0\n.target sm_70");
    let mut run = Run::new(device(newer_chip(capability), policy), &text, false, 128);
    run.launch(1, threads, functional)?;
    run.wait()?;
    Ok(run.words()[..threads as usize].to_vec())
}

/// Under each policy and in both modes `threads` threads end with what `expected` says of each. Where
/// a policy runs whole warps, threads that cannot meet are an error that says so.
fn everywhere(name: &str, body: &str, threads: u32, expected: impl Fn(u32) -> u32) {
    let expected: Vec<u32> = (0..threads).map(expected).collect();
    let mut right = 0;
    for policy in policies() {
        for capability in CAPABILITIES {
            for functional in [false, true] {
                let what = format!("{name}: {policy}, {capability}, functional: {functional}");
                match run(body, capability, policy, threads, functional) {
                    Ok(words) => {
                        assert_eq!(words, expected, "{what}");
                        right += 1;
                    }
                    Err(SimError::Stopped(fault)) if runs_whole_warps(policy) => {
                        assert!(
                            fault.rule == "collective" || fault.kind == FaultKind::Deadlock,
                            "{what}: {fault}"
                        );
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
    }
    let others = policies().iter().filter(|policy| !runs_whole_warps(policy)).count();
    assert!(right >= others * 2 * CAPABILITIES.len(), "{name}: {right}");
}

#[test]
fn threads_meet_at_bar_warp_sync_on_two_sides_of_a_branch() {
    let body = "setp.lt.u32 %p, %t, 16;\n@%p bra ONE;\nmov.u32 %r, 2;\nbar.warp.sync -1;\nbra MET;\nONE:\n\
        mov.u32 %r, 1;\nbar.warp.sync -1;\nMET:";
    everywhere("two sides", body, 32, |t| if t < 16 { 1 } else { 2 });
}

#[test]
fn a_thread_meets_the_others_at_a_later_bar_warp_sync() {
    let body = "setp.eq.u32 %p, %t, 0;\n@%p bra OVER;\nbar.warp.sync -1;\nOVER:\nadd.u32 %r, %t, 100;\n\
        @!%p bra END;\nbar.warp.sync -1;\nEND:";
    everywhere("late", body, 32, |t| t + 100);
}

/// Odd lanes leave a loop one after another and vote behind it; an irreducible region (A, B) follows. Every
/// policy has them meet where the loop ends.
#[test]
fn lanes_meet_where_a_loop_ends_before_an_irreducible_region() {
    let body = "and.b32 %a, %t, 1;\nsetp.eq.u32 %p, %a, 0;\nmov.u32 %r, 0;\nmov.u32 %n, 0;\nshr.u32 %c, %t, 3;\n\
        @%p bra END;\nHEAD:\nsetp.eq.u32 %q, %c, 0;\n@%q bra OUT;\nsub.u32 %c, %c, 1;\nbra HEAD;\nOUT:\n\
        vote.sync.ballot.b32 %r, %q, 0xaaaaaaaa;\nand.b32 %b, %t, 2;\nsetp.eq.u32 %q, %b, 0;\n@%q bra B;\nA:\n\
        add.u32 %n, %n, 1;\nB:\nadd.u32 %n, %n, 2;\nsetp.lt.u32 %q, %n, 5;\n@%q bra A;\nadd.u32 %r, %r, %n;\nEND:";
    for policy in policies() {
        for functional in [false, true] {
            let words = run(body, "7.0", policy, 32, functional);
            let words = words.unwrap_or_else(|error| panic!("{policy}, functional: {functional}: {error}"));
            // Bit 1 set: 3, 6. Bit 1 clear: 2, 5.
            let expected = |t: u32| match t & 3 {
                1 => 0xaaaa_aaaa + 5,
                3 => 0xaaaa_aaaa + 6,
                _ => 0,
            };
            assert_eq!(
                words,
                (0..32).map(expected).collect::<Vec<_>>(),
                "{policy}, functional: {functional}"
            );
        }
    }
}

#[test]
fn a_vote_does_not_wait_for_a_thread_that_ends_elsewhere() {
    let body = "setp.eq.u32 %p, %t, 0;\nsetp.eq.u32 %q, %t, %t;\nmov.u32 %r, 7;\n@%p bra END;\n\
        vote.sync.ballot.b32 %r, %q, -1;\nEND:";
    everywhere("vote", body, 32, |t| if t == 0 { 7 } else { 0xffff_fffe });
}

/// Each of five times every thread tells its neighbour a number; how many of them in the first loop
/// and how many in the second differs by thread.
#[test]
fn bar_warp_sync_in_loops_of_different_trip_counts() {
    let exchange = "mad.lo.u32 %w32, %b, 100, %t;\nst.shared.u32 [%a], %w32;\nbar.warp.sync -1;\n\
        ld.shared.u32 %w32, [%n];\nadd.u32 %r, %r, %w32;\nbar.warp.sync -1;\nadd.u32 %b, %b, 1;\n";
    let body = format!(
        ".reg .u32 %w32;\nshl.b32 %a, %t, 2;\nmov.u32 %n, room;\nadd.u32 %a, %a, %n;\nxor.b32 %n, %a, 4;\n\
         and.b32 %c, %t, 3;\nmov.u32 %b, 0;\nFIRST:\n{exchange}setp.le.u32 %p, %b, %c;\n@%p bra FIRST;\n\
         SECOND:\n{exchange}setp.lt.u32 %p, %b, 5;\n@%p bra SECOND;"
    );
    everywhere("trip counts", &body, 32, |t| 1000 + 5 * (t ^ 1));
}

#[test]
fn halves_of_warps_meet_at_barriers_of_their_own() {
    let halves = "shl.b32 %a, %t, 2;\nmov.u32 %n, room;\nadd.u32 %a, %a, %n;\nadd.u32 %b, %t, 500;\n\
        st.shared.u32 [%a], %b;\nxor.b32 %a, %a, 128;\nand.b32 %b, %t, 16;\nsetp.eq.u32 %p, %b, 0;\n@%p bra LOWER;\n\
        bar.sync 2, 32;\nld.shared.u32 %r, [%a];\nbra MET;\nLOWER:\nbar.sync 1, 32;\nld.shared.u32 %r, [%a];\nMET:";
    everywhere("halves", halves, 64, |t| (t ^ 32) + 500);
    // The upper halves arrive at a place behind the join of the branch.
    let behind = "and.b32 %b, %t, 16;\nsetp.eq.u32 %p, %b, 0;\n@!%p bra JOIN;\nbar.sync 1, 64;\nJOIN:\n\
        add.u32 %r, %t, 9;\n@%p bra END;\nbar.sync 1, 64;\nEND:";
    everywhere("behind the join", behind, 64, |t| t + 9);
}

#[test]
fn lanes_shuffle_in_parts_of_a_warp_and_from_two_sides_of_a_branch() {
    let parts = "setp.lt.u32 %p, %t, 8;\n@%p bra EIGHT;\nshfl.sync.bfly.b32 %r, %t, 1, 31, 0xffffff00;\nbra MET;\n\
        EIGHT:\nsetp.lt.u32 %q, %t, 4;\n@!%q bra INNER;\nshfl.sync.bfly.b32 %b, %t, 1, 31, 15;\nadd.u32 %r, %b, 1000;\n\
        INNER:\nshfl.sync.bfly.b32 %b, %t, 2, 31, 255;\nmad.lo.u32 %r, %b, 10000, %r;\nMET:";
    everywhere("parts", parts, 32, |t| match t {
        0..4 => (t ^ 2) * 10000 + (t ^ 1) + 1000,
        4..8 => (t ^ 2) * 10000,
        _ => t ^ 1,
    });
    // Operands and results of the two sides have registers of their own.
    let sides = "setp.lt.u32 %p, %t, 16;\nmul.lo.u32 %b, %t, 10;\nmul.lo.u32 %c, %t, 100;\n@%p bra LOWER;\n\
        shfl.sync.bfly.b32 %b|%q, %b, 16, 31, -1;\nselp.u32 %r, %b, 1, %q;\nbra MET;\nLOWER:\n\
        shfl.sync.bfly.b32 %r|%q, %c, 16, 31, -1;\nMET:";
    everywhere("sides", sides, 32, |t| if t < 16 { (t + 16) * 10 } else { (t - 16) * 100 });
    let votes = "setp.lt.u32 %p, %t, 16;\nand.b32 %b, %t, 1;\nsetp.eq.u32 %q, %b, 1;\n@%p bra LOWER;\n\
        vote.sync.ballot.b32 %r, %q, -1;\nmatch.any.sync.b32 %c, %b, -1;\nxor.b32 %r, %r, %c;\nbra MET;\nLOWER:\n\
        vote.sync.ballot.b32 %a, !%q, -1;\nadd.u32 %b, %b, 1;\nmatch.any.sync.b32 %r, %b, -1;\nxor.b32 %r, %r, %a;\nMET:";
    // The lower lanes vote where they are even and match 1 and 2; the upper ones odd, 0 and 1.
    everywhere("votes", votes, 32, |t| {
        let matched = match (t < 16, t % 2) {
            (true, 1) => 0x0000_aaaa,
            (true, _) | (false, 1) => 0xaaaa_5555,
            _ => 0x5555_0000,
        };
        matched ^ 0xaaaa_5555
    });
}

#[test]
fn collectives_with_other_qualifiers_or_masks_do_not_meet() {
    let sides = |one: &str, other: &str| {
        format!(
            "setp.lt.u32 %p, %t, 16;\nsetp.eq.u32 %q, %t, %t;\n@%p bra LOWER;\n{one};\nbra MET;\nLOWER:\n{other};\nMET:"
        )
    };
    for (one, other) in [
        ("vote.sync.ballot.b32 %r, %q, -1", "vote.sync.any.pred %q, %q, -1"),
        ("shfl.sync.bfly.b32 %r, %t, 1, 31, -1", "shfl.sync.idx.b32 %r, %t, 1, 31, -1"),
        ("bar.warp.sync -1", "bar.warp.sync 0x7fffffff"),
        ("bar.warp.sync -1", "vote.sync.ballot.b32 %r, %q, -1"),
    ] {
        for policy in ["convergence_barriers", "multi_path", "mimd"] {
            for functional in [false, true] {
                let result = run(&sides(one, other), "7.0", policy, 32, functional);
                // Those of the upper half that name one lane less end, and the rest is complete.
                let Err(SimError::Stopped(fault)) = result else { panic!("{one}, {other}: {result:?}") };
                assert_eq!(fault.kind, FaultKind::Deadlock, "{one}, {other}");
                assert!(fault.message.contains("which never arrive"), "{}", fault.message);
            }
        }
    }
}

/// Up to compute capability 6.x threads must execute the same instruction.
#[test]
fn older_chips_demand_one_instruction() {
    let body =
        "setp.lt.u32 %p, %t, 16;\n@%p bra ONE;\nbar.warp.sync -1;\nbra MET;\nONE:\nbar.warp.sync -1;\nMET:";
    let text = module("", body).replace(".version 3.0\n.target sm_20", ".version 6.0\n.target sm_61");
    for (policy, rule) in [("crs_stack", "collective"), ("pdom_stack", "collective"), ("mimd", "live")] {
        let mut chip = (*newer_chip("6.1")).clone();
        chip.default_policy = policy.into();
        let mut run = Run::new(device(chip.into(), policy), &text, false, 64);
        run.launch(1, 32, false).expect("it fits");
        let Err(SimError::Stopped(fault)) = run.wait() else { panic!("{policy} ends") };
        assert_eq!(fault.rule, rule, "{policy}: {fault}");
    }
}

/// Each lane meets the one before it and then the one behind it.
#[test]
fn masks_that_overlap_meet_pair_by_pair() {
    let body = "mov.u32 %r, 0;\nsetp.eq.u32 %p, %t, 0;\nsub.u32 %b, %t, 1;\nmov.u32 %a, 3;\nshl.b32 %a, %a, %b;\n\
        @%p bra FIRST;\nbar.warp.sync %a;\nadd.u32 %r, %r, 1;\nFIRST:\nsetp.eq.u32 %p, %t, 31;\nmov.u32 %a, 3;\n\
        shl.b32 %a, %a, %t;\n@%p bra LAST;\nbar.warp.sync %a;\nadd.u32 %r, %r, 10;\nLAST:\nadd.u32 %r, %r, 100;";
    everywhere("chain", body, 32, |t| 100 + u32::from(t > 0) + 10 * u32::from(t < 31));
    // The lane before says how many have met.
    let sums = "mov.u32 %r, 1;\nsetp.eq.u32 %p, %t, 0;\nsub.u32 %b, %t, 1;\nmov.u32 %a, 3;\nshl.b32 %a, %a, %b;\n\
        @%p bra FIRST;\nshfl.sync.idx.b32 %c, %r, %b, 31, %a;\nadd.u32 %r, %r, %c;\nFIRST:\nsetp.eq.u32 %p, %t, 31;\n\
        mov.u32 %a, 3;\nshl.b32 %a, %a, %t;\n@%p bra LAST;\nshfl.sync.idx.b32 %c, %r, %t, 31, %a;\nLAST:";
    everywhere("sums", sums, 32, |t| t + 1);
}

/// Threads wait for those of their warp that have not exited, and the warp counts whole.
#[test]
fn bar_arrcnt_one_thread_of_each_warp_arrives_once_the_others_have_exited() {
    let body = "and.b32 %b, %t, 31;\nsetp.ne.u32 %p, %b, 0;\n@%p exit;\nbarrier.sync 1, 64;\nmov.u32 %r, 6;";
    everywhere("exit", body, 64, |t| if t % 32 == 0 { 6 } else { 0 });
    // Those that wait for each other at two barriers do so for ever.
    let crossed = "mov.u32 %r, 5;\nand.b32 %b, %t, 31;\nsetp.ne.u32 %p, %b, 0;\n@%p bra OTHER;\n\
        barrier.sync 1, 64;\nbra END;\nOTHER:\nbarrier.sync 2, 64;\nEND:";
    for policy in ["convergence_barriers", "multi_path", "mimd"] {
        for functional in [false, true] {
            let result = run(crossed, "7.0", policy, 64, functional);
            let Err(SimError::Stopped(fault)) = result else { panic!("{policy}: {result:?}") };
            assert_eq!(fault.kind, FaultKind::Deadlock, "{policy}");
            assert!(fault.message.contains("no remaining thread can arrive"), "{fault}");
        }
    }
}

#[test]
fn env_writedevice_names_the_rule_of_stores() {
    for (body, rule) in [
        ("st.global.u32 [%out+0x4000000], %t;", "env-writeDevice"),
        ("ld.global.u32 %r, [%out+0x4000000];", "env-readDevice"),
        ("atom.global.add.u32 %r, [%out+0x4000000], 1;", "env-readDevice"),
    ] {
        let result = run(body, "7.0", "convergence_barriers", 32, false);
        let Err(SimError::Stopped(fault)) = result else { panic!("{body}: {result:?}") };
        assert_eq!(fault.rule, rule, "{body}");
    }
}

#[test]
fn joins_give_way_from_the_inside_out() {
    let body = "setp.lt.u32 %p, %t, 16;\n@!%p bra OUT;\nsetp.lt.u32 %q, %t, 8;\n@!%q bra IN;\nbar.warp.sync -1;\nIN:\n\
        add.u32 %r, %r, 1;\n@%q bra OUT;\nadd.u32 %r, %r, 10;\nbar.warp.sync -1;\nOUT:\nadd.u32 %r, %r, 100;\n\
        @%p bra END;\nadd.u32 %r, %r, 1000;\nbar.warp.sync -1;\nEND:";
    everywhere("nested", body, 32, |t| match t {
        0..8 => 101,
        8..16 => 111,
        _ => 1100,
    });
    // In a loop, again and again: lane 0 votes elsewhere.
    let loops = "setp.eq.u32 %p, %t, 0;\nmov.u32 %b, 0;\nsetp.eq.u32 %q, %t, %t;\nAGAIN:\n@%p bra SKIP;\n\
        vote.sync.ballot.b32 %a, %q, -1;\nadd.u32 %r, %r, %a;\nSKIP:\n@!%p bra NEXT;\nvote.sync.ballot.b32 %a, !%q, -1;\n\
        add.u32 %r, %r, %a;\nNEXT:\nadd.u32 %b, %b, 1;\nsetp.lt.u32 %q, %b, 6;\n@%q bra AGAIN;";
    everywhere("loop", loops, 32, |_| 0xffff_fffeu32.wrapping_mul(6));
}

/// A lane spins for one that votes with a third, which waits at the join for the first.
#[test]
fn fair_policies_end_a_spin_for_a_thread_at_a_collective() {
    let body = "mov.u32 %r, 5;\nsetp.eq.u32 %q, %t, %t;\nsetp.eq.u32 %p, %t, 0;\n@%p bra SPIN;\nsetp.eq.u32 %p, %t, 1;\n\
        @!%p bra JOIN;\nvote.sync.ballot.b32 %r, %q, 6;\nst.volatile.global.u32 [%out+256], 1;\nbra JOIN;\nSPIN:\n\
        ld.volatile.global.u32 %a, [%out+256];\nsetp.ne.u32 %p, %a, 1;\n@%p bra SPIN;\nJOIN:\n\
        setp.eq.u32 %p, %t, 2;\n@!%p bra END;\nvote.sync.ballot.b32 %r, %q, 6;\nEND:";
    for policy in [
        "convergence_barriers",
        "convergence_barriers:yield_after=8",
        "dynamic_warp_formation:scheduler=DTime",
        "mimd",
    ] {
        for functional in [false, true] {
            let words = run(body, "7.0", policy, 32, functional).unwrap_or_else(|e| panic!("{policy}: {e}"));
            assert_eq!(words[..4], [5, 6, 6, 5], "{policy}");
        }
    }
}

/// Warps meet twice by bits of a word in shared memory, as the tiles of several warps of CUDA's cooperative groups do. The
/// first time the first lane of each waits alone, the second time all lanes of those that come before the last.
#[test]
fn fair_policies_let_warps_meet_whose_threads_spin_apart() {
    let arrive = "atom.shared.or.b32 %b, [room], %c;\nor.b32 %b, %b, %c;\n";
    let body = format!(
        "and.b32 %i, %t, 31;\nshr.u32 %a, %t, 5;\nmov.u32 %c, 1;\nshl.b32 %c, %c, %a;\n\
         shr.u32 %n, %n, 5;\nmov.u32 %r, 1;\nshl.b32 %n, %r, %n;\nsub.u32 %n, %n, 1;\nshl.b32 %a, %a, 2;\n\
         setp.eq.u32 %p, %i, 0;\n\
         @!%p bra MET;\n{arrive}setp.eq.u32 %q, %b, %n;\n@%q bra LAST;\n\
         SPIN:\nld.volatile.shared.u32 %b, [room];\nand.b32 %b, %b, %c;\nsetp.ne.u32 %q, %b, 0;\n@%q bra SPIN;\n\
         bra MET;\nLAST:\natom.shared.and.b32 %b, [room], 0;\nMET:\nbar.warp.sync -1;\n\
         @!%p bra CAME;\n{arrive}st.shared.u32 [%a+64], %b;\nCAME:\nbar.warp.sync -1;\n\
         ld.shared.u32 %b, [%a+64];\nsetp.eq.u32 %q, %b, %n;\n@%q bra LEAVE;\n\
         WAIT:\nld.volatile.shared.u32 %b, [room];\nand.b32 %b, %b, %c;\nsetp.ne.u32 %q, %b, 0;\n@%q bra WAIT;\n\
         bra END;\nLEAVE:\nbar.warp.sync -1;\n@!%p bra END;\natom.shared.and.b32 %b, [room], 0;\n\
         END:\nmov.u32 %r, 7;"
    );
    for policy in ["convergence_barriers", "convergence_barriers:yield_after=8", "mimd"] {
        for (threads, functional) in [(64, true), (96, true), (128, true), (128, false)] {
            let words = run(&body, "7.0", policy, threads, functional);
            let words = words.unwrap_or_else(|e| panic!("{policy}, {threads}: {e}"));
            assert!(words.iter().all(|word| *word == 7), "{policy}, {threads}: {words:?}");
        }
    }
}

#[test]
fn bar_prep_a_count_meets_the_default_of_the_same_number() {
    let body = "setp.ge.u32 %p, %t, 32;\nmov.u32 %r, 3;\n@%p bra OTHER;\nbar.sync 0, 64;\nbra END;\nOTHER:\n\
        bar.sync 0;\nEND:";
    everywhere("mixed counts", body, 64, |_| 3);
    // Whole warps arrive; 40 threads are two warps.
    for (threads, ends) in [(64, true), (40, true), (96, false)] {
        for functional in [false, true] {
            let mut run = Run::new(device(chip(|_| {}), "crs_stack"), &module("", body), false, 128);
            run.launch(1, threads, functional).expect("it fits");
            match run.wait() {
                Ok(()) => assert!(ends, "{threads} threads"),
                Err(SimError::Stopped(fault)) => {
                    assert_eq!((fault.rule.as_str(), ends), ("bar-prep", false), "{fault}");
                    assert!(fault.message.contains("which means 96"), "{fault}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn bar_info_counts_are_multiples_of_the_warp_size_on_every_chip() {
    for policy in policies() {
        for functional in [false, true] {
            let result = run("bar.sync 0, 48;", "7.0", policy, 96, functional);
            let Err(SimError::Stopped(fault)) = result else { panic!("{policy}: {result:?}") };
            assert_eq!(fault.rule, "bar-info", "{policy}");
            assert!(
                fault.message.contains("48 of barrier 0 is not a positive multiple"),
                "{policy}: {fault}"
            );
        }
    }
}
