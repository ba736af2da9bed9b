//! Which registers, branches and instructions depend on values of some origin: a forward analysis
//! over a program with untransformed control flow. It marks registers that may hold such values, by
//! data and by control: a branch on one marks what is written up to where its paths meet.

use std::collections::BTreeSet;

use crate::lower::cfg::{Graph, components, dominators, reverse, reverse_post_order};
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

/// The first instruction whose part in the synchronization of a block depends on what other threads write or decide: a barrier, a
/// collective or an access to shared memory that runs, names its barrier or finds its address by such a value.
pub fn decided_by_others(program: &Program) -> Option<Pc> {
    let analysis = Analysis::new(program, Origin::OtherThreads);
    let synchronizes = |op: &Op| match op.class {
        OpClass::Load | OpClass::Store | OpClass::Atomic => {
            op.extra.access().is_some_and(|m| matches!(m.space, StateSpace::Shared | StateSpace::Generic))
        }
        class => class.effects().waits || matches!(class, OpClass::Copy | OpClass::Mbarrier),
    };
    let ops = program.ops.iter().enumerate().filter(|(_, op)| synchronizes(op));
    let decided = |(pc, op): &(usize, &Op)| {
        let rows = match op.class {
            OpClass::Barrier => &op.src[..2],
            OpClass::WarpSync => &op.src[..1],
            OpClass::Load | OpClass::Store | OpClass::Atomic => &op.src[..1],
            _ => &[],
        };
        let named = rows.iter().any(|row| analysis.row_is_marked(*pc, *row));
        analysis.controlled[*pc] || named || analysis.guard_is_marked(*pc)
    };
    ops.filter(decided).map(|(pc, _)| pc as Pc).next()
}

/// Where paths meet, and what has been gone through of that.
struct Meets {
    /// By instruction: its immediate post-dominator, if that is not the end of the function.
    join: Vec<Option<usize>>,
    /// By instruction: no way leads to the end of its function.
    lost: Vec<bool>,
    /// By instruction: how many others lie above it in the tree of post-dominators.
    depth: Vec<u32>,
    /// By instruction: itself, or once it is marked one that lies above it; `u32::MAX` beyond the last.
    up: Vec<u32>,
    /// By node: all that can be reached from it is marked.
    flooded: Vec<bool>,
    /// By node: the branch that it was gone through for last.
    seen: Vec<usize>,
}

impl Meets {
    /// The first of an instruction and those above it that is not marked.
    fn unmarked(&mut self, mut at: usize) -> Option<usize> {
        loop {
            let next = *self.up.get(at)? as usize;
            if next == at {
                return Some(at);
            }
            work::count(1);
            let after = *self.up.get(next)?;
            self.up[at] = after;
            at = after as usize;
        }
    }
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
    /// Who calls whom: the functions, then a node for what indirect calls lead to, all functions, and one that
    /// leads to every node.
    pub(crate) calls: Graph,
    /// By function: it can call itself.
    pub(crate) recurs: Vec<bool>,
    pub(crate) function_of: Vec<usize>,
    /// What a branch decides is found by following its paths, however often others did.
    by_steps: bool,
}

impl<'p> Analysis<'p> {
    /// Marks what depends on values of `origin`, in a program with untransformed control flow.
    pub fn new(program: &'p Program, origin: Origin) -> Self {
        Self::with(program, origin, false)
    }

    fn with(program: &'p Program, origin: Origin, by_steps: bool) -> Self {
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
            before: vec![0; slots.div_ceil(64) * (count + program.functions.len() + 2)],
            words: slots.div_ceil(64),
            controlled: vec![false; count],
            calls: Vec::new(),
            recurs: Vec::new(),
            function_of,
            by_steps,
        };
        analysis.next = (0..count).map(|pc| analysis.find_next(pc)).collect();
        analysis.flow = analysis.whole_flow();
        analysis.calls = analysis.who_calls();
        analysis.recurs = analysis.recursive_functions();
        analysis.spread();
        analysis
    }

    fn slot(&self, pred: Pred) -> Option<usize> {
        let own = !pred.is_const() && pred.is_some();
        own.then(|| usize::from(self.program.registers) + self.program.specials.len() + pred.index())
    }

    /// Functions a call may lead to.
    pub(crate) fn callees(&self, op: &Op) -> Option<usize> {
        let call = op.class == OpClass::Call;
        self.function_of.get(op.target as usize).copied().filter(|function| call && *function != usize::MAX)
    }

    /// Where control goes from `pc` inside its function, and whether it may leave.
    pub(crate) fn next(&self, pc: usize) -> &(Vec<usize>, bool) {
        &self.next[pc]
    }

    fn find_next(&self, pc: usize) -> (Vec<usize>, bool) {
        let Some(function) = self.program.functions.get(self.function_of[pc]) else {
            return (Vec::new(), true);
        };
        let (to, leaves) = successors(self.program, pc as Pc, &(function.entry_pc..function.end_pc));
        (to.into_iter().map(|target| target as usize).collect(), leaves)
    }

    /// The address at which a function begins, and its graph from there on.
    pub(crate) fn within(&self, function: usize) -> (usize, Graph) {
        let own = &self.program.functions[function];
        let first = own.entry_pc as usize;
        let pcs = first..(own.end_pc as usize).min(self.program.ops.len());
        (first, pcs.map(|pc| self.next(pc).0.iter().map(|to| to - first).collect()).collect())
    }

    /// Nodes behind the instructions: where each function comes back to, then where indirect calls lead to,
    /// and come back to.
    fn whole_flow(&self) -> Graph {
        let (ops, functions) = (&self.program.ops, &self.program.functions);
        let (count, number) = (ops.len(), functions.len());
        let (indirect, back) = (count + number, count + number + 1);
        let mut flow: Graph = (0..count).map(|pc| self.next(pc).0.clone()).collect();
        flow.resize(back + 1, Vec::new());
        for (index, function) in functions.iter().enumerate() {
            flow[indirect].push(function.entry_pc as usize);
            flow[count + index].push(back);
        }
        for pc in 0..count {
            let index = self.function_of[pc];
            let called = match ops[pc].class {
                OpClass::Return if index != usize::MAX => {
                    flow[pc].push(count + index);
                    None
                }
                OpClass::CallIndirect => Some((indirect, back)),
                _ => self.callees(&ops[pc]).map(|f| (functions[f].entry_pc as usize, count + f)),
            };
            if let Some((to, from)) = called {
                flow[pc].push(to);
                if pc + 1 < count {
                    flow[from].push(pc + 1);
                }
            }
        }
        flow
    }

    fn who_calls(&self) -> Graph {
        let count = self.program.functions.len();
        let mut calls: Graph = vec![Vec::new(); count];
        for (pc, op) in self.program.ops.iter().enumerate() {
            if let Some(own) = calls.get_mut(self.function_of[pc]) {
                own.extend(self.callees(op));
                own.extend((op.class == OpClass::CallIndirect).then_some(count));
            }
        }
        calls.iter_mut().for_each(|own| {
            own.sort_unstable();
            own.dedup();
        });
        calls.push((0..count).collect());
        calls.push((0..=count).collect());
        calls
    }

    fn recursive_functions(&self) -> Vec<bool> {
        let count = self.program.functions.len();
        // One that is alone in its component recurs where it calls itself.
        let mut recurs: Vec<bool> = self.calls.iter().zip(0..).map(|(own, f)| own.contains(&f)).collect();
        let parts = components(&self.calls, count + 1);
        for (_, members) in parts.into_iter().filter(|(_, members)| members.len() > 1) {
            members.into_iter().for_each(|f| recurs[f] = true);
        }
        recurs.truncate(count);
        recurs
    }

    /// Marks until nothing changes: what comes after each instruction whose marks have grown.
    fn spread(&mut self) {
        let count = self.program.ops.len();
        let mut meets = self.meets();
        let again = self.by_steps || self.recurs.contains(&true);
        // Local memory is marked as one: it holds frames and arrays.
        let mut local = false;
        let mut open: BTreeSet<usize> = (0..count).collect();
        let mut decided = vec![false; count];
        let mut after = vec![0u64; self.words];
        while let Some(pc) = open.pop_first() {
            work::count(1 + self.words + self.flow[pc].len());
            after.copy_from_slice(&self.before[pc * self.words..][..self.words]);
            if pc < count && self.after(pc, local, &mut after) && !local {
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
            if pc < count && !decided[pc] && self.decides(pc) && self.condition_is_marked(pc) {
                decided[pc] = true;
                match again {
                    true => self.control_again(pc, &mut meets, &mut open),
                    false => self.control(pc, &mut meets, &mut open),
                }
            }
        }
    }

    fn meets(&self) -> Meets {
        let count = self.program.ops.len();
        let nodes = self.flow.len();
        let mut meets = Meets {
            join: vec![None; count],
            lost: vec![false; count],
            depth: vec![0; count],
            up: (0..count as u32).collect(),
            flooded: vec![false; nodes],
            seen: vec![usize::MAX; nodes],
        };
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
            let backward = reverse(&graph);
            let join = dominators(&backward, end);
            for node in reverse_post_order(&backward, end) {
                // What dominates comes first.
                let Some(above) = join[node].filter(|above| *above != end) else { continue };
                meets.join[first + node] = Some(first + above);
                meets.depth[first + node] = meets.depth[first + above] + 1;
            }
            own.for_each(|pc| meets.lost[pc] = join[pc - first].is_none());
        }
        meets
    }

    /// What the branch at `pc` reaches before its paths meet runs as other threads would have it, and so do
    /// the functions called there: what is new of it goes to `changed`.
    ///
    /// These are the instructions that are control dependent on it, on one of those, and so on (Ferrante,
    /// Ottenstein, Warren 1987): from each successor up the tree of post-dominators to where the paths of the
    /// branch meet. Each instruction is gone through once in all.
    fn control(&mut self, pc: usize, meets: &mut Meets, changed: &mut BTreeSet<usize>) {
        // From where, and up to where; without an end all that can be reached.
        let mut open: Vec<(usize, Option<usize>)> = Vec::new();
        open.extend(self.next[pc].0.iter().map(|to| (*to, meets.join[pc])));
        open.extend(self.called(pc).map(|to| (to, None)));
        while let Some((at, end)) = open.pop() {
            work::count(1);
            let Some(end) = end else {
                if std::mem::replace(&mut meets.flooded[at], true) {
                    continue;
                }
                if at >= self.controlled.len() {
                    open.extend(self.flow[at].iter().map(|to| (*to, None)));
                    continue;
                }
                self.mark(at, meets, changed);
                open.extend(self.next[at].0.iter().copied().chain(self.called(at)).map(|to| (to, None)));
                continue;
            };
            let Some(at) = meets.unmarked(at).filter(|at| *at != end) else { continue };
            if meets.lost[at] {
                // No way leads from here to where the paths meet.
                open.push((at, None));
                continue;
            }
            if meets.depth[at] <= meets.depth[end] {
                continue;
            }
            self.mark(at, meets, changed);
            let join = meets.join[at];
            open.extend(join.map(|join| (join, Some(end))));
            open.extend(self.next[at].0.iter().filter(|to| Some(**to) != join).map(|to| (*to, join)));
            open.extend(self.called(at).map(|to| (to, None)));
        }
    }

    fn mark(&mut self, at: usize, meets: &mut Meets, changed: &mut BTreeSet<usize>) {
        meets.up[at] = meets.join[at].map_or(u32::MAX, |join| join as u32);
        if !std::mem::replace(&mut self.controlled[at], true) {
            changed.insert(at);
        }
    }

    /// Where a call leads to: a function, or what stands for all.
    fn called(&self, at: usize) -> Option<usize> {
        let op = &self.program.ops[at];
        let direct = self.callees(op).map(|f| self.program.functions[f].entry_pc as usize);
        let indirect = self.program.ops.len() + self.program.functions.len();
        direct.or((op.class == OpClass::CallIndirect).then_some(indirect))
    }

    /// The same as [`control`](Self::control), one instruction after the other from the branch on: a function
    /// that is called again from within ends where the paths of this call meet.
    fn control_again(&mut self, pc: usize, meets: &mut Meets, changed: &mut BTreeSet<usize>) {
        let mut open = self.next[pc].0.clone();
        open.extend(self.called(pc));
        while let Some(at) = open.pop() {
            if Some(at) == meets.join[pc] || std::mem::replace(&mut meets.seen[at], pc) == pc {
                continue;
            }
            work::count(1);
            if at >= self.controlled.len() {
                open.extend(&self.flow[at]);
                continue;
            }
            if !std::mem::replace(&mut self.controlled[at], true) {
                changed.insert(at);
            }
            open.extend(&self.next[at].0);
            open.extend(self.called(at));
        }
    }

    /// True if `pc` sends threads to different places.
    pub(crate) fn decides(&self, pc: usize) -> bool {
        let op = &self.program.ops[pc];
        let guarded = op.guard != Pred::TRUE;
        op.class.is_indirect()
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
        let index = op.class.is_indirect()
            && op.src[0].0 < Row::CONST
            && usize::from(op.src[0].0) < self.words * 64
            && marked(usize::from(op.src[0].0));
        guard || index
    }

    fn guard_is_marked(&self, pc: usize) -> bool {
        let marked = |slot: usize| self.before[pc * self.words + slot / 64] >> (slot % 64) & 1 == 1;
        self.slot(self.program.ops[pc].guard).is_some_and(marked)
    }

    fn row_is_marked(&self, pc: usize, row: Row) -> bool {
        let at = usize::from(row.0);
        let own = row.is_some() && row.0 < Row::CONST && at < usize::from(self.program.registers);
        own && self.before[pc * self.words + at / 64] >> (at % 64) & 1 == 1
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
            class if class.effects().differs => true,
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
        let more = self.program.more_slots(op);
        let more_written = self.program.more_written(op);
        let reads_row = |slot: u16| {
            let near = |row: &Row| row.is_some() && (row.0 == slot || row.0 + 1 == slot);
            let fragments = self.program.fragments_of(op);
            usize::from(slot) < rows && op.src.iter().chain(fragments).any(near)
        };
        let reads_pred = |at: usize| op.psrc.iter().chain([&op.guard]).any(|&p| self.slot(p) == Some(at));
        let is_read = |slot: &u16| {
            !(written.contains(slot) || more_written.contains(slot))
                || reads_row(*slot)
                || reads_pred(place(*slot))
        };
        let reads_marked = all
            .iter()
            .chain(more)
            .filter(|slot| is_read(slot))
            .any(|slot| marks[place(*slot) / 64] >> (place(*slot) % 64) & 1 == 1);
        let memory = match op.extra {
            Extra::Memory(facts) => Some(facts.space),
            _ => None,
        };
        let foreign = match op.class {
            _ if self.origin == Origin::Lanes => self.differs_by_lane(pc, local),
            OpClass::Load if memory == Some(StateSpace::Local) => local,
            OpClass::Load if matches!(memory, Some(StateSpace::Const | StateSpace::Param)) => false,
            OpClass::Clock => true,
            class => class.effects().loads || class.effects().lanes,
        };
        let marked = foreign || reads_marked || self.controlled[pc];
        for slot in written.iter().chain(more_written) {
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
    use proptest::prelude::*;

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
    fn synchronization_is_decided_by_others_where_loads_say_which_barrier_or_whether() {
        let load = "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1];";
        let line = |body: &str| {
            let text = format!(
                ".version 6.0\n.target sm_30\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{{\n\
                 .reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.shared .u32 x[64];\n{body}\nret;\n}}\n"
            );
            let module = Module::build(&Source::new("u.ptx", &text), false);
            let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
            let program = module.program("k", &|_| Some(0), ControlFlow::Plain, 1024);
            let program = program.unwrap_or_else(|e| panic!("{}", e[0].render()));
            decided_by_others(&program).map(|pc| program.info[pc as usize].line)
        };
        for free in [
            "mov.u32 %r1, %tid.x; bar.sync %r1, 64;",
            "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bar.sync 1, 32;",
            "ld.param.u32 %r1, [n]; st.shared.u32 [%r1], %r1; bar.sync 0;",
            "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; st.shared.u32 [x], %r1;",
        ] {
            assert_eq!(line(free), None, "{free}");
        }
        for (decided, at) in [
            ("\nbar.sync %r1, 64;", 11),
            ("\nst.shared.u32 [%r1], %r2;", 11),
            ("\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 bra L;\nbar.sync 0;\nL:", 13),
            ("\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 0;", 12),
        ] {
            assert_eq!(line(&format!("{load}{decided}")), Some(at), "{decided}");
        }
    }

    #[test]
    fn what_is_written_under_divergent_control_differs() {
        let body = "mov.u32 %r1, 0;\nmov.u32 %r2, %tid.x;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra J;\nmov.u32 %r1, 1;\n\
                    J: setp.eq.u32 %p2, %r1, 0;\n@%p2 bra E;\nE: ret;";
        assert_eq!(branches(body), [true, true]);
    }

    proptest! {
        /// Control dependence against what the paths of each branch come to before they meet.
        #[test]
        fn what_branches_decide_is_what_lies_on_their_paths(
            blocks in prop::collection::vec((0usize..10, any::<bool>(), 0u32..8), 10)
        ) {
            let mut body = String::from("mov.u32 %r1, 0;\nmov.u32 %r2, %tid.x;\n");
            for (i, (to, lanes, kind)) in blocks.iter().enumerate() {
                let from = if *lanes { 2 } else { 1 };
                body += &format!("L{i}: setp.eq.u32 %p{from}, %r{from}, {i};\nadd.u32 %r1, %r1, 1;\n");
                body += &match kind {
                    0 => format!("bra L{to};\n"),
                    1 => format!("@%p{from} ret;\n"),
                    2 => format!("@%p{from} call.uni f;\n"),
                    3 => "add.u32 %r1, %r1, 2;\n".to_string(),
                    _ => format!("@%p{from} bra L{to};\n"),
                };
            }
            let text = format!(
                ".version 6.0\n.target sm_30\n.address_size 64\n.func f() {{ .reg .b32 %r; mov.u32 %r, 1; ret; }}\n\
                 .visible .entry k()\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n{body}ret;\n}}\n"
            );
            let module = Module::build(&Source::new("u.ptx", &text), false);
            let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
            let program = module.program("k", &|_| Some(0), ControlFlow::Plain, 1024);
            let program = program.unwrap_or_else(|e| panic!("{}", e[0].render()));
            for origin in [Origin::Lanes, Origin::OtherThreads] {
                let fast = Analysis::with(&program, origin, false);
                let slow = Analysis::with(&program, origin, true);
                prop_assert_eq!(&fast.controlled, &slow.controlled, "{}", text);
                prop_assert_eq!(fast.before, slow.before);
            }
        }
    }
}
