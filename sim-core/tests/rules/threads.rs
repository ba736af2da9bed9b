//! The thread rules of CS §5.3.2 and the warp rules of §5.4.3.

use std::sync::Arc;

use sim_core::device::Options;
use sim_core::monitor::Check;
use sim_frontend::chip::{ChipSpec, UnitScope, UnitSpec};
use sim_frontend::isa::UnitClass;

use crate::machine::{Run, chip, device, device_with, every_way, module, newer_chip, timed};

fn each(n: u32, f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..n).map(f).collect()
}

#[test]
fn thr_dop_computes_from_each_threads_own_registers() {
    let text = module("", "mad.lo.u32 %r, %i, 3, 5;\nxor.b32 %r, %r, %t;");
    assert_eq!(every_way(&text, 2, 48), each(96, |i| (i * 3 + 5) ^ (i % 48)));
}

#[test]
fn thr_mov_thr_setp_copy_values_and_set_predicates() {
    let text = module(
        "",
        "mov.u32 %a, 7;\nsetp.lt.u32 %p|%q, %t, 5;\nselp.u32 %b, 1, 2, %p;\n\
         selp.u32 %c, 10, 20, %q;\nadd.u32 %r, %a, %b;\nadd.u32 %r, %r, %c;",
    );
    assert_eq!(every_way(&text, 1, 32), each(32, |t| if t < 5 { 7 + 1 + 20 } else { 7 + 2 + 10 }));
}

#[test]
fn thr_exec_tt_thr_exec_ff_only_lanes_with_a_true_guard_act() {
    let text =
        module("", "setp.eq.u32 %p, %t, 3;\nmov.u32 %r, 1;\n@%p mov.u32 %r, 2;\n@!%p add.u32 %r, %r, %t;");
    assert_eq!(every_way(&text, 1, 32), each(32, |t| if t == 3 { 2 } else { 1 + t }));
}

#[test]
fn thr_bra_warp_bra_lanes_go_where_their_predicate_says() {
    let text = module(
        "",
        "and.b32 %a, %t, 3;\nsetp.eq.u32 %p, %a, 0;\n@%p bra ZERO;\nsetp.eq.u32 %p, %a, 1;\n\
         @%p bra ONE;\nmov.u32 %r, 30;\nbra DONE;\nZERO:\nmov.u32 %r, 10;\nbra DONE;\nONE:\n\
         mov.u32 %r, 20;\nDONE:\nadd.u32 %r, %r, %t;",
    );
    assert_eq!(every_way(&text, 1, 64), each(64, |t| t + [10, 20, 30, 30][t as usize % 4]));
}

const TWICE: &str = ".func (.param .u32 out) twice(.param .u32 in)\n{\n.reg .u32 %a;\n.reg .pred %p;\n\
                     ld.param.u32 %a, [in];\nsetp.gt.u32 %p, %a, 9;\nst.param.u32 [out], 99;\n\
                     @%p ret;\nadd.u32 %a, %a, %a;\nst.param.u32 [out], %a;\nret;\n}\n";

#[test]
fn thr_call_thr_return_come_back_behind_the_call_lane_by_lane() {
    let call = "{\n.param .u32 give;\n.param .u32 take;\nst.param.u32 [give], %t;\n\
                call (take), twice, (give);\nld.param.u32 %r, [take];\n}\nadd.u32 %r, %r, 1;";
    assert_eq!(every_way(&module(TWICE, call), 1, 32), each(32, |t| if t > 9 { 100 } else { 2 * t + 1 }));
    // Only some lanes call.
    let some = format!("setp.lt.u32 %p, %t, 4;\n@!%p bra NOT;\n{call}\nNOT:");
    assert_eq!(every_way(&module(TWICE, &some), 1, 32), each(32, |t| if t < 4 { 2 * t + 1 } else { 0 }));
}

#[test]
fn thr_ssy_thr_sync_reconverge_where_the_papers_dialect_says() {
    // After `sync` all lanes vote together: a ballot of the whole warp shows it.
    let text = module(
        "",
        "ssy JOIN;\nsetp.lt.u32 %p, %t, 8;\n@%p bra THEN;\nmov.u32 %b, 1;\nsync;\nTHEN:\nmov.u32 %b, 2;\n\
         sync;\nJOIN:\nsetp.eq.u32 %p, %b, 2;\nvote.ballot.b32 %r, %p;",
    );
    let (words, report) = timed(&text, true, 1, 32).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(words, vec![0xff; 32]);
    // ssy once, sync once for each side.
    assert_eq!(report.control_instructions, 3);
}

#[test]
fn thr_prebrk_thr_break_leave_a_loop_together() {
    // Lane t leaves in trip t; all meet at OUT.
    let text = module(
        "",
        "preBrk OUT;\nLOOP:\nsetp.eq.u32 %p, %b, %t;\n@%p break;\nadd.u32 %b, %b, 1;\nbra LOOP;\nOUT:\n\
         setp.ge.u32 %p, %b, 0;\nvote.ballot.b32 %r, %p;\nadd.u32 %r, %r, %b;",
    )
    .replace("mov.u32 %r, 0;", "mov.u32 %r, 0;\nmov.u32 %b, 0;");
    let (words, _) = timed(&text, true, 1, 32).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(words, each(32, |t| u32::MAX.wrapping_add(t)));
}

#[test]
fn thr_preret_lanes_that_return_early_wait_at_the_return_address() {
    // Half of the warp returns early; the ballot behind the call sees everyone.
    let call = "{\n.param .u32 give;\n.param .u32 take;\nst.param.u32 [give], %t;\n\
                call (take), twice, (give);\nld.param.u32 %r, [take];\n}\nsetp.ge.u32 %p, %t, 0;\n\
                vote.ballot.b32 %a, %p;\nadd.u32 %r, %r, %a;";
    let (words, report) = timed(&module(TWICE, call), false, 1, 32).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(words, each(32, |t| u32::MAX.wrapping_add(if t > 9 { 99 } else { 2 * t })));
    assert_eq!(report.control_instructions, 1, "one preRet");
}

#[test]
fn thr_exit_threads_that_end_do_nothing_more() {
    let text = module(
        "",
        "mov.u32 %r, 5;\nst.global.u32 [%own], %r;\nsetp.lt.u32 %p, %t, 7;\n@%p exit;\nmov.u32 %r, 6;",
    );
    assert_eq!(every_way(&text, 1, 40), each(40, |t| if t < 7 { 5 } else { 6 }));
}

#[test]
fn thr_vote_vote_all_vote_any_vote_uni_vote_ballot_count_active_lanes_only() {
    let text = module(
        "",
        "setp.lt.u32 %p, %t, 16;\n@!%p bra DONE;\nsetp.lt.u32 %q, %t, 4;\nvote.ballot.b32 %r, %q;\n\
         vote.any.pred %p, %q;\nselp.u32 %a, 0x100, 0, %p;\nadd.u32 %r, %r, %a;\n\
         vote.all.pred %p, %q;\nselp.u32 %a, 0x200, 0, %p;\nadd.u32 %r, %r, %a;\n\
         vote.uni.pred %p, %q;\nselp.u32 %a, 0x400, 0, %p;\nadd.u32 %r, %r, %a;\n\
         setp.lt.u32 %q, %t, 16;\nvote.all.pred %p, %q;\nselp.u32 %a, 0x800, 0, %p;\n\
         add.u32 %r, %r, %a;\nvote.uni.pred %p, %q;\nselp.u32 %a, 0x1000, 0, %p;\nadd.u32 %r, %r, %a;\nDONE:",
    );
    let (words, _) = timed(&text, false, 1, 32).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(words, each(32, |t| if t < 16 { 0xf + 0x100 + 0x800 + 0x1000 } else { 0 }));
}

#[test]
fn thr_membar_link_updmembar_waits_until_the_threads_writes_are_performed() {
    let with = |fence: &str| {
        let body = format!(
            "mov.u32 %a, %clock;\nst.global.u32 [%own], %a;\n{fence}\nmov.u32 %b, %clock;\nsub.u32 %r, %b, %a;"
        );
        timed(&module("", &body), false, 1, 32).unwrap_or_else(|e| panic!("{e}"))
    };
    let (without, _) = with("");
    let (cta, _) = with("membar.cta;");
    let (device, report) = with("membar.gl;");
    assert!(device[0] > without[0] + 50, "{} against {}", device[0], without[0]);
    assert!(cta[0] <= device[0]);
    assert!(report.stalls["drain"] > 0, "{:?}", report.stalls);
}

#[test]
fn mem_priority_a_threads_volatile_accesses_come_one_after_another() {
    // Two accesses to two lines, in one thread, then in one thread each of two warps.
    let cycles = |first: &str, between: &str, second: &str| {
        let body = format!(
            "setp.lt.u32 %p, %t, 32;\nld.volatile.global.u32 %n, [%own+4096];\nadd.u32 %c, %n, 1;\n\
             mov.u32 %a, %clock;\n@!%p bra SECOND;\n{first} [%own], %a;\n{between}\n\
             SECOND:\n{second} [%own+4096], %a;\nDONE:\nmov.u32 %b, %clock;\nsub.u32 %r, %b, %a;"
        );
        let mut run = Run::new(device(chip(|_| {}), "crs_stack"), &module("", &body), false, 2048);
        run.launch(1, 64, false).unwrap_or_else(|e| panic!("{e}"));
        run.wait().unwrap_or_else(|e| panic!("{e}"));
        run.words()[..64].to_vec()
    };
    let (weak, volatile) = ("st.global.u32", "st.volatile.global.u32");
    let plain = cycles(weak, "", weak);
    for (first, second) in [(weak, volatile), (volatile, weak)] {
        let one = cycles(first, "", second);
        assert!(one[0] < plain[0] + 20, "one volatile access waits for nobody: {} {}", one[0], plain[0]);
    }
    let both = cycles(volatile, "", volatile);
    assert!(both[0] > plain[0] + 50, "{} against {}", both[0], plain[0]);
    let apart = cycles(volatile, "bra DONE;", volatile);
    assert!(apart[0] < plain[0] + 20 && apart[32] < plain[32] + 20, "other threads are not comparable");
}

#[test]
fn thr_barsync_block_endbar_separate_writes_from_reads_of_the_block() {
    let text = module(
        "",
        "shl.b32 %a, %t, 2;\nmov.u32 %b, room;\nadd.u32 %a, %a, %b;\nst.shared.u32 [%a], %t;\nbar.sync 0;\n\
         sub.u32 %c, 95, %t;\nshl.b32 %c, %c, 2;\nadd.u32 %c, %c, %b;\nld.shared.u32 %r, [%c];",
    );
    assert_eq!(every_way(&text, 1, 96), each(96, |t| 95 - t));
}

#[test]
fn thr_bararrive_does_not_wait() {
    // Warp 1 arrives, works on and stores; warp 0 syncs with it.
    let text = module(
        "",
        "mov.u32 %b, room;\nsetp.lt.u32 %p, %t, 32;\n@%p bra CONSUMER;\nst.shared.u32 [%b], 77;\n\
         bar.arrive 1, 64;\nmov.u32 %r, 11;\nbra DONE;\nCONSUMER:\nbar.sync 1, 64;\nld.shared.u32 %r, [%b];\nDONE:",
    );
    assert_eq!(every_way(&text, 1, 64), each(64, |t| if t < 32 { 77 } else { 11 }));
}

#[test]
fn thr_barred_gives_every_thread_the_reduction() {
    let text = module(
        "",
        "setp.lt.u32 %p, %t, 40;\nbar.red.popc.u32 %r, 0, %p;\nbar.red.and.pred %q, 0, %p;\n\
         selp.u32 %a, 100, 0, %q;\nadd.u32 %r, %r, %a;\nbar.red.or.pred %q, 0, %p;\n\
         selp.u32 %a, 1000, 0, %q;\nadd.u32 %r, %r, %a;",
    );
    assert_eq!(every_way(&text, 1, 64), vec![1040; 64]);
}

#[test]
fn thr_atom_returns_the_old_value_once_to_each_lane() {
    let text =
        module("", "atom.global.add.u32 %a, [%out], 1;\nsetp.eq.u32 %p, %i, 0;\n@%p exit;\nmov.u32 %r, %a;");
    let (words, _) = timed(&text, false, 1, 64).unwrap_or_else(|e| panic!("{e}"));
    let mut rest = words[1..].to_vec();
    assert_eq!(words[0], 64);
    rest.sort_unstable();
    rest.dedup();
    assert_eq!(rest.len(), 63, "each lane got another value: {rest:?}");
    assert!(rest.iter().all(|old| *old < 64));
}

#[test]
fn thr_ld_thr_st_warp_mem_carry_every_width() {
    let text = module(
        "",
        "st.global.u8 [%own], %i;\nst.global.u8 [%own+1], 0x80;\nst.global.u16 [%own+2], 0x1234;\n\
         ld.global.s8 %a, [%own+1];\nld.global.u16 %b, [%own+2];\nld.global.u8 %c, [%own];\n\
         add.u32 %r, %a, %b;\nadd.u32 %r, %r, %c;",
    );
    let words = every_way(&text, 1, 32);
    assert_eq!(words, each(32, |i| 0xffff_ff80u32.wrapping_add(0x1234).wrapping_add(i)));
}

#[test]
fn thr_regs_a_blocked_register_is_not_read() {
    // The sum needs the loaded value; it issues only once the load has released its register.
    let text = module("", "ld.global.u32 %a, [%own];\nadd.u32 %r, %a, 1;");
    let (words, report) = timed(&text, false, 1, 32).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(words, vec![1; 32]);
    assert!(report.stalls["memory"] > 100, "{:?}", report.stalls);
}

#[test]
fn warp_comm_lanes_of_a_split_vote_together_and_others_later() {
    let text = module(
        "",
        "setp.lt.u32 %p, %t, 10;\nsetp.ge.u32 %q, %t, 0;\n@%p bra LOW;\nvote.ballot.b32 %r, %q;\nbra DONE;\n\
         LOW:\nvote.ballot.b32 %r, %q;\nDONE:",
    );
    let (words, _) = timed(&text, false, 1, 32).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(words, each(32, |t| if t < 10 { 0x3ff } else { !0x3ff }));
}

#[test]
fn the_papers_dialect_gives_every_policy_the_same_results() {
    // Threads take their own tokens off where no warp has a stack.
    let body = "mov.u32 %b, 0;\npreBrk OUT;\nLOOP:\nssy JOIN;\nand.b32 %a, %b, 1;\nsetp.eq.u32 %q, %a, 0;\n\
                @%q bra EVEN;\nadd.u32 %r, %r, 100;\nsync;\nEVEN:\nadd.u32 %r, %r, 1;\nsync;\nJOIN:\n\
                setp.eq.u32 %p, %b, %t;\n@%p break;\nadd.u32 %b, %b, 1;\nbra LOOP;\nOUT:";
    let text = module("", body);
    let (stack, _) = timed(&text, true, 1, 32).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(stack, each(32, |t| 100 * (t.div_ceil(2)) + t / 2 + 1));
    let mut run = Run::new(device(chip(|_| {}), "mimd"), &text, true, 32);
    run.launch(1, 32, false).unwrap_or_else(|e| panic!("{e}"));
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run.words(), stack);
    // A token that was never pushed is the thread's fault, with its place.
    let error = timed(&module("", "sync;"), true, 1, 32).expect_err("no token");
    assert!(error.to_string().contains("t.ptx:21"), "{error}");
}

#[test]
fn reg_writeto_undoes_coalescing() {
    // Each lane reads the word of lane 31 - t of its warp, then one of another line.
    let text = module(
        "",
        "st.global.u32 [%own], %i;\nbar.sync 0;\nxor.b32 %a, %i, 31;\nmul.wide.u32 %w, %a, 4;\nadd.u64 %w, %w, %out;\n\
         ld.global.u32 %r, [%w];\nmul.lo.u32 %a, %i, 37;\nand.b32 %a, %a, 127;\nmul.wide.u32 %w, %a, 4;\n\
         add.u64 %w, %w, %out;\nld.global.u32 %b, [%w];\nbar.sync 0;\nmad.lo.u32 %r, %b, 1000, %r;",
    );
    assert_eq!(every_way(&text, 1, 128), each(128, |i| i * 37 % 128 * 1000 + (i ^ 31)));
}

const WEIGH: &str = ".func (.param .u32 out) weigh(.param .u32 a, .param .align 4 .b8 list[12], .param .u16 b)\n{\n\
                     .reg .u32 %x, %y, %z;\n.reg .u16 %h;\nld.param.u32 %x, [a];\nld.param.u32 %y, [list+8];\n\
                     mad.lo.u32 %x, %x, 1000, %y;\nld.param.u16 %h, [b];\ncvt.u32.u16 %z, %h;\n\
                     mad.lo.u32 %x, %z, 100000, %x;\nst.param.u32 [out], %x;\nret;\n}\n";

#[test]
fn calls_mix_registers_and_parameter_variables() {
    let body = "{\n.param .u32 take;\n.param .u32 first;\n.param .align 4 .b8 list[12];\n.reg .u16 %h;\n\
                cvt.u16.u32 %h, %t;\nst.param.u32 [first], 7;\nst.param.u32 [list+8], %t;\n\
                call (%r), weigh, (first, list, %h);\n}";
    assert_eq!(every_way(&module(WEIGH, body), 1, 32), each(32, |t| t * 100_000 + 7000 + t));
    // Declared in another order they are what they are; a list of another length is refused.
    let other = body.replace(
        ".param .u32 first;\n.param .align 4 .b8 list[12];",
        ".param .align 4 .b8 list[12];\n.param .u32 first;",
    );
    assert_eq!(every_way(&module(WEIGH, &other), 1, 32), each(32, |t| t * 100_000 + 7000 + t));
    {
        let (wrong, reason) = (body.replace("(first, list, %h)", "(first, list)"), "3 parameters");
        let mut device = device(chip(|_| {}), "crs_stack");
        let context = device.create_context();
        let text = module(WEIGH, &wrong);
        let error = device
            .load(context, &sim_frontend::diagnostic::Source::new("t.ptx", &text), false)
            .map(|_| ())
            .and_then(|()| {
                let launch = sim_core::context::Launch {
                    module: 0,
                    entry: "k".into(),
                    grid: [1; 3],
                    block: [32, 1, 1],
                    dynamic_shared: 0,
                    stream: 0,
                    params: vec![0; 8],
                    functional: false,
                    cluster: None,
                    non_portable_cluster: false,
                };
                device.launch(context, &launch).map(|_| ())
            })
            .expect_err("refused");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn predicates_are_parameters_and_results_of_functions() {
    let functions = ".func (.reg .pred b, .reg .u32 s, .reg .pred c) f(.reg .u32 x, .reg .pred d)\n{\n\
                     setp.lt.u32 b, x, 5;\nselp.u32 s, 11, 22, d;\nsetp.lt.and.u32 c, x, 9, d;\nret;\n}\n";
    let sum = "selp.u32 %a, 100, 0, %p;\nselp.u32 %b, 1000, 0, %q;\nadd.u32 %r, %r, %a;\nadd.u32 %r, %r, %b;";
    let expected = |t: u32| {
        let odd = t % 2 == 1;
        (if odd { 11 } else { 22 }) + if t < 5 { 100 } else { 0 } + if t < 9 && odd { 1000 } else { 0 }
    };
    let body = format!("and.b32 %a, %t, 1;\nsetp.ne.u32 %q, %a, 0;\ncall (%p, %r, %q), f, (%t, %q);\n{sum}");
    assert_eq!(every_way(&module(functions, &body), 1, 32), each(32, expected));
    // The call's guard is one of its results: all of them are taken where it held before.
    let guarded = format!(
        "and.b32 %a, %t, 1;\nsetp.ne.u32 %q, %a, 0;\nsetp.lt.u32 %p, %t, 16;\n\
         @%p call (%p, %r, %q), f, (%t, %q);\n{sum}"
    );
    let outside = |t: u32| if t % 2 == 1 { 1000 } else { 0 };
    let both = |t: u32| if t < 16 { expected(t) } else { outside(t) };
    assert_eq!(every_way(&module(functions, &guarded), 1, 32), each(32, both));
    // Functions that recur keep them across calls.
    let recursive = ".func (.reg .pred b) even(.reg .u32 x)\n{\n.reg .pred %e, %z;\n.reg .u32 %y;\n\
                     setp.eq.u32 %z, x, 0;\nmov.pred b, %z;\n@%z ret;\nsub.u32 %y, x, 1;\n\
                     call (%e), even, (%y);\nnot.pred b, %e;\nret;\n}\n";
    let body = "and.b32 %a, %t, 7;\ncall (%p), even, (%a);\nselp.u32 %r, 1, 0, %p;";
    assert_eq!(every_way(&module(recursive, body), 1, 32), each(32, |t| 1 - t % 2));
}

#[test]
fn parameter_variables_have_places_of_their_own() {
    let functions = ".func (.param .u32 r) one(.param .u32 a)\n{\n.reg .u32 %a;\nld.param.u32 %a, [a];\n\
                     add.u32 %a, %a, 1;\nst.param.u32 [r], %a;\nret;\n}\n\
                     .func (.param .u64 w, .param .u32 r) two(.param .u64 z, .param .align 4 .b8 a[6])\n{\n.reg .u32 %a, %b;\n\
                     .reg .u16 %h;\nld.param.u32 %a, [a];\nld.param.u16 %h, [a+4];\ncvt.u32.u16 %b, %h;\n\
                     mad.lo.u32 %a, %b, 100, %a;\nst.param.u32 [r], %a;\nret;\n}\n\
                     .func six(.param .align 4 .b8 a[6])\n{\nret;\n}\n";
    // No call takes them.
    let body = ".param .u32 x;\n.param .u32 y;\nst.param.u32 [x], %t;\nst.param.u32 [y], 1000;\n\
                ld.param.u32 %a, [x];\nld.param.u32 %b, [y];\nadd.u32 %r, %a, %b;";
    assert_eq!(every_way(&module(functions, body), 1, 32), each(32, |t| t + 1000));
    // Calls take them at different places.
    let body = "{\n.param .u32 r;\n.param .u32 x;\n.param .u64 z;\n.param .align 4 .b8 list[6];\n\
                st.param.u32 [x], %t;\ncall (r), one, (x);\nld.param.u32 %a, [r];\n\
                st.param.u32 [list], %t;\nst.param.u16 [list+4], 7;\ncall six, (list);\n\
                st.param.u64 [z], 5;\ncall (z, r), two, (z, list);\nld.param.u32 %b, [r];\n\
                mad.lo.u32 %r, %a, 10000, %b;\n}";
    assert_eq!(every_way(&module(functions, body), 1, 32), each(32, |t| (t + 1) * 10_000 + 700 + t));
}

#[test]
fn literal_arguments_have_the_types_of_their_parameters() {
    let functions = ".func (.reg .u32 s) f(.reg .f32 x, .reg .u64 y, .reg .f64 z)\n{\n.reg .u32 %a;\n\
                     cvt.rzi.u32.f32 s, x;\nshr.u64 y, y, 32;\ncvt.u32.u64 %a, y;\nadd.u32 s, s, %a;\n\
                     cvt.rzi.u32.f64 %a, z;\nadd.u32 s, s, %a;\nret;\n}\n";
    let body = "call (%r), f, (1.0, 0x7000000000, 2000.0);";
    assert_eq!(every_way(&module(functions, body), 1, 32), vec![1 + 0x70 + 2000; 32]);
}

#[test]
fn env_lock_env_unlock_atomics_of_two_warps_meet_in_banks() {
    // Lane 0 of each warp, at words of the warp's own.
    let cycles = |apart: u32, atomic: &str| {
        let body = format!(
            "and.b32 %b, %t, 31;\nsetp.ne.u32 %p, %b, 0;\n@%p bra OVER;\nshr.u32 %a, %t, 5;\nmul.lo.u32 %a, %a, {apart};\n\
             mov.u32 %c, room;\nadd.u32 %a, %a, %c;\nmov.u32 %n, 50;\nAGAIN:\n{atomic}\nsub.u32 %n, %n, 1;\n\
             setp.ne.u32 %q, %n, 0;\n@%q bra AGAIN;\nld.shared.u32 %r, [%a];\nOVER:"
        );
        let (words, report) = timed(&module("", &body), false, 1, 64).unwrap_or_else(|e| panic!("{e}"));
        (words, report.cycles)
    };
    let add = "atom.shared.add.u32 %b, [%a], 1;";
    let (words, other_banks) = cycles(4, add);
    assert_eq!((words[0], words[32]), (50, 50));
    let (words, same_bank) = cycles(128, add);
    assert_eq!((words[0], words[32]), (50, 50));
    let (words, same_word) = cycles(0, add);
    assert_eq!(words[0].max(words[32]), 100);
    // The chip's 60 cycles of lock, load, operate, store, and what is around them.
    assert!(same_bank > other_banks + 45 * 60 / 2, "{same_bank} {other_banks}");
    assert!(same_word.abs_diff(same_bank) < 200, "{same_word} {same_bank}");
    // Plain accesses ignore locks.
    let load = "ld.shared.u32 %b, [%a];";
    assert_eq!(cycles(4, load).1, cycles(128, load).1);
}

#[test]
fn parameters_are_those_of_the_launch() {
    // One program, launched with several: words and pairs that overlap, parts of words, vectors, and
    // a load that half of the lanes take part in.
    let text = module(
        "",
        "ld.param.u32 %a, [list+4];\nld.param.u64 %w, [list];\nshr.u64 %w, %w, 32;\ncvt.u32.u64 %b, %w;\n\
         sub.u32 %b, %b, %a;\nmad.lo.u32 %r, %b, 7777, %a;\nld.param.v2.u32 {%a, %b}, [list+8];\n\
         mad.lo.u32 %r, %a, 10, %r;\nmad.lo.u32 %r, %b, 100, %r;\nld.param.s16 %a, [short];\n\
         mad.lo.u32 %r, %a, 1000, %r;\nand.b32 %b, %t, 1;\nsetp.eq.u32 %p, %b, 1;\n@%p ld.param.u32 %b, [n];\n\
         mad.lo.u32 %r, %b, 10000, %r;",
    )
    .replace("(.param .u64 p)", "(.param .u64 p, .param .u32 n, .param .align 8 .b8 list[16], .param .s16 short)");
    for functional in [false, true] {
        for policy in ["crs_stack", "mimd"] {
            let mut run = Run::new(device(chip(|_| {}), policy), &text, false, 48);
            for (n, list, short) in [(3u32, [9u32, 4, 5, 6], -2i16), (70, [0, 1, 2, 3], 11)] {
                let mut params = [n.to_le_bytes(), [0; 4]].concat();
                params.extend(list.iter().flat_map(|word| word.to_le_bytes()));
                params.extend(short.to_le_bytes());
                run.launch_with(&params, 0, 1, 48, functional).unwrap_or_else(|e| panic!("{e}"));
                run.wait().unwrap_or_else(|e| panic!("{e}"));
                let all = list[1] + 10 * list[2] + 100 * list[3];
                let all = all.wrapping_add((i32::from(short) * 1000) as u32);
                let expected = each(48, |t| all.wrapping_add(if t % 2 == 1 { n * 10_000 } else { 0 }));
                assert_eq!(run.words(), expected, "{policy} {functional} {n}");
            }
            if !functional {
                // Six loads, the address of `out` among them, in two launches of two warps or 48 threads.
                let each = if policy == "mimd" { 48 } else { 2 };
                assert_eq!(run.report().memory.on_chip_accesses, 6 * 2 * each, "{policy}");
            }
        }
    }
}

#[test]
fn lanes_of_one_split_name_barriers_of_their_own() {
    // Even threads meet at one barrier, odd ones at another; the second warp comes late to both.
    let body = "mov.u64 %w, room;\ncvt.u32.u64 %a, %w;\nshl.b32 %b, %t, 2;\nadd.u32 %a, %a, %b;\n\
                setp.lt.u32 %p, %t, 32;\n@%p bra HERE;\nmov.u32 %c, 0;\nLOOP:\nadd.u32 %c, %c, 1;\n\
                setp.lt.u32 %q, %c, 200;\n@%q bra LOOP;\nHERE:\nadd.u32 %b, %t, 100;\nst.shared.u32 [%a], %b;\n\
                and.b32 %b, %t, 1;\nadd.u32 %b, %b, 1;\nbar.sync %b, 32;\nxor.b32 %a, %a, 128;\nld.shared.u32 %r, [%a];";
    let mut run = Run::new(device(chip(|_| {}), "convergence_barriers"), &module("", body), false, 64);
    run.launch(1, 64, false).unwrap_or_else(|e| panic!("{e}"));
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run.words(), each(64, |t| (t ^ 32) + 100));
}

#[test]
fn who_has_slept_sleeps_no_more() {
    // 700 cycles of one warp, once; afterwards its scheduler waits for other things.
    let text = module("", "nanosleep.u32 1000;\nmul.lo.u32 %r, %t, 3;").replace("sm_20", "sm_70");
    let text = text.replace(".version 3.0", ".version 6.3");
    let mut run = Run::new(
        device_with(chip(|_| {}), "mimd", |o| Options { allow_newer_isa: true, ..o }),
        &text,
        false,
        1,
    );
    run.launch(1, 1, false).unwrap_or_else(|e| panic!("{e}"));
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    let stalls = run.report().stalls;
    assert_eq!(stalls.get("sleep"), Some(&700), "{stalls:?}");
}

/// Barriers and fences of a block wait until a thread's earlier accesses are performed.
#[test]
fn thr_membar_thr_barsync_wait_for_earlier_accesses() {
    let cycles = |policy: &str, access: &str, wait: &str| {
        let body = format!(
            "mov.u32 %b, %clock;\n{access}\n{wait}\nmov.u32 %c, %clock;\nsub.u32 %r, %c, %b;\nand.b32 %a, %a, 0;\n\
             add.u32 %r, %r, %a;"
        );
        let mut run = Run::new(device(chip(|_| {}), policy), &module("", &body), false, 64);
        run.launch(1, 32, false).expect("it fits");
        run.wait().unwrap_or_else(|e| panic!("{policy} {access} {wait}: {e}"));
        run.words()[..32].iter().copied().min().expect("32 threads")
    };
    let load = "ld.global.u32 %a, [%own];";
    let atomic = "atom.global.add.u32 %a, [%own], 0;";
    for policy in ["crs_stack", "pdom_stack", "multi_path", "convergence_barriers"] {
        for access in [load, atomic] {
            // The warp does not wait for the access itself.
            let alone = cycles(policy, access, "");
            for wait in ["bar.sync 0;", "bar.arrive 1, 64;", "membar.cta;", "membar.gl;"] {
                let (idle, busy) = (cycles(policy, "", wait), cycles(policy, access, wait));
                assert!(alone < 40 && idle < 80, "{policy} {access} {wait}: {alone}, {idle}");
                assert!(busy > idle + 150, "{policy} {access} {wait}: {busy} cycles, {idle} without it");
            }
        }
    }
}

#[test]
fn env_spaces_constants_are_never_written_by_threads() {
    let body = |store: &str| {
        let table = ".const .align 4 .u32 table[32] = {5, 6, 7};";
        let read = "mov.u64 %w, table;\ncvta.const.u64 %x, %w;\n";
        module(table, &format!("{read}{store}ld.u32 %r, [%x];")).replace("sm_20", "sm_30")
    };
    let chip = || chip(|c| c.compute_capability = "3.0".into());
    for functional in [false, true] {
        let mut run = Run::new(device(chip(), "crs_stack"), &body(""), false, 32);
        run.launch(1, 32, functional).expect("allowed");
        run.wait().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(run.words(), [5; 32]);
        for store in ["st.u32 [%x], %t;\n", "atom.add.u32 %a, [%x], 1;\n"] {
            let mut run = Run::new(device(chip(), "crs_stack"), &body(store), false, 32);
            run.launch(1, 32, functional).expect("allowed");
            let error = run.wait().expect_err(store).to_string();
            assert!(error.contains("constant memory") && error.contains("lane 0"), "{store}: {error}");
        }
    }
}

/// Races that programs have: behind a barrier all read words of shared memory, which are written again without another barrier,
/// at once or from global memory. Timing, and the order of turns where there is none, lets all read the first values.
#[test]
fn warps_that_a_barrier_releases_go_on_side_by_side() {
    // Timed, and without time by warps and by threads.
    let sides = |text: &str| {
        [("crs_stack", false), ("crs_stack", true), ("mimd", true)].map(|(policy, functional)| {
            let mut run = Run::new(device(chip(|_| ()), policy), text, false, 256);
            run.launch(1, 256, functional).expect("a launch");
            run.wait().unwrap_or_else(|e| panic!("{policy}: {e}"));
            run.words()
        })
    };
    let rounds = |body: &str| {
        let begin = ".reg .u32 %at;\nmov.u32 %at, room;\nsetp.eq.u32 %p, %t, 0;\n@%p st.shared.u32 [room], 7;\n@%p st.shared.u32 [room+4], 100;\n\
                     mov.u32 %n, 3;\nROUND:\nbar.sync 0;\nld.shared.u32 %a, [room];\nadd.u32 %r, %r, %a;\n";
        let end = "sub.u32 %n, %n, 1;\nsetp.ne.u32 %q, %n, 0;\n@%q bra ROUND;\nbar.sync 0;";
        module("", &format!("{begin}{body}{end}"))
    };
    let at_once = rounds("add.u32 %a, %a, 2;\n@%p st.shared.u32 [room], %a;\n");
    assert_eq!(sides(&at_once), [(); 3].map(|()| vec![7 + 9 + 11; 256]));
    let from_memory = rounds(
        "ld.shared.u32 %c, [room+4];\nadd.u32 %r, %r, %c;\nld.volatile.global.u32 %b, [%out];\n\
         add.u32 %b, %b, %a;\nadd.u32 %b, %b, 2;\n@%p st.shared.u32 [room], %b;\n@%p st.shared.u32 [room+4], %b;\n",
    );
    assert_eq!(sides(&from_memory), [(); 3].map(|()| vec![7 + 9 + 11 + 100 + 9 + 11; 256]));
    // By an address in a register too.
    let by_register = |text: &str| {
        let later = "bar.sync 0;\nadd.u32 %r, %r, 1;\nsub.u32 %r, %r, 1;\nld.shared";
        text.replace("bar.sync 0;\nld.shared", later).replace("[room", "[%at")
    };
    assert_eq!(sides(&by_register(&at_once)), [(); 3].map(|()| vec![7 + 9 + 11; 256]));
    assert_eq!(sides(&by_register(&from_memory)), [(); 3].map(|()| vec![7 + 9 + 11 + 100 + 9 + 11; 256]));
}

/// What follows one another is counted as if it were executed one by one: guards that hold for some threads or none,
/// instructions that stand for several of the machine's.
#[test]
fn straight_runs_are_counted_as_their_instructions_are() {
    let body = ".reg .u32 %at;\nmov.u32 %at, room;\nmad.lo.u32 %at, %t, 4, %at;\nst.shared.u32 [%at], %t;\nmov.u32 %n, 5;\n\
                ROUND:\nsetp.lt.u32 %p, %t, %n;\n@%p add.u32 %r, %r, %t;\n@!%p mul.lo.u32 %a, %t, %n;\n\
                div.u32 %a, %t, %n;\n@%p ld.shared.u32 %b, [%at];\n@%p bra NEXT;\nxor.b32 %r, %r, 3;\n\
                mul.lo.u32 %r, %r, 5;\nst.shared.u32 [%at], %r;\nNEXT:\nrem.u32 %a, %a, 7;\nadd.u32 %r, %r, %a;\nsub.u32 %n, %n, 1;\nsetp.ne.u32 %q, %n, 0;\n\
                @%q bra ROUND;";
    for policy in ["crs_stack", "pdom_stack", "min_pc"] {
        let counts = |functional: bool, check: Check| {
            let device = device_with(chip(|_| ()), policy, |options| Options { check, ..options });
            let mut run = Run::new(device, &module("", body), false, 64);
            run.launch(1, 64, functional).expect("a launch");
            run.wait().unwrap_or_else(|e| panic!("{policy}: {e}"));
            let kernel = &run.report().kernels[0];
            let counts = [kernel.warp_instructions, kernel.thread_instructions, kernel.machine_instructions];
            (counts, kernel.control_instructions, run.words())
        };
        let one_by_one = counts(true, Check::Full);
        assert_eq!(counts(true, Check::Safety), one_by_one, "{policy}");
        assert_eq!(counts(true, Check::Off), one_by_one, "{policy}");
        assert_eq!(counts(false, Check::Safety), one_by_one, "{policy}");
    }
}

/// Where a scheduler stays with its last split, operations that follow one another issue together unless everything is checked: with
/// guards that hold for some threads, values that come from memory between, and units that schedulers share, everything takes the time
/// and is counted as when each is looked at.
#[test]
fn operations_issued_together_take_their_own_time() {
    let body = "mov.u32 %n, 9;\nmov.u32 %b, 1;\nmov.u32 %c, 2;\nROUND:\nld.global.u32 %a, [%own];\nsetp.lt.u32 %p, %t, 11;\n\
                add.u32 %r, %r, 1;\nadd.u32 %b, %b, %t;\nadd.u32 %c, %c, 3;\n@%p add.u32 %r, %r, %t;\n@!%p add.u32 %b, %b, 5;\n\
                add.u32 %c, %c, %t;\n@%p xor.b32 %b, %b, %c;\nadd.u32 %r, %r, %a;\nadd.u32 %c, %c, 1;\nadd.u32 %b, %b, 1;\n\
                @%p bra NEXT;\nadd.u32 %r, %r, 7;\nadd.u32 %b, %b, 7;\nadd.u32 %c, %c, 7;\nadd.u32 %r, %r, %b;\nNEXT:\n\
                st.global.u32 [%own], %r;\nsub.u32 %n, %n, 1;\nsetp.ne.u32 %q, %n, 0;\n@%q bra ROUND;\nadd.u32 %r, %r, %b;\n\
                add.u32 %r, %r, %c;";
    let alu = |c: &mut ChipSpec, per| c.sm.units.set(UnitClass::Alu, UnitSpec { count: 1, per, with: None });
    let chips = [
        ("as it is", chip(|_| ())),
        ("an ALU for all schedulers", chip(|c| alu(c, UnitScope::Sm))),
        ("lines of code", chip(|c| c.sm.instruction_cache = newer_chip("7.0").sm.instruction_cache.clone())),
    ];
    for policy in ["crs_stack", "pdom_stack", "min_pc"] {
        for (name, chip) in &chips {
            let ran = |body: &str, check: Check, abort: Option<u64>| {
                let device = device_with(Arc::clone(chip), policy, |options| Options { check, ..options });
                let mut run = Run::new(device, &module("", body), false, 320);
                let grid = run.launch(2, 160, false).expect("a launch");
                if let Some(at) = abort {
                    run.device.context(run.context).expect("it exists").abort(grid, at).expect("it waits");
                }
                run.wait().unwrap_or_else(|e| panic!("{policy}: {e}"));
                (run.report(), run.words())
            };
            let whole = ran(body, Check::Full, None);
            assert_eq!(ran(body, Check::Safety, None), whole, "{policy} {name}");
            assert_eq!(ran(body, Check::Off, None), whole, "{policy} {name}");
            // Without loads, so that the threads end within a run.
            let body = body.replace("ld.global.u32 %a, [%own];", "");
            for at in 5_100..5_116 {
                let one_by_one = ran(&body, Check::Full, Some(at));
                assert!(one_by_one.0.kernels[0].aborted, "it had ended before {at}");
                assert_eq!(ran(&body, Check::Safety, Some(at)), one_by_one, "{policy} {name} {at}");
            }
        }
    }
}

/// How a block's warps take turns does not depend on who was in its place before: warp 0, which no barrier has released, goes on to
/// its barrier before warp 1 begins, in the second block as in the first.
#[test]
fn a_block_begins_with_whole_turns_in_functional_mode() {
    let body = "setp.eq.u32 %p, %t, 0;\n@%p ld.volatile.global.u32 %a, [%out+4000];\n@%p st.shared.u32 [room], 5;\n\
                ld.shared.u32 %r, [room];\nbar.sync 0;";
    let chip = chip(|c| c.limits.max_resident_blocks = 1);
    let mut run = Run::new(device(chip, "crs_stack"), &module("", body), false, 1024);
    run.launch(3, 64, true).expect("a launch");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run.words()[..192], [5; 192]);
}
