//! Transformation 6: the control-flow instructions of the token stack (CS §5.1.3 step 6)
//! [tf-6].
//!
//! Code is emitted by structure, so that stack consistency holds by construction: a divergent
//! branch pushes a sync token for its immediate post-dominator and each of its paths ends in the
//! `sync` before it; a loop with divergent branches pushes a break token that every exit breaks
//! to, so the stack does not grow with the trip count. Several exits of a loop say by selector
//! predicates where they go, and break again where that lies outside an outer loop too. Nodes
//! that paths share before they meet again are emitted once a path, as a post-dominator stack
//! would execute them. Irreducible regions are entered through blocks that test a selector. Loops that
//! threads never leave, and graphs that would grow too much, become a dispatch loop. All of that is
//! reported in notes.

mod dispatch;
pub mod emitted;
mod selectors;
mod structured;

use super::cfg::Graph;
use super::ir::{Func, Terminator};
use crate::program::OpClass;
use dispatch::dispatch;
use emitted::{Emitted, NONE, item};
use selectors::with_selectors;
use structured::{Why, structured};

/// Injects the control-flow instructions. `uniform[b]` says that the branch at the end of block
/// `b` is the same for all threads of a warp.
pub fn inject(func: &Func, uniform: &[bool]) -> Emitted {
    if func.injected_by_hand {
        return by_hand(func);
    }
    let graph: Graph = func.blocks.iter().map(super::ir::Block::successors).collect();
    structured(func, uniform, &graph, 0, 0).unwrap_or_else(|why| {
        let selected = if why == Why::Irreducible { with_selectors(func, uniform, &graph) } else { None };
        selected.unwrap_or_else(|| dispatch(func, uniform, &graph, why))
    })
}

/// A function that has its own control-flow instructions: emitted as written.
fn by_hand(func: &Func) -> Emitted {
    let mut items = Vec::new();
    let mut starts = Vec::new();
    for (b, block) in func.blocks.iter().enumerate() {
        starts.push(items.len());
        for i in 0..block.insts.len() + usize::from(block.last().is_some()) {
            items.push(item((b, i), func));
        }
    }
    for item in &mut items {
        let Some((b, i)) = item.source else { continue };
        let block = &func.blocks[b];
        if i == block.insts.len() {
            match &block.end {
                Terminator::Jump(_, to) | Terminator::Branch(_, to, _) => item.target = starts[*to],
                Terminator::Indirect(_, targets) => {
                    item.targets = targets.iter().map(|t| starts[*t]).collect();
                }
                Terminator::End(_) => {}
            }
        } else if matches!(item.class, OpClass::Ssy | OpClass::PreBreak | OpClass::PreReturn) {
            item.target = starts.get(block.insts[i].imm as usize).copied().unwrap_or(NONE);
        }
    }
    Emitted { items, ..Emitted::default() }
}

#[cfg(test)]
mod tests;
