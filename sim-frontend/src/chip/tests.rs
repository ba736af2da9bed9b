use super::*;

const GTX480: &str = include_str!("../../../configs/chips/gtx480.yaml");

fn load(text: &str) -> Result<ChipSpec, Vec<Diagnostic>> {
    ChipSpec::load(&Source::new("chip.yaml", text))
}

#[test]
fn gtx480_is_what_the_guide_says() {
    let chip = load(GTX480).unwrap_or_else(|e| panic!("{}", e[0].render()));
    let l = &chip.limits;
    // CUDA C++ Programming Guide, technical specifications for compute capability 2.x.
    assert_eq!((l.warp_size, l.max_resident_blocks, l.max_resident_threads), (32, 8, 1536));
    assert_eq!((l.reg_file_size, l.max_reg_size, l.shared_mem_size), (32768, 63, 49152));
    assert_eq!(l.max_grid_size, [65535, 65535, 65535]);
    assert_eq!((chip.capability(), l.num_processors, chip.clocks().core_khz), (20, 15, 700_000));
}

#[test]
fn occupancy_by_hand() {
    let chip = load(GTX480).unwrap_or_else(|e| panic!("{}", e[0].render()));
    // threads, registers, shared → blocks and what limits them
    let cases = [
        (256, 20, 0, 6, "warps"),     // 48 warps / 8
        (64, 10, 0, 8, "blocks"),     // 2 warps a block
        (256, 32, 0, 4, "registers"), // 8 warps × 1024 registers; 32768 / 8192
        (256, 20, 16384, 3, "shared memory"),
        (1024, 21, 0, 1, "warps"),
        (192, 33, 0, 5, "registers"), // 33 × 32 = 1056 → 1088 a warp; 6528 a block
    ];
    for (threads, registers, shared, blocks, by) in cases {
        assert_eq!(
            chip.occupancy(chip.block_needs(threads, registers, shared)),
            (blocks, by),
            "{threads} {registers}"
        );
    }
}

fn errors(from: &str, to: &str) -> String {
    assert!(GTX480.contains(from), "{from}");
    let errors = load(&GTX480.replacen(from, to, 1)).expect_err("refused");
    errors.iter().map(Diagnostic::render).collect::<Vec<_>>().join("\n")
}

#[test]
fn impossible_values_are_diagnostics_with_a_place() {
    let text = errors("WarpSize: 32", "WarpSize: 33");
    assert!(text.contains("limits.WarpSize: must lie in 1..=32") && text.contains("chip.yaml:"), "{text}");
    assert!(text.contains("^^^^^^^^"), "{text}");
    let text = errors("WarpSize: 32", "WrapSize: 32");
    assert!(text.contains("did you mean `WarpSize`?"), "{text}");
    let text = errors("WarpSize: 32", "WarpSize: many");
    assert!(text.contains("chip.yaml:"), "{text}");
    let text = errors("ways: 4", "ways: 5");
    assert!(text.contains("memory.l1"), "{text}");
}

/// Every value that no chip can have is refused by its path and reason.
#[test]
fn each_check_refuses_what_it_is_for() {
    let source = Source::new("chip.yaml", GTX480);
    for (path, value, reason) in [
        ("schema", "2", "this version reads schema 1"),
        ("compute_capability", "0.9", "major.minor"),
        ("limits.NumProcessors", "0", "must lie in 1..=1023"),
        ("limits.NumProcessors", "1024", "must lie in 1..=1023"),
        ("limits.MaxResidentThreads", "512", "a block of MaxThreadsPerBlock must fit"),
        ("limits.MaxResidentThreads", "1544", "a multiple of WarpSize"),
        ("limits.MaxResidentThreads", "4096", "at most 64 warps"),
        ("limits.MaxResidentBlocks", "0", "must be positive"),
        ("limits.MaxGridSize", "[65535, 0, 65535]", "every axis must be positive"),
        ("limits.NumBarrierIndices", "33", "must lie in 1..=32"),
        ("limits.NumConKernels", "0", "must be positive"),
        ("limits.NumCores", "33", "share the cores evenly"),
        ("limits.MaxMemOpSize", "64", "at most one line"),
        ("limits.MaxProgSize", "0", "must be positive"),
        ("limits.MaxRegSize", "0", "must be positive"),
        ("limits.LocalMemSize", "1048576", "must not exceed 512 KiB"),
        ("limits.SharedMemBanks", "16", "half_warps has 16, others 32"),
        ("limits.Level1CacheSize", "1", "differs from memory.l1.size_bytes"),
        ("limits.Level2CacheSize", "1", "differs from memory.l2.size_bytes"),
        ("limits.NumConWarps", "1", "differs from sm.schedulers"),
        ("sm.schedulers", "9", "must lie in 1..=8"),
        ("sm.register_unit", "0", "must be positive"),
        ("clocks.core_mhz", "0", "must be positive and below 100 GHz"),
        ("clocks.dram_mhz", "200000", "must be positive and below 100 GHz"),
        ("dispatch.latency", "0", "latencies and rate must be positive"),
        ("memory.l1.size_bytes", "0", "works without this cache"),
    ] {
        let changed = crate::yaml::with_value(&source, path, value).unwrap_or_else(|e| panic!("{path}: {e}"));
        let found = ChipSpec::load(&changed).expect_err("refused");
        let all = found.iter().map(Diagnostic::render).collect::<Vec<_>>().join("\n");
        assert!(all.contains(reason), "{path}: {value}: {all}");
    }
    // Keys that the file leaves to their defaults.
    for (key, reason) in [("issue_width: 3", "must be 1 or 2"), ("issue_width: 0", "must be 1 or 2")] {
        let text = errors("\nsm:\n", &format!("\nsm:\n  {key}\n"));
        assert!(text.contains(reason), "{key}: {text}");
    }
    // Lanes that serve two classes are as many for both.
    let text = errors("fma: {count: 1, per: scheduler}", "fma: {count: 2, per: scheduler, with: alu}");
    assert!(text.contains("`with` must name a class of as many units"), "{text}");
}
