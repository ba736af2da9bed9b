use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::StateSpace;

/// The loads of shared memory in a body, where `%a` is a multiple of 16 bytes and `%b` one of 4: offset and elements.
fn loads(body: &str) -> Vec<(i64, u8)> {
    let text = format!(
        ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .shared .align 16 .b8 room[4096];\n.reg .u32 %r<29>, %a, %b;\n.reg .u64 %l<9>, %out;\n.reg .pred %p;\n\
         ld.param.u64 %out, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, room;\nshl.b32 %r3, %r1, 6;\nadd.u32 %a, %r2, %r3;\n\
         shl.b32 %r4, %r1, 2;\nadd.u32 %b, %r2, %r4;\n{body}\n\
         st.global.v4.u32 [%out], {{%r11, %r12, %r13, %r14}};\nst.global.v2.u64 [%out], {{%l1, %l2}};\nret;\n}}\n"
    );
    let passes = AssemblerSpec { clean_up: true, wide_loads: true, ..AssemblerSpec::default() };
    let made = assembled(&text, passes);
    let shared = made.ops.iter().filter(|op| op.class == OpClass::Load).filter_map(|op| match &op.extra {
        Extra::Memory(facts) if facts.space == StateSpace::Shared => {
            assert_eq!(facts.alignment, facts.vector * facts.element_bytes);
            Some((op.imm, facts.vector))
        }
        _ => None,
    });
    shared.collect()
}

/// Loads of words into `%r11` and on, at these offsets of a base.
fn words(base: &str, offsets: &[i64]) -> String {
    let load = |(i, at): (usize, &i64)| format!("ld.shared.u32 %r{}, [{base}+{at}];\n", 11 + i);
    offsets.iter().enumerate().map(load).collect()
}

#[test]
fn neighbours_are_one_load() {
    assert_eq!(loads(&words("%a", &[0, 4, 8, 12])), [(0, 4)]);
    assert_eq!(loads(&words("%a", &[12, 0, 8, 4])), [(0, 4)], "in any order");
    assert_eq!(loads(&words("%a", &[4, 8, 12, 16])), [(4, 1), (8, 2), (16, 1)], "two that are aligned");
    assert_eq!(loads(&words("%a", &[0, 8, 16, 24])).len(), 4);
    assert_eq!(loads(&words("room", &[16, 20, 24, 28])), [(16, 4)], "an address that is known");
    let longs = "ld.shared.u64 %l1, [%a];\nld.shared.u64 %l2, [%a+8];\nmov.u64 %l3, %l1;\n";
    assert_eq!(loads(longs), [(0, 2)]);
}

#[test]
fn addresses_must_be_known_to_be_aligned() {
    assert_eq!(loads(&words("%b", &[0, 4, 8, 12])).len(), 4);
    // By a mask, a product, or by what is added in a loop.
    let either = format!(
        "mov.u32 %r6, %a;\nsetp.eq.u32 %p, %r1, 3;\n@%p add.u32 %r6, %r6, 4;\n{}",
        words("%r6", &[0, 4, 8, 12])
    );
    assert_eq!(loads(&either).len(), 4, "it is written in two places");
    let masked = format!("and.b32 %r5, %r1, -8;\nadd.u32 %r6, %r2, %r5;\n{}", words("%r6", &[0, 4, 8, 12]));
    assert_eq!(loads(&masked), [(0, 2), (8, 2)]);
    let product = format!("mad.lo.u32 %r6, %r1, 48, %r2;\n{}", words("%r6", &[0, 4, 8, 12]));
    assert_eq!(loads(&product), [(0, 4)]);
    for (step, wide) in [(32, 1), (8, 2), (4, 4)] {
        let body = format!(
            "mov.u32 %r6, %a;\nL:\n{}add.u32 %r6, %r6, {step};\nsetp.lt.u32 %p, %r6, 4000;\n@%p bra L;\n",
            words("%r6", &[0, 4, 8, 12])
        );
        assert_eq!(loads(&body).len(), wide, "{step}");
    }
}

#[test]
fn nothing_between_changes_what_is_read() {
    let parts = |between: &str| {
        let (first, second) =
            (words("%a", &[0, 4]), "ld.shared.u32 %r13, [%a+8];\nld.shared.u32 %r14, [%a+12];\n");
        loads(&format!("{first}{between}\n{second}")).len()
    };
    assert_eq!(parts("st.global.u32 [%out], %r11;\nadd.u32 %r20, %r11, %r12;"), 1);
    for between in [
        "st.shared.u32 [%b], %r11;",
        "bar.sync 0;",
        "membar.cta;",
        "atom.shared.add.u32 %r20, [%b], 1;",
        "st.u32 [%out], %r11;",
        "add.u32 %a, %a, 16;",
        // A register that is loaded later is in use.
        "add.u32 %r13, %r11, 1;\nst.global.u32 [%out+64], %r13;",
    ] {
        assert_eq!(parts(between), 2, "{between}");
    }
    assert_eq!(parts("ld.volatile.shared.u32 %r20, [%b];"), 3);
    // A base that is written between: it is another address.
    let base = format!(
        "and.b32 %r6, %r1, -16;\n{}add.u32 %r6, %r6, %r4;\nld.shared.u32 %r13, [%r6+8];",
        words("%r6", &[0, 4])
    );
    assert_eq!(loads(&base).len(), 3, "%r6 is a multiple of 4 then");
    let base = format!(
        "and.b32 %r6, %r1, -16;\n{}add.u32 %r6, %r6, %r3;\nld.shared.u32 %r13, [%r6+8];\nld.shared.u32 %r14, [%r6+12];",
        words("%r6", &[0, 4])
    );
    assert_eq!(loads(&base), [(0, 2), (8, 2)]);
    // Guarded and volatile loads stay.
    let guarded = "setp.eq.u32 %p, %r1, 3;\nmov.u32 %r11, 0;\n@%p ld.shared.u32 %r11, [%a];\nld.shared.u32 %r12, [%a+4];";
    assert_eq!(loads(guarded).len(), 2);
    assert_eq!(loads("ld.volatile.shared.u32 %r11, [%a];\nld.volatile.shared.u32 %r12, [%a+4];").len(), 2);
}
