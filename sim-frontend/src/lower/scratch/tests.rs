use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::chip::AssemblerSpec;
use crate::lower::assembled::{assembled, for_each_live, translated};

/// A kernel that keeps `kept` words beside an operation on two values, of which the registers of a thread are counted.
fn registers(operation: &str, kept: u32, passes: AssemblerSpec) -> u32 {
    let each = |one: &dyn Fn(u32) -> String| (0..kept).map(one).collect::<String>();
    let (ty, _) = operation.rsplit_once('.').map_or(("u32", ""), |(before, ty)| (ty, before));
    let (bits, values) =
        (&ty[1..], if ty.starts_with('f') { ty.to_string() } else { format!("b{}", &ty[1..]) });
    let text = format!(
        ".version 7.8\n.target sm_50\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b64 %a;\n\
         .reg .{values} %x, %y, %d;\n.reg .b32 %k<40>;\nld.param.u64 %a, [p];\n{}ld.volatile.global.b{bits} %x, [%a];\n\
         ld.volatile.global.b{bits} %y, [%a+8];\n{operation} %d, %x, %y;\nst.volatile.global.b{bits} [%a+16], %d;\n{}ret;\n}}\n",
        each(&|i| format!("ld.volatile.global.b32 %k{i}, [%a+{}];\n", 64 + 4 * i)),
        each(&|i| format!("st.volatile.global.b32 [%a+{}], %k{i};\n", 512 + 4 * i)),
    );
    assembled(&text, passes).registers_per_thread
}

/// What a division takes more than an addition of the same type.
#[test]
fn programs_hold_values_of_their_own() {
    let of_parts = AssemblerSpec { register_banks: false, ..AssemblerSpec::ALL };
    for (operation, sum, words) in [
        ("div.rn.f32", "add.f32", 8),
        ("div.approx.f32", "add.f32", 1),
        ("div.u32", "add.u32", 5),
        ("rem.s32", "add.u32", 7),
        ("div.u64", "add.u64", 13),
        ("mul.lo.u32", "add.u32", 1),
        ("mul.hi.s32", "add.u32", 3),
        ("mul.lo.u64", "add.u64", 8),
    ] {
        for kept in [0, 4] {
            let [own, without] = [operation, sum].map(|operation| registers(operation, kept, of_parts));
            assert_eq!(own - without, words, "{operation} beside {kept}");
        }
    }
    // Nothing is counted where the program runs as it is written.
    let as_written = AssemblerSpec::default();
    assert_eq!(registers("div.rn.f32", 0, as_written), registers("add.f32", 0, as_written));
    // Where words are multiplied, fewer.
    let of_words = |operation| registers(operation, 0, AssemblerSpec::ALL);
    assert_eq!(of_words("mul.lo.u32"), of_words("add.u32"));
    assert!(of_words("div.rn.f32") > of_words("div.u32") && of_words("div.u32") > of_words("add.u32"));
}

/// An instruction on eight registers, some of them divisions, under a guard or not, or a branch.
fn line() -> impl Strategy<Value = String> {
    let register = || 0u32..8;
    (0u32..8, register(), register(), register(), any::<bool>()).prop_map(|(kind, d, a, b, guarded)| {
        let guard = if guarded { "@%p " } else { "" };
        match kind {
            0 => format!("{guard}div.u32 %r{d}, %r{a}, %r{b};\n"),
            1 => format!("{guard}mul.hi.u32 %r{d}, %r{a}, %r{b};\n"),
            2 => format!("{guard}div.u64 %l{}, %l{}, %l{};\n", d % 3, a % 3, b % 3),
            3 => format!("cvt.u64.u32 %l{}, %r{a};\n", d % 3),
            4 => format!("@%p bra L{};\n", d % 4),
            _ => format!("{guard}add.u32 %r{d}, %r{a}, %r{b};\n"),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Words that are live at the programs of instructions, from sets of registers made anew for each.
    #[test]
    fn the_most_words_are_those_of_some_instruction(parts in proptest::collection::vec(proptest::collection::vec(line(), 0..8), 4)) {
        let body: String = parts.iter().enumerate().map(|(i, lines)| format!("L{i}:\n{}", lines.concat())).collect();
        let text = format!(
            ".version 7.8\n.target sm_50\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<8>;\n.reg .b64 %l<3>;\n\
             .reg .pred %p;\n.reg .b64 %a;\nld.param.u64 %a, [p];\nsetp.eq.u32 %p, %r0, 1;\n{body}st.global.u32 [%a], %r1;\nst.global.u64 [%a+8], %l1;\nret;\n}}\n"
        );
        for func in translated(&text) {
            let words = |set: &BTreeSet<Reg>| set.iter().map(|reg| func.words(*reg)).sum::<u32>();
            let mut most = 0;
            for_each_live(&func, |inst, behind, before| {
                let own = scratch_words(inst, Products::Parts);
                if own > 0 {
                    most = most.max(own + words(behind).max(words(before)));
                }
            });
            prop_assert_eq!(most_words(&func, Products::Parts), most);
        }
    }
}
