//! `clusterlaunchcontrol`: blocks that run take over the work of clusters whose launches they cancel. Each tile of the grid
//! is worked on once, under every policy, whoever does it.

use sim_core::report::DeviceReport;

use crate::clusters::{How, POLICIES, RANKS, TIMED, clustered, launched};
use crate::machine::module;

/// A module for sm_100a: `%tile` is the block's index, `%answer` and `%object` are places in shared memory, the object
/// one of one arrival, `%p` is true but in thread 0.
fn text(body: &str) -> String {
    let before = "{RANKS}.reg .u32 %tile, %answer, %object, %phase, %x0, %y0, %z0, %rest;\n.reg .b128 %reply;\n.reg .u64 %slot, %l0, %l1;\n\
         mov.u32 %answer, room;\nadd.u32 %object, %answer, 64;\nsetp.ne.u32 %p, %t, 0;\n@%p bra READY;\n\
         mbarrier.init.shared::cta.b64 [%object], 1;\nfence.mbarrier_init.release.cluster;\nREADY:\nbar.sync 0;\n\
         barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nmov.u32 %tile, %ctaid.x;\nmov.u32 %phase, 0;\n";
    let before = before.replace("{RANKS}", RANKS);
    module("", &format!("{before}{body}\nexit;\n"))
        .replace(".version 3.0\n.target sm_20", ".version 8.6\n.target sm_100a")
        .replace(".shared .align 8 .b8 room", ".shared .align 128 .b8 room")
}

/// Thread 0 of each block adds the number of its tile and one to the tile's word.
const WORKS: &str = "mul.wide.u32 %slot, %tile, 4;\nadd.u64 %slot, %slot, %out;\nadd.u32 %b, %tile, 1;\n\
    @!%p red.global.add.u32 [%slot], %b;\n";

/// All threads read the answer; the next request comes after them.
const READS: &str = "WAITS:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%object], %phase;\n@!%q bra WAITS;\n\
    ld.shared.b128 %reply, [%answer];\nfence.proxy.async.shared::cta;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n\
    xor.b32 %phase, %phase, 1;\nclusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %reply;\n";

/// Blocks ask until there is nothing left.
fn steals(request: &str) -> String {
    format!(
        "WORK:\n@%p bra WORKS;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 16;\n{request}\nWORKS:\n{WORKS}{READS}@!%q bra OVER;\n\
         clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %tile, %reply;\nadd.u32 %tile, %tile, %rank;\nbra WORK;\nOVER:\n"
    )
}

const OWN: &str = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%answer], [%object];";
/// By the first block of a cluster, for all of them.
const ALL: &str = "setp.eq.u32 %q, %rank, 0;\n@%q clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%answer], [%object];";

fn ran(body: &str, grid: [u32; 3], cluster: u32, how: How) -> (Vec<u32>, DeviceReport) {
    let ran = launched(clustered(|_| {}), &text(body), [grid, [cluster, 1, 1]], 64, how);
    ran.unwrap_or_else(|e| panic!("{} {}: {e}", how.policy, how.functional))
}

#[test]
fn every_tile_is_worked_on_once_under_every_policy() {
    for (cluster, request) in [(1, OWN), (1, ALL), (2, ALL), (4, ALL)] {
        let body = steals(request);
        // Clusters under some of them: what the blocks of a cluster do together is tried elsewhere.
        let policies =
            if cluster == 1 && request == OWN { &POLICIES[..] } else { &["crs_stack", "mimd"][..] };
        for &policy in policies {
            for functional in [false, true] {
                let how = How { policy, functional, ..TIMED };
                let blocks = 120;
                let (words, report) = ran(&body, [blocks, 1, 1], cluster, how);
                let expected: Vec<u32> = (1..=blocks).collect();
                assert_eq!(words[..blocks as usize], expected, "{policy} {functional} {cluster}");
                assert_eq!(words[blocks as usize], 0, "nothing beyond the grid");
                let cancelled = report.kernels[0].cancelled_blocks;
                assert!(cancelled > 0 && cancelled < u64::from(blocks), "{policy} {functional}: {cancelled}");
                assert_eq!(cancelled % u64::from(cluster), 0, "clusters are cancelled as a whole");
                if !functional {
                    let begun: u64 = report.by_sm.iter().map(|sm| sm.blocks).sum();
                    assert_eq!(begun + cancelled, u64::from(blocks), "a cancelled block does not run");
                }
            }
        }
    }
}

#[test]
fn threads_and_epochs_of_the_host_change_nothing() {
    let body = steals(ALL);
    let mut found = None;
    for (threads, epoch) in [(1, None), (3, None), (2, Some(1)), (4, Some(7))] {
        let (words, report) = ran(&body, [120, 1, 1], 2, How { threads, epoch, ..TIMED });
        let by_sm: Vec<u64> = report.by_sm.iter().map(|sm| sm.blocks).collect();
        let this = (words, report.cycles, report.kernels[0].cancelled_blocks, by_sm);
        assert!(this.2 > 0);
        assert_eq!(*found.get_or_insert_with(|| this.clone()), this, "{threads} {epoch:?}");
    }
}

#[test]
fn an_answer_has_the_index_of_the_first_block_by_axis() {
    // Block by block in the order of dispatch, x first: what is cancelled is the next one that has not begun.
    let body = format!(
        "mov.u32 %x0, %ctaid.x;\nmov.u32 %y0, %ctaid.y;\nmov.u32 %z0, %ctaid.z;\nWORK:\nmad.lo.u32 %tile, %z0, 7, %y0;\nmad.lo.u32 %tile, %tile, 6, %x0;\n\
         @%p bra WORKS;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 16;\n{OWN}\nWORKS:\n{WORKS}{READS}@!%q bra OVER;\n\
         clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%x0, _, %z0, _}}, %reply;\n\
         clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %y0, %reply;\n\
         clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %c, %reply;\n\
         clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %b, %reply;\n\
         setp.ne.u32 %q, %c, %z0;\n@%q trap;\nsetp.ne.u32 %q, %b, %x0;\n@%q trap;\nbra WORK;\nOVER:\n"
    );
    for functional in [false, true] {
        let (words, report) = ran(&body, [6, 7, 9], 1, How { functional, ..TIMED });
        assert_eq!(words[..378], (1..=378).collect::<Vec<u32>>());
        assert!(report.kernels[0].cancelled_blocks > 0);
    }
}

#[test]
fn where_nothing_is_left_the_answer_says_so() {
    // By generic addresses, too.
    let body = format!(
        "cvta.shared.u32 %x0, %answer;\ncvt.u64.u32 %l0, %answer;\ncvta.shared.u64 %l0, %l0;\ncvt.u64.u32 %l1, %object;\ncvta.shared.u64 %l1, %l1;\n\
         st.shared.v2.u64 [%answer], {{-1, -1}};\nfence.proxy.async.shared::cta;\nbar.sync 0;\n@%p bra REST;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 16;\n\
         clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128 [%l0], [%l1];\nREST:\n{READS}\
         selp.u32 %b, 7, 5, %q;\nmov.u64 %slot, %out;\n@!%p st.global.u32 [%slot], %b;\nld.shared.u32 %c, [%answer+12];\n@!%p st.global.u32 [%slot+4], %c;\n"
    )
    .replace("cvta.shared.u32 %x0, %answer;\n", "");
    for functional in [false, true] {
        let (words, report) = ran(&body, [1, 1, 1], 1, How { functional, ..TIMED });
        assert_eq!(words[..2], [5, 0], "not cancelled; the answer was written");
        assert_eq!(report.kernels[0].cancelled_blocks, 0);
    }
}

#[test]
fn a_request_needs_aligned_places_of_the_block() {
    for (change, message) in [
        ("add.u32 %answer, %answer, 8;", "aligned"),
        ("add.u32 %object, %object, 4;", "aligned"),
        ("add.u32 %answer, %answer, 4096;", "shared"),
        // Nobody has made the object.
        ("add.u32 %object, %object, 64;", "mbarrier"),
    ] {
        for functional in [false, true] {
            let body = format!("{change}\n@!%p {OWN}\nbar.sync 0;\n");
            let how = How { functional, ..TIMED };
            let error = launched(clustered(|_| {}), &text(&body), [[1; 3], [1; 3]], 64, how);
            let error = error.map(|_| ()).expect_err(change).to_string();
            assert!(error.contains(message), "{change}: {error}");
        }
    }
}
