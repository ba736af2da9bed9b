//! The while-language of Habermaier and Knapp, On the Correctness of the SIMT Execution Model of GPUs
//! (ESOP 2012, "SC"): the warp semantics, the interleaved semantics of threads, and the proof that
//! the one is a schedule of the other, as tests over random programs.

#![allow(missing_docs, reason = "tests")]

mod language;
mod random;
mod thread;
mod warp;

use std::rc::Rc;

use language::{Expr, Kind, Module, Stm, each};
use warp::{Disabled, Item, Warp, enable};

/// Program 1: lines as the paper numbers them, `j` before `i` in no way.
fn program_1() -> (Module, usize) {
    const TID: usize = 0;
    let (i, j, a, b) = (1, 2, 3, 4);
    let var = |v| Rc::new(Expr::Var(v));
    let value = |v| Rc::new(Expr::Value(v));
    let at = |line, kind| Stm { line, kind };
    let twice = Rc::new(Expr::Mul(value(2), var(i)));
    let body = Rc::new(vec![
        at(
            5,
            Kind::If(
                Expr::Greater(var(j), twice),
                Rc::new(vec![at(6, Kind::Assign(b, Expr::Add(var(b), var(i))))]),
                Rc::new(vec![at(8, Kind::Break)]),
            ),
        ),
        at(9, Kind::Assign(i, Expr::Sub(var(i), value(1)))),
    ]);
    let func = Rc::new(vec![
        at(3, Kind::Assign(i, Expr::Var(a))),
        at(3, Kind::Assign(j, Expr::Var(b))),
        at(4, Kind::While(Expr::Greater(var(i), value(0)), body)),
        at(11, Kind::Return),
    ]);
    let main = Rc::new(vec![at(14, Kind::Call(0)), at(15, Kind::Return)]);
    (Module { program: main, functions: vec![func], shared: vec![false; 5] }, TID)
}

fn with_arrays(module: &Module) -> Warp {
    let mut memory = module.memory(4);
    for (thread, (a, b)) in [(0, 0), (1, 1), (1, 1), (1, 3)].into_iter().enumerate() {
        memory[module.place(thread, 3)] = a;
        memory[module.place(thread, 4)] = b;
    }
    Warp::new(module, 4, memory)
}

fn bits(threads: u32) -> String {
    (0..4).map(|thread| if threads >> thread & 1 == 1 { '1' } else { '0' }).collect()
}

fn masks(warp: &Warp) -> (String, String) {
    let disabled = warp.disabled.iter().map(|d| match d {
        Disabled::No => '0',
        Disabled::Break => 'b',
        Disabled::Return => 'r',
    });
    (bits(warp.active), disabled.collect())
}

/// The tokens from the top as the paper writes them, with the line each goes on at, without the
/// one of the kernel itself.
fn tokens(warp: &Warp) -> Vec<String> {
    let mut out = Vec::new();
    for (at, item) in warp.stack.iter().enumerate().skip(1) {
        if let Item::Token(token, threads) = item {
            let next = warp.stack[..at].iter().rev().find_map(|item| match item {
                Item::Stm(stm) => Some(stm.line),
                Item::Token(..) => None,
            });
            let name = format!("{token:?}").to_lowercase();
            out.push(format!("({name}, {}, {})", bits(*threads), next.unwrap_or(0)));
        }
    }
    out.reverse();
    out
}

#[test]
fn table_1_the_execution_state_of_program_1() {
    let (module, _) = program_1();
    let mut warp = with_arrays(&module);
    let order = [0, 1, 2, 3];
    let mut rows = Vec::new();
    loop {
        // Tokens go as soon as they are on top: the paper shows states between instructions.
        while matches!(warp.stack.last(), Some(Item::Token(..))) || warp.active == 0 && !warp.stack.is_empty()
        {
            warp.step(&module, &order);
        }
        let Some(Item::Stm(stm)) = warp.stack.last() else { break };
        let (active, disabled) = masks(&warp);
        let row =
            (stm.line, active, disabled, tokens(&warp).into_iter().take(2).collect::<Vec<_>>().join(" "));
        // Line 3 holds two assignments.
        if rows.last().is_none_or(|last: &(u32, String, String, String)| last.0 != 3 || row.0 != 3) {
            rows.push(row);
        }
        warp.step(&module, &order);
    }
    let expected = [
        (14, "1111", "0000", ""),
        (3, "1111", "0000", "(call, 1111, 15)"),
        (4, "1111", "0000", "(call, 1111, 15)"),
        (5, "0111", "0000", "(brk, 1111, 11) (call, 1111, 15)"),
        (8, "0110", "0000", "(div, 0001, 6) (sync, 0111, 9)"),
        (6, "0001", "0bb0", "(sync, 0111, 9) (brk, 1111, 11)"),
        (9, "0001", "0bb0", "(brk, 1111, 11) (call, 1111, 15)"),
        (4, "0001", "0bb0", "(brk, 1111, 11) (call, 1111, 15)"),
        (11, "1111", "0000", "(call, 1111, 15)"),
        (15, "1111", "0000", ""),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(pc, a, d, s)| (*pc, a.to_string(), d.to_string(), s.to_string())).collect();
    assert_eq!(rows, expected);
}

#[test]
fn sc_while_sc_if_sc_break_sc_token_sc_assign_sc_while2_sc_inact_derive_example_2() {
    let (module, _) = program_1();
    let mut warp = with_arrays(&module);
    let order = [0, 1, 2, 3];
    let mut derived = Vec::new();
    while let Some(rule) = warp.step(&module, &order) {
        let (active, disabled) = masks(&warp);
        derived.push(format!("{rule} {active} {disabled}"));
    }
    let example = [
        "while 0111 0000",
        "if 0110 0000",
        "break 0000 0bb0",
        "token 0001 0bb0",
        "assign 0001 0bb0",
        "token 0001 0bb0",
        "assign 0001 0bb0",
        "while2 0000 0bb0",
        "inact 0000 0bb0",
        "token 1111 0000",
    ];
    let before = ["call 1111 0000", "assign 1111 0000", "assign 1111 0000"];
    let after = ["return 0000 rrrr", "token 1111 0000", "return 0000 rrrr", "token 1111 0000"];
    assert_eq!(derived, [&before[..], &example, &after].concat());
    // Thread 3 added its i to b[3].
    assert_eq!((0..4).map(|t| warp.memory[module.place(t, 4)]).collect::<Vec<_>>(), [0, 1, 1, 4]);
}

#[test]
fn sc_call_sc_return_sc_skip_of_threads_that_part() {
    // if (tid > 1) return; else skip; f();  where f is: x = 7; return; x = 9;
    let at = |kind| Stm { line: 0, kind };
    let (tid, x) = (Rc::new(Expr::Var(0)), 1);
    let program = Rc::new(vec![
        at(Kind::If(
            Expr::Greater(tid, Rc::new(Expr::Value(1))),
            Rc::new(vec![at(Kind::Return)]),
            Rc::new(vec![at(Kind::Skip)]),
        )),
        at(Kind::Call(0)),
    ]);
    let function = Rc::new(vec![
        at(Kind::Assign(x, Expr::Value(7))),
        at(Kind::Return),
        at(Kind::Assign(x, Expr::Value(9))),
    ]);
    let module = Module { program, functions: vec![function], shared: vec![false; 2] };
    let mut memory = module.memory(4);
    (0..4).for_each(|thread| memory[module.place(thread, 0)] = thread as i64);
    let mut warp = Warp::new(&module, 4, memory);
    let mut rules = Vec::new();
    while let Some(rule) = warp.step(&module, &[0, 1, 2, 3]) {
        let (active, disabled) = masks(&warp);
        rules.push(format!("{rule} {active} {disabled}"));
    }
    // Those that returned stay away from the call token of f, in whose mask they are not.
    let expected = [
        "if 1100 0000",
        "skip 1100 0000",
        "token 0011 0000",
        "return 0000 00rr",
        "token 1100 00rr",
        "call 1100 00rr",
        "assign 1100 00rr",
        "return 0000 rrrr",
        "token 1100 00rr",
        "token 1111 0000",
    ];
    assert_eq!(rules, expected);
    assert_eq!((0..4).map(|t| warp.memory[module.place(t, 1)]).collect::<Vec<_>>(), [7, 7, 0, 0]);
}

/// One warp transition and what SC shows of it: lemma 1 on either side, lemma 2 for all tokens,
/// lemma 3 for inactive threads, lemmas 4 and 5 for active ones, hence proposition 1. The witness is
/// run on the interleaved configuration beside.
fn simulate(
    module: &Module,
    warp: &mut Warp,
    stacks: &mut [thread::Stack],
    memory: &mut Vec<i64>,
    order: &[usize],
) -> Option<&'static str> {
    let before = warp.clone();
    let rule = warp.step(module, order)?;
    assert_eq!(warp.lemma_1(), [0; 0], "lemma 1 after {rule}");
    for item in &before.stack {
        let Item::Token(token, threads) = item else { continue };
        let (enabled, _) = enable(&before.disabled, *token, *threads);
        for thread in (0..stacks.len()).filter(|t| before.active >> t & 1 == 0) {
            let activates = thread::is_act_token(thread, *token, *threads, before.disabled[thread]);
            assert_eq!(activates, enabled >> thread & 1 == 1, "lemma 2");
        }
    }
    let after: Vec<thread::Stack> = (0..stacks.len()).map(|thread| thread::project(warp, thread)).collect();
    if rule == "assign" {
        // All read before any writes, and those that write last for the warp write last here.
        for thread in each(before.active) {
            assert_eq!(thread::step(module, thread, &mut stacks[thread], memory), Some("assign_rd"));
        }
        for &thread in order.iter().filter(|t| before.active >> **t & 1 == 1) {
            assert_eq!(thread::step(module, thread, &mut stacks[thread], memory), Some("assign_wr"));
        }
    } else {
        for thread in each(before.active) {
            if stacks[thread] == after[thread] {
                continue;
            }
            let by = thread::step(module, thread, &mut stacks[thread], memory);
            assert!(by.is_some(), "lemma 5: {rule}");
            // By the rules as printed a thread that leaves a later iteration still has the loop's
            // context on its stack, which the warp's `brk` token takes off for it.
            if by == Some("while2_ff") {
                assert_eq!(thread::step(module, thread, &mut stacks[thread], memory), Some("context"));
            }
        }
    }
    for (thread, stack) in stacks.iter().enumerate() {
        let lemma = if before.active >> thread & 1 == 1 { "4 or 5" } else { "3" };
        assert_eq!(*stack, after[thread], "lemma {lemma}: thread {thread} after {rule}");
    }
    assert_eq!(*memory, warp.memory, "memory after {rule}");
    Some(rule)
}

#[test]
fn sc_interleave_sc_project_theorem_1_every_warp_run_is_a_schedule_of_its_threads() {
    let mut seen = std::collections::BTreeSet::new();
    let mut steps = 0usize;
    for seed in 0..3000 {
        let (module, threads) = random::program(seed);
        let memory = random::memory(&module, threads, seed);
        let mut warp = Warp::new(&module, threads, memory.clone());
        let mut memory = memory;
        let mut stacks: Vec<thread::Stack> =
            (0..threads).map(|thread| thread::project(&warp, thread)).collect();
        let mut order: Vec<usize> = (0..threads).collect();
        let mut numbers = random::Numbers::new(seed ^ 0xabcd);
        while let Some(rule) = {
            numbers.shuffle(&mut order);
            simulate(&module, &mut warp, &mut stacks, &mut memory, &order)
        } {
            seen.insert(rule);
            steps += 1;
            assert!(steps < 20_000_000, "program {seed} does not end");
        }
        assert!(stacks.iter().all(Vec::is_empty), "all threads have ended");
    }
    let all = ["assign", "break", "call", "if", "inact", "return", "skip", "token", "while", "while2"];
    assert!(seen.iter().eq(all.iter()), "{seen:?}");
    assert!(steps > 100_000, "{steps}");
}

#[test]
fn two_rules_for_assignments_are_needed() {
    // x = x + 1 of a shared x: a warp adds one, threads that read and write at once would add four.
    let add = Expr::Add(Rc::new(Expr::Var(0)), Rc::new(Expr::Value(1)));
    let program = Rc::new(vec![Stm { line: 1, kind: Kind::Assign(0, add) }]);
    let module = Module { program, functions: Vec::new(), shared: vec![true] };
    let mut warp = Warp::new(&module, 4, module.memory(4));
    while warp.step(&module, &[0, 1, 2, 3]).is_some() {}
    assert_eq!(warp.memory[0], 1);
    let mut memory = module.memory(4);
    for thread in 0..4 {
        let mut stack = thread::project(&Warp::new(&module, 4, memory.clone()), thread);
        while thread::step(&module, thread, &mut stack, &mut memory).is_some() {}
    }
    assert_eq!(memory[0], 4);
}

#[test]
fn sc_unfair_programs_2_and_3_never_end_and_program_4_does() {
    let at = |kind| Stm { line: 0, kind };
    let (lock, tid) = (Rc::new(Expr::Var(0)), Rc::new(Expr::Var(1)));
    let value = |v| Rc::new(Expr::Value(v));
    let stms = Rc::new;
    let plus_one = Expr::Add(lock.clone(), value(1));
    let spin = at(Kind::While(Expr::Differs(lock.clone(), value(1)), stms(vec![at(Kind::Skip)])));
    let set = at(Kind::Assign(0, Expr::Value(1)));
    let two = vec![at(Kind::If(
        Expr::Differs(tid.clone(), value(0)),
        stms(vec![spin.clone()]),
        stms(vec![set.clone()]),
    ))];
    let two_reversed =
        vec![at(Kind::If(Expr::Greater(value(1), tid.clone()), stms(vec![set]), stms(vec![spin])))];
    let three = vec![
        at(Kind::While(Expr::Differs(lock.clone(), tid.clone()), stms(vec![at(Kind::Skip)]))),
        at(Kind::Assign(0, plus_one.clone())),
    ];
    let serve = at(Kind::If(
        Expr::Differs(lock.clone(), tid),
        stms(vec![at(Kind::Skip)]),
        stms(vec![at(Kind::Assign(0, plus_one))]),
    ));
    let four = vec![at(Kind::While(Expr::Differs(lock, value(4)), stms(vec![serve])))];
    let ends = |program: Vec<Stm>| {
        let module = Module { program: Rc::new(program), functions: Vec::new(), shared: vec![true, false] };
        let mut memory = module.memory(4);
        (0..4).for_each(|thread| memory[module.place(thread, 1)] = thread as i64);
        let order = [0, 1, 2, 3];
        let mut warp = Warp::new(&module, 4, memory.clone());
        // A warp that has been in a configuration before never ends: nothing is chosen.
        let mut before: Vec<Warp> = Vec::new();
        let warp_ends = loop {
            if warp.stack.is_empty() {
                break true;
            }
            if before.contains(&warp) {
                break false;
            }
            before.push(warp.clone());
            warp.step(&module, &order);
        };
        // Weakly fair: each thread in its turn.
        let start = Warp::new(&module, 4, memory.clone());
        let mut stacks: Vec<thread::Stack> = (0..4).map(|thread| thread::project(&start, thread)).collect();
        let threads_end = (0..10_000).any(|turn| {
            let thread = turn % 4;
            thread::step(&module, thread, &mut stacks[thread], &mut memory);
            stacks.iter().all(Vec::is_empty)
        });
        (warp_ends, threads_end)
    };
    // [sc-unfair] The else path goes first: it sets in `two`, it waits in the other.
    assert_eq!(ends(two), (true, true));
    assert_eq!(ends(two_reversed), (false, true));
    assert_eq!(ends(three), (false, true));
    assert_eq!(ends(four), (true, true));
}
