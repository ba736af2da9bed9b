//! Any text: read, checked and lowered in every way there is, it ends with programs or with errors
//! that have words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim_frontend::chip::AssemblerSpec;
use sim_frontend::dependence::divergence;
use sim_frontend::diagnostic::Source;
use sim_frontend::fairness::loops;
use sim_frontend::load::{Assembler, Module};
use sim_frontend::program::ControlFlow;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let source = Source::new("fuzz.ptx", &text);
    for papers in [false, true] {
        let module = match Module::build(&source, papers) {
            Ok(module) => module,
            Err(errors) => {
                assert!(!errors.is_empty() && errors.iter().all(|error| !error.render().is_empty()));
                continue;
            }
        };
        let entries: Vec<String> = module.entries().map(str::to_string).collect();
        for entry in entries {
            if let Ok(program) = module.program(&entry, &|_| Some(64), ControlFlow::Injected, 1024) {
                let plain = program.base.as_deref().unwrap_or(&program);
                let _ = (divergence(plain), loops(plain));
            }
            // With few registers, and by all passes of the assembler.
            let passes = AssemblerSpec::ALL;
            for registers in [12, 255] {
                let assembler = Assembler { stack_bytes: 1024, registers, passes };
                let _ = module.program_for(&entry, &|_| Some(64), ControlFlow::Injected, assembler);
            }
        }
    }
});
