//! Convergence barriers as NVIDIA's assembler writes them: where threads of a warp that a branch divides meet again, a barrier
//! waits for them (BSYNC), which was set up in front of the branches (BSSY; SSY and SYNC before compute capability 7.0). One
//! barrier serves all branches that end at one block; that of a loop is set up in front of the loop. Branches that go the same
//! way for all threads need none, nor do those after which threads end. What waits is the policy's: here they are instructions
//! that take their time.

use super::cfg::{Around, Dominance, Graph, NO_LOOP, dominators, natural_loops, reverse, reverse_post_order};
use super::divergence::divergent_branches;
use super::ir::{Func, Inst, PredOperand, Terminator};
use super::work::count;
use crate::form::Form;
use crate::isa::Root;
use crate::program::{Extra, Text};
use sim_memory::vocabulary::ScalarType;

/// Writes the instructions; returns how many barriers there are.
pub fn converge(func: &mut Func) -> u32 {
    let branches = |end: &Terminator| matches!(end, Terminator::Branch(..) | Terminator::Indirect(..));
    if func.injected_by_hand || !func.blocks.iter().any(|block| branches(&block.end)) {
        return 0;
    }
    let graph: Graph = func.blocks.iter().map(|block| block.successors()).collect();
    let Ok(loops) = natural_loops(&graph, 0) else { return 0 };
    let dominance = Dominance::new(&graph, 0);
    let meets = meets(func, &graph);
    let divergent = divergent_branches(func, &graph, &meets);
    let around = Around::new(&loops, graph.len());
    // By block where threads meet: the one in front of all branches that end there.
    let mut fronts: Vec<Option<usize>> = vec![None; graph.len()];
    for (b, divergent) in divergent.iter().enumerate() {
        let reached = dominance.number[b] != usize::MAX;
        if let Some(meet) = meets[b].filter(|_| reached && *divergent) {
            let front = fronts[meet].map_or(b, |front| dominance.common(front, b));
            fronts[meet] = Some(front);
        }
    }
    let mut begins: Vec<u32> = vec![0; graph.len()];
    let mut ends: Vec<bool> = vec![false; graph.len()];
    for (meet, front) in fronts.iter().enumerate() {
        let Some(mut front) = *front else { continue };
        let over = &func.blocks[meet];
        if over.insts.is_empty() && matches!(over.end, Terminator::End(_)) {
            continue;
        }
        // Out of the loops that threads leave on the way.
        let mut within = around.node[front];
        while within != NO_LOOP && loops[within].nodes.binary_search(&meet).is_err() {
            count(1);
            let Some(before) = dominance.idom[loops[within].header] else { break };
            front = before;
            within = around.inner[within];
        }
        begins[front] += 1;
        ends[meet] = true;
    }
    let mut line = 0;
    for (block, (begins, ends)) in func.blocks.iter_mut().zip(begins.iter().zip(&ends)) {
        line = block.all().next().map_or(line, |inst| inst.line);
        if *ends {
            let wait = Inst { extra: Extra::Meets, ..barrier("bsync", line) };
            block.insts.insert(0, wait);
        }
        line = block.all().last().map_or(line, |inst| inst.line);
        block.insts.extend((0..*begins).map(|_| barrier("bssy", line)));
    }
    ends.iter().filter(|ends| **ends).count() as u32
}

/// An instruction of the control unit that does nothing else.
fn barrier(text: &'static str, line: u32) -> Inst {
    let form = Form::plain(Root::Pmevent, ScalarType::B32);
    Inst { line, text: Text::Made(text), ..Inst::blank(form, PredOperand::Const(true)) }
}

/// By block: its immediate post-dominator. The last block of the text that returns is the end, or the last one that ends threads
/// where none does: threads that end elsewhere are not waited for.
fn meets(func: &Func, graph: &Graph) -> Vec<Option<usize>> {
    let end = graph.len();
    let mut forward = graph.clone();
    forward.push(Vec::new());
    let ends = reverse_post_order(graph, 0).into_iter().filter_map(|block| match &func.blocks[block].end {
        Terminator::End(inst) => Some((inst.form.root == Root::Ret, block)),
        _ => None,
    });
    if let Some((_, last)) = ends.max() {
        forward[last].push(end);
    }
    let mut meets = dominators(&reverse(&forward), end);
    // Where all ways but one end threads, nothing is waited for.
    let goes_on = |to: &&usize| meets[**to].is_some();
    let parts: Vec<bool> = graph.iter().map(|ways| ways.iter().filter(goes_on).count() > 1).collect();
    meets.truncate(end);
    meets.into_iter().zip(parts).map(|(meet, parts)| meet.filter(|meet| *meet != end && parts)).collect()
}

#[cfg(test)]
mod tests;
