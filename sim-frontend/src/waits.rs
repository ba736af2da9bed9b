//! What decides how the threads of a block synchronize: values that other threads write, and tests of mbarrier objects.
//!
//! A loop of tests is a wait if nothing but its own end depends on them: a test that fails leads to the same test again,
//! with the same object and the same parity, and to nothing that synchronizes before. How often it fails is then of no
//! consequence, and the loop is over in all interleavings exactly when the phase is complete.

use std::collections::{BTreeMap, BTreeSet};

use crate::dependence::decided_by_others;
use crate::form::{CmpOp, MbarrierStep};
use crate::isa::table::Root;
use crate::program::{Extra, Op, OpClass, Pc, Pred, Program, Row};
use crate::values::{Value, Values, own_written, pred_slot, read, row_slot, written};
use sim_memory::vocabulary::StateSpace;

/// What decides how threads synchronize: addresses of the first instructions for which it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// By what other threads may have written or decide: memory, clocks, collectives.
    pub by_others: Option<Pc>,
    /// By the tests of mbarrier objects, in another way than as a wait.
    pub by_tests: Option<Pc>,
}

/// Values that other threads may have written or decide.
const OTHERS: u8 = 1;
/// Results of tests, and what depends on how often they fail.
const TESTS: u8 = 2;
/// The state of an object as an arrival gives it: good for tests of its phase.
const STATE: u8 = 4;

/// What decides how threads of a program with untransformed control flow synchronize: a barrier, a collective, an
/// access to shared memory, a copy or an operation on an mbarrier object that runs, names its barrier or finds its address by
/// such a value.
pub fn decided(program: &Program) -> Decided {
    let calls = program.ops.iter().any(|op| matches!(op.class, OpClass::Call | OpClass::CallIndirect));
    let entry = program.functions.iter().find(|function| function.entry_pc == program.entry_pc);
    let (Some(entry), false) = (entry, calls) else {
        let tests = program.ops.iter().position(is_test);
        return Decided { by_others: decided_by_others(program), by_tests: tests.map(|pc| pc as Pc) };
    };
    let function = entry.entry_pc..entry.end_pc.min(program.ops.len() as Pc);
    let mut marks = Marks::new(program, function);
    marks.spread();
    marks.decided()
}

/// Tests of mbarrier objects that their threads make again and again until they pass.
pub fn repeated(program: &Program) -> Vec<Pc> {
    let mut found = Vec::new();
    for function in &program.functions {
        let function = function.entry_pc..function.end_pc.min(program.ops.len() as Pc);
        let tests: Vec<Pc> = function.clone().filter(|&pc| is_test(&program.ops[pc as usize])).collect();
        if !tests.is_empty() {
            let marks = Marks::new(program, function);
            found.extend(tests.into_iter().filter(|&pc| marks.is_wait(pc)));
        }
    }
    found
}

/// A test of an mbarrier object.
fn is_test(op: &Op) -> bool {
    matches!(op.extra, Extra::Mbarrier(m) if matches!(m.step, MbarrierStep::TestWait | MbarrierStep::TryWait))
}

fn is_parity(op: &Op) -> bool {
    matches!(op.extra, Extra::Mbarrier(m) if m.options.parity)
}

/// It takes part in the synchronization of a block, or accesses its shared memory.
fn synchronizes(op: &Op) -> bool {
    match op.class {
        OpClass::Load | OpClass::Store | OpClass::Atomic => {
            op.extra.access().is_some_and(|m| matches!(m.space, StateSpace::Shared | StateSpace::Generic))
        }
        class => class.effects().waits || matches!(class, OpClass::Copy | OpClass::Mbarrier),
    }
}

/// Operands by which it names what it synchronizes with.
fn names(op: &Op) -> Vec<Row> {
    match (&op.extra, op.class) {
        (Extra::Copy(_), _) => vec![op.src[1]],
        (Extra::Tensor(_), _) => vec![op.src[0], op.src[1], op.src[3]],
        (Extra::StoreAsync(_), _) => vec![op.src[0], op.src[4]],
        (Extra::Bulk(_), _) => op.src[1..4].to_vec(),
        (Extra::Mbarrier(m), _) if m.place.is_none() => Vec::new(),
        (_, OpClass::Barrier | OpClass::Mbarrier) => op.src[..2].to_vec(),
        (_, OpClass::WarpSync | OpClass::Copy | OpClass::Load | OpClass::Store | OpClass::Atomic) => {
            op.src[..1].to_vec()
        }
        _ => Vec::new(),
    }
}

struct Marks<'p> {
    program: &'p Program,
    values: Values,
    function: std::ops::Range<Pc>,
    marks: BTreeMap<Value, u8>,
    /// By block: what decides whether it runs.
    controlled: Vec<u8>,
    /// What local memory may hold.
    local: u8,
}

impl<'p> Marks<'p> {
    fn new(program: &'p Program, function: std::ops::Range<Pc>) -> Self {
        let values = Values::new(program, function.clone());
        let controlled = vec![0; values.blocks.len()];
        Self { program, controlled, values, function, marks: BTreeMap::new(), local: 0 }
    }
}

impl Marks<'_> {
    fn of(&self, value: Value) -> u8 {
        self.marks.get(&value).copied().unwrap_or(0)
    }

    fn slot(&self, pc: Pc, slot: u16) -> u8 {
        self.of(self.values.before(self.program, pc, slot))
    }

    fn add(&mut self, value: Value, marks: u8) -> bool {
        let own = self.marks.entry(value).or_insert(0);
        let before = *own;
        *own |= marks;
        *own != before
    }

    /// Marks until nothing changes.
    fn spread(&mut self) {
        let mut gone_through: BTreeMap<usize, u8> = BTreeMap::new();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for block in 0..self.values.blocks.len() {
                let from = self.values.blocks[block].from.clone();
                let merged: Vec<u16> = self.values.merged(block).collect();
                for slot in merged {
                    let behind = |from: &usize| self.of(self.values.behind(*from, slot));
                    let marks = from.iter().map(behind).fold(0, |marks, own| marks | own);
                    changed |= self.add(Value::Merged(block as u32, slot), marks);
                }
                for pc in self.values.blocks[block].pcs.clone() {
                    changed |= self.instruction(pc);
                }
                let marks = self.condition(block);
                if marks & !gone_through.get(&block).copied().unwrap_or(0) != 0 {
                    gone_through.insert(block, marks);
                    self.control(block, marks);
                    changed = true;
                }
            }
        }
    }

    /// What its operands and its origin make of the results of an instruction.
    fn instruction(&mut self, pc: Pc) -> bool {
        let op = &self.program.ops[pc as usize];
        let mut marks = read(self.program, op).iter().fold(0, |marks, slot| marks | self.slot(pc, *slot));
        let moves = self.program.forms[usize::from(op.form)].root == Root::Mov;
        if marks & STATE != 0 && !moves && op.class != OpClass::Store {
            marks = marks & !STATE | TESTS;
        }
        let space = match op.extra {
            Extra::Memory(facts) => Some(facts.space),
            _ => None,
        };
        let mut changed = false;
        if op.class == OpClass::Store && !matches!(space, Some(StateSpace::Global | StateSpace::Shared)) {
            let stored = marks | self.controlled[self.values.block(pc)];
            changed = self.local | stored != self.local;
            self.local |= stored;
        }
        marks |= match (&op.extra, op.class) {
            (Extra::Mbarrier(m), _) => match m.step {
                MbarrierStep::TestWait | MbarrierStep::TryWait | MbarrierStep::PendingCount => TESTS,
                _ => STATE,
            },
            (_, OpClass::Load) if space == Some(StateSpace::Local) => self.local,
            (_, OpClass::Load) if matches!(space, Some(StateSpace::Const | StateSpace::Param)) => 0,
            (_, OpClass::Clock) => OTHERS,
            (_, class) if class.effects().loads || class.effects().lanes => OTHERS,
            _ => 0,
        };
        for slot in written(self.program, op) {
            changed |= self.add(Value::Written(pc, slot), marks);
        }
        changed
    }

    /// What decides where control goes behind a block.
    fn condition(&self, block: usize) -> u8 {
        let pc = self.values.blocks[block].pcs.end - 1;
        let op = &self.program.ops[pc as usize];
        if self.values.blocks[block].to.len() + usize::from(self.values.blocks[block].leaves) < 2 {
            return 0;
        }
        let guard = pred_slot(self.program, op.guard).map_or(0, |slot| self.slot(pc, slot));
        let index = row_slot(self.program, op.src[0]).filter(|_| op.class.is_indirect());
        let marks = guard | index.map_or(0, |slot| self.slot(pc, slot));
        if marks & STATE != 0 { marks & !STATE | TESTS } else { marks }
    }

    /// What runs as a branch decides, and values that differ by its ways.
    fn control(&mut self, block: usize, marks: u8) {
        let decided = self.values.decided(block);
        let inside: BTreeSet<usize> = decided.iter().copied().chain([block]).collect();
        let again = decided.contains(&block);
        for &at in &decided {
            self.controlled[at] |= marks;
        }
        for at in decided.into_iter().chain(self.values.blocks[block].join) {
            let join = Some(at) == self.values.blocks[block].join;
            let from: Vec<usize> = self.values.blocks[at].from.clone();
            // Of a loop that the branch ends, values differ by how often it has gone round.
            let ways = from.iter().filter(|from| again && !join || inside.contains(from));
            let ways: Vec<usize> = ways.copied().collect();
            let merged: Vec<u16> = self.values.merged(at).collect();
            for slot in merged {
                let mut came = ways.iter().map(|from| self.values.behind(*from, slot));
                let first = came.next();
                if came.any(|value| Some(value) != first) {
                    self.add(Value::Merged(at as u32, slot), marks);
                }
            }
        }
    }

    fn decided(&self) -> Decided {
        let mut found = Decided::default();
        for pc in self.function.clone() {
            let op = &self.program.ops[pc as usize];
            if !synchronizes(op) {
                continue;
            }
            let named = |row: Row| row_slot(self.program, row).map_or(0, |slot| self.slot(pc, slot));
            let guard = pred_slot(self.program, op.guard).map_or(0, |slot| self.slot(pc, slot));
            let controlled = self.controlled[self.values.block(pc)];
            let named: Vec<u8> = names(op).into_iter().map(named).collect();
            let all = named.iter().fold(guard | controlled, |all, own| all | own);
            if all & OTHERS != 0 && found.by_others.is_none() {
                found.by_others = Some(pc);
            }
            let tested = if is_test(op) {
                // A state that an arrival gave names its phase.
                let state = named.get(1).is_some_and(|own| own & STATE != 0) && is_parity(op);
                let names =
                    named.iter().any(|own| own & TESTS != 0) || named.first().is_some_and(|a| a & STATE != 0);
                let foreign = controlled & TESTS != 0 && named.iter().any(|own| own & OTHERS != 0);
                guard & (TESTS | STATE) != 0 || state || names || foreign || !self.is_wait(pc)
            } else {
                all & (TESTS | STATE) != 0
            };
            if tested && found.by_tests.is_none() {
                found.by_tests = Some(pc);
            }
        }
        found
    }

    /// A test that fails leads to itself, or to one of the same phase of the same object, whatever way control takes.
    fn is_wait(&self, pc: Pc) -> bool {
        const MOST_STEPS: usize = 4000;
        let op = &self.program.ops[pc as usize];
        let mut known: BTreeMap<u16, u32> = BTreeMap::new();
        if let Some(slot) = pred_slot(self.program, op.pdst[0]) {
            known.insert(slot, 0);
        }
        let mut open = vec![(pc, known)];
        let mut seen: BTreeSet<(Pc, Vec<(u16, u32)>)> = BTreeSet::new();
        let mut first = true;
        while let Some((at, known)) = open.pop() {
            let key = (at, known.iter().map(|(slot, value)| (*slot, *value)).collect());
            if !seen.insert(key) {
                continue;
            }
            if seen.len() > MOST_STEPS {
                return false;
            }
            let op = &self.program.ops[at as usize];
            if !std::mem::take(&mut first) {
                if is_test(op) && self.same_test(pc, at) {
                    continue;
                }
                if synchronizes(op) || matches!(op.class, OpClass::Call | OpClass::CallIndirect) {
                    return false;
                }
            }
            let known = if at == pc { known } else { self.after(op, known) };
            let taken = self.pred(op.guard, &known);
            let (to, leaves) = crate::program_flow::successors(self.program, at, &self.function);
            let branches = !matches!(to.as_slice(), [next] if *next == at + 1);
            let goes = |to: &Pc| match taken {
                Some(true) if branches && op.class == OpClass::Branch => *to == op.target,
                Some(false) if branches => *to == at + 1,
                _ => true,
            };
            if leaves && taken != Some(false) {
                return false;
            }
            open.extend(to.iter().filter(|to| goes(to)).map(|to| (*to, known.clone())));
        }
        true
    }

    fn pred(&self, pred: Pred, known: &BTreeMap<u16, u32>) -> Option<bool> {
        if pred.is_const() {
            return Some(pred == Pred::TRUE);
        }
        let value = known.get(&pred_slot(self.program, pred)?)?;
        Some((*value != 0) != pred.negated())
    }

    fn row(&self, row: Row, known: &BTreeMap<u16, u32>) -> Option<u32> {
        if row.is_some() && row.0 >= Row::CONST {
            return self.program.consts.get(usize::from(row.0 - Row::CONST)).map(|lanes| lanes[0]);
        }
        known.get(&row_slot(self.program, row)?).copied()
    }

    /// What is known of 32-bit registers and predicates behind an instruction.
    fn after(&self, op: &Op, mut known: BTreeMap<u16, u32>) -> BTreeMap<u16, u32> {
        let form = &self.program.forms[usize::from(op.form)];
        let runs = self.pred(op.guard, &known);
        if runs == Some(false) {
            return known;
        }
        let row = |i: usize| self.row(op.src[i], &known);
        let pred = |i: usize| self.pred(op.psrc[i], &known);
        let narrow = form.ty.bits() <= 32 && form.dst.bits() <= 32;
        let result = match form.root {
            Root::Selp if narrow => pred(0).and_then(|p| row(if p { 0 } else { 1 })),
            Root::Mov if narrow && op.dst[0].is_some() => row(0),
            Root::Mov if op.pdst[0].is_some() => pred(0).map(u32::from),
            Root::Setp if narrow && form.mods.bool_op.is_none() => match (form.mods.cmp, row(0), row(1)) {
                (Some(CmpOp::Eq), Some(a), Some(b)) => Some(u32::from(a == b)),
                (Some(CmpOp::Ne), Some(a), Some(b)) => Some(u32::from(a != b)),
                _ => None,
            },
            Root::Not if op.pdst[0].is_some() => pred(0).map(|p| u32::from(!p)),
            Root::And if op.pdst[0].is_some() => match (pred(0), pred(1)) {
                (Some(false), _) | (_, Some(false)) => Some(0),
                (Some(true), Some(true)) => Some(1),
                _ => None,
            },
            Root::Or if op.pdst[0].is_some() => match (pred(0), pred(1)) {
                (Some(true), _) | (_, Some(true)) => Some(1),
                (Some(false), Some(false)) => Some(0),
                _ => None,
            },
            _ => None,
        };
        let into = match op.dst[0].is_some() {
            true => row_slot(self.program, op.dst[0]),
            false => pred_slot(self.program, op.pdst[0]),
        };
        for slot in written(self.program, op) {
            known.remove(&slot);
        }
        if let (Some(slot), Some(value), Some(true), [_]) = (into, result, runs, own_written(op)) {
            known.insert(slot, value);
        }
        known
    }

    /// Two tests of the same phase of the same object.
    fn same_test(&self, one: Pc, other: Pc) -> bool {
        let (a, b) = (&self.program.ops[one as usize], &self.program.ops[other as usize]);
        one == other
            || a.imm == b.imm
                && is_parity(a) == is_parity(b)
                && (0..2).all(|i| self.same_operand((one, a.src[i]), (other, b.src[i]), 8))
    }

    fn same_operand(&self, (one, a): (Pc, Row), (other, b): (Pc, Row), depth: u32) -> bool {
        match (row_slot(self.program, a), row_slot(self.program, b)) {
            (Some(x), Some(y)) => {
                let values = &self.values;
                let (x, y) = (values.before(self.program, one, x), values.before(self.program, other, y));
                x == y || self.same_value(x, y, depth)
            }
            (None, None) => a == b,
            _ => false,
        }
    }

    /// Two results of the same operation on the same operands.
    fn same_value(&self, one: Value, other: Value, depth: u32) -> bool {
        let (Value::Written(p, slot), Value::Written(q, other_slot)) = (one, other) else { return false };
        let (a, b) = (&self.program.ops[p as usize], &self.program.ops[q as usize]);
        let place = |op: &Op, slot: u16| own_written(op).iter().position(|own| *own == slot);
        depth > 0
            && a.class == OpClass::Data
            && b.class == OpClass::Data
            && a.form == b.form
            && a.imm == b.imm
            && a.guard == Pred::TRUE
            && b.guard == Pred::TRUE
            && place(a, slot) == place(b, other_slot)
            && a.psrc == b.psrc
            && a.psrc.iter().all(|pred| !pred.is_some() || pred.is_const())
            && (0..5).all(|i| self.same_operand((p, a.src[i]), (q, b.src[i]), depth - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use crate::load::Module;
    use crate::program::ControlFlow;

    /// The lines of what is decided by others and by tests.
    fn lines(body: &str) -> (Option<u32>, Option<u32>) {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{{\n\
             .reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<4>;\n.shared .align 8 .b64 x[64];\n{body}\nret;\n}}\n"
        );
        let module = Module::build(&Source::new("u.ptx", &text), false);
        let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
        let program = module.program("k", &|_| Some(0), ControlFlow::Plain, 1024);
        let program = program.unwrap_or_else(|e| panic!("{}", e[0].render()));
        let line = |pc: Option<Pc>| pc.map(|pc| program.info[pc as usize].line);
        let found = decided(&program);
        (line(found.by_others), line(found.by_tests))
    }

    #[test]
    fn loops_of_tests_are_waits() {
        for body in [
            "mov.u32 %r1, x;\nL: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\n@!%p1 bra L;\nst.shared.u32 [x+64], %r1;",
            // As compilers write it, with the address made anew each time.
            "mov.u64 %rd1, x;\nL: cvt.u32.u64 %r1, %rd1;\nmbarrier.test_wait.parity.shared.b64 %p1, [%r1], 1;\n\
             selp.u32 %r2, 1, 0, %p1;\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra L;\nbar.sync 0;",
            "mov.u32 %r1, x;\nL: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\n@%p1 bra D;\nbra L;\nD: bar.sync 0;",
            // The first test apart from the loop.
            "mov.u32 %r1, x;\nmbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\n@%p1 bra D;\n\
             L: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;\n@!%p2 bra L;\nD: bar.sync 0;",
            "mov.u32 %r1, x;\nmbarrier.arrive.shared.b64 %rd1, [%r1];\nmov.b64 %rd2, %rd1;\n\
             L: mbarrier.test_wait.shared.b64 %p1, [%r1], %rd2;\n@!%p1 bra L;\nbar.sync 0;",
            // In a loop of phases, the parity from its counter.
            "mov.u32 %r1, x;\nmov.u32 %r2, 0;\nR: and.b32 %r3, %r2, 1;\n\
             L: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r3;\n@!%p1 bra L;\nst.shared.u32 [x+64], %r2;\n\
             add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, 9;\n@%p2 bra R;",
        ] {
            assert_eq!(lines(body), (None, None), "{body}");
        }
    }

    #[test]
    fn tests_that_decide_more_than_to_test_again_are_no_waits() {
        for (body, line) in [
            // Once, and something else where it fails.
            (
                "mov.u32 %r1, x;\nmbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\n@%p1 st.shared.u32 [x+64], %r1;",
                11,
            ),
            // A loop that gives up.
            (
                "mov.u32 %r1, x;\nmov.u32 %r2, 0;\nL: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\n@%p1 bra D;\n\
                 add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, 9;\n@%p2 bra L;\nD: bar.sync 0;",
                12,
            ),
            // What is counted while it fails is an address.
            (
                "mov.u32 %r1, x;\nmov.u32 %r2, x;\nL: add.u32 %r2, %r2, 4;\nmbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\n\
                 @!%p1 bra L;\nst.shared.u32 [%r2], %r1;",
                15,
            ),
            // Another parity the next time.
            (
                "mov.u32 %r1, x;\nmov.u32 %r2, 0;\nL: xor.b32 %r2, %r2, 1;\nmbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;\n\
                 @!%p1 bra L;\nbar.sync 0;",
                13,
            ),
            (
                "mov.u32 %r1, x;\nL: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\nbar.sync 0;\n@!%p1 bra L;",
                11,
            ),
        ] {
            let (_, tests) = lines(body);
            assert_eq!(tests, Some(line), "{body}");
        }
    }

    #[test]
    fn registers_that_are_used_again_are_other_values() {
        let load = "ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];";
        for free in [
            format!("{load}\nst.global.u32 [%rd1], %r1;\nmov.u32 %r1, %tid.x;\nbar.sync %r1, 64;"),
            format!(
                "{load}\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra D;\nst.global.u32 [%rd1], %r1;\nD: mov.u32 %r1, x;\nst.shared.u32 [%r1], %r1;"
            ),
            // What both ways leave as it is.
            format!(
                "mov.u32 %r2, x;\n{load}\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra D;\nst.global.u32 [%rd1], %r1;\nD: st.shared.u32 [%r2], %r1;"
            ),
        ] {
            assert_eq!(lines(&free), (None, None), "{free}");
        }
        for (decided, line) in [
            (
                format!(
                    "{load}\nmov.u32 %r2, 1;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra D;\nmov.u32 %r2, 2;\nD: bar.sync %r2, 64;"
                ),
                16,
            ),
            (
                format!(
                    "{load}\nmov.u32 %r2, 0;\nL: add.u32 %r2, %r2, 4;\nsetp.lt.u32 %p1, %r2, %r1;\n@%p1 bra L;\nst.shared.u32 [%r2], %r1;"
                ),
                16,
            ),
            (
                format!(
                    "{load}\nsetp.eq.u32 %p1, %r1, 0;\nmov.u32 %r2, 1;\n@%p1 mov.u32 %r2, 2;\nbar.sync %r2, 64;"
                ),
                15,
            ),
        ] {
            assert_eq!(lines(&decided), (Some(line), None), "{decided}");
        }
    }
}
