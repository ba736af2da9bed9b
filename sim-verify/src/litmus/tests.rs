use super::*;
use crate::models;
use crate::verdict::{Answer, Bounds, Verdict, decide};

fn answer(model: &str, text: &str) -> Answer {
    let test = Test::parse("test.litmus", text).unwrap_or_else(|error| panic!("{}", error.render()));
    let model = models::named(model).expect("a model").expect("it parses");
    decide(&test, &model, Bounds::default()).answer
}

const MP: &str = "PTX MP
{ x=0; y=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 st.weak x, 1 | ld.acquire.gpu r0, y ;
 st.release.gpu y, 1 | ld.weak r1, x ;
exists (P1:r0 == 1 /\\ P1:r1 == 0)
";

#[test]
fn message_passing() {
    for model in ["ptx-6.0", "ptx-7.5"] {
        assert_eq!(answer(model, MP), Answer::Forbidden, "{model}");
        assert_eq!(answer(model, &MP.replace("release", "relaxed")), Answer::Allowed, "{model}");
        assert_eq!(answer(model, &MP.replace("acquire.gpu", "acquire.cta")), Answer::Allowed, "{model}");
    }
}

/// A test with one thing wrong, place of the error, and a word of its message.
const REFUSED: [(&str, (u32, u32), &str); 44] = [
    ("X86 a\n{ x=0; }\n P0@cta 0 ;\nexists (x==0)", (1, 1), "a litmus test for X86"),
    ("PTX a\nnonsense\n{ x=0; }", (2, 1), "`KEY=VALUE`"),
    ("PTX a\n\"no end\n{ x=0; }", (2, 1), "unterminated string"),
    ("PTX a\nVerdict=perhaps\n{ x=0; }", (2, 1), "one of allowed, forbidden, unknown"),
    ("PTX a\nConsistent=many\n{ x=0; }", (2, 1), "a number of executions"),
    ("PTX a\n{ x=0; x=1; }", (2, 8), "declared twice"),
    ("PTX a\n{ x=0 y=0; }", (2, 7), "`;` after a declaration"),
    ("PTX a\n{ x=; }", (2, 5), "a number, or a location"),
    ("PTX a\n{ x=99999999999; }", (2, 5), "not a 32-bit number"),
    ("PTX a\n{ x=0; y @ cache aliases x; }", (2, 12), "`cache` is not a proxy"),
    ("PTX a\n{ x=0; y @ generic alias x; }", (2, 20), "expected `aliases`"),
    ("PTX a\n{ y @ generic aliases x; }", (2, 23), "is not declared"),
    ("PTX a\n{ P0:r0 0; }", (2, 9), "`=` after the register"),
    ("PTX a\n{ x=0; }\n Q0@cta 0 ;\nexists (x==0)", (3, 2), "`Q0` is not a thread"),
    ("PTX a\n{ x=0; }\n P0@cta 0 | P0@cta 1 ;\nexists (x==0)", (3, 13), "declared twice"),
    ("PTX a\n{ x=0; }\n P0@gpu 0 ;\nexists (x==0)", (3, 2), "P0 has no CTA"),
    ("PTX a\n{ x=0; }\n P0@cta 0,cta 1 ;\nexists (x==0)", (3, 11), "`cta` of P0 is given twice"),
    ("PTX a\n{ x=0; }\n P0@block 0 ;\nexists (x==0)", (3, 5), "not a level of the scope tree"),
    (
        "PTX a\n{ x=0; }\n P0@cta 0,cluster 0 | P1@cta 0,cluster 1 ;\nexists (x==0)",
        (3, 23),
        "not in one cluster",
    ),
    ("PTX a\n{ P3:r0=1; }\n P0@cta 0 ;\nexists (P0:r0==0)", (2, 3), "there is no thread `P3`"),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n st.weak x, 1 | ld.weak r0, x ;\nexists (x==0)",
        (4, 15),
        "`;` after the last thread",
    ),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n stt.weak x, 1 ;\nexists (x==0)", (4, 2), "`stt` is not an instruction"),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n st.week x, 1 ;\nexists (x==0)", (4, 2), "`.week` is not a modifier"),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n st.relaxed x, 1 ;\nexists (x==0)", (4, 2), "requires a scope"),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n st.weak.gpu x, 1 ;\nexists (x==0)",
        (4, 2),
        "a weak operation has no scope",
    ),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n st.acquire.gpu x, 1 ;\nexists (x==0)",
        (4, 2),
        "`st` cannot be `.acquire`",
    ),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n ld.release.gpu r0, x ;\nexists (x==0)",
        (4, 2),
        "`ld` cannot be `.release`",
    ),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n ld.acquire.relaxed.gpu r0, x ;\nexists (x==0)",
        (4, 2),
        "repeats or contradicts",
    ),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n st.weak z, 1 ;\nexists (x==0)", (4, 10), "`z` is not declared"),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n st.weak x 1 ;\nexists (x==0)", (4, 12), "`,` after the address"),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n st.weak x, x ;\nexists (x==0)",
        (4, 13),
        "is a location; expected a register",
    ),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n atom.relaxed.gpu r0, x, 1 ;\nexists (x==0)",
        (4, 2),
        "operation is missing",
    ),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n red.relaxed.gpu.cas x, 1, 2 ;\nexists (x==0)",
        (4, 2),
        "`red` has no `cas`",
    ),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n fence.weak.gpu ;\nexists (x==0)", (4, 2), "a fence cannot be `.weak`"),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n fence.sc ;\nexists (x==0)", (4, 2), "a fence requires a scope"),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n fence.proxy.tensor ;\nexists (x==0)",
        (4, 2),
        "`fence.proxy.tensor` is not part",
    ),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n membar.gpu ;\nexists (x==0)", (4, 2), "`membar` requires a level"),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n bar.cta.wait 0 ;\nexists (x==0)",
        (4, 2),
        "`bar.cta.sync` or `bar.cta.arrive`",
    ),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n goto L1 ;\nexists (x==0)", (4, 7), "P0 has no label `L1`"),
    (
        "PTX a\n{ x=0; }\n P0@cta 0 ;\n L: st.weak x, 1 ;\n L: st.weak x, 2 ;\nexists (x==0)",
        (5, 2),
        "is defined twice",
    ),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n @%p st.weak x, 1 ;\nexists (x==0)", (4, 6), "only `bra` can be guarded"),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n st.weak x, 1 ;", (4, 16), "`exists`, `~exists` or `forall`"),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n st.weak x, 1 ;\nexists (x==0) more", (5, 15), "the end of the test"),
    ("PTX a\n{ x=0; }\n P0@cta 0 ;\n st.weak x, 1 ;\nexists (P1:r0==0)", (5, 9), "there is no thread `P1`"),
];

#[test]
fn tests_that_are_wrong_say_where_and_why() {
    let mut wrong = Vec::new();
    for (text, (line, column), message) in REFUSED {
        let shown = Test::parse("t.litmus", text).expect_err(text).render();
        let placed = shown.contains(&format!("t.litmus:{line}:{column}\n"));
        if !placed || !shown.contains(message) || !shown.contains('^') {
            wrong.push(format!("{text}\n{line}:{column} {message}\n{shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let deep = format!("PTX a\n{{ x=0; }}\n P0@cta 0 ;\nexists {}x==0", "(".repeat(100_000));
    assert_eq!(Test::parse("t.litmus", &deep).expect_err("deep").code, "depth");
    let near =
        Test::parse("t.litmus", "PTX a\n{ flag=0; }\n P0@cta 0 ;\n st.weak flg, 1 ;\nexists (flag==0)");
    assert_eq!(near.expect_err("a slip").help.as_deref(), Some("did you mean `flag`?"));
}

/// A test of one thread, and one of its outcomes.
fn outcome(body: &str, condition: &str) -> Answer {
    let rows: String = body.split(';').map(|i| format!(" {} ;\n", i.trim())).collect();
    answer("ptx-7.5", &format!("PTX a\n{{ x=5; y=0; }}\n P0@cta 0,gpu 0 ;\n{rows}exists ({condition})"))
}

#[test]
fn instructions_compute_what_ptx_says() {
    for (body, condition) in [
        ("mov r0, 7; add r1, r0, 3", "P0:r1 == 10"),
        ("mov r0, 7; sub r1, r0, 9", "P0:r1 == -2"),
        ("mul r1, 6, 7; div r2, r1, 5", "P0:r1 == 42 /\\ P0:r2 == 8"),
        ("and r0, 12, 10; or r1, 12, 10; xor r2, 12, 10", "P0:r0 == 8 /\\ P0:r1 == 14 /\\ P0:r2 == 6"),
        ("min r0, 3, 5; max r1, 3, 5", "P0:r0 == 3 /\\ P0:r1 == 5"),
        ("setp.lt r0, 3, 5; setp.ge r1, 3, 5", "P0:r0 == 1 /\\ P0:r1 == 0"),
        ("ld.weak r0, x", "P0:r0 == 5"),
        ("mov r3, y; st.weak [r3], 4; ld.weak r0, y", "P0:r0 == 4"),
        ("atom.relaxed.gpu.add r0, x, 2", "P0:r0 == 5 /\\ x == 7"),
        ("atom.relaxed.gpu.sub r0, x, 2", "P0:r0 == 5 /\\ x == 3"),
        ("atom.relaxed.gpu.inc r0, x, 5", "P0:r0 == 5 /\\ x == 0"),
        ("atom.relaxed.gpu.dec r0, x, 9", "P0:r0 == 5 /\\ x == 4"),
        ("atom.relaxed.gpu.exch r0, x, 9", "P0:r0 == 5 /\\ x == 9"),
        ("atom.relaxed.gpu.cas r0, x, 5, 9", "P0:r0 == 5 /\\ x == 9"),
        ("atom.relaxed.gpu.cas r0, x, 4, 9", "P0:r0 == 5 /\\ x == 5"),
        ("atom.relaxed.gpu.min r0, x, 3; atom.relaxed.gpu.max r1, x, 8", "P0:r1 == 3 /\\ x == 8"),
        ("atom.relaxed.gpu.and r0, x, 4; atom.relaxed.gpu.or r1, x, 2", "P0:r1 == 4 /\\ x == 6"),
        ("red.relaxed.gpu.xor x, 1", "x == 4"),
        ("ld.weak r0, x; bne r0, 5, L; st.weak y, 1; L:", "y == 1"),
        ("ld.weak r0, x; setp.eq r1, r0, 5; @%r1 bra L; st.weak y, 1; L:", "y == 0"),
        ("mov r0, 0; L: add r0, r0, 1; blt r0, 2, L", "P0:r0 == 2"),
        ("st.weak x, 1", "x == 1 \\/ x == 2"),
        ("st.weak x, 1", "not (x == 2) && x = 1"),
    ] {
        assert_eq!(outcome(body, condition), Answer::Allowed, "{body}: {condition}");
        assert_eq!(outcome(body, &format!("~({condition})")), Answer::Forbidden, "{body}: {condition}");
    }
}

#[test]
fn what_a_bound_leaves_open_is_unknown() {
    let count = "PTX a\n{ x=0; }\n P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;\n\
                 L0: | ;\n ld.relaxed.gpu r0, x | st.relaxed.gpu x, 1 ;\n bne r0, 1, L0 | ;\nexists (P0:r0 == 2)";
    let test = Test::parse("t.litmus", count).expect("it parses");
    let model = models::named("ptx-7.5").expect("a model").expect("it parses");
    let verdict = decide(&test, &model, Bounds { unroll: 2, candidates: 5_000 });
    assert_eq!(verdict.answer, Answer::Forbidden);
    assert!(!verdict.bounded && verdict.endless.is_none(), "passes that read 0 change nothing");
    let verdict = decide(&test, &model, Bounds { unroll: 2, candidates: 1 });
    assert!(matches!(verdict.answer, Answer::Unknown(why) if why.contains("more than 1 ")));
    let stores: String = (0..70).map(|i| format!(" st.weak x, {i} ;\n")).collect();
    let test = format!("PTX a\n{{ x=0; }}\n P0@cta 0,gpu 0 ;\n{stores}exists (x == 70)");
    assert!(matches!(answer("ptx-7.5", &test), Answer::Unknown(why) if why.contains("64 events")));
}

fn verdict_of(text: &str) -> Verdict {
    let test = Test::parse("t.litmus", text).unwrap_or_else(|error| panic!("{}", error.render()));
    let model = models::named("ptx-7.5").expect("a model").expect("it parses");
    decide(&test, &model, Bounds::default())
}

/// A loop that counts reaches states beyond the bound: nothing is forbidden by not having looked. One that waits for a
/// value has no others.
#[test]
fn loops_beyond_the_bound_leave_the_answer_unknown() {
    let counts = "PTX t\n{ x=0; P0:r0=0; }\n P0@cta 0,gpu 0 ;\n L: add r0, r0, 1 ;\n bne r0, 5, L ;\n st.weak x, 1 ;\nexists (x == 1)\n";
    assert!(matches!(verdict_of(counts).answer, Answer::Unknown(reason) if reason.contains("--unroll")));
    let few = counts.replace("bne r0, 5", "bne r0, 3");
    assert_eq!(verdict_of(&few).answer, Answer::Allowed);
    let waits = "PTX t\n{ x=0; y=0; P1:r0=7; }\n P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;\n st.relaxed.gpu x, 2 | L: ld.relaxed.gpu r0, x ;\n | bne r0, 2, L ;\n | st.weak y, 1 ;\nexists (y == 2)\n";
    let verdict = verdict_of(waits);
    assert_eq!((verdict.answer, verdict.bounded), (Answer::Forbidden, false));
}

/// Values are 32-bit words, as those of the kernels that run the test.
#[test]
fn values_are_32_bit_words() {
    let test = "PTX t\n{ x=4294967295; y=0; z=4294967295; u=0; }\n P0@cta 0,gpu 0 ;\n atom.relaxed.gpu.add r0, x, 1 ;\n sub r1, 0, 1 ;\n st.weak y, r1 ;\n mul r2, r1, 0x7fffffff ;\n atom.relaxed.gpu.inc r3, z, 5 ;\n atom.relaxed.gpu.dec r4, u, 4294967295 ;\nforall (x == 0 /\\ y == 0xffffffff /\\ P0:r2 == 0x80000001 /\\ z == 0 /\\ u == -1)\n";
    let verdict = verdict_of(test);
    assert_eq!(verdict.answer, Answer::Forbidden, "{:?}", verdict.states);
    assert_eq!(verdict.consistent, 1);
}

#[test]
fn executions_that_all_divide_by_zero_leave_the_answer_unknown() {
    let verdict = verdict_of(
        "PTX t\n{ x=0; }\n P0@cta 0,gpu 0 ;\n div r1, 1, 0 ;\n st.weak x, r1 ;\nexists (x == 1)\n",
    );
    assert!(matches!(verdict.answer, Answer::Unknown(reason) if reason.contains("divides by zero")));
}

#[test]
fn misspelt_expectations_are_refused() {
    let test = |line: &str| {
        Test::parse(
            "t.litmus",
            &format!("PTX t\n{line}\n{{ x=0; }}\n P0@cta 0,gpu 0 ;\n st.weak x, 1 ;\nexists (x == 1)\n"),
        )
    };
    for line in ["Verdit=allowed", "Verdict.ptx-7.0=allowed", "verdict=allowed"] {
        let error = test(line).expect_err(line).render();
        assert!(error.contains("Verdict") || error.contains("ptx-7.5"), "{error}");
    }
    for line in ["Verdict.ptx-6.0=allowed", "Generator=diyone7", "Verdict.mine=allowed"] {
        assert!(test(line).is_ok(), "{line}");
    }
}
