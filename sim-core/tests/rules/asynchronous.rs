//! `cp.async`, `mbarrier`, `barrier.cluster`, and collectives of several groups of a warp, timed and
//! functional.

use sim_core::device::Options;
use sim_core::error::SimError;

use crate::machine::{Run, chip, device_with, module};

const POLICIES: [&str; 5] = ["crs_stack", "convergence_barriers", "multi_path", "dual_path", "mimd"];

fn run(body: &str, policy: &str, blocks: u32, block: u32, functional: bool) -> Result<Vec<u32>, SimError> {
    let device = device_with(chip(|_| {}), policy, |o| Options { allow_newer_isa: true, ..o });
    let text = module("", body).replace(".version 3.0\n.target sm_20", ".version 8.6\n.target sm_90");
    let mut run = Run::new(device, &text, false, 512);
    run.launch(blocks, block, functional)?;
    run.wait()?;
    Ok(run.words())
}

/// Words of `out`, the same in both modes under every policy.
fn words(body: &str, block: u32) -> Vec<u32> {
    let mut found: Option<Vec<u32>> = None;
    for policy in POLICIES {
        for functional in [false, true] {
            let words = run(body, policy, 1, block, functional);
            let words = words.unwrap_or_else(|e| panic!("{policy} {functional}: {e}\n{body}"));
            assert_eq!(found.get_or_insert_with(|| words.clone()), &words, "{policy} {functional}: {body}");
        }
    }
    found.expect("there are policies")
}

fn refused(body: &str, block: u32, message: &str) {
    for functional in [false, true] {
        let error = run(body, "mimd", 1, block, functional).expect_err(body).to_string();
        assert!(error.contains(message), "{error}");
    }
}

/// `%w`: the thread's eight bytes of `room`; `%x`: its two words of `out` from word 128 on, where it
/// has written its index and a thousand more than that.
const COPIED: &str = "mov.u64 %w, room;\nmul.wide.u32 %x, %t, 8;\nadd.u64 %w, %w, %x;\nadd.u64 %x, %x, %out;\n\
                      add.u32 %a, %t, 1000;\nst.global.v2.u32 [%x+512], {%t, %a};\nmembar.gl;\n\
                      st.shared.v2.u32 [%w], {%t, %t};\n";

#[test]
fn copies_bring_bytes_past_the_registers_and_fill_up_with_zeros() {
    let whole = format!(
        "{COPIED}cp.async.ca.shared.global [%w], [%x+512], 8;\ncp.async.wait_all;\n\
         ld.shared.v2.u32 {{%a, %b}}, [%w];\nadd.u32 %r, %a, %b;\n"
    );
    assert_eq!(words(&whole, 64)[..64], (0..64).map(|t| 2 * t + 1000).collect::<Vec<_>>());
    // Of eight bytes, two times the lane modulo four are read.
    let part = format!(
        "{COPIED}and.b32 %c, %t, 3;\nshl.b32 %c, %c, 1;\ncp.async.ca.shared.global [%w], [%x+512], 8, %c;\n\
         cp.async.wait_all;\nld.shared.v2.u32 {{%a, %b}}, [%w];\nmad.lo.u32 %r, %b, 100000, %a;\n"
    );
    let expected = |t: u32| match t % 4 {
        0 => 0,
        3 => ((t + 1000) & 0xffff) * 100_000 + t,
        _ => t,
    };
    // Lane 3 and every fourth one after it read six bytes: the low half of the second word.
    let expected: Vec<u32> = (0..64).map(|t| if t % 4 == 1 { t & 0xffff } else { expected(t) }).collect();
    assert_eq!(words(&part, 64)[..64], expected);
    // A lane whose predicate says so reads nothing, wherever its address leads.
    let ignored = format!(
        "{COPIED}setp.gt.u32 %p, %t, 20;\nadd.u64 %x, %x, 512;\n@%p mov.u64 %x, 0;\n\
         cp.async.ca.shared.global [%w+4], [%x], 4, %p;\ncp.async.wait_all;\nld.shared.u32 %r, [%w+4];\n"
    );
    assert_eq!(words(&ignored, 64)[..64], (0..64).map(|t| if t > 20 { 0 } else { t }).collect::<Vec<_>>());
}

#[test]
fn a_thread_waits_for_all_but_its_newest_groups() {
    // What the older group copied is there; both are in the end.
    let body = format!(
        "{COPIED}cp.async.ca.shared.global [%w], [%x+516], 4;\ncp.async.commit_group;\n\
         cp.async.ca.shared.global [%w+4], [%x+516], 4;\ncp.async.commit_group;\n\
         cp.async.wait_group 1;\nld.shared.u32 %r, [%w];\ncp.async.wait_group 0;\n\
         ld.shared.u32 %a, [%w+4];\nadd.u32 %r, %r, %a;\n"
    );
    assert_eq!(words(&body, 64)[..64], (0..64).map(|t| 2 * t + 2000).collect::<Vec<_>>());
}

#[test]
fn barriers_do_not_wait_for_copies_and_waits_do() {
    let between = |wait: &str| {
        let body = format!(
            "{COPIED}bar.sync 0;\nmov.u32 %b, %clock;\ncp.async.cg.shared.global [%w], [%out+1024], 16;\n\
             cp.async.commit_group;\n{wait}\nmov.u32 %c, %clock;\nsub.u32 %r, %c, %b;\ncp.async.wait_all;\n"
        );
        let body = body.replace("mul.wide.u32 %x, %t, 8", "mul.wide.u32 %x, %t, 16");
        run(&body, "crs_stack", 1, 32, false).expect("it runs")[0]
    };
    let [barrier, newest, all] =
        ["bar.sync 0;", "cp.async.wait_group 1;", "cp.async.wait_group 0;"].map(between);
    assert!(barrier * 5 < all && newest * 5 < all, "{barrier} {newest} {all}");
}

#[test]
fn a_block_stays_until_its_copies_have_arrived() {
    // Sixteen blocks an SM, one after another in the same places; nobody waits for the copies. Shared
    // memory of a block is its own: what a later block finds there is zeros.
    let body = "mov.u64 %w, room;\nmul.wide.u32 %x, %t, 16;\nadd.u64 %w, %w, %x;\nld.shared.u32 %r, [%w];\n\
                mul.wide.u32 %x, %i, 16;\nadd.u64 %x, %x, %out;\nst.global.u32 [%own], %r;\n\
                cp.async.cg.shared.global [%w], [%out+26624], 16;\nexit;\n";
    for policy in POLICIES {
        let device = device_with(chip(|c| c.limits.num_processors = 1), policy, |o| Options {
            allow_newer_isa: true,
            ..o
        });
        let text = module("", body).replace(".version 3.0\n.target sm_20", ".version 8.6\n.target sm_90");
        let mut run = Run::new(device, &text, false, 8192);
        let context = run.device.context(run.context).expect("it exists");
        context.write(run.out + 26624, &[0xff; 16]);
        run.launch(200, 32, false).expect("it fits");
        run.wait().unwrap_or_else(|e| panic!("{policy}: {e}"));
        let words = run.words();
        assert!(words[..6400].iter().all(|word| *word == 0), "{policy}");
    }
}

#[test]
fn copies_from_or_to_nowhere_are_faults() {
    let copy =
        |operands: &str| format!("{COPIED}cp.async.ca.shared.global {operands};\ncp.async.wait_all;\n");
    refused(&copy("[%w], [%x+600000], 8"), 32, "is not in any allocation");
    refused(&copy("[%w+4096], [%x+512], 8"), 32, "shared address");
    refused(&copy("[%w+4], [%x+512], 8"), 32, "misaligned");
    refused(&copy("[%w], [%x+516], 8"), 32, "misaligned");
    refused(&copy("[%w], [%x+512], 4, %n"), 32, "src-size 32 exceeds cp-size 4");
}

#[test]
fn threads_meet_at_mbarrier_objects() {
    // Thread 0 of each warp writes; all arrive and wait, then read what the other warp wrote.
    let body = "mov.u64 %w, room;\nsetp.ne.u32 %p, %t, 0;\n@%p bra READY;\nmbarrier.init.shared.b64 [%w], 64;\nREADY:\n\
                bar.sync 0;\n.reg .b64 %state;\nshl.b32 %a, %t, 2;\nmov.u32 %b, room;\nadd.u32 %b, %b, %a;\n\
                st.shared.u32 [%b+8], %t;\nmbarrier.arrive.shared.b64 %state, [%w];\n\
                SPIN:\nmbarrier.test_wait.shared.b64 %q, [%w], %state;\n@!%q bra SPIN;\n\
                xor.b32 %c, %a, 128;\nmov.u32 %b, room;\nadd.u32 %b, %b, %c;\nld.shared.u32 %r, [%b+8];\n";
    assert_eq!(words(body, 64)[..64], (0..64).map(|t| t ^ 32).collect::<Vec<_>>());
    // Two phases by parity, with bytes awaited in the second; counts of states.
    let body = ".reg .b64 %state;\nmov.u64 %w, room;\nsetp.ne.u32 %p, %t, 0;\n@%p bra DONE;\n\
                mbarrier.init.shared::cta.b64 [%w], 3;\nmbarrier.arrive.noComplete.shared.b64 %state, [%w], 2;\n\
                mbarrier.pending_count.b64 %r, %state;\nmbarrier.test_wait.parity.shared.b64 %p, [%w], 0;\n@%p add.u32 %r, %r, 1000;\n\
                mbarrier.arrive.shared.b64 _, [%w];\nmbarrier.test_wait.parity.shared.b64 %p, [%w], 0;\n@%p add.u32 %r, %r, 10;\n\
                cvta.shared.u64 %x, %w;\nmbarrier.arrive.expect_tx.b64 %state, [%x], 64;\nmbarrier.arrive_drop.b64 _, [%x], 2;\n\
                mbarrier.try_wait.b64 %p, [%x], %state, %n;\n@%p add.u32 %r, %r, 2000;\n\
                mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%w], 64;\nmbarrier.try_wait.b64 %p, [%x], %state;\n@%p add.u32 %r, %r, 100;\n\
                mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%w];\nmbarrier.test_wait.parity.relaxed.cta.b64 %p, [%x], 0;\n\
                @%p add.u32 %r, %r, 500;\nmbarrier.inval.shared.b64 [%w];\nDONE:\n";
    assert_eq!(words(body, 32)[0], 3 + 10 + 100 + 500);
}

/// Twelve warps wait for one that loops: without timing they look now and then, not as often as it loops.
#[test]
fn waits_at_mbarrier_objects_leave_their_turns_to_others() {
    let body = "mov.u64 %w, room;\nsetp.eq.u32 %p, %t, 0;\n@%p mbarrier.init.shared.b64 [%w], 1;\nbar.sync 0;\n\
                setp.lt.u32 %q, %t, 32;\n@!%q bra WAIT;\n\
                LOOP:\nadd.u32 %r, %r, 1;\nsetp.lt.u32 %q, %r, 20000;\n@%q bra LOOP;\n\
                @%p mbarrier.arrive.shared.b64 _, [%w];\nbra END;\n\
                WAIT:\nmbarrier.try_wait.parity.shared.b64 %q, [%w], 0;\n@!%q bra WAIT;\nEND:";
    for policy in POLICIES {
        let device = device_with(chip(|_| {}), policy, |o| Options { allow_newer_isa: true, ..o });
        let text = module("", body).replace(".version 3.0\n.target sm_20", ".version 8.6\n.target sm_90");
        let mut run = Run::new(device, &text, false, 512);
        run.launch(1, 416, true).expect("it fits");
        run.wait().unwrap_or_else(|e| panic!("{policy}: {e}"));
        let instructions = run.report().kernels[0].warp_instructions;
        // Threads of their own loop one by one.
        let loops = if policy == "mimd" { 32 } else { 1 };
        assert!((60_000..80_000).contains(&(instructions / loops)), "{policy}: {instructions}");
        assert!(run.words()[..32].iter().all(|word| *word == 20_000), "{policy}");
    }
}

#[test]
fn what_mbarrier_leaves_undefined_is_a_fault() {
    let one =
        |text: &str| format!("mov.u64 %w, room;\nsetp.ne.u32 %p, %t, 0;\n@%p bra DONE;\n{text}\nDONE:\n");
    refused(&one("mbarrier.arrive.shared.b64 _, [%w];"), 32, "no initialized mbarrier object");
    refused(&one("mbarrier.init.shared.b64 [%w+4], 1;"), 32, "misaligned");
    refused(&one("mbarrier.init.shared.b64 [%w+4096], 1;"), 32, "shared address 0x1000");
    refused(&one("mbarrier.init.b64 [%out], 1;"), 32, "is not in the shared memory window");
    refused(
        &one("mbarrier.init.shared.b64 [%w], 0;"),
        32,
        "arrival count of an mbarrier object is 1 to 1048575",
    );
    let twice = "mbarrier.init.shared.b64 [%w], 1;\nmbarrier.arrive.shared.b64 _, [%w], 2;";
    refused(&one(twice), 32, "arrive count 2 is not between 1 and the pending count 1");
    // The object goes while a copy is under way that arrives there.
    let gone = "mbarrier.init.shared.b64 [%w], 1;\nst.global.u32 [%out+512], %t;\nmembar.gl;\n\
                cp.async.ca.shared.global [%w+64], [%out+512], 4;\ncp.async.mbarrier.arrive.shared.b64 [%w];\n\
                mbarrier.inval.shared.b64 [%w];\ncp.async.wait_all;";
    let error = run(&one(gone), "crs_stack", 1, 32, false).expect_err("nobody awaits it").to_string();
    assert!(
        error.contains("on completion of the asynchronous copies")
            && error.contains("cp.async.mbarrier.arrive"),
        "{error}"
    );
}

#[test]
fn copies_arrive_at_mbarrier_objects() {
    for (noinc, count) in [("", 1), (".noinc", 33)] {
        // One arrival of thread 0 by itself; those of the copies come on top, or are counted in.
        let body = format!(
            "mov.u64 %w, room;\nsetp.ne.u32 %p, %t, 0;\n@%p bra READY;\nmbarrier.init.shared.b64 [%w], {count};\nREADY:\n\
             add.u32 %a, %t, 5;\nst.global.u32 [%own+512], %a;\nmembar.gl;\nbar.sync 0;\nmul.wide.u32 %x, %t, 4;\n\
             add.u64 %x, %x, %w;\ncp.async.ca.shared.global [%x+8], [%own+512], 4;\n\
             cp.async.mbarrier.arrive{noinc}.shared.b64 [%w];\nbar.sync 0;\n@!%p mbarrier.arrive.shared.b64 _, [%w];\n\
             SPIN:\nmbarrier.test_wait.parity.shared.b64 %q, [%w], 0;\n@!%q bra SPIN;\n\
             xor.b32 %a, %t, 31;\nmul.wide.u32 %x, %a, 4;\nadd.u64 %x, %x, %w;\nld.shared.u32 %r, [%x+8];\n"
        );
        assert_eq!(words(&body, 32)[..32], (0..32).map(|t| (t ^ 31) + 5).collect::<Vec<_>>(), "{noinc}");
    }
}

#[test]
fn bulk_copies_are_counted_at_their_object() {
    // 1040 bytes: two accesses of 32 pieces and one of one; lane 0 copies, all read.
    let body = "mov.u32 %a, 0;\nmov.u64 %x, %own;\nFILL:\nadd.u32 %b, %t, %a;\nst.global.u32 [%x+512], %b;\nadd.u64 %x, %x, 128;\n\
                add.u32 %a, %a, 32;\nsetp.lt.u32 %p, %a, 260;\n@%p bra FILL;\nmembar.gl;\nbar.sync 0;\nmov.u64 %w, room;\n\
                setp.ne.u32 %p, %t, 0;\n@%p bra READY;\nmbarrier.init.shared.b64 [%w], 1;\n\
                mbarrier.arrive.expect_tx.shared.b64 _, [%w], 1040;\nmov.u32 %c, 1040;\n\
                cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%w+16], [%out+512], %c, [%w];\nREADY:\nbar.sync 0;\n\
                WAIT:\nmbarrier.try_wait.parity.shared.b64 %q, [%w], 0;\n@!%q bra WAIT;\n\
                mul.lo.u32 %a, %t, 8;\nmul.wide.u32 %x, %a, 4;\nadd.u64 %x, %x, %w;\nld.shared.u32 %r, [%x+16];\n\
                ld.shared.u32 %a, [%w+1052];\nmad.lo.u32 %r, %a, 1000, %r;\n";
    assert_eq!(words(body, 32)[..32], (0..32).map(|t| 259_000 + 8 * t).collect::<Vec<u32>>());
    let bulk = |operands: &str| {
        format!(
            "mov.u64 %w, room;\nsetp.ne.u32 %p, %t, 0;\n@%p bra DONE;\nmbarrier.init.shared.b64 [%w], 1;\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes {operands};\n\
             WAIT:\nmbarrier.try_wait.parity.shared.b64 %q, [%w], 0;\n@!%q bra WAIT;\nDONE:\n"
        )
    };
    refused(&bulk("[%w+16], [%out], 24, [%w]"), 32, "multiples of 16");
    refused(&bulk("[%w+8], [%out], 32, [%w]"), 32, "multiples of 16");
    refused(&bulk("[%w+4080], [%out], 32, [%w]"), 32, "shared address");
    refused(&bulk("[%w+16], [%out+2032], 32, [%w]"), 32, "is not in any allocation");
    refused(&bulk("[%w+16], [%out], 32, [%w+64]"), 32, "no initialized mbarrier object");
    // Nobody expects the bytes: the phase does not end.
    let error = run(&bulk("[%w+16], [%out], 32, [%w]"), "crs_stack", 1, 32, false).expect_err("for ever");
    assert!(error.to_string().contains("no thread can make progress"), "{error}");
}

#[test]
fn threads_arrive_at_the_barrier_of_their_cluster_and_wait_later() {
    // Warp 1 goes on between; warp 2 ends without ever arriving.
    let body = "setp.ge.u32 %p, %t, 64;\n@%p bra END;\nmov.u32 %b, room;\nshl.b32 %a, %t, 2;\nadd.u32 %c, %b, %a;\n\
                st.shared.u32 [%c], %t;\nbarrier.cluster.arrive.aligned;\nadd.u32 %r, %t, 100;\n\
                barrier.cluster.wait.aligned;\nxor.b32 %a, %a, 128;\nadd.u32 %c, %b, %a;\nld.shared.u32 %a, [%c];\n\
                add.u32 %r, %r, %a;\nbarrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n\
                st.shared.u32 [%c], %r;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nld.shared.u32 %r, [%c];\nEND:\n";
    let expected: Vec<u32> = (0..64).map(|t: u32| t + 100 + (t ^ 32)).collect();
    assert_eq!(words(body, 96)[..64], expected);
    refused("barrier.cluster.wait;\n", 32, "without a preceding barrier.cluster.arrive");
    refused(
        "barrier.cluster.arrive;\nbarrier.cluster.arrive;\n",
        32,
        "executed twice without barrier.cluster.wait",
    );
    // Half of the threads of a warp never arrive and do not end.
    let stuck = "setp.ge.u32 %p, %t, 32;\n@%p bar.sync 1;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n@!%p bar.sync 1, 128;\n";
    let error = run(stuck, "mimd", 1, 64, false).expect_err("nobody goes on").to_string();
    assert!(
        error.contains("waits at the cluster barrier") || error.contains("waits at barrier 1"),
        "{error}"
    );
}

#[test]
fn groups_of_a_warp_that_name_themselves_run_a_collective_each() {
    // Tiles of eight rotate their values; the mask differs from tile to tile.
    let body = "and.b32 %a, %t, 24;\nmov.u32 %b, 255;\nshl.b32 %b, %b, %a;\nadd.u32 %c, %t, 1;\n\
                shfl.sync.idx.b32 %r, %t, %c, 6175, %b;\n";
    let expected: Vec<u32> = (0..32).map(|t| t / 8 * 8 + (t + 1) % 8).collect();
    assert_eq!(words(body, 32)[..32], expected);
    let body =
        "and.b32 %a, %t, 16;\nmov.u32 %b, 0xffff;\nshl.b32 %b, %b, %a;\nredux.sync.add.u32 %r, %t, %b;\n";
    assert_eq!(words(body, 32)[..32], (0..32).map(|t| if t < 16 { 120 } else { 376 }).collect::<Vec<_>>());
    // Two masks that share a lane.
    let body =
        "setp.lt.u32 %p, %t, 16;\nselp.b32 %b, 0x1ffff, 0xffff0000, %p;\nvote.sync.any.pred %q, %p, %b;\n";
    let error = run(body, "crs_stack", 1, 32, false).expect_err("lane 16 is in both").to_string();
    assert!(error.contains("mismatched member masks"), "{error}");
}

#[test]
fn cache_policies_of_ranges_are_values_like_others() {
    let body = "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %x, [%out], 64, %n;\n\
                ld.global.L2::cache_hint.u32 %a, [%own], %x;\nadd.u32 %r, %t, %a;\n";
    assert_eq!(words(body, 32)[..32], (0..32).collect::<Vec<_>>());
}
