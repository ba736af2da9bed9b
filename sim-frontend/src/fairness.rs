//! Which loops of a program end whatever the schedule: SC §5.1, lemma 6 [sc-lemma6]. If each thread
//! alone ends however others change what it shares with them, the program ends under unfair policies
//! too. The criterion here is sufficient: a loop is called independent only if no value that another
//! thread may have written, and nothing that waits for other threads, decides whether it is left.
//!
//! [`Analysis`] marks registers that may hold such values. Recursion counts as a loop.

use crate::dependence::{Analysis, Origin};
use crate::lower::cfg::{Graph, components, one_trip, reverse_post_order};
use crate::program::{Extra, OpClass, Pc, Program};

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
    let analysis = Analysis::new(program, Origin::OtherThreads);
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

impl Analysis<'_> {
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
