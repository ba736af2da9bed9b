use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::StateSpace;

const PASSES: AssemblerSpec = AssemblerSpec { clean_up: true, scaled_addresses: true, ..NONE };
const NONE: AssemblerSpec = AssemblerSpec {
    clean_up: true,
    parameters: false,
    constant_operands: crate::chip::ConstantOperands::Any,
    narrow: false,
    three_inputs: false,
    multiply_add: false,
    wide_loads: false,
    scaled_addresses: false,
    load_matrix: false,
    predicate: 0,
    hoist: false,
    uniform_addresses: false,
    unroll: false,
    balance: false,
    schedule: false,
    combine_atomics: crate::chip::CombineAtomics::None,
    loads_before_copies: 0,
    convergence_barriers: false,
    prologue: 0,
    shared_window: 0,
    register_banks: false,
    full_registers: 32,
    reserved_registers: 0,
    uniform_registers: 0,
};

/// How the accesses of shared memory in a body multiply their addresses, and how many shifts are left.
fn scaled(body: &str) -> (Vec<u8>, usize) {
    let text = format!(
        ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .u32 %r<19>;\n.reg .u64 %rd<9>;\n.reg .pred %p<9>;\n.shared .align 16 .b8 s[4096];\n\
         ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nadd.u32 %r3, %r1, %r2;\n\
         {body}\nst.global.u32 [%rd1], %r5;\nret;\n}}\n"
    );
    let program = assembled(&text, PASSES);
    let shared = program.ops.iter().filter_map(|op| match &op.extra {
        Extra::Memory(facts) if facts.space == StateSpace::Shared => Some(facts.scale),
        _ => None,
    });
    let shifts = (0..program.ops.len() as u32).filter(|pc| {
        program.ops[*pc as usize].class == OpClass::Data && program.text(*pc).contains("shl.b32")
    });
    (shared.collect(), shifts.count())
}

#[test]
fn shifts_go_into_the_accesses() {
    assert_eq!(scaled("shl.b32 %r4, %r3, 2;\nld.shared.u32 %r5, [%r4+8];"), (vec![2], 0));
    assert_eq!(scaled("shl.b32 %r4, %r3, 4;\nst.shared.u32 [%r4], %r1;\nmov.u32 %r5, 0;"), (vec![4], 0));
    assert_eq!(scaled("shl.b32 %r4, %r3, 3;\natom.shared.add.u32 %r5, [%r4], %r1;"), (vec![3], 0));
    // Several accesses of one address; a variable's address is an offset.
    let both = "shl.b32 %r4, %r3, 2;\nmov.u32 %r6, s;\nadd.u32 %r7, %r6, %r4;\nst.shared.u32 [%r7], %r1;\nbar.sync 0;\nld.shared.u32 %r5, [%r7+64];";
    assert_eq!(scaled(both), (vec![2, 2], 0));
    // From the first block into others.
    let after = "shl.b32 %r4, %r3, 2;\nsetp.eq.u32 %p1, %r1, 5;\nmov.u32 %r5, 0;\n@%p1 bra E;\nld.shared.u32 %r5, [%r4];\nE:";
    assert_eq!(scaled(after), (vec![2], 0));
}

#[test]
fn other_shifts_stay() {
    for body in [
        // By other amounts.
        "shl.b32 %r4, %r3, 1;\nld.shared.u32 %r5, [%r4];",
        "shl.b32 %r4, %r3, 5;\nld.shared.u32 %r5, [%r4];",
        // Read elsewhere, as a value too.
        "shl.b32 %r4, %r3, 2;\nld.shared.u32 %r6, [%r4];\nadd.u32 %r5, %r4, %r6;",
        "shl.b32 %r4, %r3, 2;\nst.shared.u32 [%r4], %r4;\nmov.u32 %r5, 0;",
        "shl.b32 %r4, %r3, 2;\nld.shared.u32 %r6, [%r4];\ncvt.u64.u32 %rd3, %r4;\nld.shared.u32 %r5, [%rd3];",
        // What is shifted, or the address, has another value in between.
        "xor.b32 %r6, %r1, %r2;\nshl.b32 %r4, %r6, 2;\nadd.u32 %r6, %r6, %r2;\nld.shared.u32 %r7, [%r4];\nadd.u32 %r5, %r6, %r7;",
        "shl.b32 %r4, %r3, 2;\nsetp.eq.u32 %p1, %r1, 5;\n@%p1 mov.u32 %r4, 8;\nld.shared.u32 %r5, [%r4];",
        "setp.eq.u32 %p1, %r1, 5;\n@%p1 shl.b32 %r4, %r3, 2;\nld.shared.u32 %r5, [%r4];",
    ] {
        let (scales, shifts) = scaled(body);
        assert_eq!((scales.iter().max(), shifts), (Some(&0), 1), "{body}");
    }
    // In a block that not all come by.
    let apart = "setp.eq.u32 %p1, %r1, 5;\nmov.u32 %r5, 0;\n@%p1 bra E;\nshl.b32 %r4, %r3, 2;\nE:\nld.shared.u32 %r5, [%r4];";
    assert_eq!(scaled(apart), (vec![0], 1));
    // Nothing but shared memory.
    let global = "shl.b32 %r4, %r3, 2;\ncvt.u64.u32 %rd2, %r4;\nld.global.u32 %r5, [%rd2];";
    assert_eq!(scaled(global), (vec![], 1));
}
