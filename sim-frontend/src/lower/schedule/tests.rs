use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;
use crate::program::OpClass;

/// The first words of the instructions of a body, in their order, between the parameter and the end.
fn order(body: &str) -> Vec<String> {
    let text = format!(
        ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .shared .align 16 .b8 room[4096];\n.reg .u32 %r<99>, %s;\n.reg .f32 %f<99>;\n.reg .u64 %l<9>, %a, %b;\n.reg .pred %p;\n\
         ld.param.u64 %a, [p];\n{body}\nret;\n}}\n"
    );
    let passes = AssemblerSpec { clean_up: true, schedule: true, ..AssemblerSpec::default() };
    let made = assembled(&text, passes);
    let shown = (0..made.ops.len() as u32).filter(|pc| made.ops[*pc as usize].class != OpClass::LoadParam);
    let mut texts: Vec<String> = shown.map(|pc| made.text(pc)).collect();
    texts.pop();
    texts
}

/// The places of instructions that begin so.
fn places(texts: &[String], begin: &str) -> Vec<usize> {
    (0..texts.len()).filter(|i| texts[*i].starts_with(begin)).collect()
}

#[test]
fn loads_come_before_what_waits_for_them() {
    let step =
        |i: u32| format!("ld.global.f32 %f{i}, [%a+{}];\nfma.rn.f32 %f90, %f{i}, %f{i}, %f90;\n", 4 * i);
    let body = format!(
        "mov.f32 %f90, 0f00000000;\n{}st.global.f32 [%a], %f90;",
        (0..8).map(step).collect::<String>()
    );
    let texts = order(&body);
    let loads = places(&texts, "ld.global");
    assert!(loads.iter().max() < places(&texts, "fma").iter().min(), "{texts:?}");
    // Of those within the longest stretch.
    let early = |step: &dyn Fn(u32) -> String| {
        let body = format!(
            "mov.f32 %f90, 0f00000000;\n{}st.global.f32 [%a], %f90;",
            (0..20).map(step).collect::<String>()
        );
        let texts = order(&body);
        let first = places(&texts, "fma")[0];
        places(&texts, "ld.global").iter().filter(|place| **place < first).count()
    };
    let found = early(&step);
    assert!((17..=19).contains(&found), "{found} loads before the first use");
    // As long as there are registers for them.
    let wide = |i: u32| {
        let at = |k: u32| format!("%f{}", 4 * i + k);
        format!(
            "ld.global.v4.f32 {{{}, {}, {}, {}}}, [%a+{}];\nfma.rn.f32 %f90, {}, {}, %f90;\nfma.rn.f32 %f90, {}, {}, %f90;\n",
            at(0),
            at(1),
            at(2),
            at(3),
            16 * i,
            at(0),
            at(1),
            at(2),
            at(3)
        )
    };
    let found = early(&wide);
    assert!((5..=8).contains(&found), "{found} loads of 4 words before the first use");
}

/// As ptxas 12.9 and 13 have them for sm_80: the address of a store that comes last takes no registers while what is stored is computed.
#[test]
fn what_is_read_late_is_computed_late() {
    let chain: String = (1..12).map(|i| format!("mul.rn.f32 %f{}, %f{i}, %f{i};\n", i + 1)).collect();
    let body = format!(
        "mov.u32 %r1, %tid.x;\ncvt.rn.f32.u32 %f1, %r1;\nmul.wide.u32 %l1, %r1, 4;\nadd.s64 %l2, %a, %l1;\n{chain}\
         st.global.f32 [%l2], %f12;"
    );
    let texts = order(&body);
    let products = places(&texts, "mul.rn");
    assert!(products[8] < places(&texts, "mul.wide")[0], "{texts:?}");
}

#[test]
fn what_orders_threads_and_accesses_stays_in_order() {
    let late = "mov.u32 %r1, 5;\nadd.u32 %r2, %r1, %r1;\nst.global.u32 [%a+64], %r2;\n";
    let moved = |between: &str, load: &str| {
        let texts =
            order(&format!("{late}{between}\n{load}\nadd.u32 %r4, %r3, 1;\nst.global.u32 [%a+128], %r4;"));
        let load = places(&texts, &load[..12])[0];
        load < places(&texts, "st.global")[0]
    };
    // Past arithmetic and a store elsewhere.
    assert!(moved("", "ld.global.u32 %r3, [%a];"));
    assert!(moved("", "ld.global.nc.u32 %r3, [%a+64];"));
    assert!(moved("", "ld.shared.u32 %r3, [room];"));
    // Not past a store to the same place, or to any through another base.
    assert!(!moved("", "ld.global.u32 %r3, [%a+64];"));
    assert!(!moved(
        "",
        "ld.global.u32 %r3, [%a+60];\n".replace("u32", "v2.u32").replace("%r3", "{%r3, %r5}").as_str()
    ));
    assert!(!moved("add.u64 %b, %a, %a;", "ld.global.u32 %r3, [%b];"));
    assert!(!moved("", "ld.u32 %r3, [%a];    "));
    for wall in [
        "bar.sync 0;",
        "membar.gl;",
        "mov.u32 %r9, %clock;",
        "atom.global.add.u32 %r9, [%a], 1;",
        "ld.volatile.global.u32 %r9, [%a];",
    ] {
        assert!(!moved(wall, "ld.global.u32 %r3, [%a];"), "{wall}");
    }
}

#[test]
fn registers_are_read_before_they_are_written_again() {
    let body = "ld.global.u32 %r1, [%a];\nadd.u32 %r2, %r1, 1;\nld.global.u32 %r1, [%a+4];\nadd.u32 %r3, %r1, %r2;\n\
                st.global.u32 [%a+8], %r3;";
    // Each value has a register of its own.
    assert_eq!(places(&order(body), "ld.global"), [0, 1]);
    // A guard may keep what there was.
    let kept = body.replace("ld.global.u32 %r1, [%a+4]", "@%p ld.global.u32 %r1, [%a+4]");
    let texts = order(&format!("setp.eq.u64 %p, %a, 0;\n{kept}"));
    let place = |what: &str| places(&texts, what)[0];
    assert!(place("add.u32 %r2") < place("@%p ld.global"), "{texts:?}");
    let guarded =
        "setp.eq.u64 %p, %a, 0;\nmov.u32 %r1, 7;\n@%p ld.global.u32 %r1, [%a];\nst.global.u32 [%a+8], %r1;";
    assert_eq!(places(&order(guarded), "@%p ld"), [2]);
}

/// Where one part of a kernel needs more registers than an SM full of warps has in any case, loads of another come early too;
/// not beyond what the bounds of the kernel leave.
#[test]
fn all_parts_may_use_what_one_needs() {
    let kept: String = (1..28).map(|i| format!("mul.lo.u32 %r{i}, %r0, {};\n", 2 * i + 1)).collect();
    let step = |i: u32| {
        format!(
            "ld.global.u32 %r{0}, [%l0+{1}];\nmad.lo.u32 %r{2}, %r{0}, %r{0}, %r{2};\n",
            60 + i,
            4 * i,
            1 + i
        )
    };
    let block: String = (0..8).map(step).collect();
    let sums: String = (1..28).map(|i| format!("st.global.u32 [%a+{}], %r{i};\n", 4 * i)).collect();
    // Volatile loads stay in their order, so that all of their results are live at a time.
    let many: String = (1..28)
        .map(|i| format!("ld.volatile.global.u32 %m{i}, [%l0+{}];\n", 4 * i))
        .chain((1..28).map(|i| format!("add.u32 %r{i}, %r{i}, %m{i};\n")))
        .collect();
    let early = |bounds: &str, many: &str| {
        let text = format!(
            ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 q) {bounds}\n{{\n\
             .reg .u32 %r<99>, %m<99>;\n.reg .u64 %a, %l<2>;\n.reg .pred %p;\nld.param.u64 %a, [p];\nld.param.u64 %l0, [q];\n\
             mov.u32 %r0, %tid.x;\n{kept}setp.eq.u32 %p, %r0, 7;\n@%p bra L;\n{block}L:\n{many}{sums}ret;\n}}\n"
        );
        let passes = AssemblerSpec { clean_up: true, schedule: true, ..AssemblerSpec::default() };
        let made = assembled(&text, passes);
        let texts: Vec<String> = (0..made.ops.len() as u32).map(|pc| made.text(pc)).collect();
        let first = places(&texts, "mad.lo")[0];
        places(&texts, "ld.global").iter().filter(|place| **place < first).count()
    };
    assert!(early("", "") < 8);
    assert_eq!(early("", &many), 8);
    assert!(early(".maxnreg 32", &many) < 8);
}
