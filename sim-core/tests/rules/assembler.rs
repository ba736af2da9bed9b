//! What the assembler's passes make of random programs computes what the programs compute.

use std::fmt::Write;
use std::sync::Arc;

use sim_frontend::chip::{AssemblerSpec, ChipSpec, CombineAtomics, ConstantOperands};

use crate::machine::{Run, device, newer_chip};
use crate::random_programs::Numbers;

/// Every pass.
const ALL: AssemblerSpec = AssemblerSpec::ALL;

/// Registers of a program: of 32 and 64 bits, those of 64 bits of which low words alone are told, and predicates.
const WORDS: u64 = 6;
const LONGS: u64 = 4;
const LOWS: u64 = 3;
const PREDICATES: u64 = 3;

/// Registers of 64 bits that are written once.
const ONCE: u64 = 200;

/// An operand of 32 bits: a register, or a constant now and then.
fn word(numbers: &mut Numbers) -> String {
    match numbers.below(4) {
        0 => numbers.below(40).to_string(),
        _ => format!("%r{}", numbers.below(WORDS)),
    }
}

/// An instruction on what lies in the registers.
fn instruction(numbers: &mut Numbers) -> String {
    let (r, s, t) = (numbers.below(WORDS), numbers.below(WORDS), word(numbers));
    let (l, m, n) = (numbers.below(LONGS), numbers.below(LONGS), numbers.below(LONGS));
    let (p, q, o) = (numbers.below(PREDICATES), numbers.below(PREDICATES), numbers.below(PREDICATES));
    let (c, d, once) = (numbers.below(LOWS), numbers.below(LOWS), 2 + numbers.below(ONCE - 2));
    let mut one = |of: &[&str]| of[numbers.below(of.len() as u64) as usize].to_string();
    let text = match one(&[
        "sum",
        "sum",
        "shl",
        "product",
        "logic",
        "wide",
        "long",
        "cvt",
        "shift",
        "setp",
        "pred",
        "selp",
        "param",
        "load",
        "load",
        "load",
        "loads",
        "store",
        "shr",
        "low",
        "low",
        "low",
        "cut",
        "upper",
        "address",
        "condition",
        "other block",
    ])
    .as_str()
    {
        "sum" => format!("{} %r{r}, %r{s}, {t};", one(&["add.s32", "add.u32", "sub.s32", "sub.u32"])),
        "shl" => format!("shl.b32 %r{r}, %r{s}, {};", one(&["0", "2", "5", "31", "32"])),
        "product" => format!("mul.lo.{} %r{r}, %r{s}, {t};", one(&["s32", "u32"])),
        "logic" => match one(&["and", "or", "xor", "not"]).as_str() {
            "not" => format!("not.b32 %r{r}, %r{s};"),
            root => format!("{root}.b32 %r{r}, %r{s}, {t};"),
        },
        "wide" => format!("mul.wide.{} %l{l}, %r{s}, {t};", one(&["s32", "u32"])),
        "shr" => format!(
            "shr.{} %r{r}, %r{s}, {};",
            one(&["u32", "b32", "s32"]),
            one(&["0", "1", "4", "27", "31"])
        ),
        "low" => {
            let other = one(&[&format!("%c{d}"), &format!("%l{m}"), "-12884901889", "7"]);
            let two = one(&["add.s64", "sub.u64", "mul.lo.u64", "and.b64", "or.b64", "xor.b64"]);
            let alone = one(&["not.b64", "neg.s64", "cvta.shared.u64", "cvta.to.shared.u64"]);
            let (by, sign) = (one(&["1", "31", "32", "40", "%r1"]), one(&["s32", "u32"]));
            let cuts = [
                "s64.s16", "u64.u8", "s64.s32", "u64.u32", "u8.u64", "s8.s64", "u16.u64", "s16.s64",
                "u8.u32", "s16.s32", "u16.s8",
            ];
            let (long, cut) = (one(&["s64.s32", "u64.u32"]), one(&cuts));
            let less = one(&["u8.u32", "s8.s32", "u16.u32", "s16.s32", "u32.s32"]);
            one(&[
                &format!("{two} %c{c}, %c{d}, {other};"),
                &format!("{alone} %c{c}, %c{d};"),
                &format!("shl.b64 %c{c}, %c{d}, {by};"),
                &format!("selp.b64 %c{c}, %c{d}, {other}, %p{q};"),
                &format!("mad.wide.{sign} %c{c}, %r{s}, {t}, %c{d};"),
                &format!("mul.wide.{sign} %c{c}, %r{s}, {t};"),
                &format!("mad.lo.s64 %c{c}, %c{d}, {other}, %c{c};"),
                &format!("cvt.{long} %c{c}, %r{s};"),
                &format!("cvt.{cut} %c{c}, %c{d};"),
                &format!("cvt.{less} %c{c}, %r{s};"),
                &format!("mov.u64 %c{c}, {other};"),
                &format!("ld.param.u64 %c{c}, [w];"),
            ])
        }
        "cut" => one(&[
            &format!("cvt.u32.u64 %r{r}, %c{c};"),
            &format!("cvt.s32.s64 %r{r}, %c{c};"),
            &format!("cvt.u32.u64 %r{r}, %l{m};"),
            &format!("cvt.u16.u64 %half, %c{c};\ncvt.u32.u16 %r{r}, %half;"),
        ]),
        "upper" => format!(
            "mul.wide.u32 %v{once}, %r{s}, {t};\nshr.u64 %u{once}, %v{once}, {};\ncvt.u32.u64 %r{r}, %u{once};",
            one(&["32", "33", "47", "63"])
        ),
        // The thread's own 64 bytes of shared memory.
        "address" => format!(
            "mul.wide.u32 %a, %lane, 0;\ncvt.u64.u32 %b, %s;\nadd.s64 %a, %a, %b;\n{}",
            one(&[&format!("ld.shared.u32 %r{r}, [%a+12];"), &format!("st.shared.u32 [%a+16], %r{r};")])
        ),
        "condition" => format!(
            "selp.u32 %r{r}, {}, %p{p};\nsetp.{}.u32 %z, %r{r}, {};\n@{}%z add.u32 %r{s}, %r{s}, 77;",
            one(&["1, 0", "0, 1", "3, 3", "5, 1"]),
            one(&["eq", "ne"]),
            one(&["0", "1", "2"]),
            one(&["", "!"])
        ),
        "other block" => {
            let by = one(&["2", "3", "30"]);
            one(&[
                &format!("add.s64 %l{l}, %l{m}, %v0;"),
                &format!("shl.b64 %l{l}, %v1, {by};"),
                &format!("add.u64 %l{l}, %v1, %l{m};"),
            ])
        }
        "long" => format!("{} %l{l}, %l{m}, %l{n};", one(&["add.s64", "add.u64", "sub.s64", "add.s64"])),
        "cvt" => format!("cvt.{} %l{l}, %r{s};", one(&["s64.s32", "u64.u32"])),
        "shift" => format!("shl.b64 %l{l}, %l{m}, {};", one(&["1", "3", "30", "31", "40"])),
        "setp" => format!(
            "setp.{} %p{p}, %r{s}, {t};",
            one(&["lt.s32", "le.u32", "eq.b32", "ne.s32", "gt.s32", "ge.u32", "lo.u32", "hs.u32"])
        ),
        "pred" => format!(
            "{}.pred %p{p}, {}%p{q}, {}%p{o};",
            one(&["and", "or", "xor"]),
            one(&["", "!"]),
            one(&["", "!"])
        ),
        "selp" => format!("selp.u32 %r{r}, %r{s}, {t}, %p{q};"),
        "loads" => format!("ld.shared.v2.u32 {{%r{r}, %r{s}}}, [%s+{}];", one(&["0", "8", "16", "24"])),
        // The thread's own 64 bytes of shared memory.
        "load" => {
            format!("ld.shared.u32 %r{r}, [%s+{}];", one(&["0", "4", "8", "12", "16", "20", "24", "28"]))
        }
        "store" => {
            format!("st.shared.u32 [%s+{}], %r{r};", one(&["0", "4", "8", "12", "16", "20", "24", "28"]))
        }
        _ => one(&[
            &format!("ld.param.u32 %r{r}, [n];"),
            &format!("ld.param.u64 %l{l}, [w];"),
            &format!("ld.param.u32 %r{r}, [w+4];"),
            &format!("mov.u32 %r{r}, %r{s};"),
            &format!("mov.u64 %l{l}, %l{m};"),
        ]),
    };
    match numbers.below(8) {
        0 if !text.contains('\n') => format!("@{}%p{o} {text}", if numbers.below(2) == 0 { "!" } else { "" }),
        _ => text,
    }
}

/// A kernel `k(.u64 out, .u32 n, .u64 w)`, which tells all its registers.
fn kernel(seed: u64) -> String {
    let numbers = &mut Numbers::new(seed);
    let mut body = String::new();
    for block in 0..3 {
        for _ in 0..4 + numbers.below(20) {
            let _ = writeln!(body, "{}", instruction(numbers));
        }
        let predicate = numbers.below(PREDICATES);
        let mut some =
            |most| -> String { (0..numbers.below(most)).map(|_| instruction(numbers) + "\n").collect() };
        let (one, other) = (some(5), some(5));
        let _ = match block.min(some(4).lines().count()) {
            0 => writeln!(body, "@%p{predicate} bra L{block};\n{one}L{block}:"),
            // What is jumped to goes on with what stands behind it in the text.
            1 => writeln!(
                body,
                "bra A{block};\nB{block}:\n{one}bra C{block};\nA{block}:\n{other}@%p{predicate} bra B{block};\nC{block}:"
            ),
            _ => writeln!(
                body,
                "mov.u32 %i, 0;\nbra D{block};\nD{block}:\n{one}@%p{predicate} bra E{block};\n{other}E{block}:\n\
                 add.u32 %i, %i, 1;\nsetp.lt.u32 %z, %i, 3;\n@%z bra D{block};"
            ),
        };
    }
    finish(&body)
}

/// A kernel of loops of one block that count: up or down, by one or more, to a constant or to what a register holds, for the
/// same number of iterations in all threads or not, and near the least and greatest numbers too, of those with a sign or without.
fn kernel_of_loops(seed: u64) -> String {
    let numbers = &mut Numbers::new(seed);
    let mut body = String::new();
    for block in 0..3 {
        let inside: String =
            (0..1 + numbers.below(7)).map(|_| format!("{}\n", instruction(numbers))).collect();
        let step: i32 = [1, 2, 4, 7, -1, -3, -4][numbers.below(7) as usize];
        let times = numbers.below(14) as i32;
        let near_an_end = numbers.below(3) == 0;
        let limit: i32 = match near_an_end {
            true if numbers.below(2) == 0 => i32::MIN + numbers.below(20) as i32,
            true => i32::MAX - numbers.below(20) as i32,
            false => numbers.below(1 << 20) as i32 - (1 << 19),
        };
        let way = numbers.below(3);
        let or_equal = way == 1 && !near_an_end;
        let cmp = match (way, step > 0) {
            (0, _) => "ne",
            (_, true) => {
                if or_equal {
                    "le"
                } else {
                    "lt"
                }
            }
            (_, false) => {
                if or_equal {
                    "ge"
                } else {
                    "gt"
                }
            }
        };
        // So that it ends: so many steps before the limit, or beyond it at once.
        let before = limit.checked_sub(step * times);
        let start = match before {
            _ if way == 0 => limit.wrapping_sub(step * (times + 1)),
            // One step leads to the limit: no number is passed beyond which there is none.
            Some(_) if near_an_end && (limit > 0) == (step > 0) => limit - step,
            Some(before) => before,
            None => numbers.below(100) as i32,
        };
        // Numbers without a sign are in the order of those with one, from zero on.
        let unsigned = numbers.below(3) == 0;
        let place = |number: i32| match unsigned {
            true => number.wrapping_sub(i32::MIN).to_string(),
            false => number.to_string(),
        };
        let (ty, cmp) = match (unsigned, cmp) {
            (true, "lt") if numbers.below(2) == 0 => ("u32", "lo"),
            (true, "le") if numbers.below(2) == 0 => ("u32", "ls"),
            (true, "gt") if numbers.below(2) == 0 => ("u32", "hi"),
            (true, "ge") if numbers.below(2) == 0 => ("u32", "hs"),
            (true, other) => ("u32", other),
            (false, other) => ("s32", other),
        };
        let start = place(start);
        let _ = match way > 0 && !near_an_end && numbers.below(2) == 0 {
            true => writeln!(body, "mad.lo.s32 %i, %own_number, {}, {start};", -step),
            false => writeln!(body, "mov.u32 %i, {start};"),
        };
        let count = match numbers.below(2) {
            0 => format!("add.s32 %i, %i, {step};"),
            _ => format!("sub.s32 %i, %i, {};", -step),
        };
        let last = match numbers.below(2) {
            0 => place(limit),
            _ => {
                let _ = writeln!(body, "mov.u32 %e, {};\nadd.u32 %e, %e, %zero;", place(limit));
                "%e".to_string()
            }
        };
        let _ = writeln!(
            body,
            "L{block}:\n{inside}{count}\nmad.lo.u32 %h, %h, 31, %i;\nsetp.{cmp}.{ty} %z, %i, {last};\n@%z bra L{block};"
        );
    }
    finish(&body)
}

/// The kernel of a body: begins with what the registers hold, and tells them all at the end.
fn finish(body: &str) -> String {
    let mut body = body.to_string();
    for l in 0..LONGS {
        let _ =
            writeln!(body, "cvt.u32.u64 %t, %l{l};\nmad.lo.u32 %h, %h, 31, %t;\nshr.u64 %l{l}, %l{l}, 32;");
        let _ = writeln!(body, "cvt.u32.u64 %t, %l{l};\nmad.lo.u32 %h, %h, 31, %t;");
    }
    for r in 0..WORDS {
        let _ = writeln!(body, "mad.lo.u32 %h, %h, 31, %r{r};");
    }
    for p in 0..PREDICATES {
        let _ = writeln!(body, "selp.u32 %t, 1, 2, %p{p};\nmad.lo.u32 %h, %h, 31, %t;");
    }
    let mut begin = String::new();
    for r in 0..WORDS {
        let _ = writeln!(begin, "mad.lo.u32 %r{r}, %t, {}, {};", 7 * r + 1, 1 << (5 * r));
    }
    for l in 0..LONGS {
        let _ = writeln!(begin, "mul.wide.s32 %l{l}, %r{l}, {};", 1i64 << (7 * l + 3));
    }
    for c in 0..LOWS {
        let _ = writeln!(begin, "mul.wide.s32 %c{c}, %t, {};", 0x1234_5679 * (c + 1));
    }
    for p in 0..PREDICATES {
        let _ = writeln!(begin, "and.b32 %h, %t, {};\nsetp.ne.u32 %p{p}, %h, 0;", 1 << p);
    }
    format!(
        ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u32 n, .param .u64 w)\n{{\n\
         .reg .u32 %r<{WORDS}>, %t, %h, %s, %i, %e, %own_number, %zero, %lane;\n.reg .u64 %l<{LONGS}>, %c<{LOWS}>, %v<{ONCE}>, %u<{ONCE}>, %a, %b, %out, %own;\n\
         .reg .u16 %half;\n.reg .pred %p<{PREDICATES}>, %z;\n\
         .shared .align 16 .b8 room[4096];\nmov.u32 %t, %tid.x;\nmov.u32 %s, room;\nmad.lo.u32 %s, %t, 64, %s;\n\
         st.shared.v4.u32 [%s], {{%t, %t, %s, %s}};\nst.shared.v4.u32 [%s+16], {{%s, %t, %s, %t}};\n{begin}mov.u32 %h, 0;\n\
         mov.u32 %lane, %laneid;\nmul.wide.s32 %v0, %lane, 24;\ncvt.s64.s32 %v1, %lane;\n\
         mov.u32 %own_number, %laneid;\nand.b32 %own_number, %own_number, 5;\nld.param.u32 %zero, [w+4];\nand.b32 %zero, %zero, 0;\n{body}\
         mov.u32 %t, %tid.x;\nld.param.u64 %out, [out];\nmul.wide.u32 %own, %t, 4;\nadd.u64 %own, %own, %out;\n\
         st.global.u32 [%own], %h;\nret;\n}}\n"
    )
}

/// The results of a kernel, its warp instructions, and how many operations, parameters and loads the passes took in, and how many
/// registers they filled, and how many loops they unrolled, how many operations they made narrow, and how many barriers they set up.
fn results(text: &str, passes: AssemblerSpec, functional: bool) -> (Vec<u32>, u64, [u32; 7]) {
    let mut chip = ChipSpec::clone(&newer_chip("7.0"));
    chip.assembler = passes;
    let mut run = Run::new(device(Arc::new(chip), "convergence_barriers"), text, false, 64);
    let more = [&7u32.to_le_bytes()[..], &[0; 4], &0x1234_5678_9abc_def0u64.to_le_bytes()].concat();
    run.launch_with(&more, 0, 1, 64, functional).unwrap_or_else(|e| panic!("{e}\n{text}"));
    run.wait().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let report = run.report();
    let done = report.kernels[0].clean_up.map_or([0; 7], |done| {
        let [fused, parameters, loads] = [done.fused, done.parameters, done.loads];
        [fused, parameters, loads, done.filled, done.unrolled, done.narrowed, done.barriers]
    });
    (run.words(), report.kernels[0].warp_instructions, done)
}

#[test]
fn random_programs_compute_the_same_after_all_passes() {
    let mut all = [0; 7];
    for seed in 0..200 {
        let text = kernel(seed);
        let (expected, as_written, _) = results(&text, AssemblerSpec::default(), true);
        for (passes, functional) in [
            (ALL, true),
            (ALL, false),
            (
                AssemblerSpec {
                    constant_operands: ConstantOperands::Any,
                    unroll: false,
                    convergence_barriers: false,
                    ..ALL
                },
                true,
            ),
            (AssemblerSpec { constant_operands: ConstantOperands::Loaded, prologue: 2, ..ALL }, true),
            (AssemblerSpec { constant_operands: ConstantOperands::Loaded, prologue: 2, ..ALL }, false),
            (AssemblerSpec { three_inputs: false, ..ALL }, true),
            (AssemblerSpec { multiply_add: false, ..ALL }, true),
            (AssemblerSpec { parameters: false, ..ALL }, true),
            (AssemblerSpec { wide_loads: false, ..ALL }, true),
            (AssemblerSpec { schedule: false, ..ALL }, true),
            (AssemblerSpec { clean_up: true, narrow: true, ..AssemblerSpec::default() }, true),
            (AssemblerSpec { narrow: false, convergence_barriers: false, ..ALL }, true),
        ] {
            let (words, instructions, done) = results(&text, passes, functional);
            assert_eq!(words, expected, "seed {seed}, {passes:?}\n{text}");
            if passes.constant_operands == ConstantOperands::Any && !passes.convergence_barriers {
                assert!(instructions <= as_written, "seed {seed}");
            }
            (0..7).for_each(|i| all[i] += done[i]);
        }
    }
    let [fused, parameters, loads, filled, _, narrowed, barriers] = all;
    assert!(fused > 1000 && parameters > 500 && loads > 200 && filled > 1000, "{all:?}");
    assert!(narrowed > 1000 && barriers > 1000, "{all:?}");
}

/// Both parts of a warp wait where they meet.
#[test]
fn each_part_of_a_warp_executes_its_wait() {
    let run = |limit: u32, convergence_barriers: bool| {
        let body = format!(
            "setp.lt.u32 %z, %lane, {limit};\n@!%z bra L;\nmad.lo.u32 %h, %h, 31, %r0;\nst.shared.u32 [%s], %h;\nL:\n"
        );
        let passes = AssemblerSpec { clean_up: true, convergence_barriers, ..AssemblerSpec::default() };
        let (words, instructions, done) = results(&finish(&body), passes, false);
        (words, instructions, done[6])
    };
    // Two warps; a barrier is set up once for each.
    for (limit, waits) in [(16, 2), (32, 1), (0, 1)] {
        let (plain, with) = (run(limit, false), run(limit, true));
        assert_eq!((plain.0, plain.2, with.2), (with.0, 0, 1));
        assert_eq!(with.1 - plain.1, 2 * (1 + waits), "{limit}");
    }
}

#[test]
fn random_loops_compute_the_same_unrolled() {
    let mut all = 0;
    for seed in 0..300 {
        let text = kernel_of_loops(seed);
        let (expected, ..) = results(&text, AssemblerSpec::default(), true);
        for (passes, functional) in [
            (ALL, true),
            (AssemblerSpec { clean_up: true, unroll: true, ..AssemblerSpec::default() }, true),
            (AssemblerSpec { constant_operands: ConstantOperands::Loaded, ..ALL }, false),
        ] {
            let (words, _, done) = results(&text, passes, functional);
            assert_eq!(words, expected, "seed {seed}, {passes:?}\n{text}");
            all += done[4];
        }
    }
    assert!(all > 1200, "{all}");
}

/// `i <= n` and `i < n + 1` lead to the same iterations, and to as many at a time.
#[test]
fn limits_that_are_reached_count_as_those_that_are_not() {
    let run = |step: i32, cmp: &str, limit: i32| {
        // Those without a sign count from 20 on.
        let start = if cmp.ends_with(".u32") { 20 } else { 0 };
        let text = finish(&format!(
            "mov.u32 %i, {start};\nL0:\nmad.lo.u32 %h, %h, 31, %i;\nadd.s32 %i, %i, {step};\nsetp.{cmp} %z, %i, {};\n\
             @%z bra L0;",
            start + limit
        ));
        let (words, instructions, done) = results(&text, ALL, true);
        assert_eq!(done[4], 1);
        (words, instructions)
    };
    for times in 0..10 {
        assert_eq!(run(1, "le.s32", times), run(1, "lt.s32", times + 1), "{times}");
        assert_eq!(run(-1, "ge.s32", -times), run(-1, "gt.s32", -times - 1), "{times}");
        assert_eq!(run(1, "ls.u32", times), run(1, "lo.u32", times + 1), "{times}");
        assert_eq!(run(-1, "ge.u32", -times), run(-1, "hi.u32", -times - 1), "{times}");
    }
}

/// Words that the threads of a block leave and cycles, of a kernel of atomics on one word of global or shared memory: sums, least
/// values and old values.
fn atomics(way: CombineAtomics, threads: u32, functional: bool) -> (Vec<u32>, u64) {
    let text = ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u32 n, .param .u64 w)\n{\n\
         .reg .u32 %t, %a, %b, %c, %n;\n.reg .u64 %out, %own, %l;\n.reg .pred %p;\n.shared .align 8 .b32 room;\n\
         mov.u32 %t, %tid.x;\nld.param.u64 %out, [out];\nld.param.u32 %n, [n];\nmul.wide.u32 %own, %t, 4;\nadd.u64 %own, %own, %out;\n\
         st.shared.u32 [room], 0;\nbar.sync 0;\n\
         atom.global.add.u32 %a, [%out], %n;\natom.shared.add.u32 %b, [room], 3;\n\
         red.global.add.u32 [%out+4], %t;\nred.global.min.u32 [%out+8], %t;\nred.global.max.u32 [%out+8], 7;\n\
         red.shared.add.u32 [room], 1;\nand.b32 %c, %t, 5;\nsetp.eq.u32 %p, %c, 4;\n@%p red.global.xor.b32 [%out+12], %t;\n\
         atom.global.add.u32 %c, [%out+16], %t;\nmad.lo.u32 %a, %b, 77, %a;\nmad.lo.u32 %a, %c, 99, %a;\n\
         bar.sync 0;\nld.shared.u32 %b, [room];\nmad.lo.u32 %a, %b, 7, %a;\nst.global.u32 [%own+64], %a;\nret;\n}\n";
    let mut chip = ChipSpec::clone(&newer_chip("7.0"));
    chip.assembler = AssemblerSpec { clean_up: true, combine_atomics: way, ..AssemblerSpec::default() };
    let mut run =
        Run::new(device(Arc::new(chip), "convergence_barriers"), text, false, threads as usize + 16);
    let more = [&5u32.to_le_bytes()[..], &[0; 12]].concat();
    run.launch_with(&more, 0, 1, threads, functional).unwrap_or_else(|e| panic!("{e}"));
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    let report = run.report();
    let marked = report.kernels[0].clean_up.map_or(0, |done| done.atomics);
    assert_eq!(marked, if way == CombineAtomics::None { 0 } else { 8 });
    (run.words(), report.kernels[0].cycles)
}

#[test]
fn atomics_of_a_warp_are_one_operation_and_give_the_same() {
    for threads in [96, 90, 32, 29, 7] {
        let (expected, separate) = atomics(CombineAtomics::None, threads, false);
        // What a thread finds depends on which warp comes first.
        let known = if threads > 32 { 16 } else { expected.len() };
        let of = |bit: u32| (0..threads).filter(|t| t & 5 == 4).fold(0, |sum, t| sum ^ t & bit);
        assert_eq!(
            expected[..5],
            [5 * threads, threads * (threads - 1) / 2, 7, of(!0), threads * (threads - 1) / 2]
        );
        assert_eq!(atomics(CombineAtomics::None, threads, true).0[..known], expected[..known]);
        for way in [CombineAtomics::Shuffles, CombineAtomics::Redux] {
            for functional in [true, false] {
                let (words, cycles) = atomics(way, threads, functional);
                assert_eq!(words[..known], expected[..known], "{way:?}, {threads} threads");
                assert!(
                    functional || threads < 32 || cycles < separate,
                    "{way:?}: {cycles}, separately {separate}"
                );
            }
        }
    }
}
