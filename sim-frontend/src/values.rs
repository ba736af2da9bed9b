//! Values of a function's registers: which instruction gave a register the value that another one reads, or at which
//! instruction values of several ways meet (static single assignment, Cytron et al. 1991). Registers that are used again
//! for something else are other values.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::lower::cfg::{Graph, dominators, reverse, reverse_post_order};
use crate::program::{MAX_SLOTS, Op, OpClass, Pc, Pred, Program, Row};
use crate::program_flow::successors;

/// A value: what the registers begin with, the result of an instruction, or where results meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// What a register has in the beginning.
    Initial,
    /// What an instruction wrote to a slot.
    Written(Pc, u16),
    /// What a slot has where ways meet: the number of the basic block.
    Merged(u32, u16),
}

/// A stretch of instructions that run one after the other.
#[derive(Clone, Debug)]
pub struct Block {
    /// The instructions.
    pub pcs: Range<Pc>,
    /// Blocks before it.
    pub from: Vec<usize>,
    /// Blocks behind it.
    pub to: Vec<usize>,
    /// Control may leave the function behind it.
    pub leaves: bool,
    /// Where the ways from its end meet again, if they do.
    pub join: Option<usize>,
}

/// The values of a function.
#[derive(Clone, Debug)]
pub struct Values {
    /// Its basic blocks, in the order of their addresses.
    pub blocks: Vec<Block>,
    /// By instruction, from the first: its block.
    block_of: Vec<usize>,
    first: Pc,
    slots: usize,
    /// By block and slot: the value at its beginning.
    entry: Vec<Option<Value>>,
    /// The same behind it.
    exit: Vec<Option<Value>>,
}

/// The scoreboard slot of a register that an instruction reads.
pub fn row_slot(program: &Program, row: Row) -> Option<u16> {
    (row.is_some() && row.0 < program.registers).then_some(row.0)
}

/// The scoreboard slot of a predicate.
pub fn pred_slot(program: &Program, pred: Pred) -> Option<u16> {
    (pred.is_some() && !pred.is_const()).then(|| program.registers + pred.index() as u16)
}

/// Slots that an instruction writes.
pub fn written<'p>(program: &'p Program, op: &'p Op) -> impl Iterator<Item = u16> + 'p {
    own_written(op).iter().chain(program.more_written(op)).copied()
}

/// Of these, those that fit into its operation: all but those of some products of matrices.
pub fn own_written(op: &Op) -> &[u16] {
    &op.slots[..usize::from(op.slots_written).min(MAX_SLOTS)]
}

/// Slots that an instruction reads; those it may leave as they are among them.
pub fn read(program: &Program, op: &Op) -> Vec<u16> {
    let mut out: Vec<u16> = op.src.iter().filter_map(|row| row_slot(program, *row)).collect();
    out.extend(op.psrc.iter().chain([&op.guard]).filter_map(|pred| pred_slot(program, *pred)));
    let all = &op.slots[..usize::from(op.slots_used).min(MAX_SLOTS)];
    out.extend(all.iter().filter(|slot| !own_written(op).contains(slot)));
    out.extend(&program.more_slots(op)[program.more_written(op).len()..]);
    out.extend(program.fragments_of(op).iter().filter_map(|row| row_slot(program, *row)));
    if op.guard != Pred::TRUE {
        out.extend(written(program, op));
    }
    out.sort_unstable();
    out.dedup();
    out
}

impl Values {
    /// Those of the function of these instructions.
    pub fn new(program: &Program, function: Range<Pc>) -> Self {
        let blocks = blocks(program, &function);
        let mut block_of = Vec::with_capacity(function.len());
        for (number, block) in blocks.iter().enumerate() {
            block_of.resize((block.pcs.end - function.start) as usize, number);
        }
        let slots = usize::from(program.registers) + usize::from(program.predicates);
        let entry = vec![None; blocks.len() * slots];
        let exit = entry.clone();
        let mut values = Self { blocks, block_of, first: function.start, slots, entry, exit };
        values.find(program);
        values.simplify();
        values
    }

    /// The block of an instruction.
    pub fn block(&self, pc: Pc) -> usize {
        self.block_of[(pc - self.first) as usize]
    }

    /// The value of a slot before an instruction.
    pub fn before(&self, program: &Program, pc: Pc, slot: u16) -> Value {
        let block = self.block(pc);
        let from = self.blocks[block].pcs.start;
        match (from..pc).rev().find(|at| written(program, &program.ops[*at as usize]).any(|own| own == slot))
        {
            Some(at) => Value::Written(at, slot),
            None => self.entry[block * self.slots + usize::from(slot)].unwrap_or(Value::Initial),
        }
    }

    /// The value of a slot behind a block.
    pub fn behind(&self, block: usize, slot: u16) -> Value {
        self.exit[block * self.slots + usize::from(slot)].unwrap_or(Value::Initial)
    }

    /// Slots whose values meet at the beginning of a block.
    pub fn merged(&self, block: usize) -> impl Iterator<Item = u16> + '_ {
        let own = &self.entry[block * self.slots..][..self.slots];
        let here =
            move |value: &Option<Value>| matches!(value, Some(Value::Merged(at, _)) if *at == block as u32);
        own.iter().enumerate().filter(move |(_, value)| here(value)).map(|(slot, _)| slot as u16)
    }

    /// Goes through the blocks until no value changes. Where two values come to a block it is a merged one for good.
    fn find(&mut self, program: &Program) {
        let graph: Graph = self.blocks.iter().map(|block| block.to.clone()).collect();
        let order = reverse_post_order(&graph, 0);
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &block in &order {
                for slot in 0..self.slots {
                    let at = block * self.slots + slot;
                    let merged = Some(Value::Merged(block as u32, slot as u16));
                    let mut now = self.entry[at];
                    let begins = (block == 0).then_some(Some(Value::Initial));
                    let coming =
                        self.blocks[block].from.iter().map(|from| self.exit[from * self.slots + slot]);
                    let single = self.blocks[block].from.len() + usize::from(block == 0) == 1;
                    for value in begins.into_iter().chain(coming).filter(Option::is_some) {
                        now = match now {
                            _ if single => value,
                            None => value,
                            Some(_) if now == value || now == merged => now,
                            Some(_) => merged,
                        };
                    }
                    if now != self.entry[at] {
                        self.entry[at] = now;
                        changed = true;
                    }
                }
                let mut row = self.entry[block * self.slots..][..self.slots].to_vec();
                for pc in self.blocks[block].pcs.clone() {
                    for slot in written(program, &program.ops[pc as usize]) {
                        if let Some(value) = row.get_mut(usize::from(slot)) {
                            *value = Some(Value::Written(pc, slot));
                        }
                    }
                }
                let behind = &mut self.exit[block * self.slots..][..self.slots];
                changed |= behind != row.as_slice();
                behind.copy_from_slice(&row);
            }
        }
    }

    /// Where one value comes by all ways, but itself by those of a loop, nothing is merged.
    fn simplify(&mut self) {
        let mut same: BTreeMap<Value, Value> = BTreeMap::new();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for block in 0..self.blocks.len() {
                let merged: Vec<u16> = self.merged(block).collect();
                for slot in merged {
                    let own = Value::Merged(block as u32, slot);
                    let begins = (block == 0).then_some(Value::Initial);
                    let coming = self.blocks[block].from.iter().map(|from| self.behind(*from, slot));
                    let mut others = begins.into_iter().chain(coming).filter(|value| *value != own);
                    let first = others.next();
                    if let Some(value) = first
                        && others.all(|other| other == value)
                    {
                        same.insert(own, value);
                    }
                }
            }
            for value in self.entry.iter_mut().chain(&mut self.exit).flatten() {
                while let Some(other) = same.get(value) {
                    *value = *other;
                    changed = true;
                }
            }
            same.clear();
        }
    }

    /// Blocks that are reached behind a block before its ways meet again.
    pub fn decided(&self, block: usize) -> Vec<usize> {
        let join = self.blocks[block].join;
        let mut seen = vec![false; self.blocks.len()];
        let mut open = self.blocks[block].to.clone();
        while let Some(at) = open.pop() {
            if Some(at) != join && !std::mem::replace(&mut seen[at], true) {
                open.extend(&self.blocks[at].to);
            }
        }
        (0..seen.len()).filter(|at| seen[*at]).collect()
    }
}

fn blocks(program: &Program, function: &Range<Pc>) -> Vec<Block> {
    let flow: Vec<(Vec<Pc>, bool)> = function.clone().map(|pc| successors(program, pc, function)).collect();
    let mut leader = vec![false; function.len()];
    if let Some(first) = leader.first_mut() {
        *first = true;
    }
    for (at, (to, leaves)) in flow.iter().enumerate() {
        let next = function.start + at as Pc + 1;
        if to.as_slice() != [next]
            || *leaves
            || program.ops[at + function.start as usize].class == OpClass::Exit
        {
            to.iter().chain([&next]).filter(|pc| function.contains(pc)).for_each(|pc| {
                leader[(pc - function.start) as usize] = true;
            });
        }
    }
    let starts: Vec<Pc> = function.clone().filter(|pc| leader[(pc - function.start) as usize]).collect();
    let number = |pc: &Pc| starts.partition_point(|start| start <= pc) - 1;
    let mut graph: Graph = Vec::new();
    let mut out = Vec::new();
    for (at, &start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(function.end);
        let (to, leaves) = &flow[(end - 1 - function.start) as usize];
        let mut to: Vec<usize> = to.iter().map(number).collect();
        to.dedup();
        graph.push(to.clone());
        out.push(Block { pcs: start..end, from: Vec::new(), to, leaves: *leaves, join: None });
    }
    for (at, from) in reverse(&graph).into_iter().enumerate() {
        out[at].from = from;
    }
    // Ways that leave meet at a node behind all others.
    let end = out.len();
    let mut whole = graph;
    whole.push(Vec::new());
    (0..end).filter(|at| out[*at].leaves || out[*at].to.is_empty()).for_each(|at| whole[at].push(end));
    let above = dominators(&reverse(&whole), end);
    for (at, block) in out.iter_mut().enumerate() {
        block.join = above[at].filter(|join| *join != end);
    }
    out
}
