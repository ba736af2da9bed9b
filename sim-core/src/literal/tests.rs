//! The pipeline's steps are steps of the reference: on the workloads, on random programs, and on a
//! program of everything they leave out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sim_frontend::diagnostic::Source;

use super::follow::Follower;
use super::host;
use crate::context::Launch;

#[path = "../../tests/rules/random_programs.rs"]
mod random_programs;

fn workloads() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == "workload.yaml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Follows each workload that has a program for the GTX 480 and ends under the token stack.
fn follow_workloads(functional: bool) {
    let smaller: &[(&str, &[(&str, f64)])] =
        &[("fmaloop", &[("n", 16.0)]), ("sgemm", &[("n", 64.0)]), ("vecadd", &[("n", 16384.0)])];
    let (mut followed, mut steps) = (0, 0);
    for file in workloads() {
        let name = file.parent().and_then(Path::file_name).expect("a name").to_string_lossy().into_owned();
        let params = smaller.iter().find(|(other, _)| *other == name).map_or(&[][..], |(_, params)| params);
        let Some(found) = host::follow(&file, functional, params) else { continue };
        let found = found.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(found.steps > 0, "{name}");
        followed += 1;
        steps += found.steps;
    }
    // All but the two of `.sync` collectives and those whose end needs a fair schedule.
    assert!(followed >= 41 && steps > 1_000_000, "{followed} workloads, {steps} steps");
}

#[test]
fn steps_of_workloads_are_steps_of_the_reference() {
    follow_workloads(true);
}

#[test]
fn steps_of_timed_workloads_are_steps_of_the_reference() {
    follow_workloads(false);
}

/// Follows `k(.u64 out)` with `threads` threads in each of two blocks.
fn follow(text: &str, threads: u32, functional: bool) -> Result<Follower, String> {
    let mut device = host::device();
    let id = device.create_context();
    device.load(id, &Source::new("t.ptx", text), false).map_err(|e| e.to_string())?;
    let context = device.context(id).expect("it exists");
    let out = context.malloc("out", 8192).expect("fits");
    let input: Vec<u8> =
        (0..1024u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()).collect();
    context.write(out + 4096, &input);
    Follower::begin(functional);
    let launch = Launch {
        module: 0,
        entry: "k".into(),
        grid: [2, 1, 1],
        block: [threads, 1, 1],
        dynamic_shared: 0,
        stream: 0,
        params: out.to_le_bytes().to_vec(),
        functional,
        cluster: None,
        non_portable_cluster: false,
    };
    context.launch(&launch).map_err(|e| e.to_string())?;
    host::wait(context);
    Follower::end(Some(context.memory.as_ref()))
}

/// What the random programs have none of: barriers with counts, arrivals and reductions, votes,
/// shuffles, fences, atomics, an indirect call, local and generic addresses, narrow elements.
const REST: &str = ".version 3.0\n.target sm_30\n.address_size 64\n\
    .func (.reg .u32 %ro) f(.reg .u32 %ri)\n{\nadd.u32 %ro, %ri, 3;\nret;\n}\n\
    .func (.reg .u32 %ro) g(.reg .u32 %ri)\n{\n.reg .pred %p;\n.reg .u32 %a;\nand.b32 %a, %ri, 1;\n\
    setp.eq.u32 %p, %a, 0;\nmov.u32 %ro, %ri;\n@%p ret;\nadd.u32 %ro, %ri, 40;\nret;\n}\n\
    .visible .entry k(.param .u64 p)\n{\n.reg .u32 %t, %r, %a, %b, %w, %s;\n.reg .u64 %o, %x, %l, %f, %g;\n\
    .reg .pred %p, %q;\n.reg .s16 %h;\n.reg .v4 .u32 %unused;\n.local .align 16 .b8 depot[32];\n\
    .shared .align 4 .b8 room[512];\n\
    ld.param.u64 %o, [p];\nmov.u32 %t, %tid.x;\nmov.u32 %a, %ctaid.x;\nmad.lo.u32 %r, %a, 96, %t;\n\
    mul.wide.u32 %x, %r, 4;\nadd.u64 %o, %o, %x;\nmov.u64 %l, depot;\ncvta.local.u64 %l, %l;\n\
    st.u32 [%l], %r;\nst.u8 [%l+4], %t;\nmov.u32 %s, room;\nshl.b32 %b, %t, 2;\nadd.u32 %b, %b, %s;\n\
    st.shared.u32 [%b], 0;\nbar.sync 0;\n\
    atom.shared.add.u32 %w, [room+4], 1;\natom.shared.cas.b32 %w, [room+8], 0, %t;\n\
    red.shared.max.u32 [room+12], %t;\nmembar.cta;\n\
    and.b32 %a, %t, 3;\nsetp.eq.u32 %p, %a, 1;\nvote.all.pred %q, %p;\nselp.u32 %w, 1, 2, %q;\nadd.u32 %r, %r, %w;\n\
    vote.any.pred %q, %p;\nselp.u32 %w, 4, 8, %q;\nadd.u32 %r, %r, %w;\nvote.uni.pred %q, %p;\n\
    selp.u32 %w, 16, 32, %q;\nadd.u32 %r, %r, %w;\nvote.ballot.b32 %w, %p;\nxor.b32 %r, %r, %w;\n\
    shfl.bfly.b32 %w, %r, 1, 31;\nadd.u32 %r, %r, %w;\nshfl.up.b32 %w|%q, %t, 2, 0;\n@%q add.u32 %r, %r, %w;\n\
    bar.red.popc.u32 %w, 1, %p;\nadd.u32 %r, %r, %w;\nbar.red.and.pred %q, 2, %p;\n@%q add.u32 %r, %r, 7;\n\
    bar.red.or.pred %q, 3, %p;\n@%q add.u32 %r, %r, 9;\n\
    setp.lt.u32 %q, %t, 32;\n@%q bra ARRIVES;\nbar.sync 4, 96;\nbra MET;\nARRIVES:\nbar.arrive 4, 96;\nMET:\n\
    @%q bra COUNTED;\nbar.sync 5;\nbra COUNTED_TOO;\nCOUNTED:\nbar.sync 5, 96;\nCOUNTED_TOO:\n\
    call (%r), f, (%r);\n@%p call (%r), g, (%r);\n\
    mov.u64 %f, f;\nmov.u64 %g, g;\nsetp.lt.u32 %q, %a, 2;\nselp.b64 %f, %f, %g, %q;\n\
    call (%r), %f, (%r), PROTO;\n\
    PROTO: .callprototype (.reg .u32 _) _ (.reg .u32 _);\n\
    ld.local.s8 %h, [depot+4];\ncvt.s32.s16 %w, %h;\nadd.s32 %r, %r, %w;\nld.shared.u32 %w, [room+4];\n\
    add.u32 %r, %r, %w;\nmembar.gl;\nst.volatile.global.u32 [%o], %r;\nld.volatile.global.u32 %w, [%o];\n\
    @%p bra SLOW;\n@!%p bra SLOW;\nSLOW:\nsetp.eq.u32 %q, %a, 3;\n@%q exit;\nadd.u32 %w, %w, 1;\n\
    st.global.u32 [%o], %w;\nexit;\n}\n";

#[test]
fn every_rule_is_followed_on_random_programs() {
    let mut rules: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut add = |found: Result<Follower, String>, what: &str| {
        let found = found.unwrap_or_else(|why| panic!("{what}: {why}"));
        found.rules.into_iter().for_each(|(rule, n)| *rules.entry(rule).or_default() += n);
    };
    // More of them for long runs.
    let programs = std::env::var("WARPSIM_FOLLOWED").map_or(180, |n| n.parse().expect("a number"));
    for functional in [true, false] {
        add(follow(REST, 96, functional), "the rest");
        for seed in 0..programs / if functional { 1 } else { 3 } {
            let text = random_programs::program(seed);
            add(follow(&text, 80, functional), &format!("program {seed}\n{text}"));
        }
    }
    let all = [
        "ssy",
        "prebrk",
        "preret",
        "sync",
        "brkdiv",
        "retdiv",
        "exitdiv",
        "brkuni",
        "retuni",
        "exituni",
        "brauni",
        "calluni",
        "braguard",
        "callguard",
        "bratarget",
        "calltarget",
        "next",
        "vote",
        "shfl",
        "mem",
        "barsync",
        "bararrive",
        "barred",
        "endbar",
        "block-compl",
        "grid-compl",
        "thr-dop",
        "thr-membar",
        "thr-atom",
        "thr-st",
        "thr-ld",
    ];
    for rule in all {
        assert!(rules.contains_key(rule), "{rule} was never applied: {rules:?}");
    }
}

#[test]
fn safe_topmosttoken_safe_branch_safe_reset_as_printed() {
    use super::crs::{ActiveState, TokenType};
    use super::safety::{branch, reset, topmost_token};
    use super::thread::{Act, FlowAct, Req};
    let (on, off) = (ActiveState::Active, ActiveState::Inactive);
    let token = |kind, pc| (kind, vec![on, on, off], pc);
    // From the top: the first of its kind counts, whoever it activates.
    let stack = [
        token(TokenType::Sync, 9),
        token(TokenType::Break, 20),
        token(TokenType::Call, 30),
        token(TokenType::Break, 40),
    ];
    let stack = stack.into();
    assert_eq!(topmost_token(&stack, TokenType::Break).map(|t| t.2), Ok(20));
    assert_eq!(topmost_token(&stack, TokenType::Call).map(|t| t.2), Ok(30));
    assert!(topmost_token(&stack, TokenType::Diverge).is_err());
    let go = |flow| branch(5, &stack, Some(&Act::Flow(flow)));
    assert_eq!(go(FlowAct::Break(0)), Ok(Some(20)));
    assert_eq!(go(FlowAct::Return(0)), Ok(Some(30)));
    assert_eq!(go(FlowAct::Exit(0)), Ok(None));
    assert_eq!(go(FlowAct::Bra(0, 17)), Ok(Some(17)));
    assert_eq!(go(FlowAct::Call(0, 18)), Ok(Some(18)));
    for flow in [FlowAct::Sync, FlowAct::Ssy(50), FlowAct::PreBrk(50), FlowAct::PreRet(50)] {
        assert_eq!(go(flow), Ok(Some(6)));
    }
    assert_eq!(branch(5, &stack, None), Ok(Some(6)));
    assert_eq!(branch(5, &stack, Some(&Act::Mem(Req::Clock))), Ok(Some(6)));
    // Lane 1 wanted another target than the one chosen; lane 2 was not at the branch.
    let mut pcs = [Some(70), Some(80), Some(3)];
    let flows = [FlowAct::Bra(0, 70), FlowAct::Bra(1, 80)];
    reset(&mut pcs, &flows, 5, &vec![on, on, off], &vec![on, off, off]);
    assert_eq!(pcs, [Some(70), Some(5), Some(3)]);
    // By a guard alone nobody comes back.
    let mut pcs = [Some(70), Some(6), Some(3)];
    reset(&mut pcs, &flows[..1], 5, &vec![on, on, off], &vec![on, off, off]);
    assert_eq!(pcs, [Some(70), Some(6), Some(3)]);
}
