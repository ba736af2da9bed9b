use std::sync::Arc;

use crate::chip::{AssemblerSpec, ConstantOperands};
use crate::lower::assembled::assembled;
use crate::program::{OpClass, Program};

/// A kernel in which `then` is done where `%p1` is true, and `els` elsewhere, within `around` (`{}` is where they stand).
fn program(most: u32, around: &str, then: &str, els: &str) -> Arc<Program> {
    built(AssemblerSpec { clean_up: true, predicate: most, ..AssemblerSpec::default() }, around, then, els)
}

fn built(passes: AssemblerSpec, around: &str, then: &str, els: &str) -> Arc<Program> {
    let branches = match els {
        "" => format!("@!%p1 bra E;\n{then}\nE:"),
        els => format!("@!%p1 bra E;\n{then}\nbra J;\nE:\n{els}\nJ:"),
    };
    let body = around.replace("{}", &branches);
    let text = format!(
        ".version 7.8\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{{\n\
         .reg .b32 %r<49>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n.reg .pred %p<9>;\n.shared .align 4 .b8 room[4096];\n\
         ld.param.u64 %rd1, [p];\nld.param.u32 %r5, [n];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd3, %r1, 4;\n\
         add.u64 %rd2, %rd1, %rd3;\nmov.u32 %r7, room;\nld.global.u32 %r6, [%rd2];\nld.global.u32 %r10, [%rd2+512];\n\
         ld.global.f32 %f1, [%rd2+516];\nmov.u32 %r30, 0;\nsetp.lt.s32 %p1, %r6, %r5;\n{body}\n\
         st.global.u32 [%rd2+8000], %r10;\nst.global.f32 [%rd2+9000], %f1;\nret;\n}}\n"
    );
    assembled(&text, passes)
}

/// The same with instructions behind the branch.
fn program_with(most: u32, then: &str, behind: &str) -> Arc<Program> {
    let passes = AssemblerSpec {
        clean_up: true,
        multiply_add: true,
        parameters: true,
        constant_operands: ConstantOperands::One,
        predicate: most,
        ..AssemblerSpec::default()
    };
    built(passes, &format!("{{}}\n{behind}"), then, "")
}

fn branches(program: &Program) -> usize {
    program.ops.iter().filter(|op| op.class == OpClass::Branch).count()
}

fn left(most: u32, around: &str, then: &str, els: &str) -> usize {
    branches(&program(most, around, then, els))
}

const TOP: &str = "{}";
const LOOP: &str =
    "L:\nadd.s32 %r10, %r10, 3;\n{}\nadd.s32 %r30, %r30, 1;\nsetp.lt.u32 %p3, %r30, %r5;\n@%p3 bra L;";
const NESTED: &str = "setp.gt.s32 %p4, %r6, 3;\n@%p4 bra N;\nxor.b32 %r10, %r10, 1;\n{}\nN:";

fn sums(count: usize) -> String {
    (0..count)
        .map(|i| if i % 2 == 0 { "xor.b32 %r10, %r10, %r6;\n" } else { "add.s32 %r10, %r10, %r5;\n" })
        .collect()
}

fn products(count: usize) -> String {
    "fma.rn.f32 %f1, %f1, %f1, 0f3f800000;\n".repeat(count)
}

fn stores(count: usize) -> String {
    (0..count).map(|i| format!("st.shared.u32 [%r7+{}], %r10;\n", 400 * i)).collect()
}

const GLOBAL: &str = "ld.global.u32 %r20, [%rd2+4100];\nxor.b32 %r10, %r10, %r20;\n";
const SHARED: &str = "ld.shared.u32 %r20, [%r7+8];\nxor.b32 %r10, %r10, %r20;\n";

/// A branch that all threads of a warp take the same way.
const UNIFORM: &str = "setp.lt.s32 %p1, %r5, 77;\n{}";

/// As ptxas 12.9 and 13 do it for sm_52 to sm_90.
#[test]
fn arms_that_ptxas_guards() {
    // In each arm; the first jumps over the second.
    for (around, most) in [(TOP, 8), (LOOP, 8), (NESTED, 8), (UNIFORM, 6)] {
        let others = left(0, around, "", "") - 1;
        for (count, more) in [(1, 0), (most, 0), (most + 1, 1)] {
            assert_eq!(left(8, around, &sums(count), "") - others, more, "{around} {count}");
        }
        for (then, els, more) in [(1, most, 0), (most - 1, most, 0), (most, 1, 2), (1, most + 1, 2)] {
            let found = left(8, around, &sums(then), &products(els)) - others;
            assert_eq!(found, more, "{around} {then} {els}");
        }
    }
    // Instructions of machine code count.
    let words = |count: usize| {
        "add.s64 %rd7, %rd2, %rd7;\nxor.b64 %rd7, %rd2, %rd7;\n".repeat(count / 2)
            + "st.global.u64 [%rd2+40], %rd7;\n"
    };
    assert_eq!([left(8, TOP, &words(2), ""), left(8, TOP, &words(4), "")], [0, 1]);
    // So do registers that are filled with constants, where the block behind needs them too.
    let address = "mul.wide.s32 %rd5, %r10, 40;\nadd.s64 %rd6, %rd1, %rd5;\nst.global.u32 [%rd6], %r10;\n";
    let fill = |count: usize| sums(count) + address;
    let with = |count: usize| branches(&program_with(8, &fill(count), "mad.lo.s32 %r10, %r10, 40, %r5;"));
    assert_eq!([with(5), with(6)], [0, 1]);
    // Where a load stands behind that needs nothing of the arm, or four instructions do.
    let behind = |count: usize, meet: &str| branches(&program_with(8, &sums(count), meet));
    let chain = |count: usize| {
        let step =
            |i: usize| format!("xor.b32 %r{}, %r{}, %r1;\nshl.b32 %r{0}, %r{0}, %r5;\n", i + 21, i + 20);
        let all: String = (0..count / 2).map(step).collect();
        format!("add.s32 %r20, %r1, %r6;\n{all}st.global.u32 [%rd2+40], %r{};", 20 + count / 2)
    };
    assert_eq!([behind(9, &chain(0)), behind(9, &chain(2)), behind(9, &chain(4))], [1, 1, 0]);
    assert_eq!([behind(20, &chain(4)), behind(21, &chain(4))], [0, 1]);
    let load = "ld.global.u32 %r20, [%rd2+4100];\nst.global.u32 [%rd2+40], %r20;";
    assert_eq!([behind(20, load), behind(21, load)], [0, 1]);
    let needs = "ld.global.u32 %r20, [%rd2+4100];\nadd.s32 %r10, %r10, %r20;\nbar.sync 0;";
    assert_eq!([behind(9, needs), behind(9, &format!("bar.sync 0;\n{needs}"))], [0, 1]);
    // Loads from global memory.
    for around in [TOP, LOOP] {
        let others = left(0, around, "", "") - 1;
        assert_eq!(left(8, around, &(GLOBAL.to_string() + &sums(18)), "") - others, 0, "{around}");
        assert_eq!(left(8, around, &(GLOBAL.to_string() + &sums(19)), "") - others, 1, "{around}");
        assert_eq!(left(8, around, &(SHARED.to_string() + &sums(7)), "") - others, 1, "{around}");
    }
    assert_eq!([left(20, TOP, &stores(8), ""), left(20, TOP, &stores(9), "")], [0, 1]);
}

#[test]
fn what_stays_a_branch() {
    for stays in [
        "red.global.add.u32 [%rd2], %r10;",
        "atom.shared.add.u32 %r10, [%r7], 1;",
        "bar.sync 0;",
        "membar.gl;",
        "shfl.sync.bfly.b32 %r10, %r10, 1, 31, -1;",
        "div.s32 %r10, %r10, %r6;",
        "setp.gt.s32 %p2, %r6, 3;\n@%p2 add.s32 %r10, %r10, 7;",
        "setp.gt.s32 %p1, %r10, 3;\nselp.b32 %r10, %r10, 1, %p1;",
        "ld.acquire.gpu.global.u32 %r10, [%rd2];",
        "@%p1 ret;",
    ] {
        assert_eq!(left(20, TOP, stays, ""), 1, "{stays}");
    }
    for goes in [
        "ld.volatile.global.u32 %r10, [%rd2];",
        "mov.u32 %r10, %clock;",
        "setp.gt.s32 %p2, %r6, 3;\nselp.b32 %r10, %r10, 1, %p2;",
    ] {
        assert_eq!(left(20, TOP, goes, ""), 0, "{goes}");
    }
    assert_eq!(left(0, TOP, &sums(1), ""), 1);
    // Threads that have nothing left to do end.
    assert_eq!(left(20, "{}\nret;", &stores(1), ""), 1);
    // An arm that others lead to, and one that leads elsewhere.
    let shared =
        "@%p1 bra A;\nsetp.gt.s32 %p2, %r6, 3;\n@%p2 bra A;\nbra B;\nA:\nadd.s32 %r10, %r10, 1;\nB:\n{}";
    assert_eq!(left(20, shared, &sums(1), ""), 3);
}

/// What only an arm reads is computed by all lanes, and a load of it keeps nothing: registers live as long as before.
#[test]
fn values_of_an_arm() {
    let arm = "ld.global.u32 %r20, [%rd2+4];\nadd.s32 %r21, %r20, 1;\nmul.lo.s32 %r22, %r21, %r20;\nadd.s32 %r10, %r10, %r22;";
    let program = program(20, TOP, arm, "");
    let guarded = |name: &str| {
        let pc = (0..program.ops.len() as u32).find(|pc| program.text(*pc).starts_with(name)).expect("there");
        !program.ops[pc as usize].guard.is_const()
    };
    assert!(guarded("ld.global.u32 %r20") && guarded("add.s32 %r10"));
    assert!(!guarded("add.s32 %r21") && !guarded("mul.lo.s32 %r22"));
    assert!(program.exposed.is_empty(), "nothing is read before it is written");
}
