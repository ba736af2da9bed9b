//! The dispatch loop of transformation 6: what becomes of control flow that has no structure.

use super::emitted::{Emitted, Item, NONE, injected, item, negate};
use super::structured::{Why, structured};
use crate::form::{CmpOp, Form};
use crate::isa::Root;
use crate::lower::cfg::{Dominance, Graph, dominators, reverse};
use crate::lower::ir::{Block, BlockId, Func, Inst, Operand, PredOperand, Terminator, Width};
use crate::lower::work::count;
use crate::program::OpClass;
use sim_memory::vocabulary::ScalarType;

/// Dispatch loops over the blocks: right for any graph, at the cost of going round them. Where all
/// paths come to one block that nothing leads back from, a loop ends there: threads meet before
/// it, as they must where it holds a barrier. What follows is emitted by its structure if it can be, and
/// is another dispatch loop otherwise; `why` says why the whole cannot.
pub(super) fn dispatch(func: &Func, uniform: &[bool], graph: &Graph, why: Why) -> Emitted {
    let dominance = Dominance::new(graph, 0);
    let tails = tails(func, graph, &dominance);
    // A part more than there are tails.
    let mut parts = vec![why];
    let structure = match why {
        Why::Irreducible => {
            let left = irreducible(graph, &dominance);
            parts.extend(tails.iter().take_while(|tail| left[**tail] > 0).map(|_| Why::Irreducible));
            Rest::find(func, uniform, graph, &tails[parts.len() - 1..], &mut parts)
        }
        _ => Rest::find(func, uniform, graph, &tails, &mut parts),
    };
    // By block: its part.
    let mut part_of = vec![0; graph.len()];
    tails.iter().zip(1..).for_each(|(tail, part)| part_of[*tail] = part);
    let mut blocks: Vec<Vec<BlockId>> = vec![Vec::new(); tails.len() + 1];
    for &b in &dominance.order {
        if let Some(above) = dominance.idom[b].filter(|_| part_of[b] == 0) {
            part_of[b] = part_of[above];
        }
        blocks[part_of[b]].push(b);
    }
    let mut emitted =
        Emitted { extra: vec![Width::Word, Width::Pred], notes: Vec::new(), ..Emitted::default() };
    let last = parts.len() - 1;
    for (part, why) in parts.into_iter().enumerate() {
        emitted.notes.push(why.note(func));
        let entry = part.checked_sub(1).map(|before| tails[before]);
        let tail = tails.get(part).copied();
        debug_assert!(tail.is_some() || part == last);
        one_loop(func, graph, entry, &blocks[part], tail, &mut emitted.items);
    }
    if let Some(mut rest) = structure {
        let start = emitted.items.len();
        for item in &mut rest.items {
            let targets = item.targets.iter_mut().chain([&mut item.target]);
            targets.filter(|target| **target != NONE).for_each(|target| *target += start);
        }
        emitted.items.append(&mut rest.items);
        emitted.extra.append(&mut rest.extra);
        emitted.notes.append(&mut rest.notes);
    }
    emitted
}

/// What follows dispatch loops.
struct Rest;

impl Rest {
    /// What can be emitted by its structure from one of `tails` on, from the first such on; `parts` gets
    /// what the others are. What a longer rest fails by, a shorter one may fail by, or by less.
    fn find(
        func: &Func,
        uniform: &[bool],
        graph: &Graph,
        tails: &[BlockId],
        parts: &mut Vec<Why>,
    ) -> Option<Emitted> {
        let mut known: Vec<Option<Result<Emitted, Why>>> = Vec::new();
        known.resize_with(tails.len(), || None);
        // The first tail from which on the outcome is beyond `why`.
        let mut first_beyond = |from: usize, beyond: &dyn Fn(&Result<Emitted, Why>) -> bool| {
            let mut is_beyond = |i: usize| {
                let of_tail = || structured(func, uniform, graph, tails[i], 2);
                beyond(known[i].get_or_insert_with(of_tail))
            };
            let (mut low, mut high) = (from, tails.len());
            // The next one is it most often.
            if low < high && is_beyond(low) {
                return low;
            }
            while low < high {
                let middle = low + (high - low) / 2;
                if is_beyond(middle) { high = middle } else { low = middle + 1 }
            }
            low
        };
        let large = first_beyond(0, &|found| !matches!(found, Err(Why::TooLarge)));
        let right = first_beyond(large, &|found| found.is_ok());
        parts.extend(std::iter::repeat_n(Why::TooLarge, large));
        parts.extend(std::iter::repeat_n(Why::NeverMeet, right - large));
        known.get_mut(right).and_then(Option::take).and_then(Result::ok)
    }
}

/// By node: edges back into the middle of a loop from the nodes that it dominates.
fn irreducible(graph: &Graph, dominance: &Dominance) -> Vec<i64> {
    let mut edges = vec![0; graph.len()];
    for &from in &dominance.order {
        let back = |to: &&usize| {
            dominance.number[**to] <= dominance.number[from] && !dominance.dominates(**to, from)
        };
        edges[from] = graph[from].iter().filter(back).count() as i64;
    }
    dominance.sums(edges)
}

/// A dispatch loop over `blocks`, up to `tail`; `entry` is where it begins, if that is not the function's
/// beginning.
fn one_loop(
    func: &Func,
    graph: &Graph,
    entry: Option<BlockId>,
    blocks: &[BlockId],
    tail: Option<BlockId>,
    items: &mut Vec<Item>,
) {
    let base = func.regs.len() as u32;
    let (next, hit) = (base, PredOperand::Reg(base + 1, false));
    let go = |to: usize, guard: PredOperand| {
        let mut inst = Inst::blank(Form::plain(Root::Mov, ScalarType::U32), guard);
        inst.dst[0] = Operand::Reg(next);
        inst.src[0] = Operand::Const { bits: to as u64, wide: false };
        Item { data: Some(Box::new(inst)), ..injected(OpClass::Data, guard, NONE) }
    };
    let always = PredOperand::Const(true);
    items.push(go(0, always));
    let pre_break = items.len();
    if tail.is_some() {
        items.push(injected(OpClass::PreBreak, always, NONE));
    }
    let head = items.len();
    let test_next = |b: usize| {
        let mut test = Inst::blank(Form::compare(CmpOp::Eq, ScalarType::U32), always);
        test.src[0] = Operand::Reg(next);
        test.src[1] = Operand::Const { bits: b as u64, wide: false };
        test.pdst[0] = hit;
        Item { data: Some(Box::new(test)), ..injected(OpClass::Data, always, NONE) }
    };
    if let Some(tail) = tail {
        items.push(test_next(tail));
        items.push(injected(OpClass::Break, hit, NONE));
    }
    // A loop that begins in the middle has a block of its own before that, which takes the place of the
    // function's first one.
    let before = entry.map(|_| Block { insts: Vec::new(), end: Terminator::Jump(None, 0), kept: false });
    for b in entry.map(|_| 0).into_iter().chain(blocks.iter().copied()) {
        let first = before.as_ref().filter(|_| b == 0);
        let block = first.unwrap_or(&func.blocks[b]);
        items.push(test_next(b));
        let ssy = items.len();
        items.push(injected(OpClass::Ssy, always, NONE));
        let over = items.len();
        items.push(injected(OpClass::Branch, negate(hit), NONE));
        for (i, inst) in block.insts.iter().enumerate() {
            if inst.class.is_call() {
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
                items.push(go(entry.filter(|_| first.is_some()).unwrap_or(*to), always));
                if inst.is_some() {
                    nowhere(items);
                }
            }
            Terminator::Branch(inst, taken, fall) => {
                items.push(go(*fall, always));
                items.push(go(*taken, inst.guard));
                nowhere(items);
            }
            Terminator::Indirect(inst, targets) => {
                for (i, to) in targets.iter().enumerate() {
                    let mut test = Inst::blank(Form::compare(CmpOp::Eq, ScalarType::U32), always);
                    test.src[0] = inst.src[0];
                    test.src[1] = Operand::Const { bits: i as u64, wide: false };
                    test.pdst[0] = hit;
                    items.push(Item { data: Some(Box::new(test)), ..injected(OpClass::Data, always, NONE) });
                    items.push(go(*to, hit));
                }
                nowhere(items);
            }
        }
        let sync = items.len();
        items.push(injected(OpClass::Sync, always, NONE));
        items[ssy].target = sync + 1;
        items[over].target = sync;
    }
    items.push(injected(OpClass::Branch, always, head));
    if tail.is_some() {
        items[pre_break].target = items.len();
    }
}

/// The blocks at which dispatch loops end, one after the other: those that every path comes to, that
/// every path enters what follows by, and before which something happens.
fn tails(func: &Func, graph: &Graph, dominance: &Dominance) -> Vec<BlockId> {
    let end = graph.len();
    let mut forward = graph.clone();
    forward.push(Vec::new());
    for (b, block) in func.blocks.iter().enumerate() {
        if matches!(block.end, Terminator::End(_)) {
            forward[b].push(end);
        }
    }
    let meets = dominators(&reverse(&forward), end);
    // By block: edges from what it dominates to elsewhere. An edge leaves what dominates its source up to
    // its target or the one that dominates that.
    let mut leaving = vec![0; end];
    for &from in &dominance.order {
        for &to in &graph[from] {
            count(1);
            leaving[from] += 1;
            let stays = if dominance.dominates(to, from) { Some(to) } else { dominance.idom[to] };
            if let Some(stays) = stays {
                leaving[stays] -= 1;
            }
        }
    }
    let leaving = dominance.sums(leaving);
    let mut out = Vec::new();
    let mut at = meets[0];
    while let Some(block) = at.filter(|&block| block != end) {
        let reached = dominance.number[block] != usize::MAX;
        let empty = func.blocks[0].insts.is_empty() && dominance.count(0) == dominance.count(block) + 1;
        if reached && block != 0 && leaving[block] == 0 && !(out.is_empty() && empty) {
            out.push(block);
        }
        at = meets[block];
    }
    out
}
