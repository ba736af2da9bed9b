use crate::chip::{AssemblerSpec, CombineAtomics};
use crate::lower::assembled::assembled;
use crate::program::{Combined, Extra, OpClass};

/// How the atomics of a body are combined. `%rd1` is an address of global memory that is the same for all threads, `%rd2` one
/// of each thread; `%r1` is the thread's number, `%r2` a parameter.
fn atomics(way: CombineAtomics, body: &str) -> Vec<Option<Combined>> {
    let text = format!(
        ".version 6.0\n.target sm_60\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 q)\n{{\n\
         .shared .align 16 .b8 room[64];\n.reg .b32 %r<9>;\n.reg .f32 %f<3>;\n.reg .b64 %rd<9>;\n.reg .pred %p;\n\
         ld.param.u64 %rd1, [p];\nld.param.u32 %r2, [q];\nmov.u32 %r1, %tid.x;\nmov.u32 %r7, %ctaid.x;\n\
         mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd1, %rd2;\nmul.wide.u32 %rd8, %r7, 4;\nadd.u64 %rd3, %rd1, %rd8;\n\
         cvt.u64.u32 %rd5, %r1;\n{body}\nret;\n}}\n"
    );
    let passes = AssemblerSpec { clean_up: true, combine_atomics: way, ..AssemblerSpec::default() };
    let made = assembled(&text, passes);
    let atomics = made.ops.iter().filter(|op| op.class == OpClass::Atomic).map(|op| match &op.extra {
        Extra::Memory(facts) => facts.combined,
        other => panic!("{other:?}"),
    });
    atomics.collect()
}

const REDUX: CombineAtomics = CombineAtomics::Redux;
const SHUFFLES: CombineAtomics = CombineAtomics::Shuffles;

fn any(operations: u8) -> Option<Combined> {
    Some(Combined { whole: false, operations })
}

fn whole(operations: u8) -> Option<Combined> {
    Some(Combined { whole: true, operations })
}

/// What uses the old value.
const USED: &str = "st.global.u32 [%rd2], %r3;";

#[test]
fn kinds_that_ptxas_combines() {
    for (body, with_redux, with_shuffles) in [
        ("red.global.add.u32 [%rd1], 1;".into(), any(4), any(4)),
        ("red.global.add.u32 [%rd3], %r2;".into(), any(4), any(4)),
        ("red.shared.add.u32 [room], 1;".into(), any(0), any(4)),
        ("red.shared.add.u32 [room], %r2;".into(), any(4), any(4)),
        ("red.global.add.u32 [%rd1], %r1;".into(), any(6), whole(14)),
        ("red.global.add.u64 [%rd1], 1;".into(), any(10), any(10)),
        ("red.global.add.u64 [%rd1], %rd5;".into(), None, None),
        ("red.global.min.u32 [%rd1], %r1;".into(), any(6), whole(14)),
        ("red.global.max.s32 [%rd1], %r2;".into(), any(6), whole(5)),
        ("red.global.xor.b32 [%rd1], %r2;".into(), any(6), whole(14)),
        ("red.global.min.u64 [%rd1], 1;".into(), None, None),
        ("red.global.inc.u32 [%rd1], 1;".into(), None, None),
        ("red.global.add.f32 [%rd1], %f1;".into(), None, None),
        ("atom.global.min.u32 %r3, [%rd1], %r1;".into(), any(6), whole(14)),
        (format!("atom.global.add.u32 %r3, [%rd1], 1; {USED}"), any(9), any(9)),
        (format!("atom.global.add.u32 %r3, [%rd1], %r1; {USED}"), whole(23), whole(23)),
        (format!("atom.global.min.u32 %r3, [%rd1], %r1; {USED}"), None, None),
        (format!("atom.global.exch.b32 %r3, [%rd1], 1; {USED}"), None, None),
        (format!("atom.global.cas.b32 %r3, [%rd1], 1, 2; {USED}"), None, None),
        ("atom.global.add.u64 %rd4, [%rd1], 1; st.global.u64 [%rd2], %rd4;".into(), any(18), any(18)),
        ("red.add.u32 [%rd1], 1;".into(), None, None),
    ] {
        assert_eq!(atomics(REDUX, &body), [with_redux], "{body}");
        assert_eq!(atomics(SHUFFLES, &body), [with_shuffles], "{body}");
        assert_eq!(atomics(CombineAtomics::None, &body), [None], "{body}");
    }
}

#[test]
fn addresses_must_be_the_same_for_all_threads() {
    assert_eq!(atomics(REDUX, "red.global.add.u32 [%rd2], 1;"), [None]);
    let loaded = "ld.global.u64 %rd6, [%rd1]; red.global.add.u32 [%rd6], 1;";
    assert_eq!(atomics(REDUX, loaded), [None]);
    let either = "mov.u64 %rd6, %rd1; setp.eq.u32 %p, %r1, 0; @%p add.u64 %rd6, %rd6, 4; red.global.add.u32 [%rd6], 1;";
    assert_eq!(atomics(REDUX, either), [None]);
    // A guard is no matter of the address.
    assert_eq!(atomics(REDUX, "setp.eq.u32 %p, %r1, 0; @%p red.global.add.u32 [%rd1], 1;"), [any(4)]);
}
