//! Which registers, branches and instructions depend on values of some origin: a forward analysis
//! over a program with untransformed control flow. It marks registers that may hold such values, by
//! data and by control: a branch on one marks what is written up to where its paths meet.

use std::collections::BTreeSet;

use crate::lower::cfg::{Graph, components, dominators, reverse};
use crate::lower::work;
use crate::program::{Extra, Op, OpClass, Pc, Pred, Program, Row, SpecialRegister};
use crate::program_flow::successors;
use sim_memory::vocabulary::StateSpace;

/// Where the values come from that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// What other threads may have written or decide: memory, clocks, collectives.
    OtherThreads,
    /// What differs between the lanes of a warp: a branch on it may diverge, any other is uniform.
    Lanes,
}

/// Instructions that send threads to different places by values that may differ between the lanes
/// of a warp, by address; `None` for those that do not branch.
pub fn divergence(program: &Program) -> Vec<Option<bool>> {
    let analysis = Analysis::new(program, Origin::Lanes);
    (0..program.ops.len()).map(|pc| analysis.decides(pc).then(|| analysis.condition_is_marked(pc))).collect()
}

/// The marks.
pub struct Analysis<'p> {
    pub(crate) program: &'p Program,
    origin: Origin,
    /// By instruction: where control goes inside its function, and whether it may leave.
    next: Vec<(Vec<usize>, bool)>,
    /// Successors, calls led into functions and back.
    flow: Graph,
    /// By instruction: a bit for each register that is marked before it, rows first, then predicates.
    before: Vec<u64>,
    /// Words of an instruction's bits.
    words: usize,
    /// By instruction: whether it runs may depend on other threads.
    pub(crate) controlled: Vec<bool>,
    /// By function: it can call itself.
    pub(crate) recurs: Vec<bool>,
    pub(crate) function_of: Vec<usize>,
}

impl<'p> Analysis<'p> {
    /// Marks what depends on values of `origin`, in a program with untransformed control flow.
    pub fn new(program: &'p Program, origin: Origin) -> Self {
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
            origin,
            next: Vec::new(),
            flow: Vec::new(),
            before: vec![0; slots.div_ceil(64) * count],
            words: slots.div_ceil(64),
            controlled: vec![false; count],
            recurs: Vec::new(),
            function_of,
        };
        analysis.next = (0..count).map(|pc| analysis.find_next(pc)).collect();
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
    pub(crate) fn callees(&self, op: &Op) -> Vec<usize> {
        match op.class {
            OpClass::Call => self.function_of.get(op.target as usize).copied().into_iter().collect(),
            OpClass::CallIndirect => (0..self.program.functions.len()).collect(),
            _ => Vec::new(),
        }
    }

    /// Where control goes from `pc` inside its function, and whether it may leave.
    pub(crate) fn next(&self, pc: usize) -> (Vec<usize>, bool) {
        self.next[pc].clone()
    }

    fn find_next(&self, pc: usize) -> (Vec<usize>, bool) {
        let Some(function) = self.program.functions.get(self.function_of[pc]) else {
            return (Vec::new(), true);
        };
        let (to, leaves) = successors(self.program, pc as Pc, &(function.entry_pc..function.end_pc));
        (to.into_iter().map(|target| target as usize).collect(), leaves)
    }

    /// The graph of one function.
    pub(crate) fn within(&self, function: usize) -> Graph {
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
        calls.iter_mut().for_each(|own| {
            own.sort_unstable();
            own.dedup();
        });
        // One that is alone in its component recurs where it calls itself.
        let mut recurs: Vec<bool> = (0..count).map(|f| calls[f].contains(&f)).collect();
        // A node that leads to all.
        calls.push((0..count).collect());
        for (_, members) in components(&calls, count).into_iter().filter(|(_, members)| members.len() > 1) {
            members.into_iter().for_each(|f| recurs[f] = true);
        }
        recurs.truncate(count);
        recurs
    }

    /// Marks until nothing changes: what comes after each instruction whose marks have grown.
    fn spread(&mut self) {
        let count = self.program.ops.len();
        let joins: Vec<Option<usize>> = self.joins();
        // Local memory is marked as one: it holds frames and arrays.
        let mut local = false;
        let mut open: BTreeSet<usize> = (0..count).collect();
        let mut decided = vec![false; count];
        let mut seen = vec![usize::MAX; count];
        let mut after = vec![0u64; self.words];
        while let Some(pc) = open.pop_first() {
            work::count(1 + self.words);
            after.copy_from_slice(&self.before[pc * self.words..][..self.words]);
            if self.after(pc, local, &mut after) && !local {
                local = true;
                open.extend(0..count);
            }
            for &to in &self.flow[pc] {
                let mut changed = false;
                for (have, new) in self.before[to * self.words..].iter_mut().zip(&after) {
                    changed |= *new & !*have != 0;
                    *have |= *new;
                }
                if changed {
                    open.insert(to);
                }
            }
            if !decided[pc] && self.decides(pc) && self.condition_is_marked(pc) {
                decided[pc] = true;
                self.control(pc, joins[pc], &mut seen, &mut open);
            }
        }
    }

    /// Immediate post-dominators by instruction.
    fn joins(&self) -> Vec<Option<usize>> {
        let count = self.program.ops.len();
        let mut out = vec![None; count];
        for function in &self.program.functions {
            let first = function.entry_pc as usize;
            let own = first..(function.end_pc as usize).min(count);
            // One node an instruction of the function, then its end.
            let end = own.len();
            let mut graph: Graph = vec![Vec::new(); end + 1];
            for pc in own.clone() {
                let (to, leaves) = &self.next[pc];
                let to = to.iter().map(|to| to - first).chain(leaves.then_some(end));
                graph[pc - first] = to.collect();
            }
            let join = dominators(&reverse(&graph), end);
            for pc in own {
                out[pc] = join[pc - first].filter(|&join| join != end).map(|join| join + first);
            }
        }
        out
    }

    /// What the branch at `pc` reaches before `join` runs as other threads would have it, and so do
    /// the functions called there: what is new of it goes to `changed`.
    fn control(&mut self, pc: usize, join: Option<usize>, seen: &mut [usize], changed: &mut BTreeSet<usize>) {
        let mut open = self.next(pc).0;
        let calls = self.callees(&self.program.ops[pc]);
        open.extend(calls.iter().map(|&callee| self.program.functions[callee].entry_pc as usize));
        while let Some(at) = open.pop() {
            if Some(at) == join || std::mem::replace(&mut seen[at], pc) == pc {
                continue;
            }
            work::count(1);
            if !std::mem::replace(&mut self.controlled[at], true) {
                changed.insert(at);
            }
            open.extend(&self.next[at].0);
            for callee in self.callees(&self.program.ops[at]) {
                open.push(self.program.functions[callee].entry_pc as usize);
            }
        }
    }

    /// True if `pc` sends threads to different places.
    pub(crate) fn decides(&self, pc: usize) -> bool {
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

    pub(crate) fn condition_is_marked(&self, pc: usize) -> bool {
        let op = &self.program.ops[pc];
        let marked = |slot: usize| self.before[pc * self.words + slot / 64] >> (slot % 64) & 1 == 1;
        let guard = self.slot(op.guard).is_some_and(marked);
        let index = matches!(op.class, OpClass::BranchIndirect | OpClass::CallIndirect)
            && op.src[0].0 < Row::CONST
            && usize::from(op.src[0].0) < self.words * 64
            && marked(usize::from(op.src[0].0));
        guard || index
    }

    /// True if what the instruction brings differs between the lanes of a warp, whatever it reads.
    fn differs_by_lane(&self, pc: usize, local: bool) -> bool {
        let op = &self.program.ops[pc];
        let special =
            |row: &Row| self.program.specials.iter().find(|(r, _)| r == row).map(|(_, which)| *which);
        let space = match op.extra {
            Extra::Memory(facts) => Some(facts.space),
            _ => None,
        };
        match op.class {
            OpClass::Atomic | OpClass::Mbarrier | OpClass::Elect | OpClass::Shuffle | OpClass::Match => true,
            // Every thread has its own local memory: what is stored there decides.
            OpClass::Load if space == Some(StateSpace::Local) => local,
            OpClass::Load if space == Some(StateSpace::Generic) => true,
            _ => op.src.iter().filter_map(special).any(SpecialRegister::differs_by_lane),
        }
    }

    /// Makes of the registers marked before `pc` those after it; true if it stores a marked value to local
    /// memory.
    fn after(&self, pc: usize, local: bool, marks: &mut [u64]) -> bool {
        let op = &self.program.ops[pc];
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
        let reads_marked = all
            .iter()
            .filter(|slot| is_read(slot))
            .any(|slot| marks[place(*slot) / 64] >> (place(*slot) % 64) & 1 == 1);
        let memory = match op.extra {
            Extra::Memory(facts) => Some(facts.space),
            _ => None,
        };
        let foreign = match op.class {
            _ if self.origin == Origin::Lanes => self.differs_by_lane(pc, local),
            OpClass::Load => match memory {
                Some(StateSpace::Local) => local,
                Some(StateSpace::Const | StateSpace::Param) => false,
                _ => true,
            },
            OpClass::Atomic
            | OpClass::Mbarrier
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
            let (word, bit) = (&mut marks[at / 64], 1 << (at % 64));
            let keeps = op.guard != Pred::TRUE && *word & bit != 0;
            *word = if marked || keeps { *word | bit } else { *word & !bit };
        }
        // A generic address may be one of local memory.
        let to_local =
            op.class == OpClass::Store && !matches!(memory, Some(StateSpace::Global | StateSpace::Shared));
        to_local && (reads_marked || self.controlled[pc])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use crate::load::Module;
    use crate::program::ControlFlow;

    /// Branches of a kernel in order: true where they may diverge.
    fn branches(body: &str) -> Vec<bool> {
        let text = format!(
            ".version 6.0\n.target sm_30\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{{\n\
             .reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.local .u32 x;\n{body}\n}}\n"
        );
        let module = Module::build(&Source::new("u.ptx", &text), false);
        let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
        let program = module.program("k", &|_| Some(0), ControlFlow::Plain, 1024);
        let program = program.unwrap_or_else(|e| panic!("{}", e[0].render()));
        divergence(&program).into_iter().flatten().collect()
    }

    #[test]
    fn branches_on_blocks_and_parameters_are_uniform_and_on_threads_are_not() {
        let body = |source: &str| format!("{source}\nsetp.lt.u32 %p1, %r1, 7;\n@%p1 bra L;\nL: ret;");
        for uniform in [
            "mov.u32 %r1, %ctaid.x;",
            "ld.param.u32 %r1, [n];",
            "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1];",
            "mov.u32 %r1, %ntid.x; add.u32 %r1, %r1, 3;",
            "mov.u32 %r2, 5; st.local.u32 [x], %r2; ld.local.u32 %r1, [x];",
            "vote.ballot.b32 %r1, 1;",
        ] {
            assert_eq!(branches(&body(uniform)), [false], "{uniform}");
        }
        for divergent in [
            "mov.u32 %r1, %tid.x;",
            "mov.u32 %r2, %laneid; mul.lo.u32 %r1, %r2, 4;",
            "mov.u32 %r2, %tid.x; cvt.u64.u32 %rd1, %r2; ld.global.u32 %r1, [%rd1];",
            "mov.u32 %r2, %tid.x; st.local.u32 [x], %r2; ld.local.u32 %r1, [x];",
            "ld.param.u64 %rd1, [p]; atom.global.add.u32 %r1, [%rd1], 1;",
        ] {
            assert_eq!(branches(&body(divergent)), [true], "{divergent}");
        }
    }

    #[test]
    fn what_is_written_under_divergent_control_differs() {
        let body = "mov.u32 %r1, 0;\nmov.u32 %r2, %tid.x;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra J;\nmov.u32 %r1, 1;\n\
                    J: setp.eq.u32 %p2, %r1, 0;\n@%p2 bra E;\nE: ret;";
        assert_eq!(branches(body), [true, true]);
    }
}
