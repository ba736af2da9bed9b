//! Branches that may divide a warp: a divergence analysis (Karrenberg and Hack, Improving Performance of OpenCL on CPUs, CC 2012).
//! Unlike [`uniform_branches`](super::uniform::uniform_branches), which control flow rests on, it knows registers that are written
//! more than once, as those that count loops. What a register holds where the ways of a branch meet differs between the threads of a
//! warp if one of the ways writes it and they do not all go the same.

use super::cfg::Graph;
use super::ir::{Func, Inst, Operand, PredOperand, Reg, Terminator};
use super::liveness::{Lists, Live, RegSet};
use super::work::count;
use crate::program::OpClass;

/// Instructions that are looked at for each instruction of the function, at most; beyond, every branch may divide a warp.
const MOST_STEPS: usize = 64;

/// By block: its branch may divide a warp. `meets`: where the ways of a branch meet.
pub fn divergent_branches(func: &Func, graph: &Graph, meets: &[Option<usize>]) -> Vec<bool> {
    let branch = |b: usize| matches!(func.blocks[b].end, Terminator::Branch(..) | Terminator::Indirect(..));
    let mut divergent = vec![false; func.regs.len()];
    let mut open: Vec<Reg> = func.fixed().into_iter().flatten().collect();
    // From what is read to what is written, and to the branches that it decides.
    let mut flows: Vec<(u32, u32)> = Vec::new();
    let mut decides: Vec<(u32, u32)> = Vec::new();
    for (b, block) in func.blocks.iter().enumerate() {
        for inst in block.all() {
            count(1);
            if !same_for_all(inst) {
                inst.for_writes(|reg| open.push(reg));
                continue;
            }
            inst.for_reads(|from| inst.for_writes(|to| flows.push((from, to))));
        }
        if let Some(last) = block.last().filter(|_| branch(b)) {
            last.for_reads(|reg| decides.push((reg, b as u32)));
        }
    }
    let flows = Lists::new(func.regs.len(), &flows);
    let decides = Lists::new(func.regs.len(), &decides);
    let live = Live::new(func);
    let mut found = vec![false; func.blocks.len()];
    let mut seen = vec![usize::MAX; func.blocks.len()];
    let mut written = RegSet::new(func.regs.len());
    let insts: usize = func.blocks.iter().map(|block| 1 + block.insts.len()).sum();
    let mut left = MOST_STEPS * insts;
    while let Some(reg) = open.pop() {
        if std::mem::replace(&mut divergent[reg as usize], true) {
            continue;
        }
        open.extend(flows.of(reg as usize));
        count(flows.of(reg as usize).len());
        for &b in decides.of(reg as usize) {
            let b = b as usize;
            if std::mem::replace(&mut found[b], true) {
                continue;
            }
            let Some(meet) = meets[b] else { continue };
            // What is between, and what of it is read behind.
            written.clear();
            let mut ways: Vec<usize> = graph[b].clone();
            while let Some(at) = ways.pop() {
                if at == meet || std::mem::replace(&mut seen[at], b) == b {
                    continue;
                }
                let steps = 1 + func.blocks[at].insts.len();
                count(steps);
                let Some(fewer) = left.checked_sub(steps) else {
                    return (0..func.blocks.len()).map(branch).collect();
                };
                left = fewer;
                for inst in func.blocks[at].all() {
                    inst.for_writes(|reg| {
                        written.insert(reg);
                    });
                }
                ways.extend(&graph[at]);
            }
            live.for_before(meet, |reg| {
                if written.contains(reg) {
                    open.push(reg);
                }
            });
        }
    }
    found
}

/// An instruction that gives all threads of a warp the same if it reads the same.
fn same_for_all(inst: &Inst) -> bool {
    let differs = |operand: &Operand| match operand {
        Operand::Special(special) => special.differs_by_lane(),
        _ => false,
    };
    let pure = matches!(inst.class, OpClass::Data | OpClass::LoadParam);
    let writes = inst.destinations().any(|operand| *operand != Operand::None)
        || inst.pdst.iter().any(|predicate| *predicate != PredOperand::None);
    !writes || pure && !inst.sources().any(differs)
}
