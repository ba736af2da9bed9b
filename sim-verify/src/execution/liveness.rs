//! Which registers of a thread are live where: their values may still be read, or are final values.

use std::collections::BTreeSet;

use crate::litmus::program::{Address, AtomicOp, Instruction, Kind, Operand};

/// The live registers before each instruction, and at the end.
pub fn live(code: &[Instruction], registers: usize) -> Vec<BTreeSet<usize>> {
    let mut live = vec![BTreeSet::new(); code.len() + 1];
    live[code.len()] = (0..registers).collect();
    loop {
        let before = live.clone();
        for (pc, instruction) in code.iter().enumerate().rev() {
            let mut after = match instruction.kind {
                Kind::Goto(target) => live[target].clone(),
                Kind::Branch { target, .. } => live[target].union(&live[pc + 1]).copied().collect(),
                _ => live[pc + 1].clone(),
            };
            if let Some(register) = written(&instruction.kind) {
                after.remove(&register);
            }
            read(&instruction.kind, &mut |register| _ = after.insert(register));
            live[pc] = after;
        }
        if live == before {
            return live;
        }
    }
}

fn written(kind: &Kind) -> Option<usize> {
    match kind {
        Kind::Load { register, .. } | Kind::Compute { register, .. } => Some(*register),
        Kind::Atomic { register, .. } => *register,
        _ => None,
    }
}

fn read(kind: &Kind, each: &mut dyn FnMut(usize)) {
    if let Kind::Load { access, .. } | Kind::Store { access, .. } | Kind::Atomic { access, .. } = kind
        && let Address::Register(register) = access.address
    {
        each(register);
    }
    let mut operand = |operand: Operand| {
        if let Operand::Register(register) = operand {
            each(register);
        }
    };
    match *kind {
        Kind::Store { value, .. } => operand(value),
        Kind::Atomic { op: AtomicOp::Apply(_, value), .. } => operand(value),
        Kind::Atomic { op: AtomicOp::Cas(expected, new), .. } => {
            operand(expected);
            operand(new);
        }
        Kind::Barrier { id, quorum, .. } => {
            operand(id);
            quorum.into_iter().for_each(operand);
        }
        Kind::Compute { a, b, .. } | Kind::Branch { a, b, .. } => {
            operand(a);
            operand(b);
        }
        _ => {}
    }
}
