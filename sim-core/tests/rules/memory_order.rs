//! What PTX's memory model orders through acquire and release is ordered on every chip of compute
//! capability 7.0 and later, under every protocol and at every scope, whatever the timing; what it
//! leaves unordered stays so. Litmus tests after MM §3 and the literature on weak memory.

use std::sync::Arc;

use sim_core::device::Options;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;
use sim_memory::programs::Protocol;

use crate::machine::{Run, device_with};

/// Instances of a test in one launch, each with timings of its own.
const INSTANCES: u32 = 24;

/// Words of memory of an instance: its variables `x`, `y`, `z`, in lines of their own.
const ROOM: u32 = 512;

/// Byte offsets of the variables.
const VARIABLES: [(&str, u32); 3] = [("x", 0), ("y", 512), ("z", 1280)];

/// Words that an instance's threads leave their registers in.
const RESULTS: u32 = 8;

/// A litmus test.
struct Litmus {
    name: &'static str,
    /// By thread: its block and its instructions. Threads of one block are in warps of their own.
    /// `[x]` stands for the global variable, `[sx]` for one in shared memory, `%v0` … for registers.
    threads: &'static [(u32, &'static str)],
    /// Whether the outcome must not be seen: registers `%v0` …, then the final values of `x`, `y`, `z`.
    outcome: fn(&[u32], &[u32]) -> bool,
}

/// A chip with few SMs, so that blocks of an instance also share one.
fn chip(protocol: Protocol) -> Arc<ChipSpec> {
    let text = include_str!("../../../configs/chips/v100.yaml");
    let mut chip = ChipSpec::load(&Source::new("v100.yaml", text)).expect("the shipped chip is right");
    chip.limits.num_processors = 5;
    chip.memory.protocol = protocol;
    Arc::new(chip)
}

/// The module of a test: `seed` chooses the timings, scope stands for `SCOPE`.
fn module(test: &Litmus, scope: &str, seed: u32) -> String {
    let blocks = test.threads.iter().map(|(block, _)| block + 1).max().unwrap_or(1);
    let mut body = String::new();
    for (i, (block, _)) in test.threads.iter().enumerate() {
        let warp = test.threads[..i].iter().filter(|(other, _)| other == block).count();
        body += &format!(
            "setp.eq.u32 %p, %block, {block};\nsetp.eq.u32 %q, %warp, {warp};\nand.pred %p, %p, %q;\n@%p bra T{i};\n"
        );
    }
    body += "bra NOISE;\n";
    // The other lanes of the warps that meet at a barrier arrive there and end.
    let others = if test.threads.iter().any(|(_, code)| code.contains("bar.sync")) {
        "setp.ne.u32 %q, %block, 0;\nsetp.gt.or.u32 %q, %warp, 1, %q;\n@%q exit;\nbar.sync 1, 64;\n"
    } else {
        ""
    };
    for (i, (_, code)) in test.threads.iter().enumerate() {
        let mut code = code.replace("SCOPE", scope);
        for (name, offset) in VARIABLES {
            code = code.replace(&format!("[{name}]"), &format!("[%base+{offset}]"));
            code = code.replace(&format!("[s{name}]"), &format!("[room+{offset}]"));
        }
        let results: String = (0..RESULTS)
            .filter(|r| code.contains(&format!(" %v{r},")))
            .map(|r| format!("st.global.u32 [%res+{}], %v{r};\n", 4 * r))
            .collect();
        // A load of other bytes of a variable's line, whose value nobody awaits, holds up what follows
        // on that line, and on no other.
        let pending = match seed.wrapping_add(i as u32) % 4 {
            0 => "",
            1 => "ld.global.u32 %k, [%base+96];\n",
            2 => "ld.global.u32 %k, [%base+608];\n",
            _ => "ld.global.u32 %k, [%base+1376];\n",
        };
        // Some threads find the variables in L1; all begin together, but for a delay.
        body += &format!(
            "T{i}:\nmad.lo.u32 %h, %inst, {a}, {b};\nmul.lo.u32 %h, %h, 1664525;\nadd.u32 %h, %h, 1013904223;\n\
             shr.u32 %h, %h, 11;\nand.b32 %k, %h, 1;\nsetp.eq.u32 %p, %k, 0;\n@%p bra W{i};\n\
             ld.global.u32 %k, [%base];\nadd.u32 %sum, %sum, %k;\nld.global.u32 %k, [%base+512];\n\
             add.u32 %sum, %sum, %k;\nld.global.u32 %k, [%base+1280];\nadd.u32 %sum, %sum, %k;\n\
             W{i}:\nred.relaxed.gpu.global.add.u32 [%go], 1;\n\
             S{i}: ld.relaxed.gpu.global.u32 %k, [%go];\nsetp.ne.u32 %p, %k, {n};\n@%p bra S{i};\n\
             shr.u32 %h, %h, 4;\nand.b32 %h, %h, 63;\n\
             D{i}: setp.eq.u32 %p, %h, 0;\n@%p bra E{i};\nsub.u32 %h, %h, 1;\nbra D{i};\nE{i}:\n\
             {pending}{code}{results}setp.eq.u32 %p, %sum, 12345;\n@%p st.global.u32 [%res], %sum;\nexit;\n",
            a = 2 * (seed + 7 * i as u32) + 1,
            b = seed.wrapping_mul(0x9e37_79b9).wrapping_add(0x1234_5678 * i as u32),
            n = test.threads.len(),
        );
    }
    // The last warp of each block keeps lines of one variable busy, or reads into L1.
    format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n\
         .visible .entry k(.param .u64 p)\n{{\n.reg .u32 %v<8>, %h, %k, %sum, %inst, %block, %warp, %t;\n\
         .reg .u64 %base, %res, %go, %o, %w;\n.reg .pred %p, %q;\n.shared .align 8 .b8 room[2048];\n\
         ld.param.u64 %o, [p];\nmov.u32 %t, %ctaid.x;\ndiv.u32 %inst, %t, {blocks};\nrem.u32 %block, %t, {blocks};\n\
         mov.u32 %t, %tid.x;\nshr.u32 %warp, %t, 5;\nmov.u32 %sum, 0;\n\
         mul.wide.u32 %w, %inst, {room};\nadd.u64 %base, %o, %w;\n\
         mul.wide.u32 %w, %inst, {results};\nadd.u64 %res, %o, %w;\nadd.u64 %res, %res, {results_at};\n\
         mul.wide.u32 %w, %inst, 4;\nadd.u64 %go, %o, %w;\nadd.u64 %go, %go, {go_at};\n\
         and.b32 %k, %t, 31;\nsetp.ne.u32 %p, %k, 0;\nsetp.ne.u32 %q, %warp, 3;\nand.pred %p, %p, %q;\n@%p bra OTHERS;\n\
         {body}\
         OTHERS:\n{others}exit;\n\
         NOISE:\nsetp.ne.u32 %p, %warp, 3;\n@%p exit;\nadd.u32 %h, %inst, {seed};\nrem.u32 %h, %h, 5;\n\
         setp.eq.u32 %p, %h, 0;\n@%p exit;\nmov.u32 %t, 0;\n\
         mul.wide.u32 %w, %h, 512;\nsub.u64 %w, %w, 512;\nsetp.eq.u32 %p, %h, 3;\n@%p mov.u64 %w, 1280;\nadd.u64 %w, %w, %base;\n\
         setp.eq.u32 %q, %h, 4;\n\
         N: @%q ld.global.u32 %k, [%base];\n@%q ld.global.u32 %k, [%base+512];\n@%q ld.global.u32 %k, [%base+1280];\n\
         @!%q red.relaxed.gpu.global.add.u32 [%w+64], 1;\n\
         add.u32 %t, %t, 1;\nsetp.lt.u32 %p, %t, 40;\n@%p bra N;\nexit;\n}}\n",
        room = 4 * ROOM,
        results = 4 * RESULTS,
        results_at = 4 * ROOM * INSTANCES,
        go_at = 4 * (ROOM + RESULTS) * INSTANCES,
    )
}

/// How many of the instances of a test show its outcome.
fn seen(test: &Litmus, scope: &str, protocol: Protocol, seed: u32) -> usize {
    let policy = ["convergence_barriers", "multi_path", "mimd"][seed as usize % 3];
    let device = device_with(chip(protocol), policy, |o| Options {
        allow_newer_isa: true,
        schedule_dependent: true,
        ..o
    });
    let text = module(test, scope, seed);
    let words = (ROOM + RESULTS + 1) * INSTANCES;
    let mut run = Run::new(device, &text, false, words as usize);
    let blocks = test.threads.iter().map(|(block, _)| block + 1).max().unwrap_or(1);
    run.launch(blocks * INSTANCES, 128, false).expect("it fits");
    run.wait().unwrap_or_else(|e| panic!("{} .{scope} {protocol:?}: {e}\n{text}", test.name));
    let words = run.words();
    (0..INSTANCES as usize)
        .filter(|i| {
            let room = &words[i * ROOM as usize..];
            let finals = VARIABLES.map(|(_, offset)| room[offset as usize / 4]);
            let results = &words[(ROOM * INSTANCES) as usize + i * RESULTS as usize..][..RESULTS as usize];
            (test.outcome)(results, &finals)
        })
        .count()
}

/// A test is named, its threads with their blocks, and its outcome.
macro_rules! litmus {
    ($name:literal, [$($thread:expr),+], $outcome:expr) => {
        Litmus { name: $name, threads: &[$($thread),+], outcome: $outcome }
    };
}

/// Outcomes that are forbidden where `SCOPE` holds all threads: `B` is the block of the second.
macro_rules! forbidden {
    ($b:literal, $c:literal) => {
        [
            litmus!("MP", [
                (0, "st.weak.global.u32 [x], 1;\nst.release.SCOPE.global.u32 [y], 1;\n"),
                ($b, "ld.acquire.SCOPE.global.u32 %v0, [y];\nld.weak.global.u32 %v1, [x];\n")
            ], |v, _| v[..2] == [1, 0]),
            litmus!("MP by generic addresses", [
                (0, "cvta.global.u64 %w, %base;\nst.weak.u32 [%w], 1;\nst.release.SCOPE.u32 [%w+512], 1;\n"),
                ($b, "cvta.global.u64 %w, %base;\nld.acquire.SCOPE.u32 %v0, [%w+512];\nld.weak.u32 %v1, [%w];\n")
            ], |v, _| v[..2] == [1, 0]),
            litmus!("MP by atomics", [
                (0, "st.weak.global.u32 [x], 1;\natom.acq_rel.SCOPE.global.exch.b32 %v7, [y], 1;\n"),
                ($b, "atom.acq_rel.SCOPE.global.add.u32 %v0, [y], 0;\nld.weak.global.u32 %v1, [x];\n")
            ], |v, _| v[..2] == [1, 0]),
            litmus!("MP by atom.release and atom.acquire", [
                (0, "st.weak.global.u32 [x], 1;\natom.release.SCOPE.global.exch.b32 %v7, [y], 1;\n"),
                ($b, "atom.acquire.SCOPE.global.cas.b32 %v0, [y], 5, 6;\nld.weak.global.u32 %v1, [x];\n")
            ], |v, _| v[..2] == [1, 0]),
            litmus!("MP by red.release, of an atomic", [
                (0, "red.relaxed.SCOPE.global.add.u32 [x], 1;\nred.release.SCOPE.global.add.u32 [y], 1;\n"),
                ($b, "ld.acquire.SCOPE.global.u32 %v0, [y];\nld.weak.global.u32 %v1, [x];\n")
            ], |v, _| v[..2] == [1, 0]),
            litmus!("SB by atomics", [
                (0, "atom.acq_rel.SCOPE.global.exch.b32 %v7, [x], 1;\natom.acq_rel.SCOPE.global.add.u32 %v0, [y], 0;\n"),
                ($b, "atom.acq_rel.SCOPE.global.exch.b32 %v7, [y], 1;\natom.acq_rel.SCOPE.global.add.u32 %v1, [x], 0;\n")
            ], |v, _| v[..2] == [0, 0]),
            litmus!("LB", [
                (0, "ld.acquire.SCOPE.global.u32 %v0, [x];\nst.release.SCOPE.global.u32 [y], 1;\n"),
                ($b, "ld.acquire.SCOPE.global.u32 %v1, [y];\nst.release.SCOPE.global.u32 [x], 1;\n")
            ], |v, _| v[..2] == [1, 1]),
            litmus!("S", [
                (0, "st.weak.global.u32 [x], 2;\nst.release.SCOPE.global.u32 [y], 1;\n"),
                ($b, "ld.acquire.SCOPE.global.u32 %v0, [y];\nst.weak.global.u32 [x], 1;\n")
            ], |v, last| v[0] == 1 && last[0] == 2),
            litmus!("WRC", [
                (0, "st.relaxed.SCOPE.global.u32 [x], 1;\n"),
                ($b, "ld.relaxed.SCOPE.global.u32 %v0, [x];\nst.release.SCOPE.global.u32 [y], 1;\n"),
                ($c, "ld.acquire.SCOPE.global.u32 %v1, [y];\nld.weak.global.u32 %v2, [x];\n")
            ], |v, _| v[..3] == [1, 1, 0]),
            litmus!("ISA2", [
                (0, "st.weak.global.u32 [x], 1;\nst.release.SCOPE.global.u32 [y], 1;\n"),
                ($b, "ld.acquire.SCOPE.global.u32 %v0, [y];\nst.release.SCOPE.global.u32 [z], 1;\n"),
                ($c, "ld.acquire.SCOPE.global.u32 %v1, [z];\nld.weak.global.u32 %v2, [x];\n")
            ], |v, _| v[..3] == [1, 1, 0]),
            litmus!("CoRR", [
                (0, "st.relaxed.SCOPE.global.u32 [x], 1;\n"),
                ($b, "ld.relaxed.SCOPE.global.u32 %v0, [x];\nld.weak.global.u32 %v1, [x];\n")
            ], |v, _| v[..2] == [1, 0]),
        ]
    };
}

/// Those of device scope across blocks.
const APART: [Litmus; 11] = forbidden!(1, 2);

/// Those of block scope within one.
const TOGETHER: [Litmus; 11] = forbidden!(0, 0);

/// The first two threads meet at block level, the third learns of it at device level; flags and
/// data in shared memory.
const MIXED: [Litmus; 7] = [
    litmus!(
        "ISA2 through a block",
        [
            (0, "st.weak.global.u32 [x], 1;\nst.release.cta.global.u32 [y], 1;\n"),
            (0, "ld.acquire.cta.global.u32 %v0, [y];\nst.release.gpu.global.u32 [z], 1;\n"),
            (1, "ld.acquire.gpu.global.u32 %v1, [z];\nld.weak.global.u32 %v2, [x];\n")
        ],
        |v, _| v[..3] == [1, 1, 0]
    ),
    litmus!(
        "ISA2 through a block, by fences",
        [
            (0, "st.weak.global.u32 [x], 1;\nfence.acq_rel.cta;\nst.relaxed.cta.global.u32 [y], 1;\n"),
            (
                0,
                "ld.relaxed.cta.global.u32 %v0, [y];\nfence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [z], 1;\n"
            ),
            (1, "ld.relaxed.gpu.global.u32 %v1, [z];\nfence.acq_rel.gpu;\nld.weak.global.u32 %v2, [x];\n")
        ],
        |v, _| v[..3] == [1, 1, 0]
    ),
    litmus!(
        "WRC through a block",
        [
            (0, "st.relaxed.cta.global.u32 [x], 1;\n"),
            (0, "ld.relaxed.cta.global.u32 %v0, [x];\nst.release.gpu.global.u32 [y], 1;\n"),
            (1, "ld.acquire.gpu.global.u32 %v1, [y];\nld.weak.global.u32 %v2, [x];\n")
        ],
        |v, _| v[..3] == [1, 1, 0]
    ),
    litmus!(
        "MP behind a barrier of the block",
        [
            (0, "st.weak.global.u32 [x], 1;\nbar.sync 1, 64;\n"),
            (0, "bar.sync 1, 64;\nst.release.gpu.global.u32 [y], 1;\n"),
            (1, "ld.acquire.gpu.global.u32 %v0, [y];\nld.weak.global.u32 %v1, [x];\n")
        ],
        |v, _| v[..2] == [1, 0]
    ),
    litmus!(
        "MP behind a barrier of the block, by membar.gl",
        [
            (0, "st.weak.global.u32 [x], 1;\nbar.sync 1, 64;\n"),
            (0, "bar.sync 1, 64;\nmembar.gl;\nred.relaxed.gpu.global.add.u32 [y], 1;\n"),
            (1, "ld.relaxed.gpu.global.u32 %v0, [y];\nmembar.gl;\nld.weak.global.u32 %v1, [x];\n")
        ],
        |v, _| v[..2] == [1, 0]
    ),
    litmus!(
        "MP by a flag in shared memory",
        [
            (0, "st.weak.global.u32 [x], 1;\nst.release.cta.shared.u32 [sy], 1;\n"),
            (0, "ld.acquire.cta.shared.u32 %v0, [sy];\nld.weak.global.u32 %v1, [x];\n")
        ],
        |v, _| v[..2] == [1, 0]
    ),
    litmus!(
        "MP of data in shared memory",
        [
            (0, "st.shared.u32 [sx], 1;\nst.release.cta.global.u32 [y], 1;\n"),
            (0, "ld.acquire.cta.global.u32 %v0, [y];\nld.shared.u32 %v1, [sx];\n")
        ],
        |v, _| v[..2] == [1, 0]
    ),
];

/// What the model leaves unordered.
const ALLOWED: [Litmus; 3] = [
    litmus!(
        "MP, weak",
        [
            (0, "st.weak.global.u32 [x], 1;\nst.relaxed.gpu.global.u32 [y], 1;\n"),
            (1, "ld.relaxed.gpu.global.u32 %v0, [y];\nld.weak.global.u32 %v1, [x];\n")
        ],
        |v, _| v[..2] == [1, 0]
    ),
    litmus!(
        "MP, released only",
        [
            (0, "st.weak.global.u32 [x], 1;\nst.release.gpu.global.u32 [y], 1;\n"),
            (1, "ld.relaxed.gpu.global.u32 %v0, [y];\nld.weak.global.u32 %v1, [x];\n")
        ],
        |v, _| v[..2] == [1, 0]
    ),
    litmus!(
        "MP between blocks, of block scope",
        [
            (0, "st.weak.global.u32 [x], 1;\nst.release.cta.global.u32 [y], 1;\n"),
            (1, "ld.acquire.cta.global.u32 %v0, [y];\nld.weak.global.u32 %v1, [x];\n")
        ],
        |v, _| v[..2] == [1, 0]
    ),
];

fn never(tests: &[Litmus], scope: &str, seeds: u32) {
    for test in tests {
        for protocol in [Protocol::Volta, Protocol::Fermi, Protocol::Thesis, Protocol::Tesla] {
            // Volta's is the protocol of every shipped chip of these compute capabilities.
            let seeds = if protocol == Protocol::Volta { seeds } else { 1 };
            for seed in 0..seeds {
                let found = seen(test, scope, protocol, seed);
                assert_eq!(found, 0, "{} .{scope} under {protocol:?}, seed {seed}", test.name);
            }
        }
    }
}

#[test]
fn acquire_and_release_of_device_scope_order_blocks() {
    never(&APART, "gpu", 4);
    never(&APART[..1], "sys", 1);
}

#[test]
fn acquire_and_release_of_block_scope_order_warps() {
    never(&TOGETHER, "cta", 4);
}

#[test]
fn what_a_block_has_observed_is_released_with_it() {
    never(&MIXED, "", 4);
}

#[test]
fn what_is_not_ordered_is_seen_out_of_order() {
    for test in &ALLOWED {
        let found: usize = (0..6).map(|seed| seen(test, "", Protocol::Volta, seed)).sum();
        assert!(found > 0, "{}", test.name);
    }
}

/// A fence of device scope waits for the writes that other threads of its block have begun, which
/// its thread may have observed, and so does a release; those of block scope do not.
#[test]
fn what_a_block_has_written_is_awaited_by_fences_and_releases_of_device_scope() {
    let cycles = |operation: &str| {
        // Warp 1 writes, warp 0 measures from the barrier behind that.
        let text = format!(
            ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
             .reg .u32 %t, %a, %b;\n.reg .u64 %o;\n.reg .pred %p;\nld.param.u64 %o, [p];\nmov.u32 %t, %tid.x;\n\
             setp.lt.u32 %p, %t, 32;\n@%p bra MEASURE;\nred.relaxed.gpu.global.add.u32 [%o+64], 1;\n\
             red.relaxed.gpu.global.add.u32 [%o+64], 1;\nbar.sync 0;\nexit;\n\
             MEASURE:\nbar.sync 0;\nmov.u32 %a, %clock;\n{operation}\nmov.u32 %b, %clock;\nsub.u32 %b, %b, %a;\n\
             st.global.u32 [%o], %b;\nexit;\n}}\n"
        );
        let device = device_with(chip(Protocol::Volta), "convergence_barriers", |o| Options {
            allow_newer_isa: true,
            ..o
        });
        let mut run = Run::new(device, &text, false, 32);
        run.launch(1, 64, false).expect("it fits");
        run.wait().unwrap_or_else(|e| panic!("{operation}: {e}"));
        run.words()[0]
    };
    // An access to L2 and back takes some 200 cycles.
    for operation in ["membar.gl;", "fence.acq_rel.gpu;", "st.release.gpu.global.u32 [%o+32], 1;"] {
        let found = cycles(operation);
        assert!(found > 150, "{operation}: {found} cycles");
    }
    for operation in ["membar.cta;", "fence.acq_rel.cta;", "st.release.cta.global.u32 [%o+32], 1;"] {
        let found = cycles(operation);
        assert!(found < 50, "{operation}: {found} cycles");
    }
}
