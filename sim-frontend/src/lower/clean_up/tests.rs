use super::CleanUp;
use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;

fn text(body: &str) -> String {
    format!(
        ".version 6.0\n.target sm_30\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .u32 %r<9>;\n.reg .u64 %rd<9>;\n.reg .f32 %f<4>;\n.reg .pred %p<3>;\n\
         ld.param.u64 %rd1, [p];\n{body}\nret;\n}}\n"
    )
}

/// The instructions that are left of a body, as they are written, and what was done.
fn cleaned(body: &str) -> (Vec<String>, CleanUp) {
    let program = |clean_up| assembled(&text(body), AssemblerSpec { clean_up, ..AssemblerSpec::default() });
    let plain = program(false);
    assert_eq!(plain.clean_up, None);
    let program = program(true);
    let done = program.clean_up.expect("it ran");
    assert_eq!((done.before as usize, done.after as usize), (plain.ops.len(), program.ops.len()));
    let texts = (0..program.ops.len() as u32).map(|pc| program.text(pc)).collect();
    (texts, done)
}

/// Of [`cleaned`], without the parameter and the end.
fn left(body: &str) -> Vec<String> {
    let (texts, _) = cleaned(body);
    texts[1..texts.len() - 1].to_vec()
}

#[test]
fn copies_and_dead_code_go() {
    let (texts, done) = cleaned(
        "cvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %r1;\nadd.u32 %r3, %r2, 7;\n\
         mul.lo.u32 %r4, %r2, %r2;\nst.global.u32 [%rd2], %r4;",
    );
    let wanted = [
        "ld.param.u64 %rd1, [p]",
        "mov.u32 %r1, %tid.x",
        "mul.lo.u32 %r4, %r2, %r2",
        "st.global.u32 [%rd2], %r4",
        "ret",
    ];
    assert_eq!(texts, wanted);
    assert_eq!(done, CleanUp { before: 8, after: 5, copies: 4, ..CleanUp::default() });
}

#[test]
fn conversions_of_global_addresses_onto_themselves_go() {
    for cvta in ["cvta.to.global.u64", "cvta.global.u64"] {
        let texts =
            left(&format!("{cvta} %rd1, %rd1;\nld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1+4], %r1;"));
        assert_eq!(texts, ["ld.global.u32 %r1, [%rd1]", "st.global.u32 [%rd1+4], %r1"], "{cvta}");
    }
}

#[test]
fn addresses_take_in_additions() {
    let (texts, done) = cleaned(
        "add.s64 %rd2, %rd1, 16;\nadd.s64 %rd3, %rd2, -4;\nld.global.u32 %r1, [%rd3+8];\nst.global.u32 [%rd2+4], %r1;",
    );
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert_eq!(done.addresses, 3, "through two additions: {texts:?}");
    // An offset that machine code has no room for stays an addition.
    let (texts, done) = cleaned("add.s64 %rd2, %rd1, 16777216;\nst.global.u32 [%rd2], 1;");
    assert_eq!((texts.len(), done.addresses), (4, 0));
}

#[test]
fn a_copy_ends_where_either_side_is_written() {
    // %r2 is the old value of %r1.
    let body = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %r1;\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%rd1], %r2;\nst.global.u32 [%rd1+4], %r1;";
    assert_eq!(left(body).len(), 5);
    // A guarded write ends it too.
    let body = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %r1;\nsetp.eq.u32 %p1, %r1, 3;\n@%p1 add.u32 %r1, %r1, 1;\nst.global.u32 [%rd1], %r2;\nst.global.u32 [%rd1+4], %r1;";
    assert_eq!(left(body).len(), 6);
    // A guarded copy is none.
    let body = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, 5;\nsetp.eq.u32 %p1, %r1, 3;\n@%p1 mov.u32 %r2, %r1;\nst.global.u32 [%rd1], %r2;";
    assert_eq!(left(body).len(), 5);
}

#[test]
fn a_copy_must_hold_on_every_way() {
    // Only one side of the branch copies.
    let body = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %r2;\nsetp.eq.u32 %p1, %r1, 3;\n@%p1 bra L;\n\
                mov.u32 %r3, %r1;\nL:\nst.global.u32 [%rd1], %r3;";
    assert_eq!(left(body).len(), 7);
    // Both do, of the same.
    let body = "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 3;\n@%p1 bra L;\nmov.u32 %r3, %r1;\nbra M;\nL:\nmov.u32 %r3, %r1;\nM:\n\
                st.global.u32 [%rd1], %r3;";
    let texts = left(body);
    assert!(
        texts.iter().filter(|text| text.starts_with("mov")).count() == 3,
        "two facts, not one: {texts:?}"
    );
    // Around a loop in which the source changes.
    let body = "mov.u32 %r1, 0;\nmov.u32 %r4, %tid.x;\nL:\nmov.u32 %r2, %r1;\nadd.u32 %r1, %r1, %r4;\nsetp.lt.u32 %p1, %r1, 100;\n@%p1 bra L;\n\
                st.global.u32 [%rd1], %r2;";
    assert_eq!(left(body).len(), 7);
}

/// A register written over and over costs no more than the text is long, and stays right.
#[test]
fn long_texts_of_copies_end_in_time() {
    let copies = "mov.u32 %r2, %r1;\nadd.u32 %r1, %r2, 1;\n".repeat(20_000);
    let body = format!("mov.u32 %r1, %tid.x;\n{copies}st.global.u32 [%rd1], %r1;");
    let (texts, done) = cleaned(&body);
    assert_eq!((texts.len(), done.copies), (20_004, 20_000));
    let copies = "mov.u32 %r2, %r1;\nadd.u32 %r1, %r2, 1;\n".repeat(100);
    let body = format!("mov.u32 %r1, %tid.x;\n{copies}st.global.u32 [%rd1], %r1;");
    let (texts, done) = cleaned(&body);
    assert_eq!((texts.len(), done.copies), (104, 100));
}

#[test]
fn moves_of_predicates_stay() {
    let body = "mov.u32 %r1, %tid.x;\nmov.pred %p1, -1;\nL:\n@!%p1 bra M;\nsetp.gt.u32 %p2, %r1, 4;\nmov.pred %p1, %p2;\nadd.u32 %r1, %r1, 1;\n\
                bra L;\nM:\nst.global.u32 [%rd1], %r1;";
    assert_eq!(left(body).iter().filter(|text| text.starts_with("mov.pred")).count(), 2);
}

#[test]
fn what_can_be_seen_stays() {
    // A load that nobody reads may fault; the clock is read where it stands.
    let body = "ld.global.u32 %r1, [%rd1];\nmov.u32 %r2, %clock;\nmov.u32 %r3, 5;";
    assert_eq!(left(body), ["ld.global.u32 %r1, [%rd1]", "the clock is read"]);
}

#[test]
fn constants_go_where_an_instruction_has_room() {
    let body = "mov.u32 %r1, 9;\nmov.u64 %rd2, 9;\nmov.u32 %r2, %tid.x;\nadd.u32 %r3, %r2, %r1;\nmul.wide.u32 %rd3, %r3, 4;\n\
                add.u64 %rd4, %rd3, %rd2;\nst.global.u64 [%rd1], %rd4;";
    let texts = left(body);
    assert!(!texts.contains(&"mov.u32 %r1, 9".to_string()), "{texts:?}");
    assert!(texts.contains(&"mov.u64 %rd2, 9".to_string()), "64 bits: {texts:?}");
}

#[test]
fn shuffles_have_room_for_constants_and_stores_for_zero() {
    let moved = |body: &str| left(body).iter().filter(|text| text.starts_with("mov")).count();
    let shuffle = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, 16;\nmov.u32 %r3, 31;\nmov.u32 %r4, -1;\n\
                   shfl.sync.down.b32 %r5, %r1, %r2, %r3, %r4;\nst.global.u32 [%rd1], %r5;";
    assert_eq!(moved(shuffle), 1);
    assert_eq!(moved("mov.u32 %r1, 0;\nst.global.u32 [%rd1], %r1;"), 0);
    assert_eq!(moved("mov.u32 %r1, 7;\nst.global.u32 [%rd1], %r1;"), 1);
}
