use crate::chip::{AssemblerSpec, ConstantOperands};
use crate::lower::assembled::assembled;
use crate::program::Program;

const ALL: AssemblerSpec =
    AssemblerSpec { schedule: false, constant_operands: ConstantOperands::Any, ..AssemblerSpec::ALL };

fn program(body: &str, passes: AssemblerSpec) -> std::sync::Arc<Program> {
    let text = format!(
        ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{{\n\
         .reg .u32 %r<19>;\n.reg .u64 %rd<9>;\n.reg .f32 %f<4>;\n.reg .pred %p<9>;\n\
         ld.param.u64 %rd1, [p];\nld.param.u32 %r9, [n];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\n\
         {body}\nst.global.u32 [%rd1], %r5;\nst.global.u64 [%rd1+8], %rd5;\nret;\n}}\n"
    );
    assembled(&text, passes)
}

/// The instructions of a body between the special registers and the stores.
fn left(body: &str, passes: AssemblerSpec) -> Vec<String> {
    let program = program(body, passes);
    let texts = (0..program.ops.len() as u32).map(|pc| program.text(pc));
    texts.filter(|text| !text.contains("%tid") && !text.contains("taid") && !text.contains("%ntid")).collect()
}

/// What of a body with all passes is no load or store of the frame around it.
fn fused(body: &str) -> Vec<String> {
    let mut texts = left(body, ALL);
    texts.retain(|text| !text.starts_with("ld.param") && !text.starts_with("st.global") && text != "ret");
    texts
}

#[test]
fn multiplications_take_in_additions_and_shifts() {
    assert_eq!(fused("mul.wide.s32 %rd2, %r1, 4;\nadd.s64 %rd5, %rd1, %rd2;"), ["mad.wide"]);
    assert_eq!(
        fused("cvt.s64.s32 %rd2, %r1;\nshl.b64 %rd3, %rd2, 3;\nadd.s64 %rd5, %rd3, %rd1;"),
        ["mad.wide"]
    );
    assert_eq!(fused("cvt.u64.u32 %rd2, %r1;\nshl.b64 %rd5, %rd2, 3;"), ["mul.wide"]);
    assert_eq!(fused("shl.b32 %r4, %r1, 2;\nadd.s32 %r5, %r4, %r2;"), ["mad.lo"]);
    assert_eq!(fused("shl.b32 %r4, %r1, 2;\nsub.s32 %r5, %r2, %r4;"), ["mad.lo"]);
    assert_eq!(fused("mul.lo.s32 %r4, %r1, %r3;\nadd.s32 %r5, %r2, %r4;"), ["mad.lo"]);
    // Wide products are made as often as they are added.
    let twice = "mul.wide.s32 %rd2, %r1, 4;\nadd.s64 %rd5, %rd1, %rd2;\nadd.s64 %rd3, %rd5, %rd2;\nst.global.u32 [%rd3], 1;";
    assert_eq!(fused(twice), ["mad.wide", "mad.wide"]);
    let kept = "mul.wide.s32 %rd5, %r1, 4;\nadd.s64 %rd3, %rd1, %rd5;\nst.global.u32 [%rd3], 1;";
    assert_eq!(fused(kept), ["mul.wide.s32 %rd5, %r1, 4", "mad.wide"]);
    // What is taken away from is no addend; a shift by 31 bits of 64 is no factor of 32 bits with a sign.
    assert_eq!(fused("shl.b32 %r4, %r1, 2;\nsub.s32 %r5, %r4, %r2;").len(), 2);
    assert_eq!(fused("mul.lo.s32 %r4, %r1, %r3;\nsub.s32 %r5, %r2, %r4;").len(), 2);
    assert_eq!(fused("cvt.s64.s32 %rd2, %r1;\nshl.b64 %rd5, %rd2, 31;").len(), 2);
    // A narrow value in a wide register is not what is multiplied.
    assert_eq!(fused("cvt.u64.u16 %rd2, %r1;\nshl.b64 %rd5, %rd2, 3;").len(), 2);
}

#[test]
fn operations_have_three_inputs() {
    assert_eq!(fused("add.s32 %r4, %r1, %r2;\nadd.s32 %r5, %r4, %r3;"), ["add of three operands"]);
    assert_eq!(fused("add.s32 %r4, %r1, 1;\nadd.s32 %r5, %r4, 2;").len(), 2, "room for one constant");
    assert_eq!(fused("and.b32 %r4, %r1, %r2;\nxor.b32 %r5, %r3, %r4;"), ["lop3"]);
    assert_eq!(fused("not.b32 %r4, %r1;\nand.b32 %r5, %r4, 15;"), ["lop3"]);
    assert_eq!(fused("and.b32 %r4, %r1, 7;\nor.b32 %r5, %r4, 16;").len(), 2);
    let both = "setp.lt.s32 %p1, %r1, %r9;\nsetp.lt.s32 %p2, %r2, %r3;\nand.pred %p3, %p1, !%p2;\nselp.u32 %r5, 1, 0, %p3;";
    let texts = fused(both);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts.contains(&"setp with a predicate".to_string()), "{texts:?}");
}

#[test]
fn sums_take_in_shifts_and_extensions() {
    assert_eq!(fused("shr.u32 %r4, %r1, 27;\nadd.s32 %r5, %r4, %r2;"), ["add with a shift"]);
    assert_eq!(fused("shl.b64 %rd2, %rd1, 3;\nadd.s64 %rd5, %rd2, %rd1;"), ["add of 64 bits with a shift"]);
    assert_eq!(fused("cvt.s64.s32 %rd2, %r1;\nadd.s64 %rd5, %rd1, %rd2;"), ["add of 64 bits with a shift"]);
    // However many read it.
    let twice =
        "shl.b32 %r4, %r1, 4;\nadd.s32 %r5, %r4, %r2;\nadd.s32 %r6, %r4, %r3;\nst.global.u32 [%rd1+4], %r6;";
    assert_eq!(fused(twice), ["mad.lo", "mad.lo"]);
    let without = AssemblerSpec { multiply_add: false, ..ALL };
    assert!(
        left("shl.b32 %r4, %r1, 2;\nadd.s32 %r5, %r4, %r2;", without)
            .contains(&"add with a shift".to_string())
    );
    for kept in [
        "shr.s32 %r4, %r1, 27;\nadd.s32 %r5, %r4, %r2;",
        "shr.u32 %r4, %r1, %r2;\nadd.s32 %r5, %r4, %r2;",
        "shl.b64 %rd2, %rd1, 40;\nadd.s64 %rd5, %rd2, %rd1;",
        "shl.b64 %rd2, %rd1, 3;\nsub.s64 %rd5, %rd1, %rd2;",
        "cvt.s64.s16 %rd2, %r1;\nadd.s64 %rd5, %rd1, %rd2;",
    ] {
        assert!(!fused(kept).iter().any(|text| text.contains("with a shift")), "{kept}");
    }
}

#[test]
fn products_of_twice_the_width_are_made_again_in_other_blocks() {
    let rounds = |begin: &str, step: &str| {
        fused(&format!(
            "{begin}\nmov.u64 %rd5, %rd1;\nmov.u32 %r6, %r2;\nL:\nst.global.u32 [%rd5], %r6;\n{step}\nadd.s32 %r6, %r6, %r3;\n\
             setp.lt.s32 %p1, %r6, %r9;\n@%p1 bra L;"
        ))
    };
    let has = |texts: &[String], text: &str| texts.iter().any(|own| own.starts_with(text));
    let made = rounds("mul.wide.s32 %rd2, %r1, 4;", "add.s64 %rd5, %rd5, %rd2;");
    assert!(has(&made, "mad.wide") && !has(&made, "mul.wide"), "{made:?}");
    let made = rounds("cvt.s64.s32 %rd2, %r1;", "shl.b64 %rd3, %rd2, 3;\nadd.s64 %rd5, %rd5, %rd3;");
    assert!(has(&made, "mad.wide") && !has(&made, "cvt"), "{made:?}");
    // What it is made of has another value in the loop, or it is written there too.
    let made = rounds("mul.wide.s32 %rd2, %r6, 4;", "add.s64 %rd5, %rd5, %rd2;");
    assert!(!has(&made, "mad.wide"), "{made:?}");
    let made = rounds("mul.wide.s32 %rd2, %r1, 4;", "add.s64 %rd5, %rd5, %rd2;\nadd.s64 %rd2, %rd2, 8;");
    assert!(!has(&made, "mad.wide"), "{made:?}");
}

#[test]
fn only_what_nobody_else_reads_is_taken_in() {
    // Read again, live behind the block, or made of what has changed since.
    assert_eq!(fused("add.s32 %r4, %r1, %r2;\nadd.s32 %r5, %r4, %r3;\nadd.s32 %r5, %r5, %r4;").len(), 2);
    let later = "add.s32 %r4, %r1, %r2;\nadd.s32 %r5, %r4, %r3;\nsetp.eq.s32 %p1, %r5, 7;\n@%p1 bra L;\nmov.u32 %r5, %r4;\nL:\n";
    assert!(!fused(later).contains(&"add of three operands".to_string()));
    let changed =
        "add.s32 %r4, %r1, %r2;\nadd.s32 %r1, %r1, %r3;\nxor.b32 %r6, %r1, %r3;\nadd.s32 %r5, %r4, %r6;";
    assert!(!fused(changed).contains(&"add of three operands".to_string()), "{:?}", fused(changed));
    // A guarded instruction leaves what was there before.
    let guarded = "setp.eq.s32 %p1, %r1, 7;\n@%p1 add.s32 %r4, %r1, %r2;\nadd.s32 %r5, %r4, %r3;";
    assert_eq!(fused(guarded).len(), 3);
    let guarded = "setp.eq.s32 %p1, %r1, 7;\nmov.u64 %rd2, 64;\n@%p1 mul.wide.s32 %rd2, %r1, 4;\nadd.s64 %rd5, %rd1, %rd2;";
    assert!(!fused(guarded).contains(&"mad.wide".to_string()));
    let user =
        "setp.eq.s32 %p1, %r1, 7;\nmov.u32 %r5, 9;\nadd.s32 %r4, %r1, %r2;\n@%p1 add.s32 %r5, %r4, %r3;";
    assert_eq!(fused(user).len(), 3);
    // Chains end where an instruction has no room.
    let chain =
        "add.s32 %r4, %r1, %r2;\nadd.s32 %r6, %r4, %r3;\nadd.s32 %r7, %r6, %r1;\nadd.s32 %r5, %r7, %r2;";
    assert_eq!(fused(chain).len(), 2, "{:?}", fused(chain));
}

#[test]
fn parameters_are_operands() {
    let body = "setp.lt.u32 %p1, %r1, %r9;\nselp.u32 %r5, %r9, 0, %p1;\nmul.wide.u32 %rd2, %r1, 8;\nadd.s64 %rd5, %rd1, %rd2;";
    let loads = |passes| left(body, passes).iter().filter(|text| text.starts_with("ld.param")).count();
    assert_eq!(loads(AssemblerSpec { parameters: false, ..ALL }), 2);
    // An address is in a register, and an operation has room for one constant.
    assert_eq!(loads(ALL), 2);
    let body = "setp.lt.u32 %p1, %r1, %r9;\nselp.u32 %r5, %r9, %r2, %p1;";
    assert_eq!(
        left(body, ALL).iter().filter(|text| text.starts_with("ld.param")).count(),
        1,
        "{:?}",
        left(body, ALL)
    );
    let made = program(body, ALL);
    assert_eq!(made.parameter_rows.len(), 1);
    assert_eq!(made.parameter_rows[0].1, 8, "behind the pointer");
    assert_eq!(made.clean_up.expect("it ran").parameters, 2);
}

#[test]
fn sums_of_64_bits_have_room_for_constants_of_32() {
    let sum = |constant: &str| {
        let body = format!(
            "mov.u64 %rd2, {constant};\nmul.wide.u32 %rd3, %r1, 4;\nadd.u64 %rd5, %rd3, %rd2;\nst.global.u64 [%rd1+16], %rd3;"
        );
        fused(&body).iter().any(|text| text.starts_with("mov.u64"))
    };
    assert_eq!((sum("9"), sum("2147483647"), sum("4294967296")), (false, false, true));
}

#[test]
fn each_pass_is_off_where_the_chip_says_so() {
    let body = "shl.b32 %r4, %r1, 2;\nadd.s32 %r6, %r4, %r2;\nadd.s32 %r5, %r6, %r3;\nmov.u64 %rd5, %rd1;";
    let fused = |passes| program(body, passes).clean_up.expect("it ran").fused;
    assert_eq!(fused(AssemblerSpec { three_inputs: false, multiply_add: false, ..ALL }), 0);
    assert_eq!(fused(AssemblerSpec { three_inputs: false, ..ALL }), 1);
    assert_eq!(fused(ALL), 1, "no addition is left to take in: it is a multiplication");
    assert_eq!(fused(AssemblerSpec { multiply_add: false, ..ALL }), 1);
}
