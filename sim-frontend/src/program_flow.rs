//! Where control can go in a program with untransformed control flow, as its text says.

use std::ops::Range;

use crate::program::{OpClass, Pc, Pred, Program};

/// True if `pc` is the last instruction of its basic block whatever follows.
pub fn ends_block(program: &Program, pc: Pc) -> bool {
    use OpClass as C;
    matches!(
        program.ops[pc as usize].class,
        C::Branch | C::BranchIndirect | C::Return | C::Exit | C::Trap | C::Sync | C::Break
    )
}

/// Where control goes from `pc` within its function, calls stepped over, each address once; and
/// whether it may leave the function.
pub fn successors(program: &Program, pc: Pc, function: &Range<Pc>) -> (Vec<Pc>, bool) {
    use OpClass as C;
    let op = &program.ops[pc as usize];
    let mut to: Vec<Pc> = Vec::new();
    let mut leaves = false;
    match op.class {
        C::Branch => to.push(op.target),
        C::BranchIndirect => match program.tables.get(op.imm as usize).filter(|_| op.imm >= 0) {
            Some(table) => to.extend(table),
            // Any address of the function.
            None => {
                to.extend(function.clone());
                leaves = true;
            }
        },
        C::Return | C::Exit | C::Trap => leaves = true,
        // A token of the thread's own: it goes on at any address that one was pushed for.
        C::Sync | C::Break => {
            let pushes = |op: &&crate::program::Op| matches!(op.class, C::Ssy | C::PreBreak | C::PreReturn);
            let ops = &program.ops[function.start as usize..function.end as usize];
            to.extend(ops.iter().filter(pushes).map(|op| op.target));
            leaves = true;
        }
        _ => {}
    }
    if op.guard != Pred::TRUE || !ends_block(program, pc) {
        to.push(pc + 1);
    }
    leaves |= to.iter().any(|target| !function.contains(target));
    to.retain(|target| function.contains(target));
    to.sort_unstable();
    to.dedup();
    (to, leaves)
}
