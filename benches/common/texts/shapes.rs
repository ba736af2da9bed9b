//! PTX of shapes that no compiler writes, each of which grows in one respect alone.

use std::fmt::Write;

use super::header;

/// A kernel `k(.u64 p)` with registers `%r`, `%rd` and `%p`.
fn kernel(before: &str, registers: usize, body: &str) -> String {
    format!(
        "{}{before}.visible .entry k(.param .u64 p)\n{{\n\t.reg .b32 %r<{}>;\n\t.reg .b64 %rd<8>;\n\t.reg .pred %p<8>;\n\
         \tld.param.u64 %rd1, [p];\n\tmov.u32 %r0, %tid.x;\n{body}\tst.global.u32 [%rd1], %r0;\n\tret;\n}}\n",
        header("sm_70"),
        registers + 1,
    )
}

fn each(n: usize, mut line: impl FnMut(&mut String, usize)) -> String {
    let mut out = String::new();
    (0..n).for_each(|i| line(&mut out, i));
    out
}

/// `n` values that are live at once.
pub fn live_registers(n: usize) -> String {
    let define = each(n, |out, i| put!(out, "\tadd.u32 %r{}, %r0, {i};", i + 1));
    let read = each(n, |out, i| put!(out, "\tadd.u32 %r0, %r0, %r{};", i + 1));
    kernel("", n, &(define + &read))
}

/// A block of `n` instructions, each with a register of its own.
pub fn long_block(n: usize) -> String {
    let body = each(n, |out, i| put!(out, "\tmad.lo.u32 %r{}, %r{i}, 7, {i};", i + 1));
    kernel("", n, &format!("{body}\tmov.u32 %r0, %r{n};\n"))
}

/// `n` blocks that jump to one another, each with a register of its own.
pub fn blocks(n: usize) -> String {
    let body = each(n, |out, i| put!(out, "\tbra L{i};\nL{i}:\n\tadd.u32 %r{}, %r{i}, {i};", i + 1));
    kernel("", n, &format!("{body}\tmov.u32 %r0, %r{n};\n"))
}

/// `n` branches over an instruction.
pub fn branches(n: usize) -> String {
    let branch = |out: &mut String, i: usize| {
        put!(out, "\tsetp.eq.u32 %p1, %r{i}, {i};\n\tmov.u32 %r{}, %r{i};\n\t@%p1 bra L{i};", i + 1);
        put!(out, "\tadd.u32 %r{}, %r{i}, 1;\nL{i}:", i + 1);
    };
    kernel("", n, &each(n, branch))
}

/// `n` loops one after the other, each over a value of its own.
pub fn loops(n: usize) -> String {
    let one = |out: &mut String, i: usize| {
        put!(out, "\tmov.u32 %r{}, %r{i};\nL{i}:\n\tadd.u32 %r{}, %r{}, 1;", i + 1, i + 1, i + 1);
        put!(out, "\tsetp.lt.u32 %p1, %r{}, {i};\n\t@%p1 bra L{i};", i + 1);
    };
    kernel("", n, &each(n, one))
}

/// Loops within loops, `n` deep.
pub fn nested_loops(n: usize) -> String {
    let open = each(n, |out, i| put!(out, "\tmov.u32 %r{}, 0;\nL{i}:", i + 1));
    let close = each(n, |out, i| {
        let i = n - i;
        put!(out, "\tadd.u32 %r{i}, %r{i}, 1;\n\tsetp.lt.u32 %p1, %r{i}, %r0;\n\t@%p1 bra L{};", i - 1);
    });
    kernel("", n, &(open + &close))
}

/// Blocks of declarations within one another, `n` deep; the parser refuses more than 200.
pub fn nested_scopes(n: usize) -> String {
    let open = each(n, |out, i| put!(out, "{{\n\t.reg .b32 x{i};\n\tadd.u32 x{i}, %r0, {i};"));
    let close = each(n, |out, i| put!(out, "\tadd.u32 %r0, %r0, x{};\n}}", n - 1 - i));
    kernel("", 1, &(open + &close))
}

/// `n` functions, each of which calls the one before.
pub fn call_chain(n: usize) -> String {
    let function = |out: &mut String, i: usize| {
        let call = if i == 0 { String::new() } else { format!("call.uni f{}; ", i - 1) };
        put!(out, ".func f{i}() {{ .reg .b32 %r<2>; mov.u32 %r1, {i}; {call}ret; }}");
    };
    kernel(&each(n, function), 1, &format!("\tcall.uni f{};\n", n - 1))
}

/// `n` functions, each of which calls the two before it: ways through them double with each.
pub fn call_ladder(n: usize) -> String {
    let function = |out: &mut String, i: usize| {
        let call = |back: usize| i.checked_sub(back).map_or(String::new(), |to| format!("call.uni f{to}; "));
        put!(out, ".func f{i}() {{ {}{}ret; }}", call(1), call(2));
    };
    kernel(&each(n, function), 1, &format!("\tcall.uni f{};\n", n - 1))
}

/// `n` kernels and functions that one of them calls each.
pub fn kernels(n: usize) -> String {
    let one = |out: &mut String, i: usize| {
        put!(out, ".func f{i}() {{ ret; }}");
        put!(
            out,
            ".visible .entry k{i}(.param .u32 a)\n{{\n\t.reg .b32 %r<4>;\n\t.shared .b32 s{i};\n\tld.param.u32 %r1, [a];"
        );
        put!(out, "\tst.shared.u32 [s{i}], %r1;\n\tcall.uni f{i};\n\tret;\n}}");
    };
    kernel(&each(n, one), 1, "")
}

/// `n` registers, shared variables and vectors that are declared alone, and used.
pub fn declarations(n: usize) -> String {
    let one = |out: &mut String, i: usize| {
        put!(out, "\t.reg .b32 x{i};\n\t.reg .v4 .b32 v{i};\n\t.shared .align 4 .b8 s{i}[16];");
        put!(out, "\tmov.u32 x{i}, s{i};\n\tst.shared.u32 [s{i}], x{i};");
    };
    kernel("", 1, &each(n, one))
}

/// `n` variables with initial values, addresses of others among them, and their uses.
pub fn globals(n: usize) -> String {
    let one = |out: &mut String, i: usize| {
        put!(
            out,
            ".global .align 8 .u64 g{i}[2] = {{{i}, {}}};",
            if i == 0 { "0".into() } else { format!("g{}", i - 1) }
        );
        put!(out, ".shared .align 4 .b32 s{i};");
    };
    let use_one = |out: &mut String, i: usize| {
        put!(
            out,
            "\tmov.u64 %rd2, g{i};\n\tld.global.u32 %r1, [%rd2];\n\tst.shared.u32 [s{i}], %r1;\n\tst.global.u32 [g{i}+4], %r1;"
        );
    };
    kernel(&each(n, one), 1, &each(n, use_one))
}

/// `n` copies from and to few registers, over many blocks.
pub fn copies(n: usize) -> String {
    let one = |out: &mut String, i: usize| {
        put!(
            out,
            "\tmov.u32 %r{}, %r{};\n\tadd.u32 %r{}, %r{}, 4;",
            i % 7 + 1,
            (i + 3) % 7 + 1,
            i % 5 + 1,
            i % 7 + 1
        );
        if i.is_multiple_of(8) {
            put!(out, "\tsetp.eq.u32 %p1, %r1, {i};\n\t@%p1 bra L{i};\n\tadd.u32 %r2, %r1, 1;\nL{i}:");
        }
    };
    kernel("", 8, &(each(8, |out, i| put!(out, "\tmov.u32 %r{}, %r0;", i)) + &each(n, one)))
}

/// An indirect branch with `n` targets.
pub fn branch_table(n: usize) -> String {
    let names: Vec<String> = (0..n).map(|i| format!("L{i}")).collect();
    let target = |out: &mut String, i: usize| put!(out, "L{i}:\n\tadd.u32 %r1, %r0, {i};\n\tbra END;");
    let body =
        format!("ts: .branchtargets {};\n\tbrx.idx %r0, ts;\n{}END:\n", names.join(", "), each(n, target));
    kernel("", 2, &body)
}

/// `n` kernels, each of which names one of `n` shared variables of the module.
pub fn entries_and_shared(n: usize) -> String {
    let variable = |out: &mut String, i: usize| put!(out, ".shared .align 4 .b8 s{i}[16];");
    let one = |out: &mut String, i: usize| {
        put!(out, ".visible .entry k{i}()\n{{\n\t.reg .b32 %r<2>;\n\tmov.u32 %r1, {i};");
        put!(out, "\tst.shared.u32 [s{i}], %r1;\n\tret;\n}}");
    };
    kernel(&(each(n, variable) + &each(n, one)), 1, "")
}

/// A region that is entered at two places.
fn irreducible(out: &mut String, i: usize) {
    put!(out, "\tsetp.eq.u32 %p1, %r0, {i};\n\t@%p1 bra B{i};\nA{i}:\n\tadd.u32 %r1, %r1, 1;");
    put!(out, "B{i}:\n\tadd.u32 %r1, %r1, 2;\n\tsetp.lt.u32 %p2, %r1, {i};\n\t@%p2 bra A{i};");
}

/// `n` branches over an instruction, then a region that is entered at two places.
pub fn branches_before_irreducible(n: usize) -> String {
    kernel("", 2, &branches_and_region(n))
}

/// The same before a loop with too many exits for structure: both become dispatch loops.
pub fn branches_before_dispatch(n: usize) -> String {
    kernel("", 2, &(branches_and_region(n) + &loop_of_ways_out(1001)))
}

fn branches_and_region(n: usize) -> String {
    let branch = |out: &mut String, i: usize| {
        put!(out, "\tsetp.eq.u32 %p1, %r0, {i};\n\t@%p1 bra L{i};\n\tadd.u32 %r1, %r1, 1;\nL{i}:");
    };
    let mut body = String::from("\tmov.u32 %r1, 0;\n") + &each(n, branch);
    irreducible(&mut body, 0);
    body
}

/// `n` regions before such a loop, one after the other.
pub fn dispatch_loops(n: usize) -> String {
    kernel("", 2, &(String::from("\tmov.u32 %r1, 0;\n") + &each(n, irreducible) + &loop_of_ways_out(1001)))
}

/// `n` regions that are entered at two places, one after the other.
pub fn irreducible_regions(n: usize) -> String {
    kernel("", 2, &(String::from("\tmov.u32 %r1, 0;\n") + &each(n, irreducible)))
}

/// `n` calls of a function that returns at `n` places.
pub fn calls_of_a_function(n: usize) -> String {
    let leave = |out: &mut String, i: usize| put!(out, "setp.eq.u32 %p1, %r1, {i}; @%p1 ret;");
    let function = format!(
        ".func f(.param .b32 a) {{ .reg .b32 %r<2>; .reg .pred %p<2>; ld.param.u32 %r1, [a];\n{}ret; }}\n",
        each(n, leave)
    );
    let call = |out: &mut String, _: usize| {
        put!(out, "\t{{ .param .b32 a; st.param.b32 [a], %r0; call.uni f, (a); }}");
    };
    kernel(&function, 1, &each(n, call))
}

/// `n` functions, each of which calls the one before in a loop.
pub fn functions_with_loops(n: usize) -> String {
    let function = |out: &mut String, i: usize| {
        let call = if i == 0 { String::new() } else { format!("call.uni f{};", i - 1) };
        put!(out, ".func f{i}() {{ .reg .b32 %r<2>; .reg .pred %p<2>; mov.u32 %r1, 0;\nL: {call}");
        put!(out, "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 4; @%p1 bra L; ret; }}");
    };
    kernel(&each(n, function), 1, &format!("\tcall.uni f{};\n", n - 1))
}

/// A loop that is left to `n` places.
fn loop_of_ways_out(n: usize) -> String {
    let leave = |out: &mut String, i: usize| {
        put!(out, "\tadd.u32 %r1, %r1, 1;\n\tsetp.eq.u32 %p1, %r1, {i};\n\t@%p1 bra W{i};");
    };
    let outside = |out: &mut String, i: usize| put!(out, "W{i}:\n\tadd.u32 %r1, %r1, {i};\n\tbra END;");
    String::from("W:\n") + &each(n, leave) + "\tbra W;\n" + &each(n, outside) + "END:\n"
}

/// `n` branches to one end.
pub fn ways_out(n: usize) -> String {
    let branch = |out: &mut String, i: usize| {
        put!(out, "\tsetp.eq.u32 %p1, %r0, {i};\n\t@%p1 bra END;\n\tadd.u32 %r1, %r1, 1;");
    };
    kernel("", 2, &(String::from("\tmov.u32 %r1, 0;\n") + &each(n, branch) + "END:\n"))
}
