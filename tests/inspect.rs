//! `inspect FILE.ptx` and `isa`: what they tell is what the program and the table are.

mod common;

use common::warpsim;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn text(args: &[&str]) -> String {
    let output = warpsim(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_kernel_is_shown_with_graph_injected_instructions_branches_memory_and_occupancy() {
    let shown = text(&["inspect", "workloads/vecadd/vecadd.sm_20.ptx", "--entry", "vecadd"]);
    for words in [
        "kernel vecadd: 22 instructions, 2 more injected",
        "machine operations by the cost table 2.0: ",
        "6 blocks per SM, 48 of 48 warps, limited by warps",
        "+ ssy → 23",
        "+ sync",
        "| 32   | @%p1 bra LBB0_2 | may diverge | at line 48 (B2) |",
        "B1: from B0; to B2; dominated by B0; post-dominated by B2:",
        "r0 ← [24]",
        "| global | load   | 2            | 8                |",
    ] {
        assert!(shown.contains(words), "no `{words}` in\n{shown}");
    }
    assert!(!shown.contains("kernel sgemm"), "one kernel was asked for");
    // What the passes of the assembler leave: parameters are operands, an address is one operation.
    let passes = ["clean_up", "parameters", "three_inputs", "multiply_add"];
    let settings: Vec<String> = passes.iter().map(|pass| format!("assembler.{pass}=true")).collect();
    let mut words = vec!["inspect", "workloads/vecadd/vecadd.sm_52.ptx", "--chip", "qv100"];
    settings.iter().for_each(|setting| words.extend(["--set", setting]));
    let shown = text(&words);
    assert!(shown.contains("mad.wide") && shown.contains("[24]"), "{shown}");
    assert!(!shown.contains("mul.wide") && !shown.contains("ld.param"), "{shown}");
    // As many as ptxas 12.9 writes for sm_75.
    assert!(shown.contains("kernel vecadd: 15 instructions"), "{shown}");
    assert!(shown.contains("machine operations by the cost table 7.0: 15\n"), "{shown}");
    assert!(!warpsim(&[&words[..4], &["--set", "assembler.three=true"]].concat()).status.success());
    let atomics = ["inspect", "workloads/string_search/string_search.sm_61.ptx", "--chip", "h100"];
    let combined = text(&atomics).matches("  one operation of the warp\n").count();
    assert_eq!(combined, text(&atomics).matches("atom.global.m").count());
    assert!(combined > 0);
    let separate = text(&[&atomics[..], &["--set", "assembler.combine_atomics=none"]].concat());
    assert!(!separate.contains("one operation of the warp"), "{separate}");
    // Uniform branches, a loop, the break that leaves it, limits of another chip.
    let shown = text(&[
        "inspect",
        "workloads/vecadd/vecadd.sm_20.ptx",
        "--entry",
        "sgemm",
        "--chip",
        "qv100",
        "--block",
        "1024",
    ]);
    for words in [
        "qv100 with blocks of 1024 threads: 2 blocks",
        "| B2   | sgemm    | 207–269 |",
        "uniform",
        "in 1 loop:",
    ] {
        assert!(shown.contains(words), "no `{words}` in\n{shown}");
    }
    assert!(!shown.contains("may diverge"), "{shown}");
}

#[test]
fn graphs_are_for_graphviz_to_draw() {
    let shown = text(&["inspect", "workloads/vecadd/vecadd.sm_20.ptx", "--entry", "vecadd", "--graphviz"]);
    assert!(shown.starts_with("digraph \"vecadd\" {") && shown.trim_end().ends_with('}'), "{shown}");
    let edges: Vec<&str> = shown.lines().map(str::trim).filter(|line| line.contains("->")).collect();
    let expected =
        ["b0_0 -> b0_1;", "b0_0 -> b0_2;", "b0_0 -> b0_2 [style=dashed, constraint=false];", "b0_1 -> b0_2;"];
    assert_eq!(edges, expected);
}

#[test]
fn every_program_of_every_workload_can_be_inspected() {
    let mut files = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(ROOT).join("workloads")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "ptx") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 60, "{}", files.len());
    files.sort_unstable();
    let mut drawn_of = None;
    for file in files {
        let name = file.display().to_string();
        let shown = text(&["inspect", &name]);
        assert!(shown.contains("kernel ") && shown.contains("limited by"), "{name}");
        // One drawing a workload.
        if drawn_of.as_deref() != file.parent() {
            let drawn = text(&["inspect", &name, "--graphviz"]);
            assert_eq!(drawn.matches('{').count(), drawn.matches('}').count(), "{name}");
            drawn_of = file.parent().map(std::path::Path::to_path_buf);
        }
    }
}

#[test]
fn wrong_files_and_kernels_are_named() {
    for (args, words) in [
        (&["inspect", "nowhere.ptx"][..], "nowhere.ptx"),
        (&["inspect", "workloads/vecadd/vecadd.sm_20.ptx", "--entry", "vecad"], "vecadd"),
        (&["inspect", "workloads/vecadd/vecadd.sm_20.ptx", "--chip", "gtx"], "gtx480"),
        (&["isa", "ad"], "did you mean `add`?"),
    ] {
        let output = warpsim(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn a_file_of_a_gigabyte_is_refused() {
    let path = std::env::temp_dir().join(format!("warpsim-gigabyte-{}.ptx", std::process::id()));
    let file = std::fs::File::create(&path).expect("a file");
    // Without contents: the file system keeps no blocks for it.
    file.set_len(1 << 30).expect("a length");
    let output = warpsim(&["inspect", &path.display().to_string()]);
    std::fs::remove_file(&path).expect("removed");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("has 1024 MiB; texts of up to 64 MiB are read"), "{said}");
}

#[test]
fn the_page_of_instructions_is_the_table() {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/isa.md")).expect("docs/isa.md");
    let table = text(&["isa", "--markdown"]);
    assert!(page == table, "run `warpsim isa --markdown > docs/isa.md`");
    let one = text(&["isa", "dp4a"]);
    assert!(
        one.contains("dp4a.(u32|s32).(u32|s32)") && one.contains("sm_61") && one.contains("executed"),
        "{one}"
    );
    let parsed = text(&["isa", "tcgen05"]);
    assert!(parsed.contains("parsed") && !parsed.contains("executed"), "{parsed}");
    let list: serde_json::Value = serde_json::from_str(&text(&["isa", "--json"])).expect("JSON");
    assert!(list.as_array().is_some_and(|rows| rows.len() >= 135), "{}", list.as_array().map_or(0, Vec::len));
}

#[test]
fn a_kernel_that_cannot_run_is_said_to_be_one() {
    let folder = std::env::temp_dir().join(format!("warpsim-inspect-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("mixed.ptx");
    let body = ".version 8.6\n.target sm_100a\n.address_size 64\n\
                .visible .entry tensor() { .reg .b32 %r<9>;\nmov.u32 %r1, 1;\n\
                tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nret; }\n\
                .visible .entry unknown() { .reg .b32 %r<9>;\nsummon.u32 %r1;\nret; }\n\
                .visible .entry fine() { ret; }\n";
    std::fs::write(&file, body).expect("a writable folder");
    let file = file.to_str().expect("a path in UTF-8");
    let shown = text(&["inspect", file]);
    for words in [
        "kernel tensor cannot run:\n",
        "mixed.ptx:6:1: error: `tcgen05` is parsed but not executed",
        "kernel unknown cannot run:\n",
        "mixed.ptx:9:1: error: unknown instruction `summon`",
        "kernel fine: 3 instructions",
    ] {
        assert!(shown.contains(words), "no `{words}` in\n{shown}");
    }
    assert!(!shown.contains("kernel fine cannot run"), "{shown}");
    for (entry, words) in [("tensor", "`tcgen05` is parsed but not executed"), ("unknown", "`summon`")] {
        let output = warpsim(&["inspect", file, "--entry", entry]);
        assert_eq!(output.status.code(), Some(2), "{entry}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{entry}");
    }
    assert!(warpsim(&["inspect", file, "--entry", "fine"]).status.success());
    std::fs::remove_dir_all(&folder).expect("it is ours");
}
