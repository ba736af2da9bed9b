//! Random control-flow graphs: what transformation 6 makes is consistent, and a literal token
//! stack gives every thread exactly its own trace of source instructions, in bounded depth.

use std::collections::BTreeSet;

use super::emitted::Item;
use super::*;
use crate::form::Form;
use crate::isa::Root;
use crate::lower::ir::{Block, BlockId, Callee, Inst, Operand, PredOperand, Width};
use crate::lower::stack_consistency::check;
use crate::program::Extra;
use proptest::prelude::*;
use sim_memory::vocabulary::ScalarType;

fn inst(class: OpClass, guard: PredOperand) -> Inst {
    Inst { class, guard, callee: Callee::None, extra: Extra::None, ..Inst::blank(control(), guard) }
}

fn control() -> Form {
    Form::plain(Root::Bra, ScalarType::B32)
}

/// A function whose block `b` ends as `shape[b]` says: kind and two targets. Register `b` is the
/// predicate of block `b`'s branch; every block holds one ordinary instruction.
fn func(shape: &[(u8, usize, usize)]) -> Func {
    let n = shape.len();
    let blocks = shape
        .iter()
        .enumerate()
        .map(|(b, &(kind, x, y))| {
            let p = PredOperand::Reg(b as u32, false);
            let always = PredOperand::Const(true);
            let end = match kind {
                _ if b + 1 == n => Terminator::End(Box::new(inst(OpClass::Exit, always))),
                0 => Terminator::End(Box::new(inst(OpClass::Exit, always))),
                1 | 2 => Terminator::Jump(Some(Box::new(inst(OpClass::Branch, always))), x % n),
                3 => Terminator::Jump(None, b + 1),
                4 => Terminator::Branch(Box::new(inst(OpClass::Branch, p)), x % n, y % n),
                // A forward branch, as structured code has them.
                5 | 6 => {
                    Terminator::Branch(Box::new(inst(OpClass::Branch, p)), b + 1 + x % (n - b - 1), b + 1)
                }
                // A latch.
                _ => Terminator::Branch(Box::new(inst(OpClass::Branch, p)), x % (b + 1), b + 1),
            };
            Block { insts: vec![inst(OpClass::Data, always)], end, kept: false }
        })
        .collect();
    Func {
        name: "f".into(),
        entry: true,
        blocks,
        regs: vec![Width::Pred; n],
        param_bytes: 0,
        frame_bytes: 0,
        stack_base: None,
        taken: None,
        links: Vec::new(),
        callees: BTreeSet::new(),
        addressed: BTreeSet::new(),
        indirect: false,
        carry: None,
        injected_by_hand: false,
        uniform: Vec::new(),
        refused: Vec::new(),
    }
}

/// What thread `t` decides at the `visit`th visit of block `b`: mixed, but threads leave loops.
fn decides(seed: u64, t: usize, b: usize, visit: u32) -> bool {
    let mut z = seed ^ (t as u64) << 40 ^ (b as u64) << 20 ^ u64::from(visit);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31) & 3 == 0
}

const STEPS: usize = 400;

/// The trace of one thread alone: the source instructions it runs.
fn alone(func: &Func, seed: u64, t: usize) -> Vec<(BlockId, usize)> {
    let mut visits = vec![0; func.blocks.len()];
    let (mut b, mut trace) = (0, Vec::new());
    while trace.len() < STEPS {
        visits[b] += 1;
        trace.push((b, 0));
        if func.blocks[b].last().is_some() {
            trace.push((b, 1));
        }
        b = match &func.blocks[b].end {
            Terminator::Jump(_, to) => *to,
            Terminator::Branch(_, taken, next) => {
                if decides(seed, t, b, visits[b]) {
                    *taken
                } else {
                    *next
                }
            }
            _ => return trace,
        };
    }
    trace
}

/// A literal token stack over the emitted code: traces of all threads, and the deepest stack.
/// Selectors and tests of injected code are evaluated. Stops after a bound of steps.
fn warp(
    func: &Func,
    emitted: &Emitted,
    seed: u64,
    threads: usize,
) -> (Vec<Vec<(BlockId, usize)>>, usize, bool) {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Sync,
        Diverge,
        Break,
    }
    let mut traces = vec![Vec::new(); threads];
    let mut visits = vec![vec![0u32; func.blocks.len()]; threads];
    let own = func.regs.len();
    let mut preds = vec![vec![false; own + emitted.extra.len()]; threads];
    let mut words = vec![vec![0u64; own + emitted.extra.len()]; threads];
    let (mut pc, mut active, mut exited, mut broken) = (0usize, (1u32 << threads) - 1, 0u32, 0u32);
    let mut stack: Vec<(Kind, u32, usize)> = Vec::new();
    let mut deepest = 0;
    for _ in 0..STEPS * threads * 30 {
        if traces.iter().any(|t| t.len() >= STEPS) {
            return (traces, deepest, false);
        }
        let item = &emitted.items[pc];
        let holds = |t: usize, p: PredOperand, preds: &Vec<Vec<bool>>| match p {
            PredOperand::Const(v) => v,
            PredOperand::Reg(r, not) => preds[t][r as usize] != not,
            PredOperand::None => true,
        };
        let mut exec = 0u32;
        for t in (0..threads).filter(|t| active >> t & 1 == 1) {
            if let Some((b, i)) = item.source {
                if i == 0 {
                    visits[t][b] += 1;
                    preds[t][b] = decides(seed, t, b, visits[t][b]);
                }
                traces[t].push((b, i));
            }
            exec |= u32::from(holds(t, item.guard, &preds)) << t;
        }
        let mut unwind = false;
        match item.class {
            OpClass::Data => {
                if let Some(data) = &item.data {
                    for t in (0..threads).filter(|t| exec >> t & 1 == 1) {
                        let value = |o: Operand| match o {
                            Operand::Reg(r) => words[t][r as usize],
                            Operand::Const { bits, .. } => bits,
                            _ => 0,
                        };
                        match data.form.root {
                            Root::Setp => {
                                let hit = value(data.src[0]) == value(data.src[1]);
                                if let PredOperand::Reg(r, _) = data.pdst[0] {
                                    preds[t][r as usize] = hit;
                                }
                            }
                            _ => {
                                if let PredOperand::Reg(r, _) = data.pdst[0] {
                                    preds[t][r as usize] = holds(t, data.psrc[0], &preds);
                                }
                                if let Operand::Reg(r) = data.dst[0] {
                                    words[t][r as usize] = value(data.src[0]);
                                }
                            }
                        }
                    }
                }
                pc += 1;
            }
            OpClass::Ssy => {
                stack.push((Kind::Sync, active, item.target));
                pc += 1;
            }
            OpClass::PreBreak => {
                stack.push((Kind::Break, active, item.target));
                pc += 1;
            }
            OpClass::Branch => {
                if exec == active {
                    pc = item.target;
                } else if exec == 0 {
                    pc += 1;
                } else {
                    stack.push((Kind::Diverge, active & !exec, pc + 1));
                    active = exec;
                    pc = item.target;
                }
            }
            OpClass::Break => {
                broken |= exec;
                active &= !exec;
                if active == 0 {
                    unwind = true;
                } else {
                    pc += 1;
                }
            }
            OpClass::Exit => {
                exited |= exec;
                active &= !exec;
                if active == 0 {
                    unwind = true;
                } else {
                    pc += 1;
                }
            }
            OpClass::Sync => unwind = true,
            other => panic!("{other:?}"),
        }
        deepest = deepest.max(stack.len());
        while unwind {
            let Some((kind, mask, to)) = stack.pop() else {
                assert_eq!(exited, (1 << threads) - 1, "the stack is empty and threads wait");
                return (traces, deepest, true);
            };
            if kind == Kind::Break {
                broken &= !mask;
            }
            active = mask & !exited & !broken;
            pc = to;
            unwind = active == 0;
        }
    }
    (traces, deepest, false)
}

fn shapes() -> impl Strategy<Value = Vec<(u8, usize, usize)>> {
    prop::collection::vec((0u8..9, 0usize..12, 0usize..12), 2..11)
}

fn examine(func: &Func, seed: u64) {
    let emitted = inject(func, &vec![false; func.blocks.len()]);
    let bound = check(&emitted.items, true).unwrap_or_else(|e| panic!("{e:?}\n{:#?}", emitted.items));
    for threads in [1, 2, 5] {
        let (traces, deepest, finished) = warp(func, &emitted, seed, threads);
        for (t, trace) in traces.iter().enumerate() {
            let own = alone(func, seed, t);
            let n = trace.len().min(own.len());
            assert_eq!(trace[..n], own[..n], "thread {t} of {threads}");
            assert!(!finished || trace.len() == own.len(), "thread {t} of {threads} ended elsewhere");
        }
        // Each token of a frame may have one diverge token above it.
        assert!(deepest <= bound as usize, "{deepest} tokens, {bound} expected at most");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn tf_6_random_graphs_are_consistent_and_give_each_thread_its_own_trace(shape in shapes(), seed in any::<u64>()) {
        examine(&func(&shape), seed);
    }
}

#[test]
fn an_if_costs_ssy_and_sync_and_a_loop_prebrk_and_brk() {
    let count = |shape: &[(u8, usize, usize)]| {
        let emitted = inject(&func(shape), &vec![false; shape.len()]);
        let injected = emitted.items.iter().filter(|i| i.source.is_none());
        injected.map(|i| i.class).collect::<Vec<_>>()
    };
    // 0: branch to 2, else 1; 1 → 2; 2: exit.
    assert_eq!(count(&[(5, 1, 0), (3, 0, 0), (0, 0, 0)]), [OpClass::Ssy, OpClass::Sync]);
    // 0 → 1; 1: latch to itself, else 2. The exit branch is the break; going round is a branch.
    assert_eq!(count(&[(3, 0, 0), (8, 1, 0), (0, 0, 0)]), [OpClass::PreBreak, OpClass::Branch]);
}

#[test]
fn uniform_branches_need_no_tokens() {
    let f = func(&[(5, 1, 0), (3, 0, 0), (0, 0, 0)]);
    let emitted = inject(&f, &[true, true, true]);
    assert!(emitted.items.iter().all(|i| i.source.is_some()));
}

#[test]
fn irreducible_regions_are_entered_by_a_selector_and_say_so() {
    // 0 → {1, 2}; 1 → 2; 2 → {1, 3}.
    let f = func(&[(4, 1, 2), (1, 2, 0), (4, 1, 3), (0, 0, 0)]);
    let emitted = inject(&f, &[false; 4]);
    assert_eq!(emitted.notes, ["f: 1 irreducible region is entered by a selector"]);
    (0..50).for_each(|seed| examine(&f, seed));
}

/// Three entries, and an irreducible region within another.
#[test]
fn irreducible_regions_of_several_entries_nest() {
    // 0 → {1, 7}, 7 → {2, 3}; {1, 2, 3} go round, each entered from outside.
    let f = func(&[
        (4, 1, 7),
        (1, 2, 0),
        (1, 3, 0),
        (4, 1, 8),
        (3, 0, 0),
        (3, 0, 0),
        (3, 0, 0),
        (4, 2, 3),
        (0, 0, 0),
    ]);
    assert_eq!(inject(&f, &[false; 9]).notes, ["f: 1 irreducible region is entered by a selector"]);
    (0..50).for_each(|seed| examine(&f, seed));
    // 1 and 5 enter the outer region; 3 and 4 the inner one, from 2.
    let f = func(&[(4, 1, 5), (3, 0, 0), (4, 3, 4), (1, 4, 0), (4, 3, 5), (4, 1, 6), (0, 0, 0)]);
    assert_eq!(inject(&f, &[false; 7]).notes, ["f: 2 irreducible regions are entered by a selector"]);
    (0..50).for_each(|seed| examine(&f, seed));
}

#[test]
fn paths_around_an_irreducible_region_meet_at_their_own_joins() {
    // 0 → {1, 2} → 3 before the region {4, 5}; 6 → {7, 8} → 8 after it.
    let f = func(&[
        (4, 1, 2),
        (1, 3, 0),
        (1, 3, 0),
        (4, 4, 5),
        (1, 5, 0),
        (4, 4, 6),
        (4, 7, 8),
        (3, 0, 0),
        (0, 0, 0),
    ]);
    let emitted = inject(&f, &[false; 9]);
    let at = |source| emitted.items.iter().position(|item| item.source == Some(source)).expect("emitted");
    for (branch, join) in [(0, 3), (6, 8)] {
        let ssy = &emitted.items[..at((branch, 1))];
        let met = ssy.iter().any(|item| item.class == OpClass::Ssy && item.target == at((join, 0)));
        assert!(met, "block {branch}: {:#?}", emitted.items);
    }
    (0..50).for_each(|seed| examine(&f, seed));
}

/// An inner loop that is left to the header of the outer one, as where compilers thread jumps.
#[test]
fn an_inner_loop_goes_on_with_an_outer_one() {
    for shape in [
        &[(3, 0, 0), (4, 2, 3), (4, 1, 0), (0, 0, 0)][..],
        &[(3, 0, 0), (3, 0, 0), (4, 3, 4), (4, 2, 1), (0, 0, 0)],
        // From the third one to the first.
        &[(3, 0, 0), (3, 0, 0), (3, 0, 0), (4, 4, 5), (4, 3, 2), (4, 1, 6), (0, 0, 0)],
        &[(3, 0, 0), (3, 0, 0), (3, 0, 0), (4, 4, 5), (4, 3, 1), (4, 2, 6), (0, 0, 0)],
    ] {
        let f = func(shape);
        let notes = inject(&f, &vec![false; shape.len()]).notes;
        assert!(notes.iter().all(|note| note.contains("uses selector registers")), "{notes:?}");
        (0..50).for_each(|seed| examine(&f, seed));
    }
}

#[test]
fn an_irreducible_region_that_threads_never_leave_becomes_a_dispatch_loop_and_says_so() {
    let f = func(&[(1, 2, 0), (4, 4, 2), (4, 1, 3), (4, 2, 4), (4, 1, 5), (1, 1, 0), (0, 0, 0)]);
    let emitted = inject(&f, &[false; 7]);
    assert_eq!(emitted.notes, ["f: an irreducible region became a dispatch loop"]);
    (0..50).for_each(|seed| examine(&f, seed));
}

/// One hand-made violation of each rule of consistency.
#[test]
fn cfc_stack1_cfc_stack2_cfc_stack3_cfc_stack4_cfc_stack5_cfc_stack6_cfc_addr_each_broken_once() {
    use OpClass as C;
    let code = |ops: &[(OpClass, usize, bool)]| -> Vec<Item> {
        ops.iter()
            .map(|&(class, target, guarded)| Item {
                source: None,
                class,
                guard: if guarded { PredOperand::Reg(0, false) } else { PredOperand::Const(true) },
                target,
                targets: Vec::new(),
                inverted: false,
                data: None,
                reconverges: true,
            })
            .collect()
    };
    let rule =
        |ops: &[(OpClass, usize, bool)], entry: bool| check(&code(ops), entry).map_err(|e| (e.rule, e.at));
    let n = NONE;
    assert_eq!(rule(&[(C::Break, n, false), (C::Exit, n, false)], true), Err(("cfc-stack1", 0)));
    assert_eq!(rule(&[(C::Return, n, false)], true), Err(("cfc-stack2", 0)));
    assert_eq!(rule(&[(C::Return, n, false)], false), Ok(1), "a function has its caller's token");
    assert_eq!(rule(&[(C::Sync, n, false), (C::Exit, n, false)], true), Err(("cfc-stack3", 0)));
    // Two ways lead to 3, one with a sync token.
    let meet = [(C::Branch, 2, true), (C::Ssy, 3, false), (C::Data, n, false), (C::Exit, n, false)];
    assert_eq!(rule(&meet, true).map_err(|e| e.0), Err("cfc-stack4"));
    let other = [(C::Ssy, 3, false), (C::Sync, n, false), (C::Data, n, false), (C::Exit, n, false)];
    assert_eq!(rule(&other, true), Err(("cfc-stack5", 1)));
    assert_eq!(rule(&[(C::Call, 0, false), (C::Exit, n, false)], true), Err(("cfc-stack6", 0)));
    assert_eq!(rule(&[(C::Branch, 7, false)], true), Err(("cfc-addr", 0)));
    assert_eq!(rule(&[(C::Data, n, false)], true), Err(("cfc-addr", 1)), "it runs off its end");
}
