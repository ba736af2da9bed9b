//! Hints to the caches: `prefetch`, `discard`, `applypriority`.

use sim_core::device::Options;

use crate::machine::{Run, chip, device_with, module};

/// Runs `body` on one warp whose words of `out` no cache holds; results and report.
fn cold(body: &str) -> (Vec<u32>, sim_core::report::DeviceReport) {
    let chip = chip(|c| c.memory.copies_fill_l2 = false);
    let device = device_with(chip, "crs_stack", |o| Options { allow_newer_isa: true, ..o });
    let text = module("", body).replace(".version 3.0\n.target sm_20", ".version 7.4\n.target sm_80");
    let mut run = Run::new(device, &text, false, 64);
    let (context, out) = (run.context, run.out);
    let bytes: Vec<u8> = (100..164u32).flat_map(u32::to_le_bytes).collect();
    run.device.context(context).expect("it exists").write(out, &bytes);
    run.launch(1, 32, false).expect("it fits");
    run.wait().unwrap_or_else(|e| panic!("{body}: {e}"));
    (run.words(), run.report())
}

#[test]
fn prefetches_bring_lines_where_they_say() {
    // Long enough for DRAM, and `%c` is needed after it.
    let wait = "mov.u32 %c, 0;\nWAIT:\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %p, %c, 200;\n@%p bra WAIT;\n";
    let load = "ld.global.u32 %r, [%own];\nadd.u32 %r, %r, 1000;\n";
    let expected: Vec<u32> = (1100..1132).collect();
    let found = |hint: &str| {
        let (words, report) = cold(&format!("{hint}\n{wait}{load}"));
        assert_eq!(words[..32], expected, "{hint}");
        let memory = report.memory;
        ([memory.l1, memory.l2].map(|of| [of.hits, of.merges, of.misses]), memory.dram.reads)
    };
    assert_eq!(found(""), ([[0, 0, 1], [0, 0, 1]], 1));
    assert_eq!(found("prefetch.global.L1 [%own];"), ([[1, 0, 1], [0, 0, 1]], 1));
    assert_eq!(found("prefetchu.L1 [%own];"), ([[1, 0, 1], [0, 0, 1]], 1));
    assert_eq!(found("prefetch.global.L2 [%own];"), ([[0, 0, 1], [1, 0, 1]], 1));
    assert_eq!(found("prefetch.global.L2::evict_last [%own];"), ([[0, 0, 1], [1, 0, 1]], 1));
    assert_eq!(
        found("prefetch.L1 [%own];\nprefetch.L1 [%own];"),
        ([[1, 1, 1], [0, 0, 1]], 1),
        "the second waits for the line"
    );
    // Addresses that lie nowhere, and shared ones, ask for nothing.
    assert_eq!(
        found(
            "mov.u64 %w, 12;\nprefetch.global.L1 [%w];\nmov.u64 %w, room;\ncvta.shared.u64 %w, %w;\nprefetch.L1 [%w];"
        ),
        ([[0, 0, 1], [0, 0, 1]], 1)
    );
}

#[test]
fn loads_that_allocate_nothing_go_past_l1() {
    let twice = |load: &str| {
        let (words, report) = cold(&format!(
            "{load}.u32 %a, [%own];\nadd.u32 %a, %a, 1;\n{load}.u32 %b, [%own];\nadd.u32 %r, %a, %b;\n"
        ));
        assert_eq!(words[..32], (0..32).map(|i| 2 * (100 + i) + 1).collect::<Vec<u32>>()[..], "{load}");
        (report.memory.l1.hits, report.memory.l2.hits)
    };
    assert_eq!(twice("ld.global"), (1, 0));
    assert_eq!(twice("ld.global.L1::evict_last"), (1, 0));
    assert_eq!(twice("ld.global.L1::no_allocate"), (0, 1));
    assert_eq!(twice("ld.global.nc.L1::no_allocate.L2::128B"), (0, 1));
}

#[test]
fn discarded_lines_are_not_written_back() {
    let store = "add.u32 %a, %t, 7;\nst.global.u32 [%own+128], %a;\nmembar.gl;\n";
    let load = "ld.global.cg.u32 %r, [%own+128];\n";
    let (words, _) = cold(&format!("{store}{load}"));
    assert_eq!(words[..32], (7..39).collect::<Vec<u32>>()[..]);
    // PTX leaves the bytes undefined; here they are what device memory holds.
    let discard = "discard.global.L2 [%out+128], 128;\nmembar.gl;\n";
    let (words, report) = cold(&format!("{store}{discard}{load}"));
    assert_eq!(words[..32], (132..164).collect::<Vec<u32>>()[..]);
    assert_eq!(report.memory.l2.misses, 1);
    let (words, _) = cold(&format!("{store}applypriority.global.L2::evict_normal [%out+128], 128;\n{load}"));
    assert_eq!(words[..32], (7..39).collect::<Vec<u32>>()[..]);
}

/// Writes of the block are awaited by a fence of device scope, what other threads have prefetched is not.
#[test]
fn fences_do_not_wait_for_hints_of_other_threads() {
    let waited = |other: &str| {
        let body = format!(
            "setp.ge.u32 %p, %t, 32;\n@%p bra OTHER;\nmov.u32 %b, 0;\nWAIT:\nadd.u32 %b, %b, 1;\nsetp.lt.u32 %q, %b, 1;\n\
             @%q bra WAIT;\nmov.u32 %b, %clock;\nmembar.gl;\nmov.u32 %c, %clock;\nsub.u32 %r, %c, %b;\nbra OVER;\n\
             OTHER:\n{other}\nmov.u32 %b, 0;\nSTAY:\nadd.u32 %b, %b, 1;\nsetp.lt.u32 %q, %b, 99;\n@%q bra STAY;\nOVER:"
        );
        let mut run = Run::new(
            device_with(chip(|c| c.limits.num_processors = 1), "crs_stack", |o| o),
            &module("", &body),
            false,
            4096,
        );
        run.launch(1, 64, false).expect("it fits");
        run.wait().unwrap_or_else(|e| panic!("it ends: {e}"));
        run.words()[0]
    };
    let none = waited("");
    let stored = waited("st.global.u32 [%own+4096], %t;");
    assert!(stored > none + 50, "{none} {stored}");
    assert_eq!(waited("prefetch.global.L2 [%own+4096];"), none);
}

/// Lines that a table has and a stream of others passes by: misses of L2 where the table is read again. One SM and
/// one partition, so that what is replaced is known.
fn misses_after_a_stream(table: &str, stream: &str, set_aside_ways: Option<u32>) -> u64 {
    let chip = chip(|c| {
        c.memory.copies_fill_l2 = false;
        c.limits.num_processors = 1;
        c.memory.l2.set_aside_ways = set_aside_ways;
    });
    // Half of L2, and three times all of it.
    let l2 = u64::from(chip.memory.l2.size_bytes) * u64::from(chip.memory.partitions);
    let (lines, streamed) = (l2 / 128 / 2, 3 * l2 / 128);
    let body = format!(
        ".reg .u64 %first, %last, %keep, %gone, %at;\n.reg .u32 %k, %v;\n\
         createpolicy.fractional.L2::evict_last.b64 %last;\ncreatepolicy.fractional.L2::evict_first.b64 %first;\n\
         createpolicy.range.L2::evict_last.L2::evict_first.b64 %keep, [%out], {table_bytes}, {all_bytes};\n\
         createpolicy.fractional.L2::evict_last.b64 %gone, 0f3E800000;\n\
         mul.wide.u32 %w, %t, 128;\nadd.u64 %w, %w, %out;\n\
         mov.u32 %k, 0;\nmov.u64 %at, %w;\nFILL:\n{table}\nadd.u32 %r, %r, %v;\nadd.u64 %at, %at, 4096;\nadd.u32 %k, %k, 32;\n\
         setp.lt.u32 %p, %k, {lines};\n@%p bra FILL;\n\
         mov.u32 %k, 0;\nSTREAM:\n{stream}\nadd.u32 %r, %r, %v;\nadd.u64 %at, %at, 4096;\nadd.u32 %k, %k, 32;\n\
         setp.lt.u32 %p, %k, {streamed};\n@%p bra STREAM;\nmembar.gl;\n\
         mov.u32 %k, 0;\nmov.u64 %at, %w;\nAGAIN:\nld.global.cg.u32 %v, [%at];\nadd.u32 %r, %r, %v;\nadd.u64 %at, %at, 4096;\nadd.u32 %k, %k, 32;\n\
         setp.lt.u32 %p, %k, {lines};\n@%p bra AGAIN;\n",
        table_bytes = lines * 128,
        all_bytes = (lines + streamed) * 128,
    );
    let text = module("", &body).replace(".version 3.0\n.target sm_20", ".version 7.4\n.target sm_80");
    let device = device_with(chip, "crs_stack", |o| Options { allow_newer_isa: true, ..o });
    let mut run = Run::new(device, &text, false, ((lines + streamed) * 32) as usize);
    run.launch(1, 32, false).expect("it fits");
    run.wait().unwrap_or_else(|e| panic!("{table} {stream}: {e}"));
    run.report().memory.l2.misses - lines - streamed
}

#[test]
fn eviction_priorities_decide_what_stays_in_l2() {
    let plain = "ld.global.cg.u32 %v, [%at];";
    let with = |policy: &str| format!("ld.global.cg.L2::cache_hint.u32 %v, [%at], {policy};");
    let lost = misses_after_a_stream(plain, plain, None);
    // Half of L2 is within three quarters of its ways.
    let kept = misses_after_a_stream(&with("%last"), plain, None);
    assert!(lost > 1000 && kept * 20 < lost, "{kept} of {lost}");
    // Lines that are to go first leave the others alone.
    let passed = misses_after_a_stream(plain, &with("%first"), None);
    assert!(passed * 2 < lost, "{passed} of {lost}");
    // By addresses both at once.
    let ranged = misses_after_a_stream(&with("%keep"), &with("%keep"), None);
    assert!(ranged * 20 < lost, "{ranged} of {lost}");
    // A quarter of the lines; a set-aside of less ways; none.
    let quarter = misses_after_a_stream(&with("%gone"), plain, None);
    assert!(quarter * 100 > lost * 65 && quarter * 100 < lost * 85, "{quarter} of {lost}");
    let less = misses_after_a_stream(&with("%last"), plain, Some(2));
    assert!(less > kept + 100 && less < lost, "{kept} {less} {lost}");
    assert_eq!(misses_after_a_stream(&with("%last"), plain, Some(0)), lost);
    // Stores and atomics have priorities too.
    let stored =
        misses_after_a_stream("mov.u32 %v, 1;\nst.global.L2::cache_hint.u32 [%at], %v, %last;", plain, None);
    assert!(stored < 100, "{stored}");
    let added = misses_after_a_stream(
        "red.global.add.L2::cache_hint.u32 [%at], 1, %last;\nmov.u32 %v, 0;",
        plain,
        None,
    );
    assert!(added < 100, "{added}");
}
