//! Which loads an instruction waits for: those whose registers it is the first to use, by the text of a
//! program with untransformed control flow.

use std::collections::BTreeSet;

use sim_memory::vocabulary::StateSpace;

use crate::program::{Extra, Op, OpClass, Pc, Program};
use crate::program_flow::successors;

/// Most steps that are taken for one program: where nearly all of a long text waits, some waits stay unexplained.
const MOST_STEPS: usize = 10_000_000;

/// The loads and atomics of a program whose registers are used later.
pub struct Awaited<'p> {
    program: &'p Program,
    /// By instruction: those before it.
    before: Vec<Vec<Pc>>,
    /// By instruction: the walk that came by last.
    seen: Vec<u32>,
    walks: u32,
    steps: usize,
}

impl<'p> Awaited<'p> {
    /// Those of a program with untransformed control flow.
    pub fn new(program: &'p Program) -> Self {
        let count = program.ops.len();
        let mut before = vec![Vec::new(); count];
        for function in &program.functions {
            let range = function.entry_pc..function.end_pc.min(count as Pc);
            for pc in range.clone() {
                let op = &program.ops[pc as usize];
                // One that may go anywhere says nothing.
                if op.class == OpClass::BranchIndirect && program.tables.get(op.imm as usize).is_none() {
                    continue;
                }
                for to in successors(program, pc, &range).0 {
                    before[to as usize].push(pc);
                }
            }
        }
        Self { program, before, seen: vec![0; count], walks: 0, steps: 0 }
    }

    /// The loads and atomics of global and local memory whose registers the instruction at `pc` may be the
    /// first to use, by address.
    pub fn loads_before(&mut self, pc: Pc) -> Vec<Pc> {
        let mut out = BTreeSet::new();
        let Some(op) = self.program.ops.get(pc as usize) else { return Vec::new() };
        for &slot in op.slots[..usize::from(op.slots_used)].iter().chain(self.program.more_slots(op)) {
            self.walk(pc, slot, &mut out);
        }
        out.into_iter().collect()
    }

    /// Backwards, up to whatever uses the register: who came first has waited for it.
    fn walk(&mut self, pc: Pc, slot: u16, out: &mut BTreeSet<Pc>) {
        self.walks += 1;
        let mut open = self.before[pc as usize].clone();
        while let Some(at) = open.pop() {
            let i = at as usize;
            if std::mem::replace(&mut self.seen[i], self.walks) == self.walks {
                continue;
            }
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return;
            }
            let op = &self.program.ops[i];
            let (used, written) = (usize::from(op.slots_used), usize::from(op.slots_written));
            let mut slots = op.slots[..used].iter().chain(self.program.more_slots(op));
            match slots.position(|own| *own == slot) {
                Some(place) if place < written && goes_to_memory(op) => {
                    out.insert(at);
                }
                Some(_) => {}
                None => open.extend(&self.before[i]),
            }
        }
    }
}

/// True of loads and atomics whose results memory brings: those of shared and constant memory have a latency.
fn goes_to_memory(op: &Op) -> bool {
    let space = match &op.extra {
        Extra::Memory(facts) => facts.space,
        _ => return false,
    };
    matches!(op.class, OpClass::Load | OpClass::Atomic)
        && matches!(space, StateSpace::Global | StateSpace::Local | StateSpace::Generic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use crate::load::Module;
    use crate::program::ControlFlow;

    /// The lines of the loads that each line of a kernel may be the first to wait for; its body counts from 1.
    fn awaited(body: &str) -> Vec<(u32, Vec<u32>)> {
        let text = format!(
            ".version 6.0 .target sm_30 .address_size 64 .visible .entry k(.param .u64 p) {{ .reg .pred %p<4>; \
             .reg .b32 %r<9>; .reg .b64 %rd<4>; .shared .u32 s; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;\n\
             {body}\nret;\n}}\n"
        )
        .replacen('\n', " ", 1);
        let module = Module::build(&Source::new("a.ptx", &text), false);
        let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
        let program = module.program("k", &|_| Some(0), ControlFlow::Plain, 1024);
        let program = program.unwrap_or_else(|e| panic!("{}", e[0].render()));
        let mut loads = Awaited::new(&program);
        let line = |pc: Pc| program.info[pc as usize].line;
        let of = |pc| (line(pc), loads.loads_before(pc).into_iter().map(line).collect());
        (0..program.ops.len() as Pc).map(of).filter(|(_, list): &(u32, Vec<u32>)| !list.is_empty()).collect()
    }

    #[test]
    fn the_first_use_of_a_register_waits_for_its_load() {
        // Shared memory is no wait for memory; what comes after the first use waits no more.
        let body = "ld.global.u32 %r2, [%rd1];\nld.global.u32 %r3, [%rd1+4];\nld.shared.u32 %r4, [s];\n\
                    add.u32 %r5, %r4, %r1;\nadd.u32 %r6, %r3, %r5;\nadd.u32 %r7, %r2, %r3;\n\
                    st.global.u32 [%rd1], %r7;";
        let body = body.replacen("ld.global", " ld.global", 1);
        assert_eq!(awaited(&body), [(5, vec![2]), (6, vec![1])]);
    }

    #[test]
    fn atomics_are_awaited_and_paths_and_loops_bring_several() {
        let paths = "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra ELSE;\nld.global.u32 %r2, [%rd1];\nbra.uni JOIN;\n\
                     ELSE:\natom.global.add.u32 %r2, [%rd1], 1;\nJOIN:\nst.global.u32 [%rd1+8], %r2;";
        assert_eq!(awaited(paths), [(8, vec![3, 6])]);
        // Loaded at the end of a pass, used at the beginning of the next.
        let around = "mov.u32 %r2, 0;\nmov.u32 %r3, 0;\nL:\nadd.u32 %r3, %r3, %r2;\nld.global.u32 %r2, [%rd1];\n\
                      setp.lt.u32 %p1, %r3, 99;\n@%p1 bra L;\nst.global.u32 [%rd1], %r3;";
        assert_eq!(awaited(around), [(4, vec![5])]);
    }
}
