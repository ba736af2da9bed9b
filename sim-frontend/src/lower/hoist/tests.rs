use std::sync::Arc;

use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;
use crate::program::{OpClass, Program};

/// A kernel in which an arm stands behind a branch of `%p1` that `condition` sets, and `meet` behind it.
fn program(hoist: bool, condition: &str, arm: &str, meet: &str) -> Arc<Program> {
    let text = format!(
        ".version 7.8\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{{\n\
         .reg .b32 %r<49>;\n.reg .b32 %q<40>;\n.reg .b64 %rd<9>;\n.reg .pred %p<9>;\n.shared .align 4 .b8 room[4096];\n\
         ld.param.u64 %rd1, [p];\nld.param.u32 %r5, [n];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd3, %r1, 4;\n\
         add.u64 %rd2, %rd1, %rd3;\nmov.u32 %r7, room;\nld.global.u32 %r6, [%rd2];\nld.global.u32 %r10, [%rd2+512];\n\
         mov.u32 %r2, %ctaid.x;\nmov.u32 %r30, 0;\n{condition}\n@!%p1 bra E;\n{arm}\nE:\n{meet}\n\
         st.global.u32 [%rd2+8000], %r10;\nret;\n}}\n"
    );
    assembled(&text, AssemblerSpec { clean_up: true, hoist, ..AssemblerSpec::default() })
}

const APART: &str = "setp.lt.s32 %p1, %r6, %r5;";
const SAME: &str = "setp.lt.s32 %p1, %r2, %r5;";

/// How many of the instructions of a class that `meet` has stand in front of the branch.
fn moved(class: OpClass, condition: &str, arm: &str, meet: &str) -> usize {
    let before = |hoist: bool| {
        let program = program(hoist, condition, arm, meet);
        let branch = program.ops.iter().position(|op| op.class == OpClass::Branch).expect("the branch stays");
        program.ops[..branch].iter().filter(|op| op.class == class).count()
    };
    before(true) - before(false)
}

const PRODUCT: &str = "mul.lo.s32 %r10, %r10, %r6;";
const STORE: &str = "mul.lo.s32 %r10, %r10, %r6;\nst.global.u32 [%rd2+40], %r10;";

/// As ptxas 12.9 does it for sm_80.
#[test]
fn what_needs_nothing_of_the_arm_is_done_before_the_branch() {
    let own = "mad.lo.s32 %r20, %r6, %r6, %r1;\nxor.b32 %r21, %r20, %r6;\nst.global.u32 [%rd2+800], %r21;";
    for condition in [APART, SAME] {
        for arm in [PRODUCT, STORE, "bar.sync 0;"] {
            assert_eq!(moved(OpClass::Data, condition, arm, own), 2, "{condition} {arm}");
        }
        // One that needs what the arm makes stays, and those that need it; others pass them.
        let mixed = "add.s32 %r20, %r10, 77;\nmul.lo.s32 %r21, %r6, %r6;\nmul.lo.s32 %r22, %r20, %r6;\n\
                     st.global.v2.u32 [%rd2+800], {%r21, %r22};";
        assert_eq!(moved(OpClass::Data, condition, STORE, mixed), 1, "{condition}");
        // Behind a loop of one block too.
        let around =
            "L:\nadd.s32 %r10, %r10, %r6;\nadd.s32 %r30, %r30, 1;\nsetp.lt.s32 %p3, %r30, %r10;\n@%p3 bra L;";
        assert_eq!(moved(OpClass::Data, condition, around, own), 2, "{condition}");
        // Behind two blocks not.
        let two = "setp.gt.s32 %p4, %r6, 3;\n@%p4 bra F;\nst.shared.u32 [%r7], %r6;\nF:\nst.shared.u32 [%r7+4], %r6;";
        assert_eq!(moved(OpClass::Data, condition, two, own), 0, "{condition}");
    }
}

#[test]
fn loads_pass_arms_that_do_not_store_where_threads_go_different_ways() {
    let loads = "ld.global.u32 %r20, [%rd2+4096];\nld.shared.u32 %r21, [%r7+4];\nst.global.v2.u32 [%rd2+800], {%r20, %r21};";
    assert_eq!(moved(OpClass::Load, APART, PRODUCT, loads), 2);
    assert_eq!(moved(OpClass::Load, SAME, PRODUCT, loads), 0);
    for arm in [
        STORE,
        "red.global.add.u32 [%rd2+80], %r10;",
        "bar.sync 0;",
        "membar.gl;",
        "ld.volatile.global.u32 %r10, [%rd2+80];",
    ] {
        assert_eq!(moved(OpClass::Load, APART, arm, loads), 0, "{arm}");
    }
    // Nor do they pass what stores, waits or orders in front of them, and volatile ones pass nothing.
    for first in [
        "st.global.u32 [%rd2+900], %r10;",
        "bar.sync 0;",
        "membar.gl;",
        "ld.volatile.global.u32 %r25, [%rd2];",
    ] {
        assert_eq!(moved(OpClass::Load, APART, PRODUCT, &format!("{first}\n{loads}")), 0, "{first}");
    }
}

/// What stands between two readings of the clock stays there, in front of them and behind.
#[test]
fn nothing_passes_the_clock() {
    let own = "mul.lo.s32 %r20, %r6, %r6;\nst.global.u32 [%rd2+800], %r20;";
    assert_eq!(moved(OpClass::Data, APART, STORE, own), 1);
    let clock = "mov.u32 %r25, %clock;\nst.global.u32 [%rd2+900], %r25;";
    assert_eq!(moved(OpClass::Data, APART, STORE, &format!("{clock}\n{own}")), 0);
    assert_eq!(moved(OpClass::Data, APART, &format!("{clock}\n{STORE}"), own), 0);
    for arm in ["@%p1 ret;", "vote.sync.ballot.b32 %r10, %p1, -1;"] {
        assert_eq!(moved(OpClass::Data, APART, arm, own), 0, "{arm}");
    }
}

/// Both arms of a branch count.
#[test]
fn neither_arm_is_passed_that_writes_what_is_read() {
    let then = "mul.lo.s32 %r10, %r10, %r6;\nbar.sync 0;\nbra M;";
    let found = |own: &str| {
        let meet =
            format!("xor.b32 %r21, %r10, %r6;\nbar.sync 1;\nM:\n{own}\nst.global.u32 [%rd2+40], %r21;");
        moved(OpClass::Data, APART, then, &meet)
    };
    assert_eq!(found("mul.lo.s32 %r20, %r6, %r1;\nst.global.u32 [%rd2+800], %r20;"), 1);
    assert_eq!(found("mul.lo.s32 %r20, %r21, %r1;\nst.global.u32 [%rd2+800], %r20;"), 0);
    assert_eq!(found("mul.lo.s32 %r20, %r10, %r1;\nst.global.u32 [%rd2+800], %r20;"), 0);
}

/// As many words move as there is room for.
#[test]
fn values_move_as_long_as_there_is_room() {
    let all: String = (0..40).map(|i| format!("mul.lo.s32 %q{i}, %r6, {};\n", 3 + 2 * i)).collect();
    let sum: String = (0..40).map(|i| format!("add.s32 %r10, %r10, %q{i};\n")).collect();
    let found = moved(OpClass::Data, APART, STORE, &(all + &sum));
    assert!((20..32).contains(&found), "{found}");
}

#[test]
fn nothing_is_overwritten_that_is_still_needed() {
    for meet in [
        // What the arm, the branch or an earlier instruction reads, and what an arm writes.
        "mov.u32 %r6, 5;\nst.global.u32 [%rd2+800], %r6;",
        "st.global.u32 [%rd2+800], %r20;\nmul.lo.s32 %r20, %r1, %r1;\nst.global.u32 [%rd2+804], %r20;",
        "mul.lo.s32 %r10, %r1, %r1;\nst.global.u32 [%rd2+804], %r10;",
        "add.s32 %r20, %r10, 1;\nst.global.u32 [%rd2+804], %r20;\nmul.lo.s32 %r20, %r1, %r1;\nst.global.u32 [%rd2+808], %r20;",
        "setp.lt.s32 %p1, %r1, 9;\nselp.b32 %r20, %r10, 9, %p1;\nst.global.u32 [%rd2+804], %r20;",
        // Carries and guards.
        "add.cc.u32 %r20, %r1, %r1;\naddc.u32 %r21, %r1, %r1;\nst.global.v2.u32 [%rd2+800], {%r20, %r21};",
        "@%p1 mul.lo.s32 %r20, %r1, %r1;\nst.global.u32 [%rd2+804], %r20;",
        "div.s32 %r20, %r1, %r6;\nst.global.u32 [%rd2+804], %r20;",
    ] {
        let arm = "mul.lo.s32 %r10, %r10, %r6;\nst.shared.v2.u32 [%r7], {%r20, %r10};";
        assert_eq!(moved(OpClass::Data, APART, arm, meet), 0, "{meet}");
    }
}
