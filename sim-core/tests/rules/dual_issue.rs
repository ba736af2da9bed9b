//! Two instructions of a warp in a cycle, where a chip's schedulers issue as many.

use sim_frontend::chip::ChipSpec;
use sim_frontend::isa::UnitClass;

use crate::machine::{Run, chip, device};

/// One warp runs `body`, of registers `%r0` … and `%f0` …; words of `out`, cycles, pairs.
fn run(body: &str, change: impl FnOnce(&mut ChipSpec)) -> (Vec<u32>, u64, u64) {
    let text = format!(
        ".version 3.0\n.target sm_20\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .u32 %r<40>;\n.reg .f32 %f<40>;\n.reg .u64 %d<3>;\n.reg .pred %p;\n\
         ld.param.u64 %d1, [p];\nmov.u32 %r0, %tid.x;\nmov.f32 %f0, 0f3F800000;\n{body}\
         mul.wide.u32 %d2, %r0, 4;\nadd.u64 %d1, %d1, %d2;\nst.global.u32 [%d1], %r1;\nexit;\n}}\n"
    );
    let mut run = Run::new(device(chip(change), "crs_stack"), &text, false, 64);
    run.launch(1, 32, false).expect("it fits");
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    let report = run.report();
    (run.words(), report.cycles, report.paired)
}

fn wide(chip: &mut ChipSpec) {
    chip.sm.issue_width = 2;
}

/// Sixteen integer and sixteen floating-point operations, turn about, none of which needs another; then
/// all of their results in one, so that each has a register of its own.
fn mixed() -> String {
    let pairs = (1..17).map(|i| format!("add.u32 %r{i}, %r0, {i};\nadd.f32 %f{i}, %f0, %f0;\n"));
    let sums = (2..17).map(|i| format!("add.u32 %r1, %r1, %r{i};\n"));
    let floats = (2..17).map(|i| format!("add.f32 %f1, %f1, %f{i};\n"));
    pairs
        .chain(sums)
        .chain(floats)
        .chain(["cvt.rzi.u32.f32 %r2, %f1;\nadd.u32 %r1, %r1, %r2;\n".into()])
        .collect()
}

#[test]
fn independent_instructions_for_different_units_issue_together() {
    let (words, cycles, pairs) = run(&mixed(), |_| {});
    assert_eq!(pairs, 0);
    let (same, fewer, pairs) = run(&mixed(), wide);
    assert_eq!(words, same);
    assert_eq!(words[..32], (0..32).map(|t| 16 * t + 168).collect::<Vec<u32>>()[..]);
    assert!((16..=20).contains(&pairs), "{pairs}");
    assert!((14..=20).contains(&(cycles - fewer)), "{cycles} {fewer}");
}

#[test]
fn one_unit_or_a_dependence_keeps_them_apart() {
    // Lanes that serve both classes: one operation a cycle.
    let (_, alone, _) = run(&mixed(), |_| {});
    let (_, shared, pairs) = run(&mixed(), |chip| {
        wide(chip);
        chip.sm.units.share(UnitClass::Fma, UnitClass::Alu, 1);
    });
    assert!(pairs <= 2 && alone - shared <= 2, "{pairs} {alone} {shared}");
    // Two such units for the two schedulers: two operations a cycle again.
    let (_, two, pairs) = run(&mixed(), |chip| {
        wide(chip);
        chip.sm.units.share(UnitClass::Fma, UnitClass::Alu, 2);
    });
    assert!((16..=20).contains(&pairs) && alone - two >= 14, "{pairs} {alone} {two}");
    // Each needs the one before it.
    let chain: String =
        (1..17).map(|i| format!("add.u32 %r{}, %r{}, 1;\n", i % 2 + 1, (i + 1) % 2 + 1)).collect();
    let chain = format!("mov.u32 %r1, 0;\nmov.u32 %r2, 0;\n{chain}");
    let (_, narrow, _) = run(&chain, |_| {});
    let (_, still, _) = run(&chain, wide);
    assert!(narrow - still <= 2, "{narrow} {still}");
}

#[test]
fn nothing_issues_beside_control_flow() {
    let body = "setp.lt.u32 %p, %r0, 7;\n@%p bra NEXT;\nNEXT:\nadd.u32 %r1, %r0, 5;\nbar.sync 0;\nadd.u32 %r1, %r1, 1;\n";
    let (words, _, _) = run(body, wide);
    assert_eq!(words[..32], (6..38).collect::<Vec<u32>>()[..]);
}
