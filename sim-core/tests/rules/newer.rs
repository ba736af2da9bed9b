//! Forms of later instruction sets on whole programs, timed and functional: half-precision atomics,
//! cache policies, `ldu`, `elect`, tables of functions, variables that functions declare.

use sim_core::device::Options;
use sim_core::monitor::Check;
use sim_frontend::workload::UndefinedValues;

use crate::machine::{Run, chip, device_with, module};

/// Words of `out` after `body` ran on one warp, of a module for sm_90; both modes agree.
fn words(functions: &str, body: &str, policy: &str) -> Vec<u32> {
    words_of(".version 8.6\n.target sm_90", functions, body, policy)
}

/// The same of a module that begins like this.
fn words_of(head: &str, functions: &str, body: &str, policy: &str) -> Vec<u32> {
    let run = |functional: bool| {
        let device = device_with(chip(|_| {}), policy, |o| Options { allow_newer_isa: true, ..o });
        let text = module(functions, body).replace(".version 3.0\n.target sm_20", head);
        let mut run = Run::new(device, &text, false, 64);
        run.launch(1, 32, functional).expect("it fits");
        run.wait().unwrap_or_else(|e| panic!("{body}: {e}"));
        run.words()
    };
    let timed = run(false);
    assert_eq!(timed, run(true), "{body}");
    timed
}

#[test]
fn atomics_add_halves_in_global_and_shared_memory() {
    // 32 times 0.5 and 2.0; -1 in bfloat16.
    let global = ".reg .b32 %v;\nmov.b32 %v, 0x40003800;\nred.global.add.noftz.f16x2 [%out+128], %v;\nmov.u32 %r, 0;\nmembar.gl;\n";
    assert_eq!(words("", global, "crs_stack")[32], 0x5400_4c00, "64 and 16");
    let shared = "st.shared.u32 [room], 0;\nbar.sync 0;\n.reg .b32 %v;\nmov.b32 %v, 0xbf80bf80;\n\
                  red.shared.add.noftz.bf16x2 [room], %v;\nbar.sync 0;\nld.shared.u32 %r, [room];\n";
    assert_eq!(words("", shared, "crs_stack")[..32], [0xc200_c200; 32], "-32");
    let half = ".reg .b16 %h, %k;\nmov.b16 %h, 0x3c00;\natom.global.add.noftz.f16 %k, [%out+130], %h;\n\
                mov.b32 %r, {%k, %k};\nand.b32 %r, %r, 0;\nmembar.gl;\n";
    assert_eq!(words("", half, "crs_stack")[32], 0x5000_0000, "32 in the upper half");
    let swap = ".reg .b16 %h, %k;\ncvt.u16.u32 %h, %t;\nmov.b16 %k, 0;\n\
                atom.global.cas.b16 %k, [%out+128], %k, %h;\nmov.u32 %r, 0;\nmembar.gl;\n";
    assert_eq!(words("", swap, "crs_stack")[32], 1, "lane 0 stores 0 over 0, lane 1 finds 0 and stores 1");
}

#[test]
fn hints_of_loads_and_stores_change_no_value() {
    let body = "createpolicy.fractional.L2::evict_last.b64 %w, 0f3F000000;\n\
                st.global.L1::no_allocate.L2::cache_hint.u32 [%own], %t, %w;\n\
                ld.global.L1::evict_first.L2::cache_hint.L2::128B.u32 %a, [%own], %w;\n\
                ld.relaxed.gpu.global.L1::evict_last.u32 %b, [%own];\n\
                add.u32 %r, %a, %b;\nadd.u32 %r, %r, 7;\n";
    let expected: Vec<u32> = (0..32).map(|t| 2 * t + 7).collect();
    assert_eq!(words("", body, "crs_stack")[..32], expected);
    let uniform = "ldu.global.u32 %a, [%out+128];\nadd.u32 %r, %a, %t;\n";
    assert_eq!(words("", uniform, "crs_stack")[..32], (0..32).collect::<Vec<u32>>());
}

#[test]
fn one_thread_of_those_named_is_elected() {
    for policy in ["crs_stack", "convergence_barriers", "multi_path", "mimd"] {
        let all = "elect.sync %a|%p, -1;\nselp.u32 %r, 100, 0, %p;\nadd.u32 %r, %r, %a;\n";
        let mut expected = [0; 32];
        expected[0] = 100;
        assert_eq!(words("", all, policy)[..32], expected, "{policy}");
        // The upper half of the warp alone.
        let some = "mov.u32 %r, 0;\nsetp.lt.u32 %q, %t, 16;\n@%q bra DONE;\n\
                    elect.sync %a|%p, 0xffff0000;\nselp.u32 %r, 100, 0, %p;\nadd.u32 %r, %r, %a;\nDONE:\n";
        let mut expected = [0; 32];
        expected[16..].fill(16);
        expected[16] = 116;
        assert_eq!(words("", some, policy)[..32], expected, "{policy}");
    }
}

/// The predicate of a shuffle says whether the source lane is in range; out of range a lane keeps its own
/// value (PTX ISA "shfl.sync").
#[test]
fn shuffles_say_whether_their_source_is_in_range() {
    let cases: [(&str, fn(u32) -> (u32, bool)); 4] = [
        ("up.b32 %r|%p, %t, 3, 0", |t| (if t >= 3 { t - 3 } else { t }, t >= 3)),
        ("down.b32 %r|%p, %t, 5, 31", |t| (if t + 5 < 32 { t + 5 } else { t }, t + 5 < 32)),
        // Segments of eight lanes, clamped at their ends.
        ("down.b32 %r|%p, %t, 5, 6175", |t| (if t % 8 < 3 { t + 5 } else { t }, t % 8 < 3)),
        ("bfly.b32 %r|%p, %t, 16, 15", |t| (if t < 16 { t } else { t - 16 }, t >= 16)),
    ];
    for (shuffle, expected) in cases {
        let body = format!("shfl.sync.{shuffle}, -1;\nselp.u32 %a, 100, 0, %p;\nadd.u32 %r, %r, %a;\n");
        let expected: Vec<u32> = (0..32)
            .map(|t| {
                let (value, inside) = expected(t);
                value + if inside { 100 } else { 0 }
            })
            .collect();
        for policy in ["crs_stack", "convergence_barriers", "multi_path", "mimd"] {
            assert_eq!(words("", &body, policy)[..32], expected, "{policy}: {shuffle}");
        }
    }
}

/// What a shuffle reads from a lane that does not participate is undefined (PTX ISA "shfl.sync"): a fault, or 0 and
/// counted by instruction, or 0.
#[test]
fn values_of_lanes_that_do_not_participate_are_a_fault_or_counted() {
    // The lower half of each of the two warps of each of the three blocks; lanes 12 to 15 of them ask for 16 to 19.
    let body = "add.u32 %r, %t, 1;\nand.b32 %a, %t, 31;\nsetp.ge.u32 %q, %a, 16;\n@%q bra DONE;\n\
                shfl.sync.bfly.b32 %b, %t, 1, 31, 0xffff;\n\
                shfl.sync.down.b32 %r|%p, %r, 4, 31, 0xffff;\n@!%p mov.u32 %r, 999;\nDONE:\n";
    let text = module("", body).replace(".version 3.0\n.target sm_20", ".version 8.6\n.target sm_90");
    let ran = |functional: bool, policy: &str, check: Check, undefined: UndefinedValues| {
        let change = |o| Options { allow_newer_isa: true, check, undefined, ..o };
        let mut run = Run::new(device_with(chip(|_| {}), policy, change), &text, false, 192);
        run.launch(3, 64, functional).expect("it fits");
        run.wait().map(|()| (run.words(), run.report().kernels.remove(0).undefined_values))
    };
    let expected: Vec<u32> = (0..192)
        .map(|i| match i % 32 {
            0..12 => i % 64 + 5,
            12..16 => 0,
            _ => i % 64 + 1,
        })
        .collect();
    for policy in ["crs_stack", "convergence_barriers", "mimd"] {
        for functional in [false, true] {
            let (words, values) =
                ran(functional, policy, Check::Full, UndefinedValues::Zero).expect("it ends");
            assert_eq!(words, expected, "{policy}");
            let [values] = values.as_slice() else { panic!("{values:?}") };
            assert_eq!(values.lanes, 3 * 2 * 4, "{policy}: each lane is counted once");
            assert!(values.text.starts_with("shfl.sync.down.b32"), "{values:?}");
            assert_eq!(
                text.lines().nth(values.line as usize - 1),
                Some("shfl.sync.down.b32 %r|%p, %r, 4, 31, 0xffff;")
            );

            let (words, values) =
                ran(functional, policy, Check::Off, UndefinedValues::Fault).expect("it ends");
            assert_eq!((words, values.len()), (expected.clone(), 0), "{policy}: nothing is checked");
            let why = ran(functional, policy, Check::Safety, UndefinedValues::Fault)
                .expect_err("a fault")
                .to_string();
            assert!(why.contains("lane 12 reads from lane 16, which does not participate"), "{why}");
        }
    }
}

#[test]
fn functions_are_called_through_tables_in_memory() {
    let functions = ".func (.param .b32 r) twice(.param .b32 x);\n.func (.param .b32 r) square(.param .b32 x);\n\
        .global .align 8 .u64 table[2] = {twice, square};\n\
        .func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .u32 %a;\nld.param.u32 %a, [x];\nshl.b32 %a, %a, 1;\n\
        st.param.b32 [r], %a;\nret;\n}\n\
        .func (.param .b32 r) square(.param .b32 x)\n{\n.reg .u32 %a;\nld.param.u32 %a, [x];\nmul.lo.u32 %a, %a, %a;\n\
        st.param.b32 [r], %a;\nret;\n}\n";
    let body = ".param .b32 y;\n.param .b32 z;\nand.b32 %a, %t, 1;\nmul.wide.u32 %w, %a, 8;\nmov.u64 %x, table;\n\
                add.u64 %w, %w, %x;\nld.global.u64 %w, [%w];\nst.param.b32 [y], %t;\n\
                P: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (z), %w, (y), P;\nld.param.b32 %r, [z];\n";
    let expected: Vec<u32> = (0..32).map(|t| if t % 2 == 0 { 2 * t } else { t * t }).collect();
    for policy in ["crs_stack", "pdom_stack", "convergence_barriers", "thread_frontiers", "mimd"] {
        assert_eq!(words(functions, body, policy)[..32], expected, "{policy}");
    }
}

#[test]
fn functions_may_declare_variables_of_device_memory() {
    let body = ".global .align 4 .u32 seen[2] = {5, 6};\n.const .align 4 .u32 fixed = 70;\n\
                ld.global.u32 %a, [seen+4];\nld.const.u32 %b, [fixed];\nadd.u32 %r, %a, %b;\n";
    assert_eq!(words("", body, "crs_stack")[..32], [76; 32]);
}

#[test]
fn a_block_is_a_cluster_of_its_own_and_hints_to_the_machine_do_nothing() {
    let body = "mov.u32 %a, %cluster_nctarank;\nmov.u32 %b, %cluster_ctarank;\nmov.u32 %c, %nclusterid.x;\n\
                mad.lo.u32 %r, %a, 100, %b;\nmad.lo.u32 %r, %c, 10, %r;\nmov.u32 %a, %reserved_smem_offset_1;\n\
                add.u32 %r, %r, %a;\nmov.u32 %c, 7;\ngetctarank.shared::cluster.u32 %c, %t;\nadd.u32 %r, %r, %c;\n\
                mov.pred %p, %is_explicit_cluster;\n@%p add.u32 %r, %r, 5000;\npmevent 3;\ngriddepcontrol.wait;\n\
                griddepcontrol.launch_dependents;\n";
    assert_eq!(words("", body, "crs_stack")[..32], [110; 32]);
}

#[test]
fn a_breakpoint_without_a_debugger_is_a_fault() {
    let device = device_with(chip(|_| {}), "crs_stack", |o| o);
    let mut run =
        Run::new(device, &module("", "setp.eq.u32 %p, %t, 9;\n@%p brkpt;\nmov.u32 %r, 0;\n"), false, 64);
    run.launch(1, 32, false).expect("it fits");
    let error = run.wait().expect_err("lane 9 stops");
    assert!(
        error.to_string().contains("executed `brkpt`") && error.to_string().contains("lane 9"),
        "{error}"
    );
}

#[test]
fn threads_allocate_stack_of_their_own() {
    // Fills what it allocated, calls a function that does the same and gives it back, sums up.
    let functions = ".func (.param .b32 r) fill(.param .b32 x)\n{\n.reg .u32 %a, %p;\nld.param.u32 %a, [x];\n\
        alloca.u32 %p, 64, 16;\nst.local.u32 [%p+60], %a;\nld.local.u32 %a, [%p+60];\nadd.u32 %a, %a, 1;\n\
        st.param.b32 [r], %a;\nret;\n}\n";
    let body = ".param .b32 y;\n.param .b32 z;\n.reg .u64 %bytes, %at, %old;\n.reg .u32 %k;\n\
        add.u32 %a, %t, 1;\nmul.wide.u32 %bytes, %a, 4;\nalloca.u64 %at, %bytes, 32;\nand.b64 %w, %at, 31;\ncvt.u32.u64 %r, %w;\n\
        mov.u32 %k, 0;\nmov.u64 %x, %at;\nFILL:\nst.local.u32 [%x], %k;\nadd.u64 %x, %x, 4;\nadd.u32 %k, %k, 1;\n\
        setp.le.u32 %p, %k, %t;\n@%p bra FILL;\n\
        mov.u32 %k, 0;\nCALLS:\nst.param.b32 [y], %k;\ncall (z), fill, (y);\nld.param.b32 %k, [z];\nsetp.lt.u32 %p, %k, 200;\n@%p bra CALLS;\n\
        stacksave.u64 %old;\nmov.u32 %c, 0;\nLOOP:\nalloca.u64 %w, 256;\nst.local.u32 [%w], %c;\nstackrestore.u64 %old;\n\
        add.u32 %c, %c, 1;\nsetp.lt.u32 %p, %c, 40;\n@%p bra LOOP;\n\
        mov.u32 %k, 0;\nmov.u64 %x, %at;\nSUM:\nld.local.u32 %b, [%x];\nadd.u32 %r, %r, %b;\nadd.u64 %x, %x, 4;\nadd.u32 %k, %k, 1;\n\
        setp.le.u32 %p, %k, %t;\n@%p bra SUM;\n";
    let expected: Vec<u32> = (0..32).map(|t| t * (t + 1) / 2).collect();
    for policy in ["crs_stack", "convergence_barriers", "mimd"] {
        assert_eq!(words(functions, body, policy)[..32], expected, "{policy}");
    }
    // Lane 5 asks for more than there is, the others for nothing.
    let body = "setp.eq.u32 %p, %t, 5;\n@%p alloca.u32 %a, 100000;\nmov.u32 %r, 0;\n";
    let device = device_with(chip(|_| {}), "crs_stack", |o| Options { allow_newer_isa: true, ..o });
    let text = module("", body).replace(".version 3.0\n.target sm_20", ".version 8.6\n.target sm_90");
    let mut run = Run::new(device, &text, false, 64);
    run.launch(1, 32, false).expect("it fits");
    let error = run.wait().expect_err("too much").to_string();
    assert!(
        error.contains("exceeds the space left in the 8192-byte stack") && error.contains("lane 5"),
        "{error}"
    );
}

#[test]
fn generic_addresses_reach_constant_memory_and_parameters() {
    let functions = ".const .align 4 .u32 first[4] = {1, 2, 3, 4};\n.const .align 4 .u32 table[4] = {11, 22, 33, 44};\n\
                     .global .align 8 .u64 places[2] = {generic(table), generic(table)+4};\n";
    // Even lanes read the table, odd ones words of `out` that the host left zero.
    let body = "mov.u64 %w, table;\ncvta.const.u64 %w, %w;\nadd.u64 %x, %out, 128;\nand.b32 %a, %t, 1;\n\
                setp.eq.u32 %p, %a, 0;\nselp.b64 %w, %w, %x, %p;\nand.b32 %b, %t, 3;\n\
                mul.wide.u32 %x, %b, 4;\nadd.u64 %w, %w, %x;\nld.u32 %r, [%w];\n\
                isspacep.const %q, %w;\n@%q add.u32 %r, %r, 100;\nisspacep.global %q, %w;\n\
                @%q add.u32 %r, %r, 1000;\n@!%p bra OVER;\ncvta.to.const.u64 %w, %w;\nld.const.u32 %a, [%w];\n\
                mad.lo.u32 %r, %a, 10000, %r;\nOVER:\n";
    let table = [11, 22, 33, 44];
    let expected = |t: u32| match t % 2 {
        0 => table[t as usize % 4] * 10_001 + 100,
        _ => 1000,
    };
    let expected: Vec<u32> = (0..32).map(expected).collect();
    for policy in ["crs_stack", "convergence_barriers", "mimd"] {
        assert_eq!(words(functions, body, policy)[..32], expected, "{policy}");
    }
    // The same address in an initialiser.
    let body = "ld.global.u64 %w, [places];\nld.u32 %r, [%w];\nld.global.u64 %w, [places+8];\nld.u32 %a, [%w];\n\
                mad.lo.u32 %r, %a, 100, %r;\n";
    assert_eq!(words(functions, body, "crs_stack")[..32], [2211; 32]);
    // The kernel's own parameter, whose value is the address of `out`.
    let body = "mov.u64 %w, p;\ncvta.param.u64 %w, %w;\nld.u64 %x, [%w];\nsetp.eq.u64 %p, %x, %out;\n\
                selp.u32 %r, 1, 0, %p;\nisspacep.param %q, %w;\n@%q add.u32 %r, %r, 10;\n";
    assert_eq!(words(functions, body, "crs_stack")[..32], [11; 32]);
}

#[test]
fn generic_stores_to_constant_memory_are_faults() {
    let text = module(
        ".const .align 4 .u32 table = 5;\n",
        "mov.u64 %w, table;\ncvta.const.u64 %w, %w;\nst.u32 [%w], %t;\n",
    );
    let device = device_with(chip(|_| {}), "crs_stack", |o| o);
    let mut run = Run::new(device, &text, false, 64);
    run.launch(1, 32, false).expect("it fits");
    let error = run.wait().expect_err("it is read-only").to_string();
    assert!(error.contains("constant memory is read-only"), "{error}");
}

#[test]
fn additions_of_singles_flush_subnormals_in_global_memory_and_keep_them_in_shared() {
    // Both start with the least subnormal and add it; one through a generic address.
    let at = |space: &str, place: &str| {
        let body = format!(
            ".reg .f32 %v, %o;\nmov.b32 %v, 0x00000001;\nsetp.ne.u32 %p, %t, 0;\n@%p bra OVER;\n\
             {place}\nst{space}.f32 [%w], %v;\natom{space}.add.f32 %o, [%w], %v;\n\
             ld{space}.u32 %r, [%w];\nmov.b32 %a, %o;\nmad.lo.u32 %r, %a, 100, %r;\nOVER:\n"
        );
        words("", &body, "crs_stack")[0]
    };
    // What was there is returned as it was.
    let global = "add.u64 %w, %out, 128;";
    assert_eq!([at(".global", global), at("", global)], [100, 100]);
    let shared = "mov.u64 %w, room;";
    assert_eq!([at(".shared", shared), at("", &format!("{shared}\ncvta.shared.u64 %w, %w;"))], [102, 102]);
}

#[test]
fn a_subtraction_carries_where_it_does_not_borrow() {
    // ptxas 12.9 computes the same of these constants: 1, 0 and all ones.
    let mixed =
        |first: &str, second: &str| words("", &format!("{first};\n{second} %r, 0, 0;\n"), "crs_stack")[0];
    assert_eq!(mixed("sub.cc.u32 %a, 5, 3", "addc.u32"), 1);
    assert_eq!(mixed("sub.cc.u32 %a, 3, 5", "addc.u32"), 0);
    assert_eq!(mixed("add.cc.u32 %a, 0, 0", "subc.u32"), u32::MAX);
    assert_eq!(mixed("add.cc.u32 %a, -1, 1", "subc.u32"), 0);
    // 2^32 + 1 - 2 in two words.
    let wide = "sub.cc.u32 %a, 1, 2;\nsubc.u32 %b, 1, 0;\nmad.lo.u32 %r, %b, 16, %a;\n";
    assert_eq!(words("", wide, "crs_stack")[0], u32::MAX);
}

#[test]
fn comparisons_write_halves_and_pairs_of_masks() {
    let set = |body: &str| words("", &format!(".reg .b16 %h, %k, %o;\n{body}"), "crs_stack")[0];
    let pairs = ".reg .b32 %m, %l;\nmov.b32 %m, 0x3c003c00;\nmov.b32 %l, 0x3c000000;\n";
    assert_eq!(set(&format!("{pairs}set.eq.u32.f16x2 %r, %m, %l;\n")), 0xffff_0000);
    assert_eq!(set(&format!("{pairs}set.gt.s32.bf16x2 %r, %m, %l;\n")), 0x0000_ffff);
    let half =
        |body: &str| set(&format!("mov.b16 %h, 0x4000;\nmov.b16 %k, 0x3c00;\n{body}\ncvt.u32.u16 %r, %o;\n"));
    assert_eq!(half("setp.eq.u32 %p, %t, %t;\nset.gt.and.bf16.f16 %o, %h, %k, %p;"), 0x3f80);
    assert_eq!(half("mov.f32 %f, 0f3F800000;\nset.lt.f16.f32 %o, %f, 2.0;"), 0x3c00);
    assert_eq!(half("mov.f32 %f, 0f3F800000;\nset.lt.f16.f32 %o, 2.0, %f;"), 0);
    assert_eq!(half("set.lt.bf16.s32 %o, -1, 1;"), 0x3f80);
    assert_eq!(half("set.lt.f16.u32 %o, -1, 1;"), 0);
    assert_eq!(half("set.lt.bf16.f64 %o, 0d3FF0000000000000, 0d4000000000000000;"), 0x3f80);
}

#[test]
fn extrema_of_three_values() {
    let of = |text: &str| {
        let body = format!(
            "mov.f32 %f, 0f40A00000;\nmov.f32 %g, 0fBF800000;\n{text} %f, %f, %g, 0f40400000;\nmov.b32 %r, %f;\n"
        );
        words_of(".version 8.8\n.target sm_100", "", &body, "crs_stack")[0]
    };
    assert_eq!([of("max.f32"), of("min.f32")].map(f32::from_bits), [5.0, -1.0]);
    let nan = |text: &str| {
        let body = format!("mov.f32 %f, 0f7FC00000;\n{text} %f, %f, 1.0, 2.0;\nmov.b32 %r, %f;\n");
        words_of(".version 8.8\n.target sm_100", "", &body, "crs_stack")[0]
    };
    assert_eq!((f32::from_bits(nan("max.f32")), nan("max.NaN.f32")), (2.0, 0x7fff_ffff));
}

#[test]
fn vector_registers_have_elements() {
    let body = ".reg .v4 .u32 v, u;\n.reg .v2 .b32 h;\n\
                mov.u32 v.x, %t;\nmov.u32 v.y, 10;\nmov.u32 v.z, 100;\nmov.u32 v.w, 1000;\n\
                mov.u64 %x, room;\nand.b32 %a, %t, 31;\nmul.wide.u32 %w, %a, 16;\nadd.u64 %x, %x, %w;\n\
                st.shared.v4.u32 [%x], v;\nld.shared.v4.u32 u, [%x];\n\
                mov.v4.u32 v, {u.y, u.x, u.a, u.b};\n\
                add.u32 %r, v.r, v.g;\nadd.u32 %r, %r, v.z;\n\
                mov.b64 h, %x;\nmov.b64 %w, h;\nsetp.eq.u64 %p, %w, %x;\n@%p add.u32 %r, %r, 5000;\n\
                mov.v4.u32 v, %tid;\nadd.u32 %r, %r, v.x;\nadd.u32 %r, %r, v.y;\n";
    let expected: Vec<u32> = (0..32).map(|t| 10 + t + 1000 + 5000 + t).collect();
    assert_eq!(words("", body, "crs_stack")[..32], expected);
}

#[test]
fn volatile_accesses_reach_local_memory() {
    let body =
        ".local .align 8 .b8 l[16];\nst.volatile.local.u32 [l+4], %t;\nld.volatile.local.u32 %r, [l+4];\n";
    let found = words_of(".version 9.1\n.target sm_90", "", body, "crs_stack");
    assert_eq!(found[..32], (0..32).collect::<Vec<u32>>());
}

#[test]
fn declarations_of_functions_need_no_semicolon() {
    let functions = ".visible .func (.reg .u32 r) f (.reg .u32 a)\n\
                     .func (.reg .u32 r) f (.reg .u32 a)\n{\nadd.u32 r, a, 1;\nret;\n}\n\
                     .extern .func (.param .u32 r) elsewhere (.param .u32 a)\n";
    assert_eq!(words(functions, "call (%r), f, (%t);\n", "crs_stack")[..32], (1..33).collect::<Vec<u32>>());
}
