//! Blocks that follow one another on every path are one.

use super::ir::{Func, Terminator};
use super::work::count;

/// Joins blocks with the only one that leads to them, where that falls through or, with `jumps`, where it jumps there; returns how
/// many jumps went.
pub fn straighten(func: &mut Func, jumps: bool) -> u32 {
    let blocks = func.blocks.len();
    let ways_in = func.ways_in();
    let mut gone = vec![false; blocks];
    let mut removed = 0;
    for b in 0..blocks {
        // The next block of the text that is left.
        let mut next = b + 1;
        while !gone[b]
            && let Terminator::Jump(jump, to) = &func.blocks[b].end
            && let (jump, to) = (jump.is_some(), *to)
            && (jumps || !jump)
            && to != b
            && ways_in[to] == 1
        {
            count(1);
            while gone.get(next).is_some_and(|gone| *gone) {
                count(1);
                next += 1;
            }
            if falls_through(&func.blocks[to].end) && to != next {
                break;
            }
            func.blocks[b].end = std::mem::replace(&mut func.blocks[to].end, Terminator::Jump(None, to));
            let mut insts = std::mem::take(&mut func.blocks[to].insts);
            func.blocks[b].insts.append(&mut insts);
            func.blocks[b].kept |= func.blocks[to].kept;
            removed += u32::from(jump);
            gone[to] = true;
        }
    }
    func.remove_blocks(&gone);
    removed
}

/// A block with such an end goes on at the next one of the text.
fn falls_through(end: &Terminator) -> bool {
    matches!(end, Terminator::Jump(None, _) | Terminator::Branch(..))
}

#[cfg(test)]
mod tests {
    use crate::chip::AssemblerSpec;
    use crate::lower::assembled::assembled;
    use crate::program::OpClass;

    /// How many branches a body has, as it is written and cleaned up.
    fn branches(body: &str) -> [usize; 2] {
        let text = format!(
            ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
             .reg .u32 %r<9>;\n.reg .u64 %rd<9>;\n.reg .pred %p<9>;\n\
             ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 3;\n{body}\n\
             st.global.u32 [%rd1], %r1;\nret;\n}}\n"
        );
        [false, true].map(|clean_up| {
            let program = assembled(&text, AssemblerSpec { clean_up, ..AssemblerSpec::default() });
            program.ops.iter().filter(|op| op.class == OpClass::Branch).count()
        })
    }

    #[test]
    fn jumps_to_what_nothing_else_leads_to_go() {
        assert_eq!(branches("bra.uni A;\nA:\nadd.u32 %r1, %r1, 1;\nbra B;\nB:"), [2, 0]);
        // What lies elsewhere in the text comes behind.
        assert_eq!(
            branches("bra A;\nB: add.u32 %r1, %r1, 2;\nbra C;\nA: add.u32 %r1, %r1, 1;\nbra B;\nC:"),
            [3, 0]
        );
        // But not where it goes on with what stands behind it there.
        assert_eq!(
            branches("bra A;\nC: add.u32 %r1, %r1, 2;\nbra D;\nA: add.u32 %r1, %r1, 1;\nB: @%p1 bra C;\nD:"),
            [3, 3]
        );
        // Two ways lead to where arms meet, and to the head of a loop.
        assert_eq!(
            branches("@%p1 bra A;\nadd.u32 %r1, %r1, 1;\nbra B;\nA: add.u32 %r1, %r1, 2;\nB:"),
            [2, 2]
        );
        assert_eq!(branches("A: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra A;"), [1, 1]);
        assert_eq!(
            branches("bra A;\nA: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra A;"),
            [2, 2]
        );
        // Endless, and never left.
        assert_eq!(branches("@%p1 bra B;\nA: bra A;\nB:"), [2, 2]);
    }
}
