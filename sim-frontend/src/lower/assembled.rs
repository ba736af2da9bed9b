//! For tests: the program of a kernel `k` after passes of the assembler.

use std::sync::Arc;

use crate::chip::AssemblerSpec;
use crate::diagnostic::Source;
use crate::load::{Assembler, Module};
use crate::program::{ControlFlow, Program};

/// The plain program of `k` in a text.
pub(super) fn assembled(text: &str, passes: AssemblerSpec) -> Arc<Program> {
    let module = Module::build(&Source::new("c.ptx", text), false);
    let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
    let assembler = Assembler { stack_bytes: 1024, registers: u32::MAX, passes };
    let made = module.program_for("k", &|_| Some(0), ControlFlow::Plain, assembler);
    made.unwrap_or_else(|e| panic!("{}", e[0].render()))
}
