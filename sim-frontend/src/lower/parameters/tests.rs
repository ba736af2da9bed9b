use std::sync::Arc;

use crate::chip::{AssemblerSpec, ConstantOperands};
use crate::lower::assembled::assembled;
use crate::program::{OpClass, Program};

/// The program of a body behind the thread's number `%r1` and the loads of the parameters `%rd1` (`p`), `%rd2` (`q`), `%r8` (`n`).
fn made(body: &str, uniform_addresses: bool) -> Arc<Program> {
    let text = format!(
        ".version 6.3\n.target sm_75\n.address_size 64\n.const .align 4 .b8 table[64];\n\
         .visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)\n{{\n.reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n.reg .f32 %f<9>;\n\
         .reg .pred %p<9>;\nld.param.u64 %rd1, [p];\nld.param.u64 %rd2, [q];\nld.param.u32 %r8, [n];\nmov.u32 %r1, %tid.x;\n{body}\n\
         ret;\n}}\n"
    );
    let passes = AssemblerSpec {
        clean_up: true,
        parameters: true,
        multiply_add: true,
        constant_operands: ConstantOperands::One,
        uniform_addresses,
        ..AssemblerSpec::default()
    };
    assembled(&text, passes)
}

/// The place of the load of the parameter at an offset, and those of the branches.
fn load_and_branches(program: &Program, offset: i64) -> (usize, Vec<usize>) {
    let loads = |i: &usize| {
        let op = &program.ops[*i];
        op.class == OpClass::LoadParam && op.imm == offset
    };
    let load: Vec<usize> = (0..program.ops.len()).filter(loads).collect();
    assert_eq!(load.len(), 1, "loads of {offset}");
    let branches = (0..program.ops.len()).filter(|i| program.ops[*i].class == OpClass::Branch).collect();
    (load[0], branches)
}

/// As ptxas 13 has them for sm_80 and sm_90.
#[test]
fn parameters_are_loaded_in_the_block_that_leads_to_their_readers() {
    let skip = "setp.gt.s32 %p1, %r1, 7;\n@%p1 bra E;\nst.global.u32 [%rd1], %r1;\nE:\nbar.sync 0;\n";
    // Both parts of the kernel store there, or the last alone.
    let both = made(&format!("{skip}st.global.u32 [%rd1+4], %r1;"), false);
    let (load, branches) = load_and_branches(&both, 0);
    assert!(load < branches[0]);
    let last = made(&format!("{skip}st.global.u32 [%rd2], %r1;"), false);
    assert!(load_and_branches(&last, 8).0 > branches[0]);
    // In front of a loop, and behind the branch that leaves it out.
    let head = "setp.lt.s32 %p1, %r8, %r1;\n@%p1 bra E;\nmov.u32 %r2, 0;\nL:\n";
    let tail = "add.u32 %r2, %r2, 1;\nsetp.lt.s32 %p2, %r2, %r1;\n@%p2 bra L;\nE:";
    let within = made(&format!("{head}st.volatile.global.u32 [%rd1], %r2;\n{tail}"), false);
    let (load, branches) = load_and_branches(&within, 0);
    let target = within.ops[branches[1]].target as usize;
    assert!(branches[0] < load && load < target, "{branches:?} {load} {target}");
}

#[test]
fn words_of_constant_memory_are_operands() {
    let registers = |body: &str| made(body, false).registers_per_thread;
    let own = "cvt.rn.f32.s32 %f1, %r1;\n";
    let store = "st.global.f32 [%rd1], %f3;";
    let loaded = "ld.const.f32 %f2, [table+8];\n";
    let fixed = registers(&format!("{loaded}{own}add.f32 %f3, %f1, %f2;\n{store}"));
    // An index takes registers, and so does what is stored or stands beside an immediate.
    let indexed = "ld.const.f32 %f2, [%r1];\n";
    let index = registers(&format!("{indexed}{own}add.f32 %f3, %f1, %f2;\n{store}"));
    assert_eq!(index, fixed + 1);
    let immediate = registers(&format!("{loaded}{own}fma.rn.f32 %f3, %f1, %f2, 0f3F800000;\n{store}"));
    assert_eq!(immediate, fixed + 1);
    let stored =
        registers(&format!("{loaded}{own}add.f32 %f3, %f1, %f2;\n{store}\nst.global.f32 [%rd1+4], %f2;"));
    assert!(stored > fixed);
}

/// As ptxas 12.9 has them: programs of the workload `liveness` have two to four registers less for sm_75 than for sm_80.
#[test]
fn addresses_of_all_threads_lie_in_uniform_registers() {
    let registers = |body: &str| [false, true].map(|uniform| made(body, uniform).registers_per_thread);
    let store = "st.global.u32 [%rd1], %r1;";
    let [threads, uniform] = registers(store);
    assert_eq!(uniform + 2, threads);
    // What is stored takes its registers, as do sums with what the thread knows.
    let [threads, uniform] = registers("st.global.u64 [%rd1], %rd2;\nst.global.u64 [%rd2], %rd1;");
    assert_eq!(uniform, threads);
    let sum = "mul.wide.u32 %rd3, %r8, 8;\nadd.u64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], %r1;";
    let [threads, uniform] = registers(sum);
    assert!(uniform + 2 <= threads, "{uniform} {threads}");
    let [threads, uniform] = registers(&sum.replace("%r8, 8", "%r1, 8"));
    assert_eq!(uniform, threads);
    // What is loaded by an index differs between threads.
    let indexed = "and.b32 %r2, %r1, 8;\ncvt.u64.u32 %rd4, %r2;\nld.param.u64 %rd3, [%rd4];\nld.param.u64 %rd5, [%rd4];\n\
                   st.global.u32 [%rd3], %r1;\nst.global.u32 [%rd5], %r1;";
    let [threads, uniform] = registers(indexed);
    assert_eq!(uniform, threads);
}
