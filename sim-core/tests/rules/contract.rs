//! The contract of reconvergence policies: whatever a policy does, each thread runs its own control
//! flow and memory ends as it does where every thread is alone. Random programs under every policy
//! and with every check on.
//!
//! `WARPSIM_PROGRAMS=FIRST..END` names other programs than the suite's, for long runs.

use std::sync::Arc;

use sim_core::device::Options;
use sim_core::reconvergence::registry::POLICIES;
use sim_frontend::chip::AssemblerSpec;

use crate::machine::{Run, chip, device_with, module};
use crate::random_programs::program;

const THREADS: u32 = 80;

fn results(
    text: &str,
    policy: &str,
    functional: bool,
    chip: &Arc<sim_frontend::chip::ChipSpec>,
) -> Result<Vec<u32>, String> {
    let mut run = Run::new(
        device_with(Arc::clone(chip), policy, |options| Options { allow_newer_isa: true, ..options }),
        text,
        false,
        2048,
    );
    let input: Vec<u8> =
        (0..1024u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()).collect();
    let out = run.out;
    run.device.context(run.context).expect("it exists").write(out + 4096, &input);
    run.launch(1, THREADS, functional).map_err(|e| e.to_string())?;
    run.wait().map_err(|e| e.to_string())?;
    Ok(run.words()[..THREADS as usize].to_vec())
}

/// Every policy, and those with parameters that change what they do once more.
pub fn policies() -> Vec<&'static str> {
    let mut all: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
    all.extend([
        "crs_stack:depth=1,spill_cycles=3",
        "pdom_stack:depth=2,spill_cycles=3",
        "multi_path:paths=2",
        "multi_path:early=0,entries=1,spill_cycles=3",
        "dual_path:depth=1,spill_cycles=3",
        "warp_subdivision:memory=always",
        "warp_subdivision:memory=always,splits=32,branch_distance=1000",
        "warp_subdivision:memory=never,branch_distance=0",
        "dynamic_warp_formation:scheduler=DMin",
        "dynamic_warp_formation:scheduler=DTime",
        "dynamic_warp_formation:scheduler=DPdPri",
        "dynamic_warp_formation:scheduler=DPC",
        "convergence_barriers:yield_after=8,registers=1,spill_cycles=3",
        "convergence_barriers:yield_after=never",
    ]);
    all
}

#[test]
fn every_parameter_is_among_the_policies_that_are_tried() {
    for info in POLICIES {
        for parameter in info.parameters.iter().map(|parameter| parameter.name) {
            let own =
                policies().into_iter().filter_map(|text| text.strip_prefix(info.name)?.strip_prefix(':'));
            let tried =
                own.flat_map(|set| set.split(',')).any(|set| set.split('=').next() == Some(parameter));
            assert!(
                tried,
                "add `{}:{parameter}=VALUE` to `policies` above, with a VALUE that matters",
                info.name
            );
        }
    }
}

/// Threads that executed each line of the text, and all of them, as the report counts them.
fn executed(text: &str, policy: &str, functional: bool) -> (u64, Vec<(u32, u64)>) {
    let chip = chip(|c| c.limits.num_processors = 1);
    let options = |options| Options { allow_newer_isa: true, profile: true, ..options };
    let mut run = Run::new(device_with(chip, policy, options), text, false, 2048);
    run.launch(1, THREADS, functional).expect("it fits");
    run.wait().unwrap_or_else(|e| panic!("{policy}: {e}\n{text}"));
    let report = run.report();
    let lines = report.lines.iter().filter(|line| line.executing_lanes > 0);
    (report.kernels[0].thread_instructions, lines.map(|line| (line.line, line.executing_lanes)).collect())
}

/// What threads execute is their own affair, whoever runs beside them: each counts once for each
/// instruction of the text, also where a policy inverts a branch or lets threads issue it again.
#[test]
fn what_threads_execute_is_counted_alike_under_every_policy() {
    // A branch back that some lanes take, and an indirect one with four targets.
    let loops = "and.b32 %b, %t, 7;\nTOP:\nadd.u32 %r, %r, 1;\nsub.u32 %b, %b, 1;\nsetp.ge.s32 %p, %b, 0;\n\
        @%p bra TOP;\nand.b32 %b, %t, 3;\nTARGETS: .branchtargets A, B, C, D;\nbrx.idx %b, TARGETS;\nA:\n\
        add.u32 %r, %r, 10;\nbra D;\nB:\nadd.u32 %r, %r, 20;\nC:\nadd.u32 %r, %r, 30;\nD:";
    let loops = module("", loops).replace(".version 3.0\n.target sm_20", ".version 6.0\n.target sm_30");
    let texts = std::iter::once(loops).chain((0..16).map(program));
    for (number, text) in texts.enumerate() {
        for functional in [false, true] {
            let (all, lines) = executed(&text, "mimd", functional);
            if !functional {
                assert_eq!(
                    lines.iter().map(|(_, lanes)| lanes).sum::<u64>(),
                    all,
                    "program {number}\n{text}"
                );
            }
            if number == 0 {
                // Of each eight threads one falls through at once, another after seven times.
                let taken = u64::from(THREADS / 8) * (1..8).sum::<u64>();
                let bra =
                    text.lines().position(|line| line == "@%p bra TOP;").expect("it is there") as u32 + 1;
                assert!(functional || lines.contains(&(bra, taken)), "{taken}: {lines:?}");
            }
            for policy in policies() {
                let what = format!("program {number} under {policy}, functional: {functional}\n{text}");
                assert_eq!(executed(&text, policy, functional), (all, lines.clone()), "{what}");
            }
        }
    }
}

fn first_and_end() -> (u64, u64) {
    let Ok(range) = std::env::var("WARPSIM_PROGRAMS") else { return (0, 120) };
    let (first, end) = range.split_once("..").expect("FIRST..END");
    (first.parse().expect("a number"), end.parse().expect("a number"))
}

#[test]
fn every_policy_runs_each_threads_own_control_flow() {
    let (first, end) = first_and_end();
    let one_sm = chip(|c| c.limits.num_processors = 1);
    let cleaned = chip(|c| {
        c.limits.num_processors = 1;
        c.assembler = AssemblerSpec::ALL;
    });
    let mut runs = 0u64;
    for seed in first..end {
        let text = program(seed);
        // Time shows other interleavings than turns do.
        let functional = seed % 4 != 0;
        let expected = results(&text, "mimd", functional, &one_sm)
            .unwrap_or_else(|e| panic!("program {seed} under mimd: {e}\n{text}"));
        for policy in policies() {
            let got = results(&text, policy, functional, &one_sm)
                .unwrap_or_else(|e| panic!("program {seed} under {policy}: {e}\n{text}"));
            if got != expected {
                let lane = (0..got.len()).find(|&i| got[i] != expected[i]);
                panic!("program {seed} under {policy} differs from thread {lane:?} on\n{text}");
            }
            runs += 1;
        }
        // What the clean-up pass leaves computes the same.
        for policy in ["mimd", "crs_stack", "convergence_barriers"] {
            let got = results(&text, policy, functional, &cleaned)
                .unwrap_or_else(|e| panic!("program {seed} cleaned up under {policy}: {e}\n{text}"));
            assert_eq!(got, expected, "program {seed} cleaned up under {policy}\n{text}");
        }
    }
    println!("{runs} runs");
    assert_eq!(runs, (end - first) * policies().len() as u64);
}
