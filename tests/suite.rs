//! Every workload and variant, as the command runs them: timed, on several threads, functional; every workload thread by
//! thread and fully checked; and the exit statuses.

mod common;

use common::{json, warpsim};

/// (workload, variant) of everything that `warpsim workloads` lists and that ends under every
/// policy; nothing there lacks an expectation.
fn everything() -> Vec<(String, String)> {
    let listed = json(&warpsim(&["workloads", "--json"]));
    let text = |v: &serde_json::Value| v.as_str().expect("a text").to_string();
    let mut out = Vec::new();
    for workload in listed.as_array().expect("a list") {
        let name = text(&workload["name"]);
        assert!(!workload["expects"].as_array().expect("a list").is_empty(), "{name} expects nothing");
        if workload["termination"] != "always" {
            continue;
        }
        for variant in workload["variants"].as_array().expect("a list") {
            out.push((name.clone(), text(variant)));
        }
    }
    assert!(out.len() >= 60, "{} variants", out.len());
    out
}

/// The chip that a workload runs on: the oldest one, but for products of matrices, whose arithmetic it does not have, and
/// for clusters.
fn chip_of(workload: &str) -> &'static str {
    match workload {
        "hgemm_wmma"
        | "hgemm_mma"
        | "igemm"
        | "mma_rate"
        | "tf32gemm"
        | "sparse_gemm"
        | "implicit_gemm_conv"
        | "flash_attention"
        | "flash_attention_128" => "a100",
        "hgemm_wgmma" | "hgemm_tma" | "flash_tma" | "wgmma_rate" | "dsmem_chase" | "dsmem_histogram"
        | "fp8gemm" | "splitk_cluster" | "tma_copies" => "h100",
        _ => "gtx480",
    }
}

/// A figure of a report, which is there.
fn number(value: &serde_json::Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

/// One variant of each workload, the `nth` around the end: tests that take another one each leave none out.
fn one_of_each(nth: usize) -> Vec<(String, String)> {
    let everything = everything();
    let workloads = everything.chunk_by(|a, b| a.0 == b.0);
    workloads.map(|variants| variants[nth % variants.len()].clone()).collect()
}

fn all_pass(what: Vec<(String, String)>, options: &[&str]) {
    for (workload, variant) in what {
        let mut args = vec!["run", &workload, "--chip", chip_of(&workload), "--variant", &variant];
        args.extend(["--allow-newer-isa", "--json"]);
        args.extend(options);
        let output = warpsim(&args);
        let report = json(&output);
        let context =
            format!("{workload} {variant} {options:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(report["result"], "pass", "{context}");
        assert_eq!(output.status.code(), Some(0), "{context}");
    }
}

#[test]
fn every_workload_passes_and_reports_are_the_same_on_any_number_of_threads() {
    for (workload, variant) in everything() {
        let args = ["run", &workload, "--chip", chip_of(&workload), "--variant", &variant];
        let args = [&args[..], &["--allow-newer-isa", "--json"]].concat();
        let once = warpsim(&args);
        assert_eq!(json(&once)["result"], "pass", "{workload} {variant}");
        let threads = [&args[..], &["--threads", "3"]].concat();
        assert_eq!(once.stdout, warpsim(&threads).stdout, "{workload} {variant}: three threads");
        let report = json(&once);
        let n = |v: &serde_json::Value| v.as_u64().expect("a number");
        let stalls: u64 = report["stalls"].as_object().expect("stalls").values().map(n).sum();
        let slots = n(&report["cycles"]) * n(&report["sms"]) * n(&report["schedulers"]);
        // Loops on the host run a device several times; each run counts for itself.
        assert_eq!(n(&report["issued"]) + stalls, slots, "{workload} {variant}");
    }
}

/// With fewer registers values are spilled: more accesses to local memory, the same results.
#[test]
fn kernels_run_with_few_registers() {
    let run = |workload: &str, registers: u32, policy: &str| {
        let limit = format!("limits.MaxRegSize={registers}");
        let args = ["run", workload, "--chip", "gtx480", "--set", &limit, "--policy", policy];
        let output = warpsim(&[&args[..], &["--check", "full", "--json"]].concat());
        let report = json(&output);
        assert_eq!(report["result"], "pass", "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let kernels = report["kernels"].as_array().expect("kernels");
        let used = kernels.iter().map(|kernel| number(&kernel["registers_per_thread"]));
        let most = used.max().expect("at least one kernel");
        assert!(most > 0 && most <= registers.into(), "{args:?}: {most}");
        number(&report["memory"]["local_accesses"])
    };
    for workload in ["sha256", "sgemm_tiled", "blackscholes", "linked_lists", "quicksort"] {
        let [few, fewer, none] =
            [(20, "crs_stack"), (14, "crs_stack"), (14, "mimd")].map(|(n, policy)| run(workload, n, policy));
        assert!(fewer >= few && none > 0, "{workload}: {few} {fewer} {none}");
    }
    let output = warpsim(&["run", "sha256", "--chip", "gtx480", "--set", "limits.MaxRegSize=3"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("3 are allowed (MaxRegSize)"));
    assert_eq!(output.status.code(), Some(2));
}

/// Warps that spin until others come: thread block compaction waits for one side for ever, and a
/// scheduler that prefers the oldest starves the others where each thread runs by itself.
#[test]
fn producers_and_consumers_meet_at_mbarrier_objects() {
    let run = |variant: &str, options: &[&str]| {
        let args = ["run", "mbarrier_pipeline", "--variant", variant, "--check", "full", "--json"];
        let output = warpsim(&[&args, options].concat());
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(json(&output)["result"], "pass", "{variant} {options:?}: {words}");
    };
    for (variant, chip) in [("sm_80", "a100"), ("sm_80", "gh200"), ("sm_90", "gh200")] {
        for policy in ["crs_stack", "pdom_stack", "convergence_barriers", "multi_path", "mimd"] {
            run(variant, &["--chip", chip, "--policy", policy]);
        }
        run(variant, &["--chip", chip, "--functional"]);
    }
}

/// Chips of every compute capability compute the same, the oldest with PTX that is too new for them.
#[test]
fn every_chip_runs_kernels_right() {
    let listed = warpsim(&["chips"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.split_whitespace().next())
        .filter(|name| *name != "chip" && !name.starts_with('-'))
        .collect();
    assert!(names.len() >= 14, "{names:?}");
    for chip in names {
        let mut pairs = 0;
        for workload in ["reduction", "transpose", "histogram", "bfs"] {
            let args = ["run", workload, "--json", "--check", "full", "--chip", chip];
            let output = warpsim(&[&args[..], &["--variant", "sm_20", "--allow-newer-isa"]].concat());
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{workload} on {chip}: {words}");
            let report = json(&output);
            assert_eq!(report["result"], "pass", "{workload} on {chip}");
            // Left out where there are none.
            pairs += report.get("paired").map_or(0, number);
        }
        let dual = ["gtx560ti", "gtx680", "gtx980", "gtx1080ti"].contains(&chip);
        assert_eq!(pairs > 0, dual, "{chip}: {pairs} pairs");
    }
}

/// Products on tensor cores in their other forms: attention with and without a mask, images with other edges, other sizes.
#[test]
fn products_on_tensor_cores_pass_in_all_their_forms() {
    let cases: [(&str, &[&str], &[&str]); 9] = [
        ("flash_attention", &["causal=1"], &["a100", "rtx3080", "h100"]),
        ("flash_attention", &["length=64", "heads=3"], &["a100"]),
        ("flash_attention_128", &["causal=1", "length=128"], &["a100", "h100"]),
        ("tf32gemm", &["n=192"], &["rtx4090", "h100"]),
        ("fp8gemm", &["n=256"], &["rtx4090", "h100"]),
        ("sparse_gemm", &["n=192"], &["rtx4090", "h100"]),
        ("implicit_gemm_conv", &["stride=2", "pad=0", "channels=64", "height=9"], &["a100", "h100"]),
        ("implicit_gemm_conv", &["size=1", "pad=0", "filters=128", "batch=1"], &["a100"]),
        ("splitk_cluster", &["split=8", "depth=512", "n=64"], &["h100"]),
    ];
    for (workload, settings, chips) in cases {
        for chip in chips {
            let settings = settings.iter().flat_map(|setting| ["--set", setting]);
            let args: Vec<&str> = ["run", workload, "--chip", chip, "--check", "full", "--json"]
                .into_iter()
                .chain(settings)
                .collect();
            let output = warpsim(&args);
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(json(&output)["result"], "pass", "{args:?}: {words}");
        }
    }
}

/// Cleaned up as an assembler does it, programs compute the same; and it does something to most of them.
#[test]
fn every_workload_passes_cleaned_up() {
    let passes = [
        "clean_up",
        "parameters",
        "three_inputs",
        "multiply_add",
        "unroll",
        "predicate",
        "wide_loads",
        "scaled_addresses",
        "balance",
        "schedule",
    ];
    let settings: Vec<String> = passes
        .iter()
        .map(|pass| format!("assembler.{pass}={}", if *pass == "predicate" { "20" } else { "true" }))
        .collect();
    let mut words = vec!["--check", "full"];
    settings.iter().for_each(|setting| words.extend(["--set", setting]));
    all_pass(one_of_each(2), &words);
    let run = |workload: &str, clean_up: &str| {
        let setting = format!("assembler.clean_up={clean_up}");
        json(&warpsim(&[
            "run",
            workload,
            "--variant",
            "sm_52",
            "--chip",
            "gtx980",
            "--set",
            &setting,
            // Copies of iterations are no instructions that went.
            "--set",
            "assembler.unroll=false",
            "--json",
        ]))
    };
    let count = |report: &serde_json::Value, key: &str| {
        report["kernels"][0]["clean_up"][key].as_u64().expect("a count")
    };
    for workload in ["spmv", "sgemm_tiled", "bfs", "transpose"] {
        let (plain, cleaned) = (run(workload, "false"), run(workload, "true"));
        assert!(plain["kernels"][0].get("clean_up").is_none());
        assert!(count(&cleaned, "after") < count(&cleaned, "before"), "{workload}");
        let issues = |report: &serde_json::Value| number(&report["warp_instructions"]);
        assert!(issues(&cleaned) < issues(&plain), "{workload}");
    }
}

#[test]
fn every_workload_passes_functionally() {
    all_pass(everything(), &["--functional"]);
}

#[test]
fn every_workload_passes_thread_by_thread() {
    all_pass(one_of_each(1), &["--policy", "mimd"]);
}

#[test]
fn every_workload_passes_fully_checked_under_other_schedulers() {
    all_pass(one_of_each(3), &["--check", "full", "--scheduler", "two_level"]);
}

#[test]
fn every_workload_passes_under_every_memory_protocol() {
    // The default of gtx480 is fermi, which the other tests run.
    for (nth, protocol) in [(0, "memory.protocol=thesis"), (1, "memory.protocol=volta")] {
        all_pass(one_of_each(nth), &["--set", protocol, "--check", "full"]);
    }
}

/// What a load finds of another SM's write, by protocol: L1 keeps the old words until it is made
/// to forget them, which a fence does under the protocol of Volta alone. Loads past L1 are fresh.
#[test]
fn protocols_differ_in_stale_reads() {
    let file = std::env::temp_dir().join(format!("warpsim-stale-{}", std::process::id()));
    for (protocol, at_once, after_fence) in [("thesis", 0, 0), ("fermi", 0, 0), ("volta", 0, 7)] {
        let protocol = format!("memory.protocol={protocol}");
        let dump = format!("seen={}", file.display());
        let args = ["run", "stale_reads", "--chip", "gtx480", "--set", &protocol, "--check", "full"];
        let output = warpsim(&[&args[..], &["--dump", &dump]].concat());
        assert!(output.status.success(), "{protocol}");
        let bytes = std::fs::read(&file).expect("dumped");
        let words: Vec<u8> = bytes.chunks_exact(4).map(|word| word[0]).collect();
        assert_eq!(words[..32], [at_once; 32], "{protocol}: at once");
        assert_eq!(words[32..], [after_fence; 32], "{protocol}: after a fence");
    }
    std::fs::remove_file(&file).expect("removed");
}

#[test]
fn a_chip_file_may_name_memory_programs() {
    let folder = std::env::temp_dir().join(format!("warpsim-programs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let gtx480 = include_str!("../configs/chips/gtx480.yaml");
    let chip = folder.join("mine.yaml");
    let with = |program: &str| {
        let programs = format!("  protocol: fermi\n  programs: {{ld.global.ca: {program}}}\n");
        std::fs::write(&chip, gtx480.replacen("  protocol: fermi\n", &programs, 1)).expect("written");
    };
    std::fs::copy("configs/isa/2.0.yaml", folder.join("2.0")).expect("a cost table");
    let path = chip.display().to_string();
    // Past L1: nothing hits there any more.
    let text = "evictL1; yield; if (!isCachedL2) { reserveL2; yield; readMem; yield; updateL2; }\n\
                readL2; yield; writeToRegs; yield; releaseRegs; end;";
    std::fs::write(folder.join("past.mem"), text).expect("written");
    with("past.mem");
    let inspected = warpsim(&["inspect", "--memory", &path]);
    let table = String::from_utf8_lossy(&inspected.stdout).into_owned();
    assert!(table.contains("past.mem") && table.contains("named by the chip"), "{table}");
    let printed = warpsim(&["inspect", "--memory", &path, "--operation", "ld.global.ca"]);
    assert!(String::from_utf8_lossy(&printed.stdout).contains(text));
    let hits = |chip: &str| {
        let report = json(&warpsim(&["run", "spmv", "--chip", chip, "--json"]));
        assert_eq!(report["result"], "pass");
        report["memory"]["l1"]["hits"].as_u64().expect("a number")
    };
    assert!(hits("gtx480") > 0);
    assert_eq!(hits(&path), 0);
    for (text, expected) in [("evictL1;\nreadL2;\nend;", "line 2"), ("evictL1;\nreadL3;", "line 2, column")] {
        std::fs::write(folder.join("past.mem"), text).expect("written");
        let output = warpsim(&["run", "spmv", "--chip", &path]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("past.mem") && errors.contains(expected), "{errors}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn peer_kernels_issue_what_others_count() {
    for (workload, warps, threads) in [
        ("vecadd", 90_112, 2_752_512),
        ("fmaloop", 295_200, 9_185_280),
        ("sgemm", 278_016, 8_863_744),
        ("reduce", 81_152, 1_868_032),
    ] {
        let report = json(&warpsim(&["run", workload, "--chip", "gtx480", "--json"]));
        assert_eq!(report["warp_instructions"], warps, "{workload}");
        assert_eq!(report["thread_instructions"], threads, "{workload}");
    }
}

/// Counters of different parts agree: every load is answered once, by the level that counted it.
#[test]
fn loads_are_counted_alike_at_every_level() {
    // Loads are cached and nothing is atomic, so DRAM is read for L2's misses alone.
    let report =
        json(&warpsim(&["run", "bfs", "--chip", "gtx480", "--json", "--set", "memory.copies_fill_l2=false"]));
    let memory = &report["memory"];
    let n = |v: &serde_json::Value| v.as_u64().expect("a number");
    let latency = |level: &str| &memory["load_latency"][level];
    assert_eq!(n(&latency("l1")["count"]), n(&memory["l1"]["hits"]) + n(&memory["l1"]["merges"]));
    assert_eq!(n(&latency("l2")["count"]) + n(&latency("dram")["count"]), n(&memory["l1"]["misses"]));
    assert_eq!(n(&latency("dram")["count"]), n(&memory["l2"]["misses"]));
    assert_eq!(n(&memory["dram"]["reads"]), n(&memory["l2"]["misses"]));
    for level in ["l1", "l2", "dram"] {
        let figures = ["min", "p50", "p90", "p99", "max"].map(|name| n(&latency(level)[name]));
        assert!(figures.is_sorted() && figures[0] > 0, "{level}: {figures:?}");
    }
    let fastest = ["l1", "l2", "dram"].map(|level| n(&latency(level)["min"]));
    assert!(fastest.is_sorted(), "{fastest:?}");
}

/// Latencies, capacities and bandwidths of the chips are those published; the table names the
/// run of each figure.
#[test]
fn published_measurements_are_met() {
    let output = warpsim(&["study", "microbenchmarks", "--gated", "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = rows.as_array().expect("a list");
    let failed: Vec<_> = rows.iter().filter(|row| row["holds"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(output.status.code(), Some(0));
    for chip in ["v100", "rtx2080ti", "a100", "gh200"] {
        for measurement in ["L1 latency", "L2 latency", "DRAM latency", "L1 capacity", "L2 capacity"] {
            let row = rows.iter().find(|row| row["chip"] == chip && row["measurement"] == measurement);
            assert!(row.is_some(), "{measurement} of {chip}");
        }
    }
    assert!(rows.len() >= 67, "{}", rows.len());
    let output = warpsim(&["study", "microbenchmarks", "--chip", "v100,gtx9"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("rtx2080ti"));
}

/// Outside the model: where results do not depend on the schedule, each byte of each buffer is
/// what the functional run leaves there, on chips of every protocol.
#[test]
fn memory_ends_as_in_a_functional_run() {
    let folder = std::env::temp_dir().join(format!("warpsim-bytes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let listed = json(&warpsim(&["workloads", "--json"]));
    let mut compared = 0;
    for workload in listed.as_array().expect("a list").iter().filter(|w| w["schedule"] != "dependent") {
        let name = workload["name"].as_str().expect("a name");
        for (chip, capability) in [("gtx480", 20), ("a100", 80)] {
            let bytes = |more: &[&str]| -> Vec<Vec<u8>> {
                let buffers = workload["buffers"].as_array().expect("a list").iter();
                let files: Vec<_> = buffers.map(|b| folder.join(b.as_str().expect("a name"))).collect();
                let dumps: Vec<String> = files
                    .iter()
                    .map(|file| format!("{}={}", file.file_name().expect("one").display(), file.display()))
                    .collect();
                let dumps = dumps.iter().flat_map(|dump| ["--dump", dump]);
                let args: Vec<&str> = ["run", name, "--chip", chip]
                    .into_iter()
                    .chain(more.iter().copied())
                    .chain(dumps)
                    .collect();
                let output = warpsim(&args);
                assert!(output.status.success(), "{name} {chip}");
                files.iter().map(|file| std::fs::read(file).expect("dumped")).collect()
            };
            // Not every workload has a program that the chip runs.
            let variants = workload["variants"].as_array().expect("a list");
            let target = |v: &serde_json::Value| v.as_str()?.strip_prefix("sm_")?.parse::<u32>().ok();
            if !variants.iter().filter_map(target).any(|target| target <= capability) {
                continue;
            }
            let (timed, functional) = (bytes(&[]), bytes(&["--functional"]));
            assert!(timed == functional, "{name} on {chip}");
            compared += timed.len();
        }
    }
    assert!(compared >= 100, "{compared}");
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// Counters that say the same thing in two ways agree.
#[test]
fn memory_counters_agree() {
    for (workload, chip) in [("sgemm_tiled", "gtx480"), ("histogram", "v100"), ("bitonic_sort", "gtx480")] {
        let report = json(&warpsim(&["run", workload, "--chip", chip, "--json"]));
        let memory = &report["memory"];
        let n = number;
        // A distribution of nothing is left out.
        let count = |latency: &serde_json::Value| if latency.is_null() { 0 } else { n(&latency["count"]) };
        let turns = memory["on_chip_turns"].as_object().expect("turns");
        let turns = || turns.iter().map(|(turns, count)| (turns.parse::<u64>().expect("a number"), n(count)));
        assert_eq!(turns().map(|(_, count)| count).sum::<u64>(), n(&memory["on_chip_accesses"]));
        let extra = turns().map(|(turns, count)| (turns - 1) * count).sum::<u64>();
        // Lanes of atomics wait for one another besides.
        let waits = n(&memory["conflict_cycles"]) - extra;
        assert_eq!(waits > 0, workload == "histogram", "{workload}");
        assert!(n(&memory["on_chip_accesses"]) > 0);
        let loads: u64 = ["l1", "l2", "dram"].iter().map(|level| count(&memory["load_latency"][level])).sum();
        let others = count(&memory["store_latency"]) + count(&memory["atomic_latency"]);
        assert!(loads > 0 && others > 0, "{workload}: {loads} loads, {others} others");
        assert_eq!(loads + others, n(&memory["transactions"]), "{workload}");
        assert_eq!(n(&memory["atomics"]) > 0, workload == "histogram");
        assert_eq!(count(&memory["atomic_latency"]) > 0, workload == "histogram");
        let queue = &memory["queues"]["l1_mshrs"];
        assert!(n(&queue["most"]) > 0 && n(&queue["entry_cycles"]) >= n(&queue["most"]), "{workload}");
    }
    // Local memory is told apart.
    let report = json(&warpsim(&["run", "nqueens", "--chip", "gtx480", "--json"]));
    let memory = &report["memory"];
    let n = |key: &str| number(&memory[key]);
    assert!(n("local_accesses") > 0 && n("local_accesses") <= n("accesses"));
    let [local, all] = ["local_hits", "hits"].map(|key| number(&memory["l1"][key]));
    assert!(local > 0 && local <= all, "{local} of {all}");
}

#[test]
fn exit_statuses_and_messages() {
    let cases: [(&[&str], i32, &str); 8] = [
        (&["run", "vecad"], 2, "did you mean `vecadd`?"),
        (&["run", "vecadd", "--set", "m=3"], 2, "no parameter `m`"),
        (&["run", "vecadd", "--policy", "crs_stack:deep=3"], 2, "depth"),
        (&["run", "vecadd", "--chip", "gtx9"], 2, "gtx480"),
        (&["run", "vecadd", "--max-cycles", "100"], 3, "--max-cycles"),
        (&["run", "warp_sum", "--chip", "gtx480"], 2, "no variant"),
        (&["run", "vecadd", "--variant", "sm_90", "--set", "block=2000"], 2, "MaxBlockSize"),
        (&["run"], 2, "Usage"),
    ];
    for (args, status, words) in cases {
        let output = warpsim(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
        assert!(text.contains(words), "{args:?}: {text}");
    }
}

#[test]
fn a_bad_address_names_everything() {
    let output = warpsim(&[
        "run",
        "workloads/vecadd/vecadd.sm_20.ptx",
        "--entry",
        "vecadd",
        "--grid",
        "2",
        "--block",
        "64",
        "--arg",
        "buffer:f32:100:iota",
        "--arg",
        "buffer:f32:128",
        "--arg",
        "buffer:f32:128",
        "--arg",
        "s32:128",
    ]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    for part in ["kernel vecadd", "block (1, 0, 0)", "warp 1", "lane 4", "vecadd.sm_20.ptx:43", "`arg0`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
