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
    // As long as there are registers for them.
    let body = format!(
        "mov.f32 %f90, 0f00000000;\n{}st.global.f32 [%a], %f90;",
        (0..80).map(step).collect::<String>()
    );
    let texts = order(&body);
    let first = places(&texts, "fma")[0];
    let early = places(&texts, "ld.global").iter().filter(|place| **place < first).count();
    assert!((20..=32).contains(&early), "{early} loads before the first use");
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
    let texts = order(body);
    assert_eq!(places(&texts, "ld.global"), [0, 2], "{texts:?}");
    let guarded =
        "setp.eq.u64 %p, %a, 0;\nmov.u32 %r1, 7;\n@%p ld.global.u32 %r1, [%a];\nst.global.u32 [%a+8], %r1;";
    assert_eq!(places(&order(guarded), "@%p ld"), [2]);
}
