//! Clusters of several blocks: shared memory of other blocks, the barrier of a cluster, mbarrier objects of other blocks,
//! asynchronous stores; where clusters run and what launches of them may ask for. Timed and functional.

use std::sync::Arc;

use sim_core::context::Launch;
use sim_core::device::Options;
use sim_core::error::SimError;
use sim_core::report::DeviceReport;
use sim_core::sm::scheduler::WarpScheduler;
use sim_frontend::chip::{ChipSpec, ClusterSpec};

use crate::machine::{Run, chip, device_with, module};

pub const POLICIES: [&str; 5] = ["crs_stack", "convergence_barriers", "multi_path", "dual_path", "mimd"];

/// Nine SMs in three GPCs.
pub fn clustered(change: impl FnOnce(&mut ChipSpec)) -> Arc<ChipSpec> {
    chip(|c| {
        c.limits.num_processors = 9;
        c.cluster = Some(ClusterSpec {
            gpcs: 3,
            sms_per_tpc: 1,
            max_blocks: 8,
            max_blocks_non_portable: 16,
            latency: 181,
            bytes_per_cycle: 20,
        });
        change(c);
    })
}

/// How a test runs.
#[derive(Clone, Copy)]
pub struct How {
    pub policy: &'static str,
    pub functional: bool,
    pub threads: usize,
    pub epoch: Option<u64>,
}

pub const TIMED: How = How { policy: "crs_stack", functional: false, threads: 1, epoch: None };

pub fn launched(
    chip: Arc<ChipSpec>,
    text: &str,
    [grid, cluster]: [[u32; 3]; 2],
    block: u32,
    how: How,
) -> Result<(Vec<u32>, DeviceReport), SimError> {
    let device = device_with(chip, how.policy, |o| Options {
        allow_newer_isa: true,
        // Threads that spin keep nobody from what they wait for.
        scheduler: WarpScheduler::Lrr,
        threads: how.threads,
        epoch: how.epoch,
        ..o
    });
    let mut run = Run::new(device, text, false, 2048);
    let launch = Launch {
        module: 0,
        entry: "k".into(),
        grid,
        block: [block, 1, 1],
        dynamic_shared: 0,
        stream: 0,
        params: run.out.to_le_bytes().to_vec(),
        functional: how.functional,
        cluster: (cluster != [0; 3]).then_some(cluster),
        non_portable_cluster: cluster.iter().product::<u32>() > 8,
    };
    run.device.launch(run.context, &launch)?;
    run.wait()?;
    Ok((run.words(), run.report()))
}

pub fn text(body: &str) -> String {
    module("", body).replace(".version 3.0\n.target sm_20", ".version 8.6\n.target sm_90")
}

/// Words of `out` after a grid of `blocks` ran in clusters, the same in both modes under every policy.
pub fn words(body: &str, blocks: u32, cluster: u32, block: u32) -> Vec<u32> {
    let mut found: Option<Vec<u32>> = None;
    for policy in POLICIES {
        for functional in [false, true] {
            let how = How { policy, functional, ..TIMED };
            let sizes = [[blocks, 1, 1], [cluster, 1, 1]];
            let ran = launched(clustered(|_| {}), &text(body), sizes, block, how);
            let (words, _) = ran.unwrap_or_else(|e| panic!("{policy} {functional}: {e}\n{body}"));
            let same = *found.get_or_insert_with(|| words.clone()) == words;
            assert!(same, "{policy} {functional}: {body}");
        }
    }
    found.expect("there are policies")
}

pub fn refused(body: &str, blocks: u32, cluster: u32, block: u32, message: &str) {
    for functional in [false, true] {
        let how = How { functional, ..TIMED };
        let ran = launched(clustered(|_| {}), &text(body), [[blocks, 1, 1], [cluster, 1, 1]], block, how);
        let error = ran.map(|_| ()).expect_err(body).to_string();
        assert!(error.contains(message), "{functional}: {error}");
    }
}

/// All threads of the cluster meet.
pub const MEET: &str = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";

/// `%own_rank`, `%ranks`; `%at`: the thread's word of `room`; `%next`: the rank after the block's own.
pub const RANKS: &str = ".reg .u32 %rank, %ranks, %next, %at, %there;\nmov.u32 %rank, %cluster_ctarank;\n\
    mov.u32 %ranks, %cluster_nctarank;\nadd.u32 %next, %rank, 1;\nrem.u32 %next, %next, %ranks;\n\
    mov.u32 %at, room;\nshl.b32 %a, %t, 2;\nadd.u32 %at, %at, %a;\n\
    mapa.shared::cluster.u32 %there, %at, %next;\n";

#[test]
fn blocks_load_store_and_add_in_shared_memory_of_the_next_block() {
    for cluster in [1, 2, 4, 8] {
        // A word from the block before, by a store, the next block's own by a load, and sums of both by atomics.
        let body = format!(
            "{RANKS}{MEET}st.shared::cluster.u32 [%there], %i;\nst.shared.u32 [%at+512], %rank;\n{MEET}\
             ld.shared.u32 %r, [%at];\nld.shared::cluster.u32 %b, [%there+512];\nmad.lo.u32 %r, %b, 10000, %r;\n\
             atom.shared::cluster.add.u32 %c, [%there+512], 100;\nred.shared::cluster.max.u32 [%there+1024], %i;\n{MEET}\
             ld.shared.u32 %b, [%at+512];\nmad.lo.u32 %r, %c, 1000000, %r;\nsub.u32 %b, %b, %rank;\n\
             mad.lo.u32 %r, %b, 1000000, %r;\nld.shared.u32 %b, [%at+1024];\nadd.u32 %r, %r, %b;\n"
        );
        let found = words(&body, 8, cluster, 64);
        for i in 0..512u32 {
            let (block, thread) = (i / 64, i % 64);
            let (first, rank) = (block / cluster * cluster, block % cluster);
            let before = (first + (rank + cluster - 1) % cluster) * 64 + thread;
            let next = (rank + 1) % cluster;
            let expected = 2 * before + 10_000 * next + 1_000_000 * (next + 100);
            assert_eq!(found[i as usize], expected, "cluster of {cluster}, thread {i}");
        }
    }
}

#[test]
fn generic_addresses_and_vectors_reach_other_blocks_lane_by_lane() {
    // Lane by lane another block; a vector of two words; bytes with a sign.
    let body = format!(
        "{RANKS}.reg .u64 %e, %h;\nmov.u64 %e, room;\ncvta.shared.u64 %e, %e;\nmul.wide.u32 %w, %t, 8;\nadd.u64 %e, %e, %w;\n\
         add.u32 %a, %i, 1000;\nst.v2.u32 [%e], {{%i, %a}};\nmov.u32 %a, -2;\nst.u8 [%e+2048], %a;\n{MEET}\
         rem.u32 %c, %t, %ranks;\nmapa.u64 %h, %e, %c;\nld.v2.u32 {{%a, %b}}, [%h];\nmul.lo.u32 %r, %a, 2000;\nadd.u32 %r, %r, %b;\n\
         .reg .s32 %s;\nld.s8 %s, [%h+2048];\nadd.u32 %r, %r, %s;\n\
         getctarank.u64 %a, %h;\nmad.lo.u32 %r, %a, 10000000, %r;\nisspacep.shared::cta %p, %h;\n@%p add.u32 %r, %r, 7;\n\
         isspacep.shared::cluster %p, %h;\n@%p add.u32 %r, %r, 20;\n{MEET}"
    );
    let found = words(&body, 4, 4, 32);
    for i in 0..128u32 {
        let (rank, thread) = (i / 32, i % 32);
        let of = thread % 4;
        let value = of * 32 + thread;
        let own = if of == rank { 7 } else { 0 };
        assert_eq!(found[i as usize], value * 2001 + 1000 - 2 + of * 10_000_000 + 20 + own, "thread {i}");
    }
}

#[test]
fn registers_say_where_a_block_is_in_its_cluster_and_the_cluster_in_the_grid() {
    let body = ".reg .u32 %v;\nmov.u32 %r, 0;\nmov.u32 %i, %ctaid.x;\nmov.u32 %a, %ctaid.y;\nmad.lo.u32 %i, %a, 4, %i;\n\
        mov.u32 %a, %ctaid.z;\nmad.lo.u32 %i, %a, 24, %i;\nmul.wide.u32 %own, %i, 4;\nadd.u64 %own, %own, %out;\n"
        .to_string()
        + &["%clusterid.x", "%clusterid.y", "%clusterid.z", "%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_ctaid.z",
            "%cluster_ctarank", "%cluster_nctarank"]
            .map(|name| format!("mov.u32 %v, {name};\nmad.lo.u32 %r, %r, 10, %v;\n"))
            .concat()
        + "mov.u32 %v, %nclusterid.y;\nmov.u32 %a, %cluster_nctaid.x;\nmad.lo.u32 %v, %a, 10, %v;\n\
           mov.pred %p, %is_explicit_cluster;\n@!%p mov.u32 %r, 0;\nsetp.ne.u32 %p, %v, 23;\n@%p mov.u32 %r, 1;\n";
    for functional in [false, true] {
        let how = How { functional, ..TIMED };
        let ran = launched(clustered(|_| {}), &text(&body), [[4, 6, 2], [2, 2, 1]], 1, how);
        let (words, _) = ran.unwrap_or_else(|e| panic!("{e}"));
        for (i, word) in words.iter().enumerate().take(48) {
            let [x, y, z] = [i % 4, i / 4 % 6, i / 24];
            let digits = [x / 2, y / 2, z, x % 2, y % 2, 0, x % 2 + 2 * (y % 2), 4];
            let expected = digits.iter().fold(0, |all, digit| all * 10 + digit);
            assert_eq!(*word as usize, expected, "block {i}");
        }
    }
}

#[test]
fn asynchronous_stores_and_reductions_complete_their_bytes_at_objects_of_other_blocks() {
    let init = format!(
        "{RANKS}.reg .u32 %object, %far;\nmov.u32 %object, room;\nadd.u32 %object, %object, 2048;\n\
         mapa.shared::cluster.u32 %far, %object, %next;\nst.shared.u32 [%at+1024], 5;\nsetp.ne.u32 %p, %t, 0;\n@%p bra READY;\n\
         mbarrier.init.shared::cta.b64 [%object], 1;\nfence.mbarrier_init.release.cluster;\nREADY:\n{MEET}"
    );
    let wait =
        "SPIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%object], 0;\n@!%q bra SPIN;\n";
    // A word and a sum from each of 32 threads, then a vector of four from each.
    let body = format!(
        "{init}@%p bra EXPECTED;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 256;\nEXPECTED:\n\
         st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%there], %i, [%far];\n\
         red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%there+1024], %t, [%far];\n{wait}\
         ld.shared.u32 %r, [%at];\nld.shared.u32 %a, [%at+1024];\nmad.lo.u32 %r, %a, 1000, %r;\n{MEET}"
    );
    let found = words(&body, 4, 4, 32);
    for i in 0..128u32 {
        let before = (i / 32 + 3) % 4 * 32 + i % 32;
        assert_eq!(found[i as usize], before + 1000 * (5 + i % 32), "thread {i}");
    }
    let body = format!(
        "{init}@%p bra EXPECTED;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 512;\nEXPECTED:\n\
         mul.lo.u32 %a, %t, 12;\nadd.u32 %there, %there, %a;\nadd.u32 %at, %at, %a;\nadd.u32 %a, %i, 1;\nadd.u32 %b, %i, 2;\nadd.u32 %c, %i, 3;\n\
         st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%there], {{%i, %a, %b, %c}}, [%far];\n{wait}\
         .reg .u32 %d;\nld.shared.v4.u32 {{%a, %b, %c, %d}}, [%at];\nmad.lo.u32 %r, %b, 1000, %a;\nmad.lo.u32 %r, %d, 1000000, %r;\n\
         sub.u32 %c, %c, %a;\nadd.u32 %r, %r, %c;\n{MEET}"
    );
    let found = words(&body, 2, 2, 32);
    for i in 0..64u32 {
        let other = i ^ 32;
        assert_eq!(found[i as usize], other + 1000 * (other + 1) + 1_000_000 * (other + 3) + 2, "thread {i}");
    }
    // To an object of another block than the data.
    let body = format!(
        "{init}st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%there], %i, [%object];\n"
    );
    refused(&body, 2, 2, 32, "the mbarrier object in that of block");
}

#[test]
fn threads_of_all_blocks_arrive_at_an_object_of_one() {
    // Block 0 waits for one arrival of each thread of the others, then reads what they stored before in global memory.
    let body = format!(
        "{RANKS}.reg .u32 %object, %far;\nmov.u32 %object, room;\nmov.u32 %a, 0;\nmapa.shared::cluster.u32 %far, %object, %a;\n\
         setp.ne.u32 %p, %i, 0;\n@%p bra READY;\nmbarrier.init.shared::cta.b64 [%object], 96;\nREADY:\n{MEET}\
         setp.eq.u32 %q, %rank, 0;\n@%q bra WAIT;\nmov.u32 %r, %i;\nadd.u32 %a, %i, 7;\nst.global.u32 [%own+1024], %a;\n\
         mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far];\nbra OVER;\n\
         WAIT:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%object], 0;\n@!%q bra WAIT;\n\
         ld.global.u32 %a, [%own+1152];\nld.global.u32 %b, [%own+1408];\nadd.u32 %r, %a, %b;\nOVER:\n{MEET}"
    );
    let found = words(&body, 4, 4, 32);
    for i in 0..128u32 {
        let expected = if i < 32 { (i + 32 + 7) + (i + 96 + 7) } else { i };
        assert_eq!(found[i as usize], expected, "thread {i}");
    }
    let wait = format!("{RANKS}{MEET}SPIN:\nmbarrier.try_wait.parity.b64 %q, [%w], 0;\n@!%q bra SPIN;\n")
        .replace("SPIN:\n", "mov.u64 %w, room;\ncvta.shared.u64 %w, %w;\nmapa.u64 %w, %w, %next;\nSPIN:\n");
    refused(&wait, 2, 2, 32, "only its own block may");
}

#[test]
fn a_cluster_meets_phase_after_phase_though_blocks_and_threads_end() {
    // Block r takes part in r + 1 phases; in each it adds to a word of the last block, which meets in all.
    let body = format!(
        "{RANKS}.reg .u32 %k, %last;\nmov.u32 %k, 0;\nmov.u32 %a, 3;\nmapa.shared::cluster.u32 %last, %at, %a;\n{MEET}\
         PHASE:\nred.shared::cluster.add.u32 [%last], 1;\n\
         barrier.cluster.arrive;\nbarrier.cluster.wait;\nsetp.eq.u32 %p, %rank, 3;\n@!%p bra ON;\nld.shared.u32 %a, [%at];\n\
         mad.lo.u32 %r, %r, 10, %a;\nON:\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n\
         add.u32 %k, %k, 1;\nsetp.le.u32 %p, %k, %rank;\n@%p bra PHASE;\n"
    );
    let found = words(&body, 4, 4, 32);
    assert_eq!(found[96..128], [4 * 1000 + 7 * 100 + 9 * 10 + 10; 32]);
    // Half of the threads of each block end before the first phase, the odd blocks between arrival and wait.
    let body = format!(
        "{RANKS}setp.gt.u32 %p, %t, 31;\n@%p st.global.u32 [%own], 9;\n@%p exit;\nbarrier.cluster.arrive;\n\
         and.b32 %a, %rank, 1;\nsetp.eq.u32 %p, %a, 1;\n@%p st.global.u32 [%own], 8;\n@%p exit;\nbarrier.cluster.wait;\n\
         barrier.cluster.arrive;\nbarrier.cluster.wait;\nmov.u32 %r, 7;\n"
    );
    let found = words(&body, 4, 4, 64);
    for i in 0..256usize {
        let expected = if i % 64 > 31 {
            9
        } else if i / 64 % 2 == 1 {
            8
        } else {
            7
        };
        assert_eq!(found[i], expected, "thread {i}");
    }
}

#[test]
fn what_blocks_wrote_before_the_barrier_of_the_cluster_others_read_after_it() {
    // L1 has the old words, which all blocks read before.
    let body = format!(
        "{RANKS}mad.lo.u32 %a, %next, 32, %t;\nmul.wide.u32 %w, %a, 4;\nadd.u64 %w, %w, %out;\nld.global.u32 %b, [%w+2048];\n{MEET}\
         add.u32 %a, %i, 40;\nst.global.u32 [%own+2048], %a;\n{MEET}ld.global.u32 %r, [%w+2048];\nmad.lo.u32 %r, %b, 1000, %r;\n"
    );
    let found = words(&body, 4, 4, 32);
    for i in 0..128u32 {
        assert_eq!(found[i as usize], (i + 32) % 128 + 40, "thread {i}");
    }
}

#[test]
fn shared_memory_of_a_block_that_has_exited_is_not_there() {
    // Without a second meeting: block 1 ends at once, block 0 waits for a while.
    let late = |access: &str| {
        format!(
            "{RANKS}{MEET}setp.eq.u32 %p, %rank, 1;\n@%p exit;\nmov.u32 %a, 0;\nWHILE:\nld.global.u32 %b, [%own];\n\
             add.u32 %a, %a, 1;\nadd.u32 %a, %a, %b;\nsetp.lt.u32 %p, %a, 2000;\n@%p bra WHILE;\n{access}\n"
        )
    };
    for access in [
        "ld.shared::cluster.u32 %r, [%there];",
        "st.shared::cluster.u32 [%there], %t;",
        "red.shared::cluster.add.u32 [%there], 1;",
        "mbarrier.arrive.shared::cluster.b64 _, [%there];",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%there], %t, [%there];",
    ] {
        let access = access.replace(
            "arrive.shared::cluster.b64 _, [%there]",
            "arrive.release.cluster.shared::cluster.b64 _, [%there]",
        );
        let access = match access.contains("mbarrier") {
            true => format!("mov.u32 %at, room;\nmapa.shared::cluster.u32 %there, %at, %next;\n{access}"),
            false => access,
        };
        refused(&late(&access), 2, 2, 32, "block 1 of the grid is accessed, whose threads have all exited");
    }
}

#[test]
fn addresses_of_no_block_or_beyond_its_memory_are_faults() {
    let body = |access: &str| format!("{RANKS}{MEET}{access}\n{MEET}");
    refused(
        &body("mapa.shared::cluster.u32 %a, %at, 2;\nld.shared::cluster.u32 %r, [%a];"),
        2,
        2,
        32,
        "is that of block 2 of the cluster, which has 2 blocks",
    );
    refused(
        &body("ld.shared::cluster.u32 %r, [%there+8192];"),
        2,
        2,
        32,
        "is outside the 4096 bytes of shared memory",
    );
    refused(&body("ld.shared.u32 %r, [%there];"), 2, 2, 32, "`.shared::cluster` accesses it");
    refused(&body("ld.shared::cluster.u32 %r, [%there+2];"), 2, 2, 32, "misaligned");
    // The block's own memory by its rank is its own.
    let own = "st.shared.u32 [%at], %i;\nmapa.shared::cluster.u32 %a, %at, %rank;\nld.shared.u32 %r, [%a];";
    assert_eq!(words(&body(own), 2, 2, 32)[..64], (0..64).collect::<Vec<u32>>());
}

#[test]
fn launches_of_clusters_are_checked() {
    let plain = text("mov.u32 %r, 1;\n");
    let with =
        |directive: &str| plain.replace("(.param .u64 p)\n{", &format!("(.param .u64 p)\n{directive}\n{{"));
    let fails = |text: &str, sizes: [[u32; 3]; 2], message: &str| {
        let ran = launched(clustered(|_| {}), text, sizes, 32, TIMED);
        let error = ran.map(|_| ()).expect_err(message).to_string();
        assert!(error.contains(message), "{error}");
    };
    let one = |n: u32| [n, 1, 1];
    fails(&plain, [one(6), one(4)], "the grid has 6 blocks in x, which is no multiple of the cluster's 4");
    fails(&with(".reqnctapercluster 2"), [one(8), one(4)], "requires clusters of [2, 1, 1] blocks");
    fails(&with(".explicitcluster"), [one(8), [0; 3]], "gives no size of clusters");
    fails(&with(".maxclusterrank 2"), [one(8), one(4)], "allows at most 2");
    fails(&plain, [one(32), one(32)], "at most 16 are allowed");
    // More than the three SMs of a GPC hold with 24 KiB each, two at a time.
    let large = plain.replace("room[4096]", "room[24576]");
    fails(&large, [one(16), one(16)], "the SMs of a GPC hold 6 of them at a time");
    let none = launched(chip(|_| {}), &plain, [one(2), one(2)], 32, TIMED);
    assert!(none.map(|_| ()).expect_err("no clusters").to_string().contains("has no clusters"));
    for directive in
        [".reqnctapercluster 4", ".explicitcluster\n.reqnctapercluster 4, 1, 1", ".maxclusterrank 4"]
    {
        let (words, _) =
            launched(clustered(|_| {}), &with(directive), [one(8), [0; 3]], 32, TIMED).expect("it runs");
        assert_eq!(words[..256], [1; 256], "{directive}");
    }
    // Sixteen blocks of a cluster share the SMs of a GPC.
    let (words, _) = launched(
        clustered(|_| {}),
        &text(&format!("{RANKS}{MEET}mov.u32 %r, %ranks;\n")),
        [one(32), one(16)],
        32,
        TIMED,
    )
    .expect("it fits");
    assert_eq!(words[..1024], [16; 1024]);
}

#[test]
fn blocks_of_a_cluster_run_side_by_side_on_the_sms_of_one_gpc() {
    // SM and whether all started before any ended.
    let body = format!("{RANKS}{MEET}mov.u32 %r, %smid;\n");
    let sizes = [[60, 1, 1], [3, 1, 1]];
    let (words, _) = launched(clustered(|_| {}), &text(&body), sizes, 32, TIMED).expect("it runs");
    for cluster in words[..60 * 32].chunks(3 * 32) {
        let sms: Vec<u32> = cluster.iter().step_by(32).copied().collect();
        let gpc = |sm: &u32| match sm {
            0..3 => 0,
            3..6 => 1,
            _ => 2,
        };
        assert!(sms.iter().all(|sm| gpc(sm) == gpc(&sms[0])), "{sms:?}");
        assert!(sms.windows(2).all(|pair| pair[0] != pair[1]), "as many SMs as there are: {sms:?}");
    }
}

/// A word that thread 0 of block 0 measured.
fn cycles(change: impl FnOnce(&mut ChipSpec), access: &str, lanes: u32) -> u32 {
    let body = format!(
        "{RANKS}{MEET}setp.ne.u32 %p, %rank, 0;\n@%p bra OVER;\nmov.u32 %b, %clock;\n{access}\nmov.u32 %c, %clock;\n\
         sub.u32 %r, %c, %b;\nOVER:\n{MEET}"
    );
    launched(clustered(change), &text(&body), [[2, 1, 1], [2, 1, 1]], lanes, TIMED).expect("it runs").0[0]
}

#[test]
fn a_load_from_another_block_takes_the_latency_of_the_chip() {
    let load = "ld.shared::cluster.u32 %a, [%there];\nadd.u32 %a, %a, 1;";
    let of = |latency: u32| cycles(|c| c.cluster.as_mut().expect("it has").latency = latency, load, 1);
    let near = cycles(|_| {}, "ld.shared.u32 %a, [%at];\nadd.u32 %a, %a, 1;", 1);
    let shared = chip(|_| {}).memory.shared.latency;
    assert_eq!(
        (shared + 1) % 2 + of(181) - near,
        181 - shared + (shared + 1) % 2 - (181 - shared) % 2,
        "half of what it takes beyond, each way"
    );
    assert_eq!(of(281) - of(181), 100);
}

#[test]
fn the_port_sends_so_many_bytes_a_cycle() {
    // Four loads of four words by each of eight warps: 16 KiB come back.
    let load = "ld.shared::cluster.v4.u32 {%a, %b, %c, %n}, [%wide];\nadd.u32 %x0, %x0, %a;\n";
    let body = format!(
        "{RANKS}.reg .u32 %wide, %begin, %x0;\nand.b32 %a, %t, 31;\nshl.b32 %a, %a, 4;\nmov.u32 %wide, room;\nadd.u32 %wide, %wide, %a;\n\
         mapa.shared::cluster.u32 %wide, %wide, %next;\nmov.u32 %x0, 0;\n{MEET}setp.ne.u32 %p, %rank, 0;\n@%p bra OVER;\n\
         mov.u32 %begin, %clock;\n{}bar.sync 0;\nmov.u32 %c, %clock;\nsub.u32 %r, %c, %begin;\nOVER:\n{MEET}",
        load.repeat(4)
    );
    let of = |bytes: u32| {
        let chip = clustered(|c| c.cluster.as_mut().expect("it has").bytes_per_cycle = bytes);
        launched(chip, &text(&body), [[2, 1, 1], [2, 1, 1]], 256, TIMED).expect("it runs").0[0]
    };
    let (slow, slower) = (of(4), of(2));
    assert!((3800..4500).contains(&slow), "16 KiB at 4 bytes a cycle take 4096 cycles, not {slow}");
    assert!((7900..8700).contains(&slower), "{slower}");
}

#[test]
fn a_cluster_takes_the_blocks_of_the_cycles_after_it() {
    let of = |blocks_per_cycle: u32| {
        let chip = clustered(|c| c.dispatch.blocks_per_cycle = blocks_per_cycle);
        let body = format!("{RANKS}{MEET}mov.u32 %r, %rank;\n");
        let run = launched(chip, &text(&body), [[8, 1, 1], [4, 1, 1]], 32, TIMED).expect("it runs");
        run.1.kernels[0].cycles
    };
    // The second of two clusters of four blocks starts so much later.
    assert_eq!([1, 2, 3].map(|rate| of(rate) - of(8)), [4, 2, 1]);
}

#[test]
fn reports_of_clusters_are_the_same_for_any_threads_and_epochs() {
    let body = format!(
        "{RANKS}.reg .u32 %k, %zero;\nmov.u32 %k, 0;\nmov.u32 %a, room;\nmov.u32 %b, 0;\nmapa.shared::cluster.u32 %zero, %a, %b;\n{MEET}LOOP:\n\
         atom.shared::cluster.exch.b32 %b, [%there], %i;\nadd.u32 %r, %r, %b;\natom.shared::cluster.add.u32 %c, [%zero+4000], %t;\n\
         xor.b32 %r, %r, %c;\nadd.u32 %next, %next, 1;\nrem.u32 %next, %next, %ranks;\nmapa.shared::cluster.u32 %there, %at, %next;\n\
         add.u32 %k, %k, 1;\nsetp.lt.u32 %p, %k, 9;\n@%p bra LOOP;\n{MEET}"
    );
    let run = |threads, epoch| {
        let how = How { threads, epoch, ..TIMED };
        let (words, report) =
            launched(clustered(|_| {}), &text(&body), [[24, 1, 1], [4, 1, 1]], 64, how).expect("it runs");
        (words, format!("{report:?}"))
    };
    let one = run(1, None);
    for (threads, epoch) in [(1, Some(1)), (2, None), (4, None), (4, Some(3)), (3, Some(1))] {
        let other = run(threads, epoch);
        assert_eq!(one.0, other.0, "{threads} {epoch:?}");
        assert_eq!(one.1, other.1, "{threads} {epoch:?}");
    }
}

#[test]
fn blocks_that_wait_for_each_other_for_ever_are_a_deadlock() {
    // Block 1 waits at the barrier of the cluster, block 0 at an object that nobody arrives at.
    let body = format!(
        "{RANKS}mov.u32 %a, room;\nsetp.ne.u32 %p, %t, 0;\n@!%p mbarrier.init.shared::cta.b64 [%a], 1;\nbar.sync 0;\nsetp.ne.u32 %p, %rank, 0;\n@%p bra MEET;\n\
         SPIN:\nmbarrier.test_wait.parity.shared::cta.b64 %q, [%a], 0;\n@!%q bra SPIN;\nMEET:\n{MEET}"
    );
    for functional in [false, true] {
        let how = How { functional, ..TIMED };
        let ran = launched(clustered(|_| {}), &text(&body), [[2, 1, 1], [2, 1, 1]], 32, how);
        let error = ran.map(|_| ()).expect_err("nobody arrives");
        assert!(matches!(&error, SimError::Stopped(fault) if fault.rule == "live"), "{functional}: {error}");
    }
}
