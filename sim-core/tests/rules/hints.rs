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
        (memory.l1.hits, memory.l1.misses, memory.l2.hits, memory.l2.misses, memory.dram.reads)
    };
    assert_eq!(found(""), (0, 1, 0, 1, 1));
    assert_eq!(found("prefetch.global.L1 [%own];"), (1, 1, 0, 1, 1));
    assert_eq!(found("prefetchu.L1 [%own];"), (1, 1, 0, 1, 1));
    assert_eq!(found("prefetch.global.L2 [%own];"), (0, 1, 1, 1, 1));
    assert_eq!(found("prefetch.global.L2::evict_last [%own];"), (0, 1, 1, 1, 1));
    assert_eq!(
        found("prefetch.L1 [%own];\nprefetch.L1 [%own];"),
        (2, 1, 0, 1, 1),
        "the second finds the line"
    );
    // Addresses that lie nowhere, and shared ones, ask for nothing.
    assert_eq!(
        found(
            "mov.u64 %w, 12;\nprefetch.global.L1 [%w];\nmov.u64 %w, room;\ncvta.shared.u64 %w, %w;\nprefetch.L1 [%w];"
        ),
        (0, 1, 0, 1, 1)
    );
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
