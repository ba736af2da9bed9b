//! Irreducible regions made reducible: what enters one goes through a block of its own, where a register
//! says by which of its blocks it is entered (controlled entry; LLVM's FixIrreducible). The function then has
//! structure, and joins around the region are kept.

use std::collections::BTreeSet;

use super::emitted::Emitted;
use super::structured::structured;
use crate::form::{CmpOp, Form};
use crate::isa::Root;
use crate::lower::cfg::{Graph, components, reverse, reverse_post_order};
use crate::lower::ir::{Block, BlockId, Func, Inst, Operand, PredOperand, Terminator, Width};
use crate::lower::work::count;
use crate::program::OpClass;
use sim_memory::vocabulary::ScalarType;

/// Nodes looked at for each block of the function, before it is left to a dispatch loop: loops within one
/// another are each looked at again.
const LOOKS: usize = 64;

/// The function by its structure, with selectors for its irreducible regions; none where too much would be
/// emitted.
pub(super) fn with_selectors(func: &Func, uniform: &[bool], graph: &Graph) -> Option<Emitted> {
    let mut routed = Routed::new(func, graph);
    routed.regions()?;
    let Routed { func: changed, regions, .. } = routed;
    let blocks = func.blocks.len();
    let mut uniform = uniform.to_vec();
    uniform.resize(changed.blocks.len(), false);
    let graph: Graph = changed.blocks.iter().map(Block::successors).collect();
    let mut emitted = structured(&changed, &uniform, &graph, 0, EXTRA.len() as u32).ok()?;
    // What is no block of the function's is injected.
    for item in &mut emitted.items {
        let Some((block, at)) = item.source.filter(|(block, _)| *block >= blocks) else { continue };
        item.source = None;
        item.inverted = false;
        item.data = changed.blocks[block].insts.get(at).map(|inst| Box::new(inst.clone()));
    }
    emitted.extra.splice(0..0, EXTRA);
    let words = if regions == 1 { "region is" } else { "regions are" };
    emitted.notes.insert(0, format!("{}: {regions} irreducible {words} entered by a selector", func.name));
    Some(emitted)
}

/// The selector, and whether it is what a router asks for. A thread reads it right after it was set, so that
/// all regions share it.
const EXTRA: [Width; 2] = [Width::Word, Width::Pred];

struct Routed {
    func: Func,
    /// By block: those that lead to it, as far as they are reached.
    from: Graph,
    regions: usize,
    next: u32,
    /// Nodes that may still be looked at.
    looks: usize,
    reached: Vec<BlockId>,
}

impl Routed {
    fn new(func: &Func, graph: &Graph) -> Self {
        let mut reached = reverse_post_order(graph, 0);
        reached.sort_unstable();
        let mut from = reverse(graph);
        for list in &mut from {
            list.retain(|block| reached.binary_search(block).is_ok());
            list.sort_unstable();
            list.dedup();
        }
        let (next, looks) = (func.regs.len() as u32, LOOKS * graph.len());
        Self { func: func.clone(), from, regions: 0, next, looks, reached }
    }

    /// Gives every loop one entry, outer loops first.
    fn regions(&mut self) -> Option<()> {
        let mut left = vec![std::mem::take(&mut self.reached)];
        while let Some(nodes) = left.pop() {
            self.looks = self.looks.checked_sub(nodes.len())?;
            count(nodes.len());
            for mut members in self.cycles(&nodes) {
                let outside = |block: &BlockId| members.binary_search(block).is_err();
                let is_entry = |block: &BlockId| *block == 0 || self.from[*block].iter().any(outside);
                let entries: Vec<BlockId> = members.iter().copied().filter(is_entry).collect();
                match entries.as_slice() {
                    [] => continue,
                    // Where the function begins, it has no other: what leads to one would be of the loop.
                    [header] => members.retain(|block| block != header),
                    _ => self.route(&members, &entries),
                }
                left.push(members);
            }
        }
        Some(())
    }

    /// The strongly connected components of the graph of `nodes` in which something goes round, each sorted.
    fn cycles(&self, nodes: &[BlockId]) -> Vec<Vec<BlockId>> {
        let place = |block: BlockId| nodes.binary_search(&block).ok();
        let mut local: Graph = Vec::with_capacity(nodes.len() + 1);
        for &block in nodes {
            let mut to = Vec::new();
            self.func.blocks[block].for_successors(|next| to.extend(place(next)));
            count(1 + to.len());
            local.push(to);
        }
        // All are reached from a node that stands for what leads here.
        local.push((0..nodes.len()).collect());
        let found = components(&local, nodes.len()).into_iter().map(|(_, members)| members);
        let goes_round = |members: &Vec<usize>| members.len() > 1 || local[members[0]].contains(&members[0]);
        found
            .filter(goes_round)
            .map(|mut members| {
                members.sort_unstable();
                members.into_iter().map(|at| nodes[at]).collect()
            })
            .collect()
    }

    /// Routes every edge to one of `entries` through one block.
    fn route(&mut self, members: &[BlockId], entries: &[BlockId]) {
        self.regions += 1;
        // Routers ask for one entry after the other; the last one is what is left.
        let first = self.func.blocks.len();
        let routers = entries.len() - 1;
        for i in 0..routers {
            let other = if i + 1 < routers { first + i + 1 } else { entries[routers] };
            let hit = PredOperand::Reg(self.next + 1, false);
            let branch =
                Inst { class: OpClass::Branch, ..Inst::blank(Form::plain(Root::Bra, ScalarType::B32), hit) };
            self.block(vec![self.test(i)], Terminator::Branch(Box::new(branch), entries[i], other));
        }
        for (i, &entry) in entries.iter().enumerate() {
            let from = std::mem::take(&mut self.from[entry]);
            let (inside, outside): (BTreeSet<BlockId>, BTreeSet<BlockId>) =
                from.into_iter().partition(|block| members.binary_search(block).is_ok());
            // What enters the region from outside must not be part of it.
            for edges in [inside, outside] {
                if edges.is_empty() {
                    continue;
                }
                let setter = self.block(vec![self.set(i)], Terminator::Jump(None, first));
                edges.iter().for_each(|block| self.retarget(*block, entry, setter));
                self.from[setter] = edges.into_iter().collect();
                self.from[first].push(setter);
            }
            self.from[entry] = vec![first + i.min(routers - 1)];
        }
        (1..routers).for_each(|i| self.from[first + i] = vec![first + i - 1]);
    }

    fn block(&mut self, insts: Vec<Inst>, end: Terminator) -> BlockId {
        self.func.blocks.push(Block { insts, end, kept: false });
        self.from.push(Vec::new());
        self.func.blocks.len() - 1
    }

    fn retarget(&mut self, block: BlockId, old: BlockId, new: BlockId) {
        self.func.blocks[block].end.for_targets_mut(|to| {
            if *to == old {
                *to = new;
            }
        });
    }

    /// `mov next, i`.
    fn set(&self, i: usize) -> Inst {
        let mut inst = Inst::blank(Form::plain(Root::Mov, ScalarType::U32), PredOperand::Const(true));
        inst.dst[0] = Operand::Reg(self.next);
        inst.src[0] = Operand::Const { bits: i as u64, wide: false };
        inst
    }

    /// `setp.eq hit, next, i`.
    fn test(&self, i: usize) -> Inst {
        let mut inst = Inst::blank(Form::compare(CmpOp::Eq, ScalarType::U32), PredOperand::Const(true));
        inst.src[0] = Operand::Reg(self.next);
        inst.src[1] = Operand::Const { bits: i as u64, wide: false };
        inst.pdst[0] = PredOperand::Reg(self.next + 1, false);
        inst
    }
}
