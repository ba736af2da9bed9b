use super::*;
use crate::diagnostic::Source;
use crate::load::Module;
use crate::program::ControlFlow;

fn verdicts_of(text: &str) -> Vec<LoopFairness> {
    let module =
        Module::build(&Source::new("t.ptx", text), false).unwrap_or_else(|e| panic!("{}", e[0].render()));
    let program = module
        .program("k", &|_| Some(0x1000), ControlFlow::Plain, 4096)
        .unwrap_or_else(|e| panic!("{}", e[0].render()));
    loops(&program)
}

/// The loops of a kernel with this body; its lines count from 1.
fn loops_of(functions: &str, body: &str) -> Vec<LoopFairness> {
    verdicts_of(&format!(
        ".version 3.0 .target sm_20 .address_size 64 {} .visible .entry k(.param .u64 p) {{ \
         .reg .u32 %t, %n, %v, %i; .reg .u64 %g, %l; .reg .pred %p, %q; .local .align 4 .b8 own[64]; \
         .shared .align 4 .b8 room[64]; ld.param.u64 %g, [p]; mov.u32 %t, %tid.x; mov.u32 %n, 9; mov.u32 %i, 0;\n\
         {body}\nexit;\n}}\n",
        functions.replace('\n', " ")
    ))
}

fn safe(loops: &[LoopFairness]) -> Vec<bool> {
    loops.iter().map(|l| l.verdict == Verdict::Independent).collect()
}

#[test]
fn sc_lemma6_loops_that_count_are_independent() {
    let count = "LOOP:\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, %n;\n@%p bra LOOP;";
    assert_eq!(safe(&loops_of("", count)), [true]);
    // Loads in the loop, branches on them, and what they decide: all that does not decide its end.
    let loads = "LOOP:\nld.global.u32 %v, [%g];\nsetp.eq.u32 %q, %v, 0;\n@%q bra OVER;\nst.global.u32 [%g], %t;\n\
                 OVER:\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, %n;\n@%p bra LOOP;";
    assert_eq!(safe(&loops_of("", loads)), [true]);
    // A parameter is nobody's to write; a register that held a load before may hold a count now.
    let reuse = "ld.global.u32 %i, [%g];\nst.global.u32 [%g], %i;\nmov.u32 %i, 0;\nLOOP:\nadd.u32 %i, %i, 1;\n\
                 setp.lt.u32 %p, %i, %n;\n@%p bra LOOP;";
    assert_eq!(safe(&loops_of("", reuse)), [true]);
    let nested = "OUTER:\nmov.u32 %v, 0;\nINNER:\nadd.u32 %v, %v, 1;\nsetp.lt.u32 %p, %v, %i;\n@%p bra INNER;\n\
                  add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, %n;\n@%p bra OUTER;";
    assert_eq!(safe(&loops_of("", nested)), [true, true]);
}

#[test]
fn sc_lemma6_what_others_may_write_is_found_wherever_it_decides() {
    let cases = [
        (
            "a spin on global memory",
            "LOOP:\nld.volatile.global.u32 %v, [%g];\nsetp.ne.u32 %p, %v, 1;\n@%p bra LOOP;",
        ),
        (
            "a spin on shared memory",
            "LOOP:\nld.shared.u32 %v, [room];\nsetp.ne.u32 %p, %v, 1;\n@%p bra LOOP;",
        ),
        ("a lock", "LOOP:\natom.global.cas.b32 %v, [%g], 0, 1;\nsetp.ne.u32 %p, %v, 0;\n@%p bra LOOP;"),
        (
            "a bound read before the loop",
            "ld.global.u32 %n, [%g];\nLOOP:\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, %n;\n@%p bra LOOP;",
        ),
        (
            "a guarded write that leaves it as it was",
            "ld.global.u32 %n, [%g];\nsetp.eq.u32 %q, %t, 3;\n@%q mov.u32 %n, 5;\nLOOP:\nadd.u32 %i, %i, 1;\n\
             setp.lt.u32 %p, %i, %n;\n@%p bra LOOP;",
        ),
        (
            "by way of arithmetic and a selection",
            "LOOP:\nld.global.u32 %v, [%g];\nsetp.eq.u32 %q, %v, 3;\nselp.u32 %v, 0, 1, %q;\nadd.u32 %i, %i, %v;\n\
             setp.lt.u32 %p, %i, %n;\n@%p bra LOOP;",
        ),
        (
            "by control: what a branch on it writes",
            "LOOP:\nld.global.u32 %v, [%g];\nsetp.eq.u32 %q, %v, 3;\n@%q bra OVER;\nadd.u32 %i, %i, 1;\nOVER:\n\
             setp.lt.u32 %p, %i, %n;\n@%p bra LOOP;",
        ),
        (
            "by a guard",
            "LOOP:\nld.global.u32 %v, [%g];\nsetp.eq.u32 %q, %v, 3;\n@%q add.u32 %i, %i, 1;\n\
             setp.lt.u32 %p, %i, %n;\n@%p bra LOOP;",
        ),
        (
            "a way round that misses the test",
            "setp.eq.u32 %p, %t, 3;\nLOOP:\nld.global.u32 %v, [%g];\nsetp.eq.u32 %q, %v, 3;\n@%q bra LOOP;\n\
             @!%p bra LOOP;",
        ),
        (
            "by way of the thread's own memory",
            "LOOP:\nld.global.u32 %v, [%g];\nst.local.u32 [own], %v;\nld.local.u32 %i, [own+4];\n\
             setp.lt.u32 %p, %i, %n;\n@%p bra LOOP;",
        ),
        ("a barrier", "LOOP:\nbar.sync 0;\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, %n;\n@%p bra LOOP;"),
        ("a clock", "LOOP:\nmov.u32 %v, %clock;\nsetp.lt.u32 %p, %v, 1000;\n@%p bra LOOP;"),
        (
            "which exit is tested",
            "setp.eq.u32 %p, %t, 3;\nLOOP:\nld.global.u32 %v, [%g];\nsetp.eq.u32 %q, %v, 3;\n@%q bra RIGHT;\n\
             @%p bra OUT;\nbra LOOP;\nRIGHT:\n@!%p bra OUT;\nbra LOOP;\nOUT:",
        ),
    ];
    for (what, body) in cases {
        let found = loops_of("", body);
        assert!(!found.is_empty(), "{what}: no loop");
        assert!(matches!(found[0].verdict, Verdict::Affected { .. }), "{what}: {found:?}");
    }
    // The line is that of the test.
    let spin = "LOOP:\nld.volatile.global.u32 %v, [%g];\nsetp.ne.u32 %p, %v, 1;\n@%p bra LOOP;";
    let Verdict::Affected { line, reason } = loops_of("", spin)[0].verdict.clone() else {
        panic!("affected")
    };
    assert_eq!((line, reason), (5, "exits here depending on a value that other threads may write"));
}

/// The first loop of a kernel for compute capability 9.0: `before` it, and `inside` of it.
fn loop_of_sm_90(before: &str, inside: &str) -> bool {
    let found = verdicts_of(&format!(
        ".version 8.0 .target sm_90 .address_size 64 .visible .entry k(.param .u64 p) {{ .reg .u32 %t, %n, %v, %i; \
         .reg .u64 %g, %l; .reg .pred %p, %q; .shared .align 8 .b8 room[64]; ld.param.u64 %g, [p]; mov.u32 %t, %tid.x; \
         mov.u32 %n, 9; mov.u32 %i, 0; mov.u32 %v, 9; setp.eq.u32 %q, %t, 3;\n{before}\nLOOP:\n{inside}\n\
         add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, %v;\n@%p bra LOOP;\nexit;\n}}\n"
    ));
    assert_eq!(found.len(), 1, "{before} {inside}");
    safe(&found)[0]
}

#[test]
fn sc_lemma6_every_instruction_that_waits_for_threads_is_found() {
    assert!(loop_of_sm_90("", ""));
    for waits in [
        "bar.sync 0;",
        "barrier.sync.aligned 1, 64;",
        "bar.warp.sync -1;",
        "vote.sync.any.pred %q, %q, -1;",
        "shfl.sync.idx.b32 %n, %t, 0, 31, -1;",
        "match.any.sync.b32 %n, %t, -1;",
        "redux.sync.add.u32 %n, %t, -1;",
        "elect.sync _|%q, -1;",
    ] {
        assert!(!loop_of_sm_90("", waits), "{waits}");
        assert!(loop_of_sm_90(waits, ""), "{waits} before the loop");
    }
    for alone in
        ["activemask.b32 %n;", "membar.gl;", "ld.global.u32 %n, [%g];", "atom.global.add.u32 %n, [%g], 1;"]
    {
        assert!(loop_of_sm_90("", alone), "{alone}");
    }
}

#[test]
fn sc_lemma6_every_result_that_other_threads_take_part_in_is_found() {
    for other in [
        "bar.red.popc.u32 %v, 0, %q;",
        "vote.sync.ballot.b32 %v, %q, -1;",
        "shfl.sync.idx.b32 %v, %t, 0, 31, -1;",
        "match.any.sync.b32 %v, %t, -1;",
        "redux.sync.add.u32 %v, %t, -1;",
        "elect.sync %v|%q, -1;",
        "activemask.b32 %v;",
        "ld.global.u32 %v, [%g];",
        "atom.global.add.u32 %v, [%g], 1;",
        "mbarrier.arrive.shared.b64 %l, [room];\ncvt.u32.u64 %v, %l;",
    ] {
        assert!(!loop_of_sm_90(other, ""), "{other}");
    }
    for own in ["mov.u32 %v, %t;", "ld.param.u32 %v, [p];", "add.u32 %v, %v, %t;"] {
        assert!(loop_of_sm_90(own, ""), "{own}");
    }
}

#[test]
fn sc_lemma6_through_functions_and_recursion() {
    let spins = ".func f(.reg .u64 %a) { .reg .u32 %v; .reg .pred %p; AGAIN: ld.volatile.global.u32 %v, [%a];\n\
                 setp.ne.u32 %p, %v, 1; @%p bra AGAIN; ret; }";
    let calls = "LOOP:\ncall f, (%g);\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, %n;\n@%p bra LOOP;";
    assert_eq!(safe(&loops_of(spins, calls)), [false, false], "the loop of f, and the one that calls it");
    let gives = ".func (.reg .u32 %r) f(.reg .u64 %a) { ld.global.u32 %r, [%a]; ret; }";
    let takes = "LOOP:\ncall (%v), f, (%g);\nsetp.ne.u32 %p, %v, 1;\n@%p bra LOOP;";
    assert_eq!(safe(&loops_of(gives, takes)), [false]);
    let harmless = ".func (.reg .u32 %r) f(.reg .u32 %a) { add.u32 %r, %a, 1; ret; }";
    let counts = "LOOP:\ncall (%i), f, (%i);\nsetp.lt.u32 %p, %i, %n;\n@%p bra LOOP;";
    assert_eq!(safe(&loops_of(harmless, counts)), [true]);
    let endless = loops_of("", "LOOP:\nadd.u32 %i, %i, 1;\nbra LOOP;");
    assert_eq!(endless[0].verdict, Verdict::Endless);
}
