use super::*;

/// Listings 4.1–4.6 of CS, retyped without blanks.
const LISTINGS: [(&str, &str); 6] = [
    ("thesis/st_global_wb", "discardL1;yield;writeL2;classifyNormalL2;releaseRegs;end;"),
    (
        "thesis/ld_ca",
        "if(!isCachedL1){reserveL1;yield;if(!isCachedL2){reserveL2;yield;readMem;yield;updateL2;}\
         readL2;yield;updateL1;}readL1;yield;writeToRegs;yield;releaseRegs;end;",
    ),
    ("thesis/st_local_cg", "writeL1;classifyFirstL1;yield;releaseRegs;end;"),
    (
        "thesis/atom_global",
        "evictL1;yield;if(!isCachedL2){reserveL2;classifyNormalL2;yield;readMem;yield;updateL2;\
         yield;}readL2;atomOp;writeL2;yield;writeToRegs;yield;releaseRegs;end;",
    ),
    (
        "thesis/atom_shared",
        "lock;readMem;yield;atomOp;yield;writeMem;yield;unlock;yield;writeToRegs;yield;\
         releaseRegs;end;",
    ),
    ("thesis/write_regs", "writeToRegs;yield;releaseRegs;end;"),
];

#[test]
fn prog_listing41_prog_listing42_prog_listing43_prog_listing44_prog_listing45_prog_listing46_as_published() {
    for (name, expected) in LISTINGS {
        let text = TEXTS.iter().find(|(n, _)| *n == name).map(|(_, t)| *t).expect(name);
        let squeezed: String = text.split_whitespace().collect();
        assert_eq!(squeezed, expected, "{name}");
    }
}

#[test]
fn both_protocols_compile() {
    for protocol in [Protocol::Thesis, Protocol::Fermi] {
        ProgramSet::for_protocol(protocol).expect("the shipped programs are right");
    }
}

fn refused(text: &str) -> (u32, String) {
    let error = MemoryProgram::compile(&parse(text).expect("parses")).expect_err("refused");
    (error.line, error.reason)
}

#[test]
fn prog_stm_what_gets_stuck_is_refused_with_its_line() {
    assert_eq!(refused("readL1;\nyield;").1, "a path ends without `end`");
    assert_eq!(refused("evictL1;\nreadL2;\nend;").0, 2);
    assert_eq!(refused("readL2;\nreadL1;\nend;").0, 2);
    assert!(refused("lock;\nend;").1.contains("shared"));
    assert!(refused("evictL1; if (isCachedL2) { } end;").1.contains("another room"));
    // A tail of register operations after the partition's is what listing 4.1 has.
    assert!(MemoryProgram::compile(&parse("writeL2; releaseRegs; end;").expect("parses")).is_ok());
}

#[test]
fn prog_bexp_grammar_and_errors() {
    let program = parse("if (!isCachedL1 and (true or isCachedL1)) { ; } else { end; } end;");
    assert!(matches!(program.expect("parses").as_slice(), [Stm::If(BExp::And(..), ..), Stm::End]));
    for (text, line, column) in
        [("yield\nend;", 2, 1), ("readL3;", 1, 1), ("if (maybe) {}", 1, 5), ("if (true) { end; ", 1, 18)]
    {
        let error = parse(text).expect_err(text);
        assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
    }
    assert!(parse(&"if (true) {".repeat(10_000)).is_err());
}
