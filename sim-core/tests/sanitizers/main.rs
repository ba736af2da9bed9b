//! Pairs of small programs, one faulty and one repaired: sanitizers tell each pair apart, timed on one and two
//! threads and functionally, and find the same on any number of threads. The programs are in the `.txt` files here.

#![allow(missing_docs, reason = "tests")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sim_core::context::Launch;
use sim_core::device::{Device, Options};
use sim_core::error::SimError;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::sanitizer::findings::{Kind, SanitizerReport};
use sim_core::sanitizer::{Finding, Kinds};
use sim_core::sm::scheduler::WarpScheduler;
use sim_frontend::chip::{ChipSpec, ClusterSpec};
use sim_frontend::diagnostic::Source;
use sim_frontend::isa_cost::IsaCosts;

const WORDS: u64 = 4096;

/// A tensor map at %x1 of 32 words at %x2, of the block, by the thread that uses it.
const MAP: &str = "mad.wide.u32 %x1, %b, 256, %out;\nadd.u64 %x2, %x1, 8192;\nadd.u64 %x1, %x1, 4096;\n\
    st.global.b64 [%x1+0], 0;\nst.global.b64 [%x1+8], 0;\nst.global.b64 [%x1+16], 0;\n\
    st.global.b64 [%x1+24], 0;\nst.global.b64 [%x1+32], 0;\nst.global.b64 [%x1+40], 0;\n\
    st.global.b64 [%x1+48], 0;\nst.global.b64 [%x1+56], 0;\nst.global.b64 [%x1+64], 0;\n\
    st.global.b64 [%x1+72], 0;\nst.global.b64 [%x1+80], 0;\nst.global.b64 [%x1+88], 0;\n\
    st.global.b64 [%x1+96], 0;\nst.global.b64 [%x1+104], 0;\nst.global.b64 [%x1+112], 0;\n\
    st.global.b64 [%x1+120], 0;\n\
    tensormap.replace.tile.rank.global.b1024.b32 [%x1], 0;\n\
    tensormap.replace.tile.global_address.global.b1024.b64 [%x1], %x2;\n\
    tensormap.replace.tile.global_dim.global.b1024.b32 [%x1], 0, 32;\n\
    tensormap.replace.tile.box_dim.global.b1024.b32 [%x1], 0, 32;\n\
    tensormap.replace.tile.element_stride.global.b1024.b32 [%x1], 0, 1;\n\
    tensormap.replace.tile.elemtype.global.b1024.b32 [%x1], 2;\n\
    fence.proxy.tensormap::generic.release.gpu;\nfence.proxy.tensormap::generic.acquire.gpu [%x1], 128;";

/// A program of a pair.
#[derive(Clone, Debug, Default)]
struct Program {
    name: String,
    /// `race`, `fault:RULE` …; empty where nothing is to be found.
    expected: String,
    body: String,
    grid: u32,
    block: u32,
    /// Blocks of a cluster, where it is launched with clusters.
    cluster: u32,
    /// Compute capability 2.0.
    old: bool,
    /// 10.0.
    newer: bool,
    /// 9.0, with its products of warpgroups.
    hopper: bool,
    streams: Vec<u32>,
    heap: bool,
}

impl Program {
    fn set(&mut self, word: &str) {
        let (key, value) = word.split_once('=').unwrap_or_else(|| panic!("{}: `{word}`", self.name));
        match key {
            "grid" => self.grid = value.parse().expect("a number"),
            "cluster" => self.cluster = value.parse().expect("a number"),
            "block" => self.block = value.parse().expect("a number"),
            "cc" => (self.old, self.newer, self.hopper) = (value == "2.0", value == "10.0", value == "9.0"),
            "streams" => self.streams = value.split(',').map(|s| s.parse().expect("a number")).collect(),
            "heap" => self.heap = value == "yes",
            _ => panic!("{}: `{word}`", self.name),
        }
    }

    /// The body with `$spin`, `$meet`, `$warp`, `$thread`, `$block`, `$map`, `$malloc` and `$free` written out.
    fn text(&self) -> String {
        let mut out = String::new();
        let (mut ends, mut labels) = (Vec::new(), 0);
        for line in self.body.lines() {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or("");
            labels += 1;
            let _ = match first {
                "$spin" => {
                    let value = words.next().expect("a value");
                    let rest = words.collect::<Vec<_>>().join(" ");
                    writeln!(out, "S{labels}:\n{rest}\nsetp.ne.u32 %p3, %r0, {value};\n@%p3 bra S{labels};")
                }
                "$warp" | "$thread" | "$block" => {
                    let number = words.next().expect("a number");
                    let of = &first[1..2];
                    ends.push(labels);
                    writeln!(out, "setp.ne.u32 %p3, %{of}, {number};\n@%p3 bra E{labels};")
                }
                "$meet" => writeln!(out, "barrier.cluster.arrive;\nbarrier.cluster.wait;"),
                "$map" => writeln!(out, "{MAP}"),
                "$end" => writeln!(out, "E{}:", ends.pop().expect("something to end")),
                "$malloc" => {
                    let (to, bytes) = (words.next().expect("a register"), words.next().expect("bytes"));
                    writeln!(
                        out,
                        "{{ .param .b64 s; .param .b64 v;\nst.param.b64 [s], {bytes};\n\
                         call.uni (v), malloc, (s);\nld.param.b64 {to}, [v]; }}"
                    )
                }
                "$free" => {
                    let of = words.next().expect("a register");
                    writeln!(out, "{{ .param .b64 s;\nst.param.b64 [s], {of};\ncall.uni free, (s); }}")
                }
                _ => writeln!(out, "{line}"),
            };
        }
        let head = match (self.old, self.cluster > 0) {
            _ if self.hopper => ".version 8.6\n.target sm_90a",
            _ if self.newer => ".version 8.6\n.target sm_100a",
            (true, _) => ".version 3.0\n.target sm_20",
            (false, true) => ".version 8.6\n.target sm_90a",
            (false, false) => ".version 8.0\n.target sm_90",
        };
        let peer = match self.cluster {
            0 | 1 => "",
            _ => {
                ".reg .u32 %peer, %pa, %pown, %pbar;\nmov.u32 %peer, %cluster_ctarank;\nxor.b32 %peer, %peer, 1;\n\
                 mapa.shared::cluster.u32 %pa, %a, %peer;\nmapa.shared::cluster.u32 %pown, %own, %peer;\n\
                 add.u32 %pbar, %pa, 768;\n"
            }
        };
        let externs = match self.heap {
            true => {
                ".extern .func (.param .b64 r) malloc (.param .b64 s);\n.extern .func free (.param .b64 s);\n"
            }
            false => "",
        };
        format!(
            "{head}\n.address_size 64\n{externs}.visible .entry k(.param .u64 p)\n{{\n\
             .reg .u32 %t, %b, %n, %w, %a, %own, %next, %i, %l, %r<10>;\n.reg .u16 %h<4>;\n\
             .reg .u64 %out, %gown, %gnext, %x<6>;\n.reg .pred %p<4>;\n\
             .shared .align 16 .b8 s[2048];\n.local .align 8 .b8 own_bytes[64];\n\
             ld.param.u64 %out, [p];\nmov.u32 %t, %tid.x;\nmov.u32 %b, %ctaid.x;\nmov.u32 %n, %ntid.x;\n\
             shr.u32 %w, %t, 5;\nmov.u32 %a, s;\nmov.u32 %l, own_bytes;\n\
             shl.b32 %i, %t, 2;\nadd.u32 %own, %a, %i;\nadd.u32 %i, %t, 1;\nrem.u32 %i, %i, %n;\n\
             shl.b32 %next, %i, 2;\nadd.u32 %next, %next, %a;\n\
             mad.lo.u32 %i, %b, %n, %i;\nmul.wide.u32 %gnext, %i, 4;\nadd.u64 %gnext, %gnext, %out;\n\
             mad.lo.u32 %i, %b, %n, %t;\nmul.wide.u32 %gown, %i, 4;\nadd.u64 %gown, %gown, %out;\n\
             {peer}{out}exit;\n}}\n"
        )
    }

    fn run(&self, functional: bool, threads: usize, kinds: Kinds) -> (Result<(), SimError>, SanitizerReport) {
        let (chip, costs) = match self.old {
            _ if self.hopper => {
                let costs = include_str!("../../../configs/isa/9.0.yaml");
                (("gh200.yaml", include_str!("../../../configs/chips/gh200.yaml")), costs)
            }
            true => {
                let costs = include_str!("../../../configs/isa/2.0.yaml");
                (("gtx480.yaml", include_str!("../../../configs/chips/gtx480.yaml")), costs)
            }
            false => {
                let costs = match self.newer {
                    true => include_str!("../../../configs/isa/10.0.yaml"),
                    false => include_str!("../../../configs/isa/7.0.yaml"),
                };
                (("v100.yaml", include_str!("../../../configs/chips/v100.yaml")), costs)
            }
        };
        let mut chip = ChipSpec::load(&Source::new(chip.0, chip.1)).expect("the shipped chip is right");
        chip.limits.num_processors = 2;
        if self.hopper {
            if let Some(cluster) = &mut chip.cluster {
                (cluster.gpcs, cluster.sms_per_tpc) = (1, 1);
            }
        } else if !self.old {
            chip.compute_capability = if self.newer { "10.0" } else { "9.0" }.into();
            chip.cluster = Some(ClusterSpec {
                gpcs: 1,
                sms_per_tpc: 1,
                max_blocks: 8,
                max_blocks_non_portable: 16,
                latency: 181,
                bytes_per_cycle: 20,
            });
        }
        let costs = IsaCosts::load(&Source::new("costs.yaml", costs)).expect("the shipped costs are right");
        let options = Options {
            threads,
            sanitize: kinds,
            max_cycles: Some(3_000_000),
            max_instructions: Some(3_000_000),
            schedule_dependent: true,
            ..Options::of(PolicyChoice::parse(&chip.default_policy).expect("a policy"), WarpScheduler::Gto)
        };
        let mut device = Device::new(Arc::new(chip), Arc::new(costs), options);
        let context = device.create_context();
        let text = self.text();
        if let Err(error) = device.load(context, &Source::new("t.ptx", &text), false) {
            panic!("{}: {error}\n{text}", self.name);
        }
        let out = device.context(context).expect("it exists").malloc("out", 4 * WORDS).expect("fits");
        for &stream in if self.streams.is_empty() { &[0][..] } else { &self.streams } {
            let launch = Launch {
                module: 0,
                entry: "k".into(),
                grid: [self.grid, 1, 1],
                block: [self.block, 1, 1],
                dynamic_shared: 0,
                stream,
                params: out.to_le_bytes().to_vec(),
                functional,
                cluster: (self.cluster > 0).then_some([self.cluster, 1, 1]),
                non_portable_cluster: false,
            };
            device.launch(context, &launch).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        }
        let result = device.synchronize(context, &AtomicBool::new(false), &|_, _, _| {});
        let report = device.context(context).expect("it exists").report();
        (result, report.sanitizers.expect("it was asked for"))
    }
}

/// Pairs of a file: faulty and repaired.
fn pairs(file: &str, text: &str) -> Vec<[Program; 2]> {
    let mut pairs: Vec<[Program; 2]> = Vec::new();
    let mut side = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("==") => {
                let name = format!("{file}/{}", words.next().expect("a name"));
                let mut program = Program { name, grid: 1, ..Program::default() };
                words.for_each(|word| program.set(word));
                pairs.push([program.clone(), program]);
            }
            Some("--") => {
                side = usize::from(words.next() == Some("good"));
                let program = &mut pairs.last_mut().expect("a pair")[side];
                if side == 0 {
                    program.expected = words.next().expect("what is found").to_string();
                }
                words.for_each(|word| program.set(word));
            }
            Some(_) => {
                let program = &mut pairs.last_mut().expect("a pair")[side];
                program.body.push_str(line);
                program.body.push('\n');
            }
            None => {}
        }
    }
    pairs
}

fn all() -> Vec<[Program; 2]> {
    [
        ("shared_races", include_str!("shared_races.txt")),
        ("global_races", include_str!("global_races.txt")),
        ("asynchronous", include_str!("asynchronous.txt")),
        ("clusters", include_str!("clusters.txt")),
        ("blackwell", include_str!("blackwell.txt")),
        ("misuse", include_str!("misuse.txt")),
        ("unwritten", include_str!("unwritten.txt")),
    ]
    .into_iter()
    .flat_map(|(file, text)| pairs(file, text))
    .collect()
}

/// The kind of `--check` for a program of a file: what others would find in it is not told here.
fn kinds(name: &str) -> Kinds {
    let mut kinds = Kinds::default();
    kinds.add(match name.split('/').next() {
        Some("misuse") => "sync",
        Some("unwritten") => "init",
        _ => "races",
    });
    kinds
}

/// The kinds of a report, as reports write them: `DivergentBarrier` is `divergent_barrier`.
fn names(report: &SanitizerReport) -> BTreeSet<String> {
    let name = |finding: &Finding| {
        let mut name = String::new();
        for (i, letter) in format!("{:?}", finding.kind).chars().enumerate() {
            if i > 0 && letter.is_uppercase() {
                name.push('_');
            }
            name.extend(letter.to_lowercase());
        }
        name
    };
    report.findings.iter().map(name).collect()
}

#[test]
fn san_findings_each_pair_is_told_apart() {
    let pairs = all();
    assert!(pairs.len() >= 60, "{} pairs", pairs.len());
    let mut wrong = Vec::new();
    for program in pairs.iter().flatten() {
        let kinds = kinds(&program.name);
        let runs = [(false, 1), (false, 2), (true, 1)]
            .map(|(functional, threads)| program.run(functional, threads, kinds));
        for (mode, (result, report)) in ["timed", "two threads", "functional"].iter().zip(&runs) {
            let fault = match result {
                Ok(()) => String::new(),
                Err(SimError::Stopped(fault)) => format!("fault:{}", fault.rule),
                Err(other) => other.to_string(),
            };
            let found = names(report);
            let expected = match program.expected.as_str() {
                "" => fault.is_empty() && found.is_empty(),
                words if words.starts_with("fault:") => fault == words,
                kind => fault.is_empty() && found.len() == 1 && found.contains(kind),
            };
            if !expected {
                let told: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
                let told = told.join("\n");
                let Program { name, expected, .. } = program;
                wrong.push(format!("{name} ({mode}): expected `{expected}`, not {found:?} {fault}\n{told}"));
            }
        }
        if runs[0].1 != runs[1].1 {
            wrong.push(format!("{}: two threads find something else", program.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {} programs:\n{}", wrong.len(), 2 * pairs.len(), wrong.join("\n\n"));
}

/// A repaired program has nothing of another kind either, where it is complete.
#[test]
fn san_races_and_san_init_do_not_depend_on_each_other() {
    for [bad, _] in all() {
        if bad.expected.starts_with("fault") {
            continue;
        }
        let alone = bad.run(false, 1, kinds(&bad.name)).1;
        let together = bad.run(false, 1, Kinds::ALL).1;
        let of = |report: &SanitizerReport| -> Vec<Finding> {
            let kind = kinds(&bad.name).names()[0];
            report.findings.iter().filter(|finding| finding.kind.check() == kind).cloned().collect()
        };
        assert_eq!(of(&alone), of(&together), "{}", bad.name);
    }
}

#[test]
fn san_races_names_both_accesses_and_their_last_synchronizations() {
    let program = Program {
        name: "told".into(),
        grid: 2,
        block: 64,
        body:
            "st.shared.u32 [%own], %t;\nbar.sync 0;\nld.shared.u32 %r1, [%next];\nst.shared.u32 [%own], %t;\n"
                .into(),
        ..Program::default()
    };
    let text = program.text();
    let line = |words: &str| text.lines().position(|line| line == words).expect("a line") as u32 + 1;
    let mut races = Kinds::default();
    races.add("races");
    let (result, report) = program.run(false, 1, races);
    result.expect("it comes to its end");
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.kind, finding.space), (Kind::Race, Some("shared")));
    // Each thread of two blocks races with one neighbour.
    assert_eq!(finding.count, 128);
    let [load, store] = &finding.accesses[..] else { panic!("{:?}", finding.accesses) };
    assert_eq!((load.kind, store.kind), ("load", "store"));
    assert_eq!(load.place.line, line("ld.shared.u32 %r1, [%next];"));
    assert_eq!(&*store.place.instruction, "st.shared.u32 [%own], %t");
    assert_ne!(load.place.thread, store.place.thread);
    let last = load.last_synchronization.as_ref().expect("the barrier");
    assert_eq!((last.line, &*last.instruction), (line("bar.sync 0;"), "bar.sync 0"));
    assert_eq!(report.threads_of_a_warp, "independent");
    assert_eq!(report.forgotten, 0);
}

#[test]
fn san_sync_names_the_thread_that_arrived_and_the_object() {
    let pairs = all();
    let program = |name: &str| {
        let found = pairs.iter().flatten().find(|program| program.name == format!("misuse/{name}"));
        found.expect("a program").run(true, 1, Kinds::ALL).1
    };
    let of = |name: &str, kind: Kind| {
        let report = program(name);
        report.findings.into_iter().find(|finding| finding.kind == kind).expect("it is found")
    };
    let left = of("arrival_without_a_barrier", Kind::BarrierIncomplete);
    assert_eq!(&*left.accesses[0].place.instruction, "bar.arrive 2, 64");
    let stored = of("store_to_an_object", Kind::MbarrierOverwritten);
    assert_eq!((stored.space, stored.address), (Some("shared"), Some(0)));
    let product = of("product_of_what_threads_stored", Kind::ProxyNotFenced);
    assert_eq!((product.space, product.address), (Some("shared"), Some(0)));
    assert!(product.accesses[0].place.instruction.starts_with("wgmma.mma_async"), "{:?}", product.accesses);
    assert_eq!(&*product.accesses[1].place.instruction, "st.shared.u32 [%own], %t");
    let twice = of("object_made_twice", Kind::MbarrierReinitialized);
    assert_eq!(&*twice.accesses[0].place.instruction, "mbarrier.init.shared.b64 [%a], 2");
}

#[test]
fn san_leaks_counts_allocations_and_bytes() {
    let mut init = Kinds::default();
    init.add("init");
    let program = Program {
        name: "leaks".into(),
        grid: 2,
        block: 32,
        heap: true,
        body: "$malloc %x1 40\n$malloc %x2 4\n$free %x2\n".into(),
        ..Program::default()
    };
    for functional in [false, true] {
        let (result, report) = program.run(functional, 1, init);
        result.expect("it comes to its end");
        let [leak] = &report.findings[..] else { panic!("{:?}", report.findings) };
        // 40 bytes and a header of 16 take 64.
        assert_eq!((leak.kind, leak.count), (Kind::Leak, 64));
        assert!(leak.message.contains("64 allocations, 3072 bytes"), "{}", leak.message);
    }
}

/// What is forgotten is said.
#[test]
fn san_races_says_what_it_forgets() {
    let program = Program {
        name: "forgets".into(),
        grid: 64,
        block: 32,
        body: "ld.global.u32 %r1, [%out];\n".into(),
        ..Program::default()
    };
    let mut races = Kinds::default();
    races.add("races");
    let (_, report) = program.run(true, 1, races);
    assert_eq!(report.forgotten, 64 - 48);
    assert!(report.findings.is_empty());
}
