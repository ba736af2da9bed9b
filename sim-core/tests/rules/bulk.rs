//! Bulk copies: to and from shared memory, between blocks of a cluster, to several of them at once, with reductions.

use sim_frontend::chip::TmaSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::load::Module;

use crate::clusters::{How, MEET, POLICIES, RANKS, TIMED, clustered, launched, refused, text, words};

/// `%object` in each block waits for one arrival and bytes; `%far` is that of the next block. `%src` is `out` from word
/// 512 on, where each thread has written its index and a thousand more. `%p`: not thread 0.
const OBJECTS: &str = ".reg .u32 %object, %far, %size;\n.reg .u64 %src;\n.reg .b16 %mask;\nmov.u32 %object, room;\nadd.u32 %object, %object, 2048;\n\
    mapa.shared::cluster.u32 %far, %object, %next;\nadd.u64 %src, %out, 2048;\nadd.u32 %a, %i, 1000;\nst.global.u32 [%own+2048], %a;\n\
    st.shared.u32 [%at], %i;\nst.shared.u32 [%at+1024], 0;\nmov.u32 %size, 128;\nsetp.ne.u32 %p, %t, 0;\n@%p bra READY;\n\
    mbarrier.init.shared::cta.b64 [%object], 1;\nfence.mbarrier_init.release.cluster;\nREADY:\nfence.proxy.async;\n";

const WAIT: &str =
    "SPIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%object], 0;\n@!%q bra SPIN;\n";

const EXPECT: &str = "@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], %size;\n";

#[test]
fn a_load_may_go_to_several_blocks_at_once() {
    // Block 0 sends block 2's words to blocks 0, 1 and 3; block 2 gets none.
    let body = format!(
        "{RANKS}{OBJECTS}{MEET}setp.eq.u32 %q, %rank, 2;\n@%q bra OVER;\n{EXPECT}\
         @%p bra WAITS;\nsetp.ne.u32 %q, %rank, 0;\n@%q bra WAITS;\nmov.b16 %mask, 11;\nadd.u64 %src, %src, 256;\nadd.u32 %at, %at, 1024;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%at], [%src], %size, [%object], %mask;\n\
         sub.u32 %at, %at, 1024;\nWAITS:\n{WAIT}OVER:\nld.shared.u32 %r, [%at+1024];\n{MEET}"
    );
    let found = words(&body, 4, 4, 32);
    for i in 0..128u32 {
        let expected = if i / 32 == 2 { 0 } else { 1064 + i % 32 };
        assert_eq!(found[i as usize], expected, "thread {i}");
    }
}

#[test]
fn a_load_or_a_copy_of_shared_memory_may_go_to_another_block() {
    for copy in [
        // Its words from global memory, or from shared memory.
        "mul.wide.u32 %w, %rank, 128;\nadd.u64 %src, %src, %w;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%there+1024], [%src], %size, [%far];",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%there+1024], [%at], %size, [%far];",
    ] {
        let body = format!(
            "{RANKS}{OBJECTS}{MEET}{EXPECT}@%p bra WAITS;\n{copy}\nWAITS:\n{WAIT}ld.shared.u32 %r, [%at+1024];\n{MEET}"
        );
        let found = words(&body, 4, 4, 32);
        let more = if copy.contains("global") { 1000 } else { 0 };
        for i in 0..128u32 {
            assert_eq!(found[i as usize], (i + 96) % 128 + more, "thread {i}: {copy}");
        }
    }
    // Two words of each lane are added in the next block, element by element.
    let body = format!(
        "{RANKS}{OBJECTS}st.shared.u32 [%at+1024], 7;\nfence.proxy.async;\n{MEET}{EXPECT}@%p bra WAITS;\n\
         cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%there+1024], [%at], %size, [%far];\n\
         WAITS:\n{WAIT}ld.shared.u32 %r, [%at+1024];\n{MEET}"
    );
    let found = words(&body, 4, 4, 32);
    assert_eq!(found[..128], (0..128).map(|i| (i + 96) % 128 + 7).collect::<Vec<u32>>());
}

/// One device holds what a multicast address names: each is one buffer.
#[test]
fn shared_memory_is_copied_and_added_to_multicast_addresses() {
    for (copy, expected) in [
        ("multimem.cp.async.bulk", (|i| i) as fn(u32) -> u32),
        ("multimem.cp.reduce.async.bulk", |i| 2 * i + 1000),
    ] {
        let operation = if copy.contains("reduce") { ".add.u32" } else { "" };
        let body = format!(
            "{RANKS}{OBJECTS}membar.gl;\nfence.proxy.async;\nbar.sync 0;\n@%p bra OVER;\nmul.wide.u32 %w, %i, 4;\nadd.u64 %w, %w, %src;\n\
             {copy}.global.shared::cta.bulk_group{operation} [%w], [%at], %size;\ncp.async.bulk.commit_group;\n\
             cp.async.bulk.wait_group 0;\nOVER:\nbar.sync 0;\nld.volatile.global.u32 %r, [%own+2048];\n"
        );
        let of = |version: &str| text(&body).replace(".version 8.6", &format!(".version {version}"));
        for policy in POLICIES {
            for functional in [false, true] {
                let how = How { policy, functional, ..TIMED };
                let ran = launched(clustered(|_| {}), &of("9.1"), [[2, 1, 1], [1, 1, 1]], 32, how);
                let (words, _) = ran.unwrap_or_else(|e| panic!("{policy} {functional}: {e}\n{body}"));
                assert_eq!(
                    words[..64],
                    (0..64).map(expected).collect::<Vec<u32>>(),
                    "{copy} {policy} {functional}"
                );
            }
        }
        let early = Module::build(&Source::new("early.ptx", &of("9.0")), false).map(|_| ());
        let told: String = early.expect_err("too early").iter().map(|error| error.render()).collect();
        assert!(told.contains("requires PTX ISA 9.1 or later"), "{told}");
    }
}

#[test]
fn shared_memory_is_copied_and_added_to_global_memory() {
    // Once read the source may change, once over the destination holds it.
    let body = format!(
        "{RANKS}{OBJECTS}bar.sync 0;\n@%p bra OVER;\nmul.wide.u32 %w, %i, 4;\nadd.u64 %w, %w, %src;\n\
         cp.async.bulk.global.shared::cta.bulk_group [%w], [%at], %size;\ncp.async.bulk.commit_group;\n\
         cp.async.bulk.wait_group.read 0;\nst.shared.u32 [%at], 77;\nst.shared.u32 [%at+124], 78;\ncp.async.bulk.wait_group 0;\nOVER:\n\
         bar.sync 0;\nld.volatile.global.u32 %r, [%own+2048];\n"
    );
    assert_eq!(words(&body, 2, 1, 32)[..64], (0..64).collect::<Vec<u32>>());
    for (operation, start, add, expected) in [
        ("add.u32", "add.u32 %a, %i, 1000", "%i", (|i| 2 * i + 1000) as fn(u32) -> u32),
        ("max.s32", "mov.u32 %a, 40", "%i", |i| i.max(40)),
        ("and.b32", "mov.u32 %a, 12", "%i", |i| i & 12),
        ("inc.u32", "mov.u32 %a, 9", "%i", |i| if 9 >= i { 0 } else { 10 }),
        // 1.0 and 2.0 twice.
        ("add.noftz.f16", "mov.b32 %a, 0x3c003c00", "0x40004000", |_| 0x4200_4200),
        ("add.f32", "mov.b32 %a, 0x3f800000", "0x40000000", |_| 0x4040_0000),
        // 4 and -2 with 2 and 3; 2 and 1 with 1 and 4.
        ("min.f16", "mov.b32 %a, 0x4400c000", "0x40004200", |_| 0x4000_c000),
        ("max.bf16", "mov.b32 %a, 0x40003f80", "0x3f804080", |_| 0x4000_4080),
    ] {
        let body = format!(
            "{RANKS}{OBJECTS}{start};\nst.global.u32 [%own+2048], %a;\nmov.b32 %b, {add};\nst.shared.u32 [%at], %b;\nmembar.gl;\nfence.proxy.async;\nbar.sync 0;\n@%p bra OVER;\n\
             mul.wide.u32 %w, %i, 4;\nadd.u64 %w, %w, %src;\n\
             cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation} [%w], [%at], %size;\ncp.async.bulk.commit_group;\n\
             cp.async.bulk.wait_group 0;\nOVER:\nbar.sync 0;\nld.volatile.global.u32 %r, [%own+2048];\n"
        );
        let wanted: Vec<u32> = (0..64).map(expected).collect();
        assert_eq!(words(&body, 2, 1, 32)[..64], wanted, "{operation}");
    }
}

#[test]
fn a_wait_leaves_the_newest_groups() {
    let cycles = |wait: &str| {
        let body = format!(
            "{RANKS}{OBJECTS}mov.u32 %size, 2048;\nbar.sync 0;\n@%p bra OVER;\n\
             cp.async.bulk.global.shared::cta.bulk_group [%src], [%at], 16;\ncp.async.bulk.commit_group;\n\
             cp.async.bulk.global.shared::cta.bulk_group [%src], [%at], %size;\ncp.async.bulk.commit_group;\n\
             mov.u32 %b, %clock;\n{wait}\nmov.u32 %c, %clock;\nsub.u32 %r, %c, %b;\nOVER:\n"
        );
        launched(clustered(|_| {}), &text(&body), [[1; 3], [1; 3]], 32, TIMED).expect("it runs").0[0]
    };
    let [all, read, one, two] = ["0", ".read 0", "1", "2"].map(|wait| match wait.strip_prefix(".read") {
        Some(newest) => cycles(&format!("cp.async.bulk.wait_group.read{newest};")),
        None => cycles(&format!("cp.async.bulk.wait_group {wait};")),
    });
    assert!(two < 20 && two < one && one < all && two < read && read < all, "{two} {one} {read} {all}");
}

#[test]
fn the_unit_copies_so_many_bytes_a_cycle_after_its_latency() {
    let cycles = |latency: u32, rate: u32, size: u32| {
        let body = format!(
            "{RANKS}{OBJECTS}mov.u32 %size, {size};\nbar.sync 0;\n@%p bra OVER;\n\
             mov.u32 %b, %clock;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], %size;\n\
             cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%at], [%src], %size, [%object];\n{WAIT}\
             mov.u32 %c, %clock;\nsub.u32 %r, %c, %b;\nOVER:\n"
        );
        let chip = clustered(|c| (c.tma.latency, c.tma.bytes_per_cycle) = (latency, rate));
        launched(chip, &text(&body), [[1; 3], [1; 3]], 32, TIMED).expect("it runs").0[0]
    };
    let base = cycles(1, 64, 16);
    let later = cycles(501, 64, 16);
    assert!(later.abs_diff(base + 500) < 60, "{base} {later}");
    // 2 KiB a byte a cycle.
    let slow = cycles(1, 1, 2048);
    assert!((2048 - 128..2048 + base + 300).contains(&slow), "{slow}");
}

#[test]
fn prefetches_and_empty_copies_change_nothing() {
    let body = format!(
        "{RANKS}{OBJECTS}bar.sync 0;\ncp.async.bulk.prefetch.L2.global [%src], %size;\nmov.u32 %size, 0;\n\
         cp.async.bulk.global.shared::cta.bulk_group [%src], [%object], %size;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n\
         ld.global.u32 %r, [%own+2048];\n"
    );
    assert_eq!(words(&body, 2, 1, 32)[..64], (1000..1064).collect::<Vec<u32>>());
}

#[test]
fn bulk_copies_of_wrong_sizes_places_and_masks_are_faults() {
    let body = |copy: &str| format!("{RANKS}{OBJECTS}{MEET}@%p bra OVER;\n{copy}\nOVER:\n{MEET}");
    let multicast = |mask: u32| {
        body(&format!(
            "mov.b16 %mask, {mask};\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%at], [%src], %size, [%object], %mask;"
        ))
    };
    refused(&multicast(4), 2, 2, 32, "the mask 0x4 of a multicast");
    refused(&multicast(0), 2, 2, 32, "the mask 0x0 of a multicast");
    let load = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%there], [%src], %size, [%object];";
    refused(&body(load), 2, 2, 32, "the mbarrier object in that of block");
    let store = |to: &str, from: &str, size: &str| {
        body(&format!(
            "mov.u32 %size, {size};\ncp.async.bulk.global.shared::cta.bulk_group {to}, {from}, %size;"
        ))
    };
    refused(&store("[%src]", "[%at]", "24"), 2, 2, 32, "must be multiples of 16");
    refused(&store("[%src+8]", "[%at]", "32"), 2, 2, 32, "must be multiples of 16");
    refused(&store("[%src]", "[%at+4000]", "128"), 2, 2, 32, "is outside the 4096 bytes");
    refused(&store("[%src+100000]", "[%at]", "128"), 2, 2, 32, "is not in any allocation");
}

/// A copy that is asked for when the one before it has made its only access keeps the distance too.
#[test]
fn the_unit_asks_for_so_many_bytes_a_cycle_and_keeps_accesses_apart() {
    let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%at], [%src], %size, [%object];\n\
                add.u32 %a, %a, 1;\nadd.u32 %a, %a, 1;\n";
    let of = |copies: usize, bytes_per_cycle: u32, access_interval: u32| {
        let body = format!(
            "{RANKS}{OBJECTS}{MEET}@%p bra OVER;\nmov.u32 %size, {};\n\
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], %size;\nmov.u32 %size, 128;\n\
             mov.u32 %b, %clock;\n{}{WAIT}mov.u32 %c, %clock;\nsub.u32 %r, %c, %b;\nOVER:\n{MEET}",
            128 * copies,
            copy.repeat(copies)
        );
        let chip = clustered(|c| c.tma = TmaSpec { latency: 1, bytes_per_cycle, access_interval });
        launched(chip, &text(&body), [[1, 1, 1]; 2], 32, TIMED).expect("it runs").0[0]
    };
    for (bytes_per_cycle, access_interval, apart) in [(1, 1, 128), (128, 300, 300), (2, 90, 90)] {
        let [one, two] = [1, 2].map(|copies| of(copies, bytes_per_cycle, access_interval));
        let more = two.abs_diff(one);
        assert!(
            (apart - 40..apart + 60).contains(&more),
            "{bytes_per_cycle} {access_interval}: {one}, {two}"
        );
    }
}

#[test]
fn reports_of_bulk_copies_are_the_same_for_any_threads_and_epochs() {
    let body = format!(
        "{RANKS}{OBJECTS}{MEET}mov.u32 %size, 512;\n{EXPECT}@%p bra WAITS;\nsetp.ne.u32 %q, %rank, 1;\n@%q bra WAITS;\nmov.b16 %mask, 15;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%at], [%src], %size, [%object], %mask;\nWAITS:\n{WAIT}\
         ld.shared.u32 %r, [%at];\n@%p bra OVER;\ncp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%src], [%at], %size;\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nOVER:\n{MEET}"
    );
    let run = |threads, epoch| {
        let how = How { threads, epoch, ..TIMED };
        let (words, report) =
            launched(clustered(|_| {}), &text(&body), [[8, 1, 1], [4, 1, 1]], 64, how).expect("it runs");
        (words, format!("{report:?}"))
    };
    let one = run(1, None);
    for (threads, epoch) in [(1, Some(1)), (2, None), (4, Some(3)), (3, Some(1))] {
        let other = run(threads, epoch);
        assert!(one == other, "{threads} {epoch:?}");
    }
}
