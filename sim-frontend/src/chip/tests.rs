use serde_json::Value;
use sim_memory::spec::{HalvesSpec, UnifiedSpec};

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
    assert!(
        text.contains("limits.WarpSize: must be between 1 and 32, not 33") && text.contains("chip.yaml:"),
        "{text}"
    );
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
        ("schema", "2", "must be 1, not 2"),
        ("compute_capability", "0.9", "major.minor"),
        ("limits.NumProcessors", "0", "must be between 1 and 1023, not 0"),
        ("limits.NumProcessors", "1024", "must be between 1 and 1023, not 1024"),
        ("limits.MaxResidentThreads", "512", "must be at least MaxThreadsPerBlock"),
        ("limits.MaxResidentThreads", "1544", "must be a multiple of WarpSize"),
        ("limits.MaxResidentThreads", "4096", "must be between 1 and 2048"),
        ("limits.MaxResidentBlocks", "0", "must be between 1 and 2048"),
        (
            "limits.MaxGridSize",
            "[65535, 0, 65535]",
            "limits.MaxGridSize[1]: must be between 1 and 2147483647, not 0",
        ),
        ("limits.NumBarrierIndices", "33", "must be between 1 and 32"),
        ("limits.NumConKernels", "0", "must be between 1 and 4096"),
        ("limits.NumCores", "33", "must be a positive multiple of sm.schedulers"),
        ("limits.MaxMemOpSize", "64", "must be 128, not 64"),
        ("limits.MaxProgSize", "0", "must be between 1 and 4294967294"),
        ("limits.MaxRegSize", "0", "must be between 1 and 1024"),
        ("limits.LocalMemSize", "1048576", "must be between 0 and 524288"),
        ("limits.SharedMemBanks", "16", "must match memory.shared.banks: 16 for half_warps, else 32"),
        ("limits.Level1CacheSize", "1", "must equal memory.l1.size_bytes"),
        ("limits.Level2CacheSize", "1", "must equal memory.l2.size_bytes"),
        ("limits.NumConWarps", "1", "must equal sm.schedulers"),
        ("sm.schedulers", "9", "must be between 1 and 8"),
        ("sm.register_unit", "0", "must be between 1 and 65536"),
        ("clocks.core_mhz", "0", "must be between 0.001 and 100000.0, not 0"),
        ("clocks.dram_mhz", "200000", "must be between 0.001 and 100000.0"),
        ("dispatch.latency", "0", "must be between 1 and 100000"),
        ("memory.l1.size_bytes", "0", "size_bytes may be 0 only with protocol tesla"),
    ] {
        let changed = crate::yaml::with_value(&source, path, value).unwrap_or_else(|e| panic!("{path}: {e}"));
        let found = ChipSpec::load(&changed).expect_err("refused");
        let all = found.iter().map(Diagnostic::render).collect::<Vec<_>>().join("\n");
        assert!(all.contains(reason), "{path}: {value}: {all}");
    }
    let text = errors("name: gtx480", "name: \"a\\e[31mb\"");
    assert!(text.contains("name: must be a text without control characters"), "{text}");
    // Keys that the file leaves to their defaults.
    for (key, reason) in
        [("issue_width: 3", "must be between 1 and 2"), ("issue_width: 0", "must be between 1 and 2")]
    {
        let text = errors("\nsm:\n", &format!("\nsm:\n  {key}\n"));
        assert!(text.contains(reason), "{key}: {text}");
    }
    // Lanes that serve two classes are as many for both.
    let text = errors("fma: {count: 1, per: scheduler}", "fma: {count: 2, per: scheduler, with: alu}");
    assert!(text.contains("`with` must name a unit class with the same `count`"), "{text}");
}

/// Every number of a chip file: its path as JSON has it, and its bounds.
fn numbers(root: &Value, schema: &Value, path: &str, out: &mut Vec<(String, Value, Value)>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return numbers(root, &root["$defs"][name], path, out);
    }
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        numbers(root, choice, path, out);
    }
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        numbers(root, inner, &format!("{path}/{key}"), out);
    }
    if schema["items"].is_object() {
        numbers(root, &schema["items"], &format!("{path}/0"), out);
    }
    // One key of a map stands for all.
    match (path, schema["additionalProperties"].is_object()) {
        ("/sm/units", true) => numbers(root, &schema["additionalProperties"], "/sm/units/alu", out),
        ("/tensor/rates", true) => numbers(root, &schema["additionalProperties"], "/tensor/rates/f16", out),
        ("/tensor/wgmma/rates", true) => {
            numbers(root, &schema["additionalProperties"], "/tensor/wgmma/rates/f16", out);
        }
        ("/tensor/latencies", true) => {
            numbers(root, &schema["additionalProperties"], "/tensor/latencies/default", out);
        }
        ("/memory/dram/timing", true) => {
            numbers(root, &schema["additionalProperties"], "/memory/dram/timing/CL", out);
        }
        _ => {}
    }
    let kinds = schema["type"].as_array().map_or(vec![&schema["type"]], |list| list.iter().collect());
    if kinds.iter().any(|kind| *kind == "integer" || *kind == "number") {
        out.push((path.to_string(), schema["minimum"].clone(), schema["maximum"].clone()));
    }
}

#[test]
fn every_number_has_bounds_and_is_held_to_them() {
    let mut chip = load(GTX480).unwrap_or_else(|e| panic!("{}", e[0].render()));
    // Keys that this chip leaves out.
    chip.sm.shared_of_block = Some(0);
    chip.memory.shared.atomic_interval = Some(1);
    chip.memory.interconnect.spread = 1;
    chip.memory.interconnect.accepted_bytes_per_cycle = Some(1);
    (chip.memory.l1.set_aside_ways, chip.memory.l2.set_aside_ways) = (Some(0), Some(0));
    (chip.memory.l1.dirty_ways, chip.memory.l2.dirty_ways) = (Some(1), Some(1));
    let sizes = UnifiedSpec { size_bytes: 0, shared_bytes: vec![0], carveout_bytes: Some(0) };
    chip.memory.unified = Some(sizes);
    chip.memory.l2_halves = Some(HalvesSpec { latency: 1, copy_ways: 1, sms: 1 });
    let gh200 = include_str!("../../../configs/chips/gh200.yaml");
    let gh200 = load(gh200).unwrap_or_else(|e| panic!("{}", e[0].render()));
    (chip.tensor, chip.cluster) = (gh200.tensor, gh200.cluster);
    (chip.sm.instruction_cache, chip.memory.constant) = (gh200.sm.instruction_cache, gh200.memory.constant);
    chip.memory.l2_fetch_bytes = gh200.memory.l2_fetch_bytes;
    let v100 = include_str!("../../../configs/chips/v100.yaml");
    chip.memory.tlb = load(v100).unwrap_or_else(|e| panic!("{}", e[0].render())).memory.tlb;
    let good = serde_json::to_value(&chip).expect("plain data");
    let schema = schemars::schema_for!(ChipSpec).to_value();
    let mut all = Vec::new();
    numbers(&schema, &schema, "", &mut all);
    assert!(all.len() > 80, "{}", all.len());
    let source = Source::new("chip.yaml", GTX480);
    let found = |value: &Value| crate::yaml::survey_of::<ChipSpec>(&source, value);
    assert!(found(&good).is_empty(), "{:?}", found(&good));
    for (path, least, most) in all {
        assert!(!least.is_null() && !most.is_null(), "{path} has no bounds");
        let name = path[1..].replace("/0", "").replace('/', ".");
        let mut outside = vec![Value::Null];
        outside.push(match most.as_u64() {
            Some(most) => (most + 1).into(),
            None => (most.as_f64().expect("a number") * 1.01).into(),
        });
        if least.as_f64() != Some(0.0) {
            outside.push(match least.as_u64() {
                Some(least) => (least - 1).into(),
                None => 0.into(),
            });
        }
        for value in outside {
            let mut bad = good.clone();
            let slot = bad.pointer_mut(&path).unwrap_or_else(|| panic!("{path} is not in the chip"));
            // What may be left out may be null.
            let optional = [
                "shared_of_block",
                "atomic_interval",
                "carveout_bytes",
                "set_aside_ways",
                "dirty_ways",
                "accepted_bytes_per_cycle",
                "indexed_latency",
                "l2_fetch_bytes",
            ];
            if value.is_null() && optional.iter().any(|key| name.ends_with(key)) {
                continue;
            }
            *slot = value.clone();
            let errors: Vec<String> = found(&bad).iter().map(|error| error.message.clone()).collect();
            let range = format!("must be between {least} and {most}");
            let said = |error: &String| {
                error.starts_with(&name)
                    && (error.contains(&range) || error.contains(&format!("must be {most}")))
            };
            assert!(errors.len() == 1 && errors.iter().all(said), "{name} = {value}: {errors:?}");
        }
    }
}

#[test]
fn tlbs_have_pages_of_powers_of_two() {
    let v100 = include_str!("../../../configs/chips/v100.yaml");
    for (good, bad) in
        [("page_bytes: 2097152", "page_bytes: 2097153"), ("page_bytes: 33554432", "page_bytes: 1000")]
    {
        assert!(v100.contains(good));
        let errors = load(&v100.replace(good, bad)).expect_err("not valid");
        assert!(
            errors[0].message.contains("memory.tlb: entries must be positive, page_bytes a power of two"),
            "{errors:?}"
        );
    }
}

#[test]
fn caches_of_code_and_constants_have_whole_sets() {
    let gh200 = include_str!("../../../configs/chips/gh200.yaml");
    for (good, bad, words) in [
        (
            "bytes: 32768",
            "bytes: 32700",
            "sm.instruction_cache.bytes: must be a multiple of line_bytes × the ways",
        ),
        ("second_ways: 8", "second_ways: 1000", "sm.instruction_cache.second_bytes: must be a multiple"),
        (
            "instruction_bytes: 16",
            "instruction_bytes: 48",
            "sm.instruction_cache.line_bytes: must be a multiple",
        ),
        ("cache: {bytes: 2048", "cache: {bytes: 2000", "memory.constant.cache.bytes: must be a multiple"),
        ("l2_fetch_bytes: 64", "l2_fetch_bytes: 48", "memory.l2_fetch_bytes: must be 32, 64 or 128"),
    ] {
        assert!(gh200.contains(good), "{good}");
        let errors = load(&gh200.replace(good, bad)).expect_err("refused");
        assert!(errors.len() == 1 && errors[0].message.contains(words), "{bad}: {}", errors[0].render());
    }
}

#[test]
fn all_that_is_wrong_with_the_keys_is_said_at_once() {
    let text = GTX480
        .replace("  NumCores: 32", "  NumCors: 32")
        .replace("  NumProcessors: 15", "  NumProcessors: 999999999999")
        .replace("  latency: 16", "  latencie: 16");
    let all = load(&text).expect_err("refused").iter().map(Diagnostic::render).collect::<Vec<_>>().join("\n");
    for words in [
        "there is no key `limits.NumCors`",
        "did you mean `NumCores`?",
        "missing key in `limits`: `NumCores`",
        "limits.NumProcessors: must be between 1 and 1023, not 999999999999",
    ] {
        assert!(all.contains(words), "{words}: {all}");
    }
    let errors = load("schema: 1\nname: a\nlimits: {WarpSize: x}\n").expect_err("refused");
    let all = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(all.contains("limits.WarpSize: must be between 1 and 32, not \"x\""), "{all}");
    assert!(all.contains("missing keys: `description`, `compute_capability`"), "{all}");
    // One key twice, in either style.
    for text in [
        GTX480.replace("  NumCores: 32", "  NumCores: 32\n  NumCores: 32"),
        "limits: {NumCores: 1, NumCores: 2}\n".into(),
    ] {
        let all = load(&text).expect_err("refused").iter().map(ToString::to_string).collect::<String>();
        assert!(all.contains("is given twice in one mapping"), "{all}");
    }
}
