//! The dispatch loop of transformation 6: what becomes of control flow that has no structure.

use super::{Emitted, Item, NONE, blank, inject, injected, item, negate};
use crate::form::{CmpOp, Form, Modifiers};
use crate::isa::Root;
use crate::lower::cfg::{Graph, dominators, reverse, reverse_post_order};
use crate::lower::ir::{Block, BlockId, Func, Operand, PredOperand, Terminator, Width};
use crate::program::OpClass;
use sim_memory::vocabulary::ScalarType;

/// A dispatch loop over the blocks: right for any graph, at the cost of going round it. Where all
/// paths come to one block that nothing leads back from, the loop ends there: threads meet before
/// it, as they must where it holds a barrier.
pub(super) fn dispatch(func: &Func, uniform: &[bool], note: String) -> Emitted {
    let mut extra = vec![Width::Word, Width::Pred];
    let base = func.regs.len() as u32;
    let (next, hit) = (base, PredOperand::Reg(base + 1, false));
    let word =
        |root, mods| Form { root, dst: ScalarType::U32, ty: ScalarType::U32, dst_reg: 32, src_reg: 32, mods };
    let go = |to: usize, guard: PredOperand| {
        let mut inst = blank(word(Root::Mov, Modifiers { vector: 1, ..Modifiers::default() }), guard);
        inst.dst[0] = Operand::Reg(next);
        inst.src[0] = Operand::Const { bits: to as u64, wide: false };
        Item { data: Some(Box::new(inst)), ..injected(OpClass::Data, guard, NONE) }
    };
    let always = PredOperand::Const(true);
    let graph: Graph = func.blocks.iter().map(Block::successors).collect();
    let tail = tail_of(func, &graph);
    let mut items = vec![go(0, always)];
    let pre_break = items.len();
    if tail.is_some() {
        items.push(injected(OpClass::PreBreak, always, NONE));
    }
    let head = items.len();
    let test_next = |b: usize| {
        let mut test = blank(
            word(Root::Setp, Modifiers { vector: 1, cmp: Some(CmpOp::Eq), ..Modifiers::default() }),
            always,
        );
        test.src[0] = Operand::Reg(next);
        test.src[1] = Operand::Const { bits: b as u64, wide: false };
        test.pdst[0] = hit;
        Item { data: Some(Box::new(test)), ..injected(OpClass::Data, always, NONE) }
    };
    let mut blocks = reverse_post_order(&graph, 0);
    if let Some(Tail { block, after }) = &tail {
        blocks.retain(|b| !after[*b]);
        items.push(test_next(*block));
        items.push(injected(OpClass::Break, hit, NONE));
    }
    for b in blocks {
        let block = &func.blocks[b];
        items.push(test_next(b));
        let ssy = items.len();
        items.push(injected(OpClass::Ssy, always, NONE));
        let over = items.len();
        items.push(injected(OpClass::Branch, negate(hit), NONE));
        for (i, inst) in block.insts.iter().enumerate() {
            if matches!(inst.class, OpClass::Call | OpClass::CallIndirect) {
                let after = items.len() + 2;
                items.push(injected(OpClass::PreReturn, inst.guard, after));
            }
            items.push(item((b, i), func));
        }
        let last = block.insts.len();
        // The branch itself runs, to the instruction behind it: it only says what the thread
        // wanted. Where it diverges, the lanes meet again at once.
        let nowhere = |items: &mut Vec<Item>| {
            let mut branch = item((b, last), func);
            let ssy = items.len();
            items.push(injected(OpClass::Ssy, always, ssy + 3));
            branch.target = ssy + 2;
            branch.targets = vec![ssy + 2; graph[b].len()];
            items.push(branch);
            items.push(injected(OpClass::Sync, always, NONE));
        };
        match &block.end {
            Terminator::End(_) => items.push(item((b, last), func)),
            Terminator::Jump(inst, to) => {
                items.push(go(*to, always));
                if inst.is_some() {
                    nowhere(&mut items);
                }
            }
            Terminator::Branch(inst, taken, fall) => {
                items.push(go(*fall, always));
                items.push(go(*taken, inst.guard));
                nowhere(&mut items);
            }
            Terminator::Indirect(inst, targets) => {
                for (i, to) in targets.iter().enumerate() {
                    let mut test = blank(
                        word(
                            Root::Setp,
                            Modifiers { vector: 1, cmp: Some(CmpOp::Eq), ..Modifiers::default() },
                        ),
                        always,
                    );
                    test.src[0] = inst.src[0];
                    test.src[1] = Operand::Const { bits: i as u64, wide: false };
                    test.pdst[0] = hit;
                    items.push(Item { data: Some(Box::new(test)), ..injected(OpClass::Data, always, NONE) });
                    items.push(go(*to, hit));
                }
                nowhere(&mut items);
            }
        }
        let sync = items.len();
        items.push(injected(OpClass::Sync, always, NONE));
        items[ssy].target = sync + 1;
        items[over].target = sync;
    }
    items.push(injected(OpClass::Branch, always, head));
    let mut notes = vec![note];
    if let Some(Tail { block, .. }) = tail {
        let start = items.len();
        items[pre_break].target = start;
        // What follows is a function of its own that begins at the tail.
        let mut rest = func.clone();
        rest.regs.extend(extra.iter().copied());
        rest.blocks[0] = Block { insts: Vec::new(), end: Terminator::Jump(None, block) };
        let mut emitted = inject(&rest, uniform);
        for item in &mut emitted.items {
            let targets = item.targets.iter_mut().chain([&mut item.target]);
            targets.filter(|target| **target != NONE).for_each(|target| *target += start);
        }
        items.append(&mut emitted.items);
        extra.append(&mut emitted.extra);
        notes.append(&mut emitted.notes);
    }
    Emitted { items, extra, notes, tokens: None }
}

/// The block at which a dispatch loop ends.
struct Tail {
    block: BlockId,
    /// By block: it comes after.
    after: Vec<bool>,
}

/// The first block that every path comes to, that every path enters what follows by, and before
/// which something happens.
fn tail_of(func: &Func, graph: &Graph) -> Option<Tail> {
    let end = graph.len();
    let mut forward = graph.clone();
    forward.push(Vec::new());
    for (b, block) in func.blocks.iter().enumerate() {
        if matches!(block.end, Terminator::End(_)) {
            forward[b].push(end);
        }
    }
    let meets = dominators(&reverse(&forward), end);
    let reachable = reverse_post_order(graph, 0);
    let mut at = meets[0];
    while let Some(block) = at.filter(|&block| block != end) {
        let mut after = vec![false; end];
        reverse_post_order(graph, block).into_iter().for_each(|b| after[b] = true);
        let before = || reachable.iter().filter(|b| !after[**b]);
        let enters = before().flat_map(|&b| &graph[b]).all(|to| !after[*to] || *to == block);
        let empty = before().all(|&b| b == 0 && func.blocks[0].insts.is_empty());
        if enters && !empty && !after[0] {
            return Some(Tail { block, after });
        }
        at = meets[block];
    }
    None
}
