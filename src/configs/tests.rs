//! Shipped chips against what NVIDIA's programming guide says of their compute capabilities.

use sim_frontend::form::Form;
use sim_frontend::isa::{TABLE, UnitClass};
use sim_memory::vocabulary::ScalarType;

use super::*;

fn load(name: &str) -> ChipSpec {
    chip(name, &[]).unwrap_or_else(|e| panic!("{name}: {}", e[0].render())).0
}

/// "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide (1.x and 2.x:
/// version 4.2; 3.0: 10.2; 5.2 on: 12.9): compute capability, grids at a time, grid in x and z, threads
/// of a block, blocks, warps and threads of an SM, registers of an SM and a thread, bytes of shared
/// memory of an SM and a block, its banks, bytes of local memory of a thread, instructions of a kernel,
/// CUDA cores of an SM.
#[rustfmt::skip]
const GUIDE: [(&str, [u64; 15]); 15] = [
    ("1.0", [1,   65535,      1,     512,  8,  24, 768,  8192,  124, 16384,  16384,  16, 16384,  2_000_000,   8]),
    ("1.3", [1,   65535,      1,     512,  8,  32, 1024, 16384, 124, 16384,  16384,  16, 16384,  2_000_000,   8]),
    ("2.0", [16,  65535,      65535, 1024, 8,  48, 1536, 32768, 63,  49152,  49152,  32, 524288, 512_000_000, 32]),
    ("2.1", [16,  65535,      65535, 1024, 8,  48, 1536, 32768, 63,  49152,  49152,  32, 524288, 512_000_000, 48]),
    ("3.0", [16,  2147483647, 65535, 1024, 16, 64, 2048, 65536, 63,  49152,  49152,  32, 524288, 512_000_000, 192]),
    ("5.2", [32,  2147483647, 65535, 1024, 32, 64, 2048, 65536, 255, 98304,  49152,  32, 524288, 512_000_000, 128]),
    ("6.1", [32,  2147483647, 65535, 1024, 32, 64, 2048, 65536, 255, 98304,  49152,  32, 524288, 512_000_000, 128]),
    ("7.0", [128, 2147483647, 65535, 1024, 32, 64, 2048, 65536, 255, 98304,  98304,  32, 524288, 512_000_000, 64]),
    ("7.5", [128, 2147483647, 65535, 1024, 16, 32, 1024, 65536, 255, 65536,  65536,  32, 524288, 512_000_000, 64]),
    ("8.0", [128, 2147483647, 65535, 1024, 32, 64, 2048, 65536, 255, 167936, 166912, 32, 524288, 512_000_000, 64]),
    ("8.6", [128, 2147483647, 65535, 1024, 16, 48, 1536, 65536, 255, 102400, 101376, 32, 524288, 512_000_000, 128]),
    ("8.9", [128, 2147483647, 65535, 1024, 24, 48, 1536, 65536, 255, 102400, 101376, 32, 524288, 512_000_000, 128]),
    ("9.0", [128, 2147483647, 65535, 1024, 32, 64, 2048, 65536, 255, 233472, 232448, 32, 524288, 512_000_000, 128]),
    ("10.0", [128, 2147483647, 65535, 1024, 32, 64, 2048, 65536, 255, 233472, 232448, 32, 524288, 512_000_000, 128]),
    ("12.0", [128, 2147483647, 65535, 1024, 24, 48, 1536, 65536, 255, 102400, 101376, 32, 524288, 512_000_000, 128]),
];

#[test]
fn chips_are_what_the_guide_says_of_their_compute_capability() {
    for (name, _) in CHIPS {
        let chip = load(name);
        assert_eq!(chip.name, *name);
        let capability = &chip.compute_capability;
        let (_, guide) =
            GUIDE.iter().find(|(cc, _)| cc == capability).unwrap_or_else(|| panic!("{capability}"));
        let l = &chip.limits;
        let own = [
            u64::from(l.num_con_kernels),
            u64::from(l.max_grid_size[0]),
            u64::from(l.max_grid_size[2]),
            u64::from(l.max_threads_per_block),
            u64::from(l.max_resident_blocks),
            u64::from(l.max_resident_threads / 32),
            u64::from(l.max_resident_threads),
            u64::from(l.reg_file_size),
            u64::from(l.max_reg_size),
            u64::from(l.shared_mem_size),
            u64::from(chip.shared_of_block()),
            u64::from(l.shared_mem_banks),
            l.local_mem_size,
            l.max_prog_size,
            u64::from(l.num_cores),
        ];
        assert_eq!(own, *guide, "{name}");
        let axis = l.max_threads_per_block;
        assert_eq!(
            (l.max_block_size, l.warp_size, l.const_mem_size),
            ([axis, axis, 64], 32, 65536),
            "{name}"
        );
        assert_eq!((l.max_grid_size[1], l.num_barrier_indices), (65535, 16), "{name}");
        let blocks: u64 = l.max_grid_size.iter().map(|n| u64::from(*n)).product();
        assert_eq!(l.max_blocks_per_grid, blocks, "{name}");
        // The oldest capability lacks the instructions of the newest and the other way round.
        assert_eq!(chip.isa, chip.compute_capability, "{name}");
    }
    for (capability, _) in GUIDE {
        let is = |(name, _): &(&str, &str)| load(name).compute_capability == capability;
        assert!(CHIPS.iter().any(is), "no chip has {capability}");
    }
}

/// Worked out from the rules of the guide's occupancy calculator: chip, threads of a block, registers
/// of a thread, bytes of shared memory; blocks of an SM, and what limits them.
#[rustfmt::skip]
const OCCUPANCY: [(&str, u32, u32, u32, u32, &str); 38] = [
    ("8800gtx", 256, 10, 4096, 3, "warps"),       // 24 / 8
    ("8800gtx", 192, 16, 0, 2, "registers"),      // 6 × 512 = 3072; 8192 / 3072
    ("8800gtx", 96, 20, 0, 3, "registers"),       // 3 warps count as 4: 2560; 8192 / 2560
    ("gtx280", 256, 16, 2100, 4, "warps"),        // 2100 → 2560 bytes would allow 6
    ("gtx280", 128, 33, 0, 3, "registers"),       // 4 × 1056 = 4224 → 4608; 16384 / 4608
    ("gtx280", 512, 16, 9000, 1, "shared memory"),// 9216 bytes
    ("gtx480", 256, 20, 0, 6, "warps"),
    ("gtx480", 192, 33, 0, 5, "registers"),       // 1056 → 1088; 15 warps of each of 2 parts: 30 / 6
    ("gtx480", 256, 21, 12000, 4, "shared memory"), // 12032 bytes; registers: 23 × 2 / 8 = 5
    ("gtx560ti", 768, 20, 0, 2, "warps"),
    ("gtx560ti", 128, 63, 0, 4, "registers"),     // 2016 → 2048; 8 × 2 / 4
    ("gtx680", 256, 32, 0, 8, "warps"),
    ("gtx680", 256, 33, 0, 6, "registers"),       // 1056 → 1280; 12 × 4 / 8
    ("gtx680", 96, 40, 0, 16, "blocks"),          // registers: 12 × 4 / 3 = 16 too
    ("gtx680", 128, 20, 4000, 12, "shared memory"), // 4096 bytes
    ("gtx980", 256, 32, 0, 8, "warps"),
    ("gtx980", 64, 32, 0, 32, "blocks"),
    ("gtx980", 1024, 40, 0, 1, "registers"),      // 12 × 4 / 32
    ("gtx980", 128, 24, 6145, 15, "shared memory"), // 6400 bytes
    ("gtx1080ti", 256, 168, 0, 1, "registers"),   // 5376; 3 × 4 / 8
    ("gtx1080ti", 32, 255, 0, 8, "registers"),    // 8160 → 8192; 2 × 4
    ("v100", 256, 33, 0, 6, "registers"),
    ("v100", 1024, 64, 98304, 1, "registers"),    // 2048; 8 × 4 / 32, and shared memory 1 too
    ("v100", 64, 72, 0, 14, "registers"),         // 2304; 7 × 4 / 2
    ("rtx2080ti", 256, 64, 0, 4, "warps"),
    ("rtx2080ti", 64, 32, 4097, 15, "shared memory"), // 4352 bytes
    ("a100", 128, 32, 0, 16, "warps"),
    ("a100", 256, 40, 20480, 6, "registers"),     // 12 × 4 / 8; 21504 bytes would allow 7
    ("a100", 512, 65, 0, 1, "registers"),         // 2080 → 2304; 7 × 4 / 16
    ("rtx3080", 256, 32, 0, 6, "warps"),
    ("rtx3080", 96, 48, 0, 13, "registers"),      // 1536; 10 × 4 / 3
    ("rtx3080", 128, 40, 9000, 10, "shared memory"), // 9000 + 1024 → 10112
    ("rtx4090", 64, 32, 0, 24, "blocks"),
    ("rtx4090", 192, 32, 16384, 5, "shared memory"), // 17408 bytes
    ("h100", 256, 32, 0, 8, "warps"),
    ("h100", 384, 168, 0, 1, "registers"),        // 5376; 3 × 4 / 12
    ("h100", 64, 40, 7168, 24, "registers"),      // 12 × 4 / 2; 8192 bytes would allow 28
    ("h100", 1024, 64, 200000, 1, "registers"),   // as on v100
];

#[test]
fn occupancy_by_hand() {
    for (name, threads, registers, shared, blocks, by) in OCCUPANCY {
        let chip = load(name);
        let found = chip.occupancy(chip.block_needs(threads, registers, shared));
        assert_eq!(found, (blocks, by), "{name}: {threads} threads, {registers} registers, {shared} bytes");
    }
}

#[test]
fn chips_extend_chips() {
    let folder = std::env::temp_dir().join(format!("warpsim-extends-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    let of = |name: &str, set: &[(&str, &str)]| chip(&folder.join(name).display().to_string(), set);
    let words = |name: &str, set: &[(&str, &str)]| {
        of(name, set).map_or_else(
            |e| e.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            |_| String::new(),
        )
    };
    write(
        "small.yaml",
        "extends: v100\nname: small\nlimits: {NumProcessors: 8}\nmemory:\n  l1: {hit_latency: 40}\n",
    );
    write("smaller.yaml", "extends: small.yaml\nname: smaller\nlimits:\n  NumProcessors: 4\n");
    let (small, _) = of("small.yaml", &[]).expect("it fits");
    let v100 = load("v100");
    assert_eq!((small.limits.num_processors, small.memory.l1.hit_latency), (8, 40));
    assert_eq!(
        (small.limits.reg_file_size, &small.memory.dram),
        (v100.limits.reg_file_size, &v100.memory.dram)
    );
    let (smaller, _) = of("smaller.yaml", &[("memory.l1.mshrs", "7")]).expect("it fits");
    assert_eq!((smaller.name.as_str(), smaller.limits.num_processors), ("smaller", 4));
    assert_eq!((smaller.memory.l1.hit_latency, smaller.memory.l1.mshrs), (40, 7));
    // What is wrong is said of the file that says it.
    write("wrong.yaml", "extends: small.yaml\nlimits:\n  WarpSize: 33\n");
    let error = words("wrong.yaml", &[]);
    assert!(error.contains("wrong.yaml:3:3") && error.contains("must be between 1 and 32"), "{error}");
    write("unknown.yaml", "extends: small.yaml\nlimits:\n  WrapSize: 32\n");
    let error = words("unknown.yaml", &[]);
    assert!(error.contains("unknown.yaml:3:3") && error.contains("WrapSize"), "{error}");
    write("round.yaml", "extends: round.yaml\n");
    assert!(words("round.yaml", &[]).contains("circular `extends`"), "{}", words("round.yaml", &[]));
    write("nothing.yaml", "extends: v10\n");
    let error = words("nothing.yaml", &[]);
    assert!(error.contains("nothing.yaml:1:10") && error.contains("there is no chip"), "{error}");
    std::fs::remove_dir_all(folder).expect("removed");
}

/// PTX runs as it is written before compute capability 5, and cleaned up from there on.
#[test]
fn programs_are_cleaned_up_from_capability_5_on() {
    for (name, _) in CHIPS {
        let chip = load(name);
        assert_eq!(chip.assembler.clean_up, chip.capability() >= 50, "{name}");
    }
}

/// Chips are compared by the same rule: one launch latency for all.
#[test]
fn every_chip_has_the_same_launch_latency() {
    for (name, _) in CHIPS {
        assert_eq!(load(name).dispatch.launch_latency, 5000, "{name}");
    }
}

#[test]
fn the_smallest_chip_of_a_capability_comes_first() {
    for (sm, first) in [(21, "gtx560ti"), (35, "gtx980"), (61, "gtx1080ti"), (90, "h100")] {
        assert_eq!(chips_that_fit(&Needs::capability(sm)).first(), Some(&first), "sm_{sm}");
    }
    assert_eq!(chips_that_fit(&Needs::capability(90)), ["h100", "gh200", "h200", "b200", "rtx5090"]);
    assert_eq!(chips_that_fit(&Needs::capability(100)), ["b200", "rtx5090"]);
    assert_eq!(chips_that_fit(&Needs::capability(120)), ["rtx5090"]);
    assert!(chips_that_fit(&Needs::capability(121)).is_empty());
    let large = Needs { shared: 120_000, ..Needs::default() };
    assert_eq!(chips_that_fit(&large), ["a100", "h100", "gh200", "h200", "b200"]);
}

/// Every executed instruction of control flow, barriers and collectives has a rule of its own: it does not cost
/// what the last rule, that of integer arithmetic, says.
#[test]
fn control_and_collectives_have_costs_of_their_own() {
    for (name, text) in ISAS {
        let costs = IsaCosts::load(&Source::new(name, text)).expect("a shipped table");
        for entry in TABLE.iter().filter(|entry| entry.unit == UnitClass::Control && entry.executed()) {
            let unit = costs.cost(&Form::plain(entry.root, ScalarType::B32)).unit;
            assert_eq!(
                unit,
                UnitClass::Control,
                "configs/isa/{name}.yaml: name `{}` in a rule of `unit: control`",
                entry.name
            );
        }
    }
}

#[test]
fn a_file_that_was_read_gives_the_chips_that_its_text_gives() {
    let sets: &[&[(&str, &str)]] = &[
        &[],
        &[("memory.l2.hit_latency", "300")],
        &[("clocks.core_mhz", "900"), ("sm.branch_latency", "9"), ("name", "mine")],
        &[("memory.protocol", "volta")],
        &[("memory.copies_fill_l2", "false"), ("memory.dram.timing.CL", "13")],
        &[("compute_capability", "7.0")],
        &[("isa", "2.0")],
        // Wrong, or left to the text.
        &[("memory.l2.hit_latency", "-1")],
        &[("memory.l2.hit_latency", "99999999999")],
        &[("memory.l2.hit_latencies", "1")],
        &[("memory.l2", "1")],
        &[("memory.protocol", "none")],
        &[("limits.NumCores", "7")],
        &[("memory.dram.standard", "none")],
        &[("limits.MaxGridSize", "[7, 7, 7]")],
    ];
    let mut quick = 0;
    for (name, _) in CHIPS {
        let file = ChipFile::read(name).unwrap_or_else(|e| panic!("{}", e[0].render()));
        // The first is made of the text.
        let _ = file.chip(&[]);
        for set in sets {
            let said = |errors: Vec<Diagnostic>| errors.iter().map(Diagnostic::render).collect::<Vec<_>>();
            assert_eq!(file.chip(set).map_err(said), chip(name, set).map_err(said), "{name} {set:?}");
            let tree =
                file.tree.get().and_then(Option::as_ref).unwrap_or_else(|| panic!("{name} has no tree"));
            quick += usize::from(ChipSpec::with(tree, set).is_some());
        }
    }
    assert!(quick >= 5 * CHIPS.len(), "{quick} chips were made of trees");
}
