//! Asynchronous copies: NVIDIA's assembler begins those of a basic block with loads that have no effect (`@!PT LDS RZ, [RZ]`).

use super::ir::Func;
use crate::program::Extra;

/// Puts so many loads in front of the first asynchronous copy of each basic block: ptxas 12.9 writes three for sm_80 to sm_120.
pub fn begin_copies(func: &mut Func, loads: u32) {
    for block in &mut func.blocks {
        let mut copies = block.insts.iter_mut().filter_map(|inst| match &mut inst.extra {
            Extra::Copy(copy) => Some(copy),
            _ => None,
        });
        if let Some(first) = copies.next() {
            first.loads_before = u8::try_from(loads).unwrap_or(u8::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::AssemblerSpec;
    use crate::lower::assembled::assembled;

    #[test]
    fn loads_without_effect_stand_in_front_of_the_first_copy_of_a_block() {
        let copy = "cp.async.ca.shared.global [%r1], [%rd1], 4;\n";
        let text = format!(
            ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .u32 %r<3>;\n.reg .u64 %rd<3>;\n\
             .reg .pred %p;\n.shared .align 16 .b8 s[64];\nld.param.u64 %rd1, [p];\nmov.u32 %r1, s;\nmov.u32 %r2, %tid.x;\n{copy}{copy}\
             setp.eq.u32 %p, %r2, 0;\n@%p bra L;\n{copy}bar.sync 0;\nL:\nret;\n}}\n"
        );
        let of = |loads_before_copies| -> Vec<u32> {
            let passes = AssemblerSpec { clean_up: true, loads_before_copies, ..AssemblerSpec::default() };
            let program = assembled(&text, passes);
            let copies = program.ops.iter().filter(|op| matches!(op.extra, Extra::Copy(_)));
            copies.map(|op| op.extra.more_operations()).collect()
        };
        assert_eq!(of(3), [3, 0, 3]);
        assert_eq!(of(0), [0, 0, 0]);
    }
}
