use super::*;
use crate::ptx::ast::{Statement, Storage};
use crate::ptx::print;

fn module(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_52\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n{body}\n}}\n"
    )
}

fn printed(body: &str) -> Vec<String> {
    let source = Source::new("t.ptx", &module(body));
    let parsed = parse(&source, false).unwrap_or_else(|e| panic!("{}", e[0].render()));
    let Some(body) = &parsed.functions[0].body else { return Vec::new() };
    body.iter()
        .filter_map(|s| match s {
            Statement::Instruction(i) => Some(print::instruction(i)),
            _ => None,
        })
        .collect()
}

#[test]
fn constants_have_remainders_and_casts() {
    for (text, value) in [
        ("99 % 10", "9"),
        ("(40 + 2) % 5 * 3", "6"),
        ("(.s64)7", "7"),
        ("1 + (.s64)-1 / 2", "1"),
        ("(.u64)(7) % 4", "3"),
    ] {
        assert_eq!(printed(&format!("mov.u32 %r1, {text};\n")), [format!("mov.u32 %r1, {value}")], "{text}");
    }
    // Behind a name the sign belongs to it.
    assert_eq!(printed("mov.u32 %r1, %r2;\nret;\n").len(), 2);
}

#[test]
fn instructions_print_as_they_parse() {
    let lines = [
        "@!%p1 bra $L__BB0_2",
        "ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16]",
        "st.shared::cta.u32 [a+-4], 0",
        "setp.lt.and.s32 %p1|%p2, %r1, -5, !%p3",
        "mov.f32 %f1, 0f3F800000",
        "mov.f64 %fd1, 0d3FF0000000000000",
        "mov.u32 %r1, %tid.x",
        "mov.u64 %rd1, sym+8",
        "call.uni (r), f, (a, b)",
        "call (r), %rd1, (a), proto",
        "shfl.sync.down.b32 %r1|%p1, %r2, 1, 31, -1",
        "mov.b64 {%r1, _}, %rd1",
        "ret",
    ];
    let text: String = lines.iter().map(|l| format!("{l};\n")).collect();
    assert_eq!(printed(&text), lines);
    assert_eq!(printed(&printed(&text).iter().map(|l| format!("{l};\n")).collect::<String>()), lines);
}

#[test]
fn declarations_of_every_kind() {
    let text = ".version 7.8\n.target sm_20, debug\n.address_size 64\n\
        .file 1 \"x.cu\"\n\
        .global .align 4 .u32 g[2][3] = {{1, 2, 3}, {4, 5, 6}};\n\
        .const .f32 c = 1.5;\n.extern .shared .align 16 .b8 dyn[];\n\
        .global .u64 p = generic(g)+4;\n.global .u32 v = 10 / 2 + 3;\n\
        .func (.param .b32 r) f(.param .b32 a) { ret; }\n\
        .visible .entry k(.param .u64 .ptr .global .align 4 x, .param .align 8 .b8 s[24])\n\
        .maxntid 256, 1, 1 .minnctapersm 2\n{ .reg .pred %p<3>; .reg .b32 %r<5>, a; { .reg .u64 a; } L: bra L; }\n\
        .section .debug_info { .b8 1, 2 { .b8 3 } }\n";
    let source = Source::new("d.ptx", text);
    let module = parse(&source, false).unwrap_or_else(|e| panic!("{}", e[0].render()));
    assert_eq!(module.version, Some((7, 8)));
    assert_eq!(module.target, ["sm_20", "debug"]);
    assert_eq!(module.files, [(1, "x.cu")]);
    let g = &module.variables[0];
    assert_eq!((g.bytes(), g.alignment(), g.storage), (Some(24), 4, Storage::Space(StateSpace::Global)));
    assert_eq!(module.variables[2].bytes(), Some(0));
    assert!(matches!(
        module.variables[3].init,
        Some(Init::Value(Operand { kind: OperandKind::Offset { name: "g", offset: 4, generic: true }, .. }))
    ));
    let Some(Init::Value(Operand { kind: OperandKind::Int(eight), .. })) = module.variables[4].init else {
        panic!("{:?}", module.variables[4].init)
    };
    assert_eq!(eight.value(), 8);
    let k = &module.functions[1];
    assert_eq!(k.bounds, vec![("maxntid", vec![256, 1, 1]), ("minnctapersm", vec![2])]);
    assert_eq!(k.params[1].bytes(), Some(24));
}

#[test]
fn several_errors_in_one_run() {
    let source = Source::new("e.ptx", &module("add.u32 %r1 %r2;\nmov.u32 %r1, ;\nret;\n.reg .u33 x;"));
    let errors = parse(&source, false).expect_err("three errors");
    let places: Vec<_> = errors.iter().filter_map(|e| e.place()).collect();
    assert_eq!(places, ["e.ptx:6:13", "e.ptx:7:14", "e.ptx:9:6"]);
    assert_eq!(errors[2].help.as_deref(), Some("did you mean `.u32`?"));
}

#[test]
fn bad_input_never_panics() {
    for text in [
        "",
        ".version",
        "{{{{",
        ".entry",
        "@",
        &"{".repeat(100_000),
        &"(".repeat(5000),
        "\u{0}é…",
        ".entry k() { mov.u32 %r, 1/0; }",
    ] {
        assert!(parse(&Source::new("x", text), false).is_err(), "{}", &text[..text.len().min(20)]);
    }
}

#[test]
fn the_papers_dialect() {
    // CS listing 5.6.
    let text = "// dialect: papers\n.entry k() {\nssy 13;\nbra r;\nPATH-1:\nmul c, a, b;\nbra SYNC;\nPATH-2:\nadd c, a, b;\nbra SYNC;\nPATH-3:\nsub c, a, b;\nSYNC:\nsync;\ndiv r, c, d;\n}";
    let source = Source::new("p.ptx", text);
    let module = parse(&source, false).unwrap_or_else(|e| panic!("{}", e[0].render()));
    assert!(module.papers);
    let labels: Vec<&str> = module.functions[0]
        .body
        .iter()
        .flatten()
        .filter_map(|s| match s {
            Statement::Label(name, _) => Some(*name),
            _ => None,
        })
        .collect();
    assert_eq!(labels, ["PATH-1", "PATH-2", "PATH-3", "SYNC", "13"], "line 13 has a label of its own");
    // CS listing 6.2: blanks before modifiers.
    let text = ".global .u32 lock = 1;\n.entry kernel () {\n.reg .u32 r;\n.reg .pred p;\npreBrk ENDLOOP;\nBEGINLOOP:\natom .global .cas .u32 r, lock, 1, 0;\nsetp .u32 .eq p, r, 1;\n@p break;\nbra BEGINLOOP;\nENDLOOP:\nst .global .u32 .cg lock, 1;\nexit;\n}";
    assert!(parse(&Source::new("q.ptx", text), true).is_ok());
    assert!(parse(&Source::new("q.ptx", text), false).is_err());
}

/// One instruction of a random table row: form and operands by the shapes of the row.
fn from_table(pick: &[u32]) -> Vec<String> {
    use crate::isa::{self, Shape};
    let mut numbers = pick.iter().copied().cycle();
    let mut choose = |n: usize| numbers.next().unwrap_or(0) as usize % n.max(1);
    let rows: Vec<&isa::Entry> = isa::TABLE.iter().filter(|row| !row.papers() && row.executed()).collect();
    let row = rows[choose(rows.len())];
    let forms = isa::combinations(row);
    let modifiers = &forms[choose(forms.len())];
    let resolved =
        isa::resolve(row, modifiers, false).unwrap_or_else(|e| panic!("{} {modifiers:?}: {e:?}", row.name));
    let register =
        |choose: &mut dyn FnMut(usize) -> usize| ["%r1", "%rd7", "$x", "_a", "%f0"][choose(5)].to_string();
    let source = |choose: &mut dyn FnMut(usize) -> usize| match choose(6) {
        0 => (choose(1000) as i64 - 500).to_string(),
        1 => "0f3F800000".into(),
        2 => "0dBFF0000000000000".into(),
        3 => "%tid.x".into(),
        4 => "sym+8".into(),
        _ => register(choose),
    };
    let mut operands = Vec::new();
    for operand in resolved.operands {
        if operand.optional && choose(2) == 0 {
            break;
        }
        let text = match operand.shape {
            Shape::Destination(_) => register(&mut choose),
            Shape::PredicateDestination => "%p1".into(),
            Shape::Predicate => ["%p2", "!%p3"][choose(2)].into(),
            Shape::Address => ["[%rd1]", "[%rd1+16]", "[sym+-4]", "[256]"][choose(4)].into(),
            Shape::Texture => ["[%rd1, {%f1, %f2}]", "[tex, %rd2, {%r1}]", "[tex, %r1]"][choose(3)].into(),
            Shape::Vector => ["{%r1, %r2}", "{%f1, _, %f3, %f4}"][choose(2)].into(),
            Shape::Label => "$L__BB0_1".into(),
            Shape::DestinationPart(_) => ["%r1", "%r1.b0", "%r1.h10"][choose(3)].into(),
            Shape::Part(_) => ["%r1", "%r1.h1", "-%r1", "-%r1.b3", "7"][choose(5)].into(),
            Shape::Immediate => "192".into(),
            Shape::Source(..) | Shape::Anything => source(&mut choose),
        };
        operands.push(if operand.pair && choose(2) == 0 { format!("{text}|%p4") } else { text });
    }
    let guard = ["", "@%p0 ", "@!%p0 "][choose(3)];
    let opcode: String =
        std::iter::once(row.name).chain(modifiers.iter().copied()).collect::<Vec<_>>().join(".");
    let space = if operands.is_empty() { "" } else { " " };
    vec![format!("{guard}{opcode}{space}{}", operands.join(", "))]
}

/// Names by themselves are registers and the like, but for two.
#[test]
fn sinks_and_the_size_of_a_warp_are_no_names() {
    let source = Source::new("m.ptx", "x _, WARP_SZ, %r1, sym;");
    let instruction = parse_instruction(&source, false).expect("an instruction");
    let kinds: Vec<_> = instruction.operands.into_iter().map(|operand| operand.kind).collect();
    let expected =
        [OperandKind::Sink, OperandKind::Int(32.into()), OperandKind::Name("%r1"), OperandKind::Name("sym")];
    assert_eq!(kinds, expected);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]

    #[test]
    fn rows_of_the_table_print_as_they_parse(pick in proptest::collection::vec(proptest::num::u32::ANY, 16)) {
        let lines = from_table(&pick);
        let text = format!("{};\n", lines.join(";\n"));
        proptest::prop_assert_eq!(&printed(&text), &lines);
    }

    /// Whatever a text is, reading it ends with a module or with errors that have places.
    #[test]
    fn damaged_modules_never_panic(
        pick in proptest::collection::vec(proptest::num::u32::ANY, 16),
        cuts in proptest::collection::vec((proptest::num::u16::ANY, 0usize..6, 0u8..128), 1..6),
    ) {
        let mut bytes = format!(
            "{}.func (.param .u32 r) f(.param .u32 a) {{ .reg .u32 %x; ld.param.u32 %x, [a]; st.param.u32 [r], %x; ret; }}\n",
            module(&format!(".reg .b32 %r<9>; .reg .pred %p<5>; .shared .b8 sym[64];\n$L__BB0_1: {};\n@%p1 bra $L__BB0_1;\n{{ .param .u32 q; call (q), f, (%r1); }} exit;", from_table(&pick)[0]))
        ).into_bytes();
        for (at, cut, byte) in cuts {
            let at = usize::from(at) % bytes.len();
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, [byte]);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let source = Source::new("m.ptx", &text);
        for papers in [false, true] {
            let Ok(module) = crate::load::Module::build(&source, papers) else { continue };
            let entries: Vec<String> = module.entries().map(str::to_string).collect();
            for entry in entries {
                let _ = module.program(&entry, &|_| Some(64), crate::program::ControlFlow::Injected, 1024);
            }
        }
    }
}
