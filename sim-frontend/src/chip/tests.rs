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
