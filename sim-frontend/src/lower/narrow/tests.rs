use std::sync::Arc;

use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;
use crate::program::{Extra, OpClass, Program};

/// The program of a body behind the number of the thread, `%r1`, and the address of results, `%rd1`.
fn made(body: &str, narrow: bool) -> Arc<Program> {
    let text = format!(
        ".version 7.8\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 q)\n{{\n\
         .reg .u16 %h<9>;\n.reg .u32 %r<19>;\n.reg .u64 %rd<19>;\n.reg .f64 %fd<2>;\n.reg .pred %p<9>;\n.shared .align 16 .b8 s[4096];\n\
         .local .align 8 .b8 l[64];\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n{body}\nst.global.u32 [%rd1], %r9;\nret;\n}}\n"
    );
    assembled(&text, AssemblerSpec { clean_up: true, narrow, ..AssemblerSpec::default() })
}

/// What of a body stands between the number of the thread and the store.
fn left(body: &str) -> Vec<String> {
    let program = made(body, true);
    let texts: Vec<String> = (0..program.ops.len() as u32).map(|pc| program.text(pc)).collect();
    texts
        .into_iter()
        .filter(|t| !t.contains("%tid") && !t.contains("st.global") && !t.contains("[p]") && t != "ret")
        .collect()
}

#[test]
fn what_is_cut_to_32_bits_is_computed_in_32_bits() {
    let sums = "cvt.s64.s32 %rd2, %r1;\nadd.s64 %rd3, %rd2, -12884901889;\nshl.b64 %rd4, %rd3, 3;\ncvt.u32.u64 %r9, %rd4;";
    assert_eq!(left(sums), ["add of low words", "shl of a low word"]);
    let registers = |narrow| made(sums, narrow).registers_per_thread;
    assert!(registers(true) < registers(false));
    let products = "mul.wide.s32 %rd2, %r1, 12;\nmad.wide.u32 %rd3, %r1, 7, %rd2;\nmul.lo.u64 %rd4, %rd3, %rd2;\ncvt.u32.u64 %r9, %rd4;";
    assert_eq!(left(products), ["mul of low words", "mad of low words", "mul of low words"]);
    // A parameter of 64 bits, of which the low word is loaded.
    let program = made("ld.param.u64 %rd2, [q];\nxor.b64 %rd3, %rd2, %rd1;\ncvt.u32.u64 %r9, %rd3;", true);
    let loaded: Vec<(i64, u8)> = program
        .ops
        .iter()
        .filter(|op| op.class == OpClass::LoadParam)
        .filter_map(|op| op.extra.access().map(|facts| (op.imm, facts.element_bytes)))
        .collect();
    assert_eq!(loaded, [(0, 8), (8, 4)]);
    // 16 bits of 64.
    let halves = "cvt.u64.u32 %rd2, %r1;\nnot.b64 %rd3, %rd2;\ncvt.u16.u64 %h1, %rd3;\ncvt.u32.u16 %r9, %h1;";
    assert_eq!(left(halves)[0], "not of a low word");
}

#[test]
fn addresses_of_shared_and_local_memory_have_32_bits() {
    let sum = |space: &str, variable: &str| {
        format!(
            "cvt.u64.u32 %rd2, %r1;\nmov.u64 %rd3, {variable};\nadd.s64 %rd4, %rd3, %rd2;\nld.{space}.u32 %r9, [%rd4+4];"
        )
    };
    for (space, variable, wide) in
        [("shared", "s", false), ("local", "l", false), ("global", "0x10000000", true)]
    {
        let program = made(&sum(space, variable), true);
        let load = program.ops.iter().find(|op| op.class == OpClass::Load).expect("a load");
        let Extra::Memory(facts) = &load.extra else { panic!("{space}") };
        assert_eq!(facts.address_64, wide, "{space}");
    }
    // What is read wide elsewhere too.
    let both = made(&format!("{}\nst.global.u64 [%rd1+8], %rd4;", sum("shared", "s")), true);
    let load = both.ops.iter().find(|op| op.class == OpClass::Load).expect("a load");
    assert!(matches!(&load.extra, Extra::Memory(facts) if !facts.address_64));
    // Through the generic address and back.
    let generic = "mul.wide.u32 %rd2, %r1, 4;\nmov.u64 %rd3, s;\ncvta.shared.u64 %rd4, %rd3;\nadd.s64 %rd5, %rd4, %rd2;\n\
                   cvta.to.shared.u64 %rd6, %rd5;\ncvt.u32.u64 %r2, %rd6;\nld.shared.u32 %r9, [%r2];";
    let texts = left(generic);
    let low =
        texts.iter().filter(|text| text.ends_with("of a low word") || text.ends_with("of low words")).count();
    assert_eq!((low, texts.len()), (4, 5), "{texts:?}");
}

#[test]
fn an_upper_word_that_is_read_keeps_all_it_is_made_of() {
    let long = |use_: &str| {
        format!("cvt.s64.s32 %rd2, %r1;\nadd.s64 %rd3, %rd2, %rd1;\ncvt.u32.u64 %r9, %rd3;\n{use_}")
    };
    let narrowed = |use_: &str| made(&long(use_), true).clean_up.expect("it ran").narrowed;
    assert_eq!(narrowed(""), 2);
    for use_ in [
        "st.global.u64 [%rd1+8], %rd3;",
        "ld.global.u32 %r9, [%rd3];",
        "shr.u64 %rd4, %rd3, 1;\ncvt.u32.u64 %r9, %rd4;",
        "setp.lt.s64 %p1, %rd3, 5;\nselp.u32 %r9, 1, 2, %p1;",
        "cvt.rn.f64.s64 %fd1, %rd3;\nst.global.f64 [%rd1+8], %fd1;",
        "mov.b64 {%r3, %r4}, %rd3;\nadd.u32 %r9, %r3, %r4;",
    ] {
        assert_eq!(narrowed(use_), 0, "{use_}");
    }
    // What is read wide elsewhere is still read in its low word, by an operation of 32 bits.
    let both = "cvt.s64.s32 %rd2, %r1;\nst.global.u64 [%rd1+8], %rd2;\nadd.s64 %rd3, %rd2, 5;\ncvt.u32.u64 %r9, %rd3;";
    assert_eq!(made(both, true).clean_up.expect("it ran").narrowed, 1);
    // A register written by what gives no low word alone.
    let loaded = "ld.global.u64 %rd2, [%rd1+8];\ncvt.u32.u64 %r9, %rd2;";
    assert_eq!(made(loaded, true).clean_up.expect("it ran").narrowed, 0);
    assert_eq!(made(&long(""), false).clean_up.expect("it ran").narrowed, 0);
}

#[test]
fn conversions_to_less_than_a_word_still_cut() {
    let forms = |cvt: &str| {
        let program =
            made(&format!("cvt.{cvt} %rd2, %r1;\nadd.s64 %rd3, %rd2, %rd1;\ncvt.u32.u64 %r9, %rd3;"), true);
        let form = program.ops.iter().map(|op| program.forms[usize::from(op.form)]);
        form.filter(|form| form.root == crate::isa::Root::Cvt)
            .map(|form| (form.dst.bits(), form.dst_reg))
            .collect::<Vec<_>>()
    };
    for (cvt, bits) in [("u8.u32", 8), ("s16.s32", 16), ("u16.s8", 16), ("s64.s16", 32), ("u64.u8", 32)] {
        assert_eq!(forms(cvt), [(bits, 32)], "{cvt}");
    }
    assert_eq!(forms("u64.u32"), []);
}

#[test]
fn divisions_by_constants_take_the_upper_word_of_a_product() {
    let division = |by: &str, more: &str| {
        left(&format!(
            "mul.wide.u32 %rd2, %r1, -1431655765;\n{more}shr.u64 %rd3, %rd2, {by};\ncvt.u32.u64 %r9, %rd3;"
        ))
    };
    assert_eq!(division("33", ""), ["mul.hi", "shr of an upper word"]);
    assert_eq!(division("32", "")[0], "mul.hi");
    let kept = ["mul.wide.u32 %rd2, %r1, -1431655765", "shr.u64 %rd3, %rd2, 31", "cvt.u32.u64 %r9, %rd3"];
    assert_eq!(division("31", ""), kept);
    // The product is read elsewhere, or a factor has another value by then.
    assert_eq!(division("33", "st.global.u64 [%rd1+8], %rd2;\n").len(), 3);
    assert_eq!(division("33", "add.u32 %r1, %r1, 1;\nst.global.u32 [%rd1+4], %r1;\n").len(), 4);
}
