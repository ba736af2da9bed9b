//! Sweeps, studies and suites of a CUDA program. It is of the driver API with its PTX within it: a C compiler builds it.

#![allow(missing_docs, reason = "tests")]

mod common;

use std::path::Path;

use common::cuda::{built, ran, succeeded};
use common::{Folder, parse, text, warpsim};
use serde_json::json;

/// The table of a sweep: rows as maps.
fn rows(path: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).expect("a table");
    reader.deserialize().map(|row| row.expect("a row")).collect()
}

#[test]
fn a_sweep_of_a_program_has_its_totals_its_kernels_and_its_faults() {
    let Some((program, library)) = built() else { return };
    let folder = Folder::new("cuda-sweep");
    let program = program.display();
    let sweep = folder.write(
        "s.yaml",
        &format!(
            "schema: 1\nname: s\naxes:\n  workload:\n  - cuda: {{name: adds, command: '{program} {{n}}', expect: '^PASS: [0-9]+ times'}}\n  \
             - cuda: {{name: faults, command: '{program} {{n}} fault'}}\n  - cuda: {{name: wrong, command: '{program} {{n}}', expect: FAIL}}\n  \
             chip: [rtx2080ti, v100]\n  set: {{n: [1, 3]}}\nexclude:\n- {{workload: [faults, wrong], n: 1}}\n- {{workload: wrong, chip: rtx2080ti}}\n"
        ),
    );
    let results = folder.join("results");
    let output = ran(&library, &["sweep", "run", &sweep, "--results", &results, "--jobs", "2"]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("7 points, 7 simulated") && !said.contains("internal error"), "{said}");
    let again = ran(&library, &["sweep", "run", &sweep, "--results", &results]);
    assert!(text(&again.stdout).contains("0 simulated, 7 already had results"), "{}", text(&again.stdout));
    succeeded(&ran(&library, &["sweep", "collect", &sweep, "--results", &results]));
    let table = rows(&format!("{results}/table.csv"));
    let of = |workload: &str,
              chip: &str,
              n: &str,
              metric: &str|
     -> Vec<&std::collections::BTreeMap<String, String>> {
        let own = [("workload", workload), ("chip", chip), ("n", n), ("metric", metric)];
        table.iter().filter(|row| own.iter().all(|(key, value)| row[*key] == *value)).collect()
    };
    let value = |workload: &str, chip: &str, n: &str, metric: &str| -> f64 {
        let found = of(workload, chip, n, metric);
        assert_eq!((found.len(), found[0]["result"].as_str()), (1, "pass"), "{metric}");
        found[0]["value"].parse().expect("a number")
    };
    // v100 is older than the PTX.
    assert!(of("adds", "v100", "1", "").iter().all(|row| row["result"] == "fail"), "{table:?}");
    for (n, count) in [("1", 1.0), ("3", 3.0)] {
        let figure = |metric: &str| value("adds", "rtx2080ti", n, metric);
        assert_eq!((figure("kernels.add.launches"), figure("kernels.scale.launches")), (count, count));
        // 16 blocks of 8 warps, 10 instructions each.
        assert_eq!(figure("kernels.add.warp_instructions"), count * 16.0 * 8.0 * 10.0);
        assert_eq!(figure("warp_instructions"), 2.0 * count * 16.0 * 8.0 * 10.0);
        assert_eq!(figure("cycles"), figure("kernels.add.cycles") + figure("kernels.scale.cycles"));
        assert!(figure("memory.l2.hit_rate") > 0.0 && figure("ipc") > 0.0);
    }
    let fault = of("faults", "rtx2080ti", "3", "");
    assert_eq!((fault.len(), fault[0]["result"].as_str()), (1, "fault"));
    assert!(fault[0]["message"].contains("`add`") || fault[0]["message"].contains("add"), "{fault:?}");
    // The same as `warpsim cuda` reports, by any number of threads.
    let mut texts = Vec::new();
    for threads in ["1", "2"] {
        let out = folder.join(&format!("out{threads}"));
        let words = ["cuda", "--threads", threads, "--out", &out, "--", &program.to_string(), "3"];
        assert!(succeeded(&ran(&library, &words)).starts_with("PASS: 3 times"));
        texts.push(std::fs::read(format!("{out}/report.json")).expect("a report"));
    }
    assert_eq!(texts[0], texts[1]);
    let report = parse(&texts[0]);
    assert_eq!(report["cycles"].as_f64(), Some(value("adds", "rtx2080ti", "3", "cycles")));
    assert_eq!(report["launches"].as_array().map(Vec::len), Some(6));
    let of_sections: u64 = (0..6).filter_map(|i| report["launches"][i]["section"]["cycles"].as_u64()).sum();
    assert_eq!(report["cycles"].as_u64(), Some(of_sections));
    // A page of its launches, and a comparison launch by launch.
    let page = folder.join("page.html");
    succeeded(&ran(&library, &["report", &folder.join("out1"), "-o", &page]));
    assert!(std::fs::read_to_string(&page).expect("a page").contains("0005 scale"));
    let other = folder.join("other");
    let set = ["cuda", "--set", "memory.l1.hit_latency=99", "--out", &other, "--", &program.to_string(), "2"];
    succeeded(&ran(&library, &set));
    let said = succeeded(&ran(&library, &["compare", &folder.join("out1"), &other]));
    assert!(said.contains("A has 6 launches; B has 4"), "{said}");
    assert!(
        said.lines().any(|line| line.contains(" add ") && line.contains(" 2 ") && line.contains("–")),
        "{said}"
    );
}

#[test]
fn a_suite_and_a_policy_study_hold_programs() {
    let Some((program, library)) = built() else { return };
    let folder = Folder::new("cuda-suite");
    let program = program.display().to_string();
    let run = format!("cuda --chip rtx2080ti -- {program} 2");
    let suite = folder.write("s.yaml", &format!("schema: 1\nname: s\nruns:\n- {run}\n"));
    succeeded(&ran(&library, &["baseline", "record", "--suite", &suite]));
    let check = ["baseline", "check", "--suite", &suite];
    assert!(succeeded(&ran(&library, &check)).contains("1 of 1 runs"));
    let file = folder.join("s.json");
    let mut recorded = parse(&std::fs::read(&file).expect("a file"));
    let kernels = recorded["runs"][0]["kernels"].as_array_mut().expect("launches");
    assert_eq!(kernels.len(), 4);
    kernels[2][1] = 1.into();
    std::fs::write(&file, recorded.to_string()).expect("written");
    let output = ran(&library, &check);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("launch 1 of add took 1 core cycles; now"),
        "{}",
        text(&output.stdout)
    );
    let words = ["study", "policies", "--program", &format!("{program} 1"), "--chip", "rtx2080ti", "--json"];
    let words = [&words[..], &["--policy", "pdom_stack", "--policy", "mimd"]].concat();
    let rows = parse(succeeded(&ran(&library, &words)).as_bytes());
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["result"] == "pass" && row["cycles"].as_u64() > Some(0)), "{rows:?}");
}

#[test]
fn what_is_wrong_with_a_program_of_a_sweep_is_said() {
    let folder = Folder::new("cuda-wrong");
    let plan = |axes: &str| {
        let sweep = folder.write("s.yaml", &format!("schema: 1\nname: s\naxes:\n{axes}"));
        let output = ran(Path::new(env!("CARGO_BIN_EXE_warpsim")), &["sweep", "plan", &sweep]);
        text(&output.stdout) + &text(&output.stderr)
    };
    for (axes, wanted) in [
        ("  workload: {cuda: {command: \"'open\"}}\n", "is no command"),
        ("  workload: {cuda: {comand: x}}\n", "comand"),
        (
            "  workload: [{cuda: {command: a}}, {cuda: {command: a, warm: 1}}]\n",
            "two workloads are called `a`",
        ),
        ("  workload: {cuda: {command: 'true'}}\n  set: {n: 1}\n", "has no {n} that `n` could stand for"),
        ("  workload: {cuda: {command: 'true'}}\n  seed: 3\n", "--seed is for workloads"),
        ("  workload: {cuda: {command: 'true', expect: '('}}\n", "regex parse error"),
    ] {
        let said = plan(axes);
        assert!(said.contains(wanted), "{axes}: {said}");
    }
}

#[test]
fn kernels_are_compared_with_measurements_the_worst_first() {
    let Some((program, library)) = built() else { return };
    let folder = Folder::new("cuda-silicon");
    let out = folder.join("out");
    succeeded(&ran(&library, &["cuda", "--out", &out, "--", &program.display().to_string(), "3"]));
    let report = parse(&std::fs::read(format!("{out}/report.json")).expect("a report"));
    let cycles = |kernel: &str, launches: &[usize]| {
        let all = report["launches"].as_array().expect("launches");
        let own = all
            .iter()
            .filter(|launch| launch["kernel"] == kernel)
            .map(|l| l["cycles"].as_f64().expect("cycles"));
        let own: Vec<f64> = own.collect();
        launches.iter().map(|launch| own[*launch]).sum::<f64>() / launches.len() as f64
    };
    let (add, scale) = (cycles("add", &[0, 2]), cycles("scale", &[1]));
    std::fs::copy(&program, folder.join("suite-adds")).expect("a program");
    let data = folder.write(
        "m.yaml",
        &format!(
            "schema: 1\nsources: {{own: a test}}\nmachines: {{card: {{chip: rtx2080ti, source: own}}}}\nprograms:\n\
             - program: adds\n  arguments: '3'\n  files: [{{path: in/a, lines: 3, first: 0, span: 2}}]\n  folder: in\n  kernels:\n\
             \x20 - {{kernel: ^add$, launches: '0,2', measured: {{card: {{cycles: {}, l1_read_hits: 1, l1_read_misses: 3}}}}}}\n\
             \x20 - {{kernel: ^scale$, launches: '1', measured: {{card: {{cycles: {scale}}}}}}}\n\
             - {{program: other, kernels: [{{kernel: k, measured: {{card: {{cycles: 5}}}}}}]}}\n",
            add / 2.0
        ),
    );
    let study = |more: &[&str]| {
        let words = ["study", "silicon", "--programs", &folder.join(""), "--data", &data];
        ran(&library, &[&words, more].concat())
    };
    let output = study(&["--json"]);
    let found = parse(succeeded(&output).as_bytes());
    let row = |at: usize, key: &str| &found["rows"][at][key];
    assert_eq!(
        (row(0, "kernel"), row(0, "cycles"), row(0, "ratio")),
        (&json!("^add$"), &json!(add), &json!(2.0))
    );
    assert_eq!(
        (row(1, "kernel"), row(1, "launches"), row(1, "ratio")),
        (&json!("^scale$"), &json!(1), &json!(1.0))
    );
    assert_eq!(row(0, "warp_instructions").as_f64(), Some(16.0 * 8.0 * 10.0));
    let agreement = &found["agreement"];
    assert_eq!((&agreement["mean_absolute_error"], &agreement["count"]), (&json!(50.0), &json!(2)));
    assert!(
        text(&output.stderr).contains("not compared: other: no such program"),
        "{}",
        text(&output.stderr)
    );
    let shown = succeeded(&study(&[]));
    let of = |what: &str| shown.find(what).unwrap_or_else(|| panic!("{what}: {shown}"));
    assert!(of("+100.0 %") < of("+0.0 %") && of("25 / ") > 0 && of("median 50.0 %") > 0, "{shown}");
    // A kernel that is never launched, a chip without measurements, a folder without programs.
    let wrong = std::fs::read_to_string(&data).expect("the data").replace("^scale$", "^scales$");
    let wrong = folder.write("w.yaml", &wrong);
    let output = ran(&library, &["study", "silicon", "--programs", &folder.join(""), "--data", &wrong]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("no launch of `^scales$` was timed"), "{said}");
    let output = study(&["--chip", "v100"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    let output = study(&["--only", "^other kernels$"]);
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("no program that matches `^other kernels$`"),
        "{said}"
    );
    let output = ran(&library, &["study", "silicon", "--programs", &folder.join("in-none")]);
    assert!(
        output.status.code() == Some(2) && text(&output.stderr).contains("in-none"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn launches_of_workloads_are_compared_with_measurements() {
    let folder = Folder::new("silicon-workloads");
    let words = [
        "run",
        "hotspot",
        "--chip",
        "h100",
        "--set",
        "memory.copies_fill_l2=false",
        "--skip-launches",
        "1",
        "--time-launches",
        "1",
        "--profile",
        "--json",
    ];
    let report = common::json(&warpsim(&words));
    let cycles = report["kernels"][1]["cycles"].as_f64().expect("cycles");
    let operations = report["kernels"][1]["machine_instructions"].as_f64().expect("a count");
    let lines = report["lines"].as_array().expect("lines");
    let of_units = |line: &serde_json::Value, units: &[&str]| -> f64 {
        units.iter().map(|unit| line["machine_operations"][unit].as_f64().unwrap_or(0.0)).sum()
    };
    let units = ["alu", "fma", "imul", "fp64", "convert", "sfu", "load_store", "control", "tensor"];
    let all = lines.iter().map(|line| of_units(line, &units)).sum::<f64>();
    assert_eq!(all, operations, "lines have what the kernel has");
    // Moves of constants and of the numbers of threads and blocks are of another class, whatever moves them.
    let moves = |line: &&serde_json::Value| {
        let text = line["text"].as_str().expect("a text");
        text == "mov" || ["%tid", "%ntid", "%ctaid"].iter().any(|own| text.contains(own))
    };
    let others = lines.iter().filter(|line| !moves(line));
    let multipliers = others.map(|line| of_units(line, &["fma", "imul"])).sum::<f64>();
    assert!(multipliers > 0.1 * operations, "{multipliers} of {operations}");
    // A machine that takes half of the cycles, a quarter of the instructions, and half of those of one class.
    let data = |kernel: &str, launch: usize| {
        format!(
            "schema: 1\nsources: {{own: a test}}\nmachines: {{card: {{chip: h100, set: [memory.copies_fill_l2=false], \
             launch_cycles: 100, source: own}}}}\nprograms: []\nworkloads:\n- run: hotspot\n  kernels:\n  - {{kernel: {kernel}, \
             launch: {launch}, measured: {{card: {{cycles: {}, warp_instructions: {}, pipes: {{alu: 0, fma: {}, fp64: 0, \
             xu: 0, lsu: 0, uniform: 0, cbu: 0, tensor: 0}}}}}}}}\n",
            (cycles + 100.0) / 2.0,
            operations / 4.0,
            multipliers / 2.0
        )
    };
    let file = folder.write("m.yaml", &data("hotspot", 1));
    let found = common::json(&warpsim(&["study", "silicon", "--workloads", "--data", &file, "--json"]));
    let row = &found["rows"][0];
    assert_eq!(
        (&row["cycles"], &row["ratio"], &row["kernel"]),
        (&json!(cycles + 100.0), &json!(2.0), &json!("hotspot"))
    );
    assert_eq!(found["agreement"]["mean_absolute_error"], json!(100.0));
    let classes = found["instructions"].as_array().expect("classes");
    let error = |class: &str| {
        let own = classes.iter().find(|own| own["class"] == class).unwrap_or_else(|| panic!("{class}"));
        own["median_absolute_error"].as_f64().expect("an error")
    };
    assert_eq!((error("all"), error("of these, multipliers")), (300.0, 100.0));
    // Classes that the machine did not execute are left out.
    assert!(classes.iter().all(|own| own["class"] != "double precision"), "{classes:?}");
    let own = row["classes"].as_object().expect("classes").iter().filter(|(name, _)| *name != "multipliers");
    assert_eq!(own.map(|(_, count)| count.as_f64().expect("a count")).sum::<f64>(), operations);
    // A launch that is another kernel, or not there; a chip that was not measured.
    for (kernel, launch) in [("other", 1), ("hotspot", 10_000)] {
        let file = folder.write("w.yaml", &data(kernel, launch));
        let output = warpsim(&["study", "silicon", "--workloads", "--data", &file]);
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && output.stdout.is_empty() && said.contains(kernel),
            "{said}"
        );
    }
    let output =
        warpsim(&["study", "silicon", "--workloads", "--data", &file, "--set", "sm.nothing=1", "--json"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("has no key `sm.nothing`"), "{said}");
    let output = warpsim(&["study", "silicon", "--workloads", "--data", &file, "--chip", "v100"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    // Launches of one kernel have changes of their own, and one that has none says why.
    let more = data("hotspot", 0).split_once("  - {kernel").expect("a kernel").1.to_string();
    let other = more.replace("hotspot", "other").replace("launch: 0", "launch: 2");
    let file =
        folder.write("two.yaml", &format!("{}  - {{kernel{more}  - {{kernel{other}", data("hotspot", 1)));
    let words = ["study", "silicon", "--workloads", "--data", &file];
    let vary = ["--sensitivity", "--by", "2", "--parameter", "memory.l2.hit_latency", "--parameter"];
    let vary = [&words[..], &vary, &["sm.barrier_latency"]].concat();
    let found = common::json(&warpsim(&[&vary[..], &["--json"]].concat()));
    let effects = found["effects"].as_array().expect("effects");
    let latency =
        effects.iter().find(|effect| effect["set"][0].as_str().is_some_and(|set| set.contains("l2.")));
    let kernels = latency.expect("one of L2")["kernels"].as_array().expect("kernels");
    let shown = text(&warpsim(&vary).stdout);
    assert_eq!(kernels.len(), 2, "{kernels:?}");
    assert_ne!(kernels[0]["change"], kernels[1]["change"]);
    for kernel in kernels {
        let change = format!("{:+.1} %", kernel["change"].as_f64().expect("a change"));
        let row = format!("hotspot {} card", kernel["launch"]);
        let plain = |line: &str| line.replace('|', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = shown.lines().map(plain).filter(|line| line.contains(&row));
        let line = lines.next().unwrap_or_else(|| panic!("{row}: {shown}"));
        assert!(line.contains(&format!("memory.l2.hit_latency=492 {change}")), "{line}");
    }
    // What could not be compared at all is said once.
    assert_eq!(found["not_compared"].as_array().map(Vec::len), Some(1), "{}", found["not_compared"]);
}

/// The same launch with an operation of the model switched off or a key changed, against runs with these settings.
#[test]
fn parts_of_the_model_and_keys_are_varied() {
    let run = |set: &[&str]| {
        let words: Vec<&str> =
            ["run", "reduce", "--chip", "h100", "--set", "memory.copies_fill_l2=false", "--json"]
                .into_iter()
                .chain(set.iter().flat_map(|set| ["--set", *set]))
                .collect();
        common::json(&warpsim(&words))["kernels"][0]["cycles"].as_f64().expect("cycles")
    };
    let study = |words: &[&str]| {
        let fixed = ["study", "silicon", "--workloads", "--chip", "h100", "--only", "^reduce$"];
        warpsim(&fixed.iter().chain(words).copied().collect::<Vec<_>>())
    };
    let found = common::json(&study(&["--ablation", "--json"]));
    let effects = found["effects"].as_array().expect("effects");
    let of = |name: &str| effects.iter().find(|effect| effect["name"] == name).expect("it has this effect");
    let row = &found["rows"][0];
    let launch = row["cycles"].as_f64().expect("cycles") - run(&[]);
    assert!(launch > 0.0, "cycles of a launch are added: {row}");
    let without = of("combined atomics of a warp");
    let cycles = run(&["assembler.combine_atomics=none"]) + launch;
    let change = without["kernels"]
        .as_array()
        .expect("kernels")
        .first()
        .map_or(0.0, |kernel| kernel["change"].as_f64().expect("a change"));
    let base = row["cycles"].as_f64().expect("cycles");
    assert!((change - 100.0 * (cycles / base - 1.0)).abs() < 1e-9, "{without}");
    let error =
        |cycles: f64| 100.0 * (cycles / row["silicon"]["cycles"].as_f64().expect("cycles") - 1.0).abs();
    for (side, cycles) in [("before", base), ("after", cycles)] {
        let told = without[side]["mean_absolute_error"].as_f64().expect("an error");
        assert!((told - error(cycles)).abs() < 1e-9, "{side}: {without}");
    }
    // What the chip has not is told.
    let told = found["not_compared"].to_string();
    assert!(told.contains("scaled addresses: the chip has it so"), "{told}");

    let keys =
        ["--sensitivity", "--parameter", "memory.l2.hit_latency", "--parameter", "sm.nothing", "--by", "2"];
    let output = study(&keys);
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("246 to") && out.contains("memory.l2.hit_latency=492 +"), "{out}");
    assert!(errors.contains("not compared: h100, sm.nothing: there is no such key"), "{errors}");
    for (wrong, why) in [
        (&["--sensitivity", "--by", "1"][..], "other than 1"),
        (&["--only", "("][..], "regex"),
        (&["--only", "no such workload"][..], "matches"),
        (&["--parameter", "sm.schedulers"][..], "--sensitivity"),
    ] {
        let output =
            warpsim(&["study", "silicon", "--workloads"].iter().chain(wrong).copied().collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{wrong:?}: {said}");
    }
}
