use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;

/// The instructions of a body behind a comparison, whose predicate is `%p1`, as they are left.
fn left(body: &str) -> Vec<String> {
    let text = format!(
        ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .u32 %r<9>;\n.reg .u64 %rd<3>;\n.reg .pred %p<9>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n\
         setp.eq.u32 %p1, %r1, 3;\n{body}\nst.global.u32 [%rd1], %r1;\nE:\nret;\n}}\n"
    );
    let program = assembled(&text, AssemblerSpec { clean_up: true, ..AssemblerSpec::default() });
    (3..program.ops.len() as u32).map(|pc| program.text(pc)).collect()
}

#[test]
fn guards_name_the_predicate_that_was_selected_by() {
    for body in [
        "selp.u32 %r2, 1, 0, %p1;\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra E;",
        "selp.b32 %r2, 7, 5, %p1;\nsetp.ne.u32 %p2, %r2, 5;\n@!%p2 bra E;",
        "selp.u32 %r2, 1, 0, %p1;\nsetp.ne.s32 %p2, %r2, 0;\n@%p2 st.global.u32 [%rd1+4], %r1;",
    ] {
        let texts = left(body);
        assert!(
            !texts.iter().any(|text| text.contains("selp") || text.contains("setp")),
            "{body}: {texts:?}"
        );
    }
}

#[test]
fn other_tests_stay() {
    for body in [
        // The same for both, neither, or another relation.
        "selp.u32 %r2, 3, 3, %p1;\nsetp.eq.s32 %p2, %r2, 3;\n@%p2 bra E;",
        "selp.u32 %r2, 1, 0, %p1;\nsetp.eq.s32 %p2, %r2, 2;\n@%p2 bra E;",
        "selp.u32 %r2, 1, 0, %p1;\nsetp.lt.s32 %p2, %r2, 1;\n@%p2 bra E;",
        // Written since.
        "selp.u32 %r2, 1, 0, %p1;\nsetp.ne.u32 %p1, %r1, 9;\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 st.global.u32 [%rd1+4], %r1;\n@%p1 bra E;",
        "selp.u32 %r2, 1, 0, %p1;\n@%p1 add.u32 %r2, %r2, 1;\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra E;",
        "selp.u32 %r2, 1, 0, %p1;\nsetp.eq.or.s32 %p2, %r2, 0, %p1;\n@%p2 bra E;",
    ] {
        let texts = left(body);
        assert!(texts.iter().any(|text| text.contains("selp")), "{body}: {texts:?}");
    }
}
