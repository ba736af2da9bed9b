//! Which loops of a program end whatever the schedule: SC §5.1, lemma 6 [sc-lemma6]. If each thread
//! alone ends however others change what it shares with them, the program ends under unfair policies
//! too. The criterion here is sufficient: a loop is called independent only if no value that another
//! thread may have written, and nothing that waits for other threads, decides whether it is left.
//!
//! A forward analysis marks registers that may hold such values, by data and by control: a branch on
//! one marks what is written up to where its paths meet. Recursion counts as a loop.

use crate::lower::cfg::{Graph, components, dominators, one_trip, reverse, reverse_post_order};
use crate::program::{Extra, Op, OpClass, Pc, Pred, Program, Row};
use crate::program_flow::successors;
use sim_memory::vocabulary::StateSpace;

/// What is known of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopFairness {
    /// The function it is in.
    pub function: String,
    /// First and last line of the source in it.
    pub lines: (u32, u32),
    /// It is a function that calls itself.
    pub recursion: bool,
    /// Verdict.
    pub verdict: Verdict,
}

/// Whether other threads can keep a loop going.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ends whenever each thread alone does.
    Independent,
    /// It may be affected by unfair scheduling.
    Affected {
        /// The line that makes it so.
        line: u32,
        /// In words.
        reason: &'static str,
    },
    /// Nothing leaves it.
    Endless,
}

/// The loops of a program with untransformed control flow, in the order of their lines.
pub fn loops(program: &Program) -> Vec<LoopFairness> {
    let analysis = Analysis::new(program);
    let mut out = Vec::new();
    for (index, function) in program.functions.iter().enumerate() {
        analysis.add_loops(&analysis.within(index), function.entry_pc as usize, index, &mut out);
        if analysis.recurs[index] {
            out.push(analysis.recursion(index));
        }
    }
    out.sort_by_key(|found| (found.lines, found.recursion));
    out
}

/// A set of registers, rows first, then predicates.
type Marks = Vec<bool>;

struct Analysis<'p> {
    program: &'p Program,
    /// Successors, calls led into functions and back.
    flow: Graph,
    /// By instruction: marked registers before it.
    before: Vec<Marks>,
    /// By instruction: whether it runs may depend on other threads.
    controlled: Vec<bool>,
    /// By function: it can call itself.
    recurs: Vec<bool>,
    function_of: Vec<usize>,
}

impl<'p> Analysis<'p> {
    fn new(program: &'p Program) -> Self {
        let count = program.ops.len();
        let mut function_of = vec![usize::MAX; count];
        for (index, function) in program.functions.iter().enumerate() {
            for pc in function.entry_pc..function.end_pc.min(count as Pc) {
                function_of[pc as usize] = index;
            }
        }
        let slots = usize::from(program.registers) + program.specials.len() + usize::from(program.predicates);
        let mut analysis = Self {
            program,
            flow: Vec::new(),
            before: vec![vec![false; slots]; count],
            controlled: vec![false; count],
            recurs: Vec::new(),
            function_of,
        };
        analysis.flow = analysis.whole_flow();
        analysis.recurs = analysis.recursive_functions();
        analysis.spread();
        analysis
    }

    fn slot(&self, pred: Pred) -> Option<usize> {
        let own = !pred.is_const() && pred.is_some();
        own.then(|| usize::from(self.program.registers) + self.program.specials.len() + pred.index())
    }

    /// Functions a call may lead to.
    fn callees(&self, op: &Op) -> Vec<usize> {
        match op.class {
            OpClass::Call => self.function_of.get(op.target as usize).copied().into_iter().collect(),
            OpClass::CallIndirect => (0..self.program.functions.len()).collect(),
            _ => Vec::new(),
        }
    }

    /// Where control goes from `pc` inside its function, and whether it may leave.
    fn next(&self, pc: usize) -> (Vec<usize>, bool) {
        let Some(function) = self.program.functions.get(self.function_of[pc]) else {
            return (Vec::new(), true);
        };
        let (to, leaves) = successors(self.program, pc as Pc, &(function.entry_pc..function.end_pc));
        (to.into_iter().map(|target| target as usize).collect(), leaves)
    }

    /// The graph of one function.
    fn within(&self, function: usize) -> Graph {
        (0..self.program.ops.len())
            .map(|pc| if self.function_of[pc] == function { self.next(pc).0 } else { Vec::new() })
            .collect()
    }

    fn whole_flow(&self) -> Graph {
        let ops = &self.program.ops;
        let mut flow: Graph = (0..ops.len()).map(|pc| self.next(pc).0).collect();
        for pc in 0..ops.len() {
            for callee in self.callees(&ops[pc]) {
                let function = &self.program.functions[callee];
                flow[pc].push(function.entry_pc as usize);
                for inner in function.entry_pc..function.end_pc {
                    if ops[inner as usize].class == OpClass::Return && pc + 1 < ops.len() {
                        flow[inner as usize].push(pc + 1);
                    }
                }
            }
        }
        flow
    }

    fn recursive_functions(&self) -> Vec<bool> {
        let count = self.program.functions.len();
        let mut calls: Graph = vec![Vec::new(); count];
        for (pc, op) in self.program.ops.iter().enumerate() {
            if let Some(own) = calls.get_mut(self.function_of[pc]) {
                own.extend(self.callees(op));
            }
        }
        let reaches = |from: usize| {
            calls[from].iter().any(|&to| to == from || reverse_post_order(&calls, to).contains(&from))
        };
        (0..count).map(reaches).collect()
    }

    /// Marks until nothing changes.
    fn spread(&mut self) {
        let count = self.program.ops.len();
        let joins: Vec<Option<usize>> = self.joins();
        // Local memory is marked as one: it holds frames and arrays.
        let mut local = false;
        loop {
            let mut changed = false;
            for pc in 0..count {
                let (after, stores) = self.after(pc, local);
                changed |= stores && !local;
                local |= stores;
                for to in self.flow[pc].clone() {
                    for (have, new) in self.before[to].iter_mut().zip(&after) {
                        changed |= *new && !*have;
                        *have |= *new;
                    }
                }
                if self.decides(pc) && self.condition_is_marked(pc) {
                    changed |= self.control(pc, joins[pc]);
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Immediate post-dominators by instruction.
    fn joins(&self) -> Vec<Option<usize>> {
        let count = self.program.ops.len();
        let mut out = vec![None; count];
        for function in &self.program.functions {
            let own = function.entry_pc as usize..(function.end_pc as usize).min(count);
            let mut graph: Graph = vec![Vec::new(); count + 1];
            for pc in own.clone() {
                let (to, leaves) = self.next(pc);
                graph[pc] = to;
                if leaves {
                    graph[pc].push(count);
                }
            }
            let join = dominators(&reverse(&graph), count);
            for pc in own {
                out[pc] = join[pc].filter(|&join| join != count);
            }
        }
        out
    }

    /// What the branch at `pc` reaches before `join` runs as other threads would have it, and so do
    /// the functions called there.
    fn control(&mut self, pc: usize, join: Option<usize>) -> bool {
        let mut changed = false;
        let mut open = self.next(pc).0;
        let calls = self.callees(&self.program.ops[pc]);
        open.extend(calls.iter().map(|&callee| self.program.functions[callee].entry_pc as usize));
        let mut seen = vec![false; self.program.ops.len()];
        while let Some(at) = open.pop() {
            if Some(at) == join || std::mem::replace(&mut seen[at], true) {
                continue;
            }
            changed |= !std::mem::replace(&mut self.controlled[at], true);
            open.extend(self.next(at).0);
            for callee in self.callees(&self.program.ops[at]) {
                open.push(self.program.functions[callee].entry_pc as usize);
            }
        }
        changed
    }

    /// True if `pc` sends threads to different places.
    fn decides(&self, pc: usize) -> bool {
        let op = &self.program.ops[pc];
        let guarded = op.guard != Pred::TRUE;
        matches!(op.class, OpClass::BranchIndirect | OpClass::CallIndirect)
            || guarded
                && matches!(
                    op.class,
                    OpClass::Branch
                        | OpClass::Return
                        | OpClass::Exit
                        | OpClass::Call
                        | OpClass::Sync
                        | OpClass::Break
                )
    }

    fn condition_is_marked(&self, pc: usize) -> bool {
        let op = &self.program.ops[pc];
        let guard = self.slot(op.guard).is_some_and(|slot| self.before[pc][slot]);
        let index = matches!(op.class, OpClass::BranchIndirect | OpClass::CallIndirect)
            && op.src[0].0 < Row::CONST
            && self.before[pc].get(usize::from(op.src[0].0)).copied().unwrap_or(false);
        guard || index
    }

    /// Registers marked after `pc`, and whether it stores a marked value to local memory.
    fn after(&self, pc: usize, local: bool) -> (Marks, bool) {
        let op = &self.program.ops[pc];
        let mut marks = self.before[pc].clone();
        let rows = usize::from(self.program.registers);
        let preds = rows + self.program.specials.len();
        // The scoreboard's slots leave the special registers' rows out.
        let place = |slot: u16| {
            let slot = usize::from(slot);
            if slot < rows { slot } else { preds + slot - rows }
        };
        let all = &op.slots[..usize::from(op.slots_used)];
        let written = &op.slots[..usize::from(op.slots_written)];
        let reads_row = |slot: u16| {
            let near = |row: &Row| row.is_some() && (row.0 == slot || row.0 + 1 == slot);
            usize::from(slot) < rows && op.src.iter().any(near)
        };
        let reads_pred = |at: usize| op.psrc.iter().chain([&op.guard]).any(|&p| self.slot(p) == Some(at));
        let is_read = |slot: &u16| !written.contains(slot) || reads_row(*slot) || reads_pred(place(*slot));
        let reads_marked = all.iter().filter(|slot| is_read(slot)).any(|slot| marks[place(*slot)]);
        let memory = match op.extra {
            Extra::Memory(facts) => Some(facts.space),
            _ => None,
        };
        let foreign = match op.class {
            OpClass::Load => match memory {
                Some(StateSpace::Local) => local,
                Some(StateSpace::Const | StateSpace::Param) => false,
                _ => true,
            },
            OpClass::Atomic
            | OpClass::Clock
            | OpClass::Vote
            | OpClass::Shuffle
            | OpClass::Match
            | OpClass::Redux
            | OpClass::Elect
            | OpClass::ActiveMask
            | OpClass::Barrier => true,
            _ => false,
        };
        let marked = foreign || reads_marked || self.controlled[pc];
        for slot in written {
            let at = place(*slot);
            let keeps = op.guard != Pred::TRUE && marks[at];
            marks[at] = marked || keeps;
        }
        // A generic address may be one of local memory.
        let to_local =
            op.class == OpClass::Store && !matches!(memory, Some(StateSpace::Global | StateSpace::Shared));
        (marks, to_local && (reads_marked || self.controlled[pc]))
    }

    /// The loops of a graph from `entry`, outer ones first.
    fn add_loops(&self, graph: &Graph, entry: usize, function: usize, out: &mut Vec<LoopFairness>) {
        for (head, nodes) in components(graph, entry) {
            if nodes.len() == 1 && !graph[head].contains(&head) {
                continue;
            }
            let mut members = vec![false; graph.len()];
            nodes.iter().for_each(|&node| members[node] = true);
            out.push(LoopFairness {
                function: self.program.functions[function].name.to_string(),
                lines: self.lines(&members),
                recursion: false,
                verdict: self.verdict(&members),
            });
            self.add_loops(&one_trip(graph, head, &nodes), head, function, out);
        }
    }

    fn lines(&self, members: &[bool]) -> (u32, u32) {
        let lines =
            || members.iter().enumerate().filter(|(_, m)| **m).map(|(pc, _)| self.program.info[pc].line);
        (lines().filter(|line| *line > 0).min().unwrap_or(0), lines().max().unwrap_or(0))
    }

    /// The functions that `members` call, and those they call.
    fn with_callees(&self, members: &[bool]) -> Vec<bool> {
        let mut all = members.to_vec();
        loop {
            let mut changed = false;
            for pc in (0..all.len()).filter(|&pc| all[pc]).collect::<Vec<_>>() {
                for callee in self.callees(&self.program.ops[pc]) {
                    let function = &self.program.functions[callee];
                    for inner in function.entry_pc..function.end_pc {
                        changed |= !std::mem::replace(&mut all[inner as usize], true);
                    }
                }
            }
            if !changed {
                return all;
            }
        }
    }

    fn affected(&self, pc: usize, reason: &'static str) -> Verdict {
        Verdict::Affected { line: self.program.info[pc].line, reason }
    }

    fn verdict(&self, members: &[bool]) -> Verdict {
        let all = self.with_callees(members);
        let ops = &self.program.ops;
        // What a thread does in here by itself, it cannot do where it waits for others.
        let waits = |&pc: &usize| {
            all[pc]
                && (ops[pc].class == OpClass::Barrier
                    || matches!(
                        ops[pc].class,
                        OpClass::WarpSync | OpClass::Match | OpClass::Redux | OpClass::Elect
                    )
                    || matches!(
                        ops[pc].extra,
                        Extra::Vote { sync: true, .. } | Extra::Shuffle { sync: true, .. }
                    ))
        };
        if let Some(pc) = (0..ops.len()).find(waits) {
            return self.affected(pc, "waits here for other threads");
        }
        let exits: Vec<usize> = (0..ops.len())
            .filter(|&pc| members[pc])
            .filter(|&pc| {
                let (to, leaves) = self.next(pc);
                leaves || to.iter().any(|&to| !members[to])
            })
            .collect();
        // A call in the loop may end the thread.
        let ends = |&pc: &usize| all[pc] && !members[pc] && ops[pc].class == OpClass::Exit;
        let inner_exit = (0..ops.len()).find(ends);
        if exits.is_empty() && inner_exit.is_none() {
            return Verdict::Endless;
        }
        for &pc in exits.iter().chain(&inner_exit) {
            if self.condition_is_marked(pc) {
                return self.affected(pc, "is left here by a value that other threads may write");
            }
            if self.controlled[pc] {
                return self.affected(pc, "comes to this way out by a value that other threads may write");
            }
        }
        // A way round that meets no such exit, chosen by a marked branch.
        let mut round: Graph = vec![Vec::new(); ops.len()];
        for pc in (0..ops.len()).filter(|&pc| members[pc] && !exits.contains(&pc)) {
            round[pc] =
                self.next(pc).0.into_iter().filter(|to| members[*to] && !exits.contains(to)).collect();
        }
        let marked = |&pc: &usize| all[pc] && self.decides(pc) && self.condition_is_marked(pc);
        for pc in (0..ops.len()).filter(marked) {
            let comes_back =
                round[pc].iter().any(|&to| to == pc || reverse_post_order(&round, to).contains(&pc));
            // In a function called here: its own loops decide.
            let elsewhere = !members[pc] && self.loops_in_function(pc);
            if comes_back || elsewhere {
                return self.affected(pc, "may go round here by a value that other threads may write");
            }
        }
        Verdict::Independent
    }

    /// True if the function of `pc` has a loop or recurs.
    fn loops_in_function(&self, pc: usize) -> bool {
        let function = self.function_of[pc];
        let graph = self.within(function);
        let own = &self.program.functions[function];
        let cycle = (own.entry_pc as usize..own.end_pc as usize)
            .any(|at| graph[at].iter().any(|&to| to == at || reverse_post_order(&graph, to).contains(&at)));
        self.recurs[function] || cycle
    }

    fn recursion(&self, function: usize) -> LoopFairness {
        let own = &self.program.functions[function];
        let members: Vec<bool> =
            (0..self.program.ops.len()).map(|pc| (own.entry_pc..own.end_pc).contains(&(pc as Pc))).collect();
        let all = self.with_callees(&members);
        let marked = |&pc: &usize| {
            all[pc]
                && (self.decides(pc) && self.condition_is_marked(pc)
                    || self.controlled[pc] && self.decides(pc))
        };
        let verdict = match (0..self.program.ops.len()).find(marked) {
            Some(pc) => self.affected(pc, "recurs or not by a value that other threads may write"),
            None => Verdict::Independent,
        };
        LoopFairness { function: own.name.to_string(), lines: self.lines(&members), recursion: true, verdict }
    }
}

#[cfg(test)]
mod tests;
