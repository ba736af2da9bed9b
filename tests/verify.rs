//! `warpsim verify sync`: the verdict on each kernel of `workloads/barriers`, on others of the suite, and on small
//! PTX kernels; exit statuses, JSON, determinism.

#![allow(missing_docs, reason = "tests")]

mod common;

use common::{Folder, json, warpsim};
use serde_json::Value;

fn verify(args: &[&str]) -> (i32, Value, String) {
    let output = warpsim(&[&["verify", "sync"], args, &["--json"]].concat());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code().unwrap_or(-1);
    let report = if output.stdout.is_empty() { Value::Null } else { json(&output) };
    (code, report, words)
}

/// The kinds of findings by a view, in order.
fn kinds(report: &Value, view: &str) -> Vec<String> {
    let launches = report["launches"].as_array().expect("launches").iter();
    let programs = launches.flat_map(|launch| launch["programs"].as_array().expect("programs"));
    let views = programs.flat_map(|program| program["views"].as_array().expect("views"));
    let mut kinds: Vec<String> = views
        .filter(|v| v["view"] == view)
        .flat_map(|v| v["findings"].as_array().expect("findings"))
        .map(|finding| finding["kind"].as_str().expect("a kind").to_string())
        .collect();
    kinds.dedup();
    kinds
}

/// A kernel, what is wrong with it for independent threads, and for warps in lockstep.
type Case = (&'static str, &'static [&'static str], &'static [&'static str]);

const KERNELS: &[Case] = &[
    ("dma_double", &[], &[]),
    ("dma_double_early", &["race"], &["race"]),
    ("dma_triple", &[], &[]),
    ("dma_triple_early", &["race"], &["race"]),
    ("dma_ring", &[], &[]),
    ("dma_ring_missing", &["deadlock"], &["deadlock"]),
    ("chain", &[], &[]),
    ("chain_swapped", &["deadlock"], &["deadlock"]),
    ("chain_count", &["count_mismatch"], &["count_mismatch"]),
    ("dataflow", &[], &[]),
    ("dataflow_unsafe", &["unsafe_recycling"], &["unsafe_recycling"]),
    ("ring", &[], &[]),
    ("ring_order", &["deadlock"], &["deadlock"]),
    ("exchange", &[], &[]),
    ("exchange_order", &["deadlock"], &["deadlock"]),
    ("warp_synchronized", &[], &[]),
    ("warp_synchronous", &["race"], &[]),
];

#[test]
fn every_kernel_of_barriers_has_its_verdict_on_both_kinds_of_warps() {
    for (name, threads, lockstep) in KERNELS {
        for (variant, chip, own) in [("sm_52", "gtx980", lockstep), ("sm_90", "gh200", threads)] {
            let (code, report, words) = verify(&[name, "--variant", variant, "--chip", chip]);
            let context = format!("{name} {variant}: {report:#} {words}");
            assert_eq!(kinds(&report, "threads"), *threads, "{context}");
            assert_eq!(kinds(&report, "lockstep"), *lockstep, "{context}");
            assert_eq!(report["verdict"], if own.is_empty() { "verified" } else { "finding" }, "{context}");
            assert_eq!(code, if own.is_empty() { 0 } else { 3 }, "{context}");
            let launch = &report["launches"][0];
            if own.is_empty() {
                assert_eq!(
                    launch["programs"].as_array().map(Vec::len),
                    Some(1),
                    "blocks are alike: {context}"
                );
            }
            assert_eq!(launch["programs"][0]["block"].to_string(), "[0,0,0]", "{context}");
            if *name == "dataflow" {
                assert!(launch["depends"].is_null(), "nothing that is stored decides: {context}");
            }
        }
    }
    let listed = json(&warpsim(&["workloads", "--json"]));
    let here = listed.as_array().expect("a list").iter();
    let here = here.filter(|w| w["folder"].as_str().is_some_and(|folder| folder.contains("barriers/")));
    let names: Vec<&str> = here.filter_map(|w| w["name"].as_str()).collect();
    assert_eq!(names.len(), KERNELS.len());
    assert!(KERNELS.iter().all(|(name, ..)| names.contains(name)));
}

/// Of `workloads/pipelines`: a kernel, what is wrong with it, and whether it has PTX for sm_80.
const PIPELINES: &[(&str, &[&str], bool)] = &[
    ("phase_ring", &[], true),
    ("phase_ring_parity", &["deadlock"], true),
    ("phase_ring_ahead", &["deadlock"], true),
    ("phase_ring_few", &["deadlock"], true),
    ("phase_ring_many", &["wrong_phase"], true),
    ("phase_ring_at_once", &["barrier_misuse"], true),
    ("phase_anew", &[], true),
    ("phase_anew_in_use", &["barrier_misuse"], true),
    ("phase_state", &[], true),
    ("phase_state_stale", &["wrong_phase"], true),
    ("copy_double", &[], true),
    ("copy_double_group", &["race"], true),
    ("copy_double_uncommitted", &["race"], true),
    ("copy_double_reused", &["race"], true),
    ("copy_ring", &[], true),
    ("copy_ring_plain", &["race"], true),
    ("bulk_ring", &[], false),
    ("bulk_ring_bytes", &["deadlock"], false),
    ("bulk_ring_ahead", &["deadlock"], false),
    ("bulk_ring_late", &["race"], false),
    ("cluster_split", &[], false),
    ("cluster_split_early", &["race"], false),
    ("warp_halves", &[], true),
    ("warp_halves_apart", &["race"], true),
];

#[test]
fn every_kernel_of_pipelines_has_its_verdict() {
    for (name, wrong, old) in PIPELINES {
        for (variant, chip) in [("sm_80", "a100"), ("sm_90", "gh200")] {
            if variant == "sm_80" && !old {
                continue;
            }
            let (code, report, words) = verify(&[name, "--variant", variant, "--chip", chip]);
            let context = format!("{name} {variant}: {report:#} {words}");
            assert_eq!(kinds(&report, "threads"), *wrong, "{context}");
            assert_eq!(code, if wrong.is_empty() { 0 } else { 3 }, "{context}");
            let launch = &report["launches"][0];
            assert!(launch["depends"].is_null(), "nothing that is stored decides: {context}");
            // A finding leads to lines of both sources, and says why, or how to come there.
            let views = launch["programs"][0]["views"].as_array().expect("views");
            for finding in views.iter().flat_map(|view| view["findings"].as_array().expect("findings")) {
                let acts = finding["acts"].as_array().expect("acts");
                assert!(!acts.is_empty(), "{context}");
                for act in acts {
                    assert!(act["place"]["line"].as_u64().is_some_and(|line| line > 20), "{context}");
                    let source = act["place"]["source"].as_str().expect("a line of CUDA");
                    assert!(source.starts_with("pipelines.cu:"), "{context}");
                }
                assert!(finding["why"].is_array() || finding["schedule"].is_array(), "{context}");
            }
        }
    }
    let listed = json(&warpsim(&["workloads", "--json"]));
    let here = listed.as_array().expect("a list").iter();
    let here = here.filter(|w| w["folder"].as_str().is_some_and(|folder| folder.contains("pipelines/")));
    let names: Vec<&str> = here.filter_map(|w| w["name"].as_str()).collect();
    assert_eq!(names.len(), PIPELINES.len());
    assert!(PIPELINES.iter().all(|(name, ..)| names.contains(name)));
}

#[test]
fn right_kernels_of_pipelines_compute_what_they_should_functionally_and_timed() {
    for (name, wrong, _) in PIPELINES {
        for mode in [&["--functional"][..], &["--check", "full"]] {
            if wrong.is_empty() {
                let output = warpsim(
                    &[&["run", name, "--variant", "sm_90", "--chip", "gh200", "--json"], mode].concat(),
                );
                let words = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(json(&output)["result"], "pass", "{name} {mode:?}: {words}");
            }
        }
    }
}

#[test]
fn findings_of_pipelines_say_what_is_missing() {
    for (name, words) in [
        ("phase_ring_few", &["deadlock", "phase 0: 1 arrivals are missing", "waits for phase 0"][..]),
        ("bulk_ring_bytes", &["256 bytes that nobody completes", "which waits for 512 bytes more"]),
        ("copy_double_group", &["its thread waits for it first at", "asynchronously writes"]),
        ("copy_double_uncommitted", &["it is committed to no group"]),
        ("copy_ring_plain", &["its thread never waits for it"]),
        ("phase_state_stale", &["nothing keeps the phase of the second from being complete"]),
        ("phase_anew_in_use", &["invalidates mbarrier"]),
        ("phase_ring_ahead", &["a schedule that leads to it", "parity"]),
    ] {
        let output = warpsim(&["verify", "sync", name, "--variant", "sm_90"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for words in words {
            assert!(text.contains(words), "{name}: {words}: {text}");
        }
    }
}

#[test]
fn findings_name_threads_lines_addresses_and_why() {
    let (_, report, _) = verify(&["dma_double_early", "--variant", "sm_90"]);
    let finding = &report["launches"][0]["programs"][0]["views"][0]["findings"][0];
    let acts = finding["acts"].as_array().expect("two accesses");
    assert_eq!(acts.len(), 2);
    for act in acts {
        assert!(act["address"].is_u64() && act["bytes"] == 4, "{act}");
        assert!(act["place"]["line"].as_u64().is_some_and(|line| line > 20), "{act}");
        let source = act["place"]["source"].as_str().expect("a line of CUDA");
        assert!(source.starts_with("barriers.cu:"), "{source}");
    }
    assert_ne!(acts[0]["warp"], acts[1]["warp"]);
    let why = finding["why"].to_string();
    assert!(why.contains("barrier 8") && why.contains("is ordered before"), "{why}");

    let (_, report, _) = verify(&["dma_ring_missing"]);
    let finding = &report["launches"][0]["programs"][0]["views"][0]["findings"][0];
    assert!(!finding["schedule"].as_array().expect("a schedule").is_empty());
    assert!(finding["acts"].to_string().contains("waits at barrier"), "{finding}");
    assert!(
        finding["why"].to_string().contains("64 of 96 have arrived")
            || finding["why"].to_string().contains("32 of 96"),
        "{finding}"
    );

    let output = warpsim(&["verify", "sync", "chain_count"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in [
        "count mismatch",
        "96 threads",
        "64 threads",
        "warp 5",
        "barriers.cu:",
        "size of the proof: threads: 256",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let output = warpsim(&["verify", "sync", "warp_synchronous", "--chip", "gtx980", "--variant", "sm_52"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("relies on warps that run in lockstep") && text.contains("race"), "{text}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn workloads_of_the_suite_have_verdicts() {
    for name in [
        "producer_consumer",
        "sgemm_tiled",
        "transpose",
        "bitonic_sort",
        "hotspot",
        "mbarrier_pipeline",
        "copy_pipeline",
        "dsmem_histogram",
        "dsmem_chase",
        "splitk_cluster",
        "hgemm_wgmma",
        "hgemm_tma",
        "flash_tma",
    ] {
        let (code, report, words) = verify(&[name]);
        assert_eq!((code, &report["verdict"]), (0, &"verified".into()), "{name}: {report:#} {words}");
    }
}

/// What lies beyond the method is said to be unknown, with the line.
#[test]
fn tests_of_mbarrier_objects_that_are_no_waits_are_unknown() {
    let kernel = |name: &str, body: &str| {
        let body = format!(
            "mov.u32 %r2, x;\nsetp.ne.u32 %p1, %r1, 0;\n@!%p1 mbarrier.init.shared.b64 [%r2], 32;\nbar.sync 0;\n\
             mbarrier.arrive.shared.b64 %rd1, [%r2];\n{body}"
        );
        ptx_of("8.0", "sm_90", name, &body, "32", &[])
    };
    let (code, report, words) =
        kernel("waits", "L: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;\n@!%p2 bra L;");
    assert_eq!((code, &report["verdict"]), (0, &"verified".into()), "{report:#} {words}");
    for (name, body) in [
        ("once", "mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;\n@%p2 bar.sync 1, 32;"),
        (
            "gives_up",
            "mov.u32 %r3, 0;\nL: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;\n@%p2 bra D;\n\
             add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p3, %r3, 9;\n@%p3 bra L;\nD: bar.sync 0;",
        ),
    ] {
        let (code, report, words) = kernel(name, body);
        assert_eq!((code, &report["verdict"]), (4, &"unknown".into()), "{report:#} {words}");
        let reason = report["launches"][0]["programs"][0]["views"][0]["reason"].to_string();
        assert!(reason.contains("more than whether to test again") && reason.contains(".ptx:"), "{reason}");
    }
    let body = "mbarrier.arrive.noComplete.shared.b64 %rd1, [%r2], 1;";
    let body = format!("mbarrier.init.shared.b64 [x+8], 64;\nmov.u32 %r2, x;\nadd.u32 %r2, %r2, 8;\n{body}");
    let (code, report, _) = ptx_of("8.0", "sm_90", "no_complete", &body, "1", &[]);
    let reason = report["launches"][0]["programs"][0]["views"][0]["reason"].to_string();
    assert!(code == 4 && reason.contains("noComplete") && reason.contains(".ptx:"), "{reason}");
}

/// A warp-specialized product by TMA, mbarrier objects and `wgmma` in clusters with multicast, and what goes wrong with it.
#[test]
fn faults_of_a_warp_specialized_product_in_clusters_are_found() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/hgemm_tma");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect("it is there");
    let (ptx, workload) = (read("hgemm_tma.sm_90a.ptx"), read("workload.yaml"));
    for (name, changes, wrong) in [
        ("right", &[][..], None),
        // A stage is given back while products may be reading it, and before other warps have found it full.
        (
            "groups",
            &[("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;")],
            Some("wrong_phase"),
        ),
        // A stage counts as empty when three of four consumers have given it back.
        ("arrivals", &[("mov.u32 \t%r58, 4;", "mov.u32 \t%r58, 3;")], Some("wrong_phase")),
        // Blocks use objects of each other that may not be initialized yet.
        ("meeting", &[("barrier.cluster.wait.acquire.aligned;", "")], Some("barrier_misuse")),
    ] {
        let folder = Folder::new(&format!("verify-tma-{name}"));
        let mut text = ptx.clone();
        for (from, to) in changes {
            assert!(text.contains(from), "`{from}`");
            text = text.replace(from, to);
        }
        folder.write("hgemm_tma.sm_90a.ptx", &text);
        folder.write("workload.yaml", &workload);
        let (code, report, words) = verify(&[&folder.0.display().to_string()]);
        let found = kinds(&report, "threads");
        assert_eq!(code, if wrong.is_some() { 3 } else { 0 }, "{name}: {found:?} {words}");
        assert_eq!(found, Vec::from_iter(wrong), "{name}");
        if name == "arrivals" {
            let views = report["launches"][2]["programs"][0]["views"][0]["findings"].to_string();
            assert!(views.contains("\"rank\":1") && views.contains("of block 0 of the cluster"), "{views}");
        }
    }
}

/// Blocks of a cluster in each other's shared memory, and what is wrong without one line.
#[test]
fn kernels_in_clusters_have_their_verdicts() {
    const MEET: &str = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
    // Thread 0 makes an object for 32 arrivals; %r6 and %r7: the object and the word of the thread in the other block.
    let begin = format!(
        "mov.u32 %r2, x;\nmov.u32 %r3, %cluster_ctarank;\nxor.b32 %r3, %r3, 1;\nmapa.shared::cluster.u32 %r6, %r2, %r3;\n\
         shl.b32 %r4, %r1, 2;\nadd.u32 %r4, %r4, %r2;\nadd.u32 %r4, %r4, 64;\n\
         mapa.shared::cluster.u32 %r7, %r4, %r3;\nsetp.ne.u32 %p1, %r1, 0;\n\
         @!%p1 mbarrier.init.shared.b64 [%r2], $COUNT;\n{MEET}"
    );
    let wait =
        "L: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [%r2], 0;\n@%p2 bra D;\nbra L;\nD:\n";
    let arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n";
    let store = "st.shared::cluster.u32 [%r7], %r1;\n";
    let async_store = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r1, [%r6];\n";
    let load = "ld.shared.u32 %r5, [%r4];\n";
    // To the other block alone.
    let multicast = "mov.u32 %r5, 1;\nshl.b32 %r5, %r5, %r3;\ncvt.u16.u32 %h0, %r5;\nadd.u32 %r5, %r2, 192;\n\
        ld.param.u64 %rd2, [p];\n@!%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster \
        [%r5], [%rd2], 64, [%r2], %h0;\n";
    let read = "ld.shared.u32 %r5, [%r2+192];\n";
    let expect = "@!%p1 mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r2], $BYTES;\n";
    let kernels: &[(&str, &[&str], u32, u32, &[&str])] = &[
        ("barrier", &[store, MEET, load], 1, 0, &[]),
        ("no_barrier", &[store, "bar.sync 0;\n", load, MEET], 1, 0, &["race"]),
        ("early", &[store, "barrier.cluster.arrive;\n", load, "barrier.cluster.wait;\n"], 1, 0, &["race"]),
        (
            "relaxed",
            &[store, "barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n", load, MEET],
            1,
            0,
            &["race"],
        ),
        ("arrivals", &[store, arrive, wait, load, MEET], 32, 0, &[]),
        ("arrivals_first", &[arrive, store, wait, load, MEET], 32, 0, &["race"]),
        ("arrivals_few", &[store, arrive, wait, load, MEET], 33, 0, &["deadlock"]),
        ("arrivals_many", &[store, arrive, wait, load, MEET], 31, 0, &["wrong_phase"]),
        ("stores", &[expect, MEET, async_store, wait, load, MEET], 1, 128, &[]),
        ("stores_unawaited", &[expect, MEET, async_store, load, wait, MEET], 1, 128, &["race"]),
        ("multicast", &[expect, MEET, multicast, wait, read, MEET], 1, 64, &[]),
        ("multicast_unawaited", &[expect, MEET, multicast, read, wait, MEET], 1, 64, &["race"]),
        ("multicast_to_few", &[expect, MEET, multicast, wait, read, MEET], 1, 80, &["deadlock"]),
        ("stores_few", &[expect, MEET, async_store, wait, load, MEET], 1, 132, &["deadlock"]),
    ];
    for (name, parts, count, bytes, wrong) in kernels {
        let body = [&[begin.as_str()], *parts].concat().concat();
        let body = body.replace("$COUNT", &count.to_string()).replace("$BYTES", &bytes.to_string());
        let folder = Folder::new(&format!("verify-cluster-{name}"));
        let text = format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n.explicitcluster\n\
             .reqnctapercluster 2, 1, 1\n{{\n.reg .pred %p<4>;\n.reg .b16 %h<2>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n\
             .shared .align 16 .b8 x[256];\nmov.u32 %r1, %tid.x;\n{body}ret;\n}}\n"
        );
        let file = folder.write("k.ptx", &text);
        let args = ["--grid", "4", "--block", "32", "--arg", "buffer:u32:64:iota", "--chip", "h100"];
        let (code, report, words) = verify(&[&[file.as_str()], &args[..]].concat());
        assert_eq!(kinds(&report, "threads"), *wrong, "{name}: {report:#} {words}");
        assert_eq!(code, if wrong.is_empty() { 0 } else { 3 }, "{name}: {report:#} {words}");
        assert_eq!(
            report["launches"][0]["blocks"],
            if wrong.is_empty() { 4 } else { report["launches"][0]["blocks"].as_u64().unwrap_or(0) }
        );
    }
}

/// Copies whose bytes the other block of a pair counts, and requests to cancel launches.
#[test]
fn copies_of_pairs_are_verified_and_requests_are_unknown() {
    const MEET: &str = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
    let wait = "@%p3 bra D;\nL: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [%r2+128], 0;\n@!%p2 bra L;\nD:\n";
    // The first block asks for both tiles, and counts them; or the second one for its own.
    let both = "@!%p0 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%r2], [%rd1, {0}], [%r6], 3;\n";
    let own = "@!%p1 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%r2], [%rd1, {0}], [%r6];\n";
    let read = "ld.shared.u32 %r5, [%r4];\n";
    for (name, parts, bytes, wrong) in [
        ("both", [both, wait, MEET, read], 256, None),
        ("both_early", [both, wait, read, MEET], 256, Some("race")),
        ("both_few", [both, wait, MEET, read], 128, Some("wrong_phase")),
        ("both_many", [both, wait, MEET, read], 272, Some("deadlock")),
        ("own", [own, wait, MEET, read], 128, None),
        ("own_early", [own, wait, read, MEET], 128, Some("race")),
    ] {
        let folder = Folder::new(&format!("verify-pair-{name}"));
        // %p0: not the first thread of the first block, %p1: of the second one, %p3: not the first block.
        let body = format!(
            "mov.b64 %rd1, m;\ncvta.param.u64 %rd1, %rd1;\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, x;\nmov.u32 %r3, %cluster_ctarank;\n\
             shl.b32 %r4, %r1, 2;\nadd.u32 %r4, %r4, %r2;\nadd.u32 %r6, %r2, 128;\nmapa.shared::cluster.u32 %r6, %r6, 0;\n\
             setp.ne.u32 %p3, %r3, 0;\nsetp.ne.or.u32 %p0, %r1, 0, %p3;\nsetp.ne.u32 %p1, %r3, 1;\nsetp.ne.or.u32 %p1, %r1, 0, %p1;\n\
             @!%p0 mbarrier.init.shared.b64 [%r2+128], 1;\n@!%p0 mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r2+128], {bytes};\n{MEET}{}{MEET}",
            parts.concat()
        );
        folder.write(
            "k.ptx",
            &format!(
                ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .align 64 .b8 m[128])\n.explicitcluster\n\
                 .reqnctapercluster 2, 1, 1\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n\
                 .shared .align 128 .b8 x[256];\n{body}ret;\n}}\n"
            ),
        );
        folder.write(
            "workload.yaml",
            "schema: 1\nname: w\ndescription: d\nschedule: independent\n\
             variants:\n- {name: v, file: k.ptx, compiler: hand, target: sm_100a}\n\
             buffers:\n  in: {type: u32, length: 32, init: iota}\n\
             tensor_maps:\n  map: {buffer: in, dims: [32], box: [32]}\n\
             launches:\n- {entry: k, grid: [4], block: [32], args: [map]}\nexpect: []\n",
        );
        let (code, report, words) = verify(&[&folder.0.display().to_string(), "--chip", "b200"]);
        assert_eq!(kinds(&report, "threads"), Vec::from_iter(wrong), "{name}: {report:#} {words}");
        assert_eq!(code, if wrong.is_none() { 0 } else { 3 }, "{name}: {report:#} {words}");
    }
    // What the block scheduler answers decides what its thread does next: one run does not show all.
    let body = "mov.u32 %r2, x;\nsetp.ne.u32 %p1, %r1, 0;\n@!%p1 mbarrier.init.shared.b64 [%r2+16], 1;\n\
        @!%p1 mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r2+16], 16;\n\
        @!%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r2], [%r2+16];";
    let body = body
        .replace("mov.u32 %r2, x;", "mov.u32 %r2, x;\nadd.u32 %r2, %r2, 15;\nand.b32 %r2, %r2, 0xfffffff0;");
    let (code, report, words) = ptx_of("8.6", "sm_100a", "request", &body, "32", &["--chip", "b200"]);
    assert_eq!((code, &report["verdict"]), (4, &"unknown".into()), "{report:#} {words}");
    let reason = report["launches"][0]["programs"][0]["views"][0]["reason"].to_string();
    assert!(reason.contains("a request to cancel a launch") && reason.contains(".ptx:"), "{reason}");
}

/// Writes a kernel and verifies it.
fn ptx(name: &str, body: &str, block: &str, args: &[&str]) -> (i32, Value, String) {
    ptx_of("6.0", "sm_70", name, body, block, args)
}

fn ptx_of(
    version: &str,
    target: &str,
    name: &str,
    body: &str,
    block: &str,
    args: &[&str],
) -> (i32, Value, String) {
    let folder = Folder::new(&format!("verify-{name}"));
    let text = format!(
        ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .pred %p<4>;\n\
         .reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.shared .align 8 .u32 x[64];\nmov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    );
    let file = folder.write(&format!("{name}.ptx"), &text);
    let words = [&[&file, "--grid", "1", "--block", block, "--arg", "buffer:u32:64:iota"], args].concat();
    verify(&words)
}

#[test]
fn ptx_files_are_verified_and_what_inputs_decide_is_said() {
    let lane = "shl.b32 %r2, %r1, 2; mov.u32 %r3, x; add.u32 %r2, %r2, %r3;";
    let (code, report, words) = ptx(
        "own",
        &format!("{lane}\nst.shared.u32 [%r2], %r1;\nbar.sync 0;\nld.shared.u32 %r4, [x];"),
        "64",
        &[],
    );
    assert_eq!((code, &report["verdict"]), (0, &"verified".into()), "{report:#} {words}");
    let (code, report, _) = ptx("same", "st.shared.u32 [x], %r1;", "64", &[]);
    assert_eq!((code, kinds(&report, "lockstep")), (3, vec!["race".to_string()]), "{report:#}");
    // A branch on what is loaded.
    let body =
        "ld.param.u64 %rd1, [p]; ld.global.u32 %r4, [%rd1];\nsetp.eq.u32 %p1, %r4, 0;\n@%p1 bar.sync 1, 64;";
    let (code, report, _) = ptx("depends", body, "64", &[]);
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(report["launches"][0]["depends"]["line"], 13, "{report:#}");
    // Threads that have returned are not waited for where no count is written.
    let body = "setp.lt.u32 %p1, %r1, 32;\n@%p1 ret;\nbar.sync 0;";
    let (code, report, _) = ptx("returned", body, "64", &[]);
    assert_eq!(code, 0, "{report:#}");
    let body = "setp.lt.u32 %p1, %r1, 32;\n@%p1 ret;\nbar.sync 0, 64;";
    let (code, report, _) = ptx("waited", body, "64", &[]);
    assert_eq!((code, kinds(&report, "threads")), (3, vec!["deadlock".to_string()]), "{report:#}");
    // No barrier has that number.
    let (code, report, _) = ptx("sixteen", "bar.sync %r1, 64;", "64", &[]);
    assert_eq!((code, kinds(&report, "threads")), (3, vec!["barrier_misuse".to_string()]), "{report:#}");
    // An address outside of shared memory says nothing of barriers.
    let (code, report, _) = ptx("outside", "st.shared.u32 [x+4096], %r1;", "64", &[]);
    assert_eq!(code, 4, "{report:#}");
    let (code, report, _) = ptx("endless", "L: bra L;", "64", &["--max-instructions", "1000"]);
    assert_eq!((code, &report["verdict"]), (4, &"unknown".into()), "{report:#}");
}

/// Warps count themselves out, and the last one clears what all have written: as `cuda::pipeline` ends.
#[test]
fn atomic_operations_order_threads_as_they_did_in_the_run() {
    let last = |atomic: &str| {
        let body = format!(
            "and.b32 %r4, %r1, 31;\nshl.b32 %r2, %r1, 1;\nmov.u32 %r3, x;\nadd.u32 %r3, %r3, %r2;\n\
             setp.eq.u32 %p3, %r1, 0;\n@%p3 st.shared.u32 [x+252], %r1;\nbar.sync 0;\n\
             setp.ne.u32 %p1, %r4, 0;\n@%p1 bra END;\nst.shared.u32 [%r3], %r1;\n{atomic}\n\
             setp.ne.u32 %p2, %r5, 2;\n@%p2 bra END;\nst.shared.u32 [x], %r1;\nst.shared.u32 [x+64], %r1;\n\
             st.shared.u32 [x+128], %r1;\nst.shared.u32 [x+252], %r1;\nEND:"
        );
        ptx("last", &body, "96", &[])
    };
    for atomic in [
        "fence.sc.cta;\natom.acquire.cta.shared.add.u32 %r5, [x+252], 1;",
        "atom.acq_rel.cta.shared.add.u32 %r5, [x+252], 1;",
        "atom.release.cta.shared.add.u32 %r5, [x+252], 1;\nfence.acq_rel.cta;",
        "membar.cta;\natom.shared.add.u32 %r5, [x+252], 1;\nmembar.cta;",
        // A step between the fence and the operation.
        "fence.acq_rel.cta;\nld.shared.u32 %r6, [%r3];\natom.acquire.cta.shared.add.u32 %r5, [x+252], 1;",
    ] {
        let (code, report, words) = last(atomic);
        let launch = &report["launches"][0];
        let views = &launch["programs"][0]["views"];
        let of = |view: &str| views.as_array().into_iter().flatten().find(|v| v["view"] == view).cloned();
        let distant = atomic.contains("ld.");
        // What lies behind the fence is not released by it.
        let expected = if distant { "finding" } else { "verified" };
        let verdict = of("threads").map(|v| v["verdict"].clone());
        assert_eq!(verdict, Some(expected.into()), "{atomic}: {report:#} {words}");
        assert_eq!(code, if distant { 3 } else { 0 }, "{atomic}");
        assert!(launch["atomics"]["instruction"].is_string(), "{atomic}: {report:#}");
        assert!(launch["depends"]["line"].is_u64(), "{report:#}");
    }
    for atomic in [
        "atom.shared.add.u32 %r5, [x+252], 1;",
        "atom.acquire.cta.shared.add.u32 %r5, [x+252], 1;",
        "fence.acq_rel.cta;\natom.shared.add.u32 %r5, [x+252], 1;",
        "atom.release.cta.shared.add.u32 %r5, [x+252], 1;",
        // Two counters: each releases to the other.
        "atom.release.cta.shared.add.u32 %r5, [x+248], 1;\natom.acquire.cta.shared.add.u32 %r5, [x+252], 1;",
    ] {
        let (code, report, _) = last(atomic);
        let races = kinds(&report, "threads");
        assert!(code == 3 && races.iter().all(|kind| kind == "race"), "{atomic}: {report:#}");
    }
    // Who reads a word that has been stored to in part reads no release.
    let torn = "fence.sc.cta;\natom.acquire.cta.shared.add.u32 %r5, [x+252], 1;\nst.shared.u8 [x+254], 0;";
    assert_eq!(last(torn).0, 3);
    // Where nothing that is read decides, the order of the run is no order.
    let body = "atom.acq_rel.cta.shared.add.u32 %r5, [x+252], 1;\nst.shared.u32 [x], %r1;";
    let (code, report, _) = ptx("undecided", body, "64", &[]);
    assert_eq!((code, kinds(&report, "threads")), (3, vec!["race".to_string()]), "{report:#}");
    assert!(report["launches"][0]["atomics"].is_null(), "{report:#}");
}

#[test]
fn bad_input_has_status_2_and_two_reports_differ_in_what_they_cost_only() {
    for args in [&["no_such_workload"][..], &["chain", "--entry", "x"], &["chain", "--set", "no=1"]] {
        let (code, report, words) = verify(args);
        assert!(code == 2 && report.is_null() && words.contains("error"), "{args:?}: {code} {words}");
    }
    let once = |workload| {
        let (_, mut report, _) = verify(&[workload]);
        report.as_object_mut().expect("an object").remove("host").expect("host");
        report
    };
    for workload in ["chain_swapped", "dma_ring_missing", "histogram"] {
        assert_eq!(once(workload), once(workload), "{workload}");
    }
}
