//! What policies know of a program before it runs: where control flow meets again (immediate
//! post-dominators), which basic block an instruction lies in, and the blocks' priorities.

use sim_frontend::lower::cfg::{Graph, LoopNest, dominators, reverse};
use sim_frontend::program::{ControlFlow, Extra, NO_PC, Pc, Program};
use sim_frontend::program_flow::{ends_block, successors};

/// The plan of one program.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Program address of the kernel's entry.
    pub entry: Pc,
    /// By instruction: where all paths from it meet first, within its function; [`NO_PC`] where
    /// that is the function's end. Behind a wait for one another ([`Extra::Meets`]) that stands there.
    join: Vec<Pc>,
    /// By instruction: the first instruction of the next basic block in program order.
    block_end: Vec<Pc>,
    /// By instruction: the place of its block in the order of priorities; lower runs first.
    priority: Vec<u32>,
    /// By instruction: branches whose paths have not met yet there.
    nesting: Vec<u32>,
    /// By instruction: a branch with more than one target.
    branches: Vec<bool>,
}

impl Plan {
    /// It knows nothing of any program.
    pub(crate) fn is_empty(&self) -> bool {
        self.join.is_empty()
    }

    /// The plan of a program with untransformed control flow; the token stack needs none.
    pub fn new(program: &Program) -> Self {
        if program.control_flow == ControlFlow::Injected {
            return Self { entry: program.entry_pc, ..Self::default() };
        }
        let count = program.ops.len();
        let mut plan = Self {
            entry: program.entry_pc,
            join: vec![NO_PC; count],
            block_end: vec![NO_PC; count],
            priority: vec![u32::MAX; count],
            nesting: vec![0; count],
            branches: vec![false; count],
        };
        for function in &program.functions {
            plan.add_function(program, function.entry_pc, function.end_pc.min(count as Pc));
        }
        plan
    }

    /// Where the paths from `pc` meet again: its immediate post-dominator, if that lies in its
    /// function, or what follows a wait there.
    pub fn join(&self, pc: Pc) -> Option<Pc> {
        self.join.get(pc as usize).copied().filter(|&join| join != NO_PC)
    }

    /// The first address that all paths from all of `branches` come to.
    pub fn common_join(&self, branches: &[Pc]) -> Option<Pc> {
        let mut at = self.join(*branches.first()?)?;
        loop {
            let meets = |&branch: &Pc| {
                let mut pc = Some(branch);
                while let Some(next) = pc.and_then(|pc| self.join(pc)) {
                    if next == at {
                        return true;
                    }
                    pc = Some(next);
                }
                false
            };
            if branches.iter().all(meets) {
                return Some(at);
            }
            at = self.join(at)?;
        }
    }

    /// The first instruction after the basic block of `pc`.
    pub fn block_end(&self, pc: Pc) -> Pc {
        self.block_end.get(pc as usize).copied().unwrap_or(NO_PC)
    }

    /// The priority of the block of `pc`: its place in an order in which a block comes before those
    /// it leads to, and all of a loop before what follows the loop; lower runs first.
    pub fn priority(&self, pc: Pc) -> u32 {
        self.priority.get(pc as usize).copied().unwrap_or(u32::MAX)
    }

    /// True if `pc` is a branch with more than one target.
    pub fn branches(&self, pc: Pc) -> bool {
        self.branches.get(pc as usize).copied().unwrap_or(false)
    }

    /// Branches between which and their joins `pc` lies.
    pub fn nesting(&self, pc: Pc) -> u32 {
        self.nesting.get(pc as usize).copied().unwrap_or(0)
    }

    fn add_function(&mut self, program: &Program, first: Pc, end: Pc) {
        if first >= end {
            return;
        }
        let inside = first..end;
        let mut leader = vec![false; (end - first) as usize + 1];
        leader[0] = true;
        for pc in inside.clone() {
            let (targets, _) = successors(program, pc, &inside);
            if ends_block(program, pc) {
                leader[(pc + 1 - first) as usize] = true;
                targets.iter().for_each(|&target| leader[(target - first) as usize] = true);
            }
        }
        let starts: Vec<Pc> = inside.clone().filter(|&pc| leader[(pc - first) as usize]).collect();
        let block_of = |pc: Pc| starts.partition_point(|&start| start <= pc) - 1;
        // One node a block, then the function's end.
        let over = starts.len();
        let mut graph: Graph = vec![Vec::new(); over + 1];
        for (block, &start) in starts.iter().enumerate() {
            let after = starts.get(block + 1).copied().unwrap_or(end);
            let (targets, leaves) = successors(program, after - 1, &inside);
            let mut to: Vec<usize> = targets.into_iter().map(block_of).collect();
            if leaves {
                to.push(over);
            }
            to.sort_unstable();
            to.dedup();
            graph[block] = to;
            for pc in start..after {
                self.block_end[pc as usize] = after;
            }
        }
        let join = dominators(&reverse(&graph), over);
        let order = LoopNest::new(&graph, 0).order;
        for (place, &block) in order.iter().enumerate() {
            if let Some(&start) = starts.get(block) {
                for pc in start..self.block_end[start as usize] {
                    self.priority[pc as usize] = first + place as u32;
                }
            }
        }
        for block in (0..over).filter(|&block| graph[block].len() > 1) {
            self.branches[self.block_end[starts[block] as usize] as usize - 1] = true;
            let mut inside = vec![false; over + 1];
            inside[over] = true;
            if let Some(at) = join[block] {
                inside[at] = true;
                // They wait for one another there.
                if let Some(&start) = starts.get(at)
                    && matches!(program.ops[start as usize].extra, Extra::Meets)
                {
                    self.nesting[start as usize] += 1;
                }
            }
            let mut open: Vec<usize> = graph[block].clone();
            while let Some(node) = open.pop() {
                if !std::mem::replace(&mut inside[node], true) {
                    let start = starts[node];
                    for pc in start..self.block_end[start as usize] {
                        self.nesting[pc as usize] += 1;
                    }
                    open.extend(&graph[node]);
                }
            }
        }
        for (block, &start) in starts.iter().enumerate() {
            let after = self.block_end[start as usize];
            for pc in start..after {
                self.join[pc as usize] = if pc + 1 < after {
                    pc + 1
                } else {
                    let meets = join[block].and_then(|node| starts.get(node).copied());
                    // Each part of the warp executes the wait itself.
                    let waits = |pc: Pc| matches!(program.ops[pc as usize].extra, Extra::Meets);
                    meets.map_or(NO_PC, |pc| pc + Pc::from(waits(pc)))
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_comes_before_what_follows_it() {
        // 0 → 1; 1 → {2, 5}; 2 → {3, 4}; 3 → 4; 4 → 1; and a loop of two entries 5 → {6, 7}.
        let graph =
            vec![vec![1], vec![2, 5], vec![3, 4], vec![4], vec![1], vec![6, 7], vec![7, 8], vec![6], vec![]];
        let order = LoopNest::new(&graph, 0).order;
        assert_eq!(order.len(), 9);
        let place = |node| order.iter().position(|&n| n == node).expect("it is there");
        for (before, after) in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (5, 7), (6, 8), (7, 8)] {
            assert!(place(before) < place(after), "{before} {after}: {order:?}");
        }
    }

    #[test]
    fn branches_nest_and_meet_at_their_post_dominators() {
        use sim_frontend::diagnostic::Source;
        use sim_frontend::load::Module;
        use sim_frontend::program::ControlFlow;
        // 0 setp, 1 bra ELSE; 2 setp, 3 bra INNER; 4 add; 5 INNER; 6 bra JOIN; 7 ELSE; 8 JOIN; 9 exit.
        let text = ".version 3.0\n.target sm_20\n.address_size 64\n.visible .entry k()\n{\n.reg .u32 %a;\n\
            .reg .pred %p;\nsetp.eq.u32 %p, %a, 0;\n@%p bra ELSE;\nsetp.eq.u32 %p, %a, 1;\n@%p bra INNER;\n\
            add.u32 %a, %a, 1;\nINNER:\nadd.u32 %a, %a, 2;\nbra JOIN;\nELSE:\nadd.u32 %a, %a, 3;\nJOIN:\n\
            add.u32 %a, %a, 4;\nexit;\n}\n";
        let module = Module::build(&Source::new("t.ptx", text), false).expect("it is right");
        let program = module.program("k", &|_| None, ControlFlow::Plain, 0).expect("it is right");
        let plan = Plan::new(&program);
        let of = |f: &dyn Fn(Pc) -> u32| (0..10).map(f).collect::<Vec<u32>>();
        assert_eq!(of(&|pc| plan.nesting(pc)), [0, 0, 1, 1, 2, 1, 1, 1, 0, 0]);
        assert_eq!((plan.join(1), plan.join(3), plan.join(4)), (Some(8), Some(5), Some(5)));
        assert_eq!(of(&|pc| u32::from(plan.branches(pc))), [0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
        // Each block before those it leads to.
        let order = [0, 2, 4, 5, 8].map(|pc| plan.priority(pc));
        assert!(order.is_sorted() && plan.priority(7) < plan.priority(8), "{order:?}");
    }

    #[test]
    fn parts_of_a_warp_meet_behind_their_waits() {
        use sim_frontend::chip::AssemblerSpec;
        use sim_frontend::diagnostic::Source;
        use sim_frontend::load::{Assembler, Module};
        // 0 mov, 1 setp, 2 bssy, 3 bra JOIN; 4 bar; 5 JOIN: bsync, 6 bar, 7 exit.
        let text = ".version 3.0\n.target sm_20\n.address_size 64\n.visible .entry k()\n{\n.reg .u32 %a;\n\
            .reg .pred %p;\nmov.u32 %a, %tid.x;\nsetp.eq.u32 %p, %a, 0;\n@%p bra JOIN;\nbar.sync 1;\nJOIN:\nbar.sync 0;\nexit;\n}\n";
        let module = Module::build(&Source::new("t.ptx", text), false).expect("it is right");
        let passes = AssemblerSpec { clean_up: true, convergence_barriers: true, ..AssemblerSpec::default() };
        let assembler = Assembler { stack_bytes: 0, registers: 255, passes };
        let program = module.program_for("k", &|_| None, ControlFlow::Plain, assembler).expect("it is right");
        let plan = Plan::new(&program);
        assert!(matches!(program.ops[5].extra, Extra::Meets));
        assert_eq!((plan.join(3), plan.join(4), plan.join(5)), (Some(6), Some(6), Some(6)));
        assert_eq!((3..8).map(|pc| plan.nesting(pc)).collect::<Vec<u32>>(), [0, 1, 1, 0, 0]);
    }
}
