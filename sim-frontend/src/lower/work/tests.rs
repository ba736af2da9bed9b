use super::steps;
use crate::chip::AssemblerSpec;
use crate::diagnostic::Source;
use crate::load::{Assembler, Module};
use crate::program::{ControlFlow, Program};

#[path = "../../../../benches/common/texts/mod.rs"]
mod texts;

/// The programs of all kernels of a text.
fn programs(name: &str, text: &str, assembler: Assembler) -> Vec<std::sync::Arc<Program>> {
    let module = Module::build(&Source::new(name, text), false);
    let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
    let program = |entry: &str| {
        let program = module.program_for(entry, &|_| Some(256), ControlFlow::Injected, assembler);
        program.unwrap_or_else(|e| panic!("{}", e[0].render()))
    };
    module.entries().map(program).collect()
}

fn assembler(registers: u32, on: bool) -> Assembler {
    let passes = if on { AssemblerSpec::ALL } else { AssemblerSpec::default() };
    Assembler { stack_bytes: 1024, registers, passes }
}

#[test]
fn work_grows_as_the_text_does() {
    let mut wrong = Vec::new();
    for (name, text, size) in texts::KINDS.iter().chain(&texts::SHAPES) {
        for (registers, clean_up) in [(u32::MAX, false), (u32::MAX, true), (14, true)] {
            let (small, large) = (text(size / 4), text(*size));
            let longer = large.len() as f64 / small.len() as f64;
            let work = |text: &str| steps(|| drop(programs(name, text, assembler(registers, clean_up))));
            let more = work(&large) as f64 / work(&small).max(1000) as f64;
            // A logarithm, and what is added once. Each of the loops within one another lists the blocks
            // within it.
            let most = if *name == "nested loops" { longer * longer } else { longer * 1.6 };
            if more > most {
                wrong.push(format!(
                    "{name}, {registers} registers: {longer:.2} times the text, {more:.2} the work"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What `inspect` asks of a program: its loops, and the branches that may diverge.
fn asked(programs: &[std::sync::Arc<Program>]) {
    for program in programs {
        let plain = program.base.as_deref().unwrap_or(program);
        crate::fairness::loops(plain);
        crate::dependence::divergence(plain);
    }
}

#[test]
fn what_is_known_without_running_grows_as_the_text_does() {
    let mut wrong = Vec::new();
    // Not those whose branches reach over all that follows, or of which each lies within all before.
    let few = ["branch table", "nested loops", "nested scopes"];
    for (name, text, size) in texts::SHAPES.iter().filter(|shape| !few.contains(&shape.0)) {
        let (small, large) = (text(size / 4), text(*size));
        let longer = large.len() as f64 / small.len() as f64;
        let work = |text: &str| {
            let programs = programs(name, text, assembler(64, true));
            steps(|| asked(&programs))
        };
        let more = work(&large) as f64 / work(&small).max(1000) as f64;
        if more > longer * 1.6 {
            wrong.push(format!("{name}: {longer:.2} times the text, {more:.2} the work"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn regions_without_structure_and_loops_within_loops_are_followed_without_recursion() {
    // Arms of branches that become guards leave no region.
    let branches = |registers: u32| {
        let all = assembler(registers, true);
        Assembler { passes: AssemblerSpec { predicate: 0, ..all.passes }, ..all }
    };
    let dispatched = |text: &str| {
        let program = &programs("regions", text, branches(255))[0];
        assert!(program.registers_per_thread < 12, "{}", program.registers_per_thread);
        program.notes.iter().filter(|note| note.contains("irreducible region became a dispatch loop")).count()
    };
    assert_eq!(dispatched(&texts::branches_before_dispatch(2000)), 2001);
    assert_eq!(dispatched(&texts::dispatch_loops(500)), 500);
    let notes = |text: &str| programs("regions", text, branches(255))[0].notes.len();
    assert_eq!(notes(&texts::branches_before_irreducible(2000)), 1);
    assert_eq!(notes(&texts::irreducible_regions(500)), 1);
    // All loops are told of, those far inside without a closer look.
    let text = texts::nested_loops(300);
    let all = assembler(255, true);
    let as_many = Assembler { passes: AssemblerSpec { unroll: false, ..all.passes }, ..all };
    let program = &programs("loops", &text, as_many)[0];
    let found = crate::fairness::loops(program.base.as_deref().expect("a plain program"));
    assert_eq!(found.len(), 300);
    let known =
        |found: &&crate::fairness::LoopFairness| found.verdict == crate::fairness::Verdict::Independent;
    assert_eq!(found.iter().filter(known).count(), 64);
    // What lies in so many loops that their lists would not fit becomes a dispatch loop.
    let program = &programs("loops", &texts::nested_loops(900), assembler(255, true))[0];
    assert!(program.notes.iter().any(|note| note.contains("dispatch loop")), "{:?}", program.notes);
}

#[test]
fn values_that_find_no_register_are_spilled_in_few_steps() {
    for (name, text, size) in texts::KINDS {
        let text = text(size / 4);
        let whole = programs(name, &text, assembler(u32::MAX, true));
        let free = steps(|| drop(programs(name, &text, assembler(u32::MAX, true))));
        for registers in [255, 64, 32] {
            let tight = programs(name, &text, assembler(registers, true));
            for program in &tight {
                let used = program.registers_per_thread;
                assert!(used <= registers, "{name}: {used} registers of {registers}");
            }
            let length = |list: &[std::sync::Arc<Program>]| list.iter().map(|p| p.ops.len()).sum::<usize>();
            assert!(length(&tight) < 4 * length(&whole), "{name}, {registers}: {}", length(&tight));
            let work = steps(|| drop(programs(name, &text, assembler(registers, true))));
            // Translated and cleaned up once, however often registers are given out; moved and joined each time.
            assert!(work < 4 * free, "{name}: {work} steps for {registers} registers, {free} for any number");
        }
    }
}

#[test]
fn a_chain_of_calls_is_followed_without_recursion() {
    let text = texts::call_chain(20_000);
    let program = &programs("chain", &text, assembler(255, true))[0];
    assert_eq!(program.functions.len(), 20_001);
    assert!(program.registers_per_thread <= 255, "{}", program.registers_per_thread);
}
