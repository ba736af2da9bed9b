//! Instructions of random rows of the table, printed and read again, are the same; lowered, they end as operations or
//! with errors that have words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim_frontend::diagnostic::Source;
use sim_frontend::isa::{self, Shape};
use sim_frontend::load::Module;
use sim_frontend::program::ControlFlow;
use sim_frontend::ptx::ast::Statement;
use sim_frontend::ptx::{parser, print};

/// What a place of an instruction may hold.
fn operand(shape: Shape, mut choose: impl FnMut(&[&str]) -> String) -> String {
    const REGISTERS: &[&str] = &["%r1", "%rd7", "$x", "_a", "%f0", "%h2", "%q1", "_"];
    match shape {
        Shape::Destination(_) => choose(REGISTERS),
        Shape::DestinationPart(_) => choose(&["%r1", "%r1.b0", "%r1.h10"]),
        Shape::PredicateDestination => choose(&["%p1", "%p9"]),
        Shape::Predicate => choose(&["%p2", "!%p3"]),
        Shape::Address => choose(&["[%rd1]", "[%rd1+16]", "[sym+-4]", "[256]"]),
        Shape::Texture => choose(&["[%rd1, {%f1, %f2}]", "[tex, %rd2, {%r1}]", "[tex, %r1]"]),
        Shape::Vector => choose(&[
            "{%r1, %r2}",
            "{%f1, _, %f3, %f4}",
            "{%rd1, %rd2, %rd1, %rd3}",
            "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}",
            "{%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}",
            "%r5",
            "%q2",
        ]),
        Shape::Label => choose(&["$L__BB0_1", "done"]),
        Shape::Immediate => choose(&["192", "0", "255"]),
        Shape::Part(_) => choose(&["%r1", "%r1.h1", "-%r1", "-%r1.b3", "7"]),
        Shape::Source(..) | Shape::Anything => {
            choose(&["%r1", "-5", "17", "0f3F800000", "0dBFF0000000000000", "%tid.x", "sym+8"])
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut numbers = bytes.iter().map(|byte| usize::from(*byte)).chain(std::iter::repeat(0));
    let mut next =
        move |n: usize| (numbers.next().unwrap_or(0) * 256 + numbers.next().unwrap_or(0)) % n.max(1);
    let rows: Vec<&isa::Entry> = isa::TABLE.iter().filter(|row| !row.papers() && row.executed()).collect();
    let row = rows[next(rows.len())];
    let forms = isa::combinations(row);
    let modifiers = &forms[next(forms.len())];
    let resolved = isa::resolve(row, modifiers, false).expect("a form of the table");
    let mut operands = Vec::new();
    for shape in resolved.operands {
        if shape.optional && next(2) == 0 {
            break;
        }
        let text = operand(shape.shape, |list| list[next(list.len())].to_string());
        operands.push(if shape.pair && next(2) == 0 { format!("{text}|%p4") } else { text });
    }
    let opcode: String =
        std::iter::once(row.name).chain(modifiers.iter().copied()).collect::<Vec<_>>().join(".");
    let guard = ["", "@%p0 ", "@!%p0 "][next(3)];
    let blank = if operands.is_empty() { "" } else { " " };
    let line = format!("{guard}{opcode}{blank}{}", operands.join(", "));
    let text = format!(".version 8.0\n.target sm_52\n.address_size 64\n.entry k()\n{{\n{line};\n}}\n");
    let source = Source::new("fuzz.ptx", &text);
    let module = parser::parse(&source, false).expect("a row of the table parses");
    let body = module.functions[0].body.as_deref().expect("a body");
    let [Statement::Instruction(instruction)] = body else { panic!("{line} is one instruction") };
    assert_eq!(print::instruction(instruction), line);
    let declared = ".reg .pred %p<10>;\n.reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .f32 %f<8>;\n.reg .b64 %rd<8>;\n.reg .b128 %q<4>;\n\
                    .shared .align 32 .b8 sym[64];";
    let text = format!(
        ".version 9.0\n.target sm_120a\n.address_size 64\n.entry k()\n{{\n{declared}\n{line};\n$L__BB0_1:\ndone:\nret;\n}}\n"
    );
    match Module::build(&Source::new("fuzz.ptx", &text), false) {
        Err(errors) => assert!(errors.iter().all(|error| !error.render().is_empty())),
        Ok(module) => {
            if let Err(errors) = module.program("k", &|_| Some(256), ControlFlow::Injected, 1024) {
                assert!(errors.iter().all(|error| !error.render().is_empty()));
            }
        }
    }
});
