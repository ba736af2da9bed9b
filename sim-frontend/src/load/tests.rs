use super::*;
use crate::program::{Extra, OpClass, Pred, Row};
use sim_memory::vocabulary::StateSpace;

fn module(text: &str) -> Module {
    Module::build(&Source::new("t.ptx", text), false).unwrap_or_else(|e| panic!("{}", e[0].render()))
}

const HEAD: &str = ".version 7.0\n.target sm_20\n.address_size 64\n";

fn program(text: &str, flow: ControlFlow) -> Arc<Program> {
    module(text).program("k", &|_| Some(0x1000), flow, 8192).unwrap_or_else(|e| panic!("{}", e[0].render()))
}

#[test]
fn tf_load_environments_become_numbers() {
    let text = format!(
        "{HEAD}.global .u32 g[2] = {{7, 8}};\n.entry k(.param .u64 p, .param .u32 n)\n{{ .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<3>;\n\
         ld.param.u32 %r1, [n];\nmov.u32 %r2, %tid.x;\nsetp.ge.s32 %p1, %r2, %r1;\n@%p1 bra DONE;\nmov.u64 %rd1, g;\nst.global.u32 [%rd1+4], %r2;\nDONE: ret; }}"
    );
    let m = module(&text);
    assert_eq!(m.globals()[0].init, [7, 0, 0, 0, 8, 0, 0, 0]);
    let plain = program(&text, ControlFlow::Plain);
    let classes: Vec<OpClass> = plain.ops.iter().map(|op| op.class).collect();
    use OpClass as C;
    assert_eq!(classes, [C::LoadParam, C::Data, C::Data, C::Branch, C::Data, C::Store, C::Exit]);
    assert_eq!(plain.ops[0].imm, 8);
    assert_eq!(plain.ops[3].target, 6);
    assert_ne!(plain.ops[3].guard, Pred::TRUE);
    assert_eq!(plain.ops[5].imm, 4);
    assert_eq!((plain.param_bytes, plain.params[1].offset), (12, 8));
    let injected = program(&text, ControlFlow::Injected);
    let classes: Vec<OpClass> = injected.ops.iter().map(|op| op.class).collect();
    assert_eq!(
        classes,
        [C::LoadParam, C::Data, C::Data, C::Ssy, C::Branch, C::Data, C::Store, C::Sync, C::Exit]
    );
    assert_eq!(injected.ops[3].target, 8);
    assert_eq!(injected.info[4].base_pc, 3);
    assert_eq!((injected.info[7].injected, injected.info[7].base_pc), (true, 6));
}

#[test]
fn tf_7_listing_5_4_scopes() {
    // CS listing 5.4 with types that PTX accepts in the inner block.
    let text = format!(
        "{HEAD}.entry k() {{ .reg .s32 r; .reg .pred p;\nBLOCK: {{ {{ add.s32 r, r, r;\nbra.uni SKIP;\n.reg .u64 r;\nSKIP: add.u64 r, r, r;\n@!p bra BLOCK;\n@p bra CONTINUE; }}\nBLOCK: }}\nCONTINUE: }}"
    );
    let plain = program(&text, ControlFlow::Plain);
    let first = &plain.ops[0];
    let second = plain.ops.iter().find(|op| op.dst[0] != first.dst[0] && op.dst[0].is_some());
    assert!(second.is_some(), "the inner register is another one");
    // `@!p bra BLOCK` goes to the inner label, which is the end of the outer block.
    let branch = plain.ops.iter().find(|op| op.guard.negated()).expect("the guarded branch");
    assert_eq!(plain.ops[branch.target as usize].class, OpClass::Exit);
}

#[test]
fn tf_3_listing_5_3_calls_go_through_the_frame() {
    let text = format!(
        "{HEAD}.func (.param .u64 r) function(.param .u32 p) {{ .reg .u32 %a; .reg .u64 %b; ld.param.u32 %a, [p]; cvt.u64.u32 %b, %a; st.param.u64 [r], %b; ret; }}\n\
         .entry k() {{ .reg .pred p; .reg .u64 rr; .local .align 16 .b8 x[16]; {{ .param .u64 r; .param .u32 a;\nst.param.u32 [a], 9;\n@p call (r), function, (a);\nld.param.u64 rr, [r]; }} ret; }}"
    );
    let plain = program(&text, ControlFlow::Injected);
    // The caller's frame has 16 bytes (x); r lies behind it, then a, as in the listing.
    let store = plain.ops.iter().find(|op| op.class == OpClass::Store).expect("the argument");
    assert_eq!(store.imm, 24);
    let loads: Vec<i64> = plain.ops.iter().filter(|op| op.class == OpClass::Load).map(|op| op.imm).collect();
    assert!(loads.contains(&16) && loads.contains(&8), "{loads:?}: r in the caller, p in the callee");
    let call = plain.ops.iter().position(|op| op.class == OpClass::Call).expect("the call");
    assert_eq!(plain.ops[call - 1].class, OpClass::PreReturn);
    assert_eq!(plain.ops[call - 1].guard, plain.ops[call].guard, "the same guard");
    assert_eq!(plain.ops[call - 1].target as usize, call + 1);
}

#[test]
fn errors_come_together_with_places() {
    let text = format!(
        "{HEAD}.entry k() {{ .reg .b32 %r<2>; .reg .f32 %f1;\nadd.s32 %r1, %r9, 1;\nadd.s32 %r1, %f1, 1;\nad.s32 %r1, %r1, 1;\nadd.q32 %r1, %r1, 1;\nbra NOWHERE;\nadd.s32 %r1, %r1;\nsync;\n}}"
    );
    let errors = Module::build(&Source::new("t.ptx", &text), false).expect_err("seven errors");
    let lines: Vec<String> = errors.iter().filter_map(Diagnostic::place).collect();
    let expected: Vec<String> =
        ["5:14", "6:14", "7:1", "8:5", "9:5", "10:1", "11:1"].iter().map(|p| format!("t.ptx:{p}")).collect();
    assert_eq!(lines, expected, "{}", errors.iter().map(Diagnostic::render).collect::<String>());
    assert!(errors[2].help.as_deref().is_some_and(|h| h.contains("`add`")));
}

#[test]
fn listing_6_2_of_the_papers_runs_as_written() {
    let text = "// dialect: papers\n.global .u32 lock = 1;\n.entry kernel () {\n.reg .u32 r;\n.reg .pred p;\npreBrk ENDLOOP;\nBEGINLOOP:\natom .global .cas .u32 r, lock, 1, 0;\nsetp .u32 .eq p, r, 1;\n@p break;\nbra BEGINLOOP;\nENDLOOP:\nst .global .u32 .cg lock, 1;\nexit;\n}";
    let m = Module::build(&Source::new("l.ptx", text), false);
    let m = m.unwrap_or_else(|e| panic!("{}", e[0].render()));
    let p = m
        .program("kernel", &|_| Some(0x1000), ControlFlow::Injected, 0)
        .unwrap_or_else(|e| panic!("{}", e[0].render()));
    use OpClass as C;
    let classes: Vec<OpClass> = p.ops.iter().map(|op| op.class).collect();
    assert_eq!(classes, [C::PreBreak, C::Atomic, C::Data, C::Break, C::Branch, C::Store, C::Exit]);
    assert_eq!(p.ops[0].target, 5);
}

/// The listings of CS as they are printed, with what their classes must be.
#[test]
fn listings_5_5_to_5_7_of_the_papers_are_inputs() {
    use OpClass as C;
    let fork = |taken: &str, end: &str| {
        format!(
            "setp .eq p, a, b;\nssy 10;\n@p bra DIVERGE;\nsub c, a, b;\nbra SYNC;\nDIVERGE:\n{taken}\nSYNC:\nsync;\ndiv r, c, d;\n{end}"
        )
    };
    let listing_5_6 = "ssy 13;\nbra r;\nPATH-1:\nmul c, a, b;\nbra SYNC;\nPATH-2:\nadd c, a, b;\nbra SYNC;\nPATH-3:\n\
                       sub c, a, b;\nSYNC:\nsync;\ndiv r, c, d;\n";
    for dialect in ["", "// dialect: papers\n"] {
        let listing = |text: &str| {
            let m = Module::build(&Source::new("l.ptx", &format!("{dialect}{text}")), true);
            let m = m.unwrap_or_else(|e| panic!("{text}\n{}", e[0].render()));
            let name = crate::ptx::parser::papers::LISTING;
            m.program(name, &|_| None, ControlFlow::Injected, 0)
                .unwrap_or_else(|e| panic!("{}", e[0].render()))
        };
        let of = |p: &Program| p.ops.iter().map(|op| op.class).collect::<Vec<_>>();
        let p = listing(&fork("mul c, a, b;", ""));
        assert_eq!(
            of(&p),
            [C::Data, C::Ssy, C::Branch, C::Data, C::Branch, C::Data, C::Sync, C::Data, C::Exit]
        );
        // Line 10 is the division.
        assert_eq!(p.ops[1].target, 7);
        let p = listing(&fork("@p2 ret;", "ret;"));
        assert_eq!(
            of(&p),
            [C::Data, C::Ssy, C::Branch, C::Data, C::Branch, C::Exit, C::Sync, C::Data, C::Exit]
        );
        let p = listing(listing_5_6);
        assert_eq!(
            of(&p),
            [
                C::Ssy,
                C::BranchIndirect,
                C::Data,
                C::Branch,
                C::Data,
                C::Branch,
                C::Data,
                C::Sync,
                C::Data,
                C::Exit
            ]
        );
        assert_eq!(p.ops[0].target, 8);
    }
    // Without the dialect it is an error at its first line.
    let errors = Module::build(&Source::new("l.ptx", &fork("", "")), false).expect_err("no header");
    assert_eq!(errors[0].place().as_deref(), Some("l.ptx:1:1"));
}

/// CS listing 5.1 as printed, and what the transformations make of it: listing 5.2.
#[test]
fn tf_1_tf_2_tf_3_tf_4_tf_5_tf_6_tf_7_listing_5_1_becomes_listing_5_2() {
    let text = "// dialect: papers\n.global .u32 var = 10 / 2 + 3;\n\n.func function(.param .f64 p)\n{\n\
                .reg .f64 a;\nld .param .f64 a, [p];\n}\n\n.entry transformationKernel()\n{\n.reg .f64 var;\n\
                .reg .pred p;\n\n@p call function , (var);\n}\n";
    let m = Module::build(&Source::new("l.ptx", text), false);
    let m = m.unwrap_or_else(|e| panic!("{}", e[0].render()));
    // Line 1: the constant is folded [2], the global is no longer the register `var` [7].
    let variable = m.globals().first().expect("the global");
    assert_eq!((variable.name.as_str(), variable.init.as_slice()), ("var", [8, 0, 0, 0].as_slice()));
    let p = m
        .program("transformationKernel", &|_| Some(0x1000), ControlFlow::Injected, 8192)
        .unwrap_or_else(|e| panic!("{}", e[0].render()));
    use OpClass as C;
    let start = p.ops.iter().position(|op| op.class == C::Store).expect("the argument is stored");
    let end = p.functions[0].end_pc as usize;
    let body = &p.ops[start..end];
    // Lines 18–23: the argument goes to the frame in 64 bits [3, 4], the stack base moves up,
    // preRet [6], call, the stack base moves down, exit [5]; all but exit under the guard.
    let classes: Vec<OpClass> = body.iter().map(|op| op.class).collect();
    assert_eq!(classes, [C::Store, C::Data, C::PreReturn, C::Call, C::Data, C::Exit]);
    let guard = body[0].guard;
    assert_ne!(guard, Pred::TRUE);
    assert!(body[..5].iter().all(|op| op.guard == guard));
    assert_eq!(body[5].guard, Pred::TRUE);
    let Extra::Memory(facts) = body[0].extra else { panic!("a store has its facts") };
    assert_eq!((facts.space, facts.element_bytes, body[0].imm), (StateSpace::Local, 8, 0));
    assert_eq!(body[2].target as usize, start + 4, "behind the call");
    // Line 19 and 22: by 0, for the kernel has no local variables of its own.
    assert_eq!((body[1].src[1], body[4].src[1]), (body[4].src[1], body[1].src[1]));
    // Lines 4–10: the parameter is read from the frame at offset 0, then ret [5].
    let function = &p.functions[1];
    let callee = &p.ops[function.entry_pc as usize..function.end_pc as usize];
    let classes: Vec<OpClass> = callee.iter().map(|op| op.class).collect();
    assert_eq!(classes, [C::Load, C::Return]);
    let Extra::Memory(facts) = callee[0].extra else { panic!("a load has its facts") };
    assert_eq!((facts.space, facts.element_bytes, callee[0].imm), (StateSpace::Local, 8, 0));
    assert_eq!(body[3].target, function.entry_pc);
}

#[test]
fn expr_c_expr_v_expr_e_expr_eopt_expr_b_operands_become_rows_constants_and_predicates() {
    let text = format!(
        "{HEAD}.global .u32 g[4];\n.entry k() {{ .reg .u32 %a, %b, %c; .reg .u64 %x; .reg .pred %p, %q;\n\
         mov.u32 %a, (3 + 4) * 2;\nmov.u64 %x, g+8;\nmov.u32 %b, %tid.x;\nadd.u32 %c, %a, %b;\n\
         setp.eq.and.u32 %p, %a, %b, %q;\nsetp.eq.and.u32 %p, %a, %b, !%q;\nsetp.eq.u32 %p, %a, %b;\n\
         @!%p exit;\nexit; }}"
    );
    let p = program(&text, ControlFlow::Plain);
    // Constants are rows of their own; a variable is the address it was given, plus 8.
    let constant = |op: usize| &p.consts[usize::from(p.ops[op].src[0].0 - Row::CONST)];
    assert_eq!(constant(0)[0], 14);
    assert_eq!(constant(1)[0], 0x1008);
    // A special register has a row behind the others; a register has one of them.
    assert!(p.ops[2].src[0].0 >= p.registers && p.ops[2].src[0].0 < Row::CONST);
    assert!(p.ops[3].src[..2].iter().all(|row| row.0 < p.registers));
    // Left out: no row, no predicate.
    assert!(!p.ops[3].src[2].is_some());
    let (with, without) = (p.ops[4].psrc[0], p.ops[5].psrc[0]);
    assert_eq!((with.index(), with.negated(), without.negated()), (without.index(), false, true));
    assert_ne!(p.ops[6].psrc[0].index(), with.index());
    assert!(p.ops[7].guard.negated() && p.ops[8].guard == Pred::TRUE);
}

#[test]
fn one_opcode_has_a_form_for_each_choice_of_its_operands() {
    // Parts of video operands, widths of converted registers, parts of vectors.
    let text = format!(
        "{HEAD}.entry k() {{ .reg .b16 %h<3>; .reg .b32 %r<4>; .reg .b64 %rd<3>;\n\
         vadd.s32.s32.s32 %r1, %r2.b0, %r3;\nvadd.s32.s32.s32 %r1, %r2.b1, %r3;\n\
         vadd.s32.s32.s32 %r1, %r2.b0, %r3;\ncvt.u16.u8 %h1, %h2;\ncvt.u16.u8 %r1, %h2;\n\
         mov.b64 %rd1, %rd2;\nmov.b64 %rd1, {{%r1, %r2}};\nret; }}"
    );
    let program = program(&text, ControlFlow::Plain);
    let forms: Vec<u16> = program.ops.iter().map(|op| op.form).collect();
    assert_eq!(forms[0], forms[2]);
    for (a, b) in [(0, 1), (3, 4), (5, 6)] {
        assert_ne!(program.forms[usize::from(forms[a])], program.forms[usize::from(forms[b])], "{a} {b}");
    }
}

fn refusals(text: &str) -> Vec<String> {
    let errors = Module::build(&Source::new("t.ptx", text), false).err().unwrap_or_default();
    errors.iter().map(|error| format!("{}: {}", error.place().unwrap_or_default(), error.message)).collect()
}

fn shared_bytes(text: &str, entry: &str) -> u32 {
    let found = module(text).program(entry, &|_| Some(0x1000), ControlFlow::Plain, 8192);
    found.unwrap_or_else(|e| panic!("{}", e[0].render())).shared_bytes
}

#[test]
fn kernels_have_the_shared_memory_that_they_reach() {
    let text = format!(
        "{HEAD}.shared .align 4 .b8 one[4000];\n.shared .align 16 .b8 two[400];\n.shared .align 4 .b8 far[40];\n\
         .extern .shared .align 16 .b8 dynamic[];\n\
         .func f() {{ .reg .u32 %a;\n.shared .u32 own[2];\nld.shared.u32 %a, [two];\nret; }}\n\
         .func g() {{ .reg .u32 %a;\nld.shared.u32 %a, [far];\nret; }}\n\
         .global .u64 table[1] = {{g}};\n\
         .entry none() {{ ret; }}\n\
         .entry direct() {{ .reg .u32 %a;\nmov.u32 %a, one;\nret; }}\n\
         .entry called() {{ call f;\nret; }}\n\
         .entry indirect() {{ .reg .u64 %d;\nld.global.u64 %d, [table];\nP: .callprototype _ ();\ncall %d, P;\nret; }}\n\
         .entry behind() {{ .reg .u32 %a;\n.shared .b8 own[5];\nld.shared.u32 %a, [dynamic];\nmov.u32 %a, own;\nret; }}\n"
    );
    let bytes = ["none", "direct", "called", "indirect", "behind"].map(|entry| shared_bytes(&text, entry));
    // Dynamic shared memory begins at its alignment, after the static part.
    assert_eq!(bytes, [0, 4000, 408, 40, 16]);
}

#[test]
fn sizes_beyond_what_a_space_has_are_refused_where_they_are_declared() {
    let entry = ".entry k() { ret; }\n";
    for (variable, words) in [
        (".global .b8 g[65536][65536][65536][65536];", "`g` is too large"),
        (".global .b8 g[4294967296][4294967297];", "`g` is too large"),
        (".global .u64 g[1099511627776];", "`g` is too large"),
        (".global .u32 g[][65536][65536][65536][65536] = {{1}};", "`g` is too large"),
        (".shared .b8 g[16777217];", "the window of shared memory has 16 MiB"),
        (".shared .u64 g[1099511627776][1099511627776];", "`g` is too large"),
        (".const .b8 g[1073741824];", "constant memory has 64 KiB"),
    ] {
        let found = refusals(&format!("{HEAD}{variable}\n{entry}"));
        let [error] = found.as_slice() else { panic!("{variable}: {found:?}") };
        assert!(error.starts_with("t.ptx:4:") && error.contains(words), "{variable}: {error}");
    }
    for (text, words) in [
        (".entry k()\n{ .local .b8 l[4294967296][4294967296];\nret; }", "`l` is too large"),
        (".entry k()\n{ { .local .b8 l[524289]; }\nret; }", "512 KiB of local memory"),
        (".func f()\n{ .param .b8 l[524289];\nret; }\n.entry k() { ret; }", "512 KiB of local memory"),
        (".entry\nk(.param .b8 p[4353]) { ret; }", "occupy 4353 bytes; the limit is 4352"),
    ] {
        let found = refusals(&format!("{HEAD}{text}\n"));
        let [error] = found.as_slice() else { panic!("{text}: {found:?}") };
        assert!(error.starts_with("t.ptx:5:") && error.contains(words), "{text}: {error}");
    }
    let new = HEAD.replace("7.0", "8.1").replace("sm_20", "sm_70");
    assert_eq!(refusals(&format!("{new}.entry k(.param .b8 p[32764]) {{ ret; }}\n")), Vec::<String>::new());
}

#[test]
fn an_unknown_form_refuses_the_kernels_that_reach_it_only() {
    let text = format!(
        "{HEAD}.func f() {{ .reg .u32 %a;\nsummon.u32 %a;\nret; }}\n\
         .func g() {{ ret; }}\n\
         .entry k() {{ .reg .u32 %a;\nadd.sideways.u32 %a, %a, %a;\nret; }}\n\
         .entry calls() {{ call f;\nret; }}\n\
         .entry fine() {{ call g;\nret; }}\n"
    );
    let m = module(&text);
    let make = |entry: &str| m.program(entry, &|_| Some(0), ControlFlow::Injected, 8192);
    assert!(make("fine").is_ok());
    let said =
        |entry: &str| make(entry).expect_err("refused").iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(said("calls"), ["t.ptx:5:1: error: unknown instruction `summon`"]);
    assert_eq!(said("k"), ["t.ptx:9:5: error: `.sideways` is not allowed after `add`"]);
}

/// As nvcc writes `child<<<1, 32>>>(p)` in a kernel, with CUDA 12's names and older ones.
#[test]
fn kernels_that_launch_kernels_are_refused_by_name_and_others_run() {
    for (buffer, launch) in [
        ("__cudaCDP2GetParameterBufferV2", "__cudaCDP2LaunchDeviceV2"),
        ("cudaGetParameterBufferV2", "cudaLaunchDeviceV2"),
    ] {
        let text = format!(
            "{HEAD}.extern .func (.param .b64 r) {buffer}(.param .b64 f);\n\
             .extern .func (.param .b32 r) {launch}(.param .b64 b, .param .b64 s);\n\
             .entry child() {{ ret; }}\n.func launches(.param .b64 b) {{ .param .b64 s; .param .b32 r;\n\
             call (r), {launch}, (b, s);\nret; }}\n\
             .entry parent() {{ .reg .b64 %x; .param .b64 f; .param .b64 b;\nmov.u64 %x, child;\n\
             st.param.b64 [f], %x;\ncall (b), {buffer}, (f);\ncall launches, (b);\nret; }}\n"
        );
        let m = module(&text);
        let make = |entry: &str| m.program(entry, &|_| Some(0), ControlFlow::Injected, 8192);
        assert!(make("child").is_ok());
        let errors = make("parent").expect_err("refused");
        assert!(errors.iter().all(|error| error.code == "dynamic_parallelism" && error.help.is_some()));
        let said: Vec<_> = errors.iter().map(ToString::to_string).collect();
        let unsupported = "kernels that launch kernels (dynamic parallelism) are not supported";
        let expected = [
            format!(
                "t.ptx:11:13: error: the kernel `parent` takes the address of the kernel `child`: {unsupported}"
            ),
            format!("t.ptx:8:11: error: the function `launches` calls `{launch}`: {unsupported}"),
        ];
        assert_eq!(said, expected);
    }
}

#[test]
fn directives_about_clusters_are_bounds_of_launches() {
    let entry = |directives: &str| format!("{HEAD}.entry k()\n.maxntid 32\n{directives}\n{{ ret; }}\n");
    for (directives, cluster, explicit, most) in [
        (".reqnctapercluster 7", Some([7, 1, 1]), false, None),
        (".explicitcluster .reqnctapercluster 1, 2, 1", Some([1, 2, 1]), true, None),
        (".explicitcluster", None, true, None),
        (".maxclusterrank 8", None, false, Some(8)),
        ("", None, false, None),
    ] {
        let m = module(&entry(directives));
        let bounds = m.program("k", &|_| Some(0), ControlFlow::Plain, 8192).expect(directives).bounds.clone();
        assert_eq!(
            (bounds.cluster, bounds.explicit_cluster, bounds.max_cluster),
            (cluster, explicit, most),
            "{directives}"
        );
    }
}

#[test]
fn more_constants_or_registers_than_operands_can_name_are_refused() {
    let text = |n: usize| {
        let one = |i: usize| format!("mad.lo.u32 %r1, %r1, {}, %r0;\n", 3 * i + 5);
        let body: String = (0..n).map(one).collect();
        format!(
            "{HEAD}.entry k(.param .u64 p)\n{{ .reg .b32 %r<2>; .reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n\
             mov.u32 %r0, %tid.x;\nmov.u32 %r1, %r0;\n{body}st.global.u32 [%rd1], %r1;\nret; }}"
        )
    };
    let made = |text: &str| module(text).program("k", &|_| None, ControlFlow::Injected, 0);
    // Each names its own.
    let program = made(&text(32_000)).unwrap_or_else(|e| panic!("{}", e[0].render()));
    let constant = |i: usize| program.consts[usize::from(program.ops[3 + i].src[1].0 - Row::CONST)][0];
    assert_eq!(program.ops.len(), 32_005);
    for i in [0, 1, 20_000, 31_999] {
        assert_eq!(constant(i) as usize, 3 * i + 5);
    }
    let error = made(&text(40_000)).expect_err("too many")[0].render();
    assert!(error.contains("uses 40000 constant words") && error.contains("32768"), "{error}");
    assert!(error.contains(".const"), "{error}");
    // Selectors of loops count too.
    let two_exits = |i: usize| {
        format!(
            "L{i}: setp.eq.u32 %p1, %r0, {i}; @%p1 bra M{i}; add.u32 %r0, %r0, 1; setp.lt.u32 %p1, %r0, 9;\n\
             @%p1 bra L{i}; add.u32 %r0, %r0, 3; M{i}: add.u32 %r0, %r0, 1;\n"
        )
    };
    let body: String = (0..40_000).map(two_exits).collect();
    let text = format!(
        "{HEAD}.entry k()\n{{ .reg .b32 %r<2>; .reg .pred %p<2>;\nmov.u32 %r0, %tid.x;\n{body}ret; }}"
    );
    let error = made(&text).expect_err("too many")[0].render();
    assert!(error.contains("needs too many registers"), "{error}");
}

/// Every form of the table with operands that fit nowhere or somewhere: it ends as a program or with words.
#[test]
fn forms_with_any_operands_end_as_programs_or_with_words() {
    use crate::isa::{Shape, TABLE, combinations, resolve};
    let mut state = 1u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let (mut built, mut refused) = (0, 0);
    let declared = ".reg .pred %p<10>;\n.reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .f32 %f<8>;\n.reg .b64 %rd<8>;\n\
                    .reg .b128 %q<4>;\n.shared .align 32 .b8 sym[64];";
    for row in TABLE.iter().filter(|row| !row.papers() && row.executed()) {
        let forms = combinations(row);
        for _ in 0..80 {
            let modifiers = &forms[next(forms.len())];
            let resolved = resolve(row, modifiers, false).expect("a form of the table");
            let mut operands = Vec::new();
            for shape in resolved.operands {
                let list: &[&str] = match shape.shape {
                    Shape::PredicateDestination | Shape::Predicate => &["%p1", "%p2"],
                    Shape::Address => &["[%rd1]", "[%rd1+16]", "[sym]", "[%r1]"],
                    Shape::Vector => &[
                        "{%r1, %r2}",
                        "{%f1, _, %f3, %f4}",
                        "{%rd1, %rd2, %rd1, %rd3}",
                        "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}",
                        "{%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}",
                        "%r5",
                        "%q2",
                    ],
                    Shape::Label => &["done", "sym"],
                    Shape::Immediate => &["0", "16"],
                    _ => &["%r1", "%rd1", "%f1", "%h1", "%q1", "7", "_", "sym"],
                };
                if !(shape.optional && next(2) == 0) {
                    operands.push(list[next(list.len())]);
                }
            }
            let line = format!("{}.{} {}", row.name, modifiers.join("."), operands.join(", "));
            let line = line.replace(". ", " ");
            let text = format!(
                ".version 9.2\n.target sm_100a\n.address_size 64\n.entry k()\n{{\n{declared}\n{line};\ndone:\nret;\n}}\n"
            );
            let made = Module::build(&Source::new("t.ptx", &text), false).and_then(|module| {
                module.program("k", &|_| Some(256), ControlFlow::Injected, 1024).map(drop)
            });
            match made {
                Ok(()) => built += 1,
                Err(errors) => {
                    refused += 1;
                    assert!(!errors.is_empty() && errors.iter().all(|e| !e.message.is_empty()), "{line}");
                }
            }
        }
    }
    assert!(built > 300 && refused > 300, "{built} {refused}");
}
