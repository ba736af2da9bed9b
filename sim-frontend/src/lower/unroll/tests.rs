use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;
use crate::program::{OpClass, Program};
use std::sync::Arc;

fn passes() -> AssemblerSpec {
    AssemblerSpec { clean_up: true, unroll: true, ..AssemblerSpec::default() }
}

/// The program of a loop: what it begins with, an iteration, and how it counts (`"cmp step limit start"`).
fn program(body: &str, counts: &str) -> Arc<Program> {
    let [cmp, step, limit, start] = counts.split(' ').collect::<Vec<_>>()[..] else { panic!("four words") };
    let text = format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)\n{{\n\
         .reg .b32 %r<99>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n.reg .pred %p<9>;\n.shared .align 16 .b8 room[8192];\n\
         ld.param.u64 %rd2, [p];\nld.param.u64 %rd4, [q];\nld.param.u32 %r9, [n];\nmov.u32 %r1, %tid.x;\n\
         mul.wide.s32 %rd5, %r1, 4;\nadd.s64 %rd4, %rd4, %rd5;\nmov.u32 %r2, 0;\nmov.u32 %r7, room;\n\
         shl.b32 %r8, %r1, 2;\nadd.s32 %r7, %r7, %r8;\ncvt.rn.f32.s32 %f1, %r1;\nmov.f32 %f2, %f1;\nmov.f32 %f3, %f1;\n\
         mov.f32 %f4, %f1;\nmov.u32 %r5, {start};\nL:\n{body}\nadd.s32 %r5, %r5, {step};\n\
         setp.{cmp} %p1, %r5, {limit};\n@%p1 bra L;\nst.global.u32 [%rd2], %r2;\n\
         st.global.v4.f32 [%rd2+16], {{%f1, %f2, %f3, %f4}};\nret;\n}}\n"
    );
    assembled(&text, passes())
}

/// How many operations of a root there are.
fn copies(body: &str, counts: &str, root: &str) -> usize {
    let program = program(body, counts);
    (0..program.ops.len() as u32).filter(|pc| program.text(*pc).starts_with(root)).count()
}

const UP: &str = "lt.s32 1 %r9 0";
const DOWN: &str = "ne.s32 -4 0 %r9";
const BY_THREAD: &str = "lt.s32 1 %r9 %r1";

const LOAD: &str = "ld.global.u32 %r10, [%rd4];\nadd.s32 %r2, %r2, %r10;\nadd.s64 %rd4, %rd4, 4;\n";
const LOAD_SHARED: &str = "ld.shared.u32 %r10, [%r7];\nadd.s32 %r2, %r2, %r10;\nadd.s32 %r7, %r7, 4;\n";
const STORE: &str = "st.global.u32 [%rd4], %r5;\nadd.s64 %rd4, %rd4, 4;\n";

fn sums(count: usize) -> String {
    (0..count).map(|i| format!("fma.rn.f32 %f{0}, %f{0}, %f{0}, 0f3f800000;\n", 1 + i % 4)).collect()
}

fn loads(count: usize) -> String {
    let each = |i| format!("ld.global.u32 %r{0}, [%rd4+{1}];\nadd.s32 %r2, %r2, %r{0};\n", 20 + i, 512 * i);
    (0..count).map(each).collect::<String>() + "add.s64 %rd4, %rd4, 4;\n"
}

/// Seven iterations stand in the text: four, two and one. As ptxas 12.8 unrolls for sm_52 to sm_80 and ptxas 13 for sm_90.
#[test]
fn what_ptxas_unrolls() {
    for (body, root) in [(LOAD, "ld.global"), (LOAD_SHARED, "ld.shared"), (STORE, "st.global.u32 [%rd4]")] {
        for counts in [UP, DOWN, BY_THREAD, "ne.s32 -1 0 %r9", "gt.s32 -1 0 %r9", "lt.s32 128 896 %r1"] {
            assert_eq!(copies(body, counts, root), 7, "{body} {counts}");
        }
        // ptxas has an eighth of these, the first one.
        for counts in [
            "lt.u32 1 %r9 0",
            "lo.u32 192 %r9 %r1",
            "ls.u32 1 896 %r1",
            "gt.u32 -1 %r9 %r1",
            "hs.u32 -2 5 %r9",
        ] {
            assert_eq!(copies(body, counts, root), 7, "{body} {counts}");
        }
    }
    let down = LOAD.replace("add.s64 %rd4, %rd4, 4", "sub.s64 %rd4, %rd4, 4");
    assert_eq!(copies(&down, UP, "ld.global"), 7);
    let barrier = format!("{LOAD}bar.sync 0;\n");
    assert_eq!(copies(&barrier, UP, "bar"), 7);
    assert_eq!(copies(&barrier, "ne.s32 -1 0 %r9", "bar"), 7);
    let red = "red.global.add.u32 [%rd4], %r5;\nadd.s64 %rd4, %rd4, 4;\n";
    assert_eq!(copies(red, UP, "red"), 7);
    assert_eq!(copies(&format!("{LOAD}st.global.u32 [%rd2+64], %r10;\n"), UP, "ld.global"), 7);
    for (sums_, loads_) in [(8, 1), (32, 1), (40, 1), (4, 4), (32, 4), (32, 2)] {
        assert_eq!(copies(&(sums(sums_) + &loads(loads_)), UP, "ld.global"), 7 * loads_, "{sums_}, {loads_}");
    }
    for count in [4, 12, 18] {
        assert_eq!(copies(&sums(count), UP, "fma"), 7 * count, "{count}");
    }
    assert_eq!(copies(&(sums(17) + "bar.sync 0;\n"), UP, "bar"), 7);
    for count in [1, 4, 12, 15] {
        assert_eq!(copies(&loads(count), DOWN, "ld.global"), 7 * count, "{count}");
    }
}

#[test]
fn what_ptxas_leaves_as_it_is() {
    // Too long.
    for count in [19, 24, 64] {
        assert_eq!(copies(&sums(count), UP, "fma"), count, "{count}");
    }
    assert_eq!(copies(&(sums(18) + "bar.sync 0;\n"), UP, "bar"), 1);
    assert_eq!(copies(&loads(16), DOWN, "ld.global"), 16);
    for (sums_, loads_) in [(44, 1), (48, 2), (40, 4)] {
        assert_eq!(copies(&(sums(sums_) + &loads(loads_)), UP, "ld.global"), loads_, "{sums_}, {loads_}");
    }
    // Threads that leave at different times, where others see what they do.
    let red = "red.global.add.u32 [%rd4], %r5;\nadd.s64 %rd4, %rd4, 4;\n";
    for (body, root) in [
        (red.to_string(), "red"),
        (format!("{LOAD}bar.sync 0;\n"), "ld.global"),
        (format!("{LOAD}st.global.u32 [%rd2+64], %r10;\n"), "ld.global"),
    ] {
        assert_eq!(copies(&body, BY_THREAD, root), 1, "{body}");
    }
    // Products are made by all threads of a warp.
    let product =
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r20, %r21}, {%r22}, {%r23}, {%r20, %r21};\n";
    assert_eq!(copies(product, BY_THREAD, "mma"), 1);
    assert_eq!(copies(product, UP, "mma"), 7);
    // What does not count: a step in a register, a limit that moves, two steps, a limit behind it.
    assert_eq!(copies(LOAD, "lt.s32 %r9 64 0", "ld.global"), 1);
    assert_eq!(copies(&format!("{LOAD}add.s32 %r9, %r9, 3;\n"), UP, "ld.global"), 1);
    assert_eq!(copies(&format!("{LOAD}add.s32 %r5, %r5, 1;\n"), UP, "ld.global"), 1);
    assert_eq!(copies(LOAD, "gt.s32 1 %r9 0", "ld.global"), 1);
    assert_eq!(copies(LOAD, "lo.u32 -1 %r9 0", "ld.global"), 1);
}

/// At a loop, at a function and at a module.
#[test]
fn a_pragma_keeps_loops() {
    assert_eq!(copies(&format!(".pragma \"nounroll\";\n{LOAD}"), UP, "ld.global"), 1);
    let loops = "L:\nadd.s32 %r2, %r2, %r5;\nadd.s32 %r5, %r5, 1;\nsetp.lt.s32 %p1, %r5, %r9;\n@%p1 bra L;\n";
    let of = |module: &str, function: &str| {
        let text = format!(
            ".version 7.8\n.target sm_80\n.address_size 64\n{module}\n.visible .entry k(.param .u32 n) {function}\n{{\n\
             .reg .b32 %r<99>;\n.reg .pred %p<9>;\nld.param.u32 %r9, [n];\nmov.u32 %r2, 0;\nmov.u32 %r5, 0;\n{loops}\
             st.shared.u32 [0], %r2;\nret;\n}}\n"
        );
        assembled(&text, passes()).clean_up.expect("it is cleaned up").unrolled
    };
    let pragma = ".pragma \"nounroll\";";
    assert_eq!([of("", ""), of(pragma, ""), of("", pragma)], [1, 0, 0]);
    assert_eq!(of(".pragma \"other\", \"nounroll\";", ""), 0);
    assert_eq!(of(".pragma \"other\";", ".pragma \"used_bytes_mask 1\";"), 1);
}

/// Addresses that grow are one addition for all iterations.
#[test]
fn what_grows_is_added_once() {
    let made = program(LOAD, DOWN);
    let texts: Vec<_> = (0..made.ops.len() as u32).map(|pc| made.text(pc).to_string()).collect();
    // Of the counter and of the address in each of the two.
    assert_eq!(texts.iter().filter(|text| *text == "add of an unrolled loop").count(), 4, "{texts:?}");
    let offsets: Vec<i32> =
        made.ops.iter().filter(|op| op.class == OpClass::Load).map(|op| op.imm as i32).collect();
    assert_eq!(offsets, [0, 4, 8, 12, 0, 4, 0]);
}
