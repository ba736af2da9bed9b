//! Which loops of a program end whatever the schedule: SC §5.1, lemma 6 [sc-lemma6]. If each thread
//! alone ends however others change what it shares with them, the program ends under unfair policies
//! too. The criterion here is sufficient: a loop is called independent only if no value that another
//! thread may have written, and nothing that waits for other threads, decides whether it is left.
//!
//! [`Analysis`] marks registers that may hold such values. Recursion counts as a loop.

use crate::dependence::{Analysis, Origin};
use std::ops::Range;

use crate::lower::cfg::{Graph, LoopNest, components};
use crate::lower::work;
use crate::program::{Extra, Op, OpClass, Program};

/// What is known of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopFairness {
    /// The function it is in.
    pub function: String,
    /// First and last line of the source in it.
    pub lines: (u32, u32),
    /// It is a function that calls itself.
    pub recursion: bool,
    /// Whether unfair scheduling may keep it from terminating.
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
        /// The reason, in words.
        reason: &'static str,
    },
    /// No thread can leave the loop.
    Endless,
}

/// Loops within more than so many others are not looked into: each is read once for each loop around it.
const DEEPEST: usize = 64;

/// The loops of a program with untransformed control flow, in the order of their lines.
pub fn loops(program: &Program) -> Vec<LoopFairness> {
    let analysis = Analysis::new(program, Origin::OtherThreads);
    let callees = Callees::new(&analysis);
    let mut out = Vec::new();
    let mut inside = vec![u32::MAX; program.ops.len()];
    for (index, function) in program.functions.iter().enumerate() {
        let (first, graph) = analysis.within(index);
        analysis.add_loops(&callees, index, first, &graph, &mut inside, &mut out);
        if analysis.recurs[index] {
            out.push(LoopFairness {
                function: function.name.to_string(),
                lines: analysis.lines(first..first + graph.len()),
                recursion: true,
                verdict: match callees.of[callees.part[index]].decided {
                    Some(pc) => {
                        analysis.affected(pc, "the recursion depends on a value that other threads may write")
                    }
                    None => Verdict::Independent,
                },
            });
        }
    }
    out.sort_by_key(|found| (found.lines, found.recursion));
    out
}

/// The first address of each of two functions.
#[derive(Clone, Copy, Debug, Default)]
struct Firsts([Option<(usize, usize)>; 2]);

impl Firsts {
    fn add(&mut self, pc: usize, function: usize) {
        let mut all = [self.0[0], self.0[1], Some((pc, function))];
        all.sort_by_key(|found| found.map_or(usize::MAX, |(pc, _)| pc));
        let other = |found: &(usize, usize)| all[0].is_some_and(|(_, first)| first != found.1);
        self.0 = [all[0], all[1..].iter().flatten().copied().find(other)];
    }

    fn merge(&mut self, other: &Self) {
        other.0.iter().flatten().for_each(|&(pc, function)| self.add(pc, function));
    }

    /// The first one that is not in `function`.
    fn outside(&self, function: usize) -> Option<usize> {
        self.0.iter().flatten().find(|(_, own)| *own != function).map(|(pc, _)| *pc)
    }
}

/// What there is in functions and in those they call.
#[derive(Clone, Debug, Default)]
struct Summary {
    /// The first operation that waits for other threads.
    waits: Option<usize>,
    /// The first ones that end threads.
    ends: Firsts,
    /// The first branches on marked values in functions that have a loop or recur.
    turns: Firsts,
    /// The first branch that depends on other threads, by its condition or in whether it runs.
    decided: Option<usize>,
}

impl Summary {
    fn merge(&mut self, other: &Self) {
        let first =
            |own: &mut Option<usize>, other: Option<usize>| *own = (*own).into_iter().chain(other).min();
        first(&mut self.waits, other.waits);
        first(&mut self.decided, other.decided);
        self.ends.merge(&other.ends);
        self.turns.merge(&other.turns);
    }
}

/// What calls lead to.
struct Callees {
    /// By function: its component of the graph of calls.
    part: Vec<usize>,
    /// What calls to each component lead to, by component.
    of: Vec<Summary>,
    /// All functions, which indirect calls lead to.
    all: Summary,
    /// By function: operations that end threads, and marked branches if it has a loop or recurs.
    own: Vec<(Vec<usize>, Vec<usize>)>,
}

impl Callees {
    fn new(analysis: &Analysis<'_>) -> Self {
        let program = analysis.program;
        let count = program.functions.len();
        let mut own = Vec::with_capacity(count);
        let mut single = Vec::with_capacity(count);
        for (index, function) in program.functions.iter().enumerate() {
            let pcs = || function.entry_pc as usize..(function.end_pc as usize).min(program.ops.len());
            let turns = analysis.recurs[index] || is_cyclic(&analysis.within(index).1);
            let marked = |pc: &usize| analysis.decides(*pc) && analysis.condition_is_marked(*pc);
            let decided = |pc: &usize| marked(pc) || analysis.decides(*pc) && analysis.controlled[*pc];
            let ends: Vec<usize> = pcs().filter(|pc| program.ops[*pc].class == OpClass::Exit).collect();
            let turns: Vec<usize> = pcs().filter(|_| turns).filter(marked).collect();
            let mut summary = Summary {
                waits: pcs().find(|pc| waits(&program.ops[*pc])),
                decided: pcs().find(decided),
                ..Summary::default()
            };
            ends.first().iter().for_each(|pc| summary.ends.add(**pc, index));
            turns.first().iter().for_each(|pc| summary.turns.add(**pc, index));
            own.push((ends, turns));
            single.push(summary);
        }
        let mut all = Summary::default();
        single.iter().for_each(|summary| all.merge(summary));
        // Components of the graph of calls, those that are called first; its last nodes are no functions.
        let graph = &analysis.calls;
        let mut part = vec![usize::MAX; graph.len()];
        let mut of: Vec<Summary> = Vec::new();
        for (_, members) in components(graph, graph.len() - 1).into_iter().rev() {
            let mut summary = Summary::default();
            for &member in &members {
                single.get(member).iter().for_each(|own| summary.merge(own));
                for &callee in &graph[member] {
                    of.get(part[callee]).iter().for_each(|called| summary.merge(called));
                }
            }
            members.iter().for_each(|&member| part[member] = of.len());
            of.push(summary);
        }
        Self { part, of, all, own }
    }
}

/// True if a thread waits here for others: what it does by itself it cannot do then.
fn waits(op: &Op) -> bool {
    let alone = matches!(op.extra, Extra::Vote { sync: false, .. } | Extra::Shuffle { sync: false, .. });
    op.class.effects().waits && !alone
}

impl Analysis<'_> {
    /// The loops of a function, whose graph begins at the address `first`, outer ones first. `inside` is for
    /// notes by address.
    fn add_loops(
        &self,
        callees: &Callees,
        function: usize,
        first: usize,
        graph: &Graph,
        inside: &mut [u32],
        out: &mut Vec<LoopFairness>,
    ) {
        if graph.is_empty() {
            return;
        }
        let nest = LoopNest::new(graph, 0);
        let name = &self.program.functions[function].name;
        // Ends of the loops around.
        let mut around: Vec<usize> = Vec::new();
        let mut all_lines = vec![(u32::MAX, 0); nest.loops.len()];
        // Lines of loops within others count for those too.
        for (i, own) in nest.loops.iter().enumerate().rev() {
            let mut at = own.start;
            let mut inner = i + 1;
            while at < own.end {
                work::count(1);
                if let Some(next) = nest.loops.get(inner).filter(|next| next.start == at && at > own.start) {
                    let lines = all_lines[inner];
                    let own: &mut (u32, u32) = &mut all_lines[i];
                    *own = (own.0.min(lines.0), own.1.max(lines.1));
                    at = next.end;
                    inner += nest.loops[inner..].partition_point(|other| other.start < at);
                    continue;
                }
                let line = self.program.info[first + nest.order[at]].line;
                let own = &mut all_lines[i];
                *own = (if line > 0 { own.0.min(line) } else { own.0 }, own.1.max(line));
                at += 1;
            }
        }
        for (own, lines) in nest.loops.iter().zip(all_lines) {
            while around.last().is_some_and(|end| *end <= own.start) {
                around.pop();
            }
            around.push(own.end);
            let verdict = if around.len() > DEEPEST {
                let reason = "is nested in more than 63 loops and is not analysed";
                self.affected(first + nest.order[own.start], reason)
            } else {
                let mut members: Vec<usize> =
                    nest.order[own.clone()].iter().map(|node| first + node).collect();
                members.sort_unstable();
                self.verdict(callees, function, &members, inside)
            };
            let lines = (if lines.0 == u32::MAX { 0 } else { lines.0 }, lines.1);
            out.push(LoopFairness { function: name.to_string(), lines, recursion: false, verdict });
        }
    }

    fn lines(&self, pcs: Range<usize>) -> (u32, u32) {
        let lines = || pcs.clone().map(|pc| self.program.info[pc].line);
        (lines().filter(|line| *line > 0).min().unwrap_or(0), lines().max().unwrap_or(0))
    }

    fn affected(&self, pc: usize, reason: &'static str) -> Verdict {
        Verdict::Affected { line: self.program.info[pc].line, reason }
    }

    /// What can be said of the loop of `members`, ascending addresses of a function.
    fn verdict(&self, callees: &Callees, function: usize, members: &[usize], notes: &mut [u32]) -> Verdict {
        work::count(members.len());
        let ops = &self.program.ops;
        members.iter().zip(0..).for_each(|(&pc, place)| notes[pc] = place);
        let inside = |pc: usize| {
            let place = notes[pc] as usize;
            members.get(place) == Some(&pc)
        };
        let mut called = Summary::default();
        // Functions that are called here may call this one.
        let mut again = false;
        for &pc in members {
            match ops[pc].class {
                OpClass::CallIndirect => {
                    called.merge(&callees.all);
                    again = true;
                }
                OpClass::Call => self.callees(&ops[pc]).into_iter().for_each(|callee| {
                    called.merge(&callees.of[callees.part[callee]]);
                    again |= callees.part[callee] == callees.part[function];
                }),
                _ => {}
            }
        }
        let elsewhere = |found: &Firsts, own: &[usize]| {
            let here = own.iter().copied().filter(|_| again).find(|pc| !inside(*pc));
            found.outside(function).into_iter().chain(here).min()
        };
        let waits = members.iter().copied().find(|&pc| waits(&ops[pc]));
        if let Some(pc) = waits.into_iter().chain(called.waits).min() {
            return self.affected(pc, "waits here for other threads");
        }
        let leaves = |pc: usize| {
            let (to, leaves) = self.next(pc);
            *leaves || to.iter().any(|&to| !inside(to))
        };
        let is_exit: Vec<bool> = members.iter().map(|&pc| leaves(pc)).collect();
        let mut exits: Vec<usize> =
            members.iter().zip(&is_exit).filter(|(_, exit)| **exit).map(|(pc, _)| *pc).collect();
        // A call in the loop may end the thread.
        exits.extend(elsewhere(&called.ends, &callees.own[function].0));
        if exits.is_empty() {
            return Verdict::Endless;
        }
        for pc in exits {
            if self.condition_is_marked(pc) {
                return self.affected(pc, "exits here depending on a value that other threads may write");
            }
            if self.controlled[pc] {
                return self
                    .affected(pc, "reaches this exit depending on a value that other threads may write");
            }
        }
        // A way round that meets no such exit, chosen by a marked branch.
        let marked = |place: &usize| {
            let pc = members[*place];
            !is_exit[*place] && self.decides(pc) && self.condition_is_marked(pc)
        };
        let marked: Vec<usize> = (0..members.len()).filter(marked).collect();
        let round = |place: usize| -> Vec<usize> {
            let to = self.next(members[place]).0.iter().map(|&to| notes[to] as usize);
            to.filter(|to| !is_exit[*to]).collect()
        };
        let comes_back = (!marked.is_empty()).then(|| {
            let mut graph: Graph = (0..members.len())
                .map(|place| if is_exit[place] { Vec::new() } else { round(place) })
                .collect();
            let cyclic = on_cycles(&mut graph);
            marked.iter().copied().find(|place| cyclic[*place]).map(|place| members[place])
        });
        // In a function called here its own loops decide.
        let inner = elsewhere(&called.turns, &callees.own[function].1);
        match comes_back.flatten().into_iter().chain(inner).min() {
            Some(pc) => {
                self.affected(pc, "may iterate again depending on a value that other threads may write")
            }
            None => Verdict::Independent,
        }
    }
}

/// By node: it lies on a cycle.
fn on_cycles(graph: &mut Graph) -> Vec<bool> {
    let n = graph.len();
    let mut found: Vec<bool> = graph.iter().enumerate().map(|(node, to)| to.contains(&node)).collect();
    // A node that leads to all.
    graph.push((0..n).collect());
    for (_, members) in components(graph, n).into_iter().filter(|(_, members)| members.len() > 1) {
        members.into_iter().for_each(|node| found[node] = true);
    }
    found
}

/// True if a graph has a cycle.
fn is_cyclic(graph: &Graph) -> bool {
    on_cycles(&mut graph.clone()).contains(&true)
}

#[cfg(test)]
mod tests;
