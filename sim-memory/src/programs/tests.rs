use super::*;
use crate::access::AccessKind;
use crate::vocabulary::{AtomicOp, CacheOp, ScalarType, Semantics, StateSpace};

/// Listings 4.1–4.6 of CS, without blanks.
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
fn every_protocol_compiles_and_every_shipped_program_has_a_row() {
    for (_, protocol) in Protocol::ALL {
        ProgramSet::for_protocol(protocol).expect("the shipped programs are right");
    }
    for (name, _) in TEXTS {
        let used = |operation: &Operation| {
            Protocol::ALL.iter().any(|(_, protocol)| operation.program(*protocol) == *name)
        };
        assert!(Operation::ALL.iter().any(used), "{name} is run by no operation");
    }
    for (i, operation) in Operation::ALL.iter().enumerate() {
        assert_eq!(*operation as usize, i);
    }
}

#[test]
fn a_chip_may_name_other_programs() {
    let choose = |operation: &str, choice: Choice| {
        ProgramSet::with(Protocol::Fermi, &Choices::from([(operation.to_string(), choice)]))
    };
    let file = |text: &str| Choice { name: "mine.mem".into(), text: Some(text.into()) };
    let set = choose("ld.global.ca", Choice::from("thesis/ld_cg".to_string())).expect("shipped");
    let id = set.select(Operation::LdGlobalCa);
    assert_eq!(set.get(id), &load("thesis/ld_cg", false).expect("shipped"));
    assert!(!set.get(id).fills_l1);
    let set = choose("fence.gpu", file("flushL1; end;")).expect("fits");
    assert!(set.fence_flushes(Scope::Gpu) && !set.fence_flushes(Scope::Cta));
    for (operation, choice, expected) in [
        ("ld.glob.ca", file("end;"), "there is no operation `ld.glob.ca`"),
        (
            "ld.global.ca",
            Choice::from("thesis/ld_xx".to_string()),
            "there is no program or file `thesis/ld_xx`",
        ),
        ("ld.global.ca", file("evictL1;\nyield"), "mine.mem: line 2"),
        ("ld.global.ca", file("evictL1;\nreadL2;\nend;"), "mine.mem: line 2"),
        ("ld.shared", file("readMem;\nreadL1;\nend;"), "mine.mem: line 2"),
        ("ld.shared", file("readMem;"), "without `end`"),
        ("ld.global.ca", file("lock; end;"), "shared"),
    ] {
        let error = choose(operation, choice).map(|_| ()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn operations_are_those_of_the_table() {
    use {CacheOp as C, Semantics as S, StateSpace as Space};
    let atom = AccessKind::Atomic { op: AtomicOp::Add, ty: ScalarType::U32, returns: true };
    let red = AccessKind::Atomic { op: AtomicOp::Add, ty: ScalarType::U32, returns: false };
    for (kind, space, cache, semantics, scope, expected) in [
        (AccessKind::Load, Space::Global, C::Lu, S::Weak, Scope::Gpu, "ld.global.lu"),
        (AccessKind::Load, Space::Global, C::Ca, S::Volatile, Scope::Sys, "ld.global.volatile"),
        (AccessKind::Load, Space::Global, C::Ca, S::Acquire, Scope::Cluster, "ld.global.acquire.gpu"),
        (AccessKind::Load, Space::Global, C::Ca, S::Relaxed, Scope::Cta, "ld.global.relaxed.cta"),
        (AccessKind::Load, Space::Local, C::Cs, S::Weak, Scope::Gpu, "ld.local.cs"),
        (AccessKind::Store, Space::Local, C::Wt, S::Weak, Scope::Gpu, "st.local.wt"),
        (AccessKind::Store, Space::Global, C::Wb, S::Release, Scope::Cta, "st.global.release"),
        (atom, Space::Global, C::Ca, S::AcqRel, Scope::Sys, "atom.global.acquire.gpu"),
        (atom, Space::Global, C::Ca, S::AcqRel, Scope::Cta, "atom.global"),
        (red, Space::Global, C::Ca, S::Relaxed, Scope::Gpu, "red.global"),
    ] {
        assert_eq!(Operation::of(kind, space, cache, semantics, scope).name(), expected);
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
    let place = |text: &str| {
        let error = MemoryProgram::compile(&parse(text).expect("parses")).expect_err("refused");
        (error.line, error.column)
    };
    assert_eq!(place("evictL1;\n  readL2;\nend;"), (2, 3));
    assert_eq!(place("evictL1; if (isCachedL2) { } end;"), (1, 10));
    assert!(refused("lock;\nend;").1.contains("shared"));
    assert!(refused("evictL1; if (isCachedL2) { } end;").1.contains("the other of SM and memory partition"));
    // A tail of register operations after the partition's is what listing 4.1 has.
    assert!(MemoryProgram::compile(&parse("writeL2; releaseRegs; end;").expect("parses")).is_ok());
}

/// Where execution goes from one to the other of SM and partition. Conditions that are constant belong to neither.
#[test]
fn programs_leave_where_the_other_has_the_next_operation() {
    let leaves = |text: &str| {
        let program = MemoryProgram::compile(&parse(text).expect("parses")).expect("compiles");
        let at = |leaves: fn(&CompiledStep) -> bool| {
            program.code.iter().map(|step| if leaves(step) { '1' } else { '0' }).collect::<String>()
        };
        (at(|step| step.leaves_sm), at(|step| step.leaves_partition), at(|step| step.touches_l1))
    };
    let expected =
        |sm: &str, partition: &str, l1: &str| (sm.to_string(), partition.to_string(), l1.to_string());
    // evictL1; yield; unless isCachedL2; readL2; releaseRegs; end;
    assert_eq!(
        leaves("evictL1; yield; if (isCachedL2) { readL2; } releaseRegs; end;"),
        expected("001100", "100010", "100000")
    );
    // readL2; unless true; releaseRegs; end;
    assert_eq!(leaves("readL2; if (true) { releaseRegs; } end;"), expected("1000", "0010", "0000"));
    // readL2; unless not true; releaseRegs; end;
    assert_eq!(leaves("readL2; if (!true) { releaseRegs; } end;"), expected("1000", "0110", "0000"));
    // An operation of L1 may follow until the last one.
    assert_eq!(
        leaves("readL2; yield; updateL1; yield; readL1; end;"),
        expected("100000", "001010", "111110")
    );
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
