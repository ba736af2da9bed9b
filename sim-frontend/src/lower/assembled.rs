//! For tests: the program of a kernel `k` after passes of the assembler, and functions before them, with what is live in them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ir::{Func, Inst, Reg, Width};
use super::linear_scan::Assignment;
use super::liveness::Live;
use super::translate::{Context, translate};
use crate::chip::AssemblerSpec;
use crate::diagnostic::Source;
use crate::load::{Assembler, Module};
use crate::program::{ControlFlow, Program};
use crate::ptx::parser::parse;

/// The plain program of `k` in a text.
pub(super) fn assembled(text: &str, passes: AssemblerSpec) -> Arc<Program> {
    let module = Module::build(&Source::new("c.ptx", text), false);
    let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
    let assembler = Assembler { stack_bytes: 1024, registers: u32::MAX, passes };
    let made = module.program_for("k", &|_| Some(0), ControlFlow::Plain, assembler);
    made.unwrap_or_else(|e| panic!("{}", e[0].render()))
}

/// The functions of a text that have bodies, as they are translated.
pub(super) fn translated(text: &str) -> Vec<Func> {
    let source = Source::new("text", text);
    let module = parse(&source, false).expect("a module");
    let (symbols, opcodes) = (FxHashMap::default(), RefCell::default());
    let cx = Context { source: &source, module: &module, symbols: &symbols, saved: 0, opcodes };
    let bodies = (0..module.functions.len()).filter(|f| module.functions[*f].body.is_some());
    bodies.map(|f| translate(&cx, f).unwrap_or_else(|e| panic!("{}", e[0].message))).collect()
}

/// Calls `each` with every instruction, what is live behind it with what it writes, and what is live in front of it.
pub(super) fn for_each_live(func: &Func, mut each: impl FnMut(&Inst, &BTreeSet<Reg>, &BTreeSet<Reg>)) {
    let live = Live::new(func);
    for (b, block) in func.blocks.iter().enumerate() {
        let mut now = BTreeSet::new();
        live.for_behind(b, |reg| {
            now.insert(reg);
        });
        let insts: Vec<_> = block.all().collect();
        for inst in insts.into_iter().rev() {
            let mut behind = now.clone();
            inst.for_writes(|reg| {
                behind.insert(reg);
                now.remove(&reg);
            });
            inst.for_reads(|reg| {
                now.insert(reg);
            });
            each(inst, &behind, &now);
        }
    }
}

/// What is live at a place, and what is written there, lies in rows of its own from `first_row` on, and pairs are aligned.
pub(super) fn rows_are_alone(func: &Func, made: &Assignment, first_row: u16) {
    let alone = |regs: &BTreeSet<Reg>| {
        let mut taken = BTreeSet::new();
        if made.stack_pointer {
            taken.insert((false, 1));
        }
        for &reg in regs {
            let (width, first) = (func.regs[reg as usize], made.place[reg as usize].expect("a place"));
            let pred = width == Width::Pred;
            let last = first + u16::from(width == Width::Pair);
            assert!(pred || first >= first_row, "row {first} is not its own");
            assert!(width != Width::Pair || first.is_multiple_of(2), "row {first} is not aligned");
            assert!(last < if pred { made.preds } else { made.rows }, "row {last} is not counted");
            for row in first..=last {
                assert!(taken.insert((pred, row)), "row {row} is shared");
            }
        }
    };
    for_each_live(func, |_, behind, before| {
        alone(behind);
        alone(before);
    });
}
