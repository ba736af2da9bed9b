use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;
use crate::program::{OpClass, Row};

/// What becomes of a body, in its order.
fn balanced(body: &str) -> Vec<String> {
    let text = format!(
        ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .u32 %r<19>;\n.reg .u64 %rd<9>;\n.reg .f32 %f<9>;\n.reg .pred %p<9>;\n\
         ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nsetp.eq.u32 %p1, %r1, %r2;\n@%p1 bra B;\n\
         B:\n{body}\nE:\nst.global.u32 [%rd1], %r9;\nret;\n}}\n"
    );
    let passes = AssemblerSpec { clean_up: true, balance: true, ..AssemblerSpec::default() };
    let program = assembled(&text, passes);
    let texts: Vec<String> = (0..program.ops.len() as u32).map(|pc| program.text(pc)).collect();
    let from = texts.iter().position(|text| text.contains("bra")).expect("a branch");
    let to = texts.iter().position(|text| text.starts_with("st.global")).expect("a store");
    texts[from + 1..to].iter().filter(|text| !text.contains("bra")).cloned().collect()
}

#[test]
fn shifts_by_constants_are_products() {
    assert_eq!(balanced("shl.b32 %r9, %r1, 5;"), ["shl as mul.lo"]);
    for kept in ["shl.b32 %r9, %r1, %r2;", "shr.u32 %r9, %r1, 5;", "shl.b32 %r9, %r1, 32;"] {
        assert_eq!(balanced(kept), [kept.trim_end_matches(';')]);
    }
}

#[test]
fn sums_go_to_who_has_less_to_do() {
    let logic = "and.b32 %r3, %r1, %r2;\nxor.b32 %r4, %r3, %r2;\nor.b32 %r5, %r4, %r1;\n";
    let made = |more: &str| balanced(&format!("{logic}{more}\nxor.b32 %r9, %r6, %r5;"))[3..].to_vec();
    assert_eq!(made("add.s32 %r6, %r1, %r2;")[0], "add as mad.lo");
    assert_eq!(made("sub.s32 %r6, %r1, %r2;")[0], "sub as mad.lo");
    // Four operations of the integer lanes and a sum go with three of the multipliers.
    let products = "mul.lo.u32 %r7, %r1, %r2;\nmul.lo.u32 %r7, %r7, %r2;\nmul.lo.u32 %r7, %r7, %r2;\nmul.lo.u32 %r7, %r7, %r2;\n";
    let both = made(&format!("{products}add.s32 %r6, %r7, %r2;"));
    assert_eq!(both[4], "add.s32 %r6, %r7, %r2");
    // One of two sums is enough.
    let two = balanced("add.s32 %r6, %r1, %r2;\nadd.s32 %r9, %r6, %r2;");
    assert_eq!(two, ["add as mad.lo", "add.s32 %r9, %r6, %r2"]);
    // A constant, or a carry, has no room.
    for kept in ["add.s32 %r6, %r1, 7;", "add.cc.u32 %r6, %r1, %r2;", "add.sat.s32 %r6, %r1, %r2;"] {
        assert_eq!(made(kept)[0], kept.trim_end_matches(';'), "{kept}");
    }
}

#[test]
fn what_is_taken_away_has_the_factor_minus_one() {
    for (sum, factor) in [("add.s32 %r9, %r1, %r2", 1), ("sub.s32 %r9, %r1, %r2", u32::MAX)] {
        let text = format!(
            ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
             .reg .u32 %r<19>;\n.reg .u64 %rd<9>;\nld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\nld.global.u32 %r2, [%rd1+4];\n\
             and.b32 %r3, %r1, %r2;\nxor.b32 %r4, %r3, %r2;\n{sum};\nst.global.u32 [%rd1], %r9;\nst.global.u32 [%rd1+4], %r4;\nret;\n}}\n"
        );
        let passes = AssemblerSpec { clean_up: true, balance: true, ..AssemblerSpec::default() };
        let program = assembled(&text, passes);
        let at = (0..program.ops.len() as u32)
            .find(|pc| program.text(*pc).ends_with("as mad.lo"))
            .expect("a product");
        let [a, by, c] = [0, 1, 2].map(|slot| program.ops[at as usize].src[slot]);
        assert_eq!(program.consts[usize::from(by.0 - Row::CONST)][0], factor, "{sum}");
        // The loads write the operands in the order of the text.
        let loaded: Vec<Row> =
            program.ops.iter().filter(|op| op.class == OpClass::Load).map(|op| op.dst[0]).collect();
        let [first, second] = [loaded[0], loaded[1]];
        let wanted = if factor == 1 { (first, second) } else { (second, first) };
        assert_eq!((a, c), wanted, "{sum}");
    }
}
