use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;
use crate::program::{Extra, OpClass, Program};

/// Everything that an sm_80 does (`configs/chips/a100.yaml`), but for what only orders or renames instructions.
const PASSES: AssemblerSpec = AssemblerSpec { schedule: false, balance: false, ..AssemblerSpec::ALL };

/// The program of some instructions, behind the loads of `%rd2`, `%rd4` and `%r38`; everything in `%r1` to `%r8` and `%d1`,
/// `%d2` is stored.
fn program(body: &str, passes: AssemblerSpec) -> std::sync::Arc<Program> {
    let mut stores = String::new();
    for i in 1..9 {
        stores += &format!("st.global.b32 [%rd2+{}], %r{i};\n", 8 * i);
    }
    let text = format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 p, .param .u64 q, .param .u32 s)\n{{\n\
         .reg .b32 %r<40>;\n.reg .b64 %rd<10>;\n.reg .f64 %d<10>;\n.shared .align 128 .b8 room[8192];\n\
         ld.param.u64 %rd2, [p];\nld.param.u64 %rd4, [q];\nld.param.u32 %r38, [s];\n\
         {body}\n{stores}st.global.v2.f64 [%rd2+128], {{%d1, %d2}};\nret;\n}}\n"
    );
    assembled(&text, passes)
}

fn registers(letter: char, count: usize) -> String {
    let list: Vec<String> = (1..=count).map(|i| format!("%{letter}{i}")).collect();
    format!("{{{}}}", list.join(", "))
}

/// How many operations there are, how many of them are `ldmatrix` and how many other loads; without the stores of what was
/// loaded, parameters and the end.
fn counts(program: &Program) -> (usize, usize, usize) {
    let own = |class: &OpClass| !matches!(class, OpClass::Store | OpClass::Exit | OpClass::LoadParam);
    let classes: Vec<OpClass> = program.ops.iter().map(|op| op.class).filter(own).collect();
    let of = |class| classes.iter().filter(|own| **own == class).count();
    (classes.len(), of(OpClass::LoadMatrix), of(OpClass::Load))
}

/// Instructions of ptxas 13 for sm_80, without those that load the stack pointer and parameters: all, and those that load.
#[test]
fn fragments_in_shared_memory_take_as_many_instructions_as_in_machine_code() {
    let golden: [(&str, &str, usize, char, usize, usize, usize); 17] = [
        ("a.sync.aligned.row.m16n16k16.shared.f16", "40", 8, 'r', 10, 1, 0),
        ("a.sync.aligned.col.m16n16k16.shared.f16", "40", 8, 'r', 10, 1, 0),
        ("b.sync.aligned.row.m16n16k16.shared.f16", "40", 8, 'r', 10, 1, 0),
        ("b.sync.aligned.col.m16n16k16.shared.f16", "40", 8, 'r', 10, 1, 0),
        ("a.sync.aligned.row.m16n16k16.shared.f16", "%r38", 8, 'r', 10, 1, 0),
        ("a.sync.aligned.row.m16n16k16.shared.bf16", "40", 4, 'r', 10, 1, 0),
        ("a.sync.aligned.row.m32n8k16.shared.f16", "40", 8, 'r', 11, 2, 0),
        ("a.sync.aligned.row.m16n16k16.shared.s8", "48", 2, 'r', 7, 1, 0),
        ("b.sync.aligned.col.m16n16k16.shared.s8", "48", 2, 'r', 7, 1, 0),
        ("a.sync.aligned.row.m32n8k16.shared.s8", "48", 4, 'r', 8, 2, 0),
        ("a.sync.aligned.row.m8n8k32.shared.s4", "64", 1, 'r', 4, 1, 0),
        ("a.sync.aligned.row.m8n8k4.shared.f64", "40", 1, 'd', 5, 0, 1),
        ("c.sync.aligned.row.m16n16k16.shared.f32", "40", 8, 'r', 8, 0, 4),
        ("c.sync.aligned.col.m16n16k16.shared.f32", "40", 8, 'r', 13, 0, 8),
        ("c.sync.aligned.row.m16n16k16.shared.f16", "40", 4, 'r', 8, 0, 4),
        // Halves are exchanged by four MOVM.
        ("c.sync.aligned.col.m16n16k16.shared.f16", "40", 4, 'r', 12, 0, 4),
        // Bytes are put together.
        ("b.sync.aligned.row.m16n16k16.shared.s8", "48", 2, 'r', 19, 0, 8),
    ];
    for (load, stride, count, letter, all, tiles, loads) in golden {
        let list = registers(letter, count);
        let made = program(&format!("wmma.load.{load} {list}, [room], {stride};"), PASSES);
        assert_eq!(counts(&made), (all, tiles, loads), "{load}, {stride}");
    }
}

/// What is added to an address is computed once in a block, for all loads that lie alike.
#[test]
fn the_threads_parts_of_addresses_are_computed_once() {
    let load = |of: &str, first: usize, base: &str| {
        let list: Vec<String> = (first..first + 8).map(|i| format!("%r{i}")).collect();
        let list = list.join(", ");
        format!("wmma.load.{of}.sync.aligned.row.m16n16k16.shared.f16 {{{list}}}, [{base}], %r38;\n")
    };
    let body = format!("{}{}{}", load("a", 9, "%r30"), load("a", 17, "%r31"), load("a", 1, "%r32"));
    let (all, tiles, _) = counts(&program(&body, PASSES));
    // Ten for the first, an addition and the load for each other one.
    assert_eq!((all, tiles), (14, 3));
    // Another stride is another address, and so is the same register once it is written.
    let moved = format!("{}mov.u32 %r38, %r33;\n{}", load("a", 9, "%r30"), load("a", 1, "%r30"));
    assert_eq!(counts(&program(&moved, PASSES)).0, 13);
}

#[test]
fn only_shared_memory_and_chips_that_can_are_loaded_by_tiles() {
    let of = |space: &str, place: &str, passes| {
        let load = format!("wmma.load.a.sync.aligned.row.m16n16k16{space}.f16");
        counts(&program(&format!("{load} {}, [{place}], 40;", registers('r', 8)), passes))
    };
    assert_eq!(of(".global", "%rd4", PASSES).1, 0);
    assert_eq!(of("", "%rd4", PASSES).1, 0);
    for passes in [
        AssemblerSpec { load_matrix: false, ..PASSES },
        AssemblerSpec { clean_up: false, ..PASSES },
        AssemblerSpec::default(),
    ] {
        let (_, tiles, loads) = of(".shared", "room", passes);
        assert_eq!((tiles, loads), (0, 4), "{passes:?}");
    }
}

/// Neighbours of C and D are one access of eight or sixteen bytes.
#[test]
fn sums_are_accessed_in_pairs() {
    let body =
        format!("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd4], {}, 40;", registers('r', 8));
    let made = program(&body, PASSES);
    let vectors = made.ops.iter().filter(|op| op.class == OpClass::Store).map(|op| match &op.extra {
        Extra::Memory(facts) => (facts.vector, facts.element_bytes),
        _ => (0, 0),
    });
    assert_eq!(vectors.take(4).collect::<Vec<_>>(), [(2, 4); 4]);
    let body = "wmma.load.c.sync.aligned.row.m8n8k4.global.f64 {%d1, %d2}, [%rd4], 40;";
    assert_eq!(counts(&program(body, PASSES)).2, 1);
}

/// Rows that begin at other addresses than multiples of 16 bytes are no tiles.
#[test]
fn rows_that_are_not_aligned_are_loaded_by_their_threads() {
    let of = |stride: &str| {
        counts(&program(
            &format!("wmma.load.a.sync.aligned.row.m8n8k32.shared.s4 {{%r1}}, [room], {stride};"),
            PASSES,
        ))
    };
    assert_eq!((of("64").1, of("40").1), (1, 0));
}

/// Of registers that repeat one another any may be named.
#[test]
fn sinks_take_no_register_away_from_what_repeats_it() {
    let list = "{_, %r2, %r3, %r4, %r5, %r6, %r7, %r8}";
    let made =
        program(&format!("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {list}, [room], 40;"), PASSES);
    // The load writes %r5 itself; the other three are copies.
    let (_, tiles, _) = counts(&made);
    let load = made.ops.iter().find(|op| op.class == OpClass::LoadMatrix).expect("a load");
    assert_eq!((tiles, load.dst.iter().filter(|row| row.is_some()).count()), (1, 4));
}
