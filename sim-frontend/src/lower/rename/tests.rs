use std::collections::BTreeMap;

use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;
use crate::program::OpClass;

/// Places in the order of the schedule: of loads, and of the instructions that use what they load.
fn order(body: &str) -> Vec<OpClass> {
    let text = format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<9>;\n.reg .b64 %a;\n\
         .reg .pred %p;\nld.param.u64 %a, [p];\nmov.u32 %r2, %tid.x;\nsetp.eq.u32 %p, %r2, 5;\n{body}st.global.u32 [%a+64], %r2;\nret;\n}}\n"
    );
    let made = assembled(&text, AssemblerSpec { predicate: 0, ..AssemblerSpec::ALL });
    made.ops.iter().map(|op| op.class).collect()
}

/// Loads into one register pass each other's uses, as each has its own: not where a guard may keep what there was.
#[test]
fn a_register_that_is_written_again_is_another() {
    let twice = |guard: &str| {
        order(&format!(
            "ld.global.u32 %r1, [%a];\nadd.u32 %r2, %r2, %r1;\n{guard}ld.global.u32 %r1, [%a+4];\nadd.u32 %r2, %r2, %r1;\n"
        ))
    };
    let between = |classes: &[OpClass]| {
        let loads: Vec<usize> = (0..classes.len()).filter(|i| classes[*i] == OpClass::Load).collect();
        let mut kinds: BTreeMap<bool, usize> = BTreeMap::new();
        classes[loads[0]..loads[1]].iter().for_each(|c| *kinds.entry(*c == OpClass::Data).or_default() += 1);
        kinds.get(&true).copied().unwrap_or(0)
    };
    assert_eq!(between(&twice("")), 0);
    assert!(between(&twice("@%p ")) > 0);
}
