use std::sync::Arc;

use crate::chip::{AssemblerSpec, ConstantOperands};
use crate::lower::assembled::assembled;
use crate::program::Program;

const ONE: ConstantOperands = ConstantOperands::One;
const LOADED: ConstantOperands = ConstantOperands::Loaded;

/// The program of a body behind `mov.u32 %r1, %tid.x` and the loads of parameters: `%rd1` where results go, `%r8`, and `%rd8`.
fn made(body: &str, constant_operands: ConstantOperands) -> Arc<Program> {
    let text = format!(
        ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n, .param .u64 q)\n{{\n\
         .reg .u32 %r<99>;\n.reg .u64 %rd<9>;\n.reg .f32 %f<9>;\n.reg .pred %p<9>;\n\
         ld.param.u64 %rd1, [p];\nld.param.u32 %r8, [n];\nld.param.u64 %rd8, [q];\nmov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    );
    let passes =
        AssemblerSpec { clean_up: true, parameters: true, multiply_add: true, ..AssemblerSpec::default() };
    assembled(&text, AssemblerSpec { constant_operands, ..passes })
}

/// Roots of the instructions between the thread's number and the end.
fn roots(body: &str, way: ConstantOperands) -> Vec<String> {
    let program = made(body, way);
    let texts = (0..program.ops.len() as u32).map(|pc| program.text(pc));
    let roots = texts.map(|text| text.split(['.', ' ']).next().unwrap_or_default().to_string());
    roots.skip_while(|root| root == "ld").skip(1).filter(|root| root != "ret").collect()
}

const STORE: &str = "st.global.u32 [%rd1], %r9;";

#[test]
fn an_instruction_has_room_for_one_constant() {
    let with = |inst: &str| roots(&format!("{inst}\n{STORE}"), ONE);
    assert_eq!(with("mad.lo.u32 %r9, %r1, 1664525, 7;"), ["mov", "mad", "st"]);
    // Of two factors the parameter is moved.
    assert_eq!(with("mad.lo.u32 %r9, %r8, 1664525, %r1;"), ["ld", "mad", "st"]);
    for kept in ["mad.lo.u32 %r9, %r1, 5, %r1;", "mad.lo.u32 %r9, %r1, 5, 0;", "add.u32 %r9, %r1, %r8;"] {
        assert_eq!(with(kept).len(), 2, "{kept}");
    }
    // Fields are packed into one constant.
    assert_eq!(with("bfe.u32 %r9, %r1, 3, 5;").len(), 2);
    // A constant that several need is moved once.
    let twice = "mad.lo.u32 %r2, %r1, 99, 7;\nmad.lo.u32 %r9, %r2, 99, 8;";
    assert_eq!(with(twice), ["mov", "mad", "mad", "st"]);
    // The size of a block lies in constant memory.
    let size = "mov.u32 %r2, %ntid.x;\nmov.u32 %r3, %ctaid.x;\nmad.lo.u32 %r9, %r3, %r2, %r1;";
    assert_eq!(with(size), ["mov", "mad", "st"]);
    let size_stored = format!("{size}\n{STORE}");
    assert_eq!(roots(&size_stored, LOADED), ["mov", "mov", "mad", "st"]);
    // Where it is loaded it takes no register of a thread.
    assert_eq!(made(&size_stored, LOADED).registers_per_thread, made(&size_stored, ONE).registers_per_thread);
    assert_eq!(with("mov.u32 %r2, %ntid.x;\nmad.lo.u32 %r9, %r1, %r2, 5;"), ["mov", "mad", "st"]);
}

/// As ptxas 12.9 has them for sm_80: `alu_chain` moves its third parameter in each of two blocks.
#[test]
fn parameters_are_moved_in_each_block_that_reads_them() {
    let moves = |factors: &str| {
        let product = |to: u32, from: u32| format!("mad.lo.u32 %r{to}, {factors}, %r{from};\n");
        let skip = "setp.gt.u32 %p1, %r1, 7;\n@%p1 bra E;\n";
        let body =
            format!("{}{skip}{}{STORE}\nE:\nst.global.u32 [%rd1+4], %r2;", product(2, 1), product(9, 2));
        let found = roots(&body, ONE);
        found.iter().filter(|root| ["mov", "ld"].contains(&root.as_str())).count()
    };
    let none = moves("%r1, %r1");
    assert_eq!(moves("%r8, 1664525"), none + 2);
    assert_eq!(moves("%r1, 1664525"), none);
}

#[test]
fn loaded_parameters_take_no_register_where_an_instruction_has_room() {
    let sum = format!("add.u32 %r9, %r1, %r8;\n{STORE}");
    assert_eq!(roots(&sum, ONE), ["add", "st"]);
    assert_eq!(roots(&sum, LOADED), ["ld", "add", "st"]);
    let address = "mul.wide.u32 %rd2, %r1, 8;\nadd.u64 %rd3, %rd2, %rd8;\nst.global.u32 [%rd3], %r1;";
    assert_eq!(roots(address, ONE), ["mov", "mad", "st"]);
    assert_eq!(roots(address, LOADED), ["ld", "mad", "st"]);
    // What is in a register of the thread is not loaded to a uniform one too.
    let both = format!(
        "mul.wide.u32 %rd2, %r1, 8;\nadd.u64 %rd3, %rd2, %rd8;\nadd.u64 %rd4, %rd3, %rd8;\n{}",
        "st.global.u32 [%rd4], %r1;"
    );
    assert_eq!(roots(&both, LOADED), ["ld", "mad", "add", "st"]);
    // The address of a result takes two registers, thread number and sum share one. Beside an immediate a parameter takes its own.
    let registers = |body: &str| {
        let program = made(body, LOADED);
        (program.registers_per_thread, program.registers)
    };
    assert_eq!(registers(&sum), (3, 6));
    assert_eq!(registers(address), (4, 4));
}

#[test]
fn registers_of_a_thread_are_filled_within_a_loop_and_uniform_ones_in_front_of_it() {
    let sums: String =
        (0..3).map(|by| format!("mad.lo.u32 %r9, %r9, {}, {};\n", 1001 + by, 7 + by)).collect();
    // Two blocks of a loop that read the same, and one behind it.
    let body = format!(
        "mov.u32 %r9, %r1;\nL:\n{sums}setp.eq.u32 %p2, %r9, 5;\n@%p2 bra M;\n{sums}M:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, %r8;\n\
         @%p1 bra L;\n{sums}{STORE}"
    );
    for way in [ONE, LOADED] {
        let program = made(&body, way);
        let texts: Vec<String> = (0..program.ops.len() as u32).map(|pc| program.text(pc)).collect();
        let back = texts.iter().rposition(|text| text.contains("bra L")).expect("a branch");
        let head = program.ops[back].target as usize;
        let places = |text: &str| -> Vec<usize> {
            texts.iter().enumerate().filter(|(_, own)| *own == text).map(|(at, _)| at).collect()
        };
        let fills = places("mov");
        let branch = texts.iter().position(|text| text.contains("bra M")).expect("a branch");
        assert_eq!(fills.len(), 6, "{texts:?}");
        assert!(fills[..3].iter().all(|at| (head..branch).contains(at)), "{texts:?}");
        assert!(fills[3..].iter().all(|at| *at > back), "{texts:?}");
        let loads = places("ld.param");
        assert_eq!(loads.len(), usize::from(way == LOADED), "{texts:?}");
        assert!(loads.iter().all(|at| *at < head), "{texts:?}");
    }
}

#[test]
fn blocks_load_parameters_each_and_share_immediates() {
    let both = |way: &str| {
        format!(
            "setp.eq.u32 %p1, %r1, 3;\n@%p1 bra B;\n{way}\n{STORE}\nbra E;\nB:\n{way}\nadd.u32 %r9, %r9, 1;\n{STORE}\nE:"
        )
    };
    let places = |body: &str, root: &str| -> Vec<bool> {
        let texts = roots(body, LOADED);
        let branch = texts.iter().position(|text| text.starts_with('@')).expect("a branch");
        texts.iter().enumerate().filter(|(_, text)| *text == root).map(|(at, _)| at > branch).collect()
    };
    assert_eq!(places(&both("add.u32 %r9, %r1, %r8;"), "ld"), [true, true]);
    assert_eq!(places(&both("mad.lo.u32 %r9, %r1, 77, 5;"), "mov"), [false]);
    // What a register holds in any case is not loaded again.
    assert_eq!(places(&both("add.u32 %r9, %r1, %r8;\nst.global.u32 [%rd1+4], %r8;"), "ld"), [false; 0]);
}

#[test]
fn a_kernel_begins_with_instructions_of_its_own() {
    let text = ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\nA: bra A;\n}\n";
    // A loop that begins with the text does not repeat them.
    for text in [text, &text.replace("A: bra A;", "ret;")] {
        let count = |prologue| {
            let made =
                assembled(text, AssemblerSpec { clean_up: true, prologue, ..AssemblerSpec::default() });
            (made.ops.len(), made.registers_per_thread)
        };
        let [none, two] = [0, 2].map(count);
        assert_eq!(two, (none.0 + 2, none.1));
    }
}

#[test]
fn functions_that_are_called_take_no_more_for_uniform_registers() {
    let text = ".version 6.0\n.target sm_70\n.address_size 64\n.func (.reg .u32 %o) f(.reg .u32 %a)\n{\n.reg .u32 %b, %c;\n\
                mul.lo.u32 %b, %a, %a;\nmad.lo.u32 %c, %b, %a, %b;\nmad.lo.u32 %o, %c, %b, %a;\nret;\n}\n\
                .visible .entry k(.param .u64 p, .param .u32 n)\n{\n.reg .u32 %r<9>;\n.reg .u64 %rd1;\nld.param.u64 %rd1, [p];\n\
                ld.param.u32 %r8, [n];\nmov.u32 %r1, %tid.x;\nadd.u32 %r2, %r1, %r8;\ncall.uni (%r3), f, (%r2);\n\
                add.u32 %r4, %r3, %r8;\nst.global.u32 [%rd1], %r4;\nret;\n}\n";
    let made = |constant_operands| {
        let passes =
            AssemblerSpec { clean_up: true, parameters: true, constant_operands, ..AssemblerSpec::default() };
        let made = assembled(text, passes);
        (made.registers_per_thread, made.registers)
    };
    let ((operands, rows), (loaded, more)) = (made(ONE), made(LOADED));
    assert_eq!(loaded, operands);
    assert!(more > rows, "{more} {rows}");
}
