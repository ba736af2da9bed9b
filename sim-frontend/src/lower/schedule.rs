//! The order of instructions within a basic block, as NVIDIA's assembler schedules them: those on which the most time depends
//! come first, so that loads begin before what does not wait for them, as long as registers are found for their results.
//! A list scheduler (Gibbons and Muchnick, Efficient Instruction Scheduling for a Pipelined Architecture, 1986) with a limit on
//! the words that are live. It is tried with several limits, and on several stretches of the text at a time.

use std::cmp::Reverse;

use super::ir::{Func, Inst, Operand, Reg};
use super::liveness::{Live, RegSet};
use super::work::count;
use crate::isa::Root;
use crate::program::{Extra, MemoryOp, OpClass};
use sim_memory::vocabulary::{Semantics, StateSpace};

/// Instructions that are ordered at a time; longer blocks are ordered piece by piece.
const PIECE: usize = 256;

/// Instructions that are compared at a time, the first of those that may come next.
const COMPARED: usize = 48;

/// How far apart in the text the instructions are, from the first that is left on, of which the next one is chosen. In a
/// short stretch few values are live, in a long one loads begin early. Each is tried. Code of ptxas 12.9 begins so many loads
/// before it computes as lie within some 36 instructions, and leaves registers free that more of them would fill: of loops of
/// four iterations with 16, 12 and 48 loads first 8, 6 and 10 (accelerate_particles of HeCBench, nbody_half2, spmv).
const STRETCHES: [usize; 3] = [36, 16, 8];

/// Cycles by which an operation must be early for it to be put off, and by how many it is. What takes a register and is read late is
/// computed late in code of ptxas 12.9 and 13, as addresses of stores are: it assigns registers before it fills the time that loads take.
const EARLY: u32 = 8;
const PUT_OFF: u32 = 24;

/// How much a word counts that takes no warp away, in hundredths of one that does.
const SPARED: i64 = 30;

/// Orders the instructions of every block; returns how many blocks have another order. `full`: words with which an SM is full of
/// warps; `uniform`: words that are held elsewhere than in the registers of a thread; `most`: what a thread may have.
pub fn schedule(func: &mut Func, full: u32, uniform: u32, most: u32) -> u32 {
    if func.injected_by_hand {
        return 0;
    }
    let full = i64::from(full);
    // Without such words there is one limit.
    let mut limits = vec![full, full + i64::from(uniform)];
    limits.dedup();
    let mut parts = parts(func);
    let mut needed = full;
    for part in &mut parts {
        part.orders(&limits);
        needed = needed.max(part.orders.iter().map(|order| order.words).min().unwrap_or(0));
    }
    needed = needed.min(i64::from(most).max(full));
    let mut orders: Vec<Vec<usize>> =
        func.blocks.iter().map(|block| Vec::with_capacity(block.insts.len())).collect();
    for mut part in parts {
        // What one part of the function needs, the others may use.
        if needed > full {
            part.orders(&[needed]);
        }
        // Of equals the first: the longest stretch, the fewest words.
        let order = part.orders.into_iter().min_by_key(|order| order.cost(needed));
        let order = order.map(|order| order.insts).unwrap_or_default();
        orders[part.block].extend(order.into_iter().map(|i| part.start + i));
    }
    let mut changed = 0;
    for (block, order) in func.blocks.iter_mut().zip(orders) {
        changed += u32::from(!order.is_sorted());
        let insts = std::mem::take(&mut block.insts);
        let mut insts: Vec<Option<Inst>> = insts.into_iter().map(Some).collect();
        block.insts = order.into_iter().filter_map(|i| insts[i].take()).collect();
    }
    changed
}

/// A part of a block: instructions between two that stay where they are, or one of these.
struct Part<'p> {
    block: usize,
    /// Its first instruction in the block.
    start: usize,
    piece: Piece<'p>,
    /// The orders that were tried.
    orders: Vec<Order>,
}

impl Part<'_> {
    /// Tries the stretches with these limits.
    fn orders(&mut self, limits: &[i64]) {
        // Stretches that have all of a short piece are one.
        let all = STRETCHES.iter().filter(|stretch| **stretch >= self.piece.insts.len()).count();
        let stretches = &STRETCHES[all.saturating_sub(1)..];
        let tried = stretches.iter().flat_map(|stretch| limits.iter().map(|limit| (*stretch, *limit)));
        self.orders.extend(tried.map(|(stretch, limit)| self.piece.clone().within(stretch, limit)));
    }
}

/// The parts of all blocks, in order.
fn parts(func: &Func) -> Vec<Part<'_>> {
    let live = Live::new(func);
    let mut behind = RegSet::new(func.regs.len());
    let mut parts = Vec::new();
    for (b, block) in func.blocks.iter().enumerate() {
        live.behind(b, &mut behind);
        // What is live behind the block; what a piece does not name of it is live beside it.
        let mut outlive = 0;
        live.for_behind(b, |reg| outlive += i64::from(func.words(reg)));
        if let Some(last) = block.last() {
            behind.step_back(last);
        }
        let first = parts.len();
        // From the last piece to the first, as liveness goes.
        let mut end = block.insts.len();
        while end > 0 {
            let mut start = end;
            while start > 0 && end - start < PIECE && may_move(&block.insts[start - 1]) {
                start -= 1;
            }
            start = start.min(end - 1);
            let piece = Piece::new(&block.insts[start..end], func, &behind, outlive);
            parts.push(Part { block: b, start, piece, orders: Vec::new() });
            block.insts[start..end].iter().rev().for_each(|inst| behind.step_back(inst));
            end = start;
        }
        parts[first..].reverse();
    }
    parts
}

/// Instructions that others may pass, and that may pass others: what they do is to write registers and to access memory
/// in no order with other threads.
fn may_move(inst: &Inst) -> bool {
    match inst.class {
        OpClass::Data => !inst.carries(),
        OpClass::LoadParam | OpClass::Mma | OpClass::LoadMatrix => true,
        OpClass::Load | OpClass::Store => weak(inst).is_some(),
        _ => false,
    }
}

/// A load or store that nothing orders but its own thread.
fn weak(inst: &Inst) -> Option<&MemoryOp> {
    match &inst.extra {
        Extra::Memory(facts) => (facts.semantics == Semantics::Weak && !facts.cluster).then_some(facts),
        _ => None,
    }
}

/// What an instruction accesses, where another may access the same.
#[derive(Clone, Copy)]
struct Access {
    writes: bool,
    space: StateSpace,
    /// The base with how often it was written before; offset and bytes, where they are known.
    place: Option<(Option<(Reg, u32)>, i64, i64)>,
}

impl Access {
    fn of(inst: &Inst, versions: &[(u32, u32)], round: u32) -> Option<Self> {
        let writes = inst.class == OpClass::Store;
        if inst.class == OpClass::LoadMatrix {
            return Some(Self { writes, space: StateSpace::Shared, place: None });
        }
        let facts = weak(inst).filter(|_| writes || inst.class == OpClass::Load)?;
        if matches!(facts.space, StateSpace::Const | StateSpace::Param) || inst.form.mods.non_coherent {
            return None;
        }
        let base = match inst.src[0] {
            Operand::Reg(reg) => {
                let (of, version) = versions[reg as usize];
                Some(Some((reg, if of == round { version } else { 0 })))
            }
            Operand::None => Some(None),
            _ => None,
        };
        let bytes = i64::from(facts.element_bytes) * i64::from(facts.vector);
        Some(Self { writes, space: facts.space, place: base.map(|base| (base, inst.imm, bytes)) })
    }

    /// They may access the same bytes, and one of them writes.
    fn meets(&self, other: &Self) -> bool {
        let generic = StateSpace::Generic;
        if !(self.writes || other.writes) {
            return false;
        }
        if self.space != other.space {
            return self.space == generic || other.space == generic;
        }
        match (self.place, other.place) {
            (Some((a, at, bytes)), Some((b, other_at, other_bytes))) if a == b => {
                at < other_at + other_bytes && other_at < at + bytes
            }
            _ => true,
        }
    }
}

/// Cycles until a result can be used, as an assembler expects it.
fn latency(inst: &Inst) -> u32 {
    match (inst.class, &inst.extra) {
        (OpClass::Load, Extra::Memory(facts)) if facts.space == StateSpace::Shared => 24,
        (OpClass::Load, _) => 200,
        (OpClass::LoadMatrix, _) => 28,
        (OpClass::LoadParam, _) => 8,
        (OpClass::Mma, _) => 18,
        (OpClass::Data, _) => match inst.form.root {
            Root::Div | Root::Rem | Root::Sqrt | Root::Rcp => 40,
            // To a guard or a branch.
            Root::Setp => 13,
            Root::Sin | Root::Cos | Root::Ex2 | Root::Lg2 | Root::Rsqrt | Root::Tanh => 20,
            _ => 5,
        },
        _ => 1,
    }
}

/// Instructions between two that stay where they are.
#[derive(Clone)]
struct Piece<'p> {
    insts: &'p [Inst],
    /// By instruction: those that come after it, with the cycles between.
    after: Vec<Vec<(usize, u32)>>,
    /// By instruction: how many come before it.
    before: Vec<u32>,
    /// By instruction: cycles from it to the end.
    height: Vec<u32>,
    /// By instruction: the registers it reads and writes, each once, as numbers of this piece.
    reads: Vec<Vec<usize>>,
    writes: Vec<Vec<usize>>,
    /// By register of the piece: its words, how many instructions are left to read it, and whether it is read behind.
    words: Vec<i64>,
    left: Vec<u32>,
    outlives: Vec<bool>,
    /// Words that are live.
    live: i64,
    present: Vec<bool>,
}

impl<'p> Piece<'p> {
    fn new(insts: &'p [Inst], func: &Func, behind: &RegSet, outlive: i64) -> Self {
        let n = insts.len();
        let mut piece = Self {
            insts,
            after: vec![Vec::new(); n],
            before: vec![0; n],
            height: vec![0; n],
            reads: vec![Vec::new(); n],
            writes: vec![Vec::new(); n],
            words: Vec::new(),
            left: Vec::new(),
            outlives: Vec::new(),
            live: 0,
            present: Vec::new(),
        };
        let mut numbers = rustc_hash::FxHashMap::default();
        for (i, inst) in insts.iter().enumerate() {
            let mut number = |reg: Reg, to: &mut Vec<usize>| {
                let number = *numbers.entry(reg).or_insert_with(|| {
                    piece.words.push(i64::from(func.words(reg)));
                    piece.outlives.push(behind.contains(reg));
                    piece.words.len() - 1
                });
                if !to.contains(&number) {
                    to.push(number);
                }
            };
            inst.for_reads(|reg| number(reg, &mut piece.reads[i]));
            inst.for_writes(|reg| number(reg, &mut piece.writes[i]));
        }
        let registers = piece.words.len();
        piece.left = vec![0; registers];
        piece.present = vec![false; registers];
        piece.order_registers(registers);
        piece.order_accesses(func.regs.len());
        // What is read before it is written is there at the beginning.
        let mut written = vec![false; registers];
        for i in 0..n {
            for &reg in &piece.reads[i] {
                piece.left[reg] += 1;
                if !written[reg] {
                    piece.present[reg] = true;
                }
            }
            piece.writes[i].iter().for_each(|reg| written[*reg] = true);
        }
        let sum =
            |of: &[bool]| -> i64 { (0..registers).filter(|reg| of[*reg]).map(|reg| piece.words[reg]).sum() };
        piece.live = sum(&piece.present) + (outlive - sum(&piece.outlives)).max(0);
        for i in (0..n).rev() {
            count(1);
            let own = piece.after[i].iter().map(|(to, cycles)| piece.height[*to] + cycles).max();
            piece.height[i] = own.unwrap_or(0).max(latency(&insts[i]));
        }
        piece
    }

    fn follows(&mut self, from: usize, to: usize, cycles: u32) {
        if from != to {
            self.after[from].push((to, cycles));
            self.before[to] += 1;
        }
    }

    /// A read follows the last write, a write the last write and the reads since.
    fn order_registers(&mut self, registers: usize) {
        let mut writer: Vec<Option<usize>> = vec![None; registers];
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); registers];
        for i in 0..self.insts.len() {
            for reg in self.reads[i].clone() {
                if let Some(from) = writer[reg] {
                    self.follows(from, i, latency(&self.insts[from]));
                }
                readers[reg].push(i);
            }
            for reg in self.writes[i].clone() {
                if let Some(from) = writer[reg] {
                    self.follows(from, i, 1);
                }
                for from in std::mem::take(&mut readers[reg]) {
                    self.follows(from, i, 0);
                }
                writer[reg] = Some(i);
            }
        }
    }

    fn order_accesses(&mut self, registers: usize) {
        let mut versions =
            vec![
                (0, 0);
                if self.insts.iter().any(|inst| inst.class == OpClass::Store) { registers } else { 0 }
            ];
        if versions.is_empty() {
            return;
        }
        let mut seen: Vec<(usize, Access)> = Vec::new();
        for (i, inst) in self.insts.iter().enumerate() {
            if let Some(access) = Access::of(inst, &versions, 1) {
                let met: Vec<usize> =
                    seen.iter().filter(|(_, other)| access.meets(other)).map(|(from, _)| *from).collect();
                for from in met {
                    self.after[from].push((i, 1));
                    self.before[i] += 1;
                }
                seen.push((i, access));
            }
            inst.for_writes(|reg| {
                let (of, version) = versions[reg as usize];
                versions[reg as usize] = (1, if of == 1 { version + 1 } else { 1 });
            });
        }
    }

    /// How many words more are live once an instruction is done.
    fn growth(&self, i: usize) -> i64 {
        let mut growth = 0;
        for &reg in &self.writes[i] {
            let read = self.left[reg] > u32::from(self.reads[i].contains(&reg));
            if !self.present[reg] && (read || self.outlives[reg]) {
                growth += self.words[reg];
            }
        }
        for &reg in &self.reads[i] {
            if self.present[reg]
                && self.left[reg] == 1
                && !self.outlives[reg]
                && !self.writes[i].contains(&reg)
            {
                growth -= self.words[reg];
            }
        }
        growth
    }

    /// An order in which no instruction comes that is a stretch or more behind the first that is left.
    fn within(mut self, stretch: usize, limit: i64) -> Order {
        let n = self.insts.len();
        let total = self.height.iter().copied().max().unwrap_or(0);
        let mut ready: Vec<usize> = (0..n).filter(|i| self.before[*i] == 0).collect();
        let mut earliest = vec![0u32; n];
        let mut order = Vec::with_capacity(n);
        let (mut now, mut done, mut most) = (0, 0, self.live);
        while let Some(&first) = ready.first() {
            let room = limit - self.live;
            let near = ready.partition_point(|i| *i < first + stretch);
            let choice = ready.iter().enumerate().take(near.min(COMPARED)).map(|(place, &i)| {
                count(1);
                let growth = self.growth(i);
                // What needs no more room than there is comes first, then what waits least, then what most waits for.
                let early = (total - self.height[i]).saturating_sub(now) > EARLY;
                let off = growth > 0 && early && self.insts[i].class == OpClass::Data;
                let waits = earliest[i].saturating_sub(now) + if off { PUT_OFF } else { 0 };
                if growth <= room.max(0) {
                    (Reverse((0, i64::from(waits), -i64::from(self.height[i]), i)), place)
                } else {
                    (Reverse((1, growth, 0, i)), place)
                }
            });
            let Some((_, place)) = choice.max() else { break };
            let i = ready.remove(place);
            now = earliest[i].max(now) + 1;
            done = done.max(now + latency(&self.insts[i]));
            self.live += self.growth(i);
            most = most.max(self.live);
            for reg in self.reads[i].clone() {
                self.left[reg] -= 1;
                if self.left[reg] == 0 && !self.outlives[reg] {
                    self.present[reg] = false;
                }
            }
            for reg in self.writes[i].clone() {
                self.present[reg] = self.left[reg] > 0 || self.outlives[reg];
            }
            for (to, cycles) in std::mem::take(&mut self.after[i]) {
                earliest[to] = earliest[to].max(now - 1 + cycles);
                self.before[to] -= 1;
                if self.before[to] == 0 {
                    let place = ready.partition_point(|other| *other < to);
                    ready.insert(place, to);
                }
            }
            order.push(i);
        }
        Order { insts: order, issued: now, done, words: most }
    }
}

/// An order of the instructions of a piece, by their numbers, with what it costs.
struct Order {
    insts: Vec<usize>,
    /// Cycles until the last one has issued.
    issued: u32,
    /// Cycles until the last result can be used.
    done: u32,
    /// Words that are live at the most.
    words: i64,
}

impl Order {
    /// Time and registers together: beyond those that are `needed` anyhow, they take warps away in proportion; of the others fewer
    /// are better. What comes next may wait for the last result, or may not.
    fn cost(&self, needed: i64) -> i64 {
        let words = 100 * self.words.max(needed) + SPARED * self.words.min(needed);
        i64::from(self.issued + self.done) * words
    }
}

#[cfg(test)]
mod tests;
